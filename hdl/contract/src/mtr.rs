//! Page tables (MTR, PBL; contract section 4).
//!
//! `s = page_shift`, `i = (va >> s) - (VA >> s)`, `n = (4096 << ba_pg) / 8`. Hop 0: the root is the page, whatever `i`.
//! Hop 1: `root[i]`. Hop 2: `root[i / n] -> [i % n]`. Hop 3: `root[i / n^2] -> [(i / n) % n] -> [i % n]`.
//! The root is aligned to 8 bytes only: add, do not OR. `pa = page + (va & (2^s - 1))`.

/// Most hops of a page table.
pub const HOP_MAX: u32 = 3;
/// Largest legal `page_shift_base`: with a page-size field of 15 it gives pages of 1 GiB.
pub const PAGE_SHIFT_BASE_MAX: u32 = 15;
/// Largest page shift: 1 GiB.
pub const PAGE_SHIFT_MAX: u32 = 30;
/// Pages that a page table can hold: `PBL_SIZE` has 32 bits. A region that spans more is refused.
pub const PAGES_MAX: u64 = 1 << 32;

crate::layout! {
    /// A page-table entry, leaf or not: a plain page address without flags. Zero means not present.
    pub mod page_entry: 8 bytes {
        ADDRESS / "address" [63:0] = "Bus address of the page or of the next table.";
    }
}
