//! The context port: what it asks of the HEM lookup and of the walker, and how it answers.

use std::collections::{HashMap, VecDeque};

use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::{Config, Status, Table};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Two table sets, and one.
const DESIGNS: [&Dut; 2] = [&dut::CONTEXT_PORT, &dut::CONTEXT_PORT_LEAST];

/// Bits of a packed epoch below the HEM epoch.
const ENTRY_EPOCH_BITS: u32 = 37;

/// Requests in flight.
const PLACES: u64 = 16;
/// Cycles from the acceptance of a request to the lookup or walk.
const REQUEST_LATENCY_CYCLES: u64 = 5;
/// Cycles from a lookup's answer or a walk's result to the response.
const ANSWER_LATENCY_CYCLES: u64 = 3;

/// Waits for longer than any test takes, nearly from the start.
const BLOCKED: Stall = Stall::percent(100).up_to(60_000);

/// What a lookup can end with.
const LOOKUP_STATUSES: [Status; 7] = [
    Status::Ok,
    Status::IndexOutOfRange,
    Status::Bt0Unset,
    Status::HemPointerZero,
    Status::HemMisaligned,
    Status::HemBusError,
    Status::HemTimeout,
];
/// What a walk can end with.
const WALK_STATUSES: [Status; 6] = [
    Status::Ok,
    Status::MtrIndex,
    Status::MtrMisaligned,
    Status::MtrNotPresent,
    Status::MtrBusError,
    Status::MtrTimeout,
];

/// How often each channel waits.
#[derive(Clone, Copy)]
struct Stalls {
    request: Stall,
    lookup: Stall,
    walk: Stall,
    answer: Stall,
    response: Stall,
    event: Stall,
}

const NO_STALLS: Stalls = Stalls {
    request: Stall::NEVER,
    lookup: Stall::NEVER,
    walk: Stall::NEVER,
    answer: Stall::NEVER,
    response: Stall::NEVER,
    event: Stall::NEVER,
};

struct Rig {
    bench: Bench,
    config: Config,
    random: ChaCha8Rng,
    requests: Handle<StreamDriver>,
    lookups: Handle<StreamSink>,
    walks: Handle<StreamSink>,
    answers: Handle<StreamDriver>,
    results: Handle<StreamDriver>,
    responses: Handle<StreamSink>,
    events: Handle<StreamSink>,
    pause: Input,
    map_valid: Input,
    map_function: Input,
    map_table_set: Input,
    bases: Vec<Input>,
    ready: Output,
    accepted: Output,
    accepted_generation: Output,
    finished: Output,
    finished_generation: Output,
    generation: Input,
    hem_epoch: Input,
    empty: Output,
    /// Table set of every function.
    map: Vec<u64>,
    /// Page shift - 12 for a page size field of 0, per table set.
    page_shift_bases: Vec<u64>,
    /// Chance in 100 of each cycle that admission is paused, from the next one on.
    pause_percent: u32,
    was_paused: bool,
    /// Cycles from a lookup or walk to its answer.
    answer_cycles: std::ops::Range<u64>,
    is_holding: bool,
    /// Tags of requests that are not yet accepted.
    sent: VecDeque<u128>,
    next_tag: u128,
    asked: HashMap<u128, Beat>,
    /// Generation and HEM epoch at the acceptance, by tag, until the response is taken.
    admitted: HashMap<u128, (u64, u64)>,
    /// Answers and results that are due in some cycle.
    due: Vec<(u64, bool, Beat)>,
    /// Expected responses and events, by tag.
    expected_responses: HashMap<u128, Beat>,
    expected_events: HashMap<u128, Beat>,
    /// Tags of the answers and of the results, in the order in which they were given.
    given: [VecDeque<u128>; 2],
    accepted_requests: u64,
    answered: u64,
    /// No request was in flight at the end of the cycle before.
    was_empty: bool,
    events_seen: u64,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64, stalls: Stalls) -> Result<Self, Error> {
        let config = design.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let bases = (0..config.table_sets).map(|set| bench.model().input(&format!("page_shift_base_{set}")));
        let bases = bases.collect::<Result<Vec<_>, _>>()?;
        let mut rig = Self {
            random: bench.random(),
            requests: bench.driver("context_request", stalls.request)?,
            lookups: bench.sink("lookup", stalls.lookup)?,
            walks: bench.sink("walk", stalls.walk)?,
            answers: bench.driver("answer", stalls.answer)?,
            results: bench.driver("result", Stall::NEVER)?,
            responses: bench.sink("context_response", stalls.response)?,
            events: bench.sink("event", stalls.event)?,
            pause: bench.model().input("pause")?,
            map_valid: bench.model().input("function_map_write_valid")?,
            map_function: bench.model().input("function_map_write_function")?,
            map_table_set: bench.model().input("function_map_write_table_set")?,
            ready: bench.model().output("ready")?,
            accepted: bench.model().output("accepted")?,
            accepted_generation: bench.model().output("accepted_generation")?,
            finished: bench.model().output("finished")?,
            finished_generation: bench.model().output("finished_generation")?,
            generation: bench.model().input("generation")?,
            hem_epoch: bench.model().input("hem_epoch")?,
            empty: bench.model().output("empty")?,
            map: Vec::new(),
            page_shift_bases: vec![0; bases.len()],
            bases,
            pause_percent: 0,
            was_paused: false,
            answer_cycles: 0..1,
            is_holding: false,
            sent: VecDeque::new(),
            next_tag: 0,
            asked: HashMap::new(),
            admitted: HashMap::new(),
            due: Vec::new(),
            expected_responses: HashMap::new(),
            expected_events: HashMap::new(),
            given: Default::default(),
            accepted_requests: 0,
            answered: 0,
            was_empty: true,
            events_seen: 0,
            bench,
            config,
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.asked.clear();
        self.admitted.clear();
        self.sent.clear();
        self.due.clear();
        self.expected_responses.clear();
        self.expected_events.clear();
        self.given = Default::default();
        self.map = vec![0; 1 << self.config.function_bits];
        self.bench.model_mut().set(self.map_valid, 0);
        self.bench.reset(2)?;
        self.accepted_requests = self.bench[self.requests].accepted();
        self.answered = self.accepted_requests;
        self.was_empty = true;
        let (ready, limit_cycles) = (self.ready, self.map.len() as u64 + 5);
        self.bench.run_until("ready", limit_cycles, |bench| bench.model().get(ready) == 1)
    }

    fn set_base(&mut self, table_set: usize, base: u64) {
        self.page_shift_bases[table_set] = base;
        let input = self.bases[table_set];
        self.bench.model_mut().set(input, base);
    }

    /// Writes the function map; requests accepted from the next cycle on see it.
    fn set_map(&mut self, function: u64, table_set: u64) -> Result<(), Error> {
        let (valid, function_port, table_set_port) = (self.map_valid, self.map_function, self.map_table_set);
        let model = self.bench.model_mut();
        model.set(valid, 1);
        model.set(function_port, function);
        model.set(table_set_port, table_set);
        self.cycle()?;
        self.bench.model_mut().set(valid, 0);
        self.map[function as usize] = table_set;
        Ok(())
    }

    /// A request with some fields given, the others random.
    fn push(&mut self, values: &[(&str, u128)]) -> Result<u128, Error> {
        let tag = self.next_tag;
        self.next_tag = (tag + 1) & 0xffff;
        let shape = self.bench[self.requests].channel().shape().clone();
        let mut request = Beat::random_with(&shape, values, &mut self.random)?;
        request.set("tag", tag)?;
        self.asked.insert(tag, request.clone());
        self.sent.push_back(tag);
        self.bench[self.requests].push(request);
        Ok(tag)
    }

    fn push_random(&mut self) -> Result<u128, Error> {
        let hop = self.random.random_range(0..4);
        let count = if self.random.random_range(0..2) == 0 { 0 } else { self.random.random_range(0..1 << 32) };
        let table = self.random.random_range(0..8);
        self.push(&[("hop", hop), ("count", count), ("table", table)])
    }

    fn check_lookup(&mut self, lookup: &Beat) -> Result<(), Error> {
        let request = self.asked.remove(&lookup.get("tag")?).expect("the lookup was asked for");
        assert_eq!(request.get("is_walk")?, 0, "{request:?}");
        let table_set = self.map[request.get("function")? as usize];
        assert_eq!(lookup.get("table_set")?, table_set.into(), "{lookup:?}");
        assert_eq!((lookup.get("admission")?, lookup.get("epoch")?), self.admission(request.get("tag")?));
        for field in ["function", "table", "index"] {
            assert_eq!(lookup.get(field)?, request.get(field)?, "{field} of {lookup:?}, asked {request:?}");
        }
        let status = LOOKUP_STATUSES[self.random.random_range(0..LOOKUP_STATUSES.len())];
        let table = if status.names_a_table() { request.get("table")? } else { 0 };
        self.answer(&request, status, table)
    }

    /// Packed admission and epoch of a request: generation and HEM epoch, the rest zero.
    fn admission(&self, tag: u128) -> (u128, u128) {
        let (generation, hem_epoch) = self.admitted[&tag];
        (generation.into(), u128::from(hem_epoch) << ENTRY_EPOCH_BITS)
    }

    fn check_walk(&mut self, walk: &Beat) -> Result<(), Error> {
        let request = self.asked.remove(&walk.get("tag")?).expect("the walk was asked for");
        assert_eq!(request.get("is_walk")?, 1, "{request:?}");
        let table_set = self.map[request.get("function")? as usize];
        let count = request.get("count")?;
        let page_shift = 12 + self.page_shift_bases[table_set as usize] + request.get("buf_pg_sz")? as u64;
        let is_direct = request.get("hop")? == 0;
        let (admission, epoch) = self.admission(request.get("tag")?);
        for field in walk.shape().fields() {
            let name = field.name.as_str();
            let wanted = match name {
                "is_context" => 1,
                "table_set" => table_set.into(),
                "admission" => admission,
                "epoch" => epoch,
                "check_index" => u128::from(count != 0),
                "offset" if is_direct => request.get("index")? << page_shift,
                "tag" | "function" | "root" | "hop" | "ba_pg_sz" | "index" | "count" => request.get(name)?,
                // A leaf is answered as it is; the rest belongs to requests.
                _ => 0,
            };
            assert_eq!(walk.get(name)?, wanted, "{name} of {walk:?}, asked {request:?}");
        }
        let status = WALK_STATUSES[self.random.random_range(0..WALK_STATUSES.len())];
        let table = if status.names_a_table() { TABLE_CODE_MTR.into() } else { 0 };
        self.answer(&request, status, table)
    }

    /// Makes the answer, which is given some time later, and what the port is to make of it.
    fn answer(&mut self, request: &Beat, status: Status, table: u128) -> Result<(), Error> {
        let is_walk = request.get("is_walk")? == 1;
        let tag = request.get("tag")?;
        let index = request.get("index")?;
        let is_ok = status == Status::Ok;
        let hop = if is_ok { 0 } else { self.random.random_range(0..4) };
        let address = if is_ok { self.random.random::<u64>() } else { 0 };
        let common = [
            ("tag", tag),
            ("function", request.get("function")?),
            ("status", status.code().into()),
            ("hop", hop),
            ("address", address.into()),
        ];
        let mut response = Beat::with(self.bench[self.responses].channel().shape(), &common)?;
        response.set("table", table)?;
        self.expected_responses.insert(tag, response);
        if status.names_a_table() {
            let mut event = Beat::with(self.bench[self.events].channel().shape(), &common[..4])?;
            event.set("table", table)?;
            event.set("is_context", 1)?;
            event.set("index", if is_walk { 0 } else { index & 0xff_ffff })?;
            event.set("va", if is_walk { index } else { 0 })?;
            self.expected_events.insert(tag, event);
        }
        let driver = if is_walk { self.results } else { self.answers };
        let shape = self.bench[driver].channel().shape().clone();
        let mut answer = Beat::random_with(&shape, &common, &mut self.random)?;
        answer.set("index", index)?;
        // The port looks at the generation only.
        let (generation, _) = self.admitted[&tag];
        answer.set("admission", answer.get("admission")? & !1 | u128::from(generation))?;
        if is_walk {
            answer.set("is_context", 1)?;
        } else {
            answer.set("table", table)?;
        }
        let due = self.bench.cycles() + self.random.random_range(self.answer_cycles.clone());
        self.due.push((due, is_walk, answer));
        Ok(())
    }

    /// Gives at most one answer and one result of those that are due, in any order; also results for others.
    fn give_answers(&mut self) -> Result<(), Error> {
        for is_walk in [false, true] {
            let driver = if is_walk { self.results } else { self.answers };
            let now = self.bench.cycles();
            let is_due = |(due, walk, _): &(u64, bool, Beat)| *walk == is_walk && *due <= now;
            let due: Vec<_> = (0..self.due.len()).filter(|position| is_due(&self.due[*position])).collect();
            if !self.is_holding && self.bench[driver].pending() == 0 && !due.is_empty() {
                let (_, _, answer) = self.due.remove(due[self.random.random_range(0..due.len())]);
                self.given[usize::from(is_walk)].push_back(answer.get("tag")?);
                self.bench[driver].push(answer);
            } else if is_walk && self.random.random_range(0..2) == 0 {
                let shape = self.bench[driver].channel().shape().clone();
                let other = Beat::random_with(&shape, &[("is_context", 0)], &mut self.random)?;
                self.bench[driver].push(other);
            }
        }
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), Error> {
        self.give_answers()?;
        let is_paused = self.random.random_range(0..100) < self.pause_percent;
        let pause = self.pause;
        self.bench.model_mut().set(pause, is_paused.into());
        let (generation, hem_epoch) = (self.random.random_range(0..2), self.random.random_range(0..1024));
        let (generation_port, hem_epoch_port) = (self.generation, self.hem_epoch);
        self.bench.model_mut().set(generation_port, generation);
        self.bench.model_mut().set(hem_epoch_port, hem_epoch);
        self.bench.cycle()?;
        let accepted = self.bench[self.requests].accepted();
        let is_accepted = accepted > self.accepted_requests;
        self.accepted_requests = accepted;
        if is_accepted {
            let tag = self.sent.pop_front().expect("it was pushed");
            self.admitted.insert(tag, (generation, hem_epoch));
            assert_eq!(self.bench.model().get(self.accepted_generation), generation);
        }
        let was_paused = std::mem::replace(&mut self.was_paused, is_paused);
        assert!(!(is_accepted && was_paused), "a request was accepted during a pause");
        while let Some(lookup) = self.bench[self.lookups].pop() {
            self.check_lookup(&lookup.beat)?;
        }
        while let Some(walk) = self.bench[self.walks].pop() {
            self.check_walk(&walk.beat)?;
        }
        let mut finished = None;
        while let Some(response) = self.bench[self.responses].pop() {
            let tag = response.get("tag")?;
            let expected = self.expected_responses.remove(&tag).expect("the response was asked for");
            assert_eq!(response.beat, expected);
            let source = self.given.iter_mut().find(|tags| tags.front() == Some(&tag));
            source.expect("each source's answers keep their order").pop_front();
            self.answered += 1;
            let (generation, _) = self.admitted.remove(&tag).expect("it was admitted");
            finished = Some(generation);
        }
        while let Some(event) = self.bench[self.events].pop() {
            let expected = self.expected_events.remove(&event.get("tag")?).expect("one event per failure");
            assert_eq!(event.beat, expected);
            self.events_seen += 1;
        }
        let model = self.bench.model();
        assert_eq!(model.get(self.finished) == 1, finished.is_some(), "finished in cycle {}", self.bench.cycles());
        assert!(finished.is_none_or(|generation| model.get(self.finished_generation) == generation));
        assert_eq!(model.get(self.accepted) == 1, is_accepted, "accepted in cycle {}", self.bench.cycles());
        let in_flight = self.accepted_requests - self.answered;
        assert!(in_flight <= PLACES);
        // It falls at once and rises a cycle late.
        let is_empty = in_flight == 0;
        assert_eq!(model.get(self.empty) == 1, is_empty && self.was_empty, "empty in cycle {}", self.bench.cycles());
        self.was_empty = is_empty;
        Ok(())
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn is_busy(&self) -> bool {
        !(self.asked.is_empty() && self.expected_responses.is_empty() && self.expected_events.is_empty())
    }

    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while self.is_busy() {
            assert!(
                self.bench.cycles() < end,
                "after {limit_cycles} cycles {} requests are not passed on, {} responses and {} events are missing",
                self.asked.len(),
                self.expected_responses.len(),
                self.expected_events.len()
            );
            self.cycle()?;
        }
        self.run(20)
    }
}

#[test]
fn a_direct_page_is_displaced_by_its_index_for_every_page_size() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 1, NO_STALLS)?;
        for base in 0..4 {
            rig.set_base(0, base);
            for buf_pg_sz in 0..16 {
                for index in [0, 1, 0x8000_0001, 0xffff_ffff] {
                    for hop in [0, 1] {
                        rig.push(&[("is_walk", 1), ("hop", hop), ("buf_pg_sz", buf_pg_sz), ("index", index)])?;
                    }
                }
            }
            rig.finish(500)?;
        }
    }
    Ok(())
}

#[test]
fn the_index_is_checked_where_there_is_a_count() -> Result<(), Error> {
    let mut rig = Rig::new(DESIGNS[0], 2, NO_STALLS)?;
    for count in [0, 1, 0x100, 0x8000_0000, 0xffff_ffff] {
        rig.push(&[("is_walk", 1), ("count", count)])?;
    }
    rig.finish(100)
}

#[test]
fn the_function_selects_the_table_set() -> Result<(), Error> {
    let mut rig = Rig::new(DESIGNS[0], 3, NO_STALLS)?;
    rig.set_base(0, 1);
    rig.set_base(1, 3);
    let functions = rig.map.len() as u64;
    for round in 0..3 {
        for function in 0..functions {
            rig.push(&[("function", function.into()), ("hop", 0)])?;
        }
        rig.finish(2 * functions + 100)?;
        for function in 0..functions {
            let table_set = if round == 0 { function & 1 } else { rig.random.random_range(0..2) };
            rig.set_map(function, table_set)?;
        }
    }
    // A request right after the write sees it.
    for function in 0..functions {
        let table_set = 1 - rig.map[function as usize];
        rig.set_map(function, table_set)?;
        rig.push(&[("function", function.into()), ("hop", 0)])?;
        rig.cycle()?;
    }
    rig.finish(200)?;
    // After reset every function has table set 0.
    rig.reset()?;
    for function in 0..functions {
        rig.push(&[("function", function.into()), ("hop", 0)])?;
    }
    rig.finish(2 * functions + 100)
}

#[test]
fn random_requests_are_answered_once_with_their_events() -> Result<(), Error> {
    let often = Stall::percent(50);
    let long = Stall::percent(20).up_to(15);
    let cases = [
        (NO_STALLS, 0, 0..1),
        (
            Stalls { request: often, lookup: often, walk: often, answer: often, response: often, event: often },
            10,
            0..10,
        ),
        (Stalls { request: Stall::percent(10), lookup: long, walk: long, answer: long, ..NO_STALLS }, 50, 0..60),
        (Stalls { response: long, event: long, ..NO_STALLS }, 0, 0..3),
        (Stalls { response: Stall::percent(5), event: Stall::percent(80).up_to(8), ..NO_STALLS }, 0, 0..1),
    ];
    for design in DESIGNS {
        for (case, (stalls, pause_percent, answer_cycles)) in cases.iter().cloned().enumerate() {
            let mut rig = Rig::new(design, 10 + case as u64, stalls)?;
            rig.pause_percent = pause_percent;
            rig.answer_cycles = answer_cycles;
            for set in 0..rig.bases.len() {
                let base = rig.random.random_range(0..4);
                rig.set_base(set, base);
            }
            for function in 0..rig.map.len() as u64 {
                let table_set = rig.random.random_range(0..rig.config.table_sets.into());
                rig.set_map(function, table_set)?;
            }
            for _ in 0..1500 {
                rig.push_random()?;
            }
            rig.finish(60_000)?;
            assert!(rig.events_seen > 500, "{} events", rig.events_seen);
        }
    }
    Ok(())
}

#[test]
fn sixteen_requests_are_in_flight_at_most() -> Result<(), Error> {
    let mut rig = Rig::new(DESIGNS[0], 20, NO_STALLS)?;
    rig.is_holding = true;
    for _ in 0..40 {
        rig.push_random()?;
    }
    rig.run(100)?;
    assert_eq!(rig.accepted_requests - rig.answered, PLACES);
    rig.is_holding = false;
    rig.finish(500)?;
    // All of them can wait for the lookup and the walker, or at the response port.
    for is_walk in [0, 1] {
        let (lookups, walks, responses) = (rig.lookups, rig.walks, rig.responses);
        for _ in 0..40 {
            rig.push(&[("is_walk", is_walk), ("table", Table::Qpc.code().into())])?;
        }
        rig.bench[lookups].set_stall(BLOCKED);
        rig.bench[walks].set_stall(BLOCKED);
        rig.run(100)?;
        assert_eq!(rig.accepted_requests - rig.answered, PLACES);
        rig.bench[responses].set_stall(BLOCKED);
        rig.bench[lookups].set_stall(Stall::NEVER);
        rig.bench[walks].set_stall(Stall::NEVER);
        rig.run(100)?;
        assert_eq!(rig.accepted_requests - rig.answered, PLACES);
        rig.bench[responses].set_stall(Stall::NEVER);
        rig.finish(500)?;
    }
    Ok(())
}

#[test]
fn an_event_is_offered_until_it_is_taken() -> Result<(), Error> {
    let mut rig = Rig::new(DESIGNS[0], 21, NO_STALLS)?;
    let events = rig.events;
    rig.bench[events].set_stall(BLOCKED);
    for _ in 0..40 {
        rig.push_random()?;
    }
    rig.run(200)?;
    // The sink checks that the event stays as it is; no other failure is answered meanwhile.
    assert_eq!(rig.events_seen, 0);
    let answered_failures = |rig: &Rig| {
        let waiting = rig.expected_events.keys();
        waiting.filter(|tag| !rig.expected_responses.contains_key(tag)).count()
    };
    assert_eq!(answered_failures(&rig), 1);
    rig.bench[events].set_stall(Stall::NEVER);
    rig.finish(500)
}

#[test]
fn nothing_is_accepted_during_a_pause() -> Result<(), Error> {
    let mut rig = Rig::new(DESIGNS[0], 22, NO_STALLS)?;
    rig.pause_percent = 100;
    rig.cycle()?;
    let before = rig.accepted_requests;
    for _ in 0..20 {
        rig.push_random()?;
    }
    rig.run(100)?;
    assert_eq!(rig.accepted_requests, before);
    rig.pause_percent = 0;
    rig.run(8)?;
    assert!(rig.accepted_requests > before);
    // What is under way goes on.
    rig.pause_percent = 100;
    rig.run(100)?;
    assert_eq!(rig.accepted_requests, rig.answered);
    rig.pause_percent = 0;
    rig.finish(200)
}

#[test]
fn every_way_takes_the_time_it_should() -> Result<(), Error> {
    for design in DESIGNS {
        for is_walk in [0, 1] {
            let mut rig = Rig::new(design, 23, NO_STALLS)?;
            rig.push(&[("is_walk", is_walk), ("hop", 0)])?;
            let start = rig.bench.cycles();
            while !rig.asked.is_empty() {
                rig.cycle()?;
                assert!(rig.bench.cycles() - start < 20, "the request is not passed on");
            }
            // The cycle in which it was passed on is over.
            assert_eq!(rig.bench.cycles() - 1 - start, REQUEST_LATENCY_CYCLES, "{}, walk {is_walk}", design.name);
            let start = rig.bench.cycles();
            while !rig.expected_responses.is_empty() {
                rig.cycle()?;
                assert!(rig.bench.cycles() - start < 20, "no response");
            }
            assert_eq!(rig.bench.cycles() - 1 - start, ANSWER_LATENCY_CYCLES, "{}, walk {is_walk}", design.name);
            rig.finish(10)?;
        }
    }
    Ok(())
}

#[test]
fn one_request_per_cycle_is_sustained() -> Result<(), Error> {
    const REQUESTS: u64 = 500;
    for design in DESIGNS {
        for is_walk in [Some(0), Some(1), None] {
            let mut rig = Rig::new(design, 24, NO_STALLS)?;
            for number in 0..REQUESTS {
                rig.push(&[("is_walk", is_walk.unwrap_or(u128::from(number) & 1))])?;
            }
            let (start, before) = (rig.bench.cycles(), rig.answered);
            while rig.answered - before < REQUESTS {
                rig.cycle()?;
                let cycles = rig.bench.cycles() - start;
                assert!(cycles < REQUESTS + 20, "{}: {} of {REQUESTS} answered", design.name, rig.answered - before);
            }
            rig.finish(10)?;
        }
    }
    Ok(())
}

#[test]
fn reset_forgets_requests_under_way() -> Result<(), Error> {
    let stalls = Stalls { lookup: Stall::percent(30), walk: Stall::percent(30), ..NO_STALLS };
    for design in DESIGNS {
        let mut rig = Rig::new(design, 25, stalls)?;
        rig.answer_cycles = 0..20;
        for cycles in 0..30 {
            for _ in 0..30 {
                rig.push_random()?;
            }
            rig.run(cycles)?;
            rig.reset()?;
            // Whatever comes out now was not asked for.
            rig.run(20)?;
            rig.push_random()?;
            rig.finish(100)?;
        }
    }
    Ok(())
}
