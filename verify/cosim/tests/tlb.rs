//! The TLB against a TLB in plain data that sees fills and uses as late as the block says.

mod common;
#[path = "common/held.rs"]
mod held;

use std::collections::{BTreeSet, HashMap, VecDeque};

use common::Replacement;
use held::HELD_FIELDS;
use keywalk_contract::{Config, Status, key::INDEX_BITS};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, bits, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 3] = [&dut::TLB, &dut::TLB_DEFAULT, &dut::TLB_LEAST];
/// Cycles from a piece to its answer.
const LATENCY_CYCLES: u64 = 2;
/// Cycles from a piece to what is held of its request, and to what a walk begins with.
const HELD_CYCLES: u64 = 1;
/// Cycles from a piece to the pulse that counts it.
const PULSE_CYCLES: u64 = 3;
/// Cycles from a fill to the first piece that sees its page.
const FILL_CYCLES: u64 = 3;
/// Cycles from a fill to the pulse that says that it replaced another page.
const EVICTED_CYCLES: u64 = 2;
/// A fill is dropped when another of the same set was entered that many cycles before, or fewer.
const CLASH_CYCLES: u64 = 2;
/// Cycles from a piece that was found, and from a fill, to the first fill that knows of the use.
const USE_CYCLES: u64 = 3;
/// A fill tells pages apart by their names beyond the set number, folded to that many bits.
const FILL_COMPARES_BITS: u32 = 17;
/// Bits of the epochs in a key.
const EPOCH_BITS: u32 = 29;

/// A page of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Page {
    epoch: u32,
    table_set: u32,
    mpt_index: u32,
    /// log2 of the page's bytes.
    shift: u32,
    /// va >> shift.
    number: u64,
}

/// What the TLB tells pages apart by.
type Name = (u32, u32, u32, u32);

impl Page {
    fn name(&self) -> Name {
        (self.epoch, self.table_set, self.mpt_index, self.number as u32)
    }

    fn set(&self, config: &Config) -> usize {
        ((self.number as u32 ^ self.mpt_index) % config.tlb_sets) as usize
    }

    fn offset_mask(&self) -> u64 {
        (1 << self.shift) - 1
    }
}

/// The part of a name that fills compare, within a set.
fn part(name: Name, config: &Config) -> u32 {
    let (epoch, table_set, mpt_index, number) = name;
    let owner = u128::from(epoch) << config.table_set_bits() | u128::from(table_set);
    let key = (owner << INDEX_BITS | u128::from(mpt_index)) << 32 | u128::from(number);
    let mut rest = key >> config.tlb_set_bits();
    let mut folded = 0;
    while rest != 0 {
        folded ^= rest as u32 & ((1 << FILL_COMPARES_BITS) - 1);
        rest >>= FILL_COMPARES_BITS;
    }
    folded
}

/// The reference.
struct Reference {
    config: Config,
    ways: Vec<Vec<Option<(Name, u64)>>>,
    replacement: Replacement,
    /// Pages that pieces and fills do not see yet, with the cycle from which they do.
    fills: VecDeque<(u64, usize, usize, (Name, u64))>,
    /// Cycles and sets of the last fills that were entered.
    entered: VecDeque<(u64, usize)>,
    /// Cycles of the pulses for replaced pages.
    evicted: BTreeSet<u64>,
    evictions: u32,
    overwritten: u32,
    /// Pages overwritten by another one that is the same to fills.
    confused: u32,
    dropped: u32,
}

impl Reference {
    fn new(config: &Config) -> Self {
        let (sets, ways) = (config.tlb_sets as usize, config.tlb_ways as usize);
        Self {
            config: config.clone(),
            ways: vec![vec![None; ways]; sets],
            replacement: Replacement::new(sets, ways),
            fills: VecDeque::new(),
            entered: VecDeque::new(),
            evicted: BTreeSet::new(),
            evictions: 0,
            overwritten: 0,
            confused: 0,
            dropped: 0,
        }
    }

    /// Pages that are seen in that cycle are entered.
    fn advance(&mut self, cycle: u64) {
        while self.fills.front().is_some_and(|fill| fill.0 <= cycle) {
            let (_, set, way, entry) = self.fills.pop_front().expect("there is one");
            self.ways[set][way] = Some(entry);
        }
    }

    /// Page address that a piece of that cycle finds.
    fn look_up(&mut self, cycle: u64, page: &Page) -> Option<u64> {
        self.advance(cycle);
        let set = page.set(&self.config);
        let way = self.ways[set].iter().position(|way| way.is_some_and(|(held, _)| held == page.name()))?;
        self.replacement.found(cycle + USE_CYCLES, set, way);
        self.ways[set][way].map(|(_, address)| address)
    }

    /// Enters the page of a fill of that cycle. A piece of the same cycle must have been looked up before.
    fn enter(&mut self, cycle: u64, page: &Page, address: u64) {
        self.advance(cycle);
        let set = page.set(&self.config);
        self.entered.retain(|(entered, _)| entered + CLASH_CYCLES >= cycle);
        if self.entered.iter().any(|(_, other)| *other == set) {
            self.dropped += 1;
            return;
        }
        self.entered.push_back((cycle, set));
        let (name, config) = (page.name(), &self.config);
        let is_same = |way: &Option<(Name, u64)>| way.is_some_and(|(held, _)| part(held, config) == part(name, config));
        let way = match self.ways[set].iter().position(is_same) {
            Some(way) => {
                let is_held = self.ways[set][way].is_some_and(|(held, _)| held == name);
                self.overwritten += u32::from(is_held);
                self.confused += u32::from(!is_held);
                way
            }
            None => {
                let way = self.replacement.victim(cycle, set);
                if self.ways[set][way].is_some() {
                    self.evictions += 1;
                    self.evicted.insert(cycle + EVICTED_CYCLES);
                }
                way
            }
        };
        self.fills.push_back((cycle + FILL_CYCLES, set, way, (name, address)));
        self.replacement.filled(cycle + USE_CYCLES, set, way);
    }
}

/// A part of a request within one page, as the page split sends it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    page: Page,
    va: u64,
    length: u64,
    status: u8,
    is_translated: bool,
    /// Of a region without hops whose page 0 is where the root is.
    is_flat: bool,
    page_index: u32,
}

/// A piece whose page is looked up.
const MAPPED: Piece = Piece {
    page: Page { epoch: 0, table_set: 0, mpt_index: 0, shift: 12, number: 0 },
    va: 0,
    length: 1,
    status: 0,
    is_translated: true,
    is_flat: false,
    page_index: 0,
};

/// What is to come out for a piece.
struct Expected {
    cycle: u64,
    piece: Piece,
    beat: Beat,
    /// What comes on `held` with it.
    held: Vec<u128>,
    /// Page address that it finds.
    found: Option<u64>,
}

/// Of it, what the piece says of itself.
const OWN_FIELDS: [&str; 5] = ["epoch", "table_set", "mpt_index", "last", "page_shift"];
/// What a walk begins with of the piece, and the piece's field.
const START_FIELDS: [(&str, &str); 3] = [("hop", "hop_num"), ("ba_pg_sz", "ba_pg_sz"), ("index", "page_index")];
/// What a walk begins with of what is held.
const START_OF_HELD: [&str; 3] = ["table_set", "mpt_index", "epoch"];

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    pieces: Handle<StreamDriver>,
    fills: Handle<StreamDriver>,
    answers: Handle<StreamSink>,
    flush: Input,
    ready: Output,
    hit: Output,
    missed: Output,
    evicted: Output,
    early_context: Output,
    early_slot: Output,
    /// Ports of channel `held`, with their widths.
    held: Vec<(&'static str, Input, u32)>,
    reference: Reference,
    expected: VecDeque<Expected>,
    /// Cycles of the pulses of pieces that were looked up, and whether they were found.
    pulses: VecDeque<(u64, bool)>,
    hits: u32,
    misses: u32,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let config = design.config().expect("the TLB is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let held = HELD_FIELDS
            .into_iter()
            .map(|name| {
                let port = format!("held_{name}");
                let width = design.port(&port).map_or(0, |(_, port)| port.width);
                Ok((name, bench.model().input(&port)?, width))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let mut rig = Self {
            pieces: bench.driver("piece", Stall::NEVER)?,
            fills: bench.driver("fill", Stall::NEVER)?,
            answers: bench.sink("looked_up", Stall::NEVER)?,
            flush: bench.model().input("flush")?,
            ready: bench.model().output("ready")?,
            hit: bench.model().output("hit")?,
            missed: bench.model().output("missed")?,
            evicted: bench.model().output("evicted")?,
            early_context: bench.model().output("early_split_context")?,
            early_slot: bench.model().output("early_split_slot")?,
            held,
            random: bench.random(),
            bench,
            reference: Reference::new(&config),
            config,
            expected: VecDeque::new(),
            pulses: VecDeque::new(),
            hits: 0,
            misses: 0,
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        self.expected.clear();
        self.pulses.clear();
        self.reference = Reference::new(&self.config);
        self.wait_for_scrub()
    }

    /// Scrubbing takes one cycle per set.
    fn wait_for_scrub(&mut self) -> Result<(), Error> {
        for _ in 0..self.config.tlb_sets {
            assert_eq!(self.bench.model().get(self.ready), 0, "ready while the tags are scrubbed");
            self.idle(1)?;
        }
        assert_eq!(self.bench.model().get(self.ready), 1, "ready when the tags are scrubbed");
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.bench.model_mut().set(self.flush, 1);
        self.idle(1)?;
        self.bench.model_mut().set(self.flush, 0);
        self.reference = Reference::new(&self.config);
        self.wait_for_scrub()
    }

    /// Random values for `held`.
    fn random_held(&mut self) -> Vec<u128> {
        let (random, held) = (&mut self.random, &self.held);
        held.iter().map(|(_, _, width)| u128::from(random.next_u64() & bits::max(*width))).collect()
    }

    /// One cycle with a piece and a fill, where there are any. Gives the page address that the piece finds.
    fn cycle(&mut self, piece: Option<Piece>, fill: Option<(Page, u64)>) -> Result<Option<u64>, Error> {
        let cycle = self.bench.cycles();
        let mut found = None;
        if let Some(piece) = piece {
            let held = self.random_held();
            if piece.is_translated && piece.is_flat {
                // The page needs no look, and no use of it is noted.
                let root = held[HELD_FIELDS.iter().position(|name| *name == "root").expect("it is held")] as u64;
                found = (piece.page_index == 0).then_some(root >> 9 << 12);
            } else if piece.is_translated {
                found = self.reference.look_up(cycle, &piece.page);
            }
            self.push_piece(piece, held, found)?;
        }
        if let Some((page, address)) = fill {
            self.reference.enter(cycle, &page, address);
            self.push_fill(&page, address)?;
        }
        self.tick()?;
        Ok(found)
    }

    fn push_piece(&mut self, piece: Piece, mut held: Vec<u128>, found: Option<u64>) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let last = piece.va.wrapping_add(piece.length).wrapping_sub(1);
        // A piece up to the end of its page need not be the last one of its request.
        let is_to_end = piece.is_translated && last & piece.page.offset_mask() == piece.page.offset_mask();
        let is_last = !is_to_end || self.random.random();
        let index_bits = self.config.tlb_sets - 1;
        let values = [
            ("index_low", u128::from(piece.page.mpt_index & index_bits)),
            ("va", piece.va.into()),
            ("is_last", is_last.into()),
            ("status", piece.status.into()),
            ("is_translated", piece.is_translated.into()),
            ("is_empty", u128::from(piece.length == 0)),
            ("virtual_page", (piece.page.number as u32).into()),
            ("is_flat", piece.is_flat.into()),
            ("page_index", piece.page_index.into()),
        ];
        let shape = self.bench[self.pieces].channel().shape().clone();
        let beat = Beat::random_with(&shape, &values, &mut self.random)?;
        self.bench[self.pieces].push(beat.clone());
        let last = if is_last { last as u32 } else { self.random.random() };
        let own: [u128; OWN_FIELDS.len()] = [
            piece.page.epoch.into(),
            piece.page.table_set.into(),
            piece.page.mpt_index.into(),
            last.into(),
            (piece.page.shift - 12).into(),
        ];
        for (name, value) in OWN_FIELDS.into_iter().zip(own) {
            let position = self.held.iter().position(|(held, _, _)| *held == name).expect("a field of `held`");
            held[position] = value;
        }
        self.expected.push_back(Expected { cycle, piece, beat, held, found });
        if piece.is_translated {
            self.pulses.push_back((cycle + PULSE_CYCLES, found.is_some()));
        }
        Ok(())
    }

    fn push_fill(&mut self, page: &Page, address: u64) -> Result<(), Error> {
        let shape = self.bench[self.fills].channel().shape().clone();
        let values = [
            ("epoch", page.epoch.into()),
            ("table_set", page.table_set.into()),
            ("mpt_index", page.mpt_index.into()),
            ("virtual_page", (page.number as u32).into()),
            ("page", u128::from(address >> 12)),
        ];
        let beat = Beat::with(&shape, &values)?;
        self.bench[self.fills].push(beat);
        Ok(())
    }

    fn idle(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.tick())
    }

    /// One cycle; checks every output.
    fn tick(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        let model = self.bench.model();
        if let Some(early) = self.expected.iter().find(|expected| expected.cycle + LATENCY_CYCLES - 1 == now) {
            assert_eq!(u128::from(model.get(self.early_context)), early.beat.get("split_context")?);
            assert_eq!(u128::from(model.get(self.early_slot)), early.beat.get("split_slot")?);
        }
        let pulse = match self.pulses.front() {
            Some((cycle, is_found)) if *cycle == now => Some(*is_found),
            _ => None,
        };
        self.pulses.retain(|(cycle, _)| *cycle > now);
        assert_eq!(model.get(self.hit) == 1, pulse == Some(true), "hit in cycle {now}");
        assert_eq!(model.get(self.missed) == 1, pulse == Some(false), "missed in cycle {now}");
        let is_evicted = self.reference.evicted.remove(&now);
        assert_eq!(model.get(self.evicted) == 1, is_evicted, "evicted in cycle {now}");
        let starting = self.expected.iter().find(|expected| expected.cycle + HELD_CYCLES == now);
        let starting = starting.map(|expected| (expected.held.clone(), expected.beat.clone()));
        let held = match &starting {
            Some((held, _)) => held.clone(),
            None => self.random_held(),
        };
        for ((_, port, _), value) in self.held.iter().zip(&held) {
            self.bench.model_mut().set(*port, *value as u64);
        }
        self.bench.model_mut().settle();
        self.check_start(starting)?;
        let is_due = self.expected.front().is_some_and(|expected| expected.cycle + LATENCY_CYCLES == now);
        let expected = if is_due { self.expected.pop_front() } else { None };
        self.bench.cycle()?;
        assert_eq!(self.bench[self.pieces].pending() + self.bench[self.fills].pending(), 0);
        let answer = self.bench[self.answers].pop();
        assert_eq!(answer.is_some(), expected.is_some(), "an answer in cycle {now}");
        let (Some(answer), Some(expected)) = (answer, expected) else { return Ok(()) };
        let Expected { piece, beat, found, held, .. } = expected;
        let of_held = |name: &str| {
            let position = self.held.iter().position(|(held, _, _)| *held == name);
            position.map(|position| held[position])
        };
        self.hits += u32::from(found.is_some());
        self.misses += u32::from(piece.is_translated && found.is_none());

        let offset = piece.va & piece.page.offset_mask();
        let is_miss = piece.is_translated && found.is_none();
        let is_error = piece.status != 0;
        let address = match found {
            Some(page) => page.wrapping_add(offset),
            None if is_error || piece.length == 0 => 0,
            None => piece.va,
        };
        let mut special: HashMap<&str, u128> = [
            ("length", if is_error { 0 } else { piece.length.into() }),
            ("is_miss", is_miss.into()),
            ("offset", if piece.is_translated { offset.into() } else { u128::from(piece.va & 0xfff) }),
        ]
        .into();
        if !is_miss {
            special.insert("address", address.into());
        }
        for field in answer.beat.shape().fields() {
            let name = field.name.as_str();
            let Some(value) = of_held(name).or(special.get(name).copied()).or_else(|| beat.get(name).ok()) else {
                assert!(name == "address", "field {name} is unknown");
                continue;
            };
            assert_eq!(answer.beat.get(name)?, value, "{name} of {piece:?}, found {found:x?}");
        }
        Ok(())
    }

    /// What a walk begins with, if a piece is looked up in this cycle.
    fn check_start(&self, starting: Option<(Vec<u128>, Beat)>) -> Result<(), Error> {
        let model = self.bench.model();
        let field = |name: &str| Ok::<_, Error>(model.get_wide(model.output(&format!("start_{name}"))?));
        assert_eq!(field("valid")? == 1, starting.is_some(), "start_valid");
        let Some((held, beat)) = starting else { return Ok(()) };
        let held = |name: &str| held[HELD_FIELDS.iter().position(|held| *held == name).expect("it is held")];
        for (name, of_piece) in START_FIELDS {
            assert_eq!(field(name)?, beat.get(of_piece)?, "start_{name}");
        }
        for name in START_OF_HELD {
            assert_eq!(field(name)?, held(name), "start_{name}");
        }
        assert_eq!(field("root")?, held("root") << 3);
        assert_eq!(field("count")?, held("page_count"));
        assert_eq!(field("is_context")?, 0);
        Ok(())
    }

    /// A page in that set.
    fn page_in(&mut self, set: usize) -> Page {
        let shift = self.random.random_range(12..=30);
        let mpt_index = self.random.random_range(0..1 << INDEX_BITS);
        let number = self.random.random_range(0..1u64 << (64 - shift)) & !(u64::from(self.config.tlb_sets) - 1);
        let number = number | ((u64::from(mpt_index) ^ set as u64) & (u64::from(self.config.tlb_sets) - 1));
        let table_set = self.random.random_range(0..1 << self.config.table_set_bits());
        Page { epoch: self.random.random_range(0..1 << EPOCH_BITS), table_set, mpt_index, shift, number }
    }

    /// Pages in that set that are told apart, among them some whose names differ in one bit, or in two that cancel out in
    /// the set number or in what fills compare.
    fn pages_in(&mut self, set: usize, count: usize) -> Vec<Page> {
        let mut pages: Vec<Page> = Vec::new();
        while pages.len() < count {
            let mut page = self.page_in(set);
            if let Some(first) = pages.first()
                && self.random.random()
            {
                page = *first;
                let bit = self.random.random_range(0..32);
                let is_in_set = bit < self.config.tlb_set_bits();
                match self.random.random_range(0..5) {
                    0 => page.table_set ^= 1 & ((1 << self.config.table_set_bits()) - 1),
                    3 => page.epoch ^= 1 << (bit % EPOCH_BITS),
                    1 if is_in_set => {
                        page.mpt_index ^= 1 << bit;
                        page.number ^= 1 << bit;
                    }
                    1 => page.mpt_index ^= 1 << bit & ((1 << INDEX_BITS) - 1),
                    4 => page = self.alike(page),
                    _ if !is_in_set => page.number ^= 1 << bit,
                    _ => {}
                }
            }
            if pages.iter().all(|other| other.name() != page.name()) {
                pages.push(page);
            }
        }
        pages
    }

    /// Another page that is the same to fills: two bits of its number cancel out.
    fn alike(&mut self, page: Page) -> Page {
        let bit = self.random.random_range(self.config.tlb_set_bits()..32 - FILL_COMPARES_BITS);
        Page { number: page.number ^ (1 << bit | 1 << (bit + FILL_COMPARES_BITS)), ..page }
    }

    /// Pages in that set that fills tell apart.
    fn pages_apart(&mut self, set: usize, count: usize) -> Vec<Page> {
        let mut pages: Vec<Page> = Vec::new();
        while pages.len() < count {
            let page = self.page_in(set);
            let is_apart = |other: &Page| part(other.name(), &self.config) != part(page.name(), &self.config);
            if pages.iter().all(is_apart) {
                pages.push(page);
            }
        }
        pages
    }

    /// A piece of that page.
    fn piece_of(&mut self, page: Page) -> Piece {
        let offset = match self.random.random_range(0..4) {
            0 => 0,
            1 => page.offset_mask(),
            _ => self.random.next_u64() & page.offset_mask(),
        };
        let longest = page.offset_mask() - offset + 1;
        let length = if self.random.random_range(0..3) == 0 { longest } else { self.random.random_range(1..=longest) };
        Piece { page, va: page.number << page.shift | offset, length, status: 0, ..MAPPED }
    }

    /// Address of a page that may be cached.
    fn address(&mut self) -> u64 {
        match self.random.random_range(0..8) {
            0 => 0u64.wrapping_sub(4096 * self.random.random_range(1..10)),
            1 => 4096 * self.random.random_range(1..10),
            _ => self.random.next_u64() >> self.random.random_range(0..32) & !4095 | 4096,
        }
    }

    /// Enters a page, and waits until everything knows of it.
    fn enter(&mut self, page: Page) -> Result<u64, Error> {
        let address = self.address();
        self.cycle(None, Some((page, address)))?;
        self.idle(FILL_CYCLES)?;
        Ok(address)
    }

    /// Looks a page up, alone.
    fn find(&mut self, page: Page) -> Result<Option<u64>, Error> {
        let piece = self.piece_of(page);
        let found = self.cycle(Some(piece), None)?;
        self.idle(LATENCY_CYCLES + 1)?;
        assert!(self.expected.is_empty());
        Ok(found)
    }
}

#[test]
fn pages_of_every_size_are_found_and_the_offset_is_added() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 1)?;
        for shift in 12..=30 {
            for _ in 0..20 {
                let mut page = rig.page_in(0);
                page.shift = shift;
                page.number &= u64::MAX >> shift;
                // Aligned to 4 KiB only.
                let address = rig.enter(page)?;
                let whole = Piece { page, va: page.number << shift, length: 1 << shift, status: 0, ..MAPPED };
                for _ in 0..4 {
                    let piece = rig.piece_of(page);
                    assert_eq!(rig.cycle(Some(piece), None)?, Some(address));
                }
                assert_eq!(rig.cycle(Some(whole), None)?, Some(address));
            }
        }
        rig.idle(LATENCY_CYCLES + 1)?;
        assert!(rig.expected.is_empty());
        Ok(())
    })
}

#[test]
fn what_needs_no_page_passes_through() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 2)?;
        let page = rig.page_in(1);
        rig.enter(page)?;
        for status in 0..Status::ALL.len() as u8 {
            for va in [0, 1, 0xfff, page.number << page.shift, u64::MAX] {
                for length in [0, 1, 0x1000, 0x8000_0000, u64::from(u32::MAX)] {
                    // A length that is not legal comes with an error.
                    if status != 0 || length <= 0x8000_0000 {
                        let piece = Piece { page, va, length, status, is_translated: false, ..MAPPED };
                        rig.cycle(Some(piece), None)?;
                    }
                }
            }
        }
        rig.idle(LATENCY_CYCLES + 1)?;
        assert_eq!((rig.hits, rig.misses), (0, 0));
        Ok(())
    })
}

#[test]
fn page_0_of_a_flat_region_needs_no_look_and_the_others_a_walk() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 12)?;
        for _ in 0..300 {
            let page = rig.page_in(1);
            // What the TLB holds under that name is not asked for.
            rig.enter(page)?;
            let page_index = [0, 0, 1, 0x8000_0000, rig.random.next_u32()][rig.random.random_range(0..5)];
            let piece = Piece { is_flat: true, page_index, ..rig.piece_of(page) };
            let found = rig.cycle(Some(piece), None)?;
            assert_eq!(found.is_some(), page_index == 0);
            let piece = Piece { is_flat: false, ..piece };
            assert!(rig.cycle(Some(piece), None)?.is_some(), "the page is held");
            // Nor is it where the answer needs no page.
            let piece = Piece { is_flat: true, is_translated: false, page_index: 0, ..piece };
            rig.cycle(Some(piece), None)?;
        }
        rig.idle(LATENCY_CYCLES + 1)?;
        assert!(rig.hits > 300 && rig.misses > 50);
        Ok(())
    })
}

#[test]
fn a_page_is_found_three_cycles_after_its_fill() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 3)?;
        for cycles in 0..10 {
            let page = rig.page_in(0);
            let piece = rig.piece_of(page);
            let address = rig.address();
            let fill = Some((page, address));
            let found = if cycles == 0 {
                rig.cycle(Some(piece), fill)?
            } else {
                rig.cycle(None, fill)?;
                rig.idle(cycles - 1)?;
                rig.cycle(Some(piece), None)?
            };
            assert_eq!(found, (cycles >= FILL_CYCLES).then_some(address), "{cycles} cycles later");
            rig.idle(LATENCY_CYCLES + 2)?;
        }
        Ok(())
    })
}

#[test]
fn a_lookup_around_a_fill_sees_the_old_page_or_the_new_one() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4)?;
        let ways = rig.config.tlb_ways as usize;
        for offset in 0..8 {
            for wants_new in [false, true] {
                rig.flush()?;
                let pages = rig.pages_apart(1, ways + 1);
                let mut addresses = Vec::new();
                for page in &pages[..ways] {
                    addresses.push(rig.enter(*page)?);
                }
                let (new, address) = (pages[ways], rig.address());
                let piece = rig.piece_of(if wants_new { new } else { pages[0] });
                let mut found = None;
                for cycle in 0..8 {
                    let fill = (cycle == 0).then_some((new, address));
                    let outcome = rig.cycle((cycle == offset).then_some(piece), fill)?;
                    found = found.or(outcome);
                }
                // The set is full: the page entered first is replaced.
                let old = (offset < FILL_CYCLES).then_some(addresses[0]);
                let expected = if wants_new { (offset >= FILL_CYCLES).then_some(address) } else { old };
                assert_eq!(found, expected, "{offset} cycles later");
            }
        }
        Ok(())
    })
}

#[test]
fn a_page_found_again_replaces_its_address_and_is_not_held_twice() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 5)?;
        let ways = rig.config.tlb_ways as usize;
        for gap in 1..=6 {
            for fills in 2..=6 {
                rig.flush()?;
                let pages = rig.pages_apart(0, ways);
                let mut entered = None;
                for fill in 0..fills {
                    let address = rig.address();
                    rig.cycle(None, Some((pages[0], address)))?;
                    rig.idle(gap - 1)?;
                    // Fills that follow one that was entered too soon are dropped.
                    let rounds_of_one = CLASH_CYCLES / gap + 1;
                    if fill % rounds_of_one == 0 {
                        entered = Some(address);
                    }
                }
                rig.idle(FILL_CYCLES)?;
                // Were it in two ways, the others would not all find a place.
                for page in &pages[1..] {
                    rig.enter(*page)?;
                }
                for page in &pages[1..] {
                    assert!(rig.find(*page)?.is_some(), "gap {gap}");
                }
                assert_eq!(rig.find(pages[0])?, entered, "gap {gap}");
            }
        }
        Ok(())
    })
}

#[test]
fn fills_of_one_set_too_close_together_are_dropped() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 6)?;
        for gap in 1..=5 {
            for other_set in [0, 1] {
                rig.flush()?;
                let [first, second] = rig.pages_apart(0, 2)[..] else { panic!("there are two pages") };
                let second = if other_set == 0 { second } else { rig.page_in(other_set) };
                for page in [first, second] {
                    let address = rig.address();
                    rig.cycle(None, Some((page, address)))?;
                    rig.idle(gap - 1)?;
                }
                rig.idle(FILL_CYCLES)?;
                let is_kept = other_set == 1 || gap > CLASH_CYCLES;
                assert_eq!(rig.find(second)?.is_some(), is_kept, "gap {gap}");
                let is_replaced = is_kept && other_set == 0 && rig.config.tlb_ways == 1;
                assert_eq!(rig.find(first)?.is_some(), !is_replaced, "gap {gap}");
            }
        }
        Ok(())
    })
}

#[test]
fn nothing_of_another_owner_or_epoch_is_found() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 10)?;
        let page = rig.page_in(1);
        let address = rig.enter(page)?;
        let set_bits = rig.config.tlb_set_bits();
        // One bit of each part of the key at a time. In the low bits of the index or the page number it is another set;
        // in both of them it is the same one.
        let mut others = Vec::new();
        others.extend((0..EPOCH_BITS).map(|bit| Page { epoch: page.epoch ^ 1 << bit, ..page }));
        let table_set_bits = rig.config.table_set_bits();
        others.extend((0..table_set_bits).map(|bit| Page { table_set: page.table_set ^ 1 << bit, ..page }));
        others.extend((0..INDEX_BITS).map(|bit| Page { mpt_index: page.mpt_index ^ 1 << bit, ..page }));
        others.extend((0..32).map(|bit| Page { number: page.number ^ 1 << bit, ..page }));
        others.extend((0..set_bits).map(|bit| Page {
            mpt_index: page.mpt_index ^ 1 << bit,
            number: page.number ^ 1 << bit,
            ..page
        }));
        for other in others {
            assert_eq!(rig.find(other)?, None, "{other:?} beside {page:?}");
            assert_eq!(rig.find(page)?, Some(address));
        }
        Ok(())
    })
}

#[test]
fn pages_that_a_fill_cannot_tell_apart_replace_each_other() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 11)?;
        for _ in 0..20 {
            let page = rig.page_in(0);
            // Two bits of the page number that cancel out.
            for bit in rig.config.tlb_set_bits()..32 - FILL_COMPARES_BITS {
                let other = Page { number: page.number ^ 1 << bit ^ 1 << (bit + FILL_COMPARES_BITS), ..page };
                rig.enter(page)?;
                let address = rig.enter(other)?;
                assert_eq!(rig.find(page)?, None);
                assert_eq!(rig.find(other)?, Some(address));
                // None but that one was replaced, and no way holds what was there before.
                rig.enter(page)?;
                assert_eq!(rig.find(other)?, None);
            }
        }
        assert!(rig.reference.confused >= 40);
        Ok(())
    })
}

#[test]
fn the_least_recently_used_half_is_replaced() -> Result<(), Error> {
    for design in [&dut::TLB, &dut::TLB_DEFAULT] {
        let mut rig = Rig::new(design, 8)?;
        let ways = rig.config.tlb_ways as usize;
        for reused in 0..ways {
            let pages = rig.pages_apart(reused, ways + 1);
            for page in &pages[..ways] {
                rig.enter(*page)?;
            }
            // Fills alternate between the halves: 0 and 2 are in one, 1 and 3 in the other.
            assert!(rig.find(pages[reused])?.is_some());
            rig.enter(pages[ways])?;
            let replaced = match (ways, reused) {
                (2, _) => 1 - reused,
                (_, 0 | 2) => 1,
                _ => 0,
            };
            for (number, page) in pages.iter().enumerate() {
                assert_eq!(rig.find(*page)?.is_some(), number != replaced, "page {number} after a use of {reused}");
            }
        }
    }
    Ok(())
}

#[test]
fn random_pieces_and_fills() -> Result<(), Error> {
    DESIGNS.into_iter().enumerate().try_for_each(|(case, design)| {
        let mut rig = Rig::new(design, 20 + case as u64)?;
        let (mut evictions, mut overwritten, mut confused, mut dropped) = (0, 0, 0, 0);
        for phase in 0..12 {
            let ways = rig.config.tlb_ways as usize;
            let mut pages = rig.pages_in(0, ways + 1 + phase % 2);
            let alike = rig.alike(pages[0]);
            pages.push(alike);
            pages.extend(rig.pages_apart(1, ways + 1));
            pages.extend(rig.pages_in(rig.config.tlb_sets as usize - 1, ways + 1));
            let (piece_percent, fill_percent) = [(100, 100), (100, 20), (30, 30), (60, 10)][phase % 4];
            for _ in 0..3000 {
                let piece = if rig.random.random_range(0..100) < piece_percent {
                    let page = pages[rig.random.random_range(0..pages.len())];
                    let mut piece = rig.piece_of(page);
                    match rig.random.random_range(0..12) {
                        0 => (piece.status, piece.is_translated) = (rig.random.random_range(1..=22), false),
                        1 => (piece.length, piece.is_translated) = (0, false),
                        2 => piece.is_translated = false,
                        _ => {}
                    }
                    Some(piece)
                } else {
                    None
                };
                let mut fill = None;
                if rig.random.random_range(0..100) < fill_percent {
                    let page = pages[rig.random.random_range(0..pages.len())];
                    fill = Some((page, rig.address()));
                }
                rig.cycle(piece, fill)?;
            }
            evictions += rig.reference.evictions;
            overwritten += rig.reference.overwritten;
            confused += rig.reference.confused;
            dropped += rig.reference.dropped;
            if phase % 2 == 0 {
                rig.idle(FILL_CYCLES)?;
                rig.flush()?;
            } else {
                rig.reset()?;
            }
        }
        println!(
            "{}: {} hits, {} misses, {evictions} evictions, {overwritten} overwritten, {confused} confused, \
             {dropped} dropped",
            design.name, rig.hits, rig.misses
        );
        assert!(rig.hits > 2000 && rig.misses > 2000 && evictions > 500 && overwritten > 1000);
        assert!(confused > 500 && dropped > 1000);
        Ok(())
    })
}

#[test]
fn flush_and_reset_empty_every_way() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 9)?;
        let sets = rig.config.tlb_sets as usize;
        for round in 0..4 {
            let mut pages = Vec::new();
            for set in (0..sets).step_by(sets.div_ceil(64)) {
                pages.extend(rig.pages_in(set, rig.config.tlb_ways as usize));
            }
            for page in &pages {
                rig.enter(*page)?;
                assert!(rig.find(*page)?.is_some());
            }
            if round % 2 == 0 {
                rig.flush()?;
            } else {
                let piece = rig.piece_of(pages[0]);
                let address = rig.address();
                rig.cycle(Some(piece), Some((pages[0], address)))?;
                rig.reset()?;
            }
            for page in &pages {
                let piece = rig.piece_of(*page);
                assert_eq!(rig.cycle(Some(piece), None)?, None);
            }
            rig.idle(LATENCY_CYCLES + 1)?;
            assert!(rig.expected.is_empty());
        }
        Ok(())
    })
}

#[test]
fn nothing_is_found_or_entered_while_the_tags_are_scrubbed() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 12)?;
        let sets = rig.config.tlb_sets as usize;
        let pages: Vec<_> = (0..sets).map(|set| rig.page_in(set)).collect();
        // A lookup just before its set is scrubbed, in that cycle, and behind it; after a flush and after a reset.
        for is_reset in [false, true] {
            for ahead in [1, 0, sets - 1] {
                for page in &pages {
                    rig.enter(*page)?;
                }
                rig.idle(PULSE_CYCLES)?;
                if is_reset {
                    rig.bench.reset(2)?;
                    rig.expected.clear();
                    rig.pulses.clear();
                } else {
                    rig.bench.model_mut().set(rig.flush, 1);
                    rig.idle(1)?;
                    rig.bench.model_mut().set(rig.flush, 0);
                }
                for cycle in 0..sets {
                    assert_eq!(rig.bench.model().get(rig.ready), 0);
                    let piece = rig.piece_of(pages[(cycle + ahead) % sets]);
                    let held = rig.random_held();
                    rig.push_piece(piece, held, None)?;
                    // Into a set that has been scrubbed, where there is one.
                    let address = rig.address();
                    rig.push_fill(&pages[cycle.saturating_sub(1)], address)?;
                    rig.tick()?;
                }
                assert_eq!(rig.bench.model().get(rig.ready), 1);
                rig.reference = Reference::new(&rig.config);
                for page in &pages {
                    assert_eq!(rig.find(*page)?, None);
                }
            }
        }
        Ok(())
    })
}

#[test]
fn a_fill_before_a_flush_does_not_survive_it() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 13)?;
        let sets = rig.config.tlb_sets as usize;
        for set in [0, 1, 2 % sets, 3 % sets, sets - 1] {
            for cycles_before in 0..6 {
                let (page, address) = (rig.page_in(set), rig.address());
                rig.push_fill(&page, address)?;
                if cycles_before > 0 {
                    rig.idle(cycles_before)?;
                }
                rig.flush()?;
                assert_eq!(rig.find(page)?, None, "set {set}, {cycles_before} cycles before");
            }
        }
        Ok(())
    })
}
