//! Invalidation as a fence.
//!
//! **Purpose.** When the completion of an invalidation is sent, no cache holds the old translation, no walk in flight can
//! bring it back, and every response given under it has been reported done. All scopes are treated as "everything": the
//! fence stops admission, waits until nothing is in flight, scrubs both caches, and completes.
//!
//! **Handshake.** Channels `invalidate` in and `invalidated` out, ready/valid, registered.
//!
//! **Latency and throughput.** The longest walk in flight, plus the outstanding DMA, plus one cycle per set of the larger
//! cache, plus about twelve cycles; one invalidation at a time. Nothing is admitted meanwhile.
//!
//! **Timing.** Nothing of note.
//!
//! **Reset and flush.** Reset drops the invalidation in progress; the caches are scrubbed by reset anyway.
//!
//! **Hazards.** `pause` acts on admission one cycle after it rises; whether all is idle is asked only four cycles later.
//!
//! **Limits.** The reporter of `s_axis_done` is trusted to report every response once: a report too many completes a
//! fence too early. 32768 responses whose DMA is not reported done: admission pauses there.

use crate::prim::{Design, Signal, select_first};
use keywalk_contract::Config;

/// Bits of the count of requests in flight.
const COUNT_BITS: u32 = 16;
/// Cycles from `pause` until admission has stopped and every count has followed, and from `flush` until the caches say
/// that they are busy.
const SETTLE_CYCLES: u128 = 4;

/// Where an invalidation is.
#[derive(Clone, Copy)]
enum Step {
    /// None is in progress.
    Ready = 0,
    /// Admission is stopping.
    Settle = 1,
    /// Waits until nothing is in flight.
    Drain = 2,
    /// The caches are being scrubbed.
    Flush = 3,
    /// The completion is offered.
    Answer = 4,
}

/// The block.
pub struct Fence;

impl Fence {
    /// Builds the module `fence` and gives its name.
    ///
    /// Inputs besides the channels: pulses `request_accepted`, `response_finished`, `done_valid` (a response's DMA is
    /// done); `others_idle` (context port, lookups and walks are idle), `caches_ready`. Outputs besides the channels:
    /// `pause`, `flush` (pulse), `idle` (nothing in flight), `completed` (pulse).
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("fence");
        let valid = b.input("invalidate_valid", 1);
        let tag = b.input("invalidate_tag", config.tag_bits);
        let accepted = b.input("request_accepted", 1);
        let finished = b.input("response_finished", 1);
        let done = b.input("done_valid", 1);
        let others_idle = b.input("others_idle", 1);
        let caches_ready = b.input("caches_ready", 1);
        let invalidated_ready = b.input("invalidated_ready", 1);

        // Requests whose response has not left, and responses whose DMA is not done. Reports are counted, not matched: one
        // that comes while nothing is outstanding is ignored, any other one counts for some response.
        let in_flight = b.register_reset("in_flight", COUNT_BITS, 0);
        in_flight.next(in_flight.value + accepted.resize(COUNT_BITS) + finished.repeat(COUNT_BITS));
        let undone = b.register_reset("undone", COUNT_BITS, 0);
        if config.done_tracking {
            let counts = done & (undone.value.any() | finished);
            undone.next(undone.value + finished.resize(COUNT_BITS) + counts.repeat(COUNT_BITS));
        } else {
            undone.next(undone.value);
        }
        let is_quiet = (in_flight.value.none() & undone.value.none() & others_idle).delay_reset("is_quiet");
        b.output("idle", is_quiet);

        let state = b.register_reset("state", 3, Step::Ready as u128);
        let is = |step: Step| state.value.is(step as u128);
        let count = b.register_reset("settle_count", 3, 0);
        let settled = count.value.is(SETTLE_CYCLES).named("settled");
        let accept = (valid & is(Step::Ready)).named("accept");
        let go = |condition: Signal<'a>, step: Step| condition.mux(b.literal(step as u128, 3), state.value);
        let next = select_first(
            &[
                (is(Step::Ready), go(valid, Step::Settle)),
                (is(Step::Settle), go(settled, Step::Drain)),
                (is(Step::Drain), go(is_quiet, Step::Flush)),
                (is(Step::Flush), go(settled & caches_ready, Step::Answer)),
            ],
            go(invalidated_ready, Step::Ready),
        );
        state.next(next);
        let restarts = accept | is(Step::Drain);
        count.next(restarts.mux(b.literal(0, 3), settled.mux(count.value, count.value + 1)));
        let is_full = undone.value.bit(COUNT_BITS - 1);
        b.output("pause", (!next.is(Step::Ready as u128) | is_full).delay_reset("pause_q"));
        b.output("flush", (is(Step::Drain) & is_quiet).delay_reset("flush_q"));
        b.output("invalidate_ready", is(Step::Ready));
        b.output("invalidated_valid", is(Step::Answer));
        b.output("invalidated_tag", tag.hold("tag", accept));
        b.output("completed", (is(Step::Answer) & invalidated_ready).delay_reset("completed_q"));
        b.name().into()
    }
}
