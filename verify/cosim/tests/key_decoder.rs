//! Admission and key decoding against a count of places and the index rule in plain integers.

use std::collections::VecDeque;

use keywalk_contract::{Config, key, op};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, bits, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 2] = [&dut::KEY_DECODER, &dut::KEY_DECODER_DEFAULT];
/// Requests that may be between admission and the page split.
const SPLIT_PLACES: u32 = 16;
/// New requests that may be between admission and the HEM lookup.
const MISS_PLACES: u32 = 16;

/// Pulses that give places back.
#[derive(Clone, Copy, Debug, Default)]
struct Pulses {
    split_freed: bool,
    split_unused: bool,
    miss_freed: bool,
    miss_unused: bool,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    requests: Handle<StreamDriver>,
    replays: Handle<StreamDriver>,
    lookups: Handle<StreamSink>,
    /// Fields of the line of a replay, whose handshake is the one of `decoded`: name, width, input.
    line: Vec<(String, u32, Input)>,
    pause: Input,
    pulses: [Input; 4],
    map_write: [Input; 3],
    ready: Output,
    accepted: Output,
    empty: Output,
    /// log2 of the number of MPT entries of each table set.
    num_mpts_log2: Vec<u32>,
    /// Table set of each function.
    table_sets: Vec<u32>,
    /// A write of the function map in the coming cycle.
    write: Option<(u32, u32)>,
    is_paused: bool,
    /// Places taken.
    split_taken: u32,
    miss_taken: u32,
    /// The replay that waits and its line.
    replay: Option<(Beat, Vec<u128>)>,
    /// The request that waits.
    request: Option<Beat>,
    /// What is to come out: cycle, fields.
    expected: VecDeque<(u64, Vec<(String, u128)>)>,
    requests_admitted: u32,
    replays_admitted: u32,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let config = design.config().expect("the decoder is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let names = design.ports.iter().filter_map(|port| Some((port.name.strip_prefix("line_")?, port.width)));
        let line = names
            .map(|(name, width)| Ok((name.to_owned(), width, bench.model().input(&format!("line_{name}"))?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let input = |bench: &Bench, name: &str| bench.model().input(name);
        let mut rig = Self {
            requests: bench.driver("request", Stall::NEVER)?,
            replays: bench.driver("decoded", Stall::NEVER)?,
            lookups: bench.sink("lookup", Stall::NEVER)?,
            line,
            pause: input(&bench, "pause")?,
            pulses: [
                input(&bench, "split_place_freed")?,
                input(&bench, "split_place_unused")?,
                input(&bench, "miss_place_freed")?,
                input(&bench, "miss_place_unused")?,
            ],
            map_write: [
                input(&bench, "function_map_write_valid")?,
                input(&bench, "function_map_write_function")?,
                input(&bench, "function_map_write_table_set")?,
            ],
            ready: bench.model().output("ready")?,
            accepted: bench.model().output("accepted")?,
            empty: bench.model().output("empty")?,
            num_mpts_log2: vec![24; config.table_sets as usize],
            table_sets: vec![0; 1 << config.function_bits],
            write: None,
            is_paused: false,
            split_taken: 0,
            miss_taken: 0,
            replay: None,
            request: None,
            expected: VecDeque::new(),
            random: bench.random(),
            bench,
            config,
            requests_admitted: 0,
            replays_admitted: 0,
        };
        rig.set_num_mpts(&[24; 8])?;
        rig.reset()?;
        Ok(rig)
    }

    /// Cycles from admission to the lookup.
    fn latency_cycles(&self) -> u64 {
        if self.config.table_sets == 1 { 1 } else { 2 }
    }

    fn set_num_mpts(&mut self, log2: &[u32]) -> Result<(), Error> {
        for (set, log2) in (0..self.config.table_sets as usize).zip(log2) {
            let mask = self.bench.model().input(&format!("mpt_mask_{set}"))?;
            self.bench.model_mut().set(mask, bits::max(*log2));
            self.num_mpts_log2[set] = *log2;
        }
        Ok(())
    }

    /// Resets, and checks that nothing is admitted until the function map is scrubbed.
    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        self.table_sets.fill(0);
        (self.split_taken, self.miss_taken) = (0, 0);
        (self.request, self.replay) = (None, None);
        self.expected.clear();
        self.offer_request()?;
        self.offer_replay()?;
        let functions = 1 << self.config.function_bits;
        for _ in 0..=functions {
            assert_eq!(self.bench.model().get(self.ready), 0, "ready while the function map is scrubbed");
            self.cycle(Pulses::default())?;
        }
        assert_eq!(self.bench.model().get(self.ready), 1, "ready when the function map is scrubbed");
        self.cycle(Pulses::default())?;
        self.cycle(Pulses::default())?;
        self.settle()
    }

    fn random_beat(&mut self, driver: Handle<StreamDriver>) -> Result<Beat, Error> {
        let shape = self.bench[driver].channel().shape().clone();
        let mut beat = Beat::zero(&shape);
        for field in shape.fields() {
            beat.set(&field.name, u128::from(self.random.next_u64() & bits::max(field.width)))?;
        }
        Ok(beat)
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

    fn offer_replay(&mut self) -> Result<(), Error> {
        assert!(self.replay.is_none(), "one replay waits at a time");
        let mut beat = self.random_beat(self.replays)?;
        beat.set("is_replay", 1)?;
        self.bench[self.replays].push(beat.clone());
        let random = &mut self.random;
        let line = self.line.iter().map(|(_, width, _)| u128::from(random.next_u64() & bits::max(*width)));
        self.replay = Some((beat, line.collect()));
        Ok(())
    }

    /// One cycle with the pulses; checks what is admitted and what comes out.
    fn cycle(&mut self, pulses: Pulses) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let is_ready = self.bench.model().get(self.ready) == 1;
        let has_split_place = self.split_taken < SPLIT_PLACES;
        let has_miss_place = self.miss_taken < MISS_PLACES;
        let admits_replay = is_ready && self.replay.is_some() && has_split_place;
        let admits_request = is_ready
            && self.request.is_some()
            && self.replay.is_none()
            && has_split_place
            && has_miss_place
            && !self.is_paused;

        for (position, (_, width, input)) in self.line.iter().enumerate() {
            let garbage = u128::from(self.random.next_u64() & bits::max(*width));
            let value = self.replay.as_ref().map_or(garbage, |(_, line)| line[position]);
            self.bench.model_mut().set_wide(*input, value);
        }
        let Pulses { split_freed, split_unused, miss_freed, miss_unused } = pulses;
        for (input, value) in self.pulses.iter().zip([split_freed, split_unused, miss_freed, miss_unused]) {
            self.bench.model_mut().set(*input, value.into());
        }
        self.bench.model_mut().set(self.pause, self.is_paused.into());
        let any_function = u64::from(self.random.next_u32()) & bits::max(self.config.function_bits);
        let any_table_set = u64::from(self.random.next_u32()) & bits::max(self.config.table_set_bits());
        let (is_write, function, table_set) = match self.write {
            Some((function, table_set)) => (1, function.into(), table_set.into()),
            None => (0, any_function, any_table_set),
        };
        for (input, value) in self.map_write.iter().zip([is_write, function, table_set]) {
            self.bench.model_mut().set(*input, value);
        }
        self.bench.cycle()?;

        let has_admitted =
            |bench: &Bench, driver: Handle<StreamDriver>, was_offered| was_offered && bench[driver].pending() == 0;
        let request_admitted = has_admitted(&self.bench, self.requests, self.request.is_some());
        let replay_admitted = has_admitted(&self.bench, self.replays, self.replay.is_some());
        let state = (self.split_taken, self.miss_taken, self.is_paused);
        assert_eq!(replay_admitted, admits_replay, "replay in cycle {cycle}, {state:?}");
        assert_eq!(request_admitted, admits_request, "request in cycle {cycle}, {state:?}");
        let due = cycle + self.latency_cycles();
        if admits_replay {
            let (beat, line) = self.replay.take().expect("it was offered");
            let mut fields = beat.shape().fields().iter().map(|field| field.name.clone()).collect::<Vec<_>>();
            let mut values = fields.iter().map(|name| beat.get(name)).collect::<Result<Vec<_>, _>>()?;
            fields.extend(self.line.iter().map(|(name, ..)| format!("line_{name}")));
            values.extend(line);
            self.expected.push_back((due, fields.into_iter().zip(values).collect()));
            self.replays_admitted += 1;
        }
        if admits_request {
            let beat = self.request.take().expect("it was offered");
            let mut fields = Vec::new();
            for field in beat.shape().fields() {
                fields.push((field.name.clone(), beat.get(&field.name)?));
            }
            let table_set = self.table_sets[beat.get("function")? as usize];
            let index = (beat.get("key")? as u32).rotate_right(key::ROTATE_BITS);
            let index = index & bits::max(self.num_mpts_log2[table_set as usize]) as u32;
            for (name, value) in
                [("table_set", table_set), ("index", index), ("is_replay", 0), ("status", 0), ("hop", 0)]
            {
                fields.push((name.into(), value.into()));
            }
            self.expected.push_back((due, fields));
            self.requests_admitted += 1;
        }
        if let Some((function, table_set)) = self.write.take()
            && self.config.table_sets > 1
        {
            self.table_sets[function as usize] = table_set;
        }
        self.split_taken += u32::from(admits_request | admits_replay);
        self.split_taken -= u32::from(split_freed) + u32::from(split_unused);
        self.miss_taken += u32::from(admits_request);
        self.miss_taken -= u32::from(miss_freed) + u32::from(miss_unused);
        let model = self.bench.model();
        assert_eq!(model.get(self.accepted) == 1, admits_request, "accepted after cycle {cycle}");
        let is_empty = self.split_taken + self.miss_taken == 0;
        assert_eq!(model.get(self.empty) == 1, is_empty, "empty after cycle {cycle}");

        let lookup = self.bench[self.lookups].pop();
        let is_due = self.expected.front().is_some_and(|(due, _)| *due == cycle);
        assert_eq!(lookup.is_some(), is_due, "a lookup in cycle {cycle}");
        if let Some(lookup) = lookup {
            let (_, fields) = self.expected.pop_front().expect("it is due");
            for (name, value) in fields {
                assert_eq!(lookup.get(&name)?, value, "{name}");
            }
        }
        Ok(())
    }

    /// Gives a place of each kind back where one is taken.
    fn free(&mut self) -> Result<(), Error> {
        let pulses = Pulses {
            split_freed: self.split_taken > 0,
            split_unused: self.split_taken > 1,
            miss_freed: self.miss_taken > 0,
            miss_unused: self.miss_taken > 1,
        };
        self.cycle(pulses)
    }

    /// Lets everything out that waits or is under way.
    fn settle(&mut self) -> Result<(), Error> {
        let limit = self.bench.cycles() + 100;
        let is_busy = |rig: &Self| {
            let waits = rig.request.is_some() || rig.replay.is_some();
            waits || rig.split_taken + rig.miss_taken > 0 || !rig.expected.is_empty()
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
        let functions = rig.table_sets.len() as u32;
        for function in 0..functions {
            rig.write = Some((function, function % rig.config.table_sets));
            rig.cycle(Pulses::default())?;
        }
        for log2 in 0..=24 {
            rig.set_num_mpts(&[log2, 24 - log2])?;
            let any = rig.random.next_u32();
            for key in [0, 0xff, 0x100, 0xffff_ff00, u32::MAX, key::of_index(1 << log2 >> 1), any] {
                for function in [0, 1, functions - 2, functions - 1] {
                    let mut beat = rig.random_beat(rig.requests)?;
                    beat.set("key", key.into())?;
                    beat.set("function", function.into())?;
                    beat.set("operation", u128::from(key & ((1 << op::OPERATION_BITS) - 1)))?;
                    rig.offer(beat);
                    rig.free()?;
                }
            }
            rig.settle()?;
        }
        Ok(())
    })
}

#[test]
fn a_replay_keeps_its_index_and_table_set() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 2)?;
        rig.set_num_mpts(&[0; 8])?;
        for _ in 0..200 {
            rig.offer_replay()?;
            rig.free()?;
        }
        rig.settle()
    })
}

#[test]
fn the_function_map_is_written_for_the_next_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::KEY_DECODER, 3)?;
    rig.set_num_mpts(&[20, 12])?;
    for _ in 0..3 {
        for function in 0..rig.table_sets.len() as u32 {
            let table_set = rig.random.random_range(0..rig.config.table_sets);
            // One request in the cycle of the write, and one in the next.
            for write in [Some((function, table_set)), None] {
                let mut beat = rig.random_beat(rig.requests)?;
                beat.set("function", function.into())?;
                rig.offer(beat);
                rig.write = write;
                rig.free()?;
            }
        }
    }
    // All others were left as they are.
    for function in 0..rig.table_sets.len() as u32 {
        let mut beat = rig.random_beat(rig.requests)?;
        beat.set("function", function.into())?;
        rig.offer(beat);
        rig.free()?;
    }
    rig.settle()
}

#[test]
fn admission_stops_when_places_are_used_up() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4)?;
        let none = Pulses::default();
        let before = rig.requests_admitted;
        // `cycle` checks that each is admitted when it must be; here, how many.
        for _ in 0..60 {
            if rig.request.is_none() {
                rig.offer_request()?;
            }
            rig.cycle(none)?;
        }
        assert_eq!(rig.requests_admitted - before, SPLIT_PLACES.min(MISS_PLACES));
        // A place of one kind is not enough for a new request.
        rig.cycle(Pulses { split_freed: true, ..none })?;
        for _ in 0..10 {
            rig.cycle(none)?;
        }
        assert_eq!(rig.requests_admitted - before, 16);
        // It is for a replay.
        rig.offer_replay()?;
        let replays = rig.replays_admitted;
        rig.cycle(none)?;
        assert_eq!(rig.replays_admitted - replays, 1);
        rig.cycle(Pulses { miss_unused: true, ..none })?;
        for _ in 0..10 {
            rig.cycle(none)?;
        }
        assert_eq!(rig.requests_admitted - before, 16);
        rig.cycle(Pulses { split_unused: true, ..none })?;
        rig.cycle(none)?;
        assert_eq!(rig.requests_admitted - before, 17);
        // A replay that has no place keeps new requests waiting.
        rig.offer_request()?;
        rig.offer_replay()?;
        for _ in 0..10 {
            rig.cycle(Pulses { miss_freed: rig.miss_taken > 0, ..none })?;
        }
        assert_eq!((rig.requests_admitted - before, rig.replays_admitted - replays), (17, 1));
        rig.cycle(Pulses { split_freed: true, split_unused: true, ..none })?;
        rig.cycle(none)?;
        assert_eq!((rig.requests_admitted - before, rig.replays_admitted - replays), (17, 2));
        rig.cycle(none)?;
        assert_eq!((rig.requests_admitted - before, rig.replays_admitted - replays), (18, 2));
        rig.settle()
    })
}

#[test]
fn pause_stops_new_requests_and_no_replay() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 5)?;
        let (requests, replays) = (rig.requests_admitted, rig.replays_admitted);
        rig.is_paused = true;
        rig.offer_request()?;
        for _ in 0..20 {
            rig.free()?;
            rig.offer_replay()?;
            rig.free()?;
        }
        assert_eq!((rig.requests_admitted - requests, rig.replays_admitted - replays), (0, 20));
        rig.is_paused = false;
        rig.cycle(Pulses::default())?;
        assert_eq!(rig.requests_admitted - requests, 1);
        rig.settle()
    })
}

#[test]
fn random_traffic() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 6)?;
        let (mut split_full, mut miss_full, mut emptied) = (0, 0, 0);
        for phase in 0..16 {
            rig.settle()?;
            let log2: Vec<_> = (0..rig.config.table_sets).map(|_| rig.random.random_range(0..=24)).collect();
            rig.set_num_mpts(&log2)?;
            let [offer_percent, replay_percent] = [[100, 0], [50, 50], [90, 40], [20, 10]][phase % 4];
            for _ in 0..2000 {
                let random = &mut rig.random;
                let mut chance = |percent: u32| random.random_range(0..100) < percent;
                // Places come back as fast, slower, or faster than they are taken.
                let percent = [40, 90, 10, 60][phase / 4 % 4];
                let pulses = Pulses {
                    split_freed: rig.split_taken > 0 && chance(percent),
                    split_unused: rig.split_taken > 1 && chance(percent),
                    miss_freed: rig.miss_taken > 0 && chance(percent),
                    miss_unused: rig.miss_taken > 1 && chance(percent / 2),
                };
                rig.is_paused = if rig.is_paused { chance(80) } else { chance(2) };
                let offers_request = rig.request.is_none() && chance(offer_percent);
                let offers_replay = rig.replay.is_none() && chance(replay_percent);
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
                rig.cycle(pulses)?;
                split_full += u32::from(rig.split_taken == SPLIT_PLACES);
                miss_full += u32::from(rig.miss_taken == MISS_PLACES);
                emptied += u32::from(rig.split_taken + rig.miss_taken == 0);
            }
            rig.is_paused = false;
        }
        println!(
            "{}: {} requests, {} replays; places: {split_full} and {miss_full} cycles full, {emptied} empty",
            design.name, rig.requests_admitted, rig.replays_admitted
        );
        assert!(rig.requests_admitted > 5000 && rig.replays_admitted > 3000);
        assert!(split_full > 1000 && miss_full > 1000 && emptied > 1000);
        rig.settle()
    })
}

#[test]
fn one_request_per_cycle_is_admitted_while_places_come_back() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 7)?;
        let before = rig.requests_admitted;
        for cycle in 0..300 {
            rig.offer_request()?;
            // Each request gives its places back 14 cycles later.
            let frees = cycle >= 14;
            rig.cycle(Pulses { split_freed: frees, miss_unused: frees, ..Pulses::default() })?;
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
            let frees_miss = rig.miss_taken > 0;
            rig.cycle(Pulses { split_freed: true, miss_freed: frees_miss, ..Pulses::default() })?;
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
        rig.set_num_mpts(&[24, 3])?;
        for cycles in 0..5 {
            for function in 0..rig.table_sets.len() as u32 {
                rig.write = Some((function, rig.config.table_sets - 1));
                rig.cycle(Pulses::default())?;
            }
            for _ in 0..10 + cycles {
                if rig.request.is_none() {
                    rig.offer_request()?;
                }
                rig.cycle(Pulses::default())?;
            }
            rig.reset()?;
            for function in 0..rig.table_sets.len() as u32 {
                let mut beat = rig.random_beat(rig.requests)?;
                beat.set("function", function.into())?;
                rig.offer(beat);
                rig.free()?;
            }
            rig.settle()?;
        }
        Ok(())
    })
}
