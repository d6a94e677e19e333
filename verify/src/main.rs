//! The command `keywalk-verify`.

mod command;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use command::bench::BenchArgs;
use command::coverage::CoverageArgs;
use command::fit::FitArgs;
use command::formal::FormalArgs;
use command::mutants::MutantsArgs;
use command::replay::ReplayArgs;
use command::route::RouteArgs;
use command::scenario::ScenarioArgs;
use command::soak::SoakArgs;
use command::synth::SynthArgs;
use command::{FAILED, PASSED, RTL_WHOLE_PAGES_MAX, Refusal, RtlArgs, engine, print, progress_bar};
use keywalk_contract::Operation;
use keywalk_model::{Controls, Request};
use keywalk_verify::arguments::{parse_number, parse_operation};
use keywalk_verify::number::Hex32;
use keywalk_verify::suite::Event;
use keywalk_verify::{Design, Difference, FileReport, Golden, Report, Settings, Suite};

/// Verifies the Keywalk engine.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 all passed, 1 something failed, 2 wrong usage or unreadable input, 3 a tool is missing."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run vector files: tables that the real driver built, with the answers an engine must give.
    ///
    /// Each xlate, bad and ctx row and each expected page of an mtrs row is one check. Every live region is requested as
    /// a whole and in random parts besides, and compared with its page list; with the RTL every response is compared
    /// with the golden model's, beat by beat. These are counted apart.
    ///
    /// Prints a line per file, the first difference in full, and in the last line `N passed, M failed`: N checks that
    /// passed, M checks and comparisons that failed.
    ///
    /// Exit status: 0 all passed, 1 something failed, 2 wrong usage or unreadable input, 3 a tool is missing.
    Vectors(VectorsArgs),
    /// Replay what the driver sent: feed the events of vector files to a device, then check its tables and its answers.
    ///
    /// The events are commands, mailbox commands and work requests, in order, with the harness as the host: mailbox buffers
    /// hold what the log says, pointers of further levels are in memory before the device is told of them, freed memory is
    /// gone. Every outcome is compared: status and token of a command, what a query wrote, where the driver found a context;
    /// in the logs of verify/events also accesses between the events. After the last event every line of 64 bytes that the
    /// device wrote and the whole image must hold what the file says, the BT0 slots of every table must be those of `hem`, and
    /// every row must hold as with `vectors`.
    ///
    /// Prints a line per file, the first difference in full, and in the last line `N passed, M failed` over events, places
    /// in memory, base addresses and rows.
    ///
    /// Exit status: 0 all passed, 1 something failed, 2 wrong usage or unreadable input, 3 a tool is missing.
    Replay(ReplayArgs),
    /// Show how the golden model answers one request on the tables of a vector file, step by step.
    ///
    /// Exit status: 0 answered, 2 wrong usage or unreadable input.
    Explain(ExplainArgs),
    /// Measure the engine in simulated clock cycles, and print every figure beside its target and the bound.
    ///
    /// Each figure has an engine of its own, fresh from reset, with the same seed, no stalls and a fixed memory latency: it
    /// is the same number on every machine, and every answer is compared with the golden model's. A figure's ratio is its
    /// value divided by the bound, the best that the tables and the memory allow; without a bound of its own that is the
    /// target. "L" is the memory latency in cycles, "n" the reads that the memory lets be in flight. Rows in
    /// processor time measure the programs around the engine and depend on the machine.
    ///
    /// Misses: cycles per miss over random requests to distinct pages, against 1.10 times max(1, r, r x beats, r x L / n),
    /// with r the table reads really issued per miss; r has rows of its own, against the distinct lines that the tables
    /// need. Curves are drawn as SVG. A whole run takes some minutes; `--only "hit latency"` takes a part of it, `--list`
    /// names the parts.
    ///
    /// Targets are those of the configuration `default`: an engine with fewer places or a narrower table port misses some.
    ///
    /// Exit status: 0 every figure within its target, 1 some figure missed it or could not be taken, 2 wrong usage, 3 a
    /// tool is missing.
    Bench(BenchArgs),
    /// Map the generated Verilog for UltraScale+ with yosys and say what it takes and how deep its logic is.
    ///
    /// Prints LUTs (logic, memory, shift registers), flip-flops, block RAM, UltraRAM, carry chains, logic depth, an
    /// estimate of the delay and the largest fan-out of the core and of each block, every one mapped by itself with plain
    /// `synth_xilinx -family xcup -flatten -noiopad -noclkbuf`. The core, `keywalk_core`, has targets: 5 levels, 2.5 ns,
    /// 300 loads, 6000 LUTs. The estimate is a fixed rule for comparing designs, not timing closure.
    ///
    /// Modules whose Verilog has not changed are not mapped again. What to look at when a target is missed: `--paths 5`
    /// names the registers at both ends of the worst paths; `--module tlb` looks at one block alone.
    ///
    /// Exit status: 0 every figure within its target, 1 some figure missed it, 2 wrong usage or Verilog that yosys
    /// refuses, 3 yosys is missing.
    Synth(SynthArgs),
    /// Place and route the engine's blocks on an open device and compare their frequencies with the recorded ones.
    ///
    /// A proxy: it says whether a change made a block slower, not how fast the block will be. yosys maps each block by
    /// itself for Lattice ECP5 (LFE5U-85F, speed grade 8) and nextpnr places and routes it without pads. Such a
    /// device has other LUTs, carries and RAM, and its figures are two to six times slower than what `synth` estimates for
    /// UltraScale+: compare a figure with itself, with nothing else. The same Verilog, tools and seed give the same figure; another seed another one, and so does any
    /// change of the Verilog, which is what the tolerance is for.
    ///
    /// Recorded figures, the tools they were taken with and blocks that are left out are in verify/route.toml. A block that is
    /// slower than recorded by more than the tolerance fails, and so does one that is not recorded, or recorded and not there.
    /// `--record` takes the figures of this run instead; do so when a block was meant to become slower, or became faster.
    ///
    /// Exit status: 0 no block is slower, 1 some block is, 2 wrong usage or Verilog that yosys or nextpnr refuses, 3 a tool
    /// is missing, or is not the version that the figures were recorded with.
    Route(RouteArgs),
    /// Say what a card's design takes of each card.
    ///
    /// Maps engine, data mover, shell and probe as `synth` does and compares LUTs, flip-flops, block RAM and UltraRAM with
    /// what fpga/cards says of each card's part. The IP of the card's maker is left out: no open tool knows what it takes.
    ///
    /// Exit status: 0 the design fits every card, 1 it does not, 2 wrong usage or files, 3 yosys is missing.
    Fit(FitArgs),
    /// Run random cases on the RTL against the golden model, for as long as you like.
    ///
    /// A seed decides everything: the engine, memory latency and order, stalls, bus errors, tables, switches, requests,
    /// changes of the tables with their invalidations, resets. Every response is compared beat by beat, and in order where
    /// the engine answers in order; after a completion no answer may be from the old tables, and none may come before what
    /// it has to wait for; counters and events of the fault port must agree with the answers.
    ///
    /// At the first failure it prints the seed, a command that replays the case, the same with all left out that is not
    /// needed for the failure, and a waveform or the command that writes it.
    ///
    /// Parts of a long soak run anywhere: `--shard 3/8` runs the third eighth of the cases, and `coverage` adds up the files
    /// of `--json`. verify/slurm/submit.sh does this with Slurm.
    ///
    /// Exit status: 0 all passed, 1 some case failed, 2 wrong usage, 3 a tool is missing.
    Soak(SoakArgs),
    /// Add up what soaks have seen and say which bins of the functional coverage are empty.
    ///
    /// The bins are defined in hdl/contract/src/coverage.rs, those that cannot be filled with the reason.
    /// Where a file has counts of Verilator's (`soak --preset small_covered`, built with `--features coverage`), they are
    /// reported besides: lines, branches and signals of the generated RTL, with reasons in verify/rtl_coverage.toml.
    ///
    /// Exit status: 0 every bin that can be filled is filled and no case failed, 1 otherwise, 2 wrong usage or unreadable
    /// input.
    Coverage(CoverageArgs),
    /// Write random scenarios as JSON lines: tables, registers, requests, and the answers of the RTL and of the model.
    ///
    /// `verify/witness/witness.py answers FILE` judges them by a reading of the table formats of its own; `make witness`
    /// does both. A scenario follows from its seed and the configuration of the engine.
    ///
    /// Exit status: 0 written, 1 the engine broke a rule or did not answer, 2 wrong usage or output that cannot be
    /// written, 3 a tool is missing.
    Scenario(ScenarioArgs),
    /// Prove properties of the generated Verilog for all inputs, with yosys and a solver.
    ///
    /// Each proof puts properties into a module and shows them: by induction for any number of cycles, or for a stated number of cycles after reset. `--list` says what each shows. `--planted` plants
    /// faults that the proofs must find. A proof that fails names the property and leaves a waveform; where only the step
    /// of an induction fails, the waveform may begin in a state that is never reached.
    ///
    /// Exit status: 0 everything was shown, 1 something was not (or a planted fault was not found), 2 wrong usage or
    /// Verilog that yosys refuses, 3 a tool is missing.
    Formal(FormalArgs),
    /// Wake faults in the Verilog of the small engine, one at a time, and see that the tests find each.
    ///
    /// A build with the feature `mutants` (`make mutants` makes it) holds some hundred mutants: one changed operator, constant,
    /// condition or slice each, a stuck bit, a register that keeps its value, chosen over all modules by their size, and always
    /// the same ones. Each is tested until something fails: first with the block's own tests, then with a short soak, the
    /// engine's tests, a long soak and the vectors. A program that hangs has failed. All of them must pass without a mutant
    /// first.
    ///
    /// A mutant that survives must stand in verify/mutants.toml with the reason, and one that stands there must survive.
    ///
    /// Exit status: 0 the tests find 98 % of the mutants that can be found, and the list is right; 1 otherwise; 2 wrong usage, or
    /// a test that fails without a mutant.
    Mutants(MutantsArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DutName {
    /// The golden model.
    Model,
    /// The generated Verilog under Verilator.
    Rtl,
}

#[derive(Debug, Args)]
struct VectorsArgs {
    /// What is tested.
    #[arg(long, value_enum, default_value = "model")]
    dut: DutName,
    /// The engine: a configuration such as default or small, or a copy of one with a planted fault; with `--dut rtl` only.
    /// [default: default]
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    #[command(flatten)]
    rtl: RtlArgs,
    /// Regions of more pages are sampled instead of requested as a whole. [default: 2097152 for the RTL, none for the
    /// model]
    #[arg(long, value_name = "PAGES")]
    whole_pages_max: Option<u64>,
    /// Files that are run at the same time. [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write a VCD file of each file's first failing request into this directory. Needs a build with `--features trace`.
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Write the result, file by file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Vector files, or directories of *.json and *.json.gz files.
    #[arg(default_value = "verify/vectors", value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// Vector file.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Key.
    #[arg(long, value_parser = parse_number)]
    key: u64,
    /// Virtual address.
    #[arg(long, value_parser = parse_number)]
    va: u64,
    /// Bytes.
    #[arg(long, default_value = "1", value_parser = parse_number)]
    length: u64,
    /// Operation: local_read, local_write, remote_read, remote_write, remote_atomic or bind.
    #[arg(long, default_value = "local_read", value_parser = parse_operation)]
    op: Operation,
    /// Protection domain. [default: that of the live region with this key]
    #[arg(long, value_parser = parse_number)]
    pd: Option<u64>,
}

impl VectorsArgs {
    fn preset(&self) -> &str {
        self.preset.as_deref().unwrap_or("default")
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no errors, and go to standard output.
        Err(message) => {
            let printed = message.print().or_else(|error| if message.use_stderr() { Ok(()) } else { Err(error) });
            return ExitCode::from(command::exit_code(message.exit_code() as u8, printed));
        }
    };
    let result = match cli.command {
        Command::Vectors(args) => vectors(&args),
        Command::Replay(args) => command::replay::run(&args),
        Command::Explain(args) => explain(&args),
        Command::Bench(args) => command::bench::run(&args),
        Command::Synth(args) => command::synth::run(&args),
        Command::Route(args) => command::route::run(&args),
        Command::Fit(args) => command::fit::run(&args),
        Command::Soak(args) => command::soak::run(&args),
        Command::Coverage(args) => command::coverage::run(&args),
        Command::Scenario(args) => command::scenario::run(&args),
        Command::Formal(args) => command::formal::run(&args),
        Command::Mutants(args) => command::mutants::run(&args),
    };
    let code = result.unwrap_or_else(|error| {
        eprintln!("keywalk-verify: {}", error.message);
        error.code
    });
    ExitCode::from(command::exit_code(code, command::printed()))
}

fn design(args: &VectorsArgs) -> Result<Design, Refusal> {
    if args.dut == DutName::Model {
        if args.trace.is_some() {
            return Err(Refusal::unusable("--trace needs --dut rtl: the model has no waveform"));
        }
        args.rtl.refuse_for_model(args.preset.as_deref())?;
        return Ok(Design::Model);
    }
    if args.trace.is_some() && !cfg!(feature = "trace") {
        let message =
            "--trace needs a build with tracing: cargo run --release -p keywalk-verify --features trace -- ...";
        return Err(Refusal::unusable(message));
    }
    Ok(Design::Rtl { design: engine(args.preset())?, options: args.rtl.options() })
}

fn vectors(args: &VectorsArgs) -> Result<u8, Refusal> {
    let design = design(args)?;
    let suite = Suite::load(&args.paths).map_err(Refusal::unusable)?;
    let is_rtl = args.dut == DutName::Rtl;
    let settings = Settings {
        seed: args.rtl.seed,
        whole_pages_max: args.whole_pages_max.unwrap_or(if is_rtl { RTL_WHOLE_PAGES_MAX } else { u64::MAX }),
        compare_with_model: is_rtl,
    };
    if let Some(directory) = &args.trace {
        let error = |error| Refusal::unusable(format!("--trace {}: {error}", directory.display()));
        fs::create_dir_all(directory).map_err(error)?;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.jobs.unwrap_or(processors);

    let bar = progress_bar(suite.len() as u64, "files");
    let mut is_first_difference = true;
    let files = suite.run(&design, &settings, threads, args.trace.as_deref(), |event| match event {
        Event::Progress { name, state } => bar.set_message(format!("{name}: {state}")),
        Event::Done(file) => {
            bar.inc(1);
            bar.suspend(|| print_file(&file, &mut is_first_difference));
        }
    });
    bar.finish_and_clear();

    let options = serde_json::json!({
        "seed": args.rtl.seed,
        "whole_pages_max": Some(settings.whole_pages_max).filter(|pages| *pages < u64::MAX),
        "rtl": is_rtl.then(|| serde_json::json!({
            "preset": args.preset(),
            "latency_cycles": [args.rtl.latency().start(), args.rtl.latency().end()],
            "reorder": args.rtl.reorder,
            "stall": args.rtl.stall,
        })),
    });
    let report = Report::new(if is_rtl { "rtl" } else { "model" }, options, files);
    print(&report.summary());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report).map_err(Refusal::unusable)?;
        fs::write(path, text + "\n")
            .map_err(|error| Refusal::unusable(format!("--json {}: {error}", path.display())))?;
    }
    if report.passed + report.failed == 0 {
        return Err(Refusal::unusable("the files hold no row to check"));
    }
    Ok(if report.failed == 0 { PASSED } else { FAILED })
}

/// A line per file; the first difference of all in full, of other files its place.
fn print_file(file: &FileReport, is_first_difference: &mut bool) {
    let mut lines = vec![file.line()];
    if let Some(why) = &file.stopped {
        lines.push(format!("      stopped: {why}"));
    }
    if let Some(difference) = &file.first_difference {
        if std::mem::take(is_first_difference) {
            lines.extend(difference_lines(difference));
        } else {
            lines.push(format!("      first difference: {}", difference.place));
        }
        lines.extend(difference.trace.iter().map(|trace| format!("      waveform: {trace}")));
    }
    print(&lines);
}

fn difference_lines(difference: &Difference) -> Vec<String> {
    let Difference { place, request, expected, got, walk, .. } = difference;
    let mut lines = vec![
        format!("      first difference: {place}"),
        format!("        request:  {request}"),
        format!("        expected: {expected}"),
        format!("        got:      {got}"),
    ];
    if !walk.is_empty() {
        lines.push("        the walk, as the golden model makes it:".into());
    }
    lines.extend(walk.iter().map(|step| format!("          {step}")));
    lines
}

fn explain(args: &ExplainArgs) -> Result<u8, Refusal> {
    let narrow = |name: &str, value: u64| {
        u32::try_from(value).map_err(|_| Refusal::unusable(format!("--{name} {value:#x}: legal are 32 bits")))
    };
    let (key, length) = (narrow("key", args.key)?, narrow("length", args.length)?);
    let suite = Suite::load(std::slice::from_ref(&args.file)).map_err(Refusal::unusable)?;
    for (vector, tables) in suite.vectors() {
        let region = vector.mrs.iter().find(|region| region.live && region.key == Some(Hex32(key)));
        let pd = match args.pd {
            Some(pd) => narrow("pd", pd)?,
            None => region.map_or(0, |region| region.pd),
        };
        let operation = args.op.code();
        let request = Request { tag: 0, function: 0, operation, key, pd, qpn: 0, va: args.va, length };
        let region = region.map_or("no live region has this key".into(), |region| format!("region `{}`", region.name));
        let mut lines = vec![format!("{} ({region})", keywalk_verify::run::request_text(&request))];
        let (response, steps) = Golden::new(tables, Controls::default()).explain(&request);
        lines.extend(steps.lines().into_iter().map(|step| format!("  {step}")));
        let answer = match response.failure {
            Some(failure) => format!("answer: {failure}, wire class {}", failure.status.wire_class(operation).name()),
            None => format!("answer: ok, {} segments", response.segments.len()),
        };
        lines.push(answer);
        let segment = |part: &keywalk_model::Segment| format!("  pa {:#x}, {} bytes", part.pa, part.length_bytes);
        lines.extend(response.segments.iter().take(100).map(segment));
        print(&lines);
    }
    Ok(PASSED)
}
