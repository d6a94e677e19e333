//! Block `hem_lookup`.

#[path = "common/line_requests.rs"]
mod line_requests;
#[path = "common/plru.rs"]
mod plru;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use keywalk_contract::{Config, Status, Table};
use keywalk_cosim::{
    Beat, Bench, Component, Dut, Error, Handle, Input, Model, Output, Signal, Stall, StreamDriver, StreamSink, dut,
};
use line_requests::{LineRequest, LineRequests};
use plru::Plru;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Few contexts and BT0 slots, two table sets.
const SMALL: &Dut = &dut::HEM_LOOKUP;
/// The default configuration.
const DEFAULT: &Dut = &dut::HEM_LOOKUP_DEFAULT;
/// Cycles from the acceptance of a lookup to its first line request.
const FIRST_REQUEST_CYCLES: u64 = 4;
/// Cycles from a line to the next request.
const NEXT_REQUEST_CYCLES: u64 = 2;
/// Bits of a packed epoch below those of the HEM pointers.
const ENTRY_EPOCH_BITS: u32 = 37;
/// Cycles from a request to the word that it has missed.
const MISS_CYCLES: usize = 3;
/// Requests in a row that a lookup waits for, and the cycles until a gap that was asked for is there.
const REQUESTS_PER_GAP: u64 = 16;
const GAP_CYCLES: u64 = 4;
/// Cycles from the line of a chunk pointer to the answer.
const ANSWER_CYCLES: u64 = 6;
/// The divider is busy for at least so long with one lookup whose slots hold 64 objects.
const DIVISION_CYCLES: u64 = 27;
/// Cycles from a write to the first lookup that is sure to see it.
const WRITE_CYCLES: u64 = 3;
/// Cycles from the acceptance of a line request to the line at the earliest.
const EARLIEST_LINE_CYCLES: u64 = 4;
/// No wait takes longer, whatever is going on.
const LIMIT_CYCLES: u64 = 200_000;

/// Memory without an end: what no test has written is a function of the address.
#[derive(Clone)]
struct Memory {
    seed: u64,
    /// Of 256 pointers: zero ones, misaligned ones, and quarters of a line with a bus error.
    faults: [u8; 3],
    words: HashMap<u64, u64>,
    errors: HashSet<u64>,
}

impl Memory {
    fn new(seed: u64) -> Self {
        Self { seed, faults: [0; 3], words: HashMap::new(), errors: HashSet::new() }
    }

    fn random_at(&self, place: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The pointer at an address that is a multiple of 8.
    fn word(&self, address: u64) -> u64 {
        if let Some(word) = self.words.get(&address) {
            return *word;
        }
        let mut random = self.random_at(address);
        let [zero, misaligned, _] = self.faults;
        let page = match random.random_range(0..4) {
            0 => random.random::<u64>() | 0xffff_ffff_f000_0000,
            1 => random.random_range(0x1000..0x10_0000),
            _ => random.random(),
        } & !0xfff;
        let draw = random.random::<u8>();
        if draw < zero {
            0
        } else if draw < zero + misaligned {
            page | random.random_range(1..0x1000) & [0xfff, 0xff8, 0xfc0, 0x800][random.random_range(0..4)]
        } else {
            page
        }
    }

    /// The words of a line.
    fn line(&self, line: u64) -> [u64; 8] {
        std::array::from_fn(|word| self.word((line << 6) + 8 * word as u64))
    }

    /// Whether the 16 bytes around an address cannot be read.
    fn is_broken(&self, address: u64) -> bool {
        let quarter = address >> 4;
        self.errors.contains(&quarter) || self.random_at(!quarter).random::<u8>() < self.faults[2]
    }

    fn errors(&self, line: u64) -> u128 {
        (0..4).map(|quarter| u128::from(self.is_broken((line << 6) + 16 * quarter)) << quarter).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct Geometry {
    hop_num: u32,
    ba_pg_sz: u32,
    buf_pg_sz: u32,
    entry_bytes_log2: u32,
    bt_num: u32,
    object_count: u32,
}

/// After reset.
const RESET: Geometry =
    Geometry { hop_num: 0, ba_pg_sz: 0, buf_pg_sz: 0, entry_bytes_log2: 6, bt_num: 1, object_count: 0 };

/// What has been written to the block: the reference walks it.
#[derive(Clone)]
struct Tables {
    geometries: HashMap<(u64, u8), Geometry>,
    bt0: HashMap<(u64, u8, u64), u64>,
    alignment_check: bool,
}

/// What a lookup comes to: an address, or a status and a hop; and the addresses that are read.
struct Outcome {
    result: Result<u64, (Status, u8)>,
    reads: Vec<u64>,
}

impl Tables {
    /// The contract's words in integers.
    fn walk(&self, memory: &Memory, table_set: u64, table: u8, index: u32, reads_entry: bool) -> Outcome {
        let mut reads = Vec::new();
        let result = self.steps(memory, table_set, table, index, reads_entry, &mut reads);
        Outcome { result, reads }
    }

    fn steps(
        &self,
        memory: &Memory,
        table_set: u64,
        table: u8,
        index: u32,
        reads_entry: bool,
        reads: &mut Vec<u64>,
    ) -> Result<u64, (Status, u8)> {
        let geometry = *self.geometries.get(&(table_set, table)).unwrap_or(&RESET);
        let index = u64::from(index);
        if geometry.object_count != 0 && index >= geometry.object_count.into() {
            return Err((Status::IndexOutOfRange, 0));
        }
        let entry_bytes = 1u64 << geometry.entry_bytes_log2;
        let objects_per_chunk = (4096 << geometry.buf_pg_sz) / entry_bytes;
        let page_entries = u128::from((4096u64 << geometry.ba_pg_sz) / 8);
        let chunk = u128::from(index / objects_per_chunk);
        let hops = geometry.hop_num;
        let level_0 = chunk / page_entries.pow(hops) % u128::from(geometry.bt_num);
        let mut pointer = *self.bt0.get(&(table_set, table, level_0 as u64)).unwrap_or(&0);
        for hop in 0..=hops {
            let number = hop as u8;
            if pointer == 0 {
                return Err((if hop == 0 { Status::Bt0Unset } else { Status::HemPointerZero }, number));
            }
            let alignment = match (self.alignment_check, hop == hops, reads_entry) {
                (true, ..) => 4096,
                (false, false, _) => 8,
                (false, true, true) => 64,
                (false, true, false) => 1,
            };
            if !pointer.is_multiple_of(alignment) {
                return Err((Status::HemMisaligned, number));
            }
            if hop < hops {
                let level_index = chunk / page_entries.pow(hops - hop - 1) % page_entries;
                let address = pointer.wrapping_add(level_index as u64 * 8);
                reads.push(address);
                if memory.is_broken(address) {
                    return Err((Status::HemBusError, number));
                }
                pointer = memory.word(address);
            }
        }
        let address = pointer.wrapping_add(index % objects_per_chunk * entry_bytes);
        if reads_entry {
            reads.push(address);
            if memory.errors(address >> 6) != 0 {
                return Err((Status::HemBusError, hops as u8));
            }
        }
        Ok(address)
    }
}

/// What goes between a test and its [`Requester`].
#[derive(Default)]
struct Requests {
    /// Misses to be asked for.
    waiting: VecDeque<Fields>,
    /// Of 100 cycles without a miss, those with a request that finds its entry.
    hits_percent: u32,
    /// Cycles of the requests that missed.
    accepted: VecDeque<u64>,
    /// Requests of either kind so far.
    count: u64,
}

/// The lookup in front of the block: requests, and three cycles later those of them that have missed, as many as there are
/// contexts; a gap where one is wanted, and nothing before the block is ready.
struct Requester {
    requests: Rc<RefCell<Requests>>,
    contexts: u64,
    in_flight: u64,
    random: ChaCha8Rng,
    /// Requests on their way to a miss, the eldest last.
    stages: [Option<Fields>; MISS_CYCLES],
    request_valid: Input,
    request: Vec<(&'static str, Input)>,
    miss_valid: Input,
    miss: Vec<(&'static str, Input)>,
    gap_wanted: Output,
    replay_valid: Output,
    ready: Output,
    /// No request may come in the next cycle.
    is_stopped: bool,
}

impl Requester {
    fn new(model: &Model, contexts: u64, random: ChaCha8Rng) -> Result<Self, Error> {
        let inputs = |channel: &str, fields: &[&'static str]| {
            let input = |field: &&'static str| Ok((*field, model.input(&format!("{channel}_{field}"))?));
            fields.iter().map(input).collect::<Result<Vec<_>, Error>>()
        };
        Ok(Self {
            requests: Rc::default(),
            contexts,
            in_flight: 0,
            random,
            stages: Default::default(),
            request_valid: model.input("request_valid")?,
            request: inputs("request", &["table_set", "index", "epoch"])?,
            miss_valid: model.input("miss_valid")?,
            miss: inputs("miss", &MISS_FIELDS)?,
            gap_wanted: model.output("gap_wanted")?,
            replay_valid: model.output("replay_valid")?,
            ready: model.output("ready")?,
            is_stopped: true,
        })
    }
}

impl Component for Requester {
    fn drive(&mut self, model: &mut Model) {
        let mut requests = self.requests.borrow_mut();
        let missed = self.stages[MISS_CYCLES - 1].take();
        self.stages.rotate_right(1);
        model.set(self.miss_valid, missed.is_some().into());
        for (field, input) in &self.miss {
            let any = self.random.random::<u64>() >> (64 - Signal::from(*input).width());
            model.set(*input, missed.as_ref().map_or(any, |miss| miss[field] as u64));
        }
        let may_miss = !self.is_stopped && self.in_flight < self.contexts;
        let miss = if may_miss { requests.waiting.pop_front() } else { None };
        let hits = miss.is_none() && !self.is_stopped && self.random.random_range(0..100) < requests.hits_percent;
        model.set(self.request_valid, (miss.is_some() || hits).into());
        requests.count += u64::from(miss.is_some() || hits);
        for (field, input) in &self.request {
            let value = |miss: &Fields| if *field == "epoch" { miss["epoch"] >> ENTRY_EPOCH_BITS } else { miss[field] };
            let any = self.random.random::<u64>() >> (64 - Signal::from(*input).width());
            model.set(*input, miss.as_ref().map_or(any, |miss| value(miss) as u64));
        }
        if miss.is_some() {
            requests.accepted.push_back(model.cycles());
            self.in_flight += 1;
        }
        self.stages[0] = miss;
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        self.is_stopped = model.get(self.gap_wanted) == 1 || model.get(self.ready) == 0;
        self.in_flight -= model.get(self.replay_valid);
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        model.set(self.request_valid, 0);
        model.set(self.miss_valid, 0);
        self.requests.borrow_mut().waiting.clear();
        self.stages = Default::default();
        self.in_flight = 0;
        self.is_stopped = true;
    }
}

/// Counts of the pulses of the pointer caches: hits, misses, evictions; and of the reads by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    hits: u64,
    misses: u64,
    evictions: u64,
    reads: [u64; 4],
}

/// Counts the pulses.
struct PulseCounter {
    pulses: [Output; 7],
    counts: Rc<RefCell<Counts>>,
}

impl PulseCounter {
    fn new(model: &Model) -> Result<Self, Error> {
        let pulse = |name: &str| model.output(name);
        let pulses = [
            pulse("pointer_hit")?,
            pulse("pointer_miss")?,
            pulse("pointer_evicted")?,
            pulse("read_issued_0")?,
            pulse("read_issued_1")?,
            pulse("read_issued_2")?,
            pulse("read_issued_3")?,
        ];
        Ok(Self { pulses, counts: Rc::default() })
    }
}

impl Component for PulseCounter {
    fn drive(&mut self, _model: &mut Model) {}

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let [hit, miss, evicted, reads @ ..] = self.pulses.map(|pulse| model.get(pulse));
        let mut counts = self.counts.borrow_mut();
        counts.hits += hit;
        counts.misses += miss;
        counts.evictions += evicted;
        for (count, pulse) in counts.reads.iter_mut().zip(reads) {
            *count += pulse;
        }
        Ok(())
    }

    fn reset(&mut self, _model: &mut Model) {
        *self.counts.borrow_mut() = Counts::default();
    }
}

/// A line on its way.
struct Line {
    due_cycle: u64,
    context: u128,
    level: u128,
    word: u128,
    line: u64,
}

/// The block between its neighbours.
struct Fixture {
    bench: Bench,
    config: Config,
    requests: Rc<RefCell<Requests>>,
    lookup: Handle<StreamDriver>,
    geometry_write: Handle<StreamDriver>,
    bt0_write: Handle<StreamDriver>,
    line: Handle<StreamDriver>,
    line_requests: Handle<LineRequests>,
    early_valid: Input,
    early_context: Input,
    counts: Rc<RefCell<Counts>>,
    replay: Handle<StreamSink>,
    answer: Handle<StreamSink>,
    ready: Output,
    idle: Output,
    random: ChaCha8Rng,
    memory: Memory,
    tables: Tables,
    /// Smallest and largest latency of the table port.
    latency_cycles: (u64, u64),
    /// While set, no line is delivered.
    holds_lines: bool,
    /// The lines are delivered as those of requests that joined another one.
    are_joined: bool,
    /// Whether lookups may start at cached pointers, so that fewer lines are read than the reference reads.
    is_cached: bool,
    /// Of the lookups asked: HEM epoch.
    epoch: u64,
    travelling: Vec<Line>,
    waiting: HashSet<u128>,
    lines_read: Vec<u64>,
    lines_expected: Vec<u64>,
    /// Cycles of the line requests and of the lines.
    request_cycles: Vec<u64>,
    line_cycles: Vec<u64>,
    asked: u64,
    replays_expected: Vec<Fields>,
    answers_expected: Vec<Fields>,
}

/// Fields of a beat by name.
type Fields = BTreeMap<&'static str, u128>;

const MISS_FIELDS: [&str; 17] = [
    "va",
    "tag",
    "function",
    "table_set",
    "operation",
    "key",
    "pd",
    "qpn",
    "length",
    "index",
    "is_rebased",
    "is_parent",
    "is_beyond",
    "region_va",
    "order",
    "admission",
    "epoch",
];
const ANSWER_FIELDS: [&str; 8] = ["tag", "function", "status", "table", "hop", "address", "index", "admission"];
const ENTRY_FIELDS: [&str; 4] = ["entry_0", "entry_1", "entry_2", "entry_3"];

impl Fixture {
    fn new(dut: &'static Dut, seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(dut, seed);
        let config = bench.model().dut().config().expect("the block is generated");
        let random = bench.random();
        let requester = Requester::new(bench.model(), config.hem_contexts.into(), random)?;
        let requests = Rc::clone(&requester.requests);
        requests.borrow_mut().hits_percent = if stall == Stall::NEVER { 0 } else { 40 };
        bench.add(requester);
        let lookup = bench.driver("lookup", stall)?;
        let geometry_write = bench.driver("geometry_write", stall)?;
        let bt0_write = bench.driver("bt0_write", stall)?;
        let line = bench.driver("line", Stall::NEVER)?;
        let line_requests = LineRequests::take(&mut bench, if stall == Stall::NEVER { 0 } else { 30 })?;
        let pulse_counter = PulseCounter::new(bench.model())?;
        let counts = Rc::clone(&pulse_counter.counts);
        bench.add(pulse_counter);
        let early_valid = bench.model().input("early_valid")?;
        let early_context = bench.model().input("early_context")?;
        let replay = bench.sink("replay", Stall::NEVER)?;
        let answer = bench.sink("answer", stall)?;
        let (ready, idle) = (bench.model().output("ready")?, bench.model().output("idle")?);
        bench[lookup].record_acceptances();
        let random = bench.random();
        let tables = Tables { geometries: HashMap::new(), bt0: HashMap::new(), alignment_check: true };
        let mut fixture = Self {
            bench,
            config,
            requests,
            lookup,
            geometry_write,
            bt0_write,
            line,
            line_requests,
            early_valid,
            early_context,
            counts,
            replay,
            answer,
            ready,
            idle,
            random,
            memory: Memory::new(seed),
            tables,
            latency_cycles: (1, 1),
            holds_lines: false,
            are_joined: false,
            is_cached: false,
            epoch: 0,
            travelling: Vec::new(),
            waiting: HashSet::new(),
            lines_read: Vec::new(),
            lines_expected: Vec::new(),
            request_cycles: Vec::new(),
            line_cycles: Vec::new(),
            asked: 0,
            replays_expected: Vec::new(),
            answers_expected: Vec::new(),
        };
        fixture.reset()?;
        fixture.wait_ready()?;
        Ok(fixture)
    }

    /// Resets block, neighbours and reference; the alignment check is on.
    fn reset(&mut self) -> Result<(), Error> {
        self.bench.reset(3)?;
        self.travelling.clear();
        self.waiting.clear();
        self.lines_read.clear();
        self.lines_expected.clear();
        self.replays_expected.clear();
        self.answers_expected.clear();
        self.tables.geometries.clear();
        self.tables.bt0.clear();
        self.set_alignment_check(true)?;
        Ok(())
    }

    fn wait_ready(&mut self) -> Result<(), Error> {
        let words = 8 * self.config.table_sets * self.config.bt0_slots;
        let limit_cycles = u64::from(words.max(self.config.hem_contexts)) + 10;
        let ready = self.ready;
        self.bench.run_until("the scrub", limit_cycles, |bench| bench.model().get(ready) == 1)
    }

    fn set_alignment_check(&mut self, is_on: bool) -> Result<(), Error> {
        let port = self.bench.model().input("alignment_check")?;
        self.bench.model_mut().set(port, is_on.into());
        self.tables.alignment_check = is_on;
        self.bench.run(2)
    }

    fn is_idle(&self) -> bool {
        self.bench.model().get(self.idle) == 1
    }

    /// A cycle of the block and of the table port.
    fn cycle(&mut self) -> Result<(), Error> {
        self.bench.cycle()?;
        while let Some(request) = self.bench[self.line_requests].pop() {
            let LineRequest { cycle, context, level, word, line } = request;
            assert!(context < 1 << self.config.hem_context_bits(), "context {context}");
            assert!(self.waiting.insert(context), "context {context} has two reads in flight");
            self.lines_read.push(line);
            self.request_cycles.push(cycle);
            let (least, most) = self.latency_cycles;
            let due_cycle = cycle + EARLIEST_LINE_CYCLES + self.random.random_range(least..=most);
            self.travelling.push(Line { due_cycle, context, level, word, line });
        }
        // The line that is chosen now comes in the cycle after the coming one, which tells its context.
        let next = self.bench.cycles() + 1;
        let due: Vec<_> = (0..self.travelling.len()).filter(|i| self.travelling[*i].due_cycle <= next).collect();
        let (early_valid, early_context) = if !self.holds_lines && !due.is_empty() {
            let Line { context, level, word, line, .. } =
                self.travelling.swap_remove(due[self.random.random_range(0..due.len())]);
            self.waiting.remove(&context);
            let words = self.memory.line(line).map(u128::from);
            let errors = self.memory.errors(line);
            self.line_cycles.push(next);
            let fields = [
                ("context", context),
                ("level", level),
                ("word", word),
                ("is_first", (!self.are_joined).into()),
                ("value", words[word as usize]),
                ("value_error", errors >> (word / 2) & 1),
                ("error", (errors != 0).into()),
                ("data_0", words[1] << 64 | words[0]),
                ("data_1", words[3] << 64 | words[2]),
                ("data_2", words[5] << 64 | words[4]),
                ("data_3", words[7] << 64 | words[6]),
            ];
            let driver = &mut self.bench[self.line];
            let beat = Beat::with(driver.channel().shape(), &fields)?;
            driver.push_not_before(beat, next);
            (true, context as u64)
        } else {
            // It may be set where no line follows, too.
            let is_set = self.requests.borrow().hits_percent > 0 && self.random.random_range(0..4) == 0;
            (is_set, self.random.random_range(0..1 << self.config.hem_context_bits()))
        };
        for (port, value) in [(self.early_valid, early_valid.into()), (self.early_context, early_context)] {
            self.bench.model_mut().set(port, value);
        }
        Ok(())
    }

    fn cycles_until(&mut self, waited_for: &str, mut condition: impl FnMut(&Self) -> bool) -> Result<(), Error> {
        let start = self.bench.cycles();
        while !condition(self) {
            assert!(self.bench.cycles() - start < LIMIT_CYCLES, "waited for {waited_for}");
            self.cycle()?;
        }
        Ok(())
    }

    /// Writes a geometry to block and reference; [`settle_writes`](Self::settle_writes) must follow.
    fn write_geometry(&mut self, table_set: u64, table: u8, geometry: Geometry) -> Result<(), Error> {
        self.tables.geometries.insert((table_set, table), geometry);
        self.bench[self.geometry_write].push_fields(&[
            ("table_set", table_set.into()),
            ("table", table.into()),
            ("hop_num", geometry.hop_num.into()),
            ("ba_pg_sz", geometry.ba_pg_sz.into()),
            ("buf_pg_sz", geometry.buf_pg_sz.into()),
            ("entry_bytes_log2", geometry.entry_bytes_log2.into()),
            ("bt_num", geometry.bt_num.into()),
            ("object_count", geometry.object_count.into()),
        ])
    }

    /// Writes a BT0 slot, `None` clears it. A slot that the configuration has not is left out.
    fn write_bt0(&mut self, table_set: u64, table: u8, slot: u64, base: Option<u64>) -> Result<(), Error> {
        if slot >= self.config.bt0_slots.into() {
            return Ok(());
        }
        self.tables.bt0.insert((table_set, table, slot), base.unwrap_or(0));
        let address = base.unwrap_or_else(|| self.random.random());
        self.bench[self.bt0_write].push_fields(&[
            ("table_set", table_set.into()),
            ("table", table.into()),
            ("slot", slot.into()),
            ("is_set", base.is_some().into()),
            ("address", address.into()),
        ])
    }

    fn settle_writes(&mut self) -> Result<(), Error> {
        self.cycles_until("the writes", |fixture| {
            fixture.bench[fixture.geometry_write].pending() + fixture.bench[fixture.bt0_write].pending() == 0
        })?;
        self.bench.run(WRITE_CYCLES - 1)
    }

    /// Empties the caches.
    fn flush(&mut self) -> Result<(), Error> {
        let flush = self.bench.model().input("pointer_flush")?;
        self.bench.model_mut().set(flush, 1);
        self.cycle()?;
        self.bench.model_mut().set(flush, 0);
        let sets = self.config.hem_cache_sets * self.config.hem_cache_ways;
        for _ in 0..sets + 5 {
            self.cycle()?;
        }
        Ok(())
    }

    /// The pulses since the last call.
    fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut *self.counts.borrow_mut())
    }

    /// Without caches no two lookups share an epoch.
    fn next_epoch(&mut self) -> u128 {
        if !self.is_cached {
            self.epoch = (self.epoch + 1) % 1024;
        }
        self.epoch.into()
    }

    /// Asks for the MPT entry of `index`.
    fn ask_miss(&mut self, table_set: u64, index: u32) -> Result<Outcome, Error> {
        let epoch = self.next_epoch();
        let outcome = self.tables.walk(&self.memory, table_set, Table::Mpt.code(), index, true);
        self.lines_expected.extend(outcome.reads.iter().map(|address| address >> 6));
        self.asked += 1;
        let mut random = |bits: u32| u128::from(self.random.next_u64() >> (64 - bits));
        let mut fields: Fields = [
            ("va", self.asked.into()),
            ("tag", random(self.config.tag_bits)),
            ("function", random(self.config.function_bits)),
            ("table_set", table_set.into()),
            ("operation", random(4)),
            ("key", random(32)),
            ("pd", random(24)),
            ("qpn", random(24)),
            ("length", random(32)),
            ("index", index.into()),
            ("is_rebased", random(1)),
            ("is_parent", random(1)),
            ("is_beyond", random(1)),
            ("region_va", random(64)),
            ("order", random(self.config.order_bits())),
            ("admission", random(17)),
            ("epoch", epoch << ENTRY_EPOCH_BITS | random(ENTRY_EPOCH_BITS)),
        ]
        .into();
        self.requests.borrow_mut().waiting.push_back(fields.clone());
        let (status, hop) = match outcome.result {
            Ok(address) => {
                let words = self.memory.line(address >> 6).map(u128::from);
                for (lane, name) in ENTRY_FIELDS.into_iter().enumerate() {
                    fields.insert(name, words[2 * lane + 1] << 64 | words[2 * lane]);
                }
                (Status::Ok, 0)
            }
            Err(failure) => failure,
        };
        fields.extend([("status", status.code().into()), ("hop", hop.into())]);
        self.replays_expected.push(fields);
        Ok(outcome)
    }

    /// Asks for the address of an object's context entry.
    fn ask_lookup(&mut self, table_set: u64, table: u8, index: u32) -> Result<Outcome, Error> {
        let epoch = self.next_epoch();
        let outcome = self.tables.walk(&self.memory, table_set, table, index, false);
        self.lines_expected.extend(outcome.reads.iter().map(|address| address >> 6));
        self.asked += 1;
        let tag = u128::from(self.asked & ((1 << self.config.tag_bits) - 1));
        let function = u128::from(self.random.next_u64() >> (64 - self.config.function_bits));
        let admission = u128::from(self.random.next_u64() >> 47);
        self.bench[self.lookup].push_fields(&[
            ("tag", tag),
            ("function", function),
            ("table_set", table_set.into()),
            ("table", table.into()),
            ("index", index.into()),
            ("admission", admission),
            ("epoch", epoch << ENTRY_EPOCH_BITS),
        ])?;
        let (status, table, hop, address) = match outcome.result {
            Ok(address) => (Status::Ok, 0, 0, address),
            Err((status, hop)) => (status, table, hop, 0),
        };
        let fields = [
            ("tag", tag),
            ("function", function),
            ("status", status.code().into()),
            ("table", table.into()),
            ("hop", hop.into()),
            ("address", address.into()),
            ("index", index.into()),
            ("admission", admission),
        ];
        self.answers_expected.push(fields.into());
        Ok(outcome)
    }

    /// Runs until everything asked for is answered, and compares answers, replays and reads with the reference.
    fn check(&mut self) -> Result<(), Error> {
        self.cycles_until("the answers", |fixture| {
            fixture.bench[fixture.replay].len() == fixture.replays_expected.len()
                && fixture.bench[fixture.answer].len() == fixture.answers_expected.len()
        })?;
        for _ in 0..10 {
            self.cycle()?;
        }
        assert!(self.is_idle(), "everything is answered");
        let mut replays = Vec::new();
        while let Some(received) = self.bench[self.replay].pop() {
            let mut fields = Fields::new();
            for name in MISS_FIELDS.into_iter().chain(["status", "hop"]) {
                fields.insert(name, received.get(name)?);
            }
            if fields["status"] == 0 {
                for name in ENTRY_FIELDS {
                    fields.insert(name, received.get(name)?);
                }
            }
            replays.push(fields);
        }
        let mut answers = Vec::new();
        while let Some(received) = self.bench[self.answer].pop() {
            let field = |name| Ok((name, received.get(name)?));
            answers.push(ANSWER_FIELDS.into_iter().map(field).collect::<Result<Fields, Error>>()?);
        }
        compare("replay", replays, std::mem::take(&mut self.replays_expected), "va");
        compare("answer", answers, std::mem::take(&mut self.answers_expected), "index");
        self.lines_read.sort_unstable();
        self.lines_expected.sort_unstable();
        if self.is_cached {
            let mut expected = self.lines_expected.iter();
            let is_needed = self.lines_read.iter().all(|line| expected.any(|expected| expected == line));
            assert!(is_needed, "a line is read more often than without caches");
        } else {
            assert_eq!(self.lines_read, self.lines_expected, "lines read");
        }
        self.lines_read.clear();
        self.lines_expected.clear();
        if self.is_cached { Ok(()) } else { self.flush() }
    }

    /// Asks one context lookup and says what it must come to.
    fn check_lookup(&mut self, table: Table, index: u32, expected: Result<u64, (Status, u8)>) -> Result<(), Error> {
        let outcome = self.ask_lookup(0, table.code(), index)?;
        assert_eq!(outcome.result, expected, "{} {index:#x} by the reference", table.name());
        self.check()
    }

    /// Asks one miss and says what it must come to.
    fn check_miss(&mut self, index: u32, expected: Result<u64, (Status, u8)>) -> Result<(), Error> {
        let outcome = self.ask_miss(0, index)?;
        assert_eq!(outcome.result, expected, "entry {index:#x} by the reference");
        self.check()
    }

    /// A legal geometry; the MPT's entries have 64 bytes.
    fn random_geometry(&mut self, table: u8) -> Geometry {
        let random = &mut self.random;
        let small_or_any = |random: &mut ChaCha8Rng| {
            if random.random() { random.random_range(0..3) } else { random.random_range(0..16) }
        };
        Geometry {
            hop_num: random.random_range(0..4),
            ba_pg_sz: small_or_any(random),
            buf_pg_sz: small_or_any(random),
            entry_bytes_log2: if table == Table::Mpt.code() { 6 } else { random.random_range(5..=12) },
            bt_num: match random.random_range(0..4) {
                0 => [1, 12, 17, 1024][random.random_range(0..4)],
                1 => random.random_range(1..=1024),
                _ => random.random_range(1..=40),
            },
            object_count: if random.random() {
                0
            } else {
                (random.random::<u32>() >> random.random_range(0..32)).max(1)
            },
        }
    }

    /// Random geometries and BT0 slots for every table of every set; `faults` spoils some slots.
    fn write_random_tables(&mut self, faults: bool) -> Result<(), Error> {
        for table_set in 0..u64::from(self.config.table_sets) {
            for table in 0..8 {
                let geometry = self.random_geometry(table);
                if table == 7 {
                    // Code 7 names no table: the block must take neither of the writes.
                    self.write_geometry(table_set, table, geometry)?;
                    self.write_bt0(table_set, table, 0, Some(0x1000))?;
                    self.tables.geometries.remove(&(table_set, table));
                    self.tables.bt0.remove(&(table_set, table, 0));
                    continue;
                }
                self.write_geometry(table_set, table, geometry)?;
                for slot in 0..u64::from(geometry.bt_num.min(self.config.bt0_slots)) {
                    let page = self.random.random::<u64>() & !0xfff | 0x1000;
                    let low =
                        self.random.random_range(1..0x1000) & [0xfff, 0xff8, 0xfc0][self.random.random_range(0..3)];
                    let base = match self.random.random_range(0..20) {
                        0 if faults => None,
                        1 if faults => Some(0),
                        2 | 3 if faults => Some(page | low),
                        _ => Some(page),
                    };
                    self.write_bt0(table_set, table, slot, base)?;
                }
            }
        }
        self.settle_writes()
    }

    /// Random lookups of all tables.
    fn ask_random(&mut self, count: u32) -> Result<(), Error> {
        for _ in 0..count {
            let table_set = self.random.random_range(0..u64::from(self.config.table_sets));
            let shift = self.random.random_range(0..32);
            let index = self.random.random::<u32>() >> shift;
            if self.random.random() {
                self.ask_miss(table_set, index & 0xff_ffff)?;
            } else {
                let table = self.random.random_range(0..8);
                self.ask_lookup(table_set, table, index)?;
            }
        }
        Ok(())
    }
}

/// Compares beats that may come in any order.
fn compare(what: &str, mut received: Vec<Fields>, mut expected: Vec<Fields>, key: &str) {
    let order = |fields: &Fields| (fields[key], fields.values().copied().collect::<Vec<_>>());
    received.sort_by_cached_key(order);
    expected.sort_by_cached_key(order);
    for (received, expected) in received.iter().zip(&expected) {
        assert_eq!(received, expected, "{what}");
    }
    assert_eq!(received.len(), expected.len(), "number of beats: {what}");
}

/// As [`directed`], with caches.
fn cached(dut: &'static Dut, hop_num: u32) -> Result<Fixture, Error> {
    let mut fixture = directed(dut, hop_num)?;
    fixture.is_cached = true;
    fixture.flush()?;
    Ok(fixture)
}

/// The tables of the directed tests: QPC and MPT alike, of one chunk size and with so many hops.
fn directed(dut: &'static Dut, hop_num: u32) -> Result<Fixture, Error> {
    let mut fixture = Fixture::new(dut, 100 + u64::from(hop_num), Stall::NEVER)?;
    let geometry = Geometry { hop_num, bt_num: 3, ..RESET };
    for table in [Table::Qpc, Table::Mpt] {
        fixture.write_geometry(0, table.code(), geometry)?;
        fixture.write_bt0(0, table.code(), 0, Some(0x10_0000))?;
    }
    fixture.settle_writes()?;
    Ok(fixture)
}

/// Pages of the directed tests: read `k` reads word 0 of page `PAGES[k]`, and the last is the chunk.
const PAGES: [u64; 4] = [0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000];

/// Gives every page its pointer to the next one.
fn write_pages(fixture: &mut Fixture) {
    for pair in PAGES.windows(2) {
        fixture.memory.words.insert(pair[0], pair[1]);
    }
}

#[test]
fn after_reset_nothing_is_reachable() -> Result<(), Error> {
    let mut fixture = Fixture::new(SMALL, 1, Stall::NEVER)?;
    for table in Table::ALL {
        for index in [0, 63, 64, u32::MAX] {
            fixture.check_lookup(table, index, Err((Status::Bt0Unset, 0)))?;
        }
    }
    fixture.check_miss(0, Err((Status::Bt0Unset, 0)))?;
    let outcome = fixture.ask_lookup(0, 7, 5)?;
    assert_eq!(outcome.result, Err((Status::Bt0Unset, 0)));
    assert_eq!(fixture.answers_expected[0]["table"], 7);
    fixture.check()
}

#[test]
fn the_worked_example_of_each_hop_count_is_found() -> Result<(), Error> {
    for hops in 0..=3 {
        let mut fixture = directed(SMALL, hops)?;
        write_pages(&mut fixture);
        let chunk = PAGES[hops as usize];
        // The 64 objects of a chunk share its address; objects are 64 bytes long.
        fixture.check_lookup(Table::Qpc, 0, Ok(chunk))?;
        fixture.check_lookup(Table::Qpc, 63, Ok(chunk + 63 * 64))?;
        fixture.check_miss(0, Ok(chunk))?;
        fixture.check_miss(63, Ok(chunk + 63 * 64))?;
        if hops > 0 {
            // Chunk 5: word 5 of the last page of pointers.
            fixture.memory.words.insert(PAGES[hops as usize - 1] + 5 * 8, 0x77_7000);
            fixture.check_miss(5 * 64 + 2, Ok(0x77_7080))?;
        }
        if hops > 1 {
            // Chunk 512 + 1: word 1 of the page that word 1 of the page before points to.
            fixture.memory.words.insert(PAGES[hops as usize - 2] + 8, 0x88_8000);
            fixture.memory.words.insert(0x88_8008, 0x99_9000);
            fixture.check_lookup(Table::Qpc, 513 * 64, Ok(0x99_9000))?;
        }
    }
    Ok(())
}

#[test]
fn a_bad_base_fails_read_0() -> Result<(), Error> {
    for hops in 0..=3 {
        let mut fixture = directed(SMALL, hops)?;
        write_pages(&mut fixture);
        for (base, status) in [
            (None, Status::Bt0Unset),
            (Some(0), Status::Bt0Unset),
            (Some(0x1800), Status::HemMisaligned),
            (Some(0x1040), Status::HemMisaligned),
            (Some(0x1001), Status::HemMisaligned),
        ] {
            for table in [Table::Qpc, Table::Mpt] {
                fixture.write_bt0(0, table.code(), 0, base)?;
            }
            fixture.settle_writes()?;
            fixture.check_lookup(Table::Qpc, 1, Err((status, 0)))?;
            fixture.check_miss(1, Err((status, 0)))?;
        }
    }
    Ok(())
}

#[test]
fn a_bad_pointer_fails_the_read_that_it_was_for() -> Result<(), Error> {
    for hops in 1..=3 {
        for bad in 1..=hops as u8 {
            let mut fixture = directed(SMALL, hops)?;
            write_pages(&mut fixture);
            let place = PAGES[usize::from(bad) - 1];
            for (pointer, status) in [
                (0, Status::HemPointerZero),
                (0x800, Status::HemMisaligned),
                (0x1008, Status::HemMisaligned),
                (0xffff_ffff_ffff_ffff, Status::HemMisaligned),
            ] {
                fixture.memory.words.insert(place, pointer);
                fixture.check_lookup(Table::Qpc, 3, Err((status, bad)))?;
                fixture.check_miss(3, Err((status, bad)))?;
            }
        }
    }
    Ok(())
}

#[test]
fn without_the_alignment_check_only_what_would_leave_a_line_is_refused() -> Result<(), Error> {
    for hops in 0..=3 {
        let mut fixture = directed(SMALL, hops)?;
        write_pages(&mut fixture);
        fixture.set_alignment_check(false)?;
        let last = hops as usize;
        for (low, for_pointers, for_entry) in [
            (0x1, false, false),
            (0x4, false, false),
            (0x8, true, false),
            (0x20, true, false),
            (0x40, true, true),
            (0xfc0, true, true),
        ] {
            for used_by in 0..=last {
                let pointer = 0x50_0000 + low;
                let is_chunk = used_by == last;
                if used_by == 0 {
                    for table in [Table::Qpc, Table::Mpt] {
                        fixture.write_bt0(0, table.code(), 0, Some(pointer))?;
                    }
                    fixture.settle_writes()?;
                } else {
                    fixture.memory.words.insert(PAGES[used_by - 1], pointer);
                }
                if !is_chunk {
                    fixture.memory.words.insert(pointer & !7, PAGES[used_by + 1]);
                }
                let failure = Err((Status::HemMisaligned, used_by as u8));
                let chunk = if is_chunk { pointer } else { PAGES[last] };
                let lookup = if is_chunk || for_pointers { Ok(chunk + 64) } else { failure };
                let miss =
                    if (is_chunk && for_entry) || (!is_chunk && for_pointers) { Ok(chunk + 64) } else { failure };
                fixture.check_lookup(Table::Qpc, 1, lookup)?;
                fixture.check_miss(1, miss)?;
                if used_by == 0 {
                    for table in [Table::Qpc, Table::Mpt] {
                        fixture.write_bt0(0, table.code(), 0, Some(PAGES[0]))?;
                    }
                    fixture.settle_writes()?;
                } else {
                    fixture.memory.words.insert(PAGES[used_by - 1], PAGES[used_by]);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_read_fails_with_its_own_number_and_only_by_the_bytes_it_needs() -> Result<(), Error> {
    for hops in 0..=3 {
        let mut fixture = directed(SMALL, hops)?;
        write_pages(&mut fixture);
        for (read, page) in PAGES.into_iter().enumerate().take(hops as usize + 1) {
            let failure = Err((Status::HemBusError, read as u8));
            for quarter in 0..4 {
                fixture.memory.errors.insert((page >> 4) + quarter);
                let good = Ok(PAGES[hops as usize]);
                let is_entry = read == hops as usize;
                fixture.check_lookup(Table::Qpc, 0, if !is_entry && quarter == 0 { failure } else { good })?;
                fixture.check_miss(0, if is_entry || quarter == 0 { failure } else { good })?;
                fixture.memory.errors.clear();
            }
        }
    }
    Ok(())
}

#[test]
fn every_word_of_a_line_has_its_own_quarter() -> Result<(), Error> {
    let mut fixture = directed(SMALL, 1)?;
    for word in 0..8 {
        for quarter in 0..4 {
            fixture.memory.errors.insert((PAGES[0] >> 4) + quarter);
            let pointer = 0x1000 * (1 + u64::from(word));
            fixture.memory.words.insert(PAGES[0] + 8 * u64::from(word), pointer);
            let is_hit = u64::from(word) / 2 == quarter;
            let expected = if is_hit { Err((Status::HemBusError, 0)) } else { Ok(pointer) };
            fixture.check_lookup(Table::Qpc, word * 64, expected)?;
            fixture.memory.errors.clear();
        }
    }
    Ok(())
}

#[test]
fn an_object_at_or_above_the_count_is_refused_before_anything_else() -> Result<(), Error> {
    let mut fixture = directed(SMALL, 0)?;
    for table in [Table::Mpt, Table::Sccc] {
        for object_count in [1, 64, 0xff_ffff, 0x8000_0000, u32::MAX] {
            // SCCC has no BT0 slot, and the modulo is due as well: the count comes first.
            fixture.write_geometry(0, table.code(), Geometry { object_count, ..RESET })?;
            fixture.settle_writes()?;
            for index in [object_count - 1, object_count, object_count.saturating_add(1)] {
                let outcome = fixture.ask_lookup(0, table.code(), index)?;
                assert_eq!(outcome.result == Err((Status::IndexOutOfRange, 0)), index >= object_count);
                if table == Table::Mpt && index <= 0xff_ffff {
                    fixture.ask_miss(0, index)?;
                }
            }
            fixture.check()?;
        }
    }
    Ok(())
}

#[test]
fn level_0_indices_wrap_at_any_bt_num() -> Result<(), Error> {
    let mut fixture = Fixture::new(DEFAULT, 2, Stall::NEVER)?;
    for bt_num in [1, 2, 12, 17, 1000, 1024] {
        for hop_num in 0..=3 {
            let geometry = Geometry { hop_num, bt_num, ..RESET };
            fixture.write_geometry(0, Table::Cqc.code(), geometry)?;
            for slot in 0..u64::from(bt_num) {
                fixture.write_bt0(0, Table::Cqc.code(), slot, Some(0x1_0000_0000 + (slot << 12)))?;
            }
            fixture.settle_writes()?;
            let span = 64u64 * 512u64.pow(hop_num);
            for slot in [0, 1, 11, 16, 17, 999, 1023, 1024] {
                for alias in [0, 1, 2, 1000] {
                    let level_0 = slot + alias * u64::from(bt_num);
                    if let Ok(index) = u32::try_from(level_0 * span + 5) {
                        fixture.ask_lookup(0, Table::Cqc.code(), index)?;
                    }
                }
            }
            fixture.check()?;
        }
    }
    Ok(())
}

#[test]
fn random_lookups_agree_with_the_reference() -> Result<(), Error> {
    for seed in 0..24 {
        let stall = if seed % 3 == 0 { Stall::NEVER } else { Stall::percent(30).up_to(6) };
        let dut = if seed < 18 { SMALL } else { DEFAULT };
        let mut fixture = Fixture::new(dut, 1000 + seed, stall)?;
        fixture.latency_cycles = [(1, 1), (1, 30), (20, 200)][seed as usize % 3];
        let has_faults = seed % 4 != 0;
        if has_faults {
            fixture.memory.faults = [8, 16, 6];
        }
        fixture.set_alignment_check(seed % 2 == 0)?;
        fixture.is_cached = seed % 6 < 4;
        fixture.are_joined = seed % 5 == 0;
        for _ in 0..4 {
            fixture.write_random_tables(has_faults)?;
            fixture.ask_random(400)?;
            fixture.check()?;
        }
    }
    Ok(())
}

#[test]
fn every_status_and_hop_occurs_in_the_random_lookups() -> Result<(), Error> {
    // The reference alone: what the test above compares covers everything.
    let mut fixture = Fixture::new(SMALL, 1001, Stall::NEVER)?;
    fixture.memory.faults = [8, 16, 6];
    let mut seen = HashSet::new();
    for _ in 0..32 {
        fixture.write_random_tables(true)?;
        fixture.ask_random(500)?;
        seen.extend(fixture.answers_expected.iter().map(|fields| (true, fields["status"], fields["hop"])));
        seen.extend(fixture.replays_expected.iter().map(|fields| (false, fields["status"], fields["hop"])));
        fixture.check()?;
    }
    for is_context in [false, true] {
        for (status, hops) in [
            (Status::Ok, 0..=0),
            (Status::IndexOutOfRange, 0..=0),
            (Status::Bt0Unset, 0..=0),
            (Status::HemPointerZero, 1..=3),
            (Status::HemMisaligned, 0..=3),
            (Status::HemBusError, 0..=if is_context { 2 } else { 3 }),
        ] {
            for hop in hops {
                assert!(seen.contains(&(is_context, status.code().into(), hop)), "{is_context} {status:?} {hop}");
            }
        }
    }
    Ok(())
}

#[test]
fn all_contexts_fill_and_no_more() -> Result<(), Error> {
    let mut fixture = directed(SMALL, 1)?;
    write_pages(&mut fixture);
    fixture.holds_lines = true;
    let contexts = u64::from(fixture.config.hem_contexts);
    for index in 0..2 * contexts as u32 {
        fixture.ask_lookup(0, Table::Qpc.code(), index)?;
        fixture.ask_miss(0, index)?;
    }
    for _ in 0..4 * contexts + 100 {
        fixture.cycle()?;
    }
    // The last places for context lookups may not be offered; a request finds its place whatever the lookups do.
    let (lookups, places) = (fixture.bench[fixture.lookup].accepted(), u64::from(fixture.config.hem_lookups()));
    assert!((places - 2..=places).contains(&lookups), "{lookups} lookups");
    assert_eq!(fixture.requests.borrow().accepted.len() as u64, contexts);
    assert_eq!(fixture.travelling.len() as u64, contexts + lookups);
    assert!(!fixture.is_idle());
    fixture.holds_lines = false;
    fixture.check()
}

#[test]
fn blocked_answers_do_not_block_replays() -> Result<(), Error> {
    let mut fixture = directed(SMALL, 1)?;
    write_pages(&mut fixture);
    let count = fixture.config.hem_contexts;
    let (replay, answer) = (fixture.replay, fixture.answer);
    fixture.bench[answer].set_stall(Stall::percent(100).up_to(u16::MAX));
    for index in 0..count {
        fixture.ask_lookup(0, Table::Qpc.code(), index)?;
        fixture.ask_miss(0, index)?;
        fixture.ask_miss(0, index)?;
    }
    fixture.cycles_until("the replays", |fixture| fixture.bench[replay].len() == 2 * count as usize)?;
    assert!(!fixture.is_idle(), "answers wait");
    fixture.bench[answer].set_stall(Stall::NEVER);
    fixture.check()
}

#[test]
fn lookups_find_a_gap_among_requests_without_one() -> Result<(), Error> {
    for (dut, divides) in [(SMALL, false), (SMALL, true), (DEFAULT, false), (DEFAULT, true)] {
        let mut fixture = directed(dut, 0)?;
        fixture.requests.borrow_mut().hits_percent = 100;
        let count = 100;
        // Slot 3 of 3: the index must be divided, and comes back into the pipe.
        let index = if divides { 3 * 64 } else { 0 };
        for _ in 0..count {
            fixture.ask_lookup(0, Table::Qpc.code(), index)?;
        }
        let (start, requests) = (fixture.bench.cycles(), fixture.requests.borrow().count);
        let answer = fixture.answer;
        fixture.cycles_until("the answers", |fixture| fixture.bench[answer].len() == count as usize)?;
        let cycles = fixture.bench.cycles() - start;
        let requests = fixture.requests.borrow().count - requests;
        let each = REQUESTS_PER_GAP + GAP_CYCLES + if divides { DIVISION_CYCLES + GAP_CYCLES } else { 0 };
        let limit = count * each + 100;
        assert!(cycles <= limit, "{cycles} cycles for {count} lookups");
        let most = cycles * GAP_CYCLES / (REQUESTS_PER_GAP + GAP_CYCLES) + 10;
        assert!(cycles - requests <= most, "{} of {cycles} cycles without a request", cycles - requests);
        fixture.check()?;
    }
    Ok(())
}

#[test]
fn ends_without_a_line_find_a_gap_among_lines() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = directed(dut, 0)?;
        let early_valid = fixture.early_valid;
        let gap_wanted = fixture.bench.model().output("gap_wanted")?;
        for _ in 0..50 {
            fixture.cycle()?;
            fixture.bench.model_mut().set(early_valid, 1);
            assert_eq!(fixture.bench.model().get(gap_wanted), 0, "nobody waits");
        }
        fixture.ask_lookup(0, Table::Qpc.code(), 0)?;
        fixture.ask_miss(0, 3 * 64 * 1024)?;
        let mut waited_cycles = 0;
        // Lines come in every cycle until the gap is asked for.
        while fixture.bench.model().get(gap_wanted) == 0 {
            fixture.cycle()?;
            fixture.bench.model_mut().set(early_valid, 1);
            waited_cycles += 1;
            assert!(waited_cycles < 100, "no gap is asked for");
            assert!(fixture.bench[fixture.answer].is_empty(), "an answer where a line may come");
        }
        fixture.check()?;
    }
    Ok(())
}

#[test]
fn latencies_are_as_documented() -> Result<(), Error> {
    for hops in 0..=3usize {
        for is_context in [true, false] {
            let mut fixture = cached(SMALL, hops as u32)?;
            write_pages(&mut fixture);
            fixture.latency_cycles = (5, 5);
            // Twice: nothing is cached, then the chunk pointer is.
            for is_warm in [false, true] {
                let output = if is_context { fixture.answer } else { fixture.replay };
                let lookup = fixture.lookup;
                fixture.bench[lookup].record_acceptances();
                fixture.requests.borrow_mut().accepted.clear();
                fixture.request_cycles.clear();
                fixture.line_cycles.clear();
                if is_context {
                    fixture.ask_lookup(0, Table::Qpc.code(), 0)?;
                } else {
                    fixture.ask_miss(0, 0)?;
                }
                fixture.cycles_until("the end", |fixture| !fixture.bench[output].is_empty())?;
                let accepted = if is_context {
                    fixture.bench[lookup].pop_acceptance()
                } else {
                    fixture.requests.borrow_mut().accepted.pop_front()
                };
                let accepted = accepted.expect("it was accepted");
                let pointers = if is_warm { 0 } else { hops };
                let reads = pointers + usize::from(!is_context);
                assert_eq!(fixture.request_cycles.len(), reads, "{hops} hops");
                let (requests, lines) = (&fixture.request_cycles, &fixture.line_cycles);
                if reads > 0 {
                    assert_eq!(requests[0] - accepted, FIRST_REQUEST_CYCLES);
                }
                for read in 1..reads {
                    assert_eq!(requests[read] - lines[read - 1], NEXT_REQUEST_CYCLES);
                }
                let ended = fixture.bench[output].pop().expect("it has ended").valid_cycle;
                if !is_context {
                    assert_eq!(ended, lines[reads - 1], "the replay comes with the line");
                } else if reads > 0 {
                    assert_eq!(ended - lines[reads - 1], ANSWER_CYCLES);
                } else {
                    assert_eq!(ended - accepted, FIRST_REQUEST_CYCLES + ANSWER_CYCLES - NEXT_REQUEST_CYCLES);
                }
                fixture.replays_expected.clear();
                fixture.answers_expected.clear();
            }
        }
    }
    Ok(())
}

#[test]
fn lookups_without_reads_take_a_cycle_each() -> Result<(), Error> {
    let mut fixture = directed(DEFAULT, 0)?;
    let count = 1000;
    for index in 0..count {
        fixture.ask_lookup(0, Table::Qpc.code(), index % 64)?;
    }
    let start = fixture.bench.cycles();
    let answer = fixture.answer;
    fixture.cycles_until("the answers", |fixture| fixture.bench[answer].len() == count as usize)?;
    assert!(fixture.bench.cycles() - start <= u64::from(count) + 15, "{} cycles", fixture.bench.cycles() - start);
    fixture.check()
}

#[test]
fn misses_and_lookups_share_the_rate_of_one_step_per_cycle() -> Result<(), Error> {
    let mut fixture = directed(DEFAULT, 1)?;
    write_pages(&mut fixture);
    let count = 500;
    for index in 0..count {
        fixture.ask_lookup(0, Table::Qpc.code(), index % 64)?;
        fixture.ask_miss(0, index % 64)?;
    }
    let start = fixture.bench.cycles();
    let (replay, answer) = (fixture.replay, fixture.answer);
    fixture.cycles_until("the ends", |fixture| {
        fixture.bench[replay].len() + fixture.bench[answer].len() == 2 * count as usize
    })?;
    // A read and an end for each lookup, two reads for each miss.
    let reads = 4 * u64::from(count);
    assert!(fixture.bench.cycles() - start <= reads + reads / 50 + 30, "{} cycles", fixture.bench.cycles() - start);
    fixture.check()
}

#[test]
fn the_divider_holds_up_only_those_that_need_it() -> Result<(), Error> {
    let mut fixture = Fixture::new(DEFAULT, 3, Stall::NEVER)?;
    for (table, bt_num) in [(Table::Qpc, 1), (Table::Cqc, 3)] {
        fixture.write_geometry(0, table.code(), Geometry { bt_num, ..RESET })?;
        fixture.write_bt0(0, table.code(), 0, Some(0x1000))?;
    }
    fixture.settle_writes()?;
    let dividing = fixture.config.hem_contexts / 2;
    for _ in 0..dividing {
        fixture.ask_lookup(0, Table::Cqc.code(), 3 * 64)?;
    }
    let direct = 200;
    for index in 0..direct {
        fixture.ask_lookup(0, Table::Qpc.code(), index % 64)?;
    }
    let start = fixture.bench.cycles();
    let lookup = fixture.lookup;
    fixture.cycles_until("the acceptances", |fixture| fixture.bench[lookup].pending() == 0)?;
    // A place in the pipe for each division that has finished meanwhile.
    let asked = u64::from(dividing + direct);
    let limit = asked + asked / DIVISION_CYCLES + 5;
    assert!(fixture.bench.cycles() - start <= limit, "{} cycles", fixture.bench.cycles() - start);
    fixture.check()
}

#[test]
fn a_division_is_not_starved() -> Result<(), Error> {
    let mut fixture = Fixture::new(DEFAULT, 4, Stall::NEVER)?;
    for (table, bt_num) in [(Table::Qpc, 1), (Table::Cqc, 3)] {
        fixture.write_geometry(0, table.code(), Geometry { bt_num, ..RESET })?;
        fixture.write_bt0(0, table.code(), 0, Some(0x1000))?;
    }
    fixture.settle_writes()?;
    let asked = fixture.ask_lookup(0, Table::Cqc.code(), 3 * 64)?;
    assert_eq!(asked.result, Ok(0x1000));
    for index in 0..500 {
        fixture.ask_lookup(0, Table::Qpc.code(), index % 64)?;
    }
    let answer = fixture.answer;
    fixture.cycles_until("the answers", |fixture| fixture.bench[answer].len() == 501)?;
    let mut position = 0;
    while let Some(received) = fixture.bench[answer].pop() {
        if received.get("index")? == 3 * 64 {
            assert!(position < 50, "answered after {position} others");
            return Ok(());
        }
        position += 1;
    }
    panic!("the lookup that was divided has no answer");
}

#[test]
fn a_stream_of_answers_does_not_starve_a_replay() -> Result<(), Error> {
    let mut fixture = directed(DEFAULT, 0)?;
    // The line lands where the answers leave no gap.
    fixture.latency_cycles = (50, 50);
    fixture.ask_miss(0, 1)?;
    for index in 0..500 {
        fixture.ask_lookup(0, Table::Qpc.code(), index % 64)?;
    }
    let replay = fixture.replay;
    fixture.cycles_until("the replay", |fixture| !fixture.bench[replay].is_empty())?;
    let line_cycle = fixture.line_cycles[0];
    let replayed_cycle = fixture.bench[replay].pop().expect("it is there").valid_cycle;
    assert_eq!(replayed_cycle, line_cycle, "the replay comes with its line");
    fixture.replays_expected.clear();
    assert!(fixture.bench[fixture.lookup].pending() > 100, "answers still come");
    fixture.check()
}

#[test]
fn reset_at_any_moment_leaves_a_working_block() -> Result<(), Error> {
    let mut fixture = Fixture::new(SMALL, 5, Stall::percent(20))?;
    fixture.latency_cycles = (1, 40);
    for cycles in [0, 1, 2, 3, 5, 7, 8, 9, 11, 20, 33, 50, 100, 200] {
        fixture.write_random_tables(true)?;
        fixture.ask_random(200)?;
        for _ in 0..cycles {
            fixture.cycle()?;
        }
        fixture.reset()?;
        assert_eq!(fixture.bench.model().get(fixture.ready), 0, "the scrub has begun");
        // Requests wait until the scrub is done; the slots of before are gone.
        fixture.ask_lookup(0, Table::Qpc.code(), 1)?;
        fixture.ask_miss(0, 1)?;
        fixture.wait_ready()?;
        fixture.check()?;
    }
    fixture.write_random_tables(false)?;
    fixture.ask_random(200)?;
    fixture.check()
}

#[test]
fn idle_falls_with_the_acceptance() -> Result<(), Error> {
    let mut fixture = directed(SMALL, 0)?;
    // Requests are counted where they are admitted.
    for _ in 0..2 {
        assert!(fixture.is_idle());
        fixture.ask_lookup(0, Table::Qpc.code(), 0)?;
        let (lookup, answer) = (fixture.lookup, fixture.answer);
        fixture.cycles_until("the acceptance", |fixture| fixture.bench[lookup].pending() == 0)?;
        while fixture.bench[answer].is_empty() {
            fixture.bench.model_mut().settle();
            assert!(!fixture.is_idle(), "a lookup is in flight");
            fixture.cycle()?;
        }
        fixture.check()?;
    }
    Ok(())
}

/// Reads of each number that lookups of the chunks make, all asked at once and answered.
fn reads_of(fixture: &mut Fixture, indices: &[u32]) -> Result<[u64; 4], Error> {
    fixture.take_counts();
    for index in indices {
        fixture.ask_miss(0, *index)?;
    }
    fixture.check()?;
    let counts = fixture.take_counts();
    assert_eq!(counts.hits + counts.misses, indices.len() as u64, "each lookup hits or misses");
    Ok(counts.reads)
}

#[test]
fn a_lookup_starts_at_the_deepest_cached_pointer() -> Result<(), Error> {
    for (hops, cold, chunk_known, upper_known) in [
        (1, [1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]),
        (2, [1, 1, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0]),
        (3, [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]),
    ] {
        let mut fixture = cached(SMALL, hops)?;
        assert_eq!(reads_of(&mut fixture, &[0])?, cold, "{hops} hops, nothing known");
        assert_eq!(reads_of(&mut fixture, &[1])?, chunk_known, "the same chunk");
        assert_eq!(reads_of(&mut fixture, &[64])?, upper_known, "the next chunk");
        if hops > 1 {
            assert_eq!(reads_of(&mut fixture, &[64 * 512])?, cold, "the next page of pointers to chunks");
        }
        // The table is part of the key: of another table nothing is known.
        fixture.take_counts();
        fixture.ask_lookup(0, Table::Qpc.code(), 0)?;
        fixture.check()?;
        let counts = fixture.take_counts();
        assert_eq!((counts.hits, counts.misses), (0, 1));
        assert_eq!(counts.reads.iter().sum::<u64>(), u64::from(hops));
        fixture.ask_lookup(0, Table::Qpc.code(), 63)?;
        fixture.check()?;
        let counts = fixture.take_counts();
        assert_eq!((counts.hits, counts.misses, counts.reads), (1, 0, [0; 4]), "no read at all");
    }
    Ok(())
}

#[test]
fn no_neighbour_of_a_pointer_is_cached() -> Result<(), Error> {
    let mut fixture = cached(SMALL, 1)?;
    // The driver has left a stale pointer beside the one that is wanted, and writes the new one later.
    fixture.memory.words.insert(PAGES[0], 0x1000);
    fixture.memory.words.insert(PAGES[0] + 8, 0x2000);
    fixture.check_miss(0, Ok(0x1000))?;
    fixture.memory.words.insert(PAGES[0] + 8, 0x3000);
    fixture.check_miss(64, Ok(0x3000))
}

#[test]
fn a_useless_pointer_is_not_cached() -> Result<(), Error> {
    for hops in 1..=3 {
        for read in 0..hops as usize {
            let mut fixture = cached(SMALL, hops)?;
            write_pages(&mut fixture);
            let bad = read as u8 + 1;
            fixture.memory.words.insert(PAGES[read], 0);
            fixture.check_miss(0, Err((Status::HemPointerZero, bad)))?;
            fixture.memory.words.insert(PAGES[read], 0x800);
            fixture.check_miss(0, Err((Status::HemMisaligned, bad)))?;
            fixture.memory.errors.insert(PAGES[read] >> 4);
            fixture.check_miss(0, Err((Status::HemBusError, bad - 1)))?;
            fixture.memory.errors.clear();
            fixture.memory.words.insert(PAGES[read], PAGES[read + 1]);
            fixture.check_miss(0, Ok(PAGES[hops as usize]))?;
            // Now it is cached: the memory is not asked again.
            fixture.memory.words.insert(PAGES[read], 0);
            fixture.ask_miss(0, 0)?;
            fixture.replays_expected.clear();
            let replay = fixture.replay;
            fixture.cycles_until("the replay", |fixture| !fixture.bench[replay].is_empty())?;
            assert_eq!(fixture.bench[replay].pop().expect("there is one").get("status")?, 0);
        }
    }
    Ok(())
}

#[test]
fn a_pointer_of_an_odd_page_is_used_but_not_cached() -> Result<(), Error> {
    let mut fixture = cached(SMALL, 1)?;
    fixture.set_alignment_check(false)?;
    fixture.memory.words.insert(PAGES[0], 0x1840);
    for _ in 0..2 {
        assert_eq!(reads_of(&mut fixture, &[0])?, [1, 1, 0, 0]);
    }
    Ok(())
}

#[test]
fn what_is_cached_without_the_alignment_check_is_not_found_with_it() -> Result<(), Error> {
    let mut fixture = cached(SMALL, 1)?;
    fixture.set_alignment_check(false)?;
    fixture.write_bt0(0, Table::Mpt.code(), 0, Some(0x1008))?;
    fixture.settle_writes()?;
    fixture.flush()?;
    fixture.memory.words.insert(0x1008, 0x9000);
    fixture.check_miss(0, Ok(0x9000))?;
    assert_eq!(reads_of(&mut fixture, &[1])?, [0, 1, 0, 0]);
    fixture.set_alignment_check(true)?;
    fixture.check_miss(0, Err((Status::HemMisaligned, 0)))?;
    fixture.set_alignment_check(false)?;
    assert_eq!(reads_of(&mut fixture, &[1])?, [0, 1, 0, 0]);
    Ok(())
}

#[test]
fn an_index_that_is_out_of_range_is_refused_with_its_chunk_cached() -> Result<(), Error> {
    let mut fixture = cached(SMALL, 2)?;
    for table in [Table::Qpc, Table::Mpt] {
        let geometry = Geometry { hop_num: 2, bt_num: 3, object_count: 10, ..RESET };
        fixture.write_geometry(0, table.code(), geometry)?;
    }
    fixture.settle_writes()?;
    fixture.flush()?;
    for _ in 0..2 {
        fixture.ask_miss(0, 9)?;
        fixture.ask_lookup(0, Table::Qpc.code(), 9)?;
        fixture.check()?;
        fixture.check_lookup(Table::Qpc, 10, Err((Status::IndexOutOfRange, 0)))?;
        fixture.check_miss(10, Err((Status::IndexOutOfRange, 0)))?;
    }
    Ok(())
}

#[test]
fn a_cached_pointer_saves_the_division() -> Result<(), Error> {
    let mut fixture = cached(SMALL, 1)?;
    let far = 64 * 512 * 3;
    let replay = fixture.replay;
    let mut cycles = Vec::new();
    for _ in 0..2 {
        fixture.requests.borrow_mut().accepted.clear();
        fixture.ask_miss(0, far)?;
        fixture.cycles_until("the replay", |fixture| !fixture.bench[replay].is_empty())?;
        let accepted = fixture.requests.borrow_mut().accepted.pop_front().expect("it was accepted");
        cycles.push(fixture.bench.cycles() - accepted);
        fixture.check()?;
    }
    assert!(cycles[0] > 20 && cycles[1] < 20, "{cycles:?}");
    Ok(())
}

#[test]
fn lookups_of_another_epoch_or_table_set_find_nothing() -> Result<(), Error> {
    let mut fixture = cached(SMALL, 2)?;
    for table_set in 0..u64::from(fixture.config.table_sets) {
        let geometry = Geometry { hop_num: 2, ..RESET };
        fixture.write_geometry(table_set, Table::Mpt.code(), geometry)?;
        fixture.write_bt0(table_set, Table::Mpt.code(), 0, Some(PAGES[0] + (table_set << 32)))?;
    }
    fixture.settle_writes()?;
    fixture.flush()?;
    for epoch in [0, 1, 512, 1023] {
        for table_set in 0..u64::from(fixture.config.table_sets) {
            fixture.epoch = epoch;
            for is_cold in [true, false] {
                fixture.take_counts();
                fixture.ask_miss(table_set, 5)?;
                fixture.check()?;
                let counts = fixture.take_counts();
                assert_eq!(counts.misses, u64::from(is_cold), "epoch {epoch}");
            }
        }
    }
    Ok(())
}

#[test]
fn every_write_empties_the_caches() -> Result<(), Error> {
    for is_geometry in [true, false] {
        let mut fixture = cached(SMALL, 2)?;
        write_pages(&mut fixture);
        fixture.check_miss(0, Ok(PAGES[2]))?;
        if is_geometry {
            let geometry = Geometry { hop_num: 1, bt_num: 3, ..RESET };
            fixture.write_geometry(0, Table::Mpt.code(), geometry)?;
        } else {
            fixture.write_bt0(0, Table::Mpt.code(), 0, Some(0x77_0000))?;
        }
        fixture.settle_writes()?;
        // At once and when the scrub is done.
        let expected = if is_geometry { Ok(PAGES[1]) } else { fixture.ask_miss(0, 0)?.result };
        fixture.check_miss(0, expected)?;
        for _ in 0..2 * fixture.config.hem_cache_sets * fixture.config.hem_cache_ways {
            fixture.cycle()?;
        }
        fixture.check_miss(0, expected)?;
    }
    Ok(())
}

#[test]
fn a_flush_in_the_middle_of_traffic_changes_no_answer() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = Fixture::new(dut, 77, Stall::percent(20))?;
        fixture.is_cached = true;
        fixture.latency_cycles = (1, 30);
        fixture.write_random_tables(false)?;
        let flush = fixture.bench.model().input("pointer_flush")?;
        for round in 0..6 {
            fixture.ask_random(200)?;
            for cycle in 0..400 {
                fixture.bench.model_mut().set(flush, u64::from(cycle % (23 + 40 * round) == 0));
                fixture.cycle()?;
            }
            fixture.bench.model_mut().set(flush, 0);
            fixture.check()?;
        }
    }
    Ok(())
}

#[test]
fn a_flush_makes_the_caches_forget() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = cached(dut, 3)?;
        assert_eq!(reads_of(&mut fixture, &[0])?, [1, 1, 1, 1]);
        assert_eq!(reads_of(&mut fixture, &[0])?, [0, 0, 0, 1]);
        fixture.flush()?;
        assert_eq!(reads_of(&mut fixture, &[0])?, [1, 1, 1, 1]);
        assert_eq!(reads_of(&mut fixture, &[0])?, [0, 0, 0, 1]);
    }
    Ok(())
}

#[test]
fn as_many_chunk_pointers_as_there_are_places_stay() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = cached(dut, 2)?;
        let places = fixture.config.hem_cache_sets * fixture.config.hem_cache_ways;
        for (first, is_evicting) in [(0, false), (places, true)] {
            fixture.take_counts();
            // One after the other: a fill that comes too close to another of its set is dropped.
            for chunk in first..first + places {
                fixture.ask_miss(0, chunk * 64)?;
                fixture.check()?;
            }
            let counts = fixture.take_counts();
            assert_eq!(counts.reads[1], places.into());
            assert_eq!(counts.evictions, if is_evicting { places.into() } else { 0 });
            for chunk in first..first + places {
                fixture.ask_miss(0, chunk * 64)?;
            }
            fixture.check()?;
            let counts = fixture.take_counts();
            assert_eq!((counts.hits, counts.reads), (places.into(), [0, 0, places.into(), 0]));
        }
    }
    Ok(())
}

#[test]
fn the_chunk_cache_replaces_what_its_trees_point_at() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = cached(dut, 1)?;
        fixture.write_geometry(0, Table::Mpt.code(), Geometry { hop_num: 1, ..RESET })?;
        fixture.settle_writes()?;
        fixture.flush()?;
        let (sets, ways) = (fixture.config.hem_cache_sets, fixture.config.hem_cache_ways);
        let mut trees = Plru::new(sets, ways);
        let mut held = vec![vec![None; ways as usize]; sets as usize];
        for step in 0..400 {
            let set = fixture.random.random_range(0..sets.min(4));
            let number = fixture.random.random_range(0..ways + 2);
            let reads = reads_of(&mut fixture, &[(number * sets + set) * 64 + step % 64])?;
            let held = &mut held[set as usize];
            let way = held.iter().position(|held| *held == Some(number));
            let expected = u64::from(way.is_none());
            assert_eq!(reads, [expected, 1, 0, 0], "step {step}, set {set}, chunk {number} of {held:?}");
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
}

/// A pointer that two lookups fetch at the same time takes one place.
#[test]
fn a_pointer_that_comes_twice_takes_no_place_of_another() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = cached(dut, 1)?;
        fixture.write_geometry(0, Table::Mpt.code(), Geometry { hop_num: 1, ..RESET })?;
        fixture.settle_writes()?;
        fixture.flush()?;
        let (sets, ways) = (fixture.config.hem_cache_sets, fixture.config.hem_cache_ways);
        for _ in 0..60 {
            fixture.epoch = fixture.random.random_range(0..1024);
            fixture.latency_cycles = (40, 40);
            // Of one set, and otherwise anywhere.
            let set = fixture.random.random_range(0..sets);
            let chunks_max = (1 << 18) / sets;
            let chunks: Vec<_> = (0..ways).map(|_| fixture.random.random_range(0..chunks_max) * sets + set).collect();
            let (first, others) = chunks.split_first().expect("a cache has a way");
            for chunk in others {
                reads_of(&mut fixture, &[chunk * 64])?;
            }
            for _ in 0..2 {
                fixture.ask_miss(0, first * 64)?;
                for _ in 0..12 {
                    fixture.cycle()?;
                }
            }
            fixture.check()?;
            for chunk in &chunks {
                assert_eq!(reads_of(&mut fixture, &[chunk * 64])?, [0, 1, 0, 0], "chunk {chunk:#x} of {chunks:x?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_pointer_is_found_again_whatever_its_key() -> Result<(), Error> {
    for dut in [SMALL, DEFAULT] {
        let mut fixture = cached(dut, 2)?;
        let table_sets = u64::from(fixture.config.table_sets);
        for table_set in 0..table_sets {
            for table in [Table::Qpc, Table::Mpt] {
                fixture.write_geometry(table_set, table.code(), Geometry { hop_num: 2, ..RESET })?;
                fixture.write_bt0(table_set, table.code(), 0, Some(PAGES[0] + (table_set << 32)))?;
            }
        }
        fixture.settle_writes()?;
        fixture.flush()?;
        for round in 0..200 {
            fixture.epoch = fixture.random.random_range(0..1024);
            let table_set = fixture.random.random_range(0..table_sets);
            let index = fixture.random.random::<u32>() >> if round % 2 == 0 { 8 } else { 0 };
            // Another object of the chunk, and a chunk of another line of the same page.
            for (index, reads) in [(index, [1, 1]), (index ^ 1, [0, 0]), (index ^ 0x1000, [0, 1])] {
                fixture.take_counts();
                let entries = u64::from(round % 2 == 0);
                let outcome = if round % 2 == 0 {
                    fixture.ask_miss(table_set, index)?
                } else {
                    fixture.ask_lookup(table_set, Table::Qpc.code(), index)?
                };
                assert!(outcome.result.is_ok(), "index {index:#x}");
                fixture.check()?;
                let expected = [reads[0], reads[1], entries, 0];
                assert_eq!(fixture.take_counts().reads, expected, "round {round}, index {index:#x}");
            }
        }
    }
    Ok(())
}

#[test]
fn misses_with_their_chunk_cached_take_a_cycle_each() -> Result<(), Error> {
    for hops in 1..=3 {
        let mut fixture = cached(DEFAULT, hops)?;
        let chunks = 16;
        for chunk in 0..chunks {
            fixture.ask_miss(0, chunk * 64)?;
        }
        fixture.check()?;
        let count = 1000;
        for number in 0..count {
            fixture.ask_miss(0, number % (chunks * 64))?;
        }
        fixture.latency_cycles = (20, 20);
        let start = fixture.bench.cycles();
        let replay = fixture.replay;
        fixture.cycles_until("the replays", |fixture| fixture.bench[replay].len() == count as usize)?;
        let taken = fixture.bench.cycles() - start;
        assert!(taken <= u64::from(count) + 45, "{taken} cycles");
        fixture.check()?;
        let counts = fixture.take_counts();
        assert_eq!(counts.reads[hops as usize - 1], u64::from(chunks), "chunk pointers");
        assert_eq!(counts.reads[hops as usize], u64::from(chunks + count), "entries");
    }
    Ok(())
}
