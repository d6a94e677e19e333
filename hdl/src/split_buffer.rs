//! Gathers the pieces of requests of several pages, in order, and merges contiguous ones into segments.
//!
//! **Purpose.** Pieces that hit arrive in order from the TLB, pieces that were walked arrive in any order from the MTR
//! walker. A request's response starts when all its pieces are known, so that a miss of one request holds up no other;
//! only a long request (more pages than `split_pages`) starts before, as a stream that waits for its own walks. Physically
//! contiguous pieces are merged, greedily, up to `merge_bytes_max`, whatever was cached.
//!
//! Where responses come in order (`in_order`), all of them pass here, those of one page and of failed checks too, and are
//! sent in the order in which the page split opened their contexts: a request that is complete, or long, waits in a ring
//! ([`Ring`]) for its turn.
//!
//! **Handshake.** Channels `looked_up` and `result` in, valid only: every piece has a slot of its own. Channel `segment`
//! out, ready/valid. `old_toggle` belongs to the piece on `looked_up`.
//!
//! **Latency and throughput.** Eleven cycles from a request's last piece or its last walk to its first segment, ten from the
//! first piece of a long request; one more for every further piece of that segment. One piece per cycle, without a gap
//! between requests, whether they were walked or not: completion takes a cycle for every piece. In order, three cycles more
//! if it is the request's turn.
//!
//! **Timing.** A full output queue stops the drain as a whole. Contiguity compares with a sum that was registered with the open segment.
//!
//! **Reset and flush.** After reset the toggles and counts are scrubbed, then `ready` rises.
//!
//! **Hazards.** Every memory has one writer. A walked slot is answered when the toggle that the walker writes equals the
//! toggle that the TLB side wrote; a miss flips the latter, so an old answer is never taken for a new one. Completion is
//! counted by one pipe for both sides, so that the last walk and the last piece cannot miss each other; its one-deep
//! forwarding covers two events of one context in a row. Walks go before hits there: while a walk ends in every cycle no
//! hit is counted. That lasts as long as there are walks in flight, and the queue of hits that wait has a place for each.
//! In order, a long request takes its place in the ring when it opens; requests before it are complete or have all their
//! pieces here, so it waits for walks only.
//!
//! **Limits.** `split_contexts` requests of `split_pages` slots each; two long requests at a time, the second of which is
//! drained after the first.

use crate::prim::{
    Builder, Count, Credit, Design, Fifo, Ram, RamStyle, Record, Ring, RingWrite, Signal, Word, delay_record,
    drive_record, input_channel, mux_record, output_channel, register_record, scrub, zero_record,
};
use crate::records::{ADMISSION_BITS, LookedUp, SegmentBeat, WalkResult};
use keywalk_contract::{Config, key::INDEX_BITS, status::STATUS_BITS};

/// Beats held for the response port.
const OUTPUT_DEPTH: u32 = 16;

crate::record! {
    /// A piece as the TLB side knows it.
    struct Slot(_config) {
        /// The address comes from the walker.
        is_miss: 1,
        /// Bus address, where it hit.
        address: 64,
        /// Bytes.
        length: 32,
        /// The last piece of its request.
        is_last: 1,
    }
}

crate::record! {
    /// The outcome of a piece's walk.
    struct Walked(_config) {
        /// Status code.
        status: STATUS_BITS,
        /// Number of the read that failed or could not be issued.
        hop: 2,
        /// Bus address.
        address: 64,
        /// Virtual address, for the event.
        va: 64,
    }
}

crate::record! {
    /// What all pieces of a request share.
    struct Header(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// The operation is remote.
        is_remote: 1,
        /// Index of the MPT entry.
        mpt_index: INDEX_BITS,
        /// Packed `Admission`.
        admission: ADMISSION_BITS,
    }
}

crate::record! {
    /// Outcome of a piece: that of its walk, or that of its request's checks, which only a request of one piece fails.
    struct Checks(_config) {
        /// Status code.
        status: STATUS_BITS,
        /// Number of the read that failed or could not be issued.
        hop: 2,
        /// Virtual address, for the event.
        va: 64,
    }
}

crate::record! {
    /// Which piece of a request is the last one.
    struct Last(config) {
        /// It has passed the TLB.
        is_known: 1,
        /// Its slot, where `is_known`.
        slot: config.split_page_bits(),
    }
}

crate::record! {
    /// Progress of a request that is not long.
    struct Progress(config) {
        /// Pieces that are known.
        count: config.split_page_bits(),
        /// A walk failed.
        has_error: 1,
    }
}

crate::record! {
    /// A request that may be sent.
    struct Complete(config) {
        /// Split context.
        context: config.split_context_bits(),
        /// A stream: further pieces may still be to come.
        is_long: 1,
        /// A walk failed.
        has_error: 1,
        /// Slot of the last piece, unless `is_long`.
        last_slot: config.split_page_bits(),
    }
}

crate::record! {
    /// A read of a slot on its way through the drain.
    struct Drained(config) {
        /// Split context.
        context: config.split_context_bits(),
        /// Piece number, of a long request modulo twice the slots; its low bits are the slot.
        number: config.split_page_bits() + 1,
        /// The request is long.
        is_long: 1,
        /// Which of the two long requests that may be open, where `is_long`.
        turn: 1,
        /// A walk of the request failed.
        has_error: 1,
    }
}

/// One of the two long requests that may be open.
struct Long<'a> {
    /// Not all of its pieces have been drained.
    is_open: Signal<'a>,
    /// Its split context.
    context: Signal<'a>,
    /// Pieces that have come, modulo twice the slots: no more than the slots are ahead of the drain.
    written: Signal<'a>,
    /// Number of the last piece that has come.
    last: Signal<'a>,
    /// There is no further piece.
    has_ended: Signal<'a>,
}

impl<'a> Long<'a> {
    /// `take`: a piece of it comes. `finished`: its last piece has been drained.
    fn new(
        b: &'a Builder<'a>,
        turn: u32,
        number_bits: u32,
        take: Signal<'a>,
        piece: LookedUp<Signal<'a>>,
        finished: Signal<'a>,
    ) -> Self {
        let named = |name: &str| format!("long_{name}_{turn}");
        let opens = take & piece.is_first;
        let is_open = b.register_reset(&named("open"), 1, 0);
        is_open.next(opens | (is_open.value & !finished));
        let written = b.register(&named("written"), number_bits);
        let last = (!opens).repeat(number_bits) & written.value;
        written.next_if(take, last + 1);
        Self {
            is_open: is_open.value,
            context: piece.split_context.hold(&named("context"), opens),
            written: written.value,
            last: last.hold(&named("last"), take),
            has_ended: piece.is_last.hold(&named("has_ended"), take),
        }
    }
}

/// The block.
pub struct SplitBuffer;

impl SplitBuffer {
    /// Builds the module `split_buffer` and gives its name.
    ///
    /// Inputs besides the channels: `early_split_context` and `early_split_slot` (of the piece that comes next cycle),
    /// `hold_mode`, `merge_bytes_max`. Outputs besides the channels: `ready`, `old_toggle` (a walk of the piece must be
    /// answered with the opposite), for the page split `context_freed` with `context_freed_number`, `slot_freed` with
    /// `slot_freed_turn`, and `long_failed` (the slot held a failure: the rest of the request need not be cut), and for the
    /// fence `long_finished`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("split_buffer");
        let slots = config.split_contexts * config.split_pages;
        let slot_bits = config.split_page_bits();
        let context_bits = config.split_context_bits();
        let piece_valid = b.input("looked_up_valid", 1);
        let piece = input_channel(b, "looked_up", LookedUp::widths(config));
        let early_slot = b.input("early_split_context", context_bits).concat(b.input("early_split_slot", slot_bits));
        let result_valid = b.input("result_valid", 1);
        let result = input_channel(b, "result", WalkResult::widths(config));
        let hold_mode = b.input("hold_mode", 1);
        let merge_bytes_max = b.input("merge_bytes_max", 32);
        let always = b.flag(true);
        let never = b.flag(false);
        let style = RamStyle::for_depth(slots);

        let clean = scrub(b, "scrub", context_bits + slot_bits, never);
        // The TLB side.
        let take_piece = (piece_valid & piece.is_split).named("take_piece");
        let piece_slot = piece.split_context.concat(piece.split_slot);
        let toggles = Ram::of_words(b, "toggles", slots, style, 1);
        let old_toggle = toggles.read_word(early_slot, always);
        b.output("old_toggle", old_toggle);
        toggles.write_word(
            clean.busy.mux(clean.address, piece_slot),
            (old_toggle ^ piece.is_miss) & !clean.busy,
            clean.busy | take_piece,
        );
        let pieces = Ram::new(b, "pieces", slots, style, Slot::widths(config));
        let slot =
            Slot { is_miss: piece.is_miss, address: piece.address, length: piece.length, is_last: piece.is_last };
        pieces.write(piece_slot, slot, take_piece);
        let headers = Ram::new(b, "headers", config.split_contexts, RamStyle::Block, Header::widths(config));
        let header = Header {
            tag: piece.tag,
            function: piece.function,
            is_remote: piece.is_remote,
            mpt_index: piece.mpt_index,
            admission: piece.admission,
        };
        headers.write(piece.split_context, header, take_piece & piece.is_first);
        let checks = config.in_order.then(|| {
            let checks = Ram::new(b, "checks", config.split_contexts, RamStyle::Block, Checks::widths(config));
            let outcome = Checks { status: piece.status, hop: piece.hop, va: piece.va };
            checks.write(piece.split_context, outcome, take_piece & piece.is_first);
            checks
        });
        // Long requests: two may be open. They come, and are drained, one after the other, in turns.
        let number_bits = slot_bits + 1;
        let long_finished = b.forward("long_finished_now", 1);
        let finished_turn = b.forward("finished_turn", 1);
        let take_long = (take_piece & piece.is_long).named("take_long");
        let opens_long = (take_long & piece.is_first).named("opens_long");
        let long_turn = b.register_reset("long_turn", 1, 0);
        long_turn.next(long_turn.value ^ (take_long & piece.is_last));
        let longs = [0, 1].map(|turn: u32| {
            let is_its_turn = long_turn.value.is(turn.into());
            Long::new(
                b,
                turn,
                number_bits,
                take_long & is_its_turn,
                piece,
                long_finished.value & finished_turn.value.is(turn.into()),
            )
        });

        // The walker's side.
        let take_walk = (result_valid & result.is_split & !result.is_context).named("take_walk");
        let walk_slot = result.split_context.concat(result.split_slot);
        let walk_toggles = Ram::of_words(b, "walk_toggles", slots, style, 1);
        walk_toggles.write_word(
            clean.busy.mux(clean.address, walk_slot),
            result.split_toggle & !clean.busy,
            clean.busy | take_walk,
        );
        let walks = Ram::new(b, "walks", slots, style, Walked::widths(config));
        let walked = Walked { status: result.status, hop: result.hop, address: result.address, va: result.va };
        walks.write(walk_slot, walked, take_walk);

        // Completion: every piece is counted once, when it is known: a hit when it arrives, a miss when it was walked. Counts
        // have no order, so a hit waits in a queue where a walk comes in the same cycle.
        let lasts = Ram::new(
            b,
            "lasts",
            config.split_contexts,
            RamStyle::for_depth(config.split_contexts),
            Last::widths(config),
        );
        lasts.write(piece.split_context, Last { is_known: piece.is_last, slot: piece.split_slot }, take_piece);
        let hit_event = (take_piece & !piece.is_long & !piece.is_miss).named("hit_event");
        let long_walk = longs.each_ref().map(|long| long.is_open & long.context.eq(result.split_context));
        let is_long_walk = long_walk[0] | long_walk[1];
        // While a walk ends in every cycle, as many hits can come as there were walks in flight.
        let depth = config.walk_contexts;
        let (hit_queue, hit) = Fifo::new(design, b, "hit_queue", depth, Word { value: context_bits });
        let hit_passes = (!take_walk & !hit.out_valid).named("hit_passes");
        hit_queue.push(hit_event & !hit_passes, Word { value: piece.split_context });
        hit_queue.pop(!take_walk);
        let event_valid = (take_walk.mux(!is_long_walk, hit.out_valid | hit_event)).named("event_valid");
        let event_context = take_walk
            .mux(result.split_context, hit.out_valid.mux(hit.out.value, piece.split_context))
            .named("event_context");
        // One stage before the memories are read, so that the last piece's word is seen by its own event.
        let e0_valid = event_valid.delay_reset("e0_valid");
        let e0_context = event_context.delay("e0_context");
        let e0_is_error = (take_walk & !b.input("result_is_ok", 1)).delay("e0_is_error");
        let e1_valid = e0_valid.delay_reset("e1_valid");
        let e1_context = e0_context.delay("e1_context");
        let e1_is_error = e0_is_error.delay("e1_is_error");
        let progress = Ram::new(
            b,
            "progress",
            config.split_contexts,
            RamStyle::for_depth(config.split_contexts),
            Progress::widths(config),
        );
        let stored = progress.read(e0_context, always);
        let last = lasts.read(e0_context, always);
        let written = register_record(b, "written", Progress::widths(config));
        // Whether the event before is of the same context is known a cycle ahead.
        let forwards = (e1_valid & e1_context.eq(e0_context)).delay_reset("forwards");
        let before = mux_record(forwards, written.map(&mut |_, register| register.value), stored);
        let has_error = before.has_error | e1_is_error;
        let completes = (e1_valid & last.is_known & before.count.eq(last.slot)).named("completes");
        let after = mux_record(
            completes,
            zero_record(b, Progress::widths(config)),
            Progress { count: before.count + 1, has_error },
        );
        drive_record(written, after);
        progress.write(
            clean.busy.mux(clean.address.high_bits(context_bits), e1_context),
            mux_record(clean.busy, zero_record(b, Progress::widths(config)), after),
            clean.busy | e1_valid,
        );

        // What may be sent. The queue holds every context once.
        let long_pending = b.register_reset("long_pending", 1, 0);
        let pending_context = b.register("pending_context", context_bits);
        pending_context.next_if(opens_long, piece.split_context);
        let announce_long = (long_pending.value & !completes).named("announce_long");
        long_pending.next(opens_long | (long_pending.value & !announce_long));
        let (complete_queue, complete) =
            Fifo::new(design, b, "complete", config.split_contexts, Complete::widths(config));
        let ends_now = completes | announce_long;
        let complete_now = Complete {
            context: completes.mux(e1_context, pending_context.value),
            is_long: !completes,
            has_error: completes & has_error,
            last_slot: last.slot,
        };
        if config.in_order {
            // Contexts were opened in turn.
            let record = delay_record(complete_now, "ordered");
            let write = RingWrite { valid: ends_now.delay_reset("ordered_valid"), number: record.context, record };
            let shape = (config.split_contexts, RamStyle::for_depth(config.split_contexts));
            let ring = Ring::new(b, "order", shape, Complete::widths(config), write, always);
            complete_queue.push(ring.valid, ring.out);
            b.output("ready", !clean.busy & ring.is_clean);
        } else {
            complete_queue.push(ends_now, complete_now);
            b.output("ready", !clean.busy);
        }

        // Drain, stage 0: read one slot per cycle.
        let advance = b.forward("advance", 1);
        let retry = b.forward("retry", 1);
        let active = b.register_reset("drain_active", 1, 0);
        let request = register_record(b, "drain", Complete::widths(config));
        let request_now = request.map(&mut |_, register| register.value);
        let drain_number = b.register("drain_number", number_bits);
        let drain_slot = drain_number.value.low_bits(slot_bits);
        let drain_turn = b.register_reset("drain_turn", 1, 0);
        let of_turn = |of: fn(&Long<'a>) -> Signal<'a>| drain_turn.value.mux(of(&longs[1]), of(&longs[0]));
        // Whether the slot is written, and whether it is the last one, was decided in the cycle before, and that from the
        // numbers of the cycle before that one: of a long request they may be behind, which is safe.
        let is_there = b.register("is_there", 1);
        let is_at_last = b.register("is_at_last", 1);
        let read = (active.value & is_there.value & advance.value & !retry.value).named("read");
        // A long request that could not end with the read of its last slot ends after its last piece.
        let long_finished_late = long_finished.value.delay_reset("long_finished_q");
        let turn_finished_late = finished_turn.value.delay("finished_turn_q");
        let is_of_request = request_now.is_long & finished_turn.value.eq(drain_turn.value);
        let ends_late = (long_finished.value & is_of_request).delay_reset("ends_late");
        let ends = ((read & is_at_last.value) | ends_late).named("drain_ends");
        let load = (!active.value | ends).named("load");
        // It can if no piece on its way through the drain may turn out to wait for its walk.
        let long_walk_ended = (take_walk & is_long_walk).delay_reset("long_walk_ended");
        let long_walks = Count::new(b, "long_walks", slot_bits + 2, take_long & piece.is_miss, long_walk_ended);
        let is_sure = long_walks.value().none();
        let d1_is_sure = b.register("d1_is_sure", 1);
        d1_is_sure.next_if(advance.value, is_sure);
        let d2_is_sure = b.register("d2_is_sure", 1);
        d2_is_sure.next_if(advance.value, d1_is_sure.value);
        let may_end = b.register("may_end", 1);
        let long_may_end = of_turn(|long| long.has_ended) & is_sure & d1_is_sure.value & d2_is_sure.value;
        may_end.next(load.mux(!complete.out.is_long, !request_now.is_long | long_may_end));
        let last = b.register("drain_last", number_bits);
        let next_last = request_now.is_long.mux(of_turn(|long| long.last), last.value);
        last.next(load.mux(b.literal(0, 1).concat(complete.out.last_slot), next_last));
        let next_turn = drain_turn.value ^ (active.value & request_now.is_long);
        let next_written = next_turn.mux(longs[1].written, longs[0].written);
        let written = b.register("drain_written", number_bits);
        written.next(load.mux(next_written, of_turn(|long| long.written)));
        let is_last = drain_number.value.eq(last.value);
        let next_is_last = (drain_number.value + 1).eq(last.value);
        let is_caught_up = drain_number.value.eq(written.value);
        let catches_up = (drain_number.value + 1).eq(written.value);
        is_there.next(load | !request_now.is_long | !(is_caught_up | (read & catches_up)));
        // Not a select, which synthesis would move in front of one comparison.
        let stays_at_last = may_end.value & ((read & next_is_last) | (!read & is_last));
        is_at_last.next(load.mux(!complete.out.is_long & complete.out.last_slot.none(), stays_at_last));
        drain_turn.next(drain_turn.value ^ (ends & request_now.is_long));
        complete_queue.pop(load);
        active.next(load.mux(complete.out_valid, always));
        drive_record(request, mux_record(load, complete.out, request_now));
        let d2 = register_record(b, "d2", Drained::widths(config));
        let d2_now = d2.map(&mut |_, register| register.value);
        let next_number = retry.value.mux(d2_now.number, drain_number.value + read.resize(number_bits));
        drain_number.next(load.mux(b.literal(0, number_bits), next_number));

        // Stage 1: the slot's two sides.
        let read_address = request_now.context.concat(drain_slot);
        let d1_valid = b.register_reset("d1_valid", 1, 0);
        d1_valid.next(advance.value.mux(read, d1_valid.value & !retry.value));
        let drained = Drained {
            context: request_now.context,
            number: drain_number.value,
            is_long: request_now.is_long,
            turn: drain_turn.value,
            has_error: request_now.has_error,
        };
        let d1 = register_record(b, "d1", Drained::widths(config));
        let d1_now = d1.map(&mut |_, register| register.value);
        drive_record(d1, mux_record(advance.value, drained, d1_now));
        let d1_piece = pieces.read(read_address, advance.value);
        let d1_walked = walks.read(read_address, advance.value);
        let d1_toggle = toggles.read_word(read_address, advance.value);
        let d1_walk_toggle = walk_toggles.read_word(read_address, advance.value);
        let d1_header = headers.read(request_now.context, advance.value);

        // Stage 2: the piece. Places of the output queue are counted, so that no pointer comparison stands in front of
        // everything that stops with the drain.
        let places = Credit::told_late(b, "output_places", OUTPUT_DEPTH, 1);
        let d2_valid = b.register_reset("d2_valid", 1, 0);
        d2_valid.next(advance.value.mux(d1_valid.value & !retry.value, d2_valid.value));
        drive_record(d2, mux_record(advance.value, d1_now, d2_now));
        // An inverted copy of what stops the drain, to share the load.
        let stops = b.register_reset("stops", 1, 0);
        stops.next(!places.next_available);
        let keep = |name: &str, signal: Signal<'a>| signal.hold(name, !stops.value);
        // A piece that was not walked is good, unless requests that failed a check come here too.
        let walked = Checks { status: d1_walked.status, hop: d1_walked.hop, va: d1_walked.va };
        let (d1_outcome, d1_is_good) = match &checks {
            Some(checks) => {
                let checked = checks.read(request_now.context, advance.value);
                let outcome = mux_record(d1_piece.is_miss, walked, checked);
                (outcome, outcome.status.none())
            }
            None => {
                let status = d1_piece.is_miss.repeat(STATUS_BITS) & walked.status;
                let hop = d1_piece.is_miss.repeat(2) & walked.hop;
                (Checks { status, hop, ..walked }, !(d1_piece.is_miss & walked.status.any()))
            }
        };
        // A piece of a long request that waits for its walk goes back to the start of the drain.
        let waits = b.register_reset("d2_waits", 1, 0);
        let d1_waits = d1_piece.is_miss & d1_toggle.ne(d1_walk_toggle);
        waits.next(advance.value.mux(d1_valid.value & !retry.value & d1_waits, waits.value));
        let d2_address = keep("d2_address", d1_piece.is_miss.mux(d1_walked.address, d1_piece.address));
        let d2_status = keep("d2_status", d1_outcome.status);
        let d2_is_good = keep("d2_is_good", d1_is_good);
        let d2_hop = keep("d2_hop", d1_outcome.hop);
        let d2_va = keep("d2_va", d1_outcome.va);
        // Of a failure, zero.
        let d2_length = keep("d2_length", d1_is_good.mux(d1_piece.length, b.literal(0, 32)));
        let d2_is_last = keep("d2_is_last", d1_piece.is_last);
        let d2_header = d1_header.map(&mut |name, signal| keep(&format!("d2_header_{name}"), signal));
        retry.drive(waits.value);
        let taken = (d2_valid.value & !waits.value & advance.value).named("taken");
        let finishes = (taken & d2_is_last).named("finishes");
        long_finished.drive(finishes & d2_now.is_long);
        finished_turn.drive(d2_now.turn);
        b.output("long_finished", long_finished_late);
        b.output("slot_freed", (taken & d2_now.is_long).delay_reset("slot_freed_q"));
        b.output("slot_freed_turn", turn_finished_late);
        b.output("long_failed", (taken & d2_now.is_long & !d2_is_good).delay_reset("long_failed_q"));
        b.output("context_freed", finishes.delay_reset("context_freed_q"));
        b.output("context_freed_number", d2_now.context.delay("context_freed_number_q"));

        // Merge.
        let skip = b.register_reset("skip", 1, 0);
        let open_valid = b.register_reset("open_valid", 1, 0);
        let open = register_record(b, "open", SegmentBeat::widths(config));
        let open_now = open.map(&mut |_, register| register.value);
        let open_end = b.register("open_end", 65);
        let merges = b.forward("merges", 1);
        let is_good = d2_is_good;
        let is_used = (taken & !skip.value & !(hold_mode & d2_now.has_error & is_good)).named("is_used");
        let continues = (open_valid.value & !open_now.last).named("continues");
        // Bytes that the open segment may still grow by, in two's complement.
        let open_room = b.register("open_room", 33);
        let room_after = (open_room.value - d2_length.resize(33)).named("room_after");
        let fits = !room_after.bit(32);
        let room_afresh = merge_bytes_max.resize(33) - d2_length.resize(33);
        open_room.next_if(is_used, merges.value.mux(room_after, room_afresh));
        let is_contiguous = open_end.value.eq_wide(d2_address.resize(65));
        merges.drive(is_used & continues & is_good & fits & is_contiguous);
        let merges = merges.value;
        let emit = (open_valid.value & (open_now.last | (is_used & !merges))).named("emit");
        let fresh = SegmentBeat {
            tag: d2_header.tag,
            function: d2_header.function,
            is_remote: d2_header.is_remote,
            status: d2_status,
            hop: d2_hop,
            address: d2_address,
            length: d2_length,
            mpt_index: d2_header.mpt_index,
            va: d2_va,
            segment: open_now.segment,
            first: !continues,
            last: d2_is_last | !is_good,
            admission: d2_header.admission,
        };
        // The length of the last piece only: those before it are in `open_length_before`.
        let merged = SegmentBeat { length: d2_length, last: d2_is_last, ..open_now };
        let mut next = mux_record(merges, merged, mux_record(is_used, fresh, open_now));
        next.length = is_used.mux(d2_length, open_now.length);
        let counted = (is_used & !merges).mux(open_now.segment + 1, open_now.segment);
        next.segment = (is_used & !continues).mux(b.literal(0, 20), counted);
        drive_record(open, next);
        let length_before = b.register("open_length_before", 32);
        let open_length = (length_before.value + open_now.length).named("open_length_sum");
        let length_now = is_used.mux(open_length, length_before.value);
        length_before.next((is_used & !merges).mux(b.literal(0, 32), length_now));
        open_end.next_if(is_used, d2_address.add_wide(d2_length.resize(64)));
        let (output_queue, output) = Fifo::new(design, b, "segment_queue", OUTPUT_DEPTH, SegmentBeat::widths(config));
        let emits = (emit & places.available).named("emits");
        let emitted = emits.delay_reset("emitted");
        let segment_ready = b.input("segment_ready", 1);
        output_queue.push(emitted, delay_record(SegmentBeat { length: open_length, ..open_now }, "emitted"));
        places.update(emitted, (output.out_valid & segment_ready).delay_reset("segment_taken"), never);
        advance.drive(places.available);
        open_valid.next(places.available.mux(is_used | (open_valid.value & !emit), open_valid.value));
        skip.next(taken.mux(!d2_is_last & (skip.value | (is_used & !is_good)), skip.value));
        output_queue.pop(segment_ready);
        b.output("segment_valid", output.out_valid);
        output_channel(b, "segment", output.out);
        b.name().into()
    }
}
