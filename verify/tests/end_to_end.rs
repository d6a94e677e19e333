//! End to end: remote writes, reads and atomics through shell, engine and data mover into host memory that holds tables and
//! known bytes. Afterwards every byte of the whole address space is what the model and plain bytes say, outcomes and data too.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use keywalk_contract::{Config, MoverStatus, Operation, Status};
use keywalk_cosim::{ByteMemory, Card, CardOptions, FAULT_BYTES, Setup, Stall, bits, dut};
use keywalk_image::{PAGE_BYTES, SparseMemory};
use keywalk_model::{BusError, Controls, Engine, Memory, Request, Response};
use keywalk_verify::hardware;
use keywalk_verify::scenario::Scenario;
use keywalk_verify::tables::Tables;
use keywalk_verify::vector::{Region, RegionKind, Vector};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Half periods of the engine's and the PCIe clock: faster, equal, slower, far apart.
const CLOCKS: [[u64; 2]; 5] = [[1600, 2000], [2000, 2000], [2000, 1600], [700, 3100], [3100, 700]];
/// Edges of the engine's clock without an outcome after which a card counts as stuck.
const PATIENCE: u64 = 60_000;
/// Edges that the card runs on when everything has come, for what should not come.
const AFTERMATH: u64 = 200;
/// Longest request whose data are moved.
const LENGTH_MAX_BYTES: u64 = 9000;
/// Requests that are tried before a batch ends because all of them race with it.
const TRIES: u32 = 12;

/// Host memory as it must be, and as the model reads its tables.
struct HostMemory {
    bytes: ByteMemory,
    /// Numbers of [`FAULT_BYTES`] that answer with a bus error.
    faults: BTreeSet<u64>,
}

impl HostMemory {
    /// What a memory of tables holds; all other bytes are known as well.
    fn of(tables: &SparseMemory) -> Self {
        let mut bytes = ByteMemory::default();
        let mut content = [0; PAGE_BYTES as usize];
        for page in tables.backed_pages().flatten() {
            tables.read(page * PAGE_BYTES, &mut content).expect("it is backed");
            bytes.write(page * PAGE_BYTES, &content);
        }
        Self { bytes, faults: BTreeSet::new() }
    }

    fn is_faulty(&self, address: u64) -> bool {
        self.faults.contains(&(address / FAULT_BYTES))
    }
}

impl Memory for HostMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        for (distance, byte) in (0..).zip(bytes) {
            let at = address.wrapping_add(distance);
            if self.is_faulty(at) {
                return Err(BusError);
            }
            *byte = self.bytes.get(at);
        }
        Ok(())
    }
}

/// How a request uses memory. Requests of one way are carried out in order; others are not ordered with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    Read,
    Write,
    Atomic,
    Nothing,
}

fn way(operation: u8) -> Way {
    match Operation::from_code(operation) {
        Some(Operation::LocalRead | Operation::RemoteRead) => Way::Read,
        Some(Operation::LocalWrite | Operation::RemoteWrite) => Way::Write,
        Some(Operation::RemoteAtomic) => Way::Atomic,
        Some(Operation::Bind) | None => Way::Nothing,
    }
}

/// A completion: tag, function, status and refusal.
type Completion = (u64, u64, u8, u8);

/// A packet that must come: `None` is a byte that may be anything.
struct Packet {
    request: Request,
    bytes: Vec<Option<u8>>,
    is_bad: bool,
}

/// A card with host memory, the model beside it, and what is expected of requests under way.
struct World {
    name: String,
    card: Card,
    config: Config,
    model: Engine,
    memory: HostMemory,
    random: ChaCha8Rng,
    /// 4 KiB pages that hold tables.
    tables: HashSet<u64>,
    next_tag: u16,
    /// By the 8 bytes, how requests under way use them.
    used: HashMap<u64, Way>,
    completions: HashMap<Way, VecDeque<Completion>>,
    packets: VecDeque<Packet>,
    /// Beats of the bus that requests under way may read or write.
    beats: HashSet<(u64, bool)>,
    /// Requests by status of their response and outcome.
    seen: HashMap<(Status, MoverStatus), u64>,
    /// How often everything under way was waited for.
    batches: u64,
}

impl World {
    fn new(name: String, tables: &SparseMemory, model: Engine, setup: &Setup, options: CardOptions) -> Self {
        let random = ChaCha8Rng::seed_from_u64(options.seed);
        let memory = HostMemory::of(tables);
        let mut card = Card::new(&dut::CARD, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        card.memory = memory.bytes.clone();
        card.setup(setup).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self {
            config: card.config().clone(),
            tables: tables.backed_pages().flatten().collect(),
            name,
            card,
            model,
            memory,
            random,
            next_tag: 0,
            used: HashMap::new(),
            completions: HashMap::new(),
            packets: VecDeque::new(),
            beats: HashSet::new(),
            seen: HashMap::new(),
            batches: 0,
        }
    }

    /// The model's answer, or `None` where the request shall not be made: it would move too much, change tables, run past the
    /// end of the address space, or race with one under way.
    fn answer(&self, request: &Request) -> Option<Response> {
        let way = way(request.operation);
        let response = self.model.translate(&self.memory, request);
        let moved: u64 = response.segments.iter().map(|segment| u64::from(segment.length_bytes)).sum();
        let payload = if way == Way::Write { u64::from(request.length.min(1 << 20)) } else { 0 };
        if moved.max(payload) > LENGTH_MAX_BYTES && request.length <= 1 << 31 {
            return None;
        }
        for segment in response.segments.iter().filter(|segment| segment.length_bytes > 0) {
            let last = segment.pa.checked_add(u64::from(segment.length_bytes) - 1)?;
            let pages = segment.pa / PAGE_BYTES..=last / PAGE_BYTES;
            let changes = matches!(way, Way::Write | Way::Atomic);
            if changes && pages.into_iter().any(|page| self.tables.contains(&page)) {
                return None;
            }
            let mut words = segment.pa / 8..=last / 8;
            if way != Way::Nothing && words.any(|word| self.used.get(&word).is_some_and(|other| *other != way)) {
                return None;
            }
        }
        Some(response)
    }

    /// Makes a request, and carries it out on the reference.
    fn submit(&mut self, request: Request, response: &Response) {
        let request = Request { tag: self.next_tag, ..request };
        self.next_tag = self.next_tag.wrapping_add(1);
        let way = way(request.operation);
        let refusal = response.failure.map_or(Status::Ok, |failure| failure.status);
        let segments: Vec<(u64, u64)> = response
            .segments
            .iter()
            .map(|segment| (segment.pa, u64::from(segment.length_bytes)))
            .filter(|(_, length)| *length > 0)
            .collect();
        let beat_bytes = u64::from(self.config.mover_beat_bytes());
        let beats = |(at, length): &(u64, u64)| at / beat_bytes..=(at + length - 1) / beat_bytes;
        if way != Way::Nothing {
            for (at, length) in &segments {
                self.used.extend((at / 8..=(at + length - 1) / 8).map(|word| (word, way)));
            }
            for beat in segments.iter().flat_map(beats) {
                if way != Way::Write {
                    self.beats.insert((beat, false));
                }
                if way != Way::Read {
                    self.beats.insert((beat, true));
                }
            }
        }
        let is_hit = segments.iter().flat_map(beats).any(|beat| self.memory.is_faulty(beat * beat_bytes));
        let refused = if refusal == Status::Ok { MoverStatus::Ok } else { MoverStatus::Refused };
        let result = self.card.submit(&hardware::request(&request, request.tag));
        result.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let status = match way {
            Way::Read => {
                let addresses = segments.iter().flat_map(|(at, length)| (0..*length).map(move |n| at + n));
                let memory = &self.memory;
                let bytes = addresses.map(|at| (!memory.is_faulty(at)).then(|| memory.bytes.get(at))).collect();
                let status = if is_hit { MoverStatus::ReadError } else { refused };
                self.packets.push_back(Packet { request, bytes, is_bad: status != MoverStatus::Ok });
                status
            }
            Way::Write => {
                self.write(&request, &segments);
                if is_hit { MoverStatus::WriteError } else { refused }
            }
            Way::Atomic => self.atomic(&request, &segments, refused),
            Way::Nothing => refused,
        };
        *self.seen.entry((refusal, status)).or_default() += 1;
        let tag = u64::from(request.tag) & bits::max(self.config.tag_bits);
        let function = u64::from(request.function) & bits::max(self.config.function_bits);
        // Reads and what moves nothing end in one order.
        let path = if way == Way::Nothing { Way::Read } else { way };
        let completion = (tag, function, status.code(), refusal.code());
        self.completions.entry(path).or_default().push_back(completion);
    }

    /// Payload of a write, whole whatever becomes of it.
    fn write(&mut self, request: &Request, segments: &[(u64, u64)]) {
        // Of a request that is refused for its length nobody sends as much.
        let length = if u64::from(request.length) <= LENGTH_MAX_BYTES { request.length } else { 100 };
        let mut payload = vec![0; length as usize];
        self.random.fill_bytes(&mut payload);
        let mut rest = &payload[..];
        for (at, length) in segments {
            let (part, behind) = rest.split_at(*length as usize);
            for (address, byte) in (*at..=at + (length - 1)).zip(part) {
                if !self.memory.is_faulty(address) {
                    self.memory.bytes.set(address, *byte);
                }
            }
            rest = behind;
        }
        self.card.push_payload(&payload).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Operands of an atomic, and what comes of it.
    fn atomic(&mut self, request: &Request, segments: &[(u64, u64)], refused: MoverStatus) -> MoverStatus {
        let word = match segments {
            [(at, 8)] if at.is_multiple_of(8) => Some(*at),
            _ => None,
        };
        let mut old = [0; 8];
        let is_readable = word.is_some_and(|at| self.memory.read(at, &mut old).is_ok());
        let number = u64::from_le_bytes(old);
        let is_swap: bool = self.random.random();
        let value = if self.random.random() { self.random.random() } else { u64::MAX };
        let compare = if self.random.random() { number } else { number ^ 1 << self.random.random_range(0..64) };
        let operands = [("is_swap", u128::from(is_swap)), ("value", value.into()), ("compare", compare.into())];
        let driver = self.card.driver("s_axis_atomic");
        driver.push_fields(&operands).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let (status, bytes) = match word {
            _ if refused != MoverStatus::Ok => (refused, Vec::new()),
            None => (MoverStatus::AtomicShape, Vec::new()),
            Some(_) if !is_readable => (MoverStatus::ReadError, vec![None; 8]),
            Some(at) => {
                let new = match is_swap {
                    false => number.wrapping_add(value),
                    true if number == compare => value,
                    true => number,
                };
                self.memory.bytes.write(at, &new.to_le_bytes());
                (MoverStatus::Ok, old.map(Some).to_vec())
            }
        };
        self.packets.push_back(Packet { request: *request, bytes, is_bad: status != MoverStatus::Ok });
        status
    }

    /// A step, and what it brought to the bus.
    fn step(&mut self) {
        self.card.step().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let beat_bytes = u64::from(self.config.mover_beat_bytes());
        for transfer in std::mem::take(&mut self.card.transfers) {
            let beat = (transfer.address / beat_bytes, transfer.is_write);
            let is_expected = if transfer.is_movers { self.beats.contains(&beat) } else { !transfer.is_write };
            assert!(is_expected, "{}: {transfer:x?} belongs to no request", self.name);
        }
    }

    /// Waits for everything that is under way and compares it.
    fn finish(&mut self) {
        let mut begun = Vec::new();
        let mut last = self.card.edges();
        while !self.packets.is_empty() || self.completions.values().any(|queue| !queue.is_empty()) {
            self.step();
            if self.take(&mut begun) {
                last = self.card.edges();
            }
            let (packets, completions) = (self.packets.len(), &self.completions);
            let waited = self.card.edges() - last;
            assert!(waited < PATIENCE, "{}: nothing for {waited} edges; {packets} packets, {completions:?}", self.name);
        }
        let end = self.card.edges() + AFTERMATH;
        while self.card.edges() < end {
            self.step();
            assert!(!self.take(&mut begun) && begun.is_empty(), "{}: more than there were requests", self.name);
        }
        let differences = self.card.memory.differences(&self.memory.bytes);
        let first = differences.first().copied().unwrap_or_default();
        assert!(
            differences.is_empty(),
            "{}: host memory differs at {differences:x?}: {:#04x}, expected {:#04x}",
            self.name,
            self.card.memory.get(first),
            self.memory.bytes.get(first)
        );
        self.used.clear();
        self.beats.clear();
        self.batches += 1;
    }

    /// Compares what came with what was expected; whether anything came.
    fn take(&mut self, begun: &mut Vec<u8>) -> bool {
        let name = &self.name;
        let mut came = false;
        while let Some(beat) = self.card.sink("m_axis_cpl").pop() {
            let field = |field| beat.get(field).unwrap_or_else(|error| panic!("{name}: {error}")) as u64;
            let found = (field("tag"), field("function"), field("status") as u8, field("refusal") as u8);
            let queue = self.completions.values_mut().find(|queue| queue.front().is_some_and(|next| next.0 == found.0));
            let wanted = queue.and_then(VecDeque::pop_front);
            assert_eq!(Some(found), wanted, "{name}: a completion; next are {:?}", self.completions);
            came = true;
        }
        while let Some((bytes, is_bad)) = self.card.pop_packet(begun).unwrap_or_else(|error| panic!("{name}: {error}"))
        {
            let wanted = self.packets.pop_front().unwrap_or_else(|| panic!("{name}: a packet that nobody asked for"));
            let request = &wanted.request;
            assert_eq!((bytes.len(), is_bad), (wanted.bytes.len(), wanted.is_bad), "{name}: packet of {request:x?}");
            let wrong = bytes.iter().zip(&wanted.bytes).position(|(byte, wanted)| wanted.is_some_and(|w| w != *byte));
            assert_eq!(wrong, None, "{name}: byte of the packet of {request:x?}");
            came = true;
        }
        came
    }

    /// Requests that `draw` gives, in batches without races.
    fn run(&mut self, count: u32, mut draw: impl FnMut(&mut ChaCha8Rng) -> Request) {
        for _ in 0..count {
            let mut answered = None;
            for _ in 0..TRIES {
                let request = draw(&mut self.random);
                if let Some(response) = self.answer(&request) {
                    answered = Some((request, response));
                    break;
                }
            }
            match answered {
                Some((request, response)) => self.submit(request, &response),
                None => self.finish(),
            }
        }
        self.finish();
    }

    /// Lets the bus answer with errors where some accesses lead.
    fn break_some(&mut self, count: u32, mut draw: impl FnMut(&mut ChaCha8Rng) -> Request) {
        for _ in 0..count {
            let request = draw(&mut self.random);
            let response = self.model.translate(&self.memory, &request);
            if let Some(segment) = response.segments.choose(&mut self.random) {
                let at = segment.pa.wrapping_add(self.random.random_range(0..segment.length_bytes.max(1)).into());
                self.memory.faults.insert(at / FAULT_BYTES);
            }
        }
        self.card.faults = self.memory.faults.clone();
    }
}

/// A card's surroundings by number: clocks, stalls, latency.
fn surroundings(number: u64) -> CardOptions {
    let half_periods = CLOCKS[number as usize % CLOCKS.len()];
    let seed = 1 + number;
    match number % 3 {
        0 => CardOptions { seed, half_periods, ..CardOptions::default() },
        1 => CardOptions { half_periods, ..CardOptions::rough(seed) },
        _ => CardOptions {
            half_periods,
            host_latency: 100..=400,
            host_stall: Stall::percent(10),
            ..CardOptions::rough(seed)
        },
    }
}

/// An access to a region of a vector: right, or wrong in one way.
fn access(region: &Region, random: &mut ChaCha8Rng) -> Option<Request> {
    let key = region.key?.0;
    let (va, length_bytes) = match region.kind {
        // All of memory: some pages of it.
        RegionKind::Dma => (0x5_0000_0000 + 0x10_0000_0000 * random.random_range(0..3), 3 * PAGE_BYTES),
        _ => (region.va?.0, region.len?),
    };
    let operation = if random.random_ratio(1, 30) { random.random_range(5..16) } else { random.random_range(0..5) };
    let offset = match random.random_range(0..6) {
        0 => 0,
        1 => length_bytes.saturating_sub(random.random_range(0..40)),
        _ => random.random_range(0..=length_bytes),
    };
    let longest = *[8, 70, 500, 4096, LENGTH_MAX_BYTES].choose(random).expect("not empty");
    let length = random.random_range(0..=longest.min(length_bytes - offset));
    let function = random.random();
    let mut request = Request {
        tag: 0,
        function,
        operation,
        key,
        pd: region.pd,
        qpn: 0,
        va: va.wrapping_add(offset),
        length: length as u32,
    };
    if operation == Operation::RemoteAtomic.code() && !random.random_ratio(1, 8) {
        (request.va, request.length) = (request.va & !7, 8);
    }
    match random.random_range(0..40) {
        0 => request.key ^= 1 << random.random_range(0..32),
        1 => request.pd ^= 1 << random.random_range(0..24),
        2 => request.va = request.va.wrapping_sub(random.random_range(1..30)),
        3 => request.length += random.random_range(1..30),
        4 => request.length = random.random_range((1 << 31) + 1..=u32::MAX),
        5 => request.va = random.random(),
        _ => {}
    }
    Some(request)
}

fn vectors() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let files = std::fs::read_dir(directory).expect("the vectors are there");
    let mut paths: Vec<_> = files.map(|file| file.expect("it is listed").path()).collect();
    paths.retain(|path| path.to_string_lossy().contains(".json"));
    paths.sort();
    paths
}

/// What a card did to be counted.
#[derive(Default)]
struct Tally {
    outcomes: HashMap<(Status, MoverStatus), u64>,
    batches: u64,
}

impl Tally {
    fn add(&mut self, world: World) {
        for (outcome, count) in world.seen {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.batches += world.batches;
    }

    fn of(&self, is_wanted: impl Fn(Status, MoverStatus) -> bool) -> u64 {
        self.outcomes.iter().filter(|((status, outcome), _)| is_wanted(*status, *outcome)).map(|(_, count)| count).sum()
    }
}

impl Tally {
    /// Many requests are under way together.
    fn check_batches(&self) {
        let requests = self.of(|_, _| true);
        println!("{requests} requests in {} batches", self.batches);
        assert!(requests > 6 * self.batches, "{requests} requests in {} batches", self.batches);
    }
}

/// The driver's tables of every vector that has regions: hops 0 to 3, page sizes from 4 KiB to 128 MiB.
#[test]
fn host_memory_is_as_the_model_says_for_the_drivers_tables() {
    let mut tally = Tally::default();
    let mut hold = false;
    for (number, path) in (0..).zip(vectors()) {
        let vector = Vector::load(&path).expect("it is a vector");
        let regions: Vec<&Region> = vector.mrs.iter().filter(|region| region.key.is_some()).collect();
        if regions.is_empty() {
            continue;
        }
        let tables = Tables::of(&vector).expect("all bytes are backed");
        let options = surroundings(number);
        hold = !hold;
        let config = dut::CARD.config().expect("a card is generated");
        let controls = Controls {
            hold_mode: hold,
            atomic_shape_check: number % 4 != 3,
            hold_bytes_max: config.hold_bytes_max(),
            ..Controls::default()
        };
        let mut model = Engine::new(vec![tables.table_set.clone()]);
        model.controls = controls;
        let setup = Setup {
            table_sets: vec![hardware::table_set(&tables.table_set)],
            controls: hardware::controls(controls),
            ..Setup::default()
        };
        let name = format!("{}, surroundings {number}, hold mode {hold}", vector.name);
        let mut world = World::new(name, &tables.memory, model, &setup, options);
        let draw = |random: &mut ChaCha8Rng| {
            // A row that is to be refused, or an access to a region.
            if let Some(row) = vector.bad.choose(random).filter(|_| random.random_ratio(1, 6)) {
                let (operation, va) = (row.op.code(), row.va.0);
                return Request {
                    tag: 0,
                    function: 0,
                    operation,
                    key: row.key.0,
                    pd: row.pd,
                    qpn: 0,
                    va,
                    length: row.len,
                };
            }
            loop {
                if let Some(request) = regions.choose(random).and_then(|region| access(region, random)) {
                    return request;
                }
            }
        };
        world.run(120, draw);
        world.break_some(6, draw);
        world.run(60, draw);
        tally.add(world);
    }
    let moved = tally.of(|_, outcome| outcome == MoverStatus::Ok);
    let refused = tally.of(|_, outcome| outcome == MoverStatus::Refused);
    let bus_errors = tally.of(|_, outcome| matches!(outcome, MoverStatus::ReadError | MoverStatus::WriteError));
    println!("{moved} moved, {refused} refused, {bus_errors} bus errors: {:?}", tally.outcomes);
    tally.check_batches();
    assert!(moved > 3000 && refused > 2000 && bus_errors > 50, "{moved} {refused} {bus_errors}");
    for status in [Status::EntryKey, Status::EntryState, Status::ProtectionDomain, Status::AccessRight, Status::Bounds]
    {
        assert!(tally.of(|refusal, _| refusal == status) > 10, "{status:?} hardly happened");
    }
}

/// Random tables: several table sets, functions and protection domains, any switches, damage.
#[test]
fn host_memory_is_as_the_model_says_for_random_tables() {
    let mut tally = Tally::default();
    let config = dut::CARD.config().expect("a card is generated");
    for seed in 0..24 {
        let mut scenario = Scenario::draw(seed, &config);
        let name = format!("scenario {seed}");
        let (model, setup) = (scenario.model.clone(), scenario.setup.clone());
        let mut world = World::new(name, &scenario.memory.clone(), model, &setup, surroundings(seed));
        let mut draw = |random: &mut ChaCha8Rng| {
            let mut request = scenario.request(0);
            if request.length <= 1 << 31 {
                request.length = request.length.min(random.random_range(0..LENGTH_MAX_BYTES as u32));
            }
            request
        };
        world.run(120, &mut draw);
        world.break_some(6, &mut draw);
        world.run(60, &mut draw);
        tally.add(world);
    }
    let moved = tally.of(|_, outcome| outcome == MoverStatus::Ok);
    let refused = tally.of(|_, outcome| outcome == MoverStatus::Refused);
    println!("{moved} moved, {refused} refused: {:?}", tally.outcomes);
    tally.check_batches();
    assert!(moved > 1500 && refused > 1500, "{moved} {refused}");
}
