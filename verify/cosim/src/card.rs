//! The bench of module `keywalk_card`: host memory and the host's register accesses at the PCIe IP's ports, the requester and
//! the user's registers at the engine's clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;

use keywalk_contract::mover::{self, READ_STREAM, WRITE_STREAM};
use keywalk_contract::ports::{self, Direction};
use keywalk_contract::{Config, regs};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::axi_lite::{AxiLite, LiteAccess};
use crate::bench::Component;
use crate::bus_memory::{ByteMemory, FAULT_BYTES, data_of, set_data};
use crate::channel::Channel;
use crate::dut::Dut;
use crate::engine::{self, Bt0Slots, Invalidation, Request, Setup};
use crate::error::{Error, Rule, violation};
use crate::model::{Input, Model, Output, Signal};
use crate::stall::Stall;
use crate::stream::{StreamDriver, StreamSink};
use crate::two_clocks::TwoClocks;

/// The engine's side.
const ENGINE: usize = 0;
/// The PCIe IP's side.
const PCIE: usize = 1;
/// Edges of the engine's clock within which the card must become ready, or answer a register access.
const PATIENCE: u64 = 100_000;
/// AXI response SLVERR.
const SLAVE_ERROR: u128 = 2;
/// AXI burst type INCR.
const BURST_INCREMENTING: u128 = 1;
const PAGE_BYTES: u64 = 4096;

/// How a card's bench behaves.
#[derive(Clone, Debug)]
pub struct CardOptions {
    /// Everything random follows from it.
    pub seed: u64,
    /// Half periods of the engine's and the PCIe clock.
    pub half_periods: [u64; 2],
    /// Edges of the PCIe clock from an address, or the last beat of a write, to the host's answer.
    pub host_latency: RangeInclusive<u64>,
    /// On all channels of the host.
    pub host_stall: Stall,
    /// On all streams.
    pub stream_stall: Stall,
}

impl Default for CardOptions {
    /// The engine at 250 MHz, the PCIe IP at 200, 20 edges of latency, no stalls.
    fn default() -> Self {
        Self {
            seed: 1,
            half_periods: [2000, 2500],
            host_latency: 20..=20,
            host_stall: Stall::NEVER,
            stream_stall: Stall::NEVER,
        }
    }
}

impl CardOptions {
    /// Stalls everywhere, answers of reads and writes out of order.
    #[must_use]
    pub fn rough(seed: u64) -> Self {
        Self {
            seed,
            host_latency: 1..=60,
            host_stall: Stall::percent(25).up_to(6),
            stream_stall: Stall::percent(25).up_to(6),
            ..Self::default()
        }
    }
}

/// A beat that the card read from host memory or wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its first byte.
    pub address: u64,
    /// A write, of at least one byte.
    pub is_write: bool,
    /// It is the data mover's, not the engine's.
    pub is_movers: bool,
    /// Edge of the engine's clock before which it was under way last: its data was taken, or its write was answered.
    pub engine_edge: u64,
}

/// A read of the host's.
struct HostRead {
    due: u64,
    id: u64,
    address: u64,
    /// What was there when its address came, beat by beat; none where the bus answers with an error.
    beats: Vec<Option<Vec<u8>>>,
}

/// A write whose data have not all come.
struct HostWrite {
    id: u64,
    address: u64,
    beats: u64,
    received: u64,
    is_faulty: bool,
    bytes: Vec<(u64, u8)>,
    beats_written: Vec<u64>,
}

/// Host memory behind `m_axi_host`.
struct Host {
    ar: StreamSink,
    r: StreamDriver,
    aw: StreamSink,
    w: StreamSink,
    b: StreamDriver,
    lite: AxiLite,
    beat_bytes: u64,
    reads: VecDeque<HostRead>,
    writes: VecDeque<HostWrite>,
    /// Complete writes: when they may be answered.
    answers: VecDeque<(u64, HostWrite)>,
    /// Beats that were given to the driver and not taken yet.
    offered: VecDeque<Vec<(u64, bool, u64)>>,
    accepted: [u64; 2],
    answered: VecDeque<Vec<(u64, bool, u64)>>,
}

/// The user's registers behind `m_axil_user`.
struct User {
    aw: StreamSink,
    w: StreamSink,
    b: StreamDriver,
    ar: StreamSink,
    r: StreamDriver,
    registers: HashMap<u64, u32>,
}

/// A card with everything around it. Use: [`new`](Self::new), [`setup`](Self::setup), then push, step and pop.
pub struct Card {
    clocks: TwoClocks,
    config: Config,
    options: CardOptions,
    random: ChaCha8Rng,
    host: Host,
    /// Where the card has a port for them: in one with a probe that has the registers.
    user: Option<User>,
    drivers: BTreeMap<&'static str, StreamDriver>,
    sinks: BTreeMap<&'static str, StreamSink>,
    engine_reset_n: Input,
    pcie_reset_n: Input,
    keywalk_reset_n: Output,
    interrupt_request: Output,
    interrupt_acknowledge: Input,
    /// Host memory. A read sees what was there when its address came, a write is seen when it is answered.
    pub memory: ByteMemory,
    /// Numbers of [`FAULT_BYTES`] that are answered with a bus error, and are not written.
    pub faults: BTreeSet<u64>,
    /// Beats that were moved, in the order of their ends; to be emptied by whoever wants them.
    pub transfers: Vec<Transfer>,
    bt0_set: Bt0Slots,
}

impl Card {
    /// Builds the bench, resets the card and waits until the engine is ready.
    ///
    /// # Errors
    /// A design without the ports of a card, a broken rule, or an engine that does not become ready.
    ///
    /// # Panics
    /// On a design that was not generated.
    pub fn new(dut: &'static Dut, options: CardOptions) -> Result<Self, Error> {
        let clocks = TwoClocks::new(dut, options.seed, ["engine_aclk", "pcie_aclk"], options.half_periods)?;
        let model = &clocks.model;
        let config = dut.config().expect("a card is generated");
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        let mut fork = || ChaCha8Rng::seed_from_u64(random.next_u64());
        let mut driver =
            |name: &str, stall| Ok::<_, Error>(StreamDriver::new(Channel::with_prefix(model, name)?, stall, fork()));
        let (r, b) = (driver("m_axi_host_r", options.host_stall)?, driver("m_axi_host_b", options.host_stall)?);
        let has = |port: &str| dut.port(port).is_some();
        let user = if has("m_axil_user_rdata") {
            Some((driver("m_axil_user_r", Stall::NEVER)?, driver("m_axil_user_b", Stall::NEVER)?))
        } else {
            None
        };
        let mut drivers = BTreeMap::new();
        if has(&format!("{WRITE_STREAM}_tdata")) {
            drivers.insert(WRITE_STREAM, driver(&format!("{WRITE_STREAM}_t"), options.stream_stall)?);
        }
        let mut sink =
            |name: &str, stall| Ok::<_, Error>(StreamSink::new(Channel::with_prefix(model, name)?, stall, fork()));
        let host = Host {
            ar: sink("m_axi_host_ar", options.host_stall)?,
            aw: sink("m_axi_host_aw", options.host_stall)?,
            w: sink("m_axi_host_w", options.host_stall)?,
            beat_bytes: u64::from(r.channel().shape().field("data")?.width / 8),
            r,
            b,
            lite: AxiLite::new(model, "s_axil_host", Stall::NEVER, ChaCha8Rng::seed_from_u64(options.seed))?,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            answers: VecDeque::new(),
            offered: VecDeque::new(),
            accepted: [0; 2],
            answered: VecDeque::new(),
        };
        let user = match user {
            Some((r, b)) => Some(User {
                aw: sink("m_axil_user_aw", Stall::NEVER)?,
                w: sink("m_axil_user_w", Stall::NEVER)?,
                b,
                ar: sink("m_axil_user_ar", Stall::NEVER)?,
                r,
                registers: HashMap::new(),
            }),
            None => None,
        };
        let mut sinks = BTreeMap::new();
        if has(&format!("{READ_STREAM}_tdata")) {
            sinks.insert(READ_STREAM, sink(&format!("{READ_STREAM}_t"), options.stream_stall)?);
        }
        for port in ports::streams(&config).chain(&mover::STREAMS) {
            if dut.port(&format!("{}_tvalid", port.axi_name)).is_none() {
                continue;
            }
            let channel = Channel::axi_stream(model, port.axi_name, &port.layout)?;
            match port.direction {
                Direction::In => {
                    drivers.insert(port.axi_name, StreamDriver::new(channel, options.stream_stall, fork()));
                }
                Direction::Out => {
                    sinks.insert(port.axi_name, StreamSink::new(channel, options.stream_stall, fork()));
                }
            }
        }
        let mut card = Self {
            engine_reset_n: model.input("engine_aresetn")?,
            pcie_reset_n: model.input("pcie_aresetn")?,
            keywalk_reset_n: model.output("keywalk_aresetn")?,
            interrupt_request: model.output("usr_irq_req")?,
            interrupt_acknowledge: model.input("usr_irq_ack")?,
            random: fork(),
            clocks,
            config,
            options,
            host,
            user,
            drivers,
            sinks,
            memory: ByteMemory::default(),
            faults: BTreeSet::new(),
            transfers: Vec::new(),
            bt0_set: HashMap::new(),
        };
        // The device was configured just now, and the IP is in reset.
        card.set_resets([false, true]);
        while card.edges() < 10 || card.clocks.edges(PCIE) < 10 {
            card.step()?;
        }
        card.set_resets([false; 2]);
        card.run_until("the engine is out of reset", PATIENCE, Self::is_up)?;
        card.wait_until_ready()?;
        Ok(card)
    }

    /// Waits until `status.ready`: caches are empty.
    ///
    /// # Errors
    /// A register access that fails, or a broken rule.
    pub fn wait_until_ready(&mut self) -> Result<(), Error> {
        let start = self.edges();
        while self.read_register(regs::status::REGISTER.offset)? >> regs::status::READY.low & 1 == 0 {
            if self.edges() - start > PATIENCE {
                return Err(self.timeout("`status.ready`", PATIENCE));
            }
        }
        Ok(())
    }

    /// Asserts or releases the resets of the engine's side and of the PCIe IP.
    pub fn set_resets(&mut self, in_reset: [bool; 2]) {
        self.clocks.model.set(self.engine_reset_n, (!in_reset[ENGINE]).into());
        self.clocks.model.set(self.pcie_reset_n, (!in_reset[PCIE]).into());
        self.clocks.model.settle();
    }

    /// Whether the engine is out of reset.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.clocks.model.get(self.keywalk_reset_n) == 1
    }

    /// Whether the card asks for an interrupt.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        self.clocks.model.get(self.interrupt_request) == 1
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Edges of the engine's clock so far.
    #[must_use]
    pub fn edges(&self) -> u64 {
        self.clocks.edges(ENGINE)
    }

    /// The driver of a stream of the requester.
    ///
    /// # Panics
    /// Where the card has no such stream.
    pub fn driver(&mut self, stream: &str) -> &mut StreamDriver {
        self.drivers.get_mut(stream).unwrap_or_else(|| panic!("the card has no stream {stream} in"))
    }

    /// The sink of a stream of the requester.
    ///
    /// # Panics
    /// Where the card has no such stream.
    pub fn sink(&mut self, stream: &str) -> &mut StreamSink {
        self.sinks.get_mut(stream).unwrap_or_else(|| panic!("the card has no stream {stream} out"))
    }

    /// What the user's logic holds in its registers.
    ///
    /// # Panics
    /// Where the card has no port for them.
    pub fn user_registers(&mut self) -> &mut HashMap<u64, u32> {
        &mut self.user.as_mut().expect("the card has a port for the user's registers").registers
    }

    /// Performs the host's register accesses and returns the values of all of them (0 for writes).
    ///
    /// # Errors
    /// The first access that fails, or a broken rule.
    pub fn access(&mut self, accesses: &[LiteAccess]) -> Result<Vec<u32>, Error> {
        accesses.iter().for_each(|access| self.host.lite.push(*access));
        let mut values = Vec::with_capacity(accesses.len());
        let mut last = self.edges();
        while values.len() < accesses.len() {
            self.step()?;
            if let Some(result) = self.host.lite.pop() {
                last = self.edges();
                match result.error {
                    Some(error) => return Err(error),
                    None => values.push(result.value),
                }
            }
            if self.edges() - last > PATIENCE {
                return Err(self.timeout(&format!("the answer to {:x?}", accesses[values.len()]), PATIENCE));
            }
        }
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

    /// Writes geometry, BT0 slots, key space, function map and controls, as [`Engine::setup`](crate::Engine::setup) does.
    ///
    /// # Errors
    /// A value outside its register's field, more table sets than the engine has, an access that fails, or a broken rule.
    pub fn setup(&mut self, setup: &Setup) -> Result<(), Error> {
        let accesses = engine::setup_accesses(&self.config, setup, &mut self.bt0_set)?;
        self.access(&accesses).map(|_| ())
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn submit(&mut self, request: &Request) -> Result<(), Error> {
        engine::push_request(self.driver("s_axis_req"), request)
    }

    /// Queues an invalidation.
    ///
    /// # Errors
    /// [`Error::ValueTooWide`].
    pub fn submit_invalidation(&mut self, invalidation: &Invalidation) -> Result<(), Error> {
        engine::push_invalidation(self.driver("s_axis_inv"), invalidation)
    }

    /// Queues the payload of a write.
    ///
    /// # Errors
    /// [`Error::NoSuchField`].
    pub fn push_payload(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let beat_bytes = self.config.mover_beat_bytes() as usize;
        let count = bytes.len().div_ceil(beat_bytes).max(1);
        for number in 0..count {
            let part = &bytes[number * beat_bytes..bytes.len().min((number + 1) * beat_bytes)];
            let driver = self.drivers.get_mut(WRITE_STREAM).expect("a card without a probe has it");
            let mut beat = driver.blank();
            set_data(driver.channel(), &mut beat, part, &mut self.random);
            beat.set("keep", (1u128 << part.len()) - 1)?;
            beat.set("last", (number + 1 == count).into())?;
            driver.push(beat);
        }
        Ok(())
    }

    /// Removes the oldest packet of what was read, if it is there to its end: its bytes, and whether it is bad.
    ///
    /// # Errors
    /// [`Error::NoSuchField`].
    pub fn pop_packet(&mut self, begun: &mut Vec<u8>) -> Result<Option<(Vec<u8>, bool)>, Error> {
        let sink = self.sinks.get_mut(READ_STREAM).expect("a card without a probe has it");
        while let Some(received) = sink.pop() {
            let keep = received.get("keep")?;
            let bytes = data_of(sink.channel(), &received.beat);
            begun.extend(bytes.iter().zip(0..).filter(|(_, byte)| keep >> byte & 1 == 1).map(|(value, _)| *value));
            if received.get("last")? == 1 {
                return Ok(Some((std::mem::take(begun), received.get("user")? == 1)));
            }
        }
        Ok(None)
    }

    /// Addresses of the bursts that the host has accepted and whose last answer has not been taken.
    #[must_use]
    pub fn under_way(&self) -> Vec<u64> {
        let host = &self.host;
        let reads = host.reads.iter().map(|read| read.address);
        let writes = host.writes.iter().chain(host.answers.iter().map(|(_, write)| write)).map(|write| write.address);
        let answered = host.offered.iter().chain(&host.answered).flatten().map(|(address, ..)| *address);
        reads.chain(writes).chain(answered).collect()
    }

    /// Runs until the condition holds, for at most `limit` edges of the engine's clock.
    ///
    /// # Errors
    /// [`Error::Timeout`], or a broken rule.
    pub fn run_until(
        &mut self,
        waited_for: &str,
        limit: u64,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Result<(), Error> {
        let start = self.edges();
        while !condition(self) {
            if self.edges() - start >= limit {
                return Err(self.timeout(waited_for, limit));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Runs for so many edges of the engine's clock.
    ///
    /// # Errors
    /// A broken rule.
    pub fn run(&mut self, edges: u64) -> Result<(), Error> {
        let end = self.edges() + edges;
        while self.edges() < end {
            self.step()?;
        }
        Ok(())
    }

    fn timeout(&self, waited_for: &str, limit: u64) -> Error {
        let state = format!(
            "{} reads and {} writes at the host, link {}",
            self.host.reads.len(),
            self.host.writes.len() + self.host.answers.len(),
            if self.is_up() { "up" } else { "down" }
        );
        Error::Timeout { waited_for: waited_for.into(), limit_cycles: limit, cycle: self.edges(), state }
    }

    /// An edge of one clock or of both.
    ///
    /// # Errors
    /// A broken rule.
    pub fn step(&mut self) -> Result<(), Error> {
        let rising = self.clocks.approach();
        let pcie_in_reset = self.clocks.model.get(Signal::from(self.pcie_reset_n)) == 0;
        if rising[ENGINE] {
            let model = &mut self.clocks.model;
            self.user.iter_mut().flat_map(User::components).for_each(|component| component.drive(model));
            self.drivers.values_mut().for_each(|driver| driver.drive(model));
            self.sinks.values_mut().for_each(|sink| sink.drive(model));
        }
        if rising[PCIE] {
            let model = &mut self.clocks.model;
            self.host.components().into_iter().for_each(|component| component.drive(model));
            // An interrupt is acknowledged at once.
            let request = model.get(self.interrupt_request);
            model.set(self.interrupt_acknowledge, request);
        }
        self.clocks.model.settle();
        if rising[ENGINE] {
            if self.is_up() {
                let model = &self.clocks.model;
                self.user.iter_mut().flat_map(User::components).try_for_each(|component| component.sample(model))?;
                self.drivers.values_mut().try_for_each(|driver| driver.sample(model))?;
                self.sinks.values_mut().try_for_each(|sink| sink.sample(model))?;
                self.user.iter_mut().try_for_each(User::service)?;
            } else {
                let model = &mut self.clocks.model;
                self.user.iter_mut().flat_map(User::components).for_each(|component| component.reset(model));
                self.drivers.values_mut().for_each(|driver| driver.reset(model));
                self.sinks.values_mut().for_each(|sink| sink.reset(model));
            }
        }
        if rising[PCIE] {
            if pcie_in_reset {
                let model = &mut self.clocks.model;
                self.host.reset(model);
            } else {
                let model = &self.clocks.model;
                self.host.components().into_iter().try_for_each(|component| component.sample(model))?;
                self.service_host()?;
            }
        }
        self.clocks.rise();
        Ok(())
    }

    fn is_faulty(&self, address: u64) -> bool {
        self.faults.contains(&(address / FAULT_BYTES))
    }

    fn due(&mut self) -> u64 {
        self.clocks.edges(PCIE) + self.random.random_range(self.options.host_latency.clone())
    }

    /// Address, beats and identifier of a burst, which is checked.
    fn burst(&self, sink: &StreamSink, received: &crate::Received) -> Result<(u64, u64, u64), Error> {
        let field = |name| received.get(name).map(|value| value as u64);
        let (address, beats, id) = (field("addr")?, field("len")? + 1, field("id")?);
        let bytes = self.host.beat_bytes;
        let fail = |rule, expected: String| {
            Err(violation(rule, sink.channel().shape().name(), received.cycle, expected, format!("{received:?}")))
        };
        if received.get("size")? != u128::from(bytes.trailing_zeros()) {
            return fail(Rule::BurstSize, format!("beats of {bytes} bytes"));
        }
        if received.get("burst")? != BURST_INCREMENTING {
            return fail(Rule::BurstType, format!("burst {BURST_INCREMENTING}"));
        }
        let first = address / bytes * bytes;
        if first % PAGE_BYTES + beats * bytes > PAGE_BYTES {
            return fail(Rule::BurstWithin4KiB, "all bytes in one 4 KiB page".into());
        }
        Ok((first, beats, id))
    }

    /// What came to the host, and its answers.
    fn service_host(&mut self) -> Result<(), Error> {
        let now = self.clocks.edges(PCIE);
        let bytes = self.host.beat_bytes;
        while let Some(received) = self.host.ar.pop() {
            let (address, count, id) = self.burst(&self.host.ar, &received)?;
            let at = (0..count).map(|beat| address + beat * bytes);
            let beats = at.map(|at| (!self.is_faulty(at)).then(|| self.memory.read(at, bytes))).collect();
            let due = self.due();
            self.host.reads.push_back(HostRead { due, id, address, beats });
        }
        // Answers with one identifier in order, others in any; one burst after the other.
        let mut seen = BTreeSet::new();
        let due: Vec<usize> = (0..self.host.reads.len())
            .filter(|place| seen.insert(self.host.reads[*place].id) && self.host.reads[*place].due <= now)
            .collect();
        if self.host.r.pending() == 0
            && let Some(place) = due.get(self.random.random_range(0..due.len().max(1))).copied()
            && let Some(read) = self.host.reads.remove(place)
        {
            let count = read.beats.len();
            for (number, data) in read.beats.into_iter().enumerate() {
                let driver = &mut self.host.r;
                let mut beat = driver.blank();
                beat.set("id", read.id.into())?;
                beat.set("last", (number + 1 == count).into())?;
                beat.set("resp", if data.is_none() { SLAVE_ERROR } else { 0 })?;
                set_data(driver.channel(), &mut beat, &data.unwrap_or_default(), &mut self.random);
                driver.push(beat);
                self.host.offered.push_back(vec![(read.address + number as u64 * bytes, false, read.id)]);
            }
        }
        while let Some(received) = self.host.aw.pop() {
            let (address, beats, id) = self.burst(&self.host.aw, &received)?;
            let (bytes, beats_written) = (Vec::new(), Vec::new());
            let write = HostWrite { id, address, beats, received: 0, is_faulty: false, bytes, beats_written };
            self.host.writes.push_back(write);
        }
        while !self.host.writes.is_empty()
            && let Some(received) = self.host.w.pop()
        {
            let data = data_of(self.host.w.channel(), &received.beat);
            let strobes = received.get("strb")?;
            let faults = &self.faults;
            let write = self.host.writes.front_mut().expect("is there");
            let at = write.address + write.received * bytes;
            let is_faulty = faults.contains(&(at / FAULT_BYTES));
            write.is_faulty |= is_faulty;
            if strobes != 0 {
                write.beats_written.push(at);
            }
            let enabled = (0..bytes).filter(|byte| strobes >> byte & 1 == 1 && !is_faulty);
            write.bytes.extend(enabled.map(|byte| (at + byte, data[byte as usize])));
            write.received += 1;
            let is_last = write.received == write.beats;
            if (received.get("last")? == 1) != is_last {
                let expected = format!("{} beats at {:#x}", write.beats, write.address);
                let found = format!("last {} in beat {}", !is_last, write.received - 1);
                return Err(violation(Rule::LastBeat, "m_axi_host_w", received.cycle, expected, found));
            }
            if is_last && let Some(write) = self.host.writes.pop_front() {
                let due = self.due();
                self.host.answers.push_back((due, write));
            }
        }
        let mut seen = BTreeSet::new();
        let place = self.host.answers.iter().position(|(due, write)| seen.insert(write.id) && *due <= now);
        if let Some((_, write)) = place.and_then(|place| self.host.answers.remove(place)) {
            write.bytes.iter().for_each(|(address, value)| self.memory.set(*address, *value));
            let resp = if write.is_faulty { SLAVE_ERROR } else { 0 };
            self.host.b.push_fields(&[("id", write.id.into()), ("resp", resp)])?;
            self.host.answered.push_back(write.beats_written.iter().map(|at| (*at, true, write.id)).collect());
        }
        // What has been taken has ended.
        let engine_edge = self.clocks.edges(ENGINE);
        let mover_id = 1 << mover_bit(&self.host.r)?;
        for (side, accepted) in [self.host.r.accepted(), self.host.b.accepted()].into_iter().enumerate() {
            while self.host.accepted[side] < accepted {
                self.host.accepted[side] += 1;
                let list = if side == 0 { &mut self.host.offered } else { &mut self.host.answered };
                for (address, is_write, id) in list.pop_front().into_iter().flatten() {
                    let is_movers = id & mover_id != 0;
                    self.transfers.push(Transfer { address, is_write, is_movers, engine_edge });
                }
            }
        }
        Ok(())
    }
}

/// The bit of an identifier that says the data mover.
fn mover_bit(driver: &StreamDriver) -> Result<u32, Error> {
    Ok(driver.channel().shape().field("id")?.width - 1)
}

impl Host {
    fn components(&mut self) -> [&mut dyn Component; 6] {
        [&mut self.ar, &mut self.r, &mut self.aw, &mut self.w, &mut self.b, &mut self.lite]
    }

    /// The IP forgets what it has accepted.
    fn reset(&mut self, model: &mut Model) {
        self.components().into_iter().for_each(|component| component.reset(model));
        self.reads.clear();
        self.writes.clear();
        self.answers.clear();
        self.offered.clear();
        self.answered.clear();
        self.accepted = [self.r.accepted(), self.b.accepted()];
    }
}

impl User {
    fn components(&mut self) -> [&mut dyn Component; 5] {
        [&mut self.aw, &mut self.w, &mut self.b, &mut self.ar, &mut self.r]
    }

    fn service(&mut self) -> Result<(), Error> {
        if !self.w.is_empty()
            && let Some(address) = self.aw.pop()
            && let Some(data) = self.w.pop()
        {
            self.registers.insert(address.get("addr")? as u64, data.get("data")? as u32);
            self.b.push_fields(&[("resp", 0)])?;
        }
        if let Some(address) = self.ar.pop() {
            let value = self.registers.get(&(address.get("addr")? as u64)).copied().unwrap_or_default();
            self.r.push_fields(&[("data", value.into()), ("resp", 0)])?;
        }
        Ok(())
    }
}
