//! Memories of any width: synchronous read-first reads, one write port.

use super::builder::Builder;
use super::record::{Record, concat_fields, split_fields};
use super::signal::Signal;

/// What a memory is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RamStyle {
    /// Block RAM.
    Block,
    /// LUT RAM.
    Distributed,
}

impl RamStyle {
    /// The style that suits a depth: LUT RAM up to 64 words, block RAM above.
    #[must_use]
    pub fn for_depth(words: u32) -> Self {
        if words <= 64 { Self::Distributed } else { Self::Block }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Distributed => "distributed",
        }
    }
}

/// A memory that holds one record per word, cut into lanes of at most 128 bits.
pub struct Ram<'a, R: Record<u32>> {
    widths: R,
    lanes: Vec<&'a kaze::Mem<'a>>,
    address_bits: u32,
}

impl<'a, R: Record<u32>> Ram<'a, R> {
    /// A memory of `words` words, a power of two of at least 2.
    ///
    /// # Panics
    /// When `words` is not a power of two of at least 2.
    #[must_use]
    pub fn new(builder: &'a Builder<'a>, name: &str, words: u32, style: RamStyle, widths: R) -> Self {
        assert!(words >= 2 && words.is_power_of_two(), "memory {name} of {words} words");
        let address_bits = words.trailing_zeros();
        let total: u32 = widths.clone().list().iter().map(|(_, width)| width).sum();
        let count = total.div_ceil(128);
        let lanes = (0..count)
            .map(|lane| {
                let width = if lane + 1 == count { total - 128 * lane } else { 128 };
                let lane_name = if count == 1 {
                    format!("{name}__{}", style.suffix())
                } else {
                    format!("{name}_{lane}__{}", style.suffix())
                };
                builder.memory(&lane_name, address_bits, width)
            })
            .collect();
        Self { widths, lanes, address_bits }
    }

    /// The word at `address` in the cycle after `enable`; it stays until the next enabled read. A write in the same
    /// cycle is not seen.
    #[must_use]
    pub fn read(&self, address: Signal<'a>, enable: Signal<'a>) -> R::With<Signal<'a>> {
        assert_eq!(address.width(), self.address_bits, "address width");
        let builder = address.builder();
        let lanes: Vec<_> = self
            .lanes
            .iter()
            .map(|lane| Signal { builder, node: lane.read_port(address.node, enable.node), literal: None })
            .collect();
        let widths: Vec<u32> = self.widths.clone().list().iter().map(|(_, width)| *width).collect();
        let mut fields = split_fields(&lanes, &widths).into_iter();
        self.widths.clone().map(&mut |_, _| fields.next().expect("one signal per field"))
    }

    /// Drives the only write port.
    pub fn write(&self, address: Signal<'a>, value: R::With<Signal<'a>>, enable: Signal<'a>)
    where
        R::With<Signal<'a>>: Record<Signal<'a>>,
    {
        assert_eq!(address.width(), self.address_bits, "address width");
        let signals: Vec<_> = value.list().into_iter().map(|(_, signal)| signal).collect();
        for (lane, signal) in self.lanes.iter().zip(concat_fields(&signals)) {
            lane.write_port(address.node, signal.node, enable.node);
        }
    }
}

crate::record! {
    /// A record of one field, for memories of plain words.
    pub struct Word(_config) {
        /// The word.
        value: 1,
    }
}

impl<'a> Ram<'a, Word<u32>> {
    /// A memory of plain words of `width` bits.
    #[must_use]
    pub fn of_words(builder: &'a Builder<'a>, name: &str, words: u32, style: RamStyle, width: u32) -> Self {
        Self::new(builder, name, words, style, Word { value: width })
    }

    /// [`Ram::read`] of a plain word.
    #[must_use]
    pub fn read_word(&self, address: Signal<'a>, enable: Signal<'a>) -> Signal<'a> {
        self.read(address, enable).value
    }

    /// [`Ram::write`] of a plain word.
    pub fn write_word(&self, address: Signal<'a>, value: Signal<'a>, enable: Signal<'a>) {
        self.write(address, Word { value }, enable);
    }
}
