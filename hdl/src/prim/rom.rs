//! Memories with fixed contents.

use super::builder::Builder;
use super::signal::Signal;

/// A memory that is only read, synchronously.
pub struct Rom<'a> {
    memory: &'a kaze::Mem<'a>,
}

impl<'a> Rom<'a> {
    /// A memory of `2^address_bits` words of at most 128 bits: the given ones, and zeros behind them.
    ///
    /// # Panics
    /// When there are more words than places.
    #[must_use]
    pub fn new(builder: &'a Builder<'a>, name: &str, address_bits: u32, width: u32, words: &[u128]) -> Self {
        let places = 1usize << address_bits;
        assert!(words.len() <= places, "memory {name} of {places} words shall hold {}", words.len());
        let memory = builder.memory(&format!("{name}__block"), address_bits, width);
        let words: Vec<u128> = words.iter().copied().chain(std::iter::repeat(0)).take(places).collect();
        memory.initial_contents(&words);
        Self { memory }
    }

    /// The word at `address`, one cycle later.
    #[must_use]
    pub fn read(&self, address: Signal<'a>) -> Signal<'a> {
        let builder = address.builder();
        let enable = builder.flag(true);
        Signal { builder, node: self.memory.read_port(address.node, enable.node), literal: None }
    }
}
