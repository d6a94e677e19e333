//! Control and status registers: the AXI4-Lite slave behind `s_axil`.
//!
//! # Purpose
//! Holds the switches of the engine, passes staged table geometry, BT0 slots and the function map on as one-cycle
//! writes, counts events and raises the interrupt. Offsets, reset values and fields are those of
//! [`keywalk_contract::regs`]; nothing of the register map is written here a second time.
//!
//! # Handshake
//! AXI4-Lite with 32 data bits. Write address and write data are taken independently, in either order. One write
//! and one read are handled at a time, independently of each other. Every ready output is a register; responses
//! are stable until they are taken. The low two bits of an address are ignored. An offset that holds neither a
//! register nor a counter is answered with SLVERR, reads as 0 and ignores writes.
//! Byte strobes choose the bytes of a readable register. A write-only register takes the whole word where any
//! strobe is set. Writes to read-only registers and counters, and writes without a strobe, do nothing and are
//! answered with OKAY.
//! A write that names a table set, table, BT0 slot or function that the engine does not have is ignored and
//! answered with SLVERR. Writes that another block must take (`table_commit`, `bt0_commit`, `function_map`) wait
//! until `engine_ready`, so that the scrub of that block does not overwrite them; reads go on meanwhile.
//! `<write>_valid` is set for one cycle; its fields mean something in that cycle only.
//!
//! # Latency and throughput
//! A write is answered three cycles after its address and data, and a read three cycles after its address. The low
//! half of a counter takes up to [`TURN_CYCLES`] more, and so does any read in the first turn after reset. Every
//! counter takes one event per cycle, all at once.
//!
//! # Timing
//! The longest paths are the adder of the counters, 32 bits behind a subtraction of a few bits, and the read
//! selection, both between registers.
//!
//! # Reset and flush
//! Reset puts every register to its reset value and every counter to 0. Events are counted from the first cycle
//! after reset on: in the first turn the memory of the counters is written and not read. Nothing is flushed.
//!
//! # Hazards
//! Counters: each has a few bits of its own that count events as they come. A turn visits all counters in order; a
//! visit adds to the 64-bit value in memory what the counter's own bits have advanced since the last visit, low
//! half first, then the carry to the high half. A read of a low half waits for the visit and takes the sum, so it
//! is exact; the high half that the same visit had in hand is held for the read of the high half. The own bits
//! cannot overtake the memory: they wrap after more events than a turn has cycles.
//! Interrupts: an event in the cycle of a clearing write leaves the bit set.
//!
//! # Limits
//! Counters wrap at 2^64. The high half of a counter whose low half was not read since reset is 0. A geometry that no
//! table has is refused; one with more BT0 slots than the configuration holds is taken, and its upper slots stay unset.
//! `num_mpts_log2` above 24 counts as 24, `page_shift_base` below 12 as 12.

use crate::prim::{Builder, Design, Ram, RamStyle, Register, Signal, concat, or_all, output_channel, select_one_hot};
use crate::records::{Bt0Write, GeometryWrite};
use keywalk_contract::regs::{self, Access, COUNTERS, COUNTERS_OFFSET, CounterName, REGISTERS};
use keywalk_contract::{Config, Field, Table, hem, key, mpt_entry, mtr};

/// Bits of a register and of half a counter.
const DATA_BITS: u32 = 32;
/// Bits of the number of a 4-byte word in the address space.
const WORD_BITS: u32 = regs::ADDRESS_BITS - 2;
/// Cycles in which every counter is visited once: one for each half.
pub const TURN_CYCLES: u32 = 2 * COUNTERS.len() as u32;
/// Bits of a place in the turn: number of the counter, and 1 for the high half.
const TURN_BITS: u32 = bits_for(TURN_CYCLES - 1);
/// Own bits of a counter: they hold more events than a turn has cycles.
const EVENT_BITS: u32 = bits_for(TURN_CYCLES);
/// Word number of the first counter.
const COUNTERS_WORD: u32 = COUNTERS_OFFSET / 4;

const _: () = {
    let mut index = 0;
    while index < REGISTERS.len() {
        assert!(REGISTERS[index].offset == 4 * index as u32, "the registers are the lowest words, without gaps");
        index += 1;
    }
    assert!(COUNTERS_WORD.is_multiple_of(1 << TURN_BITS), "a counter's place in the turn is the low bits of its word");
    assert!(hem::PAGE_SHIFT_MIN.is_multiple_of(4), "the two low bits of a page shift are its distance to the least");
    assert!(mtr::PAGE_SHIFT_BASE_MAX == hem::PAGE_SHIFT_MIN + 3, "the distance has two bits");
    assert!(regs::key_space::PAGE_SHIFT_BASE.max() == mtr::PAGE_SHIFT_BASE_MAX as u64, "no page shift is above");
};

/// Bits that hold `value`.
const fn bits_for(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// Bits of a field of a register.
fn field<'a>(word: Signal<'a>, field: &Field) -> Signal<'a> {
    word.bits(field.high(), field.low)
}

/// A word in which the given fields hold the given values and all other bits are zero.
fn word_of<'a>(b: &'a Builder<'a>, fields: &[(Field, Signal<'a>)]) -> Signal<'a> {
    let mut parts = Vec::new();
    let mut next = 0;
    for (field, value) in fields {
        if field.low > next {
            parts.push(b.literal(0, field.low - next));
        }
        parts.push(*value);
        next = field.high() + 1;
    }
    if next < DATA_BITS {
        parts.push(b.literal(0, DATA_BITS - next));
    }
    parts.reverse();
    concat(&parts)
}

/// The case of that number; a number beyond the cases gives any value.
fn select<'a>(number: Signal<'a>, cases: &[Signal<'a>]) -> Signal<'a> {
    if let [only] = cases {
        return *only;
    }
    let half = 1 << (bits_for(cases.len() as u32 - 1) - 1);
    let (low, high) = cases.split_at(half);
    number.bit(half.trailing_zeros()).mux(select(number, high), select(number, low))
}

/// `value < limit` for a limit that may be above every value.
fn below<'a>(value: Signal<'a>, limit: u32) -> Signal<'a> {
    let b = value.builder();
    if u64::from(limit) >= 1 << value.width() {
        b.flag(true)
    } else if limit.is_power_of_two() {
        value.bits(value.width() - 1, limit.trailing_zeros()).none()
    } else {
        value.lt(b.literal(limit.into(), value.width()))
    }
}

/// The readable bits of the registers, as far as they are stored here.
struct Bank<'a> {
    builder: &'a Builder<'a>,
    registers: Vec<(&'static str, Vec<(Field, Signal<'a>)>)>,
}

impl<'a> Bank<'a> {
    /// Stores every read-write register.
    fn new(builder: &'a Builder<'a>, write: &Write<'a>) -> Self {
        let registers = REGISTERS.iter().filter(|register| register.access == Access::ReadWrite).map(|register| {
            let is_written = write.writes(register);
            let stored = |field: &Field| (*field, Self::store(builder, register, field, is_written, write));
            (register.name, register.fields.iter().map(stored).collect())
        });
        Self { builder, registers: registers.collect() }
    }

    /// Stores one field, byte by byte as the strobes say.
    fn store(
        b: &'a Builder<'a>,
        register: &regs::Register,
        field: &Field,
        is_written: Signal<'a>,
        write: &Write<'a>,
    ) -> Signal<'a> {
        let name = format!("{}_{}", register.name, field.name);
        let bytes = field.low / 8..=field.high() / 8;
        let is_one_byte = bytes.start() == bytes.end();
        let mut parts: Vec<_> = bytes
            .map(|byte| {
                let (low, high) = (field.low.max(8 * byte), field.high().min(8 * byte + 7));
                let width = high - low + 1;
                let reset = register.reset >> low & ((1 << width) - 1);
                let name = if is_one_byte { name.clone() } else { format!("{name}_byte_{byte}") };
                let part = b.register_reset(&name, width, reset.into());
                part.next_if(is_written & write.strobes.bit(byte), write.data.bits(high, low));
                part.value
            })
            .collect();
        parts.reverse();
        concat(&parts)
    }

    fn fields(&self, register: &regs::Register) -> &[(Field, Signal<'a>)] {
        let found = self.registers.iter().find(|(name, _)| *name == register.name);
        &found.expect("the register is read-write").1
    }

    /// Value of a field.
    fn field(&self, register: &regs::Register, field: &Field) -> Signal<'a> {
        let found = self.fields(register).iter().find(|(stored, _)| stored.name == field.name);
        found.expect("the field is one of the register").1
    }

    /// Value of a register.
    fn word(&self, register: &regs::Register) -> Signal<'a> {
        word_of(self.builder, self.fields(register))
    }
}

/// Builds the module that brings half a counter up to date; gives its name.
///
/// Takes a half as stored with the counter's own bits, and gives the half's new value one cycle later. The high half of
/// a counter comes in the cycle after its low half.
fn counter_step_module(design: &Design<'_>) -> String {
    let name = "csr_counter_step";
    let b = design.module(name);
    let is_high = b.input("is_high", 1);
    let is_first_turn = b.input("is_first_turn", 1);
    let stored = b.input("stored", DATA_BITS);
    let events = b.input("events", EVENT_BITS);

    let carry = b.register("carry", 1);
    let advance = (events - stored.low_bits(EVENT_BITS)).named("advance");
    let addend = is_high.mux(carry.value.resize(EVENT_BITS), advance);
    let sum = stored.add_wide(addend.resize(DATA_BITS)).named("sum");
    carry.next(sum.bit(DATA_BITS));
    // In the first turn the memory holds nothing yet: all events since reset are in the counter's own bits.
    let initial = is_high.mux(b.literal(0, EVENT_BITS), events).resize(DATA_BITS);
    b.output("value", is_first_turn.mux(initial, sum.low_bits(DATA_BITS)).delay("value_q"));
    name.into()
}

/// What the counters show to the read channel.
struct Counters<'a> {
    /// Place in the turn whose new value is shown.
    place: Signal<'a>,
    /// The new value of half a counter.
    value: Signal<'a>,
    /// The first turn: the value is the initial one.
    is_first_turn: Signal<'a>,
}

impl<'a> Counters<'a> {
    fn new(b: &'a Builder<'a>, step_module: &str, events: &[Signal<'a>]) -> Self {
        let step = b.instance("counter_step", step_module);

        let turn = b.register_reset("turn", TURN_BITS, 0);
        let [is_first, is_first_1, is_first_2] =
            ["is_first_turn", "is_first_turn_1", "is_first_turn_2"].map(|name| b.register_reset(name, 1, 1));
        let ends = turn.value.is((TURN_CYCLES - 1).into()).named("turn_ends");
        turn.next(ends.mux(b.literal(0, TURN_BITS), turn.value + 1));
        is_first.next(is_first.value & !ends);
        is_first_1.next(is_first.value);
        is_first_2.next(is_first_1.value);

        let own: Vec<_> = COUNTERS
            .iter()
            .zip(events)
            .map(|(counter, event)| {
                let own = b.register_reset(&format!("events_{}", counter.name), EVENT_BITS, 0);
                own.next_if(*event, own.value + 1);
                own.value
            })
            .collect();

        // Place t reads the memory; one cycle later the step takes the half; two cycles later the result is written.
        let memory = Ram::of_words(b, "counters", 1 << TURN_BITS, RamStyle::Distributed, DATA_BITS);
        let place_1 = turn.value.delay("place_1");
        let place_2 = place_1.delay("place_2");
        step.drive("is_high", place_1.bit(0));
        step.drive("is_first_turn", is_first_1.value);
        step.drive("events", select(turn.value.high_bits(TURN_BITS - 1), &own).delay("own_1"));
        step.drive("stored", memory.read_word(turn.value, b.flag(true)));
        let value = step.output("value", DATA_BITS);
        // Until the first result comes, two words get meaningless values; the first turn writes them again.
        memory.write_word(place_2, value, b.flag(true));
        Self { place: place_2, value, is_first_turn: is_first_2.value }
    }
}

/// AXI response: `OKAY` or, where `is_error`, `SLVERR`.
fn response<'a>(is_error: Signal<'a>) -> Signal<'a> {
    is_error.concat(is_error.builder().flag(false))
}

/// A write that has arrived.
struct Write<'a> {
    /// It is done in this cycle.
    go: Signal<'a>,
    /// Registers that can be written, with the flag that the write's address is theirs.
    named: Vec<(u32, Signal<'a>)>,
    /// The address is that of nothing.
    is_nothing: Signal<'a>,
    /// Data. Holds its value for one more cycle.
    data: Signal<'a>,
    strobes: Signal<'a>,
    /// Address and data are there, and the response of the previous write is gone.
    is_waiting: Signal<'a>,
    response_valid: Register<'a>,
}

impl<'a> Write<'a> {
    /// The write channels up to the decision whether the write may be done.
    fn new(b: &'a Builder<'a>, go: Signal<'a>) -> Self {
        let channel = |name: &str, parts: &[(&str, u32)]| {
            let valid = b.input(&format!("axil_{name}valid"), 1);
            let full = b.register_reset(&format!("{name}_full"), 1, 0);
            let take = (valid & !full.value).named(&format!("{name}_take"));
            full.next((full.value | valid) & !go);
            b.output(&format!("axil_{name}ready"), !full.value);
            let held: Vec<_> = parts
                .iter()
                .map(|(part, width)| b.input(&format!("axil_{part}"), *width).hold(&format!("{part}_q"), take))
                .collect();
            (full.value, held)
        };
        let (address_full, address) = channel("aw", &[("awaddr", regs::ADDRESS_BITS)]);
        let (data_full, data) = channel("w", &[("wdata", DATA_BITS), ("wstrb", DATA_BITS / 8)]);
        let response_valid = b.register_reset("bvalid_q", 1, 0);
        // One cycle for the flags below.
        let is_decoded = address_full & address_full.delay_reset("write_is_decoded");
        let word = address[0].high_bits(WORD_BITS);
        let writable = REGISTERS.iter().filter(|register| register.access != Access::ReadOnly);
        let named = writable.map(|register| {
            let flag = word.is((register.offset / 4).into()).delay(&format!("write_names_{}", register.name));
            (register.offset, flag)
        });
        Self {
            go,
            named: named.collect(),
            is_nothing: Mapped::new(word).is_nothing().delay("write_names_nothing"),
            data: data[0],
            strobes: data[1],
            is_waiting: is_decoded & data_full & !response_valid.value,
            response_valid,
        }
    }

    /// The register is written in this cycle; which bytes, the strobes say.
    fn writes(&self, register: &regs::Register) -> Signal<'a> {
        self.go & self.names(register)
    }

    /// The write's address is that of the register.
    fn names(&self, register: &regs::Register) -> Signal<'a> {
        self.named.iter().find(|(offset, _)| *offset == register.offset).expect("the register can be written").1
    }

    /// The response channel.
    fn respond(&self, b: &'a Builder<'a>, is_error: Signal<'a>) {
        self.response_valid.next(self.go | (self.response_valid.value & !b.input("axil_bready", 1)));
        b.output("axil_bvalid", self.response_valid.value);
        b.output("axil_bresp", response(is_error.hold("write_error", self.go)));
    }
}

/// What a word of the address space holds.
struct Mapped<'a> {
    is_register: Signal<'a>,
    is_counter: Signal<'a>,
}

impl<'a> Mapped<'a> {
    fn new(word: Signal<'a>) -> Self {
        let base = COUNTERS_WORD >> TURN_BITS;
        Self {
            is_register: below(word, REGISTERS.len() as u32),
            is_counter: word.high_bits(WORD_BITS - TURN_BITS).is(base.into())
                & below(word.low_bits(TURN_BITS), TURN_CYCLES),
        }
    }

    fn is_nothing(&self) -> Signal<'a> {
        !(self.is_register | self.is_counter)
    }
}

/// Writes that take effect beyond the bytes of a register.
struct Commits<'a> {
    /// The write that waits must go on waiting.
    must_wait: Signal<'a>,
    /// The write names something that the engine does not have, or a geometry that no table has.
    is_refused: Signal<'a>,
    table: Signal<'a>,
    bt0: Signal<'a>,
    key_space: Signal<'a>,
    function_map: Signal<'a>,
}

impl<'a> Commits<'a> {
    fn new(config: &Config, bank: &Bank<'a>, write: &Write<'a>, engine_ready: Signal<'a>) -> Self {
        let has_set = |set: Signal<'a>| below(set, config.table_sets);
        let select = regs::table_select::REGISTER;
        let table = bank.field(&select, &regs::table_select::TABLE);
        let has_table =
            below(table, Table::ALL.len() as u32) & has_set(bank.field(&select, &regs::table_select::TABLE_SET));
        let data = write.data;
        let geometry = regs::table_geometry::REGISTER;
        let bt_num = bank.field(&geometry, &regs::table_geometry::BT_NUM);
        let entry_bytes_log2 = bank.field(&geometry, &regs::table_geometry::ENTRY_BYTES_LOG2);
        let is_mpt = table.is(Table::Mpt.code().into());
        let has_entry_size = is_mpt.mux(
            entry_bytes_log2.is(mpt_entry::ENTRY_BYTES.ilog2().into()),
            below(entry_bytes_log2, hem::ENTRY_BYTES_LOG2.end() + 1)
                & !below(entry_bytes_log2, *hem::ENTRY_BYTES_LOG2.start()),
        );
        let has_slots = bt_num.any() & below(bt_num, hem::BT_NUM_MAX + 1);
        let commits = [
            (regs::table_commit::REGISTER, has_table & has_entry_size & has_slots),
            (regs::bt0_commit::REGISTER, has_table & below(field(data, &regs::bt0_commit::SLOT), config.bt0_slots)),
            (regs::key_space::REGISTER, has_set(field(data, &regs::key_space::TABLE_SET))),
            (
                regs::function_map::REGISTER,
                has_set(field(data, &regs::function_map::TABLE_SET))
                    & below(field(data, &regs::function_map::FUNCTION), 1 << config.function_bits),
            ),
        ]
        .map(|(register, is_legal)| {
            let named = write.names(&register);
            (named, named & write.strobes.any() & !is_legal, write.writes(&register) & write.strobes.any() & is_legal)
        });
        let [(table, table_refused, table_go), (bt0, bt0_refused, bt0_go), key_space, function_map] = commits;
        Self {
            must_wait: or_all(&[table, bt0, function_map.0]) & !engine_ready,
            is_refused: or_all(&[table_refused, bt0_refused, key_space.1, function_map.1]),
            table: table_go,
            bt0: bt0_go,
            key_space: key_space.2,
            function_map: function_map.2,
        }
    }

    /// The writes to other blocks, and the key space.
    fn drive(&self, b: &'a Builder<'a>, config: &Config, bank: &Bank<'a>, data: Signal<'a>) {
        let selected = |field| bank.field(&regs::table_select::REGISTER, field);
        let geometry = |field| bank.field(&regs::table_geometry::REGISTER, field);
        let table_set = selected(&regs::table_select::TABLE_SET).low_bits(config.table_set_bits());
        let table = selected(&regs::table_select::TABLE);
        let count = bank.field(&regs::table_object_count::REGISTER, &regs::table_object_count::COUNT);
        // The staged registers and the write data keep their values in the cycle after a write; these are valid then.
        b.output("geometry_write_valid", self.table.delay_reset("geometry_write_valid_q"));
        let record = GeometryWrite {
            table_set,
            table,
            hop_num: geometry(&regs::table_geometry::HOP_NUM),
            ba_pg_sz: geometry(&regs::table_geometry::BA_PG_SZ),
            buf_pg_sz: geometry(&regs::table_geometry::BUF_PG_SZ),
            entry_bytes_log2: geometry(&regs::table_geometry::ENTRY_BYTES_LOG2),
            bt_num: geometry(&regs::table_geometry::BT_NUM),
            object_count: count,
        };
        output_channel(b, "geometry_write", record);

        b.output("bt0_write_valid", self.bt0.delay_reset("bt0_write_valid_q"));
        let high = bank.field(&regs::bt0_high::REGISTER, &regs::bt0_high::ADDRESS);
        let low = bank.field(&regs::bt0_low::REGISTER, &regs::bt0_low::ADDRESS);
        let record = Bt0Write {
            table_set,
            table,
            slot: field(data, &regs::bt0_commit::SLOT).low_bits(config.bt0_slot_bits()),
            is_set: field(data, &regs::bt0_commit::VALID),
            address: high.concat(low),
        };
        output_channel(b, "bt0_write", record);

        b.output("function_map_write_valid", self.function_map.delay_reset("function_map_write_valid_q"));
        let function = field(data, &regs::function_map::FUNCTION).low_bits(config.function_bits);
        b.output("function_map_write_function", function);
        let set = field(data, &regs::function_map::TABLE_SET).low_bits(config.table_set_bits());
        b.output("function_map_write_table_set", set);

        let ones = (1u128 << key::INDEX_BITS) - 1;
        let above = b.literal(ones, key::INDEX_BITS).shift_left(field(data, &regs::key_space::NUM_MPTS_LOG2));
        let shift = field(data, &regs::key_space::PAGE_SHIFT_BASE);
        let distance = shift.ge(b.literal(hem::PAGE_SHIFT_MIN.into(), shift.width())).repeat(2) & shift.low_bits(2);
        let set = field(data, &regs::key_space::TABLE_SET);
        for number in 0..config.table_sets {
            let write = self.key_space & set.is(number.into());
            let name = format!("mpt_mask_{number}");
            let mask = b.register_reset(&format!("{name}_q"), key::INDEX_BITS, ones);
            mask.next_if(write, !above);
            b.output(&name, mask.value);
            let name = format!("page_shift_base_{number}");
            let base = b.register_reset(&format!("{name}_q"), 2, 0);
            base.next_if(write, distance);
            b.output(&name, base.value);
        }
    }
}

/// The read channels. `words` are the registers' values in order of offset.
fn read<'a>(b: &'a Builder<'a>, words: &[Signal<'a>], counters: &Counters<'a>) {
    let busy = b.register_reset("read_busy", 1, 0);
    let response_valid = b.register_reset("rvalid_q", 1, 0);
    let take = (b.input("axil_arvalid", 1) & !busy.value).named("ar_take");
    let taken = (response_valid.value & b.input("axil_rready", 1)).named("r_taken");
    busy.next(take | (busy.value & !taken));
    b.output("axil_arready", !busy.value);
    let address = b.input("axil_araddr", regs::ADDRESS_BITS).hold("araddr_q", take);
    let word = address.high_bits(WORD_BITS);
    let place = word.low_bits(TURN_BITS);
    let is_high = place.bit(0);

    // High halves as they were when the low half was last read; the first turn fills in the initial values.
    let held = Ram::of_words(b, "held", 1 << (TURN_BITS - 1), RamStyle::Distributed, DATA_BITS);
    let held_value = held.read_word(place.high_bits(TURN_BITS - 1), b.flag(true));
    let is_filled = (!counters.is_first_turn).delay_reset("held_is_filled");

    let mapped = Mapped::new(word);
    let is_register = mapped.is_register.delay("read_is_register");
    let is_low = (mapped.is_counter & !is_high).delay("read_is_low");
    let is_held = (mapped.is_counter & is_high).delay("read_is_high");
    let is_nothing = mapped.is_nothing().delay("read_is_nothing");
    let register = select(word.low_bits(bits_for(words.len() as u32 - 1)), words).delay("read_register");
    // One cycle for the memory and for the delayed signals above, then a low half waits for its visit.
    let is_settled = busy.value.delay_reset("read_is_settled");
    let is_visited = counters.place.eq(place);
    let can_answer = busy.value & is_settled & is_filled & !response_valid.value;
    let answer = (can_answer & (!is_low | is_visited)).named("read_answer");
    response_valid.next(answer | (response_valid.value & !taken));

    let hold = (answer & is_low).delay_reset("hold_high") | counters.is_first_turn;
    held.write_word(counters.place.high_bits(TURN_BITS - 1), counters.value, hold & counters.place.bit(0));

    let data = select_one_hot(&[(is_register, register), (is_low, counters.value), (is_held, held_value)]);
    b.output("axil_rvalid", response_valid.value);
    b.output("axil_rdata", data.hold("rdata_q", answer));
    b.output("axil_rresp", response(is_nothing.hold("read_error", answer)));
}

/// The block.
pub struct Csr;

impl Csr {
    /// Builds module `csr`; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let name = "csr";
        let step = counter_step_module(design);
        let b = design.module(name);
        let engine_ready = b.input("engine_ready", 1);
        let engine_idle = b.input("engine_idle", 1);
        let events: Vec<_> = COUNTERS.iter().map(|counter| b.input(&format!("count_{}", counter.name), 1)).collect();
        let event = |name: CounterName| events[name as usize];

        let go = b.forward("write_go", 1);
        let write = Write::new(b, go.value);
        let bank = Bank::new(b, &write);
        let commits = Commits::new(config, &bank, &write, engine_ready);
        go.drive(write.is_waiting & !commits.must_wait);
        write.respond(b, write.is_nothing | commits.is_refused);
        commits.drive(b, config, &bank, write.data);
        for control in regs::control::REGISTER.fields {
            b.output(control.name, bank.field(&regs::control::REGISTER, control));
        }
        b.output("merge_bytes_max", bank.field(&regs::merge_bytes_max::REGISTER, &regs::merge_bytes_max::BYTES));

        let clear = write.writes(&regs::interrupt_status::REGISTER);
        let interrupts = [
            (regs::interrupt_status::FAULT, regs::interrupt_enable::FAULT, event(CounterName::Faults)),
            (regs::interrupt_status::FAULT_LOST, regs::interrupt_enable::FAULT_LOST, event(CounterName::FaultsLost)),
        ]
        .map(|(bit, enable, event)| {
            let pending = b.register_reset(&format!("pending_{}", bit.name), 1, 0);
            let cleared = clear & write.strobes.bit(bit.low / 8) & field(write.data, &bit);
            pending.next(event | (pending.value & !cleared));
            (bit, pending.value, pending.value & bank.field(&regs::interrupt_enable::REGISTER, &enable))
        });
        b.output("interrupt_pin", or_all(&interrupts.map(|(_, _, raised)| raised)).delay_reset("interrupt_q"));

        let counters = Counters::new(b, &step, &events);
        let constant = |value: u32| b.literal(value.into(), DATA_BITS);
        let read_only = [
            (regs::id::REGISTER, constant(regs::ID)),
            (regs::version::REGISTER, constant(regs::VERSION)),
            (
                regs::status::REGISTER,
                word_of(b, &[(regs::status::READY, engine_ready), (regs::status::IDLE, engine_idle)]),
            ),
            (regs::hold_bytes_max::REGISTER, constant(config.hold_bytes_max())),
            (regs::interrupt_status::REGISTER, word_of(b, &interrupts.map(|(bit, pending, _)| (bit, pending)))),
        ];
        let words = REGISTERS.iter().map(|register| match register.access {
            Access::WriteOnly => constant(0),
            Access::ReadWrite => bank.word(register),
            Access::ReadOnly | Access::WriteOneToClear => {
                read_only.iter().find(|(other, _)| other.offset == register.offset).expect("a listed register").1
            }
        });
        read(b, &words.collect::<Vec<_>>(), &counters);
        name.into()
    }
}
