//! The page split where responses come in order: requests that arrive in any order leave by order number, whatever comes
//! back late. What the split buffer does in that mode is tested with the rest of it.

#[path = "common/held.rs"]
mod held;

use std::collections::VecDeque;

use held::HELD_FIELDS;
use keywalk_contract::Config;
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const DESIGN: &Dut = &dut::PAGE_SPLIT_ORDERED;
/// Cycles from a request whose turn it is to its first piece.
const RING_CYCLES: u64 = 3;
/// Cycles from a piece to what was held of its request.
const HELD_CYCLES: u64 = 1;
/// Cycles without a piece, with everything coming back, after which the block counts as stuck.
const STUCK_CYCLES: u64 = 5_000;
/// Fields that every piece has from its request.
const COPIED: [&str; 8] = ["status", "hop", "is_translated", "is_empty", "index_low", "hop_num", "ba_pg_sz", "is_flat"];

/// A request, in order of admission.
struct Request {
    va: u64,
    length: u64,
    page_shift: u32,
    is_translated: bool,
    /// As on `checked` and on `held`, once it has arrived.
    arrived: Option<(Beat, Beat)>,
    /// Cycle in which it comes on `checked`.
    cycle: u64,
}

impl Request {
    fn last(&self) -> u64 {
        self.va.wrapping_add(self.length).wrapping_sub(1)
    }

    fn pages(&self) -> u64 {
        if self.is_translated { (self.last() >> self.page_shift) - (self.va >> self.page_shift) + 1 } else { 1 }
    }
}

/// How the surroundings behave: chances in 100, in each cycle.
#[derive(Clone, Copy)]
struct Manners {
    /// That a request is admitted.
    admits: u32,
    /// That one of those that were admitted arrives.
    arrives: u32,
    /// That it is the oldest, rather than any.
    in_turn: u32,
    /// That something comes back: walks, slots, contexts.
    returns: u32,
    /// That a request has several pages.
    has_more: u32,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    checked: Handle<StreamDriver>,
    held: Handle<StreamDriver>,
    pieces: Handle<StreamSink>,
    place_freed: Output,
    held_out: Vec<(&'static str, Output)>,
    inputs: Vec<(&'static str, Input)>,
    /// All requests since reset.
    requests: Vec<Request>,
    /// Those that were admitted and have not arrived.
    waiting: Vec<usize>,
    arrived: u32,
    places_freed: u64,
    /// Request and number of the piece that comes next.
    next: (usize, u64),
    walks: u32,
    /// Slots in use of the long requests of either turn.
    long_slots: [u32; 2],
    /// Turn of the next long request, and of the one that is drained.
    long_turn: usize,
    drained_turn: usize,
    /// Contexts in use, in turn: number, and whether all pieces were sent and the request is long.
    contexts: VecDeque<(u32, bool, bool)>,
    held_due: VecDeque<(u64, Beat)>,
    piece_cycles: Vec<u64>,
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
    fn new(seed: u64) -> Result<Self, Error> {
        let config = DESIGN.config().expect("the page split is generated from a configuration");
        assert!(config.in_order);
        let mut bench = Bench::new(DESIGN, seed);
        let port = |name: &'static str| Ok((name, bench.model().input(name)?));
        let inputs = INPUTS.into_iter().map(port).collect::<Result<_, Error>>()?;
        let port = |name: &'static str| Ok((name, bench.model().output(&format!("held_out_{name}"))?));
        let held_out = HELD_FIELDS.into_iter().map(port).collect::<Result<_, Error>>()?;
        let mut rig = Self {
            checked: bench.driver("checked", Stall::NEVER)?,
            held: bench.driver("held", Stall::NEVER)?,
            pieces: bench.sink("piece", Stall::NEVER)?,
            place_freed: bench.model().output("place_freed")?,
            held_out,
            inputs,
            requests: Vec::new(),
            waiting: Vec::new(),
            arrived: 0,
            places_freed: 0,
            next: (0, 0),
            walks: 0,
            long_slots: [0; 2],
            long_turn: 0,
            drained_turn: 0,
            contexts: VecDeque::new(),
            held_due: VecDeque::new(),
            piece_cycles: Vec::new(),
            random: bench.random(),
            bench,
            config,
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.requests.clear();
        self.waiting.clear();
        (self.arrived, self.places_freed, self.next) = (0, 0, (0, 0));
        (self.walks, self.long_slots) = (0, [0; 2]);
        (self.long_turn, self.drained_turn) = (0, 0);
        self.contexts.clear();
        self.held_due.clear();
        self.piece_cycles.clear();
        for (_, input) in &self.inputs {
            self.bench.model_mut().set(*input, 0);
        }
        self.bench.reset(3)?;
        let ready = self.bench.model().output("ready")?;
        let words = u64::from(self.config.admitted_max());
        self.bench.run_until("ready", words + 1, |bench| bench.model().get(ready) == 1)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn admit(&mut self, has_more: u32) {
        let pages = if self.chance(has_more) {
            let most = u64::from(self.config.split_pages);
            [2, 3, most, most + 1, 3 * most][self.random.random_range(0..5)]
        } else {
            1
        };
        let page_shift = self.random.random_range(12..=20);
        let page = 1u64 << page_shift;
        let start = self.random.random_range(0..1 << 40) * page + self.random.random_range(0..page);
        let room = page - start % page;
        let length = if pages == 1 {
            self.random.random_range(1..=room)
        } else {
            room + (pages - 2) * page + self.random.random_range(1..=page)
        };
        let is_translated = pages > 1 || self.chance(70);
        let length = if !is_translated && self.chance(30) { 0 } else { length };
        self.waiting.push(self.requests.len());
        self.requests.push(Request { va: start, length, page_shift, is_translated, arrived: None, cycle: 0 });
    }

    /// A request comes on `held`, and on `checked` in the next cycle.
    fn arrive(&mut self, position: usize) -> Result<(), Error> {
        let (checked, held) = (self.checked, self.held);
        let place = self.waiting.remove(position);
        let number = u128::from(self.arrived % (2 * self.config.admitted_max()));
        self.arrived += 1;
        let shape = self.bench[held].channel().shape().clone();
        let held_beat = Beat::random_with(&shape, &[("number", number)], &mut self.random)?;
        let shape = self.bench[checked].channel().shape().clone();
        let cycle = self.bench.cycles() + 1;
        let (status, any_pages): (u8, u32) = (self.random.random_range(0..=22), self.random.random_range(0..1 << 20));
        let request = &mut self.requests[place];
        let pages = request.pages();
        let values = [
            ("held", number),
            ("order", place as u128 % u128::from(self.config.admitted_max())),
            ("va", request.va.into()),
            ("status", if request.is_translated { 0 } else { status.into() }),
            ("is_translated", request.is_translated.into()),
            ("is_empty", (request.length == 0).into()),
            ("may_have_more", if request.is_translated { (pages > 1).into() } else { (any_pages & 1).into() }),
            ("pages_minus_one", if request.is_translated { (pages - 1).into() } else { any_pages.into() }),
            ("page_shift", (request.page_shift - 12).into()),
        ];
        let beat = Beat::random_with(&shape, &values, &mut self.random)?;
        request.arrived = Some((beat.clone(), held_beat.clone()));
        request.cycle = cycle;
        self.bench[held].push(held_beat);
        self.bench[checked].push_not_before(beat, cycle);
        Ok(())
    }

    fn cycle(&mut self, manners: Manners) -> Result<(), Error> {
        let now = self.bench.cycles();
        let outstanding = self.requests.len() as u64 - self.places_freed;
        if outstanding < self.config.admitted_max().into() && self.chance(manners.admits) {
            self.admit(manners.has_more);
        }
        if !self.waiting.is_empty() && self.chance(manners.arrives) {
            let any = self.random.random_range(0..self.waiting.len());
            let position = if self.chance(manners.in_turn) { 0 } else { any };
            self.arrive(position)?;
        }

        // What comes back.
        let walk_ended = self.walks > 0 && self.chance(manners.returns);
        let walk_unused = self.walks > 1 && self.chance(manners.returns);
        self.walks -= u32::from(walk_ended) + u32::from(walk_unused);
        let turn = self.drained_turn;
        let slot_freed = self.long_slots[turn] > 0 && self.chance(manners.returns);
        self.long_slots[turn] -= u32::from(slot_freed);
        let context = match self.contexts.front() {
            Some((context, true, is_long)) if !is_long || self.long_slots[turn] == 0 => Some((*context, *is_long)),
            _ => None,
        };
        let context = context.filter(|_| self.chance(manners.returns));
        if let Some((_, is_long)) = context {
            self.contexts.pop_front();
            self.drained_turn ^= usize::from(is_long);
        }
        // Nothing of a single response matters here.
        let noise = self.random.random_range(0..2);
        for (name, input) in &self.inputs {
            let value = match *name {
                "walk_ended" => walk_ended.into(),
                "walk_unused" => walk_unused.into(),
                "single_place_freed" => noise,
                "gap_wanted" | "long_failed" => 0,
                "slot_freed" => slot_freed.into(),
                "slot_freed_turn" => turn as u64,
                "context_freed" => context.is_some().into(),
                _ => context.map_or(0, |(context, _)| context.into()),
            };
            self.bench.model_mut().set(*input, value);
        }
        self.places_freed += self.bench.model().get(self.place_freed);
        if self.held_due.front().is_some_and(|(cycle, _)| *cycle == now) {
            let (_, held) = self.held_due.pop_front().expect("there is one");
            for (name, port) in &self.held_out {
                assert_eq!(self.bench.model().get_wide(*port), held.get(name)?, "{name} on held_out in cycle {now}");
            }
        }
        self.bench.cycle()?;
        let pieces = self.pieces;
        if let Some(piece) = self.bench[pieces].pop() {
            self.piece_cycles.push(now);
            self.check(now, &piece.beat)?;
        }
        let since = self.piece_cycles.last().map_or(0, |cycle| now - cycle);
        assert!(self.waiting.len() == self.requests.len() || since < STUCK_CYCLES, "no piece for {since} cycles");
        Ok(())
    }

    fn check(&mut self, now: u64, piece: &Beat) -> Result<(), Error> {
        let (place, number) = self.next;
        let request = &self.requests[place];
        let (beat, held) = request.arrived.as_ref().unwrap_or_else(|| panic!("request {place} has not arrived"));
        assert!(now >= request.cycle + RING_CYCLES, "request {place} comes too early");
        let (pages, slots) = (request.pages(), self.config.split_pages);
        let (is_first, is_last, is_long) = (number == 0, number + 1 == pages, pages > slots.into());
        let page_mask = (1u64 << request.page_shift) - 1;
        let page_start = (request.va & !page_mask) + (number << request.page_shift);
        let va = if is_first { request.va } else { page_start };
        let context = place as u32 % self.config.split_contexts;
        let counted = |name: &str| Ok::<_, Error>((beat.get(name)? + u128::from(number)) & 0xffff_ffff);
        let mut fields = vec![
            ("va", va.into()),
            ("virtual_page", counted("virtual_page")?),
            ("page_index", counted("page_index")?),
            ("is_split", 1),
            ("split_context", context.into()),
            ("split_slot", u128::from(number) % u128::from(slots)),
            ("is_first", is_first.into()),
            ("is_last", is_last.into()),
            ("is_long", is_long.into()),
        ];
        for name in COPIED {
            fields.push((name, beat.get(name)?));
        }
        for (name, value) in fields {
            assert_eq!(piece.get(name)?, value, "{name} of piece {number} of request {place}");
        }
        self.held_due.push_back((now + HELD_CYCLES, held.clone()));
        self.walks += 1;
        assert!(self.walks <= self.config.request_walks(), "walks");
        if is_first {
            let others = self.contexts.iter().filter(|(_, _, is_long)| *is_long).count();
            assert!(!(is_long && others > 1), "a third long request is open");
            self.contexts.push_back((context, false, is_long));
            assert!(self.contexts.len() <= self.config.split_contexts as usize, "contexts");
        }
        if is_long {
            self.long_slots[self.long_turn] += 1;
            assert!(self.long_slots[self.long_turn] <= slots, "slots");
            self.long_turn ^= usize::from(is_last);
        }
        if is_last {
            self.contexts.back_mut().expect("the request has a context").1 = true;
        }
        self.next = if is_last { (place + 1, 0) } else { (place, number + 1) };
        Ok(())
    }

    /// Nothing more is admitted; all that was comes out, and every place comes back.
    fn finish(&mut self, manners: Manners) -> Result<(), Error> {
        while self.next.0 < self.requests.len() {
            self.cycle(Manners { admits: 0, ..manners })?;
        }
        for _ in 0..10 {
            self.cycle(Manners { admits: 0, ..manners })?;
        }
        assert_eq!(self.places_freed, self.requests.len() as u64, "places given back");
        Ok(())
    }
}

#[test]
fn requests_leave_by_order_number() -> Result<(), Error> {
    let mut rig = Rig::new(1)?;
    let percents = [5, 30, 100];
    for round in 0..54 {
        let manners = Manners {
            admits: 100,
            arrives: percents[round % 3],
            in_turn: [0, 5, 60][round / 3 % 3],
            returns: percents[round / 9 % 3],
            has_more: [10, 60][round / 27],
        };
        for _ in 0..2_000 {
            rig.cycle(manners)?;
        }
        rig.finish(manners)?;
    }
    assert!(rig.requests.len() > 5_000, "{} requests", rig.requests.len());
    Ok(())
}

#[test]
fn requests_in_turn_go_one_per_cycle_after_three_cycles() -> Result<(), Error> {
    let mut rig = Rig::new(2)?;
    let manners = Manners { admits: 100, arrives: 100, in_turn: 100, returns: 100, has_more: 0 };
    for _ in 0..500 {
        rig.cycle(manners)?;
    }
    let begin = rig.piece_cycles.len();
    for _ in 0..500 {
        rig.cycle(manners)?;
    }
    assert_eq!(rig.piece_cycles.len() - begin, 500);
    rig.finish(manners)?;
    rig.admit(0);
    rig.arrive(0)?;
    rig.finish(manners)?;
    let request = rig.requests.last().expect("there is one");
    assert_eq!(rig.piece_cycles.last(), Some(&(request.cycle + RING_CYCLES)));
    Ok(())
}

#[test]
fn reset_drops_what_waits() -> Result<(), Error> {
    let mut rig = Rig::new(3)?;
    let manners = Manners { admits: 100, arrives: 60, in_turn: 2, returns: 30, has_more: 30 };
    for round in 0..40 {
        for _ in 0..50 + 7 * round {
            rig.cycle(manners)?;
        }
        rig.reset()?;
        for _ in 0..20 {
            rig.cycle(Manners { admits: 0, ..manners })?;
        }
        assert!(rig.piece_cycles.is_empty());
    }
    for _ in 0..500 {
        rig.cycle(manners)?;
    }
    rig.finish(manners)
}
