//! The independent witness (`verify/witness`): a second reading of the table formats, in Python, agrees with the vectors
//! and with what the RTL answers on random tables. `make witness` runs more of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, str};

use keywalk_verify::Vector;

/// Repository's `verify` directory.
fn verify() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the witness; `None`, with a message, where there is no Python.
fn witness(arguments: &[&str]) -> Option<Output> {
    let program = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if Command::new(&program).arg("--version").output().is_err() {
        eprintln!("skipped: the witness needs Python 3, and `{program}` does not start; `make setup` installs it");
        return None;
    }
    let mut command = Command::new(program);
    // Without -B a run leaves its compiled code in the source tree.
    command.arg("-B").arg(verify().join("witness/witness.py")).args(arguments);
    Some(command.output().expect("it has just started"))
}

fn text(output: &Output) -> (Option<i32>, String) {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

/// Writes scenarios and returns the file.
fn scenarios(directory: &Path, arguments: &[&str]) -> PathBuf {
    let file = directory.join("scenarios.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_keywalk-verify"))
        .arg("scenario")
        .args(arguments)
        .arg("--out")
        .arg(&file)
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{}", text(&output).1);
    file
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of this test")
}

#[test]
fn every_row_of_the_vectors_agrees() {
    let vectors = verify().join("vectors");
    let Some(output) = witness(&["vectors", path(&vectors)]) else { return };
    let (code, text) = text(&output);
    assert_eq!(code, Some(0), "{text}");
    let mut rows = 0;
    for entry in fs::read_dir(&vectors).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "json" || extension == "gz") {
            let vector = Vector::load(&file).unwrap();
            rows += vector.xlate.len() + vector.bad.len() + vector.ctx.len();
            rows += vector.mtrs.iter().map(|buffer| buffer.expect.len()).sum::<usize>();
        }
    }
    assert!(text.ends_with(&format!("\n{rows} agreed, 0 disagreed\n")), "{rows} rows, but: {text}");
}

#[test]
fn answers_of_the_rtl_on_random_tables_agree() {
    let directory = tempfile::tempdir().unwrap();
    let counts = directory.path().join("counts.json");
    let mut seen = std::collections::BTreeSet::new();
    for (preset, seed, seeds, latency) in
        [("small", "1", "24", "1"), ("default", "1", "8", "250"), ("small_ordered", "100", "8", "40")]
    {
        let arguments = ["--preset", preset, "--seed", seed, "--seeds", seeds, "--latency", latency];
        let file = scenarios(directory.path(), &arguments);
        let Some(output) = witness(&["answers", path(&file), "--json", path(&counts)]) else { return };
        let (code, text) = text(&output);
        assert_eq!(code, Some(0), "{text}");
        let counts: serde_json::Value = serde_json::from_slice(&fs::read(&counts).unwrap()).unwrap();
        assert_eq!(counts["agreed"], 500 * seeds.parse::<u64>().unwrap(), "400 requests and 100 of the context port");
        seen.extend(counts["statuses"].as_object().unwrap().keys().cloned());
    }
    let never: Vec<_> = keywalk_contract::Status::ALL.iter().map(|status| status.name()).collect();
    let never: Vec<_> = never.into_iter().filter(|name| !seen.contains(*name)).collect();
    assert!(never.iter().all(|name| name.ends_with("_timeout") || *name == "region_wraps"), "never seen: {never:?}");
}

#[test]
fn a_faulty_engine_is_found_and_its_rule_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = scenarios(directory.path(), &["--preset", "small_bounds_fault", "--seeds", "4", "--contexts", "0"]);
    let Some(output) = witness(&["answers", path(&file), "--show", "100"]) else { return };
    let (code, text) = text(&output);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("every check holds, this one too: bounds: contract 6, step 3"), "{text}");
    assert!(text.contains("    model:   as the witness"), "{text}");
    assert!(text.contains("    again:   keywalk-verify scenario --preset small_bounds_fault --seed "), "{text}");
}

/// A request that succeeded, in a file of scenarios: its line.
fn granted(line: &serde_json::Value) -> bool {
    line["kind"] == "request" && line["rtl"][0][0] == 0 && line["request"]["length"] != 0
}

#[test]
fn a_changed_answer_and_a_damaged_file_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let file = scenarios(directory.path(), &["--seed", "5", "--seeds", "4"]);
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Each field of an answer, the RTL's and the model's.
    for who in ["rtl", "model"] {
        for field in 0..9 {
            let mut lines = lines.clone();
            let line = lines.iter_mut().find(|line| granted(line)).expect("some request succeeds");
            let value = &mut line[who][0][field];
            *value = match value.as_u64() {
                Some(number) => (number ^ 1).into(),
                None => (!value.as_bool().unwrap()).into(),
            };
            let changed = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            fs::write(&file, changed).unwrap();
            let Some(output) = witness(&["answers", path(&file)]) else { return };
            let (code, text) = text(&output);
            assert_eq!(code, Some(1), "{who}, field {field}: {text}");
            assert!(text.ends_with("1999 agreed, 1 disagreed\n"), "{text}");
        }
    }
    let half = &whole[..whole.len() / 2];
    let without_end = &whole[..whole.trim_end().rfind('\n').unwrap() + 1];
    let deep = "[".repeat(100_000);
    let wrong_type = whole.replacen("\"function_map\":[", "\"function_map\":[[\"x\"],", 1);
    let negative = whole.replacen("\"address\":", "\"address\":-", 1);
    for damaged in [half, without_end, "", "[]\n", "{\"kind\": \"request\"}\n", &deep, &wrong_type, &negative] {
        fs::write(&file, damaged).unwrap();
        let output = witness(&["answers", path(&file)]).expect("it was there before");
        let (code, text) = text(&output);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("witness: ") && !text.contains("Traceback"), "{text}");
    }
}

#[test]
fn a_changed_row_of_a_vector_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let changes = [
        ("mix_00", "/xlate/0/pa", "0x1"),
        ("mix_00", "/bad/0/reason", "key"),
        ("ctx_hop0", "/bad/0/expect", "ok"),
        ("ctx_hop0", "/ctx/0/pa", "0x40"),
        ("mtr_user", "/mtrs/0/expect/0/2", "0x40"),
    ];
    for (file, place, value) in changes {
        let source = fs::read_to_string(verify().join(format!("vectors/{file}.json"))).unwrap();
        let mut changed: serde_json::Value = serde_json::from_str(&source).unwrap();
        let row = changed.pointer_mut(place).expect("the row is there");
        assert_ne!(*row, value, "{place} is changed");
        *row = value.into();
        let file = directory.path().join("changed.json");
        fs::write(&file, changed.to_string()).unwrap();
        let Some(output) = witness(&["vectors", path(&file)]) else { return };
        let (code, text) = text(&output);
        assert_eq!(code, Some(1), "{place}: {text}");
        assert!(text.contains("1 disagreed"), "{place}: {text}");
    }
}

#[test]
fn a_file_that_is_no_vector_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let compressed = fs::read(verify().join("vectors/pbl_adapt_hop3_1g.json.gz")).unwrap();
    let mut flipped = compressed.clone();
    flipped[compressed.len() / 2] ^= 0xff;
    let cut = &compressed[..compressed.len() / 2];
    let deep = "[".repeat(100_000);
    let empty = br#"{"format": "hns-v2-vector/1"}"#;
    for damaged in [cut, &flipped, deep.as_bytes(), b"", b"[]", b"{}", empty, &[0xff, 0xfe, 0]] {
        let file = directory.path().join("damaged.json");
        fs::write(&file, damaged).unwrap();
        let Some(output) = witness(&["vectors", path(&file)]) else { return };
        let (code, text) = text(&output);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("witness: ") && !text.contains("Traceback"), "{text}");
    }
}

#[test]
fn the_witness_shares_no_code() {
    // Python's standard library and its own file: so it shares no code, and runs wherever Python does.
    let allowed = ["argparse", "bisect", "collections", "dataclasses", "gzip", "json", "os", "reading", "sys", "zlib"];
    let mut imports = 0;
    for entry in fs::read_dir(verify().join("witness")).unwrap() {
        let file = entry.unwrap().path();
        for line in fs::read_to_string(&file).unwrap().lines() {
            let mut words = line.split_whitespace();
            if let (Some("import" | "from"), Some(module)) = (words.next(), words.next()) {
                assert!(allowed.contains(&module), "{}: imports {module}", file.display());
                imports += 1;
            }
        }
    }
    assert!(imports >= allowed.len(), "{imports} imports");
}
