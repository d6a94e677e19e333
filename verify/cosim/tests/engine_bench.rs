//! The bench of the engine, on a stand-in with the engine's ports.

use std::collections::HashMap;

use keywalk_contract::regs::{self, CounterName};
use keywalk_contract::{Status, Table, ports::Scope};
use keywalk_cosim::{
    BufferWalk, Controls, Engine, EngineOptions, Error, Invalidation, Request, Rule, Setup, TableGeometry, TableSet,
    dut,
};

type Lines = HashMap<u64, [u8; 64]>;

fn engine(dut: &'static keywalk_cosim::Dut, options: EngineOptions) -> Engine<Lines> {
    let line = |number: u64| {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&(number << 12).to_le_bytes());
        bytes
    };
    let lines = (0..100).map(|number| (number, line(number))).collect();
    Engine::new(dut, lines, options).unwrap()
}

fn request(tag: u16, line: u64) -> Request {
    Request { tag, function: 3, va: line * 64, length_bytes: 8, ..Request::default() }
}

#[test]
fn requests_are_answered_whatever_the_stalls() {
    for options in [EngineOptions::default(), EngineOptions::rough(40, 5)] {
        let mut engine = engine(&dut::ENGINE_STUB, options);
        for tag in 0..50 {
            engine.submit(&Request { pd: u32::from(tag % 4), ..request(tag, u64::from(tag)) }).unwrap();
        }
        engine.drain(2_000).unwrap();
        for tag in 0..50_u16 {
            let response = engine.pop_response().unwrap();
            assert_eq!((response.tag, response.function), (tag, 3));
            let addresses: Vec<_> = response.segments.iter().map(|segment| segment.pa).collect();
            let expected: Vec<_> = (0..=u64::from(tag % 4)).map(|segment| (u64::from(tag) << 12) + segment).collect();
            assert_eq!(addresses, expected);
            assert!(response.segments.iter().all(|segment| segment.status() == Some(Status::Ok)));
        }
        assert_eq!(engine.counter(CounterName::Requests).unwrap(), 50);
        assert_eq!(engine.memory().take_records().len(), 50);
        engine.run(50).unwrap();
        assert!(engine.is_idle().unwrap(), "every response was reported as done");
    }
}

#[test]
fn a_failed_read_gives_an_error_and_an_event() {
    let mut engine = engine(&dut::ENGINE_STUB, EngineOptions::default());
    let response = engine.translate(&request(9, 1_000_000), 500).unwrap();
    assert_eq!(response.segments.len(), 1);
    assert_eq!(response.segments[0].status(), Some(Status::MtrBusError));
    assert_eq!((response.segments[0].table, response.segments[0].wire_class), (7, 5));
    engine.run(5).unwrap();
    let event = engine.pop_fault().unwrap();
    assert_eq!((event.tag, event.function, event.status, event.va), (9, 3, 25, 64_000_000));
    assert!(engine.pop_fault().is_none());
}

#[test]
fn contexts_and_invalidations_are_answered() {
    let mut engine = engine(&dut::ENGINE_STUB, EngineOptions::rough(1, 8));
    for tag in 0..10 {
        let root = 0xffff_0000_0000_0000;
        engine.submit_walk(&BufferWalk { tag, index: 0x100, root, ..BufferWalk::default() }).unwrap();
        let invalidation =
            Invalidation { tag: 100 + tag, function: 0, scope: Scope::All, key: 0, pd: 0, va: 0, length_bytes: 0 };
        engine.submit_invalidation(&invalidation).unwrap();
    }
    engine.drain(200).unwrap();
    for tag in 0..10 {
        let answer = engine.pop_context().unwrap();
        assert_eq!((answer.tag, answer.status, answer.address), (tag, 0, 0xffff_0000_0000_0100));
        assert_eq!(engine.pop_invalidated(), Some(100 + tag));
    }
}

#[test]
fn setup_writes_the_registers_and_refuses_what_does_not_fit() {
    let mut engine = engine(&dut::ENGINE_STUB, EngineOptions::rough(1, 8));
    let geometry = TableGeometry {
        hop_num: 2,
        ba_pg_sz: 3,
        bt_num: 17,
        object_count: 1 << 20,
        bt0: vec![(4, 0x1234_5678_9abc_d000)],
        ..TableGeometry::default()
    };
    let table_set = TableSet { tables: vec![(Table::Cqc, geometry.clone())], ..TableSet::default() };
    let controls = Controls { hold_mode: true, merge_bytes_max: 0x1_0000, ..Controls::default() };
    let setup = Setup { table_sets: vec![table_set], function_map: vec![], controls };
    engine.setup(&setup).unwrap();
    let mut read = |register: &regs::Register| engine.read_register(register.offset).unwrap();
    assert_eq!(read(&regs::table_select::REGISTER), 2);
    assert_eq!(read(&regs::table_geometry::REGISTER), 17 << 16 | 6 << 12 | 3 << 4 | 2);
    assert_eq!(read(&regs::table_object_count::REGISTER), 1 << 20);
    assert_eq!(read(&regs::bt0_low::REGISTER), 0x9abc_d000);
    assert_eq!(read(&regs::bt0_high::REGISTER), 0x1234_5678);
    assert_eq!(read(&regs::bt0_commit::REGISTER), 1 << 16 | 4);
    assert_eq!(read(&regs::key_space::REGISTER), 12 << 8 | 24);
    assert_eq!(read(&regs::control::REGISTER), 0x1d);
    assert_eq!(read(&regs::merge_bytes_max::REGISTER), 0x1_0000);

    // A slot that is no longer listed is unset.
    let mut without = setup.clone();
    without.table_sets[0].tables[0].1.bt0.clear();
    engine.setup(&without).unwrap();
    assert_eq!(engine.read_register(regs::bt0_commit::REGISTER.offset).unwrap(), 4);

    let mut too_large = setup.clone();
    too_large.table_sets[0].tables[0].1.ba_pg_sz = 16;
    assert!(matches!(engine.setup(&too_large), Err(Error::ValueTooWide { width: 4, value: 16, .. })));
    let too_many = Setup { table_sets: vec![TableSet::default(); 2], ..Setup::default() };
    let error = engine.setup(&too_many).unwrap_err();
    assert_eq!(error.to_string(), "the number of table sets is 2, legal is at most 1 in this configuration");
}

#[test]
fn an_engine_that_stops_is_a_timeout_that_says_what_is_missing() {
    let mut engine = engine(&dut::ENGINE_STUB, EngineOptions { automatic_done: false, ..EngineOptions::default() });
    engine.submit(&request(1, 1)).unwrap();
    engine.submit(&request(2, 2)).unwrap();
    let message = engine.drain(300).unwrap_err().to_string();
    assert!(message.contains("1 requests without response, function/tag 3/0x2; 1 of them not accepted"), "{message}");
    engine.report_done(3, 1).unwrap();
    engine.drain(300).unwrap();
    assert_eq!(engine.responses().len(), 2);
}

#[test]
fn a_reset_in_the_middle_leaves_a_working_bench() {
    let mut engine = engine(&dut::ENGINE_STUB, EngineOptions::rough(30, 4));
    for cycles in [1, 7, 20, 45] {
        for tag in 0..20 {
            engine.submit(&request(tag, 1)).unwrap();
        }
        engine.run(cycles).unwrap();
        engine.reset().unwrap();
        assert_eq!(engine.outstanding(), 0);
        assert_eq!(engine.translate(&request(1, 5), 500).unwrap().segments[0].pa, 5 << 12);
    }
}

#[test]
fn faulty_responses_are_found() {
    let rule = |dut| {
        let mut engine = engine(dut, EngineOptions::default());
        engine.submit(&Request { pd: 2, ..request(4, 1) }).unwrap();
        engine.drain(100).unwrap_err().rule()
    };
    assert_eq!(rule(&dut::ENGINE_WRONG_TAG), Some(Rule::AnswersARequest));
    assert_eq!(rule(&dut::ENGINE_WRONG_SEGMENT), Some(Rule::SegmentOrder));
    assert_eq!(rule(&dut::ENGINE_MIXES_RESPONSES), Some(Rule::SegmentsTogether));
}

#[test]
fn tracing_says_when_it_is_not_built() {
    let mut engine = engine(&dut::ENGINE_STUB, EngineOptions::default());
    let path = std::env::temp_dir().join(format!("keywalk-cosim-{}.vcd", std::process::id()));
    if cfg!(feature = "trace") {
        engine.start_trace(&path).unwrap();
        engine.run(20).unwrap();
        drop(engine);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("s_axis_req_tvalid"));
    } else {
        assert_eq!(engine.start_trace(&path), Err(Error::TraceNotBuilt));
    }
}
