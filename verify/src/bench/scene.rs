//! Tables to measure on, and requests to them.

use std::collections::HashSet;
use std::sync::Arc;

use keywalk_contract::{Operation, Table};
use keywalk_cosim as cosim;
use keywalk_image::{
    BuildError, BuiltRegion, Description, LINE_BYTES, RegionDescription, Rights, SparseMemory, TableDescription,
    TableSetDescription,
};
use keywalk_model::{Engine, ReadLog, Request};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::hardware::{self, SharedMemory};
use crate::scenario::model_table_set;

/// Everything random follows from it.
pub const SEED: u64 = 20;

/// Entries of a page table of 4 KiB.
const TABLE_ENTRIES: u64 = 512;
/// Entries of a line.
const LINE_ENTRIES: u64 = LINE_BYTES as u64 / 8;
/// Bytes of a request within one page.
pub const REQUEST_BYTES: u32 = 64;

/// A table set in memory, for the model and for the hardware. Every region allows everything, no two pages are
/// neighbours, so nothing merges.
#[derive(Debug)]
pub struct Scene {
    /// The memory.
    pub memory: SharedMemory,
    /// The golden model, configured.
    pub model: Engine,
    /// The same configuration for the hardware.
    pub setup: cosim::Setup,
    /// The regions.
    pub regions: Vec<BuiltRegion>,
}

/// Size of the lower tables of a region that has a single table of more than 512 pages, as a page-size field: 65536
/// entries.
const LARGE_TABLE: u8 = 7;

/// A region.
#[derive(Clone, Copy, Debug)]
pub struct RegionPlan {
    /// Pages.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Hops of its page table; none: the fewest.
    pub hops: Option<u8>,
}

/// What a scene is built from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Hops of the MPT.
    pub hem_hops: u8,
    /// Page shift of the smallest page, 12 to 15.
    pub page_shift_base: u8,
    /// The regions.
    pub regions: Vec<RegionPlan>,
}

impl Plan {
    /// Regions of 4 KiB pages, all of one size, behind one hop of the MPT.
    #[must_use]
    pub fn small_pages(regions: u64, pages: u64, hops: Option<u8>) -> Self {
        Self::with_pages(regions, RegionPlan { pages, page_bytes: 4096, hops })
    }

    /// Regions that are all alike, behind one hop of the MPT.
    #[must_use]
    pub fn with_pages(regions: u64, region: RegionPlan) -> Self {
        // The page-size field of an entry counts from the base and ends at 15.
        let page_shift_base = if region.page_bytes > 1 << 27 { 15 } else { 12 };
        Self { hem_hops: 1, page_shift_base, regions: vec![region; regions as usize] }
    }
}

impl Scene {
    /// Builds it. The same plan gives the same scene.
    ///
    /// # Errors
    /// What tables cannot hold.
    pub fn build(plan: &Plan) -> Result<Self, BuildError> {
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let mut pages_before = 0;
        let regions = plan.regions.iter().map(|RegionPlan { pages, page_bytes, hops }| {
            let is_large = *hops == Some(1) && *pages > TABLE_ENTRIES;
            // Page numbers go on from region to region, so that a cache that is indexed by them is filled evenly, as far
            // as it is up to them.
            let va = (random.random_range(1..1_u64 << 14) << 48) + pages_before * page_bytes;
            pages_before += pages;
            RegionDescription {
                length_bytes: pages * page_bytes,
                va,
                page_bytes: *page_bytes,
                hop: *hops,
                ba_pg_sz: if is_large { LARGE_TABLE } else { 0 },
                pd: random.random_range(0..1 << 24),
                rights: Rights::ALL,
                ..RegionDescription::default()
            }
        });
        let regions: Vec<_> = regions.collect();
        let mpt = TableDescription {
            table: Table::Mpt,
            hop: plan.hem_hops,
            ba_pg_sz: 0,
            buf_pg_sz: 0,
            entry_bytes: 64,
            bt_num: 1,
            object_count: 0,
        };
        let table_set = TableSetDescription {
            page_shift_base: plan.page_shift_base,
            tables: vec![mpt],
            regions,
            ..TableSetDescription::default()
        };
        let mut image = Description { seed: SEED, address_bits: 52, table_sets: vec![table_set] }.build()?;
        let model = Engine::new(image.table_sets.iter().map(model_table_set).collect());
        let setup = cosim::Setup {
            table_sets: model.table_sets.iter().map(hardware::table_set).collect(),
            function_map: Vec::new(),
            controls: hardware::controls(model.controls),
        };
        let regions = image.table_sets.remove(0).regions;
        Ok(Self { memory: SharedMemory(Arc::<SparseMemory>::new(image.memory)), model, setup, regions })
    }

    /// A request to some pages of a region, with an operation that `number` chooses.
    #[must_use]
    pub fn request(&self, region: usize, page: u64, pages: u64, number: u64) -> Request {
        let region = &self.regions[region];
        let operations = [Operation::LocalRead, Operation::RemoteWrite, Operation::RemoteRead, Operation::LocalWrite];
        let page_bytes = 1 << region.pages.page_shift();
        let length = if pages == 1 { REQUEST_BYTES } else { (pages * page_bytes) as u32 };
        Request {
            tag: 0,
            function: 0,
            operation: operations[(number % 4) as usize].code(),
            key: region.key,
            pd: region.pd,
            qpn: number as u32 & 0xff_ffff,
            va: region.va + page * page_bytes,
            length,
        }
    }

    /// Numbers of the lines of 64 bytes that these requests need, each once.
    #[must_use]
    pub fn lines(&self, requests: &[Request]) -> HashSet<u64> {
        let mut log = ReadLog::default();
        for request in requests {
            let _ = self.model.translate_observed(&self.memory, request, &mut log);
        }
        log.addresses.iter().map(|address| address / LINE_BYTES as u64).collect()
    }

    /// Single-page requests in random order, `repeats` to each of the first `pages` pages of each of some regions.
    #[must_use]
    pub fn everywhere(&self, regions: std::ops::Range<usize>, pages: u64, repeats: u64) -> Vec<Request> {
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let mut requests: Vec<_> = (0..repeats)
            .flat_map(|_| regions.clone().flat_map(|region| (0..pages).map(move |page| (region, page))))
            .map(|(region, page)| self.request(region, page, 1, random.random()))
            .collect();
        requests.shuffle(&mut random);
        requests
    }
}

/// Single-page requests to random pages of region 0.
#[must_use]
pub fn anywhere(scene: &Scene, pages: u64, count: usize) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    (0..count).map(|_| scene.request(0, random.random_range(0..pages), 1, random.random())).collect()
}

/// Tables on which each of many requests misses the TLB.
#[derive(Debug)]
pub struct MissScene {
    /// The tables.
    pub scene: Scene,
    /// Requests to be made before, so that the MPT is warm; none where it is to be cold.
    pub warm_up: Vec<Request>,
    /// The requests. No two of them need the same line of the last level, so no fill serves a second one.
    pub misses: Vec<Request>,
}

impl MissScene {
    /// The MPT is warm: one region, whose pages are read all over. With three hops the leaf tables lie below two middle
    /// tables.
    ///
    /// # Errors
    /// What tables cannot hold.
    pub fn warm(hops: u8, count: u64) -> Result<Self, BuildError> {
        // One more line than requests, for the warm-up.
        let lines = count + 1;
        let lines_per_table = TABLE_ENTRIES / LINE_ENTRIES;
        let tables = lines.div_ceil(lines_per_table) + 1;
        let pages = match hops {
            3 => TABLE_ENTRIES * (TABLE_ENTRIES + tables.div_ceil(2)),
            _ => TABLE_ENTRIES * tables,
        };
        let scene = Scene::build(&Plan::small_pages(1, pages, Some(hops)))?;
        let region = &scene.regions[0];
        // Only a root may begin in the middle of a line, and with one hop the root is the last level.
        let skew = if hops == 1 { region.root % LINE_BYTES as u64 / 8 } else { 0 };
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let mut requests = Vec::new();
        for line in 0..lines {
            let page = (line * LINE_ENTRIES + random.random_range(0..LINE_ENTRIES)).saturating_sub(skew);
            // The second half lies below the second middle table.
            let half = lines.div_ceil(2) / lines_per_table * lines_per_table;
            let page = if hops == 3 && line >= half {
                page - half * LINE_ENTRIES + TABLE_ENTRIES * TABLE_ENTRIES
            } else {
                page
            };
            requests.push(scene.request(0, page, 1, random.random()));
        }
        requests.shuffle(&mut random);
        let misses = requests.split_off(1);
        Ok(Self { scene, warm_up: requests, misses })
    }

    /// The MPT is cold: each request has a region of its own, of one line of pages.
    ///
    /// # Errors
    /// What tables cannot hold.
    pub fn cold(hops: u8, count: u64) -> Result<Self, BuildError> {
        let scene = Scene::build(&Plan::small_pages(count, LINE_ENTRIES, Some(hops)))?;
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let mut misses: Vec<_> = (0..count as usize)
            .map(|region| scene.request(region, random.random_range(0..LINE_ENTRIES), 1, random.random()))
            .collect();
        misses.shuffle(&mut random);
        Ok(Self { scene, warm_up: Vec::new(), misses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_miss_needs_a_line_of_its_own_and_upper_levels_are_shared() {
        const COUNT: u64 = 300;
        for hops in 1..=3 {
            let warm = MissScene::warm(hops, COUNT).expect("it is built");
            assert_eq!(warm.misses.len() as u64, COUNT);
            let leaves: HashSet<_> = warm.misses.iter().map(|request| leaf_line(&warm.scene, request)).collect();
            assert_eq!(leaves.len() as u64, COUNT, "hops {hops}");
            let before = warm.scene.lines(&warm.warm_up);
            assert!(warm.warm_up.iter().all(|request| !leaves.contains(&leaf_line(&warm.scene, request))));
            let needed = warm.scene.lines(&warm.misses).difference(&before).count() as u64;
            assert!((COUNT..COUNT + 8).contains(&needed), "hops {hops}: {needed} lines");

            let cold = MissScene::cold(hops, COUNT).expect("it is built");
            let leaves: HashSet<_> = cold.misses.iter().map(|request| leaf_line(&cold.scene, request)).collect();
            assert_eq!(leaves.len() as u64, COUNT);
            let needed = cold.scene.lines(&cold.misses).len() as u64;
            let per_miss = u64::from(hops) + 1;
            assert!((COUNT * per_miss..COUNT * per_miss + 8).contains(&needed), "hops {hops}: {needed} lines");
        }
    }

    /// The line of the last read of a request.
    fn leaf_line(scene: &Scene, request: &Request) -> u64 {
        let mut log = ReadLog::default();
        let response = scene.model.translate_observed(&scene.memory, request, &mut log);
        assert_eq!(response.failure, None);
        log.addresses.last().expect("tables are read") / LINE_BYTES as u64
    }
}
