//! The programs that test a mutant.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use keywalk_cosim::mutant;
use serde::Deserialize;

use super::block;

/// Tests of the whole engine that hold for the small one: test file, and the tests in it, where not all are of that engine.
const ENGINE_TESTS: [(&str, &[&str]); 4] = [
    ("invalidation", &[]),
    ("counters", &[]),
    ("back_pressure", &[]),
    ("random_tables", &["the_small_engine_answers_as_the_model"]),
];
/// Test file of queues and free lists.
const QUEUE_TESTS: &str = "prim";
/// First seed and number of cases of the soak that mutants die in which their block's own tests miss, and of the long one.
const SHORT_SOAK: (u32, u32) = (1, 3);
const LONG_SOAK: (u32, u32) = (4, 24);

/// A program that fails when it finds a fault.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is, for reports.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it is run.
    pub directory: PathBuf,
    /// Block that it tests, where it does not test all.
    pub block: Option<String>,
    /// It is a block of the engine, which queues and free lists are parts of.
    pub has_queues: bool,
}

impl Program {
    /// Whether it may find a fault in this module. Queues and free lists of any size are parts of blocks, whose tests may
    /// find what the tests of a few sizes do not.
    #[must_use]
    pub fn tests(&self, module: &str) -> bool {
        let block = block(module);
        self.block.as_ref().is_none_or(|name| name == block || (block != module && self.has_queues))
    }
}

/// Why there are no programs.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Cargo does not start.
    #[error("{program}: {source}")]
    Start {
        /// Cargo.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// Cargo did not build the tests; it has said why.
    #[error("the tests were not built; they are run from the root of the repository, with a checkout that is whole")]
    Build,
    /// A test is missing.
    #[error("cargo built no test `{0}`")]
    Missing(String),
}

/// A message of cargo's about something that it built.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    manifest_path: PathBuf,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds tests; the executables.
fn build(arguments: &[&str]) -> Result<Vec<Artifact>, ProgramError> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(&cargo)
        .args(["test", "--release", "--no-run", "--message-format=json"])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| ProgramError::Start { program: cargo, source })?;
    if !output.status.success() {
        return Err(ProgramError::Build);
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    // Messages about what is no executable are of another form.
    let artifacts = lines.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    Ok(artifacts.filter(|artifact| artifact.target.kind.iter().any(|kind| kind == "test")).collect())
}

/// The programs, in the order in which they are run: those first that find much in little time. `verify`: the executable of
/// this command. The tests are built for it, with the mutants in them.
///
/// # Errors
/// [`ProgramError`].
pub fn programs(verify: &Path, vectors: &[PathBuf]) -> Result<Vec<Program>, ProgramError> {
    let mut blocks = build(&["-p", "keywalk-cosim", "--features", "mutants"])?;
    blocks.sort_by_key(|artifact| artifact.target.name != QUEUE_TESTS);
    let mut arguments = vec!["-p", "keywalk-verify", "--no-default-features", "--features", "mutants"];
    for (name, _) in ENGINE_TESTS {
        arguments.extend(["--test", name]);
    }
    let engine = build(&arguments)?;

    let of_this_command = |name: String, arguments: Vec<String>| Program {
        name,
        path: verify.into(),
        arguments,
        directory: PathBuf::from("."),
        block: None,
        has_queues: false,
    };
    let soak = |(first, seeds): (u32, u32)| {
        let text = format!("soak --preset small --seed {first} --seeds {seeds} --jobs 1 --shrink-runs 0");
        of_this_command(format!("soak {first}+{seeds}"), text.split(' ').map(str::to_owned).collect())
    };
    let test = |artifact: &Artifact, names: &[&str], block: Option<String>| Program {
        name: format!("tests/{}.rs", artifact.target.name),
        path: artifact.executable.clone(),
        arguments: names.iter().copied().chain(["--test-threads=1"]).map(str::to_owned).collect(),
        directory: artifact.manifest_path.parent().map_or_else(|| ".".into(), Path::to_owned),
        has_queues: block.as_ref().is_some_and(|name| mutant::ALL.iter().any(|mutant| mutant.module == name)),
        block,
    };

    let mut programs = Vec::new();
    for artifact in &blocks {
        let names: &[&str] =
            if artifact.target.name == QUEUE_TESTS { &["fifo", "free_list"] } else { &[&artifact.target.name] };
        programs.extend(names.iter().map(|name| test(artifact, &[], Some((*name).into()))));
    }
    programs.push(soak(SHORT_SOAK));
    for (name, names) in ENGINE_TESTS {
        let found = engine.iter().find(|artifact| artifact.target.name == name);
        programs.push(test(found.ok_or_else(|| ProgramError::Missing(name.into()))?, names, None));
    }
    programs.push(soak(LONG_SOAK));
    let mut arguments: Vec<String> =
        "vectors --dut rtl --preset small --jobs 1".split(' ').map(str::to_owned).collect();
    arguments.extend(vectors.iter().map(|path| path.display().to_string()));
    programs.push(of_this_command("vectors".into(), arguments));
    Ok(programs)
}
