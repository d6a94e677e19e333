//! The host's table memory, as the AXI4 master of the engine sees it.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::ops::RangeInclusive;

use keywalk_image::SparseMemory;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::axi_read::{LINE_BYTES, ReadPort};
use crate::axi_write::{WriteChannels, WritePort, WriteRecord};
use crate::bench::Component;
use crate::bits;
use crate::error::Error;
use crate::model::{Input, Model};
use crate::stall::{Stall, Staller};

/// Memory that is read and written in lines of 64 bytes.
pub trait LineMemory: 'static {
    /// The line that holds `address`, `None` where it is not backed.
    fn line(&self, address: u64) -> Option<[u8; LINE_BYTES as usize]>;

    /// Writes those bytes of the line at `address` whose bit in `strobes` is set; false, and nothing changes, where it
    /// cannot be written. Memory that several share cannot.
    fn write_line(&mut self, address: u64, bytes: &[u8; LINE_BYTES as usize], strobes: u64) -> bool {
        let _ = (address, bytes, strobes);
        false
    }
}

/// The line with the bytes put in whose bit in `strobes` is set.
fn merged(old: [u8; LINE_BYTES as usize], new: &[u8; LINE_BYTES as usize], strobes: u64) -> [u8; LINE_BYTES as usize] {
    std::array::from_fn(|byte| if strobes >> byte & 1 == 1 { new[byte] } else { old[byte] })
}

impl LineMemory for SparseMemory {
    fn line(&self, address: u64) -> Option<[u8; LINE_BYTES as usize]> {
        self.line(address)
    }

    fn write_line(&mut self, address: u64, bytes: &[u8; LINE_BYTES as usize], strobes: u64) -> bool {
        self.line(address).is_some_and(|old| self.write(address, &merged(old, bytes, strobes)).is_ok())
    }
}

/// Lines by number (address / 64); others are not backed.
impl LineMemory for HashMap<u64, [u8; LINE_BYTES as usize]> {
    fn line(&self, address: u64) -> Option<[u8; LINE_BYTES as usize]> {
        self.get(&(address / LINE_BYTES)).copied()
    }

    fn write_line(&mut self, address: u64, bytes: &[u8; LINE_BYTES as usize], strobes: u64) -> bool {
        let line = self.get_mut(&(address / LINE_BYTES));
        line.is_some_and(|line| {
            *line = merged(*line, bytes, strobes);
            true
        })
    }
}

/// How the memory answers.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Cycles from the acceptance of an address to the first cycle of its data, 1 and more, if no other data is in the
    /// way. A range gives each read a random latency in it.
    pub latency_cycles: RangeInclusive<u32>,
    /// Reads of different IDs may be answered in another order: at random among those whose latency has passed. Reads of
    /// one ID stay in order. Off: all stay in order.
    pub reorder: bool,
    /// Beats of reads of different IDs alternate at random. Works with `reorder` only.
    pub interleave: bool,
    /// Back-pressure on addresses.
    pub address_stall: Stall,
    /// Gaps between beats of data.
    pub data_stall: Stall,
    /// No address is accepted while that many reads are in flight.
    pub in_flight_max: u32,
    /// The data port is random while valid is low.
    pub poison: bool,
}

impl Default for MemoryOptions {
    /// Latency 1, in order, no stalls, no limit, poison.
    fn default() -> Self {
        Self {
            latency_cycles: 1..=1,
            reorder: false,
            interleave: false,
            address_stall: Stall::NEVER,
            data_stall: Stall::NEVER,
            in_flight_max: u32::MAX,
            poison: true,
        }
    }
}

impl MemoryOptions {
    /// A fixed latency, in order, no stalls.
    #[must_use]
    pub fn fixed(latency_cycles: u32) -> Self {
        Self { latency_cycles: latency_cycles..=latency_cycles, ..Self::default() }
    }

    /// Latencies from `latency_cycles` to half as much again (at least 8 cycles more), reordered, with stalls on both
    /// channels.
    #[must_use]
    pub fn rough(latency_cycles: u32) -> Self {
        Self {
            latency_cycles: latency_cycles..=latency_cycles.saturating_add((latency_cycles / 2).max(8)),
            reorder: true,
            interleave: true,
            address_stall: Stall::percent(20).up_to(4),
            data_stall: Stall::percent(20).up_to(4),
            ..Self::default()
        }
    }
}

/// A fault of the memory at a line. Bit k of `quarters` stands for bytes 16k to 16k + 15; a beat that holds a faulty
/// quarter is answered with the error and random data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadFault {
    /// SLVERR.
    SlaveError {
        /// Faulty quarters of the line.
        quarters: u8,
    },
    /// DECERR.
    DecodeError {
        /// Faulty quarters of the line.
        quarters: u8,
    },
    /// No answer, until [`MemoryResponder::release_silent`].
    Silence,
}

/// AXI response SLVERR, which unbacked memory gives.
pub(crate) const SLAVE_ERROR: u64 = 2;
/// AXI response DECERR.
const DECODE_ERROR: u64 = 3;

/// A read that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// Address of the first byte.
    pub address: u64,
    /// ID.
    pub id: u64,
    /// Cycle of the acceptance.
    pub cycle: u64,
}

/// A read whose latency has not passed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    due_cycle: u64,
    /// Orders reads of the same due cycle.
    sequence: u64,
    id: u64,
    address: u64,
    beats: u64,
    fault: Option<ReadFault>,
}

/// A read that is being answered.
#[derive(Clone, Debug)]
struct Active {
    id: u64,
    first_line: u64,
    /// Of the next beat.
    address: u64,
    remaining_beats: u64,
    fault: Option<ReadFault>,
    /// The line as it was when its first beat was sent, by number.
    line: Option<(u64, Option<[u8; LINE_BYTES as usize]>)>,
    /// It has begun: without interleaving it goes on before others.
    has_begun: bool,
}

/// Calls that decide on a fault by address.
type FaultHook = Box<dyn FnMut(u64) -> Option<ReadFault>>;

/// An AXI4 slave in front of a memory; it is written where the master has write channels. It accepts any burst, legal or not, so that [`ReadRules`](crate::ReadRules)
/// can report it. Content is read when the first beat of a line is sent.
pub struct MemoryResponder<M> {
    port: ReadPort,
    data_inputs: Vec<Input>,
    id_input: Input,
    response_input: Input,
    last_input: Option<Input>,
    memory: M,
    options: MemoryOptions,
    address_staller: Staller,
    data_staller: Staller,
    random: ChaCha8Rng,
    pending: BinaryHeap<Reverse<Pending>>,
    silent: Vec<Pending>,
    active: Vec<Active>,
    /// Position in `active` of the read whose beat is on the port.
    presented: Option<usize>,
    is_address_ready: bool,
    /// Due cycle of the latest read, by ID, or of all under ID 0 where the order is kept.
    last_due_cycle: Vec<u64>,
    sequence: u64,
    faults: HashMap<u64, ReadFault>,
    fault_hook: Option<FaultHook>,
    records: Option<Vec<ReadRecord>>,
    in_flight_peak: usize,
    /// Reads accepted and not completely answered, by the number of their first line.
    in_flight_lines: HashMap<u64, u32>,
    duplicates: u64,
    /// A line by number, and how often it was given out since.
    watched: Option<(u64, u64)>,
    words: Vec<u32>,
    writes: Option<WriteChannels>,
}

impl<M: LineMemory> MemoryResponder<M> {
    /// A responder with nothing in flight. Reads are recorded.
    ///
    /// # Errors
    /// [`Error::NoSuchField`], [`Error::NoSuchPort`] where the data channel cannot be driven.
    pub fn new(
        model: &Model,
        port: ReadPort,
        memory: M,
        options: MemoryOptions,
        random: ChaCha8Rng,
    ) -> Result<Self, Error> {
        let channel = &port.data_channel;
        let data_inputs = port.data_fields.iter().map(|field| channel.input(model, field)).collect::<Result<_, _>>()?;
        Ok(Self {
            data_inputs,
            id_input: channel.input(model, "id")?,
            response_input: channel.input(model, "resp")?,
            last_input: channel.input(model, "last").ok(),
            memory,
            address_staller: Staller::new(options.address_stall),
            data_staller: Staller::new(options.data_stall),
            options,
            random,
            pending: BinaryHeap::new(),
            silent: Vec::new(),
            active: Vec::new(),
            presented: None,
            is_address_ready: false,
            last_due_cycle: vec![0; 1 << port.address_id.width()],
            sequence: 0,
            faults: HashMap::new(),
            fault_hook: None,
            records: Some(Vec::new()),
            in_flight_peak: 0,
            in_flight_lines: HashMap::new(),
            duplicates: 0,
            watched: None,
            words: vec![0; bits::words(port.data_width)],
            port,
            writes: None,
        })
    }

    /// Answers writes, too.
    #[must_use]
    pub fn with_writes(mut self, port: WritePort, random: ChaCha8Rng) -> Self {
        self.writes = Some(WriteChannels::new(port, &self.options, random));
        self
    }

    /// Makes writes of the line that holds `address`, from now on, fail or succeed.
    pub fn set_write_fault(&mut self, address: u64, fails: bool) {
        if let Some(writes) = &mut self.writes {
            writes.set_fault(address, fails);
        }
    }

    /// The writes answered since the last call, in order.
    pub fn take_writes(&mut self) -> Vec<WriteRecord> {
        self.writes.as_mut().map(WriteChannels::take_records).unwrap_or_default()
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory, to be changed while the engine runs.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Changes how reads that are accepted from now on are answered.
    pub fn set_options(&mut self, options: MemoryOptions) {
        self.address_staller = Staller::new(options.address_stall);
        self.data_staller = Staller::new(options.data_stall);
        self.options = options;
    }

    /// Plants a fault at the line that holds `address`, for reads accepted from now on.
    pub fn inject(&mut self, address: u64, fault: ReadFault) {
        self.faults.insert(address / LINE_BYTES, fault);
    }

    /// Removes the fault at the line that holds `address`.
    pub fn heal(&mut self, address: u64) {
        self.faults.remove(&(address / LINE_BYTES));
    }

    /// Sets a function that decides on a fault for each accepted address, where none is injected.
    pub fn set_fault_hook(&mut self, hook: impl FnMut(u64) -> Option<ReadFault> + 'static) {
        self.fault_hook = Some(Box::new(hook));
    }

    /// Removes all injected faults and the fault hook.
    pub fn heal_all(&mut self) {
        if let Some(writes) = &mut self.writes {
            writes.heal_all();
        }
        self.faults.clear();
        self.fault_hook = None;
    }

    /// Answers the reads that were met with silence, from now on, and returns how many they are.
    pub fn release_silent(&mut self) -> usize {
        let count = self.silent.len();
        self.pending.extend(self.silent.drain(..).map(Reverse));
        count
    }

    /// Reads accepted and not completely answered, without those met with silence.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.pending.len() + self.active.len()
    }

    /// Most reads in flight so far.
    #[must_use]
    pub fn in_flight_peak(&self) -> usize {
        self.in_flight_peak
    }

    /// Reads accepted so far while another read of the same line was not completely answered.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Counts from now on how often the line that holds `address` is given out, and no other line.
    pub fn watch(&mut self, address: u64) {
        self.watched = Some((address / LINE_BYTES, 0));
    }

    /// How often the content of the line of [`watch`](Self::watch) has been given out since that call. What the memory holds
    /// after that is seen by later reads only.
    #[must_use]
    pub fn watched_reads(&self) -> u64 {
        self.watched.map_or(0, |(_, count)| count)
    }

    /// Reads accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.sequence
    }

    /// Switches the record of accepted reads on or off, and empties it.
    pub fn set_recording(&mut self, is_recording: bool) {
        self.records = is_recording.then(Vec::new);
    }

    /// The reads accepted since the last call, in order.
    pub fn take_records(&mut self) -> Vec<ReadRecord> {
        self.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn fault(&mut self, address: u64) -> Option<ReadFault> {
        let injected = if self.faults.is_empty() { None } else { self.faults.get(&(address / LINE_BYTES)).copied() };
        injected.or_else(|| self.fault_hook.as_mut().and_then(|hook| hook(address)))
    }

    fn accept(&mut self, model: &Model) {
        let address = model.get(self.port.address);
        let id = model.get(self.port.address_id);
        let cycle = model.cycles();
        let latency = match self.options.latency_cycles.clone() {
            range if range.start() >= range.end() => *range.start(),
            range => self.random.random_range(range),
        };
        let order = if self.options.reorder { id as usize } else { 0 };
        let due_cycle = (cycle + u64::from(latency.max(1))).max(self.last_due_cycle[order]);
        let beats = self.port.beats(model);
        let fault = self.fault(address);
        let read = Pending { due_cycle, sequence: self.sequence, id, address, beats, fault };
        self.sequence += 1;
        if let Some(records) = &mut self.records {
            records.push(ReadRecord { address, id, cycle });
        }
        let same_line = self.in_flight_lines.entry(address / LINE_BYTES).or_default();
        self.duplicates += u64::from(*same_line > 0);
        *same_line += 1;
        if fault == Some(ReadFault::Silence) {
            self.silent.push(read);
        } else {
            self.last_due_cycle[order] = due_cycle;
            self.pending.push(Reverse(read));
            self.in_flight_peak = self.in_flight_peak.max(self.in_flight());
        }
    }

    /// Position in `active` of the read to answer next.
    fn choose(&mut self) -> Option<usize> {
        if self.active.len() <= 1 || !self.options.reorder {
            return (!self.active.is_empty()).then_some(0);
        }
        if !self.options.interleave
            && let Some(begun) = self.active.iter().position(|read| read.has_begun)
        {
            return Some(begun);
        }
        let id = self.active[self.random.random_range(0..self.active.len())].id;
        // Among reads of one ID the oldest stands first.
        self.active.iter().position(|read| read.id == id)
    }

    /// Puts the next beat of a read on the port.
    fn present(&mut self, model: &mut Model, position: usize) {
        let address = self.active[position].address;
        let line_number = address / LINE_BYTES;
        let response = match self.active[position].fault {
            Some(ReadFault::SlaveError { quarters }) => Some((SLAVE_ERROR, quarters)),
            Some(ReadFault::DecodeError { quarters }) => Some((DECODE_ERROR, quarters)),
            Some(ReadFault::Silence) | None => None,
        };
        let read = &mut self.active[position];
        read.has_begun = true;
        let line = match read.line {
            Some((number, line)) if number == line_number => line,
            _ => {
                let line = self.memory.line(address);
                read.line = Some((line_number, line));
                if let Some((watched, count)) = &mut self.watched {
                    *count += u64::from(*watched == line_number);
                }
                line
            }
        };
        let data_bytes = self.port.data_bytes();
        let first = (address % LINE_BYTES / data_bytes * data_bytes) as usize;
        let beat_quarters = (0..4_u8).filter(|quarter| {
            let start = usize::from(*quarter) * 16;
            start < first + data_bytes as usize && start + 16 > first
        });
        let beat_quarters = beat_quarters.fold(0_u8, |mask, quarter| mask | 1 << quarter);
        let error = response.filter(|(_, quarters)| quarters & beat_quarters != 0).map(|(code, _)| code);
        let error = error.or(line.is_none().then_some(SLAVE_ERROR));
        match (line, error) {
            (Some(line), None) => {
                let (words, _) = line[first..first + data_bytes as usize].as_chunks::<4>();
                for (word, bytes) in self.words.iter_mut().zip(words) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
            _ => bits::randomise(&mut self.words, self.port.data_width, &mut self.random),
        }
        let (id, is_last) = (read.id, read.remaining_beats == 1);
        self.set_data(model);
        model.set(self.id_input, id);
        model.set(self.response_input, error.unwrap_or(0));
        if let Some(last) = self.last_input {
            model.set(last, u64::from(is_last));
        }
        self.port.data_channel.set_valid(model, true);
        self.presented = Some(position);
    }

    fn set_data(&mut self, model: &mut Model) {
        let mut low = 0;
        for input in &self.data_inputs {
            let count = bits::words(crate::Signal::from(*input).width());
            model.set_words(*input, &self.words[low..low + count]);
            low += count;
        }
    }

    fn idle(&mut self, model: &mut Model) {
        self.port.data_channel.set_valid(model, false);
        if self.options.poison {
            bits::randomise(&mut self.words, self.port.data_width, &mut self.random);
            self.set_data(model);
        }
    }
}

impl<M: LineMemory> Component for MemoryResponder<M> {
    fn drive(&mut self, model: &mut Model) {
        if let Some(writes) = &mut self.writes {
            writes.drive(model, &mut self.memory);
        }
        self.is_address_ready = !self.address_staller.waits(&mut self.random)
            && (self.in_flight() as u64) < u64::from(self.options.in_flight_max);
        self.port.address_channel.set_ready(model, self.is_address_ready);

        while let Some(Reverse(next)) = self.pending.peek()
            && next.due_cycle <= model.cycles()
            && let Some(Reverse(read)) = self.pending.pop()
        {
            self.active.push(Active {
                id: read.id,
                first_line: read.address / LINE_BYTES,
                address: read.address,
                remaining_beats: read.beats,
                fault: read.fault,
                line: None,
                has_begun: false,
            });
        }
        if self.presented.is_some() {
            return;
        }
        if self.active.is_empty() || self.data_staller.waits(&mut self.random) {
            self.idle(model);
        } else if let Some(position) = self.choose() {
            self.present(model, position);
        }
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        if let Some(writes) = &mut self.writes {
            writes.sample(model, &self.options);
        }
        if let Some(position) = self.presented
            && self.port.data_channel.is_ready(model)
        {
            self.presented = None;
            let read = &mut self.active[position];
            read.remaining_beats -= 1;
            let data_bytes = self.port.data_bytes();
            read.address = (read.address / data_bytes).wrapping_add(1).wrapping_mul(data_bytes);
            if read.remaining_beats == 0 {
                let read = self.active.remove(position);
                if let Entry::Occupied(mut same_line) = self.in_flight_lines.entry(read.first_line) {
                    *same_line.get_mut() -= 1;
                    if *same_line.get() == 0 {
                        same_line.remove();
                    }
                }
            }
        }
        if self.is_address_ready && self.port.address_channel.is_valid(model) {
            self.accept(model);
        }
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        if let Some(writes) = &mut self.writes {
            writes.reset(model);
        }
        self.pending.clear();
        self.silent.clear();
        self.active.clear();
        self.in_flight_lines.clear();
        self.presented = None;
        self.last_due_cycle.fill(0);
        self.is_address_ready = false;
        self.port.address_channel.set_ready(model, false);
        self.port.data_channel.set_valid(model, false);
    }
}
