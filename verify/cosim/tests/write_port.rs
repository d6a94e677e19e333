//! The port that writes bursts and atomics, against a memory.

use std::collections::VecDeque;

use keywalk_contract::{Config, MoverStatus};
use keywalk_cosim::{
    Bench, BusMemory, BusOptions, ByteMemory, Error, FAULT_BYTES, Handle, Stall, StreamDriver, StreamSink, dut,
    set_data,
};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// ByteMemory that everything is written within.
const AREA_BYTES: u64 = 0x8000;

struct Port {
    bench: Bench,
    config: Config,
    memory: BusMemory,
    reference: ByteMemory,
    burst: Handle<StreamDriver>,
    beat: Handle<StreamDriver>,
    atomic: Handle<StreamDriver>,
    outcome: Handle<StreamSink>,
    random: ChaCha8Rng,
    /// Expected outcomes of bursts and of atomics: tag and status.
    expected: [VecDeque<(u128, u128)>; 2],
    next_tag: u128,
    /// A burst of the response that is being offered has failed.
    is_bad: bool,
}

impl Port {
    fn new(seed: u64, options: BusOptions, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::WRITE_PORT, seed);
        let (burst, beat) = (bench.driver("burst", stall)?, bench.driver("beat", stall)?);
        let (atomic, outcome) = (bench.driver("atomic", stall)?, bench.sink("outcome", stall)?);
        let memory = BusMemory::new(&mut bench, "mem_", options)?;
        bench.reset(3)?;
        let config = dut::WRITE_PORT.config().expect("it was generated");
        let (reference, random) = (ByteMemory::default(), bench.random());
        let expected = [VecDeque::new(), VecDeque::new()];
        let (next_tag, is_bad) = (0, false);
        Ok(Self { bench, config, memory, reference, burst, beat, atomic, outcome, random, expected, next_tag, is_bad })
    }

    /// Offers a burst with random beats and strobes, or the end of a response without any.
    fn offer_burst(&mut self, last: bool, is_empty: bool) -> Result<(), Error> {
        let bytes = u64::from(self.config.mover_beat_bytes());
        let longest = u64::from(self.config.mover_burst_beats);
        let beats = self.random.random_range(1..=longest);
        // Bursts end at a multiple of the longest one.
        let first = self.random.random_range(0..AREA_BYTES / 2 / bytes / longest) * longest
            + self.random.random_range(0..=longest - beats);
        let status = if last { u128::from(self.random.random_range(0..5u8)) } else { 0 };
        let fields = [
            ("tag", self.next_tag),
            ("function", self.next_tag % 256),
            ("status", status),
            ("refusal", self.next_tag % 7),
            ("last", last.into()),
            ("is_empty", is_empty.into()),
            ("beat", first.into()),
            ("beats", u128::from(beats) - 1),
        ];
        self.bench[self.burst].push_fields(&fields)?;
        for number in 0..if is_empty { 0 } else { beats } {
            let at = (first + number) * bytes;
            let mut data = vec![0; bytes as usize];
            self.random.fill_bytes(&mut data);
            let strobes = self.random.random::<u64>() & (u64::MAX >> (64 - bytes));
            let channel = self.bench[self.beat].channel().clone();
            let mut beat = self.bench[self.beat].blank();
            set_data(&channel, &mut beat, &data, &mut self.random);
            beat.set("strobes", strobes.into())?;
            beat.set("last", (number + 1 == beats).into())?;
            self.bench[self.beat].push(beat);
            self.is_bad |= self.memory.is_faulty(at);
            let written = (0..bytes).filter(|byte| strobes >> byte & 1 == 1 && !self.memory.is_faulty(at));
            for byte in written.collect::<Vec<_>>() {
                self.reference.set(at + byte, data[byte as usize]);
            }
        }
        if last {
            let bad = u128::from(MoverStatus::WriteError.code());
            let status = if std::mem::take(&mut self.is_bad) { bad } else { status };
            self.expected[0].push_back((self.next_tag, status));
            self.next_tag += 1;
        }
        Ok(())
    }

    /// Offers an atomic in the other half of the area.
    fn offer_atomic(&mut self, is_empty: bool) -> Result<(), Error> {
        let at = AREA_BYTES / 2 + 8 * self.random.random_range(0..AREA_BYTES / 16);
        let value = self.random.random::<u64>();
        let fields = [
            ("tag", self.next_tag),
            ("function", self.next_tag % 256),
            ("refusal", self.next_tag % 7),
            ("is_empty", is_empty.into()),
            ("word", u128::from(at / 8)),
            ("value", value.into()),
        ];
        self.bench[self.atomic].push_fields(&fields)?;
        let is_bad = !is_empty && self.memory.is_faulty(at);
        if !is_empty && !is_bad {
            (at..).zip(value.to_le_bytes()).for_each(|(address, byte)| self.reference.set(address, byte));
        }
        let status = if is_bad { MoverStatus::WriteError } else { MoverStatus::Ok };
        self.expected[1].push_back((self.next_tag, status.code().into()));
        self.next_tag += 1;
        Ok(())
    }

    fn offer_any(&mut self, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let is_empty = self.random.random_range(0..8) == 0;
            match self.random.random_range(0..4) {
                0 => self.offer_atomic(is_empty)?,
                _ => {
                    let last = is_empty || self.random.random();
                    self.offer_burst(last, is_empty)?;
                }
            }
        }
        self.offer_burst(true, false)
    }

    /// Waits for all outcomes and compares them, and the memory.
    fn finish(&mut self) -> Result<(), Error> {
        let mut waited = 0;
        let mut ended_atomics = 0;
        let atomics = self.expected[1].len();
        let ended = self.bench.model().output("atomic_ended")?;
        while self.expected.iter().any(|queue| !queue.is_empty()) {
            self.bench.cycle()?;
            ended_atomics += self.bench.model().get(ended);
            self.memory.service(&mut self.bench)?;
            waited += 1;
            assert!(waited < 20_000, "outcomes that do not come: {:?}", self.expected);
            while let Some(outcome) = self.bench[self.outcome].pop() {
                let tag = outcome.get("tag")?;
                assert_eq!((outcome.get("function")?, outcome.get("refusal")?), (tag % 256, tag % 7));
                let queue = self.expected.iter_mut().find(|queue| queue.front().is_some_and(|next| next.0 == tag));
                let expected = queue.and_then(VecDeque::pop_front);
                assert_eq!(Some((tag, outcome.get("status")?)), expected);
                waited = 0;
            }
        }
        self.bench.run(20)?;
        assert_eq!(ended_atomics, atomics as u64);
        assert!(self.bench[self.outcome].is_empty());
        let differences = self.memory.bytes.differences(&self.reference);
        assert!(differences.is_empty(), "memory differs at {differences:x?}");
        assert!(self.memory.writes_peak <= self.config.mover_writes_in_flight.into());
        Ok(())
    }
}

#[test]
fn bursts_and_atomics_are_written_and_answered_in_order() -> Result<(), Error> {
    for (seed, latency, stall) in [(1, 1..=1, Stall::NEVER), (2, 1..=50, Stall::percent(30).up_to(4))] {
        let mut port = Port::new(seed, BusOptions { latency_cycles: latency, stall }, stall)?;
        for round in 0..8 {
            port.memory.faults.clear();
            if round % 2 == 1 {
                let faults = (0..20).map(|_| port.random.random_range(0..AREA_BYTES / FAULT_BYTES));
                port.memory.faults = faults.collect();
            }
            port.offer_any(100)?;
            port.finish()?;
        }
    }
    Ok(())
}

/// As many bursts as there may be are in flight, and a beat leaves in every cycle.
#[test]
fn bursts_in_flight_are_as_many_as_configured() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 300..=300, stall: Stall::NEVER };
    let mut port = Port::new(3, options, Stall::NEVER)?;
    for _ in 0..40 {
        port.offer_burst(true, false)?;
    }
    port.finish()?;
    assert_eq!(port.memory.writes_peak, u64::from(port.config.mover_writes_in_flight));
    let options = BusOptions { latency_cycles: 1..=1, stall: Stall::NEVER };
    let mut port = Port::new(4, options, Stall::NEVER)?;
    for _ in 0..300 {
        port.offer_burst(false, false)?;
    }
    port.offer_burst(true, false)?;
    port.finish()?;
    let (first, last) = port.memory.write_cycles.expect("there were writes");
    let rate = port.memory.write_beats as f64 / (last - first + 1) as f64;
    assert!(rate > 0.99, "{rate} beats per cycle");
    Ok(())
}

/// Outcomes that nobody takes hold up further writes in the end; none of them is lost.
#[test]
fn outcomes_that_are_not_taken_are_kept() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 1..=1, stall: Stall::NEVER };
    let mut port = Port::new(7, options, Stall::NEVER)?;
    let outcome = port.outcome;
    port.bench[outcome].set_stall(Stall::percent(100).up_to(u16::MAX));
    for number in 0..60 {
        port.offer_burst(true, number % 3 == 0)?;
    }
    for _ in 0..600 {
        port.bench.cycle()?;
        port.memory.service(&mut port.bench)?;
    }
    port.bench[outcome].set_stall(Stall::NEVER);
    port.finish()
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_port() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 1..=20, stall: Stall::percent(20) };
    let mut port = Port::new(5, options, Stall::percent(20))?;
    for cycles in 1..40 {
        port.offer_any(6)?;
        for _ in 0..cycles {
            port.bench.cycle()?;
            port.memory.service(&mut port.bench)?;
        }
        port.bench.reset(2)?;
        port.memory.reset(&port.bench);
        port.reference = port.memory.bytes.clone();
        port.expected.iter_mut().for_each(VecDeque::clear);
        port.is_bad = false;
        port.offer_any(6)?;
        port.finish()?;
    }
    Ok(())
}

/// From a burst to AW and W, and from the answer to the outcome, as documented.
#[test]
fn latencies_are_as_documented() -> Result<(), Error> {
    let options = BusOptions { latency_cycles: 20..=20, stall: Stall::NEVER };
    let mut port = Port::new(6, options, Stall::NEVER)?;
    let (burst, outcome) = (port.burst, port.outcome);
    port.bench[burst].record_acceptances();
    port.offer_burst(true, false)?;
    let signals = ["awvalid", "wvalid", "bready"].map(|name| port.bench.model().output(&format!("mem_{name}")));
    let [awvalid, wvalid, bready] = signals;
    let (awvalid, wvalid, bready) = (awvalid?, wvalid?, bready?);
    let bvalid = port.bench.model().input("mem_bvalid")?;
    let (mut address, mut data, mut answer) = (None, None, None);
    while port.bench[outcome].is_empty() {
        // Outputs are registers: what they are before a cycle they are in it.
        let (model, now) = (port.bench.model(), port.bench.cycles());
        if model.get(awvalid) == 1 {
            address.get_or_insert(now);
        }
        if model.get(wvalid) == 1 {
            data.get_or_insert(now);
        }
        let is_ready = model.get(bready) == 1;
        port.bench.cycle()?;
        port.memory.service(&mut port.bench)?;
        if is_ready && port.bench.model().get(bvalid) == 1 {
            answer.get_or_insert(now);
        }
        assert!(now < 200, "no outcome");
    }
    let accepted = port.bench[burst].pop_acceptance().expect("it was accepted");
    let ended = port.bench[outcome].pop().expect("there is one").valid_cycle;
    let cycles = [address, data, answer].map(|cycle| cycle.expect("it came"));
    assert_eq!((cycles[0] - accepted, cycles[1] - accepted, ended - cycles[2]), (1, 3, 3));
    Ok(())
}
