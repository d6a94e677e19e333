//! Random waiting.

use rand::{Rng, RngExt};

/// How often, and for how long, a component waits although it could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Chance of a wait in each cycle, of 256.
    chance: u8,
    /// Longest wait in cycles.
    longest_cycles: u16,
}

impl Stall {
    /// Never waits.
    pub const NEVER: Self = Self { chance: 0, longest_cycles: 1 };

    /// Begins a wait of one cycle with that chance in every cycle that is no wait. 100 is taken as just below, so that
    /// everything goes on some time.
    #[must_use]
    pub const fn percent(percent: u8) -> Self {
        let chance = if percent >= 100 { 255 } else { percent as u16 * 256 / 100 };
        Self { chance: chance as u8, longest_cycles: 1 }
    }

    /// The same chance, but each wait takes 1 to `longest_cycles`.
    #[must_use]
    pub const fn up_to(self, longest_cycles: u16) -> Self {
        Self { longest_cycles: if longest_cycles == 0 { 1 } else { longest_cycles }, ..self }
    }
}

/// A [`Stall`] at work.
#[derive(Clone, Debug)]
pub(crate) struct Staller {
    stall: Stall,
    remaining_cycles: u16,
}

impl Staller {
    pub fn new(stall: Stall) -> Self {
        Self { stall, remaining_cycles: 0 }
    }

    /// Whether to wait in this cycle.
    #[inline]
    pub fn waits(&mut self, random: &mut impl Rng) -> bool {
        if self.stall.chance == 0 {
            return false;
        }
        if self.remaining_cycles > 0 {
            self.remaining_cycles -= 1;
            return true;
        }
        let begins = (random.next_u32() as u8) < self.stall.chance;
        if begins && self.stall.longest_cycles > 1 {
            self.remaining_cycles = random.random_range(0..self.stall.longest_cycles);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn waits(stall: Stall) -> usize {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut staller = Staller::new(stall);
        (0..10_000).filter(|_| staller.waits(&mut random)).count()
    }

    #[test]
    fn the_chance_decides_how_often_it_waits() {
        assert_eq!(waits(Stall::NEVER), 0);
        assert!((2300..2700).contains(&waits(Stall::percent(25))));
        let nearly_always = waits(Stall::percent(100));
        assert!(nearly_always < 10_000 && nearly_always > 9_900);
    }

    #[test]
    fn long_waits_make_it_wait_more() {
        assert!(waits(Stall::percent(10).up_to(20)) > 2 * waits(Stall::percent(10)));
    }
}
