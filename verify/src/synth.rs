//! Synthesis figures: Verilog through yosys, and the analysis of the netlists.
//!
//! Each module is flattened and mapped with plain `synth_xilinx` for UltraScale+ by itself. [`netlist`] reads what yosys
//! writes, [`analysis`] says what it takes and how deep it is. For [`route`](crate::route) it is mapped for another [`Family`]. A netlist is kept beside a key of everything that it was
//! made from, so that a module that has not changed is not mapped again.

pub mod analysis;
pub mod netlist;
pub mod yosys;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io, thread};

use serde::Deserialize;
use sha2::{Digest, Sha256};

pub use analysis::{Analysis, Area, Path as TimingPath, RULE, WideNet};
pub use netlist::{Netlist, NetlistError};
pub use yosys::{ToolError, Yosys};

use crate::figures::{Row, Sense};

/// Module that the targets are for: everything but the wrapper that names the ports.
pub const CORE: &str = "keywalk_core";

/// Targets for the core.
const LEVELS_MAX: f64 = 5.0;
const DELAY_MAX_NS: f64 = 2.5;
const FAN_OUT_MAX: f64 = 300.0;
const LUTS_MAX: f64 = 6000.0;

/// What modules are mapped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// AMD's UltraScale+.
    UltraScalePlus,
    /// Lattice's ECP5.
    Ecp5,
}

impl Family {
    /// The commands that map; the last one takes `-top`.
    fn synthesis(self) -> &'static str {
        match self {
            // No `-widemux`: the figures of other engines were taken without it.
            Self::UltraScalePlus => "synth_xilinx -family xcup -flatten -noiopad -noclkbuf",
            // ECP5 has no UltraRAM.
            Self::Ecp5 => "setattr -set ram_style \"block\" a:ram_style=ultra\nsynth_ecp5",
        }
    }
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest is not understood.
    #[error("{}: not a manifest of keywalk-gen: {source}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The design has no such module.
    #[error("the design has no module `{wanted}`; it has {known}")]
    NoSuchModule {
        /// The name.
        wanted: String,
        /// The names that there are.
        known: String,
    },
    /// yosys or nextpnr made nothing.
    #[error("module `{module}`: {source}")]
    Tool {
        /// The module.
        module: String,
        /// Why.
        source: ToolError,
    },
    /// The report of nextpnr has no frequency.
    #[error("module `{module}`: {}: {why}", path.display())]
    NoFrequency {
        /// The module.
        module: String,
        /// The report.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The netlist cannot be analysed.
    #[error("module `{module}`: {source}")]
    Netlist {
        /// The module.
        module: String,
        /// Why.
        source: NetlistError,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SynthError + '_ {
    move |source| SynthError::System { path: path.into(), source }
}

#[derive(Debug, Deserialize)]
struct Manifest {
    modules: Vec<ManifestModule>,
}

#[derive(Debug, Deserialize)]
struct ManifestModule {
    name: String,
    file: String,
    instances: Vec<ManifestInstance>,
}

#[derive(Debug, Deserialize)]
struct ManifestInstance {
    module: String,
}

/// Generated Verilog in a directory.
#[derive(Debug)]
pub struct Design {
    directory: PathBuf,
    manifest: Manifest,
}

impl Design {
    /// Reads the manifest of a directory that keywalk-gen filled.
    ///
    /// # Errors
    /// [`SynthError::System`], [`SynthError::Manifest`].
    pub fn read(directory: &Path) -> Result<Self, SynthError> {
        let path = directory.join("manifest.json");
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let manifest = serde_json::from_str(&text).map_err(|source| SynthError::Manifest { path, source })?;
        Ok(Self { directory: directory.into(), manifest })
    }

    fn module(&self, name: &str) -> Result<&ManifestModule, SynthError> {
        self.manifest.modules.iter().find(|module| module.name == name).ok_or_else(|| SynthError::NoSuchModule {
            wanted: name.into(),
            known: self.manifest.modules.iter().map(|module| module.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// A module and those that it instantiates, each once, itself first.
    ///
    /// # Errors
    /// [`SynthError::NoSuchModule`].
    pub fn with_blocks(&self, top: &str) -> Result<Vec<String>, SynthError> {
        let blocks: BTreeSet<_> = self.module(top)?.instances.iter().map(|instance| instance.module.clone()).collect();
        Ok(std::iter::once(top.to_owned()).chain(blocks).collect())
    }

    /// Files of a module and of everything below it, in order of name.
    fn files(&self, top: &str) -> Result<Vec<PathBuf>, SynthError> {
        let mut found = vec![top];
        let mut files = BTreeSet::new();
        let mut next = 0;
        while next < found.len() {
            let module = self.module(found[next])?;
            files.insert(self.directory.join(&module.file));
            for instance in &module.instances {
                if !found.contains(&instance.module.as_str()) {
                    found.push(&instance.module);
                }
            }
            next += 1;
        }
        Ok(files.into_iter().collect())
    }

    /// Maps a module for a family of devices, or finds its netlist from an earlier run in `out`. Returns the netlist's file.
    ///
    /// # Errors
    /// No such module, or yosys failed.
    pub fn map(&self, module: &str, family: Family, yosys: &Yosys, out: &Path) -> Result<PathBuf, SynthError> {
        fs::create_dir_all(out).map_err(at(out))?;
        let file = |extension: &str| out.join(format!("{module}.{extension}"));
        let mut script = String::new();
        let mut digest = Sha256::new();
        digest.update(&yosys.version);
        for path in self.files(module)? {
            digest.update(fs::read(&path).map_err(at(&path))?);
            let path = std::path::absolute(&path).map_err(at(&path))?;
            script += &format!("read_verilog \"{}\"\n", path.display());
        }
        let (netlist, partial) = (file("json"), file("json.partial"));
        script += &format!("{} -top {module}\nwrite_json \"{}\"\n", family.synthesis(), partial.display());
        digest.update(&script);
        let key: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let key_path = file("key");
        if fs::read_to_string(&key_path).is_ok_and(|found| found == key) && netlist.is_file() {
            return Ok(netlist);
        }
        if let Err(error) = fs::remove_file(&key_path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(at(&key_path)(error));
        }
        let script_path = file("ys");
        fs::write(&script_path, script).map_err(at(&script_path))?;
        let failed = |source| SynthError::Tool { module: module.into(), source };
        yosys.run(&script_path, &file("log")).map_err(failed)?;
        fs::rename(&partial, &netlist).map_err(at(&partial))?;
        fs::write(&key_path, key).map_err(at(&key_path))?;
        Ok(netlist)
    }
}

/// Analyses a module of a netlist file, and keeps so many paths.
///
/// # Errors
/// A file that cannot be read or is no flattened netlist.
pub fn analyse(netlist: &Path, module: &str, paths: usize) -> Result<Analysis, SynthError> {
    let text = fs::read_to_string(netlist).map_err(at(netlist))?;
    let failed = |source| SynthError::Netlist { module: module.into(), source };
    let netlist = Netlist::read(&text, module).map_err(failed)?;
    Analysis::of(&netlist, paths).map_err(failed)
}

/// Works on modules, `threads` at a time. Results come in the order of the modules; `on_done` hears of each as it is
/// finished.
///
/// # Errors
/// The first, in the order of the modules.
///
/// # Panics
/// When `work` or `on_done` does.
pub fn each<T: Send>(
    modules: &[String],
    threads: usize,
    work: impl Fn(&str) -> Result<T, SynthError> + Sync,
    on_done: impl Fn(&str) + Sync,
) -> Result<Vec<(String, T)>, SynthError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<_>> = Mutex::new((0..modules.len()).map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, modules.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, module)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    modules.get(index).map(|module| (index, module))
                } {
                    let result = work(module);
                    on_done(module);
                    results.lock().expect("no worker panics")[index] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no worker panics");
    modules.iter().cloned().zip(results.into_iter().flatten()).map(|(name, result)| Ok((name, result?))).collect()
}

/// Figures of a module. Those of the core have targets.
#[must_use]
pub fn rows(module: &str, analysis: &Analysis) -> Vec<Row> {
    let Analysis { area, levels, picoseconds, fan_out, .. } = analysis;
    let judged = |what: &str, value: f64, unit, target| {
        let name = format!("{module} {what}");
        if module == CORE {
            Row::at_most(name, value, unit, target)
        } else {
            Row::informative(name, value, unit, Sense::Max)
        }
    };
    let counted = |what: &str, value: f64, unit| Row::informative(format!("{module} {what}"), value, unit, Sense::Max);
    vec![
        judged("logic depth", f64::from(*levels), "levels", LEVELS_MAX),
        judged("estimated delay", f64::from(*picoseconds) / 1000.0, "ns", DELAY_MAX_NS),
        judged("largest fan-out", f64::from(*fan_out), "loads", FAN_OUT_MAX),
        judged("LUT (logic, memory, shift)", f64::from(area.luts()), "LUT", LUTS_MAX),
        counted("LUT of logic", f64::from(area.logic_luts), "LUT"),
        counted("LUT of memory", f64::from(area.memory_luts), "LUT"),
        counted("LUT of shift registers", f64::from(area.shift_luts), "LUT"),
        counted("flip-flops", f64::from(area.registers), "FF"),
        counted("latches", f64::from(area.latches), "latches"),
        counted("block RAM", area.block_rams(), "BRAM36"),
        counted("UltraRAM", f64::from(area.ultra_rams), "URAM"),
        counted("carry chains", f64::from(area.carries), "CARRY8"),
        counted("MUXF", f64::from(area.muxfs), "MUXF"),
        counted("multipliers", f64::from(area.dsps), "DSP"),
    ]
}
