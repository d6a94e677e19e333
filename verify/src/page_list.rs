//! The page list of a region: where its bytes really are, known without any table.

use std::fmt;

use keywalk_model::Segment;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::number::Hex;
use crate::vector::Pages;

/// Runs of memory in the order in which a region uses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageList {
    /// One by one.
    Runs(Vec<Run>),
    /// By formula.
    Scattered(Scattered),
}

/// A run of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First bus address.
    pub address: u64,
    /// Bytes.
    pub length_bytes: u64,
    /// Bytes of the list before this run.
    position: u128,
}

/// `count` runs of `size` bytes: run i is at `base + stride * ((i * mult + add) % count)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Scattered {
    base: Hex,
    count: Hex,
    size: Hex,
    stride: Hex,
    mult: Hex,
    add: Hex,
}

impl PageList {
    /// Checks that nothing lies beyond 2^64 and nothing is empty.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Runs(runs) => {
                let is_bad =
                    |run: &&Run| run.length_bytes == 0 || run.address.checked_add(run.length_bytes - 1).is_none();
                match runs.iter().find(is_bad) {
                    Some(run) => Err(format!(
                        "run of {} bytes at {:#x}, legal are runs of at least 1 byte that end within 2^64",
                        run.length_bytes, run.address
                    )),
                    None => Ok(()),
                }
            }
            Self::Scattered(list) => {
                if list.count.0 == 0 || list.size.0 == 0 {
                    return Err("count and size must not be 0".into());
                }
                let last = u128::from(list.count.0 - 1) * u128::from(list.stride.0) + u128::from(list.base.0);
                if last + u128::from(list.size.0) > 1 << 64 {
                    return Err("the runs end beyond 2^64".into());
                }
                Ok(())
            }
        }
    }

    /// Bytes of all runs.
    #[must_use]
    pub fn length_bytes(&self) -> u128 {
        match self {
            Self::Runs(runs) => runs.last().map_or(0, |run| run.position + u128::from(run.length_bytes)),
            Self::Scattered(list) => u128::from(list.count.0) * u128::from(list.size.0),
        }
    }

    /// Bus address of the byte at `position`, and the bytes from there to the end of its run.
    fn at(&self, position: u128) -> Option<(u64, u64)> {
        match self {
            Self::Runs(runs) => {
                let run = &runs[runs.partition_point(|run| run.position <= position).checked_sub(1)?];
                let offset = u64::try_from(position - run.position).ok()?;
                let left_bytes = run.length_bytes.checked_sub(offset).filter(|left| *left > 0)?;
                Some((run.address + offset, left_bytes))
            }
            Self::Scattered(list) => {
                let (count, size) = (u128::from(list.count.0), u128::from(list.size.0));
                let number = position / size;
                if number >= count {
                    return None;
                }
                let offset = (position % size) as u64;
                let place = (number * u128::from(list.mult.0 % list.count.0) + u128::from(list.add.0)) % count;
                let address = list.base.0 + list.stride.0 * place as u64 + offset;
                Some((address, list.size.0 - offset))
            }
        }
    }

    /// Bus address of `length_bytes` bytes from `position` on, when they lie one behind the other.
    fn contiguous(&self, position: u128, length_bytes: u64) -> Option<u64> {
        let (start, mut found_bytes) = self.at(position)?;
        while found_bytes < length_bytes {
            let (address, more_bytes) = self.at(position + u128::from(found_bytes))?;
            if Some(address) != start.checked_add(found_bytes) {
                return None;
            }
            found_bytes = found_bytes.checked_add(more_bytes)?;
        }
        Some(start)
    }
}

impl Pages<'_> {
    /// Pages that a request touches.
    #[must_use]
    pub fn pages_touched(&self, va: u64, length_bytes: u64) -> u64 {
        ((va + (length_bytes - 1)) >> self.page_shift) - (va >> self.page_shift) + 1
    }

    /// The segments that a request within the region must be answered with: cut at page boundaries, merged where the
    /// pages follow each other and the segment stays within `merge_bytes_max`.
    ///
    /// # Errors
    /// A page of the region that does not lie in one run.
    pub fn segments(&self, va: u64, length_bytes: u64, merge_bytes_max: u32) -> Result<Vec<Segment>, String> {
        let mut segments: Vec<Segment> = Vec::new();
        let page_mask = (1 << self.page_shift) - 1;
        let mut done_bytes = 0;
        while done_bytes < length_bytes {
            let piece_va = va + done_bytes;
            let piece_bytes = (page_mask + 1 - (piece_va & page_mask)).min(length_bytes - done_bytes);
            let position = u128::from(self.list_offset) + u128::from(piece_va - self.va);
            let pa = self.list.contiguous(position, piece_bytes).ok_or_else(|| {
                let page_bytes = page_mask + 1;
                format!("the page list does not hold the page of {page_bytes} bytes at VA {piece_va:#x} in one run")
            })?;
            // Pieces and segments are at most 2^31 bytes, as requests are.
            match segments.last_mut() {
                Some(open)
                    if open.pa.checked_add(open.length_bytes.into()) == Some(pa)
                        && u64::from(open.length_bytes) + piece_bytes <= merge_bytes_max.into() =>
                {
                    open.length_bytes += piece_bytes as u32;
                }
                _ => segments.push(Segment { pa, length_bytes: piece_bytes as u32 }),
            }
            done_bytes += piece_bytes;
        }
        Ok(segments)
    }
}

impl<'de> Deserialize<'de> for PageList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = PageList;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list of [address, bytes] or an object with base, count, size, stride, mult and add")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PageList, A::Error> {
                let mut runs = Vec::new();
                let mut position = 0;
                while let Some((address, length_bytes)) = list.next_element::<(Hex, u64)>()? {
                    runs.push(Run { address: address.0, length_bytes, position });
                    position += u128::from(length_bytes);
                }
                Ok(PageList::Runs(runs))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PageList, A::Error> {
                Scattered::deserialize(de::value::MapAccessDeserializer::new(map)).map(PageList::Scattered)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(
        list: &str,
        list_offset: u64,
        va: u64,
        length_bytes: u64,
        merge: u32,
    ) -> Result<Vec<(u64, u32)>, String> {
        let list: PageList = serde_json::from_str(list).unwrap();
        list.check()?;
        let pages = Pages { va: 0x10_0000 + list_offset, length_bytes, page_shift: 12, list: &list, list_offset };
        Ok(pages.segments(va, length_bytes, merge)?.iter().map(|part| (part.pa, part.length_bytes)).collect())
    }

    const LIST: &str = r#"[["0x5000", 2048], ["0x5800", 2048], ["0x6000", 4096], ["0x9000", 4096]]"#;

    #[test]
    fn requests_are_cut_at_pages_and_merged_up_to_the_limit() {
        assert_eq!(segments(LIST, 16, 0x10_0010, 12272, 0), Ok(vec![(0x5010, 4080), (0x6000, 4096), (0x9000, 4096)]));
        assert_eq!(segments(LIST, 16, 0x10_0010, 12272, 1 << 31), Ok(vec![(0x5010, 8176), (0x9000, 4096)]));
        assert_eq!(segments(LIST, 16, 0x10_0010, 12272, 8175).map(|list| list.len()), Ok(3));
        assert_eq!(segments(LIST, 0, 0x10_1fff, 2, 1 << 31), Ok(vec![(0x6fff, 1), (0x9000, 1)]));
    }

    #[test]
    fn a_page_in_two_places_is_refused() {
        let list = r#"[["0x5000", 2048], ["0x8800", 2048]]"#;
        let error = segments(list, 0, 0x10_0000, 4096, 0).unwrap_err();
        assert!(error.contains("VA 0x100000 in one run"), "{error}");
        assert_eq!(segments(list, 0, 0x10_0000, 2048, 0), Ok(vec![(0x5000, 2048)]));
    }

    #[test]
    fn scattered_pages_follow_their_formula() {
        let list =
            r#"{"base": "0x10000", "count": "0x3", "size": "0x1000", "stride": "0x2000", "mult": "0x2", "add": "0x1"}"#;
        assert_eq!(segments(list, 0, 0x10_0000, 12288, 0), Ok(vec![(0x12000, 4096), (0x10000, 4096), (0x14000, 4096)]));
    }

    #[test]
    fn lists_beyond_the_address_space_are_refused() {
        assert!(segments(r#"[["0xfffffffffffff000", 4097]]"#, 0, 0x10_0000, 1, 0).is_err());
        let list = r#"{"base": "0x0", "count": "0xffffffffffffffff", "size": "0x1000", "stride": "0x2000", "mult": "0x1", "add": "0x0"}"#;
        assert!(segments(list, 0, 0x10_0000, 1, 0).is_err());
    }
}
