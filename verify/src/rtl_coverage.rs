//! Coverage of the generated Verilog, as Verilator counts it.
//!
//! kaze's Verilog is wires, each with its expression, and a few `always` blocks per module that copy wires into registers
//! and memories. So line coverage in the usual sense says little: a block runs in every cycle. What is counted here:
//!
//! - *Lines*: those of `always` blocks, which are covered when every branch that holds them has run, and those that declare
//!   a signal of at most 8 bits, its expression included, which are covered when the signal has changed. Lines without
//!   either (wider signals, memories, module headers) are not counted at all.
//! - *Branches*: `if` and `else`, taken or not, those without text included.
//! - *Bits* of the counted signals, for information: a bit that never changes beside one that does is no miss.
//!
//! All counts begin after the first reset. Wider signals are data: whether they are right is what the golden model checks.
//!
//! Of each module, [`LINES_PERCENT_MIN`] of the lines must be covered or have an [`Exception`] with a reason, and every block
//! and branch. An exception of nothing that is uncovered is wrong, so that the list stays true.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::figures;

/// Lines of each module that must be covered, or have a reason.
pub const LINES_PERCENT_MIN: f64 = 95.0;

/// What is not covered, and why.
const EXCEPTIONS: &str = include_str!("../rtl_coverage.toml");

/// Counts by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtlCoverage {
    counts: BTreeMap<Place, u64>,
}

/// The form in files: counts by `module/line/kind/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RtlCoverageFile(pub BTreeMap<String, u64>);

impl RtlCoverageFile {
    /// Whether nothing was counted: no case ran on an engine with coverage.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what another run counted.
    pub fn merge(&mut self, other: &Self) {
        for (place, count) in &other.0 {
            *self.0.entry(place.clone()).or_default() += count;
        }
    }
}

/// Something that Verilator counts, all instances of a module together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    module: String,
    line: u32,
    kind: Kind,
    /// Of a toggle, the bit: `name` or `name[3]`. Else the lines, `3` or `3-7`; empty where a branch has no text.
    name: String,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Block,
    If,
    Else,
    Toggle,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Block, Self::If, Self::Else, Self::Toggle];

    const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::If => "if",
            Self::Else => "else",
            Self::Toggle => "toggle",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Counts that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a count of Verilator's coverage: legal is {legal}")]
pub struct BadCount {
    /// What was found.
    pub text: String,
    /// What could have been.
    pub legal: &'static str,
}

/// Something that is not covered, with the reason. A name may have one `*`, which stands for any text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Modules.
    pub block: String,
    /// What in them, as the report names it: signals, or branches such as `else of line 31`.
    pub points: Vec<String>,
    /// Why it cannot be covered.
    pub reason: String,
}

/// Whether a name is one of those that a pattern stands for.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail),
    }
}

/// Whether there is an exception for something.
fn is_excepted(exceptions: &[Exception], (module, name): &Point) -> bool {
    exceptions
        .iter()
        .any(|exception| fits(&exception.block, module) && exception.points.iter().any(|point| fits(point, name)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionFile {
    #[serde(default)]
    exception: Vec<Exception>,
}

/// A line, branch or signal: module, and name as in [`Exception::points`].
type Point = (String, String);

/// Heads of the table.
const HEADS: [&str; 6] = ["module", "lines", "explained", "branches", "signals", "bits"];

/// Covered and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    covered: usize,
    total: usize,
}

impl Share {
    fn of(covered: impl IntoIterator<Item = bool>) -> Self {
        covered.into_iter().fold(Self::default(), |share, is_covered| Self {
            covered: share.covered + usize::from(is_covered),
            total: share.total + 1,
        })
    }

    fn percent(self) -> f64 {
        100.0 * self.covered as f64 / self.total.max(1) as f64
    }

    fn text(self) -> String {
        format!("{}/{}", self.covered, self.total)
    }
}

/// The exceptions of this version.
///
/// # Panics
/// When the file cannot be read: a test reads it.
#[must_use]
pub fn exceptions() -> Vec<Exception> {
    let file: ExceptionFile = toml::from_str(EXCEPTIONS).unwrap_or_else(|error| panic!("rtl_coverage.toml: {error}"));
    file.exception
}

/// `3-7` as numbers.
fn lines_of(name: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

impl Place {
    fn from_key(key: &str) -> Option<Self> {
        let mut parts = key.splitn(4, '/');
        let (module, line) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let (kind, name) = (Kind::named(parts.next()?)?, parts.next()?.to_owned());
        Some(Self { module, line, kind, name })
    }

    fn key(&self) -> String {
        format!("{}/{}/{}/{}", self.module, self.line, self.kind.name(), self.name)
    }

    /// From a line of Verilator's: `C '...' count`, with fields of a key and a value, which control characters separate.
    fn from_verilator(line: &str) -> Option<(Self, u64)> {
        let (fields, count) = line.strip_prefix("C '")?.rsplit_once("' ")?;
        let fields: BTreeMap<&str, &str> =
            fields.split('\u{1}').filter_map(|field| field.split_once('\u{2}')).collect();
        let (page, module) = fields.get("page")?.split_once('/')?;
        let what = *fields.get("o")?;
        let (kind, name) = match page {
            "v_toggle" => (Kind::Toggle, what),
            "v_line" | "v_branch" => (Kind::named(what)?, fields.get("S").copied().unwrap_or("")),
            _ => return None,
        };
        let place = Self { module: module.into(), line: fields.get("l")?.parse().ok()?, kind, name: name.into() };
        Some((place, count.trim().parse().ok()?))
    }

    /// The signal of a toggle.
    fn signal(&self) -> &str {
        self.name.split('[').next().unwrap_or(&self.name)
    }

    /// What it is a part of in reports.
    fn point(&self) -> Point {
        let name = match self.kind {
            Kind::Toggle => self.signal().to_owned(),
            kind => format!("{} of line {}", kind.name(), self.line),
        };
        (self.module.clone(), name)
    }
}

impl RtlCoverage {
    /// Reads what Verilator has written.
    ///
    /// # Errors
    /// [`BadCount`].
    pub fn from_verilator(text: &str) -> Result<Self, BadCount> {
        let mut coverage = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (place, count) = Place::from_verilator(line).ok_or_else(|| BadCount {
                text: line.replace(['\u{1}', '\u{2}'], " "),
                legal: "C '<fields>' <count>, of a block, an if, an else or a toggle",
            })?;
            *coverage.counts.entry(place).or_default() += count;
        }
        Ok(coverage)
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds what another run counted.
    pub fn merge(&mut self, other: &Self) {
        for (place, count) in &other.counts {
            *self.counts.entry(place.clone()).or_default() += count;
        }
    }

    /// Without what had been counted before.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (place, count) in &mut self.counts {
            *count -= before.counts.get(place).copied().unwrap_or(0).min(*count);
        }
        self
    }

    /// For a file.
    #[must_use]
    pub fn to_file(&self) -> RtlCoverageFile {
        RtlCoverageFile(self.counts.iter().map(|(place, count)| (place.key(), *count)).collect())
    }

    /// From a file.
    ///
    /// # Errors
    /// [`BadCount`].
    pub fn from_file(file: &RtlCoverageFile) -> Result<Self, BadCount> {
        let place = |key: &String| {
            Place::from_key(key).ok_or_else(|| BadCount {
                text: key.clone(),
                legal: "<module>/<line>/<block, if, else or toggle>/<name>",
            })
        };
        let counts = file.0.iter().map(|(key, count)| Ok((place(key)?, *count))).collect::<Result<_, _>>()?;
        Ok(Self { counts })
    }

    fn modules(&self) -> BTreeSet<&str> {
        self.counts.keys().map(|place| place.module.as_str()).collect()
    }

    fn places(&self, module: &str) -> impl Iterator<Item = (&Place, u64)> {
        self.counts.iter().filter(move |(place, _)| place.module == module).map(|(place, count)| (place, *count))
    }

    /// Lines of a module, each with what is not covered of it.
    fn lines(&self, module: &str) -> BTreeMap<u32, BTreeSet<Point>> {
        let points = self.points();
        let mut lines: BTreeMap<u32, BTreeSet<Point>> = BTreeMap::new();
        for (place, _) in self.places(module) {
            let own = match place.kind {
                Kind::Toggle => Some(place.line..=place.line),
                _ => lines_of(&place.name),
            };
            let point = place.point();
            for line in own.into_iter().flatten() {
                let uncovered = lines.entry(line).or_default();
                if points.get(&point) == Some(&false) {
                    uncovered.insert(point.clone());
                }
            }
        }
        lines
    }

    /// Lines of a module that are covered.
    fn covered(&self, module: &str) -> Share {
        Share::of(self.lines(module).values().map(BTreeSet::is_empty))
    }

    /// Lines of a module that are covered or have a reason.
    fn explained(&self, module: &str, exceptions: &[Exception]) -> Share {
        let is_explained = |uncovered: &BTreeSet<Point>| uncovered.iter().all(|point| is_excepted(exceptions, point));
        Share::of(self.lines(module).values().map(is_explained))
    }

    /// Blocks, branches and signals of all modules, and whether each is covered.
    fn points(&self) -> BTreeMap<Point, bool> {
        let mut points = BTreeMap::new();
        for (place, count) in &self.counts {
            *points.entry(place.point()).or_default() |= *count > 0;
        }
        points
    }

    /// What is not covered and has no exception, by module.
    fn uncovered(&self, exceptions: &[Exception]) -> BTreeMap<String, Vec<String>> {
        let mut uncovered: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (point, is_covered) in self.points() {
            if !is_covered && !is_excepted(exceptions, &point) {
                uncovered.entry(point.0).or_default().push(point.1);
            }
        }
        uncovered
    }

    /// Modules with too few lines, blocks and branches that have not run, and exceptions of nothing that is uncovered.
    #[must_use]
    pub fn wrong(&self, exceptions: &[Exception]) -> Vec<String> {
        let points = self.points();
        let mut wrong = Vec::new();
        for module in self.modules() {
            let share = self.explained(module, exceptions);
            if share.percent() < LINES_PERCENT_MIN {
                let (text, percent) = (share.text(), share.percent());
                wrong.push(format!(
                    "{module}: {text} lines are covered or explained, {percent:.1} %: {LINES_PERCENT_MIN} % must be"
                ));
            }
        }
        let branches: BTreeSet<Point> =
            self.counts.keys().filter(|place| place.kind != Kind::Toggle).map(Place::point).collect();
        for point in branches {
            if points.get(&point) == Some(&false) && !is_excepted(exceptions, &point) {
                wrong.push(format!("{}: the {} has not run", point.0, point.1));
            }
        }
        for exception in exceptions {
            for name in &exception.points {
                let is_for = |point: &Point| fits(&exception.block, &point.0) && fits(name, &point.1);
                if !points.iter().any(|(point, is_covered)| !is_covered && is_for(point)) {
                    wrong.push(format!(
                        "{}: `{name}` is an exception, and nothing of that is uncovered",
                        exception.block
                    ));
                }
            }
        }
        wrong
    }

    fn lines_share(&self) -> Share {
        let shares = self.modules().into_iter().map(|module| self.covered(module));
        shares.fold(Share::default(), |sum, share| Share {
            covered: sum.covered + share.covered,
            total: sum.total + share.total,
        })
    }

    /// Cells of a table, as in [`HEADS`].
    fn rows(&self, exceptions: &[Exception]) -> Vec<[String; 6]> {
        let row = |module: &str| {
            let of_kind = |is_wanted: &dyn Fn(Kind) -> bool| {
                Share::of(self.places(module).filter(|(place, _)| is_wanted(place.kind)).map(|(_, count)| count > 0))
            };
            let mut signals: BTreeMap<&str, bool> = BTreeMap::new();
            for (place, count) in self.places(module).filter(|(place, _)| place.kind == Kind::Toggle) {
                *signals.entry(place.signal()).or_default() |= count > 0;
            }
            let branches = of_kind(&|kind| matches!(kind, Kind::If | Kind::Else));
            let bits = of_kind(&|kind| kind == Kind::Toggle);
            let lines = self.covered(module);
            let explained = self.explained(module, exceptions).covered - lines.covered;
            let signals = Share::of(signals.into_values());
            [module.into(), lines.text(), explained.to_string(), branches.text(), signals.text(), bits.text()]
        };
        self.modules().into_iter().map(row).collect()
    }

    /// A line in short.
    #[must_use]
    pub fn summary(&self, exceptions: &[Exception]) -> String {
        let lines = self.lines_share();
        let bits = self.counts.iter().filter(|(place, _)| place.kind == Kind::Toggle).map(|(_, count)| *count > 0);
        format!(
            "generated RTL: {} of {} lines are covered ({:.1} %), {:.1} % of the counted bits have changed; {} things are \
             wrong",
            lines.covered,
            lines.total,
            lines.percent(),
            Share::of(bits).percent(),
            self.wrong(exceptions).len()
        )
    }

    /// A line for each module, what is uncovered without a reason, then what is wrong.
    #[must_use]
    pub fn text(&self, exceptions: &[Exception]) -> String {
        let rows = self.rows(exceptions).into_iter().map(Vec::from);
        let mut text = figures::grid(&HEADS, 1, rows);
        for (module, names) in self.uncovered(exceptions) {
            text += &format!("\nuncovered in {module}: {}", names.join(", "));
        }
        for wrong in self.wrong(exceptions) {
            text += &format!("\nwrong: {wrong}");
        }
        text
    }

    /// A part of a page for a browser.
    #[must_use]
    pub fn html(&self, exceptions: &[Exception]) -> String {
        use crate::coverage::escaped;
        let mut page = format!("<h1>Generated RTL</h1>\n<p>{}</p>\n<ul>\n", escaped(&self.summary(exceptions)));
        for wrong in self.wrong(exceptions) {
            page += &format!("<li class=\"wrong\">{}</li>\n", escaped(&wrong));
        }
        page += "</ul>\n<table><tr>";
        page.extend(HEADS.map(|head| format!("<th>{head}</th>")));
        page += "<th>uncovered</th></tr>\n";
        let uncovered = self.uncovered(exceptions);
        for [module, cells @ ..] in self.rows(exceptions) {
            let cells: String = cells.iter().map(|cell| format!("<td class=\"count\">{cell}</td>")).collect();
            let names = uncovered.get(&module).map_or(String::new(), |names| names.join(", "));
            page += &format!("<tr><td>{module}</td>{cells}<td>{}</td></tr>\n", escaped(&names));
        }
        page += "</table>\n<h2>Exceptions</h2>\n<table><tr><th>module</th><th>what</th><th>why</th></tr>\n";
        for Exception { block, points, reason } in exceptions {
            let points = escaped(&points.join(", "));
            page += &format!("<tr><td>{block}</td><td>{points}</td><td>{}</td></tr>\n", escaped(reason));
        }
        page + "</table>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of Verilator's.
    fn line(page: &str, line: u32, what: &str, lines: Option<&str>, instance: &str, count: u64) -> String {
        let lines = lines.map_or(String::new(), |lines| format!("\u{1}S\u{2}{lines}"));
        format!(
            "C '\u{1}f\u{2}rtl/m.v\u{1}l\u{2}{line}\u{1}n\u{2}5\u{1}page\u{2}{page}/m\u{1}o\u{2}{what}{lines}\u{1}h\u{2}TOP.{instance}' \
             {count}\n"
        )
    }

    /// A module with a signal on line 4, one on line 5, a memory write on line 6 and a block on lines 7 to 12.
    fn sample() -> String {
        let mut text = String::from("# SystemC::Coverage-3\n");
        for (bit, count) in [("q[0]", 0), ("q[1]", 3)] {
            text += &line("v_toggle", 4, bit, None, "m", count);
        }
        text += &line("v_toggle", 5, "x", None, "m", 0);
        text += &line("v_branch", 6, "if", Some("6"), "m", 0);
        text += &line("v_branch", 6, "else", None, "m", 10);
        text += &line("v_line", 6, "block", Some("6"), "m", 10);
        text += &line("v_branch", 8, "if", Some("8-9"), "m", 1);
        text += &line("v_branch", 8, "else", Some("10-11"), "m", 9);
        text + &line("v_line", 7, "block", Some("7"), "m", 10)
    }

    fn read(text: &str) -> RtlCoverage {
        RtlCoverage::from_verilator(text).expect("it is Verilator's form")
    }

    fn exception(points: &[&str]) -> Exception {
        let points = points.iter().map(|point| (*point).to_owned()).collect();
        Exception { block: "m".into(), points, reason: "a reason".into() }
    }

    #[test]
    fn lines_branches_signals_and_bits_are_told_apart() {
        let coverage = read(&sample());
        assert_eq!(coverage.rows(&[]), [["m", "6/8", "0", "3/4", "1/2", "1/3"].map(str::to_owned)]);
        assert_eq!(coverage.rows(&[exception(&["x"])])[0][2], "1");
        assert!(
            coverage.summary(&[]).contains("6 of 8 lines are covered (75.0 %), 33.3 %"),
            "{}",
            coverage.summary(&[])
        );
        assert!(!coverage.lines("m")[&6].is_empty(), "a branch of the line has not run");
    }

    #[test]
    fn what_is_not_covered_needs_a_reason_and_what_is_covered_none() {
        let coverage = read(&sample());
        let too_few = "m: 6/8 lines are covered or explained, 75.0 %: 95 % must be";
        let branch = "m: the if of line 6 has not run";
        assert_eq!(coverage.wrong(&[]), [too_few, branch]);
        assert_eq!(
            coverage.wrong(&[exception(&["if of line 6"])]),
            [too_few.replace("6/8", "7/8").replace("75.0", "87.5")]
        );
        assert!(coverage.wrong(&[exception(&["x", "if of *"])]).is_empty());
        let wrong = coverage.wrong(&[exception(&["x", "q", "y*", "if of line 6"])]);
        let stale = |name: &str| format!("m: `{name}` is an exception, and nothing of that is uncovered");
        assert_eq!(wrong, [stale("q"), stale("y*")]);
        assert!(coverage.text(&[]).contains("\nuncovered in m: if of line 6, x\nwrong: m: 6/8"));
        assert!(coverage.html(&[exception(&["x"])]).contains("<td>a reason</td>"));
    }

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(fits("fifo_*", "fifo_8x3") && fits("*_order", "s1_order") && fits("a*b", "ab") && fits("q", "q"));
        assert!(!fits("fifo_*", "fif") && !fits("ab*b", "ab") && !fits("q", "q0") && !fits("a*b", "abc"));
    }

    #[test]
    fn instances_and_runs_are_added_and_survive_a_file() {
        let other = line("v_toggle", 5, "x", None, "other", 2);
        let mut coverage = read(&(sample() + &other));
        assert_eq!(coverage, {
            let mut sum = read(&sample());
            sum.merge(&read(&other));
            sum
        });
        assert_eq!(coverage.rows(&[])[0][4], "2/2");
        assert_eq!(RtlCoverage::from_file(&coverage.to_file()), Ok(coverage.clone()));
        let mut file = coverage.to_file();
        file.merge(&read(&other).to_file());
        coverage.merge(&read(&other));
        assert_eq!(file, coverage.to_file());
    }

    #[test]
    fn what_came_before_the_end_of_reset_is_not_counted() {
        let counted = read(&sample()).since(&read(&sample()));
        assert_eq!(counted.rows(&[]), [["m", "0/8", "0", "0/4", "0/2", "0/3"].map(str::to_owned)]);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["C 'nothing' 1", "C '\u{1}page\u{2}v_user/m\u{1}o\u{2}x\u{1}l\u{2}1' 1", "x"] {
            assert!(RtlCoverage::from_verilator(text).is_err(), "{text}");
        }
        let cut = line("v_toggle", 5, "x", None, "m", 2).replace("' 2", "' ");
        assert!(RtlCoverage::from_verilator(&cut).is_err(), "the count is missing");
        for key in ["m/1/toggle", "m/x/toggle/q", "m/1/case/q", ""] {
            let file = RtlCoverageFile(BTreeMap::from([(key.to_owned(), 1)]));
            let error = RtlCoverage::from_file(&file).expect_err("it is no key");
            assert!(error.to_string().contains("legal is <module>/<line>"), "{error}");
        }
    }

    #[test]
    fn every_exception_has_a_reason() {
        for exception in exceptions() {
            assert!(!exception.points.is_empty() && exception.reason.len() > 10, "{exception:?}");
        }
    }
}
