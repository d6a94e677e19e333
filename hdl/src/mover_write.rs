//! Brings the payload of writes to the alignment of its destination.
//!
//! **Purpose.** Cuts segments into bursts and makes their beats: the payload's bytes turned to where they belong, strobes
//! exact at both ends. A burst is passed on when all of its beats are there, so that a slow payload never holds the bus. The
//! payload of what is not written is dropped.
//!
//! **Handshake.** Channels `segment` and `payload` in, channels `burst` and `beat` out, ready/valid. `payload` has one
//! packet for each response; bytes without `keep` come behind all others and in a packet's last beat only.
//!
//! **Latency and throughput.** Ten cycles from a segment, if its payload is there, to its burst, and one for each further
//! beat; one beat per cycle, and one cycle without any behind a segment whose last burst has one beat.
//!
//! **Timing.** The payload that is left over is counted in one stage, the bytes are selected in the same, turn in two, and
//! strobes are made in the last of these. The longest path, seven LUT levels, leads from what is left over through the step
//! to the cutter.
//!
//! **Reset and flush.** Reset drops everything.
//!
//! **Hazards.** Payload that is too short or too long changes no other packet: the next one begins with its own first beat.
//!
//! **Limits.** `mover_write_depth()` beats, at least two of the longest bursts.

use crate::burst_cutter::BurstCutter;
use crate::byte_rotator::ByteRotator;
use crate::mover_records::{Lanes, MoverSegment, below, is_status, join, status_like};
use crate::prim::{
    Design, Fifo, Signal, delay_record, encode_one_hot, hold_record, input_channel, output_channel, register_record,
};
use keywalk_contract::mover::MOVER_STATUS_BITS;
use keywalk_contract::status::STATUS_BITS;
use keywalk_contract::{Config, MoverStatus};

/// Segments that wait to be cut.
const SEGMENTS: u32 = 16;
/// Beats of payload that wait for their segments.
const PAYLOAD: u32 = 16;

crate::record! {
    /// A beat of payload besides its data, as it comes in.
    pub struct PayloadEnd(config) {
        /// A bit for each byte that there is.
        keep: config.mover_beat_bytes(),
        /// Last beat of the packet.
        last: 1,
    }
}

crate::record! {
    /// A beat of payload besides its data, as it waits.
    struct PayloadCount(config) {
        /// Bytes that are missing; 0 but in the last beat.
        missing: config.mover_byte_bits() + 1,
        /// Last beat of the packet.
        last: 1,
    }
}

crate::record! {
    /// A burst whose beats are all there, or the end of a response without any.
    pub struct WriteBurst(config) {
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
        /// [`MoverStatus`] as far as it is known.
        status: MOVER_STATUS_BITS,
        /// The response's own status.
        refusal: STATUS_BITS,
        /// Last burst of the response.
        last: 1,
        /// There are no beats.
        is_empty: 1,
        /// Bus address of the first beat, in beats.
        beat: 64 - config.mover_byte_bits(),
        /// Beats less one.
        beats: config.mover_burst_bits(),
    }
}

crate::record! {
    /// A beat on the bus besides its data.
    pub struct WriteBeat(config) {
        /// A bit for each byte that is written.
        strobes: config.mover_beat_bytes(),
        /// Last beat of the burst.
        last: 1,
    }
}

/// The block.
pub struct MoverWrite;

impl MoverWrite {
    /// Builds the module `mover_write` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("mover_write");
        let byte_bits = config.mover_byte_bits();
        let count_bits = byte_bits + 1;
        let beat_bytes = config.mover_beat_bytes();
        let segment_valid = b.input("segment_valid", 1);
        let segment = input_channel(b, "segment", MoverSegment::widths(config));
        let payload_valid = b.input("payload_valid", 1);
        let payload = input_channel(b, "payload", Lanes::widths(config));
        let payload_end = input_channel(b, "payload", PayloadEnd::widths(config));
        let burst_ready = b.input("burst_ready", 1);
        let beat_ready = b.input("beat_ready", 1);

        // Payload: the bytes that are missing behind the last one.
        let keep: Vec<_> = (0..beat_bytes).map(|byte| payload_end.keep.bit(byte)).collect();
        let next_keep = keep.iter().skip(1).copied().chain([b.flag(false)]);
        // Flag n is set where n bytes are missing.
        let mut missing: Vec<_> = keep.iter().zip(next_keep).map(|(byte, next)| *byte & !next).collect();
        missing.reverse();
        missing.push(!keep[0]);
        let missing = encode_one_hot(&missing, count_bits);
        let count = PayloadCount { missing: payload_end.last.repeat(count_bits) & missing, last: payload_end.last };
        let widths = (Lanes::widths(config), PayloadCount::widths(config));
        let (payloads, next) = Fifo::new(design, b, "payloads", PAYLOAD, widths);
        payloads.push(payload_valid, (payload, count));
        b.output("payload_ready", next.in_ready);
        let (next_data, next_end) = next.out;

        // The next beat of a burst: where its bytes begin, and how many they are.
        let (segments, queued) = Fifo::new(design, b, "segments", SEGMENTS, MoverSegment::widths(config));
        segments.push(segment_valid, segment);
        b.output("segment_ready", queued.in_ready);
        let beat_open = b.forward("beat_open", 1);
        let index = b.register_reset("beat_index", config.mover_burst_bits(), 0);
        let cutter_take = b.forward("cutter_take", 1);
        let (cutter_ready, cut_valid, cut) =
            BurstCutter::instance(b, config, (queued.out_valid, queued.out), cutter_take.value);
        segments.pop(cutter_ready);
        let is_first = index.value.none();
        let is_last = (cut.is_empty | index.value.eq(cut.beats)).named("is_last_beat");
        let take_beat = (cut_valid & beat_open.value).named("take_beat");
        cutter_take.drive(beat_open.value & is_last);
        index.next_if(take_beat, is_last.mux(b.literal(0, index.value.width()), index.value + 1));
        let all = b.literal((1 << byte_bits) - 1, byte_bits);
        let first_byte = is_first.repeat(byte_bits) & cut.first_byte;
        let span = is_last.mux(cut.last_byte, all) - first_byte;
        let beat_valid = b.register_reset("beat_valid_q", 1, 0);
        beat_valid.next(take_beat | (beat_valid.value & !beat_open.value));
        let burst = WriteBurst {
            tag: cut.tag,
            function: cut.function,
            status: cut.status,
            refusal: cut.refusal,
            last: cut.last & is_last,
            is_empty: cut.is_empty,
            beat: cut.beat,
            beats: cut.beats,
        };
        let beat = hold_record(burst, "next", beat_open.value);
        let beat_first = first_byte.hold("next_first_byte", beat_open.value);
        let beat_span = span.hold("next_span", beat_open.value);
        let beat_is_last = is_last.hold("next_is_last", beat_open.value);

        // The step: `left` bytes of the payload's beat before are left over; what they do not suffice for is the next beat's.
        let left = b.register_reset("left_bytes", byte_bits, 0);
        let is_over = b.register_reset("packet_is_over", 1, 0);
        let drains = b.register_reset("drains", 1, 0);
        let held = b.register_reset("beats_held", config.mover_write_depth().trailing_zeros() + 1, 0);
        let is_full = held.value.high_bits(1);
        let needs = beat_span.ge(left.value).named("needs_payload");
        let has_bytes = !beat.is_empty;
        let can_step = beat_valid.value & !is_full & !drains.value;
        let step = (can_step & (beat.is_empty | !needs | is_over.value | next.out_valid)).named("step");
        beat_open.drive(!beat_valid.value | step);
        let pops = drains.value | (can_step & has_bytes & needs & !is_over.value);
        payloads.pop(pops);
        let popped = (pops & next.out_valid).named("popped");
        let over_after = is_over.value | (popped & next_end.last);
        let ends = (step & beat.last).named("ends");
        let left_after = left.value + !beat_span;
        let nothing = b.literal(0, byte_bits);
        left.next(ends.mux(nothing, (step & has_bytes).mux(left_after, left.value)));
        is_over.next(over_after & !ends & !drains.value);
        drains.next(drains.value.mux(!(popped & next_end.last), ends & !over_after));
        let last_missing = b.register("last_missing", count_bits);
        let missing_after = popped.mux(next_end.missing, last_missing.value);
        last_missing.next(missing_after);
        let before = register_record(b, "before", Lanes::widths(config));
        for (register, lane) in before.0.iter().zip(&next_data.0) {
            register.next_if(popped, *lane);
        }

        // s: the payload's bytes for the beat, not yet turned.
        let before = Lanes(before.0.iter().map(|register| register.value).collect());
        let used_up = below(config, !left.value + 1);
        let is_new = left.value.none();
        let from_next: Vec<_> = used_up.iter().map(|flag| *flag | is_new).collect();
        let chosen = next_data.merge(&from_next, &before);
        let s_data = delay_record(chosen, "s");
        let s_amount = (beat_first + left.value).delay("s_amount");
        let turned = ByteRotator::instance(b, config, s_amount, &s_data);
        let s_valid = step.delay_reset("s_valid");
        let s_has_bytes = has_bytes.delay("s_has_bytes");
        let s_ends = ends.delay("s_ends");
        let s_left = left_after.delay("s_left");
        let s_is_over = over_after.delay("s_is_over");
        let s_missing = missing_after.delay("s_missing");
        let s_is_dry = (needs & is_over.value).delay("s_is_dry");

        // t: whether the payload ended too early, or did not end.
        let s_left = s_left.resize(count_bits);
        let is_short = s_valid & s_has_bytes & (s_is_dry | (s_is_over & s_left.lt(s_missing)));
        let is_long = !s_is_over | s_left.ne(s_missing);
        let t_valid = s_valid.delay_reset("t_valid");
        let t_ends = s_ends.delay("t_ends");
        let t_is_short = is_short.delay_reset("t_is_short");
        let t_is_wrong = (s_ends & s_has_bytes & is_long).delay("t_is_wrong");
        let was_short = b.register_reset("was_short", 1, 0);
        let t_stops = t_is_short | was_short.value;
        was_short.next(t_stops & !(t_valid & t_ends));

        // u: strobes, and the burst with what is known now.
        let delayed = |name: &str, signal: Signal<'a>| signal.delay(&format!("{name}_s")).delay(&format!("{name}_t"));
        let t_first = delayed("first_byte", beat_first);
        let t_last = delayed("last_byte", beat_first + beat_span);
        let from_first: Vec<_> = below(config, t_first).into_iter().map(|flag| !flag).collect();
        let to_last = below(config, t_last.resize(count_bits) + 1);
        let strobes: Vec<_> = from_first.iter().zip(&to_last).map(|(first, last)| *first & *last & !t_stops).collect();
        let u_strobes = join(&strobes).delay("u_strobes");
        let t_burst = delay_record(delay_record(beat, "s_burst"), "t_burst");
        let is_fault = t_burst.last & is_status(MoverStatus::Ok, t_burst.status) & (t_is_wrong | t_stops);
        let status = is_fault.mux(status_like(MoverStatus::PayloadLength, t_burst.status), t_burst.status);
        let u_burst = delay_record(WriteBurst { status, ..t_burst }, "u_burst");
        let u_valid = t_valid.delay_reset("u_valid");
        let u_last = delayed("is_last", beat_is_last).delay("u_is_last");

        let depth = config.mover_write_depth();
        let widths = (Lanes::widths(config), WriteBeat::widths(config));
        let (beats, beat_out) = Fifo::new(design, b, "beats", depth, widths);
        beats.push(u_valid & !u_burst.is_empty, (turned, WriteBeat { strobes: u_strobes, last: u_last }));
        beats.pop(beat_ready);
        b.output("beat_valid", beat_out.out_valid);
        output_channel(b, "beat", beat_out.out.0);
        output_channel(b, "beat", beat_out.out.1);
        let (bursts, burst_out) = Fifo::new(design, b, "bursts", depth, WriteBurst::widths(config));
        bursts.push(u_valid & (u_burst.is_empty | u_last), u_burst);
        bursts.pop(burst_ready);
        b.output("burst_valid", burst_out.out_valid);
        output_channel(b, "burst", burst_out.out);
        // Beats, and ends without any, from the step to the bus.
        let bits = held.value.width();
        let beat_leaves = (beat_out.out_valid & beat_ready).delay_reset("beat_left");
        let end_leaves = (burst_out.out_valid & burst_ready & burst_out.out.is_empty).delay_reset("end_left");
        held.next(held.value + step.resize(bits) + (beat_leaves.repeat(bits) + end_leaves.repeat(bits)));
        b.name().into()
    }
}
