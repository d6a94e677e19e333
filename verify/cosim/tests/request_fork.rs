//! `request_fork`: the engine and the data mover get every request once and in order, whatever either does.

use keywalk_contract::mover::operation;
use keywalk_contract::ports::request;
use keywalk_cosim::{Beat, Bench, Error, Handle, Stall, StreamDriver, StreamSink, bits, dut};

struct Fork {
    bench: Bench,
    request: Handle<StreamDriver>,
    engine: Handle<StreamSink>,
    operation: Handle<StreamSink>,
}

impl Fork {
    fn new(seed: u64, stalls: [Stall; 3]) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::REQUEST_FORK, seed);
        let request = bench.driver("request", stalls[0])?;
        let engine = bench.sink("engine", stalls[1])?;
        let operation = bench.sink("operation", stalls[2])?;
        bench.reset(4)?;
        Ok(Self { bench, request, engine, operation })
    }

    /// Offers so many random requests; gives them.
    fn offer(&mut self, count: usize) -> Vec<Vec<u32>> {
        let mut random = self.bench.random();
        (0..count)
            .map(|_| {
                let driver = &mut self.bench[self.request];
                let beat = Beat::random_with(driver.channel().shape(), &[], &mut random).expect("no field is given");
                let words = beat.words().to_vec();
                driver.push(beat);
                words
            })
            .collect()
    }

    /// Compares what both have got with what was offered.
    fn compare(&mut self, offered: &[Vec<u32>]) -> Result<(), Error> {
        for (number, words) in offered.iter().enumerate() {
            let received = self.bench[self.engine].pop().expect("the engine gets every request");
            assert_eq!(received.beat.words(), words, "request {number}");
            let received = self.bench[self.operation].pop().expect("the mover gets every operation");
            let operation = bits::get(received.beat.words(), 0, 8 * operation::LAYOUT.bytes);
            for (to, from) in [
                (operation::TAG, request::TAG),
                (operation::FUNCTION, request::FUNCTION),
                (operation::OPERATION, request::OPERATION),
            ] {
                let found = operation >> to.low & bits::max(to.width);
                assert_eq!(found, bits::get(words, from.low, from.width), "{} of request {number}", to.name);
            }
            assert_eq!(operation >> operation::PADDING.low, 0, "padding of request {number}");
        }
        self.bench.run(20)?;
        assert!(self.bench[self.engine].is_empty() && self.bench[self.operation].is_empty(), "more than was offered");
        Ok(())
    }
}

#[test]
fn both_get_every_request_once_and_in_order() -> Result<(), Error> {
    let often = Stall::percent(60).up_to(9);
    let seldom = Stall::percent(20).up_to(3);
    for (seed, stalls) in [
        [Stall::NEVER; 3],
        [seldom, often, Stall::NEVER],
        [seldom, Stall::NEVER, often],
        [often, seldom, seldom],
        [Stall::NEVER, often, often],
    ]
    .into_iter()
    .enumerate()
    {
        let mut fork = Fork::new(seed as u64, stalls)?;
        let offered = fork.offer(500);
        let (engine, operation) = (fork.engine, fork.operation);
        let is_done = move |bench: &Bench| bench[engine].len() == 500 && bench[operation].len() == 500;
        fork.bench.run_until("500 requests", 20_000, is_done)?;
        fork.compare(&offered)?;
    }
    Ok(())
}

#[test]
fn a_request_passes_in_every_cycle() -> Result<(), Error> {
    let mut fork = Fork::new(7, [Stall::NEVER; 3])?;
    let offered = fork.offer(300);
    let start = fork.bench.cycles();
    let (engine, operation) = (fork.engine, fork.operation);
    let is_done = move |bench: &Bench| bench[engine].len() == 300 && bench[operation].len() == 300;
    fork.bench.run_until("300 requests", 400, is_done)?;
    assert!(fork.bench.cycles() - start <= 302, "{} cycles", fork.bench.cycles() - start);
    fork.compare(&offered)
}

#[test]
fn neither_goes_ahead_by_more_than_two() -> Result<(), Error> {
    for which in [1, 2] {
        let mut stalls = [Stall::NEVER; 3];
        stalls[which] = Stall::percent(80).up_to(30);
        let mut fork = Fork::new(8, stalls)?;
        let offered = fork.offer(40);
        for _ in 0..8000 {
            fork.bench.cycle()?;
            let (engine, operation) =
                (fork.bench[fork.engine].received_total(), fork.bench[fork.operation].received_total());
            assert!(engine.abs_diff(operation) <= 2, "{engine} requests, {operation} operations");
        }
        fork.compare(&offered)?;
    }
    Ok(())
}

#[test]
fn a_reset_forgets_what_was_under_way() -> Result<(), Error> {
    let mut fork = Fork::new(9, [Stall::NEVER, Stall::percent(90).up_to(20), Stall::percent(90).up_to(20)])?;
    fork.offer(50);
    fork.bench.run(40)?;
    fork.bench.reset(3)?;
    while fork.bench[fork.engine].pop().is_some() || fork.bench[fork.operation].pop().is_some() {}
    let offered = fork.offer(50);
    let (engine, operation) = (fork.engine, fork.operation);
    let is_done = move |bench: &Bench| bench[engine].len() == 50 && bench[operation].len() == 50;
    fork.bench.run_until("50 requests", 20_000, is_done)?;
    fork.compare(&offered)
}
