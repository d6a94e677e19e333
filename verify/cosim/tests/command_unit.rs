//! The command unit within a small engine: its registers, a mailbox command's way through them, what the host sees of the
//! core's registers meanwhile, and resets in the middle. What commands and work requests do is compared with the golden model
//! in `verify/tests/commands.rs`.

use keywalk_contract::command::{self, DATA_WORDS, Opcode};
use keywalk_contract::regs::CounterName;
use keywalk_contract::{CommandStatus, Table, WorkStatus, mpt_entry, regs, work};
use keywalk_cosim::{Engine, EngineOptions, Error, LiteAccess, Setup, TableGeometry, TableSet, WorkRequest, dut};
use keywalk_image::SparseMemory;

/// BA page, chunk and mailbox buffer.
const PAGE: u64 = 0x1234_5000;
const CHUNK: u64 = 0x9_8765_4000;
const BUFFER: u64 = 0x4444_4000;
const INDEX: u32 = 70;
const COMMAND_LIMIT_CYCLES: u64 = 30_000;

const WRITE_MPT_BT0: u8 = 0x20;
const CREATE_MPT: u8 = 0x0d;
const QUERY_MPT: u8 = 0x62;
const DESTROY_MPT: u8 = 0x0f;

/// The context that is created: VALID, protection domain 5, and bytes that tell each other apart.
fn context() -> [u8; 64] {
    let mut bytes: [u8; 64] = std::array::from_fn(|byte| 0x40 + byte as u8);
    bytes[..8].copy_from_slice(&[mpt_entry::STATE_VALID as u8, 5, 0, 0, 0x30, 0, 0, 0]);
    bytes[8..16].fill(0);
    bytes
}

/// An engine with one hop of MPT, whose BA page names a chunk for indices 64 to 127.
fn engine(options: EngineOptions) -> Result<Engine<SparseMemory>, Error> {
    let mut memory = SparseMemory::new();
    for page in [PAGE, CHUNK, BUFFER] {
        memory.back(page, 4096);
    }
    memory.write_u64(PAGE + 8, CHUNK).expect("it is backed");
    memory.write(BUFFER, &context()).expect("it is backed");
    let mut engine = Engine::new(&dut::SMALL_COMMAND, memory, options)?;
    engine.setup(&setup())?;
    Ok(engine)
}

fn setup() -> Setup {
    let geometry = TableGeometry { hop_num: 1, bt_num: 4, ..TableGeometry::default() };
    let set = TableSet { tables: vec![(Table::Mpt, geometry)], num_mpts_log2: 10, ..TableSet::default() };
    Setup { table_sets: vec![set], ..Setup::default() }
}

fn start(engine: &mut Engine<SparseMemory>, code: u8, token: u16, address: u64) -> Result<bool, Error> {
    let [low, high] = [address as u32, (address >> 32) as u32];
    let data = [low, high, low, high, INDEX << 8 | u32::from(code), 1 << 16 | u32::from(token)];
    engine.start_command(Opcode::PostMailbox as u16, 0, &data)
}

/// Waits for the end of a command.
fn end(engine: &mut Engine<SparseMemory>) -> Result<(Option<CommandStatus>, u16), Error> {
    let start = engine.cycles();
    loop {
        let state = engine.mailbox()?;
        assert!(engine.cycles() - start < COMMAND_LIMIT_CYCLES, "no end");
        if !state.is_busy {
            return Ok((CommandStatus::from_code(state.status), state.token));
        }
    }
}

fn run(engine: &mut Engine<SparseMemory>, code: u8, token: u16, address: u64) -> Result<(), Error> {
    assert!(start(engine, code, token, address)?);
    assert_eq!(end(engine)?, (Some(CommandStatus::Ok), token), "command {code:#04x}");
    Ok(())
}

fn line(engine: &mut Engine<SparseMemory>, address: u64) -> [u8; 64] {
    engine.memory().memory().line(address).expect("it is backed")
}

/// Makes an access that may be refused; gives the value, or that it was refused.
fn try_access(engine: &mut Engine<SparseMemory>, access: LiteAccess) -> Result<Option<u32>, Error> {
    match engine.access(&[access]) {
        Ok(values) => Ok(Some(values.first().copied().unwrap_or(0))),
        Err(Error::RegisterAccess { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[test]
fn registers_are_staged_and_refused_as_documented() -> Result<(), Error> {
    for options in [EngineOptions::default(), EngineOptions::rough(20, 3)] {
        let mut engine = engine(options)?;
        let first = command::REGISTERS_OFFSET;
        for register in &command::REGISTERS {
            assert_eq!(engine.read_register(register.offset)?, 0, "{} after reset", register.name);
        }
        for number in 0..DATA_WORDS as u32 {
            engine.write_register(first + 4 * number, 0x1111_1111 * (number + 1))?;
        }
        for number in 0..DATA_WORDS as u32 {
            assert_eq!(engine.read_register(first + 4 * number)?, 0x1111_1111 * (number + 1));
        }
        let start = command::REGISTERS[DATA_WORDS].offset;
        for opcode in [0, Opcode::QueryMailboxStatus as u32, 0x8507, 0xffff] {
            assert_eq!(try_access(&mut engine, LiteAccess::Write { offset: start, value: opcode })?, None);
            assert!(!engine.mailbox()?.is_busy, "opcode {opcode:#x}");
        }
        let end = first + 4 * command::REGISTERS.len() as u32;
        for offset in (end..2 * first).step_by(4) {
            assert_eq!(try_access(&mut engine, LiteAccess::Write { offset, value: 1 })?, None, "{offset:#x}");
            assert_eq!(try_access(&mut engine, LiteAccess::Read { offset })?, None, "{offset:#x}");
        }
        // Those of the core are behind the unit.
        assert_eq!(engine.read_register(regs::id::REGISTER.offset)?, regs::ID);
        assert_eq!(try_access(&mut engine, LiteAccess::Read { offset: 0x3ffc })?, None);
    }
    Ok(())
}

#[test]
fn commands_follow_each_other_from_base_address_to_destruction() -> Result<(), Error> {
    for options in [EngineOptions::default(), EngineOptions::rough(50, 5)] {
        let mut engine = engine(options)?;
        let entry = CHUNK + u64::from(INDEX % 64) * 64;
        let enable = 1 << regs::interrupt_enable::COMMAND.low;
        engine.write_register(regs::interrupt_enable::REGISTER.offset, enable)?;
        assert!(start(&mut engine, CREATE_MPT, 1, BUFFER)?);
        assert_eq!(end(&mut engine)?, (Some(CommandStatus::Unmapped), 1), "no base is set");
        run(&mut engine, WRITE_MPT_BT0, 2, PAGE)?;
        run(&mut engine, CREATE_MPT, 3, BUFFER)?;
        assert_eq!(line(&mut engine, entry), context());
        run(&mut engine, QUERY_MPT, 4, BUFFER + 0x40)?;
        assert_eq!(line(&mut engine, BUFFER + 0x40), context());
        run(&mut engine, DESTROY_MPT, 5, 0)?;
        let mut expected = context();
        expected[0] &= !3;
        assert_eq!(line(&mut engine, entry), expected);
        assert!(engine.interrupt(), "every command asked for one");
        let clear = 1 << regs::interrupt_status::COMMAND.low;
        engine.write_register(regs::interrupt_status::REGISTER.offset, clear)?;
        assert!(!engine.interrupt());
        let written: Vec<_> = engine.memory().take_writes().iter().map(|write| write.address).collect();
        assert_eq!(written, [entry, BUFFER + 0x40, entry], "and nothing else");
    }
    Ok(())
}

#[test]
fn a_start_while_a_command_is_under_way_changes_nothing() -> Result<(), Error> {
    let mut engine = engine(EngineOptions::default())?;
    run(&mut engine, WRITE_MPT_BT0, 7, PAGE)?;
    assert!(start(&mut engine, CREATE_MPT, 8, BUFFER)?);
    assert!(!start(&mut engine, DESTROY_MPT, 9, 0)?, "the mailbox is busy");
    let state = engine.mailbox()?;
    assert_eq!((state.is_busy, state.token), (true, 7), "status and token are of the command before");
    assert_eq!(end(&mut engine)?, (Some(CommandStatus::Ok), 8));
    assert_eq!(line(&mut engine, CHUNK + 6 * 64), context());
    Ok(())
}

#[test]
fn other_geometry_is_a_command_that_is_busy_until_its_fence() -> Result<(), Error> {
    for options in [EngineOptions::default(), EngineOptions::rough(50, 5)] {
        let mut engine = engine(options)?;
        run(&mut engine, WRITE_MPT_BT0, 7, PAGE)?;
        run(&mut engine, CREATE_MPT, 8, BUFFER)?;
        let hops = |number: u32| [0, 0, 0, number << 8, 0, 0];
        let code = Opcode::ConfigureBtAttribute as u16;
        let fences = engine.counter(CounterName::Invalidations)?;
        assert!(engine.start_command(code, 0, &hops(2))?, "the write is answered at once");
        assert!(!engine.start_command(code, 0, &hops(0))?, "a command is under way");
        assert!(!start(&mut engine, DESTROY_MPT, 9, 0)?, "a command is under way");
        assert_eq!(end(&mut engine)?, (Some(CommandStatus::Ok), 8), "status and token are of mailbox commands");
        assert_eq!(engine.counter(CounterName::Invalidations)? - fences, 1, "it is fenced");
        assert!(start(&mut engine, QUERY_MPT, 10, BUFFER)?);
        assert_eq!(end(&mut engine)?, (Some(CommandStatus::Unmapped), 10), "level 0 of two hops is zero");
    }
    Ok(())
}

#[test]
fn the_host_never_sees_what_the_unit_stages_in_the_core() -> Result<(), Error> {
    for seed in 0..4 {
        let mut engine = engine(EngineOptions::rough(10, seed))?;
        let staged =
            [(regs::table_select::REGISTER, 6), (regs::bt0_low::REGISTER, 0xabcd_e000), (regs::bt0_high::REGISTER, 7)];
        for (register, value) in &staged {
            engine.write_register(register.offset, *value)?;
        }
        for round in 0..3 {
            assert!(start(&mut engine, WRITE_MPT_BT0, round, PAGE)?);
            while engine.mailbox()?.is_busy {
                for (register, value) in &staged {
                    assert_eq!(engine.read_register(register.offset)?, *value, "{}", register.name);
                }
                engine.write_register(regs::merge_bytes_max::REGISTER.offset, round.into())?;
                assert_eq!(engine.read_register(regs::merge_bytes_max::REGISTER.offset)?, round.into());
            }
            assert_eq!(end(&mut engine)?, (Some(CommandStatus::Ok), round));
        }
    }
    Ok(())
}

#[test]
fn after_a_reset_at_any_moment_commands_and_work_requests_work() -> Result<(), Error> {
    let mut engine = engine(EngineOptions::rough(5, 9))?;
    for cycles in (0..3_000).step_by(97) {
        run(&mut engine, WRITE_MPT_BT0, 1, PAGE)?;
        assert!(start(&mut engine, CREATE_MPT, 2, BUFFER)?);
        engine.submit_work(&work_request())?;
        engine.run(cycles)?;
        engine.reset()?;
        let state = engine.mailbox()?;
        assert_eq!((state.status, state.token, state.is_busy), (0, 0, false));
        engine.setup(&setup())?;
        assert!(start(&mut engine, QUERY_MPT, 3, BUFFER + 0x80)?);
        assert_eq!(end(&mut engine)?, (Some(CommandStatus::Unmapped), 3), "the base is gone");
        engine.submit_work(&work_request())?;
        engine.drain(COMMAND_LIMIT_CYCLES)?;
        let answer = engine.pop_work().expect("it is answered");
        assert_eq!((answer.tag, answer.status), (0xbeef, WorkStatus::Unmapped.code()));
        assert_eq!(answer.cqe_code, work::cqe::LOCAL_PROT);
    }
    Ok(())
}

/// LOCAL_INV of the entry's key.
fn work_request() -> WorkRequest {
    let mut wqe = [0; work::WORK_REQUEST_BYTES];
    wqe[0] = 0x0b;
    wqe[8..12].copy_from_slice(&(INDEX << 8).to_le_bytes());
    WorkRequest { tag: 0xbeef, function: 0, privileged: true, pd: 5, qpn: 1, wqe }
}
