//! The subcommand `scenario`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use keywalk_verify::Design;
use keywalk_verify::answers::{self, AnswersError, REQUESTS_MAX, Traffic};

use super::{FAILED, PASSED, Refusal, progress_bar};

/// Longest memory latency in cycles.
const LATENCY_MAX: i64 = 10_000;

#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// Seed of the first scenario; everything random follows from it.
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Scenarios, each with the next seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seeds: u64,
    /// Requests of each scenario, at most 65536.
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=REQUESTS_MAX as i64))]
    requests: u32,
    /// Context lookups and queue-buffer walks of each scenario, at most 65536.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=REQUESTS_MAX as i64))]
    contexts: u32,
    /// The engine: a configuration such as default or small, or a copy of one with a planted fault.
    #[arg(long, default_value = "small", value_name = "NAME")]
    preset: String,
    /// Cycles from a table read to its data.
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LATENCY_MAX))]
    latency: u32,
    /// File to write; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Writes scenarios.
pub fn run(args: &ScenarioArgs) -> Result<u8, Refusal> {
    let names = || Design::engines().map(|design| design.name).collect::<Vec<_>>();
    let Some(dut) = Design::engines().find(|design| design.name == args.preset) else {
        if names().is_empty() {
            let message = "this build has no RTL model: install verilator (`make` does) and build again";
            return Err(Refusal::tool_missing(message));
        }
        return Err(Refusal::unusable(format!("--preset {}: this build has {}", args.preset, names().join(", "))));
    };
    let Some(end) = args.seed.checked_add(args.seeds) else {
        return Err(Refusal::unusable(format!("--seed {} --seeds {}: seeds end at 2^64 - 1", args.seed, args.seeds)));
    };
    let mut out = open(&args.out)?;
    let traffic =
        Traffic { requests: args.requests as usize, contexts: args.contexts as usize, latency_cycles: args.latency };
    let bar = progress_bar(args.seeds, "scenarios");
    for seed in args.seed..end {
        match answers::write(seed, dut, traffic, &mut out) {
            Ok(()) => {}
            Err(AnswersError::Write(error)) => return Err(refusal(&args.out, &error)),
            Err(AnswersError::Bench(error)) => {
                bar.finish_and_clear();
                eprintln!("keywalk-verify: {} engine, seed {seed}: {error}", dut.name);
                return Ok(FAILED);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.flush().map_err(|error| refusal(&args.out, &error))?;
    Ok(PASSED)
}

fn open(path: &Path) -> Result<Box<dyn Write>, Refusal> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    let file = File::create(path).map_err(|error| refusal(path, &error))?;
    Ok(Box::new(BufWriter::new(file)))
}

fn refusal(path: &Path, error: &io::Error) -> Refusal {
    Refusal::unusable(format!("--out {}: {error}", path.display()))
}
