//! A simulated card: engine, data mover, shell and probe under Verilator, with the host's registers and memory at the ports of
//! the PCIe IP.

use std::ops::Range;

use keywalk_cosim::{ByteMemory, Card as Bench, CardOptions, dut};

use crate::Error;
use crate::card::{Card, Memory, offset_in};
use crate::pinned::BYTES;

/// Where the memory lies.
const ROOM: Range<u64> = 0x5a_0000_0000..0x5a_0000_0000 + BYTES as u64;
/// Edges of the PCIe clock, 4 ns, from an address to the host's answer: 500 to 700 ns, as through a root complex.
const HOST_LATENCY: std::ops::RangeInclusive<u64> = 125..=175;
/// Half periods of the engine's and of the PCIe clock, in picoseconds: 300 and 250 MHz.
const HALF_PERIODS: [u64; 2] = [1667, 2000];

/// A card.
pub struct SimulatedCard {
    bench: Bench,
}

impl From<keywalk_cosim::Error> for Error {
    fn from(error: keywalk_cosim::Error) -> Self {
        Self::Simulation(error.to_string())
    }
}

impl SimulatedCard {
    /// A card, fresh from reset; everything random in it follows from `seed`.
    ///
    /// # Errors
    /// [`Error::Simulation`].
    pub fn new(seed: u64) -> Result<Self, Error> {
        let options =
            CardOptions { seed, half_periods: HALF_PERIODS, host_latency: HOST_LATENCY, ..CardOptions::rough(seed) };
        Ok(Self { bench: Bench::new(&dut::PROBED_CARD, options)? })
    }
}

impl Card for SimulatedCard {
    fn name(&self) -> String {
        "simulated card".into()
    }

    fn read(&mut self, offset: u32) -> Result<u32, Error> {
        Ok(self.bench.read_register(offset)?)
    }

    fn write(&mut self, offset: u32, value: u32) -> Result<(), Error> {
        match self.bench.write_register(offset, value) {
            // The host sees no answer to a write.
            Ok(()) | Err(keywalk_cosim::Error::RegisterAccess { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn memory(&mut self) -> Result<&mut dyn Memory, Error> {
        Ok(self)
    }

    fn polls_max(&self) -> u32 {
        2_000
    }

    fn pause(&mut self) {}
}

impl Memory for SimulatedCard {
    fn room(&self) -> Range<u64> {
        ROOM
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        offset_in(&ROOM, address, bytes.len())?;
        bytes.copy_from_slice(&ByteMemory::read(&self.bench.memory, address, bytes.len() as u64));
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        offset_in(&ROOM, address, bytes.len())?;
        self.bench.memory.write(address, bytes);
        Ok(())
    }
}
