//! The port that reports what came of responses.

use keywalk_cosim::{Bench, Error, Stall, dut};
use rand::RngExt;

/// Fields of an outcome, with the bits that are used here.
const FIELDS: [(&str, u32); 4] = [("tag", 16), ("function", 8), ("status", 3), ("refusal", 8)];

#[test]
fn every_outcome_is_reported_once_to_both_and_in_its_order() -> Result<(), Error> {
    for (seed, stall) in [(1, Stall::NEVER), (2, Stall::percent(50).up_to(5))] {
        let mut bench = Bench::new(&dut::COMPLETION_PORT, seed);
        let inputs = [bench.driver("read_outcome", stall)?, bench.driver("write_outcome", stall)?];
        let (completion, done) = (bench.sink("completion", stall)?, bench.sink("done", stall)?);
        bench.reset(3)?;
        let mut random = bench.random();
        // The highest bit of the tag tells the source.
        let mut expected = [Vec::new(), Vec::new()];
        for number in 0..400u128 {
            let source = number as usize % 2;
            let outcome = FIELDS.map(|(name, bits)| (name, u128::from(random.random::<u16>()) & ((1 << bits) - 1)));
            let tag = outcome[0].1 & 0x7fff | (source as u128) << 15;
            let outcome = [("tag", tag), outcome[1], outcome[2], outcome[3]];
            bench[inputs[source]].push_fields(&outcome)?;
            expected[source].push(outcome);
        }
        let start = bench.cycles();
        bench.run_until("400 reports", 10_000, |bench| bench[completion].len() == 400 && bench[done].len() == 400)?;
        let cycles = bench.cycles() - start;
        assert!(stall != Stall::NEVER || cycles <= 410, "{cycles} cycles for 200 outcomes of each kind");
        let mut next = [0; 2];
        for _ in 0..400 {
            let (full, short) = (bench[completion].pop().expect("400"), bench[done].pop().expect("400"));
            let source = (full.get("tag")? >> 15) as usize;
            for (name, value) in expected[source][next[source]] {
                assert_eq!(full.get(name)?, value, "{name}");
            }
            assert_eq!((short.get("tag")?, short.get("function")?), (full.get("tag")?, full.get("function")?));
            next[source] += 1;
        }
    }
    Ok(())
}

/// A port that one of the two is not taken from takes nothing more, and goes on later.
#[test]
fn neither_report_runs_ahead_for_ever() -> Result<(), Error> {
    for blocked in ["completion", "done"] {
        let mut bench = Bench::new(&dut::COMPLETION_PORT, 3);
        let input = bench.driver("read_outcome", Stall::NEVER)?;
        let (completion, done) = (bench.sink("completion", Stall::NEVER)?, bench.sink("done", Stall::NEVER)?);
        bench.reset(3)?;
        let sink = if blocked == "done" { done } else { completion };
        bench[sink].set_stall(Stall::percent(100).up_to(u16::MAX));
        bench.run(20)?;
        for tag in 0..50 {
            bench[input].push_fields(&[("tag", tag)])?;
        }
        bench.run(300)?;
        assert!(bench[input].accepted() < 20, "{blocked}: {}", bench[input].accepted());
        bench[sink].set_stall(Stall::NEVER);
        bench.run_until("50 reports", 300, |bench| bench[completion].len() == 50 && bench[done].len() == 50)?;
    }
    Ok(())
}

/// From an outcome to both reports, as documented.
#[test]
fn reports_come_two_cycles_after_the_outcome_is_taken() -> Result<(), Error> {
    let mut bench = Bench::new(&dut::COMPLETION_PORT, 4);
    let input = bench.driver("read_outcome", Stall::NEVER)?;
    let (completion, done) = (bench.sink("completion", Stall::NEVER)?, bench.sink("done", Stall::NEVER)?);
    bench.reset(3)?;
    bench[input].record_acceptances();
    bench[input].push_fields(&[("tag", 5)])?;
    bench.run_until("both", 20, |bench| !bench[completion].is_empty() && !bench[done].is_empty())?;
    let accepted = bench[input].pop_acceptance().expect("it was accepted");
    for sink in [completion, done] {
        assert_eq!(bench[sink].pop().expect("there is one").valid_cycle - accepted, 2);
    }
    Ok(())
}
