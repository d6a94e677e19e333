//! The driver's command path: command descriptors, mailbox commands and their outcome (contract sections 3 and 5).
//!
//! A command descriptor is an opcode and six dwords. One command is under way at a time: CFG_BT_ATTR, or what POST_MB starts, a
//! mailbox command, which alone has a status and a token. Codes of BT commands, CREATE_MPT, DESTROY_MPT and QUERY_MPT are the contract's; those
//! of CQC, SRQC and QPC commands are the driver's own, as is the rule that a MODIFY brings the context and behind it a
//! mask whose zero bits say what changes.

use crate::hem::Table;
use crate::regs::{Access, Register};
use crate::{Field, Layout};

/// Dwords of a command descriptor.
pub const DATA_WORDS: usize = 6;
/// Bytes of a mailbox buffer.
pub const MAILBOX_BYTES: u64 = 4096;
/// Alignment of a mailbox buffer: the device transfers whole lines. (The driver's buffers are aligned to 4096.)
pub const BUFFER_ALIGNMENT_BYTES: u64 = 64;
/// log2 of the bytes of a context that commands copy. It stands at a multiple of a line.
pub const CONTEXT_BYTES_LOG2: std::ops::RangeInclusive<u32> = 6..=9;
/// Most steps of a BT command: it names level 0, 1 or 2.
pub const STEP_MAX: u8 = 2;
/// Most lookups of an MPT entry that one command or work request makes: a window, its old and its new parent. Time of a
/// command is bounded by this, not by the size of a region.
pub const LOOKUPS_MAX: u32 = 3;

/// Opcode of a command descriptor.
#[repr(u16)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Posts a mailbox command, see [`post_mailbox`].
    PostMailbox = 0x8504,
    /// Asks for the state of the mailbox, see [`mailbox_status`].
    QueryMailboxStatus = 0x8505,
    /// Sets hops and page sizes of five context tables, see [`crate::hem::bt_attribute`].
    ConfigureBtAttribute = 0x8506,
}

impl Opcode {
    /// All opcodes.
    pub const ALL: [Opcode; 3] = [Self::PostMailbox, Self::QueryMailboxStatus, Self::ConfigureBtAttribute];

    /// The opcode of a code.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| *opcode as u16 == code)
    }

    /// Name as in the driver.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PostMailbox => "POST_MB",
            Self::QueryMailboxStatus => "QUERY_MB_ST",
            Self::ConfigureBtAttribute => "CFG_BT_ATTR",
        }
    }
}

crate::layout! {
    /// The six dwords of POST_MB (0x8504).
    pub mod post_mailbox: 24 bytes {
        IN_PARAM / "in_param" [63:0] = "Bus address of the buffer that the command reads, or the base address that a BT command brings.";
        OUT_PARAM / "out_param" [127:64] = "Bus address of the buffer that the command writes. Ignored by commands that write none.";
        COMMAND / "command" [135:128] = "Code of the mailbox command.";
        TAG / "tag" [159:136] = "Index of the object that the command is about; of WRITE_SCCC_BT0 the level-0 index.";
        TOKEN / "token" [175:160] = "Returned with the status.";
        EVENT_EN / "event_en" [176:176] = "Raise an interrupt when the command is done.";
        RESERVED_177 / "reserved_177" [191:177] = "Reserved.";
    }
}

crate::layout! {
    /// What the mailbox reports: the first dword is that of the driver's status query (0x8505).
    pub mod mailbox_status: 8 bytes {
        STATUS / "status" [7:0] = "Outcome of the last mailbox command; 0: none since reset.";
        RESERVED_8 / "reserved_8" [30:8] = "Reserved.";
        BUSY / "busy" [31:31] = "A command is under way. STATUS and TOKEN are those of the mailbox command before.";
        TOKEN / "token" [47:32] = "Token of the last mailbox command.";
        RESERVED_48 / "reserved_48" [63:48] = "Reserved.";
    }
}

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Outcome of a command. After any but [`CommandStatus::Ok`] nothing has changed, in memory or in the device; but the
        /// buffer of a QUERY that ends with a bus error may have been written in part.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CommandStatus { $($(#[doc = $doc])* $name = $code,)* }

        impl CommandStatus {
            /// All statuses in order of code; of several failed checks the one with the smallest code is reported.
            pub const ALL: &'static [CommandStatus] = &[$(Self::$name),*];

            /// Name as in documents and event logs.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// Meaning, for documents.
            #[must_use]
            pub const fn doc(self) -> &'static str { match self { $(Self::$name => concat!($($doc),*),)* } }
        }
    };
}

statuses! {
    /// Done. The driver takes every other value for a failure.
    Ok = 1, "ok";
    /// A command is under way: this one was not taken. Post it again once the mailbox is not busy.
    Busy = 2, "busy";
    /// Neither an opcode nor a mailbox command has this code.
    UnknownCommand = 3, "unknown_command";
    /// A BT command names a level that the table does not have.
    StepTooLarge = 4, "step_too_large";
    /// The object is at or above num_mpts or the table's object_count, or its BT0 slot is beyond those of the engine.
    IndexOutOfRange = 5, "index_out_of_range";
    /// An address is zero or misaligned: a buffer to 64 bytes, a base address as the HEM demands (4 KiB, or with
    /// `alignment_check` off 8 bytes).
    AddressIllegal = 6, "address_illegal";
    /// The object's entry is not reachable: a BT0 slot is unset, or a pointer is zero or misaligned; or the context is not one
    /// of 64 to 512 bytes at a multiple of 64.
    Unmapped = 7, "unmapped";
    /// A read or write of memory was answered with a bus error.
    BusError = 8, "bus_error";
    /// Memory windows are bound to the region.
    WindowsBound = 9, "windows_bound";
}

impl CommandStatus {
    /// The status of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| *status as u8 == code)
    }

    /// Code in the mailbox status.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.name() == name)
    }
}

/// What a mailbox command does. The object is the one of the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Tells the base address of a level of a table. Step 0 sets the BT0 slot. The entries of further levels are written by
    /// the host; the command makes the device forget what it knew of them.
    WriteBt {
        /// Level.
        step: u8,
    },
    /// Takes a level of a table away. Step 0 makes the BT0 slot unset; at further steps the device forgets its copies.
    /// Answered after the fence.
    DestroyBt {
        /// Level.
        step: u8,
    },
    /// Copies a context from the buffer at in_param into the table.
    Create,
    /// Changes a context: bits whose mask bit is 0 take the value in the buffer; the mask follows the context there.
    Modify,
    /// Copies a context from the table to the buffer at out_param.
    Query,
    /// Takes the object away: its two state bits become 0. Answered after the fence.
    Destroy,
}

/// A mailbox command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MailboxCommand {
    /// Code.
    pub code: u8,
    /// Name as in the driver.
    pub name: &'static str,
    /// Table that it is about.
    pub table: Table,
    /// What it does.
    pub action: Action,
}

const fn command(code: u8, name: &'static str, table: Table, action: Action) -> MailboxCommand {
    MailboxCommand { code, name, table, action }
}

/// All mailbox commands in order of code.
pub const MAILBOX_COMMANDS: [MailboxCommand; 40] = [
    command(0x00, "WRITE_QPC_BT0", Table::Qpc, Action::WriteBt { step: 0 }),
    command(0x01, "WRITE_QPC_BT1", Table::Qpc, Action::WriteBt { step: 1 }),
    command(0x02, "WRITE_QPC_BT2", Table::Qpc, Action::WriteBt { step: 2 }),
    command(0x08, "DESTROY_QPC_BT0", Table::Qpc, Action::DestroyBt { step: 0 }),
    command(0x09, "DESTROY_QPC_BT1", Table::Qpc, Action::DestroyBt { step: 1 }),
    command(0x0a, "DESTROY_QPC_BT2", Table::Qpc, Action::DestroyBt { step: 2 }),
    command(0x0d, "CREATE_MPT", Table::Mpt, Action::Create),
    command(0x0f, "DESTROY_MPT", Table::Mpt, Action::Destroy),
    command(0x10, "WRITE_CQC_BT0", Table::Cqc, Action::WriteBt { step: 0 }),
    command(0x11, "WRITE_CQC_BT1", Table::Cqc, Action::WriteBt { step: 1 }),
    command(0x12, "WRITE_CQC_BT2", Table::Cqc, Action::WriteBt { step: 2 }),
    command(0x16, "CREATE_CQC", Table::Cqc, Action::Create),
    command(0x17, "DESTROY_CQC", Table::Cqc, Action::Destroy),
    command(0x18, "DESTROY_CQC_BT0", Table::Cqc, Action::DestroyBt { step: 0 }),
    command(0x19, "DESTROY_CQC_BT1", Table::Cqc, Action::DestroyBt { step: 1 }),
    command(0x1a, "DESTROY_CQC_BT2", Table::Cqc, Action::DestroyBt { step: 2 }),
    command(0x20, "WRITE_MPT_BT0", Table::Mpt, Action::WriteBt { step: 0 }),
    command(0x21, "WRITE_MPT_BT1", Table::Mpt, Action::WriteBt { step: 1 }),
    command(0x22, "WRITE_MPT_BT2", Table::Mpt, Action::WriteBt { step: 2 }),
    command(0x23, "WRITE_CQC_TIMER_BT0", Table::CqcTimer, Action::WriteBt { step: 0 }),
    command(0x28, "DESTROY_MPT_BT0", Table::Mpt, Action::DestroyBt { step: 0 }),
    command(0x29, "DESTROY_MPT_BT1", Table::Mpt, Action::DestroyBt { step: 1 }),
    command(0x2a, "DESTROY_MPT_BT2", Table::Mpt, Action::DestroyBt { step: 2 }),
    command(0x30, "WRITE_SRQC_BT0", Table::Srqc, Action::WriteBt { step: 0 }),
    command(0x31, "WRITE_SRQC_BT1", Table::Srqc, Action::WriteBt { step: 1 }),
    command(0x32, "WRITE_SRQC_BT2", Table::Srqc, Action::WriteBt { step: 2 }),
    command(0x33, "WRITE_QPC_TIMER_BT0", Table::QpcTimer, Action::WriteBt { step: 0 }),
    command(0x38, "DESTROY_SRQC_BT0", Table::Srqc, Action::DestroyBt { step: 0 }),
    command(0x39, "DESTROY_SRQC_BT1", Table::Srqc, Action::DestroyBt { step: 1 }),
    command(0x3a, "DESTROY_SRQC_BT2", Table::Srqc, Action::DestroyBt { step: 2 }),
    command(0x41, "MODIFY_QPC", Table::Qpc, Action::Modify),
    command(0x42, "QUERY_QPC", Table::Qpc, Action::Query),
    command(0x52, "MODIFY_CQC", Table::Cqc, Action::Modify),
    command(0x53, "QUERY_CQC", Table::Cqc, Action::Query),
    command(0x62, "QUERY_MPT", Table::Mpt, Action::Query),
    command(0x70, "CREATE_SRQ", Table::Srqc, Action::Create),
    command(0x72, "MODIFY_SRQC", Table::Srqc, Action::Modify),
    command(0x73, "QUERY_SRQC", Table::Srqc, Action::Query),
    command(0x74, "DESTROY_SRQ", Table::Srqc, Action::Destroy),
    command(0xa5, "WRITE_SCCC_BT0", Table::Sccc, Action::WriteBt { step: 0 }),
];

const _: () = {
    let mut index = 1;
    while index < MAILBOX_COMMANDS.len() {
        assert!(MAILBOX_COMMANDS[index].code > MAILBOX_COMMANDS[index - 1].code, "codes are unique and in order");
        index += 1;
    }
};

impl MailboxCommand {
    /// The command of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<&'static Self> {
        MAILBOX_COMMANDS.iter().find(|command| command.code == code)
    }

    /// The command of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        MAILBOX_COMMANDS.iter().find(|command| command.name == name)
    }

    /// Meaning, for documents.
    #[must_use]
    pub const fn doc(&self) -> &'static str {
        match self.action {
            Action::WriteBt { step: 0 } => "Sets the object's BT0 slot to in_param.",
            Action::WriteBt { .. } => "The pointer of this level has changed, or is new.",
            Action::DestroyBt { step: 0 } => "Unsets the object's BT0 slot. Fenced.",
            Action::DestroyBt { .. } => "The page of this level goes away. Fenced.",
            Action::Create => "Copies the context at in_param into the table.",
            Action::Modify => "Changes the context by context and mask at in_param.",
            Action::Query => "Copies the context to out_param.",
            Action::Destroy => "Clears the object's two state bits. Fenced.",
        }
    }
}

/// The state of a context: the low two bits of the entries that DESTROY commands clear (MPT, CQC and SRQC alike).
pub const STATE: Field = Field { name: "state", low: 0, width: 2, doc: "State of the object; 0: there is none." };

/// Offset of the first register of the command unit.
pub const REGISTERS_OFFSET: u32 = 0x080;

const fn data_register(name: &'static str, number: u32, doc: &'static str) -> Register {
    Register { name, offset: REGISTERS_OFFSET + 4 * number, access: Access::ReadWrite, reset: 0, doc, fields: &[] }
}

/// Fields of register `command_start`.
pub mod command_start {
    use crate::Field;
    /// Opcode.
    pub const OPCODE: Field = Field { name: "opcode", low: 0, width: 16, doc: "0x8504 POST_MB or 0x8506 CFG_BT_ATTR." };
    /// Function.
    pub const FUNCTION: Field =
        Field { name: "function", low: 16, width: 8, doc: "Function whose table set the command is about." };
}

/// Fields of register `command_status`, the first dword of [`mailbox_status`].
pub mod command_status {
    use crate::Field;
    /// Status.
    pub const STATUS: Field = super::mailbox_status::STATUS;
    /// Busy.
    pub const BUSY: Field = super::mailbox_status::BUSY;
}

/// Fields of register `command_token`.
pub mod command_token {
    use crate::Field;
    /// Token.
    pub const TOKEN: Field = Field { name: "token", low: 0, width: 16, doc: "Token of the last mailbox command." };
}

/// Registers of the command unit on the AXI4-Lite port, in order of offset.
pub const REGISTERS: [Register; DATA_WORDS + 3] = [
    data_register("command_data_0", 0, "Dword 0 of the descriptor; POST_MB: in_param, low half."),
    data_register("command_data_1", 1, "Dword 1 of the descriptor; POST_MB: in_param, high half."),
    data_register("command_data_2", 2, "Dword 2 of the descriptor; POST_MB: out_param, low half."),
    data_register("command_data_3", 3, "Dword 3 of the descriptor; POST_MB: out_param, high half."),
    data_register("command_data_4", 4, "Dword 4 of the descriptor; POST_MB: tag << 8 | command."),
    data_register("command_data_5", 5, "Dword 5 of the descriptor; POST_MB: event_en << 16 | token."),
    Register {
        name: "command_start",
        offset: REGISTERS_OFFSET + 0x18,
        access: Access::WriteOnly,
        reset: 0,
        doc: "Starts the command whose dwords are staged. Answered with SLVERR, and nothing changes, while a command is \
              under way and for an opcode that is not one of these.",
        fields: &[command_start::OPCODE, command_start::FUNCTION],
    },
    Register {
        name: "command_status",
        offset: REGISTERS_OFFSET + 0x1c,
        access: Access::ReadOnly,
        reset: 0,
        doc: "State of the mailbox.",
        fields: &[command_status::STATUS, command_status::BUSY],
    },
    Register {
        name: "command_token",
        offset: REGISTERS_OFFSET + 0x20,
        access: Access::ReadOnly,
        reset: 0,
        doc: "Which command `command_status.status` is about.",
        fields: &[command_token::TOKEN],
    },
];

/// The records of the command path, for documents.
pub const LAYOUTS: [Layout; 3] = [post_mailbox::LAYOUT, mailbox_status::LAYOUT, crate::hem::bt_attribute::LAYOUT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bt_commands_have_the_codes_of_the_contract() {
        let rows =
            [(Table::Qpc, 0x00, 0x08), (Table::Cqc, 0x10, 0x18), (Table::Mpt, 0x20, 0x28), (Table::Srqc, 0x30, 0x38)];
        for (table, write, destroy) in rows {
            for step in 0..=STEP_MAX {
                let is = |code: u8, action| {
                    let command = MailboxCommand::from_code(code).unwrap();
                    assert_eq!((command.table, command.action), (table, action));
                };
                is(write + step, Action::WriteBt { step });
                is(destroy + step, Action::DestroyBt { step });
            }
        }
        let step0 = |code: u8| MailboxCommand::from_code(code).map(|command| (command.table, command.action));
        assert_eq!(step0(0xa5), Some((Table::Sccc, Action::WriteBt { step: 0 })));
        assert_eq!(step0(0x33), Some((Table::QpcTimer, Action::WriteBt { step: 0 })));
        assert_eq!(step0(0x23), Some((Table::CqcTimer, Action::WriteBt { step: 0 })));
        assert_eq!(step0(0x04), None);
    }

    #[test]
    fn the_mailbox_is_the_driver_s_six_dwords() {
        // dw0/1 in_param, dw2/3 out_param, dw4 = tag << 8 | command, dw5 = event_en << 16 | token.
        let words: [u32; DATA_WORDS] =
            [0x5566_7788, 0x1122_3344, 0xddee_ff00, 0x99aa_bbcc, 0x0012_3456 << 8 | 0x62, 1 << 16 | 0xbeef];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(post_mailbox::IN_PARAM.get(&bytes), 0x1122_3344_5566_7788);
        assert_eq!(post_mailbox::OUT_PARAM.get(&bytes), 0x99aa_bbcc_ddee_ff00);
        assert_eq!(post_mailbox::COMMAND.get(&bytes), 0x62);
        assert_eq!(post_mailbox::TAG.get(&bytes), 0x12_3456);
        assert_eq!(post_mailbox::TOKEN.get(&bytes), 0xbeef);
        assert_eq!(post_mailbox::EVENT_EN.get(&bytes), 1);
    }

    #[test]
    fn names_and_codes_lead_back() {
        for command in &MAILBOX_COMMANDS {
            assert_eq!(MailboxCommand::from_code(command.code), Some(command));
            assert_eq!(MailboxCommand::from_name(command.name), Some(command));
        }
        for status in CommandStatus::ALL {
            assert_eq!(CommandStatus::from_code(status.code()), Some(*status));
            assert_eq!(CommandStatus::from_name(status.name()), Some(*status));
        }
        assert_eq!(CommandStatus::from_code(0), None, "0 says that there was no command");
        for opcode in Opcode::ALL {
            assert_eq!(Opcode::from_code(opcode as u16), Some(opcode));
        }
    }

    #[test]
    fn registers_follow_each_other_in_room_that_the_map_leaves() {
        let first_free = crate::regs::REGISTERS.last().unwrap().offset + 4;
        assert!(REGISTERS_OFFSET >= first_free);
        for (number, register) in (0..).zip(&REGISTERS) {
            assert_eq!(register.offset, REGISTERS_OFFSET + 4 * number);
        }
        assert!(REGISTERS.last().unwrap().offset < crate::regs::COUNTERS_OFFSET);
    }
}
