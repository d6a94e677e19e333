//! `memory_arbiter`: both masters' bursts reach the memory whole and in turn, and every answer finds back.

use std::collections::{HashMap, VecDeque};

use keywalk_cosim::{Bench, Channel, Error, Handle, Received, Stall, StreamDriver, StreamSink, bits, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Bit of an identifier that says the mover.
const OF_MOVER: u64 = 1 << 8;
/// Identifiers of the engine's reads.
const IDS: u64 = 256;
/// Longest burst of the mover.
const BURST_BEATS: u64 = 64;

/// What a beat at an address holds, in its lowest bits; whose and which it is.
fn content(address: u64, beat: u64) -> u64 {
    (address ^ beat << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A master's ports.
struct Master {
    ar: Handle<StreamDriver>,
    r: Handle<StreamSink>,
    aw: Handle<StreamDriver>,
    w: Handle<StreamDriver>,
    b: Handle<StreamSink>,
    /// Reads by identifier, in order: address, beats, beats that came.
    reads: HashMap<u64, VecDeque<(u64, u64, u64)>>,
    /// Writes whose answer has not come, by identifier.
    writes: HashMap<u64, u64>,
    reads_done: u64,
    writes_done: u64,
    beats_read: u64,
}

struct Rig {
    bench: Bench,
    masters: [Master; 2],
    ar: Handle<StreamSink>,
    r: Handle<StreamDriver>,
    aw: Handle<StreamSink>,
    w: Handle<StreamSink>,
    b: Handle<StreamDriver>,
    /// Reads that the memory has: due, identifier, address, beats.
    reads: VecDeque<(u64, u64, u64, u64)>,
    /// Writes that the memory has, in order: identifier, address, beats.
    writes: VecDeque<(u64, u64, u64)>,
    beats: VecDeque<Received>,
    answers: VecDeque<(u64, u64)>,
    latency: u64,
    random: ChaCha8Rng,
    next_address: u64,
    beats_written: u64,
    /// Masters of the addresses of reads, in the order in which the memory got them, with the cycle.
    order: Vec<(bool, u64)>,
}

const TABLE: usize = 0;
const MOVER: usize = 1;

fn sink(bench: &mut Bench, name: &str, stall: Stall) -> Result<Handle<StreamSink>, Error> {
    let channel = Channel::with_prefix(bench.model(), name)?;
    let random = bench.random();
    Ok(bench.add(StreamSink::new(channel, stall, random)))
}

fn driver(bench: &mut Bench, name: &str, stall: Stall) -> Result<Handle<StreamDriver>, Error> {
    let channel = Channel::with_prefix(bench.model(), name)?;
    let random = bench.random();
    Ok(bench.add(StreamDriver::new(channel, stall, random)))
}

/// The lowest bits of a beat's data.
fn data(received: &Received) -> Result<u64, Error> {
    let field = received.beat.shape().field("data_0")?;
    Ok(bits::get(received.beat.words(), field.low, 64))
}

impl Rig {
    fn new(seed: u64, masters: Stall, memory: Stall, latency: u64) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::MEMORY_ARBITER, seed);
        let mut master = |name: &str| {
            let name = |channel| format!("{name}_{channel}");
            Ok::<_, Error>(Master {
                ar: driver(&mut bench, &name("ar"), masters)?,
                r: sink(&mut bench, &name("r"), masters)?,
                aw: driver(&mut bench, &name("aw"), masters)?,
                w: driver(&mut bench, &name("w"), masters)?,
                b: sink(&mut bench, &name("b"), masters)?,
                reads: HashMap::new(),
                writes: HashMap::new(),
                reads_done: 0,
                writes_done: 0,
                beats_read: 0,
            })
        };
        let masters = [master("tbl")?, master("dma")?];
        let rig = Self {
            ar: sink(&mut bench, "mem_ar", memory)?,
            r: driver(&mut bench, "mem_r", memory)?,
            aw: sink(&mut bench, "mem_aw", memory)?,
            w: sink(&mut bench, "mem_w", memory)?,
            b: driver(&mut bench, "mem_b", memory)?,
            masters,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            beats: VecDeque::new(),
            answers: VecDeque::new(),
            latency,
            random: bench.random(),
            next_address: 0,
            beats_written: 0,
            order: Vec::new(),
            bench,
        };
        let mut rig = rig;
        rig.bench.reset(4)?;
        Ok(rig)
    }

    fn next_address(&mut self) -> u64 {
        self.next_address += 4096;
        self.next_address
    }

    fn read(&mut self, who: usize, beats: u64) -> Result<(), Error> {
        let address = self.next_address();
        let master = &mut self.masters[who];
        let mut fields = vec![("addr", u128::from(address)), ("len", (beats - 1).into())];
        let id = match who {
            TABLE => {
                let Some(id) = (0..IDS).find(|id| !master.reads.contains_key(id)) else { return Ok(()) };
                fields.push(("id", id.into()));
                id
            }
            _ => 0,
        };
        master.reads.entry(id).or_default().push_back((address, beats, 0));
        self.bench[master.ar].push_fields(&fields)
    }

    fn write(&mut self, who: usize, beats: u64) -> Result<(), Error> {
        let address = self.next_address();
        let id = if who == TABLE { self.random.random_range(0..IDS) } else { 0 };
        let master = &mut self.masters[who];
        let mut fields = vec![("addr", u128::from(address)), ("len", (beats - 1).into())];
        if who == TABLE {
            fields.push(("id", id.into()));
        }
        *master.writes.entry(id).or_default() += 1;
        self.bench[master.aw].push_fields(&fields)?;
        for beat in 0..beats {
            let fields = [
                ("data_0", u128::from(content(address, beat))),
                ("strb", u128::from(content(address, beat) >> 3)),
                ("last", (beat + 1 == beats).into()),
            ];
            self.bench[master.w].push_fields(&fields)?;
        }
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), Error> {
        self.bench.cycle()?;
        self.serve_reads()?;
        self.serve_writes()?;
        for who in [TABLE, MOVER] {
            self.check(who)?;
        }
        Ok(())
    }

    fn serve_reads(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        while let Some(received) = self.bench[self.ar].pop() {
            let field = |name| received.get(name).map(|value| value as u64);
            let (id, address, beats) = (field("id")?, field("addr")?, field("len")? + 1);
            self.order.push((id & OF_MOVER != 0, received.cycle));
            let due = now + self.random.random_range(0..=self.latency);
            self.reads.push_back((due, id, address, beats));
        }
        // The mover's in order, the engine's in any.
        if self.bench[self.r].pending() < 2 {
            let mut seen = false;
            let due: Vec<usize> = (0..self.reads.len())
                .filter(|place| {
                    let (due, id, ..) = self.reads[*place];
                    let is_movers = id & OF_MOVER != 0;
                    let is_first = !(is_movers && seen);
                    seen |= is_movers;
                    due <= now && is_first
                })
                .collect();
            let place = if self.latency == 0 { 0 } else { self.random.random_range(0..due.len().max(1)) };
            if let Some((_, id, address, beats)) = due.get(place).and_then(|place| self.reads.remove(*place)) {
                for beat in 0..beats {
                    let fields = [
                        ("id", u128::from(id)),
                        ("data_0", content(address, beat).into()),
                        ("resp", u128::from(address / 4096 % 4)),
                        ("last", (beat + 1 == beats).into()),
                    ];
                    self.bench[self.r].push_fields(&fields)?;
                }
            }
        }
        Ok(())
    }

    fn serve_writes(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        while let Some(received) = self.bench[self.aw].pop() {
            let field = |name| received.get(name).map(|value| value as u64);
            self.writes.push_back((field("id")?, field("addr")?, field("len")? + 1));
        }
        while let Some(received) = self.bench[self.w].pop() {
            self.beats.push_back(received);
        }
        while let Some((id, address, beats)) = self.writes.front().copied()
            && self.beats.len() as u64 >= beats
        {
            self.writes.pop_front();
            for (beat, received) in (0..beats).zip(self.beats.drain(..beats as usize)) {
                assert_eq!(data(&received)?, content(address, beat), "beat {beat} at {address:x}");
                assert_eq!(received.get("strb")?, u128::from(content(address, beat) >> 3));
                assert_eq!(received.get("last")?, u128::from(beat + 1 == beats), "beat {beat} at {address:x}");
                self.beats_written += 1;
            }
            let due = now + self.random.random_range(0..=self.latency);
            self.answers.push_back((due, id));
        }
        if let Some(place) = self.answers.iter().position(|(due, _)| *due <= now)
            && let Some((_, id)) = self.answers.remove(place)
        {
            self.bench[self.b].push_fields(&[("id", id.into()), ("resp", u128::from(id % 4))])?;
        }
        Ok(())
    }

    /// What came back to a master.
    fn check(&mut self, who: usize) -> Result<(), Error> {
        let master = &mut self.masters[who];
        while let Some(received) = self.bench[master.r].pop() {
            let id = if who == TABLE { received.get("id")? as u64 } else { 0 };
            let queue =
                master.reads.get_mut(&id).unwrap_or_else(|| panic!("{who}: data of a read {id} that nobody made"));
            let (address, beats, done) = queue.front_mut().expect("it is removed when it is empty");
            assert_eq!(data(&received)?, content(*address, *done), "{who}: beat {done} at {address:x}");
            assert_eq!(received.get("resp")?, u128::from(*address / 4096 % 4));
            *done += 1;
            master.beats_read += 1;
            assert_eq!(received.get("last")?, u128::from(done == beats), "{who}: beat {done} at {address:x}");
            if done == beats {
                queue.pop_front();
                master.reads_done += 1;
            }
            if queue.is_empty() {
                master.reads.remove(&id);
            }
        }
        while let Some(received) = self.bench[master.b].pop() {
            let id = if who == TABLE { received.get("id")? as u64 } else { 0 };
            let open = master.writes.get_mut(&id).filter(|open| **open > 0);
            *open.unwrap_or_else(|| panic!("{who}: answer of a write {id} that nobody made")) -= 1;
            let expected = if who == TABLE { id % 4 } else { (id | OF_MOVER) % 4 };
            assert_eq!(received.get("resp")?, expected.into());
            master.writes_done += 1;
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        let is_idle = |master: &Master| master.reads.is_empty() && master.writes.values().all(|open| *open == 0);
        self.masters.iter().all(is_idle)
    }

    fn run_until_idle(&mut self) -> Result<(), Error> {
        let limit = self.bench.cycles() + 100_000;
        while !self.is_idle() {
            assert!(self.bench.cycles() < limit, "answers are missing");
            self.cycle()?;
        }
        Ok(())
    }
}

#[test]
fn bursts_stay_whole_and_answers_find_back() -> Result<(), Error> {
    let often = Stall::percent(40).up_to(8);
    for (seed, masters, memory, latency) in [
        (1, Stall::NEVER, Stall::NEVER, 0),
        (2, often, Stall::NEVER, 30),
        (3, Stall::NEVER, often, 60),
        (4, often, often, 100),
    ] {
        let mut rig = Rig::new(seed, masters, memory, latency)?;
        while rig.bench.cycles() < 8000 {
            for who in [TABLE, MOVER] {
                let longest = if who == TABLE { 4 } else { BURST_BEATS };
                if rig.reads.len() < 20 && rig.bench[rig.masters[who].ar].pending() < 3 && rig.random.random_bool(0.2) {
                    let beats = rig.random.random_range(1..=longest);
                    rig.read(who, beats)?;
                }
                if rig.bench[rig.masters[who].w].pending() < 100 && rig.random.random_bool(0.1) {
                    let beats = rig.random.random_range(1..=longest);
                    rig.write(who, beats)?;
                }
            }
            rig.cycle()?;
        }
        rig.run_until_idle()?;
        for master in &rig.masters {
            let (reads, writes) = (master.reads_done, master.writes_done);
            assert!(reads > 20 && writes > 20, "seed {seed}: {reads} reads, {writes} writes");
        }
    }
    Ok(())
}

#[test]
fn every_channel_carries_a_beat_per_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(5, Stall::NEVER, Stall::NEVER, 0)?;
    let lines = 600;
    for _ in 0..lines {
        for who in [TABLE, MOVER] {
            rig.write(who, 1)?;
        }
    }
    let start = rig.bench.cycles();
    while rig.beats_written < 2 * lines {
        // Identifiers of reads come free.
        for who in [TABLE, MOVER] {
            while rig.bench[rig.masters[who].ar].pending() < 4 && rig.masters[who].reads.len() < 200 {
                rig.read(who, 1)?;
            }
        }
        rig.cycle()?;
        assert!(rig.bench.cycles() < start + 4 * lines, "{} beats", rig.beats_written);
    }
    let cycles = rig.bench.cycles() - start;
    let read: u64 = rig.masters.iter().map(|master| master.beats_read).sum();
    println!("{cycles} cycles: {} beats written, {read} read", rig.beats_written);
    assert!(cycles <= 2 * lines + 20 && read + 20 >= cycles, "{cycles} cycles, {read} beats read");
    rig.run_until_idle()
}

#[test]
fn neither_master_starves() -> Result<(), Error> {
    // Both always have an address: they alternate.
    let mut rig = Rig::new(6, Stall::NEVER, Stall::percent(30).up_to(5), 0)?;
    for _ in 0..200 {
        rig.read(TABLE, 1)?;
        rig.read(MOVER, BURST_BEATS)?;
    }
    while rig.order.len() < 300 {
        rig.cycle()?;
        assert!(rig.bench.cycles() < 60_000, "{} addresses", rig.order.len());
    }
    for pair in rig.order[2..300].windows(2) {
        assert_ne!(pair[0].0, pair[1].0, "two addresses of one master in a row at cycle {}", pair[1].1);
    }
    rig.run_until_idle()?;
    // One alone has every cycle.
    for who in [TABLE, MOVER] {
        let mut rig = Rig::new(7, Stall::NEVER, Stall::NEVER, 0)?;
        for _ in 0..100 {
            rig.read(who, 1)?;
        }
        while rig.order.len() < 100 {
            rig.cycle()?;
            assert!(rig.bench.cycles() < 1000, "{} addresses", rig.order.len());
        }
        assert!(rig.order[99].1 - rig.order[0].1 <= 99 + 1, "{:?}", rig.order);
        rig.run_until_idle()?;
    }
    Ok(())
}

#[test]
fn a_reset_leaves_nothing() -> Result<(), Error> {
    let mut rig = Rig::new(8, Stall::NEVER, Stall::percent(70).up_to(20), 10)?;
    for _ in 0..30 {
        rig.read(TABLE, 1)?;
        rig.read(MOVER, 8)?;
        rig.write(TABLE, 2)?;
        rig.write(MOVER, 8)?;
    }
    for _ in 0..80 {
        rig.cycle()?;
    }
    rig.bench.reset(3)?;
    for who in [TABLE, MOVER] {
        rig.masters[who].reads.clear();
        rig.masters[who].writes.clear();
    }
    rig.reads.clear();
    rig.writes.clear();
    rig.beats.clear();
    rig.answers.clear();
    let flush = [rig.ar, rig.aw, rig.w];
    for handle in flush {
        while rig.bench[handle].pop().is_some() {}
    }
    for _ in 0..30 {
        rig.read(TABLE, 1)?;
        rig.read(MOVER, 8)?;
        rig.write(TABLE, 2)?;
        rig.write(MOVER, 8)?;
    }
    rig.run_until_idle()
}
