//! Scrubbing: a counter that visits every word of a memory after reset and on request.

use super::builder::Builder;
use super::signal::Signal;

/// State of a scrub.
pub struct Scrub<'a> {
    /// A word is to be written in this cycle.
    pub busy: Signal<'a>,
    /// Its address.
    pub address: Signal<'a>,
}

/// Counts through `2^address_bits` words, one per cycle, beginning after reset and after `start`.
///
/// While it is busy the owner writes the initial value at `address` and accepts nothing else.
#[must_use]
pub fn scrub<'a>(builder: &'a Builder<'a>, name: &str, address_bits: u32, start: Signal<'a>) -> Scrub<'a> {
    let count = builder.register_reset(&format!("{name}_count"), address_bits + 1, 0);
    let busy = (!count.value.bit(address_bits)).named(&format!("{name}_busy"));
    let advanced = count.value + busy.resize(address_bits + 1);
    count.next(start.mux(builder.literal(0, address_bits + 1), advanced));
    Scrub { busy, address: count.value.low_bits(address_bits) }
}
