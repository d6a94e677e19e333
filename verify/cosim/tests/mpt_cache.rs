//! The MPT cache against a cache in plain data that sees fills and uses as late as the block says.

use std::collections::VecDeque;

use keywalk_contract::{Config, Status, key::INDEX_BITS};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, bits, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 3] = [&dut::MPT_CACHE, &dut::MPT_CACHE_DEFAULT, &dut::MPT_CACHE_LEAST];
/// Cycles from a lookup to its line.
const LATENCY_CYCLES: u64 = 3;
/// Cycles from a fill to the first lookup that sees it.
const FILL_CYCLES: u64 = 2;
/// Cycles from a use of a line to the first fill whose choice of a way knows of it.
const USE_CYCLES: u64 = 3;

/// What a line is cached under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    table_set: u32,
    index: u32,
}

/// A line: the values of its fields, in the order of `Rig::fields`.
type Line = Vec<u128>;

/// A replay's part of a lookup.
#[derive(Clone, Debug)]
struct Brought {
    status: u8,
    line: Line,
}

/// Things that happen in a later cycle, in order.
type Later<T> = VecDeque<(u64, T)>;

/// Takes the next thing that happens in that cycle or before.
fn due<T>(later: &mut Later<T>, cycle: u64) -> Option<T> {
    let is_due = later.front().is_some_and(|(from, _)| *from <= cycle);
    if is_due { later.pop_front().map(|(_, thing)| thing) } else { None }
}

/// The reference.
struct Cache {
    config: Config,
    ways: Vec<Vec<Option<(Name, Line)>>>,
    /// Nodes of the replacement trees. What they begin with makes no difference, since all ways begin empty.
    nodes: Vec<Vec<bool>>,
    /// Fills that lookups do not see yet, with the cycle from which they do.
    fills: Later<(usize, usize, (Name, Line))>,
    /// Uses that the choice of a way does not know yet, with the cycle from which it does.
    uses: Later<(usize, usize)>,
    /// Cycle and set of the last fill.
    last_fill: Option<(u64, usize)>,
    /// Position of `is_valid` in a line.
    is_valid: usize,
    hits: u32,
    misses: u32,
    evictions: u32,
    dropped: u32,
}

impl Cache {
    fn new(config: &Config, is_valid: usize) -> Self {
        let sets = config.mpt_sets as usize;
        let ways = config.mpt_ways as usize;
        Self {
            config: config.clone(),
            ways: vec![vec![None; ways]; sets],
            nodes: vec![vec![false; ways - 1]; sets],
            fills: VecDeque::new(),
            uses: VecDeque::new(),
            last_fill: None,
            is_valid,
            hits: 0,
            misses: 0,
            evictions: 0,
            dropped: 0,
        }
    }

    fn clear(&mut self) {
        *self = Self::new(&self.config, self.is_valid);
    }

    fn victim(&self, set: usize) -> usize {
        let mut node = 0;
        let mut way = 0;
        while node < self.nodes[set].len() {
            let goes_right = usize::from(self.nodes[set][node]);
            way = 2 * way + goes_right;
            node = 2 * node + 1 + goes_right;
        }
        way
    }

    /// Every node on the path to the way points away from it.
    fn use_way(&mut self, set: usize, way: usize) {
        let mut node = 0;
        for level in (0..self.config.mpt_ways.trailing_zeros()).rev() {
            let is_right = way >> level & 1;
            self.nodes[set][node] = is_right == 0;
            node = 2 * node + 1 + is_right;
        }
    }

    /// The line that a lookup gives, none where it is not found.
    fn lookup(&mut self, cycle: u64, name: Name, brought: Option<&Brought>) -> Option<Line> {
        while let Some((set, way, entry)) = due(&mut self.fills, cycle) {
            self.ways[set][way] = Some(entry);
        }
        while let Some((set, way)) = due(&mut self.uses, cycle) {
            self.use_way(set, way);
        }
        let set = (name.index % self.config.mpt_sets) as usize;
        let holding: Vec<_> = (0..self.ways[set].len())
            .filter(|&way| self.ways[set][way].as_ref().is_some_and(|(held, _)| *held == name))
            .collect();
        assert!(holding.len() <= 1, "{name:?} is held by ways {holding:?}");
        let hit = holding.first().copied();
        if let Some(way) = hit {
            self.uses.push_back((cycle + USE_CYCLES, (set, way)));
        }
        let Some(brought) = brought else {
            let held = hit.and_then(|way| self.ways[set][way].as_ref());
            self.hits += u32::from(held.is_some());
            self.misses += u32::from(held.is_none());
            return held.map(|(_, line)| line.clone());
        };
        if hit.is_none() && brought.status == 0 && brought.line[self.is_valid] == 1 {
            if self.last_fill.is_some_and(|(last, last_set)| last + 1 == cycle && last_set == set) {
                self.dropped += 1;
            } else {
                let way = self.victim(set);
                self.evictions += u32::from(self.ways[set][way].is_some());
                self.fills.push_back((cycle + FILL_CYCLES, (set, way, (name, brought.line.clone()))));
                self.uses.push_back((cycle + USE_CYCLES, (set, way)));
                self.last_fill = Some((cycle, set));
            }
        }
        Some(brought.line.clone())
    }
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    lookups: Handle<StreamDriver>,
    flush: Input,
    ready: Output,
    found: Output,
    /// Fields of a line: name, width, output.
    fields: Vec<(String, u32, Output)>,
    cache: Cache,
    /// Cycle in which each line comes, and what it is.
    expected: Later<Option<Line>>,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let config = design.config().expect("the cache is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let lookups = bench.driver("lookup", Stall::NEVER)?;
        let shape = bench[lookups].channel().shape().clone();
        let lines = shape.fields().iter().filter_map(|field| Some((field.name.strip_prefix("line_")?, field.width)));
        let fields = lines
            .map(|(name, width)| Ok((name.to_owned(), width, bench.model().output(&format!("line_{name}"))?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let is_valid = fields.iter().position(|(name, ..)| name == "is_valid").expect("a line may be not valid");
        let mut rig = Self {
            random: bench.random(),
            lookups,
            flush: bench.model().input("flush")?,
            ready: bench.model().output("ready")?,
            found: bench.model().output("line_found")?,
            bench,
            cache: Cache::new(&config, is_valid),
            config,
            fields,
            expected: VecDeque::new(),
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        self.expected.clear();
        self.cache.clear();
        self.wait_for_scrub()
    }

    /// Scrubbing takes one cycle per set.
    fn wait_for_scrub(&mut self) -> Result<(), Error> {
        for _ in 0..self.config.mpt_sets {
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
        self.cache.clear();
        self.wait_for_scrub()
    }

    fn random_line(&mut self, is_valid: bool) -> Line {
        let widths: Vec<_> = self.fields.iter().map(|(_, width, _)| *width).collect();
        let mut line: Line =
            widths.into_iter().map(|width| u128::from(self.random.next_u64() & bits::max(width))).collect();
        line[self.cache.is_valid] = u128::from(is_valid);
        line
    }

    fn good(&mut self) -> Option<Brought> {
        Some(Brought { status: 0, line: self.random_line(true) })
    }

    /// One cycle with a lookup. Gives what is expected of it.
    fn lookup(&mut self, name: Name, brought: Option<Brought>) -> Result<Option<Line>, Error> {
        let mut beat = Beat::zero(self.bench[self.lookups].channel().shape());
        beat.set("table_set", name.table_set.into())?;
        beat.set("index", name.index.into())?;
        beat.set("is_replay", brought.is_some().into())?;
        // What a new request brings means nothing.
        let is_valid = self.random.random();
        let garbage = Brought { status: self.random.random(), line: self.random_line(is_valid) };
        let shown = brought.as_ref().unwrap_or(&garbage);
        beat.set("status", shown.status.into())?;
        for ((field, ..), value) in self.fields.iter().zip(&shown.line) {
            beat.set(&format!("line_{field}"), *value)?;
        }
        self.bench[self.lookups].push(beat);
        let cycle = self.bench.cycles();
        let line = self.cache.lookup(cycle, name, brought.as_ref());
        self.expected.push_back((cycle + LATENCY_CYCLES, line.clone()));
        self.idle(1)?;
        assert_eq!(self.bench[self.lookups].pending(), 0);
        Ok(line)
    }

    /// Cycles without a new lookup; checks the lines that come.
    fn idle(&mut self, cycles: u64) -> Result<(), Error> {
        for _ in 0..cycles {
            self.bench.cycle()?;
            let now = self.bench.cycles();
            let Some(line) = due(&mut self.expected, now) else { continue };
            let model = self.bench.model();
            assert_eq!(model.get(self.found) == 1, line.is_some(), "found, in cycle {now}");
            let Some(line) = line else { continue };
            for ((field, _, output), value) in self.fields.iter().zip(&line) {
                assert_eq!(model.get_wide(*output), *value, "{field} of the line of cycle {now}");
            }
        }
        Ok(())
    }

    /// A name in that set.
    fn name_in(&mut self, set: u32) -> Name {
        let above: u32 = self.random.random_range(0..1 << (INDEX_BITS - self.config.mpt_set_bits()));
        let table_set = self.random.random_range(0..1 << self.config.table_set_bits());
        Name { table_set, index: above << self.config.mpt_set_bits() | set }
    }

    /// Distinct names in that set, among them some that differ in one bit.
    fn names_in(&mut self, set: u32, count: usize) -> Vec<Name> {
        let mut names: Vec<Name> = Vec::new();
        while names.len() < count {
            let mut name = self.name_in(set);
            if let Some(first) = names.first()
                && self.random.random()
            {
                name = *first;
                match self.random.random_range(self.config.mpt_set_bits()..=INDEX_BITS) {
                    INDEX_BITS => name.table_set ^= 1,
                    bit => name.index ^= 1 << bit,
                }
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Fills a line, and waits until everything knows of it.
    fn fill(&mut self, name: Name) -> Result<Option<Line>, Error> {
        let brought = self.good();
        let line = self.lookup(name, brought)?;
        self.idle(USE_CYCLES)?;
        Ok(line)
    }

    /// Looks a name up, alone.
    fn is_held(&mut self, name: Name) -> Result<bool, Error> {
        let line = self.lookup(name, None)?;
        self.idle(LATENCY_CYCLES)?;
        Ok(line.is_some())
    }
}

#[test]
fn every_line_is_found_again_one_per_cycle() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 1)?;
        let mut names = Vec::new();
        for set in 0..rig.config.mpt_sets {
            names.extend(rig.names_in(set, rig.config.mpt_ways as usize));
        }
        // Fills of one set with a gap, so that none is dropped and each replaces another way.
        let ways = rig.config.mpt_ways as usize;
        for way in 0..ways {
            for name in names.iter().skip(way).step_by(ways) {
                let brought = rig.good();
                rig.lookup(*name, brought)?;
                rig.idle(2)?;
            }
        }
        let start = rig.bench.cycles();
        for name in &names {
            assert!(rig.lookup(*name, None)?.is_some(), "{name:?}");
        }
        assert_eq!(rig.bench.cycles() - start, names.len() as u64);
        rig.idle(LATENCY_CYCLES)?;
        assert!(rig.expected.is_empty());
        Ok(())
    })
}

#[test]
fn random_lookups_and_fills() -> Result<(), Error> {
    DESIGNS.into_iter().enumerate().try_for_each(|(case, design)| {
        let mut rig = Rig::new(design, 10 + case as u64)?;
        let (mut hits, mut misses, mut evictions, mut dropped) = (0, 0, 0, 0);
        for phase in 0..12 {
            let ways = rig.config.mpt_ways as usize;
            let mut names = rig.names_in(0, ways + 2);
            names.extend(rig.names_in(rig.config.mpt_sets - 1, ways + 1 + phase % 3));
            let idle_percent = [0, 0, 30, 80][phase % 4];
            let replay_percent = [50, 15, 85][phase % 3];
            for _ in 0..3000 {
                if rig.random.random_range(0..100) < idle_percent {
                    rig.idle(1)?;
                    continue;
                }
                let name = names[rig.random.random_range(0..names.len())];
                let brought = if rig.random.random_range(0..100) < replay_percent {
                    let is_valid = rig.random.random_range(0..8) > 0;
                    let status = if rig.random.random_range(0..8) > 0 { 0 } else { rig.random.random_range(1..=255) };
                    Some(Brought { status, line: rig.random_line(is_valid) })
                } else {
                    None
                };
                rig.lookup(name, brought)?;
            }
            let cache = &rig.cache;
            hits += cache.hits;
            misses += cache.misses;
            evictions += cache.evictions;
            dropped += cache.dropped;
            if phase % 2 == 0 {
                rig.flush()?;
            } else {
                rig.reset()?;
            }
        }
        println!("{}: {hits} hits, {misses} misses, {evictions} evictions, {dropped} fills dropped", design.name);
        assert!(hits > 2000 && misses > 2000 && evictions > 2000 && dropped > 200);
        Ok(())
    })
}

#[test]
fn a_lookup_around_a_fill_sees_the_old_line_or_the_new_one_whole() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 2)?;
        for offset in -5i64..=6 {
            for wants_new in [false, true] {
                if offset == 0 {
                    continue;
                }
                rig.flush()?;
                let names = rig.names_in(1, rig.config.mpt_ways as usize + 1);
                let (new, old) = names.split_last().expect("there are names");
                for name in old {
                    rig.fill(*name)?;
                }
                // The set is full: the first one filled is replaced.
                let wanted = if wants_new { *new } else { old[0] };
                let brought = rig.good();
                let mut found = None;
                for cycle in -5..=6 {
                    if cycle == 0 {
                        rig.lookup(*new, brought.clone())?;
                    } else if cycle == offset {
                        found = rig.lookup(wanted, None)?;
                    } else {
                        rig.idle(1)?;
                    }
                }
                rig.idle(LATENCY_CYCLES)?;
                let sees_fill = offset >= FILL_CYCLES.cast_signed();
                assert_eq!(found.is_some(), wants_new == sees_fill, "{offset} cycles after the fill");
                if wants_new && sees_fill {
                    assert_eq!(found, brought.map(|brought| brought.line), "{offset} cycles after the fill");
                }
            }
        }
        Ok(())
    })
}

#[test]
fn no_entry_is_held_twice() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 3)?;
        let ways = rig.config.mpt_ways as usize;
        for gap in 1..=6 {
            for fills in 2..=5 {
                rig.flush()?;
                let names = rig.names_in(0, ways);
                let first = rig.good();
                let line = rig.lookup(names[0], first)?;
                for _ in 1..fills {
                    rig.idle(gap - 1)?;
                    // Another line for the same entry: the one that is held stays.
                    let brought = rig.good();
                    rig.lookup(names[0], brought)?;
                }
                rig.idle(USE_CYCLES)?;
                // Were it in two ways, the others would not all find a place.
                for name in &names[1..] {
                    rig.fill(*name)?;
                }
                for name in &names[1..] {
                    assert!(rig.is_held(*name)?, "{name:?} with gap {gap}");
                }
                assert_eq!(rig.lookup(names[0], None)?, line, "gap {gap}");
                rig.idle(LATENCY_CYCLES)?;
            }
        }
        Ok(())
    })
}

#[test]
fn the_second_of_two_fills_of_a_set_in_a_row_is_dropped() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4)?;
        let first = rig.name_in(0);
        let others = [rig.names_in(0, 2), rig.names_in(1, 2)].concat();
        for (other, is_kept) in others.into_iter().zip([false, false, true, true]) {
            if other == first {
                continue;
            }
            rig.flush()?;
            for name in [first, other] {
                let brought = rig.good();
                rig.lookup(name, brought)?;
            }
            rig.idle(USE_CYCLES)?;
            assert_eq!((rig.is_held(first)?, rig.is_held(other)?), (true, is_kept));
        }
        Ok(())
    })
}

#[test]
fn what_is_not_good_passes_through_and_is_not_cached() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 5)?;
        for status in 0..=255 {
            for is_valid in [false, true] {
                let name = rig.name_in(u32::from(status) % rig.config.mpt_sets);
                let line = rig.random_line(is_valid);
                rig.lookup(name, Some(Brought { status, line }))?;
                rig.idle(USE_CYCLES)?;
                assert_eq!(rig.is_held(name)?, is_valid && status == Status::Ok.code(), "status {status}");
            }
            rig.flush()?;
        }
        Ok(())
    })
}

#[test]
fn the_least_recently_used_half_is_replaced() -> Result<(), Error> {
    for design in [&dut::MPT_CACHE, &dut::MPT_CACHE_DEFAULT] {
        let mut rig = Rig::new(design, 6)?;
        let ways = rig.config.mpt_ways as usize;
        for reused in 0..ways {
            rig.flush()?;
            let names = rig.names_in(1, ways + 1);
            for name in &names[..ways] {
                rig.fill(*name)?;
            }
            // Fills alternate between the halves: 0 and 2 are in one, 1 and 3 in the other.
            assert!(rig.is_held(names[reused])?);
            rig.fill(names[ways])?;
            let replaced = match (ways, reused) {
                (2, _) => 1 - reused,
                (_, 0 | 2) => 1,
                _ => 0,
            };
            for (number, name) in names.iter().enumerate() {
                assert_eq!(rig.is_held(*name)?, number != replaced, "name {number} after a use of name {reused}");
            }
        }
    }
    Ok(())
}

#[test]
fn flush_and_reset_empty_every_way() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 7)?;
        for round in 0..6 {
            let mut names = Vec::new();
            for set in 0..rig.config.mpt_sets {
                names.extend(rig.names_in(set, rig.config.mpt_ways as usize));
            }
            // With fills under way to the last.
            for name in names.iter().chain(names.iter().rev()) {
                let brought = rig.good();
                rig.lookup(*name, brought)?;
            }
            rig.idle(round / 2)?;
            if round % 2 == 0 {
                rig.flush()?;
            } else {
                rig.reset()?;
            }
            for name in &names {
                assert!(rig.lookup(*name, None)?.is_none());
            }
            rig.idle(LATENCY_CYCLES)?;
            assert!(rig.expected.is_empty());
        }
        Ok(())
    })
}
