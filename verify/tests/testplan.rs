//! The test plan (`verify/testplan.toml`): every test that it names exists, and every fact of the contract is required.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use keywalk_contract::command::{self, MAILBOX_COMMANDS};
use keywalk_contract::ports::{self, Scope};
use keywalk_contract::{
    CommandStatus, Config, Operation, Status, Table, WireClass, WorkOpcode, WorkStatus, mover, regs, work,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    stages: BTreeMap<String, Stage>,
    requirement: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    what: String,
    paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    id: String,
    rule: String,
    source: String,
    #[serde(default)]
    covers: Vec<String>,
    /// Tests by stage; `make` stands for targets of the Makefile.
    #[serde(default)]
    tests: BTreeMap<String, Vec<String>>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn plan() -> Plan {
    let text = fs::read_to_string(repository().join("verify/testplan.toml")).expect("the plan is there");
    toml::from_str(&text).unwrap_or_else(|error| panic!("verify/testplan.toml: {error}"))
}

/// Names of the tests in a text: functions right behind `#[test]`, other attributes and comments between them skipped.
/// One that is ignored does not count.
fn tests_in(text: &str) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if !(line.starts_with("#[") || line.starts_with("//")) {
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            tests.extend(name.filter(|_| is_test));
            is_test = false;
        }
    }
    tests
}

/// Targets of the Makefile that a person calls: those with a recipe of their own or behind `do-`.
fn targets_in(makefile: &str) -> BTreeSet<&str> {
    let names = makefile.lines().filter(|line| !line.starts_with(['\t', '#', '.', ' ']));
    let names = names.filter_map(|line| line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')));
    names.flat_map(|(names, _)| names.split_whitespace()).map(|name| name.trim_start_matches("do-")).collect()
}

/// Why a test or target of a requirement does not count, if it does not.
fn fault(plan: &Plan, stage: &str, test: &str, targets: &BTreeSet<&str>) -> Option<String> {
    if stage == "make" {
        return (!targets.contains(test)).then(|| format!("the Makefile has no target `{test}`"));
    }
    let Some(described) = plan.stages.get(stage) else { return Some(format!("there is no stage `{stage}`")) };
    let Some((file, name)) = test.split_once("::") else { return Some("it is not `file::function`".into()) };
    if !described.paths.iter().any(|path| file.starts_with(path)) {
        return Some(format!("files of stage `{stage}` are in {}", described.paths.join(", ")));
    }
    match fs::read_to_string(repository().join(file)) {
        Err(error) => Some(format!("{file}: {error}")),
        Ok(text) if tests_in(&text).contains(name) => None,
        Ok(_) => Some(format!("{file} has no test `{name}`")),
    }
}

/// What is wrong with the requirements, a line each.
fn faults(plan: &Plan) -> Vec<String> {
    let makefile = fs::read_to_string(repository().join("Makefile")).expect("the Makefile is there");
    let targets = targets_in(&makefile);
    let mut faults = Vec::new();
    let mut ids = BTreeSet::new();
    for requirement in &plan.requirement {
        let Requirement { id, rule, source, tests, .. } = requirement;
        if rule.is_empty() || source.is_empty() || !ids.insert(id.as_str()) {
            faults.push(format!("{id}: rule or source is missing, or the id is there twice"));
        }
        if tests.iter().all(|(stage, tests)| stage == "make" || tests.is_empty()) {
            faults.push(format!("{id}: no test"));
        }
        for (stage, test) in tests.iter().flat_map(|(stage, tests)| tests.iter().map(move |test| (stage, test))) {
            faults.extend(fault(plan, stage, test, &targets).map(|fault| format!("{id}: `{test}`: {fault}")));
        }
    }
    faults
}

#[test]
fn every_test_of_the_plan_exists() {
    let plan = plan();
    assert!(plan.stages.values().all(|stage| !stage.what.is_empty()));
    let faults = faults(&plan);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_wrong_with_a_plan_is_found() {
    let good = || {
        let test = "verify/tests/testplan.rs::every_test_of_the_plan_exists";
        format!(
            "[stages.engine]\nwhat = \"x\"\npaths = [\"verify/tests/\"]\n[[requirement]]\nid = \"a\"\nrule = \"b\"\n\
             source = \"c\"\ntests.engine = [\"{test}\"]\ntests.make = [\"vectors\"]\n"
        )
    };
    let found = |text: &str| faults(&toml::from_str(text).expect("it has the form of a plan"));
    assert_eq!(found(&good()), [""; 0]);
    for (from, to, expected) in [
        (
            "every_test",
            "no_test",
            "a: `verify/tests/testplan.rs::no_test_of_the_plan_exists`: verify/tests/testplan.rs has",
        ),
        (
            "testplan.rs",
            "nothing.rs",
            "a: `verify/tests/nothing.rs::every_test_of_the_plan_exists`: verify/tests/nothing.rs",
        ),
        ("::", "/", "is not `file::function`"),
        ("[\"vectors\"]", "[\"vektors\"]", "a: `vektors`: the Makefile has no target"),
        ("paths = [\"verify/tests/\"]", "paths = [\"gen/\"]", "files of stage `engine` are in gen/"),
        ("tests.engine", "tests.other", "there is no stage `other`"),
        ("rule = \"b\"", "rule = \"\"", "a: rule or source is missing"),
        ("tests.engine = ", "covers = ", "a: no test"),
    ] {
        let text = good().replacen(from, to, 1);
        assert_ne!(text, good(), "{from}");
        let found = found(&text);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{to}: {found:?}");
    }
    let ignored = "#[test]\n#[ignore = \"slow\"]\nfn one() {}\nfn two() {}\n#[test]\n// why\nfn three() {}\n";
    assert_eq!(tests_in(ignored), BTreeSet::from(["three"]));
}

/// Names of the subcommands that `--help` lists.
fn subcommands(help: &[u8]) -> Vec<String> {
    let help = String::from_utf8_lossy(help);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Files of a directory with an extension, without it.
fn files(directory: &str, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(repository().join(directory)).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    paths.map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned()).collect()
}

/// Everything that some requirement must cover.
fn facts() -> BTreeSet<String> {
    let scopes = [Scope::Region, Scope::Range, Scope::ProtectionDomain, Scope::Function, Scope::All];
    let scope = |scope| match scope {
        Scope::Region => "one MR",
        Scope::Range => "a VA range",
        Scope::ProtectionDomain => "a PD",
        Scope::Function => "a function",
        Scope::All => "everything",
    };
    // What is no block: the crate's root, what blocks share, and what lies in a block.
    let parts = ["lib", "prim", "records", "mover_records", "function_map", "command_machine", "command_program"];
    let is_block = |name: &String| !parts.contains(&name.as_str());
    let help = Command::new(env!("CARGO_BIN_EXE_keywalk-verify")).arg("--help").output().expect("the command starts");
    let generator = fs::read_to_string(repository().join("gen/src/main.rs")).expect("the generator is there");
    let actions = generator.lines().skip_while(|line| *line != "enum Action {").take_while(|line| *line != "}");
    let actions =
        actions.filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with(char::is_uppercase));
    let actions = actions.map(|line| line.split(['(', ' ', ',']).next().unwrap_or_default().to_lowercase());

    let mut facts = BTreeSet::new();
    let mut add = |kind: &str, names: Vec<String>| {
        assert!(!names.is_empty(), "there is no {kind}");
        facts.extend(names.into_iter().map(|name| format!("{kind}:{name}")));
    };
    fn named<T>(items: &[T], name: impl Fn(&T) -> &str) -> Vec<String> {
        items.iter().map(|item| name(item).to_owned()).collect()
    }
    add("status", named(Status::ALL, |status| status.name()));
    add("wire_class", named(&WireClass::ALL, |class| class.name()));
    add("operation", named(&Operation::ALL, |operation| operation.name()));
    add("table", named(&Table::ALL, |table| table.name()));
    add("switch", named(regs::control::REGISTER.fields, |field| field.name));
    add("register", named(regs::REGISTERS, |register| register.name));
    add("register", named(&command::REGISTERS, |register| register.name));
    add("array", named(regs::ARRAYS, |array| array.name));
    add("port", named(&ports::STREAMS, |stream| stream.axi_name));
    add("mover_port", named(&mover::STREAMS, |stream| stream.axi_name));
    add("port", named(&work::STREAMS, |stream| stream.axi_name));
    add("mailbox_command", named(&MAILBOX_COMMANDS, |command| command.name));
    add("command_status", named(CommandStatus::ALL, |status| status.name()));
    add("work_request", named(&WorkOpcode::ALL, |opcode| opcode.name()));
    add("work_status", named(WorkStatus::ALL, |status| status.name()));
    add("scope", named(&scopes, |of| scope(*of)));
    add("configuration", named(Config::SWITCHES, |switch| switch.name));
    add("block", files("hdl/src", "rs").into_iter().filter(is_block).collect());
    add("preset", files("gen/presets", "toml"));
    add("command", subcommands(&help.stdout).iter().map(|name| format!("keywalk-verify {name}")).collect());
    add("command", actions.map(|name| format!("keywalk-gen {name}")).collect());
    facts.insert("counter:*".into());
    facts
}

#[test]
fn every_fact_is_required() {
    let covered: BTreeSet<String> = plan().requirement.into_iter().flat_map(|requirement| requirement.covers).collect();
    let facts = facts();
    let missing: Vec<_> = facts.difference(&covered).collect();
    assert!(missing.is_empty(), "no requirement of verify/testplan.toml covers {missing:?}");
    let unknown: Vec<_> = covered.difference(&facts).collect();
    assert!(unknown.is_empty(), "verify/testplan.toml covers {unknown:?}, but there is no such thing");
}

#[test]
fn every_block_has_a_test_of_its_name() {
    for requirement in plan().requirement {
        for block in requirement.covers.iter().filter_map(|fact| fact.strip_prefix("block:")) {
            // The core is the engine, whose tests are those of the stage `engine`, as are those of the wires around it.
            let file = format!("verify/cosim/tests/{block}.rs::");
            let tests: Vec<_> = requirement.tests.values().flatten().collect();
            let is_tested = tests.iter().any(|test| test.starts_with(&file)) || ["core", "engine"].contains(&block);
            assert!(is_tested, "{}: no test in {file}", requirement.id);
        }
    }
}
