//! Sends pages to be walked to the MTR walker.
//!
//! **Purpose.** Turns pieces that missed the TLB into walks and merges them with the walks of the context port.
//!
//! **Handshake.** Channel `looked_up` in, valid only: the page split reserved a context of the walker. Channel
//! `context_walk` in, ready/valid; it waits for a cycle without a piece. Channel `walk` out, valid only: the walker has a
//! context for each.
//!
//! **Latency and throughput.** One cycle; one walk per cycle.
//!
//! **Timing.** A two-way select in front of a register.
//!
//! **Reset and flush.** Reset drops the walk that is under way here.
//!
//! **Hazards.** Pieces go first. They do not starve the context port: it takes the first cycle without a miss, and misses
//! end when the walker's contexts are used up.
//!
//! **Limits.** `request_walks` walks of pieces, counted by the page split, and `context_walks` walks of the context port,
//! counted here: together as many as the walker has contexts.

use crate::prim::{Credit, Design, Signal, delay_record, input_channel, output_channel};
use crate::records::{EPOCH_BITS, LookedUp, WalkRequest};
use keywalk_contract::{Config, mpt_entry::PBL_BA_SHIFT};

/// The block.
pub struct WalkQueue;

impl WalkQueue {
    /// Builds the module `walk_queue` and gives its name.
    ///
    /// Inputs besides the channels: `old_toggle` (of the piece's slot), `index_check`; `result_valid` with
    /// `result_is_context` (a walk has ended). Outputs besides the channels: pulses `walk_ended` (of a piece) and
    /// `walk_unused` (a piece needs no walk).
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("walk_queue");
        let valid = b.input("looked_up_valid", 1);
        let piece = input_channel(b, "looked_up", LookedUp::widths(config));
        let old_toggle = b.input("old_toggle", 1);
        let index_check = b.input("index_check", 1);
        let context_valid = b.input("context_walk_valid", 1);
        let context = input_channel(b, "context_walk", WalkRequest::widths(config));
        let result_valid = b.input("result_valid", 1);
        let result_is_context = b.input("result_is_context", 1);

        let missed = (valid & piece.is_miss).named("missed");
        let contexts = Credit::new(b, "context_walks", config.context_walks());
        let context_ready = (contexts.available & !missed).named("context_ready");
        let takes_context = (context_valid & context_ready).named("takes_context");
        contexts.update(takes_context, (result_valid & result_is_context).delay_reset("context_ended"), b.flag(false));
        b.output("context_walk_ready", context_ready);

        // Fields that a walk of the context port has no use for are those of some piece: a select less for each bit.
        let choose = |of_piece: Signal<'a>, of_context: Signal<'a>| missed.mux(of_piece, of_context);
        let walk = WalkRequest {
            is_context: !missed,
            tag: choose(piece.tag, context.tag),
            function: choose(piece.function, context.function),
            is_remote: piece.is_remote,
            table_set: piece.table_set,
            mpt_index: piece.mpt_index,
            virtual_page: piece.virtual_page,
            va: piece.va,
            length: piece.length,
            is_split: piece.is_split,
            split_context: piece.split_context,
            split_slot: piece.split_slot,
            split_toggle: !old_toggle,
            root: choose(piece.root.concat(b.literal(0, PBL_BA_SHIFT)), context.root),
            hop: choose(piece.hop_num, context.hop),
            ba_pg_sz: choose(piece.ba_pg_sz, context.ba_pg_sz),
            index: choose(piece.page_index, context.index),
            check_index: choose(index_check, context.check_index),
            count: choose(piece.page_count, context.count),
            offset: choose(piece.offset.resize(64), context.offset),
            admission: choose(piece.admission, context.admission),
            epoch: piece.epoch.resize(EPOCH_BITS),
        };
        b.output("walk_valid", (missed | takes_context).delay_reset("walk_valid_q"));
        output_channel(b, "walk", delay_record(walk, "walk_q"));
        b.output("walk_ended", (result_valid & !result_is_context).delay_reset("walk_ended_q"));
        b.output("walk_unused", (valid & !piece.is_miss).delay_reset("walk_unused_q"));
        b.name().into()
    }
}
