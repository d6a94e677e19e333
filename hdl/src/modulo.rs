//! Remainder of a division, for a level-0 index at or above `bt_num`.
//!
//! **Purpose.** `value % divisor` where the divisor is no constant and no power of two; software keeps the index below
//! `bt_num`, so that the case is rare and a small slow unit does.
//!
//! **Handshake.** Channel `in` (`value`, `divisor`) and channel `out` (`remainder`), both ready/valid. `in_ready` and
//! `out_valid` are decoded from registers, `out_remainder` is one; one division at a time.
//!
//! **Latency and throughput.** From acceptance to `out_valid` 17 cycles, two bits of the value in each; a division every
//! 18 cycles.
//!
//! **Timing.** Two 11-bit subtractions with a selection each between registers.
//!
//! **Reset and flush.** Reset drops the division under way.
//!
//! **Hazards.** None.
//!
//! **Limits.** Divisors 1 to 1024. Divisor 0 gives a meaningless remainder in the same time.

use crate::prim::{Design, Signal};
use keywalk_contract::hem::BT_NUM_MAX;

/// Bits of the value.
pub const VALUE_BITS: u32 = 32;
/// Bits of the divisor, at most [`BT_NUM_MAX`].
pub const DIVISOR_BITS: u32 = 32 - BT_NUM_MAX.leading_zeros();
/// Bits of the remainder.
pub const REMAINDER_BITS: u32 = DIVISOR_BITS - 1;
/// Bits of the value that one cycle works on.
const STEPS_PER_CYCLE: u32 = 2;

/// The block.
pub struct Modulo;

impl Modulo {
    /// Builds the module `modulo`; gives its name.
    pub fn build<'a>(design: &Design<'a>) -> String {
        let name = "modulo";
        let b = design.module(name);
        let in_valid = b.input("in_valid", 1);
        let in_value = b.input("in_value", VALUE_BITS);
        let in_divisor = b.input("in_divisor", DIVISOR_BITS);
        let out_ready = b.input("out_ready", 1);

        let cycles = VALUE_BITS / STEPS_PER_CYCLE;
        let cycles_bits = cycles.trailing_zeros();
        let is_busy = b.register_reset("is_busy", 1, 0);
        let out_valid = b.register_reset("is_done", 1, 0);
        let count = b.register("count", cycles_bits);
        let value = b.register("value", VALUE_BITS);
        let divisor = b.register("divisor", DIVISOR_BITS);
        let remainder = b.register("remainder", REMAINDER_BITS);

        let in_ready = !(is_busy.value | out_valid.value);
        let start = (in_valid & in_ready).named("start");
        let is_last = count.value.is((cycles - 1).into());
        is_busy.next(start | (is_busy.value & !is_last));
        count.next(start.mux(b.literal(0, cycles_bits), count.value + 1));
        out_valid.next((is_busy.value & is_last) | (out_valid.value & !out_ready));
        divisor.next_if(start, in_divisor);
        value.next(start.mux(in_value, value.value.low_bits(VALUE_BITS - STEPS_PER_CYCLE).concat(b.literal(0, 2))));

        // Restoring division: a remainder below the divisor with the next bit appended is below twice the divisor.
        let step = |remainder: Signal<'a>, bit: Signal<'a>| {
            let appended = remainder.concat(bit);
            let difference = appended.resize(DIVISOR_BITS + 1) - divisor.value.resize(DIVISOR_BITS + 1);
            difference.bit(DIVISOR_BITS).mux(appended.low_bits(REMAINDER_BITS), difference.low_bits(REMAINDER_BITS))
        };
        let halfway = step(remainder.value, value.value.bit(VALUE_BITS - 1));
        let stepped = step(halfway, value.value.bit(VALUE_BITS - 2));
        let working = is_busy.value.mux(stepped, remainder.value);
        remainder.next(start.mux(b.literal(0, REMAINDER_BITS), working));

        b.output("in_ready", in_ready);
        b.output("out_valid", out_valid.value);
        b.output("out_remainder", remainder.value);
        name.into()
    }
}
