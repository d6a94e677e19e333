//! Register map of the AXI4-Lite port `s_axil`: 32-bit registers at byte offsets, 64-bit counters as pairs.
//!
//! Tables are configured through staged writes: the fields of a table are written to `table_select`,
//! `table_geometry` and `table_object_count`, and take effect at once when `table_commit` is written.

use crate::Config;
use crate::layout::Field;

/// How software may use a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    ReadWrite,
    /// Read only; writes are ignored.
    ReadOnly,
    /// Write only; reads return zero.
    WriteOnly,
    /// Reads return the pending bits; writing a one clears a bit.
    WriteOneToClear,
}

/// A 32-bit register.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Name in snake case.
    pub name: &'static str,
    /// Byte offset.
    pub offset: u32,
    /// Access.
    pub access: Access,
    /// Value after reset. Read-only registers whose value depends on the configuration or state say 0.
    pub reset: u32,
    /// Meaning.
    pub doc: &'static str,
    /// Fields, least significant first; bits not listed are reserved and read as zero.
    pub fields: &'static [Field],
}

impl Register {
    /// The fields that an engine of that configuration has: those of the command unit only with it. The others read as zero.
    pub fn fields_of(&self, config: &Config) -> impl Iterator<Item = &'static Field> {
        let has_command_unit = config.command_unit;
        self.fields.iter().filter(move |field| has_command_unit || field.name != interrupt_status::COMMAND.name)
    }
}

/// A 64-bit counter: the low half at `offset`, the high half at `offset + 4`. Reading a low half holds the high half that
/// belongs to it until the next low half is read, whichever counter's: low then high is coherent. Counters wrap, and are
/// cleared by reset only.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Name in snake case.
    pub name: &'static str,
    /// Byte offset of the low half.
    pub offset: u32,
    /// What is counted.
    pub doc: &'static str,
}

/// Bits of the AXI4-Lite address.
pub const ADDRESS_BITS: u32 = 14;
/// Value of register `id`: "KWLK".
pub const ID: u32 = 0x4b57_4c4b;
/// Value of register `version`: major << 16 | minor.
pub const VERSION: u32 = 0x0000_0002;

/// Declares registers: a module for each with its fields and `REGISTER`, and the list `REGISTERS`. [`Access`] and [`Register`]
/// must be in scope.
macro_rules! registers {
    ($($name:ident / $text:literal @ $offset:literal $access:ident = $reset:literal, $doc:literal {
        $($field:ident / $field_text:literal [$high:literal : $low:literal] = $field_doc:literal;)*
    })*) => {
        $(
            #[doc = $doc]
            pub mod $name {
                use super::{Access, Register};
                $(#[doc = $field_doc]
                pub const $field: crate::layout::Field = crate::layout::Field {
                    name: $field_text, low: $low, width: $high - $low + 1, doc: $field_doc,
                };)*
                /// The register.
                pub const REGISTER: Register = Register {
                    name: $text, offset: $offset, access: Access::$access, reset: $reset, doc: $doc,
                    fields: &[$($field),*],
                };
            }
        )*
        /// All registers in order of offset.
        pub const REGISTERS: &[Register] = &[$($name::REGISTER),*];
    };
}

pub(crate) use registers;

registers! {
    id / "id" @ 0x000 ReadOnly = 0x4b57_4c4b, "Identifies the engine: \"KWLK\"." {}
    version / "version" @ 0x004 ReadOnly = 0x0000_0002, "Version of the register map." {
        MINOR / "minor" [15:0] = "Rises with every compatible change.";
        MAJOR / "major" [31:16] = "Rises with every incompatible change.";
    }
    status / "status" @ 0x008 ReadOnly = 0, "State of the engine." {
        READY / "ready" [0:0] = "Every RAM has been scrubbed; requests are accepted.";
        IDLE / "idle" [1:1] = "No request, context lookup or invalidation is in flight, and all DMA of earlier responses is reported done.";
    }
    control / "control" @ 0x00c ReadWrite = 0x0000_000d, "Switches. Change them while `status.idle` is 1." {
        ATOMIC_SHAPE_CHECK / "atomic_shape_check" [0:0] = "Refuse an atomic that is not 8 bytes long and 8-byte aligned.";
        ZERO_ENTRY_LITERAL / "zero_entry_literal" [1:1] = "Take a zero page-table entry as bus address 0 instead of not present.";
        INDEX_CHECK / "index_check" [2:2] = "Refuse a page index at or above PBL_SIZE.";
        ALIGNMENT_CHECK / "alignment_check" [3:3] = "Refuse HEM pointers that are not 4 KiB aligned and lower page tables that are not aligned to their size. Off: 8 bytes for a table, 64 bytes for an MPT chunk.";
        HOLD_MODE / "hold_mode" [4:4] = "Send no segment of a request before the whole of it is known to be good.";
    }
    merge_bytes_max / "merge_bytes_max" @ 0x010 ReadWrite = 0x8000_0000, "Longest segment in bytes that merging physically contiguous pages may make. 0: no merging. A page's part is never cut." {
        BYTES / "bytes" [31:0] = "Bytes.";
    }
    hold_bytes_max / "hold_bytes_max" @ 0x014 ReadOnly = 0, "Longest request in bytes that hold mode accepts; follows from the configuration." {
        BYTES / "bytes" [31:0] = "Bytes.";
    }
    interrupt_status / "interrupt_status" @ 0x018 WriteOneToClear = 0, "Pending interrupts." {
        FAULT / "fault" [0:0] = "An event was sent on `m_axis_fault`.";
        FAULT_LOST / "fault_lost" [1:1] = "An event was dropped because `m_axis_fault` was not drained.";
        COMMAND / "command" [2:2] = "A mailbox command with `event_en` is done.";
    }
    interrupt_enable / "interrupt_enable" @ 0x01c ReadWrite = 0, "Which pending interrupts drive the `interrupt` pin." {
        FAULT / "fault" [0:0] = "Enables `interrupt_status.fault`.";
        FAULT_LOST / "fault_lost" [1:1] = "Enables `interrupt_status.fault_lost`.";
        COMMAND / "command" [2:2] = "Enables `interrupt_status.command`.";
    }
    table_select / "table_select" @ 0x020 ReadWrite = 0, "Table that `table_commit` and `bt0_commit` write." {
        TABLE / "table" [2:0] = "0 QPC, 1 MPT, 2 CQC, 3 SRQC, 4 SCCC, 5 QPC timer, 6 CQC timer.";
        TABLE_SET / "table_set" [10:8] = "Table set.";
    }
    table_geometry / "table_geometry" @ 0x024 ReadWrite = 0, "Staged geometry of the selected table." {
        HOP_NUM / "hop_num" [1:0] = "Hops, 0 to 3.";
        BA_PG_SZ / "ba_pg_sz" [7:4] = "BA page size: log2(bytes) - 12.";
        BUF_PG_SZ / "buf_pg_sz" [11:8] = "Chunk size: log2(bytes) - 12.";
        ENTRY_BYTES_LOG2 / "entry_bytes_log2" [15:12] = "log2 of the entry's bytes, 5 to 12; 6 for the MPT.";
        BT_NUM / "bt_num" [26:16] = "Number of BT0 slots, 1 to 1024; slots beyond those of the configuration are unset; the level-0 index is taken modulo it.";
    }
    table_object_count / "table_object_count" @ 0x028 ReadWrite = 0, "Staged number of objects of the selected table." {
        COUNT / "count" [31:0] = "An index at or above it fails. 0: unchecked.";
    }
    table_commit / "table_commit" @ 0x02c WriteOnly = 0, "Writing any value applies `table_geometry` and `table_object_count` to the selected table. Refused with SLVERR, and nothing changes, where table or table set do not exist, bt_num is not 1 to 1024, or entry_bytes_log2 is not legal for the table." {}
    bt0_low / "bt0_low" @ 0x030 ReadWrite = 0, "Staged BT0 base, low half." {
        ADDRESS / "address" [31:0] = "Bits 31:0 of the bus address.";
    }
    bt0_high / "bt0_high" @ 0x034 ReadWrite = 0, "Staged BT0 base, high half." {
        ADDRESS / "address" [31:0] = "Bits 63:32 of the bus address.";
    }
    bt0_commit / "bt0_commit" @ 0x038 WriteOnly = 0, "Writes one BT0 slot of the selected table." {
        SLOT / "slot" [9:0] = "Slot, below bt_num.";
        VALID / "valid" [16:16] = "1: the slot takes the staged base. 0: the slot becomes unset.";
    }
    key_space / "key_space" @ 0x03c WriteOnly = 0, "Key space and page unit of a table set, applied at once." {
        NUM_MPTS_LOG2 / "num_mpts_log2" [4:0] = "log2 of the number of MPT entries, 0 to 24. 24 after reset.";
        PAGE_SHIFT_BASE / "page_shift_base" [11:8] = "Page shift of page-size field 0, 12 to 15. 12 after reset, as in the contract.";
        TABLE_SET / "table_set" [18:16] = "Table set.";
    }
    function_map / "function_map" @ 0x040 WriteOnly = 0, "Assigns a function to a table set, applied at once. All functions use set 0 after reset." {
        FUNCTION / "function" [7:0] = "Function.";
        TABLE_SET / "table_set" [18:16] = "Table set.";
    }
    requests_in_flight / "requests_in_flight" @ 0x044 ReadOnly = 0, "Requests that are accepted and not completely answered, now." {
        COUNT / "count" [15:0] = "Requests.";
    }
    reads_in_flight / "reads_in_flight" @ 0x048 ReadOnly = 0, "Line reads on the table port that are issued and not answered, now." {
        COUNT / "count" [15:0] = "Reads.";
    }
}

/// Offset of the first counter.
pub const COUNTERS_OFFSET: u32 = 0x200;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal @ $offset:literal;)*) => {
        /// A counter by name; the discriminant is its position in [`COUNTERS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CounterName { $($(#[doc = $doc])* $name),* }

        impl CounterName {
            /// All names, in the order of [`COUNTERS`].
            pub const ALL: &[CounterName] = &[$(Self::$name),*];
        }

        /// All counters in order of offset.
        pub const COUNTERS: &[Counter] = &[$(Counter { name: $text, offset: $offset, doc: concat!($($doc),*) }),*];
    };
}

counters! {
    /// Requests accepted.
    Requests = "requests" @ 0x200;
    /// Beats sent on the response port.
    Segments = "segments" @ 0x208;
    /// Responses that ended in an error.
    Errors = "errors" @ 0x210;
    /// Requests whose MPT entry was in the cache.
    MptHits = "mpt_hits" @ 0x218;
    /// Requests whose MPT entry was fetched.
    MptMisses = "mpt_misses" @ 0x220;
    /// Pages found in the TLB.
    TlbHits = "tlb_hits" @ 0x228;
    /// Pages walked.
    TlbMisses = "tlb_misses" @ 0x230;
    /// Line reads issued on the table port.
    TableReads = "table_reads" @ 0x238;
    /// Line reads that joined one in flight.
    TableReadsMerged = "table_reads_merged" @ 0x240;
    /// Line reads answered with a bus error.
    TableReadErrors = "table_read_errors" @ 0x248;
    /// Context lookups and queue-buffer walks accepted.
    ContextRequests = "context_requests" @ 0x250;
    /// Invalidations completed.
    Invalidations = "invalidations" @ 0x258;
    /// Events sent on the fault port.
    Faults = "faults" @ 0x260;
    /// Events dropped.
    FaultsLost = "faults_lost" @ 0x268;
    /// MPT entries that made room for another.
    MptEvictions = "mpt_evictions" @ 0x270;
    /// Translations that made room for another.
    TlbEvictions = "tlb_evictions" @ 0x278;
    /// HEM lookups that began at a cached pointer.
    HemHits = "hem_hits" @ 0x280;
    /// HEM lookups of one hop or more that found no pointer in the cache.
    HemMisses = "hem_misses" @ 0x288;
    /// HEM pointers that made room for another.
    HemEvictions = "hem_evictions" @ 0x290;
    /// Walks of two hops or more that found the pointer to the leaf table in the cache.
    MtrLowerHits = "mtr_lower_hits" @ 0x298;
    /// Walks of two hops or more that did not.
    MtrLowerMisses = "mtr_lower_misses" @ 0x2a0;
    /// Pointers to leaf tables that made room for another.
    MtrLowerEvictions = "mtr_lower_evictions" @ 0x2a8;
    /// Walks of three hops that found the pointer to the middle table in the cache, and not that to the leaf table.
    MtrUpperHits = "mtr_upper_hits" @ 0x2b0;
    /// Walks of three hops that found neither.
    MtrUpperMisses = "mtr_upper_misses" @ 0x2b8;
    /// Pointers to middle tables that made room for another.
    MtrUpperEvictions = "mtr_upper_evictions" @ 0x2c0;
    /// Reads of HEM lookups that were issued: read 0, the BA pointer at the BT0 base, or the entry where there is no hop.
    HemReads0 = "hem_reads_0" @ 0x2c8;
    /// Read 1.
    HemReads1 = "hem_reads_1" @ 0x2d0;
    /// Read 2.
    HemReads2 = "hem_reads_2" @ 0x2d8;
    /// Read 3.
    HemReads3 = "hem_reads_3" @ 0x2e0;
    /// Reads of page-table walks that were issued: read 0, in the root table.
    MtrReads0 = "mtr_reads_0" @ 0x2e8;
    /// Read 1.
    MtrReads1 = "mtr_reads_1" @ 0x2f0;
    /// Read 2.
    MtrReads2 = "mtr_reads_2" @ 0x2f8;
    /// Reports on `s_axis_done` that belonged to no outstanding response.
    StrayReports = "stray_reports" @ 0x300;
}

/// Counters of one kind, 64 bits each, at consecutive places.
#[derive(Clone, Copy, Debug)]
pub struct CounterArray {
    /// Name in snake case.
    pub name: &'static str,
    /// Byte offset of the low half of element 0; each element takes 8 bytes.
    pub offset: u32,
    /// Elements.
    pub count: u32,
    /// What is counted.
    pub doc: &'static str,
    /// Name of an element, where elements have names of their own.
    pub element: Option<fn(u32) -> String>,
}

impl CounterArray {
    /// Byte offset of the low half of an element.
    #[must_use]
    pub const fn offset_of(&self, element: u32) -> u32 {
        self.offset + 8 * element
    }
}

/// An array of counters by name; the discriminant is its position in [`ARRAYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArrayName {
    /// Responses by status.
    Statuses = 0,
    /// Responses by latency.
    Latencies = 1,
    /// Responses without an error, by function.
    FunctionSuccesses = 2,
    /// Responses that ended in an error, by function.
    FunctionErrors = 3,
    /// Pages walked, by function.
    FunctionTlbMisses = 4,
}

/// Ranges of the latency histogram: one for each bit of a latency, modulo 2^16 cycles.
pub const LATENCY_RANGES: u32 = 16;
/// Functions that are counted one by one.
pub const COUNTED_FUNCTIONS: u32 = 256;

fn status_counter(code: u32) -> String {
    format!("status_{}", crate::Status::ALL[code as usize].name())
}

fn latency_counter(range: u32) -> String {
    let low = if range == 0 { 0 } else { 1 << range };
    if range + 1 == LATENCY_RANGES {
        format!("latency_{low}_up")
    } else {
        format!("latency_{low}_{}", (2 << range) - 1)
    }
}

/// All arrays of counters in order of offset.
pub const ARRAYS: &[CounterArray] = &[
    CounterArray {
        name: "status",
        offset: 0x400,
        count: crate::Status::ALL.len() as u32,
        doc: "Responses by the status of their last beat.",
        element: Some(status_counter),
    },
    CounterArray {
        name: "latency",
        offset: 0x500,
        count: LATENCY_RANGES,
        doc: "Responses by latency: cycles from the acceptance of the request to its last beat, modulo 2^16. The name gives \
              the least and the greatest.",
        element: Some(latency_counter),
    },
    CounterArray {
        name: "function_successes",
        offset: 0x1000,
        count: COUNTED_FUNCTIONS,
        doc: "Responses without an error, by function. With the errors they are the function's requests.",
        element: None,
    },
    CounterArray {
        name: "function_errors",
        offset: 0x1800,
        count: COUNTED_FUNCTIONS,
        doc: "Responses that ended in an error, by function.",
        element: None,
    },
    CounterArray {
        name: "function_tlb_misses",
        offset: 0x2000,
        count: COUNTED_FUNCTIONS,
        doc: "Pages walked, by function.",
        element: None,
    },
];

const _: () = {
    let mut index = 1;
    while index < REGISTERS.len() {
        assert!(REGISTERS[index].offset > REGISTERS[index - 1].offset, "registers overlap or are out of order");
        assert!(REGISTERS[index].offset.is_multiple_of(4), "registers are 4-byte aligned");
        let fields = REGISTERS[index].fields;
        let mut next = 0;
        let mut field = 0;
        while field < fields.len() {
            assert!(fields[field].low >= next, "fields of a register overlap");
            next = fields[field].low + fields[field].width;
            assert!(next <= 32, "a field ends above bit 31");
            field += 1;
        }
        index += 1;
    }
    assert!(REGISTERS[REGISTERS.len() - 1].offset < COUNTERS_OFFSET, "registers run into the counters");
    let mut index = 0;
    while index < COUNTERS.len() {
        assert!(COUNTERS[index].offset == COUNTERS_OFFSET + 8 * index as u32, "counters have no gaps");
        index += 1;
    }
    let mut next = COUNTERS_OFFSET + 8 * COUNTERS.len() as u32;
    let mut index = 0;
    while index < ARRAYS.len() {
        assert!(ARRAYS[index].offset >= next, "arrays of counters overlap or are out of order");
        let size = 8 * ARRAYS[index].count.next_power_of_two();
        assert!(ARRAYS[index].offset.is_multiple_of(size), "an array begins at a multiple of its size");
        next = ARRAYS[index].offset_of(ARRAYS[index].count);
        index += 1;
    }
    assert!(next <= 1 << ADDRESS_BITS, "counters fit the address space");
};
