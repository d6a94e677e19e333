//! The memory that tables are read from.

/// The wanted bytes could not be read: they are not backed, or the bus answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bus error")]
pub struct BusError;

/// Memory as the table port sees it. Any closure of the right shape is one.
pub trait Memory {
    /// Fills `bytes` from bus address `address` upwards.
    ///
    /// # Errors
    /// [`BusError`] when any of the bytes cannot be read; `bytes` then holds nothing of use.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError>;
}

impl<F: Fn(u64, &mut [u8]) -> Result<(), BusError>> Memory for F {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        self(address, bytes)
    }
}

/// Memory that the device writes as well: tables and mailbox buffers.
pub trait MemoryMut: Memory {
    /// Stores `bytes` from bus address `address` upwards.
    ///
    /// # Errors
    /// [`BusError`] when any of the bytes cannot be written; nothing is then stored.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), BusError>;
}

/// Reads one little-endian table entry of 8 bytes.
pub(crate) fn read_entry(memory: &impl Memory, address: u64) -> Result<u64, BusError> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
