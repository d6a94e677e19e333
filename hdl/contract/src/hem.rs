//! Context tables, reached through the HEM (contract section 3).
//!
//! An object number is split into a chunk number `c = object / objects_per_chunk` and a position in the chunk.
//! With `n = ba_page_bytes / 8` entries per BA page, hop `h` uses the level indices `l0 = c / n^h`,
//! `l1 = (c / n^(h-1)) % n`, ..., `lh = c % n`; then `l0 %= bt_num`. The BT0 slot `l0` is held by the device; every
//! further level is one read of an 8-byte little-endian pointer at `page + 8 * level_index`.

/// A context table. The discriminant is its code on ports and in registers.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Queue pair contexts.
    Qpc = 0,
    /// Memory region and window contexts.
    Mpt = 1,
    /// Completion queue contexts.
    Cqc = 2,
    /// Shared receive queue contexts.
    Srqc = 3,
    /// Congestion control contexts.
    Sccc = 4,
    /// Queue pair timer pages (hop 0 only in the driver).
    QpcTimer = 5,
    /// Completion queue timer pages (hop 0 only in the driver).
    CqcTimer = 6,
}

/// Code in the `table` field of a response for a page table (MTR), which is no context table.
pub const TABLE_CODE_MTR: u8 = 7;
/// Bits of a table code.
pub const TABLE_BITS: u32 = 3;
/// Most BT0 slots of a table.
pub const BT_NUM_MAX: u32 = 1024;
/// Most hops of a context table: the driver stops at 2, the engine does not.
pub const HOP_MAX: u32 = 3;
/// Smallest and largest log2 of an entry's bytes: 32 (SCCC) to 4096 (a timer page).
pub const ENTRY_BYTES_LOG2: std::ops::RangeInclusive<u32> = 5..=12;
/// log2 of the unit of page-size fields: 4 KiB.
pub const PAGE_SHIFT_MIN: u32 = 12;
/// log2 of the bytes of a BA entry.
pub const BA_ENTRY_BYTES_LOG2: u32 = 3;
/// Largest page-size field: 4 KiB << 15 = 128 MiB.
pub const PAGE_SIZE_FIELD_MAX: u32 = 15;

impl Table {
    /// All tables in order of code.
    pub const ALL: [Table; 7] =
        [Self::Qpc, Self::Mpt, Self::Cqc, Self::Srqc, Self::Sccc, Self::QpcTimer, Self::CqcTimer];

    /// The table of a code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Qpc),
            1 => Some(Self::Mpt),
            2 => Some(Self::Cqc),
            3 => Some(Self::Srqc),
            4 => Some(Self::Sccc),
            5 => Some(Self::QpcTimer),
            6 => Some(Self::CqcTimer),
            _ => None,
        }
    }

    /// Code on ports and in registers.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Name as in documents and vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qpc => "qpc",
            Self::Mpt => "mpt",
            Self::Cqc => "cqc",
            Self::Srqc => "srqc",
            Self::Sccc => "sccc",
            Self::QpcTimer => "qpc_timer",
            Self::CqcTimer => "cqc_timer",
        }
    }

    /// The table of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

crate::layout! {
    /// A BA entry: a plain page address without a valid bit. Zero is treated as not reachable.
    pub mod ba_entry: 8 bytes {
        ADDRESS / "address" [63:0] = "Bus address of the next page.";
    }
}

crate::layout! {
    /// One dword of CFG_BT_ATTR (0x8506); the dwords stand in the order QPC, SRQC, CQC, MPT, SCCC.
    pub mod bt_attribute: 4 bytes {
        BA_PG_SZ / "ba_pg_sz" [3:0] = "Size of a BA page: log2(bytes) - 12.";
        BUF_PG_SZ / "buf_pg_sz" [7:4] = "Size of a chunk: log2(bytes) - 12.";
        HOP_NUM / "hop_num" [9:8] = "Hops.";
        RESERVED_10 / "reserved_10" [31:10] = "Reserved.";
    }
}

/// Tables in the order in which CFG_BT_ATTR lists them.
pub const BT_ATTRIBUTE_ORDER: [Table; 5] = [Table::Qpc, Table::Srqc, Table::Cqc, Table::Mpt, Table::Sccc];
