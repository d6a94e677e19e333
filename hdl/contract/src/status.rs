//! Status codes in the order of the checks, and their wire classes (contract section 6).

use crate::op::Operation;

/// What the wire may know of a failure. One class per side for all key failures: the detail is for the host only.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WireClass {
    /// No failure.
    None = 0,
    /// NAK 0x61, CQE REM_INVAL 0x12.
    InvalidRequest = 1,
    /// NAK 0x62, CQE REM_ACCESS 0x13.
    RemoteAccessError = 2,
    /// CQE LOCAL_PROT 0x04.
    LocalProtectionError = 3,
    /// NAK 0x63, CQE REM_OP 0x14.
    RemoteOperationalError = 4,
    /// CQE LOCAL_ACCESS 0x11.
    LocalOperationError = 5,
    /// Try again later.
    Retry = 6,
}

/// Bits of a wire class.
pub const WIRE_CLASS_BITS: u32 = 3;
/// Bits of a status.
pub const STATUS_BITS: u32 = 8;

impl WireClass {
    /// All classes in order of code.
    pub const ALL: [WireClass; 7] = [
        Self::None,
        Self::InvalidRequest,
        Self::RemoteAccessError,
        Self::LocalProtectionError,
        Self::RemoteOperationalError,
        Self::LocalOperationError,
        Self::Retry,
    ];

    /// The class of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class as u8 == code)
    }

    /// Name as in documents and vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "ok",
            Self::InvalidRequest => "invalid_request",
            Self::RemoteAccessError => "remote_access_error",
            Self::LocalProtectionError => "local_protection_error",
            Self::RemoteOperationalError => "remote_operational_error",
            Self::LocalOperationError => "local_operation_error",
            Self::Retry => "retry",
        }
    }
}

/// How a status becomes a wire class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No failure.
    Success,
    /// Invalid request on either side.
    Request,
    /// Remote access error or local protection error.
    Protection,
    /// Remote operational error or local operation error.
    Operation,
}

impl Severity {
    /// Wire class for a failure of a remote or a local operation.
    #[must_use]
    pub const fn wire_class(self, is_remote: bool) -> WireClass {
        match (self, is_remote) {
            (Self::Success, _) => WireClass::None,
            (Self::Request, _) => WireClass::InvalidRequest,
            (Self::Protection, true) => WireClass::RemoteAccessError,
            (Self::Protection, false) => WireClass::LocalProtectionError,
            (Self::Operation, true) => WireClass::RemoteOperationalError,
            (Self::Operation, false) => WireClass::LocalOperationError,
        }
    }
}

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal, $severity:ident;)*) => {
        /// Outcome of a request, in order of precedence: of several failed checks the one with the smallest code is
        /// reported. Within a chain of table reads the failure that comes first ends the chain, whatever its code: a
        /// misaligned BT0 base is reported although the pointer behind it is zero. Codes are never renumbered.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Status { $($(#[doc = $doc])* $name = $code,)* }

        impl Status {
            /// All statuses in order of code, without gaps.
            pub const ALL: &'static [Status] = &[$(Self::$name),*];

            /// Name as in documents.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// Meaning, for documents.
            #[must_use]
            pub const fn doc(self) -> &'static str { match self { $(Self::$name => concat!($($doc),*),)* } }

            /// How the status becomes a wire class.
            #[must_use]
            pub const fn severity(self) -> Severity { match self { $(Self::$name => Severity::$severity,)* } }
        }

        const _: () = {
            let mut index = 0;
            while index < Status::ALL.len() {
                assert!(Status::ALL[index] as usize == index, "status codes have no gaps");
                index += 1;
            }
        };
    };
}

statuses! {
    /// Success.
    Ok = 0, "ok", Success;
    /// The operation code is not defined.
    OperationUnknown = 1, "operation_unknown", Request;
    /// The length is above 2^31 bytes.
    LengthTooLong = 2, "length_too_long", Request;
    /// An atomic is not 8 bytes long or not 8-byte aligned (register bit `atomic_shape_check`).
    AtomicShape = 3, "atomic_shape", Request;
    /// Hold mode is on and the request is longer than the capability `hold_bytes_max`.
    HoldTooLong = 4, "hold_too_long", Request;
    /// The object index is at or above the table's `object_count`.
    IndexOutOfRange = 5, "index_out_of_range", Protection;
    /// The BT0 slot was never set, or holds zero.
    Bt0Unset = 6, "bt0_unset", Protection;
    /// A BA pointer of the HEM is zero.
    HemPointerZero = 7, "hem_pointer_zero", Protection;
    /// A BT0 base or BA pointer of the HEM is misaligned.
    HemMisaligned = 8, "hem_misaligned", Protection;
    /// A HEM or MPT read was answered with a bus error.
    HemBusError = 9, "hem_bus_error", Protection;
    /// A HEM or MPT read was not answered in time.
    HemTimeout = 10, "hem_timeout", Protection;
    /// The entry's state is not VALID.
    EntryState = 11, "entry_state", Protection;
    /// The entry's key differs from the request's.
    EntryKey = 12, "entry_key", Protection;
    /// A local operation or a bind on a memory window.
    WindowLocal = 13, "window_local", Protection;
    /// The memory window is not bound.
    WindowUnbound = 14, "window_unbound", Protection;
    /// The entry's protection domain differs from the request's.
    ProtectionDomain = 15, "protection_domain", Protection;
    /// The memory window of type 2 is bound to another queue pair.
    WindowQueuePair = 16, "window_queue_pair", Protection;
    /// The entry does not grant the right that the operation needs.
    AccessRight = 17, "access_right", Protection;
    /// The region runs past 2^64 (VA + LEN > 2^64): every access is refused.
    RegionWraps = 18, "region_wraps", Protection;
    /// The region spans more than 2^32 pages, more than a page table can hold: every access is refused.
    RegionTooLarge = 19, "region_too_large", Protection;
    /// The request is not inside the region, or runs past 2^64.
    Bounds = 20, "bounds", Protection;
    /// The parent region of a bound memory window does not permit the access. Bound windows are always refused so far.
    WindowParent = 21, "window_parent", Protection;
    /// The page index is at or above PBL_SIZE (register bit `index_check`), or the queue buffer's count.
    MtrIndex = 22, "mtr_index", Operation;
    /// A pointer to a page table is misaligned.
    MtrMisaligned = 23, "mtr_misaligned", Operation;
    /// A page-table entry is zero: not present.
    MtrNotPresent = 24, "mtr_not_present", Operation;
    /// A page-table read was answered with a bus error.
    MtrBusError = 25, "mtr_bus_error", Operation;
    /// A page-table read was not answered in time.
    MtrTimeout = 26, "mtr_timeout", Operation;
}

impl Status {
    /// The status of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Code on the response port.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Wire class of this status for an operation code, which may be an unknown one (then only step 1 can fail).
    #[must_use]
    pub fn wire_class(self, operation_code: u8) -> WireClass {
        let is_remote = Operation::from_code(operation_code).is_some_and(Operation::is_remote);
        self.severity().wire_class(is_remote)
    }

    /// Whether the status belongs to a table read, so that `table` and `hop` say where and an event is raised.
    #[must_use]
    pub const fn names_a_table(self) -> bool {
        matches!(
            self,
            Self::IndexOutOfRange
                | Self::Bt0Unset
                | Self::HemPointerZero
                | Self::HemMisaligned
                | Self::HemBusError
                | Self::HemTimeout
                | Self::MtrIndex
                | Self::MtrMisaligned
                | Self::MtrNotPresent
                | Self::MtrBusError
                | Self::MtrTimeout
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_and_round_trip() {
        for (position, status) in Status::ALL.iter().enumerate() {
            assert_eq!(Status::from_code(status.code()), Some(*status));
            assert!(Status::ALL[position + 1..].iter().all(|other| other.name() != status.name()));
        }
        assert_eq!(Status::from_code(Status::ALL.len() as u8), None);
    }

    #[test]
    fn all_key_failures_look_alike_on_the_wire() {
        for status in Status::ALL.iter().filter(|s| (Status::IndexOutOfRange..=Status::WindowParent).contains(*s)) {
            assert_eq!(status.wire_class(2), WireClass::RemoteAccessError);
            assert_eq!(status.wire_class(0), WireClass::LocalProtectionError);
        }
    }
}
