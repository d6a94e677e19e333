//! Cuts requests into pieces of one page.
//!
//! **Purpose.** One piece per cycle, in address order. A request of several pages takes a split context, in which its
//! pieces gather until the response can start (see `split_buffer`); every other request is a single piece. What the pieces
//! of a request share, and no lookup needs, is kept here in a memory and joins them behind the TLB.
//!
//! **Handshake.** Channel `checked` in, valid only: a place was reserved on admission, and `place_freed` gives it back.
//! Channel `held` in, one cycle before its `checked`. Channel `piece` out, valid only, and channel `held_out` two cycles
//! later. A piece is sent only when everything that it may need is reserved: a context of the walker, and a place among the
//! single responses, or a slot of its split context.
//!
//! **Latency and throughput.** None for a request of one page that finds nothing before it; three cycles through the queue.
//! One piece per cycle, without a gap between requests.
//!
//! **Timing.** A two-way select between the request that is being cut and the one that arrives, in front of the TLB's
//! memory. The loop from one piece to the next is an increment of the page number and a countdown.
//!
//! **Reset and flush.** Reset drops everything and refills the list of split contexts; `ready` rises when that is done, and
//! no request may be sent before.
//!
//! **Hazards.** A request passes by the queue only where the queue is empty and none is being cut, so requests stay in
//! order; one that might touch several pages never does. A long request (more pages than a split context has slots) uses
//! its slots as a ring. Only one long request is open at a time, so that one counter of free slots is enough.
//!
//! **Limits.** `admitted_max` requests in the queue; `split_contexts` requests of several pages; `response_depth` single
//! responses; `request_walks` walks. Of single responses, walks and slots of a long request the last free one is not used
//! until another comes back, unless two pieces take the last two in a row (see [`Credit`]).

use crate::prim::{
    Credit, Design, Fifo, FreeList, Ram, RamStyle, Record, Signal, concat, drive_record, input_channel, mux_record,
    output_channel, register_record,
};
use crate::records::{Checked, Held, Piece, held_bits};
use keywalk_contract::Config;

/// Bits of a virtual address above the smallest page.
const PAGE_BITS: u32 = 52;
/// Of them, those that can lie within a page.
const MASK_BITS: u32 = 18;

crate::record! {
    /// How a request is cut.
    struct Cut(_config) {
        /// It touches several pages.
        has_more: 1,
        /// It touches more pages than a split context has slots.
        is_long: 1,
    }
}

/// The block.
pub struct PageSplit;

impl PageSplit {
    /// Builds the module `page_split` and gives its name.
    ///
    /// Inputs besides the channels: `checked_may_have_more` (the request touches several pages, if it is translated at
    /// all: known sooner), `held_number`, pulses `walk_ended` and `walk_unused` (a piece needed no walk),
    /// `single_place_freed`, `slot_freed` (a slot of the long request was drained), `long_finished`, and `context_freed`
    /// with `context_freed_number`. Outputs besides the channels: `ready` and `place_freed`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("page_split");
        let checked_valid = b.input("checked_valid", 1);
        let may_have_more = b.input("checked_may_have_more", 1);
        let checked = input_channel(b, "checked", Checked::widths(config));
        let context_freed = b.input("context_freed", 1);
        let context_freed_number = b.input("context_freed_number", config.split_context_bits());
        let depth = config.admitted_max();

        let contexts = FreeList::new(design, b, "contexts", config.split_context_bits());
        let walk = Credit::new(b, "walk_credit", config.request_walks());
        let single = Credit::new(b, "single_credit", config.response_depth);
        let slots = Credit::new(b, "long_slots", config.split_pages);
        let long_open = b.register_reset("long_open", 1, 0);
        // A walk and a single response may be had. One register for both, whatever the piece needs.
        let may_answer = b.register_reset("may_answer", 1, 1);
        may_answer.next(walk.next_available & single.next_available);

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

        // The queue, and the way past it. The queue shows an entry two cycles late, so it is counted here.
        let places = Credit::new(b, "places", depth);
        let passes =
            (checked_valid & !may_have_more & places.full & !current_valid.value & may_answer.value).named("passes");
        let pushes = (checked_valid & !passes).named("pushes");
        let (queue, head) = Fifo::new(design, b, "queue", depth, (Checked::widths(config), Cut::widths(config)));
        let has_more = may_have_more & checked.is_translated;
        let is_long_arrival = has_more & checked.pages_minus_one.ge(b.literal(config.split_pages.into(), 20));
        queue.push(pushes, (checked, Cut { has_more, is_long: is_long_arrival }));
        let (head_request, head_cut) = head.out;

        // Flags of the request that is being cut, set when it is loaded: its next piece opens a context, of a long request.
        let is_opening = b.register("current_is_opening", 1);
        let is_opening_long = b.register("current_is_opening_long", 1);
        let may_open = !is_opening.value | (contexts.valid & !(is_opening_long.value & long_open.value));
        let room = may_open & (!is_long.value | slots.available);
        let issue = (current_valid.value & may_answer.value & room).named("issue");
        let opens = (issue & is_opening.value).named("opens");
        let load = (!current_valid.value | (issue & is_last.value)).named("load");
        let pop = (load & head.out_valid).named("pop");
        queue.pop(load);
        // Late, to keep the pop out of the count: the queue only looks occupied for a cycle longer.
        places.update(pushes, pop.delay_reset("popped"), b.flag(false));
        b.output("place_freed", (pop | passes).delay_reset("place_freed_q"));
        contexts.take(opens);
        contexts.give(context_freed, context_freed_number);
        let piece_context = is_first.value.mux(contexts.number, context.value);
        context.next(piece_context);

        let page = current.va.bits(63, 12);
        let mask_bits: Vec<_> =
            (0..MASK_BITS).rev().map(|bit| b.literal(bit.into(), 5).lt(current.page_shift)).collect();
        let last_of_page = (page | concat(&mask_bits).resize(PAGE_BITS)).named("last_of_page");
        let stepped = Checked {
            va: (last_of_page + 1).concat(b.literal(0, 12)),
            pages_minus_one: current.pages_minus_one - 1,
            virtual_page: current.virtual_page + 1,
            page_index: current.page_index + 1,
            ..current
        };
        current_valid.next(load.mux(head.out_valid, b.flag(true)));
        drive_record(registers, mux_record(load, head_request, mux_record(issue, stepped, current)));
        let Cut { has_more: head_has_more, is_long: is_head_long } = head_cut;
        is_first.next(load | (is_first.value & !issue));
        is_last.next(load.mux(!head_has_more, issue.mux(current.pages_minus_one.is(1), is_last.value)));
        is_split.next(load.mux(head_has_more, is_split.value));
        is_opening.next(load.mux(head_has_more, is_opening.value & !issue));
        is_opening_long.next(load.mux(is_head_long, is_opening_long.value & !issue));
        is_long.next(load.mux(is_head_long, is_long.value));
        slot.next(load.mux(b.literal(0, config.split_page_bits()), issue.mux(slot.value + 1, slot.value)));

        let takes_slot = issue & is_long.value;
        let takes_single = passes | (issue & !is_split.value);
        walk.update(issue | passes, b.input("walk_ended", 1), b.input("walk_unused", 1));
        single.update(takes_single, b.input("single_place_freed", 1), b.flag(false));
        slots.update(takes_slot, b.input("slot_freed", 1), b.flag(false));
        long_open.next((long_open.value & !b.input("long_finished", 1)) | (opens & is_long.value));

        let end_of_page = concat(&[last_of_page.low_bits(20), b.literal(0xfff, 12)]);
        // An inverted copy, to halve the load of `current_valid`.
        let arrival_goes = b.register_reset("arrival_goes", 1, 1);
        arrival_goes.next(!load.mux(head.out_valid, b.flag(true)));
        let now = mux_record(arrival_goes.value, checked, current);
        let cut = |signal: Signal<'a>, passing: bool| {
            if passing { signal | !current_valid.value } else { signal & current_valid.value }
        };
        let piece = Piece {
            table_set: now.table_set,
            mpt_index: now.mpt_index,
            va: now.va,
            last: (current_valid.value & !is_last.value).mux(end_of_page, now.last),
            status: now.status,
            hop: now.hop,
            is_translated: now.is_translated,
            is_empty: now.is_empty,
            page_shift: now.page_shift,
            virtual_page: now.virtual_page,
            page_index: now.page_index,
            epoch: now.epoch,
            is_split: cut(is_split.value, false),
            split_context: piece_context,
            split_slot: slot.value,
            is_first: cut(is_first.value, true),
            is_last: cut(is_last.value, true),
            is_long: cut(is_long.value, false),
        };
        b.output("ready", contexts.ready);
        b.output("piece_valid", issue | passes);
        output_channel(b, "piece", piece);

        let words = 1 << held_bits(config);
        let held = Ram::new(b, "held", words, RamStyle::for_depth(words), Held::widths(config));
        held.write(
            b.input("held_number", held_bits(config)),
            input_channel(b, "held", Held::widths(config)),
            b.input("held_valid", 1),
        );
        output_channel(b, "held_out", held.read(now.held.delay("piece_held"), b.flag(true)));
        b.name().into()
    }
}
