//! Sends pages to be walked to the MTR walker.
//!
//! **Purpose.** Merges the pages of requests with the walks of the context port. The walker begins with every page while the
//! TLB still looks it up, and is told two cycles later whether there is a walk.
//!
//! **Handshake.** Channel `piece_start` in, valid only, and one cycle later channel `looked_up`, valid only: the page split
//! reserved a context of the walker. Channel `context_walk` in, ready/valid; it waits for a cycle without a piece, and
//! `gap_wanted` asks for one after it has waited for 15. Channel `start` out in the cycle of what it is made of,
//! `start_offset` one cycle later, and channel `walk`, valid only, two cycles later: the walker has a context for each.
//!
//! **Latency and throughput.** See the handshake; one walk per cycle.
//!
//! **Timing.** A two-way select without a register, and one in front of a register.
//!
//! **Reset and flush.** Reset drops the walk that is under way here.
//!
//! **Hazards.** Pieces go first.
//!
//! **Limits.** `request_walks` walks of pieces, counted by the page split, and `context_walks` walks of the context port,
//! counted here: together as many as the walker has contexts.

use crate::prim::{Credit, Design, Signal, delay_record, hold_record, input_channel, output_channel};
use crate::records::{ContextWalk, LookedUp, WalkRequest, WalkStart};
use keywalk_contract::Config;

/// Bits of the count of cycles that a walk of the context port waits for one without a piece, before a gap is asked for.
const WAIT_BITS: u32 = 4;

/// The block.
pub struct WalkQueue;

impl WalkQueue {
    /// Builds the module `walk_queue` and gives its name.
    ///
    /// Inputs besides the channels: `old_toggle` (of the piece's slot, with `looked_up`), `index_check`; `result_valid` with
    /// `result_is_context` (a walk has ended). Outputs besides the channels: `gap_wanted`, and the pulses `walk_ended` (of a
    /// piece) and `walk_unused` (a piece needs no walk).
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("walk_queue");
        let start_valid = b.input("piece_start_valid", 1);
        let start = input_channel(b, "piece_start", WalkStart::widths(config));
        let valid = b.input("looked_up_valid", 1);
        let piece = input_channel(b, "looked_up", LookedUp::widths(config));
        let old_toggle = b.input("old_toggle", 1);
        let index_check = b.input("index_check", 1);
        let context_valid = b.input("context_walk_valid", 1);
        let context = input_channel(b, "context_walk", ContextWalk::widths(config));
        let result_valid = b.input("result_valid", 1);
        let result_is_context = b.input("result_is_context", 1);

        // A register, because the select and the walker's shift follow.
        let has_context = b.register_reset("has_context", 1, 0);
        let contexts = Credit::new(b, "context_walks", config.context_walks());
        let takes_context = (has_context.value & contexts.available & !start_valid).named("takes_context");
        let context_ready = (!has_context.value | takes_context).named("context_ready");
        has_context.next(context_valid | !context_ready);
        let context = hold_record(context, "context", context_ready);
        contexts.update(takes_context, (result_valid & result_is_context).delay_reset("context_ended"), b.flag(false));
        b.output("context_walk_ready", context_ready);
        let waits = has_context.value & contexts.available & start_valid;
        let waited = b.register_reset("waited_cycles", WAIT_BITS, 0);
        let is_long = waited.value.all_set();
        waited.next((waited.value + (!is_long).resize(WAIT_BITS)) & waits.repeat(WAIT_BITS));
        b.output("gap_wanted", is_long.delay_reset("gap_wanted_q"));

        // Fields that a walk of the context port has no use for are those of some piece: a select less for each bit.
        let choose = |of_piece: Signal<'a>, of_context: Signal<'a>| start_valid.mux(of_piece, of_context);
        let start = WalkStart {
            is_context: !start_valid,
            root: choose(start.root, context.root),
            hop: choose(start.hop, context.hop),
            ba_pg_sz: choose(start.ba_pg_sz, context.ba_pg_sz),
            index: choose(start.index, context.index),
            check_index: choose(index_check, context.check_index),
            count: choose(start.count, context.count),
            ..start
        };
        output_channel(b, "start", start);

        // One cycle later: the rest.
        let is_context = takes_context.delay_reset("s1_is_context");
        let context = delay_record(context, "s1_context");
        let choose = |of_piece: Signal<'a>, of_context: Signal<'a>| is_context.mux(of_context, of_piece);
        b.output("start_offset", choose(piece.offset.resize(64), context.offset));
        let walk = WalkRequest {
            tag: choose(piece.tag, context.tag),
            function: choose(piece.function, context.function),
            is_remote: piece.is_remote,
            virtual_page: piece.virtual_page,
            va: piece.va,
            length: piece.length,
            is_split: piece.is_split,
            split_context: piece.split_context,
            split_slot: piece.split_slot,
            split_toggle: !old_toggle,
            admission: choose(piece.admission, context.admission),
        };
        b.output("walk_valid", ((valid & piece.is_miss) | is_context).delay_reset("walk_valid_q"));
        output_channel(b, "walk", delay_record(walk, "walk_q"));
        b.output("walk_ended", (result_valid & !result_is_context).delay_reset("walk_ended_q"));
        b.output("walk_unused", (valid & !piece.is_miss).delay_reset("walk_unused_q"));
        b.name().into()
    }
}
