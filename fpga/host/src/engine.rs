//! The engine's registers as software uses them: identity, tables, mailbox commands, counters.

use keywalk_contract::command::{self, Opcode, command_start, command_status, post_mailbox};
use keywalk_contract::hem::{BT_ATTRIBUTE_ORDER, bt_attribute};
use keywalk_contract::regs::{self, ARRAYS, ArrayName, COUNTERS, Register};
use keywalk_contract::{CommandStatus, Field, MailboxCommand, Table, mpt_entry, probe};
use keywalk_image::BuiltTable;
use serde::Serialize;

use crate::probe::NAME_BITS;
use crate::{Card, Error, PROBE_OFFSET};

/// What a card says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Version of the engine's register map: major and minor.
    pub version: (u16, u16),
    /// The engine has scrubbed its memories.
    pub is_ready: bool,
    /// Nothing is under way in the engine.
    pub is_idle: bool,
    /// Longest request in bytes in hold mode.
    pub hold_bytes_max: u32,
    /// The probe, where there is one.
    pub probe: Option<ProbeIdentity>,
}

/// What the probe says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeIdentity {
    /// Version of its registers: major and minor.
    pub version: (u16, u16),
    /// Bytes of its buffer.
    pub buffer_bytes: u32,
    /// It sends work requests: the engine has a command unit.
    pub has_work: bool,
}

/// A counter and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterValue {
    /// Name; elements of an array have their number behind it unless they have names.
    pub name: String,
    /// Value.
    pub value: u64,
}

/// Value of a field in a register's value.
pub(crate) fn field_of(value: u32, field: &Field) -> u32 {
    field.get(&value.to_le_bytes()) as u32
}

fn version_of(value: u32) -> (u16, u16) {
    ((value >> 16) as u16, value as u16)
}

/// Speaks to a card.
pub struct Host<'c> {
    /// The card.
    pub card: &'c mut dyn Card,
    /// Mailbox commands ask for an interrupt when they are done.
    pub wants_interrupt: bool,
    /// Bits of tag and function that the card keeps, as in register `probe_result_name`.
    pub(crate) name_bits: u32,
    /// Token of the last mailbox command.
    token: u16,
}

impl<'c> Host<'c> {
    /// Speaks to that card. Nothing is read or written yet.
    pub fn new(card: &'c mut dyn Card) -> Self {
        Self { card, wants_interrupt: false, name_bits: NAME_BITS, token: 0 }
    }

    /// Reads a register of the engine.
    ///
    /// # Errors
    /// Those of the card.
    pub fn read(&mut self, register: &Register) -> Result<u32, Error> {
        self.card.read(register.offset)
    }

    /// Writes a register of the engine.
    ///
    /// # Errors
    /// Those of the card.
    pub fn write(&mut self, register: &Register, value: u32) -> Result<(), Error> {
        self.card.write(register.offset, value)
    }

    /// Reads a register until its value is as wanted.
    ///
    /// # Errors
    /// [`Error::Timeout`] says what was waited for; [`Error::Silent`] where nothing answers any more.
    pub fn poll(
        &mut self,
        base: u32,
        register: &Register,
        what: &'static str,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Result<u32, Error> {
        let polls = self.card.polls_max();
        let mut value = 0;
        for _ in 0..polls {
            value = self.card.read(base + register.offset)?;
            if is_wanted(value) {
                return Ok(value);
            }
            self.card.pause();
        }
        // No register that is waited for has all its bits set.
        if value == u32::MAX {
            return Err(Error::Silent { register: register.name, value });
        }
        Err(Error::Timeout { what, register: register.name, polls, value })
    }

    /// What the card is.
    ///
    /// # Errors
    /// [`Error::Silent`] where nothing answers; [`Error::Foreign`] where it is none of this project, or of another major version.
    pub fn identify(&mut self) -> Result<Identity, Error> {
        let id = self.read(&regs::id::REGISTER)?;
        if id == u32::MAX {
            return Err(Error::Silent { register: regs::id::REGISTER.name, value: id });
        }
        if id != regs::ID {
            let what = format!("register `id` reads as {id:#010x}, a Keywalk engine's is {:#010x}", regs::ID);
            return Err(Error::Foreign { what });
        }
        let version = version_of(self.read(&regs::version::REGISTER)?);
        let known = version_of(regs::VERSION);
        if version.0 != known.0 || version.1 < known.1 {
            let what = format!(
                "its register map has version {}.{}, this program is for {}.{} and compatible ones",
                version.0, version.1, known.0, known.1
            );
            return Err(Error::Foreign { what });
        }
        let status = self.read(&regs::status::REGISTER)?;
        let probe = if self.card.read(PROBE_OFFSET + probe::probe_id::REGISTER.offset)? == probe::ID {
            let version = version_of(self.card.read(PROBE_OFFSET + probe::probe_version::REGISTER.offset)?);
            let shape = self.card.read(PROBE_OFFSET + probe::probe_shape::REGISTER.offset)?;
            if version.0 != version_of(probe::VERSION).0 {
                let what = format!("its probe has version {}.{}", version.0, version.1);
                return Err(Error::Foreign { what });
            }
            Some(ProbeIdentity {
                version,
                buffer_bytes: field_of(shape, &probe::probe_shape::BUFFER_BYTES),
                has_work: field_of(shape, &probe::probe_shape::HAS_WORK) == 1,
            })
        } else {
            None
        };
        Ok(Identity {
            version,
            is_ready: field_of(status, &regs::status::READY) == 1,
            is_idle: field_of(status, &regs::status::IDLE) == 1,
            hold_bytes_max: self.read(&regs::hold_bytes_max::REGISTER)?,
            probe,
        })
    }

    /// Waits until the engine is ready and nothing is under way in it.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub fn wait_idle(&mut self) -> Result<(), Error> {
        let is_idle = |value| field_of(value, &regs::status::READY) & field_of(value, &regs::status::IDLE) == 1;
        self.poll(0, &regs::status::REGISTER, "an engine that is ready and idle", is_idle).map(|_| ())
    }

    /// Tells the engine of the MPT's entry size, slots and object count and of the number of keys, for table set 0 and that
    /// function, by registers; and of its hops and page sizes by CFG_BT_ATTR, as a driver does. Other tables get none.
    ///
    /// # Errors
    /// Those of the card.
    pub fn configure_mpt(&mut self, function: u8, mpt: &BuiltTable, num_mpts_log2: u8) -> Result<(), Error> {
        use regs::{
            function_map, key_space, table_commit, table_geometry as geometry, table_object_count, table_select,
        };
        let place = |field: &Field, value: u32| value << field.low;
        self.write(&table_select::REGISTER, place(&table_select::TABLE, Table::Mpt.code().into()))?;
        let shape = place(&geometry::HOP_NUM, mpt.hop.into())
            | place(&geometry::BA_PG_SZ, mpt.ba_pg_sz.into())
            | place(&geometry::BUF_PG_SZ, mpt.buf_pg_sz.into())
            | place(&geometry::ENTRY_BYTES_LOG2, mpt_entry::ENTRY_BYTES.ilog2())
            | place(&geometry::BT_NUM, mpt.bt_num);
        self.write(&geometry::REGISTER, shape)?;
        self.write(&table_object_count::REGISTER, mpt.object_count)?;
        self.write(&table_commit::REGISTER, 1)?;
        let keys = place(&key_space::NUM_MPTS_LOG2, num_mpts_log2.into()) | place(&key_space::PAGE_SHIFT_BASE, 12);
        self.write(&key_space::REGISTER, keys)?;
        self.write(&function_map::REGISTER, place(&function_map::FUNCTION, function.into()))?;
        let word = |table: Table| match table {
            Table::Mpt => {
                place(&bt_attribute::HOP_NUM, mpt.hop.into())
                    | place(&bt_attribute::BA_PG_SZ, mpt.ba_pg_sz.into())
                    | place(&bt_attribute::BUF_PG_SZ, mpt.buf_pg_sz.into())
            }
            _ => 0,
        };
        self.start(Opcode::ConfigureBtAttribute, function, &BT_ATTRIBUTE_ORDER.map(word))
    }

    /// Writes a command descriptor and starts it. There is no answer to a write over PCIe, so that nothing may be under way.
    fn start(&mut self, opcode: Opcode, function: u8, data: &[u32]) -> Result<(), Error> {
        self.wait_mailbox()?;
        for (register, word) in command::REGISTERS.iter().zip(data) {
            self.write(register, *word)?;
        }
        let start = opcode as u32 | u32::from(function) << command_start::FUNCTION.low;
        self.write(&command::REGISTERS[command::DATA_WORDS], start)
    }

    /// Waits until no mailbox command is under way, and gives register `command_status`.
    fn wait_mailbox(&mut self) -> Result<u32, Error> {
        let register = &command::REGISTERS[command::DATA_WORDS + 1];
        self.poll(0, register, "the end of a mailbox command", |value| field_of(value, &command_status::BUSY) == 0)
    }

    /// Posts a mailbox command and waits for its end: how it ended.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Wrong`] where the answer is another command's, or none.
    ///
    /// # Panics
    /// On a name that is no command's.
    pub fn command(
        &mut self,
        function: u8,
        name: &'static str,
        tag: u32,
        in_param: u64,
        out_param: u64,
    ) -> Result<CommandStatus, Error> {
        let command = MailboxCommand::from_name(name).expect("the command exists");
        self.token = self.token.wrapping_add(1);
        let mut bytes = [0; post_mailbox::LAYOUT.bytes as usize];
        let fields = [
            (post_mailbox::IN_PARAM, in_param),
            (post_mailbox::OUT_PARAM, out_param),
            (post_mailbox::COMMAND, command.code.into()),
            (post_mailbox::TAG, tag.into()),
            (post_mailbox::TOKEN, self.token.into()),
            (post_mailbox::EVENT_EN, self.wants_interrupt.into()),
        ];
        for (field, value) in fields {
            field.put(&mut bytes, value).map_err(|error| Error::Wrong(format!("{name}: {error}")))?;
        }
        let (words, _) = bytes.as_chunks();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        self.start(Opcode::PostMailbox, function, &words)?;
        let status = field_of(self.wait_mailbox()?, &command_status::STATUS);
        let token = self.read(&command::REGISTERS[command::DATA_WORDS + 2])?;
        if token != u32::from(self.token) {
            let what = format!("{name} was posted with token {}, and the mailbox answers for {token}", self.token);
            return Err(Error::Wrong(format!("{what}: the engine did not take the command, or has no command unit")));
        }
        CommandStatus::from_code(status as u8).ok_or_else(|| Error::Wrong(format!("{name} ended with code {status}")))
    }

    /// As [`Host::command`], for one that must succeed.
    ///
    /// # Errors
    /// [`Error::Command`] besides.
    pub fn command_ok(&mut self, function: u8, name: &'static str, tag: u32, parameter: u64) -> Result<(), Error> {
        match self.command(function, name, tag, parameter, parameter)? {
            CommandStatus::Ok => Ok(()),
            status => Err(Error::Command { command: name, tag, status }),
        }
    }

    /// A counter by the offset of its low half.
    fn counter_at(&mut self, offset: u32) -> Result<u64, Error> {
        let low = self.card.read(offset)?;
        Ok(u64::from(self.card.read(offset + 4)?) << 32 | u64::from(low))
    }

    /// The counter of that name.
    ///
    /// # Errors
    /// Those of the card.
    ///
    /// # Panics
    /// On a name that is no counter's.
    pub fn counter(&mut self, name: &str) -> Result<u64, Error> {
        let counter = COUNTERS.iter().find(|counter| counter.name == name).expect("the counter exists");
        self.counter_at(counter.offset)
    }

    /// An element of an array of counters.
    ///
    /// # Errors
    /// Those of the card.
    pub fn counter_of(&mut self, array: ArrayName, element: u32) -> Result<u64, Error> {
        self.counter_at(ARRAYS[array as usize].offset_of(element))
    }

    /// All counters; of arrays only those that are not 0, unless `with_zeros`.
    ///
    /// # Errors
    /// Those of the card.
    pub fn counters(&mut self, with_zeros: bool) -> Result<Vec<CounterValue>, Error> {
        let mut values = Vec::new();
        for counter in COUNTERS {
            values.push(CounterValue { name: counter.name.into(), value: self.counter_at(counter.offset)? });
        }
        for array in ARRAYS {
            for element in 0..array.count {
                let value = self.counter_at(array.offset_of(element))?;
                let name = || array.element.map_or_else(|| format!("{}_{element}", array.name), |name| name(element));
                if value != 0 || with_zeros {
                    values.push(CounterValue { name: name(), value });
                }
            }
        }
        Ok(values)
    }
}
