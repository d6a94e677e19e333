//! The fault port: order of events, and that those that do not fit are counted.

use std::collections::VecDeque;

use keywalk_cosim::{Beat, Bench, Error, Handle, Output, Stall, StreamDriver, StreamSink, dut};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Cycles from an event to the fault port.
const LATENCY_CYCLES: u64 = 2;

/// Waits for longer than any test takes, nearly from the start.
const BLOCKED: Stall = Stall::percent(100).up_to(60_000);

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    responses: Handle<StreamDriver>,
    contexts: Handle<StreamDriver>,
    faults: Handle<StreamSink>,
    sent: Output,
    lost: Output,
    /// Events that the queue holds in its memory; one more stands at the port.
    depth: u64,
    /// Events that were pushed, in order, per source.
    pushed_responses: VecDeque<Beat>,
    pushed_contexts: VecDeque<Beat>,
    /// Events that are to come out, with the cycle in which they went in.
    expected: VecDeque<(Beat, u64)>,
    lost_events: u64,
    received: u64,
}

impl Rig {
    fn new(seed: u64, stalls: [Stall; 3]) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::FAULT, seed);
        let config = dut::FAULT.config().expect("the block is generated from a configuration");
        let [response_stall, context_stall, fault_stall] = stalls;
        let mut rig = Self {
            random: bench.random(),
            responses: bench.driver("response_event", response_stall)?,
            contexts: bench.driver("context_event", context_stall)?,
            faults: bench.sink("fault", fault_stall)?,
            sent: bench.model().output("sent")?,
            lost: bench.model().output("lost")?,
            depth: config.fault_depth.into(),
            pushed_responses: VecDeque::new(),
            pushed_contexts: VecDeque::new(),
            expected: VecDeque::new(),
            lost_events: 0,
            received: 0,
            bench,
        };
        rig.bench.reset(2)?;
        Ok(rig)
    }

    fn event(&mut self) -> Result<Beat, Error> {
        let shape = self.bench[self.responses].channel().shape().clone();
        Beat::random_with(&shape, &[], &mut self.random)
    }

    fn push_response(&mut self) -> Result<(), Error> {
        let event = self.event()?;
        self.pushed_responses.push_back(event.clone());
        self.bench[self.responses].push(event);
        Ok(())
    }

    fn push_context(&mut self) -> Result<(), Error> {
        let event = self.event()?;
        // The fields of both channels are the same.
        let shape = self.bench[self.contexts].channel().shape().clone();
        let mut context = Beat::zero(&shape);
        context.words_mut().copy_from_slice(event.words());
        self.pushed_contexts.push_back(event);
        self.bench[self.contexts].push(context);
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let accepted = |rig: &Self| [rig.bench[rig.responses].accepted(), rig.bench[rig.contexts].accepted()];
        let before = accepted(self);
        self.bench.cycle()?;
        let after = accepted(self);
        let came = match [after[0] - before[0], after[1] - before[1]] {
            [0, 0] => None,
            [1, 0] => self.pushed_responses.pop_front(),
            [0, 1] => self.pushed_contexts.pop_front(),
            both => panic!("{both:?} events were taken in one cycle"),
        };
        let is_lost = self.bench.model().get(self.lost) == 1;
        if is_lost {
            assert!(came.is_some(), "nothing came in cycle {cycle}, but an event is reported lost");
            assert!(self.expected.len() as u64 >= self.depth, "lost with {} events held", self.expected.len());
            self.lost_events += 1;
        } else if let Some(event) = came {
            self.expected.push_back((event, cycle));
            assert!(self.expected.len() as u64 <= self.depth + 1 + u64::from(!self.bench[self.faults].is_empty()));
        }
        let mut sent = 0;
        while let Some(received) = self.bench[self.faults].pop() {
            let (event, entered) = self.expected.pop_front().expect("nothing comes out that did not go in");
            assert_eq!(received.beat.words(), event.words(), "{:?}, expected {event:?}", received.beat);
            assert!(received.valid_cycle >= entered + LATENCY_CYCLES);
            self.received += 1;
            sent += 1;
        }
        assert_eq!(self.bench.model().get(self.sent), sent, "sent in cycle {cycle}");
        Ok(())
    }

    fn run_until_quiet(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while !(self.pushed_responses.is_empty() && self.pushed_contexts.is_empty() && self.expected.is_empty()) {
            assert!(self.bench.cycles() < end, "{} events wait after {limit_cycles} cycles", self.expected.len());
            self.cycle()?;
        }
        for _ in 0..10 {
            self.cycle()?;
        }
        Ok(())
    }
}

#[test]
fn events_come_out_in_order_or_are_counted() -> Result<(), Error> {
    let often = Stall::percent(50);
    let long = Stall::percent(20).up_to(20);
    let cases = [
        [Stall::NEVER, Stall::NEVER, Stall::NEVER],
        [often, often, Stall::NEVER],
        [often, often, often],
        [long, long, Stall::percent(80).up_to(10)],
        [Stall::percent(90), Stall::percent(90), long],
    ];
    for (case, stalls) in cases.into_iter().enumerate() {
        let mut rig = Rig::new(case as u64, stalls)?;
        for _ in 0..1000 {
            rig.push_response()?;
            rig.push_context()?;
        }
        rig.run_until_quiet(20_000)?;
        assert_eq!(rig.received + rig.lost_events, 2000);
        // Without a wait at the port nothing is lost.
        assert_eq!(rig.lost_events == 0, stalls[2] == Stall::NEVER, "{} events lost", rig.lost_events);
        assert_ne!(rig.received, 0);
    }
    Ok(())
}

#[test]
fn a_blocked_port_keeps_the_oldest_events_and_loses_the_rest() -> Result<(), Error> {
    let mut rig = Rig::new(10, [Stall::NEVER, Stall::NEVER, BLOCKED])?;
    let sink = rig.faults;
    for _ in 0..50 {
        rig.push_response()?;
        rig.push_context()?;
    }
    for _ in 0..150 {
        rig.cycle()?;
    }
    assert_eq!(rig.received, 0);
    // The queue's memory and the port's register.
    assert_eq!(rig.expected.len() as u64, rig.depth + 1);
    assert_eq!(rig.lost_events, 100 - (rig.depth + 1));
    rig.bench[sink].set_stall(Stall::NEVER);
    rig.run_until_quiet(100)
}

#[test]
fn an_event_of_a_response_goes_before_one_of_a_context() -> Result<(), Error> {
    let mut rig = Rig::new(11, [Stall::NEVER; 3])?;
    rig.push_context()?;
    for _ in 0..20 {
        rig.push_response()?;
    }
    for _ in 0..20 {
        rig.cycle()?;
        assert_eq!(rig.pushed_contexts.len(), 1, "the event of a context is taken too early");
    }
    rig.cycle()?;
    assert_eq!(rig.pushed_contexts.len(), 0);
    rig.run_until_quiet(20)
}

#[test]
fn an_event_takes_two_cycles_and_one_follows_per_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(12, [Stall::NEVER; 3])?;
    for _ in 0..100 {
        rig.push_response()?;
    }
    let start = rig.bench.cycles();
    while rig.received < 100 {
        rig.cycle()?;
        assert!(rig.bench.cycles() - start <= 100 + LATENCY_CYCLES, "{} of 100 events", rig.received);
    }
    assert_eq!(rig.bench.cycles() - start, 100 + LATENCY_CYCLES);
    Ok(())
}

#[test]
fn reset_drops_all_events() -> Result<(), Error> {
    let mut rig = Rig::new(13, [Stall::percent(30), Stall::percent(30), Stall::percent(70)])?;
    for _ in 0..30 {
        let rounds = rig.random.next_u32() % 30 + 5;
        for _ in 0..rounds {
            rig.push_response()?;
            rig.push_context()?;
        }
        for _ in 0..rounds {
            rig.cycle()?;
        }
        rig.bench.reset(2)?;
        rig.pushed_responses.clear();
        rig.pushed_contexts.clear();
        rig.expected.clear();
        // Whatever comes out now was not expected.
        rig.run_until_quiet(0)?;
        rig.push_context()?;
        rig.run_until_quiet(60)?;
    }
    Ok(())
}
