//! Mailbox commands: what each does, and every way in which it can be refused.

use keywalk_contract::command::{MAILBOX_COMMANDS, Opcode};
use keywalk_contract::mpt_entry::*;
use keywalk_contract::{CommandStatus, Operation, Status, Table, key};
use keywalk_model::{Descriptor, Fence};

use crate::rig::{BUFFER, Region, Rig};

#[test]
fn a_region_lives_from_create_to_destroy_whatever_the_hops() {
    for hop in 0..=3 {
        let mut rig = Rig::new(hop);
        // The last index of the key space, so that every level index counts.
        let region = Region::new((1 << 20) - 1);
        rig.register(&region);
        let va = region.va + 0x2345;
        assert_eq!(rig.access(Operation::RemoteWrite, region.key(), va, 8), Ok(region.pa(va)), "hop {hop}");

        let created = rig.entry(region.index);
        assert_eq!(rig.post(0x62, region.index, 0, BUFFER + 0x40), CommandStatus::Ok);
        let mut queried = [0; 64];
        rig.memory.memory.read(BUFFER + 0x40, &mut queried).unwrap();
        assert_eq!(queried, created.to_bytes());

        let completion = rig.complete(0x0f, region.index, 0, 0);
        assert_eq!(completion.status, CommandStatus::Ok);
        assert_eq!(completion.fence, Some(Fence::Entry { table_set: 0, index: region.index }));
        assert_eq!(rig.access(Operation::RemoteWrite, region.key(), va, 8), Err(Status::EntryState));
        let mut expected = created;
        expected.set(ST, 0);
        assert_eq!(rig.entry(region.index), expected, "only the state is cleared");
    }
}

#[test]
fn a_command_that_is_not_known_changes_nothing() {
    let mut rig = Rig::new(1);
    rig.register(&Region::new(5));
    for code in 0..=u8::MAX {
        if MAILBOX_COMMANDS.iter().all(|command| command.code != code) {
            rig.refuse(code, 5, BUFFER, BUFFER, CommandStatus::UnknownCommand);
        }
    }
    for opcode in [0, 0x8503, 0x8505, 0x8507, u16::MAX] {
        let before = rig.device.clone();
        let descriptor = Descriptor { opcode, function: 0, data: [u32::MAX; 6] };
        assert_eq!(rig.device.start(&descriptor), CommandStatus::UnknownCommand);
        assert_eq!(rig.device, before);
    }
}

#[test]
fn one_command_at_a_time() {
    let mut rig = Rig::new(1);
    assert_eq!(rig.device.mailbox_status().to_bytes(), [0; 8]);
    rig.register(&Region::new(5));
    let first = rig.descriptor(0x0f, 5, 0, 0);
    let second = rig.descriptor(0x28, 5, 0, 0);
    assert_eq!(rig.device.start(&first), CommandStatus::Ok);
    let token = first.data[5] as u16;
    let busy = rig.device.mailbox_status().to_bytes();
    assert_eq!([busy[0], busy[3]], [CommandStatus::Ok.code(), 0x80], "busy, with the outcome of the one before");
    assert_eq!(u16::from_le_bytes([busy[4], busy[5]]), token - 1);

    let before = rig.device.clone();
    let configure = Descriptor { opcode: Opcode::ConfigureBtAttribute as u16, function: 0, data: [0x3ff; 6] };
    for refused in [second, configure, Descriptor { opcode: 0, ..second }] {
        assert_eq!(rig.device.start(&refused), CommandStatus::Busy);
        assert_eq!(rig.device, before);
    }
    assert_eq!(rig.device.run(&mut rig.memory).map(|completion| completion.token), Some(token));
    assert_eq!(rig.device.run(&mut rig.memory), None);
    let done = rig.device.mailbox_status().to_bytes();
    assert_eq!(done[..4], [1, 0, 0, 0], "as the driver reads it");
    assert_eq!(rig.device.start(&second), CommandStatus::Ok);
}

#[test]
fn an_event_is_asked_for_by_a_bit() {
    let mut rig = Rig::new(0);
    for event in [false, true] {
        let mut descriptor = rig.descriptor(0x0f, 5, 0, 0);
        descriptor.data[5] |= u32::from(event) << 16;
        rig.device.start(&descriptor);
        let completion = rig.device.run(&mut rig.memory).unwrap();
        assert_eq!((completion.event, completion.status), (event, CommandStatus::Unmapped));
    }
}

#[test]
fn indices_stay_within_their_table() {
    let mut rig = Rig::new(1);
    rig.register(&Region::new(5));
    for code in [0x0d, 0x0f, 0x62, 0x20, 0x21, 0x28, 0x29] {
        rig.refuse(code, 1 << 20, BUFFER, BUFFER, CommandStatus::IndexOutOfRange);
        rig.refuse(code, (1 << 20) + 5, BUFFER, BUFFER, CommandStatus::IndexOutOfRange);
    }
    for (table, code) in [(Table::Mpt, 0x0f), (Table::Cqc, 0x17), (Table::Srqc, 0x72), (Table::Qpc, 0x42)] {
        rig.device.engine.table_sets[0].table_mut(table).geometry.object_count = 5;
        rig.refuse(code, 5, BUFFER, BUFFER, CommandStatus::IndexOutOfRange);
    }
    for index in [5, 6, 100] {
        rig.refuse(0x10, index, 0x7000, 0, CommandStatus::IndexOutOfRange);
    }
    assert_eq!(rig.post(0x10, 4, 0x7000, 0), CommandStatus::Ok, "the last one of five");

    // Slots of the engine, of which there may be fewer than bt_num.
    rig.device.bt0_slots = 1;
    rig.refuse(0xa5, 1, BUFFER, 0, CommandStatus::IndexOutOfRange);
    assert_eq!(rig.post(0xa5, 2, BUFFER, 0), CommandStatus::Ok, "slot 2 modulo 2");
}

#[test]
fn addresses_are_neither_zero_nor_misaligned() {
    let mut rig = Rig::new(2);
    rig.register(&Region::new(5));
    for address in [0, 1, 8, BUFFER + 32, BUFFER + 63] {
        rig.refuse(0x0d, 5, address, 0, CommandStatus::AddressIllegal);
        rig.refuse(0x62, 5, 0, address, CommandStatus::AddressIllegal);
    }
    for address in [0, 8, 64, 0x1800, u64::MAX] {
        for step in 0..=2 {
            rig.refuse(0x20 + step, 5, address, 0, CommandStatus::AddressIllegal);
        }
    }
    rig.device.engine.controls.alignment_check = false;
    rig.refuse(0x20, 5, 0x1804, 0, CommandStatus::AddressIllegal);
    assert_eq!(rig.post(0x20, 5, 0x1808, 0), CommandStatus::Ok);
}

#[test]
fn a_context_that_is_not_mapped_is_refused() {
    for hop in 0..=3_u8 {
        let mut rig = Rig::new(hop);
        for code in [0x0d, 0x0f, 0x62] {
            rig.refuse(code, 5, BUFFER, BUFFER, CommandStatus::Unmapped);
        }
        if hop > 0 {
            rig.register(&Region::new(5));
            let table = rig.device.engine.table_sets[0].table(Table::Mpt).clone();
            let page = table.bt0[0].unwrap();
            let pointer = rig.memory.memory.read_u64(page).unwrap();
            for bad in [0, pointer + 8] {
                rig.memory.memory.write_u64(page, bad).unwrap();
                rig.refuse(0x0f, 5, 0, 0, CommandStatus::Unmapped);
            }
        }
    }
    let mut rig = Rig::new(0);
    rig.refuse(0x16, 5, BUFFER, 0, CommandStatus::Unmapped);
    // A function whose table set does not exist reaches nothing, and cannot be given anything.
    rig.device.engine.function_map[9] = 3;
    rig.function = 9;
    rig.refuse(0x20, 5, BUFFER, 0, CommandStatus::Unmapped);
    rig.refuse(0x0d, 5, BUFFER, 0, CommandStatus::Unmapped);
}

#[test]
fn a_bus_error_leaves_everything_as_it_was() {
    let mut rig = Rig::new(1);
    let region = Region::new(5);
    rig.register(&region);
    let nowhere = 0x1234_5000;
    rig.refuse(0x0d, 5, nowhere, 0, CommandStatus::BusError);
    rig.refuse(0x62, 5, 0, nowhere, CommandStatus::BusError);
    for code in [0x0d, 0x0f, 0x62] {
        rig.memory.writes_fail_from = Some(rig.memory.writes);
        rig.refuse(code, 5, BUFFER, BUFFER, CommandStatus::BusError);
    }
    rig.memory.writes_fail_from = None;
    let page = rig.device.engine.table_sets[0].table(Table::Mpt).bt0[0].unwrap();
    rig.memory.memory.remove(page, 1);
    rig.refuse(0x0f, 5, 0, 0, CommandStatus::BusError);
}

#[test]
fn a_level_that_the_table_does_not_have_is_refused() {
    for hop in 0..=3_u8 {
        let mut rig = Rig::new(hop);
        for step in 0..=2 {
            let page = rig.page();
            if step > hop {
                rig.refuse(0x20 + step, 5, page, 0, CommandStatus::StepTooLarge);
                rig.refuse(0x28 + step, 5, 0, 0, CommandStatus::StepTooLarge);
            } else {
                assert_eq!(rig.post(0x20 + step, 5, page, 0), CommandStatus::Ok);
                assert_eq!(rig.post(0x28 + step, 5, 0, 0), CommandStatus::Ok);
            }
        }
    }
}

#[test]
fn base_addresses_go_into_the_slot_of_their_object() {
    let mut rig = Rig::new(1);
    // Hop 1, chunks of 64 entries, 512 pointers: an object of 512 * 64 is in slot 1, one of twice that in slot 0 again.
    let slots = |rig: &Rig, table: Table| rig.device.engine.table_sets[0].table(table).bt0.clone();
    assert_eq!(
        rig.complete(0x20, 512 * 64, 0x7000, 0).fence,
        Some(Fence::Pointers { table_set: 0, table: Table::Mpt })
    );
    assert_eq!(slots(&rig, Table::Mpt), [None, Some(0x7000)]);
    rig.post(0x20, 2 * 512 * 64 + 5, 0x8000, 0);
    assert_eq!(slots(&rig, Table::Mpt), [Some(0x8000), Some(0x7000)]);
    let completion = rig.complete(0x28, 512 * 64 + 63, 0, 0);
    assert_eq!(completion.fence, Some(Fence::Pointers { table_set: 0, table: Table::Mpt }));
    assert_eq!(slots(&rig, Table::Mpt), [Some(0x8000), None]);

    // The tag of SCCC is the level-0 index itself; timers have a page for each object.
    rig.post(0xa5, 3, 0x9000, 0);
    assert_eq!(slots(&rig, Table::Sccc), [None, Some(0x9000)]);
    rig.post(0x33, 1, 0xa000, 0);
    assert_eq!(slots(&rig, Table::QpcTimer), [None, Some(0xa000)]);
    rig.post(0x23, 0, 0xb000, 0);
    assert_eq!(slots(&rig, Table::CqcTimer), [Some(0xb000)]);
    assert_eq!(slots(&rig, Table::Qpc), []);
}

#[test]
fn geometry_arrives_in_the_order_of_the_command() {
    let mut rig = Rig::new(1);
    let word = |hop: u32, buf: u32, ba: u32| hop << 8 | buf << 4 | ba;
    let data = [word(3, 15, 14), word(2, 1, 2), word(1, 3, 4), word(0, 5, 6), word(2, 7, 8), u32::MAX];
    let opcode = Opcode::ConfigureBtAttribute as u16;
    assert_eq!(rig.device.start(&Descriptor { opcode, function: 0, data }), CommandStatus::Ok);
    let order = [Table::Qpc, Table::Srqc, Table::Cqc, Table::Mpt, Table::Sccc];
    let found = order.map(|table| {
        let geometry = rig.device.engine.table_sets[0].table(table).geometry;
        (geometry.hop, geometry.buf_pg_sz, geometry.ba_pg_sz)
    });
    assert_eq!(found, [(3, 15, 14), (2, 1, 2), (1, 3, 4), (0, 5, 6), (2, 7, 8)]);
    let qpc = rig.device.engine.table_sets[0].table(Table::Qpc).geometry;
    assert_eq!((qpc.entry_bytes_log2, qpc.bt_num), (8, 2), "what registers say stays");
}

#[test]
fn contexts_of_queues_are_created_changed_queried_and_destroyed() {
    // Table, bytes, BT0, BT1, create, modify, query, destroy.
    let rows = [
        (Table::Cqc, 64, 0x10, Some(0x16), 0x52, 0x53, Some(0x17)),
        (Table::Srqc, 64, 0x30, Some(0x70), 0x72, 0x73, Some(0x74)),
        (Table::Qpc, 256, 0x00, None, 0x41, 0x42, None),
    ];
    for (table, bytes, bt, create, modify, query, destroy) in rows {
        let mut rig = Rig::new(1);
        let (pointers, chunk) = (rig.page(), rig.page());
        rig.memory.memory.write_u64(pointers, chunk).unwrap();
        assert_eq!(rig.post(bt, 3, pointers, 0), CommandStatus::Ok);
        assert_eq!(rig.post(bt + 1, 3, chunk, 0), CommandStatus::Ok);
        let at = |rig: &Rig| {
            let mut context = vec![0; bytes];
            rig.memory.memory.read(chunk + 3 * bytes as u64, &mut context).unwrap();
            context
        };
        let fill =
            |rig: &mut Rig, at: u64, value: u8| rig.memory.memory.write(BUFFER + at, &vec![value; bytes]).unwrap();

        if let Some(create) = create {
            fill(&mut rig, 0, 0xa7);
            assert_eq!(rig.post(create, 3, BUFFER, 0), CommandStatus::Ok);
            assert_eq!(at(&rig), vec![0xa7; bytes], "{}", table.name());
        }
        let before = at(&rig)[0];
        fill(&mut rig, 0, 0x5a);
        fill(&mut rig, bytes as u64, 0xf0);
        assert_eq!(rig.post(modify, 3, BUFFER, 0), CommandStatus::Ok);
        let modified = before & 0xf0 | 0x0a;
        assert_eq!(at(&rig), vec![modified; bytes], "bits whose mask bit is 1 stay");
        fill(&mut rig, 0, 0);
        assert_eq!(rig.post(query, 3, 0, BUFFER), CommandStatus::Ok);
        let mut found = vec![0; bytes];
        rig.memory.memory.read(BUFFER, &mut found).unwrap();
        assert_eq!(found, vec![modified; bytes]);
        if let Some(destroy) = destroy {
            assert_eq!(rig.post(destroy, 3, 0, 0), CommandStatus::Ok);
            let mut expected = vec![modified; bytes];
            expected[0] &= !3;
            assert_eq!(at(&rig), expected);
        }
        let mut neighbour = vec![0; bytes];
        rig.memory.memory.read(chunk + 2 * bytes as u64, &mut neighbour).unwrap();
        assert_eq!(neighbour, vec![0; bytes]);
    }
}

#[test]
fn a_key_finds_its_entry_after_any_other_command() {
    let mut rig = Rig::new(1);
    let region = Region::new(77);
    rig.register(&region);
    for other in [76, 78, 141] {
        rig.register(&Region::new(other));
        rig.post(0x0f, other, 0, 0);
        assert_eq!(rig.access(Operation::LocalRead, region.key(), region.va, 1), Ok(region.pa(region.va)));
        assert_eq!(rig.access(Operation::LocalRead, key::of_index(other), region.va, 1), Err(Status::EntryState));
    }
}
