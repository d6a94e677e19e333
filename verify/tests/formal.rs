//! The proofs that are short enough for every run, from the generator's Verilog to the verdict, and the command around them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use keywalk_gen::{directory, generate, package, presets};
use keywalk_verify::formal::Plan;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn rtl(directory: &Path) -> PathBuf {
    let config = presets::find("small").expect("there is a preset `small`").config();
    let output = generate(&config).expect("the preset is legal");
    let out = directory.join("rtl");
    directory::install(&out, &package::engine(&output)).expect("the Verilog is written");
    out
}

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keywalk-verify"))
        .current_dir(repository())
        .arg("formal")
        .args(arguments)
        .output()
        .expect("it starts")
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// Whether the tools are there; says so where they are not.
fn has_tools() -> bool {
    let found = keywalk_verify::formal::Tools::find(&repository().join("build/venv"));
    if let Err(error) = &found {
        eprintln!("SKIPPED, nothing was proved: {error}");
    }
    found.is_ok()
}

#[test]
fn quick_proofs_hold() {
    if !has_tools() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (rtl, json) = (rtl(directory.path()), directory.path().join("proofs.json"));
    let out = directory.path().join("out");
    let output = command(&[&text(&rtl), "--quick", "--out", &text(&out), "--json", &text(&json)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("the JSON is there")).expect("it is JSON");
    assert!(rows.len() > 10 && rows.iter().all(|row| row["pass"] == true && row["result"] == "holds"), "{said}");
}

#[test]
fn a_planted_fault_is_found_and_a_faulty_queue_fails() {
    if !has_tools() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let rtl = rtl(directory.path());
    let out = directory.path().join("out");
    let output = command(&[&text(&rtl), "--planted", "--only", "fifo_4x", "--out", &text(&out)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("found"), "{said}");

    let path = rtl.join("fifo_4x7.v");
    let verilog = fs::read_to_string(&path).expect("the queue is there");
    let faulty = verilog.replacen("fetch = ~empty &", "fetch = ", 1);
    assert_ne!(verilog, faulty);
    fs::write(&path, faulty).expect("it is written");
    let json = directory.path().join("proofs.json");
    let output = command(&[&text(&rtl), "--only", "fifo_4x7", "--out", &text(&out), "--json", &text(&json)]);
    assert_eq!(output.status.code(), Some(1));
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("the JSON is there")).expect("it is JSON");
    assert_eq!((rows.len(), &rows[0]["result"]), (1, &Value::from("fails")));
    let trace = rows[0]["trace"].as_str().expect("there is a waveform");
    assert!(fs::metadata(trace).expect("it is there").len() > 0);
    // What was never pushed is offered, and the pointers disagree with what was: the solver tells either.
    let which = rows[0]["which"].as_str().expect("it says which");
    assert!(["nothing_from_nothing", "pointers"].iter().any(|property| which.contains(property)), "{which}");
}

#[test]
fn every_property_file_is_used_and_every_planted_fault_can_be_planted() {
    let directory = tempfile::tempdir().expect("a directory");
    let design = keywalk_verify::formal::Design::read(&rtl(directory.path())).expect("the manifest is read");
    let proofs = repository().join("verify/formal");
    let plan = Plan::read(&proofs).expect("the list of proofs is read");
    let mut all = String::new();
    for proof in &plan.proofs {
        let modules = design.matching(&proof.module).expect("the module is there");
        for planted in &proof.planted {
            let proved = planted.proved.as_ref().unwrap_or(&proof.module);
            assert!(modules.contains(proved), "{}: {proved}", proof.name);
            let changed = planted.module.as_ref().unwrap_or(proved);
            let path = directory.path().join("rtl").join(format!("{changed}.v"));
            let verilog = fs::read_to_string(&path).expect("the module is there");
            assert_eq!(verilog.matches(&planted.find).count(), 1, "{}: {}", proof.name, planted.name);
        }
        let files = proof.below.iter().map(|(_, file)| file).chain([&proof.properties]);
        for file in files {
            all += &text(file);
            all += &fs::read_to_string(proofs.join(file)).expect("the properties are there");
        }
    }
    for file in fs::read_dir(&proofs).expect("it is read") {
        let name = file.expect("it is read").file_name().into_string().expect("UTF-8");
        assert!(name == "proofs.toml" || all.contains(&name), "no proof uses {name}");
    }
}

#[test]
fn the_shell_s_proofs_hold_and_find_every_planted_fault() {
    let directory = tempfile::tempdir().expect("a directory");
    let shell = keywalk_gen::shell::generate(&keywalk_gen::shell::ShellConfig::default()).expect("it is legal");
    let verilog = directory.path().join("shell");
    directory::install(&verilog, &shell.package()).expect("the Verilog is written");
    let design = keywalk_verify::formal::Design::read(&verilog).expect("the manifest is read");
    let plan = Plan::read(&repository().join("fpga/formal")).expect("the list of proofs is read");
    assert!(plan.proofs.iter().all(|proof| design.matching(&proof.module).is_ok()));
    if !has_tools() {
        return;
    }
    let json = directory.path().join("proofs.json");
    for planted in [false, true] {
        let (out, verilog, json) = (text(&directory.path().join("out")), text(&verilog), text(&json));
        let mut arguments =
            vec![verilog.as_str(), "--proofs", "fpga/formal", "--out", out.as_str(), "--json", json.as_str()];
        arguments.extend(planted.then_some("--planted"));
        let output = command(&arguments);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let rows: Vec<Value> = serde_json::from_slice(&fs::read(&json).expect("it is there")).expect("it is JSON");
        assert!(rows.len() > 5 && rows.iter().all(|row| row["pass"] == true), "{said}");
    }
}

#[test]
fn a_property_of_a_name_that_is_not_there_is_refused() {
    if !has_tools() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let rtl = rtl(directory.path());
    let proofs = directory.path().join("proofs");
    fs::create_dir(&proofs).expect("it is made");
    for file in fs::read_dir(repository().join("verify/formal")).expect("it is read") {
        let path = file.expect("it is read").path();
        let text = fs::read_to_string(&path).expect("it is text");
        // Only assumed of, so that nothing but its name is wrong.
        let changed = text.replace("assume (!segment_valid ||", "assume (no_such_name || !segment_valid ||");
        fs::write(proofs.join(path.file_name().expect("a name")), changed).expect("it is written");
    }
    let out = text(&directory.path().join("out"));
    let output =
        command(&[&text(&rtl), "--proofs", &text(&proofs), "--only", "response port: one last", "--out", &out]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no_such_name"), "{said}");
}

#[test]
fn wrong_usage_has_its_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = text(&directory.path().join("none"));
    let output = command(&[&nowhere]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("generate the Verilog first"));
    let rtl = text(&rtl(directory.path()));
    assert_eq!(command(&[&rtl, "--only", "no such proof"]).status.code(), Some(2));
    let output = command(&[&rtl, "--tools", &nowhere]);
    assert_eq!(output.status.code(), Some(3), "no tools");
    assert!(String::from_utf8_lossy(&output.stderr).contains("make setup-formal"));
    let list = command(&[&rtl, "--list"]);
    assert_eq!(list.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&list.stdout).contains("fifo_4x7"));
    fs::write(directory.path().join("proofs.toml"), "proof = 1").expect("it is written");
    assert_eq!(command(&[&rtl, "--proofs", &text(directory.path())]).status.code(), Some(2));
}
