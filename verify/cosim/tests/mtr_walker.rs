//! The page-table walker against a walk in plain integers, with a table port that answers late, out of order and with
//! errors. What it enters into the TLB is seen on a port; what it enters into its caches shows in the reads that later
//! walks save.

#[path = "common/late_inputs.rs"]
mod late_inputs;
#[path = "common/line_requests.rs"]
mod line_requests;
#[path = "common/plru.rs"]
mod plru;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use keywalk_contract::{Config, Status};
use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use late_inputs::LateInputs;
use line_requests::{LineRequest, LineRequests};
use plru::Plru;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Register bits that the walker obeys.
#[derive(Clone, Copy, Debug)]
struct Controls {
    zero_entry_literal: bool,
    alignment_check: bool,
}

impl Controls {
    const RESET: Self = Self { zero_entry_literal: false, alignment_check: true };
    const ALL: [Self; 4] = [
        Self { zero_entry_literal: false, alignment_check: false },
        Self { zero_entry_literal: false, alignment_check: true },
        Self { zero_entry_literal: true, alignment_check: false },
        Self { zero_entry_literal: true, alignment_check: true },
    ];
}

/// Memory in which every word has a value, planted or else a hash of its address.
#[derive(Default)]
struct Memory {
    words: HashMap<u64, u64>,
    /// Addresses >> 4 of the 16 bytes whose read fails.
    failing: HashSet<u64>,
}

impl Memory {
    /// Whether a line comes for the request that issued its read, or for one that joined it: fixed for each line.
    fn is_first(address: u64) -> bool {
        (address >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 != 0
    }

    fn word(&self, address: u64) -> u64 {
        self.words.get(&address).copied().unwrap_or_else(|| (address ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Whose table it is: what caches tell tables apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Owner {
    table_set: u8,
    mpt_index: u32,
    /// The low 29 bits of the epoch.
    epoch: u32,
}

/// A page entered into the TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Fill {
    owner: Owner,
    virtual_page: u32,
    page: u64,
}

/// What is to be entered of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fills {
    /// The page that the walk asked for, where it may be entered.
    wanted: Option<Fill>,
    /// The pages beside it, in order of address.
    beside: Vec<Fill>,
}

/// What a walk depends on; everything else in the request goes through.
#[derive(Clone, Copy, Debug)]
struct Walk {
    owner: Owner,
    is_context: bool,
    virtual_page: u32,
    root: u64,
    hop: u8,
    ba_pg_sz: u8,
    index: u32,
    check_index: bool,
    count: u32,
    offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    status: Status,
    hop: u8,
    page: u64,
    address: u64,
    /// Of every read how many follow it, and its address.
    reads: Vec<(u8, u64)>,
}

impl Walk {
    /// A walk that caches have no part in, as there are no pages by its count.
    fn plain(hop: u8, root: u64, index: u32) -> Self {
        let owner = Owner { table_set: 0, mpt_index: 0, epoch: 0 };
        let (is_context, virtual_page) = (false, 0);
        let (ba_pg_sz, check_index, count, offset) = (0, false, 0, 0);
        Self { owner, is_context, virtual_page, root, hop, ba_pg_sz, index, check_index, count, offset }
    }

    fn table_entries(&self) -> u64 {
        (4096 << self.ba_pg_sz) / 8
    }

    fn outcome(&self, memory: &Memory, controls: Controls) -> Outcome {
        let mut reads = Vec::new();
        let (status, hop, page) = match self.page(memory, controls, &mut reads) {
            Ok(page) => (Status::Ok, 0, page),
            Err((status, hop)) => (status, hop, 0),
        };
        let address = if status == Status::Ok { page.wrapping_add(self.offset) } else { 0 };
        Outcome { status, hop, page, address, reads }
    }

    fn page(&self, memory: &Memory, controls: Controls, reads: &mut Vec<(u8, u64)>) -> Result<u64, (Status, u8)> {
        if self.check_index && self.index >= self.count {
            return Err((Status::MtrIndex, 0));
        }
        if !self.root.is_multiple_of(8) {
            return Err((Status::MtrMisaligned, 0));
        }
        if self.root == 0 && !controls.zero_entry_literal {
            return Err((Status::MtrNotPresent, 0));
        }
        let alignment = if controls.alignment_check { 4096 << self.ba_pg_sz } else { 8 };
        let entries = u128::from(self.table_entries());
        let mut entry = self.root;
        for read in 0..self.hop {
            let number = u128::from(self.index) / entries.pow(u32::from(self.hop - 1 - read));
            let position = if read == 0 { number } else { number % entries };
            if read > 0 && !entry.is_multiple_of(alignment) {
                return Err((Status::MtrMisaligned, read));
            }
            let address = entry.wrapping_add(position as u64 * 8);
            reads.push((self.hop - 1 - read, address));
            if memory.failing.contains(&(address >> 4)) {
                return Err((Status::MtrBusError, read));
            }
            entry = memory.word(address);
            if entry == 0 && !controls.zero_entry_literal {
                return Err((Status::MtrNotPresent, read));
            }
        }
        Ok(entry)
    }

    /// Pages that are entered into the TLB for this walk, if its line of pages is the first one's or all lines are.
    fn fills(&self, memory: &Memory, controls: Controls, is_first: impl Fn(u64) -> bool) -> Fills {
        let outcome = self.outcome(memory, controls);
        if self.is_context || self.index >= self.count || outcome.status != Status::Ok {
            return Fills::default();
        }
        let enter = |distance: i64, page: u64| {
            let virtual_page = self.virtual_page.wrapping_add(distance as u32);
            let is_good = page != 0 && page.is_multiple_of(4096);
            is_good.then_some(Fill { owner: self.owner, virtual_page, page: page >> 12 })
        };
        let wanted = enter(0, outcome.page);
        // Where nothing is read, nothing is entered.
        let Some(&(_, address)) = outcome.reads.last() else { return Fills::default() };
        let word = address as i64 >> 3 & 7;
        let is_aligned = i64::from(self.index) & 7 == word;
        let beside = (0..8i64).filter_map(|other| {
            let distance = other - word;
            let index = i64::from(self.index) + distance;
            let is_inside = (0..i64::from(self.count)).contains(&index) && (self.hop == 1 || is_aligned);
            let other_address = address & !63 | (other as u64) << 3;
            let is_failing = memory.failing.contains(&(other_address >> 4));
            let is_filled = distance != 0 && is_inside && !is_failing && is_first(address);
            is_filled.then(|| enter(distance, memory.word(other_address))).flatten()
        });
        Fills { wanted, beside: beside.collect() }
    }

    /// Plants the entry that read number `read` returns, where the walk gets that far.
    fn plant(&self, memory: &mut Memory, controls: Controls, read: usize, value: u64) {
        if let Some(&(_, address)) = self.outcome(memory, controls).reads.get(read) {
            memory.words.insert(address, value);
        }
    }

    fn random(random: &mut ChaCha8Rng) -> Self {
        let ba_pg_sz = random.random_range(0..16);
        let entries = (4096u64 << ba_pg_sz) / 8;
        let near = match random.random_range(0..8) {
            0 => entries,
            1 => entries * entries,
            2 => entries * random.random_range(0..=u64::from(u32::MAX) / entries),
            3 => 0,
            _ => random.random_range(0..1 << 32),
        };
        let index = near.wrapping_add_signed(random.random_range(-2..3)).min(u64::from(u32::MAX)) as u32;
        let root = match random.random_range(0..16) {
            0 => 0,
            1 => random.next_u64() | random.random_range(1..8),
            2 => u64::MAX - 7 - 8 * random.random_range(0..1000),
            3 => 8 * random.random_range(0..1000),
            _ => random.next_u64() & !7,
        };
        let count = match random.random_range(0..8) {
            0 => index,
            1 => index.saturating_add(1),
            2 => index.saturating_sub(1),
            3 => random.next_u32(),
            _ => u32::MAX,
        };
        let check_index = random.random_range(0..2) == 0;
        let owner = Owner::random(random);
        let (is_context, virtual_page) = (random.random_range(0..4) == 0, random.next_u32());
        let hop = random.random_range(0..4);
        // Where there is a leaf the offset is within its page.
        let offset = match random.random_range(0..4) {
            0 if hop == 0 => random.next_u64(),
            _ => random.random_range(0..1 << 30),
        };
        Self { owner, is_context, virtual_page, root, hop, ba_pg_sz, index, check_index, count, offset }
    }

    /// Fills the tables of a walk, seldom so that it fails.
    fn plant_randomly(&self, memory: &mut Memory, controls: Controls, random: &mut ChaCha8Rng) {
        for read in 0..usize::from(self.hop) {
            let any = random.next_u64();
            let is_leaf = read + 1 == usize::from(self.hop);
            let value = match random.random_range(0..16) {
                0 => 0,
                1 => any & !7,
                2 => any & !4095,
                3 => any & !((4096 << self.ba_pg_sz) - 1) | 1 << random.random_range(0..12 + self.ba_pg_sz),
                4 if is_leaf => u64::MAX - (any & 0xffff),
                5 if is_leaf => any,
                _ if is_leaf => any & !4095,
                _ => any & !((4096 << self.ba_pg_sz) - 1),
            };
            self.plant(memory, controls, read, value);
            if let Some(&(_, address)) = self.outcome(memory, controls).reads.get(read) {
                for word in 0..8 {
                    // Seldom what no walk may be given.
                    let value = match random.random_range(0..8) {
                        0 => 0,
                        1 => random.next_u64(),
                        2 => random.next_u64() & !4095 | 1 << random.random_range(0..12),
                        _ => random.next_u64() & !4095,
                    };
                    memory.words.entry(address & !63 | word << 3).or_insert(value);
                    if random.random_range(0..32) == 0 && word >> 1 != address >> 4 & 3 {
                        memory.failing.insert((address & !63 | word << 3) >> 4);
                    }
                }
            }
            if random.random_range(0..24) == 0
                && let Some(&(_, address)) = self.outcome(memory, controls).reads.get(read)
            {
                memory.failing.insert(address >> 4);
            }
        }
    }
}

impl Owner {
    fn random(random: &mut ChaCha8Rng) -> Self {
        Self { table_set: 0, mpt_index: random.random_range(0..1 << 24), epoch: random.random_range(0..1 << 29) }
    }
}

/// The request of a walk, by field.
type Fields = BTreeMap<&'static str, u128>;

/// What a walk begins with, with a field of the page in the epoch.
const START_FIELDS: [&str; 10] =
    ["is_context", "table_set", "mpt_index", "epoch", "root", "hop", "ba_pg_sz", "index", "check_index", "count"];
/// Cycles from the beginning of a walk to its offset, and to everything else, which says that there is one.
const OFFSET_CYCLES: u64 = 1;
const WALK_CYCLES: u64 = 2;

/// Pulses that are counted.
const PULSES: [&str; 9] = [
    "lower_hit",
    "lower_miss",
    "lower_evicted",
    "upper_hit",
    "upper_miss",
    "upper_evicted",
    "read_issued_0",
    "read_issued_1",
    "read_issued_2",
];

/// The walker with its surroundings.
struct Rig {
    bench: Bench,
    config: Config,
    random: ChaCha8Rng,
    walks: Handle<LateInputs>,
    /// Of 100 cycles in which a walk waits for the walker, those in which none begins.
    walk_stall_percent: u32,
    /// Walks that were accepted, the cycles in which others will be, and those in which walks began.
    accepted: u64,
    accepting: VecDeque<u64>,
    began: VecDeque<u64>,
    results: Handle<StreamSink>,
    line_requests: Handle<LineRequests>,
    lines: Handle<StreamDriver>,
    early_valid: Input,
    early_context: Input,
    /// Of 100 cycles in which a line is due, those without one.
    line_stall_percent: u32,
    fills: Handle<StreamSink>,
    ready: Output,
    caches_ready: Output,
    idle: Output,
    flush: Input,
    pulses: Vec<(&'static str, Output)>,
    /// Pulses so far.
    counts: BTreeMap<&'static str, u64>,
    /// Pages entered into the TLB so far, with their cycles.
    filled: Vec<(u64, Fill)>,
    /// Caches may save reads.
    may_save_reads: bool,
    memory: Memory,
    controls: Controls,
    /// Cycles between the transfer of a read and the earliest line.
    latency_cycles: std::ops::Range<u64>,
    /// The table port gives no line.
    is_holding: bool,
    /// Reads with the cycle from which they may be answered.
    reads: Vec<(u64, LineRequest)>,
    /// Level and address of every read so far.
    reads_seen: Vec<(u8, u64)>,
    /// Requests given to the walker, by `va`, with what is to come out.
    expected: HashMap<u128, (Fields, Outcome)>,
    next_va: u128,
    received: u64,
    /// Walks that wait until the walker has a context for them.
    waiting: VecDeque<Fields>,
    /// Walks under way that have a context.
    in_flight: u64,
    /// Cycles in which contexts were given back that are not to be used yet.
    returned: VecDeque<u64>,
}

/// Cycles from a result until the next walk may use its context.
const RETURN_CYCLES: u64 = 2;

impl Rig {
    fn new(design: &'static Dut, seed: u64, controls: Controls, stalls: Stalls) -> Result<Self, Error> {
        let config = design.config().expect("the walker is generated from a configuration");
        let mut bench = Bench::new(design, seed);
        let mut rig = Self {
            walks: LateInputs::drive(&mut bench, |name| name.starts_with("start_") || name.starts_with("walk_"))?,
            walk_stall_percent: stalls.walks_percent,
            accepted: 0,
            accepting: VecDeque::new(),
            began: VecDeque::new(),
            results: bench.sink("result", Stall::NEVER)?,
            line_requests: LineRequests::take(&mut bench, stalls.requests_percent)?,
            lines: bench.driver("line", Stall::NEVER)?,
            early_valid: bench.model().input("early_valid")?,
            early_context: bench.model().input("early_context")?,
            line_stall_percent: stalls.lines_percent,
            fills: bench.sink("fill", Stall::NEVER)?,
            ready: bench.model().output("ready")?,
            caches_ready: bench.model().output("caches_ready")?,
            flush: bench.model().input("flush")?,
            pulses: PULSES
                .into_iter()
                .map(|name| Ok((name, bench.model().output(name)?)))
                .collect::<Result<_, Error>>()?,
            counts: BTreeMap::new(),
            filled: Vec::new(),
            may_save_reads: false,
            idle: bench.model().output("idle")?,
            random: bench.random(),
            bench,
            config,
            memory: Memory::default(),
            controls,
            latency_cycles: 0..1,
            is_holding: false,
            reads: Vec::new(),
            reads_seen: Vec::new(),
            expected: HashMap::new(),
            next_va: 0,
            received: 0,
            waiting: VecDeque::new(),
            in_flight: 0,
            returned: VecDeque::new(),
        };
        for (name, value) in
            [("zero_entry_literal", controls.zero_entry_literal), ("alignment_check", controls.alignment_check)]
        {
            let input: Input = rig.bench.model().input(name)?;
            rig.bench.model_mut().set(input, value.into());
        }
        rig.reset()?;
        Ok(rig)
    }

    /// Resets the walker and everything around it, and waits until it is ready.
    fn reset(&mut self) -> Result<(), Error> {
        self.reads.clear();
        self.reads_seen.clear();
        self.expected.clear();
        self.waiting.clear();
        self.returned.clear();
        self.in_flight = 0;
        self.counts.clear();
        self.filled.clear();
        self.bench.reset(3)?;
        self.began.clear();
        self.accepting.clear();
        (self.accepted, self.received) = (0, 0);
        let (ready, caches_ready) = (self.ready, self.caches_ready);
        let sets = self.config.mtr_lower_sets.max(self.config.mtr_upper_sets);
        let limit_cycles = u64::from(self.config.walk_contexts.max(sets)) + 10;
        self.bench.run_until("ready", limit_cycles, |bench| {
            bench.model().get(ready) == 1 && bench.model().get(caches_ready) == 1
        })
    }

    /// Empties the caches.
    fn flush(&mut self) -> Result<(), Error> {
        let flush = self.flush;
        self.bench.model_mut().set(flush, 1);
        self.cycle()?;
        self.bench.model_mut().set(flush, 0);
        let sets = self.config.mtr_lower_sets.max(self.config.mtr_upper_sets);
        for cycle in 0..=sets {
            assert_eq!(self.bench.model().get(self.caches_ready) == 1, cycle == sets, "cycle {cycle} of the scrub");
            self.cycle()?;
        }
        Ok(())
    }

    fn count(&self, pulse: &str) -> u64 {
        self.counts.get(pulse).copied().unwrap_or(0)
    }

    /// Hits and misses of the lower cache, then of the upper one, since the last call.
    fn take_cache_counts(&mut self) -> [u64; 4] {
        let counts = ["lower_hit", "lower_miss", "upper_hit", "upper_miss"].map(|pulse| self.count(pulse));
        self.counts.clear();
        counts
    }

    /// A walk for the walker, which gets it when it has a context for it. Memory must be as it is to be.
    fn push(&mut self, walk: Walk) -> Result<Outcome, Error> {
        let ports: Vec<_> = self.bench[self.walks].ports().collect();
        let mut fields = Fields::new();
        for (port, width) in ports {
            let (_, name) = port.split_once('_').expect("ports are named by channel and field");
            fields.insert(name, u128::from(self.random.next_u64()) & ((1 << width) - 1));
        }
        fields.extend([
            ("va", self.next_va),
            ("is_context", walk.is_context.into()),
            ("table_set", walk.owner.table_set.into()),
            ("mpt_index", walk.owner.mpt_index.into()),
            ("epoch", walk.owner.epoch.into()),
            ("virtual_page", walk.virtual_page.into()),
            ("root", walk.root.into()),
            ("hop", walk.hop.into()),
            ("ba_pg_sz", walk.ba_pg_sz.into()),
            ("index", walk.index.into()),
            ("check_index", walk.check_index.into()),
            ("count", walk.count.into()),
            ("offset", walk.offset.into()),
            ("valid", 1),
        ]);
        let outcome = walk.outcome(&self.memory, self.controls);
        self.waiting.push_back(fields.clone());
        self.expected.insert(self.next_va, (fields, outcome.clone()));
        // Distinct, and every bit takes part.
        self.next_va = self.next_va.wrapping_add(0x9e37_79b9_7f4a_7c15) & u128::from(u64::MAX);
        Ok(outcome)
    }

    /// Has a walk begin in that cycle.
    fn begin(&mut self, cycle: u64, walk: &Fields) {
        let walks = self.walks;
        let start = START_FIELDS.map(|name| (format!("start_{name}"), walk[name]));
        self.bench[walks].push(cycle, start);
        self.bench[walks].push(cycle + OFFSET_CYCLES, [("start_offset".to_owned(), walk["offset"])]);
        let others = walk.iter().filter(|(name, _)| !START_FIELDS.contains(name) && **name != "offset");
        let others: Vec<_> = others.map(|(name, value)| (format!("walk_{name}"), *value)).collect();
        self.bench[walks].push(cycle + WALK_CYCLES, others);
        self.began.push_back(cycle);
        self.accepting.push_back(cycle + WALK_CYCLES);
    }

    /// Has a walk begin now that does not come.
    fn begin_only(&mut self, walk: Walk) {
        let values = [
            walk.is_context.into(),
            walk.owner.table_set.into(),
            walk.owner.mpt_index.into(),
            walk.owner.epoch.into(),
            walk.root.into(),
            walk.hop.into(),
            walk.ba_pg_sz.into(),
            walk.index.into(),
            walk.check_index.into(),
            walk.count.into(),
        ];
        let start = START_FIELDS.iter().zip(values).map(|(name, value)| (format!("start_{name}"), value));
        let (walks, cycle) = (self.walks, self.bench.cycles());
        self.bench[walks].push(cycle, start);
    }

    /// One cycle, with the table port's part and all checks.
    fn cycle(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        while self.returned.front().is_some_and(|cycle| cycle + RETURN_CYCLES <= now) {
            self.returned.pop_front();
            self.in_flight -= 1;
        }
        let has_context = self.in_flight < self.config.walk_contexts.into();
        let is_open = has_context && self.random.random_range(0..100) >= self.walk_stall_percent;
        if is_open && let Some(walk) = self.waiting.pop_front() {
            self.begin(now, &walk);
            self.in_flight += 1;
        }
        if self.accepting.front() == Some(&now) {
            self.accepting.pop_front();
            self.accepted += 1;
        }
        self.bench.cycle()?;
        while let Some(read) = self.bench[self.line_requests].pop() {
            let context = read.context;
            assert!(context < self.config.walk_contexts.into(), "context {context}");
            for (_, other) in &self.reads {
                assert_ne!(other.context, context, "a context reads twice at a time");
            }
            let address = read.line << 6 | (read.word as u64) << 3;
            self.reads_seen.push((read.level as u8, address));
            let due = read.cycle + self.random.random_range(self.latency_cycles.clone());
            self.reads.push((due, read));
        }
        self.answer()?;
        for (name, output) in &self.pulses {
            *self.counts.entry(name).or_default() += self.bench.model().get(*output);
        }
        while let Some(fill) = self.bench[self.fills].pop() {
            let field = |name: &str| fill.beat.get(name);
            let owner = Owner {
                table_set: field("table_set")? as u8,
                mpt_index: field("mpt_index")? as u32,
                epoch: field("epoch")? as u32,
            };
            let (virtual_page, page) = (field("virtual_page")? as u32, field("page")? as u64);
            self.filled.push((fill.cycle, Fill { owner, virtual_page, page }));
        }
        while let Some(result) = self.bench[self.results].pop() {
            self.received += 1;
            self.returned.push_back(result.cycle);
            self.check(&result.beat)?;
        }
        let is_idle = self.bench.model().get(self.idle) == 1;
        if self.accepted != self.received {
            assert!(!is_idle, "idle in cycle {} with a walk under way", self.bench.cycles());
        } else if self.returned.is_empty() {
            assert!(is_idle, "not idle in cycle {}", self.bench.cycles());
        }
        Ok(())
    }

    /// Announces one line that is due, any of those that are, and has it come in the cycle after.
    fn answer(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        let is_open = !self.is_holding && self.random.random_range(0..100) >= self.line_stall_percent;
        let due: Vec<usize> = (0..self.reads.len()).filter(|&read| is_open && self.reads[read].0 < now).collect();
        let (early_valid, early_context) = (self.early_valid, self.early_context);
        let any = self.random.random_range(0..u64::from(self.config.walk_contexts));
        let model = self.bench.model_mut();
        if due.is_empty() {
            // It may be set where no line follows, too.
            model.set(early_valid, u64::from(self.line_stall_percent > 0 && any % 4 == 0));
            model.set(early_context, any);
            return Ok(());
        }
        let (_, read) = self.reads.swap_remove(due[self.random.random_range(0..due.len())]);
        model.set(early_valid, 1);
        model.set(early_context, read.context as u64);
        let line = read.line;
        let wanted_quarter = read.word / 2;
        let mut beat = Beat::zero(self.bench[self.lines].channel().shape());
        for (field, value) in [("context", read.context), ("level", read.level), ("word", read.word)] {
            beat.set(field, value)?;
        }
        let mut errors = 0;
        for quarter in 0..4 {
            let address = line << 6 | quarter << 4;
            let words = [self.memory.word(address), self.memory.word(address + 8)];
            let data = u128::from(words[1]) << 64 | u128::from(words[0]);
            beat.set(&format!("data_{quarter}"), data)?;
            errors |= u128::from(self.memory.failing.contains(&(address >> 4))) << quarter;
        }
        beat.set("errors", errors)?;
        beat.set("error", u128::from(errors != 0))?;
        beat.set("value_error", errors >> wanted_quarter & 1)?;
        beat.set("value", self.memory.word((line << 6) + ((read.word as u64) << 3)).into())?;
        beat.set("is_first", Memory::is_first(line << 6).into())?;
        self.bench[self.lines].push_not_before(beat, now + 1);
        Ok(())
    }

    fn check(&mut self, result: &Beat) -> Result<(), Error> {
        let va = result.get("va")?;
        let (request, outcome) = self.expected.remove(&va).unwrap_or_else(|| panic!("no walk {va:#x} is under way"));
        for field in result.shape().fields() {
            let name = field.name.as_str();
            let actual = result.get(name)?;
            let wanted = match name {
                "status" => u128::from(outcome.status.code()),
                "hop" => u128::from(outcome.hop),
                "address" => u128::from(outcome.address),
                "is_found" => u128::from(outcome.status == Status::Ok && request["hop"] > 0),
                "is_ok" => u128::from(outcome.status == Status::Ok),
                // Of what has failed it may be anything.
                "found_address" if outcome.status == Status::Ok => u128::from(outcome.address),
                "found_address" => actual,
                _ => request[name],
            };
            assert_eq!(actual, wanted, "{name} of {result:?}, answer to {request:?}; expected {outcome:?}");
        }
        Ok(())
    }

    /// Runs until every walk has its result, then checks that nothing more happens, and that no read but those needed
    /// was made.
    fn finish(&mut self, limit_cycles: u64, mut outcomes: Vec<Outcome>) -> Result<(), Error> {
        self.finish_walks(limit_cycles)?;
        for _ in 0..30 {
            self.cycle()?;
        }
        let mut reads: Vec<_> = outcomes.iter_mut().flat_map(|outcome| outcome.reads.drain(..)).collect();
        reads.sort_unstable();
        let mut seen = std::mem::take(&mut self.reads_seen);
        seen.sort_unstable();
        if !self.may_save_reads {
            assert_eq!(seen, reads, "reads made and reads needed");
        }
        Ok(())
    }

    /// Runs until every walk has its result.
    fn finish_walks(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while !self.expected.is_empty() {
            assert!(
                self.bench.cycles() < end,
                "{} walks without a result after {limit_cycles} cycles",
                self.expected.len()
            );
            self.cycle()?;
        }
        Ok(())
    }

    /// Runs until no page has been entered for a while.
    fn finish_fills(&mut self) -> Result<(), Error> {
        let mut filled = usize::MAX;
        while filled != self.filled.len() {
            filled = self.filled.len();
            for _ in 0..40 {
                self.cycle()?;
            }
        }
        Ok(())
    }

    /// One walk, whose outcome is also checked against the test's own expectation.
    fn walk_alone(&mut self, walk: Walk, status: Status, hop: u8) -> Result<Outcome, Error> {
        let outcome = self.push(walk)?;
        assert_eq!((outcome.status, outcome.hop), (status, hop), "{walk:?}");
        self.finish(200, vec![outcome.clone()])?;
        Ok(outcome)
    }
}

/// How often walks, the taking of reads, and lines wait.
#[derive(Clone, Copy)]
struct Stalls {
    walks_percent: u32,
    requests_percent: u32,
    lines_percent: u32,
}

const NO_STALLS: Stalls = Stalls { walks_percent: 0, requests_percent: 0, lines_percent: 0 };
const SOME_STALLS: Stalls = Stalls { walks_percent: 45, requests_percent: 60, lines_percent: 50 };

/// The walker with few contexts, which all memories in LUT RAM serve, and with as many as it has by default.
const DESIGNS: [&Dut; 2] = [&dut::MTR_WALKER, &dut::MTR_WALKER_DEFAULT];

/// The least cycles that so many walks take: one line per cycle, and a context is in use for `occupancy_cycles`.
fn least_cycles(config: &Config, walks: u64, lines: u64, occupancy_cycles: u64) -> u64 {
    walks.max(lines).max(walks * occupancy_cycles / u64::from(config.walk_contexts))
}

#[test]
fn each_hop_reads_its_tables_and_takes_the_time_it_should() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 1, Controls::RESET, NO_STALLS)?;
        let lines = rig.lines;
        rig.bench[lines].record_acceptances();
        for hop in 0..4 {
            let walk = Walk { offset: 0x123, ..Walk::plain(hop, 0x4_0000_0008, 1000 * 1000) };
            for read in 0..usize::from(hop) {
                walk.plant(&mut rig.memory, Controls::RESET, read, 0x77_0000_0000 + 0x1000 * read as u64);
            }
            let outcome = rig.push(walk)?;
            // The root is added, not ORed.
            let expected_addresses: &[u64] = match hop {
                0 => &[],
                1 => &[0x4_0000_0008 + 8_000_000],
                2 => &[0x4_0000_0008 + 1953 * 8, 0x77_0000_0000 + 64 * 8],
                _ => &[0x4_0000_0008 + 3 * 8, 0x77_0000_0000 + 417 * 8, 0x77_0000_1000 + 64 * 8],
            };
            assert_eq!(outcome.reads.iter().map(|(_, address)| *address).collect::<Vec<_>>(), expected_addresses);
            let leaf = if hop == 0 { 0x4_0000_0008 } else { 0x77_0000_0000 + 0x1000 * (u64::from(hop) - 1) };
            assert_eq!((outcome.status, outcome.address), (Status::Ok, leaf + 0x123));

            // Cycles between the events of one walk: acceptance, reads offered, lines, result.
            let mut events = Vec::new();
            while rig.received == u64::from(hop) {
                assert!(rig.bench.cycles() < 2_000, "no result of hop {hop}");
                let cycle = rig.bench.cycles();
                let reads = rig.reads_seen.len();
                rig.cycle()?;
                if rig.began.pop_front().is_some() || rig.bench[lines].pop_acceptance().is_some() {
                    events.push(cycle);
                }
                if rig.reads_seen.len() > reads || rig.received > u64::from(hop) {
                    events.push(cycle);
                }
            }
            let gaps: Vec<_> = events.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let expected_gaps: &[u64] = match hop {
                0 => &[6],
                1 => &[3, 2, 1],
                2 => &[3, 2, 2, 2, 1],
                _ => &[3, 2, 2, 2, 2, 2, 1],
            };
            assert_eq!(gaps, expected_gaps, "hop {hop}");
            rig.finish(1, vec![outcome])?;
        }
        Ok(())
    })
}

#[test]
fn every_failure_has_its_status_and_hop() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        for controls in Controls::ALL {
            let mut rig = Rig::new(design, 2, controls, NO_STALLS)?;
            let literal = controls.zero_entry_literal;
            let strict = controls.alignment_check;
            let or_ok = |fails: bool, status: Status, hop: u8| if fails { (status, hop) } else { (Status::Ok, 0) };
            for hop in 0..4u8 {
                // Index before root alignment before an absent root.
                let refused = Walk { check_index: true, count: 5, ..Walk::plain(hop, 0x1001, 5) };
                rig.walk_alone(refused, Status::MtrIndex, 0)?;
                rig.walk_alone(Walk { count: 0, index: 0, ..refused }, Status::MtrIndex, 0)?;
                rig.walk_alone(Walk { check_index: false, ..refused }, Status::MtrMisaligned, 0)?;
                rig.walk_alone(Walk { index: 4, ..refused }, Status::MtrMisaligned, 0)?;
                let mut failures: u8 = 0;
                for read in 0..hop {
                    for (entry, is_failing) in [(0, false), (0x8000_0800, false), (0x8000_0804, false), (0, true)] {
                        // Walks share no table.
                        failures += 1;
                        let root = 0x10_0000_0000 * u64::from(1 + failures) + 0x1_0000_0000 * u64::from(hop) + 8;
                        let walk = Walk { offset: 9, ..Walk::plain(hop, root, 3) };
                        for earlier in 0..read {
                            let table = root + 0x100_0000 * (1 + u64::from(earlier)) - 8;
                            walk.plant(&mut rig.memory, controls, earlier.into(), table);
                        }
                        walk.plant(&mut rig.memory, controls, read.into(), entry);
                        let (_, address) = walk.outcome(&rig.memory, controls).reads[usize::from(read)];
                        if is_failing {
                            rig.memory.failing.insert(address >> 4);
                        }
                        // What follows the entry under test, where the walk goes on.
                        for later in read + 1..hop {
                            walk.plant(&mut rig.memory, controls, later.into(), 0x9000_0000);
                        }
                        let is_leaf = read + 1 == hop;
                        let (status, at) = match (entry, is_failing) {
                            (_, true) => (Status::MtrBusError, read),
                            (0, _) => or_ok(!literal, Status::MtrNotPresent, read),
                            (0x8000_0800, _) => or_ok(strict && !is_leaf, Status::MtrMisaligned, read + 1),
                            _ => or_ok(!is_leaf, Status::MtrMisaligned, read + 1),
                        };
                        rig.walk_alone(walk, status, at)?;
                        rig.memory.words.clear();
                        rig.memory.failing.clear();
                    }
                }
                for read in 0..hop.into() {
                    Walk::plain(hop, 0, 3).plant(&mut rig.memory, controls, read, 0x9000_0000);
                }
                let (status, at) = or_ok(!literal, Status::MtrNotPresent, 0);
                rig.walk_alone(Walk::plain(hop, 0, 3), status, at)?;
            }
        }
        Ok(())
    })
}

#[test]
fn an_address_wraps_at_2_to_the_64() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 3, Controls::RESET, NO_STALLS)?;
        let direct = Walk { offset: 0x20, ..Walk::plain(0, u64::MAX - 0xf, 0) };
        assert_eq!(rig.walk_alone(direct, Status::Ok, 0)?.address, 0x10);
        let walk = Walk { offset: 0x1000, ..Walk::plain(1, u64::MAX - 7, 2) };
        walk.plant(&mut rig.memory, Controls::RESET, 0, u64::MAX);
        let outcome = rig.walk_alone(walk, Status::Ok, 0)?;
        assert_eq!((outcome.reads, outcome.address), (vec![(0, 8)], 0xfff));
        Ok(())
    })
}

#[test]
fn a_queue_buffer_is_walked_as_any_table() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 4, Controls::RESET, NO_STALLS)?;
        // Direct: the caller gives index << page shift as the offset.
        let direct = Walk { check_index: true, count: 4, offset: 3 << 16, ..Walk::plain(0, 0x5_0000_0008, 3) };
        assert_eq!(rig.walk_alone(direct, Status::Ok, 0)?.address, 0x5_0003_0008);
        rig.walk_alone(Walk { index: 4, ..direct }, Status::MtrIndex, 0)?;
        rig.walk_alone(Walk { root: 0, ..direct }, Status::MtrNotPresent, 0)?;
        // One hop, no offset: the leaf as it is.
        let paged = Walk { check_index: true, count: 4, ..Walk::plain(1, 0x5_0000_0018, 3) };
        paged.plant(&mut rig.memory, Controls::RESET, 0, 0xabc_0000_0123);
        assert_eq!(rig.walk_alone(paged, Status::Ok, 0)?.address, 0xabc_0000_0123);
        Ok(())
    })
}

/// `has_room`: lines come so seldom that all neighbours are entered.
fn random_walks(
    design: &'static Dut,
    seed: u64,
    controls: Controls,
    stalls: Stalls,
    latency: std::ops::Range<u64>,
    has_room: bool,
) -> Result<(), Error> {
    const WALKS: usize = 1500;
    let mut rig = Rig::new(design, seed, controls, stalls)?;
    rig.latency_cycles = latency;
    let mut random = rig.bench.random();
    let walks: Vec<_> = (0..WALKS).map(|_| Walk::random(&mut random)).collect();
    for walk in &walks {
        walk.plant_randomly(&mut rig.memory, controls, &mut random);
    }
    let outcomes = walks.iter().map(|walk| rig.push(*walk)).collect::<Result<Vec<_>, _>>()?;
    let mut wanted: Vec<_> = Vec::new();
    let mut beside: Vec<_> = Vec::new();
    for walk in &walks {
        let fills = walk.fills(&rig.memory, controls, Memory::is_first);
        wanted.extend(fills.wanted);
        beside.extend(fills.beside);
    }
    for status in [Status::Ok, Status::MtrIndex, Status::MtrMisaligned, Status::MtrBusError, Status::MtrNotPresent] {
        let is_possible = status != Status::MtrNotPresent || !controls.zero_entry_literal;
        let is_there = outcomes.iter().any(|outcome| outcome.status == status);
        assert_eq!(is_there, is_possible, "{} with seed {seed}", status.name());
    }
    rig.finish(400_000, outcomes)?;
    rig.finish_fills()?;
    let count = |fills: &[Fill]| {
        let mut counts = BTreeMap::new();
        fills.iter().for_each(|fill| *counts.entry(*fill).or_insert(0) += 1);
        counts
    };
    let filled: Vec<_> = rig.filled.iter().map(|(_, fill)| *fill).collect();
    let (filled, wanted, all) = (count(&filled), count(&wanted), count(&[wanted, beside].concat()));
    for (fill, times) in &filled {
        assert!(times <= all.get(fill).unwrap_or(&0), "{fill:?} is entered {times} times, with seed {seed}");
    }
    for (fill, times) in &wanted {
        assert!(filled.get(fill).unwrap_or(&0) >= times, "{fill:?} is not entered {times} times, with seed {seed}");
    }
    if has_room {
        assert!(filled == all, "some page is not entered, with seed {seed}");
    }
    Ok(())
}

#[test]
fn random_walks_without_stalls() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        Controls::ALL
            .into_iter()
            .enumerate()
            .try_for_each(|(case, controls)| random_walks(design, 10 + case as u64, controls, NO_STALLS, 0..40, false))
    })
}

#[test]
fn random_walks_with_stalls() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let stalls = SOME_STALLS;
        Controls::ALL
            .into_iter()
            .enumerate()
            .try_for_each(|(case, controls)| random_walks(design, 20 + case as u64, controls, stalls, 0..200, false))
    })
}

#[test]
fn random_walks_with_a_slow_table_port() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let stalls = Stalls { requests_percent: 97, ..NO_STALLS };
        random_walks(design, 30, Controls::RESET, stalls, 0..5, true)
    })
}

/// Pushes walks of one hop count that all succeed.
fn push_plain_walks(rig: &mut Rig, hop: u8, walks: u64) -> Result<Vec<Outcome>, Error> {
    let controls = rig.controls;
    let all: Vec<_> = (0..walks).map(|number| Walk::plain(hop, 0x1000_0000_0000 + (number << 24), 77)).collect();
    for (number, walk) in all.iter().enumerate() {
        for read in 0..usize::from(hop) {
            walk.plant(&mut rig.memory, controls, read, ((1 + number as u64) << 28) + ((1 + read as u64) << 20));
        }
    }
    all.into_iter().map(|walk| rig.push(walk)).collect()
}

#[test]
fn one_landing_per_cycle_is_sustained() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        const WALKS: u64 = 2000;
        for hop in 0..4 {
            let mut rig = Rig::new(design, 5, Controls::RESET, NO_STALLS)?;
            let outcomes = push_plain_walks(&mut rig, hop, WALKS)?;
            let latency_cycles: u64 = 20;
            rig.latency_cycles = latency_cycles..latency_cycles + 1;
            let start = rig.bench.cycles();
            // First read 3, each read its latency and 2 for the bench and 1 for the landing, context back 2.
            let occupancy_cycles = if hop == 0 { 6 + 2 } else { 3 + u64::from(hop) * (latency_cycles + 2 + 1) + 2 };
            let least = least_cycles(&rig.config, WALKS, WALKS * u64::from(hop), occupancy_cycles);
            while rig.received < WALKS {
                rig.cycle()?;
                assert!(
                    rig.bench.cycles() - start < least + least / 20 + 200,
                    "hop {hop}: {} of {WALKS}",
                    rig.received
                );
            }
            println!("hop {hop}: {WALKS} walks in {} cycles, at least {least}", rig.bench.cycles() - start);
            rig.finish(1, outcomes)?;
        }
        Ok(())
    })
}

#[test]
fn as_many_walks_as_contexts_are_in_flight() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 6, Controls::RESET, NO_STALLS)?;
        let contexts = u64::from(rig.config.walk_contexts);
        rig.is_holding = true;
        let outcomes = push_plain_walks(&mut rig, 2, contexts + 10)?;
        for _ in 0..contexts + 100 {
            rig.cycle()?;
        }
        assert_eq!(rig.accepted, contexts);
        assert_eq!(rig.reads.len() as u64, contexts);
        rig.is_holding = false;
        rig.finish(contexts * 20 + 1000, outcomes)
    })
}

#[test]
fn every_context_can_wait_for_the_request_channel() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 7, Controls::RESET, NO_STALLS)?;
        let contexts = u64::from(rig.config.walk_contexts);
        rig.is_holding = true;
        let outcomes = push_plain_walks(&mut rig, 3, contexts * 2)?;
        for _ in 0..contexts + 100 {
            rig.cycle()?;
        }
        // All first reads are out. Their lines land while the request channel is blocked, for new walks too.
        let line_requests = rig.line_requests;
        rig.bench[line_requests].blocked_percent = 100;
        rig.is_holding = false;
        for _ in 0..contexts * 3 + 100 {
            rig.cycle()?;
        }
        assert!(rig.reads.is_empty(), "every line that was asked for has landed");
        rig.bench[line_requests].blocked_percent = 0;
        rig.finish(contexts * 60 + 1000, outcomes)
    })
}

#[test]
fn landings_without_a_gap_do_not_starve_a_direct_walk() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 8, Controls::RESET, NO_STALLS)?;
        let contexts = u64::from(rig.config.walk_contexts);
        // A backlog of one line per context, and more walks than are needed to keep it up.
        rig.is_holding = true;
        let mut outcomes = push_plain_walks(&mut rig, 1, contexts + 20)?;
        let direct_va = rig.next_va;
        outcomes.push(rig.push(Walk::plain(0, 0x1000, 0))?);
        outcomes.extend(push_plain_walks(&mut rig, 1, 6000)?);
        for _ in 0..contexts + 100 {
            rig.cycle()?;
        }
        rig.is_holding = false;
        while rig.accepted <= contexts + 20 {
            rig.cycle()?;
            assert!(rig.bench.cycles() < contexts * 60 + 2000, "the direct walk is not accepted");
        }
        let start = rig.bench.cycles();
        while rig.expected.contains_key(&direct_va) {
            rig.cycle()?;
            // 256 landings, then at most one for every context.
            let waited_cycles = rig.bench.cycles() - start;
            assert!(waited_cycles < 256 + contexts + 20, "the direct walk waits since {waited_cycles} cycles");
        }
        println!("the direct walk took {} cycles", rig.bench.cycles() - start);
        rig.finish(6000 * 30 + 1000, outcomes)
    })
}

#[test]
fn reset_forgets_walks_under_way() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let stalls = Stalls { walks_percent: 10, requests_percent: 30, lines_percent: 10 };
        let mut rig = Rig::new(design, 9, Controls::RESET, stalls)?;
        rig.latency_cycles = 0..60;
        let mut random = rig.bench.random();
        for round in 0..6 {
            let walks: Vec<_> = (0..400).map(|_| Walk::random(&mut random)).collect();
            for walk in &walks {
                walk.plant_randomly(&mut rig.memory, Controls::RESET, &mut random);
            }
            let outcomes = walks.iter().map(|walk| rig.push(*walk)).collect::<Result<Vec<_>, _>>()?;
            if round == 5 {
                return rig.finish(100_000, outcomes);
            }
            for _ in 0..random.random_range(20..400) {
                rig.cycle()?;
            }
            assert_ne!(rig.expected.len(), 0, "walks are under way");
            rig.reset()?;
        }
        Ok(())
    })
}

/// A region with tables of its own in memory.
struct Region {
    walk: Walk,
    /// Pages before the first one in `virtual_page`.
    first_page: u32,
}

impl Region {
    /// Plants tables for all `count` pages: aligned ones of 4 KiB, distinct for each `version`.
    fn new(rig: &mut Rig, owner: Owner, hop: u8, root: u64, count: u32, version: u64) -> Self {
        let first_page = 1000 * owner.mpt_index;
        let walk = Walk { owner, check_index: true, count, ..Walk::plain(hop, root, 0) };
        let region = Self { walk, first_page };
        for index in 0..count {
            region.plant(rig, index, version);
        }
        region
    }

    /// Plants what the walk of one page reads.
    fn plant(&self, rig: &mut Rig, index: u32, version: u64) {
        let walk = self.walk(index);
        let base = (1 + version) << 44 | u64::from(walk.owner.mpt_index) << 32;
        for read in 0..usize::from(walk.hop) {
            let remaining = usize::from(walk.hop) - 1 - read;
            let number = u64::from(index) >> (9 * remaining);
            let table = (base + ((1 + remaining as u64) << 28)) + number * 4096;
            walk.plant(&mut rig.memory, rig.controls, read, table);
        }
    }

    fn walk(&self, index: u32) -> Walk {
        Walk { index, virtual_page: self.first_page + index, offset: index.into(), ..self.walk }
    }
}

impl Rig {
    /// One walk that must succeed; gives the reads that it made.
    fn reads_of(&mut self, walk: Walk) -> Result<Vec<(u8, u64)>, Error> {
        let outcome = self.push(walk)?;
        assert_eq!(outcome.status, Status::Ok, "{walk:?}");
        let limit = self.bench.cycles() + 300;
        while !self.expected.is_empty() {
            assert!(self.bench.cycles() < limit, "no result of {walk:?}");
            self.cycle()?;
        }
        // Until what it brought is entered.
        self.finish_fills()?;
        let reads = std::mem::take(&mut self.reads_seen);
        let saved = outcome.reads.len() - reads.len();
        assert_eq!(reads, outcome.reads[saved..], "the reads that are made are the last ones of {walk:?}");
        Ok(reads)
    }
}

const OWNER: Owner = Owner { table_set: 0, mpt_index: 7, epoch: 0x2345 };
const LEAF: u8 = 0;
const LOWER: u8 = 1;
const UPPER: u8 = 2;

fn levels(reads: &[(u8, u64)]) -> Vec<u8> {
    reads.iter().map(|(level, _)| *level).collect()
}

#[test]
fn a_walk_begins_at_the_deepest_table_that_is_known() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        for controls in Controls::ALL {
            let mut rig = Rig::new(design, 40, controls, NO_STALLS)?;
            // Three hops, four middle tables: their pointers and those of the first leaf tables come side by side.
            let owner = OWNER;
            let walk = Walk { owner, count: u32::MAX, ..Walk::plain(3, 0x1000_0000_0000, 0) };
            let at = |upper: u32, lower: u32, low: u32| Walk { index: (upper << 9 | lower) << 9 | low, ..walk };
            let tables = [(0, 0), (0, 5), (0, 9), (3, 0), (3, 1)];
            for (upper, lower) in tables {
                let walk = at(upper, lower, 0);
                let upper_table = 0x2000_0000_0000 + u64::from(upper) * 0x1000;
                walk.plant(&mut rig.memory, controls, 0, upper_table);
                let lower_table = 0x3000_0000_0000 + (u64::from(upper) << 9 | u64::from(lower)) * 0x1000;
                walk.plant(&mut rig.memory, controls, 1, lower_table);
                for low in [0, 300] {
                    at(upper, lower, low).plant(
                        &mut rig.memory,
                        controls,
                        2,
                        0x4000_0000_0000 + u64::from(low) * 0x1000,
                    );
                }
            }
            assert!(
                Memory::is_first(0x1000_0000_0000) && Memory::is_first(0x2000_0000_0000),
                "lines that fill all words"
            );
            let is_lower_first = Memory::is_first(0x2000_0000_3000);
            assert_eq!(levels(&rig.reads_of(at(0, 0, 0))?), [UPPER, LOWER, LEAF]);
            assert_eq!(rig.take_cache_counts(), [0, 1, 0, 1]);
            assert_eq!(levels(&rig.reads_of(at(0, 0, 300))?), [LEAF]);
            assert_eq!(rig.take_cache_counts(), [1, 0, 1, 0]);
            // Another leaf table of the same line; of another line; another middle table of the same line.
            assert_eq!(levels(&rig.reads_of(at(0, 5, 300))?), [LEAF]);
            assert_eq!(levels(&rig.reads_of(at(0, 9, 0))?), [LOWER, LEAF]);
            assert_eq!(levels(&rig.reads_of(at(3, 0, 0))?), [LOWER, LEAF]);
            rig.take_cache_counts();
            let expected: &[u8] = if is_lower_first { &[LEAF] } else { &[LOWER, LEAF] };
            assert_eq!(levels(&rig.reads_of(at(3, 1, 0))?), expected);
            rig.counts.clear();
            assert_eq!(levels(&rig.reads_of(at(3, 1, 300))?), [LEAF]);
            assert_eq!(["read_issued_0", "read_issued_1", "read_issued_2"].map(|name| rig.count(name)), [0, 0, 1]);

            // Neither another owner, nor an older or a newer epoch, nor the context port, nor an index beyond the table.
            for owner in [
                Owner { epoch: owner.epoch + 1, ..owner },
                Owner { epoch: owner.epoch ^ 0x1000_0000, ..owner },
                Owner { mpt_index: owner.mpt_index + 128, ..owner },
                Owner { mpt_index: owner.mpt_index | 1 << 23, ..owner },
            ] {
                assert_eq!(levels(&rig.reads_of(Walk { owner, ..at(0, 0, 300) })?), [UPPER, LOWER, LEAF], "{owner:?}");
            }
            // Those may have taken the place of this one.
            rig.reads_of(at(0, 0, 0))?;
            assert_eq!(levels(&rig.reads_of(at(0, 0, 300))?), [LEAF]);
            rig.take_cache_counts();
            for walk in [Walk { is_context: true, ..at(0, 0, 300) }, Walk { count: 300, ..at(0, 0, 300) }] {
                for _ in 0..2 {
                    assert_eq!(levels(&rig.reads_of(walk)?), [UPPER, LOWER, LEAF], "{walk:?}");
                }
            }
            assert_eq!(rig.take_cache_counts(), [0; 4]);
            // They spoil nothing either. Then all is forgotten.
            assert_eq!(levels(&rig.reads_of(at(0, 0, 300))?), [LEAF]);
            rig.flush()?;
            assert_eq!(levels(&rig.reads_of(at(0, 0, 300))?), [UPPER, LOWER, LEAF]);
        }
        Ok(())
    })
}

#[test]
fn a_walk_that_does_not_come_leaves_no_trace() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 39, Controls::RESET, NO_STALLS)?;
        for hop in 2..4 {
            let owner = Owner { mpt_index: hop.into(), ..OWNER };
            let region = Region::new(&mut rig, owner, hop, 0x1000_0000_0000 + (u64::from(hop) << 24), 20, 0);
            let unknown = Walk { owner: Owner { mpt_index: 99, ..OWNER }, ..region.walk(3) };
            rig.reads_of(region.walk(0))?;
            rig.take_cache_counts();
            for walk in [region.walk(3), unknown] {
                rig.begin_only(walk);
                for _ in 0..30 {
                    rig.cycle()?;
                }
                assert_eq!(rig.take_cache_counts(), [0; 4], "{walk:?}");
            }
            assert_eq!(rig.reads_of(region.walk(10))?.len(), 1);
        }
        Ok(())
    })
}

#[test]
fn a_failure_counts_the_reads_that_a_cache_saved() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 41, Controls::RESET, NO_STALLS)?;
        let region = Region::new(&mut rig, OWNER, 3, 0x1000_0000_0000, 1024, 0);
        let present = region.walk(3);
        assert_eq!(rig.reads_of(present)?.len(), 3);
        let controls = rig.controls;
        for (entry, is_failing, status) in [(0, false, Status::MtrNotPresent), (0x1000, true, Status::MtrBusError)] {
            let walk = region.walk(100);
            walk.plant(&mut rig.memory, controls, 2, entry);
            if is_failing {
                let address = walk.outcome(&rig.memory, controls).reads[2].1;
                rig.memory.failing.insert(address >> 4);
            }
            rig.may_save_reads = true;
            let filled = rig.filled.len();
            rig.walk_alone(walk, status, 2)?;
            assert_eq!(rig.count("read_issued_2"), 2 + u64::from(is_failing));
            assert_eq!(rig.count("read_issued_1"), 1);
            rig.finish_fills()?;
            assert_eq!(rig.filled.len(), filled, "a walk that fails enters nothing");
        }
        Ok(())
    })
}

#[test]
fn only_entries_of_the_table_are_entered_and_the_wanted_one_first() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 42, Controls::RESET, NO_STALLS)?;
        let mut random = rig.bench.random();
        let lines = rig.lines;
        rig.bench[lines].record_acceptances();
        let mut entered_beside = 0;
        for hop in 1..3 {
            for skew in 0..8u64 {
                for count in [1, 2, 3, 5, 8, 13, 16, 17] {
                    // Good words before and after the table, which are not the region's.
                    let owner = Owner::random(&mut random);
                    let root = ((0x1000 + u64::from(owner.mpt_index)) << 24) | (skew * 8);
                    let index = random.random_range(0..count);
                    let virtual_page = random.next_u32();
                    let walk = Walk { owner, count, virtual_page, check_index: true, ..Walk::plain(hop, root, index) };
                    for read in 0..usize::from(hop) {
                        walk.plant(&mut rig.memory, Controls::RESET, read, (0x7000 + u64::from(owner.mpt_index)) << 28);
                        let (_, address) = walk.outcome(&rig.memory, Controls::RESET).reads[read];
                        for word in (address & !63..).step_by(8).take(8) {
                            let page = u64::from(random.next_u32()) << 12 | 1 << 50;
                            rig.memory.words.entry(word).or_insert(page);
                        }
                    }
                    let fills = walk.fills(&rig.memory, Controls::RESET, Memory::is_first);
                    rig.filled.clear();
                    while rig.bench[lines].pop_acceptance().is_some() {}
                    let reads = rig.reads_of(walk)?;
                    assert_eq!(reads.len(), usize::from(hop));
                    let accepted: Vec<_> = std::iter::from_fn(|| rig.bench[lines].pop_acceptance()).collect();
                    let line_cycle = *accepted.last().expect("a line of pages");
                    let filled: Vec<_> = rig.filled.iter().map(|(_, fill)| *fill).collect();
                    let wanted = fills.wanted.expect("all pages are good");
                    assert_eq!(rig.filled[0], (line_cycle + 4, wanted), "{walk:?}");
                    assert_eq!(filled[1..], fills.beside, "beside {walk:?}");
                    if let Some((cycle, _)) = rig.filled.last() {
                        // A line of pointers may go before.
                        assert!(*cycle <= line_cycle + 4 + 8 * u64::from(hop), "beside {walk:?}");
                    }
                    entered_beside += fills.beside.len();
                }
            }
        }
        assert!(entered_beside > 300, "{entered_beside}");
        Ok(())
    })
}

#[test]
fn pointers_outside_the_root_table_are_not_entered() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 43, Controls::RESET, NO_STALLS)?;
        for skew in 0..8u64 {
            let owner = Owner { mpt_index: 100 + skew as u32, ..OWNER };
            let root = 0x1000_0000_0000 + (skew << 20) + skew * 8;
            assert!(Memory::is_first(root) || skew > 0);
            // Four leaf tables and a part of a fifth. Every word around the root is a good pointer.
            let walk = Walk { owner, count: 4 * 512 + 10, ..Walk::plain(2, root, 1024) };
            for word in (root & !63..).step_by(8).take(16) {
                rig.memory.words.insert(word, 0x2000_0000_0000 + (word << 12));
            }
            let reads = rig.reads_of(walk)?;
            assert_eq!(levels(&reads), [LOWER, LEAF]);
            let (_, address) = reads[0];
            let mut saved = Vec::new();
            for table in 0..5 {
                // A walk to a table whose pointer is known makes one read.
                let walk = Walk { index: table * 512 + 1, ..walk };
                rig.take_cache_counts();
                let is_saved = rig.reads_of(walk)?.len() == 1;
                let is_in_line = (root + u64::from(table) * 8) & !63 == address & !63;
                assert!(is_saved || table != 2, "the wanted pointer, skew {skew}");
                saved.push((is_saved, is_in_line));
            }
            if Memory::is_first(address) {
                // Before the wanted one all that are in the line; after it, too.
                for table in [0, 1, 3] {
                    assert!(saved[table].0 || !saved[table].1, "table {table} of skew {skew}");
                }
            }
            // An index beyond, with the check off, finds what the memory holds now.
            let beyond = Walk { index: 5 * 512, ..walk };
            assert_eq!(rig.reads_of(beyond)?.len(), 2);
            rig.memory.words.insert(root + 5 * 8, 0x2fff_0000_0000);
            assert_eq!(rig.reads_of(beyond)?.len(), 2);
        }
        Ok(())
    })
}

/// Many walks of few regions, whose tables change with the epoch.
#[test]
fn shared_tables_are_cached_and_never_stale() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        const COUNT: u32 = 4000;
        const REGIONS: u32 = 12;
        let stalls = SOME_STALLS;
        // Every walk in a region of its own choice, or many in a row in the same one.
        for (seed, stalls, run) in [(50, NO_STALLS, 1), (51, stalls, 1), (52, NO_STALLS, 50), (53, stalls, 50)] {
            let mut rig = Rig::new(design, seed, Controls::RESET, stalls)?;
            rig.may_save_reads = true;
            rig.latency_cycles = 0..40;
            let mut random = rig.bench.random();
            let mut full_reads = 0;
            let mut reads = 0;
            for version in 0..6 {
                let regions: Vec<_> = (0..REGIONS)
                    .map(|number| {
                        let owner = Owner { table_set: 0, mpt_index: number * 37, epoch: version as u32 };
                        let root = 0x1000_0000_0000 + (u64::from(number) << 24) + 8 * u64::from(number % 8);
                        // The tables of the version before are used no more.
                        Region::new(&mut rig, owner, (number % 4) as u8, root, COUNT, version)
                    })
                    .collect();
                if version == 3 {
                    rig.flush()?;
                }
                let mut outcomes = Vec::new();
                let mut region = &regions[0];
                for walk in 0..600 {
                    if walk % run == 0 {
                        region = &regions[random.random_range(0..regions.len())];
                    }
                    let index = random.random_range(0..COUNT + 10);
                    outcomes.push(rig.push(region.walk(index))?);
                }
                full_reads += outcomes.iter().map(|outcome| outcome.reads.len()).sum::<usize>();
                let before: u64 = (0..3).map(|read| rig.count(&format!("read_issued_{read}"))).sum();
                rig.finish(100_000, outcomes)?;
                let after: u64 = (0..3).map(|read| rig.count(&format!("read_issued_{read}"))).sum();
                reads += (after - before) as usize;
                // What is still to be entered has the old epoch, and its pages are those of the old tables.
                let limit = rig.filled.len();
                for (_, fill) in rig.filled.drain(..limit) {
                    let region = regions.iter().find(|region| region.walk.owner == fill.owner);
                    let Some(region) = region else { continue };
                    let walk = region.walk(fill.virtual_page - region.first_page);
                    assert!(walk.index < COUNT);
                    assert_eq!(walk.outcome(&rig.memory, Controls::RESET).page >> 12, fill.page, "{walk:?}");
                }
            }
            println!("{reads} of {full_reads} reads made, {:?}", rig.counts);
            // Half of the regions have leaf tables whose pointers are cached. A cache that they do not fit in is of use for
            // what comes in a row, and of little use otherwise. Where they fit, there are contexts enough for most walks of
            // a row to begin before the pointers that they share have come.
            let pointers = REGIONS / 2 * COUNT.div_ceil(512);
            let fits = pointers <= rig.config.mtr_lower_sets * rig.config.mtr_lower_ways;
            let percent = if fits == (run == 1) { 70 } else { 90 };
            assert!(reads * 100 < full_reads * percent, "{reads} of {full_reads} reads made, {run} in a row");
        }
        Ok(())
    })
}

#[test]
fn a_cache_holds_its_ways_and_evicts_the_one_that_was_used_longest_ago() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 44, Controls::RESET, NO_STALLS)?;
        let (sets, ways) = (rig.config.mtr_lower_sets, rig.config.mtr_lower_ways);
        // Regions of one leaf table each, in the same set of the lower cache.
        let regions: Vec<_> = (0..=ways)
            .map(|number| {
                let owner = Owner { mpt_index: 3 + number * sets.max(128), ..OWNER };
                let root = 0x1000_0000_0000 + (u64::from(number) << 24);
                Region::new(&mut rig, owner, 2, root, 20, 0)
            })
            .collect();
        for region in &regions[..ways as usize] {
            assert_eq!(rig.reads_of(region.walk(0))?.len(), 2);
        }
        for region in &regions[..ways as usize] {
            assert_eq!(rig.reads_of(region.walk(10))?.len(), 1, "all ways are in use");
        }
        assert_eq!(rig.count("lower_evicted"), 0);
        assert_eq!(rig.reads_of(regions[ways as usize].walk(0))?.len(), 2);
        assert_eq!(rig.count("lower_evicted"), 1);
        assert_eq!(rig.reads_of(regions[ways as usize].walk(10))?.len(), 1);
        if ways > 1 {
            assert_eq!(rig.reads_of(regions[ways as usize - 1].walk(10))?.len(), 1, "the last one used stays");
        }
        assert_eq!(rig.reads_of(regions[0].walk(10))?.len(), 2, "the first one is gone");
        Ok(())
    })
}

/// Each cache, and each of its first sets, with regions that are used in a random order.
#[test]
fn caches_replace_what_their_trees_point_at() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 46, Controls::RESET, NO_STALLS)?;
        let mut random = rig.bench.random();
        let (lower, upper) = (
            (rig.config.mtr_lower_sets, rig.config.mtr_lower_ways),
            (rig.config.mtr_upper_sets, rig.config.mtr_upper_ways),
        );
        for (hop, (sets, ways)) in [(2, lower), (3, upper)] {
            rig.flush()?;
            let mut trees = Plru::new(sets, ways);
            let mut held = vec![vec![None; ways as usize]; sets as usize];
            for step in 0..400 {
                let set = random.random_range(0..sets.min(4));
                let number = random.random_range(0..ways + 2);
                let owner = Owner { mpt_index: set + (number + 1) * sets.max(128), ..OWNER };
                let root = 0x1000_0000_0000 + (u64::from(owner.mpt_index) << 24);
                // In three hops another leaf table every time, so that only the middle table can be known.
                let (count, index) = if hop == 2 { (512, step) } else { (1 << 18, step << 9) };
                let region = Region::new(&mut rig, owner, hop, root, 0, 0);
                let region = Region { walk: Walk { count, ..region.walk }, ..region };
                region.plant(&mut rig, index, 0);
                let levels = levels(&rig.reads_of(region.walk(index))?);
                let held = &mut held[set as usize];
                let way = held.iter().position(|held| *held == Some(number));
                let expected = usize::from(hop) - usize::from(way.is_some());
                assert_eq!(levels.len(), expected, "{hop} hops, step {step}, set {set}, region {number} of {held:?}");
                if let Some(way) = way {
                    trees.note_hit(step.into(), set as usize, way);
                } else {
                    let way = trees.victim(step.into(), set as usize);
                    held[way] = Some(number);
                    trees.note_fill(step.into(), set as usize, way);
                }
            }
        }
        Ok(())
    })
}

#[test]
fn a_pointer_is_found_again_whatever_its_key() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 47, Controls::RESET, NO_STALLS)?;
        let mut random = rig.bench.random();
        for round in 1..=150 {
            let table_set = random.random_range(0..rig.config.table_sets) as u8;
            let owner = Owner { table_set, ..Owner::random(&mut random) };
            let index = random.next_u32() >> random.random_range(0..8) | 1 << 23;
            let first = Walk { owner, count: u32::MAX, ..Walk::plain(3, round << 40, index) };
            // Another line of the same leaf table, and another line of pointers in the same middle table.
            let same_leaf = Walk { index: index ^ 0x100, ..first };
            let same_middle = Walk { index: index ^ 0x2_0000, ..first };
            for (number, walk) in [first, same_leaf, same_middle].into_iter().enumerate() {
                for read in 0..3 {
                    let table = round << 40 | (1 + read as u64 + 4 * number as u64) << 36;
                    if !rig.memory.words.contains_key(&walk.outcome(&rig.memory, Controls::RESET).reads[read].1) {
                        walk.plant(&mut rig.memory, Controls::RESET, read, table);
                    }
                }
            }
            for (walk, expected) in
                [(first, &[UPPER, LOWER, LEAF][..]), (same_leaf, &[LEAF]), (same_middle, &[LOWER, LEAF])]
            {
                assert_eq!(levels(&rig.reads_of(walk)?), expected, "{walk:?}");
            }
        }
        Ok(())
    })
}

/// A pointer that two walks fetch at the same time takes one place.
#[test]
fn a_pointer_that_comes_twice_takes_no_place_of_another() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 48, Controls::RESET, NO_STALLS)?;
        let mut random = rig.bench.random();
        let (lower, upper) = (rig.config.mtr_lower_ways, rig.config.mtr_upper_ways);
        for (hop, ways) in [(2u8, lower), (3, upper)] {
            for round in 1..=60u32 {
                let epoch = random.random_range(0..1 << 29);
                let regions: Vec<_> = (0..ways)
                    .map(|number| {
                        // Of one set, and otherwise anywhere.
                        let mpt_index = (random.random_range(0..1 << 17) << 7) | (round % 128);
                        let root = u64::from(1000 * u32::from(hop) + 10 * round + number) << 40;
                        let count = if hop == 2 { 512 } else { 1 << 18 };
                        Walk { owner: Owner { mpt_index, epoch, ..OWNER }, count, ..Walk::plain(hop, root, 0) }
                    })
                    .collect();
                // In three hops another leaf table every time.
                let stride = if hop == 2 { 8 } else { 8 << 9 };
                let page = |region: &Walk, visit: u32| Walk { index: visit * stride, ..*region };
                for (region, visit) in regions.iter().flat_map(|region| (0..4).map(move |visit| (region, visit))) {
                    for read in 0..usize::from(hop) {
                        let table = region.root | (u64::from(visit) + 8 * (1 + read as u64)) << 20;
                        let walk = page(region, visit);
                        let address = walk.outcome(&rig.memory, Controls::RESET).reads[read].1;
                        if !rig.memory.words.contains_key(&address) {
                            walk.plant(&mut rig.memory, Controls::RESET, read, table);
                        }
                    }
                }
                let (first, others) = regions.split_first().expect("a cache has a way");
                for region in others {
                    rig.reads_of(page(region, 0))?;
                }
                rig.latency_cycles = 40..41;
                rig.may_save_reads = true;
                for visit in [0, 1] {
                    rig.push(page(first, visit))?;
                    for _ in 0..12 {
                        rig.cycle()?;
                    }
                }
                rig.finish(400, Vec::new())?;
                rig.finish_fills()?;
                rig.reads_seen.clear();
                rig.latency_cycles = 0..1;
                for region in &regions {
                    let levels = levels(&rig.reads_of(page(region, 3))?);
                    assert_eq!(levels.len(), usize::from(hop) - 1, "{hop} hops, {region:?} of {regions:?}");
                }
            }
        }
        Ok(())
    })
}

/// Tables of every size, however many pages follow.
#[test]
fn all_pointers_of_a_line_are_entered_that_belong_to_the_table() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 49, Controls::RESET, NO_STALLS)?;
        let mut root = 0x1000_0000_0000;
        for (ba_pg_sz, hop) in (0..16u8).flat_map(|ba_pg_sz| [(ba_pg_sz, 2u8), (ba_pg_sz, 3)]) {
            // Pages behind a pointer of the root table.
            let pages_log2 = (9 + u32::from(ba_pg_sz)) * u32::from(hop - 1);
            for power in pages_log2..32 {
                root += 0x1000;
                while !Memory::is_first(root) {
                    root += 0x1000;
                }
                let owner = Owner { mpt_index: power << 8 | u32::from(ba_pg_sz) << 4, epoch: hop.into(), table_set: 0 };
                let count = (1 << power) + 1;
                let at = |table: u32| Walk { owner, ba_pg_sz, count, ..Walk::plain(hop, root, table << pages_log2) };
                let tables = 0..8u32.min((1 << (power - pages_log2)) + 1);
                for table in 0..8u32 {
                    rig.memory.words.insert(root + 8 * u64::from(table), u64::from(1 + table) << 40);
                }
                for table in tables.clone() {
                    for read in 1..usize::from(hop) {
                        let next = u64::from(1 + table) << 40 | (read as u64) << 36;
                        at(table).plant(&mut rig.memory, Controls::RESET, read, next);
                    }
                }
                assert_eq!(rig.reads_of(at(0))?.len(), usize::from(hop));
                for table in tables.skip(1) {
                    let reads = rig.reads_of(at(table))?.len();
                    assert_eq!(reads, usize::from(hop) - 1, "{:?}: its pointer came with another", at(table));
                }
            }
        }
        Ok(())
    })
}

/// The pointer itself, and one that comes with a good one in its line.
#[test]
fn a_misaligned_pointer_fails_every_time() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        let mut rig = Rig::new(design, 50, Controls::RESET, NO_STALLS)?;
        rig.may_save_reads = true;
        let mut root = 0x1000_0000_0000;
        for ba_pg_sz in 0..16u8 {
            for (bit, (hop, read)) in
                (3..12 + ba_pg_sz).flat_map(|bit| [(2u8, 0u8), (3, 0), (3, 1)].map(|of| (bit, of)))
            {
                root += 0x1000;
                while !Memory::is_first(root) || !Memory::is_first(root << 16) {
                    root += 0x1000;
                }
                let owner = Owner { mpt_index: bit.into(), epoch: u32::from(ba_pg_sz << 3 | hop << 1 | read), ..OWNER };
                let count = u32::MAX;
                let good = Walk { owner, ba_pg_sz, count, ..Walk::plain(hop, root, 0) };
                // The first page of the next table; there is none where a table holds all of them.
                let pages_log2 = (9 + u32::from(ba_pg_sz)) * u32::from(hop - 1 - read);
                let Some(index) = 1u32.checked_shl(pages_log2) else { continue };
                let bad = Walk { index, ..good };
                for earlier in 0..read {
                    good.plant(&mut rig.memory, Controls::RESET, earlier.into(), root << 16);
                }
                // What stands there is good: who takes the pointer out of a cache would not notice.
                bad.plant(&mut rig.memory, Controls::RESET, read.into(), 1 << 60 | 1 << bit);
                rig.memory.words.insert(1 << 60 | 1 << bit, 1 << 50);
                for rest in read..hop {
                    let table = root << 16 ^ (1 + u64::from(rest)) << 40;
                    if !rig
                        .memory
                        .words
                        .contains_key(&good.outcome(&rig.memory, Controls::RESET).reads[usize::from(rest)].1)
                    {
                        good.plant(&mut rig.memory, Controls::RESET, rest.into(), table);
                    }
                }
                rig.walk_alone(good, Status::Ok, 0)?;
                rig.finish_fills()?;
                for _ in 0..2 {
                    rig.walk_alone(bad, Status::MtrMisaligned, read + 1)?;
                    rig.finish_fills()?;
                }
            }
        }
        Ok(())
    })
}

#[test]
fn wanted_pages_are_entered_whatever_waits() -> Result<(), Error> {
    DESIGNS.into_iter().try_for_each(|design| {
        const WALKS: u32 = 1200;
        let mut rig = Rig::new(design, 45, Controls::RESET, NO_STALLS)?;
        rig.may_save_reads = true;
        let region = Region::new(&mut rig, OWNER, 1, 0x1000_0000_0000, 8 * WALKS, 0);
        // A line for each walk, as fast as contexts allow: far more neighbours than there are cycles.
        let outcomes = (0..WALKS).map(|number| rig.push(region.walk(8 * number + 3))).collect::<Result<Vec<_>, _>>()?;
        rig.finish(100_000, outcomes)?;
        rig.finish_fills()?;
        let pages: HashSet<u32> = rig.filled.iter().map(|(_, fill)| fill.virtual_page - region.first_page).collect();
        assert_eq!(pages.len(), rig.filled.len(), "no page is entered twice");
        for number in 0..WALKS {
            assert!(pages.contains(&(8 * number + 3)), "page {} was wanted", 8 * number + 3);
        }
        // 127 lines wait at the most, and some are done meanwhile.
        println!("{} pages entered for {WALKS} walks", pages.len());
        assert!(pages.len() > WALKS as usize + 100 * 7 * 3 / 4);

        // What waits at a flush is dropped.
        let region = Region::new(&mut rig, Owner { epoch: 1, ..OWNER }, 1, 0x1000_0000_0000, 8 * WALKS, 1);
        let outcomes = (0..60).map(|number| rig.push(region.walk(8 * number + 3))).collect::<Result<Vec<_>, _>>()?;
        rig.finish_walks(2000)?;
        drop(outcomes);
        rig.flush()?;
        let filled = rig.filled.len();
        rig.finish_fills()?;
        assert_eq!(rig.filled.len(), filled);
        Ok(())
    })
}
