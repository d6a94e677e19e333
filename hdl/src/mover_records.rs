//! Records that travel between the blocks of the data mover, and the bytes of its beats.

use crate::prim::{Record, Signal, concat};
use crate::record;
use keywalk_contract::mover::MOVER_STATUS_BITS;
use keywalk_contract::{Config, MoverStatus, status};

/// Prefix of the ports that belong to AXI4 channels.
pub const MEMORY_PREFIX: &str = "mem_";

/// What is to be done for a request. The discriminant is the code within the mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: a bind or an unknown operation.
    Nothing = 0,
    /// Memory is read.
    Read = 1,
    /// Memory is written.
    Write = 2,
    /// Eight bytes are read, and written if the operands say so.
    Atomic = 3,
}

/// Bits of a [`Kind`].
pub const KIND_BITS: u32 = 2;

impl Kind {
    /// Whether a signal is this kind's code.
    #[must_use]
    pub fn of(self, code: Signal<'_>) -> Signal<'_> {
        code.is(self as u128)
    }
}

/// Whether a signal is this status's code.
#[must_use]
pub fn is_status(status: MoverStatus, code: Signal<'_>) -> Signal<'_> {
    code.is(status.code().into())
}

/// A status as a signal of the width of `like`.
#[must_use]
pub fn status_like<'a>(status: MoverStatus, like: Signal<'a>) -> Signal<'a> {
    like.builder().literal(status.code().into(), like.width())
}

record! {
    /// Bytes of a response that lie side by side, or the end of one without any.
    pub struct MoverSegment(config) {
        /// [`Kind`].
        kind: KIND_BITS,
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
        /// [`MoverStatus`] as far as it is known.
        status: MOVER_STATUS_BITS,
        /// The response's own status.
        refusal: status::STATUS_BITS,
        /// Last segment of the response.
        last: 1,
        /// There are no bytes; `last` is set then.
        is_empty: 1,
        /// Bus address of the first byte.
        pa: 64,
        /// Bytes less one.
        extent: 32,
    }
}

record! {
    /// A burst on the bus, or the end of a response without bytes.
    pub struct MoverBurst(config) {
        /// As in the segment.
        kind: KIND_BITS,
        /// As in the segment.
        tag: config.tag_bits,
        /// As in the segment.
        function: config.function_bits,
        /// As in the segment.
        status: MOVER_STATUS_BITS,
        /// As in the segment.
        refusal: status::STATUS_BITS,
        /// Last burst of the response.
        last: 1,
        /// There are no bytes.
        is_empty: 1,
        /// Bus address of the first beat, in beats.
        beat: 64 - config.mover_byte_bits(),
        /// Number of the first byte within the first beat.
        first_byte: config.mover_byte_bits(),
        /// Number of the last byte within the last beat.
        last_byte: config.mover_byte_bits(),
        /// Beats less one.
        beats: config.mover_burst_bits(),
    }
}

record! {
    /// What is known of a response when its DMA has ended.
    pub struct MoverOutcome(config) {
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
        /// [`MoverStatus`].
        status: MOVER_STATUS_BITS,
        /// The response's own status.
        refusal: status::STATUS_BITS,
    }
}

record! {
    /// An atomic whose read is about to be issued.
    pub struct AtomicStart(config) {
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
        /// [`MoverStatus`] as far as it is known.
        status: MOVER_STATUS_BITS,
        /// The response's own status.
        refusal: status::STATUS_BITS,
        /// There is nothing to be read.
        is_empty: 1,
        /// Bus address in 8 bytes.
        word: 61,
    }
}

record! {
    /// What an atomic writes.
    pub struct AtomicWrite(config) {
        /// The response's tag.
        tag: config.tag_bits,
        /// The response's function.
        function: config.function_bits,
        /// [`MoverStatus`] as far as it is known.
        status: MOVER_STATUS_BITS,
        /// The response's own status.
        refusal: status::STATUS_BITS,
        /// Nothing is written.
        is_empty: 1,
        /// Bus address in 8 bytes.
        word: 61,
        /// The new value.
        value: 64,
    }
}

/// The data of a beat in lanes of 128 bits, byte 0 lowest: fields `data_0` and so on.
#[derive(Clone, Debug)]
pub struct Lanes<T>(pub Vec<T>);

const LANE_NAMES: [&str; 4] = ["data_0", "data_1", "data_2", "data_3"];
/// Bytes of a lane.
const LANE_BYTES: usize = 16;

impl<T: Clone> Record<T> for Lanes<T> {
    type With<U: Clone> = Lanes<U>;

    fn map<U: Clone>(self, function: &mut dyn FnMut(&'static str, T) -> U) -> Lanes<U> {
        Lanes(LANE_NAMES.into_iter().zip(self.0).map(|(name, lane)| function(name, lane)).collect())
    }

    fn list(self) -> Vec<(&'static str, T)> {
        LANE_NAMES.into_iter().zip(self.0).collect()
    }
}

impl Lanes<u32> {
    /// Widths of the lanes.
    #[must_use]
    pub fn widths(config: &Config) -> Self {
        Self(vec![128; config.mover_lanes() as usize])
    }
}

impl<'a> Lanes<Signal<'a>> {
    /// The lanes of bytes, byte 0 first.
    #[must_use]
    pub fn of_bytes(bytes: &[Signal<'a>]) -> Self {
        Self(bytes.chunks(LANE_BYTES).map(join).collect())
    }

    /// The bytes, byte 0 first.
    #[must_use]
    pub fn bytes(&self) -> Vec<Signal<'a>> {
        self.parts(1)
    }

    /// Parts of that many bytes each, the lowest first.
    #[must_use]
    pub fn parts(&self, bytes: u32) -> Vec<Signal<'a>> {
        let bits = 8 * bytes;
        let of_lane = |lane: &Signal<'a>| {
            let lane = *lane;
            (0..128 / bits).map(move |part| lane.bits(bits * part + bits - 1, bits * part))
        };
        self.0.iter().flat_map(of_lane).collect()
    }

    /// Byte by byte, that of `self` where the flag is set, else that of `other`.
    #[must_use]
    pub fn merge(&self, flags: &[Signal<'a>], other: &Self) -> Self {
        let bytes = self.bytes().into_iter().zip(other.bytes()).zip(flags);
        let merged: Vec<_> = bytes.map(|((own, other), flag)| flag.mux(own, other)).collect();
        Self::of_bytes(&merged)
    }
}

/// Signals side by side, the first one lowest.
#[must_use]
pub fn join<'a>(signals: &[Signal<'a>]) -> Signal<'a> {
    let reversed: Vec<_> = signals.iter().rev().copied().collect();
    concat(&reversed)
}

/// A flag for each byte of a beat: whether its number is below `count`.
#[must_use]
pub fn below<'a>(config: &Config, count: Signal<'a>) -> Vec<Signal<'a>> {
    let b = count.builder();
    (0..u128::from(config.mover_beat_bytes())).map(|byte| b.literal(byte, count.width()).lt(count)).collect()
}
