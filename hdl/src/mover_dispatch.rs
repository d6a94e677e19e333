//! Pairs responses with the operations of their requests, and sends their segments to where they are moved.
//!
//! **Purpose.** A response does not say what was asked for. Operations come in the order of the requests, and so must the
//! responses: each is checked to be the one of the oldest operation. What must not be moved ends here: refusals, responses
//! of another request, atomics of another shape.
//!
//! **Handshake.** Channels `operation` and `response` in, ready/valid. Channels `read` (reads, atomics, and what is neither)
//! and `write` out, ready/valid; they share their fields.
//!
//! **Latency and throughput.** Three cycles from a response to its segment; one segment per cycle.
//!
//! **Timing.** Tag, function and shape are compared and classified between the queues and a register.
//!
//! **Reset and flush.** Reset drops everything.
//!
//! **Hazards.** A segment that waits for one of the channels holds up those of the other.
//!
//! **Limits.** `OPERATIONS` operations wait for their responses here; the engine's requests wait behind them.

use crate::mover_records::{KIND_BITS, Kind, MoverSegment, status_like};
use crate::prim::{Design, Fifo, Signal, hold_record, input_channel, or_all, output_channel, select_first};
use keywalk_contract::mover::MOVER_STATUS_BITS;
use keywalk_contract::op::{ATOMIC_BYTES, OPERATION_BITS, Operation};
use keywalk_contract::{Config, MoverStatus, status};

/// Operations that wait for their responses.
pub const OPERATIONS: u32 = 256;
/// Responses' beats that wait for their operations.
const RESPONSES: u32 = 16;

crate::record! {
    /// An operation as it comes in.
    pub struct MoverOperation(config) {
        /// The request's tag.
        tag: config.tag_bits,
        /// The request's function.
        function: config.function_bits,
        /// The request's operation.
        operation: OPERATION_BITS,
    }
}

crate::record! {
    /// A beat of a response as it comes in, without the fields that the mover has no use for.
    pub struct MoverResponse(config) {
        /// See the response port.
        tag: config.tag_bits,
        /// See the response port.
        function: config.function_bits,
        /// See the response port.
        status: status::STATUS_BITS,
        /// See the response port.
        first: 1,
        /// See the response port.
        last: 1,
        /// See the response port.
        pa: 64,
        /// See the response port.
        length: 32,
    }
}

/// The block.
pub struct MoverDispatch;

impl MoverDispatch {
    /// Builds the module `mover_dispatch` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("mover_dispatch");
        let operation_valid = b.input("operation_valid", 1);
        let operation = input_channel(b, "operation", MoverOperation::widths(config));
        let response_valid = b.input("response_valid", 1);
        let response = input_channel(b, "response", MoverResponse::widths(config));
        let read_ready = b.input("read_ready", 1);
        let write_ready = b.input("write_ready", 1);

        let (operation_queue, waiting) = Fifo::new(design, b, "operations", OPERATIONS, MoverOperation::widths(config));
        operation_queue.push(operation_valid, operation);
        b.output("operation_ready", waiting.in_ready);
        let (response_queue, beat) = Fifo::new(design, b, "responses", RESPONSES, MoverResponse::widths(config));
        response_queue.push(response_valid, response);
        b.output("response_ready", beat.in_ready);
        let (request, response) = (waiting.out, beat.out);

        let is_read = b.register_reset("is_read", 1, 0);
        let is_write = b.register_reset("is_write", 1, 0);
        let is_open = (!is_read.value | read_ready) & (!is_write.value | write_ready);
        let take = (waiting.out_valid & beat.out_valid & is_open).named("take");
        operation_queue.pop(take & response.last);
        response_queue.pop(take);

        let is_one_of = |operations: &[Operation]| {
            let matches: Vec<_> = operations.iter().map(|of| request.operation.is(of.code().into())).collect();
            or_all(&matches)
        };
        let kind_of = |kind: Kind| b.literal(kind as u128, KIND_BITS);
        let writes = is_one_of(&[Operation::LocalWrite, Operation::RemoteWrite]).named("writes");
        let is_atomic = is_one_of(&[Operation::RemoteAtomic]);
        let reads = is_one_of(&[Operation::LocalRead, Operation::RemoteRead]);
        let kinds = [(writes, kind_of(Kind::Write)), (is_atomic, kind_of(Kind::Atomic)), (reads, kind_of(Kind::Read))];
        let kind = select_first(&kinds, kind_of(Kind::Nothing)).named("kind");
        let is_next = request.tag.concat(request.function).eq_wide(response.tag.concat(response.function));
        let is_refused = response.status.any();
        let is_word = response.length.is(ATOMIC_BYTES.into()) & response.pa.low_bits(3).none();
        let is_shaped = !is_atomic | (response.first & response.last & is_word);
        let code = |status: MoverStatus| status_like(status, b.literal(0, MOVER_STATUS_BITS));
        let faults = [
            (!is_next, code(MoverStatus::OutOfOrder)),
            (is_refused, code(MoverStatus::Refused)),
            (!is_shaped, code(MoverStatus::AtomicShape)),
        ];
        let moves = reads | writes | is_atomic;
        let is_empty = (!is_next | is_refused | !is_shaped | response.length.none() | !moves).named("is_empty");
        let segment = MoverSegment {
            kind,
            tag: request.tag,
            function: request.function,
            status: select_first(&faults, code(MoverStatus::Ok)),
            refusal: response.status,
            last: response.last,
            is_empty,
            pa: response.pa,
            extent: response.length - 1,
        };
        // What has no bytes matters only as the end of its response.
        let sends = take & (!is_empty | response.last);
        is_read.next((sends & !writes) | (is_read.value & !read_ready));
        is_write.next((sends & writes) | (is_write.value & !write_ready));
        let segment: MoverSegment<Signal<'a>> = hold_record(segment, "segment", is_open);
        b.output("read_valid", is_read.value);
        output_channel(b, "read", segment);
        b.output("write_valid", is_write.value);
        output_channel(b, "write", segment);
        b.name().into()
    }
}
