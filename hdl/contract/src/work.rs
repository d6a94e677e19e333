//! Work requests that change MPT entries: layouts, outcome and the stream port that carries them (contract sections 2, 5
//! and 6; IBTA where the contract is silent).
//!
//! A request is the driver's 64-byte send work request. The contract gives the fields of FAST_REG_PMR and BIND_MW; the key
//! of LOCAL_INV and SEND_WITH_INV stands in dword 2, where BIND_MW has its new R_Key. SEND_WITH_INV is presented by the
//! side that received it: function, PD and QPN are those of the queue pair it arrived at.

use crate::Layout;
use crate::ports::{Direction, StreamPort};

/// Bytes of a work request.
pub const WORK_REQUEST_BYTES: usize = 64;
/// Most pages of a fast registration.
pub const FAST_REGISTRATION_PAGES_MAX: u64 = 512;

/// Opcode of a work request.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkOpcode {
    /// A send of the other side that invalidates a key here.
    SendWithInvalidate = 0x01,
    /// Registers pages with a fast-registration MR.
    FastRegister = 0x0a,
    /// Invalidates a key.
    LocalInvalidate = 0x0b,
    /// Binds a memory window to a region, or unbinds it.
    BindWindow = 0x0c,
}

impl WorkOpcode {
    /// All opcodes in order of code.
    pub const ALL: [WorkOpcode; 4] =
        [Self::SendWithInvalidate, Self::FastRegister, Self::LocalInvalidate, Self::BindWindow];

    /// The opcode of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| *opcode as u8 == code)
    }

    /// Name as in the contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendWithInvalidate => "SEND_WITH_INV",
            Self::FastRegister => "FAST_REG_PMR",
            Self::LocalInvalidate => "LOCAL_INV",
            Self::BindWindow => "BIND_MW",
        }
    }
}

crate::layout! {
    /// FAST_REG_PMR (0x0a).
    pub mod fast_register: 64 bytes {
        OPCODE / "opcode" [4:0] = "0x0a.";
        RESERVED_5 / "reserved_5" [31:5] = "Flags of the send queue; not looked at.";
        PBL_BA / "pbl_ba" [95:32] = "Root of the page table: the bus address, unshifted.";
        LENGTH / "length" [159:96] = "Length of the region in bytes.";
        KEY / "key" [191:160] = "New key: index of the entry and the new variant.";
        VA / "va" [255:192] = "First virtual address of the region.";
        PBL_SIZE / "pbl_size" [287:256] = "Pages, 1 to 512.";
        RESERVED_288 / "reserved_288" [291:288] = "Not looked at.";
        BUF_PG_SZ / "buf_pg_sz" [295:292] = "Page size: log2(bytes) minus the table set's page_shift_base.";
        RESERVED_296 / "reserved_296" [297:296] = "Not looked at.";
        BIND_EN / "bind_en" [298:298] = "Right: windows may be bound.";
        ATOMIC_EN / "atomic_en" [299:299] = "Right: remote atomic.";
        RR_EN / "rr_en" [300:300] = "Right: remote read.";
        RW_EN / "rw_en" [301:301] = "Right: remote write.";
        LW_EN / "lw_en" [302:302] = "Right: local write.";
        RESERVED_303 / "reserved_303" [319:303] = "Not looked at.";
        RESERVED_320 / "reserved_320" [383:320] = "Not looked at.";
        RESERVED_384 / "reserved_384" [447:384] = "Not looked at.";
        RESERVED_448 / "reserved_448" [511:448] = "Not looked at.";
    }
}

crate::layout! {
    /// BIND_MW (0x0c).
    pub mod bind_window: 64 bytes {
        OPCODE / "opcode" [4:0] = "0x0c.";
        RESERVED_5 / "reserved_5" [31:5] = "Flags of the send queue; not looked at.";
        RESERVED_32 / "reserved_32" [63:32] = "Not looked at.";
        NEW_KEY / "new_key" [95:64] = "The window's new R_Key: its index and a variant other than before.";
        LENGTH / "length" [159:96] = "Length of the window in bytes. 0 unbinds a window of type 1.";
        PARENT_KEY / "parent_key" [191:160] = "Key of the region.";
        VA / "va" [255:192] = "First virtual address of the window, in the region's addresses.";
        IS_TYPE_1 / "is_type_1" [256:256] = "The window is of type 1.";
        RESERVED_257 / "reserved_257" [257:257] = "Not looked at.";
        ATOMIC_EN / "atomic_en" [258:258] = "Right: remote atomic.";
        RR_EN / "rr_en" [259:259] = "Right: remote read.";
        RW_EN / "rw_en" [260:260] = "Right: remote write.";
        RESERVED_261 / "reserved_261" [319:261] = "Not looked at.";
        RESERVED_320 / "reserved_320" [383:320] = "Not looked at.";
        RESERVED_384 / "reserved_384" [447:384] = "Not looked at.";
        RESERVED_448 / "reserved_448" [511:448] = "Not looked at.";
    }
}

crate::layout! {
    /// LOCAL_INV (0x0b) and SEND_WITH_INV (0x01).
    pub mod invalidate_key: 64 bytes {
        OPCODE / "opcode" [4:0] = "0x0b or 0x01.";
        RESERVED_5 / "reserved_5" [31:5] = "Flags of the send queue; not looked at.";
        RESERVED_32 / "reserved_32" [63:32] = "Not looked at.";
        KEY / "key" [95:64] = "The key that becomes invalid.";
        RESERVED_96 / "reserved_96" [127:96] = "Not looked at.";
        RESERVED_128 / "reserved_128" [191:128] = "Not looked at.";
        RESERVED_192 / "reserved_192" [255:192] = "Not looked at.";
        RESERVED_256 / "reserved_256" [319:256] = "Not looked at.";
        RESERVED_320 / "reserved_320" [383:320] = "Not looked at.";
        RESERVED_384 / "reserved_384" [447:384] = "Not looked at.";
        RESERVED_448 / "reserved_448" [511:448] = "Not looked at.";
    }
}

crate::layout! {
    /// A work request on the stream port.
    pub mod work_request: 74 bytes {
        TAG / "tag" [15:0] = "Returned with the answer.";
        FUNCTION / "function" [23:16] = "Function; selects the table set.";
        PRIVILEGED / "privileged" [24:24] = "The work queue belongs to the kernel. FAST_REG_PMR needs it.";
        PADDING / "padding" [31:25] = "Padding.";
        PD / "pd" [55:32] = "Protection domain of the queue pair.";
        QPN / "qpn" [79:56] = "Queue pair.";
        WQE_0 / "wqe_0" [143:80] = "Bytes 7:0 of the work request.";
        WQE_1 / "wqe_1" [207:144] = "Bytes 15:8.";
        WQE_2 / "wqe_2" [271:208] = "Bytes 23:16.";
        WQE_3 / "wqe_3" [335:272] = "Bytes 31:24.";
        WQE_4 / "wqe_4" [399:336] = "Bytes 39:32.";
        WQE_5 / "wqe_5" [463:400] = "Bytes 47:40.";
        WQE_6 / "wqe_6" [527:464] = "Bytes 55:48.";
        WQE_7 / "wqe_7" [591:528] = "Bytes 63:56.";
    }
}

crate::layout! {
    /// Answer to a work request. Requests of one port are answered in order.
    pub mod work_response: 5 bytes {
        TAG / "tag" [15:0] = "The request's tag.";
        FUNCTION / "function" [23:16] = "The request's function.";
        STATUS / "status" [31:24] = "Outcome, 0 ok.";
        CQE_CODE / "cqe_code" [39:32] = "Status of the completion queue entry, 0 ok.";
    }
}

/// Stream ports of an engine that carries out work requests.
pub const STREAMS: [StreamPort; 2] = [
    StreamPort {
        axi_name: "s_axis_work",
        core_name: "work_request",
        direction: Direction::In,
        layout: work_request::LAYOUT,
    },
    StreamPort {
        axi_name: "m_axis_work",
        core_name: "work_response",
        direction: Direction::Out,
        layout: work_response::LAYOUT,
    },
];

/// The work requests, for documents.
pub const LAYOUTS: [Layout; 3] = [fast_register::LAYOUT, bind_window::LAYOUT, invalidate_key::LAYOUT];

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Outcome of a work request. After any but [`WorkStatus::Ok`] nothing has changed. Of several failed checks the one
        /// with the smallest code is reported; of BIND_MW those of the window come before those of its parent, whose
        /// failures are the codes from [`WorkStatus::ParentUnmapped`] on.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WorkStatus { $($(#[doc = $doc])* $name = $code,)* }

        impl WorkStatus {
            /// All statuses in order of code.
            pub const ALL: &'static [WorkStatus] = &[$(Self::$name),*];

            /// Name as in documents and event logs.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// Meaning, for documents.
            #[must_use]
            pub const fn doc(self) -> &'static str { match self { $(Self::$name => concat!($($doc),*),)* } }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0, "ok";
    /// The opcode is none of these.
    UnknownOpcode = 1, "unknown_opcode";
    /// FAST_REG_PMR from a queue that is not privileged.
    NotPrivileged = 2, "not_privileged";
    /// The key's index is at or above num_mpts or the MPT's object_count: all 24 bits count, none is masked away.
    IndexOutOfRange = 3, "index_out_of_range";
    /// The entry is not reachable: a BT0 slot is unset, or a pointer is zero or misaligned.
    Unmapped = 4, "unmapped";
    /// A read of the window's or region's entry, or any write, was answered with a bus error.
    BusError = 5, "bus_error";
    /// The entry is of another kind: FAST_REG_PMR without FRE or on a window, BIND_MW on a region or on a window of the
    /// other type, LOCAL_INV or SEND_WITH_INV on what cannot be invalidated (see `access`).
    Kind = 6, "kind";
    /// The entry's state does not allow it: FAST_REG_PMR and BIND_MW of type 2 need FREE, invalidation needs VALID, BIND_MW
    /// of type 1 either.
    State = 7, "state";
    /// The variant is not the entry's (invalidation), or is the one that the window has already (BIND_MW).
    Key = 8, "key";
    /// The entry belongs to another protection domain.
    ProtectionDomain = 9, "protection_domain";
    /// The window of type 2 is bound to another queue pair.
    QueuePair = 10, "queue_pair";
    /// SEND_WITH_INV needs R_INV_EN; LOCAL_INV needs FRE, L_INV_EN or a window of type 2.
    Access = 11, "access";
    /// Windows are bound to the region.
    WindowsBound = 12, "windows_bound";
    /// A number is illegal: pages 1 to 512 that hold the length, a page table at a multiple of 8 and not at zero, a region
    /// that ends within 2^64; of BIND_MW a window of type 2 of length 0, or one of type 1 that is zero-based.
    Illegal = 13, "illegal";
    /// The parent's entry is not reachable, or its index is out of range.
    ParentUnmapped = 14, "parent_unmapped";
    /// A read of the parent's entry was answered with a bus error.
    ParentBusError = 15, "parent_bus_error";
    /// The parent is a window, a DMA MR or zero-based: none can have windows.
    ParentKind = 16, "parent_kind";
    /// The parent is not VALID.
    ParentState = 17, "parent_state";
    /// The parent has another key.
    ParentKey = 18, "parent_key";
    /// The parent belongs to another protection domain.
    ParentProtectionDomain = 19, "parent_protection_domain";
    /// The parent does not grant BIND_EN, or, for a window with remote write or atomic, LW_EN.
    ParentAccess = 20, "parent_access";
    /// The window is not inside the parent.
    ParentBounds = 21, "parent_bounds";
    /// The parent counts 2^24 - 1 windows already.
    ParentFull = 22, "parent_full";
}

/// CQE codes (contract section 6).
pub mod cqe {
    /// Success.
    pub const OK: u8 = 0x00;
    /// Local protection error.
    pub const LOCAL_PROT: u8 = 0x04;
    /// Memory window bind error.
    pub const MW_BIND: u8 = 0x06;
    /// Local access error.
    pub const LOCAL_ACCESS: u8 = 0x11;
    /// Remote invalid request.
    pub const REM_INVAL: u8 = 0x12;
    /// Remote access error.
    pub const REM_ACCESS: u8 = 0x13;
    /// Remote operational error.
    pub const REM_OP: u8 = 0x14;
}

impl WorkStatus {
    /// The status of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Code in the answer.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.name() == name)
    }

    /// Status of the completion queue entry for this outcome of a request with that opcode: a failed bind is a bind error,
    /// a failed SEND_WITH_INV a remote access error like any other failure of a remote operation, everything else a local
    /// protection error, but an unknown opcode, which is an invalid request.
    #[must_use]
    pub const fn cqe_code(self, opcode: Option<WorkOpcode>) -> u8 {
        match (self, opcode) {
            (Self::Ok, _) => cqe::OK,
            (_, None) => cqe::REM_INVAL,
            (_, Some(WorkOpcode::BindWindow)) => cqe::MW_BIND,
            (_, Some(WorkOpcode::SendWithInvalidate)) => cqe::REM_ACCESS,
            (_, Some(WorkOpcode::FastRegister | WorkOpcode::LocalInvalidate)) => cqe::LOCAL_PROT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_dwords_of_the_contract() {
        let dword = |low: u32| low / 32;
        assert_eq!([dword(fast_register::PBL_BA.low), fast_register::PBL_BA.width], [1, 64]);
        assert_eq!(dword(fast_register::LENGTH.low), 3);
        assert_eq!(dword(fast_register::KEY.low), 5);
        assert_eq!(dword(fast_register::VA.low), 6);
        assert_eq!(dword(fast_register::PBL_SIZE.low), 8);
        let bit = |low: u32| low - 9 * 32;
        assert_eq!([bit(fast_register::BUF_PG_SZ.low), bit(fast_register::BUF_PG_SZ.high())], [4, 7]);
        let rights = [
            fast_register::BIND_EN,
            fast_register::ATOMIC_EN,
            fast_register::RR_EN,
            fast_register::RW_EN,
            fast_register::LW_EN,
        ];
        assert_eq!(rights.map(|right| bit(right.low)), [10, 11, 12, 13, 14]);
        assert_eq!(dword(bind_window::NEW_KEY.low), 2);
        assert_eq!(dword(bind_window::LENGTH.low), 3);
        assert_eq!(dword(bind_window::PARENT_KEY.low), 5);
        assert_eq!(dword(bind_window::VA.low), 6);
        assert_eq!(dword(invalidate_key::KEY.low), 2);
    }

    #[test]
    fn codes_have_no_gaps_and_lead_back() {
        for (position, status) in WorkStatus::ALL.iter().enumerate() {
            assert_eq!(usize::from(status.code()), position);
            assert_eq!(WorkStatus::from_code(status.code()), Some(*status));
            assert_eq!(WorkStatus::from_name(status.name()), Some(*status));
        }
        for opcode in WorkOpcode::ALL {
            assert_eq!(WorkOpcode::from_code(opcode as u8), Some(opcode));
        }
        assert_eq!(WorkOpcode::from_code(0x0d), None);
    }

    #[test]
    fn a_failure_is_reported_as_the_contract_s_completion_codes() {
        use WorkOpcode::*;
        let code = |opcode| WorkStatus::State.cqe_code(opcode);
        assert_eq!(code(Some(BindWindow)), 0x06);
        assert_eq!(code(Some(SendWithInvalidate)), 0x13);
        assert_eq!(code(Some(LocalInvalidate)), 0x04);
        assert_eq!(code(Some(FastRegister)), 0x04);
        assert_eq!(WorkStatus::Ok.cqe_code(Some(BindWindow)), 0);
    }
}
