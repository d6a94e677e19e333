//! The host's part in a replay: memory, pointers, mailbox buffers (contract section 3; vectors' README).

use std::collections::{HashMap, HashSet};

use keywalk_contract::command::Action;
use keywalk_contract::hem::PAGE_SHIFT_MIN;
use keywalk_contract::{MailboxCommand, Table};
use keywalk_image::{PAGE_BYTES, SparseMemory};
use keywalk_model::{Geometry, TableSet};

use super::event::{Event, EventLog};
use crate::vector::{ContextTable, Vector};

/// An object of each BT0 slot of a table, the first that is looked for there; none of a slot that no object has.
pub fn first_objects(table: &ContextTable) -> impl Iterator<Item = (u32, u32)> {
    let chunk_objects = (PAGE_BYTES << table.buf_pg_sz) / u64::from(table.entry_size);
    let entries = (PAGE_BYTES << table.ba_pg_sz) / 8;
    let objects = u128::from(chunk_objects.max(1)) * u128::from(entries).pow(table.hop);
    (0..table.bt_num).filter_map(move |slot| Some((slot, u32::try_from(u128::from(slot) * objects).ok()?)))
}

/// The host.
#[derive(Debug)]
pub struct Host<'a> {
    vector: &'a Vector,
    /// The pages that BT0 slots hold, as the host has sent them and the device has taken them.
    bt0: HashMap<(Table, u64), u64>,
}

/// What the host changed before it told the device of a page, as it was before.
#[derive(Debug)]
pub enum Before {
    /// What it had sent for a BT0 slot.
    Slot(Table, u64, Option<u64>),
    /// A pointer in memory, by its bus address.
    Pointer(u64, u64),
}

/// Level indices of an object: of BT0, then of each BA page.
fn level_indices(table: &ContextTable, object: u32) -> Vec<u64> {
    let chunk_bytes = PAGE_BYTES << table.buf_pg_sz;
    let entries = (PAGE_BYTES << table.ba_pg_sz) / 8;
    let mut rest = u64::from(object) / (chunk_bytes / u64::from(table.entry_size)).max(1);
    let mut indices = Vec::new();
    for _ in 0..table.hop {
        indices.push(rest % entries);
        rest /= entries;
    }
    indices.push(rest % u64::from(table.bt_num));
    indices.reverse();
    indices
}

impl<'a> Host<'a> {
    /// A host with the tables of a vector, none of which the device knows yet.
    pub fn new(vector: &'a Vector) -> Self {
        Self { vector, bt0: HashMap::new() }
    }

    fn table(&self, table: Table) -> Option<&'a ContextTable> {
        self.vector.hem.tables().find(|(name, _)| *name == table).map(|(_, described)| described)
    }

    /// What registers say and commands do not: entry sizes, bt_num, number of MPT entries.
    pub fn registers(&self) -> TableSet {
        let mut set = TableSet { num_mpts_log2: self.vector.num_mpts_log2, ..TableSet::default() };
        for (table, described) in self.vector.hem.tables() {
            set.table_mut(table).geometry = Geometry {
                entry_bytes_log2: described.entry_size.ilog2() as u8,
                bt_num: described.bt_num,
                ..Geometry::default()
            };
        }
        set
    }

    /// Memory before the first event: everything that is ever backed, with the content of the final image but for what
    /// commands are going to bring, which is zero.
    pub fn memory_at_start(&self, log: &EventLog) -> SparseMemory {
        let mut memory = SparseMemory::new();
        for region in &self.vector.image {
            memory.back(region.addr.0, region.size);
        }
        for event in &log.events {
            if let Event::Free(free) = event {
                memory.back(free.addr.0, free.size);
            }
        }
        for (address, bytes) in self.vector.image.iter().flat_map(|region| region.pieces()) {
            // The image is backed as a whole.
            let _ = memory.write(address, &bytes);
        }
        let commands = || {
            log.events.iter().filter_map(|event| match event {
                Event::Mailbox(mailbox) => Some((mailbox, MailboxCommand::from_code(mailbox.cmd)?)),
                _ => None,
            })
        };
        let is_written = |action| matches!(action, Action::Create | Action::Modify);
        let mut written: HashSet<Table> =
            commands().filter(|(_, command)| is_written(command.action)).map(|(_, command)| command.table).collect();
        written.insert(Table::Mpt);
        for (mailbox, command) in commands() {
            let Action::WriteBt { step } = command.action else { continue };
            let Some(bytes) = self.bytes_brought(command.table, step, &written) else { continue };
            for offset in (0..bytes).step_by(PAGE_BYTES as usize) {
                let page = mailbox.input.0.saturating_add(offset);
                if memory.is_backed(page) {
                    let _ = memory.write(page & !(PAGE_BYTES - 1), &[0; PAGE_BYTES as usize]);
                }
            }
        }
        memory
    }

    /// Bytes of a page that starts as zero, because commands bring what is in it: the pointers of a BA page, where each is
    /// announced (those of SCCC and the timers are not), and the entries of the tables in `written`. Of others the host has
    /// filled the entries itself, to recognise them.
    fn bytes_brought(&self, table: Table, step: u8, written: &HashSet<Table>) -> Option<u64> {
        let described = self.table(table)?;
        let is_announced = matches!(table, Table::Qpc | Table::Mpt | Table::Cqc | Table::Srqc);
        if u32::from(step) < described.hop {
            is_announced.then_some(PAGE_BYTES << described.ba_pg_sz)
        } else {
            written.contains(&table).then_some(PAGE_BYTES << described.buf_pg_sz)
        }
    }

    /// Slot that a BT0 command about an object means.
    fn slot(described: &ContextTable, table: Table, object: u32) -> u64 {
        // The tag of SCCC is the slot itself.
        if table == Table::Sccc {
            u64::from(object) % u64::from(described.bt_num)
        } else {
            level_indices(described, object)[0]
        }
    }

    /// Puts the address of a new page where the level above it looks for it. Of step 0 that is the device's slot, and the
    /// host only remembers it. Gives what was there before, for [`Host::take_back`].
    pub fn link(
        &mut self,
        memory: &mut SparseMemory,
        table: Table,
        step: u8,
        object: u32,
        address: u64,
    ) -> Option<Before> {
        let described = self.table(table)?;
        let slot = Self::slot(described, table, object);
        if step == 0 {
            return Some(Before::Slot(table, slot, self.bt0.insert((table, slot), address)));
        }
        let indices = level_indices(described, object);
        let mut page = self.bt0.get(&(table, slot)).copied()?;
        for index in indices.iter().skip(1).take(usize::from(step) - 1) {
            page = memory.read_u64(page + 8 * index).ok()?;
        }
        let pointer = page + 8 * indices.get(usize::from(step))?;
        // Where the page is not backed, the device's lookups fail and say so.
        let before = memory.read_u64(pointer).ok()?;
        memory.write_u64(pointer, address).ok()?;
        Some(Before::Pointer(pointer, before))
    }

    /// Undoes a link: the device has refused the page, and what it has cached is that from before.
    pub fn take_back(&mut self, memory: &mut SparseMemory, before: Before) {
        match before {
            Before::Slot(table, slot, Some(address)) => {
                self.bt0.insert((table, slot), address);
            }
            Before::Slot(table, slot, None) => {
                self.bt0.remove(&(table, slot));
            }
            Before::Pointer(pointer, address) => {
                // It was read and written just now.
                let _ = memory.write_u64(pointer, address);
            }
        }
    }

    /// Forgets a slot.
    pub fn unlink(&mut self, table: Table, object: u32) {
        if let Some(described) = self.table(table) {
            self.bt0.remove(&(table, Self::slot(described, table, object)));
        }
    }

    /// The slots of a table that the device has taken an address for, in order.
    pub fn slots(&self, table: Table) -> Vec<(u32, u64)> {
        let of_table = self.bt0.iter().filter(|((name, _), _)| *name == table);
        let mut slots: Vec<_> = of_table.map(|((_, slot), address)| (*slot as u32, *address)).collect();
        slots.sort_unstable();
        slots
    }

    /// Backs a mailbox buffer that an event gives the content of, and fills it for a command that reads it. Gives the pages
    /// that are the buffer's alone.
    pub fn lend(&self, memory: &mut SparseMemory, buffer: u64, context: &[u8], is_query: bool) -> Vec<u64> {
        if context.is_empty() {
            return Vec::new();
        }
        let Some(end) = buffer.checked_add(context.len() as u64 - 1) else { return Vec::new() };
        let pages = (buffer >> PAGE_SHIFT_MIN..=end >> PAGE_SHIFT_MIN).map(|page| page << PAGE_SHIFT_MIN);
        let own: Vec<u64> = pages.filter(|page| !memory.is_backed(*page)).collect();
        memory.back(buffer, context.len() as u64);
        if !is_query {
            // It was backed just now.
            let _ = memory.write(buffer, context);
        }
        own
    }
}
