//! The subcommand `replay`: all logs pass, and a log with one wrong value fails and says where.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Runs `replay` and gives exit status and output.
fn replay(arguments: &[&str], path: &Path) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_keywalk-verify"))
        .arg("replay")
        .args(arguments)
        .arg(path)
        .output()
        .expect("the command runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it ends by itself"), String::from_utf8(text).expect("it prints text"))
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn load(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(directory(path)).expect("it is read")).expect("it is JSON")
}

/// Runs a changed file; gives what is printed.
#[track_caller]
fn run(vector: &Value, status: i32) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("copy.json");
    std::fs::write(&path, vector.to_string()).expect("it is written");
    let (found, text) = replay(&[], &path);
    assert_eq!(found, status, "{text}");
    text
}

/// A changed file must fail and print these.
#[track_caller]
fn must_fail(vector: &Value, texts: &[&str]) {
    let printed = run(vector, 1);
    for text in texts.iter().chain(&["FAIL  ", "first difference: ", "expected: ", "got: "]) {
        assert!(printed.contains(text), "`{text}` is missing in:\n{printed}");
    }
}

/// Position of the first event that has these values.
fn find(vector: &Value, wanted: &[(&str, Value)]) -> usize {
    let events = vector["events"].as_array().expect("events");
    events.iter().position(|event| wanted.iter().all(|(key, value)| event[key] == *value)).expect("there is one")
}

#[test]
fn what_the_driver_sent_makes_the_tables_that_the_driver_s_code_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("result.json");
    let (status, text) = replay(&["--json", &json.to_string_lossy()], &self::directory("vectors"));
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("pass  ")).count(), 47, "{text}");
    let result: Value = serde_json::from_slice(&std::fs::read(json).expect("it is there")).expect("it is JSON");
    assert_eq!((&result["dut"], &result["failed"]), (&json!("model"), &json!(0)));
    let sum = |kind: &str| -> u64 {
        let files = result["files"].as_array().expect("files");
        files.iter().map(|file| file[kind]["passed"].as_u64().expect("a number")).sum()
    };
    // Every row; every command with its token, every work request, every context that the driver asked for.
    assert_eq!(sum("checks"), 16061 + 4965 + 94 + 163);
    assert_eq!(sum("events"), 2776);
    assert!(sum("memory") > 5000);
    assert_eq!(text.lines().last(), Some(format!("{} passed, 0 failed", result["passed"]).as_str()));
}

#[test]
fn our_own_logs_pass() {
    let (status, text) = replay(&[], &directory("events"));
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("pass  ")).count(), 9, "{text}");
}

/// Table port and channels that make the most of every wait.
const ROUGH: [&str; 6] = ["--dut", "rtl", "--latency", "1..60", "--reorder", "--stall"];

#[test]
fn the_hardware_builds_the_same_tables() {
    for name in ["ctx_qpc512", "dereg_chunks", "frmr_refused", "key_wrap", "mpt_hop2_ba0_buf0_bt4", "rereg_hop_change"]
    {
        let (status, text) = replay(&ROUGH, &directory(&format!("vectors/{name}.json")));
        assert_eq!(status, 0, "{text}");
        assert!(text.starts_with("pass  "), "{text}");
    }
}

#[test]
fn our_own_logs_pass_on_the_hardware() {
    let (status, text) = replay(&ROUGH, &directory("events"));
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("pass  ")).count(), 9, "{text}");
}

#[cfg(feature = "bench")]
#[test]
fn the_largest_engine_builds_the_same_tables() {
    let preset = ["--dut", "rtl", "--preset", "reads_256", "--latency", "1..60", "--reorder", "--stall"];
    for path in
        ["vectors/key_wrap.json", "vectors/mix_00.json", "vectors/mtr_qp_wqe.json", "vectors/frmr_4k.json", "events"]
    {
        let (status, text) = replay(&preset, &directory(path));
        assert_eq!(status, 0, "{text}");
        assert!(text.starts_with("pass  "), "{text}");
    }
}

#[test]
fn what_says_nothing_of_the_model_is_refused() {
    for arguments in [&["--preset", "small_command"][..], &["--latency", "5"], &["--reorder"], &["--stall"]] {
        let (status, text) = replay(arguments, &directory("events"));
        assert_eq!(status, 2, "{text}");
        assert!(text.contains(&format!("{} needs --dut rtl", arguments[0])), "{text}");
    }
}

#[test]
fn an_engine_without_a_command_unit_is_refused() {
    let (status, text) = replay(&["--dut", "rtl", "--preset", "small"], &directory("events"));
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("--preset small: it has no command unit"), "{text}");
}

#[test]
fn another_outcome_of_any_event_of_our_own_logs_fails() {
    for name in [
        "frmr_invalidate",
        "mw_type1",
        "mw_type2",
        "zero_based",
        "mailbox_refused",
        "two_functions",
        "geometry_changed",
        "pointer_refused",
    ] {
        let vector = load(&format!("events/{name}.json"));
        let events = vector["events"].as_array().expect("events");
        for position in 0..events.len() {
            let mut changed = vector.clone();
            let event = &mut changed["events"][position];
            let key = if event["ev"] == "access" { "status" } else { "expect" };
            let other = if event[key] == "ok" || event[key].is_null() { "unmapped" } else { "ok" };
            event[key] = if key == "status" && other == "unmapped" { json!("bounds") } else { json!(other) };
            must_fail(&changed, &[&format!("first difference: events[{position}]")]);
        }
    }
}

#[test]
fn a_log_without_one_of_its_commands_fails() {
    for name in ["mw_dma", "mpt_hop2_ba0_buf0_bt4", "ctx_hop0"] {
        let vector = load(&format!("vectors/{name}.json"));
        let events = vector["events"].as_array().expect("events").clone();
        for position in (0..events.len()).filter(|position| events[*position]["ev"] == "mbox") {
            let mut changed = vector.clone();
            changed["events"].as_array_mut().expect("events").remove(position);
            must_fail(&changed, &["first difference: "]);
        }
    }
}

#[test]
fn an_entry_that_was_created_otherwise_fails_in_memory() {
    let mut vector = load("vectors/mw_dma.json");
    let position = find(&vector, &[("cmd", json!("0x0d")), ("tag", json!(6))]);
    let context = vector["events"][position]["ctx"].as_str().expect("a context").to_owned();
    // The last byte of the length.
    vector["events"][position]["ctx"] = json!(format!("{}01{}", &context[..46], &context[48..]));
    must_fail(&vector, &["first difference: memory", "the line at 0x152549f62180, which the device wrote"]);
}

#[test]
fn a_query_that_should_find_something_else_fails() {
    let mut vector = load("vectors/rereg_pd_access.json");
    let position = find(&vector, &[("cmd", json!("0x62"))]);
    let context = vector["events"][position]["ctx"].as_str().expect("a context").to_owned();
    vector["events"][position]["ctx"] = json!(format!("{}ff", &context[..126]));
    must_fail(&vector, &[&format!("first difference: events[{position}]"), "mailbox command 0x62 QUERY_MPT"]);
}

#[test]
fn a_fast_registration_with_another_key_fails() {
    let mut vector = load("vectors/frmr_4k.json");
    let position = find(&vector, &[("ev", json!("fast_reg_wqe"))]);
    let wqe = vector["events"][position]["wqe"].as_str().expect("a work request").to_owned();
    vector["events"][position]["wqe"] = json!(format!("{}77{}", &wqe[..40], &wqe[42..]));
    must_fail(&vector, &["first difference: memory"]);
}

#[test]
fn memory_that_was_freed_is_gone() {
    let mut vector = load("vectors/mw_dma.json");
    let chunk = vector["image"][0]["addr"].clone();
    let free = json!({"ev": "dma_free", "addr": chunk, "size": 4096, "tag": ""});
    vector["events"].as_array_mut().expect("events").push(free);
    must_fail(&vector, &["first difference: memory", "not backed"]);
}

#[test]
fn a_context_that_the_driver_found_elsewhere_fails() {
    let mut vector = load("vectors/ctx_hop2.json");
    let position = find(&vector, &[("ev", json!("hemget")), ("obj", json!(8192))]);
    vector["events"][position]["hw_pa"] = json!("0x1000");
    let place = format!("first difference: events[{position}]");
    must_fail(&vector, &[&place, "context lookup, table qpc object 8192", "expected: 0x1000"]);
}

#[test]
fn other_base_addresses_than_the_driver_s_fail() {
    let vector = load("vectors/pbl_fixed_hop0.json");
    let right = vector["hem"]["mpt"]["bt0"]["0"].clone();
    for (slot, address) in [("1", right.clone()), ("0", json!("0xdead000"))] {
        let mut changed = vector.clone();
        changed["hem"]["mpt"]["bt0"] = json!({ slot: address });
        let text = "first difference: hem.mpt.bt0";
        must_fail(&changed, &[text, "addresses that the device has taken", right.as_str().expect("an address")]);
    }
    // An address too many, of a table that has none.
    let mut changed = vector.clone();
    changed["hem"]["qpc"]["bt0"] = json!({ "3": right });
    must_fail(&changed, &["first difference: hem.qpc.bt0", "3: 0xee598944000"]);
}

#[test]
fn a_difference_without_a_walk_has_no_heading_of_one() {
    let mut vector = load("vectors/pbl_fixed_hop0.json");
    vector["hem"]["mpt"]["bt0"] = json!({});
    assert!(!run(&vector, 1).contains("the walk"));
}

#[test]
fn files_that_are_no_logs_are_refused() {
    let vector = load("events/mw_type1.json");
    let wrong = |key: &str, value: Value| {
        let mut changed = vector.clone();
        let position = find(&vector, &[("ev", json!("work"))]);
        changed["events"][position][key] = value;
        run(&changed, 2)
    };
    assert!(wrong("wqe", json!("0c")).contains("1 bytes, a work request has 64"));
    assert!(wrong("wqe", json!("0g")).contains("a string of pairs of hexadecimal digits"));
    assert!(wrong("expect", json!("fine")).contains("`fine` is no work status; there are ok, unknown_opcode"));
    assert!(wrong("pd", json!(1 << 24)).contains("has more than 24 bits"));
    // Names of ours are none of a file, and what an invalidation by the device itself holds is written nowhere.
    for name in ["hw_invalidate", "ignored", "registered", "command", "mailbox", "fast_register", "hem_get", "free"] {
        assert!(wrong("ev", json!(name)).contains(&format!("unknown variant `{name}`")), "{name}");
    }
    for (event, own) in [("work", "expect"), ("access", "status"), ("mbox", "cmd"), ("cmq", "opcode")] {
        let mut changed = vector.clone();
        let position = find(&vector, &[("ev", json!(event))]);
        assert!(changed["events"][position][own].is_string());
        changed["events"][position]["expects"] = json!("unmapped");
        assert!(run(&changed, 2).contains("unknown field `expects`"), "{event}");
    }
    let mut short = vector.clone();
    let position = find(&vector, &[("ev", json!("cmq"))]);
    short["events"][position]["data"] = json!(["0x00000100"]);
    assert!(run(&short, 2).contains("1 dwords, a command has 6"));
    let mut long = vector.clone();
    long["events"][position]["opcode"] = json!("0x18506");
    assert!(run(&long, 2).contains("0x18506 has more than 16 bits"));
    let mut without = vector.clone();
    without.as_object_mut().expect("an object").remove("events");
    assert!(run(&without, 2).contains(": top level: missing field `events`"));
    assert_eq!(replay(&[], "no/such/path".as_ref()).0, 2);
    let (status, help) = replay(&["--help"], "".as_ref());
    assert_eq!(status, 0);
    assert!(help.contains("Exit status: 0 all passed, 1 something failed, 2 wrong usage"), "{help}");
    assert!(help.contains("3 a tool is missing"), "{help}");
}
