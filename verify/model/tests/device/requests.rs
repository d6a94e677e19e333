//! Work requests on regions: FAST_REG_PMR, LOCAL_INV, SEND_WITH_INV.

use keywalk_contract::mpt_entry::*;
use keywalk_contract::work::{fast_register, invalidate_key};
use keywalk_contract::{Operation, Status, WorkStatus, key};
use keywalk_model::WorkRequest;

use crate::rig::{PD_A, Region, Rig, with};

const INDEX: u32 = 9;
const VA_FAST: u64 = 0x1000_0000_0123;
const LENGTH: u64 = 3 * 4096;
const PAGES: [u64; 4] = [0xaaaa_a000, 0xbbbb_b000, 0xcccc_c000, 0xdddd_d000];

fn key_of(variant: u32) -> u32 {
    key::of_index(INDEX) | variant
}

fn fast() -> (Rig, WorkRequest) {
    let mut rig = Rig::new(1);
    let root = rig.create_fast(INDEX, &PAGES);
    (rig, Rig::fast_register(key_of(0x41), root, VA_FAST, LENGTH, 4))
}

#[test]
fn fast_registration_goes_from_free_to_valid_and_back() {
    let (mut rig, request) = fast();
    let before = rig.entry(INDEX);
    assert_eq!(rig.access(Operation::RemoteRead, key_of(0x41), VA_FAST, 1), Err(Status::EntryState));
    assert_eq!(rig.work(&request), WorkStatus::Ok);
    assert_eq!(rig.access(Operation::RemoteRead, key_of(0x41), VA_FAST + 0x1000, 1), Ok(PAGES[1] + 0x123));
    let after = rig.entry(INDEX);
    for field in [PBL_HOP_NUM, PBL_BA_PG_SZ, PD, FRE, R_INV_EN, RA_EN, BPD] {
        assert_eq!(after.get(field), before.get(field), "{} stays", field.name);
    }
    assert_eq!((after.get(PBL_SIZE), after.get(LEN), after.get(LKEY)), (4, LENGTH, key_of(0x41).into()));

    assert_eq!(rig.work(&Rig::local_invalidate(key_of(0x41))), WorkStatus::Ok, "L_INV_EN is not needed");
    assert_eq!(rig.access(Operation::RemoteRead, key_of(0x41), VA_FAST, 1), Err(Status::EntryState));
    assert_eq!(rig.work(&with(request, fast_register::KEY, key_of(0x42).into())), WorkStatus::Ok);
    assert_eq!(rig.access(Operation::RemoteRead, key_of(0x41), VA_FAST, 1), Err(Status::EntryKey));
    assert_eq!(rig.access(Operation::RemoteRead, key_of(0x42), VA_FAST, 1), Ok(PAGES[0] + 0x123));
    assert_eq!(rig.work(&Rig::remote_invalidate(key_of(0x42))), WorkStatus::Ok, "R_INV_EN is set");
    assert_eq!(rig.access(Operation::RemoteRead, key_of(0x42), VA_FAST, 1), Err(Status::EntryState));
}

#[test]
fn fast_registration_sets_exactly_the_rights_it_names() {
    let rights = [
        (fast_register::BIND_EN, BIND_EN),
        (fast_register::ATOMIC_EN, ATOMIC_EN),
        (fast_register::RR_EN, RR_EN),
        (fast_register::RW_EN, RW_EN),
        (fast_register::LW_EN, LW_EN),
    ];
    let (mut rig, mut request) = fast();
    for (field, _) in rights {
        request = with(request, field, 0);
    }
    for (number, (field, right)) in rights.into_iter().enumerate() {
        let request = with(with(request, field, 1), fast_register::KEY, key_of(number as u32).into());
        assert_eq!(rig.work(&request), WorkStatus::Ok);
        for (_, other) in rights {
            assert_eq!(rig.entry(INDEX).is_set(other), other == right);
        }
        rig.work(&Rig::local_invalidate(key_of(number as u32)));
    }
}

#[test]
fn fast_registration_is_refused_for_each_reason() {
    use fast_register::{BUF_PG_SZ, KEY, LENGTH, PBL_BA, PBL_SIZE, VA};
    let (mut rig, request) = fast();
    rig.refuse_work(&WorkRequest { privileged: false, ..request }, WorkStatus::NotPrivileged);
    rig.refuse_work(&WorkRequest { pd: PD_A + 1, ..request }, WorkStatus::ProtectionDomain);
    // All 24 bits of the index count, although there are only 2^20 entries.
    rig.refuse_work(&with(request, KEY, u64::from(key_of(1)) | 1 << 28), WorkStatus::IndexOutOfRange);
    rig.refuse_work(&with(request, KEY, key::of_index(1 << 20).into()), WorkStatus::IndexOutOfRange);
    rig.refuse_work(&with(request, KEY, key::of_index((1 << 20) - 1).into()), WorkStatus::Unmapped);
    let illegal = [
        (PBL_SIZE, 0),
        (PBL_SIZE, 513),
        (PBL_SIZE, 3),
        (PBL_BA, 0),
        (PBL_BA, 0x8_0004),
        (LENGTH, 4 * 4096),
        (LENGTH, u64::MAX),
        (VA, u64::MAX - 5),
    ];
    for (field, value) in illegal {
        rig.refuse_work(&with(request, field, value), WorkStatus::Illegal);
    }
    assert_eq!(rig.work(&with(request, BUF_PG_SZ, 15)), WorkStatus::Ok, "128 MiB");
    rig.refuse_work(&with(request, KEY, key_of(0x42).into()), WorkStatus::State);
    rig.post(0x0f, INDEX, 0, 0);
    rig.refuse_work(&request, WorkStatus::State);

    rig.register(&Region::new(INDEX + 1));
    rig.refuse_work(&with(request, KEY, key::of_index(INDEX + 1).into()), WorkStatus::Kind);
    rig.create_window(INDEX + 2, 1);
    rig.poke(INDEX + 2, FRE, 1);
    rig.refuse_work(&with(request, KEY, key::of_index(INDEX + 2).into()), WorkStatus::Kind);
}

#[test]
fn a_failing_bus_leaves_the_entry_as_it_was() {
    let (mut rig, request) = fast();
    rig.memory.writes_fail_from = Some(rig.memory.writes);
    rig.refuse_work(&request, WorkStatus::BusError);
    rig.memory.writes_fail_from = None;
    assert_eq!(rig.work(&request), WorkStatus::Ok);
    rig.memory.writes_fail_from = Some(rig.memory.writes);
    rig.refuse_work(&Rig::local_invalidate(key_of(0x41)), WorkStatus::BusError);
}

#[test]
fn invalidation_is_refused_for_each_reason() {
    let (mut rig, request) = fast();
    let both = [Rig::local_invalidate, Rig::remote_invalidate];
    for invalidate in both {
        rig.refuse_work(&invalidate(key_of(0x41)), WorkStatus::State);
    }
    assert_eq!(rig.work(&request), WorkStatus::Ok);
    for invalidate in both {
        rig.refuse_work(&invalidate(key_of(0x40)), WorkStatus::Key);
        rig.refuse_work(&invalidate(key_of(0x41) | 1 << 28), WorkStatus::IndexOutOfRange);
        rig.refuse_work(&WorkRequest { pd: PD_A - 1, ..invalidate(key_of(0x41)) }, WorkStatus::ProtectionDomain);
    }
    rig.poke(INDEX, R_INV_EN, 0);
    rig.refuse_work(&Rig::remote_invalidate(key_of(0x41)), WorkStatus::Access);
    rig.poke(INDEX, MW_CNT, 1);
    rig.refuse_work(&Rig::local_invalidate(key_of(0x41)), WorkStatus::WindowsBound);
    rig.poke(INDEX, MW_CNT, 0);
    let unprivileged = WorkRequest { privileged: false, ..Rig::local_invalidate(key_of(0x41)) };
    assert_eq!(rig.work(&unprivileged), WorkStatus::Ok);
    rig.refuse_work(&Rig::local_invalidate(key_of(0x41)), WorkStatus::State);
}

#[test]
fn a_region_of_a_user_is_invalidated_only_where_it_says_so() {
    let mut rig = Rig::new(1);
    let region = Region::new(30);
    rig.register(&region);
    rig.refuse_work(&Rig::local_invalidate(region.key()), WorkStatus::Access);
    rig.refuse_work(&Rig::remote_invalidate(region.key()), WorkStatus::Access);
    rig.poke(30, L_INV_EN, 1);
    assert_eq!(rig.work(&Rig::local_invalidate(region.key())), WorkStatus::Ok);
    rig.poke(30, ST, STATE_VALID);
    rig.poke(30, R_INV_EN, 1);
    assert_eq!(rig.work(&Rig::remote_invalidate(region.key())), WorkStatus::Ok);
}

#[test]
fn an_opcode_that_is_not_known_changes_nothing() {
    let (mut rig, request) = fast();
    for opcode in 0..32 {
        if ![0x01, 0x0a, 0x0b, 0x0c].contains(&opcode) {
            rig.refuse_work(&with(request, invalidate_key::OPCODE, opcode), WorkStatus::UnknownOpcode);
        }
    }
}

#[test]
fn flags_of_the_send_queue_do_not_matter() {
    let (mut rig, mut request) = fast();
    request.wqe[0] |= 0xe0;
    request.wqe[1..4].fill(0xff);
    assert_eq!(rig.work(&request), WorkStatus::Ok);
}
