//! Every crossing of the shell with its timing constraint, and the XDC files that say so.
//!
//! One file per module that has two clocks, to be read with `read_xdc -ref <module>`, so that it holds for every
//! instance and names nothing outside. `keywalk_shell.tcl` reads them all.

use crate::config::ShellConfig;
use crate::top::{TOP, queues};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pointer in Gray code: its bits arrive within a period of either clock of each other.
    Gray,
    /// One bit that the handshake of the link or a level needs in time.
    Level,
    /// The words of a queue's memory, which have stood still since the pointer that announces them left.
    Words,
    /// A reset at the clear inputs of a catcher: no time is asked for.
    Reset,
}

/// A crossing within a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The module.
    pub module: String,
    /// What crosses.
    pub kind: Kind,
    /// The register that it comes from, or the memory; the port of a reset.
    pub from: &'static str,
    /// The register that it goes to.
    pub to: &'static str,
    /// Port with the clock that it comes from.
    pub from_clock: &'static str,
    /// Port with the clock that it goes to.
    pub to_clock: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

/// Crossings of the modules of a shell.
#[must_use]
pub fn crossings(config: &ShellConfig) -> Vec<Crossing> {
    let mut list = Vec::new();
    let mut add = |module: &str, kind, from, to, clocks: (&'static str, &'static str), doc| {
        let (from_clock, to_clock) = clocks;
        list.push(Crossing { module: module.into(), kind, from, to, from_clock, to_clock, doc });
    };
    let modules: BTreeSet<String> = queues(config).iter().map(|queue| queue.module()).collect();
    let (write, read) = ("write_clock", "read_clock");
    for module in &modules {
        let word = "memory_read_data";
        add(module, Kind::Gray, "write_gray_q", "write_gray_at_read_stage_0", (write, read), "words written");
        add(module, Kind::Gray, "read_gray_q", "read_gray_at_write_stage_0", (read, write), "words read");
        add(module, Kind::Words, "memory_mem", word, (write, read), "a word");
    }
    let (engine, pcie) = ("engine_clock", "pcie_clock");
    let link = "reset_link";
    add(link, Kind::Level, "run_q", "run_at_pcie_stage_0", (engine, pcie), "the PCIe side may work");
    add(link, Kind::Level, "ack_q", "ack_at_engine_stage_0", (pcie, engine), "the PCIe side is stopped and empty");
    add(link, Kind::Level, "wish_q", "wish_at_engine_stage_0", (pcie, engine), "the PCIe side was reset");
    add(link, Kind::Reset, "engine_reset_n", "engine_reset", (engine, engine), "reset of the engine's side");
    add(link, Kind::Reset, "pcie_reset_n", "pcie_reset", (pcie, pcie), "reset of the PCIe IP");
    let clocks = ("from_clock", "to_clock");
    add("level_crossing", Kind::Level, "level_q", "level_at_other_stage_0", clocks, "the interrupt");
    list
}

/// A register as Vivado names it, all its bits.
fn cells(register: &str) -> String {
    format!("{register}_reg*")
}

/// Name and text of every constraint file, without headers.
#[must_use]
pub fn files(config: &ShellConfig) -> Vec<(String, String)> {
    let crossings = crossings(config);
    let modules: BTreeSet<&str> = crossings.iter().map(|crossing| crossing.module.as_str()).collect();
    let mut files: Vec<(String, String)> = modules
        .iter()
        .map(|module| {
            let of_module: Vec<_> = crossings.iter().filter(|crossing| crossing.module == **module).collect();
            (format!("{module}.xdc"), module_text(&of_module))
        })
        .collect();
    let mut script = String::from("set here [file dirname [file normalize [info script]]]\n");
    for module in modules {
        let _ = writeln!(script, "read_xdc -ref {module} [file join $here {module}.xdc]");
    }
    files.push((format!("{TOP}.tcl"), script));
    files
}

fn module_text(crossings: &[&Crossing]) -> String {
    let mut text = String::new();
    let clocks: BTreeSet<&str> = crossings
        .iter()
        .filter(|crossing| crossing.kind != Kind::Reset)
        .flat_map(|crossing| [crossing.from_clock, crossing.to_clock])
        .collect();
    for clock in &clocks {
        let _ = writeln!(text, "set {clock} [get_clocks -of_objects [get_ports {clock}]]");
        let _ = writeln!(text, "set {clock}_period [get_property -min PERIOD ${clock}]");
    }
    for Crossing { kind, from, to, from_clock, to_clock, doc, .. } in crossings {
        let _ = writeln!(text, "# {doc}");
        let source = format!("[get_cells {}]", cells(from));
        let target = format!("[get_cells {}]", cells(to));
        let _ = match kind {
            Kind::Gray => writeln!(
                text,
                "set_max_delay -datapath_only -from {source} -to {target} ${from_clock}_period\n\
                 set_bus_skew -from {source} -to {target} [expr {{min(${from_clock}_period, ${to_clock}_period)}}]"
            ),
            Kind::Level => {
                writeln!(text, "set_max_delay -datapath_only -from {source} -to {target} ${from_clock}_period")
            }
            // A memory of LUTs is many cells with names of the tool's own, so its clock stands for them.
            Kind::Words => {
                writeln!(text, "set_max_delay -datapath_only -from ${from_clock} -to {target} ${to_clock}_period")
            }
            Kind::Reset => writeln!(text, "set_false_path -to [get_pins {to}_stage_*_reg*/CLR]"),
        };
    }
    text
}
