//! Context tables reached through the HEM, 0 to 3 hops (contract section 3).

use keywalk_contract::hem::{
    BA_ENTRY_BYTES_LOG2, BT_NUM_MAX, ENTRY_BYTES_LOG2, HOP_MAX, PAGE_SHIFT_MIN, PAGE_SIZE_FIELD_MAX,
};
use keywalk_contract::key::NUM_MPTS_LOG2_MAX;
use keywalk_contract::mtr::PAGE_SHIFT_BASE_MAX;
use keywalk_contract::{Status, Table, mpt_entry};

use crate::memory::read_entry;
use crate::trace::{TableRead, require};
use crate::{Controls, Failure, Memory, Observer};

/// Shape of a context table, as software writes it to the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Hops, 0 to 3: number of pointer reads before the chunk is known.
    pub hop: u8,
    /// Size of a BA page: log2(bytes) - 12, 0 to 15.
    pub ba_pg_sz: u8,
    /// Size of a chunk: log2(bytes) - 12, 0 to 15.
    pub buf_pg_sz: u8,
    /// log2 of an entry's bytes, 5 to 12; 6 for the MPT.
    pub entry_bytes_log2: u8,
    /// BT0 slots, 1 to 1024; the level-0 index is taken modulo it.
    pub bt_num: u32,
    /// Objects; an index at or above it fails. 0: unchecked.
    pub object_count: u32,
}

impl Default for Geometry {
    /// The geometry after reset.
    fn default() -> Self {
        Self { hop: 0, ba_pg_sz: 0, buf_pg_sz: 0, entry_bytes_log2: 6, bt_num: 1, object_count: 0 }
    }
}

/// log2 of the bytes of a page-size field that counts from 4 KiB. The field is cut to its width of 4 bits.
pub(crate) fn page_bytes_log2(field: u8) -> u32 {
    PAGE_SHIFT_MIN + (u32::from(field) & PAGE_SIZE_FIELD_MAX)
}

/// A number of hops, cut to its width of 2 bits.
pub(crate) fn hops(field: u8) -> u8 {
    field & HOP_MAX as u8
}

impl Geometry {
    fn ba_page_entries_log2(self) -> u32 {
        page_bytes_log2(self.ba_pg_sz) - BA_ENTRY_BYTES_LOG2
    }

    pub(crate) fn entry_bytes_log2(self) -> u32 {
        // The register's field has 4 bits.
        u32::from(self.entry_bytes_log2) & 0xf
    }

    fn objects_per_chunk_log2(self) -> u32 {
        page_bytes_log2(self.buf_pg_sz).saturating_sub(self.entry_bytes_log2())
    }

    /// Index into level `level` (0: the BT0 slots, before the modulo) of the chunk that holds object `index`.
    pub(crate) fn level_index(self, index: u32, level: u8) -> u64 {
        let chunk = u64::from(index) >> self.objects_per_chunk_log2();
        let entries_log2 = self.ba_page_entries_log2();
        let levels_below = u32::from(hops(self.hop) - level);
        let number = chunk.checked_shr(entries_log2 * levels_below).unwrap_or(0);
        if level == 0 { number } else { number & ((1 << entries_log2) - 1) }
    }

    /// Byte offset of object `index` within its chunk.
    fn offset_bytes(self, index: u32) -> u64 {
        let position = u64::from(index) & ((1 << self.objects_per_chunk_log2()) - 1);
        position << self.entry_bytes_log2()
    }
}

/// A context table of one table set: its shape and its BT0 bases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextTable {
    /// Shape.
    pub geometry: Geometry,
    /// BT0 base by slot; `None` and slots past the end are unset.
    pub bt0: Vec<Option<u64>>,
}

impl ContextTable {
    /// Sets or clears a BT0 slot.
    pub fn set_bt0(&mut self, slot: u32, base: Option<u64>) {
        let slot = slot as usize;
        if self.bt0.len() <= slot {
            self.bt0.resize(slot + 1, None);
        }
        self.bt0[slot] = base;
    }
}

/// A table set: context tables, key space and page unit of the functions that are mapped to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSet {
    /// The context tables by code.
    pub tables: [ContextTable; Table::ALL.len()],
    /// log2 of the number of MPT entries, 0 to 24.
    pub num_mpts_log2: u8,
    /// Page shift of page-size field 0 of page tables, 12 to 15.
    pub page_shift_base: u8,
}

impl Default for TableSet {
    /// The table set after reset: nothing is reachable.
    fn default() -> Self {
        Self {
            tables: std::array::from_fn(|_| ContextTable::default()),
            num_mpts_log2: NUM_MPTS_LOG2_MAX as u8,
            page_shift_base: PAGE_SHIFT_MIN as u8,
        }
    }
}

impl TableSet {
    /// Number of MPT entries.
    pub(crate) fn num_mpts(&self) -> u32 {
        1 << u32::from(self.num_mpts_log2).min(NUM_MPTS_LOG2_MAX)
    }

    /// A context table.
    #[must_use]
    pub fn table(&self, table: Table) -> &ContextTable {
        &self.tables[usize::from(table.code())]
    }

    /// A context table, to be configured.
    pub fn table_mut(&mut self, table: Table) -> &mut ContextTable {
        &mut self.tables[usize::from(table.code())]
    }

    /// Checks every number against its legal range. The model answers for an illegal table set as well, cutting numbers
    /// to the width of their register field, but what it answers then means nothing.
    ///
    /// # Errors
    /// The first number that is illegal, with its value and what is legal.
    pub fn validate(&self) -> Result<(), TableSetError> {
        let error = |place: String, value: u32, min: u32, max: u32| {
            let legal = min..=max;
            if legal.contains(&value) { Ok(()) } else { Err(TableSetError { place, value, legal }) }
        };
        error("num_mpts_log2".into(), self.num_mpts_log2.into(), 0, NUM_MPTS_LOG2_MAX)?;
        error("page_shift_base".into(), self.page_shift_base.into(), PAGE_SHIFT_MIN, PAGE_SHIFT_BASE_MAX)?;
        for table in Table::ALL {
            let geometry = self.table(table).geometry;
            let place = |field: &str| format!("{}.{field}", table.name());
            let (entry_min, entry_max) = match table {
                Table::Mpt => (mpt_entry::ENTRY_BYTES.ilog2(), mpt_entry::ENTRY_BYTES.ilog2()),
                _ => (*ENTRY_BYTES_LOG2.start(), *ENTRY_BYTES_LOG2.end()),
            };
            error(place("hop"), geometry.hop.into(), 0, HOP_MAX)?;
            error(place("ba_pg_sz"), geometry.ba_pg_sz.into(), 0, PAGE_SIZE_FIELD_MAX)?;
            error(place("buf_pg_sz"), geometry.buf_pg_sz.into(), 0, PAGE_SIZE_FIELD_MAX)?;
            error(place("entry_bytes_log2"), geometry.entry_bytes_log2.into(), entry_min, entry_max)?;
            error(place("bt_num"), geometry.bt_num, 1, BT_NUM_MAX)?;
        }
        Ok(())
    }
}

/// An illegal number in a table set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` of the table set is {value}, legal is {}..={}", legal.start(), legal.end())]
pub struct TableSetError {
    /// The number, with its table where it belongs to one.
    pub place: String,
    /// Its value.
    pub value: u32,
    /// What is legal.
    pub legal: std::ops::RangeInclusive<u32>,
}

/// Whether the object itself will be read, which is what an MPT lookup does and a context lookup does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    ReadEntry,
    AddressOnly,
}

/// Finds the bus address of object `index` of a context table.
#[inline]
pub(crate) fn locate(
    memory: &impl Memory,
    controls: &Controls,
    table: Table,
    context: &ContextTable,
    index: u32,
    purpose: Purpose,
    observer: &mut impl Observer,
) -> Result<u64, Failure> {
    let geometry = context.geometry;
    let failure = |status, hop| Failure { status, table: table.code(), hop };

    let count = geometry.object_count;
    let in_range = count == 0 || index < count;
    require(observer, in_range, failure(Status::IndexOutOfRange, 0), || {
        format!("index {index} against object_count {count} (0: unchecked)")
    })?;

    let level0 = geometry.level_index(index, 0);
    let slot = level0.checked_rem(geometry.bt_num.into()).unwrap_or(0);
    let base = context.bt0.get(slot as usize).copied().flatten();
    let mut pointer = base.unwrap_or(0);
    require(observer, pointer != 0, failure(Status::Bt0Unset, 0), || {
        let bt_num = geometry.bt_num;
        let base = base.map_or("unset".into(), |base| format!("{base:#x}"));
        format!("level-0 index {level0} modulo bt_num {bt_num}: slot {slot} is {base}")
    })?;

    // `pointer` is what read number `hop` uses: a BA page while hops are left, then the chunk.
    let hops = hops(geometry.hop);
    for hop in 0..=hops {
        let is_chunk = hop == hops;
        if hop > 0 {
            require(observer, pointer != 0, failure(Status::HemPointerZero, hop), || format!("pointer {pointer:#x}"))?;
        }
        let alignment = match (controls.alignment_check, is_chunk, purpose) {
            (true, _, _) => 1 << PAGE_SHIFT_MIN,
            (false, false, _) => 1 << BA_ENTRY_BYTES_LOG2,
            (false, true, Purpose::ReadEntry) => mpt_entry::ENTRY_BYTES,
            (false, true, Purpose::AddressOnly) => 1,
        };
        let is_aligned = pointer.is_multiple_of(alignment);
        require(observer, is_aligned, failure(Status::HemMisaligned, hop), || {
            format!("pointer {pointer:#x} against alignment {alignment}")
        })?;
        if !is_chunk {
            let address = pointer.wrapping_add(geometry.level_index(index, hop + 1) << BA_ENTRY_BYTES_LOG2);
            let value = read_entry(memory, address);
            observer.read(TableRead { table: table.code(), hop, address, bytes: 8, value });
            pointer = value.map_err(|_| failure(Status::HemBusError, hop))?;
        }
    }
    Ok(pointer.wrapping_add(geometry.offset_bytes(index)))
}
