//! Turns the Verilog that kaze prints into the Verilog that the project publishes.
//!
//! `kaze::verilog::generate` prints the same module in a different order from run to run (it iterates over hash maps),
//! resets asynchronously, knows no attributes, and repeats the whole cone of a shared signal unless that signal is also
//! an output. The hardware layer therefore exposes every operator as an extra output port, and this module removes
//! those ports again:
//!
//! | kaze prints | the result has |
//! | --- | --- |
//! | output `N000123n_some_name` | wire `some_name` |
//! | output `N000123u_add` | nothing where the expression is read once, wire `add_1` otherwise |
//! | memory `lines__block`, `__ultra`, `__distributed` | memory `lines` with `(* ram_style = "block" *)` |
//! | register `__reg_state_7` and its `__reg_state_7_next` | register `state` and wire `state_next` |
//! | `always @(posedge clk, negedge reset_n)` | `always @(posedge clk)` with a synchronous reset |
//! | `__engine_output_valid`, or `x__module__engine__valid`, of an instance `engine` | wire `engine_valid` |
//! | `w__name`, a wire read before it is driven | wire `name` |
//! | temporaries, aliases, dead and repeated expressions | nothing |
//!
//! A name that is taken gets the suffix `_2`, `_3` and so on. Bits that nothing reads are collected in one wire
//! `_unused_ok`, so that Verilator's lint stays silent without waivers. The text depends on the design alone: neither
//! on the order of kaze's declarations nor on its numbers.
//!
//! The three steps are one file each: the parser accepts exactly the subset of Verilog that kaze prints, elaboration
//! builds a hash-consed graph and checks every width, the writer chooses wires and names. Where the depth depends on
//! the design, all of them iterate rather than recurse.

mod elaborate;
mod graph;
mod lexer;
mod names;
mod parser;
mod writer;

use graph::{Graph, NodeId};
use names::Names;
use std::collections::BTreeMap;

/// Why a text was refused: not what kaze prints, or a design that has no faithful Verilog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Error {
    /// Line of kaze's text, counted from 1.
    pub line: usize,
    /// What was wrong, what is legal, and what to do.
    pub message: String,
}

impl Error {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// What the caller adds to the text of a module.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Comment at the top of the file, one or more lines without comment signs; empty for none.
    pub header: &'a str,
    /// Comment behind the declaration of a port, by the name of the port. A port without an entry has no comment;
    /// entries without a port are ignored.
    pub port_comments: &'a BTreeMap<String, String>,
}

/// A port of the module, `clk` and `reset_n` excepted: every module has these two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name of the port.
    pub name: String,
    /// Width in bits, 1 to 128.
    pub width_bits: u32,
}

/// A register of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name in the published Verilog.
    pub name: String,
    /// Width in bits, 1 to 128.
    pub width_bits: u32,
    /// Value that the synchronous reset gives; `None` where the register has no reset.
    pub reset_value: Option<u128>,
    next: NodeId,
    signal: usize,
}

/// The kind of memory that synthesis is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RamStyle {
    /// Block RAM, suffix `__block`.
    Block,
    /// UltraRAM, suffix `__ultra`.
    Ultra,
    /// LUT RAM, suffix `__distributed`.
    Distributed,
}

impl RamStyle {
    /// The value of the `ram_style` attribute.
    pub fn attribute(self) -> &'static str {
        match self {
            RamStyle::Block => "block",
            RamStyle::Ultra => "ultra",
            RamStyle::Distributed => "distributed",
        }
    }
}

/// A memory of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Name in the published Verilog, without the suffix that chose the style.
    pub name: String,
    /// Number of words, a power of two.
    pub words: u64,
    /// Width of a word in bits, 1 to 128.
    pub width_bits: u32,
    /// The attribute on the declaration; `None` leaves the choice to synthesis.
    pub style: Option<RamStyle>,
    /// Number of read ports.
    pub read_ports: usize,
    /// Whether the memory has its write port; without it, it is a ROM.
    pub writable: bool,
    /// Values of all words at start, empty where the memory starts undefined.
    pub initial_contents: Vec<u128>,
    reads: Vec<Read>,
    write: Option<Write>,
}

/// An instance of another module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name of the instance.
    pub name: String,
    /// Name of the module that is instantiated.
    pub module: String,
    inputs: Vec<(String, NodeId)>,
    outputs: Vec<(String, usize)>,
    line: usize,
}

/// A synchronous read port of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    index: u64,
    address: NodeId,
    enable: NodeId,
    signal: usize,
}

/// The write port of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    address: NodeId,
    value: NodeId,
    enable: NodeId,
}

/// Something that expressions read and that is no expression itself.
#[derive(Clone, Debug)]
struct Signal {
    /// The final name of an input or register; the wished name of anything else.
    name: String,
    width_bits: u32,
    kind: SignalKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalKind {
    Input,
    Register,
    MemoryRead,
    InstanceOutput,
}

/// An operator that the hardware layer exposed as an output port.
#[derive(Clone, Debug)]
struct Exposed {
    number: u64,
    named: bool,
    label: String,
    node: NodeId,
}

/// A module as kaze printed it, checked and in canonical order.
#[derive(Clone, Debug)]
pub struct Module {
    name: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    output_nodes: Vec<NodeId>,
    registers: Vec<Register>,
    memories: Vec<Memory>,
    instances: Vec<Instance>,
    exposed: Vec<Exposed>,
    signals: Vec<Signal>,
    graph: Graph,
    names: Names,
}

impl Module {
    /// Name of the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Inputs other than `clk` and `reset_n`, in order of name.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Outputs, in order of name. The exposed operators are no outputs any more.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Registers, in the order of kaze's names.
    pub fn registers(&self) -> &[Register] {
        &self.registers
    }

    /// Memories, in the order of kaze's names.
    pub fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// Instances, in order of name.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Compares the instances of `instantiated` with its ports, which one module's text alone does not tell, and
    /// connects the outputs that nothing reads, so that lint finds no missing port.
    ///
    /// # Errors
    /// Where an instance lacks an input, has a port that `instantiated` does not have, or has one of another width.
    pub fn link(&mut self, instantiated: &Module) -> Result<(), Error> {
        let width_bits =
            |ports: &[Port], name: &str| ports.iter().find(|port| port.name == name).map(|port| port.width_bits);
        for instance in self.instances.iter_mut().filter(|instance| instance.module == instantiated.name) {
            let error = |port: &str, problem: String| {
                Err(Error::new(instance.line, format!("port `{port}` of instance `{}` {problem}", instance.name)))
            };
            let inputs = instance.inputs.iter().map(|(port, node)| {
                (port, self.graph.width_bits(*node), width_bits(&instantiated.inputs, port), "input")
            });
            let outputs = instance.outputs.iter().map(|(port, signal)| {
                (port, self.signals[*signal].width_bits, width_bits(&instantiated.outputs, port), "output")
            });
            for (port, found, declared, direction) in inputs.chain(outputs) {
                match declared {
                    Some(declared) if declared == found => {}
                    Some(declared) => {
                        return error(port, format!("has {found} bits here and {declared} in its module"));
                    }
                    None => return error(port, format!("is no {direction} of module `{}`", instantiated.name)),
                }
            }
            let is_driven = |port: &&Port| instance.inputs.iter().any(|(driven, _)| *driven == port.name);
            if let Some(port) = instantiated.inputs.iter().find(|port| !is_driven(port)) {
                return error(&port.name, String::from("is an input, but nothing drives it"));
            }
            for port in &instantiated.outputs {
                if instance.outputs.iter().all(|(read, _)| *read != port.name) {
                    instance.outputs.push((port.name.clone(), self.signals.len()));
                    self.signals.push(Signal {
                        name: format!("{}_{}", instance.name, port.name),
                        width_bits: port.width_bits,
                        kind: SignalKind::InstanceOutput,
                    });
                }
            }
            instance.outputs.sort();
        }
        Ok(())
    }

    /// The published Verilog of the module.
    pub fn to_verilog(&self, options: &Options) -> String {
        writer::write(self, options)
    }
}

/// Reads one module as kaze prints it.
///
/// # Errors
/// Where the text is not what kaze 0.1.19 prints, where widths disagree, where two registers, memories or instances
/// share a name, where a port has a reserved name, and where kaze's text does not say what its author meant
/// (`shr_arithmetic`, bits of a literal).
pub fn parse(text: &str) -> Result<Module, Error> {
    elaborate::elaborate(&parser::parse(text)?)
}

/// Reads one module as kaze prints it and returns the Verilog to publish: [`parse`] and [`Module::to_verilog`].
///
/// # Errors
/// Those of [`parse`].
pub fn canonicalise(text: &str, options: &Options) -> Result<String, Error> {
    Ok(parse(text)?.to_verilog(options))
}
