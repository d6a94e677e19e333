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
            assert_eq!(counter(CounterName::Segments), outcome.beats as u64);
            assert_eq!(counter(CounterName::ContextRequests), 100);
            assert_eq!(counter(CounterName::Invalidations), 0);
            // Every read of a lookup or walk is a read on the port or joins one.
            let hem_reads =
                [CounterName::HemReads0, CounterName::HemReads1, CounterName::HemReads2, CounterName::HemReads3];
            let mtr_reads = [CounterName::MtrReads0, CounterName::MtrReads1, CounterName::MtrReads2];
            let [hem_reads, mtr_reads] =
                [&hem_reads[..], &mtr_reads].map(|names| names.iter().map(|name| counter(*name)).sum::<u64>());
            let table_reads = counter(CounterName::TableReads);
            assert_eq!(hem_reads + mtr_reads, table_reads + counter(CounterName::TableReadsMerged));
            assert!(counter(CounterName::TableReadErrors) <= table_reads);
            // Every request looks its entry up, again where it was fetched; so do context lookups the pointers.
            let (mpt_hits, mpt_misses) = (counter(CounterName::MptHits), counter(CounterName::MptMisses));
            assert!(mpt_hits + mpt_misses <= 1_000, "{mpt_hits} and {mpt_misses}");
            let (hem_hits, hem_misses) = (counter(CounterName::HemHits), counter(CounterName::HemMisses));
            assert!(hem_hits + hem_misses <= 2 * mpt_misses + 100, "{hem_hits} and {hem_misses}");
            // Pages and pointers come in lines of eight.
            for (evictions, lines) in [
                (CounterName::MptEvictions, 2 * mpt_misses),
                (CounterName::HemEvictions, hem_reads),
                (CounterName::TlbEvictions, 8 * mtr_reads),
                (CounterName::MtrLowerEvictions, 8 * mtr_reads),
                (CounterName::MtrUpperEvictions, 8 * mtr_reads),
                (CounterName::MtrLowerHits, mtr_reads),
                (CounterName::MtrLowerMisses, mtr_reads),
                (CounterName::MtrUpperHits, mtr_reads),
                (CounterName::MtrUpperMisses, mtr_reads),
            ] {
                let count = counter(evictions);
                assert!(count <= lines, "{evictions:?}: {count} of {lines}");
            }
            let (faults, lost) = (counter(CounterName::Faults), counter(CounterName::FaultsLost));
            assert!(faults > 0 && faults + lost <= errors + 100, "{faults} and {lost} of {errors}");
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
            assert_eq!(engine.memory().accepted(), table_reads);
            assert_eq!(engine.in_flight().expect("registers answer"), (0, 0));
        }
    }
}
