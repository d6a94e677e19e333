//! Every monitor passes a good design and finds the violation of a faulty one.

use std::collections::HashMap;

use keywalk_cosim::{
    Bench, Channel, Error, Handle, LiteAccess, MemoryOptions, MemoryResponder, ReadFault, ReadPort, ReadRules, Rule,
    Stall, StreamDriver, StreamSink, dut,
};

type Lines = HashMap<u64, [u8; 64]>;

fn stream(dut: &'static keywalk_cosim::Dut, sink_stall: Stall) -> Result<Vec<u128>, Error> {
    let mut bench = Bench::new(dut, 7);
    let input = bench.driver("in", Stall::percent(30).up_to(3))?;
    let output = bench.sink("out", sink_stall)?;
    bench.reset(3)?;
    for value in 0..200_u128 {
        bench[input].push_fields(&[("data", value << 90 | value)])?;
    }
    bench.run_until("200 beats", 5_000, |bench| bench[output].len() == 200)?;
    std::iter::from_fn(|| bench[output].pop()).map(|received| received.get("data")).collect()
}

#[test]
fn a_good_stream_passes_with_and_without_back_pressure() {
    for stall in [Stall::NEVER, Stall::percent(60).up_to(5)] {
        let values = stream(&dut::STREAM_REGISTER, stall).unwrap();
        assert_eq!(values, (0..200_u128).map(|value| value << 90 | value).collect::<Vec<_>>());
    }
}

#[test]
fn a_withdrawn_valid_is_found() {
    let error = stream(&dut::STREAM_DROPS_VALID, Stall::percent(60)).unwrap_err();
    assert_eq!(error.rule(), Some(Rule::ValidHeld), "{error}");
    assert!(error.to_string().starts_with("out, cycle "), "{error}");
}

#[test]
fn a_payload_that_changes_while_it_waits_is_found() {
    let error = stream(&dut::STREAM_CHANGES_PAYLOAD, Stall::percent(60)).unwrap_err();
    assert_eq!(error.rule(), Some(Rule::PayloadStable), "{error}");
    assert!(error.to_string().contains("data 0x"), "{error}");
}

#[test]
fn a_design_that_does_not_wait_for_ready_gets_on_when_ready_waits_for_valid() {
    let mut bench = Bench::new(&dut::STREAM_REGISTER, 1);
    let input = bench.driver("in", Stall::NEVER).unwrap();
    let output = bench.sink("out", Stall::NEVER).unwrap();
    bench[output].set_waiting_for_valid(true);
    bench.reset(2).unwrap();
    bench[input].push_fields(&[("data", 5)]).unwrap();
    bench.run_until("the beat", 20, |bench| !bench[output].is_empty()).unwrap();
    let received = bench[output].pop().unwrap();
    assert_eq!(received.cycle, received.valid_cycle + 1);
}

#[test]
fn a_wait_that_is_in_vain_ends_and_says_for_what() {
    let mut bench = Bench::new(&dut::STREAM_REGISTER, 1);
    bench.reset(2).unwrap();
    let error = bench.run_until("a miracle", 50, |_| false).unwrap_err();
    assert!(error.to_string().contains("waited 50 cycles for a miracle"), "{error}");
}

#[test]
fn valid_in_reset_is_found() {
    let mut bench = Bench::new(&dut::AXI_READER, 1);
    // The reader passes read data on combinationally, in reset too.
    let valid = bench.model().input("m_axi_rvalid").unwrap();
    bench.sink("beat", Stall::NEVER).unwrap();
    bench.reset(2).unwrap();
    bench.model_mut().set(valid, 1);
    assert_eq!(bench.reset(2).unwrap_err().rule(), Some(Rule::ValidLowInReset));
}

#[test]
fn unknown_names_and_values_too_wide_are_explained() {
    let mut bench = Bench::new(&dut::STREAM_REGISTER, 1);
    let error = bench.model().input("out_valid").unwrap_err();
    assert!(error.to_string().contains("has no input `out_valid`; it has: clk, in_data, in_valid"), "{error}");
    let input = bench.driver("in", Stall::NEVER).unwrap();
    let error = bench[input].push_fields(&[("date", 1)]).unwrap_err();
    assert_eq!(error.to_string(), "channel `in` has no field `date`; it has: data");
    let error = bench[input].push_fields(&[("data", 1 << 100)]).unwrap_err();
    assert!(error.to_string().contains("100 bits"), "{error}");
}

#[test]
fn models_are_independent_and_reproducible() {
    let run = || {
        let benches = [1, 2].map(|seed| {
            let mut bench = Bench::new(&dut::STREAM_REGISTER, seed);
            let input = bench.driver("in", Stall::percent(40)).unwrap();
            let output = bench.sink("out", Stall::percent(40)).unwrap();
            bench.reset(2).unwrap();
            for value in 0..20 {
                bench[input].push_fields(&[("data", value)]).unwrap();
            }
            (bench, output)
        });
        let mut benches = benches;
        let mut cycles = Vec::new();
        for _ in 0..200 {
            for (bench, output) in &mut benches {
                bench.cycle().unwrap();
                cycles.extend(bench[*output].pop().map(|received| received.cycle));
            }
        }
        cycles
    };
    let cycles = run();
    assert_eq!(cycles.len(), 40);
    assert_eq!(cycles, run());
}

/// A bench of the AXI reader.
struct Reader {
    bench: Bench,
    commands: Handle<StreamDriver>,
    beats: Handle<StreamSink>,
    memory: Handle<MemoryResponder<Lines>>,
    rules: Handle<ReadRules>,
}

/// A command that keeps the rules: one 64-byte line in beats of 16 bytes.
const LEGAL: [(&str, u128); 3] = [("length", 3), ("size", 4), ("burst", 1)];

impl Reader {
    fn new(options: MemoryOptions, beat_stall: Stall) -> Self {
        let mut bench = Bench::new(&dut::AXI_READER, 3);
        let lines = (0..64).map(|number| (number, std::array::from_fn(|byte| number as u8 ^ byte as u8))).collect();
        let port = ReadPort::axi(bench.model(), "m_axi").unwrap();
        let random = bench.random();
        let memory = MemoryResponder::new(bench.model(), port.clone(), lines, options, random).unwrap();
        let mut reader = Self {
            commands: bench.driver("command", Stall::NEVER).unwrap(),
            beats: bench.sink("beat", beat_stall).unwrap(),
            memory: bench.add(memory),
            rules: bench.add(ReadRules::new(port)),
            bench,
        };
        reader.bench.reset(2).unwrap();
        reader
    }

    fn command(&mut self, values: &[(&str, u128)]) {
        self.bench[self.commands].push_fields(values).unwrap();
    }

    fn read(&mut self, id: u128, address: u128) {
        let [length, size, burst] = LEGAL;
        self.command(&[("id", id), ("address", address), length, size, burst]);
    }

    fn wait(&mut self, beats: usize) -> Result<(), Error> {
        let handle = self.beats;
        self.bench.run_until("read data", 5_000, |bench| bench[handle].len() >= beats)
    }

    /// (id, response, low byte of the data) of the next beat.
    fn pop(&mut self) -> (u128, u128, u8) {
        let beat = self.bench[self.beats].pop().unwrap();
        (beat.get("id").unwrap(), beat.get("response").unwrap(), beat.get("data").unwrap() as u8)
    }

    fn rule(&mut self) -> Option<Rule> {
        self.wait(1_000).unwrap_err().rule()
    }
}

#[test]
fn lines_are_read_in_order_after_exactly_the_latency() {
    let mut reader = Reader::new(MemoryOptions::fixed(10), Stall::NEVER);
    for number in 0..4 {
        reader.read(number, number * 64);
    }
    reader.wait(16).unwrap();
    let accepted = reader.bench[reader.memory].take_records();
    assert_eq!(accepted.iter().map(|read| read.address).collect::<Vec<_>>(), [0, 64, 128, 192]);
    let mut beats = std::iter::from_fn(|| reader.bench[reader.beats].pop());
    let first = beats.next().unwrap();
    assert_eq!(first.cycle, accepted[0].cycle + 10);
    assert_eq!(first.get("data").unwrap(), u128::from_le_bytes(std::array::from_fn(|byte| byte as u8)));
    let cycles: Vec<_> = beats.map(|beat| beat.cycle).collect();
    assert_eq!(cycles, (first.cycle + 1..first.cycle + 16).collect::<Vec<_>>());
}

#[test]
fn reordering_and_interleaving_keep_each_read_whole() {
    let options = MemoryOptions::rough(12);
    let mut reader = Reader::new(options, Stall::percent(30));
    for number in 0..16 {
        reader.read(number, (number + 1) * 64);
    }
    reader.wait(64).unwrap();
    let mut next = [0; 16];
    let mut ids = Vec::new();
    for _ in 0..64 {
        let (id, response, low) = reader.pop();
        assert_eq!(response, 0);
        assert_eq!(low, (id as u8 + 1) ^ next[id as usize]);
        next[id as usize] += 16;
        ids.push(id);
    }
    assert_eq!(next, [64; 16]);
    assert!(ids.windows(2).any(|pair| pair[1] < pair[0]), "answers were reordered");
    let changes = ids.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 15, "beats were interleaved");
}

#[test]
fn unbacked_lines_and_injected_faults_are_answered_as_asked() {
    let mut reader = Reader::new(MemoryOptions::fixed(5), Stall::NEVER);
    let memory = reader.memory;
    reader.bench[memory].inject(0x40, ReadFault::DecodeError { quarters: 0b0100 });
    reader.bench[memory].inject(0x80, ReadFault::Silence);
    reader.bench[memory]
        .set_fault_hook(|address| (address == 0xc0).then_some(ReadFault::SlaveError { quarters: 0b0001 }));
    for (id, address) in [(0, 0x10_0000), (1, 0x40), (2, 0x80), (3, 0xc0)] {
        reader.read(id, address);
    }
    reader.wait(12).unwrap();
    reader.bench.run(50).unwrap();
    let responses: Vec<_> = (0..12).map(|_| reader.pop()).map(|(id, response, _)| (id, response)).collect();
    let expected = [(0, [2, 2, 2, 2]), (1, [0, 0, 3, 0]), (3, [2, 0, 0, 0])];
    assert_eq!(responses, expected.iter().flat_map(|(id, all)| all.map(|one| (*id, one))).collect::<Vec<_>>());
    assert_eq!(reader.bench[memory].release_silent(), 1);
    reader.wait(4).unwrap();
    assert_eq!(reader.pop(), (2, 0, 2));
    reader.bench[memory].heal_all();
    reader.read(1, 0x40);
    reader.wait(7).unwrap();
    assert!((0..7).all(|_| reader.pop().1 == 0));
}

#[test]
fn the_limit_of_reads_in_flight_holds() {
    let options = MemoryOptions { in_flight_max: 3, ..MemoryOptions::fixed(40) };
    let mut reader = Reader::new(options, Stall::NEVER);
    for number in 0..10 {
        reader.read(number, number * 64);
    }
    reader.wait(40).unwrap();
    assert_eq!(reader.bench[reader.memory].in_flight_peak(), 3);
}

#[test]
fn reads_of_a_line_that_is_under_way_are_counted() {
    let mut reader = Reader::new(MemoryOptions::fixed(40), Stall::NEVER);
    for (id, address) in [(0, 0x40), (1, 0x80), (2, 0x40), (3, 0x40), (4, 0xc0)] {
        reader.read(id, address);
    }
    reader.wait(20).unwrap();
    assert_eq!(reader.bench[reader.memory].duplicates(), 2);
    // All of them are answered: the line is not under way any more.
    reader.read(5, 0x40);
    reader.wait(4).unwrap();
    assert_eq!(reader.bench[reader.memory].duplicates(), 2);
}

#[test]
fn a_recording_replays_to_the_same_outputs() {
    let outputs = ["in_ready", "out_valid", "out_data"];
    let mut bench = Bench::new(&dut::STREAM_REGISTER, 7);
    bench.model_mut().start_recording();
    let input = bench.driver("in", Stall::percent(30).up_to(3)).unwrap();
    bench.sink("out", Stall::percent(60)).unwrap();
    bench.reset(3).unwrap();
    for value in 0..100_u128 {
        bench[input].push_fields(&[("data", value << 90 | value)]).unwrap();
    }
    let mut expected = Vec::new();
    let begin = bench.cycles();
    let values = |model: &keywalk_cosim::Model| outputs.map(|port| model.get_wide(model.output(port).unwrap()));
    for _ in 0..100 {
        bench.cycle().unwrap();
        expected.push(values(bench.model()));
    }
    let recording = bench.model_mut().take_recording().unwrap();
    assert_eq!(recording.cycles(), begin + 100);
    let mut model = keywalk_cosim::Model::new(&dut::STREAM_REGISTER, 7);
    model.replay(&recording, 0..begin);
    for (cycle, expected) in (begin..).zip(expected) {
        model.replay(&recording, cycle..cycle + 1);
        assert_eq!(values(&model), expected, "cycle {cycle}");
    }
}

#[test]
fn illegal_bursts_are_found() {
    let cases: [(&[(&str, u128)], Rule); 6] = [
        (&[("address", 0xfe0), ("length", 3), ("size", 4), ("burst", 1)], Rule::BurstWithin4KiB),
        (&[("address", 0xfc0), ("length", 7), ("size", 4), ("burst", 1)], Rule::BurstWithin4KiB),
        (&[("address", 0x40), ("length", 1), ("size", 4), ("burst", 1)], Rule::BurstLength),
        (&[("address", 0x48), ("length", 3), ("size", 4), ("burst", 1)], Rule::BurstAligned),
        (&[("address", 0x40), ("length", 3), ("size", 3), ("burst", 1)], Rule::BurstSize),
        (&[("address", 0x40), ("length", 3), ("size", 4), ("burst", 2)], Rule::BurstType),
    ];
    for (command, rule) in cases {
        let mut reader = Reader::new(MemoryOptions::default(), Stall::NEVER);
        reader.command(command);
        assert_eq!(reader.rule(), Some(rule), "{command:?}");
    }
}

#[test]
fn an_id_that_is_used_twice_is_found() {
    let mut reader = Reader::new(MemoryOptions::fixed(20), Stall::NEVER);
    reader.read(5, 0);
    reader.read(5, 64);
    assert_eq!(reader.rule(), Some(Rule::IdNotInUse));
}

#[test]
fn read_data_that_is_never_taken_is_found() {
    let mut reader = Reader::new(MemoryOptions::default(), Stall::percent(100).up_to(u16::MAX));
    let rules = reader.rules;
    reader.bench[rules].set_data_wait_limit_cycles(100);
    reader.read(0, 0);
    assert_eq!(reader.rule(), Some(Rule::ReadDataTaken));
}

#[test]
fn data_without_a_read_and_a_wrong_last_are_found() {
    let faulty_memory = |last: u64, is_read: bool| {
        let mut bench = Bench::new(&dut::AXI_READER, 3);
        let port = ReadPort::axi(bench.model(), "m_axi").unwrap();
        bench.add(ReadRules::new(port));
        let commands = bench.driver("command", Stall::NEVER).unwrap();
        bench.sink("beat", Stall::NEVER).unwrap();
        bench.reset(2).unwrap();
        let inputs = ["m_axi_arready", "m_axi_rvalid", "m_axi_rlast"].map(|name| bench.model().input(name).unwrap());
        bench.model_mut().set(inputs[0], 1);
        if is_read {
            let [length, size, burst] = LEGAL;
            bench[commands].push_fields(&[length, size, burst]).unwrap();
            bench.run(2).unwrap();
        }
        bench.model_mut().set(inputs[1], 1);
        bench.model_mut().set(inputs[2], last);
        bench.run(5).unwrap_err().rule()
    };
    assert_eq!(faulty_memory(0, false), Some(Rule::AnswersARequest));
    assert_eq!(faulty_memory(1, true), Some(Rule::LastBeat));
    assert_eq!(faulty_memory(0, true), Some(Rule::LastBeat));
}

#[test]
fn registers_are_written_and_read_with_stalls_and_errors_are_reported() {
    for stall in [Stall::NEVER, Stall::percent(50).up_to(4)] {
        let mut bench = Bench::new(&dut::LITE_REGISTERS, 9);
        let lite = bench.axi_lite("s_axil", stall).unwrap();
        bench.reset(2).unwrap();
        let writes = [0, 4, 8, 12].map(|offset| LiteAccess::Write { offset, value: 0x1111_0000 + offset });
        let reads = [0, 4, 8, 12].map(|offset| LiteAccess::Read { offset });
        bench.access(lite, &writes).unwrap();
        assert_eq!(bench.access(lite, &reads).unwrap(), [0x1111_0000, 0x1111_0004, 0x1111_0008, 0x1111_000c]);
        let error = bench.access(lite, &[LiteAccess::Read { offset: 0x10 }]).unwrap_err();
        assert_eq!(error, Error::RegisterAccess { offset: 0x10, response: "SLVERR" });
        let error = bench.access(lite, &[LiteAccess::Read { offset: 0x1_0000 }]).unwrap_err();
        assert!(matches!(error, Error::ValueTooWide { .. }), "{error}");
        assert_eq!(bench.access(lite, &reads[..1]).unwrap(), [0x1111_0000]);
    }
}

#[test]
fn faulty_register_answers_are_found() {
    let rule = |dut| {
        let mut bench = Bench::new(dut, 9);
        let lite = bench.axi_lite("s_axil", Stall::percent(50).up_to(4)).unwrap();
        bench.reset(2).unwrap();
        let write = LiteAccess::Write { offset: 0, value: 1 };
        bench.access(lite, &[write; 20]).unwrap_err().rule()
    };
    assert_eq!(rule(&dut::LITE_ANSWERS_EARLY), Some(Rule::AnswersARequest));
    assert_eq!(rule(&dut::LITE_ANSWERS_EXCLUSIVE), Some(Rule::LiteResponse));
}

#[test]
fn a_channel_takes_its_own_ports_only() {
    let bench = Bench::new(&dut::AXI_READER, 1);
    let names = |channel: &Channel| -> Vec<String> {
        channel.shape().fields().iter().map(|field| field.name.clone()).collect()
    };
    let address = Channel::with_prefix(bench.model(), "m_axi_ar").unwrap();
    assert_eq!(names(&address), ["addr", "burst", "id", "len", "size"]);
    assert_eq!(address.shape().field("len").unwrap().low, 70);
    let data = Channel::with_prefix(bench.model(), "m_axi_r").unwrap();
    assert_eq!(names(&data), ["data", "id", "last", "resp"]);
    assert!(Channel::block(bench.model(), "nothing").is_err());
}
