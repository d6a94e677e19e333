//! The subcommand `coverage`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use keywalk_verify::coverage::Coverage;
use keywalk_verify::figures::WholeFile;
use keywalk_verify::rtl_coverage::{self, RtlCoverage};
use keywalk_verify::soak::SoakFile;

use super::{FAILED, PASSED, Refusal, json_file, json_refusal, print};

#[derive(Debug, Args)]
pub struct CoverageArgs {
    /// Files of `soak --json`, or of this command.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the sum of all files, in the same form.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with every bin.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn read(path: &Path) -> Result<SoakFile, Refusal> {
    let refusal = |error: &dyn std::fmt::Display| Refusal::unusable(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refusal(&error))?;
    serde_json::from_str(&text).map_err(|error| refusal(&format!("not a file of `soak --json`: {error}")))
}

/// Runs it.
pub fn run(args: &CoverageArgs) -> Result<u8, Refusal> {
    let html_refusal =
        |path: &Path, error: &std::io::Error| Refusal::unusable(format!("--html {}: {error}", path.display()));
    let json = json_file(args.json.as_deref())?;
    let create = |path: &PathBuf| WholeFile::create(path).map_err(|error| html_refusal(path, &error));
    let html = args.html.as_ref().map(create).transpose()?;
    let mut sum = SoakFile::default();
    for path in &args.files {
        let file = read(path)?;
        let refusal = |error: &dyn std::fmt::Display| Refusal::unusable(format!("{}: {error}", path.display()));
        Coverage::from_file(&file.coverage).map_err(|error| refusal(&error))?;
        RtlCoverage::from_file(&file.rtl).map_err(|error| refusal(&error))?;
        sum.merge(&file);
    }
    let mut coverage = Coverage::from_file(&sum.coverage).map_err(Refusal::unusable)?;
    coverage.rtl = RtlCoverage::from_file(&sum.rtl).map_err(Refusal::unusable)?;
    let wrong = coverage.wrong().len();
    let mut lines = vec![coverage.text()];
    let mut is_rtl_covered = true;
    if !coverage.rtl.is_empty() {
        let exceptions = rtl_coverage::exceptions();
        lines.extend([coverage.rtl.text(&exceptions), coverage.rtl.summary(&exceptions)]);
        is_rtl_covered = coverage.rtl.wrong(&exceptions).is_empty();
    }
    lines.extend(sum.failures.iter().map(|failure| {
        let replay = failure.shrunk.as_ref().unwrap_or(&failure.replay);
        format!("failed: seed {}, engine `{}`, {}: {replay}", failure.seed, failure.engine, failure.kind)
    }));
    lines.push(format!(
        "{} cases, {} requests, {} context requests, {} invalidations; {} cases failed; {wrong} bins are wrong",
        sum.cases,
        sum.requests,
        sum.context_requests,
        sum.invalidations,
        sum.failures.len()
    ));
    print(&lines);
    if let (Some(file), Some(path)) = (json, &args.json) {
        let text = serde_json::to_string_pretty(&sum).map_err(Refusal::unusable)?;
        file.write(&(text + "\n")).map_err(|error| json_refusal(path, &error))?;
    }
    if let (Some(file), Some(path)) = (html, &args.html) {
        file.write(&coverage.html()).map_err(|error| html_refusal(path, &error))?;
    }
    Ok(if wrong == 0 && is_rtl_covered && sum.failures.is_empty() { PASSED } else { FAILED })
}
