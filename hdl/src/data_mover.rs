//! Moves the data of translated requests.
//!
//! **Purpose.** Executes the responses of the engine over AXI4: writes take their payload from a stream, reads and the old
//! values of atomics leave as a stream, in the order of the requests. Every response is reported when its DMA has ended.
//!
//! **Handshake.** Channels `operation`, `response`, `payload` and `atomic` in, channels `packet`, `completion` and `done` out,
//! ready/valid; AXI4 channels `aw`, `w`, `b`, `ar` and `r`. Operations come in the order in which the engine accepted the
//! requests, and so must the responses: the engine is one with `in_order`.
//!
//! **Latency and throughput.** Eight cycles from a response to its read on the bus, and fourteen to its write, if that has one
//! beat and its payload is there; one beat per cycle of reads and one of
//! writes at the same time. On requests of 4 KiB that are not aligned to a beat, reads carry data in 64 of 65 cycles and writes
//! in 64 of 66.
//!
//! **Timing.** Blocks meet at queues and registers.
//!
//! **Reset and flush.** Reset drops everything; no transfer may be open on the bus then.
//!
//! **Hazards.** Reads and writes run beside each other: who needs the order of a write and a read waits for the
//! completion of the first. Atomics on the same 8 bytes are carried out one after the other. A consumer of packets that
//! does not take them holds up the reads, and in the end everything behind them; it never holds up the bus.
//!
//! **Limits.** Responses of one request are moved as they come: in hold mode a request that fails anywhere has no segment, so
//! that nothing of it is moved.

use crate::atomic_unit::{AtomicUnit, Operands};
use crate::burst_cutter::BurstCutter;
use crate::byte_rotator::ByteRotator;
use crate::completion_port::{CompletionPort, Done};
use crate::mover_dispatch::{MoverDispatch, MoverOperation, MoverResponse};
use crate::mover_read::{MoverRead, PacketEnd};
use crate::mover_records::{AtomicStart, AtomicWrite, Lanes, MEMORY_PREFIX, MoverOutcome, MoverSegment};
use crate::mover_write::{MoverWrite, PayloadEnd, WriteBeat, WriteBurst};
use crate::prim::{Builder, Design, Instance, Record, Signal, drive_channel, input_channel, output_channel};
use crate::write_port::WritePort;
use keywalk_contract::Config;

/// Name of the module.
pub const NAME: &str = "data_mover";

/// Passes a channel with valid and ready from one instance to another.
fn connect<'a, R>(from: (&Instance<'a>, &str), to: (&Instance<'a>, &str), widths: R)
where
    R: Record<u32>,
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    connect_fields(from, to, widths);
    to.0.drive(&format!("{}_valid", to.1), from.0.output(&format!("{}_valid", from.1), 1));
    from.0.drive(&format!("{}_ready", from.1), to.0.output(&format!("{}_ready", to.1), 1));
}

/// Passes the fields of a channel.
fn connect_fields<'a, R>(from: (&Instance<'a>, &str), to: (&Instance<'a>, &str), widths: R)
where
    R: Record<u32>,
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    drive_channel(to.0, to.1, from.0.channel(from.1, widths));
}

/// Ports of the module for a channel that an instance receives.
fn receive<'a, R>(b: &'a Builder<'a>, channel: &str, to: (&Instance<'a>, &str), widths: R)
where
    R: Record<u32>,
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    to.0.drive(&format!("{}_valid", to.1), b.input(&format!("{channel}_valid"), 1));
    b.output(&format!("{channel}_ready"), to.0.output(&format!("{}_ready", to.1), 1));
    drive_channel(to.0, to.1, input_channel(b, channel, widths));
}

/// Ports of the module for a channel that an instance sends.
fn send<'a, R>(b: &'a Builder<'a>, channel: &str, from: &Instance<'a>, widths: R)
where
    R: Record<u32>,
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    b.output(&format!("{channel}_valid"), from.output(&format!("{channel}_valid"), 1));
    from.drive(&format!("{channel}_ready"), b.input(&format!("{channel}_ready"), 1));
    output_channel(b, channel, from.channel(channel, widths));
}

/// The block.
pub struct DataMover;

impl DataMover {
    /// Builds the module `data_mover` with everything below it and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        ByteRotator::build(design, config);
        BurstCutter::build(design, config);
        let modules = [
            MoverDispatch::build(design, config),
            MoverRead::build(design, config),
            MoverWrite::build(design, config),
            WritePort::build(design, config),
            AtomicUnit::build(design, config),
            CompletionPort::build(design, config),
        ];
        let b = design.module(NAME);
        let [dispatch, read, write, port, atomics, completions] =
            modules.map(|module| b.instance(&format!("the_{module}"), &module));

        receive(b, "operation", (&dispatch, "operation"), MoverOperation::widths(config));
        receive(b, "response", (&dispatch, "response"), MoverResponse::widths(config));
        connect((&dispatch, "read"), (&read, "segment"), MoverSegment::widths(config));
        connect((&dispatch, "write"), (&write, "segment"), MoverSegment::widths(config));
        let payload = (Lanes::widths(config), PayloadEnd::widths(config));
        receive(b, "payload", (&write, "payload"), payload);
        connect((&write, "burst"), (&port, "burst"), WriteBurst::widths(config));
        connect((&write, "beat"), (&port, "beat"), (Lanes::widths(config), WriteBeat::widths(config)));
        send(b, "packet", &read, (Lanes::widths(config), PacketEnd::widths(config)));

        receive(b, "atomic", (&atomics, "operands"), Operands::widths(config));
        connect((&read, "start"), (&atomics, "start"), AtomicStart::widths(config));
        for (signal, width) in [("old_valid", 1), ("old_value", 64), ("old_is_bad", 1)] {
            atomics.drive(signal, read.output(signal, width));
        }
        connect((&atomics, "write"), (&port, "atomic"), AtomicWrite::widths(config));
        atomics.drive("ended", port.output("atomic_ended", 1));

        connect((&read, "outcome"), (&completions, "read_outcome"), MoverOutcome::widths(config));
        connect((&port, "outcome"), (&completions, "write_outcome"), MoverOutcome::widths(config));
        send(b, "completion", &completions, MoverOutcome::widths(config));
        send(b, "done", &completions, Done::widths(config));

        // AXI4: the ports of the blocks that have them.
        let lanes = |name: &str| (0..config.mover_lanes()).map(|lane| (format!("{name}_{lane}"), 128)).collect();
        let one = |name: &str, width: u32| vec![(name.to_owned(), width)];
        let (wdata, rdata): (Vec<_>, Vec<_>) = (lanes("wdata"), lanes("rdata"));
        let sent = [
            (&read, [one("arvalid", 1), one("araddr", 64), one("arlen", 8), one("rready", 1)].concat()),
            (&port, [one("awvalid", 1), one("awaddr", 64), one("awlen", 8), one("bready", 1)].concat()),
            (&port, [one("wvalid", 1), one("wstrb", config.mover_beat_bytes()), one("wlast", 1), wdata].concat()),
        ];
        for (from, (name, width)) in sent.iter().flat_map(|(from, signals)| signals.iter().map(move |s| (from, s))) {
            let name = format!("{MEMORY_PREFIX}{name}");
            b.output(&name, from.output(&name, *width));
        }
        let received = [
            (&read, [one("arready", 1), one("rvalid", 1), one("rresp", 2), rdata].concat()),
            (&port, [one("awready", 1), one("wready", 1), one("bvalid", 1), one("bresp", 2)].concat()),
        ];
        for (to, (name, width)) in received.iter().flat_map(|(to, signals)| signals.iter().map(move |s| (to, s))) {
            let name = format!("{MEMORY_PREFIX}{name}");
            to.drive(&name, b.input(&name, *width));
        }
        NAME.into()
    }
}
