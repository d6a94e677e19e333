//! Cards, scripts and constraints of the FPGA flow, run under plain Tcl against stand-ins for Vivado's commands, with the files
//! that keywalk-gen makes. Nothing here runs Vivado.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use keywalk_contract::Config;
use keywalk_gen::card::{self, CardConfig};
use keywalk_gen::{directory, package, presets};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a script of `fpga/check` on the default engine and the card.
fn check(script: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let (rtl, design) = (folder.path().join("rtl"), folder.path().join("card"));
    directory::install(&rtl, &package::engine(&keywalk_gen::generate(&Config::default()).unwrap())).unwrap();
    let config = CardConfig::new(presets::find("card").unwrap().config());
    directory::install(&design, &card::generate(&config).unwrap().package()).unwrap();
    let output = Command::new("tclsh")
        .arg(repository().join("fpga/check").join(script))
        .arg(format!("rtl={}", rtl.display()))
        .arg(format!("design={}", design.display()))
        .output()
        .unwrap_or_else(|error| panic!("`tclsh`: {error}; run `make setup`"));
    (output.status.success(), text(&output))
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
    let (passed, said) = check("check.tcl");
    assert!(passed, "{said}");
    for card in cards() {
        assert!(said.lines().any(|line| line.starts_with(&card) && line.ends_with("passed")), "{card}: {said}");
    }
    assert!(said.contains("Nothing here has run under Vivado or on a card"), "{said}");
}

#[test]
fn planted_faults_in_scripts_cards_and_constraints_are_found() {
    let (passed, said) = check("planted.tcl");
    assert!(passed, "{said}");
}

#[test]
fn without_vivado_the_command_says_what_is_missing() {
    let output = Command::new("bash")
        .arg(repository().join("fpga/vivado.sh"))
        .args(["bitstream", "card=u55c"])
        .env("VIVADO", "a-vivado-that-is-not-there")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output);
    for part in ["there is no Vivado", "a-vivado-that-is-not-there", "2023.2", "VIVADO", "make fpga-check"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
