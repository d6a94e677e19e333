//! Admission and key decoding against credits, a function map and the index rule in plain integers.

#[path = "common/outputs.rs"]
mod outputs;

use std::collections::VecDeque;

use keywalk_contract::{Config, key, op};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Stall, StreamDriver, StreamSink, bits, dut};
use outputs::Outputs;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 3] = [&dut::KEY_DECODER, &dut::KEY_DECODER_DEFAULT, &dut::KEY_DECODER_LEAST];
/// Outputs that belong to no channel, and the handshake of the requests.
const OUTPUTS: [&str; 11] = [
    "request_ready",
    "ready",
    "empty",
    "early_valid",
    "early_index",
    "early_table_set",
    "early_pd_bucket",
    "early_is_replay",
    "early_hem_epoch",
    "accepted",
    "accepted_generation",
];

/// Pulses that give places back.
#[derive(Clone, Copy, Debug, Default)]
struct Pulses {
    split_freed: bool,
    entry_found: bool,
}

/// Places that are given to new requests.
struct Credit {
    places: u32,
    free: u32,
    /// A place is offered: two were free in the cycle before.
    is_available: bool,
    /// All were free in the cycle before, and none was taken.
    is_full: bool,
}

impl Credit {
    fn new(places: u32) -> Self {
        Self { places, free: places, is_available: true, is_full: true }
    }

    fn taken(&self) -> u32 {
        self.places - self.free
    }

    fn cycle(&mut self, takes: bool, gives: bool) {
        self.is_available = self.free >= 2;
        self.is_full = self.free == self.places && !takes;
        self.free = self.free + u32::from(gives) - u32::from(takes);
        assert!(self.free <= self.places, "the test gives back what was not taken");
    }
}

/// Bucket of a PD: its lowest bits, in exclusive or with the bits of the table set in reverse.
fn pd_bucket(pd: u32, table_set: u32) -> u64 {
    ((pd as u8 & 0x7f) ^ ((table_set as u8).reverse_bits() >> 1)).into()
}

/// A request in the pipe.
struct Entering {
    /// Cycle in which it comes out.
    due: u64,
    beat: Beat,
    is_replay: bool,
    /// Comes back from the checks.
    is_again: bool,
    /// Table set of the function at admission; what comes back brings its own.
    table_set: u32,
    /// What is to come out, from the cycle before on.
    fields: Vec<(String, u128)>,
    /// Its epoch, where it has one already.
    epoch: u64,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    requests: Handle<StreamDriver>,
    replays: Handle<StreamDriver>,
    agains: Handle<StreamDriver>,
    lookups: Handle<StreamSink>,
    outputs: Handle<Outputs>,
    pause: Input,
    gap_wanted: Input,
    split_freed: Input,
    entry_found: Input,
    map_write: [Input; 3],
    masks: Vec<Input>,
    set_epochs: Vec<Input>,
    generation: Input,
    now: Input,
    hem_epoch: Input,
    late_epoch: Input,
    any_pd_epoch: Input,
    /// log2 of the number of MPT entries of each table set.
    num_mpts_log2: Vec<u32>,
    /// Table set of each function.
    table_sets: Vec<u32>,
    /// A write of the function map in the coming cycle.
    write: Option<(u32, u32)>,
    is_paused: bool,
    is_gap_wanted: bool,
    /// One of them was set in the cycle before.
    was_stopped: bool,
    split: Credit,
    hem: Credit,
    replay: Option<Beat>,
    /// Comes from the checks in the coming cycle.
    again: Option<Beat>,
    /// Those that wait, each with the cycle from which on it can be taken.
    again_queue: VecDeque<(u64, Beat)>,
    /// The request that waits.
    request: Option<Beat>,
    pipe: VecDeque<Entering>,
    requests_admitted: u32,
    replays_admitted: u32,
    agains_admitted: u32,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let config = design.config().expect("the decoder is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let input = |bench: &Bench, name: &str| bench.model().input(name);
        let per_set = |bench: &Bench, name: &str| -> Result<Vec<_>, Error> {
            (0..config.table_sets).map(|set| input(bench, &format!("{name}_{set}"))).collect()
        };
        let mut rig = Self {
            requests: bench.driver("request", Stall::NEVER)?,
            replays: bench.driver("decoded", Stall::NEVER)?,
            agains: bench.driver("again", Stall::NEVER)?,
            lookups: bench.sink("lookup", Stall::NEVER)?,
            outputs: Outputs::watch(&mut bench, |name| OUTPUTS.contains(&name))?,
            pause: input(&bench, "pause")?,
            gap_wanted: input(&bench, "gap_wanted")?,
            split_freed: input(&bench, "split_place_freed")?,
            entry_found: input(&bench, "entry_found")?,
            map_write: [
                input(&bench, "function_map_write_valid")?,
                input(&bench, "function_map_write_function")?,
                input(&bench, "function_map_write_table_set")?,
            ],
            masks: per_set(&bench, "mpt_mask")?,
            set_epochs: per_set(&bench, "set_epoch")?,
            generation: input(&bench, "generation")?,
            now: input(&bench, "now")?,
            hem_epoch: input(&bench, "hem_epoch")?,
            late_epoch: input(&bench, "late_epoch")?,
            any_pd_epoch: input(&bench, "any_pd_epoch")?,
            num_mpts_log2: vec![24; config.table_sets as usize],
            table_sets: vec![0; 1 << config.function_bits],
            write: None,
            is_paused: false,
            is_gap_wanted: false,
            was_stopped: false,
            split: Credit::new(config.admitted_max()),
            hem: Credit::new(config.hem_contexts),
            replay: None,
            again: None,
            again_queue: VecDeque::new(),
            request: None,
            pipe: VecDeque::new(),
            random: bench.random(),
            bench,
            config,
            requests_admitted: 0,
            replays_admitted: 0,
            agains_admitted: 0,
        };
        rig.set_num_mpts(&[24; 8]);
        rig.reset()?;
        Ok(rig)
    }

    /// Cycles from admission to the lookup.
    fn latency_cycles(&self) -> u64 {
        if self.config.table_sets == 1 { 1 } else { 2 }
    }

    /// New requests that may be in the pipe and behind it.
    fn places(&self) -> u32 {
        self.split.places.min(self.hem.places)
    }

    fn functions(&self) -> u32 {
        1 << self.config.function_bits
    }

    fn set_num_mpts(&mut self, log2: &[u32]) {
        for ((mask, log2), held) in self.masks.iter().zip(log2).zip(&mut self.num_mpts_log2) {
            self.bench.model_mut().set(*mask, bits::max(*log2));
            *held = *log2;
        }
    }

    /// Resets, and checks that nothing is admitted until the function map is scrubbed.
    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        self.table_sets.fill(0);
        self.split = Credit::new(self.split.places);
        self.hem = Credit::new(self.hem.places);
        (self.request, self.replay, self.again, self.write) = (None, None, None, None);
        self.again_queue.clear();
        (self.is_paused, self.is_gap_wanted, self.was_stopped) = (false, false, false);
        self.pipe.clear();
        for input in [self.pause, self.gap_wanted, self.split_freed, self.entry_found] {
            self.bench.model_mut().set(input, 0);
        }
        self.offer_request()?;
        let functions = self.functions();
        for cycle in 0..=functions + 1 {
            // Writes are lost while the map is scrubbed.
            let model = self.bench.model_mut();
            model.set(self.map_write[0], (cycle < functions).into());
            model.set(self.map_write[1], (self.random.next_u32() % functions).into());
            model.set(self.map_write[2], bits::max(self.config.table_set_bits()));
            self.bench.cycle()?;
            let outputs = &self.bench[self.outputs];
            assert_eq!(outputs.get("ready"), 0, "ready while the function map is scrubbed");
            assert_eq!(outputs.get("request_ready"), 0, "a request is taken while the function map is scrubbed");
            assert_eq!((outputs.get("empty"), outputs.get("accepted")), (1, 0));
            assert!(self.bench[self.lookups].is_empty(), "a lookup survived the reset");
        }
        self.cycle(Pulses::default())?;
        assert!(self.request.is_none(), "a request is taken when the function map is scrubbed");
        self.settle()
    }

    fn random_beat(&mut self, driver: Handle<StreamDriver>) -> Result<Beat, Error> {
        let shape = self.bench[driver].channel().shape().clone();
        Beat::random_with(&shape, &[], &mut self.random)
    }

    fn offer(&mut self, beat: Beat) {
        assert!(self.request.is_none(), "one request waits at a time");
        self.bench[self.requests].push(beat.clone());
        self.request = Some(beat);
    }

    fn offer_request(&mut self) -> Result<(), Error> {
        let beat = self.random_beat(self.requests)?;
        self.offer(beat);
        Ok(())
    }

    /// A request of that function.
    fn offer_request_of(&mut self, function: u32) -> Result<(), Error> {
        let mut beat = self.random_beat(self.requests)?;
        beat.set("function", function.into())?;
        self.offer(beat);
        Ok(())
    }

    /// A replay in the coming cycle: it does not wait.
    fn offer_replay(&mut self) -> Result<(), Error> {
        assert!(self.replay.is_none(), "one replay comes per cycle");
        let mut beat = self.random_beat(self.replays)?;
        beat.set("is_replay", 1)?;
        let table_set = self.random.random_range(0..self.config.table_sets);
        beat.set("table_set", table_set.into())?;
        // Its PD has the bucket that it had.
        let bucket = u128::from(pd_bucket(beat.get("pd")? as u32, table_set));
        beat.set("epoch", beat.get("epoch")? & !(0x7f << 22) | bucket << 22)?;
        self.bench[self.replays].push(beat.clone());
        self.replay = Some(beat);
        Ok(())
    }

    /// A request from the checks in the coming cycle. It holds a HEM context: there must be one that does not wait yet.
    fn offer_again(&mut self) -> Result<(), Error> {
        assert!(self.again.is_none() && (self.again_queue.len() as u32) < self.hem.taken());
        let mut beat = self.random_beat(self.agains)?;
        beat.set("table_set", self.random.random_range(0..self.config.table_sets).into())?;
        self.bench[self.agains].push(beat.clone());
        self.again = Some(beat);
        Ok(())
    }

    /// Drives an input with a random value, and gives it.
    fn randomise(&mut self, input: Input) -> u64 {
        let width = keywalk_cosim::Signal::from(input).width();
        let value = self.random.next_u64() & bits::max(width);
        self.bench.model_mut().set(input, value);
        value
    }

    /// One cycle with the pulses; checks every output.
    fn cycle(&mut self, pulses: Pulses) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        // What a request is given changes in every cycle.
        let [generation, now, hem_epoch, any_pd_epoch, mut late_epoch] =
            [self.generation, self.now, self.hem_epoch, self.any_pd_epoch, self.late_epoch]
                .map(|input| self.randomise(input));
        // The memory gives zero for a replay.
        if self.pipe.front().is_some_and(|entering| entering.due == cycle && entering.is_replay) {
            late_epoch = 0;
            self.bench.model_mut().set(self.late_epoch, 0);
        }
        let set_epochs: Vec<_> = self.set_epochs.clone().into_iter().map(|input| self.randomise(input)).collect();
        let any_function = u64::from(self.random.next_u32()) & bits::max(self.config.function_bits);
        let any_table_set = u64::from(self.random.next_u32()) & bits::max(self.config.table_set_bits());
        let (is_write, function, table_set) = match self.write {
            Some((function, table_set)) => (1, function.into(), table_set.into()),
            None => (0, any_function, any_table_set),
        };
        let model = self.bench.model_mut();
        for (input, value) in self.map_write.iter().zip([is_write, function, table_set]) {
            model.set(*input, value);
        }
        model.set(self.pause, self.is_paused.into());
        model.set(self.gap_wanted, self.is_gap_wanted.into());
        model.set(self.split_freed, pulses.split_freed.into());
        model.set(self.entry_found, pulses.entry_found.into());
        self.bench.cycle()?;

        let state = (self.split.free, self.hem.free, self.is_paused);
        let has_places = self.split.is_available && self.hem.is_available;
        let is_stopped = std::mem::replace(&mut self.was_stopped, self.is_paused || self.is_gap_wanted);
        // Two cycles through the queue.
        let is_again = self.again_queue.front().is_some_and(|(from, _)| *from <= cycle);
        let is_admissible = has_places && !is_stopped && self.replay.is_none() && !is_again;
        let outputs = &self.bench[self.outputs];
        assert_eq!(outputs.get("ready"), 1);
        assert_eq!(outputs.get("request_ready") == 1, is_admissible, "request_ready in cycle {cycle}, {state:?}");
        let is_empty = self.split.is_full && self.hem.is_full;
        assert_eq!(outputs.get("empty") == 1, is_empty, "empty in cycle {cycle}, {state:?}");
        let admits = is_admissible && self.request.is_some();
        let is_admitted = self.request.is_some() && self.bench[self.requests].pending() == 0;
        assert_eq!(is_admitted, admits, "request in cycle {cycle}, {state:?}");
        assert_eq!(self.bench[self.replays].pending(), 0, "a replay waits in cycle {cycle}");

        let due = cycle + self.latency_cycles();
        let entering = |beat, [is_replay, is_again]: [bool; 2], table_set| {
            let fields = Vec::new();
            Entering { due, beat, is_replay, is_again, table_set, fields, epoch: 0 }
        };
        if let Some(beat) = self.replay.take() {
            let table_set = beat.get("table_set")? as u32;
            self.pipe.push_back(entering(beat, [true, false], table_set));
            self.replays_admitted += 1;
        } else if is_again && let Some((_, beat)) = self.again_queue.pop_front() {
            let table_set = beat.get("table_set")? as u32;
            self.pipe.push_back(entering(beat, [false, true], table_set));
            self.agains_admitted += 1;
        }
        if let Some(beat) = self.again.take() {
            self.again_queue.push_back((cycle + 2, beat));
        }
        if admits {
            let beat = self.request.take().expect("it was offered");
            let table_set = self.table_sets[beat.get("function")? as usize];
            self.pipe.push_back(entering(beat, [false, false], table_set));
            self.requests_admitted += 1;
        }
        // A write is seen from the next cycle on.
        if let Some((function, table_set)) = self.write.take()
            && self.config.table_sets > 1
        {
            self.table_sets[function as usize] = table_set;
        }
        self.split.cycle(admits, pulses.split_freed);
        self.hem.cycle(admits, pulses.entry_found);

        // The cycle before it comes out: the index is known, and the request is given what it keeps.
        let outputs = &self.bench[self.outputs];
        if let Some(entering) = self.pipe.iter_mut().find(|entering| entering.due == cycle + 1) {
            let beat = &entering.beat;
            for field in beat.shape().fields() {
                entering.fields.push((field.name.clone(), beat.get(&field.name)?));
            }
            let table_set = entering.table_set;
            let bucket = pd_bucket(beat.get("pd")? as u32, table_set);
            let mut index = beat.get("key")? as u32;
            if entering.is_replay {
                index = beat.get("index")? as u32;
                entering.epoch = beat.get("epoch")? as u64;
            } else {
                let log2 = self.num_mpts_log2[table_set as usize];
                index = index.rotate_right(key::ROTATE_BITS) & bits::max(log2) as u32;
                let set_epoch = set_epochs[table_set as usize];
                entering.epoch = hem_epoch << 37 | any_pd_epoch << 29 | bucket << 22 | set_epoch << 16;
                let admission = now << 1 | generation;
                let mut given =
                    vec![("table_set", u128::from(table_set)), ("index", index.into()), ("is_replay", 0), ("hop", 0)];
                if !entering.is_again {
                    given.extend([("status", 0), ("is_rebased", 0), ("is_parent", 0), ("is_beyond", 0)]);
                    given.push(("admission", admission.into()));
                }
                entering.fields.extend(given.into_iter().map(|(name, value)| (name.into(), value)));
            }
            assert_eq!(outputs.get("early_index"), index.into(), "early_index in cycle {cycle}");
            assert_eq!(outputs.get("early_table_set"), table_set.into(), "early_table_set in cycle {cycle}");
            assert_eq!(outputs.get("early_pd_bucket"), bucket.into(), "early_pd_bucket in cycle {cycle}");
            assert_eq!(outputs.get("early_is_replay") == 1, entering.is_replay, "early_is_replay in cycle {cycle}");
            assert_eq!(
                outputs.get("early_hem_epoch"),
                (entering.epoch >> 37).into(),
                "early_hem_epoch in cycle {cycle}"
            );
        }
        let is_early = self.pipe.iter().any(|entering| entering.due == cycle + 1);
        assert_eq!(self.bench[self.outputs].get("early_valid") == 1, is_early, "early_valid in cycle {cycle}");
        let lookup = self.bench[self.lookups].pop();
        let is_due = self.pipe.front().is_some_and(|entering| entering.due == cycle);
        let entering = if is_due { self.pipe.pop_front() } else { None };
        assert_eq!(lookup.is_some(), is_due, "a lookup in cycle {cycle}");
        let outputs = &self.bench[self.outputs];
        let is_accepted = entering.as_ref().is_some_and(|entering| !entering.is_replay && !entering.is_again);
        assert_eq!(outputs.get("accepted") == 1, is_accepted, "accepted in cycle {cycle}");
        let (Some(lookup), Some(Entering { beat, is_replay, fields, epoch, .. })) = (lookup, entering) else {
            return Ok(());
        };
        for (name, value) in fields.iter().filter(|(name, _)| !["epoch", "order"].contains(&name.as_str())) {
            assert_eq!(lookup.get(name)?, *value, "{name}");
        }
        // These designs answer in any order, so that there is no number.
        assert_eq!(lookup.get("order")?, 0);
        // The epochs of the buckets come one cycle after the others.
        let epoch = if is_replay { epoch } else { epoch | late_epoch };
        assert_eq!(lookup.get("epoch")?, epoch.into());
        let length_minus_one = (beat.get("length")? as u32).wrapping_sub(1);
        assert_eq!(lookup.get("length_minus_one")?, length_minus_one.into());
        if is_accepted {
            assert_eq!(outputs.get("accepted_generation"), lookup.get("admission")? & 1);
        }
        Ok(())
    }

    /// Gives a place of each kind back where one is taken.
    fn free(&mut self) -> Result<(), Error> {
        self.cycle(Pulses { split_freed: self.split.taken() > 0, entry_found: self.hem.taken() > 0 })
    }

    fn idle(&mut self, cycles: u32) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle(Pulses::default()))
    }

    /// Lets everything out that waits or is under way, until the block says that it is empty.
    fn settle(&mut self) -> Result<(), Error> {
        let limit = self.bench.cycles() + 10 + u64::from(self.split.taken().max(self.hem.taken()));
        let is_busy = |rig: &Self| {
            let is_empty = rig.split.is_full && rig.hem.is_full;
            rig.request.is_some() || !is_empty || !rig.pipe.is_empty() || !rig.again_queue.is_empty()
        };
        while is_busy(self) {
            assert!(self.bench.cycles() < limit, "something does not get out");
            self.free()?;
        }
        Ok(())
    }
}

#[test]
fn the_index_is_the_rotated_key_below_num_mpts() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 1)?;
        let functions = rig.functions();
        for function in 0..functions {
            rig.write = Some((function, function % rig.config.table_sets));
            rig.idle(1)?;
        }
        for log2 in 0..=24 {
            rig.set_num_mpts(&[log2, 24 - log2]);
            let any = rig.random.next_u32();
            for key in [0, 0xff, 0x100, 0xffff_ff00, u32::MAX, key::of_index(1 << log2 >> 1), any] {
                for function in [0, 1, functions - 2, functions - 1] {
                    let mut beat = rig.random_beat(rig.requests)?;
                    beat.set("key", key.into())?;
                    beat.set("function", function.into())?;
                    beat.set("operation", u128::from(key & ((1 << op::OPERATION_BITS) - 1)))?;
                    rig.offer(beat);
                    while rig.request.is_some() {
                        rig.free()?;
                    }
                }
            }
            rig.settle()?;
        }
        Ok(())
    })
}

#[test]
fn a_replay_keeps_what_it_brings() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 2)?;
        rig.set_num_mpts(&[0; 8]);
        for function in 0..rig.functions() {
            rig.write = Some((function, rig.config.table_sets - 1));
            rig.idle(1)?;
        }
        // One per cycle, though no place is free.
        for _ in 0..2 * rig.places() {
            if rig.request.is_none() {
                rig.offer_request()?;
            }
            rig.idle(1)?;
        }
        let before = (rig.requests_admitted, rig.replays_admitted);
        for _ in 0..200 {
            rig.offer_replay()?;
            rig.idle(1)?;
        }
        assert_eq!((rig.requests_admitted, rig.replays_admitted - before.1), (before.0, 200));
        rig.settle()
    })
}

#[test]
fn the_function_map_is_written_for_the_next_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::KEY_DECODER, 3)?;
    rig.set_num_mpts(&[20, 12]);
    for _ in 0..3 {
        for function in 0..rig.functions() {
            let table_set = rig.random.random_range(0..rig.config.table_sets);
            // One request in the cycle of the write, and one in the next.
            for write in [Some((function, table_set)), None] {
                rig.offer_request_of(function)?;
                rig.write = write;
                rig.free()?;
                assert!(rig.request.is_none(), "there are places");
            }
        }
    }
    // All others were left as they are.
    for function in 0..rig.functions() {
        rig.offer_request_of(function)?;
        rig.free()?;
    }
    rig.settle()
}

#[test]
fn a_change_of_num_mpts_acts_on_requests_in_the_pipe() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 9)?;
        // `cycle` expects the mask of the cycle before the lookup.
        for _ in 0..300 {
            let log2: Vec<_> = (0..rig.config.table_sets).map(|_| rig.random.random_range(0..=24)).collect();
            rig.set_num_mpts(&log2);
            if rig.request.is_none() {
                rig.offer_request()?;
            }
            rig.free()?;
        }
        rig.settle()
    })
}

#[test]
fn admission_stops_when_places_are_used_up() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4)?;
        let (split_only, hem_only) =
            (Pulses { split_freed: true, entry_found: false }, Pulses { split_freed: false, entry_found: true });
        // `cycle` checks that each is admitted when it must be; here, how many. The first is admitted in the cycle in
        // which it is offered, and one in each cycle that follows.
        let places = rig.places();
        let before = rig.requests_admitted;
        for cycle in 1..=places + 20 {
            if rig.request.is_none() {
                rig.offer_request()?;
            }
            rig.idle(1)?;
            assert_eq!(rig.requests_admitted - before, cycle.min(places), "{}", design.name);
        }
        // Those of the split alone, or of the HEM lookup alone, are not enough.
        let split_free = rig.split.free;
        for _ in 0..2 {
            rig.cycle(split_only)?;
        }
        rig.idle(10)?;
        assert_eq!(rig.requests_admitted - before, places);
        // A single place that stays free is not offered.
        rig.cycle(hem_only)?;
        rig.idle(10)?;
        assert_eq!(rig.requests_admitted - before, places);
        // The second one is, two cycles after it was given back, and so is the first.
        rig.cycle(hem_only)?;
        rig.idle(1)?;
        assert_eq!(rig.requests_admitted - before, places);
        for admitted in 1..=2 {
            rig.idle(1)?;
            assert_eq!(rig.requests_admitted - before, places + admitted);
            rig.offer_request()?;
        }
        rig.idle(10)?;
        assert_eq!((rig.requests_admitted - before, rig.split.free), (places + 2, split_free));
        // The same with the split's places short: requests have found their entries and wait for the split.
        while rig.split.free > 0 {
            let found = Pulses { entry_found: rig.hem.taken() > 0, ..Pulses::default() };
            rig.cycle(found)?;
            if rig.request.is_none() {
                rig.offer_request()?;
            }
            assert!(rig.bench.cycles() < 10_000, "the split's places are not used up");
        }
        while rig.hem.taken() > 0 {
            rig.cycle(hem_only)?;
        }
        rig.idle(10)?;
        let before = rig.requests_admitted;
        rig.cycle(split_only)?;
        rig.idle(10)?;
        assert_eq!(rig.requests_admitted, before);
        rig.cycle(split_only)?;
        rig.idle(1)?;
        assert_eq!(rig.requests_admitted, before);
        rig.idle(1)?;
        assert_eq!(rig.requests_admitted, before + 1);
        rig.settle()
    })
}

#[test]
fn pause_stops_new_requests_from_the_next_cycle_on_and_no_replay() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 5)?;
        let (requests, replays) = (rig.requests_admitted, rig.replays_admitted);
        (rig.is_paused, rig.is_gap_wanted) = [(true, false), (false, true)][rig.random.random_range(0..2)];
        rig.idle(1)?;
        rig.offer_request()?;
        for _ in 0..20 {
            rig.free()?;
            rig.offer_replay()?;
            rig.free()?;
        }
        assert_eq!((rig.requests_admitted - requests, rig.replays_admitted - replays), (0, 20));
        (rig.is_paused, rig.is_gap_wanted) = (false, false);
        rig.idle(1)?;
        assert_eq!(rig.requests_admitted - requests, 0);
        rig.idle(1)?;
        assert_eq!(rig.requests_admitted - requests, 1);
        rig.settle()
    })
}

#[test]
fn random_traffic() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 6)?;
        let (mut split_short, mut hem_short, mut emptied) = (0, 0, 0);
        for phase in 0..16 {
            rig.settle()?;
            let log2: Vec<_> = (0..rig.config.table_sets).map(|_| rig.random.random_range(0..=24)).collect();
            rig.set_num_mpts(&log2);
            let [offer_percent, replay_percent] = [[100, 0], [50, 50], [90, 40], [20, 10]][phase % 4];
            let again_percent = [0, 30, 90][phase % 3];
            for _ in 0..2000 {
                let random = &mut rig.random;
                let mut chance = |percent: u32| random.random_range(0..100) < percent;
                // Places come back as fast, slower, or faster than they are taken, of one kind or the other.
                let [split_percent, hem_percent] = [[50, 90], [90, 90], [10, 90], [90, 10]][phase / 4 % 4];
                let pulses = Pulses {
                    split_freed: rig.split.taken() > 0 && chance(split_percent),
                    // As long as some request is not waiting to be looked up once more.
                    entry_found: rig.hem.taken() > rig.again_queue.len() as u32 && chance(hem_percent),
                };
                rig.is_paused = if rig.is_paused { chance(80) } else { chance(2) };
                rig.is_gap_wanted = chance(6);
                let offers_request = rig.request.is_none() && chance(offer_percent);
                let offers_replay = chance(replay_percent);
                let chance_of_again = chance(again_percent);
                if chance(10) {
                    let function = random.random_range(0..rig.table_sets.len() as u32);
                    rig.write = Some((function, random.random_range(0..rig.config.table_sets)));
                }
                if offers_request {
                    rig.offer_request()?;
                }
                if offers_replay {
                    rig.offer_replay()?;
                }
                // One that gives its context back does not come from the checks any more.
                let held = rig.hem.taken() - u32::from(pulses.entry_found);
                if chance_of_again && (rig.again_queue.len() as u32) < held {
                    rig.offer_again()?;
                }
                rig.cycle(pulses)?;
                split_short += u32::from(!rig.split.is_available);
                hem_short += u32::from(!rig.hem.is_available);
                emptied += u32::from(rig.split.is_full && rig.hem.is_full);
            }
            (rig.is_paused, rig.is_gap_wanted) = (false, false);
        }
        println!(
            "{}: {} requests, {} replays, {} from the checks; cycles without a place: {split_short} and {hem_short}; {emptied} empty",
            design.name, rig.requests_admitted, rig.replays_admitted, rig.agains_admitted
        );
        assert!(rig.agains_admitted > 1000);
        assert!(rig.requests_admitted > 5000 && rig.replays_admitted > 3000);
        assert!(split_short > 1000 && hem_short > 1000 && emptied > 100);
        rig.settle()
    })
}

#[test]
fn one_request_per_cycle_is_admitted_while_places_come_back() -> Result<(), Error> {
    // With two HEM contexts there is never more than one request in the pipe.
    [&dut::KEY_DECODER, &dut::KEY_DECODER_DEFAULT].into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 7)?;
        let before = rig.requests_admitted;
        // Each request gives its places back as late as it may.
        let away_cycles = rig.places() - 2;
        for cycle in 0..300 {
            rig.offer_request()?;
            let is_back = cycle >= away_cycles;
            rig.cycle(Pulses { split_freed: is_back, entry_found: is_back })?;
        }
        assert_eq!(rig.requests_admitted - before, 300);
        // Requests and replays alternate without a gap.
        let replays = rig.replays_admitted;
        for cycle in 0..300 {
            if rig.request.is_none() {
                rig.offer_request()?;
            }
            if cycle % 2 == 0 {
                rig.offer_replay()?;
            }
            rig.free()?;
        }
        assert_eq!(rig.requests_admitted - before, 450);
        assert_eq!(rig.replays_admitted - replays, 150);
        rig.settle()
    })
}

#[test]
fn reset_clears_pipe_places_and_function_map() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 8)?;
        rig.set_num_mpts(&[24, 3]);
        for cycles in 0..5 {
            for function in 0..rig.functions() {
                rig.write = Some((function, rig.config.table_sets - 1));
                rig.idle(1)?;
            }
            for cycle in 0..10 + cycles {
                if rig.request.is_none() {
                    rig.offer_request()?;
                }
                if cycle % 3 == 0 {
                    rig.offer_replay()?;
                }
                rig.idle(1)?;
            }
            rig.reset()?;
            for function in 0..rig.functions() {
                while rig.request.is_some() {
                    rig.free()?;
                }
                rig.offer_request_of(function)?;
                rig.free()?;
            }
            rig.settle()?;
        }
        Ok(())
    })
}
