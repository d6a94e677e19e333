//! Walks page tables (MTR, PBL) of 0 to 3 hops, many at a time (contract section 4), and caches what the walks read.
//!
//! **Purpose.** Takes one page to walk and gives its bus address, or the status and hop of the first check that fails.
//! A walk is not a state machine but a context: a number that travels with its reads, and a word in each of three
//! memories that are written when the walk is accepted.
//!
//! Three pipes share the work. The *first-read pipe* begins with every page that the TLB looks up, checks index and root,
//! looks both pointer caches up and computes the address of the first read: of the leaf table whose pointer the *lower*
//! cache holds, else of the middle table whose pointer the *upper* cache holds, else of the root table. When it shows that
//! there is a walk it is given its context. What needs no read (hop 0, or a walk that is refused at once) goes into the
//! *direct queue*. The *landing pipe* takes one line per cycle and adds what the walk's memory word says: the position in
//! the next table, or the offset in the page. The sum becomes the next read or the result. Where no line comes, it takes a
//! walk of the *failure queue*, which a pointer has ended, or of the direct queue. The *fill pipe* enters the word that the
//! walk wanted and then, where the walk's own request read the line, the seven beside it: pages into the TLB (`fill_*`),
//! pointers into the caches. Lines wait for that in *slots*, in order.
//!
//! Checks, in order: index (MtrIndex, hop 0), low 3 bits of the root (MtrMisaligned, hop 0), root of zero
//! (MtrNotPresent, hop 0); for every read k: bus error of the 16 bytes that hold the word (MtrBusError, hop k), entry
//! of zero (MtrNotPresent, hop k), alignment of a pointer to a lower table (MtrMisaligned, hop k + 1, the read that is
//! not made). A leaf may be aligned to anything. Reads count from the root's, whether they were made or a cache saved them.
//!
//! Filled is only what every later walk would read and accept, whatever the switches say: an entry of the table, below
//! the number of pages, without bus error, not zero; a page aligned to 4 KiB, a pointer to the size of its table. Of
//! a pointer's neighbours, the one that leads to the last pages of the table may be left out: those that follow are
//! counted by whole tables from the wanted page to the last one. A walk of the context port, or of an index at or above
//! the count, neither uses nor fills anything; a walk that fails enters nothing from the line that it fails at.
//!
//! **Handshake.** Channel `start` in every cycle, meaningful or not, `start_offset` one cycle and channel `walk` two
//! cycles later. `walk_*`, `line_*`, `result_*` and `fill_*`: valid only, always taken, at most one per cycle; no more
//! walks may be in flight than there are contexts, and one that takes the place of another may come two cycles after
//! the other's result. `line_request_*`: valid and ready, but what is offered may change until it is taken.
//! `early_context` tells the context of a line one cycle before it, and
//! `early_valid` that it may come. `line_*` must answer `line_request_*`, once each, in any order. Results come in any
//! order. `zero_entry_literal` and `alignment_check` are levels, sampled at each check. `idle` is low from the cycle
//! after a walk is accepted until two cycles after its result; fills may still follow then. Pulses for counters:
//! `lower_*` and `upper_*` of the caches, a hit or a miss for every walk that may use the cache and whose table has
//! that level; `read_issued_<k>` for every read number k that is taken.
//!
//! **Latency and throughput.** Start to first read offered: 3 cycles. Line to next read offered: 2 cycles. Line of the leaf to
//! result: 1 cycle; to its page on `fill`: 4 cycles. Start to result without a read: 6 cycles. One walk accepted, one
//! landing, one read, one result and one fill per cycle, all at the same time.
//!
//! **Timing.** The first-read pipe shifts the index, reads the caches and counts the pages that follow (0), adds to the
//! root and checks it (1), and selects (2). The landing pipe adds the low half off the memories (0); the carry goes into the high half,
//! which is that of the result, and a pointer is checked (1); a read is offered from registers (2). The fill pipe selects the slot (1), the word (2), adds to
//! the number and checks (3), and joins the checks (`fill_valid`). Results, line requests and `fill_valid` are decoded from
//! registers.
//!
//! **Reset and flush.** Reset forgets every walk; the table port must be reset with it. `ready` rises when the list of
//! free contexts is filled, one cycle per context; no walk is accepted before. After reset and after `flush` both caches
//! are scrubbed, one set per cycle; `caches_ready` is low meanwhile and every lookup misses. `flush` also drops what
//! waits in slots and in the fill pipe. The other memories are not scrubbed: no word is read before it was written.
//!
//! **Hazards.** A context is given back with its result and is taken again two cycles later at the earliest; its words
//! are read for the last time before that: slots hold copies. A walk of the direct queue is read two cycles after its
//! words were written. A slot is written with the line (words) and one cycle later (the rest), and read one cycle after
//! that each; a slot that is not kept is read in the cycle in which the next line overwrites it, which is as good as
//! before. Reads overtake each other, because they belong to different contexts.
//!
//! **Limits.** `walk_contexts` walks in flight. No queue can overflow: each is as deep as there are contexts, and a
//! context is in one of them at most. New reads yield to those of walks under way; the direct queue yields to landings,
//! but after 256 landings without a gap no first read is made until one of the direct queue has gone. Neighbours yield
//! to wanted words; 127 lines wait for theirs to be filled, of further lines the wanted word is filled alone.

use crate::prim::{
    Builder, Cache, CacheKey, CacheShape, Credit, Design, Fifo, FifoPort, FreeList, LateKey, Merge, Ram, RamStyle,
    Record, Signal, concat, delay_record, input_channel, or_all, output_channel, select_one_hot, select_tree,
};
use crate::record;
use crate::records::{
    ADMISSION_BITS, LINE_LOW_BITS, LineRequest, LineResponse, REGION_EPOCH_BITS, TlbFill, WalkRequest, WalkResult,
    WalkStart, line_context_bits,
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
/// End of the bits of a bus address that the position in a lower table is added to.
const POSITION_END: u32 = LOW_BITS + ENTRY_BYTES_LOG2;
/// Bits of an index without its position in the last table: the number of a leaf table.
const LOWER_BITS: u32 = INDEX_BITS - TABLE_ENTRIES_LOG2_MIN;
/// Bits of an index without its position in the last two tables: the number of a middle table.
const UPPER_BITS: u32 = LOWER_BITS - TABLE_ENTRIES_LOG2_MIN;
/// Bits of a page or table address above the smallest page.
const PAGE_BITS: u32 = 64 - TABLE_BYTES_LOG2_MIN;
/// Landings in a row, as log2, that a walk of the direct queue waits for before new walks are held back.
const LANDING_RUN_LOG2: u32 = 8;
/// Low bits of an address that the landing pipe adds up off the memories; the carry goes into the others a cycle later.
const SUM_LOW_BITS: u32 = LINE_LOW_BITS + 6;
const _: () = assert!(SUM_LOW_BITS >= POSITION_END, "what is added ends below");
/// Words of a line.
const LINE_WORDS: u32 = 8;
/// Bits of a number of a word in its line.
const WORD_BITS: u32 = LINE_WORDS.trailing_zeros();
/// Lines that wait for their neighbours to be filled, and one more: in block RAM, which takes that many for nothing.
const SLOTS: u32 = 128;
/// Bits of a number of a read.
const READ_BITS: u32 = 2;

/// Why a walk is refused before its first read; in order of the checks.
#[derive(Clone, Copy)]
enum Refusal {
    None = 0,
    Index = 1,
    Misaligned = 2,
    NotPresent = 3,
}

record! {
    /// What a walk needs at every landing. Tables are numbered over the whole level.
    struct Plan(_config) {
        /// Position in the last table.
        low_index: LOW_BITS,
        /// Position in the middle table of three.
        middle_index: LOWER_BITS,
        /// Number of the leaf table.
        lower_number: LOWER_BITS,
        /// Number of the middle table.
        upper_number: UPPER_BITS,
        /// Bits, above the lowest 12, that are zero in the address of a lower table.
        table_mask: TABLE_SIZE_MAX,
        /// Hops, 0 to 3.
        hop: 2,
        /// A `Refusal`.
        refusal: 2,
        /// What the walk reads may be cached.
        is_cacheable: 1,
        /// Pages that follow the wanted one; 7: or more.
        pages_left: WORD_BITS,
        /// Leaf tables that follow the wanted page at the least; 7: or more.
        lower_left: WORD_BITS,
        /// The same of middle tables.
        upper_left: WORD_BITS,
        /// There are 8 or more pages before the wanted one.
        is_far: 1,
    }
}

record! {
    /// What is added to the page.
    struct Offset(_config) {
        /// As in the request.
        offset: SUM_LOW_BITS,
    }
}

record! {
    /// A walk that needs no read.
    struct Direct(config) {
        /// Its context.
        context: config.walk_context_bits(),
        /// Root and offset, which is the result.
        address: 64,
    }
}

record! {
    /// A walk that a line has ended early.
    struct Failure(config) {
        /// Its context.
        context: config.walk_context_bits(),
        /// A `Refusal`; none where it is a bus error.
        refusal: 2,
        /// Number of the read that failed or was not made.
        hop: 2,
    }
}

record! {
    /// A read to be made.
    struct Read(config) {
        /// Number within its walk.
        number: READ_BITS,
        /// Context of the walk.
        context: config.walk_context_bits(),
        /// As on the table port: the reads that follow this one.
        level: 2,
        /// Of the word.
        address: 64,
    }
}

record! {
    /// The words of a line in a slot, each one its page, with a bit below that is set if any of the 12 lower bits is.
    struct SlotWords(_config) {
        /// Number of the wanted word.
        wanted: WORD_BITS,
        /// Word 0.
        word_0: PAGE_BITS + 1,
        /// Word 1.
        word_1: PAGE_BITS + 1,
        /// Word 2.
        word_2: PAGE_BITS + 1,
        /// Word 3.
        word_3: PAGE_BITS + 1,
        /// Word 4.
        word_4: PAGE_BITS + 1,
        /// Word 5.
        word_5: PAGE_BITS + 1,
        /// Word 6.
        word_6: PAGE_BITS + 1,
        /// Word 7.
        word_7: PAGE_BITS + 1,
    }
}

record! {
    /// What else a slot holds of the walk and its read.
    struct SlotWalk(config) {
        /// As in the request.
        table_set: config.table_set_bits(),
        /// As in the request.
        mpt_index: key::INDEX_BITS,
        /// Low bits of the epoch of the request.
        epoch: REGION_EPOCH_BITS,
        /// As in the request.
        virtual_page: 32,
        /// As in the plan.
        lower_number: LOWER_BITS,
        /// As in the plan.
        upper_number: UPPER_BITS,
        /// As in the plan.
        table_mask: TABLE_SIZE_MAX,
        /// The word that the table begins with, or a negative number, where `has_first`.
        first_word: WORD_BITS + 1,
        /// The table may begin in the line, which is one of pages.
        has_first: 1,
        /// Words after the wanted one that are in the table, 7 at the most.
        left: WORD_BITS,
        /// The line is of the root table.
        is_root: 1,
        /// The wanted word is where it is in a line of an aligned table.
        is_in_place: 1,
        /// The walk is good so far, and what it reads may be cached.
        is_cacheable: 1,
        /// Reads that follow: 0 for a line of pages.
        remaining: 2,
        /// Bus errors of the four 16 bytes.
        errors: 4,
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
        epoch: REGION_EPOCH_BITS,
    }
}

/// The memories that hold a word for every context. They are written by the first-read pipe only.
struct Memories<'a> {
    plan: Ram<'a, Plan<u32>>,
    offset: Ram<'a, Offset<u32>>,
    origin: Ram<'a, Origin<u32>>,
}

/// A read of a pipe, in the cycle in which it is taken or queued.
struct Offer<'a> {
    valid: Signal<'a>,
    read: Read<Signal<'a>>,
}

/// What the landing pipe lands where no line comes: a walk without reads, or one that has failed.
struct Waiting<'a> {
    /// One cycle before a line of this block, and perhaps at other times.
    early_valid: Signal<'a>,
    /// The context of that line.
    early_context: Signal<'a>,
    direct: FifoPort<'a, Direct<Signal<'a>>>,
    failure: FifoPort<'a, Failure<Signal<'a>>>,
}

/// What comes out of the landing pipe.
struct Landing<'a> {
    next_read: Offer<'a>,
    /// A walk has failed at a line that others would have followed.
    failed: Signal<'a>,
    failure: Failure<Signal<'a>>,
    /// A result leaves.
    is_done: Signal<'a>,
    /// Its context.
    done_context: Signal<'a>,
    landed: Landed<'a>,
}

/// A landing, for the fill pipe: what is known in the cycle of the line, and in the next one.
struct Landed<'a> {
    /// A line has come: now.
    line_valid: Signal<'a>,
    /// Its walk's own request read it: now.
    is_first: Signal<'a>,
    /// The words: now.
    words: SlotWords<Signal<'a>>,
    /// A line has landed: one cycle later.
    valid: Signal<'a>,
    /// The wanted word: one cycle later.
    word: Signal<'a>,
    /// What else is kept: one cycle later.
    walk: SlotWalk<Signal<'a>>,
}

/// A word to be entered somewhere.
struct Entry<'a> {
    to_tlb: Signal<'a>,
    to_lower: Signal<'a>,
    to_upper: Signal<'a>,
    /// Key and value; `virtual_page` is a table's number where a pointer is entered.
    fill: TlbFill<Signal<'a>>,
}

/// One of the caches of pointers.
struct Level {
    name: &'static str,
    number_bits: u32,
    sets: u32,
    ways: u32,
}

impl Level {
    /// The key of a table. The bits above those of the set number are those that fills compare, so that they are mixed
    /// of the low bits of both numbers.
    fn key<'a>(
        &self,
        valid: Signal<'a>,
        number: Signal<'a>,
        mpt_index: Signal<'a>,
        table_set: Signal<'a>,
        epoch: Signal<'a>,
    ) -> CacheKey<'a> {
        const MPT_LOW_BITS: u32 = 14;
        let set_bits = self.sets.trailing_zeros();
        let low_bits = (set_bits + 3).min(self.number_bits - 1);
        let key = concat(&[
            epoch,
            table_set,
            mpt_index.high_bits(key::INDEX_BITS - MPT_LOW_BITS),
            number.high_bits(self.number_bits - low_bits),
            mpt_index.low_bits(MPT_LOW_BITS),
            number.low_bits(low_bits),
        ]);
        CacheKey { valid, key, mix: mpt_index.low_bits(set_bits) }
    }

    /// Builds the cache and drives its counters. A lookup counts only where the flag beside it is set one cycle later.
    /// `entry` is the key of what is filled; `is_walk` tells two cycles after a lookup whether that is of a walk.
    #[expect(clippy::too_many_arguments, reason = "a lookup and a fill of a cache, which is built twice")]
    fn build<'a>(
        &self,
        b: &'a Builder<'a>,
        config: &Config,
        flush: Signal<'a>,
        (lookup, s1_counts): (CacheKey<'a>, Signal<'a>),
        to_enter: Signal<'a>,
        entry: TlbFill<Signal<'a>>,
        is_walk: Signal<'a>,
    ) -> Cache<'a> {
        let shape = CacheShape {
            sets: self.sets,
            ways: self.ways,
            key_bits: REGION_EPOCH_BITS + config.table_set_bits() + key::INDEX_BITS + self.number_bits,
            value_bits: PAGE_BITS,
        };
        let number = entry.virtual_page.low_bits(self.number_bits);
        let fill = self.key(to_enter, number, entry.mpt_index, entry.table_set, entry.epoch);
        let name = self.name;
        let s1_looks_up = lookup.valid.delay_reset(&format!("{name}_s1_has_level")) & s1_counts;
        let lookup = LateKey {
            late_valid: s1_looks_up,
            set: lookup.set(),
            late_key: lookup.key.high_bits(shape.key_bits - shape.set_bits()).delay(&format!("{name}_cache_s1_key")),
        };
        let cache = Cache::compact(b, &format!("{name}_cache"), shape, flush, lookup, fill, entry.page);
        let looks_up = s1_looks_up.delay_reset(&format!("{name}_looks_up"));
        b.output(&format!("{name}_hit"), (is_walk & cache.hit).delay_reset(&format!("{name}_hit_q")));
        b.output(&format!("{name}_miss"), (is_walk & looks_up & !cache.hit).delay_reset(&format!("{name}_miss_q")));
        b.output(&format!("{name}_evicted"), cache.evicted);
        cache
    }
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
        let flush = b.input("flush", 1);

        let free = FreeList::new(design, b, "free_contexts", context_bits);
        let early_valid = b.input("early_valid", 1);
        let early_context = b.input("early_context", line_context_bits(config)).low_bits(context_bits);
        let (failure_queue, failure) = Fifo::new(design, b, "failure_queue", contexts, Failure::widths(config));
        let (direct_queue, direct) = Fifo::new(design, b, "direct_queue", contexts, Direct::widths(config));
        failure_queue.pop(!early_valid);
        direct_queue.pop(!early_valid & !failure.out_valid);
        // A landing cannot wait, so that gaps can only be had by beginning no more reads.
        let run = b.register_reset("landing_run", LANDING_RUN_LOG2 + 1, 0);
        let run_is_long = run.value.bit(LANDING_RUN_LOG2);
        let run_grown = run_is_long.mux(run.value, run.value + 1);
        run.next(early_valid.mux(run_grown, b.literal(0, LANDING_RUN_LOG2 + 1)));
        let is_starving = (run_is_long & (direct.out_valid | failure.out_valid)).delay_reset("is_starving");
        let waiting = Waiting { early_valid, early_context, direct, failure };

        let accept = b.input("walk_valid", 1);
        b.output("ready", free.ready);
        free.take(accept);

        let landing = land(b, config, &memories, line_valid, &waiting, zero_entry_literal, alignment_check);
        failure_queue.push(landing.failed, landing.failure);
        let entry = fill(b, config, flush, &landing.landed);
        b.output("fill_valid", entry.to_tlb);
        output_channel(b, "fill", entry.fill);
        let start = Start { accept, context: free.number, zero_entry_literal, flush };
        let first_read = begin(b, config, &memories, start, &entry, &direct_queue);
        issue(design, b, config, &first_read, &landing.next_read, is_starving);

        free.give(landing.is_done, landing.done_context);
        let walks = Credit::new(b, "walks", contexts);
        walks.update(accept, landing.is_done, b.flag(false));
        b.output("idle", walks.full);
        b.name().into()
    }
}

/// What the first-read pipe gets beside the walk.
struct Start<'a> {
    accept: Signal<'a>,
    context: Signal<'a>,
    zero_entry_literal: Signal<'a>,
    flush: Signal<'a>,
}

/// Accepts a walk into its memory words, and computes its first read or puts the walk into the direct queue.
fn begin<'a>(
    b: &'a Builder<'a>,
    config: &Config,
    memories: &Memories<'a>,
    start: Start<'a>,
    entry: &Entry<'a>,
    direct_queue: &Fifo<'a, Direct<u32>>,
) -> Offer<'a> {
    let Start { accept, context, zero_entry_literal, flush } = start;
    let walk = input_channel(b, "start", WalkStart::widths(config));

    // Stage 0: numbers of the tables, the pages that follow, the checks, and the caches' first cycle.
    let mask_bits: Vec<_> = (0..TABLE_SIZE_MAX).rev().map(|bit| b.literal(bit.into(), 4).lt(walk.ba_pg_sz)).collect();
    let s0_lower_number = shifted(walk.index.high_bits(LOWER_BITS), walk.ba_pg_sz, 1).named("s0_lower_number");
    let s0_upper_number = shifted(walk.index.high_bits(UPPER_BITS), walk.ba_pg_sz, 2).named("s0_upper_number");
    // count - 1 - index, and a carry where that is not negative.
    let following = walk.count.add_wide(!walk.index).named("s0_following");
    let is_inside = following.bit(INDEX_BITS);
    let s1_is_inside = is_inside.delay("s1_is_inside");
    let lower =
        Level { name: "lower", number_bits: LOWER_BITS, sets: config.mtr_lower_sets, ways: config.mtr_lower_ways };
    let upper =
        Level { name: "upper", number_bits: UPPER_BITS, sets: config.mtr_upper_sets, ways: config.mtr_upper_ways };
    let has_lower = !walk.is_context & walk.hop.bit(1);
    let lower_key = lower.key(has_lower, s0_lower_number, walk.mpt_index, walk.table_set, walk.epoch);
    let lower_cache = lower.build(b, config, flush, (lower_key, s1_is_inside), entry.to_lower, entry.fill, accept);
    let has_upper = !walk.is_context & walk.hop.is(3);
    let upper_key = upper.key(has_upper, s0_upper_number, walk.mpt_index, walk.table_set, walk.epoch);
    let upper_cache = upper.build(b, config, flush, (upper_key, s1_is_inside), entry.to_upper, entry.fill, accept);
    b.output("caches_ready", lower_cache.ready & upper_cache.ready);

    let table_mask = concat(&mask_bits).delay("s1_table_mask");
    let lower_number = s0_lower_number.delay("s1_lower_number");
    let upper_number = s0_upper_number.delay("s1_upper_number");
    let following = following.low_bits(INDEX_BITS).delay("s1_following");
    let checks_index = walk.check_index.delay("s1_checks_index");
    let root = walk.root.delay("s1_root");
    let index = walk.index.delay("s1_index");
    let offset = b.input("start_offset", 64);
    let (is_context, table_set) = (walk.is_context.delay("s1_is_context"), walk.table_set.delay("s1_table_set"));
    let (mpt_index, epoch) = (walk.mpt_index.delay("s1_mpt_index"), walk.epoch.delay("s1_epoch"));
    let hop = walk.hop.delay("s1_hop");
    let ba_pg_sz = walk.ba_pg_sz.delay("s1_ba_pg_sz");

    // Stage 1: verdict, plan, and the position in the root table. The root is as large as the table needs, so that its
    // position is not cut to a page's worth, and it is not aligned to its size, so that the position is added.
    let refusal = |refusal: Refusal| b.literal(refusal as u128, 2);
    let is_out_of_range = checks_index & !s1_is_inside;
    let is_misaligned = root.low_bits(ENTRY_BYTES_LOG2).any();
    let is_present = !root.concat(zero_entry_literal).none_wide();
    let present = is_present.mux(refusal(Refusal::None), refusal(Refusal::NotPresent));
    let aligned = is_misaligned.mux(refusal(Refusal::Misaligned), present);
    let verdict = is_out_of_range.mux(refusal(Refusal::Index), aligned).named("s1_refusal");
    let ones = b.literal((1 << TABLE_ENTRIES_LOG2_MIN) - 1, TABLE_ENTRIES_LOG2_MIN);
    let position_mask = table_mask.concat(ones);
    let low_index = index.low_bits(LOW_BITS) & position_mask;
    let middle_index = lower_number & position_mask.low_bits(LOWER_BITS);
    let is_direct = hop.none();
    let plan = Plan {
        low_index,
        middle_index,
        lower_number,
        upper_number,
        table_mask,
        hop,
        refusal: verdict,
        is_cacheable: s1_is_inside & !is_context & !is_direct & !is_misaligned & is_present,
        pages_left: saturated(following.low_bits(WORD_BITS), !following.high_bits(INDEX_BITS - WORD_BITS).none_wide()),
        lower_left: lower_left(following, ba_pg_sz, table_mask),
        upper_left: upper_left(following, ba_pg_sz, table_mask),
        is_far: index.high_bits(INDEX_BITS - WORD_BITS).any(),
    };
    let is_refused = is_out_of_range | is_misaligned | !is_present;
    let needs_no_read = (is_refused | is_direct).named("s1_needs_no_read");

    let is_one_hop = !hop.bit(1);
    let two_or_three = hop.bit(0).mux(upper_number.resize(LOWER_BITS), lower_number);
    let position = is_one_hop.mux(index, two_or_three.resize(INDEX_BITS));
    let displacement = position.concat(b.literal(0, ENTRY_BYTES_LOG2)).resize(64);
    // The carry goes into the high half a cycle later.
    let addend = is_direct.mux(offset, displacement);
    let low = root.low_bits(SUM_LOW_BITS).add_wide(addend.low_bits(SUM_LOW_BITS));
    let s2_carry = low.bit(SUM_LOW_BITS).delay("s2_carry");
    let s2_low = low.low_bits(SUM_LOW_BITS).delay("s2_low");
    let s2_high = (root.high_bits(64 - SUM_LOW_BITS) + addend.high_bits(64 - SUM_LOW_BITS)).delay("s2_high");

    // Stage 2: it is known whether there is a walk, which is given its context. The deepest table that is known. A cached pointer is aligned to its table, so that nothing is added.
    let address = (s2_high + s2_carry.resize(64 - SUM_LOW_BITS)).concat(s2_low);
    let position_of = |index: Signal<'a>, name| index.delay(name).concat(b.literal(0, ENTRY_BYTES_LOG2)).resize(64);
    let in_lower = position_of(low_index, "s2_low_index");
    let in_upper = position_of(middle_index, "s2_middle_index");
    let walk = input_channel(b, "walk", WalkRequest::widths(config));
    let needs_no_read = needs_no_read.delay("s2_needs_no_read");
    direct_queue.push(accept & needs_no_read, Direct { context, address });
    memories.plan.write(context, delay_record(plan, "s2_plan"), accept);
    memories.offset.write(context, Offset { offset: offset.low_bits(SUM_LOW_BITS).delay("s2_offset") }, accept);
    let origin = Origin {
        is_context: is_context.delay("s2_is_context"),
        tag: walk.tag,
        function: walk.function,
        is_remote: walk.is_remote,
        table_set: table_set.delay("s2_table_set"),
        mpt_index: mpt_index.delay("s2_mpt_index"),
        virtual_page: walk.virtual_page,
        va: walk.va,
        length: walk.length,
        is_split: walk.is_split,
        split_context: walk.split_context,
        split_slot: walk.split_slot,
        split_toggle: walk.split_toggle,
        index: index.delay("s2_index"),
        admission: walk.admission,
        epoch: epoch.delay("s2_epoch"),
    };
    memories.origin.write(context, origin, accept);
    let reads = (hop - 1).delay("s2_reads");
    let (is_lower, is_upper) = (lower_cache.hit, upper_cache.hit);
    let pointers = [(is_lower, lower_cache.value), (is_upper & !is_lower, upper_cache.value)];
    let table = select_one_hot(&pointers).concat(b.literal(0, TABLE_BYTES_LOG2_MIN));
    let address = table | is_lower.mux(in_lower, is_upper.mux(in_upper, address));
    let two_bits = |value: u128| b.literal(value, 2);
    let remaining = is_lower.mux(two_bits(0), is_upper.mux(two_bits(1), reads));
    let number = is_lower.mux(reads, is_upper.mux(two_bits(1), two_bits(0)));
    let read = Read { number, context, level: remaining, address };
    // Stage 3: the read is offered.
    Offer { valid: (accept & !needs_no_read).delay_reset("s3_valid"), read: delay_record(read, "s3") }
}

/// `value >> (times * size)`, with a select of four for two bits of `size` at a time.
fn shifted<'a>(value: Signal<'a>, size: Signal<'a>, times: u32) -> Signal<'a> {
    let width = value.width();
    let zero = value.builder().literal(0, width);
    let by = |value: Signal<'a>, amount: u32| match width.checked_sub(amount) {
        None | Some(0) => zero,
        Some(bits) => value.high_bits(bits).resize(width),
    };
    let step = |value: Signal<'a>, low: u32| {
        let values: Vec<_> = (0..4).map(|number| by(value, (number * times) << low)).collect();
        select_tree(size.bits(low + 1, low), &values)
    };
    step(step(value, 2), 0)
}

/// Sum of numbers of two bits without carry, written out because synthesis makes a carry chain of an addition. `hop - 1 -
/// remaining` is `hop + !remaining`, and `hop - remaining` is `!(!hop + remaining)`.
fn reads_before<'a>(hop: Signal<'a>, other: Signal<'a>) -> Signal<'a> {
    let carry = hop.bit(0) & other.bit(0);
    (hop.bit(1) ^ other.bit(1) ^ carry).concat(hop.bit(0) ^ other.bit(0))
}

/// No bit of `address` is set that `mask` has, found in the same way.
fn is_aligned<'a>(address: Signal<'a>, mask: Signal<'a>) -> Signal<'a> {
    let parts: Vec<_> = (0..mask.width())
        .step_by(3)
        .map(|low| {
            let high = (low + 2).min(mask.width() - 1);
            (address.bits(high, low) & mask.bits(high, low)).none()
        })
        .collect();
    concat(&parts).all_set()
}

/// `low`, or 7 where there is more.
fn saturated<'a>(low: Signal<'a>, is_more: Signal<'a>) -> Signal<'a> {
    low | is_more.repeat(WORD_BITS)
}

/// How many times the pages of a leaf table fit into `following`, 7 at the most.
fn lower_left<'a>(following: Signal<'a>, ba_pg_sz: Signal<'a>, table_mask: Signal<'a>) -> Signal<'a> {
    let tables = following.high_bits(LOWER_BITS);
    let high = tables.high_bits(LOWER_BITS - WORD_BITS);
    let is_more = high.high_bits(LOWER_BITS - WORD_BITS - TABLE_SIZE_MAX).any()
        | !is_aligned(high.low_bits(TABLE_SIZE_MAX), !table_mask);
    saturated(shifted(tables, ba_pg_sz, 1).low_bits(WORD_BITS), is_more)
}

/// The same for a middle table, whose pages are the square of those of a leaf table.
fn upper_left<'a>(following: Signal<'a>, ba_pg_sz: Signal<'a>, table_mask: Signal<'a>) -> Signal<'a> {
    let tables = following.high_bits(UPPER_BITS);
    let high = tables.high_bits(UPPER_BITS - WORD_BITS);
    // Bit n counts unless it is shifted out, that is where ba_pg_sz is n / 2 or less.
    let counting: Vec<_> = (0..high.width()).rev().map(|bit| !table_mask.bit(bit / 2)).collect();
    let is_more = !is_aligned(high, concat(&counting));
    saturated(shifted(tables, ba_pg_sz, 2).low_bits(WORD_BITS), is_more)
}

/// Takes a line, or a walk that waits for a cycle without one, and makes the next read or the result of it.
fn land<'a>(
    b: &'a Builder<'a>,
    config: &Config,
    memories: &Memories<'a>,
    line_valid: Signal<'a>,
    waiting: &Waiting<'a>,
    zero_entry_literal: Signal<'a>,
    alignment_check: Signal<'a>,
) -> Landing<'a> {
    let always = b.flag(true);
    let line = input_channel(b, "line", LineResponse::widths(config));

    // One cycle before: whose turn it is, so that its words are there in time.
    let Waiting { early_valid, early_context, direct, failure } = waiting;
    let other_context = failure.out_valid.mux(failure.out.context, direct.out.context);
    let context = early_valid.mux(*early_context, other_context);
    let plan = memories.plan.read(context, always);
    let Offset { offset } = memories.offset.read(context, always);
    let origin = memories.origin.read(context, always);
    let context = context.delay("l0_context");
    let takes_failure = (!*early_valid & failure.out_valid).named("takes_failure");
    let takes_direct = (!*early_valid & !failure.out_valid & direct.out_valid).named("takes_direct");
    let is_failure = takes_failure.delay_reset("l0_is_failure");
    let is_direct = takes_direct.delay_reset("l0_is_direct");
    let direct_address = direct.out.address.delay("l0_direct_address");
    let failure_refusal = failure.out.refusal.delay("l0_refusal");
    let failure_hop = failure.out.hop.delay("l0_hop");

    // Stage 0: the sum, straight off the memories, and what is wrong with a leaf. The address of a walk without reads goes
    // beside it; where there is no line, the resets of the registers make the sum zero.
    let displaced = |index: Signal<'a>| index.concat(b.literal(0, ENTRY_BYTES_LOG2)).resize(SUM_LOW_BITS);
    let (low_index, middle_index) = (displaced(plan.low_index), displaced(plan.middle_index));
    let summands = [offset, low_index, middle_index, middle_index];
    let low = line.value.low_bits(SUM_LOW_BITS).add_wide(select_tree(line.level, &summands));
    // As a select, of which synthesis makes a reset.
    let or_zero = |valid: Signal<'a>, part: Signal<'a>| valid.mux(part, b.literal(0, part.width()));
    let of_line = |part| or_zero(line_valid, part);
    let carry = of_line(low.bit(SUM_LOW_BITS)).delay("l1_carry");
    let low = of_line(low.low_bits(SUM_LOW_BITS)).delay("l1_low");
    let high = of_line(line.value.high_bits(64 - SUM_LOW_BITS)).delay("l1_high");
    let l1_direct = or_zero(is_direct, direct_address).delay("l1_direct_address");
    // With the switch in the chain, so that no LUT follows it.
    let is_absent = line.value.concat(zero_entry_literal).none_wide().delay("l1_is_absent");
    let is_last = line.level.none();
    let is_leaf = (line_valid & is_last).delay_reset("l1_is_leaf");
    let is_pointer = (line_valid & !is_last).delay_reset("l1_is_pointer");
    let is_failed = (line_valid & line.value_error).delay("l1_is_failed");
    let pointer = line.value.low_bits(TABLE_BYTES_LOG2_MIN + TABLE_SIZE_MAX).delay("l1_pointer");
    // Remaining reads; the middle level of three is the highest that a line can be of.
    let remaining = line.level.delay("l1_remaining");
    let wanted_word = line.word.delay("l1_wanted_word");
    let errors = (line.errors & line_valid.repeat(4)).delay("l1_errors");
    let context = context.delay("l1_context");
    let is_failure = is_failure.delay_reset("l1_is_failure");
    let is_direct = is_direct.delay_reset("l1_is_direct");
    let failure_refusal = failure_refusal.delay("l1_refusal");
    let failure_hop = failure_hop.delay("l1_hop");
    let plan = delay_record(plan, "l1_plan");
    let origin = delay_record(origin, "l1_origin");
    let is_first = line.is_first;

    // Stage 1: the verdict. What ends at a pointer waits for a cycle without a line, as its end shows late.
    let is_below_page = pointer.bits(TABLE_BYTES_LOG2_MIN - 1, ENTRY_BYTES_LOG2).any();
    let is_size_misaligned = !is_aligned(pointer.high_bits(TABLE_SIZE_MAX), plan.table_mask);
    let is_misaligned =
        pointer.low_bits(ENTRY_BYTES_LOG2).any() | (alignment_check & (is_below_page | is_size_misaligned));
    let is_bad = (is_failed | is_absent | is_misaligned).named("is_bad");
    let refusal = |refusal: Refusal| b.literal(refusal as u128, 2);
    let (number, next_number) = (reads_before(plan.hop, !remaining), !reads_before(!plan.hop, remaining));
    let reads_on = !is_failed & !is_absent;
    let absent = is_absent.mux(refusal(Refusal::NotPresent), refusal(Refusal::Misaligned));
    let new_failure =
        Failure { context, refusal: absent & (!is_failed).repeat(2), hop: reads_on.mux(next_number, number) };
    let is_refused = |kind: Refusal| {
        let kind = kind as u128;
        (is_direct & plan.refusal.is(kind)) | (is_failure & failure_refusal.is(kind))
    };
    let failures = [
        (is_refused(Refusal::Index), Status::MtrIndex),
        (is_refused(Refusal::Misaligned), Status::MtrMisaligned),
        (is_refused(Refusal::NotPresent) | (is_leaf & !is_failed & is_absent), Status::MtrNotPresent),
        ((is_leaf & is_failed) | (is_failure & failure_refusal.none()), Status::MtrBusError),
    ];
    let code = |status: Status| b.literal(status.code().into(), status::STATUS_BITS);
    let status = select_one_hot(&failures.map(|(failure, status)| (failure, code(status)))).named("result_status_code");
    let leaf_is_good = is_leaf & !is_failed & !is_absent;
    let is_ok = (leaf_is_good | (is_direct & plan.refusal.none())).named("result_is_ok");
    let hop = (is_failure.repeat(2) & failure_hop) | ((is_leaf & !leaf_is_good).repeat(2) & number);
    let high = (high | l1_direct.high_bits(64 - SUM_LOW_BITS)) + carry.resize(64 - SUM_LOW_BITS);
    let address = high.concat(low | l1_direct.low_bits(SUM_LOW_BITS));
    let result = WalkResult {
        is_context: origin.is_context,
        tag: origin.tag,
        function: origin.function,
        is_remote: origin.is_remote,
        mpt_index: origin.mpt_index,
        va: origin.va,
        length: origin.length,
        is_split: origin.is_split,
        split_context: origin.split_context,
        split_slot: origin.split_slot,
        split_toggle: origin.split_toggle,
        index: origin.index,
        admission: origin.admission,
        status,
        hop,
        address: is_ok.repeat(64) & address,
    };
    let is_done = (is_leaf | is_direct | is_failure).named("is_done");
    b.output("result_valid", is_done);
    b.output("result_is_found", leaf_is_good);
    b.output("result_is_ok", is_ok);
    b.output("result_found_address", address);
    output_channel(b, "result", result);

    let words = [line.data_0, line.data_1, line.data_2, line.data_3];
    let words: Vec<_> = words
        .iter()
        .flat_map(|quarter| [quarter.low_bits(64), quarter.high_bits(64)])
        .map(|word| word.high_bits(PAGE_BITS).concat(word.low_bits(TABLE_BYTES_LOG2_MIN).any()))
        .collect();
    let words = SlotWords {
        wanted: line.word,
        word_0: words[0],
        word_1: words[1],
        word_2: words[2],
        word_3: words[3],
        word_4: words[4],
        word_5: words[5],
        word_6: words[6],
        word_7: words[7],
    };
    // Of a root table, what is before its first entry may belong to others, and so may all beside the wanted word in a
    // lower table that is not aligned to its size, which may only be where the check is off.
    let is_before_last = remaining.bit(0);
    let left = is_leaf.mux(plan.pages_left, is_before_last.mux(plan.lower_left, plan.upper_left));
    let index_low = plan.low_index.low_bits(WORD_BITS);
    let first = wanted_word.resize(WORD_BITS + 1) - index_low.resize(WORD_BITS + 1);
    let position = is_leaf.mux(index_low, plan.middle_index.low_bits(WORD_BITS));
    let fails = is_failed | is_absent | (is_pointer & is_misaligned);
    let walk = SlotWalk {
        table_set: origin.table_set,
        mpt_index: origin.mpt_index,
        epoch: origin.epoch,
        virtual_page: origin.virtual_page,
        lower_number: plan.lower_number,
        upper_number: plan.upper_number,
        table_mask: plan.table_mask,
        first_word: first,
        has_first: is_leaf & !plan.is_far,
        left,
        is_root: number.none(),
        is_in_place: position.eq(wanted_word),
        is_cacheable: plan.is_cacheable & !fails,
        remaining: is_pointer.repeat(2) & remaining,
        errors,
    };
    // Stage 2: the read is offered, of which all is known then.
    let read = Read { number: next_number, context, level: remaining - 1, address };
    let next_read = Offer { valid: (is_pointer & !is_bad).delay_reset("l2_valid"), read: delay_record(read, "l2") };
    let valid = (is_leaf | is_pointer).named("has_landed");
    Landing {
        next_read,
        failed: is_pointer & is_bad,
        failure: new_failure,
        is_done,
        done_context: context,
        landed: Landed { line_valid, is_first, words, valid, word: wanted_word, walk },
    }
}

/// Enters what has landed, the wanted word first and then, when nothing else is to be entered, the words beside it.
fn fill<'a>(b: &'a Builder<'a>, config: &Config, flush: Signal<'a>, landed: &Landed<'a>) -> Entry<'a> {
    let always = b.flag(true);
    let slot_bits = SLOTS.trailing_zeros();
    let style = RamStyle::for_depth(SLOTS);
    let words = Ram::new(b, "slot_words", SLOTS, style, SlotWords::widths(config));
    let walks = Ram::new(b, "slot_walks", SLOTS, style, SlotWalk::widths(config));

    // Slots are taken and emptied in order. A line for which there is none, or which has no neighbours to be filled,
    // passes through the next free one without taking it.
    let free = b.register_reset("slot_free", slot_bits, 0);
    let position = b.register_reset("slot_position", slot_bits + WORD_BITS, 0);
    let oldest = position.value.high_bits(slot_bits);
    let after = free.value + 1;
    let is_kept = landed.line_valid & landed.is_first & after.ne(oldest);
    words.write(free.value, landed.words, landed.line_valid);
    let first = b.literal(0, slot_bits);
    free.next(flush.mux(first, is_kept.mux(after, free.value)));
    let landed_slot = free.value.delay("landed_slot");
    walks.write(landed_slot, landed.walk, landed.valid);

    // Stage 1 after the line: the slot of what has landed, else the next neighbour.
    let is_wanted = landed.valid;
    let is_neighbour = (!is_wanted & free.value.ne(oldest)).named("is_neighbour");
    let advanced = is_neighbour.mux(position.value + 1, position.value);
    position.next(flush.mux(b.literal(0, slot_bits + WORD_BITS), advanced));
    let slot = is_wanted.mux(landed_slot, oldest).named("fill_slot");
    let word = is_wanted.mux(landed.word, position.value.low_bits(WORD_BITS));
    let found = words.read(slot, always);
    let f1_valid = (!flush & (is_wanted | is_neighbour)).delay_reset("f1_valid");
    let f1_is_wanted = is_wanted.delay("f1_is_wanted");
    let f1_word = word.delay("f1_word");
    let walk = walks.read(slot.delay("f1_slot"), always);

    // Stage 2: all words but the one are made zero, so that an OR selects; distance from the wanted word, with its sign.
    let no_word = b.literal(0, PAGE_BITS + 1);
    let distance = f1_word.resize(WORD_BITS + 1) - found.wanted.resize(WORD_BITS + 1);
    let distance = distance.delay("f2_distance");
    let f2_words: Vec<_> = found
        .list()
        .into_iter()
        .skip(1)
        .zip(0u128..)
        .map(|((name, value), number)| f1_word.is(number).mux(value, no_word).delay(&format!("f2_{name}")))
        .collect();
    let f2_valid = (!flush & f1_valid).delay_reset("f2_valid");
    let f2_is_wanted = f1_is_wanted.delay("f2_is_wanted");
    let f2_word = f1_word.delay("f2_word");

    // Stage 3: the word, its number, and the checks.
    let selected = or_all(&f2_words);
    let page = selected.high_bits(PAGE_BITS);
    let is_unaligned = selected.bit(0);
    let is_page = walk.remaining.none();
    let is_lower = walk.remaining.bit(0);
    let by_level =
        |page: Signal<'a>, lower: Signal<'a>, upper: Signal<'a>| is_page.mux(page, is_lower.mux(lower, upper));
    let base = by_level(walk.virtual_page, walk.lower_number.resize(INDEX_BITS), walk.upper_number.resize(INDEX_BITS));
    let number = distance.bit(WORD_BITS).repeat(INDEX_BITS + 1 - WORD_BITS).concat(distance.low_bits(WORD_BITS))
        + base.resize(INDEX_BITS + 1);
    let is_below = walk.has_first & !walk.first_word.bit(WORD_BITS) & f2_word.lt(walk.first_word.low_bits(WORD_BITS));
    let is_above = !distance.bit(WORD_BITS) & walk.left.lt(distance.low_bits(WORD_BITS));
    let is_outside = is_below | is_above;
    // The wanted word has its turn once.
    let is_refused = !f2_is_wanted & (distance.none() | !(walk.is_root | walk.is_in_place));
    let quarters: Vec<_> = (0..4).map(|quarter| walk.errors.bit(quarter)).collect();
    let is_failed = select_tree(f2_word.high_bits(2), &quarters);
    let f3_is_allowed = (!flush & f2_valid & walk.is_cacheable).delay_reset("f3_is_allowed");
    let f3_is_bad = (is_unaligned | is_failed).delay("f3_is_bad");
    let f3_is_outside = is_outside.delay("f3_is_outside");
    let f3_is_refused = is_refused.delay("f3_is_refused");
    let f3_is_before = number.bit(INDEX_BITS).delay("f3_is_before");
    let f3_is_page = is_page.delay("f3_is_page");
    let f3_is_lower = is_lower.delay("f3_is_lower");
    let fill = TlbFill {
        table_set: walk.table_set,
        mpt_index: walk.mpt_index,
        virtual_page: number.low_bits(INDEX_BITS),
        epoch: walk.epoch,
        page,
    };
    let f3_table_mask = walk.table_mask.delay("f3_table_mask");
    let fill = delay_record(fill, "fill_q");
    let f3_is_set = !fill.page.none_wide();
    let f3_is_table = is_aligned(fill.page.low_bits(TABLE_SIZE_MAX), f3_table_mask);
    let is_good = f3_is_allowed & !f3_is_bad & !f3_is_outside & !f3_is_refused & f3_is_set;
    let is_pointer = is_good & !f3_is_page & f3_is_table & !f3_is_before;
    Entry {
        to_tlb: is_good & f3_is_page,
        to_lower: is_pointer & f3_is_lower,
        to_upper: is_pointer & !f3_is_lower,
        fill,
    }
}

/// Puts the reads of both pipes into one channel, those of walks under way first.
fn issue<'a>(
    design: &Design<'_>,
    b: &'a Builder<'a>,
    config: &Config,
    first: &Offer<'a>,
    next: &Offer<'a>,
    is_starving: Signal<'a>,
) {
    let reads = Merge::new(
        design,
        b,
        "reads",
        config.walk_contexts,
        Read::widths(config),
        (next.valid, next.read),
        (first.valid, first.read),
        is_starving,
    );
    let read = reads.out;
    let ready = b.input("line_request_ready", 1);
    reads.take(ready);
    b.output("line_request_valid", reads.valid);
    let request = LineRequest {
        context: read.context.resize(line_context_bits(config)),
        level: read.level,
        word: read.address.bits(5, 3),
        low: read.address.bits(SUM_LOW_BITS - 1, SUM_LOW_BITS - LINE_LOW_BITS),
        carry: b.flag(false),
        high: read.address.high_bits(64 - SUM_LOW_BITS),
    };
    output_channel(b, "line_request", request);
    let is_taken = (reads.valid & ready).delay_reset("is_taken");
    let number = read.number.delay("taken_number");
    for read in 0..3u32 {
        b.output(&format!("read_issued_{read}"), is_taken & number.is(read.into()));
    }
}
