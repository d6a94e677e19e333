//! Sends the beats of all responses through the response port.
//!
//! **Purpose.** Three sources: single-page requests that hit or failed a check, single-page requests that were walked, and
//! the segments of requests of several pages. The beats of one response are never interleaved with another's. The wire
//! class and the failed table are derived from the status here, in one place.
//!
//! **Handshake.** Channels `looked_up` and `result` in, valid only: the page split reserved a place. Channel `segment` in,
//! ready/valid. Channel `response` out, ready/valid; its ready reaches the queues' outputs combinationally, but no output
//! of this block other than `segment_ready`, whose queue takes it into registers.
//!
//! **Latency and throughput.** One cycle from a hit, or from a page that a walk found (`result_is_found`), to
//! `response_valid`, if nothing waits and, of a walk, no piece comes; else three; one from a segment; one beat per cycle.
//!
//! **Timing.** A hit's page is selected and its offset added in front of this block; then come the four-way select and the
//! register of the port. Statuses are classified beside the choice.
//!
//! **Reset and flush.** Reset drops all beats.
//!
//! **Hazards.** A walked response lets hits go first, so that misses do not hold them up: for 32 cycles every hit that may
//! come, then those that wait already. When it has waited for 128 cycles, or while 16 wait together (or a quarter of
//! `response_depth`), and among all other sources, the sources take turns, so that none starves the others. A hit passes
//! them only while none of them takes the port, and may so overtake a hit that is still on its way through the queue;
//! between the first and the last beat of a response of several segments only that source is served. No source brings a
//! hop with a status that names no table.
//!
//! **Limits.** `response_depth` single responses, counted by the page split.

use crate::prim::{
    Count, Design, Fifo, Record, Signal, delay_record, hold_record, input_channel, or_all, output_channel, select_tree,
};
use crate::records::{Beat, Event, LookedUp, STAMP_BITS, SegmentBeat, WalkResult};
use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::status::{STATUS_BITS, Severity, WIRE_CLASS_BITS};
use keywalk_contract::{Config, Status, Table};

crate::record! {
    /// A beat as it leaves through the port.
    pub struct Response(config) {
        /// See the response port.
        tag: config.tag_bits,
        /// See the response port.
        function: config.function_bits,
        /// See the response port.
        status: STATUS_BITS,
        /// See the response port.
        wire_class: WIRE_CLASS_BITS,
        /// See the response port.
        table: 3,
        /// See the response port.
        hop: 2,
        /// See the response port.
        segment: 20,
        /// See the response port.
        first: 1,
        /// See the response port.
        last: 1,
        /// See the response port.
        pa: 64,
        /// See the response port.
        length: 32,
    }
}

crate::record! {
    /// What a status means at the port.
    struct Outcome(_config) {
        /// See the response port.
        wire_class: WIRE_CLASS_BITS,
        /// See the response port.
        table: 3,
        /// The status names a table.
        names_a_table: 1,
    }
}

/// log2 of the cycles that a walked response waits for one in which no hit can come.
const LATE_LOG2: u32 = 5;
/// log2 of the cycles after which it takes its turn.
const URGENT_LOG2: u32 = 7;
/// Walked responses that wait together at which they take their turns, or a quarter of the places.
const CROWD: u32 = 16;
/// Bits of a status code that are ever set.
const USED_STATUS_BITS: u32 = 5;
const _: () = assert!(Status::ALL.len() <= 1 << USED_STATUS_BITS, "every status has its code");

/// First status of each severity: statuses are grouped by severity in rising order of code.
fn first_of(severity: Severity) -> u128 {
    let position = Status::ALL.iter().position(|status| status.severity() == severity).expect("every severity is used");
    let mut group = Status::ALL[position..].iter().skip_while(|status| status.severity() == severity);
    assert!(group.all(|status| status.severity() != severity), "statuses are grouped by severity");
    position as u128
}

/// Whether the status is one that names a table, and the code of that table for requests.
pub fn failed_table<'a>(status: Signal<'a>) -> (Signal<'a>, Signal<'a>) {
    let b = status.builder();
    let status = status.low_bits(USED_STATUS_BITS);
    let is_one_of = |wanted: &dyn Fn(&Status) -> bool| {
        let matches: Vec<_> = Status::ALL.iter().filter(|s| wanted(s)).map(|s| status.is(s.code().into())).collect();
        or_all(&matches)
    };
    let names = is_one_of(&|s| s.names_a_table());
    let is_mtr = is_one_of(&|s| s.names_a_table() && s.severity() == Severity::Operation);
    let table = is_mtr.mux(b.literal(TABLE_CODE_MTR.into(), 3), b.literal(Table::Mpt.code().into(), 3));
    (names, names.repeat(3) & table)
}

/// Classifies a status: each bit is a function of the status and of the side.
fn classified<'a>(status: Signal<'a>, is_remote: Signal<'a>) -> Outcome<Signal<'a>> {
    let b = status.builder();
    let code = status.low_bits(USED_STATUS_BITS);
    let at_least = |severity: Severity| code.ge(b.literal(first_of(severity), USED_STATUS_BITS));
    let class = |severity: Severity| {
        let [remote, local] = [true, false].map(|is_remote| severity.wire_class(is_remote) as u128);
        is_remote.mux(b.literal(remote, WIRE_CLASS_BITS), b.literal(local, WIRE_CLASS_BITS))
    };
    let wire_class = at_least(Severity::Operation).mux(
        class(Severity::Operation),
        at_least(Severity::Protection).mux(
            class(Severity::Protection),
            at_least(Severity::Request).mux(class(Severity::Request), class(Severity::Success)),
        ),
    );
    let (names_a_table, table) = failed_table(status);
    Outcome { wire_class, table, names_a_table }
}

/// The block.
pub struct ResponsePort;

impl ResponsePort {
    /// Builds the module `response_port` and gives its name.
    ///
    /// Outputs besides the channels: `single_place_freed`, pulses `finished` (a response's last beat has left, with its
    /// `finished_generation`, `finished_stamp`, `finished_tag`, `finished_function` and `finished_status`), `failed` (with an
    /// error) and `sent` (a beat has left), and channel `event` with `event_valid`, valid only: a beat that names
    /// a table has left.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("response_port");
        let looked_up_valid = b.input("looked_up_valid", 1);
        let looked_up = input_channel(b, "looked_up", LookedUp::widths(config));
        let result_valid = b.input("result_valid", 1);
        let result = input_channel(b, "result", WalkResult::widths(config));
        let segment_valid = b.input("segment_valid", 1);
        let segment = input_channel(b, "segment", SegmentBeat::widths(config));
        let response_ready = b.input("response_ready", 1);

        let direct_valid = (looked_up_valid & !looked_up.is_split & !looked_up.is_miss).named("direct_valid");
        let direct = Beat {
            tag: looked_up.tag,
            function: looked_up.function,
            is_remote: looked_up.is_remote,
            status: looked_up.status,
            hop: looked_up.hop,
            address: looked_up.address,
            length: looked_up.length,
            mpt_index: looked_up.mpt_index,
            va: looked_up.va,
            admission: looked_up.admission,
        };
        // Statuses are classified where they come in, beside the choice of the source.
        let single = (Beat::widths(config), Outcome::widths(config));
        let (hit_queue, hit) = Fifo::new(design, b, "hits", config.response_depth, single);
        let (walk_queue, walk) = Fifo::new(design, b, "walks", config.response_depth, single);
        let walk_valid = result_valid & !result.is_context & !result.is_split;
        let walked = Beat {
            tag: result.tag,
            function: result.function,
            is_remote: result.is_remote,
            status: result.status,
            hop: result.hop,
            address: result.address,
            length: b.input("result_is_ok", 1).repeat(32) & result.length,
            mpt_index: result.mpt_index,
            va: result.va,
            admission: result.admission,
        };
        // What passes by the queues: a piece, or a page that was found where there is no piece. A page that was found makes no
        // event, so that the fields of one may be anything.
        let is_found = walk_valid & b.input("result_is_found", 1) & !looked_up_valid;
        let of_piece = |piece: Signal<'a>, found: Signal<'a>| looked_up_valid.mux(piece, found);
        let passing = Beat {
            tag: of_piece(direct.tag, walked.tag),
            function: of_piece(direct.function, walked.function),
            is_remote: of_piece(direct.is_remote, walked.is_remote),
            status: direct.status & looked_up_valid.repeat(STATUS_BITS),
            hop: direct.hop & looked_up_valid.repeat(2),
            address: of_piece(direct.address, b.input("result_found_address", 64)),
            length: of_piece(direct.length, result.length),
            admission: of_piece(direct.admission, walked.admission),
            ..direct
        };

        // Choose: segments and single responses take turns, and among these hits and walks. A hit, or a page that was found,
        // that finds nobody waiting passes by the queues.
        let out_valid = b.register_reset("out_valid", 1, 0);
        let is_free = (!out_valid.value | response_ready).named("is_free");
        let segment_had_turn = b.register_reset("segment_had_turn", 1, 0);
        let walk_had_turn = b.register_reset("walk_had_turn", 1, 0);
        let locked = b.register_reset("locked", 1, 0);
        // A walked response waits for a cycle in which no hit can come, later for one in which no hit waits; when it has
        // waited for long, or with many others, it takes its turn.
        let is_late = b.register_reset("walk_is_late", 1, 0);
        let is_urgent = b.register_reset("walk_is_urgent", 1, 0);
        let may_hit = looked_up_valid & !looked_up.is_split;
        let yields = hit.out_valid | (may_hit & !is_late.value);
        let walk_goes = (walk.out_valid & (is_urgent.value | !yields)).named("walk_goes");
        // Written as a choice by `walk_goes`, which is known last.
        let (is_hit, is_segment, is_locked) = (hit.out_valid, segment_valid, locked.value);
        let segment_goes_first = is_segment & !segment_had_turn.value;
        let hit_counts = is_hit & !is_locked;
        let hit_goes_first = is_hit & walk_had_turn.value;
        let takes_segment = walk_goes.mux(
            is_segment & (is_locked | !segment_had_turn.value),
            is_segment & !(hit_counts & segment_had_turn.value),
        );
        let any = walk_goes.mux(!is_locked | is_segment, hit_counts | is_segment).named("any");
        let single_goes = !is_locked & !segment_goes_first;
        let is_nobody = !(hit_counts | is_segment | is_locked);
        // What shows while a response waits for its next segment does not matter.
        let choice = |waiting: Signal<'a>| {
            let number_1 = walk_goes.mux(
                is_segment & (is_locked | !segment_had_turn.value),
                is_nobody | (is_segment & !(hit_counts & segment_had_turn.value)),
            );
            let number_0 = walk_goes.mux(single_goes & !hit_goes_first, is_nobody);
            (number_1 | waiting).concat(number_0 | waiting)
        };
        // Two that differ, so that synthesis does not make one signal of them, which would have too many loads.
        let number = choice(is_locked & !is_segment).named("choice");
        let other_number = choice(b.flag(false)).named("other_choice");
        let takes = [
            is_free & single_goes & is_hit & walk_goes.mux(walk_had_turn.value, b.flag(true)),
            is_free & single_goes & walk_goes & !hit_goes_first,
            is_free & takes_segment,
        ];
        let take = (any & is_free).named("take");
        let takes_walk = walk_goes & !hit_goes_first;
        segment_had_turn.next_if(take, takes_segment);
        walk_had_turn.next_if(take & !takes_segment, takes_walk);
        let may_pass = (is_free & !any & !locked.value).named("may_pass");
        let passes = ((direct_valid | is_found) & may_pass).named("passes");
        hit_queue.push(direct_valid & !may_pass, (direct, classified(direct.status, direct.is_remote)));
        let walk_pushes = walk_valid & !(is_found & may_pass);
        walk_queue.push(walk_pushes, (walked, classified(walked.status, walked.is_remote)));
        let waits = b.register_reset("walk_waits", URGENT_LOG2 + 1, 0);
        let is_long_wait = waits.value.bit(URGENT_LOG2);
        let counted = waits.value + (!is_long_wait).resize(URGENT_LOG2 + 1);
        waits.next((walk.out_valid & !takes[1]).repeat(URGENT_LOG2 + 1) & counted);
        // Counted a cycle later, to keep the choice out of the count.
        let [comes, goes] =
            [(walk_pushes, "walk_came"), (takes[1], "walk_went")].map(|(flag, name)| flag.delay_reset(name));
        let waiting = Count::new(b, "waiting_walks", config.response_depth.ilog2() + 1, comes, goes);
        let crowd_log2 = (config.response_depth / 4).min(CROWD).ilog2();
        let is_crowded = waiting.value().high_bits(waiting.value().width() - crowd_log2).any();
        is_late.next(waits.value.high_bits(URGENT_LOG2 + 1 - LATE_LOG2).any() & !takes[1]);
        is_urgent.next((is_long_wait & !takes[1]) | is_crowded);
        hit_queue.pop(takes[0]);
        walk_queue.pop(takes[1]);
        b.output("segment_ready", takes[2]);
        b.output("single_place_freed", (takes[0] | takes[1] | passes).delay_reset("single_place_freed_q"));
        locked.next(takes[2].mux(!segment.last, locked.value));

        let of_single = |beat: Beat<Signal<'a>>| SegmentBeat {
            tag: beat.tag,
            function: beat.function,
            is_remote: beat.is_remote,
            status: beat.status,
            hop: beat.hop,
            address: beat.address,
            length: beat.length,
            mpt_index: beat.mpt_index,
            va: beat.va,
            segment: b.literal(0, 20),
            first: b.flag(true),
            last: b.flag(true),
            admission: beat.admission,
        };
        let (hit_beat, hit_outcome) = hit.out;
        let (walk_beat, walk_outcome) = walk.out;
        let sources = [
            (of_single(hit_beat), hit_outcome),
            (of_single(walk_beat), walk_outcome),
            (segment, classified(segment.status, segment.is_remote)),
            (of_single(passing), classified(passing.status, passing.is_remote)),
        ]
        .map(Record::list);
        let mut position = 0;
        let (beat, outcome) = (segment, hit_outcome).map(&mut |name, _| {
            let fields = [0, 1, 2, 3].map(|source: usize| sources[source][position].1);
            position += 1;
            select_tree(if ["va", "mpt_index", "length"].contains(&name) { other_number } else { number }, &fields)
        });

        let response = Response {
            tag: beat.tag,
            function: beat.function,
            status: beat.status,
            wire_class: outcome.wire_class,
            table: outcome.table,
            hop: beat.hop,
            segment: beat.segment,
            first: beat.first,
            last: beat.last,
            pa: beat.address,
            length: beat.length,
        };
        let out = hold_record(response, "out", is_free);
        out_valid.next(!is_free | any | passes);
        let out_index = beat.mpt_index.hold("out_index", is_free);
        let out_va = beat.va.hold("out_va", is_free);
        let out_names = outcome.names_a_table.hold("out_names_a_table", is_free);
        let out_admission = beat.admission.hold("out_admission", is_free);

        b.output("response_valid", out_valid.value);
        output_channel(b, "response", out);
        let sent = (out_valid.value & response_ready).named("sent_now");
        b.output("sent", sent.delay_reset("sent_q"));
        b.output("finished", (sent & out.last).delay_reset("finished_q"));
        b.output("finished_generation", out_admission.bit(0).delay("finished_generation_q"));
        b.output("finished_stamp", out_admission.high_bits(STAMP_BITS).delay("finished_stamp_q"));
        b.output("finished_tag", out.tag.delay("finished_tag_q"));
        b.output("finished_function", out.function.delay("finished_function_q"));
        b.output("finished_status", out.status.delay("finished_status_q"));
        b.output("failed", (sent & out.status.any()).delay_reset("failed_q"));
        b.output("event_valid", (sent & out_names).delay_reset("event_valid_q"));
        let event = Event {
            tag: out.tag,
            function: out.function,
            status: out.status,
            table: out.table,
            hop: out.hop,
            is_context: b.flag(false),
            index: out_index,
            va: out_va,
        };
        output_channel(b, "event", delay_record(event, "event_q"));
        b.name().into()
    }
}
