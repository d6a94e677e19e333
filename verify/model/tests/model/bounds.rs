//! Bounds over integers: at both ends of the region and of the address space, for MR and DMA MR.

use crate::rig::{self, Rig};
use keywalk_contract::Status;
use keywalk_contract::mpt_entry::*;
use keywalk_model::Failure;

/// A rig whose region is `length_bytes` bytes from `va`, in one page of 128 MiB and no table.
fn one_page(va: u64, length_bytes: u64) -> Rig {
    let mut rig = Rig::new();
    rig.set(PBL_HOP_NUM, 0);
    rig.set(PBL_BUF_PG_SZ, 15);
    rig.set(PBL_BA, 0x10_0000_0000 >> PBL_BA_SHIFT);
    rig.set(PBL_SIZE, 1);
    rig.set(VA, va);
    rig.set(LEN, length_bytes);
    rig
}

#[track_caller]
fn check(rig: &mut Rig, va: u64, length: u32, passes: bool) {
    rig.request.va = va;
    rig.request.length = length;
    if passes {
        rig.expect_segment(0x10_0000_0000 + va % (1 << 27), length);
    } else {
        rig.expect_failure(Failure::of(Status::Bounds));
    }
}

#[test]
fn both_ends_of_a_region_are_exact() {
    let mut rig = one_page(0x5000_0010, 0x100);
    for (va, length, passes) in [
        (0x5000_0010, 0x100, true),
        (0x5000_0010, 0x101, false),
        (0x5000_000f, 1, false),
        (0x5000_000f, 0x101, false),
        (0x5000_010f, 1, true),
        (0x5000_010f, 2, false),
        (0x5000_0110, 1, false),
        (0, 1, false),
        (u64::MAX, 1, false),
        (u64::MAX, 1 << 31, false),
    ] {
        check(&mut rig, va, length, passes);
    }
}

#[test]
fn a_region_may_start_at_zero() {
    let mut rig = one_page(0, 0x1000);
    check(&mut rig, 0, 0x1000, true);
    check(&mut rig, 0xfff, 1, true);
    check(&mut rig, 0xfff, 2, false);
    check(&mut rig, u64::MAX, 1, false);
}

#[test]
fn a_region_may_end_at_the_top() {
    let start = 0_u64.wrapping_sub(0x1000);
    let mut rig = one_page(start, 0x1000);
    check(&mut rig, start, 0x1000, true);
    check(&mut rig, u64::MAX, 1, true);
    check(&mut rig, u64::MAX, 2, false);
    check(&mut rig, start, 0x1001, false);
    check(&mut rig, start - 1, 1, false);
    check(&mut rig, 0, 1, false);
}

#[test]
fn a_region_that_wraps_is_refused_everywhere() {
    let start = 0_u64.wrapping_sub(0x1000);
    let mut rig = one_page(start, 0x1001);
    for va in [start, u64::MAX, 0] {
        rig.request.va = va;
        rig.request.length = 1;
        rig.expect_failure(Failure::of(Status::RegionWraps));
    }
}

#[test]
fn an_empty_region_holds_nothing() {
    for va in [0, 0x5000, u64::MAX] {
        let mut rig = one_page(va, 0);
        check(&mut rig, va, 1, false);
    }
}

#[test]
fn a_region_may_span_exactly_as_many_pages_as_a_table_holds() {
    let mut rig = Rig::new();
    rig.set(VA, 0x800);
    rig.set(PBL_SIZE, u32::MAX.into());
    rig.request.va = 0x1800;
    rig.set(LEN, (1 << 44) - 0x800);
    rig.expect_segment(rig::page(1) + 0x800, 8);
    rig.set(LEN, (1 << 44) - 0x7ff);
    rig.expect_failure(Failure::of(Status::RegionTooLarge));
    rig.set(PBL_BUF_PG_SZ, 1);
    assert_eq!(rig.translate().status(), Status::Ok);
}

#[test]
fn a_dma_region_has_no_bounds_but_the_top() {
    let mut rig = Rig::new();
    rig.set(PA, 1);
    rig.set(LEN, 0);
    rig.set(VA, 0);
    rig.set(PBL_BA, 0);
    for (va, length, passes) in [
        (0, 1 << 31, true),
        (0x1234_5678_9abc, 77, true),
        (u64::MAX, 1, true),
        (u64::MAX, 2, false),
        (0_u64.wrapping_sub(1 << 31), 1 << 31, true),
        (1_u64.wrapping_sub(1 << 31), 1 << 31, false),
    ] {
        rig.request.va = va;
        rig.request.length = length;
        if passes {
            rig.expect_segment(va, length);
        } else {
            rig.expect_failure(Failure::of(Status::Bounds));
        }
    }
    // Neither a wrap nor too many pages: there is no region.
    rig.set(VA, u64::MAX);
    rig.set(LEN, u64::MAX);
    rig.request.va = 0;
    rig.expect_segment(0, 1 << 31);
}

#[test]
fn length_zero_passes_whatever_the_tables_say() {
    let mut rig = Rig::new();
    rig.request.length = 0;
    rig.request.key = 0xdead_beef;
    rig.memory.remove(0, u64::MAX);
    rig.expect_segment(0, 0);
    assert!(rig.explain().iter().all(|step| !matches!(step, keywalk_model::Step::Read(_))));
    rig.request.operation = keywalk_contract::Operation::RemoteAtomic.code();
    rig.expect_failure(Failure::of(Status::AtomicShape));
    rig.request.operation = 15;
    rig.expect_failure(Failure::of(Status::OperationUnknown));
}
