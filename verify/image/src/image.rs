//! What was built, and what it should translate to.

use std::collections::BTreeMap;

use keywalk_contract::Table;

use crate::{Pages, RegionKind, Rights, SparseMemory};

/// Tables in memory, and all that software tells the device about them.
#[derive(Clone, Debug)]
pub struct Image {
    /// The memory that holds the tables. Data pages are not backed.
    pub memory: SparseMemory,
    /// The table sets by number.
    pub table_sets: Vec<BuiltTableSet>,
}

/// One table set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltTableSet {
    /// log2 of the number of MPT entries.
    pub num_mpts_log2: u8,
    /// Page shift of page-size field 0 of page tables.
    pub page_shift_base: u8,
    /// The context tables that were described.
    pub tables: BTreeMap<Table, BuiltTable>,
    /// The regions in order of description.
    pub regions: Vec<BuiltRegion>,
    /// The context objects in order of description.
    pub objects: Vec<BuiltObject>,
    /// The queue buffers in order of description.
    pub queue_buffers: Vec<BuiltQueueBuffer>,
}

/// A context table, as the device is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltTable {
    /// Hops.
    pub hop: u8,
    /// Size of a BA page: log2(bytes) - 12.
    pub ba_pg_sz: u8,
    /// Size of a chunk: log2(bytes) - 12.
    pub buf_pg_sz: u8,
    /// log2 of an entry's bytes.
    pub entry_bytes_log2: u8,
    /// BT0 slots.
    pub bt_num: u32,
    /// Objects; 0: unchecked.
    pub object_count: u32,
    /// Bus addresses of the BT0 slots that are set.
    pub bt0: BTreeMap<u32, u64>,
}

/// A region or window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltRegion {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: RegionKind,
    /// Index of the MPT entry.
    pub index: u32,
    /// Key: L_Key and R_Key.
    pub key: u32,
    /// Bus address of the MPT entry.
    pub entry_address: u64,
    /// First virtual address.
    pub va: u64,
    /// Bytes.
    pub length_bytes: u64,
    /// Protection domain.
    pub pd: u32,
    /// Rights.
    pub rights: Rights,
    /// Hops of the page table.
    pub hop: u8,
    /// Size of a lower page table: log2(bytes) - 12.
    pub ba_pg_sz: u8,
    /// Bus address of the root table; with hop 0, of the page; 0 where there is none.
    pub root: u64,
    /// Requests count addresses from `va`.
    pub is_zero_based: bool,
    /// The true data pages.
    pub pages: Pages,
}

impl BuiltRegion {
    /// Bus address of the byte at `va`, an address of the region whether or not it is zero-based, from the page list and not from the tables. `None` outside of the region, where
    /// the page is not present, and for kinds that give access to no memory.
    #[must_use]
    pub fn pa(&self, va: u64) -> Option<u64> {
        match self.kind {
            RegionKind::DmaMr => Some(va),
            RegionKind::FrmrFree | RegionKind::Mw | RegionKind::MwValid => None,
            RegionKind::Mr | RegionKind::Frmr => {
                let offset = va.checked_sub(self.va)?;
                if offset >= self.length_bytes {
                    return None;
                }
                let page_shift = self.pages.page_shift();
                let page = self.pages.get((va >> page_shift) - (self.va >> page_shift))?;
                Some(page.wrapping_add(va % (1 << page_shift)))
            }
        }
    }
}

/// A context object. Its first 8 bytes hold 0xc0de << 48 | table code << 40 | index, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltObject {
    /// Context table.
    pub table: Table,
    /// Object number.
    pub index: u32,
    /// Bus address.
    pub address: u64,
}

/// A queue buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltQueueBuffer {
    /// Name.
    pub name: String,
    /// Page size: log2(bytes) - page_shift_base.
    pub buf_pg_sz: u8,
    /// Size of a lower page table: log2(bytes) - 12.
    pub ba_pg_sz: u8,
    /// The regions in order.
    pub regions: Vec<BuiltQueueBufferRegion>,
}

/// A region of a queue buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltQueueBufferRegion {
    /// Bus address of the region's root; with hop 0, of its first page.
    pub root: u64,
    /// Hops.
    pub hop: u8,
    /// The true data pages.
    pub pages: Pages,
}
