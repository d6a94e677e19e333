//! Facts of Keywalk, declared once: table layouts, keys, operations, status codes, registers, ports and
//! configuration. The RTL, the golden model, the image builder and the generated documents all read them here.
//!
//! Layout is shared, behaviour is not: nothing in this crate checks a request or walks a table.

pub mod command;
pub mod config;
pub mod coverage;
pub mod hem;
pub mod key;
pub mod layout;
pub mod mover;
pub mod mpt_entry;
pub mod mtr;
pub mod op;
pub mod ports;
pub mod probe;
pub mod regs;
pub mod status;
pub mod work;

pub use command::{CommandStatus, MailboxCommand};
pub use config::Config;
pub use hem::Table;
pub use layout::{Field, Layout};
pub use mover::MoverStatus;
pub use op::{Operation, Right};
pub use status::{Status, WireClass};
pub use work::{WorkOpcode, WorkStatus};
