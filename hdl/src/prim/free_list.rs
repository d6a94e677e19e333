//! Free lists: queues of numbers that are filled with every number after reset.
//!
//! Handshake: `take_valid` and `take_number` are registered and hold until `take`. A number that was given back may be
//! taken two cycles later. There is always room to give a number back. Reset: refilled, one number per cycle; `ready`
//! rises when that is done, and numbers may be taken before.

use super::builder::{Builder, Design, Instance};
use super::fifo::fifo_module;
use super::scrub::scrub;
use super::signal::Signal;

/// Builds (once per design) the module for numbers of `bits` bits; gives its name.
pub fn free_list_module(design: &Design<'_>, bits: u32) -> String {
    let name = format!("free_list_{}", 1u32 << bits);
    if design.has(&name) {
        return name;
    }
    let fifo = fifo_module(design, bits, 1 << bits);
    let b = design.module(&name);
    let give = b.input("give", 1);
    let give_number = b.input("give_number", bits);
    let take = b.input("take", 1);
    let fill = scrub(b, "fill", bits, b.flag(false));
    let queue = b.instance("queue", &fifo);
    queue.drive("in_valid", fill.busy | give);
    queue.drive("in_data_0", fill.busy.mux(fill.address, give_number));
    queue.drive("out_ready", take);
    b.output("ready", !fill.busy);
    b.output("take_valid", queue.output("out_valid", 1));
    b.output("take_number", queue.output("out_data_0", bits));
    name
}

/// An instance of a free list.
pub struct FreeList<'a> {
    instance: Instance<'a>,
    /// Every number has been entered.
    pub ready: Signal<'a>,
    /// A number is free.
    pub valid: Signal<'a>,
    /// The number.
    pub number: Signal<'a>,
}

impl<'a> FreeList<'a> {
    /// A free list of `2^bits` numbers.
    pub fn new(design: &Design<'_>, builder: &'a Builder<'a>, name: &str, bits: u32) -> Self {
        let instance = builder.instance(name, &free_list_module(design, bits));
        Self {
            ready: instance.output("ready", 1),
            valid: instance.output("take_valid", 1),
            number: instance.output("take_number", bits),
            instance,
        }
    }

    /// Takes the offered number where `take` and `valid` are set.
    pub fn take(&self, take: Signal<'a>) {
        self.instance.drive("take", take);
    }

    /// Gives a number back. Not before `ready`.
    pub fn give(&self, give: Signal<'a>, number: Signal<'a>) {
        self.instance.drive("give", give);
        self.instance.drive("give_number", number);
    }
}
