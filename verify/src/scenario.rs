//! Random scenarios: tables, switches and traffic that follow from one seed, for the model and for the hardware.
//!
//! A scenario draws what the vectors lack: any hop count, several table sets, damaged tables, unbacked memory, requests
//! that are wrong in every way. What the answer should be is the golden model's to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hardware::{self, SharedMemory};
use keywalk_contract::{Config, Operation, Table, key, mpt_entry};
use keywalk_cosim as cosim;
use keywalk_image::{
    Description, Image, ObjectDescription, PageList, QueueBufferDescription, QueueBufferRegionDescription,
    RegionDescription, RegionKind, Rights, SparseMemory, TableDescription, TableSetDescription,
};
use keywalk_model::{Beat, ContextQuery, ContextRequest, Controls, Engine, Geometry, Request, Step, TableSet};
use rand::seq::{IndexedMutRandom, IndexedRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Cycles after which traffic that has not ended counts as stuck: far above what the slowest memory explains.
pub(crate) const DRAIN_LIMIT_CYCLES: u64 = 5_000_000;

/// Tables with their traffic.
#[derive(Debug)]
pub struct Scenario {
    /// The memory, damaged in places.
    pub memory: Arc<SparseMemory>,
    /// The golden model, configured.
    pub model: Engine,
    /// The same configuration for the hardware.
    pub setup: cosim::Setup,
    /// What was described, before the damage.
    pub image: Image,
    /// Bits of bus addresses; tables lie in the lower half.
    pub address_bits: u32,
    random: ChaCha8Rng,
}

/// The table set of the model that an image describes.
#[must_use]
pub fn model_table_set(built: &keywalk_image::BuiltTableSet) -> TableSet {
    let mut set =
        TableSet { num_mpts_log2: built.num_mpts_log2, page_shift_base: built.page_shift_base, ..TableSet::default() };
    for (table, built) in &built.tables {
        let context_table = set.table_mut(*table);
        context_table.geometry = Geometry {
            hop: built.hop,
            ba_pg_sz: built.ba_pg_sz,
            buf_pg_sz: built.buf_pg_sz,
            entry_bytes_log2: built.entry_bytes_log2,
            bt_num: built.bt_num,
            object_count: built.object_count,
        };
        for (slot, base) in &built.bt0 {
            context_table.set_bt0(*slot, Some(*base));
        }
    }
    set
}

impl Scenario {
    /// Draws the scenario of `seed` for an engine of configuration `config`.
    ///
    /// # Panics
    /// When a drawn description cannot be built: a fault of this module.
    #[must_use]
    pub fn draw(seed: u64, config: &Config) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let sets = random.random_range(1..=config.table_sets);
        let description = Description {
            seed: random.random(),
            address_bits: random.random_range(44..=64),
            table_sets: (0..sets).map(|_| draw_table_set(&mut random, config)).collect(),
        };
        let image = description.build().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut memory = image.memory.clone();
        damage(&mut random, &image, &mut memory);

        let mut table_sets: Vec<TableSet> = image.table_sets.iter().map(model_table_set).collect();
        if random.random_ratio(1, 3) {
            for _ in 0..random.random_range(1..=3) {
                damage_bt0(&mut random, &mut table_sets);
            }
        }
        let mut model = Engine::new(table_sets);
        model.controls = Controls {
            atomic_shape_check: random.random(),
            zero_entry_literal: random.random_ratio(1, 4),
            index_check: random.random(),
            alignment_check: random.random(),
            hold_mode: random.random_ratio(1, 4),
            merge_bytes_max: *[0, 4096, 16384, 1 << 20, 1 << 31, u32::MAX].choose(&mut random).expect("not empty"),
            hold_bytes_max: config.hold_bytes_max(),
        };
        let mut function_map = Vec::new();
        for function in 0..1usize << config.function_bits {
            let set = random.random_range(0..sets) as u8;
            model.function_map[function] = set;
            function_map.push((function as u8, set));
        }
        let setup = cosim::Setup {
            table_sets: model.table_sets.iter().map(hardware::table_set).collect(),
            function_map,
            controls: hardware::controls(model.controls),
        };
        let address_bits = description.address_bits;
        Self { memory: Arc::new(memory), model, setup, image, address_bits, random }
    }

    /// The memory, for the model and for the hardware.
    #[must_use]
    pub fn shared_memory(&self) -> SharedMemory {
        SharedMemory(Arc::clone(&self.memory))
    }

    fn function(&mut self) -> u8 {
        let count = self.setup.function_map.len();
        self.setup.function_map[self.random.random_range(0..count)].0
    }

    /// A request with this tag: mostly to a region that exists, often wrong in one way, sometimes in many.
    pub fn request(&mut self, tag: u16) -> Request {
        let function = self.function();
        let set = usize::from(self.model.function_map[usize::from(function)]);
        let random = &mut self.random;
        let operation = if random.random_ratio(1, 40) { random.random_range(0..16) } else { random.random_range(0..6) };
        let wild = Request {
            tag,
            function,
            operation,
            key: random.random(),
            pd: random.random_range(0..1 << 24),
            qpn: random.random_range(0..4),
            va: random.random(),
            length: random.random(),
        };
        let regions = &self.image.table_sets[set].regions;
        let Some(region) = regions.choose(random).filter(|_| !random.random_ratio(1, 30)) else { return wild };
        let page = 1u64 << region.pages.page_shift();
        let offset = match random.random_range(0..6) {
            0 => 0,
            1 => region.length_bytes.saturating_sub(random.random_range(0..3)),
            _ => random.random_range(0..=region.length_bytes),
        };
        let room = region.length_bytes - offset.min(region.length_bytes);
        let longest = match random.random_range(0..8) {
            0..=2 => 64,
            3..=4 => page,
            5 => 4 * page,
            6 => 20 * page,
            _ => room.min(80 * page),
        };
        let is_exact = random.random_ratio(1, 8);
        let length = if is_exact { room } else { random.random_range(0..=room.min(longest)) };
        let is_atomic = operation == Operation::RemoteAtomic.code() && random.random_ratio(7, 8);
        let va = if region.is_zero_based { offset } else { region.va.wrapping_add(offset) };
        let mut request = Request {
            key: region.key,
            pd: region.pd,
            va: if is_atomic { va & !7 } else { va },
            length: if is_atomic { 8 } else { length.min(80 * page).min(1 << 31) as u32 },
            ..wild
        };
        match random.random_range(0..40) {
            0 => request.key ^= 1 << random.random_range(0..32),
            1 => request.pd ^= 1 << random.random_range(0..24),
            2 => request.va = request.va.wrapping_sub(random.random_range(1..3)),
            3 => request.length = request.length.wrapping_add(random.random_range(1..3)),
            4 => request.length = 0,
            5 => request.va = u64::MAX - random.random_range(0..128),
            6 => request.length = random.random_range(1 << 31..=u32::MAX),
            7 => request.key = wild.key,
            _ => {}
        }
        if request.length <= 1 << 31 && u64::from(request.length) / page > 1 << 16 {
            // A gigabyte in small pages says no more than 80 pages do.
            request.length &= (1 << 19) - 1;
        }
        request
    }

    /// A request of the context port with this tag.
    pub fn context_request(&mut self, tag: u16) -> ContextRequest {
        let function = self.function();
        let set = usize::from(self.model.function_map[usize::from(function)]);
        let random = &mut self.random;
        let built = &self.image.table_sets[set];
        let wild = ContextQuery::Lookup { table: random.random_range(0..8), index: random.random() };
        let query = match random.random_range(0..10) {
            0 => wild,
            1..=4 => match built.objects.choose(random) {
                Some(object) => {
                    let index = object.index ^ u32::from(random.random_ratio(1, 8)) << random.random_range(0..20);
                    ContextQuery::Lookup { table: object.table.code(), index }
                }
                None => wild,
            },
            _ => match built.queue_buffers.choose(random) {
                Some(buffer) => {
                    let region = buffer.regions.choose(random).expect("a buffer has regions");
                    let count = region.pages.count() as u32;
                    ContextQuery::Walk {
                        root: match random.random_range(0..32) {
                            0 => 0,
                            1 | 2 => region.root ^ 1 << random.random_range(0..6),
                            _ => region.root,
                        },
                        hop: region.hop,
                        ba_pg_sz: buffer.ba_pg_sz,
                        buf_pg_sz: buffer.buf_pg_sz,
                        index: random.random_range(0..count.max(1) + 1),
                        count: if random.random_ratio(1, 8) { 0 } else { count },
                    }
                }
                None => wild,
            },
        };
        ContextRequest { tag, function, query }
    }
}

fn draw_table_set(random: &mut ChaCha8Rng, config: &Config) -> TableSetDescription {
    let page_shift_base = if random.random_ratio(1, 3) { random.random_range(12..=15) } else { 12 };
    let num_mpts_log2: u8 = random.random_range(8..=24);
    let mut tables = vec![draw_table(random, config, Table::Mpt, num_mpts_log2)];
    let mut objects = Vec::new();
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Mpt) {
        if random.random_ratio(1, 2) {
            let objects_log2 = random.random_range(4..=20);
            let described = draw_table(random, config, table, objects_log2);
            let limit = match described.object_count {
                0 => 1 << objects_log2,
                count => count,
            };
            for _ in 0..random.random_range(1..6) {
                let object = ObjectDescription { table, index: random.random_range(0..limit) };
                if !objects.contains(&object) {
                    objects.push(object);
                }
            }
            tables.push(described);
        }
    }
    let limit = match tables[0].object_count {
        0 => 1 << num_mpts_log2,
        count => count,
    };
    let mut indices: Vec<u32> = Vec::new();
    let mut regions: Vec<RegionDescription> = (0..random.random_range(4..24))
        .map(|number| {
            let index = loop {
                let index =
                    if random.random() { random.random_range(0..limit) } else { random.random_range(0..limit.min(64)) };
                if !indices.contains(&index) {
                    break index;
                }
            };
            indices.push(index);
            draw_region(random, number, index, page_shift_base)
        })
        .collect();
    bind_windows(random, &mut regions);
    let queue_buffers = (0..random.random_range(0..4)).map(|number| draw_queue_buffer(random, number, page_shift_base));
    let queue_buffers = queue_buffers.collect();
    TableSetDescription { num_mpts_log2, page_shift_base, tables, regions, objects, queue_buffers }
}

/// A table that can hold `1 << objects_log2` objects.
fn draw_table(random: &mut ChaCha8Rng, config: &Config, table: Table, objects_log2: u8) -> TableDescription {
    let entry_bytes_log2 = match table {
        Table::Mpt => 6,
        Table::QpcTimer | Table::CqcTimer => 12,
        _ => random.random_range(5..=9),
    };
    loop {
        let hop: u8 = random.random_range(0..=3);
        let ba_pg_sz: u8 = if random.random() { 0 } else { random.random_range(0..=4) };
        let buf_pg_sz: u8 = if random.random() { 0 } else { random.random_range(0..=6) };
        let chunks_log2 = i32::from(objects_log2) - (12 + i32::from(buf_pg_sz) - entry_bytes_log2);
        let slots_log2 = (chunks_log2 - i32::from(hop) * (9 + i32::from(ba_pg_sz))).max(0);
        if slots_log2 > 10 || 1 << slots_log2 > config.bt0_slots {
            continue;
        }
        let needed = 1u32 << slots_log2;
        let bt_num = random.random_range(needed..=config.bt0_slots.min(4 * needed));
        let object_count = if random.random() { 0 } else { random.random_range(64..=1.max(1 << objects_log2).max(64)) };
        let object_count = object_count.min(1 << objects_log2);
        let entry_bytes = 1 << entry_bytes_log2;
        return TableDescription { table, hop, ba_pg_sz, buf_pg_sz, entry_bytes, bt_num, object_count };
    }
}

fn draw_region(random: &mut ChaCha8Rng, number: u32, index: u32, page_shift_base: u8) -> RegionDescription {
    let kind = match random.random_range(0..20) {
        0 => RegionKind::DmaMr,
        1 => RegionKind::FrmrFree,
        2..=3 => RegionKind::Frmr,
        4 => RegionKind::Mw,
        5..=6 => RegionKind::MwValid,
        _ => RegionKind::Mr,
    };
    let page_shift = u64::from(page_shift_base)
        + match random.random_range(0..12) {
            0..8 => 0,
            8 => 15,
            _ => random.random_range(0..=15),
        };
    let page = 1u64 << page_shift;
    let pages: u64 = match random.random_range(0..6) {
        0 => 1,
        1..=3 => random.random_range(1..=40),
        4 => random.random_range(1..=600),
        _ => random.random_range(1..=5000),
    };
    // One page fewer than a fast registration takes: a start within the page may touch one more.
    let pages = if kind == RegionKind::Frmr { pages.min(511) } else { pages };
    let start = random.random_range(0..page);
    let room = pages * page - start;
    let length_bytes = room - random.random_range(0..page.min(room));
    let va = if random.random_ratio(1, 8) {
        // Ends at 2^64, or near it.
        let end_gap = if random.random() { 0 } else { random.random_range(0..1 << 20) };
        (length_bytes + end_gap).wrapping_neg()
    } else {
        (random.random::<u64>() >> random.random_range(1..40)) / page * page + start
    };
    let has_pages = matches!(kind, RegionKind::Mr | RegionKind::Frmr);
    let is_sized = has_pages || kind == RegionKind::MwValid;
    let run_pages = *[1, 1, 2, 5, 1000].choose(random).expect("not empty");
    let seed = random.random();
    let some = Rights::from_number(random.random_range(0..64)).expect("six rights");
    let rights = if random.random_ratio(2, 3) { Rights::ALL } else { some };
    let ba_pg_sz = if has_pages { random.random_range(0..=3) } else { 0 };
    let hop = if has_pages && random.random() { Some(draw_hop(random, pages + 1, ba_pg_sz)) } else { None };
    let window_type = if kind == RegionKind::MwValid { random.random_range(1..=2) } else { 1 };
    RegionDescription {
        name: format!("region {number}"),
        kind,
        length_bytes: if is_sized { length_bytes } else { 0 },
        va: if is_sized { va } else { 0 },
        page_bytes: page,
        pages: if has_pages { PageList::Scattered { seed, run_pages } } else { PageList::default() },
        pd: random.random_range(0..1 << 24),
        rights,
        variant: if kind == RegionKind::Frmr { random.random() } else { 0 },
        index: Some(index),
        hop,
        ba_pg_sz,
        window_type,
        bind_qpn: if window_type == 2 { random.random_range(0..4) } else { 0 },
        is_zero_based: is_sized && random.random_ratio(1, 8),
        ..RegionDescription::default()
    }
}

/// Binds most of the windows that are VALID to a region: one of any kind, and a part of it, mostly.
fn bind_windows(random: &mut ChaCha8Rng, regions: &mut [RegionDescription]) {
    let parents = regions.to_vec();
    for window in regions.iter_mut().filter(|region| region.kind == RegionKind::MwValid) {
        if random.random_ratio(1, 8) {
            continue;
        }
        let likely: Vec<&RegionDescription> =
            parents.iter().filter(|parent| parent.pages != PageList::default() && !parent.is_zero_based).collect();
        let likely = if random.random_ratio(1, 12) { Vec::new() } else { likely };
        let Some(parent) = likely.choose(random).copied().or_else(|| parents.choose(random)) else { return };
        window.bound_key = key::of_index(parent.index.unwrap_or(0)) | u32::from(parent.variant);
        window.length_bytes = random.random_range(0..=parent.length_bytes);
        window.va = parent.va.wrapping_add(random.random_range(0..=parent.length_bytes - window.length_bytes));
        window.page_bytes = parent.page_bytes;
        window.pd = parent.pd;
        match random.random_range(0..24) {
            0 => window.pd ^= 1 << random.random_range(0..24),
            1 => window.bound_key ^= 1 << random.random_range(0..32),
            2 => {
                window.length_bytes = window.length_bytes.saturating_add(random.random_range(0..2 * window.page_bytes))
            }
            3 => window.va = window.va.wrapping_sub(random.random_range(0..2 * window.page_bytes)),
            _ => {}
        }
        // The builder takes none that runs past 2^64; such a one is made by damaging it.
        let room = window.va.wrapping_neg();
        if room > 0 {
            window.length_bytes = window.length_bytes.min(room);
        }
    }
}

/// Hops of a page table for `pages` pages: one or more, and as many as it needs.
fn draw_hop(random: &mut ChaCha8Rng, pages: u64, ba_pg_sz: u8) -> u8 {
    let entries: u64 = 512 << ba_pg_sz;
    random.random_range(if pages <= entries { 1 } else { 2 }..=3)
}

fn draw_queue_buffer(random: &mut ChaCha8Rng, number: u32, page_shift_base: u8) -> QueueBufferDescription {
    let is_direct = random.random_ratio(1, 4);
    let page_shift = u32::from(page_shift_base) + random.random_range(0..=4);
    let ba_pg_sz = random.random_range(0..=2);
    let regions = (0..random.random_range(1..=3)).map(|_| {
        let hop = if is_direct { 0 } else { random.random_range(1..=3) };
        QueueBufferRegionDescription { count: random.random_range(1..=150), hop, pages: None }
    });
    QueueBufferDescription {
        name: format!("buffer {number}"),
        page_bytes: 1 << page_shift,
        ba_pg_sz,
        regions: regions.collect(),
    }
}

/// Damages one BT0 base: misaligned, zero or unset.
fn damage_bt0(random: &mut ChaCha8Rng, table_sets: &mut [TableSet]) {
    let wants_mpt: bool = random.random();
    let is_wanted = |table: &Table| !wants_mpt || *table == Table::Mpt;
    let tables = table_sets.iter_mut().flat_map(|set| Table::ALL.into_iter().zip(&mut set.tables));
    let tables = tables.filter(|(table, _)| is_wanted(table)).map(|(_, table)| table);
    let mut bases: Vec<&mut Option<u64>> =
        tables.flat_map(|table| &mut table.bt0).filter(|base| base.is_some()).collect();
    let Some(base) = bases.choose_mut(random) else { return };
    **base = match random.random_range(0..4) {
        0 => None,
        1 => Some(0),
        _ => base.map(|address| address ^ 1 << random.random_range(0..12)),
    };
}

/// Damages tables: zero, misaligned and wild pointers, flipped bits of entries, pages that are gone.
fn damage(random: &mut ChaCha8Rng, image: &Image, memory: &mut SparseMemory) {
    if random.random_ratio(1, 3) {
        return;
    }
    let mut targets: Vec<u64> = Vec::new();
    for set in &image.table_sets {
        targets.extend(set.regions.iter().map(|region| region.entry_address));
        let roots = set.regions.iter().filter(|region| region.hop > 0 && region.root != 0);
        targets.extend(roots.map(|region| region.root));
        targets.extend(set.tables.values().flat_map(|table| table.bt0.values().copied()));
        targets.extend(set.queue_buffers.iter().flat_map(|buffer| buffer.regions.iter().map(|region| region.root)));
    }
    let regions: Vec<_> = image.table_sets.iter().flat_map(|set| &set.regions).collect();
    if let Some(region) = regions.choose(random)
        && random.random_ratio(1, 2)
    {
        // A length that no driver writes: the region runs past 2^64, or spans more pages than a table holds.
        let length = u64::MAX >> random.random_range(0..24);
        let _ = memory.write_u64(region.entry_address + u64::from(mpt_entry::LEN.low / 8), length);
    }
    if let Some(region) = regions.choose(random)
        && random.random_ratio(1, 3)
    {
        // A page table that is shorter than its region.
        let field = mpt_entry::PBL_SIZE;
        let address = region.entry_address + u64::from(field.low / 64 * 8);
        if let Ok(word) = memory.read_u64(address) {
            let low = field.low % 64;
            let count = word >> low & field.max();
            let shorter = if count == 0 { 0 } else { random.random_range(0..count) };
            let _ = memory.write_u64(address, word & !(field.max() << low) | shorter << low);
        }
    }
    let direct: Vec<_> = regions.iter().filter(|region| region.hop == 0 && region.root != 0).collect();
    if let Some(region) = direct.choose(random)
        && random.random_ratio(1, 4)
    {
        // A region without hops whose page is no multiple of 4 KiB: its address is added, not put together.
        let field = mpt_entry::PBL_BA;
        let address = region.entry_address + u64::from(field.low / 64 * 8);
        if let Ok(word) = memory.read_u64(address) {
            let _ = memory.write_u64(address, word ^ 1 << (field.low % 64 + random.random_range(0..9)));
        }
    }
    for _ in 0..random.random_range(0..8) {
        let Some(target) = targets.choose(random) else { return };
        let address = (target + 8 * random.random_range(0..8u64)) & !7;
        let Ok(value) = memory.read_u64(address) else { continue };
        let damaged = match random.random_range(0..5) {
            0 => 0,
            1 => value ^ 1 << random.random_range(0..12),
            2 => random.random(),
            3 => value ^ 1 << random.random_range(0..64),
            _ => {
                memory.remove(address & !4095, 4096);
                continue;
            }
        };
        // The page may have gone in an earlier round.
        let _ = memory.write_u64(address, damaged);
    }
}

/// What [`Scenario::run`] saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Responses that equal the model's, beat for beat.
    pub responses: usize,
    /// Their beats.
    pub beats: usize,
    /// Answers of the context port that equal the model's.
    pub context_answers: usize,
    /// Responses by status of their last beat.
    pub statuses: BTreeMap<&'static str, usize>,
    /// Simulated cycles from the first request to the last answer.
    pub cycles: u64,
}

/// Why [`Scenario::run`] failed. The seed and the options that the caller knows replay it.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The bench: a broken bus rule, a wait that did not end.
    #[error(transparent)]
    Bench(#[from] cosim::Error),
    /// Model and hardware disagree.
    #[error("{request}\nexpected {expected}\ngot      {got}\nthe walk:\n{walk}")]
    Difference {
        /// The request.
        request: String,
        /// The model's answer.
        expected: String,
        /// The hardware's answer.
        got: String,
        /// How the model came to its answer.
        walk: String,
    },
}

impl RunError {
    fn difference(
        request: &dyn std::fmt::Debug,
        expected: &dyn std::fmt::Debug,
        got: &dyn std::fmt::Debug,
        steps: &[Step],
    ) -> Self {
        /// Steps that a person reads; a long request has many alike.
        const STEPS_SHOWN: usize = 40;
        let walk: Vec<String> = steps.iter().take(STEPS_SHOWN).map(|step| format!("    {step}")).collect();
        Self::Difference {
            request: format!("{request:x?}"),
            expected: format!("{expected:x?}"),
            got: format!("{got:x?}"),
            walk: walk.join("\n"),
        }
    }
}

impl Scenario {
    /// Puts an engine before the scenario's tables: reset and configured.
    ///
    /// # Errors
    /// Those of the bench.
    pub fn engine(
        &self,
        dut: &'static cosim::Dut,
        options: cosim::EngineOptions,
    ) -> Result<cosim::Engine<SharedMemory>, cosim::Error> {
        let mut engine = cosim::Engine::new(dut, self.shared_memory(), options)?;
        engine.reset()?;
        engine.setup(&self.setup)?;
        Ok(engine)
    }

    /// Sends random requests and context requests all at once and compares every answer with the model's.
    ///
    /// # Errors
    /// The first difference, or what the bench found.
    ///
    /// # Panics
    /// When there are more requests than tags.
    pub fn run(
        &mut self,
        engine: &mut cosim::Engine<SharedMemory>,
        requests: usize,
        context_requests: usize,
    ) -> Result<Outcome, RunError> {
        assert!(requests.max(context_requests) <= 1 << 16, "a tag has 16 bits");
        let requests: Vec<Request> = (0..requests).map(|tag| self.request(tag as u16)).collect();
        let queries: Vec<ContextRequest> = (0..context_requests).map(|tag| self.context_request(tag as u16)).collect();
        let begin = engine.cycles();
        for request in &requests {
            engine.submit(&hardware::request(request, request.tag))?;
        }
        for request in &queries {
            hardware::submit_context(engine, request, request.tag)?;
        }
        engine.drain(DRAIN_LIMIT_CYCLES)?;
        let mut outcome = Outcome { cycles: engine.cycles() - begin, ..Outcome::default() };
        let memory = self.shared_memory();
        while let Some(response) = engine.pop_response() {
            let request = &requests[usize::from(response.tag)];
            let expected = self.model.translate(&memory, request);
            let beats: Result<Vec<Beat>, _> = response.segments.iter().map(hardware::beat).collect();
            let expected_beats = expected.beats(request);
            if beats.as_ref() != Ok(&expected_beats) {
                let (_, steps) = self.model.explain(&memory, request);
                return Err(RunError::difference(request, &expected_beats, &response.segments, &steps));
            }
            outcome.responses += 1;
            outcome.beats += expected_beats.len();
            *outcome.statuses.entry(expected.status().name()).or_default() += 1;
        }
        while let Some(answer) = engine.pop_context() {
            let request = &queries[usize::from(answer.tag)];
            let expected = self.model.context(&memory, request);
            let got = (answer.function, answer.status, answer.table, answer.hop, answer.address);
            if got != (expected.function, expected.status.code(), expected.table, expected.hop, expected.address) {
                let (_, steps) = self.model.explain_context(&memory, request);
                return Err(RunError::difference(request, &expected, &answer, &steps));
            }
            outcome.context_answers += 1;
        }
        Ok(outcome)
    }
}
