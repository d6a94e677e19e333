//! The tools that generated Verilog is checked with.

use std::path::{Path, PathBuf};
use std::process::Command;

mod lint;

pub use lint::lint;

/// How yosys is run: the program and the arguments in front of the script's path.
fn yosys() -> (PathBuf, Vec<String>) {
    let arguments = || vec![String::from("-q"), String::from("-s")];
    if let Some(program) = std::env::var_os("KEYWALK_YOSYS") {
        return (program.into(), arguments());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(program) = std::env::split_paths(&path).map(|folder| folder.join("yosys")).find(|file| file.is_file()) {
        return (program, arguments());
    }
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/venv/bin/python3");
    let found =
        Command::new(&python).args(["-c", "import pyosys"]).output().is_ok_and(|output| output.status.success());
    assert!(found, "no yosys: neither KEYWALK_YOSYS, nor `yosys` on PATH, nor pyosys in build/venv; run `make setup`");
    let program = "import sys; from pyosys import libyosys as y; y.run_pass('script ' + sys.argv[1], y.Design())";
    (python, vec![String::from("-c"), String::from(program)])
}

/// Runs the script in the folder; returns whether it succeeded, and what it said.
pub fn run_yosys(folder: &Path, script: &str) -> (bool, String) {
    std::fs::write(folder.join("script.ys"), script).expect("the script is written");
    let (program, arguments) = yosys();
    let output = Command::new(&program)
        .args(arguments)
        .arg("script.ys")
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{} does not run: {error}; run `make setup`", program.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}
