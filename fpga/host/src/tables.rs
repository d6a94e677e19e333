//! Tables for a card: built by the image builder, put into memory that the card reaches, and handed over by commands as a
//! driver does it.

use std::ops::Range;

use keywalk_contract::hem::{BA_ENTRY_BYTES_LOG2, PAGE_SHIFT_MIN};
use keywalk_contract::{Table, mpt_entry};
use keywalk_image::{
    BuiltRegion, BuiltTable, Description, Image, PAGE_BYTES, RegionDescription, TableDescription, TableSetDescription,
};

use crate::card::{differences, offset_in};
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
pub(crate) const WRITE_BT: [&str; 3] = ["WRITE_MPT_BT0", "WRITE_MPT_BT1", "WRITE_MPT_BT2"];
const DESTROY_BT: [&str; 3] = ["DESTROY_MPT_BT0", "DESTROY_MPT_BT1", "DESTROY_MPT_BT2"];

/// Bytes of an MPT entry.
pub type Entry = [u8; mpt_entry::ENTRY_BYTES as usize];

/// Pages of the mailbox: a buffer that commands read, and one that they write.
const MAILBOX_PAGES: u64 = 2;
/// Pages for tables that take the place of others.
const SPARE_PAGES: u64 = 3;

/// Tables in a card's memory.
pub struct Tables {
    image: Image,
    /// Where they are: the mailbox's pages, the spare ones, and what was built.
    room: Range<u64>,
    /// What that must hold, but for entries of regions and buffers of commands.
    content: Vec<u8>,
    /// Spare pages that are used.
    spares_used: u64,
}

impl Tables {
    /// Builds an MPT of that many hops with the regions, in `room`, of which the first pages become the mailbox's and
    /// spare ones, and writes everything but the entries of the MPT, which commands bring.
    ///
    /// # Errors
    /// [`Error::Tables`], [`Error::OutsideMemory`]; [`Error::Setup`] where `room` is not made of whole pages.
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
        let description = Description { seed, table_sets: vec![set], ..Description::default() };
        if !room.start.is_multiple_of(PAGE_BYTES) || !room.end.is_multiple_of(PAGE_BYTES) {
            return Err(Error::Setup {
                what: format!("tables are to lie from {:#x} to {:#x}", room.start, room.end),
                advice: format!("give them whole pages, at multiples of {PAGE_BYTES}"),
            });
        }
        let bytes = room.end.saturating_sub(room.start) as usize;
        let own_bytes = (MAILBOX_PAGES + SPARE_PAGES) * PAGE_BYTES;
        offset_in(&memory.room(), room.start, bytes)?;
        offset_in(&room, room.start, own_bytes as usize)?;
        let image = description.build_in(room.start + own_bytes..room.end)?;
        let content = vec![0; bytes];
        let mut tables = Self { image, room, content, spares_used: 0 };
        for (address, page) in tables.image.memory.written_pages() {
            let first = offset_in(&tables.room, address, page.len())?;
            tables.content[first..first + page.len()].copy_from_slice(page);
        }
        tables.blank()?;
        memory.write(tables.room.start, &tables.content)?;
        Ok(tables)
    }

    /// Makes zeros of what commands write: entries of regions, and both buffers.
    fn blank(&mut self) -> Result<(), Error> {
        let mut places = vec![self.room.start, self.room.start + PAGE_BYTES];
        places.extend(self.regions().iter().map(|region| region.entry_address));
        for address in places {
            let first = offset_in(&self.room, address, mpt_entry::ENTRY_BYTES as usize)?;
            self.content[first..first + mpt_entry::ENTRY_BYTES as usize].fill(0);
        }
        Ok(())
    }

    /// Compares all of the tables' memory but entries of regions and buffers of commands with what was put there.
    ///
    /// # Errors
    /// [`Error::Wrong`] says where something is that nobody put there.
    pub fn compare(&mut self, memory: &dyn Memory) -> Result<(), Error> {
        let mut found = vec![0; self.content.len()];
        memory.read(self.room.start, &mut found)?;
        let expected = std::mem::replace(&mut self.content, found);
        self.blank()?;
        let found = std::mem::replace(&mut self.content, expected);
        differences(self.room.start, &found, &self.content)
    }

    /// Writes into the tables as the host does.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`].
    pub fn write(&mut self, memory: &mut dyn Memory, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let first = offset_in(&self.room, address, bytes.len())?;
        self.content[first..first + bytes.len()].copy_from_slice(bytes);
        memory.write(address, bytes)
    }

    /// Gives a region of one hop or more other pages, as a host does while the region's entry is destroyed: each table but the
    /// root in a page of its own that was not used so far, and zeros where it was.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`]; [`Error::Wrong`] where no spare page is left.
    pub fn replace_pages(&mut self, memory: &mut dyn Memory, region: &BuiltRegion, pages: &[u64]) -> Result<(), Error> {
        let mut table = region.root;
        for _ in 1..region.hop {
            let first = offset_in(&self.room, table, 8)?;
            let old = self.content[first..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if self.spares_used == SPARE_PAGES {
                return Err(Error::Wrong("no spare page is left for a page table".into()));
            }
            let new = self.room.start + (MAILBOX_PAGES + self.spares_used) * PAGE_BYTES;
            self.spares_used += 1;
            let first = offset_in(&self.room, old, PAGE_BYTES as usize)?;
            let moved = self.content[first..first + PAGE_BYTES as usize].to_vec();
            self.write(memory, new, &moved)?;
            self.write(memory, old, &[0; PAGE_BYTES as usize])?;
            self.write(memory, table, &new.to_le_bytes())?;
            table = new;
        }
        for (address, page) in (table..).step_by(8).zip(pages) {
            self.write(memory, address, &page.to_le_bytes())?;
        }
        Ok(())
    }

    /// A buffer for commands to read.
    #[must_use]
    pub fn mailbox(&self) -> u64 {
        self.room.start
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
        host.card.memory()?.write(self.mailbox(), &self.entry(region))?;
        host.command_ok(FUNCTION, "CREATE_MPT", region.index, self.mailbox())
    }

    /// What the engine says the entry of a region is.
    ///
    /// # Errors
    /// Those of commands.
    pub fn query(&self, host: &mut Host<'_>, region: &BuiltRegion) -> Result<Entry, Error> {
        let buffer = self.mailbox() + PAGE_BYTES;
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
