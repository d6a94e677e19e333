//! The bench of the whole engine, module `keywalk`: every port has its driver, sink or responder.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::RangeInclusive;
use std::path::Path;

use keywalk_contract::command::{self, mailbox_status};
use keywalk_contract::ports::{self, STREAMS, Scope, StreamPort};
use keywalk_contract::regs::{self, ARRAYS, ArrayName, COUNTERS, CounterName};
use keywalk_contract::{Config, Field, Layout, Status, Table, work};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::axi_lite::{AxiLite, LiteAccess};
use crate::axi_read::{ReadPort, ReadRules};
use crate::axi_write::{WritePort, WriteRules};
use crate::bench::{Bench, Handle};
use crate::bits;
use crate::channel::Beat;
use crate::dut::Dut;
use crate::error::{Error, Rule, violation};
use crate::memory::{LineMemory, MemoryOptions, MemoryResponder};
use crate::model::Output;
use crate::stall::Stall;
use crate::stream::{Received, StreamDriver, StreamSink};

/// Cycles of reset that [`Engine::reset`] asserts.
const RESET_CYCLES: u32 = 8;
/// Cycles within which the engine must become ready after reset: its largest RAM is scrubbed in 16384.
const READY_LIMIT_CYCLES: u64 = 100_000;

/// How an engine's bench behaves.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Everything random follows from it.
    pub seed: u64,
    /// The memory's answers.
    pub memory: MemoryOptions,
    /// Idle cycles between requests, on every port that the bench drives.
    pub request_stall: Stall,
    /// Back-pressure on responses, on every port that the bench drains.
    pub response_stall: Stall,
    /// Stalls of register accesses.
    pub register_stall: Stall,
    /// Cycles from the last beat of a response to its report on `s_axis_done`.
    pub done_delay_cycles: RangeInclusive<u32>,
    /// Reports completed responses on `s_axis_done` by itself. Off: the caller uses [`Engine::report_done`].
    pub automatic_done: bool,
    /// Idle ports carry random data.
    pub poison: bool,
    /// Keeps the inputs of every clock edge, see [`Model::start_recording`](crate::Model::start_recording).
    pub record: bool,
}

impl Default for EngineOptions {
    /// No stalls, memory latency 1, done after 1 to 20 cycles, poison.
    fn default() -> Self {
        Self {
            seed: 1,
            memory: MemoryOptions::default(),
            request_stall: Stall::NEVER,
            response_stall: Stall::NEVER,
            register_stall: Stall::NEVER,
            done_delay_cycles: 1..=20,
            automatic_done: true,
            poison: true,
            record: false,
        }
    }
}

impl EngineOptions {
    /// Stalls on every port and a memory that reorders, see [`MemoryOptions::rough`].
    #[must_use]
    pub fn rough(latency_cycles: u32, seed: u64) -> Self {
        Self {
            seed,
            memory: MemoryOptions::rough(latency_cycles),
            request_stall: Stall::percent(20).up_to(6),
            response_stall: Stall::percent(25).up_to(6),
            register_stall: Stall::percent(25).up_to(3),
            ..Self::default()
        }
    }
}

/// Geometry of a context table, as `table_geometry` takes it, and its BT0 slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableGeometry {
    /// Hops, 0 to 3.
    pub hop_num: u8,
    /// BA page size, log2(bytes) - 12.
    pub ba_pg_sz: u8,
    /// Chunk size, log2(bytes) - 12.
    pub buf_pg_sz: u8,
    /// log2 of the entry's bytes, 5 to 12.
    pub entry_bytes_log2: u8,
    /// BT0 slots in use, 1 to 1024.
    pub bt_num: u16,
    /// An index at or above it fails; 0: unchecked.
    pub object_count: u32,
    /// BT0 bases by slot; the slots that are left out are unset.
    pub bt0: Vec<(u16, u64)>,
}

impl Default for TableGeometry {
    /// As after reset.
    fn default() -> Self {
        Self { hop_num: 0, ba_pg_sz: 0, buf_pg_sz: 0, entry_bytes_log2: 6, bt_num: 1, object_count: 0, bt0: Vec::new() }
    }
}

/// A table set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSet {
    /// The tables that are configured; others stay as they are.
    pub tables: Vec<(Table, TableGeometry)>,
    /// log2 of the number of MPT entries, 0 to 24.
    pub num_mpts_log2: u8,
    /// Page shift of page-size field 0, 12 to 15.
    pub page_shift_base: u8,
}

impl Default for TableSet {
    /// As after reset.
    fn default() -> Self {
        Self { tables: Vec::new(), num_mpts_log2: 24, page_shift_base: 12 }
    }
}

/// Switches of the register `control`, and `merge_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controls {
    /// Refuse an atomic that is not 8 bytes long and aligned.
    pub atomic_shape_check: bool,
    /// Take a zero page-table entry as address 0.
    pub zero_entry_literal: bool,
    /// Refuse a page index at or above PBL_SIZE.
    pub index_check: bool,
    /// Refuse misaligned pointers.
    pub alignment_check: bool,
    /// Send nothing of a request before all of it is known to be good.
    pub hold_mode: bool,
    /// Longest merged segment in bytes, 0: no merging.
    pub merge_bytes_max: u32,
}

impl Default for Controls {
    /// As after reset.
    fn default() -> Self {
        let reset = regs::control::REGISTER.reset;
        let bit = |field: Field| reset >> field.low & 1 == 1;
        Self {
            atomic_shape_check: bit(regs::control::ATOMIC_SHAPE_CHECK),
            zero_entry_literal: bit(regs::control::ZERO_ENTRY_LITERAL),
            index_check: bit(regs::control::INDEX_CHECK),
            alignment_check: bit(regs::control::ALIGNMENT_CHECK),
            hold_mode: bit(regs::control::HOLD_MODE),
            merge_bytes_max: regs::merge_bytes_max::REGISTER.reset,
        }
    }
}

/// Everything that software tells the engine before use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Table sets from number 0 on.
    pub table_sets: Vec<TableSet>,
    /// Table set of functions; the others use set 0 after reset.
    pub function_map: Vec<(u8, u8)>,
    /// Switches.
    pub controls: Controls,
}

/// A translation request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Returned with every beat.
    pub tag: u16,
    /// Function.
    pub function: u8,
    /// Operation code, 4 bits.
    pub operation: u8,
    /// L_Key or R_Key.
    pub key: u32,
    /// Protection domain, 24 bits.
    pub pd: u32,
    /// Queue pair, 24 bits.
    pub qpn: u32,
    /// Virtual address.
    pub va: u64,
    /// Length in bytes.
    pub length_bytes: u32,
}

/// A beat of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The request's tag.
    pub tag: u16,
    /// The request's function.
    pub function: u8,
    /// Status code.
    pub status: u8,
    /// Wire class.
    pub wire_class: u8,
    /// Where a table read failed.
    pub table: u8,
    /// Number of the read that failed.
    pub hop: u8,
    /// Number of the beat.
    pub segment: u32,
    /// First beat.
    pub first: bool,
    /// Last beat.
    pub last: bool,
    /// Bus address.
    pub pa: u64,
    /// Length in bytes.
    pub length_bytes: u32,
    /// Cycle of the transfer.
    pub cycle: u64,
    /// First cycle in which it was valid.
    pub valid_cycle: u64,
}

impl Segment {
    /// The status, where its code is defined.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.status)
    }
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The request's tag.
    pub tag: u16,
    /// The request's function.
    pub function: u8,
    /// Its beats in order; at least one.
    pub segments: Vec<Segment>,
}

/// A context lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextLookup {
    /// Returned with the answer.
    pub tag: u16,
    /// Function.
    pub function: u8,
    /// Code of the context table, 3 bits.
    pub table: u8,
    /// Object number.
    pub index: u32,
}

/// A queue-buffer walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferWalk {
    /// Returned with the answer.
    pub tag: u16,
    /// Function.
    pub function: u8,
    /// Page index within the region.
    pub index: u32,
    /// Bus address of the root.
    pub root: u64,
    /// Hops, 0 to 3.
    pub hop: u8,
    /// Size of a lower table page, log2(bytes) - 12.
    pub ba_pg_sz: u8,
    /// Page size, log2(bytes) - page_shift_base.
    pub buf_pg_sz: u8,
    /// Pages of the region, 0: unchecked.
    pub count: u32,
}

/// Answer to a context lookup or queue-buffer walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextAnswer {
    /// The request's tag.
    pub tag: u16,
    /// The request's function.
    pub function: u8,
    /// Status code.
    pub status: u8,
    /// Where it failed.
    pub table: u8,
    /// Number of the read that failed.
    pub hop: u8,
    /// Bus address.
    pub address: u64,
    /// Cycle of the transfer.
    pub cycle: u64,
}

/// An invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// Returned with the completion.
    pub tag: u16,
    /// Function.
    pub function: u8,
    /// What is invalidated.
    pub scope: Scope,
    /// Key of the MR.
    pub key: u32,
    /// Protection domain, 24 bits.
    pub pd: u32,
    /// First virtual address.
    pub va: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// The completion of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The invalidation's tag.
    pub tag: u16,
    /// Cycle of the transfer.
    pub cycle: u64,
    /// First cycle in which it was valid.
    pub valid_cycle: u64,
}

/// A work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Returned with the answer.
    pub tag: u16,
    /// Function.
    pub function: u8,
    /// The queue belongs to the kernel.
    pub privileged: bool,
    /// Protection domain of the queue pair.
    pub pd: u32,
    /// Queue pair.
    pub qpn: u32,
    /// The work queue entry.
    pub wqe: [u8; work::WORK_REQUEST_BYTES],
}

/// The answer to a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkAnswer {
    /// Tag of the request.
    pub tag: u16,
    /// Function of the request.
    pub function: u8,
    /// Code of the outcome.
    pub status: u8,
    /// Status of the completion queue entry.
    pub cqe_code: u8,
    /// Cycle of the transfer.
    pub cycle: u64,
}

/// What the mailbox reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxState {
    /// Code of the last command's outcome; 0: none since reset.
    pub status: u8,
    /// Token of the last command.
    pub token: u16,
    /// A command is under way.
    pub is_busy: bool,
}

/// An event of the fault port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEvent {
    /// Tag of the request.
    pub tag: u16,
    /// Function of the request.
    pub function: u8,
    /// Status code.
    pub status: u8,
    /// Where it failed.
    pub table: u8,
    /// Number of the read that failed.
    pub hop: u8,
    /// The tag is one of the context port.
    pub is_context: bool,
    /// MPT index or object number, 24 bits.
    pub index: u32,
    /// Virtual address or page index.
    pub va: u64,
    /// Cycle of the transfer.
    pub cycle: u64,
}

/// What is counted of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounters {
    /// Requests answered.
    pub requests: u64,
    /// Of these, with an error.
    pub errors: u64,
    /// Pages walked.
    pub tlb_misses: u64,
}

/// A beat for a driver, with some fields of the contract set.
///
/// Inlined, so that places and widths of the fields are constants.
#[inline(always)]
fn pack<const COUNT: usize>(driver: &mut StreamDriver, values: &[(Field, u64); COUNT]) -> Result<Beat, Error> {
    let mut beat = driver.blank();
    for (field, value) in values {
        check_fits(field, *value)?;
        bits::set(beat.words_mut(), field.low, field.width, *value);
    }
    Ok(beat)
}

#[inline]
fn check_fits(field: &Field, value: u64) -> Result<(), Error> {
    if value > field.max() { Err(does_not_fit(field, value)) } else { Ok(()) }
}

#[cold]
fn does_not_fit(field: &Field, value: u64) -> Error {
    Error::ValueTooWide { what: format!("field `{}`", field.name), width: field.width, value: value.into() }
}

/// A register value of several fields.
fn register(values: &[(Field, u64)]) -> Result<u32, Error> {
    values.iter().try_fold(0, |register, (field, value)| {
        check_fits(field, *value)?;
        Ok(register | (*value as u32) << field.low)
    })
}

fn write(register: &regs::Register, value: u32) -> LiteAccess {
    LiteAccess::Write { offset: register.offset, value }
}

fn segment_of(received: &Received) -> Segment {
    use ports::response as fields;
    let get = |field: Field| bits::get(received.beat.words(), field.low, field.width);
    Segment {
        tag: get(fields::TAG) as u16,
        function: get(fields::FUNCTION) as u8,
        status: get(fields::STATUS) as u8,
        wire_class: get(fields::WIRE_CLASS) as u8,
        table: get(fields::TABLE) as u8,
        hop: get(fields::HOP) as u8,
        segment: get(fields::SEGMENT) as u32,
        first: get(fields::FIRST) != 0,
        last: get(fields::LAST) != 0,
        pa: get(fields::PA),
        length_bytes: get(fields::LENGTH) as u32,
        cycle: received.cycle,
        valid_cycle: received.valid_cycle,
    }
}

fn stream(layout: &Layout) -> &'static StreamPort {
    STREAMS.iter().find(|port| port.layout.name == layout.name).expect("the contract lists every stream by its layout")
}

/// BT0 slots that are set, by table set and table code.
pub(crate) type Bt0Slots = HashMap<(u8, u8), HashSet<u16>>;

/// The register accesses that make a setup, where these BT0 slots were set before.
///
/// # Errors
/// A value outside its register's field, or more table sets than the engine has.
pub(crate) fn setup_accesses(config: &Config, setup: &Setup, bt0_set: &mut Bt0Slots) -> Result<Vec<LiteAccess>, Error> {
    let sets = config.table_sets as usize;
    if setup.table_sets.len() > sets {
        return Err(Error::OutOfRange {
            what: "the number of table sets".into(),
            value: setup.table_sets.len() as u64,
            legal: format!("at most {sets} in this configuration"),
        });
    }
    let mut accesses = Vec::new();
    for (set, table_set) in (0_u8..).zip(&setup.table_sets) {
        for (table, geometry) in &table_set.tables {
            table_accesses(set, *table, geometry, bt0_set, &mut accesses)?;
        }
        let key_space = register(&[
            (regs::key_space::NUM_MPTS_LOG2, table_set.num_mpts_log2.into()),
            (regs::key_space::PAGE_SHIFT_BASE, table_set.page_shift_base.into()),
            (regs::key_space::TABLE_SET, set.into()),
        ])?;
        accesses.push(write(&regs::key_space::REGISTER, key_space));
    }
    for (function, set) in &setup.function_map {
        let value = register(&[
            (regs::function_map::FUNCTION, (*function).into()),
            (regs::function_map::TABLE_SET, (*set).into()),
        ])?;
        accesses.push(write(&regs::function_map::REGISTER, value));
    }
    accesses.extend(control_accesses(&setup.controls)?);
    Ok(accesses)
}

fn control_accesses(controls: &Controls) -> Result<[LiteAccess; 2], Error> {
    use regs::control as fields;
    let control = register(&[
        (fields::ATOMIC_SHAPE_CHECK, controls.atomic_shape_check.into()),
        (fields::ZERO_ENTRY_LITERAL, controls.zero_entry_literal.into()),
        (fields::INDEX_CHECK, controls.index_check.into()),
        (fields::ALIGNMENT_CHECK, controls.alignment_check.into()),
        (fields::HOLD_MODE, controls.hold_mode.into()),
    ])?;
    Ok([write(&fields::REGISTER, control), write(&regs::merge_bytes_max::REGISTER, controls.merge_bytes_max)])
}

fn table_accesses(
    set: u8,
    table: Table,
    geometry: &TableGeometry,
    bt0_set: &mut Bt0Slots,
    accesses: &mut Vec<LiteAccess>,
) -> Result<(), Error> {
    use regs::table_geometry as fields;
    let select =
        register(&[(regs::table_select::TABLE, table.code().into()), (regs::table_select::TABLE_SET, set.into())])?;
    let staged = register(&[
        (fields::HOP_NUM, geometry.hop_num.into()),
        (fields::BA_PG_SZ, geometry.ba_pg_sz.into()),
        (fields::BUF_PG_SZ, geometry.buf_pg_sz.into()),
        (fields::ENTRY_BYTES_LOG2, geometry.entry_bytes_log2.into()),
        (fields::BT_NUM, geometry.bt_num.into()),
    ])?;
    accesses.push(write(&regs::table_select::REGISTER, select));
    accesses.push(write(&fields::REGISTER, staged));
    accesses.push(write(&regs::table_object_count::REGISTER, geometry.object_count));
    accesses.push(write(&regs::table_commit::REGISTER, 1));
    let slot_of = |slot: u16, is_set: bool| {
        register(&[(regs::bt0_commit::SLOT, slot.into()), (regs::bt0_commit::VALID, is_set.into())])
    };
    let set_now: HashSet<u16> = geometry.bt0.iter().map(|(slot, _)| *slot).collect();
    let set_before = bt0_set.insert((set, table.code()), set_now.clone()).unwrap_or_default();
    let mut unset: Vec<_> = set_before.difference(&set_now).copied().collect();
    unset.sort_unstable();
    for slot in unset {
        accesses.push(write(&regs::bt0_commit::REGISTER, slot_of(slot, false)?));
    }
    for (slot, address) in &geometry.bt0 {
        accesses.push(write(&regs::bt0_low::REGISTER, *address as u32));
        accesses.push(write(&regs::bt0_high::REGISTER, (*address >> 32) as u32));
        accesses.push(write(&regs::bt0_commit::REGISTER, slot_of(*slot, true)?));
    }
    Ok(())
}

/// Appends a request to a driver of the request port.
///
/// # Errors
/// [`Error::ValueTooWide`].
#[inline(always)]
pub(crate) fn push_request(driver: &mut StreamDriver, request: &Request) -> Result<(), Error> {
    use ports::request as fields;
    let beat = pack(
        driver,
        &[
            (fields::TAG, request.tag.into()),
            (fields::FUNCTION, request.function.into()),
            (fields::OPERATION, request.operation.into()),
            (fields::KEY, request.key.into()),
            (fields::PD, request.pd.into()),
            (fields::QPN, request.qpn.into()),
            (fields::VA, request.va),
            (fields::LENGTH, request.length_bytes.into()),
        ],
    )?;
    driver.push(beat);
    Ok(())
}

/// Appends an invalidation to a driver of the invalidation port.
///
/// # Errors
/// [`Error::ValueTooWide`].
pub(crate) fn push_invalidation(driver: &mut StreamDriver, invalidation: &Invalidation) -> Result<(), Error> {
    use ports::invalidate as fields;
    let beat = pack(
        driver,
        &[
            (fields::TAG, invalidation.tag.into()),
            (fields::FUNCTION, invalidation.function.into()),
            (fields::SCOPE, invalidation.scope as u64),
            (fields::KEY, invalidation.key.into()),
            (fields::PD, invalidation.pd.into()),
            (fields::VA, invalidation.va),
            (fields::LENGTH, invalidation.length_bytes),
        ],
    )?;
    driver.push(beat);
    Ok(())
}

/// Function and tag of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner(u32);

impl Owner {
    fn new(function: u8, tag: u16) -> Self {
        Self(u32::from(function) << 16 | u32::from(tag))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{:#x}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// Spreads owners over a hash table. They are looked up for every beat, and nobody chooses them to collide.
#[derive(Debug, Default)]
struct OwnerHasher(u64);

impl Hasher for OwnerHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// An engine with everything around it. Use: [`new`](Self::new), [`setup`](Self::setup), then submit, step and pop.
///
/// Beside the handshake and bus rules it checks that every response answers a request, counts its segments from 0, has
/// first and last at its ends, and is not interleaved with another.
pub struct Engine<M> {
    bench: Bench,
    config: Config,
    requests: Handle<StreamDriver>,
    responses: Handle<StreamSink>,
    done: Handle<StreamDriver>,
    context_requests: Handle<StreamDriver>,
    context_responses: Handle<StreamSink>,
    invalidations: Handle<StreamDriver>,
    completions: Handle<StreamSink>,
    faults: Handle<StreamSink>,
    memory: Handle<MemoryResponder<M>>,
    registers: Handle<AxiLite>,
    /// Work requests and their answers, where the engine has a command unit.
    work: Option<(Handle<StreamDriver>, Handle<StreamSink>)>,
    interrupt: Output,
    options: EngineOptions,
    random: ChaCha8Rng,
    /// Requests without a complete response, by function and tag.
    outstanding: HashMap<Owner, u32, BuildHasherDefault<OwnerHasher>>,
    outstanding_total: usize,
    context_outstanding: usize,
    invalidations_outstanding: usize,
    work_outstanding: usize,
    /// Segments of the response that has begun.
    open: Vec<Segment>,
    complete: VecDeque<Response>,
    context_answers: VecDeque<ContextAnswer>,
    invalidated: VecDeque<Completion>,
    events: VecDeque<FaultEvent>,
    work_answers: VecDeque<WorkAnswer>,
    /// BT0 slots that are set, by table set and table code.
    bt0_set: Bt0Slots,
    last_progress_cycle: u64,
}

impl<M: LineMemory> Engine<M> {
    /// Builds the bench, resets the engine and waits until it is ready.
    ///
    /// # Errors
    /// A design without the ports of the engine, a broken rule, or an engine that does not become ready.
    pub fn new(dut: &'static Dut, memory: M, options: EngineOptions) -> Result<Self, Error> {
        let mut bench = Bench::new(dut, options.seed);
        if options.record {
            bench.model_mut().start_recording();
        }
        let (idle, drain) = (options.request_stall, options.response_stall);
        let requests = bench.stream_driver(stream(&ports::request::LAYOUT), idle)?;
        let done = bench.stream_driver(stream(&ports::done::LAYOUT), Stall::NEVER)?;
        let context_requests = bench.stream_driver(stream(&ports::context_request::LAYOUT), idle)?;
        let invalidations = bench.stream_driver(stream(&ports::invalidate::LAYOUT), idle)?;
        for driver in [requests, done, context_requests, invalidations] {
            bench[driver].set_poisoning(options.poison);
        }
        let port = ReadPort::axi(bench.model(), "m_axi_tbl")?;
        let random = bench.random();
        let memory_options = MemoryOptions { poison: options.poison, ..options.memory.clone() };
        let mut responder = MemoryResponder::new(bench.model(), port.clone(), memory, memory_options, random)?;
        let has_command_unit = bench.model().signal("m_axi_tbl_awvalid").is_ok();
        let work = if has_command_unit {
            let port = WritePort::axi(bench.model(), "m_axi_tbl")?;
            responder = responder.with_writes(port.clone(), bench.random());
            bench.add(WriteRules::new(port));
            let [requests, answers] = &work::STREAMS;
            let driver = bench.stream_driver(requests, idle)?;
            bench[driver].set_poisoning(options.poison);
            Some((driver, bench.stream_sink(answers, drain)?))
        } else {
            None
        };
        let mut engine = Self {
            config: dut.config().unwrap_or_default(),
            requests,
            done,
            context_requests,
            invalidations,
            responses: bench.stream_sink(stream(&ports::response::LAYOUT), drain)?,
            context_responses: bench.stream_sink(stream(&ports::context_response::LAYOUT), drain)?,
            completions: bench.stream_sink(stream(&ports::invalidated::LAYOUT), drain)?,
            faults: bench.stream_sink(stream(&ports::fault::LAYOUT), drain)?,
            memory: bench.add(responder),
            registers: bench.axi_lite("s_axil", options.register_stall)?,
            work,
            interrupt: bench.model().output("interrupt")?,
            random: bench.random(),
            options,
            outstanding: HashMap::default(),
            outstanding_total: 0,
            context_outstanding: 0,
            invalidations_outstanding: 0,
            work_outstanding: 0,
            open: Vec::new(),
            complete: VecDeque::new(),
            context_answers: VecDeque::new(),
            invalidated: VecDeque::new(),
            events: VecDeque::new(),
            work_answers: VecDeque::new(),
            bt0_set: HashMap::new(),
            last_progress_cycle: 0,
            bench,
        };
        engine.bench.add(ReadRules::new(port));
        engine.reset()?;
        Ok(engine)
    }

    /// Configuration that the engine was generated from.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The bench below, to reach ports and components.
    pub fn bench(&mut self) -> &mut Bench {
        &mut self.bench
    }

    /// Clock edges so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.bench.cycles()
    }

    /// The memory responder, to change the memory, inject faults and read its records.
    pub fn memory(&mut self) -> &mut MemoryResponder<M> {
        &mut self.bench[self.memory]
    }

    /// The request driver, to change its stalls or record acceptances.
    pub fn request_driver(&mut self) -> &mut StreamDriver {
        &mut self.bench[self.requests]
    }

    /// The driver of context requests, to record acceptances.
    pub fn context_driver(&mut self) -> &mut StreamDriver {
        &mut self.bench[self.context_requests]
    }

    /// The driver of invalidations, to record acceptances.
    pub fn invalidation_driver(&mut self) -> &mut StreamDriver {
        &mut self.bench[self.invalidations]
    }

    /// The response sink, to change its stalls.
    pub fn response_sink(&mut self) -> &mut StreamSink {
        &mut self.bench[self.responses]
    }

    /// Level of the `interrupt` pin.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        self.bench.model().get(self.interrupt) != 0
    }

    /// Writes Verilator's counts; see [`Model::write_coverage`](crate::Model::write_coverage).
    ///
    /// # Errors
    /// [`Error::CoverageNotBuilt`], [`Error::CoverageFile`].
    pub fn write_coverage(&self, path: &Path) -> Result<(), Error> {
        self.bench.write_coverage(path)
    }

    /// Writes a VCD file from now on; see [`Model::start_trace`](crate::Model::start_trace).
    ///
    /// # Errors
    /// [`Error::TraceNotBuilt`], [`Error::TraceFile`].
    pub fn start_trace(&mut self, path: &Path) -> Result<(), Error> {
        self.bench.start_trace(path)
    }

    /// Resets the engine, forgets everything under way and not yet popped, and waits until the engine is ready.
    ///
    /// # Errors
    /// A broken rule, or an engine that does not become ready.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(RESET_CYCLES)?;
        self.outstanding.clear();
        self.outstanding_total = 0;
        self.context_outstanding = 0;
        self.invalidations_outstanding = 0;
        self.work_outstanding = 0;
        self.work_answers.clear();
        self.open.clear();
        self.complete.clear();
        self.context_answers.clear();
        self.invalidated.clear();
        self.events.clear();
        self.bt0_set.clear();
        let start = self.cycles();
        self.last_progress_cycle = start;
        while !self.status_bit(regs::status::READY)? {
            if self.cycles() - start > READY_LIMIT_CYCLES {
                return Err(self.timeout("`status.ready`", READY_LIMIT_CYCLES));
            }
        }
        Ok(())
    }

    fn status_bit(&mut self, field: Field) -> Result<bool, Error> {
        let status = self.read_register(regs::status::REGISTER.offset)?;
        Ok(status >> field.low & 1 == 1)
    }

    /// Whether the engine says that nothing is in flight (`status.idle`).
    ///
    /// # Errors
    /// A register access that fails, or a broken rule.
    pub fn is_idle(&mut self) -> Result<bool, Error> {
        self.status_bit(regs::status::IDLE)
    }

    /// Performs register accesses and returns the values of all of them (0 for writes). Traffic goes on meanwhile.
    ///
    /// # Errors
    /// The first access that fails, or a broken rule.
    pub fn access(&mut self, accesses: &[LiteAccess]) -> Result<Vec<u32>, Error> {
        let values = self.bench.access(self.registers, accesses)?;
        self.collect()?;
        Ok(values)
    }

    /// Writes a register.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn write_register(&mut self, offset: u32, value: u32) -> Result<(), Error> {
        self.access(&[LiteAccess::Write { offset, value }]).map(|_| ())
    }

    /// Reads a register.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn read_register(&mut self, offset: u32) -> Result<u32, Error> {
        let values = self.access(&[LiteAccess::Read { offset }])?;
        Ok(values.first().copied().unwrap_or_default())
    }

    /// Reads a 64-bit counter: low half, then the high half that was held.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn counter(&mut self, name: CounterName) -> Result<u64, Error> {
        self.counter_at(COUNTERS[name as usize].offset)
    }

    /// Reads all counters of an array.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn counters(&mut self, name: ArrayName) -> Result<Vec<u64>, Error> {
        let array = &ARRAYS[name as usize];
        (0..array.count).map(|element| self.counter_at(array.offset_of(element))).collect()
    }

    /// Reads the counters of a function.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn function_counters(&mut self, function: u8) -> Result<FunctionCounters, Error> {
        let mut element = |name: ArrayName| self.counter_at(ARRAYS[name as usize].offset_of(function.into()));
        let successes = element(ArrayName::FunctionSuccesses)?;
        let errors = element(ArrayName::FunctionErrors)?;
        let tlb_misses = element(ArrayName::FunctionTlbMisses)?;
        Ok(FunctionCounters { requests: successes + errors, errors, tlb_misses })
    }

    /// Requests and line reads in flight now.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn in_flight(&mut self) -> Result<(u32, u32), Error> {
        let requests = self.read_register(regs::requests_in_flight::REGISTER.offset)?;
        Ok((requests, self.read_register(regs::reads_in_flight::REGISTER.offset)?))
    }

    fn counter_at(&mut self, offset: u32) -> Result<u64, Error> {
        let halves = self.access(&[LiteAccess::Read { offset }, LiteAccess::Read { offset: offset + 4 }])?;
        Ok(bits::get(&halves, 0, 64))
    }

    /// Writes geometry, BT0 slots, key space, function map and controls. BT0 slots that an earlier setup set and this
    /// one leaves out, in a table that it lists, are unset.
    ///
    /// # Errors
    /// A value outside its register's field, more table sets than the engine has, an access that fails, or a broken
    /// rule.
    pub fn setup(&mut self, setup: &Setup) -> Result<(), Error> {
        let accesses = setup_accesses(&self.config, setup, &mut self.bt0_set)?;
        self.access(&accesses).map(|_| ())
    }

    /// Writes the switches only. The engine should be idle.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn set_controls(&mut self, controls: &Controls) -> Result<(), Error> {
        let accesses = control_accesses(controls)?;
        self.access(&accesses).map(|_| ())
    }

    /// Tag and function as the engine returns them: bits beyond the configured width read as zero.
    fn returned(&self, function: u8, tag: u16) -> (u8, u16) {
        let mask = |value: u64, bits: u32| value & bits::max(bits);
        (mask(function.into(), self.config.function_bits) as u8, mask(tag.into(), self.config.tag_bits) as u16)
    }

    /// Queues a request. Tags need not be unique.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn submit(&mut self, request: &Request) -> Result<(), Error> {
        push_request(&mut self.bench[self.requests], request)?;
        let (function, tag) = self.returned(request.function, request.tag);
        *self.outstanding.entry(Owner::new(function, tag)).or_default() += 1;
        self.outstanding_total += 1;
        Ok(())
    }

    /// Queues a context lookup.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn submit_context(&mut self, lookup: &ContextLookup) -> Result<(), Error> {
        use ports::context_request as fields;
        self.push_context(&[
            (fields::TAG, lookup.tag.into()),
            (fields::FUNCTION, lookup.function.into()),
            (fields::TABLE, lookup.table.into()),
            (fields::INDEX, lookup.index.into()),
        ])
    }

    /// Queues a queue-buffer walk.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn submit_walk(&mut self, walk: &BufferWalk) -> Result<(), Error> {
        use ports::context_request as fields;
        self.push_context(&[
            (fields::TAG, walk.tag.into()),
            (fields::FUNCTION, walk.function.into()),
            (fields::IS_WALK, 1),
            (fields::INDEX, walk.index.into()),
            (fields::ROOT, walk.root),
            (fields::HOP, walk.hop.into()),
            (fields::BA_PG_SZ, walk.ba_pg_sz.into()),
            (fields::BUF_PG_SZ, walk.buf_pg_sz.into()),
            (fields::COUNT, walk.count.into()),
        ])
    }

    fn push_context<const COUNT: usize>(&mut self, values: &[(Field, u64); COUNT]) -> Result<(), Error> {
        let driver = &mut self.bench[self.context_requests];
        let beat = pack(driver, values)?;
        driver.push(beat);
        self.context_outstanding += 1;
        Ok(())
    }

    /// Queues an invalidation.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn submit_invalidation(&mut self, invalidation: &Invalidation) -> Result<(), Error> {
        push_invalidation(&mut self.bench[self.invalidations], invalidation)?;
        self.invalidations_outstanding += 1;
        Ok(())
    }

    /// Queues a work request.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`]; [`Error::NoSuchPort`] for an engine without a command unit.
    pub fn submit_work(&mut self, request: &WorkRequest) -> Result<(), Error> {
        use work::work_request as fields;
        let (requests, _) = self.work_ports()?;
        let driver = &mut self.bench[requests];
        let mut beat = pack(
            driver,
            &[
                (fields::TAG, request.tag.into()),
                (fields::FUNCTION, request.function.into()),
                (fields::PRIVILEGED, request.privileged.into()),
                (fields::PD, request.pd.into()),
                (fields::QPN, request.qpn.into()),
            ],
        )?;
        for (offset, byte) in (fields::WQE_0.low..).step_by(8).zip(request.wqe) {
            bits::set(beat.words_mut(), offset, 8, byte.into());
        }
        driver.push(beat);
        self.work_outstanding += 1;
        Ok(())
    }

    /// Removes the oldest answer to a work request.
    pub fn pop_work(&mut self) -> Option<WorkAnswer> {
        self.work_answers.pop_front()
    }

    fn work_ports(&self) -> Result<(Handle<StreamDriver>, Handle<StreamSink>), Error> {
        self.work.ok_or_else(|| Error::NoSuchPort {
            dut: self.bench.model().dut().name,
            wanted: "input",
            port: work::STREAMS[0].axi_name.into(),
            known: "none of a command unit: see `command_unit` of the configuration".into(),
        })
    }

    /// Stages a command descriptor and starts it; false where the command unit did not take it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], an access that fails, or a broken rule.
    pub fn start_command(
        &mut self,
        opcode: u16,
        function: u8,
        data: &[u32; command::DATA_WORDS],
    ) -> Result<bool, Error> {
        let start = register(&[
            (command::command_start::OPCODE, opcode.into()),
            (command::command_start::FUNCTION, function.into()),
        ])?;
        let staged = command::REGISTERS.iter().zip(data).map(|(register, word)| write(register, *word));
        self.access(&staged.collect::<Vec<_>>())?;
        let starts = &command::REGISTERS[command::DATA_WORDS];
        match self.access(&[write(starts, start)]) {
            Ok(_) => Ok(true),
            Err(Error::RegisterAccess { offset, .. }) if offset == starts.offset => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// State of the mailbox.
    ///
    /// # Errors
    /// An access that fails, or a broken rule.
    pub fn mailbox(&mut self) -> Result<MailboxState, Error> {
        let read = |number: usize| LiteAccess::Read { offset: command::REGISTERS[number].offset };
        let words = self.access(&[read(command::DATA_WORDS + 1), read(command::DATA_WORDS + 2)])?;
        let get = |field: Field| bits::get(&words, field.low, field.width);
        Ok(MailboxState {
            status: get(mailbox_status::STATUS) as u8,
            token: get(mailbox_status::TOKEN) as u16,
            is_busy: get(mailbox_status::BUSY) != 0,
        })
    }

    /// Reports on `s_axis_done` that the DMA of a response has completed, some cycles from now. Only needed where
    /// [`EngineOptions::automatic_done`] is off.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn report_done(&mut self, function: u8, tag: u16) -> Result<(), Error> {
        use ports::done as fields;
        let range = self.options.done_delay_cycles.clone();
        let delay = if range.start() < range.end() { self.random.random_range(range) } else { *range.start() };
        let cycle = self.cycles() + u64::from(delay);
        let driver = &mut self.bench[self.done];
        let beat = pack(driver, &[(fields::TAG, tag.into()), (fields::FUNCTION, function.into())])?;
        driver.push_not_before(beat, cycle);
        Ok(())
    }

    /// Runs one clock cycle.
    ///
    /// # Errors
    /// A broken rule.
    pub fn step(&mut self) -> Result<(), Error> {
        self.bench.cycle()?;
        self.collect()
    }

    /// Runs some clock cycles.
    ///
    /// # Errors
    /// A broken rule.
    pub fn run(&mut self, cycles: u64) -> Result<(), Error> {
        for _ in 0..cycles {
            self.step()?;
        }
        Ok(())
    }

    /// Runs until the condition holds, for at most `limit_cycles`.
    ///
    /// # Errors
    /// [`Error::Timeout`], which says what was waited for, or a broken rule.
    pub fn run_until(
        &mut self,
        waited_for: &str,
        limit_cycles: u64,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Result<(), Error> {
        let start = self.cycles();
        while !condition(self) {
            if self.cycles() - start >= limit_cycles {
                return Err(self.timeout(waited_for, limit_cycles));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Runs until everything that was submitted is answered. Fails when nothing arrives for `limit_cycles`.
    ///
    /// # Errors
    /// [`Error::Timeout`], or a broken rule.
    pub fn drain(&mut self, limit_cycles: u64) -> Result<(), Error> {
        self.last_progress_cycle = self.cycles();
        while self.outstanding() > 0 {
            if self.cycles() - self.last_progress_cycle >= limit_cycles {
                return Err(self.timeout("an answer to what was submitted", limit_cycles));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Submits one request and waits for its response. Other responses stay to be popped.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`run_until`](Self::run_until).
    pub fn translate(&mut self, request: &Request, limit_cycles: u64) -> Result<Response, Error> {
        let wanted = self.returned(request.function, request.tag);
        self.submit(request)?;
        let is_wanted = |response: &Response| (response.function, response.tag) == wanted;
        self.run_until("the response", limit_cycles, |engine| engine.complete.iter().any(is_wanted))?;
        let position = self.complete.iter().position(is_wanted);
        position.and_then(|position| self.complete.remove(position)).ok_or_else(|| self.timeout("the response", 0))
    }

    /// Requests, lookups, walks, invalidations and work requests that are not completely answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding_total + self.context_outstanding + self.invalidations_outstanding + self.work_outstanding
    }

    /// Complete responses that wait to be popped.
    #[must_use]
    pub fn responses(&self) -> &VecDeque<Response> {
        &self.complete
    }

    /// Removes the oldest complete response.
    pub fn pop_response(&mut self) -> Option<Response> {
        self.complete.pop_front()
    }

    /// Answers of the context port that wait to be popped.
    #[must_use]
    pub fn context_answers(&self) -> &VecDeque<ContextAnswer> {
        &self.context_answers
    }

    /// Removes the oldest answer of the context port.
    pub fn pop_context(&mut self) -> Option<ContextAnswer> {
        self.context_answers.pop_front()
    }

    /// Removes the tag of the oldest completed invalidation.
    pub fn pop_invalidated(&mut self) -> Option<u16> {
        self.pop_completion().map(|completion| completion.tag)
    }

    /// Removes the oldest completion of an invalidation.
    pub fn pop_completion(&mut self) -> Option<Completion> {
        self.invalidated.pop_front()
    }

    /// Removes the oldest event of the fault port.
    pub fn pop_fault(&mut self) -> Option<FaultEvent> {
        self.events.pop_front()
    }

    fn timeout(&self, waited_for: &str, limit_cycles: u64) -> Error {
        let memory = &self.bench[self.memory];
        let mut tags: Vec<_> = self.outstanding.keys().map(ToString::to_string).collect();
        tags.sort();
        tags.truncate(8);
        Error::Timeout {
            waited_for: waited_for.into(),
            limit_cycles,
            cycle: self.cycles(),
            state: format!(
                "{} requests without response, function/tag {}; {} of them not accepted; {} context requests and {} \
                 invalidations without answer; {} table reads accepted, {} in flight",
                self.outstanding_total,
                if tags.is_empty() { "none".into() } else { tags.join(" ") },
                self.bench[self.requests].pending(),
                self.context_outstanding,
                self.invalidations_outstanding,
                memory.accepted(),
                memory.in_flight(),
            ),
        }
    }

    /// Decodes what the sinks took.
    fn collect(&mut self) -> Result<(), Error> {
        while let Some(received) = self.bench[self.responses].pop() {
            self.last_progress_cycle = received.cycle;
            let segment = segment_of(&received);
            self.bench[self.responses].recycle(received);
            self.segment(segment)?;
        }
        while let Some(received) = self.bench[self.context_responses].pop() {
            use ports::context_response as fields;
            let get = |field: Field| bits::get(received.beat.words(), field.low, field.width);
            self.last_progress_cycle = received.cycle;
            self.context_outstanding = Self::answered("m_axis_ctx", self.context_outstanding, received.cycle)?;
            self.context_answers.push_back(ContextAnswer {
                tag: get(fields::TAG) as u16,
                function: get(fields::FUNCTION) as u8,
                status: get(fields::STATUS) as u8,
                table: get(fields::TABLE) as u8,
                hop: get(fields::HOP) as u8,
                address: get(fields::ADDRESS),
                cycle: received.cycle,
            });
        }
        while let Some(received) = self.bench[self.completions].pop() {
            use ports::invalidated as fields;
            self.last_progress_cycle = received.cycle;
            let outstanding = self.invalidations_outstanding;
            self.invalidations_outstanding = Self::answered("m_axis_inv", outstanding, received.cycle)?;
            self.invalidated.push_back(Completion {
                tag: bits::get(received.beat.words(), fields::TAG.low, fields::TAG.width) as u16,
                cycle: received.cycle,
                valid_cycle: received.valid_cycle,
            });
        }
        while let Some((_, answers)) = self.work
            && let Some(received) = self.bench[answers].pop()
        {
            use work::work_response as fields;
            let get = |field: Field| bits::get(received.beat.words(), field.low, field.width);
            self.last_progress_cycle = received.cycle;
            self.work_outstanding = Self::answered("m_axis_work", self.work_outstanding, received.cycle)?;
            self.work_answers.push_back(WorkAnswer {
                tag: get(fields::TAG) as u16,
                function: get(fields::FUNCTION) as u8,
                status: get(fields::STATUS) as u8,
                cqe_code: get(fields::CQE_CODE) as u8,
                cycle: received.cycle,
            });
        }
        while let Some(received) = self.bench[self.faults].pop() {
            use ports::fault as fields;
            let get = |field: Field| bits::get(received.beat.words(), field.low, field.width);
            self.events.push_back(FaultEvent {
                tag: get(fields::TAG) as u16,
                function: get(fields::FUNCTION) as u8,
                status: get(fields::STATUS) as u8,
                table: get(fields::TABLE) as u8,
                hop: get(fields::HOP) as u8,
                is_context: get(fields::IS_CONTEXT) != 0,
                index: get(fields::INDEX) as u32,
                va: get(fields::VA),
                cycle: received.cycle,
            });
        }
        Ok(())
    }

    /// One request fewer without an answer.
    fn answered(port: &str, outstanding: usize, cycle: u64) -> Result<usize, Error> {
        outstanding
            .checked_sub(1)
            .ok_or_else(|| violation(Rule::AnswersARequest, port, cycle, "nothing is outstanding", "an answer"))
    }

    /// Adds a beat to the response that has begun.
    fn segment(&mut self, segment: Segment) -> Result<(), Error> {
        let fail =
            |rule, before: String| Err(violation(rule, "m_axis_rsp", segment.cycle, before, format!("{segment:x?}")));
        let owner = Owner::new(segment.function, segment.tag);
        if let Some(first) = self.open.first()
            && Owner::new(first.function, first.tag) != owner
        {
            let before = format!("function {} tag {:#x} has not ended", first.function, first.tag);
            return fail(Rule::SegmentsTogether, before);
        }
        let number = self.open.len() as u64;
        // The number wraps with its width.
        if u64::from(segment.segment) != number & ports::response::SEGMENT.max() || segment.first != (number == 0) {
            return fail(Rule::SegmentOrder, format!("segment {number}, first {}", number == 0));
        }
        let Entry::Occupied(mut request) = self.outstanding.entry(owner) else {
            return fail(Rule::AnswersARequest, "no such request is outstanding".into());
        };
        if !segment.last {
            self.open.push(segment);
            return Ok(());
        }
        *request.get_mut() -= 1;
        if *request.get() == 0 {
            request.remove();
        }
        self.outstanding_total -= 1;
        // Most responses have one segment.
        let segments = if self.open.is_empty() {
            vec![segment]
        } else {
            self.open.push(segment);
            std::mem::take(&mut self.open)
        };
        self.complete.push_back(Response { tag: segment.tag, function: segment.function, segments });
        if self.options.automatic_done {
            self.report_done(segment.function, segment.tag)?;
        }
        Ok(())
    }
}
