//! First-in first-out queues as modules of their own, shared by width and depth.
//!
//! Handshake: `in_ready` depends on registered state only; `out_valid` and `out_data` are registers (or memory outputs)
//! and hold until `out_ready`. Latency: an entry pushed into an empty queue can be taken two cycles later.
//! Throughput: one in and one out per cycle. Reset: empties the queue; the memory is not scrubbed, because no entry is
//! read before it was written. Limits: holds `depth` entries in memory and one at the output.

use super::builder::{Builder, Design, Instance};
use super::ram::{Ram, RamStyle};
use super::record::{Record, concat_fields, split_fields};
use super::signal::Signal;

/// Widest queue that is made of LUT RAM.
const WIDE_BITS: u32 = 48;

fn lane_widths(total: u32) -> Vec<u32> {
    (0..total.div_ceil(128)).map(|lane| (total - 128 * lane).min(128)).collect()
}

/// Builds (once per design) the queue module for `width` bits and `depth` entries, a power of two of at least 2; gives
/// its name.
pub fn fifo_module(design: &Design<'_>, width: u32, depth: u32) -> String {
    let name = format!("fifo_{depth}x{width}");
    if design.has(&name) {
        return name;
    }
    let b = design.module(&name);
    let address_bits = depth.trailing_zeros();
    let in_valid = b.input("in_valid", 1);
    let lanes = lane_widths(width);
    let in_lanes: Vec<_> =
        lanes.iter().enumerate().map(|(lane, width)| b.input(&format!("in_data_{lane}"), *width)).collect();
    let out_ready = b.input("out_ready", 1);

    let write = b.register_reset("write_pointer", address_bits + 1, 0);
    let read = b.register_reset("read_pointer", address_bits + 1, 0);
    let out_valid = b.register_reset("out_valid_q", 1, 0);
    let empty = write.value.eq(read.value).named("empty");
    let top = b.literal(1 << address_bits, address_bits + 1);
    let full = write.value.eq(read.value ^ top).named("full");
    let push = (in_valid & !full).named("push");
    let fetch = (!empty & (!out_valid.value | out_ready)).named("fetch");
    write.next_if(push, write.value + 1);
    read.next_if(fetch, read.value + 1);
    out_valid.next(fetch | (out_valid.value & !out_ready));

    b.output("in_ready", !full);
    b.output("out_valid", out_valid.value);
    // A wide queue takes block RAM however short it is: of LUT RAM it would take a LUT for every other bit.
    let style = if width > WIDE_BITS { RamStyle::Block } else { RamStyle::for_depth(depth) };
    for (lane, (in_lane, width)) in in_lanes.iter().zip(&lanes).enumerate() {
        let memory = Ram::of_words(b, &format!("entries_{lane}"), depth, style, *width);
        memory.write_word(write.value.low_bits(address_bits), *in_lane, push);
        b.output(&format!("out_data_{lane}"), memory.read_word(read.value.low_bits(address_bits), fetch));
    }
    name
}

/// An instance of a queue of records.
pub struct Fifo<'a, R: Record<u32>> {
    instance: Instance<'a>,
    widths: R,
}

/// Outputs of a queue.
pub struct FifoPort<'a, T> {
    /// The queue can take an entry.
    pub in_ready: Signal<'a>,
    /// An entry is offered.
    pub out_valid: Signal<'a>,
    /// The entry.
    pub out: T,
}

impl<'a, R: Record<u32>> Fifo<'a, R>
where
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    /// A queue of `depth` records, a power of two of at least 2.
    pub fn new(
        design: &Design<'_>,
        builder: &'a Builder<'a>,
        name: &str,
        depth: u32,
        widths: R,
    ) -> (Self, FifoPort<'a, R::With<Signal<'a>>>) {
        let field_widths: Vec<u32> = widths.clone().list().iter().map(|(_, width)| *width).collect();
        let total = field_widths.iter().sum();
        let instance = builder.instance(name, &fifo_module(design, total, depth));
        let lanes: Vec<_> = lane_widths(total)
            .iter()
            .enumerate()
            .map(|(lane, width)| instance.output(&format!("out_data_{lane}"), *width))
            .collect();
        let mut fields = split_fields(&lanes, &field_widths).into_iter();
        let port = FifoPort {
            in_ready: instance.output("in_ready", 1),
            out_valid: instance.output("out_valid", 1),
            out: widths.clone().map(&mut |_, _| fields.next().expect("one signal per field")),
        };
        (Self { instance, widths }, port)
    }

    /// Drives the input side. An entry is taken where `valid` and `in_ready` are set.
    pub fn push(&self, valid: Signal<'a>, record: R::With<Signal<'a>>) {
        for ((name, width), (_, signal)) in self.widths.clone().list().iter().zip(record.clone().list()) {
            assert_eq!(*width, signal.width(), "field {name}");
        }
        self.instance.drive("in_valid", valid);
        let signals: Vec<_> = record.list().into_iter().map(|(_, signal)| signal).collect();
        for (lane, signal) in concat_fields(&signals).into_iter().enumerate() {
            self.instance.drive(&format!("in_data_{lane}"), signal);
        }
    }

    /// Drives the output side. The entry is taken where `out_valid` and `ready` are set.
    pub fn pop(&self, ready: Signal<'a>) {
        self.instance.drive("out_ready", ready);
    }
}
