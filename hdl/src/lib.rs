//! The hardware of Keywalk, described with kaze: one file, one type, one module and one test file per block.

pub mod access_check;
pub mod atomic_unit;
pub mod burst_cutter;
pub mod byte_rotator;
mod command_machine;
pub mod command_ports;
mod command_program;
pub mod command_unit;
pub mod completion_port;
pub mod context_port;
pub mod core;
pub mod csr;
pub mod data_mover;
pub mod engine;
pub mod entry_decode;
pub mod fault;
pub mod fence;
pub mod function_map;
pub mod hem_lookup;
pub mod key_decoder;
pub mod modulo;
pub mod mover_dispatch;
pub mod mover_read;
pub mod mover_records;
pub mod mover_write;
pub mod mpt_cache;
pub mod mtr_walker;
pub mod page_split;
pub mod prim;
pub mod probe;
pub mod records;
pub mod response_port;
pub mod split_buffer;
pub mod table_port;
pub mod tlb;
pub mod walk_queue;
pub mod write_port;

use keywalk_contract::Config;
use prim::Design;

/// Builds every module of an engine into `design` and gives the name of the one that instantiates all others.
///
/// # Panics
/// On a configuration that [`Config::validate`] refuses.
#[must_use]
pub fn build(design: &Design<'_>, config: &Config) -> String {
    engine::Engine::build(design, config)
}

/// Builds every module of a data mover into `design`, which may hold an engine, and gives the name of the one that
/// instantiates all others.
///
/// # Panics
/// On a configuration that [`Config::validate`] refuses.
#[must_use]
pub fn build_mover(design: &Design<'_>, config: &Config) -> String {
    data_mover::DataMover::build(design, config)
}

/// Builds the probe into `design`, which may hold an engine and a data mover, and gives the name of its module.
///
/// # Panics
/// On a configuration that [`Config::validate`] refuses.
#[must_use]
pub fn build_probe(design: &Design<'_>, config: &Config) -> String {
    probe::Probe::build(design, config)
}
