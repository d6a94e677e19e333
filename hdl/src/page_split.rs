//! Cuts requests into pieces of one page.
//!
//! **Purpose.** One piece per cycle, in address order. A request of several pages takes a split context, in which its
//! pieces gather until the response can start (see `split_buffer`); every other request is a single piece.
//!
//! **Handshake.** Channel `checked` in, valid only: the place was reserved on admission, and `place_freed` gives it back.
//! Channel `piece` out, valid only. A piece is sent only when everything that it may need is reserved: a place in the
//! queue of walks, and a place among the single responses, or a slot of its split context.
//!
//! **Latency and throughput.** Four cycles through the queue; one piece per cycle, without a gap between requests.
//!
//! **Timing.** The loop from one piece to the next is an increment of the page number and a countdown.
//!
//! **Reset and flush.** Reset drops everything and refills the list of split contexts; `ready` rises when that is done, and
//! no request may be sent before.
//!
//! **Hazards.** A long request (more pages than a split context has slots) uses its slots as a ring. Only one long
//! request is open at a time, so that one counter of free slots is enough.
//!
//! **Limits.** `split_contexts` requests of several pages; `response_depth` single responses; a queue of walks.

use crate::key_decoder::SPLIT_QUEUE_DEPTH;
use crate::prim::{
    Credit, Design, Fifo, FreeList, Record, concat, delay_record, drive_record, input_channel, mux_record,
    output_channel, register_record,
};
use crate::records::{Checked, Piece};
use keywalk_contract::Config;

/// Places in the queue of pages to be walked: more than the TLB's pipe is long.
pub const WALK_QUEUE_DEPTH: u32 = 16;

/// The block.
pub struct PageSplit;

impl PageSplit {
    /// Builds the module `page_split` and gives its name.
    ///
    /// Inputs besides the channels: pulses `walk_place_freed` and `walk_place_unused`, `single_place_freed`, `slot_freed` (a
    /// slot of the long request was drained), `long_finished`, and `context_freed` with `context_freed_number`. Outputs
    /// besides the channels: `ready` and `place_freed`.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("page_split");
        let checked_valid = b.input("checked_valid", 1);
        let checked = input_channel(b, "checked", Checked::widths(config));
        let context_freed = b.input("context_freed", 1);
        let context_freed_number = b.input("context_freed_number", config.split_context_bits());

        let (queue, head) = Fifo::new(design, b, "queue", SPLIT_QUEUE_DEPTH, Checked::widths(config));
        queue.push(checked_valid, checked);

        let contexts = FreeList::new(design, b, "contexts", config.split_context_bits());
        let walk = Credit::new(b, "walk_credit", WALK_QUEUE_DEPTH);
        let single = Credit::new(b, "single_credit", config.response_depth);
        let slots = Credit::new(b, "long_slots", config.split_pages);
        let long_open = b.register_reset("long_open", 1, 0);

        // The request whose pieces are being sent.
        let current_valid = b.register_reset("current_valid", 1, 0);
        let registers = register_record(b, "current", Checked::widths(config));
        let current = registers.map(&mut |_, register| register.value);
        let is_first = b.register("current_is_first", 1);
        let is_last = b.register("current_is_last", 1);
        let is_split = b.register("current_is_split", 1);
        let is_long = b.register("current_is_long", 1);
        let slot = b.register("current_slot", config.split_page_bits());
        let context = b.register("current_context", config.split_context_bits());

        let may_open = contexts.valid & !(is_long.value & long_open.value);
        let may_continue = !is_long.value | slots.available;
        let room = is_split.value.mux((may_open | !is_first.value) & may_continue, single.available);
        let issue = (current_valid.value & walk.available & room).named("issue");
        let opens = (issue & is_first.value & is_split.value).named("opens");
        let load = (!current_valid.value | (issue & is_last.value)).named("load");
        let pop = (load & head.out_valid).named("pop");
        queue.pop(load);
        b.output("place_freed", pop.delay_reset("place_freed_q"));
        contexts.take(opens);
        contexts.give(context_freed, context_freed_number);
        let piece_context = is_first.value.mux(contexts.number, context.value);
        context.next(piece_context);

        let page = current.va.bits(63, 12);
        let mask = current.page_mask.resize(52);
        let last_of_page = (page | mask).named("last_of_page");
        let stepped = Checked {
            va: (last_of_page + 1).concat(b.literal(0, 12)),
            pages_minus_one: current.pages_minus_one - 1,
            virtual_page: current.virtual_page + 1,
            page_index: current.page_index + 1,
            ..current
        };
        current_valid.next(load.mux(head.out_valid, b.flag(true)));
        drive_record(registers, mux_record(load, head.out, mux_record(issue, stepped, current)));
        is_first.next(load | (is_first.value & !issue));
        is_last
            .next(load.mux(head.out.pages_minus_one.none(), issue.mux(current.pages_minus_one.is(1), is_last.value)));
        is_split.next(load.mux(head.out.pages_minus_one.any(), is_split.value));
        let is_head_long = head.out.pages_minus_one.ge(b.literal(config.split_pages.into(), 20));
        is_long.next(load.mux(is_head_long, is_long.value));
        slot.next(load.mux(b.literal(0, config.split_page_bits()), issue.mux(slot.value + 1, slot.value)));

        let takes_slot = issue & is_long.value;
        walk.update(issue, b.input("walk_place_freed", 1), b.input("walk_place_unused", 1));
        single.update(issue & !is_split.value, b.input("single_place_freed", 1), b.flag(false));
        slots.update(takes_slot, b.input("slot_freed", 1), b.flag(false));
        long_open.next((long_open.value & !b.input("long_finished", 1)) | (opens & is_long.value));

        let end_of_page = concat(&[last_of_page.low_bits(20), b.literal(0xfff, 12)]);
        let piece = Piece {
            tag: current.tag,
            function: current.function,
            is_remote: current.is_remote,
            table_set: current.table_set,
            mpt_index: current.mpt_index,
            va: current.va,
            last: is_last.value.mux(current.last, end_of_page),
            status: current.status,
            hop: current.hop,
            is_translated: current.is_translated,
            is_empty: current.is_empty,
            page_mask: current.page_mask,
            virtual_page: current.virtual_page,
            page_index: current.page_index,
            root: current.root,
            hop_num: current.hop_num,
            ba_pg_sz: current.ba_pg_sz,
            page_count: current.page_count,
            is_split: is_split.value,
            split_context: piece_context,
            split_slot: slot.value,
            is_first: is_first.value,
            is_last: is_last.value,
            is_long: is_long.value,
            admission: current.admission,
            epoch: current.epoch,
        };
        b.output("ready", contexts.ready);
        b.output("piece_valid", issue.delay_reset("piece_valid_q"));
        output_channel(b, "piece", delay_record(piece, "out"));
        b.name().into()
    }
}
