//! Builds page tables (contract section 4).

use keywalk_contract::hem::BA_ENTRY_BYTES_LOG2;
use keywalk_contract::mtr::HOP_MAX;

use crate::placement::Placement;
use crate::{BuildError, PAGE_BYTES, Pages, Problem};

/// Shape of a page table.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub hop: u8,
    pub ba_pg_sz: u8,
}

impl Shape {
    fn table_bytes(self) -> u64 {
        PAGE_BYTES << self.ba_pg_sz
    }

    /// Entries of a lower table, and most entries of a root.
    pub fn entries(self) -> u64 {
        self.table_bytes() >> BA_ENTRY_BYTES_LOG2
    }

    /// Pages that the table holds.
    fn capacity(self) -> u128 {
        u128::from(self.entries()).pow(self.hop.into())
    }

    /// Refuses a table with too few levels.
    pub fn check(self, count: u64) -> Result<(), Problem> {
        if u128::from(count) <= self.capacity() {
            return Ok(());
        }
        Err(Problem::HopTooSmall { count, hop: self.hop, entries: self.entries(), capacity: self.capacity() })
    }

    /// The shape with the fewest levels that holds `count` pages, `hop_min` or more.
    pub fn smallest(count: u64, ba_pg_sz: u8, hop_min: u8) -> Result<Self, Problem> {
        let mut shape = Self { hop: hop_min, ba_pg_sz };
        while u32::from(shape.hop) < HOP_MAX && shape.check(count).is_err() {
            shape.hop += 1;
        }
        shape.check(count)?;
        Ok(shape)
    }

    /// Entries of the root: ceil(count / n^(hop-1)). For tables of one level or more.
    pub fn root_entries(self, count: u64) -> u64 {
        let pages_per_entry = u128::from(self.entries()).pow(u32::from(self.hop) - 1);
        u128::from(count).div_ceil(pages_per_entry) as u64
    }
}

/// Builds the lower levels of a page table of one level or more, and gives the entries of its root.
pub(crate) fn root_entries(placement: &mut Placement, pages: &Pages, shape: Shape) -> Result<Vec<u64>, BuildError> {
    placement.count_page_entries(pages.count())?;
    if shape.hop == 1 {
        return Ok((0..pages.count()).map(|index| pages.address(index)).collect());
    }
    let mut level = lower_tables(placement, pages.count(), shape, |index| pages.address(index))?;
    for _ in 2..shape.hop {
        level = lower_tables(placement, level.len() as u64, shape, |index| level[index as usize])?;
    }
    Ok(level)
}

/// Writes `count` entries into full, aligned tables, and gives the tables' addresses.
fn lower_tables(
    placement: &mut Placement,
    count: u64,
    shape: Shape,
    entry: impl Fn(u64) -> u64,
) -> Result<Vec<u64>, BuildError> {
    let mut tables = Vec::new();
    for first in (0..count).step_by(shape.entries() as usize) {
        let table = placement.place(shape.table_bytes(), shape.table_bytes())?;
        let end = count.min(first + shape.entries());
        placement.write_all(table, (first..end).map(&entry))?;
        tables.push(table);
    }
    Ok(tables)
}
