//! The self-test on a card that is the golden model behind registers, and on such cards with a fault each, which it must find.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use keywalk_contract::command::{self, Opcode};
use keywalk_contract::ports::fault;
use keywalk_contract::probe::{self, BUFFER_BYTES, BUFFER_OFFSET};
use keywalk_contract::regs::{self, ARRAYS, ArrayName, COUNTERS, COUNTERS_OFFSET, interrupt_status};
use keywalk_contract::{
    CommandStatus, Field, MailboxCommand, MoverStatus, Operation, Status, Table, command::Action, mpt_entry,
};
use keywalk_host::probe::Atomic;
use keywalk_host::self_test::{self, Report};
use keywalk_host::tables::{OBJECT_COUNT, Tables};
use keywalk_host::{Card, Error, Host, Memory, PROBE_OFFSET};
use keywalk_image::{RegionDescription, RegionKind};
use keywalk_model::{BusError, Descriptor, Device, Engine, MemoryMut, Request, TableSet, WorkRequest};

/// Events that wait at most.
const WAITING_MAX: usize = 2;
/// Latency of every request.
const CYCLES: u32 = 77;
/// Pending interrupts.
const FAULT: u32 = 1 << interrupt_status::FAULT.low;
const FAULT_LOST: u32 = 1 << interrupt_status::FAULT_LOST.low;
const COMMAND: u32 = 1 << interrupt_status::COMMAND.low;
/// Where the memory lies.
const ROOM: Range<u64> = 0x12_3460_0000..0x12_3480_0000;

/// What a faulty card does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Planted {
    /// Nothing wrong.
    #[default]
    Nothing,
    /// The last byte of a write is not written.
    ShortWrite,
    /// A write that was refused is carried out at the region's last page.
    WritesRefused,
    /// A byte beside a write is changed.
    WritesBeside,
    /// Data of reads has a wrong bit.
    WrongRead,
    /// Fetch and add does not write.
    LostAdd,
    /// Compare and swap always writes.
    AlwaysSwaps,
    /// The variant of a key is not looked at.
    AnyVariant,
    /// The protection domain is not looked at.
    AnyDomain,
    /// DESTROY_MPT answers and does nothing.
    KeepsEntry,
    /// CREATE_MPT forgets the high half of the first address.
    HalfEntry,
    /// Events are lost.
    LosesEvents,
    /// Requests are counted twice.
    CountsTwice,
    /// LOCAL_INV answers and does nothing.
    KeepsKey,
    /// The mailbox does not end.
    HangingMailbox,
    /// Requests do not end.
    HangingRequest,
    /// Data of refused reads is not empty.
    LeaksData,
    /// BT0 slots cannot be unset.
    KeepsSlots,
    /// A page that was found is remembered after its region is gone.
    StaleTranslations,
    /// The first pointer of a page table is remembered after its region is gone.
    StalePointers,
    /// Hold mode cannot be switched on.
    NeverHolds,
    /// Hold mode cannot be switched off.
    AlwaysHolds,
    /// A write changes a byte among the tables, besides.
    WritesTables,
    /// A mailbox command changes a byte behind its buffer.
    WritesBuffers,
    /// Old values of atomics have their bytes in another order.
    SwapsOldValue,
    /// What atomics write has its bytes in another order.
    SwapsNewValue,
    /// Fetch and add adds twice.
    AddsTwice,
    /// Writes begin a byte too late.
    WritesLate,
    /// Reads do not need a right.
    AnyReader,
    /// The end of a request is not looked at where it wraps.
    Wraps,
    /// A request of no bytes is looked up.
    LooksUpNothing,
    /// Data of refused reads looks good.
    RefusalsLookGood,
    /// No clock cycles are counted.
    NoCycles,
    /// Outcomes are another function's.
    OtherFunction,
    /// Events name another function.
    OtherFunctionsEvents,
    /// Events have no index.
    EventsWithoutIndex,
    /// Events have no address.
    EventsWithoutAddress,
    /// Events name another read.
    EventsOfAnotherRead,
    /// An event comes twice.
    EventsTwice,
    /// Lost events are not counted.
    LosesUncounted,
    /// The oldest event is lost where there is no room, not the newest.
    LosesOldest,
    /// Events raise no interrupt.
    SilentEvents,
    /// Lost events raise no interrupt.
    SilentLoss,
    /// Commands raise no interrupt.
    SilentCommands,
    /// Commands that look into a table in vain raise no event.
    SilentCommandErrors,
    /// Every command raises an interrupt.
    LoudCommands,
    /// Pending interrupts stay.
    StuckInterrupts,
    /// Clearing one interrupt clears all.
    ClearsAllInterrupts,
    /// Statuses are counted at the next one.
    CountsOtherStatus,
    /// Requests are counted for the next function.
    CountsOtherFunction,
    /// Responses of a latency are not counted.
    CountsNoLatency,
    /// The high half of a counter is its low half.
    CountsHighHalf,
    /// Commands succeed whatever they ask for.
    AnyCommand,
    /// Commands that fail are carried out at the next legal address.
    RoundsAddresses,
    /// Work requests of users are carried out.
    AnyQueue,
    /// Work requests succeed whatever they ask for.
    AnyWork,
    /// The size of pages is not looked at.
    SmallPages,
    /// Zero-based regions are not known.
    NoZeroBase,
    /// Windows are anybody's.
    AnyQueuePair,
    /// Windows reach as far as their region.
    WideWindows,
    /// Regions with windows can be destroyed.
    DestroysParents,
}

/// All of them but [`Planted::Nothing`].
const FAULTS: &[Planted] = &[
    Planted::ShortWrite,
    Planted::WritesRefused,
    Planted::WritesBeside,
    Planted::WrongRead,
    Planted::LostAdd,
    Planted::AlwaysSwaps,
    Planted::AnyVariant,
    Planted::AnyDomain,
    Planted::KeepsEntry,
    Planted::HalfEntry,
    Planted::LosesEvents,
    Planted::CountsTwice,
    Planted::KeepsKey,
    Planted::HangingMailbox,
    Planted::HangingRequest,
    Planted::LeaksData,
    Planted::KeepsSlots,
    Planted::StaleTranslations,
    Planted::StalePointers,
    Planted::NeverHolds,
    Planted::AlwaysHolds,
    Planted::WritesTables,
    Planted::WritesBuffers,
    Planted::SwapsOldValue,
    Planted::SwapsNewValue,
    Planted::AddsTwice,
    Planted::WritesLate,
    Planted::AnyReader,
    Planted::Wraps,
    Planted::LooksUpNothing,
    Planted::RefusalsLookGood,
    Planted::NoCycles,
    Planted::OtherFunction,
    Planted::OtherFunctionsEvents,
    Planted::EventsWithoutIndex,
    Planted::EventsWithoutAddress,
    Planted::EventsOfAnotherRead,
    Planted::EventsTwice,
    Planted::LosesUncounted,
    Planted::LosesOldest,
    Planted::SilentEvents,
    Planted::SilentLoss,
    Planted::SilentCommands,
    Planted::SilentCommandErrors,
    Planted::LoudCommands,
    Planted::StuckInterrupts,
    Planted::ClearsAllInterrupts,
    Planted::CountsOtherStatus,
    Planted::CountsOtherFunction,
    Planted::CountsNoLatency,
    Planted::CountsHighHalf,
    Planted::AnyCommand,
    Planted::RoundsAddresses,
    Planted::AnyQueue,
    Planted::AnyWork,
    Planted::SmallPages,
    Planted::NoZeroBase,
    Planted::AnyQueuePair,
    Planted::WideWindows,
    Planted::DestroysParents,
];

struct Bytes(Vec<u8>);

impl Bytes {
    fn at(&self, address: u64, length: usize) -> Result<Range<usize>, BusError> {
        let end = address.checked_add(length as u64).ok_or(BusError)?;
        if address < ROOM.start || end > ROOM.end {
            return Err(BusError);
        }
        let first = (address - ROOM.start) as usize;
        Ok(first..first + length)
    }
}

impl keywalk_model::Memory for Bytes {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        bytes.copy_from_slice(&self.0[self.at(address, bytes.len())?]);
        Ok(())
    }
}

impl MemoryMut for Bytes {
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), BusError> {
        let range = self.at(address, bytes.len())?;
        self.0[range].copy_from_slice(bytes);
        Ok(())
    }
}

impl Memory for Bytes {
    fn room(&self) -> Range<u64> {
        ROOM
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let length = bytes.len();
        keywalk_model::Memory::read(self, address, bytes).map_err(|_| Error::OutsideMemory { address, length })
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        MemoryMut::write(self, address, bytes).map_err(|_| Error::OutsideMemory { address, length: bytes.len() })
    }
}

/// The model behind registers.
struct ModelCard {
    planted: Planted,
    memory: Bytes,
    device: Device,
    registers: HashMap<u32, u32>,
    buffer: Vec<u8>,
    /// By offset.
    counters: HashMap<u32, u64>,
    faults: VecDeque<[u8; 16]>,
    interrupts: u32,
    /// What was found first: by region and page of its addresses a page, by place a pointer.
    found: HashMap<(u32, u64), u64>,
    pointers: HashMap<u64, [u8; 8]>,
    /// How the last command ended, where that is not the model's answer.
    forged_status: Option<u32>,
    mailbox_hangs: bool,
    /// Bits of tags and functions that are kept.
    name_bits: u32,
}

fn field(value: u32, field: &Field) -> u64 {
    field.get(&value.to_le_bytes())
}

impl ModelCard {
    fn new(planted: Planted) -> Self {
        Self {
            planted,
            memory: Bytes(vec![0xee; (ROOM.end - ROOM.start) as usize]),
            device: Device::new(Engine::new(vec![TableSet::default()])),
            registers: HashMap::from([(PROBE_OFFSET + probe::probe_id::REGISTER.offset, probe::ID)]),
            buffer: vec![0; BUFFER_BYTES as usize],
            counters: HashMap::new(),
            faults: VecDeque::new(),
            interrupts: 0,
            found: HashMap::new(),
            pointers: HashMap::new(),
            forged_status: None,
            mailbox_hangs: false,
            name_bits: 0xff_ffff,
        }
    }

    fn get(&self, offset: u32) -> u32 {
        self.registers.get(&offset).copied().unwrap_or(0)
    }

    fn probe(&self, register: &regs::Register) -> u32 {
        self.get(PROBE_OFFSET + register.offset)
    }

    fn set_probe(&mut self, register: &regs::Register, value: u32) {
        self.registers.insert(PROBE_OFFSET + register.offset, value);
    }

    fn pair(&self, low: &regs::Register) -> u64 {
        let at = |offset| u64::from(self.get(PROBE_OFFSET + offset));
        at(low.offset + 4) << 32 | at(low.offset)
    }

    fn count(&mut self, name: &str, times: u64) {
        let counter = COUNTERS.iter().find(|counter| counter.name == name).expect("the counter exists");
        *self.counters.entry(counter.offset).or_default() += times;
    }

    fn count_in(&mut self, array: ArrayName, element: u32) {
        *self.counters.entry(ARRAYS[array as usize].offset_of(element)).or_default() += 1;
    }

    /// Address of the entry of an index, by its key in memory.
    fn entry_address(&self, index: u32) -> Option<u64> {
        (ROOM.start + 0x5000..ROOM.end).step_by(64).find(|at| {
            let mut entry = [0; 64];
            keywalk_model::Memory::read(&self.memory, *at, &mut entry).is_ok()
                && mpt_entry::LKEY.get(&entry) as u32 >> 8 == index
                && mpt_entry::PD.get(&entry) >> 20 != 0
                && mpt_entry::VA.get(&entry) >> 32 != 0
        })
    }

    /// Puts the first pointer of a region's page table to what it was when it was seen first; what is there now.
    fn age_pointer(&mut self, index: u32) -> Option<(u64, [u8; 8])> {
        let mut entry = [0; 64];
        let address = self.entry_address(index)?;
        keywalk_model::Memory::read(&self.memory, address, &mut entry).ok()?;
        let root = mpt_entry::PBL_BA.get(&entry) << 3;
        let mut now = [0; 8];
        keywalk_model::Memory::read(&self.memory, root, &mut now).ok()?;
        if mpt_entry::PBL_HOP_NUM.get(&entry) < 2 || mpt_entry::FRE.get(&entry) == 1 {
            return None;
        }
        let first = *self.pointers.entry(root).or_insert(now);
        MemoryMut::write(&mut self.memory, root, &first).ok()?;
        Some((root, now))
    }

    /// Clears a field of an entry; what was there.
    fn clear_field(&mut self, index: u32, field: &Field) -> Option<(u64, [u8; 64])> {
        let address = self.entry_address(index)?;
        let mut entry = [0; 64];
        keywalk_model::Memory::read(&self.memory, address, &mut entry).ok()?;
        let mut changed = entry;
        field.put(&mut changed, 0).ok()?;
        MemoryMut::write(&mut self.memory, address, &changed).ok()?;
        Some((address, entry))
    }

    fn commit_table(&mut self) {
        use regs::{table_geometry as geometry, table_object_count, table_select};
        let table = field(self.get(table_select::REGISTER.offset), &table_select::TABLE);
        let shape = self.get(geometry::REGISTER.offset);
        let count = self.get(table_object_count::REGISTER.offset);
        let Some(table) = Table::from_code(table as u8) else { return };
        let of = &mut self.device.engine.table_sets[0].table_mut(table).geometry;
        of.hop = field(shape, &geometry::HOP_NUM) as u8;
        of.ba_pg_sz = field(shape, &geometry::BA_PG_SZ) as u8;
        of.buf_pg_sz = field(shape, &geometry::BUF_PG_SZ) as u8;
        of.entry_bytes_log2 = field(shape, &geometry::ENTRY_BYTES_LOG2) as u8;
        of.bt_num = field(shape, &geometry::BT_NUM) as u32;
        of.object_count = count;
    }

    fn start(&mut self, value: u32) {
        self.forged_status = None;
        let mut data: [u32; command::DATA_WORDS] =
            std::array::from_fn(|word| self.get(command::REGISTERS[word].offset));
        let opcode = field(value, &command::command_start::OPCODE) as u16;
        let function = field(value, &command::command_start::FUNCTION) as u8;
        let code = data[4] as u8;
        let is_mailbox = opcode == Opcode::PostMailbox as u16;
        self.mailbox_hangs |= is_mailbox && self.planted == Planted::HangingMailbox;
        let is_skipped = match self.planted {
            Planted::KeepsEntry => code == 0x0f,
            Planted::KeepsSlots => code == 0x28,
            _ => false,
        };
        let rounds = |word: u32| if is_mailbox { word & !0xfff } else { word };
        if self.planted == Planted::RoundsAddresses {
            data[0] = rounds(data[0]);
        }
        if is_mailbox && is_skipped {
            // A query instead, which succeeds and changes nothing.
            data[2] = ROOM.start as u32 + 0x1000;
            data[3] = (ROOM.start >> 32) as u32;
            data[4] = data[4] & !0xff | 0x62;
        }
        self.device.start(&Descriptor { opcode, function, data });
        if let Some(completion) = self.device.run(&mut self.memory) {
            let is_quiet = self.planted == Planted::SilentCommands;
            let is_loud = self.planted == Planted::LoudCommands;
            if completion.event && !is_quiet || is_loud {
                self.interrupts |= COMMAND;
            }
            let is_forged = match self.planted {
                Planted::AnyCommand => true,
                Planted::DestroysParents => completion.status == CommandStatus::WindowsBound,
                _ => false,
            };
            self.forged_status = is_forged.then(|| CommandStatus::Ok.code().into());
            let geometry = self.device.engine.table_sets[0].table_mut(Table::Mpt).geometry;
            let failed = match completion.status {
                CommandStatus::IndexOutOfRange => Some((Status::IndexOutOfRange, 0)),
                CommandStatus::Unmapped if geometry.hop == 0 => Some((Status::Bt0Unset, 0)),
                CommandStatus::Unmapped => Some((Status::HemPointerZero, geometry.hop)),
                _ => None,
            };
            if let Some((status, hop)) = failed.filter(|_| self.planted != Planted::SilentCommandErrors) {
                let mut event = [0; 16];
                let fields = [
                    (fault::FUNCTION, u64::from(function)),
                    (fault::STATUS, status.code().into()),
                    (fault::TABLE, Table::Mpt.code().into()),
                    (fault::HOP, hop.into()),
                    (fault::IS_CONTEXT, 1),
                    (fault::INDEX, (data[4] >> 8).into()),
                ];
                for (field, value) in fields {
                    field.put(&mut event, value).expect("it fits");
                }
                self.report(event);
            }
            let action = MailboxCommand::from_code(code).map(|command| command.action);
            if self.planted == Planted::WritesBuffers && action == Some(Action::Query) {
                let buffer = u64::from(data[3]) << 32 | u64::from(data[2]);
                let _ = MemoryMut::write(&mut self.memory, buffer + 64, &[1]);
            }
        }
        if is_mailbox
            && code == 0x0d
            && self.planted == Planted::HalfEntry
            && let Some(at) = self.entry_address(data[4] >> 8)
        {
            let _ = MemoryMut::write(&mut self.memory, at + 32, &[0; 4]);
        }
    }

    fn go(&mut self) {
        let asked = self.probe(&probe::probe_request::REGISTER) & (0xff00_0000 | self.name_bits);
        let mut request = Request {
            tag: field(asked, &probe::probe_request::TAG) as u16,
            function: field(asked, &probe::probe_request::FUNCTION) as u8,
            operation: field(asked, &probe::probe_request::OPERATION) as u8,
            key: self.probe(&probe::probe_key::REGISTER),
            pd: self.probe(&probe::probe_pd::REGISTER),
            qpn: self.probe(&probe::probe_qpn::REGISTER),
            va: self.pair(&probe::probe_va_low::REGISTER),
            length: self.probe(&probe::probe_length::REGISTER),
        };
        let index = self.device.engine.table_sets[0].mpt_index(request.key);
        let aged = if self.planted == Planted::StalePointers { self.age_pointer(index) } else { None };
        let cleared = match self.planted {
            Planted::SmallPages => self.clear_field(index, &mpt_entry::PBL_BUF_PG_SZ),
            Planted::NoZeroBase => self.clear_field(index, &mpt_entry::ZBVA),
            _ => None,
        };
        let mut response = self.device.engine.translate(&self.memory, &request);
        if let Some((address, entry)) = cleared {
            let _ = MemoryMut::write(&mut self.memory, address, &entry);
        }
        if let Some((root, now)) = aged {
            let _ = MemoryMut::write(&mut self.memory, root, &now);
        }
        let mut retry = |wanted: Status, change: &dyn Fn(&mut Request, u32)| {
            for value in 0..256u32 {
                if response.status() == wanted {
                    change(&mut request, value);
                    response = self.device.engine.translate(&self.memory, &request);
                }
            }
        };
        match self.planted {
            Planted::AnyVariant => {
                retry(Status::EntryKey, &|request, variant| request.key = request.key & !0xff | variant)
            }
            Planted::AnyQueuePair => retry(Status::WindowQueuePair, &|request, _| request.qpn = 7),
            Planted::WideWindows if index == 0x47 => retry(Status::Bounds, &|request, _| {
                (request.key, request.pd) = (0xc7 << 8 | (0xc7 ^ 0x5a), 0x10_00c7);
            }),
            Planted::AnyDomain => retry(Status::ProtectionDomain, &|request, _| request.pd ^= 1),
            Planted::AnyReader => retry(Status::AccessRight, &|request, _| {
                if Operation::from_code(request.operation) == Some(Operation::RemoteRead) {
                    request.operation = Operation::LocalRead.code();
                }
            }),
            Planted::Wraps => retry(Status::Bounds, &|request, _| {
                if request.va.checked_add(request.length.into()).is_none() {
                    request.length = 0;
                }
            }),
            Planted::LooksUpNothing if request.length == 0 => {
                response = self.device.engine.translate(&self.memory, &Request { length: 1, ..request });
            }
            _ => {}
        }
        let beats = response.beats(&request);
        let last = beats.last().expect("a response has a beat");
        let operation = Operation::from_code(request.operation);
        let is_ok = last.status == Status::Ok;
        let mut addresses = Vec::new();
        for beat in &beats {
            addresses.extend((0..u64::from(beat.length)).map(|byte| beat.pa + byte));
        }
        // Of the regions that are given other pages.
        if self.planted == Planted::StaleTranslations && [0x45, 0x83, 0xc7].contains(&index) {
            for (at, address) in addresses.iter_mut().enumerate() {
                let page = *self.found.entry((index, (request.va + at as u64) >> 12)).or_insert(*address >> 12);
                *address = page << 12 | *address & 0xfff;
            }
        }
        if self.planted == Planted::WritesLate && operation == Some(Operation::RemoteWrite) {
            let by = usize::from(addresses.len() == 40);
            addresses.rotate_left(by);
        }
        if self.planted == Planted::WritesRefused && last.status == Status::Bounds {
            addresses = (0..8).map(|byte| ROOM.end - 8 + byte).collect();
        }
        let mut bytes = 0;
        match operation {
            Some(Operation::LocalWrite | Operation::RemoteWrite) => {
                let count = addresses.len() - usize::from(self.planted == Planted::ShortWrite && !addresses.is_empty());
                for (at, address) in addresses[..count].iter().enumerate() {
                    let _ = MemoryMut::write(&mut self.memory, *address, &[self.buffer[at]]);
                }
                if self.planted == Planted::WritesTables && is_ok {
                    // Behind the tables and before the data.
                    let _ = MemoryMut::write(&mut self.memory, ROOM.end - 0x1_0001, &[request.tag as u8]);
                }
                if self.planted == Planted::WritesBeside && is_ok {
                    let _ = MemoryMut::write(&mut self.memory, ROOM.end - 1, &[request.tag as u8]);
                }
            }
            Some(Operation::LocalRead | Operation::RemoteRead) => {
                for (at, address) in addresses.iter().enumerate() {
                    let _ = keywalk_model::Memory::read(&self.memory, *address, &mut self.buffer[at..=at]);
                }
                bytes = addresses.len();
                if self.planted == Planted::WrongRead && bytes > 0 {
                    self.buffer[bytes - 1] ^= 0x10;
                }
                if self.planted == Planted::LeaksData && !is_ok {
                    bytes = 4;
                }
            }
            Some(Operation::RemoteAtomic) if is_ok => {
                let mut old = [0; 8];
                let _ = keywalk_model::Memory::read(&self.memory, last.pa, &mut old);
                self.buffer[..8].copy_from_slice(&old);
                if self.planted == Planted::SwapsOldValue {
                    self.buffer[..8].reverse();
                }
                bytes = 8;
                let old = u64::from_le_bytes(old);
                let value = self.pair(&probe::probe_value_low::REGISTER);
                let atomic = if field(asked, &probe::probe_request::IS_SWAP) == 1 {
                    Atomic::Swap { compare: self.pair(&probe::probe_compare_low::REGISTER), value }
                } else {
                    Atomic::Add(value)
                };
                let new = match atomic {
                    Atomic::Add(_) if self.planted == Planted::LostAdd => old,
                    Atomic::Add(value) if self.planted == Planted::AddsTwice => {
                        old.wrapping_add(value).wrapping_add(value)
                    }
                    Atomic::Add(value) => old.wrapping_add(value),
                    Atomic::Swap { compare, value } if compare == old || self.planted == Planted::AlwaysSwaps => value,
                    Atomic::Swap { .. } => old,
                };
                let new = if self.planted == Planted::SwapsNewValue { new.swap_bytes() } else { new };
                let _ = MemoryMut::write(&mut self.memory, last.pa, &new.to_le_bytes());
            }
            _ => {}
        }
        let mover = if is_ok { MoverStatus::Ok } else { MoverStatus::Refused };
        let is_bad = !is_ok && self.planted != Planted::RefusalsLookGood;
        self.set_probe(
            &probe::probe_result::REGISTER,
            u32::from(mover.code()) | u32::from(last.status.code()) << 8 | u32::from(is_bad) << 16,
        );
        let other = u32::from(self.planted == Planted::OtherFunction) << 16;
        self.set_probe(&probe::probe_result_name::REGISTER, (asked & 0xff_ffff) ^ other);
        self.set_probe(&probe::probe_result_bytes::REGISTER, bytes as u32);
        let cycles = if self.planted == Planted::NoCycles { 0 } else { CYCLES };
        self.set_probe(&probe::probe_result_cycles::REGISTER, cycles);
        self.count("requests", 1 + u64::from(self.planted == Planted::CountsTwice));
        self.count("errors", u64::from(!is_ok));
        let status = u32::from(last.status.code()) + u32::from(self.planted == Planted::CountsOtherStatus);
        self.count_in(ArrayName::Statuses, status.min(Status::ALL.len() as u32 - 1));
        if self.planted != Planted::CountsNoLatency {
            self.count_in(ArrayName::Latencies, CYCLES.ilog2());
        }
        let array = if is_ok { ArrayName::FunctionSuccesses } else { ArrayName::FunctionErrors };
        let function = u32::from(request.function) + u32::from(self.planted == Planted::CountsOtherFunction);
        self.count_in(array, function);
        if last.status.names_a_table() && self.planted != Planted::LosesEvents {
            let mut event = [0; 16];
            let function = request.function ^ u8::from(self.planted == Planted::OtherFunctionsEvents);
            let hop = last.hop ^ u8::from(self.planted == Planted::EventsOfAnotherRead);
            // What is not there lies in the last page of a request, if it is of a page table.
            let page = request.va.wrapping_add(u64::from(request.length) - 1) & !0xfff;
            let va = if last.status == Status::MtrNotPresent { request.va.max(page) } else { request.va };
            let fields = [
                (fault::TAG, u64::from(request.tag)),
                (fault::FUNCTION, function.into()),
                (fault::STATUS, last.status.code().into()),
                (fault::TABLE, last.table.into()),
                (fault::HOP, hop.into()),
                (fault::INDEX, if self.planted == Planted::EventsWithoutIndex { 0 } else { index.into() }),
                (fault::VA, if self.planted == Planted::EventsWithoutAddress { 0 } else { va }),
            ];
            for (field, value) in fields {
                field.put(&mut event, value).expect("it fits");
            }
            for _ in 0..=u32::from(self.planted == Planted::EventsTwice) {
                self.report(event);
            }
        }
    }

    /// An event comes, or is lost.
    fn report(&mut self, event: [u8; 16]) {
        if self.faults.len() == WAITING_MAX {
            if self.planted != Planted::LosesUncounted {
                self.count("faults_lost", 1);
            }
            if self.planted != Planted::SilentLoss {
                self.interrupts |= FAULT_LOST;
            }
            if self.planted == Planted::LosesOldest {
                self.faults.pop_front();
                self.faults.push_back(event);
            }
            return;
        }
        self.faults.push_back(event);
        self.count("faults", 1);
        if self.planted != Planted::SilentEvents {
            self.interrupts |= FAULT;
        }
    }

    fn go_work(&mut self) {
        let name = self.probe(&probe::probe_work::REGISTER);
        let mut wqe = [0; 64];
        for (word, bytes) in (0..).zip(wqe.chunks_mut(4)) {
            bytes.copy_from_slice(&self.get(PROBE_OFFSET + probe::work_offset(word)).to_le_bytes());
        }
        let request = WorkRequest {
            tag: field(name, &probe::probe_work::TAG) as u16,
            function: field(name, &probe::probe_work::FUNCTION) as u8,
            privileged: field(name, &probe::probe_work::PRIVILEGED) == 1 || self.planted == Planted::AnyQueue,
            pd: self.probe(&probe::probe_work_pd::REGISTER),
            qpn: self.probe(&probe::probe_work_qpn::REGISTER),
            wqe,
        };
        let is_skipped = self.planted == Planted::KeepsKey && wqe[0] & 0x1f == 0x0b;
        let status = if is_skipped { 0 } else { self.device.work(&mut self.memory, &request).status.code() };
        let status = if self.planted == Planted::AnyWork { 0 } else { status };
        self.set_probe(&probe::probe_work_result::REGISTER, status.into());
    }
}

impl Card for ModelCard {
    fn name(&self) -> String {
        "the model".into()
    }

    fn read(&mut self, offset: u32) -> Result<u32, Error> {
        if let Some(at) = offset.checked_sub(PROBE_OFFSET + BUFFER_OFFSET).filter(|at| *at < BUFFER_BYTES) {
            let (words, _) = self.buffer[at as usize..].as_chunks();
            return Ok(u32::from_le_bytes(words[0]));
        }
        if (COUNTERS_OFFSET..PROBE_OFFSET).contains(&offset) {
            let value = self.counters.get(&(offset & !7)).copied().unwrap_or(0);
            let is_high = offset & 4 != 0 && self.planted != Planted::CountsHighHalf;
            return Ok(if is_high { (value >> 32) as u32 } else { value as u32 });
        }
        let mailbox = self.device.mailbox_status();
        let fixed = [
            (regs::id::REGISTER.offset, regs::ID),
            (regs::version::REGISTER.offset, regs::VERSION),
            (regs::status::REGISTER.offset, 3),
            (interrupt_status::REGISTER.offset, self.interrupts),
            (
                command::REGISTERS[7].offset,
                self.forged_status.unwrap_or(mailbox.status.map_or(0, |status| status.code().into()))
                    | u32::from(self.mailbox_hangs) << 31,
            ),
            (command::REGISTERS[8].offset, mailbox.token.into()),
            (PROBE_OFFSET + probe::probe_version::REGISTER.offset, probe::VERSION),
            (PROBE_OFFSET + probe::probe_shape::REGISTER.offset, BUFFER_BYTES | 1 << 16),
            (
                PROBE_OFFSET + probe::probe_status::REGISTER.offset,
                u32::from(!self.faults.is_empty()) << 3 | u32::from(self.planted == Planted::HangingRequest),
            ),
        ];
        if let Some((_, value)) = fixed.iter().find(|(of, _)| *of == offset) {
            return Ok(*value);
        }
        let first = PROBE_OFFSET + probe::probe_fault_0::REGISTER.offset;
        if let (Some(word), Some(event)) = (offset.checked_sub(first).filter(|at| *at < 16), self.faults.front()) {
            let (words, _) = event[word as usize..].as_chunks();
            return Ok(u32::from_le_bytes(words[0]));
        }
        Ok(self.get(offset))
    }

    fn write(&mut self, offset: u32, value: u32) -> Result<(), Error> {
        if let Some(at) = offset.checked_sub(PROBE_OFFSET + BUFFER_OFFSET).filter(|at| *at < BUFFER_BYTES) {
            self.buffer[at as usize..at as usize + 4].copy_from_slice(&value.to_le_bytes());
            return Ok(());
        }
        if offset == interrupt_status::REGISTER.offset {
            match self.planted {
                Planted::StuckInterrupts => {}
                Planted::ClearsAllInterrupts => self.interrupts = 0,
                _ => self.interrupts &= !value,
            }
            return Ok(());
        }
        self.registers.insert(offset, value);
        if offset == regs::control::REGISTER.offset {
            self.device.engine.controls.hold_mode = match self.planted {
                Planted::NeverHolds => false,
                Planted::AlwaysHolds => true,
                _ => field(value, &regs::control::HOLD_MODE) == 1,
            };
        } else if offset == regs::table_commit::REGISTER.offset {
            self.commit_table();
        } else if offset == regs::key_space::REGISTER.offset {
            self.device.engine.table_sets[0].num_mpts_log2 = field(value, &regs::key_space::NUM_MPTS_LOG2) as u8;
        } else if offset == command::REGISTERS[6].offset {
            self.start(value);
        } else if offset == PROBE_OFFSET + probe::probe_go::REGISTER.offset {
            self.go();
        } else if offset == PROBE_OFFSET + probe::probe_work_go::REGISTER.offset {
            self.go_work();
        } else if offset == PROBE_OFFSET + probe::probe_fault_take::REGISTER.offset {
            self.faults.pop_front();
        }
        Ok(())
    }

    fn memory(&mut self) -> Result<&mut dyn Memory, Error> {
        Ok(&mut self.memory)
    }

    fn polls_max(&self) -> u32 {
        10
    }

    fn pause(&mut self) {}
}

fn test(planted: Planted, seed: u64) -> Report {
    test_card(ModelCard::new(planted), seed)
}

fn test_card(mut card: ModelCard, seed: u64) -> Report {
    let mut seen = 0;
    let report = self_test::run(&mut Host::new(&mut card), seed, &mut |_| seen += 1).expect("it can be tested");
    assert_eq!(report.checks.len(), seen);
    report
}

#[test]
fn the_model_passes() {
    for seed in 1..6 {
        let report = test(Planted::Nothing, seed);
        let failures: Vec<_> = report.checks.iter().filter(|check| check.failure.is_some()).collect();
        assert!(failures.is_empty(), "{failures:#?}");
        assert!(report.checks.len() > 120, "{} checks", report.checks.len());
        let names: std::collections::HashSet<_> = report.checks.iter().map(|check| &check.name).collect();
        assert_eq!(names.len(), report.checks.len(), "each check has a name of its own");
        assert_eq!(report.figures.iter().map(|figure| figure.cycles).collect::<Vec<_>>(), [77, 77]);
    }
}

#[test]
fn every_planted_fault_is_found() {
    let missed: Vec<_> = FAULTS.iter().filter(|planted| test(**planted, 1).failed() == 0).collect();
    assert!(missed.is_empty(), "{missed:?} are not found");
}

/// A configuration may keep few bits of tags and functions.
#[test]
fn names_may_be_short() {
    for name_bits in [0x01_0001, 0x03_00ff, 0xff_0fff] {
        let report = test_card(ModelCard { name_bits, ..ModelCard::new(Planted::Nothing) }, 1);
        let failures: Vec<_> = report.checks.iter().filter(|check| check.failure.is_some()).collect();
        assert!(failures.is_empty(), "{name_bits:#x}: {failures:#?}");
    }
    for name_bits in [0, 0xff_0000, 0xff, 0xff_fffe, 0xfe_ffff, 0xff_0fef] {
        let report = test_card(ModelCard { name_bits, ..ModelCard::new(Planted::Nothing) }, 1);
        assert_ne!(report.checks[1].failure, None, "{name_bits:#x}");
    }
}

/// Memory that is too small for the tables, for all of the test, and for what is asked of the builder.
#[test]
fn tables_that_do_not_fit_are_refused() {
    let mut card = ModelCard::new(Planted::Nothing);
    let free =
        |index| RegionDescription { kind: RegionKind::FrmrFree, index: Some(index), ..RegionDescription::default() };
    let build = |card: &mut ModelCard, room, hops| Tables::build(&mut card.memory, room, 1, hops, vec![free(1)]);
    for room in [
        ROOM.start..ROOM.start,
        ROOM.start..ROOM.start + 1,
        ROOM.start..ROOM.start + 0x5000,
        ROOM.start..ROOM.start + 0x6000,
        ROOM.start + 8..ROOM.end,
        ROOM.start..ROOM.end - 8,
        ROOM.start..ROOM.end + 0x1000,
        ROOM.start - 0x1000..ROOM.end,
        Range { start: ROOM.end, end: ROOM.start },
        0..u64::MAX,
        u64::MAX - 1..u64::MAX,
    ] {
        let error = build(&mut card, room.clone(), 3).err().unwrap_or_else(|| panic!("{room:x?} is taken"));
        let told = error.to_string();
        let legal = ["pinned memory", "tables cannot be built", "whole pages"];
        assert!(legal.iter().any(|part| told.contains(part)), "{told}");
        assert!(card.memory.0.iter().all(|byte| *byte == 0xee), "{room:x?}: nothing is written");
    }
    assert!(build(&mut card, ROOM, 4).is_err(), "there are up to three hops");
    let many: Vec<_> = (0..=OBJECT_COUNT).map(free).collect();
    assert!(Tables::build(&mut card.memory, ROOM, 1, 0, many).is_err(), "there are as many objects");
    assert!(card.memory.0.iter().all(|byte| *byte == 0xee), "nothing is written");
    build(&mut card, ROOM, 3).expect("this fits");
    let payload = vec![0; BUFFER_BYTES as usize + 1];
    let request = keywalk_host::probe::Request {
        tag: 1,
        function: 1,
        operation: Operation::RemoteWrite,
        key: 0,
        pd: 0,
        qpn: 0,
        va: 0,
        length: BUFFER_BYTES,
        atomic: None,
    };
    let told = Host::new(&mut card).request(&request, &payload).expect_err("it is too long").to_string();
    assert!(told.contains("4097") && told.contains("holds 4096"), "{told}");
}

/// A card that hangs ends the test at once, with what was waited for.
#[test]
fn a_card_that_hangs_ends_the_test() {
    for (planted, expected) in
        [(Planted::HangingMailbox, "the end of a mailbox command"), (Planted::HangingRequest, "the end of a request")]
    {
        let report = test(planted, 1);
        let last = report.checks.last().expect("there are checks");
        let failure = last.failure.as_ref().expect("it failed");
        assert!(failure.contains(expected) && failure.contains("10 looks"), "{failure}");
        assert_eq!(report.failed(), 1, "nothing is tried behind it");
    }
}
