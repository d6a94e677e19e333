//! Block `modulo`.

use keywalk_cosim::{Bench, Error, Input, Output, dut};
use rand::RngExt;

/// Cycles from the beginning to the remainder, without a shift.
const LATENCY_CYCLES: u64 = 34;

struct Fixture {
    bench: Bench,
    inputs: [Input; 4],
    valid: Output,
    remainder: Output,
}

impl Fixture {
    fn new(seed: u64) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::MODULO, seed);
        let model = bench.model();
        let inputs =
            [model.input("in_valid")?, model.input("in_value")?, model.input("in_shift")?, model.input("in_divisor")?];
        let (valid, remainder) = (model.output("out_valid")?, model.output("out_remainder")?);
        bench.reset(2)?;
        Ok(Self { bench, inputs, valid, remainder })
    }

    fn drive(&mut self, values: [u64; 4]) {
        for (input, value) in self.inputs.into_iter().zip(values) {
            self.bench.model_mut().set(input, value);
        }
    }

    /// Divides and compares; gives the cycles that it took. The next division may follow at once.
    fn check(&mut self, value: u32, shift: u32, divisor: u32) -> Result<u64, Error> {
        self.drive([1, value.into(), shift.into(), divisor.into()]);
        let start = self.bench.cycles();
        let valid = self.valid;
        self.bench.run_until("a remainder", LATENCY_CYCLES + 1, |bench| bench.model().get(valid) == 1)?;
        let cycles = self.bench.cycles() - start;
        let expected = (value >> shift) % divisor;
        assert_eq!(self.bench.model().get(self.remainder), expected.into(), "({value} >> {shift}) % {divisor}");
        self.bench.cycle()?;
        Ok(cycles)
    }
}

#[test]
fn every_small_division_is_right() -> Result<(), Error> {
    let mut fixture = Fixture::new(1)?;
    for divisor in 1..=40 {
        for value in 0..100 {
            fixture.check(value, 0, divisor)?;
        }
    }
    Ok(())
}

#[test]
fn every_divisor_is_right_at_the_multiples_and_the_ends() -> Result<(), Error> {
    let mut fixture = Fixture::new(2)?;
    let mut random = fixture.bench.random();
    for divisor in 1..=1024 {
        let last = u32::MAX / divisor * divisor;
        let multiple = random.random_range(0..=u32::MAX / divisor) * divisor;
        let values = [0, divisor - 1, divisor, multiple, multiple.wrapping_sub(1), last, u32::MAX, random.random()];
        for value in values {
            fixture.check(value, 0, divisor)?;
        }
    }
    Ok(())
}

#[test]
fn every_shift_is_right() -> Result<(), Error> {
    let mut fixture = Fixture::new(3)?;
    let mut random = fixture.bench.random();
    for shift in 0..32 {
        for value in [u32::MAX, 1 << shift, random.random(), random.random()] {
            for divisor in [1, 3, 1023, 1024, random.random_range(1..=1024)] {
                fixture.check(value, shift, divisor)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_division_takes_a_cycle_for_each_bit_that_is_left() -> Result<(), Error> {
    let mut fixture = Fixture::new(4)?;
    for shift in [0, 1, 6, 31] {
        assert_eq!(fixture.check(u32::MAX, shift, 17)?, LATENCY_CYCLES - u64::from(shift));
    }
    Ok(())
}

#[test]
fn the_input_may_go_after_the_remainder_and_come_at_any_time() -> Result<(), Error> {
    let mut fixture = Fixture::new(5)?;
    for pause_cycles in 0..40 {
        fixture.drive([0, 77, 3, 5]);
        for _ in 0..pause_cycles {
            assert_eq!(fixture.bench.model().get(fixture.valid), 0);
            fixture.bench.cycle()?;
        }
        fixture.check(1_000_000, 0, 7)?;
    }
    Ok(())
}

#[test]
fn reset_drops_the_division_under_way() -> Result<(), Error> {
    let mut fixture = Fixture::new(6)?;
    for cycles in 0..40 {
        fixture.drive([1, 1_000_000, 0, 7]);
        fixture.bench.run(cycles)?;
        fixture.drive([0; 4]);
        fixture.bench.reset(2)?;
        fixture.check(100, 0, 12)?;
        fixture.check(5, 0, 12)?;
        fixture.drive([0; 4]);
        for _ in 0..40 {
            assert_eq!(fixture.bench.model().get(fixture.valid), 0, "a division survived a reset");
            fixture.bench.cycle()?;
        }
    }
    Ok(())
}
