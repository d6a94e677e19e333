//! The MPT cache against a cache in plain data that sees fills and uses as late as the block says.

#[path = "common/late_inputs.rs"]
mod late_inputs;
#[path = "common/outputs.rs"]
mod outputs;
#[path = "common/plru.rs"]
mod plru;

use std::collections::{BTreeMap, VecDeque};

use keywalk_contract::{Config, key::INDEX_BITS};
use keywalk_cosim::{Bench, Dut, Error, Handle, Input, bits, dut};
use late_inputs::LateInputs;
use outputs::Outputs;
use plru::Plru;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 3] = [&dut::MPT_CACHE, &dut::MPT_CACHE_DEFAULT, &dut::MPT_CACHE_LEAST];
/// Cycles from `early_index` to the rest of the lookup.
const LOOKUP_CYCLES: u64 = 1;
/// Cycles from `early_index` to `found`, and to the line.
const FOUND_CYCLES: u64 = 2;
const LINE_CYCLES: u64 = 3;
/// Cycles from a fill to its page shift, and to its line.
const FILL_SHIFT_CYCLES: u64 = 1;
const FILL_LINE_CYCLES: u64 = 3;
/// Cycles from a fill to the first `early_index` that sees it.
const FILL_CYCLES: u64 = 2;
/// A fill is dropped when another of the same set was entered that many cycles before, or fewer.
const CLASH_CYCLES: u64 = 2;
/// Cycles from `early_index` or a fill to the replacement state's update, of which later fills know.
const USE_CYCLES: u64 = 2;
/// Cycles from a fill to the pulse `evicted`.
const EVICTED_CYCLES: u64 = 2;
/// Cycles after which everything has come out and is known.
const SETTLED_CYCLES: u64 = 4;
/// Bits of the epochs of buckets, the lowest ones of the epochs.
const LATE_EPOCH_BITS: u32 = 16;
/// Bits of the epochs.
const EPOCH_BITS: u32 = 37;
/// Of them, those of the PD's bucket: its epoch and its number; and that of all PDs.
const PD_EPOCH: u64 = 0xff << 8 | 0x7f << 22;
const ANY_PD_EPOCH: u64 = 0xff << 29;

/// What a line is cached under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    table_set: u32,
    index: u32,
    epoch: u64,
}

impl Name {
    /// Whether a request of that name finds a line of this name.
    fn is_found_by(&self, request: Name, is_foreign: bool) -> bool {
        let differs = self.epoch ^ request.epoch;
        let by_pd = !is_foreign && differs & PD_EPOCH == 0;
        let by_any_pd = differs & ANY_PD_EPOCH == 0;
        self.owner() == request.owner() && differs & !(PD_EPOCH | ANY_PD_EPOCH) == 0 && (by_pd || by_any_pd)
    }

    /// Whose entry it is, whatever the epochs.
    fn owner(&self) -> (u32, u32) {
        (self.table_set, self.index)
    }
}

/// A line with its page shift: the values of the ports `page_shift` and `line_<field>`.
type Line = BTreeMap<String, u128>;

/// What comes in in one cycle.
#[derive(Clone, Debug, Default)]
struct Step {
    /// A lookup whose `early_index` comes now.
    lookup: Option<Name>,
    /// The lookup is shown, but not valid.
    is_ghost: bool,
    fill: Option<(Name, Line)>,
    /// The fill is foreign.
    is_foreign: bool,
    flush: bool,
}

/// What a way holds.
#[derive(Clone, Debug)]
struct Held {
    name: Name,
    line: Line,
    is_foreign: bool,
}

/// The reference.
struct Reference {
    config: Config,
    ways: Vec<Vec<Option<Held>>>,
    replacement: Plru,
    /// Fills that lookups do not see yet, with the cycle from which they do.
    fills: VecDeque<(u64, usize, usize, Held)>,
    /// Cycles and sets of the last fills that were entered.
    entered: VecDeque<(u64, usize)>,
    hits: u32,
    misses: u32,
    evictions: u32,
    overwritten: u32,
    dropped: u32,
    /// Lookups that would have found a foreign line.
    refused: u32,
}

impl Reference {
    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            ways: vec![vec![None; config.mpt_ways as usize]; config.mpt_sets as usize],
            replacement: Plru::new(config.mpt_sets, config.mpt_ways),
            fills: VecDeque::new(),
            entered: VecDeque::new(),
            hits: 0,
            misses: 0,
            evictions: 0,
            overwritten: 0,
            dropped: 0,
            refused: 0,
        }
    }

    fn clear(&mut self) {
        *self = Self::new(&self.config);
    }

    fn set(&self, name: Name) -> usize {
        (name.index % self.config.mpt_sets) as usize
    }

    /// Fills that lookups of that cycle see are entered.
    fn advance(&mut self, cycle: u64) {
        while self.fills.front().is_some_and(|fill| fill.0 <= cycle) {
            let (_, set, way, entry) = self.fills.pop_front().expect("there is one");
            self.ways[set][way] = Some(entry);
        }
    }

    /// The way that holds an entry, under whatever epochs.
    fn holding(&self, name: Name) -> Option<usize> {
        let ways = &self.ways[self.set(name)];
        let is_holding = |way: &usize| ways[*way].as_ref().is_some_and(|held| held.name.owner() == name.owner());
        let holding: Vec<_> = (0..ways.len()).filter(is_holding).collect();
        assert!(holding.len() <= 1, "{name:?} is held by ways {holding:?}");
        holding.first().copied()
    }

    /// The line that a lookup finds.
    fn look_up(&mut self, cycle: u64, name: Name) -> Option<Line> {
        self.advance(cycle);
        let set = self.set(name);
        let mut refused = 0;
        let found = self.holding(name).and_then(|way| {
            let held = self.ways[set][way].as_ref()?;
            let is_found = held.name.is_found_by(name, held.is_foreign);
            refused += u32::from(!is_found && held.name.is_found_by(name, false));
            is_found.then(|| (way, held.line.clone()))
        });
        self.refused += refused;
        if let Some((way, _)) = &found {
            self.replacement.note_hit(cycle + USE_CYCLES, set, *way);
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        found.map(|(_, line)| line)
    }

    /// Whether a fill is dropped.
    fn drops(&mut self, cycle: u64, name: Name) -> bool {
        self.entered.retain(|(entered, _)| entered + CLASH_CYCLES >= cycle);
        let set = self.set(name);
        self.entered.iter().any(|(_, other)| *other == set)
    }

    /// Enters a line. Gives whether another entry's is replaced.
    fn fill(&mut self, cycle: u64, name: Name, line: Line, is_foreign: bool) -> bool {
        self.advance(cycle);
        let set = self.set(name);
        if self.drops(cycle, name) {
            self.dropped += 1;
            return false;
        }
        self.entered.push_back((cycle, set));
        let way = self.holding(name).unwrap_or_else(|| self.replacement.victim(cycle, set));
        let replaced = self.ways[set][way].as_ref().map(|held| held.name.owner());
        let evicts = replaced.is_some_and(|owner| owner != name.owner());
        self.evictions += u32::from(evicts);
        self.overwritten += u32::from(replaced.is_some() && !evicts);
        self.fills.push_back((cycle + FILL_CYCLES, set, way, Held { name, line, is_foreign }));
        self.replacement.note_fill(cycle + USE_CYCLES, set, way);
        evicts
    }
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    inputs: Handle<LateInputs>,
    outputs: Handle<Outputs>,
    flush: Input,
    /// Names and widths of the ports that make a line.
    fields: Vec<(String, u32)>,
    reference: Reference,
    /// What lookups find, by the cycle of `found`; the same for those in which no lookup ends.
    found: BTreeMap<u64, Option<Line>>,
    /// Lines by the cycle in which they come.
    lines: BTreeMap<u64, Line>,
    /// Cycles in which `evicted` pulses.
    evicted: VecDeque<u64>,
    /// Cycles, from now on, for which the tags are scrubbed.
    scrub_cycles: u64,
}

impl Rig {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let config = design.config().expect("the cache is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let inputs = LateInputs::drive(&mut bench, |name| {
            ["early_index", "late_epoch"].contains(&name) || name.starts_with("lookup_") || name.starts_with("fill_")
        })?;
        let outputs = Outputs::watch(&mut bench, |name| {
            ["ready", "found", "page_shift", "evicted"].contains(&name) || name.starts_with("line_")
        })?;
        let fields = bench[inputs].ports().filter_map(|(name, width)| Some((name.strip_prefix("fill_")?, width)));
        let fields = fields.filter(|(name, _)| name.starts_with("line_") || *name == "page_shift");
        let fields = fields.map(|(name, width)| (name.to_owned(), width)).collect();
        let mut rig = Self {
            random: bench.random(),
            inputs,
            outputs,
            flush: bench.model().input("flush")?,
            bench,
            reference: Reference::new(&config),
            config,
            fields,
            found: BTreeMap::new(),
            lines: BTreeMap::new(),
            evicted: VecDeque::new(),
            scrub_cycles: 0,
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.bench.model_mut().set(self.flush, 0);
        self.bench.reset(3)?;
        (self.found, self.lines, self.evicted) = Default::default();
        self.reference.clear();
        self.scrub_cycles = self.config.mpt_sets.into();
        self.wait_for_scrub()
    }

    fn wait_for_scrub(&mut self) -> Result<(), Error> {
        self.idle(self.scrub_cycles + 1)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.cycle(Step { flush: true, ..Step::default() })?;
        self.wait_for_scrub()
    }

    fn random_line(&mut self) -> Line {
        let random = &mut self.random;
        let value = |width: u32| u128::from(random.next_u64() & bits::max(width));
        let widths = self.fields.iter().map(|(_, width)| *width);
        self.fields.iter().map(|(name, _)| name.clone()).zip(widths.map(value)).collect()
    }

    /// One cycle; checks every output.
    fn cycle(&mut self, step: Step) -> Result<(), Error> {
        let now = self.bench.cycles();
        let is_scrubbed = self.scrub_cycles > 0;
        if step.flush {
            self.reference.clear();
        }
        let is_lost = is_scrubbed || step.flush;
        if let Some(name) = step.lookup {
            // A replay brings the epochs of its buckets, a new request finds them beside; the other of the two is zero.
            let is_replay = self.random.random();
            let late = name.epoch & ((1 << LATE_EPOCH_BITS) - 1);
            let (brought, beside) = if is_replay { (late, 0) } else { (0, late) };
            let fields = [
                ("lookup_valid", u64::from(!step.is_ghost)),
                ("lookup_table_set", name.table_set.into()),
                ("lookup_index", name.index.into()),
                ("lookup_epoch", name.epoch >> LATE_EPOCH_BITS << LATE_EPOCH_BITS | brought),
                ("late_epoch", beside),
            ];
            let inputs = self.inputs;
            self.bench[inputs].push(now, [("early_index".into(), name.index.into())]);
            let fields = fields.map(|(field, value)| (field.to_owned(), value.into()));
            self.bench[inputs].push(now + LOOKUP_CYCLES, fields);
            if !step.is_ghost {
                let line = if is_lost { None } else { self.reference.look_up(now, name) };
                self.found.insert(now + FOUND_CYCLES, line);
            }
        }
        if let Some((name, line)) = step.fill {
            let fields = [
                ("fill_valid", 1),
                ("fill_table_set", name.table_set.into()),
                ("fill_index", name.index.into()),
                ("fill_epoch", name.epoch),
                ("fill_is_foreign", step.is_foreign.into()),
            ];
            let inputs = self.inputs;
            self.bench[inputs].push(now, fields.map(|(field, value)| (field.to_owned(), value.into())));
            for (field, value) in &line {
                let cycles = if field == "page_shift" { FILL_SHIFT_CYCLES } else { FILL_LINE_CYCLES };
                self.bench[inputs].push(now + cycles, [(format!("fill_{field}"), *value)]);
            }
            if !is_lost && self.reference.fill(now, name, line, step.is_foreign) {
                self.evicted.push_back(now + EVICTED_CYCLES);
            }
        }
        self.bench.model_mut().set(self.flush, step.flush.into());
        self.bench.cycle()?;

        let outputs = &self.bench[self.outputs];
        assert_eq!(outputs.get("ready") == 1, !is_scrubbed, "ready in cycle {now}");
        let is_evicted = self.evicted.front() == Some(&now);
        if is_evicted {
            self.evicted.pop_front();
        }
        assert_eq!(outputs.get("evicted") == 1, is_evicted, "evicted in cycle {now}");
        let line = self.found.remove(&now).flatten();
        assert_eq!(outputs.get("found") == 1, line.is_some(), "found in cycle {now}");
        if let Some(line) = line {
            assert_eq!(outputs.get("page_shift"), line["page_shift"], "page_shift in cycle {now}");
            self.lines.insert(now + LINE_CYCLES - FOUND_CYCLES, line);
        }
        for (field, value) in self.lines.remove(&now).iter().flatten().filter(|(field, _)| *field != "page_shift") {
            assert_eq!(outputs.get(field), *value, "{field} in cycle {now}");
        }
        self.scrub_cycles = if step.flush { self.config.mpt_sets.into() } else { self.scrub_cycles.saturating_sub(1) };
        Ok(())
    }

    fn idle(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle(Step::default()))
    }

    /// One cycle with a lookup.
    fn look_up(&mut self, name: Name) -> Result<Option<Line>, Error> {
        let due = self.bench.cycles() + FOUND_CYCLES;
        self.cycle(Step { lookup: Some(name), ..Step::default() })?;
        Ok(self.found[&due].clone())
    }

    /// One cycle with a fill. Gives the line.
    fn fill(&mut self, name: Name) -> Result<Line, Error> {
        let line = self.random_line();
        self.cycle(Step { fill: Some((name, line.clone())), ..Step::default() })?;
        Ok(line)
    }

    /// Fills a line, and waits until everything knows of it.
    fn fill_alone(&mut self, name: Name) -> Result<Line, Error> {
        let line = self.fill(name)?;
        self.idle(SETTLED_CYCLES)?;
        Ok(line)
    }

    /// Looks a name up, alone.
    fn look_up_alone(&mut self, name: Name) -> Result<Option<Line>, Error> {
        let line = self.look_up(name)?;
        self.idle(SETTLED_CYCLES)?;
        Ok(line)
    }

    /// A name in that set.
    fn name_in(&mut self, set: u32) -> Name {
        let above: u32 = self.random.random_range(0..1 << (INDEX_BITS - self.config.mpt_set_bits()));
        let table_set = self.random.random_range(0..1 << self.config.table_set_bits());
        let epoch = self.random.random_range(0..1 << EPOCH_BITS);
        Name { table_set, index: above << self.config.mpt_set_bits() | set, epoch }
    }

    /// Names of distinct entries in that set, among them some that differ in one bit.
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
            if names.iter().all(|other| other.owner() != name.owner()) {
                names.push(name);
            }
        }
        names
    }

    /// A set of names for every way of every set, those of one set far enough from each other to be filled in a row.
    fn names_of_all_ways(&mut self) -> Vec<Name> {
        let ways = self.config.mpt_ways as usize;
        let sets: Vec<_> = (0..self.config.mpt_sets).map(|set| self.names_in(set, ways)).collect();
        (0..ways).flat_map(|way| sets.iter().map(move |names| names[way])).collect()
    }
}

#[test]
fn every_line_is_found_again_with_a_lookup_and_a_fill_in_every_cycle() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 1)?;
        let names = rig.names_of_all_ways();
        // Two sets take turns too fast for their fills.
        let gap_cycles = if rig.config.mpt_sets > 2 { 0 } else { CLASH_CYCLES };
        for name in &names {
            rig.fill(*name)?;
            rig.idle(gap_cycles)?;
        }
        rig.idle(SETTLED_CYCLES)?;
        // Each is filled again after it was looked up.
        let start = rig.bench.cycles();
        for position in 0..names.len() + 4 {
            let line = rig.random_line();
            let filled = position.checked_sub(4).map(|position| (names[position], line));
            let fill = filled.filter(|_| gap_cycles == 0 || position % 3 == 0);
            rig.cycle(Step { lookup: names.get(position).copied(), fill, ..Step::default() })?;
        }
        for name in &names {
            assert!(rig.look_up(*name)?.is_some(), "{name:?}");
        }
        assert_eq!(rig.bench.cycles() - start, 2 * names.len() as u64 + 4);
        rig.idle(SETTLED_CYCLES)?;
        let reference = &rig.reference;
        assert_eq!((reference.hits as usize, reference.misses, reference.dropped), (2 * names.len(), 0, 0));
        assert!(gap_cycles > 0 || reference.overwritten as usize == names.len());
        Ok(())
    })
}

#[test]
fn of_pds_the_epoch_of_the_bucket_counts_or_that_of_all() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 9)?;
        let name = rig.name_in(0);
        for is_foreign in [false, true] {
            let line = rig.random_line();
            rig.cycle(Step { fill: Some((name, line.clone())), is_foreign, ..Step::default() })?;
            rig.idle(SETTLED_CYCLES)?;
            let mut find = |changes: u64| rig.look_up_alone(Name { epoch: name.epoch ^ changes, ..name });
            let any = Some(line);
            let of_bucket = any.clone().filter(|_| !is_foreign);
            for bit in (0..EPOCH_BITS).map(|bit| 1 << bit) {
                let expected = match bit {
                    _ if bit & ANY_PD_EPOCH != 0 => &of_bucket,
                    _ if bit & PD_EPOCH != 0 => &any,
                    _ => &None,
                };
                assert_eq!(&find(bit)?, expected, "epochs that differ in {bit:x}");
            }
            for bit in (0..EPOCH_BITS).map(|bit| 1 << bit).filter(|bit| bit & PD_EPOCH != 0) {
                assert_eq!(find(bit | 1 << 29)?, None, "epochs of PDs that differ in {bit:x} and of all PDs");
            }
            assert_eq!(find(0)?, any);
        }
        Ok(())
    })
}

#[test]
fn random_lookups_and_fills() -> Result<(), Error> {
    DESIGNS.into_iter().enumerate().try_for_each(|(case, design)| {
        let mut rig = Rig::new(design, 10 + case as u64)?;
        let [mut hits, mut misses, mut evictions, mut overwritten, mut dropped, mut refused] = [0; 6];
        for phase in 0..12 {
            let ways = rig.config.mpt_ways as usize;
            let mut names = rig.names_in(0, ways + 2);
            names.extend(rig.names_in(rig.config.mpt_sets - 1, ways + 1 + phase % 3));
            // Some under other epochs.
            for position in 0..4 {
                // Half of them those of PDs.
                let low = if position % 2 == 0 { 0 } else { EPOCH_BITS - 8 };
                let bit = rig.random.random_range(low..EPOCH_BITS);
                let Name { table_set, index, epoch } = names[position];
                names.push(Name { table_set, index, epoch: epoch ^ 1 << bit });
            }
            let lookup_percent = [100, 100, 60, 20][phase % 4];
            let fill_percent = [50, 15, 85][phase % 3];
            for _ in 0..3000 {
                let lookup = names[rig.random.random_range(0..names.len())];
                let fill = (names[rig.random.random_range(0..names.len())], rig.random_line());
                let random = &mut rig.random;
                let mut chance = |percent: u32| random.random_range(0..100) < percent;
                let lookup = chance(lookup_percent).then_some(lookup);
                let fill = chance(fill_percent).then_some(fill);
                let is_foreign = chance([0, 30, 100, 5][phase % 4]);
                rig.cycle(Step { lookup, fill, is_foreign, ..Step::default() })?;
            }
            let reference = &rig.reference;
            refused += reference.refused;
            hits += reference.hits;
            misses += reference.misses;
            evictions += reference.evictions;
            overwritten += reference.overwritten;
            dropped += reference.dropped;
            if phase % 2 == 0 {
                rig.flush()?;
            } else {
                rig.reset()?;
            }
        }
        println!(
            "{}: {hits} hits, {misses} misses; fills: {evictions} evict, {overwritten} overwrite, {dropped} dropped",
            design.name
        );
        assert!(refused > 100, "{refused} lookups were refused a foreign line");
        assert!(hits > 2000 && misses > 2000 && evictions > 2000 && overwritten > 500 && dropped > 2000);
        Ok(())
    })
}

#[test]
fn a_lookup_around_a_fill_sees_the_old_line_or_the_new_one_whole() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 2)?;
        for offset in -5i64..=6 {
            for wants_new in [false, true] {
                // Another entry, or the same one under other epochs, or the same one once more.
                for kind in 0..3 {
                    rig.flush()?;
                    let names = rig.names_in(1, rig.config.mpt_ways as usize + 1);
                    let (other, old) = names.split_last().expect("there are names");
                    let mut old_line = None;
                    for name in old {
                        let line = rig.fill_alone(*name)?;
                        old_line.get_or_insert(line);
                    }
                    // The set is full: the first one filled is replaced.
                    let new = match kind {
                        0 => *other,
                        1 => Name { epoch: old[0].epoch ^ 1, ..old[0] },
                        _ => old[0],
                    };
                    let wanted = if wants_new { new } else { old[0] };
                    let new_line = rig.random_line();
                    let mut due = 0;
                    for cycle in -5..=6 {
                        let lookup = (cycle == offset).then_some(wanted);
                        due = if cycle == offset { rig.bench.cycles() + FOUND_CYCLES } else { due };
                        let fill = (cycle == 0).then(|| (new, new_line.clone()));
                        rig.cycle(Step { lookup, fill, ..Step::default() })?;
                        // Of what is found the reference knows when it is looked up.
                        if cycle != offset {
                            continue;
                        }
                        let sees_fill = offset >= FILL_CYCLES.cast_signed();
                        let seen = if sees_fill { (new, Some(&new_line)) } else { (old[0], old_line.as_ref()) };
                        let expected = if seen.0 == wanted { seen.1 } else { None };
                        assert_eq!(rig.found[&due].as_ref(), expected, "{offset} cycles after the fill, kind {kind}");
                    }
                    rig.idle(SETTLED_CYCLES)?;
                }
            }
        }
        Ok(())
    })
}

#[test]
fn an_entry_is_found_under_its_own_epochs_only() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 8)?;
        for set in [0, rig.config.mpt_sets - 1] {
            let name = rig.name_in(set);
            let mut line = rig.fill_alone(name)?;
            for bit in (0..EPOCH_BITS).filter(|bit| (PD_EPOCH | ANY_PD_EPOCH) >> bit & 1 == 0) {
                assert_eq!(rig.look_up_alone(Name { epoch: name.epoch ^ 1 << bit, ..name })?, None, "bit {bit}");
            }
            assert_eq!(rig.look_up_alone(name)?, Some(line));
            // Under other epochs it takes the same place.
            let mut held = name;
            for bit in (0..EPOCH_BITS).filter(|bit| (PD_EPOCH | ANY_PD_EPOCH) >> bit & 1 == 0) {
                let newer = Name { epoch: held.epoch ^ 1 << bit, ..held };
                line = rig.fill_alone(newer)?;
                assert_eq!(rig.look_up_alone(held)?, None, "bit {bit}");
                assert_eq!(rig.look_up_alone(newer)?, Some(line), "bit {bit}");
                held = newer;
            }
        }
        assert_eq!(rig.reference.evictions, 0);
        Ok(())
    })
}

#[test]
fn every_bit_of_the_owner_counts() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 9)?;
        let name = rig.name_in(0);
        let line = rig.fill_alone(name)?;
        for bit in 0..INDEX_BITS {
            assert_eq!(rig.look_up_alone(Name { index: name.index ^ 1 << bit, ..name })?, None, "bit {bit}");
        }
        for bit in 0..rig.config.table_set_bits() {
            assert_eq!(rig.look_up_alone(Name { table_set: name.table_set ^ 1 << bit, ..name })?, None, "bit {bit}");
        }
        assert_eq!(rig.look_up_alone(name)?, Some(line));
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
                for changes_epoch in [false, true] {
                    rig.flush()?;
                    let names = rig.names_in(0, ways);
                    let mut held = names[0];
                    let mut line = rig.fill(held)?;
                    let mut last = rig.bench.cycles() - 1;
                    for _ in 1..fills {
                        rig.idle(gap - 1)?;
                        let name = Name { epoch: held.epoch ^ u64::from(changes_epoch), ..held };
                        let now = rig.bench.cycles();
                        let newer = rig.fill(name)?;
                        if now - last > CLASH_CYCLES {
                            (held, line, last) = (name, newer, now);
                        }
                    }
                    rig.idle(SETTLED_CYCLES)?;
                    // Were it in two ways, the others would not all find a place.
                    for name in &names[1..] {
                        rig.fill_alone(*name)?;
                    }
                    for name in &names[1..] {
                        assert!(rig.look_up_alone(*name)?.is_some(), "{name:?} with gap {gap}");
                    }
                    assert_eq!(rig.look_up_alone(held)?, Some(line), "gap {gap}");
                    assert_eq!(rig.reference.evictions, 0, "gap {gap}");
                }
            }
        }
        Ok(())
    })
}

#[test]
fn a_fill_of_the_same_set_one_or_two_cycles_later_is_dropped() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4)?;
        for gap in 1..=4 {
            for set in 0..2 {
                rig.flush()?;
                let [first, second, third] = [0, set, 0].map(|set| rig.name_in(set));
                let line = rig.fill(first)?;
                rig.idle(gap - 1)?;
                let other = rig.fill(second)?;
                rig.idle(SETTLED_CYCLES)?;
                let is_kept = set == 1 || gap > CLASH_CYCLES;
                assert_eq!(rig.look_up_alone(second)?, is_kept.then_some(other), "gap {gap}");
                let holds_both = set == 1 || rig.config.mpt_ways > 1;
                let first_line = (!is_kept || holds_both).then_some(line);
                assert_eq!(rig.look_up_alone(first)?, first_line, "gap {gap}");
                // A fill that was dropped makes no other one drop.
                rig.flush()?;
                rig.fill(first)?;
                rig.idle(1)?;
                rig.fill(second)?;
                let line = rig.fill(third)?;
                rig.idle(SETTLED_CYCLES)?;
                assert_eq!(rig.look_up_alone(third)?, Some(line));
            }
        }
        Ok(())
    })
}

#[test]
fn the_least_recently_used_half_is_replaced() -> Result<(), Error> {
    for design in [&dut::MPT_CACHE, &dut::MPT_CACHE_DEFAULT] {
        let mut rig = Rig::new(design, 6)?;
        let ways = rig.config.mpt_ways as usize;
        // A lookup, or one that is not valid, which is no use.
        for is_ghost in [false, true] {
            for reused in 0..ways {
                rig.flush()?;
                let names = rig.names_in(1, ways + 1);
                for name in &names[..ways] {
                    rig.fill_alone(*name)?;
                }
                // Fills alternate between the halves: 0 and 2 are in one, 1 and 3 in the other.
                rig.cycle(Step { lookup: Some(names[reused]), is_ghost, ..Step::default() })?;
                rig.idle(SETTLED_CYCLES)?;
                rig.fill_alone(names[ways])?;
                let replaced = match (ways, reused) {
                    _ if is_ghost => 0,
                    (2, _) => 1 - reused,
                    (_, 0 | 2) => 1,
                    _ => 0,
                };
                for (number, name) in names.iter().enumerate() {
                    let is_held = rig.look_up_alone(*name)?.is_some();
                    assert_eq!(is_held, number != replaced, "name {number} after a use of name {reused}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn of_a_hit_and_a_fill_in_one_cycle_the_hit_counts_as_use() -> Result<(), Error> {
    let mut rig = Rig::new(&dut::MPT_CACHE, 11)?;
    for offset in -2i64..=2 {
        rig.flush()?;
        let [first, second, third, elsewhere] = {
            let names = rig.names_in(0, 3);
            [names[0], names[1], names[2], rig.name_in(1)]
        };
        rig.fill_alone(elsewhere)?;
        rig.fill_alone(first)?;
        // The fill of the second, with a hit in another set around it.
        let line = rig.random_line();
        for cycle in -2..=2 {
            let lookup = (cycle == offset).then_some(elsewhere);
            let fill = (cycle == 0).then(|| (second, line.clone()));
            rig.cycle(Step { lookup, fill, ..Step::default() })?;
        }
        rig.idle(SETTLED_CYCLES)?;
        rig.fill_alone(third)?;
        // Where the fill's use is not noted, its own line is the one to go.
        let is_second_held = rig.look_up_alone(second)?.is_some();
        assert_eq!(is_second_held, offset != 0, "hit {offset} cycles after the fill");
    }
    Ok(())
}

#[test]
fn flush_and_reset_empty_every_way() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 7)?;
        for round in 0..6 {
            let names = rig.names_of_all_ways();
            // With fills under way to the last.
            for name in names.iter().chain(names.iter().rev()) {
                rig.fill(*name)?;
            }
            rig.idle(round / 2)?;
            if round % 2 == 0 {
                rig.flush()?;
            } else {
                rig.reset()?;
            }
            for name in &names {
                assert!(rig.look_up(*name)?.is_none());
            }
            rig.idle(SETTLED_CYCLES)?;
            assert!(rig.found.is_empty());
        }
        Ok(())
    })
}

#[test]
fn nothing_is_found_or_entered_from_the_flush_until_ready() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 12)?;
        let sets = u64::from(rig.config.mpt_sets);
        // In the cycle of the flush, in the first and last ones of the scrub, and around them.
        let mut offsets: Vec<_> = (0..=3).chain(sets - 1..=sets + 2).collect();
        offsets.dedup();
        for set in [0, rig.config.mpt_sets - 1] {
            for offset in &offsets {
                let names = rig.names_in(set, 2);
                rig.fill_alone(names[0])?;
                assert!(rig.look_up_alone(names[0])?.is_some());
                let line = rig.random_line();
                for cycle in 0..=sets + 2 {
                    // `cycle` checks that the lookup misses. Before the flush has begun it would hit.
                    let is_due = cycle == *offset;
                    rig.cycle(Step {
                        lookup: is_due.then_some(names[0]),
                        fill: is_due.then(|| (names[1], line.clone())),
                        flush: cycle == 0,
                        ..Step::default()
                    })?;
                }
                rig.idle(SETTLED_CYCLES)?;
                let is_entered = *offset > sets;
                let kept = rig.look_up_alone(names[1])?;
                assert_eq!(kept, is_entered.then_some(line), "{offset} cycles after the flush");
                assert!(rig.look_up_alone(names[0])?.is_none());
                rig.flush()?;
            }
        }
        Ok(())
    })
}
