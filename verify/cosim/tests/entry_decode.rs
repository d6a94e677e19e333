//! The decoding of MPT entries against the contract's layout and 128-bit integers.

#[path = "common/outputs.rs"]
mod outputs;

use std::collections::{HashMap, HashSet, VecDeque};

use keywalk_contract::mpt_entry::{self, STATE_FREE, STATE_VALID};
use keywalk_contract::{Field, Operation, Status};
use keywalk_cosim::{Beat, Bench, Error, Handle, Stall, StreamDriver, StreamSink, dut};
use outputs::Outputs;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Cycles from a replay, with which `fill` comes, to the page shift, to the request and to the line.
const PAGE_SHIFT_CYCLES: u64 = 1;
const DECODED_CYCLES: u64 = 2;
const LINE_CYCLES: u64 = 3;
/// `page_shift_base` of the two table sets of configuration `small`.
const BASES: [[u32; 2]; 5] = [[12, 12], [12, 15], [13, 14], [14, 12], [15, 15]];

type Entry = [u8; mpt_entry::ENTRY_BYTES as usize];

fn put(entry: &mut Entry, field: Field, value: u64) {
    field.put(entry, value & field.max()).expect("the value was cut to the field");
}

/// The fields of the line and its page shift, without those that mean nothing.
fn decode(entry: &Entry, page_shift_base: u32) -> HashMap<&'static str, u128> {
    let get = |field: Field| u128::from(field.get(entry));
    let va = get(mpt_entry::VA);
    let length = get(mpt_entry::LEN);
    let page_shift = u128::from(page_shift_base) + get(mpt_entry::PBL_BUF_PG_SZ);
    let is_window = get(mpt_entry::MR_MW);
    let is_bound = get(mpt_entry::BOUND_LKEY) != 0;
    let is_direct = get(mpt_entry::PA) == 1;
    let rights = Operation::ALL.iter().map(|operation| operation.right().map_or(1, get) << operation.code());
    let wraps = va + length > 1 << 64;
    let root = get(mpt_entry::PBL_BA) << 3;
    let has_page_0 = get(mpt_entry::PBL_SIZE) > 0 && root > 0 && root % 4096 == 0;
    let is_flat = get(mpt_entry::PBL_HOP_NUM) == 0 && has_page_0;
    let mut fields: HashMap<_, _> = [
        ("key", get(mpt_entry::LKEY)),
        ("pd", get(mpt_entry::PD)),
        ("allowed", rights.sum()),
        ("is_window", is_window),
        ("is_bound", u128::from(is_bound)),
        ("is_bound_window", u128::from(is_bound && is_window == 1 && !is_direct)),
        ("bound_key", get(mpt_entry::BOUND_LKEY)),
        ("is_zero_based", u128::from(get(mpt_entry::ZBVA) == 1 && !is_direct)),
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
        ("is_flat", is_flat.into()),
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

/// A request under way.
struct Expected {
    /// Cycle in which it was accepted.
    cycle: u64,
    replay: Beat,
    /// Status that the request takes along.
    status: u8,
    /// What goes into the cache; nothing without a good entry.
    line: Option<HashMap<&'static str, u128>>,
}

impl Expected {
    /// The line's PD has another bucket than the request's.
    fn is_foreign(&self) -> bool {
        let pd = self.replay.get("pd").expect("a replay has a PD");
        self.line.as_ref().is_some_and(|line| (line["pd"] ^ pd) & 0x7f != 0)
    }
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    replays: Handle<StreamDriver>,
    fills: Handle<StreamSink>,
    decoded: Handle<StreamSink>,
    outputs: Handle<Outputs>,
    bases: [u32; 2],
    /// Not accepted yet. The cycle is not known.
    waiting: VecDeque<Expected>,
    /// Accepted.
    expected: VecDeque<Expected>,
    accepted_cycles: Vec<u64>,
    /// Values that the fields had.
    varying: HashMap<&'static str, HashSet<u128>>,
    statuses: HashSet<u8>,
}

impl Rig {
    fn new(seed: u64, bases: [u32; 2], stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::ENTRY_DECODE, seed);
        let is_late = |name: &str| name.starts_with("fill_line_") || name == "fill_page_shift";
        let mut rig = Self {
            replays: bench.driver("replay", stall)?,
            fills: bench.sink("fill", Stall::NEVER)?,
            decoded: bench.sink("decoded", Stall::NEVER)?,
            outputs: Outputs::watch(&mut bench, is_late)?,
            random: bench.random(),
            bench,
            bases,
            waiting: VecDeque::new(),
            expected: VecDeque::new(),
            accepted_cycles: Vec::new(),
            varying: HashMap::new(),
            statuses: HashSet::new(),
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
        self.waiting.clear();
        self.expected.clear();
        self.bench.reset(3)
    }

    fn push(&mut self, entry: &Entry, table_set: usize, status: u8) -> Result<(), Error> {
        let shape = self.bench[self.replays].channel().shape().clone();
        let values = [("table_set", table_set as u128), ("status", status.into())];
        let mut replay = Beat::random_with(&shape, &values, &mut self.random)?;
        for (lane, bytes) in entry.as_chunks::<16>().0.iter().enumerate() {
            replay.set(&format!("entry_{lane}"), u128::from_le_bytes(*bytes))?;
        }
        if self.random.random() {
            let difference = self.random.random_range(0..1 << 17) << 7;
            replay.set("pd", u128::from(mpt_entry::PD.get(entry) ^ difference))?;
        }
        let is_valid = mpt_entry::ST.get(entry) == STATE_VALID;
        let line = (status == 0 && is_valid).then(|| decode(entry, self.bases[table_set]));
        // Whatever is wrong with a parent has one status.
        let refused = if replay.get("is_parent")? == 1 { Status::WindowParent } else { Status::EntryState }.code();
        let status = if status == 0 && !is_valid { refused } else { status };
        self.bench[self.replays].push(replay.clone());
        self.waiting.push_back(Expected { cycle: 0, replay, status, line });
        Ok(())
    }

    fn push_random(&mut self) -> Result<(), Error> {
        let mut entry = random_entry(&mut self.random);
        if self.random.random_range(0..4) == 0 {
            // All but flat, or flat: one of four things may be wrong.
            put(&mut entry, mpt_entry::PBL_HOP_NUM, 0);
            put(&mut entry, mpt_entry::PBL_BA, self.random.random_range(1..1 << 52) << 9);
            put(&mut entry, mpt_entry::PBL_SIZE, 1 << self.random.random_range(0..32));
            match self.random.random_range(0..8) {
                0 => put(&mut entry, mpt_entry::PBL_HOP_NUM, self.random.random_range(1..4)),
                1 => put(&mut entry, mpt_entry::PBL_BA, 1 << self.random.random_range(0..9)),
                2 => put(&mut entry, mpt_entry::PBL_BA, 0),
                3 => put(&mut entry, mpt_entry::PBL_SIZE, 0),
                _ => {}
            }
        }
        let table_set = self.random.random_range(0..2);
        let status = match self.random.random_range(0..16) {
            0 => Status::HemBusError.code(),
            1 => self.random.random_range(1..=255),
            _ => 0,
        };
        self.push(&entry, table_set, status)
    }

    /// One cycle; checks what comes out.
    fn cycle(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        self.bench.cycle()?;
        if let Some(cycle) = self.bench[self.replays].pop_acceptance() {
            self.accepted_cycles.push(cycle);
            let accepted = self.waiting.pop_front().expect("it was pushed");
            self.expected.push_back(Expected { cycle, ..accepted });
        }
        let fill = self.bench[self.fills].pop();
        let decoded = self.bench[self.decoded].pop();
        let at = |cycles: u64| self.expected.iter().find(|expected| expected.cycle + cycles == now);

        let filled = at(0).filter(|expected| expected.line.is_some());
        assert_eq!(fill.is_some(), filled.is_some(), "fill in cycle {now}");
        if let (Some(fill), Some(expected)) = (fill, filled) {
            let replay = &expected.replay;
            assert_eq!(fill.get("is_foreign")? == 1, expected.is_foreign());
            assert_eq!(fill.get("table_set")?, replay.get("table_set")?);
            assert_eq!(fill.get("index")?, replay.get("index")?);
            assert_eq!(fill.get("epoch")?, replay.get("epoch")? & ((1 << 37) - 1));
        }
        let outputs = &self.bench[self.outputs];
        for (cycles, is_page_shift) in [(PAGE_SHIFT_CYCLES, true), (LINE_CYCLES, false)] {
            let Some(Expected { replay, line: Some(line), .. }) = at(cycles) else { continue };
            for (name, expected) in line.iter().filter(|(name, _)| (**name == "page_shift") == is_page_shift) {
                let port = if is_page_shift { format!("fill_{name}") } else { format!("fill_line_{name}") };
                assert_eq!(outputs.get(&port), *expected, "{name} of {replay:?}");
                self.varying.entry(name).or_default().insert(*expected);
            }
        }
        let due = at(DECODED_CYCLES);
        assert_eq!(decoded.is_some(), due.is_some(), "decoded in cycle {now}");
        if let (Some(decoded), Some(Expected { replay, status, .. })) = (decoded, due) {
            for field in decoded.beat.shape().fields() {
                let value = match field.name.as_str() {
                    "is_replay" => 1,
                    "status" => u128::from(*status),
                    name => replay.get(name)?,
                };
                assert_eq!(decoded.get(&field.name)?, value, "{} of {replay:?}", field.name);
            }
            self.statuses.insert(*status);
        }
        self.expected.retain(|expected| expected.cycle + LINE_CYCLES > now);
        Ok(())
    }

    fn run(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    fn finish(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let limit = self.bench.cycles() + limit_cycles;
        while self.waiting.len() + self.expected.len() > 0 {
            assert!(self.bench.cycles() < limit, "{} entries are not accepted", self.waiting.len());
            self.cycle()?;
        }
        self.run(LINE_CYCLES + 2)
    }
}

#[test]
fn every_bit_of_an_entry_goes_where_the_layout_says() -> Result<(), Error> {
    let mut rig = Rig::new(1, BASES[1], Stall::NEVER)?;
    for table_set in 0..2 {
        for background in [0x00, 0xff] {
            for bit in 0..8 * mpt_entry::ENTRY_BYTES as usize {
                let mut entry = [background; mpt_entry::ENTRY_BYTES as usize];
                entry[bit / 8] ^= 1 << (bit % 8);
                rig.push(&entry, table_set, 0)?;
                // Only an entry that is VALID goes into the cache.
                put(&mut entry, mpt_entry::ST, STATE_VALID);
                rig.push(&entry, table_set, 0)?;
            }
        }
    }
    rig.finish(4200)
}

#[test]
fn random_entries() -> Result<(), Error> {
    let idle = Stall::percent(40).up_to(4);
    for (case, bases) in BASES.into_iter().enumerate() {
        let mut rig = Rig::new(10 + case as u64, bases, if case % 2 == 0 { Stall::NEVER } else { idle })?;
        for _ in 0..4000 {
            rig.push_random()?;
        }
        rig.finish(40_000)?;
        let line = decode(&[1; mpt_entry::ENTRY_BYTES as usize], bases[0]);
        for name in line.keys() {
            let values = rig.varying.get(name).map_or(0, HashSet::len);
            assert!(values > 1, "{name} had {values} values");
        }
        assert!(
            [Status::Ok, Status::EntryState, Status::WindowParent, Status::HemBusError]
                .iter()
                .all(|s| rig.statuses.contains(&s.code()))
        );
    }
    Ok(())
}

#[test]
fn regions_at_the_limits_wrap_or_are_too_large_just_where_they_must() -> Result<(), Error> {
    for bases in BASES {
        let mut rig = Rig::new(2, bases, Stall::NEVER)?;
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
                            put(&mut entry, mpt_entry::ST, STATE_VALID);
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
fn a_failure_goes_before_the_state_of_the_entry() -> Result<(), Error> {
    let mut rig = Rig::new(4, BASES[2], Stall::NEVER)?;
    for state in 0..=mpt_entry::ST.max() {
        for status in 0..=255 {
            let mut entry = random_entry(&mut rig.random);
            put(&mut entry, mpt_entry::ST, state);
            rig.push(&entry, usize::from(status % 2 == 1), status)?;
        }
    }
    rig.finish(1100)?;
    assert_eq!(rig.statuses.len(), 256);
    Ok(())
}

#[test]
fn an_entry_follows_per_cycle() -> Result<(), Error> {
    const ENTRIES: u64 = 300;
    let mut rig = Rig::new(3, BASES[0], Stall::NEVER)?;
    for _ in 0..ENTRIES {
        rig.push_random()?;
    }
    let start = rig.bench.cycles();
    // `cycle` checks when the fill, the page shift, the request and the line of each come.
    rig.finish(ENTRIES + LINE_CYCLES + 1)?;
    assert_eq!(rig.accepted_cycles, (start..start + ENTRIES).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn reset_drops_what_is_inside() -> Result<(), Error> {
    let mut rig = Rig::new(5, BASES[3], Stall::percent(30))?;
    for cycles in 0..30 {
        for _ in 0..12 {
            rig.push_random()?;
        }
        rig.run(cycles)?;
        rig.reset()?;
        rig.run(LINE_CYCLES + 3)?;
    }
    rig.push_random()?;
    rig.finish(100)
}
