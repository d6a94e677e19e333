//! Walks the HEM: from an object number to its MPT entry, or to the address of its context entry.
//!
//! **Purpose.** Finds object `index` of a context table through 0 to 3 hops (contract section 3). A miss of the MPT cache
//! comes in on `miss` and goes out on `replay` with the entry; a context lookup comes in on `lookup` and goes out on
//! `answer` with an address. Each lookup in flight is a context: a number, and words in memories; there is no state
//! machine per lookup.
//!
//! Two pipes share the work. The *new* pipe looks every request up beside the MPT cache, so that one that misses is two
//! stages ahead; the others leave no trace. Context lookups take the cycles between. The pipe turns the object number
//! into what is added to the pointer of each level, and reads the BT0 slot and the pointer caches side by side; it
//! starts at the deepest pointer that is known. The *landing* pipe takes the lines that arrive, checks the pointer,
//! adds what the new pipe has left in memory, and puts the pointer into a cache. Either pipe makes one *step* of a
//! lookup: the next read, or the end. The steps of both go through one [`Merge`], the landing pipe first. Only the end
//! of a miss whose entry has landed goes its own way.
//!
//! Two caches hold pointers that reads have returned. That of chunk pointers has the configured shape. That of the
//! pointers one level above has as many places, but one way: each of its pointers covers 512 chunks or more, so that
//! few are in use. Those two levels above, which only tables of three hops have, are not cached: an MPT of 2^24 entries
//! has one, and it is asked for only where one of the at most 512 pointers below is not known. A key is the HEM epoch,
//! the table set, the table, the alignment check at the acceptance, and the chunk number without the bits that are
//! counted below the level.
//!
//! Only a pointer that a lookup wanted is cached, and none of its neighbours in the line: a driver leaves stale pointers
//! in memory and writes new ones without telling, so that a pointer counts only once somebody has asked for it. Nor is
//! one cached that is zero, not aligned to 4 KiB, or read with an error: lookups that want it fail anew, or succeed once
//! it has been mended.
//!
//! **Handshake.** Channel `request` in, valid only, and three cycles after a request that has missed channel `miss`,
//! valid only: as many may be in flight as there are contexts for requests. Channel `replay` out is valid only, and
//! what it takes from the line comes from the table port's memories without a register. Channels `lookup` in and
//! `answer` out are ready/valid; `lookup_ready` is low in the cycles of requests. `gap_wanted` asks for a cycle without
//! a request, after a lookup or an end has waited for 15. `line_request` is ready/valid, but what is offered may change
//! from cycle to cycle until it is taken, and it is void where `line_request_cancel` is set: a lookup that ends without
//! an entry takes its turn there too. `line_valid` has no ready: a line is taken in every cycle; `early_context` tells
//! its context one cycle before, and `early_valid` that it may come. `geometry_write_valid` and `bt0_write_valid` carry
//! one write per cycle and are ignored before `ready`. `pointer_flush`, `pointer_hit`, `pointer_miss`,
//! `pointer_evicted` and `read_issued_<level>` are pulses. A lookup of a table with hops counts as hit where it starts
//! at a cached pointer, else as miss.
//!
//! **Latency and throughput.** From `request` or the acceptance of a context lookup to `line_request_valid` 4 cycles,
//! from `line_valid` to the next `line_request_valid` 2 cycles; an entry is replayed in the cycle of its line; from the
//! last line to `answer_valid` 6 cycles; if nothing else is in the way. One lookup, one line and one step per cycle. A
//! level-0 index at or above `bt_num` costs about 40 cycles more, to that lookup only, if no pointer of it is cached;
//! such lookups pass the divider one after another.
//!
//! **Timing.** The new pipe shifts (1), shifts and masks further beside the reads (2), is told of misses and adds (3). The
//! landing pipe adds straight off the memories (0), checks the pointer (1) and offers the sum (2).
//! Both add the low half of an address; the table port adds the carry to the high half.
//!
//! **Reset and flush.** Reset forgets all lookups. After it every BT0 slot is set to "unset" and every geometry to its
//! reset value, and the caches are scrubbed; `ready` rises when that is done. Lines asked for before a reset must not
//! arrive after it. `pointer_flush` and every write of a geometry or a BT0 slot empty the caches; while that lasts, as
//! many cycles as a cache has sets, lookups go on and find nothing.
//!
//! **Hazards.** A lookup sees a geometry or BT0 write if it is accepted three cycles or more after it. A lookup in flight
//! while its table's geometry or slot is written uses the old or the new value, and may cache a pointer after the flush,
//! under its own epoch: whoever writes changes the HEM epoch. The alignment check is sampled at the acceptance. Context
//! numbers are given back when the last word of the context has been read, so that they can be reused at once.
//!
//! **Limits.** `hem_contexts` requests and as many context lookups in flight; every queue holds one record per context
//! and cannot overflow. The legal ranges of a geometry (contract) are not checked here. Of table code 7 no write is
//! accepted, so that it reads as a table without BT0 slots.

use crate::modulo::{self, Modulo};
use crate::prim::{
    Builder, Cache, CacheKey, CacheShape, Credit, Design, Fifo, FreeList, Merge, Ram, RamStyle, Signal, concat,
    delay_record, input_channel, mux_record, or_all, output_channel, scrub, select_tree,
};
use crate::record;
use crate::records::{
    ADMISSION_BITS, Bt0Write, ContextAnswer, ContextLookup, GeometryWrite, HEM_EPOCH_BITS, HemRequest, LINE_LOW_BITS,
    LineRequest, LineResponse, MissRequest, Replay, line_context_bits,
};
use keywalk_contract::hem::{
    BA_ENTRY_BYTES_LOG2, ENTRY_BYTES_LOG2, HOP_MAX, PAGE_SHIFT_MIN, TABLE_BITS, TABLE_CODE_MTR,
};
use keywalk_contract::{Config, Status, Table, mpt_entry, status};

/// Bits of an object number, and of everything that is divided out of it.
const INDEX_BITS: u32 = 32;
/// log2 of the entries of the smallest BA page.
const PAGE_ENTRIES_LOG2_MIN: u32 = PAGE_SHIFT_MIN - BA_ENTRY_BYTES_LOG2;
/// Bits of an index into the largest BA page, and of what is added to a page's address, in units of 8 bytes.
const LEVEL_INDEX_BITS: u32 = PAGE_ENTRIES_LOG2_MIN + 15;
/// Most significant bits that a level index has where one more level follows: 32 bits less 16 or more below it.
const SECOND_LAST_BITS: u32 = 16;
/// Where two more levels follow: 32 bits less twice 10 or more, or 9 bits.
const THIRD_LAST_BITS: u32 = 10;
/// Most significant bits that a chunk number has without one level index, and without two.
const UPPER_BITS: u32 = INDEX_BITS - PAGE_ENTRIES_LOG2_MIN;
const TOP_BITS: u32 = INDEX_BITS - 2 * PAGE_ENTRIES_LOG2_MIN;
/// log2 of the smallest entry's bytes.
const ENTRY_BYTES_LOG2_MIN: u32 = *ENTRY_BYTES_LOG2.start();
/// Bits of an entry's offset in the largest chunk, in units of the smallest entry.
const OFFSET_BITS: u32 = PAGE_SHIFT_MIN + 15 - ENTRY_BYTES_LOG2_MIN;
/// log2 of an MPT entry's bytes.
const MPT_ENTRY_BYTES_LOG2: u32 = mpt_entry::ENTRY_BYTES.ilog2();
/// Bits of a status inside the block.
const SHORT_STATUS_BITS: u32 = 4;
const _: () = assert!((Status::HemBusError as u32) < 1 << SHORT_STATUS_BITS, "the statuses in use fit");
/// Low bits of an address that a pipe adds up itself: half of the bits above the words. The rest follows when the step is
/// taken, which halves the carry chain behind the memories, and one adder does for both pipes.
const LOW_BITS: u32 = LINE_LOW_BITS + 6;
const _: () = assert!(LOW_BITS >= LEVEL_INDEX_BITS + BA_ENTRY_BYTES_LOG2, "what is added ends below");
/// Bits of a page-aligned pointer that are not zero.
const POINTER_BITS: u32 = 64 - PAGE_SHIFT_MIN;
/// Bits of the count of cycles that a lookup waits for a cycle without a request, or an end for one without a line, before a
/// gap is asked for.
const WAIT_BITS: u32 = 4;
/// Levels of pointers that are cached.
const POINTER_LEVELS: usize = 2;
const CACHE_NAMES: [&str; POINTER_LEVELS] = ["chunk_cache", "upper_cache"];
/// Bits of the distance of a read: the number of pointers that it and the reads after it return. 0 for the entry.
const DISTANCE_BITS: u32 = 2;

record! {
    /// Geometry of a context table: what the first stage shifts by, in LUT RAM, because block RAM is slow.
    struct Shifts(_config) {
        hop_num: 2,
        ba_pg_sz: 4,
        /// log2 of the objects per chunk.
        chunk_shift: 5,
        /// log2 of the objects per BT0 slot.
        slot_shift: 5,
        /// There are 2^32 objects or more per BT0 slot.
        is_slot_zero: 1,
        /// log2 of the objects per page of chunk pointers.
        upper_shift: 6,
    }
}

record! {
    /// The rest of a geometry.
    struct Limits(_config) {
        buf_pg_sz: 4,
        /// log2 of the entry's bytes, less that of the smallest entry.
        entry_shift: 3,
        bt_num: modulo::DIVISOR_BITS,
        /// Largest legal object number: `object_count` - 1 modulo 2^32, so that 0 permits every number.
        last_object: INDEX_BITS,
    }
}

record! {
    /// A BT0 slot.
    struct Bt0(_config) {
        /// The base; 0 where there is none.
        address: 64,
    }
}

record! {
    /// A lookup in the new pipe.
    struct New(config) {
        context: config.hem_context_bits(),
        /// 1: context lookup. 0: miss.
        is_context: 1,
        table: TABLE_BITS,
        table_set: config.table_set_bits(),
        alignment_check: 1,
        epoch: HEM_EPOCH_BITS,
    }
}

record! {
    /// What is needed of a lookup whose level-0 index must be divided, by context.
    struct Undivided(config) {
        is_context: 1,
        table: TABLE_BITS,
        table_set: config.table_set_bits(),
        alignment_check: 1,
        epoch: HEM_EPOCH_BITS,
        index: INDEX_BITS,
        slot_shift: 5,
        bt_num: modulo::DIVISOR_BITS,
    }
}

record! {
    /// A lookup that waits for the divider.
    struct Waiting(config) {
        context: config.hem_context_bits(),
    }
}

record! {
    /// The remaining way of a lookup, by context: written by the new pipe, read by the landing pipe.
    struct Plan(_config) {
        is_context: 1,
        alignment_check: 1,
        hop_num: 2,
        /// Level index of the last pointer read.
        last_index: LEVEL_INDEX_BITS,
        /// Level index of the pointer read before it.
        second_last_index: SECOND_LAST_BITS,
        /// Of the entry in its chunk, in units of the smallest entry.
        offset: OFFSET_BITS,
    }
}

record! {
    /// Under which key what a lookup reads is cached, by context.
    struct Keys(config) {
        /// Shared by the keys of all levels.
        space: space_bits(config),
        chunk: INDEX_BITS,
        upper: UPPER_BITS,
        /// Sets of the caches.
        chunk_set: config.hem_cache_sets.trailing_zeros(),
        upper_set: upper_sets(config).trailing_zeros(),
    }
}

/// Sets of the cache of pointers above those to chunks.
fn upper_sets(config: &Config) -> u32 {
    config.hem_cache_sets * config.hem_cache_ways
}

/// Bits of the part of a key that all levels share.
fn space_bits(config: &Config) -> u32 {
    1 + TABLE_BITS + config.table_set_bits() + HEM_EPOCH_BITS
}

record! {
    /// An address, all but added up.
    struct Sum(_config) {
        low: LOW_BITS,
        /// To be added to `high`.
        carry: 1,
        high: 64 - LOW_BITS,
    }
}

record! {
    /// What a pipe has made of a lookup.
    struct Step(config) {
        context: config.hem_context_bits(),
        /// 1: context lookup. 0: miss.
        is_context: 1,
        /// The lookup ends: the address is the answer of a context lookup, or it has failed. Else the address is to be
        /// read.
        is_end: 1,
        has_failed: 1,
        /// Which failure it is: whether it belongs to the landing pipe, and the first and the second one in order.
        from_landing: 1,
        is_first_failure: 1,
        is_second_failure: 1,
        /// Number of the next read, or of the failure.
        level: 2,
        /// Pointers that this read and those after it return.
        distance: DISTANCE_BITS,
    }
}

record! {
    /// A lookup that has ended.
    struct Ended(config) {
        context: config.hem_context_bits(),
        is_context: 1,
        status: SHORT_STATUS_BITS,
        /// Number of the failure.
        hop: 2,
        address: 64,
    }
}

record! {
    /// End of a miss that has failed.
    struct MissEnd(config) {
        context: config.hem_context_bits(),
        status: SHORT_STATUS_BITS,
        hop: 2,
    }
}

record! {
    /// End of a context lookup.
    struct LookupEnd(config) {
        context: config.hem_context_bits(),
        status: SHORT_STATUS_BITS,
        hop: 2,
        address: 64,
    }
}

record! {
    /// Fields of a context lookup that the answer repeats.
    struct Asked(config) {
        tag: config.tag_bits,
        function: config.function_bits,
        index: INDEX_BITS,
        table: TABLE_BITS,
        admission: ADMISSION_BITS,
    }
}

/// What the checks of a pointer come to.
struct Verdict<'a> {
    is_zero: Signal<'a>,
    /// One flag or another is set where the pointer is misaligned.
    misalignments: [Signal<'a>; 3],
    /// The pointer is that of a whole 4 KiB page, or zero.
    is_whole_page: Signal<'a>,
}

impl<'a> Verdict<'a> {
    fn is_misaligned(&self) -> Signal<'a> {
        or_all(&self.misalignments)
    }
}

/// A step of a pipe, in the cycle in which it is taken or queued.
struct Stepped<'a> {
    valid: Signal<'a>,
    step: (Step<Signal<'a>>, Sum<Signal<'a>>),
}

/// A pointer that has been read, one cycle after its landing.
struct Learned<'a> {
    /// A read of that distance has returned it: 1 for the chunk pointer. Not set where it must not be cached.
    valid: [Signal<'a>; POINTER_LEVELS],
    keys: Keys<Signal<'a>>,
    pointer: Signal<'a>,
}

/// The block.
pub struct HemLookup;

impl HemLookup {
    /// Builds the module `hem_lookup` and those that it instantiates; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let divider = Modulo::build(design);
        let name = "hem_lookup";
        let b = design.module(name);
        let parts = Parts { design, config, b };
        let free = FreeList::new(design, b, "free_contexts", config.hem_context_bits());
        let caches_ready = b.forward("caches_ready", 1);
        let tables = parts.tables(free.ready & caches_ready.value);
        let contexts = 1 << config.hem_context_bits();
        let style = RamStyle::for_depth(contexts);
        let memories = Memories {
            plans: Ram::new(b, "plans", contexts, style, Plan::widths(config)),
            keys: Ram::new(b, "keys", contexts, style, Keys::widths(config)),
            undivided: Ram::new(b, "undivided", contexts, style, Undivided::widths(config)),
            misses: Ram::new(b, "misses", contexts, style, MissRequest::widths(config)),
            questions: Ram::new(b, "questions", contexts, style, Asked::widths(config)),
        };

        let landed = parts.land_line(&memories);
        let started = parts.start_lookup(&tables, &free, &divider, &memories, &landed.learned);
        caches_ready.drive(started.caches_ready);
        let ended = parts.step(&landed.stepped, &started.stepped);
        parts.finish(&free, &memories, &started, &landed.entry, ended);
        b.output("ready", tables.is_ready);
        name.into()
    }
}

/// Words by context.
struct Memories<'a> {
    plans: Ram<'a, Plan<u32>>,
    keys: Ram<'a, Keys<u32>>,
    undivided: Ram<'a, Undivided<u32>>,
    /// The request of a miss.
    misses: Ram<'a, MissRequest<u32>>,
    /// What a context lookup has asked.
    questions: Ram<'a, Asked<u32>>,
}

/// Geometry and BT0 memories.
struct Tables<'a> {
    shifts: Ram<'a, Shifts<u32>>,
    limits: Ram<'a, Limits<u32>>,
    bt0: Ram<'a, Bt0<u32>>,
    is_ready: Signal<'a>,
    /// Something was written.
    is_written: Signal<'a>,
}

/// What the rest needs of the new pipe.
struct Started<'a> {
    stepped: Stepped<'a>,
    /// A context lookup was accepted.
    accept: Signal<'a>,
    /// Contexts for context lookups.
    credit: Credit<'a>,
    /// A lookup waits for a cycle without a request.
    waits_for_gap: Signal<'a>,
    caches_ready: Signal<'a>,
}

/// What the rest needs of the landing pipe.
struct Landed<'a> {
    stepped: Stepped<'a>,
    /// An entry lands.
    entry: Landing<'a>,
    learned: Learned<'a>,
}

/// The line of an entry, in the cycle in which it comes.
struct Landing<'a> {
    valid: Signal<'a>,
    context: Signal<'a>,
    line: LineResponse<Signal<'a>>,
    /// Number of its read.
    hop: Signal<'a>,
    /// One cycle before a line of this block, and perhaps at other times.
    early_valid: Signal<'a>,
    /// The context of that line.
    early_context: Signal<'a>,
}

/// The module under construction, part by part.
struct Parts<'d, 'k, 'a> {
    design: &'d Design<'k>,
    config: &'d Config,
    b: &'a Builder<'a>,
}

/// `value` shifted right, its lowest `bits` bits. The largest steps come first, so that few bits are carried along.
fn shift_right<'a>(value: Signal<'a>, amount: Signal<'a>, bits: u32) -> Signal<'a> {
    let b = value.builder();
    let mut value = value;
    let mut undone = amount.width();
    while undone > 0 {
        let done = undone.min(2);
        undone -= done;
        let width = (bits + (1 << undone) - 1).min(value.width());
        let choices: Vec<_> = (0..1 << done)
            .map(|step: u32| {
                let low = step << undone;
                if low < value.width() {
                    value.bits((low + width).min(value.width()) - 1, low).resize(width)
                } else {
                    b.literal(0, width)
                }
            })
            .collect();
        value = select_tree(amount.bits(undone + done - 1, undone), &choices);
    }
    value.resize(bits)
}

/// Set number of a table's pointer: low bits of its number, and the table, in exclusive or.
fn set_of<'a>(number: Signal<'a>, table: Signal<'a>, bits: u32) -> Signal<'a> {
    let table = if bits > TABLE_BITS { table.concat(number.builder().literal(0, bits - TABLE_BITS)) } else { table };
    number.low_bits(bits) ^ table.low_bits(bits)
}

impl<'a> Parts<'_, '_, 'a> {
    fn status(&self, status: Status) -> Signal<'a> {
        self.b.literal(status.code().into(), SHORT_STATUS_BITS)
    }

    /// Address of a table's geometry.
    fn table_address(&self, table_set: Signal<'a>, table: Signal<'a>) -> Signal<'a> {
        if self.config.table_sets > 1 { table_set.concat(table) } else { table }
    }

    /// Address of a BT0 slot.
    fn slot_address(&self, table_set: Signal<'a>, table: Signal<'a>, slot: Signal<'a>) -> Signal<'a> {
        let table = self.table_address(table_set, table);
        if self.config.bt0_slots > 1 { table.concat(slot.low_bits(self.config.bt0_slot_bits())) } else { table }
    }

    /// The slot does not exist in this configuration.
    fn is_slot_missing(&self, slot: Signal<'a>) -> Signal<'a> {
        let existing_bits = self.config.bt0_slots.trailing_zeros();
        if slot.width() > existing_bits {
            slot.high_bits(slot.width() - existing_bits).any()
        } else {
            self.b.flag(false)
        }
    }

    /// `value` with the bits from `first` + `size` on cleared.
    fn mask_from(&self, value: Signal<'a>, first: u32, size: Signal<'a>) -> Signal<'a> {
        let kept: Vec<_> = (0..value.width())
            .rev()
            .map(|bit| {
                let value = value.bit(bit);
                if bit < first { value } else { value & self.b.literal((bit - first).into(), size.width()).lt(size) }
            })
            .collect();
        concat(&kept)
    }

    /// `value` with `size` low bits cleared.
    fn mask_below(&self, value: Signal<'a>, size: Signal<'a>) -> Signal<'a> {
        let largest = (1 << size.width()) - 1;
        let kept: Vec<_> = (0..value.width())
            .rev()
            .map(|bit| {
                let value = value.bit(bit);
                if bit < largest { value & size.lt(self.b.literal((bit + 1).into(), size.width())) } else { value }
            })
            .collect();
        concat(&kept)
    }

    /// Sum of a pointer and an addend in units of 8 bytes. The carry into the high part is added later.
    fn sum(&self, pointer: Signal<'a>, addend: Signal<'a>) -> Sum<Signal<'a>> {
        let addend = addend.concat(self.b.literal(0, BA_ENTRY_BYTES_LOG2)).resize(LOW_BITS);
        let low = pointer.low_bits(LOW_BITS).add_wide(addend);
        Sum { low: low.low_bits(LOW_BITS), carry: low.bit(LOW_BITS), high: pointer.high_bits(64 - LOW_BITS) }
    }

    /// The checks of a pointer. Alignment: 4 KiB while the check is on, else what keeps the next read inside
    /// a line.
    fn verdict(
        &self,
        pointer: Signal<'a>,
        alignment_check: Signal<'a>,
        is_chunk: Signal<'a>,
        is_context: Signal<'a>,
    ) -> Verdict<'a> {
        let below_word = pointer.low_bits(BA_ENTRY_BYTES_LOG2).any();
        let below_entry = pointer.bits(MPT_ENTRY_BYTES_LOG2 - 1, BA_ENTRY_BYTES_LOG2).any();
        let below_page = pointer.bits(PAGE_SHIFT_MIN - 1, MPT_ENTRY_BYTES_LOG2).any();
        Verdict {
            is_zero: pointer.none_wide(),
            misalignments: [
                below_word & (alignment_check | !(is_chunk & is_context)),
                below_entry & (alignment_check | (is_chunk & !is_context)),
                below_page & alignment_check,
            ],
            is_whole_page: !(below_word | below_entry | below_page),
        }
    }

    /// What is added to a pointer, by the distance of the read that it is for; in units of 8 bytes.
    fn addends(&self, offset: Signal<'a>, last: Signal<'a>, second_last: Signal<'a>) -> [Signal<'a>; 3] {
        let offset = offset.concat(self.b.literal(0, ENTRY_BYTES_LOG2_MIN - BA_ENTRY_BYTES_LOG2));
        [offset, last, second_last.resize(LEVEL_INDEX_BITS)]
    }

    /// Geometry and BT0 memories with their writers: the scrub, then the register block.
    fn tables(&self, others_are_ready: Signal<'a>) -> Tables<'a> {
        let (b, config) = (self.b, self.config);
        let table_bits = TABLE_BITS + config.table_sets.trailing_zeros();
        let slot_bits = table_bits + config.bt0_slots.trailing_zeros();
        let scrub = scrub(b, "scrub", slot_bits, b.flag(false));
        let ready = b.register_reset("is_ready", 1, 0);
        ready.next(ready.value | (!scrub.busy & others_are_ready));
        let is_ready = ready.value;

        // A geometry write: registers, then what follows from the sizes, then the memories. The registers have what the
        // scrub writes after reset.
        let write = input_channel(b, "geometry_write", GeometryWrite::widths(config));
        let is_legal = write.table.ne(b.literal(TABLE_CODE_MTR.into(), TABLE_BITS));
        let geometry_valid = b.input("geometry_write_valid", 1) & is_legal & is_ready;
        let register = |name: &str, value: Signal<'a>, reset: u32| {
            let register = b.register_reset(&format!("geometry_write_q_{name}"), value.width(), reset.into());
            register.next_if(geometry_valid, value);
            register.value
        };
        let word = self.table_address(write.table_set, write.table).delay("geometry_write_q_word");
        let hop_num = register("hop_num", write.hop_num, 0);
        let ba_pg_sz = register("ba_pg_sz", write.ba_pg_sz, 0);
        let chunk_bytes_log2 = write.buf_pg_sz.resize(5) + u128::from(PAGE_SHIFT_MIN);
        let chunk_shift = chunk_bytes_log2 - write.entry_bytes_log2.resize(5);
        let chunk_shift = register("chunk_shift", chunk_shift, PAGE_SHIFT_MIN - MPT_ENTRY_BYTES_LOG2);
        let entry_shift = (write.entry_bytes_log2 - u128::from(ENTRY_BYTES_LOG2_MIN)).low_bits(3);
        let limits = Limits {
            buf_pg_sz: register("buf_pg_sz", write.buf_pg_sz, 0),
            entry_shift: register("entry_shift", entry_shift, MPT_ENTRY_BYTES_LOG2 - ENTRY_BYTES_LOG2_MIN),
            bt_num: register("bt_num", write.bt_num, 1),
            last_object: register("last_object", write.object_count - 1, u32::MAX),
        };
        let page_entries_log2 = ba_pg_sz.resize(7) + u128::from(PAGE_ENTRIES_LOG2_MIN);
        let twice = page_entries_log2.low_bits(6).concat(b.flag(false));
        let levels_log2 = (page_entries_log2 & hop_num.bit(0).repeat(7)) + (twice & hop_num.bit(1).repeat(7));
        let slot_shift = (levels_log2 + chunk_shift.resize(7)).named("geometry_write_slot_shift");
        let shifts = Shifts {
            hop_num,
            ba_pg_sz,
            chunk_shift,
            slot_shift: slot_shift.low_bits(5),
            is_slot_zero: slot_shift.high_bits(2).any(),
            upper_shift: page_entries_log2.low_bits(6) + chunk_shift.resize(6),
        };
        let shifts = delay_record(shifts, "geometry_write_q2");
        let limits = delay_record(limits, "geometry_write_q2");
        let word = scrub.busy.mux(scrub.address.low_bits(table_bits), word.delay("geometry_write_q2_word"));
        let is_written = geometry_valid.delay_reset("geometry_write_q_valid").delay_reset("geometry_write_q2_valid");
        let shifts_memory = Ram::new(b, "shifts", 1 << table_bits, RamStyle::Distributed, Shifts::widths(config));
        shifts_memory.write(word, shifts, scrub.busy | is_written);
        let limits_memory = Ram::new(b, "limits", 1 << table_bits, RamStyle::Block, Limits::widths(config));
        limits_memory.write(word, limits, scrub.busy | is_written);

        let write = input_channel(b, "bt0_write", Bt0Write::widths(config));
        let is_legal = write.table.ne(b.literal(TABLE_CODE_MTR.into(), TABLE_BITS)) & !self.is_slot_missing(write.slot);
        let bt0_valid = b.input("bt0_write_valid", 1) & is_legal & is_ready;
        let address = self.slot_address(write.table_set, write.table, write.slot).delay("bt0_write_q_word");
        // Two stages of registers, so that zero for "unset" is a reset of the second. They have what the scrub writes.
        let is_set = b.register_reset("bt0_write_q_is_set", 1, 0);
        is_set.next_if(bt0_valid, write.is_set);
        let written = write.address.hold("bt0_write_q_address", bt0_valid);
        let written = Bt0 { address: is_set.value.mux(written, b.literal(0, 64)).delay("bt0_write_q2_address") };
        let address = address.delay("bt0_write_q2_word");
        let bt0 = Ram::new(b, "bt0", 1 << slot_bits, RamStyle::for_depth(1 << slot_bits), Bt0::widths(config));
        let bt0_is_written = bt0_valid.delay_reset("bt0_write_q_valid").delay_reset("bt0_write_q2_valid");
        bt0.write(scrub.busy.mux(scrub.address, address), written, scrub.busy | bt0_is_written);
        Tables { shifts: shifts_memory, limits: limits_memory, bt0, is_ready, is_written: is_written | bt0_is_written }
    }

    /// The new pipe.
    fn start_lookup(
        &self,
        tables: &Tables<'a>,
        free: &FreeList<'a>,
        divider: &str,
        memories: &Memories<'a>,
        learned: &Learned<'a>,
    ) -> Started<'a> {
        let (b, config) = (self.b, self.config);
        let always = b.flag(true);
        let divider = b.instance("divider", divider);
        let (queue, queued) =
            Fifo::new(self.design, b, "waiting", 1 << config.hem_context_bits(), Waiting::widths(config));
        let undivided = memories.undivided.read(queued.out.context, always);
        let is_request = b.input("request_valid", 1);
        let remainder = divider.output("out_remainder", modulo::REMAINDER_BITS);
        let divided = divider.output("out_valid", 1);
        let has_remainder = b.register_reset("has_remainder", 1, 0);
        // Whether a lookup rejoins shows late: the queue is told a cycle later.
        let rejoins = (has_remainder.value & !is_request).named("rejoins");
        let rejoined = rejoins.delay_reset("rejoined");
        queue.pop(rejoined);
        let divides = queued.out_valid & !divided & !has_remainder.value & !rejoined;
        divider.drive("in_valid", divides.delay_reset("divides"));
        divider.drive("in_value", undivided.index);
        divider.drive("in_shift", undivided.slot_shift);
        divider.drive("in_divisor", undivided.bt_num);

        // Stage 0: a request, which has the right of way, a divided lookup, or a context lookup.
        let alignment_check = b.input("alignment_check", 1).delay("alignment_check_q");
        let request = input_channel(b, "request", HemRequest::widths(config));
        let lookup_valid = b.input("lookup_valid", 1);
        let lookup = input_channel(b, "lookup", ContextLookup::widths(config));
        let credit = Credit::told_late(b, "lookup_contexts", config.hem_lookups(), 1);
        has_remainder.next(divided | (has_remainder.value & is_request));
        let can_accept = (tables.is_ready & credit.available & !has_remainder.value).named("can_accept");
        let lookup_ready = can_accept & !is_request;
        b.output("lookup_ready", lookup_ready);
        let accept = (lookup_valid & lookup_ready).named("accept");
        let waits_for_gap = (has_remainder.value | (lookup_valid & can_accept)) & is_request;
        // Whether there is a request shows late, so that it chooses last.
        let context = queued.out.context;
        let of_request = New {
            context,
            is_context: b.flag(false),
            table: b.literal(Table::Mpt.code().into(), TABLE_BITS),
            table_set: request.table_set,
            alignment_check,
            epoch: request.epoch,
        };
        let of_lookup = New {
            context,
            is_context: b.flag(true),
            table: lookup.table,
            table_set: lookup.table_set,
            alignment_check,
            epoch: lookup.epoch.high_bits(HEM_EPOCH_BITS),
        };
        let other = mux_record(has_remainder.value, undivided.lookup(context), of_lookup);
        let new = mux_record(is_request, of_request, other);
        let other_index = has_remainder.value.mux(undivided.index, lookup.index);
        let index = is_request.mux(request.index.resize(INDEX_BITS), other_index);
        let word = self.table_address(new.table_set, new.table);
        let shifts = tables.shifts.read(word, always);
        let limits = tables.limits.read(word, always);

        // Stage 1: slot, chunk number, keys. The slot is needed at once, the rest of level 0 only to see whether it must
        // be divided.
        let s1_valid = (is_request | accept | rejoins).delay_reset("s1_valid");
        let is_lookup = accept.delay_reset("s1_is_lookup");
        let is_divided = rejoins.delay_reset("s1_is_divided");
        let asked = Asked {
            tag: lookup.tag.delay("s1_tag"),
            function: lookup.function.delay("s1_function"),
            index: lookup.index,
            table: lookup.table,
            admission: lookup.admission.delay("s1_admission"),
        };
        let remainder = remainder.delay("s1_remainder");
        let index = index.delay("s1_index");
        let new = delay_record(new, "s1");
        let in_range = (!shifts.is_slot_zero).repeat(modulo::REMAINDER_BITS);
        let slot = shift_right(index, shifts.slot_shift, modulo::REMAINDER_BITS) & in_range;
        let slot = is_divided.mux(remainder, slot);
        let bt0 = tables.bt0.read(self.slot_address(new.table_set, new.table, slot), always);
        let above_slot: Vec<_> = (modulo::REMAINDER_BITS..INDEX_BITS)
            .map(|bit| {
                let first = b.literal((bit - modulo::REMAINDER_BITS + 1).into(), 5);
                index.bit(bit) & shifts.slot_shift.lt(first)
            })
            .collect();
        let above_slot: Vec<_> = above_slot.chunks(4).map(or_all).collect();
        let above_slot = concat(&above_slot).delay("s2_above_slot");
        let is_undivided = (!shifts.is_slot_zero & !is_divided).delay("s2_is_undivided");
        let is_out_of_range = limits.last_object.lt(index);
        let chunk = shift_right(index, shifts.chunk_shift, INDEX_BITS).named("s1_chunk");
        let upper_number = shift_right(index, shifts.upper_shift, upper_sets(config).trailing_zeros());
        let keys = Keys {
            space: concat(&[new.epoch, new.table_set, new.table, new.alignment_check]),
            chunk,
            upper: self.mask_below(chunk.high_bits(UPPER_BITS), shifts.ba_pg_sz),
            chunk_set: set_of(chunk, new.table, config.hem_cache_sets.trailing_zeros()),
            upper_set: set_of(upper_number, new.table, upper_sets(config).trailing_zeros()),
        };
        let caches = self.caches(s1_valid, shifts.hop_num, keys, learned, tables.is_written);

        // Stage 2: level indices and offset. The caches and the BT0 memory answer.
        let new = delay_record(new, "s2");
        let index = index.delay("s2_index");
        let is_other = (is_lookup | is_divided).delay_reset("s2_is_other");
        // Held rather than delayed, so that no shift registers of LUTs are made of what only goes along.
        let asked = Asked {
            tag: asked.tag.hold("s2_tag", is_lookup),
            function: asked.function.hold("s2_function", is_lookup),
            index,
            table: new.table,
            admission: asked.admission.hold("s2_admission", is_lookup),
        };
        let is_lookup = is_lookup.delay_reset("s2_is_lookup");
        let keys = delay_record(keys, "s2_keys");
        let slot_shift = shifts.slot_shift.delay("s2_slot_shift");
        let limits = delay_record(limits, "s2");
        let hop_num = shifts.hop_num.delay("s2_hop_num");
        let ba_pg_sz = shifts.ba_pg_sz.delay("s2_ba_pg_sz");
        let is_out_of_range = is_out_of_range.delay("s2_is_out_of_range");
        let slot = slot.delay("s2_slot");
        let chunk = chunk.delay("s2_chunk");
        let offset = index.low_bits(OFFSET_BITS).shift_left(limits.entry_shift);
        let offset = self.mask_from(offset, PAGE_SHIFT_MIN - ENTRY_BYTES_LOG2_MIN, limits.buf_pg_sz);
        let last = self.mask_from(chunk.low_bits(LEVEL_INDEX_BITS), PAGE_ENTRIES_LOG2_MIN, ba_pg_sz);
        let by_one = shift_right(chunk.high_bits(UPPER_BITS), ba_pg_sz, SECOND_LAST_BITS);
        let second_last = self.mask_from(by_one, PAGE_ENTRIES_LOG2_MIN, ba_pg_sz);
        let by_two = shift_right(chunk.high_bits(TOP_BITS), ba_pg_sz.concat(b.flag(false)), THIRD_LAST_BITS);
        let third_last = self.mask_from(by_two, PAGE_ENTRIES_LOG2_MIN, ba_pg_sz);
        let is_above = is_undivided & (above_slot.any() | slot.resize(modulo::DIVISOR_BITS).ge(limits.bt_num));

        // Stage 3: it shows whether a request has missed, and the lookup is given its context; where to start, and the sum;
        // the plan for what follows.
        let miss_valid = b.input("miss_valid", 1);
        let miss = input_channel(b, "miss", MissRequest::widths(config));
        let s3_valid = (miss_valid | is_other.delay_reset("s3_is_other")).named("s3_valid");
        let is_lookup = is_lookup.delay_reset("s3_is_lookup");
        let takes_context = (miss_valid | is_lookup).named("takes_context");
        free.take(takes_context);
        let (s2_new, s2_hop_num) = (new, hop_num);
        let mut new = delay_record(new, "s3");
        new.context = takes_context.mux(free.number, new.context).named("s3_number");
        let index = index.delay("s3_index");
        memories.misses.write(free.number, miss, miss_valid);
        let asked = Asked {
            tag: asked.tag.delay("s3_tag"),
            function: asked.function.delay("s3_function"),
            index,
            table: new.table,
            admission: asked.admission.delay("s3_admission"),
        };
        memories.questions.write(free.number, asked, is_lookup);
        memories.keys.write(new.context, delay_record(keys, "s3_keys"), s3_valid);
        let undivided = Undivided {
            is_context: new.is_context,
            table: new.table,
            table_set: new.table_set,
            alignment_check: new.alignment_check,
            epoch: new.epoch,
            index,
            slot_shift: slot_shift.delay("s3_slot_shift"),
            bt_num: limits.bt_num.delay("s3_bt_num"),
        };
        memories.undivided.write(new.context, undivided, s3_valid);
        let verdict = self.verdict(bt0.address, s2_new.alignment_check, s2_hop_num.none(), s2_new.is_context);
        let verdict = Verdict {
            is_zero: verdict.is_zero.delay("s3_bt0_is_zero"),
            misalignments: [0, 1, 2]
                .map(|which: usize| verdict.misalignments[which].delay(&format!("s3_bt0_misalignment_{which}"))),
            ..verdict
        };
        let bt0 = delay_record(bt0, "s3_bt0");
        let is_slot_missing = self.is_slot_missing(slot).delay("s3_is_slot_missing");
        let hop_num = hop_num.delay("s3_hop_num");
        let is_out_of_range = is_out_of_range.delay("s3_is_out_of_range");
        let is_above = is_above.delay("s3_is_above");
        let offset = offset.delay("s3_offset");
        let last = last.delay("s3_last");
        let second_last = second_last.delay("s3_second_last");
        let third_last = third_last.delay("s3_third_last");
        let [chunk_found, upper_found] = caches.hits;
        let is_found = (chunk_found | upper_found).named("s3_is_found");
        let distance =
            concat(&[!is_found & hop_num.bit(1), !chunk_found & (upper_found | hop_num.bit(0))]).named("s3_distance");
        let [offset_addend, last_addend, second_addend] = self.addends(offset, last, second_last);
        // By the hops first, because what is found shows late.
        let addends = [offset_addend, last_addend, second_addend, third_last.resize(LEVEL_INDEX_BITS)];
        let of_hops = select_tree(hop_num, &addends);
        let addend = chunk_found.mux(offset_addend, upper_found.mux(last_addend, of_hops));
        // The caches give zero where they have not found anything.
        let [chunk_pointer, upper_pointer] = caches.pointers;
        let found_page = chunk_pointer | (upper_pointer & (!chunk_found).repeat(POINTER_BITS));
        let found_page = found_page.concat(b.literal(0, PAGE_SHIFT_MIN));
        let base = found_page | upper_found.mux(b.literal(0, 64), bt0.address & (!chunk_found).repeat(64));
        let sum = self.sum(base, addend);
        let is_unset = is_slot_missing | verdict.is_zero;
        let has_bad_base = !is_found & (is_unset | verdict.is_misaligned());
        let needs_division = (s3_valid & !is_found & is_above & !is_out_of_range).named("s3_needs_division");
        let has_answer = new.is_context & distance.none();
        let plan = Plan {
            is_context: new.is_context,
            alignment_check: new.alignment_check,
            hop_num,
            last_index: last,
            second_last_index: second_last,
            offset,
        };
        memories.plans.write(new.context, plan, s3_valid);
        queue.push(needs_division, Waiting { context: new.context });

        // Stage 4: the step. All failures up to here are those of read 0.
        let goes_on = s3_valid & !needs_division;
        let s4_valid = goes_on.delay_reset("s4_valid");
        let counts = goes_on & !is_out_of_range & hop_num.any();
        let fails = is_out_of_range | has_bad_base;
        let is_out_of_range = is_out_of_range.delay("s4_is_out_of_range");
        let is_unset = is_unset.delay("s4_is_unset");
        let is_end = (fails | has_answer).delay("s4_is_end");
        let has_failed = fails.delay("s4_has_failed");
        let level = (hop_num - distance).delay("s4_level") & (!has_failed).repeat(2);
        let step = Step {
            context: new.context.delay("s4_context"),
            is_context: new.is_context.delay("s4_is_context"),
            is_end,
            has_failed,
            from_landing: b.flag(false),
            is_first_failure: is_out_of_range,
            is_second_failure: is_unset,
            level,
            distance: distance.delay("s4_distance"),
        };
        let step = (step, delay_record(sum, "s4"));
        b.output("pointer_hit", (counts & is_found).delay_reset("pointer_hit_q"));
        b.output("pointer_miss", (counts & !is_found).delay_reset("pointer_miss_q"));
        let stepped = Stepped { valid: s4_valid, step };
        Started { stepped, accept, credit, waits_for_gap, caches_ready: caches.ready }
    }

    /// The pointer caches, looked up in stage 1; they answer in stage 3.
    fn caches(
        &self,
        s1_valid: Signal<'a>,
        hop_num: Signal<'a>,
        keys: Keys<Signal<'a>>,
        learned: &Learned<'a>,
        is_written: Signal<'a>,
    ) -> Caches<'a> {
        let (b, config) = (self.b, self.config);
        let flush = (b.input("pointer_flush", 1) | is_written).delay_reset("flush");
        let has_level = [hop_num.any(), hop_num.bit(1)];
        let caches = std::array::from_fn::<_, POINTER_LEVELS, _>(|level| {
            let (sets, ways) = [(config.hem_cache_sets, config.hem_cache_ways), (upper_sets(config), 1)][level];
            // The set number comes from outside of the key; below the key there are zeros instead.
            let key = |valid, keys: Keys<Signal<'a>>| {
                let (number, set) = [(keys.chunk, keys.chunk_set), (keys.upper, keys.upper_set)][level];
                let key = concat(&[keys.space, number, b.literal(0, set.width())]);
                CacheKey { valid, key, mix: set }
            };
            let lookup = key(s1_valid & has_level[level], keys);
            let fill = key(learned.valid[level], learned.keys);
            let shape = CacheShape { sets, ways, key_bits: lookup.key.width(), value_bits: POINTER_BITS };
            Cache::new(b, CACHE_NAMES[level], shape, flush, lookup, fill, learned.pointer)
        });
        b.output("pointer_evicted", or_all(&caches.each_ref().map(|cache| cache.evicted)));
        Caches {
            hits: caches.each_ref().map(|cache| cache.hit),
            pointers: caches.each_ref().map(|cache| cache.value),
            ready: caches.iter().map(|cache| cache.ready).fold(b.flag(true), |all, ready| all & ready),
        }
    }

    /// The landing pipe.
    fn land_line(&self, memories: &Memories<'a>) -> Landed<'a> {
        let (b, config) = (self.b, self.config);
        let always = b.flag(true);

        // One cycle before the line: its context, so that the plan is there in time.
        let early_valid = b.input("early_valid", 1);
        let early_context = b.input("early_context", line_context_bits(config)).low_bits(config.hem_context_bits());
        let plan = memories.plans.read(early_context, always);

        // Stage 0: the sum, straight off the memories. An entry is replayed in the same cycle.
        let line_valid = b.input("line_valid", 1);
        let line = input_channel(b, "line", LineResponse::widths(config));
        let context = line.context.low_bits(config.hem_context_bits());
        let keys = memories.keys.read(context, always);
        let [offset, last, second_last] = self.addends(plan.offset, plan.last_index, plan.second_last_index);
        // Of an entry read nothing is added.
        let addend = select_tree(line.level, &[offset, offset, last, second_last]);
        let sum = self.sum(line.value, addend);

        // Stage 1: the checks. A failed read has its own number, a useless pointer the number of the read that it was for.
        let is_entry_line = line.level.none();
        let is_entry = (line_valid & is_entry_line).named("is_entry");
        let entry = Landing { valid: is_entry, context, line, hop: plan.hop_num, early_valid, early_context };
        let is_step = (line_valid & !is_entry_line).delay_reset("l1_is_step");
        let has_answer = (line.level.is(1) & plan.is_context).delay("l1_has_answer");
        let context = context.delay("l1_context");
        let distance = line.level.delay("l1_distance");
        let pointer = line.value.delay("l1_pointer");
        let pointer_error = line.value_error.delay("l1_pointer_error");
        let plan = delay_record(plan, "l1");
        let verdict = self.verdict(pointer, plan.alignment_check, distance.is(1), plan.is_context);
        let has_failed = pointer_error | verdict.is_zero | verdict.is_misaligned();
        let level = plan.hop_num - distance;
        let step = Step {
            context,
            is_context: plan.is_context,
            is_end: has_failed | has_answer,
            has_failed,
            from_landing: b.flag(true),
            is_first_failure: pointer_error,
            is_second_failure: verdict.is_zero,
            level: pointer_error.mux(level, level + 1),
            distance: distance - 1,
        };
        // Stage 2: the step, of which all is known, and what may be cached.
        let step = (delay_record(step, "l2"), delay_record(delay_record(sum, "l1"), "l2"));
        let stepped = Stepped { valid: is_step.delay_reset("l2_is_step"), step };
        let is_learned = is_step & !pointer_error & verdict.is_whole_page & !verdict.is_zero;
        let valid = std::array::from_fn(|level| {
            let is_of_level = distance.is(level as u128 + 1);
            (is_learned & is_of_level).delay_reset(&format!("l2_is_for_{}", CACHE_NAMES[level]))
        });
        let learned = Learned {
            valid,
            keys: delay_record(keys, "l2_keys"),
            pointer: pointer.high_bits(POINTER_BITS).delay("l2_pointer"),
        };
        Landed { stepped, entry, learned }
    }

    /// The steps of both pipes: line requests, and ends one cycle later.
    fn step(&self, landed: &Stepped<'a>, started: &Stepped<'a>) -> (Signal<'a>, Ended<Signal<'a>>) {
        let (b, config) = (self.b, self.config);
        let steps = Merge::new(
            self.design,
            b,
            "steps",
            1 << config.hem_context_bits(),
            (Step::widths(config), Sum::widths(config)),
            (landed.valid, landed.step),
            (started.valid, started.step),
            b.flag(false),
        );
        let (step, sum) = steps.out;
        // An end takes its turn like a read, so that there is one queue for both.
        let ready = b.input("line_request_ready", 1);
        steps.take(ready);
        b.output("line_request_valid", steps.valid);
        b.output("line_request_cancel", step.is_end);
        let request = LineRequest {
            context: step.context.resize(line_context_bits(config)),
            level: step.distance,
            word: sum.low.bits(5, 3),
            low: sum.low.high_bits(LINE_LOW_BITS),
            carry: sum.carry,
            high: sum.high,
        };
        output_channel(b, "line_request", request);
        // What becomes of a step is sorted out a cycle later.
        let is_taken = (steps.valid & ready).delay_reset("is_taken");
        let (step, sum) = (delay_record(step, "taken"), delay_record(sum, "taken"));
        let is_issued = is_taken & !step.is_end;
        let ended = is_taken & step.is_end;
        for number in 0..=HOP_MAX {
            b.output(&format!("read_issued_{number}"), is_issued & step.level.is(number.into()));
        }
        let choose = |landing, new| step.from_landing.mux(self.status(landing), self.status(new));
        let status = step
            .is_second_failure
            .mux(choose(Status::HemPointerZero, Status::Bt0Unset), self.status(Status::HemMisaligned));
        let status = step.is_first_failure.mux(choose(Status::HemBusError, Status::IndexOutOfRange), status);
        let end = Ended {
            context: step.context,
            is_context: step.is_context,
            status: status & step.has_failed.repeat(SHORT_STATUS_BITS),
            hop: step.level & step.has_failed.repeat(2),
            address: (sum.high + sum.carry.resize(64 - LOW_BITS)).concat(sum.low),
        };
        (ended, end)
    }

    /// Replays and answers, and the contexts that they free.
    fn finish(
        &self,
        free: &FreeList<'a>,
        memories: &Memories<'a>,
        started: &Started<'a>,
        entry: &Landing<'a>,
        (ended, end): (Signal<'a>, Ended<Signal<'a>>),
    ) {
        let (b, config) = (self.b, self.config);
        let (depth, design) = (1 << config.hem_context_bits(), self.design);
        let (failures, failure) = Fifo::new(design, b, "failures", depth, MissEnd::widths(config));
        failures.push(ended & !end.is_context, MissEnd { context: end.context, status: end.status, hop: end.hop });
        let (answers, answer) = Fifo::new(design, b, "answers", depth, LookupEnd::widths(config));
        let lookup_end = LookupEnd { context: end.context, status: end.status, hop: end.hop, address: end.address };
        answers.push(ended & end.is_context, lookup_end);

        // One lookup ends per cycle, which gives its context back: one whose entry lands, which cannot wait and is known
        // a cycle ahead, else a failure, else an answer.
        let is_open = !entry.early_valid;
        let answer_ready = b.input("answer_ready", 1);
        let answer_valid = b.register_reset("answer_q_valid", 1, 0);
        let answer_is_free = (!answer_valid.value | answer_ready).named("answer_is_free");
        failures.pop(is_open);
        let fetch_failure = (is_open & failure.out_valid).named("fetch_failure");
        let take_answer = is_open & !failure.out_valid & answer_is_free;
        answers.pop(take_answer);
        let fetch_answer = (take_answer & answer.out_valid).named("fetch_answer");
        answer_valid.next(fetch_answer | !answer_is_free);
        let has_failed = fetch_failure.delay_reset("has_failed");
        let is_answered = fetch_answer.delay_reset("is_answered");
        let other_context = failure.out_valid.mux(failure.out.context, answer.out.context).delay("other_context");
        let given = (entry.valid | has_failed | is_answered).delay_reset("given");
        free.give(given, entry.valid.mux(entry.context, other_context).delay("given_context"));
        // Told late, because whether there is a request shows late.
        let accepted = started.accept.delay_reset("accepted");
        started.credit.update(accepted, is_answered, b.flag(false));
        b.output("idle", started.credit.full & !accepted & !answer_valid.value);

        // Whoever waits for too long is given a gap between the requests, which lines follow in time.
        let waits_for_end = (failure.out_valid | (answer.out_valid & answer_is_free)) & entry.early_valid;
        // A cycle later, because whether there is a request shows late.
        let waits = (started.waits_for_gap | waits_for_end).delay_reset("waits");
        let waited = b.register_reset("waited_cycles", WAIT_BITS, 0);
        let is_long = waited.value.all_set();
        waited.next((waited.value + (!is_long).resize(WAIT_BITS)) & waits.repeat(WAIT_BITS));
        b.output("gap_wanted", is_long);

        let context = entry.early_valid.mux(entry.early_context, failure.out.context);
        let request = memories.misses.read(context, b.flag(true));
        let line = entry.line;
        let own_status = self.status(Status::HemBusError) & line.error.repeat(SHORT_STATUS_BITS);
        let status = has_failed.mux(failure.out.status.delay("failure_status"), own_status);
        let replay = Replay {
            tag: request.tag,
            function: request.function,
            table_set: request.table_set,
            operation: request.operation,
            key: request.key,
            pd: request.pd,
            qpn: request.qpn,
            va: request.va,
            length: request.length,
            index: request.index,
            is_rebased: request.is_rebased,
            is_parent: request.is_parent,
            is_beyond: request.is_beyond,
            region_va: request.region_va,
            status: status.resize(status::STATUS_BITS),
            hop: has_failed.mux(failure.out.hop.delay("failure_hop"), entry.hop & line.error.repeat(2)),
            entry_0: line.data_0,
            entry_1: line.data_1,
            entry_2: line.data_2,
            entry_3: line.data_3,
            order: request.order,
            admission: request.admission,
            epoch: request.epoch,
        };
        b.output("replay_valid", entry.valid | has_failed);
        output_channel(b, "replay", replay);

        let asked = memories.questions.read(answer.out.context, fetch_answer);
        let has_failed = answer.out.status.any();
        let address = has_failed.mux(b.literal(0, 64), answer.out.address);
        let answer = ContextAnswer {
            tag: asked.tag,
            function: asked.function,
            status: answer.out.status.hold("answer_q_status", fetch_answer).resize(status::STATUS_BITS),
            table: asked.table & has_failed.hold("answer_q_has_failed", fetch_answer).repeat(TABLE_BITS),
            hop: answer.out.hop.hold("answer_q_hop", fetch_answer),
            address: address.hold("answer_q_address", fetch_answer),
            index: asked.index,
            admission: asked.admission,
        };
        b.output("answer_valid", answer_valid.value);
        output_channel(b, "answer", answer);
    }
}

/// The pointer caches.
struct Caches<'a> {
    hits: [Signal<'a>; POINTER_LEVELS],
    pointers: [Signal<'a>; POINTER_LEVELS],
    ready: Signal<'a>,
}

impl<'a> Undivided<Signal<'a>> {
    fn lookup(&self, context: Signal<'a>) -> New<Signal<'a>> {
        New {
            context,
            is_context: self.is_context,
            table: self.table,
            table_set: self.table_set,
            alignment_check: self.alignment_check,
            epoch: self.epoch,
        }
    }
}
