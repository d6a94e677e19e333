//! A host with a device: it hands over tables level by level, as the driver does, and keeps its own account of pages.

use std::cell::Cell;

use keywalk_contract::command::{Opcode, post_mailbox};
use keywalk_contract::mpt_entry::*;
use keywalk_contract::work::{bind_window, fast_register, invalidate_key};
use keywalk_contract::{CommandStatus, Field, Layout, Operation, Status, Table, WorkOpcode, WorkStatus, key};
use keywalk_image::{PAGE_BYTES, SparseMemory};
use keywalk_model::{
    BusError, Completion, Descriptor, Device, Engine, Fence, Geometry, Memory, MemoryMut, MptEntry, Request, TableSet,
    WorkRequest,
};

/// Protection domain of most regions.
pub const PD_A: u32 = 0xabcd01;
/// Queue pair of most requests.
pub const QPN: u32 = 0x1234;
/// Page of a mailbox buffer.
pub const BUFFER: u64 = 0x5_0000;

/// Memory that counts accesses and can be told to fail.
#[derive(Default)]
pub struct HostMemory {
    pub memory: SparseMemory,
    pub reads: Cell<u64>,
    pub writes: u64,
    /// Writes from this one on fail; the device's own are counted from 0.
    pub writes_fail_from: Option<u64>,
}

impl Memory for HostMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        self.reads.set(self.reads.get() + 1);
        self.memory.read(address, bytes).map_err(|_| BusError)
    }
}

impl MemoryMut for HostMemory {
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), BusError> {
        let number = self.writes;
        self.writes += 1;
        // The one write fails; that which takes back what came before it does not.
        if self.writes_fail_from == Some(number) {
            return Err(BusError);
        }
        self.memory.write(address, bytes).map_err(|_| BusError)
    }
}

/// A region to be registered.
#[derive(Clone)]
pub struct Region {
    pub index: u32,
    pub pd: u32,
    pub va: u64,
    pub length: u64,
    pub hop: u8,
    pub rights: Vec<Field>,
    /// First data page; pages lie apart.
    pub first_page: u64,
}

impl Region {
    /// A region of 16 pages of 4 KiB, which may do everything.
    pub fn new(index: u32) -> Self {
        Self {
            index,
            pd: PD_A,
            va: 0x7000_0000_0800,
            length: 0xf000,
            hop: 1,
            rights: vec![BIND_EN, ATOMIC_EN, RR_EN, RW_EN, LW_EN],
            first_page: 0x9_0000_0000 + u64::from(index) * 0x1000_0000,
        }
    }

    pub fn key(&self) -> u32 {
        key::of_index(self.index)
    }

    pub fn pages(&self) -> u64 {
        ((self.va + self.length - 1) >> 12) - (self.va >> 12) + 1
    }

    /// Bus address of a byte, from the account of pages.
    pub fn pa(&self, va: u64) -> u64 {
        self.page((va >> 12) - (self.va >> 12)) + va % PAGE_BYTES
    }

    pub fn page(&self, number: u64) -> u64 {
        self.first_page + number * 0x3000
    }
}

/// The host.
pub struct Rig {
    pub memory: HostMemory,
    pub device: Device,
    pub function: u8,
    token: u16,
    next_page: u64,
    /// Pages of tables that were handed over.
    pub table_pages: Vec<u64>,
}

impl Rig {
    /// A device whose MPT has that many hops, 2^20 entries, two BT0 slots and chunks of 4 KiB.
    pub fn new(hop: u8) -> Self {
        let mut set = TableSet { num_mpts_log2: 20, ..TableSet::default() };
        for table in Table::ALL {
            let entry_bytes_log2 = match table {
                Table::Qpc => 8,
                Table::Sccc => 5,
                Table::QpcTimer | Table::CqcTimer => 12,
                _ => 6,
            };
            set.table_mut(table).geometry = Geometry { entry_bytes_log2, bt_num: 2, ..Geometry::default() };
        }
        let mut rig = Self {
            memory: HostMemory::default(),
            device: Device::new(Engine::new(vec![set])),
            function: 0,
            token: 0,
            next_page: 0x10_0000,
            table_pages: Vec::new(),
        };
        let hops = u32::from(hop) << 8;
        let data = [1 << 8, 1 << 8, 1 << 8, hops, 0, 0];
        let descriptor = Descriptor { opcode: Opcode::ConfigureBtAttribute as u16, function: 0, data };
        assert_eq!(rig.device.start(&descriptor), CommandStatus::Ok);
        rig.memory.memory.back(BUFFER, PAGE_BYTES);
        rig
    }

    /// A fresh page of memory, all zero.
    pub fn page(&mut self) -> u64 {
        self.pages(1)
    }

    pub fn pages(&mut self, count: u64) -> u64 {
        let page = self.next_page;
        // Not one after the other.
        self.next_page += (count + 1) * PAGE_BYTES;
        self.memory.memory.back(page, count * PAGE_BYTES);
        page
    }

    pub fn descriptor(&mut self, code: u8, tag: u32, input: u64, output: u64) -> Descriptor {
        self.token = self.token.wrapping_add(1);
        let mut bytes = [0; 24];
        let fields = [
            (post_mailbox::IN_PARAM, input),
            (post_mailbox::OUT_PARAM, output),
            (post_mailbox::COMMAND, code.into()),
            (post_mailbox::TAG, tag.into()),
            (post_mailbox::TOKEN, self.token.into()),
        ];
        for (field, value) in fields {
            field.put(&mut bytes, value).unwrap();
        }
        let (words, _) = bytes.as_chunks::<4>();
        let mut data = [0; 6];
        for (word, bytes) in data.iter_mut().zip(words) {
            *word = u32::from_le_bytes(*bytes);
        }
        Descriptor { opcode: Opcode::PostMailbox as u16, function: self.function, data }
    }

    /// Posts a mailbox command and waits for its end.
    #[track_caller]
    pub fn complete(&mut self, code: u8, tag: u32, input: u64, output: u64) -> Completion {
        let descriptor = self.descriptor(code, tag, input, output);
        assert_eq!(self.device.start(&descriptor), CommandStatus::Ok);
        assert!(self.device.mailbox_status().busy);
        let completion = self.device.run(&mut self.memory).unwrap();
        let report = self.device.mailbox_status();
        assert_eq!((report.status, report.token, report.busy), (Some(completion.status), self.token, false));
        assert_eq!(completion.token, self.token);
        if completion.status != CommandStatus::Ok {
            assert_eq!(completion.fence, None);
        }
        completion
    }

    #[track_caller]
    pub fn post(&mut self, code: u8, tag: u32, input: u64, output: u64) -> CommandStatus {
        self.complete(code, tag, input, output).status
    }

    /// A command that must be refused, and must leave everything as it was.
    #[track_caller]
    pub fn refuse(&mut self, code: u8, tag: u32, input: u64, output: u64, status: CommandStatus) {
        let before = (self.device.engine.clone(), self.tables());
        assert_eq!(self.post(code, tag, input, output), status);
        assert!(before == (self.device.engine.clone(), self.tables()), "something has changed");
    }

    /// Content of all tables.
    pub fn tables(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.table_pages.len() * PAGE_BYTES as usize];
        for (page, content) in self.table_pages.iter().zip(bytes.chunks_mut(PAGE_BYTES as usize)) {
            // A page that the host has taken back reads as zero.
            let _ = self.memory.memory.read(*page, content);
        }
        bytes
    }

    /// Hands over the tables of an MPT index, level by level.
    pub fn map(&mut self, index: u32) {
        let hop = self.device.engine.table_sets[0].table(Table::Mpt).geometry.hop;
        let mut numbers = Vec::new();
        let mut rest = u64::from(index) / 64;
        for _ in 0..hop {
            numbers.push(rest % 512);
            rest /= 512;
        }
        numbers.reverse();
        let slot = (rest % 2) as usize;
        let bt0 = &self.device.engine.table_sets[0].table(Table::Mpt).bt0;
        let mut page = match bt0.get(slot).copied().flatten() {
            Some(page) => page,
            None => {
                let page = self.page();
                self.table_pages.push(page);
                assert_eq!(self.post(0x20, index, page, 0), CommandStatus::Ok);
                page
            }
        };
        for (level, number) in numbers.into_iter().enumerate() {
            let pointer = page + 8 * number;
            page = self.memory.memory.read_u64(pointer).unwrap();
            if page == 0 {
                page = self.page();
                self.table_pages.push(page);
                self.memory.memory.write_u64(pointer, page).unwrap();
                // There is no command for level 3: that of level 2 makes the device forget as well.
                let step = (level as u8 + 1).min(2);
                assert_eq!(self.post(0x20 + step, index, page, 0), CommandStatus::Ok);
            }
        }
    }

    /// Writes a page table of some hops, with full lower tables, and gives its root.
    pub fn page_table(&mut self, hop: u8, pages: &[u64]) -> u64 {
        let mut level = pages.to_vec();
        for _ in 1..hop {
            level = level.chunks(512).map(|entries| self.table_of(entries)).collect();
        }
        if hop == 0 { level[0] } else { self.table_of(&level) }
    }

    fn table_of(&mut self, entries: &[u64]) -> u64 {
        let table = self.pages((8 * entries.len() as u64).div_ceil(PAGE_BYTES));
        for (number, entry) in (0..).zip(entries) {
            self.memory.memory.write_u64(table + 8 * number, *entry).unwrap();
        }
        table
    }

    /// Puts an entry into the mailbox buffer.
    pub fn fill_buffer(&mut self, entry: &MptEntry) {
        self.memory.memory.write(BUFFER, &entry.to_bytes()).unwrap();
    }

    /// The entry that the driver makes for a region with that page table.
    pub fn region_entry(region: &Region, root: u64) -> MptEntry {
        let mut entry = MptEntry::from_bytes(&[0; 64]);
        let fields = [
            (ST, STATE_VALID),
            (PBL_HOP_NUM, region.hop.into()),
            (PD, region.pd.into()),
            (LEN, region.length),
            (LKEY, region.key().into()),
            (VA, region.va),
            (PBL_SIZE, region.pages()),
            (PBL_BA, root >> PBL_BA_SHIFT),
        ];
        for (field, value) in fields.into_iter().chain(region.rights.iter().map(|right| (*right, 1))) {
            entry.set(field, value);
        }
        entry
    }

    /// Registers a region, tables and all.
    #[track_caller]
    pub fn register(&mut self, region: &Region) {
        let pages: Vec<u64> = (0..region.pages()).map(|number| region.page(number)).collect();
        let root = self.page_table(region.hop, &pages);
        self.create(region.index, &Self::region_entry(region, root));
    }

    /// Hands over tables and creates an entry.
    #[track_caller]
    pub fn create(&mut self, index: u32, entry: &MptEntry) {
        self.map(index);
        self.fill_buffer(entry);
        assert_eq!(self.post(0x0d, index, BUFFER, 0), CommandStatus::Ok);
    }

    /// A fast-registration MR, FREE, as the driver creates it, with a page table of `pages`.
    pub fn create_fast(&mut self, index: u32, pages: &[u64]) -> u64 {
        let root = self.page_table(1, pages);
        let mut entry = MptEntry::from_bytes(&[0; 64]);
        for field in [RA_EN, R_INV_EN, FRE, BPD] {
            entry.set(field, 1);
        }
        for (field, value) in [(ST, STATE_FREE), (PBL_HOP_NUM, 1), (PD, PD_A.into()), (PBL_SIZE, 512)] {
            entry.set(field, value);
        }
        self.create(index, &entry);
        root
    }

    /// A memory window, FREE, as the driver creates it.
    pub fn create_window(&mut self, index: u32, kind: u8) {
        let mut entry = MptEntry::from_bytes(&[0; 64]);
        for field in [R_INV_EN, LW_EN, MR_MW, BPD] {
            entry.set(field, 1);
        }
        let fields =
            [(ST, STATE_FREE), (PD, PD_A.into()), (BQP, u64::from(kind != 1)), (LKEY, key::of_index(index).into())];
        for (field, value) in fields {
            entry.set(field, value);
        }
        self.create(index, &entry);
    }

    /// The entry of an index, as it stands in memory.
    pub fn entry(&self, index: u32) -> MptEntry {
        let request = keywalk_model::ContextRequest {
            tag: 0,
            function: 0,
            query: keywalk_model::ContextQuery::Lookup { table: Table::Mpt.code(), index },
        };
        let address = self.device.engine.context(&self.memory, &request).address;
        let mut bytes = [0; 64];
        self.memory.memory.read(address, &mut bytes).unwrap();
        MptEntry::from_bytes(&bytes)
    }

    /// Changes a field of an entry behind the device's back.
    pub fn poke(&mut self, index: u32, field: Field, value: u64) {
        let request = keywalk_model::ContextRequest {
            tag: 0,
            function: 0,
            query: keywalk_model::ContextQuery::Lookup { table: Table::Mpt.code(), index },
        };
        let address = self.device.engine.context(&self.memory, &request).address;
        let mut entry = self.entry(index);
        entry.set(field, value);
        self.memory.memory.write(address, &entry.to_bytes()).unwrap();
    }

    /// What an access comes to: the first bus address, or why not.
    pub fn access(&self, operation: Operation, key: u32, va: u64, length: u32) -> Result<u64, Status> {
        self.access_as(operation, key, va, length, PD_A, QPN)
    }

    pub fn access_as(
        &self,
        operation: Operation,
        key: u32,
        va: u64,
        length: u32,
        pd: u32,
        qpn: u32,
    ) -> Result<u64, Status> {
        let operation = operation.code();
        let request = Request { tag: 0, function: self.function, operation, key, pd, qpn, va, length };
        let response = self.device.engine.translate(&self.memory, &request);
        match response.failure {
            Some(failure) => Err(failure.status),
            None => Ok(response.segments[0].pa),
        }
    }

    /// A work request.
    pub fn request(layout: Layout, opcode: WorkOpcode, fields: &[(Field, u64)]) -> WorkRequest {
        let mut wqe = [0; 64];
        let first = layout.fields[0];
        for (field, value) in fields.iter().chain([&(first, opcode as u64)]) {
            field.put(&mut wqe, *value).unwrap();
        }
        WorkRequest { tag: 7, function: 0, privileged: true, pd: PD_A, qpn: QPN, wqe }
    }

    /// FAST_REG_PMR with all rights.
    pub fn fast_register(key: u32, root: u64, va: u64, length: u64, pages: u64) -> WorkRequest {
        use fast_register::*;
        let fields = [
            (PBL_BA, root),
            (LENGTH, length),
            (KEY, key.into()),
            (VA, va),
            (PBL_SIZE, pages),
            (ATOMIC_EN, 1),
            (RR_EN, 1),
            (RW_EN, 1),
            (LW_EN, 1),
            (BIND_EN, 1),
        ];
        Self::request(LAYOUT, WorkOpcode::FastRegister, &fields)
    }

    /// LOCAL_INV.
    pub fn local_invalidate(key: u32) -> WorkRequest {
        Self::request(invalidate_key::LAYOUT, WorkOpcode::LocalInvalidate, &[(invalidate_key::KEY, key.into())])
    }

    /// SEND_WITH_INV that arrives.
    pub fn remote_invalidate(key: u32) -> WorkRequest {
        Self::request(invalidate_key::LAYOUT, WorkOpcode::SendWithInvalidate, &[(invalidate_key::KEY, key.into())])
    }

    /// BIND_MW with all rights.
    pub fn bind(kind: u8, new_key: u32, parent_key: u32, va: u64, length: u64) -> WorkRequest {
        use bind_window::*;
        let fields = [
            (NEW_KEY, new_key.into()),
            (LENGTH, length),
            (PARENT_KEY, parent_key.into()),
            (VA, va),
            (IS_TYPE_1, u64::from(kind == 1)),
            (ATOMIC_EN, 1),
            (RR_EN, 1),
            (RW_EN, 1),
        ];
        Self::request(LAYOUT, WorkOpcode::BindWindow, &fields)
    }

    /// Carries out a work request.
    #[track_caller]
    pub fn work(&mut self, request: &WorkRequest) -> WorkStatus {
        let request = WorkRequest { function: self.function, ..*request };
        let response = self.device.work(&mut self.memory, &request);
        assert_eq!((response.tag, response.function), (request.tag, request.function));
        assert_eq!(response.fence.is_some(), response.status == WorkStatus::Ok);
        if let Some(fence) = response.fence {
            assert!(matches!(fence, Fence::Entry { table_set: 0, .. }));
        }
        response.status
    }

    /// A work request that must be refused, and must leave everything as it was.
    #[track_caller]
    pub fn refuse_work(&mut self, request: &WorkRequest, status: WorkStatus) {
        let before = (self.device.engine.clone(), self.tables());
        assert_eq!(self.work(request), status);
        assert!(before == (self.device.engine.clone(), self.tables()), "something has changed");
    }
}

/// A work request with a field changed.
pub fn with(mut request: WorkRequest, field: Field, value: u64) -> WorkRequest {
    field.put(&mut request.wqe, value).unwrap();
    request
}
