//! The whole engine on random tables: every answer equals the golden model's, at several memory latencies.

use keywalk_cosim::{Dut, EngineOptions, dut};
use keywalk_verify::scenario::{Outcome, Scenario};

/// Runs the scenarios of some seeds. The surroundings go from ideal to rough.
fn run(dut: &'static Dut, seeds: std::ops::Range<u64>) -> Outcome {
    let config = dut.config().expect("the engine was generated");
    let mut total = Outcome::default();
    for seed in seeds {
        let options = match seed % 4 {
            0 => EngineOptions { seed, ..EngineOptions::default() },
            1 => EngineOptions::rough(1, seed),
            2 => EngineOptions::rough(40, seed),
            _ => EngineOptions::rough(250, seed),
        };
        let mut scenario = Scenario::draw(seed, &config);
        let outcome = scenario
            .engine(dut, options)
            .map_err(Into::into)
            .and_then(|mut engine| scenario.run(&mut engine, 400, 100))
            .unwrap_or_else(|error| panic!("{} engine, seed {seed}: {error}", dut.name));
        assert_eq!((outcome.responses, outcome.context_answers), (400, 100), "seed {seed}");
        total.responses += outcome.responses;
        for (status, count) in outcome.statuses {
            *total.statuses.entry(status).or_default() += count;
        }
    }
    total
}

#[test]
fn the_default_engine_answers_as_the_model() {
    let outcome = run(&dut::DEFAULT, 0..60);
    assert!(outcome.statuses["ok"] > outcome.responses / 3, "{outcome:?}");
}

#[test]
fn the_engine_with_responses_in_order_answers_as_the_model() {
    let outcome = run(&dut::SMALL_ORDERED, 2000..2060);
    assert!(outcome.statuses["ok"] > outcome.responses / 3, "{outcome:?}");
}

#[test]
fn the_small_engine_answers_as_the_model() {
    let outcome = run(&dut::SMALL, 1000..1120);
    assert!(outcome.statuses["ok"] > outcome.responses / 3, "{outcome:?}");
    // Every status that a table or a request can cause was seen.
    for status in keywalk_contract::Status::ALL {
        let needs_silence = matches!(status.name(), "hem_timeout" | "mtr_timeout");
        assert!(needs_silence || outcome.statuses.contains_key(status.name()), "never seen: {}", status.name());
    }
}
