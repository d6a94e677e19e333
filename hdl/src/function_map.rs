//! The function map: which table set a function uses. A part of the two blocks that take requests, not a block.

use crate::prim::{Builder, Ram, RamStyle, Scrub, Signal, scrub};
use keywalk_contract::Config;

/// A function map. With one table set there is nothing to look up, so there is no memory.
pub struct FunctionMap<'a> {
    /// The map has been scrubbed to table set 0; requests may be taken.
    pub running: Signal<'a>,
    scrub: Scrub<'a>,
    write: Signal<'a>,
    write_function: Signal<'a>,
    write_table_set: Signal<'a>,
}

impl<'a> FunctionMap<'a> {
    /// Declares the inputs `function_map_write_valid`, `function_map_write_function` and
    /// `function_map_write_table_set`, and begins the scrub.
    #[must_use]
    pub fn new(b: &'a Builder<'a>, config: &Config) -> Self {
        let write = b.input("function_map_write_valid", 1);
        let write_function = b.input("function_map_write_function", config.function_bits);
        let write_table_set = b.input("function_map_write_table_set", config.table_set_bits());
        let scrub = scrub(b, "function_map_scrub", config.function_bits, b.flag(false));
        let running = (!scrub.busy).delay_reset("running");
        Self { running, scrub, write, write_function, write_table_set }
    }

    /// Table set of a function, one cycle later. May be asked for once.
    #[must_use]
    pub fn table_set(&self, config: &Config, function: Signal<'a>) -> Signal<'a> {
        let b = function.builder();
        let first = b.literal(0, config.table_set_bits());
        if config.table_sets == 1 {
            return first;
        }
        let words = 1 << config.function_bits;
        let map = Ram::of_words(b, "function_map", words, RamStyle::for_depth(words), config.table_set_bits());
        map.write_word(
            self.scrub.busy.mux(self.scrub.address, self.write_function),
            self.scrub.busy.mux(first, self.write_table_set),
            self.scrub.busy | self.write,
        );
        map.read_word(function, b.flag(true))
    }
}
