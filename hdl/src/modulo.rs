//! Remainder of a division, for a level-0 index at or above `bt_num`.
//!
//! **Purpose.** `(value >> shift) % divisor` where the divisor is no constant and no power of two; software keeps the index below
//! `bt_num`, so that the case is rare and a small slow unit does.
//!
//! **Handshake.** Channel `in` (`value`, `shift`, `divisor`): valid; the payload stays until the remainder is there, and
//! goes, or is replaced, in the cycle after. `out_valid` is a pulse and a register, `out_remainder` goes with it; nothing
//! waits for it. One division at a time.
//!
//! **Latency and throughput.** From `in_valid` to `out_valid` 34 cycles less `shift`: a cycle for each bit of the value
//! that is left. The next one follows two cycles later.
//!
//! **Timing.** An 11-bit subtraction with a selection. The bit that it takes in is selected a cycle ahead.
//!
//! **Reset and flush.** Reset drops the division under way.
//!
//! **Hazards.** None.
//!
//! **Limits.** Divisors 1 to 1024. Divisor 0 gives a meaningless remainder in the same time.

use crate::prim::{Design, select_tree};
use keywalk_contract::hem::BT_NUM_MAX;

/// Bits of the value.
pub const VALUE_BITS: u32 = 32;
/// Bits of the divisor, at most [`BT_NUM_MAX`].
pub const DIVISOR_BITS: u32 = 32 - BT_NUM_MAX.leading_zeros();
/// Bits of the remainder.
pub const REMAINDER_BITS: u32 = DIVISOR_BITS - 1;
/// Bits of the shift.
const SHIFT_BITS: u32 = VALUE_BITS.trailing_zeros();

/// The block.
pub struct Modulo;

impl Modulo {
    /// Builds the module `modulo`; gives its name.
    pub fn build(design: &Design<'_>) -> String {
        let name = "modulo";
        let b = design.module(name);
        let in_valid = b.input("in_valid", 1);
        let in_value = b.input("in_value", VALUE_BITS);
        let in_shift = b.input("in_shift", SHIFT_BITS);
        let in_divisor = b.input("in_divisor", DIVISOR_BITS);

        // The highest bit is selected in the cycle in which the division begins.
        let is_busy = b.register_reset("is_busy", 1, 0);
        let position = b.register_reset("position", SHIFT_BITS, (VALUE_BITS - 1).into());
        let remainder = b.register("remainder", REMAINDER_BITS);
        let bits: Vec<_> = (0..VALUE_BITS).map(|bit| in_value.bit(bit)).collect();
        let bit = select_tree(position.value, &bits).delay("bit");
        let is_last = position.value.eq(in_shift);
        let is_stepping = is_busy.value.delay_reset("is_stepping");
        let out_valid = (is_busy.value & is_last).delay_reset("is_last_step").delay_reset("is_done");
        let start = (in_valid & !is_busy.value & !is_stepping & !out_valid).named("start");
        is_busy.next(start | (is_busy.value & !is_last));
        let highest = b.literal((VALUE_BITS - 1).into(), SHIFT_BITS);
        position.next(is_busy.value.mux(position.value - 1, highest));

        // Restoring division: a remainder below the divisor with the next bit appended is below twice the divisor.
        let appended = remainder.value.concat(bit);
        let difference = appended.resize(DIVISOR_BITS + 1) - in_divisor.resize(DIVISOR_BITS + 1);
        let is_below = difference.bit(DIVISOR_BITS);
        let stepped = is_below.mux(appended.low_bits(REMAINDER_BITS), difference.low_bits(REMAINDER_BITS));
        let kept = remainder.value & (!start).repeat(REMAINDER_BITS);
        remainder.next(is_stepping.mux(stepped, kept));

        b.output("out_valid", out_valid);
        b.output("out_remainder", remainder.value);
        name.into()
    }
}
