//! What the builder writes, read back bit by bit.

use keywalk_contract::mpt_entry::*;
use keywalk_contract::{Field, Right, Table, key};
use keywalk_image::{
    BuiltRegion, Description, Image, PAGE_BYTES, PageList, QueueBufferDescription, QueueBufferRegionDescription,
    RegionDescription, RegionKind, Rights, TableDescription, TableSetDescription,
};

fn image(regions: Vec<RegionDescription>) -> Image {
    let mpt = TableDescription {
        table: Table::Mpt,
        hop: 2,
        ba_pg_sz: 1,
        buf_pg_sz: 2,
        entry_bytes: 64,
        bt_num: 16,
        object_count: 0,
    };
    let set = TableSetDescription { tables: vec![mpt], regions, ..TableSetDescription::default() };
    Description { seed: 5, table_sets: vec![set], ..Description::default() }.build().unwrap()
}

/// The fields of a region's entry that are not zero, by the contract's own slow reading.
fn fields(image: &Image, region: &BuiltRegion) -> Vec<(Field, u64)> {
    let mut bytes = [0; ENTRY_BYTES as usize];
    image.memory.read(region.entry_address, &mut bytes).unwrap();
    let values = LAYOUT.fields.iter().map(|field| (*field, field.get(&bytes)));
    values.filter(|(_, value)| *value != 0).collect()
}

#[track_caller]
fn check(image: &Image, number: usize, expected: &[(Field, u64)]) {
    let mut expected: Vec<_> = expected.iter().copied().filter(|(_, value)| *value != 0).collect();
    expected.sort_by_key(|(field, _)| field.low);
    assert_eq!(fields(image, &image.table_sets[0].regions[number]), expected);
}

#[test]
fn each_kind_is_written_as_the_contract_says() {
    let named =
        |kind, name: &str| RegionDescription { name: name.into(), kind, pd: 0x1234, ..RegionDescription::default() };
    let user = RegionDescription {
        length_bytes: 0x2000,
        va: 0x7000_0900,
        pages: PageList::Explicit { addresses: vec![0xaaaa_a000, 0xbbbb_b000, 0xcccc_c000] },
        rights: Rights::NONE.with(Right::RemoteRead).with(Right::Atomic),
        index: Some(0x56_789a),
        variant: 0xfe,
        ba_pg_sz: 3,
        ..named(RegionKind::Mr, "user")
    };
    let fast = RegionDescription {
        length_bytes: 0x4_0000,
        page_bytes: 0x1_0000,
        va: 0x10_0000,
        rights: Rights::ALL,
        ..named(RegionKind::Frmr, "fast")
    };
    let window =
        RegionDescription { window_type: 2, bind_qpn: 0x77, bound_key: 0x900, ..named(RegionKind::MwValid, "window") };
    let one_page = RegionDescription {
        length_bytes: 16,
        pages: PageList::Contiguous { first: 0xdddd_d000 },
        ..named(RegionKind::Mr, "one page")
    };
    let image = image(vec![
        user,
        named(RegionKind::DmaMr, "dma"),
        named(RegionKind::FrmrFree, "free"),
        fast,
        named(RegionKind::Mw, "mw"),
        window,
        one_page,
    ]);
    let regions = &image.table_sets[0].regions;
    let root = |number: usize| (PBL_BA, regions[number].root >> 3);
    let lkey = |number: usize| (LKEY, u64::from(regions[number].key));
    let pd = (PD, 0x1234);
    assert_eq!(regions[0].key, key::of_index(0x56_789a) | 0xfe);
    let indices: Vec<_> = regions[1..].iter().map(|region| region.index).collect();
    assert_eq!(indices, [1, 2, 3, 4, 5, 6]);

    let user = [
        (ST, STATE_VALID),
        (PBL_HOP_NUM, 1),
        (PBL_BA_PG_SZ, 3),
        pd,
        (ATOMIC_EN, 1),
        (RR_EN, 1),
        (INNER_PA_VLD, 1),
        (LEN, 0x2000),
        lkey(0),
        (VA, 0x7000_0900),
        (PBL_SIZE, 3),
        root(0),
        (PA0, 0xaaaa_a000 >> 6),
        (PA1, 0xbbbb_b000 >> 6),
    ];
    check(&image, 0, &user);
    check(&image, 1, &[(ST, STATE_VALID), pd, (PA, 1), lkey(1)]);
    let fast = [(RA_EN, 1), (R_INV_EN, 1), (FRE, 1), (BPD, 1), pd, (PBL_HOP_NUM, 1)];
    check(&image, 2, &[&fast[..], &[(ST, STATE_FREE), (PBL_SIZE, 512), root(2)]].concat());
    let registered = [
        (ST, STATE_VALID),
        (LW_EN, 1),
        (RR_EN, 1),
        (RW_EN, 1),
        (ATOMIC_EN, 1),
        (BIND_EN, 1),
        (LEN, 0x4_0000),
        lkey(3),
        (VA, 0x10_0000),
        (PBL_SIZE, 4),
        root(3),
        (PBL_BUF_PG_SZ, 4),
    ];
    check(&image, 3, &[&fast[..], &registered].concat());
    let window = [pd, (R_INV_EN, 1), (LW_EN, 1), (MR_MW, 1), (BPD, 1)];
    check(&image, 4, &[&window[..], &[(ST, STATE_FREE), lkey(4)]].concat());
    let bound = [(ST, STATE_VALID), lkey(5), (BQP, 1), (MW_BIND_QPN, 0x77), (BOUND_LKEY, 0x900)];
    check(&image, 5, &[&window[..], &bound].concat());
    let one_page = [
        (ST, STATE_VALID),
        pd,
        (INNER_PA_VLD, 1),
        (LEN, 16),
        lkey(6),
        (PBL_SIZE, 1),
        (PBL_BA, 0xdddd_d000 >> 3),
        (PA0, 0xdddd_d000 >> 6),
    ];
    check(&image, 6, &one_page);
}

#[test]
fn a_root_is_unaligned_and_nothing_around_it_may_be_used() {
    let region = |number: u64| RegionDescription {
        name: format!("r{number}"),
        length_bytes: 20 * PAGE_BYTES,
        ..RegionDescription::default()
    };
    let image = image((0..50).map(region).collect());
    let regions = &image.table_sets[0].regions;
    assert!(regions.iter().any(|region| !region.root.is_multiple_of(64)), "some roots are aligned to 8 bytes only");
    for region in regions {
        for index in 0..20 {
            assert_eq!(image.memory.read_u64(region.root + 8 * index).ok(), region.pages.get(index));
        }
        let base = region.root / PAGE_BYTES * PAGE_BYTES;
        let end = (region.root + 8 * 20).next_multiple_of(PAGE_BYTES);
        for address in (base..region.root).chain(region.root + 8 * 20..end).step_by(8) {
            let entry = image.memory.read_u64(address).unwrap();
            assert!(entry % 16 == 1, "{entry:#x} at {address:#x} could be taken for a page");
        }
        assert!(!image.memory.is_backed(base - 1) && !image.memory.is_backed(end), "a guard on either side");
    }
}

#[test]
fn lower_tables_are_aligned_and_full() {
    let region = RegionDescription {
        length_bytes: 3000 * PAGE_BYTES,
        ba_pg_sz: 1,
        hop: Some(2),
        ..RegionDescription::default()
    };
    let image = image(vec![region]);
    let region = &image.table_sets[0].regions[0];
    for table in 0..3 {
        let address = image.memory.read_u64(region.root + 8 * table).unwrap();
        assert!(address.is_multiple_of(8192));
        for entry in 0..1024 {
            let page = region.pages.get(table * 1024 + entry).unwrap_or(0);
            assert_eq!(image.memory.read_u64(address + 8 * entry), Ok(page));
        }
    }
}

#[test]
fn the_roots_of_a_queue_buffer_stand_one_behind_the_other() {
    let region = |hop, count| QueueBufferRegionDescription { count, hop, pages: None };
    let buffer =
        |name: &str, regions| QueueBufferDescription { name: name.into(), page_bytes: 4096, ba_pg_sz: 0, regions };
    let queue_buffers = vec![
        buffer("walked", vec![region(2, 1100), region(3, 0), region(1, 7)]),
        buffer("direct", vec![region(0, 3), region(0, 0), region(0, 2)]),
    ];
    let set = TableSetDescription { queue_buffers, ..TableSetDescription::default() };
    let image = Description { table_sets: vec![set], ..Description::default() }.build().unwrap();
    let [walked, direct] = &image.table_sets[0].queue_buffers[..] else { panic!("two buffers") };
    let root = walked.regions[0].root;
    assert_eq!(walked.regions[1].root, root + 8 * 3);
    assert_eq!(walked.regions[2].root, root + 8 * 3);
    assert_eq!(image.memory.read_u64(root + 8 * 3).ok(), walked.regions[2].pages.get(0));
    let first = direct.regions[0].root;
    assert_eq!(direct.regions[0].pages.get(2), Some(first + 0x2000));
    assert_eq!(direct.regions[2].root, first + 0x3000);
    assert_eq!(direct.regions[2].pages.get(1), Some(first + 0x4000));
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let description = |seed| {
        let mut set = TableSetDescription {
            tables: vec![TableDescription {
                table: Table::Mpt,
                hop: 3,
                ba_pg_sz: 0,
                buf_pg_sz: 0,
                entry_bytes: 64,
                bt_num: 1,
                object_count: 0,
            }],
            ..TableSetDescription::default()
        };
        for number in 0..20 {
            let length_bytes = number * 0x1_2345 + 1;
            set.regions.push(RegionDescription { length_bytes, ..RegionDescription::default() });
        }
        Description { seed, table_sets: vec![set], ..Description::default() }
    };
    let (first, again, other) =
        (description(1).build().unwrap(), description(1).build().unwrap(), description(2).build().unwrap());
    assert_eq!(first.table_sets, again.table_sets);
    for region in &first.table_sets[0].regions {
        assert_eq!(first.memory.line(region.entry_address), again.memory.line(region.entry_address));
    }
    assert_ne!(first.table_sets[0].tables, other.table_sets[0].tables);
    assert_ne!(first.table_sets[0].regions[5].pages, other.table_sets[0].regions[5].pages);
}

#[test]
fn the_true_address_of_a_byte_comes_from_the_page_list() {
    let region = RegionDescription {
        length_bytes: 0x1000,
        va: 0x5800,
        pages: PageList::Explicit { addresses: vec![0x9000, 0] },
        allow_holes: true,
        ..RegionDescription::default()
    };
    let image = image(vec![region, RegionDescription { kind: RegionKind::Mw, ..RegionDescription::default() }]);
    let [region, window] = &image.table_sets[0].regions[..] else { panic!("two regions") };
    assert_eq!(region.pa(0x57ff), None);
    assert_eq!(region.pa(0x5800), Some(0x9800));
    assert_eq!(region.pa(0x5fff), Some(0x9fff));
    assert_eq!(region.pa(0x6000), None, "a hole");
    assert_eq!(region.pa(0x6800), None);
    assert_eq!(window.pa(0), None);
}

#[test]
fn large_tables_take_room_only_where_they_are_written() {
    let mpt = TableDescription {
        table: Table::Mpt,
        hop: 3,
        ba_pg_sz: 15,
        buf_pg_sz: 15,
        entry_bytes: 64,
        bt_num: 1,
        object_count: 0,
    };
    let region = RegionDescription { length_bytes: 4096, hop: Some(3), ba_pg_sz: 15, ..RegionDescription::default() };
    let set = TableSetDescription { tables: vec![mpt], regions: vec![region], ..TableSetDescription::default() };
    let image = Description { table_sets: vec![set], ..Description::default() }.build().unwrap();
    assert!(image.memory.pages_written() <= 8);
    let base = image.table_sets[0].tables[&Table::Mpt].bt0[&0];
    assert!(!base.is_multiple_of(PAGE_BYTES << 15), "a BA page need not be aligned to its size");
}

#[test]
fn tables_lie_in_the_room_that_is_given() {
    let pages = PageList::Explicit { addresses: (0..600).map(|page| 0x4000_0000 + page * PAGE_BYTES).collect() };
    let region =
        RegionDescription { length_bytes: 600 * PAGE_BYTES, pages, hop: Some(3), ..RegionDescription::default() };
    let mpt = TableDescription {
        table: Table::Mpt,
        hop: 2,
        ba_pg_sz: 0,
        buf_pg_sz: 0,
        entry_bytes: 64,
        bt_num: 1,
        object_count: 0,
    };
    let set = TableSetDescription { tables: vec![mpt], regions: vec![region], ..TableSetDescription::default() };
    let room = 0x3_0000_0000..0x3_0010_0000;
    for seed in 0..20 {
        let description = Description { seed, table_sets: vec![set.clone()], ..Description::default() };
        let image = description.build_in(room.clone()).unwrap();
        let pages: Vec<_> = image.memory.backed_pages().collect();
        // Three pages of the context table, and of the page table a root, a middle table and two leaf tables.
        assert_eq!(pages.iter().map(|pages| pages.end - pages.start).sum::<u64>(), 7);
        for run in pages {
            assert!(
                run.start * PAGE_BYTES > room.start && run.end * PAGE_BYTES < room.end,
                "{run:?}: a guard beside each"
            );
        }
        let full = description.build_in(room.start..room.start + 8 * PAGE_BYTES).unwrap_err().to_string();
        assert!(full.contains("no room") || full.contains("room"), "{full}");
    }
}
