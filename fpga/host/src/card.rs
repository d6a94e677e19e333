//! What a card is to the host: registers, and memory that both reach.

use std::ops::Range;
use std::time::Duration;

use crate::Error;
use keywalk_contract::regs;

/// Offset of the probe's registers in BAR 0.
pub const PROBE_OFFSET: u32 = 1 << regs::ADDRESS_BITS;
/// Bytes of BAR 0: the engine's registers, and behind them the probe's.
pub const BAR_BYTES: u64 = 2 * PROBE_OFFSET as u64;

/// A card.
pub trait Card {
    /// What it is, for messages.
    fn name(&self) -> String;

    /// Reads a register of BAR 0.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`] beyond the BAR; those of a simulation.
    fn read(&mut self, offset: u32) -> Result<u32, Error>;

    /// Writes a register of BAR 0. Whatever was written to memory before is there when the card sees it.
    ///
    /// # Errors
    /// As [`Card::read`].
    fn write(&mut self, offset: u32, value: u32) -> Result<(), Error>;

    /// Memory that the card reaches; it is pinned when it is first asked for.
    ///
    /// # Errors
    /// [`Error::NoRights`], [`Error::Setup`] and others of a machine that gives none.
    fn memory(&mut self) -> Result<&mut dyn Memory, Error>;

    /// How often a register is read until something is given up.
    fn polls_max(&self) -> u32 {
        100_000
    }

    /// Waits a little before a register is read again.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_micros(10));
    }
}

/// Memory at a range of bus addresses without gaps.
pub trait Memory {
    /// Its bus addresses, multiples of 4 KiB.
    fn room(&self) -> Range<u64>;

    /// Fills `bytes` from a bus address upwards.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`].
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Stores `bytes` from a bus address upwards.
    ///
    /// # Errors
    /// [`Error::OutsideMemory`].
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error>;
}

/// What differs between memory from an address on and what it must hold.
pub(crate) fn differences(start: u64, found: &[u8], expected: &[u8]) -> Result<(), Error> {
    let mut differing = found.iter().zip(expected).enumerate().filter(|(_, (found, expected))| found != expected);
    let Some((first, (is, must_be))) = differing.next() else { return Ok(()) };
    Err(Error::Wrong(format!(
        "{} bytes of memory differ, the first at {:#x}, which is {is:#04x} instead of {must_be:#04x}",
        1 + differing.count(),
        start + first as u64
    )))
}

/// Offset of some bytes in memory that lies at `room`.
pub(crate) fn offset_in(room: &Range<u64>, address: u64, length: usize) -> Result<usize, Error> {
    let end = address.checked_add(length as u64);
    if address < room.start || end.is_none_or(|end| end > room.end) {
        return Err(Error::OutsideMemory { address, length });
    }
    Ok((address - room.start) as usize)
}
