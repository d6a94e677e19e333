//! The unit that carries atomics out, with a memory whose writes take effect late.

use std::collections::{BTreeMap, VecDeque};

use keywalk_contract::MoverStatus;
use keywalk_cosim::{Bench, Error, Handle, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// An atomic.
#[derive(Clone, Copy, Debug)]
struct Atomic {
    word: u64,
    is_swap: bool,
    value: u64,
    compare: u64,
    /// It was refused before it came here.
    is_empty: bool,
    /// The read fails.
    is_bad: bool,
}

struct Unit {
    bench: Bench,
    start: Handle<StreamDriver>,
    old: Handle<StreamDriver>,
    operands: Handle<StreamDriver>,
    write: Handle<StreamSink>,
    random: ChaCha8Rng,
    places: usize,
}

impl Unit {
    fn new(seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::ATOMIC_UNIT, seed);
        let start = bench.driver("start", stall)?;
        let old = bench.driver("old", Stall::NEVER)?;
        let operands = bench.driver("operands", stall)?;
        let write = bench.sink("write", stall)?;
        let config = dut::ATOMIC_UNIT.config().expect("it was generated");
        let places = config.mover_atomics_in_flight as usize;
        bench.reset(3)?;
        bench[start].record_acceptances();
        let random = bench.random();
        Ok(Self { bench, start, old, operands, write, random, places })
    }

    /// Runs atomics against a memory that reads take from when they start and that writes reach `latency_cycles` later.
    /// Gives the memory and the most that were under way at a time.
    fn run(&mut self, atomics: &[Atomic], latency_cycles: u64) -> Result<(BTreeMap<u64, u64>, usize), Error> {
        for (tag, atomic) in atomics.iter().enumerate() {
            let status = if atomic.is_empty { MoverStatus::Refused } else { MoverStatus::Ok };
            let fields = [
                ("tag", tag as u128),
                ("function", (tag % 256) as u128),
                ("status", status.code().into()),
                ("refusal", if atomic.is_empty { 17 } else { 0 }),
                ("is_empty", atomic.is_empty.into()),
                ("word", atomic.word.into()),
            ];
            self.bench[self.start].push_fields(&fields)?;
            let fields = [
                ("is_swap", atomic.is_swap.into()),
                ("value", atomic.value.into()),
                ("compare", atomic.compare.into()),
            ];
            self.bench[self.operands].push_fields(&fields)?;
        }
        let ended = self.bench.model().input("ended")?;
        let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
        // What is written when it ends, by cycle.
        let mut open: VecDeque<(u64, Option<(u64, u64)>)> = VecDeque::new();
        let (mut started, mut written, mut finished, mut peak, mut due_cycle) = (0, 0, 0, 0, 0);
        let mut waited = 0;
        while finished < atomics.len() {
            let now = self.bench.cycles();
            let ends = open.front().is_some_and(|(cycle, _)| *cycle <= now);
            self.bench.model_mut().set(ended, ends.into());
            self.bench.cycle()?;
            if ends {
                let (_, write) = open.pop_front().expect("there is one");
                memory.extend(write);
                finished += 1;
            }
            while let Some(cycle) = self.bench[self.start].pop_acceptance() {
                let atomic = &atomics[started];
                let value = *memory.entry(atomic.word).or_default();
                let is_bad = u128::from(atomic.is_bad && !atomic.is_empty);
                due_cycle = due_cycle.max(cycle + self.random.random_range(2..=latency_cycles));
                let mut beat = self.bench[self.old].blank();
                beat.set("value", value.into())?;
                beat.set("is_bad", is_bad)?;
                self.bench[self.old].push_not_before(beat, due_cycle);
                started += 1;
                peak = peak.max(started - finished);
            }
            while let Some(write) = self.bench[self.write].pop() {
                let atomic = &atomics[written];
                assert_eq!(write.get("tag")?, written as u128);
                assert_eq!(write.get("function")?, (written % 256) as u128);
                let is_failed = atomic.is_bad && !atomic.is_empty;
                let expected = match (atomic.is_empty, is_failed) {
                    (true, _) => MoverStatus::Refused,
                    (_, true) => MoverStatus::ReadError,
                    _ => MoverStatus::Ok,
                };
                assert_eq!(write.get("status")?, expected.code().into(), "{atomic:x?}");
                assert_eq!(write.get("refusal")?, if atomic.is_empty { 17 } else { 0 });
                let is_empty = write.get("is_empty")? == 1;
                assert!(is_empty || expected == MoverStatus::Ok, "{atomic:x?} writes");
                let word = write.get("word")? as u64;
                assert!(is_empty || word == atomic.word);
                let after = self.bench.cycles() + self.random.random_range(0..latency_cycles);
                let after = open.back().map_or(after, |(cycle, _)| after.max(*cycle));
                open.push_back((after, (!is_empty).then_some((word, write.get("value")? as u64))));
                written += 1;
                waited = 0;
            }
            waited += 1;
            assert!(waited < 5_000, "{written} of {} after 5000 cycles", atomics.len());
        }
        self.bench.model_mut().set(ended, 0);
        self.bench.run(20)?;
        assert!(self.bench[self.write].is_empty());
        assert!(peak <= self.places, "{peak} atomics at a time");
        Ok((memory, peak))
    }
}

/// What the words hold in the end, carried out one by one.
fn carried_out(atomics: &[Atomic]) -> BTreeMap<u64, u64> {
    let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
    for atomic in atomics {
        let old = memory.entry(atomic.word).or_default();
        if atomic.is_empty || atomic.is_bad {
            continue;
        }
        *old = match atomic.is_swap {
            false => old.wrapping_add(atomic.value),
            true if *old == atomic.compare => atomic.value,
            true => *old,
        };
    }
    memory
}

fn any_atomic(random: &mut ChaCha8Rng, words: u64) -> Atomic {
    let small = |random: &mut ChaCha8Rng| random.random_range(0..3u64) << (63 * random.random_range(0..2));
    Atomic {
        // Words that differ in any bit.
        word: (1 << (random.random_range(0..words) * 60 / words)) - 1,
        is_swap: random.random(),
        value: small(random),
        compare: small(random),
        is_empty: random.random_range(0..10) == 0,
        is_bad: random.random_range(0..10) == 0,
    }
}

#[test]
fn none_is_lost_on_words_that_are_fought_over() -> Result<(), Error> {
    for (seed, stall, words) in [(1, Stall::NEVER, 2), (2, Stall::percent(30).up_to(4), 3), (3, Stall::NEVER, 40)] {
        let mut unit = Unit::new(seed, stall)?;
        let mut random = unit.bench.random();
        let atomics: Vec<_> = (0..400).map(|_| any_atomic(&mut random, words)).collect();
        let (memory, _) = unit.run(&atomics, 30)?;
        assert_eq!(memory, carried_out(&atomics));
    }
    Ok(())
}

/// A comparison of all 64 bits, and a sum of all 64.
#[test]
fn every_bit_of_the_operands_counts() -> Result<(), Error> {
    let mut unit = Unit::new(4, Stall::NEVER)?;
    let plain = Atomic { word: 5, is_swap: true, value: 0, compare: 0, is_empty: false, is_bad: false };
    let mut atomics = Vec::new();
    let mut old = 0;
    for bit in 0..64 {
        // Compared with a value that is wrong in one bit, then with the right one; then a sum that carries up to that bit.
        atomics.push(Atomic { compare: old ^ 1 << bit, value: 77, ..plain });
        let value = (1u64 << bit).wrapping_sub(1);
        atomics.push(Atomic { compare: old, value, ..plain });
        atomics.push(Atomic { is_swap: false, value: 1, ..plain });
        old = value.wrapping_add(1);
    }
    let (memory, _) = unit.run(&atomics, 4)?;
    assert_eq!(memory, BTreeMap::from([(5, 1 << 63)]));
    assert_eq!(memory, carried_out(&atomics));
    Ok(())
}

/// As many as there are places are under way at a time, if they are on different words, and one on the same.
#[test]
fn different_words_overlap_and_the_same_do_not() -> Result<(), Error> {
    let plain = Atomic { word: 5, is_swap: false, value: 1, compare: 0, is_empty: false, is_bad: false };
    let mut unit = Unit::new(5, Stall::NEVER)?;
    let different: Vec<_> = (0..40).map(|word| Atomic { word, ..plain }).collect();
    let (_, peak) = unit.run(&different, 100)?;
    assert_eq!(peak, unit.places);
    let mut unit = Unit::new(6, Stall::NEVER)?;
    let (memory, peak) = unit.run(&[plain; 40], 20)?;
    assert_eq!((peak, memory), (1, BTreeMap::from([(5, 40)])));
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_unit() -> Result<(), Error> {
    let mut unit = Unit::new(7, Stall::percent(20))?;
    let mut random = unit.bench.random();
    for cycles in 1..40 {
        let (start, operands) = (unit.start, unit.operands);
        for word in 0..3 {
            unit.bench[start].push_fields(&[("word", word % 2)])?;
            unit.bench[operands].push_fields(&[("value", 1)])?;
        }
        unit.bench.run(cycles)?;
        unit.bench.reset(2)?;
        while unit.bench[start].pop_acceptance().is_some() {}
        let atomics: Vec<_> = (0..6).map(|_| any_atomic(&mut random, 2)).collect();
        let (memory, _) = unit.run(&atomics, 10)?;
        assert_eq!(memory, carried_out(&atomics));
    }
    Ok(())
}

/// From the first offer of an atomic to its start, and from its old value to its write, as documented.
#[test]
fn latencies_are_as_documented() -> Result<(), Error> {
    let mut unit = Unit::new(8, Stall::NEVER)?;
    let (start, old, operands, write) = (unit.start, unit.old, unit.operands, unit.write);
    unit.bench[operands].push_fields(&[])?;
    unit.bench.run(10)?;
    unit.bench[old].record_acceptances();
    let offered = unit.bench.cycles();
    unit.bench[start].push_fields(&[("word", 3)])?;
    unit.bench.run(10)?;
    let started = unit.bench[start].pop_acceptance().expect("it was started");
    unit.bench[old].push_fields(&[("value", 3)])?;
    unit.bench.run(20)?;
    let found = unit.bench[old].pop_acceptance().expect("it was found");
    let written = unit.bench[write].pop().expect("it is written").valid_cycle;
    assert_eq!((started - offered, written - found), (1, 6));
    Ok(())
}
