//! Page split and merging: from a translated request to its segments, one at a time.

use keywalk_contract::Status;

use crate::mtr::{self, PageTable};
use crate::trace::require;
use crate::{Controls, Failure, Memory, Observer, Segment};

/// How a request that passed its checks becomes bus addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapping {
    /// The whole request is one piece at this bus address.
    Direct(u64),
    /// Page by page through a page table.
    Paged(Pages),
}

/// The pages of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub table: PageTable,
    pub page_shift: u32,
    /// Number of the region's first page in the address space: its VA >> page_shift.
    pub first_page: u64,
    /// `PBL_SIZE` of the entry.
    pub count: u64,
}

impl Pages {
    /// Bus address of `va`.
    #[inline]
    fn translate(
        &self,
        memory: &impl Memory,
        controls: &Controls,
        va: u64,
        observer: &mut impl Observer,
    ) -> Result<u64, Failure> {
        let index = (va >> self.page_shift) - self.first_page;
        if controls.index_check {
            let count = self.count;
            require(observer, index < count, mtr::failure(Status::MtrIndex, 0), || {
                format!("page index {index} against pbl_size {count}")
            })?;
        }
        self.table.check_root(controls, observer)?;
        let page = self.table.leaf(memory, controls, index, observer)?;
        Ok(page.wrapping_add(va & ((1 << self.page_shift) - 1)))
    }
}

/// The segments of a response in order of address, and its failure as the last item if it has one.
#[derive(Debug)]
pub struct Segments<'a, M, O> {
    memory: &'a M,
    controls: &'a Controls,
    observer: O,
    mapping: Mapping,
    /// First virtual address that is not yet in a piece.
    va: u64,
    /// Bytes that are not yet in a piece.
    remaining_bytes: u64,
    /// The segment that the next piece may join.
    open: Option<Segment>,
    /// The failure to be reported once the open segment is out.
    failure: Option<Failure>,
    /// Hold mode: what is to be reported, known in full before the first of it is.
    held: std::vec::IntoIter<Result<Segment, Failure>>,
}

impl<'a, M: Memory, O: Observer> Segments<'a, M, O> {
    /// The segments of `length_bytes` bytes from `va`.
    #[inline]
    pub(crate) fn new(
        memory: &'a M,
        controls: &'a Controls,
        observer: O,
        mapping: Mapping,
        va: u64,
        length_bytes: u64,
    ) -> Self {
        let mut segments = Self {
            memory,
            controls,
            observer,
            mapping,
            va,
            remaining_bytes: length_bytes,
            open: None,
            failure: None,
            held: Vec::new().into_iter(),
        };
        if controls.hold_mode {
            let all: Vec<_> = segments.by_ref().collect();
            let failure = all.iter().position(Result::is_err);
            segments.held = all.into_iter();
            if let Some(position) = failure {
                segments.held.by_ref().take(position).for_each(drop);
            }
        }
        segments
    }

    /// A response of one segment or failure that needs no walk.
    pub(crate) fn of(memory: &'a M, controls: &'a Controls, observer: O, result: Result<Segment, Failure>) -> Self {
        let mut segments = Self::new(memory, controls, observer, Mapping::Direct(0), 0, 0);
        match result {
            Ok(segment) => segments.open = Some(segment),
            Err(failure) => segments.failure = Some(failure),
        }
        segments
    }

    /// The next piece: what is left of the request, cut at the next page boundary.
    #[inline]
    fn next_piece(&mut self) -> Option<Result<Segment, Failure>> {
        if self.remaining_bytes == 0 {
            return None;
        }
        let (pa, length_bytes) = match self.mapping {
            Mapping::Direct(pa) => (pa, self.remaining_bytes),
            Mapping::Paged(pages) => match pages.translate(self.memory, self.controls, self.va, &mut self.observer) {
                Ok(pa) => {
                    let page_bytes = 1 << pages.page_shift;
                    let left_in_page = page_bytes - (self.va & (page_bytes - 1));
                    (pa, left_in_page.min(self.remaining_bytes))
                }
                Err(failure) => {
                    self.remaining_bytes = 0;
                    return Some(Err(failure));
                }
            },
        };
        self.observer.piece(self.va, pa, length_bytes);
        // The last piece may end at 2^64.
        self.va = self.va.wrapping_add(length_bytes);
        self.remaining_bytes -= length_bytes;
        Some(Ok(Segment { pa, length_bytes: length_bytes as u32 }))
    }
}

impl<M: Memory, O: Observer> Iterator for Segments<'_, M, O> {
    type Item = Result<Segment, Failure>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(item) = self.held.next() {
            return Some(item);
        }
        while let Some(piece) = self.next_piece() {
            let piece = match piece {
                Ok(piece) => piece,
                Err(failure) => {
                    self.failure = Some(failure);
                    break;
                }
            };
            match &mut self.open {
                Some(open) if open.takes(piece, self.controls.merge_bytes_max) => {
                    open.length_bytes += piece.length_bytes
                }
                open => {
                    if let Some(done) = open.replace(piece) {
                        return Some(Ok(done));
                    }
                }
            }
        }
        self.open.take().map(Ok).or_else(|| self.failure.take().map(Err))
    }
}

impl Segment {
    /// Whether `piece` follows this segment without a gap and the two together are not too long.
    #[inline]
    fn takes(self, piece: Segment, merge_bytes_max: u32) -> bool {
        let end = u128::from(self.pa) + u128::from(self.length_bytes);
        let length_bytes = u64::from(self.length_bytes) + u64::from(piece.length_bytes);
        end == u128::from(piece.pa) && length_bytes <= u64::from(merge_bytes_max)
    }
}
