//! What an image is built from. Every type can be read from and written to a file; fields left out take the default
//! that their comment gives.

use keywalk_contract::Table;
use serde::{Deserialize, Serialize};

use crate::serial::{self, Rights};

/// Everything that an image holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// Decides where tables lie and which pages are scattered where. Default 0.
    #[serde(with = "serial::number")]
    pub seed: u64,
    /// Bits of bus addresses, 40 to 64. Tables lie in the lower half of the address space, data pages that are not
    /// given one by one in the upper half. Default 52.
    pub address_bits: u32,
    /// The table sets by number, at most 8.
    pub table_sets: Vec<TableSetDescription>,
}

impl Default for Description {
    fn default() -> Self {
        Self { seed: 0, address_bits: 52, table_sets: Vec::new() }
    }
}

/// One table set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableSetDescription {
    /// log2 of the number of MPT entries, 0 to 24. Default 24.
    pub num_mpts_log2: u8,
    /// Page shift of page-size field 0 of page tables, 12 to 15. Default 12.
    pub page_shift_base: u8,
    /// The context tables. Those left out have no memory and no objects.
    pub tables: Vec<TableDescription>,
    /// Memory regions and windows.
    pub regions: Vec<RegionDescription>,
    /// Context objects that exist: the chunk of each is built and the object marked (see [`crate::BuiltObject`]).
    pub objects: Vec<ObjectDescription>,
    /// Queue buffers.
    pub queue_buffers: Vec<QueueBufferDescription>,
}

impl Default for TableSetDescription {
    fn default() -> Self {
        Self {
            num_mpts_log2: 24,
            page_shift_base: 12,
            tables: Vec::new(),
            regions: Vec::new(),
            objects: Vec::new(),
            queue_buffers: Vec::new(),
        }
    }
}

/// Shape of a context table (contract section 3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    /// Which one: qpc, mpt, cqc, srqc, sccc, qpc_timer, cqc_timer.
    #[serde(with = "serial::table")]
    pub table: Table,
    /// Hops, 0 to 3.
    pub hop: u8,
    /// Size of a BA page: log2(bytes) - 12, 0 to 15. Default 0.
    #[serde(default)]
    pub ba_pg_sz: u8,
    /// Size of a chunk: log2(bytes) - 12, 0 to 15. Default 0.
    #[serde(default)]
    pub buf_pg_sz: u8,
    /// Bytes of an entry, a power of two from 32 to 4096; 64 for the MPT. Default 64.
    #[serde(default = "default_entry_bytes")]
    pub entry_bytes: u32,
    /// BT0 slots, 1 to 1024.
    pub bt_num: u32,
    /// Objects; 0: unchecked by the device. Default 0.
    #[serde(default)]
    pub object_count: u32,
}

fn default_entry_bytes() -> u32 {
    64
}

/// What kind of MPT entry a region has (contract section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// User MR.
    #[default]
    Mr,
    /// DMA MR: no translation, all of memory. Has no length, VA or pages.
    DmaMr,
    /// Fast-registration MR as created, state FREE. Has no length, VA or pages, but a root table of 512 entries.
    FrmrFree,
    /// Fast-registration MR after registration, state VALID, at most 512 pages.
    Frmr,
    /// Memory window as the driver leaves it, state FREE. Has no length, VA or pages.
    Mw,
    /// Memory window in state VALID: bound when `bound_key` is not 0. Has no pages.
    MwValid,
}

/// A memory region or window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegionDescription {
    /// Name, for messages.
    pub name: String,
    /// Kind. Default mr.
    pub kind: RegionKind,
    /// Bytes.
    #[serde(with = "serial::number")]
    pub length_bytes: u64,
    /// First virtual address.
    #[serde(with = "serial::number")]
    pub va: u64,
    /// Byte of the first page at which the region starts, as an independent check: it must equal the low bits of
    /// `va`. Default: not checked.
    #[serde(with = "serial::optional_number")]
    pub first_page_offset_bytes: Option<u64>,
    /// Bytes of a page, a power of two from 1 << page_shift_base to that << 15. Default 4096.
    #[serde(with = "serial::number")]
    pub page_bytes: u64,
    /// The pages. Default: scattered.
    pub pages: PageList,
    /// Protection domain, 24 bits. Default 0.
    pub pd: u32,
    /// Rights. Default: local read only.
    pub rights: Rights,
    /// Low byte of the key. Default 0.
    pub variant: u8,
    /// Index of the MPT entry. Default: the smallest from 1 up that no region names or was given before.
    pub index: Option<u32>,
    /// Hops of the page table. Default: the smallest that fits, at least 1 for a fast-registration MR.
    pub hop: Option<u8>,
    /// Size of a lower page table: log2(bytes) - 12, 0 to 15. Default 0.
    pub ba_pg_sz: u8,
    /// Accept page addresses that are not 4 KiB aligned. Default no.
    pub allow_misaligned_pages: bool,
    /// Accept pages at address 0 in an explicit list: they are not present. Default no.
    pub allow_holes: bool,
    /// Window type, 1 or 2. Default 1.
    pub window_type: u8,
    /// Window of type 2: the queue pair it is bound to, 24 bits. Default 0.
    pub bind_qpn: u32,
    /// VALID window: L_Key of the region that it is bound to. Default 0: unbound.
    pub bound_key: u32,
    /// Addresses count from the start of the region or window. Default no.
    pub is_zero_based: bool,
}

impl Default for RegionDescription {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: RegionKind::default(),
            length_bytes: 0,
            va: 0,
            first_page_offset_bytes: None,
            page_bytes: 4096,
            pages: PageList::default(),
            pd: 0,
            rights: Rights::NONE,
            variant: 0,
            index: None,
            hop: None,
            ba_pg_sz: 0,
            allow_misaligned_pages: false,
            allow_holes: false,
            window_type: 1,
            bind_qpn: 0,
            bound_key: 0,
            is_zero_based: false,
        }
    }
}

/// The data pages of a region or queue buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "layout", deny_unknown_fields)]
pub enum PageList {
    /// One address per page. There must be as many as VA, length and page size make.
    Explicit {
        /// Bus addresses in order.
        #[serde(with = "serial::numbers")]
        addresses: Vec<u64>,
    },
    /// One page after the other.
    Contiguous {
        /// Bus address of the first page.
        #[serde(with = "serial::number")]
        first: u64,
    },
    /// All over the upper half of the address space, each address at most once.
    Scattered {
        /// Decides, together with the description's seed and the entry's index, what lies where. Default 0.
        #[serde(default, with = "serial::number")]
        seed: u64,
        /// So many neighbours stay together. Default 1.
        #[serde(default = "default_run_pages")]
        run_pages: u32,
    },
}

fn default_run_pages() -> u32 {
    1
}

impl Default for PageList {
    fn default() -> Self {
        Self::Scattered { seed: 0, run_pages: 1 }
    }
}

/// A context object that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectDescription {
    /// Context table; not the MPT, whose objects are the regions.
    #[serde(with = "serial::table")]
    pub table: Table,
    /// Object number.
    pub index: u32,
}

/// A queue buffer: up to three regions whose roots share a page (contract section 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueBufferDescription {
    /// Name, for messages.
    pub name: String,
    /// Bytes of a page, a power of two from 1 << page_shift_base to that << 15. Default 4096.
    #[serde(default = "default_page_bytes", with = "serial::number")]
    pub page_bytes: u64,
    /// Size of a lower page table: log2(bytes) - 12, 0 to 15. Default 0.
    #[serde(default)]
    pub ba_pg_sz: u8,
    /// The regions (SQ, SGE, RQ). Either all have hop 0, then the pages of all are contiguous, or none has.
    pub regions: Vec<QueueBufferRegionDescription>,
}

fn default_page_bytes() -> u64 {
    4096
}

/// A region of a queue buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueBufferRegionDescription {
    /// Pages; may be 0.
    pub count: u32,
    /// Hops, 0 to 3.
    pub hop: u8,
    /// The pages. Default: scattered; with hop 0, contiguous wherever they fit, and anything else is refused.
    #[serde(default)]
    pub pages: Option<PageList>,
}
