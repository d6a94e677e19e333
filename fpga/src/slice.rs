//! A register slice of two entries, part of the blocks of the shell: valid, payload and ready are all registers.

use keywalk_hdl::prim::{Builder, Signal};

/// Outputs of a slice.
pub(crate) struct Slice<'a> {
    /// An entry can be taken: a register.
    pub ready: Signal<'a>,
    /// An entry is taken.
    pub take: Signal<'a>,
    /// An entry is offered: a register.
    pub valid: Signal<'a>,
    /// The entry's fields, in the order in which they were given: registers.
    pub payload: Vec<Signal<'a>>,
}

/// A slice. An entry is taken where `in_valid` and `ready` are set, and leaves where `valid` and `out_ready` are. One
/// entry per cycle.
pub(crate) fn slice<'a>(
    b: &'a Builder<'a>,
    name: &str,
    in_valid: Signal<'a>,
    fields: &[(&str, Signal<'a>)],
    out_ready: Signal<'a>,
) -> Slice<'a> {
    let valid = b.register_reset(&format!("{name}_offered"), 1, 0);
    let spare = b.register_reset(&format!("{name}_spare"), 1, 0);
    let ready = !spare.value;
    let take = (in_valid & ready).named(&format!("{name}_take"));
    let moves = (out_ready | !valid.value).named(&format!("{name}_moves"));
    valid.next_if(moves, spare.value | take);
    spare.next(!moves & (spare.value | take));
    let payload = fields
        .iter()
        .map(|(field, signal)| {
            let kept = signal.hold(&format!("{name}_spare_{field}"), ready);
            spare.value.mux(kept, *signal).hold(&format!("{name}_offered_{field}"), moves)
        })
        .collect();
    Slice { ready, take, valid: valid.value, payload }
}
