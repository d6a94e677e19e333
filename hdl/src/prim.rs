//! The thin layer over kaze: named nodes, records, memories, FIFOs. Raw string port names appear here only.
//!
//! kaze repeats the cone of a shared node at every use, checks combinational loops by walking every path, and has no
//! forward wires. This layer therefore exposes every operator node as a module output of its own and describes
//! instances and forward wires as pairs of ports; the generator's canonicaliser turns both back into wires.
//! The names of these ports are its contract with the canonicaliser:
//!
//! | port | meaning |
//! | --- | --- |
//! | output `N000123n_name` | node with a name |
//! | output `N000123u_kind` | node without a name |
//! | input `x__module__instance__port` | value of an instance's output port |
//! | output `y__module__instance__port` | drives an instance's input port |
//! | input `w__name`, output `v__name` | value and driver of a forward wire |

mod builder;
mod cache;
mod count;
mod credit;
mod fifo;
mod free_list;
mod merge;
mod plru;
mod ram;
mod record;
mod ring;
mod rom;
mod scrub;
mod signal;

pub use builder::{Builder, Design, Forward, Instance, Register};
pub use cache::{Cache, CacheKey, CacheShape, LateKey};
pub use count::Count;
pub use credit::Credit;
pub use fifo::{Fifo, FifoPort, fifo_module};
pub use free_list::{FreeList, free_list_module};
pub use merge::Merge;
pub use plru::Plru;
pub use ram::{Ram, RamStyle, Word};
pub use record::{
    Record, bit_range, concat_fields, delay_record, drive_channel, drive_record, hold_record, input_channel,
    mux_record, output_channel, register_record, split_fields, zero_record,
};
pub use ring::{Ring, RingWrite};
pub use rom::Rom;
pub use scrub::{Scrub, scrub};
pub use signal::{Signal, concat, encode_one_hot, or_all, select_by_number, select_first, select_one_hot, select_tree};
