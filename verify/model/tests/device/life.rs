//! Lives of regions and tables: keys that come back, other shapes, chunks that move, large regions, two functions at once.

use std::collections::HashMap;

use keywalk_contract::command::LOOKUPS_MAX;
use keywalk_contract::mpt_entry::*;
use keywalk_contract::work::{bind_window, fast_register};
use keywalk_contract::{CommandStatus, Operation, Status, Table, WorkStatus, key};
use keywalk_model::{TableSet, WorkRequest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::rig::{BUFFER, PD_A, QPN, Region, Rig, with};

#[test]
fn of_all_variants_of_a_fast_region_only_the_newest_is_good() {
    let mut rig = Rig::new(1);
    let pages = [0xaaaa_a000, 0xbbbb_b000];
    let root = rig.create_fast(9, &pages);
    for variant in (0..=255).chain([3]) {
        let key_of = |variant: u32| key::of_index(9) | variant;
        assert_eq!(rig.work(&Rig::fast_register(key_of(variant), root, 0x10_0000, 0x2000, 2)), WorkStatus::Ok);
        for other in 0..=255 {
            let found = rig.access(Operation::RemoteWrite, key_of(other), 0x10_1234, 4);
            assert_eq!(found, if other == variant { Ok(pages[1] + 0x234) } else { Err(Status::EntryKey) });
        }
        let invalidate = if variant % 2 == 0 { Rig::local_invalidate } else { Rig::remote_invalidate };
        assert_eq!(rig.work(&invalidate(key_of(variant))), WorkStatus::Ok);
        assert_eq!(rig.access(Operation::RemoteWrite, key_of(variant), 0x10_1234, 4), Err(Status::EntryState));
    }
}

#[test]
fn of_all_variants_of_a_window_only_the_newest_is_good() {
    for kind in [1, 2] {
        let mut rig = Rig::new(1);
        let region = Region::new(10);
        rig.register(&region);
        rig.create_window(11, kind);
        let key_of = |variant: u32| key::of_index(11) | variant;
        for variant in (1..=255).chain([0, 7]) {
            let request = Rig::bind(kind, key_of(variant), region.key(), region.va, 0x1000);
            assert_eq!(rig.work(&request), WorkStatus::Ok);
            for other in 0..=255 {
                let found = rig.access(Operation::RemoteRead, key_of(other), region.va, 4);
                assert_eq!(found, if other == variant { Ok(region.pa(region.va)) } else { Err(Status::EntryKey) });
            }
            assert_eq!(rig.entry(10).get(MW_CNT), 1);
            if kind == 2 {
                assert_eq!(rig.work(&Rig::local_invalidate(key_of(variant))), WorkStatus::Ok);
            }
        }
    }
}

#[test]
fn a_region_is_registered_again_with_other_hops() {
    let mut rig = Rig::new(2);
    let shape = |hop: u8, round: u64| Region {
        hop,
        va: 0x7000_0000_0000 + round * 0x10_0000,
        length: if hop == 0 { 0x1000 } else { 0x40_0000 },
        first_page: 0x9_0000_0000 + round * 0x1_0000_0000,
        ..Region::new(33)
    };
    let mut region = shape(1, 0);
    rig.register(&region);
    let order = [0, 1, 2, 3, 0, 2, 0, 3, 1, 3, 2, 1, 0];
    for (round, hop) in (1..).zip(order) {
        let old = region;
        region = shape(hop, round);
        // As the driver does it: query, destroy, create with what has changed.
        assert_eq!(rig.post(0x62, 33, 0, BUFFER), CommandStatus::Ok);
        assert_eq!(rig.post(0x0f, 33, 0, 0), CommandStatus::Ok);
        assert_eq!(rig.access(Operation::LocalRead, region.key(), old.va, 1), Err(Status::EntryState));
        rig.register(&region);
        for page in [0, 1, 511, 512, 1023].into_iter().filter(|page| *page < region.pages()) {
            let va = region.va + page * 0x1000 + 0x321;
            assert_eq!(rig.access(Operation::LocalRead, region.key(), va, 1), Ok(region.pa(va)), "hop {hop}");
        }
        assert_eq!(rig.access(Operation::LocalRead, region.key(), old.va, 1), Err(Status::Bounds));
    }
}

#[test]
fn a_chunk_goes_and_comes_back_elsewhere() {
    for hop in 0..=2_u8 {
        let mut rig = Rig::new(hop);
        // Chunks 1 and 3; without hops they would share a slot.
        let (gone, stays) = (Region::new(64), Region::new(3 * 64 + 1));
        rig.register(&gone);
        if hop > 0 {
            rig.register(&stays);
        }
        let slot = usize::from(hop == 0);
        let mut chunk = rig.device.engine.table_sets[0].table(Table::Mpt).bt0[slot].unwrap();
        // Where the pointer to the chunk is; `None` where the device holds it.
        let mut pointer = None;
        for level in 1..=hop {
            let at = if level == hop { chunk + 8 } else { chunk };
            pointer = Some(at);
            chunk = rig.memory.memory.read_u64(at).unwrap();
        }
        assert_eq!(rig.post(0x0f, gone.index, 0, 0), CommandStatus::Ok);
        assert_eq!(rig.post(0x28 + hop, gone.index, 0, 0), CommandStatus::Ok);
        rig.memory.memory.remove(chunk, 4096);
        if let Some(pointer) = pointer {
            assert_eq!(rig.memory.memory.read_u64(pointer), Ok(chunk), "the stale pointer stays in memory");
        }
        let missing = if hop == 0 { Status::Bt0Unset } else { Status::HemBusError };
        assert_eq!(rig.access(Operation::LocalRead, gone.key(), gone.va, 1), Err(missing));
        let refusal = if hop == 0 { CommandStatus::Unmapped } else { CommandStatus::BusError };
        rig.refuse(0x0f, gone.index, 0, 0, refusal);

        // The host uses the page for a page table: addresses are no valid entries.
        rig.memory.memory.back(chunk, 4096);
        for number in 0..512 {
            rig.memory.memory.write_u64(chunk + 8 * number, 0x7_0000_0000 + number * 0x1000).unwrap();
        }
        let stale = rig.access(Operation::LocalRead, gone.key(), gone.va, 1);
        assert_eq!(stale, Err(if hop == 0 { Status::Bt0Unset } else { Status::EntryState }));

        // The chunk comes back elsewhere. The other chunks have not moved.
        let page = rig.page();
        if let Some(pointer) = pointer {
            rig.memory.memory.write_u64(pointer, page).unwrap();
        }
        assert_eq!(rig.post(0x20 + hop, gone.index, page, 0), CommandStatus::Ok);
        let again = Region { first_page: 0x5_0000_0000, ..gone.clone() };
        rig.register(&again);
        assert_eq!(rig.access(Operation::LocalRead, again.key(), again.va, 1), Ok(again.pa(again.va)));
        if hop > 0 {
            assert_eq!(rig.access(Operation::LocalRead, stays.key(), stays.va, 1), Ok(stays.pa(stays.va)));
        }
        assert_eq!(rig.memory.memory.read_u64(chunk + 8), Ok(0x7_0000_1000), "nothing was written where it was");
    }
}

/// A page table of 3 hops of which only the parts that are asked for exist.
struct SparseTable {
    root: u64,
    tables: HashMap<(u8, u64), u64>,
}

impl SparseTable {
    /// Makes the way to a page, and the page's entry.
    fn back(&mut self, rig: &mut Rig, page: u64, address: u64) {
        let mut table = self.root;
        for (level, index) in [(1, page >> 18), (2, page >> 9)] {
            let position = if level == 1 { index } else { index & 511 };
            table = *self.tables.entry((level, index)).or_insert_with(|| {
                let lower = rig.page();
                rig.memory.memory.write_u64(table + 8 * position, lower).unwrap();
                lower
            });
        }
        rig.memory.memory.write_u64(table + 8 * (page & 511), address).unwrap();
    }
}

#[test]
fn a_region_of_100_gib_takes_no_longer_than_a_small_one() {
    const LENGTH: u64 = 100 << 30;
    const FIRST: u64 = 0x4000_0000_0000 + 0x345;
    let mut rig = Rig::new(3);
    let pages = (LENGTH >> 12) + 1;
    // 100 entries and the one for the last page, in a page of its own.
    let mut table = SparseTable { root: rig.page() + 64, tables: HashMap::new() };
    let region = Region { va: FIRST, length: LENGTH, hop: 3, ..Region::new(70) };
    assert_eq!(region.pages(), pages);
    let page_address = |page: u64| 0x10_0000_0000_0000 + page * 0x3000;
    let seed = 5;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut asked = vec![0, 1, 511, 512, (1 << 18) - 1, 1 << 18, pages - 2, pages - 1];
    asked.extend((0..2000).map(|_| random.random_range(0..pages)));
    for page in &asked {
        table.back(&mut rig, *page, page_address(*page));
    }
    let accesses = |rig: &mut Rig, region: &Region, root: u64| {
        let count = |rig: &Rig| rig.memory.reads.get() + rig.memory.writes;
        rig.map(region.index);
        rig.fill_buffer(&Rig::region_entry(region, root));
        let mut counts = Vec::new();
        for (code, input, output) in [(0x0d, BUFFER, 0), (0x62, 0, BUFFER), (0x0f, 0, 0), (0x0d, BUFFER, 0)] {
            let before = count(rig);
            assert_eq!(rig.post(code, region.index, input, output), CommandStatus::Ok);
            counts.push(count(rig) - before);
        }
        counts
    };
    let large = accesses(&mut rig, &region, table.root);
    let one = Region { length: 0x100, va: 0x1000, ..Region::new(71) };
    let root = rig.page_table(1, &[0x7000]);
    assert_eq!(large, accesses(&mut rig, &one, root));

    for page in asked {
        let va = (FIRST & !0xfff) + page * 0x1000;
        let va = va.clamp(FIRST, FIRST + LENGTH - 1);
        let found = rig.access(Operation::RemoteRead, region.key(), va, 1);
        assert_eq!(found, Ok(page_address(page) + va % 0x1000), "page {page}, seed {seed}");
    }
    assert_eq!(rig.access(Operation::RemoteRead, region.key(), FIRST + LENGTH, 1), Err(Status::Bounds));
}

#[test]
fn commands_take_a_bounded_number_of_accesses() {
    let mut rig = Rig::new(3);
    let (region, other) = (Region::new(40), Region::new(1 << 18));
    rig.register(&region);
    rig.register(&other);
    rig.create_window(1 << 19, 1);
    let window = key::of_index(1 << 19);
    // A lookup is three pointers and the entry; besides each entry is written once.
    let lookup = 3 + 1;
    let max = u64::from(LOOKUPS_MAX) * (lookup + 1);
    let requests = [
        Rig::bind(1, window | 1, region.key(), region.va, 0x100),
        Rig::bind(1, window | 2, other.key(), other.va, 0x100),
        with(Rig::bind(1, window | 3, 0, 0, 0x100), bind_window::LENGTH, 0),
    ];
    let mut largest = 0;
    for request in requests {
        let before = rig.memory.reads.get() + rig.memory.writes;
        assert_eq!(rig.work(&request), WorkStatus::Ok);
        largest = largest.max(rig.memory.reads.get() + rig.memory.writes - before);
    }
    assert_eq!(largest, max, "a move from one region to another is the longest");
}

#[test]
fn functions_with_tables_of_their_own_do_not_meet() {
    let mut rig = Rig::new(1);
    let region = Region::new(5);
    rig.register(&region);
    rig.device.engine.table_sets.push(TableSet::default());
    rig.device.engine.function_map[4] = 1;
    let tables = rig.tables();
    let set = rig.device.engine.table_sets[0].clone();
    rig.function = 4;
    for code in [0x0d, 0x0f, 0x62] {
        rig.refuse(code, 5, BUFFER, BUFFER, CommandStatus::Unmapped);
    }
    let page = rig.page();
    rig.post(0x20, 5, page, 0);
    rig.post(0x28, 5, 0, 0);
    rig.post(0x20, 5, page, 0);
    rig.fill_buffer(&Rig::region_entry(&region, 0x8000));
    assert_eq!(rig.post(0x0d, 5, BUFFER, 0), CommandStatus::Ok);
    assert!(tables == rig.tables() && set == rig.device.engine.table_sets[0]);
    rig.function = 0;
    assert_eq!(rig.access(Operation::RemoteRead, region.key(), region.va, 8), Ok(region.pa(region.va)));
}

/// What a function does at its next turn.
#[derive(Clone, Copy)]
enum Turn {
    /// Binds its window to the shared region.
    Bind,
    /// Invalidates its window's newest key.
    Invalidate,
    /// Destroys the shared region.
    Destroy,
    /// Creates the shared region, with pages of its own.
    Create,
    /// Destroys its window.
    DestroyWindow,
}

/// All orders of `left` turns of one and `right` of the other.
fn orders(left: usize, right: usize) -> Vec<Vec<usize>> {
    if left == 0 || right == 0 {
        return vec![[vec![0; left], vec![1; right]].concat()];
    }
    let first = |turn: usize, rest: Vec<Vec<usize>>| rest.into_iter().map(move |rest| [vec![turn], rest].concat());
    first(0, orders(left - 1, right)).chain(first(1, orders(left, right - 1))).collect()
}

#[test]
fn two_functions_that_race_on_a_region_leave_it_in_order() {
    use Turn::*;
    let turns: [&[Turn]; 2] =
        [&[Bind, Destroy, Invalidate, Destroy, Create], &[Bind, Create, Invalidate, Bind, DestroyWindow, Destroy]];
    let shared =
        |function: usize| Region { first_page: 0x9_0000_0000 + 0x1000_0000 * function as u64, ..Region::new(50) };
    let windows = [60_u32, 61];
    let mut refusals = 0;
    for order in orders(turns[0].len(), turns[1].len()) {
        let mut rig = Rig::new(1);
        rig.register(&shared(0));
        // Whose pages the region has, while it is there.
        let mut owner = Some(0);
        let roots = [0, 1].map(|function| {
            let region = shared(function);
            rig.page_table(1, &(0..region.pages()).map(|page| region.page(page)).collect::<Vec<_>>())
        });
        for window in windows {
            rig.create_window(window, 2);
        }
        let mut variants = [0_u32; 2];
        let mut next = [0; 2];
        for function in order {
            let turn = turns[function][next[function]];
            next[function] += 1;
            rig.function = function as u8;
            let window_key = |variant: u32| key::of_index(windows[function]) | variant;
            let region = shared(function);
            match turn {
                Bind => {
                    let request = Rig::bind(2, window_key(variants[function] + 1), region.key(), region.va, 0x1000);
                    let status = rig.work(&request);
                    variants[function] += u32::from(status == WorkStatus::Ok);
                    assert_eq!(status == WorkStatus::Ok, owner.is_some());
                }
                Invalidate => {
                    rig.work(&Rig::local_invalidate(window_key(variants[function])));
                }
                Destroy => match rig.post(0x0f, 50, 0, 0) {
                    CommandStatus::Ok => owner = None,
                    status => {
                        assert_eq!(status, CommandStatus::WindowsBound);
                        refusals += 1;
                    }
                },
                Create => {
                    rig.fill_buffer(&Rig::region_entry(&region, roots[function]));
                    match rig.post(0x0d, 50, BUFFER, 0) {
                        CommandStatus::Ok => owner = Some(function),
                        status => {
                            assert_eq!(status, CommandStatus::WindowsBound);
                            refusals += 1;
                        }
                    }
                }
                DestroyWindow => assert_eq!(rig.post(0x0f, windows[function], 0, 0), CommandStatus::Ok),
            }
            // The region counts its windows, and no access leads anywhere but into the pages of who created it last.
            let bound = windows.iter().filter(|window| {
                let entry = rig.entry(**window);
                entry.get(ST) == STATE_VALID && entry.get(BOUND_LKEY) == u64::from(region.key())
            });
            let bound = bound.count() as u64;
            assert!(owner.is_some() || bound == 0, "a window is bound to nothing");
            if owner.is_some() {
                assert_eq!(rig.entry(50).get(MW_CNT), bound);
            }
            let direct = rig.access(Operation::RemoteRead, region.key(), region.va, 8);
            assert_eq!(direct.ok(), owner.map(|owner| shared(owner).pa(region.va)));
            for (window, variant) in windows.into_iter().zip(variants) {
                let found = rig.access(Operation::RemoteRead, key::of_index(window) | variant, region.va, 8);
                let is_bound = rig.entry(window).get(ST) == STATE_VALID;
                assert_eq!(found.is_ok(), is_bound);
                assert!(found.is_err() || found.ok() == direct.ok());
            }
        }
    }
    assert!(refusals > 100, "{refusals} refusals: the functions hardly met");
}

#[test]
fn registrations_at_random_follow_a_plain_account() {
    let seed = 11;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut rig = Rig::new(2);
    let roots: Vec<u64> = (0..8_u64)
        .map(|number| rig.create_fast(40 + number as u32, &[(number + 1) << 32, (number + 1) << 32 | 0x5000]))
        .collect();
    // The key that is good, by number.
    let mut good = [None; 8];
    for step in 0..5000 {
        let number: usize = random.random_range(0..8);
        let key: u32 = key::of_index(40 + number as u32) | random.random_range(0..4);
        let pd = if random.random_range(0..8) == 0 { PD_A + 1 } else { PD_A };
        let is_own = pd == PD_A;
        let place = format!("seed {seed}, step {step}");
        match random.random_range(0..3) {
            0 => {
                let request = WorkRequest { pd, ..Rig::fast_register(key, roots[number], 0x10_0000, 0x2000, 2) };
                let request = with(request, fast_register::BIND_EN, 0);
                let expected = match (good[number], is_own) {
                    (Some(_), _) => WorkStatus::State,
                    (None, false) => WorkStatus::ProtectionDomain,
                    (None, true) => WorkStatus::Ok,
                };
                assert_eq!(rig.work(&request), expected, "{place}");
                if expected == WorkStatus::Ok {
                    good[number] = Some(key);
                }
            }
            1 => {
                let invalidate = if random.random() { Rig::local_invalidate } else { Rig::remote_invalidate };
                let expected = match good[number] {
                    None => WorkStatus::State,
                    Some(good) if good != key => WorkStatus::Key,
                    Some(_) if !is_own => WorkStatus::ProtectionDomain,
                    Some(_) => WorkStatus::Ok,
                };
                assert_eq!(rig.work(&WorkRequest { pd, ..invalidate(key) }), expected, "{place}");
                if expected == WorkStatus::Ok {
                    good[number] = None;
                }
            }
            _ => {
                let expected = match good[number] {
                    None => Err(Status::EntryState),
                    Some(good) if good != key => Err(Status::EntryKey),
                    Some(_) if !is_own => Err(Status::ProtectionDomain),
                    Some(_) => Ok((number as u64 + 1) << 32 | 0x5abc),
                };
                let found = rig.access_as(Operation::RemoteWrite, key, 0x10_1abc, 4, pd, QPN);
                assert_eq!(found, expected, "{place}");
            }
        }
    }
}
