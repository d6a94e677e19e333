//! Block `csr`: every register, the commits, the counters and the interrupt, under stalls on every channel.

use std::sync::LazyLock;

use keywalk_contract::regs::{self, ARRAYS, Access, ArrayName, COUNTERS, CounterName, REGISTERS, Register};
use keywalk_contract::{Config, Field, Status, Table, hem, key};
use keywalk_cosim::{
    Bench, Channel, Component, Dut, Error, Handle, Input, Model, Stall, StreamDriver, StreamSink, dut,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Longest wait for an answer, stalls included.
const ANSWER_LIMIT_CYCLES: u64 = 1_000;
/// Cycles from the last of a write's address and data to its answer, and from a read's address to its answer.
const ANSWER_CYCLES: u64 = 3;
/// Cycles that the low half of a counter may take more: up to its visit, and the visit.
const COUNTER_CYCLES: u64 = 61;
/// Cycles from reset until the memories of the counters are scrubbed.
const SCRUB_CYCLES: u64 = 1 << (regs::ADDRESS_BITS - 3);
const ALL_BYTES: u32 = 0xf;

/// Every counter: the single ones, then those of the arrays.
static EVERY_COUNTER: LazyLock<Vec<(String, u32)>> = LazyLock::new(|| {
    let singles = COUNTERS.iter().map(|counter| (counter.name.to_owned(), counter.offset));
    let elements = ARRAYS.iter().flat_map(|array| {
        (0..array.count).map(move |number| {
            let name = array.element.map_or_else(|| format!("{}_{number}", array.name), |element| element(number));
            (name, array.offset_of(number))
        })
    });
    singles.chain(elements).collect()
});

/// See [`EVERY_COUNTER`].
fn counters() -> &'static [(String, u32)] {
    &EVERY_COUNTER
}

/// Position of an element of an array in [`counters`].
fn position(array: ArrayName, number: u64) -> usize {
    let before = ARRAYS[..array as usize].iter().map(|array| array.count as usize);
    COUNTERS.len() + before.sum::<usize>() + number as usize
}

/// Raises the inputs of the counters at random and remembers how many events there were.
struct Events {
    inputs: Vec<Input>,
    finished: [Input; 4],
    missed: [Input; 2],
    now: Input,
    random: ChaCha8Rng,
    /// Chance of an event in a cycle, of 256, for each single counter, then of a response and of a walked page.
    chances: Vec<u32>,
    /// The one response and function that come, instead of random ones.
    fixed: Option<(Status, u64, u64)>,
    function_max: u64,
    /// Counters that counted in each cycle since reset.
    history: Vec<Vec<usize>>,
    totals: Vec<u64>,
    /// Cycle of the first entry of `history`.
    first_cycle: u64,
}

impl Events {
    fn total(&self, counter: usize) -> u64 {
        self.totals[counter]
    }

    /// Events before a cycle.
    fn before(&self, counter: usize, cycle: u64) -> u64 {
        let index = ((cycle - self.first_cycle) as usize).min(self.history.len());
        let later = self.history[index..].iter().flatten().filter(|other| **other == counter).count();
        self.totals[counter] - later as u64
    }

    fn draw(&mut self, chance: usize) -> bool {
        self.random.random_range(0..256) < self.chances[chance]
    }
}

impl Component for Events {
    fn drive(&mut self, model: &mut Model) {
        if self.history.is_empty() {
            self.first_cycle = model.cycles();
        }
        let mut counted = Vec::new();
        for index in 0..self.inputs.len() {
            let is_event = self.draw(index);
            if is_event {
                counted.push(index);
            }
            model.set(self.inputs[index], is_event.into());
        }
        // A response: the pulse comes in the cycle after the last beat.
        let (status, function, latency) = self.fixed.unwrap_or_else(|| {
            let status = Status::ALL[self.random.random_range(0..Status::ALL.len())];
            let bits = self.random.random_range(0..17);
            (status, self.random.random_range(0..=self.function_max), self.random.random_range(0..1 << bits))
        });
        let now = model.cycles() & 0xffff;
        model.set(self.now, now);
        let is_finished = self.draw(COUNTERS.len());
        if is_finished {
            counted.push(position(ArrayName::Statuses, status.code().into()));
            counted.push(position(ArrayName::Latencies, u64::from((latency | 1).ilog2())));
            let outcome = if status == Status::Ok { ArrayName::FunctionSuccesses } else { ArrayName::FunctionErrors };
            counted.push(position(outcome, function));
        }
        let stamp = now.wrapping_sub(1 + latency) & 0xffff;
        for (port, value) in self.finished.into_iter().zip([is_finished.into(), status.code().into(), function, stamp])
        {
            model.set(port, value);
        }
        let is_missed = self.draw(COUNTERS.len() + 1);
        if is_missed {
            counted.push(position(ArrayName::FunctionTlbMisses, function));
        }
        model.set(self.missed[0], is_missed.into());
        model.set(self.missed[1], function);
        for counter in &counted {
            self.totals[*counter] += 1;
        }
        self.history.push(counted);
    }

    fn sample(&mut self, _: &Model) -> Result<(), Error> {
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        self.history.clear();
        self.totals.fill(0);
        for input in self.inputs.iter().chain([&self.finished[0], &self.missed[0]]) {
            model.set(*input, 0);
        }
    }
}

/// An answer of the register port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    /// 0 for a write.
    value: u32,
    is_error: bool,
    /// First cycle in which it was valid.
    cycle: u64,
}

/// The block with drivers and sinks on every port.
struct Csr {
    bench: Bench,
    config: Config,
    write_address: Handle<StreamDriver>,
    write_data: Handle<StreamDriver>,
    write_response: Handle<StreamSink>,
    read_address: Handle<StreamDriver>,
    read_data: Handle<StreamSink>,
    geometry: Handle<StreamSink>,
    bt0: Handle<StreamSink>,
    function_map: Handle<StreamSink>,
    events: Handle<Events>,
    random: ChaCha8Rng,
}

impl Csr {
    fn new(dut: &'static Dut, seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(dut, seed);
        let mut driver = |name: &str| {
            let channel = Channel::with_prefix(bench.model(), &format!("axil_{name}"))?;
            let random = bench.random();
            Ok::<_, Error>(bench.add(StreamDriver::new(channel, stall, random)))
        };
        let (write_address, write_data, read_address) = (driver("aw")?, driver("w")?, driver("ar")?);
        let mut sink = |name: &str, stall| {
            let channel = Channel::with_prefix(bench.model(), name)?;
            let random = bench.random();
            Ok::<_, Error>(bench.add(StreamSink::new(channel, stall, random)))
        };
        let (write_response, read_data) = (sink("axil_b", stall)?, sink("axil_r", stall)?);
        let geometry = sink("geometry_write_", Stall::NEVER)?;
        let bt0 = sink("bt0_write_", Stall::NEVER)?;
        let function_map = sink("function_map_write_", Stall::NEVER)?;
        let inputs = COUNTERS.iter().map(|counter| bench.model().input(&format!("count_{}", counter.name)));
        let inputs = inputs.collect::<Result<_, _>>()?;
        let random = bench.random();
        let config = dut.config().expect("the block is generated from a configuration");
        let input = |name: &str| bench.model().input(name);
        let events = Events {
            inputs,
            finished: [
                input("finished")?,
                input("finished_status")?,
                input("finished_function")?,
                input("finished_stamp")?,
            ],
            missed: [input("tlb_missed")?, input("tlb_missed_function")?],
            now: input("now")?,
            random,
            chances: vec![0; COUNTERS.len() + 2],
            fixed: None,
            function_max: (1 << config.function_bits) - 1,
            history: Vec::new(),
            totals: vec![0; counters().len()],
            first_cycle: 0,
        };
        let events = bench.add(events);
        let random = bench.random();
        let mut csr = Self {
            bench,
            config,
            write_address,
            write_data,
            write_response,
            read_address,
            read_data,
            geometry,
            bt0,
            function_map,
            events,
            random,
        };
        csr.set("engine_ready", 1)?;
        for quiet in ["read_issued", "read_landed", "requests_in_flight"] {
            csr.set(quiet, 0)?;
        }
        csr.reset()?;
        Ok(csr)
    }

    /// Resets, and waits until events are counted.
    fn reset(&mut self) -> Result<(), Error> {
        let chances = std::mem::take(&mut self.bench[self.events].chances);
        self.bench[self.events].chances = vec![0; chances.len()];
        self.bench.reset(4)?;
        let ready = self.bench.model().output("ready")?;
        self.bench.run_until("ready", SCRUB_CYCLES + 4, |bench| bench.model().get(ready) == 1)?;
        self.bench[self.events].chances = chances;
        Ok(())
    }

    fn set(&mut self, input: &str, value: u64) -> Result<(), Error> {
        let input = self.bench.model().input(input)?;
        self.bench.model_mut().set(input, value);
        Ok(())
    }

    fn get(&self, output: &str) -> Result<u64, Error> {
        Ok(self.bench.model().get(self.bench.model().output(output)?))
    }

    fn set_chances(&mut self, chance: u32) {
        self.bench[self.events].chances.fill(chance);
    }

    fn start_read(&mut self, offset: u32) -> Result<(), Error> {
        self.bench[self.read_address].push_fields(&[("addr", offset.into())])
    }

    fn finish_read(&mut self) -> Result<Answer, Error> {
        let sink = self.read_data;
        self.bench.run_until("an answer to a read", ANSWER_LIMIT_CYCLES, |bench| !bench[sink].is_empty())?;
        let beat = self.bench[sink].pop().expect("an answer has come");
        let (value, response) = (beat.get("data")? as u32, beat.get("resp")?);
        assert!(matches!(response, 0 | 2), "response {response}");
        Ok(Answer { value, is_error: response == 2, cycle: beat.valid_cycle })
    }

    fn read(&mut self, offset: u32) -> Result<Answer, Error> {
        self.start_read(offset)?;
        self.finish_read()
    }

    /// Value of a word that is there.
    fn value(&mut self, offset: u32) -> Result<u32, Error> {
        let answer = self.read(offset)?;
        assert!(!answer.is_error, "offset {offset:#x}");
        Ok(answer.value)
    }

    fn start_write(&mut self, offset: u32, value: u32, strobes: u32) -> Result<(), Error> {
        self.bench[self.write_address].push_fields(&[("addr", offset.into())])?;
        self.bench[self.write_data].push_fields(&[("data", value.into()), ("strb", strobes.into())])
    }

    fn finish_write(&mut self) -> Result<Answer, Error> {
        let sink = self.write_response;
        self.bench.run_until("an answer to a write", ANSWER_LIMIT_CYCLES, |bench| !bench[sink].is_empty())?;
        let beat = self.bench[sink].pop().expect("an answer has come");
        let response = beat.get("resp")?;
        assert!(matches!(response, 0 | 2), "response {response}");
        Ok(Answer { value: 0, is_error: response == 2, cycle: beat.valid_cycle })
    }

    fn write(&mut self, offset: u32, value: u32, strobes: u32) -> Result<Answer, Error> {
        self.start_write(offset, value, strobes)?;
        let answer = self.finish_write()?;
        // One more cycle for what a commit sends.
        self.bench.cycle()?;
        Ok(answer)
    }

    /// A counter of [`counters`], low half first.
    fn counter(&mut self, counter: usize) -> Result<u64, Error> {
        let offset = counters()[counter].1;
        let low = self.value(offset)?;
        Ok(u64::from(self.value(offset + 4)?) << 32 | u64::from(low))
    }

    /// Everything that was sent to other blocks since the last call.
    fn sent(&mut self) -> Result<Vec<Sent>, Error> {
        let mut sent = Vec::new();
        for (handle, kind) in [(self.geometry, "geometry"), (self.bt0, "bt0"), (self.function_map, "function_map")] {
            while let Some(received) = self.bench[handle].pop() {
                let mut fields = Vec::new();
                for field in received.beat.shape().fields() {
                    fields.push((field.name.clone(), received.get(&field.name)?));
                }
                fields.sort();
                sent.push(Sent { kind, fields });
            }
        }
        Ok(sent)
    }
}

/// A write to another block.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    kind: &'static str,
    fields: Vec<(String, u128)>,
}

impl Sent {
    fn new(kind: &'static str, fields: &[(&str, u64)]) -> Self {
        let mut fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), u128::from(*value))).collect();
        fields.sort();
        Self { kind, fields }
    }
}

/// Bits of a register that exist, in an engine without a command unit.
fn mask(register: &Register) -> u32 {
    register.fields_of(&Config::default()).fold(0, |mask, field| mask | (field.max() as u32) << field.low)
}

fn field(value: u32, field: &Field) -> u64 {
    field.get(&value.to_le_bytes())
}

fn register_at(offset: u32) -> Option<&'static Register> {
    REGISTERS.iter().find(|register| register.offset == offset & !3)
}

fn counter_at(offset: u32) -> Option<usize> {
    counters().iter().position(|(_, counter)| *counter == offset & !7)
}

/// What the block should do, a write at a time.
struct Reference {
    config: Config,
    values: Vec<u32>,
    masks: Vec<u64>,
    page_shifts: Vec<u64>,
}

impl Reference {
    fn new(config: &Config) -> Self {
        let sets = config.table_sets as usize;
        Self {
            config: config.clone(),
            values: REGISTERS.iter().map(|register| register.reset).collect(),
            masks: vec![(1 << key::INDEX_BITS) - 1; sets],
            page_shifts: vec![hem::PAGE_SHIFT_MIN.into(); sets],
        }
    }

    fn value(&self, register: &Register) -> u32 {
        let index = REGISTERS.iter().position(|other| other.offset == register.offset);
        self.values[index.expect("a register of the map")]
    }

    /// Value and whether the answer is an error. Counters are not known here.
    fn read(&self, offset: u32) -> (u32, bool) {
        match register_at(offset) {
            Some(register) if register.name == "hold_bytes_max" => (self.config.hold_bytes_max(), false),
            Some(register) if register.access == Access::WriteOnly => (0, false),
            Some(register) => (self.value(register), false),
            None => (0, true),
        }
    }

    /// What is sent, and whether the answer is an error.
    fn write(&mut self, offset: u32, data: u32, strobes: u32) -> (Vec<Sent>, bool) {
        let Some(index) = REGISTERS.iter().position(|register| register.offset == offset & !3) else {
            return (Vec::new(), offset < regs::COUNTERS_OFFSET);
        };
        let register = &REGISTERS[index];
        match register.access {
            Access::ReadWrite => {
                let bytes =
                    (0..4).filter(|byte| strobes >> byte & 1 == 1).fold(0, |mask, byte| mask | 0xff << (8 * byte));
                let written = bytes & mask(register);
                self.values[index] = self.values[index] & !written | data & written;
                (Vec::new(), false)
            }
            Access::WriteOnly if strobes != 0 => {
                self.commit(register, data).map_or((Vec::new(), true), |sent| (sent, false))
            }
            _ => (Vec::new(), false),
        }
    }

    /// What a write to a write-only register sends; `None` where it names something that is not there.
    fn commit(&mut self, register: &Register, data: u32) -> Option<Vec<Sent>> {
        let select = self.value(&regs::table_select::REGISTER);
        let (table, selected_set) =
            (field(select, &regs::table_select::TABLE), field(select, &regs::table_select::TABLE_SET));
        let has_set = |set: u64| set < u64::from(self.config.table_sets);
        let has_table = table < Table::ALL.len() as u64 && has_set(selected_set);
        match register.name {
            "table_commit" => {
                let value = self.value(&regs::table_geometry::REGISTER);
                let entry_bytes_log2 = field(value, &regs::table_geometry::ENTRY_BYTES_LOG2);
                let has_entry_size = if table == Table::Mpt.code().into() {
                    entry_bytes_log2 == 6
                } else {
                    (5..=12).contains(&entry_bytes_log2)
                };
                let has_slots = (1..=1024).contains(&field(value, &regs::table_geometry::BT_NUM));
                (has_table && has_entry_size && has_slots).then(|| {
                    vec![Sent::new(
                        "geometry",
                        &[
                            ("table_set", selected_set),
                            ("table", table),
                            ("hop_num", field(value, &regs::table_geometry::HOP_NUM)),
                            ("ba_pg_sz", field(value, &regs::table_geometry::BA_PG_SZ)),
                            ("buf_pg_sz", field(value, &regs::table_geometry::BUF_PG_SZ)),
                            ("entry_bytes_log2", field(value, &regs::table_geometry::ENTRY_BYTES_LOG2)),
                            ("bt_num", field(value, &regs::table_geometry::BT_NUM)),
                            ("object_count", self.value(&regs::table_object_count::REGISTER).into()),
                        ],
                    )]
                })
            }
            "bt0_commit" => {
                let slot = field(data, &regs::bt0_commit::SLOT);
                let [low, high] =
                    [regs::bt0_low::REGISTER, regs::bt0_high::REGISTER].map(|half| u64::from(self.value(&half)));
                (has_table && slot < u64::from(self.config.bt0_slots)).then(|| {
                    vec![Sent::new(
                        "bt0",
                        &[
                            ("table_set", selected_set),
                            ("table", table),
                            ("slot", slot),
                            ("is_set", field(data, &regs::bt0_commit::VALID)),
                            ("address", high << 32 | low),
                        ],
                    )]
                })
            }
            "key_space" => {
                let set = field(data, &regs::key_space::TABLE_SET);
                has_set(set).then(|| {
                    let count_log2 = field(data, &regs::key_space::NUM_MPTS_LOG2).min(key::NUM_MPTS_LOG2_MAX.into());
                    self.masks[set as usize] = (1 << count_log2) - 1;
                    let shift = field(data, &regs::key_space::PAGE_SHIFT_BASE);
                    self.page_shifts[set as usize] = shift.max(hem::PAGE_SHIFT_MIN.into());
                    Vec::new()
                })
            }
            "function_map" => {
                let function = field(data, &regs::function_map::FUNCTION);
                let set = field(data, &regs::function_map::TABLE_SET);
                let is_legal = has_set(set) && function < 1 << self.config.function_bits;
                is_legal.then(|| vec![Sent::new("function_map", &[("function", function), ("table_set", set)])])
            }
            name => panic!("register {name} is not known here"),
        }
    }

    /// Checks every output that holds a value.
    fn check_outputs(&self, csr: &Csr) -> Result<(), Error> {
        for control in regs::control::REGISTER.fields {
            let expected = field(self.value(&regs::control::REGISTER), control);
            assert_eq!(csr.get(control.name)?, expected, "{}", control.name);
        }
        assert_eq!(csr.get("merge_bytes_max")?, self.value(&regs::merge_bytes_max::REGISTER).into());
        for set in 0..self.config.table_sets as usize {
            assert_eq!(csr.get(&format!("mpt_mask_{set}"))?, self.masks[set], "set {set}");
            let distance = self.page_shifts[set] - u64::from(hem::PAGE_SHIFT_MIN);
            assert_eq!(csr.get(&format!("page_shift_base_{set}"))?, distance, "set {set}");
        }
        Ok(())
    }
}

/// Checks the whole address space and every output against the state after reset.
fn check_reset_state(csr: &mut Csr) -> Result<(), Error> {
    let reference = Reference::new(&csr.config);
    reference.check_outputs(csr)?;
    assert_eq!(csr.get("interrupt_pin")?, 0);
    for offset in (0..1 << regs::ADDRESS_BITS).step_by(4) {
        let answer = csr.read(offset)?;
        let (value, is_error) = match (register_at(offset), counter_at(offset)) {
            (Some(register), _) if register.name == "status" => (field_bits(&[regs::status::READY]), false),
            (None, Some(_)) => (0, false),
            _ => reference.read(offset),
        };
        assert_eq!((answer.value, answer.is_error), (value, is_error), "offset {offset:#x}");
    }
    assert_eq!(csr.sent()?, []);
    Ok(())
}

/// A word with these fields all ones.
fn field_bits(fields: &[Field]) -> u32 {
    fields.iter().fold(0, |word, field| word | (field.max() as u32) << field.low)
}

#[test]
fn after_reset_every_word_of_the_address_space_reads_as_documented() -> Result<(), Error> {
    check_reset_state(&mut Csr::new(&dut::CSR, 1, Stall::NEVER)?)
}

#[test]
fn the_status_register_follows_the_engine() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 2, Stall::NEVER)?;
    for (ready, idle) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        csr.set("engine_ready", ready)?;
        csr.set("engine_idle", idle)?;
        let status = csr.value(regs::status::REGISTER.offset)?;
        assert_eq!(field(status, &regs::status::READY), ready);
        assert_eq!(field(status, &regs::status::IDLE), idle);
        assert_eq!(status & !mask(&regs::status::REGISTER), 0);
    }
    Ok(())
}

#[test]
fn reserved_bits_read_zero_and_strobes_choose_bytes() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 3, Stall::NEVER)?;
    for register in REGISTERS.iter().filter(|register| register.access == Access::ReadWrite) {
        for strobes in 0..=ALL_BYTES {
            for (background, value) in [(0, u32::MAX), (u32::MAX, 0)] {
                csr.write(register.offset, background, ALL_BYTES)?;
                csr.write(register.offset, value, strobes)?;
                let bytes =
                    (0..4).filter(|byte| strobes >> byte & 1 == 1).fold(0, |all, byte| all | 0xff << (8 * byte));
                let expected = (background & !bytes | value & bytes) & mask(register);
                assert_eq!(csr.value(register.offset)?, expected, "{} strobes {strobes:#x}", register.name);
            }
        }
    }
    Ok(())
}

#[test]
fn address_and_data_of_a_write_arrive_in_either_order() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 4, Stall::NEVER)?;
    let offset = regs::merge_bytes_max::REGISTER.offset;
    for (value, is_address_first) in [(0x1234_5678u32, true), (0x9abc_def0, false)] {
        let (write_address, write_data) = (csr.write_address, csr.write_data);
        let address = [("addr", u128::from(offset))];
        let data = [("data", u128::from(value)), ("strb", ALL_BYTES.into())];
        if is_address_first {
            csr.bench[write_address].push_fields(&address)?;
        } else {
            csr.bench[write_data].push_fields(&data)?;
        }
        csr.bench.run(20)?;
        assert_eq!(csr.bench[write_address].pending() + csr.bench[write_data].pending(), 0, "one half is taken alone");
        assert!(csr.bench[csr.write_response].is_empty());
        assert_ne!(csr.get("merge_bytes_max")?, u64::from(value));
        if is_address_first {
            csr.bench[write_data].push_fields(&data)?;
        } else {
            csr.bench[write_address].push_fields(&address)?;
        }
        assert!(!csr.finish_write()?.is_error);
        assert_eq!(csr.get("merge_bytes_max")?, u64::from(value));
    }
    Ok(())
}

#[test]
fn answers_come_in_time() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 5, Stall::NEVER)?;
    let start = csr.bench.cycles();
    assert_eq!(csr.write(regs::bt0_low::REGISTER.offset, 1, ALL_BYTES)?.cycle - start, ANSWER_CYCLES);
    let start = csr.bench.cycles();
    assert_eq!(csr.read(regs::bt0_low::REGISTER.offset)?.cycle - start, ANSWER_CYCLES);
    for gap in 0..COUNTER_CYCLES {
        for (_, offset) in counters().iter().step_by(17) {
            csr.bench.run(gap)?;
            let start = csr.bench.cycles();
            let cycles = csr.read(*offset)?.cycle - start;
            // One of an array has a place in every turn of eight.
            let limit = if *offset < ARRAYS[0].offset { COUNTER_CYCLES } else { 12 };
            assert!(cycles <= ANSWER_CYCLES + limit, "{cycles} cycles for {offset:#x}");
        }
    }
    // Back to back: ten writes and ten reads side by side.
    let start = csr.bench.cycles();
    for _ in 0..10 {
        csr.start_write(regs::bt0_low::REGISTER.offset, 2, ALL_BYTES)?;
        csr.start_read(regs::id::REGISTER.offset)?;
    }
    for _ in 0..10 {
        csr.finish_write()?;
        assert_eq!(csr.finish_read()?.value, regs::ID);
    }
    let cycles = csr.bench.cycles() - start;
    assert!(cycles <= 10 * (ANSWER_CYCLES + 2), "{cycles} cycles");
    Ok(())
}

#[test]
fn a_commit_waits_for_the_engine_and_is_sent_once() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 6, Stall::NEVER)?;
    let mut reference = Reference::new(&csr.config);
    for (offset, value) in [
        (regs::table_select::REGISTER.offset, Table::Srqc.code().into()),
        (regs::table_geometry::REGISTER.offset, 0x03a5_c963),
        (regs::table_object_count::REGISTER.offset, 0x8765_4321),
        (regs::bt0_low::REGISTER.offset, 0xfedc_b000),
        (regs::bt0_high::REGISTER.offset, 0x0123_4567),
    ] {
        csr.write(offset, value, ALL_BYTES)?;
        reference.write(offset, value, ALL_BYTES);
    }
    for (register, value) in
        [(regs::table_commit::REGISTER, 0), (regs::bt0_commit::REGISTER, 0x1_0001), (regs::function_map::REGISTER, 1)]
    {
        csr.set("engine_ready", 0)?;
        csr.start_write(register.offset, value, 1)?;
        csr.bench.run(100)?;
        assert!(csr.bench[csr.write_response].is_empty(), "{} is answered too early", register.name);
        assert_eq!(csr.sent()?, [], "{}", register.name);
        assert_eq!(csr.value(regs::status::REGISTER.offset)?, 0, "reads go on");
        csr.set("engine_ready", 1)?;
        assert!(!csr.finish_write()?.is_error);
        csr.bench.run(20)?;
        let (sent, _) = reference.write(register.offset, value, 1);
        assert_eq!(sent.len(), 1);
        assert_eq!(csr.sent()?, sent, "{}", register.name);
    }
    // What stays within the block does not wait.
    csr.set("engine_ready", 0)?;
    for (register, value) in [(regs::key_space::REGISTER, 0xc10), (regs::control::REGISTER, 0x1f)] {
        assert!(!csr.write(register.offset, value, ALL_BYTES)?.is_error);
        reference.write(register.offset, value, ALL_BYTES);
        reference.check_outputs(&csr)?;
    }
    Ok(())
}

#[test]
fn the_key_space_takes_every_size_and_page_shift() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 7, Stall::NEVER)?;
    let mut reference = Reference::new(&csr.config);
    for set in 0..csr.config.table_sets {
        for count_log2 in 0..32 {
            for page_shift in 0..16 {
                let data = count_log2
                    | page_shift << regs::key_space::PAGE_SHIFT_BASE.low
                    | set << regs::key_space::TABLE_SET.low;
                assert!(!csr.write(regs::key_space::REGISTER.offset, data, ALL_BYTES)?.is_error);
                reference.write(regs::key_space::REGISTER.offset, data, ALL_BYTES);
                reference.check_outputs(&csr)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_commit_of_something_that_is_not_there_is_refused() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 8, Stall::NEVER)?;
    let select = regs::table_select::REGISTER.offset;
    let Config { table_sets, bt0_slots, function_bits, .. } = csr.config;
    let mut refused = vec![(Table::ALL.len() as u32, regs::table_commit::REGISTER, 0)];
    refused.push((Table::ALL.len() as u32, regs::bt0_commit::REGISTER, 0));
    if u64::from(table_sets) <= regs::table_select::TABLE_SET.max() {
        refused.push((table_sets << regs::table_select::TABLE_SET.low, regs::table_commit::REGISTER, 0));
        refused.push((table_sets << regs::table_select::TABLE_SET.low, regs::bt0_commit::REGISTER, 0));
        refused.push((0, regs::key_space::REGISTER, table_sets << regs::key_space::TABLE_SET.low));
        refused.push((0, regs::function_map::REGISTER, table_sets << regs::function_map::TABLE_SET.low));
    }
    if u64::from(bt0_slots) <= regs::bt0_commit::SLOT.max() {
        refused.push((0, regs::bt0_commit::REGISTER, bt0_slots));
    }
    if 1 << function_bits <= regs::function_map::FUNCTION.max() {
        refused.push((0, regs::function_map::REGISTER, 1 << function_bits));
    }
    let reference = Reference::new(&csr.config);
    for (selected, register, data) in refused {
        csr.write(select, selected, ALL_BYTES)?;
        assert!(csr.write(register.offset, data, ALL_BYTES)?.is_error, "{} {data:#x}", register.name);
        // Without a strobe nothing is written, so nothing is refused.
        assert!(!csr.write(register.offset, data, 0)?.is_error, "{} {data:#x}", register.name);
        assert_eq!(csr.sent()?, [], "{} {data:#x}", register.name);
        reference.check_outputs(&csr)?;
    }
    Ok(())
}

#[test]
fn a_geometry_that_no_table_has_is_refused() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 9, Stall::NEVER)?;
    let mut reference = Reference::new(&csr.config);
    let mut legal = 0;
    for table in Table::ALL {
        for entry_bytes_log2 in 0..16 {
            for bt_num in [0, 1, 2, 1023, 1024, 1025, 2047] {
                let geometry = entry_bytes_log2 << regs::table_geometry::ENTRY_BYTES_LOG2.low
                    | bt_num << regs::table_geometry::BT_NUM.low;
                for (register, data) in [
                    (regs::table_select::REGISTER, u32::from(table.code())),
                    (regs::table_geometry::REGISTER, geometry),
                    (regs::table_commit::REGISTER, 0),
                ] {
                    let answer = csr.write(register.offset, data, ALL_BYTES)?;
                    let (sent, is_error) = reference.write(register.offset, data, ALL_BYTES);
                    assert_eq!(answer.is_error, is_error, "{table:?} {geometry:#x}");
                    legal += sent.len();
                    assert_eq!(csr.sent()?, sent, "{table:?} {geometry:#x}");
                }
            }
        }
    }
    assert_eq!(legal, 4 * (1 + 6 * 8), "4 legal slot counts, one entry size of the MPT, eight of the six others");
    Ok(())
}

#[test]
fn writes_to_what_cannot_be_written_change_nothing() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 16, Stall::NEVER)?;
    for offset in (0..1 << regs::ADDRESS_BITS).step_by(4) {
        let is_mapped = match register_at(offset) {
            Some(Register { access: Access::ReadOnly, .. }) => true,
            Some(_) => continue,
            // From the first counter on, writes to what is not used do nothing either.
            None => offset >= regs::COUNTERS_OFFSET,
        };
        assert_eq!(csr.write(offset, u32::MAX, ALL_BYTES)?.is_error, !is_mapped, "offset {offset:#x}");
    }
    check_reset_state(&mut csr)
}

#[test]
fn random_accesses_do_what_the_reference_does() -> Result<(), Error> {
    for seed in 0..4 {
        let stall = if seed == 0 { Stall::NEVER } else { Stall::percent(40).up_to(6) };
        let mut csr = Csr::new(&dut::CSR, 100 + seed, stall)?;
        csr.set("engine_ready", 0)?;
        csr.bench.run(3)?;
        csr.set("engine_ready", 1)?;
        let mut reference = Reference::new(&csr.config);
        for step in 0..2_000 {
            let offset = if csr.random.random_range(0..16) == 0 {
                csr.random.random_range(0..1 << regs::ADDRESS_BITS)
            } else {
                REGISTERS[csr.random.random_range(0..REGISTERS.len())].offset + csr.random.random_range(0..4)
            };
            let name = register_at(offset).map_or("none", |register| register.name);
            let context = format!("seed {seed} step {step} offset {offset:#x} ({name})");
            if csr.random.random_range(0..3) == 0 {
                let answer = csr.read(offset)?;
                let (value, is_error) = match (register_at(offset), counter_at(offset)) {
                    (Some(register), _) if register.name == "status" => (field_bits(&[regs::status::READY]), false),
                    (None, Some(_)) => (0, false),
                    _ => reference.read(offset),
                };
                assert_eq!((answer.value, answer.is_error), (value, is_error), "{context}");
            } else {
                // Small selections, so that most commits are legal.
                let select =
                    csr.random.random_range(0..8) | csr.random.random_range(0..2) << regs::table_select::TABLE_SET.low;
                let data = match name {
                    "table_select" => select,
                    "key_space" | "function_map" => {
                        csr.random.random::<u32>() & !(0x6 << regs::key_space::TABLE_SET.low)
                    }
                    _ => csr.random.random(),
                };
                let strobes =
                    if csr.random.random_range(0..2) == 0 { ALL_BYTES } else { csr.random.random_range(0..16) };
                let answer = csr.write(offset, data, strobes)?;
                let (sent, is_error) = reference.write(offset, data, strobes);
                assert_eq!(answer.is_error, is_error, "{context} data {data:#x} strobes {strobes:#x}");
                assert_eq!(csr.sent()?, sent, "{context} data {data:#x} strobes {strobes:#x}");
            }
            reference.check_outputs(&csr)?;
        }
    }
    Ok(())
}

#[test]
fn writes_and_reads_go_on_side_by_side_under_stalls() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 9, Stall::percent(50).up_to(8))?;
    csr.set_chances(128);
    let offset = regs::table_object_count::REGISTER.offset;
    let mut last = 0;
    for value in 1..=300 {
        csr.start_write(offset, value, ALL_BYTES)?;
        csr.start_read(offset)?;
        csr.start_read(COUNTERS[value as usize % COUNTERS.len()].offset)?;
    }
    for _ in 1..=300 {
        assert!(!csr.finish_write()?.is_error);
        let seen = csr.finish_read()?.value;
        assert!((last..=300).contains(&seen), "{seen} after {last}");
        last = seen;
        assert!(!csr.finish_read()?.is_error);
    }
    assert_eq!(csr.value(offset)?, 300);
    Ok(())
}

#[test]
fn no_event_is_lost_at_one_per_cycle_on_every_counter() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 10, Stall::NEVER)?;
    let events = csr.events;
    for fixed in [None, Some((Status::Ok, 1, 0)), Some((Status::Bounds, 0, 40_000))] {
        csr.bench[events].fixed = fixed;
        csr.set_chances(256);
        csr.bench.run(20_000)?;
        csr.set_chances(0);
        csr.bench.run(5)?;
    }
    for (counter, (name, _)) in counters().iter().enumerate() {
        let total = csr.bench[events].total(counter);
        assert!(total == 60_000 || counter >= COUNTERS.len(), "{name}");
        assert_eq!(csr.counter(counter)?, total, "{name}");
    }
    Ok(())
}

/// Reads counters under random events; every value must be the number of events at a moment between the read's address
/// and its answer, added to `start`.
fn check_counters(csr: &mut Csr, reads: usize, start: u64) -> Result<(), Error> {
    let (events, read_address) = (csr.events, csr.read_address);
    csr.bench[read_address].record_acceptances();
    for read in 0..reads {
        // Half of them from the statuses and latencies, or of single functions.
        let near = counters().len().min(COUNTERS.len() + 50);
        let range = if read % 2 == 0 { 0..near } else { 0..counters().len() };
        let counter = csr.random.random_range(range);
        let (name, offset) = &counters()[counter];
        let low = csr.read(*offset)?;
        let asked = csr.bench[read_address].pop_acceptance().expect("the address was taken");
        let least = start.wrapping_add(csr.bench[events].before(counter, asked));
        let most = start.wrapping_add(csr.bench[events].before(counter, low.cycle));
        // Later events must not change the high half that belongs to this low half.
        let wait = csr.random.random_range(0..2 * COUNTER_CYCLES);
        csr.bench.run(wait)?;
        let high = csr.read(offset + 4)?;
        csr.bench[read_address].pop_acceptance();
        let value = u64::from(high.value) << 32 | u64::from(low.value);
        assert!(
            value.wrapping_sub(least) <= most.wrapping_sub(least),
            "read {read}: {name} is {value:#x}, must be {least:#x} to {most:#x}"
        );
    }
    csr.set_chances(0);
    csr.bench.run(5)?;
    for (counter, (name, _)) in counters().iter().enumerate() {
        let expected = start.wrapping_add(csr.bench[events].total(counter));
        assert_eq!(csr.counter(counter)?, expected, "{name}");
    }
    Ok(())
}

#[test]
fn counters_are_exact_under_random_events_and_reads() -> Result<(), Error> {
    for seed in 0..4 {
        let mut csr = Csr::new(&dut::CSR, 200 + seed, Stall::percent(20).up_to(10))?;
        let events = csr.events;
        for chance in 0..COUNTERS.len() + 2 {
            csr.bench[events].chances[chance] = [1, 20, 128, 250, 256][csr.random.random_range(0..5)];
        }
        if seed % 2 == 1 {
            csr.bench[events].fixed = Some((Status::AccessRight, seed % 2, 9 << seed));
        }
        check_counters(&mut csr, 300, 0)?;
    }
    Ok(())
}

/// Where the counters of the copy begin that is near a carry.
const START: u64 = 0xffff_ffef_ffff_8000;

#[test]
fn counters_carry_into_the_high_half() -> Result<(), Error> {
    let dut = Dut::named("csr_near_carry").expect("the design is built");
    let mut csr = Csr::new(dut, 300, Stall::percent(10))?;
    let events = csr.events;
    csr.bench[events].fixed = Some((Status::EntryKey, 1, 100));
    csr.set_chances(256);
    // Reads around the carry.
    csr.bench.run(0x8000 - 600)?;
    check_counters(&mut csr, 120, START)?;
    csr.set_chances(256);
    csr.bench.run(600)?;
    csr.set_chances(0);
    csr.bench.run(5)?;
    let arrays = [
        position(ArrayName::Statuses, Status::EntryKey.code().into()),
        position(ArrayName::Latencies, 6),
        position(ArrayName::FunctionErrors, 1),
        position(ArrayName::FunctionTlbMisses, 1),
    ];
    for counter in (0..COUNTERS.len()).chain(arrays) {
        let total = csr.bench[events].total(counter);
        assert_eq!(csr.counter(counter)?, START + total);
        assert_eq!(csr.counter(counter)? >> 32, 0xffff_fff0, "the low half has wrapped");
    }
    Ok(())
}

#[test]
fn a_high_half_belongs_to_the_low_half_that_was_read_last() -> Result<(), Error> {
    let dut = Dut::named("csr_near_carry").expect("the design is built");
    let mut csr = Csr::new(dut, 11, Stall::NEVER)?;
    let [first, second] = [COUNTERS[0].offset, ARRAYS[0].offset];
    assert_eq!(csr.value(first)?, 0xffff_8000);
    csr.bench[csr.events].fixed = Some((Status::Ok, 0, 7));
    csr.set_chances(256);
    csr.bench.run(0x8000 + 100)?;
    csr.set_chances(0);
    csr.bench.run(100)?;
    // Other reads change nothing, nor does the carry.
    for _ in 0..100 {
        let wait = csr.random.random_range(0..COUNTER_CYCLES);
        csr.bench.run(wait)?;
        csr.value(regs::id::REGISTER.offset)?;
        assert_eq!(csr.value(first + 4)?, 0xffff_ffef);
    }
    assert_eq!(csr.value(second)?, 100);
    assert_eq!(csr.value(second + 4)?, 0xffff_fff0);
    assert_eq!(csr.value(first)?, 100);
    assert_eq!(csr.value(first + 4)?, 0xffff_fff0);
    Ok(())
}

#[test]
fn latencies_are_counted_by_their_highest_bit() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 12, Stall::NEVER)?;
    let events = csr.events;
    let mut expected = [0u64; 16];
    for bit in 0..16u32 {
        for latency in [1u64 << bit, (2u64 << bit) - 1, if bit == 0 { 0 } else { (1 << bit) + 1 }] {
            csr.bench[events].fixed = Some((Status::Ok, 0, latency));
            csr.bench[events].chances[COUNTERS.len()] = 256;
            csr.bench.cycle()?;
            csr.set_chances(0);
            csr.bench.run(3)?;
            expected[bit as usize] += 1;
        }
    }
    csr.bench.run(5)?;
    for (range, expected) in (0..).zip(expected) {
        assert_eq!(csr.counter(position(ArrayName::Latencies, range))?, expected, "range {range}");
    }
    Ok(())
}

#[test]
fn what_is_in_flight_is_shown() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 17, Stall::NEVER)?;
    let mut reads = 0;
    for (issued, landed) in [(1, 0), (1, 1), (1, 0), (0, 1), (1, 0), (1, 1), (0, 1), (0, 1)] {
        for (port, level) in [("read_issued", issued), ("read_landed", landed), ("requests_in_flight", 1000 + reads)] {
            csr.set(port, level)?;
        }
        csr.bench.cycle()?;
        csr.set("read_issued", 0)?;
        csr.set("read_landed", 0)?;
        assert_eq!(u64::from(csr.value(regs::requests_in_flight::REGISTER.offset)?), 1000 + reads);
        reads = reads + issued - landed;
        assert_eq!(u64::from(csr.value(regs::reads_in_flight::REGISTER.offset)?), reads);
    }
    assert_eq!(reads, 0);
    Ok(())
}

#[test]
fn pending_interrupts_drive_the_pin_where_enabled_and_a_one_clears() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 13, Stall::NEVER)?;
    let status = regs::interrupt_status::REGISTER.offset;
    let enable = regs::interrupt_enable::REGISTER.offset;
    let sources = [
        (regs::interrupt_status::FAULT, regs::interrupt_enable::FAULT, CounterName::Faults),
        (regs::interrupt_status::FAULT_LOST, regs::interrupt_enable::FAULT_LOST, CounterName::FaultsLost),
    ];
    for (bit, enable_bit, counter) in sources {
        let (bit, enable_bit) = (field_bits(&[bit]), field_bits(&[enable_bit]));
        csr.write(enable, 0, ALL_BYTES)?;
        csr.bench[csr.events].chances[counter as usize] = 256;
        csr.bench.cycle()?;
        csr.set_chances(0);
        csr.bench.run(3)?;
        assert_eq!(csr.value(status)?, bit);
        assert_eq!(csr.get("interrupt_pin")?, 0, "not enabled");
        csr.write(enable, !enable_bit, ALL_BYTES)?;
        csr.bench.run(3)?;
        assert_eq!(csr.get("interrupt_pin")?, 0, "the other one is enabled");
        csr.write(enable, enable_bit, ALL_BYTES)?;
        csr.bench.run(3)?;
        assert_eq!(csr.get("interrupt_pin")?, 1);
        for (value, strobes) in [(!bit, ALL_BYTES), (0, ALL_BYTES), (u32::MAX, ALL_BYTES - 1)] {
            csr.write(status, value, strobes)?;
            assert_eq!(csr.value(status)?, bit, "value {value:#x} strobes {strobes:#x}");
        }
        csr.write(status, bit, 1)?;
        csr.bench.run(3)?;
        assert_eq!(csr.value(status)?, 0);
        assert_eq!(csr.get("interrupt_pin")?, 0);
    }
    Ok(())
}

#[test]
fn an_event_in_the_cycle_of_the_clear_stays_pending() -> Result<(), Error> {
    let status = regs::interrupt_status::REGISTER.offset;
    let mut outcomes = Vec::new();
    for (counter, bit) in [
        (CounterName::Faults, regs::interrupt_status::FAULT),
        (CounterName::FaultsLost, regs::interrupt_status::FAULT_LOST),
    ] {
        for delay in 0..10 {
            let mut csr = Csr::new(&dut::CSR, 14, Stall::NEVER)?;
            csr.bench.run(10)?;
            csr.start_write(status, u32::MAX, ALL_BYTES)?;
            csr.bench.run(delay)?;
            let event_cycle = csr.bench.cycles();
            csr.bench[csr.events].chances[counter as usize] = 256;
            csr.bench.cycle()?;
            csr.set_chances(0);
            let answer = csr.finish_write()?;
            csr.bench.run(3)?;
            // The answer is valid in the cycle after the clear.
            let clear_cycle = answer.cycle - 1;
            let expected = if event_cycle >= clear_cycle { field_bits(&[bit]) } else { 0 };
            assert_eq!(csr.value(status)?, expected, "event {delay} cycles after the write");
            outcomes.push(event_cycle.cmp(&clear_cycle));
        }
    }
    outcomes.sort();
    outcomes.dedup();
    assert_eq!(outcomes.len(), 3, "before, at and after the clear");
    Ok(())
}

#[test]
fn reset_in_the_middle_leaves_nothing_behind() -> Result<(), Error> {
    let mut csr = Csr::new(&dut::CSR, 15, Stall::NEVER)?;
    for round in 0..16 {
        csr.set_chances(200);
        for register in REGISTERS.iter().filter(|register| register.access == Access::ReadWrite) {
            let value = csr.random.random();
            csr.write(register.offset, value, ALL_BYTES)?;
        }
        csr.write(regs::key_space::REGISTER.offset, 3, ALL_BYTES)?;
        csr.write(regs::table_select::REGISTER.offset, 0, ALL_BYTES)?;
        csr.counter(0)?;
        csr.sent()?;
        // A commit that waits, a counter that is being read, and a write of which one half has arrived.
        csr.set("engine_ready", u64::from(round % 2 == 1))?;
        csr.start_write(regs::table_commit::REGISTER.offset, 0, ALL_BYTES)?;
        csr.start_read(COUNTERS[round % COUNTERS.len()].offset)?;
        csr.bench.run(round as u64 % 8)?;
        csr.set_chances(0);
        csr.reset()?;
        csr.sent()?;
        csr.set("engine_ready", 1)?;
        csr.bench.run(round as u64)?;
        check_reset_state(&mut csr)?;
    }
    Ok(())
}
