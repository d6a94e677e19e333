//! Replacement state of a set-associative cache that learns of uses as late as the caches do.

use std::collections::BTreeMap;

/// Tree pseudo-LRU. What the trees begin with makes no difference, since all ways begin empty.
pub struct Plru {
    ways: usize,
    nodes: Vec<Vec<bool>>,
    /// Updates by the cycle in which they are made; there is one at most. Set and way.
    uses: BTreeMap<u64, (usize, usize)>,
}

impl Plru {
    pub fn new(sets: u32, ways: u32) -> Self {
        let ways = ways as usize;
        Self { ways, nodes: vec![vec![false; ways - 1]; sets as usize], uses: BTreeMap::new() }
    }

    /// A lookup's use. It replaces that of a fill which is noted in the same cycle.
    pub fn note_hit(&mut self, cycle: u64, set: usize, way: usize) {
        self.uses.insert(cycle, (set, way));
    }

    /// A fill's use.
    pub fn note_fill(&mut self, cycle: u64, set: usize, way: usize) {
        self.uses.entry(cycle).or_insert((set, way));
    }

    /// Way to be replaced, as chosen in that cycle: of what is noted in earlier cycles.
    pub fn victim(&mut self, cycle: u64, set: usize) -> usize {
        while let Some(first) = self.uses.first_entry()
            && *first.key() < cycle
        {
            let (set, way) = first.remove();
            self.point_away(set, way);
        }
        let mut node = 0;
        let mut way = 0;
        while node < self.ways - 1 {
            let goes_right = usize::from(self.nodes[set][node]);
            way = 2 * way + goes_right;
            node = 2 * node + 1 + goes_right;
        }
        way
    }

    /// Every node on the path to the way points away from it.
    fn point_away(&mut self, set: usize, way: usize) {
        let mut node = 0;
        for level in (0..self.ways.trailing_zeros()).rev() {
            let is_right = way >> level & 1;
            self.nodes[set][node] = is_right == 0;
            node = 2 * node + 1 + is_right;
        }
    }
}
