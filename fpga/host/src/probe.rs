//! Requests, work requests and events through the probe.

use keywalk_contract::ports::fault;
use keywalk_contract::probe::{
    self, BUFFER_BYTES, BUFFER_OFFSET, FAULT_WORDS, WORK_WORDS, fault_offset, probe_result, probe_status,
    probe_work_result, work_offset,
};
use keywalk_contract::regs::Register;
use keywalk_contract::work::WORK_REQUEST_BYTES;
use keywalk_contract::{MoverStatus, Operation, Status, Table, WorkStatus, hem};
use serde::Serialize;

use crate::engine::field_of;
use crate::{Error, Host, PROBE_OFFSET};

/// Bits of a tag, and of a function behind it, in register `probe_result_name`: a configuration may keep fewer of each.
pub(crate) const NAME_BITS: u32 = 0xff_ffff;
/// What an event calls the table of a page-table walk.
pub(crate) const PAGE_TABLE: &str = "page_table";
/// More events than wait at any time: an engine's queue holds 1024 at most.
pub const FAULTS_MAX: usize = 4096;

/// Operands of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Fetch and add: what is added.
    Add(u64),
    /// Compare and swap.
    Swap {
        /// The old value with which the new one is written.
        compare: u64,
        /// The new value.
        value: u64,
    },
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Tag.
    pub tag: u16,
    /// Function.
    pub function: u8,
    /// Operation.
    pub operation: Operation,
    /// Key.
    pub key: u32,
    /// Protection domain.
    pub pd: u32,
    /// Queue pair.
    pub qpn: u32,
    /// First virtual address.
    pub va: u64,
    /// Bytes.
    pub length: u32,
    /// Operands of an atomic.
    pub atomic: Option<Atomic>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Outcome of its DMA.
    pub mover: MoverStatus,
    /// Status of its translation.
    pub status: Status,
    /// What was read: the bytes of a read, the old value of an atomic.
    pub data: Vec<u8>,
    /// What was read is marked as not whole or not good.
    pub is_bad: bool,
    /// Clock cycles of the engine that it took.
    pub cycles: u32,
}

/// A table error that the engine reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Tag of the request.
    pub tag: u16,
    /// Function of the request.
    pub function: u8,
    /// Status.
    pub status: String,
    /// Table whose read failed.
    pub table: String,
    /// Number of the read that failed.
    pub hop: u8,
    /// The tag is one of the context port.
    pub is_context: bool,
    /// MPT index, or object number.
    pub index: u32,
    /// Virtual address that was being translated.
    pub va: u64,
}

impl Host<'_> {
    fn probe_read(&mut self, register: &Register) -> Result<u32, Error> {
        self.card.read(PROBE_OFFSET + register.offset)
    }

    fn probe_write(&mut self, register: &Register, value: u32) -> Result<(), Error> {
        self.card.write(PROBE_OFFSET + register.offset, value)
    }

    /// Writes payload into the probe's buffer.
    fn fill(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for (bytes, offset) in bytes.chunks(4).zip((PROBE_OFFSET + BUFFER_OFFSET..).step_by(4)) {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            self.card.write(offset, u32::from_le_bytes(word))?;
        }
        Ok(())
    }

    /// Learns how many bits of tags and functions the card keeps, by a request of no bytes: all, until this is asked for. The
    /// kept bits of a tag.
    ///
    /// # Errors
    /// As [`Host::request`]; [`Error::Wrong`] where they are not the lowest ones.
    pub fn learn_names(&mut self) -> Result<u16, Error> {
        let nothing = Request {
            tag: u16::MAX,
            function: u8::MAX,
            operation: Operation::RemoteRead,
            key: 0,
            pd: 0,
            qpn: 0,
            va: 0,
            length: 0,
            atomic: None,
        };
        // Whatever name the outcome has is right.
        self.name_bits = 0;
        let outcome = self.request(&nothing, &[]);
        self.name_bits = NAME_BITS;
        outcome?;
        let kept = self.probe_read(&probe::probe_result_name::REGISTER)?;
        let (tag, function) = (kept as u16, (kept >> 16) as u8);
        let are_low = tag & tag.wrapping_add(1) == 0 && function & function.wrapping_add(1) == 0;
        if tag == 0 || function == 0 || !are_low || kept & !NAME_BITS != 0 {
            let what = format!("register `probe_result_name` reads as {kept:#x} behind a request of {NAME_BITS:#x}");
            return Err(Error::Wrong(format!("{what}; legal are the lowest bits of the tag and of the function")));
        }
        self.name_bits = kept;
        Ok(tag)
    }

    /// Carries a request out; `payload` is what a write writes.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Wrong`] where the payload does not fit, where the probe refuses the request, or answers for
    /// another, or with a code that there is not.
    pub fn request(&mut self, request: &Request, payload: &[u8]) -> Result<Outcome, Error> {
        if payload.len() > BUFFER_BYTES as usize {
            let length = payload.len();
            return Err(Error::Wrong(format!("a payload has {length} bytes; the probe's buffer holds {BUFFER_BYTES}")));
        }
        self.fill(payload)?;
        let (is_swap, value, compare) = match request.atomic {
            None => (0, 0, 0),
            Some(Atomic::Add(value)) => (0, value, 0),
            Some(Atomic::Swap { compare, value }) => (1, value, compare),
        };
        let name = u32::from(request.tag) | u32::from(request.function) << 16;
        let operation = u32::from(request.operation.code()) << probe::probe_request::OPERATION.low;
        let writes = [
            (probe::probe_request::REGISTER, name | operation | is_swap << probe::probe_request::IS_SWAP.low),
            (probe::probe_key::REGISTER, request.key),
            (probe::probe_pd::REGISTER, request.pd),
            (probe::probe_qpn::REGISTER, request.qpn),
            (probe::probe_va_low::REGISTER, request.va as u32),
            (probe::probe_va_high::REGISTER, (request.va >> 32) as u32),
            (probe::probe_length::REGISTER, request.length),
            (probe::probe_value_low::REGISTER, value as u32),
            (probe::probe_value_high::REGISTER, (value >> 32) as u32),
            (probe::probe_compare_low::REGISTER, compare as u32),
            (probe::probe_compare_high::REGISTER, (compare >> 32) as u32),
            (probe::probe_go::REGISTER, 1),
        ];
        for (register, value) in writes {
            self.probe_write(&register, value)?;
        }
        let is_done = |value| field_of(value, &probe_status::BUSY) == 0;
        let status = self.poll(PROBE_OFFSET, &probe_status::REGISTER, "the end of a request", is_done)?;
        if field_of(status, &probe_status::REFUSED) == 1 {
            let length = request.length;
            return Err(Error::Wrong(format!(
                "the probe refuses a request of {length} bytes; legal are up to {BUFFER_BYTES}"
            )));
        }
        let answered = self.probe_read(&probe::probe_result_name::REGISTER)?;
        if (answered ^ name) & self.name_bits != 0 {
            return Err(Error::Wrong(format!("the outcome of {answered:#x} came for request {name:#x}")));
        }
        let result = self.probe_read(&probe_result::REGISTER)?;
        let (mover, refusal) = (field_of(result, &probe_result::STATUS), field_of(result, &probe_result::REFUSAL));
        let unknown = || Error::Wrong(format!("register `probe_result` reads as {result:#x}: no such outcome"));
        let mut data = Vec::new();
        if [Operation::LocalRead, Operation::RemoteRead, Operation::RemoteAtomic].contains(&request.operation) {
            let bytes = self.probe_read(&probe::probe_result_bytes::REGISTER)?.min(BUFFER_BYTES) as usize;
            for offset in (PROBE_OFFSET + BUFFER_OFFSET..).step_by(4).take(bytes.div_ceil(4)) {
                data.extend(self.card.read(offset)?.to_le_bytes());
            }
            data.truncate(bytes);
        }
        Ok(Outcome {
            mover: MoverStatus::from_code(mover as u8).ok_or_else(unknown)?,
            status: Status::ALL.get(refusal as usize).copied().ok_or_else(unknown)?,
            data,
            is_bad: field_of(result, &probe_result::IS_BAD) == 1,
            cycles: self.probe_read(&probe::probe_result_cycles::REGISTER)?,
        })
    }

    /// Carries a work request out, of the kernel or of a user.
    ///
    /// # Errors
    /// As [`Host::request`].
    pub fn work(
        &mut self,
        function: u8,
        is_privileged: bool,
        pd: u32,
        qpn: u32,
        wqe: &[u8; WORK_REQUEST_BYTES],
    ) -> Result<WorkStatus, Error> {
        let name = u32::from(function) << probe::probe_work::FUNCTION.low;
        let privileged = u32::from(is_privileged) << probe::probe_work::PRIVILEGED.low;
        self.probe_write(&probe::probe_work::REGISTER, name | privileged)?;
        self.probe_write(&probe::probe_work_pd::REGISTER, pd)?;
        self.probe_write(&probe::probe_work_qpn::REGISTER, qpn)?;
        let (words, _) = wqe.as_chunks();
        for (number, word) in (0..WORK_WORDS as u32).zip(words) {
            self.card.write(PROBE_OFFSET + work_offset(number), u32::from_le_bytes(*word))?;
        }
        self.probe_write(&probe::probe_work_go::REGISTER, 1)?;
        let is_done = |value| field_of(value, &probe_status::WORK_BUSY) == 0;
        self.poll(PROBE_OFFSET, &probe_status::REGISTER, "the answer to a work request", is_done)?;
        let code = field_of(self.probe_read(&probe_work_result::REGISTER)?, &probe_work_result::STATUS);
        WorkStatus::from_code(code as u8).ok_or_else(|| Error::Wrong(format!("a work request ended with code {code}")))
    }

    /// Takes an event, if there is one.
    ///
    /// # Errors
    /// [`Error::Silent`] where nothing answers; those of the card.
    pub fn take_fault(&mut self) -> Result<Option<Fault>, Error> {
        let status = self.probe_read(&probe_status::REGISTER)?;
        if status == u32::MAX {
            return Err(Error::Silent { register: probe_status::REGISTER.name, value: status });
        }
        if field_of(status, &probe_status::FAULT) == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        for word in 0..FAULT_WORDS as u32 {
            bytes.extend(self.card.read(PROBE_OFFSET + fault_offset(word))?.to_le_bytes());
        }
        self.probe_write(&probe::probe_fault_take::REGISTER, 1)?;
        let (status, table) = (fault::STATUS.get(&bytes), fault::TABLE.get(&bytes) as u8);
        let name = Status::ALL.get(status as usize).map(|status| status.name().to_owned());
        let table = match Table::from_code(table) {
            Some(table) => table.name().to_owned(),
            None if table == hem::TABLE_CODE_MTR => PAGE_TABLE.into(),
            None => table.to_string(),
        };
        Ok(Some(Fault {
            tag: fault::TAG.get(&bytes) as u16,
            function: fault::FUNCTION.get(&bytes) as u8,
            status: name.unwrap_or_else(|| status.to_string()),
            table,
            hop: fault::HOP.get(&bytes) as u8,
            is_context: fault::IS_CONTEXT.get(&bytes) == 1,
            index: fault::INDEX.get(&bytes) as u32,
            va: fault::VA.get(&bytes),
        }))
    }
}
