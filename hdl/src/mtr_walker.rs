//! Walks page tables (MTR, PBL) of 0 to 3 hops, many at a time (contract section 4).
//!
//! **Purpose.** Takes one page to walk and gives its bus address, or the status and hop of the first check that fails.
//! A walk is not a state machine but a context: a number that travels with its reads, and a word in each of three
//! memories that are written when the walk is accepted.
//!
//! Two pipes share the work. The *first-read pipe* checks index and root and computes the address of read 0; what needs
//! no read (hop 0, or a walk that is refused at once) it puts into the *direct queue*. The *landing pipe* takes one
//! line per cycle, or else a walk of the direct queue as if its root had been read, and adds what the walk's memory
//! word says: the position in the next table, or the offset in the page. The sum becomes the next read or the result.
//!
//! Checks, in order: index (MtrIndex, hop 0), low 3 bits of the root (MtrMisaligned, hop 0), root of zero
//! (MtrNotPresent, hop 0); for every read k: bus error of the 16 bytes that hold the word (MtrBusError, hop k), entry
//! of zero (MtrNotPresent, hop k), alignment of a pointer to a lower table (MtrMisaligned, hop k + 1, the read that is
//! not made). A leaf may be aligned to anything.
//!
//! **Handshake.** `walk_*` and `line_request_*`: valid and ready; both are stable until taken. `line_*` and `result_*`:
//! valid only, always taken, at most one per cycle. `line_*` must answer `line_request_*`, once each, in any order.
//! Results come in any order. `zero_entry_literal` and `alignment_check` are levels, sampled at each check. `idle` is
//! low from the cycle after a walk is accepted until the cycle after its result.
//!
//! **Latency and throughput.** Walk accepted to read 0 offered: 2 cycles. Line to next read offered: 3 cycles. Line of
//! the leaf to result: 3 cycles. Walk accepted to result without a read: 6 cycles. One walk accepted, one landing, one
//! read and one result per cycle, all at the same time.
//!
//! **Timing.** The first-read pipe shifts the index (1), then adds (2). The landing pipe selects the word (1), adds and
//! checks (2), decides (3). Every output is a register, except `walk_ready`, which is decoded from registers.
//!
//! **Reset and flush.** Reset forgets every walk; the table port must be reset with it. `ready` rises when the list of
//! free contexts is filled, one cycle per context; no walk is accepted before. The memories are not scrubbed: no word
//! is read before its walk has written it. A flush is not needed: nothing is cached here.
//!
//! **Hazards.** A context is given back with its result and is taken again two cycles later at the earliest; its words
//! are read for the last time before that. A walk of the direct queue is read two cycles after its words were written.
//! Reads overtake each other, because they belong to different contexts.
//!
//! **Limits.** `walk_contexts` walks in flight. No queue can overflow: each is as deep as there are contexts, and a
//! context is in one of them at most. New reads yield to those of walks under way; the direct queue yields to landings,
//! but after 256 landings without a gap no new walk is accepted until one of the direct queue has gone.

use crate::prim::{
    Builder, Credit, Design, Fifo, FifoPort, FreeList, Ram, RamStyle, Record, Signal, concat, delay_record,
    input_channel, output_channel, select_one_hot, select_tree,
};
use crate::record;
use crate::records::{
    ADMISSION_BITS, EPOCH_BITS, LineRequest, LineResponse, WalkRequest, WalkResult, line_context_bits,
};
use keywalk_contract::{Config, Status, key, status};

/// log2 of the bytes of a table entry.
const ENTRY_BYTES_LOG2: u32 = 3;
/// log2 of the bytes of the smallest lower table.
const TABLE_BYTES_LOG2_MIN: u32 = 12;
/// log2 of the entries of the smallest lower table.
const TABLE_ENTRIES_LOG2_MIN: u32 = TABLE_BYTES_LOG2_MIN - ENTRY_BYTES_LOG2;
/// Largest `ba_pg_sz`: lower tables are up to 2^15 times the smallest.
const TABLE_SIZE_MAX: u32 = 15;
/// Bits of a page index.
const INDEX_BITS: u32 = 32;
/// Bits of a position in a lower table that leaves point from.
const LOW_BITS: u32 = TABLE_ENTRIES_LOG2_MIN + TABLE_SIZE_MAX;
/// Bits of an index without its position in the last table.
const UPPER_BITS: u32 = INDEX_BITS - TABLE_ENTRIES_LOG2_MIN;
/// Landings in a row, as log2, that a walk of the direct queue waits for before new walks are held back.
const LANDING_RUN_LOG2: u32 = 8;

/// Why a walk is refused before its first read; in order of the checks.
#[derive(Clone, Copy)]
enum Refusal {
    None = 0,
    Index = 1,
    Misaligned = 2,
    NotPresent = 3,
}

record! {
    /// What a walk needs at every landing.
    struct Plan(_config) {
        /// Position in the last table.
        low_index: LOW_BITS,
        /// Position in the middle table of three.
        middle_index: UPPER_BITS,
        /// Bits, above the lowest 12, that are zero in the address of a lower table.
        table_mask: TABLE_SIZE_MAX,
        /// Hops, 0 to 3.
        hop: 2,
        /// A `Refusal`.
        refusal: 2,
    }
}

record! {
    /// What is added to the page.
    struct Offset(_config) {
        /// As in the request.
        offset: 64,
    }
}

record! {
    /// A walk that needs no read.
    struct Direct(config) {
        /// Its context.
        context: config.walk_context_bits(),
        /// Its root, which is the page.
        page: 64,
    }
}

record! {
    /// What goes from the request to the result unchanged.
    struct Origin(config) {
        /// As in the request.
        is_context: 1,
        /// As in the request.
        tag: config.tag_bits,
        /// As in the request.
        function: config.function_bits,
        /// As in the request.
        is_remote: 1,
        /// As in the request.
        table_set: config.table_set_bits(),
        /// As in the request.
        mpt_index: key::INDEX_BITS,
        /// As in the request.
        virtual_page: 32,
        /// As in the request.
        va: 64,
        /// As in the request.
        length: 32,
        /// As in the request.
        is_split: 1,
        /// As in the request.
        split_context: config.split_context_bits(),
        /// As in the request.
        split_slot: config.split_page_bits(),
        /// As in the request.
        split_toggle: 1,
        /// As in the request.
        index: INDEX_BITS,
        /// As in the request.
        admission: ADMISSION_BITS,
        /// As in the request.
        epoch: EPOCH_BITS,
    }
}

impl<'a> Origin<Signal<'a>> {
    fn of(walk: WalkRequest<Signal<'a>>) -> Self {
        Self {
            is_context: walk.is_context,
            tag: walk.tag,
            function: walk.function,
            is_remote: walk.is_remote,
            table_set: walk.table_set,
            mpt_index: walk.mpt_index,
            virtual_page: walk.virtual_page,
            va: walk.va,
            length: walk.length,
            is_split: walk.is_split,
            split_context: walk.split_context,
            split_slot: walk.split_slot,
            split_toggle: walk.split_toggle,
            index: walk.index,
            admission: walk.admission,
            epoch: walk.epoch,
        }
    }
}

/// The memories that hold a word for every context. They are written by the first-read pipe only.
struct Memories<'a> {
    plan: Ram<'a, Plan<u32>>,
    offset: Ram<'a, Offset<u32>>,
    origin: Ram<'a, Origin<u32>>,
}

/// A read that is offered for one cycle.
struct Offer<'a> {
    valid: Signal<'a>,
    read: LineRequest<Signal<'a>>,
}

/// What comes out of the landing pipe.
struct Landing<'a> {
    next_read: Offer<'a>,
    /// A result leaves.
    is_done: Signal<'a>,
    /// Its context.
    done_context: Signal<'a>,
}

/// The walker: module `mtr_walker`.
pub struct MtrWalker;

impl MtrWalker {
    /// Builds the module; gives its name.
    #[must_use]
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("mtr_walker");
        let contexts = config.walk_contexts;
        let context_bits = config.walk_context_bits();
        let style = RamStyle::for_depth(contexts);
        let memories = Memories {
            plan: Ram::new(b, "plan", contexts, style, Plan::widths(config)),
            offset: Ram::new(b, "offset", contexts, style, Offset::widths(config)),
            origin: Ram::new(b, "origin", contexts, style, Origin::widths(config)),
        };
        let zero_entry_literal = b.input("zero_entry_literal", 1);
        let alignment_check = b.input("alignment_check", 1);
        let line_valid = b.input("line_valid", 1);

        let free = FreeList::new(design, b, "free_contexts", context_bits);
        let (direct_queue, direct) = Fifo::new(design, b, "direct_queue", contexts, Direct::widths(config));
        direct_queue.pop(!line_valid);
        // A landing cannot wait, so that gaps can only be had by reading less.
        let run = b.register_reset("landing_run", LANDING_RUN_LOG2 + 1, 0);
        let run_is_long = run.value.bit(LANDING_RUN_LOG2);
        let run_grown = run_is_long.mux(run.value, run.value + 1);
        run.next(line_valid.mux(run_grown, b.literal(0, LANDING_RUN_LOG2 + 1)));
        let is_starving = (run_is_long & direct.out_valid).named("is_starving");

        let walk_valid = b.input("walk_valid", 1);
        let walk_ready = free.ready & free.valid & !is_starving;
        let accept = (walk_valid & walk_ready).named("accept");
        b.output("walk_ready", walk_ready);
        b.output("ready", free.ready);
        free.take(accept);

        let first_read = begin(b, config, &memories, accept, free.number, zero_entry_literal, &direct_queue);
        let landing = land(b, config, &memories, line_valid, &direct, zero_entry_literal, alignment_check);
        issue(design, b, config, &first_read, &landing.next_read);

        free.give(landing.is_done, landing.done_context);
        let walks = Credit::new(b, "walks", contexts);
        walks.update(accept, landing.is_done, b.flag(false));
        b.output("idle", walks.full);
        b.name().into()
    }
}

/// Accepts a walk into its memory words, and computes read 0 or puts the walk into the direct queue.
fn begin<'a>(
    b: &'a Builder<'a>,
    config: &Config,
    memories: &Memories<'a>,
    accept: Signal<'a>,
    context: Signal<'a>,
    zero_entry_literal: Signal<'a>,
    direct_queue: &Fifo<'a, Direct<u32>>,
) -> Offer<'a> {
    let walk = input_channel(b, "walk", WalkRequest::widths(config));
    memories.origin.write(context, Origin::of(walk), accept);
    memories.offset.write(context, Offset { offset: walk.offset }, accept);

    // Stage 0: the index without its position in the last table and in the last two, and the checks.
    let mask_bits: Vec<_> = (0..TABLE_SIZE_MAX).rev().map(|bit| b.literal(bit.into(), 4).lt(walk.ba_pg_sz)).collect();
    let table_mask = concat(&mask_bits).delay("first_table_mask");
    let upper_index = walk.index.high_bits(UPPER_BITS).shift_right(walk.ba_pg_sz).delay("first_upper_index");
    let top_bits = walk.index.high_bits(UPPER_BITS - TABLE_ENTRIES_LOG2_MIN);
    let top_index = top_bits.shift_right(walk.ba_pg_sz.concat(b.flag(false))).delay("first_top_index");
    let is_out_of_range = (walk.check_index & walk.index.ge(walk.count)).delay("first_is_out_of_range");
    let is_misaligned = walk.root.low_bits(ENTRY_BYTES_LOG2).any().delay("first_is_misaligned");
    let is_low_set = walk.root.low_bits(32).any().delay("first_is_low_set");
    let is_high_set = (walk.root.high_bits(32).any() | zero_entry_literal).delay("first_is_high_set_or_literal");
    let valid = accept.delay_reset("first_valid");
    let context = context.delay("first_context");
    let root = walk.root.delay("first_root");
    let index = walk.index.delay("first_index");
    let hop = walk.hop.delay("first_hop");
    let is_one_hop = walk.hop.is(1).delay("first_is_one_hop");
    let is_three_hops = walk.hop.is(3).delay("first_is_three_hops");

    // Stage 1: verdict, plan, and the position in the root table. The root is as large as the table needs, so that its
    // position is not cut to a page's worth, and it is not aligned to its size, so that the position is added.
    let refusal = |refusal: Refusal| b.literal(refusal as u128, 2);
    let present = (is_low_set | is_high_set).mux(refusal(Refusal::None), refusal(Refusal::NotPresent));
    let aligned = is_misaligned.mux(refusal(Refusal::Misaligned), present);
    let verdict = is_out_of_range.mux(refusal(Refusal::Index), aligned).named("first_refusal");
    let ones = b.literal((1 << TABLE_ENTRIES_LOG2_MIN) - 1, TABLE_ENTRIES_LOG2_MIN);
    let position_mask = table_mask.concat(ones);
    let plan = Plan {
        low_index: index.low_bits(LOW_BITS) & position_mask,
        middle_index: upper_index & position_mask.low_bits(UPPER_BITS),
        table_mask,
        hop,
        refusal: verdict,
    };
    memories.plan.write(context, plan, valid);
    let is_direct = (verdict.any() | hop.none()).named("first_is_direct");
    direct_queue.push(valid & is_direct, Direct { context, page: root });

    let two_or_three = is_three_hops.mux(top_index.resize(UPPER_BITS), upper_index);
    let position = is_one_hop.mux(index, two_or_three.resize(INDEX_BITS));
    let address = (root + position.concat(b.literal(0, ENTRY_BYTES_LOG2)).resize(64)).named("first_address");
    Offer {
        valid: (valid & !is_direct).named("first_read_valid"),
        read: read_of(config, context, b.literal(0, 2), address),
    }
}

/// The read of the entry at a bus address.
fn read_of<'a>(
    config: &Config,
    context: Signal<'a>,
    level: Signal<'a>,
    address: Signal<'a>,
) -> LineRequest<Signal<'a>> {
    LineRequest {
        context: context.resize(line_context_bits(config)),
        level,
        word: address.bits(5, 3),
        generation: context.builder().flag(false),
        line: address.bits(63, 6),
    }
}

/// Takes a line, or a walk of the direct queue, and makes the next read or the result of it.
fn land<'a>(
    b: &'a Builder<'a>,
    config: &Config,
    memories: &Memories<'a>,
    line_valid: Signal<'a>,
    direct: &FifoPort<'a, Direct<Signal<'a>>>,
    zero_entry_literal: Signal<'a>,
    alignment_check: Signal<'a>,
) -> Landing<'a> {
    let line = input_channel(b, "line", LineResponse::widths(config));

    // Stage 0: the word, or the root where it is the page.
    let landed_word = line_valid.mux(line.value, direct.out.page);
    let context = line_valid.mux(line.context.low_bits(config.walk_context_bits()), direct.out.context);
    let always = b.flag(true);
    let plan = memories.plan.read(context, always);
    let offset = memories.offset.read(context, always).offset;
    let valid = (line_valid | direct.out_valid).delay_reset("landed_valid");
    let is_direct = (!line_valid).delay("landed_is_direct");
    let word = landed_word.delay("landed_word");
    let level = (line_valid.repeat(2) & line.level).delay("landed_level");
    let is_failed = (line_valid & line.value_error).delay("landed_is_failed");
    let context = context.delay("landed_context");

    // Stage 1: the sum and the checks. A walk without a read counts as landed leaf.
    let origin = memories.origin.read(context, always);
    let is_leaf = (is_direct | (level + 1).eq(plan.hop)).named("landed_is_leaf");
    let is_middle_next = level.none() & plan.hop.is(3);
    let position = is_middle_next.mux(plan.middle_index.resize(LOW_BITS), plan.low_index);
    let displacement = position.concat(b.literal(0, ENTRY_BYTES_LOG2)).resize(64);
    let sum = (word + is_leaf.mux(offset, displacement)).delay("checked_sum");
    let is_low_set = word.low_bits(32).any().delay("checked_is_low_set");
    let is_high_set = (word.high_bits(32).any() | zero_entry_literal).delay("checked_is_high_set_or_literal");
    let low_bits = word.low_bits(TABLE_BYTES_LOG2_MIN);
    let is_low_misaligned = (low_bits.low_bits(ENTRY_BYTES_LOG2).any() | (alignment_check & low_bits.any()))
        .delay("checked_is_low_misaligned");
    let size_bits = word.bits(TABLE_BYTES_LOG2_MIN + TABLE_SIZE_MAX - 1, TABLE_BYTES_LOG2_MIN);
    let is_size_misaligned =
        (alignment_check & (size_bits & plan.table_mask).any()).delay("checked_is_size_misaligned");
    let goes_on = (valid & !is_leaf & !is_failed).delay_reset("checked_goes_on");
    let valid = valid.delay_reset("checked_valid");
    let is_direct = is_direct.delay("checked_is_direct");
    let is_leaf = is_leaf.delay("checked_is_leaf");
    let is_failed = is_failed.delay("checked_is_failed");
    let refusal = plan.refusal.delay("checked_refusal");
    let level = level.delay("checked_level");
    let page = word.delay("checked_page");
    let context = context.delay("checked_context");

    // Stage 2: the verdict.
    let is_present = is_low_set | is_high_set;
    let is_misaligned = is_low_misaligned | is_size_misaligned;
    let reads_next = (goes_on & is_present & !is_misaligned).named("reads_next");
    let is_done = valid & !reads_next;
    let refused = |refusal_code: Refusal| is_direct & refusal.is(refusal_code as u128);
    let absent = !is_direct & !is_failed & !is_present;
    let misaligned = goes_on & is_present & is_misaligned;
    let failures = [
        (refused(Refusal::Index), Status::MtrIndex),
        (refused(Refusal::Misaligned) | misaligned, Status::MtrMisaligned),
        (refused(Refusal::NotPresent) | absent, Status::MtrNotPresent),
        (is_failed, Status::MtrBusError),
    ];
    let cases = failures.map(|(failure, status)| (failure, b.literal(status.code().into(), status::STATUS_BITS)));
    let is_ok = is_leaf & is_direct.mux(refusal.none(), !is_failed & is_present);
    let hop = is_ok.mux(b.literal(0, 2), misaligned.mux(level + 1, level));
    let done = is_done.delay_reset("result_valid_q");
    let result = WalkResult {
        is_context: origin.is_context,
        tag: origin.tag,
        function: origin.function,
        is_remote: origin.is_remote,
        table_set: origin.table_set,
        mpt_index: origin.mpt_index,
        virtual_page: origin.virtual_page,
        va: origin.va,
        length: origin.length,
        is_split: origin.is_split,
        split_context: origin.split_context,
        split_slot: origin.split_slot,
        split_toggle: origin.split_toggle,
        index: origin.index,
        admission: origin.admission,
        epoch: origin.epoch,
        status: select_one_hot(&cases),
        hop,
        page,
        address: is_ok.mux(sum, b.literal(0, 64)),
    };
    let result = delay_record(result, "result_q");
    b.output("result_valid", done);
    output_channel(b, "result", result);
    Landing {
        next_read: Offer { valid: reads_next, read: read_of(config, context, level + 1, sum) },
        is_done: done,
        done_context: context.delay("result_context"),
    }
}

/// Puts the reads of both pipes into one channel. What finds it taken waits in the queue of its pipe; what waits need
/// not go first, because reads of different walks have no order.
fn issue<'a>(design: &Design<'_>, b: &'a Builder<'a>, config: &Config, first: &Offer<'a>, next: &Offer<'a>) {
    let depth = config.walk_contexts;
    let (next_queue, next_waiting) = Fifo::new(design, b, "next_read_queue", depth, LineRequest::widths(config));
    let (first_queue, first_waiting) = Fifo::new(design, b, "first_read_queue", depth, LineRequest::widths(config));
    let ready = b.input("line_request_ready", 1);
    let valid = b.register_reset("line_request_valid_q", 1, 0);
    let is_free = (!valid.value | ready).named("line_request_is_free");

    // In order of preference: a walk under way, one that waits, a new walk that waits, a new walk.
    let is_under_way = (next.valid | next_waiting.out_valid).named("is_under_way");
    next_queue.push(next.valid & !is_free, next.read);
    next_queue.pop(is_free & !next.valid);
    first_queue.push(first.valid & !(is_free & !is_under_way & !first_waiting.out_valid), first.read);
    first_queue.pop(is_free & !is_under_way);

    let is_fresh = (next.valid | !(next_waiting.out_valid | first_waiting.out_valid)).named("is_fresh");
    let fields =
        |read: LineRequest<Signal<'a>>| -> Vec<_> { read.list().into_iter().map(|(_, signal)| signal).collect() };
    let choices = [fields(first_waiting.out), fields(first.read), fields(next_waiting.out), fields(next.read)];
    let number = is_under_way.concat(is_fresh);
    let mut position = 0;
    let chosen = next.read.map(&mut |name, _| {
        let field = choices.each_ref().map(|choice| choice[position]);
        position += 1;
        select_tree(number, &field).hold(&format!("line_request_{name}_q"), is_free)
    });
    let is_offered = is_under_way | first.valid | first_waiting.out_valid;
    valid.next_if(is_free, is_offered);
    b.output("line_request_valid", valid.value);
    output_channel(b, "line_request", chosen);
}
