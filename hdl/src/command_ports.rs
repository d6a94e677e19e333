//! Shares three ports of the core between the user and the command unit.
//!
//! **Purpose.** The command unit is a client of the core like any other: it looks up entries on the context port, fences on
//! the invalidation port and reads lines on the table port.
//!
//! **Handshake.** Ports of the user have the names of the top module's streams, those of the core `core_` before them.
//! `lookup_*`, `fence_*`, `read_*` of the unit: valid, held with its payload until ready; one of each kind at a time.
//! `found_valid`, `fenced_valid` and `line_valid` are taken at once. What is offered to the core stays offered: a port
//! changes its owner only in cycles in which nothing waits there.
//!
//! **Latency and throughput.** No cycle is added to what the user does. Each request of the unit takes a port from the user
//! for one transfer, the context port for one lookup besides.
//!
//! **Timing.** A two-way multiplexer, chosen by a register, in front of the core's ports. Paths lead through from input to
//! output ports, here only: both ends are registers of the core and of whatever is outside.
//!
//! **Reset and flush.** Reset gives all ports to the user.
//!
//! **Hazards.** Lookups are answered out of order, so the unit's lookup is sent alone: while it waits for earlier answers of the user,
//! and for its own, the user's lookups wait. Completions come in order: those before the unit's are counted. Line reads
//! are told apart by the highest bit of the ID.
//!
//! **Limits.** A user who does not take answers or completions stops the unit's. The unit's lookups count in
//! `context_requests`, and their table errors are events with tag 0; its fences count in `invalidations`.

use crate::context_port::ContextRequest;
use crate::fence::Invalidate;
use crate::prim::{Builder, Count, Design, Signal, input_channel, mux_record, output_channel, zero_record};
use keywalk_contract::{Config, key};

/// Bits of the counts of what the user has under way: 16 lookups, 15 invalidations.
const COUNT_BITS: u32 = 5;

/// Who owns a port: 1, the unit, from the cycle after it `wants` it, when nothing `waits` there, until it is `done`.
fn owner<'a>(b: &'a Builder<'a>, name: &str, wants: Signal<'a>, waits: Signal<'a>, done: Signal<'a>) -> Signal<'a> {
    let owner = b.register_reset(name, 1, 0);
    owner.next(owner.value.mux(!done, wants & !waits));
    owner.value
}

fn contexts<'a>(b: &'a Builder<'a>, config: &Config) {
    let valid = b.input("context_request_valid", 1);
    let request = input_channel(b, "context_request", ContextRequest::widths(config));
    let core_ready = b.input("core_context_request_ready", 1);
    let lookup_valid = b.input("lookup_valid", 1);
    let lookup = ContextRequest {
        function: b.input("lookup_function", config.function_bits),
        table: b.input("lookup_table", 3),
        index: b.input("lookup_index", 32),
        ..zero_record(b, ContextRequest::widths(config))
    };
    let found = b.forward("found", 1);
    let is_unit = owner(b, "context_owner", lookup_valid, valid & !core_ready, found.value);
    let core_answers = b.input("core_context_response_valid", 1);
    let user_takes = b.input("context_response_ready", 1);
    let is_sent = b.register_reset("lookup_is_sent", 1, 0);
    let accepts = valid & core_ready & !is_unit;
    let ends = core_answers & user_takes & !is_sent.value;
    let users = Count::new(b, "lookups_of_user", COUNT_BITS, accepts, ends);
    let may_send = (is_unit & !is_sent.value & users.value().none()).named("may_send_lookup");
    let sends = (may_send & lookup_valid & core_ready).named("sends_lookup");
    found.drive((core_answers & is_sent.value).named("is_found"));
    is_sent.next(sends | (is_sent.value & !found.value));
    b.output("core_context_request_valid", is_unit.mux(may_send & lookup_valid, valid));
    output_channel(b, "core_context_request", mux_record(is_unit, lookup, request));
    b.output("context_request_ready", core_ready & !is_unit);
    b.output("lookup_ready", core_ready & may_send);
    b.output("context_response_valid", core_answers & !is_sent.value);
    b.output("found_valid", found.value);
    b.output("core_context_response_ready", user_takes | is_sent.value);
}

fn fences<'a>(b: &'a Builder<'a>, config: &Config) {
    let valid = b.input("invalidate_valid", 1);
    let request = input_channel(b, "invalidate", Invalidate::widths(config));
    let core_ready = b.input("core_invalidate_ready", 1);
    let fence_valid = b.input("fence_valid", 1);
    let fence = Invalidate {
        function: b.input("fence_function", config.function_bits),
        scope: b.input("fence_scope", 3),
        key: b.input("fence_key", key::KEY_BITS),
        ..zero_record(b, Invalidate::widths(config))
    };
    let sends = b.forward("sends_fence", 1);
    let is_unit = owner(b, "invalidate_owner", fence_valid, valid & !core_ready, sends.value);
    sends.drive(is_unit & fence_valid & core_ready);
    let completes = b.input("core_invalidated_valid", 1);
    let user_takes = b.input("invalidated_ready", 1);
    let is_sent = b.register_reset("fence_is_sent", 1, 0);
    let ahead = b.register("fences_ahead", COUNT_BITS);
    let is_next = (is_sent.value & ahead.value.none()).named("fence_is_next");
    let ends = (completes & user_takes & !is_next).named("user_fence_ends");
    let users = Count::new(b, "fences_of_user", COUNT_BITS, valid & core_ready & !is_unit, ends);
    // Those of the user that are under way when the unit's is accepted come before it.
    ahead.next(is_sent.value.mux(ahead.value, users.value()) - ends.resize(COUNT_BITS));
    let fenced = (completes & is_next).named("is_fenced");
    is_sent.next(sends.value | (is_sent.value & !fenced));
    b.output("core_invalidate_valid", is_unit.mux(fence_valid, valid));
    output_channel(b, "core_invalidate", mux_record(is_unit, fence, request));
    b.output("invalidate_ready", core_ready & !is_unit);
    b.output("fence_ready", core_ready & is_unit);
    b.output("invalidated_valid", completes & !is_next);
    b.output("fenced_valid", fenced);
    b.output("core_invalidated_ready", user_takes | is_next);
}

fn reads<'a>(b: &'a Builder<'a>, config: &Config) {
    let core_valid = b.input("core_tbl_arvalid", 1);
    let ready = b.input("tbl_arready", 1);
    let read_valid = b.input("read_valid", 1);
    let is_unit = owner(b, "read_owner", read_valid, core_valid & !ready, ready);
    b.output("tbl_arvalid", is_unit | core_valid);
    b.output("core_tbl_arready", ready & !is_unit);
    b.output("read_ready", ready & is_unit);
    b.output("tbl_araddr", is_unit.mux(b.input("read_address", 64), b.input("core_tbl_araddr", 64)));
    let id = b.input("core_tbl_arid", config.read_bits());
    b.output("tbl_arid", is_unit.concat((!is_unit).repeat(id.width()) & id));
    let line_valid = b.input("tbl_rvalid", 1);
    let of_unit = b.input("tbl_rid", config.table_id_bits()).bit(config.read_bits());
    b.output("core_tbl_rvalid", line_valid & !of_unit);
    b.output("line_valid", line_valid & of_unit);
}

/// The block.
pub struct CommandPorts;

impl CommandPorts {
    /// Builds the module; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let name = "command_ports";
        let b = design.module(name);
        contexts(b, config);
        fences(b, config);
        reads(b, config);
        name.into()
    }
}
