//! Every status the model can give, alone and with every other one that can occur at the same time.

use crate::rig::{self, Rig};
use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::mpt_entry::*;
use keywalk_contract::{Operation, Status, Table};
use keywalk_model::Failure;

/// Something that a fault changes. Two faults that change the same thing cannot occur together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Operation,
    Length,
    RequestVa,
    Bt0,
    ChunkPointer,
    Chunk,
    Region,
    Root,
    RootEntry,
    Lower,
}

struct Fault {
    failure: Failure,
    slots: &'static [Slot],
    inject: fn(&mut Rig),
}

const fn plain(status: Status, slots: &'static [Slot], inject: fn(&mut Rig)) -> Fault {
    Fault { failure: Failure::of(status), slots, inject }
}

const fn mpt(status: Status, hop: u8, slots: &'static [Slot], inject: fn(&mut Rig)) -> Fault {
    Fault { failure: Failure { status, table: Table::Mpt.code(), hop }, slots, inject }
}

const fn mtr(status: Status, hop: u8, slots: &'static [Slot], inject: fn(&mut Rig)) -> Fault {
    Fault { failure: Failure { status, table: TABLE_CODE_MTR, hop }, slots, inject }
}

/// All faults, in the order in which they must be noticed.
const FAULTS: &[Fault] = &[
    plain(Status::OperationUnknown, &[Slot::Operation], |rig| rig.request.operation = 6),
    plain(Status::LengthTooLong, &[Slot::Length], |rig| rig.request.length = (1 << 31) + 1),
    plain(Status::AtomicShape, &[Slot::Operation, Slot::RequestVa], |rig| {
        rig.request.operation = Operation::RemoteAtomic.code();
        rig.request.va += 4;
    }),
    plain(Status::HoldTooLong, &[], |rig| {
        rig.engine.controls.hold_mode = true;
        rig.engine.controls.hold_bytes_max = 7;
    }),
    mpt(Status::IndexOutOfRange, 0, &[], |rig| rig.mpt().geometry.object_count = rig::INDEX),
    mpt(Status::Bt0Unset, 0, &[Slot::Bt0], |rig| rig.mpt().set_bt0(0, None)),
    mpt(Status::Bt0Unset, 0, &[Slot::Bt0], |rig| rig.mpt().set_bt0(0, Some(0))),
    mpt(Status::HemMisaligned, 0, &[Slot::Bt0], |rig| rig.mpt().set_bt0(0, Some(rig::BA_PAGE + 2048))),
    mpt(Status::HemBusError, 0, &[Slot::ChunkPointer], |rig| rig.memory.remove(rig::BA_PAGE, 1)),
    mpt(Status::HemPointerZero, 1, &[Slot::ChunkPointer], |rig| rig.write(Rig::chunk_pointer(), 0)),
    mpt(Status::HemMisaligned, 1, &[Slot::ChunkPointer], |rig| rig.write(Rig::chunk_pointer(), rig::CHUNK + 64)),
    mpt(Status::HemBusError, 1, &[Slot::Chunk], |rig| rig.memory.remove(rig::CHUNK, 1)),
    plain(Status::EntryState, &[Slot::Chunk], |rig| rig.set(ST, STATE_FREE)),
    plain(Status::EntryKey, &[Slot::Chunk], |rig| rig.set(LKEY, u64::from(rig.request.key) + 1)),
    plain(Status::WindowLocal, &[Slot::Operation, Slot::Chunk], |rig| {
        rig.request.operation = Operation::LocalRead.code();
        rig.set(MR_MW, 1);
    }),
    plain(Status::WindowLocal, &[Slot::Operation, Slot::Chunk], |rig| {
        rig.request.operation = Operation::Bind.code();
        rig.set(MR_MW, 1);
    }),
    plain(Status::WindowUnbound, &[Slot::Chunk], |rig| {
        rig.set(MR_MW, 1);
        rig.set(BOUND_LKEY, 0);
    }),
    plain(Status::ProtectionDomain, &[], |rig| rig.request.pd += 1),
    plain(Status::WindowQueuePair, &[Slot::Chunk], |rig| {
        rig.set(MR_MW, 1);
        rig.request.qpn += 1;
    }),
    plain(Status::AccessRight, &[Slot::Chunk], |rig| {
        for right in [LW_EN, RR_EN, RW_EN, ATOMIC_EN, BIND_EN] {
            rig.set(right, 0);
        }
    }),
    plain(Status::RegionWraps, &[Slot::Chunk, Slot::Region], |rig| {
        rig.set(LEN, 0_u64.wrapping_sub(rig::REGION_VA) + 1);
    }),
    plain(Status::RegionTooLarge, &[Slot::Chunk, Slot::Region], |rig| rig.set(LEN, (1 << 44) - 0x7ff)),
    plain(Status::Bounds, &[Slot::RequestVa], |rig| rig.request.va = rig::REGION_VA - 8),
    plain(Status::WindowParent, &[Slot::Chunk], |rig| rig.set(MR_MW, 1)),
    mtr(Status::MtrIndex, 0, &[Slot::Chunk], |rig| rig.set(PBL_SIZE, 1)),
    mtr(Status::MtrNotPresent, 0, &[Slot::Chunk, Slot::Root], |rig| rig.set(PBL_BA, 0)),
    mtr(Status::MtrBusError, 0, &[Slot::Root, Slot::RootEntry], |rig| rig.memory.remove(rig::ROOT, 1)),
    mtr(Status::MtrNotPresent, 0, &[Slot::Root, Slot::RootEntry], |rig| rig.write(rig::ROOT, 0)),
    mtr(Status::MtrMisaligned, 1, &[Slot::Root, Slot::RootEntry], |rig| rig.write(rig::ROOT, rig::LOWER[0] + 8)),
    mtr(Status::MtrBusError, 1, &[Slot::Lower], |rig| rig.memory.remove(rig::LOWER[0], 1)),
    mtr(Status::MtrNotPresent, 1, &[Slot::Lower], |rig| rig.write(Rig::leaf(1), 0)),
];

/// Only hardware can time out.
const NOT_IN_A_MODEL: [Status; 2] = [Status::HemTimeout, Status::MtrTimeout];

#[test]
fn the_request_without_a_fault_passes() {
    Rig::new().expect_segment(rig::page(1) + 0x800, 8);
}

#[test]
fn every_status_has_a_fault_that_gives_it() {
    for fault in FAULTS {
        let mut rig = Rig::new();
        (fault.inject)(&mut rig);
        rig.expect_failure(fault.failure);
    }
    for status in Status::ALL.iter().filter(|status| **status != Status::Ok && !NOT_IN_A_MODEL.contains(status)) {
        assert!(FAULTS.iter().any(|fault| fault.failure.status == *status), "no fault gives {}", status.name());
    }
}

/// Entry faults change different fields of one chunk: only losing the chunk excludes them.
fn exclude_each_other(first: &Fault, second: &Fault) -> bool {
    let loses_chunk = |fault: &Fault| fault.failure.status == Status::HemBusError && fault.failure.hop == 1;
    let shared = |slot: &&Slot| second.slots.contains(slot);
    first.slots.iter().filter(shared).any(|slot| *slot != Slot::Chunk || loses_chunk(first) || loses_chunk(second))
}

#[test]
fn of_two_faults_the_first_is_reported() {
    let mut pairs = 0;
    for (position, first) in FAULTS.iter().enumerate() {
        for second in FAULTS[position + 1..].iter().filter(|second| !exclude_each_other(first, second)) {
            // The earlier one last, and the other way round: what is injected must not depend on the order.
            for order in [[second, first], [first, second]] {
                let mut rig = Rig::new();
                order.iter().for_each(|fault| (fault.inject)(&mut rig));
                let response = rig.translate();
                assert_eq!(response.failure, Some(first.failure), "{} and {}", first.failure, second.failure);
                assert!(response.segments.is_empty());
            }
            pairs += 1;
        }
    }
    assert!(pairs > 350, "only {pairs} pairs were tested");
}

#[test]
fn losing_the_chunk_hides_all_that_the_entry_says() {
    for fault in FAULTS.iter().filter(|fault| fault.failure.status >= Status::EntryState) {
        let mut rig = Rig::new();
        (fault.inject)(&mut rig);
        rig.memory.remove(rig::CHUNK, 1);
        rig.expect_failure(Failure { status: Status::HemBusError, table: Table::Mpt.code(), hop: 1 });
    }
}

#[test]
fn a_region_that_wraps_and_is_too_large_wraps() {
    let mut rig = Rig::new();
    rig.set(VA, 1 << 63);
    rig.set(LEN, (1 << 63) + 1);
    rig.expect_failure(Failure::of(Status::RegionWraps));
    rig.set(LEN, 1 << 63);
    rig.expect_failure(Failure::of(Status::RegionTooLarge));
}

#[test]
fn switches_turn_their_checks_off() {
    let mut rig = Rig::new();
    rig.engine.controls.atomic_shape_check = false;
    rig.request.operation = Operation::RemoteAtomic.code();
    rig.request.va += 1;
    rig.request.length = 3;
    rig.expect_segment(rig::page(1) + 0x801, 3);

    let mut rig = Rig::new();
    rig.engine.controls.index_check = false;
    rig.set(PBL_SIZE, 0);
    rig.expect_segment(rig::page(1) + 0x800, 8);

    let mut rig = Rig::new();
    rig.engine.controls.zero_entry_literal = true;
    rig.write(Rig::leaf(1), 0);
    rig.expect_segment(0x800, 8);
    rig.set(PBL_BA, 0);
    rig.expect_failure(Failure { status: Status::MtrBusError, table: TABLE_CODE_MTR, hop: 0 });
    rig.memory.back(0, 16);
    // Page 0 as root, lower table and data page.
    rig.expect_segment(0x800, 8);
}

#[test]
fn without_the_alignment_check_only_what_can_be_read_is_accepted() {
    let mut rig = Rig::new();
    rig.engine.controls.alignment_check = false;
    rig.memory.back(0x60_0000, 0x3000);
    // A BA page at a multiple of 8.
    rig.mpt().set_bt0(0, Some(0x60_0008));
    rig.write(0x60_0008 + Rig::chunk_pointer() - rig::BA_PAGE, rig::CHUNK);
    rig.expect_segment(rig::page(1) + 0x800, 8);
    rig.mpt().set_bt0(0, Some(0x60_0004));
    rig.expect_failure(Failure { status: Status::HemMisaligned, table: Table::Mpt.code(), hop: 0 });

    // A chunk at a multiple of 64.
    let mut rig = Rig::new();
    rig.engine.controls.alignment_check = false;
    let mut entry = [0; 64];
    rig.memory.read(Rig::entry_address(), &mut entry).unwrap();
    rig.memory.back(0x60_0000, 0x3000);
    rig.memory.write(0x60_0040 + Rig::entry_address() - rig::CHUNK, &entry).unwrap();
    rig.write(Rig::chunk_pointer(), 0x60_0040);
    rig.expect_segment(rig::page(1) + 0x800, 8);
    rig.write(Rig::chunk_pointer(), 0x60_0020);
    rig.expect_failure(Failure { status: Status::HemMisaligned, table: Table::Mpt.code(), hop: 1 });

    // A lower page table at a multiple of 8.
    let mut rig = Rig::new();
    rig.engine.controls.alignment_check = false;
    rig.memory.back(0x60_0000, 0x3000);
    rig.write(rig::ROOT, 0x60_0ff8);
    rig.write(0x60_0ff8 + 8, 0x1234_5000);
    rig.expect_segment(0x1234_5800, 8);
    rig.write(rig::ROOT, 0x60_0ffc);
    rig.expect_failure(Failure { status: Status::MtrMisaligned, table: TABLE_CODE_MTR, hop: 1 });
}

#[test]
fn a_function_sees_its_own_table_set_only() {
    let mut rig = Rig::new();
    let unset = Failure { status: Status::Bt0Unset, table: Table::Mpt.code(), hop: 0 };
    rig.engine.table_sets.push(keywalk_model::TableSet::default());
    rig.engine.function_map[usize::from(rig.request.function)] = 1;
    rig.expect_failure(unset);
    rig.engine.table_sets.swap(0, 1);
    rig.expect_segment(rig::page(1) + 0x800, 8);
    rig.engine.function_map[usize::from(rig.request.function)] = 5;
    rig.expect_failure(unset);
}

#[test]
fn plain_regions_ignore_what_concerns_windows() {
    let mut rig = Rig::new();
    rig.request.qpn += 1;
    rig.set(BOUND_LKEY, 0);
    rig.set(BPD, 1);
    rig.set(RA_EN, 0);
    rig.expect_segment(rig::page(1) + 0x800, 8);
}

#[test]
fn a_window_of_type_1_belongs_to_no_queue_pair() {
    let mut rig = Rig::new();
    rig.set(MR_MW, 1);
    rig.set(BQP, 0);
    rig.request.qpn += 1;
    rig.expect_failure(Failure::of(Status::WindowParent));
}

#[test]
fn each_operation_needs_its_own_right() {
    for operation in Operation::ALL {
        let mut rig = Rig::new();
        rig.request.operation = operation.code();
        for right in [LW_EN, RR_EN, RW_EN, ATOMIC_EN, BIND_EN] {
            rig.set(right, 0);
        }
        let Some(needed) = operation.right() else {
            rig.expect_segment(rig::page(1) + 0x800, 8);
            continue;
        };
        rig.expect_failure(Failure::of(Status::AccessRight));
        rig.set(needed, 1);
        rig.expect_segment(rig::page(1) + 0x800, 8);
        for right in [LW_EN, RR_EN, RW_EN, ATOMIC_EN, BIND_EN] {
            rig.set(right, 1);
        }
        rig.set(needed, 0);
        rig.expect_failure(Failure::of(Status::AccessRight));
    }
}

#[test]
fn states_other_than_valid_and_any_bit_of_the_key_matter() {
    for state in [0, STATE_FREE, 3] {
        let mut rig = Rig::new();
        rig.set(ST, state);
        rig.expect_failure(Failure::of(Status::EntryState));
    }
    for bit in 0..32 {
        let mut rig = Rig::new();
        rig.set(LKEY, u64::from(rig.request.key ^ 1 << bit));
        rig.expect_failure(Failure::of(Status::EntryKey));
    }
}

#[test]
fn an_atomic_is_eight_bytes_long_and_aligned() {
    for (va, length, passes) in [(0, 8, true), (4, 8, false), (0, 4, false), (0, 16, false), (8, 8, true)] {
        let mut rig = Rig::new();
        rig.request.operation = Operation::RemoteAtomic.code();
        rig.request.va += va;
        rig.request.length = length;
        let status = if passes { Status::Ok } else { Status::AtomicShape };
        assert_eq!(rig.translate().status(), status, "va + {va}, length {length}");
    }
}

#[test]
fn a_lower_table_is_aligned_to_its_size_and_not_just_to_4_kib() {
    let mut rig = Rig::new();
    rig.set(PBL_BA_PG_SZ, 1);
    rig.expect_segment(rig::page(1) + 0x800, 8);
    rig.memory.back(0x60_1000, 16);
    rig.write(rig::ROOT, 0x60_1000);
    rig.write(0x60_1008, 0x1234_5000);
    rig.expect_failure(Failure { status: Status::MtrMisaligned, table: TABLE_CODE_MTR, hop: 1 });
    rig.set(PBL_BA_PG_SZ, 0);
    rig.expect_segment(0x1234_5800, 8);
}

#[test]
fn a_root_may_be_longer_than_a_lower_table() {
    let mut rig = Rig::new();
    rig.set(PBL_HOP_NUM, 1);
    rig.memory.back(rig::ROOT, 8 * 600);
    rig.write(rig::ROOT + 8 * 599, 0x1234_5000);
    rig.request.va += 598 << 12;
    rig.request.length = 1;
    rig.request.va &= !0xfff;
    rig.expect_segment(0x1234_5000, 1);
}
