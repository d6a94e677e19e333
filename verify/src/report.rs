//! What a run has found.

use std::path::PathBuf;

use serde::Serialize;

/// Passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// As expected.
    pub passed: u64,
    /// Not as expected, or not answered.
    pub failed: u64,
}

impl Count {
    /// Counts one.
    pub fn add(&mut self, is_passed: bool) {
        if is_passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Both together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.passed + self.failed
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// A difference, in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Row of the file or part of a region.
    pub place: String,
    /// The request.
    pub request: String,
    /// What must come back.
    pub expected: String,
    /// What came back.
    pub got: String,
    /// The walk, step by step, as the golden model makes it.
    pub walk: Vec<String>,
    /// Waveform of a second run of the request, and whether that differed as well.
    pub trace: Option<String>,
}

/// What was found in a file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Name of the vector.
    pub name: String,
    /// Version of the kernel whose driver built the tables.
    pub kernel: String,
    /// Rows of the file.
    pub checks: Count,
    /// Page indices at and above the count of a queue buffer's region, which must be refused.
    pub index_checks: Count,
    /// Whole regions and parts of regions, compared with the page list.
    pub pieces: Count,
    /// Responses that were compared beat by beat with the golden model's; 0 where that is what is tested.
    pub model_comparisons: Count,
    /// Clock cycles without reset and set-up, where there is a clock.
    pub cycles: Option<u64>,
    /// Wall time.
    pub seconds: f64,
    /// Why the file was not finished; what was left counts as failed.
    pub stopped: Option<String>,
    /// The first difference.
    pub first_difference: Option<Difference>,
}

impl FileReport {
    /// What failed of all kinds.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let counts = [self.checks, self.index_checks, self.pieces, self.model_comparisons];
        let failed = counts.iter().map(|count| count.failed).sum::<u64>();
        failed.max(self.stopped.is_some().into())
    }

    /// A line about the file.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = if self.failed() == 0 { "pass" } else { "FAIL" };
        let Self { name, kernel, checks, pieces, .. } = self;
        let mut line =
            format!("{verdict}  {name:<28} {kernel:<5} {:>5} checks  {:>5} pieces", checks.total(), pieces.total());
        if let Some(cycles) = self.cycles {
            line += &format!("  {cycles:>9} cycles");
        }
        let failures = [
            ("checks", checks.failed),
            ("index checks", self.index_checks.failed),
            ("pieces", pieces.failed),
            ("comparisons with the model", self.model_comparisons.failed),
        ];
        for (what, failed) in failures.into_iter().filter(|(_, failed)| *failed > 0) {
            line += &format!("  {failed} {what} failed");
        }
        line
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was tested: `model` or `rtl`.
    pub dut: &'static str,
    /// Options that decide what happens.
    pub options: serde_json::Value,
    /// Rows that passed.
    pub passed: u64,
    /// What failed, of all kinds.
    pub failed: u64,
    /// Files in order.
    pub files: Vec<FileReport>,
}

impl Report {
    /// Sums up.
    #[must_use]
    pub fn new(dut: &'static str, options: serde_json::Value, files: Vec<FileReport>) -> Self {
        let passed = files.iter().map(|file| file.checks.passed).sum();
        let failed = files.iter().map(FileReport::failed).sum();
        Self { dut, options, passed, failed, files }
    }

    /// Sum over all files of one kind of count.
    #[must_use]
    pub fn sum(&self, kind: impl Fn(&FileReport) -> Count) -> Count {
        let mut sum = Count::default();
        for file in &self.files {
            sum += kind(file);
        }
        sum
    }

    /// The last lines of the output. The very last one is `N passed, M failed`.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let count = |what: &str, count: Count| {
            format!("{what}: {} passed, {} failed, counted apart", count.passed, count.failed)
        };
        let mut lines = vec![
            count("whole regions and parts against the page list", self.sum(|file| file.pieces)),
            count("page indices beyond a queue buffer", self.sum(|file| file.index_checks)),
        ];
        let comparisons = self.sum(|file| file.model_comparisons);
        if comparisons.total() > 0 {
            lines.push(count("responses against the golden model, beat by beat", comparisons));
        }
        let files = format!("{} files", self.files.len());
        lines.push(match self.files.iter().filter_map(|file| file.cycles).reduce(|sum, cycles| sum + cycles) {
            Some(cycles) => format!("{files}, {cycles} cycles"),
            None => files,
        });
        lines.push(format!("{} passed, {} failed", self.passed, self.failed));
        lines
    }
}
