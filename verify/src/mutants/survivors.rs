//! The list of mutants that survive, with the reasons: a TOML file.

use std::fs;
use std::path::{Path, PathBuf};

use keywalk_cosim::mutant::Mutant;
use serde::Deserialize;

use super::all;

/// What kind of reason it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing that can be seen at the ports changes, ever.
    Equivalent,
    /// A test could find it, none does.
    Open,
}

/// A mutant that survives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survivor {
    /// Its module.
    pub module: String,
    /// The statement that it changes.
    pub statement: String,
    /// The change.
    pub change: String,
    /// Kind of the reason.
    pub kind: Kind,
    /// The reason.
    pub reason: String,
}

impl Survivor {
    fn is(&self, mutant: &Mutant) -> bool {
        (self.module.as_str(), self.statement.as_str(), self.change.as_str())
            == (mutant.module, mutant.statement, mutant.change)
    }
}

/// All that are listed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survivors {
    /// In the order of the file.
    #[serde(default, rename = "survivor")]
    pub listed: Vec<Survivor>,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum SurvivorsError {
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
    Text {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// An entry without a mutant.
    #[error("{}: no mutant of module `{}` does `{}` to `{}`; take the entry out, or write it as --list shows it", path.display(), survivor.module, survivor.change, survivor.statement)]
    NoMutant {
        /// The file.
        path: PathBuf,
        /// The entry.
        survivor: Box<Survivor>,
    },
}

impl Survivors {
    /// Reads the file. Every entry must name a mutant of this build.
    ///
    /// # Errors
    /// [`SurvivorsError`].
    pub fn read(path: &Path) -> Result<Self, SurvivorsError> {
        let text = fs::read_to_string(path).map_err(|source| SurvivorsError::System { path: path.into(), source })?;
        let survivors: Self = toml::from_str(&text)
            .map_err(|source| SurvivorsError::Text { path: path.into(), source: Box::new(source) })?;
        match survivors.listed.iter().find(|survivor| !all().any(|(_, mutant)| survivor.is(mutant))) {
            Some(survivor) => Err(SurvivorsError::NoMutant { path: path.into(), survivor: Box::new(survivor.clone()) }),
            None => Ok(survivors),
        }
    }

    /// What is listed about a mutant.
    #[must_use]
    pub fn of(&self, mutant: &Mutant) -> Option<&Survivor> {
        self.listed.iter().find(|survivor| survivor.is(mutant))
    }
}
