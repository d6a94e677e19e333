//! The subcommand `formal`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use keywalk_verify::figures::grid;
use keywalk_verify::formal::{self, Design, DesignError, Outcome, Plan, Settings, Task, Tools, Verdict};
use serde_json::{Value, json};

use super::{FAILED, PASSED, Refusal, json_file, json_refusal, print, progress_bar};

#[derive(Debug, Args)]
pub struct FormalArgs {
    /// Generated Verilog of the preset `small`: a directory that `keywalk-gen rtl --preset small --out` filled.
    #[arg(default_value = "build/formal/rtl", value_name = "DIR")]
    rtl: PathBuf,
    /// Take proofs with this in their name or module only; may be repeated.
    #[arg(long = "only", value_name = "TEXT")]
    only: Vec<String>,
    /// Take proofs that are short enough for every commit only.
    #[arg(long)]
    quick: bool,
    /// Plant the faults that belong to each proof instead, one at a time; each must be found.
    #[arg(long)]
    planted: bool,
    /// Say what each proof shows, and run nothing.
    #[arg(long)]
    list: bool,
    /// Directory of proofs.toml and of the properties.
    #[arg(long, default_value = "verify/formal", value_name = "DIR")]
    proofs: PathBuf,
    /// Virtual environment with the tools; `make setup-formal` makes it.
    #[arg(long, default_value = "build/venv", value_name = "DIR")]
    tools: PathBuf,
    /// Where models, waveforms and what the tools say go, a directory for each proof.
    #[arg(long, default_value = "build/formal/out", value_name = "DIR")]
    out: PathBuf,
    /// Proofs that run at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Seconds after which a proof has failed.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    time_limit: u64,
    /// Write the result as JSON: an array of objects with proof, module, planted, shows, method, unbounded, depth, seconds,
    /// result, which, trace and pass.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &FormalArgs) -> Result<u8, Refusal> {
    let json = json_file(args.json.as_deref())?;
    let plan = Plan::read(&args.proofs).map_err(Refusal::unusable)?;
    let design = Design::read(&args.rtl).map_err(|error| match error {
        DesignError::System { .. } => Refusal::unusable(format!(
            "{error}; generate the Verilog first: cargo run --release -p keywalk-gen -- rtl --preset small --out {}",
            args.rtl.display()
        )),
        error => Refusal::unusable(error),
    })?;
    let mut proved = Vec::new();
    for proof in &plan.proofs {
        for module in design.matching(&proof.module).map_err(Refusal::unusable)? {
            let is_wanted = |text: &String| proof.name.contains(text.as_str()) || module.contains(text.as_str());
            let is_taken = args.only.is_empty() || args.only.iter().any(is_wanted);
            if is_taken && (proof.quick || !args.quick) {
                proved.push((proof, module));
            }
        }
    }
    if proved.is_empty() {
        let names: Vec<_> = plan.proofs.iter().map(|proof| proof.name.as_str()).collect();
        return Err(Refusal::unusable(format!("--only takes no proof; there are {}", names.join(", "))));
    }
    if args.list {
        let line = |(proof, module): &(&formal::Proof, String)| {
            vec![proof.name.clone(), module.clone(), proof.method.text(proof.depth), proof.shows.clone()]
        };
        print(&[grid(&["proof", "module", "method", "shows"], 4, proved.iter().map(line))]);
        return Ok(PASSED);
    }
    let tools = Tools::find(&args.tools).map_err(Refusal::tool_missing)?;
    let tasks: Vec<Task<'_>> = proved
        .iter()
        .flat_map(|(proof, module)| {
            let task = move |planted| Task { proof, module, planted };
            let is_here = move |proved: &Option<String>| proved.as_ref().is_none_or(|proved| proved == module);
            let planted = proof.planted.iter().filter(move |planted| is_here(&planted.proved)).map(Some).map(task);
            let itself = std::iter::once(task(None));
            if args.planted { Box::new(planted) as Box<dyn Iterator<Item = _>> } else { Box::new(itself) }
        })
        .collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let settings = Settings {
        out: args.out.clone(),
        jobs: args.jobs.unwrap_or(processors),
        time_limit: Duration::from_secs(args.time_limit),
    };
    let bar = progress_bar(tasks.len() as u64, if args.planted { "planted faults" } else { "proofs" });
    let started = Instant::now();
    let result = formal::run_all(&plan, &design, &tools, &tasks, &settings, |task, outcome| {
        bar.inc(1);
        bar.set_message(format!("{} {}: {}", task.proof.name, task.module, word(task, outcome)));
    });
    bar.finish_and_clear();
    let outcomes = result.map_err(Refusal::unusable)?;

    let results: Vec<_> = tasks.iter().zip(&outcomes).collect();
    let mut lines = vec![grid(&HEAD, 4, results.iter().map(|(task, outcome)| line(task, outcome)))];
    lines.extend(results.iter().flat_map(|(task, outcome)| why(task, outcome)));
    let failed = results.iter().filter(|(task, outcome)| !passes(task, outcome)).count();
    let all = if args.planted { "found" } else { "proved" };
    let seconds = started.elapsed().as_secs_f64();
    lines.push(format!("{} {all}, {failed} failed, {seconds:.0} s", results.len() - failed));
    print(&lines);
    if let (Some(file), Some(path)) = (json, &args.json) {
        let rows: Vec<_> = results.iter().map(|(task, outcome)| row(task, outcome)).collect();
        let text = serde_json::to_string_pretty(&rows).map_err(Refusal::unusable)?;
        file.write(&(text + "\n")).map_err(|error| json_refusal(path, &error))?;
    }
    Ok(if failed == 0 { PASSED } else { FAILED })
}

const HEAD: [&str; 6] = ["proof", "module", "planted fault", "method", "result", "seconds"];

/// A proof must hold, a planted fault must be found.
fn passes(task: &Task<'_>, outcome: &Outcome) -> bool {
    match task.planted {
        None => outcome.verdict == Verdict::Holds,
        Some(_) => matches!(outcome.verdict, Verdict::Fails { .. }),
    }
}

fn word(task: &Task<'_>, outcome: &Outcome) -> &'static str {
    match (&outcome.verdict, task.planted) {
        (Verdict::Holds, None) => "holds",
        (Verdict::Holds, Some(_)) => "NOT FOUND",
        (Verdict::Fails { .. }, None) => "FAILS",
        (Verdict::Fails { .. }, Some(_)) => "found",
        (Verdict::Unknown { .. }, _) => "NOT SHOWN",
        (Verdict::TimeLimit, _) => "TIME LIMIT",
    }
}

fn method(task: &Task<'_>) -> String {
    match task.planted {
        Some(planted) => formal::Method::Bounded.text(planted.depth),
        None => task.proof.method.text(task.proof.depth),
    }
}

fn line(task: &Task<'_>, outcome: &Outcome) -> Vec<String> {
    vec![
        task.proof.name.clone(),
        task.module.into(),
        task.planted.map_or(String::new(), |planted| planted.name.clone()),
        method(task),
        word(task, outcome).into(),
        format!("{:.1}", outcome.seconds),
    ]
}

/// What a reader needs who wants to know why a task failed.
fn why(task: &Task<'_>, outcome: &Outcome) -> Vec<String> {
    if passes(task, outcome) {
        return Vec::new();
    }
    let mut lines = vec![format!("{} {}: {}", task.proof.name, task.module, word(task, outcome))];
    lines.extend(task.planted.map(|planted| format!("  planted: {}", planted.name)));
    if let Verdict::Fails { which, trace } | Verdict::Unknown { which, trace } = &outcome.verdict {
        lines.push(format!("  {which}"));
        lines.extend(trace.iter().map(|trace| format!("  waveform: {}", trace.display())));
    }
    lines
}

fn row(task: &Task<'_>, outcome: &Outcome) -> Value {
    let (which, trace) = match &outcome.verdict {
        Verdict::Fails { which, trace } | Verdict::Unknown { which, trace } => (Some(which), trace.as_ref()),
        Verdict::Holds | Verdict::TimeLimit => (None, None),
    };
    let result = match outcome.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails { .. } => "fails",
        Verdict::Unknown { .. } => "not_shown",
        Verdict::TimeLimit => "time_limit",
    };
    json!({
        "proof": task.proof.name,
        "module": task.module,
        "planted": task.planted.map(|planted| &planted.name),
        "shows": task.proof.shows,
        "method": method(task),
        "unbounded": task.planted.is_none() && task.proof.method.is_unbounded(),
        "depth": task.planted.map_or(task.proof.depth, |planted| planted.depth),
        "seconds": outcome.seconds,
        "result": result,
        "which": which,
        "trace": trace,
        "pass": passes(task, outcome),
    })
}
