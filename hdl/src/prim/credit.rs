//! Credits: a producer may start only what the consumer is sure to have room for.

use super::builder::{Builder, Register};
use super::signal::Signal;

/// A counter of free places. `take` may be set only while `available` is.
///
/// `available` is decided on the count of the cycle before, so that no counter stands in front of it: two places must have
/// been free then, since one may have been taken meanwhile. So a single place that stays free is not offered.
pub struct Credit<'a> {
    /// A place is free for sure; registered. Rises two cycles after a place was given back.
    pub available: Signal<'a>,
    /// What `available` will be in the next cycle.
    pub next_available: Signal<'a>,
    /// All places are free; registered. Falls in the cycle after a place was taken, rises two cycles after the last one was
    /// given back.
    pub full: Signal<'a>,
    count: Register<'a>,
    full_flag: Register<'a>,
    places: u32,
}

impl<'a> Credit<'a> {
    /// `places` free places after reset.
    ///
    /// # Panics
    /// When there are fewer than 2: none would ever be offered.
    #[must_use]
    pub fn new(builder: &'a Builder<'a>, name: &str, places: u32) -> Self {
        Self::told_late(builder, name, places, 0)
    }

    /// A credit whose `take` comes that many cycles after the place was used, to keep a long path out of the count.
    /// `available` leaves as many places more in reserve.
    ///
    /// # Panics
    /// When there are fewer than 2 places besides.
    #[must_use]
    pub fn told_late(builder: &'a Builder<'a>, name: &str, places: u32, cycles: u32) -> Self {
        assert!(places >= 2 + cycles, "a credit of {places} places");
        let bits = 32 - places.leading_zeros();
        let count = builder.register_reset(&format!("{name}_count"), bits, places.into());
        let flag = builder.register_reset(&format!("{name}_available"), 1, 1);
        let full_flag = builder.register_reset(&format!("{name}_full"), 1, 1);
        let next_available = count.value.ge(builder.literal((2 + cycles).into(), bits));
        flag.next(next_available);
        Self { available: flag.value, next_available, full: full_flag.value, count, full_flag, places }
    }

    /// Drives the counter: one place is taken, and up to two are given back in the same cycle.
    pub fn update(&self, take: Signal<'a>, give: Signal<'a>, give_too: Signal<'a>) {
        let bits = self.count.value.width();
        let minus = take.repeat(bits);
        let with_first = self.count.value + minus + give.resize(bits);
        self.count.next(with_first + give_too.resize(bits));
        self.full_flag.next(self.count.value.is(self.places.into()) & !take);
    }
}
