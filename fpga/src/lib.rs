//! The shell that stands between the engine and a card's PCIe IP.
//!
//! What has two clocks is described with rust-hdl and printed by [`emit`]: queues ([`async_fifo`]), synchronisers
//! ([`crossing`]) and the handshake of the resets ([`link`]). What has one clock is described with `keywalk_hdl::prim`, as the
//! engine is: [`host_port`], [`register_port`], [`register_master`], [`interrupt_port`], [`width_converter`]. [`top`] puts
//! both together, and [`constraints`] says what every crossing asks of the tools. What joins engine, data mover and shell to
//! a card has one clock: [`memory_arbiter`], [`request_fork`], [`register_split`].

pub mod async_fifo;
pub mod config;
pub mod constraints;
pub mod crossing;
pub mod emit;
pub mod host_port;
pub mod interrupt_port;
pub mod link;
pub mod memory_arbiter;
pub mod netlist;
pub mod register_master;
pub mod register_port;
pub mod register_split;
pub mod request_fork;
mod slice;
pub mod top;
pub mod width_converter;
