//! A memory behind the AXI4 port of the data mover, byte for byte, and the payload of its streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use crate::bench::{Bench, Handle};
use crate::bits;
use crate::channel::{Beat, Channel};
use crate::error::{Error, Rule, violation};
use crate::stall::Stall;
use crate::stream::{StreamDriver, StreamSink};

const PAGE_BYTES: u64 = 4096;
/// Bytes that a bus error is for.
pub const FAULT_BYTES: u64 = 64;
/// AXI response SLVERR; DECERR is one more.
const SLAVE_ERROR: u128 = 2;
/// AXI burst type INCR.
const BURST_INCREMENTING: u128 = 1;

/// What every byte of an address space is. One that was never written is a hash of its address.
#[derive(Clone, Debug, Default)]
pub struct ByteMemory(BTreeMap<u64, Vec<u8>>);

/// Whether addresses in their order lie side by side. AMD's bridges to PCIe ask it of the bytes of a write burst.
fn are_together(addresses: &[u64]) -> bool {
    addresses.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

fn unwritten(address: u64) -> u8 {
    let hash = (address / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash ^ hash >> 29) >> (8 * (address % 8))) as u8
}

impl ByteMemory {
    /// The byte at an address.
    #[must_use]
    pub fn get(&self, address: u64) -> u8 {
        let page = self.0.get(&(address / PAGE_BYTES));
        page.map_or_else(|| unwritten(address), |page| page[(address % PAGE_BYTES) as usize])
    }

    /// Writes a byte.
    pub fn set(&mut self, address: u64, value: u8) {
        let page = address / PAGE_BYTES;
        let bytes = self.0.entry(page);
        let bytes = bytes.or_insert_with(|| (0..PAGE_BYTES).map(|at| unwritten(page * PAGE_BYTES + at)).collect());
        bytes[(address % PAGE_BYTES) as usize] = value;
    }

    /// Writes some bytes from an address on.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            self.set(at, *byte);
        }
    }

    /// Some bytes from an address on.
    #[must_use]
    pub fn read(&self, address: u64, length: u64) -> Vec<u8> {
        (0..length).map(|at| self.get(address + at)).collect()
    }

    /// Addresses, at most ten, at which two memories differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<u64> {
        let pages: BTreeSet<u64> = self.0.keys().chain(other.0.keys()).copied().collect();
        let pages = pages.into_iter().filter(|page| self.0.get(page) != other.0.get(page));
        let addresses = pages.flat_map(|page| (0..PAGE_BYTES).map(move |at| page * PAGE_BYTES + at));
        addresses.filter(|address| self.get(*address) != other.get(*address)).take(10).collect()
    }
}

/// Where bytes are in the payload of a channel: in one field or in lanes.
struct Place(Vec<(u32, u32)>);

impl Place {
    fn find(channel: &Channel) -> Self {
        let fields = channel.shape().fields();
        Self(fields.iter().filter(|field| field.name.starts_with("data")).map(|f| (f.low, f.width / 8)).collect())
    }

    fn bits(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(low, bytes)| (0..*bytes).map(move |byte| low + 8 * byte))
    }
}

/// Bytes of the data of a beat: of its field `data`, or of the lanes `data_0` and so on.
#[must_use]
pub fn data_of(channel: &Channel, beat: &Beat) -> Vec<u8> {
    Place::find(channel).bits().map(|low| bits::get(beat.words(), low, 8) as u8).collect()
}

/// Sets the data of a beat; bytes that are not given are random.
pub fn set_data(channel: &Channel, beat: &mut Beat, bytes: &[u8], random: &mut ChaCha8Rng) {
    for (position, low) in Place::find(channel).bits().enumerate() {
        let byte = bytes.get(position).copied().unwrap_or_else(|| random.next_u32() as u8);
        bits::set(beat.words_mut(), low, 8, byte.into());
    }
}

/// How a [`BusMemory`] behaves.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Cycles from an address, or the last beat of a write, to the answer.
    pub latency_cycles: RangeInclusive<u64>,
    /// On all channels.
    pub stall: Stall,
}

/// An address channel with its sink.
struct Sinks {
    address: Handle<StreamSink>,
    channel: Channel,
}

struct ReadSide {
    address: Sinks,
    data: Handle<StreamDriver>,
    data_channel: Channel,
    due_cycle: u64,
    /// Beats up to the end of each burst that is in flight.
    ends: VecDeque<u64>,
    beats: u64,
}

struct WriteSide {
    address: Sinks,
    data: Handle<StreamSink>,
    data_channel: Channel,
    answer: Handle<StreamDriver>,
    due_cycle: u64,
    /// Address and beats of bursts whose data has not come.
    bursts: VecDeque<(u64, u64)>,
    beats: VecDeque<(Vec<u8>, u64, bool)>,
    /// Writes that are not yet to be seen: cycle, address, value.
    unseen: VecDeque<(u64, Vec<(u64, u8)>)>,
    answered: u64,
    accepted: u64,
}

/// A memory that answers in order and checks the bursts. Reads see what was there when their address was taken; writes are
/// seen when they are answered.
pub struct BusMemory {
    /// Its bytes.
    pub bytes: ByteMemory,
    /// Numbers of [`FAULT_BYTES`] that are answered with a bus error, and are not written.
    pub faults: BTreeSet<u64>,
    options: BusOptions,
    random: ChaCha8Rng,
    beat_bytes: u64,
    burst_beats: u64,
    read: Option<ReadSide>,
    write: Option<WriteSide>,
    /// Most read bursts in flight at a time.
    pub reads_peak: usize,
    /// Most write bursts in flight at a time.
    pub writes_peak: u64,
    /// Cycles of the first and the last beat that was written.
    pub write_cycles: Option<(u64, u64)>,
    /// Beats that were written.
    pub write_beats: u64,
}

fn sink(bench: &mut Bench, prefix: &str, stall: Stall) -> Result<(Handle<StreamSink>, Channel), Error> {
    let channel = Channel::with_prefix(bench.model(), prefix)?;
    let random = bench.random();
    Ok((bench.add(StreamSink::new(channel.clone(), stall, random)), channel))
}

fn driver(bench: &mut Bench, prefix: &str, stall: Stall) -> Result<(Handle<StreamDriver>, Channel), Error> {
    let channel = Channel::with_prefix(bench.model(), prefix)?;
    let random = bench.random();
    Ok((bench.add(StreamDriver::new(channel.clone(), stall, random)), channel))
}

impl BusMemory {
    /// The memory of the port whose channels begin with `port`, as far as it has channels to read and to write.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`].
    ///
    /// # Panics
    /// On a design that was not generated.
    pub fn new(bench: &mut Bench, port: &str, options: BusOptions) -> Result<Self, Error> {
        let config = bench.model().dut().config().expect("a data mover is generated");
        let has = |name: &str| bench.model().dut().port(&format!("{port}{name}valid")).is_some();
        let (reads, writes) = (has("ar"), has("aw"));
        let stall = options.stall;
        let mut read = None;
        if reads {
            let (address, channel) = sink(bench, &format!("{port}ar"), stall)?;
            let (data, data_channel) = driver(bench, &format!("{port}r"), stall)?;
            let address = Sinks { address, channel };
            read = Some(ReadSide { address, data, data_channel, due_cycle: 0, ends: VecDeque::new(), beats: 0 });
        }
        let mut write = None;
        if writes {
            let (address, channel) = sink(bench, &format!("{port}aw"), stall)?;
            let (data, data_channel) = sink(bench, &format!("{port}w"), stall)?;
            let (answer, _) = driver(bench, &format!("{port}b"), stall)?;
            let address = Sinks { address, channel };
            write = Some(WriteSide {
                address,
                data,
                data_channel,
                answer,
                due_cycle: 0,
                bursts: VecDeque::new(),
                beats: VecDeque::new(),
                unseen: VecDeque::new(),
                answered: 0,
                accepted: 0,
            });
        }
        Ok(Self {
            bytes: ByteMemory::default(),
            faults: BTreeSet::new(),
            random: bench.random(),
            options,
            beat_bytes: config.mover_beat_bytes().into(),
            burst_beats: config.mover_burst_beats.into(),
            read,
            write,
            reads_peak: 0,
            writes_peak: 0,
            write_cycles: None,
            write_beats: 0,
        })
    }

    /// Whether an address is answered with a bus error.
    #[must_use]
    pub fn is_faulty(&self, address: u64) -> bool {
        self.faults.contains(&(address / FAULT_BYTES))
    }

    /// Address and beats of a burst, which is checked.
    fn burst(&self, channel: &Channel, beat: &Beat, cycle: u64) -> Result<(u64, u64), Error> {
        let address = beat.get("addr")? as u64;
        let beats = beat.get("len")? as u64 + 1;
        let fail =
            |rule, expected: String| Err(violation(rule, channel.shape().name(), cycle, expected, format!("{beat:?}")));
        if !address.is_multiple_of(self.beat_bytes) {
            return fail(Rule::BeatAligned, format!("a multiple of {}", self.beat_bytes));
        }
        if beats > self.burst_beats {
            return fail(Rule::BurstTooLong, format!("at most {} beats", self.burst_beats));
        }
        if address % PAGE_BYTES + beats * self.beat_bytes > PAGE_BYTES {
            return fail(Rule::BurstWithin4KiB, "all bytes in one 4 KiB page".into());
        }
        // A block leaves these to the top module.
        if channel.shape().field("size").is_ok() {
            let size = u128::from(self.beat_bytes.trailing_zeros());
            if beat.get("size")? != size {
                return fail(Rule::BurstSize, format!("size {size}"));
            }
            if beat.get("burst")? != BURST_INCREMENTING {
                return fail(Rule::BurstType, format!("burst {BURST_INCREMENTING}"));
            }
        }
        Ok((address, beats))
    }

    fn latency(&mut self) -> u64 {
        self.random.random_range(self.options.latency_cycles.clone())
    }

    /// Answers what has come; to be called after every cycle.
    ///
    /// # Errors
    /// A broken rule.
    pub fn service(&mut self, bench: &mut Bench) -> Result<(), Error> {
        self.service_writes(bench)?;
        self.service_reads(bench)
    }

    fn service_reads(&mut self, bench: &mut Bench) -> Result<(), Error> {
        let Some(mut side) = self.read.take() else { return Ok(()) };
        while let Some(received) = bench[side.address.address].pop() {
            let (address, beats) = self.burst(&side.address.channel, &received.beat, received.cycle)?;
            side.due_cycle = side.due_cycle.max(received.cycle + self.latency());
            for number in 0..beats {
                let at = address + number * self.beat_bytes;
                let is_faulty = self.is_faulty(at);
                let mut beat = bench[side.data].blank();
                let data = if is_faulty { Vec::new() } else { self.bytes.read(at, self.beat_bytes) };
                set_data(&side.data_channel, &mut beat, &data, &mut self.random);
                if is_faulty {
                    beat.set("resp", SLAVE_ERROR + u128::from(self.random.random::<bool>()))?;
                }
                if side.data_channel.shape().field("last").is_ok() {
                    beat.set("last", (number + 1 == beats).into())?;
                }
                bench[side.data].push_not_before(beat, side.due_cycle);
            }
            side.beats += beats;
            side.ends.push_back(side.beats);
        }
        while side.ends.front().is_some_and(|end| *end <= bench[side.data].accepted()) {
            side.ends.pop_front();
        }
        self.reads_peak = self.reads_peak.max(side.ends.len());
        self.read = Some(side);
        Ok(())
    }

    fn service_writes(&mut self, bench: &mut Bench) -> Result<(), Error> {
        let Some(mut side) = self.write.take() else { return Ok(()) };
        while let Some(received) = bench[side.address.address].pop() {
            side.bursts.push_back(self.burst(&side.address.channel, &received.beat, received.cycle)?);
            side.accepted += 1;
        }
        while let Some(received) = bench[side.data].pop() {
            let data = data_of(&side.data_channel, &received.beat);
            side.beats.push_back((data, received.get("strb")? as u64, received.get("last")? == 1));
            let first = self.write_cycles.map_or(received.cycle, |(first, _)| first);
            self.write_cycles = Some((first, received.cycle));
            self.write_beats += 1;
        }
        let now = bench.cycles();
        while let Some((address, beats)) = side.bursts.front().copied()
            && side.beats.len() as u64 >= beats
        {
            side.bursts.pop_front();
            let mut bytes = Vec::new();
            let mut enabled = Vec::new();
            let mut is_faulty = false;
            for number in 0..beats {
                let Some((data, strobes, last)) = side.beats.pop_front() else { break };
                if last != (number + 1 == beats) {
                    let expected = format!("{beats} beats at {address:#x}");
                    let name = side.data_channel.shape().name();
                    return Err(violation(
                        Rule::LastBeat,
                        name,
                        now,
                        expected,
                        format!("last {last} in beat {number}"),
                    ));
                }
                let at = address + number * self.beat_bytes;
                is_faulty |= self.is_faulty(at);
                enabled.extend((0..self.beat_bytes).filter(|byte| strobes >> byte & 1 == 1).map(|byte| at + byte));
                let written = (0..self.beat_bytes).filter(|byte| strobes >> byte & 1 == 1 && !self.is_faulty(at));
                bytes.extend(written.map(|byte| (at + byte, data[byte as usize])));
            }
            // A block may be given any strobes.
            if side.address.channel.shape().field("size").is_ok() && !are_together(&enabled) {
                let name = side.data_channel.shape().name();
                let found = format!("{enabled:x?}");
                return Err(violation(Rule::BytesTogether, name, now, "no gap between two bytes", found));
            }
            side.due_cycle = side.due_cycle.max(now + self.latency());
            side.unseen.push_back((side.due_cycle, bytes));
            let mut answer = bench[side.answer].blank();
            if is_faulty {
                answer.set("resp", SLAVE_ERROR + u128::from(self.random.random::<bool>()))?;
            }
            bench[side.answer].push_not_before(answer, side.due_cycle);
        }
        // To be seen in the cycle in which the answer may be given at the earliest.
        while side.unseen.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, bytes)) = side.unseen.pop_front()
        {
            bytes.into_iter().for_each(|(address, value)| self.bytes.set(address, value));
        }
        side.answered = bench[side.answer].accepted();
        self.writes_peak = self.writes_peak.max(side.accepted - side.answered);
        self.write = Some(side);
        Ok(())
    }

    /// Reset: what is under way is forgotten, and may or may not have been written.
    pub fn reset(&mut self, bench: &Bench) {
        if let Some(side) = &mut self.read {
            side.beats = bench[side.data].accepted();
            side.ends.clear();
            side.due_cycle = 0;
        }
        if let Some(side) = &mut self.write {
            side.bursts.clear();
            side.beats.clear();
            side.unseen.clear();
            side.due_cycle = 0;
            side.accepted = bench[side.answer].accepted();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_bytes_is_seen() {
        assert!(are_together(&[]) && are_together(&[7]) && are_together(&[62, 63, 64]));
        assert!(!are_together(&[62, 64]) && !are_together(&[1, 0]));
    }
}
