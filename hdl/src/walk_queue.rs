//! Queues pages to be walked.
//!
//! **Purpose.** Turns pieces that missed the TLB into walks and merges them with the walks of the context port.
//!
//! **Handshake.** Channel `looked_up` in, valid only: the page split reserved a place. Channel `context_walk` in and
//! channel `walk` out, ready/valid. `context_walk_ready` depends on registers and on `walk_ready`, which the walker derives
//! from registers. A walk of the context port passes from `context_walk` to `walk` combinationally: both ends are registers,
//! and a stage between them would only delay it.
//!
//! **Latency and throughput.** Two cycles for a piece, none for a walk of the context port; one walk per cycle.
//!
//! **Timing.** A two-way select.
//!
//! **Reset and flush.** Reset drops all walks.
//!
//! **Hazards.** The two sources alternate when both wait. A walk that is offered stays until the walker takes it, whatever
//! arrives at the other source.
//!
//! **Limits.** As many pieces as the page split reserves places.

use crate::page_split::WALK_QUEUE_DEPTH;
use crate::prim::{Design, Fifo, Signal, input_channel, output_channel};
use crate::records::{EPOCH_BITS, LookedUp, WalkRequest};
use keywalk_contract::{Config, mpt_entry::PBL_BA_SHIFT};

/// The block.
pub struct WalkQueue;

impl WalkQueue {
    /// Builds the module `walk_queue` and gives its name.
    ///
    /// Inputs besides the channels: `old_toggle` (of the piece's slot), `index_check`. Outputs besides the channels:
    /// pulses `place_freed` and `place_unused`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("walk_queue");
        let valid = b.input("looked_up_valid", 1);
        let piece = input_channel(b, "looked_up", LookedUp::widths(config));
        let old_toggle = b.input("old_toggle", 1);
        let index_check = b.input("index_check", 1);
        let context_valid = b.input("context_walk_valid", 1);
        let context = input_channel(b, "context_walk", WalkRequest::widths(config));
        let walk_ready = b.input("walk_ready", 1);

        let walk = WalkRequest {
            is_context: b.flag(false),
            tag: piece.tag,
            function: piece.function,
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
            root: piece.root.concat(b.literal(0, PBL_BA_SHIFT)),
            hop: piece.hop_num,
            ba_pg_sz: piece.ba_pg_sz,
            index: piece.page_index,
            check_index: index_check,
            count: piece.page_count,
            offset: piece.offset.resize(64),
            admission: piece.admission,
            epoch: piece.epoch.resize(EPOCH_BITS),
        };
        let missed = (valid & piece.is_miss).named("missed_now");
        let (queue, head) = Fifo::new(design, b, "queue", WALK_QUEUE_DEPTH, WalkRequest::widths(config));
        queue.push(missed, walk);
        let context_next = b.register_reset("context_next", 1, 0);
        let serve_context = (context_valid & (context_next.value | !head.out_valid)).named("serve_context");
        let pop = (walk_ready & !serve_context).named("pop");
        queue.pop(pop);
        context_next.next_if(head.out_valid | context_valid, serve_context ^ walk_ready);
        b.output("context_walk_ready", walk_ready & serve_context);
        b.output("walk_valid", head.out_valid | context_valid);
        // Fields that a walk of the context port has no use for are those of some piece: a select less for each bit.
        let choose = |context: Signal<'a>, piece: Signal<'a>| serve_context.mux(context, piece);
        let walk = WalkRequest {
            is_context: serve_context,
            tag: choose(context.tag, head.out.tag),
            function: choose(context.function, head.out.function),
            root: choose(context.root, head.out.root),
            hop: choose(context.hop, head.out.hop),
            ba_pg_sz: choose(context.ba_pg_sz, head.out.ba_pg_sz),
            index: choose(context.index, head.out.index),
            check_index: choose(context.check_index, head.out.check_index),
            count: choose(context.count, head.out.count),
            offset: choose(context.offset, head.out.offset),
            admission: choose(context.admission, head.out.admission),
            ..head.out
        };
        output_channel(b, "walk", walk);
        b.output("place_freed", (pop & head.out_valid).delay_reset("place_freed_q"));
        b.output("place_unused", (valid & !piece.is_miss).delay_reset("place_unused_q"));
        b.name().into()
    }
}
