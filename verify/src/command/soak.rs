//! The subcommand `soak`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use keywalk_verify::soak::{
    self, Calm, Case, Change, Event, FailedCase, FailureFile, Outcome, Plan, Reduction, SoakFile, parse_ranges,
    replay_arguments, shrink,
};

use super::{FAILED, PASSED, Refusal, json_file, json_refusal, print, progress_bar};

/// The command, as a user types it.
const COMMAND: &str = "cargo run --release -p keywalk-verify --";
/// The command, built with waveforms.
const TRACING_COMMAND: &str = "cargo run --release -p keywalk-verify --features trace --";
/// Cases without `--seeds` and `--time`.
const SEEDS: u64 = 200;
/// Events of a shrunk case that are printed.
const EVENTS_SHOWN: usize = 40;

#[derive(Debug, Args)]
pub struct SoakArgs {
    /// Number of cases, over all shards. [default: 200; with --time: no limit]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// First seed; the cases have this and the following ones.
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Begin no case after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Run only every Nth case, from the Ith on: shards 1/N to N/N together run all of them.
    #[arg(long, value_name = "I/N", value_parser = super::parse_shard, default_value = "1/1")]
    shard: (u64, u64),
    /// Cases that run at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// This engine for all cases, instead of a drawn one; a copy with a planted fault, too. In a build with
    /// `--features coverage` there is `small_covered`, in which Verilator counts lines and toggles.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Write what was done, seen and found as JSON, for the subcommand `coverage`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs that shrinking may take; 0: a failing case is not shrunk.
    #[arg(long, default_value_t = 400, value_name = "N")]
    shrink_runs: u32,
    /// Replay: keep these events of the case, such as 3,10-12. Needs --seeds 1.
    #[arg(long, value_name = "EVENTS", value_parser = parse_keep)]
    keep: Option<Keep>,
    /// Replay: surroundings that are calm, of stalls, latency, order, faults, reports. Needs --seeds 1.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = parse_calm)]
    calm: Vec<Calm>,
    /// Replay: write a VCD file. Needs --seeds 1 and a build with `--features trace`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Where waveforms of failing cases go, in a build with `--features trace`.
    #[arg(long, default_value = "build/soak", value_name = "DIR")]
    out: PathBuf,
}

/// Numbers of events.
#[derive(Clone, Debug)]
struct Keep(Vec<usize>);

fn parse_keep(text: &str) -> Result<Keep, String> {
    parse_ranges(text).map(Keep)
}

fn parse_calm(text: &str) -> Result<Calm, String> {
    let names = Calm::ALL.map(Calm::name).join(", ");
    Calm::ALL.into_iter().find(|calm| calm.name() == text).ok_or_else(|| format!("there are {names}"))
}

fn plan(args: &SoakArgs) -> Result<Plan, Refusal> {
    let names: Vec<_> = keywalk_verify::Design::engines().map(|design| design.name).collect();
    if names.is_empty() {
        return Err(Refusal::tool_missing("this build has no engine: install verilator (`make` does) and build again"));
    }
    let find = |name: &String| {
        let message = format!("--preset {name}: this build has {}", names.join(", "));
        soak::case::engine(name).ok_or_else(|| Refusal::unusable(message))
    };
    let dut = args.preset.as_ref().map(find).transpose()?;
    let is_replay = args.keep.is_some() || !args.calm.is_empty() || args.trace.is_some();
    if is_replay && args.seeds != Some(1) {
        return Err(Refusal::unusable("--keep, --calm and --trace belong to one case: give --seeds 1 with its --seed"));
    }
    if args.trace.is_some() && !cfg!(feature = "trace") {
        return Err(Refusal::unusable(format!("--trace needs a build with tracing: {TRACING_COMMAND} soak ...")));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Plan {
        first: args.seed,
        seeds: args.seeds.or(if args.time.is_none() { Some(SEEDS) } else { None }),
        shard: args.shard,
        time: args.time.map(Duration::from_secs),
        dut,
        threads: args.jobs.unwrap_or(processors),
        reduction: Reduction { keep: args.keep.as_ref().map(|keep| keep.0.clone()), calm: args.calm.clone() },
        trace: args.trace.clone(),
    })
}

/// Runs it.
pub fn run(args: &SoakArgs) -> Result<u8, Refusal> {
    let plan = plan(args)?;
    let json = json_file(args.json.as_deref())?;
    let bar = progress_bar(plan.seeds.map_or(0, |seeds| seeds.div_ceil(plan.shard.1)), "cases");
    let start = Instant::now();
    let outcome = soak::soak(&plan, |progress| {
        bar.set_position(progress.cases);
        let rate = progress.checks as f64 / start.elapsed().as_secs_f64().max(1e-9);
        bar.set_message(format!("{} checks, {rate:.0} checks/s", progress.checks));
    });
    bar.finish_and_clear();

    let mut failures = Vec::new();
    for (position, failed) in outcome.failed.iter().enumerate() {
        // The others began before the first was known.
        let runs_max = if position == 0 { args.shrink_runs } else { 0 };
        let (lines, failure) = explain(args, &plan, failed, runs_max);
        print(&lines);
        failures.push(failure);
    }
    print(&[summary(&outcome)]);
    if let (Some(file), Some(path)) = (json, &args.json) {
        let content = SoakFile {
            cases: outcome.cases,
            requests: outcome.counts.requests,
            context_requests: outcome.counts.context_requests,
            invalidations: outcome.counts.invalidations,
            cycles: outcome.counts.cycles,
            seconds: outcome.elapsed.as_secs_f64(),
            failures,
            coverage: outcome.coverage.to_file(),
            rtl: outcome.coverage.rtl.to_file(),
        };
        let text = serde_json::to_string_pretty(&content).map_err(Refusal::unusable)?;
        file.write(&(text + "\n")).map_err(|error| json_refusal(path, &error))?;
    }
    Ok(if outcome.failed.is_empty() { PASSED } else { FAILED })
}

fn summary(outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let seconds = outcome.elapsed.as_secs_f64();
    format!(
        "{} cases passed, {} failed: {} requests, {} context requests, {} invalidations, {} cycles in {seconds:.1} s: {:.0} \
         requests/s",
        outcome.cases,
        outcome.failed.len(),
        counts.requests,
        counts.context_requests,
        counts.invalidations,
        counts.cycles,
        counts.requests as f64 / seconds.max(1e-9)
    )
}

/// All about a failing case: how to run it again, what is left of it, a waveform.
fn explain(args: &SoakArgs, plan: &Plan, failed: &FailedCase, runs_max: u32) -> (Vec<String>, FailureFile) {
    let FailedCase { seed, engine, trouble } = failed;
    let replay = |reduction: &Reduction| replay_arguments(*seed, plan.dut, reduction);
    let whole = format!("{COMMAND} soak {}", replay(&plan.reduction));
    let mut lines = vec![
        format!("FAILED: seed {seed}, engine `{engine}`, {}", trouble.kind.name()),
        indented(&trouble.text),
        format!("  replay: {whole}"),
    ];
    let mut failure = FailureFile {
        seed: *seed,
        engine: (*engine).into(),
        kind: trouble.kind.name().into(),
        text: trouble.text.clone(),
        replay: whole,
        shrunk: None,
    };
    let mut smallest = plan.reduction.clone();
    if runs_max > 0
        && plan.reduction == Reduction::default()
        && let Some(case) = Case::draw(*seed, plan.dut)
    {
        let bar = progress_bar(runs_max.into(), "runs of shrinking");
        let shrunk = shrink(&case, trouble, runs_max, |runs, events| {
            bar.set_position(runs.into());
            bar.set_message(format!("{events} events left"));
        });
        bar.finish_and_clear();
        smallest = shrunk.reduction;
        let command = format!("{COMMAND} soak {}", replay(&smallest));
        let left = smallest.apply(&case);
        lines.push(format!("  shrunk in {} runs to {} of {} events:", shrunk.runs, left.len(), case.len()));
        lines.extend(events(&left));
        lines.push(indented(&shrunk.trouble.text));
        lines.push(format!("  replay: {command}"));
        failure.shrunk = Some(command);
    }
    lines.push(waveform(args, plan, *seed, &smallest));
    (lines, failure)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// The events of a case and what is around it, for people.
fn events(case: &Case) -> Vec<String> {
    let mut lines = vec![format!("    {:?}", case.surroundings)];
    for chapter in &case.chapters {
        lines.push(format!("    tables: {:x?}", chapter.scenario.model.controls));
        lines.extend(chapter.faults.iter().map(|(address, fault)| format!("    fault at {address:#x}: {fault:?}")));
        lines.extend(chapter.events.iter().map(|(number, event)| match event {
            Event::Change(change) => {
                let Change { kind, during, invalidation, .. } = change;
                format!("    {number}: {} changed, then {during:x?}, then {invalidation:x?}", kind.name())
            }
            other => format!("    {number}: {other:x?}"),
        }));
    }
    if lines.len() > EVENTS_SHOWN {
        let rest = lines.len() - EVENTS_SHOWN;
        lines.truncate(EVENTS_SHOWN);
        lines.push(format!("    and {rest} more"));
    }
    lines
}

/// Writes the waveform of a failing case, or says how.
fn waveform(args: &SoakArgs, plan: &Plan, seed: u64, reduction: &Reduction) -> String {
    if let Some(path) = &plan.trace {
        return format!("  waveform: {}", path.display());
    }
    let path = soak::trace_path(&args.out, seed);
    let arguments = replay_arguments(seed, plan.dut, reduction);
    if !cfg!(feature = "trace") {
        return format!("  waveform: {TRACING_COMMAND} soak {arguments} --trace soak-{seed}.vcd");
    }
    let traced = Plan {
        first: seed,
        seeds: Some(1),
        shard: (0, 1),
        threads: 1,
        reduction: reduction.clone(),
        trace: Some(path.clone()),
        ..plan.clone()
    };
    match fs::create_dir_all(&args.out) {
        Ok(()) => {
            soak::soak(&traced, |_| ());
            format!("  waveform: {}", path.display())
        }
        Err(error) => format!("  waveform: --out {}: {error}", args.out.display()),
    }
}
