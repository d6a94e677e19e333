//! Context lookups and queue-buffer walks: each failure, its place, and what is not checked.

use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::{Status, Table};
use keywalk_image::SparseMemory;
use keywalk_model::{
    BusError, ContextQuery, ContextRequest, ContextResponse, ContextTable, Engine, Geometry, Memory, TableSet,
};

const BA_PAGE: u64 = 0x10_0000;
const CHUNK: u64 = 0x20_0000;
/// Object 0x25 of a table of 256-byte entries, 16 to a chunk: the sixth of chunk 2.
const INDEX: u32 = 0x25;
const POINTER: u64 = BA_PAGE + 8 * 2;

struct World {
    memory: SparseMemory,
    engine: Engine,
    query: ContextQuery,
}

impl World {
    /// A QPC table of one hop.
    fn lookup() -> Self {
        let mut set = TableSet::default();
        let table = set.table_mut(Table::Qpc);
        table.geometry = Geometry { hop: 1, entry_bytes_log2: 8, ..Geometry::default() };
        table.set_bt0(0, Some(BA_PAGE));
        let mut memory = SparseMemory::new();
        memory.back(BA_PAGE, 1);
        memory.write_u64(POINTER, CHUNK).unwrap();
        let query = ContextQuery::Lookup { table: Table::Qpc.code(), index: INDEX };
        Self { memory, engine: Engine::new(vec![set]), query }
    }

    /// A queue buffer of two hops: page 513 of 600.
    fn walk() -> Self {
        let mut memory = SparseMemory::new();
        for page in [BA_PAGE, CHUNK] {
            memory.back(page, 1);
        }
        memory.write_u64(BA_PAGE + 0x18, CHUNK).unwrap();
        memory.write_u64(CHUNK + 8, 0x9000_0010).unwrap();
        let query =
            ContextQuery::Walk { root: BA_PAGE + 0x10, hop: 2, ba_pg_sz: 0, buf_pg_sz: 0, index: 513, count: 600 };
        Self { memory, engine: Engine::new(vec![TableSet::default()]), query }
    }

    fn qpc(&mut self) -> &mut ContextTable {
        self.engine.table_sets[0].table_mut(Table::Qpc)
    }

    #[track_caller]
    fn expect(&self, status: Status, table: u8, hop: u8, address: u64) {
        let memory = |address: u64, bytes: &mut [u8]| self.memory.read(address, bytes).map_err(|_| BusError);
        let request = ContextRequest { tag: 9, function: 4, query: self.query };
        let expected = ContextResponse { tag: 9, function: 4, status, table, hop, address };
        assert_eq!(self.engine.context(&memory, &request), expected);
        let (explained, steps) = self.engine.explain_context(&memory, &request);
        assert_eq!(explained, expected);
        assert!(steps.len() > 1 || status != Status::Ok);
    }
}

#[test]
fn a_lookup_gives_the_address_and_reads_no_entry() {
    // The chunk is not even backed.
    World::lookup().expect(Status::Ok, 0, 0, CHUNK + 5 * 256);
}

#[test]
fn every_failure_of_a_lookup_says_where() {
    let mut world = World::lookup();
    world.qpc().geometry.object_count = INDEX;
    world.expect(Status::IndexOutOfRange, 0, 0, 0);
    world.qpc().geometry.object_count = INDEX + 1;
    world.expect(Status::Ok, 0, 0, CHUNK + 5 * 256);

    for base in [None, Some(0)] {
        let mut world = World::lookup();
        world.qpc().set_bt0(0, base);
        world.expect(Status::Bt0Unset, 0, 0, 0);
    }
    let mut world = World::lookup();
    world.qpc().set_bt0(0, Some(BA_PAGE + 8));
    world.expect(Status::HemMisaligned, 0, 0, 0);
    let mut world = World::lookup();
    world.memory.remove(BA_PAGE, 1);
    world.expect(Status::HemBusError, 0, 0, 0);
    let mut world = World::lookup();
    world.memory.write_u64(POINTER, 0).unwrap();
    world.expect(Status::HemPointerZero, 0, 1, 0);
    world.memory.write_u64(POINTER, CHUNK + 64).unwrap();
    world.expect(Status::HemMisaligned, 0, 1, 0);
    world.engine.controls.alignment_check = false;
    world.memory.write_u64(POINTER, CHUNK + 3).unwrap();
    world.expect(Status::Ok, 0, 0, CHUNK + 3 + 5 * 256);
}

#[test]
fn code_7_is_a_table_in_which_nothing_is_reachable() {
    let mut world = World::lookup();
    world.query = ContextQuery::Lookup { table: TABLE_CODE_MTR, index: 0 };
    world.expect(Status::Bt0Unset, TABLE_CODE_MTR, 0, 0);
}

#[test]
fn a_walk_gives_the_leaf_as_it_is() {
    World::walk().expect(Status::Ok, 0, 0, 0x9000_0010);
}

#[test]
fn every_failure_of_a_walk_says_where() {
    const MTR: u8 = TABLE_CODE_MTR;
    fn with(change: fn(&mut u64, &mut u8, &mut u32)) -> World {
        let mut world = World::walk();
        if let ContextQuery::Walk { root, hop, count, .. } = &mut world.query {
            change(root, hop, count);
        }
        world
    }
    with(|_, _, count| *count = 513).expect(Status::MtrIndex, MTR, 0, 0);
    with(|_, _, count| *count = 514).expect(Status::Ok, 0, 0, 0x9000_0010);
    with(|_, _, count| *count = 0).expect(Status::Ok, 0, 0, 0x9000_0010);
    for hop in 0..=3 {
        let mut world = with(|root, _, _| *root += 4);
        if let ContextQuery::Walk { hop: hops, .. } = &mut world.query {
            *hops = hop;
        }
        world.expect(Status::MtrMisaligned, MTR, 0, 0);
        if let ContextQuery::Walk { root, .. } = &mut world.query {
            *root = 0;
        }
        world.expect(Status::MtrNotPresent, MTR, 0, 0);
    }
    let mut both = with(|root, _, count| (*root, *count) = (4, 1));
    both.expect(Status::MtrIndex, MTR, 0, 0);
    both.engine.controls.index_check = false;
    both.expect(Status::MtrIndex, MTR, 0, 0);

    let mut world = World::walk();
    world.memory.write_u64(BA_PAGE + 0x18, 0).unwrap();
    world.expect(Status::MtrNotPresent, MTR, 0, 0);
    world.memory.write_u64(BA_PAGE + 0x18, CHUNK + 8).unwrap();
    world.expect(Status::MtrMisaligned, MTR, 1, 0);
    world.memory.remove(BA_PAGE, 1);
    world.expect(Status::MtrBusError, MTR, 0, 0);
    let mut world = World::walk();
    world.memory.write_u64(CHUNK + 8, 0).unwrap();
    world.expect(Status::MtrNotPresent, MTR, 1, 0);
    world.engine.controls.zero_entry_literal = true;
    world.expect(Status::Ok, 0, 0, 0);
    world.memory.remove(CHUNK, 1);
    world.expect(Status::MtrBusError, MTR, 1, 0);
}

#[test]
fn a_direct_buffer_needs_no_memory() {
    let mut world = World::walk();
    world.memory = SparseMemory::new();
    world.engine.table_sets[0].page_shift_base = 13;
    world.query = ContextQuery::Walk { root: 0x1000, hop: 0, ba_pg_sz: 15, buf_pg_sz: 3, index: 7, count: 8 };
    world.expect(Status::Ok, 0, 0, 0x1000 + (7 << 16));
    world.engine.controls.zero_entry_literal = true;
    world.query = ContextQuery::Walk { root: 0, hop: 0, ba_pg_sz: 15, buf_pg_sz: 3, index: 7, count: 8 };
    world.expect(Status::Ok, 0, 0, 7 << 16);
}

#[test]
fn numbers_beyond_their_ranges_are_named_and_harmless() {
    let error = |change: fn(&mut TableSet)| {
        let mut set = TableSet::default();
        change(&mut set);
        set.validate().unwrap_err().to_string()
    };
    TableSet::default().validate().unwrap();
    assert_eq!(error(|set| set.num_mpts_log2 = 25), "`num_mpts_log2` of the table set is 25, legal is 0..=24");
    assert_eq!(error(|set| set.page_shift_base = 11), "`page_shift_base` of the table set is 11, legal is 12..=15");
    let geometry = |change: fn(&mut Geometry)| {
        let mut set = TableSet::default();
        change(&mut set.table_mut(Table::Mpt).geometry);
        set.validate().unwrap_err().to_string()
    };
    assert_eq!(geometry(|geometry| geometry.hop = 4), "`mpt.hop` of the table set is 4, legal is 0..=3");
    assert_eq!(geometry(|geometry| geometry.ba_pg_sz = 16), "`mpt.ba_pg_sz` of the table set is 16, legal is 0..=15");
    assert_eq!(geometry(|geometry| geometry.buf_pg_sz = 16), "`mpt.buf_pg_sz` of the table set is 16, legal is 0..=15");
    assert_eq!(geometry(|geometry| geometry.bt_num = 0), "`mpt.bt_num` of the table set is 0, legal is 1..=1024");
    assert_eq!(
        geometry(|geometry| geometry.entry_bytes_log2 = 7),
        "`mpt.entry_bytes_log2` of the table set is 7, legal is 6..=6"
    );

    // Answers without a panic, whatever the numbers are.
    struct Anything;
    impl Memory for Anything {
        fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
            bytes.fill(address as u8 | 1);
            Ok(())
        }
    }
    let wild = Geometry { hop: 255, ba_pg_sz: 255, buf_pg_sz: 255, entry_bytes_log2: 255, bt_num: 0, object_count: 0 };
    let mut set = TableSet { num_mpts_log2: 255, page_shift_base: 255, ..TableSet::default() };
    for table in &mut set.tables {
        *table = ContextTable { geometry: wild, bt0: vec![Some(u64::MAX)] };
    }
    let mut engine = Engine::new(vec![set]);
    engine.controls.alignment_check = false;
    let lookup = ContextQuery::Lookup { table: 0, index: u32::MAX };
    let response = engine.context(&Anything, &ContextRequest { tag: 0, function: 0, query: lookup });
    assert_eq!((response.status, response.hop), (Status::HemMisaligned, 0));
    let walk = ContextQuery::Walk { root: 8, hop: 255, ba_pg_sz: 255, buf_pg_sz: 255, index: u32::MAX, count: 0 };
    let response = engine.context(&Anything, &ContextRequest { tag: 0, function: 0, query: walk });
    assert_eq!((response.status, response.hop), (Status::MtrMisaligned, 1));
}
