//! What several block tests share.

use std::collections::BTreeMap;

/// Replacement state of a set-associative cache, in plain data: a binary tree for each set, in which a use turns every
/// node on the way's path away from it. A use is known some cycles after it was made.
pub struct Replacement {
    ways: usize,
    /// Node 0 is the root, node `n` has children `2n + 1` and `2n + 2`; a set one points right. What they begin with makes
    /// no difference where all ways begin empty and all are filled before one is replaced.
    nodes: Vec<Vec<bool>>,
    /// Uses by the cycle from which they are known; there is one at most.
    uses: BTreeMap<u64, (usize, usize)>,
}

impl Replacement {
    /// State of `sets` sets of `ways` ways.
    pub fn new(sets: usize, ways: usize) -> Self {
        Self { ways, nodes: vec![vec![false; ways - 1]; sets], uses: BTreeMap::new() }
    }

    /// A lookup found `way`, known from `cycle` on. It takes the place of a fill that is known from the same cycle on.
    pub fn found(&mut self, cycle: u64, set: usize, way: usize) {
        self.uses.insert(cycle, (set, way));
    }

    /// `way` was filled, known from `cycle` on, unless a lookup found something at the same time.
    pub fn filled(&mut self, cycle: u64, set: usize, way: usize) {
        self.uses.entry(cycle).or_insert((set, way));
    }

    /// The way that a fill in `cycle` replaces.
    pub fn victim(&mut self, cycle: u64, set: usize) -> usize {
        while let Some(first) = self.uses.first_entry()
            && *first.key() <= cycle
        {
            let (set, way) = first.remove();
            let mut node = 0;
            for level in (0..self.ways.trailing_zeros()).rev() {
                let is_right = way >> level & 1;
                self.nodes[set][node] = is_right == 0;
                node = 2 * node + 1 + is_right;
            }
        }
        let (mut node, mut way) = (0, 0);
        while node < self.nodes[set].len() {
            let goes_right = usize::from(self.nodes[set][node]);
            way = 2 * way + goes_right;
            node = 2 * node + 1 + goes_right;
        }
        way
    }
}
