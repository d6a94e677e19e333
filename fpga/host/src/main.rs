//! The command `keywalk-host`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use keywalk_host::pci::{self, Ids, PciDevice};
use keywalk_host::probe::{FAULTS_MAX, Fault};
use keywalk_host::self_test::{self, Report};
use keywalk_host::sysfs::SysfsCard;
use keywalk_host::vfio::VfioCard;
use keywalk_host::{BAR_BYTES, Card, Error, Host};
use serde::Serialize;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and whatever was tested passed
  1  something failed, or the card did what it must not
  2  wrong usage
  3  no card, no rights, another bitstream, or a machine that is not set up for it";

const EXAMPLES: &str = "\
Examples:
  keywalk-host list                          # which cards there are, and what has them
  sudo keywalk-host info                     # is it a Keywalk, which version, is it ready
  sudo keywalk-host self-test                # tables, accesses, refusals, deregistration
  sudo keywalk-host --device 65:00.0 counters
  sudo keywalk-host faults --watch --json
  keywalk-host --simulate self-test          # the same on a simulated card; built with --features simulate

How a card comes to this point: docs/bring-up.md.";

/// Speaks to a Keywalk card: finds it, tests it, reads its counters and events.
///
/// A card without a driver is used through sysfs, which needs root and a machine whose IOMMU does not translate its addresses. A
/// card that is bound to vfio-pci is used through VFIO, which needs access to its group in /dev/vfio.
///
/// So far no card has been tested with it, only the simulated one.
#[derive(Parser)]
#[command(name = "keywalk-host", version, after_help = EXIT_CODES, after_long_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Command {
    #[command(subcommand)]
    action: Action,
    /// Prints JSON: one value; of faults one on a line for each event.
    #[arg(long, global = true)]
    json: bool,
    /// The card at this PCI address, where there are several: 0000:65:00.0 or 65:00.0.
    #[arg(long, global = true, value_name = "ADDRESS")]
    device: Option<String>,
    /// Vendor and device of the cards, four hexadecimal digits each.
    #[arg(long, global = true, value_name = "VENDOR:DEVICE", default_value_t = Ids::CARD)]
    id: Ids,
    /// Where sysfs is.
    #[arg(long, global = true, value_name = "DIR", default_value = pci::SYSFS)]
    sysfs: PathBuf,
    /// A simulated card instead of one in a slot.
    #[arg(long, global = true)]
    simulate: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Lists the cards: address, driver, IOMMU, size of BAR 0. Needs no rights, and touches none of them.
    #[command(after_help = EXIT_CODES)]
    List,
    /// Says what a card is: versions of engine and probe, whether it is ready.
    #[command(after_help = EXIT_CODES)]
    Info,
    /// Tests a card by itself: tables and page tables of 0 to 3 hops, writes, reads and atomics, every kind of refusal,
    /// deregistration, fast registration, counters and events. Memory is compared after every request. Nothing else may use
    /// the card meanwhile; its tables are gone afterwards.
    #[command(after_help = EXIT_CODES)]
    SelfTest {
        /// Decides where tables lie and what data is.
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        seed: u64,
    },
    /// Prints the counters.
    #[command(after_help = EXIT_CODES)]
    Counters {
        /// Counters of arrays that are 0, too.
        #[arg(long)]
        all: bool,
    },
    /// Prints and takes the events that wait: table errors of requests, and of commands (as context lookups with tag 0).
    #[command(after_help = EXIT_CODES)]
    Faults {
        /// Goes on until it is stopped.
        #[arg(long)]
        watch: bool,
        /// With --watch: ends after so many seconds.
        #[arg(long, value_name = "SECONDS", requires = "watch")]
        seconds: Option<u64>,
    },
    /// Reads a register of 32 bits.
    #[command(after_help = EXIT_CODES)]
    Read {
        /// Offset in BAR 0, a multiple of 4, decimal or with 0x: the engine's registers from 0, the probe's from 0x4000.
        #[arg(value_parser = offset)]
        offset: u32,
    },
    /// Writes a register of 32 bits. It is carried out as it is: whoever writes knows the register map.
    #[command(after_help = EXIT_CODES)]
    Write {
        /// Offset in BAR 0, as for read.
        #[arg(value_parser = offset)]
        offset: u32,
        /// Value, decimal or with 0x.
        #[arg(value_parser = value)]
        value: u32,
    },
}

/// A number of 32 bits, decimal or with 0x.
fn value(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    number.map_err(|_| "legal is a number from 0 to 2^32 - 1, decimal or with 0x".into())
}

fn offset(text: &str) -> Result<u32, String> {
    let offset = value(text)?;
    let is_legal = offset.is_multiple_of(4) && u64::from(offset) < BAR_BYTES;
    if is_legal { Ok(offset) } else { Err(format!("legal are multiples of 4 below {BAR_BYTES:#x}")) }
}

/// Why a command ended.
enum Failure {
    /// An error.
    Error(Error),
    /// What it tested failed; it has said so.
    Tested,
    /// Arguments that contradict each other.
    Usage(&'static str),
    /// The output cannot be written.
    Output(std::io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

impl Command {
    fn devices(&self) -> Result<Vec<PciDevice>, Error> {
        pci::find(&self.sysfs, self.id)
    }

    /// Opens the card that is meant.
    fn open(&self, seed: u64) -> Result<Box<dyn Card>, Error> {
        if self.simulate {
            return simulated(seed);
        }
        let device = pci::choose(self.devices()?, self.device.as_deref())?;
        Ok(match device.driver.as_deref() {
            Some("vfio-pci") => Box::new(VfioCard::open(&device)?),
            _ => Box::new(SysfsCard::open(&device)?),
        })
    }
}

#[cfg(feature = "simulate")]
fn simulated(seed: u64) -> Result<Box<dyn Card>, Error> {
    Ok(Box::new(keywalk_host::simulate::SimulatedCard::new(seed)?))
}

#[cfg(not(feature = "simulate"))]
fn simulated(_: u64) -> Result<Box<dyn Card>, Error> {
    Err(Error::Setup {
        what: "this build has no simulated card".into(),
        advice: "build it with --features simulate".into(),
    })
}

/// Prints a line.
fn line(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{text}")
}

fn print_json(value: &impl Serialize) -> std::io::Result<()> {
    line(&serde_json::to_string_pretty(value).map_err(std::io::Error::other)?)
}

/// A table with a header and without frames.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.to_vec());
    table
}

fn list(command: &Command) -> Result<(), Failure> {
    let devices = command.devices()?;
    if command.json {
        return Ok(print_json(&devices)?);
    }
    let mut table = table(&["address", "identifiers", "driver", "IOMMU", "BAR 0"]);
    for device in devices {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".into());
        let bar = format!("{} KiB", device.bar0_bytes / 1024);
        table.add_row([device.address, device.ids.to_string(), or_none(device.driver), or_none(device.iommu), bar]);
    }
    Ok(line(&table.to_string())?)
}

fn info(command: &Command) -> Result<(), Failure> {
    let mut card = command.open(1)?;
    let name = card.name();
    let identity = Host::new(&mut *card).identify()?;
    if command.json {
        return Ok(print_json(&serde_json::json!({ "card": name, "identity": identity }))?);
    }
    let version = |(major, minor): (u16, u16)| format!("{major}.{minor}");
    let yes = |flag| if flag { "yes" } else { "no" };
    line(&format!("{:<20}{name}", "card"))?;
    line(&format!("{:<20}{}", "register map", version(identity.version)))?;
    line(&format!("{:<20}{}", "ready", yes(identity.is_ready)))?;
    line(&format!("{:<20}{}", "idle", yes(identity.is_idle)))?;
    line(&format!("{:<20}{} bytes", "longest in hold mode", identity.hold_bytes_max))?;
    let probe = identity.probe.map(|probe| {
        let work = if probe.has_work { "with" } else { "without" };
        format!("{}, {} bytes, {work} work requests", version(probe.version), probe.buffer_bytes)
    });
    Ok(line(&format!("{:<20}{}", "probe", probe.unwrap_or_else(|| "none".into())))?)
}

fn self_test(command: &Command, seed: u64) -> Result<(), Failure> {
    let mut card = command.open(seed)?;
    let name = card.name();
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {pos} checks, {elapsed}: {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let report = self_test::run(&mut Host::new(&mut *card), seed, &mut |check| {
        bar.inc(1);
        bar.set_message(check.name.clone());
    });
    bar.finish_and_clear();
    let report: Report = report?;
    outcome(report.failed(), print_report(command.json, &name, &report))
}

/// How a test ends of whose checks some failed, when its report was printed, or could not be.
fn outcome(failed: usize, printed: std::io::Result<()>) -> Result<(), Failure> {
    match printed {
        // What failed has failed, whoever reads of it.
        Err(error) if failed > 0 && error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::Tested),
        Err(error) => Err(error.into()),
        Ok(()) if failed > 0 => Err(Failure::Tested),
        Ok(()) => Ok(()),
    }
}

fn print_report(is_json: bool, name: &str, report: &Report) -> std::io::Result<()> {
    let failed = report.failed();
    let passed = report.checks.len() - failed;
    if is_json {
        return print_json(&serde_json::json!({ "card": name, "passed": passed, "failed": failed, "report": report }));
    }
    for check in &report.checks {
        if let Some(failure) = &check.failure {
            line(&format!("FAILED {}: {failure}", check.name))?;
        }
    }
    for figure in &report.figures {
        line(&format!("{:<28}{} clock cycles", figure.name, figure.cycles))?;
    }
    line(&format!("{name}: {passed} passed, {failed} failed"))
}

fn counters(command: &Command, all: bool) -> Result<(), Failure> {
    let mut card = command.open(1)?;
    let mut host = Host::new(&mut *card);
    host.identify()?;
    let counters = host.counters(all)?;
    if command.json {
        let values = counters.into_iter().map(|counter| (counter.name, counter.value.into()));
        return Ok(print_json(&serde_json::Value::Object(values.collect()))?);
    }
    for counter in counters {
        line(&format!("{:<32}{}", counter.name, counter.value))?;
    }
    Ok(())
}

fn print_fault(command: &Command, fault: &Fault) -> Result<(), Failure> {
    if command.json {
        return Ok(line(&serde_json::to_string(fault).map_err(std::io::Error::other)?)?);
    }
    let port = if fault.is_context { "context lookup" } else { "request" };
    Ok(line(&format!(
        "{port} {:#x} of function {}: {} in table {}, read {}; index {:#x}, VA {:#x}",
        fault.tag, fault.function, fault.status, fault.table, fault.hop, fault.index, fault.va
    ))?)
}

fn faults(command: &Command, watch: bool, seconds: Option<u64>) -> Result<(), Failure> {
    let mut card = command.open(1)?;
    let mut host = Host::new(&mut *card);
    if host.identify()?.probe.is_none() {
        return Err(Error::Foreign { what: "there is no probe, which events are read from".into() }.into());
    }
    // An end that the clock does not reach is none.
    let end = seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    let mut taken = 0;
    loop {
        while let Some(fault) = host.take_fault()? {
            print_fault(command, &fault)?;
            taken += 1;
            if is_over() {
                return Ok(());
            }
            if !watch && taken == FAULTS_MAX {
                let what = format!("{taken} events came, more than can wait, and there may be more");
                return Err(Error::Wrong(format!(
                    "{what}: requests fail as fast as this reads, or the probe does not let an event go; --watch goes on"
                ))
                .into());
            }
        }
        if !watch || is_over() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    let names_a_slot = command.device.is_some() || command.sysfs != Path::new(pci::SYSFS) || command.id != Ids::CARD;
    if command.simulate && (names_a_slot || matches!(command.action, Action::List)) {
        return Err(Failure::Usage(
            "a simulated card is in no slot: --simulate goes without --device, --id, --sysfs and list",
        ));
    }
    match command.action {
        Action::List => list(command),
        Action::Info => info(command),
        Action::SelfTest { seed } => self_test(command, seed),
        Action::Counters { all } => counters(command, all),
        Action::Faults { watch, seconds } => faults(command, watch, seconds),
        Action::Read { offset } => {
            let value = command.open(1)?.read(offset)?;
            if command.json {
                return Ok(print_json(&serde_json::json!({ "offset": offset, "value": value }))?);
            }
            Ok(line(&format!("{value:#010x}"))?)
        }
        Action::Write { offset, value } => {
            command.open(1)?.write(offset, value)?;
            if command.json {
                print_json(&serde_json::json!({ "offset": offset, "value": value }))?;
            }
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    let command = Command::parse();
    let (message, code) = match run(&command) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Tested) => return ExitCode::from(1),
        Err(Failure::Usage(what)) => (what.into(), 2),
        // A reader that went away has seen what it wanted.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => (format!("the output cannot be written: {error}"), 1),
        Err(Failure::Error(error)) => (error.to_string(), error.exit_code()),
    };
    // Where nobody reads the message, the exit code remains.
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_has_failed_without_a_reader() {
        let broken = || Err(std::io::ErrorKind::BrokenPipe.into());
        let full = || Err(std::io::ErrorKind::StorageFull.into());
        assert!(outcome(0, Ok(())).is_ok());
        assert!(matches!(outcome(1, Ok(())), Err(Failure::Tested)));
        assert!(matches!(outcome(1, broken()), Err(Failure::Tested)));
        assert!(matches!(outcome(0, broken()), Err(Failure::Output(_))));
        assert!(matches!(outcome(1, full()), Err(Failure::Output(_))));
    }
}
