//! The direction of dependencies that ARCHITECTURE.md states, kept over `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Direct dependencies of every crate of the workspace: all kinds, and those that are not for tests only.
fn dependencies() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let names = |package: &serde_json::Value, with_tests: bool| {
        let list = package["dependencies"].as_array().expect("a list of dependencies");
        let wanted = list.iter().filter(|dependency| with_tests || dependency["kind"] != "dev");
        wanted.map(|dependency| dependency["name"].as_str().expect("a name").to_owned()).collect::<BTreeSet<_>>()
    };
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().expect("a name").to_owned();
            (name, (names(package, true), names(package, false)))
        })
        .collect()
}

#[test]
fn dependencies_go_one_way() {
    let dependencies = dependencies();
    let ours: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("keywalk-contract", &[] as &[&str]),
        ("keywalk-hdl", &["keywalk-contract"]),
        ("keywalk-fpga", &["keywalk-contract", "keywalk-hdl"]),
        ("keywalk-host", &["keywalk-contract", "keywalk-cosim", "keywalk-image"]),
        ("keywalk-gen", &["keywalk-contract", "keywalk-fpga", "keywalk-hdl"]),
        ("keywalk-model", &["keywalk-contract"]),
        ("keywalk-image", &["keywalk-contract"]),
        ("keywalk-cosim", &["keywalk-contract", "keywalk-gen", "keywalk-image"]),
        ("keywalk-verify", &["keywalk-contract", "keywalk-cosim", "keywalk-image", "keywalk-model"]),
        ("keywalk-fuzz", &["keywalk-contract", "keywalk-gen", "keywalk-image", "keywalk-verify"]),
    ]);
    assert_eq!(ours, allowed.keys().copied().collect(), "a crate was added: say here what it may depend on");
    for (name, (_, built)) in &dependencies {
        for dependency in built.iter().filter(|dependency| ours.contains(dependency.as_str())) {
            assert!(allowed[name.as_str()].contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_model_and_the_hardware_never_see_each_other() {
    let dependencies = dependencies();
    let (model, _) = &dependencies["keywalk-model"];
    for forbidden in ["keywalk-hdl", "keywalk-gen", "keywalk-cosim", "kaze"] {
        assert!(!model.contains(forbidden), "keywalk-model sees {forbidden}, if only in tests");
    }
    let (hdl, _) = &dependencies["keywalk-hdl"];
    assert!(!hdl.contains("keywalk-model"), "keywalk-hdl sees the model");
    for (name, (all, _)) in &dependencies {
        let may_see_kaze = ["keywalk-hdl", "keywalk-gen"].contains(&name.as_str());
        assert!(may_see_kaze || !all.contains("kaze"), "{name} sees kaze");
    }
}
