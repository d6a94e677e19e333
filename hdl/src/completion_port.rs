//! Reports what came of the responses.
//!
//! **Purpose.** The outcomes of reads and of writes become one stream of completions, and a report for the engine that all
//! DMA of the response has ended.
//!
//! **Handshake.** Channels `read_outcome` and `write_outcome` in, channels `completion` and `done` out, ready/valid.
//!
//! **Latency and throughput.** Two cycles from the one in which an outcome is taken; one report per two cycles of either
//! kind.
//!
//! **Timing.** A select of two in front of the queues.
//!
//! **Reset and flush.** Reset drops everything.
//!
//! **Hazards.** A completion that is not taken holds up the reports too, and in the end the DMA of further responses.
//!
//! **Limits.** None.

use crate::mover_records::MoverOutcome;
use crate::prim::{Design, Fifo, input_channel, mux_record, output_channel};
use keywalk_contract::Config;

/// Reports that wait to be taken.
const REPORTS: u32 = 4;

crate::record! {
    /// A report for the engine.
    pub struct Done(config) {
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
    }
}

/// The block.
pub struct CompletionPort;

impl CompletionPort {
    /// Builds the module `completion_port` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("completion_port");
        let read_valid = b.input("read_outcome_valid", 1);
        let read = input_channel(b, "read_outcome", MoverOutcome::widths(config));
        let write_valid = b.input("write_outcome_valid", 1);
        let write = input_channel(b, "write_outcome", MoverOutcome::widths(config));
        let completion_ready = b.input("completion_ready", 1);
        let done_ready = b.input("done_ready", 1);

        // Every other cycle is for writes: ready depends on no valid.
        let is_write = b.register_reset("is_write", 1, 0);
        is_write.next(!is_write.value);
        let (completions, completion) = Fifo::new(design, b, "completions", REPORTS, MoverOutcome::widths(config));
        let (reports, report) = Fifo::new(design, b, "reports", REPORTS, Done::widths(config));
        let is_open = completion.in_ready & report.in_ready;
        b.output("read_outcome_ready", is_open & !is_write.value);
        b.output("write_outcome_ready", is_open & is_write.value);
        let takes = (is_open & is_write.value.mux(write_valid, read_valid)).named("takes");
        let outcome = mux_record(is_write.value, write, read);
        completions.push(takes, outcome);
        reports.push(takes, Done { tag: outcome.tag, function: outcome.function });
        completions.pop(completion_ready);
        b.output("completion_valid", completion.out_valid);
        output_channel(b, "completion", completion.out);
        reports.pop(done_ready);
        b.output("done_valid", report.out_valid);
        output_channel(b, "done", report.out);
        b.name().into()
    }
}
