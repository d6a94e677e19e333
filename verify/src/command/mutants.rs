//! The subcommand `mutants`.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use keywalk_verify::figures::grid;
use keywalk_verify::mutants::{
    self, Kind, Numbered, Outcome, Survivor, Survivors, Verdict, block, programs, run_all, sample,
};
use serde_json::{Value, json};

use super::{FAILED, PASSED, Refusal, json_file, json_refusal, print, progress_bar};

/// Part of the mutants that tests can find which they must find.
const KILLED_MIN: f64 = 0.98;
/// Vectors that a mutant is tested with unless others are given: short ones of every kind.
const VECTORS: [&str; 6] = [
    "verify/vectors/ctx_qpc512.json",
    "verify/vectors/frmr_pgsz.json",
    "verify/vectors/mtr_user.json",
    "verify/vectors/mw_dma.json",
    "verify/vectors/pbl_fixed_hop2_64kpg.json",
    "verify/vectors/rereg_hop_change.json",
];

#[derive(Debug, Args)]
pub struct MutantsArgs {
    /// Take so many of the mutants only, spread over all modules, and none that is known to survive.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Take mutants of these modules only; may be repeated.
    #[arg(long = "module", value_name = "NAME")]
    modules: Vec<String>,
    /// Take the mutants with these numbers only; may be repeated.
    #[arg(long = "number", value_name = "N")]
    numbers: Vec<usize>,
    /// Take only every Nth mutant, from the Ith on: shards 1/N to N/N together take all of them.
    #[arg(long, value_name = "I/N", value_parser = super::parse_shard, default_value = "1/1")]
    shard: (u64, u64),
    /// Print the mutants, with what is listed about them, and run nothing.
    #[arg(long)]
    list: bool,
    /// Mutants that survive, with the reasons.
    #[arg(long, default_value = "verify/mutants.toml", value_name = "FILE")]
    survivors: PathBuf,
    /// Vector files, or directories of them, that mutants are tested with.
    #[arg(long, default_values = VECTORS, value_name = "PATH")]
    vectors: Vec<PathBuf>,
    /// Mutants that are tested at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write the result as JSON: totals, and an array of objects with number, module, line, statement, change, result, by,
    /// how, seconds, kind, reason and pass.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The mutants that are asked for.
fn taken(args: &MutantsArgs, survivors: &Survivors) -> Result<Vec<Numbered>, Refusal> {
    let all: Vec<_> = mutants::all().collect();
    let modules: Vec<_> = all.iter().map(|(_, mutant)| mutant.module).collect();
    if let Some(name) = args.modules.iter().find(|name| !modules.contains(&name.as_str())) {
        let mut known = modules;
        known.dedup();
        return Err(Refusal::unusable(format!("--module {name}: mutants are in {}", known.join(", "))));
    }
    if let Some(number) = args.numbers.iter().find(|number| !(1..=all.len()).contains(*number)) {
        return Err(Refusal::unusable(format!("--number {number}: legal are 1 to {}", all.len())));
    }
    let is_wanted = |(number, mutant): &Numbered| {
        (args.modules.is_empty() || args.modules.iter().any(|name| name == mutant.module))
            && (args.numbers.is_empty() || args.numbers.contains(number))
            && (args.sample.is_none() || survivors.of(mutant).is_none())
    };
    let wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    let wanted = args.sample.map_or(wanted.clone(), |count| sample(&wanted, count));
    let (shard, shards) = args.shard;
    let of_shard = |(position, mutant)| (position as u64 % shards == shard).then_some(mutant);
    Ok(wanted.into_iter().enumerate().filter_map(of_shard).collect())
}

/// Runs it.
pub fn run(args: &MutantsArgs) -> Result<u8, Refusal> {
    if mutants::all().next().is_none() {
        return Err(Refusal::unusable(
            "this build has no mutants: cargo run --release -p keywalk-verify --no-default-features --features mutants -- \
             mutants",
        ));
    }
    let survivors = Survivors::read(&args.survivors).map_err(Refusal::unusable)?;
    let taken = taken(args, &survivors)?;
    if args.list {
        let line = |(number, mutant): &Numbered| {
            let listed =
                survivors.of(mutant).map_or(String::new(), |survivor| format!(" (survives: {})", survivor.reason));
            format!("{number} {}.v:{}: {}: {}{listed}", mutant.module, mutant.line, mutant.change, mutant.statement)
        };
        print(&taken.iter().map(line).collect::<Vec<_>>());
        return Ok(PASSED);
    }
    let json = json_file(args.json.as_deref())?;
    let this = env::current_exe().map_err(Refusal::unusable)?;
    let programs = programs(&this, &args.vectors).map_err(Refusal::unusable)?;
    let threads = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));

    let start = Instant::now();
    let bar = progress_bar(taken.len() as u64, "mutants");
    let outcomes = run_all(&programs, &taken, threads, |outcome| {
        bar.inc(1);
        if outcome.verdict == Verdict::Survived {
            let (number, mutant) = outcome.mutant;
            bar.println(format!("{number} {}: {}: survives", mutant.module, mutant.change));
        }
    });
    bar.finish_and_clear();
    let outcomes = outcomes.map_err(Refusal::unusable)?;
    let judged: Vec<_> = outcomes.iter().map(|outcome| Judged::new(outcome, &survivors)).collect();

    let total = Tally::of(&judged);
    let mut lines: Vec<String> = judged.iter().filter_map(Judged::trouble).collect();
    lines.push(table(&judged));
    lines.push(format!(
        "{} mutants: {} killed, {} survived, {} of them equivalent; {:.1} % of those that are not, {:.0} s",
        total.made,
        total.killed,
        total.made - total.killed,
        total.equivalent,
        100.0 * total.ratio(),
        start.elapsed().as_secs_f64()
    ));
    print(&lines);
    let passed = judged.iter().all(Judged::passes) && (args.sample.is_some() || total.ratio() >= KILLED_MIN);
    if let (Some(file), Some(path)) = (json, &args.json) {
        let content = json!({
            "made": total.made,
            "killed": total.killed,
            "equivalent": total.equivalent,
            "ratio": total.ratio(),
            "pass": passed,
            "mutants": judged.iter().map(Judged::row).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&content).map_err(Refusal::unusable)?;
        file.write(&(text + "\n")).map_err(|error| json_refusal(path, &error))?;
    }
    Ok(if passed { PASSED } else { FAILED })
}

/// An outcome with what is listed about the mutant.
struct Judged<'a> {
    outcome: &'a Outcome,
    listed: Option<&'a Survivor>,
}

impl<'a> Judged<'a> {
    fn new(outcome: &'a Outcome, survivors: &'a Survivors) -> Self {
        Self { outcome, listed: survivors.of(outcome.mutant.1) }
    }

    fn is_killed(&self) -> bool {
        self.outcome.verdict != Verdict::Survived
    }

    fn is_equivalent(&self) -> bool {
        !self.is_killed() && self.listed.is_some_and(|listed| listed.kind == Kind::Equivalent)
    }

    /// Killed, or listed as one that survives; not both.
    fn passes(&self) -> bool {
        self.is_killed() == self.listed.is_none()
    }

    fn trouble(&self) -> Option<String> {
        let (number, mutant) = self.outcome.mutant;
        let place =
            format!("{number} {}.v:{}: {}\n    {}", mutant.module, mutant.line, mutant.change, mutant.statement);
        match &self.outcome.verdict {
            _ if self.passes() => None,
            Verdict::Survived => Some(format!(
                "SURVIVED: {place}\n    no test finds it, and it is not listed: write a test, or list it with a reason"
            )),
            Verdict::Killed { by, how } => {
                Some(format!("LISTED, BUT KILLED: {place}\n    by {by}: {how}; take it out of the list"))
            }
        }
    }

    fn row(&self) -> Value {
        let (number, mutant) = self.outcome.mutant;
        let (by, how) = match &self.outcome.verdict {
            Verdict::Killed { by, how } => (Some(by), Some(how)),
            Verdict::Survived => (None, None),
        };
        let kind = |listed: &Survivor| match listed.kind {
            Kind::Equivalent => "equivalent",
            Kind::Open => "open",
        };
        json!({
            "number": number,
            "module": mutant.module,
            "line": mutant.line,
            "statement": mutant.statement,
            "change": mutant.change,
            "result": if self.is_killed() { "killed" } else { "survived" },
            "by": by,
            "how": how,
            "seconds": self.outcome.seconds,
            "kind": self.listed.map(kind),
            "reason": self.listed.map(|listed| &listed.reason),
            "pass": self.passes(),
        })
    }
}

/// Numbers of mutants.
#[derive(Clone, Copy, Default)]
struct Tally {
    made: usize,
    killed: usize,
    equivalent: usize,
}

impl Tally {
    fn of<'a>(judged: impl IntoIterator<Item = &'a Judged<'a>>) -> Self {
        let mut tally = Self::default();
        for one in judged {
            tally.made += 1;
            tally.killed += usize::from(one.is_killed());
            tally.equivalent += usize::from(one.is_equivalent());
        }
        tally
    }

    /// Killed ones, of those that can be.
    fn ratio(self) -> f64 {
        self.killed as f64 / (self.made - self.equivalent).max(1) as f64
    }
}

/// Made, killed and survived per block.
fn table(judged: &[Judged<'_>]) -> String {
    let mut blocks: BTreeMap<&str, Vec<&Judged<'_>>> = BTreeMap::new();
    for one in judged {
        blocks.entry(block(one.outcome.mutant.1.module)).or_default().push(one);
    }
    let line = |(name, judged): (&str, Vec<&Judged<'_>>)| {
        let tally = Tally::of(judged);
        vec![
            name.to_owned(),
            tally.made.to_string(),
            tally.killed.to_string(),
            tally.equivalent.to_string(),
            (tally.made - tally.killed - tally.equivalent).to_string(),
            format!("{:.1} %", 100.0 * tally.ratio()),
        ]
    };
    grid(&["block", "made", "killed", "equivalent", "survived", "ratio"], 1, blocks.into_iter().map(line))
}
