//! Cuts segments into bursts.
//!
//! **Purpose.** A segment of any address and length becomes bursts of whole beats. Each ends at a multiple of the longest
//! burst's bytes or at the segment's end, so that none crosses 4 KiB or a segment.
//!
//! **Handshake.** Channel `segment` in and channel `burst` out, ready/valid.
//!
//! **Latency and throughput.** Two cycles from a segment to its first burst; one burst per cycle, and one cycle between
//! segments.
//!
//! **Timing.** The longest path adds offset and length of a segment, 33 bits, between registers.
//!
//! **Reset and flush.** Reset drops what is under way here.
//!
//! **Hazards.** None.
//!
//! **Limits.** Addresses are counted modulo 2^64.

use crate::mover_records::{MoverBurst, MoverSegment};
use crate::prim::{Builder, Design, Instance, Signal, drive_channel, hold_record, input_channel, output_channel};
use keywalk_contract::Config;

/// Name of the module.
const NAME: &str = "burst_cutter";

/// The block.
pub struct BurstCutter;

impl BurstCutter {
    /// Builds the module `burst_cutter` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module(NAME);
        let byte_bits = config.mover_byte_bits();
        let burst_bits = config.mover_burst_bits();
        let block_bits = byte_bits + burst_bits;
        let input_valid = b.input("segment_valid", 1);
        let input = input_channel(b, "segment", MoverSegment::widths(config));
        let burst_ready = b.input("burst_ready", 1);

        // The segment: its block of the longest burst's size, and its last byte counted from the beginning of that block.
        // From block to block the high part of that count falls by one and the low part stays.
        let is_open = b.register_reset("is_open", 1, 0);
        let out_valid = b.register_reset("burst_valid_q", 1, 0);
        let load = (input_valid & !is_open.value).named("load");
        let segment = hold_record(input, "held", load);
        let block = b.register("block", 64 - block_bits);
        let offset = b.register("offset", block_bits);
        let last_bits = 33;
        let last = b.register("last_byte", last_bits);
        let is_loaded = (is_open.value & (!out_valid.value | burst_ready)).named("advance");
        let remaining = last.value.high_bits(last_bits - block_bits);
        let is_final = (segment.is_empty | remaining.none_wide()).named("is_final");
        let end = last.value.low_bits(block_bits);
        is_open.next(load | (is_open.value & !(is_loaded & is_final)));
        block.next(load.mux(input.pa.high_bits(64 - block_bits), block.value + is_loaded.resize(64 - block_bits)));
        let kept_offset = is_loaded.mux(b.literal(0, block_bits), offset.value);
        offset.next(load.mux(input.pa.low_bits(block_bits), kept_offset));
        let first_last = input.extent.add_wide(input.pa.low_bits(block_bits).resize(32));
        let next_remaining = remaining - is_loaded.resize(last_bits - block_bits);
        last.next(load.mux(first_last, next_remaining.concat(end)));
        b.output("segment_ready", !is_open.value);

        let all = |bits: u32| b.literal((1 << bits) - 1, bits);
        let first_beat = offset.value.high_bits(burst_bits);
        let last_beat = is_final.mux(end.high_bits(burst_bits), all(burst_bits));
        let burst = MoverBurst {
            kind: segment.kind,
            tag: segment.tag,
            function: segment.function,
            status: segment.status,
            refusal: segment.refusal,
            last: segment.last & is_final,
            is_empty: segment.is_empty,
            beat: block.value.concat(first_beat),
            first_byte: offset.value.low_bits(byte_bits),
            last_byte: is_final.mux(end.low_bits(byte_bits), all(byte_bits)),
            beats: last_beat - first_beat,
        };
        out_valid.next(is_open.value | (out_valid.value & !burst_ready));
        b.output("burst_valid", out_valid.value);
        output_channel(b, "burst", hold_record(burst, "burst_q", is_loaded));
        NAME.into()
    }

    /// An instance that cuts what a queue offers: ready of the segments, valid of the bursts, and the burst.
    pub(crate) fn instance<'a>(
        b: &'a Builder<'a>,
        config: &Config,
        (valid, segment): (Signal<'a>, MoverSegment<Signal<'a>>),
        burst_ready: Signal<'a>,
    ) -> (Signal<'a>, Signal<'a>, MoverBurst<Signal<'a>>) {
        let instance: Instance<'a> = b.instance("cutter", NAME);
        instance.drive("segment_valid", valid);
        drive_channel(&instance, "segment", segment);
        instance.drive("burst_ready", burst_ready);
        let ready = instance.output("segment_ready", 1);
        (ready, instance.output("burst_valid", 1), instance.channel("burst", MoverBurst::widths(config)))
    }
}
