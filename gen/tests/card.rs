//! The card: lint, the same bytes every time, and what it asks of its engine.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use keywalk_contract::Config;
use keywalk_gen::card::{self, Card, CardConfig, CardError, FILE_LIST, generate};
use keywalk_gen::{directory, presets, probed_card};
use serde_json::Value;

#[path = "tools/lint.rs"]
mod tools;

fn config(preset: &str) -> CardConfig {
    CardConfig::new(presets::find(preset).unwrap().config())
}

/// Both presets, without a command unit, and with the widths that a card may have.
fn configs() -> Vec<CardConfig> {
    let narrow = |config: CardConfig, engine_bits, pcie_data_bits| {
        let engine = Config { table_data_bits: engine_bits, mover_data_bits: engine_bits, ..config.engine };
        CardConfig { engine, pcie_data_bits, ..config }
    };
    let plain = |config: CardConfig| CardConfig { engine: Config { command_unit: false, ..config.engine }, ..config };
    vec![
        config("card"),
        config("small_card"),
        plain(config("small_card")),
        narrow(config("small_card"), 512, 256),
        narrow(config("small_card"), 256, 256),
    ]
}

fn made(config: &CardConfig) -> Card {
    generate(config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

#[test]
fn lint_is_silent() {
    for config in configs() {
        let folder = tempfile::tempdir().unwrap();
        directory::install(&folder.path().join("card"), &made(&config).package()).unwrap();
        for top in [card::TOP, probed_card::TOP] {
            let (is_clean, said) = tools::lint(&folder.path().join("card"), top, FILE_LIST);
            assert!(is_clean, "{top}, {config:?}: {said}");
        }
    }
}

#[test]
fn two_runs_give_the_same_files() {
    for config in configs() {
        assert!(made(&config).package() == made(&config).package(), "{config:?}");
    }
}

#[test]
fn the_command_writes_a_card_with_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_keywalk-gen"));
        { command }.arg("card").args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let output = run(&["--preset", "small_card", "--out", "card"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = fs::read_to_string(folder.path().join("card/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!((&manifest["top"], &manifest["configuration"]["name"]), (&card::TOP.into(), &"small_card".into()));
    assert_eq!(manifest["shell"]["engine_data_bits"], 512);
    let names = |list: &Value| -> BTreeSet<String> {
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let written: BTreeSet<String> = fs::read_dir(folder.path().join("card"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "manifest.json")
        .collect();
    assert_eq!(names(&manifest["files"]), written);
    let streams = names(&manifest["streams"]);
    assert!(streams.contains("s_axis_req") && streams.contains("s_axis_work") && !streams.contains("m_axis_rsp"));
    let streams = names(&manifest["mover_streams"]);
    assert_eq!(streams, ["m_axis_cpl", "s_axis_atomic"].map(String::from).into());
    let output = run(&["--preset", "small", "--out", "other"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`in_order` is false, legal is true"));
    assert!(!folder.path().join("other").exists());
    // Without a preset it is the card's.
    assert!(run(&["--out", "default"]).status.success());
    let manifest = fs::read_to_string(folder.path().join("default/manifest.json")).unwrap();
    assert!(manifest.contains("\"name\": \"card\""));
}

#[test]
fn what_a_card_cannot_be_is_said() {
    let engine = || config("card").engine;
    let refusal = |engine: Config| match generate(&CardConfig::new(engine)) {
        Err(CardError::Illegal(what)) => what,
        other => panic!("{:?}", other.map(|card| card.config)),
    };
    assert!(refusal(Config { in_order: false, ..engine() }).contains("`in_order` is false"));
    assert!(refusal(Config { done_tracking: false, ..engine() }).contains("`done_tracking` is false"));
    assert!(refusal(Config { table_data_bits: 256, ..engine() }).contains("`table_data_bits` is 256"));
    let narrow = Config { table_data_bits: 256, mover_data_bits: 256, ..engine() };
    assert!(refusal(narrow).contains("`mover_data_bits` is 256, legal is at least the PCIe IP's, 512"));
    let many = Config { reads_in_flight: 256, ..engine() };
    assert!(refusal(many).contains("`reads_in_flight` is 256, legal is at most 128"));
    assert!(generate(&CardConfig { stages: 5, ..config("card") }).unwrap_err().is_illegal_configuration());
}

#[test]
fn every_port_of_a_part_is_connected() {
    for config in configs() {
        let card = made(&config);
        let tops = card.modules.iter().zip(&card.verilog);
        let tops = tops.filter(|(module, _)| [card::TOP, probed_card::TOP].contains(&module.name.as_str()));
        let instances: Vec<_> =
            tops.flat_map(|(top, (_, text))| top.instances.iter().map(move |of| (of, text))).collect();
        assert_eq!(instances.len(), 6 + 2);
        for (instance, text) in instances {
            let module = card.modules.iter().find(|module| module.name == instance.module).unwrap();
            let (_, after) = text.split_once(&format!("    {} {} (\n", instance.module, instance.name)).unwrap();
            let (connections, _) = after.split_once("    );").unwrap();
            for port in &module.ports {
                let is_connected = connections.contains(&format!("        .{}(", port.name));
                assert!(is_connected, "{config:?}: {}.{}", instance.name, port.name);
            }
        }
    }
}

#[test]
fn the_block_diagram_of_the_readme_is_that_of_the_design() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let (_, rest) = readme.split_once("<!-- card -->\n").unwrap();
    let (shown, _) = rest.split_once("<!-- card end -->").unwrap();
    let diagram = format!("```mermaid\n{}```\n", made(&config("card")).diagram());
    assert!(shown == diagram, "README.md shows another block diagram than `keywalk-gen docs` writes:\n{diagram}");
    // Every part is in it.
    for part in ["engine", "mover", "request_fork", "memory_arbiter", "register_split", "host_port", "reset_link"] {
        assert!(shown.contains(&format!(" {part}\n")) || shown.contains(&format!(" {part} ")), "{part} is missing");
    }
}
