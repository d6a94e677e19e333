//! The page split against the tiling of a request in 128-bit integers, with surroundings that give places back late.

#[path = "common/held.rs"]
mod held;

use std::collections::{HashMap, VecDeque};

use held::HELD_FIELDS;
use keywalk_contract::Config;
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 3] = [&dut::PAGE_SPLIT, &dut::PAGE_SPLIT_DEFAULT, &dut::PAGE_SPLIT_LEAST];
/// Cycles from a request to its first piece, through the queue. Past the queue there are none.
const QUEUE_CYCLES: u64 = 3;
/// Cycles from a piece to what was held of its request.
const HELD_CYCLES: u64 = 1;
/// Cycles from a pulse that gives a place back to the first piece that can use it: if it is a place of a kind of which one
/// is kept in reserve, together with another one.
const REUSE_CYCLES: u64 = 2;
/// Fields that every piece has from its request.
const COPIED: [&str; 8] = ["status", "hop", "is_translated", "is_empty", "index_low", "hop_num", "ba_pg_sz", "is_flat"];

/// A request.
#[derive(Clone, Copy, Debug)]
struct Request {
    va: u64,
    length: u64,
    page_shift: u32,
    /// Not one to be answered as it is: several pages are possible.
    is_translated: bool,
    /// It comes as one that touches several pages, if it is translated at all.
    may_have_more: bool,
}

impl Request {
    fn translated(va: u64, length: u64, page_shift: u32) -> Self {
        let request = Self { va, length, page_shift, is_translated: true, may_have_more: false };
        Self { may_have_more: request.pages() > 1, ..request }
    }

    fn pages(&self) -> u64 {
        if !self.is_translated {
            return 1;
        }
        let end = u128::from(self.va) + u128::from(self.length);
        (((end - 1) >> self.page_shift) - (u128::from(self.va) >> self.page_shift) + 1) as u64
    }

    /// First address of piece `number`.
    fn piece(&self, number: u64) -> u64 {
        if !self.is_translated {
            return self.va;
        }
        (((self.va >> self.page_shift) + number) << self.page_shift).max(self.va)
    }
}

/// Places of one kind.
struct Places {
    count: u32,
    taken: u32,
    /// Cycles of pulses that no piece could use yet.
    pulses: VecDeque<u64>,
    /// Cycles from which the places that are taken may be given back.
    due: Vec<u64>,
    /// No place is given back.
    is_held: bool,
}

impl Places {
    fn new(count: u32) -> Self {
        Self { count, taken: 0, pulses: VecDeque::new(), due: Vec::new(), is_held: false }
    }

    /// A piece in that cycle takes a place.
    fn take(&mut self, cycle: u64, what: &str) {
        while self.pulses.front().is_some_and(|pulse| pulse + REUSE_CYCLES <= cycle) {
            self.pulses.pop_front();
            self.taken -= 1;
        }
        self.taken += 1;
        assert!(self.taken <= self.count, "{} {what} are taken in cycle {cycle}, there are {}", self.taken, self.count);
    }

    /// Whether a place is given back in that cycle.
    fn give(&mut self, cycle: u64) -> bool {
        if self.is_held {
            return false;
        }
        let Some(position) = self.due.iter().position(|due| *due <= cycle) else { return false };
        self.due.swap_remove(position);
        self.pulses.push_back(cycle);
        true
    }
}

/// A request whose pieces are coming.
struct Coming {
    request: Request,
    /// As on `checked`.
    beat: Beat,
    /// As on `held`.
    held: Beat,
    /// Cycle in which it comes on `checked`.
    cycle: u64,
    next: u64,
    context: u128,
    /// A piece of it failed: the next one is the last.
    has_failed: bool,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    checked: Handle<StreamDriver>,
    held: Handle<StreamDriver>,
    pieces: Handle<StreamSink>,
    ready: Output,
    place_freed: Output,
    /// Ports of channel `held_out`.
    held_out: Vec<(&'static str, Output)>,
    inputs: HashMap<&'static str, Input>,
    /// A cycle without a piece is wanted, and it was in the last cycle.
    is_gap_wanted: bool,
    gap_was_wanted: bool,
    walk: Places,
    single: Places,
    /// Slots of the long requests of either turn.
    slots: [Places; 2],
    contexts: Places,
    /// Contexts in use.
    in_use: Vec<u128>,
    /// Contexts of requests that are sent, with the cycle from which they may be given back.
    sent: Vec<(u64, u128)>,
    /// Contexts given back, with the cycle.
    given: VecDeque<(u64, u128)>,
    /// The long requests that are open: context, turn, and whether all of it was sent. The first one is drained.
    long: VecDeque<(u128, usize, bool)>,
    long_turn: usize,
    /// No long request is drained to its end.
    holds_long: bool,
    /// One drained slot of a long request in so many holds a failure; 0: none does.
    fails_every: u32,
    /// Long requests that were cut short.
    cut_short: u32,
    /// The longest time that a place is taken, in cycles.
    delay_cycles: u64,
    coming: VecDeque<Coming>,
    /// What is to come on `held_out`, with the cycle.
    held_due: VecDeque<(u64, Beat)>,
    /// Number of the next request.
    next_held: u32,
    /// Requests given to the block, and places of the queue given back.
    requests: u32,
    queue_freed: u32,
    /// Cycles of all pieces.
    piece_cycles: Vec<u64>,
    /// Cycles that each request waited for its first piece.
    waits_cycles: Vec<u64>,
}

const INPUTS: [&str; 9] = [
    "gap_wanted",
    "walk_ended",
    "walk_unused",
    "single_place_freed",
    "slot_freed",
    "slot_freed_turn",
    "long_failed",
    "context_freed",
    "context_freed_number",
];

impl Rig {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let config = design.config().expect("the page split is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let inputs = INPUTS
            .into_iter()
            .map(|name| Ok((name, bench.model().input(name)?)))
            .collect::<Result<HashMap<_, _>, Error>>()?;
        let held_out = HELD_FIELDS
            .into_iter()
            .map(|name| Ok((name, bench.model().output(&format!("held_out_{name}"))?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let mut rig = Self {
            checked: bench.driver("checked", Stall::NEVER)?,
            held: bench.driver("held", Stall::NEVER)?,
            pieces: bench.sink("piece", Stall::NEVER)?,
            ready: bench.model().output("ready")?,
            place_freed: bench.model().output("place_freed")?,
            held_out,
            inputs,
            is_gap_wanted: false,
            gap_was_wanted: false,
            walk: Places::new(config.request_walks()),
            single: Places::new(config.response_depth),
            slots: [0; 2].map(|_| Places::new(config.split_pages)),
            contexts: Places::new(config.split_contexts),
            in_use: Vec::new(),
            sent: Vec::new(),
            given: VecDeque::new(),
            long: VecDeque::new(),
            long_turn: 0,
            holds_long: false,
            fails_every: 0,
            cut_short: 0,
            delay_cycles: 0,
            coming: VecDeque::new(),
            held_due: VecDeque::new(),
            next_held: 0,
            requests: 0,
            queue_freed: 0,
            piece_cycles: Vec::new(),
            waits_cycles: Vec::new(),
            random: bench.random(),
            bench,
            config,
        };
        rig.reset()?;
        Ok(rig)
    }

    /// Resets, and waits until every split context is on the list.
    fn reset(&mut self) -> Result<(), Error> {
        self.walk = Places::new(self.config.request_walks());
        self.single = Places::new(self.config.response_depth);
        self.slots = [0; 2].map(|_| Places::new(self.config.split_pages));
        self.contexts = Places::new(self.config.split_contexts);
        self.in_use.clear();
        self.sent.clear();
        self.given.clear();
        self.long.clear();
        self.long_turn = 0;
        self.coming.clear();
        self.held_due.clear();
        (self.requests, self.queue_freed, self.next_held) = (0, 0, 0);
        self.piece_cycles.clear();
        self.waits_cycles.clear();
        for input in self.inputs.values() {
            self.bench.model_mut().set(*input, 0);
        }
        self.bench.reset(3)?;
        for _ in 0..self.config.split_contexts {
            assert_eq!(self.bench.model().get(self.ready), 0, "ready while the list of contexts is filled");
            self.cycle()?;
        }
        assert_eq!(self.bench.model().get(self.ready), 1, "ready when the list of contexts is filled");
        Ok(())
    }

    fn has_queue_place(&self) -> bool {
        self.requests - self.queue_freed < self.config.admitted_max()
    }

    /// One cycle with a request on `held`, which comes on `checked` in the next one.
    fn send(&mut self, request: Request) -> Result<(), Error> {
        assert!(self.has_queue_place());
        let (checked, held) = (self.checked, self.held);
        let number = u128::from(self.next_held);
        self.next_held = (self.next_held + 1) % (2 * self.config.admitted_max());
        let shape = self.bench[held].channel().shape().clone();
        let held_beat = Beat::random_with(&shape, &[("number", number)], &mut self.random)?;
        let (any_status, any_pages, any_shift) =
            (self.random.random_range(0..=22), self.random.random_range(0..1 << 20), self.random.random_range(0..=18));
        let is_translated = request.is_translated;
        let values = [
            ("held", number),
            ("va", request.va.into()),
            ("status", if is_translated { 0 } else { any_status }),
            ("is_translated", is_translated.into()),
            ("is_empty", u128::from(request.length == 0)),
            ("may_have_more", request.may_have_more.into()),
            ("pages_minus_one", if is_translated { (request.pages() - 1).into() } else { any_pages }),
            ("page_shift", if is_translated { (request.page_shift - 12).into() } else { any_shift }),
            ("virtual_page", (request.va >> request.page_shift & 0xffff_ffff).into()),
        ];
        let shape = self.bench[checked].channel().shape().clone();
        let beat = Beat::random_with(&shape, &values, &mut self.random)?;
        let cycle = self.bench.cycles() + 1;
        self.bench[held].push(held_beat.clone());
        self.bench[checked].push_not_before(beat.clone(), cycle);
        self.coming.push_back(Coming { request, beat, held: held_beat, cycle, next: 0, context: 0, has_failed: false });
        self.requests += 1;
        self.cycle()
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let limit = self.bench.cycles() + limit_cycles;
        while !self.coming.is_empty() {
            assert!(self.bench.cycles() < limit, "{} requests are not sent", self.coming.len());
            self.cycle()?;
        }
        self.run(self.delay_cycles + 10)?;
        assert_eq!(self.queue_freed, self.requests, "places of the queue given back");
        Ok(())
    }

    /// One cycle: gives places back and checks the piece that comes.
    fn cycle(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        let [walk_ended, walk_unused] = [self.walk.give(now), self.walk.give(now)];
        // One walk that comes back pulses either input.
        let swaps = walk_ended && !walk_unused && self.random.random();
        let (mut slot_freed, mut fails) = (false, false);
        let mut freed_turn = self.random.random_range(0..2);
        if let Some(&(context, turn, is_sent)) = self.long.front() {
            let is_end = is_sent && self.slots[turn].due.len() == 1;
            slot_freed = !(is_end && self.holds_long) && self.slots[turn].give(now);
            if slot_freed {
                freed_turn = turn;
                fails = self.fails_every != 0 && self.random.random_range(0..self.fails_every) == 0;
                if is_end {
                    self.sent.push((now, context));
                    self.long.pop_front();
                }
            }
        }
        let context = match self.sent.iter().position(|(due, _)| *due <= now) {
            Some(position) if !self.contexts.is_held => Some(self.sent.swap_remove(position).1),
            _ => None,
        };
        if let Some(context) = context {
            self.contexts.pulses.push_back(now);
            self.given.push_back((now, context));
        }
        let any_context = self.random.random_range(0..u128::from(self.config.split_contexts));
        for (name, value) in [
            ("gap_wanted", self.is_gap_wanted.into()),
            ("walk_ended", u64::from(walk_ended ^ swaps)),
            ("walk_unused", u64::from(walk_unused | swaps)),
            ("single_place_freed", self.single.give(now).into()),
            ("slot_freed", slot_freed.into()),
            ("slot_freed_turn", freed_turn as u64),
            ("long_failed", fails.into()),
            ("context_freed", context.is_some().into()),
            ("context_freed_number", context.unwrap_or(any_context) as u64),
        ] {
            self.bench.model_mut().set(self.inputs[name], value);
        }
        self.queue_freed += self.bench.model().get(self.place_freed) as u32;
        assert!(self.queue_freed <= self.requests, "a place too much was given back");
        if self.held_due.front().is_some_and(|(cycle, _)| *cycle == now) {
            let (_, held) = self.held_due.pop_front().expect("there is one");
            for (name, port) in &self.held_out {
                assert_eq!(self.bench.model().get_wide(*port), held.get(name)?, "{name} on held_out in cycle {now}");
            }
        }
        self.bench.cycle()?;
        let was_gap_wanted = std::mem::replace(&mut self.gap_was_wanted, self.is_gap_wanted);
        if let Some(piece) = self.pieces_pop() {
            assert!(!was_gap_wanted, "a piece in cycle {now}, which was to be a gap");
            self.piece_cycles.push(now);
            self.check(now, &piece)?;
        }
        // Heard at the end of this cycle: the next piece of that request, if one is still to come, is its last.
        if let Some(coming) = self.coming.front_mut().filter(|coming| fails && coming.next > 0) {
            coming.has_failed |= freed_turn == self.long_turn;
        }
        Ok(())
    }

    fn pieces_pop(&mut self) -> Option<Beat> {
        let pieces = self.pieces;
        self.bench[pieces].pop().map(|received| received.beat)
    }

    fn due(&mut self, now: u64) -> u64 {
        now + 1 + if self.delay_cycles == 0 { 0 } else { self.random.random_range(0..self.delay_cycles) }
    }

    fn check(&mut self, now: u64, piece: &Beat) -> Result<(), Error> {
        let mut coming = self.coming.pop_front().expect("a request has pieces to come");
        let request = coming.request;
        let (pages, number) = (request.pages(), coming.next);
        let is_split = pages > 1;
        let is_long = pages > self.config.split_pages.into();
        let (is_first, is_last) = (number == 0, number + 1 == pages || coming.has_failed);
        self.cut_short += u32::from(is_last && number + 1 < pages);
        let va = request.piece(number);
        if is_split && is_first {
            coming.context = piece.get("split_context")?;
            while self.given.front().is_some_and(|(cycle, _)| cycle + REUSE_CYCLES <= now) {
                let (_, context) = self.given.pop_front().expect("there is one");
                self.in_use.retain(|other| *other != context);
            }
            assert!(!self.in_use.contains(&coming.context), "context {} is in use", coming.context);
            self.in_use.push(coming.context);
            self.contexts.take(now, "split contexts");
        }
        if is_first {
            assert!(now >= coming.cycle, "a piece in cycle {now} of a request that comes in cycle {}", coming.cycle);
            self.waits_cycles.push(now - coming.cycle);
        }
        self.held_due.push_back((now + HELD_CYCLES, coming.held.clone()));
        let counted = |name: &str| Ok::<_, Error>((coming.beat.get(name)? + u128::from(number)) & 0xffff_ffff);
        let mut fields = vec![
            ("va", va.into()),
            ("virtual_page", counted("virtual_page")?),
            ("page_index", counted("page_index")?),
            ("is_split", is_split.into()),
            ("is_first", is_first.into()),
            ("is_last", is_last.into()),
            ("is_long", is_long.into()),
        ];
        for name in COPIED {
            fields.push((name, coming.beat.get(name)?));
        }
        if is_split {
            fields.push(("split_context", coming.context));
            fields.push(("split_slot", u128::from(number) % u128::from(self.config.split_pages)));
        }
        for (name, value) in fields {
            assert_eq!(piece.get(name)?, value, "{name} of piece {number} of {request:?}");
        }

        let due = self.due(now);
        self.walk.take(now, "walk places");
        self.walk.due.push(due);
        let due = self.due(now);
        if is_long {
            if is_first {
                assert!(self.long.len() < 2, "a third long request began in cycle {now}");
                self.long.push_back((coming.context, self.long_turn, false));
            }
            self.slots[self.long_turn].take(now, "slots");
            self.slots[self.long_turn].due.push(due);
            if is_last {
                self.long.back_mut().expect("it is open").2 = true;
                self.long_turn = 1 - self.long_turn;
            }
        } else if is_split {
            if is_last {
                self.sent.push((due, coming.context));
            }
        } else {
            self.single.take(now, "single places");
            self.single.due.push(due);
        }
        coming.next += 1;
        if !is_last {
            self.coming.push_front(coming);
        }
        Ok(())
    }

    /// A request of about so many pages.
    fn request_of(&mut self, pages: u64) -> Request {
        let longest_shift = if pages > 2 { 30 - (pages - 1).ilog2() } else { 30 };
        let page_shift = self.random.random_range(12..=longest_shift.max(12));
        let page_bytes = 1u64 << page_shift;
        let any_offset = self.random.random_range(0..page_bytes);
        let offset = [0, page_bytes - 1, any_offset][self.random.random_range(0..3)];
        let rest = if pages == 1 { page_bytes - offset } else { page_bytes };
        let any_rest = self.random.random_range(1..=rest);
        let rest = [1, rest, any_rest][self.random.random_range(0..3)];
        let length = if pages == 1 { rest } else { page_bytes * (pages - 1) - offset + rest };
        let most = (1u128 << 64) - u128::from(length) - u128::from(offset);
        let page = (most >> page_shift) as u64;
        let page = if self.random.random_range(0..8) == 0 { page } else { self.random.random_range(0..=page) };
        let request = Request::translated(page * page_bytes + offset, length, page_shift);
        assert_eq!(request.pages(), pages);
        request
    }

    fn untranslated(&mut self) -> Request {
        let length = [0, 1, 0x8000_0000, 0x1001][self.random.random_range(0..4)];
        Request {
            va: self.random.next_u64(),
            length,
            page_shift: 12,
            is_translated: false,
            may_have_more: self.random.random(),
        }
    }
}

/// Whether there are too few walks for a piece in every cycle, however fast they end.
fn has_few_walks(config: &Config) -> bool {
    config.request_walks() == 2
}

#[test]
fn pieces_tile_the_request() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 1)?;
        for page_shift in 12..=30 {
            let page_bytes = 1u64 << page_shift;
            for pages in [1, 2, 3, 5] {
                for offset in [0, 1, page_bytes - 1] {
                    for cut in [0, 1, page_bytes - 1] {
                        let whole = page_bytes * pages;
                        if whole > 1 << 31 || offset + cut >= whole {
                            continue;
                        }
                        let end_page = 0u64.wrapping_sub(whole);
                        for page_start in [0, 0x7_0000_0000_0000, end_page] {
                            let va = page_start + offset;
                            let request = Request::translated(va, whole - offset - cut, page_shift);
                            rig.send(request)?;
                            rig.finish(100)?;
                        }
                    }
                }
            }
        }
        Ok(())
    })
}

#[test]
fn a_request_of_2_to_the_31_bytes_has_a_piece_per_page_and_cycle() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 2)?;
        // The most pages that a request can have, in one configuration.
        let page_shift = if rig.config.name == "small" { 12 } else { 18 };
        let request = Request::translated(0xffff_fffe_1234_5678, 1 << 31, page_shift);
        rig.send(request)?;
        rig.finish(600_000)?;
        let pieces = rig.piece_cycles.len() as u64;
        assert_eq!(pieces, (1 << (31 - page_shift)) + 1);
        let gaps = pieces - 1;
        // With two walks two pieces in a row wait for both to end.
        let cycles = if has_few_walks(&rig.config) { gaps / 2 * 4 + gaps % 2 } else { gaps };
        assert_eq!(rig.piece_cycles[pieces as usize - 1] - rig.piece_cycles[0], cycles);
        Ok(())
    })
}

#[test]
fn what_is_one_page_for_sure_passes_the_queue_and_the_rest_takes_three_cycles() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 3)?;
        for pages in 1..=20 {
            let request = rig.request_of(pages);
            rig.send(request)?;
            rig.finish(100)?;
            assert_eq!(rig.waits_cycles.pop(), Some(if pages == 1 { 0 } else { QUEUE_CYCLES }), "{pages} pages");
        }
        // One that is answered as it is, of as many pages as it likes.
        for may_have_more in [false, true] {
            let request = Request { may_have_more, ..rig.untranslated() };
            rig.send(request)?;
            rig.finish(100)?;
            assert_eq!(rig.waits_cycles.pop(), Some(if may_have_more { QUEUE_CYCLES } else { 0 }));
        }
        Ok(())
    })
}

#[test]
fn one_page_never_passes_a_request_before_it() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 8)?;
        let longest = u64::from(rig.config.split_pages) + 2;
        for pages in 2..=longest {
            // Of both requests the second comes at every distance, so that it finds the first one in every place; the
            // third follows at once.
            for gap in 0..longest + 10 {
                rig.piece_cycles.clear();
                rig.waits_cycles.clear();
                let request = rig.request_of(pages);
                rig.send(request)?;
                rig.run(gap)?;
                let followers = [(); 2].map(|()| if gap % 2 == 0 { rig.request_of(1) } else { rig.untranslated() });
                for request in followers {
                    rig.send(request)?;
                }
                // That pieces come in order is checked with each.
                rig.finish(200)?;
                assert_eq!(rig.waits_cycles[0], QUEUE_CYCLES);
                if has_few_walks(&rig.config) {
                    // They wait for walks as well.
                    continue;
                }
                // The first piece of the second request comes right behind the last one of the first, or as soon as it
                // went through the queue, or past it.
                let distance = gap + 1;
                let free = QUEUE_CYCLES + pages;
                let through_the_queue = free.saturating_sub(distance).max(QUEUE_CYCLES);
                let wait = rig.waits_cycles[1];
                let [may_pass, may_third_pass] = followers.map(|request| !request.may_have_more);
                let is_by = may_pass && distance >= free && wait == 0;
                assert!(is_by || wait == through_the_queue, "{pages} pages, gap {gap}: {wait} cycles");
                // Long enough after it, nothing keeps it.
                assert!(is_by || !may_pass || distance < free + 3, "{pages} pages, gap {gap}: {wait} cycles");
                // The third is next.
                let [.., second, third] = rig.piece_cycles[..] else { panic!("there are three requests") };
                let third_wait = if is_by && !may_third_pass { QUEUE_CYCLES } else { 0 };
                assert_eq!(third, second + 1 + third_wait, "{pages} pages, gap {gap}");
            }
        }
        Ok(())
    })
}

#[test]
fn pieces_of_many_requests_come_without_a_gap() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4)?;
        // Two contexts are too few for requests of several pages in a row.
        let longest = if rig.config.split_contexts == 2 { 1 } else { 8 };
        for first in [longest, 1] {
            rig.piece_cycles.clear();
            let mut pieces = 0;
            for number in 0..300 {
                // One page at a time past the queue, or so many pages that the queue is never empty.
                let pages = if first == 1 { 1 } else { 1 + (number + 7) % longest };
                while !rig.has_queue_place() {
                    rig.cycle()?;
                }
                let request = rig.request_of(pages);
                rig.send(request)?;
                pieces += pages;
            }
            rig.finish(3000)?;
            assert_eq!(rig.piece_cycles.len() as u64, pieces);
            // With two walks two pieces in a row wait for both to end. The third request still finds the queue empty.
            let (from, longest_gap) = if has_few_walks(&rig.config) { (2, 3) } else { (0, 1) };
            let gap = rig.piece_cycles[from..].windows(2).find(|pair| pair[1] > pair[0] + longest_gap);
            assert_eq!(gap, None, "{}", design.name);
        }
        Ok(())
    })
}

/// Sends requests as long as there are places, for so many cycles.
fn flood(rig: &mut Rig, cycles: u64, mut request: impl FnMut(&mut Rig) -> Request) -> Result<(), Error> {
    for _ in 0..cycles {
        if rig.has_queue_place() {
            let request = request(rig);
            rig.send(request)?;
        } else {
            rig.cycle()?;
        }
    }
    Ok(())
}

/// Lets so many places of a kind come back, one per cycle, then no more. Gives the cycle of the last one.
fn release(rig: &mut Rig, places: fn(&mut Rig) -> &mut Places, count: u32) -> Result<u64, Error> {
    places(rig).is_held = false;
    for _ in 0..count {
        rig.cycle()?;
    }
    places(rig).is_held = true;
    Ok(rig.bench.cycles() - 1)
}

/// `pieces` pieces came, and every place of a kind is taken. A single place that comes back is kept in reserve; with
/// another one there is room for two pieces.
fn check_reserve(rig: &mut Rig, places: fn(&mut Rig) -> &mut Places, pieces: u32) -> Result<(), Error> {
    assert_eq!(rig.piece_cycles.len() as u32, pieces);
    release(rig, places, 1)?;
    rig.run(20)?;
    assert_eq!(rig.piece_cycles.len() as u32, pieces, "the last place is kept");
    let released = release(rig, places, 1)?;
    rig.run(20)?;
    let more = &rig.piece_cycles[pieces as usize..];
    assert_eq!(more, [released + REUSE_CYCLES, released + REUSE_CYCLES + 1]);
    places(rig).is_held = false;
    rig.finish(2000)
}

#[test]
fn pieces_stop_when_places_of_a_kind_are_used_up() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let config = design.config().expect("it is generated from a configuration");
        let split_pages = u64::from(config.split_pages);

        // Walks, whatever the request.
        let mut rig = Rig::new(design, 5)?;
        rig.walk.is_held = true;
        flood(&mut rig, 300, |rig| rig.untranslated())?;
        // One comes back on either of two inputs, and both may pulse at once, so that a cycle gives two back.
        let walks = config.request_walks();
        assert_eq!(rig.piece_cycles.len() as u32, walks);
        let released = release(&mut rig, |rig| &mut rig.walk, 1)?;
        rig.run(20)?;
        let more = &rig.piece_cycles[walks as usize..];
        assert_eq!(more, [released + REUSE_CYCLES, released + REUSE_CYCLES + 1]);
        rig.walk.is_held = false;
        rig.finish(1000)?;

        // Single responses.
        rig.reset()?;
        rig.single.is_held = true;
        flood(&mut rig, u64::from(config.response_depth) + 200, |rig| rig.request_of(1))?;
        check_reserve(&mut rig, |rig| &mut rig.single, config.response_depth)?;

        // Split contexts. None is kept in reserve.
        rig.reset()?;
        rig.contexts.is_held = true;
        flood(&mut rig, u64::from(config.split_contexts) * 2 + 200, |rig| rig.request_of(2))?;
        assert_eq!(rig.piece_cycles.len() as u32, 2 * config.split_contexts);
        let released = release(&mut rig, |rig| &mut rig.contexts, 1)?;
        rig.run(20)?;
        let more = &rig.piece_cycles[2 * config.split_contexts as usize..];
        assert_eq!(more, [released + REUSE_CYCLES, released + REUSE_CYCLES + 1]);
        rig.contexts.is_held = false;
        rig.finish(2000)?;

        // Slots of a long request.
        rig.reset()?;
        rig.slots[0].is_held = true;
        let long = rig.request_of(3 * split_pages);
        rig.send(long)?;
        rig.run(100)?;
        check_reserve(&mut rig, |rig| &mut rig.slots[0], config.split_pages)
    })
}

#[test]
fn a_long_request_begins_while_another_is_drained() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 6)?;
        let split_pages = u64::from(rig.config.split_pages);
        rig.holds_long = true;
        for pages in [split_pages + 1, split_pages, 1, 2 * split_pages, 1] {
            let request = rig.request_of(pages);
            rig.send(request)?;
        }
        rig.run(16 * split_pages)?;
        // Of the second long one, as much as there are slots.
        assert_eq!(rig.piece_cycles.len() as u64, 3 * split_pages + 2);
        rig.holds_long = false;
        rig.finish(1000)
    })
}

#[test]
fn long_requests_come_without_a_gap() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::PAGE_SPLIT_DEFAULT, 9)?;
    let split_pages = u64::from(rig.config.split_pages);
    let pages = [split_pages + 1, split_pages + 1, 2 * split_pages, 1, split_pages + 5, split_pages + 1, 300, 2, 100];
    for pages in pages {
        let request = rig.request_of(pages);
        rig.send(request)?;
    }
    rig.finish(2000)?;
    assert_eq!(rig.piece_cycles.len() as u64, pages.iter().sum::<u64>());
    let gap = rig.piece_cycles.windows(2).position(|pair| pair[1] > pair[0] + 1);
    assert_eq!(gap, None, "a gap behind that piece");
    Ok(())
}

#[test]
fn a_long_request_that_failed_is_cut_no_further() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 12)?;
        rig.fails_every = 1;
        let split_pages = u64::from(rig.config.split_pages);
        // The second one is open by then, and its pieces are all wanted until one of its own fails.
        for pages in [1 << 18, split_pages + 1, 1 << 17, 1, 2] {
            let request = rig.request_of(pages);
            rig.send(request)?;
        }
        rig.finish(2000)?;
        assert!(rig.cut_short >= 2, "{} requests were cut short", rig.cut_short);
        Ok(())
    })
}

#[test]
fn random_requests_with_places_that_come_back_late() -> Result<(), Error> {
    DESIGNS.into_iter().enumerate().try_for_each(|(case, design)| {
        let mut rig = Rig::new(design, 20 + case as u64)?;
        for delay_cycles in [1, 5, 20, 60, 200] {
            rig.delay_cycles = delay_cycles;
            rig.fails_every = [0, 1, 10][rig.random.random_range(0..3)];
            let split_pages = u64::from(rig.config.split_pages);
            for _ in 0..250 {
                let limit = rig.bench.cycles() + 20_000;
                while !rig.has_queue_place() {
                    assert!(rig.bench.cycles() < limit, "no place of the queue comes back");
                    rig.cycle()?;
                }
                let pages = match rig.random.random_range(0..10) {
                    0..=3 => 1,
                    4..=5 => rig.random.random_range(2..=split_pages),
                    6 => split_pages,
                    7 => split_pages + rig.random.random_range(1..=2 * split_pages),
                    _ => 2,
                };
                let request =
                    if rig.random.random_range(0..6) == 0 { rig.untranslated() } else { rig.request_of(pages) };
                rig.is_gap_wanted = rig.random.random_range(0..8) == 0;
                rig.send(request)?;
                rig.is_gap_wanted = false;
                if rig.random.random_range(0..4) == 0 {
                    let cycles = rig.random.random_range(0..20);
                    rig.run(cycles)?;
                }
            }
            rig.finish(100_000)?;
        }
        println!("{}: {} pieces in {} cycles", design.name, rig.piece_cycles.len(), rig.bench.cycles());
        Ok(())
    })
}

#[test]
fn reset_drops_everything_and_gives_every_place_back() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 7)?;
        for round in 0..12 {
            rig.delay_cycles = 50;
            let split_pages = u64::from(rig.config.split_pages);
            flood(&mut rig, 20 + 3 * round, |rig| {
                let pages = [1, 2, split_pages, split_pages + 5][rig.random.random_range(0..4)];
                rig.request_of(pages)
            })?;
            assert!(!rig.coming.is_empty());
            // Nothing comes while the list is filled.
            rig.reset()?;
            rig.run(20)?;
            assert!(rig.piece_cycles.is_empty());
        }
        // Every context is there again.
        rig.contexts.is_held = true;
        let contexts = rig.config.split_contexts;
        flood(&mut rig, u64::from(contexts) * 2 + 200, |rig| rig.request_of(2))?;
        assert_eq!(rig.piece_cycles.len() as u32, 2 * contexts);
        rig.contexts.is_held = false;
        rig.finish(4000)
    })
}
