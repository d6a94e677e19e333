//! Page tables (MTR, PBL), 1 to 3 hops (contract section 4). Hop 0 has no table: who walks knows what it means there.

use keywalk_contract::Status;
use keywalk_contract::hem::{BA_ENTRY_BYTES_LOG2, TABLE_CODE_MTR};

use crate::hem::{hops, page_bytes_log2};
use crate::memory::read_entry;
use crate::trace::{TableRead, require};
use crate::{Controls, Failure, Memory, Observer};

/// A failure of a page-table walk.
pub(crate) fn failure(status: Status, hop: u8) -> Failure {
    Failure { status, table: TABLE_CODE_MTR, hop }
}

/// A page table with at least one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageTable {
    /// Bus address of the first entry, aligned to 8 bytes.
    pub root: u64,
    /// Levels, 0 to 3.
    pub hops: u8,
    /// Size of a lower table: log2(bytes) - 12.
    pub ba_pg_sz: u8,
}

impl PageTable {
    /// Refuses a root of zero, unless zero is to be taken literally.
    #[inline]
    pub fn check_root(&self, controls: &Controls, observer: &mut impl Observer) -> Result<(), Failure> {
        let root = self.root;
        let is_present = root != 0 || controls.zero_entry_literal;
        require(observer, is_present, failure(Status::MtrNotPresent, 0), || format!("root {root:#x}"))
    }

    /// The leaf of page `index`: the root itself where there are no levels.
    #[inline]
    pub fn leaf(
        &self,
        memory: &impl Memory,
        controls: &Controls,
        index: u64,
        observer: &mut impl Observer,
    ) -> Result<u64, Failure> {
        let table_bytes_log2 = page_bytes_log2(self.ba_pg_sz);
        let entries_log2 = table_bytes_log2 - BA_ENTRY_BYTES_LOG2;
        let alignment = if controls.alignment_check { 1 << table_bytes_log2 } else { 1 << BA_ENTRY_BYTES_LOG2 };

        let mut pointer = self.root;
        let hops = hops(self.hops);
        for hop in 0..hops {
            let levels_below = u32::from(hops - 1 - hop);
            let number = index.checked_shr(entries_log2 * levels_below).unwrap_or(0);
            // The root is as large as it needs to be, so that its index is not cut to a page's worth.
            let position = if hop == 0 { number } else { number & ((1 << entries_log2) - 1) };
            if hop > 0 {
                let is_aligned = pointer.is_multiple_of(alignment);
                require(observer, is_aligned, failure(Status::MtrMisaligned, hop), || {
                    format!("table {pointer:#x} against alignment {alignment}")
                })?;
            }
            let address = pointer.wrapping_add(position << BA_ENTRY_BYTES_LOG2);
            let value = read_entry(memory, address);
            observer.read(TableRead { table: TABLE_CODE_MTR, hop, address, bytes: 8, value });
            pointer = value.map_err(|_| failure(Status::MtrBusError, hop))?;
            let is_present = pointer != 0 || controls.zero_entry_literal;
            require(observer, is_present, failure(Status::MtrNotPresent, hop), || format!("entry {pointer:#x}"))?;
        }
        Ok(pointer)
    }
}
