//! The probe at the ports of its top module: 256 bits with a command unit, 512 bits without one.

use keywalk_contract::ports::fault;
use keywalk_contract::probe::{
    self, BUFFER_BYTES, BUFFER_OFFSET, READ_STREAM, REGISTERS, STREAMS, WORK_STREAMS, WORK_WORDS, WRITE_STREAM,
    is_of_work, work_offset,
};
use keywalk_contract::regs::{Access, Register};
use keywalk_contract::work::work_request;
use keywalk_contract::{Field, Operation};
use keywalk_cosim::{
    AxiLite, Bench, Channel, Dut, Error, Handle, LiteAccess, Stall, StreamDriver, StreamSink, data_of, dut, set_data,
};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

const DESIGNS: [&Dut; 2] = [&dut::PROBE, &dut::PROBE_DEFAULT];
/// Cycles within which everything must happen.
const PATIENCE: u64 = 4_000;

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    lite: Handle<AxiLite>,
    request: Handle<StreamSink>,
    atomic: Handle<StreamSink>,
    completion: Handle<StreamDriver>,
    fault: Handle<StreamDriver>,
    work: Option<(Handle<StreamSink>, Handle<StreamDriver>)>,
    payload: Handle<StreamSink>,
    payload_channel: Channel,
    packet: Handle<StreamDriver>,
    packet_channel: Channel,
    beat_bytes: usize,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
struct Asked {
    tag: u32,
    function: u32,
    operation: u8,
    key: u32,
    pd: u32,
    qpn: u32,
    va: u64,
    length: u32,
}

impl Asked {
    fn random(operation: Operation, length: u32, random: &mut ChaCha8Rng) -> Self {
        let mut bits = |count: u32| random.next_u32() >> (32 - count);
        let (tag, function, key) = (bits(16), bits(8), bits(32));
        let (pd, qpn, va) = (bits(24), bits(24), u64::from(bits(32)) << 32 | u64::from(bits(32)));
        Self { tag, function, operation: operation.code(), key, pd, qpn, va, length }
    }
}

fn write(register: &Register, value: u32) -> LiteAccess {
    LiteAccess::Write { offset: register.offset, value }
}

/// Value of a field in a register's value.
fn field(value: u32, field: &Field) -> u64 {
    field.get(&value.to_le_bytes())
}

impl Rig {
    fn new(design: &'static Dut, seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(design, seed);
        let lite = bench.axi_lite("s_axil", stall)?;
        let [request, atomic] = [0, 1].map(|number| bench.stream_sink(&STREAMS[number], stall));
        let [completion, fault] = [2, 3].map(|number| bench.stream_driver(&STREAMS[number], stall));
        let work = if design.config().is_some_and(|config| config.command_unit) {
            Some((bench.stream_sink(&WORK_STREAMS[0], stall)?, bench.stream_driver(&WORK_STREAMS[1], stall)?))
        } else {
            None
        };
        let payload_channel = Channel::with_prefix(bench.model(), &format!("{WRITE_STREAM}_t"))?;
        let random = bench.random();
        let payload = bench.add(StreamSink::new(payload_channel.clone(), stall, random));
        let packet_channel = Channel::with_prefix(bench.model(), &format!("{READ_STREAM}_t"))?;
        let random = bench.random();
        let packet = bench.add(StreamDriver::new(packet_channel.clone(), stall, random));
        bench.reset(4)?;
        let beat_bytes = design.config().map_or(0, |config| config.mover_beat_bytes() as usize);
        let random = bench.random();
        let (request, atomic, completion, fault) = (request?, atomic?, completion?, fault?);
        Ok(Self {
            bench,
            random,
            lite,
            request,
            atomic,
            completion,
            fault,
            work,
            payload,
            payload_channel,
            packet,
            packet_channel,
            beat_bytes,
        })
    }

    fn read(&mut self, register: &Register) -> Result<u32, Error> {
        self.read_at(register.offset)
    }

    fn read_at(&mut self, offset: u32) -> Result<u32, Error> {
        Ok(self.bench.access(self.lite, &[LiteAccess::Read { offset }])?[0])
    }

    fn write(&mut self, register: &Register, value: u32) -> Result<(), Error> {
        self.bench.access(self.lite, &[write(register, value)]).map(|_| ())
    }

    /// Whether a write is answered with SLVERR.
    fn is_refused(&mut self, register: &Register, value: u32) -> Result<bool, Error> {
        match self.write(register, value) {
            Ok(()) => Ok(false),
            Err(Error::RegisterAccess { response: "SLVERR", .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn status(&mut self, of: &Field) -> Result<bool, Error> {
        Ok(field(self.read(&probe::probe_status::REGISTER)?, of) == 1)
    }

    /// Fills the buffer from its begin.
    fn fill(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let words = bytes.chunks(4).zip((BUFFER_OFFSET..).step_by(4));
        let accesses: Vec<_> = words
            .map(|(bytes, offset)| {
                let mut word = [0; 4];
                word[..bytes.len()].copy_from_slice(bytes);
                LiteAccess::Write { offset, value: u32::from_le_bytes(word) }
            })
            .collect();
        self.bench.access(self.lite, &accesses).map(|_| ())
    }

    /// Bytes of the buffer from its begin.
    fn buffer(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        let offsets = (BUFFER_OFFSET..).step_by(4).take(length.div_ceil(4));
        let accesses: Vec<_> = offsets.map(|offset| LiteAccess::Read { offset }).collect();
        let words = self.bench.access(self.lite, &accesses)?;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Writes the registers of a request, and sends it.
    fn send(&mut self, asked: &Asked) -> Result<(), Error> {
        let name = asked.tag | asked.function << 16 | u32::from(asked.operation) << 24;
        let accesses = [
            write(&probe::probe_request::REGISTER, name),
            write(&probe::probe_key::REGISTER, asked.key),
            write(&probe::probe_pd::REGISTER, asked.pd),
            write(&probe::probe_qpn::REGISTER, asked.qpn),
            write(&probe::probe_va_low::REGISTER, asked.va as u32),
            write(&probe::probe_va_high::REGISTER, (asked.va >> 32) as u32),
            write(&probe::probe_length::REGISTER, asked.length),
            write(&probe::probe_go::REGISTER, 1),
        ];
        self.bench.access(self.lite, &accesses).map(|_| ())
    }

    /// The request that comes out is the one that was sent.
    fn expect_request(&mut self, asked: &Asked) -> Result<(), Error> {
        self.bench.run_until("a request", PATIENCE, |bench| !bench[self.request].is_empty())?;
        let request = self.bench[self.request].pop().expect("there is one");
        let expected = [
            ("tag", u128::from(asked.tag)),
            ("function", asked.function.into()),
            ("operation", asked.operation.into()),
            ("key", asked.key.into()),
            ("pd", asked.pd.into()),
            ("qpn", asked.qpn.into()),
            ("va", asked.va.into()),
            ("length", asked.length.into()),
        ];
        for (name, value) in expected {
            assert_eq!(request.get(name)?, value, "{name} of {asked:x?}");
        }
        Ok(())
    }

    /// The packet that comes out holds these bytes.
    fn expect_payload(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let beats = bytes.len().div_ceil(self.beat_bytes).max(1);
        self.bench.run_until("a packet", PATIENCE, |bench| bench[self.payload].len() >= beats)?;
        for number in 0..beats {
            let part = &bytes[number * self.beat_bytes..bytes.len().min((number + 1) * self.beat_bytes)];
            let received = self.bench[self.payload].pop().expect("there are that many");
            assert_eq!(received.get("keep")?, (1u128 << part.len()) - 1, "beat {number} of {beats}");
            assert_eq!(received.get("last")?, u128::from(number + 1 == beats), "beat {number} of {beats}");
            assert_eq!(&data_of(&self.payload_channel, &received.beat)[..part.len()], part);
        }
        Ok(())
    }

    fn push_packet(&mut self, bytes: &[u8], ends_late: bool, is_bad: bool) -> Result<(), Error> {
        let beats = (bytes.len().div_ceil(self.beat_bytes) + usize::from(ends_late)).max(1);
        for number in 0..beats {
            let part = bytes.chunks(self.beat_bytes).nth(number).unwrap_or_default();
            let is_last = number + 1 == beats;
            let mut beat = self.bench[self.packet].blank();
            set_data(&self.packet_channel, &mut beat, part, &mut self.random);
            beat.set("keep", (1u128 << part.len()) - 1)?;
            beat.set("last", is_last.into())?;
            beat.set("user", (is_bad && is_last).into())?;
            self.bench[self.packet].push(beat);
        }
        Ok(())
    }

    fn push_completion(&mut self, asked: &Asked, status: u32, refusal: u32) -> Result<(), Error> {
        let fields = [("tag", asked.tag), ("function", asked.function), ("status", status), ("refusal", refusal)];
        self.bench[self.completion].push_fields(&fields.map(|(name, value)| (name, value.into())))
    }

    fn wait(&mut self) -> Result<(), Error> {
        for _ in 0..PATIENCE {
            if !self.status(&probe::probe_status::BUSY)? {
                return Ok(());
            }
        }
        panic!("the probe stays busy");
    }

    /// Outcome of the last request: status, refusal, whether it is bad; its tag and function are those of the request.
    fn outcome(&mut self, asked: &Asked) -> Result<(u64, u64, bool), Error> {
        self.wait()?;
        let name = self.read(&probe::probe_result_name::REGISTER)?;
        assert_eq!(name, asked.tag | asked.function << 16);
        let result = self.read(&probe::probe_result::REGISTER)?;
        let of = |of: &Field| field(result, of);
        Ok((of(&probe::probe_result::STATUS), of(&probe::probe_result::REFUSAL), of(&probe::probe_result::IS_BAD) == 1))
    }
}

/// Lengths around beats and at both ends.
fn lengths(rig: &Rig) -> Vec<u32> {
    let beat = rig.beat_bytes as u32;
    vec![0, 1, 3, beat - 1, beat, beat + 1, 3 * beat + 5, BUFFER_BYTES - 1, BUFFER_BYTES]
}

const STALLS: [Stall; 2] = [Stall::NEVER, Stall::percent(40).up_to(6)];

#[test]
fn a_write_brings_its_bytes_and_its_outcome() -> Result<(), Error> {
    for (seed, (design, stall)) in (1..).zip(DESIGNS.iter().flat_map(|design| STALLS.map(|stall| (*design, stall)))) {
        let mut rig = Rig::new(design, seed, stall)?;
        let mut content = vec![0; BUFFER_BYTES as usize];
        rig.random.fill_bytes(&mut content);
        rig.fill(&content)?;
        for (number, length) in lengths(&rig).into_iter().enumerate() {
            let operation = [Operation::LocalWrite, Operation::RemoteWrite][number % 2];
            let asked = Asked::random(operation, length, &mut rig.random);
            rig.send(&asked)?;
            rig.expect_request(&asked)?;
            rig.expect_payload(&content[..length as usize])?;
            assert!(rig.status(&probe::probe_status::BUSY)?, "the outcome has not come");
            let (status, refusal) = (number as u32 % 8, 3 * number as u32);
            rig.push_completion(&asked, status, refusal)?;
            assert_eq!(rig.outcome(&asked)?, (status.into(), refusal.into(), false));
        }
        let sent = lengths(&rig).len() as u32;
        assert_eq!(rig.read(&probe::probe_requests::REGISTER)?, sent);
        assert_eq!(rig.read(&probe::probe_failures::REGISTER)?, sent - 2, "two of them had status 0");
        assert!(rig.bench[rig.request].is_empty() && rig.bench[rig.payload].is_empty());
        assert!(rig.bench[rig.atomic].is_empty(), "a write has no operands");
    }
    Ok(())
}

#[test]
fn what_was_read_lands_in_the_buffer() -> Result<(), Error> {
    for (seed, (design, stall)) in (1..).zip(DESIGNS.iter().flat_map(|design| STALLS.map(|stall| (*design, stall)))) {
        let mut rig = Rig::new(design, seed, stall)?;
        let mut content = vec![0; BUFFER_BYTES as usize];
        rig.random.fill_bytes(&mut content);
        rig.fill(&content)?;
        for (number, length) in lengths(&rig).into_iter().enumerate() {
            let operation = [Operation::LocalRead, Operation::RemoteRead][number % 2];
            let asked = Asked::random(operation, length, &mut rig.random);
            let mut bytes = vec![0; length as usize];
            rig.random.fill_bytes(&mut bytes);
            rig.send(&asked)?;
            rig.expect_request(&asked)?;
            // Outcome and data in either order; some packets are bad, some end behind whole beats.
            let is_bad = number % 4 == 0;
            let ends_late = is_bad && (length as usize).is_multiple_of(rig.beat_bytes) && length > 0;
            if number % 2 == 0 {
                rig.push_completion(&asked, 0, 0)?;
            }
            rig.bench.run(50)?;
            assert!(rig.status(&probe::probe_status::BUSY)?, "the data has not come");
            rig.push_packet(&bytes, ends_late, is_bad)?;
            if number % 2 == 1 {
                rig.push_completion(&asked, 0, 0)?;
            }
            assert_eq!(rig.outcome(&asked)?, (0, 0, is_bad));
            assert_eq!(rig.read(&probe::probe_result_bytes::REGISTER)?, length);
            content[..bytes.len()].copy_from_slice(&bytes);
            let found = rig.buffer(content.len())?;
            // What is behind the last byte may have changed up to the end of its beat.
            let end = bytes.len().next_multiple_of(rig.beat_bytes);
            content[bytes.len()..end].copy_from_slice(&found[bytes.len()..end]);
            assert!(found == content, "{length} bytes");
        }
    }
    Ok(())
}

#[test]
fn more_data_than_the_buffer_holds_is_counted_and_dropped() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 5, Stall::NEVER)?;
        let asked = Asked::random(Operation::RemoteRead, BUFFER_BYTES, &mut rig.random);
        let mut bytes = vec![0; BUFFER_BYTES as usize + rig.beat_bytes];
        rig.random.fill_bytes(&mut bytes);
        rig.send(&asked)?;
        rig.push_packet(&bytes, false, false)?;
        rig.push_completion(&asked, 0, 0)?;
        rig.wait()?;
        assert_eq!(rig.read(&probe::probe_result_bytes::REGISTER)?, bytes.len() as u32);
        assert!(rig.buffer(BUFFER_BYTES as usize)? == bytes[..BUFFER_BYTES as usize]);
    }
    Ok(())
}

#[test]
fn atomics_bring_their_operands_and_the_old_value() -> Result<(), Error> {
    for (seed, (design, stall)) in (1..).zip(DESIGNS.iter().flat_map(|design| STALLS.map(|stall| (*design, stall)))) {
        let mut rig = Rig::new(design, seed, stall)?;
        for is_swap in [0, 1, 0] {
            let mut asked = Asked::random(Operation::RemoteAtomic, 8, &mut rig.random);
            let (value, compare, old) = (rig.random.next_u64(), rig.random.next_u64(), rig.random.next_u64());
            rig.write(&probe::probe_value_low::REGISTER, value as u32)?;
            rig.write(&probe::probe_value_high::REGISTER, (value >> 32) as u32)?;
            rig.write(&probe::probe_compare_low::REGISTER, compare as u32)?;
            rig.write(&probe::probe_compare_high::REGISTER, (compare >> 32) as u32)?;
            // The bit above the operation.
            asked.operation |= is_swap << 4;
            rig.send(&asked)?;
            asked.operation &= 0xf;
            rig.expect_request(&asked)?;
            rig.bench.run_until("operands", PATIENCE, |bench| !bench[rig.atomic].is_empty())?;
            let operands = rig.bench[rig.atomic].pop().expect("there are some");
            let expected = [("is_swap", is_swap.into()), ("value", value.into()), ("compare", compare.into())];
            for (name, value) in expected {
                assert_eq!(operands.get(name)?, value, "{name}");
            }
            rig.push_packet(&old.to_le_bytes(), false, false)?;
            rig.push_completion(&asked, 0, 0)?;
            assert_eq!(rig.outcome(&asked)?, (0, 0, false));
            assert_eq!(rig.read(&probe::probe_result_bytes::REGISTER)?, 8);
            assert_eq!(rig.buffer(8)?, old.to_le_bytes());
        }
        assert!(rig.bench[rig.atomic].is_empty() && rig.bench[rig.payload].is_empty());
    }
    Ok(())
}

/// A bind and an operation that does not exist have an outcome and nothing else.
#[test]
fn other_operations_have_an_outcome_and_nothing_else() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 3, Stall::NEVER)?;
        for operation in [Operation::Bind.code(), 15] {
            let asked = Asked { operation, ..Asked::random(Operation::Bind, 77, &mut rig.random) };
            rig.send(&asked)?;
            rig.expect_request(&asked)?;
            rig.push_completion(&asked, 1, 4)?;
            assert_eq!(rig.outcome(&asked)?, (1, 4, false));
            assert!(rig.bench[rig.atomic].is_empty() && rig.bench[rig.payload].is_empty());
        }
    }
    Ok(())
}

/// The sinks check that what is offered does not change.
#[test]
fn what_is_under_way_cannot_be_changed() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 4, Stall::NEVER)?;
        let content: Vec<u8> = (0..200).collect();
        rig.fill(&content)?;
        let for_long = Stall::percent(100).up_to(u16::MAX);
        for sink in [rig.request, rig.payload] {
            rig.bench[sink].set_stall(for_long);
        }
        let asked = Asked::random(Operation::RemoteWrite, 200, &mut rig.random);
        rig.send(&asked)?;
        let words_before: Vec<u32> = REGISTERS
            .iter()
            .filter(|of| of.access == Access::ReadWrite && !is_of_work(of))
            .map(|of| rig.read(of))
            .collect::<Result<_, _>>()?;
        let lock = |of: &&Register| of.access != Access::ReadOnly && !is_of_work(of);
        for register in REGISTERS.iter().filter(lock) {
            let is_free = register.name == "probe_fault_take";
            assert_eq!(rig.is_refused(register, 0x5555_5555)?, !is_free, "{}", register.name);
        }
        let buffer = Register { offset: BUFFER_OFFSET + 8, ..probe::probe_go::REGISTER };
        assert!(rig.is_refused(&buffer, 0)?);
        assert!(rig.status(&probe::probe_status::REFUSED)?);
        let words: Vec<u32> = REGISTERS
            .iter()
            .filter(|of| of.access == Access::ReadWrite && !is_of_work(of))
            .map(|of| rig.read(of))
            .collect::<Result<_, _>>()?;
        assert_eq!(words, words_before);
        let sink = rig.request;
        rig.bench[sink].set_stall(Stall::NEVER);
        rig.expect_request(&asked)?;
        let sink = rig.payload;
        rig.bench[sink].set_stall(Stall::NEVER);
        rig.expect_payload(&content)?;
        rig.push_completion(&asked, 0, 0)?;
        rig.wait()?;
        assert_eq!(rig.read(&probe::probe_requests::REGISTER)?, 1, "none was sent meanwhile");
        assert!(rig.status(&probe::probe_status::REFUSED)?, "it stays until the next one is sent");
        let asked = Asked::random(Operation::Bind, 0, &mut rig.random);
        rig.send(&asked)?;
        assert!(!rig.status(&probe::probe_status::REFUSED)?);
    }
    Ok(())
}

#[test]
fn a_request_longer_than_the_buffer_is_refused() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 6, Stall::NEVER)?;
        for length in [BUFFER_BYTES + 1, 2 * BUFFER_BYTES, 1 << 31, u32::MAX] {
            let asked = Asked::random(Operation::RemoteWrite, length, &mut rig.random);
            let refusal = rig.send(&asked).expect_err("it is too long").to_string();
            assert!(refusal.contains("SLVERR"), "{refusal}");
            assert!(rig.status(&probe::probe_status::REFUSED)? && !rig.status(&probe::probe_status::BUSY)?);
        }
        rig.bench.run(100)?;
        assert!(rig.bench[rig.request].is_empty() && rig.bench[rig.payload].is_empty());
        assert_eq!(rig.read(&probe::probe_requests::REGISTER)?, 0);
    }
    Ok(())
}

#[test]
fn registers_are_those_of_the_contract() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 7, Stall::NEVER)?;
        let has_work = rig.work.is_some();
        for register in REGISTERS {
            let found = rig.read(register);
            if is_of_work(register) && !has_work {
                assert!(found.is_err() && rig.is_refused(register, 0)?, "{}", register.name);
                continue;
            }
            // Those of an event mean something only while there is one.
            if register.name.starts_with("probe_fault_") && register.access == Access::ReadOnly {
                assert!(found.is_ok());
                continue;
            }
            let extra = u32::from(has_work && register.name == "probe_shape") << probe::probe_shape::HAS_WORK.low;
            assert_eq!(found?, register.reset | extra, "{}", register.name);
        }
        let kept = |of: &Register| {
            let bits = of.fields.iter().map(|of| (of.max() << of.low) as u32);
            if of.fields.is_empty() { u32::MAX } else { bits.fold(0, |all, bits| all | bits) }
        };
        let writable = REGISTERS.iter().filter(|of| of.access == Access::ReadWrite && (has_work || !is_of_work(of)));
        let writable: Vec<_> = writable.map(|of| (of, rig.random.next_u32())).collect();
        for (register, value) in &writable {
            rig.write(register, *value)?;
        }
        for (register, value) in &writable {
            assert_eq!(rig.read(register)?, value & kept(register), "{}", register.name);
        }
        for register in REGISTERS.iter().filter(|of| of.access == Access::ReadOnly && !is_of_work(of)) {
            let before = rig.read(register)?;
            rig.write(register, !before)?;
            assert_eq!(rig.read(register)?, before, "{}", register.name);
        }
        // Between and behind the registers, before and behind the buffer.
        for offset in [0x058, 0x05c, 0x0d4, 0x0fc, 0x100, 0x410, 0x3c + 0x800, 0xffc, 0x2000, 0x2010, 0x3ffc] {
            let nothing = Register { offset, ..probe::probe_go::REGISTER };
            assert!(rig.read_at(offset).is_err(), "{offset:#x}");
            assert!(rig.is_refused(&nothing, 1)?, "{offset:#x}");
        }
        assert!(rig.bench[rig.request].is_empty(), "nothing was sent");
    }
    Ok(())
}

#[test]
fn a_write_without_all_strobes_is_refused() -> Result<(), Error> {
    let mut bench = Bench::new(&dut::PROBE, 8);
    let mut driver = |name: &str| {
        let channel = Channel::with_prefix(bench.model(), name)?;
        let random = bench.random();
        Ok::<_, Error>(bench.add(StreamDriver::new(channel, Stall::NEVER, random)))
    };
    let (address, data) = (driver("s_axil_aw")?, driver("s_axil_w")?);
    let channel = Channel::with_prefix(bench.model(), "s_axil_b")?;
    let random = bench.random();
    let answer = bench.add(StreamSink::new(channel, Stall::NEVER, random));
    let key = bench.model().output("m_axis_req_tdata")?;
    bench.reset(4)?;
    for strobes in 0..16 {
        bench[address].push_fields(&[("addr", probe::probe_key::REGISTER.offset.into())])?;
        bench[data].push_fields(&[("data", 0x1111_1111 * strobes), ("strb", strobes)])?;
        bench.run_until("an answer", 50, |bench| !bench[answer].is_empty())?;
        let resp = bench[answer].pop().expect("there is one").get("resp")?;
        assert_eq!(resp, if strobes == 15 { 0 } else { 2 }, "strobes {strobes:04b}");
        bench.cycle()?;
        let stored = bench.model().get_wide(key) >> keywalk_contract::ports::request::KEY.low & 0xffff_ffff;
        assert_eq!(stored, if strobes == 15 { 0xffff_ffff } else { 0 });
    }
    Ok(())
}

#[test]
fn work_requests_pass_and_their_answers_come_back() -> Result<(), Error> {
    for (seed, stall) in (1..).zip(STALLS) {
        let mut rig = Rig::new(&dut::PROBE, seed, stall)?;
        let (request, response) = rig.work.expect("it has a command unit");
        for number in 0..4u32 {
            let words: Vec<u32> = (0..WORK_WORDS).map(|_| rig.random.next_u32()).collect();
            for (word, value) in (0..).zip(&words) {
                let register = Register { offset: work_offset(word), ..probe::probe_work_0::REGISTER };
                rig.write(&register, *value)?;
            }
            let (tag, function, pd, qpn) = (0x1234 + number, 0x56 ^ number, 0x78_9abc + number, 0xde_f012 + number);
            rig.write(&probe::probe_work::REGISTER, tag | function << 16 | (number % 2) << 24)?;
            rig.write(&probe::probe_work_pd::REGISTER, pd)?;
            rig.write(&probe::probe_work_qpn::REGISTER, qpn)?;
            rig.write(&probe::probe_work_go::REGISTER, 0)?;
            assert!(rig.status(&probe::probe_status::WORK_BUSY)?);
            for register in REGISTERS.iter().filter(|of| of.access != Access::ReadOnly && is_of_work(of)) {
                assert!(rig.is_refused(register, 0)?, "{}", register.name);
            }
            // A request is another matter.
            assert!(!rig.is_refused(&probe::probe_key::REGISTER, 7)?);
            rig.bench.run_until("a work request", PATIENCE, |bench| !bench[request].is_empty())?;
            let sent = rig.bench[request].pop().expect("there is one");
            let fields = [("tag", tag), ("function", function), ("privileged", number % 2), ("pd", pd), ("qpn", qpn)];
            for (name, value) in fields {
                assert_eq!(sent.get(name)?, u128::from(value), "{name}");
            }
            let wqe = [
                work_request::WQE_0,
                work_request::WQE_1,
                work_request::WQE_2,
                work_request::WQE_3,
                work_request::WQE_4,
                work_request::WQE_5,
                work_request::WQE_6,
                work_request::WQE_7,
            ];
            for (of, pair) in wqe.iter().zip(words.chunks(2)) {
                assert_eq!(sent.get(of.name)?, u128::from(pair[1]) << 32 | u128::from(pair[0]), "{}", of.name);
            }
            let answer = [("tag", tag), ("function", function), ("status", 20 + number), ("cqe_code", 0x40 + number)];
            rig.bench[response].push_fields(&answer.map(|(name, value)| (name, value.into())))?;
            rig.bench.run_until("the answer is taken", PATIENCE, |bench| bench[response].pending() == 0)?;
            assert!(!rig.status(&probe::probe_status::WORK_BUSY)?);
            let result = rig.read(&probe::probe_work_result::REGISTER)?;
            assert_eq!(result, (20 + number) | (0x40 + number) << 8 | tag << 16);
        }
        assert!(rig.bench[request].is_empty() && rig.bench[rig.request].is_empty());
    }
    Ok(())
}

#[test]
fn an_event_waits_until_it_is_taken() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 9, Stall::percent(20))?;
        let mut events = Vec::new();
        for _ in 0..5 {
            let mut event = [0u8; 16];
            let mut fields = Vec::new();
            for of in fault::LAYOUT.fields.iter().filter(|of| !of.name.starts_with("padding")) {
                let value = rig.random.next_u64() & of.max();
                of.put(&mut event, value).expect("it fits");
                fields.push((of.name, u128::from(value)));
            }
            rig.bench[rig.fault].push_fields(&fields)?;
            events.push(event);
        }
        for event in events {
            rig.bench.run(40)?;
            assert!(rig.status(&probe::probe_status::FAULT)?);
            for _ in 0..2 {
                for (word, bytes) in (0..).zip(event.chunks(4)) {
                    let found = rig.read_at(probe::fault_offset(word))?;
                    assert_eq!(found.to_le_bytes(), bytes);
                }
            }
            rig.write(&probe::probe_fault_take::REGISTER, 0)?;
        }
        rig.bench.run(40)?;
        assert!(!rig.status(&probe::probe_status::FAULT)?);
        assert_eq!(rig.bench[rig.fault].accepted(), 5);
    }
    Ok(())
}

#[test]
fn latencies_are_as_documented() -> Result<(), Error> {
    for design in DESIGNS {
        let mut rig = Rig::new(design, 10, Stall::NEVER)?;
        let asked = Asked::random(Operation::RemoteWrite, BUFFER_BYTES, &mut rig.random);
        rig.send(&asked)?;
        let before = rig.bench.cycles();
        let rready = rig.bench.model().signal("s_axil_rvalid")?;
        let arready = rig.bench.model().signal("s_axil_arvalid")?;
        rig.bench[rig.lite].push(LiteAccess::Read { offset: probe::probe_id::REGISTER.offset });
        let (mut asked_at, mut answered_at) = (None, None);
        for _ in 0..10 {
            rig.bench.cycle()?;
            // Looked at behind the edge: inputs are those of the cycle before, outputs those of the next.
            let now = rig.bench.cycles();
            if rig.bench.model().get(arready) == 1 && asked_at.is_none() {
                asked_at = Some(now - 1);
            }
            if rig.bench.model().get(rready) == 1 && answered_at.is_none() {
                answered_at = Some(now);
            }
        }
        assert_eq!(answered_at.expect("it is answered") - asked_at.expect("it was asked"), 3);
        assert_eq!(rig.bench[rig.lite].pop().expect("it is answered").value, probe::ID);
        rig.bench.run_until("all payload", PATIENCE, |bench| {
            bench[rig.payload].len() == (BUFFER_BYTES as usize) / rig.beat_bytes
        })?;
        let request = rig.bench[rig.request].pop().expect("there is one");
        let first = rig.bench[rig.payload].pop().expect("there is one");
        assert!(request.valid_cycle < before, "it was there when the write was answered");
        assert_eq!(first.valid_cycle - request.valid_cycle, 1, "payload behind its request");
        let last = std::iter::from_fn(|| rig.bench[rig.payload].pop()).last().expect("there are more");
        assert_eq!(
            last.cycle - first.cycle,
            u64::from(BUFFER_BYTES) / rig.beat_bytes as u64 - 1,
            "a beat in every cycle"
        );
        rig.push_completion(&asked, 0, 0)?;
        rig.wait()?;
        let cycles = rig.read(&probe::probe_result_cycles::REGISTER)?;
        assert!(cycles >= BUFFER_BYTES / rig.beat_bytes as u32, "{cycles}");
        rig.bench.run(100)?;
        assert_eq!(rig.read(&probe::probe_result_cycles::REGISTER)?, cycles, "it counts no further");
    }
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_probe() -> Result<(), Error> {
    for (seed, design) in (20..26).flat_map(|seed| DESIGNS.map(|design| (seed, design))) {
        let mut rig = Rig::new(design, seed, STALLS[1])?;
        let content: Vec<u8> = (0..=255).cycle().take(600).collect();
        rig.fill(&content)?;
        let asked = Asked::random(Operation::RemoteWrite, 600, &mut rig.random);
        rig.send(&asked)?;
        let cycles = rig.random.random_range(0..60);
        rig.bench.run(cycles)?;
        rig.bench.reset(3)?;
        for handle in [rig.request, rig.payload] {
            while rig.bench[handle].pop().is_some() {}
        }
        rig.bench.run(50)?;
        assert!(rig.bench[rig.request].is_empty() && rig.bench[rig.payload].is_empty(), "what was sent is gone");
        assert!(!rig.status(&probe::probe_status::BUSY)?);
        assert_eq!(rig.read(&probe::probe_requests::REGISTER)?, 0);
        rig.send(&asked)?;
        rig.expect_request(&asked)?;
        rig.expect_payload(&content)?;
        rig.push_completion(&asked, 0, 0)?;
        assert_eq!(rig.outcome(&asked)?, (0, 0, false));
    }
    Ok(())
}
