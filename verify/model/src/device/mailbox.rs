//! Mailbox commands (contract sections 3 and 5).

use keywalk_contract::command::{Action, BUFFER_ALIGNMENT_BYTES, CONTEXT_BYTES_LOG2, STATE, post_mailbox};
use keywalk_contract::hem::{BA_ENTRY_BYTES_LOG2, PAGE_SHIFT_MIN};
use keywalk_contract::{CommandStatus, MailboxCommand, Table};

use super::tables::{Changes, Missing, Place};
use super::{Completion, Descriptor, Device, Fence};
use crate::entry::ENTRY_BYTES;
use crate::hem::hops;
use crate::{BusError, MemoryMut};

impl From<Missing> for CommandStatus {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::IndexOutOfRange => Self::IndexOutOfRange,
            Missing::Unmapped => Self::Unmapped,
            Missing::BusError => Self::BusError,
        }
    }
}

impl From<BusError> for CommandStatus {
    fn from(_: BusError) -> Self {
        Self::BusError
    }
}

/// Makes a check that does not hold its status.
fn require(holds: bool, status: CommandStatus) -> Result<(), CommandStatus> {
    if holds { Ok(()) } else { Err(status) }
}

/// What a command is about.
#[derive(Clone, Copy)]
struct Object {
    function: u8,
    table: Table,
    index: u32,
}

impl Device {
    pub(super) fn run_mailbox(&mut self, memory: &mut impl MemoryMut, descriptor: &Descriptor) -> Completion {
        let bytes: Vec<u8> = descriptor.data.iter().flat_map(|word| word.to_le_bytes()).collect();
        let result = self.run_command(memory, descriptor.function, &bytes);
        Completion {
            status: result.err().unwrap_or(CommandStatus::Ok),
            token: post_mailbox::TOKEN.get(&bytes) as u16,
            event: post_mailbox::EVENT_EN.get(&bytes) == 1,
            fence: result.ok().flatten(),
        }
    }

    fn run_command(
        &mut self,
        memory: &mut impl MemoryMut,
        function: u8,
        bytes: &[u8],
    ) -> Result<Option<Fence>, CommandStatus> {
        let code = post_mailbox::COMMAND.get(bytes) as u8;
        let command = MailboxCommand::from_code(code).ok_or(CommandStatus::UnknownCommand)?;
        let in_param = post_mailbox::IN_PARAM.get(bytes);
        let out_param = post_mailbox::OUT_PARAM.get(bytes);
        let object = Object { function, table: command.table, index: post_mailbox::TAG.get(bytes) as u32 };
        let table_set = self.table_set_number(function);
        let entry_fence = Fence::Entry { table_set, index: object.index };
        // Contexts of queues are cached nowhere: what reads them is outside of the device.
        let object_fence = (command.table == Table::Mpt).then_some(entry_fence);
        let pointer_fence = Some(Fence::Pointers { table_set, table: command.table });
        match command.action {
            Action::WriteBt { step } => self.write_bt(object, step, in_param).map(|()| pointer_fence),
            Action::DestroyBt { step } => self.destroy_bt(object, step).map(|()| pointer_fence),
            Action::Create => self.create(memory, object, in_param).map(|()| object_fence),
            Action::Modify => self.modify(memory, object, in_param).map(|()| None),
            Action::Query => self.query(memory, object, out_param).map(|()| None),
            Action::Destroy => self.destroy(memory, object).map(|()| object_fence),
        }
    }

    /// The BT0 slot that a BT command of this step is about; checks step and index.
    fn bt0_slot(&self, object: Object, step: u8) -> Result<u32, CommandStatus> {
        let set = self.engine.table_set(object.function);
        let geometry = set.table(object.table).geometry;
        require(step <= hops(geometry.hop), CommandStatus::StepTooLarge)?;
        let level0 = if object.table == Table::Sccc {
            // The tag is the level-0 index itself.
            u64::from(object.index)
        } else {
            let is_in_count = geometry.object_count == 0 || object.index < geometry.object_count;
            let is_mpt_index = object.table != Table::Mpt || object.index < set.num_mpts();
            require(is_in_count && is_mpt_index, CommandStatus::IndexOutOfRange)?;
            geometry.level_index(object.index, 0)
        };
        let slot = level0.checked_rem(geometry.bt_num.into()).unwrap_or(0) as u32;
        require(slot < self.bt0_slots, CommandStatus::IndexOutOfRange)?;
        Ok(slot)
    }

    /// The table set of a function, to be changed.
    fn set_bt0(&mut self, object: Object, slot: u32, base: Option<u64>) -> Result<(), CommandStatus> {
        let number = self.table_set_number(object.function);
        let set = self.engine.table_sets.get_mut(usize::from(number)).ok_or(CommandStatus::Unmapped)?;
        set.table_mut(object.table).set_bt0(slot, base);
        Ok(())
    }

    fn write_bt(&mut self, object: Object, step: u8, base: u64) -> Result<(), CommandStatus> {
        let slot = self.bt0_slot(object, step)?;
        let alignment_log2 = if self.engine.controls.alignment_check { PAGE_SHIFT_MIN } else { BA_ENTRY_BYTES_LOG2 };
        let is_legal = base != 0 && base.is_multiple_of(1 << alignment_log2);
        require(is_legal, CommandStatus::AddressIllegal)?;
        // The pointers of further levels are in memory already: the host has written them.
        if step == 0 { self.set_bt0(object, slot, Some(base)) } else { Ok(()) }
    }

    fn destroy_bt(&mut self, object: Object, step: u8) -> Result<(), CommandStatus> {
        let slot = self.bt0_slot(object, step)?;
        if step == 0 { self.set_bt0(object, slot, None) } else { Ok(()) }
    }

    /// Bytes of a context.
    fn context_bytes(&self, object: Object) -> usize {
        match object.table {
            Table::Mpt => ENTRY_BYTES,
            table => 1 << self.engine.table_set(object.function).table(table).geometry.entry_bytes_log2(),
        }
    }

    /// Finds a context and reads it. Index and buffer are checked first, in the order of the statuses.
    fn read_context(
        &self,
        memory: &impl MemoryMut,
        object: Object,
        buffer: Option<u64>,
    ) -> Result<(u64, Vec<u8>), CommandStatus> {
        let found = self.locate(memory, object.function, object.table, object.index);
        require(found != Err(Missing::IndexOutOfRange), CommandStatus::IndexOutOfRange)?;
        let is_legal = buffer.is_none_or(|buffer| buffer != 0 && buffer.is_multiple_of(BUFFER_ALIGNMENT_BYTES));
        require(is_legal, CommandStatus::AddressIllegal)?;
        let address = found?;
        let bytes = self.context_bytes(object);
        let is_legal = CONTEXT_BYTES_LOG2.contains(&bytes.ilog2()) && address.is_multiple_of(BUFFER_ALIGNMENT_BYTES);
        require(is_legal, CommandStatus::Unmapped)?;
        let mut context = vec![0; bytes];
        memory.read(address, &mut context)?;
        Ok((address, context))
    }

    /// What changes at a window's parent when the window at this MPT index goes away; refuses to touch a region that windows
    /// are bound to.
    fn release(
        &self,
        memory: &impl MemoryMut,
        object: Object,
        address: u64,
        context: &[u8],
        changes: &mut Changes,
    ) -> Result<(), CommandStatus> {
        let (Table::Mpt, Ok(bytes)) = (object.table, context.try_into()) else { return Ok(()) };
        let place = Place { index: object.index, address, entry: crate::MptEntry::from_bytes(bytes) };
        require(!place.has_windows(), CommandStatus::WindowsBound)?;
        if let Some(key) = place.parent_key() {
            self.release_parent(memory, object.function, key, changes);
        }
        Ok(())
    }

    fn create(&self, memory: &mut impl MemoryMut, object: Object, buffer: u64) -> Result<(), CommandStatus> {
        let (address, old) = self.read_context(memory, object, Some(buffer))?;
        let mut new = vec![0; old.len()];
        memory.read(buffer, &mut new)?;
        let mut changes = Changes::default();
        self.release(memory, object, address, &old, &mut changes)?;
        changes.write(address, &old, &new);
        Ok(changes.apply(memory)?)
    }

    fn modify(&self, memory: &mut impl MemoryMut, object: Object, buffer: u64) -> Result<(), CommandStatus> {
        let (address, old) = self.read_context(memory, object, Some(buffer))?;
        let mut given = vec![0; 2 * old.len()];
        memory.read(buffer, &mut given)?;
        let (context, mask) = given.split_at(old.len());
        let bytes = old.iter().zip(context).zip(mask);
        let new: Vec<u8> = bytes.map(|((old, new), mask)| old & mask | new & !mask).collect();
        Ok(memory.write(address, &new)?)
    }

    fn query(&self, memory: &mut impl MemoryMut, object: Object, buffer: u64) -> Result<(), CommandStatus> {
        let (_, context) = self.read_context(memory, object, Some(buffer))?;
        Ok(memory.write(buffer, &context)?)
    }

    fn destroy(&self, memory: &mut impl MemoryMut, object: Object) -> Result<(), CommandStatus> {
        let (address, old) = self.read_context(memory, object, None)?;
        let mut changes = Changes::default();
        self.release(memory, object, address, &old, &mut changes)?;
        let mut new = old.clone();
        new[0] &= !(STATE.max() as u8);
        changes.write(address, &old, &new);
        Ok(changes.apply(memory)?)
    }
}
