//! Inputs to begin with: the files of the repository, as far as they are small.

use std::fs;
use std::path::{Path, PathBuf};

use keywalk_contract::Config;
use keywalk_image::Description;

/// Largest vector file to begin with, in bytes: mutations of small ones say more in the same time.
const VECTOR_BYTES_MAX: u64 = 24 << 10;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a directory with an extension, in order of name.
fn files(directory: &str, extension: &str) -> Vec<Vec<u8>> {
    let directory = repository().join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    let is_small = |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.len() <= VECTOR_BYTES_MAX);
    paths.iter().filter(|path| is_small(path)).map(|path| fs::read(path).expect("it is there")).collect()
}

pub fn configurations_toml() -> Vec<Vec<u8>> {
    files("gen/presets", "toml")
}

pub fn configurations_json() -> Vec<Vec<u8>> {
    let all = serde_json::to_vec_pretty(&Config::default()).expect("a configuration is plain data");
    vec![all, br#"{"name": "x", "tlb_sets": 64, "in_order": true}"#.to_vec(), b"{}".to_vec()]
}

pub fn configuration_space() -> Vec<Vec<u8>> {
    let count = Config::FIELDS.len() + Config::SWITCHES.len();
    vec![vec![0; count], vec![127; count], vec![255; count], (0..count as u8).map(|byte| byte * 37).collect()]
}

pub fn manifests() -> Vec<Vec<u8>> {
    let manifest =
        |files: &str| format!(r#"{{"format": "{}", "files": {files}}}"#, keywalk_gen::manifest::FORMAT).into_bytes();
    vec![
        manifest(r#"[{"name": "old.v", "sha256": "00"}, {"name": "keywalk.v", "sha256": "00"}]"#),
        manifest(r#"[{"name": "../outside"}, {"name": "sub/inner"}, {"name": "/etc/passwd"}, {"name": ".."}]"#),
        manifest("[]"),
    ]
}

pub fn verilog() -> Vec<Vec<u8>> {
    // Mutations of short modules say more in the same time.
    let is_short = |text: &str| text.len() < 10_000;
    let printed = keywalk_gen::print(&Config::default()).modules;
    printed.into_iter().map(|(_, text)| text).filter(|text| is_short(text)).map(String::into_bytes).collect()
}

pub fn vectors() -> Vec<Vec<u8>> {
    files("verify/vectors", "json")
}

pub fn descriptions_toml() -> Vec<Vec<u8>> {
    vec![include_bytes!("../seeds/description.toml").to_vec()]
}

pub fn descriptions_json() -> Vec<Vec<u8>> {
    let description: Description =
        toml::from_str(include_str!("../seeds/description.toml")).expect("the seed is a description");
    vec![serde_json::to_vec_pretty(&description).expect("a description is plain data"), b"{}".to_vec()]
}

pub fn netlists() -> Vec<Vec<u8>> {
    vec![include_bytes!("../seeds/netlist.json").to_vec()]
}

pub fn arguments() -> Vec<Vec<u8>> {
    let texts = ["40", "1..250", "1..=1000000", "0xffffffffffffffff", "18446744073709551615", "remote_atomic"];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub fn markdown() -> Vec<Vec<u8>> {
    vec![b"before\n<!-- fuzz -->\nold\n<!-- /fuzz -->\nafter\n\0| new |\n".to_vec()]
}
