//! Sparse memory: 4 KiB pages, of which only the backed ones exist.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a page, the grain of backing.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a line, what the device reads at a time.
pub const LINE_BYTES: usize = 64;
const PAGE_SHIFT: u32 = PAGE_BYTES.ilog2();

/// An access to bytes that are not backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory at {address:#x} is not backed")]
pub struct Unbacked {
    /// The first such byte.
    pub address: u64,
}

/// Spreads page numbers, which differ mostly in some middle bits, over all bits.
#[derive(Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // An odd constant with well-mixed bits; the fold brings the high half, which depends on all bits, down.
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

type Page = [u8; PAGE_BYTES as usize];

/// Memory of which only some 4 KiB pages are backed. Backed pages hold zero until they are written, and take room only
/// from then on. Reads and writes of other pages are errors.
#[derive(Clone, Debug, Default)]
pub struct SparseMemory {
    /// Pages that have been written, by page number.
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<PageHasher>>,
    /// Backed runs of pages: first page number to the number after the last. Neither overlapping nor adjacent.
    backed: BTreeMap<u64, u64>,
}

/// The pages that a run of bytes touches: first and one past the last. Bytes past 2^64 do not exist.
fn pages_of(address: u64, length_bytes: u64) -> (u64, u64) {
    let end = u128::from(address) + u128::from(length_bytes);
    let last = end.div_ceil(u128::from(PAGE_BYTES)).min(1 << (64 - PAGE_SHIFT));
    (address >> PAGE_SHIFT, last as u64)
}

impl SparseMemory {
    /// Memory without any backed page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Backs all pages that the `length_bytes` bytes at `address` touch. What is backed already keeps its content.
    pub fn back(&mut self, address: u64, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        let (mut first, mut end) = pages_of(address, length_bytes);
        // Join the runs that overlap or touch the new one.
        while let Some((&start, &stop)) = self.backed.range(..=end).next_back() {
            if stop < first {
                break;
            }
            self.backed.remove(&start);
            first = first.min(start);
            end = end.max(stop);
        }
        self.backed.insert(first, end);
    }

    /// Takes away all pages that the `length_bytes` bytes at `address` touch, with their content.
    pub fn remove(&mut self, address: u64, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        let (first, end) = pages_of(address, length_bytes);
        while let Some((&start, &stop)) = self.backed.range(..end).next_back() {
            if stop <= first {
                break;
            }
            self.backed.remove(&start);
            if start < first {
                self.backed.insert(start, first);
            }
            if stop > end {
                self.backed.insert(end, stop);
            }
        }
        if end - first <= self.pages.len() as u64 {
            for page in first..end {
                self.pages.remove(&page);
            }
        } else {
            self.pages.retain(|page, _| !(first..end).contains(page));
        }
    }

    /// Whether the page that holds `address` is backed.
    #[must_use]
    pub fn is_backed(&self, address: u64) -> bool {
        let page = address >> PAGE_SHIFT;
        self.backed.range(..=page).next_back().is_some_and(|(_, end)| page < *end)
    }

    /// The backed runs of pages in order, as numbers of 4 KiB pages. They neither overlap nor touch.
    pub fn backed_pages(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.backed.iter().map(|(first, end)| *first..*end)
    }

    /// The pages that have been written, in order: address and content.
    #[must_use]
    pub fn written_pages(&self) -> Vec<(u64, &[u8; PAGE_BYTES as usize])> {
        let mut pages: Vec<_> = self.pages.iter().map(|(page, content)| (page << PAGE_SHIFT, &**content)).collect();
        pages.sort_by_key(|(address, _)| *address);
        pages
    }

    /// Number of pages that take room.
    #[must_use]
    pub fn pages_written(&self) -> usize {
        self.pages.len()
    }

    /// Fills `bytes` from `address` upwards.
    ///
    /// # Errors
    /// [`Unbacked`] with the first byte that is not backed; `bytes` is then filled up to there.
    #[inline]
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Unbacked> {
        // Nearly all reads are of one page that has been written.
        let offset = (address % PAGE_BYTES) as usize;
        if let Some(page) = self.pages.get(&(address >> PAGE_SHIFT))
            && let Some(content) = page.get(offset..offset + bytes.len())
        {
            bytes.copy_from_slice(content);
            return Ok(());
        }
        self.read_slowly(address, bytes)
    }

    /// [`Self::read`] for any number of pages, written or not.
    fn read_slowly(&self, address: u64, bytes: &mut [u8]) -> Result<(), Unbacked> {
        self.for_each_page(address, bytes.len(), |page, offset, range| {
            let into = &mut bytes[range];
            match self.pages.get(&page) {
                Some(content) => into.copy_from_slice(&content[offset..offset + into.len()]),
                None => into.fill(0),
            }
        })
    }

    /// Stores `bytes` from `address` upwards.
    ///
    /// # Errors
    /// [`Unbacked`] with the first byte that is not backed; nothing is then written.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Unbacked> {
        self.for_each_page(address, bytes.len(), |_, _, _| ())?;
        let mut position = 0;
        while position < bytes.len() {
            let at = address + position as u64;
            let offset = (at % PAGE_BYTES) as usize;
            let count = (PAGE_BYTES as usize - offset).min(bytes.len() - position);
            let page = self.pages.entry(at >> PAGE_SHIFT).or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
            page[offset..offset + count].copy_from_slice(&bytes[position..position + count]);
            position += count;
        }
        Ok(())
    }

    /// Reads a little-endian number of 64 bits.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_u64(&self, address: u64) -> Result<u64, Unbacked> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores a little-endian number of 64 bits.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_u64(&mut self, address: u64, value: u64) -> Result<(), Unbacked> {
        self.write(address, &value.to_le_bytes())
    }

    /// The aligned line of 64 bytes that holds `address`, `None` where it is not backed.
    #[must_use]
    pub fn line(&self, address: u64) -> Option<[u8; LINE_BYTES]> {
        let Some(page) = self.pages.get(&(address >> PAGE_SHIFT)) else {
            return self.is_backed(address).then_some([0; LINE_BYTES]);
        };
        let (lines, _) = page.as_chunks::<LINE_BYTES>();
        Some(lines[(address % PAGE_BYTES) as usize / LINE_BYTES])
    }

    /// Calls `visit` with page number, offset in the page and range of the whole, for each page of a run of bytes.
    fn for_each_page(
        &self,
        address: u64,
        length: usize,
        mut visit: impl FnMut(u64, usize, std::ops::Range<usize>),
    ) -> Result<(), Unbacked> {
        let mut position = 0;
        while position < length {
            let at = address.checked_add(position as u64).ok_or(Unbacked { address: u64::MAX })?;
            let page = at >> PAGE_SHIFT;
            if !self.pages.contains_key(&page) && !self.is_backed(at) {
                return Err(Unbacked { address: at });
            }
            let offset = (at % PAGE_BYTES) as usize;
            let count = (PAGE_BYTES as usize - offset).min(length - position);
            visit(page, offset, position..position + count);
            position += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backed_memory_reads_zero_until_written_and_other_memory_fails() {
        let mut memory = SparseMemory::new();
        memory.back(0x5000, 0x2000);
        assert_eq!(memory.read_u64(0x5ffc), Ok(0));
        memory.write_u64(0x5ffc, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(memory.read_u64(0x5ffc), Ok(0x1122_3344_5566_7788));
        assert_eq!(memory.line(0x6001).unwrap()[..4], [0x44, 0x33, 0x22, 0x11]);
        assert_eq!(memory.read_u64(0x6ffc), Err(Unbacked { address: 0x7000 }));
        assert_eq!(memory.write_u64(0x6ffc, u64::MAX), Err(Unbacked { address: 0x7000 }));
        assert_eq!(memory.read_u64(0x6ff8), Ok(0), "a failed write leaves no trace");
        assert_eq!(memory.line(0x4fff), None);
        assert_eq!(memory.line(0x7000), None);
    }

    #[test]
    fn the_end_of_the_address_space_is_an_end() {
        let mut memory = SparseMemory::new();
        memory.back(u64::MAX - 7, 8);
        memory.write_u64(u64::MAX - 7, 5).unwrap();
        assert_eq!(memory.read_u64(u64::MAX - 7), Ok(5));
        assert_eq!(memory.read_u64(u64::MAX - 6), Err(Unbacked { address: u64::MAX }));
        assert_eq!(memory.line(u64::MAX).unwrap()[56], 5);
    }

    #[test]
    fn backing_and_removing_agree_with_a_plain_set_of_pages() {
        let mut memory = SparseMemory::new();
        let mut expected = std::collections::BTreeSet::new();
        let mut state = 1_u64;
        for step in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = state >> 40 & 0x3f;
            let count = state >> 50 & 7;
            let (address, length) = (first * PAGE_BYTES, count * PAGE_BYTES);
            if state >> 60 & 1 == 0 {
                memory.back(address, length);
                expected.extend(first..first + count);
            } else {
                memory.remove(address, length);
                expected.retain(|page| !(first..first + count).contains(page));
            }
            for page in 0..80 {
                let address = page * PAGE_BYTES;
                assert_eq!(memory.is_backed(address), expected.contains(&page), "step {step}, page {page}");
                assert_eq!(memory.line(address).is_some(), expected.contains(&page));
                if memory.is_backed(address) && page % 3 == 0 {
                    memory.write_u64(address, page).unwrap();
                }
            }
        }
    }

    #[test]
    fn runs_and_pages_are_listed_in_order() {
        let mut memory = SparseMemory::new();
        for page in [9, 3, 2, 700] {
            memory.back(page * PAGE_BYTES, 1);
        }
        memory.write_u64(700 * PAGE_BYTES, 1).unwrap();
        memory.write_u64(2 * PAGE_BYTES + 8, 2).unwrap();
        assert_eq!(memory.backed_pages().collect::<Vec<_>>(), [2..4, 9..10, 700..701]);
        let written = memory.written_pages();
        assert_eq!(written.iter().map(|(address, _)| *address).collect::<Vec<_>>(), [0x2000, 700 * 4096]);
        assert_eq!((written[0].1[8], written[1].1[0]), (2, 1));
    }

    #[test]
    fn a_removed_page_has_lost_its_content() {
        let mut memory = SparseMemory::new();
        memory.back(0, PAGE_BYTES);
        memory.write_u64(0, 7).unwrap();
        memory.remove(0, 1);
        memory.back(0, 1);
        assert_eq!(memory.read_u64(0), Ok(0));
    }
}
