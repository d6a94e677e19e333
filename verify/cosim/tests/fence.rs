//! The fence: what an invalidation waits for, in which order, and that nothing is admitted meanwhile.

use std::collections::VecDeque;

use keywalk_cosim::{Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// With and without done tracking.
const DESIGNS: [&Dut; 2] = [&dut::FENCE, &dut::FENCE_LEAST];

/// Cycles from the acceptance of an invalidation to its completion where there is nothing to wait for.
const LATENCY_CYCLES: u64 = 12;
/// Responses whose DMA is not reported done, from which on nothing is admitted.
const UNDONE_MAX: u64 = 1 << 15;

/// Chances, of 100, in each cycle.
#[derive(Clone, Copy)]
struct Chances {
    /// A request is offered.
    request: u32,
    /// A request in flight is answered.
    finish: u32,
    /// An answered request's DMA is reported done.
    done: u32,
    /// A report that belongs to nothing arrives, where nothing is undone.
    stray_done: u32,
    /// Other work, such as a context lookup, begins, where there is none.
    other_begins: u32,
    /// It ends.
    other_ends: u32,
}

const QUIET: Chances = Chances { request: 0, finish: 0, done: 0, stray_done: 0, other_begins: 0, other_ends: 100 };
const BUSY: Chances = Chances { request: 60, finish: 70, done: 80, stray_done: 0, other_begins: 30, other_ends: 20 };

/// Where the invalidation in progress is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// None is in progress.
    None,
    /// The caches are not yet flushed.
    Draining,
    /// The caches are flushed, or being flushed.
    Flushed,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    chances: Chances,
    is_tracking: bool,
    invalidate: Handle<StreamDriver>,
    invalidated: Handle<StreamSink>,
    request_accepted: Input,
    response_finished: Input,
    done_valid: Input,
    others_idle: Input,
    caches_ready: Input,
    pause: Output,
    flush: Output,
    idle: Output,
    completed: Output,
    /// A request was admitted in the cycle before: its pulse comes now.
    is_admitted: bool,
    has_other_work: bool,
    /// As the fence counts them.
    in_flight: u64,
    undone: u64,
    /// Nothing was in flight in the cycle before.
    was_quiet: bool,
    /// Cycles for which the caches are busy from now on.
    caches_busy_cycles: u64,
    /// Longest time that a flush takes.
    flush_cycles_max: u64,
    step: Step,
    tags: VecDeque<u128>,
    accepted: u64,
    flushes: u64,
    completions: u64,
    /// Cycles of acceptance and first offer of the completion of every invalidation.
    times: Vec<(u64, u64)>,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64, chances: Chances, stalls: [Stall; 2]) -> Result<Self, Error> {
        let config = design.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let mut rig = Self {
            random: bench.random(),
            chances,
            is_tracking: config.done_tracking,
            invalidate: bench.driver("invalidate", stalls[0])?,
            invalidated: bench.sink("invalidated", stalls[1])?,
            request_accepted: bench.model().input("request_accepted")?,
            response_finished: bench.model().input("response_finished")?,
            done_valid: bench.model().input("done_valid")?,
            others_idle: bench.model().input("others_idle")?,
            caches_ready: bench.model().input("caches_ready")?,
            pause: bench.model().output("pause")?,
            flush: bench.model().output("flush")?,
            idle: bench.model().output("idle")?,
            completed: bench.model().output("completed")?,
            is_admitted: false,
            has_other_work: false,
            in_flight: 0,
            undone: 0,
            was_quiet: false,
            caches_busy_cycles: 0,
            flush_cycles_max: 1,
            step: Step::None,
            tags: VecDeque::new(),
            accepted: 0,
            flushes: 0,
            completions: 0,
            times: Vec::new(),
            bench,
        };
        rig.bench[rig.invalidate].record_acceptances();
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.is_admitted = false;
        self.has_other_work = false;
        self.in_flight = 0;
        self.undone = 0;
        self.was_quiet = false;
        self.caches_busy_cycles = 0;
        self.step = Step::None;
        self.tags.clear();
        self.bench.reset(2)?;
        let invalidate = self.invalidate;
        while self.bench[invalidate].pop_acceptance().is_some() {}
        self.accepted = self.bench[invalidate].accepted();
        Ok(())
    }

    fn push(&mut self) -> Result<(), Error> {
        let tag = u128::from(self.random.next_u32() & 0xffff);
        self.tags.push_back(tag);
        self.bench[self.invalidate].push_fields(&[("tag", tag)])
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn is_set(&self, output: Output) -> bool {
        self.bench.model().get(output) == 1
    }

    /// One cycle of the fence and of the engine around it.
    fn cycle(&mut self) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let chances = self.chances;
        // Outputs of this cycle: all are registers.
        let (is_paused, is_flushing) = (self.is_set(self.pause), self.is_set(self.flush));
        assert_eq!(self.is_set(self.idle), self.was_quiet, "idle in cycle {cycle}");
        if is_flushing {
            assert_eq!(self.step, Step::Draining, "flush in cycle {cycle}");
            assert!(self.in_flight == 0 && !self.is_admitted, "flush in cycle {cycle} with requests in flight");
            assert!(self.undone == 0, "flush in cycle {cycle} with {} responses undone", self.undone);
            assert!(!self.has_other_work, "flush in cycle {cycle} with other work in flight");
            self.step = Step::Flushed;
            self.flushes += 1;
        }

        // What happens in this cycle.
        let admits = !is_paused && self.chance(chances.request);
        let is_accepted = std::mem::replace(&mut self.is_admitted, admits);
        let finishes = self.in_flight > 0 && self.chance(chances.finish);
        let could_be_done = self.undone > 0 || finishes;
        let is_done = self.chance(if could_be_done { chances.done } else { chances.stray_done });
        let are_caches_ready = self.caches_busy_cycles == 0;
        let model = self.bench.model_mut();
        model.set(self.request_accepted, is_accepted.into());
        model.set(self.response_finished, finishes.into());
        model.set(self.done_valid, is_done.into());
        model.set(self.others_idle, (!self.has_other_work).into());
        model.set(self.caches_ready, are_caches_ready.into());
        self.was_quiet = self.in_flight == 0 && self.undone == 0 && !self.has_other_work;
        let had_undone = self.undone;
        self.in_flight = self.in_flight + u64::from(is_accepted) - u64::from(finishes);
        if self.is_tracking {
            self.undone = self.undone + u64::from(finishes) - u64::from(is_done && could_be_done);
        }
        // Admitted requests and lookups are other work for a while.
        let begins = self.is_admitted || !is_paused && self.chance(chances.other_begins);
        self.has_other_work = begins || self.has_other_work && !self.chance(chances.other_ends);
        self.caches_busy_cycles = self.caches_busy_cycles.saturating_sub(1);
        if is_flushing {
            self.caches_busy_cycles = self.random.random_range(1..=self.flush_cycles_max);
        }

        self.bench.cycle()?;
        if self.bench[self.invalidate].accepted() > self.accepted {
            assert_eq!(self.step, Step::None, "one invalidation at a time");
            self.accepted += 1;
            self.step = Step::Draining;
        }
        let mut completes = false;
        while let Some(received) = self.bench[self.invalidated].pop() {
            assert_eq!(self.step, Step::Flushed, "completion in cycle {cycle}");
            assert!(are_caches_ready && !is_flushing, "completion in cycle {cycle} before the caches are ready");
            assert_eq!(Some(received.get("tag")?), self.tags.pop_front());
            let accepted = self.bench[self.invalidate].pop_acceptance().expect("it was accepted");
            self.times.push((accepted, received.valid_cycle));
            self.step = Step::None;
            self.completions += 1;
            completes = true;
        }
        assert_eq!(self.is_set(self.completed), completes, "completed in cycle {cycle}");
        let is_full = had_undone >= UNDONE_MAX;
        assert_eq!(self.is_set(self.pause), self.step != Step::None || is_full, "pause after cycle {cycle}");
        assert!(self.flushes == self.completions + u64::from(self.step == Step::Flushed), "one flush each");
        Ok(())
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn run_until_complete(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while !self.tags.is_empty() {
            assert!(self.bench.cycles() < end, "{} invalidations after {limit_cycles} cycles", self.tags.len());
            self.cycle()?;
        }
        Ok(())
    }
}

const NO_STALLS: [Stall; 2] = [Stall::NEVER; 2];

#[test]
fn an_invalidation_of_an_idle_engine_takes_its_time_and_no_more() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 1, QUIET, NO_STALLS)?;
        rig.run(10)?;
        for _ in 0..5 {
            rig.push()?;
        }
        rig.run_until_complete(100)?;
        for (accepted, offered) in &rig.times {
            assert_eq!(offered - accepted, LATENCY_CYCLES);
        }
        // The next one is accepted in the cycle after the completion is taken.
        assert!(rig.times.windows(2).all(|pair| pair[1].0 == pair[0].1 + 1), "{:?}", rig.times);
        rig.run(20)?;
    }
    Ok(())
}

#[test]
fn it_waits_for_requests_in_flight() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 2, Chances { request: 100, done: 100, ..QUIET }, NO_STALLS)?;
        rig.run(10)?;
        rig.push()?;
        rig.run(500)?;
        assert!(rig.in_flight > 0);
        assert_eq!((rig.step, rig.flushes), (Step::Draining, 0));
        rig.chances.finish = 100;
        rig.run_until_complete(100)?;
    }
    Ok(())
}

#[test]
fn it_waits_for_dma_that_is_not_reported_done() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 3, Chances { request: 100, finish: 100, ..QUIET }, NO_STALLS)?;
        rig.run(10)?;
        rig.push()?;
        rig.run(500)?;
        if rig.is_tracking {
            assert_eq!(rig.in_flight, 0);
            assert!(rig.undone > 0);
            assert_eq!((rig.step, rig.flushes), (Step::Draining, 0));
            // All but one are not enough.
            while rig.undone > 1 {
                rig.chances = Chances { done: 100, ..QUIET };
                rig.cycle()?;
            }
            rig.chances = QUIET;
            rig.run(100)?;
            assert_eq!(rig.flushes, 0);
            rig.chances.done = 100;
            rig.run_until_complete(100)?;
        } else {
            assert_eq!(rig.completions, 1, "undone responses are the caller's to drain");
        }
    }
    Ok(())
}

#[test]
fn it_waits_for_other_work() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 4, Chances { other_begins: 100, other_ends: 0, ..QUIET }, NO_STALLS)?;
        rig.run(10)?;
        rig.push()?;
        rig.run(500)?;
        assert_eq!((rig.step, rig.flushes), (Step::Draining, 0));
        rig.chances = QUIET;
        rig.run_until_complete(100)?;
    }
    Ok(())
}

#[test]
fn it_waits_for_the_caches() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 5, QUIET, NO_STALLS)?;
        for busy_cycles in 1..40 {
            rig.push()?;
            while rig.step != Step::Flushed {
                rig.cycle()?;
                assert!(rig.bench.cycles() < 10_000, "no flush");
            }
            let busy_until = rig.bench.cycles() + busy_cycles;
            rig.caches_busy_cycles = busy_cycles;
            rig.run_until_complete(busy_cycles + 20)?;
            let (_, offered) = *rig.times.last().expect("it completed");
            assert!(offered > busy_until && offered <= busy_until + 5, "{offered}, busy until {busy_until}");
        }
    }
    Ok(())
}

#[test]
fn a_report_that_belongs_to_nothing_is_ignored() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::FENCE, 6, Chances { stray_done: 100, ..QUIET }, NO_STALLS)?;
    rig.run(100)?;
    // As many responses as there were reports: none of them is done.
    rig.chances = Chances { request: 100, finish: 100, ..QUIET };
    rig.run(50)?;
    assert!(rig.undone > 0);
    rig.push()?;
    rig.run(300)?;
    assert_eq!(rig.flushes, 0);
    rig.chances = Chances { finish: 100, done: 100, ..QUIET };
    rig.run_until_complete(200)
}

#[test]
fn any_traffic_is_fenced() -> Result<(), Error> {
    let cases = [
        BUSY,
        Chances { stray_done: 30, ..BUSY },
        Chances { request: 100, finish: 100, done: 100, ..BUSY },
        Chances { request: 10, finish: 5, done: 5, stray_done: 50, other_begins: 5, other_ends: 10 },
        Chances { request: 20, finish: 30, done: 40, stray_done: 100, other_begins: 1, other_ends: 90 },
    ];
    for design in DESIGNS {
        for (case, chances) in cases.into_iter().enumerate() {
            let stalls = [Stall::percent(20).up_to(50), Stall::percent(50).up_to(5)];
            let mut rig = Rig::new(design, 10 + case as u64, chances, stalls)?;
            rig.flush_cycles_max = 30;
            for _ in 0..150 {
                rig.push()?;
                let cycles = rig.random.random_range(0..100);
                rig.run(cycles)?;
            }
            rig.run_until_complete(200_000)?;
            assert_eq!((rig.completions, rig.flushes), (150, 150));
        }
    }
    Ok(())
}

#[test]
fn admission_pauses_where_too_many_responses_are_undone() -> Result<(), Error> {
    let flow = Chances { request: 100, finish: 100, ..QUIET };
    let mut rig = Rig::new(&dut::FENCE, 20, flow, NO_STALLS)?;
    // Some thousand requests are in flight when it fills up.
    rig.chances.finish = 0;
    rig.run(5_000)?;
    rig.chances.finish = 100;
    // Every cycle checks `pause` against the count of undone responses.
    rig.run(UNDONE_MAX + 100)?;
    assert!(rig.is_set(rig.pause));
    rig.run(5_000)?;
    assert_eq!(rig.in_flight, 0);
    assert!(rig.undone > UNDONE_MAX + 4_000, "{} undone", rig.undone);
    rig.chances = Chances { done: 100, ..QUIET };
    while rig.undone >= UNDONE_MAX {
        rig.cycle()?;
        assert!(rig.bench.cycles() < 100_000, "{} undone", rig.undone);
    }
    rig.run(2)?;
    assert!(!rig.is_set(rig.pause));
    rig.push()?;
    rig.run_until_complete(UNDONE_MAX + 100)
}

#[test]
fn reset_forgets_the_invalidation_in_progress() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 30, BUSY, NO_STALLS)?;
        for cycles in 0..60 {
            rig.push()?;
            rig.run(cycles)?;
            rig.reset()?;
            rig.flushes = 0;
            rig.completions = 0;
            rig.run(30)?;
            rig.push()?;
            rig.run_until_complete(2000)?;
        }
    }
    Ok(())
}
