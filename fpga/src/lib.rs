//! The shell that stands between the engine and a card's PCIe IP.

pub mod async_fifo;
pub mod config;
pub mod constraints;
pub mod crossing;
pub mod emit;
pub mod host_port;
pub mod interrupt_port;
pub mod link;
pub mod register_master;
pub mod register_port;
mod slice;
pub mod top;
pub mod width_converter;
