//! The shell between the engine and the PCIe IP: every channel, with clocks of any ratio, stalls, and resets of either side at
//! any time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use keywalk_cosim::{
    AxiLite, Beat, Channel, Component, Dut, Error, Input, LiteAccess, Output, Stall, StreamDriver, StreamSink,
    TwoClocks, dut,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The engine's side.
const ENGINE: usize = 0;
/// The PCIe IP's side.
const PCIE: usize = 1;

/// Same width, wider by four and by two, narrower.
const SHELLS: [&Dut; 4] = [&dut::SHELL, &dut::SHELL_WIDER_4, &dut::SHELL_WIDER_2, &dut::SHELL_NARROWER];

/// Half periods of the engine's and the PCIe clock: faster, equal, slower, far apart.
const CLOCKS: [[u64; 2]; 5] = [[1600, 2000], [2000, 2000], [2000, 1600], [700, 3100], [3100, 700]];

/// Bytes of the pieces in which memory is kept and compared.
const PIECE_BYTES: u64 = 16;
/// Identifiers of reads and writes, and how many are used at a time.
const IDS: u64 = 512;
const IN_FLIGHT: usize = 256;
/// Every burst lies in an area of its own, so that a byte in the wrong place is seen.
const AREA_BYTES: u64 = 4096;
/// An answer of the host that is no success.
const SLVERR: u128 = 2;
/// What the host answers to a write at an address: in some areas an error.
const fn write_answer(address: u64) -> u128 {
    if address / AREA_BYTES % 7 == 3 { SLVERR + (address / AREA_BYTES % 2) as u128 } else { 0 }
}
/// Edges of the engine's clock within which the link must come up and everything must be answered.
const PATIENCE: u64 = 30_000;

/// What host memory holds at a piece that was never written.
fn content(piece: u64) -> u128 {
    let mut random = ChaCha8Rng::seed_from_u64(piece);
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}

/// Bytes with a mask of those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    data: u128,
    mask: u16,
}

impl Piece {
    fn bits(self) -> u128 {
        (0..16).filter(|byte| self.mask >> byte & 1 == 1).fold(0, |bits, byte| bits | 0xff << (8 * byte))
    }

    /// Adds bytes.
    fn write(&mut self, data: u128, mask: u16) {
        let new = Self { data, mask };
        self.data = self.data & !new.bits() | data & new.bits();
        self.mask |= mask;
    }
}

/// A burst that the engine has asked for.
#[derive(Clone, Debug)]
struct Burst {
    address: u64,
    beats: u64,
    /// Beats of a read that were answered.
    done: u64,
}

/// An identifier that is not used; they are taken all over their range.
fn free_id<T>(used: &HashMap<u64, T>) -> Option<u64> {
    (0..IDS).map(|number| number * 5 % IDS).find(|id| used.len() < IN_FLIGHT && !used.contains_key(id))
}

/// Whole beats, INCR, normal memory that may be buffered, no exclusive access.
fn check_constants(address: &Beat, beat_bytes: u64) -> Result<(), Error> {
    let found = ["burst", "lock", "cache", "prot"].map(|field| address.get(field));
    let [burst, lock, cache, prot] = found;
    assert_eq!((burst?, lock?, cache?, prot?), (1, 0, 3, 0));
    assert_eq!(1 << address.get("size")? as u32, beat_bytes);
    Ok(())
}

/// A field of data or strobes of a beat, in pieces.
fn lanes(beat: &Beat, field: &str, piece_bits: u32) -> Result<Vec<u128>, Error> {
    let field = beat.shape().field(field)?;
    let lanes = field.width / piece_bits;
    Ok((0..lanes)
        .map(|lane| keywalk_cosim::bits::get_wide(beat.words(), field.low + lane * piece_bits, piece_bits))
        .collect())
}

fn set_lanes(beat: &mut Beat, field: &str, piece_bits: u32, values: &[u128]) -> Result<(), Error> {
    let low = beat.shape().field(field)?.low;
    for (lane, value) in values.iter().enumerate() {
        keywalk_cosim::bits::set_wide(beat.words_mut(), low + lane as u32 * piece_bits, piece_bits, *value);
    }
    Ok(())
}

/// The engine's ports, and what is expected at them.
struct EngineSide {
    ar: StreamDriver,
    r: StreamSink,
    aw: StreamDriver,
    w: StreamDriver,
    b: StreamSink,
    register_aw: StreamSink,
    register_w: StreamSink,
    register_b: StreamDriver,
    register_ar: StreamSink,
    register_r: StreamDriver,
    beat_bytes: u64,
    reads: HashMap<u64, Burst>,
    writes: HashMap<u64, Vec<u64>>,
    registers: HashMap<u64, u32>,
    /// What the last read of a register was answered with.
    register_answer: u32,
    reads_done: u64,
    writes_done: u64,
}

/// A write that the host has begun to receive.
struct HostWrite {
    id: u64,
    address: u64,
    beats: u64,
    received: u64,
}

/// The PCIe IP's ports and host memory.
struct HostSide {
    ar: StreamSink,
    r: StreamDriver,
    aw: StreamSink,
    w: StreamSink,
    b: StreamDriver,
    lite: AxiLite,
    beat_bytes: u64,
    /// Reads with the time at which each may be answered.
    reads: VecDeque<(u64, Burst)>,
    writes: VecDeque<HostWrite>,
    /// Times, identifiers and answers of writes.
    answers: VecDeque<(u64, u64, u128)>,
    memory: HashMap<u64, Piece>,
}

struct Shell {
    bench: TwoClocks,
    random: ChaCha8Rng,
    engine: EngineSide,
    host: HostSide,
    engine_reset_n: Input,
    pcie_reset_n: Input,
    keywalk_reset_n: Output,
    link_up: Output,
    /// Answers of the host come after 0 to this many edges of its clock.
    host_latency: u64,
    /// Bytes that writes may write, by piece.
    written: BTreeMap<u64, Piece>,
    next_area: u64,
    /// An access to a register may fail when the link was down since it began.
    may_refuse: bool,
    /// Address of the last access.
    asked: u64,
    accesses: u64,
    refused: u64,
    /// The link as seen at the last edge of the PCIe clock, and how often it came up.
    was_up: bool,
    times_up: u64,
}

/// How a run stalls.
#[derive(Clone, Copy)]
struct Stalls {
    drivers: Stall,
    sinks: Stall,
}

const NO_STALLS: Stalls = Stalls { drivers: Stall::NEVER, sinks: Stall::NEVER };
const STALLS: Stalls = Stalls { drivers: Stall::percent(30).up_to(6), sinks: Stall::percent(40).up_to(9) };

impl Shell {
    fn new(design: &'static Dut, seed: u64, clocks: [u64; 2], stalls: Stalls) -> Result<Self, Error> {
        let bench = TwoClocks::new(design, seed, ["engine_aclk", "pcie_aclk"], clocks)?;
        let model = &bench.model;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut fork = || ChaCha8Rng::seed_from_u64(random.next_u64());
        let mut driver =
            |name: &str| Ok::<_, Error>(StreamDriver::new(Channel::with_prefix(model, name)?, stalls.drivers, fork()));
        let (ar, aw, w) = (driver("s_axi_mem_ar")?, driver("s_axi_mem_aw")?, driver("s_axi_mem_w")?);
        let (register_b, register_r) = (driver("m_axil_reg_b")?, driver("m_axil_reg_r")?);
        let (host_r, host_b) = (driver("m_axi_host_r")?, driver("m_axi_host_b")?);
        let mut sink =
            |name: &str| Ok::<_, Error>(StreamSink::new(Channel::with_prefix(model, name)?, stalls.sinks, fork()));
        let beat_bytes = |channel: &Channel| Ok::<_, Error>(u64::from(channel.shape().field("data")?.width / 8));
        let engine = EngineSide {
            beat_bytes: beat_bytes(w.channel())?,
            ar,
            r: sink("s_axi_mem_r")?,
            aw,
            w,
            b: sink("s_axi_mem_b")?,
            register_aw: sink("m_axil_reg_aw")?,
            register_w: sink("m_axil_reg_w")?,
            register_b,
            register_ar: sink("m_axil_reg_ar")?,
            register_r,
            reads: HashMap::new(),
            writes: HashMap::new(),
            registers: HashMap::new(),
            register_answer: 0,
            reads_done: 0,
            writes_done: 0,
        };
        let host = HostSide {
            beat_bytes: beat_bytes(host_r.channel())?,
            ar: sink("m_axi_host_ar")?,
            r: host_r,
            aw: sink("m_axi_host_aw")?,
            w: sink("m_axi_host_w")?,
            b: host_b,
            lite: AxiLite::new(model, "s_axil_host", stalls.drivers, fork())?,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            answers: VecDeque::new(),
            memory: HashMap::new(),
        };
        let mut shell = Self {
            random: fork(),
            engine,
            host,
            engine_reset_n: model.input("engine_aresetn")?,
            pcie_reset_n: model.input("pcie_aresetn")?,
            keywalk_reset_n: model.output("keywalk_aresetn")?,
            link_up: model.output("link_up")?,
            host_latency: 60,
            written: BTreeMap::new(),
            next_area: 1,
            may_refuse: true,
            asked: 0,
            accesses: 0,
            refused: 0,
            was_up: false,
            times_up: 0,
            bench,
        };
        // The device was configured just now, and the IP is in reset. Nobody resets the engine's side.
        shell.set_resets([false, true]);
        while shell.bench.edges(PCIE) < 10 {
            shell.step()?;
        }
        shell.set_resets([false; 2]);
        Ok(shell)
    }

    fn set_resets(&mut self, in_reset: [bool; 2]) {
        self.bench.model.set(self.engine_reset_n, (!in_reset[ENGINE]).into());
        self.bench.model.set(self.pcie_reset_n, (!in_reset[PCIE]).into());
    }

    fn is_up(&self) -> bool {
        self.bench.model.get(self.keywalk_reset_n) == 1
    }

    /// A burst of up to 8 beats in an area of its own, which begins at any byte.
    fn burst(&mut self, beats_max: u64) -> Burst {
        let bytes = self.engine.beat_bytes;
        let beats = self.random.random_range(1..=beats_max);
        let start = self.random.random_range(0..AREA_BYTES - beats * bytes) / bytes * bytes;
        // Mostly whole lines, as the engine reads them.
        let offset = if self.random.random_bool(0.7) { 0 } else { self.random.random_range(0..bytes) };
        self.next_area += 1;
        Burst { address: self.next_area * AREA_BYTES + start + offset, beats, done: 0 }
    }

    fn address(burst: &Burst, id: u64) -> [(&'static str, u128); 3] {
        [("id", id.into()), ("addr", burst.address.into()), ("len", (burst.beats - 1).into())]
    }

    /// A line of 64 bytes.
    fn line(&mut self) -> Burst {
        self.next_area += 1;
        Burst { address: self.next_area * AREA_BYTES, beats: 64 / self.engine.beat_bytes, done: 0 }
    }

    fn ask_read(&mut self, burst: Burst) -> Result<(), Error> {
        let Some(id) = free_id(&self.engine.reads) else { return Ok(()) };
        self.engine.ar.push_fields(&Self::address(&burst, id))?;
        self.engine.reads.insert(id, burst);
        Ok(())
    }

    fn ask_write(&mut self, burst: Burst) -> Result<(), Error> {
        let Some(id) = free_id(&self.engine.writes) else { return Ok(()) };
        self.engine.aw.push_fields(&Self::address(&burst, id))?;
        let bytes = self.engine.beat_bytes;
        let first = burst.address / bytes * bytes;
        let mut touched = Vec::new();
        for beat_number in 0..burst.beats {
            let last = u128::from(beat_number + 1 == burst.beats);
            let mut beat = Beat::random_with(self.engine.w.channel().shape(), &[("last", last)], &mut self.random)?;
            let data = lanes(&beat, "data", 128)?;
            let mut strobes = lanes(&beat, "strb", 16)?;
            let full = self.random.random_bool(0.5);
            for (lane, (data, strobes)) in data.iter().zip(&mut strobes).enumerate() {
                let address = first + beat_number * bytes + lane as u64 * PIECE_BYTES;
                if full {
                    *strobes = 0xffff;
                }
                // Bytes before the begin of a burst are not enabled.
                let before = burst.address.saturating_sub(address).min(16);
                *strobes &= (0xffff_u128 << before) & 0xffff;
                let mask = *strobes as u16;
                self.written.entry(address / PIECE_BYTES).or_default().write(*data, mask);
                touched.push(address / PIECE_BYTES);
            }
            set_lanes(&mut beat, "strb", 16, &strobes)?;
            self.engine.w.push(beat);
        }
        self.engine.writes.insert(id, touched);
        Ok(())
    }

    fn ask_register(&mut self) {
        // Few registers, and every bit of the address.
        let offset = (4 * self.random.random_range(0..64)) << self.random.random_range(0..=6);
        let access = if self.random.random_bool(0.5) {
            LiteAccess::Write { offset, value: self.random.random() }
        } else {
            LiteAccess::Read { offset }
        };
        if self.host.lite.is_idle() {
            let is_up = self.was_up && self.bench.model.get(self.link_up) == 1;
            let is_reset = self.bench.model.get(keywalk_cosim::Signal::from(self.pcie_reset_n)) == 0;
            self.may_refuse = is_reset || !is_up;
            self.asked = offset.into();
            self.host.lite.push(access);
        }
    }

    /// An edge of one clock or of both.
    fn step(&mut self) -> Result<(), Error> {
        let rising = self.bench.approach();
        if rising[ENGINE] {
            self.engine.drive(&mut self.bench.model);
        }
        let pcie_in_reset = self.bench.model.get(keywalk_cosim::Signal::from(self.pcie_reset_n)) == 0;
        if rising[PCIE] {
            self.host.drive(&mut self.bench.model);
        }
        self.bench.model.settle();
        if rising[ENGINE] {
            if self.is_up() {
                self.engine.sample(&self.bench.model)?;
                self.check_engine()?;
            } else {
                self.engine.reset(&mut self.bench.model);
            }
        }
        if rising[PCIE] {
            let up = self.bench.model.get(self.link_up) == 1;
            self.may_refuse |= !up;
            self.times_up += u64::from(up && !self.was_up);
            self.was_up = up;
            if pcie_in_reset {
                self.host.reset(&mut self.bench.model);
            } else {
                self.host.sample(&self.bench.model)?;
                self.check_host()?;
            }
        }
        self.bench.rise();
        Ok(())
    }

    /// What came to the engine.
    fn check_engine(&mut self) -> Result<(), Error> {
        let engine = &mut self.engine;
        while let Some(received) = engine.r.pop() {
            let id = received.get("id")? as u64;
            let burst = engine.reads.get_mut(&id).unwrap_or_else(|| panic!("data of a read {id} that nobody made"));
            let first = burst.address / engine.beat_bytes * engine.beat_bytes + burst.done * engine.beat_bytes;
            for (lane, data) in lanes(&received.beat, "data", 128)?.into_iter().enumerate() {
                let piece = first / PIECE_BYTES + lane as u64;
                assert_eq!(data, content(piece), "beat {} of {burst:x?}, lane {lane}", burst.done);
            }
            let resp = u128::from((burst.address / AREA_BYTES).is_multiple_of(5)) * SLVERR;
            assert_eq!(received.get("resp")?, resp, "{burst:x?}");
            burst.done += 1;
            assert_eq!(received.get("last")?, u128::from(burst.done == burst.beats), "{burst:x?}");
            if burst.done == burst.beats {
                engine.reads.remove(&id);
                engine.reads_done += 1;
            }
        }
        while let Some(received) = engine.b.pop() {
            let id = received.get("id")? as u64;
            let pieces = engine.writes.remove(&id).unwrap_or_else(|| panic!("answer of a write {id} that nobody made"));
            assert_eq!(
                received.get("resp")?,
                write_answer(pieces[0] * PIECE_BYTES),
                "write at {:x}",
                pieces[0] * PIECE_BYTES
            );
            for piece in pieces {
                let (expected, found) = (self.written[&piece], self.host.memory.get(&piece).copied());
                let found = found.unwrap_or_default();
                assert_eq!(found.mask, expected.mask, "bytes of {piece:x} behind its answer");
            }
            engine.writes_done += 1;
        }
        // Registers answer at once, and refuse every 16th address.
        if let (true, true) = (!engine.register_aw.is_empty(), !engine.register_w.is_empty()) {
            let address = engine.register_aw.pop().expect("is there").get("addr")? as u64;
            let write = engine.register_w.pop().expect("is there");
            assert_eq!(write.get("strb")?, 0xf);
            let data = write.get("data")? as u32;
            assert!(self.may_refuse || address == self.asked, "{address:x}, the host wrote {:x}", self.asked);
            engine.registers.insert(address, data);
            engine.register_b.push_fields(&[("resp", u128::from(address % 64 == 60) * SLVERR)])?;
        }
        if let Some(read) = engine.register_ar.pop() {
            let address = read.get("addr")? as u64;
            assert!(self.may_refuse || address == self.asked, "{address:x}, the host read {:x}", self.asked);
            let data = engine.registers.get(&address).copied().unwrap_or(address as u32);
            engine.register_answer = data;
            let resp = u128::from(address % 64 == 60) * SLVERR;
            engine.register_r.push_fields(&[("resp", resp), ("data", data.into())])?;
        }
        Ok(())
    }

    /// What came to the host.
    fn check_host(&mut self) -> Result<(), Error> {
        let now = self.bench.edges(PCIE);
        let host = &mut self.host;
        while let Some(received) = host.ar.pop() {
            check_constants(&received.beat, host.beat_bytes)?;
            let (address, beats) = (received.get("addr")? as u64, received.get("len")? as u64 + 1);
            assert!(
                address / 4096 == (address / host.beat_bytes * host.beat_bytes + beats * host.beat_bytes - 1) / 4096
            );
            let time = now + self.random.random_range(0..=self.host_latency);
            let burst = Burst { address, beats, done: received.get("id")? as u64 };
            host.reads.push_back((time, burst));
        }
        // Answers in any order, one burst after the other.
        if host.r.pending() == 0
            && let Some(place) = {
                let due: Vec<usize> =
                    (0..host.reads.len().min(16)).filter(|place| host.reads[*place].0 <= now).collect();
                due.get(self.random.random_range(0..due.len().max(1))).copied()
            }
        {
            let (_, burst) = host.reads.remove(place).expect("is there");
            let first = burst.address / host.beat_bytes * host.beat_bytes;
            for number in 0..burst.beats {
                let mut beat = host.r.blank();
                beat.set("id", burst.done.into())?;
                beat.set("resp", u128::from((burst.address / AREA_BYTES).is_multiple_of(5)) * SLVERR)?;
                beat.set("last", u128::from(number + 1 == burst.beats))?;
                let piece = (first + number * host.beat_bytes) / PIECE_BYTES;
                let data: Vec<u128> = (0..host.beat_bytes / PIECE_BYTES).map(|lane| content(piece + lane)).collect();
                set_lanes(&mut beat, "data", 128, &data)?;
                host.r.push(beat);
            }
        }
        while let Some(received) = host.aw.pop() {
            check_constants(&received.beat, host.beat_bytes)?;
            host.writes.push_back(HostWrite {
                id: received.get("id")? as u64,
                address: received.get("addr")? as u64,
                beats: received.get("len")? as u64 + 1,
                received: 0,
            });
        }
        while !host.writes.is_empty()
            && let Some(received) = host.w.pop()
        {
            let write = host.writes.front_mut().expect("is there");
            let first = write.address / host.beat_bytes * host.beat_bytes + write.received * host.beat_bytes;
            let strobes = lanes(&received.beat, "strb", 16)?;
            for (lane, data) in lanes(&received.beat, "data", 128)?.into_iter().enumerate() {
                let piece = first / PIECE_BYTES + lane as u64;
                let new = Piece { data, mask: strobes[lane] as u16 };
                if new.mask != 0 {
                    let allowed = self.written.get(&piece).copied().unwrap_or_default();
                    assert_eq!(new.mask & !allowed.mask, 0, "bytes of {piece:x} that nobody wrote");
                    assert_eq!(new.data & new.bits(), allowed.data & new.bits(), "content of {piece:x}");
                    let old = host.memory.entry(piece).or_default();
                    assert_eq!(old.mask & new.mask, 0, "bytes of {piece:x} are written twice");
                    old.write(new.data, new.mask);
                }
            }
            write.received += 1;
            assert_eq!(received.get("last")?, u128::from(write.received == write.beats));
            if write.received == write.beats {
                let write = host.writes.pop_front().expect("is there");
                let time = now + self.random.random_range(0..=self.host_latency);
                host.answers.push_back((time, write.id, write_answer(write.address)));
            }
        }
        if let Some(place) = host.answers.iter().position(|(time, ..)| *time <= now) {
            let (_, id, resp) = host.answers.remove(place).expect("is there");
            host.b.push_fields(&[("id", id.into()), ("resp", resp)])?;
        }
        while let Some(result) = host.lite.pop() {
            self.accesses += 1;
            let offset = match result.access {
                LiteAccess::Write { offset, .. } | LiteAccess::Read { offset } => u64::from(offset),
            };
            if result.error.is_some() != (offset % 64 == 60) {
                assert!(result.error.is_some() && self.may_refuse, "{result:?} with the link up");
                self.refused += 1;
            } else if let (None, LiteAccess::Read { .. }) = (&result.error, result.access) {
                assert_eq!(result.value, self.engine.register_answer, "register {offset:x}");
            }
        }
        Ok(())
    }

    /// Whether nothing is under way anywhere.
    fn is_idle(&self) -> bool {
        let engine = &self.engine;
        self.is_up()
            && engine.reads.is_empty()
            && engine.writes.is_empty()
            && self.host.lite.is_idle()
            && self.host.reads.is_empty()
            && self.host.writes.is_empty()
            && self.host.answers.is_empty()
            && self.host.w.is_empty()
    }

    /// Runs until a condition holds.
    fn run_until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let limit = self.bench.edges(ENGINE) + PATIENCE;
        while !condition(self) {
            assert!(self.bench.edges(ENGINE) < limit, "{what} does not come: {}", self.state());
            self.step()?;
        }
        Ok(())
    }

    fn state(&self) -> String {
        format!(
            "{} reads and {} writes wait; the host has {} reads, {} writes, {} answers; link up {}",
            self.engine.reads.len(),
            self.engine.writes.len(),
            self.host.reads.len(),
            self.host.writes.len(),
            self.host.answers.len(),
            self.was_up
        )
    }

    /// Random traffic for so many edges of the engine's clock.
    fn traffic(&mut self, edges: u64) -> Result<(), Error> {
        let end = self.bench.edges(ENGINE) + edges;
        while self.bench.edges(ENGINE) < end {
            self.ask()?;
            self.step()?;
        }
        Ok(())
    }

    fn ask(&mut self) -> Result<(), Error> {
        if self.is_up() {
            if self.engine.ar.pending() < 4 && self.random.random_bool(0.3) {
                let burst = self.burst(8);
                self.ask_read(burst)?;
            }
            if self.engine.aw.pending() < 4 && self.random.random_bool(0.2) {
                let burst = self.burst(8);
                self.ask_write(burst)?;
            }
        }
        if self.random.random_bool(0.1) {
            self.ask_register();
        }
        Ok(())
    }
}

impl EngineSide {
    fn components(&mut self) -> [&mut dyn Component; 10] {
        [
            &mut self.ar,
            &mut self.r,
            &mut self.aw,
            &mut self.w,
            &mut self.b,
            &mut self.register_aw,
            &mut self.register_w,
            &mut self.register_b,
            &mut self.register_ar,
            &mut self.register_r,
        ]
    }

    fn drive(&mut self, model: &mut keywalk_cosim::Model) {
        self.components().into_iter().for_each(|component| component.drive(model));
    }

    fn sample(&mut self, model: &keywalk_cosim::Model) -> Result<(), Error> {
        self.components().into_iter().try_for_each(|component| component.sample(model))
    }

    fn reset(&mut self, model: &mut keywalk_cosim::Model) {
        self.components().into_iter().for_each(|component| component.reset(model));
        self.reads.clear();
        self.writes.clear();
        self.registers.clear();
    }
}

impl HostSide {
    fn components(&mut self) -> [&mut dyn Component; 6] {
        [&mut self.ar, &mut self.r, &mut self.aw, &mut self.w, &mut self.b, &mut self.lite]
    }

    fn drive(&mut self, model: &mut keywalk_cosim::Model) {
        self.components().into_iter().for_each(|component| component.drive(model));
    }

    fn sample(&mut self, model: &keywalk_cosim::Model) -> Result<(), Error> {
        self.components().into_iter().try_for_each(|component| component.sample(model))
    }

    /// The IP forgets what it has accepted.
    fn reset(&mut self, model: &mut keywalk_cosim::Model) {
        self.components().into_iter().for_each(|component| component.reset(model));
        self.reads.clear();
        self.writes.clear();
        self.answers.clear();
    }
}

#[test]
fn every_channel_keeps_everything_in_order() -> Result<(), Error> {
    for design in SHELLS {
        for clocks in CLOCKS {
            for (number, stalls) in [NO_STALLS, STALLS].into_iter().enumerate() {
                let mut shell = Shell::new(design, 11 + number as u64, clocks, stalls)?;
                shell.run_until("the link", Shell::is_up)?;
                shell.traffic(6000)?;
                shell.run_until("the end", Shell::is_idle)?;
                let (reads, writes) = (shell.engine.reads_done, shell.engine.writes_done);
                assert!(reads > 150 && writes > 50 && shell.accesses > 30, "{reads} reads, {writes} writes");
                // Only what was asked for before the link was up first.
                assert!(shell.refused <= 1 && shell.times_up == 1, "{} refused", shell.refused);
            }
        }
    }
    Ok(())
}

/// Resets of one side, the other or both, from a single edge to many, in traffic; then traffic must pass.
fn resets(design: &'static Dut, seed: u64, clocks: [u64; 2]) -> Result<(), Error> {
    let mut shell = Shell::new(design, seed, clocks, STALLS)?;
    let resets = 40;
    for _ in 0..resets {
        let edges = shell.random.random_range(0..600);
        shell.traffic(edges)?;
        let (first, second) =
            [(ENGINE, None), (PCIE, None), (ENGINE, Some(PCIE)), (PCIE, Some(ENGINE))][shell.random.random_range(0..4)];
        let mut in_reset = [false; 2];
        in_reset[first] = true;
        shell.set_resets_at(in_reset)?;
        let longest = if shell.random.random_bool(0.5) { 4 } else { 120 };
        if let Some(second) = second {
            shell.wait(longest)?;
            in_reset[second] = true;
            shell.set_resets_at(in_reset)?;
            shell.wait(longest)?;
            in_reset[if shell.random.random_bool(0.5) { first } else { second }] = false;
            shell.set_resets_at(in_reset)?;
        }
        shell.wait(longest)?;
        shell.set_resets_at([false; 2])?;
    }
    shell.run_until("the link", |shell| shell.is_up() && shell.was_up)?;
    let done = shell.engine.reads_done;
    shell.traffic(3000)?;
    shell.run_until("the end", Shell::is_idle)?;
    assert!(shell.engine.reads_done > done + 50, "no traffic behind {resets} resets");
    assert!(shell.times_up > 10, "the link was up {} times in {resets} resets", shell.times_up);
    println!(
        "{} {clocks:?}: {resets} resets, up {} times, {} reads, {} writes, {} of {} accesses refused",
        design.name, shell.times_up, shell.engine.reads_done, shell.engine.writes_done, shell.refused, shell.accesses
    );
    Ok(())
}

#[test]
fn a_reset_of_either_side_at_any_time_leaves_a_working_link() -> Result<(), Error> {
    for (number, design) in SHELLS.into_iter().enumerate() {
        for (ratio, clocks) in CLOCKS.into_iter().enumerate() {
            resets(design, 100 + 10 * number as u64 + ratio as u64, clocks)?;
        }
    }
    Ok(())
}

#[test]
fn faults_of_the_reset_plan_are_found() {
    for design in [&dut::SHELL_FORGETS, &dut::SHELL_KEEPS_HALF, &dut::SHELL_ABANDONS_BURSTS] {
        let is_found = (0..20).any(|seed| {
            let clocks = CLOCKS[seed as usize % CLOCKS.len()];
            std::panic::catch_unwind(|| resets(design, 1 + seed, clocks)).map_or(true, |result| result.is_err())
        });
        assert!(is_found, "{}", design.name);
    }
}

impl Shell {
    /// Changes the resets: the PCIe IP's right behind an edge of its clock, the engine's wherever it is.
    fn set_resets_at(&mut self, in_reset: [bool; 2]) -> Result<(), Error> {
        let edges = self.bench.edges(PCIE);
        while self.bench.edges(PCIE) == edges {
            self.ask()?;
            self.step()?;
        }
        self.set_resets(in_reset);
        self.bench.model.settle();
        Ok(())
    }

    fn wait(&mut self, longest: u64) -> Result<(), Error> {
        for _ in 0..self.random.random_range(0..longest) {
            self.ask()?;
            self.step()?;
        }
        Ok(())
    }
}

#[test]
fn a_reset_shorter_than_a_cycle_is_caught() -> Result<(), Error> {
    let mut shell = Shell::new(&dut::SHELL, 5, [2000, 1700], STALLS)?;
    shell.run_until("the link", Shell::is_up)?;
    for _ in 0..20 {
        shell.traffic(300)?;
        let before = shell.times_up;
        // Between two edges.
        shell.set_resets([true, false]);
        shell.bench.model.settle();
        shell.set_resets([false; 2]);
        shell.bench.model.settle();
        shell.run_until("the link, down and up", |shell| shell.times_up > before && shell.is_up())?;
    }
    shell.traffic(300)?;
    shell.run_until("the end", Shell::is_idle)
}

#[test]
fn a_host_that_does_not_answer_keeps_the_engine_in_reset() -> Result<(), Error> {
    let mut shell = Shell::new(&dut::SHELL, 6, [2000, 2300], NO_STALLS)?;
    shell.run_until("the link", Shell::is_up)?;
    shell.host_latency = 1 << 40;
    while shell.host.reads.len() < 20 {
        let burst = shell.burst(4);
        shell.ask_read(burst)?;
        shell.step()?;
    }
    shell.set_resets([true, false]);
    shell.bench.model.settle();
    shell.step()?;
    shell.set_resets([false; 2]);
    for _ in 0..4000 {
        shell.step()?;
    }
    assert!(!shell.is_up(), "the engine works although {} reads are in flight", shell.host.reads.len());
    // Registers answer meanwhile, with an error.
    shell.ask_register();
    shell.run_until("the answer", |shell| shell.host.lite.is_idle())?;
    assert!(shell.refused > 0);
    for (time, _) in &mut shell.host.reads {
        *time = 0;
    }
    shell.run_until("the link", Shell::is_up)?;
    assert!(shell.host.reads.is_empty() && shell.engine.reads_done == 0);
    shell.host_latency = 20;
    shell.traffic(500)?;
    shell.run_until("the end", Shell::is_idle)
}

#[test]
fn both_directions_run_at_full_rate() -> Result<(), Error> {
    for design in SHELLS {
        for clocks in CLOCKS {
            let mut shell = Shell::new(design, 9, clocks, NO_STALLS)?;
            shell.run_until("the link", Shell::is_up)?;
            shell.host_latency = 0;
            let begin = shell.bench.edges(ENGINE);
            let mut start = [0; 3];
            while shell.bench.edges(ENGINE) < begin + 6000 {
                while shell.engine.ar.pending() < 4 && shell.engine.reads.len() < 200 {
                    let line = shell.line();
                    shell.ask_read(line)?;
                }
                while shell.engine.aw.pending() < 4 && shell.engine.writes.len() < 200 {
                    let line = shell.line();
                    shell.ask_write(line)?;
                }
                shell.step()?;
                if start[2] == 0 && shell.bench.edges(ENGINE) > begin + 1000 {
                    start = shell.counts();
                }
            }
            let end = shell.counts();
            let [reads, writes, edges] = [0, 1, 2].map(|number| (end[number] - start[number]) as f64);
            // Widths are converted in the engine's clock, by beats of the narrower side.
            let beats = |bytes: u64| 64.0 / bytes as f64;
            let engine_time = clocks[ENGINE] as f64 * beats(shell.engine.beat_bytes.min(shell.host.beat_bytes));
            let host_time = clocks[PCIE] as f64 * beats(shell.host.beat_bytes);
            let lines = edges * clocks[ENGINE] as f64 / engine_time.max(host_time);
            let (reads, writes) = (reads / lines, writes / lines);
            println!("{}, half periods {clocks:?}: reads {reads:.3}, writes {writes:.3} of the slower", design.name);
            assert!(reads > 0.99 && writes > 0.99, "{}, half periods {clocks:?}: {reads} {writes}", design.name);
        }
    }
    Ok(())
}

impl Shell {
    /// Lines read and written, and edges of the engine's clock.
    fn counts(&self) -> [u64; 3] {
        [self.engine.reads_done, self.engine.writes_done, self.bench.edges(ENGINE)]
    }
}

#[test]
fn an_interrupt_is_sent_until_it_was_served() -> Result<(), Error> {
    for clocks in CLOCKS {
        let mut shell = Shell::new(&dut::SHELL, 4, clocks, NO_STALLS)?;
        shell.run_until("the link", Shell::is_up)?;
        let level = shell.bench.model.input("interrupt_level")?;
        let acknowledge = shell.bench.model.input("usr_irq_ack")?;
        let request = shell.bench.model.output("usr_irq_req")?;
        let is_requested = move |shell: &Shell| shell.bench.model.get(request) == 1;
        for round in 0..6 {
            shell.bench.model.set(level, 1);
            shell.run_until("the request", is_requested)?;
            // It stays until it is acknowledged, even if the level falls.
            if round % 2 == 1 {
                shell.bench.model.set(level, 0);
            }
            let end = shell.bench.edges(PCIE) + 40;
            while shell.bench.edges(PCIE) < end {
                shell.step()?;
                assert!(is_requested(&shell), "withdrawn before it was acknowledged");
            }
            let edges = shell.bench.edges(PCIE);
            shell.bench.model.set(acknowledge, 1);
            while shell.bench.edges(PCIE) == edges {
                shell.step()?;
            }
            shell.bench.model.set(acknowledge, 0);
            if round % 2 == 0 {
                // The level stays: it is sent again.
                shell.run_until("the pause", |shell| !is_requested(shell))?;
                shell.run_until("the request again", is_requested)?;
                let edges = shell.bench.edges(PCIE);
                shell.bench.model.set(acknowledge, 1);
                while shell.bench.edges(PCIE) == edges {
                    shell.step()?;
                }
                shell.bench.model.set(acknowledge, 0);
                shell.bench.model.set(level, 0);
            }
            shell.run_until("the end", |shell| !is_requested(shell))?;
            let end = shell.bench.edges(PCIE) + 600;
            while shell.bench.edges(PCIE) < end {
                shell.step()?;
                assert!(!is_requested(&shell), "a request of no level");
            }
        }
    }
    Ok(())
}
