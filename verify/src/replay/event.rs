//! The events of a vector: what the driver sent, and in logs of our own what must have come of it.

use std::path::Path;

use keywalk_contract::command::DATA_WORDS;
use keywalk_contract::work::WORK_REQUEST_BYTES;
use keywalk_contract::{CommandStatus, Operation, Status, Table, WorkStatus};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::number::{self, Hex, Hex32, HexBytes};
use crate::vector::{self, VectorError};

/// Largest value of a field of 24 bits.
const MAX_24_BITS: u32 = (1 << 24) - 1;
/// Most bytes that a mailbox buffer holds.
const MAILBOX_BYTES: usize = keywalk_contract::command::MAILBOX_BYTES as usize;

/// The events of a file.
#[derive(Clone, Debug, Deserialize)]
pub struct EventLog {
    /// In order.
    pub events: Vec<Event>,
}

impl EventLog {
    /// Reads the events of a vector file.
    ///
    /// # Errors
    /// What is wrong, with file, event and field.
    pub fn load(path: &Path) -> Result<Self, VectorError> {
        vector::parse(path, &vector::read(path, vector::open(path)?)?)
    }
}

/// An event. What logs call it is said here alone: no name of a variant is one of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ev")]
pub enum Event {
    /// A command that is no mailbox command.
    #[serde(rename = "cmq")]
    Command(Command),
    /// A mailbox command.
    #[serde(rename = "mbox")]
    Mailbox(Mailbox),
    /// A FAST_REG_PMR work request of the driver.
    #[serde(rename = "fast_reg_wqe")]
    FastRegister(FastRegister),
    /// A work request, in logs of our own.
    #[serde(rename = "work")]
    Work(Work),
    /// An access and its outcome, in logs of our own.
    #[serde(rename = "access")]
    Access(Access),
    /// The driver has asked where a context is.
    #[serde(rename = "hemget")]
    HemGet(HemGet),
    /// The driver has made a region or window, or failed to.
    #[serde(rename = "reg", alias = "rereg", alias = "frmr", alias = "mw", alias = "dmamr")]
    Registered(Registered),
    /// Memory was freed.
    #[serde(rename = "dma_free")]
    Free(Free),
    /// What the driver did by itself.
    #[serde(rename = "dereg", alias = "map", alias = "mtr", alias = "hemput")]
    Ignored,
}

fn ok_command() -> CommandStatus {
    CommandStatus::Ok
}

fn command_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CommandStatus, D::Error> {
    number::by_name(deserializer, "command status", CommandStatus::ALL, CommandStatus::name)
}

fn work_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WorkStatus, D::Error> {
    number::by_name(deserializer, "work status", WorkStatus::ALL, WorkStatus::name)
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
    number::by_name(deserializer, "status", Status::ALL, Status::name)
}

/// A number of 24 bits.
fn bits_24<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = u32::deserialize(deserializer)?;
    if value > MAX_24_BITS {
        return Err(de::Error::custom(format!("{value} has more than 24 bits")));
    }
    Ok(value)
}

/// A code of 8 or 16 bits, in the file a string such as `"0x0d"`.
fn code<'de, D: Deserializer<'de>, T: TryFrom<u32>>(deserializer: D) -> Result<T, D::Error> {
    let value = Hex32::deserialize(deserializer)?.0;
    T::try_from(value).map_err(|_| de::Error::custom(format!("{value:#x} has more than {} bits", 8 * size_of::<T>())))
}

fn wqe<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; WORK_REQUEST_BYTES], D::Error> {
    let bytes = HexBytes::deserialize(deserializer)?.0;
    let count = bytes.len();
    bytes.try_into().map_err(|_| de::Error::custom(format!("{count} bytes, a work request has {WORK_REQUEST_BYTES}")))
}

fn context<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HexBytes>, D::Error> {
    let bytes = HexBytes::deserialize(deserializer)?;
    if bytes.0.len() > MAILBOX_BYTES {
        return Err(de::Error::custom(format!("{} bytes, a mailbox buffer holds {MAILBOX_BYTES}", bytes.0.len())));
    }
    Ok(Some(bytes))
}

fn dwords<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u32; DATA_WORDS], D::Error> {
    let words = Vec::<Hex32>::deserialize(deserializer)?;
    let count = words.len();
    let words: Result<[Hex32; DATA_WORDS], _> = words.try_into();
    let words = words.map_err(|_| de::Error::custom(format!("{count} dwords, a command has {DATA_WORDS}")))?;
    Ok(words.map(|word| word.0))
}

/// A command descriptor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Opcode.
    #[serde(deserialize_with = "code")]
    pub opcode: u16,
    /// Dwords.
    #[serde(deserialize_with = "dwords")]
    pub data: [u32; DATA_WORDS],
    /// Function. Default 0.
    #[serde(default)]
    pub function: u8,
    /// Outcome. Default ok.
    #[serde(default = "ok_command", deserialize_with = "command_status")]
    pub expect: CommandStatus,
}

/// A mailbox command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mailbox {
    /// Code.
    #[serde(deserialize_with = "code")]
    pub cmd: u8,
    /// Its name, for readers; the code decides.
    #[serde(default, rename = "name")]
    _name: Option<String>,
    /// Object.
    #[serde(deserialize_with = "bits_24")]
    pub tag: u32,
    /// in_param.
    #[serde(rename = "in")]
    pub input: Hex,
    /// out_param.
    #[serde(rename = "out")]
    pub output: Hex,
    /// What is in the buffer: before a command that reads it, after a command that writes it.
    #[serde(default, deserialize_with = "context")]
    pub ctx: Option<HexBytes>,
    /// Function. Default 0.
    #[serde(default)]
    pub function: u8,
    /// Outcome. Default ok.
    #[serde(default = "ok_command", deserialize_with = "command_status")]
    pub expect: CommandStatus,
}

/// A FAST_REG_PMR work request of the driver; its protection domain is that of the region, its queue the kernel's. Its other
/// fields say again what is in the work request.
#[derive(Clone, Debug, Deserialize)]
pub struct FastRegister {
    /// Name of the region.
    pub name: String,
    /// The work request.
    #[serde(deserialize_with = "wqe")]
    pub wqe: [u8; WORK_REQUEST_BYTES],
}

/// A work request.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The work request.
    #[serde(deserialize_with = "wqe")]
    pub wqe: [u8; WORK_REQUEST_BYTES],
    /// Protection domain of the queue pair.
    #[serde(deserialize_with = "bits_24")]
    pub pd: u32,
    /// Queue pair.
    #[serde(deserialize_with = "bits_24")]
    pub qpn: u32,
    /// Function. Default 0.
    #[serde(default)]
    pub function: u8,
    /// Whether the queue is the kernel's. Default no.
    #[serde(default)]
    pub privileged: bool,
    /// Outcome.
    #[serde(deserialize_with = "work_status")]
    pub expect: WorkStatus,
}

/// An access between other events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Key.
    pub key: Hex32,
    /// Protection domain.
    #[serde(deserialize_with = "bits_24")]
    pub pd: u32,
    /// Queue pair. Default 0.
    #[serde(default)]
    pub qpn: u32,
    /// First virtual address.
    pub va: Hex,
    /// Bytes.
    pub len: u32,
    /// Operation.
    #[serde(deserialize_with = "crate::number::operation")]
    pub op: Operation,
    /// Function. Default 0.
    #[serde(default)]
    pub function: u8,
    /// Outcome.
    #[serde(deserialize_with = "status")]
    pub status: Status,
    /// Bus address and bytes of each segment.
    #[serde(default)]
    pub segments: Vec<(Hex, u32)>,
}

/// A context and where it was.
#[derive(Clone, Debug, Deserialize)]
pub struct HemGet {
    /// Table.
    #[serde(deserialize_with = "crate::number::table")]
    pub table: Table,
    /// Object.
    pub obj: u32,
    /// What the driver's function returned.
    pub ret: i64,
    /// Bus address.
    pub hw_pa: Hex,
}

/// A region or window that the driver has made.
#[derive(Clone, Debug, Deserialize)]
pub struct Registered {
    /// Index of its MPT entry, where it has one.
    pub index: Option<u32>,
    /// Bus address of its MPT entry.
    pub mpt_pa: Option<Hex>,
}

/// Memory that was freed.
#[derive(Clone, Debug, Deserialize)]
pub struct Free {
    /// First bus address.
    pub addr: Hex,
    /// Bytes.
    pub size: u64,
}
