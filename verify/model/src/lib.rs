//! Golden model of Keywalk: what the tables mean, in plain integers, without cycles.
//!
//! Written from the contract, not from the hardware, which it shares the layouts with but no behaviour. An [`Engine`]
//! holds what software tells the device (geometries, BT0 bases, switches); [`Engine::translate`] answers a [`Request`]
//! and [`Engine::context`] a [`ContextRequest`], reading tables through a [`Memory`]. The `explain` forms give every read
//! and check besides. A [`Device`] is an engine with the driver's command path: mailbox commands and work requests change
//! its tables in a [`MemoryMut`].

mod access;
mod context;
mod device;
mod engine;
mod entry;
mod hem;
mod memory;
mod mtr;
mod split;
mod trace;

pub use context::{ContextQuery, ContextRequest, ContextResponse};
pub use device::{Completion, Descriptor, Device, Fence, MailboxStatus, WorkRequest, WorkResponse};
pub use engine::{Beat, Controls, Engine, Failure, Request, Response, Segment};
pub use entry::MptEntry;
pub use hem::{ContextTable, Geometry, TableSet, TableSetError};
pub use memory::{BusError, Memory, MemoryMut};
pub use split::Segments;
pub use trace::{Observer, ReadLog, Recorder, Step, TableRead};
