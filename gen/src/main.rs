//! The command `keywalk-gen`: configuration in, Verilog, manifest and register documents out.

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use keywalk_contract::Config;
use keywalk_fpga::config::ShellConfig;
use keywalk_gen::card::{self, CardConfig};
use keywalk_gen::config_file::{self, LoadError, legal};
use keywalk_gen::package::File;
use keywalk_gen::presets::{self, PRESETS};
use keywalk_gen::shell::{self, ShellError};
use keywalk_gen::{GenerateError, Output, directory, manifest, package};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  a file cannot be read or written; other files in the output directory are untouched
  2  wrong arguments or an illegal configuration; nothing is written";

/// Generates the Verilog of a Keywalk engine. Without a subcommand: `rtl` with the default configuration.
#[derive(Parser)]
#[command(name = "keywalk-gen", version, after_help = EXIT_CODES)]
struct Command {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Writes one Verilog file per module, keywalk.f and keywalk_mover.f, manifest.json, registers.md, keywalk_regs.h and
    /// keywalk_regs.rs.
    #[command(after_help = EXIT_CODES, after_long_help = rtl_long_help())]
    Rtl(Rtl),
    /// Writes registers.md, keywalk_regs.h and keywalk_regs.rs, which are the same for every configuration, and card.md, the
    /// block diagram, crossings and resets of the card of the preset `card`.
    #[command(after_help = EXIT_CODES)]
    Docs {
        /// Directory to write into; made where it does not exist.
        #[arg(long, value_name = "DIR", default_value = "build/docs")]
        out: PathBuf,
    },
    /// Writes the shell between the engine and a card's PCIe IP: Verilog, constraints, waivers, manifest.json, shell.md.
    #[command(after_help = EXIT_CODES)]
    Shell(ShellArguments),
    /// Writes engine, data mover and shell as one top module, for a card: Verilog, constraints, waivers, manifest.json, card.md.
    #[command(after_help = EXIT_CODES)]
    Card(CardArguments),
    /// Checks a configuration file and writes nothing.
    #[command(after_help = EXIT_CODES)]
    Check {
        /// The file, .toml or .json.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Lists the presets and how they differ from the default.
    Presets,
    /// Lists the fields of a configuration with legal values, defaults and meanings.
    Fields,
}

#[derive(Args)]
struct Rtl {
    #[command(flatten)]
    source: Source,
    /// Directory to write into; made where it does not exist. Files of others in it are kept.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_OUT)]
    out: PathBuf,
}

const DEFAULT_OUT: &str = "build/rtl";

#[derive(Args)]
struct ShellArguments {
    /// Bits of data of the engine's memory port: 128, 256 or 512.
    #[arg(long, value_name = "BITS", default_value_t = ShellConfig::default().engine_data_bits)]
    engine_data_bits: u32,
    /// Bits of data of the PCIe IP's ports: 256 or 512.
    #[arg(long, value_name = "BITS", default_value_t = ShellConfig::default().pcie_data_bits)]
    pcie_data_bits: u32,
    /// Stages of every synchroniser: 2 to 4.
    #[arg(long, value_name = "NUMBER", default_value_t = ShellConfig::default().stages)]
    stages: u32,
    /// An interrupt that is pending for 2 to this power cycles of the PCIe clock is sent again: 8 to 32.
    #[arg(long, value_name = "NUMBER", default_value_t = ShellConfig::default().interrupt_repeat_log2)]
    interrupt_repeat_log2: u32,
    /// Directory to write into; made where it does not exist. Files of others in it are kept.
    #[arg(long, value_name = "DIR", default_value = "build/shell")]
    out: PathBuf,
}

#[derive(Args)]
struct CardArguments {
    #[command(flatten)]
    source: Source,
    /// Bits of data of the PCIe IP's ports: 256 or 512, and not more than the data mover has.
    #[arg(long, value_name = "BITS", default_value_t = ShellConfig::default().pcie_data_bits)]
    pcie_data_bits: u32,
    /// Stages of every synchroniser: 2 to 4.
    #[arg(long, value_name = "NUMBER", default_value_t = ShellConfig::default().stages)]
    stages: u32,
    /// An interrupt that is pending for 2 to this power cycles of the PCIe clock is sent again: 8 to 32.
    #[arg(long, value_name = "NUMBER", default_value_t = ShellConfig::default().interrupt_repeat_log2)]
    interrupt_repeat_log2: u32,
    /// Directory to write into; made where it does not exist. Files of others in it are kept.
    #[arg(long, value_name = "DIR", default_value = "build/card")]
    out: PathBuf,
}

#[derive(Args, Default)]
#[group(multiple = false)]
struct Source {
    /// A named configuration; `keywalk-gen presets` lists them.
    #[arg(long, value_name = "NAME", value_parser = preset_name)]
    preset: Option<Config>,
    /// A configuration file, .toml or .json; fields that it leaves out take the default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Source {
    /// The configuration, where one was chosen.
    fn config(self) -> anyhow::Result<Option<Config>> {
        match (self.preset, self.config) {
            (Some(config), _) => Ok(Some(config)),
            (None, Some(path)) => load(&path).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// Reads the name of a preset.
fn preset_name(name: &str) -> Result<Config, String> {
    let names = PRESETS.map(|preset| preset.name).join(", ");
    presets::find(name).map(presets::Preset::config).ok_or_else(|| format!("legal are {names}"))
}

/// An error that is the caller's, exit code 2.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Illegal(anyhow::Error);

fn load(path: &Path) -> anyhow::Result<Config> {
    config_file::load(path).map_err(|error| match error {
        LoadError::Read { .. } => error.into(),
        LoadError::Extension { .. } | LoadError::Content { .. } => Illegal(error.into()).into(),
    })
}

fn rtl(arguments: Rtl) -> anyhow::Result<String> {
    let start = Instant::now();
    let config = arguments.source.config()?.unwrap_or_default();
    let output = keywalk_gen::generate(&config).map_err(|error| match error {
        GenerateError::Config(_) | GenerateError::Name(_) => Illegal(error.into()).into(),
        GenerateError::Canonicalise { .. } => {
            anyhow::Error::from(error).context("this is a fault of keywalk-gen, please report it")
        }
    })?;
    let files = package::engine(&output);
    directory::install(&arguments.out, &files)?;
    let summary = summary(&output, &files, &arguments.out);
    Ok(format!("{summary}{:<16}{:.2} s\n", "time", start.elapsed().as_secs_f64()))
}

fn shell(arguments: &ShellArguments) -> anyhow::Result<String> {
    let config = ShellConfig {
        engine_data_bits: arguments.engine_data_bits,
        pcie_data_bits: arguments.pcie_data_bits,
        stages: arguments.stages,
        interrupt_repeat_log2: arguments.interrupt_repeat_log2,
    };
    let shell = shell::generate(&config).map_err(|error| match error {
        ShellError::Config(_) => Illegal(error.into()).into(),
        ShellError::Emit(_) | ShellError::Generate(_) => {
            anyhow::Error::from(error).context("this is a fault of keywalk-gen, please report it")
        }
    })?;
    let files = shell.package();
    directory::install(&arguments.out, &files)?;
    Ok(written(keywalk_fpga::top::TOP, &arguments.out, &files, &shell.verilog))
}

fn card(arguments: CardArguments) -> anyhow::Result<String> {
    let preset = || presets::find("card").expect("it comes with the generator").config();
    let config = CardConfig {
        engine: arguments.source.config()?.unwrap_or_else(preset),
        pcie_data_bits: arguments.pcie_data_bits,
        stages: arguments.stages,
        interrupt_repeat_log2: arguments.interrupt_repeat_log2,
    };
    let card = card::generate(&config).map_err(|error| {
        if error.is_illegal_configuration() {
            Illegal(error.into()).into()
        } else {
            anyhow::Error::from(error).context("this is a fault of keywalk-gen, please report it")
        }
    })?;
    let files = card.package();
    directory::install(&arguments.out, &files)?;
    Ok(written(card::TOP, &arguments.out, &files, &card.verilog))
}

/// What was written, a line per fact.
fn written(top: &str, out: &Path, files: &[File], verilog: &[File]) -> String {
    let lines = verilog.iter().map(|(_, text)| text.lines().count() as u64).sum();
    format!(
        "{:<16}{}\n{:<16}{}\n{:<16}{}\n{:<16}{}\n{:<16}{}\n",
        "top module",
        top,
        "directory",
        out.display(),
        "files",
        files.len(),
        "modules",
        verilog.len(),
        "lines",
        grouped(lines)
    )
}

/// A number with its thousands set apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// What was written, a line per fact.
fn summary(output: &Output, files: &[File], out: &Path) -> String {
    let mut lines = vec![
        ("configuration", output.config.name.clone()),
        ("top module", output.top.clone()),
        ("directory", out.display().to_string()),
        ("files", files.len().to_string()),
        ("modules", output.modules.len().to_string()),
        ("lines", grouped(output.files.iter().map(|(_, text)| text.lines().count() as u64).sum())),
    ];
    let instances = output.instance_modules();
    lines.push(("register bits", grouped(instances.iter().map(|module| u64::from(module.register_bits)).sum())));
    let mut memory_bits: BTreeMap<&str, u64> = BTreeMap::new();
    for memory in instances.iter().flat_map(|module| &module.memories) {
        *memory_bits.entry(memory.style.unwrap_or("any")).or_default() += memory.bits();
    }
    let memory_bits = memory_bits.iter().map(|(style, bits)| format!("{} {style}", grouped(*bits)));
    lines.push(("memory bits", memory_bits.collect::<Vec<_>>().join(", ")));
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<16}{value}");
        text
    })
}

fn docs(out: &Path) -> anyhow::Result<String> {
    let files = package::documents();
    directory::install(out, &files)?;
    let written = files.iter().filter(|(name, _)| name != manifest::FILE);
    Ok(written.map(|(name, _)| format!("{}\n", out.join(name).display())).collect())
}

/// The fields in which a configuration differs from the default: name and value.
fn differences(config: &Config) -> Vec<(&'static str, String)> {
    let default = Config::default();
    let numbers = Config::FIELDS.iter().filter(|field| (field.get)(config) != (field.get)(&default));
    let mut list: Vec<_> = numbers.map(|field| (field.name, (field.get)(config).to_string())).collect();
    let switches = Config::SWITCHES.iter().filter(|switch| (switch.get)(config) != switch.default);
    list.extend(switches.map(|switch| (switch.name, (switch.get)(config).to_string())));
    list
}

fn list_presets() -> String {
    let mut text = String::new();
    for preset in PRESETS {
        let _ = writeln!(text, "{}\n    {}", preset.name, preset.doc());
        for (field, value) in differences(&preset.config()) {
            let _ = writeln!(text, "    {field} = {value}");
        }
    }
    text
}

fn list_fields() -> String {
    let default = Config::default();
    let mut text = String::new();
    let mut add = |name: &str, legal: &str, default: &str, doc: &str| {
        let _ = writeln!(text, "  {name}\n      {}\n      legal: {legal}; default: {default}", doc.trim());
    };
    add("name", config_file::NAME_LEGAL, &format!("{:?}", default.name), "Name, for the manifest and file headers.");
    for field in Config::FIELDS {
        add(field.name, &legal(field), &field.default.to_string(), field.doc);
    }
    for switch in Config::SWITCHES {
        add(switch.name, config_file::SWITCH_LEGAL, &switch.default.to_string(), switch.doc);
    }
    text
}

fn rtl_long_help() -> String {
    format!("{EXIT_CODES}\n\nConfiguration fields:\n{}", list_fields())
}

fn run(command: Command) -> anyhow::Result<String> {
    match command.action {
        None => rtl(Rtl { source: Source::default(), out: DEFAULT_OUT.into() }),
        Some(Action::Rtl(arguments)) => rtl(arguments),
        Some(Action::Docs { out }) => docs(&out),
        Some(Action::Shell(arguments)) => shell(&arguments),
        Some(Action::Card(arguments)) => card(arguments),
        Some(Action::Check { config }) => {
            let name = load(&config)?.name;
            Ok(format!("{}: configuration `{name}` is legal\n", config.display()))
        }
        Some(Action::Presets) => Ok(list_presets()),
        Some(Action::Fields) => Ok(list_fields()),
    }
}

/// Prints a result.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What has come of printing. A reader that went away has seen what it wanted.
fn printed(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output cannot be written"),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    let (code, result) = match Command::try_parse() {
        Ok(command) => (0, run(command).and_then(|text| print(&text))),
        // Help and version are no errors, and go to standard output.
        Err(message) => {
            let result = message.print().or_else(|error| if message.use_stderr() { Ok(()) } else { Err(error) });
            (message.exit_code() as u8, printed(result))
        }
    };
    match result {
        Ok(()) => ExitCode::from(code),
        Err(error) => {
            // Where nobody reads the message, the exit code remains.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(if error.is::<Illegal>() { 2 } else { 1 })
        }
    }
}
