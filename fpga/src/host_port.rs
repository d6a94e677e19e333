//! What speaks to the AXI4 slave of the PCIe IP, in its clock.
//!
//! # Purpose
//! Takes reads and writes from the queues to the engine, sends them, and gives the answers back. When the link goes down
//! it finishes what the slave has accepted: started bursts of writes get their missing beats without a byte enabled,
//! and answers are taken and thrown away. `drained` says that nothing is in flight, so that no late answer ever meets an
//! engine that did not ask.
//!
//! # Handshake
//! AXI4 on both sides. A write's address goes ahead; its data follow when its turn comes, so the order of data is that
//! of addresses, and the last beat is counted here. While `up` is low nothing new is taken.
//! Read data and write answers pass to the queues in the cycle in which they come; all else is registered.
//!
//! # Latency and throughput
//! Two cycles for a request, none for an answer; one address and one beat of data per cycle.
//!
//! # Timing
//! Counters of ten bits are the longest paths. `m_ready` of a channel enables the registers of its payload.
//!
//! # Reset and flush
//! Reset by the PCIe IP's own reset alone, together with the IP, never by the link.
//!
//! # Hazards
//! A read that is taken in the last cycle of `up` counts before `drained` is looked at: the link looks at it
//! after more cycles than that.
//!
//! # Limits
//! Up to 512 reads and 512 writes in flight; more wait in the queues. Answers that nobody asked for are not expected.

use crate::config::{ID_BITS, ShellConfig};
use crate::slice::slice;
use keywalk_hdl::prim::{Design, Fifo, Signal, Word};

/// Bits of the counters of reads and writes in flight; where the highest is set no more are taken.
const COUNT_BITS: u32 = 10;
/// Bits of the length of a burst, in beats - 1.
const LENGTH_BITS: u32 = 8;
/// Bursts of writes whose data have not all been sent.
const BURSTS: u32 = 4;
/// Bits of a lane of data.
const LANE_BITS: u32 = 128;

/// Builds the block; gives its name.
pub fn build(design: &Design<'_>, config: &ShellConfig) -> String {
    let b = design.module("host_port");
    let lanes = config.pcie_data_bits / LANE_BITS;
    let up = b.input("up", 1);

    // Reads.
    let reads = b.register_reset("reads", COUNT_BITS, 0);
    let may_read = (up & !reads.value.bit(COUNT_BITS - 1)).named("may_read");
    let address =
        |channel: &str| ADDRESS_FIELDS.map(|(field, width)| (field, b.input(&format!("{channel}_{field}"), width)));
    let ar = slice(b, "ar", b.input("ar_valid", 1) & may_read, &address("ar"), b.input("m_arready", 1));
    b.output("ar_ready", ar.ready & may_read);
    b.output("m_arvalid", ar.valid);
    for ((field, _), value) in ADDRESS_FIELDS.iter().zip(&ar.payload) {
        b.output(&format!("m_ar{field}"), *value);
    }

    // Their answers.
    let r_valid = b.input("m_rvalid", 1);
    let r_ready = (b.input("r_ready", 1) | !up).named("r_takes");
    b.output("m_rready", r_ready);
    b.output("r_valid", r_valid & up);
    for (field, width) in [("id", ID_BITS), ("resp", 2)] {
        b.output(&format!("r_{field}"), b.input(&format!("m_r{field}"), width));
    }
    for lane in 0..lanes {
        b.output(&format!("r_data_{lane}"), b.input(&format!("m_rdata_{lane}"), LANE_BITS));
    }
    let r_last = b.input("m_rlast", 1);
    b.output("r_last", r_last);
    let read_done = (r_valid & r_ready & r_last).named("read_done");
    reads.next(count(reads.value, ar.take, read_done));

    // Writes: addresses, and the length of each for its data.
    let writes = b.register_reset("writes", COUNT_BITS, 0);
    let (bursts, burst) = Fifo::new(design, b, "bursts", BURSTS, Word { value: LENGTH_BITS });
    let may_write = (up & !writes.value.bit(COUNT_BITS - 1) & burst.in_ready).named("may_write");
    let aw_fields = address("aw");
    let aw = slice(b, "aw", b.input("aw_valid", 1) & may_write, &aw_fields, b.input("m_awready", 1));
    b.output("aw_ready", aw.ready & may_write);
    b.output("m_awvalid", aw.valid);
    for ((field, _), value) in ADDRESS_FIELDS.iter().zip(&aw.payload) {
        b.output(&format!("m_aw{field}"), *value);
    }
    let (_, length) = aw_fields[2];
    bursts.push(aw.take, Word { value: length });

    // Data. With the link down, beats that are owed go without a byte enabled.
    let w_valid = b.input("w_valid", 1);
    let sent = b.register_reset("sent", LENGTH_BITS, 0);
    let last = sent.value.eq(burst.out.value).named("w_last");
    let strobes = b.input("w_strb", lanes * LANE_BITS / 8);
    let mut w_fields = vec![("strb", strobes & up.repeat(strobes.width())), ("last", last)];
    let names: Vec<String> = (0..lanes).map(|lane| format!("data_{lane}")).collect();
    w_fields.extend(names.iter().map(|name| (name.as_str(), b.input(&format!("w_{name}"), LANE_BITS))));
    let w = slice(b, "w", burst.out_valid & (w_valid | !up), &w_fields, b.input("m_wready", 1));
    b.output("w_ready", burst.out_valid & w.ready & up);
    b.output("m_wvalid", w.valid);
    for ((field, _), value) in w_fields.iter().zip(&w.payload) {
        b.output(&format!("m_w{field}"), *value);
    }
    sent.next_if(w.take, last.mux(b.literal(0, LENGTH_BITS), sent.value + 1));
    bursts.pop(w.take & last);

    // Their answers.
    let b_valid = b.input("m_bvalid", 1);
    let b_ready = (b.input("b_ready", 1) | !up).named("b_takes");
    b.output("m_bready", b_ready);
    b.output("b_valid", b_valid & up);
    for (field, width) in [("id", ID_BITS), ("resp", 2)] {
        b.output(&format!("b_{field}"), b.input(&format!("m_b{field}"), width));
    }
    writes.next(count(writes.value, aw.take, b_valid & b_ready));

    b.output("drained", (reads.value.none() & writes.value.none()).delay_reset("nothing_in_flight"));
    b.name().to_owned()
}

/// Fields of an address.
const ADDRESS_FIELDS: [(&str, u32); 3] = [("id", ID_BITS), ("addr", 64), ("len", LENGTH_BITS)];

/// A count of what is in flight, with one more, one less, or both.
fn count<'a>(value: Signal<'a>, more: Signal<'a>, less: Signal<'a>) -> Signal<'a> {
    let changed = more.mux(value + 1, value - 1);
    more.eq(less).mux(value, changed)
}
