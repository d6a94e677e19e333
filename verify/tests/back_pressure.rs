//! A consumer that never takes its answers holds up nobody else.

use keywalk_cosim::{ContextLookup, EngineOptions, Stall, dut};
use keywalk_verify::hardware;
use keywalk_verify::scenario::Scenario;

/// Answers that the context port holds.
const CONTEXT_PLACES: u16 = 16;
const REQUESTS: u16 = 300;

#[test]
fn answers_that_nobody_takes_from_the_context_port_hold_up_no_request() {
    let dut = &dut::SMALL;
    let config = dut.config().expect("the engine was generated");
    for seed in 0..10 {
        let mut scenario = Scenario::draw(7000 + seed, &config);
        // Nothing is taken from any port but the response port: the longest wait is longer than the test.
        let response_stall = Stall::percent(100).up_to(60_000);
        let options = EngineOptions { seed, response_stall, ..EngineOptions::default() };
        let mut engine = scenario.engine(dut, options).expect("the engine starts");
        engine.response_sink().set_stall(Stall::NEVER);
        for tag in 0..2 * CONTEXT_PLACES {
            let lookup = ContextLookup { tag, function: 0, table: 1, index: 1 };
            engine.submit_context(&lookup).expect("a legal lookup");
        }
        engine.run(2_000).expect("the bus rules hold");
        for tag in 0..REQUESTS {
            let request = scenario.request(tag);
            engine.submit(&hardware::request(&request, tag)).expect("a legal request");
        }
        engine
            .run_until("every request is answered", 40_000, |engine| engine.responses().len() == usize::from(REQUESTS))
            .unwrap_or_else(|error| panic!("seed {seed}: {} answered, {error}", engine.responses().len()));
        assert!(engine.context_answers().len() <= 1, "the context port was to be blocked");
    }
}

#[test]
fn every_seed_draws_a_scenario() {
    for dut in [&dut::SMALL, &dut::DEFAULT] {
        let config = dut.config().expect("the engine was generated");
        for seed in 0..3_000 {
            let _ = Scenario::draw(seed, &config);
        }
    }
}
