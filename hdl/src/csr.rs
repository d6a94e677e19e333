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
//! register nor a counter is answered with SLVERR and reads as 0.
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
//! half of a counter takes up to [`READ_EXTRA_CYCLES`] more, and longer before `ready`. Every counter takes one event
//! per cycle, all at once.
//!
//! # Timing
//! The longest paths are the 64-bit adder, and the selection of a single counter's own bits, all between registers.
//!
//! # Reset and flush
//! Reset puts every register to its reset value. Then the memories of the counters are scrubbed, and `ready` rises;
//! counters are not read before. The engine's requests, which all events come from, wait for `ready`.
//!
//! # Hazards
//! Counters: the total of each is in a memory. What has happened since is in a few own bits: of events that can come
//! together in a shift register of 64 states each, of events that exclude each other (statuses, latencies, functions) in
//! one memory for all, in which a counter is read, increased and written behind one another, two in a row forwarded. A
//! visit adds to the total what the own bits have advanced since the last visit: their difference to the low bits of the
//! total. Visits go round: six of eight to the single counters, one to all places of arrays, and one to the counter that is
//! being read, unless it is a single one, which waits for its turn. So a read is exact. Own bits cannot overtake the total: they wrap after more events than there are
//! cycles between two visits. A visit may follow another one of the same counter before that one is written: it adds more
//! to the older total and comes to the right sum.
//! Interrupts: an event in the cycle of a clearing write leaves the bit set.
//!
//! # Limits
//! Counters wrap at 2^64. The high half belongs to the low half that was read last. A geometry that no table has is
//! refused; one with more BT0 slots than the configuration holds is taken, and its upper slots stay unset.
//! `num_mpts_log2` above 24 counts as 24, `page_shift_base` below 12 as 12.

use crate::prim::{
    Builder, Count, Design, Ram, RamStyle, Register, Signal, Word, concat, encode_one_hot, or_all, output_channel,
    select_one_hot, select_tree,
};
use crate::records::{Bt0Write, GeometryWrite, STAMP_BITS};
use keywalk_contract::regs::{
    self, ARRAYS, Access, ArrayName, COUNTED_FUNCTIONS, COUNTERS, COUNTERS_OFFSET, CounterName, LATENCY_RANGES,
    REGISTERS,
};
use keywalk_contract::{Config, Field, Table, hem, key, mpt_entry, mtr};

/// Bits of a register and of half a counter.
const DATA_BITS: u32 = 32;
/// Bits of a counter.
const TOTAL_BITS: u32 = 64;
/// Bits of the number of a 4-byte word in the address space.
const WORD_BITS: u32 = regs::ADDRESS_BITS - 2;
/// Bits of a counter's place: its address without the low bits. It is its place in the memory of totals too.
const PLACE_BITS: u32 = regs::ADDRESS_BITS - 3;
/// Place of the first single counter.
const SINGLES_PLACE: u32 = COUNTERS_OFFSET / 8;
/// Own bits of a single counter.
const SINGLE_BITS: u32 = 6;
/// Own bits of a counter of an array.
pub const EVENT_BITS: u32 = 15;
/// Visits in a turn of slots: one of arrays, one for reads, the rest for single counters.
const SLOTS: u32 = 8;
const ARRAY_SLOT: u32 = 3;
const READ_SLOT: u32 = 7;
/// Cycles in which every single counter is visited.
const SINGLES_TURN_CYCLES: u32 = (COUNTERS.len() as u32).div_ceil(SLOTS - 2) * SLOTS + SLOTS;
/// Cycles that the low half of a counter may take more than a register: up to its turn, and the visit.
pub const READ_EXTRA_CYCLES: u32 = SINGLES_TURN_CYCLES + 5;
/// Bits of the number of reads in flight.
const READ_COUNT_BITS: u32 = 9;
/// Bits of the fields of the registers of what is in flight.
pub const GAUGE_BITS: u32 = 16;

const _: () = {
    let mut index = 0;
    while index < REGISTERS.len() {
        assert!(REGISTERS[index].offset == 4 * index as u32, "the registers are the lowest words, without gaps");
        index += 1;
    }
    assert!(SINGLES_TURN_CYCLES < 1 << SINGLE_BITS, "own bits hold what happens between visits");
    assert!(SLOTS << PLACE_BITS < 1 << EVENT_BITS, "own bits of arrays hold what happens between visits");
    assert!(SINGLES_PLACE.is_multiple_of(1 << SINGLE_BITS), "a single counter's number is the low bits of its place");
    assert!(hem::PAGE_SHIFT_MIN.is_multiple_of(4), "the two low bits of a page shift are its distance to the least");
    assert!(mtr::PAGE_SHIFT_BASE_MAX == hem::PAGE_SHIFT_MIN + 3, "the distance has two bits");
    assert!(regs::key_space::PAGE_SHIFT_BASE.max() == mtr::PAGE_SHIFT_BASE_MAX as u64, "no page shift is above");
    assert!(
        place(ArrayName::Statuses) == 0x80 && place(ArrayName::Latencies) == 0xa0,
        "bits of a place tell the array"
    );
    assert!(place(ArrayName::FunctionSuccesses) == 0x200, "likewise");
    assert!(place(ArrayName::FunctionErrors) == 0x300 && place(ArrayName::FunctionTlbMisses) == 0x400, "likewise");
    assert!(COUNTED_FUNCTIONS == 256, "a function is the low byte of a place");
};

/// Place of an array's first counter.
const fn place(array: ArrayName) -> u32 {
    ARRAYS[array as usize].offset / 8
}

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
    fn new(builder: &'a Builder<'a>, config: &Config, write: &Write<'a>) -> Self {
        let registers = REGISTERS.iter().filter(|register| register.access == Access::ReadWrite).map(|register| {
            let is_written = write.writes(register);
            let stored = |field: &Field| (*field, Self::store(builder, register, field, is_written, write));
            (register.name, register.fields_of(config).map(stored).collect())
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

/// The next state of a single counter's own bits: a shift register that passes through all of its states. It takes one LUT,
/// where a counter takes one for each bit.
const fn next_state(state: u32) -> u32 {
    let low = state & ((1 << (SINGLE_BITS - 1)) - 1);
    let fed_back = (state >> (SINGLE_BITS - 1) ^ state >> (SINGLE_BITS - 2)) & 1 ^ (low == 0) as u32;
    low << 1 | fed_back
}

/// Number of events that have led to a state.
fn decoded<'a>(state: Signal<'a>) -> Signal<'a> {
    let b = state.builder();
    let mut numbers = vec![0u32; 1 << SINGLE_BITS];
    let mut reached = 0;
    for number in 0..1 << SINGLE_BITS {
        numbers[reached as usize] = number;
        reached = next_state(reached);
    }
    assert_eq!(reached, 0, "all states are passed through");
    let bits: Vec<_> = (0..SINGLE_BITS)
        .rev()
        .map(|bit| {
            let values: Vec<_> = numbers.iter().map(|number| b.flag(number >> bit & 1 == 1)).collect();
            select_tree(state, &values)
        })
        .collect();
    concat(&bits)
}

/// The scrub of the memories of the counters.
struct Clean<'a> {
    busy: Signal<'a>,
    address: Signal<'a>,
}

/// Own bits of counters whose events exclude each other.
struct Events<'a> {
    memory: Ram<'a, Word<u32>>,
}

impl<'a> Events<'a> {
    /// A memory of `words` counters. `event` counts for number `index`; both come from registers or nearly so.
    fn new(
        b: &'a Builder<'a>,
        name: &str,
        words: u32,
        clean: &Clean<'a>,
        event: Signal<'a>,
        index: Signal<'a>,
    ) -> Self {
        let named = |part: &str| format!("{name}_{part}");
        let memory = Ram::of_words(b, name, words, RamStyle::Block, EVENT_BITS);
        let index = clean.busy.mux(clean.address.low_bits(index.width()), index).named(&named("index"));
        let clears = clean.busy.delay(&named("clears"));
        let written = index.delay(&named("written_index"));
        let valid = event.delay_reset(&named("valid"));
        let follows = (valid & written.eq(index)).delay(&named("follows"));
        let last = b.register(&named("last"), EVENT_BITS);
        let before = follows.mux(last.value, memory.read_word(index, b.flag(true)));
        let counts = !clears;
        let after = ((counts.repeat(EVENT_BITS) & before) + counts.resize(EVENT_BITS)).named(&named("after"));
        last.next(after);
        memory.write_word(written, after, clears | valid);
        Self { memory }
    }

    /// The own bits of a counter, one cycle later.
    fn read(&self, index: Signal<'a>) -> Signal<'a> {
        self.memory.read_word(index, index.builder().flag(true))
    }
}

/// Range of a latency: the number of its highest bit.
fn latency_range<'a>(latency: Signal<'a>) -> Signal<'a> {
    let bits = LATENCY_RANGES.trailing_zeros();
    let is_highest: Vec<_> = (0..LATENCY_RANGES)
        .map(|bit| {
            let is_set = if bit == 0 { latency.builder().flag(true) } else { latency.bit(bit) };
            if bit + 1 == LATENCY_RANGES { is_set } else { is_set & latency.bits(LATENCY_RANGES - 1, bit + 1).none() }
        })
        .collect();
    encode_one_hot(&is_highest, bits)
}

/// What the counters show to the read channel.
struct Counters<'a> {
    /// The memories are scrubbed.
    ready: Signal<'a>,
    /// The visit that was asked for by `read` has come to its end.
    answers: Signal<'a>,
    /// The counter that it visited.
    value: Signal<'a>,
}

impl<'a> Counters<'a> {
    /// `read` is set from the cycle in which `read_place` is meant until the answer; a visit may then begin.
    fn new(
        b: &'a Builder<'a>,
        config: &Config,
        singles: &[Signal<'a>],
        read: Signal<'a>,
        read_place: Signal<'a>,
    ) -> Self {
        // Which counter is visited: in the array slot, and in every cycle of the scrub, the next place of all.
        let is_clean = b.register_reset("is_clean", 1, 0);
        let slot = b.register_reset("slot", SLOTS.trailing_zeros(), ARRAY_SLOT.into());
        slot.next_if(is_clean.value, slot.value + 1);
        let [is_array_slot, is_read_slot] = [ARRAY_SLOT, READ_SLOT].map(|number| slot.value.is(number.into()));
        let is_single_slot = !(is_array_slot | is_read_slot);
        let round = b.register_reset("round", PLACE_BITS, 0);
        let next_round = round.value.add_wide(is_array_slot.resize(PLACE_BITS));
        round.next(next_round.low_bits(PLACE_BITS));
        is_clean.next(is_clean.value | next_round.bit(PLACE_BITS));
        let clean = Clean { busy: !is_clean.value, address: round.value };

        // Single counters.
        let state = |(counter, event): (&regs::Counter, &Signal<'a>)| {
            let own = b.register_reset(&format!("events_{}", counter.name), SINGLE_BITS, 0);
            let low = own.value.low_bits(SINGLE_BITS - 1);
            let taps = own.value.bit(SINGLE_BITS - 1) ^ own.value.bit(SINGLE_BITS - 2);
            own.next_if(*event, low.concat(taps ^ low.none()));
            own.value
        };
        let states: Vec<_> = COUNTERS.iter().zip(singles).map(state).collect();

        // Arrays.
        let finished = b.input("finished", 1);
        let status = b.input("finished_status", 8);
        let statuses = Events::new(b, "statuses", 32, &clean, finished, status.low_bits(5));
        // `now` is one cycle ahead of the last beat; x + !y = x - y - 1.
        let latency = (b.input("now", STAMP_BITS) + !b.input("finished_stamp", STAMP_BITS)).delay("latency");
        let range = latency_range(latency).delay("latency_range");
        let is_ranged = finished.delay_reset("latency_valid").delay_reset("latency_range_valid");
        let latencies = Events::new(b, "latencies", LATENCY_RANGES, &clean, is_ranged, range);
        let function_bits = COUNTED_FUNCTIONS.trailing_zeros();
        let function = b.input("finished_function", config.function_bits).resize(function_bits);
        let outcome = status.any().concat(function);
        let outcomes = Events::new(b, "outcomes", 2 * COUNTED_FUNCTIONS, &clean, finished, outcome);
        let missed = b.input("tlb_missed", 1);
        let missed_function = b.input("tlb_missed_function", config.function_bits).resize(function_bits);
        let misses = Events::new(b, "misses", COUNTED_FUNCTIONS, &clean, missed, missed_function);

        // Single counters take turns. Their own bits pass through registers that are cleared but for the one whose turn it is,
        // so that an OR of all of them selects.
        let single = b.register_reset("single", SINGLE_BITS, 0);
        let is_last = single.value.is(COUNTERS.len() as u128 - 1);
        let next_single = is_last.mux(b.literal(0, SINGLE_BITS), single.value + 1);
        single.next_if(is_single_slot, next_single);
        let waits: Vec<_> = COUNTERS
            .iter()
            .enumerate()
            .map(|(number, counter)| b.register_reset(&format!("waits_{}", counter.name), 1, (number != 0).into()))
            .collect();
        let mut taken = Vec::new();
        for (number, (counter, state)) in COUNTERS.iter().zip(&states).enumerate() {
            let before = waits[(number + waits.len() - 1) % waits.len()];
            waits[number].next_if(is_single_slot, before.value);
            let own = waits[number].value.mux(b.literal(0, SINGLE_BITS), *state);
            taken.push(own.delay(&format!("taken_{}", counter.name)));
        }

        // Visit 0: its place. A counter that is read is visited in the read slot, a single one when it has its turn.
        let single_page = b.literal((SINGLES_PLACE >> SINGLE_BITS).into(), PLACE_BITS - SINGLE_BITS);
        let single_place = single_page.concat(single.value);
        let visited =
            is_single_slot.mux(single_place, is_read_slot.mux(read_place, round.value)).named("visited_place");
        let is_in_single_page = |place: Signal<'a>| place.high_bits(PLACE_BITS - SINGLE_BITS).eq(single_page);
        let reads_single = is_in_single_page(read_place).delay("reads_single");
        let is_its_turn = read_place.low_bits(SINGLE_BITS).eq(single.value);
        let may_ask = reads_single.mux(is_single_slot & is_its_turn, is_read_slot);
        let is_asked = b.register_reset("is_asked", 1, 0);
        let asks = (may_ask & read & !is_asked.value).named("asks");
        is_asked.next(read & (is_asked.value | asks));
        let v0_place = visited.delay("v0_place");
        let v0_is_single = is_single_slot.delay("v0_is_single");
        let v0_clears = clean.busy.delay("v0_clears");
        let v0_asked = asks.delay_reset("v0_asked");

        // Visit 1: total and own bits arrive.
        let totals = Ram::of_words(b, "totals", 1 << PLACE_BITS, RamStyle::Block, TOTAL_BITS);
        let total = totals.read_word(v0_place, b.flag(true));
        let state = or_all(&taken).delay("v1_state");
        let own_status = statuses.read(v0_place.low_bits(5));
        let own_latency = latencies.read(v0_place.low_bits(4));
        let own_outcome = outcomes.read(v0_place.low_bits(function_bits + 1));
        let own_misses = misses.read(v0_place.low_bits(function_bits));
        // Misses begin at 0x400, outcomes at 0x200; below, 0x80 is the place of statuses and 0x20 more that of latencies.
        let [is_misses, is_outcome, is_latency] = [10, 9, 5].map(|bit| v0_place.bit(bit));
        let is_array = |name: &str, flag: Signal<'a>| (flag & !v0_is_single & !v0_clears).delay(name);
        let v1_is_misses = is_array("v1_is_misses", is_misses);
        let v1_is_outcome = is_array("v1_is_outcome", !is_misses & is_outcome);
        let v1_is_latency = is_array("v1_is_latency", !is_misses & !is_outcome & is_latency);
        let v1_is_status = is_array("v1_is_status", !is_misses & !is_outcome & !is_latency);
        let v1_place = v0_place.delay_reset("v1_place");
        let v1_is_single = v0_is_single.delay("v1_is_single");
        // Only its turn gives the own bits of a single counter.
        let v1_writes = (v0_clears | v0_is_single | !is_in_single_page(v0_place)).delay("v1_writes");
        let v1_clears = v0_clears.delay("v1_clears");
        let v1_asked = v0_asked.delay_reset("v1_asked");

        // Visit 2: what is added. Registers that are cleared select the own bits; a scrub clears all of them.
        let if_set = |flag: Signal<'a>, signal: Signal<'a>| flag.mux(signal, b.literal(0, signal.width()));
        let v2_total = if_set(!v1_clears, total).delay("v2_total");
        let v2_single = if_set(v1_is_single, decoded(state)).delay("v2_single").resize(EVENT_BITS);
        let v2_own = [
            if_set(v1_is_status, own_status).delay("v2_status"),
            if_set(v1_is_latency, own_latency).delay("v2_latency"),
            if_set(v1_is_outcome, own_outcome).delay("v2_outcome"),
            if_set(v1_is_misses, own_misses).delay("v2_misses"),
            v2_single,
        ];
        let v2_own = or_all(&v2_own).named("v2_own");
        let v2_is_single = v1_is_single.delay("v2_is_single");
        let v2_writes = v1_writes.delay("v2_writes");
        let v2_place = v1_place.delay_reset("v2_place");
        let v2_asked = v1_asked.delay_reset("v2_asked");
        let advance = (v2_own - v2_total.low_bits(EVENT_BITS)).named("advance");
        let high = (!v2_is_single).repeat(EVENT_BITS - SINGLE_BITS) & advance.high_bits(EVENT_BITS - SINGLE_BITS);
        let v3_advance = high.concat(advance.low_bits(SINGLE_BITS)).delay("v3_advance");
        let v3_total = v2_total.delay_reset("v3_total");
        let v3_place = v2_place.delay_reset("v3_place");
        let v3_writes = v2_writes.delay_reset("v3_writes");
        let v3_asked = v2_asked.delay_reset("v3_asked");

        // Visit 3: the sum.
        let value = (v3_total + v3_advance.resize(TOTAL_BITS)).delay("v4_value");

        // Visit 4: it is written.
        totals.write_word(v3_place.delay_reset("v4_place"), value, v3_writes.delay_reset("v4_writes"));
        let answers = v3_asked.delay_reset("v4_asked");
        b.output("ready", is_clean.value);
        Self { ready: is_clean.value, answers, value }
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
        let number_bits = bits_for(REGISTERS.len() as u32 - 1);
        let is_first_page = word.high_bits(WORD_BITS - number_bits).none();
        let named = writable.map(|register| {
            let is_number = word.low_bits(number_bits).is((register.offset / 4).into());
            (register.offset, (is_first_page & is_number).delay(&format!("write_names_{}", register.name)))
        });
        // Counters take writes, and so does what is not used behind them.
        let is_below_counters = word.high_bits(WORD_BITS - (COUNTERS_OFFSET / 4).trailing_zeros()).none();
        let is_nothing = is_below_counters & !below(word, REGISTERS.len() as u32);
        Self {
            go,
            named: named.collect(),
            is_nothing: is_nothing.delay("write_names_nothing"),
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
        // Words from a multiple of a power of two on, at most so many.
        let is_in = |first: u32, count: u32| {
            let bits = count.next_power_of_two().trailing_zeros();
            let base = word.high_bits(WORD_BITS - bits).is((first >> bits).into());
            base & below(word.low_bits(bits), count)
        };
        let singles = is_in(COUNTERS_OFFSET / 4, 2 * COUNTERS.len() as u32);
        let arrays = ARRAYS.iter().map(|array| is_in(array.offset / 4, 2 * array.count));
        let counters: Vec<_> = [singles].into_iter().chain(arrays).collect();
        Self { is_register: below(word, REGISTERS.len() as u32), is_counter: or_all(&counters) }
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

/// The register of that word, one cycle later: the OR of two parts, both zero where there is none. Registers whose bits
/// are all stored are selected apart from those that are mostly empty.
fn register_of<'a>(word: Signal<'a>, words: &[Signal<'a>]) -> [Signal<'a>; 2] {
    let b = word.builder();
    let number_bits = bits_for(words.len() as u32 - 1);
    let is_first_page = word.high_bits(WORD_BITS - number_bits).none();
    let is_full = |register: &regs::Register| {
        register.access == Access::ReadWrite
            && register.fields.iter().map(|field| field.width).sum::<u32>() == DATA_BITS
    };
    let (mut full, mut others) = (Vec::new(), Vec::new());
    for (register, value) in REGISTERS.iter().zip(words) {
        let is_it = word.low_bits(number_bits).is((register.offset / 4).into());
        let list = if is_full(register) { &mut full } else { &mut others };
        list.push((is_it, *value));
    }
    let flags: Vec<_> = full.iter().map(|(is_it, _)| *is_it).collect();
    let number_of_full = bits_for(full.len() as u32 - 1);
    let values: Vec<_> = full.iter().map(|(_, value)| *value).collect();
    let chosen = select(encode_one_hot(&flags, number_of_full), &values);
    let zero = b.literal(0, DATA_BITS);
    let full = (or_all(&flags) & is_first_page).mux(chosen, zero).delay("read_full");
    let others = is_first_page.mux(select_one_hot(&others), zero).delay("read_others");
    [full, others]
}

/// The read channels. `words` are the registers' values in order of offset, `singles` the events of the single counters.
fn read<'a>(b: &'a Builder<'a>, config: &Config, words: &[Signal<'a>], singles: &[Signal<'a>]) {
    let busy = b.register_reset("read_busy", 1, 0);
    let response_valid = b.register_reset("rvalid_q", 1, 0);
    let take = (b.input("axil_arvalid", 1) & !busy.value).named("ar_take");
    let taken = (response_valid.value & b.input("axil_rready", 1)).named("r_taken");
    busy.next(take | (busy.value & !taken));
    b.output("axil_arready", !busy.value);
    let address = b.input("axil_araddr", regs::ADDRESS_BITS).hold("araddr_q", take);
    let word = address.high_bits(WORD_BITS);

    let mapped = Mapped::new(word);
    let is_register = mapped.is_register.delay("read_is_register");
    let is_low = (mapped.is_counter & !word.bit(0)).delay("read_is_low");
    let is_high = (mapped.is_counter & word.bit(0)).delay("read_is_high");
    let register = register_of(word, words);
    // One cycle for the signals above, then a low half waits for its visit.
    let is_settled = busy.value.delay_reset("read_is_settled");
    let can_answer = busy.value & is_settled & !response_valid.value;
    let counters_ready = b.forward("counters_ready_now", 1);
    let asks = (can_answer & is_low & counters_ready.value).named("read_asks");
    let counters = Counters::new(b, config, singles, asks, word.high_bits(PLACE_BITS));
    counters_ready.drive(counters.ready);
    let answer = (can_answer & (!is_low | counters.answers)).named("read_answer");
    response_valid.next(answer | (response_valid.value & !taken));
    let held = b.register_reset("held_high", DATA_BITS, 0);
    held.next_if(counters.answers, counters.value.high_bits(DATA_BITS));
    let high = held.value;
    let low = counters.value.low_bits(DATA_BITS);
    let data = register[0] | register[1] | (is_low.repeat(DATA_BITS) & low) | (is_high.repeat(DATA_BITS) & high);
    b.output("axil_rvalid", response_valid.value);
    b.output("axil_rdata", data.hold("rdata_q", answer));
    b.output("axil_rresp", response((!is_register & !is_low & !is_high).hold("read_error", answer)));
}

/// The block.
pub struct Csr;

impl Csr {
    /// Builds module `csr`; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let name = "csr";
        let b = design.module(name);
        let engine_ready = b.input("engine_ready", 1);
        let engine_idle = b.input("engine_idle", 1);
        let events: Vec<_> = COUNTERS.iter().map(|counter| b.input(&format!("count_{}", counter.name), 1)).collect();
        let event = |name: CounterName| events[name as usize];

        let go = b.forward("write_go", 1);
        let write = Write::new(b, go.value);
        let bank = Bank::new(b, config, &write);
        let commits = Commits::new(config, &bank, &write, engine_ready);
        go.drive(write.is_waiting & !commits.must_wait);
        write.respond(b, write.is_nothing | commits.is_refused);
        commits.drive(b, config, &bank, write.data);
        for control in regs::control::REGISTER.fields {
            b.output(control.name, bank.field(&regs::control::REGISTER, control));
        }
        b.output("merge_bytes_max", bank.field(&regs::merge_bytes_max::REGISTER, &regs::merge_bytes_max::BYTES));

        let clear = write.writes(&regs::interrupt_status::REGISTER);
        let mut sources = vec![
            (regs::interrupt_status::FAULT, regs::interrupt_enable::FAULT, event(CounterName::Faults)),
            (regs::interrupt_status::FAULT_LOST, regs::interrupt_enable::FAULT_LOST, event(CounterName::FaultsLost)),
        ];
        if config.command_unit {
            let done = b.input("command_done", 1);
            sources.push((regs::interrupt_status::COMMAND, regs::interrupt_enable::COMMAND, done));
        }
        let interrupts = sources.into_iter().map(|(bit, enable, event)| {
            let pending = b.register_reset(&format!("pending_{}", bit.name), 1, 0);
            let cleared = clear & write.strobes.bit(bit.low / 8) & field(write.data, &bit);
            pending.next(event | (pending.value & !cleared));
            (bit, pending.value, pending.value & bank.field(&regs::interrupt_enable::REGISTER, &enable))
        });
        let interrupts: Vec<_> = interrupts.collect();
        let raised: Vec<_> = interrupts.iter().map(|(_, _, raised)| *raised).collect();
        b.output("interrupt_pin", or_all(&raised).delay_reset("interrupt_q"));
        let pending: Vec<_> = interrupts.iter().map(|(bit, pending, _)| (*bit, *pending)).collect();

        let read_issued = b.input("read_issued", 1);
        let reads = Count::new(b, "reads_in_flight_q", READ_COUNT_BITS, read_issued, b.input("read_landed", 1));
        let requests = b.input("requests_in_flight", GAUGE_BITS);
        let constant = |value: u32| b.literal(value.into(), DATA_BITS);
        let read_only = [
            (regs::id::REGISTER, constant(regs::ID)),
            (regs::version::REGISTER, constant(regs::VERSION)),
            (
                regs::status::REGISTER,
                word_of(b, &[(regs::status::READY, engine_ready), (regs::status::IDLE, engine_idle)]),
            ),
            (regs::hold_bytes_max::REGISTER, constant(config.hold_bytes_max())),
            (regs::requests_in_flight::REGISTER, word_of(b, &[(regs::requests_in_flight::COUNT, requests)])),
            (
                regs::reads_in_flight::REGISTER,
                word_of(b, &[(regs::reads_in_flight::COUNT, reads.value().resize(GAUGE_BITS))]),
            ),
            (regs::interrupt_status::REGISTER, word_of(b, &pending)),
        ];
        let words = REGISTERS.iter().map(|register| match register.access {
            Access::WriteOnly => constant(0),
            Access::ReadWrite => bank.word(register),
            Access::ReadOnly | Access::WriteOneToClear => {
                read_only.iter().find(|(other, _)| other.offset == register.offset).expect("a listed register").1
            }
        });
        read(b, config, &words.collect::<Vec<_>>(), &events);
        name.into()
    }
}
