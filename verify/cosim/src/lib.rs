//! Generated Verilog under Verilator, driven from Rust.
//!
//! The build script generates the engine in each configuration that is tested, compiles it and, for this crate's
//! tests, each of its blocks into a model, and lists them in [`dut`]. A [`Bench`] holds a [`Model`] and components that
//! drive and watch its ports: [`StreamDriver`], [`StreamSink`], [`MemoryResponder`], [`ReadRules`], [`WriteRules`],
//! [`AxiLite`]. [`BusMemory`] is the memory of the data mover. [`Engine`] is the ready-made bench of the whole engine, [`Card`]
//! that of engine, data mover and shell in two clocks.
//!
//! The test of a block looks like this:
//!
//! ```
//! use keywalk_cosim::{Bench, Error, Stall, dut};
//!
//! fn main() -> Result<(), Error> {
//! # #[cfg(feature = "block-tests")] {
//!     let mut bench = Bench::new(&dut::STREAM_REGISTER, 1);
//!     // Ports in_valid, in_ready, in_data; a quarter of the cycles idle; random data while valid is low.
//!     let input = bench.driver("in", Stall::percent(25))?;
//!     // Ports out_valid, out_ready, out_data. The sink checks on every cycle that the design keeps the handshake.
//!     let output = bench.sink("out", Stall::percent(50).up_to(5))?;
//!     bench.reset(4)?;
//!     for value in 0..100 {
//!         bench[input].push_fields(&[("data", value)])?;
//!     }
//!     bench.run_until("100 beats", 2_000, |bench| bench[output].len() == 100)?;
//!     for value in 0..100 {
//!         let received = bench[output].pop().expect("there are 100 beats");
//!         assert_eq!(received.get("data")?, value);
//!     }
//!     // Ports that belong to no channel.
//!     let out_valid = bench.model().output("out_valid")?;
//!     bench.cycle()?;
//!     assert_eq!(bench.model().get(out_valid), 0);
//! # }
//!     Ok(())
//! }
//! ```

pub mod bits;
pub mod dut;
pub mod mutant;

mod axi_lite;
mod axi_read;
mod axi_write;
mod bench;
mod bus_memory;
mod card;
mod channel;
mod engine;
mod error;
mod memory;
mod model;
mod raw;
mod stall;
mod stream;
mod two_clocks;

pub use axi_lite::{AxiLite, LiteAccess, LiteResult};
pub use axi_read::{ReadPort, ReadRules};
pub use axi_write::{WritePort, WriteRecord, WriteRules};
pub use bench::{Bench, Component, Handle};
pub use bus_memory::{BusMemory, BusOptions, ByteMemory, FAULT_BYTES, data_of, set_data};
pub use card::{Card, CardOptions, Transfer};
pub use channel::{Beat, Channel, Field, Shape};
pub use dut::Dut;
pub use engine::{
    BufferWalk, Completion, ContextAnswer, ContextLookup, Controls, Engine, EngineOptions, FaultEvent,
    FunctionCounters, Invalidation, MailboxState, Request, Response, Segment, Setup, TableGeometry, TableSet,
    WorkAnswer, WorkRequest,
};
pub use error::{Error, Rule, Violation};
pub use memory::{LineMemory, MemoryOptions, MemoryResponder, ReadFault, ReadRecord};
pub use model::{Input, Model, Output, Recording, Signal};
pub use stall::Stall;
pub use stream::{Received, StreamDriver, StreamSink};
pub use two_clocks::TwoClocks;
