//! Drives a card's streams from registers, so that a host can test a card by itself.
//!
//! **Purpose.** Takes the place of packet logic: a host writes a request and its payload into registers and a buffer, sends it,
//! and reads what came of it. Work requests likewise, where the engine has a command unit; events of the fault port can be
//! read. Offsets, reset values and fields are those of [`keywalk_contract::probe`].
//!
//! **Handshake.** AXI4-Lite slave with 32 data bits; address and data of a write are taken in either order; one write and one
//! read at a time, independently of each other. Channels `request`, `atomic`, `payload` and `work_request` out, `completion`,
//! `packet`, `work_response` and `fault` in, ready/valid.
//!
//! **Latency and throughput.** A write is answered two cycles after its address and data, a read three cycles after its
//! address. A request is offered two cycles behind the write that sends it, its payload a cycle later; payload leaves and
//! packets are taken in every cycle.
//!
//! **Timing.** What a request's registers say of it is worked out in the cycle after they are written. A read chooses among
//! registers by flags.
//!
//! **Reset and flush.** Reset ends what is under way and clears all registers but those of the event, which mean
//! something only while there is one. The buffer keeps what it has.
//!
//! **Hazards.** Registers of what is under way, and the buffer during a request, cannot be written: what a stream offers does
//! not change, and the buffer has one writer.
//!
//! **Limits.** One request of at most [`BUFFER_BYTES`] and one work request at a time.

use crate::mover_read::PacketEnd;
use crate::mover_records::{Lanes, below, join};
use crate::mover_write::PayloadEnd;
use crate::prim::{
    Builder, Design, Ram, RamStyle, Register, Signal, Word, encode_one_hot, input_channel, or_all, output_channel,
    select_one_hot, select_tree,
};
use keywalk_contract::mover::completion;
use keywalk_contract::op::Operation;
use keywalk_contract::ports::{fault, request};
use keywalk_contract::probe::{self, BUFFER_BYTES, BUFFER_OFFSET, REGISTERS, is_of_work};
use keywalk_contract::regs::{self, ADDRESS_BITS, Access};
use keywalk_contract::work::work_response;
use keywalk_contract::{Config, Field};

/// Name of the module.
pub const NAME: &str = "probe";
/// Bits of a register.
const DATA_BITS: u32 = 32;
/// Bits of the number of a register in the address space.
const WORD_BITS: u32 = ADDRESS_BITS - 2;
/// Bits of the number of a register among those that there may be.
const NUMBER_BITS: u32 = 6;
/// Bits of an offset in the buffer.
const BUFFER_BITS: u32 = BUFFER_BYTES.trailing_zeros();

const _: () = {
    assert!(REGISTERS[REGISTERS.len() - 1].offset < 4 << NUMBER_BITS, "every register has a number");
    assert!(BUFFER_BYTES.is_power_of_two() && BUFFER_OFFSET.is_multiple_of(BUFFER_BYTES), "high bits tell the buffer");
};

/// Bits that a register keeps: all, or those of its fields, which have no gaps.
fn kept_bits(register: &regs::Register) -> u32 {
    register.fields.last().map_or(DATA_BITS, |field| field.high() + 1)
}

/// Bits of a field of a register.
fn field<'a>(word: Signal<'a>, field: &Field) -> Signal<'a> {
    word.bits(field.high(), field.low)
}

/// A word of fields in rising order, zero between and above them.
fn word_of<'a>(fields: &[(Field, Signal<'a>)]) -> Signal<'a> {
    let b = fields[0].1.builder();
    let mut parts = Vec::new();
    let mut next = 0;
    for (field, value) in fields {
        if field.low > next {
            parts.push(b.literal(0, field.low - next));
        }
        parts.push(value.resize(field.width));
        next = field.high() + 1;
    }
    join(&parts).resize(DATA_BITS)
}

/// AXI response: `OKAY` or, where `is_error`, `SLVERR`.
fn response<'a>(is_error: Signal<'a>) -> Signal<'a> {
    is_error.concat(is_error.builder().flag(false))
}

/// A flag that `set` sets and `clear` clears; not both come in one cycle.
fn flag<'a>(b: &'a Builder<'a>, name: &str, set: Signal<'a>, clear: Signal<'a>) -> Signal<'a> {
    let flag = b.register_reset(name, 1, 0);
    flag.next(set | (flag.value & !clear));
    flag.value
}

/// A channel that offers something from `send` on until it is taken.
fn offer<'a>(b: &'a Builder<'a>, channel: &str, send: Signal<'a>) -> Signal<'a> {
    let ready = b.input(&format!("{channel}_ready"), 1);
    let valid = flag(b, &format!("{channel}_waits"), send, ready);
    b.output(&format!("{channel}_valid"), valid);
    valid
}

/// A channel from which one beat is taken while `wanted`: the cycle in which it is.
fn accept<'a>(b: &'a Builder<'a>, channel: &str, wanted: Signal<'a>) -> Signal<'a> {
    b.output(&format!("{channel}_ready"), wanted);
    (b.input(&format!("{channel}_valid"), 1) & wanted).named(&format!("{channel}_take"))
}

/// The write channels.
struct Write<'a> {
    /// It is done in this cycle.
    go: Signal<'a>,
    /// Number of the word in the address space.
    word: Signal<'a>,
    data: Signal<'a>,
    has_all_strobes: Signal<'a>,
    response_valid: Register<'a>,
}

impl<'a> Write<'a> {
    fn new(b: &'a Builder<'a>) -> Self {
        let go = b.forward("write_go", 1);
        let channel = |name: &str, parts: &[(&str, u32)]| {
            let full = b.register_reset(&format!("{name}_full"), 1, 0);
            let valid = b.input(&format!("axil_{name}valid"), 1);
            let take = (valid & !full.value).named(&format!("{name}_take"));
            full.next((full.value | valid) & !go.value);
            b.output(&format!("axil_{name}ready"), !full.value);
            let held = parts
                .iter()
                .map(|(part, width)| b.input(&format!("axil_{part}"), *width).hold(&format!("{part}_q"), take));
            (full.value, held.collect::<Vec<_>>())
        };
        let (address_full, address) = channel("aw", &[("awaddr", ADDRESS_BITS)]);
        let (data_full, data) = channel("w", &[("wdata", DATA_BITS), ("wstrb", DATA_BITS / 8)]);
        let response_valid = b.register_reset("bvalid_q", 1, 0);
        go.drive((address_full & data_full & !response_valid.value).named("write_goes"));
        Self {
            go: go.value,
            word: address[0].high_bits(WORD_BITS),
            data: data[0],
            has_all_strobes: data[1].is(0xf),
            response_valid,
        }
    }

    /// The response channel.
    fn respond(&self, b: &'a Builder<'a>, is_refused: Signal<'a>) {
        self.response_valid.next(self.go | (self.response_valid.value & !b.input("axil_bready", 1)));
        b.output("axil_bvalid", self.response_valid.value);
        b.output("axil_bresp", response(is_refused.hold("write_error", self.go)));
    }
}

/// Whether a word of the address space is that register.
fn is_register<'a>(word: Signal<'a>, register: &regs::Register) -> Signal<'a> {
    let is_low = word.high_bits(WORD_BITS - NUMBER_BITS).none();
    is_low & word.low_bits(NUMBER_BITS).is((register.offset / 4).into())
}

/// Whether a word of the address space is in the buffer.
fn is_in_buffer<'a>(word: Signal<'a>) -> Signal<'a> {
    word.high_bits(ADDRESS_BITS - BUFFER_BITS).is((BUFFER_OFFSET / BUFFER_BYTES).into())
}

/// Registers that can be written, by offset.
struct Bank<'a>(Vec<(u32, Signal<'a>)>);

impl<'a> Bank<'a> {
    /// The register's value.
    fn word(&self, register: &regs::Register) -> Signal<'a> {
        self.at(register.offset)
    }

    /// The register at that offset.
    fn at(&self, offset: u32) -> Signal<'a> {
        self.0.iter().find(|(other, _)| *other == offset).expect("the register can be written").1
    }

    /// Two registers, the first one the low half.
    fn pair(&self, low: &regs::Register) -> Signal<'a> {
        self.at(low.offset + 4).concat(self.word(low))
    }
}

/// The payload buffer: memories of 32 bits side by side, a beat in each row.
struct Buffer<'a> {
    memories: Vec<Ram<'a, Word<u32>>>,
    row_bits: u32,
}

impl<'a> Buffer<'a> {
    fn new(b: &'a Builder<'a>, config: &Config) -> Self {
        let rows = BUFFER_BYTES / config.mover_beat_bytes();
        let memory = |number| Ram::of_words(b, &format!("buffer_{number}"), rows, RamStyle::for_depth(rows), DATA_BITS);
        Self { memories: (0..config.mover_beat_bytes() / 4).map(memory).collect(), row_bits: rows.trailing_zeros() }
    }

    /// Row, and number within the row, of a word of the address space.
    fn place(&self, word: Signal<'a>) -> (Signal<'a>, Signal<'a>) {
        let number_bits = BUFFER_BITS - 2 - self.row_bits;
        (word.bits(BUFFER_BITS - 3, number_bits), word.low_bits(number_bits))
    }

    /// A row, one cycle later.
    fn read(&self, row: Signal<'a>, enable: Signal<'a>) -> Vec<Signal<'a>> {
        self.memories.iter().map(|memory| memory.read_word(row, enable)).collect()
    }
}

/// The block.
pub struct Probe;

impl Probe {
    /// Builds the module `probe` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module(NAME);
        let byte_bits = config.mover_byte_bits();
        let there: Vec<_> = REGISTERS.iter().filter(|of| config.command_unit || !is_of_work(of)).collect();

        // What a write does.
        let write = Write::new(b);
        let (busy, work_busy) = (b.forward("busy", 1), b.forward("work_busy", 1));
        let too_long = b.forward("too_long", 1);
        let named: Vec<_> = there
            .iter()
            .map(|of| (of.offset, is_register(write.word, of).named(&format!("writes_{}", of.name))))
            .collect();
        let names = |register: &regs::Register| {
            named.iter().find(|(offset, _)| *offset == register.offset).expect("the register is there").1
        };
        let locked_by = |is_work: bool| {
            let writable = there.iter().filter(|of| of.access != Access::ReadOnly && is_of_work(of) == is_work);
            // Events are taken at any time.
            let locked = writable.filter(|of| of.offset != probe::probe_fault_take::REGISTER.offset);
            locked.map(|of| names(of)).collect::<Vec<_>>()
        };
        let in_buffer = is_in_buffer(write.word).named("writes_buffer");
        let mut refusals = vec![
            !write.has_all_strobes,
            !(in_buffer | or_all(&named.iter().map(|(_, named)| *named).collect::<Vec<_>>())),
            (in_buffer | or_all(&locked_by(false))) & busy.value,
            names(&probe::probe_go::REGISTER) & too_long.value,
        ];
        if config.command_unit {
            refusals.push(or_all(&locked_by(true)) & work_busy.value);
        }
        let is_refused = or_all(&refusals).named("is_refused");
        let takes_effect = (write.go & !is_refused).named("takes_effect");
        write.respond(b, is_refused);
        let sends = (takes_effect & names(&probe::probe_go::REGISTER)).named("sends");
        let takes_fault = takes_effect & names(&probe::probe_fault_take::REGISTER);
        let writable = there.iter().filter(|of| of.access == Access::ReadWrite);
        let bank = Bank(
            writable
                .map(|of| {
                    let bits = kept_bits(of);
                    let stored = b.register_reset(of.name, bits, 0);
                    stored.next_if(takes_effect & names(of), write.data.low_bits(bits));
                    (of.offset, stored.value)
                })
                .collect(),
        );

        // What the registers say of a request: known when the next write can come, two cycles behind the last one.
        let asked = bank.word(&probe::probe_request::REGISTER);
        let length = bank.word(&probe::probe_length::REGISTER);
        let (above, within) = (length.high_bits(DATA_BITS - BUFFER_BITS), length.low_bits(BUFFER_BITS));
        let is_above = above.high_bits(above.width() - 1).any() | (above.bit(0) & within.any());
        too_long.drive(is_above.delay("is_too_long"));
        let operation = field(asked, &probe::probe_request::OPERATION);
        let is_one_of = |name: &str, operations: &[Operation]| {
            let matches: Vec<_> = operations.iter().map(|of| operation.is(of.code().into())).collect();
            or_all(&matches).delay(name)
        };
        let writes = is_one_of("is_write", &[Operation::LocalWrite, Operation::RemoteWrite]);
        let brings = is_one_of("is_read", &[Operation::LocalRead, Operation::RemoteRead, Operation::RemoteAtomic]);
        let is_atomic = is_one_of("is_atomic", &[Operation::RemoteAtomic]);
        let buffer = Buffer::new(b, config);
        let last_byte = (length - 1).low_bits(BUFFER_BITS);
        let is_empty = length.none();
        let last_row = (!is_empty).repeat(buffer.row_bits) & last_byte.high_bits(buffer.row_bits);
        let last_row = last_row.delay("last_row");
        let last_count = (!is_empty).repeat(byte_bits + 1) & (last_byte.low_bits(byte_bits).resize(byte_bits + 1) + 1);
        let last_keep = join(&below(config, last_count.delay("last_count"))).delay("last_keep");

        // The request and an atomic's operands.
        let request_waits = offer(b, "request", sends);
        let outputs = [
            (request::TAG, field(asked, &probe::probe_request::TAG)),
            (request::FUNCTION, field(asked, &probe::probe_request::FUNCTION)),
            (request::OPERATION, operation),
            (request::KEY, bank.word(&probe::probe_key::REGISTER)),
            (request::PD, bank.word(&probe::probe_pd::REGISTER)),
            (request::QPN, bank.word(&probe::probe_qpn::REGISTER)),
            (request::VA, bank.pair(&probe::probe_va_low::REGISTER)),
            (request::LENGTH, length),
        ];
        for (of, value) in outputs {
            b.output(&format!("request_{}", of.name), value);
        }
        let atomic_waits = offer(b, "atomic", sends & is_atomic);
        b.output("atomic_is_swap", field(asked, &probe::probe_request::IS_SWAP));
        b.output("atomic_value", bank.pair(&probe::probe_value_low::REGISTER));
        b.output("atomic_compare", bank.pair(&probe::probe_compare_low::REGISTER));

        // The payload of a write: the output of the buffer, a row after the other.
        let payload_ready = b.input("payload_ready", 1);
        let payload_valid = b.register_reset("payload_waits", 1, 0);
        let row = b.register("payload_row", buffer.row_bits);
        let is_last = row.value.eq(last_row).named("payload_is_last");
        let fetching = b.register_reset("payload_fetching", 1, 0);
        let fetch = (fetching.value & (!payload_valid.value | payload_ready)).named("payload_fetch");
        fetching.next((sends & writes) | (fetching.value & !(fetch & is_last)));
        payload_valid.next(fetch | (payload_valid.value & !payload_ready));
        let first_row = b.literal(0, buffer.row_bits);
        row.next(sends.mux(first_row, fetch.mux(row.value + 1, row.value)));
        let words = buffer.read(row.value, fetch);
        let lanes = Lanes(words.chunks(4).map(join).collect());
        let all = (!b.literal(0, config.mover_beat_bytes())).named("all_bytes");
        let end = PayloadEnd {
            keep: is_last.mux(last_keep, all).hold("payload_keep_q", fetch),
            last: is_last.hold("payload_last_q", fetch),
        };
        b.output("payload_valid", payload_valid.value);
        output_channel(b, "payload", (lanes, end));

        // What a read or atomic brings.
        let packet_wanted = b.forward("packet_wanted", 1);
        let packet_take = accept(b, "packet", packet_wanted.value);
        let (data, end) = input_channel(b, "packet", (Lanes::widths(config), PacketEnd::widths(config)));
        packet_wanted.drive(flag(b, "packet_is_wanted", sends & brings, packet_take & end.last));
        let packet_row = b.register("packet_row", buffer.row_bits + 1);
        let first_row = b.literal(0, buffer.row_bits + 1);
        packet_row.next(sends.mux(first_row, packet_take.mux(packet_row.value + 1, packet_row.value)));
        let lands = packet_take & end.keep.bit(0) & !packet_row.value.bit(buffer.row_bits);
        let (host_row, host_number) = buffer.place(write.word);
        let written_row = packet_wanted.value.mux(packet_row.value.low_bits(buffer.row_bits), host_row);
        for ((memory, number), word) in buffer.memories.iter().zip(0u128..).zip(data.parts(4)) {
            let by_host = takes_effect & in_buffer & host_number.is(number);
            memory.write_word(written_row, packet_wanted.value.mux(word, write.data), lands | by_host);
        }
        let counted = packet_take.delay_reset("packet_taken");
        let keep = end.keep.delay("packet_keep_q");
        let top = config.mover_beat_bytes() - 1;
        // Bytes that there are come first: the last of them tells how many.
        let ends: Vec<_> = (0..=top)
            .map(|byte| if byte == top { keep.bit(byte) } else { keep.bit(byte) & !keep.bit(byte + 1) })
            .collect();
        let nothing = b.flag(false);
        let count = encode_one_hot(&[&[nothing], &ends[..]].concat(), byte_bits + 1);
        let bytes = b.register_reset("result_bytes", BUFFER_BITS + 1, 0);
        let sum = bytes.value + count.resize(BUFFER_BITS + 1);
        bytes.next(sends.mux(b.literal(0, BUFFER_BITS + 1), counted.mux(sum, bytes.value)));
        let is_bad = flag(b, "result_is_bad", packet_take & end.last & end.error, sends);

        // The outcome.
        let completion_wanted = b.forward("completion_wanted", 1);
        let completion_take = accept(b, "completion", completion_wanted.value);
        completion_wanted.drive(flag(b, "completion_is_wanted", sends, completion_take));
        let outcome = |of: Field| {
            let name = format!("completion_{}", of.name);
            let kept = b.register_reset(&format!("{name}_q"), of.width, 0);
            let value = b.input(&name, of.width);
            kept.next_if(completion_take, value);
            (value, kept.value)
        };
        let (status_now, status) = outcome(completion::STATUS);
        let [(_, tag), (_, function), (_, refusal)] =
            [completion::TAG, completion::FUNCTION, completion::REFUSAL].map(outcome);
        let parts = [
            request_waits,
            atomic_waits,
            fetching.value,
            payload_valid.value,
            packet_wanted.value,
            completion_wanted.value,
        ];
        busy.drive(or_all(&parts).named("is_busy"));
        let counter = |name: &str, counts: Signal<'a>| {
            let count = b.register_reset(name, DATA_BITS, 0);
            count.next_if(counts, count.value + 1);
            count.value
        };
        let requests = counter("requests", sends);
        let failures = counter("failures", completion_take & status_now.any());
        let cycles = b.register_reset("cycles", DATA_BITS, 0);
        cycles.next(sends.mux(b.literal(0, DATA_BITS), busy.value.mux(cycles.value + 1, cycles.value)));

        // Work requests.
        let mut work_result = None;
        let sends_work = if config.command_unit {
            let sends = (takes_effect & names(&probe::probe_work_go::REGISTER)).named("sends_work");
            let waits = offer(b, "work_request", sends);
            let of = bank.word(&probe::probe_work::REGISTER);
            b.output("work_request_tag", field(of, &probe::probe_work::TAG));
            b.output("work_request_function", field(of, &probe::probe_work::FUNCTION));
            b.output("work_request_privileged", field(of, &probe::probe_work::PRIVILEGED));
            b.output("work_request_pd", bank.word(&probe::probe_work_pd::REGISTER));
            b.output("work_request_qpn", bank.word(&probe::probe_work_qpn::REGISTER));
            for number in 0..probe::WORK_WORDS as u32 / 2 {
                let [low, high] = [0, 1].map(|half| bank.at(probe::work_offset(2 * number + half)));
                b.output(&format!("work_request_wqe_{number}"), high.concat(low));
            }
            let wanted = b.forward("work_response_wanted", 1);
            let take = accept(b, "work_response", wanted.value);
            wanted.drive(flag(b, "work_response_is_wanted", sends, take));
            let answer = |of: Field| {
                let name = format!("work_response_{}", of.name);
                let kept = b.register_reset(&format!("{name}_q"), of.width, 0);
                kept.next_if(take, b.input(&name, of.width));
                kept.value
            };
            let [status, cqe_code, tag] =
                [work_response::STATUS, work_response::CQE_CODE, work_response::TAG].map(answer);
            work_result = Some(word_of(&[
                (probe::probe_work_result::STATUS, status),
                (probe::probe_work_result::CQE_CODE, cqe_code),
                (probe::probe_work_result::TAG, tag),
            ]));
            work_busy.drive(waits | wanted.value);
            sends
        } else {
            work_busy.drive(b.flag(false));
            b.flag(false)
        };

        // Events.
        let fault_wanted = b.forward("fault_wanted", 1);
        let fault_take = accept(b, "fault", fault_wanted.value);
        let has_fault = flag(b, "has_fault", fault_take, takes_fault);
        fault_wanted.drive(!has_fault);
        let is_padding = |of: &Field| of.name.starts_with("padding");
        let event: Vec<_> =
            fault::LAYOUT
                .fields
                .iter()
                .map(|of| {
                    if is_padding(of) {
                        b.literal(0, of.width)
                    } else {
                        b.input(&format!("fault_{}", of.name), of.width)
                    }
                })
                .collect();
        let event = join(&event).hold("event", fault_take);

        // Reads.
        let refused = b.register_reset("refused", 1, 0);
        refused.next((write.go & is_refused) | (refused.value & !(sends | sends_work)));
        let word = |number: u32| event.bits(DATA_BITS * number + DATA_BITS - 1, DATA_BITS * number);
        let constant = |value: u32| b.literal(value.into(), DATA_BITS);
        let mut read_only = vec![
            (probe::probe_id::REGISTER, constant(probe::ID)),
            (probe::probe_version::REGISTER, constant(probe::VERSION)),
            (
                probe::probe_shape::REGISTER,
                constant(BUFFER_BYTES | u32::from(config.command_unit) << probe::probe_shape::HAS_WORK.low),
            ),
            (
                probe::probe_status::REGISTER,
                word_of(&[
                    (probe::probe_status::BUSY, busy.value),
                    (probe::probe_status::WORK_BUSY, work_busy.value),
                    (probe::probe_status::REFUSED, refused.value),
                    (probe::probe_status::FAULT, has_fault),
                ]),
            ),
            (
                probe::probe_result::REGISTER,
                word_of(&[
                    (probe::probe_result::STATUS, status),
                    (probe::probe_result::REFUSAL, refusal),
                    (probe::probe_result::IS_BAD, is_bad),
                ]),
            ),
            (
                probe::probe_result_name::REGISTER,
                word_of(&[(probe::probe_result_name::TAG, tag), (probe::probe_result_name::FUNCTION, function)]),
            ),
            (probe::probe_result_bytes::REGISTER, bytes.value.resize(DATA_BITS)),
            (probe::probe_result_cycles::REGISTER, cycles.value),
            (probe::probe_requests::REGISTER, requests),
            (probe::probe_failures::REGISTER, failures),
            (probe::probe_fault_0::REGISTER, word(0)),
            (probe::probe_fault_1::REGISTER, word(1)),
            (probe::probe_fault_2::REGISTER, word(2)),
            (probe::probe_fault_3::REGISTER, word(3)),
        ];
        read_only.extend(work_result.map(|value| (probe::probe_work_result::REGISTER, value)));
        let values: Vec<_> = there
            .iter()
            .map(|of| match of.access {
                Access::ReadWrite => (**of, bank.word(of).resize(DATA_BITS)),
                Access::WriteOnly => (**of, constant(0)),
                Access::ReadOnly | Access::WriteOneToClear => {
                    *read_only.iter().find(|(other, _)| other.offset == of.offset).expect("a listed register")
                }
            })
            .collect();
        read(b, &buffer, &values);
        b.name().into()
    }
}

/// The read channels. `values` are the registers that there are.
fn read<'a>(b: &'a Builder<'a>, buffer: &Buffer<'a>, values: &[(regs::Register, Signal<'a>)]) {
    let busy = b.register_reset("read_busy", 1, 0);
    let response_valid = b.register_reset("rvalid_q", 1, 0);
    let take = (b.input("axil_arvalid", 1) & !busy.value).named("ar_take");
    let taken = (response_valid.value & b.input("axil_rready", 1)).named("r_taken");
    busy.next(take | (busy.value & !taken));
    b.output("axil_arready", !busy.value);
    let word = b.input("axil_araddr", ADDRESS_BITS).hold("araddr_q", take).high_bits(WORD_BITS);

    // One cycle for the flags and the buffer.
    let is_settled = busy.value.delay_reset("read_is_settled");
    let answer = (busy.value & is_settled & !response_valid.value).named("read_answer");
    response_valid.next(answer | (response_valid.value & !taken));
    let chosen: Vec<_> =
        values.iter().map(|(of, value)| (is_register(word, of).delay(&format!("reads_{}", of.name)), *value)).collect();
    let in_buffer = is_in_buffer(word).delay("reads_buffer");
    let (row, number) = buffer.place(word);
    let words = buffer.read(row, b.flag(true));
    let in_row = select_tree(number.delay("read_number"), &words);
    let data = select_one_hot(&chosen) | (in_buffer.repeat(DATA_BITS) & in_row);
    let flags: Vec<_> = chosen.iter().map(|(flag, _)| *flag).collect();
    b.output("axil_rvalid", response_valid.value);
    b.output("axil_rdata", data.hold("rdata_q", answer));
    b.output("axil_rresp", response((!(in_buffer | or_all(&flags))).hold("read_error", answer)));
}
