//! Reads memory and streams what it read.
//!
//! **Purpose.** Cuts segments into bursts, reads them, and packs what comes back: the bytes of a response lie side by side
//! in one packet, whatever their alignment in memory. Packets leave in the order of the responses, since all reads have one
//! ID and so come back in order. Of an atomic the old value goes to the atomic unit besides.
//!
//! **Handshake.** Channel `segment` in, channels `packet` and `outcome` out, ready/valid. AXI4 channels `ar` and `r`. An atomic
//! that is about to be read is offered on channel `start`, ready/valid, and is read when it is taken; its old value, or that
//! there is none, comes as pulse `old_valid` with `old_value` and `old_is_bad`.
//!
//! **Latency and throughput.** Five cycles from a segment to `arvalid`; seven from a beat that fills one of the packet to that;
//! one beat per cycle. A response whose last beat fills one beat of the packet and begins another takes a cycle more.
//!
//! **Timing.** The fill of the beat that is being packed is kept in one stage, the bytes turn in two, and are merged with
//! those that wait in a fourth.
//!
//! **Reset and flush.** Reset drops everything; no read may be open then.
//!
//! **Hazards.** A read is issued only with room for all its beats, so that R never waits for the consumer of packets, nor
//! for that of outcomes: it waits for a cycle at most, behind the end of a response. Whole beats are read; what a segment
//! does not need of its first and last beat is dropped. A read may pass a write that came before it.
//!
//! **Limits.** `mover_reads_in_flight` bursts, and as many responses whose outcome has not been taken;
//! `mover_read_depth()` beats in flight or waiting.

use crate::burst_cutter::BurstCutter;
use crate::byte_rotator::ByteRotator;
use crate::mover_records::{AtomicStart, KIND_BITS, Kind, Lanes, MoverOutcome, MoverSegment, below, join, status_like};
use crate::prim::{
    Count, Design, Fifo, Signal, delay_record, hold_record, input_channel, output_channel, register_record,
};
use keywalk_contract::{Config, MoverStatus};

/// Segments that wait to be cut.
const SEGMENTS: u32 = 16;

crate::record! {
    /// What is needed of a burst when its data comes.
    struct Landing(config) {
        /// As in the burst.
        kind: KIND_BITS,
        /// As in the burst.
        last: 1,
        /// As in the burst.
        is_empty: 1,
        /// As in the burst.
        first_byte: config.mover_byte_bits(),
        /// As in the burst.
        last_byte: config.mover_byte_bits(),
        /// As in the burst.
        beats: config.mover_burst_bits(),
    }
}

crate::record! {
    /// A beat of a packet besides its data.
    pub struct PacketEnd(config) {
        /// A bit for each byte that there is.
        keep: config.mover_beat_bytes(),
        /// Last beat of the packet.
        last: 1,
        /// The packet's data is not whole or not good; in the last beat.
        error: 1,
    }
}

/// The block.
pub struct MoverRead;

impl MoverRead {
    /// Builds the module `mover_read` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("mover_read");
        let byte_bits = config.mover_byte_bits();
        let segment_valid = b.input("segment_valid", 1);
        let segment = input_channel(b, "segment", MoverSegment::widths(config));
        let arready = b.input("mem_arready", 1);
        let rvalid = b.input("mem_rvalid", 1);
        let lanes = 0..config.mover_lanes();
        let rdata = Lanes(lanes.map(|lane| b.input(&format!("mem_rdata_{lane}"), 128)).collect());
        let rerror = b.input("mem_rresp", 2).bit(1);
        let start_ready = b.input("start_ready", 1);
        let packet_ready = b.input("packet_ready", 1);
        let outcome_ready = b.input("outcome_ready", 1);

        // Issue.
        let (segments, queued) = Fifo::new(design, b, "segments", SEGMENTS, MoverSegment::widths(config));
        segments.push(segment_valid, segment);
        b.output("segment_ready", queued.in_ready);
        let issue = b.forward("issue", 1);
        let (cutter_ready, burst_valid, burst) =
            BurstCutter::instance(b, config, (queued.out_valid, queued.out), issue.value);
        segments.pop(cutter_ready);
        let is_atomic = Kind::Atomic.of(burst.kind);
        let reads = config.mover_reads_in_flight;
        let read_bits = reads.trailing_zeros();
        // Two queues side by side, both narrow enough for LUT RAM: block RAM is slow in front of the landing.
        let (bursts, current) = Fifo::new(design, b, "bursts", reads, Landing::widths(config));
        let (names, name) = Fifo::new(design, b, "names", reads, MoverOutcome::widths(config));
        let depth = config.mover_read_depth();
        let beat_bits = depth.trailing_zeros() + 1;
        let used = b.register_reset("used_beats", beat_bits, 0);
        // Two beats to spare: the one that is being packed, and one that is counted a cycle late.
        let room_max = depth - config.mover_burst_beats - 2;
        let has_room = used.value.lt(b.literal(u128::from(room_max) + 1, beat_bits)).named("has_room");
        let landed = b.forward("landed", 1);
        let outcome_taken = b.forward("outcome_taken", 1);
        let has_outcome = burst.last & !is_atomic;
        let in_flight = Count::new(b, "reads_in_flight", read_bits + 1, issue.value & !burst.is_empty, landed.value);
        let outcomes_open =
            Count::new(b, "outcomes_open", read_bits + 1, issue.value & has_outcome, outcome_taken.value);
        let has_place = !(in_flight.value() | outcomes_open.value()).bit(read_bits);
        let ar_valid = b.register_reset("ar_valid", 1, 0);
        let ar_open = !ar_valid.value | arready;
        let is_free = (burst_valid & current.in_ready & has_room & has_place).named("is_free");
        // An atomic waits for its turn with the address register empty, so that it is offered until it is taken.
        let offers_start = (is_free & is_atomic & !ar_valid.value).named("offers_start");
        let issues_read = is_free & !is_atomic & ar_open;
        issue.drive((issues_read | (offers_start & start_ready)).named("issued"));
        let landing = Landing {
            kind: burst.kind,
            last: burst.last,
            is_empty: burst.is_empty,
            first_byte: burst.first_byte,
            last_byte: burst.last_byte,
            beats: burst.beats,
        };
        bursts.push(issue.value, landing);
        let known =
            MoverOutcome { tag: burst.tag, function: burst.function, status: burst.status, refusal: burst.refusal };
        names.push(issue.value, known);
        let further_beats = burst.is_empty.mux(b.literal(0, burst.beats.width()), burst.beats).resize(beat_bits);
        let added = issue.value.repeat(beat_bits) & (further_beats + 1);
        ar_valid.next((issue.value & !burst.is_empty) | (ar_valid.value & !arready));
        b.output("mem_arvalid", ar_valid.value);
        let address = burst.beat.hold("ar_beat", ar_open).concat(b.literal(0, byte_bits));
        b.output("mem_araddr", address);
        b.output("mem_arlen", burst.beats.hold("ar_beats", ar_open).resize(8));
        b.output("start_valid", offers_start);
        let start = AtomicStart {
            tag: burst.tag,
            function: burst.function,
            status: burst.status,
            refusal: burst.refusal,
            is_empty: burst.is_empty,
            word: burst.beat.concat(burst.first_byte.high_bits(byte_bits - 3)),
        };
        output_channel(b, "start", start);

        // Landing. A cycle is left out behind a response that needs it to send its last bytes.
        let flush = b.register_reset("flush", 1, 0);
        let rready = (current.out_valid & !current.out.is_empty & !flush.value).named("rready_q");
        b.output("mem_rready", rready);
        let lands = (rvalid & rready).named("lands");
        let ends_empty = current.out_valid & current.out.is_empty & !flush.value;
        let burst = current.out;
        let index = b.register_reset("beat_index", config.mover_burst_bits(), 0);
        let is_first = index.value.none();
        let is_last = index.value.eq(burst.beats).named("is_last_beat");
        index.next_if(lands, is_last.mux(b.literal(0, index.value.width()), index.value + 1));
        let burst_ends = (lands & is_last).named("burst_ends");
        landed.drive(burst_ends);
        bursts.pop(burst_ends | ends_empty);
        names.pop(burst_ends | ends_empty);

        // a: the beat, and which of its bytes count.
        let advance = !flush.value;
        let enters = lands | ends_empty;
        let a_valid = b.register_reset("a_valid", 1, 0);
        a_valid.next_if(advance, enters);
        let first_byte = is_first.repeat(byte_bits) & burst.first_byte;
        let all = b.literal((1 << byte_bits) - 1, byte_bits);
        let last_byte = is_last.mux(burst.last_byte, all);
        let a_first_byte = first_byte.hold("a_first_byte", advance);
        let a_span = (last_byte - first_byte).hold("a_span", advance);
        let a_ends = ((ends_empty | is_last) & burst.last).hold("a_ends", advance);
        let a_has_data = lands.hold("a_has_data", advance);
        let a_error = (lands & rerror).hold("a_error", advance);
        let a_data = hold_record(rdata, "a", advance);
        let a = hold_record(name.out, "a_known", advance);
        let a_kind = burst.kind.hold("a_kind", advance);

        // b: where they go in the packet.
        let fill = b.register_reset("fill", byte_bits, 0);
        let counted = a_has_data.repeat(byte_bits + 1) & (a_span.resize(byte_bits + 1) + 1);
        let sum = (fill.value.resize(byte_bits + 1) + counted).named("sum");
        let is_full = sum.bit(byte_bits);
        let low = sum.low_bits(byte_bits);
        let active = (a_valid.value & !flush.value).named("b_active");
        let ends = active & a_ends;
        let needs_flush = (ends & is_full & low.any()).named("needs_flush");
        flush.next(needs_flush);
        let nothing = b.literal(0, byte_bits);
        let is_done = flush.value | (ends & !needs_flush);
        fill.next(is_done.mux(nothing, active.mux(low, fill.value)));
        let bad = b.register_reset("bad", 1, 0);
        let is_bad = bad.value | a_error;
        bad.next(active.mux(is_bad & !a_ends, bad.value));
        let has_packet = !Kind::Nothing.of(a_kind);
        let emits = (flush.value | (active & has_packet & (is_full | a_ends))).named("emits");
        let packet_error = is_bad | a.status.any();
        let flush_error = packet_error.delay("flush_error");
        let count = flush
            .value
            .mux(fill.value.resize(byte_bits + 1), is_full.mux(b.literal(1 << byte_bits, byte_bits + 1), sum));

        let status = is_bad.mux(status_like(MoverStatus::ReadError, a.status), a.status);
        let outcome = MoverOutcome { status, ..a };
        let a_is_atomic = Kind::Atomic.of(a_kind);
        let (outcomes, outcome_out) = Fifo::new(design, b, "outcomes", reads, MoverOutcome::widths(config));
        outcomes.push((ends & !a_is_atomic).delay_reset("outcome_pushed"), delay_record(outcome, "outcome_q"));
        outcomes.pop(outcome_ready);
        b.output("outcome_valid", outcome_out.out_valid);
        output_channel(b, "outcome", outcome_out.out);
        outcome_taken.drive(outcome_out.out_valid & outcome_ready);

        // c and d: the rotator turns the bytes; what belongs to them follows.
        let c_data = delay_record(a_data, "c");
        let c_amount = (fill.value - a_first_byte).delay("c_amount");
        let turned = ByteRotator::instance(b, config, c_amount, &c_data);
        let follow = |name: &str, signal: Signal<'a>| {
            (0..=ByteRotator::LATENCY_CYCLES).fold(signal, |signal, stage| signal.delay(&format!("{name}_{stage}")))
        };
        let follow_reset = |name: &str, signal: Signal<'a>| {
            (0..=ByteRotator::LATENCY_CYCLES)
                .fold(signal, |signal, stage| signal.delay_reset(&format!("{name}_{stage}")))
        };
        let e_emits = follow_reset("emits", emits);
        let e_has_data = follow_reset("has_data", active & a_has_data);
        let e_last = follow("last", flush.value | (a_ends & !needs_flush));
        let e_error = follow("error", flush.value.mux(flush_error, packet_error & a_ends & !needs_flush));
        let d_fill = fill.value.delay("fill_1").delay("fill_2");
        let d_count = count.delay("count_1").delay("count_2");
        let flags = |name: &str, count: Signal<'a>| join(&below(config, count)).delay(name);
        let e_waits = flags("waits", d_fill);
        let e_keep = flags("keep", d_count);

        // e: those that wait, and the others behind them.
        let waiting = register_record(b, "waiting", Lanes::widths(config));
        let waits: Vec<_> = (0..config.mover_beat_bytes()).map(|byte| e_waits.bit(byte)).collect();
        let held = Lanes(waiting.0.iter().map(|lane| lane.value).collect());
        let merged = held.merge(&waits, &turned);
        for (lane, register) in waiting.0.iter().enumerate() {
            register.next_if(e_has_data, e_emits.mux(turned.0[lane], merged.0[lane]));
        }
        let end = PacketEnd { keep: e_keep, last: e_last, error: e_error };
        let (packets, packet) =
            Fifo::new(design, b, "packets", depth, (Lanes::widths(config), PacketEnd::widths(config)));
        packets.push(e_emits.delay_reset("f_emits"), (delay_record(merged.clone(), "f"), delay_record(end, "f")));
        packets.pop(packet_ready);
        b.output("packet_valid", packet.out_valid);
        output_channel(b, "packet", packet.out.0);
        output_channel(b, "packet", packet.out.1);

        let old_valid = active & a_is_atomic & a_ends;
        b.output("old_valid", follow_reset("old_valid", old_valid).delay_reset("old_valid_q"));
        b.output("old_value", merged.0[0].low_bits(64).delay("old_value_q"));
        b.output("old_is_bad", follow("old_is_bad", is_bad).delay("old_is_bad_q"));

        // Beats that are in flight, on their way or in the queue: those of a burst are added at once, the rest is counted a
        // cycle late. A beat that fills none of the packet gives its place up, and the packet's last beat takes one again.
        let leaves = (packet.out_valid & packet_ready).delay_reset("beat_left");
        let lost = active.delay_reset("beat_landed").repeat(beat_bits) + leaves.repeat(beat_bits);
        used.next(used.value + added + (lost + emits.delay_reset("beat_emitted").resize(beat_bits)));
        b.name().into()
    }
}
