//! The shell: lint, the same bytes every time, and a constraint for every path between its clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use keywalk_fpga::top::{self, Side};
use keywalk_gen::directory;
use keywalk_gen::shell::{FILE_LIST, Shell, ShellConfig, ShellError, generate};
use serde_json::Value;

mod tools;

/// Every width of either side.
fn configs() -> Vec<ShellConfig> {
    [(512, 512), (128, 512), (256, 512), (512, 256), (128, 256), (256, 256)]
        .into_iter()
        .map(|(engine_data_bits, pcie_data_bits)| ShellConfig {
            engine_data_bits,
            pcie_data_bits,
            ..ShellConfig::default()
        })
        .collect()
}

fn made(config: &ShellConfig) -> Shell {
    generate(config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

#[test]
fn lint_is_silent_with_waivers_of_files_and_rules_only() {
    for config in configs() {
        let shell = made(&config);
        let folder = tempfile::tempdir().unwrap();
        directory::install(&folder.path().join("shell"), &shell.package()).unwrap();
        let (is_clean, said) = tools::lint(&folder.path().join("shell"), top::TOP, FILE_LIST);
        assert!(is_clean, "{config:?}: {said}");
        for line in shell.waivers.1.lines().filter(|line| line.starts_with("lint_off")) {
            assert!(line.contains("-rule") && line.contains(".v\"") && !line.contains("\"*.v\""), "too wide: {line}");
        }
        for (name, text) in &shell.verilog {
            assert!(!text.contains("lint_off"), "{name} waives by itself");
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
fn the_command_writes_a_shell_with_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_keywalk-gen"));
        { command }.arg("shell").args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let output = run(&["--engine-data-bits", "128", "--out", "shell"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder_text = |name: &str| fs::read_to_string(folder.path().join("shell").join(name)).unwrap();
    let manifest: Value = serde_json::from_str(&folder_text("manifest.json")).unwrap();
    assert_eq!((&manifest["top"], &manifest["configuration"]["engine_data_bits"]), (&top::TOP.into(), &128.into()));
    let listed: BTreeSet<&str> =
        manifest["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    let written: BTreeSet<String> = fs::read_dir(folder.path().join("shell"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "manifest.json")
        .collect();
    assert_eq!(listed, written.iter().map(String::as_str).collect());
    let page = folder_text("shell.md");
    for queue in top::queues(&ShellConfig { engine_data_bits: 128, ..ShellConfig::default() }) {
        assert!(page.contains(&format!("`{}_queue`", queue.name)), "{} is not on the page", queue.name);
    }
    let output = run(&["--pcie-data-bits", "128", "--out", "other"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("legal is 256 or 512"));
    assert!(!folder.path().join("other").exists());
}

#[test]
fn stages_are_as_many_as_asked_for() {
    for stages in 2..=4 {
        let shell = made(&ShellConfig { stages, ..ShellConfig::default() });
        let (_, text) = shell.verilog.iter().find(|(name, _)| name == "level_crossing.v").unwrap();
        assert_eq!(text.matches("ASYNC_REG").count(), stages as usize);
        assert!(text.contains(&format!("level_at_other_q = level_at_other_stage_{};", stages - 1)));
    }
}

#[test]
fn an_illegal_field_is_named() {
    let field = |config: ShellConfig| match generate(&config) {
        Err(ShellError::Config(error)) => error.field,
        other => panic!("{other:?}"),
    };
    let default = ShellConfig::default;
    assert_eq!(field(ShellConfig { engine_data_bits: 64, ..default() }), "engine_data_bits");
    assert_eq!(field(ShellConfig { pcie_data_bits: 128, ..default() }), "pcie_data_bits");
    assert_eq!(field(ShellConfig { stages: 1, ..default() }), "stages");
    assert_eq!(field(ShellConfig { interrupt_repeat_log2: 33, ..default() }), "interrupt_repeat_log2");
}

/// A bit of the flat netlist; constants have no number.
type Bit = u64;

/// What a bit may come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// A register or memory of that clock; the cell's name.
    State(Bit, String),
    /// A port.
    Port(String),
}

/// The flat netlist of a shell.
struct Netlist {
    module: Value,
    /// The cell that drives a bit.
    drivers: BTreeMap<Bit, String>,
    /// Names of a bit.
    names: BTreeMap<Bit, BTreeSet<String>>,
    /// The input port that drives a bit.
    inputs: BTreeMap<Bit, String>,
}

fn bits(value: &Value) -> Vec<Bit> {
    value.as_array().map(|list| list.iter().filter_map(Value::as_u64).collect()).unwrap_or_default()
}

/// Inputs of a register or memory that are clocked by its clock.
const DATA_PORTS: [&str; 6] = ["D", "EN", "SRST", "WR_ADDR", "WR_DATA", "WR_EN"];

impl Netlist {
    fn read(shell: &Shell, folder: &Path) -> Self {
        for (name, text) in &shell.verilog {
            fs::write(folder.join(name), text).unwrap();
        }
        let files: Vec<&str> = shell.verilog.iter().map(|(name, _)| name.as_str()).collect();
        let script = format!(
            "read_verilog {}\nhierarchy -check -top {}\nproc\nflatten\nopt_clean\nmemory_collect\nopt_clean\n\
             check -assert\nwrite_json shell.json\n",
            files.join(" "),
            top::TOP
        );
        let (is_done, said) = tools::run_yosys(folder, &script);
        assert!(is_done, "{said}");
        let text = fs::read_to_string(folder.join("shell.json")).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let module = json["modules"][top::TOP].clone();
        let mut netlist = Self { module, drivers: BTreeMap::new(), names: BTreeMap::new(), inputs: BTreeMap::new() };
        for (name, cell) in netlist.module["cells"].as_object().unwrap() {
            for (port, direction) in cell["port_directions"].as_object().unwrap() {
                if direction == "output" {
                    let driven = bits(&cell["connections"][port]);
                    netlist.drivers.extend(driven.into_iter().map(|bit| (bit, name.clone())));
                }
            }
        }
        for (name, net) in netlist.module["netnames"].as_object().unwrap() {
            for bit in bits(&net["bits"]) {
                netlist.names.entry(bit).or_default().insert(name.clone());
            }
        }
        for (name, port) in netlist.module["ports"].as_object().unwrap() {
            if port["direction"] == "input" {
                netlist.inputs.extend(bits(&port["bits"]).into_iter().map(|bit| (bit, name.clone())));
            }
        }
        netlist
    }

    fn cell(&self, name: &str) -> &Value {
        &self.module["cells"][name]
    }

    /// The clock of a register or memory.
    fn clock(&self, name: &str) -> Option<Bit> {
        let cell = self.cell(name);
        let kind = cell["type"].as_str().unwrap();
        let port = match kind {
            "$dff" | "$adff" | "$dffe" | "$sdff" | "$sdffe" | "$adffe" => "CLK",
            "$mem_v2" => "WR_CLK",
            _ => {
                assert!(!kind.contains("ff") && !kind.contains("latch") && !kind.contains("mem"), "a cell {kind}");
                return None;
            }
        };
        let clocks: BTreeSet<Bit> = bits(&cell["connections"][port]).into_iter().collect();
        assert_eq!(clocks.len(), 1, "{name} has several clocks");
        clocks.into_iter().next()
    }

    /// Everything that bits may come from in a cycle.
    fn sources(&self, from: Vec<Bit>) -> BTreeSet<Source> {
        let mut found = BTreeSet::new();
        let mut seen: BTreeSet<Bit> = BTreeSet::new();
        let mut open = from;
        while let Some(bit) = open.pop() {
            if !seen.insert(bit) {
                continue;
            }
            if let Some(port) = self.inputs.get(&bit) {
                found.insert(Source::Port(port.clone()));
            }
            let Some(name) = self.drivers.get(&bit) else { continue };
            let cell = self.cell(name);
            let is_memory = cell["type"] == "$mem_v2";
            if let Some(clock) = self.clock(name) {
                found.insert(Source::State(clock, name.clone()));
                if !is_memory {
                    continue;
                }
            }
            for (port, direction) in cell["port_directions"].as_object().unwrap() {
                if direction == "input" && (!is_memory || port == "RD_ADDR") {
                    open.extend(bits(&cell["connections"][port]));
                }
            }
        }
        found
    }

    /// Names of what a register or memory holds.
    fn held(&self, name: &str) -> BTreeSet<String> {
        let cell = self.cell(name);
        if cell["type"] == "$mem_v2" {
            let id = cell["parameters"]["MEMID"].as_str().unwrap();
            return BTreeSet::from([id.trim_start_matches('\\').to_owned()]);
        }
        let held = bits(&cell["connections"]["Q"]);
        held.first().and_then(|bit| self.names.get(bit)).cloned().unwrap_or_default()
    }
}

/// A constraint of a module's file.
#[derive(Debug)]
struct Constraint {
    /// Register that paths come from; none where the constraint takes all of a clock.
    from: Option<String>,
    /// Register that they go to; the front of its name for a reset.
    to: String,
    is_reset: bool,
}

/// What a file of constraints says, read from its text.
fn constraints(text: &str) -> Vec<Constraint> {
    let cells = |line: &str, option: &str| {
        let (_, rest) = line.split_once(&format!("{option} [get_cells "))?;
        Some(rest.split_once("_reg*]").expect("a register").0.to_owned())
    };
    text.lines()
        .filter_map(|line| {
            if line.starts_with("set_max_delay -datapath_only ") {
                let to = cells(line, "-to").expect("a target");
                let from = cells(line, "-from");
                assert!(from.is_some() || line.contains("-from $"), "{line}");
                Some(Constraint { from, to, is_reset: false })
            } else if let Some(rest) = line.strip_prefix("set_false_path -to [get_pins ") {
                let to = rest.strip_suffix("_stage_*_reg*/CLR]").expect("the clear of stages").to_owned();
                Some(Constraint { from: None, to, is_reset: true })
            } else {
                let known = ["#", "set ", "set_bus_skew "].iter().any(|start| line.starts_with(start));
                assert!(known, "a constraint that this test does not know: {line}");
                None
            }
        })
        .collect()
}

/// Sides of ports, `None` for what belongs to no clock.
fn side_of(config: &ShellConfig, port: &str) -> Option<Side> {
    let ports = top::ports(config);
    let found = ports.iter().find(|candidate| candidate.port.name == port).expect("a port");
    (port != "engine_aresetn").then_some(found.side)
}

#[test]
fn every_path_between_the_clocks_has_a_constraint_and_every_constraint_a_path() {
    for config in configs() {
        let shell = made(&config);
        let folder = tempfile::tempdir().unwrap();
        let netlist = Netlist::read(&shell, folder.path());
        let clock_bit = |name: &str| bits(&netlist.module["ports"][name]["bits"])[0];
        let clocks = BTreeMap::from([(clock_bit("engine_aclk"), Side::Engine), (clock_bit("pcie_aclk"), Side::Pcie)]);
        let top_info = shell.modules.iter().find(|module| module.name == top::TOP).unwrap();
        let module_of: BTreeMap<&str, &str> =
            top_info.instances.iter().map(|instance| (instance.name.as_str(), instance.module.as_str())).collect();
        let mut rules = Vec::new();
        for (instance, module) in &module_of {
            if let Some((_, text)) = shell.constraints.iter().find(|(name, _)| *name == format!("{module}.xdc")) {
                rules.extend(constraints(text).into_iter().map(|rule| (*instance, rule, 0)));
            }
        }
        let local = |instance: &str, names: &BTreeSet<String>| -> BTreeSet<String> {
            names.iter().filter_map(|name| name.strip_prefix(&format!("{instance}."))).map(str::to_owned).collect()
        };
        let mut crossings = 0;
        let mut resets = 0;
        for (name, cell) in netlist.module["cells"].as_object().unwrap() {
            let Some(clock) = netlist.clock(name) else { continue };
            let held = netlist.held(name);
            let inputs = DATA_PORTS.iter().flat_map(|port| bits(&cell["connections"][*port])).collect();
            for source in netlist.sources(inputs) {
                let from = match &source {
                    Source::State(other, _) if *other == clock => continue,
                    Source::State(_, from) => netlist.held(from),
                    Source::Port(port) => {
                        let side = side_of(&config, port);
                        assert_eq!(side, Some(clocks[&clock]), "port {port} goes to {held:?} of the other clock");
                        continue;
                    }
                };
                crossings += 1;
                let mut is_covered = false;
                for (instance, rule, used) in &mut rules {
                    let to_matches = !rule.is_reset && local(instance, &held).contains(&rule.to);
                    let from_matches = rule.from.as_ref().is_none_or(|rule| local(instance, &from).contains(rule));
                    if to_matches && from_matches {
                        is_covered = true;
                        *used += 1;
                    }
                }
                assert!(is_covered, "{config:?}: no constraint from {from:?} to {held:?}");
            }
            let clear = bits(&cell["connections"]["ARST"]);
            if !clear.is_empty() {
                resets += 1;
                let is_port = |source: &Source| matches!(source, Source::Port(port) if port.ends_with("aresetn"));
                assert!(netlist.sources(clear).iter().all(is_port), "{held:?} is cleared by logic");
                let mut is_covered = false;
                for (instance, rule, used) in rules.iter_mut().filter(|(_, rule, _)| rule.is_reset) {
                    let start = format!("{}_stage_", rule.to);
                    if local(instance, &held).iter().any(|name| name.starts_with(&start)) {
                        is_covered = true;
                        *used += 1;
                    }
                }
                assert!(is_covered, "{config:?}: no constraint for the clear of {held:?}");
            }
        }
        let unused: Vec<_> = rules.iter().filter(|(.., used)| *used == 0).collect();
        assert!(unused.is_empty(), "{config:?}: constraints without a path: {unused:?}");
        // Nine queues with two pointers and a memory each, three signals of the link, the interrupt.
        assert_eq!((crossings, resets), (9 * 3 + 3 + 1, 2 * config.stages), "{config:?}");

        // What leaves comes from registers of its side, or from ports of its side.
        for port in top::ports(&config).iter().filter(|port| !port.port.is_input) {
            let from = netlist.sources(bits(&netlist.module["ports"][&port.port.name]["bits"]));
            for source in from {
                let side = match &source {
                    Source::State(clock, _) => Some(clocks[clock]),
                    Source::Port(name) => side_of(&config, name),
                };
                assert_eq!(side, Some(port.side), "{} comes from {source:?}", port.port.name);
            }
        }
    }
}

#[test]
fn first_stages_are_marked_and_fed_by_registers() {
    let config = ShellConfig::default();
    let shell = made(&config);
    for (name, text) in &shell.verilog {
        let declared = text.lines().filter(|line| line.trim().starts_with("(* ASYNC_REG = \"TRUE\" *) reg "));
        let stages = text.lines().filter(|line| line.contains(" <= ") && line.trim().contains("_stage_"));
        let assigned: BTreeSet<_> = stages.filter_map(|line| line.trim().split(" <= ").next()).collect();
        assert_eq!(declared.count(), assigned.len(), "{name}");
    }
}

#[test]
fn the_script_reads_every_file_of_constraints() {
    let shell = made(&ShellConfig::default());
    let (_, script) = shell.constraints.last().unwrap();
    for (name, _) in shell.constraints.iter().filter(|(name, _)| name.ends_with(".xdc")) {
        let module = name.trim_end_matches(".xdc");
        assert!(script.contains(&format!("read_xdc -ref {module} [file join $here {name}]")), "{name}");
        assert!(shell.verilog.iter().any(|(file, _)| *file == format!("{module}.v")), "{name} is of no module");
    }
}
