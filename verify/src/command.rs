//! What the subcommands share: exit codes, refusals, output.

pub mod bench;
pub mod coverage;
pub mod fit;
pub mod formal;
pub mod mutants;
pub mod replay;
pub mod route;
pub mod scenario;
pub mod soak;
pub mod synth;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use keywalk_verify::arguments::parse_latency;
use keywalk_verify::figures::{self, WholeFile};
use keywalk_verify::{Design, RtlOptions};

/// Everything passed.
pub const PASSED: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// Wrong usage, or input that cannot be used.
pub const UNUSABLE: u8 = 2;
/// A tool that is needed is missing.
pub const TOOL_MISSING: u8 = 3;

/// Regions of more pages are sampled on the RTL, unless asked for otherwise.
pub const RTL_WHOLE_PAGES_MAX: u64 = 1 << 21;

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

/// Number of a shard, from 0, and how many there are: `3/8`.
pub fn parse_shard(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once('/').map(|(shard, shards)| (shard.parse::<u64>(), shards.parse::<u64>()));
    match numbers {
        Some((Ok(shard), Ok(shards))) if (1..=shards).contains(&shard) => Ok((shard - 1, shards)),
        _ => Err("legal is I/N with 1 <= I <= N".into()),
    }
}

/// The first failure to print.
static PRINT_FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints lines to standard output. A failure is no reason to stop, since other output goes elsewhere; [`printed`] tells of it
/// in the end.
pub fn print(lines: &[String]) {
    let mut out = io::stdout().lock();
    let result = lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
    if let Err(error) = result {
        PRINT_FAILURE.get_or_init(|| error);
    }
}

/// Whether everything that was to be printed has been.
///
/// # Errors
/// The first failure.
pub fn printed() -> io::Result<()> {
    PRINT_FAILURE.get().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
}

/// The exit code of a command that ended with `code`: one that could not print has failed. A reader that has gone away has seen
/// what it wanted.
pub fn exit_code(code: u8, printed: io::Result<()>) -> u8 {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("keywalk-verify: standard output cannot be written: {error}");
            if code == PASSED { FAILED } else { code }
        }
        _ => code,
    }
}

/// Prepares the file of `--json`, so that a path that cannot be written is refused before the work.
pub fn json_file(path: Option<&Path>) -> Result<Option<WholeFile>, Refusal> {
    let create = |path| WholeFile::create(path).map_err(|error| json_refusal(path, &error));
    path.map(create).transpose()
}

/// A Markdown file, a part of which is to be replaced with figures.
pub struct Readme {
    path: PathBuf,
    part: &'static str,
    text: String,
    file: WholeFile,
}

impl Readme {
    /// Reads the file of `--readme`, so that one without such a part is refused before the work.
    pub fn read(path: Option<&Path>, part: &'static str) -> Result<Option<Self>, Refusal> {
        let Some(path) = path else { return Ok(None) };
        let text = fs::read_to_string(path).map_err(|error| readme_refusal(path, &error))?;
        if figures::with_part(&text, part, "").is_none() {
            let lines = format!("the lines `<!-- {part} -->` and `<!-- /{part} -->`, between which figures go");
            return Err(readme_refusal(path, &format!("lacks {lines}")));
        }
        let file = WholeFile::create(path).map_err(|error| readme_refusal(path, &error))?;
        Ok(Some(Self { path: path.into(), part, text, file }))
    }

    /// Replaces the part.
    pub fn write(self, content: &str) -> Result<(), Refusal> {
        let text = figures::with_part(&self.text, self.part, content).unwrap_or(self.text);
        self.file.write(&text).map_err(|error| readme_refusal(&self.path, &error))
    }
}

fn readme_refusal(path: &Path, why: &dyn std::fmt::Display) -> Refusal {
    Refusal::unusable(format!("--readme {}: {why}", path.display()))
}

/// Why the file of `--json` cannot be written.
pub fn json_refusal(path: &Path, error: &io::Error) -> Refusal {
    Refusal::unusable(format!("--json {}: {error}", path.display()))
}

/// Cycles from a table read to its data, unless asked for otherwise.
const LATENCY_CYCLES: u32 = 40;

/// Arguments that say how the surroundings of a generated engine behave.
#[derive(Debug, Args)]
pub struct RtlArgs {
    /// Cycles from a table read to its data, or a range of which each read takes its own; with `--dut rtl` only. [default: 40]
    #[arg(long, value_name = "N|MIN..MAX", value_parser = parse_latency)]
    latency: Option<RangeInclusive<u32>>,
    /// Answer table reads out of order, their beats mixed; with `--dut rtl` only.
    #[arg(long)]
    pub reorder: bool,
    /// Idle cycles and back-pressure on every channel; with `--dut rtl` only.
    #[arg(long)]
    pub stall: bool,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub seed: u64,
}

/// The generated engine of that name.
///
/// # Errors
/// This build has none, or none of that name.
pub fn engine(preset: &str) -> Result<&'static keywalk_cosim::Dut, Refusal> {
    Design::engines().find(|design| design.name == preset).ok_or_else(|| {
        let names: Vec<_> = Design::engines().map(|design| design.name).collect();
        if names.is_empty() {
            let message = "this build has no RTL model: install verilator (`make` does) and build again";
            return Refusal::tool_missing(message);
        }
        Refusal::unusable(format!("--preset {preset}: this build has {}", names.join(", ")))
    })
}

impl RtlArgs {
    /// Cycles from a table read to its data.
    #[must_use]
    pub fn latency(&self) -> RangeInclusive<u32> {
        self.latency.clone().unwrap_or(LATENCY_CYCLES..=LATENCY_CYCLES)
    }

    /// Refuses what says nothing of the golden model.
    ///
    /// # Errors
    /// The argument that was given.
    pub fn refuse_for_model(&self, preset: Option<&str>) -> Result<(), Refusal> {
        let given = [
            ("--preset", preset.is_some()),
            ("--latency", self.latency.is_some()),
            ("--reorder", self.reorder),
            ("--stall", self.stall),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                Err(Refusal::unusable(format!("{name} needs --dut rtl: the model has one configuration and no clock")))
            }
            None => Ok(()),
        }
    }

    /// The surroundings.
    #[must_use]
    pub fn options(&self) -> RtlOptions {
        let latency_cycles = self.latency();
        RtlOptions { latency_cycles, reorder: self.reorder, stall: self.stall, seed: self.seed }
    }
}
