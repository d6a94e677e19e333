//! Writes bursts and atomics to the bus, and reports what came of them.
//!
//! **Purpose.** Puts the bursts of writes and the single beats of atomics onto AW and W, and follows them to their
//! responses. All have one ID, so that these come in order.
//!
//! **Handshake.** Channels `burst`, `beat` and `atomic` in and channel `outcome` out, ready/valid; the beats of a burst are there
//! when it comes. AXI4 channels `aw`, `w` and `b`, whose ready, like `atomic_valid`, reaches that of `burst`, `beat` and `atomic`
//! combinationally, and there the queues of other blocks. Pulse `atomic_ended`: an atomic has been answered.
//!
//! **Latency and throughput.** One cycle from a burst to `awvalid`, three to `wvalid`; three from an answer to its outcome; one
//! beat per cycle, one burst per cycle.
//!
//! **Timing.** A select of two in front of the registers of W.
//!
//! **Reset and flush.** Reset drops everything; no write may be open then.
//!
//! **Hazards.** Atomics go first; there are never more than `mover_atomics_in_flight`. A write is issued only with room for its
//! outcome, so that B never waits for the consumer of outcomes.
//!
//! **Limits.** `mover_writes_in_flight` bursts, and as many responses whose outcome has not been taken.

use crate::mover_records::{AtomicWrite, Lanes, MoverOutcome, status_like};
use crate::mover_write::{WriteBeat, WriteBurst};
use crate::prim::{Count, Design, Fifo, Signal, concat, delay_record, hold_record, input_channel, output_channel};
use keywalk_contract::mover::MOVER_STATUS_BITS;
use keywalk_contract::status::STATUS_BITS;
use keywalk_contract::{Config, MoverStatus};

crate::record! {
    /// A burst that was issued, or an end without beats.
    struct Open(config) {
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
        /// [`MoverStatus`] as far as it is known.
        status: MOVER_STATUS_BITS,
        /// The response's own status.
        refusal: STATUS_BITS,
        /// Last burst of the response.
        last: 1,
        /// There was nothing to be written.
        is_empty: 1,
        /// An atomic.
        is_atomic: 1,
    }
}

crate::record! {
    /// Whose beats come next on W.
    struct Turn(config) {
        /// An atomic: one beat, which is here.
        is_atomic: 1,
        /// Number of its 8 bytes within the beat.
        place: config.mover_byte_bits() - 3,
        /// They.
        value: 64,
    }
}

/// The block.
pub struct WritePort;

impl WritePort {
    /// Builds the module `write_port` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("write_port");
        let byte_bits = config.mover_byte_bits();
        let place_bits = byte_bits - 3;
        let burst_valid = b.input("burst_valid", 1);
        let burst = input_channel(b, "burst", WriteBurst::widths(config));
        let beat_valid = b.input("beat_valid", 1);
        let beat_data = input_channel(b, "beat", Lanes::widths(config));
        let beat = input_channel(b, "beat", WriteBeat::widths(config));
        let atomic_valid = b.input("atomic_valid", 1);
        let atomic = input_channel(b, "atomic", AtomicWrite::widths(config));
        let awready = b.input("mem_awready", 1);
        let wready = b.input("mem_wready", 1);
        let bvalid = b.input("mem_bvalid", 1);
        let berror = b.input("mem_bresp", 2).bit(1);
        let outcome_ready = b.input("outcome_ready", 1);

        // Issue: what has nothing to write only takes its place in the order.
        let writes = config.mover_writes_in_flight;
        let write_bits = writes.trailing_zeros();
        let (opened, current) = Fifo::new(design, b, "opened", writes, Open::widths(config));
        let (turns, turn) = Fifo::new(design, b, "turns", writes, Turn::widths(config));
        let choose = |of_atomic: Signal<'a>, of_burst: Signal<'a>| atomic_valid.mux(of_atomic, of_burst);
        let issued = Open {
            tag: choose(atomic.tag, burst.tag),
            function: choose(atomic.function, burst.function),
            status: choose(atomic.status, burst.status),
            refusal: choose(atomic.refusal, burst.refusal),
            last: atomic_valid | burst.last,
            is_empty: choose(atomic.is_empty, burst.is_empty),
            is_atomic: atomic_valid,
        };
        let aw_valid = b.register_reset("aw_valid", 1, 0);
        let aw_open = !aw_valid.value | awready;
        let answered = b.forward("answered", 1);
        let outcome_taken = b.forward("outcome_taken", 1);
        let issue = b.forward("issue", 1);
        let writes_out = (issue.value & !issued.is_empty).named("writes_out");
        let in_flight = Count::new(b, "writes_in_flight", write_bits + 1, writes_out, answered.value);
        let outcomes_open =
            Count::new(b, "outcomes_open", write_bits + 1, issue.value & issued.last, outcome_taken.value);
        let has_place = !(in_flight.value() | outcomes_open.value()).bit(write_bits);
        let may_issue = (aw_open & has_place & current.in_ready & turn.in_ready).named("may_issue");
        issue.drive(may_issue & (atomic_valid | burst_valid));
        b.output("atomic_ready", may_issue);
        b.output("burst_ready", may_issue & !atomic_valid);
        opened.push(issue.value, issued);
        let word_beat = atomic.word.high_bits(61 - place_bits);
        turns.push(
            writes_out,
            Turn { is_atomic: atomic_valid, place: atomic.word.low_bits(place_bits), value: atomic.value },
        );
        aw_valid.next(writes_out | (aw_valid.value & !awready));
        b.output("mem_awvalid", aw_valid.value);
        let address = choose(word_beat, burst.beat).hold("aw_beat", aw_open);
        b.output("mem_awaddr", address.concat(b.literal(0, byte_bits)));
        let beats = choose(b.literal(0, burst.beats.width()), burst.beats).hold("aw_beats", aw_open);
        b.output("mem_awlen", beats.resize(8));

        // W.
        let w_valid = b.register_reset("w_valid", 1, 0);
        let w_open = (!w_valid.value | wready).named("w_open");
        let is_atomic = turn.out.is_atomic;
        let sends = (turn.out_valid & (is_atomic | beat_valid)).named("sends");
        let last = is_atomic | beat.last;
        turns.pop(w_open & last & (is_atomic | beat_valid));
        b.output("beat_ready", w_open & turn.out_valid & !is_atomic);
        w_valid.next(sends | (w_valid.value & !wready));
        b.output("mem_wvalid", w_valid.value);
        b.output("mem_wlast", last.hold("w_last", w_open));
        let twice = turn.out.value.concat(turn.out.value);
        let data = Lanes(beat_data.0.iter().map(|lane| is_atomic.mux(twice, *lane)).collect());
        for (lane, data) in hold_record(data, "w", w_open).0.into_iter().enumerate() {
            b.output(&format!("mem_wdata_{lane}"), data);
        }
        let words = (0..1u128 << place_bits).rev().map(|word| turn.out.place.is(word).repeat(8));
        let word_strobes = concat(&words.collect::<Vec<_>>());
        b.output("mem_wstrb", is_atomic.mux(word_strobes, beat.strobes).hold("w_strobes", w_open));

        // B.
        let bready = (current.out_valid & !current.out.is_empty).named("bready_q");
        b.output("mem_bready", bready);
        answered.drive((bvalid & bready).named("b_taken"));
        let ends = (current.out_valid & (current.out.is_empty | bvalid)).named("ends");
        opened.pop(current.out.is_empty | bvalid);
        // An atomic may come between the bursts of a response.
        let bad = b.register_reset("bad", 1, 0);
        let of_atomic = current.out.is_atomic;
        let is_bad = (bad.value & !of_atomic) | (answered.value & berror);
        let is_last = ends & current.out.last;
        bad.next(of_atomic.mux(bad.value, is_bad & !is_last));
        let outcome = MoverOutcome {
            tag: current.out.tag,
            function: current.out.function,
            status: is_bad.mux(status_like(MoverStatus::WriteError, current.out.status), current.out.status),
            refusal: current.out.refusal,
        };
        let (outcomes, outcome_out) = Fifo::new(design, b, "outcomes", writes, MoverOutcome::widths(config));
        outcomes.push(is_last.delay_reset("outcome_pushed"), delay_record(outcome, "outcome_q"));
        outcomes.pop(outcome_ready);
        b.output("outcome_valid", outcome_out.out_valid);
        output_channel(b, "outcome", outcome_out.out);
        outcome_taken.drive(outcome_out.out_valid & outcome_ready);
        b.output("atomic_ended", (ends & current.out.is_atomic).delay_reset("atomic_ended_q"));
        b.name().into()
    }
}
