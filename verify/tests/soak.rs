//! The soak: a fixed one, determinism, shards, and that it finds, shrinks and replays a planted fault.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use keywalk_verify::coverage::Coverage;
use keywalk_verify::soak::{Case, Plan, Reduction, Trouble, replay_arguments, run, shrink, soak};
use serde_json::Value;

fn plan(first: u64, seeds: u64) -> Plan {
    Plan {
        first,
        seeds: Some(seeds),
        shard: (0, 1),
        time: None,
        dut: None,
        threads: 2,
        reduction: Reduction::default(),
        trace: None,
    }
}

fn verify(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keywalk-verify")).args(arguments).output().expect("it starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_fixed_soak_passes() {
    let outcome = soak(&plan(1, 24), |_| ());
    let first = outcome.failed.first().map(|failed| format!("seed {}: {}", failed.seed, failed.trouble));
    assert_eq!(first, None);
    assert_eq!(outcome.cases, 24);
    assert!(outcome.counts.requests > 10_000 && outcome.counts.invalidations > 200, "{:?}", outcome.counts);
    let unreachable: Vec<_> = outcome.coverage.wrong().into_iter().filter(|bin| bin.count > 0).collect();
    assert!(unreachable.is_empty(), "{unreachable:?}");
}

#[test]
fn a_seed_always_does_the_same() {
    for seed in [3, 10] {
        let case = Case::draw(seed, None).expect("the engine is there");
        let [first, second] = [(), ()].map(|()| {
            let mut coverage = Coverage::default();
            (run(&case, &mut coverage, None), coverage)
        });
        assert_eq!(first, second);
        assert!(first.0.expect("it passes").requests > 0);
    }
}

#[test]
fn every_seed_draws_a_case() {
    for seed in 0..40 {
        let case = Case::draw(seed, None).expect("the engine is there");
        let numbers = case.numbers();
        assert!(numbers.is_sorted() && numbers.len() == case.len() && case.len() >= 100);
        let some: Vec<_> = numbers.iter().copied().filter(|number| number % 7 == 0).collect();
        assert_eq!(case.keeping(&some).numbers(), some);
    }
}

#[test]
fn shards_add_up_to_the_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| path(directory.path(), name);
    for (name, shard) in [("whole.json", "1/1"), ("one.json", "1/2"), ("two.json", "2/2")] {
        let output = verify(&["soak", "--seeds", "5", "--seed", "50", "--shard", shard, "--json", &file(name)]);
        assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    }
    let output = verify(&["coverage", &file("one.json"), &file("two.json"), "--json", &file("sum.json")]);
    assert_eq!(output.status.code(), Some(1), "five cases cannot fill every bin");
    assert!(out(&output).contains("empty: "), "{}", out(&output));
    let [mut whole, mut sum]: [Value; 2] = ["whole.json", "sum.json"]
        .map(|name| serde_json::from_slice(&fs::read(file(name)).expect("it is there")).expect("it is JSON"));
    for value in [&mut whole, &mut sum] {
        value.as_object_mut().expect("an object").remove("seconds");
    }
    assert_eq!(whole, sum);
    assert_eq!(whole["cases"], 5);
}

#[test]
fn a_planted_fault_is_found_shrunk_and_replayed() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = path(directory.path(), "soak.json");
    let output = verify(&["soak", "--preset", "small_bounds_fault", "--seeds", "20", "--jobs", "1", "--json", &json]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FAILED: seed") && text.contains("shrunk in") && text.contains("waveform:"), "{text}");
    let file: Value = serde_json::from_slice(&fs::read(&json).expect("it is there")).expect("it is JSON");
    let failure = &file["failures"][0];
    assert_eq!(failure["kind"], "answer");

    // What is printed is what a user types: the program's arguments stand behind `--`.
    let command = failure["shrunk"].as_str().expect("it was shrunk");
    let (_, arguments) = command.split_once(" -- ").expect("a cargo command");
    let replayed = verify(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(replayed.status.code(), Some(1), "{}", out(&replayed));
    let keep = arguments.split(' ').skip_while(|word| *word != "--keep").nth(1).expect("events are kept");
    assert!(!keep.contains([',', '-']), "one request shows the fault, so one is left: {keep}");

    // The sound engine passes the same.
    let sound = arguments.replace("small_bounds_fault", "small");
    let passed = verify(&sound.split(' ').collect::<Vec<_>>());
    assert_eq!(passed.status.code(), Some(0), "{}", out(&passed));
}

#[test]
fn shrinking_ends_in_the_same_case_every_time() {
    let dut = keywalk_verify::soak::case::engine("small_bounds_fault").expect("it is built");
    let failing = (1..20).find_map(|seed| {
        let case = Case::draw(seed, Some(dut)).expect("the engine is given");
        let trouble: Trouble = run(&case, &mut Coverage::default(), None).err()?;
        Some((case, trouble))
    });
    let (case, trouble) = failing.expect("the fault is found");
    let [first, second] = [(), ()].map(|()| shrink(&case, &trouble, 60, |_, _| ()));
    assert_eq!((&first.reduction, &first.trouble), (&second.reduction, &second.trouble));
    let left = first.reduction.apply(&case);
    assert_eq!(run(&left, &mut Coverage::default(), None), Err(first.trouble));
    assert!(replay_arguments(case.seed, Some(dut), &first.reduction).contains("--keep"));
}

#[test]
fn wrong_usage_is_refused_with_what_is_legal() {
    for (arguments, said) in [
        (vec!["soak", "--shard", "3/2"], "1 <= I <= N"),
        (vec!["soak", "--calm", "noise", "--seeds", "1"], "stalls"),
        (vec!["soak", "--keep", "1-"], "legal are numbers"),
        (vec!["soak", "--keep", "1"], "--seeds 1"),
        (vec!["soak", "--preset", "nothing"], "small_ordered"),
        (vec!["coverage", "no such file"], "no such file"),
    ] {
        let output = verify(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
}
