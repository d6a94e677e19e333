//! Resolves the names of a parsed module, checks its widths, puts its parts in order and builds its graph.

use super::graph::{Binary, Graph, NodeId, WIDTH_BITS_MAX};
use super::names::Names;
use super::parser::{
    RawAssignment, RawExpression, RawInstance, RawMemory, RawModule, RawOperand, RawPort, RawRead, RawRegister,
};
use super::{Error, Exposed, Instance, Memory, Module, Port, RamStyle, Read, Register, Signal, SignalKind, Write};
use std::collections::HashMap;

/// What a name of kaze's text stands for.
#[derive(Clone, Copy)]
enum Meaning {
    /// A value that can be read.
    Value(NodeId),
    /// Something of this width in bits whose assignment has not been met yet.
    Unassigned(u32),
    /// An instance's output that is an exposed operator, which the canonical instance does not have.
    Removed,
}

/// An output port that the hardware layer added for an operator: number, whether it keeps its name, and the name.
type ExposedName<'a> = (u64, bool, &'a str);

/// What the names of wires begin with that the hardware layer reads before it drives them.
const FORWARD_PREFIX: &str = "w__";

/// The true outputs in order of name, and the exposed operators.
type OutputPorts<'r, 'a> = (Vec<&'r RawPort<'a>>, Vec<(ExposedName<'a>, &'r RawPort<'a>)>);

/// Checks the module and puts it in canonical order.
pub(super) fn elaborate(raw: &RawModule) -> Result<Module, Error> {
    let mut elaborator =
        Elaborator { meanings: HashMap::new(), graph: Graph::default(), signals: Vec::new(), names: Names::new() };
    let (outputs, exposed) = elaborator.ports(raw)?;
    for declaration in &raw.declarations {
        elaborator.declare(declaration.name, Meaning::Unassigned(declaration.width_bits), declaration.line)?;
    }
    // Whoever declares first keeps its name where names clash.
    let instances = elaborator.declare_instances(raw)?;
    let memories = elaborator.declare_memories(raw)?;
    let registers = elaborator.declare_registers(raw)?;
    for assignment in in_order_of_dependence(&raw.assignments)? {
        elaborator.assign(assignment.target, &assignment.expression, assignment.line)?;
    }

    let port = |port: &&RawPort| Port { name: port.name.to_owned(), width_bits: port.width_bits };
    let is_input = |port: &&RawPort| !port.output && !is_common(port.name);
    let mut inputs: Vec<Port> = raw.ports.iter().filter(is_input).map(|raw| port(&raw)).collect();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    let output_nodes: Vec<NodeId> =
        outputs.iter().map(|port| elaborator.read(port.name, port.line)).collect::<Result<_, _>>()?;
    let registers = elaborator.finish_registers(registers, &outputs, &output_nodes)?;
    let mut exposed = exposed
        .into_iter()
        .map(|((number, named, label), port)| {
            let node = elaborator.read(port.name, port.line)?;
            Ok(Exposed { number, named, label: label.to_owned(), node })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    for declaration in &raw.declarations {
        if let Some(label) = declaration.name.strip_prefix(FORWARD_PREFIX).filter(|label| !label.is_empty()) {
            let node = elaborator.read(declaration.name, declaration.line)?;
            exposed.push(Exposed { number: u64::MAX, named: true, label: label.to_owned(), node });
        }
    }
    exposed.sort_by(|a, b| (a.number, &a.label).cmp(&(b.number, &b.label)));
    Ok(Module {
        name: raw.name.to_owned(),
        inputs,
        outputs: outputs.iter().map(port).collect(),
        output_nodes,
        registers,
        memories: elaborator.finish_memories(memories)?,
        instances: elaborator.finish_instances(instances)?,
        exposed,
        signals: elaborator.signals,
        graph: elaborator.graph,
        names: elaborator.names,
    })
}

/// The assignments, each behind those of the names that it reads. Kaze prints them so; forward wires of the hardware
/// layer are read before.
fn in_order_of_dependence<'r, 'a>(assignments: &'r [RawAssignment<'a>]) -> Result<Vec<&'r RawAssignment<'a>>, Error> {
    #[derive(Clone, Copy, PartialEq)]
    enum Progress {
        Unseen,
        Started,
        Done,
    }
    let positions: HashMap<&str, usize> =
        assignments.iter().enumerate().map(|(position, assignment)| (assignment.target, position)).collect();
    let mut progress = vec![Progress::Unseen; assignments.len()];
    let mut ordered = Vec::with_capacity(assignments.len());
    for root in 0..assignments.len() {
        let mut stack = vec![root];
        while let Some(&position) = stack.last() {
            let assignment = &assignments[position];
            if progress[position] != Progress::Unseen {
                stack.pop();
                if progress[position] == Progress::Started {
                    progress[position] = Progress::Done;
                    ordered.push(assignment);
                }
                continue;
            }
            progress[position] = Progress::Started;
            for read in assignment.expression.names().filter_map(|name| positions.get(name)) {
                match progress[*read] {
                    Progress::Unseen => stack.push(*read),
                    Progress::Done => {}
                    Progress::Started => {
                        let (name, line) = (assignments[*read].target, assignments[*read].line);
                        return Err(Error::new(
                            line,
                            format!("`{name}` depends on itself; put a register into the loop of logic"),
                        ));
                    }
                }
            }
        }
    }
    Ok(ordered)
}

/// Whether the port is one that every module has and that no expression reads.
fn is_common(port: &str) -> bool {
    port == "clk" || port == "reset_n"
}

/// The parts of `N000123n_name` or `N000123u_kind`; `None` for any other port.
fn exposed_name(port: &str) -> Option<ExposedName<'_>> {
    let rest = port.strip_prefix('N')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits >= 6)?;
    let number = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    let named = rest.strip_prefix("n_").map(|label| (number, true, label));
    named.or_else(|| rest.strip_prefix("u_").map(|label| (number, false, label)))
}

/// Sorts by name and refuses two of one name, which kaze tells apart by numbers that change from run to run.
fn sort_unique<T>(what: &str, items: &mut [T], key: impl Fn(&T) -> (&str, usize)) -> Result<(), Error> {
    items.sort_by(|a, b| key(a).0.cmp(key(b).0));
    match items.windows(2).find(|pair| key(&pair[0]).0 == key(&pair[1]).0) {
        None => Ok(()),
        Some(pair) => {
            let (name, line) = key(&pair[1]);
            Err(Error::new(
                line,
                format!("two {what} are called `{name}`; names of {what} must be unique in a module, rename one"),
            ))
        }
    }
}

struct Elaborator<'a> {
    meanings: HashMap<&'a str, Meaning>,
    graph: Graph,
    signals: Vec<Signal>,
    names: Names,
}

/// A register whose next value is still to be read: kaze's text, its own name and its signal.
struct PendingRegister<'r, 'a> {
    raw: &'r RawRegister<'a>,
    name: &'a str,
    signal: usize,
}

/// A memory whose ports are still to be read.
struct PendingMemory<'r, 'a> {
    raw: &'r RawMemory<'a>,
    name: String,
    style: Option<RamStyle>,
    /// Number, text and signal of each read port, in order of number.
    reads: Vec<(u64, &'r RawRead<'a>, usize)>,
}

/// An instance whose inputs are still to be read: port, wire and line of each.
struct PendingInstance<'a> {
    instance: Instance,
    inputs: Vec<(&'a str, &'a str, usize)>,
}

impl<'a> Elaborator<'a> {
    /// Declares the ports.
    fn ports<'r>(&mut self, raw: &'r RawModule<'a>) -> Result<OutputPorts<'r, 'a>, Error> {
        self.check_fixed_name("module", raw.name, raw.line)?;
        let (mut outputs, mut exposed) = (Vec::new(), Vec::new());
        for port in &raw.ports {
            let exposed_name = exposed_name(port.name).filter(|_| port.output);
            if let Some((_, _, label)) = exposed_name {
                if label.chars().next().is_none_or(|first| first.is_ascii_digit()) {
                    return Err(Error::new(
                        port.line,
                        format!("`{label}` cannot be the name of a wire; it must begin with a letter or an underscore"),
                    ));
                }
            } else {
                self.check_fixed_name("port", port.name, port.line)?;
                self.names.take(port.name);
            }
            let meaning = match (port.output, is_common(port.name)) {
                (true, _) => Meaning::Unassigned(port.width_bits),
                // Only `always` and instances use these two.
                (false, true) => Meaning::Removed,
                (false, false) => {
                    let node = self.add_signal(port.name.to_owned(), port.width_bits, SignalKind::Input).1;
                    Meaning::Value(node)
                }
            };
            self.declare(port.name, meaning, port.line)?;
            match exposed_name {
                Some(name) => exposed.push((name, port)),
                None if port.output => outputs.push(port),
                None => {}
            }
        }
        for name in ["clk", "reset_n"] {
            if !raw.ports.iter().any(|port| port.name == name && !port.output && port.width_bits == 1) {
                return Err(Error::new(raw.line, format!("module `{}` has no input `{name}`", raw.name)));
            }
        }
        outputs.sort_by_key(|port| port.name);
        Ok((outputs, exposed))
    }

    /// Names that are visible from outside cannot be changed.
    fn check_fixed_name(&self, what: &str, name: &str, line: usize) -> Result<(), Error> {
        if self.names.is_reserved(name) {
            return Err(Error::new(
                line,
                format!(
                    "the {what} `{name}` has a name that is reserved in Verilog, in SystemVerilog or here; rename it"
                ),
            ));
        }
        Ok(())
    }

    fn declare(&mut self, name: &'a str, meaning: Meaning, line: usize) -> Result<(), Error> {
        match self.meanings.insert(name, meaning) {
            None => Ok(()),
            Some(_) => Err(Error::new(line, format!("`{name}` is declared twice; rename one of the two"))),
        }
    }

    fn add_signal(&mut self, name: String, width_bits: u32, kind: SignalKind) -> (usize, NodeId) {
        let signal = self.signals.len();
        self.signals.push(Signal { name, width_bits, kind });
        (signal, self.graph.signal(signal, width_bits))
    }

    /// Makes a declared name a signal, whose value no assignment gives.
    fn define(&mut self, name: &'a str, wished: String, kind: SignalKind, line: usize) -> Result<usize, Error> {
        let Some(Meaning::Unassigned(width_bits)) = self.meanings.get(name).copied() else {
            return Err(Error::new(line, format!("`{name}` is not declared, or has two drivers")));
        };
        let (signal, node) = self.add_signal(wished, width_bits, kind);
        self.meanings.insert(name, Meaning::Value(node));
        Ok(signal)
    }

    fn declare_instances(&mut self, raw: &RawModule<'a>) -> Result<Vec<PendingInstance<'a>>, Error> {
        let mut instances: Vec<&RawInstance<'a>> = raw.instances.iter().collect();
        sort_unique("instances", &mut instances, |instance| (instance.name, instance.line))?;
        instances.into_iter().map(|instance| self.declare_instance(instance)).collect()
    }

    fn declare_instance(&mut self, raw: &RawInstance<'a>) -> Result<PendingInstance<'a>, Error> {
        let mut connections = raw.connections.clone();
        sort_unique("ports of an instance", &mut connections, |(port, _, line)| (*port, *line))?;
        let mut instance = Instance {
            name: self.names.claim(raw.name),
            module: raw.module.to_owned(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            line: raw.line,
        };
        let mut inputs = Vec::new();
        for (port, wire, line) in connections {
            // Kaze's names for the wires at an instance, and those of the hardware layer's own instances.
            let own = format!("{}__{}__{port}", raw.module, raw.name);
            let is_input = wire == format!("__{}_input_{port}", raw.name) || wire.strip_prefix("y__") == Some(&own);
            let is_output = wire == format!("__{}_output_{port}", raw.name) || wire.strip_prefix("x__") == Some(&own);
            if is_input {
                inputs.push((port, wire, line));
            } else if !is_output {
                return Err(Error::new(
                    line,
                    format!("port `{port}` of instance `{}` is connected to `{wire}`, which is not its wire", raw.name),
                ));
            } else if exposed_name(port).is_some() {
                self.meanings.insert(wire, Meaning::Removed);
            } else {
                let wished = format!("{}_{port}", raw.name);
                let signal = self.define(wire, wished, SignalKind::InstanceOutput, line)?;
                instance.outputs.push((port.to_owned(), signal));
            }
        }
        Ok(PendingInstance { instance, inputs })
    }

    fn finish_instances(&mut self, pending: Vec<PendingInstance<'a>>) -> Result<Vec<Instance>, Error> {
        let finish = |PendingInstance { mut instance, inputs }: PendingInstance<'a>| {
            for (port, wire, line) in inputs {
                instance.inputs.push((port.to_owned(), self.read(wire, line)?));
            }
            Ok(instance)
        };
        pending.into_iter().map(finish).collect()
    }

    fn declare_memories<'r>(&mut self, raw: &'r RawModule<'a>) -> Result<Vec<PendingMemory<'r, 'a>>, Error> {
        let styled = |name: &'a str| {
            let styles = [RamStyle::Block, RamStyle::Ultra, RamStyle::Distributed];
            let base = |style: RamStyle| name.strip_suffix(style.attribute())?.strip_suffix("__");
            let found = styles.into_iter().find_map(|style| Some((base(style)?, Some(style))));
            found.filter(|(base, _)| !base.is_empty()).unwrap_or((name, None))
        };
        let mut memories: Vec<&'r RawMemory<'a>> = raw.memories.iter().collect();
        sort_unique("memories", &mut memories, |memory| (styled(memory.name).0, memory.line))?;
        let mut pending = Vec::new();
        for memory in memories {
            if memory.reads.is_empty() {
                return Err(Error::new(memory.line, format!("memory `{}` has no read port", memory.name)));
            }
            let (base, style) = styled(memory.name);
            let mut reads = Vec::new();
            for read in &memory.reads {
                let prefix = format!("__mem_{}_read_port_", memory.name);
                let index = read.value.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix("_value"));
                let Some(index) = index.and_then(|index| index.parse().ok()) else {
                    return Err(Error::new(
                        read.line,
                        format!("`{}` does not have the name of a value read from `{}`", read.value, memory.name),
                    ));
                };
                reads.push((index, read));
            }
            reads.sort_by_key(|(index, _)| *index);
            let define = |(index, read): (u64, &'r RawRead<'a>)| {
                let wished = format!("{base}_read_{index}");
                Ok((index, read, self.define(read.value, wished, SignalKind::MemoryRead, read.line)?))
            };
            let reads = reads.into_iter().map(define).collect::<Result<_, _>>()?;
            pending.push(PendingMemory { raw: memory, name: self.names.claim(base), style, reads });
        }
        Ok(pending)
    }

    fn finish_memories(&self, pending: Vec<PendingMemory>) -> Result<Vec<Memory>, Error> {
        pending.into_iter().map(|memory| self.finish_memory(memory)).collect()
    }

    fn finish_memory(&self, pending: PendingMemory) -> Result<Memory, Error> {
        let raw = pending.raw;
        let checked = |name: &str, width_bits: u32, line: usize| {
            let node = self.read(name, line)?;
            self.check_width(name, node, width_bits, line)
        };
        let mut reads = Vec::new();
        for (index, read, signal) in pending.reads {
            let address = checked(read.address, raw.words.ilog2(), read.line)?;
            let enable = checked(read.enable, 1, read.line)?;
            checked(read.value, raw.width_bits, read.line)?;
            reads.push(Read { index, address, enable, signal });
        }
        let write = match &raw.write {
            None => None,
            Some(write) => Some(Write {
                address: checked(write.address, raw.words.ilog2(), write.line)?,
                value: checked(write.value, raw.width_bits, write.line)?,
                enable: checked(write.enable, 1, write.line)?,
            }),
        };
        Ok(Memory {
            name: pending.name,
            words: raw.words,
            width_bits: raw.width_bits,
            style: pending.style,
            read_ports: reads.len(),
            writable: write.is_some(),
            initial_contents: raw.initial_contents.clone(),
            reads,
            write,
        })
    }

    fn declare_registers<'r>(&mut self, raw: &'r RawModule<'a>) -> Result<Vec<PendingRegister<'r, 'a>>, Error> {
        let mut registers = Vec::new();
        for register in &raw.registers {
            let numbered = register.value.strip_prefix("__reg_").and_then(|rest| rest.rsplit_once('_'));
            match numbered {
                Some((name, number)) if !name.is_empty() && number.parse::<u64>().is_ok() => {
                    registers.push((name, register));
                }
                _ => {
                    return Err(Error::new(
                        register.line,
                        format!("`{}` does not have the name of a register", register.value),
                    ));
                }
            }
        }
        sort_unique("registers", &mut registers, |(name, register)| (*name, register.line))?;
        let pending = |(name, raw): (&'a str, &'r RawRegister<'a>)| {
            let signal = self.define(raw.value, name.to_owned(), SignalKind::Register, raw.line)?;
            Ok(PendingRegister { raw, name, signal })
        };
        registers.into_iter().map(pending).collect()
    }

    fn finish_registers(
        &mut self,
        pending: Vec<PendingRegister>,
        outputs: &[&RawPort],
        output_nodes: &[NodeId],
    ) -> Result<Vec<Register>, Error> {
        let mut registers = Vec::new();
        for PendingRegister { raw, name, signal } in pending {
            let width_bits = self.signals[signal].width_bits;
            let next = self.read(raw.next, raw.line)?;
            let next = self.check_width(raw.next, next, width_bits, raw.line)?;
            if let Some((reset_bits, _)) = raw.reset.filter(|(reset_bits, _)| *reset_bits != width_bits) {
                return Err(Error::new(
                    raw.line,
                    format!("the reset value of register `{name}` has {reset_bits} bits, the register {width_bits}"),
                ));
            }
            // An output that shows the register under its own name is the register.
            let own = self.graph.signal(signal, width_bits);
            let shown = outputs.iter().zip(output_nodes).any(|(port, node)| port.name == name && *node == own);
            let name = if shown { name.to_owned() } else { self.names.claim(name) };
            self.signals[signal].name.clone_from(&name);
            let reset_value = raw.reset.map(|(_, value)| value);
            registers.push(Register { name, width_bits, reset_value, next, signal });
        }
        Ok(registers)
    }

    /// The value of a name.
    fn read(&self, name: &str, line: usize) -> Result<NodeId, Error> {
        let problem = match self.meanings.get(name) {
            Some(Meaning::Value(node)) => return Ok(*node),
            Some(Meaning::Unassigned(_)) => "is read, but nothing is assigned to it",
            Some(Meaning::Removed) if is_common(name) => "is read as data; it only clocks or resets",
            Some(Meaning::Removed) => {
                "is read, but it is an operator inside of the instance; make it an output of that module"
            }
            None => "is not declared",
        };
        Err(Error::new(line, format!("`{name}` {problem}")))
    }

    fn operand(&mut self, operand: RawOperand, line: usize) -> Result<NodeId, Error> {
        match operand {
            RawOperand::Name(name) => self.read(name, line),
            RawOperand::Literal { width_bits, value } => Ok(self.graph.constant(value, width_bits)),
        }
    }

    fn check_width(&self, what: &str, node: NodeId, width_bits: u32, line: usize) -> Result<NodeId, Error> {
        let found = self.graph.width_bits(node);
        if found == width_bits {
            return Ok(node);
        }
        Err(Error::new(line, format!("{what} has {found} bits where {width_bits} are needed")))
    }

    fn assign(&mut self, target: &'a str, expression: &RawExpression, line: usize) -> Result<(), Error> {
        let width_bits = match self.meanings.get(target) {
            Some(Meaning::Unassigned(width_bits)) => *width_bits,
            Some(_) => return Err(Error::new(line, format!("`{target}` is assigned, but it has another driver"))),
            None => return Err(Error::new(line, format!("`{target}` is assigned, but not declared"))),
        };
        let node = self.expression(expression, line)?;
        let node = self.check_width(&format!("the value of `{target}`"), node, width_bits, line)?;
        self.meanings.insert(target, Meaning::Value(node));
        Ok(())
    }

    fn expression(&mut self, expression: &RawExpression, line: usize) -> Result<NodeId, Error> {
        match *expression {
            RawExpression::Operand(operand) => self.operand(operand, line),
            RawExpression::Not(source) => {
                let source = self.operand(source, line)?;
                Ok(self.graph.not(source))
            }
            RawExpression::Binary { operator, signed, left, right } => {
                let left = self.operand(left, line)?;
                let right = self.operand(right, line)?;
                self.binary(operator, signed, left, right, line)
            }
            RawExpression::Slice { source, high, low } => {
                let source = self.operand(source, line)?;
                let width_bits = self.graph.width_bits(source);
                if high < low || high >= u64::from(width_bits) {
                    return Err(Error::new(
                        line,
                        format!("bits [{high}:{low}] are selected of a value of {width_bits}"),
                    ));
                }
                // Both are below 128 here.
                Ok(self.graph.slice(source, low as u32, (high - low + 1) as u32))
            }
            RawExpression::Repeat { count, source } => {
                let source = self.operand(source, line)?;
                let width_bits = u64::from(self.graph.width_bits(source)).saturating_mul(count);
                self.check_result_width(width_bits, line)?;
                // A checked width bounds the count.
                Ok(self.graph.repeat(source, count as u32))
            }
            RawExpression::Concat(high, low) => {
                let high = self.operand(high, line)?;
                let low = self.operand(low, line)?;
                let width_bits = self.graph.width_bits(high) + self.graph.width_bits(low);
                self.check_result_width(u64::from(width_bits), line)?;
                Ok(self.graph.concat(high, low))
            }
            RawExpression::Mux { condition, when_true, when_false } => {
                let condition = self.operand(condition, line)?;
                let condition = self.check_width("the condition of `?`", condition, 1, line)?;
                let when_true = self.operand(when_true, line)?;
                let when_false = self.operand(when_false, line)?;
                let width_bits = self.graph.width_bits(when_true);
                self.check_width("the last operand of `?`", when_false, width_bits, line)?;
                Ok(self.graph.mux(condition, when_true, when_false))
            }
        }
    }

    fn check_result_width(&self, width_bits: u64, line: usize) -> Result<(), Error> {
        if (1..=u64::from(WIDTH_BITS_MAX)).contains(&width_bits) {
            return Ok(());
        }
        Err(Error::new(line, format!("the result has {width_bits} bits; kaze's signals have 1 to {WIDTH_BITS_MAX}")))
    }

    fn binary(
        &mut self,
        symbol: &str,
        signed: bool,
        left: NodeId,
        right: NodeId,
        line: usize,
    ) -> Result<NodeId, Error> {
        if symbol == "*" {
            let width_bits = self.graph.width_bits(left) + self.graph.width_bits(right);
            self.check_result_width(u64::from(width_bits), line)?;
            return Ok(self.graph.multiply(left, right, signed));
        }
        let operator = match (symbol, signed) {
            ("+", false) => Binary::Add,
            ("-", false) => Binary::Subtract,
            ("<<", false) => Binary::ShiftLeft,
            (">>", false) => Binary::ShiftRight,
            ("&", false) => Binary::And,
            ("|", false) => Binary::Or,
            ("^", false) => Binary::Xor,
            ("==", false) => Binary::Equal,
            ("!=", false) => Binary::NotEqual,
            ("<", false) => Binary::Less,
            ("<=", false) => Binary::LessEqual,
            (">", false) => Binary::Greater,
            (">=", false) => Binary::GreaterEqual,
            ("<", true) => Binary::SignedLess,
            ("<=", true) => Binary::SignedLessEqual,
            (">", true) => Binary::SignedGreater,
            (">=", true) => Binary::SignedGreaterEqual,
            _ => {
                let kind = if signed { "signed" } else { "unsigned" };
                return Err(Error::new(line, format!("kaze never prints the operator `{symbol}` on {kind} operands")));
            }
        };
        if !matches!(operator, Binary::ShiftLeft | Binary::ShiftRight) {
            let width_bits = self.graph.width_bits(left);
            self.check_width(&format!("the right operand of `{symbol}`"), right, width_bits, line)?;
        }
        Ok(self.graph.binary(operator, left, right))
    }
}
