//! The response port: three sources of beats, wire class and table of every status, turns, events and pulses.

use std::collections::VecDeque;

use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::{Config, Status, Table};
use keywalk_cosim::{Beat, Bench, Error, Handle, Output, Received, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Cycles from a hit, or a page that a walk found, past the queue, to the response port.
const HIT_LATENCY_CYCLES: u64 = 1;
/// The same from a hit or a walk's result through its queue.
const QUEUE_LATENCY_CYCLES: u64 = 3;
/// The same from a segment.
const SEGMENT_LATENCY_CYCLES: u64 = 1;

/// Waits for longer than any test takes, nearly from the start.
const BLOCKED: Stall = Stall::percent(100).up_to(60_000);

/// Where a beat comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A request of one page that hit, or that failed a check.
    Hit,
    /// A request of one page that was walked.
    Walk,
    /// A request of several pages.
    Segment,
}

const SOURCES: [Source; 3] = [Source::Hit, Source::Walk, Source::Segment];

impl Source {
    fn latency_cycles(self) -> u64 {
        match self {
            Self::Hit | Self::Walk => HIT_LATENCY_CYCLES,
            Self::Segment => SEGMENT_LATENCY_CYCLES,
        }
    }
}

/// A beat that is to come out.
struct Expected {
    response: Beat,
    /// As it went in.
    beat: Beat,
    names_a_table: bool,
    /// First cycle in which the block could see it.
    cycle: u64,
}

/// Cycles for which a walked response lets every hit go first.
const LATE_CYCLES: u64 = 32;
/// Cycles after which it takes its turn, whatever waits.
const URGENT_CYCLES: u64 = 128;

struct Rig {
    bench: Bench,
    config: Config,
    random: ChaCha8Rng,
    hits: Handle<StreamDriver>,
    walks: Handle<StreamDriver>,
    segments: Handle<StreamDriver>,
    responses: Handle<StreamSink>,
    single_place_freed: Output,
    sent: Output,
    finished: Output,
    /// What comes with `finished`.
    finished_fields: Vec<(&'static str, Output)>,
    failed: Output,
    event_valid: Output,
    /// Ports of the event's fields.
    event_fields: Vec<(&'static str, Output)>,
    /// Of each source, in order.
    expected: [VecDeque<Expected>; 3],
    /// Places for single responses that are left.
    places: u64,
    /// The source of the response whose last beat has not come.
    open: Option<Source>,
    /// Source of every response that came out.
    served: Vec<Source>,
    beats: u64,
    /// Hits that came out before an earlier one.
    overtakings: u64,
    next_tag: u128,
    /// Cycle in which a walked response became valid last.
    walk_left: u64,
    /// Pieces and results of other kinds, of 100 cycles without a beat.
    other_percent: u32,
    /// Of 100 good results, those of a walk that has read its page.
    found_percent: u32,
}

impl Rig {
    fn new(seed: u64, segment_stall: Stall, response_stall: Stall) -> Result<Self, Error> {
        let config = dut::RESPONSE_PORT.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(&dut::RESPONSE_PORT, seed);
        let event_fields = ["tag", "function", "status", "table", "hop", "is_context", "index", "va"]
            .into_iter()
            .map(|name| Ok((name, bench.model().output(&format!("event_{name}"))?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let finished_fields = ["generation", "stamp", "tag", "function", "status"]
            .into_iter()
            .map(|name| Ok((name, bench.model().output(&format!("finished_{name}"))?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let mut rig = Self {
            random: bench.random(),
            hits: bench.driver("looked_up", Stall::NEVER)?,
            walks: bench.driver("result", Stall::NEVER)?,
            segments: bench.driver("segment", segment_stall)?,
            responses: bench.sink("response", response_stall)?,
            single_place_freed: bench.model().output("single_place_freed")?,
            sent: bench.model().output("sent")?,
            finished: bench.model().output("finished")?,
            finished_fields,
            failed: bench.model().output("failed")?,
            event_valid: bench.model().output("event_valid")?,
            event_fields,
            expected: Default::default(),
            places: 0,
            open: None,
            served: Vec::new(),
            beats: 0,
            overtakings: 0,
            next_tag: 0,
            walk_left: 0,
            other_percent: 50,
            found_percent: 50,
            bench,
            config,
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.expected = Default::default();
        self.places = self.config.response_depth.into();
        self.open = None;
        self.bench.reset(2)
    }

    /// A tag that tells the source.
    fn tag(&mut self, source: Source) -> u128 {
        self.next_tag = (self.next_tag + 1) & 0x3fff;
        self.next_tag << 2 | source as u128
    }

    /// What the port is to make of a beat. `beat` has the fields of a single beat or of a segment.
    fn expect(&mut self, source: Source, beat: &Beat, place: (u128, bool, bool)) -> Result<(), Error> {
        let status = Status::from_code(beat.get("status")? as u8).expect("the status is one of the contract's");
        let is_remote = beat.get("is_remote")? == 1;
        let (table, hop) = match status {
            _ if !status.names_a_table() => (0, beat.get("hop")?),
            _ if status >= Status::MtrIndex => (TABLE_CODE_MTR, beat.get("hop")?),
            _ => (Table::Mpt.code(), beat.get("hop")?),
        };
        let is_ok = status == Status::Ok;
        let (segment, first, last) = place;
        let response = Beat::with(
            self.bench[self.responses].channel().shape(),
            &[
                ("tag", beat.get("tag")?),
                ("function", beat.get("function")?),
                ("status", status.code().into()),
                ("wire_class", status.severity().wire_class(is_remote) as u128),
                ("table", table.into()),
                ("hop", hop),
                ("segment", segment),
                ("first", first.into()),
                ("last", last.into()),
                ("pa", if is_ok { beat.get("address")? } else { 0 }),
                ("length", if is_ok { beat.get("length")? } else { 0 }),
            ],
        )?;
        self.expected[source as usize].push_back(Expected {
            response,
            beat: beat.clone(),
            names_a_table: status.names_a_table(),
            cycle: self.bench.cycles(),
        });
        Ok(())
    }

    /// A single beat in the coming cycle. A place must be free.
    fn push_single(&mut self, source: Source, status: Status, is_remote: bool) -> Result<(), Error> {
        assert!(self.places > 0);
        self.places -= 1;
        let tag = self.tag(source);
        let driver = if source == Source::Hit { self.hits } else { self.walks };
        let shape = self.bench[driver].channel().shape().clone();
        let values = [("tag", tag), ("status", status.code().into()), ("is_remote", is_remote.into()), ("is_split", 0)];
        let mut beat = Beat::random_with(&shape, &values, &mut self.random)?;
        if !status.names_a_table() {
            beat.set("hop", 0)?;
        }
        if source == Source::Hit {
            beat.set("is_miss", 0)?;
        } else {
            beat.set("is_context", 0)?;
            let is_found = status == Status::Ok && self.random.random_range(0..100) < self.found_percent;
            beat.set("is_found", is_found.into())?;
            beat.set("is_ok", u128::from(status == Status::Ok))?;
            // Where nothing is found it is not looked at.
            if is_found {
                beat.set("found_address", beat.get("address")?)?;
            }
        }
        if status != Status::Ok {
            beat.set("address", 0)?;
            // The walker returns the length of the piece in any case.
            if source == Source::Hit {
                beat.set("length", 0)?;
            }
        }
        self.expect(source, &beat, (0, true, true))?;
        self.bench[driver].push(beat);
        Ok(())
    }

    /// A response of several segments: that many good ones, then one with a failure, if there is one.
    fn push_segments(&mut self, good: u32, failure: Option<Status>, is_remote: bool) -> Result<(), Error> {
        let tag = self.tag(Source::Segment);
        let shape = self.bench[self.segments].channel().shape().clone();
        let common = Beat::random_with(&shape, &[("tag", tag), ("is_remote", is_remote.into())], &mut self.random)?;
        let count = good + u32::from(failure.is_some());
        for number in 0..count {
            let status = if number < good { Status::Ok } else { failure.unwrap_or(Status::Ok) };
            let mut beat = Beat::random_with(&shape, &[("status", status.code().into())], &mut self.random)?;
            for field in ["tag", "is_remote", "function", "mpt_index", "admission"] {
                beat.set(field, common.get(field)?)?;
            }
            if status != Status::Ok {
                beat.set("address", 0)?;
                beat.set("length", 0)?;
            }
            if !status.names_a_table() {
                beat.set("hop", 0)?;
            }
            let (first, last) = (number == 0, number + 1 == count);
            beat.set("segment", number.into())?;
            beat.set("first", first.into())?;
            beat.set("last", last.into())?;
            self.expect(Source::Segment, &beat, (number.into(), first, last))?;
            self.bench[self.segments].push(beat);
        }
        Ok(())
    }

    /// Pieces and results that are no single responses, where the channels are free.
    fn push_others(&mut self) -> Result<(), Error> {
        for (driver, flags) in [(self.hits, ["is_split", "is_miss"]), (self.walks, ["is_split", "is_context"])] {
            if self.bench[driver].pending() == 0 && self.random.random_range(0..100) < self.other_percent {
                let shape = self.bench[driver].channel().shape().clone();
                let mut beat = Beat::random_with(&shape, &[], &mut self.random)?;
                let set: u32 = self.random.random_range(1..4);
                for (position, flag) in flags.into_iter().enumerate() {
                    beat.set(flag, (set >> position & 1).into())?;
                }
                self.bench[driver].push(beat);
            }
        }
        Ok(())
    }

    fn is_set(&self, output: Output) -> bool {
        self.bench.model().get(output) == 1
    }

    fn cycle(&mut self) -> Result<(), Error> {
        self.push_others()?;
        self.bench.cycle()?;
        if self.is_set(self.single_place_freed) {
            self.places += 1;
            assert!(self.places <= self.config.response_depth.into(), "a place is given back twice");
        }
        let received = self.bench[self.responses].pop();
        let cycle = self.bench.cycles();
        assert_eq!(self.is_set(self.sent), received.is_some(), "sent in cycle {cycle}");
        let sent = match received {
            Some(received) => Some(self.check(&received)?),
            None => None,
        };
        let is_last = sent.as_ref().is_some_and(|sent| sent.response.get("last") == Ok(1));
        assert_eq!(self.is_set(self.finished), is_last, "finished in cycle {cycle}");
        let is_failed = sent.as_ref().is_some_and(|sent| sent.response.get("status") != Ok(0));
        assert_eq!(self.is_set(self.failed), is_failed, "failed in cycle {cycle}");
        let is_event = sent.as_ref().is_some_and(|sent| sent.names_a_table);
        assert_eq!(self.is_set(self.event_valid), is_event, "event in cycle {cycle}");
        let Some(Expected { response, beat, .. }) = sent else { return Ok(()) };
        let model = self.bench.model();
        if is_last {
            let admission = beat.get("admission")?;
            for (name, port) in &self.finished_fields {
                let wanted = match *name {
                    "generation" => admission & 1,
                    "stamp" => admission >> 1,
                    name => response.get(name)?,
                };
                assert_eq!(model.get_wide(*port), wanted, "finished_{name} of {beat:?}");
            }
        }
        if is_event {
            for (name, port) in &self.event_fields {
                let wanted = match *name {
                    "is_context" => 0,
                    "index" => beat.get("mpt_index")?,
                    "va" => beat.get("va")?,
                    name => response.get(name)?,
                };
                assert_eq!(model.get_wide(*port), wanted, "{name} of the event of {beat:?}");
            }
        }
        Ok(())
    }

    /// Compares a beat with what was expected, and gives that.
    fn check(&mut self, received: &Received) -> Result<Expected, Error> {
        self.beats += 1;
        let tag = received.get("tag")?;
        let source = SOURCES[tag as usize & 3];
        assert!(self.open.is_none_or(|open| open == source), "{received:?} between the beats of another response");
        let queue = &mut self.expected[source as usize];
        let mut position = 0;
        if source != Source::Segment {
            let found = queue.iter().position(|expected| expected.response.get("tag") == Ok(tag));
            position = found.expect("no beat comes out twice");
        }
        let expected = queue.remove(position).expect("no beat comes out twice");
        assert_eq!(received.beat, expected.response);
        let latency_cycles = received.valid_cycle - expected.cycle;
        assert!(latency_cycles >= source.latency_cycles());
        // A hit came past the queue, or it could not, for something else was waiting or on its way out.
        if source != Source::Segment && latency_cycles != HIT_LATENCY_CYCLES {
            assert!(latency_cycles >= QUEUE_LATENCY_CYCLES);
        }
        if source == Source::Walk && latency_cycles == HIT_LATENCY_CYCLES {
            assert_eq!(expected.beat.get("is_found")?, 1, "only a page that was found passes");
        }
        if source == Source::Hit && latency_cycles == HIT_LATENCY_CYCLES {
            let is_late = |walk: &Expected| {
                let first = self.walk_left.max(walk.cycle + QUEUE_LATENCY_CYCLES);
                first + LATE_CYCLES + 2 < expected.cycle
            };
            let walk = self.expected[Source::Walk as usize].front();
            assert!(!walk.is_some_and(is_late), "a hit passed a walk that has waited for long");
        }
        if source == Source::Walk {
            self.walk_left = received.valid_cycle;
        }
        if position > 0 {
            // Only one that is still on its way through the queue is overtaken.
            self.overtakings += 1;
            assert_eq!(latency_cycles, HIT_LATENCY_CYCLES);
            let earliest = expected.cycle - (QUEUE_LATENCY_CYCLES - HIT_LATENCY_CYCLES - 1);
            let queue = &self.expected[source as usize];
            assert!(queue.iter().take(position).all(|other| other.cycle >= earliest), "an old beat was overtaken");
        }
        self.open = None;
        if expected.response.get("last")? == 1 {
            self.served.push(source);
        } else {
            self.open = Some(source);
        }
        Ok(expected)
    }

    fn pending(&self) -> usize {
        self.expected.iter().map(VecDeque::len).sum()
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while self.pending() > 0 {
            assert!(self.bench.cycles() < end, "{} beats are missing after {limit_cycles} cycles", self.pending());
            self.cycle()?;
        }
        self.run(10)?;
        assert_eq!(self.places, u64::from(self.config.response_depth), "every place comes back once");
        Ok(())
    }

    /// A random status that the source can have.
    fn status(&mut self, source: Source) -> Status {
        let all = statuses(source);
        if self.random.random_range(0..3) == 0 { Status::Ok } else { all[self.random.random_range(0..all.len())] }
    }
}

/// Statuses that a source can have.
fn statuses(source: Source) -> Vec<Status> {
    let is_of_walk = |status: &Status| *status == Status::Ok || *status >= Status::MtrIndex;
    Status::ALL.iter().copied().filter(|status| source == Source::Hit || is_of_walk(status)).collect()
}

#[test]
fn every_status_has_its_class_table_and_event_on_both_sides() -> Result<(), Error> {
    let mut rig = Rig::new(1, Stall::NEVER, Stall::NEVER)?;
    for is_remote in [false, true] {
        for source in SOURCES {
            for status in statuses(source) {
                match source {
                    Source::Segment => {
                        let failure = (status != Status::Ok).then_some(status);
                        rig.push_segments(2, failure, is_remote)?;
                    }
                    _ => rig.push_single(source, status, is_remote)?,
                }
                rig.finish(20)?;
            }
        }
    }
    Ok(())
}

#[test]
fn wire_classes_and_tables_are_those_of_the_contract() -> Result<(), Error> {
    // Written out, where the other test asks the contract.
    let cases = [
        (Status::Ok, 0, 0, 0),
        (Status::OperationUnknown, 1, 1, 0),
        (Status::HoldTooLong, 1, 1, 0),
        (Status::IndexOutOfRange, 3, 2, 1),
        (Status::HemTimeout, 3, 2, 1),
        (Status::EntryState, 3, 2, 0),
        (Status::WindowParent, 3, 2, 0),
        (Status::MtrIndex, 5, 4, 7),
        (Status::MtrTimeout, 5, 4, 7),
    ];
    let mut rig = Rig::new(2, Stall::NEVER, Stall::NEVER)?;
    for (status, local, remote, table) in cases {
        for (is_remote, class) in [(false, local), (true, remote)] {
            rig.push_single(Source::Hit, status, is_remote)?;
            let expected = &rig.expected[Source::Hit as usize][0].response;
            assert_eq!((expected.get("wire_class")?, expected.get("table")?), (class, table), "{}", status.name());
            rig.finish(20)?;
        }
    }
    Ok(())
}

#[test]
fn random_responses_come_out_once_and_whole() -> Result<(), Error> {
    let cases = [
        (Stall::NEVER, Stall::NEVER, 60),
        (Stall::NEVER, Stall::percent(50), 60),
        (Stall::percent(40).up_to(6), Stall::percent(20).up_to(20), 60),
        (Stall::percent(50).up_to(4), Stall::NEVER, 20),
        (Stall::NEVER, Stall::percent(80).up_to(5), 100),
        (Stall::NEVER, Stall::NEVER, 15),
    ];
    let mut overtakings = 0;
    for (case, (segment_stall, response_stall, percent)) in cases.into_iter().enumerate() {
        let mut rig = Rig::new(10 + case as u64, segment_stall, response_stall)?;
        for _ in 0..3000 {
            // Whichever single source comes first takes the last free place.
            let first = rig.random.random_range(0..3);
            for source in SOURCES.iter().cycle().skip(first).take(3).copied() {
                if rig.random.random_range(0..100) >= percent {
                    continue;
                }
                let status = rig.status(source);
                let is_remote = rig.random.random_range(0..2) == 0;
                match source {
                    Source::Segment if rig.expected[2].len() > 20 => {}
                    Source::Segment => {
                        let failure = (status != Status::Ok).then_some(status);
                        let good = rig.random.random_range(u32::from(failure.is_none())..6);
                        rig.push_segments(good, failure, is_remote)?;
                    }
                    _ if rig.places == 0 => {}
                    _ => rig.push_single(source, status, is_remote)?,
                }
            }
            rig.cycle()?;
        }
        rig.finish(5_000)?;
        overtakings += rig.overtakings;
        let counts = SOURCES.map(|source| rig.served.iter().filter(|served| **served == source).count());
        assert!(counts.iter().all(|count| *count > 20), "case {case}: {counts:?} responses");
    }
    assert!(overtakings > 4, "{overtakings} hits were overtaken");
    Ok(())
}

#[test]
fn segments_and_singles_take_turns_and_so_do_walks_and_hits() -> Result<(), Error> {
    let sets: [&[Source]; 4] =
        [&SOURCES, &[Source::Hit, Source::Walk], &[Source::Hit, Source::Segment], &[Source::Walk, Source::Segment]];
    let stalls = [Stall::NEVER, Stall::percent(50).up_to(4)];
    for (sources, response_stall) in sets.into_iter().flat_map(|set| stalls.map(|stall| (set, stall))) {
        let mut rig = Rig::new(20, Stall::NEVER, BLOCKED)?;
        let responses = rig.responses;
        for cycle in 0..2000u32 {
            if cycle == 40 {
                // Every source has beats from here on.
                rig.bench[responses].set_stall(response_stall);
                rig.served.clear();
            }
            for &source in sources {
                let queued = rig.expected[source as usize].len() as u32;
                if source == Source::Segment {
                    if queued < 20 {
                        rig.push_segments(1 + cycle % 4, None, true)?;
                    }
                } else if rig.places > 0 && queued < rig.config.response_depth / 2 {
                    rig.push_single(source, Status::Ok, false)?;
                }
            }
            rig.cycle()?;
        }
        // The first few were chosen while not every source had a beat.
        let served = &rig.served[3..];
        let of_two = |pair: &[Source]| (pair[0] == Source::Segment) != (pair[1] == Source::Segment);
        if sources.contains(&Source::Segment) {
            assert!(served.windows(2).all(of_two), "of {sources:?} segments do not take turns: {served:?}");
        }
        let singles: Vec<_> = served.iter().filter(|source| **source != Source::Segment).collect();
        if sources.contains(&Source::Hit) && sources.contains(&Source::Walk) {
            assert!(singles.windows(2).all(|pair| pair[0] != pair[1]), "walks do not take turns: {served:?}");
        }
        assert!(served.len() > 300, "{} responses of {sources:?}", served.len());
        rig.finish(500)?;
    }
    Ok(())
}

#[test]
fn a_walked_response_waits_for_a_cycle_without_a_hit_but_not_for_long() -> Result<(), Error> {
    for gap in [1, 2, 7, 20, 28, 200] {
        let mut rig = Rig::new(25, Stall::NEVER, Stall::NEVER)?;
        (rig.other_percent, rig.found_percent) = (0, 0);
        for _ in 0..10 {
            rig.push_single(Source::Hit, Status::Ok, true)?;
            rig.cycle()?;
        }
        rig.push_single(Source::Walk, Status::Ok, true)?;
        let start = rig.bench.cycles();
        for cycle in 0..100 {
            if cycle != gap + QUEUE_LATENCY_CYCLES - 1 {
                rig.push_single(Source::Hit, Status::Ok, true)?;
            }
            rig.cycle()?;
        }
        let waited = rig.walk_left - start;
        if gap < LATE_CYCLES {
            assert_eq!(waited, gap + QUEUE_LATENCY_CYCLES, "the gap is its own");
        } else {
            assert!((LATE_CYCLES..=LATE_CYCLES + 6).contains(&waited), "it waited for {waited} cycles");
        }
        rig.finish(20)?;
    }
    Ok(())
}

#[test]
fn a_single_walk_takes_its_turn_in_the_end_where_hits_always_wait() -> Result<(), Error> {
    let mut rig = Rig::new(26, Stall::NEVER, Stall::NEVER)?;
    (rig.other_percent, rig.found_percent) = (0, 0);
    let mut pushed = None;
    for cycle in 0..400 {
        // Two beats for every one that leaves.
        if rig.expected[Source::Segment as usize].len() < 20 {
            rig.push_segments(1, None, true)?;
        }
        if rig.places > 8 && rig.expected[Source::Hit as usize].len() < 8 {
            rig.push_single(Source::Hit, Status::Ok, true)?;
        }
        if cycle == 50 {
            rig.push_single(Source::Walk, Status::Ok, true)?;
            pushed = Some(rig.bench.cycles());
        }
        rig.cycle()?;
        if pushed.is_some() && rig.walk_left > 0 {
            break;
        }
    }
    let waited = rig.walk_left - pushed.expect("the walk was pushed");
    assert!((URGENT_CYCLES..=URGENT_CYCLES + 10).contains(&waited), "it waited for {waited} cycles");
    rig.finish(100)
}

#[test]
fn each_source_takes_its_time_and_one_beat_follows_per_cycle() -> Result<(), Error> {
    const BEATS: u64 = 300;
    for source in SOURCES {
        let mut rig = Rig::new(21, Stall::NEVER, Stall::NEVER)?;
        (rig.other_percent, rig.found_percent) = (0, 100);
        let latency_cycles = source.latency_cycles();
        if source == Source::Segment {
            // Responses of 1 to 24 segments without a gap: 300 beats.
            for segments in 1..=24 {
                rig.push_segments(segments, None, false)?;
            }
        }
        let start = rig.bench.cycles();
        let mut sent = 0;
        while rig.beats < BEATS {
            if source != Source::Segment && sent < BEATS {
                rig.push_single(source, Status::Ok, true)?;
                sent += 1;
            }
            rig.cycle()?;
            assert!(rig.bench.cycles() - start <= BEATS + latency_cycles, "{source:?}: {} beats", rig.beats);
        }
        assert_eq!(rig.bench.cycles() - start, BEATS + latency_cycles, "{source:?}");
        rig.finish(1)?;
    }
    Ok(())
}

#[test]
fn a_hit_passes_while_nobody_waits_and_may_overtake_the_one_before() -> Result<(), Error> {
    let mut rig = Rig::new(25, Stall::NEVER, Stall::NEVER)?;
    rig.other_percent = 0;
    let responses = rig.responses;
    let next = |rig: &mut Rig, is_first: bool| -> Result<(), Error> {
        if is_first {
            rig.push_segments(1, None, false)?;
        }
        rig.push_single(Source::Hit, Status::Ok, false)?;
        rig.cycle()
    };
    // A segment is in the way of the first hit. The second one comes so many cycles later.
    for gap in 0..6 {
        rig.served.clear();
        let before = rig.overtakings;
        next(&mut rig, true)?;
        rig.run(gap)?;
        next(&mut rig, false)?;
        rig.finish(20)?;
        // In the cycle right behind it passes the first, which nobody sees yet. One cycle later the first one is chosen.
        assert_eq!(rig.overtakings - before, u64::from(gap == 0), "gap {gap}");
    }
    // One of a response of several segments is still to come: no hit passes between them.
    for segments in [2, 3] {
        rig.served.clear();
        let segment_driver = rig.segments;
        rig.push_segments(segments, None, false)?;
        rig.cycle()?;
        rig.bench[segment_driver].set_stall(BLOCKED);
        rig.push_single(Source::Hit, Status::Ok, false)?;
        rig.run(10)?;
        assert!(rig.served.is_empty());
        rig.bench[segment_driver].set_stall(Stall::NEVER);
        rig.finish(20)?;
        assert_eq!(rig.served, [Source::Segment, Source::Hit]);
    }
    // The port is not ready, with a beat on it or without one.
    for beats in [0, 1] {
        rig.bench[responses].set_stall(BLOCKED);
        for _ in 0..=beats {
            rig.push_single(Source::Hit, Status::Ok, false)?;
            rig.run(3)?;
        }
        rig.bench[responses].set_stall(Stall::NEVER);
        rig.finish(20)?;
    }
    Ok(())
}

#[test]
fn all_sources_together_fill_every_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(22, Stall::NEVER, Stall::NEVER)?;
    let mut before = 0;
    for cycle in 0..1000u32 {
        if cycle == 40 {
            before = rig.beats;
        }
        let source = SOURCES[cycle as usize % 2];
        if rig.places > 0 {
            rig.push_single(source, Status::Ok, false)?;
        }
        if rig.expected[2].len() < 20 {
            rig.push_segments(1 + cycle % 5, Some(Status::MtrNotPresent), true)?;
        }
        rig.cycle()?;
    }
    assert_eq!(rig.beats - before, 960);
    rig.finish(500)
}

#[test]
fn every_place_can_be_taken_by_either_source() -> Result<(), Error> {
    for source in [Source::Hit, Source::Walk] {
        let mut rig = Rig::new(23, Stall::NEVER, BLOCKED)?;
        let responses = rig.responses;
        while rig.places > 0 {
            rig.push_single(source, Status::Ok, false)?;
            rig.cycle()?;
            assert!(rig.bench.cycles() < 1000, "{} places are left", rig.places);
        }
        rig.run(50)?;
        rig.bench[responses].set_stall(Stall::NEVER);
        rig.finish(100)?;
    }
    Ok(())
}

#[test]
fn reset_drops_all_beats() -> Result<(), Error> {
    let mut rig = Rig::new(24, Stall::percent(20), Stall::percent(60))?;
    for cycles in 1..40 {
        for _ in 0..cycles {
            for source in [Source::Hit, Source::Walk] {
                if rig.places > 0 {
                    let status = rig.status(source);
                    rig.push_single(source, status, true)?;
                }
            }
            if rig.expected[2].len() < 10 {
                rig.push_segments(3, None, false)?;
            }
            rig.cycle()?;
        }
        rig.reset()?;
        // Whatever comes out now was not expected.
        rig.run(10)?;
        rig.push_single(Source::Walk, Status::Ok, false)?;
        rig.push_segments(2, Some(Status::MtrIndex), false)?;
        rig.finish(100)?;
    }
    Ok(())
}
