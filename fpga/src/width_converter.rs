//! Fits the engine's memory port to a PCIe port of another width, in the engine's clock.
//!
//! # Purpose
//! Every burst becomes one burst of the other width; no narrow transfers are made, which AMD's bridges do not take.
//! Towards a wider port beats are gathered, and the beats of an answer are cut; towards a narrower port the other way round.
//!
//! # Handshake
//! AXI4 on both sides: INCR bursts of whole beats that do not cross 4 KiB, and may begin at any byte. A write's data
//! are taken behind its address. Identifiers pass unchanged.
//!
//! # Latency and throughput
//! Two or three cycles in each direction. One beat per cycle of the narrower side.
//!
//! # Timing
//! The length of a burst is an adder of ten bits.
//!
//! # Reset and flush
//! Reset together with the engine.
//!
//! # Hazards
//! Towards a wider port the lanes of a read are kept by its identifier from its address to its answer.
//!
//! # Limits
//! The beats of different answers must not mix; AMD's bridges do not mix them. Towards a wider port a read's
//! identifier is not used again before its last beat, which the engine keeps to. Towards a narrower port a burst that
//! begins in the upper half of a beat reads the lower half too, and writes it without a byte enabled.

use crate::config::{ID_BITS, ShellConfig};
use crate::slice::slice;
use keywalk_hdl::prim::{Builder, Design, Fifo, Ram, RamStyle, Signal, Word, concat, select_tree};

/// Bits of a lane of data as signals hold it.
const LANE_BITS: u32 = 128;
/// Bits of the length of a burst, in beats - 1.
const LENGTH_BITS: u32 = 8;
/// Writes whose data are on their way.
const BURSTS: u32 = 4;

/// Builds the block, or none where both sides are of one width; gives its name.
pub fn build(design: &Design<'_>, config: &ShellConfig) -> Option<String> {
    if config.engine_data_bits == config.pcie_data_bits {
        return None;
    }
    let b = design.module("width_converter");
    if config.engine_data_bits < config.pcie_data_bits {
        widen(design, b, config);
    } else {
        narrow(b, config);
    }
    Some(b.name().to_owned())
}

/// The engine's address channel and the other side's, in a slice.
struct Address<'a> {
    id: Signal<'a>,
    addr: Signal<'a>,
    len: Signal<'a>,
    valid: Signal<'a>,
    ready: Signal<'a>,
}

fn address<'a>(b: &'a Builder<'a>, channel: &str) -> Address<'a> {
    Address {
        id: b.input(&format!("s_{channel}id"), ID_BITS),
        addr: b.input(&format!("s_{channel}addr"), 64),
        len: b.input(&format!("s_{channel}len"), LENGTH_BITS),
        valid: b.input(&format!("s_{channel}valid"), 1),
        ready: b.input(&format!("{channel}_ready"), 1),
    }
}

/// Sends an address on; it is taken where `may` is set, which depends on registers alone. Gives when it is taken.
fn send<'a>(
    b: &'a Builder<'a>,
    channel: &str,
    address: &Address<'a>,
    addr: Signal<'a>,
    len: Signal<'a>,
    may: Signal<'a>,
) -> Signal<'a> {
    let fields = [("id", address.id), ("addr", addr), ("len", len)];
    let sent = slice(b, channel, address.valid & may, &fields, address.ready);
    b.output(&format!("s_{channel}ready"), sent.ready & may);
    b.output(&format!("{channel}_valid"), sent.valid);
    for ((name, _), value) in fields.iter().zip(&sent.payload) {
        b.output(&format!("{channel}_{name}"), *value);
    }
    sent.take
}

/// Answers of writes pass.
fn pass_write_answers<'a>(b: &'a Builder<'a>) {
    let fields = [("id", b.input("b_id", ID_BITS)), ("resp", b.input("b_resp", 2))];
    let answer = slice(b, "b", b.input("b_valid", 1), &fields, b.input("s_bready", 1));
    b.output("b_ready", answer.ready);
    b.output("s_bvalid", answer.valid);
    for ((name, _), value) in fields.iter().zip(&answer.payload) {
        b.output(&format!("s_b{name}"), *value);
    }
}

/// Signals `<prefix><lane>` of `bits` bits of data.
fn data_in<'a>(b: &'a Builder<'a>, prefix: &str, bits: u32) -> Vec<Signal<'a>> {
    (0..bits / LANE_BITS).map(|lane| b.input(&format!("{prefix}{lane}"), LANE_BITS)).collect()
}

/// The fields of a beat of data: its strobes or what else, and the lanes of data.
fn with_data<'a>(fields: &[(&str, Signal<'a>)], data: &[Signal<'a>]) -> Vec<(String, Signal<'a>)> {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), *value));
    let data = data.iter().enumerate().map(|(lane, value)| (format!("data_{lane}"), *value));
    fields.chain(data).collect()
}

/// Puts a beat into a slice and that on channel `out`, whose ready input is given.
fn send_beat<'a>(
    b: &'a Builder<'a>,
    name: &str,
    out: &str,
    valid: Signal<'a>,
    fields: &[(String, Signal<'a>)],
    ready: Signal<'a>,
    is_ready: impl FnOnce(Signal<'a>),
) {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let beat = slice(b, name, valid, &fields, ready);
    is_ready(beat.ready);
    let separator = if out.starts_with("s_") { "" } else { "_" };
    b.output(&format!("{out}{separator}valid"), beat.valid);
    for ((field, _), value) in fields.iter().zip(&beat.payload) {
        b.output(&format!("{out}{separator}{field}"), *value);
    }
}

fn widen<'a>(design: &Design<'_>, b: &'a Builder<'a>, config: &ShellConfig) {
    let ratio = config.pcie_data_bits / config.engine_data_bits;
    let place_bits = ratio.trailing_zeros();
    let low = (config.engine_data_bits / 8).trailing_zeros();
    let engine_lanes = (config.engine_data_bits / LANE_BITS) as usize;
    let top = (1u128 << place_bits) - 1;
    // The place of a burst's first beat within a beat of the other side, and that of its last, counted on.
    let first_place = |address: &Address<'a>| address.addr.bits(low + place_bits - 1, low);
    let last_place =
        |address: &Address<'a>| first_place(address).resize(LENGTH_BITS + 1) + address.len.resize(LENGTH_BITS + 1);
    let length = |last: Signal<'a>| last.bits(LENGTH_BITS, place_bits).resize(LENGTH_BITS);

    // Reads: the places are kept by identifier.
    let ar = address(b, "ar");
    let last = last_place(&ar).named("ar_last_place");
    let taken = send(b, "ar", &ar, ar.addr, length(last), b.flag(true));
    let places = Ram::of_words(b, "places", 1 << ID_BITS, RamStyle::Block, 2 * place_bits);
    places.write_word(ar.id, last.low_bits(place_bits).concat(first_place(&ar)), taken);

    let beat_valid = b.register_reset("beat_valid", 1, 0);
    let beat_done = b.forward("beat_done", 1);
    let beat_ready = !beat_valid.value | beat_done.value;
    let load = (b.input("r_valid", 1) & beat_ready).named("beat_load");
    b.output("r_ready", beat_ready);
    beat_valid.next(load | (beat_valid.value & !beat_done.value));
    let r_id = b.input("r_id", ID_BITS);
    let kept = places.read_word(r_id, load);
    let id = r_id.hold("beat_id", load);
    let resp = b.input("r_resp", 2).hold("beat_resp", load);
    let is_last = b.input("r_last", 1).hold("beat_last", load);
    let lanes: Vec<_> = data_in(b, "r_data_", config.pcie_data_bits)
        .iter()
        .enumerate()
        .map(|(lane, value)| value.hold(&format!("beat_data_{lane}"), load))
        .collect();
    // Where the beat is being cut: at its begin, which is that of the burst or zero, or further.
    let begins_burst = b.register_reset("beat_begins_burst", 1, 1);
    let is_cut = b.register_reset("beat_is_cut", 1, 0);
    let next_place = b.register("beat_next_place", place_bits);
    let begin = begins_burst.value.mux(kept.low_bits(place_bits), b.literal(0, place_bits));
    let place = is_cut.value.mux(next_place.value, begin).named("beat_place");
    let end = is_last.mux(kept.high_bits(place_bits), b.literal(top, place_bits));
    let is_end = place.eq(end).named("beat_is_end");
    let pieces: Vec<_> = (0..engine_lanes)
        .map(|lane| {
            let choices: Vec<_> = (0..ratio as usize).map(|piece| lanes[piece * engine_lanes + lane]).collect();
            select_tree(place, &choices)
        })
        .collect();
    let fields = with_data(&[("id", id), ("resp", resp), ("last", is_last & is_end)], &pieces);
    send_beat(b, "piece", "s_r", beat_valid.value, &fields, b.input("s_rready", 1), |ready| {
        let cut = (beat_valid.value & ready).named("beat_cut");
        let done = (cut & is_end).named("beat_is_done");
        beat_done.drive(done);
        is_cut.next_if(cut, !is_end);
        next_place.next_if(cut, place + 1);
        begins_burst.next_if(done, is_last);
    });

    // Writes: the place of the first beat waits for the data.
    let aw = address(b, "aw");
    let (firsts, first) = Fifo::new(design, b, "firsts", BURSTS, Word { value: place_bits });
    let taken = send(b, "aw", &aw, aw.addr, length(last_place(&aw)), first.in_ready);
    firsts.push(taken, Word { value: first_place(&aw) });
    let w_valid = b.input("s_wvalid", 1);
    let w_last = b.input("s_wlast", 1);
    let strobes = b.input("s_wstrb", config.engine_data_bits / 8);
    let data = data_in(b, "s_wdata_", config.engine_data_bits);
    let in_burst = b.register_reset("w_in_burst", 1, 0);
    let next_place = b.register("w_next_place", place_bits);
    let place = in_burst.value.mux(next_place.value, first.out.value).named("w_place");
    let is_whole = (place.is(top) | w_last).named("w_is_whole");
    let take = b.forward("w_take", 1);
    let sends = (take.value & is_whole).named("w_sends");
    let mut whole_strobes = Vec::new();
    let mut whole_data = Vec::new();
    for piece in 0..ratio {
        let is_here = place.is(piece.into());
        let gathered = b.register_reset(&format!("w_strobes_{piece}"), strobes.width(), 0);
        let with = is_here.mux(strobes, gathered.value);
        gathered.next_if(take.value, with & !sends.repeat(with.width()));
        whole_strobes.push(with);
        for (lane, value) in data.iter().enumerate() {
            let kept = value.hold(&format!("w_kept_{piece}_{lane}"), take.value & is_here);
            whole_data.push(is_here.mux(*value, kept));
        }
    }
    whole_strobes.reverse();
    let fields = with_data(&[("strb", concat(&whole_strobes))], &whole_data);
    let offered = (w_valid & first.out_valid).named("w_offered");
    send_beat(b, "whole", "w", offered & is_whole, &fields, b.input("w_ready", 1), |ready| {
        take.drive(offered & ready);
        b.output("s_wready", first.out_valid & ready);
    });
    in_burst.next_if(take.value, !w_last);
    next_place.next_if(take.value, place + 1);
    firsts.pop(take.value & w_last);
    pass_write_answers(b);
}

fn narrow<'a>(b: &'a Builder<'a>, config: &ShellConfig) {
    let lanes = (config.pcie_data_bits / LANE_BITS) as usize;
    let low = (config.engine_data_bits / 8).trailing_zeros();
    // From the begin of the first beat to the end of the last.
    for channel in ["ar", "aw"] {
        let from = address(b, channel);
        let addr = from.addr.bits(63, low).concat(b.literal(0, low));
        let length = from.len.low_bits(LENGTH_BITS - 1).concat(b.flag(true));
        // A burst of more than 128 beats would cross 4 KiB: the highest bit says nothing.
        send(b, channel, &from, addr, length, b.flag(true));
    }

    // Reads: the lower half waits for the upper.
    let is_upper = b.register_reset("r_is_upper", 1, 0);
    let r_valid = b.input("r_valid", 1);
    let half = data_in(b, "r_data_", config.pcie_data_bits);
    let resp = b.input("r_resp", 2);
    let take = b.forward("r_take", 1);
    let lower_take = (take.value & !is_upper.value).named("r_takes_lower");
    let mut whole: Vec<_> =
        half.iter().enumerate().map(|(lane, value)| value.hold(&format!("r_lower_{lane}"), lower_take)).collect();
    whole.extend(&half);
    // The higher code is the worse answer.
    let lower_resp = resp.hold("r_lower_resp", lower_take);
    let worse = lower_resp.lt(resp).mux(resp, lower_resp);
    let fields =
        with_data(&[("id", b.input("r_id", ID_BITS)), ("resp", worse), ("last", b.input("r_last", 1))], &whole);
    send_beat(b, "whole", "s_r", r_valid & is_upper.value, &fields, b.input("s_rready", 1), |ready| {
        take.drive(r_valid & ready);
        b.output("r_ready", ready);
    });
    is_upper.next_if(take.value, !is_upper.value);

    // Writes: the lower half goes first. Which beat is the last is counted at the other end of the queue.
    let is_upper = b.register_reset("w_is_upper", 1, 0);
    let w_valid = b.input("s_wvalid", 1);
    let _ = b.input("s_wlast", 1);
    let strobes = b.input("s_wstrb", config.engine_data_bits / 8);
    let half_strobes = config.pcie_data_bits / 8;
    let strobes = is_upper.value.mux(strobes.bits(2 * half_strobes - 1, half_strobes), strobes.low_bits(half_strobes));
    let whole = data_in(b, "s_wdata_", config.engine_data_bits);
    let half: Vec<_> = (0..lanes).map(|lane| is_upper.value.mux(whole[lanes + lane], whole[lane])).collect();
    let fields = with_data(&[("strb", strobes)], &half);
    send_beat(b, "half", "w", w_valid, &fields, b.input("w_ready", 1), |ready| {
        b.output("s_wready", ready & is_upper.value);
        is_upper.next_if(w_valid & ready, !is_upper.value);
    });
    pass_write_answers(b);
}
