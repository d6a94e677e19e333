//! The true data pages of a region, from which the tables are built and against which answers are checked.

use crate::PageList;

/// What is wrong with a list of pages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagesError {
    /// An explicit list of another length.
    #[error("the page list has {given} addresses, the region covers {needed} pages: give one address per page")]
    Count {
        /// Addresses in the list.
        given: u64,
        /// Pages that VA, length and page size make.
        needed: u64,
    },
    /// A page address that is no multiple of 4 KiB, or for a page without a table, of 8 bytes.
    #[error("page {index} is at {address:#x}, which is not aligned to {alignment} bytes{advice}")]
    Misaligned {
        /// Position in the list.
        index: u64,
        /// Its address.
        address: u64,
        /// What is asked for.
        alignment: u64,
        /// What to do about it.
        advice: &'static str,
    },
    /// A page at address zero, which means "not present".
    #[error("page {index} is at address 0, which means not present: set `allow_holes` if that is meant")]
    Hole {
        /// Position in the list.
        index: u64,
    },
    /// Contiguous pages that run past 2^64.
    #[error("{count} contiguous pages of {page_bytes} bytes from {first:#x} run past 2^64")]
    Wraps {
        /// First address.
        first: u64,
        /// Pages.
        count: u64,
        /// Bytes of a page.
        page_bytes: u64,
    },
    /// More pages than there are places for.
    #[error(
        "{count} pages of {page_bytes} bytes in runs of {run_pages} do not fit the upper half of {address_bits} address bits"
    )]
    NoRoom {
        /// Pages.
        count: u64,
        /// Bytes of a page.
        page_bytes: u64,
        /// Neighbours that stay together.
        run_pages: u32,
        /// Bits of bus addresses.
        address_bits: u32,
    },
}

/// Which addresses a list may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub allow_misaligned: bool,
    pub allow_holes: bool,
    /// log2 of the first address of the upper half.
    pub upper_half_log2: u32,
    /// Tells lists of different regions apart.
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Explicit(Vec<u64>),
    Contiguous(u64),
    Scattered { seed: u64, run_pages: u64, run_pages_log2: u32, upper_half_log2: u32 },
}

/// The pages of a region by index. Scattered and contiguous pages are computed when asked for and take no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    source: Source,
    count: u64,
    page_shift: u32,
}

/// A permutation of the numbers of `bits` bits.
fn permute(value: u64, bits: u32, seed: u64) -> u64 {
    let mask = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
    let fold = (bits / 2).max(1);
    let mut value = value & mask;
    for round in 0..3_u32 {
        value = value.wrapping_add(seed.rotate_left(21 * round)) & mask;
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        value ^= value >> fold;
    }
    value
}

impl Pages {
    pub(crate) fn new(list: &PageList, count: u64, page_shift: u32, rules: Rules) -> Result<Self, PagesError> {
        let page_bytes = 1 << page_shift;
        let source = match list {
            PageList::Explicit { addresses } => {
                if addresses.len() as u64 != count {
                    return Err(PagesError::Count { given: addresses.len() as u64, needed: count });
                }
                Source::Explicit(addresses.clone())
            }
            PageList::Contiguous { first } => {
                let end = u128::from(*first) + (u128::from(count) << page_shift);
                if end > 1 << 64 {
                    return Err(PagesError::Wraps { first: *first, count, page_bytes });
                }
                Source::Contiguous(*first)
            }
            PageList::Scattered { seed, run_pages } => {
                let run = u64::from((*run_pages).max(1));
                let run_pages_log2 = run.next_power_of_two().ilog2();
                let upper_half_log2 = rules.upper_half_log2;
                let runs = upper_half_log2.checked_sub(page_shift + run_pages_log2).map_or(0, |bits| 1_u64 << bits);
                if count.div_ceil(run) > runs {
                    let address_bits = upper_half_log2 + 1;
                    return Err(PagesError::NoRoom { count, page_bytes, run_pages: *run_pages, address_bits });
                }
                let seed = permute(seed ^ rules.seed, 64, 0x5bd1_e995_7b93_1d4f);
                Source::Scattered { seed, run_pages: run, run_pages_log2, upper_half_log2 }
            }
        };
        let pages = Self { source, count, page_shift };
        pages.check(rules)?;
        Ok(pages)
    }

    /// Refuses addresses that the rules do not allow.
    fn check(&self, rules: Rules) -> Result<(), PagesError> {
        const DRIVER_ALIGNMENT: u64 = 4096;
        let checked = match &self.source {
            Source::Explicit(addresses) => addresses.as_slice(),
            // All others are as aligned as the first, unless a page of zero is among them.
            Source::Contiguous(first) if self.count > 0 => std::slice::from_ref(first),
            Source::Contiguous(_) | Source::Scattered { .. } => &[],
        };
        for (index, address) in (0..).zip(checked.iter().copied()) {
            if address == 0 && !rules.allow_holes {
                return Err(PagesError::Hole { index });
            }
            if !address.is_multiple_of(DRIVER_ALIGNMENT) && !rules.allow_misaligned {
                let advice = ": set `allow_misaligned_pages` if that is meant";
                return Err(PagesError::Misaligned { index, address, alignment: DRIVER_ALIGNMENT, advice });
            }
        }
        Ok(())
    }

    /// Number of pages.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// log2 of a page's bytes.
    #[must_use]
    pub fn page_shift(&self) -> u32 {
        self.page_shift
    }

    /// Bus address of page `index`; `None` past the end and for a page that is not present.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<u64> {
        (index < self.count).then(|| self.address(index)).filter(|address| *address != 0)
    }

    /// The table entry of a page: its address, 0 where it is not present.
    pub(crate) fn address(&self, index: u64) -> u64 {
        match &self.source {
            Source::Explicit(addresses) => addresses.get(index as usize).copied().unwrap_or(0),
            Source::Contiguous(first) => first + (index << self.page_shift),
            Source::Scattered { seed, run_pages, run_pages_log2, upper_half_log2 } => {
                let bits = upper_half_log2 - self.page_shift - run_pages_log2;
                let frame = (permute(index / run_pages, bits, *seed) << run_pages_log2) + index % run_pages;
                (1 << upper_half_log2) + (frame << self.page_shift)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permute_maps_every_width_onto_itself() {
        for bits in 0..=12 {
            for seed in [0, 1, 0xdead_beef_0bad_cafe] {
                let images: std::collections::BTreeSet<_> =
                    (0..1 << bits).map(|value| permute(value, bits, seed)).collect();
                assert_eq!(images.len(), 1 << bits, "bits {bits}, seed {seed:#x}");
                assert!(images.iter().all(|image| *image < 1 << bits));
            }
        }
    }

    #[test]
    fn scattered_pages_are_distinct_aligned_and_in_the_upper_half() {
        for (page_shift, run_pages, upper_half_log2) in [(12, 1, 51), (30, 1, 39), (12, 5, 63), (21, 64, 45)] {
            let rules = Rules { allow_misaligned: false, allow_holes: false, upper_half_log2, seed: 9 };
            let pages = Pages::new(&PageList::Scattered { seed: 3, run_pages }, 300, page_shift, rules).unwrap();
            let addresses: std::collections::BTreeSet<_> = (0..300).map(|index| pages.get(index).unwrap()).collect();
            assert_eq!(addresses.len(), 300);
            for address in &addresses {
                assert_eq!(address >> upper_half_log2, 1);
                assert_eq!(address % (1 << page_shift), 0);
            }
            for index in (0..300).filter(|index| (index + 1) % u64::from(run_pages) != 0 && index + 1 < 300) {
                assert_eq!(pages.get(index).unwrap() + (1 << page_shift), pages.get(index + 1).unwrap());
            }
            assert_eq!(pages.get(300), None);
        }
    }
}
