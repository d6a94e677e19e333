//! Makes the host's accesses to the engine's registers, in the engine's clock.
//!
//! # Purpose
//! Takes accesses from the queues of `register_port` and makes them as an AXI4-Lite master.
//!
//! # Handshake
//! AXI4-Lite master with 32 data bits; valid outputs are registers and wait for ready. One write and one read at a time,
//! independent of each other; write address and data are offered together.
//!
//! # Latency and throughput
//! One cycle on either way.
//!
//! # Timing
//! Nothing long.
//!
//! # Reset and flush
//! Reset together with the engine.
//!
//! # Hazards
//! None: an access is done before the next is taken.
//!
//! # Limits
//! One access of a kind at a time.

use crate::config::REGISTER_ADDRESS_BITS;
use keywalk_hdl::prim::{Builder, Design, Register, Signal};

/// Builds the block; gives its name.
pub fn build(design: &Design<'_>) -> String {
    let b = design.module("register_master");

    // A write.
    let answered = b.register_reset("write_answered", 1, 0);
    let Access { take, waits, done } = access(b, "write", "written", answered);
    b.output("m_awaddr", b.input("write_addr", REGISTER_ADDRESS_BITS).hold("write_addr_q", take));
    b.output("m_wdata", b.input("write_data", 32).hold("write_data_q", take));
    b.output("m_wstrb", b.input("write_strb", 4).hold("write_strb_q", take));
    let aw = offer(b, "aw", take);
    let w = offer(b, "w", take);
    answer(b, "written", 'b', waits & !aw & !w, &[("resp", b.input("m_bresp", 2))], (answered, done));

    // A read.
    let answered = b.register_reset("read_answered", 1, 0);
    let Access { take, waits, done } = access(b, "read", "data", answered);
    b.output("m_araddr", b.input("read_addr", REGISTER_ADDRESS_BITS).hold("read_addr_q", take));
    let ar = offer(b, "ar", take);
    let fields = [("resp", b.input("m_rresp", 2)), ("data", b.input("m_rdata", 32))];
    answer(b, "data", 'r', waits & !ar, &fields, (answered, done));
    b.name().to_owned()
}

/// An access under way.
struct Access<'a> {
    /// It is taken from the queue.
    take: Signal<'a>,
    /// It is under way: a register.
    waits: Signal<'a>,
    /// Its answer leaves.
    done: Signal<'a>,
}

/// Takes an access from the queue `<request>` where none is under way; it is done when the queue `<reply>` has taken its
/// answer.
fn access<'a>(b: &'a Builder<'a>, request: &str, reply: &str, answered: Register<'a>) -> Access<'a> {
    let waits = b.register_reset(&format!("{request}_waits"), 1, 0);
    let take = (b.input(&format!("{request}_valid"), 1) & !waits.value).named(&format!("{request}_take"));
    b.output(&format!("{request}_ready"), !waits.value);
    let done = (answered.value & b.input(&format!("{reply}_ready"), 1)).named(&format!("{request}_done"));
    waits.next(take | (waits.value & !done));
    Access { take, waits: waits.value, done }
}

/// Offers the channel `m_<channel>` until it is taken; the register that says so.
fn offer<'a>(b: &'a Builder<'a>, channel: &str, take: Signal<'a>) -> Signal<'a> {
    let valid = b.register_reset(&format!("{channel}_offered"), 1, 0);
    valid.next(take | (valid.value & !b.input(&format!("m_{channel}ready"), 1)));
    b.output(&format!("m_{channel}valid"), valid.value);
    valid.value
}

/// Takes the answer of channel `m_<channel>` and offers it to the queue `<reply>` until the access is done.
fn answer<'a>(
    b: &'a Builder<'a>,
    reply: &str,
    channel: char,
    asked: Signal<'a>,
    fields: &[(&str, Signal<'a>)],
    (answered, done): (Register<'a>, Signal<'a>),
) {
    let ready = (asked & !answered.value).named(&format!("{reply}_wanted"));
    let take = (b.input(&format!("m_{channel}valid"), 1) & ready).named(&format!("{reply}_take"));
    answered.next(take | (answered.value & !done));
    b.output(&format!("m_{channel}ready"), ready);
    b.output(&format!("{reply}_valid"), answered.value);
    for (name, value) in fields {
        b.output(&format!("{reply}_{name}"), value.hold(&format!("{reply}_{name}_q"), take));
    }
}
