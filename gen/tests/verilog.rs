//! The generated Verilog as the tools see it: lint, yosys' checks, and what its memories become.

mod tools;

use keywalk_contract::Config;
use keywalk_contract::config::ConfigField;
use keywalk_gen::config_file::{self, Format};
use keywalk_gen::presets::{self, PRESETS};
use keywalk_gen::{Output, generate, package};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tools::{lint, run_yosys};

fn preset(name: &str) -> Config {
    presets::find(name).unwrap_or_else(|| panic!("there is no preset {name}")).config()
}

/// Generates into a folder, which is gone when it is dropped.
fn written(config: &Config) -> (Output, tempfile::TempDir) {
    let output = generate(config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in package::engine(&output) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    (output, folder)
}

/// Every top module, and the list of its files.
fn tops(output: &Output) -> [(&String, &'static str); 3] {
    [
        (&output.top, package::FILE_LIST),
        (&output.mover_top, package::MOVER_FILE_LIST),
        (&output.probe_top, package::PROBE_FILE_LIST),
    ]
}

fn assert_lint_is_silent(config: &Config) {
    let (output, folder) = written(config);
    for (top, list) in tops(&output) {
        let (is_silent, text) = lint(folder.path(), top, list);
        assert!(is_silent, "{top}, configuration {config:?}:\n{text}");
    }
}

#[test]
fn every_preset_passes_lint() {
    for preset in PRESETS {
        assert_lint_is_silent(&preset.config());
    }
}

/// A configuration with every field at an end of its range.
fn extreme(name: &str, in_order: bool, choose: fn(&ConfigField) -> u32) -> Config {
    let numbers = Config::FIELDS.iter().map(|field| format!("{} = {}\n", field.name, choose(field)));
    let text =
        format!("name = \"{name}\"\ndone_tracking = false\nin_order = {in_order}\n{}", numbers.collect::<String>());
    config_file::parse(&text, Format::Toml).unwrap()
}

#[test]
fn the_ends_of_all_ranges_pass_lint() {
    for in_order in [false, true] {
        assert_lint_is_silent(&extreme("least", in_order, |field| field.min));
        assert_lint_is_silent(&extreme("most", in_order, |field| field.max));
    }
}

/// Legal configurations are legal in every combination: each field alone at each end of its range.
#[test]
fn each_field_at_each_end_of_its_range_generates() {
    for field in Config::FIELDS {
        for value in [field.min, field.max] {
            let text = format!("{} = {value}", field.name);
            let config = config_file::parse(&text, Format::Toml).unwrap();
            let output = generate(&config).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(output.files.len() > 20, "{text}: {} files", output.files.len());
        }
    }
}

/// A lint that finds nothing wrong anywhere would be no lint.
#[test]
fn lint_finds_a_planted_fault() {
    let (output, folder) = written(&preset("small"));
    let path = folder.path().join("walk_queue.v");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("endmodule", "    wire [3:0] planted = 5'd17;\nendmodule", 1)).unwrap();
    let (is_silent, text) = lint(folder.path(), &output.top, package::FILE_LIST);
    assert!(!is_silent && text.contains("planted"), "{text}");
}

#[test]
fn the_only_waiver_is_for_the_name_of_the_interrupt_port() {
    for preset in PRESETS {
        let output = generate(&preset.config()).unwrap();
        let waivers = output.files.iter().flat_map(|(file, text)| {
            text.lines().filter(|line| line.contains("lint_off")).map(move |line| (file.as_str(), line.trim()))
        });
        let waivers: Vec<_> = waivers.collect();
        assert_eq!(waivers, [("keywalk.v", "/* verilator lint_off SYMRSVDWORD */")]);
    }
}

#[test]
fn the_default_takes_less_than_a_second() {
    // The best of three, because other programs run beside.
    let timed = || {
        let start = Instant::now();
        let files = package::engine(&generate(&Config::default()).unwrap());
        assert!(files.len() > 20);
        start.elapsed()
    };
    let elapsed = (0..3).map(|_| timed()).min().unwrap();
    assert!(elapsed < Duration::from_secs(1), "it took {elapsed:?}");
}

#[test]
fn yosys_accepts_the_small_engine_its_mover_and_its_probe() {
    let (output, folder) = written(&preset("small"));
    for (top, list) in tops(&output) {
        let script = format!("{}hierarchy -check -top {top}\nproc\ncheck -assert\n", read_list(folder.path(), list));
        let (success, log) = run_yosys(folder.path(), &script);
        assert!(success, "{log}");
    }
}

/// The command that reads every file of a list.
fn read_list(folder: &Path, list: &str) -> String {
    let list = std::fs::read_to_string(folder.join(list)).unwrap();
    format!("read_verilog {}\n", list.lines().collect::<Vec<_>>().join(" "))
}

/// The command that reads every file of the engine.
fn read(folder: &Path) -> String {
    read_list(folder, package::FILE_LIST)
}

/// The steps of synthesis in `range`.
fn synthesis(range: &str, top: &str) -> String {
    format!("synth_xilinx -family xcup -top {top} -flatten -noiopad -noclkbuf -run {range}\n")
}

/// Memories that were mapped are cells of the device by then; in step `map_ffram` the others become flip-flops.
const NO_MEMORY_IS_LEFT: &str = "select -assert-none t:$mem t:$mem_v2\n";

#[test]
fn every_memory_of_the_default_becomes_a_ram() {
    let (output, folder) = written(&Config::default());
    for (top, list) in tops(&output) {
        let script = read_list(folder.path(), list) + &synthesis(":map_ffram", top) + NO_MEMORY_IS_LEFT;
        let (success, log) = run_yosys(folder.path(), &script);
        assert!(success, "{log}");
    }
}

/// A check for memories that never finds one would be no check.
#[test]
fn a_memory_that_no_ram_holds_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let text = "module m(input wire clk, input wire [3:0] a, input wire [7:0] d, output wire [7:0] q, output wire [7:0] r);\n\
                reg [7:0] words[0:15];\nreg [7:0] q_next;\n\
                always @(posedge clk) words[a] <= d;\nalways @(posedge clk) if (a[0]) words[~a] <= ~d;\n\
                always @(posedge clk) if (a[1]) words[d[3:0]] <= q;\n\
                assign q = words[a];\nassign r = words[d[3:0]];\nendmodule\n";
    std::fs::write(folder.path().join("m.v"), text).unwrap();
    let script = format!("read_verilog m.v\n{}{NO_MEMORY_IS_LEFT}", synthesis(":map_ffram", "m"));
    let (success, log) = run_yosys(folder.path(), &script);
    assert!(!success && log.contains("select"), "{log}");
}

#[test]
fn the_small_engine_is_synthesised() {
    let (output, folder) = written(&preset("small"));
    let script = read(folder.path())
        + &synthesis(":map_ffram", &output.top)
        + NO_MEMORY_IS_LEFT
        + &synthesis("map_ffram:", &output.top)
        + "tee -o cells.txt stat\n";
    let (success, log) = run_yosys(folder.path(), &script);
    assert!(success, "{log}");
    // Versions of yosys differ in whether the number or the name comes first.
    let mut cells = BTreeMap::new();
    for line in std::fs::read_to_string(folder.path().join("cells.txt")).unwrap().lines() {
        if let [a, b] = *line.split_whitespace().collect::<Vec<_>>()
            && let Ok((name, count)) = b.parse::<u64>().map(|count| (a, count)).or(a.parse().map(|count| (b, count)))
        {
            cells.insert(name.to_owned(), count);
        }
    }
    let count = |is_kind: fn(&str) -> bool| cells.iter().filter(|(name, _)| is_kind(name)).map(|(_, n)| n).sum::<u64>();
    let block_rams = count(|name| name.starts_with("RAMB") || name.starts_with("URAM"));
    let lut_rams = count(|name| name.starts_with("RAM") && !name.starts_with("RAMB"));
    let flip_flops = count(|name| name.starts_with("FD"));
    let latches = count(|name| name.starts_with("LD"));
    assert!(block_rams > 0 && lut_rams > 0 && flip_flops > 0, "{cells:?}");
    assert_eq!(latches, 0, "{cells:?}");
    // The register behind a read port is within a block RAM, but outside of a LUT RAM.
    let instances = output.instance_modules();
    let registers: u64 = instances.iter().map(|module| u64::from(module.register_bits)).sum();
    let memories = instances.iter().flat_map(|module| &module.memories);
    let read_bits: u64 = memories
        .filter(|memory| memory.style != Some("block") && memory.style != Some("ultra"))
        .map(|memory| u64::from(memory.width) * memory.read_ports as u64)
        .sum();
    assert!(
        flip_flops <= registers + read_bits,
        "{flip_flops} flip-flops for {registers} register bits and {read_bits} bits behind LUT RAM: {cells:?}"
    );
    println!("{flip_flops} flip-flops, {registers} register bits, {read_bits} bits behind LUT RAM: {cells:?}");
}
