//! What the format cannot hold.

use std::ops::RangeInclusive;

use keywalk_contract::Table;
use keywalk_contract::layout::FieldOverflow;

use crate::{PagesError, RegionKind, Unbacked};

/// Why no image was built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A number outside its range.
    #[error("{place} is {value}, legal is {}..={}", legal.start(), legal.end())]
    Number {
        /// What, and where in the description.
        place: String,
        /// Its value.
        value: u64,
        /// What is legal.
        legal: RangeInclusive<u64>,
    },
    /// A number that must be a power of two.
    #[error("{place} is {value}, which is not a power of two")]
    NotPowerOfTwo {
        /// What, and where in the description.
        place: String,
        /// Its value.
        value: u64,
    },
    /// A table described twice.
    #[error("table set {table_set} describes table {} twice", table.name())]
    TableTwice {
        /// Number of the table set.
        table_set: usize,
        /// The table.
        table: Table,
    },
    /// Something needs a table that is not described.
    #[error("table set {table_set} has no table {}: describe it under `tables`", table.name())]
    TableMissing {
        /// Number of the table set.
        table_set: usize,
        /// The table.
        table: Table,
    },
    /// An object number that its table does not have.
    #[error("index {index} of table {} is not below {limit} ({limit_name})", table.name())]
    IndexTooLarge {
        /// The table.
        table: Table,
        /// The index.
        index: u64,
        /// One past the largest.
        limit: u64,
        /// Where the limit is from.
        limit_name: &'static str,
    },
    /// An object whose level-0 index is past the BT0 slots: the device would take another object's slot.
    #[error(
        "index {index} of table {} has level-0 index {level0}, but there are {bt_num} BT0 slots: it would share a slot \
         with another object; raise bt_num, hop, ba_pg_sz or buf_pg_sz",
        table.name()
    )]
    Alias {
        /// The table.
        table: Table,
        /// The index.
        index: u32,
        /// Its level-0 index.
        level0: u64,
        /// BT0 slots.
        bt_num: u32,
    },
    /// MPT entries are made from regions only.
    #[error("object {index} is of table mpt: describe it as a region")]
    ObjectOfMpt {
        /// The index.
        index: u32,
    },
    /// Something is wrong with a region.
    #[error("region `{name}` of table set {table_set}: {problem}")]
    Region {
        /// Number of the table set.
        table_set: usize,
        /// The region.
        name: String,
        /// What is wrong.
        problem: Problem,
    },
    /// Something is wrong with a queue buffer.
    #[error("queue buffer `{name}` of table set {table_set}: {problem}")]
    QueueBuffer {
        /// Number of the table set.
        table_set: usize,
        /// The queue buffer.
        name: String,
        /// What is wrong.
        problem: Problem,
    },
    /// The address space for tables is full.
    #[error("no room for a table of {length_bytes} bytes: raise address_bits")]
    NoRoom {
        /// Bytes of the table.
        length_bytes: u64,
    },
    /// Page tables that would take more memory than an image may.
    #[error(
        "a page table of {count} entries, but of the {max} that the page tables of an image may have together {left} are \
         left: use larger pages"
    )]
    TooManyPages {
        /// Entries.
        count: u64,
        /// Entries that are left.
        left: u64,
        /// Most entries of all page tables.
        max: u64,
    },
    /// A write to memory that was not placed before: a defect of the builder.
    #[error("a table was written outside of its memory: {0}")]
    Unbacked(#[from] Unbacked),
}

/// What is wrong with a region or queue buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A value too large for its field of the MPT entry.
    #[error(transparent)]
    Field(#[from] FieldOverflow),
    /// Something wrong with the data pages.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// Something wrong with tables or numbers.
    #[error(transparent)]
    Build(Box<BuildError>),
    /// A page size that no page-size field stands for.
    #[error("pages of {page_bytes} bytes cannot be represented: legal are powers of two from {min} to {max}")]
    PageSize {
        /// Bytes of a page.
        page_bytes: u64,
        /// Smallest, 1 << page_shift_base.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// The region runs past the end of the address space.
    #[error("va {va:#x} and length {length_bytes:#x} run past 2^64")]
    Wraps {
        /// First virtual address.
        va: u64,
        /// Bytes.
        length_bytes: u64,
    },
    /// Start in the first page and low bits of the VA differ: the device takes the low bits from the VA.
    #[error("the region starts at byte {given:#x} of its first page, but the low bits of its va are {va_offset:#x}")]
    FirstPageOffset {
        /// As described.
        given: u64,
        /// Low bits of the VA.
        va_offset: u64,
    },
    /// A page table with too few levels.
    #[error(
        "{count} pages do not fit a page table of {hop} hops with {entries} entries per table: it holds {capacity}"
    )]
    HopTooSmall {
        /// Pages.
        count: u64,
        /// Hops.
        hop: u8,
        /// Entries of a table.
        entries: u64,
        /// Pages that it holds.
        capacity: u128,
    },
    /// More pages than a fast registration takes.
    #[error("a fast registration takes at most {max} pages, not {count}")]
    TooManyForFastRegistration {
        /// Pages.
        count: u64,
        /// Most pages.
        max: u64,
    },
    /// A field that a region of this kind does not have.
    #[error("`{field}` is given, but a region of kind {kind:?} has none")]
    NotForKind {
        /// The field.
        field: &'static str,
        /// The kind.
        kind: RegionKind,
    },
    /// Two regions want the same MPT entry.
    #[error("index {index} is taken by region `{other}`")]
    IndexTaken {
        /// The index.
        index: u32,
        /// Who has it.
        other: String,
    },
    /// All MPT entries are in use.
    #[error("no free index below {limit} is left")]
    NoIndexLeft {
        /// One past the largest index.
        limit: u64,
    },
    /// Too many regions in a queue buffer.
    #[error("a queue buffer has 1 to {max} regions, not {count}")]
    RegionCount {
        /// Regions.
        count: usize,
        /// Most regions.
        max: usize,
    },
    /// The roots of a queue buffer's regions do not fit one table.
    #[error("the roots need {needed} entries, but the shared root has {entries}")]
    RootTooSmall {
        /// Entries of all roots together.
        needed: u64,
        /// Entries of a table.
        entries: u64,
    },
    /// Direct and walked regions in one queue buffer.
    #[error("either all regions have hop 0 or none has: a direct buffer has no root table to share")]
    MixedHops,
    /// Pages of a direct queue buffer are given.
    #[error("`pages` is given for region {region}, but the pages of a direct queue buffer are contiguous")]
    DirectPages {
        /// Number of the region.
        region: usize,
    },
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Self {
        Self::Build(Box::new(error))
    }
}
