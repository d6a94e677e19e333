//! Rotates the bytes of a beat.
//!
//! **Purpose.** Brings data from the alignment of its source to that of its destination: byte `i` goes to place
//! `i + amount`, modulo the bytes of a beat.
//!
//! **Handshake.** None: what goes in comes out; the user delays along what belongs to it.
//!
//! **Latency and throughput.** Two cycles; one beat per cycle.
//!
//! **Timing.** Two registered stages of an 8-way select: by multiples of 8 bytes (4 in a beat of 16 or 32 bytes), then by
//! single bytes.
//!
//! **Reset and flush.** Nothing is reset.
//!
//! **Hazards.** None.
//!
//! **Limits.** None.

use crate::mover_records::Lanes;
use crate::prim::{Builder, Design, Instance, Signal, input_channel, output_channel, select_tree};
use keywalk_contract::Config;

/// Name of the module.
const NAME: &str = "byte_rotator";

/// The block.
pub struct ByteRotator;

impl ByteRotator {
    /// Cycles from the input to the output.
    pub const LATENCY_CYCLES: u32 = 2;

    /// Builds the module `byte_rotator` and gives its name.
    ///
    /// Ports: input `amount`, inputs `in_data_0` and so on, outputs `out_data_0` and so on.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module(NAME);
        let bits = config.mover_byte_bits();
        let fine_bits = bits.div_ceil(2);
        let amount = b.input("amount", bits);
        let data = input_channel(b, "in", Lanes::widths(config));
        // Rotates parts by the number in `select`.
        let rotate = |parts: &[Signal<'a>], select: Signal<'a>| -> Vec<Signal<'a>> {
            let count = parts.len();
            let sources = |place: usize| {
                let source = |distance: usize| parts[(place + count - distance) % count];
                (0..1 << select.width()).map(source).collect::<Vec<_>>()
            };
            (0..count).map(|place| select_tree(select, &sources(place))).collect()
        };
        let coarse = rotate(&data.parts(1 << fine_bits), amount.high_bits(bits - fine_bits));
        let coarse_bytes: Vec<_> = coarse
            .iter()
            .enumerate()
            .flat_map(|(number, part)| {
                let part = part.delay(&format!("coarse_{number}"));
                (0..1u32 << fine_bits).map(move |byte| part.bits(8 * byte + 7, 8 * byte))
            })
            .collect();
        let fine = rotate(&coarse_bytes, amount.low_bits(fine_bits).delay("fine_amount"));
        let out: Vec<_> = Lanes::of_bytes(&fine).0;
        let out = out.iter().enumerate().map(|(number, lane)| lane.delay(&format!("fine_{number}")));
        output_channel(b, "out", Lanes(out.collect()));
        NAME.into()
    }

    /// An instance: the rotated beat two cycles later.
    pub(crate) fn instance<'a>(
        b: &'a Builder<'a>,
        config: &Config,
        amount: Signal<'a>,
        data: &Lanes<Signal<'a>>,
    ) -> Lanes<Signal<'a>> {
        let instance: Instance<'a> = b.instance("rotator", NAME);
        instance.drive("amount", amount);
        crate::prim::drive_channel(&instance, "in", data.clone());
        instance.channel("out", Lanes::widths(config))
    }
}
