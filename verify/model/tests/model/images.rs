//! The model on images: what it translates is what the page lists say, for geometries of all kinds.

use keywalk_contract::{Operation, Table};
use keywalk_image::{
    BuiltRegion, Description, Image, ObjectDescription, PageList, QueueBufferDescription, QueueBufferRegionDescription,
    RegionDescription, RegionKind, Rights, TableDescription, TableSetDescription,
};
use keywalk_model::{
    BusError, ContextQuery, ContextRequest, Engine, Geometry, Memory, Request, Response, Segment, TableSet,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The engine that software would set up for an image. Function number = table set.
fn engine(image: &Image) -> Engine {
    let sets = image.table_sets.iter().map(|built| {
        let mut set = TableSet {
            num_mpts_log2: built.num_mpts_log2,
            page_shift_base: built.page_shift_base,
            ..TableSet::default()
        };
        for (table, built) in &built.tables {
            let table = set.table_mut(*table);
            table.geometry = Geometry {
                hop: built.hop,
                ba_pg_sz: built.ba_pg_sz,
                buf_pg_sz: built.buf_pg_sz,
                entry_bytes_log2: built.entry_bytes_log2,
                bt_num: built.bt_num,
                object_count: built.object_count,
            };
            for (slot, base) in &built.bt0 {
                table.set_bt0(*slot, Some(*base));
            }
        }
        set.validate().unwrap();
        set
    });
    let mut engine = Engine::new(sets.collect());
    for function in 0..image.table_sets.len() {
        engine.function_map[function] = function as u8;
    }
    engine
}

fn reader(image: &Image) -> impl Memory {
    |address: u64, bytes: &mut [u8]| image.memory.read(address, bytes).map_err(|_| BusError)
}

/// The segments that the page list makes of a request: pages joined where they touch.
fn expected(region: &BuiltRegion, va: u64, length: u32) -> Vec<Segment> {
    let page_bytes = 1_u64 << region.pages.page_shift();
    let mut segments: Vec<Segment> = Vec::new();
    let (mut at, mut left) = (va, u64::from(length));
    while left > 0 {
        let count = left.min(page_bytes - at % page_bytes);
        let pa = region.pa(at).unwrap_or_else(|| panic!("{at:#x} is not in region {}", region.name));
        match segments.last_mut() {
            Some(last) if last.pa.checked_add(last.length_bytes.into()) == Some(pa) => {
                last.length_bytes += count as u32
            }
            _ => segments.push(Segment { pa, length_bytes: count as u32 }),
        }
        at = at.wrapping_add(count);
        left -= count;
    }
    segments
}

fn request(set: usize, region: &BuiltRegion, va: u64, length: u32) -> Request {
    Request {
        tag: 0,
        function: set as u8,
        operation: Operation::LocalRead.code(),
        key: region.key,
        pd: region.pd,
        qpn: 0,
        va,
        length,
    }
}

/// Asks for both ends of each region, some bytes, some runs, and just outside.
fn check(image: &Image, random: &mut ChaCha8Rng, what: &str) {
    let engine = engine(image);
    let memory = reader(image);
    for (set, built) in image.table_sets.iter().enumerate() {
        for region in built.regions.iter().filter(|region| region.length_bytes > 0) {
            let last = region.va + (region.length_bytes - 1);
            let mut ranges = vec![(region.va, 1), (last, 1)];
            for _ in 0..6 {
                let offset = random.random_range(0..region.length_bytes);
                let left = (region.length_bytes - offset).min(1 << 31).min(20 << region.pages.page_shift());
                ranges.push((region.va + offset, random.random_range(1..=left) as u32));
            }
            for (va, length) in ranges {
                let response = engine.translate(&memory, &request(set, region, va, length));
                let expected = Response { segments: expected(region, va, length), failure: None };
                assert_eq!(response, expected, "{what}: region {} at {va:#x}, {length} bytes", region.name);
            }
            let outside = [region.va.checked_sub(1), last.checked_add(1)];
            for va in outside.into_iter().flatten() {
                let response = engine.translate(&memory, &request(set, region, va, 1));
                assert_eq!(response.status(), keywalk_contract::Status::Bounds, "{what}: {va:#x}");
            }
        }
        for object in &built.objects {
            let query = ContextQuery::Lookup { table: object.table.code(), index: object.index };
            let response = engine.context(&memory, &ContextRequest { tag: 0, function: set as u8, query });
            assert_eq!(response.address, object.address, "{what}: {object:?}");
        }
        for buffer in &built.queue_buffers {
            for region in &buffer.regions {
                let count = region.pages.count() as u32;
                for index in (0..count).step_by(1 + count as usize / 50).chain(count.checked_sub(1)) {
                    let query = ContextQuery::Walk {
                        root: region.root,
                        hop: region.hop,
                        ba_pg_sz: buffer.ba_pg_sz,
                        buf_pg_sz: buffer.buf_pg_sz,
                        index,
                        count,
                    };
                    let response = engine.context(&memory, &ContextRequest { tag: 0, function: set as u8, query });
                    let page = region.pages.get(index.into()).unwrap();
                    assert_eq!(response.address, page, "{what}: buffer {} page {index}", buffer.name);
                }
            }
        }
    }
}

fn table(table: Table, hop: u8, bt_num: u32) -> TableDescription {
    TableDescription { table, hop, ba_pg_sz: 0, buf_pg_sz: 0, entry_bytes: 64, bt_num, object_count: 0 }
}

/// One region in one table set with an MPT of `hem_hop` hops.
fn single(hem_hop: u8, page_shift_base: u8, region: RegionDescription) -> Description {
    let set = TableSetDescription {
        page_shift_base,
        tables: vec![table(Table::Mpt, hem_hop, 1024)],
        regions: vec![region],
        ..TableSetDescription::default()
    };
    Description { table_sets: vec![set], ..Description::default() }
}

fn random_region(random: &mut ChaCha8Rng, number: usize, page_shift_base: u8) -> RegionDescription {
    let buf_pg_sz = random.random_range(0..=15);
    let page_shift = page_shift_base + buf_pg_sz;
    let page_bytes = 1_u64 << page_shift;
    let pages_log2 = random.random_range(0..=11);
    let pages = random.random_range(0..1_u64 << pages_log2);
    let length_bytes = (pages * page_bytes + random.random_range(1..=page_bytes)).max(1);
    let va = match random.random_range(0..8) {
        0 => 0,
        1 => 0_u64.wrapping_sub(length_bytes),
        _ => random.random_range(0..u64::MAX - length_bytes),
    };
    let list = match random.random_range(0..3) {
        0 => PageList::Contiguous { first: random.random_range(1..1 << 20) << 31 },
        1 => PageList::Scattered { seed: random.random(), run_pages: random.random_range(1..5) },
        _ => PageList::default(),
    };
    RegionDescription {
        name: format!("r{number}"),
        length_bytes,
        va,
        page_bytes,
        pages: list,
        pd: random.random_range(0..1 << 24),
        rights: Rights::from_number(random.random_range(0..64)).unwrap(),
        variant: random.random(),
        // Two lower levels at most, and one more than needed now and then.
        hop: random.random_bool(0.3).then_some(if pages < 511 { random.random_range(1..=3) } else { 3 }),
        ba_pg_sz: random.random_range(0..4),
        ..RegionDescription::default()
    }
}

fn random_description(random: &mut ChaCha8Rng) -> Description {
    let sets = (0..random.random_range(1..=3)).map(|_| {
        let page_shift_base = random.random_range(12..=15);
        let hop = random.random_range(0..=3);
        let mut mpt = table(Table::Mpt, hop, random.random_range(100..=1024));
        mpt.ba_pg_sz = random.random_range(0..3);
        mpt.buf_pg_sz = random.random_range(0..4);
        // With hop 0, indices end where the BT0 slots do.
        let index_end = if hop == 0 { mpt.bt_num << 6 } else { 1 << 21 };
        let regions = (0..random.random_range(1..30)).map(|number| {
            let mut region = random_region(random, number, page_shift_base);
            // Unique: the low bits are the number.
            region.index = Some(random.random_range(0..index_end >> 5) << 5 | number as u32);
            region
        });
        let regions = regions.collect();
        let mut tables = vec![mpt];
        let mut objects = Vec::new();
        for (context, entry_bytes) in [(Table::Qpc, 512), (Table::Cqc, 64), (Table::Srqc, 64), (Table::Sccc, 32)] {
            let hop = random.random_range(0..=3);
            tables.push(TableDescription { entry_bytes, ..table(context, hop, random.random_range(1..=1024)) });
            let chunk_objects = 4096 / entry_bytes;
            let chunks = tables.last().map_or(0, |table| table.bt_num) << (9 * hop).min(12);
            let index_end = chunk_objects * chunks;
            for _ in 0..10 {
                objects.push(ObjectDescription { table: context, index: random.random_range(0..index_end) });
            }
        }
        let region = |hop, count| QueueBufferRegionDescription { count, hop, pages: None };
        let hop = random.random_range(1..=3);
        let queue_buffers = vec![
            QueueBufferDescription {
                name: "direct".into(),
                page_bytes: 1 << page_shift_base,
                ba_pg_sz: 0,
                regions: vec![region(0, 3), region(0, 0), region(0, 5)],
            },
            QueueBufferDescription {
                name: "walked".into(),
                page_bytes: 4 << page_shift_base,
                ba_pg_sz: random.random_range(0..3),
                regions: vec![
                    region(2, random.random_range(0..3000)),
                    region(1, random.random_range(0..100)),
                    region(hop, random.random_range(0..100)),
                ],
            },
        ];
        TableSetDescription { num_mpts_log2: 24, page_shift_base, tables, regions, objects, queue_buffers }
    });
    let table_sets = sets.collect();
    Description { seed: random.random(), address_bits: random.random_range(48..=64), table_sets }
}

#[test]
fn random_images_translate_to_their_page_lists() {
    for seed in 0..40 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let description = random_description(&mut random);
        let image = description.build().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        check(&image, &mut random, &format!("seed {seed}"));
    }
}

#[test]
fn every_page_size_with_every_number_of_hops() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for page_shift in 12..=30 {
        for hop in 0..=3 {
            let page_bytes = 1 << page_shift;
            let region = RegionDescription {
                name: format!("2^{page_shift} hop {hop}"),
                length_bytes: if hop == 0 { page_bytes / 2 } else { 40 * page_bytes + 5 },
                va: 0x5555 * page_bytes + page_bytes / 4,
                page_bytes,
                hop: Some(hop),
                ..RegionDescription::default()
            };
            for page_shift_base in (12..=15).filter(|base| (*base..=base + 15).contains(&page_shift)) {
                let image = single(hop, page_shift_base, region.clone()).build().unwrap();
                check(&image, &mut random, &region.name);
            }
        }
    }
}

#[test]
fn thousands_of_regions_under_a_hem_of_three_hops() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let region = |number: u32| RegionDescription {
        name: format!("r{number}"),
        length_bytes: 1 + u64::from(number) * 37 % 20_000,
        va: u64::from(number) << 32 | 0xabc,
        variant: number as u8,
        // All over the index space: every level has more than one entry.
        index: Some(number * 3347 % (1 << 24)),
        ..RegionDescription::default()
    };
    let mut set = single(3, 12, RegionDescription::default()).table_sets.remove(0);
    set.regions = (0..5000).map(region).collect();
    let image = Description { table_sets: vec![set], ..Description::default() }.build().unwrap();
    check(&image, &mut random, "5000 regions");
}

#[test]
fn a_region_above_100_gib_takes_three_hops() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let region = RegionDescription {
        name: "large".into(),
        length_bytes: (100 << 30) + 0x12345,
        va: 0x7f12_3456_7890,
        page_bytes: 64 << 10,
        pages: PageList::Scattered { seed: 1, run_pages: 3 },
        ..RegionDescription::default()
    };
    let image = single(2, 12, region).build().unwrap();
    assert_eq!(image.table_sets[0].regions[0].hop, 3);
    check(&image, &mut random, "100 GiB");
}

#[test]
fn pages_of_1_gib_and_a_region_of_terabytes() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let region = RegionDescription {
        name: "huge".into(),
        length_bytes: 5 << 40,
        va: (1 << 50) - 1,
        page_bytes: 1 << 30,
        ..RegionDescription::default()
    };
    let mut description = single(1, 15, region);
    description.address_bits = 58;
    check(&description.build().unwrap(), &mut random, "1 GiB pages");
}

#[test]
fn the_longest_request_has_a_segment_for_each_of_its_pages() {
    let region =
        RegionDescription { name: "long".into(), length_bytes: 3 << 30, va: 0x800, ..RegionDescription::default() };
    let image = single(1, 12, region).build().unwrap();
    let region = &image.table_sets[0].regions[0];
    let request = request(0, region, 0x1801, 1 << 31);
    let engine = engine(&image);
    let memory = reader(&image);
    let (mut va, mut count) = (request.va, 0);
    for segment in engine.segments(&memory, &request, ()) {
        let segment = segment.unwrap();
        assert_eq!(Some(segment.pa), region.pa(va));
        va += u64::from(segment.length_bytes);
        count += 1;
    }
    assert_eq!(va, request.va + (1 << 31));
    assert_eq!(count, (1 << 19) + 1);
}

#[test]
fn kinds_without_pages_answer_as_their_state_says() {
    use keywalk_contract::Status;
    let kinds = [
        (RegionKind::FrmrFree, 0, Status::EntryState),
        (RegionKind::Mw, 0, Status::EntryState),
        (RegionKind::MwValid, 0, Status::WindowUnbound),
        (RegionKind::MwValid, 0x900, Status::WindowParent),
        (RegionKind::DmaMr, 0, Status::Ok),
    ];
    for (kind, bound_key, status) in kinds {
        let is_window = kind == RegionKind::MwValid;
        let region = RegionDescription {
            kind,
            bound_key,
            va: if is_window { 0x1000 } else { 0 },
            length_bytes: if is_window { 0x1000 } else { 0 },
            rights: Rights::ALL,
            ..RegionDescription::default()
        };
        let image = single(0, 12, region).build().unwrap();
        let region = &image.table_sets[0].regions[0];
        let mut request = request(0, region, 0x1234, 0x40);
        request.operation = Operation::RemoteRead.code();
        let response = engine(&image).translate(&reader(&image), &request);
        assert_eq!(response.status(), status, "{kind:?}");
        if kind == RegionKind::DmaMr {
            assert_eq!(response.segments, [Segment { pa: 0x1234, length_bytes: 0x40 }]);
        }
    }
}

#[test]
fn holes_and_misaligned_pages_translate_as_listed() {
    let region = RegionDescription {
        length_bytes: 3 * 4096,
        pages: PageList::Explicit { addresses: vec![0x1234_5678, 0, 0x3000] },
        allow_misaligned_pages: true,
        allow_holes: true,
        ..RegionDescription::default()
    };
    let image = single(0, 12, region).build().unwrap();
    let region = &image.table_sets[0].regions[0];
    let response = engine(&image).translate(&reader(&image), &request(0, region, 4, 3 * 4096 - 4));
    assert_eq!(response.segments, [Segment { pa: 0x1234_567c, length_bytes: 4092 }]);
    assert_eq!(response.status(), keywalk_contract::Status::MtrNotPresent);
    let response = engine(&image).translate(&reader(&image), &request(0, region, 0x2000, 4096));
    assert_eq!(response.segments, [Segment { pa: 0x3000, length_bytes: 4096 }]);
}
