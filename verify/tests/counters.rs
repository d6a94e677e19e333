//! Counters of the whole engine agree with each other and with what the bench saw.

use keywalk_contract::regs::{ArrayName, CounterName};
use keywalk_contract::{Config, Status};
use keywalk_cosim::{EngineOptions, dut};
use keywalk_verify::scenario::Scenario;

#[test]
fn the_counters_of_a_run_add_up() {
    for dut in [&dut::SMALL, &dut::DEFAULT] {
        let config: Config = dut.config().expect("the engine was generated");
        for seed in 0..3 {
            let mut scenario = Scenario::draw(seed, &config);
            let mut engine = scenario.engine(dut, EngineOptions::rough(30, seed)).expect("the engine starts");
            let outcome = scenario.run(&mut engine, 1_000, 100).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let statuses = engine.counters(ArrayName::Statuses).expect("registers answer");
            for (status, count) in Status::ALL.iter().zip(&statuses) {
                let seen = outcome.statuses.get(status.name()).copied().unwrap_or_default();
                assert_eq!(*count, seen as u64, "{}", status.name());
            }
            let mut counter = |name| engine.counter(name).expect("registers answer");
            assert_eq!(counter(CounterName::Requests), 1_000);
            let errors = counter(CounterName::Errors);
            let tlb_misses = counter(CounterName::TlbMisses);
            assert_eq!(counter(CounterName::StrayReports), 0);
            assert_eq!(errors, 1_000 - statuses[0]);
            assert_eq!(engine.counters(ArrayName::Latencies).expect("registers answer").iter().sum::<u64>(), 1_000);
            let functions: Vec<_> = (0..=(1u16 << config.function_bits) - 1)
                .map(|function| engine.function_counters(function as u8).expect("registers answer"))
                .collect();
            assert_eq!(functions.iter().map(|function| function.requests).sum::<u64>(), 1_000);
            assert_eq!(functions.iter().map(|function| function.errors).sum::<u64>(), errors);
            assert_eq!(functions.iter().map(|function| function.tlb_misses).sum::<u64>(), tlb_misses);
            assert_eq!(engine.in_flight().expect("registers answer"), (0, 0));
        }
    }
}
