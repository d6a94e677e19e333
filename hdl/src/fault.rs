//! The fault port: one event per failed table read that was reported.
//!
//! **Purpose.** Merges the events of the response port and of the context port into a queue.
//!
//! **Handshake.** Channel `response_event` in, valid only; channel `context_event` in, waits while the other is valid.
//! Channel `fault` out, ready/valid.
//!
//! **Latency and throughput.** Two cycles; one event per cycle.
//!
//! **Timing.** Nothing of note.
//!
//! **Reset and flush.** Reset drops all events.
//!
//! **Hazards.** An event that finds the queue full is dropped and counted (`lost`): faults never hold up traffic.
//!
//! **Limits.** `fault_depth` events.

use crate::prim::{Design, Fifo, input_channel, mux_record, output_channel};
use crate::records::Event;
use keywalk_contract::Config;

/// The block.
pub struct Fault;

impl Fault {
    /// Builds the module `fault` and gives its name. Outputs besides the channels: pulses `sent` and `lost`.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("fault");
        let response_valid = b.input("response_event_valid", 1);
        let response = input_channel(b, "response_event", Event::widths(config));
        let context_valid = b.input("context_event_valid", 1);
        let context = input_channel(b, "context_event", Event::widths(config));
        let ready = b.input("fault_ready", 1);
        b.output("context_event_ready", !response_valid);
        let (queue, port) = Fifo::new(design, b, "queue", config.fault_depth, Event::widths(config));
        let valid = response_valid | context_valid;
        queue.push(valid, mux_record(response_valid, response, context));
        queue.pop(ready);
        b.output("fault_valid", port.out_valid);
        output_channel(b, "fault", port.out);
        b.output("sent", (port.out_valid & ready).delay_reset("sent_q"));
        b.output("lost", (valid & !port.in_ready).delay_reset("lost_q"));
        b.name().into()
    }
}
