//! The host side of a Keywalk card.
//!
//! A [`Card`] is registers and memory that the card reaches: [`sysfs::SysfsCard`] and [`vfio::VfioCard`] are cards in a slot,
//! which [`pci::find`] finds; with the feature `simulate` there is a simulated one. A [`Host`] speaks to the engine and to
//! the probe of a card, [`tables`] builds what it reads with the image builder's code, and [`self_test`] tests it by itself.

pub mod card;
pub mod engine;
pub mod error;
pub mod pci;
pub mod pinned;
pub mod probe;
pub mod self_test;
#[cfg(feature = "simulate")]
pub mod simulate;
pub mod sysfs;
pub mod tables;
pub mod vfio;

pub use card::{BAR_BYTES, Card, Memory, PROBE_OFFSET};
pub use engine::{Host, Identity};
pub use error::Error;
