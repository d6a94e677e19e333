//! Tree pseudo-LRU: one bit per inner node of the tree over the ways, each in a memory of its own that is only ever
//! written, never read and modified, so that a use costs one write.

use super::builder::Builder;
use super::ram::{Ram, RamStyle, Word};
use super::signal::{Signal, concat};

/// Replacement state of a set-associative cache.
pub struct Plru<'a> {
    builder: &'a Builder<'a>,
    nodes: Vec<Ram<'a, Word<u32>>>,
    ways: u32,
}

impl<'a> Plru<'a> {
    /// State for `sets` sets of `ways` ways, both powers of two.
    #[must_use]
    pub fn new(builder: &'a Builder<'a>, name: &str, sets: u32, ways: u32) -> Self {
        let nodes = (0..ways - 1)
            .map(|node| Ram::of_words(builder, &format!("{name}_node_{node}"), sets, RamStyle::for_depth(sets), 1))
            .collect();
        Self { builder, nodes, ways }
    }

    /// The way to replace in `set`, one cycle later. Node 0 is the root, node `n` has children `2n + 1` and `2n + 2`; a
    /// set bit points to the right half. The words need no scrub: any value is a legal state.
    #[must_use]
    pub fn victim(&self, set: Signal<'a>) -> Signal<'a> {
        let builder = self.builder;
        if self.ways == 1 {
            return builder.literal(0, 1);
        }
        let bits: Vec<_> = self.nodes.iter().map(|node| node.read_word(set, builder.flag(true))).collect();
        self.descend(&bits, 0)
    }

    fn descend(&self, bits: &[Signal<'a>], node: usize) -> Signal<'a> {
        let bit = bits[node];
        let left = 2 * node + 1;
        if left >= bits.len() {
            return bit;
        }
        concat(&[bit, bit.mux(self.descend(bits, left + 1), self.descend(bits, left))])
    }

    /// Drives the memories: `way` of `set` was used where `enable` is set. Every node on its path points away from it.
    pub fn touch(&self, set: Signal<'a>, way: Signal<'a>, enable: Signal<'a>) {
        let levels = self.ways.trailing_zeros();
        for level in 0..levels {
            for position in 0..1u32 << level {
                let node = ((1 << level) - 1 + position) as usize;
                let direction = way.bit(levels - 1 - level);
                let on_path = if level == 0 { enable } else { enable & way.high_bits(level).is(position.into()) };
                self.nodes[node].write_word(set, !direction, on_path);
            }
        }
    }
}
