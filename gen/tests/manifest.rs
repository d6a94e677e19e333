//! The manifest says what the files are.

use keywalk_contract::{Config, mover, ports, probe};
use keywalk_gen::{generate, latency, manifest, package};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn default_engine() -> (Vec<package::File>, Value) {
    let files = package::engine(&generate(&Config::default()).unwrap());
    let (name, text) = files.last().unwrap();
    assert_eq!(name, manifest::FILE);
    let value = serde_json::from_str(text).unwrap();
    (files, value)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("`{key}` is no list"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("`{key}` is no text in {value}"))
}

#[test]
fn every_file_is_listed_with_its_checksum() {
    let (files, manifest) = default_engine();
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(list(&manifest, "files").len(), files.len() - 1);
    let mut sums = String::new();
    for (entry, (name, content)) in list(&manifest, "files").iter().zip(&files) {
        std::fs::write(folder.path().join(name), content).unwrap();
        assert_eq!(text(entry, "name"), name);
        assert_eq!(entry["bytes"], content.len());
        sums += &format!("{}  {name}\n", text(entry, "sha256"));
    }
    std::fs::write(folder.path().join("sums"), sums).unwrap();
    // Another program than the one that made the checksums.
    let output =
        Command::new("sha256sum").args(["--strict", "-c", "sums"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_module_is_described_as_its_file_declares_it() {
    let (files, manifest) = default_engine();
    assert_eq!(text(&manifest, "top"), "keywalk");
    let modules = list(&manifest, "modules");
    assert_eq!(modules.len(), files.iter().filter(|(name, _)| name.ends_with(".v")).count());
    for module in modules {
        let (_, verilog) = files.iter().find(|(name, _)| name == text(module, "file")).unwrap();
        for port in list(module, "ports") {
            let width = port["width_bits"].as_u64().unwrap();
            let range = if width == 1 { String::new() } else { format!("[{}:0] ", width - 1) };
            let declaration = format!("{} wire {range}{}", text(port, "direction"), text(port, "name"));
            let is_declared = verilog.lines().any(|line| {
                let code = line.split("//").next().unwrap().trim_end().trim_end_matches(',');
                code.split_whitespace().collect::<Vec<_>>().join(" ") == declaration
            });
            assert!(is_declared, "{}: {declaration}", text(module, "name"));
        }
        let declared = verilog.lines().filter(|line| {
            let line = line.trim();
            line.starts_with("input ") || line.starts_with("output ")
        });
        assert_eq!(declared.count(), list(module, "ports").len(), "{}", text(module, "name"));
        for memory in list(module, "memories") {
            let (name, words, width) = (text(memory, "name"), &memory["words"], memory["width_bits"].as_u64().unwrap());
            let last = words.as_u64().unwrap() - 1;
            let range = if width == 1 { String::new() } else { format!("[{}:0] ", width - 1) };
            let declaration = format!("reg {range}{name} [0:{last}];");
            assert!(verilog.contains(&declaration), "{}: {declaration}", text(module, "name"));
            assert!(verilog.contains(&format!("ram_style = \"{}\"", text(memory, "style"))));
            assert_eq!(memory["bits"], words.as_u64().unwrap() * width);
        }
        for instance in list(module, "instances") {
            assert!(modules.iter().any(|other| other["name"] == instance["module"]), "{instance}");
            let line = format!("{} {}", text(instance, "module"), text(instance, "name"));
            assert!(verilog.contains(&line), "{}: {line}", text(module, "name"));
        }
    }
}

#[test]
fn the_configuration_can_be_read_back() {
    let config = Config { name: "other".into(), tlb_ways: 2, done_tracking: false, ..Config::default() };
    let files = package::engine(&generate(&config).unwrap());
    let manifest: Value = serde_json::from_str(&files.last().unwrap().1).unwrap();
    let configuration = manifest["configuration"].to_string();
    let again = keywalk_gen::config_file::parse(&configuration, keywalk_gen::config_file::Format::Json).unwrap();
    assert_eq!(again, config);
    for (parameter, field) in list(&manifest, "parameters").iter().zip(Config::FIELDS) {
        assert_eq!(text(parameter, "name"), field.name);
        assert_eq!(parameter["value"], (field.get)(&config));
    }
    assert_eq!(manifest["derived"]["tlb_entries"], config.tlb_sets * 2);
    assert_eq!(manifest["derived"]["hold_bytes_max"], config.hold_bytes_max());
}

#[test]
fn streams_tell_the_bits_that_this_engine_has() {
    let config = Config { tag_bits: 5, function_bits: 3, ..Config::default() };
    let files = package::engine(&generate(&config).unwrap());
    let manifest: Value = serde_json::from_str(&files.last().unwrap().1).unwrap();
    let streams = list(&manifest, "streams");
    assert_eq!(streams.len(), ports::streams(&config).count());
    for (stream, port) in streams.iter().zip(ports::streams(&config)) {
        assert_eq!(text(stream, "name"), port.axi_name);
        assert_eq!(stream["tdata_bits"], port.layout.bytes * 8);
        for (field, expected) in list(stream, "fields").iter().zip(port.layout.fields) {
            assert_eq!(text(field, "name"), expected.name);
            assert_eq!((&field["low"], &field["width_bits"]), (&expected.low.into(), &expected.width.into()));
            assert!(field["used_bits"].as_u64() <= field["width_bits"].as_u64());
        }
    }
    let used = |stream: &str, field: &str| {
        let stream = streams.iter().find(|entry| entry["name"] == stream).unwrap();
        list(stream, "fields").iter().find(|entry| entry["name"] == field).unwrap()["used_bits"].as_u64().unwrap()
    };
    assert_eq!(used("s_axis_req", "tag"), 5);
    assert_eq!(used("m_axis_rsp", "function"), 3);
    assert_eq!(used("s_axis_req", "va"), 64);
    assert_eq!(used("m_axis_rsp", "padding"), 0);
}

#[test]
fn the_data_mover_is_described() {
    let (files, manifest) = default_engine();
    let top = text(&manifest, "mover_top");
    assert_eq!(top, "keywalk_mover");
    let streams = list(&manifest, "mover_streams");
    assert_eq!(streams.len(), mover::STREAMS.len());
    let module = list(&manifest, "modules").iter().find(|module| module["name"] == top).unwrap();
    for (stream, port) in streams.iter().zip(&mover::STREAMS) {
        assert_eq!(text(stream, "name"), port.axi_name);
        let tdata = format!("{}_tdata", port.axi_name);
        let entry = list(module, "ports").iter().find(|entry| entry["name"] == tdata.as_str()).unwrap();
        assert_eq!((&entry["width_bits"], &entry["direction"]), (&stream["tdata_bits"], &stream["direction"]));
    }
    // Each list holds what its top module is made of, and nothing of the other's but what both share.
    let file_list =
        |name: &str| -> Vec<&str> { files.iter().find(|(file, _)| file == name).unwrap().1.lines().collect() };
    let (engine, mover) = (file_list(package::FILE_LIST), file_list(package::MOVER_FILE_LIST));
    assert!(engine.contains(&"keywalk_core.v") && !engine.contains(&"data_mover.v"));
    assert!(mover.contains(&"data_mover.v") && !mover.contains(&"keywalk_core.v"));
    assert_eq!((engine.last(), mover.last()), (Some(&"keywalk.v"), Some(&"keywalk_mover.v")));
}

#[test]
fn the_probe_is_described() {
    let (files, manifest) = default_engine();
    assert_eq!(text(&manifest, "probe_top"), "keywalk_probe");
    let module = list(&manifest, "modules").iter().find(|module| module["name"] == "keywalk_probe").unwrap();
    let streams = list(&manifest, "probe_streams");
    assert_eq!(streams.len(), probe::STREAMS.len(), "the default has no command unit");
    for (stream, port) in streams.iter().zip(&probe::STREAMS) {
        assert_eq!(text(stream, "name"), port.axi_name);
        let tdata = format!("{}_tdata", port.axi_name);
        let entry = list(module, "ports").iter().find(|entry| entry["name"] == tdata.as_str()).unwrap();
        assert_eq!((&entry["width_bits"], &entry["direction"]), (&stream["tdata_bits"], &stream["direction"]));
    }
    let (_, listed) = files.iter().find(|(file, _)| file == package::PROBE_FILE_LIST).unwrap();
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["probe.v", "keywalk_probe.v"]);
}

#[test]
fn every_block_states_its_latency() {
    let (_, manifest) = default_engine();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hdl/src");
    let mut blocks = 0;
    for module in list(&manifest, "modules") {
        let name = text(module, "name");
        if sources.join(format!("{name}.rs")).is_file() {
            blocks += 1;
            let statement = text(module, "latency");
            assert!(statement.contains("cycle") && statement.ends_with('.'), "{name}: {statement}");
            assert!(!statement.contains("**") && !statement.contains("//!"), "{name}: {statement}");
        }
    }
    assert!(blocks >= 16, "{blocks} blocks");
    assert_eq!(latency::statement("keywalk_core"), None);
}
