//! An answer of the golden model with the way to it, and answers that are partly from old tables.

use keywalk_model::{Beat, Controls, Engine, Failure, MptEntry, Observer, Request, Response, Segment, TableRead};

use super::case::Tables;
use keywalk_contract::Status;

/// An answer of the golden model, and how it came about.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The answer.
    pub response: Response,
    /// The MPT entry, where it was read.
    pub entry: Option<MptEntry>,
    /// Reads in order.
    pub reads: Vec<TableRead>,
    /// Pieces in order, before any is merged.
    pub pieces: Vec<Segment>,
}

#[derive(Default)]
struct Watch {
    entry: Option<MptEntry>,
    reads: Vec<TableRead>,
    pieces: Vec<Segment>,
}

impl Observer for Watch {
    fn read(&mut self, read: TableRead) {
        self.reads.push(read);
    }

    fn entry(&mut self, entry: &MptEntry) {
        self.entry = Some(entry.clone());
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
        Self { response, entry: watch.entry, reads: watch.reads, pieces: watch.pieces }
    }

    /// The failure, where it comes in the place of piece `position`.
    fn failure_at(&self, position: usize) -> Option<Failure> {
        self.response.failure.filter(|_| self.pieces.len() == position)
    }
}

/// Whether each page of an answer is as the old tables or the new ones say, and the whole is put together by the rules.
#[must_use]
pub fn is_mixture(old: &Answer, new: &Answer, request: &Request, beats: &[Beat], controls: &Controls) -> bool {
    let mut pieces: Vec<Segment> = Vec::new();
    let mut failure = None;
    for beat in beats {
        if beat.status == Status::Ok {
            let (mut pa, mut remaining) = (beat.pa, beat.length);
            while remaining > 0 {
                let position = pieces.len();
                let is_here = |piece: &&Segment| piece.pa == pa && piece.length_bytes <= remaining;
                let candidates = [old, new].into_iter().filter_map(|answer| answer.pieces.get(position));
                let Some(piece) = candidates.into_iter().find(is_here) else { return false };
                pieces.push(*piece);
                pa = pa.wrapping_add(piece.length_bytes.into());
                remaining -= piece.length_bytes;
            }
        } else {
            let found = Failure { status: beat.status, table: beat.table, hop: beat.hop };
            let is_failure = |answer: &&Answer| match controls.hold_mode {
                true => answer.response.failure == Some(found),
                false => answer.failure_at(pieces.len()) == Some(found),
            };
            if ![old, new].iter().any(|answer| is_failure(answer)) {
                return false;
            }
            failure = Some(found);
        }
    }
    let length_bytes: u64 = pieces.iter().map(|piece| u64::from(piece.length_bytes)).sum();
    if failure.is_none() && length_bytes != u64::from(request.length) {
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

    fn answer(pages: &[u64], failure: Option<Failure>) -> Answer {
        let pieces: Vec<_> = pages.iter().map(|pa| Segment { pa: *pa, length_bytes: 4096 }).collect();
        let response = Response { segments: merged(&pieces, u32::MAX), failure };
        Answer { response, entry: None, reads: Vec::new(), pieces }
    }

    fn is_accepted(pages: &[u64], failure: Option<Failure>) -> bool {
        let missing = Failure { status: Status::MtrNotPresent, table: 7, hop: 0 };
        let old = answer(&[0x10_0000, 0x20_0000, 0x30_0000], None);
        let new = answer(&[0x10_0000, 0x10_1000], Some(missing));
        let controls = Controls { merge_bytes_max: u32::MAX, ..Controls::default() };
        let beats = answer(pages, failure).response.beats(&REQUEST);
        is_mixture(&old, &new, &REQUEST, &beats, &controls)
    }

    #[test]
    fn pages_of_old_and_new_tables_may_be_mixed() {
        let missing = Some(Failure { status: Status::MtrNotPresent, table: 7, hop: 0 });
        assert!(is_accepted(&[0x10_0000, 0x10_1000, 0x30_0000], None));
        assert!(is_accepted(&[0x10_0000, 0x20_0000], missing));
        assert!(!is_accepted(&[0x10_0000, 0x20_0000], None), "it is too short");
        assert!(!is_accepted(&[0x10_0000], missing), "the second page is there in either");
        assert!(!is_accepted(&[0x10_0000, 0x40_0000, 0x30_0000], None), "nobody says that");
    }

    #[test]
    fn a_mixture_must_be_merged_by_the_rules() {
        let old = answer(&[0x10_0000, 0x20_0000, 0x30_0000], None);
        let new = answer(&[0x10_0000, 0x10_1000, 0x30_0000], None);
        let controls = Controls { merge_bytes_max: 0, ..Controls::default() };
        let beats = answer(&[0x10_0000, 0x10_1000, 0x30_0000], None).response.beats(&REQUEST);
        assert!(!is_mixture(&old, &new, &REQUEST, &beats, &controls), "merging is off");
    }
}
