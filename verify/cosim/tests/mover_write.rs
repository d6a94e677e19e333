//! The block that brings payload to its destination: its bursts and beats, put into a memory.

use keywalk_contract::{Config, MoverStatus};
use keywalk_cosim::{Bench, ByteMemory, Error, Handle, Stall, StreamDriver, StreamSink, data_of, dut, set_data};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

struct Write {
    bench: Bench,
    config: Config,
    segment: Handle<StreamDriver>,
    payload: Handle<StreamDriver>,
    burst: Handle<StreamSink>,
    beat: Handle<StreamSink>,
    random: ChaCha8Rng,
}

/// A response: its segments, whether an error follows them, and its payload.
struct Response {
    segments: Vec<(u64, u64)>,
    is_refused: bool,
    payload: Vec<u8>,
}

impl Write {
    fn new(seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::MOVER_WRITE, seed);
        let (segment, payload) = (bench.driver("segment", stall)?, bench.driver("payload", stall)?);
        let (burst, beat) = (bench.sink("burst", stall)?, bench.sink("beat", stall)?);
        bench.reset(3)?;
        let config = dut::MOVER_WRITE.config().expect("it was generated");
        let random = bench.random();
        Ok(Self { bench, config, segment, payload, burst, beat, random })
    }

    fn offer(&mut self, tag: usize, response: &Response) -> Result<(), Error> {
        let end = response.is_refused.then_some((0, 0));
        let count = response.segments.len() + usize::from(response.is_refused);
        for (number, (pa, length)) in response.segments.iter().copied().chain(end).enumerate() {
            let is_end = response.is_refused && number + 1 == count;
            let status = if is_end { MoverStatus::Refused } else { MoverStatus::Ok };
            let fields = [
                ("tag", tag as u128),
                ("function", tag as u128 % 256),
                ("status", status.code().into()),
                ("refusal", if is_end { 9 } else { 0 }),
                ("last", (number + 1 == count).into()),
                ("is_empty", (length == 0).into()),
                ("pa", pa.into()),
                ("extent", (length as u32).wrapping_sub(1).into()),
            ];
            self.bench[self.segment].push_fields(&fields)?;
        }
        let beat_bytes = self.config.mover_beat_bytes() as usize;
        let count = response.payload.len().div_ceil(beat_bytes).max(1);
        for number in 0..count {
            let end = response.payload.len().min((number + 1) * beat_bytes);
            let part = &response.payload[number * beat_bytes..end];
            let channel = self.bench[self.payload].channel().clone();
            let mut beat = self.bench[self.payload].blank();
            set_data(&channel, &mut beat, part, &mut self.random);
            beat.set("keep", (1u128 << part.len()) - 1)?;
            beat.set("last", (number + 1 == count).into())?;
            self.bench[self.payload].push(beat);
        }
        Ok(())
    }

    /// Sends responses, puts their beats into a memory and compares; gives the cycles that it took.
    fn run(&mut self, responses: &[Response]) -> Result<u64, Error> {
        for (tag, response) in responses.iter().enumerate() {
            self.offer(tag, response)?;
        }
        let (burst, beat) = (self.burst, self.beat);
        let channel = self.bench[beat].channel().clone();
        let bytes = u64::from(self.config.mover_beat_bytes());
        let start = self.bench.cycles();
        let mut memory = ByteMemory::default();
        let mut reference = ByteMemory::default();
        for (tag, response) in responses.iter().enumerate() {
            loop {
                self.bench.run_until("a burst", 5_000, |bench| !bench[burst].is_empty())?;
                let found = self.bench[burst].pop().expect("there is one");
                assert_eq!((found.get("tag")?, found.get("function")?), (tag as u128, tag as u128 % 256));
                let is_empty = found.get("is_empty")? == 1;
                let beats = if is_empty { 0 } else { found.get("beats")? as u64 + 1 };
                for number in 0..beats {
                    // All beats are there when the burst is.
                    self.bench.run_until("a beat", 100, |bench| !bench[beat].is_empty())?;
                    let found_beat = self.bench[beat].pop().expect("there is one");
                    assert_eq!(found_beat.get("last")? == 1, number + 1 == beats);
                    let at = (found.get("beat")? as u64 + number) * bytes;
                    let strobes = found_beat.get("strobes")? as u64;
                    let data = data_of(&channel, &found_beat.beat);
                    let written = (0..bytes).filter(|byte| strobes >> byte & 1 == 1);
                    written.for_each(|byte| memory.set(at + byte, data[byte as usize]));
                }
                if found.get("last")? == 1 {
                    let status = if response.is_refused { MoverStatus::Refused } else { MoverStatus::Ok };
                    assert_eq!(found.get("status")?, status.code().into());
                    assert_eq!(found.get("refusal")?, if response.is_refused { 9 } else { 0 });
                    break;
                }
                assert!(!is_empty);
            }
            let addresses = response.segments.iter().flat_map(|(pa, length)| *pa..pa + length);
            addresses.zip(&response.payload).for_each(|(address, byte)| reference.set(address, *byte));
        }
        let cycles = self.bench.cycles() - start;
        self.bench.run(30)?;
        assert!(self.bench[burst].is_empty() && self.bench[beat].is_empty(), "more than there is");
        assert_eq!((self.bench[self.segment].pending(), self.bench[self.payload].pending()), (0, 0));
        let differences = memory.differences(&reference);
        assert!(differences.is_empty(), "written otherwise at {differences:x?}");
        Ok(cycles)
    }
}

fn any_response(random: &mut ChaCha8Rng) -> Response {
    let count = random.random_range(0..4);
    let segment = |random: &mut ChaCha8Rng| {
        let length = if random.random() { random.random_range(1..70) } else { random.random_range(1..700) };
        (random.random_range(0..0x10_0000), length)
    };
    let segments: Vec<_> = (0..count).map(|_| segment(random)).collect();
    let length: u64 = segments.iter().map(|(_, length)| length).sum();
    let is_refused = segments.is_empty() || random.random_range(0..4) == 0;
    // What is refused has payload that is not written.
    let more = if is_refused { random.random_range(0..300) } else { 0 };
    let mut payload = vec![0; length as usize + more];
    random.fill_bytes(&mut payload);
    Response { segments, is_refused, payload }
}

#[test]
fn payload_comes_to_its_place_and_nothing_else_is_written() -> Result<(), Error> {
    for (seed, stall) in [(1, Stall::NEVER), (2, Stall::percent(30).up_to(5))] {
        let mut write = Write::new(seed, stall)?;
        let mut random = write.bench.random();
        let responses: Vec<_> = (0..300).map(|_| any_response(&mut random)).collect();
        write.run(&responses)?;
    }
    Ok(())
}

/// A write of length 0 and a refused one take their packets along, however long.
#[test]
fn payload_of_what_is_not_written_is_dropped() -> Result<(), Error> {
    let mut write = Write::new(3, Stall::NEVER)?;
    let mut responses = Vec::new();
    for length in [0, 1, 31, 32, 33, 64, 500] {
        responses.push(Response { segments: Vec::new(), is_refused: true, payload: vec![1; length] });
        responses.push(Response { segments: vec![(0, 0)], is_refused: false, payload: vec![2; length] });
        responses.push(Response { segments: vec![(0x333, 40)], is_refused: false, payload: vec![3; 40] });
    }
    write.run(&responses)?;
    Ok(())
}

/// A beat in every cycle, where destination and payload are aligned to each other. Else there is one beat more, and one cycle
/// without any: a last burst of one beat does not hide the cycle between segments.
#[test]
fn a_beat_leaves_in_every_cycle() -> Result<(), Error> {
    for (offset, extra) in [(0, 0), (5, 2)] {
        let mut write = Write::new(4, Stall::NEVER)?;
        let bytes = u64::from(write.config.mover_beat_bytes());
        let beats = 64;
        let response = |number: u64| Response {
            segments: vec![(number * 2 * beats * bytes + offset, beats * bytes)],
            is_refused: false,
            payload: vec![number as u8; (beats * bytes) as usize],
        };
        let responses: Vec<_> = (0..40).map(response).collect();
        let cycles = write.run(&responses)?;
        let expected = 40 * (beats + extra);
        assert!(cycles <= expected + 40, "offset {offset}: {cycles} cycles, {expected} expected");
    }
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_block() -> Result<(), Error> {
    let mut write = Write::new(5, Stall::percent(20))?;
    let mut random = write.bench.random();
    for cycles in 1..40 {
        for tag in 0..4 {
            let response = any_response(&mut random);
            write.offer(tag, &response)?;
        }
        write.bench.run(cycles)?;
        write.bench.reset(2)?;
        let responses: Vec<_> = (0..4).map(|_| any_response(&mut random)).collect();
        write.run(&responses)?;
    }
    Ok(())
}

/// From a segment whose payload is there to its burst, as documented.
#[test]
fn a_burst_comes_ten_cycles_after_its_segment_and_one_for_each_further_beat() -> Result<(), Error> {
    for beats in [1, 4] {
        let mut write = Write::new(6, Stall::NEVER)?;
        let (segment, burst) = (write.segment, write.burst);
        write.bench[segment].record_acceptances();
        let bytes = beats * u64::from(write.config.mover_beat_bytes());
        let payload = vec![0; bytes as usize];
        write.offer(0, &Response { segments: vec![(0, bytes)], is_refused: false, payload })?;
        write.bench.run_until("a burst", 50, |bench| !bench[burst].is_empty())?;
        let accepted = write.bench[segment].pop_acceptance().expect("it was accepted");
        let valid = write.bench[burst].pop().expect("there is one").valid_cycle;
        assert_eq!(valid - accepted, 10 + beats - 1);
    }
    Ok(())
}
