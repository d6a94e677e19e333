//! Memory windows: binding, access through them, unbinding, and zero-based addresses.

use keywalk_contract::mpt_entry::*;
use keywalk_contract::work::bind_window;
use keywalk_contract::{CommandStatus, Operation, Status, WorkStatus, key};
use keywalk_model::WorkRequest;

use crate::rig::{BUFFER, PD_A, QPN, Region, Rig, with};

const REGION: u32 = 100;
const WINDOW: u32 = 200;

fn window_key(variant: u32) -> u32 {
    key::of_index(WINDOW) | variant
}

fn rig(kind: u8) -> (Rig, Region) {
    let mut rig = Rig::new(1);
    let region = Region::new(REGION);
    rig.register(&region);
    rig.create_window(WINDOW, kind);
    (rig, region)
}

/// A bind of 0x2000 bytes from the region's third page on.
fn bind(kind: u8, variant: u32, region: &Region) -> WorkRequest {
    Rig::bind(kind, window_key(variant), region.key(), region.va + 0x2000, 0x2000)
}

#[test]
fn a_bound_window_gives_access_to_its_part_of_the_region() {
    for kind in [1, 2] {
        let (mut rig, region) = rig(kind);
        assert_eq!(rig.work(&bind(kind, 1, &region)), WorkStatus::Ok);
        let (first, end) = (region.va + 0x2000, region.va + 0x4000);
        for operation in [Operation::RemoteRead, Operation::RemoteWrite, Operation::RemoteAtomic] {
            for va in [first, first + 0x1000, end - 8] {
                assert_eq!(rig.access(operation, window_key(1), va, 8), Ok(region.pa(va)));
            }
            for va in [first - 8, end, region.va] {
                assert_eq!(rig.access(operation, window_key(1), va, 8), Err(Status::Bounds));
            }
        }
        for operation in [Operation::LocalRead, Operation::LocalWrite, Operation::Bind] {
            assert_eq!(rig.access(operation, window_key(1), first, 8), Err(Status::WindowLocal));
        }
        assert_eq!(rig.access(Operation::RemoteRead, window_key(0), first, 8), Err(Status::EntryKey));
        let other_pd = rig.access_as(Operation::RemoteRead, window_key(1), first, 8, PD_A + 1, QPN);
        assert_eq!(other_pd, Err(Status::ProtectionDomain));
        let other_queue = rig.access_as(Operation::RemoteRead, window_key(1), first, 8, PD_A, QPN + 1);
        assert_eq!(other_queue, if kind == 2 { Err(Status::WindowQueuePair) } else { Ok(region.pa(first)) });
        assert_eq!(rig.entry(REGION).get(MW_CNT), 1);
        assert_eq!(rig.entry(WINDOW).get(BOUND_LKEY), region.key().into());
    }
}

#[test]
fn a_window_has_its_own_rights() {
    for (field, right) in
        [(bind_window::ATOMIC_EN, ATOMIC_EN), (bind_window::RR_EN, RR_EN), (bind_window::RW_EN, RW_EN)]
    {
        let (mut rig, region) = rig(2);
        // The region need not grant to others what the window does.
        for right in [ATOMIC_EN, RR_EN, RW_EN] {
            rig.poke(REGION, right, 0);
        }
        let mut request = bind(2, 1, &region);
        for other in [bind_window::ATOMIC_EN, bind_window::RR_EN, bind_window::RW_EN] {
            request = with(request, other, u64::from(other == field));
        }
        assert_eq!(rig.work(&request), WorkStatus::Ok);
        for operation in [Operation::RemoteRead, Operation::RemoteWrite, Operation::RemoteAtomic] {
            let may = operation.right() == Some(right);
            let found = rig.access(operation, window_key(1), region.va + 0x2000, 8);
            assert_eq!(found, if may { Ok(region.pa(region.va + 0x2000)) } else { Err(Status::AccessRight) });
        }
    }
}

#[test]
fn the_parent_is_checked_again_at_every_access() {
    let (mut rig, region) = rig(2);
    assert_eq!(rig.work(&bind(2, 1, &region)), WorkStatus::Ok);
    let va = region.va + 0x2000;
    let changes = [
        (ST, STATE_FREE),
        (LKEY, u64::from(region.key()) + 1),
        (PD, u64::from(PD_A) + 1),
        (LEN, 0x2007),
        (VA, va + 1),
        (MR_MW, 1),
        (PA, 1),
        (ZBVA, 1),
        (LEN, u64::MAX),
    ];
    for (field, value) in changes {
        let before = rig.entry(REGION).get(field);
        rig.poke(REGION, field, value);
        let found = rig.access(Operation::RemoteRead, window_key(1), va, 8);
        assert_eq!(found, Err(Status::WindowParent), "{} {value:#x}", field.name);
        rig.poke(REGION, field, before);
        assert_eq!(rig.access(Operation::RemoteRead, window_key(1), va, 8), Ok(region.pa(va)));
    }
    // A parent whose entry cannot be reached is reported as any entry is.
    rig.device.engine.table_sets[0].table_mut(keywalk_contract::Table::Mpt).geometry.object_count = REGION + 1;
    assert_eq!(rig.access(Operation::RemoteRead, window_key(1), va, 8), Err(Status::IndexOutOfRange));
    rig.device.engine.table_sets[0].table_mut(keywalk_contract::Table::Mpt).geometry.object_count = 0;
    rig.poke(WINDOW, BOUND_LKEY, key::of_index(1 << 15).into());
    assert_eq!(rig.access(Operation::RemoteRead, window_key(1), va, 8), Err(Status::Bt0Unset));
}

#[test]
fn a_region_with_windows_stays() {
    let (mut rig, region) = rig(2);
    rig.poke(REGION, L_INV_EN, 1);
    rig.poke(REGION, R_INV_EN, 1);
    assert_eq!(rig.work(&bind(2, 1, &region)), WorkStatus::Ok);
    rig.refuse(0x0f, REGION, 0, 0, CommandStatus::WindowsBound);
    rig.fill_buffer(&Rig::region_entry(&region, 0x8000));
    rig.refuse(0x0d, REGION, BUFFER, 0, CommandStatus::WindowsBound);
    rig.refuse_work(&Rig::local_invalidate(region.key()), WorkStatus::WindowsBound);
    rig.refuse_work(&Rig::remote_invalidate(region.key()), WorkStatus::WindowsBound);
    assert_eq!(rig.work(&Rig::local_invalidate(window_key(1))), WorkStatus::Ok);
    assert_eq!(rig.entry(REGION).get(MW_CNT), 0);
    assert_eq!(rig.post(0x0f, REGION, 0, 0), CommandStatus::Ok);
}

#[test]
fn a_window_of_type_2_is_bound_when_free_and_invalidated_by_its_queue() {
    let (mut rig, region) = rig(2);
    let va = region.va + 0x2000;
    rig.refuse_work(&with(bind(2, 1, &region), bind_window::LENGTH, 0), WorkStatus::Illegal);
    assert_eq!(rig.work(&bind(2, 1, &region)), WorkStatus::Ok);
    rig.refuse_work(&bind(2, 2, &region), WorkStatus::State);
    for invalidate in [Rig::local_invalidate, Rig::remote_invalidate] {
        let variant = rig.entry(WINDOW).get(LKEY) as u32 & 0xff;
        let request = invalidate(window_key(variant));
        rig.refuse_work(&WorkRequest { qpn: QPN + 1, ..request }, WorkStatus::QueuePair);
        rig.refuse_work(&WorkRequest { pd: PD_A + 1, ..request }, WorkStatus::ProtectionDomain);
        assert_eq!(rig.work(&request), WorkStatus::Ok);
        let entry = rig.entry(WINDOW);
        assert_eq!([entry.get(ST), entry.get(BOUND_LKEY), rig.entry(REGION).get(MW_CNT)], [STATE_FREE, 0, 0]);
        assert_eq!(rig.access(Operation::RemoteRead, window_key(variant), va, 8), Err(Status::EntryState));
        // The same variant at once again would let an old R_Key in.
        rig.refuse_work(&bind(2, variant, &region), WorkStatus::Key);
        assert_eq!(rig.work(&bind(2, variant + 1, &region)), WorkStatus::Ok);
        assert_eq!(rig.access(Operation::RemoteRead, window_key(variant), va, 8), Err(Status::EntryKey));
        assert_eq!(rig.access(Operation::RemoteRead, window_key(variant + 1), va, 8), Ok(region.pa(va)));
    }
}

#[test]
fn a_window_of_type_1_is_rebound_and_unbound_by_binds() {
    let (mut rig, region) = rig(1);
    let other = Region::new(REGION + 1);
    rig.register(&other);
    let counts = |rig: &Rig| [REGION, REGION + 1].map(|index| rig.entry(index).get(MW_CNT));
    assert_eq!(rig.work(&bind(1, 1, &region)), WorkStatus::Ok);
    assert_eq!(counts(&rig), [1, 0]);
    let moved = with(bind(1, 2, &region), bind_window::VA, region.va);
    assert_eq!(rig.work(&moved), WorkStatus::Ok);
    assert_eq!(counts(&rig), [1, 0], "within its region it is counted once");
    assert_eq!(rig.access(Operation::RemoteRead, window_key(1), region.va, 8), Err(Status::EntryKey));
    assert_eq!(rig.access(Operation::RemoteRead, window_key(2), region.va, 8), Ok(region.pa(region.va)));
    assert_eq!(rig.work(&bind(1, 3, &other)), WorkStatus::Ok);
    assert_eq!(counts(&rig), [0, 1]);
    for invalidate in [Rig::local_invalidate, Rig::remote_invalidate] {
        rig.refuse_work(&invalidate(window_key(3)), WorkStatus::Access);
    }
    rig.refuse_work(&bind(1, 3, &other), WorkStatus::Key);
    let unbind = with(bind(1, 4, &other), bind_window::LENGTH, 0);
    assert_eq!(rig.work(&unbind), WorkStatus::Ok);
    assert_eq!(counts(&rig), [0, 0]);
    assert_eq!(rig.access(Operation::RemoteRead, window_key(3), other.va, 8), Err(Status::EntryKey));
    assert_eq!(rig.access(Operation::RemoteRead, window_key(4), other.va, 8), Err(Status::WindowUnbound));
    assert_eq!(rig.post(0x0f, REGION + 1, 0, 0), CommandStatus::Ok);
    // An unbind needs no region.
    assert_eq!(rig.work(&with(unbind, bind_window::NEW_KEY, window_key(5).into())), WorkStatus::Ok);
    assert_eq!(rig.work(&bind(1, 6, &region)), WorkStatus::Ok);
}

#[test]
fn destroying_or_recreating_a_window_unbinds_it() {
    for recreate in [false, true] {
        let (mut rig, region) = rig(2);
        assert_eq!(rig.work(&bind(2, 1, &region)), WorkStatus::Ok);
        if recreate {
            rig.create_window(WINDOW, 2);
        } else {
            assert_eq!(rig.post(0x0f, WINDOW, 0, 0), CommandStatus::Ok);
        }
        assert_eq!(rig.entry(REGION).get(MW_CNT), 0);
        assert_eq!(rig.post(0x0f, REGION, 0, 0), CommandStatus::Ok);
    }
}

#[test]
fn a_bind_is_refused_for_each_reason() {
    use bind_window::{ATOMIC_EN, IS_TYPE_1, LENGTH, NEW_KEY, PARENT_KEY, RW_EN};
    let (mut rig, region) = rig(2);
    let request = bind(2, 1, &region);
    rig.refuse_work(&with(request, NEW_KEY, u64::from(window_key(1)) | 1 << 28), WorkStatus::IndexOutOfRange);
    rig.refuse_work(&with(request, NEW_KEY, key::of_index(1 << 15).into()), WorkStatus::Unmapped);
    rig.refuse_work(&with(request, NEW_KEY, u64::from(region.key()) + 1), WorkStatus::Kind);
    rig.refuse_work(&with(request, IS_TYPE_1, 1), WorkStatus::Kind);
    rig.refuse_work(&with(request, NEW_KEY, window_key(0).into()), WorkStatus::Key);
    rig.refuse_work(&WorkRequest { pd: PD_A + 1, ..request }, WorkStatus::ProtectionDomain);
    rig.refuse_work(&with(request, PARENT_KEY, u64::from(region.key()) | 1 << 28), WorkStatus::ParentUnmapped);
    rig.refuse_work(&with(request, PARENT_KEY, key::of_index(1 << 15).into()), WorkStatus::ParentUnmapped);
    rig.refuse_work(&with(request, PARENT_KEY, window_key(0).into()), WorkStatus::ParentKind);
    rig.refuse_work(&with(request, PARENT_KEY, u64::from(region.key()) + 1), WorkStatus::ParentKey);
    rig.register(&Region::new(0));
    rig.refuse_work(&with(request, PARENT_KEY, 0), WorkStatus::ParentKey);
    for (first, length) in [(region.va - 1, 1), (region.va, region.length + 1), (u64::MAX, 2), (region.va, u64::MAX)] {
        let request = Rig::bind(2, window_key(1), region.key(), first, length);
        rig.refuse_work(&request, WorkStatus::ParentBounds);
    }
    let pokes = [
        (REGION, ST, STATE_FREE, WorkStatus::ParentState),
        (REGION, PD, 5, WorkStatus::ParentProtectionDomain),
        (REGION, BIND_EN, 0, WorkStatus::ParentAccess),
        (REGION, LW_EN, 0, WorkStatus::ParentAccess),
        (REGION, PA, 1, WorkStatus::ParentKind),
        (REGION, ZBVA, 1, WorkStatus::ParentKind),
        (REGION, MW_CNT, MW_CNT.max(), WorkStatus::ParentFull),
        (WINDOW, PA, 1, WorkStatus::Kind),
        (WINDOW, ST, 0, WorkStatus::State),
        (WINDOW, ST, STATE_VALID, WorkStatus::State),
    ];
    for (index, field, value, status) in pokes {
        let before = rig.entry(index).get(field);
        rig.poke(index, field, value);
        rig.refuse_work(&request, status);
        rig.poke(index, field, before);
    }
    // A window that only reads needs no local write of its region.
    rig.poke(REGION, LW_EN, 0);
    for field in [RW_EN, ATOMIC_EN] {
        let other = if field == RW_EN { ATOMIC_EN } else { RW_EN };
        rig.refuse_work(&with(request, other, 0), WorkStatus::ParentAccess);
    }
    let whole = with(with(with(request, RW_EN, 0), ATOMIC_EN, 0), LENGTH, region.length);
    let whole = with(whole, bind_window::VA, region.va);
    assert_eq!(rig.work(&whole), WorkStatus::Ok, "up to the last byte");
}

#[test]
fn what_a_bind_changes_it_changes_together() {
    let (mut rig, region) = rig(1);
    let other = Region::new(REGION + 1);
    rig.register(&other);
    assert_eq!(rig.work(&bind(1, 1, &region)), WorkStatus::Ok);
    // A move to another region writes the new region, the window and the old region.
    for failing in 0..3 {
        rig.memory.writes_fail_from = Some(rig.memory.writes + failing);
        rig.refuse_work(&bind(1, 2, &other), WorkStatus::BusError);
    }
    rig.memory.writes_fail_from = None;
    assert_eq!(rig.work(&bind(1, 2, &other)), WorkStatus::Ok);
    rig.memory.writes_fail_from = Some(rig.memory.writes + 1);
    rig.refuse(0x0f, WINDOW, 0, 0, CommandStatus::BusError);
}

#[test]
fn a_zero_based_region_counts_from_its_start() {
    let mut rig = Rig::new(1);
    let region = Region::new(REGION);
    rig.register(&region);
    rig.poke(REGION, ZBVA, 1);
    for offset in [0, 1, 0x7ff, 0x800, 0x5432, region.length - 1] {
        let found = rig.access(Operation::RemoteWrite, region.key(), offset, 1);
        assert_eq!(found, Ok(region.pa(region.va + offset)), "{offset:#x}");
    }
    for va in [region.length, region.va, u64::MAX] {
        assert_eq!(rig.access(Operation::RemoteWrite, region.key(), va, 1), Err(Status::Bounds));
    }
    assert_eq!(rig.access(Operation::RemoteWrite, region.key(), region.length - 1, 2), Err(Status::Bounds));
    // At the very top of the address space.
    rig.poke(REGION, VA, u64::MAX - region.length + 1);
    assert!(rig.access(Operation::RemoteWrite, region.key(), region.length - 1, 1).is_ok());
    rig.poke(REGION, VA, u64::MAX - region.length + 2);
    assert_eq!(rig.access(Operation::RemoteWrite, region.key(), 0, 1), Err(Status::RegionWraps));
    // A DMA MR has no start to count from.
    rig.poke(REGION, PA, 1);
    assert_eq!(rig.access(Operation::RemoteWrite, region.key(), 0x1234, 1), Ok(0x1234));
}

#[test]
fn a_zero_based_window_counts_from_its_start() {
    let (mut rig, region) = rig(2);
    rig.poke(WINDOW, ZBVA, 1);
    assert_eq!(rig.work(&bind(2, 1, &region)), WorkStatus::Ok);
    for offset in [0, 0x1234, 0x1fff] {
        let found = rig.access(Operation::RemoteRead, window_key(1), offset, 1);
        assert_eq!(found, Ok(region.pa(region.va + 0x2000 + offset)));
    }
    for va in [0x2000, region.va + 0x2000] {
        assert_eq!(rig.access(Operation::RemoteRead, window_key(1), va, 1), Err(Status::Bounds));
    }
    let (mut rig, region) = self::rig(1);
    rig.poke(WINDOW, ZBVA, 1);
    rig.refuse_work(&bind(1, 1, &region), WorkStatus::Illegal);
}
