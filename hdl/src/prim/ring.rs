//! Rings: numbered records are put back into the order of their numbers.
//!
//! Handshake: `write` in any order, one per cycle; `valid` is set while the record whose turn it is has been written, and
//! it is taken where `ready` is set too. Latency: a record written into its turn is offered two cycles later. Throughput:
//! one in and one out per cycle. Reset: all words are scrubbed, one per cycle; `is_clean` rises when that is done, and
//! nothing may be written before. Hazards: each word tells by one bit in which lap it was written; in the cycle of a write
//! the old word is read, and read again in the next cycle. Limits: numbers are given in turn, modulo the words; a number
//! may be given again only when its last record has been taken.

use super::builder::Builder;
use super::ram::{Ram, RamStyle, Word};
use super::record::Record;
use super::scrub::scrub;
use super::signal::Signal;

/// A record that is written into a ring.
pub struct RingWrite<'a, R> {
    /// There is one.
    pub valid: Signal<'a>,
    /// Its number.
    pub number: Signal<'a>,
    /// The record.
    pub record: R,
}

/// Outputs of a ring.
pub struct Ring<'a, T> {
    /// Every word has been scrubbed.
    pub is_clean: Signal<'a>,
    /// The record whose turn it is, is there.
    pub valid: Signal<'a>,
    /// Number whose turn it is; registered.
    pub number: Signal<'a>,
    /// The record, straight from the memory.
    pub out: T,
}

impl<'a, T> Ring<'a, T>
where
    T: Record<Signal<'a>>,
{
    /// A ring of `words` words, a power of two of at least 2.
    pub fn new<R>(
        b: &'a Builder<'a>,
        name: &str,
        (words, style): (u32, RamStyle),
        widths: R,
        write: RingWrite<'a, T>,
        ready: Signal<'a>,
    ) -> Self
    where
        R: Record<u32, With<Signal<'a>> = T>,
        (R, Word<u32>): Record<u32, With<Signal<'a>> = (T, Word<Signal<'a>>)>,
        (T, Word<Signal<'a>>): Record<Signal<'a>>,
    {
        let bits = words.trailing_zeros();
        let named = |part: &str| format!("{name}_{part}");
        let clean = scrub(b, &named("scrub"), bits, b.flag(false));
        let turn = b.register_reset(&named("turn"), bits + 1, 0);
        let lap = turn.value.bit(bits);
        let number = turn.value.low_bits(bits);
        let memory = Ram::new(b, name, words, style, (widths, Word { value: 1 }));
        // A number below the one whose turn it is, is of the next lap. The first lap writes 0, over what scrubbing wrote.
        let write_lap = (lap ^ write.number.lt(number)).named(&named("write_lap"));
        memory.write(
            clean.busy.mux(clean.address, write.number),
            (write.record, Word { value: write_lap | clean.busy }),
            write.valid | clean.busy,
        );
        let take = b.forward(&named("take"), 1);
        let next_turn = take.value.mux(turn.value + 1, turn.value);
        turn.next(next_turn);
        let (out, Word { value: out_lap }) = memory.read(next_turn.low_bits(bits), b.flag(true));
        let valid = (!(out_lap ^ lap) & !clean.busy).named(&named("valid"));
        take.drive(valid & ready);
        Self { is_clean: !clean.busy, valid, number, out }
    }
}
