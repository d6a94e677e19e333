//! The split buffer against a plain list of pieces: order, merging, errors, slots and contexts that come back, and walks
//! that are answered at any time.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use keywalk_contract::{Config, Status};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Two contexts of four slots, four of eight, and as many as there are by default.
const DESIGNS: [&Dut; 3] = [&dut::SPLIT_BUFFER_LEAST, &dut::SPLIT_BUFFER, &dut::SPLIT_BUFFER_DEFAULT];
/// Responses in order.
const ORDERED: &Dut = &dut::SPLIT_BUFFER_ORDERED;
/// Cycles more in order, where it is the request's turn.
const ORDER_CYCLES: u64 = 3;

/// Cycles from the last piece, or from the last walk, to the first segment, where that is one piece and everything else was
/// there before.
const LATENCY_CYCLES: u64 = 11;
/// Cycles from the first piece of a long request to its first segment, where that is one piece.
const LONG_LATENCY_CYCLES: u64 = 10;

/// Waits for longer than any test takes, nearly from the start.
const BLOCKED: Stall = Stall::percent(100).up_to(60_000);

const PAGE_STATUSES: [Status; 5] =
    [Status::MtrIndex, Status::MtrMisaligned, Status::MtrNotPresent, Status::MtrBusError, Status::MtrTimeout];

/// Register bits that the block obeys.
#[derive(Clone, Copy, Debug)]
struct Controls {
    is_held: bool,
    merge_bytes_max: u32,
}

/// A piece of a request as the TLB and the walker know it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    is_miss: bool,
    address: u64,
    length: u32,
    status: Status,
    hop: u8,
    va: u64,
}

impl Piece {
    fn hit(address: u64, length: u32) -> Self {
        Self { is_miss: false, address, length, status: Status::Ok, hop: 0, va: 0 }
    }

    fn miss(address: u64, length: u32) -> Self {
        Self { is_miss: true, ..Self::hit(address, length) }
    }

    fn failure(status: Status, hop: u8, va: u64) -> Self {
        Self { is_miss: true, address: 0, length: 4096, status, hop, va }
    }
}

/// When the walks of a request are answered.
#[derive(Clone, Debug)]
enum WalkTimes {
    /// So many cycles after the piece.
    AfterPiece(Range<u64>),
    /// So many cycles after (or before) the last piece, one for each miss. The pieces come without gaps.
    AroundLast(Vec<i64>),
    /// When the test says so.
    Held,
}

#[derive(Clone, Debug)]
struct Request {
    pieces: Vec<Piece>,
    walk_times: WalkTimes,
}

/// A beat of a response; of a good one `hop` and `va` mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    status: Status,
    hop: u8,
    va: u64,
    address: u64,
    length: u32,
}

impl Request {
    fn new(pieces: Vec<Piece>) -> Self {
        Self { pieces, walk_times: WalkTimes::AfterPiece(1..30) }
    }

    /// The response, by the rules for merging and errors.
    fn segments(&self, controls: Controls) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for piece in &self.pieces {
            let Piece { status, hop, va, address, length, .. } = *piece;
            if status != Status::Ok {
                if controls.is_held {
                    segments.clear();
                }
                segments.push(Segment { status, hop, va, address: 0, length: 0 });
                break;
            }
            if let Some(open) = segments.last_mut() {
                let end = u128::from(open.address) + u128::from(open.length);
                let total = u64::from(open.length) + u64::from(length);
                if end == u128::from(address) && total <= u64::from(controls.merge_bytes_max) {
                    open.length += length;
                    continue;
                }
            }
            segments.push(Segment { status, hop, va, address, length });
        }
        segments
    }

    /// A request of so many pages, with misses and failures of so many pages in 100.
    fn random(pages: u32, miss_percent: u32, failure_percent: u32, random: &mut ChaCha8Rng) -> Self {
        let mut next = random.next_u64();
        let mut pieces = Vec::new();
        for _ in 0..pages {
            let mut length: u32 = match random.random_range(0..8) {
                0 => random.random_range(1..=4096),
                1 => 1 << random.random_range(12..20),
                2 => 1,
                _ => 4096,
            };
            let address = match random.random_range(0..8) {
                0 => random.next_u64(),
                1 => next.wrapping_add(1),
                2 => next.wrapping_sub(1),
                // The piece ends at 2^64, just before, or just behind.
                3 => {
                    length = length.max(2);
                    u64::MAX - u64::from(length) + random.random_range(0..3)
                }
                _ => next,
            };
            next = address.wrapping_add(length.into());
            let va = random.next_u64();
            pieces.push(if random.random_range(0..100) < failure_percent {
                let status = PAGE_STATUSES[random.random_range(0..PAGE_STATUSES.len())];
                Piece { length, ..Piece::failure(status, random.random_range(0..4), va) }
            } else if random.random_range(0..100) < miss_percent {
                Piece { va, ..Piece::miss(address, length) }
            } else {
                Piece { va, ..Piece::hit(address, length) }
            });
        }
        let walk_times = match random.random_range(0..4) {
            0 => WalkTimes::AfterPiece(1..3),
            1 => WalkTimes::AfterPiece(1..100),
            _ => WalkTimes::AfterPiece(1..20),
        };
        Self { pieces, walk_times }
    }
}

/// A request that has a split context.
struct Open {
    tag: u128,
    context: u64,
    /// Pieces sent.
    sent: usize,
    pieces: usize,
    /// Walks that are not answered.
    walks: usize,
    is_long: bool,
    /// Which of the two long requests that may be open.
    turn: usize,
}

/// A request on its way through the page split.
struct Sending {
    request: Request,
    /// Fields that all pieces share.
    header: Beat,
    context: u64,
    next: usize,
    misses: usize,
    first_cycle: u64,
}

/// The block between a page split, a TLB, a walker and a response port.
struct Rig {
    bench: Bench,
    config: Config,
    random: ChaCha8Rng,
    controls: Controls,
    looked_up: Handle<StreamDriver>,
    results: Handle<StreamDriver>,
    segments: Handle<StreamSink>,
    early_context: Input,
    early_slot: Input,
    ready: Output,
    old_toggle: Output,
    context_freed: Output,
    context_freed_number: Output,
    slot_freed: Output,
    slot_freed_turn: Output,
    long_finished: Output,
    /// Chance in 100 of a gap before a piece.
    gap_percent: u32,
    /// Chance in 100, in a cycle without a piece or result, of one that is none of this block's.
    other_percent: u32,
    queue: VecDeque<(u128, Request)>,
    sending: Option<Sending>,
    /// A piece whose slot was announced in the cycle before, with its walk's result and when that is due.
    staged: Option<(Beat, Option<(u64, Beat)>)>,
    /// Free contexts; the one that became free last is taken first.
    free: Vec<u64>,
    open: Vec<Open>,
    /// Slots in use, and slots that came back, of the long requests of either turn.
    long_slots: [u64; 2],
    long_slots_freed: [usize; 2],
    /// Turn of the next long request.
    long_turn: usize,
    /// Results of walks with the cycle from which they may be given.
    walks: Vec<(u64, Beat)>,
    is_holding_walks: bool,
    next_tag: u128,
    /// Header and remaining beats of every response.
    expected: HashMap<u128, (Beat, VecDeque<Segment>, u32)>,
    /// The response whose last beat has not come.
    receiving: Option<u128>,
    /// Tags in the order in which their responses ended.
    finished: Vec<u128>,
    beats: u64,
    last_piece_cycle: u64,
    last_result_cycle: u64,
    /// Cycle in which the last beat became valid.
    beat_cycle: u64,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64, controls: Controls, segment_stall: Stall) -> Result<Self, Error> {
        let config = design.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let mut rig = Self {
            random: bench.random(),
            controls,
            looked_up: bench.driver("looked_up", Stall::NEVER)?,
            results: bench.driver("result", Stall::NEVER)?,
            segments: bench.sink("segment", segment_stall)?,
            early_context: bench.model().input("early_split_context")?,
            early_slot: bench.model().input("early_split_slot")?,
            ready: bench.model().output("ready")?,
            old_toggle: bench.model().output("old_toggle")?,
            context_freed: bench.model().output("context_freed")?,
            context_freed_number: bench.model().output("context_freed_number")?,
            slot_freed: bench.model().output("slot_freed")?,
            slot_freed_turn: bench.model().output("slot_freed_turn")?,
            long_finished: bench.model().output("long_finished")?,
            gap_percent: 0,
            other_percent: 30,
            queue: VecDeque::new(),
            sending: None,
            staged: None,
            free: Vec::new(),
            open: Vec::new(),
            long_slots: [0; 2],
            long_slots_freed: [0; 2],
            long_turn: 0,
            walks: Vec::new(),
            is_holding_walks: false,
            next_tag: 0,
            expected: HashMap::new(),
            receiving: None,
            finished: Vec::new(),
            beats: 0,
            last_piece_cycle: 0,
            last_result_cycle: 0,
            beat_cycle: 0,
            bench,
            config,
        };
        rig.set_controls(controls)?;
        rig.reset()?;
        Ok(rig)
    }

    /// Only while nothing is under way.
    fn set_controls(&mut self, controls: Controls) -> Result<(), Error> {
        self.controls = controls;
        for (name, value) in
            [("hold_mode", controls.is_held.into()), ("merge_bytes_max", controls.merge_bytes_max.into())]
        {
            let input = self.bench.model().input(name)?;
            self.bench.model_mut().set(input, value);
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.queue.clear();
        self.sending = None;
        self.staged = None;
        self.free = (0..self.config.split_contexts.into()).collect();
        self.open.clear();
        self.long_slots = [0; 2];
        self.long_slots_freed = [0; 2];
        self.long_turn = 0;
        self.walks.clear();
        self.expected.clear();
        self.receiving = None;
        self.bench.reset(2)?;
        let ready = self.ready;
        let limit_cycles = u64::from(self.config.split_contexts * self.config.split_pages) + 5;
        self.bench.run_until("ready", limit_cycles, |bench| bench.model().get(ready) == 1)
    }

    fn push(&mut self, request: Request) -> Result<u128, Error> {
        let tag = self.next_tag;
        self.next_tag = (tag + 1) & 0xffff;
        self.queue.push_back((tag, request));
        Ok(tag)
    }

    /// Begins to send the next request, if it may have a context.
    fn begin(&mut self) -> Result<(), Error> {
        let Some((_, request)) = self.queue.front() else { return Ok(()) };
        let is_long = request.pieces.len() > self.config.split_pages as usize;
        let turn = self.long_turn;
        let is_turn_open = self.open.iter().any(|open| open.is_long && open.turn == turn);
        if is_long && is_turn_open || self.free.is_empty() {
            return Ok(());
        }
        let (tag, request) = self.queue.pop_front().expect("there is a request");
        // Mostly the context that became free last, before old walks are forgotten.
        let position = match self.random.random_range(0..4) {
            _ if self.config.in_order => 0,
            0 => self.random.random_range(0..self.free.len()),
            _ => self.free.len() - 1,
        };
        let context = self.free.remove(position);
        let shape = self.bench[self.looked_up].channel().shape().clone();
        let header = Beat::random_with(&shape, &[("tag", tag)], &mut self.random)?;
        let pieces = request.pieces.len();
        self.open.push(Open { tag, context, sent: 0, pieces, walks: 0, is_long, turn });
        if is_long {
            self.long_slots_freed[turn] = 0;
        }
        self.expected.insert(tag, (header.clone(), request.segments(self.controls).into(), 0));
        let first_cycle = self.bench.cycles() + 1;
        self.sending = Some(Sending { request, header, context, next: 0, misses: 0, first_cycle });
        Ok(())
    }

    /// Announces the slot of the piece that comes in the next cycle, if one may.
    fn stage(&mut self) -> Result<(), Error> {
        let (context_port, slot_port) = (self.early_context, self.early_slot);
        let garbage = self.random.next_u32();
        let slots = u64::from(self.config.split_pages);
        let garbage_context = u64::from(garbage >> 16) % u64::from(self.config.split_contexts);
        self.bench.model_mut().set(context_port, garbage_context);
        self.bench.model_mut().set(slot_port, u64::from(garbage) % slots);
        if self.sending.is_none() && self.random.random_range(0..100) >= self.gap_percent {
            self.begin()?;
        }
        let cycle = self.bench.cycles() + 1;
        let Some(sending) = &mut self.sending else { return Ok(()) };
        let pieces = sending.request.pieces.len();
        let is_long = pieces > slots as usize;
        let is_gap = sending.next > 0 && self.random.random_range(0..100) < self.gap_percent;
        if is_gap || is_long && self.long_slots[self.long_turn] == slots {
            return Ok(());
        }
        let number = sending.next;
        let piece = sending.request.pieces[number];
        // There are more slots than walks in order, where the page split must be seen to reserve them: more walks in flight
        // than that would fill the queue of hits.
        if self.config.in_order && piece.is_miss && self.walks.len() as u32 >= self.config.request_walks() {
            return Ok(());
        }
        let slot = number as u64 % slots;
        let (is_first, is_last) = (number == 0, number + 1 == pieces);
        let mut beat = Beat::random_with(sending.header.shape(), &[("is_split", 1)], &mut self.random)?;
        // Of a piece that is not walked its own outcome counts.
        let (status, hop, va) = if piece.is_miss { (Status::Ok, 0, 0) } else { (piece.status, piece.hop, piece.va) };
        beat.set("status", status.code().into())?;
        if status != Status::Ok {
            beat.set("hop", hop.into())?;
            beat.set("va", va.into())?;
        }
        for field in ["tag", "function", "is_remote", "mpt_index", "admission"] {
            beat.set(field, sending.header.get(field)?)?;
        }
        for (field, value) in [
            ("is_miss", u128::from(piece.is_miss)),
            ("length", piece.length.into()),
            ("split_context", sending.context.into()),
            ("split_slot", slot.into()),
            ("is_first", is_first.into()),
            ("is_last", is_last.into()),
            ("is_long", is_long.into()),
        ] {
            beat.set(field, value)?;
        }
        if !piece.is_miss {
            beat.set("address", piece.address.into())?;
        }
        let walk = if piece.is_miss {
            let last_cycle = sending.first_cycle + pieces as u64 - 1;
            let due = match &sending.request.walk_times {
                WalkTimes::AfterPiece(cycles) => cycle + self.random.random_range(cycles.clone()),
                WalkTimes::AroundLast(offsets) => last_cycle.saturating_add_signed(offsets[sending.misses]),
                WalkTimes::Held => u64::MAX,
            };
            sending.misses += 1;
            let shape = self.bench[self.results].channel().shape().clone();
            let values = [
                ("is_context", 0),
                ("is_split", 1),
                ("split_context", sending.context.into()),
                ("split_slot", slot.into()),
                ("status", piece.status.code().into()),
                ("is_ok", u128::from(piece.status == Status::Ok)),
                ("hop", piece.hop.into()),
                ("address", piece.address.into()),
                ("va", piece.va.into()),
            ];
            Some((due.max(cycle + 1), Beat::random_with(&shape, &values, &mut self.random)?))
        } else {
            None
        };
        self.long_slots[self.long_turn] += u64::from(is_long);
        self.long_turn ^= usize::from(is_long && is_last);
        sending.next += 1;
        if is_last {
            self.sending = None;
        }
        let model = self.bench.model_mut();
        model.set(context_port, beat.get("split_context")? as u64);
        model.set(slot_port, slot);
        self.staged = Some((beat, walk));
        Ok(())
    }

    /// Perhaps a single piece.
    fn push_other_piece(&mut self) -> Result<(), Error> {
        if self.random.random_range(0..100) < self.other_percent {
            let looked_up = self.looked_up;
            let shape = self.bench[looked_up].channel().shape().clone();
            let beat = Beat::random_with(&shape, &[("is_split", 0)], &mut self.random)?;
            self.bench[looked_up].push(beat);
        }
        Ok(())
    }

    /// Perhaps the result of a walk of a single piece or of the context port.
    fn push_other_result(&mut self) -> Result<(), Error> {
        if self.random.random_range(0..100) < self.other_percent {
            let results = self.results;
            let shape = self.bench[results].channel().shape().clone();
            let is_split = self.random.random_range(0..2);
            let mut beat = Beat::random_with(&shape, &[("is_split", is_split)], &mut self.random)?;
            if is_split == 1 {
                beat.set("is_context", 1)?;
            }
            self.bench[results].push(beat);
        }
        Ok(())
    }

    fn open_of(&mut self, context: u64) -> &mut Open {
        let found = self.open.iter_mut().find(|open| open.context == context);
        found.expect("the context is in use")
    }

    fn cycle(&mut self) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let (looked_up, results) = (self.looked_up, self.results);
        if let Some((piece, walk)) = self.staged.take() {
            let old_toggle = self.bench.model().get(self.old_toggle);
            let open = self.open_of(piece.get("split_context")? as u64);
            open.sent += 1;
            open.walks += usize::from(walk.is_some());
            if let Some((due, mut result)) = walk {
                result.set("split_toggle", u128::from(1 - old_toggle))?;
                self.walks.push((due, result));
            }
            self.bench[looked_up].push(piece);
            self.last_piece_cycle = cycle;
        } else {
            self.push_other_piece()?;
        }
        self.stage()?;
        let due: Vec<_> = (0..self.walks.len()).filter(|&walk| self.walks[walk].0 <= cycle).collect();
        if due.is_empty() || self.is_holding_walks {
            self.push_other_result()?;
        } else {
            let (_, result) = self.walks.swap_remove(due[self.random.random_range(0..due.len())]);
            self.open_of(result.get("split_context")? as u64).walks -= 1;
            self.bench[results].push(result);
            self.last_result_cycle = cycle;
        }
        self.bench.cycle()?;
        self.check_pulses();
        while let Some(received) = self.bench[self.segments].pop() {
            self.beats += 1;
            self.beat_cycle = received.valid_cycle;
            self.check_segment(&received.beat)?;
        }
        Ok(())
    }

    fn check_pulses(&mut self) {
        let is_set = |rig: &Self, output| rig.bench.model().get(output) == 1;
        if is_set(self, self.slot_freed) {
            let turn = self.bench.model().get(self.slot_freed_turn) as usize;
            self.long_slots[turn] = self.long_slots[turn].checked_sub(1).expect("a slot comes back once");
            self.long_slots_freed[turn] += 1;
        }
        let is_long_finished = is_set(self, self.long_finished);
        if !is_set(self, self.context_freed) {
            assert!(!is_long_finished, "a long request finishes when its context comes back");
            return;
        }
        let context = self.bench.model().get(self.context_freed_number);
        let position = self.open.iter().position(|open| open.context == context).expect("a context comes back once");
        let open = self.open.remove(position);
        assert_eq!((open.sent, open.walks), (open.pieces, 0), "request {} is not over", open.tag);
        assert_eq!(is_long_finished, open.is_long);
        if open.is_long {
            let counts = (self.long_slots_freed[open.turn], self.long_slots[open.turn]);
            assert_eq!(counts, (open.pieces, 0), "slots of a long request");
        }
        self.free.push(context);
    }

    fn check_segment(&mut self, beat: &Beat) -> Result<(), Error> {
        let tag = beat.get("tag")?;
        assert!(self.receiving.is_none_or(|open| open == tag), "{beat:?} within response {:?}", self.receiving);
        if self.config.in_order {
            // Contexts are open until all beats have been made, so of the oldest request there may be beats to come still.
            let oldest = self.expected.values().map(|(header, ..)| header.get("tag")).collect::<Result<Vec<_>, _>>()?;
            let age = |tag: &u128| self.next_tag.wrapping_sub(*tag) & 0xffff;
            assert_eq!(oldest.into_iter().max_by_key(age), Some(tag), "the oldest response is next");
        }
        let (header, segments, number) = self.expected.get_mut(&tag).expect("a response comes once");
        let wanted = segments.pop_front().expect("no beat comes after the last");
        let is_last = segments.is_empty();
        for field in ["function", "is_remote", "mpt_index", "admission"] {
            assert_eq!(beat.get(field)?, header.get(field)?, "{field} of {beat:?}");
        }
        let is_ok = wanted.status == Status::Ok;
        for (field, value) in [
            ("status", u128::from(wanted.status.code())),
            ("hop", wanted.hop.into()),
            ("va", wanted.va.into()),
            ("address", wanted.address.into()),
            ("length", wanted.length.into()),
            ("segment", (*number).into()),
            ("first", (*number == 0).into()),
            ("last", is_last.into()),
        ] {
            let is_meaningless = is_ok && (field == "hop" || field == "va");
            assert!(is_meaningless || beat.get(field)? == value, "{field} of {beat:?}, expected {wanted:?}");
        }
        *number += 1;
        self.receiving = (!is_last).then_some(tag);
        if is_last {
            self.expected.remove(&tag);
            self.finished.push(tag);
        }
        Ok(())
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn is_busy(&self) -> bool {
        let is_sent = self.queue.is_empty() && self.sending.is_none() && self.staged.is_none();
        !(is_sent && self.open.is_empty() && self.expected.is_empty())
    }

    /// Runs until every response is there, then checks that every context came back and nothing more happens.
    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while self.is_busy() {
            assert!(
                self.bench.cycles() < end,
                "after {limit_cycles} cycles {} requests are not sent and {} responses are missing",
                self.queue.len(),
                self.expected.len()
            );
            self.cycle()?;
        }
        self.run(5)?;
        assert_eq!(self.free.len(), self.config.split_contexts as usize, "every context comes back");
        assert_eq!(self.long_slots, [0; 2], "every slot comes back");
        Ok(())
    }

    /// One request, whose response is also checked against the test's own expectation: status code, address, length.
    fn check_alone(&mut self, pieces: Vec<Piece>, wanted: &[(Status, u64, u32)]) -> Result<(), Error> {
        let request = Request::new(pieces);
        let segments: Vec<_> = request
            .segments(self.controls)
            .iter()
            .map(|segment| (segment.status, segment.address, segment.length))
            .collect();
        assert_eq!(segments, wanted, "{request:?}");
        self.push(request)?;
        self.finish(300)
    }
}

const UNMERGED: Controls = Controls { is_held: false, merge_bytes_max: 0 };
const MERGED: Controls = Controls { is_held: false, merge_bytes_max: u32::MAX };
const OK: Status = Status::Ok;

#[test]
fn contiguous_pieces_are_merged_up_to_the_limit() -> Result<(), Error> {
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        let mut rig = Rig::new(design, 1, UNMERGED, Stall::NEVER)?;
        let page = 0x1_2345_6000;
        let pieces = vec![
            Piece::hit(page + 0x800, 0x800),
            Piece::miss(page + 0x1000, 0x1000),
            Piece::hit(page + 0x2000, 0x1000),
            Piece::miss(page + 0x3000, 0x10),
        ];
        let all = |lengths: &[u32]| {
            let mut address = page + 0x800;
            let mut segments = Vec::new();
            for length in lengths {
                segments.push((OK, address, *length));
                address += u64::from(*length);
            }
            segments
        };
        for (merge_bytes_max, lengths) in [
            (0, &[0x800, 0x1000, 0x1000, 0x10_u32] as &[u32]),
            (0x100f, &[0x800, 0x1000, 0x1000, 0x10]),
            (0x1010, &[0x800, 0x1000, 0x1010]),
            (0x17ff, &[0x800, 0x1000, 0x1010]),
            (0x1800, &[0x1800, 0x1010]),
            (0x27ff, &[0x1800, 0x1010]),
            (0x2800, &[0x2800, 0x10]),
            (0x280f, &[0x2800, 0x10]),
            (0x2810, &[0x2810]),
            (u32::MAX, &[0x2810]),
        ] {
            rig.set_controls(Controls { merge_bytes_max, ..MERGED })?;
            rig.check_alone(pieces.clone(), &all(lengths))?;
        }
    }
    Ok(())
}

#[test]
fn pieces_with_a_gap_or_around_2_to_the_64_stay_apart() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 2, MERGED, Stall::NEVER)?;
        let apart = |first: (u64, u32), second: (u64, u32)| {
            let pieces = vec![Piece::hit(first.0, first.1), Piece::miss(second.0, second.1)];
            (pieces, [(OK, first.0, first.1), (OK, second.0, second.1)])
        };
        for (pieces, wanted) in [
            apart((0x1000, 0x1000), (0x2001, 0xfff)),
            apart((0x1000, 0x1000), (0x1fff, 0x1000)),
            apart((0x1000, 0x1000), (0x1000, 0x1000)),
            apart((0x1000, 0x1000), (0x1_0000_2000, 0x1000)),
            apart((0x1000, 0x1000), (0x8000_0000_0000_2000, 0x1000)),
            // The first one ends at 2^64, or runs past it.
            apart((0xffff_ffff_ffff_f000, 0x1000), (0, 0x1000)),
            apart((0xffff_ffff_ffff_f800, 0x1000), (0x800, 0x1000)),
        ] {
            rig.check_alone(pieces, &wanted)?;
        }
        // The second one ends there.
        let top = 0xffff_ffff_ffff_e000;
        rig.check_alone(vec![Piece::miss(top, 0x1000), Piece::hit(top + 0x1000, 0x1000)], &[(OK, top, 0x2000)])?;
        // Long enough that the sum does not fit into 32 bits.
        let half = 0x8000_0000;
        let pieces = vec![Piece::hit(0, half), Piece::hit(half.into(), half), Piece::hit(2 * u64::from(half), 1)];
        rig.check_alone(pieces, &[(OK, 0, half), (OK, half.into(), half + 1)])?;
    }
    Ok(())
}

#[test]
fn a_failure_ends_the_response() -> Result<(), Error> {
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        let mut rig = Rig::new(design, 3, MERGED, Stall::NEVER)?;
        let failure = |position: u64| Piece::failure(Status::MtrNotPresent, 2, position);
        let error = (Status::MtrNotPresent, 0, 0);
        for make in [Piece::hit as fn(u64, u32) -> Piece, Piece::miss] {
            let pages: Vec<_> = (0..4).map(|number| make(0x7000 + (number << 12), 0x1000)).collect();
            for position in 0..4 {
                let mut pieces = pages.clone();
                pieces[position] = failure(position as u64);
                let good = (OK, 0x7000, 0x1000 * position as u32);
                let wanted = if position == 0 { vec![error] } else { vec![good, error] };
                rig.set_controls(MERGED)?;
                rig.check_alone(pieces.clone(), &wanted)?;
                // Of several failures the first in address order counts.
                for later in position + 1..4 {
                    pieces[later] = Piece::failure(Status::MtrBusError, 1, 99);
                    rig.check_alone(pieces.clone(), &wanted)?;
                }
                rig.set_controls(Controls { is_held: true, ..MERGED })?;
                rig.check_alone(pieces, &[error])?;
            }
            // Without a failure hold mode changes nothing.
            rig.check_alone(pages, &[(OK, 0x7000, 0x4000)])?;
        }
    }
    Ok(())
}

#[test]
fn walks_and_the_last_piece_meet_in_any_cycle() -> Result<(), Error> {
    let page = |number: u64| 0x10_0000 * (number + 1);
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        // Each request alone, then all of them one after the other.
        for is_alone in [true, false] {
            let mut rig = Rig::new(design, 4, UNMERGED, Stall::NEVER)?;
            // Positions of the two misses among four pieces; the third position is that of the last piece.
            for misses in [[0, 1], [1, 2], [0, 3], [2, 3]] {
                for first in -3..10 {
                    for second in -3..10 {
                        let pieces = (0..4)
                            .map(|number| {
                                let piece = if misses.contains(&number) { Piece::miss } else { Piece::hit };
                                piece(page(number), 0x1000)
                            })
                            .collect();
                        let walk_times = WalkTimes::AroundLast(vec![first, second]);
                        rig.push(Request { pieces, walk_times })?;
                        if is_alone {
                            rig.finish(100)?;
                        }
                    }
                }
            }
            rig.finish(40_000)?;
        }
    }
    Ok(())
}

#[test]
fn walks_of_one_request_may_come_in_every_cycle() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 5, MERGED, Stall::NEVER)?;
        let pages = u64::from(rig.config.split_pages);
        for _ in 0..50 {
            for delay_cycles in [1, 2, 5, 12] {
                let pieces = (0..pages).map(|number| Piece::miss(number << 12, 0x1000)).collect();
                rig.push(Request { pieces, walk_times: WalkTimes::AfterPiece(delay_cycles..delay_cycles + 1) })?;
            }
        }
        rig.finish(20_000)?;
    }
    Ok(())
}

#[test]
fn a_request_that_waits_for_walks_holds_up_no_other() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 6, UNMERGED, Stall::NEVER)?;
        let waiting = Request {
            pieces: vec![Piece::hit(0x1000, 0x1000), Piece::miss(0x5000, 0x1000)],
            walk_times: WalkTimes::Held,
        };
        let waiting = rig.push(waiting)?;
        for number in 0..20 {
            let mut random = rig.bench.random();
            rig.push(Request::random(2 + number % 3, 50, 0, &mut random))?;
        }
        let end = rig.bench.cycles() + 3000;
        while rig.finished.len() < 20 {
            rig.cycle()?;
            assert!(rig.bench.cycles() < end, "{} of 20 responses", rig.finished.len());
        }
        assert!(!rig.finished.contains(&waiting));
        for (due, _) in &mut rig.walks {
            *due = 0;
        }
        rig.finish(100)?;
        assert_eq!(rig.finished.last(), Some(&waiting));
    }
    Ok(())
}

#[test]
fn a_long_request_streams_through_its_slots() -> Result<(), Error> {
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        let mut rig = Rig::new(design, 7, UNMERGED, Stall::NEVER)?;
        let slots = u64::from(rig.config.split_pages);
        let mut random = rig.bench.random();
        for pages in [slots + 1, slots + 2, 2 * slots, 2 * slots + 1, 7 * slots - 1] {
            for miss_percent in [0, 30, 100] {
                let request = Request::random(pages as u32, miss_percent, 0, &mut random);
                rig.push(request)?;
                let before = rig.beats;
                let end = rig.bench.cycles() + 200;
                // The response begins before the last piece is sent, where it cannot be held.
                while rig.beats == before {
                    rig.cycle()?;
                    assert!(rig.bench.cycles() < end, "the response does not begin");
                }
                assert!(rig.sending.is_some() || pages < 4 * slots, "{pages} pages are held");
                rig.finish(pages * 110 + 100)?;
            }
        }
        // Every page in its own slot, each walk as late as it may be: the ring is full all the time.
        let pieces = (0..5 * slots).map(|number| Piece::miss(number << 13, 0x1000)).collect();
        rig.push(Request { pieces, walk_times: WalkTimes::AfterPiece(40..41) })?;
        rig.finish(2_000)?;
        // A failure in any third of it: the pieces behind it are drained all the same.
        for position in [0, 1, slots, 2 * slots + 1, 3 * slots - 1] {
            for controls in [UNMERGED, MERGED] {
                rig.set_controls(controls)?;
                let mut pieces: Vec<_> = (0..3 * slots).map(|number| Piece::miss(number << 12, 0x1000)).collect();
                pieces[position as usize] = Piece::failure(Status::MtrBusError, 1, position);
                rig.push(Request::new(pieces))?;
                rig.finish(3_000)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_long_request_waits_for_its_own_walks_at_any_piece() -> Result<(), Error> {
    for design in &DESIGNS[..2] {
        let mut rig = Rig::new(design, 8, UNMERGED, Stall::NEVER)?;
        let slots = u64::from(rig.config.split_pages);
        for position in 0..2 * slots + 2 {
            for delay_cycles in [1, 3, 4, 5, 6, 7, 8, 9, 30] {
                let mut pieces: Vec<_> = (0..2 * slots + 2).map(|number| Piece::hit(number << 13, 0x1000)).collect();
                pieces[position as usize].is_miss = true;
                rig.push(Request { pieces, walk_times: WalkTimes::AfterPiece(delay_cycles..delay_cycles + 1) })?;
            }
        }
        rig.finish(40_000)?;
    }
    Ok(())
}

/// How a random run goes.
#[derive(Clone, Copy)]
struct Case {
    controls: Controls,
    segment_stall: Stall,
    gap_percent: u32,
    miss_percent: u32,
    failure_percent: u32,
    /// Requests of 100 that are long.
    long_percent: u32,
}

fn random_requests(design: &'static Dut, seed: u64, case: Case) -> Result<(), Error> {
    const REQUESTS: usize = 400;
    let mut rig = Rig::new(design, seed, case.controls, case.segment_stall)?;
    rig.gap_percent = case.gap_percent;
    let slots = rig.config.split_pages;
    let mut random = rig.bench.random();
    let mut pages_total = 0;
    for _ in 0..REQUESTS {
        let pages = if random.random_range(0..100) < case.long_percent {
            random.random_range(slots + 1..=4 * slots)
        } else if random.random_range(0..4) == 0 {
            slots
        } else {
            random.random_range(2..=slots)
        };
        pages_total += u64::from(pages);
        rig.push(Request::random(pages, case.miss_percent, case.failure_percent, &mut random))?;
    }
    rig.finish(pages_total * 30 + 10_000)?;
    assert_eq!(rig.finished.len(), REQUESTS);
    Ok(())
}

#[test]
fn random_requests_are_answered_once_in_one_piece() -> Result<(), Error> {
    let usual = Case {
        controls: MERGED,
        segment_stall: Stall::NEVER,
        gap_percent: 0,
        miss_percent: 30,
        failure_percent: 0,
        long_percent: 0,
    };
    let stalls = Stall::percent(30).up_to(10);
    let cases = [
        usual,
        Case { miss_percent: 0, ..usual },
        Case { miss_percent: 100, controls: UNMERGED, ..usual },
        Case { gap_percent: 40, failure_percent: 5, ..usual },
        Case { long_percent: 20, failure_percent: 1, controls: UNMERGED, ..usual },
        Case { long_percent: 30, miss_percent: 5, segment_stall: stalls, ..usual },
        Case { long_percent: 10, gap_percent: 20, failure_percent: 3, segment_stall: stalls, ..usual },
        Case { segment_stall: Stall::percent(10).up_to(100), controls: UNMERGED, ..usual },
        Case { controls: Controls { merge_bytes_max: 0x2800, ..MERGED }, failure_percent: 10, ..usual },
        Case { controls: Controls { is_held: true, ..MERGED }, failure_percent: 8, segment_stall: stalls, ..usual },
        Case { controls: Controls { is_held: true, merge_bytes_max: 0 }, failure_percent: 30, ..usual },
    ];
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        for (number, case) in cases.into_iter().enumerate() {
            random_requests(design, 20 + number as u64, case)?;
        }
    }
    Ok(())
}

#[test]
fn a_blocked_response_port_loses_nothing() -> Result<(), Error> {
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        let mut rig = Rig::new(design, 40, UNMERGED, Stall::NEVER)?;
        let (segments, slots) = (rig.segments, rig.config.split_pages);
        let mut random = rig.bench.random();
        for round in 0..10 {
            rig.bench[segments].set_stall(BLOCKED);
            for number in 0..2 * rig.config.split_contexts {
                let pages = if number == 3 { 3 * slots } else { random.random_range(2..=slots) };
                rig.push(Request::random(pages, 30, 2, &mut random))?;
            }
            rig.run(100 + 37 * round)?;
            rig.bench[segments].set_stall(Stall::NEVER);
            rig.finish(20_000)?;
        }
    }
    Ok(())
}

#[test]
fn the_response_begins_as_soon_as_it_can() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 41, UNMERGED, Stall::NEVER)?;
        let first_beat = |rig: &mut Rig| -> Result<u64, Error> {
            let (before, end) = (rig.beats, rig.bench.cycles() + 200);
            while rig.beats == before {
                rig.cycle()?;
                assert!(rig.bench.cycles() < end, "no response");
            }
            Ok(rig.beat_cycle)
        };
        rig.push(Request::new(vec![Piece::hit(0x1000, 1), Piece::hit(0x9000, 1)]))?;
        let cycle = first_beat(&mut rig)?;
        assert_eq!(cycle - rig.last_piece_cycle, LATENCY_CYCLES, "{}", design.name);
        rig.finish(20)?;

        let pieces = vec![Piece::miss(0x1000, 1), Piece::hit(0x9000, 1)];
        rig.push(Request { pieces, walk_times: WalkTimes::AroundLast(vec![30]) })?;
        let cycle = first_beat(&mut rig)?;
        assert_eq!(cycle - rig.last_result_cycle, LATENCY_CYCLES, "{}", design.name);
        rig.finish(20)?;

        let slots = u64::from(rig.config.split_pages);
        rig.push(Request::new((0..=slots).map(|number| Piece::hit(number << 13, 1)).collect()))?;
        // It is sent from the cycle after the next one on.
        let start = rig.bench.cycles() + 1;
        let cycle = first_beat(&mut rig)?;
        assert_eq!(cycle - start, LONG_LATENCY_CYCLES, "{}", design.name);
        rig.finish(200)?;
    }
    Ok(())
}

#[test]
fn one_piece_per_cycle_is_drained_without_a_gap() -> Result<(), Error> {
    // Requests so long that the contexts last.
    for (design, pages) in [(&dut::SPLIT_BUFFER, 8..9), (&dut::SPLIT_BUFFER_DEFAULT, 2..33)] {
        let mut rig = Rig::new(design, 42, UNMERGED, Stall::NEVER)?;
        let mut pieces = 0;
        for number in 0..1000 {
            let pages = pages.start + number % (pages.end - pages.start);
            pieces += pages;
            rig.push(Request::new((0..pages).map(|page| Piece::hit(page << 13, 0x1000)).collect()))?;
        }
        let start = rig.bench.cycles();
        rig.finish(pieces + 100)?;
        let cycles = rig.beat_cycle - start;
        println!("{}: {pieces} pieces in {cycles} cycles", design.name);
        // The last request is drained after its last piece.
        let limit_cycles = pieces + pages.end + LATENCY_CYCLES;
        assert!(cycles < limit_cycles, "{}: {pieces} pieces in {cycles} cycles", design.name);
    }
    Ok(())
}

#[test]
fn one_piece_per_cycle_whether_it_was_walked_or_not() -> Result<(), Error> {
    const PIECES: u64 = 9600;
    for (design, pages, walk_cycles) in [(&dut::SPLIT_BUFFER, 8, 1..4), (&dut::SPLIT_BUFFER_DEFAULT, 16, 30..60)] {
        for miss_percent in [50, 100] {
            let mut rig = Rig::new(design, 43, UNMERGED, Stall::NEVER)?;
            let mut random = rig.bench.random();
            for _ in 0..PIECES / pages {
                let piece = |page: u64| {
                    let make = if random.random_range(0..100) < miss_percent { Piece::miss } else { Piece::hit };
                    make(page << 13, 0x1000)
                };
                let pieces = (0..pages).map(piece).collect();
                rig.push(Request { pieces, walk_times: WalkTimes::AfterPiece(walk_cycles.clone()) })?;
            }
            let start = rig.bench.cycles();
            rig.finish(PIECES + 2000)?;
            let cycles = rig.beat_cycle - start;
            println!("{}: {PIECES} pieces, {miss_percent} % walked, in {cycles} cycles", design.name);
            // The last request is drained after its last walk; a few cycles more where contexts run short.
            let limit_cycles = PIECES + pages + 2 * walk_cycles.end + LATENCY_CYCLES + 20;
            assert!(cycles < limit_cycles, "{}: {PIECES} pieces in {cycles} cycles", design.name);
        }
    }
    Ok(())
}

#[test]
fn hits_wait_while_walks_end_in_every_cycle() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 46, UNMERGED, Stall::NEVER)?;
        rig.other_percent = 0;
        let (contexts, slots) = (rig.config.split_contexts, rig.config.split_pages);
        // As many walks as can be in flight, if there are contexts for so many; one is left for hits.
        let walks_max = rig.config.request_walks().min((contexts - 1) * slots);
        let walked = walks_max.div_ceil(slots);
        for round in 0..3 {
            rig.finished.clear();
            rig.is_holding_walks = true;
            let request = |make: fn(u64, u32) -> Piece| Request {
                pieces: (0..u64::from(slots)).map(|page| make(page << 13, 0x1000)).collect(),
                walk_times: WalkTimes::AfterPiece(1..2),
            };
            let mut walks_left = walks_max as usize;
            while walks_left > 0 {
                let mut request = request(Piece::miss);
                // The rest is a request of two pieces at least.
                request.pieces.truncate(walks_left.max(2));
                for hit in request.pieces.iter_mut().skip(walks_left) {
                    *hit = Piece::hit(hit.address, hit.length);
                }
                walks_left -= walks_left.min(request.pieces.len());
                rig.push(request)?;
            }
            rig.run(u64::from(walked * slots) + 10)?;
            let walks = rig.walks.len() as u64;
            assert_eq!(walks, u64::from(walks_max));
            let hits = walked.min(contexts - walked);
            let tags = (0..hits).map(|_| rig.push(request(Piece::hit))).collect::<Result<Vec<_>, Error>>()?;
            // Walks end from the cycle of the first hit on, or somewhat earlier or later.
            rig.run([2, 0, 5][round])?;
            rig.is_holding_walks = false;
            rig.run(walks)?;
            assert!(rig.walks.is_empty(), "a walk ended in every cycle");
            if round < 2 {
                // Those that came before the first walk ended are no whole request.
                assert!(!rig.finished.iter().any(|tag| tags.contains(tag)), "hits went before walks");
            }
            rig.finish(u64::from(2 * walked * slots) + 200)?;
            assert_eq!(rig.finished.len() as u32, walked + hits);
        }
    }
    Ok(())
}

#[test]
fn a_long_request_is_drained_at_one_piece_per_cycle() -> Result<(), Error> {
    for design in [&dut::SPLIT_BUFFER, &dut::SPLIT_BUFFER_DEFAULT] {
        let mut rig = Rig::new(design, 44, UNMERGED, Stall::NEVER)?;
        let pieces: u64 = 2000;
        rig.push(Request::new((0..pieces).map(|page| Piece::hit(page << 13, 0x1000)).collect()))?;
        let start = rig.bench.cycles();
        rig.finish(pieces + 100)?;
        let cycles = rig.beat_cycle - start;
        assert!(cycles < pieces + 30, "{}: {pieces} pieces in {cycles} cycles", design.name);
    }
    Ok(())
}

#[test]
fn long_requests_are_drained_without_a_gap_between_them() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::SPLIT_BUFFER_DEFAULT, 46, UNMERGED, Stall::NEVER)?;
    let slots = u64::from(rig.config.split_pages);
    let mut beat_cycles = Vec::new();
    let requests = [slots + 1, 8 * slots, slots + 1, 3 * slots, slots + 7, 2 * slots];
    for pieces in requests {
        rig.push(Request::new((0..pieces).map(|page| Piece::hit(page << 13, 0x1000)).collect()))?;
    }
    let end = rig.bench.cycles() + 2000;
    while rig.is_busy() {
        let before = rig.beats;
        rig.cycle()?;
        assert!(rig.bench.cycles() < end, "{} beats", rig.beats);
        beat_cycles.extend((before < rig.beats).then_some(rig.beat_cycle));
    }
    assert_eq!(beat_cycles.len() as u64, requests.iter().sum::<u64>());
    assert_eq!(beat_cycles.windows(2).position(|pair| pair[1] > pair[0] + 1), None, "a gap behind that beat");
    rig.finish(10)
}

#[test]
fn a_walk_may_hold_up_the_end_of_one_of_two_long_requests() -> Result<(), Error> {
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        let mut rig = Rig::new(design, 47, UNMERGED, Stall::NEVER)?;
        let slots = u64::from(rig.config.split_pages);
        let mut random = rig.bench.random();
        // A late walk in the first request's last pieces or in the second one's first pieces.
        for position in slots - 2..=slots + 4 {
            for delay_cycles in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 30] {
                let mut pieces: Vec<_> = (0..2 * slots + 2).map(|number| Piece::hit(number << 13, 0x1000)).collect();
                pieces[position as usize].is_miss = true;
                for (first, length) in [(0, slots as usize + 1), (slots as usize + 1, slots as usize + 1)] {
                    let pieces = pieces[first..first + length].to_vec();
                    rig.push(Request { pieces, walk_times: WalkTimes::AfterPiece(delay_cycles..delay_cycles + 1) })?;
                }
                if random.random_range(0..3) == 0 {
                    rig.push(Request::random(2, 50, 0, &mut random))?;
                }
            }
        }
        rig.finish(60_000)?;
    }
    Ok(())
}

#[test]
fn reset_drops_everything() -> Result<(), Error> {
    for design in DESIGNS.into_iter().chain([ORDERED]) {
        let mut rig = Rig::new(design, 45, MERGED, Stall::percent(30))?;
        let slots = rig.config.split_pages;
        let mut random = rig.bench.random();
        for round in 0..20 {
            for number in 0..20 {
                let pages = if number % 7 == 3 { 2 * slots } else { random.random_range(2..=slots) };
                rig.push(Request::random(pages, 40, 3, &mut random))?;
            }
            rig.run(random.random_range(10..150))?;
            rig.reset()?;
            // Whatever comes out now was not expected.
            rig.run(20)?;
            for _ in 0..5 {
                rig.push(Request::random(2 + round % (slots - 1), 40, 3, &mut random))?;
            }
            rig.finish(2_000)?;
        }
    }
    Ok(())
}

/// A request of one page, or one that failed a check, or an empty one.
fn single(random: &mut ChaCha8Rng) -> Request {
    let va = random.next_u64();
    let piece = match random.random_range(0..4) {
        0 => {
            let status = [Status::EntryKey, Status::Bounds, Status::HemBusError][random.random_range(0..3)];
            Piece { is_miss: false, length: 0, ..Piece::failure(status, random.random_range(0..4), va) }
        }
        1 => Piece::hit(0, 0),
        // As long as a request may be, at its own address.
        2 => Piece::hit(va, 1 << 31),
        _ => return Request::random(1, 50, 20, random),
    };
    Request::new(vec![piece])
}

#[test]
fn responses_come_in_the_order_in_which_contexts_were_opened() -> Result<(), Error> {
    for (case, is_held) in [false, true, false].into_iter().enumerate() {
        let controls = Controls { is_held, merge_bytes_max: [0, 1 << 16, u32::MAX][case] };
        let stall = if case == 0 { Stall::NEVER } else { Stall::percent(30).up_to(5) };
        let mut rig = Rig::new(ORDERED, 40 + case as u64, controls, stall)?;
        rig.other_percent = 0;
        rig.gap_percent = [0, 10, 40][case];
        let slots = rig.config.split_pages;
        let mut tags = Vec::new();
        for number in 0..3_000 {
            let random = &mut rig.random;
            let request = match random.random_range(0..10) {
                0..=4 => single(random),
                5..=7 => {
                    let pages = random.random_range(2..=slots);
                    Request::random(pages, 30, 5, random)
                }
                // In hold mode nothing is that long.
                _ => {
                    let pages = if is_held { slots } else { slots + random.random_range(1..2 * slots) };
                    Request::random(pages, 20, 2, random)
                }
            };
            tags.push(rig.push(request)?);
            if number % 500 == 499 {
                rig.finish(200_000)?;
            }
        }
        assert_eq!(rig.finished, tags);
    }
    Ok(())
}

#[test]
fn hits_in_order_come_once_per_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(ORDERED, 50, Controls { is_held: false, merge_bytes_max: u32::MAX }, Stall::NEVER)?;
    rig.other_percent = 0;
    rig.push(Request::new(vec![Piece::hit(0x1000, 64)]))?;
    rig.finish(100)?;
    assert_eq!(rig.beat_cycle - rig.last_piece_cycle, LATENCY_CYCLES + ORDER_CYCLES);
    for page in 0..2_000 {
        rig.push(Request::new(vec![Piece::hit(page << 12, 64)]))?;
    }
    let begin = rig.bench.cycles();
    rig.finish(5_000)?;
    let cycles = rig.bench.cycles() - begin;
    assert!(cycles < 2_000 + 60, "{cycles} cycles for 2000 requests of one page");
    Ok(())
}
