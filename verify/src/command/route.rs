//! The subcommand `route`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use keywalk_verify::figures::{self, Row, WholeFile};
use keywalk_verify::route::{Recorded, Router, median};
use keywalk_verify::synth::{CORE, Design, Family, SynthError};

use super::synth::{Mapping, yosys};
use super::{FAILED, PASSED, Readme, Refusal, json_file, json_refusal, print};

#[derive(Debug, Args)]
pub struct RouteArgs {
    /// Generated Verilog: a directory that `keywalk-gen rtl --out` filled.
    #[arg(default_value = "build/rtl", value_name = "DIR")]
    rtl: PathBuf,
    /// Route this module; may be repeated. [default: each block in keywalk_core that is not left out]
    #[arg(long = "module", value_name = "NAME")]
    modules: Vec<String>,
    /// Route with this seed; may be repeated, the median counts. [default: the recorded ones]
    #[arg(long = "seed", value_name = "N")]
    seeds: Vec<u32>,
    /// Recorded figures.
    #[arg(long, default_value = "verify/route.toml", value_name = "FILE")]
    recorded: PathBuf,
    /// Write what this run gives to the file of --recorded instead of comparing. With --module only these modules change.
    #[arg(long)]
    record: bool,
    /// Virtual environment with nextpnr; `make setup-route` makes it.
    #[arg(long, default_value = "build/venv", value_name = "DIR")]
    tools: PathBuf,
    /// Where netlists, reports and logs go.
    #[arg(long, default_value = "build/route", value_name = "DIR")]
    out: PathBuf,
    /// Modules that are routed at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write every figure as JSON: an array of objects with name, value, unit, target, sense, bound, ratio and pass.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the table between the lines `<!-- route -->` and `<!-- /route -->` of a Markdown file with the recorded
    /// figures.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &RouteArgs) -> Result<u8, Refusal> {
    let json = json_file(args.json.as_deref())?;
    let readme = Readme::read(args.readme.as_deref(), "route")?;
    let mut recorded = Recorded::read(&args.recorded).map_err(Refusal::unusable)?;
    let record = args.record.then(|| WholeFile::create(&args.recorded)).transpose();
    let record = record.map_err(|error| record_refusal(args, &error))?;
    let mapping = Mapping { directory: &args.rtl, generator: "rtl", out: &args.out, jobs: args.jobs, paths: 0 };
    let design = mapping.design()?;
    let modules = if args.modules.is_empty() { blocks(&design, &recorded)? } else { args.modules.clone() };
    if let Some(block) = modules.iter().find(|module| args.record && recorded.left_out.contains_key(*module)) {
        return Err(Refusal::unusable(format!(
            "--record: `{block}` is left out in {}; delete it from [left_out] first",
            args.recorded.display()
        )));
    }
    let router = Router::find(&args.tools).map_err(Refusal::tool_missing)?;
    let yosys = yosys()?;
    let seeds = if args.seeds.is_empty() { recorded.seeds.clone() } else { args.seeds.clone() };
    let found = Recorded { yosys: yosys.version.clone(), nextpnr: router.version.clone(), seeds, ..recorded.clone() };
    refuse_other_tools(args, &recorded, &found)?;

    let started = Instant::now();
    let tool = format!("nextpnr {}", router.version);
    let routed = mapping.each(&modules, &tool, |module| {
        let netlist = design.map(module, Family::Ecp5, &yosys, &args.out)?;
        let routes: Result<Vec<f64>, SynthError> =
            found.seeds.iter().map(|seed| router.route(module, &netlist, *seed)).collect();
        routes.map(median)
    })?;
    // A tenth of a MHz is far below the spread over seeds, and reads better.
    let routed: BTreeMap<String, f64> =
        routed.into_iter().map(|(block, mhz)| (block, (mhz * 10.0).round() / 10.0)).collect();

    let mut rows = recorded.compare(&routed, args.modules.is_empty());
    let notes = notes(&recorded, &rows);
    if args.record {
        // Beside the figures of before, but not judged by them.
        rows = rows.into_iter().map(|row| Row { target: None, pass: true, ..row }).collect();
    }
    let mut lines = vec![figures::table(&rows)];
    lines.extend(notes.into_iter().filter(|_| !args.record));
    lines.extend(recorded.left_out.iter().map(|(block, why)| format!("left out: {block}, {why}")));
    lines.push(format!(
        "a proxy on Lattice ECP5, to be compared with itself only; yosys {}, nextpnr {}, seeds {:?}; {:.0} s",
        found.yosys,
        found.nextpnr,
        found.seeds,
        started.elapsed().as_secs_f64()
    ));
    let passed = if let Some(file) = record {
        if args.modules.is_empty() {
            recorded = Recorded { mhz: routed, ..found };
        } else {
            recorded.mhz.extend(routed);
        }
        file.write(&recorded.text()).map_err(|error| record_refusal(args, &error))?;
        lines.push(format!("recorded in {}", args.recorded.display()));
        true
    } else {
        lines.push(figures::summary(&rows));
        rows.iter().all(|row| row.pass)
    };
    print(&lines);
    if let (Some(file), Some(path)) = (json, &args.json) {
        file.write(&figures::json(&rows)).map_err(|error| json_refusal(path, &error))?;
    }
    if let Some(readme) = readme {
        readme.write(&recorded.markdown())?;
    }
    Ok(if passed { PASSED } else { FAILED })
}

/// Blocks of the core that are not left out. One that is left out must be there.
fn blocks(design: &Design, recorded: &Recorded) -> Result<Vec<String>, Refusal> {
    let all = design.with_blocks(CORE).map_err(Refusal::unusable)?;
    if let Some(unknown) = recorded.left_out.keys().find(|block| !all.contains(block)) {
        let known = all.join(", ");
        return Err(Refusal::unusable(format!("`{unknown}` is left out, and is no block; blocks are {known}")));
    }
    Ok(all.into_iter().filter(|block| !recorded.left_out.contains_key(block)).collect())
}

/// Figures of other tools are no comparison; and a file holds figures of one set of tools and seeds.
fn refuse_other_tools(args: &RouteArgs, recorded: &Recorded, found: &Recorded) -> Result<(), Refusal> {
    let tools = |of: &Recorded| format!("yosys {} and nextpnr {}", of.yosys, of.nextpnr);
    let is_same = tools(recorded) == tools(found);
    if !args.record && !is_same {
        return Err(Refusal::tool_missing(format!(
            "{} has figures of {}, installed are {}, whose figures are others; `make setup-route` installs the \
             former, --record takes figures of the latter",
            args.recorded.display(),
            tools(recorded),
            tools(found)
        )));
    }
    if args.record && !args.modules.is_empty() && (!is_same || recorded.seeds != found.seeds) {
        return Err(Refusal::unusable(format!(
            "--record with --module: other modules in {} have figures of {} and seeds {:?}, these would be of {} and \
             seeds {:?}; leave out --module",
            args.recorded.display(),
            tools(recorded),
            recorded.seeds,
            tools(found),
            found.seeds
        )));
    }
    Ok(())
}

/// What the table does not say by itself.
fn notes(recorded: &Recorded, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows {
        let gain = row.ratio.map(|ratio| (ratio - 1.0) * 100.0);
        match gain {
            None => notes.push(format!("{}: it is not recorded; --record does so", row.name)),
            Some(_) if row.value == 0.0 => {
                notes.push(format!("{}: there is no such block; --record forgets it", row.name))
            }
            Some(gain) if !row.pass => notes.push(format!(
                "{}: {:.1} % slower than recorded, {} % are allowed; --record where that is meant",
                row.name, -gain, recorded.tolerance_percent
            )),
            Some(gain) if gain > recorded.tolerance_percent => {
                notes.push(format!("{}: {gain:.1} % faster than recorded; --record keeps that", row.name));
            }
            Some(_) => {}
        }
    }
    notes
}

fn record_refusal(args: &RouteArgs, error: &std::io::Error) -> Refusal {
    Refusal::unusable(format!("--record: {}: {error}", args.recorded.display()))
}
