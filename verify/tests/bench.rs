//! The subcommand `bench`, in its quick form: the same figures twice, JSON of the documented form, curves, exit codes.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keywalk-verify")).arg("bench").args(arguments).output().expect("it starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Rows of a quick run, whatever its verdict.
fn quick(directory: &Path, preset: &str) -> Vec<Value> {
    let json = directory.join("figures.json");
    let output = bench(&["--quick", "--preset", preset, "--out", text(directory), "--json", text(&json)]);
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("the JSON is there")).expect("it is JSON");
    let is_passed = rows.iter().all(|row| row["pass"] == true);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(if is_passed { 0 } else { 1 }), "{stderr}");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(!out.contains("no figure"), "{out}");
    for row in &rows {
        assert!(out.contains(row["name"].as_str().expect("a name")), "the table has every row");
    }
    rows
}

#[test]
fn two_runs_give_the_same_figures_and_curves() {
    let [first, second] = [(), ()].map(|()| tempfile::tempdir().expect("a directory"));
    assert_eq!(quick(first.path(), "default"), quick(second.path(), "default"));
    for curve in ["working-set.svg", "page-size.svg", "latency.svg", "reads-in-flight.svg"] {
        let svg = |directory: &Path| fs::read_to_string(directory.join(curve)).expect("the curve is drawn");
        assert_eq!(svg(first.path()), svg(second.path()));
        let svg = svg(first.path());
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{curve}");
        assert!(svg.contains("clock cycles per"), "{curve} names its axis");
    }
}

#[test]
fn rows_have_the_documented_form_and_judge_themselves() {
    let directory = tempfile::tempdir().expect("a directory");
    for preset in ["default", "small"] {
        let rows = quick(directory.path(), preset);
        let names: HashSet<_> = rows.iter().map(|row| row["name"].as_str().expect("a name")).collect();
        assert_eq!(names.len(), rows.len(), "no two rows have one name");
        for part in ["hits, 4 KiB pages", "hit latency", "cold latency", "miss, MPT warm", "invalidation", "duplicate"]
        {
            assert!(names.iter().any(|name| name.starts_with(part)), "{preset} has a row `{part}`");
        }
        for row in &rows {
            let keys: Vec<_> = row.as_object().expect("an object").keys().map(String::as_str).collect();
            assert_eq!(keys, ["bound", "name", "pass", "ratio", "sense", "target", "unit", "value"]);
            let value = row["value"].as_f64().expect("a number");
            let passes = match (row["target"].as_f64(), row["sense"].as_str()) {
                (None, _) => true,
                (Some(target), Some("max")) => value <= target * (1.0 + 1e-9),
                (Some(target), Some("min")) => value >= target * (1.0 - 1e-9),
                (_, sense) => panic!("sense {sense:?}"),
            };
            assert_eq!(row["pass"], passes, "{row}");
            if let (Some(bound), Some(ratio)) = (row["bound"].as_f64(), row["ratio"].as_f64()) {
                assert!((value / bound - ratio).abs() < 1e-9, "{row}");
            }
        }
    }
}

#[test]
fn a_part_can_be_chosen() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("figures.json");
    let output = bench(&["--quick", "--only", "hit latency", "--out", text(directory.path()), "--json", text(&json)]);
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("the JSON is there")).expect("it is JSON");
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    let expected = [
        "hit latency",
        "hit latency, two pages",
        "hit latency under misses, median",
        "hit latency under misses, largest",
    ];
    assert_eq!(names, expected);
    assert!(!directory.path().join("latency.svg").exists(), "a part draws no curves");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = bench(&["--list"]);
    assert_eq!(listed.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == "miss, MPT cold, hops 3, L 1000, n 128")
    );
}

#[test]
fn wrong_usage_is_refused_before_the_work() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = directory.path().join("none").join("figures.json");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("it is written");
    for (arguments, word) in [
        (vec!["--json", text(&none)], "--json"),
        (vec!["--preset", "nonsense"], "default"),
        (vec!["--only", "nonsense"], "--list"),
        (vec!["--only", "golden", "--out", text(&file)], "--out"),
    ] {
        let output = bench(&arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(word), "{arguments:?}: {message}");
    }
}
