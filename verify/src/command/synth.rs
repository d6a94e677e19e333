//! The subcommand `synth`.

use std::path::{Path, PathBuf};

use clap::Args;
use keywalk_verify::figures::{self, Row, grid};
use keywalk_verify::synth::{self, Analysis, CORE, Design, Family, SynthError, TimingPath, WideNet, Yosys};

use super::{FAILED, PASSED, Readme, Refusal, json_file, json_refusal, print, progress_bar};

#[derive(Debug, Args)]
pub struct SynthArgs {
    /// Generated Verilog: a directory that `keywalk-gen rtl --out` filled.
    #[arg(default_value = "build/rtl", value_name = "DIR")]
    rtl: PathBuf,
    /// Map and analyse this module; may be repeated. [default: keywalk_core and each block in it]
    #[arg(long = "module", value_name = "NAME")]
    modules: Vec<String>,
    /// Analyse a netlist that `write_json` wrote instead of running yosys. Needs one --module.
    #[arg(long, value_name = "FILE", conflicts_with = "rtl")]
    netlist: Option<PathBuf>,
    /// Print so many worst paths of each module, by levels and by the estimate, and so many nets with the most loads.
    #[arg(long, default_value_t = 0, value_name = "N")]
    paths: usize,
    /// Where netlists and logs of yosys go.
    #[arg(long, default_value = "build/synth", value_name = "DIR")]
    out: PathBuf,
    /// Modules that are mapped at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write every figure as JSON: an array of objects with name, value, unit, target, sense, bound, ratio and pass.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the table between the lines `<!-- synth -->` and `<!-- /synth -->` of a Markdown file.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &SynthArgs) -> Result<u8, Refusal> {
    let json = json_file(args.json.as_deref())?;
    let readme = Readme::read(args.readme.as_deref(), "synth")?;
    let (results, note) = match &args.netlist {
        Some(path) => {
            let [module] = args.modules.as_slice() else {
                return Err(Refusal::unusable("--netlist needs one --module, the top module of the netlist"));
            };
            let analysis = synth::analyse(path, module, args.paths).map_err(Refusal::unusable)?;
            (vec![(module.clone(), analysis)], None)
        }
        None => synthesise(args)?,
    };
    let rows: Vec<Row> = results.iter().flat_map(|(module, analysis)| synth::rows(module, analysis)).collect();
    let judged: Vec<Row> = rows.iter().filter(|row| row.target.is_some()).cloned().collect();
    let mut lines = vec![grid(&HEAD, 1, results.iter().map(module_line)), synth::RULE.into()];
    lines.extend(note.map(|note| format!("note: {note}")));
    if !judged.is_empty() {
        lines.extend([String::new(), figures::table(&judged), figures::summary(&judged)]);
    }
    if args.paths > 0 {
        lines.extend(results.iter().flat_map(|(module, analysis)| path_lines(module, analysis)));
    }
    print(&lines);
    if let (Some(file), Some(path)) = (json, &args.json) {
        file.write(&figures::json(&rows)).map_err(|error| json_refusal(path, &error))?;
    }
    if let Some(readme) = readme {
        readme.write(&figures::markdown(&HEAD, 1, results.iter().map(module_line)))?;
    }
    Ok(if rows.iter().all(|row| row.pass) { PASSED } else { FAILED })
}

/// Modules with their figures, and what to tell a reader who compares these.
type Results = (Vec<(String, Analysis)>, Option<String>);

fn synthesise(args: &SynthArgs) -> Result<Results, Refusal> {
    let mapping =
        Mapping { directory: &args.rtl, generator: "rtl", out: &args.out, jobs: args.jobs, paths: args.paths };
    mapping.run(|design| match args.modules.as_slice() {
        [] => design.with_blocks(CORE),
        some => Ok(some.to_vec()),
    })
}

/// Modules of generated Verilog through yosys.
pub struct Mapping<'a> {
    /// Where the Verilog is.
    pub directory: &'a Path,
    /// The subcommand of keywalk-gen that makes it.
    pub generator: &'a str,
    /// Where netlists and logs go.
    pub out: &'a Path,
    /// Modules at the same time; one per processor unless given.
    pub jobs: Option<usize>,
    /// Worst paths of each to keep.
    pub paths: usize,
}

impl Mapping<'_> {
    /// Maps and analyses the modules that `choose` names.
    pub fn run(&self, choose: impl FnOnce(&Design) -> Result<Vec<String>, SynthError>) -> Result<Results, Refusal> {
        let design = self.design()?;
        let modules = choose(&design).map_err(Refusal::unusable)?;
        let yosys = yosys()?;
        let results = self.each(&modules, &format!("yosys {}", yosys.version), |module| {
            let netlist = design.map(module, Family::UltraScalePlus, &yosys, self.out)?;
            synth::analyse(&netlist, module, self.paths)
        })?;
        Ok((results, yosys.note()))
    }

    /// The Verilog.
    pub fn design(&self) -> Result<Design, Refusal> {
        Design::read(self.directory).map_err(|error| match error {
            SynthError::System { .. } => Refusal::unusable(format!(
                "{error}; generate the Verilog first: cargo run --release -p keywalk-gen -- {} --out {}",
                self.generator,
                self.directory.display()
            )),
            error => Refusal::unusable(error),
        })
    }

    /// Works on modules, with a progress bar that names the tool.
    pub fn each<T: Send>(
        &self,
        modules: &[String],
        tool: &str,
        work: impl Fn(&str) -> Result<T, SynthError> + Sync,
    ) -> Result<Vec<(String, T)>, Refusal> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let bar = progress_bar(modules.len() as u64, "modules");
        bar.set_message(tool.to_owned());
        let done = |module: &str| {
            bar.inc(1);
            bar.set_message(format!("{tool}: {module} done"));
        };
        let results = synth::each(modules, self.jobs.unwrap_or(processors), work, done);
        bar.finish_and_clear();
        results.map_err(Refusal::unusable)
    }
}

/// The installed yosys.
pub fn yosys() -> Result<Yosys, Refusal> {
    Yosys::find().ok_or_else(|| {
        Refusal::tool_missing(
            "no yosys: neither pyosys in build/venv (or in the Python that KEYWALK_PYOSYS names), nor KEYWALK_YOSYS, \
             nor `yosys` on PATH; `make synth` installs pyosys",
        )
    })
}

const HEAD: [&str; 12] =
    ["module", "LUT", "logic", "LUTRAM", "SRL", "FF", "BRAM36", "URAM", "CARRY", "levels", "est ns", "fan-out"];

/// A line below [`HEAD`].
fn module_line((module, analysis): &(String, Analysis)) -> Vec<String> {
    let area = &analysis.area;
    let name = if area.latches > 0 { format!("{module} ({} latches!)", area.latches) } else { module.clone() };
    vec![
        name,
        area.luts().to_string(),
        area.logic_luts.to_string(),
        area.memory_luts.to_string(),
        area.shift_luts.to_string(),
        area.registers.to_string(),
        figures::number(area.block_rams()),
        area.ultra_rams.to_string(),
        area.carries.to_string(),
        analysis.levels.to_string(),
        nanoseconds(analysis.picoseconds),
        analysis.fan_out.to_string(),
    ]
}

fn nanoseconds(picoseconds: u32) -> String {
    format!("{:.2}", f64::from(picoseconds) / 1000.0)
}

fn path_lines(module: &str, analysis: &Analysis) -> Vec<String> {
    let mut lines = vec![String::new(), format!("{module}: most levels")];
    lines.extend(analysis.deepest.iter().flat_map(one_path));
    lines.push(format!("{module}: slowest"));
    lines.extend(analysis.slowest.iter().flat_map(one_path));
    lines.push(format!("{module}: most loads"));
    lines.extend(analysis.widest_nets.iter().map(one_net));
    lines
}

/// A net: its loads, and most of what it drives.
fn one_net(net: &WideNet) -> String {
    const SHOWN: usize = 4;
    let drives: Vec<_> = net.drives.iter().take(SHOWN).map(|(name, loads)| format!("{loads} {name}")).collect();
    let rest = if net.drives.len() > SHOWN { ", ..." } else { "" };
    format!("  {:>5} loads  {}: {}{rest}", net.loads, net.name, drives.join(", "))
}

/// A path: its size and ends, and in a second line its cells, with the nets behind them that have a name.
fn one_path(path: &TimingPath) -> Vec<String> {
    let cell = |(kind, net): &(String, Option<String>)| match net {
        Some(net) => format!("{kind} {net}"),
        None => kind.clone(),
    };
    let through: Vec<_> = path.through.iter().map(cell).collect();
    let ends = format!("{} -> {}", path.from, path.to);
    let mut lines = vec![format!("  {:>2} levels {} ns  {ends}", path.levels, nanoseconds(path.picoseconds))];
    if !through.is_empty() {
        lines.push(format!("      through {}", through.join(", ")));
    }
    lines
}
