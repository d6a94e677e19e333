//! A case: everything that one seed decides, laid open as a list of events, so that parts can be left out.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use keywalk_contract::ports::Scope;
use keywalk_contract::{Config, Table, mpt_entry};
use keywalk_cosim::{Dut, EngineOptions, Invalidation, MemoryOptions, ReadFault, Stall};
use keywalk_image::SparseMemory;
use keywalk_model::{BusError, ContextRequest, Memory, Observer, Request, TableRead};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::scenario::Scenario;

/// The engines that are drawn, with their weights. [`keywalk_contract::coverage`] has bins for each of them.
pub const ENGINES: [(&str, u32); 5] = [("default", 5), ("small", 6), ("small_ordered", 5), ("narrow", 2), ("least", 3)];

/// Bytes of a line.
const LINE_BYTES: u64 = 64;
/// Largest table that is copied when a pointer is changed.
const COPY_BYTES_MAX: u64 = 1 << 14;
/// Longest wait for a read of a line, which may not come: where a fault ends the walk before, or the pointer is cached.
pub const READ_WAIT_CYCLES: u64 = 4_000;
/// Earlier requests that are looked at for one that reads pages of several lines.
const TARGETS_TRIED: usize = 12;
/// Entries of a page table that one change rewrites at most.
const PAGES_CHANGED_MAX: usize = 8;

/// Tables in memory as model and hardware see them.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The memory.
    pub memory: Arc<SparseMemory>,
    /// Lines with faults: number of the line, and its quarters that cannot be read.
    pub faults: Arc<HashMap<u64, u8>>,
}

/// Bit of the quarter of a line that holds an address.
fn quarter(address: u64) -> u8 {
    1 << (address % LINE_BYTES / 16)
}

impl Tables {
    /// Whether the line that holds `address` has a fault elsewhere than in the `bytes` bytes there.
    #[must_use]
    pub fn is_faulty_beside(&self, address: u64, bytes: u8) -> bool {
        bytes <= 16
            && self.faults.get(&(address / LINE_BYTES)).is_some_and(|quarters| quarters & !quarter(address) != 0)
    }
}

impl Memory for Tables {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        if let Some(quarters) = self.faults.get(&(address / LINE_BYTES)) {
            let wanted = if bytes.len() > 16 { 0xf } else { quarter(address) };
            if quarters & wanted != 0 {
                return Err(BusError);
            }
        }
        self.memory.read(address, bytes).map_err(|_| BusError)
    }
}

/// What is changed in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// An MPT entry.
    Entry,
    /// A pointer of the HEM, to a copy of what it pointed to.
    HemPointer,
    /// Leaves of a page table.
    Page,
    /// A pointer to a page table, to a copy of it in which pages have moved.
    PageTable,
}

impl ChangeKind {
    /// Name as in the coverage.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::HemPointer => "hem_pointer",
            Self::Page => "page",
            Self::PageTable => "page_table",
        }
    }

    /// Whether each page of a request may be found in old or new tables by itself.
    #[must_use]
    pub fn is_by_page(self) -> bool {
        matches!(self, Self::Page | Self::PageTable)
    }
}

/// A change of the tables, made at once.
#[derive(Clone, Debug)]
pub struct Change {
    /// What is changed.
    pub kind: ChangeKind,
    /// Memory that is backed first: address and bytes.
    pub backed: Option<(u64, u64)>,
    /// Words that are written, in order.
    pub words: Vec<(u64, u64)>,
    /// Requests between the change and its invalidation, each after so many cycles.
    pub during: Vec<(u32, Request)>,
    /// Cycles from the last of them, or from the change, to the invalidation.
    pub delay_cycles: u32,
    /// The invalidation.
    pub invalidation: Invalidation,
}

impl Change {
    /// Makes the change.
    pub fn apply(&self, memory: &mut SparseMemory) {
        if let Some((address, length_bytes)) = self.backed {
            memory.back(address, length_bytes);
        }
        for (address, word) in &self.words {
            // What is damaged may not be backed: then there is nothing to change.
            let _ = memory.write_u64(*address, *word);
        }
    }
}

/// Something that happens, one after the other, as soon as there is room for it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request.
    Request(Request),
    /// A request of the context port.
    Context(ContextRequest),
    /// A request that is alone in the engine.
    Alone(Request),
    /// The tables change, and an invalidation follows. Waits for the completion of the last such.
    Change(Change),
    /// An invalidation while the tables stay as they are.
    Invalidate(Invalidation),
    /// Nothing, for some cycles.
    Pause(u32),
    /// Nothing, until everything is answered, reported done and complete.
    Drain,
    /// Nothing, until the memory gives out the line of this address, or for [`READ_WAIT_CYCLES`].
    UntilRead(u64),
    /// Reset at once, and the same tables again.
    Reset,
}

/// Tables and what happens on them.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// Tables, switches, model.
    pub scenario: Arc<Scenario>,
    /// Faults by address.
    pub faults: Vec<(u64, ReadFault)>,
    /// Whether the chapter begins with a reset, in whatever state, or after everything has ended, with an invalidation.
    pub begins_with_reset: bool,
    /// What happens, with its number in the case.
    pub events: Vec<(usize, Event)>,
}

impl Chapter {
    /// The tables at its beginning, for a table port of `data_bits` bits.
    #[must_use]
    pub fn tables(&self, data_bits: u32) -> Tables {
        let mut faults: HashMap<u64, u8> = HashMap::new();
        for (address, fault) in &self.faults {
            // A beat with a faulty quarter fails as a whole.
            let quarters = match fault {
                ReadFault::SlaveError { quarters } | ReadFault::DecodeError { quarters } => *quarters,
                ReadFault::Silence => 0,
            };
            let beat = match data_bits {
                128 => [1, 2, 4, 8].as_slice(),
                256 => &[3, 12],
                _ => &[15],
            };
            let failing = beat.iter().filter(|beat| quarters & **beat != 0).fold(0, |all, beat| all | beat);
            faults.insert(address / LINE_BYTES, failing);
        }
        Tables { memory: Arc::clone(&self.scenario.memory), faults: Arc::new(faults) }
    }
}

/// What is around the engine, for the coverage and for people.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Who stalls.
    pub stall: &'static str,
    /// Memory latency.
    pub latency_cycles: RangeInclusive<u32>,
    /// The memory answers in any order.
    pub reorder: bool,
    /// Longest time until DMA is reported done.
    pub report_cycles_max: u64,
}

/// Ways to make a case calmer, to find out whether it fails without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Calm {
    /// Nobody stalls.
    Stalls,
    /// The memory answers after one cycle.
    Latency,
    /// The memory answers in order, and takes any number of reads.
    Order,
    /// No read fails but where memory is not backed.
    Faults,
    /// DMA is reported done at once.
    Reports,
}

impl Calm {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Faults, Self::Stalls, Self::Order, Self::Latency, Self::Reports];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stalls => "stalls",
            Self::Latency => "latency",
            Self::Order => "order",
            Self::Faults => "faults",
            Self::Reports => "reports",
        }
    }
}

/// Everything that one seed decides.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed.
    pub seed: u64,
    /// The engine.
    pub dut: &'static Dut,
    /// Its configuration.
    pub config: Config,
    /// How the bench behaves.
    pub options: EngineOptions,
    /// The same in short.
    pub surroundings: Surroundings,
    /// Requests that wait at the port at most.
    pub waiting_max: usize,
    /// The chapters.
    pub chapters: Vec<Chapter>,
}

/// The engine of that name, where this build has it.
#[must_use]
pub fn engine(name: &str) -> Option<&'static Dut> {
    crate::Design::engines().find(|dut| dut.name == name)
}

impl Case {
    /// Draws the case of a seed, for a drawn engine or for a given one. `None` where this build lacks the engine.
    #[must_use]
    pub fn draw(seed: u64, given: Option<&'static Dut>) -> Option<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let total: u32 = ENGINES.iter().map(|(_, weight)| weight).sum();
        let mut ticket = random.random_range(0..total);
        let drawn = ENGINES.iter().find(|(_, weight)| match ticket.checked_sub(*weight) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        });
        let dut = given.or_else(|| engine(drawn?.0))?;
        let config = dut.config()?;
        let surroundings = draw_surroundings(&mut random);
        let options = draw_options(&mut random, &surroundings);
        let waiting_max = if random.random() { 2 } else { random.random_range(1..200) };
        let mut tags = Tags { next: [0; 3], factor: random.random::<u16>() | 1, offset: random.random() };
        let mut number = 0;
        let chapters = (0..random.random_range(1..=3))
            .map(|_| draw_chapter(&mut random, &config, *surroundings.latency_cycles.end(), &mut tags, &mut number))
            .collect();
        Some(Self { seed, dut, config, options, surroundings, waiting_max, chapters })
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chapters.iter().map(|chapter| chapter.events.len()).sum()
    }

    /// Whether nothing happens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers of all events.
    #[must_use]
    pub fn numbers(&self) -> Vec<usize> {
        self.chapters.iter().flat_map(|chapter| chapter.events.iter().map(|(number, _)| *number)).collect()
    }

    /// The case with these events only (sorted numbers); chapters without any are left out.
    #[must_use]
    pub fn keeping(&self, numbers: &[usize]) -> Self {
        let chapters = self.chapters.iter().filter_map(|chapter| {
            let is_kept = |(number, _): &&(usize, Event)| numbers.binary_search(number).is_ok();
            let events: Vec<_> = chapter.events.iter().filter(is_kept).cloned().collect();
            (!events.is_empty()).then(|| Chapter { events, ..chapter.clone() })
        });
        Self { chapters: chapters.collect(), ..self.clone() }
    }

    /// The case, calmer in one way.
    #[must_use]
    pub fn calmer(&self, calm: Calm) -> Self {
        let mut case = self.clone();
        let memory = &mut case.options.memory;
        match calm {
            Calm::Stalls => {
                memory.address_stall = Stall::NEVER;
                memory.data_stall = Stall::NEVER;
                case.options.request_stall = Stall::NEVER;
                case.options.response_stall = Stall::NEVER;
                case.options.register_stall = Stall::NEVER;
                case.surroundings.stall = "none";
            }
            Calm::Latency => {
                memory.latency_cycles = 1..=1;
                case.surroundings.latency_cycles = 1..=1;
            }
            Calm::Order => {
                memory.reorder = false;
                memory.interleave = false;
                memory.in_flight_max = u32::MAX;
                case.surroundings.reorder = false;
            }
            Calm::Faults => case.chapters.iter_mut().for_each(|chapter| chapter.faults.clear()),
            Calm::Reports => case.surroundings.report_cycles_max = 0,
        }
        case
    }
}

/// Tags, each used once in a case on each port.
struct Tags {
    next: [u16; 3],
    factor: u16,
    offset: u16,
}

impl Tags {
    fn next(&mut self, port: usize) -> u16 {
        self.next[port] = self.next[port].wrapping_add(1);
        self.next[port].wrapping_mul(self.factor).wrapping_add(self.offset)
    }

    fn request(&mut self) -> u16 {
        self.next(0)
    }

    fn context(&mut self) -> u16 {
        self.next(1)
    }

    fn invalidation(&mut self) -> u16 {
        self.next(2)
    }
}

fn draw_surroundings(random: &mut ChaCha8Rng) -> Surroundings {
    let stall = ["none", "requests", "responses", "memory", "all"];
    let latency_max: u32 = match random.random_range(0..4) {
        0 => random.random_range(1..=3),
        1 => random.random_range(4..=20),
        2 => random.random_range(21..=120),
        _ => random.random_range(121..=500),
    };
    let latency_min = if random.random() { latency_max } else { random.random_range(1..=latency_max) };
    Surroundings {
        stall: stall.choose(random).expect("not empty"),
        latency_cycles: latency_min..=latency_max,
        reorder: random.random(),
        report_cycles_max: *[0, 30, 50, 1000].choose(random).expect("not empty"),
    }
}

fn draw_options(random: &mut ChaCha8Rng, surroundings: &Surroundings) -> EngineOptions {
    let mut stall = |who: &[&str]| {
        if !who.contains(&surroundings.stall) {
            return Stall::NEVER;
        }
        Stall::percent(random.random_range(5..80)).up_to(*[1, 4, 8, 60].choose(random).expect("not empty"))
    };
    let (address_stall, data_stall) = (stall(&["memory", "all"]), stall(&["memory", "all"]));
    let request_stall = stall(&["requests", "all"]);
    let response_stall = stall(&["responses", "all"]);
    let register_stall = stall(&["all"]);
    let reorder = surroundings.reorder;
    EngineOptions {
        seed: random.random(),
        memory: MemoryOptions {
            latency_cycles: surroundings.latency_cycles.clone(),
            reorder,
            interleave: reorder && random.random(),
            address_stall,
            data_stall,
            in_flight_max: if random.random_ratio(1, 4) { random.random_range(1..8) } else { u32::MAX },
            poison: true,
        },
        request_stall,
        response_stall,
        register_stall,
        done_delay_cycles: 0..=0,
        automatic_done: false,
        poison: true,
        record: false,
    }
}

fn draw_chapter(
    random: &mut ChaCha8Rng,
    config: &Config,
    latency_max: u32,
    tags: &mut Tags,
    number: &mut usize,
) -> Chapter {
    let mut scenario = Scenario::draw(random.random(), config);
    if random.random() {
        damage(random, &mut scenario);
    }
    let mut memory = (*scenario.memory).clone();
    let mut events = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    let mut contexts: Vec<ContextRequest> = Vec::new();
    // Few requests in some chapters, so that many tables are seen, and many in others, so that caches fill.
    let count = if random.random() { random.random_range(100..=500) } else { random.random_range(500..=2_000) };
    // How many of a thousand events change tables, and how many reset.
    let changes = *[0, 5, 20, 60].choose(random).expect("not empty");
    let resets = *[0, 0, 1].choose(random).expect("not empty");
    while requests.len() < count {
        let tag = tags.request();
        let request = match requests.choose(random) {
            // The same page, or the same region.
            Some(earlier) if random.random_ratio(1, 3) => Request { tag, ..*earlier },
            _ => scenario.request(tag),
        };
        match random.random_range(0..1000) {
            0..80 => {
                let context = match contexts.choose(random) {
                    Some(earlier) if random.random_ratio(1, 4) => ContextRequest { tag: tags.context(), ..*earlier },
                    _ => scenario.context_request(tags.context()),
                };
                contexts.push(context);
                events.push(Event::Context(context));
            }
            80..130 => {
                let longest = *[3, 30, 400].choose(random).expect("not empty");
                events.push(Event::Pause(random.random_range(1..=longest)));
            }
            130..140 => {
                // A miss, as a rule, and a hit.
                events.push(Event::Alone(request));
                events.push(Event::Alone(Request { tag: tags.request(), ..request }));
                if random.random_ratio(1, 4) {
                    events.push(Event::Invalidate(draw_invalidation(random, &scenario, &request, request.pd, tags)));
                }
                requests.push(request);
            }
            140..145 => {
                for _ in 0..random.random_range(1..=4) {
                    events.push(Event::Invalidate(draw_invalidation(random, &scenario, &request, request.pd, tags)));
                }
            }
            roll if (200..200 + changes).contains(&roll) => {
                let directed = match random.random_ratio(1, 3) {
                    true => draw_race(random, &mut scenario, &memory, &requests, latency_max, tags),
                    false => None,
                };
                if let Some((before, change)) = directed {
                    change.apply(&mut memory);
                    events.extend(before);
                    events.push(Event::Change(change));
                    continue;
                }
                let long: Vec<_> = requests.iter().filter(|request| request.length > 8192).collect();
                let target = match long.choose(random) {
                    Some(long) if random.random() => Some(*long),
                    _ => requests.choose(random),
                };
                let Some(target) = target.copied() else { continue };
                if let Some(mut change) = draw_change(random, &scenario, &memory, &target, tags) {
                    change.apply(&mut memory);
                    // What concerns it comes before, between it and its invalidation, and after.
                    let mut again = |count: u32| -> Vec<Request> {
                        (0..count).map(|_| Request { tag: tags.request(), ..target }).collect()
                    };
                    let [before, during, after] = [5, 3, 6].map(|most| again(random.random_range(0..=most)));
                    if random.random_ratio(1, 3) {
                        // Nothing is cached: the change meets walks on their way.
                        let all = draw_invalidation(random, &scenario, &target, target.pd, tags);
                        events.push(Event::Invalidate(Invalidation { scope: Scope::All, ..all }));
                    }
                    events.extend(before.into_iter().map(Event::Request));
                    if random.random() {
                        events.push(Event::Pause(random.random_range(1..60)));
                    }
                    let longest = *[1, 8, 60].choose(random).expect("not empty");
                    change.during =
                        during.into_iter().map(|request| (random.random_range(0..longest), request)).collect();
                    events.push(Event::Change(change));
                    events.extend(after.into_iter().map(Event::Request));
                }
            }
            roll if (300..300 + resets).contains(&roll) => events.push(Event::Reset),
            _ => {
                requests.push(request);
                events.push(Event::Request(request));
            }
        }
    }
    let faults = draw_faults(random, &scenario, &requests, &contexts);
    let numbered = events.into_iter().map(|event| {
        *number += 1;
        (*number - 1, event)
    });
    let events = numbered.collect();
    Chapter { scenario: Arc::new(scenario), faults, begins_with_reset: random.random(), events }
}

/// A change of pages that meets a part of them in the caches, so that requests find some pages as they were and some as they
/// are now, and what comes before it. `None` where no earlier request suits.
///
/// Nothing is cached. A request of one page brings that page, and those beside it, into the TLB. Then either pages change in
/// several lines, or their table is moved. Of that the caches hold the old pointer, so it takes more: another request reads the
/// pointer before the first read of it has come back (walks share a line in flight, but not across an invalidation, so one of
/// something else comes between), and the table moves when the first read has been answered. Then the second one brings
/// the new pointer into the cache beside the old pages in the TLB.
fn draw_race(
    random: &mut ChaCha8Rng,
    scenario: &mut Scenario,
    memory: &SparseMemory,
    requests: &[Request],
    latency_max: u32,
    tags: &mut Tags,
) -> Option<(Vec<Event>, Change)> {
    let (target, reads, pages) = (0..TARGETS_TRIED).find_map(|_| {
        let target = requests.choose(random)?;
        let reads = reads_of(scenario, memory, target);
        let mtr: Vec<_> = reads.iter().copied().filter(|read| read.table != Table::Mpt.code()).collect();
        let last_hop = mtr.iter().map(|read| read.hop).max()?;
        let pages: Vec<_> = mtr.into_iter().filter(|read| read.hop == last_hop).collect();
        let line = |read: Option<&TableRead>| read.map(|read| read.address / LINE_BYTES);
        (line(pages.first()) != line(pages.last())).then_some((*target, reads, pages))
    })?;
    let mut request = |va: u64, length: u32| Request { tag: tags.request(), va, length, ..target };
    let first = request(target.va, 1);
    let last = request(target.va.wrapping_add(u64::from(target.length) - 1), 1);
    let whole: Vec<_> = (0..random.random_range(1..=4)).map(|_| request(target.va, target.length)).collect();
    // The first request may yet have its page to read.
    let during = whole
        .into_iter()
        .map(|request| (random.random_range(0..=latency_max + latency_max / 2 + 40), request))
        .collect();

    let (owner, pd) = owner_of(memory, &reads, &target, mpt_entries_of(memory, &reads).len().checked_sub(1)?);
    let all = draw_invalidation(random, scenario, &target, pd, tags);
    let mut before =
        vec![Event::Invalidate(Invalidation { scope: Scope::All, ..all }), Event::Drain, Event::Request(first)];
    let moved_table = match random.random_ratio(3, 4) {
        true => draw_table_change(random, scenario, memory, &reads, true),
        false => None,
    };
    let (kind, backed, words) = match moved_table {
        Some(change) => {
            let other = scenario.request(0);
            let other = draw_invalidation(random, scenario, &other, other.pd, tags);
            before.extend([
                Event::Pause(random.random_range(1..=4)),
                Event::Invalidate(Invalidation { scope: Scope::Region, ..other }),
                // Until it takes effect.
                Event::Pause(random.random_range(8..=16)),
                Event::Request(last),
                Event::UntilRead(change.2.last()?.0),
            ]);
            change
        }
        None => {
            before.push(Event::Drain);
            let mut words = Vec::new();
            for read in pages {
                if random.random() {
                    words.push((read.address, moved(random, read.value.ok()?)));
                }
            }
            (ChangeKind::Page, None, words)
        }
    };
    let invalidation = draw_invalidation(random, scenario, &owner, pd, tags);
    let delay_cycles = random.random_range(0..100);
    Some((before, Change { kind, backed, words, during, delay_cycles, invalidation }))
}

/// The MPT entries among the reads of a request: that of its key, and that of the parent where it is a window's.
fn mpt_entries_of(memory: &SparseMemory, reads: &[TableRead]) -> Vec<[u8; 64]> {
    let entry = |read: &TableRead| {
        let mut bytes = [0; 64];
        memory.read(read.address, &mut bytes).ok().map(|()| bytes)
    };
    reads.iter().filter(|read| read.bytes == 64).map_while(entry).collect()
}

/// The request with the key of an entry that it reads, and that entry's PD, which is not the request's where that is wrong.
/// `number` counts the entries: 0 for that of the key, 1 for that of its parent.
fn owner_of(memory: &SparseMemory, reads: &[TableRead], request: &Request, number: usize) -> (Request, u32) {
    let entries = mpt_entries_of(memory, reads);
    let parent_key = entries.first().filter(|_| number > 0).map(|entry| mpt_entry::BOUND_LKEY.get(entry) as u32);
    let pd = entries.get(number).map_or(request.pd, |entry| mpt_entry::PD.get(entry) as u32);
    (Request { key: parent_key.unwrap_or(request.key), ..*request }, pd)
}

/// What [`Change`] says of the change itself.
type Words = (ChangeKind, Option<(u64, u64)>, Vec<(u64, u64)>);

/// A table of pages is copied and the pointer to it changed, which is the last word: that of any of the pointers that were
/// read, or the first one to pages. Pages move in the copy.
fn draw_table_change(
    random: &mut ChaCha8Rng,
    scenario: &Scenario,
    memory: &SparseMemory,
    reads: &[TableRead],
    is_first_to_pages: bool,
) -> Option<Words> {
    let mtr = || reads.iter().filter(|read| read.table != Table::Mpt.code());
    let last_hop = mtr().map(|read| read.hop).max()?;
    let read = if is_first_to_pages {
        mtr().find(|read| read.hop + 1 == last_hop)?
    } else {
        mtr().filter(|read| read.hop < last_hop).collect::<Vec<_>>().choose(random).copied()?
    };
    let table_bytes = 4096 << mpt_entry::PBL_BA_PG_SZ.get(mpt_entries_of(memory, reads).last()?);
    let (target, mut words) = copy(random, scenario, memory, read.value.ok()?, table_bytes)?;
    for (_, word) in words.iter_mut().filter(|(_, word)| *word != 0) {
        if read.hop + 1 == last_hop && random.random() {
            *word = moved(random, *word);
        }
    }
    words.push((read.address, target));
    Some((ChangeKind::PageTable, Some((target, table_bytes)), words))
}

/// An invalidation that covers the MPT entry of a request.
fn draw_invalidation(
    random: &mut ChaCha8Rng,
    scenario: &Scenario,
    request: &Request,
    pd: u32,
    tags: &mut Tags,
) -> Invalidation {
    let scopes = [Scope::Region, Scope::Range, Scope::ProtectionDomain, Scope::Function, Scope::All];
    // A damaged pointer that is taken as it is may give two keys one entry: then one key does not name all it concerns.
    let scopes = if scenario.model.controls.alignment_check { &scopes[..] } else { &scopes[2..] };
    let set_of = |function: u8| scenario.model.function_map[usize::from(function)];
    let functions = scenario.setup.function_map.iter().map(|(function, _)| *function);
    let same_set: Vec<u8> = functions.filter(|function| set_of(*function) == set_of(request.function)).collect();
    Invalidation {
        tag: tags.invalidation(),
        function: *same_set.choose(random).unwrap_or(&request.function),
        scope: *scopes.choose(random).expect("not empty"),
        key: request.key,
        pd,
        va: request.va,
        length_bytes: request.length.into(),
    }
}

/// The table reads of a request.
#[derive(Default)]
struct Reads(Vec<TableRead>);

impl Observer for Reads {
    fn read(&mut self, read: TableRead) {
        self.0.push(read);
    }
}

fn reads_of(scenario: &Scenario, memory: &SparseMemory, request: &Request) -> Vec<TableRead> {
    let read = |address: u64, bytes: &mut [u8]| memory.read(address, bytes).map_err(|_| BusError);
    let mut reads = Reads::default();
    let _ = scenario.model.translate_observed(&read, request, &mut reads);
    reads.0
}

/// The table reads of a request of either kind, which is drawn for that.
fn some_reads(random: &mut ChaCha8Rng, scenario: &mut Scenario) -> Vec<TableRead> {
    if random.random_ratio(2, 3) {
        let request = scenario.request(0);
        return reads_of(scenario, &scenario.memory, &request);
    }
    let mut reads = Reads::default();
    let request = scenario.context_request(0);
    let _ = scenario.model.context_observed(&scenario.shared_memory(), &request, &mut reads);
    reads.0
}

/// Damages what requests read, at any level: zero, misaligned and wild pointers and pages, and a root of zero.
fn damage(random: &mut ChaCha8Rng, scenario: &mut Scenario) {
    for _ in 0..random.random_range(1..8) {
        let reads = some_reads(random, scenario);
        let Some(read) = reads.choose(random) else { continue };
        let memory = Arc::make_mut(&mut scenario.memory);
        let (address, word) = if read.bytes == 64 {
            (read.address + u64::from(mpt_entry::PBL_BA.low / 64 * 8), 0)
        } else {
            let Ok(value) = read.value else { continue };
            let damaged = match random.random_range(0..6) {
                0 => 0,
                1 => random.random(),
                2 => value ^ 1 << random.random_range(0..64),
                _ => value ^ 1 << random.random_range(0..13),
            };
            (read.address, damaged)
        };
        // Nothing is there to be damaged where an earlier read has failed.
        let _ = memory.write_u64(address, word);
    }
}

/// Lines with faults, among those that the requests read.
fn draw_faults(
    random: &mut ChaCha8Rng,
    scenario: &Scenario,
    requests: &[Request],
    contexts: &[ContextRequest],
) -> Vec<(u64, ReadFault)> {
    if random.random() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for _ in 0..random.random_range(1..=6) {
        let mut reads = match requests.choose(random) {
            Some(request) if random.random_ratio(3, 4) => reads_of(scenario, &scenario.memory, request),
            _ => Vec::new(),
        };
        if let Some(context) = contexts.choose(random)
            && reads.is_empty()
        {
            let mut observer = Reads::default();
            let _ = scenario.model.context_observed(&scenario.shared_memory(), context, &mut observer);
            reads = observer.0;
        }
        let Some(read) = reads.choose(random) else { continue };
        let quarters = match random.random_range(0..3) {
            0 => quarter(read.address),
            1 => 1 << random.random_range(0..4),
            _ => random.random_range(1..16),
        };
        let fault =
            if random.random() { ReadFault::SlaveError { quarters } } else { ReadFault::DecodeError { quarters } };
        if faults.iter().all(|(address, _)| address / LINE_BYTES != read.address / LINE_BYTES) {
            faults.push((read.address, fault));
        }
    }
    faults
}

/// A change of the tables that a request uses; `None` where it reads none.
fn draw_change(
    random: &mut ChaCha8Rng,
    scenario: &Scenario,
    memory: &SparseMemory,
    request: &Request,
    tags: &mut Tags,
) -> Option<Change> {
    let reads = reads_of(scenario, memory, request);
    let of_table = |is_mpt: bool| -> Vec<TableRead> {
        reads.iter().copied().filter(|read| (read.table == Table::Mpt.code()) == is_mpt).collect()
    };
    let (hem, mtr) = (of_table(true), of_table(false));
    // The lookup of the key's entry, and that of its parent where it is a window's.
    let lookups: Vec<&[TableRead]> = hem.split_inclusive(|read| read.bytes == 64).collect();
    let number = random.random_range(0..lookups.len().max(1));
    let hem = *lookups.get(number)?;
    let set = scenario.model.table_set(request.function);
    let entry = hem.iter().find(|read| read.bytes == 64).copied();
    let mut owner = number;
    let last_hop = mtr.iter().map(|read| read.hop).max().unwrap_or(0);
    let leaves: Vec<TableRead> = mtr.iter().copied().filter(|read| read.hop == last_hop).collect();
    let wanted = random.random_range(0..4);
    let (kind, backed, words) = match wanted {
        0 if mtr.iter().any(|read| read.hop < last_hop) => {
            owner = lookups.len() - 1;
            draw_table_change(random, scenario, memory, &reads, false)?
        }
        0 | 1 if !leaves.is_empty() => {
            owner = lookups.len() - 1;
            let mut words = Vec::new();
            let first = random.random_range(0..leaves.len());
            for read in leaves.iter().skip(first).take(random.random_range(1..=PAGES_CHANGED_MAX)) {
                let old = read.value.ok()?;
                words.push((read.address, if random.random_ratio(1, 6) { 0 } else { moved(random, old) }));
            }
            (ChangeKind::Page, None, words)
        }
        0..=2 => {
            let entry = entry?;
            let mut bytes = [0; 64];
            memory.read(entry.address, &mut bytes).ok()?;
            change_entry(random, &mut bytes);
            (ChangeKind::Entry, None, words_of(entry.address, &bytes))
        }
        _ => {
            let read = hem.iter().filter(|read| read.bytes == 8).collect::<Vec<_>>().choose(random).copied()?;
            let geometry = set.table(Table::Mpt).geometry;
            let is_chunk = read.hop + 1 == geometry.hop;
            let size_field = if is_chunk { geometry.buf_pg_sz } else { geometry.ba_pg_sz };
            let table_bytes = 4096 << size_field;
            let pointer = read.value.ok()?;
            let (target, mut words) = copy(random, scenario, memory, pointer, table_bytes)?;
            if let Some(entry) = entry.filter(|_| is_chunk) {
                let mut bytes = [0; 64];
                memory.read(entry.address, &mut bytes).ok()?;
                change_entry(random, &mut bytes);
                words.extend(words_of(target + entry.address.wrapping_sub(pointer), &bytes));
            }
            words.push((read.address, target));
            (ChangeKind::HemPointer, Some((target, table_bytes)), words)
        }
    };
    let delay_cycles = if random.random() { 0 } else { random.random_range(1..60) };
    let (owner, pd) = owner_of(memory, &reads, request, owner);
    let invalidation = draw_invalidation(random, scenario, &owner, pd, tags);
    Some(Change { kind, backed, words, during: Vec::new(), delay_cycles, invalidation })
}

/// Another place for a page: of the same alignment, mostly.
fn moved(random: &mut ChaCha8Rng, page: u64) -> u64 {
    page ^ u64::from(random.random_range(1..1_u32 << 10)) << 30
}

/// The words of some bytes.
fn words_of(address: u64, bytes: &[u8]) -> Vec<(u64, u64)> {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    (address..).step_by(8).zip(words).collect()
}

/// A free place for a table and the words of its copy there.
fn copy(
    random: &mut ChaCha8Rng,
    scenario: &Scenario,
    memory: &SparseMemory,
    from: u64,
    length_bytes: u64,
) -> Option<(u64, Vec<(u64, u64)>)> {
    if length_bytes > COPY_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; length_bytes as usize];
    memory.read(from, &mut bytes).ok()?;
    let places = (1_u64 << (scenario.address_bits - 1)) / length_bytes;
    let target = random.random_range(1..places) * length_bytes;
    let is_free = (target..target + length_bytes).step_by(4096).all(|page| !memory.is_backed(page));
    is_free.then(|| (target, words_of(target, &bytes)))
}

/// Changes an MPT entry in one way.
fn change_entry(random: &mut ChaCha8Rng, bytes: &mut [u8; 64]) {
    use mpt_entry::{LEN, LKEY, LW_EN, PBL_BA, PBL_SIZE, PD, RR_EN, RW_EN, ST};
    let (field, value) = match random.random_range(0..7) {
        0 => (PD, PD.get(bytes) ^ 1 << random.random_range(0..24)),
        1 => (ST, 3 - ST.get(bytes)),
        2 => {
            let right = *[LW_EN, RR_EN, RW_EN].choose(random).expect("not empty");
            (right, 1 - right.get(bytes))
        }
        3 => (LKEY, LKEY.get(bytes) ^ 1 << random.random_range(0..32)),
        4 => (LEN, LEN.get(bytes) / 2),
        5 => (PBL_BA, 0),
        _ => (PBL_SIZE, PBL_SIZE.get(bytes) / 2),
    };
    // The value comes from the field itself, so it fits.
    let _ = field.put(bytes, value);
}
