//! Tables for a card: built by the image builder, put into memory that the card reaches, and handed over by commands as a
//! driver does it.

use std::ops::Range;

use keywalk_contract::hem::{BA_ENTRY_BYTES_LOG2, PAGE_SHIFT_MIN};
use keywalk_contract::{Table, mpt_entry};
use keywalk_image::{
    BuiltRegion, BuiltTable, Description, Image, PAGE_BYTES, RegionDescription, TableDescription, TableSetDescription,
};

use crate::{Error, Host, Memory};

/// Function whose tables they are.
pub const FUNCTION: u8 = 1;
/// log2 of the number of keys.
pub const NUM_MPTS_LOG2: u8 = 9;
/// BT0 slots of the MPT; without hops each holds a chunk.
pub const BT_NUM: u32 = 8;
/// Indices from here on are refused.
pub const OBJECT_COUNT: u32 = 448;

/// Names of the commands that hand a level of the MPT over, and take it away.
const WRITE_BT: [&str; 3] = ["WRITE_MPT_BT0", "WRITE_MPT_BT1", "WRITE_MPT_BT2"];
const DESTROY_BT: [&str; 3] = ["DESTROY_MPT_BT0", "DESTROY_MPT_BT1", "DESTROY_MPT_BT2"];

/// Bytes of an MPT entry.
pub type Entry = [u8; mpt_entry::ENTRY_BYTES as usize];

/// Tables in a card's memory.
pub struct Tables {
    image: Image,
    /// Where commands find their buffer: two pages, the second for what they write.
    mailbox: u64,
}

impl Tables {
    /// Builds an MPT of that many hops with the regions, in `room`, of which the first two pages become the mailbox's, and
    /// writes everything but the entries of the MPT, which commands bring.
    ///
    /// # Errors
    /// [`Error::Tables`], [`Error::OutsideMemory`].
    pub fn build(
        memory: &mut dyn Memory,
        room: Range<u64>,
        seed: u64,
        hops: u8,
        regions: Vec<RegionDescription>,
    ) -> Result<Self, Error> {
        let mpt = TableDescription {
            table: Table::Mpt,
            hop: hops,
            ba_pg_sz: 0,
            buf_pg_sz: 0,
            entry_bytes: mpt_entry::ENTRY_BYTES as u32,
            bt_num: BT_NUM,
            object_count: OBJECT_COUNT,
        };
        let set = TableSetDescription {
            num_mpts_log2: NUM_MPTS_LOG2,
            tables: vec![mpt],
            regions,
            ..TableSetDescription::default()
        };
        let mailbox = room.start;
        let description = Description { seed, table_sets: vec![set], ..Description::default() };
        let image = description.build_in(room.start + 2 * PAGE_BYTES..room.end)?;
        for address in room.step_by(PAGE_BYTES as usize) {
            memory.write(address, &[0; PAGE_BYTES as usize])?;
        }
        for (address, content) in image.memory.written_pages() {
            memory.write(address, content)?;
        }
        let tables = Self { image, mailbox };
        for region in tables.regions() {
            memory.write(region.entry_address, &[0; mpt_entry::ENTRY_BYTES as usize])?;
        }
        Ok(tables)
    }

    /// The MPT.
    ///
    /// # Panics
    /// Never: there is one.
    #[must_use]
    pub fn mpt(&self) -> &BuiltTable {
        &self.image.table_sets[0].tables[&Table::Mpt]
    }

    /// The regions, in the order in which they were given.
    #[must_use]
    pub fn regions(&self) -> &[BuiltRegion] {
        &self.image.table_sets[0].regions
    }

    /// The entry of a region as the image builder makes it.
    #[must_use]
    pub fn entry(&self, region: &BuiltRegion) -> Entry {
        let mut bytes = [0; mpt_entry::ENTRY_BYTES as usize];
        // The builder has written it there.
        let _ = self.image.memory.read(region.entry_address, &mut bytes);
        bytes
    }

    /// Addresses of the pages on the way to an index, from BT0 on; the last one is the chunk.
    fn way(&self, index: u32) -> Vec<u64> {
        let mpt = self.mpt();
        let chunk = u64::from(index) >> (PAGE_SHIFT_MIN + u32::from(mpt.buf_pg_sz) - mpt_entry::ENTRY_BYTES.ilog2());
        let entries_log2 = PAGE_SHIFT_MIN + u32::from(mpt.ba_pg_sz) - BA_ENTRY_BYTES_LOG2;
        let level = |level: u8| chunk.checked_shr(entries_log2 * u32::from(mpt.hop - level)).unwrap_or(0);
        let mut way = vec![mpt.bt0[&(level(0) as u32)]];
        for number in 1..=mpt.hop {
            let position = level(number) % (1 << entries_log2);
            let pointer = way[way.len() - 1] + (position << BA_ENTRY_BYTES_LOG2);
            way.push(self.image.memory.read_u64(pointer).unwrap_or(0));
        }
        way
    }

    /// Hands the table's pages over, from the top down, those of each region.
    ///
    /// # Errors
    /// Those of commands.
    pub fn hand_over(&self, host: &mut Host<'_>) -> Result<(), Error> {
        host.configure_mpt(FUNCTION, self.mpt(), NUM_MPTS_LOG2)?;
        for region in self.regions() {
            for (command, page) in WRITE_BT.into_iter().zip(self.way(region.index)) {
                host.command_ok(FUNCTION, command, region.index, page)?;
            }
        }
        Ok(())
    }

    /// Takes the table's pages away, from the bottom up.
    ///
    /// # Errors
    /// Those of commands.
    pub fn take_away(&self, host: &mut Host<'_>) -> Result<(), Error> {
        for region in self.regions() {
            let levels = self.way(region.index).len().min(DESTROY_BT.len());
            for command in DESTROY_BT[..levels].iter().rev() {
                host.command_ok(FUNCTION, command, region.index, 0)?;
            }
        }
        Ok(())
    }

    /// Creates the entry of a region.
    ///
    /// # Errors
    /// Those of commands.
    pub fn create(&self, host: &mut Host<'_>, region: &BuiltRegion) -> Result<(), Error> {
        host.card.memory()?.write(self.mailbox, &self.entry(region))?;
        host.command_ok(FUNCTION, "CREATE_MPT", region.index, self.mailbox)
    }

    /// What the engine says the entry of a region is.
    ///
    /// # Errors
    /// Those of commands.
    pub fn query(&self, host: &mut Host<'_>, region: &BuiltRegion) -> Result<Entry, Error> {
        let buffer = self.mailbox + PAGE_BYTES;
        host.command_ok(FUNCTION, "QUERY_MPT", region.index, buffer)?;
        let mut bytes = [0; mpt_entry::ENTRY_BYTES as usize];
        host.card.memory()?.read(buffer, &mut bytes)?;
        Ok(bytes)
    }

    /// Destroys the entry of a region. When it returns, nothing uses the region any more.
    ///
    /// # Errors
    /// Those of commands.
    pub fn destroy(&self, host: &mut Host<'_>, region: &BuiltRegion) -> Result<(), Error> {
        host.command_ok(FUNCTION, "DESTROY_MPT", region.index, 0)
    }
}
