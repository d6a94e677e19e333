//! Verilator's lint.

use std::path::Path;
use std::process::Command;

/// Runs Verilator's lint over a file list, with all warnings; returns whether it is satisfied, and what it said.
pub fn lint(folder: &Path, top: &str, file_list: &str) -> (bool, String) {
    let program = std::env::var("VERILATOR").unwrap_or_else(|_| "verilator".into());
    let output = Command::new(&program)
        .args(["--lint-only", "-Wall", "--top-module", top, "-F", file_list])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("`{program}` (environment VERILATOR, or PATH): {error}; run `make setup`"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success() && !text.contains("%Warning"), text)
}
