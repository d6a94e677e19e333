//! Chooses what becomes a wire and under which name, and prints the module.

use super::graph::{Binary, NodeId, Operation, mask};
use super::names::Names;
use super::{Module, Options, SignalKind};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Longest line, in characters, that is not broken where it can be.
const LINE_LENGTH_MAX: usize = 100;
/// Most terms of an expression that is printed inside of another one.
const INLINE_TERMS_MAX: u32 = 12;
/// The same where it continues the list, the chain or the priority of the other one without parentheses.
const CHAIN_TERMS_MAX: u32 = 40;

/// How a node appears where it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing reads it.
    Dead,
    /// A constant, or bits of a name: printed wherever it is read.
    Leaf,
    /// Printed inside of its only reader; the number of its terms.
    Inline(u32),
    /// Read by name.
    Named(String),
}

/// The Verilog of the module.
pub(super) fn write(module: &Module, options: &Options) -> String {
    let mut writer = Writer::new(module);
    let order = writer.order();
    writer.count_reads(&order);
    let wishes = writer.wishes(&order);
    writer.choose_shapes(&order, wishes);
    writer.module(&order, options)
}

struct Writer<'m> {
    module: &'m Module,
    names: Names,
    /// By node.
    shapes: Vec<Shape>,
    /// By node: how many expressions and statements read it.
    reads: Vec<u32>,
    /// By node: the node that read it last, which is the only one where it is read once.
    reader: Vec<Option<NodeId>>,
    /// By node: whether bits are selected of it, so that it needs a name.
    sliced: Vec<bool>,
    /// By signal.
    signal_names: Vec<String>,
    /// By signal and by node: the bits that the text reads.
    signal_bits: Vec<u128>,
    node_bits: Vec<u128>,
    /// Outputs that need no assignment of their own, by position among the outputs.
    carried_outputs: HashSet<usize>,
    text: String,
}

impl<'m> Writer<'m> {
    fn new(module: &'m Module) -> Self {
        let nodes = module.graph.len();
        Self {
            module,
            names: module.names.clone(),
            shapes: vec![Shape::Dead; nodes],
            reads: vec![0; nodes],
            reader: vec![None; nodes],
            sliced: vec![false; nodes],
            signal_names: module.signals.iter().map(|signal| signal.name.clone()).collect(),
            signal_bits: vec![0; module.signals.len()],
            node_bits: vec![0; nodes],
            carried_outputs: HashSet::new(),
            text: String::new(),
        }
    }

    fn operation(&self, node: NodeId) -> Operation {
        self.module.graph.operation(node)
    }

    /// What statements and instances read, in an order that depends on names alone.
    fn roots(&self) -> Vec<NodeId> {
        let module = self.module;
        let mut roots = module.output_nodes.clone();
        roots.extend(module.registers.iter().map(|register| register.next));
        for memory in &module.memories {
            roots.extend(memory.reads.iter().flat_map(|read| [read.enable, read.address]));
            roots.extend(memory.write.iter().flat_map(|write| [write.enable, write.address, write.value]));
        }
        roots.extend(module.instances.iter().flat_map(|instance| instance.inputs.iter().map(|(_, node)| *node)));
        roots
    }

    /// The nodes that something depends on, operands first. Exposed operators come in the order of their numbers,
    /// which is the order in which the hardware layer made them; others come just before their first reader.
    fn order(&self) -> Vec<NodeId> {
        let roots = self.roots();
        let mut live = vec![false; self.module.graph.len()];
        let mut stack = roots.clone();
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut live[node.index()], true) {
                stack.extend(self.operation(node).operands());
            }
        }
        let mut order = Vec::new();
        // From here on `live` is cleared where a node has its place.
        for root in self.module.exposed.iter().map(|exposed| exposed.node).chain(roots) {
            let mut stack = vec![(root, false)];
            while let Some((node, operands_done)) = stack.pop() {
                if operands_done {
                    order.push(node);
                } else if std::mem::replace(&mut live[node.index()], false) {
                    stack.push((node, true));
                    stack.extend(self.operation(node).operands().rev().map(|operand| (operand, false)));
                }
            }
        }
        order
    }

    fn count_reads(&mut self, order: &[NodeId]) {
        for root in self.roots() {
            self.reads[root.index()] += 1;
        }
        for &node in order {
            let operation = self.operation(node);
            for operand in operation.operands() {
                self.reads[operand.index()] += 1;
                self.reader[operand.index()] = Some(node);
                self.sliced[operand.index()] |= matches!(operation, Operation::Slice(..));
            }
        }
    }

    fn is_simple(&self, node: NodeId) -> bool {
        matches!(self.operation(node), Operation::Constant(_) | Operation::Signal(_) | Operation::Slice(..))
    }

    /// The names of live nodes: the author's, the output that shows it, or the statement that reads it.
    fn wishes(&mut self, order: &[NodeId]) -> HashMap<NodeId, String> {
        let module = self.module;
        let live: HashSet<NodeId> = order.iter().copied().collect();
        let is_signal_or_constant =
            |node| matches!(module.graph.operation(node), Operation::Constant(_) | Operation::Signal(_));
        let mut names: HashMap<NodeId, String> = HashMap::new();
        for exposed in &module.exposed {
            if !exposed.named || !live.contains(&exposed.node) || is_signal_or_constant(exposed.node) {
                continue;
            }
            if names.contains_key(&exposed.node) {
                continue;
            }
            // The author's name is that of an output which shows the same value: the output is the wire.
            let outputs = module.outputs.iter().zip(&module.output_nodes);
            let shown =
                outputs.enumerate().find(|(_, (port, node))| **node == exposed.node && port.name == exposed.label);
            let name = match shown {
                Some((position, _)) => {
                    self.carried_outputs.insert(position);
                    exposed.label.clone()
                }
                None => self.names.claim(&exposed.label),
            };
            names.insert(exposed.node, name);
        }
        for (position, (port, node)) in module.outputs.iter().zip(&module.output_nodes).enumerate() {
            if !names.contains_key(node) && !self.is_simple(*node) {
                self.carried_outputs.insert(position);
                names.insert(*node, port.name.clone());
            }
        }
        // What the author did not name comes last, so that the author's names stay as they are.
        for (signal, name) in module.signals.iter().zip(&mut self.signal_names) {
            if matches!(signal.kind, SignalKind::MemoryRead | SignalKind::InstanceOutput) {
                *name = self.names.claim(&signal.name);
            }
        }
        let mut wishes: Vec<(NodeId, String)> = Vec::new();
        for register in &module.registers {
            wishes.push((register.next, format!("{}_next", register.name)));
        }
        for memory in &module.memories {
            for read in &memory.reads {
                wishes.push((read.enable, format!("{}_read_{}_enable", memory.name, read.index)));
                wishes.push((read.address, format!("{}_read_{}_address", memory.name, read.index)));
            }
            if let Some(write) = memory.write {
                wishes.push((write.enable, format!("{}_write_enable", memory.name)));
                wishes.push((write.address, format!("{}_write_address", memory.name)));
                wishes.push((write.value, format!("{}_write_value", memory.name)));
            }
        }
        for instance in &module.instances {
            for (port, node) in &instance.inputs {
                wishes.push((*node, format!("{}_{port}", instance.name)));
            }
        }
        for (node, wished) in wishes {
            if !names.contains_key(&node) && !self.is_simple(node) {
                let name = self.names.claim(&wished);
                names.insert(node, name);
            }
        }
        names
    }

    fn choose_shapes(&mut self, order: &[NodeId], mut names: HashMap<NodeId, String>) {
        let mut labels: HashMap<NodeId, &str> = HashMap::new();
        for exposed in self.module.exposed.iter().filter(|exposed| !exposed.label.is_empty()) {
            labels.entry(exposed.node).or_insert(&exposed.label);
        }
        for &node in order {
            let operation = self.operation(node);
            let shape = if let Some(name) = names.remove(&node) {
                Shape::Named(name)
            } else {
                self.unnamed_shape(node, operation).unwrap_or_else(|| {
                    let label = labels.get(&node).copied().unwrap_or(kind(operation));
                    Shape::Named(self.names.number(label))
                })
            };
            self.shapes[node.index()] = shape;
        }
    }

    /// How a node without a name appears; `None` if it needs one. Its operands have their shapes already.
    fn unnamed_shape(&self, node: NodeId, operation: Operation) -> Option<Shape> {
        let shape = |operand: NodeId| &self.shapes[operand.index()];
        let terms = |operand: NodeId| match shape(operand) {
            Shape::Inline(terms) => *terms,
            _ => 1,
        };
        match operation {
            Operation::Constant(_) | Operation::Signal(_) | Operation::Slice(..) => return Some(Shape::Leaf),
            // An inverted name is short enough to be repeated.
            Operation::Not(source) if !self.sliced[node.index()] && !matches!(shape(source), Shape::Inline(_)) => {
                return Some(Shape::Leaf);
            }
            Operation::Binary(operator, ..) if operator.arithmetic() => return None,
            _ => {}
        }
        let terms: u32 = operation.operands().map(terms).sum();
        let continues = self.reader[node.index()].is_some_and(|reader| self.continues(reader, node));
        let terms_max = if continues { CHAIN_TERMS_MAX } else { INLINE_TERMS_MAX };
        let inline = self.reads[node.index()] == 1 && !self.sliced[node.index()] && terms <= terms_max;
        inline.then_some(Shape::Inline(terms))
    }

    /// Whether `node` needs no parentheses inside of `reader` because it continues it.
    fn continues(&self, reader: NodeId, node: NodeId) -> bool {
        match (self.operation(reader), self.operation(node)) {
            (Operation::Binary(outer, ..), Operation::Binary(inner, ..)) => outer == inner && outer.associative(),
            (Operation::Concat(..), Operation::Concat(..)) => true,
            (Operation::Mux(_, _, when_false), Operation::Mux(..)) => when_false == node,
            _ => false,
        }
    }

    // ---- expressions ----

    fn read_signal(&mut self, signal: usize, bits: u128) -> &str {
        self.signal_bits[signal] |= bits;
        &self.signal_names[signal]
    }

    /// The name of a node that has one, which reads the given bits.
    fn name(&mut self, node: NodeId, bits: u128) -> String {
        if let Operation::Signal(signal) = self.operation(node) {
            return self.read_signal(signal, bits).to_owned();
        }
        self.node_bits[node.index()] |= bits;
        match &self.shapes[node.index()] {
            Shape::Named(name) => name.clone(),
            // Sliced nodes are always named.
            shape => unreachable!("a node of shape {shape:?} is read by name"),
        }
    }

    /// The node as an operand of something else.
    fn operand(&mut self, node: NodeId) -> String {
        let text = self.value(node);
        match (&self.shapes[node.index()], self.operation(node)) {
            (Shape::Inline(_), Operation::Binary(..) | Operation::Mux(..)) => format!("({text})"),
            _ => text,
        }
    }

    /// The node where nothing binds stronger than it.
    fn value(&mut self, node: NodeId) -> String {
        if let Shape::Named(_) = self.shapes[node.index()] {
            return self.name(node, u128::MAX);
        }
        joined(&self.expression(node))
    }

    /// What the node is equal to, in pieces between which the line may be broken.
    ///
    /// Recurses only into nodes of shape `Inline`, whose number of terms is bounded.
    fn expression(&mut self, node: NodeId) -> Vec<String> {
        let width_bits = self.module.graph.width_bits(node);
        match self.operation(node) {
            Operation::Constant(value) => vec![format!("{width_bits}'h{value:x}")],
            Operation::Signal(_) => vec![self.name(node, u128::MAX)],
            Operation::Slice(source, low) => {
                let name = self.name(source, mask(width_bits) << low);
                vec![name + &range(low, width_bits)]
            }
            Operation::Not(source) => vec![format!("~{}", self.operand(source))],
            Operation::Repeat(source, count) => vec![format!("{{{count}{{{}}}}}", self.value(source))],
            Operation::Concat(..) => {
                let parts = self.chain(node);
                let last = parts.len() - 1;
                let mut pieces = vec![String::from("{")];
                pieces.extend(
                    parts
                        .iter()
                        .enumerate()
                        .map(|(position, part)| self.value(*part) + if position == last { "" } else { "," }),
                );
                pieces.push(String::from("}"));
                pieces
            }
            Operation::Binary(operator, ..) if operator.associative() => {
                let mut pieces = Vec::new();
                for (position, part) in self.chain(node).into_iter().enumerate() {
                    let part = self.operand(part);
                    pieces.push(if position == 0 { part } else { format!("{} {part}", operator.symbol()) });
                }
                pieces
            }
            Operation::Binary(operator, left, right) => {
                let (left, right) = if operator.signed() {
                    (format!("$signed({})", self.value(left)), format!("$signed({})", self.value(right)))
                } else {
                    (self.operand(left), self.operand(right))
                };
                vec![left, format!("{} {right}", operator.symbol())]
            }
            Operation::Mux(..) => {
                let mut pieces = Vec::new();
                let mut rest = node;
                while let Operation::Mux(condition, when_true, when_false) = self.operation(rest) {
                    if rest != node && !matches!(self.shapes[rest.index()], Shape::Inline(_)) {
                        break;
                    }
                    pieces.push(format!("{} ? {} :", self.operand(condition), self.operand(when_true)));
                    rest = when_false;
                }
                pieces.push(self.operand(rest));
                pieces
            }
        }
    }

    /// The parts of a chain of one associative operator or of a concatenation.
    fn chain(&self, node: NodeId) -> Vec<NodeId> {
        let mut parts = Vec::new();
        let mut stack = vec![node];
        while let Some(part) = stack.pop() {
            let inline = matches!(self.shapes[part.index()], Shape::Inline(_));
            if part == node || (inline && self.continues(node, part)) {
                stack.extend(self.operation(part).operands().rev());
            } else {
                parts.push(part);
            }
        }
        parts
    }

    // ---- the module ----

    /// One line, or several, broken between pieces, where that would be too long.
    fn statement(&mut self, start: &str, pieces: &[String]) {
        let line = format!("{start} {};", joined(pieces));
        if line.len() <= LINE_LENGTH_MAX {
            self.line(&line);
            return;
        }
        self.text.push_str(start);
        let mut length = LINE_LENGTH_MAX;
        for piece in pieces {
            // A choice has a line for each condition; anything else fills its lines.
            if length + piece.len() >= LINE_LENGTH_MAX || piece.ends_with(" :") {
                self.text.push_str("\n       ");
                length = 7;
            }
            self.text.push(' ');
            self.text.push_str(piece);
            length += piece.len() + 1;
            if piece.ends_with(" :") {
                length = LINE_LENGTH_MAX;
            }
        }
        self.text.push_str(";\n");
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// An empty line between sections.
    fn gap(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn module(mut self, order: &[NodeId], options: &Options) -> String {
        for line in options.header.lines() {
            let line = format!("// {line}");
            self.line(line.trim_end());
        }
        self.ports(options);
        self.declarations();
        self.wires(order);
        self.instances();
        self.memories();
        self.registers();
        self.outputs();
        self.sink(order);
        self.line("endmodule");
        self.text
    }

    /// Whether an output is the register of the same name.
    fn is_register(&self, output: usize) -> bool {
        let name = &self.module.outputs[output].name;
        match self.operation(self.module.output_nodes[output]) {
            Operation::Signal(signal) => {
                self.module.signals[signal].kind == SignalKind::Register && self.signal_names[signal] == *name
            }
            _ => false,
        }
    }

    fn ports(&mut self, options: &Options) {
        let module = self.module;
        let mut lines =
            vec![("clk", String::from("    input  wire clk")), ("reset_n", String::from("    input  wire reset_n"))];
        for port in &module.inputs {
            lines.push((&port.name, format!("    input  wire {}{}", vector(port.width_bits), port.name)));
        }
        for (position, port) in module.outputs.iter().enumerate() {
            let kind = if self.is_register(position) { "reg " } else { "wire" };
            lines.push((&port.name, format!("    output {kind} {}{}", vector(port.width_bits), port.name)));
        }
        self.line(&format!("module {} (", module.name));
        let last = lines.len() - 1;
        for (position, (name, mut line)) in lines.into_iter().enumerate() {
            if position != last {
                line.push(',');
            }
            if let Some(comment) = options.port_comments.get(name) {
                let words: Vec<&str> = comment.split_whitespace().collect();
                let _ = write!(line, " // {}", words.join(" "));
            }
            self.line(&line);
        }
        self.line(");");
    }

    fn declarations(&mut self) {
        let module = self.module;
        let shown: HashSet<&str> = (0..module.outputs.len())
            .filter(|output| self.is_register(*output))
            .map(|output| module.outputs[output].name.as_str())
            .collect();
        self.gap();
        for register in module.registers.iter().filter(|register| !shown.contains(register.name.as_str())) {
            self.line(&format!("    reg {}{};", vector(register.width_bits), register.name));
        }
        self.gap();
        for memory in &module.memories {
            if let Some(style) = memory.style {
                let _ = write!(self.text, "    (* ram_style = \"{}\" *)", style.attribute());
                self.text.push('\n');
            }
            let (width, name) = (vector(memory.width_bits), &memory.name);
            self.line(&format!("    reg {width}{name} [0:{}];", memory.words - 1));
            for read in &memory.reads {
                let line = format!("    reg {width}{};", self.signal_names[read.signal]);
                self.line(&line);
            }
        }
        self.gap();
        for (_, signal) in module.instances.iter().flat_map(|instance| &instance.outputs) {
            let width = vector(module.signals[*signal].width_bits);
            let line = format!("    wire {width}{};", self.signal_names[*signal]);
            self.line(&line);
        }
    }

    fn wires(&mut self, order: &[NodeId]) {
        let module = self.module;
        let carried: HashSet<&str> =
            self.carried_outputs.iter().map(|output| module.outputs[*output].name.as_str()).collect();
        self.gap();
        for &node in order {
            let Shape::Named(name) = &self.shapes[node.index()] else {
                continue;
            };
            if carried.contains(name.as_str()) {
                continue;
            }
            let start = format!("    wire {}{name} =", vector(module.graph.width_bits(node)));
            let pieces = self.expression(node);
            self.statement(&start, &pieces);
        }
    }

    fn instances(&mut self) {
        for instance in &self.module.instances {
            self.gap();
            self.line(&format!("    {} {} (", instance.module, instance.name));
            let mut connections = vec![("clk", String::from("clk")), ("reset_n", String::from("reset_n"))];
            for (port, node) in &instance.inputs {
                connections.push((port, self.value(*node)));
            }
            for (port, signal) in &instance.outputs {
                connections.push((port, self.signal_names[*signal].clone()));
            }
            let last = connections.len() - 1;
            for (position, (port, value)) in connections.into_iter().enumerate() {
                let separator = if position == last { "" } else { "," };
                self.line(&format!("        .{port}({value}){separator}"));
            }
            self.line("    );");
        }
    }

    /// `if (enable) `, or nothing where the enable is constant.
    fn condition(&mut self, enable: NodeId) -> String {
        match self.operation(enable) {
            Operation::Constant(1) => String::new(),
            _ => format!("if ({}) ", self.value(enable)),
        }
    }

    fn memories(&mut self) {
        for memory in &self.module.memories {
            self.gap();
            let name = &memory.name;
            if !memory.initial_contents.is_empty() {
                self.line("    initial begin");
                for (index, value) in memory.initial_contents.iter().enumerate() {
                    self.line(&format!("        {name}[{index}] = {}'h{value:x};", memory.width_bits));
                }
                self.line("    end");
            }
            for read in &memory.reads {
                let condition = self.condition(read.enable);
                let address = self.value(read.address);
                let value = &self.signal_names[read.signal];
                let line = format!("    always @(posedge clk) {condition}{value} <= {name}[{address}];");
                self.line(&line);
            }
            if let Some(write) = memory.write {
                let condition = self.condition(write.enable);
                let address = self.value(write.address);
                let value = self.value(write.value);
                self.line(&format!("    always @(posedge clk) {condition}{name}[{address}] <= {value};"));
            }
        }
    }

    fn registers(&mut self) {
        let registers = &self.module.registers;
        if registers.iter().any(|register| register.reset_value.is_some()) {
            self.gap();
            self.line("    always @(posedge clk) begin");
            self.line("        if (!reset_n) begin");
            for register in registers {
                if let Some(value) = register.reset_value {
                    self.line(&format!("            {} <= {}'h{value:x};", register.name, register.width_bits));
                }
            }
            self.line("        end else begin");
            for register in registers.iter().filter(|register| register.reset_value.is_some()) {
                let next = self.value(register.next);
                self.line(&format!("            {} <= {next};", register.name));
            }
            self.line("        end");
            self.line("    end");
        }
        if registers.iter().any(|register| register.reset_value.is_none()) {
            self.gap();
            self.line("    always @(posedge clk) begin");
            for register in registers.iter().filter(|register| register.reset_value.is_none()) {
                let next = self.value(register.next);
                self.line(&format!("        {} <= {next};", register.name));
            }
            self.line("    end");
        }
    }

    fn outputs(&mut self) {
        self.gap();
        for (position, port) in self.module.outputs.iter().enumerate() {
            if self.is_register(position) {
                continue;
            }
            let node = self.module.output_nodes[position];
            let carried = self.carried_outputs.contains(&position);
            let pieces = if carried { self.expression(node) } else { vec![self.value(node)] };
            self.statement(&format!("    assign {} =", port.name), &pieces);
        }
    }

    /// One wire that reads every bit that nothing else reads.
    fn sink(&mut self, order: &[NodeId]) {
        let module = self.module;
        let outputs: HashSet<&str> = module.outputs.iter().map(|port| port.name.as_str()).collect();
        let mut unused = Vec::new();
        let resettable = module.registers.iter().any(|register| register.reset_value.is_some());
        if module.registers.is_empty() && module.memories.is_empty() && module.instances.is_empty() {
            unused.push(String::from("clk"));
        }
        if !resettable && module.instances.is_empty() {
            unused.push(String::from("reset_n"));
        }
        let mut signals: Vec<usize> = (0..module.signals.len()).collect();
        signals.sort_by_key(|signal| &self.signal_names[*signal]);
        for signal in signals {
            let width_bits = module.signals[signal].width_bits;
            push_unused(&mut unused, &self.signal_names[signal], width_bits, self.signal_bits[signal], &outputs);
        }
        for &node in order {
            if let Shape::Named(name) = &self.shapes[node.index()] {
                let width_bits = module.graph.width_bits(node);
                push_unused(&mut unused, name, width_bits, self.node_bits[node.index()], &outputs);
            }
        }
        if unused.is_empty() {
            return;
        }
        self.gap();
        let last = unused.len() - 1;
        let mut pieces = vec![String::from("&{1'b0,")];
        pieces.extend(
            unused.into_iter().enumerate().map(|(position, piece)| piece + if position == last { "}" } else { "," }),
        );
        self.statement("    wire _unused_ok =", &pieces);
    }
}

/// The pieces of an expression in one line.
fn joined(pieces: &[String]) -> String {
    match pieces {
        [open, parts @ .., close] if open == "{" => format!("{{{}{close}", parts.join(" ")),
        _ => pieces.join(" "),
    }
}

/// Appends the bits of a signal that are not among `used`. What is an output is read outside.
fn push_unused(unused: &mut Vec<String>, name: &str, width_bits: u32, used: u128, outputs: &HashSet<&str>) {
    let mut missing = !used & mask(width_bits);
    if missing == 0 || outputs.contains(name) {
        return;
    }
    if missing == mask(width_bits) {
        unused.push(name.to_owned());
        return;
    }
    while missing != 0 {
        let low = missing.trailing_zeros();
        let length = (missing >> low).trailing_ones();
        unused.push(format!("{name}{}", range(low, length)));
        missing &= !(mask(length) << low);
    }
}

/// `[7:0] ` in front of a name, nothing for one bit.
fn vector(width_bits: u32) -> String {
    if width_bits == 1 { String::new() } else { format!("[{}:0] ", width_bits - 1) }
}

/// `[3]` or `[5:3]` behind a name.
fn range(low: u32, width_bits: u32) -> String {
    if width_bits == 1 { format!("[{low}]") } else { format!("[{}:{low}]", low + width_bits - 1) }
}

/// What a wire is called after where the hardware layer does not say.
fn kind(operation: Operation) -> &'static str {
    match operation {
        Operation::Constant(_) | Operation::Signal(_) => "value",
        Operation::Slice(..) => "bits",
        Operation::Not(_) => "not",
        Operation::Repeat(..) => "repeat",
        Operation::Concat(..) => "concat",
        Operation::Mux(..) => "mux",
        Operation::Binary(operator, ..) => match operator {
            Binary::Add => "add",
            Binary::Subtract => "subtract",
            Binary::Multiply => "multiply",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRight => "shift_right",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::Equal => "equal",
            Binary::NotEqual => "not_equal",
            Binary::Less | Binary::SignedLess => "less",
            Binary::LessEqual | Binary::SignedLessEqual => "less_equal",
            Binary::Greater | Binary::SignedGreater => "greater",
            Binary::GreaterEqual | Binary::SignedGreaterEqual => "greater_equal",
        },
    }
}
