//! Walks the HEM: from an object number to its MPT entry, or to the address of its context entry.
//!
//! **Purpose.** Finds object `index` of a context table through 0 to 3 hops (contract section 3). A miss of the MPT cache
//! comes in on `miss` and goes out on `replay` with the entry; a context lookup comes in on `lookup` and goes out on
//! `answer` with an address. Each lookup in flight is a context: a number, and words in memories; there is no state
//! machine per lookup.
//!
//! Two pipes share the work. The *new* pipe takes a lookup in, turns the object number into level indices, reads the BT0
//! slot, and leaves a plan of the remaining levels in memory. The *landing* pipe takes the lines that arrive, picks the
//! pointer out, checks it, and adds what the plan says. Either pipe ends in a line request, a replay or an answer; each
//! of the three is a [`Merge`] of both pipes, the landing pipe first.
//!
//! **Handshake.** Channels `miss`, `lookup` in and `replay`, `answer`, `line_request` out are ready/valid. The ready
//! outputs depend on registers only: one of the two inputs has the turn, and the turn passes to the other one where that
//! one waits. `line_valid` has no ready: a line is taken in every cycle. A context number on the table port is below
//! `hem_contexts`. `geometry_write_valid` and `bt0_write_valid` carry one write per cycle and are ignored before `ready`.
//!
//! **Latency and throughput.** From acceptance to `line_request_valid` 7 cycles, from `line_valid` to the next
//! `line_request_valid`, to `replay_valid` or to `answer_valid` 3 cycles, if nothing else is in the way. One lookup and
//! one line per cycle. A level-0 index at or above `bt_num` costs about 20 cycles more, to that lookup only; such
//! lookups pass the divider one after another.
//!
//! **Timing.** The divisions by powers of two have stages of their own; the address adders (64 bits) share a stage with
//! the selection of what is added only.
//!
//! **Reset and flush.** Reset forgets all lookups. After it every BT0 slot is set to "unset" and every geometry to its
//! reset value; `ready` rises when that is done. Lines asked for before a reset must not arrive after it.
//!
//! **Hazards.** A lookup sees a geometry or BT0 write if it is accepted two cycles or more after it. A lookup in flight
//! while its table's geometry or slot is written uses the old or the new value. Context numbers are given back
//! when the last word of the context has been read, so that they can be reused at once.
//!
//! **Limits.** `hem_contexts` lookups in flight; every queue holds one record per context and cannot overflow. The legal
//! ranges of a geometry (contract) are not checked here. Of table code 7 no write is accepted, so that it reads as a table
//! without BT0 slots.

use crate::modulo::{self, Modulo};
use crate::prim::{
    Builder, Credit, Design, Fifo, FreeList, Merge, Ram, RamStyle, Record, Signal, concat, delay_record, hold_record,
    input_channel, mux_record, output_channel, scrub,
};
use crate::record;
use crate::records::{
    ADMISSION_BITS, Bt0Write, ContextAnswer, ContextLookup, GeometryWrite, LineRequest, LineResponse, MissRequest,
    Replay, line_context_bits,
};
use keywalk_contract::hem::{BA_ENTRY_BYTES_LOG2, ENTRY_BYTES_LOG2, PAGE_SHIFT_MIN, TABLE_BITS, TABLE_CODE_MTR};
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
/// log2 of the smallest entry's bytes.
const ENTRY_BYTES_LOG2_MIN: u32 = *ENTRY_BYTES_LOG2.start();
/// Bits of an entry's offset in the largest chunk, in units of the smallest entry.
const OFFSET_BITS: u32 = PAGE_SHIFT_MIN + 15 - ENTRY_BYTES_LOG2_MIN;
/// log2 of an MPT entry's bytes.
const MPT_ENTRY_BYTES_LOG2: u32 = mpt_entry::ENTRY_BYTES.ilog2();
/// Bits of a status inside the block.
const SHORT_STATUS_BITS: u32 = 4;
const _: () = assert!((Status::HemBusError as u32) < 1 << SHORT_STATUS_BITS, "the statuses in use fit");

record! {
    /// Geometry of a context table as the new pipe uses it.
    struct Geometry(_config) {
        hop_num: 2,
        ba_pg_sz: 4,
        buf_pg_sz: 4,
        /// log2 of the objects per chunk.
        chunk_shift: 5,
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
        /// The slot holds a base that is not zero.
        is_set: 1,
        address: 64,
    }
}

record! {
    /// Who a lookup is.
    struct Identity(config) {
        context: config.hem_context_bits(),
        /// 1: context lookup. 0: miss.
        is_context: 1,
        table: TABLE_BITS,
    }
}

record! {
    /// What the landing pipe selects by. Kept apart from [`Plan`], in LUT RAM, because selections come first in a stage
    /// and block RAM is slow.
    struct Course(_config) {
        is_context: 1,
        hop_num: 2,
    }
}

record! {
    /// What the landing pipe selects from.
    struct Plan(_config) {
        table: TABLE_BITS,
        /// Level index of the last pointer read.
        last_index: LEVEL_INDEX_BITS,
        /// Level index of the pointer read before it.
        second_last_index: SECOND_LAST_BITS,
        /// Of the entry in its chunk, in units of the smallest entry.
        offset: OFFSET_BITS,
    }
}

/// The remaining way of every lookup, by context: written by the new pipe, read by the landing pipe.
struct Plans<'a> {
    courses: Ram<'a, Course<u32>>,
    plans: Ram<'a, Plan<u32>>,
}

record! {
    /// A lookup that goes for its BT0 slot.
    struct Rooted(config) {
        context: config.hem_context_bits(),
        is_context: 1,
        table: TABLE_BITS,
        table_set: config.table_set_bits(),
        /// The slot holds the chunk: there are no hops.
        is_chunk: 1,
        /// Added to the base, in units of 8 bytes.
        addend: LEVEL_INDEX_BITS,
    }
}

record! {
    /// A lookup whose level-0 index is to be divided.
    struct Undivided(config) {
        context: config.hem_context_bits(),
        is_context: 1,
        table: TABLE_BITS,
        table_set: config.table_set_bits(),
        is_chunk: 1,
        addend: LEVEL_INDEX_BITS,
        level_0: INDEX_BITS,
        bt_num: modulo::DIVISOR_BITS,
    }
}

record! {
    /// [`LineRequest`] with the block's own context number.
    struct Read(config) {
        context: config.hem_context_bits(),
        level: 2,
        word: 3,
        line: 58,
    }
}

record! {
    /// End of a miss.
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
        /// The status is a failure, so that there is no address.
        has_failed: 1,
        table: TABLE_BITS,
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
        admission: ADMISSION_BITS,
    }
}

record! {
    /// A line as it is kept.
    struct Entry(_config) {
        entry_0: 128,
        entry_1: 128,
        entry_2: 128,
        entry_3: 128,
    }
}

/// What a pipe has found out about a lookup in its last stage.
struct Verdict<'a> {
    valid: Signal<'a>,
    identity: Identity<Signal<'a>>,
    has_failed: Signal<'a>,
    /// Short status.
    status: Signal<'a>,
    /// Hop of a failure, else 0.
    hop: Signal<'a>,
    /// If it has not failed, nothing is left to read.
    is_complete: Signal<'a>,
    /// Number of the next read.
    level: Signal<'a>,
    /// Where to read next, or the answer.
    address: Signal<'a>,
}

impl<'a> Verdict<'a> {
    fn read(&self) -> (Signal<'a>, Read<Signal<'a>>) {
        let read = Read {
            context: self.identity.context,
            level: self.level,
            word: self.address.bits(5, 3),
            line: self.address.bits(63, 6),
        };
        (self.valid & !(self.has_failed | self.is_complete), read)
    }

    fn miss_end(&self) -> (Signal<'a>, MissEnd<Signal<'a>>) {
        let end = MissEnd { context: self.identity.context, status: self.status, hop: self.hop };
        (self.valid & (self.has_failed | self.is_complete) & !self.identity.is_context, end)
    }

    fn lookup_end(&self) -> (Signal<'a>, LookupEnd<Signal<'a>>) {
        let end = LookupEnd {
            context: self.identity.context,
            status: self.status,
            has_failed: self.has_failed,
            table: self.identity.table & self.has_failed.repeat(TABLE_BITS),
            hop: self.hop,
            address: self.address,
        };
        (self.valid & (self.has_failed | self.is_complete) & self.identity.is_context, end)
    }
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
        let tables = parts.tables(free.ready);
        let contexts = config.hem_contexts;
        let plans = Plans {
            courses: Ram::new(b, "courses", contexts, RamStyle::Distributed, Course::widths(config)),
            plans: Ram::new(b, "plans", contexts, RamStyle::for_depth(contexts), Plan::widths(config)),
        };
        let alignment_check = b.input("alignment_check", 1).delay("alignment_check_q");

        let started = parts.start_lookup(&tables, &free, &divider, &plans, alignment_check);
        let landed = parts.land_line(&plans, alignment_check);
        parts.request_lines(&landed.verdict, &started.verdict);
        parts.finish(&free, &started, &landed);
        b.output("ready", tables.is_ready);
        name.into()
    }
}

/// Geometry and BT0 memories.
struct Tables<'a> {
    geometry: Ram<'a, Geometry<u32>>,
    bt0: Ram<'a, Bt0<u32>>,
    is_ready: Signal<'a>,
}

/// What the rest needs of the new pipe.
struct Started<'a> {
    verdict: Verdict<'a>,
    accept: Signal<'a>,
    /// By context: the request.
    misses: Ram<'a, MissRequest<u32>>,
    /// By context: the question.
    questions: Ram<'a, Asked<u32>>,
}

/// What the rest needs of the landing pipe.
struct Landed<'a> {
    verdict: Verdict<'a>,
    /// By context: the line that landed last.
    lines: Ram<'a, Entry<u32>>,
}

/// The module under construction, part by part.
struct Parts<'d, 'k, 'a> {
    design: &'d Design<'k>,
    config: &'d Config,
    b: &'a Builder<'a>,
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

    /// Sum of a page's address and an addend in units of 8 bytes, modulo 2^64.
    fn address(&self, page: Signal<'a>, addend: Signal<'a>) -> Signal<'a> {
        page + addend.concat(self.b.literal(0, BA_ENTRY_BYTES_LOG2)).resize(64)
    }

    /// Alignment rule: 4 KiB while the check is on, else what keeps the next read inside a line.
    fn is_misaligned(
        &self,
        pointer: Signal<'a>,
        alignment_check: Signal<'a>,
        is_chunk: Signal<'a>,
        is_context: Signal<'a>,
    ) -> Signal<'a> {
        let below_word = pointer.low_bits(BA_ENTRY_BYTES_LOG2).any();
        let below_entry = pointer.bits(MPT_ENTRY_BYTES_LOG2 - 1, BA_ENTRY_BYTES_LOG2).any();
        let below_page = pointer.bits(PAGE_SHIFT_MIN - 1, MPT_ENTRY_BYTES_LOG2).any();
        let word_matters = alignment_check | !(is_chunk & is_context);
        let entry_matters = alignment_check | (is_chunk & !is_context);
        (below_word & word_matters) | (below_entry & entry_matters) | (below_page & alignment_check)
    }

    /// Geometry and BT0 memories with their writers: the scrub, then the register block.
    fn tables(&self, contexts_are_ready: Signal<'a>) -> Tables<'a> {
        let (b, config) = (self.b, self.config);
        let table_bits = TABLE_BITS + config.table_sets.trailing_zeros();
        let slot_bits = table_bits + config.bt0_slots.trailing_zeros();
        let scrub = scrub(b, "scrub", slot_bits, b.flag(false));
        let is_ready = (!scrub.busy & contexts_are_ready).delay_reset("is_ready");

        // The registers that hold a write have what the scrub writes after reset.
        let write = input_channel(b, "geometry_write", GeometryWrite::widths(config));
        let is_legal = write.table.ne(b.literal(TABLE_CODE_MTR.into(), TABLE_BITS));
        let valid = b.input("geometry_write_valid", 1) & is_legal & is_ready;
        let address = self.table_address(write.table_set, write.table).delay("geometry_write_q_word");
        let chunk_bytes_log2 = write.buf_pg_sz.resize(5) + u128::from(PAGE_SHIFT_MIN);
        let written = Geometry {
            hop_num: write.hop_num,
            ba_pg_sz: write.ba_pg_sz,
            buf_pg_sz: write.buf_pg_sz,
            chunk_shift: chunk_bytes_log2 - write.entry_bytes_log2.resize(5),
            entry_shift: (write.entry_bytes_log2 - u128::from(ENTRY_BYTES_LOG2_MIN)).low_bits(3),
            bt_num: write.bt_num,
            last_object: write.object_count - 1,
        };
        let reset = Geometry {
            hop_num: 0,
            ba_pg_sz: 0,
            buf_pg_sz: 0,
            chunk_shift: (PAGE_SHIFT_MIN - MPT_ENTRY_BYTES_LOG2).into(),
            entry_shift: (MPT_ENTRY_BYTES_LOG2 - ENTRY_BYTES_LOG2_MIN).into(),
            bt_num: 1,
            last_object: u32::MAX.into(),
        };
        let mut resets = reset.list().into_iter();
        let written = written.map(&mut |name, next| {
            let (_, reset) = resets.next().expect("records of one type");
            let register = b.register_reset(&format!("geometry_write_q_{name}"), next.width(), reset);
            register.next_if(valid, next);
            register.value
        });
        let geometry = Ram::new(b, "geometries", 1 << table_bits, RamStyle::Distributed, Geometry::widths(config));
        geometry.write(
            scrub.busy.mux(scrub.address.low_bits(table_bits), address),
            written,
            scrub.busy | valid.delay_reset("geometry_write_q_valid"),
        );

        let write = input_channel(b, "bt0_write", Bt0Write::widths(config));
        let is_legal = write.table.ne(b.literal(TABLE_CODE_MTR.into(), TABLE_BITS)) & !self.is_slot_missing(write.slot);
        let valid = b.input("bt0_write_valid", 1) & is_legal & is_ready;
        let address = self.slot_address(write.table_set, write.table, write.slot).delay("bt0_write_q_word");
        let is_set = b.register_reset("bt0_write_q_is_set", 1, 0);
        is_set.next_if(valid, write.is_set & write.address.any());
        let written = Bt0 { is_set: is_set.value, address: write.address.hold("bt0_write_q_address", valid) };
        let bt0 = Ram::new(b, "bt0", 1 << slot_bits, RamStyle::for_depth(1 << slot_bits), Bt0::widths(config));
        bt0.write(scrub.busy.mux(scrub.address, address), written, scrub.busy | valid.delay_reset("bt0_write_q_valid"));
        Tables { geometry, bt0, is_ready }
    }

    /// The new pipe.
    fn start_lookup(
        &self,
        tables: &Tables<'a>,
        free: &FreeList<'a>,
        divider: &str,
        plans: &Plans<'a>,
        alignment_check: Signal<'a>,
    ) -> Started<'a> {
        let (b, config) = (self.b, self.config);
        let divider = b.instance("divider", divider);
        let division_done = divider.output("out_valid", 1);

        // Stage 0: one of the inputs has the turn. A finished division asks for one empty place in the pipe.
        let miss_valid = b.input("miss_valid", 1);
        let miss = input_channel(b, "miss", MissRequest::widths(config));
        let lookup_valid = b.input("lookup_valid", 1);
        let lookup = input_channel(b, "lookup", ContextLookup::widths(config));
        let is_context = b.register_reset("lookup_has_turn", 1, 0);
        let leaves_place = division_done & !division_done.delay_reset("division_done_q");
        let can_accept = (tables.is_ready & free.valid & !leaves_place).named("can_accept");
        let has_request = is_context.value.mux(lookup_valid, miss_valid);
        let accept = (can_accept & has_request).named("accept");
        let other_waits = is_context.value.mux(miss_valid, lookup_valid);
        is_context.next(is_context.value ^ (other_waits & (accept | !has_request)));
        b.output("miss_ready", can_accept & !is_context.value);
        b.output("lookup_ready", can_accept & is_context.value);
        free.take(accept);

        let misses = Ram::new(
            b,
            "misses",
            config.hem_contexts,
            RamStyle::for_depth(config.hem_contexts),
            MissRequest::widths(config),
        );
        misses.write(free.number, miss, accept & !is_context.value);
        let questions = Ram::new(
            b,
            "questions",
            config.hem_contexts,
            RamStyle::for_depth(config.hem_contexts),
            Asked::widths(config),
        );
        let asked =
            Asked { tag: lookup.tag, function: lookup.function, index: lookup.index, admission: lookup.admission };
        questions.write(free.number, asked, accept & is_context.value);

        let table_set = is_context.value.mux(lookup.table_set, miss.table_set);
        let mpt = b.literal(Table::Mpt.code().into(), TABLE_BITS);
        let identity = Identity {
            context: free.number,
            is_context: is_context.value,
            table: is_context.value.mux(lookup.table, mpt),
        };
        let geometry = tables.geometry.read(self.table_address(table_set, identity.table), b.flag(true));
        let index = is_context.value.mux(lookup.index, miss.index.resize(INDEX_BITS)).delay("s1_index");

        // Stage 1: chunk number and position in the chunk.
        let s1_valid = accept.delay_reset("s1_valid");
        let identity = delay_record(identity, "s1");
        let table_set = table_set.delay("s1_table_set");
        let is_out_of_range = geometry.last_object.lt(index);
        let chunk = index.shift_right(geometry.chunk_shift);
        let offset = index.low_bits(OFFSET_BITS).shift_left(geometry.entry_shift);
        let offset = self.mask_from(offset, PAGE_SHIFT_MIN - ENTRY_BYTES_LOG2_MIN, geometry.buf_pg_sz);

        // Stage 2: the chunk number without the indices of one, two and three levels.
        let s2_valid = s1_valid.delay_reset("s2_valid");
        let identity = delay_record(identity, "s2");
        let table_set = table_set.delay("s2_table_set");
        let is_out_of_range = is_out_of_range.delay("s2_is_out_of_range");
        let chunk = chunk.delay("s2_chunk");
        let offset = offset.delay("s2_offset");
        let hop_num = geometry.hop_num.delay("s2_hop_num");
        let ba_pg_sz = geometry.ba_pg_sz.delay("s2_ba_pg_sz");
        let bt_num = geometry.bt_num.delay("s2_bt_num");
        let by_one = chunk.bits(31, PAGE_ENTRIES_LOG2_MIN).shift_right(ba_pg_sz);
        let by_two = chunk.bits(31, 2 * PAGE_ENTRIES_LOG2_MIN).shift_right(ba_pg_sz.concat(b.flag(false)));
        let high = chunk.bits(31, 3 * PAGE_ENTRIES_LOG2_MIN);
        let higher = chunk.bits(31, 3 * (PAGE_ENTRIES_LOG2_MIN + 1)).resize(high.width());
        // With the third page size the divisor exceeds 32 bits.
        let by_three = ba_pg_sz.bit(0).mux(higher, high) & ba_pg_sz.high_bits(3).none().repeat(high.width());

        // Stage 3: level indices; what is added to the base; whether the level-0 index must be divided; the plan.
        let s3_valid = s2_valid.delay_reset("s3_valid");
        let identity = delay_record(identity, "s3");
        let table_set = table_set.delay("s3_table_set");
        let is_out_of_range = is_out_of_range.delay("s3_is_out_of_range");
        let chunk = chunk.delay("s3_chunk");
        let offset = offset.delay("s3_offset");
        let hop_num = hop_num.delay("s3_hop_num");
        let ba_pg_sz = ba_pg_sz.delay("s3_ba_pg_sz");
        let bt_num = bt_num.delay("s3_bt_num");
        let by_one = by_one.delay("s3_by_one");
        let by_two = by_two.delay("s3_by_two");
        let by_three = by_three.delay("s3_by_three");
        let level_0 = hop_num.bit(1).mux(
            hop_num.bit(0).mux(by_three.resize(INDEX_BITS), by_two.resize(INDEX_BITS)),
            hop_num.bit(0).mux(by_one.resize(INDEX_BITS), chunk),
        );
        let last = self.mask_from(chunk.low_bits(LEVEL_INDEX_BITS), PAGE_ENTRIES_LOG2_MIN, ba_pg_sz);
        let second_last = self.mask_from(by_one.low_bits(SECOND_LAST_BITS), PAGE_ENTRIES_LOG2_MIN, ba_pg_sz);
        let third_last = self.mask_from(by_two.low_bits(THIRD_LAST_BITS), PAGE_ENTRIES_LOG2_MIN, ba_pg_sz);
        let first_addend = hop_num.bit(1).mux(
            hop_num.bit(0).mux(third_last.resize(LEVEL_INDEX_BITS), second_last.resize(LEVEL_INDEX_BITS)),
            hop_num.bit(0).mux(last, self.offset_addend(offset)),
        );
        let needs_division = level_0.ge(bt_num.resize(INDEX_BITS)) & !is_out_of_range;
        let plan = Plan { table: identity.table, last_index: last, second_last_index: second_last, offset };
        plans.plans.write(identity.context, plan, s3_valid);
        plans.courses.write(identity.context, Course { is_context: identity.is_context, hop_num }, s3_valid);

        // Stage 4: the BT0 slot of a lookup from stage 3 or, in an empty place, of one that comes from the divider.
        let s4_valid = (s3_valid & !needs_division).delay_reset("s4_valid");
        let s4_is_undivided = (s3_valid & needs_division).delay_reset("s4_is_undivided");
        let undivided = Undivided {
            context: identity.context,
            is_context: identity.is_context,
            table: identity.table,
            table_set,
            is_chunk: hop_num.none(),
            addend: first_addend,
            level_0,
            bt_num,
        };
        let undivided = delay_record(undivided, "s4");
        let is_out_of_range = is_out_of_range.delay("s4_is_out_of_range");
        let (queue, queued) = Fifo::new(self.design, b, "undivided", config.hem_contexts, Undivided::widths(config));
        queue.push(s4_is_undivided, undivided);
        let rejoins = (division_done & !s4_valid).named("rejoins");
        // The queue keeps the lookup at its output while the divider works on it.
        let is_dividing = b.register_reset("is_dividing", 1, 0);
        let divide = queued.out_valid & !is_dividing.value;
        divider.drive("in_valid", divide);
        divider.drive("in_value", queued.out.level_0);
        divider.drive("in_divisor", queued.out.bt_num);
        divider.drive("out_ready", !s4_valid);
        is_dividing.next((is_dividing.value | (divide & divider.output("in_ready", 1))) & !rejoins);
        queue.pop(rejoins);
        let remainder = divider.output("out_remainder", modulo::REMAINDER_BITS);
        let rooted = mux_record(s4_valid, undivided.rooted(), queued.out.rooted());
        let slot = s4_valid.mux(undivided.level_0.low_bits(modulo::REMAINDER_BITS), remainder);
        let bt0 = tables.bt0.read(self.slot_address(rooted.table_set, rooted.table, slot), b.flag(true));

        // Stage 5: checks and sum.
        let s5_valid = (s4_valid | division_done).delay_reset("s5_valid");
        let rooted = delay_record(rooted, "s5");
        let is_out_of_range = (is_out_of_range & s4_valid).delay("s5_is_out_of_range");
        let is_slot_missing = self.is_slot_missing(slot).delay("s5_is_slot_missing");
        let is_unset = is_slot_missing | !bt0.is_set;
        let is_misaligned = self.is_misaligned(bt0.address, alignment_check, rooted.is_chunk, rooted.is_context);
        let sum = self.address(bt0.address, rooted.addend);
        let has_failed = is_out_of_range | is_unset | is_misaligned;
        let base_status = is_unset.mux(
            self.status(Status::Bt0Unset),
            is_misaligned.mux(self.status(Status::HemMisaligned), self.status(Status::Ok)),
        );
        let status = is_out_of_range.mux(self.status(Status::IndexOutOfRange), base_status);

        // Stage 6: verdict. All failures up to here are those of read 0.
        let status = status.delay("s6_status");
        let identity = Identity { context: rooted.context, is_context: rooted.is_context, table: rooted.table };
        let identity = delay_record(identity, "s6");
        let verdict = Verdict {
            valid: s5_valid.delay_reset("s6_valid"),
            identity,
            has_failed: has_failed.delay("s6_has_failed"),
            status,
            hop: b.literal(0, 2),
            is_complete: (rooted.is_chunk & rooted.is_context).delay("s6_is_complete"),
            level: b.literal(0, 2),
            address: sum.delay("s6_address"),
        };
        Started { verdict, accept, misses, questions }
    }

    /// Offset of an entry in units of 8 bytes.
    fn offset_addend(&self, offset: Signal<'a>) -> Signal<'a> {
        offset.concat(self.b.literal(0, ENTRY_BYTES_LOG2_MIN - BA_ENTRY_BYTES_LOG2))
    }

    /// The landing pipe.
    fn land_line(&self, plans: &Plans<'a>, alignment_check: Signal<'a>) -> Landed<'a> {
        let (b, config) = (self.b, self.config);

        // Stage 0: the wanted word and its error. Every line is kept, the entry being the last one of a miss.
        let line_valid = b.input("line_valid", 1);
        let line = input_channel(b, "line", LineResponse::widths(config));
        let context = line.context.low_bits(config.hem_context_bits());
        let lines =
            Ram::new(b, "lines", config.hem_contexts, RamStyle::for_depth(config.hem_contexts), Entry::widths(config));
        let entry = Entry { entry_0: line.data_0, entry_1: line.data_1, entry_2: line.data_2, entry_3: line.data_3 };
        lines.write(context, entry, line_valid);
        let course = plans.courses.read(context, b.flag(true));
        let plan = plans.plans.read(context, b.flag(true));
        let pointer = line.value;
        let pointer_error = line.value_error;

        // Stage 1: checks and sum.
        let l1_valid = line_valid.delay_reset("l1_valid");
        let context = context.delay("l1_context");
        let level = line.level.delay("l1_level");
        let pointer = pointer.delay("l1_pointer");
        let pointer_error = pointer_error.delay("l1_pointer_error");
        let entry_error = line.error.delay("l1_entry_error");
        let next_level = level + 1;
        let is_entry = level.eq(course.hop_num);
        let is_chunk = next_level.eq(course.hop_num);
        let is_last_pointer = (level + 2).eq(course.hop_num);
        let level_index = is_last_pointer.mux(plan.last_index, plan.second_last_index.resize(LEVEL_INDEX_BITS));
        let addend = is_chunk.mux(self.offset_addend(plan.offset), level_index);
        let sum = self.address(pointer, addend);
        let has_error = is_entry.mux(entry_error, pointer_error);
        // One LUT per group and a carry chain; as a tree it would become the deepest path, with the checks behind it.
        let groups: Vec<_> = (0..64).step_by(6).map(|low| pointer.bits(63.min(low + 5), low).any()).collect();
        let groups = concat(&groups);
        let ones = b.literal((1 << groups.width()) - 1, groups.width());
        let is_zero = !groups.add_wide(ones).bit(groups.width());
        let is_misaligned = self.is_misaligned(pointer, alignment_check, is_chunk, course.is_context);
        let has_failed = has_error | (!is_entry & (is_zero | is_misaligned));

        // Stage 2: verdict. A failed read has its own number, a useless pointer the number of the read that it was for.
        let identity = Identity { context, is_context: course.is_context, table: plan.table };
        let identity = delay_record(identity, "l2");
        let level = level.delay("l2_level");
        let has_failed = has_failed.delay("l2_has_failed");
        let has_error = has_error.delay("l2_has_error");
        let is_zero = is_zero.delay("l2_is_zero");
        let failure = has_error.mux(
            self.status(Status::HemBusError),
            is_zero.mux(self.status(Status::HemPointerZero), self.status(Status::HemMisaligned)),
        );
        let failed_level = has_error.mux(level, level + 1);
        let verdict = Verdict {
            valid: l1_valid.delay_reset("l2_valid"),
            identity,
            has_failed,
            status: failure & has_failed.repeat(SHORT_STATUS_BITS),
            hop: failed_level & has_failed.repeat(2),
            is_complete: (is_entry | (is_chunk & course.is_context)).delay("l2_is_complete"),
            level: level + 1,
            address: sum.delay("l2_address"),
        };
        Landed { verdict, lines }
    }

    /// The line requests of both pipes.
    fn request_lines(&self, landed: &Verdict<'a>, started: &Verdict<'a>) {
        let (b, config) = (self.b, self.config);
        let ready = b.input("line_request_ready", 1);
        let valid = b.register_reset("line_request_q_valid", 1, 0);
        let widths = Read::widths(config);
        let reads = Merge::new(self.design, b, "reads", config.hem_contexts, widths, landed.read(), started.read());
        let take = !valid.value | ready;
        reads.take(take);
        valid.next(reads.valid | !take);
        let held = hold_record(reads.out, "line_request_q", take);
        let request = LineRequest {
            context: held.context.resize(line_context_bits(config)),
            level: held.level,
            word: held.word,
            generation: b.flag(false),
            line: held.line,
        };
        b.output("line_request_valid", valid.value);
        output_channel(b, "line_request", request);
    }

    /// Replays and answers, and the contexts that they free.
    fn finish(&self, free: &FreeList<'a>, started: &Started<'a>, landed: &Landed<'a>) {
        let (b, config) = (self.b, self.config);
        let (depth, design) = (config.hem_contexts, self.design);
        let (new, land) = (&started.verdict, &landed.verdict);
        let replays = Merge::new(design, b, "replays", depth, MissEnd::widths(config), land.miss_end(), new.miss_end());
        let answers =
            Merge::new(design, b, "answers", depth, LookupEnd::widths(config), land.lookup_end(), new.lookup_end());

        // The free list takes one number per cycle: a replay's when it is fetched, an answer's one cycle later, in which
        // no replay is fetched. After a replay had to wait for that, no answer is fetched for a cycle.
        let answer_gives = b.register_reset("answer_gives", 1, 0);
        let replay_ready = b.input("replay_ready", 1);
        let replay_valid = b.register_reset("replay_q_valid", 1, 0);
        let replay_is_free = !replay_valid.value | replay_ready;
        let take_replay = replay_is_free & !answer_gives.value;
        let fetch_replay = (take_replay & replays.valid).named("fetch_replay");
        replays.take(take_replay);
        replay_valid.next(fetch_replay | !replay_is_free);
        let answer_ready = b.input("answer_ready", 1);
        let answer_valid = b.register_reset("answer_q_valid", 1, 0);
        let answer_is_free = !answer_valid.value | answer_ready;
        let replay_waited = (replays.valid & answer_gives.value).delay_reset("replay_waited");
        let take_answer = answer_is_free & !replay_waited;
        let fetch_answer = (take_answer & answers.valid).named("fetch_answer");
        answers.take(take_answer);
        answer_valid.next(fetch_answer | !answer_is_free);
        answer_gives.next(fetch_answer);
        let answered_context = answers.out.context.delay("answered_context");
        let give = fetch_replay | answer_gives.value;
        let given_context = answer_gives.value.mux(answered_context, replays.out.context).delay("given_context");
        let given = give.delay_reset("given");
        free.give(given, given_context);
        // Counted one cycle late; for that cycle `accepted` tells.
        let accepted = started.accept.delay_reset("accepted");
        let credit = Credit::new(b, "contexts", config.hem_contexts);
        credit.update(accepted, given, b.flag(false));
        b.output("idle", credit.full & !accepted & !replay_valid.value & !answer_valid.value);

        let request = started.misses.read(replays.out.context, fetch_replay);
        let entry = landed.lines.read(replays.out.context, fetch_replay);
        let status = replays.out.status.hold("replay_q_status", fetch_replay);
        let hop = replays.out.hop.hold("replay_q_hop", fetch_replay);
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
            status: status.resize(status::STATUS_BITS),
            hop,
            entry_0: entry.entry_0,
            entry_1: entry.entry_1,
            entry_2: entry.entry_2,
            entry_3: entry.entry_3,
            admission: request.admission,
            epoch: request.epoch,
        };
        b.output("replay_valid", replay_valid.value);
        output_channel(b, "replay", replay);

        let asked = started.questions.read(answers.out.context, fetch_answer);
        let address = answers.out.has_failed.mux(b.literal(0, 64), answers.out.address);
        let answer = ContextAnswer {
            tag: asked.tag,
            function: asked.function,
            status: answers.out.status.hold("answer_q_status", fetch_answer).resize(status::STATUS_BITS),
            table: answers.out.table.hold("answer_q_table", fetch_answer),
            hop: answers.out.hop.hold("answer_q_hop", fetch_answer),
            address: address.hold("answer_q_address", fetch_answer),
            index: asked.index,
            admission: asked.admission,
        };
        b.output("answer_valid", answer_valid.value);
        output_channel(b, "answer", answer);
    }
}

impl<'a> Undivided<Signal<'a>> {
    /// Without what the divider works on.
    fn rooted(&self) -> Rooted<Signal<'a>> {
        Rooted {
            context: self.context,
            is_context: self.is_context,
            table: self.table,
            table_set: self.table_set,
            is_chunk: self.is_chunk,
            addend: self.addend,
        }
    }
}
