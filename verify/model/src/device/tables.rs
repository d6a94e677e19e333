//! MPT entries as commands and work requests find, keep and change them.

use keywalk_contract::key::ROTATE_BITS;
use keywalk_contract::mpt_entry::{self, STATE_VALID};
use keywalk_contract::{Status, Table};

use super::Device;
use crate::hem::{self, Purpose};
use crate::{BusError, Memory, MemoryMut, MptEntry};

/// Why an entry cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    IndexOutOfRange,
    Unmapped,
    BusError,
}

impl From<Status> for Missing {
    fn from(status: Status) -> Self {
        match status {
            Status::IndexOutOfRange => Self::IndexOutOfRange,
            Status::HemBusError | Status::HemTimeout => Self::BusError,
            _ => Self::Unmapped,
        }
    }
}

/// An MPT entry and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub index: u32,
    pub address: u64,
    pub entry: MptEntry,
}

impl Place {
    pub fn is_valid(&self) -> bool {
        self.entry.get(mpt_entry::ST) == STATE_VALID
    }

    pub fn is_window(&self) -> bool {
        self.entry.is_set(mpt_entry::MR_MW)
    }

    /// A region that windows are bound to.
    pub fn has_windows(&self) -> bool {
        self.is_valid() && !self.is_window() && self.entry.get(mpt_entry::MW_CNT) > 0
    }

    /// Key of the region that a window is bound to; `None` where this is no bound window.
    pub fn parent_key(&self) -> Option<u32> {
        let key = self.entry.get(mpt_entry::BOUND_LKEY) as u32;
        (self.is_valid() && self.is_window() && key != 0).then_some(key)
    }
}

/// Changes of entries that happen together or not at all.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Address, what is there, what shall be there.
    writes: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

impl Changes {
    pub fn write(&mut self, address: u64, old: &[u8], new: &[u8]) {
        self.writes.push((address, old.to_vec(), new.to_vec()));
    }

    pub fn entry(&mut self, place: &Place, new: &MptEntry) {
        self.write(place.address, &place.entry.to_bytes(), &new.to_bytes());
    }

    /// Makes the changes. When one fails, those before it are taken back.
    pub fn apply(self, memory: &mut impl MemoryMut) -> Result<(), BusError> {
        for (position, (address, _, new)) in self.writes.iter().enumerate() {
            if let Err(error) = memory.write(*address, new) {
                for (address, old, _) in &self.writes[..position] {
                    // It was written a moment ago; if it no longer can be, there is nothing left to do.
                    let _ = memory.write(*address, old);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Device {
    /// The entry of an MPT index.
    pub(super) fn find_index(&self, memory: &impl Memory, function: u8, index: u32) -> Result<Place, Missing> {
        let set = self.engine.table_set(function);
        if index >= set.num_mpts() {
            return Err(Missing::IndexOutOfRange);
        }
        let found = self.engine.read_mpt_entry_at(memory, set, index, &mut ());
        let (address, entry) = found.map_err(|failure| Missing::from(failure.status))?;
        Ok(Place { index, address, entry })
    }

    /// The entry of a key; all bits of its index count.
    pub(super) fn find_key(&self, memory: &impl Memory, function: u8, key: u32) -> Result<Place, Missing> {
        self.find_index(memory, function, key >> ROTATE_BITS)
    }

    /// Address of an object of a context table.
    pub(super) fn locate(&self, memory: &impl Memory, function: u8, table: Table, index: u32) -> Result<u64, Missing> {
        let set = self.engine.table_set(function);
        if table == Table::Mpt && index >= set.num_mpts() {
            return Err(Missing::IndexOutOfRange);
        }
        let purpose = if table == Table::Mpt { Purpose::ReadEntry } else { Purpose::AddressOnly };
        hem::locate(memory, &self.engine.controls, table, set.table(table), index, purpose, &mut ())
            .map_err(|failure| Missing::from(failure.status))
    }

    /// Counts one window less at the region of this key. Where the region is no longer what the window was bound to, or is
    /// out of reach, there is nothing to count: an access through the window would fail there as well.
    pub(super) fn release_parent(&self, memory: &impl Memory, function: u8, key: u32, changes: &mut Changes) {
        let Ok(parent) = self.find_key(memory, function, key) else { return };
        if parent.has_windows() && parent.entry.get(mpt_entry::LKEY) == u64::from(key) {
            let mut entry = parent.entry.clone();
            entry.set(mpt_entry::MW_CNT, entry.get(mpt_entry::MW_CNT) - 1);
            changes.entry(&parent, &entry);
        }
    }
}
