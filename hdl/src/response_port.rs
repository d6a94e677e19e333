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
//! **Latency and throughput.** Four cycles from a single beat to `response_valid`, two from a segment; one beat per cycle.
//!
//! **Timing.** A three-way select, then the classification, each in a stage.
//!
//! **Reset and flush.** Reset drops all beats.
//!
//! **Hazards.** The sources take turns, so that none starves the others; between the first and the last beat of a response
//! of several segments only that source is served.
//!
//! **Limits.** `response_depth` single responses, counted by the page split.

use crate::prim::{
    Design, Fifo, Record, Signal, delay_record, drive_record, input_channel, mux_record, or_all, output_channel,
    register_record,
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
    let is_one_of = |wanted: &dyn Fn(&Status) -> bool| {
        let matches: Vec<_> = Status::ALL.iter().filter(|s| wanted(s)).map(|s| status.is(s.code().into())).collect();
        or_all(&matches)
    };
    let names = is_one_of(&|s| s.names_a_table());
    let is_mtr = is_one_of(&|s| s.names_a_table() && s.severity() == Severity::Operation);
    let table = is_mtr.mux(b.literal(TABLE_CODE_MTR.into(), 3), b.literal(Table::Mpt.code().into(), 3));
    (names, names.repeat(3) & table)
}

/// The block.
pub struct ResponsePort;

impl ResponsePort {
    /// Builds the module `response_port` and gives its name.
    ///
    /// Outputs besides the channels: `single_place_freed`, pulses `finished` (a response's last beat has left; with
    /// `finished_generation`, `finished_stamp`, `finished_tag`, `finished_function`, `finished_status`), `failed` (with an error) and `sent` (a beat has left), and channel `event` with `event_valid`, valid only: a beat that names
    /// a table has left.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("response_port");
        let looked_up_valid = b.input("looked_up_valid", 1);
        let looked_up = input_channel(b, "looked_up", LookedUp::widths(config));
        let result_valid = b.input("result_valid", 1);
        let result = input_channel(b, "result", WalkResult::widths(config));
        let segment_valid = b.input("segment_valid", 1);
        let segment = input_channel(b, "segment", SegmentBeat::widths(config));
        let response_ready = b.input("response_ready", 1);

        let (hit_queue, hit) = Fifo::new(design, b, "hits", config.response_depth, Beat::widths(config));
        hit_queue.push(
            looked_up_valid & !looked_up.is_split & !looked_up.is_miss,
            Beat {
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
            },
        );
        let (walk_queue, walk) = Fifo::new(design, b, "walks", config.response_depth, Beat::widths(config));
        walk_queue.push(
            result_valid & !result.is_context & !result.is_split,
            Beat {
                tag: result.tag,
                function: result.function,
                is_remote: result.is_remote,
                status: result.status,
                hop: result.hop,
                address: result.address,
                length: result.status.none().repeat(32) & result.length,
                mpt_index: result.mpt_index,
                va: result.va,
                admission: result.admission,
            },
        );

        // Stage 0: choose. `turn` is the source served last.
        let r1_ready = b.forward("r1_ready", 1);
        let turn = b.register_reset("turn", 2, 0);
        let locked = b.register_reset("locked", 1, 0);
        let valid = [hit.out_valid & !locked.value, walk.out_valid & !locked.value, segment_valid];
        let after = |source: u128| {
            let (next, then, last) = ((source + 1) % 3, (source + 2) % 3, source);
            let number = |n: u128| b.literal(n, 2);
            valid[next as usize].mux(number(next), valid[then as usize].mux(number(then), number(last)))
        };
        let choice = turn.value.is(0).mux(after(0), turn.value.is(1).mux(after(1), after(2))).named("choice");
        let any = (valid[0] | valid[1] | valid[2]).named("any");
        let take = (any & r1_ready.value).named("take");
        turn.next_if(take, choice);
        let takes: Vec<Signal<'_>> = (0..3).map(|source| take & choice.is(source)).collect();
        hit_queue.pop(takes[0]);
        walk_queue.pop(takes[1]);
        b.output("segment_ready", takes[2]);
        b.output("single_place_freed", (takes[0] | takes[1]).delay_reset("single_place_freed_q"));
        locked.next(takes[2].mux(!segment.last, locked.value));

        let single = mux_record(choice.is(0), hit.out, walk.out);
        let single = SegmentBeat {
            tag: single.tag,
            function: single.function,
            is_remote: single.is_remote,
            status: single.status,
            hop: single.hop,
            address: single.address,
            length: single.length,
            mpt_index: single.mpt_index,
            va: single.va,
            segment: b.literal(0, 20),
            first: b.flag(true),
            last: b.flag(true),
            admission: single.admission,
        };
        let r1_valid = b.register_reset("r1_valid", 1, 0);
        let r1 = register_record(b, "r1", SegmentBeat::widths(config));
        let r1_now = r1.map(&mut |_, register| register.value);
        drive_record(r1, mux_record(r1_ready.value, mux_record(choice.is(2), segment, single), r1_now));
        r1_valid.next(r1_ready.value.mux(any, r1_valid.value));

        // Stage 1: classify.
        let r2_valid = b.register_reset("r2_valid", 1, 0);
        let r2_ready = (!r2_valid.value | response_ready).named("r2_ready");
        r1_ready.drive(!r1_valid.value | r2_ready);
        let at_least = |severity: Severity| r1_now.status.ge(b.literal(first_of(severity), STATUS_BITS));
        let class = |severity: Severity| {
            let [remote, local] = [true, false].map(|is_remote| severity.wire_class(is_remote) as u128);
            r1_now.is_remote.mux(b.literal(remote, WIRE_CLASS_BITS), b.literal(local, WIRE_CLASS_BITS))
        };
        let wire_class = at_least(Severity::Operation).mux(
            class(Severity::Operation),
            at_least(Severity::Protection).mux(
                class(Severity::Protection),
                at_least(Severity::Request).mux(class(Severity::Request), class(Severity::Success)),
            ),
        );
        let (names_a_table, table) = failed_table(r1_now.status);
        let beat = Response {
            tag: r1_now.tag,
            function: r1_now.function,
            status: r1_now.status,
            wire_class,
            table,
            hop: names_a_table.repeat(2) & r1_now.hop,
            segment: r1_now.segment,
            first: r1_now.first,
            last: r1_now.last,
            pa: r1_now.address,
            length: r1_now.length,
        };
        let r2 = register_record(b, "r2", Response::widths(config));
        let r2_now = r2.map(&mut |_, register| register.value);
        drive_record(r2, mux_record(r2_ready, beat, r2_now));
        r2_valid.next(r2_ready.mux(r1_valid.value, r2_valid.value));
        let r2_index = r1_now.mpt_index.hold("r2_index", r2_ready);
        let r2_va = r1_now.va.hold("r2_va", r2_ready);
        let r2_admission = r1_now.admission.hold("r2_admission", r2_ready);
        let r2_names = names_a_table.hold("r2_names_a_table", r2_ready);

        b.output("response_valid", r2_valid.value);
        output_channel(b, "response", r2_now);
        let sent = (r2_valid.value & response_ready).named("sent_now");
        b.output("sent", sent.delay_reset("sent_q"));
        b.output("finished", (sent & r2_now.last).delay_reset("finished_q"));
        b.output("finished_generation", r2_admission.bit(0).delay("finished_generation_q"));
        b.output("finished_stamp", r2_admission.high_bits(STAMP_BITS).delay("finished_stamp_q"));
        for (name, field) in [("tag", r2_now.tag), ("function", r2_now.function), ("status", r2_now.status)] {
            b.output(&format!("finished_{name}"), field.delay(&format!("finished_{name}_q")));
        }
        b.output("failed", (sent & r2_now.status.any()).delay_reset("failed_q"));
        b.output("event_valid", (sent & r2_names).delay_reset("event_valid_q"));
        let event = Event {
            tag: r2_now.tag,
            function: r2_now.function,
            status: r2_now.status,
            table: r2_now.table,
            hop: r2_now.hop,
            is_context: b.flag(false),
            index: r2_index,
            va: r2_va,
        };
        output_channel(b, "event", delay_record(event, "out"));
        b.name().into()
    }
}
