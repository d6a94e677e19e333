//! What the model tells about the way to an answer.

use keywalk_contract::Status;
use keywalk_contract::mpt_entry::*;
use keywalk_model::{BusError, Failure, MptEntry, Observer, ReadLog, Recorder, Step, TableRead};

use crate::rig::{BA_PAGE, Rig};

/// The steps as people read them.
fn text(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn every_step_is_told_in_order() {
    let rig = Rig::new();
    let expected = [
        "check operation_unknown holds: operation 3 (remote_write)",
        "check length_too_long holds: length 8",
        "check index_out_of_range (mpt hop 0) holds: index 291 against object_count 0 (0: unchecked)",
        "check bt0_unset (mpt hop 0) holds: level-0 index 0 modulo bt_num 1: slot 0 is 0x100000",
        "check hem_misaligned (mpt hop 0) holds: pointer 0x100000 against alignment 4096",
        "read mpt hop 0 at 0x100020, 8 bytes: 0x200000",
        "check hem_pointer_zero (mpt hop 1) holds: pointer 0x200000",
        "check hem_misaligned (mpt hop 1) holds: pointer 0x200000 against alignment 4096",
        "read mpt hop 1 at 0x2008c0, 64 bytes: 0xf8abcdef09",
        "entry st 0x1, pbl_hop_num 0x2, pd 0xabcdef, bind_en 0x1, atomic_en 0x1, rr_en 0x1, rw_en 0x1, lw_en \
         0x1, bqp 0x1, mw_bind_qpn 0x55, bound_lkey 0x12300, len 0x257040, lkey 0x12300, va 0x700000000800, \
         pbl_size 0x258, pbl_ba 0x601ff",
        "check entry_state holds: st 1",
        "check entry_key holds: key 0x12300, lkey 0x12300",
        "check protection_domain holds: pd 0xabcdef, the entry's 0xabcdef",
        "check access_right holds: remote_write needs rw_en, which is 1",
        "check region_wraps holds: region 0x700000000800 to 0x700000257840",
        "check region_too_large holds: 600 pages of 4096 bytes",
        "check bounds holds: 0x700000001800 to 0x700000001808, region 0x700000000800 to 0x700000257840",
        "check mtr_index (mtr hop 0) holds: page index 1 against pbl_size 600",
        "check mtr_not_present (mtr hop 0) holds: root 0x300ff8",
        "read mtr hop 0 at 0x300ff8, 8 bytes: 0x400000",
        "check mtr_not_present (mtr hop 0) holds: entry 0x400000",
        "check mtr_misaligned (mtr hop 1) holds: table 0x400000 against alignment 4096",
        "read mtr hop 1 at 0x400008, 8 bytes: 0x900000003000",
        "check mtr_not_present (mtr hop 1) holds: entry 0x900000003000",
        "piece va 0x700000001800 -> pa 0x900000003800, 8 bytes",
    ];
    assert_eq!(text(&rig.explain()), expected);
}

#[test]
fn a_failure_names_its_read() {
    let mut rig = Rig::new();
    rig.write(Rig::chunk_pointer(), 0);
    let last = text(&rig.explain()).pop();
    assert_eq!(last.as_deref(), Some("check hem_pointer_zero (mpt hop 1) FAILS: pointer 0x0"));
    rig.mpt().set_bt0(0, Some(BA_PAGE << 20));
    let last = text(&rig.explain()).pop();
    assert_eq!(last.as_deref(), Some("read mpt hop 0 at 0x10000000020, 8 bytes: bus error"));
    let nowhere = Step::Read(TableRead { table: 15, hop: 0, address: 0, bytes: 8, value: Ok(1) });
    assert_eq!(nowhere.to_string(), "read no table hop 0 at 0x0, 8 bytes: 0x1");
}

#[test]
fn an_entry_takes_no_more_than_its_bytes() {
    assert_eq!(size_of::<MptEntry>() as u64, ENTRY_BYTES);
}

/// Is told everything, and forgets it.
#[derive(Default)]
struct Forgetful;

impl Observer for Forgetful {}

#[test]
fn an_observer_is_told_through_a_reference_too() {
    let steps = [
        Step::Check { failure: Failure::of(Status::Ok), holds: true, detail: "why".into() },
        Step::Read(TableRead { table: 7, hop: 1, address: 0x40, bytes: 8, value: Err(BusError) }),
        Step::Entry(MptEntry::from_bytes(&[0; ENTRY_BYTES as usize])),
        Step::Piece { va: 1, pa: 2, length_bytes: 3 },
    ];
    let tell = |observer: &mut dyn FnMut(&Step)| steps.iter().for_each(observer);
    fn pass(mut observer: impl Observer, step: &Step) {
        match step {
            Step::Check { failure, holds, detail } => observer.check(*failure, *holds, || detail.clone()),
            Step::Read(read) => observer.read(*read),
            Step::Entry(entry) => observer.entry(entry),
            Step::Piece { va, pa, length_bytes } => observer.piece(*va, *pa, *length_bytes),
        }
    }
    let mut recorder = Recorder::default();
    tell(&mut |step| pass(&mut recorder, step));
    assert_eq!(recorder.steps, steps);
    let mut log = ReadLog::default();
    tell(&mut |step| pass(&mut log, step));
    assert_eq!(log.addresses, [0x40]);
    tell(&mut |step| pass(Forgetful, step));
}
