//! Figures with their targets: what `bench` and `synth` print and write.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// Which side of its target a value must be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// The target is a ceiling.
    Max,
    /// The target is a floor.
    Min,
}

/// A figure. Without a target it is for information and always passes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured; unique within a report.
    pub name: String,
    /// The measured value.
    pub value: f64,
    /// Unit of value, target and bound.
    pub unit: &'static str,
    /// What the value must reach or keep.
    pub target: Option<f64>,
    /// Whether the target is a ceiling or a floor.
    pub sense: Sense,
    /// What the value is compared with: the best that is possible, or where nothing better is known the target.
    pub bound: Option<f64>,
    /// Value divided by bound.
    pub ratio: Option<f64>,
    /// Whether the value is on the right side of its target.
    pub pass: bool,
}

/// Slack for values that are quotients: a figure does not fail for the rounding of a division.
const ROUNDING: f64 = 1e-9;

impl Row {
    fn new(name: impl Into<String>, value: f64, unit: &'static str, sense: Sense, target: Option<f64>) -> Self {
        let pass = target.is_none_or(|target| match sense {
            Sense::Max => value <= target * (1.0 + ROUNDING),
            Sense::Min => value >= target * (1.0 - ROUNDING),
        });
        // A value that is no number has measured nothing.
        let pass = pass && value.is_finite();
        Self { name: name.into(), value, unit, target, sense, bound: None, ratio: None, pass }.bounded(target)
    }

    /// A value that must not exceed `target`.
    pub fn at_most(name: impl Into<String>, value: f64, unit: &'static str, target: f64) -> Self {
        Self::new(name, value, unit, Sense::Max, Some(target))
    }

    /// A value that must reach `target`.
    pub fn at_least(name: impl Into<String>, value: f64, unit: &'static str, target: f64) -> Self {
        Self::new(name, value, unit, Sense::Min, Some(target))
    }

    /// A value without a target; `sense` says which direction is better.
    pub fn informative(name: impl Into<String>, value: f64, unit: &'static str, sense: Sense) -> Self {
        Self::new(name, value, unit, sense, None)
    }

    /// The same row, compared with `bound`.
    #[must_use]
    pub fn with_bound(self, bound: f64) -> Self {
        self.bounded(Some(bound))
    }

    fn bounded(self, bound: Option<f64>) -> Self {
        let ratio = bound.filter(|bound| *bound != 0.0).map(|bound| self.value / bound);
        Self { bound, ratio, ..self }
    }
}

/// A number as a person reads it: no more digits than carry meaning.
#[must_use]
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value.fract() == 0.0 && magnitude < 1e15 {
        return format!("{value:.0}");
    }
    match magnitude {
        1e5.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A table with a head; all columns but the first `left` stand to the right.
#[must_use]
pub fn grid(head: &[&str], left: usize, lines: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(head);
    for line in lines {
        table.add_row(line);
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The rows as a table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let sign = match row.sense {
            Sense::Max => "≤",
            Sense::Min => "≥",
        };
        let or_dash = |value: Option<f64>| value.map_or("–".into(), number);
        let verdict = match (row.target, row.pass) {
            (None, true) => "",
            (Some(_), true) => "ok",
            (_, false) => "missed",
        };
        vec![
            row.name.clone(),
            row.unit.into(),
            verdict.into(),
            row.target.map_or("–".into(), |target| format!("{sign} {}", number(target))),
            number(row.value),
            or_dash(row.bound),
            row.ratio.map_or("–".into(), |ratio| format!("{ratio:.3}")),
        ]
    };
    grid(&["figure", "unit", "", "target", "measured", "bound", "ratio"], 3, rows.iter().map(line))
}

/// A line that says how many rows are within their targets.
#[must_use]
pub fn summary(rows: &[Row]) -> String {
    let judged = rows.iter().filter(|row| row.target.is_some()).count();
    let missed = rows.iter().filter(|row| !row.pass).count();
    let informative = rows.iter().filter(|row| row.target.is_none()).count();
    format!("{} within target, {missed} missed, {informative} without a target", judged.saturating_sub(missed))
}

/// A Markdown table; the first `left` columns stand to the left, the others to the right.
#[must_use]
pub fn markdown(head: &[&str], left: usize, lines: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let marks = (0..head.len()).map(|column| if column < left { "---".into() } else { "---:".to_owned() });
    let head = line(head.iter().map(|name| (*name).to_owned()).collect());
    head + &line(marks.collect()) + &lines.into_iter().map(line).collect::<String>()
}

/// Rows as a Markdown table.
#[must_use]
pub fn markdown_of_rows(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let sign = match row.sense {
            Sense::Max => "≤",
            Sense::Min => "≥",
        };
        vec![
            row.name.clone(),
            row.unit.into(),
            row.target.map_or(String::new(), |target| format!("{sign} {}", number(target))),
            number(row.value),
            row.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
            if row.pass { String::new() } else { "missed".into() },
        ]
    };
    markdown(&["figure", "unit", "target", "measured", "of the bound", ""], 2, rows.iter().map(line))
}

/// A text with the part between the lines `<!-- part -->` and `<!-- /part -->` replaced; `None` where there is no such
/// part.
#[must_use]
pub fn with_part(text: &str, part: &str, content: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- /{part} -->"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{}\n{end}{after}", content.trim_end()))
}

/// A file that appears whole or not at all. Made before long work, so that a path that cannot be written is found
/// first; dropped without [`write`](Self::write), it leaves nothing.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl WholeFile {
    /// Prepares `path`; its directory must exist.
    ///
    /// # Errors
    /// A directory that does not exist or cannot be written into, or a path that is a directory.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory; name a file"));
        }
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".keywalk-verify-").tempfile_in(parent)?;
        Ok(Self { path: path.into(), file })
    }

    /// Fills the file and puts it into its place.
    ///
    /// # Errors
    /// What the system says; the path is then as it was.
    pub fn write(mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.as_file().sync_all()?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // A temporary file is private to its owner, a report is not.
            fs::set_permissions(self.file.path(), fs::Permissions::from_mode(0o644))?;
        }
        self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Rows as JSON: an array with one object per row.
///
/// # Panics
/// Never: rows hold nothing that JSON cannot.
#[must_use]
pub fn json(rows: &[Row]) -> String {
    serde_json::to_string_pretty(rows).expect("rows are plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_passes_on_its_side_of_the_target() {
        assert!(Row::at_most("a", 1.0, "cycles", 1.0).pass);
        assert!(!Row::at_most("a", 1.01, "cycles", 1.0).pass);
        assert!(Row::at_least("a", 1.0, "cycles", 1.0).pass);
        assert!(!Row::at_least("a", 0.99, "cycles", 1.0).pass);
        assert!(Row::informative("a", 1e9, "cycles", Sense::Max).pass);
        assert!(!Row::informative("a", f64::NAN, "cycles", Sense::Max).pass, "nothing was measured");
        assert!(!Row::informative("a", f64::INFINITY, "cycles", Sense::Max).pass, "it never happened");
    }

    #[test]
    fn the_ratio_is_to_the_bound_and_without_one_to_the_target() {
        let row = Row::at_most("a", 3.0, "cycles", 4.0);
        assert_eq!((row.bound, row.ratio), (Some(4.0), Some(0.75)));
        let row = row.with_bound(2.0);
        assert_eq!((row.target, row.bound, row.ratio), (Some(4.0), Some(2.0), Some(1.5)));
        assert_eq!(Row::at_most("a", 0.0, "reads", 0.0).ratio, None, "nothing is divided by zero");
    }

    #[test]
    fn the_table_shows_every_row_and_marks_what_missed() {
        let rows = [Row::at_most("hits", 2.5, "cycles", 1.0), Row::at_least("rate", 7.0, "1/s", 5.0)];
        let text = table(&rows);
        let line = |name: &str| text.lines().find(|line| line.contains(name)).expect("the row is there").to_owned();
        assert!(line("hits").contains("≤ 1") && line("hits").contains("2.500") && line("hits").contains("missed"));
        assert!(line("rate").contains("≥ 5") && line("rate").contains("ok"));
        assert_eq!(summary(&rows), "1 within target, 1 missed, 0 without a target");
    }

    #[test]
    fn a_part_of_a_text_is_replaced_and_nothing_else() {
        let text = "before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n";
        let new = with_part(text, "figures", &markdown_of_rows(&[Row::at_most("hits", 2.0, "cycles", 1.0)]));
        let table = "| figure | unit | target | measured | of the bound |  |\n| --- | --- | ---: | ---: | ---: | ---: |\n\
                     | hits | cycles | ≤ 1 | 2 | 2.000 | missed |";
        let expected = format!("before\n<!-- figures -->\n{table}\n<!-- /figures -->\nafter\n");
        assert_eq!(new.as_deref(), Some(expected.as_str()));
        assert_eq!(with_part(text, "others", ""), None);
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("report.json");
        drop(WholeFile::create(&path).expect("the path can be written"));
        assert_eq!(fs::read_dir(directory.path()).expect("it is read").count(), 0);
        WholeFile::create(&path).and_then(|file| file.write("text")).expect("it is written");
        assert_eq!(fs::read_to_string(&path).expect("it is read"), "text");
        assert!(WholeFile::create(&directory.path().join("none/report.json")).is_err());
        assert!(WholeFile::create(directory.path()).is_err());
    }
}
