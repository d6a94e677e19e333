//! An answer of the golden model with the way to it, and answers that are partly from old tables.

use keywalk_model::{Beat, Controls, Engine, Failure, MptEntry, Observer, Request, Response, Segment, TableRead};

use super::case::Tables;
use keywalk_contract::{Status, Table, mpt_entry};

/// An answer of the golden model, and how it came about.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The answer.
    pub response: Response,
    /// The MPT entries that were read: that of the key, and that of the parent where it is a window.
    pub entries: Vec<MptEntry>,
    /// Reads in order.
    pub reads: Vec<TableRead>,
    /// Pieces in order, before any is merged.
    pub pieces: Vec<Segment>,
}

#[derive(Default)]
struct Watch {
    entries: Vec<MptEntry>,
    reads: Vec<TableRead>,
    pieces: Vec<Segment>,
}

impl Observer for Watch {
    fn read(&mut self, read: TableRead) {
        self.reads.push(read);
    }

    fn entry(&mut self, entry: &MptEntry) {
        self.entries.push(entry.clone());
    }

    fn piece(&mut self, _va: u64, pa: u64, length_bytes: u64) {
        self.pieces.push(Segment { pa, length_bytes: length_bytes as u32 });
    }
}

impl Answer {
    /// What these tables say.
    #[must_use]
    pub fn of(model: &Engine, tables: &Tables, request: &Request) -> Self {
        let mut watch = Watch::default();
        let response = model.translate_observed(tables, request, &mut watch);
        Self { response, entries: watch.entries, reads: watch.reads, pieces: watch.pieces }
    }

    /// The entry of the request's key, where it was read.
    #[must_use]
    pub fn entry(&self) -> Option<&MptEntry> {
        self.entries.first()
    }

    /// The entry whose page table maps the request: that of the parent, where the key is a window's.
    #[must_use]
    pub fn mapping_entry(&self) -> Option<&MptEntry> {
        self.entries.last()
    }

    /// Key of the entry that was looked up last.
    #[must_use]
    pub fn last_key(&self, request: &Request) -> u32 {
        let parent_key = |window: &MptEntry| window.get(mpt_entry::BOUND_LKEY) as u32;
        let failure = self.response.failure;
        let is_of_parent = match &self.entries[..] {
            [_, _] => true,
            // The window's entry was read, and then that of its parent could not be.
            [_] => failure.is_some_and(|failure| failure.table == Table::Mpt.code()),
            _ => false,
        };
        self.entry().filter(|_| is_of_parent).map_or(request.key, parent_key)
    }

    /// The request's first address in the addresses of its region, which it counts from where it is zero-based.
    #[must_use]
    pub fn own_va(&self, request: &Request) -> u64 {
        let is_zero_based = |entry: &&MptEntry| entry.is_set(mpt_entry::ZBVA) && !entry.is_set(mpt_entry::PA);
        let start = self.entry().filter(is_zero_based).map_or(0, |entry| entry.get(mpt_entry::VA));
        request.va.wrapping_add(start)
    }
}

/// What these tables say of each page of a request by itself, whatever they say of the others. `own_va` is its first
/// address in the region's own addresses.
#[must_use]
pub fn by_page(
    model: &Engine,
    tables: &Tables,
    request: &Request,
    own_va: u64,
    page_shift: u32,
) -> Vec<Result<Segment, Failure>> {
    let mut pages = Vec::new();
    let (mut va, mut remaining) = (request.va, u64::from(request.length));
    let start = own_va.wrapping_sub(va);
    while remaining > 0 {
        let page_bytes = 1_u64 << page_shift;
        let length = remaining.min(page_bytes - va.wrapping_add(start) % page_bytes);
        let response = model.translate(tables, &Request { va, length: length as u32, ..*request });
        pages.push(match (response.failure, response.segments.first()) {
            (None, Some(segment)) => Ok(*segment),
            (failure, _) => Err(failure.unwrap_or(Failure::of(Status::Ok))),
        });
        va = va.wrapping_add(length);
        remaining -= length;
    }
    pages
}

/// Whether each page of an answer is as the old tables or the new ones say, [by page](by_page), and the whole is put
/// together by the rules.
#[must_use]
pub fn is_mixture(
    old: &[Result<Segment, Failure>],
    new: &[Result<Segment, Failure>],
    request: &Request,
    beats: &[Beat],
    controls: &Controls,
) -> bool {
    let says = |position: usize, wanted: &dyn Fn(&Result<Segment, Failure>) -> bool| {
        [old, new].into_iter().filter_map(|pages| pages.get(position)).find(|page| wanted(page)).copied()
    };
    let mut pieces: Vec<Segment> = Vec::new();
    let mut failure = None;
    for beat in beats {
        if beat.status == Status::Ok {
            let (mut pa, mut remaining) = (beat.pa, beat.length);
            while remaining > 0 {
                let is_here = |page: &Result<Segment, Failure>| {
                    page.is_ok_and(|piece| piece.pa == pa && piece.length_bytes <= remaining)
                };
                let Some(Ok(piece)) = says(pieces.len(), &is_here) else { return false };
                pieces.push(piece);
                pa = pa.wrapping_add(piece.length_bytes.into());
                remaining -= piece.length_bytes;
            }
        } else {
            let found = Failure { status: beat.status, table: beat.table, hop: beat.hop };
            let is_found = |page: &Result<Segment, Failure>| *page == Err(found);
            let is_failure = if controls.hold_mode {
                // The pages before it are not told.
                let first_bad = (0..old.len()).find(|position| says(*position, &|page| page.is_ok()).is_none());
                (0..=first_bad.unwrap_or(old.len())).any(|position| says(position, &is_found).is_some())
            } else {
                says(pieces.len(), &is_found).is_some()
            };
            if !is_failure {
                return false;
            }
            failure = Some(found);
        }
    }
    if failure.is_none() && pieces.len() != old.len() {
        return false;
    }
    Response { segments: merged(&pieces, controls.merge_bytes_max), failure }.beats(request) == beats
}

/// Pieces in order, each joined to the segment before it where it follows without a gap and the limit allows it.
fn merged(pieces: &[Segment], merge_bytes_max: u32) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for piece in pieces {
        match segments.last_mut() {
            Some(open) if follows(open, piece) && joined_bytes(open, piece) <= u64::from(merge_bytes_max) => {
                open.length_bytes += piece.length_bytes;
            }
            _ => segments.push(*piece),
        }
    }
    segments
}

/// Whether a piece begins where a segment ends.
#[must_use]
pub fn follows(segment: &Segment, piece: &Segment) -> bool {
    segment.pa.checked_add(segment.length_bytes.into()) == Some(piece.pa)
}

fn joined_bytes(segment: &Segment, piece: &Segment) -> u64 {
    u64::from(segment.length_bytes) + u64::from(piece.length_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request =
        Request { tag: 1, function: 0, operation: 0, key: 0, pd: 0, qpn: 0, va: 0, length: 3 * 4096 };

    const MISSING: Failure = Failure { status: Status::MtrNotPresent, table: 7, hop: 0 };

    fn piece(pa: u64) -> Result<Segment, Failure> {
        Ok(Segment { pa, length_bytes: 4096 })
    }

    /// Beats of an answer of whole pages.
    fn beats(pages: &[u64], failure: Option<Failure>, controls: &Controls) -> Vec<Beat> {
        let pieces: Vec<_> = pages.iter().map(|pa| Segment { pa: *pa, length_bytes: 4096 }).collect();
        Response { segments: merged(&pieces, controls.merge_bytes_max), failure }.beats(&REQUEST)
    }

    fn is_accepted(pages: &[u64], failure: Option<Failure>, controls: &Controls) -> bool {
        let old = [piece(0x10_0000), piece(0x20_0000), piece(0x30_0000)];
        let new = [Err(MISSING), piece(0x10_1000), Err(MISSING)];
        is_mixture(&old, &new, &REQUEST, &beats(pages, failure, controls), controls)
    }

    #[test]
    fn pages_of_old_and_new_tables_may_be_mixed() {
        let controls = Controls::default();
        assert!(is_accepted(&[0x10_0000, 0x10_1000, 0x30_0000], None, &controls));
        assert!(is_accepted(&[0x10_0000, 0x20_0000], Some(MISSING), &controls));
        assert!(!is_accepted(&[0x10_0000, 0x20_0000], None, &controls), "it is too short");
        assert!(!is_accepted(&[0x10_0000], Some(MISSING), &controls), "the second page is there in either");
        assert!(!is_accepted(&[0x10_0000, 0x40_0000, 0x30_0000], None, &controls), "nobody says that");
        let other = Failure { hop: 1, ..MISSING };
        assert!(!is_accepted(&[0x10_0000, 0x20_0000], Some(other), &controls), "nobody fails so");
    }

    #[test]
    fn in_hold_mode_only_the_failure_is_told() {
        let controls = Controls { hold_mode: true, ..Controls::default() };
        assert!(is_accepted(&[], Some(MISSING), &controls));
        assert!(!is_accepted(&[], Some(Failure { hop: 1, ..MISSING }), &controls));
    }

    #[test]
    fn a_mixture_must_be_merged_by_the_rules() {
        let controls = Controls { merge_bytes_max: 0, ..Controls::default() };
        let old = [piece(0x10_0000), piece(0x20_0000), piece(0x30_0000)];
        let new = [piece(0x10_0000), piece(0x10_1000), piece(0x30_0000)];
        let joined = beats(&[0x10_0000, 0x10_1000, 0x30_0000], None, &Controls::default());
        assert!(!is_mixture(&old, &new, &REQUEST, &joined, &controls), "merging is off");
    }
}
