//! The block that reads and packs, against a memory.

use keywalk_contract::{Config, MoverStatus};
use keywalk_cosim::{
    Bench, BusMemory, BusOptions, Error, FAULT_BYTES, Handle, Received, Stall, StreamDriver, StreamSink, data_of, dut,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Codes of what is to be done, in the mover.
const NOTHING: u128 = 0;
const READ: u128 = 1;
const ATOMIC: u128 = 3;

struct Read {
    bench: Bench,
    config: Config,
    memory: BusMemory,
    segment: Handle<StreamDriver>,
    packet: Handle<StreamSink>,
    outcome: Handle<StreamSink>,
    start: Handle<StreamSink>,
    old: Handle<StreamSink>,
}

/// A response: what is to be done, its segments, and whether an error follows them.
#[derive(Clone, Debug)]
struct Response {
    kind: u128,
    segments: Vec<(u64, u64)>,
    is_refused: bool,
}

impl Read {
    fn new(seed: u64, options: BusOptions, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::MOVER_READ, seed);
        let segment = bench.driver("segment", stall)?;
        let (packet, outcome) = (bench.sink("packet", stall)?, bench.sink("outcome", stall)?);
        let (start, old) = (bench.sink("start", stall)?, bench.sink("old", Stall::NEVER)?);
        let memory = BusMemory::new(&mut bench, "mem_", options)?;
        bench.reset(3)?;
        let config = dut::MOVER_READ.config().expect("it was generated");
        Ok(Self { bench, config, memory, segment, packet, outcome, start, old })
    }

    fn cycle(&mut self) -> Result<(), Error> {
        self.bench.cycle()?;
        self.memory.service(&mut self.bench)
    }

    fn offer(&mut self, tag: usize, response: &Response) -> Result<(), Error> {
        let end = response.is_refused.then_some((0, 0));
        let count = response.segments.len() + usize::from(response.is_refused);
        for (number, (pa, length)) in response.segments.iter().copied().chain(end).enumerate() {
            let is_end = response.is_refused && number + 1 == count;
            let status = if is_end { MoverStatus::Refused } else { MoverStatus::Ok };
            let fields = [
                ("kind", response.kind),
                ("tag", tag as u128),
                ("function", tag as u128 % 256),
                ("status", status.code().into()),
                ("refusal", if is_end { 9 } else { 0 }),
                ("last", (number + 1 == count).into()),
                ("is_empty", (length == 0 || response.kind == NOTHING).into()),
                ("pa", pa.into()),
                ("extent", (length as u32).wrapping_sub(1).into()),
            ];
            self.bench[self.segment].push_fields(&fields)?;
        }
        Ok(())
    }

    /// Sends responses and compares everything that comes out; gives the cycles that it took.
    fn run(&mut self, responses: &[Response]) -> Result<u64, Error> {
        for (tag, response) in responses.iter().enumerate() {
            self.offer(tag, response)?;
        }
        let atomics = responses.iter().filter(|response| response.kind == ATOMIC).count();
        let packets = responses.iter().filter(|response| response.kind != NOTHING).count();
        let outcomes = responses.len() - atomics;
        let start = self.bench.cycles();
        let mut received: Vec<Received> = Vec::new();
        let (mut ends, mut waited) = (0, 0);
        while ends < packets || self.bench[self.outcome].len() < outcomes || self.bench[self.old].len() < atomics {
            self.cycle()?;
            waited += 1;
            while let Some(beat) = self.bench[self.packet].pop() {
                ends += usize::from(beat.get("last")? == 1);
                received.push(beat);
                waited = 0;
            }
            assert!(waited < 5_000, "{ends} of {packets} packets");
        }
        let cycles = self.bench.cycles() - start;
        for _ in 0..30 {
            self.cycle()?;
        }
        assert!(self.bench[self.packet].is_empty());
        let mut received = received.into_iter();
        for (tag, response) in responses.iter().enumerate() {
            let bytes: Vec<u64> = response.segments.iter().flat_map(|(pa, length)| *pa..pa + length).collect();
            let is_hit = response.kind != NOTHING && self.touches_a_fault(response);
            let status = match (is_hit, response.is_refused) {
                (true, _) => MoverStatus::ReadError,
                (_, true) => MoverStatus::Refused,
                _ => MoverStatus::Ok,
            };
            let own = (tag as u128, tag as u128 % 256);
            if response.kind == ATOMIC {
                let start = self.bench[self.start].pop().expect("every atomic is offered");
                assert_eq!((start.get("tag")?, start.get("function")?), own);
                assert_eq!(start.get("is_empty")? == 1, response.is_refused);
                let old = self.bench[self.old].pop().expect("every atomic has an old value, or none");
                assert_eq!(old.get("is_bad")? == 1, is_hit);
                if let (&[(pa, 8)], false) = (&response.segments[..], is_hit) {
                    assert_eq!(start.get("word")?, u128::from(pa / 8));
                    let value = u64::from_le_bytes(self.memory.bytes.read(pa, 8).try_into().expect("there are 8"));
                    assert_eq!(old.get("value")?, value.into());
                }
            } else {
                let outcome = self.bench[self.outcome].pop().expect("every response has an outcome");
                assert_eq!((outcome.get("tag")?, outcome.get("function")?), own);
                assert_eq!(outcome.get("status")?, status.code().into(), "{response:x?}");
                assert_eq!(outcome.get("refusal")?, if response.is_refused { 9 } else { 0 });
            }
            if response.kind != NOTHING {
                // An end that comes behind whole beats comes in one without bytes.
                let ends_late = response.is_refused && !bytes.is_empty();
                self.compare_packet(&bytes, (status != MoverStatus::Ok, ends_late), &mut received)?;
            }
        }
        assert!(self.bench[self.start].is_empty() && self.bench[self.outcome].is_empty());
        assert!(self.memory.reads_peak <= self.config.mover_reads_in_flight as usize);
        Ok(cycles)
    }

    fn touches_a_fault(&self, response: &Response) -> bool {
        let beat = u64::from(self.config.mover_beat_bytes());
        let segments = response.segments.iter().filter(|(_, length)| *length > 0);
        let mut beats = segments.flat_map(|(pa, length)| pa / beat..=(pa + length - 1) / beat);
        beats.any(|number| self.memory.is_faulty(number * beat))
    }

    fn compare_packet(
        &self,
        bytes: &[u64],
        (is_bad, ends_late): (bool, bool),
        received: &mut impl Iterator<Item = Received>,
    ) -> Result<(), Error> {
        let channel = self.bench[self.packet].channel();
        let beat_bytes = self.config.mover_beat_bytes() as usize;
        let mut parts: Vec<&[u64]> = bytes.chunks(beat_bytes).collect();
        if bytes.is_empty() || (ends_late && bytes.len().is_multiple_of(beat_bytes)) {
            parts.push(&[]);
        }
        for (number, part) in parts.iter().enumerate() {
            let beat = received.next().expect("a packet is whole");
            let is_last = number + 1 == parts.len();
            let found = (beat.get("keep")?, beat.get("last")? == 1, beat.get("error")? == 1);
            assert_eq!(found, ((1 << part.len()) - 1, is_last, is_last && is_bad));
            for (address, byte) in part.iter().zip(data_of(channel, &beat.beat)) {
                assert!(self.memory.is_faulty(*address) || self.memory.bytes.get(*address) == byte, "{address:x}");
            }
        }
        Ok(())
    }
}

fn any_response(random: &mut ChaCha8Rng) -> Response {
    let is_refused = random.random_range(0..5) == 0;
    match random.random_range(0..8) {
        0 => Response { kind: NOTHING, segments: vec![(0, 0)], is_refused: false },
        1 if is_refused => Response { kind: ATOMIC, segments: Vec::new(), is_refused },
        1 => Response { kind: ATOMIC, segments: vec![(8 * random.random_range(0..0x1000), 8)], is_refused },
        _ => {
            let count = random.random_range(usize::from(!is_refused)..5);
            let segment = |random: &mut ChaCha8Rng| {
                let length = if random.random() { random.random_range(1..70) } else { random.random_range(1..700) };
                (random.random_range(0..0x8000), length)
            };
            let segments = (0..count).map(|_| segment(random)).collect();
            Response { kind: READ, segments, is_refused }
        }
    }
}

#[test]
fn what_is_read_is_packed_byte_for_byte() -> Result<(), Error> {
    for (seed, latency, stall) in [(1, 3..=3, Stall::NEVER), (2, 1..=60, Stall::percent(30).up_to(5))] {
        let mut read = Read::new(seed, BusOptions { latency_cycles: latency, stall }, stall)?;
        let mut random = read.bench.random();
        for round in 0..4 {
            read.memory.faults.clear();
            if round % 2 == 1 {
                let faults = (0..40).map(|_| random.random_range(0..0x8000 / FAULT_BYTES));
                read.memory.faults = faults.collect();
            }
            let responses: Vec<_> = (0..150).map(|_| any_response(&mut random)).collect();
            read.run(&responses)?;
        }
    }
    Ok(())
}

/// As many reads as there may be are in flight, and no more data is asked for than there is room for.
#[test]
fn reads_in_flight_are_bounded_by_number_and_by_room() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 500..=500, stall: Stall::NEVER };
    let mut read = Read::new(3, options, Stall::NEVER)?;
    let short: Vec<_> =
        (0..60).map(|number| Response { kind: READ, segments: vec![(64 * number, 4)], is_refused: false }).collect();
    read.run(&short)?;
    assert_eq!(read.memory.reads_peak, read.config.mover_reads_in_flight as usize);
    // While packets are not taken, beats that were asked for stay below what there is room for.
    let long = Response { kind: READ, segments: vec![(0, 0x4000)], is_refused: false };
    let packet = read.packet;
    read.bench[packet].set_stall(Stall::percent(100).up_to(u16::MAX));
    read.offer(0, &long)?;
    let rready = read.bench.model().output("mem_rready")?;
    let rvalid = read.bench.model().input("mem_rvalid")?;
    let mut beats = 0;
    for _ in 0..3_000 {
        read.cycle()?;
        beats += read.bench.model().get(rready) & read.bench.model().get(rvalid);
    }
    let depth = u64::from(read.config.mover_read_depth());
    assert!(beats <= depth, "{beats} beats of {depth}");
    assert!(beats + 2 * u64::from(read.config.mover_burst_beats) + 2 >= depth, "{beats} beats of {depth}");
    Ok(())
}

/// Outcomes that nobody takes hold up further reads in the end; none of them is lost.
#[test]
fn outcomes_that_are_not_taken_are_kept() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 1..=1, stall: Stall::NEVER };
    let mut read = Read::new(6, options, Stall::NEVER)?;
    let outcome = read.outcome;
    read.bench[outcome].set_stall(Stall::percent(100).up_to(u16::MAX));
    let count = 60;
    for tag in 0..count {
        let kind = if tag % 2 == 0 { NOTHING } else { READ };
        let segments = if tag % 2 == 0 { vec![(0, 0)] } else { vec![(64 * tag as u64, 4)] };
        read.offer(tag, &Response { kind, segments, is_refused: false })?;
    }
    for cycle in 0..1_200 {
        if cycle == 800 {
            read.bench[outcome].set_stall(Stall::NEVER);
        }
        read.cycle()?;
    }
    for tag in 0..count {
        let found = read.bench[outcome].pop().map(|outcome| outcome.get("tag")).transpose()?;
        assert_eq!(found, Some(tag as u128));
    }
    Ok(())
}

/// A beat in every cycle, where what is read begins with a beat; else one cycle more for a response.
#[test]
fn a_beat_lands_in_every_cycle() -> Result<(), Error> {
    for (offset, extra) in [(0, 0), (5, 1)] {
        let mut read = Read::new(4, BusOptions { latency_cycles: 1..=1, stall: Stall::NEVER }, Stall::NEVER)?;
        let bytes = u64::from(read.config.mover_beat_bytes());
        let beats = 64;
        let segment = |number: u64| (number * 2 * beats * bytes + offset, beats * bytes);
        let response = |number| Response { kind: READ, segments: vec![segment(number)], is_refused: false };
        let responses: Vec<_> = (0..40).map(response).collect();
        let cycles = read.run(&responses)?;
        let expected = 40 * (beats + extra);
        assert!(cycles <= expected + 60, "offset {offset}: {cycles} cycles, {expected} expected");
    }
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_block() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 1..=20, stall: Stall::percent(20) };
    let mut read = Read::new(5, options, Stall::percent(20))?;
    let mut random = read.bench.random();
    for cycles in 1..40 {
        for tag in 0..4 {
            let response = any_response(&mut random);
            read.offer(tag, &response)?;
        }
        for _ in 0..cycles {
            read.cycle()?;
        }
        read.bench.reset(2)?;
        read.memory.reset(&read.bench);
        let responses: Vec<_> = (0..4).map(|_| any_response(&mut random)).collect();
        read.run(&responses)?;
    }
    Ok(())
}

/// From a segment to its read, and from its data to the packet, as documented.
#[test]
fn latencies_are_as_documented() -> Result<(), Error> {
    let mut read = Read::new(6, BusOptions { latency_cycles: 20..=20, stall: Stall::NEVER }, Stall::NEVER)?;
    let (segment, packet) = (read.segment, read.packet);
    read.bench[segment].record_acceptances();
    let bytes = read.config.mover_beat_bytes().into();
    read.offer(0, &Response { kind: READ, segments: vec![(0, bytes)], is_refused: false })?;
    let [arvalid, rready] = ["arvalid", "rready"].map(|name| read.bench.model().output(&format!("mem_{name}")));
    let (arvalid, rready) = (arvalid?, rready?);
    let rvalid = read.bench.model().input("mem_rvalid")?;
    let (mut issued, mut landed) = (None, None);
    while read.bench[packet].is_empty() {
        // Outputs are registers: what they are before a cycle they are in it.
        let (model, now) = (read.bench.model(), read.bench.cycles());
        if model.get(arvalid) == 1 {
            issued.get_or_insert(now);
        }
        let is_ready = model.get(rready) == 1;
        read.cycle()?;
        if is_ready && read.bench.model().get(rvalid) == 1 {
            landed.get_or_insert(now);
        }
        assert!(read.bench.cycles() < 200, "no packet");
    }
    let accepted = read.bench[segment].pop_acceptance().expect("it was accepted");
    let left = read.bench[packet].pop().expect("there is one").valid_cycle;
    let (issued, landed) = (issued.expect("it was read"), landed.expect("it landed"));
    assert_eq!((issued - accepted, left - landed), (5, 7));
    Ok(())
}
