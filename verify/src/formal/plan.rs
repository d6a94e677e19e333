//! The list of proofs: a TOML file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// How a property is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// For every number of cycles after reset: it holds for `depth` cycles after reset, and wherever it held for `depth`
    /// cycles it holds in the next.
    Induction,
    /// For the first `depth` cycles after reset.
    Bounded,
}

impl Method {
    /// As a table shows it.
    #[must_use]
    pub fn text(self, depth: u32) -> String {
        match self {
            Self::Induction => format!("induction {depth}"),
            Self::Bounded => format!("{depth} cycles"),
        }
    }

    /// Whether it holds for any number of cycles.
    #[must_use]
    pub fn is_unbounded(self) -> bool {
        self != Self::Bounded
    }
}

/// A fault that is planted to show that a proof would find it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planted {
    /// What is wrong.
    pub name: String,
    /// Module of the proof, where the proof has several.
    pub proved: Option<String>,
    /// Module that is changed; that of the proof where it is not given.
    pub module: Option<String>,
    /// Text that the module must hold exactly once.
    pub find: String,
    /// What takes its place.
    pub replace: String,
    /// Cycles after reset in which it must be found.
    pub depth: u32,
}

/// Properties of a module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Short name.
    pub name: String,
    /// What is shown, for people.
    pub shows: String,
    /// Modules that it is shown of, each by itself: a name, or one that ends in `*`.
    pub module: String,
    /// How.
    pub method: Method,
    /// Cycles; see [`Method`].
    #[serde(default)]
    pub depth: u32,
    /// File of properties, which goes to the end of the module.
    pub properties: PathBuf,
    /// Files that go to the end of modules below it: module, or the begin of its name and `*`, and file.
    #[serde(default)]
    pub below: Vec<(String, PathBuf)>,
    /// Changes of the module itself: text that it must hold once, and what takes its place. To begin behind a long scrub.
    #[serde(default)]
    pub begin: Vec<(String, String)>,
    /// Modules below it that are left out: whatever they could answer is considered.
    #[serde(default)]
    pub free: Vec<String>,
    /// What stands for `@NAME@` in the properties.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// Memories become registers, which some solvers' questions need and others are slower with.
    #[serde(default)]
    pub memories_as_registers: bool,
    /// The module has several clocks, and any of them may rise in any step, so that two steps or more make a cycle.
    #[serde(default)]
    pub clocks_run_free: bool,
    /// Whether it is short enough for the tests of every commit.
    #[serde(default)]
    pub quick: bool,
    /// Faults that it must find.
    pub planted: Vec<Planted>,
}

/// All proofs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In the order of the file.
    pub proofs: Vec<Proof>,
    /// Where files of properties are.
    pub directory: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    proof: Vec<Proof>,
}

/// Why there is no list of proofs.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not understood.
    #[error("{}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A proof makes no sense.
    #[error("{}: proof `{proof}`: {why}", path.display())]
    Proof {
        /// The file.
        path: PathBuf,
        /// The proof.
        proof: String,
        /// What is wrong.
        why: String,
    },
}

impl Plan {
    /// Reads `proofs.toml` of a directory.
    ///
    /// # Errors
    /// A file that is missing or not understood; a proof without a planted fault, or with a name that another has.
    pub fn read(directory: &Path) -> Result<Self, PlanError> {
        let path = directory.join("proofs.toml");
        let text = fs::read_to_string(&path).map_err(|source| PlanError::System { path: path.clone(), source })?;
        let file: PlanFile =
            toml::from_str(&text).map_err(|source| PlanError::Syntax { path: path.clone(), source: source.into() })?;
        for (number, proof) in file.proof.iter().enumerate() {
            let refuse =
                |why: &str| Err(PlanError::Proof { path: path.clone(), proof: proof.name.clone(), why: why.into() });
            if proof.planted.is_empty() {
                return refuse("has no planted fault; give it a [[proof.planted]] that it must find");
            }
            if proof.depth == 0 {
                return refuse("has no depth; give it the cycles of its induction, or within which it is shown");
            }
            if file.proof[..number].iter().any(|earlier| earlier.name == proof.name) {
                return refuse("the name is taken; give it another");
            }
            if proof.module.ends_with('*') && proof.planted.iter().any(|planted| planted.proved.is_none()) {
                return refuse("is of several modules; say with `proved` of which one a planted fault is");
            }
        }
        Ok(Self { proofs: file.proof, directory: directory.into() })
    }
}

/// Whether a name is the pattern, or begins with what stands before its final `*`.
#[must_use]
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => pattern == name,
    }
}
