//! Every refusal, with its message.

use keywalk_contract::Table;
use keywalk_image::{
    Description, ObjectDescription, PageList, QueueBufferDescription, QueueBufferRegionDescription, RegionDescription,
    RegionKind, TableDescription, TableSetDescription,
};

const MPT: TableDescription = TableDescription {
    table: Table::Mpt,
    hop: 0,
    ba_pg_sz: 0,
    buf_pg_sz: 0,
    entry_bytes: 64,
    bt_num: 4,
    object_count: 0,
};

fn set(set: TableSetDescription) -> Description {
    Description { table_sets: vec![set], ..Description::default() }
}

#[track_caller]
fn refuse(description: Description, message: &str) {
    assert_eq!(description.build().expect_err(message).to_string(), message);
}

#[track_caller]
fn refuse_set(description: TableSetDescription, message: &str) {
    refuse(set(description), message);
}

#[track_caller]
fn refuse_table(table: TableDescription, message: &str) {
    refuse_set(TableSetDescription { tables: vec![table], ..TableSetDescription::default() }, message);
}

/// A region of a page and a half that is accepted.
fn region() -> RegionDescription {
    RegionDescription { name: "a".into(), length_bytes: 0x1800, va: 0x5_0000, ..RegionDescription::default() }
}

fn with_regions(regions: Vec<RegionDescription>) -> TableSetDescription {
    TableSetDescription { tables: vec![MPT], regions, ..TableSetDescription::default() }
}

#[track_caller]
fn refuse_region(region: RegionDescription, message: &str) {
    refuse_set(with_regions(vec![region]), &format!("region `a` of table set 0: {message}"));
}

fn explicit(addresses: &[u64]) -> PageList {
    PageList::Explicit { addresses: addresses.to_vec() }
}

#[test]
fn what_is_refused_below_is_accepted_without_its_fault() {
    set(with_regions(vec![region()])).build().unwrap();
}

#[test]
fn numbers_out_of_range() {
    refuse(Description { address_bits: 39, ..Description::default() }, "address_bits is 39, legal is 40..=64");
    refuse(Description { address_bits: 65, ..Description::default() }, "address_bits is 65, legal is 40..=64");
    let sets = vec![TableSetDescription::default(); 9];
    refuse(Description { table_sets: sets, ..Description::default() }, "the number of table sets is 9, legal is 0..=8");
    let default = TableSetDescription::default;
    refuse_set(
        TableSetDescription { num_mpts_log2: 25, ..default() },
        "num_mpts_log2 of table set 0 is 25, legal is 0..=24",
    );
    for (page_shift_base, text) in [(11, "11"), (16, "16")] {
        let message = format!("page_shift_base of table set 0 is {text}, legal is 12..=15");
        refuse_set(TableSetDescription { page_shift_base, ..default() }, &message);
    }
    let of_mpt = "of table mpt of table set 0";
    refuse_table(TableDescription { hop: 4, ..MPT }, &format!("hop {of_mpt} is 4, legal is 0..=3"));
    refuse_table(TableDescription { ba_pg_sz: 16, ..MPT }, &format!("ba_pg_sz {of_mpt} is 16, legal is 0..=15"));
    refuse_table(TableDescription { buf_pg_sz: 16, ..MPT }, &format!("buf_pg_sz {of_mpt} is 16, legal is 0..=15"));
    refuse_table(TableDescription { bt_num: 0, ..MPT }, &format!("bt_num {of_mpt} is 0, legal is 1..=1024"));
    refuse_table(TableDescription { bt_num: 1025, ..MPT }, &format!("bt_num {of_mpt} is 1025, legal is 1..=1024"));
    refuse_table(
        TableDescription { entry_bytes: 128, ..MPT },
        &format!("entry_bytes {of_mpt} is 128, legal is 64..=64"),
    );
    let qpc = TableDescription { table: Table::Qpc, ..MPT };
    refuse_table(
        TableDescription { entry_bytes: 16, ..qpc.clone() },
        "entry_bytes of table qpc of table set 0 is 16, legal is 32..=4096",
    );
    refuse_table(
        TableDescription { entry_bytes: 96, ..qpc },
        "entry_bytes of table qpc of table set 0 is 96, which is not a power of two",
    );
    refuse_region(RegionDescription { ba_pg_sz: 16, ..region() }, "ba_pg_sz is 16, legal is 0..=15");
    refuse_region(RegionDescription { hop: Some(4), ..region() }, "hop is 4, legal is 0..=3");
}

#[test]
fn tables_twice_and_tables_missing() {
    let twice = TableSetDescription { tables: vec![MPT, MPT], ..TableSetDescription::default() };
    refuse_set(twice, "table set 0 describes table mpt twice");
    refuse_set(
        TableSetDescription { regions: vec![region()], ..TableSetDescription::default() },
        "table set 0 has no table mpt: describe it under `tables`",
    );
    let object = |table| TableSetDescription {
        tables: vec![MPT],
        objects: vec![ObjectDescription { table, index: 5 }],
        ..TableSetDescription::default()
    };
    refuse_set(object(Table::Cqc), "table set 0 has no table cqc: describe it under `tables`");
    refuse_set(object(Table::Mpt), "object 5 is of table mpt: describe it as a region");
}

#[test]
fn indices_that_do_not_exist_or_are_taken() {
    let at = |index| RegionDescription { index: Some(index), ..region() };
    let mut description = with_regions(vec![at(16)]);
    description.num_mpts_log2 = 4;
    let prefix = "region `a` of table set 0: ";
    refuse_set(description.clone(), &format!("{prefix}index 16 of table mpt is not below 16 (1 << num_mpts_log2)"));
    description.regions = vec![RegionDescription { index: None, ..region() }; 16];
    refuse_set(description.clone(), &format!("{prefix}no free index below 16 is left"));
    description.regions.pop();
    set(description.clone()).build().unwrap();
    description.num_mpts_log2 = 24;
    description.tables = vec![TableDescription { object_count: 10, ..MPT }];
    description.regions = vec![at(10)];
    refuse_set(description, &format!("{prefix}index 10 of table mpt is not below 10 (object_count)"));

    let second = RegionDescription { name: "b".into(), ..at(3) };
    refuse_set(with_regions(vec![at(3), second]), "region `b` of table set 0: index 3 is taken by region `a`");
    let mut object = TableSetDescription {
        tables: vec![TableDescription { table: Table::Srqc, object_count: 7, ..MPT }],
        objects: vec![ObjectDescription { table: Table::Srqc, index: 7 }],
        ..TableSetDescription::default()
    };
    refuse_set(object.clone(), "index 7 of table srqc is not below 7 (object_count)");
    object.tables[0].object_count = 0;
    object.objects[0].index = 256;
    refuse_set(
        object,
        "index 256 of table srqc has level-0 index 4, but there are 4 BT0 slots: it would share a slot with another \
         object; raise bt_num, hop, ba_pg_sz or buf_pg_sz",
    );
    refuse_region(
        at(256),
        "index 256 of table mpt has level-0 index 4, but there are 4 BT0 slots: it would share a slot with another \
         object; raise bt_num, hop, ba_pg_sz or buf_pg_sz",
    );
    set(with_regions(vec![at(255)])).build().unwrap();
}

#[test]
fn values_too_large_for_their_field() {
    refuse_region(RegionDescription { pd: 1 << 24, ..region() }, "field `pd` holds at most 0xffffff, not 0x1000000");
    let window = RegionDescription { kind: RegionKind::MwValid, bind_qpn: 1 << 24, ..RegionDescription::default() };
    refuse_region(
        RegionDescription { name: "a".into(), ..window },
        "field `mw_bind_qpn` holds at most 0xffffff, not 0x1000000",
    );
    refuse_region(
        RegionDescription { length_bytes: 1 << 44, ..region() },
        "field `pbl_size` holds at most 0xffffffff, not 0x100000000",
    );
}

#[test]
fn page_sizes_that_cannot_be_represented() {
    for (page_bytes, page_shift_base, min, max) in [
        (2048, 12, 4096, 134_217_728_u64),
        (6000, 12, 4096, 134_217_728),
        (0, 12, 4096, 134_217_728),
        (1 << 28, 12, 4096, 134_217_728),
        (4096, 15, 32768, 1_073_741_824),
        (1 << 31, 15, 32768, 1_073_741_824),
    ] {
        let mut description = with_regions(vec![RegionDescription { page_bytes, ..region() }]);
        description.page_shift_base = page_shift_base;
        refuse_set(
            description,
            &format!(
                "region `a` of table set 0: pages of {page_bytes} bytes cannot be represented: legal are powers of two \
                 from {min} to {max}"
            ),
        );
    }
}

#[test]
fn regions_past_the_top() {
    let top = RegionDescription { va: 0_u64.wrapping_sub(0x1800), ..region() };
    set(with_regions(vec![top.clone()])).build().unwrap();
    refuse_region(
        RegionDescription { length_bytes: 0x1801, ..top },
        "va 0xffffffffffffe800 and length 0x1801 run past 2^64",
    );
}

#[test]
fn page_lists_that_do_not_fit_the_region() {
    let with = |pages| RegionDescription { pages, ..region() };
    refuse_region(
        with(explicit(&[0x1000])),
        "the page list has 1 addresses, the region covers 2 pages: give one address per page",
    );
    // Its start, not its length, pushes it into one more page.
    refuse_region(
        RegionDescription { va: 0x5_0801, ..with(explicit(&[0x1000, 0x2000])) },
        "the page list has 2 addresses, the region covers 3 pages: give one address per page",
    );
    refuse_region(
        with(explicit(&[0x1000, 0x2040])),
        "page 1 is at 0x2040, which is not aligned to 4096 bytes: set `allow_misaligned_pages` if that is meant",
    );
    refuse_region(
        with(PageList::Contiguous { first: 0x800 }),
        "page 0 is at 0x800, which is not aligned to 4096 bytes: set `allow_misaligned_pages` if that is meant",
    );
    refuse_region(
        with(explicit(&[0x1000, 0])),
        "page 1 is at address 0, which means not present: set `allow_holes` if that is meant",
    );
    refuse_region(
        with(PageList::Contiguous { first: 0xffff_ffff_ffff_f000 }),
        "2 contiguous pages of 4096 bytes from 0xfffffffffffff000 run past 2^64",
    );
    refuse_region(
        RegionDescription { length_bytes: 0x800, allow_misaligned_pages: true, ..with(explicit(&[0x1004])) },
        "page 0 is at 0x1004, which is not aligned to 8 bytes and a table of hop 0 cannot hold: give `hop` 1",
    );
    refuse_region(
        RegionDescription { first_page_offset_bytes: Some(0x10), ..region() },
        "the region starts at byte 0x10 of its first page, but the low bits of its va are 0x0",
    );
    // 39 - 27 bits of pages, of which each run of 3 takes 4: room for 1024 runs.
    let in_runs = |count: u64| {
        let pages = PageList::Scattered { seed: 0, run_pages: 3 };
        let region = RegionDescription { page_bytes: 1 << 27, length_bytes: count << 27, va: 0, pages, ..region() };
        Description { address_bits: 40, ..set(with_regions(vec![region])) }
    };
    in_runs(3072).build().unwrap();
    refuse(
        in_runs(3073),
        "region `a` of table set 0: 3073 pages of 134217728 bytes in runs of 3 do not fit the upper half of 40 address \
         bits",
    );
}

#[test]
fn page_tables_with_too_few_levels() {
    let with = |hop, pages: u64| RegionDescription { hop: Some(hop), length_bytes: pages << 12, ..region() };
    refuse_region(with(0, 2), "2 pages do not fit a page table of 0 hops with 512 entries per table: it holds 1");
    refuse_region(with(1, 513), "513 pages do not fit a page table of 1 hops with 512 entries per table: it holds 512");
    refuse_region(
        with(2, 262_145),
        "262145 pages do not fit a page table of 2 hops with 512 entries per table: it holds 262144",
    );
    for (hop, pages) in [(0, 1), (1, 512), (2, 513)] {
        set(with_regions(vec![with(hop, pages)])).build().unwrap();
        let smallest = RegionDescription { hop: None, ..with(hop, pages) };
        assert_eq!(set(with_regions(vec![smallest])).build().unwrap().table_sets[0].regions[0].hop, hop);
    }
    refuse_region(
        RegionDescription { hop: None, ..with(0, 1 << 28) },
        "268435456 pages do not fit a page table of 3 hops with 512 entries per table: it holds 134217728",
    );
}

#[test]
fn fields_that_a_kind_does_not_have() {
    let empty = |kind| RegionDescription { name: "a".into(), kind, ..RegionDescription::default() };
    let dma = || empty(RegionKind::DmaMr);
    let message = |field, kind| format!("`{field}` is given, but a region of kind {kind} has none");
    refuse_region(RegionDescription { length_bytes: 1, ..dma() }, &message("length_bytes", "DmaMr"));
    refuse_region(RegionDescription { va: 1, ..dma() }, &message("va", "DmaMr"));
    refuse_region(
        RegionDescription { first_page_offset_bytes: Some(0), ..dma() },
        &message("first_page_offset_bytes", "DmaMr"),
    );
    refuse_region(RegionDescription { pages: explicit(&[]), ..dma() }, &message("pages", "DmaMr"));
    refuse_region(RegionDescription { hop: Some(1), ..empty(RegionKind::Mw) }, &message("hop", "Mw"));
    refuse_region(RegionDescription { va: 1, ..empty(RegionKind::FrmrFree) }, &message("va", "FrmrFree"));
    refuse_region(RegionDescription { window_type: 2, ..region() }, &message("window_type", "Mr"));
    refuse_region(RegionDescription { bind_qpn: 2, ..empty(RegionKind::Mw) }, &message("bind_qpn", "Mw"));
    refuse_region(RegionDescription { bound_key: 2, ..region() }, &message("bound_key", "Mr"));
    refuse_region(RegionDescription { window_type: 3, ..empty(RegionKind::Mw) }, "window_type is 3, legal is 1..=2");
    refuse_region(
        RegionDescription { kind: RegionKind::Frmr, length_bytes: 513 << 12, ..region() },
        "a fast registration takes at most 512 pages, not 513",
    );
}

#[test]
fn queue_buffers_that_cannot_be() {
    let region = |hop, count| QueueBufferRegionDescription { count, hop, pages: None };
    let refuse_buffer = |change: &dyn Fn(&mut QueueBufferDescription), message: &str| {
        let mut buffer =
            QueueBufferDescription { name: "q".into(), page_bytes: 4096, ba_pg_sz: 0, regions: vec![region(1, 5)] };
        change(&mut buffer);
        let description = TableSetDescription { queue_buffers: vec![buffer], ..TableSetDescription::default() };
        refuse_set(description, &format!("queue buffer `q` of table set 0: {message}"));
    };
    refuse_buffer(&|buffer| buffer.regions.clear(), "a queue buffer has 1 to 3 regions, not 0");
    refuse_buffer(&|buffer| buffer.regions = vec![region(1, 1); 4], "a queue buffer has 1 to 3 regions, not 4");
    refuse_buffer(&|buffer| buffer.ba_pg_sz = 16, "ba_pg_sz is 16, legal is 0..=15");
    refuse_buffer(&|buffer| buffer.regions[0].hop = 4, "hop is 4, legal is 0..=3");
    refuse_buffer(
        &|buffer| buffer.page_bytes = 1 << 28,
        "pages of 268435456 bytes cannot be represented: legal are powers of two from 4096 to 134217728",
    );
    refuse_buffer(
        &|buffer| buffer.regions = vec![region(1, 1), region(0, 1)],
        "either all regions have hop 0 or none has: a direct buffer has no root table to share",
    );
    refuse_buffer(
        &|buffer| buffer.regions = vec![region(1, 500), region(1, 13)],
        "the roots need 513 entries, but the shared root has 512",
    );
    refuse_buffer(
        &|buffer| buffer.regions[0].count = 513,
        "513 pages do not fit a page table of 1 hops with 512 entries per table: it holds 512",
    );
    refuse_buffer(
        &|buffer| {
            buffer.regions[0].hop = 0;
            buffer.regions[0].pages = Some(PageList::default());
        },
        "`pages` is given for region 0, but the pages of a direct queue buffer are contiguous",
    );
    refuse_buffer(
        &|buffer| buffer.regions[0].pages = Some(explicit(&[0x1000])),
        "the page list has 1 addresses, the region covers 5 pages: give one address per page",
    );
}

#[test]
fn runs_that_are_longer_than_the_address_space() {
    // A run of 1024 pages of 1 GiB is twice the upper half of 40 address bits, even where the region has two pages.
    let pages = PageList::Scattered { seed: 0, run_pages: 1024 };
    let region = RegionDescription { page_bytes: 1 << 27, length_bytes: 1 << 28, va: 0, pages, ..region() };
    let longer = RegionDescription { page_bytes: 1 << 30, length_bytes: 1 << 31, ..region.clone() };
    let description = |region| {
        let base_15 = TableSetDescription { page_shift_base: 15, ..with_regions(vec![region]) };
        Description { address_bits: 40, ..set(base_15) }
    };
    description(region).build().unwrap();
    refuse(
        description(longer),
        "region `a` of table set 0: 2 pages of 1073741824 bytes in runs of 1024 do not fit the upper half of 40 address \
         bits",
    );
}

#[test]
fn page_tables_that_take_too_much_memory() {
    let region = |name: &str, pages: u64| RegionDescription {
        name: name.into(),
        length_bytes: pages << 12,
        va: 0,
        ba_pg_sz: 4,
        ..region()
    };
    refuse_set(
        with_regions(vec![region("small", 1000), region("large", (1 << 27) - 999)]),
        "region `large` of table set 0: a page table of 134216729 entries, but of the 134217728 that the page tables of an \
         image may have together 134216728 are left: use larger pages",
    );
}

#[test]
fn an_address_space_that_is_too_small_for_the_tables() {
    // Two lower tables of 128 MiB each: 2048 such regions would fill the lower half of 40 address bits to the last byte.
    let large = RegionDescription { ba_pg_sz: 15, hop: Some(3), ..region() };
    let tables = vec![TableDescription { bt_num: 64, ..MPT }];
    let regions = |count| TableSetDescription {
        tables: tables.clone(),
        regions: vec![large.clone(); count],
        ..TableSetDescription::default()
    };
    Description { address_bits: 40, ..set(regions(100)) }.build().unwrap();
    refuse(
        Description { address_bits: 40, ..set(regions(2048)) },
        "region `a` of table set 0: no room for a table of 134217728 bytes: raise address_bits",
    );
}
