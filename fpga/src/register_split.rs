//! Splits the host's accesses to registers between the engine and the user's own logic.
//!
//! # Purpose
//! Addresses below 16 KiB are the engine's, those above are the user's: port `m_user`, with addresses from 0. Every access
//! is answered, whatever the user's logic does.
//!
//! # Handshake
//! AXI4-Lite with 32 data bits on all ports. One write and one read at a time, independent of each other; a write's address and
//! data are taken in either order, and offered together. Valid and ready outputs are registers.
//! The user's logic has `TIMEOUT_CYCLES` to answer. Otherwise the access is answered with DECERR where it was not taken, so that
//! nobody seems to be there, and with SLVERR where it was taken. The port goes on offering it, as AXI demands; until it is
//! answered further accesses of its kind are answered in the same way at once.
//!
//! # Latency and throughput
//! Two cycles to the engine or the user, one back.
//!
//! # Timing
//! Nothing long.
//!
//! # Reset and flush
//! Reset together with the engine; the user's logic is to be reset by the same reset.
//!
//! # Hazards
//! The late answer of an access that was given up is thrown away. A write that was answered with an error may have been done.
//!
//! # Limits
//! The engine is believed to answer.

use crate::config::REGISTER_ADDRESS_BITS;
use keywalk_contract::regs;
use keywalk_hdl::prim::{Builder, Design, or_all, select_first};

/// Name of the module.
pub const NAME: &str = "register_split";
/// Cycles for which the user's logic may be silent.
pub const TIMEOUT_CYCLES: u32 = 1 << TIMEOUT_BITS;
/// log2 of them.
const TIMEOUT_BITS: u32 = 12;
/// Answer of an access that was taken and not answered.
const SLVERR: u128 = 2;
/// Answer of an access that nobody took.
const DECERR: u128 = 3;

/// Builds the block; gives its name.
pub fn build(design: &Design<'_>) -> String {
    let b = design.module(NAME);
    let write: [Channel; 2] = [("aw", &[("addr", REGISTER_ADDRESS_BITS)]), ("w", &[("data", 32), ("strb", 4)])];
    accesses(b, "write", &write, "b", &[("resp", 2)]);
    accesses(b, "read", &[("ar", &[("addr", REGISTER_ADDRESS_BITS)])], "r", &[("resp", 2), ("data", 32)]);
    b.name().to_owned()
}

/// Name and fields, with bits.
type Channel<'c> = (&'c str, &'c [(&'c str, u32)]);

/// Accesses of one kind: the channels that make them, the first with the address, and the channel of the answer, whose first
/// field is the response.
fn accesses<'a>(b: &'a Builder<'a>, kind: &str, channels: &[Channel<'_>], reply: &str, fields: &[(&str, u32)]) {
    // What comes is held until it is answered.
    let open = b.flag(true).delay_reset(&format!("{kind}_open"));
    let answered = b.forward(&format!("{kind}_answered"), 1);
    let mut are_held = Vec::new();
    let mut held = Vec::new();
    for (channel, fields) in channels {
        let is_held = b.register_reset(&format!("{channel}_held"), 1, 0);
        let ready = open & !is_held.value;
        let take = (b.input(&format!("s_{channel}valid"), 1) & ready).named(&format!("{channel}_take"));
        is_held.next(take | (is_held.value & !answered.value));
        b.output(&format!("s_{channel}ready"), ready);
        are_held.push(is_held.value);
        held.push(
            fields
                .iter()
                .map(|(name, width)| {
                    let name = format!("{channel}{name}");
                    (b.input(&format!("s_{name}"), *width).hold(&format!("{name}_held"), take), name)
                })
                .collect::<Vec<_>>(),
        );
    }
    let whole = are_held.into_iter().reduce(|all, is_held| all & is_held).expect("there is a channel");
    let of_user = held[0][0].0.bit(regs::ADDRESS_BITS);

    // One access is under way at a time, or waits for its answer to be taken.
    let reply_valid = b.register_reset(&format!("{kind}_reply_valid"), 1, 0);
    let waits = b.register_reset(&format!("{kind}_waits"), 1, 0);
    let starts = (whole & !waits.value & !reply_valid.value).named(&format!("{kind}_starts"));
    let mut ports = ["m_reg", "m_user"]
        .map(|port| {
            let is_user = port == "m_user";
            let mine = if is_user { of_user } else { !of_user };
            let short = if is_user { "user" } else { "reg" };
            // It is under way until its answer comes, even where it was given up.
            let is_open = b.register_reset(&format!("{kind}_{short}_open"), 1, 0);
            let begins = (starts & mine & !is_open.value).named(&format!("{kind}_{short}_begins"));
            let mut offers = Vec::new();
            for ((channel, _), fields) in channels.iter().zip(&held) {
                let valid = b.register_reset(&format!("{channel}_{short}_offered"), 1, 0);
                valid.next(begins | (valid.value & !b.input(&format!("{port}_{channel}ready"), 1)));
                b.output(&format!("{port}_{channel}valid"), valid.value);
                offers.push(valid.value);
                for (value, name) in fields {
                    // An access that was given up must stay as it is.
                    let value = if name.ends_with("addr") { value.low_bits(regs::ADDRESS_BITS) } else { *value };
                    b.output(&format!("{port}_{name}"), value.hold(&format!("{short}_{name}"), begins));
                }
            }
            let offered = or_all(&offers);
            let ready = (is_open.value & !offered).named(&format!("{kind}_{short}_asked"));
            b.output(&format!("{port}_{reply}ready"), ready);
            let done = (b.input(&format!("{port}_{reply}valid"), 1) & ready).named(&format!("{kind}_{short}_done"));
            is_open.next(begins | (is_open.value & !done));
            let reply: Vec<_> =
                fields.iter().map(|(name, width)| b.input(&format!("{port}_{reply}{name}"), *width)).collect();
            (is_open.value, offered, done, reply)
        })
        .into_iter();
    let (_, _, engine_done, engine_reply) = ports.next().expect("there are two");
    let (user_open, user_offered, user_done, user_reply) = ports.next().expect("there are two");

    // The user's logic is silent for too long, or has been since an earlier access.
    let silent = b.register_reset(&format!("{kind}_silent"), TIMEOUT_BITS + 1, 0);
    let is_late = silent.value.bit(TIMEOUT_BITS);
    let counts = waits.value & of_user;
    silent.next(counts.mux(silent.value + 1, b.literal(0, TIMEOUT_BITS + 1)));
    let given_up = (counts & is_late) | (starts & of_user & user_open);
    let made = engine_done | (waits.value & of_user & user_done) | given_up;
    let made = made.named(&format!("{kind}_made"));
    waits.next((starts | waits.value) & !made);
    answered.drive(made);
    reply_valid.next(made | (reply_valid.value & !b.input(&format!("s_{reply}ready"), 1)));
    b.output(&format!("s_{reply}valid"), reply_valid.value);
    let refusal = user_offered.mux(b.literal(DECERR, 2), b.literal(SLVERR, 2));
    for (number, (name, width)) in fields.iter().enumerate() {
        let otherwise = if number == 0 { refusal } else { b.literal(0, *width) };
        let cases = [(engine_done, engine_reply[number]), (waits.value & of_user & user_done, user_reply[number])];
        let value = select_first(&cases, otherwise).hold(&format!("{kind}_reply_{name}"), made);
        b.output(&format!("s_{reply}{name}"), value);
    }
}
