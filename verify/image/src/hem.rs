//! Builds context tables (contract section 3).

use std::collections::{BTreeMap, HashMap};

use keywalk_contract::hem::{
    BA_ENTRY_BYTES_LOG2, BT_NUM_MAX, ENTRY_BYTES_LOG2, HOP_MAX, PAGE_SHIFT_MIN, PAGE_SIZE_FIELD_MAX,
};
use keywalk_contract::{Table, mpt_entry};

use crate::placement::Placement;
use crate::{BuildError, BuiltTable, PAGE_BYTES, TableDescription, check};

/// A context table under construction.
pub(crate) struct ContextTable {
    table: Table,
    built: BuiltTable,
    /// BA pages and chunks that exist, by level and the number of the first chunk below them.
    pages: HashMap<(u8, u64), u64>,
}

impl ContextTable {
    /// Checks the shape of a table.
    pub fn new(table_set: usize, description: &TableDescription) -> Result<Self, BuildError> {
        let table = description.table;
        let place = |field: &str| format!("{field} of table {} of table set {table_set}", table.name());
        let page_size_max = u64::from(PAGE_SIZE_FIELD_MAX);
        check::number(place("hop"), description.hop.into(), 0..=HOP_MAX.into())?;
        check::number(place("ba_pg_sz"), description.ba_pg_sz.into(), 0..=page_size_max)?;
        check::number(place("buf_pg_sz"), description.buf_pg_sz.into(), 0..=page_size_max)?;
        check::number(place("bt_num"), description.bt_num.into(), 1..=BT_NUM_MAX.into())?;
        let entry_bytes = u64::from(description.entry_bytes);
        let legal = match table {
            Table::Mpt => mpt_entry::ENTRY_BYTES..=mpt_entry::ENTRY_BYTES,
            _ => 1 << ENTRY_BYTES_LOG2.start()..=1 << ENTRY_BYTES_LOG2.end(),
        };
        check::number(place("entry_bytes"), entry_bytes, legal)?;
        let entry_bytes_log2 = check::log2(place("entry_bytes"), entry_bytes)?;
        let built = BuiltTable {
            hop: description.hop,
            ba_pg_sz: description.ba_pg_sz,
            buf_pg_sz: description.buf_pg_sz,
            entry_bytes_log2: entry_bytes_log2 as u8,
            bt_num: description.bt_num,
            object_count: description.object_count,
            bt0: BTreeMap::new(),
        };
        Ok(Self { table, built, pages: HashMap::new() })
    }

    /// The finished table.
    pub fn finish(self) -> BuiltTable {
        self.built
    }

    /// One past the largest index that the device accepts, if it checks it.
    pub fn object_count(&self) -> Option<u64> {
        (self.built.object_count != 0).then_some(self.built.object_count.into())
    }

    /// Bus address of an object; builds the way to it.
    pub fn object(&mut self, placement: &mut Placement, index: u32) -> Result<u64, BuildError> {
        let built = &mut self.built;
        if built.object_count != 0 && index >= built.object_count {
            return Err(BuildError::IndexTooLarge {
                table: self.table,
                index: index.into(),
                limit: built.object_count.into(),
                limit_name: "object_count",
            });
        }
        let chunk_bytes = PAGE_BYTES << built.buf_pg_sz;
        let ba_page_bytes = PAGE_BYTES << built.ba_pg_sz;
        let objects_per_chunk = chunk_bytes >> built.entry_bytes_log2;
        let entries_log2 = PAGE_SHIFT_MIN + u32::from(built.ba_pg_sz) - BA_ENTRY_BYTES_LOG2;
        let chunk = u64::from(index) / objects_per_chunk;

        // Number, at each level, of the BA page or chunk on the way: all chunks below it share all higher bits.
        let number = |level: u8| chunk.checked_shr(entries_log2 * u32::from(built.hop - level)).unwrap_or(0);
        let level0 = number(0);
        if level0 >= u64::from(built.bt_num) {
            return Err(BuildError::Alias { table: self.table, index, level0, bt_num: built.bt_num });
        }
        let mut parent = 0;
        for level in 0..=built.hop {
            let page_number = number(level);
            let key = (level, page_number);
            let page = match self.pages.get(&key) {
                Some(page) => *page,
                None => {
                    let length_bytes = if level == built.hop { chunk_bytes } else { ba_page_bytes };
                    // Neither is aligned to its size: whoever walks must add.
                    let page = placement.place(length_bytes, PAGE_BYTES)?;
                    if level > 0 {
                        let position = page_number % (1 << entries_log2);
                        placement.write(parent + (position << BA_ENTRY_BYTES_LOG2), page)?;
                    }
                    self.pages.insert(key, page);
                    page
                }
            };
            if level == 0 {
                built.bt0.insert(level0 as u32, page);
            }
            parent = page;
        }
        let position = u64::from(index) % objects_per_chunk;
        Ok(parent + (position << built.entry_bytes_log2))
    }
}
