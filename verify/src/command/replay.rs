//! The subcommand `replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use keywalk_verify::report::Count;
use keywalk_verify::{
    CommandDut, Design, EventLog, ModelDevice, ReplayReport, RtlDevice, Settings, Suite, replay_file,
};
use serde::Serialize;

use super::{
    FAILED, PASSED, RTL_WHOLE_PAGES_MAX, Refusal, RtlArgs, engine, json_file, json_refusal, print, progress_bar,
};
use crate::difference_lines;

/// What a replay can be run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReplayDut {
    /// The golden model's device.
    Model,
    /// The generated Verilog with its command unit under Verilator.
    Rtl,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// What is tested.
    #[arg(long, value_enum, default_value = "model")]
    dut: ReplayDut,
    /// The engine, one with a command unit; with `--dut rtl` only. [default: small_command]
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    #[command(flatten)]
    rtl: RtlArgs,
    /// Write the result, file by file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Vector files, or directories of *.json and *.json.gz files.
    #[arg(default_values = ["verify/vectors", "verify/events"], value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Summary {
    dut: &'static str,
    seed: u64,
    passed: u64,
    failed: u64,
    files: Vec<ReplayReport>,
}

/// Runs `replay`.
pub fn run(args: &ReplayArgs) -> Result<u8, Refusal> {
    let is_rtl = args.dut == ReplayDut::Rtl;
    if !is_rtl {
        args.rtl.refuse_for_model(args.preset.as_deref())?;
    }
    let suite = Suite::load(&args.paths).map_err(Refusal::unusable)?;
    let logs: Result<Vec<_>, _> = suite.files().map(|(path, ..)| EventLog::load(path)).collect();
    let logs = logs.map_err(Refusal::unusable)?;
    let json = json_file(args.json.as_deref())?;
    let preset = args.preset.as_deref().unwrap_or("small_command");
    let design = if is_rtl { Some(engine_with_command_unit(preset)?) } else { None };
    // Regions of more pages take the hardware too long.
    let whole_pages_max = if is_rtl { RTL_WHOLE_PAGES_MAX } else { u64::MAX };
    let settings = Settings { seed: args.rtl.seed, whole_pages_max, compare_with_model: false };

    let bar = progress_bar(suite.len() as u64, "files");
    let mut is_first_difference = true;
    let mut files = Vec::new();
    for ((path, vector, tables), log) in suite.files().zip(&logs) {
        let progress = |state: &str| bar.set_message(format!("{}: {state}", vector.name));
        let mut device: Box<dyn CommandDut> = match design {
            None => Box::new(ModelDevice::default()),
            Some(design) => Box::new(RtlDevice::new(design, args.rtl.options())),
        };
        let report = replay_file(path, vector, tables, log, &mut *device, &settings, &progress);
        bar.inc(1);
        bar.suspend(|| print(&lines(&report, &mut is_first_difference)));
        files.push(report);
    }
    bar.finish_and_clear();

    let mut sums = [Count::default(); 4];
    for file in &files {
        for (sum, count) in sums.iter_mut().zip([file.events, file.memory, file.bases, file.rows.checks]) {
            *sum += count;
        }
    }
    let (passed, failed) = (files.iter().map(ReplayReport::passed).sum(), files.iter().map(ReplayReport::failed).sum());
    let mut text: Vec<String> = ["events", "places in memory", "tables' base addresses", "rows"]
        .iter()
        .zip(sums)
        .map(|(what, count)| format!("{what}: {} passed, {} failed", count.passed, count.failed))
        .collect();
    text.push(format!("{} files", files.len()));
    text.push(format!("{passed} passed, {failed} failed"));
    print(&text);
    if let (Some(file), Some(path)) = (json, &args.json) {
        let summary = Summary { dut: if is_rtl { "rtl" } else { "model" }, seed: args.rtl.seed, passed, failed, files };
        let text = serde_json::to_string_pretty(&summary).map_err(Refusal::unusable)?;
        file.write(&(text + "\n")).map_err(|error| json_refusal(path, &error))?;
    }
    if passed + failed == 0 {
        return Err(Refusal::unusable("the files hold nothing to check"));
    }
    Ok(if failed == 0 { PASSED } else { FAILED })
}

/// The generated engine of that name, which must be one that a driver's commands can be sent to.
fn engine_with_command_unit(preset: &str) -> Result<&'static keywalk_cosim::Dut, Refusal> {
    let has_unit = |design: &&keywalk_cosim::Dut| design.config().is_some_and(|config| config.command_unit);
    let design = engine(preset)?;
    if has_unit(&design) {
        return Ok(design);
    }
    let names: Vec<_> = Design::engines().filter(has_unit).map(|design| design.name).collect();
    let message =
        format!("--preset {preset}: it has no command unit (`command_unit`); those that have: {}", names.join(", "));
    Err(Refusal::unusable(message))
}

/// A line about a file; the first difference of all in full, of other files its place.
fn lines(report: &ReplayReport, is_first_difference: &mut bool) -> Vec<String> {
    let mut lines = vec![report.line()];
    if let Some(why) = &report.rows.stopped {
        lines.push(format!("      stopped: {why}"));
    }
    if let Some(difference) = &report.rows.first_difference {
        if std::mem::take(is_first_difference) {
            lines.extend(difference_lines(difference));
        } else {
            lines.push(format!("      first difference: {}", difference.place));
        }
    }
    lines
}
