//! A queue between two clocks.
//!
//! Purpose: carries words of `W` bits from the write clock to the read clock, in order, none lost and none twice.
//! Handshake: AXI's, `write_valid` and `write_ready` on one side, `read_valid` and `read_ready` on the other. Ready and
//! valid are registers of their own clock; `read_data` is the memory's output register and waits with `read_valid`.
//! Latency: a word can be taken about `stages` + 2 edges of the read clock after its write. Throughput: one word per
//! cycle of the slower clock; `2^A` words must cover the way of a pointer there and back, so 16 or more.
//! Timing: pointers cross in Gray code, from a register to a synchroniser, so that one bit changes at a time; flags are
//! computed from pointers of their own clock and registered. Nothing else crosses but the memory's words, each of which was
//! written before the pointer that announces it began its way.
//! Reset: `write_reset` and `read_reset`, each of its own clock, empty a half. Both halves must be in reset at the same
//! time, and long enough for the other's pointer to arrive: `link` sees to it. A half that is reset alone makes the
//! other see words that are not there.
//! Limits: `P` is `A` + 1; the language cannot add them.

use crate::crossing::Synchroniser;
use crate::emit::{EmitError, Module, circuit};
use rust_hdl_core::prelude::*;
use rust_hdl_widgets::prelude::{DFF, RAM};

/// See the module.
#[derive(LogicBlock)]
pub struct AsyncFifo<const W: usize, const A: usize, const P: usize> {
    /// Clock of the writing side.
    pub write_clock: Signal<In, Clock>,
    /// Empties the writing half.
    pub write_reset: Signal<In, Bit>,
    /// A word is offered.
    pub write_valid: Signal<In, Bit>,
    /// The word is taken where it is offered; low in reset.
    pub write_ready: Signal<Out, Bit>,
    /// The word.
    pub write_data: Signal<In, Bits<W>>,
    /// Clock of the reading side.
    pub read_clock: Signal<In, Clock>,
    /// Empties the reading half.
    pub read_reset: Signal<In, Bit>,
    /// A word is offered; low in reset.
    pub read_valid: Signal<Out, Bit>,
    /// The word is taken where it is offered.
    pub read_ready: Signal<In, Bit>,
    /// The word.
    pub read_data: Signal<Out, Bits<W>>,

    memory: RAM<Bits<W>, A>,
    has_room: DFF<Bit>,
    write_pointer: DFF<Bits<P>>,
    write_gray: DFF<Bits<P>>,
    read_gray_at_write: Synchroniser<P>,
    has_word: DFF<Bit>,
    read_pointer: DFF<Bits<P>>,
    read_gray: DFF<Bits<P>>,
    write_gray_at_read: Synchroniser<P>,

    push: Signal<Local, Bit>,
    pop: Signal<Local, Bit>,
    write_next: Signal<Local, Bits<P>>,
    write_gray_next: Signal<Local, Bits<P>>,
    read_next: Signal<Local, Bits<P>>,
    read_gray_next: Signal<Local, Bits<P>>,
    /// In Gray code a full queue's pointers differ in their two high bits and in no other.
    full_difference: Constant<Bits<P>>,
}

impl<const W: usize, const A: usize, const P: usize> AsyncFifo<W, A, P> {
    /// A queue of `2^A` words, 4 or more, whose pointers pass through synchronisers of that many stages.
    #[must_use]
    pub fn new(stages: usize) -> Self {
        assert!(A >= 2 && P == A + 1, "pointers of {P} bits for 2^{A} words");
        Self {
            write_clock: Signal::default(),
            write_reset: Signal::default(),
            write_valid: Signal::default(),
            write_ready: Signal::default(),
            write_data: Signal::default(),
            read_clock: Signal::default(),
            read_reset: Signal::default(),
            read_valid: Signal::default(),
            read_ready: Signal::default(),
            read_data: Signal::default(),
            memory: RAM::default(),
            has_room: DFF::default(),
            write_pointer: DFF::default(),
            write_gray: DFF::default(),
            read_gray_at_write: Synchroniser::new(stages),
            has_word: DFF::default(),
            read_pointer: DFF::default(),
            read_gray: DFF::default(),
            write_gray_at_read: Synchroniser::new(stages),
            push: Signal::default(),
            pop: Signal::default(),
            write_next: Signal::default(),
            write_gray_next: Signal::default(),
            read_next: Signal::default(),
            read_gray_next: Signal::default(),
            full_difference: Constant::new((3_u64 << (P - 2)).to_bits()),
        }
    }
}

impl<const W: usize, const A: usize, const P: usize> Logic for AsyncFifo<W, A, P> {
    #[hdl_gen]
    fn update(&mut self) {
        self.memory.write_clock.next = self.write_clock.val();
        self.has_room.clock.next = self.write_clock.val();
        self.write_pointer.clock.next = self.write_clock.val();
        self.write_gray.clock.next = self.write_clock.val();
        self.read_gray_at_write.clock.next = self.write_clock.val();
        self.memory.read_clock.next = self.read_clock.val();
        self.has_word.clock.next = self.read_clock.val();
        self.read_pointer.clock.next = self.read_clock.val();
        self.read_gray.clock.next = self.read_clock.val();
        self.write_gray_at_read.clock.next = self.read_clock.val();

        // The writing half.
        self.push.next = self.write_valid.val() & self.has_room.q.val();
        self.write_next.next = self.write_pointer.q.val();
        if self.push.val() {
            self.write_next.next = self.write_pointer.q.val() + 1;
        }
        if self.write_reset.val() {
            self.write_next.next = 0.into();
        }
        self.write_gray_next.next = self.write_next.val() ^ (self.write_next.val() >> 1);
        self.write_pointer.d.next = self.write_next.val();
        self.write_gray.d.next = self.write_gray_next.val();
        self.read_gray_at_write.d.next = self.read_gray.q.val();
        self.has_room.d.next = !self.write_reset.val()
            & (self.write_gray_next.val() != (self.read_gray_at_write.q.val() ^ self.full_difference.val()));
        self.memory.write_address.next = bit_cast::<A, P>(self.write_pointer.q.val());
        self.memory.write_data.next = self.write_data.val();
        self.memory.write_enable.next = self.push.val();
        self.write_ready.next = self.has_room.q.val();

        // The reading half. The memory reads the word that is next at every edge, so that it is there with the flag.
        self.pop.next = self.has_word.q.val() & self.read_ready.val();
        self.read_next.next = self.read_pointer.q.val();
        if self.pop.val() {
            self.read_next.next = self.read_pointer.q.val() + 1;
        }
        if self.read_reset.val() {
            self.read_next.next = 0.into();
        }
        self.read_gray_next.next = self.read_next.val() ^ (self.read_next.val() >> 1);
        self.read_pointer.d.next = self.read_next.val();
        self.read_gray.d.next = self.read_gray_next.val();
        self.write_gray_at_read.d.next = self.write_gray.q.val();
        self.has_word.d.next = !self.read_reset.val() & (self.read_gray_next.val() != self.write_gray_at_read.q.val());
        self.memory.read_address.next = bit_cast::<A, P>(self.read_next.val());
        self.read_valid.next = self.has_word.q.val();
        self.read_data.next = self.memory.read_data.val();
    }
}

/// The name of the module of a queue.
#[must_use]
pub fn name(words: u32, width: u32) -> String {
    format!("async_fifo_{words}x{width}")
}

/// Sizes are types in rust-hdl, so those that the shell needs are listed: words and bits.
macro_rules! sizes {
    ($($words:literal x $width:literal: $address_bits:literal, $pointer_bits:literal;)*) => {
        /// Words and bits of every queue that there is.
        pub const SIZES: &[(u32, u32)] = &[$(($words, $width)),*];

        /// The module of a queue of one of [`SIZES`].
        ///
        /// # Errors
        /// A size that is not listed, and faults of this crate.
        pub fn module(words: u32, width: u32, stages: u32) -> Result<Module, EmitError> {
            let name = name(words, width);
            match (words, width) {
                $(($words, $width) => {
                    circuit(&name, AsyncFifo::<$width, $address_bits, $pointer_bits>::new(stages as usize))
                })*
                _ => Err(EmitError { circuit: name, what: format!("the size is not one of {SIZES:?}") }),
            }
        }
    };
}

sizes! {
    4 x 2: 2, 3;
    4 x 15: 2, 3;
    4 x 34: 2, 3;
    4 x 51: 2, 3;
    32 x 11: 5, 6;
    32 x 81: 5, 6;
    32 x 268: 5, 6;
    32 x 288: 5, 6;
    32 x 524: 5, 6;
    32 x 576: 5, 6;
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = AsyncFifo<8, 2, 3>;
    const WORDS: u64 = 40;

    #[test]
    fn words_pass_in_order_in_the_simulator_of_rust_hdl() {
        let mut simulation = Simulation::new();
        simulation.add_clock(5, |x: &mut Box<Small>| x.write_clock.next = !x.write_clock.val());
        simulation.add_clock(7, |x: &mut Box<Small>| x.read_clock.next = !x.read_clock.val());
        simulation.add_testbench(|mut sim: Sim<Small>| {
            let mut x = sim.init()?;
            for word in 0..WORDS {
                x.write_data.next = word.to_bits();
                x.write_valid.next = true;
                loop {
                    wait_clock_false!(sim, write_clock, x);
                    let is_ready = x.write_ready.val();
                    wait_clock_true!(sim, write_clock, x);
                    if is_ready {
                        break;
                    }
                }
            }
            x.write_valid.next = false;
            sim.done(x)
        });
        simulation.add_testbench(|mut sim: Sim<Small>| {
            let mut x = sim.init()?;
            x.read_ready.next = true;
            let mut expected = 0_u64;
            while expected < WORDS {
                wait_clock_false!(sim, read_clock, x);
                if x.read_valid.val() {
                    sim_assert_eq!(sim, x.read_data.val(), expected.to_bits::<8>(), x);
                    expected += 1;
                }
                wait_clock_true!(sim, read_clock, x);
            }
            sim.done(x)
        });
        let mut queue = Small::new(2);
        queue.connect_all();
        simulation.run(Box::new(queue), 100_000).expect("every word comes, in order, before the time is over");
    }

    #[test]
    fn a_size_that_is_not_listed_is_named() {
        let error = module(8, 7, 3).expect_err("8 words of 7 bits are not listed").to_string();
        assert!(error.contains("async_fifo_8x7") && error.contains("(4, 15)"), "{error}");
    }
}
