//! Puts the engine's table port and the data mover's memory port onto the shell's one.
//!
//! # Purpose
//! Two AXI4 masters share a slave: `tbl`, which reads and writes lines of tables, and `dma`, which moves data in bursts.
//! The top bit of an identifier behind it says whose it is; answers find back by it.
//!
//! # Handshake
//! AXI4 on all three ports. Of `dma`, whose identifiers are always 0, only the answers' order is kept. Addresses of reads, and
//! those of writes, are taken in turn where both masters offer one, so that each waits for at most one address of the other.
//! Data of writes follow in the order in which their addresses were taken: one master at a time has the channel, until its
//! last beat. Every output is a register; ready outputs depend on registers alone.
//!
//! # Latency and throughput
//! Two cycles for an address, one for a beat of data or an answer, two more for the data of the first write. One address of
//! each kind, one beat in each direction and one answer per cycle.
//!
//! # Timing
//! A select of two in front of registers.
//!
//! # Reset and flush
//! Reset together with both masters and the shell's side of them; no burst may be open then.
//!
//! # Hazards
//! An answer that its master does not take holds up those of the other master behind two beats of room. Neither does that for
//! long: the engine always takes what it asked for, and the mover has room for every beat before it asks, and pauses for a
//! cycle between packets. A master must offer the data of a write whose address was taken without waiting for the other
//! master; the mover offers an address only with its data there, the engine both at once.
//!
//! # Limits
//! 16 writes whose data have not ended.

use crate::config::{ID_BITS, TABLE_ID_BITS};
use crate::slice::{Slice, slice};
use keywalk_hdl::prim::{Builder, Design, Fifo, Signal, Word};

/// Name of the module.
pub const NAME: &str = "memory_arbiter";
/// Writes whose data have not ended.
const WRITES: u32 = 16;
/// Bits of the length of a burst, in beats - 1.
const LENGTH_BITS: u32 = 8;
/// Bits of a lane of data.
const LANE_BITS: u32 = 128;

/// Builds the block for ports of that many bits of data; gives its name.
pub fn build(design: &Design<'_>, data_bits: u32) -> String {
    let b = design.module(NAME);
    let lanes = data_bits / LANE_BITS;

    addresses(b, "ar", b.flag(true));
    let (grants, grant) = Fifo::new(design, b, "grants", WRITES, Word { value: 1 });
    let (take, of_mover) = addresses(b, "aw", grant.in_ready);
    grants.push(take, Word { value: of_mover });

    // Data of writes: of whoever's turn it is.
    let of_mover = grant.out.value;
    let either = |signal: &str, width| {
        let [table, mover] = ["tbl", "dma"].map(|master| b.input(&format!("{master}_w{signal}"), width));
        of_mover.mux(mover, table)
    };
    let last = either("last", 1).named("w_last");
    let mut fields = vec![("strb".to_owned(), either("strb", data_bits / 8)), ("last".into(), last)];
    fields.extend((0..lanes).map(|lane| {
        let name = format!("data_{lane}");
        let data = either(&name, LANE_BITS);
        (name, data)
    }));
    let offered = grant.out_valid & either("valid", 1);
    let data = pass(b, "mem_w", offered, &fields, b.input("mem_wready", 1));
    b.output("tbl_wready", grant.out_valid & !of_mover & data.ready);
    b.output("dma_wready", grant.out_valid & of_mover & data.ready);
    grants.pop(data.take & last);

    // Answers.
    let data: Vec<_> = (0..lanes).map(|lane| format!("data_{lane}")).collect();
    let mut fields = vec![("resp", 2), ("last", 1)];
    fields.extend(data.iter().map(|name| (name.as_str(), LANE_BITS)));
    answers(b, "r", &fields);
    answers(b, "b", &[("resp", 2)]);
    b.name().to_owned()
}

/// A slice whose outputs are the ports `<port><field>`; its ready and what is taken.
fn pass<'a>(
    b: &'a Builder<'a>,
    port: &str,
    valid: Signal<'a>,
    fields: &[(String, Signal<'a>)],
    ready: Signal<'a>,
) -> Slice<'a> {
    let named: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let slice = slice(b, port, valid, &named, ready);
    b.output(&format!("{port}valid"), slice.valid);
    for ((name, _), value) in named.iter().zip(&slice.payload) {
        b.output(&format!("{port}{name}"), *value);
    }
    slice
}

/// Takes addresses of either master in turn, where `may` is set, which depends on registers alone. Gives when one is taken, and
/// whether it is the mover's.
fn addresses<'a>(b: &'a Builder<'a>, channel: &str, may: Signal<'a>) -> (Signal<'a>, Signal<'a>) {
    let enter = |master: &str, id: Signal<'a>| {
        let port = format!("{master}_{channel}");
        let moves = b.forward(&format!("{port}_moves"), 1);
        let fields = [
            ("id", id),
            ("addr", b.input(&format!("{port}addr"), 64)),
            ("len", b.input(&format!("{port}len"), LENGTH_BITS)),
        ];
        let entered = slice(b, &port, b.input(&format!("{port}valid"), 1), &fields, moves.value);
        b.output(&format!("{port}ready"), entered.ready);
        (entered, moves)
    };
    let (table, table_moves) = enter("tbl", b.input(&format!("tbl_{channel}id"), TABLE_ID_BITS));
    let (mover, mover_moves) = enter("dma", b.literal(0, TABLE_ID_BITS));
    let is_movers_turn = b.register_reset(&format!("{channel}_is_movers_turn"), 1, 0);
    let of_mover = (mover.valid & (is_movers_turn.value | !table.valid)).named(&format!("{channel}_of_mover"));
    let mut payload = table.payload.iter().zip(&mover.payload).map(|(table, mover)| of_mover.mux(*mover, *table));
    let mut next = || payload.next().expect("there are three fields");
    let (id, addr, len) = (next(), next(), next());
    let fields = [("id".to_owned(), of_mover.concat(id)), ("addr".to_owned(), addr), ("len".to_owned(), len)];
    let port = format!("mem_{channel}");
    let ready = b.input(&format!("{port}ready"), 1);
    let sent = pass(b, &port, (table.valid | mover.valid) & may, &fields, ready);
    let moves = (sent.ready & may).named(&format!("{channel}_moves"));
    table_moves.drive(moves & !of_mover);
    mover_moves.drive(moves & of_mover);
    is_movers_turn.next_if(sent.take, !of_mover);
    (sent.take, of_mover)
}

/// Gives the answers of channel `mem_<channel>` to whom they belong to. Both masters' registers must have room, so that ready
/// does not depend on the identifier.
fn answers<'a>(b: &'a Builder<'a>, channel: &str, fields: &[(&str, u32)]) {
    let valid = b.input(&format!("mem_{channel}valid"), 1);
    let id = b.input(&format!("mem_{channel}id"), ID_BITS);
    let of_mover = id.bit(TABLE_ID_BITS);
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, width)| ((*name).to_owned(), b.input(&format!("mem_{channel}{name}"), *width)))
        .collect();
    let leave = |master: &str, mine: Signal<'a>, with_id: bool| {
        let port = format!("{master}_{channel}");
        let room = b.forward(&format!("{port}_other_has_room"), 1);
        let mut fields = fields.clone();
        if with_id {
            fields.insert(0, ("id".into(), id.low_bits(TABLE_ID_BITS)));
        }
        let ready = b.input(&format!("{port}ready"), 1);
        (pass(b, &port, valid & mine & room.value, &fields, ready), room)
    };
    let (table, mover_has_room) = leave("tbl", !of_mover, true);
    let (mover, table_has_room) = leave("dma", of_mover, false);
    mover_has_room.drive(mover.ready);
    table_has_room.drive(table.ready);
    b.output(&format!("mem_{channel}ready"), table.ready & mover.ready);
}
