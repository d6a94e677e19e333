//! Credits: a producer may start only what the consumer is sure to have room for.

use super::builder::{Builder, Register};
use super::signal::Signal;

/// A counter of free places. `take` may be set only while `available` is.
pub struct Credit<'a> {
    /// At least one place is free; registered.
    pub available: Signal<'a>,
    /// All places are free; registered.
    pub full: Signal<'a>,
    count: Register<'a>,
    flag: Register<'a>,
    full_flag: Register<'a>,
    places: u32,
}

impl<'a> Credit<'a> {
    /// `places` free places after reset, at least 1.
    #[must_use]
    pub fn new(builder: &'a Builder<'a>, name: &str, places: u32) -> Self {
        let bits = 32 - places.leading_zeros();
        let count = builder.register_reset(&format!("{name}_count"), bits, places.into());
        let flag = builder.register_reset(&format!("{name}_available"), 1, 1);
        let full_flag = builder.register_reset(&format!("{name}_full"), 1, 1);
        Self { available: flag.value, full: full_flag.value, count, flag, full_flag, places }
    }

    /// Drives the counter: one place is taken, and up to two are given back in the same cycle.
    pub fn update(&self, take: Signal<'a>, give: Signal<'a>, give_too: Signal<'a>) {
        let bits = self.count.value.width();
        let minus = take.repeat(bits);
        let with_first = self.count.value + minus + give.resize(bits);
        let next = with_first + give_too.resize(bits);
        self.count.next(next);
        self.flag.next(next.any());
        self.full_flag.next(next.is(self.places.into()));
    }
}
