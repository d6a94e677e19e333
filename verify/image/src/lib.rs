//! Builds translation tables in the contract's format, in a sparse memory, from a list of regions.
//!
//! A [`Description`] says what there is to be; [`Description::build`] gives an [`Image`]: the memory, what software would
//! tell the device (geometries, BT0 bases), and the true pages of every region, or a [`BuildError`] when the format
//! cannot hold it. Tables lie all over the address space, and what need not be aligned is not.

mod build;
mod check;
mod description;
mod error;
mod hem;
mod image;
mod memory;
mod mtr;
mod pages;
mod placement;
mod queue_buffer;
mod region;
mod serial;

pub use description::{
    Description, ObjectDescription, PageList, QueueBufferDescription, QueueBufferRegionDescription, RegionDescription,
    RegionKind, TableDescription, TableSetDescription,
};
pub use error::{BuildError, Problem};
pub use image::{BuiltObject, BuiltQueueBuffer, BuiltQueueBufferRegion, BuiltRegion, BuiltTable, BuiltTableSet, Image};
pub use memory::{LINE_BYTES, PAGE_BYTES, SparseMemory, Unbacked};
pub use pages::{Pages, PagesError};
pub use serial::Rights;
