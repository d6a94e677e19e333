//! The write channels of an AXI4 master: the memory's answers, and the rules that they must keep.

use std::collections::{HashSet, VecDeque};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::axi_read::{BURST_INCREMENTING, LINE_BYTES};
use crate::bench::Component;
use crate::bits;
use crate::channel::{Activity, Channel, Stability, check_low_in_reset};
use crate::error::{Error, Rule, violation};
use crate::memory::{LineMemory, MemoryOptions, SLAVE_ERROR};
use crate::model::{Input, Model, Signal};
use crate::stall::Staller;

/// The AW, W and B channels of an AXI4 master that writes lines of 64 bytes.
#[derive(Clone, Debug)]
pub struct WritePort {
    address_channel: Channel,
    data_channel: Channel,
    response_channel: Channel,
    address_id: Signal,
    address: Signal,
    length: Signal,
    size: Signal,
    burst: Signal,
    data: Signal,
    strobes: Signal,
    last: Signal,
    response_id: Input,
    response: Input,
}

impl WritePort {
    /// The port with AXI's names: `<name>_awaddr`, `<name>_wdata` and so on.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`], [`Error::NoSuchField`].
    pub fn axi(model: &Model, name: &str) -> Result<Self, Error> {
        let address_channel = Channel::with_prefix(model, &format!("{name}_aw"))?;
        let data_channel = Channel::with_prefix(model, &format!("{name}_w"))?;
        let response_channel = Channel::with_prefix(model, &format!("{name}_b"))?;
        Ok(Self {
            address_id: address_channel.signal("id")?,
            address: address_channel.signal("addr")?,
            length: address_channel.signal("len")?,
            size: address_channel.signal("size")?,
            burst: address_channel.signal("burst")?,
            data: data_channel.signal("data")?,
            strobes: data_channel.signal("strb")?,
            last: data_channel.signal("last")?,
            response_id: response_channel.input(model, "id")?,
            response: response_channel.input(model, "resp")?,
            address_channel,
            data_channel,
            response_channel,
        })
    }

    /// Bytes of a beat.
    fn data_bytes(&self) -> u64 {
        u64::from(self.data.width() / 8)
    }

    /// Beats of a line.
    fn line_beats(&self) -> usize {
        (LINE_BYTES / self.data_bytes()) as usize
    }
}

/// A line that was written completely.
#[derive(Clone, Debug)]
struct Write {
    id: u64,
    address: u64,
    bytes: [u8; LINE_BYTES as usize],
    /// Bit k stands for byte k.
    strobes: u64,
    due_cycle: u64,
    fails: bool,
}

/// A write that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    /// Address of the line.
    pub address: u64,
    /// Bit k stands for byte k.
    pub strobes: u64,
    /// It was answered with an error and changed nothing.
    pub failed: bool,
    /// Cycle in which it took effect.
    pub cycle: u64,
}

/// What memory does with writes: takes addresses and data in any order of the two, and answers in order. A write takes
/// effect when its answer is put on the port.
pub(crate) struct WriteChannels {
    port: WritePort,
    address_staller: Staller,
    data_staller: Staller,
    random: ChaCha8Rng,
    /// ID and address of bursts whose data has not come.
    addresses: VecDeque<(u64, u64)>,
    /// Data and strobes of beats whose burst is not complete.
    beats: VecDeque<(Vec<u32>, u64)>,
    pending: VecDeque<Write>,
    is_address_ready: bool,
    is_data_ready: bool,
    is_answering: bool,
    /// Numbers of lines whose writes fail.
    faults: HashSet<u64>,
    records: Vec<WriteRecord>,
}

impl WriteChannels {
    pub fn new(port: WritePort, options: &MemoryOptions, random: ChaCha8Rng) -> Self {
        Self {
            port,
            address_staller: Staller::new(options.address_stall),
            data_staller: Staller::new(options.data_stall),
            random,
            addresses: VecDeque::new(),
            beats: VecDeque::new(),
            pending: VecDeque::new(),
            is_address_ready: false,
            is_data_ready: false,
            is_answering: false,
            faults: HashSet::new(),
            records: Vec::new(),
        }
    }

    pub fn set_fault(&mut self, address: u64, fails: bool) {
        if fails {
            self.faults.insert(address / LINE_BYTES);
        } else {
            self.faults.remove(&(address / LINE_BYTES));
        }
    }

    pub fn heal_all(&mut self) {
        self.faults.clear();
    }

    pub fn take_records(&mut self) -> Vec<WriteRecord> {
        std::mem::take(&mut self.records)
    }

    pub fn drive(&mut self, model: &mut Model, memory: &mut impl LineMemory) {
        self.is_address_ready = !self.address_staller.waits(&mut self.random);
        self.is_data_ready = !self.data_staller.waits(&mut self.random);
        self.port.address_channel.set_ready(model, self.is_address_ready);
        self.port.data_channel.set_ready(model, self.is_data_ready);
        if self.is_answering {
            return;
        }
        let is_due = self.pending.front().is_some_and(|write| write.due_cycle <= model.cycles());
        self.port.response_channel.set_valid(model, is_due);
        if !is_due {
            return;
        }
        let Some(write) = self.pending.pop_front() else { return };
        let succeeds = !write.fails && memory.write_line(write.address, &write.bytes, write.strobes);
        self.records.push(WriteRecord {
            address: write.address,
            strobes: write.strobes,
            failed: !succeeds,
            cycle: model.cycles(),
        });
        model.set(self.port.response_id, write.id);
        model.set(self.port.response, if succeeds { 0 } else { SLAVE_ERROR });
        self.is_answering = true;
    }

    pub fn sample(&mut self, model: &Model, options: &MemoryOptions) {
        if self.is_answering && self.port.response_channel.is_ready(model) {
            self.is_answering = false;
        }
        if self.is_address_ready && self.port.address_channel.is_valid(model) {
            self.addresses.push_back((model.get(self.port.address_id), model.get(self.port.address)));
        }
        if self.is_data_ready && self.port.data_channel.is_valid(model) {
            let mut words = vec![0; bits::words(self.port.data.width())];
            model.get_words(self.port.data, &mut words, 0);
            self.beats.push_back((words, model.get(self.port.strobes)));
        }
        let count = self.port.line_beats();
        if self.beats.len() < count {
            return;
        }
        let Some((id, address)) = self.addresses.pop_front() else { return };
        let mut line = [0; LINE_BYTES as usize];
        let mut strobes = 0;
        for (position, (words, enabled)) in self.beats.drain(..count).enumerate() {
            let first = position * self.port.data_bytes() as usize;
            for (bytes, word) in line[first..].chunks_exact_mut(4).zip(&words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            strobes |= enabled << first;
        }
        let latency = self.random.random_range(options.latency_cycles.clone());
        let due_cycle = model.cycles() + u64::from(latency.max(1));
        let fails = self.faults.contains(&(address / LINE_BYTES));
        let address = address / LINE_BYTES * LINE_BYTES;
        self.pending.push_back(Write { id, address, bytes: line, strobes, due_cycle, fails });
    }

    pub fn reset(&mut self, model: &mut Model) {
        self.addresses.clear();
        self.beats.clear();
        self.pending.clear();
        self.is_address_ready = false;
        self.is_data_ready = false;
        self.is_answering = false;
        self.port.address_channel.set_ready(model, false);
        self.port.data_channel.set_ready(model, false);
        self.port.response_channel.set_valid(model, false);
    }
}

/// Checks on every cycle that an AXI4 master writes by the rules: valid held and payload stable, bursts legal (one aligned
/// 64-byte line, of type INCR, of the bus's width), the last beat and no other marked as such.
#[derive(Debug)]
pub struct WriteRules {
    port: WritePort,
    address_stability: Stability,
    data_stability: Stability,
    /// Beats of the line that has begun.
    beats: usize,
}

impl WriteRules {
    /// Rules of a port, nothing in flight.
    #[must_use]
    pub fn new(port: WritePort) -> Self {
        Self { port, address_stability: Stability::default(), data_stability: Stability::default(), beats: 0 }
    }

    fn check_burst(&self, model: &Model) -> Result<(), Error> {
        let port = &self.port;
        let [address, beats, size, burst] = [port.address, port.length, port.size, port.burst].map(|s| model.get(s));
        let size_expected = u64::from(port.data_bytes().ilog2());
        let beats_expected = port.line_beats() as u64;
        let rules = [
            (Rule::BurstType, burst == BURST_INCREMENTING, "burst 1".to_owned(), format!("burst {burst}")),
            (Rule::BurstSize, size == size_expected, format!("size {size_expected}"), format!("size {size}")),
            (
                Rule::BurstLength,
                beats + 1 == beats_expected,
                format!("{beats_expected} beats"),
                format!("{} beats at {address:#x}", beats + 1),
            ),
            (
                Rule::BurstAligned,
                address.is_multiple_of(LINE_BYTES),
                format!("a multiple of {LINE_BYTES}"),
                format!("address {address:#x}"),
            ),
        ];
        match rules.into_iter().find(|(_, holds, ..)| !holds) {
            Some((rule, _, expected, found)) => {
                Err(violation(rule, port.address_channel.shape().name(), model.cycles(), expected, found))
            }
            None => Ok(()),
        }
    }
}

impl Component for WriteRules {
    fn drive(&mut self, _model: &mut Model) {}

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let port = &self.port;
        if let Activity::Transfer { .. } = self.address_stability.sample(&port.address_channel, model, false)? {
            self.check_burst(model)?;
        }
        if let Activity::Transfer { .. } = self.data_stability.sample(&port.data_channel, model, false)? {
            self.beats += 1;
            let is_last = self.beats == port.line_beats();
            if is_last != (model.get(port.last) != 0) {
                let name = port.data_channel.shape().name();
                let expected = format!("last {}", u64::from(is_last));
                let found = format!("beat {} of the line, last {}", self.beats, model.get(port.last));
                return Err(violation(Rule::LastBeat, name, model.cycles(), expected, found));
            }
            if is_last {
                self.beats = 0;
            }
        }
        Ok(())
    }

    fn reset(&mut self, _model: &mut Model) {
        self.address_stability.reset();
        self.data_stability.reset();
        self.beats = 0;
    }

    fn check_in_reset(&self, model: &Model) -> Result<(), Error> {
        check_low_in_reset(&self.port.address_channel, model)?;
        check_low_in_reset(&self.port.data_channel, model)
    }
}
