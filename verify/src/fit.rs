//! What a card's design takes of each card.
//!
//! The design is everything but the IP of the card's maker: engine, data mover, shell and probe, mapped with
//! [`synth`](crate::synth). What the PCIe IP takes is in no open netlist, so that room is left for it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use crate::figures::Row;
use crate::synth::Area;

/// Most of each resource that the design may take, in percent: what is fuller rarely routes at speed, and the IP needs some.
pub const SHARE_MAX: f64 = 50.0;

/// A card, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its part.
    pub part: String,
    /// What the part has.
    pub resources: Resources,
}

/// Totals of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// 6-input LUTs.
    pub luts: u32,
    /// Flip-flops.
    pub registers: u32,
    /// Block RAMs of 36 Kbit.
    pub block_rams: u32,
    /// UltraRAMs of 288 Kbit.
    pub ultra_rams: u32,
}

/// Why the cards are not known.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// With which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no card.
    #[error("{}: {source}", path.display())]
    Card {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// There is no file of a card.
    #[error("{}: no file of a card, `<name>.toml`", path.display())]
    None {
        /// The directory.
        path: PathBuf,
    },
}

/// Every card of a directory, in order of name.
///
/// # Errors
/// [`CardError`].
pub fn cards(directory: &Path) -> Result<Vec<Card>, CardError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| CardError::System { path, source }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let path = entry.map_err(at(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(CardError::None { path: directory.into() });
    }
    let card = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(at(path))?;
        toml::from_str(&text).map_err(|source| CardError::Card { path: path.clone(), source: Box::new(source) })
    };
    paths.iter().map(card).collect()
}

/// Shares of a card's resources that a design takes, in percent, each at most [`SHARE_MAX`].
#[must_use]
pub fn rows(card: &Card, area: &Area) -> Vec<Row> {
    let Resources { luts, registers, block_rams, ultra_rams } = card.resources;
    let shares = [
        ("LUT", f64::from(area.luts()), luts),
        ("FF", f64::from(area.registers), registers),
        ("BRAM36", area.block_rams(), block_rams),
        ("URAM", f64::from(area.ultra_rams), ultra_rams),
    ];
    shares
        .map(|(what, used, all)| {
            Row::at_most(format!("{} {what}", card.name), 100.0 * used / f64::from(all), "%", SHARE_MAX)
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(text: &str) -> Result<Vec<Card>, CardError> {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("u1.toml"), text).expect("a file");
        fs::write(directory.path().join("README.md"), "no card").expect("a file");
        cards(directory.path())
    }

    const GOOD: &str = "name = \"u1\"\npart = \"x\"\n[pcie]\nlink = 1\n[resources]\nluts = 1000\nregisters = 2000\n\
        block_rams = 10\nultra_rams = 4\n";

    #[test]
    fn shares_are_of_what_the_card_has() {
        let cards = card(GOOD).expect("a card");
        let area = Area { logic_luts: 300, memory_luts: 100, shift_luts: 50, registers: 100, ..Area::default() };
        let rows = rows(&cards[0], &area);
        assert_eq!(rows.iter().map(|row| row.value).collect::<Vec<_>>(), [45.0, 5.0, 0.0, 0.0]);
        assert!(rows.iter().all(|row| row.pass));
        let full = super::rows(&cards[0], &Area { logic_luts: 501, ..area });
        assert_eq!(full.iter().filter(|row| !row.pass).map(|row| row.name.as_str()).collect::<Vec<_>>(), ["u1 LUT"]);
    }

    #[test]
    fn a_card_without_resources_and_an_empty_directory_are_refused() {
        let error = card("name = \"u1\"\npart = \"x\"\n").expect_err("no resources").to_string();
        assert!(error.contains("u1.toml") && error.contains("resources"), "{error}");
        let error = card(&GOOD.replace("luts", "lutz")).expect_err("a wrong key").to_string();
        assert!(error.contains("lutz"), "{error}");
        let empty = tempfile::tempdir().expect("a directory");
        let error = cards(empty.path()).expect_err("no card").to_string();
        assert!(error.contains("no file of a card"), "{error}");
    }
}
