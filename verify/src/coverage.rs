//! Coverage that was collected: counts of the bins of [`keywalk_contract::coverage`], and those of Verilator beside them.

use std::collections::BTreeMap;

use keywalk_contract::coverage::{GROUPS, Group, GroupName};
use serde::{Deserialize, Serialize};

use crate::figures;
use crate::rtl_coverage::{self, RtlCoverage};

/// Counts of all bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// By group and bin.
    counts: Vec<Vec<u64>>,
    /// What Verilator has counted, on an engine with coverage.
    pub rtl: RtlCoverage,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: GROUPS.iter().map(|group| vec![0; group.len()]).collect(), rtl: RtlCoverage::default() }
    }
}

/// The form in files: counts by `group/value/value`, bins without any left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CoverageFile(pub BTreeMap<String, u64>);

/// A file with bins that the contract does not define.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bin `{bin}` is not defined: the file is of another version; collect it again")]
pub struct UnknownBin {
    /// Name of the bin.
    pub bin: String,
}

/// A bin.
#[derive(Clone, Copy, Debug)]
pub struct Bin {
    /// Its group.
    pub group: &'static Group,
    /// Number in the group.
    pub number: usize,
    /// How often it was hit.
    pub count: u64,
}

impl Bin {
    /// `group/value/value`.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.group.name.to_owned();
        for value in self.group.values(self.number) {
            name.push('/');
            name.push_str(value);
        }
        name
    }

    /// Why it cannot be filled; `None` where it must be.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        self.group.reason(self.number)
    }

    /// Whether it must be filled and is not, or the other way round.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.reason().is_some() != (self.count == 0)
    }
}

impl Coverage {
    /// Counts once.
    ///
    /// # Panics
    /// When the values are not of the group: collector and contract do not fit together.
    pub fn hit(&mut self, name: GroupName, values: &[&str]) {
        let group = &GROUPS[name as usize];
        let bin = group.bin(values).unwrap_or_else(|| panic!("coverage group `{}` has no bin {values:?}", group.name));
        self.counts[name as usize][bin] += 1;
    }

    /// Adds what another run collected.
    pub fn merge(&mut self, other: &Self) {
        let pairs = self.counts.iter_mut().flatten().zip(other.counts.iter().flatten());
        pairs.for_each(|(sum, count)| *sum += count);
        self.rtl.merge(&other.rtl);
    }

    /// The bins of a group.
    pub fn bins(&self, name: usize) -> impl Iterator<Item = Bin> {
        let group = &GROUPS[name];
        self.counts[name].iter().enumerate().map(move |(number, count)| Bin { group, number, count: *count })
    }

    /// All bins.
    pub fn all(&self) -> impl Iterator<Item = Bin> {
        (0..GROUPS.len()).flat_map(|name| self.bins(name))
    }

    /// Bins that must be filled and are not, and bins that are filled although they are said to be unreachable.
    #[must_use]
    pub fn wrong(&self) -> Vec<Bin> {
        self.all().filter(Bin::is_wrong).collect()
    }

    /// The bins for a file, without Verilator's counts.
    #[must_use]
    pub fn to_file(&self) -> CoverageFile {
        CoverageFile(self.all().filter(|bin| bin.count > 0).map(|bin| (bin.name(), bin.count)).collect())
    }

    /// The bins from a file.
    ///
    /// # Errors
    /// [`UnknownBin`].
    pub fn from_file(file: &CoverageFile) -> Result<Self, UnknownBin> {
        let mut coverage = Self::default();
        for (bin, count) in &file.0 {
            let mut parts = bin.split('/');
            let position = parts.next().and_then(|name| GROUPS.iter().position(|group| group.name == name));
            let values: Vec<&str> = parts.collect();
            let found = position.and_then(|position| Some((position, GROUPS[position].bin(&values)?)));
            let (position, number) = found.ok_or_else(|| UnknownBin { bin: bin.clone() })?;
            coverage.counts[position][number] += count;
        }
        Ok(coverage)
    }

    /// A line for each group, then the bins that are wrong.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = (0..GROUPS.len()).map(|name| {
            let (reachable, unreachable): (Vec<_>, Vec<_>) = self.bins(name).partition(|bin| bin.reason().is_none());
            let filled = reachable.iter().filter(|bin| bin.count > 0).count();
            let least = reachable.iter().map(|bin| bin.count).min().unwrap_or(0);
            let least_name = reachable.iter().find(|bin| bin.count == least).map_or(String::new(), Bin::name);
            vec![
                GROUPS[name].name.to_owned(),
                format!("{filled}/{}", reachable.len()),
                unreachable.len().to_string(),
                least.to_string(),
                least_name.split_once('/').map_or(String::new(), |(_, values)| values.to_owned()),
            ]
        });
        let mut text = figures::grid(&["group", "filled", "unreachable", "least", "which is"], 1, lines);
        for bin in self.wrong() {
            text += &match bin.reason() {
                None => format!("\nempty: {}", bin.name()),
                Some(reason) => format!("\nfilled, but said to be unreachable: {} ({reason})", bin.name()),
            };
        }
        text
    }

    /// A page for a browser, with every bin.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = String::from(HTML_HEAD);
        let wrong = self.wrong().len();
        let total = self.all().filter(|bin| bin.reason().is_none()).count();
        let empty = self.all().filter(|bin| bin.reason().is_none() && bin.count == 0).count();
        page += &format!(
            "<p>{} of {total} reachable bins are filled; {} bins are unreachable; {wrong} are wrong.</p>\n",
            total - empty,
            self.all().filter(|bin| bin.reason().is_some()).count()
        );
        for (name, group) in GROUPS.iter().enumerate() {
            page += &format!("<h2>{}</h2>\n<p>{}</p>\n<table><tr>", group.name, escaped(group.doc));
            for axis in group.axes {
                page += &format!("<th>{}</th>", axis.name);
            }
            page += "<th>count</th><th></th></tr>\n";
            for bin in self.bins(name) {
                let class = match (bin.is_wrong(), bin.reason()) {
                    (true, _) => "wrong",
                    (false, Some(_)) => "unreachable",
                    (false, None) => "filled",
                };
                page += &format!("<tr class=\"{class}\">");
                for value in group.values(bin.number) {
                    page += &format!("<td>{value}</td>");
                }
                page += &format!(
                    "<td class=\"count\">{}</td><td>{}</td></tr>\n",
                    bin.count,
                    escaped(bin.reason().unwrap_or(""))
                );
            }
            page += "</table>\n";
        }
        if !self.rtl.is_empty() {
            page += &self.rtl.html(&rtl_coverage::exceptions());
        }
        page + "</body></html>\n"
    }
}

/// Text within HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const HTML_HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Keywalk: coverage</title><style>
body { font: 14px sans-serif; margin: 2em; }
table { border-collapse: collapse; }
th, td { padding: 1px 10px; text-align: left; }
td.count { text-align: right; }
tr.filled { background: #e4f5e4; }
tr.unreachable { color: #888; }
tr.wrong, li.wrong { background: #f8c4c4; }
</style></head><body><h1>Functional coverage</h1>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_survive_a_file() {
        let mut first = Coverage::default();
        first.hit(GroupName::Outcome, &["ok", "local"]);
        let mut second = first.clone();
        second.hit(GroupName::Outcome, &["ok", "local"]);
        second.hit(GroupName::Exchange, &["reset"]);
        first.merge(&second);
        let file = first.to_file();
        assert_eq!(file.0, BTreeMap::from([("exchange/reset".into(), 1), ("outcome/ok/local".into(), 3)]));
        assert_eq!(Coverage::from_file(&file), Ok(first));
    }

    #[test]
    fn a_bin_of_another_version_is_refused() {
        for bin in ["outcome/ok", "outcome/ok/nobody", "nothing/ok"] {
            let file = CoverageFile(BTreeMap::from([(bin.to_owned(), 1)]));
            assert_eq!(Coverage::from_file(&file), Err(UnknownBin { bin: bin.into() }));
        }
    }

    #[test]
    fn an_empty_bin_and_a_filled_unreachable_one_are_wrong() {
        let mut coverage = Coverage::default();
        for group in GROUPS.iter().enumerate() {
            for bin in 0..group.1.len() {
                coverage.counts[group.0][bin] = u64::from(group.1.reason(bin).is_none());
            }
        }
        assert!(coverage.wrong().is_empty());
        coverage.counts[GroupName::Exchange as usize][0] = 0;
        coverage.hit(GroupName::Outcome, &["mtr_timeout", "local"]);
        let wrong: Vec<_> = coverage.wrong().iter().map(Bin::name).collect();
        assert_eq!(wrong, ["outcome/mtr_timeout/local", "exchange/invalidation"]);
        let text = coverage.text();
        assert!(text.contains("empty: exchange/invalidation"), "{text}");
        assert!(text.contains("said to be unreachable: outcome/mtr_timeout/local"), "{text}");
        assert!(coverage.html().contains("2 are wrong"));
    }
}
