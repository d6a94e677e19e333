//! Carries atomics out.
//!
//! **Purpose.** Lets the read of an atomic be issued when no other atomic on the same 8 bytes is under way, takes its old
//! value and its operands, and has the new value written.
//!
//! **Handshake.** Channel `start` in, ready/valid: an atomic is read in the cycle in which it is taken. Pulse `old_valid` with `old_value` and `old_is_bad` in the order of the starts. Channel
//! `operands` in and channel `write` out, ready/valid. Pulse `ended`: the oldest atomic has been answered.
//!
//! **Latency and throughput.** One cycle until an atomic may be read; six from its old value, if its operands are there, to
//! its write; one per two cycles.
//!
//! **Timing.** The sum of 64 bits and the comparison are made between registers of their own.
//!
//! **Reset and flush.** Reset drops everything.
//!
//! **Hazards.** An atomic that waits for another one holds up the reads behind it. Plain writes are not kept apart from atomics.
//!
//! **Limits.** `mover_atomics_in_flight` atomics.

use crate::mover_records::{AtomicStart, AtomicWrite, status_like};
use crate::prim::{Design, Fifo, delay_record, input_channel, or_all, output_channel};
use keywalk_contract::{Config, MoverStatus};

/// Operands that wait for their atomics.
const OPERANDS: u32 = 16;
/// Bits of the address of 8 bytes.
const WORD_BITS: u32 = 61;

crate::record! {
    /// Operands of an atomic.
    pub struct Operands(_config) {
        /// 0: fetch and add. 1: compare and swap.
        is_swap: 1,
        /// What is added, or the new value.
        value: 64,
        /// The old value with which the new one is written.
        compare: 64,
    }
}

crate::record! {
    /// What an atomic's read brought.
    struct Old(_config) {
        /// The 8 bytes.
        value: 64,
        /// There are none.
        is_bad: 1,
    }
}

/// The block.
pub struct AtomicUnit;

impl AtomicUnit {
    /// Builds the module `atomic_unit` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("atomic_unit");
        let places = config.mover_atomics_in_flight;
        let place_bits = places.trailing_zeros();
        let start_valid = b.input("start_valid", 1);
        let start = input_channel(b, "start", AtomicStart::widths(config));
        let start_ready = b.forward("start_ready_q", 1);
        let taken = (start_valid & start_ready.value).named("start_taken");
        let old_valid = b.input("old_valid", 1);
        let old = input_channel(b, "old", Old::widths(config));
        let operands_valid = b.input("operands_valid", 1);
        let operands = input_channel(b, "operands", Operands::widths(config));
        let write_ready = b.input("write_ready", 1);
        let ended = b.input("ended", 1);

        // Places are taken and given back in turn, since atomics end in order.
        let newest = b.register_reset("newest", place_bits + 1, 0);
        let oldest = b.register_reset("oldest", place_bits + 1, 0);
        newest.next_if(taken, newest.value + 1);
        oldest.next_if(ended, oldest.value + 1);
        let is_full = (newest.value ^ oldest.value).is(1 << place_bits);
        let same: Vec<_> = (0..places)
            .map(|place| {
                let of = |pointer: crate::prim::Signal<'a>| pointer.low_bits(place_bits).is(place.into());
                let is_taken = taken & of(newest.value);
                let is_busy = b.register_reset(&format!("is_busy_{place}"), 1, 0);
                is_busy.next((is_taken & !start.is_empty) | (is_busy.value & !(ended & of(oldest.value))));
                let word = b.register(&format!("word_{place}"), WORD_BITS);
                word.next_if(is_taken, start.word);
                let counts = is_busy.value & !start.is_empty;
                word.value.eq_wide_and(start.word, counts).delay(&format!("is_same_{place}"))
            })
            .collect();
        // Compared with what was under way when it came, and since.
        let is_compared = (start_valid & !taken).delay_reset("is_compared");
        start_ready.drive(is_compared & !is_full & !or_all(&same));
        b.output("start_ready", start_ready.value);

        let (queue, operand) = Fifo::new(design, b, "operands_queue", OPERANDS, Operands::widths(config));
        queue.push(operands_valid, operands);
        b.output("operands_ready", operand.in_ready);
        let (starts, started) = Fifo::new(design, b, "starts", places, AtomicStart::widths(config));
        starts.push(taken, start);
        let (olds, found) = Fifo::new(design, b, "olds", places, Old::widths(config));
        olds.push(old_valid, old);
        let join = (operand.out_valid & started.out_valid & found.out_valid).named("join");
        queue.pop(join);
        starts.pop(join);
        olds.pop(join);

        // a: sum and comparison; b: the new value.
        let a_valid = join.delay_reset("a_valid");
        let a_sum = (found.out.value + operand.out.value).delay("a_sum");
        let a_matches = found.out.value.eq_wide(operand.out.compare).delay("a_matches");
        let a_operands = delay_record(operand.out, "a_operands");
        let a_is_bad = found.out.is_bad.delay("a_is_bad");
        let a = delay_record(started.out, "a");
        let is_failed = a_is_bad & !a.is_empty;
        let write = AtomicWrite {
            tag: a.tag,
            function: a.function,
            status: is_failed.mux(status_like(MoverStatus::ReadError, a.status), a.status),
            refusal: a.refusal,
            is_empty: a.is_empty | a_is_bad | (a_operands.is_swap & !a_matches),
            word: a.word,
            value: a_operands.is_swap.mux(a_operands.value, a_sum),
        };
        let (writes, out) = Fifo::new(design, b, "writes", places, AtomicWrite::widths(config));
        writes.push(a_valid.delay_reset("b_valid"), delay_record(write, "b"));
        writes.pop(write_ready);
        b.output("write_valid", out.out_valid);
        output_channel(b, "write", out.out);
        b.name().into()
    }
}
