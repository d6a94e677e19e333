//! What speaks to the AXI4 master of the PCIe IP, in its clock: the host's accesses to registers.
//!
//! # Purpose
//! Sends each access to the engine's side and gives the answer back. While the link is down, and when it goes down with an
//! access under way, the access is answered with SLVERR: a host's read never waits for an engine that is in reset.
//!
//! # Handshake
//! AXI4-Lite slave with 32 data bits. One write and one read at a time, independent of each other. Write address and
//! data are taken in either order. Every ready output is a register; answers are stable until they are taken.
//!
//! # Latency and throughput
//! One cycle on either way beside the crossing and the engine.
//!
//! # Timing
//! Nothing long.
//!
//! # Reset and flush
//! Reset by the PCIe IP's own reset alone, together with the IP.
//!
//! # Hazards
//! The answer of an access that the shell has already answered cannot come: the link empties the queues before it is up
//! again.
//!
//! # Limits
//! A write that was answered with SLVERR may have been done.

use crate::config::REGISTER_ADDRESS_BITS;
use keywalk_hdl::prim::{Builder, Design, Signal, select_first};

/// Answer of an access that cannot be made.
const SLVERR: u128 = 2;

/// Builds the block; gives its name.
pub fn build(design: &Design<'_>) -> String {
    let b = design.module("register_port");
    let up = b.input("up", 1);
    // Ready is low in reset: the IP's own reset may end some cycles earlier.
    let open = b.flag(true).delay_reset("open");

    // A write.
    let answered = b.forward("write_answered", 1);
    let (address_held, aw_fields) =
        hold(b, open, "aw", &[("addr", b.input("s_awaddr", REGISTER_ADDRESS_BITS))], answered.value);
    let (data_held, w_fields) =
        hold(b, open, "w", &[("data", b.input("s_wdata", 32)), ("strb", b.input("s_wstrb", 4))], answered.value);
    let whole = (address_held & data_held).named("write_whole");
    b.output("write_addr", aw_fields[0]);
    b.output("write_data", w_fields[0]);
    b.output("write_strb", w_fields[1]);
    let resp = b.input("written_resp", 2);
    let answer = access(b, "write", up, whole, b.input("s_bready", 1), "written", &[("resp", resp)]);
    b.output("s_bvalid", answer.valid);
    b.output("s_bresp", answer.fields[0]);
    answered.drive(answer.made);

    // A read.
    let answered = b.forward("read_answered", 1);
    let (address_held, ar_fields) =
        hold(b, open, "ar", &[("addr", b.input("s_araddr", REGISTER_ADDRESS_BITS))], answered.value);
    b.output("read_addr", ar_fields[0]);
    let resp = b.input("data_resp", 2);
    let data = b.input("data_data", 32);
    let answer = access(b, "read", up, address_held, b.input("s_rready", 1), "data", &[("resp", resp), ("data", data)]);
    b.output("s_rvalid", answer.valid);
    b.output("s_rresp", answer.fields[0]);
    b.output("s_rdata", answer.fields[1]);
    answered.drive(answer.made);
    b.name().to_owned()
}

/// Takes an address or data of channel `s_<channel>` and holds it until the access is answered.
fn hold<'a>(
    b: &'a Builder<'a>,
    open: Signal<'a>,
    channel: &str,
    fields: &[(&str, Signal<'a>)],
    answered: Signal<'a>,
) -> (Signal<'a>, Vec<Signal<'a>>) {
    let held = b.register_reset(&format!("{channel}_held"), 1, 0);
    let take = (b.input(&format!("s_{channel}valid"), 1) & open & !held.value).named(&format!("{channel}_take"));
    held.next(take | (held.value & !answered));
    b.output(&format!("s_{channel}ready"), open & !held.value);
    let fields = fields.iter().map(|(name, value)| value.hold(&format!("{channel}_{name}"), take)).collect();
    (held.value, fields)
}

/// The answer to the host.
struct Answer<'a> {
    valid: Signal<'a>,
    fields: Vec<Signal<'a>>,
    /// It is made in this cycle, and the address and data of the access are not needed any more.
    made: Signal<'a>,
}

/// Sends an access that is `whole` into the queue `<request>`, and waits for its answer from the queue `<reply>`, whose
/// first field is the response.
fn access<'a>(
    b: &'a Builder<'a>,
    request: &str,
    up: Signal<'a>,
    whole: Signal<'a>,
    taken: Signal<'a>,
    reply: &str,
    fields: &[(&str, Signal<'a>)],
) -> Answer<'a> {
    let waits = b.register_reset(&format!("{request}_waits"), 1, 0);
    let valid = b.register_reset(&format!("{request}_reply_valid"), 1, 0);
    let starts = (whole & !waits.value & !valid.value).named(&format!("{request}_starts"));
    let sent = (starts & up & b.input(&format!("{request}_ready"), 1)).named(&format!("{request}_sent"));
    b.output(&format!("{request}_valid"), starts & up);
    let replies = (b.input(&format!("{reply}_valid"), 1) & waits.value & up).named(&format!("{request}_replies"));
    b.output(&format!("{reply}_ready"), waits.value & up);
    let refused = ((starts | waits.value) & !up).named(&format!("{request}_refused"));
    let made = replies | refused;
    waits.next(sent | (waits.value & !made));
    valid.next(made | (valid.value & !taken));
    let fields = fields
        .iter()
        .enumerate()
        .map(|(number, (name, value))| {
            let otherwise = if number == 0 { SLVERR } else { 0 };
            let chosen = select_first(&[(replies, *value)], b.literal(otherwise, value.width()));
            chosen.hold(&format!("{request}_reply_{name}"), made)
        })
        .collect();
    Answer { valid: valid.value, fields, made }
}
