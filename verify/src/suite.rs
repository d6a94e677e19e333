//! Many files, on several threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::dut::{Dut, DutError, GoldenDut, RtlDut, RtlOptions};
use crate::hardware::SharedMemory;
use crate::report::FileReport;
use crate::run::{Rerun, Settings, run_file};
use crate::tables::Tables;
use crate::vector::{Vector, VectorError};

/// What is tested.
#[derive(Clone, Debug)]
pub enum Design {
    /// The golden model.
    Model,
    /// The generated engine.
    Rtl {
        /// The compiled design.
        design: &'static keywalk_cosim::Dut,
        /// How its surroundings behave.
        options: RtlOptions,
    },
}

impl Design {
    /// The generated engine of that name, such as `default`; `None` when this build does not have it.
    #[must_use]
    pub fn rtl(name: &str, options: RtlOptions) -> Option<Self> {
        let design = Self::engines().find(|design| design.name == name)?;
        Some(Self::Rtl { design, options })
    }

    /// The engines that this build has, in each configuration and with each planted fault.
    pub fn engines() -> impl Iterator<Item = &'static keywalk_cosim::Dut> {
        keywalk_cosim::dut::ALL.iter().copied().filter(|design| design.top == "keywalk")
    }

    fn dut(&self) -> Box<dyn Dut> {
        match self {
            Self::Model => Box::new(GoldenDut::default()),
            Self::Rtl { design, options } => Box::new(RtlDut::<SharedMemory>::new(design, options.clone())),
        }
    }
}

/// Why files were not run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A path cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A directory holds no vector.
    #[error("{}: no *.json or *.json.gz file in this directory", .0.display())]
    NoVectors(PathBuf),
    /// A file is no vector.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The memory image of a file does not hold together.
    #[error("{}: image: {source}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is not backed.
        source: keywalk_image::Unbacked,
    },
}

/// Vectors, read and checked.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    files: Vec<(PathBuf, Vector, Tables)>,
}

/// What happens while a suite runs.
#[derive(Debug)]
pub enum Event {
    /// A file has got so far.
    Progress {
        /// Name of the vector.
        name: String,
        /// How far.
        state: String,
    },
    /// A file is done. Files are done in order.
    Done(Box<FileReport>),
}

impl Suite {
    /// Reads files, and of directories all vectors in order of name.
    ///
    /// # Errors
    /// The first path that cannot be used.
    pub fn load(paths: &[PathBuf]) -> Result<Self, SuiteError> {
        let mut suite = Self::default();
        for path in paths {
            if path.is_dir() {
                let files = vectors_in(path)?;
                if files.is_empty() {
                    return Err(SuiteError::NoVectors(path.clone()));
                }
                for file in &files {
                    suite.add(file)?;
                }
            } else {
                suite.add(path)?;
            }
        }
        Ok(suite)
    }

    fn add(&mut self, path: &Path) -> Result<(), SuiteError> {
        let vector = Vector::load(path)?;
        let tables = Tables::of(&vector).map_err(|source| SuiteError::Image { path: path.into(), source })?;
        self.files.push((path.into(), vector, tables));
        Ok(())
    }

    /// Number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The vectors and their tables.
    pub fn vectors(&self) -> impl Iterator<Item = (&Vector, &Tables)> {
        self.files.iter().map(|(_, vector, tables)| (vector, tables))
    }

    /// The files, with their vectors and tables.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Vector, &Tables)> {
        self.files.iter().map(|(path, vector, tables)| (path.as_path(), vector, tables))
    }

    /// Runs all files on up to `threads` threads, each with a design of its own. Waveforms of failing requests go into
    /// `trace`.
    pub fn run(
        &self,
        design: &Design,
        settings: &Settings,
        threads: usize,
        trace: Option<&Path>,
        mut on_event: impl FnMut(Event),
    ) -> Vec<FileReport> {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let mut reports: Vec<Option<FileReport>> = self.files.iter().map(|_| None).collect();
        thread::scope(|scope| {
            for _ in 0..threads.clamp(1, self.files.len().max(1)) {
                let sender = sender.lock().unwrap_or_else(|poison| poison.into_inner()).clone();
                let next = &next;
                scope.spawn(move || {
                    let mut dut = design.dut();
                    loop {
                        let position = next.fetch_add(1, Ordering::Relaxed);
                        let Some((path, vector, tables)) = self.files.get(position) else { break };
                        let progress = |state: &str| {
                            let event = Event::Progress { name: vector.name.clone(), state: state.into() };
                            // The receiver lives as long as the scope.
                            let _ = sender.send((position, event));
                        };
                        let (mut report, rerun) = run_file(path, vector, tables, &mut *dut, settings, &progress);
                        if report.stopped.is_some() {
                            dut = design.dut();
                        }
                        if let (Some(directory), Design::Rtl { design, options }) = (trace, design) {
                            let fresh = RtlDut::new(design, options.clone());
                            trace_into(directory, &mut report, &rerun, tables, fresh);
                        }
                        let _ = sender.send((position, Event::Done(Box::new(report))));
                    }
                });
            }
            drop(sender);
            let mut reported = 0;
            for (position, event) in receiver {
                match event {
                    Event::Done(report) => reports[position] = Some(*report),
                    Event::Progress { .. } => on_event(event),
                }
                while let Some(Some(report)) = reports.get(reported) {
                    on_event(Event::Done(Box::new(report.clone())));
                    reported += 1;
                }
            }
        });
        reports.into_iter().flatten().collect()
    }
}

/// Writes a waveform of a failing request and notes it in the report.
fn trace_into(directory: &Path, report: &mut FileReport, rerun: &Rerun, tables: &Tables, mut dut: RtlDut) {
    let Some(difference) = &mut report.first_difference else { return };
    difference.trace = match rerun.trace(directory, &report.name, tables, &mut dut) {
        Ok(Some((path, differs))) => {
            let verdict = if differs { "differs as well" } else { "agrees with the golden model" };
            Some(format!("{}: the request alone, on a fresh engine, {verdict}", path.display()))
        }
        Ok(None) => None,
        Err(DutError::Bench(error @ keywalk_cosim::Error::TraceFile { .. })) => Some(error.to_string()),
        Err(error) => Some(format!("the waveform ends early: {error}")),
    };
}

/// The vector files in a directory, in order of name.
fn vectors_in(directory: &Path) -> Result<Vec<PathBuf>, SuiteError> {
    let error = |source| SuiteError::Path { path: directory.into(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".json") || name.ends_with(".json.gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
