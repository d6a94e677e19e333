//! Counts that go up and down by one.

use super::builder::{Builder, Register};
use super::signal::Signal;

/// A count of things under way. The owner sees to it that it does not leave its range.
pub struct Count<'a> {
    register: Register<'a>,
}

impl<'a> Count<'a> {
    /// A count of `bits` bits, 0 after reset; up and down in one cycle leave it as it is.
    #[must_use]
    pub fn new(b: &'a Builder<'a>, name: &str, bits: u32, up: Signal<'a>, down: Signal<'a>) -> Self {
        let register = b.register_reset(name, bits, 0);
        // One adder: plus one, minus one or nothing.
        let minus = down & !up;
        let changes = up ^ down;
        let step = if bits == 1 { changes } else { minus.repeat(bits - 1).concat(changes) };
        register.next(register.value + step);
        Self { register }
    }

    /// The count, a register.
    #[must_use]
    pub fn value(&self) -> Signal<'a> {
        self.register.value
    }
}
