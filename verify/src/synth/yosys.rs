//! Runs yosys.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Version that the figures are given for.
pub const VERSION: &str = "0.70";

/// Runs a script with the yosys that the Python package `pyosys` holds; without one it prints its version.
const DRIVER: &str = "\
import sys, importlib.metadata
print('Yosys', importlib.metadata.version('pyosys'), flush=True)
from pyosys import libyosys
if len(sys.argv) > 1: libyosys.run_pass('script ' + sys.argv[1], libyosys.Design())
";

/// An installed yosys.
#[derive(Clone, Debug)]
pub struct Yosys {
    program: OsString,
    /// In front of the script's path.
    arguments: Vec<String>,
    /// Its version.
    pub version: String,
}

impl Yosys {
    /// Finds yosys: a Python that has the package pyosys (`KEYWALK_PYOSYS`, or the one in `build/venv`), else a
    /// program (`KEYWALK_YOSYS`, or `yosys` in the path).
    #[must_use]
    pub fn find() -> Option<Self> {
        let pythons = [env::var_os("KEYWALK_PYOSYS"), Some("build/venv/bin/python3".into())];
        let of_python = |program| Self::probe(program, vec!["-c".into(), DRIVER.into()], &[]);
        let programs = [env::var_os("KEYWALK_YOSYS"), Some("yosys".into())];
        let of_program = |program| Self::probe(program, vec!["-s".into()], &["-V"]);
        let python = pythons.into_iter().flatten().find_map(of_python);
        python.or_else(|| programs.into_iter().flatten().find_map(of_program))
    }

    /// Asks for the version; `None` when that fails.
    fn probe(program: OsString, arguments: Vec<String>, question: &[&str]) -> Option<Self> {
        let mut command = Command::new(&program);
        match question {
            [] => command.args(&arguments),
            question => command.args(question),
        };
        let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().find_map(|line| line.strip_prefix("Yosys "))?.split_whitespace().next()?.to_owned();
        Some(Self { program, arguments, version })
    }

    /// What to tell a reader who compares figures; `None` when there is nothing.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.version != VERSION).then(|| {
            format!(
                "yosys {} maps differently from {VERSION}, which the targets are meant for; `make synth` installs that",
                self.version
            )
        })
    }

    /// Runs the script, which must name its files absolutely or from the current directory. What yosys says goes into
    /// `log`.
    ///
    /// # Errors
    /// What the system says, or that yosys failed, with its last words.
    pub fn run(&self, script: &Path, log: &Path) -> Result<(), ToolError> {
        run_logged("yosys", Command::new(&self.program).args(&self.arguments).arg(script), log)
    }
}

/// Runs a tool; what it says goes into `log`.
///
/// # Errors
/// What the system says, or that the tool failed, with its last error or else its last words.
pub(crate) fn run_logged(tool: &'static str, command: &mut Command, log: &Path) -> Result<(), ToolError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| ToolError::System { path, source }
    };
    let output = File::create(log).map_err(at(log))?;
    let errors = output.try_clone().map_err(at(log))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let status = command.status().map_err(at(Path::new(command.get_program())))?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&fs::read(log).map_err(at(log))?).into_owned();
    let error = text.lines().rev().find(|line| line.starts_with("ERROR"));
    let last =
        error.or_else(|| text.lines().rev().find(|line| !line.trim().is_empty())).unwrap_or("nothing").to_owned();
    Err(ToolError::Failed { tool, last, log: log.into() })
}

/// Why a tool made nothing.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The tool failed.
    #[error("{tool} failed; its last line: {last} (all of it: {})", log.display())]
    Failed {
        /// Its name.
        tool: &'static str,
        /// Its last error, or its last line.
        last: String,
        /// Where everything is.
        log: PathBuf,
    },
}
