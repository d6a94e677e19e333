//! The expressions of a module as a graph in which equal expressions are one node.

use std::collections::HashMap;

/// Widest signal of kaze, in bits.
pub(super) const WIDTH_BITS_MAX: u32 = 128;

/// The value with the lowest `width_bits` bits set.
pub(super) fn mask(width_bits: u32) -> u128 {
    if width_bits >= WIDTH_BITS_MAX { u128::MAX } else { (1 << width_bits) - 1 }
}

/// A node of a [`Graph`]: its position among the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// Position among the nodes.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operator on two operands. Except for shifts, both have the same width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    SignedLess,
    SignedLessEqual,
    SignedGreater,
    SignedGreaterEqual,
}

impl Binary {
    /// The operator in Verilog.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::And => "&",
            Binary::Or => "|",
            Binary::Xor => "^",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::Less | Binary::SignedLess => "<",
            Binary::LessEqual | Binary::SignedLessEqual => "<=",
            Binary::Greater | Binary::SignedGreater => ">",
            Binary::GreaterEqual | Binary::SignedGreaterEqual => ">=",
        }
    }

    /// Whether the operands are compared as signed numbers.
    pub(super) fn signed(self) -> bool {
        use Binary::{SignedGreater, SignedGreaterEqual, SignedLess, SignedLessEqual};
        matches!(self, SignedLess | SignedLessEqual | SignedGreater | SignedGreaterEqual)
    }

    /// Whether the result would change with the width of the context, or costs enough logic to deserve a wire.
    pub(super) fn arithmetic(self) -> bool {
        use Binary::{Add, Multiply, ShiftLeft, ShiftRight, Subtract};
        matches!(self, Add | Subtract | Multiply | ShiftLeft | ShiftRight)
    }

    /// Whether a chain of the operator needs no parentheses.
    pub(super) fn associative(self) -> bool {
        matches!(self, Binary::And | Binary::Or | Binary::Xor)
    }

    /// Whether the result is one bit, whatever the width of the operands.
    pub(super) fn comparison(self) -> bool {
        !self.arithmetic() && !self.associative()
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Constant(u128),
    /// Position among the signals of the module.
    Signal(usize),
    Not(NodeId),
    Binary(Binary, NodeId, NodeId),
    /// Source and lowest bit; the width is that of the node. The source is neither a constant nor a slice.
    Slice(NodeId, u32),
    /// Source and count, at least two.
    Repeat(NodeId, u32),
    /// High and low part.
    Concat(NodeId, NodeId),
    /// Condition, value where it is set, value where it is clear.
    Mux(NodeId, NodeId, NodeId),
}

impl Operation {
    /// The operands, in the order of the text.
    pub(super) fn operands(self) -> impl DoubleEndedIterator<Item = NodeId> {
        let operands = match self {
            Operation::Constant(_) | Operation::Signal(_) => [None, None, None],
            Operation::Not(a) | Operation::Slice(a, _) | Operation::Repeat(a, _) => [Some(a), None, None],
            Operation::Binary(_, a, b) | Operation::Concat(a, b) => [Some(a), Some(b), None],
            Operation::Mux(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        operands.into_iter().flatten()
    }
}

/// Expressions, each once. Operands come before what they are operands of.
///
/// The constructors expect operands of legal widths; elaboration has checked them.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<(Operation, u32)>,
    known: HashMap<(Operation, u32), NodeId>,
}

impl Graph {
    /// What the node does.
    pub(super) fn operation(&self, node: NodeId) -> Operation {
        self.nodes[node.index()].0
    }

    /// Width of the node in bits.
    pub(super) fn width_bits(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].1
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, operation: Operation, width_bits: u32) -> NodeId {
        let nodes = &mut self.nodes;
        *self.known.entry((operation, width_bits)).or_insert_with(|| {
            nodes.push((operation, width_bits));
            // Kaze's text would have 2^32 assignments before this overflows.
            NodeId((nodes.len() - 1) as u32)
        })
    }

    fn constant_value(&self, node: NodeId) -> Option<u128> {
        match self.operation(node) {
            Operation::Constant(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn constant(&mut self, value: u128, width_bits: u32) -> NodeId {
        self.add(Operation::Constant(value & mask(width_bits)), width_bits)
    }

    pub(super) fn signal(&mut self, signal: usize, width_bits: u32) -> NodeId {
        self.add(Operation::Signal(signal), width_bits)
    }

    pub(super) fn not(&mut self, source: NodeId) -> NodeId {
        let width_bits = self.width_bits(source);
        match self.operation(source) {
            Operation::Constant(value) => self.constant(!value, width_bits),
            Operation::Not(inner) => inner,
            _ => self.add(Operation::Not(source), width_bits),
        }
    }

    /// Bits `low` to `low + width_bits - 1`. Bits of a constant are a constant and bits of a slice a slice, because
    /// Verilog selects bits of names only.
    pub(super) fn slice(&mut self, source: NodeId, low: u32, width_bits: u32) -> NodeId {
        if width_bits == self.width_bits(source) {
            return source;
        }
        match self.operation(source) {
            Operation::Constant(value) => self.constant(value >> low, width_bits),
            Operation::Slice(inner, inner_low) => self.add(Operation::Slice(inner, inner_low + low), width_bits),
            _ => self.add(Operation::Slice(source, low), width_bits),
        }
    }

    pub(super) fn repeat(&mut self, source: NodeId, count: u32) -> NodeId {
        if count == 1 {
            return source;
        }
        let source_bits = self.width_bits(source);
        match self.constant_value(source) {
            Some(value) => {
                let repeated = (0..count).fold(0, |repeated, index| repeated | value << (index * source_bits));
                self.constant(repeated, source_bits * count)
            }
            None => self.add(Operation::Repeat(source, count), source_bits * count),
        }
    }

    pub(super) fn concat(&mut self, high: NodeId, low: NodeId) -> NodeId {
        let low_bits = self.width_bits(low);
        let width_bits = self.width_bits(high) + low_bits;
        match (self.constant_value(high), self.constant_value(low)) {
            (Some(high), Some(low)) => self.constant(high << low_bits | low, width_bits),
            _ => self.add(Operation::Concat(high, low), width_bits),
        }
    }

    /// A constant condition, which a configuration often causes, chooses here.
    pub(super) fn mux(&mut self, condition: NodeId, when_true: NodeId, when_false: NodeId) -> NodeId {
        match self.constant_value(condition) {
            Some(0) => when_false,
            Some(_) => when_true,
            None if when_true == when_false => when_true,
            None => self.add(Operation::Mux(condition, when_true, when_false), self.width_bits(when_true)),
        }
    }

    /// A binary operator other than [`Graph::multiply`].
    pub(super) fn binary(&mut self, operator: Binary, left: NodeId, right: NodeId) -> NodeId {
        let width_bits = self.width_bits(left);
        let all = mask(width_bits);
        let (a, b) = (self.constant_value(left), self.constant_value(right));
        match operator {
            Binary::And if a == Some(all) => return right,
            Binary::And if b == Some(all) => return left,
            Binary::And if a == Some(0) || b == Some(0) => return self.constant(0, width_bits),
            Binary::Or if a == Some(0) => return right,
            Binary::Or if b == Some(0) => return left,
            Binary::Or if a == Some(all) || b == Some(all) => return self.constant(all, width_bits),
            // Comparisons that are constant by range: lint tools take them for mistakes.
            Binary::Less if b == Some(0) || a == Some(all) => return self.constant(0, 1),
            Binary::Greater if a == Some(0) || b == Some(all) => return self.constant(0, 1),
            Binary::LessEqual if a == Some(0) || b == Some(all) => return self.constant(1, 1),
            Binary::GreaterEqual if b == Some(0) || a == Some(all) => return self.constant(1, 1),
            _ => {}
        }
        self.add(Operation::Binary(operator, left, right), if operator.comparison() { 1 } else { width_bits })
    }

    /// The product, as wide as both operands together. The operands are widened first: Verilog would do so silently,
    /// but lint tools complain.
    pub(super) fn multiply(&mut self, left: NodeId, right: NodeId, signed: bool) -> NodeId {
        let width_bits = self.width_bits(left) + self.width_bits(right);
        let left = self.widen(left, width_bits, signed);
        let right = self.widen(right, width_bits, signed);
        self.add(Operation::Binary(Binary::Multiply, left, right), width_bits)
    }

    fn widen(&mut self, source: NodeId, width_bits: u32, signed: bool) -> NodeId {
        let source_bits = self.width_bits(source);
        let missing_bits = width_bits - source_bits;
        let fill = if signed {
            let sign = self.slice(source, source_bits - 1, 1);
            self.repeat(sign, missing_bits)
        } else {
            self.constant(0, missing_bits)
        };
        self.concat(fill, source)
    }
}
