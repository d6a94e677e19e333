//! A card through sysfs: registers by the file `resource0`, memory by a huge page at its physical address. For a card without
//! a driver and without an IOMMU that translates.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::Error;
use crate::card::{BAR_BYTES, Card, Memory};
use crate::pci::PciDevice;
use crate::pinned::{Mapping, Pinned};

/// Offset of the command register in the configuration space.
const COMMAND: u64 = 4;
/// Command: memory accesses are answered, and the device may read and write memory.
const MEMORY_AND_MASTER: u16 = 0b110;

/// A card.
pub struct SysfsCard {
    device: PciDevice,
    registers: Mapping,
    memory: Option<Pinned>,
}

impl SysfsCard {
    /// Opens a card: switches it on, lets it use the bus, and maps its registers.
    ///
    /// # Errors
    /// [`Error::Foreign`] with a BAR of another size; [`Error::Setup`] where a driver has it; [`Error::NoRights`],
    /// [`Error::File`].
    pub fn open(device: &PciDevice) -> Result<Self, Error> {
        check_bar(device)?;
        if let Some(driver) = &device.driver {
            let (address, path) = (&device.address, device.path.display());
            return Err(Error::Setup {
                what: format!("the card at {address} is bound to the driver {driver}"),
                advice: format!("as root: echo {address} > {path}/driver/unbind"),
            });
        }
        let advice = "run as root, or bind the card to vfio-pci and give yourself /dev/vfio";
        let path = device.path.join("enable");
        fs::write(&path, "1").map_err(|source| Error::file(path, source, advice))?;
        let path = device.path.join("config");
        let switch_on = || {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let mut command = [0; 2];
            file.read_exact_at(&mut command, COMMAND)?;
            let command = u16::from_le_bytes(command) | MEMORY_AND_MASTER;
            file.write_all_at(&command.to_le_bytes(), COMMAND)
        };
        switch_on().map_err(|source| Error::file(&path, source, advice))?;
        let path = device.path.join("resource0");
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|source| Error::file(&path, source, advice))?;
        let registers = Mapping::of_file(&file, BAR_BYTES as usize);
        let registers = registers.map_err(|source| Error::file(&path, source.into(), advice))?;
        Ok(Self { device: device.clone(), registers, memory: None })
    }
}

/// Refuses a card whose BAR 0 is smaller than that of this project.
pub(crate) fn check_bar(device: &PciDevice) -> Result<(), Error> {
    if device.bar0_bytes >= BAR_BYTES {
        return Ok(());
    }
    if device.bar0_bytes == 0 {
        return Err(Error::Setup {
            what: format!("BAR 0 of the card at {} has no address", device.address),
            advice: "remove it and scan the bus: as root, echo 1 > remove in its directory, then echo 1 > /sys/bus/pci/rescan"
                .into(),
        });
    }
    let what = format!("BAR 0 has {} bytes, a Keywalk card's has {BAR_BYTES}", device.bar0_bytes);
    Err(Error::Foreign { what })
}

impl Card for SysfsCard {
    fn name(&self) -> String {
        format!("{} (sysfs)", self.device.address)
    }

    fn read(&mut self, offset: u32) -> Result<u32, Error> {
        self.registers.read32(offset)
    }

    fn write(&mut self, offset: u32, value: u32) -> Result<(), Error> {
        self.registers.write32(offset, value)
    }

    fn memory(&mut self) -> Result<&mut dyn Memory, Error> {
        if let Some(kind) = self.device.iommu.as_ref().filter(|kind| *kind != "identity") {
            return Err(Error::Setup {
                what: format!("an IOMMU translates the addresses of the card at {} ({kind})", self.device.address),
                advice: "bind the card to vfio-pci, or boot with iommu=pt".into(),
            });
        }
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => Pinned::at_physical_address()?,
        };
        Ok(self.memory.insert(memory))
    }
}
