//! The decoding of MPT entries against the contract's layout and 128-bit integers.

use std::collections::{HashMap, HashSet, VecDeque};

use keywalk_contract::mpt_entry::{self, STATE_FREE, STATE_VALID};
use keywalk_contract::{Field, Operation};
use keywalk_cosim::{Beat, Bench, Error, Handle, Output, Stall, StreamDriver, StreamSink, bits, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Cycles from acceptance to the decoded entry.
const LATENCY_CYCLES: u64 = 6;
/// Entries that are accepted while none is taken.
const DEPTH: usize = 8;
/// `page_shift_base` of the two table sets of configuration `small`.
const BASES: [[u32; 2]; 5] = [[12, 12], [12, 15], [13, 14], [14, 12], [15, 15]];

type Entry = [u8; mpt_entry::ENTRY_BYTES as usize];

fn put(entry: &mut Entry, field: Field, value: u64) {
    field.put(entry, value & field.max()).expect("the value was cut to the field");
}

/// The fields that are to come out, without those that mean nothing.
fn decode(entry: &Entry, page_shift_base: u32) -> HashMap<&'static str, u128> {
    let get = |field: Field| u128::from(field.get(entry));
    let va = get(mpt_entry::VA);
    let length = get(mpt_entry::LEN);
    let page_shift = u128::from(page_shift_base) + get(mpt_entry::PBL_BUF_PG_SZ);
    let is_window = get(mpt_entry::MR_MW);
    let rights = Operation::ALL.iter().map(|operation| operation.right().map_or(1, get) << operation.code());
    let wraps = va + length > 1 << 64;
    let mut fields: HashMap<_, _> = [
        ("key", get(mpt_entry::LKEY)),
        ("pd", get(mpt_entry::PD)),
        ("allowed", rights.sum()),
        ("is_valid", u128::from(get(mpt_entry::ST) == STATE_VALID.into())),
        ("is_window", is_window),
        ("is_bound", u128::from(get(mpt_entry::BOUND_LKEY) != 0)),
        ("checks_qpn", is_window & get(mpt_entry::BQP)),
        ("qpn", get(mpt_entry::MW_BIND_QPN)),
        ("is_direct", get(mpt_entry::PA)),
        ("wraps", wraps.into()),
        ("is_empty", u128::from(length == 0)),
        ("va", va),
        ("page_shift", page_shift - 12),
        ("base_page", va >> page_shift & 0xffff_ffff),
        ("root", get(mpt_entry::PBL_BA)),
        ("hop_num", get(mpt_entry::PBL_HOP_NUM)),
        ("ba_pg_sz", get(mpt_entry::PBL_BA_PG_SZ)),
        ("page_count", get(mpt_entry::PBL_SIZE)),
    ]
    .into();
    if length == 0 {
        fields.insert("too_large", 0);
    } else if !wraps {
        let last = va + length - 1;
        fields.insert("last", last);
        fields.insert("too_large", u128::from((last >> page_shift) - (va >> page_shift) + 1 > 1 << 32));
    }
    fields
}

fn random_entry(random: &mut ChaCha8Rng) -> Entry {
    let mut entry: Entry = random.random();
    match random.random_range(0..3) {
        0 => put(&mut entry, mpt_entry::ST, STATE_VALID),
        1 => put(&mut entry, mpt_entry::ST, STATE_FREE),
        _ => {}
    }
    if random.random_range(0..4) == 0 {
        put(&mut entry, mpt_entry::BOUND_LKEY, [0, 1, 1 << 31][random.random_range(0..3)]);
    }
    let va = match random.random_range(0..4) {
        0 => random.next_u64(),
        1 => random.next_u64() >> random.random_range(0..64),
        2 => 0u64.wrapping_sub(random.next_u64() >> random.random_range(0..64)),
        _ => 0,
    };
    let to_end = 0u64.wrapping_sub(va);
    let page_shift = 12 + random.random_range(0..19);
    let length = match random.random_range(0..6) {
        0 => 0,
        1 => to_end.wrapping_add_signed(random.random_range(-2..3)),
        // About 2^32 pages of some size.
        2 => (1u64 << 32 << page_shift).wrapping_sub(va % (1 << page_shift)),
        3 => (1u64 << 32 << page_shift).wrapping_add_signed(random.random_range(-2..3)),
        4 => random.next_u64() >> random.random_range(0..64),
        _ => random.next_u64(),
    };
    put(&mut entry, mpt_entry::VA, va);
    put(&mut entry, mpt_entry::LEN, length.wrapping_add_signed(random.random_range(-1..2)));
    entry
}

/// An entry under way.
struct Expected {
    replay: Beat,
    line: HashMap<&'static str, u128>,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    replays: Handle<StreamDriver>,
    decoded: Handle<StreamSink>,
    valid: Output,
    /// Fields of the decoded entry, whose handshake is the one of `decoded`.
    line: Vec<(&'static str, Output)>,
    bases: [u32; 2],
    expected: VecDeque<Expected>,
    /// The line that waits.
    waiting: Option<Vec<u128>>,
    /// Cycles in which an entry became valid, and those in which it was accepted.
    valid_cycles: Vec<u64>,
    accepted_cycles: Vec<u64>,
    /// Fields that had both values, or several.
    varying: HashMap<&'static str, HashSet<u128>>,
}

impl Rig {
    fn new(seed: u64, bases: [u32; 2], stalls: [Stall; 2]) -> Result<Self, Error> {
        let design = &dut::ENTRY_DECODE;
        let mut bench = Bench::new(design, seed);
        let line = design
            .ports
            .iter()
            .filter_map(|port| port.name.strip_prefix("line_"))
            .map(|name| Ok((name, bench.model().output(&format!("line_{name}"))?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let mut rig = Self {
            replays: bench.driver("replay", stalls[0])?,
            decoded: bench.sink("decoded", stalls[1])?,
            valid: bench.model().output("decoded_valid")?,
            line,
            random: bench.random(),
            bench,
            bases,
            expected: VecDeque::new(),
            waiting: None,
            valid_cycles: Vec::new(),
            accepted_cycles: Vec::new(),
            varying: HashMap::new(),
        };
        for (set, base) in bases.into_iter().enumerate() {
            let input = rig.bench.model().input(&format!("page_shift_base_{set}"))?;
            rig.bench.model_mut().set(input, u64::from(base - 12));
        }
        rig.bench[rig.replays].record_acceptances();
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.expected.clear();
        self.waiting = None;
        self.bench.reset(3)
    }

    fn push(&mut self, entry: &Entry, table_set: usize, status: u8) -> Result<(), Error> {
        let shape = self.bench[self.replays].channel().shape().clone();
        let mut replay = Beat::zero(&shape);
        for field in shape.fields() {
            replay.set(&field.name, u128::from(self.random.next_u64() & bits::max(field.width)))?;
        }
        replay.set("table_set", table_set as u128)?;
        replay.set("status", status.into())?;
        for (lane, bytes) in entry.as_chunks::<16>().0.iter().enumerate() {
            replay.set(&format!("entry_{lane}"), u128::from_le_bytes(*bytes))?;
        }
        let line = if status == 0 { decode(entry, self.bases[table_set]) } else { HashMap::new() };
        self.bench[self.replays].push(replay.clone());
        self.expected.push_back(Expected { replay, line });
        Ok(())
    }

    fn push_random(&mut self) -> Result<(), Error> {
        let entry = random_entry(&mut self.random);
        let table_set = self.random.random_range(0..2);
        let status = if self.random.random_range(0..8) > 0 { 0 } else { self.random.random_range(1..=255) };
        self.push(&entry, table_set, status)
    }

    /// One cycle; checks what comes out.
    fn cycle(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        let model = self.bench.model();
        let is_valid = model.get(self.valid) == 1;
        let line: Vec<_> = self.line.iter().map(|(_, output)| model.get_wide(*output)).collect();
        if let Some(waiting) = &self.waiting {
            assert!(is_valid && *waiting == line, "the line changed while it waited");
        } else if is_valid {
            self.valid_cycles.push(now);
        }
        self.bench.cycle()?;
        self.accepted_cycles.extend(self.bench[self.replays].pop_acceptance());
        let decoded = self.bench[self.decoded].pop();
        self.waiting = (is_valid && decoded.is_none()).then(|| line.clone());
        let Some(decoded) = decoded else { return Ok(()) };
        let Expected { replay, line: expected } = self.expected.pop_front().expect("an entry is under way");
        for field in decoded.beat.shape().fields() {
            let value = if field.name == "is_replay" { 1 } else { replay.get(&field.name)? };
            assert_eq!(decoded.get(&field.name)?, value, "{} of {replay:?}", field.name);
        }
        for ((name, _), value) in self.line.iter().zip(line) {
            if let Some(expected) = expected.get(name) {
                assert_eq!(value, *expected, "{name} of {replay:?}");
                self.varying.entry(name).or_default().insert(value);
            }
        }
        Ok(())
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let limit = self.bench.cycles() + limit_cycles;
        while !self.expected.is_empty() {
            assert!(self.bench.cycles() < limit, "{} entries do not come out", self.expected.len());
            self.cycle()?;
        }
        self.run(LATENCY_CYCLES + 2)
    }
}

#[test]
fn every_bit_of_an_entry_goes_where_the_layout_says() -> Result<(), Error> {
    let mut rig = Rig::new(1, BASES[1], [Stall::NEVER; 2])?;
    for table_set in 0..2 {
        for background in [0x00, 0xff] {
            for bit in 0..8 * mpt_entry::ENTRY_BYTES as usize {
                let mut entry = [background; mpt_entry::ENTRY_BYTES as usize];
                entry[bit / 8] ^= 1 << (bit % 8);
                rig.push(&entry, table_set, 0)?;
            }
        }
    }
    rig.finish(2200)
}

#[test]
fn random_entries() -> Result<(), Error> {
    let stalls = [Stall::percent(20).up_to(5), Stall::percent(30).up_to(10)];
    for (case, bases) in BASES.into_iter().enumerate() {
        let mut rig = Rig::new(10 + case as u64, bases, if case % 2 == 0 { [Stall::NEVER; 2] } else { stalls })?;
        for _ in 0..4000 {
            rig.push_random()?;
        }
        rig.finish(40_000)?;
        for (name, _) in &rig.line {
            let values = rig.varying.get(name).map_or(0, HashSet::len);
            assert!(values > 1, "{name} had {values} values");
        }
    }
    Ok(())
}

#[test]
fn regions_at_the_limits_wrap_or_are_too_large_just_where_they_must() -> Result<(), Error> {
    for bases in BASES {
        let mut rig = Rig::new(2, bases, [Stall::NEVER; 2])?;
        for (table_set, base) in bases.into_iter().enumerate() {
            for page_size in 0..16 {
                let page_shift = base + page_size;
                let page_bytes = 1u64 << page_shift;
                let most = page_bytes << 32;
                for va in [0, 1, page_bytes - 1, page_bytes, 0u64.wrapping_sub(most), u64::MAX - page_bytes, u64::MAX] {
                    let to_end = 0u64.wrapping_sub(va);
                    for edge in [1, page_bytes, most, most - va % page_bytes, to_end] {
                        for offset in -1..=1 {
                            let mut entry = random_entry(&mut rig.random);
                            put(&mut entry, mpt_entry::VA, va);
                            put(&mut entry, mpt_entry::LEN, edge.wrapping_add_signed(offset));
                            put(&mut entry, mpt_entry::PBL_BUF_PG_SZ, page_size.into());
                            rig.push(&entry, table_set, 0)?;
                        }
                    }
                }
            }
        }
        rig.finish(5000)?;
        for name in ["wraps", "too_large", "is_empty"] {
            assert_eq!(rig.varying[name].len(), 2, "{name} had both values");
        }
    }
    Ok(())
}

#[test]
fn an_entry_takes_six_cycles_and_one_follows_per_cycle() -> Result<(), Error> {
    const ENTRIES: usize = 300;
    let mut rig = Rig::new(3, BASES[0], [Stall::NEVER; 2])?;
    for _ in 0..ENTRIES {
        rig.push_random()?;
    }
    let start = rig.bench.cycles();
    rig.finish(ENTRIES as u64 + LATENCY_CYCLES)?;
    assert_eq!(rig.accepted_cycles, (start..start + ENTRIES as u64).collect::<Vec<_>>());
    // Each was taken in the cycle in which it became valid.
    let due: Vec<_> = rig.accepted_cycles.iter().map(|cycle| cycle + LATENCY_CYCLES).collect();
    assert_eq!(rig.valid_cycles, due);
    Ok(())
}

#[test]
fn no_more_entries_are_accepted_than_there_are_places() -> Result<(), Error> {
    let mut rig = Rig::new(4, BASES[2], [Stall::NEVER, Stall::percent(100).up_to(10_000)])?;
    for _ in 0..40 {
        rig.push_random()?;
    }
    rig.run(100)?;
    // The sink may have taken a few before it stopped.
    let taken = 40 - rig.expected.len();
    assert_eq!(rig.accepted_cycles.len(), taken + DEPTH);
    rig.bench[rig.decoded].set_stall(Stall::NEVER);
    rig.finish(100)?;
    assert_eq!(rig.accepted_cycles.len(), 40);
    Ok(())
}

#[test]
fn reset_drops_what_is_inside() -> Result<(), Error> {
    let mut rig = Rig::new(5, BASES[3], [Stall::NEVER, Stall::percent(60)])?;
    for cycles in 0..30 {
        for _ in 0..12 {
            rig.push_random()?;
        }
        rig.run(cycles)?;
        rig.reset()?;
        rig.run(LATENCY_CYCLES + 3)?;
    }
    rig.push_random()?;
    rig.finish(100)
}
