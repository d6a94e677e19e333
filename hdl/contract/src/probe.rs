//! The probe: registers through which a host sends requests to a card by itself, where no packet logic drives the card's
//! streams.
//!
//! The probe has one request and one work request under way at a time. While one is, writes to its registers, and for a
//! request to the buffer, are refused: answered with SLVERR, nothing changes. So is a write that does not have all four
//! strobes, and one to an offset that holds nothing. A write across PCIe has no answer: `probe_status.refused` says it besides.

use crate::mover;
use crate::ports::{self, Direction, StreamPort};
use crate::regs::{Access, Register, registers};
use crate::work;

/// Value of register `probe_id`: "KWPB".
pub const ID: u32 = 0x4b57_5042;
/// Value of register `probe_version`: major << 16 | minor.
pub const VERSION: u32 = 0x0001_0000;
/// Offset of the payload buffer.
pub const BUFFER_OFFSET: u32 = 0x1000;
/// Bytes of the payload buffer, and so the longest request.
pub const BUFFER_BYTES: u32 = 4096;
/// 32-bit words of a work request.
pub const WORK_WORDS: usize = work::WORK_REQUEST_BYTES / 4;
/// 32-bit words of an event.
pub const FAULT_WORDS: usize = ports::fault::LAYOUT.bytes as usize / 4;

registers! {
    probe_id / "probe_id" @ 0x000 ReadOnly = 0x4b57_5042, "Identifies the probe: \"KWPB\"." {}
    probe_version / "probe_version" @ 0x004 ReadOnly = 0x0001_0000, "Version of the probe's registers." {
        MINOR / "minor" [15:0] = "Rises with every compatible change.";
        MAJOR / "major" [31:16] = "Rises with every incompatible change.";
    }
    probe_shape / "probe_shape" @ 0x008 ReadOnly = 0x0000_1000, "What there is." {
        BUFFER_BYTES / "buffer_bytes" [15:0] = "Bytes of the buffer.";
        HAS_WORK / "has_work" [16:16] = "There are the registers of work requests; 0 where the engine has no command unit.";
    }
    probe_status / "probe_status" @ 0x00c ReadOnly = 0, "State." {
        BUSY / "busy" [0:0] = "A request is under way: the results are not those of `probe_go`.";
        WORK_BUSY / "work_busy" [1:1] = "A work request is under way.";
        REFUSED / "refused" [2:2] = "A write was refused since the last request or work request was sent.";
        FAULT / "fault" [3:3] = "`probe_fault_0` to `probe_fault_3` hold an event.";
    }
    probe_request / "probe_request" @ 0x010 ReadWrite = 0, "What is asked for." {
        TAG / "tag" [15:0] = "Tag.";
        FUNCTION / "function" [23:16] = "Function.";
        OPERATION / "operation" [27:24] = "Operation, with the codes of the request port.";
        IS_SWAP / "is_swap" [28:28] = "Atomics. 0: fetch and add. 1: compare and swap.";
    }
    probe_key / "probe_key" @ 0x014 ReadWrite = 0, "Key of the request." {}
    probe_pd / "probe_pd" @ 0x018 ReadWrite = 0, "Protection domain of the request." {
        PD / "pd" [23:0] = "Protection domain.";
    }
    probe_qpn / "probe_qpn" @ 0x01c ReadWrite = 0, "Queue pair of the request." {
        QPN / "qpn" [23:0] = "Queue pair.";
    }
    probe_va_low / "probe_va_low" @ 0x020 ReadWrite = 0, "First virtual address of the request, low half." {}
    probe_va_high / "probe_va_high" @ 0x024 ReadWrite = 0, "High half." {}
    probe_length / "probe_length" @ 0x028 ReadWrite = 0, "Bytes of the request; more than the buffer holds are refused when it is sent." {}
    probe_value_low / "probe_value_low" @ 0x02c ReadWrite = 0, "Atomics: what is added, or the new value; low half." {}
    probe_value_high / "probe_value_high" @ 0x030 ReadWrite = 0, "High half." {}
    probe_compare_low / "probe_compare_low" @ 0x034 ReadWrite = 0, "Compare and swap: the old value with which the new one is written; low half." {}
    probe_compare_high / "probe_compare_high" @ 0x038 ReadWrite = 0, "High half." {}
    probe_go / "probe_go" @ 0x03c WriteOnly = 0, "Writing any value sends the request. A write takes its bytes from the buffer; those of a read, and the old value of an atomic, come into the buffer. Refused where the request is too long." {}
    probe_result / "probe_result" @ 0x040 ReadOnly = 0, "Outcome of the last request." {
        STATUS / "status" [2:0] = "0 ok, 1 refused, 2 out_of_order, 3 atomic_shape, 4 payload_length, 5 read_error, 6 write_error.";
        REFUSAL / "refusal" [15:8] = "Status of the response, 0 ok.";
        IS_BAD / "is_bad" [16:16] = "Reads and atomics: what came is marked as not whole or not good.";
    }
    probe_result_name / "probe_result_name" @ 0x044 ReadOnly = 0, "Whose outcome came." {
        TAG / "tag" [15:0] = "Tag.";
        FUNCTION / "function" [23:16] = "Function.";
    }
    probe_result_bytes / "probe_result_bytes" @ 0x048 ReadOnly = 0, "Bytes that the last read or atomic brought. Those behind them in the buffer, up to the end of a beat, may be anything." {}
    probe_result_cycles / "probe_result_cycles" @ 0x04c ReadOnly = 0, "Clock cycles of the engine in which the last request was under way." {}
    probe_requests / "probe_requests" @ 0x050 ReadOnly = 0, "Requests that were sent, modulo 2^32." {}
    probe_failures / "probe_failures" @ 0x054 ReadOnly = 0, "Requests whose outcome was not ok, modulo 2^32." {}
    probe_work / "probe_work" @ 0x060 ReadWrite = 0, "Whose work request it is." {
        TAG / "tag" [15:0] = "Tag.";
        FUNCTION / "function" [23:16] = "Function.";
        PRIVILEGED / "privileged" [24:24] = "The work queue belongs to the kernel.";
    }
    probe_work_pd / "probe_work_pd" @ 0x064 ReadWrite = 0, "Protection domain of the queue pair." {
        PD / "pd" [23:0] = "Protection domain.";
    }
    probe_work_qpn / "probe_work_qpn" @ 0x068 ReadWrite = 0, "Queue pair." {
        QPN / "qpn" [23:0] = "Queue pair.";
    }
    probe_work_go / "probe_work_go" @ 0x06c WriteOnly = 0, "Writing any value sends the work request." {}
    probe_work_result / "probe_work_result" @ 0x070 ReadOnly = 0, "Answer to the last work request." {
        STATUS / "status" [7:0] = "Outcome, 0 ok.";
        CQE_CODE / "cqe_code" [15:8] = "Status of the completion queue entry, 0 ok.";
        TAG / "tag" [31:16] = "Tag.";
    }
    probe_work_0 / "probe_work_0" @ 0x080 ReadWrite = 0, "Bytes 3:0 of the work request." {}
    probe_work_1 / "probe_work_1" @ 0x084 ReadWrite = 0, "Bytes 7:4." {}
    probe_work_2 / "probe_work_2" @ 0x088 ReadWrite = 0, "Bytes 11:8." {}
    probe_work_3 / "probe_work_3" @ 0x08c ReadWrite = 0, "Bytes 15:12." {}
    probe_work_4 / "probe_work_4" @ 0x090 ReadWrite = 0, "Bytes 19:16." {}
    probe_work_5 / "probe_work_5" @ 0x094 ReadWrite = 0, "Bytes 23:20." {}
    probe_work_6 / "probe_work_6" @ 0x098 ReadWrite = 0, "Bytes 27:24." {}
    probe_work_7 / "probe_work_7" @ 0x09c ReadWrite = 0, "Bytes 31:28." {}
    probe_work_8 / "probe_work_8" @ 0x0a0 ReadWrite = 0, "Bytes 35:32." {}
    probe_work_9 / "probe_work_9" @ 0x0a4 ReadWrite = 0, "Bytes 39:36." {}
    probe_work_10 / "probe_work_10" @ 0x0a8 ReadWrite = 0, "Bytes 43:40." {}
    probe_work_11 / "probe_work_11" @ 0x0ac ReadWrite = 0, "Bytes 47:44." {}
    probe_work_12 / "probe_work_12" @ 0x0b0 ReadWrite = 0, "Bytes 51:48." {}
    probe_work_13 / "probe_work_13" @ 0x0b4 ReadWrite = 0, "Bytes 55:52." {}
    probe_work_14 / "probe_work_14" @ 0x0b8 ReadWrite = 0, "Bytes 59:56." {}
    probe_work_15 / "probe_work_15" @ 0x0bc ReadWrite = 0, "Bytes 63:60." {}
    probe_fault_0 / "probe_fault_0" @ 0x0c0 ReadOnly = 0, "Bytes 3:0 of the event, packed as on `m_axis_fault`. They mean something while `probe_status.fault` is 1." {}
    probe_fault_1 / "probe_fault_1" @ 0x0c4 ReadOnly = 0, "Bytes 7:4." {}
    probe_fault_2 / "probe_fault_2" @ 0x0c8 ReadOnly = 0, "Bytes 11:8." {}
    probe_fault_3 / "probe_fault_3" @ 0x0cc ReadOnly = 0, "Bytes 15:12." {}
    probe_fault_take / "probe_fault_take" @ 0x0d0 WriteOnly = 0, "Writing any value drops the event, so that the next one can come." {}
}

const fn port(axi_name: &'static str, core_name: &'static str, direction: Direction, of: StreamPort) -> StreamPort {
    StreamPort { axi_name, core_name, direction, layout: of.layout }
}

/// Streams of the probe but those of payload, each the other end of one of a card. Directions are seen from the probe.
pub const STREAMS: [StreamPort; 4] = [
    port("m_axis_req", "request", Direction::Out, ports::STREAMS[0]),
    port("m_axis_atomic", "atomic", Direction::Out, mover::STREAMS[2]),
    port("s_axis_cpl", "completion", Direction::In, mover::STREAMS[3]),
    port("s_axis_fault", "fault", Direction::In, ports::STREAMS[7]),
];

/// Streams of work requests, where the engine has a command unit.
pub const WORK_STREAMS: [StreamPort; 2] = [
    port("m_axis_work", "work_request", Direction::Out, work::STREAMS[0]),
    port("s_axis_work", "work_response", Direction::In, work::STREAMS[1]),
];

/// Prefix of the stream that brings the payload of writes, the other end of [`mover::WRITE_STREAM`].
pub const WRITE_STREAM: &str = "m_axis_wr";
/// Prefix of the stream that takes what was read, the other end of [`mover::READ_STREAM`].
pub const READ_STREAM: &str = "s_axis_rd";

/// Whether a register belongs to work requests.
#[must_use]
pub const fn is_of_work(register: &Register) -> bool {
    register.offset >= probe_work::REGISTER.offset && register.offset < probe_fault_0::REGISTER.offset
}

/// Byte offset of a word of the work request.
#[must_use]
pub const fn work_offset(word: u32) -> u32 {
    probe_work_0::REGISTER.offset + 4 * word
}

/// Byte offset of a word of the event.
#[must_use]
pub const fn fault_offset(word: u32) -> u32 {
    probe_fault_0::REGISTER.offset + 4 * word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_rise_and_words_follow_each_other() {
        assert!(REGISTERS.windows(2).all(|pair| pair[0].offset < pair[1].offset));
        assert!(REGISTERS.iter().all(|register| register.offset.is_multiple_of(4)));
        assert!(REGISTERS.last().is_some_and(|register| register.offset < BUFFER_OFFSET));
        assert_eq!(work_offset(WORK_WORDS as u32 - 1), probe_work_15::REGISTER.offset);
        assert_eq!(fault_offset(FAULT_WORDS as u32 - 1), probe_fault_3::REGISTER.offset);
        assert_eq!([probe_id::REGISTER.reset, probe_version::REGISTER.reset], [ID, VERSION]);
        assert_eq!(probe_shape::REGISTER.reset, BUFFER_BYTES);
    }

    #[test]
    fn each_stream_is_the_other_end_of_its_own() {
        let names = STREAMS.iter().chain(&WORK_STREAMS).map(|stream| stream.axi_name);
        let records = STREAMS.iter().chain(&WORK_STREAMS).map(|stream| stream.layout.name);
        assert_eq!(
            names.zip(records).collect::<Vec<_>>(),
            [
                ("m_axis_req", "request"),
                ("m_axis_atomic", "atomic"),
                ("s_axis_cpl", "completion"),
                ("s_axis_fault", "fault"),
                ("m_axis_work", "work_request"),
                ("s_axis_work", "work_response"),
            ]
        );
    }

    #[test]
    fn registers_of_work_are_told_apart() {
        let of_work = REGISTERS.iter().filter(|register| is_of_work(register));
        assert_eq!(of_work.count(), 5 + WORK_WORDS);
    }
}
