//! The command unit under random mailbox commands and work requests, against the golden model's device: outcome, memory and
//! translations after each; bus errors, misaligned buffers, unknown commands, a busy mailbox, resets in the middle, other
//! geometry in the middle, both ports busy at once, and traffic of another function meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use keywalk_contract::command::{self, Action, MAILBOX_COMMANDS, Opcode};
use keywalk_contract::ports::Scope;
use keywalk_contract::{
    CommandStatus, Field, MailboxCommand, Status, Table, WorkOpcode, WorkStatus, hem, key, mpt_entry, regs, work,
};
use keywalk_cosim::{self as cosim, Engine, EngineOptions, Invalidation, LineMemory, Setup, dut};
use keywalk_image::{LINE_BYTES, PAGE_BYTES, SparseMemory};
use keywalk_model::{
    BusError, Descriptor, Device, Geometry, Memory, MemoryMut, MptEntry, Request, TableSet, WorkRequest,
};
use keywalk_verify::hardware;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Cycles within which a command or work request ends, as the command unit says of itself, with the slowest memory here.
const COMMAND_LIMIT_CYCLES: u64 = 60_000;
const LIMIT_CYCLES: u64 = 100_000;
/// Function whose tables nothing changes; the others use table set 0.
const QUIET: u8 = 3;
const CHUNKS: u32 = 4;
const ENTRIES_PER_CHUNK: u32 = 64;
const NUM_MPTS_LOG2: u8 = 8;
const PDS: [u32; 2] = [7, 0x80_0001];
const QPNS: [u32; 2] = [5, 0xff_fff0];
const REGIONS: std::ops::Range<u32> = 64..72;
const WINDOWS: std::ops::Range<u32> = 128..134;
/// Those of the last chunk, which is not there.
const UNREACHABLE: std::ops::Range<u32> = (CHUNKS - 1) * ENTRIES_PER_CHUNK..CHUNKS * ENTRIES_PER_CHUNK;
/// Data pages begin here; page tables name them, and nothing is there.
const DATA: u64 = 0x77_0000_0000;

/// Memory of the host, of which some lines cannot be read or written.
#[derive(Clone, Default)]
struct HostMemory {
    memory: SparseMemory,
    unreadable: HashSet<u64>,
    unwritable: HashSet<u64>,
}

fn lines(address: u64, length: usize) -> impl Iterator<Item = u64> {
    (address / LINE_BYTES as u64..=(address + length as u64 - 1) / LINE_BYTES as u64)
        .map(|line| line * LINE_BYTES as u64)
}

impl LineMemory for HostMemory {
    fn line(&self, address: u64) -> Option<[u8; LINE_BYTES]> {
        let is_readable = lines(address, 1).all(|line| !self.unreadable.contains(&line));
        is_readable.then(|| self.memory.line(address)).flatten()
    }

    fn write_line(&mut self, address: u64, bytes: &[u8; LINE_BYTES], strobes: u64) -> bool {
        !self.unwritable.contains(&address) && self.memory.write_line(address, bytes, strobes)
    }
}

impl Memory for HostMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        if lines(address, bytes.len()).any(|line| self.unreadable.contains(&line)) {
            return Err(BusError);
        }
        self.memory.read(address, bytes).map_err(|_| BusError)
    }
}

impl MemoryMut for HostMemory {
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), BusError> {
        if lines(address, bytes.len()).any(|line| self.unwritable.contains(&line)) {
            return Err(BusError);
        }
        self.memory.write(address, bytes).map_err(|_| BusError)
    }
}

/// Where the tables are. Every table has a page for each level, chunks, and bases that lead nowhere.
struct Layout {
    random: ChaCha8Rng,
    memory: SparseMemory,
    next_page: u64,
}

impl Layout {
    fn page(&mut self) -> u64 {
        self.next_page += PAGE_BYTES * self.random.random_range(1..4);
        self.memory.back(self.next_page, PAGE_BYTES);
        self.next_page
    }

    /// A pointer that leads nowhere: zero, misaligned, or not backed.
    fn nowhere(&mut self) -> u64 {
        let page = self.page();
        match self.random.random_range(0..3) {
            0 => 0,
            1 => page + 8,
            _ => DATA + page,
        }
    }

    fn write(&mut self, address: u64, value: u64) {
        self.memory.write_u64(address, value).expect("it is backed");
    }
}

/// A context table and where its chunks are.
#[derive(Clone, Debug)]
struct Place {
    hop: u8,
    /// What BT0 commands bring: the first BA page, or with no hop the chunk of each slot.
    bases: Vec<u64>,
    /// The page that holds the pointers to chunks; none without hops.
    last_page: Option<u64>,
    /// Chunks by number; what leads nowhere has none.
    chunks: Vec<Option<u64>>,
}

/// A table of four chunks, the last of which is not reachable.
fn place(layout: &mut Layout, hop: u8) -> Place {
    let mut chunks: Vec<Option<u64>> = (1..CHUNKS).map(|_| Some(layout.page())).collect();
    chunks.push(None);
    let pointers: Vec<u64> = chunks.iter().map(|chunk| chunk.unwrap_or_else(|| layout.nowhere())).collect();
    if hop == 0 {
        return Place { hop, bases: pointers, last_page: None, chunks };
    }
    let last_page = layout.page();
    for (address, pointer) in (last_page..).step_by(8).zip(&pointers) {
        layout.write(address, *pointer);
    }
    let mut base = last_page;
    for _ in 1..hop {
        let page = layout.page();
        layout.write(page, base);
        base = page;
    }
    Place { hop, bases: vec![base], last_page: Some(last_page), chunks }
}

/// Entry bytes of the tables that commands are about.
fn entry_bytes_log2(random: &mut ChaCha8Rng, table: Table) -> u8 {
    match table {
        Table::Qpc => random.random_range(8..=9),
        _ => 6,
    }
}

/// Sets a field in bytes; a value that is too large is cut.
fn put(bytes: &mut [u8], field: Field, value: u64) {
    for bit in 0..field.width {
        let (byte, mask) = ((field.low + bit) as usize / 8, 1 << ((field.low + bit) % 8));
        bytes[byte] = if value >> bit & 1 == 1 { bytes[byte] | mask } else { bytes[byte] & !mask };
    }
}

/// Everything of one run.
struct Run {
    seed: u64,
    random: ChaCha8Rng,
    engine: Engine<HostMemory>,
    device: Device,
    memory: HostMemory,
    places: BTreeMap<Table, Place>,
    /// Mailbox buffers, and an address where there is none.
    buffers: Vec<u64>,
    token: u16,
    /// Answers that the other function has yet to get.
    background: usize,
    seen: Seen,
}

/// What has happened.
#[derive(Debug, Default)]
struct Seen {
    commands: BTreeSet<&'static str>,
    works: BTreeSet<(&'static str, &'static str)>,
    translations: BTreeSet<&'static str>,
    resets: u32,
    refused_while_busy: u32,
    /// What other geometry has changed for requests that were answered before and behind it.
    shapes: BTreeSet<(&'static str, &'static str)>,
    /// Where a mailbox command was carried out among the work requests that were under way with it, as far as it made a
    /// difference: how many were before it at least and at most, of how many.
    orders: BTreeSet<(usize, usize, usize)>,
}

/// A region for function [`QUIET`], in table set 1, which is not changed.
const QUIET_KEY: u32 = 0x0000_0911;

fn quiet_set(layout: &mut Layout) -> TableSet {
    let chunk = layout.page();
    let table = layout.page();
    for number in 0..8 {
        layout.write(table + 8 * number, DATA + (number << 12));
    }
    let mut entry = MptEntry::from_bytes(&[0; 64]);
    for (field, value) in [
        (mpt_entry::ST, mpt_entry::STATE_VALID),
        (mpt_entry::PD, 9),
        (mpt_entry::RR_EN, 1),
        (mpt_entry::LKEY, QUIET_KEY.into()),
        (mpt_entry::LEN, 0x8000),
        (mpt_entry::PBL_HOP_NUM, 1),
        (mpt_entry::PBL_SIZE, 8),
        (mpt_entry::PBL_BA, table >> 3),
    ] {
        entry.set(field, value);
    }
    let index = u64::from(QUIET_KEY >> key::ROTATE_BITS);
    layout.memory.write(chunk + 64 * index, &entry.to_bytes()).expect("it is backed");
    let mut set = TableSet { num_mpts_log2: NUM_MPTS_LOG2, ..TableSet::default() };
    set.table_mut(Table::Mpt).geometry = Geometry { entry_bytes_log2: 6, bt_num: 1, ..Geometry::default() };
    set.table_mut(Table::Mpt).set_bt0(0, Some(chunk));
    set
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut layout = Layout {
            random: ChaCha8Rng::seed_from_u64(seed ^ 0x5eed),
            memory: SparseMemory::new(),
            next_page: 0x1000_0000,
        };
        let mut set =
            TableSet { num_mpts_log2: NUM_MPTS_LOG2, page_shift_base: 12 + (seed % 2) as u8, ..TableSet::default() };
        let mut places = BTreeMap::new();
        for table in [Table::Qpc, Table::Cqc, Table::Mpt, Table::Srqc, Table::Sccc, Table::QpcTimer, Table::CqcTimer] {
            let hop = match table {
                Table::Mpt => random.random_range(0..=3),
                Table::Sccc | Table::QpcTimer | Table::CqcTimer => 0,
                _ => random.random_range(0..=2),
            };
            let entry_bytes_log2 = entry_bytes_log2(&mut random, table);
            // Half of the runs learn their hops from CFG_BT_ATTR.
            let is_told_later = seed % 2 == 1 && hem::BT_ATTRIBUTE_ORDER.contains(&table);
            set.table_mut(table).geometry = Geometry {
                hop: if is_told_later { 0 } else { hop },
                entry_bytes_log2,
                bt_num: if hop == 0 { random.random_range(CHUNKS..20) } else { random.random_range(1..20) },
                object_count: if random.random_bool(0.3) { 180 } else { 0 },
                ..Geometry::default()
            };
            places.insert(table, place(&mut layout, hop));
        }
        let buffers = (0..3).map(|_| layout.page()).collect();
        let quiet = quiet_set(&mut layout);
        let memory = HostMemory { memory: layout.memory, ..HostMemory::default() };
        let mut device = Device::new(keywalk_model::Engine::new(vec![set, quiet]));
        device.bt0_slots = dut::SMALL_COMMAND.config().expect("it is generated").bt0_slots;
        device.engine.function_map[usize::from(QUIET)] = 1;
        let options = match seed % 3 {
            0 => EngineOptions { seed, ..EngineOptions::default() },
            latency => EngineOptions::rough(40 * latency as u32, seed),
        };
        let mut engine = Engine::new(&dut::SMALL_COMMAND, memory.clone(), options).expect("it is built");
        engine.memory().set_recording(false);
        let mut run = Self {
            seed,
            random,
            engine,
            device,
            memory,
            places,
            buffers,
            token: 0,
            background: 0,
            seen: Seen::default(),
        };
        run.set_up();
        run
    }

    /// Writes the registers as the model has them.
    fn set_up(&mut self) {
        let engine = &self.device.engine;
        let setup = Setup {
            table_sets: engine.table_sets.iter().map(hardware::table_set).collect(),
            function_map: vec![(QUIET, 1)],
            controls: hardware::controls(engine.controls),
        };
        self.engine.setup(&setup).expect("legal registers");
        let enable = 1 << regs::interrupt_enable::COMMAND.low;
        self.engine.write_register(regs::interrupt_enable::REGISTER.offset, enable).expect("it is written");
    }

    /// Both memories change alike.
    fn host_writes(&mut self, address: u64, bytes: &[u8]) {
        self.memory.memory.write(address, bytes).expect("it is backed");
        self.engine.memory().memory_mut().memory.write(address, bytes).expect("it is backed");
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_ratio(percent, 100)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(&mut self.random).expect("there are some")
    }

    /// Mostly the same one, so that windows and regions go together.
    fn protection_domain(&mut self) -> u32 {
        if self.chance(85) { PDS[0] } else { PDS[1] }
    }

    /// Address of an MPT entry, where it has one.
    fn entry_address(&self, index: u32) -> Option<u64> {
        let chunk = *self.places[&Table::Mpt].chunks.get((index / ENTRIES_PER_CHUNK) as usize)?;
        Some(chunk? + u64::from(index % ENTRIES_PER_CHUNK) * 64)
    }

    fn entry(&self, index: u32) -> MptEntry {
        let mut bytes = [0; 64];
        if let Some(address) = self.entry_address(index) {
            self.memory.memory.read(address, &mut bytes).expect("chunks are backed");
        }
        MptEntry::from_bytes(&bytes)
    }

    fn index(&mut self) -> u32 {
        match self.random.random_range(0..20) {
            0 => self.random.random_range(UNREACHABLE),
            1 => self.random.random_range(0..1 << 24),
            2..=10 => self.random.random_range(REGIONS),
            _ => self.random.random_range(WINDOWS),
        }
    }

    /// An entry as a driver writes it, or not quite.
    fn new_entry(&mut self, index: u32) -> MptEntry {
        let mut entry = MptEntry::from_bytes(&[0; 64]);
        let is_window = WINDOWS.contains(&index);
        let mut flags = vec![
            (mpt_entry::LW_EN, 70),
            (mpt_entry::RR_EN, 70),
            (mpt_entry::RW_EN, 60),
            (mpt_entry::ATOMIC_EN, 50),
            (mpt_entry::BIND_EN, 80),
            (mpt_entry::R_INV_EN, 60),
            (mpt_entry::L_INV_EN, 20),
            (mpt_entry::PA, 3),
            (mpt_entry::ZBVA, 5),
            (mpt_entry::FRE, 40),
            (mpt_entry::RA_EN, 50),
            (mpt_entry::BPD, 50),
            (mpt_entry::BQP, 50),
        ];
        flags.push((mpt_entry::MR_MW, if is_window { 97 } else { 3 }));
        for (field, percent) in flags {
            entry.set(field, self.chance(percent).into());
        }
        let is_fast = entry.is_set(mpt_entry::FRE);
        let is_valid = self.chance(if is_window {
            10
        } else if is_fast {
            60
        } else {
            80
        });
        let variant: u32 = self.random.random_range(0..4);
        let length = match self.random.random_range(0..8) {
            0 => 0,
            1 => u64::MAX - self.random.random_range(0..2),
            _ => self.random.random_range(1..0x4000),
        };
        let va = match self.random.random_range(0..6) {
            0 => u64::MAX - self.random.random_range(0..0x4000),
            _ => self.random.random_range(0..0x10_0000),
        };
        let windows = match self.random.random_range(0..10) {
            0 => mpt_entry::MW_CNT.max(),
            1 => self.random.random_range(1..3),
            _ => 0,
        };
        let bound = if self.chance(5) { u64::from(self.random.random_range(REGIONS) << 8) } else { 0 };
        for (field, value) in [
            (mpt_entry::ST, if is_valid { mpt_entry::STATE_VALID } else { mpt_entry::STATE_FREE }),
            (mpt_entry::PD, self.protection_domain().into()),
            (mpt_entry::LKEY, u64::from(index << key::ROTATE_BITS | variant)),
            (mpt_entry::LEN, length),
            (mpt_entry::VA, va),
            (mpt_entry::PBL_SIZE, 16),
            (mpt_entry::PBL_BA, self.random.random_range(DATA..DATA << 1) >> 15 << 12),
            (mpt_entry::PBL_BUF_PG_SZ, self.random.random_range(0..3)),
            (mpt_entry::MW_CNT, windows),
            (mpt_entry::BOUND_LKEY, bound),
            (mpt_entry::MW_BIND_QPN, self.pick(&QPNS).into()),
        ] {
            entry.set(field, value);
        }
        entry
    }

    /// A mailbox command's six dwords, its buffer filled.
    fn mailbox(&mut self) -> (u8, Descriptor) {
        let code = match self.random.random_range(0..20) {
            0 => self.random.random(),
            1..=6 => 0x0d,
            7..=8 => 0x0f,
            _ => MAILBOX_COMMANDS.choose(&mut self.random).expect("there are some").code,
        };
        let command = MailboxCommand::from_code(code);
        let table = command.map_or(Table::Mpt, |command| command.table);
        let is_sccc = table == Table::Sccc;
        let mut tag = match table {
            Table::Mpt => self.index(),
            _ if is_sccc => self.random.random_range(0..CHUNKS),
            _ if self.chance(90) => self.random.random_range(0..200),
            _ => self.random.random_range(0..1 << 24),
        };
        let mut input = self.pick(&self.buffers.clone());
        let mut output = self.pick(&self.buffers.clone());
        match command.map(|command| command.action) {
            Some(Action::WriteBt { .. }) => {
                let bases = self.places[&table].bases.clone();
                let slot = self.random.random_range(0..bases.len());
                input = bases[slot];
                if self.places[&table].hop == 0 && !is_sccc && self.chance(90) {
                    // The object that this chunk is for.
                    let geometry = self.device.engine.table_sets[0].table(table).geometry;
                    tag = slot as u32 * (PAGE_BYTES as u32 >> geometry.entry_bytes_log2);
                } else if is_sccc {
                    tag = slot as u32;
                } else if self.chance(80) {
                    tag = self.random.random_range(0..150);
                }
                if self.chance(10) {
                    input += self.random.random_range(1..PAGE_BYTES);
                }
            }
            Some(Action::DestroyBt { .. }) if self.chance(60) => tag = self.random.random_range(0..150),
            Some(Action::Create) if table == Table::Mpt => {
                let entry = self.new_entry(tag & 0xff_ffff);
                self.host_writes(input, &entry.to_bytes());
            }
            _ => {
                let bytes: Vec<u8> = (0..1024).map(|_| self.random.random()).collect();
                self.host_writes(input, &bytes);
            }
        }
        for address in [&mut input, &mut output] {
            match self.random.random_range(0..30) {
                0 => *address = 0,
                1 => *address += 8 * self.random.random_range(1..8),
                2 => *address += 64 * self.random.random_range(0..8),
                3 => *address = DATA,
                _ => {}
            }
        }
        self.token = self.token.wrapping_add(self.random.random_range(1..0x1000));
        let event = u32::from(self.chance(50));
        let data = [
            input as u32,
            (input >> 32) as u32,
            output as u32,
            (output >> 32) as u32,
            tag << 8 | u32::from(code),
            event << 16 | u32::from(self.token),
        ];
        let function = self.pick(&[0, 1]);
        (code, Descriptor { opcode: Opcode::PostMailbox as u16, function, data })
    }

    /// CFG_BT_ATTR with the tables' hops, those of the MPT that many more.
    fn configure(&mut self, more_hops: u8) {
        let mut data = [0; command::DATA_WORDS];
        for (word, table) in data.iter_mut().zip(hem::BT_ATTRIBUTE_ORDER) {
            let mut bytes = [0; 4];
            let more_hops = if table == Table::Mpt { more_hops } else { 0 };
            put(&mut bytes, hem::bt_attribute::HOP_NUM, u64::from((self.places[&table].hop + more_hops) % 4));
            *word = u32::from_le_bytes(bytes);
        }
        let (opcode, function) = (Opcode::ConfigureBtAttribute as u16, self.pick(&[0, 1]));
        let before = self.engine.mailbox().expect("it is read");
        assert!(self.engine.start_command(opcode, function, &data).expect("it is written"), "seed {}", self.seed);
        assert_eq!(self.device.start(&Descriptor { opcode, function, data }), CommandStatus::Ok);
        let start = self.engine.cycles();
        let state = self.end_of_mailbox("CFG_BT_ATTR", start);
        let of_mailbox = |state: cosim::MailboxState| (state.status, state.token);
        assert_eq!(of_mailbox(state), of_mailbox(before), "seed {}: they are of mailbox commands", self.seed);
    }

    /// Tables in use get other hops, and then theirs again: nothing that was found by the old ones may answer.
    fn change_shape(&mut self) {
        let before = self.translate();
        let more_hops = self.random.random_range(1..4);
        self.configure(more_hops);
        let between = self.ask(&before.0);
        self.seen.shapes.extend(before.1.into_iter().zip(between));
        self.translate();
        self.configure(0);
        self.ask(&before.0);
    }

    /// Waits until the mailbox is not busy.
    fn end_of_mailbox(&mut self, what: &str, start: u64) -> cosim::MailboxState {
        loop {
            let state = self.engine.mailbox().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(self.engine.cycles() - start < COMMAND_LIMIT_CYCLES, "seed {}: {what}: no end", self.seed);
            if !state.is_busy {
                return state;
            }
        }
    }

    fn work_request(&mut self) -> WorkRequest {
        let mut wqe = [0; work::WORK_REQUEST_BYTES];
        for byte in &mut wqe {
            *byte = self.random.random();
        }
        let opcode = match self.random.random_range(0..30) {
            0 => self.random.random_range(0..32),
            number => WorkOpcode::ALL[number % 4] as u8,
        };
        let index = match WorkOpcode::from_code(opcode) {
            Some(WorkOpcode::BindWindow) if self.chance(90) => self.random.random_range(WINDOWS),
            Some(WorkOpcode::FastRegister) if self.chance(90) => self.random.random_range(REGIONS),
            _ => self.index(),
        };
        let entry = self.entry(index);
        let likely = |random: &mut ChaCha8Rng, field: Field| {
            if random.random_ratio(95, 100) { entry.get(field) as u32 } else { random.random_range(0..1 << 24) }
        };
        let pd = likely(&mut self.random, mpt_entry::PD);
        let is_bound = entry.get(mpt_entry::ST) == mpt_entry::STATE_VALID;
        let qpn = if is_bound { likely(&mut self.random, mpt_entry::MW_BIND_QPN) } else { self.pick(&QPNS) };
        let some_key = index << key::ROTATE_BITS | self.random.random_range(0..4);
        let mut set = |field: Field, value: u64| put(&mut wqe, field, value);
        set(work::invalidate_key::OPCODE, opcode.into());
        match WorkOpcode::from_code(opcode) {
            Some(WorkOpcode::FastRegister) => {
                use work::fast_register as fields;
                let pages: u64 = self.random.random_range(0..514);
                let size: u64 = self.random.random_range(0..4);
                set(fields::KEY, some_key.into());
                set(fields::BUF_PG_SZ, size);
                set(fields::PBL_SIZE, pages);
                set(
                    fields::PBL_BA,
                    if self.chance(95) {
                        self.random.random_range(1..1 << 40) << 3
                    } else {
                        self.random.random_range(0..9)
                    },
                );
                let most = pages << (12 + size);
                set(
                    fields::LENGTH,
                    if self.chance(90) { self.random.random_range(0..=most) } else { self.random.random() },
                );
                if self.chance(80) {
                    set(
                        fields::VA,
                        self.random.random_range(0..1 << 30) << (12 + size) >> self.random.random_range(0..3),
                    );
                } else {
                    set(fields::VA, u64::MAX - self.random.random_range(0..=2 * most));
                }
            }
            Some(WorkOpcode::LocalInvalidate | WorkOpcode::SendWithInvalidate) => {
                let key = if self.chance(90) { entry.get(mpt_entry::LKEY) as u32 } else { some_key };
                let is_elsewhere = key >> key::ROTATE_BITS != index;
                set(work::invalidate_key::KEY, if is_elsewhere { some_key } else { key }.into());
            }
            Some(WorkOpcode::BindWindow) => {
                use work::bind_window as fields;
                let parent_index = if self.chance(88) { self.random.random_range(REGIONS) } else { self.index() };
                let parent = self.entry(parent_index);
                let is_type_1 = entry.get(mpt_entry::BQP) == 0;
                let (va, length) = (parent.get(mpt_entry::VA), parent.get(mpt_entry::LEN));
                let offset = self.random.random_range(0..=length);
                let is_off = self.chance(5);
                set(fields::NEW_KEY, some_key.into());
                set(fields::IS_TYPE_1, u64::from(is_type_1 != self.chance(5)));
                set(
                    fields::PARENT_KEY,
                    if self.chance(95) { parent.get(mpt_entry::LKEY) } else { u64::from(parent_index << 8 | 9) },
                );
                set(fields::VA, va.wrapping_add(offset).wrapping_sub(is_off.into()));
                set(
                    fields::LENGTH,
                    if self.chance(15) { 0 } else { (length - offset).wrapping_add(self.chance(5).into()) },
                );
            }
            None => {}
        }
        let pd = if opcode == WorkOpcode::BindWindow as u8 || self.chance(88) { pd } else { self.pick(&PDS) };
        WorkRequest {
            tag: self.random.random(),
            function: self.pick(&[0, 1]),
            privileged: self.chance(90),
            pd,
            qpn,
            wqe,
        }
    }

    /// Some requests of the function that nothing concerns.
    fn start_background(&mut self) {
        for _ in 0..self.random.random_range(0..4) {
            self.background += 1;
            let tag = self.random.random();
            match self.random.random_range(0..3) {
                0 => {
                    let request = Request {
                        tag,
                        function: QUIET,
                        operation: keywalk_contract::Operation::RemoteRead.code(),
                        key: QUIET_KEY,
                        pd: 9,
                        qpn: 0,
                        va: 0x1ff0,
                        length: 0x2000,
                    };
                    self.engine.submit(&hardware::request(&request, tag))
                }
                1 => {
                    let lookup = cosim::ContextLookup {
                        tag,
                        function: QUIET,
                        table: Table::Mpt.code(),
                        index: QUIET_KEY >> key::ROTATE_BITS,
                    };
                    self.engine.submit_context(&lookup)
                }
                _ => {
                    let scopes = [Scope::Region, Scope::Range, Scope::ProtectionDomain, Scope::Function, Scope::All];
                    let scope = self.pick(&scopes);
                    let (function, key) = (QUIET, QUIET_KEY);
                    let invalidation = Invalidation { tag, function, scope, key, pd: 9, va: 0, length_bytes: 1 };
                    self.engine.submit_invalidation(&invalidation)
                }
            }
            .expect("it fits");
        }
    }

    /// All of them have been answered as always.
    fn end_background(&mut self) {
        self.engine.drain(LIMIT_CYCLES).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        while let Some(response) = self.engine.pop_response() {
            let pieces: Vec<_> =
                response.segments.iter().map(|beat| (beat.status, beat.pa, beat.length_bytes)).collect();
            assert_eq!(pieces, [(0, DATA + 0x1ff0, 0x2000)], "seed {}", self.seed);
            self.background -= 1;
        }
        let expected = self.device.engine.context(
            &self.memory,
            &keywalk_model::ContextRequest {
                tag: 0,
                function: QUIET,
                query: keywalk_model::ContextQuery::Lookup {
                    table: Table::Mpt.code(),
                    index: QUIET_KEY >> key::ROTATE_BITS,
                },
            },
        );
        while let Some(answer) = self.engine.pop_context() {
            assert_eq!((answer.status, answer.address), (0, expected.address), "seed {}", self.seed);
            self.background -= 1;
        }
        while self.engine.pop_completion().is_some() {
            self.background -= 1;
        }
        while self.engine.pop_fault().is_some() {}
        assert_eq!(self.background, 0, "seed {}: unanswered", self.seed);
    }

    /// Lines that the object of a command occupies become unreadable or unwritable, or those of a buffer's page.
    fn break_some_lines(&mut self) {
        let table = self.pick(&[Table::Qpc, Table::Cqc, Table::Mpt, Table::Mpt, Table::Mpt, Table::Srqc]);
        // Of the MPT the chunk of regions or that of windows.
        let number = if table == Table::Mpt { self.random.random_range(1..3) } else { self.random.random_range(0..3) };
        let chunk = self.places[&table].chunks[number].expect("it is reachable");
        let buffer = self.pick(&self.buffers.clone());
        let is_write = self.chance(70);
        let (page, step) = if self.chance(80) { (chunk, self.random.random_range(1..=3)) } else { (buffer, 1) };
        let broken: Vec<u64> = lines(page, PAGE_BYTES as usize).step_by(step).collect();
        for memory in [&mut self.memory, self.engine.memory().memory_mut()] {
            if is_write {
                memory.unwritable.extend(&broken);
            } else {
                memory.unreadable.extend(&broken);
            }
        }
    }

    fn mend(&mut self) {
        for memory in [&mut self.memory, self.engine.memory().memory_mut()] {
            memory.unreadable.clear();
            memory.unwritable.clear();
        }
    }

    /// Posts a mailbox command and waits for its end, or resets the engine meanwhile.
    fn command(&mut self) {
        let (code, descriptor) = self.mailbox();
        let name = MailboxCommand::from_code(code).map_or("unknown", |command| command.name);
        let what = format!("seed {}: {name} ({code:#04x}) {:x?}", self.seed, descriptor.data);
        let Descriptor { opcode, function, data } = descriptor;
        let before = self.engine.mailbox().expect("it is read");
        let start = self.engine.cycles();
        assert!(self.engine.start_command(opcode, function, &data).expect("it is written"), "{what}: not taken");
        assert_eq!(self.device.start(&descriptor), CommandStatus::Ok, "{what}");
        if self.chance(3) {
            return self.reset();
        }
        if self.chance(20) {
            // The mailbox is busy, or has just ended.
            let (_, second) = self.mailbox_without_buffer();
            let taken = self.engine.start_command(second.opcode, second.function, &second.data);
            if !taken.expect("it is written") {
                self.seen.refused_while_busy += 1;
                assert_eq!(self.device.start(&second), CommandStatus::Busy, "{what}");
                let state = self.engine.mailbox().expect("it is read");
                if state.is_busy {
                    assert_eq!((state.status, state.token), (before.status, before.token), "{what}");
                }
            } else {
                assert_eq!(second.opcode, Opcode::PostMailbox as u16, "{what}: this opcode is never taken");
                self.finish(&what, start);
                assert_eq!(self.device.start(&second), CommandStatus::Ok, "{what}");
                return self.finish(&format!("{what}, then {:x?}", second.data), self.engine.cycles());
            }
        }
        self.finish(&what, start);
    }

    /// A command that is refused while another is under way: its content does not matter.
    fn mailbox_without_buffer(&mut self) -> (u8, Descriptor) {
        let data = [0, 0, 0, 0, 0xff, u32::from(self.token)];
        let opcode = if self.chance(70) { Opcode::PostMailbox as u16 } else { self.pick(&[0, 0x8505, 0xffff]) };
        (0xff, Descriptor { opcode, function: 0, data })
    }

    /// Waits for the end of the command that is under way; it must be the model's.
    fn finish(&mut self, what: &str, start: u64) {
        let expected = self.device.run(&mut self.memory).expect("a command is under way");
        let state = self.end_of_mailbox(what, start);
        let status = CommandStatus::from_code(state.status);
        assert_eq!(status, Some(expected.status), "{what}");
        assert_eq!(state.token, expected.token, "{what}");
        self.seen.commands.insert(expected.status.name());
        self.take_interrupt(what, expected.event);
        self.compare_memory(what);
    }

    /// The interrupt is pending where the command asked for it, and is acknowledged.
    fn take_interrupt(&mut self, what: &str, event: bool) {
        let pending = self.engine.read_register(regs::interrupt_status::REGISTER.offset).expect("it is read");
        let pending = regs::interrupt_status::COMMAND.get(&pending.to_le_bytes()) == 1;
        // A command that ended just before another one was refused may have raised it.
        assert!(pending || !event, "{what}: no interrupt");
        assert_eq!(self.engine.interrupt(), pending, "{what}");
        let clear = 1 << regs::interrupt_status::COMMAND.low;
        self.engine.write_register(regs::interrupt_status::REGISTER.offset, clear).expect("it is written");
    }

    /// Work requests, up to three at a time.
    fn work(&mut self) {
        let count = self.random.random_range(1..=3);
        let requests: Vec<WorkRequest> = (0..count).map(|_| self.work_request()).collect();
        for WorkRequest { tag, function, privileged, pd, qpn, wqe } in requests.iter().copied() {
            let request = cosim::WorkRequest { tag, function, privileged, pd, qpn, wqe };
            self.engine.submit_work(&request).expect("it fits");
        }
        if self.chance(3) {
            return self.reset();
        }
        for request in &requests {
            let opcode = WorkOpcode::from_code(work::invalidate_key::OPCODE.get(&request.wqe) as u8);
            let name = opcode.map_or("unknown", WorkOpcode::name);
            let what = format!("seed {}: {name} {request:x?}", self.seed);
            let expected = self.device.work(&mut self.memory, request);
            let start = self.engine.cycles();
            let answer = loop {
                self.engine.step().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(self.engine.cycles() - start < COMMAND_LIMIT_CYCLES, "{what}: no end");
                if let Some(answer) = self.engine.pop_work() {
                    break answer;
                }
            };
            let status = WorkStatus::from_code(answer.status);
            assert_eq!(status, Some(expected.status), "{what}");
            let rest = (answer.tag, answer.function, answer.cqe_code);
            assert_eq!(rest, (request.tag, request.function, expected.cqe_code), "{what}");
            self.seen.works.insert((name, expected.status.name()));
        }
        self.compare_memory(&format!("seed {}: {requests:x?}", self.seed));
    }

    /// A reset in the middle of whatever is under way. Memory is then whatever it is, and goes on from there.
    fn reset(&mut self) {
        let cycles = self.random.random_range(0..4000);
        self.engine.run(cycles).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.engine.reset().unwrap_or_else(|error| panic!("seed {}: reset: {error}", self.seed));
        self.background = 0;
        self.memory = self.engine.memory().memory().clone();
        let state = self.engine.mailbox().expect("it is read");
        assert_eq!((state.status, state.token, state.is_busy), (0, 0, false), "seed {}: after reset", self.seed);
        let mut fresh = Device::new(self.device.engine.clone());
        fresh.bt0_slots = self.device.bt0_slots;
        self.device = fresh;
        self.set_up();
        self.seen.resets += 1;
    }

    fn compare_memory(&mut self, what: &str) {
        let expected = &self.memory.memory;
        let got = &self.engine.memory().memory().memory;
        for address in expected.backed_pages().flatten().map(|page| page * PAGE_BYTES) {
            for line in lines(address, PAGE_BYTES as usize) {
                assert_eq!(got.line(line), expected.line(line), "{what}: memory at {line:#x}");
            }
        }
    }

    /// Some requests, answered as the model does; gives them with their statuses.
    fn translate(&mut self) -> (Vec<Request>, Vec<&'static str>) {
        let requests: Vec<Request> = (0..3)
            .map(|tag| {
                let index = self.index();
                let entry = self.entry(index);
                let key = match self.random.random_range(0..4) {
                    0 => index << key::ROTATE_BITS | self.random.random_range(0..4),
                    _ => entry.get(mpt_entry::LKEY) as u32,
                };
                let offset = self.random.random_range(0..0x1000);
                Request {
                    tag,
                    function: self.pick(&[0, 1]),
                    operation: self.random.random_range(0..6),
                    key,
                    pd: entry.get(mpt_entry::PD) as u32,
                    qpn: self.pick(&QPNS),
                    va: entry.get(mpt_entry::VA).wrapping_add(offset) & !7,
                    length: 8,
                }
            })
            .collect();
        let statuses = self.ask(&requests);
        self.seen.translations.extend(&statuses);
        (requests, statuses)
    }

    /// Requests with tags from 0, answered as the model does; gives their statuses.
    fn ask(&mut self, requests: &[Request]) -> Vec<&'static str> {
        for request in requests {
            self.engine.submit(&hardware::request(request, request.tag)).expect("it fits");
        }
        self.engine.drain(LIMIT_CYCLES).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let mut statuses = vec![""; requests.len()];
        while let Some(response) = self.engine.pop_response() {
            let request = &requests[usize::from(response.tag)];
            let expected = self.device.engine.translate(&self.memory, request);
            let got: Result<Vec<_>, _> = response.segments.iter().map(hardware::beat).collect();
            let expected = expected.beats(request);
            assert_eq!(got.as_deref(), Ok(&*expected), "seed {}: {request:x?}", self.seed);
            statuses[usize::from(response.tag)] = expected.last().map_or("", |beat| beat.status.name());
        }
        while self.engine.pop_fault().is_some() {}
        statuses
    }

    /// A mailbox command and work requests under way at once. They are carried out one at a time, each as a whole: the work
    /// requests in their order, the mailbox command before them, between two of them, or behind them. What has ended before
    /// something else began is before it.
    fn both(&mut self) {
        let (code, descriptor) = self.mailbox();
        let count = self.random.random_range(1..=5);
        let requests: Vec<WorkRequest> = (0..count).map(|_| self.work_request()).collect();
        let name = MailboxCommand::from_code(code).map_or("unknown", |command| command.name);
        let what = format!("seed {}: {name} {:x?} and {requests:x?}", self.seed, descriptor.data);
        let delay_cycles = self.random.random_range(0..4000);
        let submit = |run: &mut Self| {
            for WorkRequest { tag, function, privileged, pd, qpn, wqe } in requests.iter().copied() {
                let request = cosim::WorkRequest { tag, function, privileged, pd, qpn, wqe };
                run.engine.submit_work(&request).expect("it fits");
            }
        };
        let start = |run: &mut Self| {
            let Descriptor { opcode, function, data } = descriptor;
            assert!(run.engine.start_command(opcode, function, &data).expect("it is written"), "{what}: not taken");
        };
        let mut answers = Vec::new();
        let begin = self.engine.cycles();
        // How many work requests may be before the mailbox command.
        let (mut least, mut most) = (0, requests.len());
        if self.chance(50) {
            submit(self);
            self.engine.run(delay_cycles).unwrap_or_else(|error| panic!("{what}: {error}"));
            answers.extend(std::iter::from_fn(|| self.engine.pop_work()));
            least = answers.len();
            start(self);
        } else {
            start(self);
            self.engine.run(delay_cycles).unwrap_or_else(|error| panic!("{what}: {error}"));
            if !self.engine.mailbox().expect("it is read").is_busy {
                most = 0;
            }
            submit(self);
        }
        while answers.len() < requests.len() {
            self.engine.step().unwrap_or_else(|error| panic!("{what}: {error}"));
            answers.extend(self.engine.pop_work());
            assert!(self.engine.cycles() - begin < 4 * COMMAND_LIMIT_CYCLES, "{what}: no end");
        }
        let state = self.end_of_mailbox(&what, self.engine.cycles());
        let mailbox = (CommandStatus::from_code(state.status), state.token);
        let answers: Vec<_> =
            answers.iter().map(|answer| (answer.tag, answer.function, answer.status, answer.cqe_code)).collect();

        let mut candidates = Vec::new();
        for before in 0..=requests.len() {
            let (mut device, mut memory) = (self.device.clone(), self.memory.clone());
            let mut expected = Vec::new();
            let mut work = |device: &mut Device, memory: &mut HostMemory, request| {
                let response = device.work(memory, request);
                expected.push((response.tag, response.function, response.status.code(), response.cqe_code));
            };
            requests[..before].iter().for_each(|request| work(&mut device, &mut memory, request));
            assert_eq!(device.start(&descriptor), CommandStatus::Ok);
            let completion = device.run(&mut memory).expect("a command is under way");
            requests[before..].iter().for_each(|request| work(&mut device, &mut memory, request));
            candidates.push((
                before,
                (Some(completion.status), completion.token),
                expected,
                device,
                memory,
                completion.event,
            ));
        }
        let is_same_memory = |run: &mut Self, expected: &HostMemory| {
            let got = &run.engine.memory().memory().memory;
            let mut lines =
                expected.memory.backed_pages().flatten().flat_map(|page| lines(page * PAGE_BYTES, PAGE_BYTES as usize));
            lines.all(|line| got.line(line) == expected.memory.line(line))
        };
        let all: Vec<_> = candidates.iter().map(|candidate| (candidate.0, candidate.1, candidate.2.clone())).collect();
        candidates.retain(|(_, status, expected, _, memory, _)| {
            *status == mailbox && *expected == answers && is_same_memory(self, memory)
        });
        if let (Some(first), Some(last)) = (candidates.first(), candidates.last()) {
            self.seen.orders.insert((first.0, last.0, requests.len()));
        }
        candidates.retain(|(before, ..)| (least..=most).contains(before));
        let Some((_, _, _, device, memory, event)) = candidates.into_iter().next() else {
            panic!(
                "{what}: got {mailbox:?} and {answers:?}, between {least} and {most}; in the model {all:?}, or another memory"
            );
        };
        (self.device, self.memory) = (device, memory);
        self.take_interrupt(&what, event);
    }

    /// The host moves a chunk and tells the device.
    fn move_chunk(&mut self) {
        let place = &self.places[&Table::Mpt];
        let (Some(page), hop) = (place.last_page, place.hop) else { return };
        let mut chunks = place.chunks.clone();
        chunks.swap(1, 2);
        for number in [1, 2] {
            let pointer = chunks[number].expect("it is reachable");
            self.host_writes(page + 8 * number as u64, &pointer.to_le_bytes());
        }
        self.places.get_mut(&Table::Mpt).expect("it is there").chunks = chunks;
        let step = hop.min(command::STEP_MAX);
        let base = self.places[&Table::Mpt].chunks[1].expect("it is reachable");
        self.post(0x20 + step, 64, base);
    }

    /// Posts a command that must succeed.
    fn post(&mut self, code: u8, tag: u32, input: u64) {
        self.token = self.token.wrapping_add(1);
        let data = [input as u32, (input >> 32) as u32, 0, 0, tag << 8 | u32::from(code), self.token.into()];
        let descriptor = Descriptor { opcode: Opcode::PostMailbox as u16, function: 0, data };
        let what = format!("seed {}: {code:#04x} {data:x?}", self.seed);
        let start = self.engine.cycles();
        let taken = self.engine.start_command(descriptor.opcode, 0, &data).expect("it is written");
        assert!(taken, "{what}: not taken");
        assert_eq!(self.device.start(&descriptor), CommandStatus::Ok);
        self.finish(&what, start);
    }

    /// Hands over what is missing of the MPT's bases, and those of another table.
    fn hand_over(&mut self) {
        let codes =
            [(Table::Mpt, 0x20), (Table::Qpc, 0x00), (Table::Cqc, 0x10), (Table::Srqc, 0x30), (Table::QpcTimer, 0x33)];
        for (table, code) in codes {
            let Place { hop, bases, .. } = self.places[&table].clone();
            let geometry = self.device.engine.table_sets[0].table(table).geometry;
            for slot in 0..if hop == 0 { bases.len() as u32 - 1 } else { geometry.bt_num.min(1) } {
                let per_chunk = PAGE_BYTES as u32 >> geometry.entry_bytes_log2;
                let is_set = self.device.engine.table_sets[0].table(table).bt0.get(slot as usize);
                if is_set.copied().flatten().is_none() {
                    self.post(code, slot * per_chunk, bases[slot as usize]);
                }
            }
        }
    }

    /// Tables and entries to begin with.
    fn prepare(&mut self) {
        self.configure(0);
        self.hand_over();
        for index in REGIONS.chain(WINDOWS) {
            let entry = self.new_entry(index);
            let buffer = self.buffers[0];
            self.host_writes(buffer, &entry.to_bytes());
            self.post(0x0d, index, buffer);
        }
    }

    fn steps(&mut self, count: u32) {
        self.prepare();
        for _ in 0..count {
            self.start_background();
            let breaks = self.chance(20);
            if breaks {
                self.engine.drain(LIMIT_CYCLES).expect("it ends");
                self.break_some_lines();
            }
            match self.random.random_range(0..40) {
                0 => {
                    self.end_background();
                    self.mend();
                    self.change_shape();
                }
                1 if !breaks => self.move_chunk(),
                2..=19 => self.command(),
                _ => self.work(),
            }
            self.end_background();
            self.mend();
            self.translate();
            if self.chance(30) {
                self.hand_over();
            }
        }
    }

    /// Steps with both ports busy.
    fn races(&mut self, count: u32) {
        self.prepare();
        for _ in 0..count {
            self.start_background();
            if self.chance(10) {
                self.engine.drain(LIMIT_CYCLES).expect("it ends");
                self.break_some_lines();
            }
            self.both();
            self.end_background();
            self.mend();
            self.translate();
            if self.chance(30) {
                self.hand_over();
            }
        }
    }
}

#[test]
fn random_commands_end_as_in_the_model_and_leave_the_same_memory() {
    let mut all = Seen::default();
    for seed in 0..6 {
        let mut run = Run::new(seed);
        run.steps(110);
        all.commands.extend(run.seen.commands);
        all.works.extend(run.seen.works);
        all.translations.extend(run.seen.translations);
        all.resets += run.seen.resets;
        all.refused_while_busy += run.seen.refused_while_busy;
        all.shapes.extend(run.seen.shapes);
    }
    let commands: BTreeSet<_> =
        CommandStatus::ALL.iter().map(|status| status.name()).filter(|name| *name != "busy").collect();
    assert_eq!(all.commands, commands);
    assert!(all.resets > 0 && all.refused_while_busy > 0, "{all:?}");
    assert!(all.translations.contains(Status::Ok.name()) && all.translations.contains(Status::EntryState.name()));
    // Most of what can happen has happened, whatever the seeds.
    assert!(all.works.len() >= 35, "{:?}", all.works);
    for opcode in WorkOpcode::ALL {
        assert!(all.works.contains(&(opcode.name(), WorkStatus::Ok.name())), "{}: {:?}", opcode.name(), all.works);
    }
    assert!(all.works.iter().any(|(_, status)| *status == WorkStatus::BusError.name()), "{:?}", all.works);
    // Requests that were served, and so cached, were not by other geometry.
    assert!(
        all.shapes.iter().any(|(before, behind)| *before == Status::Ok.name() && before != behind),
        "{:?}",
        all.shapes
    );
}

#[test]
fn a_mailbox_command_and_work_requests_under_way_at_once_are_carried_out_in_one_order() {
    let mut orders = BTreeSet::new();
    for seed in 0..6 {
        let mut run = Run::new(100 + seed);
        run.races(80);
        orders.extend(run.seen.orders);
    }
    // It came before some, behind some, and between some, and that made a difference.
    let is_seen = |wanted: fn((usize, usize, usize)) -> bool| orders.iter().any(|order| wanted(*order));
    assert!(is_seen(|(_, most, count)| most < count), "{orders:?}");
    assert!(is_seen(|(least, ..)| least > 0), "{orders:?}");
    assert!(is_seen(|(least, most, count)| least > 0 && most < count), "{orders:?}");
}
