//! Page split, merging, hold mode and the beats of a response.

use crate::rig::{self, Rig};
use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::mpt_entry::*;
use keywalk_contract::{Operation, Status, WireClass};
use keywalk_model::{Beat, Failure, Segment};

/// A rig that asks for `pages` whole pages from page 1 on, which lie at these addresses.
fn with_pages(addresses: &[u64]) -> Rig {
    let mut rig = Rig::new();
    for (index, address) in (1..).zip(addresses) {
        rig.write(Rig::leaf(index), *address);
    }
    rig.request.operation = Operation::RemoteRead.code();
    rig.request.va = rig::REGION_VA - 0x800 + 0x1000;
    rig.request.length = 0x1000 * addresses.len() as u32;
    rig
}

#[track_caller]
fn check(rig: &Rig, segments: &[(u64, u32)], failure: Option<Failure>) {
    let response = rig.translate();
    let expected: Vec<_> =
        segments.iter().map(|(pa, length_bytes)| Segment { pa: *pa, length_bytes: *length_bytes }).collect();
    assert_eq!(response.segments, expected);
    assert_eq!(response.failure, failure);
}

const fn not_present(hop: u8) -> Failure {
    Failure { status: Status::MtrNotPresent, table: TABLE_CODE_MTR, hop }
}

#[test]
fn the_whole_of_an_unaligned_region_is_one_piece_per_page() {
    let mut rig = Rig::new();
    rig.request.va = rig::REGION_VA;
    rig.request.length = rig::REGION_BYTES as u32;
    let mut expected = vec![(rig::page(0) + 0x800, 0x800)];
    expected.extend((1..599).map(|index| (rig::page(index), 0x1000)));
    expected.push((rig::page(599), 0x840));
    check(&rig, &expected, None);
}

#[test]
fn contiguous_pages_merge_greedily_up_to_the_maximum() {
    let mut rig = with_pages(&[0x10_0000, 0x10_1000, 0x10_2000, 0x10_3000, 0x50_0000]);
    check(&rig, &[(0x10_0000, 0x4000), (0x50_0000, 0x1000)], None);
    rig.engine.controls.merge_bytes_max = 0x3000;
    check(&rig, &[(0x10_0000, 0x3000), (0x10_3000, 0x1000), (0x50_0000, 0x1000)], None);
    rig.engine.controls.merge_bytes_max = 0x2fff;
    check(&rig, &[(0x10_0000, 0x2000), (0x10_2000, 0x2000), (0x50_0000, 0x1000)], None);
    let single: Vec<_> = [0x10_0000, 0x10_1000, 0x10_2000, 0x10_3000, 0x50_0000].map(|pa| (pa, 0x1000)).into();
    for none in [0, 1, 0x1fff] {
        rig.engine.controls.merge_bytes_max = none;
        check(&rig, &single, None);
    }
}

#[test]
fn a_piece_longer_than_the_maximum_is_not_cut() {
    let mut rig = with_pages(&[0x10_0000, 0x10_1000]);
    rig.engine.controls.merge_bytes_max = 0x800;
    check(&rig, &[(0x10_0000, 0x1000), (0x10_1000, 0x1000)], None);
}

#[test]
fn backward_and_repeated_pages_do_not_merge() {
    let rig = with_pages(&[0x10_1000, 0x10_0000, 0x10_0000]);
    check(&rig, &[(0x10_1000, 0x1000), (0x10_0000, 0x1000), (0x10_0000, 0x1000)], None);
}

#[test]
fn pages_merge_up_to_the_top_of_the_address_space_but_not_across() {
    let top = 0_u64.wrapping_sub(0x1000);
    let mut rig = with_pages(&[top - 0x1000, top, 0, 0x1000]);
    rig.engine.controls.zero_entry_literal = true;
    check(&rig, &[(top - 0x1000, 0x2000), (0, 0x2000)], None);
}

#[test]
fn a_misaligned_leaf_is_added_to_modulo_the_address_space() {
    let mut rig = with_pages(&[0x10_0010, 0x10_1010, u64::MAX]);
    rig.request.va += 0x100;
    rig.request.length -= 0x100;
    check(&rig, &[(0x10_0110, 0x1f00), (u64::MAX, 0x1000)], None);
    rig.request.va += 0x1f01;
    rig.request.length = 0x10;
    check(&rig, &[(0, 0x10)], None);
}

#[test]
fn segments_before_a_failure_stand() {
    let rig = with_pages(&[0x10_0000, 0x10_1000, 0, 0x10_3000]);
    check(&rig, &[(0x10_0000, 0x2000)], Some(not_present(1)));
    let rig = with_pages(&[0x10_0000, 0x20_0000, 0]);
    check(&rig, &[(0x10_0000, 0x1000), (0x20_0000, 0x1000)], Some(not_present(1)));
    let rig = with_pages(&[0, 0x10_0000]);
    check(&rig, &[], Some(not_present(1)));
}

#[test]
fn the_index_is_checked_page_by_page() {
    let mut rig = with_pages(&[0x10_0000, 0x20_0000, 0x30_0000]);
    rig.set(PBL_SIZE, 3);
    let failure = Failure { status: Status::MtrIndex, table: TABLE_CODE_MTR, hop: 0 };
    check(&rig, &[(0x10_0000, 0x1000), (0x20_0000, 0x1000)], Some(failure));
}

#[test]
fn hold_mode_reports_all_or_the_failure_alone() {
    let mut rig = with_pages(&[0x10_0000, 0x10_1000, 0x20_0000]);
    rig.engine.controls.hold_mode = true;
    check(&rig, &[(0x10_0000, 0x2000), (0x20_0000, 0x1000)], None);
    rig.write(Rig::leaf(3), 0);
    check(&rig, &[], Some(not_present(1)));
    rig.engine.controls.hold_bytes_max = 0x3000;
    check(&rig, &[], Some(not_present(1)));
    rig.engine.controls.hold_bytes_max = 0x2fff;
    check(&rig, &[], Some(Failure::of(Status::HoldTooLong)));
}

#[test]
fn beats_number_segments_and_carry_the_failure_last() {
    let rig = with_pages(&[0x10_0000, 0x20_0000, 0]);
    let beat = Beat {
        tag: rig.request.tag,
        function: rig.request.function,
        status: Status::Ok,
        wire_class: WireClass::None,
        table: 0,
        hop: 0,
        segment: 0,
        first: true,
        last: false,
        pa: 0x10_0000,
        length: 0x1000,
    };
    let second = Beat { segment: 1, first: false, pa: 0x20_0000, ..beat };
    let error = Beat {
        status: Status::MtrNotPresent,
        wire_class: WireClass::RemoteOperationalError,
        table: TABLE_CODE_MTR,
        hop: 1,
        segment: 2,
        first: false,
        last: true,
        pa: 0,
        length: 0,
        ..beat
    };
    assert_eq!(rig.translate().beats(&rig.request), [beat, second, error]);
}

#[test]
fn an_empty_request_is_one_empty_beat_and_a_refused_one_is_one_error_beat() {
    let mut rig = Rig::new();
    rig.request.length = 0;
    let [beat] = rig.translate().beats(&rig.request)[..] else { panic!("one beat") };
    assert_eq!(
        (beat.status, beat.first, beat.last, beat.segment, beat.pa, beat.length),
        (Status::Ok, true, true, 0, 0, 0)
    );
    rig.request.length = 8;
    rig.request.operation = Operation::LocalWrite.code();
    rig.request.pd += 1;
    let [beat] = rig.translate().beats(&rig.request)[..] else { panic!("one beat") };
    assert_eq!((beat.first, beat.last, beat.segment, beat.pa, beat.length), (true, true, 0, 0, 0));
    assert_eq!((beat.status, beat.wire_class), (Status::ProtectionDomain, WireClass::LocalProtectionError));
    assert_eq!((beat.table, beat.hop), (0, 0));
}

#[test]
fn steps_name_every_read_and_the_check_that_failed() {
    let mut rig = Rig::new();
    rig.request.pd = 0;
    let text: Vec<_> = rig.explain().iter().map(ToString::to_string).collect();
    assert_eq!(text.iter().filter(|line| line.starts_with("read ")).count(), 2);
    assert_eq!(text[0], "check operation_unknown holds: operation 3 (remote_write)");
    assert!(text.contains(&"read mpt hop 0 at 0x100020, 8 bytes: 0x200000".into()), "{text:#?}");
    assert_eq!(text.last().unwrap(), "check protection_domain FAILS: pd 0x0, the entry's 0xabcdef");
}

#[test]
fn the_read_log_has_the_least_reads_of_a_request() {
    let mut rig = Rig::new();
    rig.request.length = 0x1000;
    let mut log = keywalk_model::ReadLog::default();
    let response = rig.engine.translate_observed(&rig.reader(), &rig.request, &mut log);
    assert_eq!(response.segments.len(), 2);
    let entry = Rig::entry_address();
    let (root, leaf) = (rig::ROOT, Rig::leaf(1));
    assert_eq!(log.addresses, [Rig::chunk_pointer(), entry, root, leaf, root, leaf + 8]);
}
