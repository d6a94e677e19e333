//! A card through sysfs: registers by the file `resource0`, memory by a huge page at its physical address. For a card without
//! a driver and without an IOMMU that translates.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use crate::Error;
use crate::card::{BAR_BYTES, Card, Memory};
use crate::pci::PciDevice;
use crate::pinned::{Mapping, Pinned};

/// Offset of the command register in the configuration space.
const COMMAND: u64 = 4;
/// Command: memory accesses are answered.
const MEMORY: u16 = 0b010;
/// Command: the device may read and write memory.
const MASTER: u16 = 0b100;
/// What helps where a file may not be used.
const ADVICE: &str = "run as root, or bind the card to vfio-pci and give yourself /dev/vfio; with Secure Boot the kernel refuses \
                      registers to root as well, and VFIO is the only way";

/// A card.
pub struct SysfsCard {
    device: PciDevice,
    /// Its configuration space.
    configuration: File,
    registers: Mapping,
    memory: Option<Pinned>,
}

impl SysfsCard {
    /// Opens a card: switches it on, and maps its registers. It may not use the bus before it is given memory.
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
        let path = device.path.join("enable");
        fs::write(&path, "1").map_err(|source| Error::file(path, source, ADVICE))?;
        let path = device.path.join("config");
        let open = |path| OpenOptions::new().read(true).write(true).open(path);
        let configuration = open(&path).and_then(|file| set_command(&file, MEMORY, 0).map(|()| file));
        let configuration = configuration.map_err(|source| Error::file(&path, source, ADVICE))?;
        let path = device.path.join("resource0");
        let registers = open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, registers) = registers.map_err(|source| Error::file(&path, source, ADVICE))?;
        // Behind the end of a file there is nothing that could be mapped: an access would end the program.
        if bytes < BAR_BYTES {
            return Err(Error::Setup {
                what: format!("{} has {bytes} bytes, BAR 0 of a Keywalk card has {BAR_BYTES}", path.display()),
                advice: "remove the card and scan the bus again".into(),
            });
        }
        let registers = Mapping::of_file(&registers, BAR_BYTES as usize);
        let registers = registers.map_err(|source| Error::file(&path, source.into(), ADVICE))?;
        Ok(Self { device: device.clone(), configuration, registers, memory: None })
    }
}

/// Sets and clears bits of the command register. What the card wrote before is in memory when it returns: the answer to a
/// read comes behind it.
fn set_command(configuration: &File, set: u16, clear: u16) -> io::Result<()> {
    let mut command = [0; 2];
    configuration.read_exact_at(&mut command, COMMAND)?;
    let wanted = u16::from_le_bytes(command) & !clear | set;
    configuration.write_all_at(&wanted.to_le_bytes(), COMMAND)?;
    configuration.read_exact_at(&mut command, COMMAND)
}

/// The memory is another's afterwards: a card with tables in it must not use the bus any more.
impl Drop for SysfsCard {
    fn drop(&mut self) {
        if self.memory.is_some() {
            // Where this fails the card does not answer.
            let _ = set_command(&self.configuration, 0, MASTER);
        }
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
            None => {
                let memory = Pinned::at_physical_address()?;
                let allowed = set_command(&self.configuration, MASTER, 0);
                allowed.map_err(|source| Error::file(self.device.path.join("config"), source, ADVICE))?;
                memory
            }
        };
        Ok(self.memory.insert(memory))
    }
}
