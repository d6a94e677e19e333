//! Cuts requests into pieces of one page.
//!
//! **Purpose.** One piece per cycle, in address order. A request of several pages takes a split context, in which its
//! pieces gather until the response can start (see `split_buffer`); every other request is a single piece. What the pieces
//! of a request share is kept here in a memory and joins them while the TLB is read.
//!
//! Where responses come in order (`in_order`), this is where order is restored: requests are cut strictly by order number,
//! and every one, of one page or of many, good or failed, takes a split context, in turn. Restoring it behind the TLB alone
//! would not do: a long request, or a full set of contexts, would wait there for an older request that waits here behind
//! it. From here on in order, the oldest request never waits for a younger one.
//!
//! **Handshake.** Channel `checked` in, valid only: a place was reserved on admission, and `place_freed` gives it back.
//! Channel `held` in, one cycle before its `checked`. Channel `piece` out, valid only, and channel `held_out` one cycle
//! later. A piece is sent only when everything that it may need is reserved: a context of the walker, and a place among the
//! single responses, or a slot of its split context.
//!
//! **Latency and throughput.** None for a request of one page that finds nothing before it; three cycles through the queue,
//! or through the ring if it is the request's turn. One piece per cycle, without a gap between requests.
//!
//! **Timing.** A two-way select between the request that is being cut and the one that arrives, in front of the TLB's
//! memory. The loop from one piece to the next is an increment of the page number and a countdown.
//!
//! **Reset and flush.** Reset drops everything and refills the list of split contexts, or scrubs the ring; `ready` rises
//! when that is done, and no request may be sent before.
//!
//! **Hazards.** In order, the ring of requests ([`Ring`]) has a place for every order number; a number is given again only
//! when its last request has left, because `place_freed` gives its place back. Otherwise, a request passes by the queue only
//! where the queue is empty and none is being cut, so requests stay in the order in which they arrive; one that might touch
//! several pages never does. A long request (more pages than a split context has slots) uses its slots as a ring. Two long
//! requests may be open at a time, in turns: the next one is cut while the one before is drained, each with a count of free
//! slots. When a piece of one has failed, the next piece that is cut of it is marked as its last: its response has ended, and
//! nobody wants the rest of its pages.
//!
//! **Limits.** `admitted_max` requests in the queue; `split_contexts` requests of several pages, or, in order, of any;
//! `response_depth` single responses, of which in order there are none; `request_walks` walks. Of single responses, walks,
//! slots of a long request, and contexts taken in turn the last free one is not used until another comes back, unless two
//! pieces take the last two in a row (see [`Credit`]).

use crate::prim::{
    Builder, Credit, Design, Fifo, FreeList, Ram, RamStyle, Record, Register, Ring, RingWrite, Signal, concat,
    drive_record, input_channel, mux_record, output_channel, register_record,
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

/// The requests that wait to be cut, of which one is offered.
struct Waiting<'a> {
    /// The memory behind it is clean, if that takes time after reset.
    ready: Option<Signal<'a>>,
    /// One is offered.
    valid: Signal<'a>,
    request: Checked<Signal<'a>>,
    cut: Cut<Signal<'a>>,
    /// The request that arrives goes on at once, if there is a way past.
    passes: Option<Signal<'a>>,
    /// A request that had a place went on.
    place_freed: Signal<'a>,
}

type Arrival<'a> = (Checked<Signal<'a>>, Cut<Signal<'a>>);

impl<'a> Waiting<'a> {
    /// A queue, and a way past it, which is open while `may_pass` is set and nothing waits. `load` takes what is offered.
    fn as_they_come(
        design: &Design<'a>,
        b: &'a Builder<'a>,
        config: &Config,
        checked_valid: Signal<'a>,
        arrival: Arrival<'a>,
        may_pass: Signal<'a>,
        load: Signal<'a>,
    ) -> Self {
        let depth = config.admitted_max();
        // The queue shows an entry two cycles late, so it is counted here.
        let places = Credit::new(b, "places", depth);
        let passes = (checked_valid & may_pass & places.full).named("passes");
        let pushes = (checked_valid & !passes).named("pushes");
        let (queue, head) = Fifo::new(design, b, "queue", depth, (Checked::widths(config), Cut::widths(config)));
        queue.push(pushes, arrival);
        queue.pop(load);
        let pop = (load & head.out_valid).named("pop");
        // Late, to keep the pop out of the count: the queue only looks occupied for a cycle longer.
        places.update(pushes, pop.delay_reset("popped"), b.flag(false));
        let place_freed = (pop | passes).delay_reset("place_freed_q");
        let (request, cut) = head.out;
        Self { ready: None, valid: head.out_valid, request, cut, passes: Some(passes), place_freed }
    }

    /// A ring by order number. `load` takes what is offered.
    fn in_order(
        b: &'a Builder<'a>,
        config: &Config,
        checked_valid: Signal<'a>,
        arrival: Arrival<'a>,
        load: Signal<'a>,
    ) -> Self {
        let shape = (config.admitted_max(), RamStyle::Block);
        let write = RingWrite { valid: checked_valid, number: arrival.0.order, record: arrival };
        let ring = Ring::new(b, "ring", shape, (Checked::widths(config), Cut::widths(config)), write, load);
        let place_freed = (load & ring.valid).delay_reset("place_freed_q");
        let (request, cut) = ring.out;
        Self { ready: Some(ring.is_clean), valid: ring.valid, request, cut, passes: None, place_freed }
    }
}

/// The split contexts.
enum Contexts<'a> {
    /// They come back in any order.
    List(FreeList<'a>),
    /// They are taken and come back in turn.
    Turns { free: Credit<'a>, next: Register<'a> },
}

impl<'a> Contexts<'a> {
    fn new(design: &Design<'a>, b: &'a Builder<'a>, config: &Config) -> Self {
        let bits = config.split_context_bits();
        if config.in_order {
            let free = Credit::new(b, "contexts", config.split_contexts);
            Self::Turns { free, next: b.register_reset("next_context", bits, 0) }
        } else {
            Self::List(FreeList::new(design, b, "contexts", bits))
        }
    }

    /// Every context has been entered, if that takes time after reset.
    fn ready(&self) -> Option<Signal<'a>> {
        match self {
            Self::List(list) => Some(list.ready),
            Self::Turns { .. } => None,
        }
    }

    /// A context is free.
    fn valid(&self) -> Signal<'a> {
        match self {
            Self::List(list) => list.valid,
            Self::Turns { free, .. } => free.available,
        }
    }

    /// Its number.
    fn number(&self) -> Signal<'a> {
        match self {
            Self::List(list) => list.number,
            Self::Turns { next, .. } => next.value,
        }
    }

    /// Takes the offered context, where one is offered, and gives one back.
    fn update(&self, take: Signal<'a>, give: Signal<'a>, given: Signal<'a>) {
        match self {
            Self::List(list) => {
                list.take(take);
                list.give(give, given);
            }
            Self::Turns { free, next } => {
                next.next_if(take, next.value + 1);
                free.update(take, give, take.builder().flag(false));
            }
        }
    }
}

/// The block.
pub struct PageSplit;

impl PageSplit {
    /// Builds the module `page_split` and gives its name.
    ///
    /// Inputs besides the channels: `checked_may_have_more` (the request touches several pages, if it is translated at
    /// all: known sooner), `held_number`, pulses `walk_ended` and `walk_unused` (a piece needed no walk),
    /// `single_place_freed`, `slot_freed` (a slot of the long request of turn `slot_freed_turn` was drained), `long_failed`
    /// (that slot held a failure), and `context_freed` with `context_freed_number`. Outputs besides the channels: `ready` and `place_freed`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("page_split");
        let checked_valid = b.input("checked_valid", 1);
        let may_have_more = b.input("checked_may_have_more", 1);
        let checked = input_channel(b, "checked", Checked::widths(config));
        let context_freed = b.input("context_freed", 1);
        let context_freed_number = b.input("context_freed_number", config.split_context_bits());

        let contexts = Contexts::new(design, b, config);
        let walk = Credit::new(b, "walk_credit", config.request_walks());
        let single = (!config.in_order).then(|| Credit::new(b, "single_credit", config.response_depth));
        let slots = [0, 1].map(|turn| Credit::new(b, &format!("long_slots_{turn}"), config.split_pages));
        // A walk and a single response may be had, and no cycle without a piece is wanted. One register for all, whatever the
        // piece needs.
        let may_answer = b.register_reset("may_answer", 1, 1);
        let has_places = match &single {
            Some(single) => walk.next_available & single.next_available,
            None => walk.next_available,
        };
        let next_may_answer = has_places & !b.input("gap_wanted", 1);
        may_answer.next(next_may_answer);

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

        // Set when the request is loaded: its next piece opens a context.
        let is_opening = b.register("current_is_opening", 1);
        // There is a request, and its next piece may be answered; that piece, if of a long request, has a slot.
        let may_issue = b.register_reset("may_issue", 1, 0);
        let has_slot = b.register("has_slot", 1);
        let issue = (may_issue.value & has_slot.value & (!is_opening.value | contexts.valid())).named("issue");
        let opens = (issue & is_opening.value).named("opens");
        let ends = (issue & is_last.value).named("ends");
        let load = (!current_valid.value | ends).named("load");
        contexts.update(opens, context_freed, context_freed_number);
        let piece_context = is_first.value.mux(contexts.number(), context.value);
        context.next(piece_context);

        // The requests that wait.
        let has_more = may_have_more & checked.is_translated;
        let is_long_arrival = has_more & checked.pages_minus_one.ge(b.literal(config.split_pages.into(), 20));
        let arrival = (checked, Cut { has_more, is_long: is_long_arrival });
        let waiting = if config.in_order {
            Waiting::in_order(b, config, checked_valid, arrival, load)
        } else {
            let may_pass = !may_have_more & !current_valid.value & may_answer.value;
            Waiting::as_they_come(design, b, config, checked_valid, arrival, may_pass, load)
        };
        b.output("place_freed", waiting.place_freed);

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
        let next_valid = load.mux(waiting.valid, b.flag(true));
        current_valid.next(next_valid);
        may_issue.next(next_valid & next_may_answer);
        drive_record(registers, mux_record(load, waiting.request, mux_record(issue, stepped, current)));
        let Cut { has_more: head_has_more, is_long: is_head_long } = waiting.cut;
        // In order, every request takes a context.
        let head_opens = if config.in_order { b.flag(true) } else { head_has_more };
        is_first.next(load | (is_first.value & !issue));
        let becomes_last = issue.mux(current.pages_minus_one.is(1), is_last.value);
        let stops = b.forward("stops", 1);
        is_last.next(load.mux(!head_has_more, becomes_last | stops.value));
        is_split.next(load.mux(head_opens, is_split.value));
        is_opening.next(load.mux(head_opens, is_opening.value & !issue));
        is_long.next(load.mux(is_head_long, is_long.value));
        slot.next(load.mux(b.literal(0, config.split_page_bits()), issue.mux(slot.value + 1, slot.value)));

        let sent = waiting.passes.map_or(issue, |passes| issue | passes);

        // Long requests take turns with two sets of slots. One whose slots are all free has been drained: it was cut to its
        // end when the turn passed on.
        let turn = b.register_reset("long_turn", 1, 0);
        turn.next(turn.value ^ (ends & is_long.value));
        let head_turn = turn.value ^ (current_valid.value & is_long.value);
        let head_has_slot = !is_head_long | head_turn.mux(slots[1].full, slots[0].full);
        let of_turn = |of: fn(&Credit<'a>) -> Signal<'a>| turn.value.mux(of(&slots[1]), of(&slots[0]));
        let waits_to_open = is_opening.value & !issue;
        let next_has_slot =
            !is_long.value | waits_to_open.mux(of_turn(|slots| slots.full), of_turn(|slots| slots.next_available));
        has_slot.next(load.mux(head_has_slot, next_has_slot));
        let takes_slot = issue & is_long.value;
        let slot_freed = b.input("slot_freed", 1);
        let freed_turn = b.input("slot_freed_turn", 1);
        // One that waits to open has the turn of a request that may still be drained.
        let is_of_current = is_long.value & !is_opening.value & turn.value.eq(freed_turn);
        stops.drive(b.input("long_failed", 1) & is_of_current);
        for (slots, is_its_turn, is_freed) in
            [(&slots[0], !turn.value, !freed_turn), (&slots[1], turn.value, freed_turn)]
        {
            slots.update(takes_slot & is_its_turn, slot_freed & is_freed, b.flag(false));
        }
        walk.update(sent, b.input("walk_ended", 1), b.input("walk_unused", 1));
        let single_place_freed = b.input("single_place_freed", 1);
        if let (Some(single), Some(passes)) = (&single, waiting.passes) {
            single.update(passes | (issue & !is_split.value), single_place_freed, b.flag(false));
        }

        let now = if waiting.passes.is_some() {
            // An inverted copy, to halve the load of `current_valid`.
            let arrival_goes = b.register_reset("arrival_goes", 1, 1);
            arrival_goes.next(!load.mux(waiting.valid, b.flag(true)));
            mux_record(arrival_goes.value, checked, current)
        } else {
            current
        };
        let cut = |signal: Signal<'a>, passing: bool| {
            if passing { signal | !current_valid.value } else { signal & current_valid.value }
        };
        let piece = Piece {
            index_low: now.index_low,
            va: now.va,
            status: now.status,
            hop: now.hop,
            is_translated: now.is_translated,
            is_empty: now.is_empty,
            virtual_page: now.virtual_page,
            page_index: now.page_index,
            hop_num: now.hop_num,
            ba_pg_sz: now.ba_pg_sz,
            is_flat: now.is_flat,
            is_split: cut(is_split.value, false),
            split_context: piece_context,
            split_slot: slot.value,
            is_first: cut(is_first.value, true),
            is_last: cut(is_last.value, true),
            is_long: cut(is_long.value, false),
        };
        let ready = contexts.ready().or(waiting.ready);
        b.output("ready", ready.expect("contexts are listed, or the ring is scrubbed"));
        b.output("piece_valid", sent);
        output_channel(b, "piece", piece);

        let words = 1 << held_bits(config);
        let held = Ram::new(b, "held", words, RamStyle::for_depth(words), Held::widths(config));
        held.write(
            b.input("held_number", held_bits(config)),
            input_channel(b, "held", Held::widths(config)),
            b.input("held_valid", 1),
        );
        output_channel(b, "held_out", held.read(now.held, b.flag(true)));
        b.name().into()
    }
}
