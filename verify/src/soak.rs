//! Soak: cases drawn from seeds, run on the hardware and checked against the golden model in every cycle.
//!
//! [`Case::draw`] lays open what a seed decides: the engine, what is around it, and chapters, each with tables, switches
//! and a list of events: requests, context requests, changes of the tables with their invalidations, resets. [`run()`] runs
//! it. [`shrink()`] leaves parts of a failing case out for as long as it still fails. [`soak`] does all that for many seeds
//! on several threads.

pub mod answer;
pub mod case;
pub mod run;
mod sample;
pub mod shrink;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use keywalk_cosim::Dut;
use serde::{Deserialize, Serialize};

use crate::coverage::{Coverage, CoverageFile};
use crate::rtl_coverage::RtlCoverageFile;
pub use case::{Calm, Case, Change, Event};
pub use run::{Counts, Kind, Trouble, run};
pub use shrink::{Reduction, shrink};

/// Which cases are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// First seed.
    pub first: u64,
    /// Number of seeds, over all shards; none: until the time is over.
    pub seeds: Option<u64>,
    /// This shard, from 0, and how many there are.
    pub shard: (u64, u64),
    /// No case is begun after that time.
    pub time: Option<Duration>,
    /// The engine, where it is not drawn.
    pub dut: Option<&'static Dut>,
    /// Cases that run at the same time.
    pub threads: usize,
    /// What is left out of each case; for a replay.
    pub reduction: Reduction,
    /// VCD file of the only case.
    pub trace: Option<PathBuf>,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct FailedCase {
    /// Its seed.
    pub seed: u64,
    /// The engine.
    pub engine: &'static str,
    /// Why.
    pub trouble: Trouble,
}

/// What came of a plan.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Cases that passed.
    pub cases: u64,
    /// What was done in them.
    pub counts: Counts,
    /// What was seen in them.
    pub coverage: Coverage,
    /// Cases that failed, by seed; after the first no other is begun.
    pub failed: Vec<FailedCase>,
    /// Time that it took.
    pub elapsed: Duration,
}

/// The result of a run in a file. Files of shards are merged into one of the same form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakFile {
    /// Cases that passed.
    pub cases: u64,
    /// Requests answered in them.
    pub requests: u64,
    /// Context requests answered in them.
    pub context_requests: u64,
    /// Invalidations completed in them.
    pub invalidations: u64,
    /// Clock cycles simulated.
    pub cycles: u64,
    /// Time, summed over shards.
    pub seconds: f64,
    /// Cases that failed.
    pub failures: Vec<FailureFile>,
    /// Counts of bins.
    pub coverage: CoverageFile,
    /// Verilator's counts; nothing where no engine with coverage ran.
    #[serde(default, skip_serializing_if = "RtlCoverageFile::is_empty")]
    pub rtl: RtlCoverageFile,
}

/// A failed case in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureFile {
    /// Seed.
    pub seed: u64,
    /// Engine.
    pub engine: String,
    /// What kind of thing is wrong.
    pub kind: String,
    /// All about it.
    pub text: String,
    /// Command that runs the case again.
    pub replay: String,
    /// Command that runs what is left of it after shrinking, where that was done.
    pub shrunk: Option<String>,
}

impl SoakFile {
    /// Adds another shard.
    pub fn merge(&mut self, other: &Self) {
        self.cases += other.cases;
        self.requests += other.requests;
        self.context_requests += other.context_requests;
        self.invalidations += other.invalidations;
        self.cycles += other.cycles;
        self.seconds += other.seconds;
        self.failures.extend(other.failures.iter().cloned());
        for (bin, count) in &other.coverage.0 {
            *self.coverage.0.entry(bin.clone()).or_default() += count;
        }
        self.rtl.merge(&other.rtl);
    }
}

/// How far a soak is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Cases done.
    pub cases: u64,
    /// Answers checked.
    pub checks: u64,
}

/// The arguments that replay a case, after `keywalk-verify soak`.
#[must_use]
pub fn replay_arguments(seed: u64, dut: Option<&Dut>, reduction: &Reduction) -> String {
    let mut arguments = format!("--seed {seed} --seeds 1");
    if let Some(dut) = dut {
        arguments += &format!(" --preset {}", dut.name);
    }
    let reduction = reduction.arguments();
    if !reduction.is_empty() {
        arguments += " ";
        arguments += &reduction;
    }
    arguments
}

/// Runs one case of a plan.
fn run_seed(plan: &Plan, seed: u64, coverage: &mut Coverage) -> Result<Counts, FailedCase> {
    let Some(case) = Case::draw(seed, plan.dut) else {
        let text = "this build lacks an engine that the seed draws".to_owned();
        return Err(FailedCase { seed, engine: "none", trouble: Trouble { kind: Kind::Stuck, text, event: 0 } });
    };
    let case = plan.reduction.apply(&case);
    run(&case, coverage, plan.trace.as_deref()).map_err(|trouble| FailedCase { seed, engine: case.dut.name, trouble })
}

/// Runs a plan. `progress` is called after each case.
pub fn soak(plan: &Plan, mut progress: impl FnMut(Progress)) -> Outcome {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let mut outcome = Outcome::default();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..plan.threads.max(1) {
            let sender = sender.clone();
            let (next, is_over) = (&next, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) && plan.time.is_none_or(|time| start.elapsed() < time) {
                    let number = next.fetch_add(1, Ordering::Relaxed) * plan.shard.1 + plan.shard.0;
                    if plan.seeds.is_some_and(|seeds| number >= seeds) {
                        break;
                    }
                    let mut coverage = Coverage::default();
                    let result = run_seed(plan, plan.first.wrapping_add(number), &mut coverage);
                    is_over.fetch_or(result.is_err(), Ordering::Relaxed);
                    if sender.send((result, coverage)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (result, coverage) in receiver {
            match result {
                Ok(counts) => {
                    outcome.cases += 1;
                    outcome.counts.add(&counts);
                    outcome.coverage.merge(&coverage);
                }
                Err(failed) => outcome.failed.push(failed),
            }
            let checks = outcome.counts.requests + outcome.counts.context_requests + outcome.counts.invalidations;
            progress(Progress { cases: outcome.cases, checks });
        }
    });
    outcome.failed.sort_by_key(|failed| failed.seed);
    outcome.elapsed = start.elapsed();
    outcome
}

/// Numbers and ranges of numbers, as `--keep` takes them.
#[must_use]
pub fn ranges_text(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let text =
        parts.iter().map(|(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") });
    text.collect::<Vec<_>>().join(",")
}

/// The numbers of such a text.
///
/// # Errors
/// What is wrong with it.
pub fn parse_ranges(text: &str) -> Result<Vec<usize>, String> {
    /// Far above the events of any case.
    const NUMBER_MAX: usize = 1_000_000;
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| match text.trim().parse::<usize>() {
            Ok(number) if number <= NUMBER_MAX => Ok(number),
            _ => Err(format!("`{part}`: legal are numbers and ranges of events, such as 3,10-12, up to {NUMBER_MAX}")),
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{part}`: the range is empty"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers.into_iter().collect())
}

/// Where the waveform of a case goes.
#[must_use]
pub fn trace_path(directory: &Path, seed: u64) -> PathBuf {
    directory.join(format!("soak-{seed}.vcd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        for numbers in [vec![0], vec![1, 2, 3], vec![0, 2, 3, 9], vec![5, 7]] {
            assert_eq!(parse_ranges(&ranges_text(&numbers)), Ok(numbers));
        }
        assert_eq!(ranges_text(&[0, 2, 3, 4, 9]), "0,2-4,9");
        for text in ["", "a", "3-1", "1,,2", "1-2-3", "9999999999"] {
            assert!(parse_ranges(text).is_err(), "{text}");
        }
    }
}
