//! The subcommand `bench`.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use keywalk_verify::bench::{self, BenchError, Finding, Findings, Job, Settings, chart, rates};
use keywalk_verify::figures::{self, Row, Sense};

use super::{FAILED, PASSED, Readme, Refusal, json_file, json_refusal, print, progress_bar};

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Write every figure as JSON: an array of objects with name, value, unit, target, sense, bound, ratio and pass.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The engine: a configuration that this build has.
    #[arg(long, default_value = "default", value_name = "NAME")]
    preset: String,
    /// Where the curves go, as SVG.
    #[arg(long, default_value = "build/bench", value_name = "DIR")]
    out: PathBuf,
    /// A few figures and short runs, and nothing that depends on the machine: for tests of this command.
    #[arg(long)]
    quick: bool,
    /// Only figures whose name contains this. No curves are drawn.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// List the figures and run nothing.
    #[arg(long)]
    list: bool,
    /// Replace the table between the lines `<!-- bench -->` and `<!-- /bench -->` of a Markdown file, with the worst of each
    /// family of figures.
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    readme: Option<PathBuf>,
    /// Figures that are taken at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Figures in processor time.
type Rate = (&'static str, fn(&Settings) -> Result<Finding, BenchError>);
const RATES: [Rate; 2] = [("golden model", |_| rates::model()), ("simulator", rates::simulator)];

/// Runs it.
pub fn run(args: &BenchArgs) -> Result<u8, Refusal> {
    let settings = settings(args)?;
    let is_wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only));
    let jobs: Vec<Job> = bench::jobs(&settings).into_iter().filter(|job| is_wanted(&job.name)).collect();
    let rates: Vec<Rate> = RATES.into_iter().filter(|(name, _)| is_wanted(name) && !args.quick).collect();
    if args.list {
        print(
            &jobs.iter().map(|job| job.name.clone()).chain(rates.iter().map(|rate| rate.0.into())).collect::<Vec<_>>(),
        );
        return Ok(PASSED);
    }
    if jobs.is_empty() && rates.is_empty() {
        return Err(Refusal::unusable("--only: no figure has such a name; --list prints them all"));
    }
    let json = json_file(args.json.as_deref())?;
    let readme = Readme::read(args.readme.as_deref(), "bench")?;
    let out_refusal = |error| Refusal::unusable(format!("--out {}: {error}", args.out.display()));
    fs::create_dir_all(&args.out).map_err(out_refusal)?;

    let bar = progress_bar((jobs.len() + rates.len()) as u64, "figures");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut findings = bench::run(&settings, &jobs, args.jobs.unwrap_or(processors), |name| {
        bar.inc(1);
        bar.set_message(name.to_owned());
    });
    // One after the other and alone, as far as it is up to this program.
    for (name, rate) in rates {
        bar.set_message(name);
        add(&mut findings, name, rate(&settings));
        bar.inc(1);
    }
    bar.finish_and_clear();

    let mut lines = vec![figures::table(&findings.rows), figures::summary(&findings.rows)];
    lines.extend(findings.failures.iter().map(|(name, why)| format!("{name}: no figure: {why}")));
    if args.only.is_none() {
        let files = chart::draw_all(&findings.points, &args.out).map_err(Refusal::unusable)?;
        lines.push(format!("curves: {} in {}", files.join(", "), args.out.display()));
    }
    print(&lines);
    if let (Some(file), Some(path)) = (json, &args.json) {
        file.write(&figures::json(&findings.rows)).map_err(|error| json_refusal(path, &error))?;
    }
    if let Some(readme) = readme {
        readme.write(&figures::markdown_of_rows(&bench::worst_of_families(&findings.rows)))?;
    }
    let is_passed = findings.failures.is_empty() && findings.rows.iter().all(|row| row.pass);
    Ok(if is_passed { PASSED } else { FAILED })
}

fn settings(args: &BenchArgs) -> Result<Settings, Refusal> {
    Settings::new(&args.preset, args.quick).ok_or_else(|| {
        let names: Vec<_> = keywalk_verify::Design::engines().map(|design| design.name).collect();
        if names.is_empty() {
            return Refusal::tool_missing("this build has no engine: install verilator (`make` does) and build again");
        }
        Refusal::unusable(format!("--preset {}: this build has {}", args.preset, names.join(", ")))
    })
}

fn add(findings: &mut Findings, name: &str, finding: Result<Finding, BenchError>) {
    match finding {
        Ok(finding) => findings.rows.extend(finding.rows),
        Err(error) => {
            findings.rows.push(Row::informative(name, f64::NAN, "failed", Sense::Max));
            findings.failures.push((name.into(), error.to_string()));
        }
    }
}
