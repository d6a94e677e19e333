//! The device as the driver sees it: an engine, and the command path that changes its tables.
//!
//! Commands and work requests are carried out one after the other, each as a whole: nothing sees half of one. Whatever
//! takes something away names a [`Fence`]: what the device must have forgotten, and which accesses must have ended, before
//! it answers. The model caches nothing, so that a request after the answer sees the tables as they are then, and nothing
//! of what was there before; a device that caches must do the same.

mod mailbox;
mod tables;
mod work;

use keywalk_contract::command::{self, Opcode, mailbox_status};
use keywalk_contract::{CommandStatus, Table, hem};

use crate::{Engine, MemoryMut};

pub use work::{WorkRequest, WorkResponse};

/// A command descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Opcode, see [`Opcode`].
    pub opcode: u16,
    /// Function whose table set the command is about.
    pub function: u8,
    /// Dwords.
    pub data: [u32; command::DATA_WORDS],
}

/// What must be forgotten and finished before a command or work request is answered: requests accepted later see nothing of
/// what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Everything that came from an MPT entry: the entry, its page table, its translations, and accesses that use them.
    Entry {
        /// Table set.
        table_set: u8,
        /// MPT index.
        index: u32,
    },
    /// The pointers of a context table. Of the MPT also everything that was found through them.
    Pointers {
        /// Table set.
        table_set: u8,
        /// Table.
        table: Table,
    },
}

/// The end of a mailbox command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Outcome.
    pub status: CommandStatus,
    /// The command's token.
    pub token: u16,
    /// Whether the command asked for an interrupt.
    pub event: bool,
    /// What the answer waits for; `None` for a command that takes nothing away, and for one that failed.
    pub fence: Option<Fence>,
}

/// What the mailbox reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxStatus {
    /// Outcome of the last command; `None` before the first.
    pub status: Option<CommandStatus>,
    /// Token of the last command.
    pub token: u16,
    /// A command is under way.
    pub busy: bool,
}

impl MailboxStatus {
    /// As software reads it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; mailbox_status::LAYOUT.bytes as usize] {
        let mut bytes = [0; mailbox_status::LAYOUT.bytes as usize];
        bytes[0] = self.status.map_or(0, CommandStatus::code);
        bytes[3] = u8::from(self.busy) << 7;
        bytes[4..6].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }
}

/// An engine with the command path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The engine, whose tables the commands change. Registers that no command sets (entry sizes, bt_num, object counts, key
    /// spaces, the map of functions, switches) are set here.
    pub engine: Engine,
    /// BT0 slots per context table of this device's configuration.
    pub bt0_slots: u32,
    /// The mailbox command under way.
    pending: Option<Descriptor>,
    /// How the last one ended.
    last: MailboxStatus,
}

impl Device {
    /// A device around an engine.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine, bt0_slots: hem::BT_NUM_MAX, pending: None, last: MailboxStatus::default() }
    }

    /// Takes a command. CFG_BT_ATTR is done at once; a device that caches is busy until it has forgotten what it found by the
    /// old shapes. A mailbox command is then under way: [`Device::run`] carries it out.
    /// Anything but [`CommandStatus::Ok`] means that the command was not taken and nothing has changed.
    pub fn start(&mut self, descriptor: &Descriptor) -> CommandStatus {
        if self.pending.is_some() {
            return CommandStatus::Busy;
        }
        match Opcode::from_code(descriptor.opcode) {
            Some(Opcode::PostMailbox) => self.pending = Some(*descriptor),
            Some(Opcode::ConfigureBtAttribute) => self.configure_bt_attribute(descriptor),
            // The state of the mailbox is read from a register and not by a command.
            Some(Opcode::QueryMailboxStatus) | None => return CommandStatus::UnknownCommand,
        }
        CommandStatus::Ok
    }

    /// Carries out the mailbox command that is under way, if there is one.
    pub fn run(&mut self, memory: &mut impl MemoryMut) -> Option<Completion> {
        let descriptor = self.pending.take()?;
        let completion = self.run_mailbox(memory, &descriptor);
        self.last = MailboxStatus { status: Some(completion.status), token: completion.token, busy: false };
        Some(completion)
    }

    /// What the mailbox reports.
    #[must_use]
    pub fn mailbox_status(&self) -> MailboxStatus {
        MailboxStatus { busy: self.pending.is_some(), ..self.last }
    }

    /// CFG_BT_ATTR: hops and page sizes of five tables. Every value that the fields hold is legal.
    fn configure_bt_attribute(&mut self, descriptor: &Descriptor) {
        let set = self.engine.function_map[usize::from(descriptor.function)];
        let Some(set) = self.engine.table_sets.get_mut(usize::from(set)) else { return };
        for (table, word) in hem::BT_ATTRIBUTE_ORDER.into_iter().zip(descriptor.data) {
            let field = |field: keywalk_contract::Field| field.get(&word.to_le_bytes()) as u8;
            let geometry = &mut set.table_mut(table).geometry;
            geometry.hop = field(hem::bt_attribute::HOP_NUM);
            geometry.ba_pg_sz = field(hem::bt_attribute::BA_PG_SZ);
            geometry.buf_pg_sz = field(hem::bt_attribute::BUF_PG_SZ);
        }
    }

    /// Number of a function's table set.
    fn table_set_number(&self, function: u8) -> u8 {
        self.engine.function_map[usize::from(function)]
    }
}
