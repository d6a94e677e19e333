//! Gives every request to the engine, and its operation to the data mover.
//!
//! # Purpose
//! The mover takes a copy of the operation of every request, in the order in which the engine accepts them.
//!
//! # Handshake
//! Channel `request` in, channels `engine` and `operation` out, ready/valid. Both outputs get every request exactly once, in the
//! order in which they came; each has two places, so that one goes ahead of the other by at most that. All outputs are
//! registers.
//!
//! # Latency and throughput
//! One cycle; one request per cycle.
//!
//! # Timing
//! Nothing long.
//!
//! # Reset and flush
//! Reset drops everything; engine and mover are reset with it.
//!
//! # Hazards
//! A mover that takes no operations holds up the requests, and the other way round.
//!
//! # Limits
//! None.

use crate::slice::slice;
use keywalk_contract::mover::operation;
use keywalk_contract::ports::request;
use keywalk_hdl::prim::Design;

/// Name of the module.
pub const NAME: &str = "request_fork";
/// Bits of a lane of a request.
pub const LANE_BITS: u32 = 128;
/// Bits of a request.
pub const REQUEST_BITS: u32 = 8 * request::LAYOUT.bytes;
/// Bits of an operation.
pub const OPERATION_BITS: u32 = 8 * operation::LAYOUT.bytes;
/// Bits of an operation that are not padding: they stand in a request at the same place.
const USED_BITS: u32 = operation::OPERATION.low + operation::OPERATION.width;

const _: () = assert!(
    operation::TAG.low == request::TAG.low
        && operation::FUNCTION.low == request::FUNCTION.low
        && operation::OPERATION.low == request::OPERATION.low
        && request::OPERATION.low + request::OPERATION.width == USED_BITS
);

/// Builds the block; gives its name.
pub fn build(design: &Design<'_>) -> String {
    let b = design.module(NAME);
    let valid = b.input("request_valid", 1);
    let data = [b.input("request_data_0", LANE_BITS), b.input("request_data_1", REQUEST_BITS - LANE_BITS)];
    let operation = data[0].low_bits(USED_BITS).resize(OPERATION_BITS);
    let operation_has_room = b.forward("operation_has_room", 1);
    let engine_valid = valid & operation_has_room.value;
    let fields = [("data_0", data[0]), ("data_1", data[1])];
    let engine = slice(b, "engine", engine_valid, &fields, b.input("engine_ready", 1));
    let operation_ready = b.input("operation_ready", 1);
    let operations = slice(b, "operation", valid & engine.ready, &[("data", operation)], operation_ready);
    operation_has_room.drive(operations.ready);
    b.output("request_ready", engine.ready & operations.ready);
    b.output("engine_valid", engine.valid);
    b.output("engine_data_0", engine.payload[0]);
    b.output("engine_data_1", engine.payload[1]);
    b.output("operation_valid", operations.valid);
    b.output("operation_data", operations.payload[0]);
    b.name().to_owned()
}
