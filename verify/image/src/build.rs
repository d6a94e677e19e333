//! From a description to an image.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use keywalk_contract::Table;
use keywalk_contract::hem::PAGE_SHIFT_MIN;
use keywalk_contract::key::NUM_MPTS_LOG2_MAX;
use keywalk_contract::mtr::PAGE_SHIFT_BASE_MAX;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::hem::ContextTable;
use crate::pages::Rules;
use crate::placement::Placement;
use crate::{
    BuildError, BuiltObject, BuiltTableSet, Description, Image, Problem, TableSetDescription, check, queue_buffer,
    region,
};

/// Most table sets that registers can name.
const TABLE_SETS_MAX: u64 = 8;
/// Smallest automatic index: key 0 ends a list of scatter-gather elements.
const AUTOMATIC_INDEX_MIN: u32 = 1;

impl Description {
    /// Builds the tables. The same description gives the same image.
    ///
    /// # Errors
    /// The first thing, in order of description, that the table format cannot hold.
    pub fn build(&self) -> Result<Image, BuildError> {
        self.build_within(|upper_half_log2| 0..1 << upper_half_log2)
    }

    /// Builds the tables in `room`, bus addresses of memory that is there, instead of the lower half of the address space.
    ///
    /// # Errors
    /// As [`Description::build`].
    pub fn build_in(&self, room: Range<u64>) -> Result<Image, BuildError> {
        self.build_within(|_| room)
    }

    /// Builds the tables in the room that `room` gives for log2 of the first address of the upper half.
    fn build_within(&self, room: impl FnOnce(u32) -> Range<u64>) -> Result<Image, BuildError> {
        check::number("address_bits", self.address_bits.into(), 40..=64)?;
        check::number("the number of table sets", self.table_sets.len() as u64, 0..=TABLE_SETS_MAX)?;
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let rules_seed = random.random();
        let upper_half_log2 = self.address_bits - 1;
        let rules = Rules { allow_misaligned: false, allow_holes: false, upper_half_log2, seed: rules_seed };
        let mut placement = Placement::new(random, room(upper_half_log2));
        let mut table_sets = Vec::new();
        for (number, description) in self.table_sets.iter().enumerate() {
            // No two objects of an image share the part of the seed that is theirs alone.
            let rules = Rules { seed: rules.seed ^ (number as u64) << 40, ..rules };
            table_sets.push(TableSet { number, description, rules }.build(&mut placement)?);
        }
        Ok(Image { memory: placement.memory, table_sets })
    }
}

/// A table set under construction.
struct TableSet<'a> {
    number: usize,
    description: &'a TableSetDescription,
    rules: Rules,
}

impl TableSet<'_> {
    fn build(&self, placement: &mut Placement) -> Result<BuiltTableSet, BuildError> {
        let description = self.description;
        let place = |field: &str| format!("{field} of table set {}", self.number);
        check::number(place("num_mpts_log2"), description.num_mpts_log2.into(), 0..=NUM_MPTS_LOG2_MAX.into())?;
        let page_shift_bases = u64::from(PAGE_SHIFT_MIN)..=u64::from(PAGE_SHIFT_BASE_MAX);
        check::number(place("page_shift_base"), description.page_shift_base.into(), page_shift_bases)?;

        let mut tables = BTreeMap::new();
        for table in &description.tables {
            if tables.insert(table.table, ContextTable::new(self.number, table)?).is_some() {
                return Err(BuildError::TableTwice { table_set: self.number, table: table.table });
            }
        }
        let regions = self.regions(placement, &mut tables)?;
        let objects = self.objects(placement, &mut tables)?;
        let mut queue_buffers = Vec::new();
        for (number, buffer) in (0_u64..).zip(&description.queue_buffers) {
            let rules = Rules { seed: self.rules.seed ^ 1 << 48 ^ number, ..self.rules };
            let built = queue_buffer::build(placement, buffer, description.page_shift_base, rules);
            queue_buffers.push(built.map_err(|problem| BuildError::QueueBuffer {
                table_set: self.number,
                name: buffer.name.clone(),
                problem,
            })?);
        }
        Ok(BuiltTableSet {
            num_mpts_log2: description.num_mpts_log2,
            page_shift_base: description.page_shift_base,
            tables: tables.into_iter().map(|(table, context)| (table, context.finish())).collect(),
            regions,
            objects,
            queue_buffers,
        })
    }

    fn regions(
        &self,
        placement: &mut Placement,
        tables: &mut BTreeMap<Table, ContextTable>,
    ) -> Result<Vec<crate::BuiltRegion>, BuildError> {
        let descriptions = &self.description.regions;
        if descriptions.is_empty() {
            return Ok(Vec::new());
        }
        let missing = BuildError::TableMissing { table_set: self.number, table: Table::Mpt };
        let mpt = tables.get_mut(&Table::Mpt).ok_or(missing)?;
        let limit = (1 << self.description.num_mpts_log2).min(mpt.object_count().unwrap_or(u64::MAX));
        let mut taken = HashMap::new();
        for region in descriptions {
            let Some(index) = region.index else { continue };
            if let Some(other) = taken.insert(index, &region.name) {
                return Err(self.region_error(&region.name, Problem::IndexTaken { index, other: other.clone() }));
            }
        }
        let mut automatic = AUTOMATIC_INDEX_MIN;
        let mut regions = Vec::new();
        for region in descriptions {
            let index = region.index.unwrap_or_else(|| {
                while taken.contains_key(&automatic) {
                    automatic += 1;
                }
                automatic += 1;
                automatic - 1
            });
            let built = self.check_index(region.index.is_some(), index, limit).and_then(|()| {
                let surroundings = region::Surroundings {
                    page_shift_base: self.description.page_shift_base,
                    upper_half_log2: self.rules.upper_half_log2,
                    seed: self.rules.seed ^ u64::from(index),
                    index,
                    entry_address: mpt.object(placement, index)?,
                };
                region::build(placement, region, &surroundings)
            });
            regions.push(built.map_err(|problem| self.region_error(&region.name, problem))?);
        }
        Ok(regions)
    }

    fn check_index(&self, is_given: bool, index: u32, limit: u64) -> Result<(), Problem> {
        let index = u64::from(index);
        if index < limit {
            return Ok(());
        }
        if !is_given {
            return Err(Problem::NoIndexLeft { limit });
        }
        let is_num_mpts = limit == 1 << self.description.num_mpts_log2;
        let limit_name = if is_num_mpts { "1 << num_mpts_log2" } else { "object_count" };
        Err(BuildError::IndexTooLarge { table: Table::Mpt, index, limit, limit_name }.into())
    }

    fn region_error(&self, name: &str, problem: Problem) -> BuildError {
        BuildError::Region { table_set: self.number, name: name.into(), problem }
    }

    fn objects(
        &self,
        placement: &mut Placement,
        tables: &mut BTreeMap<Table, ContextTable>,
    ) -> Result<Vec<BuiltObject>, BuildError> {
        let mut objects = Vec::new();
        for object in &self.description.objects {
            let (table, index) = (object.table, object.index);
            if table == Table::Mpt {
                return Err(BuildError::ObjectOfMpt { index });
            }
            let missing = BuildError::TableMissing { table_set: self.number, table };
            let address = tables.get_mut(&table).ok_or(missing)?.object(placement, index)?;
            placement.write(address, 0xc0de << 48 | u64::from(table.code()) << 40 | u64::from(index))?;
            objects.push(BuiltObject { table, index, address });
        }
        Ok(objects)
    }
}
