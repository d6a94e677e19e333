//! The data mover at the ports of its top module, in every configuration of this build, against a memory and a reference in
//! plain bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keywalk_contract::mover::{MEMORY_PORT, READ_STREAM, STREAMS, WRITE_STREAM};
use keywalk_contract::ports::{Direction, StreamPort};
use keywalk_contract::{Config, MoverStatus, Operation, Status};
use keywalk_cosim::{
    Bench, BusMemory, BusOptions, ByteMemory, Channel, Dut, Error, FAULT_BYTES, Handle, Received, Stall, StreamDriver,
    StreamSink, bits, data_of, dut, set_data,
};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Every model of the mover.
fn designs() -> Vec<&'static Dut> {
    let designs: Vec<_> = dut::ALL.iter().copied().filter(|dut| dut.top == "keywalk_mover").collect();
    assert!(!designs.is_empty(), "no model of keywalk_mover in this build");
    designs
}

/// A request with its response and what belongs to it.
#[derive(Clone, Debug)]
struct Job {
    operation: u8,
    /// Address and bytes.
    segments: Vec<(u64, u64)>,
    /// Status of the response: where it is not 0, a beat that carries it follows the segments.
    status: u8,
    /// The response is another request's.
    is_foreign: bool,
    payload: Vec<u8>,
    is_swap: bool,
    value: u64,
    compare: u64,
}

impl Job {
    fn new(operation: Operation, segments: &[(u64, u64)]) -> Self {
        Self {
            operation: operation.code(),
            segments: segments.to_vec(),
            status: 0,
            is_foreign: false,
            payload: Vec::new(),
            is_swap: false,
            value: 0,
            compare: 0,
        }
    }

    fn write(segments: &[(u64, u64)], random: &mut ChaCha8Rng) -> Self {
        let mut job = Self::new(Operation::RemoteWrite, segments);
        job.payload = vec![0; job.length() as usize];
        random.fill_bytes(&mut job.payload);
        job
    }

    fn length(&self) -> u64 {
        self.segments.iter().map(|(_, length)| length).sum()
    }

    fn is_write(&self) -> bool {
        [Operation::LocalWrite.code(), Operation::RemoteWrite.code()].contains(&self.operation)
    }

    fn is_read(&self) -> bool {
        [Operation::LocalRead.code(), Operation::RemoteRead.code()].contains(&self.operation)
    }

    fn is_atomic(&self) -> bool {
        self.operation == Operation::RemoteAtomic.code()
    }

    fn refusal(&self) -> u8 {
        self.status
    }
}

/// A packet.
struct Packet {
    /// Its bytes, `None` where they may be anything.
    bytes: Vec<Option<u8>>,
    /// It is marked as bad.
    is_bad: bool,
    /// Its end comes behind its last byte: after whole beats in one without bytes.
    ends_late: bool,
}

/// A completion: tag, function, status and refusal.
type Completion = (u64, u64, u8, u8);

/// What is expected of a job.
struct Outcome {
    status: MoverStatus,
    packet: Option<Packet>,
}

/// Carries a job out on plain bytes.
fn carry_out(job: &Job, memory: &mut ByteMemory, faults: &BTreeSet<u64>, config: &Config) -> Outcome {
    let is_faulty = |address: u64| faults.contains(&(address / FAULT_BYTES));
    let beat_bytes = u64::from(config.mover_beat_bytes());
    // A fault counts for the beats that are transferred.
    let beats_of =
        |at: u64, length: u64| (at / beat_bytes..=(at + length - 1) / beat_bytes).map(|beat| beat * beat_bytes);
    let touches = |(at, length): &(u64, u64)| *length > 0 && beats_of(*at, *length).any(is_faulty);
    let refused = if job.is_foreign {
        MoverStatus::OutOfOrder
    } else if job.status != 0 {
        MoverStatus::Refused
    } else {
        MoverStatus::Ok
    };
    let segments: &[(u64, u64)] = if job.is_foreign { &[] } else { &job.segments };
    let hit = segments.iter().any(touches);
    if job.is_read() {
        let bytes = segments.iter().flat_map(|(at, length)| *at..at + length);
        let bytes: Vec<_> = bytes.map(|at| (!is_faulty(at)).then(|| memory.get(at))).collect();
        let status = if hit { MoverStatus::ReadError } else { refused };
        let (is_bad, ends_late) = (status != MoverStatus::Ok, !bytes.is_empty() && job.status != 0);
        return Outcome { status, packet: Some(Packet { bytes, is_bad, ends_late }) };
    }
    if job.is_write() {
        let mut position = 0;
        let mut is_short = false;
        for (at, length) in segments.iter().filter(|(_, length)| *length > 0) {
            for beat in beats_of(*at, *length) {
                let (from, to) = (beat.max(*at), (beat + beat_bytes).min(at + length));
                is_short |= position + to - from > job.payload.len() as u64;
                for address in from..to {
                    if !is_short && !is_faulty(address) {
                        memory.set(address, job.payload[(position + address - from) as usize]);
                    }
                }
                position += to - from;
            }
        }
        let has_bytes = segments.iter().any(|(_, length)| *length > 0);
        let is_wrong = has_bytes && position != job.payload.len() as u64;
        let status = match (hit, refused) {
            (true, _) => MoverStatus::WriteError,
            (_, MoverStatus::Ok) if is_wrong => MoverStatus::PayloadLength,
            _ => refused,
        };
        return Outcome { status, packet: None };
    }
    if job.is_atomic() {
        let packet = |bytes, is_bad| Some(Packet { bytes, is_bad, ends_late: false });
        let bad = |status| Outcome { status, packet: packet(Vec::new(), true) };
        if refused != MoverStatus::Ok {
            return bad(refused);
        }
        let &[(at, 8)] = segments else { return bad(MoverStatus::AtomicShape) };
        if !at.is_multiple_of(8) {
            return bad(MoverStatus::AtomicShape);
        }
        if hit {
            return Outcome { status: MoverStatus::ReadError, packet: packet(vec![None; 8], true) };
        }
        let old = memory.read(at, 8);
        let number = u64::from_le_bytes(old.clone().try_into().expect("there are 8"));
        let new = match job.is_swap {
            false => number.wrapping_add(job.value),
            true if number == job.compare => job.value,
            true => number,
        };
        (at..).zip(new.to_le_bytes()).for_each(|(address, byte)| memory.set(address, byte));
        return Outcome { status: refused, packet: packet(old.into_iter().map(Some).collect(), false) };
    }
    Outcome { status: refused, packet: None }
}

struct Mover {
    bench: Bench,
    config: Config,
    memory: BusMemory,
    /// What the memory must be.
    reference: ByteMemory,
    operation: Handle<StreamDriver>,
    response: Handle<StreamDriver>,
    atomic: Handle<StreamDriver>,
    payload: Handle<StreamDriver>,
    payload_channel: Channel,
    packet: Handle<StreamSink>,
    packet_channel: Channel,
    completion: Handle<StreamSink>,
    done: Handle<StreamSink>,
    random: ChaCha8Rng,
    next_tag: u64,
    received: Vec<Received>,
}

fn port(name: &str) -> &'static StreamPort {
    STREAMS.iter().find(|port| port.axi_name == name).expect("there is such a port")
}

fn drivers(bench: &mut Bench, name: &str, stall: Stall) -> Result<Handle<StreamDriver>, Error> {
    assert_eq!(port(name).direction, Direction::In);
    bench.stream_driver(port(name), stall)
}

fn sinks(bench: &mut Bench, name: &str, stall: Stall) -> Result<Handle<StreamSink>, Error> {
    assert_eq!(port(name).direction, Direction::Out);
    bench.stream_sink(port(name), stall)
}

impl Mover {
    fn new(design: &'static Dut, seed: u64, options: BusOptions, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(design, seed);
        let operation = drivers(&mut bench, "s_axis_op", stall)?;
        let response = drivers(&mut bench, "s_axis_rsp", stall)?;
        let atomic = drivers(&mut bench, "s_axis_atomic", stall)?;
        let completion = sinks(&mut bench, "m_axis_cpl", stall)?;
        let done = sinks(&mut bench, "m_axis_done", stall)?;
        let payload_channel = Channel::with_prefix(bench.model(), &format!("{WRITE_STREAM}_t"))?;
        let random = bench.random();
        let payload = bench.add(StreamDriver::new(payload_channel.clone(), stall, random));
        let packet_channel = Channel::with_prefix(bench.model(), &format!("{READ_STREAM}_t"))?;
        let random = bench.random();
        let packet = bench.add(StreamSink::new(packet_channel.clone(), stall, random));
        let memory = BusMemory::new(&mut bench, &format!("{MEMORY_PORT}_"), options)?;
        bench.reset(4)?;
        Ok(Self {
            config: design.config().expect("it was generated"),
            random: bench.random(),
            bench,
            memory,
            reference: ByteMemory::default(),
            operation,
            response,
            atomic,
            payload,
            payload_channel,
            packet,
            packet_channel,
            completion,
            done,
            next_tag: 0,
            received: Vec::new(),
        })
    }

    fn beat_bytes(&self) -> usize {
        self.config.mover_beat_bytes() as usize
    }

    fn cycle(&mut self) -> Result<(), Error> {
        self.bench.cycle()?;
        self.memory.service(&mut self.bench)
    }

    fn push_payload(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let beat_bytes = self.beat_bytes();
        let count = bytes.len().div_ceil(beat_bytes).max(1);
        for number in 0..count {
            let part = &bytes[number * beat_bytes..bytes.len().min((number + 1) * beat_bytes)];
            let mut beat = self.bench[self.payload].blank();
            set_data(&self.payload_channel, &mut beat, part, &mut self.random);
            beat.set("keep", (1u128 << part.len()) - 1)?;
            beat.set("last", (number + 1 == count).into())?;
            self.bench[self.payload].push(beat);
        }
        Ok(())
    }

    /// Offers everything that belongs to a job; gives its tag and function.
    fn offer(&mut self, job: &Job) -> Result<(u64, u64), Error> {
        let tag = self.next_tag & bits::max(self.config.tag_bits);
        let function = self.next_tag & bits::max(self.config.function_bits);
        self.next_tag += 1;
        let name = [("tag", u128::from(tag)), ("function", u128::from(function))];
        let operation = [&name[..], &[("operation", job.operation.into())]].concat();
        self.bench[self.operation].push_fields(&operation)?;
        let tag_of_response = if job.is_foreign { tag ^ 1 } else { tag };
        let error = (job.status != 0).then_some((0, 0));
        let beats: Vec<_> = job.segments.iter().copied().chain(error).collect();
        for (number, (pa, length)) in beats.iter().enumerate() {
            let is_last = number + 1 == beats.len();
            let status = if is_last { job.status } else { 0 };
            let fields = [
                ("tag", u128::from(tag_of_response)),
                ("function", function.into()),
                ("status", status.into()),
                ("segment", number as u128),
                ("first", (number == 0).into()),
                ("last", is_last.into()),
                ("pa", (*pa).into()),
                ("length", (*length).into()),
                ("hop", self.random.random_range(0..4)),
                ("wire_class", self.random.random_range(0..8)),
            ];
            self.bench[self.response].push_fields(&fields)?;
        }
        if job.is_write() {
            self.push_payload(&job.payload)?;
        }
        if job.is_atomic() {
            let fields =
                [("is_swap", job.is_swap.into()), ("value", job.value.into()), ("compare", job.compare.into())];
            self.bench[self.atomic].push_fields(&fields)?;
        }
        Ok((tag, function))
    }

    /// Offers jobs, waits for all of their outcomes and packets, and compares everything. Gives the cycles that it took.
    fn run(&mut self, jobs: &[Job]) -> Result<u64, Error> {
        // Reads, writes and atomics each end in order.
        let mut order: BTreeMap<(bool, bool), VecDeque<Completion>> = BTreeMap::new();
        let mut packets = Vec::new();
        let start = self.bench.cycles();
        for job in jobs {
            let (tag, function) = self.offer(job)?;
            let outcome = carry_out(job, &mut self.reference, &self.memory.faults, &self.config);
            let expected = (tag, function, outcome.status.code(), job.refusal());
            order.entry((job.is_write(), job.is_atomic())).or_default().push_back(expected);
            packets.extend(outcome.packet);
        }
        // Each is waited for with a limit of its own.
        let limit = 20_000 + 100 * jobs.iter().map(Job::length).max().unwrap_or(0);
        let mut completions = Vec::new();
        let mut idle_cycles = 0;
        let mut last_packets = 0;
        while completions.len().min(self.bench[self.done].len()) < jobs.len() || last_packets < packets.len() {
            self.cycle()?;
            idle_cycles += 1;
            assert!(idle_cycles < limit, "nothing for {limit} cycles: {} of {}", completions.len(), jobs.len());
            while let Some(completion) = self.bench[self.completion].pop() {
                completions.push(completion);
                idle_cycles = 0;
            }
            while let Some(beat) = self.bench[self.packet].pop() {
                last_packets += usize::from(beat.get("last")? == 1);
                self.received.push(beat);
                idle_cycles = 0;
            }
        }
        let cycles = self.bench.cycles() - start;
        for _ in 0..40 {
            self.cycle()?;
        }
        let name = self.bench.model().dut().name;
        for completion in &completions {
            let field = |name| completion.get(name).map(|value| value as u64);
            let found = (field("tag")?, field("function")?, field("status")? as u8, field("refusal")? as u8);
            let queue = order.values_mut().find(|queue| queue.front().is_some_and(|next| next.0 == found.0));
            let expected = queue.and_then(VecDeque::pop_front);
            assert_eq!(Some(found), expected, "{name}: next of each: {order:?}");
            let done = self.bench[self.done].pop().expect("a report for each completion");
            assert_eq!((done.get("tag")?, done.get("function")?), (found.0.into(), found.1.into()));
        }
        assert!(self.bench[self.done].is_empty() && self.bench[self.completion].is_empty());
        self.compare_packets(&packets)?;
        assert!(self.bench[self.packet].is_empty(), "{name}: more packets than there are");
        for input in [self.operation, self.response, self.atomic, self.payload] {
            assert_eq!(self.bench[input].pending(), 0, "{name}: input that was not taken");
        }
        let differences = self.memory.bytes.differences(&self.reference);
        assert!(differences.is_empty(), "{name}: memory differs at {differences:x?}");
        assert!(self.memory.reads_peak <= self.config.mover_reads_in_flight as usize);
        assert!(self.memory.writes_peak <= self.config.mover_writes_in_flight.into());
        Ok(cycles)
    }

    fn compare_packets(&mut self, packets: &[Packet]) -> Result<(), Error> {
        let name = self.bench.model().dut().name;
        let mut received = std::mem::take(&mut self.received).into_iter();
        for (number, Packet { bytes, is_bad, ends_late }) in packets.iter().enumerate() {
            let mut rest = &bytes[..];
            loop {
                let beat = received.next().unwrap_or_else(|| panic!("{name}: packet {number} is not whole"));
                let data = data_of(&self.packet_channel, &beat.beat);
                let count = rest.len().min(self.beat_bytes());
                let is_last = rest.len() == count && !(*ends_late && count == self.beat_bytes());
                let found = (beat.get("keep")?, beat.get("last")? == 1, beat.get("user")? == 1);
                assert_eq!(found, ((1 << count) - 1, is_last, is_last && *is_bad), "{name}: packet {number}");
                let wrong =
                    rest[..count].iter().zip(&data).position(|(wanted, byte)| wanted.is_some_and(|w| w != *byte));
                assert_eq!(wrong, None, "{name}: byte of packet {number}, {} bytes before", bytes.len() - rest.len());
                rest = &rest[count..];
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        self.memory.reset(&self.bench);
        self.received.clear();
        self.reference = self.memory.bytes.clone();
        Ok(())
    }
}

fn quick(latency_cycles: u64) -> BusOptions {
    BusOptions { latency_cycles: latency_cycles..=latency_cycles, stall: Stall::NEVER }
}

#[test]
fn every_alignment_and_length_is_written_and_read_exactly() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 1, quick(10), Stall::NEVER)?;
        let bytes = mover.beat_bytes() as u64;
        let mut writes = Vec::new();
        let mut reads = Vec::new();
        for offset in 0..bytes {
            for length in [1, 7, bytes - 1, bytes, bytes + 1, 3 * bytes + 5] {
                let at = 0x10_0000 + 16 * bytes * (offset * 8 + length % 8) + offset;
                writes.push(Job::write(&[(at, length)], &mut mover.random));
                reads.push(Job::new(Operation::RemoteRead, &[(at, length)]));
            }
        }
        mover.run(&writes)?;
        mover.run(&reads)?;
    }
    Ok(())
}

/// Segments of one response: bytes are packed, and payload is cut, across them.
#[test]
fn segments_of_a_response_are_one_packet() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 2, quick(20), Stall::NEVER)?;
        let mut segments = Vec::new();
        for number in 0..40u64 {
            let length = [1, 2, 3, 5, 17, 64, 65, 127, 4096, 31][number as usize % 10];
            segments.push((0x20_0000 + number * 0x4000 + number * 7 % 61, length));
        }
        let write = Job::write(&segments, &mut mover.random);
        mover.run(&[write])?;
        mover.run(&[Job::new(Operation::LocalRead, &segments)])?;
        let tiny: Vec<_> = (0..100).map(|number| (0x30_0000 + number * 3, 1)).collect();
        let write = Job::write(&tiny, &mut mover.random);
        mover.run(&[write])?;
        mover.run(&[Job::new(Operation::RemoteRead, &tiny)])?;
    }
    Ok(())
}

/// What is not moved changes nothing and takes its payload and operands along.
#[test]
fn what_is_refused_moves_not_one_byte() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 3, quick(5), Stall::NEVER)?;
        let area = 0x40_0000;
        let mut jobs = Vec::new();
        for length in [0, 1, 100, 5_000] {
            for status in [Status::AccessRight, Status::MtrNotPresent] {
                let error_only = |job: Job| Job { segments: Vec::new(), status: status.code(), ..job };
                jobs.push(error_only(Job::write(&[(area, length)], &mut mover.random)));
                jobs.push(error_only(Job::new(Operation::RemoteRead, &[(area, length)])));
                jobs.push(error_only(Job::new(Operation::RemoteAtomic, &[(area, 8)])));
                jobs.push(error_only(Job::new(Operation::Bind, &[])));
            }
            // Of another request.
            jobs.push(Job { is_foreign: true, ..Job::write(&[(area, length.max(1))], &mut mover.random) });
            jobs.push(Job { is_foreign: true, ..Job::new(Operation::RemoteRead, &[(area, length)]) });
            jobs.push(Job { is_foreign: true, ..Job::new(Operation::RemoteAtomic, &[(area, 8)]) });
            // Nothing to be moved.
            jobs.push(Job::write(&[(0, 0)], &mut mover.random));
            jobs.push(Job::new(Operation::RemoteRead, &[(0, 0)]));
            jobs.push(Job::new(Operation::Bind, &[(area, 64)]));
            jobs.push(Job { operation: 9, status: Status::OperationUnknown.code(), ..Job::new(Operation::Bind, &[]) });
            // Atomics of another shape.
            for segments in [&[(area + 4, 8)][..], &[(area, 4)], &[(area, 16)], &[(area, 4), (area + 4, 4)], &[(0, 0)]]
            {
                jobs.push(Job { value: 5, ..Job::new(Operation::RemoteAtomic, segments) });
            }
            // And between them what is moved.
            jobs.push(Job::write(&[(area + 0x1_0000 + length, 300)], &mut mover.random));
        }
        mover.run(&jobs)?;
        let touched = mover.memory.bytes.read(area, 5_000);
        assert_eq!(touched, ByteMemory::default().read(area, 5_000));
    }
    Ok(())
}

/// A response that fails behind its first segments moves them, and nothing more.
#[test]
fn a_failure_ends_what_is_moved() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 4, quick(5), Stall::NEVER)?;
        let mut jobs = Vec::new();
        let mut reads = Vec::new();
        for number in 1..20u64 {
            let segments: Vec<_> =
                (0..number % 4 + 1).map(|n| (0x50_0000 + number * 0x1_0000 + n * 700, 37 * number)).collect();
            let mut write = Job::write(&segments, &mut mover.random);
            write.status = Status::MtrBusError.code();
            // Payload of what would have followed.
            write.payload.resize(write.payload.len() + (number as usize * 50) % 333, 0xee);
            jobs.push(write);
            reads.push(Job { status: Status::MtrBusError.code(), ..Job::new(Operation::RemoteRead, &segments) });
        }
        mover.run(&jobs)?;
        mover.run(&reads)?;
    }
    Ok(())
}

/// The payload of a write that is too short or too long changes no other write.
#[test]
fn payload_of_another_length_is_reported_and_stays_apart() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 5, quick(5), Stall::NEVER)?;
        let bytes = mover.beat_bytes() as u64;
        let mut jobs = Vec::new();
        for offset in [0, 1, bytes - 1] {
            for length in [1, bytes - 1, bytes, bytes + 1, 3 * bytes + 2] {
                for payload in [0, 1, bytes - 1, bytes, bytes + 1, 2 * bytes, 3 * bytes + 1, 3 * bytes + 2, 9 * bytes] {
                    let at = 0x60_0000 + jobs.len() as u64 * 8 * bytes + offset;
                    let mut job = Job::write(&[(at, length)], &mut mover.random);
                    job.payload.resize(payload as usize, 0x5a);
                    jobs.push(job);
                }
            }
        }
        mover.run(&jobs)?;
    }
    Ok(())
}

#[test]
fn bus_errors_are_reported_with_their_tag() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 6, quick(15), Stall::NEVER)?;
        let area = 0x70_0000;
        mover.memory.faults.extend([
            area / FAULT_BYTES,
            (area + 0x1000) / FAULT_BYTES + 3,
            (area + 0x2fc0) / FAULT_BYTES,
        ]);
        let mut jobs = Vec::new();
        for at in [area - 64, area - 1, area, area + 63, area + 64, area + 0x1000, area + 0x2fff, area + 0x3000] {
            for length in [1, 64, 65, 4096, 9000] {
                jobs.push(Job::new(Operation::RemoteRead, &[(at, length)]));
            }
        }
        for word in [area - 8, area, area + 56, area + 64, area + 0x10c8] {
            jobs.push(Job { value: 3, ..Job::new(Operation::RemoteAtomic, &[(word, 8)]) });
        }
        mover.run(&jobs)?;
        let writes: Vec<_> = jobs.iter().filter(|job| job.is_read()).map(|job| job.segments.clone()).collect();
        let writes: Vec<_> = writes.iter().map(|segments| Job::write(segments, &mut mover.random)).collect();
        mover.run(&writes)?;
        mover.memory.faults.clear();
        let reads: Vec<_> = writes.iter().map(|job| Job::new(Operation::RemoteRead, &job.segments)).collect();
        mover.run(&reads)?;
    }
    Ok(())
}

/// Atomics on few words, so that most wait for another; none is lost.
#[test]
fn atomics_on_one_word_are_carried_out_one_after_the_other() -> Result<(), Error> {
    for design in designs() {
        for latency in [2, 40] {
            let mut mover = Mover::new(design, 7, quick(latency), Stall::NEVER)?;
            let mut jobs = Vec::new();
            let mut values: BTreeMap<u64, u64> = BTreeMap::new();
            for number in 0..120u64 {
                let word = 0x80_0000 + [0, 8, 0, 56, 0, 64, 0x1000, 8][number as usize % 8];
                let old = mover.memory.bytes.read(word, 8).try_into().map(u64::from_le_bytes).expect("there are 8");
                let expected = *values.get(&word).unwrap_or(&old);
                let is_swap: bool = mover.random.random();
                let value = mover.random.random();
                // Half of the swaps find what they compare with.
                let compare = if mover.random.random() { expected } else { mover.random.random() };
                let new = if !is_swap {
                    expected.wrapping_add(value)
                } else if compare == expected {
                    value
                } else {
                    expected
                };
                values.insert(word, new);
                jobs.push(Job { is_swap, value, compare, ..Job::new(Operation::RemoteAtomic, &[(word, 8)]) });
            }
            mover.run(&jobs)?;
            for (word, value) in values {
                assert_eq!(mover.memory.bytes.read(word, 8), value.to_le_bytes());
            }
        }
    }
    Ok(())
}

/// Atomics on different words run beside each other.
#[test]
fn atomics_on_different_words_overlap() -> Result<(), Error> {
    for design in designs() {
        let latency = 200;
        let mut mover = Mover::new(design, 8, quick(latency), Stall::NEVER)?;
        let places = u64::from(mover.config.mover_atomics_in_flight);
        let jobs: Vec<_> = (0..4 * places)
            .map(|number| Job { value: 1, ..Job::new(Operation::RemoteAtomic, &[(0x90_0000 + 8 * number, 8)]) })
            .collect();
        let cycles = mover.run(&jobs)?;
        // Four rounds of a read and a write.
        let limit = 4 * (2 * latency + 40);
        assert!(cycles < limit, "{}: {cycles} cycles, at most {limit}", design.name);
    }
    Ok(())
}

/// A report of DMA comes when the last byte is there, and not before.
#[test]
fn a_write_is_reported_when_its_bytes_are_there() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 9, quick(100), Stall::NEVER)?;
        for length in [1, 64, 5_000] {
            let at = 0xa0_0000;
            let job = Job::write(&[(at, length)], &mut mover.random);
            mover.offer(&job)?;
            let mut cycles = 0;
            while mover.bench[mover.done].is_empty() {
                mover.cycle()?;
                cycles += 1;
                assert!(cycles < 20_000, "no report");
            }
            assert_eq!(mover.memory.bytes.read(at, length), job.payload);
            assert!(cycles > 100);
            mover.bench[mover.done].pop();
            carry_out(&job, &mut mover.reference, &mover.memory.faults, &mover.config);
            while mover.bench[mover.completion].pop().is_none() {
                mover.cycle()?;
            }
        }
    }
    Ok(())
}

/// While nobody takes packets, all data that was asked for is taken from the bus, and writes go on.
#[test]
fn a_consumer_that_stops_holds_up_neither_the_bus_nor_writes() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 10, quick(30), Stall::NEVER)?;
        mover.bench[mover.packet].set_stall(Stall::percent(100).up_to(u16::MAX));
        let reads: Vec<_> =
            (0..8).map(|n| Job::new(Operation::RemoteRead, &[(0xb0_0000 + n * 0x1000, 4096)])).collect();
        for job in &reads {
            mover.offer(job)?;
            carry_out(job, &mut mover.reference, &mover.memory.faults, &mover.config);
        }
        let rready = mover.bench.model().output(&format!("{MEMORY_PORT}_rready"))?;
        let rvalid = mover.bench.model().input(&format!("{MEMORY_PORT}_rvalid"))?;
        let mut waits = 0;
        for _ in 0..2_000 {
            mover.cycle()?;
            let is_waiting = mover.bench.model().get(rvalid) == 1 && mover.bench.model().get(rready) == 0;
            waits = if is_waiting { waits + 1 } else { 0 };
            assert!(waits < 3, "{}: read data waits for the consumer of packets", design.name);
        }
        let write = Job::write(&[(0xc0_0000, 10_000)], &mut mover.random);
        mover.offer(&write)?;
        for _ in 0..5_000 {
            mover.cycle()?;
        }
        assert_eq!(mover.memory.bytes.read(0xc0_0000, 10_000), write.payload, "{}: the write waits", design.name);
    }
    Ok(())
}

/// The bus is not asked for before the payload of a burst is there.
#[test]
fn a_slow_payload_does_not_hold_the_bus() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 11, quick(10), Stall::NEVER)?;
        let bytes = mover.beat_bytes() as u64;
        let burst = bytes * u64::from(mover.config.mover_burst_beats);
        let mut payload = vec![0; burst as usize];
        mover.random.fill_bytes(&mut payload);
        let operation = [("operation", Operation::RemoteWrite.code().into())];
        mover.bench[mover.operation].push_fields(&operation)?;
        let response = [("pa", 0xd0_0000), ("length", burst.into()), ("first", 1), ("last", 1)];
        mover.bench[mover.response].push_fields(&response)?;
        let awvalid = mover.bench.model().output(&format!("{MEMORY_PORT}_awvalid"))?;
        let count = payload.len() / bytes as usize;
        for (number, part) in payload.chunks(bytes as usize).enumerate() {
            for _ in 0..60 {
                mover.cycle()?;
                assert_eq!(mover.bench.model().get(awvalid), 0, "{}: beat {number} of {count}", design.name);
            }
            let mut beat = mover.bench[mover.payload].blank();
            set_data(&mover.payload_channel, &mut beat, part, &mut mover.random);
            beat.set("keep", (1u128 << bytes) - 1)?;
            beat.set("last", (number + 1 == count).into())?;
            mover.bench[mover.payload].push(beat);
        }
        for _ in 0..200 {
            mover.cycle()?;
        }
        assert_eq!(mover.memory.bytes.read(0xd0_0000, burst), payload);
    }
    Ok(())
}

/// Beats of a packet and of W per cycle, from the first to the last one.
struct Rates {
    read: Option<f64>,
    write: Option<f64>,
}

/// Runs requests of 4 KiB at a distance from alignment and measures.
fn rates(latency_cycles: u64, offset: u64, reads: bool, writes: bool) -> Result<Rates, Error> {
    let mut mover = Mover::new(&dut::DATA_MOVER_DEFAULT, 12, quick(latency_cycles), Stall::NEVER)?;
    let count = 64;
    let mut jobs = Vec::new();
    for number in 0..count {
        let at = 0x100_0000 + number * 0x2000 + offset;
        if reads {
            jobs.push(Job::new(Operation::RemoteRead, &[(at, 4096)]));
        }
        if writes {
            jobs.push(Job::write(&[(0x200_0000 + number * 0x2000 + offset, 4096)], &mut mover.random));
        }
    }
    let mut first_and_last = None;
    for job in &jobs {
        mover.offer(job)?;
    }
    let mut completions = 0;
    let mut packet_beats = 0u64;
    while completions < jobs.len() || (reads && packet_beats < count * 64) {
        mover.cycle()?;
        while mover.bench[mover.completion].pop().is_some() {
            completions += 1;
        }
        while let Some(beat) = mover.bench[mover.packet].pop() {
            packet_beats += 1;
            let first = first_and_last.map_or(beat.cycle, |(first, _)| first);
            first_and_last = Some((first, beat.cycle));
        }
        assert!(mover.bench.cycles() < 100_000, "{completions} of {} in 100000 cycles", jobs.len());
    }
    let bytes = (count * 4096) as f64;
    let rate = |(first, last): (u64, u64)| bytes / 64.0 / (last - first + 1) as f64;
    Ok(Rates { read: first_and_last.map(rate), write: mover.memory.write_cycles.map(rate) })
}

/// 0.95 or more of a beat per cycle on requests of 4 KiB at 250 cycles of latency, each way and both together.
#[test]
fn the_port_is_saturated_at_250_cycles_of_latency() -> Result<(), Error> {
    for (offset, what) in [(0, "aligned"), (24, "24 bytes off")] {
        for (reads, writes) in [(true, false), (false, true), (true, true)] {
            let Rates { read, write } = rates(250, offset, reads, writes)?;
            let text = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.3}"));
            println!("4 KiB, {what}: beats of 64 bytes per cycle: read {}, write {}", text(read), text(write));
            assert_eq!((read.is_some(), write.is_some()), (reads, writes));
            for rate in read.into_iter().chain(write) {
                assert!(rate >= 0.95, "{rate}");
            }
        }
    }
    Ok(())
}

/// A job of any kind. Reads keep to one half of each page, writes to the other, as `turn` says; atomics to pages of their own.
fn any_job(random: &mut ChaCha8Rng, turn: u64) -> Job {
    let half = |is_write: bool| 0x1000 * (u64::from(is_write) ^ turn);
    let segment = |random: &mut ChaCha8Rng, is_write: bool| {
        let page = random.random_range(0..24) * 0x2000 + half(is_write);
        let offset = if random.random() { 0 } else { random.random_range(0..4096) };
        let longest = 4096 - offset;
        let length = match random.random_range(0..4) {
            0 => longest,
            1 => longest.min(random.random_range(1..=16)),
            _ => random.random_range(1..=longest),
        };
        (0x300_0000 + page + offset, length)
    };
    let kind = random.random_range(0..10);
    let count = if random.random_range(0..3) == 0 { random.random_range(1..6) } else { 1 };
    let mut job = match kind {
        0..=3 => {
            let segments: Vec<_> = (0..count).map(|_| segment(random, false)).collect();
            Job::new(if random.random() { Operation::LocalRead } else { Operation::RemoteRead }, &segments)
        }
        4..=7 => {
            let segments: Vec<_> = (0..count).map(|_| segment(random, true)).collect();
            let mut job = Job::write(&segments, random);
            if random.random() {
                job.operation = Operation::LocalWrite.code();
            }
            job
        }
        8 => {
            let word = 0x400_0000 + 8 * random.random_range(0..6);
            let value = random.random_range(0..3);
            let (is_swap, compare) = (random.random(), random.random_range(0..3));
            Job { is_swap, value, compare, ..Job::new(Operation::RemoteAtomic, &[(word, 8)]) }
        }
        _ => Job::new(Operation::Bind, &[segment(random, true)]),
    };
    match random.random_range(0..24) {
        0 => job.status = Status::ProtectionDomain.code(),
        1 => (job.status, job.segments) = (Status::MtrNotPresent.code(), Vec::new()),
        2 => job.is_foreign = true,
        3 if !job.is_atomic() => job.segments = vec![(0, 0)],
        4 if job.is_write() => {
            let length = random.random_range(0..2 * job.payload.len() + 2);
            job.payload.resize(length, 0x77);
        }
        _ => {}
    }
    if job.operation == Operation::Bind.code() && job.segments.is_empty() && job.status == 0 {
        job.segments = vec![(0, 0)];
    }
    job
}

/// Any jobs at any pace, with bus errors; in every round the pages that were written are read.
fn random_rounds(seed: u64, options: BusOptions, stall: Stall, rounds: u64) -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, seed, options.clone(), stall)?;
        let mut random = mover.bench.random();
        for round in 0..rounds {
            mover.memory.faults.clear();
            if round % 2 == 1 {
                let any = (0..6).map(|_| 0x300_0000 / FAULT_BYTES + random.random_range(0..24 * 0x2000 / FAULT_BYTES));
                mover.memory.faults.extend(any.collect::<Vec<_>>());
            }
            let jobs: Vec<_> = (0..60).map(|_| any_job(&mut random, round % 2)).collect();
            mover.run(&jobs)?;
        }
    }
    Ok(())
}

#[test]
fn any_jobs_without_stalls() -> Result<(), Error> {
    random_rounds(20, quick(12), Stall::NEVER, 6)
}

#[test]
fn any_jobs_with_stalls() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 1..=60, stall: Stall::percent(25).up_to(6) };
    random_rounds(21, options, Stall::percent(25).up_to(6), 6)
}

#[test]
fn any_jobs_with_a_bus_slower_than_the_streams_and_the_other_way_round() -> Result<(), Error> {
    let slow = Stall::percent(60).up_to(8);
    random_rounds(22, BusOptions { latency_cycles: 100..=300, stall: slow }, Stall::NEVER, 2)?;
    random_rounds(23, quick(3), slow, 2)
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_mover() -> Result<(), Error> {
    for design in designs() {
        let options = BusOptions { latency_cycles: 5..=40, stall: Stall::percent(10) };
        let mut mover = Mover::new(design, 30, options, Stall::percent(10))?;
        let mut random = mover.bench.random();
        for cycles in (1..400).step_by(13) {
            for _ in 0..10 {
                let job = any_job(&mut random, 0);
                mover.offer(&job)?;
            }
            for _ in 0..cycles {
                mover.cycle()?;
            }
            mover.reset()?;
            let jobs: Vec<_> = (0..4).map(|_| any_job(&mut random, cycles % 2)).collect();
            mover.run(&jobs)?;
        }
    }
    Ok(())
}

/// Cycles from a response to the first cycle of `valid`.
fn cycles_to(mover: &mut Mover, signal: &str, job: &Job) -> Result<u64, Error> {
    let valid = mover.bench.model().output(signal)?;
    let response = mover.response;
    mover.bench[response].record_acceptances();
    while mover.bench[response].pop_acceptance().is_some() {}
    mover.offer(job)?;
    let limit = mover.bench.cycles() + 200;
    while mover.bench.model().get(valid) == 0 {
        mover.cycle()?;
        assert!(mover.bench.cycles() < limit, "no {signal}");
    }
    let accepted = mover.bench[response].pop_acceptance().expect("it was accepted");
    Ok(mover.bench.cycles() - accepted)
}

/// From a response to the bus, as documented.
#[test]
fn latencies_are_as_documented() -> Result<(), Error> {
    for design in designs() {
        let mut mover = Mover::new(design, 40, quick(3), Stall::NEVER)?;
        let at = 0x500_0000;
        let read =
            cycles_to(&mut mover, &format!("{MEMORY_PORT}_arvalid"), &Job::new(Operation::RemoteRead, &[(at, 8)]))?;
        let job = Job::write(&[(at, 8)], &mut mover.random);
        let write = cycles_to(&mut mover, &format!("{MEMORY_PORT}_awvalid"), &job)?;
        assert_eq!((read, write), (8, 14), "{}", design.name);
    }
    Ok(())
}
