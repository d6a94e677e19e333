//! What happened on the way to an answer, step by step, for those who want to know.

use std::fmt;

use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::{Status, Table};

use crate::{BusError, Failure, MptEntry};

/// One read of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRead {
    /// Code of the context table, or 7 for a page table.
    pub table: u8,
    /// Number of the read within its lookup or walk, from 0.
    pub hop: u8,
    /// Bus address.
    pub address: u64,
    /// Bytes wanted: 8 for a pointer or page address, 64 for an MPT entry.
    pub bytes: u8,
    /// The first 8 bytes, little-endian.
    pub value: Result<u64, BusError>,
}

/// Is told what the model does. Every method does nothing unless overridden.
pub trait Observer {
    /// A check was made; `failure` is what it reports when it does not hold. `detail` gives the values compared.
    fn check(&mut self, failure: Failure, holds: bool, detail: impl FnOnce() -> String) {
        let _ = (failure, holds, detail);
    }

    /// A table was read.
    fn read(&mut self, read: TableRead) {
        let _ = read;
    }

    /// The MPT entry that was read.
    fn entry(&mut self, entry: &MptEntry) {
        let _ = entry;
    }

    /// A piece of the request within one page (or the whole of it, where nothing is translated) was placed.
    fn piece(&mut self, va: u64, pa: u64, length_bytes: u64) {
        let _ = (va, pa, length_bytes);
    }
}

/// Nobody is watching.
impl Observer for () {}

impl<O: Observer> Observer for &mut O {
    fn check(&mut self, failure: Failure, holds: bool, detail: impl FnOnce() -> String) {
        (**self).check(failure, holds, detail);
    }

    fn read(&mut self, read: TableRead) {
        (**self).read(read);
    }

    fn entry(&mut self, entry: &MptEntry) {
        (**self).entry(entry);
    }

    fn piece(&mut self, va: u64, pa: u64, length_bytes: u64) {
        (**self).piece(va, pa, length_bytes);
    }
}

/// Collects the addresses of all table reads, in order, one per level and page even where two pages share a table: a
/// device that starts with empty caches needs each distinct line of them once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadLog {
    /// Bus addresses of the bytes wanted.
    pub addresses: Vec<u64>,
}

impl Observer for ReadLog {
    fn read(&mut self, read: TableRead) {
        self.addresses.push(read.address);
    }
}

/// A step of a lookup, walk or check. Its `Display` form is a line (or, for an entry, several) for a human.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A check.
    Check {
        /// What is reported when the check does not hold.
        failure: Failure,
        /// Whether it held.
        holds: bool,
        /// The values compared.
        detail: String,
    },
    /// A table read.
    Read(TableRead),
    /// The MPT entry, decoded.
    Entry(MptEntry),
    /// A piece of the request was placed.
    Piece {
        /// First virtual address.
        va: u64,
        /// First bus address.
        pa: u64,
        /// Bytes.
        length_bytes: u64,
    },
}

/// Name of a table code, for people.
fn table_name(code: u8) -> &'static str {
    match Table::from_code(code) {
        Some(table) => table.name(),
        None if code == TABLE_CODE_MTR => "mtr",
        None => "no table",
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check { failure, holds, detail } => {
                let verdict = if *holds { "holds" } else { "FAILS" };
                write!(out, "check {failure} {verdict}: {detail}")
            }
            Self::Read(read) => {
                let table = table_name(read.table);
                write!(out, "read {table} hop {} at {:#x}, {} bytes: ", read.hop, read.address, read.bytes)?;
                match read.value {
                    Ok(value) => write!(out, "{value:#x}"),
                    Err(error) => write!(out, "{error}"),
                }
            }
            Self::Entry(entry) => write!(out, "entry {entry}"),
            Self::Piece { va, pa, length_bytes } => write!(out, "piece va {va:#x} -> pa {pa:#x}, {length_bytes} bytes"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.status.name())?;
        if self.status.names_a_table() {
            write!(out, " ({} hop {})", table_name(self.table), self.hop)?;
        }
        Ok(())
    }
}

/// Records every step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Observer for Recorder {
    fn check(&mut self, failure: Failure, holds: bool, detail: impl FnOnce() -> String) {
        self.steps.push(Step::Check { failure, holds, detail: detail() });
    }

    fn read(&mut self, read: TableRead) {
        self.steps.push(Step::Read(read));
    }

    fn entry(&mut self, entry: &MptEntry) {
        self.steps.push(Step::Entry(entry.clone()));
    }

    fn piece(&mut self, va: u64, pa: u64, length_bytes: u64) {
        self.steps.push(Step::Piece { va, pa, length_bytes });
    }
}

/// Makes a check known and turns one that does not hold into its failure.
pub(crate) fn require(
    observer: &mut impl Observer,
    holds: bool,
    failure: Failure,
    detail: impl FnOnce() -> String,
) -> Result<(), Failure> {
    observer.check(failure, holds, detail);
    if holds { Ok(()) } else { Err(failure) }
}

/// [`require`] for a check that concerns no table.
pub(crate) fn require_status(
    observer: &mut impl Observer,
    holds: bool,
    status: Status,
    detail: impl FnOnce() -> String,
) -> Result<(), Failure> {
    require(observer, holds, Failure::of(status), detail)
}
