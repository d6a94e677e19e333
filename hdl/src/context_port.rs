//! The context port: addresses of context entries, and pages of queue buffers.
//!
//! **Purpose.** Sends context lookups to the HEM lookup and queue-buffer walks to the MTR walker, and their answers, in
//! the order in which they come, to `m_axis_ctx`.
//!
//! **Handshake.** Channel `context_request` in, ready/valid; `context_request_ready` depends on registers. Channels
//! `lookup` and `walk` out, ready/valid. Channel `answer` in (from the HEM lookup), ready/valid, and channel
//! `result` in (from the walker), valid only: both have a place reserved, so `answer_ready` is always set. Channel
//! `context_response` out, ready/valid. Channel `event` out with `event_valid`: taken when `event_ready`. `empty` falls in
//! the cycle after a request was accepted and rises two cycles after the last response was taken.
//!
//! **Latency and throughput.** Five cycles from a request to its lookup or walk; three from an answer or a
//! result to the response. One request per cycle.
//!
//! **Timing.** The shift of a direct buffer's index has a stage of its own.
//!
//! **Reset and flush.** Reset drops everything; the function map is scrubbed to table set 0, then `ready` rises.
//!
//! **Hazards.** While an event waits for `event_ready`, no further response is offered.
//!
//! **Limits.** 16 requests in flight.

use crate::function_map::FunctionMap;
use crate::prim::{
    Credit, Design, Fifo, Record, delay_record, hold_record, input_channel, mux_record, output_channel,
    select_by_number,
};
use crate::records::{
    ContextAnswer, ContextLookup, ContextWalk, ENTRY_EPOCH_BITS, Event, HEM_EPOCH_BITS, STAMP_BITS, WalkResult,
};
use crate::response_port::failed_table;
use keywalk_contract::Config;

/// Requests in flight.
const DEPTH: u32 = 16;
/// Places in a queue: far more than needed, so that it is made of block RAM and costs no LUT.
const QUEUE_DEPTH: u32 = 128;

crate::record! {
    /// A request as it comes from the context port.
    pub struct ContextRequest(config) {
        /// See the context port.
        tag: config.tag_bits,
        /// See the context port.
        function: config.function_bits,
        /// See the context port.
        is_walk: 1,
        /// See the context port.
        table: 3,
        /// See the context port.
        index: 32,
        /// See the context port.
        root: 64,
        /// See the context port.
        hop: 2,
        /// See the context port.
        ba_pg_sz: 4,
        /// See the context port.
        buf_pg_sz: 4,
        /// See the context port.
        count: 32,
    }
}

crate::record! {
    /// Whether an answer names a table, which makes it an event. Known on the way into a queue, to save time behind it.
    struct Named(_config) {
        /// It does.
        names_a_table: 1,
    }
}

/// The block.
pub struct ContextPort;

impl ContextPort {
    /// Builds the module `context_port` and gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("context_port");
        let request_valid = b.input("context_request_valid", 1);
        let request = input_channel(b, "context_request", ContextRequest::widths(config));
        let pause = b.input("pause", 1);
        let bases: Vec<_> = (0..config.table_sets).map(|set| b.input(&format!("page_shift_base_{set}"), 2)).collect();
        let function_map = FunctionMap::new(b, config);
        let running = function_map.running;

        let credit = Credit::new(b, "credit", DEPTH);
        b.output("ready", running.delay_reset("ready_q"));
        let is_open = (running & !pause).delay_reset("is_open");
        let request_ready = (credit.available & is_open).named("request_ready");
        b.output("context_request_ready", request_ready);
        let accept = (request_valid & request_ready).named("accept");
        b.output("accepted", accept.delay_reset("accepted_q"));
        b.output("empty", credit.full);

        // What is noted of the admission. Nothing of a context is found under the epochs of regions.
        let s1_generation = b.input("generation", 1).delay("s1_generation");
        let s1_hem_epoch = b.input("hem_epoch", HEM_EPOCH_BITS).delay("s1_hem_epoch");
        b.output("accepted_generation", s1_generation);
        let s3_admission = b.literal(0, STAMP_BITS).concat(s1_generation.delay("s2_generation").delay("s3_generation"));
        let s3_hem_epoch = s1_hem_epoch.delay("s2_hem_epoch").delay("s3_hem_epoch");
        let s3_epoch = s3_hem_epoch.concat(b.literal(0, ENTRY_EPOCH_BITS));

        // Stage 1: the table set.
        let s1_valid = accept.delay_reset("s1_valid");
        let s1 = delay_record(request, "s1");
        let table_set = function_map.table_set(config, request.function);

        // Stage 2: the page shift.
        let base = select_by_number(&bases, table_set);
        let s2_valid = s1_valid.delay_reset("s2_valid");
        let s2_table_set = table_set.delay("s2_table_set");
        let s2_shift = (base.resize(5) + s1.buf_pg_sz.resize(5)).delay("s2_shift");
        // Reset keeps the stages out of shift registers, which cost LUTs.
        let s2 = s1.map(&mut |name, field| field.delay_reset(&format!("s2_{name}")));

        // Stage 3: the displacement of a direct buffer's page.
        let displacement = s2.index.resize(52).shift_left(s2_shift).concat(b.literal(0, 12));
        let is_direct = s2.hop.none();
        let s3_valid = s2_valid.delay_reset("s3_valid");
        let s3_offset = (is_direct.repeat(64) & displacement).delay("s3_offset");
        let s3_table_set = s2_table_set.delay("s3_table_set");
        let s3 = delay_record(s2, "s3");

        let (lookup_queue, lookup) = Fifo::new(design, b, "lookups", QUEUE_DEPTH, ContextLookup::widths(config));
        lookup_queue.push(
            s3_valid & !s3.is_walk,
            ContextLookup {
                tag: s3.tag,
                function: s3.function,
                table_set: s3_table_set,
                table: s3.table,
                index: s3.index,
                admission: s3_admission,
                epoch: s3_epoch,
            },
        );
        lookup_queue.pop(b.input("lookup_ready", 1));
        b.output("lookup_valid", lookup.out_valid);
        output_channel(b, "lookup", lookup.out);

        let walk = ContextWalk {
            tag: s3.tag,
            function: s3.function,
            root: s3.root,
            hop: s3.hop,
            ba_pg_sz: s3.ba_pg_sz,
            index: s3.index,
            check_index: s3.count.any(),
            count: s3.count,
            offset: s3_offset,
            admission: s3_admission,
        };
        let (walk_queue, walks) = Fifo::new(design, b, "walks", QUEUE_DEPTH, ContextWalk::widths(config));
        walk_queue.push(s3_valid & s3.is_walk, walk);
        walk_queue.pop(b.input("walk_ready", 1));
        b.output("walk_valid", walks.out_valid);
        output_channel(b, "walk", walks.out);

        // Answers.
        let result_valid = b.input("result_valid", 1);
        let result = input_channel(b, "result", WalkResult::widths(config));
        let (result_names, failed) = failed_table(result.status);
        let queued = || (ContextAnswer::widths(config), Named::widths(config));
        let (result_queue, results) = Fifo::new(design, b, "results", QUEUE_DEPTH, queued());
        let found = ContextAnswer {
            tag: result.tag,
            function: result.function,
            status: result.status,
            table: failed,
            hop: result.hop,
            address: result.address,
            index: result.index,
            admission: result.admission,
        };
        result_queue.push(result_valid & result.is_context, (found, Named { names_a_table: result_names }));
        // Lookups have a place reserved as well, so that an answer never waits in the HEM lookup, where it would keep a
        // context from the requests.
        let (answer_queue, answers) = Fifo::new(design, b, "answers", QUEUE_DEPTH, queued());
        let answer = input_channel(b, "answer", ContextAnswer::widths(config));
        let (answer_names, _) = failed_table(answer.status);
        answer_queue.push(b.input("answer_valid", 1), (answer, Named { names_a_table: answer_names }));
        b.output("answer_ready", b.flag(true));
        let out_valid = b.register_reset("out_valid", 1, 0);
        let event_valid = b.register_reset("event_valid_q", 1, 0);
        let response_ready = b.input("context_response_ready", 1);
        let event_ready = b.input("event_ready", 1);
        let may_load = ((!out_valid.value | response_ready) & (!event_valid.value | event_ready)).named("may_load");
        let load = (may_load & (results.out_valid | answers.out_valid)).named("load");
        result_queue.pop(may_load);
        answer_queue.pop(may_load & !results.out_valid);
        let chosen = hold_record(mux_record(results.out_valid, results.out.0, answers.out.0), "out", load);
        let is_walk = results.out_valid.hold("out_is_walk", load);
        let names = results.out_valid.mux(results.out.1.names_a_table, answers.out.1.names_a_table);
        out_valid.next(load | (out_valid.value & !response_ready));
        event_valid.next((load & names) | (event_valid.value & !event_ready));
        b.output("context_response_valid", out_valid.value);
        for (name, signal) in chosen.list() {
            if !matches!(name, "index" | "admission") {
                b.output(&format!("context_response_{name}"), signal);
            }
        }
        b.output("event_valid", event_valid.value);
        let event = Event {
            tag: chosen.tag,
            function: chosen.function,
            status: chosen.status,
            table: chosen.table,
            hop: chosen.hop,
            is_context: b.flag(true),
            // A lookup has an object number and no virtual address; of a walk the page index stands in the latter's place.
            index: (!is_walk).repeat(24) & chosen.index.low_bits(24),
            va: is_walk.repeat(64) & chosen.index.resize(64),
        };
        output_channel(b, "event", event);
        let finishes = (out_valid.value & response_ready).named("finishes");
        credit.update(accept, finishes, b.flag(false));
        b.output("finished", finishes.delay_reset("finished_q"));
        b.output("finished_generation", chosen.admission.bit(0).delay("finished_generation_q"));
        b.name().into()
    }
}
