//! Memory keys (contract section 1). L_Key and R_Key of an MR are the same value.

/// Bits by which an index is rotated left to give its key.
pub const ROTATE_BITS: u32 = 8;
/// Bits of a key.
pub const KEY_BITS: u32 = 32;
/// Largest legal log2 of the number of MPT entries: an index has 24 bits, the low byte of a key is the variant.
pub const NUM_MPTS_LOG2_MAX: u32 = 24;
/// Bits of an MPT index.
pub const INDEX_BITS: u32 = 24;

crate::layout! {
    /// A memory key. Fast registration replaces the variant at every registration, so that an old key fails.
    pub mod memory_key: 4 bytes {
        VARIANT / "variant" [7:0] = "Low byte, 0 at allocation, replaced by every fast registration.";
        INDEX / "index" [31:8] = "Index of the MPT entry, before masking with num_mpts - 1.";
    }
}

/// Key of an index with variant 0: rotate left by eight.
#[must_use]
pub const fn of_index(index: u32) -> u32 {
    index.rotate_left(ROTATE_BITS)
}
