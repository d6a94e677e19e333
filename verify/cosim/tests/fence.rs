//! The fence: what it lets requests see, what an invalidation waits for, and that nothing else waits for it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use keywalk_contract::Config;
use keywalk_contract::ports::Scope;
use keywalk_cosim::{Bench, Dut, Error, Handle, Input, Output, Signal, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Few buckets and two table sets; the default; without done tracking.
const DESIGNS: [&Dut; 3] = [&dut::FENCE, &dut::FENCE_DEFAULT, &dut::FENCE_LEAST];

/// Cycles from the acceptance of an invalidation to its completion where there is nothing to wait for.
const LATENCY_CYCLES: u64 = 16;
/// Invalidations in flight.
const PLACES: usize = 15;
/// Responses of a generation that are not reported done, from which on nothing is admitted.
const UNDONE_MAX: u64 = 1 << 13;
/// Cycles after which an ambiguous report may stop admission.
const STARVED_CYCLES: u64 = 1 << 12;
/// Every table set has as many MPT entries.
const MPT_MASK: u64 = 0x3f;
/// MPT indices that are used.
const INDICES: u64 = 12;

/// Chances, of 1000, in each cycle.
#[derive(Clone, Copy, Debug)]
struct Chances {
    /// A request is admitted.
    request: u32,
    /// A request in flight is answered.
    finish: u32,
    /// An answered request's DMA is reported done.
    done: u32,
    /// A report that belongs to nothing arrives.
    stray: u32,
    /// A context lookup is accepted, or is answered.
    context: u32,
    /// A long request begins to be cut, or its last piece is drained.
    long: u32,
    /// A BT0 slot or geometry is written.
    tables: u32,
    /// Something else is not idle.
    other: u32,
}

const QUIET: Chances =
    Chances { request: 0, finish: 1000, done: 1000, stray: 0, context: 0, long: 1000, tables: 0, other: 0 };
const BUSY: Chances =
    Chances { request: 700, finish: 750, done: 800, stray: 20, context: 100, long: 50, tables: 2, other: 100 };

/// PDs of requests, of which the last two have the same bucket.
const PDS: [u64; 4] = [0, 0x41, 7, 0xab_cd07];

/// A request, or a context lookup, as the engine around the fence knows it.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    sampled: u64,
    generation: u64,
    hem_epoch: u64,
    tag: u64,
    function: u64,
}

/// An MPT index in a table set, asked for by a PD.
type Place = (u64, u64, u64);
/// Epochs of both buckets and of a table set.
type Pair = (u64, u64);
/// An MPT index in a table set, and the epochs under which any PD finds its entry: that of its bucket, of all PDs, and of the
/// table set.
type Entry = ((u64, u64), (u64, u64, u64));

/// An invalidation in flight.
struct Pending {
    tag: u128,
    accepted: Option<u64>,
    places: Vec<Place>,
    /// What was looked up under these epochs may be old.
    stale: Vec<(Place, Pair)>,
    stale_entries: Vec<Entry>,
    stale_hem: BTreeSet<u64>,
}

/// What is due in a cycle.
fn take_due<T>(queue: &mut VecDeque<(u64, T)>, cycle: u64) -> Option<T> {
    let is_due = queue.front().is_some_and(|(due, _)| *due == cycle);
    if is_due { queue.pop_front().map(|(_, what)| what) } else { None }
}

struct Ports {
    epoch_index: Input,
    epoch_table_set: Input,
    epoch_pd_bucket: Input,
    epoch_is_replay: Input,
    /// Valid, function and table set of a write to the map of functions.
    map_write: [Input; 3],
    accepted: [Input; 2],
    context_accepted: [Input; 2],
    context_finished: [Input; 2],
    long_opened: [Input; 2],
    long_finished: Input,
    finished: [Input; 4],
    done: [Input; 3],
    tables_written: Input,
    others_idle: Input,
    caches_ready: Input,
    late_epoch: Output,
    generation: Output,
    hem_epoch: Output,
    any_pd_epoch: Output,
    set_epochs: Vec<Output>,
    now: Output,
    ready: Output,
    pause: Output,
    flush: Output,
    pointer_flush: Output,
    idle: Output,
    in_flight: Output,
    stray_done: Output,
    completed: Output,
}

struct Rig {
    bench: Bench,
    config: Config,
    random: ChaCha8Rng,
    chances: Chances,
    ports: Ports,
    invalidate: Handle<StreamDriver>,
    invalidated: Handle<StreamSink>,
    /// Cycles from the sampling to `request_accepted`, and from the last beat to `response_finished`.
    accept_delay: u64,
    finish_delay: u64,
    /// Tags are drawn below this.
    tags: u64,
    /// Nothing is reported done but what the test asks for.
    holds_done: bool,
    next_number: u64,
    /// The request that was sampled in the cycle before: its buckets' epochs arrive now.
    sampled: Option<(Request, Place, u64, u64)>,
    /// In the cycle before, the epochs of a replay were asked for.
    asked_for_replay: bool,
    accepts: VecDeque<(u64, u64)>,
    finishes: VecDeque<(u64, Request)>,
    in_flight: Vec<Request>,
    /// Answered, with the cycle of the last beat.
    undone: Vec<(u64, Request)>,
    contexts: Vec<Request>,
    context_accepts: VecDeque<(u64, u64)>,
    /// The long requests that are cut still, in order.
    long: VecDeque<Request>,
    used: HashMap<Place, BTreeSet<Pair>>,
    forbidden: HashMap<Place, BTreeSet<Pair>>,
    used_entries: BTreeSet<Entry>,
    forbidden_entries: BTreeSet<Entry>,
    used_hem: BTreeSet<u64>,
    forbidden_hem: BTreeSet<u64>,
    pending: VecDeque<Pending>,
    accepted: u64,
    caches_busy_cycles: u64,
    flushes: u64,
    pointer_flushes: u64,
    strays_sent: u64,
    strays_seen: u64,
    paused_cycles: u64,
    admitted: u64,
    completions: u64,
    flips: u64,
    last_generation: u64,
    was_paused: bool,
    /// Cycles of acceptance and first offer of the completion of every invalidation.
    times: Vec<(u64, u64)>,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64, chances: Chances, stalls: [Stall; 2]) -> Result<Self, Error> {
        let config = design.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let invalidate = bench.driver("invalidate", stalls[0])?;
        let invalidated = bench.sink("invalidated", stalls[1])?;
        let input = |name: &str| bench.model().input(name);
        let output = |name: &str| bench.model().output(name);
        let with_generation = |name: &str| Ok::<_, Error>([input(name)?, input(&format!("{name}_generation"))?]);
        let ports = Ports {
            epoch_index: input("epoch_index")?,
            epoch_table_set: input("epoch_table_set")?,
            epoch_pd_bucket: input("epoch_pd_bucket")?,
            epoch_is_replay: input("epoch_is_replay")?,
            map_write: [
                input("function_map_write_valid")?,
                input("function_map_write_function")?,
                input("function_map_write_table_set")?,
            ],
            accepted: with_generation("request_accepted")?,
            context_accepted: with_generation("context_accepted")?,
            context_finished: with_generation("context_finished")?,
            long_opened: with_generation("long_opened")?,
            long_finished: input("long_finished")?,
            finished: [
                input("response_finished")?,
                input("finished_generation")?,
                input("finished_tag")?,
                input("finished_function")?,
            ],
            done: [input("done_valid")?, input("done_tag")?, input("done_function")?],
            tables_written: input("tables_written")?,
            others_idle: input("others_idle")?,
            caches_ready: input("caches_ready")?,
            late_epoch: output("late_epoch")?,
            generation: output("generation")?,
            hem_epoch: output("hem_epoch")?,
            any_pd_epoch: output("any_pd_epoch")?,
            set_epochs: (0..config.table_sets)
                .map(|set| output(&format!("set_epoch_{set}")))
                .collect::<Result<_, _>>()?,
            now: output("now")?,
            ready: output("ready")?,
            pause: output("pause")?,
            flush: output("flush")?,
            pointer_flush: output("pointer_flush")?,
            idle: output("idle")?,
            in_flight: output("in_flight")?,
            stray_done: output("stray_done")?,
            completed: output("completed")?,
        };
        let masks =
            (0..config.table_sets).map(|set| input(&format!("mpt_mask_{set}"))).collect::<Result<Vec<_>, _>>()?;
        for mask in masks {
            bench.model_mut().set(mask, MPT_MASK);
        }
        let mut rig = Self {
            random: bench.random(),
            accept_delay: 1 + seed % 3,
            finish_delay: 1 + seed % 2,
            tags: 1 << config.tag_bits.min(6),
            config,
            chances,
            ports,
            invalidate,
            invalidated,
            holds_done: false,
            next_number: 0,
            sampled: None,
            asked_for_replay: false,
            accepts: VecDeque::new(),
            finishes: VecDeque::new(),
            in_flight: Vec::new(),
            undone: Vec::new(),
            contexts: Vec::new(),
            context_accepts: VecDeque::new(),
            long: VecDeque::new(),
            used: HashMap::new(),
            forbidden: HashMap::new(),
            used_entries: BTreeSet::new(),
            forbidden_entries: BTreeSet::new(),
            used_hem: BTreeSet::new(),
            forbidden_hem: BTreeSet::new(),
            pending: VecDeque::new(),
            accepted: 0,
            caches_busy_cycles: 0,
            flushes: 0,
            pointer_flushes: 0,
            strays_sent: 0,
            strays_seen: 0,
            paused_cycles: 0,
            admitted: 0,
            completions: 0,
            flips: 0,
            last_generation: 0,
            was_paused: false,
            times: Vec::new(),
            bench,
        };
        rig.bench[rig.invalidate].record_acceptances();
        rig.reset()?;
        Ok(rig)
    }

    /// Resets, waits until the block is ready and maps half of the functions to the last table set.
    fn reset(&mut self) -> Result<(), Error> {
        self.sampled = None;
        self.asked_for_replay = false;
        self.accepts.clear();
        self.finishes.clear();
        self.in_flight.clear();
        self.undone.clear();
        self.contexts.clear();
        self.context_accepts.clear();
        self.long.clear();
        self.used.clear();
        self.forbidden.clear();
        self.used_entries.clear();
        self.forbidden_entries.clear();
        self.used_hem.clear();
        self.forbidden_hem.clear();
        self.pending.clear();
        self.caches_busy_cycles = 0;
        (self.last_generation, self.was_paused) = (0, false);
        self.drive_nothing();
        self.bench.reset(2)?;
        let invalidate = self.invalidate;
        while self.bench[invalidate].pop_acceptance().is_some() {}
        self.accepted = self.bench[invalidate].accepted();
        let ready = self.ports.ready;
        self.bench.run_until("ready", 5_000, |bench| bench.model().get(ready) == 1)?;
        let map = self.ports.map_write;
        for function in 0..1 << self.config.function_bits {
            let values = [1, function, self.set_of(function)];
            for (port, value) in map.iter().zip(values) {
                self.bench.model_mut().set(*port, value);
            }
            self.bench.cycle()?;
        }
        self.bench.model_mut().set(map[0], 0);
        Ok(())
    }

    fn drive_nothing(&mut self) {
        let ports = &self.ports;
        let quiet = [
            ports.accepted[0],
            ports.context_accepted[0],
            ports.context_finished[0],
            ports.long_opened[0],
            ports.long_finished,
            ports.finished[0],
            ports.done[0],
            ports.tables_written,
        ];
        for input in quiet {
            self.bench.model_mut().set(input, 0);
        }
        let (others_idle, caches_ready) = (self.ports.others_idle, self.ports.caches_ready);
        self.bench.model_mut().set(others_idle, 1);
        self.bench.model_mut().set(caches_ready, 1);
    }

    fn set_of(&self, function: u64) -> u64 {
        function % u64::from(self.config.table_sets)
    }

    fn functions(&self) -> u64 {
        1 << self.config.function_bits.min(3)
    }

    fn places(&self) -> Vec<Place> {
        let of_set = |set| (0..INDICES).flat_map(move |index| PDS.map(|pd| (set, index, pd)));
        (0..u64::from(self.config.table_sets)).flat_map(of_set).collect()
    }

    fn push(&mut self, scope: u64, function: u64, index: u64) -> Result<(), Error> {
        let pd = PDS[self.random.random_range(0..PDS.len())];
        self.push_with_pd(scope, function, index, pd)
    }

    fn push_with_pd(&mut self, scope: u64, function: u64, index: u64, pd: u64) -> Result<(), Error> {
        let tag = u128::from(self.random.random::<u16>());
        let set = self.set_of(function);
        let is_hit = |place: &Place| match scope {
            0 | 1 => (place.0, place.1) == (set, index & MPT_MASK),
            2 => (place.0, place.2) == (set, pd),
            3 => place.0 == set,
            _ => true,
        };
        let places = self.places().into_iter().filter(is_hit).collect();
        self.pending.push_back(Pending {
            tag,
            accepted: None,
            places,
            stale: Vec::new(),
            stale_entries: Vec::new(),
            stale_hem: BTreeSet::new(),
        });
        let key = index << 8 | self.random.random_range(0..256);
        let fields = [
            ("tag", tag),
            ("function", function.into()),
            ("scope", scope.into()),
            ("key", key.into()),
            ("pd", pd.into()),
        ];
        self.bench[self.invalidate].push_fields(&fields)
    }

    fn push_random(&mut self) -> Result<(), Error> {
        let scope = self.random.random_range(0..8);
        let function = self.random.random_range(0..self.functions());
        // The key's high bits are masked off.
        let index = self.random.random_range(0..INDICES) | self.random.random_range(0..4) << 6;
        self.push(scope, function, index)
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.random.random_range(0..1000) < per_mille
    }

    fn get(&self, output: Output) -> u64 {
        self.bench.model().get(output)
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    fn is_tracking(&self) -> bool {
        self.config.done_tracking
    }

    /// Whether the fence may take a report of this for a report of something outstanding.
    fn may_be_outstanding(&self, tag: u64, function: u64) -> bool {
        // Any other tag may share the bucket in a small configuration.
        let shares =
            |request: &Request| self.config.done_buckets < 1024 || (request.tag, request.function) == (tag, function);
        self.in_flight.iter().any(shares)
            || self.finishes.iter().any(|(_, request)| shares(request))
            || self.undone.iter().any(|(_, request)| shares(request))
    }

    /// The request that was sampled in the cycle before is complete: its bucket's epoch has come.
    fn see(&mut self) {
        if std::mem::take(&mut self.asked_for_replay) {
            assert_eq!(self.get(self.ports.late_epoch), 0, "the epochs of a replay");
        }
        let Some((request, place, set_epoch, any_pd_epoch)) = self.sampled.take() else { return };
        let late_epoch = self.get(self.ports.late_epoch);
        let pair = (late_epoch, set_epoch);
        let entry = ((place.0, place.1), (late_epoch & 0xff, any_pd_epoch, set_epoch));
        assert!(!self.forbidden_entries.contains(&entry), "{request:?} finds an old entry: {entry:?}");
        self.used_entries.insert(entry);
        let is_forbidden = self.forbidden.get(&place).is_some_and(|pairs| pairs.contains(&pair));
        assert!(!is_forbidden, "{request:?} of {place:?} sees the epochs {pair:?} of an old translation");
        let hem_epoch = request.hem_epoch;
        assert!(!self.forbidden_hem.contains(&hem_epoch), "{request:?} sees the HEM epoch of old pointers");
        self.used.entry(place).or_default().insert(pair);
        self.used_hem.insert(hem_epoch);
    }

    /// Admits a request: its epochs are sampled in this cycle.
    fn admit(&mut self, cycle: u64) {
        let function = self.random.random_range(0..self.functions());
        let set = self.set_of(function);
        let index = self.random.random_range(0..INDICES);
        let request = Request {
            number: self.next_number,
            sampled: cycle,
            generation: self.get(self.ports.generation),
            hem_epoch: self.get(self.ports.hem_epoch),
            tag: self.random.random_range(0..self.tags),
            function,
        };
        self.next_number += 1;
        self.admitted += 1;
        let set_epoch = self.get(self.ports.set_epochs[set as usize]);
        self.accepts.push_back((cycle + self.accept_delay, request.generation));
        self.in_flight.push(request);
        let pd = PDS[self.random.random_range(0..PDS.len())];
        self.sampled = Some((request, (set, index, pd), set_epoch, self.get(self.ports.any_pd_epoch)));
        let ports = &self.ports;
        for (port, value) in [
            (ports.epoch_index, index),
            (ports.epoch_table_set, set),
            (ports.epoch_pd_bucket, ((pd as u8 & 0x7f) ^ ((set as u8).reverse_bits() >> 1)).into()),
            (ports.epoch_is_replay, 0),
        ] {
            self.bench.model_mut().set(port, value);
        }
    }

    fn pulse(&mut self, ports: [Input; 2], generation: Option<u64>) {
        let random = self.random.random_range(0..2);
        self.bench.model_mut().set(ports[0], generation.is_some().into());
        self.bench.model_mut().set(ports[1], generation.unwrap_or(random));
    }

    /// A report of this cycle.
    fn report(&mut self, cycle: u64) -> Option<(u64, u64)> {
        let ready: Vec<_> = (0..self.undone.len()).filter(|index| self.undone[*index].0 < cycle).collect();
        if !ready.is_empty() && !self.holds_done && self.chance(self.chances.done) {
            let (_, request) = self.undone.swap_remove(ready[self.random.random_range(0..ready.len())]);
            return Some((request.tag, request.function));
        }
        let (tag, function) = (self.random.random_range(0..self.tags), self.random.random_range(0..self.functions()));
        if self.chance(self.chances.stray) && !self.may_be_outstanding(tag, function) {
            self.strays_sent += u64::from(self.is_tracking());
            return Some((tag, function));
        }
        None
    }

    /// One cycle of the fence and of the engine around it.
    fn cycle(&mut self) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let chances = self.chances;
        self.see();
        // Those who admit have a register for it.
        let pause = self.get(self.ports.pause) == 1;
        let is_paused = std::mem::replace(&mut self.was_paused, pause);
        self.paused_cycles += u64::from(is_paused);
        self.strays_seen += self.get(self.ports.stray_done);
        let generation = self.get(self.ports.generation);
        self.flips += u64::from(generation != self.last_generation);
        self.last_generation = generation;
        let is_other_idle = !self.chance(chances.other);
        if self.get(self.ports.flush) == 1 {
            assert!(is_paused && self.in_flight.is_empty() && self.undone.is_empty() && self.contexts.is_empty());
            assert!(self.accepts.is_empty() && self.finishes.is_empty() && self.long.is_empty());
            self.used.clear();
            self.forbidden.clear();
            self.used_entries.clear();
            self.forbidden_entries.clear();
            for pending in &mut self.pending {
                pending.stale.clear();
                pending.stale_entries.clear();
            }
            self.flushes += 1;
            self.caches_busy_cycles = self.random.random_range(1..40);
        }
        let are_caches_ready = self.caches_busy_cycles == 0;
        self.caches_busy_cycles = self.caches_busy_cycles.saturating_sub(1);
        if self.get(self.ports.pointer_flush) == 1 {
            // What is in flight may still fill in pointers.
            let alive: BTreeSet<_> = self.in_flight.iter().chain(&self.contexts).map(|r| r.hem_epoch).collect();
            let current = self.get(self.ports.hem_epoch);
            self.used_hem.retain(|epoch| alive.contains(epoch) || *epoch == current);
            self.forbidden_hem.retain(|epoch| alive.contains(epoch));
            for pending in &mut self.pending {
                pending.stale_hem.retain(|epoch| alive.contains(epoch));
            }
            self.pointer_flushes += 1;
        }

        // Requests.
        let noise = self.random.random::<u32>() & 0xff_ffff;
        let is_replay = self.random.random::<bool>();
        let ports = [self.ports.epoch_index, self.ports.epoch_pd_bucket, self.ports.epoch_is_replay];
        for (port, value) in ports.into_iter().zip([noise, noise & 0x7f, is_replay.into()]) {
            self.bench.model_mut().set(port, value.into());
        }
        if !is_paused && self.chance(chances.request) {
            self.admit(cycle);
        } else {
            self.asked_for_replay = is_replay;
        }
        let accept = take_due(&mut self.accepts, cycle);
        self.pulse(self.ports.accepted, accept);
        let answerable = self.in_flight.iter().filter(|request| request.sampled + self.accept_delay < cycle).count();
        if answerable > 0 && self.chance(chances.finish) {
            let index = self.pick(answerable);
            let request = self.in_flight.remove(index);
            self.finishes.push_back((cycle + self.finish_delay, request));
            if self.is_tracking() {
                self.undone.push((cycle, request));
            }
        }
        let finish = take_due(&mut self.finishes, cycle);
        let fields = finish.map_or_else(
            || [0, 1, self.random.random_range(0..self.tags), 0],
            |request| [1, request.generation, request.tag, request.function],
        );
        for (port, value) in self.ports.finished.into_iter().zip(fields) {
            self.bench.model_mut().set(port, value);
        }
        let report = self.report(cycle);
        let (tag, function) = report.unwrap_or((self.random.random_range(0..self.tags), 0));
        for (port, value) in self.ports.done.into_iter().zip([report.is_some().into(), tag, function]) {
            self.bench.model_mut().set(port, value);
        }

        // Context lookups: at most 16.
        if !is_paused && self.contexts.len() < 16 && self.chance(chances.context) {
            let request = Request {
                number: self.next_number,
                sampled: cycle,
                generation,
                hem_epoch: self.get(self.ports.hem_epoch),
                tag: 0,
                function: 0,
            };
            self.next_number += 1;
            assert!(!self.forbidden_hem.contains(&request.hem_epoch), "{request:?} sees the HEM epoch of old pointers");
            self.used_hem.insert(request.hem_epoch);
            self.contexts.push(request);
            self.context_accepts.push_back((cycle + 1, generation));
        }
        let accept = take_due(&mut self.context_accepts, cycle);
        self.pulse(self.ports.context_accepted, accept);
        let answerable = self.contexts.iter().filter(|request| request.sampled + 1 < cycle).count();
        let finishes = answerable > 0 && (self.chance(chances.context) || chances.context == 0);
        let finished = finishes.then(|| {
            let index = self.pick(answerable);
            self.contexts.remove(index).generation
        });
        self.pulse(self.ports.context_finished, finished);

        // The long requests: two at most.
        let mut opened = None;
        let mut closes = false;
        if let Some(request) = self.long.front() {
            let is_answered = !self.in_flight.iter().any(|other| other.number == request.number);
            closes = is_answered && self.chance(chances.long);
        }
        if self.long.len() < 2 && chances.request > 0 && self.chance(chances.long) {
            let may_open = |request: &&Request| {
                request.sampled + 5 < cycle && self.long.iter().all(|other| other.number != request.number)
            };
            let waiting: Vec<_> = self.in_flight.iter().filter(may_open).copied().collect();
            if !waiting.is_empty() {
                let request = waiting[self.random.random_range(0..waiting.len())];
                opened = Some(request.generation);
                self.long.push_back(request);
            }
        }
        if closes {
            self.long.pop_front();
        }
        self.pulse(self.ports.long_opened, opened);
        let is_written = self.chance(chances.tables);
        // What is not valid is anything.
        for port in &self.ports.map_write[1..] {
            self.bench.model_mut().set(*port, self.random.random::<u64>() >> (64 - Signal::from(*port).width()));
        }
        let levels = [
            (self.ports.long_finished, closes),
            (self.ports.tables_written, is_written),
            (self.ports.others_idle, is_other_idle),
            (self.ports.caches_ready, are_caches_ready),
        ];
        for (port, level) in levels {
            self.bench.model_mut().set(port, level.into());
        }

        self.bench.cycle()?;
        if self.bench[self.invalidate].accepted() > self.accepted {
            self.accepted += 1;
            self.accept(cycle);
        }
        let mut completes = 0;
        while let Some(received) = self.bench[self.invalidated].pop() {
            self.complete(received.get("tag")?, received.valid_cycle);
            completes += 1;
        }
        assert_eq!(self.get(self.ports.completed), completes, "completed after cycle {cycle}");
        Ok(())
    }

    /// An invalidation was accepted: what was looked up so far may be old.
    fn accept(&mut self, cycle: u64) {
        let pending = self.pending.iter_mut().find(|pending| pending.accepted.is_none()).expect("it was sent");
        pending.accepted = Some(cycle);
        for place in &pending.places {
            let pairs = self.used.get(place).into_iter().flatten();
            pending.stale.extend(pairs.map(|pair| (*place, *pair)));
        }
        let places: BTreeSet<_> = pending.places.iter().map(|place| (place.0, place.1)).collect();
        pending.stale_entries.extend(self.used_entries.iter().filter(|entry| places.contains(&entry.0)));
        pending.stale_hem.clone_from(&self.used_hem);
        assert!(self.pending.iter().filter(|pending| pending.accepted.is_some()).count() <= PLACES);
    }

    /// A completion was offered first in that cycle and has now been taken.
    fn complete(&mut self, tag: u128, offered: u64) {
        let pending = self.pending.pop_front().expect("there is an invalidation");
        assert_eq!(tag, pending.tag, "completions come in order");
        let accepted = pending.accepted.expect("it was accepted");
        let is_old = |request: &&Request| request.sampled <= accepted;
        let unfinished = self.in_flight.iter().chain(&self.contexts).find(is_old);
        assert!(unfinished.is_none(), "accepted in cycle {accepted}, complete in {offered} before {unfinished:?}");
        let undone = self.undone.iter().map(|(_, request)| request).find(is_old);
        assert!(undone.is_none(), "accepted in cycle {accepted}, complete in {offered}, not done: {undone:?}");
        let long = self.long.iter().find(is_old);
        assert!(long.is_none(), "accepted in cycle {accepted}, complete in {offered}, still cut: {long:?}");
        for (place, pair) in pending.stale {
            self.forbidden.entry(place).or_default().insert(pair);
        }
        self.forbidden_entries.extend(pending.stale_entries);
        self.forbidden_hem.extend(&pending.stale_hem);
        self.times.push((accepted, offered));
        self.completions += 1;
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn run_until_complete(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while !self.pending.is_empty() {
            assert!(self.bench.cycles() < end, "{} invalidations after {limit_cycles} cycles", self.pending.len());
            self.cycle()?;
        }
        Ok(())
    }

    /// Nothing is in flight, and the block knows it.
    fn run_until_quiet(&mut self) -> Result<(), Error> {
        self.chances = QUIET;
        self.holds_done = false;
        self.run(100 + self.in_flight.len() as u64 + self.undone.len() as u64)?;
        assert_eq!(self.get(self.ports.idle), 1);
        assert_eq!(self.get(self.ports.in_flight), 0);
        assert_eq!(self.strays_seen, self.strays_sent);
        Ok(())
    }
}

const NO_STALLS: [Stall; 2] = [Stall::NEVER; 2];

#[test]
fn an_invalidation_of_an_idle_engine_takes_its_time_and_no_more() -> Result<(), Error> {
    for design in DESIGNS {
        for scope in 0..8 {
            let mut rig = Rig::new(design, 1, QUIET, NO_STALLS)?;
            rig.run(10)?;
            rig.push(scope, 0, 3)?;
            rig.run_until_complete(100)?;
            let (accepted, offered) = rig.times[0];
            assert_eq!(offered - accepted, LATENCY_CYCLES, "{} scope {scope}", design.name);
            assert_eq!((rig.paused_cycles, rig.flips), (0, 1));
        }
    }
    Ok(())
}

#[test]
fn many_invalidations_are_drained_together() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 2, Chances { request: 500, finish: 0, ..QUIET }, NO_STALLS)?;
        rig.run(50)?;
        for _ in 0..PLACES + 5 {
            rig.push_random()?;
        }
        rig.run(500)?;
        assert_eq!(rig.completions, 0);
        assert_eq!(rig.pending.iter().filter(|pending| pending.accepted.is_some()).count(), PLACES);
        assert_eq!(rig.flips, 1);
        rig.chances.finish = 1000;
        rig.chances.request = 0;
        rig.run_until_complete(2_000)?;
        // The first alone, those that gathered behind it, and those for which places came free.
        assert!((2..=6).contains(&rig.flips), "{} flips", rig.flips);
        assert_eq!(rig.paused_cycles, 0);
        rig.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn each_kind_of_old_work_is_waited_for_and_new_work_is_not() -> Result<(), Error> {
    let cases = [
        ("requests", Chances { request: 500, finish: 0, ..QUIET }),
        ("context lookups", Chances { context: 300, ..QUIET }),
        ("a long request", Chances { request: 500, finish: 100, long: 30, ..QUIET }),
    ];
    for design in DESIGNS {
        for (name, chances) in cases {
            let mut rig = Rig::new(design, 3, chances, NO_STALLS)?;
            rig.run(40)?;
            while name == "a long request" && rig.long.is_empty() {
                rig.cycle()?;
            }
            rig.push_random()?;
            if name == "a long request" {
                // Its response ends, its pieces go on.
                rig.chances = Chances { request: 500, long: 0, ..QUIET };
            } else if name == "context lookups" {
                rig.contexts.retain(|request| request.generation == rig.last_generation);
                rig.chances.context = 1;
            }
            rig.run(300)?;
            let is_waiting =
                rig.contexts.iter().any(|context| context.sampled < rig.times.first().map_or(u64::MAX, |t| t.0));
            if name != "context lookups" || is_waiting {
                assert_eq!(rig.completions, 0, "{}: {name}", design.name);
            }
            assert_eq!(rig.paused_cycles, 0, "{}: {name}", design.name);
            // New work goes on in any number.
            rig.chances = Chances { request: 500, ..QUIET };
            rig.run_until_complete(5_000)?;
            rig.run_until_quiet()?;
        }
    }
    Ok(())
}

#[test]
fn it_waits_for_dma_that_is_not_reported_done() -> Result<(), Error> {
    for design in &DESIGNS[..2] {
        let mut rig = Rig::new(design, 4, Chances { request: 800, ..QUIET }, NO_STALLS)?;
        rig.holds_done = true;
        rig.run(50)?;
        rig.chances = QUIET;
        rig.run(100)?;
        assert!(rig.in_flight.is_empty() && rig.undone.len() > 20);
        rig.push_random()?;
        rig.run(200)?;
        assert_eq!((rig.completions, rig.flips), (0, 1));
        // All but one are not enough.
        rig.holds_done = false;
        while rig.undone.len() > 1 {
            rig.cycle()?;
        }
        rig.holds_done = true;
        rig.run(200)?;
        assert_eq!(rig.completions, 0);
        rig.holds_done = false;
        rig.run_until_complete(20)?;
        rig.run_until_quiet()?;
    }
    Ok(())
}

#[test]
fn a_report_may_come_in_the_cycle_after_the_last_beat() -> Result<(), Error> {
    // One request and one report per cycle, all of one bucket, for both delays of the pulse.
    for seed in 0..6 {
        for tags in [1, 4, 64] {
            let mut rig = Rig::new(&dut::FENCE, seed, Chances { request: 1000, ..QUIET }, NO_STALLS)?;
            rig.tags = tags;
            for _ in 0..40 {
                rig.push_random()?;
                rig.run(20)?;
            }
            rig.chances.request = 0;
            rig.run_until_complete(2_000)?;
            rig.run_until_quiet()?;
            assert_eq!(rig.strays_seen, 0);
        }
    }
    Ok(())
}

#[test]
fn a_report_that_belongs_to_nothing_is_ignored_and_counted() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::FENCE_DEFAULT, 6, Chances { stray: 1000, ..QUIET }, NO_STALLS)?;
    rig.run(200)?;
    rig.chances = QUIET;
    rig.run(10)?;
    assert_eq!((rig.strays_seen, rig.strays_sent), (200, 200));
    // As many responses as there were reports: none of them is done.
    rig.chances = Chances { request: 1000, stray: 500, ..QUIET };
    rig.holds_done = true;
    rig.run(100)?;
    rig.push_random()?;
    rig.run(300)?;
    assert_eq!(rig.completions, 0);
    rig.chances.request = 0;
    rig.holds_done = false;
    rig.run_until_complete(1_000)?;
    rig.run_until_quiet()
}

#[test]
fn any_traffic_is_fenced() -> Result<(), Error> {
    let cases = [
        BUSY,
        Chances { request: 1000, finish: 1000, done: 1000, ..BUSY },
        Chances { request: 50, finish: 60, done: 70, stray: 300, long: 20, ..BUSY },
        Chances { request: 300, finish: 310, done: 320, tables: 30, context: 500, ..BUSY },
    ];
    for design in DESIGNS {
        for (case, chances) in cases.into_iter().enumerate() {
            let stalls = [Stall::percent(20).up_to(50), Stall::percent(50).up_to(5)];
            let mut rig = Rig::new(design, 10 + case as u64, chances, stalls)?;
            for _ in 0..150 {
                rig.push_random()?;
                let cycles = rig.random.random_range(0..60);
                rig.run(cycles)?;
            }
            rig.run_until_complete(2_000_000)?;
            assert_eq!(rig.completions, 150);
            rig.run_until_quiet()?;
        }
    }
    Ok(())
}

#[test]
fn epochs_wrap_safely() -> Result<(), Error> {
    let chances = Chances { request: 500, finish: 600, done: 700, ..QUIET };
    for design in DESIGNS {
        // Of one bucket 256 make one of the set; of a set 64 make a flush; the HEM epoch takes 1024.
        for (scope, count) in
            [(Scope::Region, 600), (Scope::ProtectionDomain, 600), (Scope::Function, 200), (Scope::All, 200)]
        {
            let mut rig = Rig::new(design, 20, chances, NO_STALLS)?;
            for _ in 0..count {
                rig.push_with_pd(scope as u64, 0, 5, 7)?;
                rig.run_until_complete(2_000)?;
            }
            let expected = if matches!(scope, Scope::Region | Scope::ProtectionDomain) { 0 } else { 3 };
            assert_eq!(rig.flushes, expected, "{} {scope:?}", design.name);
            assert_eq!(rig.paused_cycles > 0, expected > 0);
            rig.run_until_quiet()?;
        }
    }
    let mut rig = Rig::new(&dut::FENCE, 21, chances, NO_STALLS)?;
    for number in 0..2_200 {
        rig.push(0, number % 2, number % 3)?;
        rig.run_until_complete(2_000)?;
    }
    assert_eq!(rig.pointer_flushes, 4, "two at each wrap of the HEM epoch");
    rig.run_until_quiet()
}

/// What is not named by an invalidation stays cached, and only an epoch that wraps makes it flush.
#[test]
fn an_invalidation_changes_no_more_epochs_than_it_says() -> Result<(), Error> {
    for design in DESIGNS {
        for scope in [Scope::Region, Scope::Range, Scope::ProtectionDomain, Scope::Function, Scope::All] {
            let mut rig = Rig::new(design, 23, QUIET, NO_STALLS)?;
            let set_epochs = |rig: &Rig| rig.ports.set_epochs.iter().map(|port| rig.get(*port)).collect::<Vec<_>>();
            let any_pd_epoch = rig.ports.any_pd_epoch;
            let is_of_bucket = matches!(scope, Scope::Region | Scope::Range | Scope::ProtectionDomain);
            let of_function = rig.set_of(0) as usize;
            let mut expected = set_epochs(&rig);
            let mut expected_any_pd = rig.get(any_pd_epoch);
            for number in 1..=if is_of_bucket { 520 } else { 63 } {
                rig.push_with_pd(scope as u64, 0, 5, 7)?;
                rig.run_until_complete(200)?;
                for (set, epoch) in expected.iter_mut().enumerate() {
                    let is_named = scope == Scope::All || (scope == Scope::Function && set == of_function);
                    let wraps = is_of_bucket && number % 256 == 0;
                    *epoch += u64::from(is_named || wraps);
                }
                expected_any_pd = (expected_any_pd + u64::from(scope == Scope::ProtectionDomain)) & 0xff;
                assert_eq!(set_epochs(&rig), expected, "{} {scope:?}, number {number}", design.name);
                assert_eq!(rig.get(any_pd_epoch), expected_any_pd, "{} {scope:?}, number {number}", design.name);
            }
            // An epoch that is about to wrap matters to those only that change it.
            rig.push_with_pd(Scope::Region as u64, 0, 6, 7)?;
            rig.run_until_complete(200)?;
            assert_eq!((rig.flushes, rig.paused_cycles), (0, 0), "{} {scope:?}", design.name);
        }
    }
    Ok(())
}

#[test]
fn an_invalidation_may_come_at_any_moment_of_a_flush() -> Result<(), Error> {
    let chances = Chances { request: 500, finish: 600, done: 700, ..QUIET };
    for design in DESIGNS {
        for offset in 0..60 {
            let mut rig = Rig::new(design, 100 + offset, chances, NO_STALLS)?;
            for _ in 0..63 {
                rig.push(Scope::Function as u64, 0, 5)?;
                rig.run_until_complete(2_000)?;
            }
            assert_eq!(rig.flushes, 0);
            rig.push(Scope::Function as u64, 0, 5)?;
            rig.run(offset)?;
            for index in 0..INDICES {
                rig.push(Scope::Region as u64, 0, index)?;
                rig.run(offset % 3)?;
            }
            rig.run_until_complete(4_000)?;
            assert_eq!(rig.flushes, 1, "{} offset {offset}", design.name);
            rig.run(100)?;
            rig.run_until_quiet()?;
        }
    }
    Ok(())
}

#[test]
fn old_pointers_do_not_come_back_after_the_hem_epoch_has_wrapped() -> Result<(), Error> {
    // Lookups that are in flight while the HEM epoch goes round by writes of BT0 slots.
    let mut rig = Rig::new(&dut::FENCE, 22, Chances { request: 200, finish: 1, ..QUIET }, NO_STALLS)?;
    rig.run(30)?;
    rig.chances = Chances { tables: 1000, request: 10, finish: 0, ..QUIET };
    rig.run(1_030)?;
    rig.chances = Chances { finish: 100, request: 100, ..QUIET };
    for _ in 0..2_100 {
        rig.push(0, 0, 1)?;
        rig.run_until_complete(20_000)?;
    }
    assert!(rig.pointer_flushes > 1_030);
    rig.run_until_quiet()
}

#[test]
fn admission_pauses_where_too_many_responses_are_undone() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::FENCE, 30, Chances { request: 1000, ..QUIET }, NO_STALLS)?;
    rig.holds_done = true;
    rig.run(UNDONE_MAX - 100)?;
    assert_eq!(rig.paused_cycles, 0);
    rig.run(200)?;
    assert!(rig.paused_cycles > 50);
    assert!(rig.admitted < UNDONE_MAX + 10, "{} admitted", rig.admitted);
    rig.holds_done = false;
    rig.run(20)?;
    let paused_cycles = rig.paused_cycles;
    rig.run(100)?;
    assert_eq!(rig.paused_cycles, paused_cycles, "admission goes on");
    rig.push_random()?;
    rig.chances.request = 0;
    rig.run_until_complete(2 * UNDONE_MAX)?;
    rig.run_until_quiet()
}

#[test]
fn ambiguous_reports_do_not_hold_up_a_completion_for_ever() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::FENCE, 31, Chances { request: 1000, ..QUIET }, NO_STALLS)?;
    // All share a bucket: after the flip every report counts for a new response.
    rig.tags = 1;
    let start = rig.bench.cycles();
    rig.holds_done = true;
    rig.run(100)?;
    rig.holds_done = false;
    rig.push(4, 0, 0)?;
    rig.run(STARVED_CYCLES)?;
    assert_eq!((rig.completions, rig.paused_cycles), (0, 0));
    rig.run_until_complete(STARVED_CYCLES + 1_000)?;
    assert!(rig.paused_cycles > 0 && rig.bench.cycles() - start < 2 * STARVED_CYCLES + 1_000);
    let paused_cycles = rig.paused_cycles;
    rig.run(1_000)?;
    assert!(rig.paused_cycles - paused_cycles < 5, "admission goes on");
    rig.run_until_quiet()
}

#[test]
fn now_counts_cycles() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::FENCE, 40, QUIET, NO_STALLS)?;
    let start = rig.get(rig.ports.now);
    let begin = rig.bench.cycles();
    for _ in 0..70_000 {
        rig.bench.cycle()?;
        let expected = start + rig.bench.cycles() - begin;
        assert_eq!(rig.get(rig.ports.now), expected & 0xffff);
    }
    Ok(())
}

#[test]
fn reset_forgets_everything_under_way() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 50, BUSY, NO_STALLS)?;
        for cycles in 0..60 {
            for _ in 0..cycles % 4 {
                rig.push_random()?;
            }
            rig.run(cycles)?;
            rig.reset()?;
            // Reports of responses from before the reset belong to nothing.
            (rig.strays_sent, rig.strays_seen) = (0, 0);
            rig.chances = Chances { stray: 500, ..QUIET };
            rig.run(30)?;
            rig.chances = BUSY;
            rig.push_random()?;
            rig.run_until_complete(10_000)?;
        }
        rig.run_until_quiet()?;
    }
    Ok(())
}
