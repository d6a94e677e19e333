//! Block `modulo`.

use keywalk_cosim::{Bench, Error, Handle, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;

/// Cycles from acceptance to the remainder.
const LATENCY_CYCLES: u64 = 17;

struct Fixture {
    bench: Bench,
    input: Handle<StreamDriver>,
    output: Handle<StreamSink>,
}

impl Fixture {
    fn new(seed: u64, input_stall: Stall, output_stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::MODULO, seed);
        let input = bench.driver("in", input_stall)?;
        let output = bench.sink("out", output_stall)?;
        bench.reset(2)?;
        Ok(Self { bench, input, output })
    }

    fn push(&mut self, value: u32, divisor: u32) -> Result<(), Error> {
        self.bench[self.input].push_fields(&[("value", value.into()), ("divisor", divisor.into())])
    }

    /// Divides all pairs and compares; each may take `limit_cycles`.
    fn check(&mut self, pairs: &[(u32, u32)], limit_cycles: u64) -> Result<(), Error> {
        for (value, divisor) in pairs {
            self.push(*value, *divisor)?;
        }
        for (value, divisor) in pairs {
            let output = self.output;
            self.bench.run_until("a remainder", limit_cycles, |bench| !bench[output].is_empty())?;
            let received = self.bench[output].pop().expect("there is a remainder");
            assert_eq!(received.get("remainder")?, u128::from(value % divisor), "{value} % {divisor}");
        }
        Ok(())
    }
}

#[test]
fn every_small_division_is_right() -> Result<(), Error> {
    let pairs: Vec<_> = (1..=40).flat_map(|divisor| (0..100).map(move |value| (value, divisor))).collect();
    Fixture::new(1, Stall::NEVER, Stall::NEVER)?.check(&pairs, 20)
}

#[test]
fn every_divisor_is_right_at_the_multiples_and_the_ends() -> Result<(), Error> {
    let mut fixture = Fixture::new(2, Stall::NEVER, Stall::NEVER)?;
    let mut random = fixture.bench.random();
    let mut pairs = Vec::new();
    for divisor in 1..=1024 {
        let last = u32::MAX / divisor * divisor;
        let multiple = random.random_range(0..=u32::MAX / divisor) * divisor;
        let values = [0, divisor - 1, divisor, multiple, multiple.wrapping_sub(1), last, u32::MAX, random.random()];
        pairs.extend(values.map(|value| (value, divisor)));
    }
    fixture.check(&pairs, 20)
}

#[test]
fn waiting_changes_nothing() -> Result<(), Error> {
    let mut fixture = Fixture::new(3, Stall::percent(50).up_to(20), Stall::percent(50).up_to(20))?;
    let mut random = fixture.bench.random();
    let pairs: Vec<_> = (0..500).map(|_| (random.random(), random.random_range(1..=1024))).collect();
    fixture.check(&pairs, 500)
}

#[test]
fn a_division_takes_17_cycles_and_the_next_one_follows() -> Result<(), Error> {
    let mut fixture = Fixture::new(4, Stall::NEVER, Stall::NEVER)?;
    fixture.bench[fixture.input].record_acceptances();
    for _ in 0..10 {
        fixture.push(u32::MAX, 17)?;
    }
    let output = fixture.output;
    fixture.bench.run_until("ten remainders", 10 * (LATENCY_CYCLES + 1) + 2, |bench| bench[output].len() == 10)?;
    let mut before = None;
    while let Some(received) = fixture.bench[output].pop() {
        let accepted = fixture.bench[fixture.input].pop_acceptance().expect("it was accepted");
        assert_eq!(received.valid_cycle - accepted, LATENCY_CYCLES);
        assert!(before.is_none_or(|before| accepted - before == LATENCY_CYCLES + 1));
        before = Some(accepted);
    }
    Ok(())
}

#[test]
fn reset_drops_the_division_under_way() -> Result<(), Error> {
    let mut fixture = Fixture::new(5, Stall::NEVER, Stall::NEVER)?;
    for cycles in 0..20 {
        fixture.push(1_000_000, 7)?;
        fixture.bench.run(cycles)?;
        fixture.bench.reset(2)?;
        fixture.check(&[(100, 12), (5, 12)], 20)?;
        fixture.bench.run(30)?;
        assert!(fixture.bench[fixture.output].is_empty(), "a division survived a reset after {cycles} cycles");
    }
    Ok(())
}
