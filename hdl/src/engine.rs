//! The engine: the core, and beside it the command unit, where the configuration has one.
//!
//! **Purpose.** Wires the core, the command unit and what they share. Without a command unit the engine is the core.
//!
//! **Handshake.** That of the core; streams `work_request` in and `work_response` out; the AXI4 port `tbl` has write channels.
//!
//! **Latency and throughput.** Those of the blocks.
//!
//! **Timing.** Wires only.
//!
//! **Reset and flush.** Synchronous reset, all blocks together.
//!
//! **Hazards.** See the blocks.
//!
//! **Limits.** See the configuration.

use crate::command_ports::CommandPorts;
use crate::command_unit::{CommandUnit, WorkRequest, WorkResponse};
use crate::context_port::ContextRequest;
use crate::core::Core;
use crate::fence::Invalidate;
use crate::prim::{Builder, Design, Instance, Record, Signal, drive_channel, input_channel, output_channel};
use crate::records::{Event, GeometryWrite, Request};
use crate::response_port::Response;
use keywalk_contract::status::STATUS_BITS;
use keywalk_contract::{Config, key, regs};

/// The block.
pub struct Engine;

/// Wires of an engine.
struct Wires<'a> {
    b: &'a Builder<'a>,
}

impl<'a> Wires<'a> {
    /// An input port of the engine becomes one of the instance.
    fn enter(&self, name: &str, width: u32, to: &Instance<'a>) {
        to.drive(name, self.b.input(name, width));
    }

    /// An output port of the instance becomes one of the engine.
    fn leave(&self, from: &Instance<'a>, name: &str, width: u32) {
        self.b.output(name, from.output(name, width));
    }

    /// A wire between two instances.
    fn join(&self, from: (&Instance<'a>, &str), to: (&Instance<'a>, &str), width: u32) {
        to.0.drive(to.1, from.0.output(from.1, width));
    }

    /// The same name at both ends.
    fn same(&self, from: &Instance<'a>, name: &str, to: &Instance<'a>, width: u32) {
        self.join((from, name), (to, name), width);
    }

    fn stream_in<R: Record<u32>>(&self, channel: &str, widths: R, to: &Instance<'a>)
    where
        R::With<Signal<'a>>: Record<Signal<'a>>,
    {
        self.enter(&format!("{channel}_valid"), 1, to);
        drive_channel(to, channel, input_channel(self.b, channel, widths));
        self.leave(to, &format!("{channel}_ready"), 1);
    }

    fn stream_out<R: Record<u32>>(&self, channel: &str, widths: R, from: &Instance<'a>)
    where
        R::With<Signal<'a>>: Record<Signal<'a>>,
    {
        self.leave(from, &format!("{channel}_valid"), 1);
        output_channel(self.b, channel, from.channel(channel, widths));
        self.enter(&format!("{channel}_ready"), 1, from);
    }
}

impl Engine {
    /// Builds the engine's modules and gives the name of the one that holds all others.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let core = Core::build(design, config);
        if !config.command_unit {
            return core;
        }
        let (ports, unit) = (CommandPorts::build(design, config), CommandUnit::build(design, config));
        let b = design.module("keywalk_engine");
        let [core, ports, unit] = [core, ports, unit].map(|name| b.instance(&name, &name));
        let (core, ports, unit) = (&core, &ports, &unit);
        let wires = Wires { b };

        wires.stream_in("request", Request::widths(config), core);
        wires.stream_out("response", Response::widths(config), core);
        wires.stream_out("fault", Event::widths(config), core);
        wires.enter("done_valid", 1, core);
        wires.enter("done_tag", config.tag_bits, core);
        wires.enter("done_function", config.function_bits, core);
        wires.leave(core, "done_ready", 1);
        wires.leave(core, "interrupt_pin", 1);
        wires.stream_in("work_request", WorkRequest::widths(config), unit);
        wires.stream_out("work_response", WorkResponse::widths(config), unit);

        // Context lookups.
        wires.stream_in("context_request", ContextRequest::widths(config), ports);
        wires.join((ports, "core_context_request_valid"), (core, "context_request_valid"), 1);
        let request = ports.channel("core_context_request", ContextRequest::widths(config));
        drive_channel(core, "context_request", request);
        wires.join((core, "context_request_ready"), (ports, "core_context_request_ready"), 1);
        wires.join((core, "context_response_valid"), (ports, "core_context_response_valid"), 1);
        wires.leave(ports, "context_response_valid", 1);
        wires.enter("context_response_ready", 1, ports);
        wires.join((ports, "core_context_response_ready"), (core, "context_response_ready"), 1);
        for (field, width) in [("tag", config.tag_bits), ("function", config.function_bits), ("table", 3), ("hop", 2)] {
            wires.leave(core, &format!("context_response_{field}"), width);
        }
        for (field, width) in [("status", STATUS_BITS), ("address", 64)] {
            let port = format!("context_response_{field}");
            let signal = core.output(&port, width);
            b.output(&port, signal);
            unit.drive(&format!("found_{field}"), signal);
        }
        wires.same(unit, "lookup_valid", ports, 1);
        wires.same(unit, "lookup_function", ports, config.function_bits);
        wires.same(unit, "lookup_table", ports, 3);
        wires.same(unit, "lookup_index", ports, 32);
        wires.same(ports, "lookup_ready", unit, 1);
        wires.same(ports, "found_valid", unit, 1);

        // Invalidations.
        wires.stream_in("invalidate", Invalidate::widths(config), ports);
        wires.join((ports, "core_invalidate_valid"), (core, "invalidate_valid"), 1);
        drive_channel(core, "invalidate", ports.channel("core_invalidate", Invalidate::widths(config)));
        wires.join((core, "invalidate_ready"), (ports, "core_invalidate_ready"), 1);
        wires.join((core, "invalidated_valid"), (ports, "core_invalidated_valid"), 1);
        wires.leave(ports, "invalidated_valid", 1);
        wires.leave(core, "invalidated_tag", config.tag_bits);
        wires.enter("invalidated_ready", 1, ports);
        wires.join((ports, "core_invalidated_ready"), (core, "invalidated_ready"), 1);
        wires.same(unit, "fence_valid", ports, 1);
        wires.same(unit, "fence_function", ports, config.function_bits);
        wires.same(unit, "fence_scope", ports, 3);
        wires.same(unit, "fence_key", ports, key::KEY_BITS);
        wires.same(ports, "fence_ready", unit, 1);
        wires.same(ports, "fenced_valid", unit, 1);

        // The table port.
        for (name, width) in [("arvalid", 1), ("araddr", 64), ("arid", config.read_bits())] {
            wires.join((core, &format!("tbl_{name}")), (ports, &format!("core_tbl_{name}")), width);
        }
        wires.join((ports, "core_tbl_arready"), (core, "tbl_arready"), 1);
        for (name, width) in [("arvalid", 1), ("araddr", 64), ("arid", config.table_id_bits())] {
            wires.leave(ports, &format!("tbl_{name}"), width);
        }
        wires.enter("tbl_arready", 1, ports);
        wires.leave(core, "tbl_arlen", 8);
        wires.leave(core, "tbl_rready", 1);
        wires.same(unit, "read_valid", ports, 1);
        wires.same(unit, "read_address", ports, 64);
        wires.same(ports, "read_ready", unit, 1);
        wires.enter("tbl_rvalid", 1, ports);
        let id = b.input("tbl_rid", config.table_id_bits());
        ports.drive("tbl_rid", id);
        core.drive("tbl_rid", id.low_bits(config.read_bits()));
        wires.join((ports, "core_tbl_rvalid"), (core, "tbl_rvalid"), 1);
        wires.same(ports, "line_valid", unit, 1);
        let lanes = config.table_data_bits / 128;
        let beats = [("last".to_owned(), 1), ("resp".to_owned(), 2)].into_iter();
        for (name, width) in beats.chain((0..lanes).map(|lane| (format!("data_{lane}"), 128))) {
            let signal = b.input(&format!("tbl_r{name}"), width);
            core.drive(&format!("tbl_r{name}"), signal);
            unit.drive(&format!("line_{name}"), signal);
        }
        for (name, width) in [("awvalid", 1), ("awaddr", 64), ("wvalid", 1), ("wlast", 1), ("bready", 1)] {
            wires.leave(unit, &format!("tbl_{name}"), width);
        }
        for lane in 0..lanes {
            wires.leave(unit, &format!("tbl_wdata_{lane}"), 128);
        }
        for (name, width) in [("awready", 1), ("wready", 1), ("bvalid", 1), ("bresp", 2)] {
            wires.enter(&format!("tbl_{name}"), width, unit);
        }

        // Registers: the unit is in front of the core.
        let to_registers = [
            ("awvalid", 1),
            ("awaddr", regs::ADDRESS_BITS),
            ("wvalid", 1),
            ("wdata", 32),
            ("wstrb", 4),
            ("bready", 1),
            ("arvalid", 1),
            ("araddr", regs::ADDRESS_BITS),
            ("rready", 1),
        ];
        for (name, width) in to_registers {
            wires.enter(&format!("axil_{name}"), width, unit);
            wires.join((unit, &format!("core_axil_{name}")), (core, &format!("axil_{name}")), width);
        }
        let from_registers = [
            ("awready", 1),
            ("wready", 1),
            ("bvalid", 1),
            ("bresp", 2),
            ("arready", 1),
            ("rvalid", 1),
            ("rdata", 32),
            ("rresp", 2),
        ];
        for (name, width) in from_registers {
            wires.leave(unit, &format!("axil_{name}"), width);
            wires.join((core, &format!("axil_{name}")), (unit, &format!("core_axil_{name}")), width);
        }

        // What the unit follows.
        wires.same(core, "alignment_check", unit, 1);
        wires.same(core, "geometry_write_valid", unit, 1);
        drive_channel(unit, "geometry_write", core.channel("geometry_write", GeometryWrite::widths(config)));
        wires.same(core, "function_map_write_valid", unit, 1);
        wires.same(core, "function_map_write_function", unit, config.function_bits);
        wires.same(core, "function_map_write_table_set", unit, config.table_set_bits());
        for set in 0..config.table_sets {
            wires.same(core, &format!("mpt_mask_{set}"), unit, key::INDEX_BITS);
            wires.same(core, &format!("page_shift_base_{set}"), unit, 2);
        }
        wires.join((unit, "command_done"), (core, "command_done"), 1);
        b.name().into()
    }
}
