//! The analysis of netlists, on small ones made by hand, and the command around it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use keywalk_verify::synth::{Analysis, Netlist, NetlistError};
use serde_json::{Value, json};

/// A cell: type, parameters, input pins and output pins with their nets.
fn cell(kind: &str, parameters: Value, inputs: &[(&str, Vec<Value>)], outputs: &[(&str, Vec<Value>)]) -> Value {
    let pins = || inputs.iter().map(|pin| (pin, "input")).chain(outputs.iter().map(|pin| (pin, "output")));
    let directions: serde_json::Map<_, _> =
        pins().map(|((name, _), direction)| (name.to_string(), direction.into())).collect();
    let connections: serde_json::Map<_, _> =
        pins().map(|((name, nets), _)| (name.to_string(), nets.clone().into())).collect();
    json!({"type": kind, "parameters": parameters, "port_directions": directions, "connections": connections})
}

fn net(number: u32) -> Vec<Value> {
    vec![number.into()]
}

fn register(d: u32, q: u32) -> Value {
    let pins = [("C", net(2)), ("CE", vec!["1".into()]), ("D", net(d)), ("R", net(3))];
    cell("FDRE", json!({}), &pins, &[("Q", net(q))])
}

fn lut(inputs: &[u32], output: u32) -> Value {
    let names = ["I0", "I1", "I2", "I3", "I4", "I5"];
    let pins: Vec<_> = names.into_iter().zip(inputs).map(|(name, input)| (name, net(*input))).collect();
    cell(&format!("LUT{}", inputs.len()), json!({}), &pins, &[("O", net(output))])
}

/// A module with a clock (net 2), a reset (net 3), an input `data` (net 4) and the given cells, outputs and names.
fn module(cells: &[(&str, Value)], outputs: &[(&str, u32)], names: &[(&str, u32)]) -> String {
    let mut ports = serde_json::Map::new();
    for (name, number) in [("clk", 2), ("reset", 3), ("data", 4)] {
        ports.insert(name.into(), json!({"direction": "input", "bits": [number]}));
    }
    for (name, number) in outputs {
        ports.insert((*name).into(), json!({"direction": "output", "bits": [number]}));
    }
    let cells: serde_json::Map<_, _> = cells.iter().map(|(name, cell)| (name.to_string(), cell.clone())).collect();
    let mut netnames: serde_json::Map<_, _> =
        names.iter().map(|(name, number)| (name.to_string(), json!({"hide_name": 0, "bits": [number]}))).collect();
    for (name, number) in [("clk", 2), ("reset", 3), ("data", 4)] {
        netnames.insert(name.into(), json!({"hide_name": 0, "bits": [number]}));
    }
    json!({"creator": "a test", "modules": {"top": {"ports": ports, "cells": cells, "netnames": netnames}}}).to_string()
}

fn analyse(text: &str) -> Analysis {
    let netlist = Netlist::read(text, "top").expect("the netlist is read");
    Analysis::of(&netlist, 10).expect("the netlist is analysed")
}

#[test]
fn a_path_between_registers_counts_its_luts_and_muxes() {
    let mux = cell("MUXF7", json!({}), &[("I0", net(11)), ("I1", net(12)), ("S", net(10))], &[("O", net(13))]);
    let cells = [
        ("a", register(4, 10)),
        ("first", lut(&[10, 4], 11)),
        ("second", lut(&[11], 12)),
        ("mux", mux),
        ("b", register(13, 14)),
    ];
    let found = analyse(&module(&cells, &[], &[("from", 10), ("to", 14), ("middle", 11)]));
    assert_eq!((found.area.logic_luts, found.area.registers, found.area.muxfs), (2, 2, 1));
    assert_eq!((found.levels, found.picoseconds), (3, 100 + 450 + 450 + 100 + 50));
    let path = &found.deepest[0];
    assert_eq!((path.from.as_str(), path.to.as_str()), ("from", "to"));
    let kinds: Vec<_> = path.through.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["LUT2", "LUT1", "MUXF7"]);
    assert_eq!(path.through[0].1.as_deref(), Some("middle"));
}

#[test]
fn the_deepest_path_need_not_be_the_slowest() {
    let ram = |registered: &str| {
        let parameters = json!({"DOA_REG": registered, "DOB_REG": "00000000000000000000000000000000"});
        let pins = [("CLKARDCLK", net(2)), ("ADDRARDADDR", net(4)), ("RSTRAMARSTRAM", net(3))];
        cell("RAMB36E2", parameters, &pins, &[("DOUTADOUT", net(20))])
    };
    let netlist = |registered| {
        let cells = [
            ("tags", ram(registered)),
            ("after_ram", lut(&[20], 21)),
            ("c", register(21, 22)),
            ("a", register(4, 10)),
            ("first", lut(&[10], 11)),
            ("second", lut(&[11], 12)),
            ("b", register(12, 13)),
        ];
        module(&cells, &[], &[("deep", 13), ("slow", 22)])
    };
    let found = analyse(&netlist("00000000000000000000000000000000"));
    assert_eq!((found.levels, found.picoseconds), (2, 900 + 450 + 50));
    assert_eq!((found.deepest[0].to.as_str(), found.slowest[0].to.as_str()), ("deep", "slow"));
    assert_eq!(found.slowest[0].from, "tags (RAMB36E2)");
    assert_eq!(found.area.block_rams(), 1.0);
    let found = analyse(&netlist("00000000000000000000000000000001"));
    assert_eq!(found.picoseconds, 100 + 2 * 450 + 50, "an output register launches in 0.30 ns");
}

#[test]
fn memory_in_luts_is_read_through_and_written_at_the_edge() {
    let pins = [("WCLK", net(2)), ("WE", net(10)), ("ADDRA", net(10)), ("ADDRH", net(30)), ("DIA", net(31))];
    let ram = cell("RAM64M8", json!({}), &pins, &[("DOA", net(32))]);
    let cells = [
        ("a", register(4, 10)),
        ("decode", lut(&[10], 30)),
        ("more", lut(&[30], 31)),
        ("ram", ram),
        ("b", register(32, 33)),
    ];
    let found = analyse(&module(&cells, &[], &[("a", 10), ("b", 33)]));
    assert_eq!(found.area.memory_luts, 8);
    assert_eq!(found.levels, 2);
    let ends: Vec<_> = found.deepest.iter().map(|path| (path.to.as_str(), path.levels)).collect();
    assert!(ends.contains(&("ram.DIA", 2)), "the data to be written ends at the RAM: {ends:?}");
    assert!(ends.contains(&("ram.ADDRH", 1)), "so does the address that it is written at: {ends:?}");
    assert!(ends.contains(&("b", 2)), "an address is a way to the data that is read: {ends:?}");
}

#[test]
fn shift_registers_are_counted_apart_and_launch() {
    let pins = [("CLK", net(2)), ("D", net(4)), ("CE", vec!["1".into()]), ("A0", vec!["1".into()])];
    let cells =
        [("s", cell("SRL16E", json!({}), &pins, &[("Q", net(10))])), ("l", lut(&[10], 11)), ("r", register(11, 12))];
    let found = analyse(&module(&cells, &[], &[("delayed", 10)]));
    assert_eq!((found.area.shift_luts, found.area.logic_luts, found.area.luts()), (1, 1, 2));
    assert_eq!((found.levels, found.picoseconds), (1, 100 + 450 + 50));
}

#[test]
fn fan_out_leaves_out_clocks_and_resets_but_a_reset_ends_a_path() {
    let mut cells = vec![("reset_register".to_owned(), register(4, 10)), ("l".to_owned(), lut(&[10], 11))];
    for number in 0..20 {
        let pins = [("C", net(2)), ("CE", net(10)), ("D", net(4)), ("R", net(11))];
        cells.push((format!("r{number}"), cell("FDRE", json!({}), &pins, &[("Q", net(100 + number))])));
    }
    let cells: Vec<_> = cells.iter().map(|(name, cell)| (name.as_str(), cell.clone())).collect();
    let found = analyse(&module(&cells, &[], &[("enable", 10), ("soft_reset", 11)]));
    assert_eq!(found.fan_out, 21);
    let widest: Vec<_> = found.widest_nets.iter().map(|net| (net.name.as_str(), net.loads)).collect();
    assert_eq!(widest, [("data", 21), ("enable", 21)], "clock and resets are loads of no net");
    assert_eq!((found.levels, found.deepest[0].from.as_str()), (1, "enable"));
}

#[test]
fn ports_begin_and_end_paths_and_carries_add_delay_only() {
    let carry = cell("CARRY8", json!({}), &[("S", net(10)), ("DI", net(10))], &[("CO", net(11))]);
    let cells = [("l", lut(&[4], 10)), ("c", carry)];
    let found = analyse(&module(&cells, &[("out", 11)], &[]));
    assert_eq!((found.levels, found.picoseconds, found.area.carries), (1, 100 + 450 + 40 + 50, 1));
    assert_eq!((found.deepest[0].from.as_str(), found.deepest[0].to.as_str()), ("port data", "port out"));
}

#[test]
fn deep_logic_needs_no_deep_stack() {
    let count = 50_000;
    let names: Vec<_> = (0..count).map(|number| format!("l{number}")).collect();
    let mut cells: Vec<_> =
        names.iter().zip(0..).map(|(name, number)| (name.as_str(), lut(&[100 + number], 101 + number))).collect();
    cells.push(("r", register(100 + count, 50)));
    let found = analyse(&module(&cells, &[], &[]));
    assert_eq!(found.levels, count);
}

#[test]
fn what_cannot_be_analysed_is_refused_by_name() {
    let error = |text: &str| match Netlist::read(text, "top") {
        Ok(netlist) => Analysis::of(&netlist, 1).expect_err("it cannot be analysed"),
        Err(error) => error,
    };
    let looped = module(&[("a", lut(&[11, 4], 10)), ("b", lut(&[10], 11))], &[], &[("there", 10), ("back", 11)]);
    let message = error(&looped).to_string();
    assert!(message.contains("there") && message.contains("back"), "{message}");
    let unknown = module(&[("odd", cell("$mem_v2", json!({}), &[], &[]))], &[], &[]);
    assert!(matches!(error(&unknown), NetlistError::UnknownCell { cell, kind } if cell == "odd" && kind == "$mem_v2"));
    let twice = module(&[("a", lut(&[4], 10)), ("b", lut(&[4], 10))], &[], &[("both", 10)]);
    assert!(matches!(error(&twice), NetlistError::TwoDrivers { net, .. } if net == "both"));
    assert!(matches!(error("{\"modules\": {}}"), NetlistError::NoSuchModule { .. }));
    assert!(matches!(error("{\"modules\": {\"top\": {\"cells\": {\"c\": 3}}}}"), NetlistError::Json(_)));
    let huge = module(&[("a", lut(&[4], u32::MAX))], &[], &[]);
    assert!(matches!(error(&huge), NetlistError::NetNumber { .. }), "the number of a net is checked before it indexes");
}

fn keywalk_verify(subcommand: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keywalk-verify")).arg(subcommand).args(arguments).output().expect("it starts")
}

fn command(arguments: &[&str]) -> Output {
    keywalk_verify("synth", arguments)
}

#[test]
fn a_design_fits_the_cards_that_have_twice_as_much() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (netlist, json, cards) = (file("netlist.json"), file("fit.json"), file("cards"));
    fs::create_dir(&cards).expect("a directory");
    let luts = [("a", lut(&[4], 100)), ("b", lut(&[100], 101))];
    fs::write(&netlist, module(&luts, &[("out", 101)], &[])).expect("the netlist is written");
    let arguments = ["--netlist", &netlist, "--module", "top", "--cards", &cards, "--json", &json];
    let none = keywalk_verify("fit", &arguments);
    assert_eq!(none.status.code(), Some(2), "there is no card");
    for (luts, code, says) in [(4, 0, "50.0%"), (3, 1, "66.7%")] {
        let text = format!(
            "name = \"u1\"\npart = \"xcu1\"\n[resources]\nluts = {luts}\nregisters = 9\nblock_rams = 9\nultra_rams = 9\n"
        );
        fs::write(directory.path().join("cards/u1.toml"), text).expect("a card");
        let output = keywalk_verify("fit", &arguments);
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{out}");
        assert!(out.contains("xcu1") && out.contains(says) && out.contains("top: 2 LUT"), "{out}");
        let rows: Vec<Value> =
            serde_json::from_slice(&fs::read(&json).expect("the JSON is there")).expect("it is JSON");
        assert_eq!((rows.len(), &rows[0]["name"], &rows[0]["pass"]), (4, &json!("u1 LUT"), &json!(code == 0)));
    }
}

#[test]
fn every_card_says_what_its_part_has() {
    let cards = keywalk_verify::fit::cards(Path::new("../fpga/cards")).expect("the cards of this repository");
    let names: Vec<_> = cards.iter().map(|card| card.name.as_str()).collect();
    assert_eq!(names, ["u200", "u250", "u280", "u50", "u55c"]);
    for card in &cards {
        let resources = card.resources;
        assert_eq!(resources.registers, 2 * resources.luts, "{}: two flip-flops beside each LUT", card.name);
        assert!(resources.block_rams > 1000 && resources.ultra_rams > 500, "{}: {resources:?}", card.name);
    }
}

#[test]
fn the_command_judges_the_core_and_writes_json_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (netlist, json) = (file("netlist.json"), file("figures.json"));
    let text = |luts: usize| {
        let names: Vec<_> = (0..luts).map(|number| format!("l{number}")).collect();
        let cells: Vec<_> = names
            .iter()
            .zip(0..)
            .map(|(name, number)| (name.as_str(), lut(&[if number == 0 { 4 } else { 99 + number }], 100 + number)))
            .collect();
        module(&cells, &[("out", 99 + luts as u32)], &[]).replace("\"top\"", "\"keywalk_core\"")
    };
    for (luts, code) in [(5, 0), (6, 1)] {
        fs::write(&netlist, text(luts)).expect("the netlist is written");
        let output = command(&["--netlist", &netlist, "--module", "keywalk_core", "--json", &json, "--paths", "1"]);
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains("port data -> port out"), "{out}");
        let rows: Vec<Value> =
            serde_json::from_slice(&fs::read(&json).expect("the JSON is there")).expect("it is JSON");
        let depth = rows.iter().find(|row| row["name"] == "keywalk_core logic depth").expect("there is a depth");
        assert_eq!(
            (&depth["value"], &depth["target"], &depth["pass"]),
            (&json!(luts as f64), &json!(5.0), &json!(code == 0))
        );
    }
}

#[test]
fn wrong_usage_has_its_exit_code_and_writes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("figures.json");
    let nowhere = directory.path().join("none");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = command(&[&path(&nowhere), "--json", &path(&json)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("generate the Verilog first"));
    assert!(!json.exists());
    let output = command(&["--netlist", &path(&json)]);
    assert_eq!(output.status.code(), Some(2), "--netlist needs --module");
    let output = command(&["--json", &path(&nowhere.join("figures.json"))]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--json"));
}
