//! Signals: kaze signals whose every operator result is exposed once.

use super::builder::Builder;

/// A value of 1 to 128 bits in one module. Copies refer to the same node.
#[derive(Clone, Copy)]
pub struct Signal<'a> {
    pub(super) builder: &'a Builder<'a>,
    pub(super) node: &'a kaze::Signal<'a>,
    pub(super) literal: Option<u128>,
}

macro_rules! binary {
    ($trait:ident, $method:ident, $operator:tt, $kind:literal) => {
        impl<'a> std::ops::$trait for Signal<'a> {
            type Output = Signal<'a>;
            fn $method(self, other: Signal<'a>) -> Signal<'a> {
                self.builder.expose($kind, self.node $operator other.node)
            }
        }
        impl<'a> std::ops::$trait<u128> for Signal<'a> {
            type Output = Signal<'a>;
            fn $method(self, other: u128) -> Signal<'a> {
                let other = self.builder.literal(other, self.width());
                self $operator other
            }
        }
    };
}

binary!(Add, add, +, "add");
binary!(Sub, sub, -, "sub");
binary!(BitAnd, bitand, &, "and");
binary!(BitOr, bitor, |, "or");
binary!(BitXor, bitxor, ^, "xor");

impl<'a> std::ops::Not for Signal<'a> {
    type Output = Signal<'a>;
    fn not(self) -> Signal<'a> {
        self.builder.expose("not", !self.node)
    }
}

impl<'a> Signal<'a> {
    /// Number of bits.
    #[must_use]
    pub fn width(self) -> u32 {
        self.node.bit_width()
    }

    /// The builder of the module that the signal belongs to.
    #[must_use]
    pub fn builder(self) -> &'a Builder<'a> {
        self.builder
    }

    fn wrap(self, node: &'a kaze::Signal<'a>) -> Signal<'a> {
        Signal { builder: self.builder, node, literal: None }
    }

    /// Gives the node a name that stays in the Verilog.
    #[must_use]
    pub fn named(self, name: &str) -> Signal<'a> {
        self.builder.expose_named(name, self.node)
    }

    /// One bit.
    #[must_use]
    pub fn bit(self, index: u32) -> Signal<'a> {
        self.bits(index, index)
    }

    /// Bits `high..=low`.
    #[must_use]
    pub fn bits(self, high: u32, low: u32) -> Signal<'a> {
        if low == 0 && high + 1 == self.width() {
            return self;
        }
        // kaze prints a part-select of a literal, which is no Verilog.
        if let Some(value) = self.literal {
            let width = high - low + 1;
            let mask = if width == 128 { u128::MAX } else { (1 << width) - 1 };
            return self.builder.literal(value >> low & mask, width);
        }
        self.wrap(self.node.bits(high, low))
    }

    /// The lowest `width` bits.
    #[must_use]
    pub fn low_bits(self, width: u32) -> Signal<'a> {
        self.bits(width - 1, 0)
    }

    /// The highest `width` bits.
    #[must_use]
    pub fn high_bits(self, width: u32) -> Signal<'a> {
        self.bits(self.width() - 1, self.width() - width)
    }

    /// `self` above `low`.
    #[must_use]
    pub fn concat(self, low: Signal<'a>) -> Signal<'a> {
        self.wrap(self.node.concat(low.node))
    }

    /// `count` copies side by side.
    #[must_use]
    pub fn repeat(self, count: u32) -> Signal<'a> {
        if count == 1 { self } else { self.wrap(self.node.repeat(count)) }
    }

    /// Extended with zeros, or cut, to `width` bits.
    #[must_use]
    pub fn resize(self, width: u32) -> Signal<'a> {
        match width.cmp(&self.width()) {
            std::cmp::Ordering::Equal => self,
            std::cmp::Ordering::Less => self.low_bits(width),
            std::cmp::Ordering::Greater => self.builder.literal(0, width - self.width()).concat(self),
        }
    }

    /// Unsigned equality, one bit.
    #[must_use]
    pub fn eq(self, other: Signal<'a>) -> Signal<'a> {
        self.builder.expose("eq", self.node.eq(other.node))
    }

    /// Equality with a constant.
    #[must_use]
    pub fn is(self, value: u128) -> Signal<'a> {
        self.eq(self.builder.literal(value, self.width()))
    }

    /// Unsigned inequality.
    #[must_use]
    pub fn ne(self, other: Signal<'a>) -> Signal<'a> {
        self.builder.expose("ne", self.node.ne(other.node))
    }

    /// Unsigned `self < other`.
    #[must_use]
    pub fn lt(self, other: Signal<'a>) -> Signal<'a> {
        self.builder.expose("lt", self.node.lt(other.node))
    }

    /// Unsigned `self >= other`.
    #[must_use]
    pub fn ge(self, other: Signal<'a>) -> Signal<'a> {
        self.builder.expose("ge", self.node.ge(other.node))
    }

    /// As [`eq`](Self::eq), for signals of more than about 12 bits: three bits of each side per LUT, and the carry of an
    /// increment tells whether all of them agree. Synthesis makes a deep tree of a plain comparison.
    #[must_use]
    pub fn eq_wide(self, other: Signal<'a>) -> Signal<'a> {
        self.agreements(other).all_set()
    }

    /// [`eq_wide`](Self::eq_wide) and a condition, which has a place of its own in the carry chain: it may be the output of
    /// a LUT without making the comparison deeper.
    #[must_use]
    pub fn eq_wide_and(self, other: Signal<'a>, condition: Signal<'a>) -> Signal<'a> {
        condition.concat(self.agreements(other)).all_set()
    }

    /// Whether the signals agree, for each three bits: what [`eq_wide`](Self::eq_wide) puts into its carry chain.
    #[must_use]
    pub fn agreements(self, other: Signal<'a>) -> Signal<'a> {
        let width = self.width();
        let parts: Vec<_> = (0..width.div_ceil(3))
            .map(|part| {
                let (high, low) = ((3 * part + 2).min(width - 1), 3 * part);
                self.bits(high, low).eq(other.bits(high, low))
            })
            .collect();
        concat(&parts)
    }

    /// Every bit is set, found by the carry of an increment.
    #[must_use]
    pub fn all_set(self) -> Signal<'a> {
        self.add_wide(self.builder.literal(1, self.width())).bit(self.width())
    }

    /// Any bit is set.
    #[must_use]
    pub fn any(self) -> Signal<'a> {
        if self.width() == 1 { self } else { self.ne(self.builder.literal(0, self.width())) }
    }

    /// No bit is set.
    #[must_use]
    pub fn none(self) -> Signal<'a> {
        if self.width() == 1 { !self } else { self.is(0) }
    }

    /// As [`none`](Self::none), found in a carry chain: six bits per LUT.
    #[must_use]
    pub fn none_wide(self) -> Signal<'a> {
        let width = self.width();
        let parts: Vec<_> = (0..width).step_by(6).map(|low| self.bits((low + 5).min(width - 1), low).none()).collect();
        concat(&parts).all_set()
    }

    /// `self ? when_true : when_false`; `self` has one bit.
    #[must_use]
    pub fn mux(self, when_true: Signal<'a>, when_false: Signal<'a>) -> Signal<'a> {
        self.builder.expose("mux", self.node.mux(when_true.node, when_false.node))
    }

    /// Shifted left by a signal; bits fall off the top.
    #[must_use]
    pub fn shift_left(self, amount: Signal<'a>) -> Signal<'a> {
        self.builder.expose("shl", self.node << amount.node)
    }

    /// Shifted right by a signal, zeros in.
    #[must_use]
    pub fn shift_right(self, amount: Signal<'a>) -> Signal<'a> {
        self.builder.expose("shr", self.node >> amount.node)
    }

    /// The lowest `width` bits of [`shift_right`](Self::shift_right), by two bits of the amount per LUT, the highest first:
    /// fewer levels than synthesis makes of a plain shift, and no bits that fall off later.
    #[must_use]
    pub fn shift_right_low(self, amount: Signal<'a>, width: u32) -> Signal<'a> {
        let mut value = self;
        let mut high = amount.width();
        while high > 0 {
            let low = high.saturating_sub(2);
            let needed = width + (1 << low) - 1;
            let choices: Vec<_> = (0..1u32 << (high - low))
                .map(|choice| {
                    let distance = choice << low;
                    if distance >= value.width() {
                        return self.builder.literal(0, needed);
                    }
                    let top = (distance + needed).min(value.width());
                    value.bits(top - 1, distance).resize(needed)
                })
                .collect();
            value = select_tree(amount.bits(high - 1, low), &choices);
            high = low;
        }
        value
    }

    /// Sum with the carry: one bit wider than the operands.
    #[must_use]
    pub fn add_wide(self, other: Signal<'a>) -> Signal<'a> {
        self.resize(self.width() + 1) + other.resize(other.width() + 1)
    }

    /// The value one cycle later, not reset.
    #[must_use]
    pub fn delay(self, name: &str) -> Signal<'a> {
        let register = self.builder.register(name, self.width());
        register.next(self);
        register.value
    }

    /// The value one cycle later, zero after reset.
    #[must_use]
    pub fn delay_reset(self, name: &str) -> Signal<'a> {
        let register = self.builder.register_reset(name, self.width(), 0);
        register.next(self);
        register.value
    }

    /// The value of the last cycle in which `enable` was set, not reset.
    #[must_use]
    pub fn hold(self, name: &str, enable: Signal<'a>) -> Signal<'a> {
        let register = self.builder.register(name, self.width());
        register.next(enable.mux(self, register.value));
        register.value
    }
}

/// Signals side by side, the first one highest.
///
/// # Panics
/// On an empty list.
#[must_use]
pub fn concat<'a>(signals: &[Signal<'a>]) -> Signal<'a> {
    let (first, rest) = signals.split_first().expect("a concatenation has at least one part");
    rest.iter().fold(*first, |high, low| high.concat(*low))
}

/// The OR of signals of equal width, as a balanced tree.
///
/// # Panics
/// On an empty list.
#[must_use]
pub fn or_all<'a>(signals: &[Signal<'a>]) -> Signal<'a> {
    match signals {
        [] => panic!("an OR has at least one operand"),
        [only] => *only,
        _ => {
            let (low, high) = signals.split_at(signals.len() / 2);
            or_all(low) | or_all(high)
        }
    }
}

/// The value whose select bit is set; zero where none is. At most one may be set.
#[must_use]
pub fn select_one_hot<'a>(cases: &[(Signal<'a>, Signal<'a>)]) -> Signal<'a> {
    let masked: Vec<_> = cases.iter().map(|(select, value)| select.repeat(value.width()) & *value).collect();
    or_all(&masked)
}

/// Number of the set bit, in `bits` bits; zero where none is set. At most one may be set.
#[must_use]
pub fn encode_one_hot<'a>(flags: &[Signal<'a>], bits: u32) -> Signal<'a> {
    let builder = flags.first().expect("at least one flag").builder();
    let parts: Vec<_> = (0..bits)
        .rev()
        .map(|bit| {
            let members: Vec<_> =
                flags.iter().enumerate().filter(|(number, _)| number >> bit & 1 == 1).map(|(_, flag)| *flag).collect();
            if members.is_empty() { builder.flag(false) } else { or_all(&members) }
        })
        .collect();
    concat(&parts)
}

/// The value of the first case whose condition is set, `otherwise` where none is.
#[must_use]
pub fn select_first<'a>(cases: &[(Signal<'a>, Signal<'a>)], otherwise: Signal<'a>) -> Signal<'a> {
    cases.iter().rev().fold(otherwise, |rest, (condition, value)| condition.mux(*value, rest))
}

/// The value numbered by `number`, for a power of two of values: a tree of two-way selects, which synthesis packs into
/// LUTs of four inputs and the multiplexers behind them.
///
/// # Panics
/// When there are not as many values as numbers.
#[must_use]
pub fn select_tree<'a>(number: Signal<'a>, values: &[Signal<'a>]) -> Signal<'a> {
    assert_eq!(values.len(), 1 << number.width(), "one value for each number");
    let top = number.width() - 1;
    if top == 0 {
        return number.mux(values[1], values[0]);
    }
    let (low, high) = values.split_at(values.len() / 2);
    let rest = number.low_bits(top);
    number.bit(top).mux(select_tree(rest, high), select_tree(rest, low))
}

/// The value of that number; the first one for a number without a value.
///
/// # Panics
/// On an empty list.
#[must_use]
pub fn select_by_number<'a>(values: &[Signal<'a>], number: Signal<'a>) -> Signal<'a> {
    let (first, rest) = values.split_first().expect("at least one value");
    rest.iter().zip(1u128..).fold(*first, |chosen, (value, of)| number.is(of).mux(*value, chosen))
}
