//! Where tables lie: scattered by seed over the room that there is, never overlapping, with an unbacked
//! page on either side of each, so that a read past an end fails.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::{BuildError, PAGE_BYTES, SparseMemory};

/// Pages tried for one table before giving up.
const ATTEMPTS_MAX: u32 = 1000;
/// Most entries of all page tables of an image together: a gibibyte, or half a tebibyte in pages of 4 KiB.
const PAGE_ENTRIES_MAX: u64 = 1 << 27;

/// The sparse memory under construction.
pub(crate) struct Placement {
    pub memory: SparseMemory,
    random: ChaCha8Rng,
    /// Pages given away, guards included: first page number to the number after the last.
    taken: BTreeMap<u64, u64>,
    /// Page numbers for tables and the guards around them.
    pages: Range<u64>,
    /// Entries that page tables may still have.
    page_entries_left: u64,
}

impl Placement {
    /// Places tables in whole pages of `room`.
    pub fn new(random: ChaCha8Rng, room: Range<u64>) -> Self {
        Self {
            memory: SparseMemory::new(),
            random,
            taken: BTreeMap::new(),
            pages: room.start.div_ceil(PAGE_BYTES)..room.end / PAGE_BYTES,
            page_entries_left: PAGE_ENTRIES_MAX,
        }
    }

    /// Takes note of a page table of `count` entries, and refuses one that takes too much memory.
    pub fn count_page_entries(&mut self, count: u64) -> Result<(), BuildError> {
        let too_many = BuildError::TooManyPages { count, left: self.page_entries_left, max: PAGE_ENTRIES_MAX };
        self.page_entries_left = self.page_entries_left.checked_sub(count).ok_or(too_many)?;
        Ok(())
    }

    /// Backed memory of `length_bytes` bytes, aligned to `alignment_bytes`, a multiple of 4 KiB.
    pub fn place(&mut self, length_bytes: u64, alignment_bytes: u64) -> Result<u64, BuildError> {
        let count = length_bytes.div_ceil(PAGE_BYTES).max(1);
        let alignment_pages = alignment_bytes / PAGE_BYTES;
        for _ in 0..ATTEMPTS_MAX {
            // The first page is a guard, so that no table has address 0.
            let least = self.pages.start + 1;
            let Some(range) = self.pages.end.checked_sub(count + 1).filter(|end| *end > least) else { break };
            let aligned = self.random.random_range(least..range) / alignment_pages * alignment_pages;
            let first = aligned.max(least.next_multiple_of(alignment_pages));
            let (guard, end) = (first - 1, first + count + 1);
            let is_free = self.taken.range(..end).next_back().is_none_or(|(_, taken_end)| *taken_end <= guard);
            if is_free && end <= self.pages.end {
                self.taken.insert(guard, end);
                let address = first * PAGE_BYTES;
                self.memory.back(address, count * PAGE_BYTES);
                return Ok(address);
            }
        }
        Err(BuildError::NoRoom { length_bytes })
    }

    /// Writes a root table: aligned to 8 bytes only, with the rest of its pages full of entries that must not be used.
    pub fn place_root(&mut self, entries: &[u64]) -> Result<u64, BuildError> {
        let length_bytes = 8 * entries.len() as u64;
        let offset_bytes = 8 * self.random.random_range(0..PAGE_BYTES / 8);
        let pages_bytes = (offset_bytes + length_bytes).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let base = self.place(pages_bytes, PAGE_BYTES)?;
        let root = base + offset_bytes;
        let end = root + length_bytes;
        for address in (base..root).chain(end..base + pages_bytes).step_by(8) {
            // Misaligned and outside of everything: whoever uses it cannot fail to notice.
            let poison = 0xbad0_0000_0000_0001 | self.random.random_range(0..1_u64 << 40) << 4;
            self.write(address, poison)?;
        }
        self.write_all(root, entries.iter().copied())?;
        Ok(root)
    }

    /// Writes table entries one after the other.
    pub fn write_all(&mut self, address: u64, entries: impl Iterator<Item = u64>) -> Result<(), BuildError> {
        let mut bytes = Vec::new();
        let mut at = address;
        for entry in entries {
            bytes.extend(entry.to_le_bytes());
            if bytes.len() as u64 == PAGE_BYTES {
                self.memory.write(at, &bytes)?;
                at += bytes.len() as u64;
                bytes.clear();
            }
        }
        Ok(self.memory.write(at, &bytes)?)
    }

    /// Writes one table entry.
    pub fn write(&mut self, address: u64, entry: u64) -> Result<(), BuildError> {
        Ok(self.memory.write_u64(address, entry)?)
    }
}
