//! The machine of one accumulator that carries out the command unit's program. A part of the command unit, not a block.
//!
//! An instruction takes five cycles: fetch, address, operand, operand register, result. Words have 32 bits, as the driver's
//! dwords.

use crate::prim::{Builder, Ram, RamStyle, Rom, Signal, or_all};
use std::collections::BTreeMap;

/// Bits of a word.
pub const WORD_BITS: u32 = 32;
/// Bits of a place in the program.
pub const PLACE_BITS: u32 = 11;
/// Bits of a place in the memory.
const MEMORY_BITS: u32 = 10;
/// Bits of a port's number.
pub const PORT_BITS: u32 = 6;
/// Bits of a word's place in a line.
const LINE_BITS: u32 = 4;
const OP_BITS: u32 = 5;
const SOURCE_BITS: u32 = 2;
const INSTRUCTION_BITS: u32 = WORD_BITS + PLACE_BITS + SOURCE_BITS + OP_BITS;

/// What an instruction does. The discriminant is its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The accumulator takes the operand.
    Load = 0,
    /// Sum; the carry is the sum's.
    Add = 1,
    /// Sum with the carry before.
    AddCarry = 2,
    /// Accumulator less operand; the carry is set where there is no borrow.
    Subtract = 3,
    /// The same with the borrow before.
    SubtractBorrow = 4,
    /// Bitwise and.
    And = 5,
    /// Bitwise or.
    Or = 6,
    /// Bitwise exclusive or.
    Xor = 7,
    /// One bit to the right, the carry before comes in at the top; the carry is the bit that falls off.
    ShiftRight = 8,
    /// Eight bits round to the left.
    RotateByte = 9,
    /// The memory's word takes the accumulator.
    Store = 10,
    /// `x` takes the accumulator.
    SetX = 11,
    /// Jumps.
    Jump = 12,
    /// Jumps where the accumulator is zero.
    JumpZero = 13,
    /// Jumps where it is not zero.
    JumpNonZero = 14,
    /// Jumps where the carry is set.
    JumpCarry = 15,
    /// Jumps where it is not set.
    JumpNoCarry = 16,
    /// Jumps, and takes one from `x`, where `x` is not zero.
    CountDown = 17,
    /// An output takes the accumulator.
    Output = 18,
    /// An action begins; the program goes on when it has ended.
    Act = 19,
    /// Jumps, and notes the place behind; a subroutine may call one more.
    Call = 20,
    /// Jumps to the place noted last, and forgets it.
    Return = 21,
}

/// Where the operand comes from. The discriminant is its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A constant.
    Constant(u32),
    /// A word of the memory.
    Word(u32),
    /// A word of the memory, `x` words further.
    WordX(u32),
    /// A port.
    Port(u32),
    /// A port, as many ports further as the lowest four bits of `x` say: a word of a line.
    PortX(u32),
}

/// A program under construction.
#[derive(Default)]
pub struct Assembler {
    words: Vec<u128>,
    labels: BTreeMap<String, u32>,
    jumps: Vec<(usize, String)>,
}

impl Assembler {
    fn push(&mut self, op: Op, source: u32, place: u32, constant: u32) {
        assert!(place < 1 << PLACE_BITS, "place {place}");
        let high = u128::from((op as u32) << SOURCE_BITS | source) << PLACE_BITS | u128::from(place);
        self.words.push(high << WORD_BITS | u128::from(constant));
    }

    /// An instruction with an operand.
    pub fn take(&mut self, op: Op, from: From) {
        match from {
            From::Constant(constant) => self.push(op, 0, 0, constant),
            From::Word(place) => self.push(op, 1, place, 0),
            From::WordX(place) => self.push(op, 1 | 2, place, 0),
            From::Port(port) => self.push(op, 0b00, 1 << (PLACE_BITS - 1), port),
            From::PortX(port) => self.push(op, 0b10, 1 << (PLACE_BITS - 1), port),
        }
    }

    /// The memory's word takes the accumulator.
    pub fn store(&mut self, place: u32) {
        self.push(Op::Store, 1, place, 0);
    }

    /// The memory's word `x` words further takes the accumulator.
    pub fn store_x(&mut self, place: u32) {
        self.push(Op::Store, 3, place, 0);
    }

    /// An instruction with neither operand nor target.
    pub fn plain(&mut self, op: Op) {
        self.push(op, 0, 0, 0);
    }

    /// An output, an output of a line's words at the lowest four bits of `x`, or an action.
    pub fn number(&mut self, op: Op, is_indexed: bool, number: u32) {
        self.push(op, if is_indexed { 2 } else { 0 }, 0, number);
    }

    /// A jump to a label.
    pub fn jump(&mut self, op: Op, label: &str) {
        self.jumps.push((self.words.len(), label.into()));
        self.push(op, 0, 0, 0);
    }

    /// Place of the next instruction.
    pub fn position(&self) -> usize {
        self.words.len()
    }

    /// The next instruction has this name.
    ///
    /// # Panics
    /// When another one has.
    pub fn label(&mut self, label: &str) {
        let place = self.words.len() as u32;
        assert!(self.labels.insert(label.into(), place).is_none(), "two places are called {label}");
    }

    /// The program.
    ///
    /// # Panics
    /// On a jump to nowhere.
    #[must_use]
    pub fn finish(mut self) -> Vec<u128> {
        for (position, label) in &self.jumps {
            let target = self.labels.get(label).unwrap_or_else(|| panic!("nothing is called {label}"));
            self.words[*position] |= u128::from(*target) << WORD_BITS;
        }
        self.words
    }
}

/// What the machine shows outside.
pub struct Machine<'a> {
    /// Number of the port that is read; its word is expected a cycle later.
    pub port: Signal<'a>,
    /// The output of that number takes `word` in this cycle.
    pub outputs: Signal<'a>,
    /// The action of that number begins in this cycle.
    pub acts: Signal<'a>,
    /// Number of the output or action.
    pub number: Signal<'a>,
    /// The accumulator.
    pub word: Signal<'a>,
}

/// Builds the machine. `port_word` is the word of the port, a register; `done` ends an action.
pub fn machine<'a>(b: &'a Builder<'a>, program: &[u128], port_word: Signal<'a>, done: Signal<'a>) -> Machine<'a> {
    let waits = b.register_reset("waits", 1, 0);
    let cycle = b.register_reset("cycle", 5, 1);
    let goes = (!waits.value | done).named("goes");
    cycle.next_if(goes, cycle.value.low_bits(4).concat(cycle.value.bit(4)));
    let is_end = cycle.value.bit(4);

    // Fetch.
    let counter = b.register_reset("program_counter", PLACE_BITS, 0);
    let instruction = Rom::new(b, "program", PLACE_BITS, INSTRUCTION_BITS, program).read(counter.value);
    let constant = instruction.low_bits(WORD_BITS);
    let place = instruction.bits(WORD_BITS + PLACE_BITS - 1, WORD_BITS);
    let is_word = instruction.bit(WORD_BITS + PLACE_BITS);
    let is_indexed = instruction.bit(WORD_BITS + PLACE_BITS + 1);
    let op = instruction.high_bits(OP_BITS);
    let is = |what: Op| op.is(what as u128).delay(&format!("is_{what:?}").to_lowercase());

    // Address.
    let x = b.register("x", MEMORY_BITS);
    let distance = is_indexed.repeat(MEMORY_BITS) & x.value;
    let address = (place.low_bits(MEMORY_BITS) + distance).delay("address");
    let port = (constant.low_bits(PORT_BITS) + distance.low_bits(LINE_BITS).resize(PORT_BITS)).delay("port");
    let is_port = (!is_word & place.bit(PLACE_BITS - 1)).delay("is_port");
    let is_held = is_word.delay("is_held");

    // Operand.
    let memory = Ram::of_words(b, "memory", 1 << MEMORY_BITS, RamStyle::Block, WORD_BITS);
    let accumulator = b.register("accumulator", WORD_BITS);
    let held = memory.read_word(address, b.flag(true));
    memory.write_word(address, accumulator.value, is_end & is(Op::Store));
    let is_constant = !is_port & !is_held;
    let parts = [(is_constant, constant), (is_held, held), (is_port, port_word)];
    let operand = or_all(&parts.map(|(select, word)| select.repeat(WORD_BITS) & word)).delay("operand");

    // Result.
    let carry = b.register("carry", 1);
    let [load, add, add_carry, subtract, subtract_borrow] =
        [Op::Load, Op::Add, Op::AddCarry, Op::Subtract, Op::SubtractBorrow].map(is);
    let [and, or, xor, shift, rotate] = [Op::And, Op::Or, Op::Xor, Op::ShiftRight, Op::RotateByte].map(is);
    let inverts = subtract | subtract_borrow;
    let carry_in = subtract | ((add_carry | subtract_borrow) & carry.value);
    let one = b.flag(true);
    let (left, right) = (accumulator.value.concat(one), (operand ^ inverts.repeat(WORD_BITS)).concat(carry_in));
    let sum = left.add_wide(right);
    let is_sum = (add | add_carry | inverts).named("is_sum");
    let value = accumulator.value;
    let logic = or_all(&[
        load.repeat(WORD_BITS) & operand,
        and.repeat(WORD_BITS) & value & operand,
        or.repeat(WORD_BITS) & (value | operand),
        xor.repeat(WORD_BITS) & (value ^ operand),
        shift.repeat(WORD_BITS) & carry.value.concat(value.high_bits(WORD_BITS - 1)),
        rotate.repeat(WORD_BITS) & value.low_bits(WORD_BITS - 8).concat(value.high_bits(8)),
    ]);
    let changes = is_sum | load | and | or | xor | shift | rotate;
    accumulator.next_if(is_end & changes, is_sum.mux(sum.bits(WORD_BITS, 1), logic));
    carry.next_if(is_end & (is_sum | shift), is_sum.mux(sum.bit(WORD_BITS + 1), value.bit(0)));

    let is_zero = value.none().delay("accumulator_is_zero");
    let x_is_zero = x.value.none().delay("x_is_zero");
    let counts = is(Op::CountDown) & !x_is_zero;
    let sets_x = is(Op::SetX);
    x.next_if(is_end & (sets_x | counts), sets_x.mux(value.low_bits(MEMORY_BITS), x.value - 1));
    let call = is(Op::Call);
    let jumps = or_all(&[
        is(Op::Jump),
        call,
        is(Op::JumpZero) & is_zero,
        is(Op::JumpNonZero) & !is_zero,
        is(Op::JumpCarry) & carry.value,
        is(Op::JumpNoCarry) & !carry.value,
        counts,
    ])
    .named("jumps");
    let next = (counter.value + 1).named("next_place");
    let returns = is(Op::Return);
    let [noted, noted_before] = ["noted_place", "noted_place_before"].map(|name| b.register(name, PLACE_BITS));
    noted.next_if(is_end & (call | returns), call.mux(next, noted_before.value));
    noted_before.next_if(is_end & call, noted.value);
    counter.next_if(is_end, returns.mux(noted.value, jumps.mux(place, next)));
    let acts = (is_end & is(Op::Act)).named("acts");
    waits.next(acts | (waits.value & !done));
    Machine { port, outputs: is_end & is(Op::Output), acts, number: port, word: value }
}
