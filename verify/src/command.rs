//! What the subcommands share: exit codes, refusals, output.

pub mod bench;
pub mod synth;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use keywalk_verify::figures::WholeFile;

/// Everything passed.
pub const PASSED: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// Wrong usage, or input that cannot be used.
pub const UNUSABLE: u8 = 2;
/// A tool that is needed is missing.
pub const TOOL_MISSING: u8 = 3;

/// Why nothing was run.
pub struct Refusal {
    /// For the user.
    pub message: String,
    /// Exit code.
    pub code: u8,
}

impl Refusal {
    /// Wrong usage, or input that cannot be used.
    pub fn unusable(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: UNUSABLE }
    }

    /// A tool is missing.
    pub fn tool_missing(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: TOOL_MISSING }
    }
}

/// A progress bar, on a terminal only. `unit`: what it counts.
pub fn progress_bar(count: u64, unit: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{{spinner}} {{pos}}/{{len}} {unit} {{elapsed}} {{wide_msg}}"))
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Prints lines to standard output. A reader that has gone away is no reason to stop.
pub fn print(lines: &[String]) {
    let mut out = io::stdout().lock();
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    let _ = out.flush();
}

/// Prepares the file of `--json`, so that a path that cannot be written is refused before the work.
pub fn json_file(path: Option<&Path>) -> Result<Option<WholeFile>, Refusal> {
    let create = |path| WholeFile::create(path).map_err(|error| json_refusal(path, &error));
    path.map(create).transpose()
}

/// Why the file of `--json` cannot be written.
pub fn json_refusal(path: &Path, error: &io::Error) -> Refusal {
    Refusal::unusable(format!("--json {}: {error}", path.display()))
}
