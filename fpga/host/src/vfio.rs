//! A card through VFIO: for a card that is bound to vfio-pci. The IOMMU keeps it to the memory that it is given.

use std::sync::Arc;

use vfio_ioctls::{VfioContainer, VfioDevice, VfioError};

use crate::card::{Card, Memory};
use crate::pci::PciDevice;
use crate::pinned::{BYTES, Mapping, Pinned};
use crate::sysfs::check_bar;
use crate::{BAR_BYTES, Error};

/// Bus address of the memory: above what is kept for interrupts.
const ADDRESS: u64 = 1 << 32;
/// Regions as VFIO numbers them.
const BAR0: u32 = 0;
const CONFIGURATION: u32 = 7;
/// Offset of the command register in the configuration space, and its bits as in sysfs.
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 0b110;

/// A card.
pub struct VfioCard {
    address: String,
    // Fields are dropped in this order: the card is let go before its memory.
    device: VfioDevice,
    container: Arc<VfioContainer>,
    memory: Option<Pinned>,
}

/// What an error of VFIO means.
fn refusal(error: VfioError) -> Error {
    let advice = "load vfio-pci (modprobe vfio-pci), bind every device of the card's IOMMU group to it, and give yourself the \
                  group's file in /dev/vfio; the IOMMU must be on (intel_iommu=on or amd_iommu=on)";
    match error {
        VfioError::OpenContainer(source) => Error::file("/dev/vfio/vfio", source, advice),
        VfioError::OpenGroup(source, group) => Error::file(format!("/dev/vfio/{group}"), source, advice),
        other => Error::Setup { what: format!("VFIO: {other}"), advice: advice.into() },
    }
}

impl VfioCard {
    /// Opens a card and lets it use the bus.
    ///
    /// # Errors
    /// [`Error::Foreign`] with a BAR of another size; [`Error::NoRights`], [`Error::File`], [`Error::Setup`].
    pub fn open(device: &PciDevice) -> Result<Self, Error> {
        check_bar(device)?;
        let container = Arc::new(VfioContainer::new(None).map_err(refusal)?);
        let opened = VfioDevice::new(&device.path, container.clone(), false).map_err(refusal)?;
        let mut command = [0; 2];
        opened.region_read(CONFIGURATION, &mut command, COMMAND);
        let command = u16::from_le_bytes(command) | MEMORY_AND_MASTER;
        opened.region_write(CONFIGURATION, &command.to_le_bytes(), COMMAND);
        Ok(Self { address: device.address.clone(), device: opened, container, memory: None })
    }
}

/// Refuses an offset beyond the BAR.
fn check_offset(offset: u32) -> Result<u64, Error> {
    let offset = u64::from(offset & !3);
    if offset >= BAR_BYTES { Err(Error::OutsideMemory { address: offset, length: 4 }) } else { Ok(offset) }
}

impl Card for VfioCard {
    fn name(&self) -> String {
        format!("{} (VFIO)", self.address)
    }

    fn read(&mut self, offset: u32) -> Result<u32, Error> {
        // What cannot be read stays as a card that does not answer.
        let mut bytes = [0xff; 4];
        self.device.region_read(BAR0, &mut bytes, check_offset(offset)?);
        Ok(u32::from_le_bytes(bytes))
    }

    fn write(&mut self, offset: u32, value: u32) -> Result<(), Error> {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.device.region_write(BAR0, &value.to_le_bytes(), check_offset(offset)?);
        Ok(())
    }

    fn memory(&mut self) -> Result<&mut dyn Memory, Error> {
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => {
                let mapping = Mapping::small()?;
                // SAFETY: the mapping lives until the card is let go, and is only read and written byte by byte through a
                // pointer.
                let mapped = unsafe { self.container.vfio_dma_map(ADDRESS, BYTES, mapping.start()) };
                mapped.map_err(refusal)?;
                Pinned::at(mapping, ADDRESS)
            }
        };
        Ok(self.memory.insert(memory))
    }
}

impl Drop for VfioCard {
    fn drop(&mut self) {
        if self.memory.is_some() {
            // Closing the container would do it as well; an error changes nothing.
            let _ = self.container.vfio_dma_unmap(ADDRESS, BYTES);
        }
    }
}
