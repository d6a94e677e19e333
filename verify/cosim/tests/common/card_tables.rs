//! Tables of a card's tests: one region whose pages lie all over memory, and one beside it.

use keywalk_contract::Table;
use keywalk_cosim::{ByteMemory, Controls, Setup, TableGeometry, TableSet};
use keywalk_image::{
    BuiltRegion, Description, Image, PageList, RegionDescription, Rights, TableDescription, TableSetDescription,
};

/// First virtual address of both regions.
pub const FIRST_VA: u64 = 0x10_0000;
/// Pages of each.
pub const PAGES: u64 = 40;
/// Protection domain of both.
pub const PD: u32 = 7;
/// MPT index of the region.
const INDEX: u32 = 5;
/// Key of the region.
pub const KEY: u32 = INDEX << 8;

/// The tables.
pub struct Tables {
    image: Image,
}

impl Tables {
    /// Builds them.
    pub fn new() -> Self {
        let mpt = TableDescription {
            table: Table::Mpt,
            hop: 1,
            ba_pg_sz: 0,
            buf_pg_sz: 0,
            entry_bytes: 64,
            bt_num: 1,
            object_count: 0,
        };
        let region = |index: u32| RegionDescription {
            name: format!("region_{index}"),
            length_bytes: PAGES * 4096,
            va: FIRST_VA,
            pd: PD,
            rights: Rights::ALL,
            index: Some(index),
            hop: Some(1),
            pages: PageList::Scattered { seed: index.into(), run_pages: 2 },
            ..RegionDescription::default()
        };
        let set = TableSetDescription {
            num_mpts_log2: 10,
            tables: vec![mpt],
            regions: vec![region(INDEX), region(INDEX + 1)],
            ..TableSetDescription::default()
        };
        let description = Description { seed: 1, table_sets: vec![set], ..Description::default() };
        Self { image: description.build().expect("plain regions") }
    }

    /// The region of [`KEY`].
    pub fn region(&self) -> &BuiltRegion {
        &self.image.table_sets[0].regions[0]
    }

    /// Bus address of a byte of the region.
    pub fn pa(&self, va: u64) -> u64 {
        self.region().pa(va).expect("it is in the region")
    }

    /// Writes the tables into memory.
    pub fn load(&self, memory: &mut ByteMemory) {
        for (address, page) in self.image.memory.written_pages() {
            (address..).zip(page).for_each(|(address, value)| memory.set(address, *value));
        }
    }

    /// What software tells the engine: the tables, and to hold every response until all of it is known.
    pub fn setup(&self) -> Setup {
        let set = &self.image.table_sets[0];
        let tables = set.tables.iter().map(|(table, built)| {
            let geometry = TableGeometry {
                hop_num: built.hop,
                ba_pg_sz: built.ba_pg_sz,
                buf_pg_sz: built.buf_pg_sz,
                entry_bytes_log2: built.entry_bytes_log2,
                bt_num: built.bt_num as u16,
                object_count: built.object_count,
                bt0: built.bt0.iter().map(|(slot, address)| (*slot as u16, *address)).collect(),
            };
            (*table, geometry)
        });
        let set = TableSet {
            tables: tables.collect(),
            num_mpts_log2: set.num_mpts_log2,
            page_shift_base: set.page_shift_base,
        };
        let controls = Controls { hold_mode: true, ..Controls::default() };
        Setup { table_sets: vec![set], controls, ..Setup::default() }
    }
}
