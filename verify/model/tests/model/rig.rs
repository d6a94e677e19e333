//! A small world with one region, made by hand: no table builder stands between the contract and the test.

use keywalk_contract::mpt_entry::*;
use keywalk_contract::{Field, Operation, Table, key};
use keywalk_image::SparseMemory;
use keywalk_model::{BusError, Engine, Failure, Geometry, Request, Response, Segment, Step, TableSet};

/// Index of the region's MPT entry.
pub const INDEX: u32 = 0x123;
/// Its BA page.
pub const BA_PAGE: u64 = 0x10_0000;
/// Its chunk.
pub const CHUNK: u64 = 0x20_0000;
/// Entries of a chunk of 4 KiB.
const ENTRIES_PER_CHUNK: u64 = 4096 / ENTRY_BYTES;
/// Root of its page table: aligned to 8 bytes only.
pub const ROOT: u64 = 0x30_0ff8;
/// Its lower page tables.
pub const LOWER: [u64; 2] = [0x40_0000, 0x50_0000];
/// Its first virtual address: in the middle of a page.
pub const REGION_VA: u64 = 0x7000_0000_0800;
/// Its bytes: 600 pages of 4 KiB, unaligned at both ends.
pub const REGION_BYTES: u64 = 599 * 4096 + 64;
/// Its owner.
pub const OWNER: u32 = 0xabcdef;

/// Bus address of page `index`, never next to that of page `index + 1`.
pub const fn page(index: u64) -> u64 {
    0x9000_0000_0000 + index * 0x3000
}

/// Memory, engine and a request that passes.
pub struct Rig {
    pub memory: SparseMemory,
    pub engine: Engine,
    pub request: Request,
    entry: [u8; ENTRY_BYTES as usize],
}

impl Rig {
    /// HEM of 1 hop, page table of 2 hops. The entry carries what belongs to a bound window of type 2 as well, so that
    /// `MR_MW` alone makes it one.
    pub fn new() -> Self {
        let mut set = TableSet::default();
        let table = set.table_mut(Table::Mpt);
        table.geometry = Geometry { hop: 1, ..Geometry::default() };
        table.set_bt0(0, Some(BA_PAGE));
        let mut rig = Self {
            memory: SparseMemory::new(),
            engine: Engine::new(vec![set]),
            request: Request {
                tag: 0x77,
                function: 3,
                operation: Operation::RemoteWrite.code(),
                key: key::of_index(INDEX),
                pd: OWNER,
                qpn: 0x55,
                va: REGION_VA + 0x1000,
                length: 8,
            },
            entry: [0; ENTRY_BYTES as usize],
        };
        for page in [BA_PAGE, CHUNK, ROOT, LOWER[0], LOWER[1]] {
            rig.memory.back(page, 16);
        }
        rig.write(Self::chunk_pointer(), CHUNK);
        rig.write(ROOT, LOWER[0]);
        rig.write(ROOT + 8, LOWER[1]);
        for index in 0..600 {
            rig.write(Self::leaf(index), page(index));
        }
        let rights = [LW_EN, RR_EN, RW_EN, ATOMIC_EN, BIND_EN].map(|right| (right, 1));
        let fields = [
            (ST, STATE_VALID),
            (PBL_HOP_NUM, 2),
            (PD, OWNER.into()),
            (LEN, REGION_BYTES),
            (LKEY, rig.request.key.into()),
            (VA, REGION_VA),
            (PBL_SIZE, 600),
            (PBL_BA, ROOT >> PBL_BA_SHIFT),
            (BQP, 1),
            (MW_BIND_QPN, 0x55),
            // A window that is its own parent, once it is a window: no region.
            (BOUND_LKEY, rig.request.key.into()),
        ];
        for (field, value) in rights.into_iter().chain(fields) {
            rig.set(field, value);
        }
        rig
    }

    /// Where the pointer to the chunk stands.
    pub fn chunk_pointer() -> u64 {
        BA_PAGE + 8 * (u64::from(INDEX) / ENTRIES_PER_CHUNK)
    }

    /// Where the MPT entry stands.
    pub fn entry_address() -> u64 {
        CHUNK + ENTRY_BYTES * (u64::from(INDEX) % ENTRIES_PER_CHUNK)
    }

    /// Where the leaf of a page stands.
    pub fn leaf(index: u64) -> u64 {
        LOWER[index as usize / 512] + 8 * (index % 512)
    }

    /// Sets a field of the MPT entry.
    pub fn set(&mut self, field: Field, value: u64) {
        field.put(&mut self.entry, value).unwrap();
        self.memory.write(Self::entry_address(), &self.entry).unwrap();
    }

    /// Writes a table entry.
    pub fn write(&mut self, address: u64, value: u64) {
        self.memory.write_u64(address, value).unwrap();
    }

    /// The MPT's table.
    pub fn mpt(&mut self) -> &mut keywalk_model::ContextTable {
        self.engine.table_sets[0].table_mut(Table::Mpt)
    }

    /// Asks the model.
    pub fn translate(&self) -> Response {
        self.engine.translate(&self.reader(), &self.request)
    }

    /// Asks the model for its steps.
    pub fn explain(&self) -> Vec<Step> {
        self.engine.explain(&self.reader(), &self.request).1
    }

    /// Expects a single segment.
    #[track_caller]
    pub fn expect_segment(&self, pa: u64, length_bytes: u32) {
        let expected = Response { segments: vec![Segment { pa, length_bytes }], failure: None };
        assert_eq!(self.translate(), expected);
    }

    /// Expects a failure and nothing before it.
    #[track_caller]
    pub fn expect_failure(&self, failure: Failure) {
        assert_eq!(self.translate(), Response { segments: Vec::new(), failure: Some(failure) });
    }

    /// The memory as the model reads it.
    pub fn reader(&self) -> impl Fn(u64, &mut [u8]) -> Result<(), BusError> {
        |address, bytes: &mut [u8]| self.memory.read(address, bytes).map_err(|_| BusError)
    }
}
