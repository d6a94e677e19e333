//! Cards, scripts and constraints of the FPGA flow, run under plain Tcl against stand-ins for Vivado's commands, with the files
//! that keywalk-gen makes. Nothing here runs Vivado.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use keywalk_contract::Config;
use keywalk_gen::card::{self, CardConfig};
use keywalk_gen::{directory, package, presets};
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What keywalk-gen makes of the default engine and of the card.
struct Generated {
    folder: tempfile::TempDir,
}

impl Generated {
    fn new() -> Self {
        let generated = Self { folder: tempfile::tempdir().unwrap() };
        let engine = package::engine(&keywalk_gen::generate(&Config::default()).unwrap());
        directory::install(&generated.path("rtl"), &engine).unwrap();
        let config = CardConfig::new(presets::find("card").unwrap().config());
        directory::install(&generated.path("card"), &card::generate(&config).unwrap().package()).unwrap();
        generated
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a script of `fpga/check`: whether it passed, what it said, and its result as JSON.
    fn check(&self, script: &str, arguments: &[String]) -> (bool, String, Vec<Value>) {
        let json = self.path("result.json");
        let output = Command::new("tclsh")
            .arg(repository().join("fpga/check").join(script))
            .arg(format!("rtl={}", self.path("rtl").display()))
            .arg(format!("design={}", self.path("card").display()))
            .arg(format!("json={}", json.display()))
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("`tclsh`: {error}; run `make setup`"));
        let said = text(&output);
        let result = std::fs::read(&json).unwrap_or_else(|error| panic!("no JSON: {error}; {said}"));
        (output.status.success(), said, serde_json::from_slice(&result).expect("it is JSON"))
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Names of the cards.
fn cards() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(repository().join("fpga/cards"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn every_card_is_toml_and_has_constraints() {
    let cards = cards();
    assert_eq!(cards, ["u200", "u250", "u280", "u50", "u55c"]);
    for card in cards {
        let path = repository().join("fpga/cards").join(format!("{card}.toml"));
        let facts: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        assert_eq!(facts["name"].as_str(), Some(card.as_str()));
        assert!(repository().join("constraints").join(format!("{card}.xdc")).is_file(), "{card} has no constraints");
    }
}

#[test]
fn scripts_and_constraints_of_every_card_pass() {
    let (passed, said, result) = Generated::new().check("check.tcl", &[]);
    assert!(passed, "{said}");
    for card in cards() {
        assert!(said.lines().any(|line| line.starts_with(&card) && line.ends_with("passed")), "{card}: {said}");
        let checks: Vec<_> = result.iter().filter(|check| check["card"] == card.as_str()).collect();
        assert!(checks.len() >= 10 && checks.iter().all(|check| check["passed"] == true), "{card}: {checks:?}");
    }
    for part in ["These checks cannot show", "that timing closes", "Nothing here has run under Vivado or on a card"] {
        assert!(said.contains(part), "{said}");
    }
}

/// Copies files and folders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() { copy(&from, &to) } else { std::fs::copy(&from, &to).map(|_| ()).unwrap() }
    }
}

#[test]
fn a_check_that_fails_is_in_the_result_whatever_its_reason_holds() {
    let generated = Generated::new();
    let root = generated.path("root");
    copy(&repository().join("fpga/cards"), &root.join("fpga/cards"));
    copy(&repository().join("fpga/tcl"), &root.join("fpga/tcl"));
    copy(&repository().join("constraints"), &root.join("constraints"));
    let card = root.join("fpga/cards/u55c.toml");
    let odd = "\"quoted\" \\ {brace [exec] $name \u{1}\u{7f} é \u{1f600}";
    let facts = std::fs::read_to_string(&card).unwrap();
    std::fs::write(&card, facts + odd + "\n").unwrap();
    let arguments = [format!("root={}", root.display()), "cards=u50 u55c".into()];
    let (passed, said, result) = generated.check("check.tcl", &arguments);
    assert!(!passed, "{said}");
    let failed: Vec<_> = result.iter().filter(|check| check["passed"] == false).collect();
    assert!(failed.iter().all(|check| check["card"] == "u55c"), "{result:?}");
    assert_eq!(failed.len() * 2, result.len(), "what was not run has not passed: {result:?}");
    assert_eq!(failed[0]["name"], "u55c: data");
    let reason = failed[0]["what"].as_str().unwrap();
    assert!(reason.contains(&format!("`{odd}` is neither")), "{reason}");
    assert_eq!(failed[1]["what"], "not run: a check before it failed");
}

#[test]
fn planted_faults_in_scripts_cards_and_constraints_are_found() {
    let (passed, said, result) = Generated::new().check("planted.tcl", &[]);
    assert!(passed, "{said}");
    assert!(result.len() >= 100 && result.iter().all(|fault| fault["found"] == true), "{result:?}");
}

#[test]
fn a_planted_fault_that_is_not_found_is_in_the_result() {
    let generated = Generated::new();
    std::fs::write(generated.path("card/level_crossing.xdc"), "").unwrap();
    let (passed, said, result) = generated.check("planted.tcl", &["only=an unknown cell at a crossing".into()]);
    assert!(!passed && said.contains("planted faults: 0 of 1 found"), "{said}");
    assert_eq!(result.len(), 1);
    assert_eq!((&result[0]["found"], &result[0]["file"]), (&false.into(), &"design/level_crossing.xdc".into()));
    assert!(result[0]["what"].as_str().unwrap().contains("cannot be planted"), "{result:?}");
}

/// Runs `fpga/vivado.sh` where there is no Vivado.
fn vivado(arguments: &[&str]) -> Output {
    Command::new("bash")
        .arg(repository().join("fpga/vivado.sh"))
        .args(arguments)
        .env("VIVADO", "a-vivado-that-is-not-there")
        .output()
        .unwrap()
}

#[test]
fn without_vivado_the_command_says_what_is_missing() {
    for arguments in [
        &["bitstream", "card=u55c"][..],
        &["--check", "bitstream", "card=u200", "clock_mhz=50", "strategy=quick", "any_version=1"],
        &["ooc", "block=fifo_4x2", "clock_mhz=500"],
    ] {
        let output = vivado(arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        for part in ["there is no Vivado", "a-vivado-that-is-not-there", "2022.2, 2023.1", "VIVADO", "make fpga-check"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn wrong_options_are_refused_before_vivado_is_looked_for() {
    for (arguments, said_of_it) in [
        (&["bitstream"][..], "there is no card=; cards are u200, u250, u280, u50, u55c"),
        (&["bitstream", "card="], "card (CARD of make) is ``; legal are u200, u250, u280, u50, u55c"),
        (&["bitstream", "card=u5"], "is `u5`; legal are u200, u250, u280, u50, u55c"),
        (&["ooc", "block=tlb", "card=u5 u50"], "is `u5 u50`; legal are"),
        (&["bitstream", "card=u50", "clock_mhz=49"], "is `49`; legal is a whole number from 50 to 500"),
        (&["bitstream", "card=u50", "clock_mhz=501"], "is `501`; legal is"),
        (&["bitstream", "card=u50", "clock_mhz=0x64"], "is `0x64`; legal is"),
        (&["bitstream", "card=u50", "clock_mhz="], "is ``; legal is"),
        (&["ooc", "block=tlb", "strategy=fast"], "is `fast`; legal are default, explore, quick"),
        (&["ooc", "block=tlb", "any_version=yes"], "is `yes`; legal are 0, 1"),
        (&["ooc"], "there is no block=; blocks are access_check, "),
        (&["--check", "ooc", "block=tlc"], "is `tlc`; legal are access_check, "),
        (&["ooc", "block=../tlb"], "is `../tlb`; legal are access_check, "),
        (
            &["bitstream", "card=u50", "block=tlb"],
            "an option of bitstream is `block`; legal are card, clock_mhz, strategy, ",
        ),
        (&["bitstream", "u50"], "`u50` is not of the form name=value"),
        (&["synthesise", "card=u50"], "usage: "),
        (&["--check"], "usage: "),
    ] {
        let output = vivado(arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(said_of_it) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}

#[test]
fn make_passes_its_options_on() {
    let make = |arguments: &[&str]| {
        let output = Command::new("make").arg("-n").arg("-C").arg(repository()).args(arguments).output().unwrap();
        text(&output)
    };
    let said = make(&["bitstream", "CARD=u280", "CLOCK_MHZ=300", "STRATEGY=explore", "ANY_VERSION=1"]);
    let options = "bitstream clock_mhz='300' strategy='explore' any_version='1' card='u280'";
    assert_eq!(said.matches(options).count(), 2, "{said}");
    assert!(
        said.find("--check") < said.find("do-card"),
        "nothing is generated before the options are looked at: {said}"
    );
    let said = make(&["ooc", "BLOCK=tlb"]);
    assert_eq!(said.matches("ooc block='tlb' clock_mhz='250' strategy='default' any_version='0'").count(), 2, "{said}");
}

#[test]
fn the_blocks_that_may_be_named_are_those_of_the_default_engine() {
    let engine = keywalk_gen::generate(&Config::default()).unwrap();
    let names = package::engine(&engine).into_iter().filter_map(|(name, _)| name.strip_suffix(".v").map(str::to_owned));
    for name in names {
        let output = vivado(&["--check", "ooc", &format!("block={name}")]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    }
    let said = text(&vivado(&["ooc"]));
    let listed = said.trim_end().rsplit_once("blocks are ").unwrap().1.split(", ");
    let engine = package::engine(&engine);
    for block in listed {
        assert!(engine.iter().any(|(name, _)| *name == format!("{block}.v")), "there is no block {block}");
    }
}
