//! All vectors on the RTL, with memories of several latencies that answer out of order.

use crate::support::{run_vectors, vectors};

/// Requires that all vectors pass.
#[track_caller]
fn all_pass(options: &str) {
    let outcome = run_vectors(&format!("--dut rtl {options}"), &vectors());
    outcome.expect(0, &["responses against the golden model, beat by beat: ", "pass  pbl_4g_4k_hop2"]);
    assert_eq!(outcome.summary(), "21283 passed, 0 failed");
    assert!(outcome.out.lines().filter(|line| line.starts_with("pass  ")).all(|line| line.ends_with(" cycles")));
}

#[test]
fn all_vectors_pass_at_latency_1() {
    all_pass("--latency 1 --reorder");
}

#[test]
fn all_vectors_pass_at_latency_40() {
    all_pass("--latency 40 --reorder");
}

/// The 4 GiB of 4 KiB pages are sampled: they take long at this latency, and the others have asked for them.
#[test]
fn all_vectors_pass_at_latency_250() {
    all_pass("--latency 250 --reorder --whole-pages-max 20000");
}

#[test]
fn all_vectors_pass_with_random_latency_and_stalls_everywhere() {
    all_pass("--latency 1..60 --reorder --stall --seed 5 --whole-pages-max 20000");
}

#[test]
fn all_vectors_pass_on_the_smallest_engine() {
    all_pass("--preset small --latency 1..60 --reorder --stall --seed 6 --whole-pages-max 20000");
}

#[test]
fn all_vectors_pass_with_responses_in_order() {
    all_pass("--preset small_ordered --latency 1..60 --reorder --stall --seed 7 --whole-pages-max 20000");
}

#[test]
fn the_same_seed_takes_the_same_cycles() {
    let path = vectors().join("mix_03.json");
    let options = "--dut rtl --latency 10..90 --reorder --stall --seed 9";
    let first = run_vectors(options, &path);
    first.expect(0, &[]);
    assert_eq!(first.out, run_vectors(options, &path).out);
}
