//! Vector files: tables that the real driver built, with the answers an engine must give (`verify/vectors/README.md`).
//!
//! Files are not trusted: sizes are limited, types are strict, and whatever is used later has been checked here. Keys of
//! a JSON object that nothing here reads (driver logs, decoded copies of fields) are ignored.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use keywalk_contract::hem::{BT_NUM_MAX, ENTRY_BYTES_LOG2, HOP_MAX, PAGE_SHIFT_MIN, PAGE_SIZE_FIELD_MAX};
use keywalk_contract::key::NUM_MPTS_LOG2_MAX;
use keywalk_contract::{Operation, Status, Table, WireClass};
use keywalk_image::PAGE_BYTES;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::number::{Hex, Hex32, Slots};
use crate::page_list::PageList;

/// Value of `format` in a vector file.
pub const FORMAT: &str = "hns-v2-vector/1";
/// Largest vector file in bytes, decompressed.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Largest protection domain.
const PD_MAX: u32 = (1 << 24) - 1;

/// Why a vector file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// It cannot be read, or its compressed stream is damaged.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system or the decompressor says.
        source: io::Error,
    },
    /// It is too large.
    #[error("{}: larger than {FILE_BYTES_MAX} bytes decompressed, which is the limit", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is no JSON, or a value has a wrong type or is missing.
    #[error("{}: {place}: {what}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Row and field, such as `xlate[3].va`.
        place: String,
        /// What is wrong, with line and column.
        what: String,
    },
    /// A value has the right type but is not legal.
    #[error("{}: {}", path.display(), invalid)]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where and what.
        invalid: Invalid,
    },
}

/// An illegal value of a vector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Invalid {
    /// Row and field, such as `mrs[3].len`.
    pub place: String,
    /// The value, and what is legal.
    pub what: String,
}

impl Invalid {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

/// A vector file.
#[derive(Clone, Debug, Deserialize)]
pub struct Vector {
    format: String,
    /// Name.
    pub name: String,
    /// Version of the kernel whose driver built the tables.
    pub kernel: String,
    caps: Caps,
    /// Context tables by name, as the hardware knows them.
    pub hem: Hem,
    /// Regions.
    pub mrs: Vec<Region>,
    /// Bytes and their translation.
    pub xlate: Vec<Translation>,
    /// Access checks.
    pub bad: Vec<AccessCheck>,
    /// Context lookups.
    pub ctx: Vec<ContextLookup>,
    /// Queue buffers.
    pub mtrs: Vec<QueueBuffer>,
    /// Backed memory.
    pub image: Vec<MemoryRegion>,
    /// Rows whose literal reading differs from what the driver meant.
    pub known_mismatch: Vec<Mismatch>,
    /// log2 of the number of MPT entries.
    #[serde(skip)]
    pub num_mpts_log2: u8,
}

/// Capability values of the driver; only one is needed.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Caps {
    num_mtpts: u64,
}

/// The context tables that vectors have.
#[derive(Clone, Debug, Deserialize)]
pub struct Hem {
    qpc: Option<ContextTable>,
    mpt: Option<ContextTable>,
    cqc: Option<ContextTable>,
    srqc: Option<ContextTable>,
    sccc: Option<ContextTable>,
}

impl Hem {
    /// The tables that are there.
    pub fn tables(&self) -> impl Iterator<Item = (Table, &ContextTable)> {
        let all = [
            (Table::Qpc, &self.qpc),
            (Table::Mpt, &self.mpt),
            (Table::Cqc, &self.cqc),
            (Table::Srqc, &self.srqc),
            (Table::Sccc, &self.sccc),
        ];
        all.into_iter().filter_map(|(table, entry)| Some((table, entry.as_ref()?)))
    }
}

/// What the hardware knows of a context table.
#[derive(Clone, Debug, Deserialize)]
pub struct ContextTable {
    /// Hops.
    pub hop: u32,
    /// Size of a BA page: log2(bytes) - 12.
    pub ba_pg_sz: u32,
    /// Size of a chunk: log2(bytes) - 12.
    pub buf_pg_sz: u32,
    /// Bytes of an entry.
    pub entry_size: u32,
    /// Number of BT0 slots.
    pub bt_num: u32,
    /// BT0 bases by slot.
    pub bt0: Slots,
}

/// Kind of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionKind {
    /// Registered memory.
    Mr,
    /// Fast-registered memory.
    Frmr,
    /// Memory window.
    Mw,
    /// All of memory, without translation.
    Dma,
}

/// A region, live or not.
#[derive(Clone, Debug, Deserialize)]
pub struct Region {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: RegionKind,
    /// Whether it may be used.
    pub live: bool,
    /// Its key, if it ever had one.
    pub key: Option<Hex32>,
    /// Protection domain.
    pub pd: u32,
    /// First virtual address.
    pub va: Option<Hex>,
    /// Bytes.
    pub len: Option<u64>,
    mtr: Option<PageTable>,
    sg: Option<PageList>,
    sg_offset: Option<u64>,
}

/// What the driver says of a region's page table.
#[derive(Clone, Copy, Debug, Deserialize)]
struct PageTable {
    buf_pg_shift: u32,
}

/// Memory that a live region of kind MR or FRMR gives access to.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    /// First virtual address.
    pub va: u64,
    /// Bytes, at least 1.
    pub length_bytes: u64,
    /// log2 of the page size.
    pub page_shift: u32,
    /// The pages' whereabouts.
    pub list: &'a PageList,
    /// Position in the list of the region's first byte.
    pub list_offset: u64,
}

impl Region {
    /// The pages of a live MR or FRMR with at least one byte.
    #[must_use]
    pub fn pages(&self) -> Option<Pages<'_>> {
        if !self.live || !matches!(self.kind, RegionKind::Mr | RegionKind::Frmr) {
            return None;
        }
        let pages = Pages {
            va: self.va?.0,
            length_bytes: self.len?,
            page_shift: self.mtr?.buf_pg_shift,
            list: self.sg.as_ref()?,
            list_offset: self.sg_offset?,
        };
        (pages.length_bytes > 0).then_some(pages)
    }
}

/// A byte and its translation.
#[derive(Clone, Debug, Deserialize)]
pub struct Translation {
    /// Name of the region.
    pub mr: String,
    /// Key.
    pub key: Hex32,
    /// Protection domain.
    pub pd: u32,
    /// Virtual address.
    pub va: Hex,
    /// Bus address.
    pub pa: Hex,
}

/// An access and whether it is allowed.
#[derive(Clone, Debug, Deserialize)]
pub struct AccessCheck {
    /// Name of the region, if there is one.
    pub mr: Option<String>,
    /// Key.
    pub key: Hex32,
    /// Protection domain.
    pub pd: u32,
    /// First virtual address.
    pub va: Hex,
    /// Bytes.
    pub len: u32,
    /// Operation.
    #[serde(deserialize_with = "crate::number::operation")]
    pub op: Operation,
    /// The first check that fails.
    pub reason: Reason,
    /// What the wire may know.
    pub expect: Verdict,
}

/// The first check that an access fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// None.
    Ok,
    /// There is no MPT entry.
    NoMpt,
    /// The entry is not valid.
    State,
    /// The entry has another key.
    Key,
    /// The entry belongs to another protection domain.
    Pd,
    /// The right is not granted.
    Access,
    /// Outside of the region.
    Bounds,
}

impl Reason {
    /// Name as in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoMpt => "no_mpt",
            Self::State => "state",
            Self::Key => "key",
            Self::Pd => "pd",
            Self::Access => "access",
            Self::Bounds => "bounds",
        }
    }

    /// The statuses that report it. An entry that is not there shows itself where the walk ends: at an unset slot or
    /// zero pointer, at memory that is not backed, or at an entry that was never written.
    #[must_use]
    pub const fn statuses(self) -> &'static [Status] {
        match self {
            Self::Ok => &[Status::Ok],
            Self::NoMpt => &[Status::Bt0Unset, Status::HemPointerZero, Status::HemBusError, Status::EntryState],
            Self::State => &[Status::EntryState],
            Self::Key => &[Status::EntryKey],
            Self::Pd => &[Status::ProtectionDomain],
            Self::Access => &[Status::AccessRight],
            Self::Bounds => &[Status::Bounds],
        }
    }
}

/// What the wire may know of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Success.
    Ok,
    /// Remote access error.
    RemoteAccessError,
    /// Local protection error.
    LocalProtectionError,
}

impl Verdict {
    /// The class on the response port.
    #[must_use]
    pub const fn wire_class(self) -> WireClass {
        match self {
            Self::Ok => WireClass::None,
            Self::RemoteAccessError => WireClass::RemoteAccessError,
            Self::LocalProtectionError => WireClass::LocalProtectionError,
        }
    }
}

/// A context entry and its address.
#[derive(Clone, Debug, Deserialize)]
pub struct ContextLookup {
    /// Table.
    #[serde(deserialize_with = "crate::number::table")]
    pub table: Table,
    /// Object number.
    pub obj: u32,
    /// Bus address.
    pub pa: Hex,
}

impl ContextLookup {
    /// The 8 bytes at the entry, as a little-endian number.
    #[must_use]
    pub fn marker(&self) -> u64 {
        0xC0DE_0000_0000_0000 | u64::from(self.table.code()) << 40 | u64::from(self.obj)
    }
}

/// A queue buffer and some of its pages.
#[derive(Clone, Debug, Deserialize)]
pub struct QueueBuffer {
    /// Name.
    pub name: String,
    root_ba: Hex,
    is_direct: u32,
    ba_pg_shift: u32,
    buf_pg_shift: u32,
    regions: Vec<QueueRegion>,
    /// Region, page within it, and the page's bus address.
    pub expect: Vec<(usize, u32, Hex)>,
}

/// A region of a queue buffer.
#[derive(Clone, Copy, Debug, Deserialize)]
struct QueueRegion {
    offset: u64,
    count: u32,
    hop: u32,
}

/// How to walk a region of a queue buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWalk {
    /// Bus address of the root.
    pub root: u64,
    /// Hops.
    pub hop: u8,
    /// Size of a lower table: log2(bytes) - 12.
    pub ba_pg_sz: u8,
    /// Page size: log2(bytes) - 12.
    pub buf_pg_sz: u8,
    /// Pages.
    pub count: u32,
}

impl QueueBuffer {
    /// How to walk each region. The regions' roots share a page, each as large as it needs to be (contract section 4);
    /// a direct buffer has no tables, and its regions follow each other page by page.
    fn walks(&self) -> Result<Vec<QueueWalk>, Invalid> {
        let size = |field: &str, shift: u32| match shift.checked_sub(PAGE_SHIFT_MIN) {
            Some(size) if size <= PAGE_SIZE_FIELD_MAX => Ok(size as u8),
            _ => Err(Invalid::new(field, format!("{shift} is no page shift, legal is 12 to 27"))),
        };
        let ba_pg_sz = size("ba_pg_shift", self.ba_pg_shift)?;
        let buf_pg_sz = size("buf_pg_shift", self.buf_pg_shift)?;
        let is_direct = match self.is_direct {
            0 => false,
            1 => true,
            other => return Err(Invalid::new("is_direct", format!("{other}, legal is 0 or 1"))),
        };
        let entries_log2 = self.ba_pg_shift - 3;
        let mut root_entries = 0_u64;
        let mut walks = Vec::new();
        for (position, region) in self.regions.iter().enumerate() {
            let invalid = |field: &str, what: String| Invalid::new(format!("regions[{position}].{field}"), what);
            if region.hop > HOP_MAX {
                return Err(invalid("hop", format!("{}, legal is 0 to {HOP_MAX}", region.hop)));
            }
            // A region without pages has no table, whatever the buffer.
            if region.count > 0 && is_direct != (region.hop == 0) {
                return Err(invalid("hop", format!("{}, but is_direct is {}", region.hop, self.is_direct)));
            }
            let overflow = || invalid("offset", format!("{}: the region lies beyond 2^64", region.offset));
            let distance_bytes = if is_direct {
                region.offset.checked_mul(1 << self.buf_pg_shift).ok_or_else(overflow)?
            } else {
                8 * root_entries
            };
            walks.push(QueueWalk {
                root: self.root_ba.0.checked_add(distance_bytes).ok_or_else(overflow)?,
                hop: region.hop as u8,
                ba_pg_sz,
                buf_pg_sz,
                count: region.count,
            });
            if !is_direct && region.count > 0 {
                // A root of h hops covers n^(h-1) pages with each entry; beyond 2^64 it is one entry.
                let covered = 1_u64.checked_shl(entries_log2 * (region.hop - 1));
                root_entries += covered.map_or(region.count.min(1).into(), |n| u64::from(region.count).div_ceil(n));
            }
        }
        Ok(walks)
    }

    /// How to walk a region; `None` where there is no such region.
    #[must_use]
    pub fn walk(&self, region: usize) -> Option<QueueWalk> {
        self.walks().ok()?.get(region).copied()
    }

    /// Number of regions.
    #[must_use]
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }
}

/// A run of backed memory. Bytes that are not listed are 0.
#[derive(Clone, Debug, Deserialize)]
pub struct MemoryRegion {
    /// First bus address.
    pub addr: Hex,
    /// Bytes.
    pub size: u64,
    /// Offset and bytes as hexadecimal digits.
    pub data: Vec<(u64, String)>,
}

/// A row whose literal reading, which is what hardware returns, differs from what the driver meant.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum Mismatch {
    /// A byte is somewhere else, or its table cannot be read.
    Xlate {
        /// The row.
        entry: Translation,
        /// The literal reading.
        walker: Walker,
    },
    /// The access of an `xlate` row is refused.
    Check {
        /// The row.
        entry: Translation,
        /// The first check that fails.
        walker: Reason,
    },
    /// The access of a `bad` row has another outcome.
    Bad {
        /// The row.
        entry: AccessCheck,
        /// The first check that fails.
        walker: Reason,
    },
    /// The copies of page addresses in an MPT entry, which the engine does not use.
    Inner {},
}

impl Mismatch {
    /// Name of the region, where the row concerns one.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        match self {
            Self::Xlate { entry, .. } | Self::Check { entry, .. } => Some(&entry.mr),
            Self::Bad { entry, .. } => entry.mr.as_deref(),
            Self::Inner {} => None,
        }
    }
}

/// Literal reading of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walker {
    /// The byte is at this bus address.
    Address(u64),
    /// The table at this bus address cannot be read.
    Unmapped(u64),
}

impl Vector {
    /// Reads and checks a file, compressed or not.
    ///
    /// # Errors
    /// What is wrong, with file, row and field.
    pub fn load(path: &Path) -> Result<Self, VectorError> {
        Self::read(path, open(path)?)
    }

    /// Reads and checks the bytes of a file, compressed or not; `path` is for messages.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn read(path: &Path, file: impl Read) -> Result<Self, VectorError> {
        let mut vector: Self = parse(path, &read(path, file)?)?;
        vector.check().map_err(|invalid| VectorError::Invalid { path: path.into(), invalid })?;
        Ok(vector)
    }

    /// Checks everything that types do not.
    fn check(&mut self) -> Result<(), Invalid> {
        if self.format != FORMAT {
            return Err(Invalid::new("format", format!("`{}`, legal is `{FORMAT}`", self.format)));
        }
        let num_mpts = self.caps.num_mtpts;
        if !num_mpts.is_power_of_two() || num_mpts.ilog2() > NUM_MPTS_LOG2_MAX {
            let legal = format!("{num_mpts}, legal is a power of two up to 2^{NUM_MPTS_LOG2_MAX}");
            return Err(Invalid::new("caps.num_mtpts", legal));
        }
        self.num_mpts_log2 = num_mpts.ilog2() as u8;
        for (table, entry) in self.hem.tables() {
            entry.check(&format!("hem.{}", table.name()), table)?;
        }
        self.check_regions()?;
        let check_pd = |list: &str, position: usize, pd: u32| {
            let what = || format!("{pd} has more than 24 bits");
            if pd > PD_MAX { Err(Invalid::new(format!("{list}[{position}].pd"), what())) } else { Ok(()) }
        };
        for (position, row) in self.xlate.iter().enumerate() {
            check_pd("xlate", position, row.pd)?;
        }
        for (position, row) in self.bad.iter().enumerate() {
            check_pd("bad", position, row.pd)?;
        }
        for (position, buffer) in self.mtrs.iter().enumerate() {
            let place = format!("mtrs[{position}]");
            let walks = buffer.walks().map_err(|inner| Invalid::new(format!("{place}.{}", inner.place), inner.what))?;
            for (row, (region, ..)) in buffer.expect.iter().enumerate() {
                if *region >= walks.len() {
                    let what = format!("region {region}, but there are {}", walks.len());
                    return Err(Invalid::new(format!("{place}.expect[{row}]"), what));
                }
            }
        }
        for (position, region) in self.image.iter().enumerate() {
            region.check(&format!("image[{position}]"))?;
        }
        Ok(())
    }

    fn check_regions(&self) -> Result<(), Invalid> {
        let mut keys = HashMap::new();
        for (position, region) in self.mrs.iter().enumerate().filter(|(_, region)| region.live) {
            region.check(&format!("mrs[{position}]"))?;
            let Some(key) = region.key else { continue };
            if let Some(other) = keys.insert(key.0, position) {
                let what = format!("{:#010x} is the key of mrs[{other}] as well, and both are live", key.0);
                return Err(Invalid::new(format!("mrs[{position}].key"), what));
            }
        }
        Ok(())
    }
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<File, VectorError> {
    File::open(path).map_err(|source| VectorError::Read { path: path.into(), source })
}

/// Reads a file, compressed or not.
pub(crate) fn read(path: &Path, mut file: impl Read) -> Result<Vec<u8>, VectorError> {
    let read_error = |source| VectorError::Read { path: path.into(), source };
    let mut magic = Vec::new();
    (&mut file).take(2).read_to_end(&mut magic).map_err(read_error)?;
    let is_compressed = magic == [0x1f, 0x8b];
    let whole = io::Cursor::new(magic).chain(file);
    let source: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    let mut text = Vec::new();
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(read_error)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(VectorError::TooLarge { path: path.into() });
    }
    Ok(text)
}

/// What a JSON text says.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, VectorError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let place = match error.path().to_string() {
            top if top == "." => "top level".into(),
            place => place,
        };
        VectorError::Json { path: path.into(), place, what: error.into_inner().to_string() }
    })?;
    deserializer.end().map_err(|error| VectorError::Json {
        path: path.into(),
        place: "end of file".into(),
        what: error.to_string(),
    })?;
    Ok(value)
}

impl ContextTable {
    fn check(&self, place: &str, table: Table) -> Result<(), Invalid> {
        let limit = |field: &str, value: u32, min: u32, max: u32| {
            let what = || format!("{value}, legal is {min} to {max}");
            let is_legal = (min..=max).contains(&value);
            if is_legal { Ok(()) } else { Err(Invalid::new(format!("{place}.{field}"), what())) }
        };
        limit("hop", self.hop, 0, HOP_MAX)?;
        limit("ba_pg_sz", self.ba_pg_sz, 0, PAGE_SIZE_FIELD_MAX)?;
        limit("buf_pg_sz", self.buf_pg_sz, 0, PAGE_SIZE_FIELD_MAX)?;
        limit("bt_num", self.bt_num, 1, BT_NUM_MAX)?;
        let is_legal = self.entry_size.is_power_of_two()
            && ENTRY_BYTES_LOG2.contains(&self.entry_size.ilog2())
            && (table != Table::Mpt || u64::from(self.entry_size) == keywalk_contract::mpt_entry::ENTRY_BYTES);
        if !is_legal {
            let legal = if table == Table::Mpt { "64" } else { "a power of two from 32 to 4096" };
            return Err(Invalid::new(format!("{place}.entry_size"), format!("{}, legal is {legal}", self.entry_size)));
        }
        for (slot, _) in &self.bt0.0 {
            if *slot >= self.bt_num {
                let what = format!("slot {slot}, but bt_num is {}", self.bt_num);
                return Err(Invalid::new(format!("{place}.bt0"), what));
            }
        }
        Ok(())
    }
}

impl Region {
    /// Checks what is used of a live region.
    fn check(&self, place: &str) -> Result<(), Invalid> {
        let invalid = |field: &str, what: String| Err(Invalid::new(format!("{place}.{field}"), what));
        if self.pd > PD_MAX {
            return invalid("pd", format!("{} has more than 24 bits", self.pd));
        }
        if self.key.is_none() {
            return invalid("key", "missing, but the region is live".into());
        }
        if !matches!(self.kind, RegionKind::Mr | RegionKind::Frmr) {
            return Ok(());
        }
        let missing = [
            ("va", self.va.is_none()),
            ("len", self.len.is_none()),
            ("mtr", self.mtr.is_none()),
            ("sg", self.sg.is_none()),
            ("sg_offset", self.sg_offset.is_none()),
        ];
        if let Some((field, _)) = missing.iter().find(|(_, is_missing)| *is_missing) {
            return invalid(field, "missing, but the region is live".into());
        }
        let Some(pages) = self.pages() else {
            return Ok(());
        };
        if !(PAGE_SHIFT_MIN..=PAGE_SHIFT_MIN + PAGE_SIZE_FIELD_MAX).contains(&pages.page_shift) {
            return invalid("mtr.buf_pg_shift", format!("{}, legal is 12 to 27", pages.page_shift));
        }
        if pages.va.checked_add(pages.length_bytes - 1).is_none() {
            return invalid("len", format!("{}: the region ends beyond 2^64", pages.length_bytes));
        }
        if let Err(what) = pages.list.check() {
            return invalid("sg", what);
        }
        let end = u128::from(pages.list_offset) + u128::from(pages.length_bytes);
        if end > pages.list.length_bytes() {
            let held = pages.list.length_bytes();
            return invalid("sg", format!("holds {held} bytes, but sg_offset + len is {end}"));
        }
        Ok(())
    }
}

impl MemoryRegion {
    fn check(&self, place: &str) -> Result<(), Invalid> {
        let invalid = |field: String, what: String| Err(Invalid::new(format!("{place}.{field}"), what));
        if !self.addr.0.is_multiple_of(PAGE_BYTES) {
            return invalid("addr".into(), format!("{:#x} is no multiple of {PAGE_BYTES}", self.addr.0));
        }
        if !self.size.is_multiple_of(PAGE_BYTES) || self.size == 0 {
            return invalid("size".into(), format!("{}, legal is a multiple of {PAGE_BYTES} above 0", self.size));
        }
        if self.addr.0.checked_add(self.size - 1).is_none() {
            return invalid("size".into(), format!("{}: the region ends beyond 2^64", self.size));
        }
        for (position, (offset, digits)) in self.data.iter().enumerate() {
            let field = format!("data[{position}]");
            let is_hex = digits.len().is_multiple_of(2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !is_hex {
                return invalid(field, "no string of pairs of hexadecimal digits".into());
            }
            let end = offset.checked_add(digits.len() as u64 / 2);
            if end.is_none_or(|end| end > self.size) {
                return invalid(field, format!("bytes from offset {offset} on end beyond size {}", self.size));
            }
        }
        Ok(())
    }

    /// The bytes that are listed, with their bus addresses.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
        self.data.iter().map(move |(offset, digits)| {
            let (pairs, _) = digits.as_bytes().as_chunks::<2>();
            (self.addr.0 + offset, pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect())
        })
    }
}
