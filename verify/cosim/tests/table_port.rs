//! The table-read port in every configuration of this build, against a reference that knows what every line holds and
//! who waits for it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use keywalk_contract::Config;
use keywalk_cosim::{
    Bench, Channel, Component, Dut, Error, Handle, Input, LineMemory, MemoryOptions, MemoryResponder, Model, Output,
    ReadFault, ReadPort, ReadRules, Stall, StreamDriver, dut,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Cycles from the acceptance of a request to `arvalid`, as documented, while no read is open.
const REQUEST_TO_READ_CYCLES: u64 = 1;
/// The same beside an open read.
const REQUEST_TO_FURTHER_READ_CYCLES: u64 = 2;
/// Cycles from the last beat to the answer of the first waiter, where a line has one beat.
const LANDING_TO_ANSWER_CYCLES: u64 = 2;
/// Cycles that a read number is not used for, beside the latency of the memory, with some to spare.
const TURNAROUND_CYCLES: u64 = 14;
/// Bits of a line address.
const LINE_BITS: u32 = 58;
/// Lowest bits of it that choose the bucket.
const HASHED_BITS: u32 = 29;
/// Buckets of the in-flight table for each read number, and its ways.
const BUCKETS_PER_READ: u32 = 4;
const WAYS: usize = 4;

/// Every model of the block.
fn designs() -> Vec<&'static Dut> {
    let designs: Vec<_> = dut::ALL.iter().copied().filter(|dut| dut.top == "table_port").collect();
    assert!(!designs.is_empty(), "no model of table_port in this build");
    designs
}

/// Memory whose every line is a hash of its number.
struct Pattern;

fn pattern(line: u64) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (word, bytes) in (1u64..).zip(bytes.chunks_exact_mut(8)) {
        let hash = (line ^ word << 59).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.copy_from_slice(&(hash ^ hash >> 29).to_le_bytes());
    }
    bytes
}

impl LineMemory for Pattern {
    fn line(&self, address: u64) -> Option<[u8; 64]> {
        Some(pattern(address / 64))
    }
}

/// Context of a client; the client is 1 for the MTR walker.
type Waiter = (usize, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    waiter: Waiter,
    level: u64,
    word: u64,
    line: u64,
}

#[derive(Clone, Debug)]
struct Answer {
    waiter: Waiter,
    cycle: u64,
}

/// What the reference knows.
#[derive(Default)]
struct State {
    /// Requests that are offered or accepted and not answered, with the cycle of the acceptance.
    waiting: HashMap<Waiter, (Request, Option<u64>)>,
    /// Offered requests in order, for each client.
    offered: [VecDeque<Request>; 2],
    accepted: [u64; 2],
    /// Lines in flight by read number, from the acceptance of the address to the last beat.
    in_flight: HashMap<u64, u64>,
    /// Generations that requests may be of: so often may a line be in flight.
    generations: HashSet<u64>,
    /// Answers to requests whose own read it was.
    first_answers: u64,
    in_flight_peak: usize,
    /// Error bits that a faulty line must give.
    faults: HashMap<u64, u64>,
    answers: VecDeque<Answer>,
    answered: u64,
    reads: u64,
    event_reads: u64,
    event_merged: u64,
    event_errors: u64,
    failed_landings: u64,
    oldest_age: u64,
    last_landing_cycle: u64,
}

/// Watches every port and compares with the reference.
struct Watch {
    state: Rc<RefCell<State>>,
    requests: [Channel; 2],
    address: Channel,
    data: Channel,
    line_valid: [Output; 2],
    line: HashMap<&'static str, Output>,
    early_context: Output,
    early_lines: [Output; 2],
    /// What `early_context` was in the cycle before.
    announced_context: u64,
    /// Of which clients a line was announced in the cycle before.
    announced: [bool; 2],
    idle: Output,
    events: [Output; 3],
}

impl Watch {
    fn new(model: &Model, state: Rc<RefCell<State>>) -> Result<Self, Error> {
        let fields = [
            "context",
            "level",
            "word",
            "is_first",
            "value",
            "value_error",
            "error",
            "data_0",
            "data_1",
            "data_2",
            "data_3",
        ];
        let line = fields.map(|field| model.output(&format!("line_{field}")).map(|output| (field, output)));
        Ok(Self {
            state,
            requests: [Channel::block(model, "hem_request")?, Channel::block(model, "walk_request")?],
            address: Channel::with_prefix(model, "ar")?,
            data: Channel::with_prefix(model, "r")?,
            line_valid: [model.output("hem_line_valid")?, model.output("walk_line_valid")?],
            line: line.into_iter().collect::<Result<_, _>>()?,
            early_context: model.output("early_context")?,
            early_lines: [model.output("early_hem_line")?, model.output("early_walk_line")?],
            announced_context: 0,
            announced: [false; 2],
            idle: model.output("idle")?,
            events: [model.output("event_read")?, model.output("event_merged")?, model.output("event_error")?],
        })
    }

    fn sample_answer(&self, model: &Model, state: &mut State) {
        let valid = self.line_valid.map(|valid| model.get(valid) != 0);
        assert!(!(valid[0] && valid[1]), "two answers in a cycle");
        let Some(client) = valid.iter().position(|valid| *valid) else { return };
        let field = |name| model.get_wide(self.line[name]);
        let waiter = (client, field("context") as u64);
        let Some((request, Some(accepted_cycle))) = state.waiting.remove(&waiter) else {
            panic!("cycle {}: answer for {waiter:?}, which does not wait", model.cycles());
        };
        assert_eq!((field("level") as u64, field("word") as u64), (request.level, request.word), "{request:x?}");
        assert_eq!(self.announced_context, waiter.1, "the context is told a cycle ahead");
        assert!(self.announced[client], "the line is told a cycle ahead");
        let error = state.faults.get(&request.line).copied().unwrap_or(0);
        let value_error = error >> (request.word / 2) & 1;
        let errors = (field("value_error") as u64, field("error") as u64);
        assert_eq!(errors, (value_error, u64::from(error != 0)), "{request:x?}");
        let words = pattern(request.line);
        let value = words.chunks_exact(8).nth(request.word as usize).expect("there are eight words");
        let value = u64::from_le_bytes(value.try_into().expect("a word has 8 bytes"));
        assert!(value_error != 0 || field("value") as u64 == value, "{request:x?}");
        state.first_answers += field("is_first") as u64;
        for (quarter, expected) in pattern(request.line).chunks_exact(16).enumerate() {
            let expected = u128::from_le_bytes(expected.try_into().expect("a quarter has 16 bytes"));
            let found = field(["data_0", "data_1", "data_2", "data_3"][quarter]);
            assert!(error >> quarter & 1 != 0 || found == expected, "{request:x?} quarter {quarter}: {found:#x}");
        }
        state.oldest_age = state.oldest_age.max(model.cycles() - accepted_cycle);
        state.answered += 1;
        state.answers.push_back(Answer { waiter, cycle: model.cycles() });
    }
}

impl Component for Watch {
    fn drive(&mut self, _model: &mut Model) {}

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let state = &mut *self.state.borrow_mut();
        let is_busy = state.waiting.values().any(|(_, accepted)| accepted.is_some());
        assert!(!is_busy || model.get(self.idle) == 0, "cycle {}: idle with requests in flight", model.cycles());
        self.sample_answer(model, state);
        self.announced_context = model.get(self.early_context);
        self.announced = self.early_lines.map(|line| model.get(line) == 1);
        for (client, channel) in self.requests.iter().enumerate() {
            if channel.is_valid(model) && channel.is_ready(model) {
                let request = state.offered[client].pop_front().expect("only what was offered is accepted");
                state.waiting.insert(request.waiter, (request, Some(model.cycles())));
                state.accepted[client] += 1;
            }
        }
        let data = self.data.is_valid(model) && self.data.is_ready(model);
        if data && model.get(self.data.signal("last")?) != 0 {
            let id = model.get(self.data.signal("id")?);
            let line = state.in_flight.remove(&id).expect("the responder answers what was asked");
            state.failed_landings += u64::from(state.faults.contains_key(&line));
            state.last_landing_cycle = model.cycles();
        }
        if self.address.is_valid(model) && self.address.is_ready(model) {
            let id = model.get(self.address.signal("id")?);
            let line = model.get(self.address.signal("addr")?) / 64;
            let others = state.in_flight.values().filter(|other| **other == line).count();
            assert!(others < state.generations.len(), "line {line:#x} is read once more at a time");
            state.in_flight.insert(id, line);
            state.in_flight_peak = state.in_flight_peak.max(state.in_flight.len());
            state.reads += 1;
        }
        let events = self.events.map(|event| model.get(event));
        state.event_reads += events[0];
        state.event_merged += events[1];
        state.event_errors += events[2];
        Ok(())
    }

    fn reset(&mut self, _model: &mut Model) {
        let mut state = self.state.borrow_mut();
        let State { faults, generations, .. } = std::mem::take(&mut *state);
        *state = State { faults, generations, ..State::default() };
    }
}

/// The block with memory, both clients and the reference.
struct Port {
    bench: Bench,
    config: Config,
    clients: [Handle<StreamDriver>; 2],
    memory: Handle<MemoryResponder<Pattern>>,
    state: Rc<RefCell<State>>,
    ready: Output,
    idle: Output,
    random: ChaCha8Rng,
    generation: Input,
    /// The generation is one of these.
    generations: Vec<u64>,
}

impl Port {
    fn new(design: &'static Dut, seed: u64, options: MemoryOptions, client_stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(design, seed);
        let clients = [bench.driver("hem_request", client_stall)?, bench.driver("walk_request", client_stall)?];
        let model = bench.model();
        let address = Channel::with_prefix(model, "ar")?;
        let data = Channel::with_prefix(model, "r")?;
        let read_port = ReadPort::of_channels("table port", address, data)?;
        let (ready, idle) = (model.output("ready")?, model.output("idle")?);
        let generation = model.input("generation")?;
        let random = bench.random();
        let memory = MemoryResponder::new(bench.model(), read_port.clone(), Pattern, options, random)?;
        let memory = bench.add(memory);
        bench.add(ReadRules::new(read_port));
        let state = Rc::new(RefCell::new(State::default()));
        let watch = Watch::new(bench.model(), Rc::clone(&state))?;
        bench.add(watch);
        let config = design.config().expect("the block is generated");
        let random = bench.random();
        let mut port =
            Self { bench, config, clients, memory, state, ready, idle, random, generation, generations: vec![0] };
        port.use_generations(&[0]);
        port.reset()?;
        Ok(port)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        let buckets = u64::from(BUCKETS_PER_READ * self.config.reads_in_flight);
        let ready = self.ready;
        self.bench.run_until("ready", buckets + 10, |bench| bench.model().get(ready) != 0)
    }

    /// The generation is one of these from now on.
    fn use_generations(&mut self, generations: &[u64]) {
        self.generations = generations.to_vec();
        self.state.borrow_mut().generations.extend(generations);
    }

    fn set_generation(&mut self, generation: u64) {
        let port = self.generation;
        self.bench.model_mut().set(port, generation);
    }

    fn contexts(&self, client: usize) -> u64 {
        u64::from([1 << self.config.hem_context_bits(), self.config.walk_contexts][client])
    }

    fn waiters(&self) -> Vec<Waiter> {
        (0..2).flat_map(|client| (0..self.contexts(client)).map(move |context| (client, context))).collect()
    }

    /// Offers a request, not before a cycle.
    fn request_at(&mut self, waiter: Waiter, line: u64, cycle: u64) -> Result<(), Error> {
        let (level, word) = (self.random.random_range(0..4), self.random.random_range(0..8));
        let request = Request { waiter, level, word, line };
        let driver = &mut self.bench[self.clients[waiter.0]];
        let mut beat = keywalk_cosim::Beat::zero(driver.channel().shape());
        let carry = self.random.random_range(0..2);
        let high = (line >> HASHED_BITS).wrapping_sub(carry) & ((1 << (LINE_BITS - HASHED_BITS)) - 1);
        let low = line & ((1 << HASHED_BITS) - 1);
        let sum = [("low", low), ("carry", carry), ("high", high)];
        for (field, value) in [("context", waiter.1), ("level", level), ("word", word)].into_iter().chain(sum) {
            beat.set(field, value.into())?;
        }
        driver.push_not_before(beat, cycle);
        let state = &mut *self.state.borrow_mut();
        state.offered[waiter.0].push_back(request);
        assert!(state.waiting.insert(waiter, (request, None)).is_none(), "{waiter:?} asks twice at a time");
        Ok(())
    }

    fn request(&mut self, waiter: Waiter, line: u64) -> Result<(), Error> {
        self.request_at(waiter, line, 0)
    }

    /// Makes a line fail; gives nothing back, the reference expects the bits of every beat that holds a quarter.
    fn inject(&mut self, line: u64, quarters: u8, is_decode_error: bool) {
        let quarters_per_beat = 4 / self.config.beats_per_line();
        let beat_mask = (1u64 << quarters_per_beat) - 1;
        let bits = (0..4)
            .filter(|quarter| quarters >> quarter & 1 != 0)
            .fold(0, |bits, quarter| bits | beat_mask << (quarter / quarters_per_beat * quarters_per_beat));
        let fault =
            if is_decode_error { ReadFault::DecodeError { quarters } } else { ReadFault::SlaveError { quarters } };
        self.bench[self.memory].inject(line * 64, fault);
        self.state.borrow_mut().faults.insert(line, bits);
    }

    fn waiting(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    /// Runs until everything is answered and the block is idle, and compares the events with what happened.
    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let state = Rc::clone(&self.state);
        self.bench.run_until("all answers", limit_cycles, |_| state.borrow().waiting.is_empty())?;
        let idle = self.idle;
        // Reads without further waiters give their numbers back one per cycle, behind those with a list.
        let limit_cycles = u64::from(self.config.reads_in_flight) + 10;
        self.bench.run_until("idle", limit_cycles, |bench| bench.model().get(idle) != 0)?;
        self.bench.run(3)?;
        let state = self.state.borrow();
        assert!(state.in_flight.is_empty());
        assert!(state.in_flight_peak <= self.config.reads_in_flight as usize);
        assert_eq!(state.event_reads, state.reads);
        assert_eq!(state.event_merged, state.answered - state.reads);
        assert_eq!(state.first_answers, state.reads, "one answer of each read is the first");
        assert_eq!(state.event_errors, state.failed_landings);
        Ok(())
    }

    /// Keeps every waiter busy until `count` requests have been offered: whoever was answered asks again in the next
    /// cycle, for the line that `next_line` gives. Gives the cycles that it took.
    fn saturate(
        &mut self,
        waiters: &[Waiter],
        count: u64,
        limit_cycles: u64,
        mut next_line: impl FnMut(&mut ChaCha8Rng) -> u64,
    ) -> Result<u64, Error> {
        let start = self.bench.cycles();
        let mut offered = 0;
        let mut free: VecDeque<Waiter> = waiters.iter().copied().collect();
        while offered < count || self.waiting() > 0 {
            while offered < count
                && let Some(waiter) = free.pop_front()
            {
                let line = next_line(&mut self.random);
                self.request(waiter, line)?;
                offered += 1;
            }
            assert!(self.bench.cycles() - start < limit_cycles, "{offered} offered, {} waiting", self.waiting());
            if self.generations.len() > 1 && self.random.random_range(0..8) == 0 {
                let generation = self.generations[self.random.random_range(0..self.generations.len())];
                self.set_generation(generation);
            }
            self.bench.cycle()?;
            free.extend(self.state.borrow_mut().answers.drain(..).map(|answer| answer.waiter));
        }
        let taken = self.bench.cycles() - start;
        self.finish(10)?;
        Ok(taken)
    }

    /// A line of the bucket; `high` tells lines of one bucket apart.
    fn line_of_bucket(&self, bucket: u64, high: u64) -> u64 {
        let bits = (BUCKETS_PER_READ * self.config.reads_in_flight).trailing_zeros();
        let high = high & ((1 << (LINE_BITS - bits)) - 1);
        let mut low = bucket;
        let mut rest = high & ((1 << (HASHED_BITS - bits)) - 1);
        while rest != 0 {
            low ^= rest;
            rest >>= bits;
        }
        high << bits | low & ((1 << bits) - 1)
    }
}

fn any_line(random: &mut ChaCha8Rng) -> u64 {
    random.random_range(0..1 << LINE_BITS)
}

#[test]
fn a_single_read_takes_the_documented_cycles() -> Result<(), Error> {
    for design in designs() {
        for latency_cycles in [1, 2, 9] {
            for waiter in [(0, 1), (1, 0)] {
                let mut port = Port::new(design, 1, MemoryOptions::fixed(latency_cycles), Stall::NEVER)?;
                let beats = u64::from(port.config.beats_per_line());
                let client = port.clients[waiter.0];
                port.bench[client].record_acceptances();
                port.bench[port.memory].take_records();
                port.request(waiter, 0x2aa_aaaa_aaaa_aaaa)?;
                port.finish(100)?;
                let accepted = port.bench[client].pop_acceptance().expect("one request");
                let read = port.bench[port.memory].take_records()[0];
                assert_eq!(read.address, 0xaaaa_aaaa_aaaa_aa80);
                assert_eq!(read.cycle - accepted, REQUEST_TO_READ_CYCLES);
                let landing = port.state.borrow().last_landing_cycle;
                assert_eq!(landing, read.cycle + u64::from(latency_cycles) + beats - 1);
                let answer = port.state.borrow().answers[0].cycle;
                assert_eq!(answer - landing, LANDING_TO_ANSWER_CYCLES + u64::from(beats > 1), "{}", design.name);
            }
        }
    }
    Ok(())
}

#[test]
fn a_read_beside_others_takes_the_documented_cycles() -> Result<(), Error> {
    for design in designs() {
        for waiter in [(0, 1), (1, 0)] {
            for gap_cycles in 0..8 {
                let mut port = Port::new(design, 1, MemoryOptions::fixed(20), Stall::NEVER)?;
                let start = port.bench.cycles() + 2;
                let client = port.clients[waiter.0];
                port.bench[client].record_acceptances();
                port.request_at((waiter.0, 1 - waiter.1), 0x77, start)?;
                port.request_at(waiter, 0x78, start + 1 + gap_cycles)?;
                port.finish(100)?;
                let accepted = [(); 2].map(|()| port.bench[client].pop_acceptance().expect("two requests"));
                let reads = port.bench[port.memory].take_records();
                assert_eq!(reads[0].cycle - accepted[0], REQUEST_TO_READ_CYCLES);
                assert_eq!(reads[1].cycle - accepted[1], REQUEST_TO_FURTHER_READ_CYCLES, "gap {gap_cycles}");
            }
        }
    }
    Ok(())
}

#[test]
fn neither_client_waits_for_a_turn_that_the_other_one_does_not_take() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 3, MemoryOptions::fixed(3), Stall::NEVER)?;
        for waiter in [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0), (1, 1)] {
            let start = port.bench.cycles() + 2;
            let client = port.clients[waiter.0];
            port.bench[client].record_acceptances();
            let line = any_line(&mut port.random.clone()) ^ start;
            port.request_at(waiter, line, start)?;
            port.finish(100)?;
            assert_eq!(port.bench[client].pop_acceptance(), Some(start), "{waiter:?}");
        }
    }
    Ok(())
}

#[test]
fn requests_for_a_line_in_flight_join_it() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 2, MemoryOptions::fixed(30), Stall::NEVER)?;
        for waiter in [(0, 0), (1, 1), (1, 0), (0, 1)] {
            port.request(waiter, 0x1234)?;
        }
        port.finish(200)?;
        let state = port.state.borrow();
        assert_eq!((state.reads, state.answered, state.event_merged), (1, 4, 3));
        assert_eq!(state.answers[0].waiter, (0, 0), "the first one is answered first");
        // One answer per cycle once the list is complete.
        assert!(state.answers[3].cycle - state.last_landing_cycle <= 8 + 3, "{:?}", state.answers);
    }
    Ok(())
}

#[test]
fn lines_are_told_apart_by_every_bit_and_by_nothing_else() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 22, MemoryOptions::fixed(30), Stall::NEVER)?;
        let mut random = port.random.clone();
        for bit in 0..LINE_BITS {
            let line = any_line(&mut random);
            let before = port.state.borrow().reads;
            for (waiter, line) in [((0, 0), line), ((1, 1), line), ((1, 0), line ^ 1 << bit), ((0, 1), line ^ 1 << bit)]
            {
                port.request(waiter, line)?;
            }
            port.finish(300)?;
            assert_eq!(port.state.borrow().reads - before, 2, "{} line {line:#x}, bit {bit}", design.name);
            // One cycle behind the other, while the first is not in memory yet.
            for round in 2..22 {
                let line = any_line(&mut random);
                let start = port.bench.cycles() + 2;
                port.request_at((0, 0), line, start)?;
                port.request_at((1, 1), line ^ 1 << bit, start + 1)?;
                port.finish(300)?;
                let reads = port.state.borrow().reads - before;
                assert_eq!(reads, 2 * round, "{} line {line:#x}, bit {bit}", design.name);
            }
        }
    }
    Ok(())
}

#[test]
fn requests_of_another_generation_do_not_join() -> Result<(), Error> {
    for design in designs() {
        for gap_cycles in 0..12 {
            let mut port = Port::new(design, 12, MemoryOptions::fixed(30), Stall::NEVER)?;
            port.use_generations(&[0, 1]);
            for (waiter, generation) in [((0, 0), 0), ((1, 1), 1), ((1, 0), 0), ((0, 1), 1)] {
                port.request(waiter, 0x1234)?;
                let client = port.clients[waiter.0];
                port.bench.run_until("the acceptance", 10, |bench| bench[client].pending() == 0)?;
                port.set_generation(generation);
                port.bench.run(gap_cycles)?;
            }
            port.finish(300)?;
            // Two reads, of which the first two are the first waiters, whatever the distance while both are in flight.
            let state = port.state.borrow();
            let expected = if gap_cycles < 10 { (2, 2) } else { (state.reads, 4 - state.reads) };
            assert_eq!((state.reads, state.event_merged), expected, "{} gap {gap_cycles}", design.name);
        }
    }
    Ok(())
}

#[test]
fn a_request_that_is_cancelled_leaves_no_trace() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 13, MemoryOptions::fixed(20), Stall::NEVER)?;
        let cancel = port.bench.model().input("cancel_hem_request")?;
        // The other client has the turn or not, its requests are not touched.
        for with_other in [false, true] {
            for _ in 0..4 {
                port.request((0, 1), 0x55)?;
                if with_other {
                    port.request((1, 0), 0x66)?;
                }
                let client = port.clients[0];
                while port.bench[client].pending() > 0 {
                    port.bench.model_mut().set(cancel, 1);
                    port.bench.cycle()?;
                }
                port.bench.model_mut().set(cancel, 0);
                assert!(port.state.borrow_mut().waiting.remove(&(0, 1)).is_some());
                port.finish(100)?;
                assert_eq!(port.bench.model().get(port.idle), 1);
            }
        }
        assert_eq!(port.state.borrow().reads, 4);
        port.request((0, 1), 0x55)?;
        port.finish(100)?;
        assert_eq!(port.state.borrow().reads, 5);
    }
    Ok(())
}

/// The first waiter of a line asks for it again at once, others come at every distance around the landing.
#[test]
fn a_request_at_any_moment_around_the_landing_is_answered_once() -> Result<(), Error> {
    let mut merged = 0;
    let mut reads = 0;
    for design in designs() {
        let mut port = Port::new(design, 3, MemoryOptions::fixed(12), Stall::NEVER)?;
        for offset in 0..40 {
            for gap in 0..4 {
                let start = port.bench.cycles() + 2;
                let line = any_line(&mut port.random);
                port.request_at((0, 0), line, start)?;
                port.request_at((1, 1), line, start + offset)?;
                port.request_at((0, 1), line, start + offset + gap)?;
                port.request_at((1, 0), line, start + offset + 2 * gap)?;
                port.state.borrow_mut().answers.clear();
                let mut again = 0;
                while port.waiting() > 0 {
                    assert!(port.bench.cycles() < start + 300);
                    port.bench.cycle()?;
                    let answers = std::mem::take(&mut port.state.borrow_mut().answers);
                    for answer in answers.iter().filter(|answer| answer.waiter.0 == 0) {
                        if again < 4 {
                            again += 1;
                            // Its own line again, or one that another list of waiters is made for.
                            port.request(answer.waiter, line + u64::from(again % 2 == 0))?;
                        }
                    }
                }
                port.finish(10)?;
            }
        }
        merged += port.state.borrow().event_merged;
        reads += port.state.borrow().reads;
    }
    assert!(merged > 300 && reads > 300, "{merged} merged, {reads} reads: both were to happen");
    Ok(())
}

#[test]
fn bus_errors_are_told_by_quarters_to_every_waiter() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 4, MemoryOptions::fixed(8), Stall::NEVER)?;
        for quarters in 1..16 {
            let line = 0x700 + u64::from(quarters);
            port.inject(line, quarters, quarters % 2 == 0);
            port.request((0, 0), line)?;
            port.request((1, 1), line)?;
            port.finish(100)?;
            // The next line in the same place is good again.
            port.request((1, 1), line + 0x100)?;
            port.finish(100)?;
        }
        assert_eq!(port.state.borrow().event_errors, 15);
    }
    Ok(())
}

/// Seeded random: pools of few lines, of few buckets, of many lines; stalls everywhere; order and beats mixed.
#[test]
fn random_requests_are_answered_exactly_once_with_their_line() -> Result<(), Error> {
    let mut merged = 0;
    for design in designs() {
        for seed in 0..12 {
            let latency_cycles = [1, 4, 20, 70][seed as usize % 4];
            let options =
                if seed % 3 == 0 { MemoryOptions::fixed(latency_cycles) } else { MemoryOptions::rough(latency_cycles) };
            let stall = if seed % 2 == 0 { Stall::NEVER } else { Stall::percent(30).up_to(6) };
            let mut port = Port::new(design, seed, options, stall)?;
            if seed % 3 != 1 {
                port.use_generations(&[0, 1]);
            }
            let mut random = port.random.clone();
            let pool: Vec<u64> = match seed % 4 {
                0 => (0..6).map(|_| any_line(&mut random)).collect(),
                1 => (0..64).map(|index| port.line_of_bucket(index % 3, any_line(&mut random))).collect(),
                2 => (0..400).map(|index| 0x40_0000 + index).collect(),
                _ => (0..4000).map(|index| index << 6).collect(),
            };
            for index in 0..pool.len() / 5 {
                port.inject(pool[index * 5], random.random_range(1..16), index % 2 == 0);
            }
            let waiters = port.waiters();
            let pick = |random: &mut ChaCha8Rng| pool[random.random_range(0..pool.len())];
            port.saturate(&waiters, 3_000, 200_000, pick)?;
            let state = port.state.borrow();
            assert_eq!(state.answered, 3_000);
            merged += state.event_merged;
            // Nothing starves: an answer is at most every other request and some latencies of the memory away.
            let age_max = (waiters.len() as u64 + 20) * 30 + 8 * u64::from(latency_cycles);
            assert!(state.oldest_age <= age_max, "{} seed {seed}: {} cycles", design.name, state.oldest_age);
        }
    }
    assert!(merged > 1_000, "{merged} requests joined");
    Ok(())
}

/// Cycles for `reads` reads of a memory of that latency, with as many in flight as there can be, and 5 percent more.
fn cycles_of_reads(port: &Port, waiters: usize, reads: u64, latency_cycles: u32) -> u64 {
    let in_flight = u64::from(port.config.reads_in_flight).min(waiters as u64);
    let occupied = u64::from(latency_cycles) + u64::from(port.config.beats_per_line()) + TURNAROUND_CYCLES;
    let each = (occupied as f64 / in_flight as f64).max(f64::from(port.config.beats_per_line()));
    (reads as f64 * each * 1.05) as u64 + occupied
}

#[test]
fn distinct_lines_are_read_at_one_per_cycle() -> Result<(), Error> {
    const READS: u64 = 2_000;
    for design in designs() {
        for latency_cycles in [20, 50, 100, 250] {
            for clients in [&[0usize, 1][..], &[0], &[1]] {
                let mut port = Port::new(design, 5, MemoryOptions::fixed(latency_cycles), Stall::NEVER)?;
                let mut waiters = port.waiters();
                waiters.retain(|(client, _)| clients.contains(client));
                let limit = cycles_of_reads(&port, waiters.len(), READS, latency_cycles);
                let mut line = 0x77_0000;
                let taken = port.saturate(&waiters, READS, 2 * limit, |_| {
                    line += 64;
                    line
                })?;
                assert!(taken <= limit, "{} latency {latency_cycles}: {taken} cycles, {limit} allowed", design.name);
                assert_eq!(port.state.borrow().reads, READS);
                // Saturated clients take turns.
                let [hem, walk] = port.state.borrow().accepted;
                assert!(clients.len() < 2 || hem.min(walk) > 0);
            }
        }
    }
    Ok(())
}

/// Lines for several requests each: the answers limit, at one per cycle.
#[test]
fn joined_requests_are_answered_at_one_per_cycle() -> Result<(), Error> {
    const REQUESTS: u64 = 4_000;
    for design in designs() {
        for share in [8, 3, 2] {
            let latency_cycles = 20;
            let mut port = Port::new(design, 6, MemoryOptions::fixed(latency_cycles), Stall::NEVER)?;
            let beats = port.config.beats_per_line();
            // One client keeps the order, so that requests for a line follow each other.
            let waiters: Vec<Waiter> = (0..port.contexts(1)).map(|context| (1, context)).collect();
            let mut count = 0;
            let taken = port.saturate(&waiters, REQUESTS, 100_000, |_| {
                count += 1;
                0x99_0000 + count / share
            })?;
            let reads = port.state.borrow().reads;
            let occupied = u64::from(latency_cycles + beats) + TURNAROUND_CYCLES + share;
            let cycles_by_contexts = REQUESTS * occupied / waiters.len() as u64;
            let cycles_by_reads = reads * occupied / u64::from(port.config.reads_in_flight);
            let cycles = REQUESTS.max(cycles_by_contexts).max(cycles_by_reads).max(reads * u64::from(beats));
            let limit = cycles * 21 / 20 + 2 * occupied;
            assert!(taken <= limit, "{} share {share}: {taken} cycles, {limit} allowed", design.name);
            assert!(waiters.len() < 16 || reads < REQUESTS * 2 / 3, "{reads} reads");
        }
    }
    Ok(())
}

/// Half of the reads have a second waiter: their lists must not hold up the numbers of the others.
#[test]
fn lists_do_not_hold_up_other_reads() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 11, MemoryOptions::fixed(20), Stall::NEVER)?;
        let waiters = port.waiters();
        let mut count = 0;
        let taken = port.saturate(&waiters, 4_000, 100_000, |_| {
            count += 1;
            0x99_0000 + count / 3 * 2 + u64::from(count % 3 == 0)
        })?;
        let reads = port.state.borrow().reads;
        let occupied = u64::from(20 + port.config.beats_per_line()) + TURNAROUND_CYCLES;
        let cycles_by_reads = reads * occupied / u64::from(port.config.reads_in_flight);
        let cycles_by_contexts = 4_000 * occupied / waiters.len() as u64;
        let cycles_by_beats = reads * u64::from(port.config.beats_per_line());
        let cycles = cycles_by_reads.max(cycles_by_contexts).max(cycles_by_beats).max(4_000);
        assert!(taken <= cycles * 21 / 20 + 2 * occupied, "{}: {taken} cycles of {cycles}", design.name);
    }
    Ok(())
}

/// All lines in one bucket or two: never more reads than ways, everything goes on.
#[test]
fn full_buckets_hold_requests_back_and_lose_none() -> Result<(), Error> {
    for design in designs() {
        for buckets in [1, 2] {
            for (latency_cycles, stall) in [(16, Stall::NEVER), (40, Stall::percent(40).up_to(3))] {
                let options = MemoryOptions { address_stall: stall, ..MemoryOptions::fixed(latency_cycles) };
                let mut port = Port::new(design, 7, options, Stall::NEVER)?;
                let waiters = port.waiters();
                let lines: Vec<u64> =
                    (0..1_000).map(|index| port.line_of_bucket(1 + index % buckets, 77 + index)).collect();
                let mut distinct = lines.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), lines.len());
                let mut next = lines.iter().cycle();
                port.saturate(&waiters, 1_000, 100_000, |_| *next.next().expect("a cycle has no end"))?;
                let peak = port.state.borrow().in_flight_peak;
                let peak_expected = (WAYS * buckets as usize).min(port.config.reads_in_flight as usize);
                assert!(peak <= peak_expected, "{peak} reads of {buckets} buckets");
                assert!(peak == peak_expected || waiters.len() < 2 * peak_expected, "{peak} of {peak_expected}");
            }
        }
    }
    Ok(())
}

/// A request that finds no read number is not passed by others for ever, whatever the rhythm of the landings.
#[test]
fn a_request_that_waits_for_a_read_number_is_served_in_turn() -> Result<(), Error> {
    for design in designs() {
        for in_flight_max in [1, 2, u32::MAX] {
            for data_stall in [Stall::NEVER, Stall::percent(50), Stall::percent(90)] {
                let options = MemoryOptions { data_stall, in_flight_max, ..MemoryOptions::fixed(2) };
                let mut port = Port::new(design, 8, options, Stall::NEVER)?;
                let waiters = port.waiters();
                port.saturate(&waiters, 1_500, 100_000, any_line)?;
                let state = port.state.borrow();
                // Each waiter is behind the others, at one read per landing.
                let landing_cycles = if data_stall == Stall::percent(90) { 16 } else { 6 };
                let reads_ahead = u64::from(port.config.reads_in_flight) + waiters.len() as u64;
                let age_max = (reads_ahead + 8) * landing_cycles * u64::from(port.config.beats_per_line()) * 2;
                assert!(state.oldest_age <= age_max, "{}: {} of {age_max}", design.name, state.oldest_age);
            }
        }
    }
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_port() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 9, MemoryOptions::rough(10), Stall::percent(20))?;
        let waiters = port.waiters();
        for cycles in 1..60 {
            let lines: Vec<u64> = (0..8).map(|_| any_line(&mut port.random)).collect();
            for (index, waiter) in waiters.iter().enumerate() {
                port.request(*waiter, lines[index % lines.len()])?;
            }
            port.bench.run(cycles)?;
            port.reset()?;
            assert_eq!(port.bench.model().get(port.idle), 1);
            let mut lines = lines.into_iter().cycle();
            port.saturate(&waiters, 40, 5_000, |_| lines.next().expect("a cycle has no end"))?;
        }
    }
    Ok(())
}

/// While the table is scrubbed nothing is accepted, and ready is late enough for that.
#[test]
fn no_request_is_accepted_before_ready() -> Result<(), Error> {
    for design in designs() {
        let mut port = Port::new(design, 10, MemoryOptions::fixed(3), Stall::NEVER)?;
        port.bench.reset(2)?;
        port.request((0, 1), 5)?;
        port.request((1, 0), 6)?;
        let ready = port.ready;
        let mut cycles = 0;
        while port.bench.model().get(ready) == 0 {
            assert_eq!(port.state.borrow().accepted, [0, 0]);
            port.bench.cycle()?;
            cycles += 1;
        }
        assert!(cycles >= u64::from(BUCKETS_PER_READ * port.config.reads_in_flight));
        port.finish(50)?;
        let used: HashSet<u64> = port.bench[port.memory].take_records().iter().map(|read| read.id).collect();
        assert_eq!(used.len(), 2);
    }
    Ok(())
}
