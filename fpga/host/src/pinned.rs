//! Memory of this process that stays where it is, at one range of bus addresses.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::card::{Memory, offset_in};
use crate::{Error, card};

/// Bytes of pinned memory: a huge page.
pub const BYTES: usize = 2 << 20;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;
/// Where the kernel tells physical addresses.
const PAGE_MAP: &str = "/proc/self/pagemap";
/// Pagemap: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// Pagemap: number of the physical page; zero for those who may not know it.
const FRAME: u64 = (1 << 55) - 1;

/// A mapping that is given back when it is dropped.
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// A huge page, locked.
    ///
    /// # Errors
    /// [`Error::Setup`] where there is none.
    pub fn huge() -> Result<Self, Error> {
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::LOCKED | MapFlags::POPULATE;
        Self::new(flags).map_err(|source| Error::Setup {
            what: format!("no huge page of 2 MiB can be had: {source}"),
            advice: "as root: echo 8 > /proc/sys/vm/nr_hugepages, and ulimit -l unlimited".into(),
        })
    }

    /// Small pages, locked: for a card behind an IOMMU, which makes one range of them.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn small() -> Result<Self, Error> {
        let flags = MapFlags::PRIVATE | MapFlags::LOCKED | MapFlags::POPULATE;
        Self::new(flags).map_err(|source| Error::Setup {
            what: format!("{BYTES} bytes of memory cannot be locked: {source}"),
            advice:
                "raise the limit (`ulimit -l` tells it, memlock in /etc/security/limits.conf sets it), or run as root"
                    .into(),
        })
    }

    fn new(flags: MapFlags) -> rustix::io::Result<Self> {
        // SAFETY: the kernel chooses a free range, so that nothing else is changed.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        Ok(Self { start: start.cast(), bytes: BYTES })
    }

    /// A file, shared: registers.
    pub(crate) fn of_file(file: &File, bytes: usize) -> rustix::io::Result<Self> {
        // SAFETY: as above; the file is only accessed through volatile reads and writes.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
        };
        Ok(Self { start: start.cast(), bytes })
    }

    /// Where it begins in this process.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes from an offset on; each byte is read on its own, since a device may change it.
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.bytes, "within the mapping");
        for (number, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: within the mapping, see above; every value is a byte.
            *byte = unsafe { self.start.add(offset + number).read_volatile() };
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes, "within the mapping");
        for (number, byte) in bytes.iter().enumerate() {
            // SAFETY: within the mapping, see above; nobody holds a reference to it.
            unsafe { self.start.add(offset + number).write_volatile(*byte) };
        }
    }

    /// A register of 32 bits.
    pub(crate) fn read32(&self, offset: u32) -> Result<u32, Error> {
        let offset = offset_in(&(0..self.bytes as u64), offset.into(), 4)?;
        // SAFETY: within the mapping and aligned, as offsets of registers are multiples of 4.
        Ok(unsafe { self.start.add(offset & !3).cast::<u32>().read_volatile() })
    }

    pub(crate) fn write32(&mut self, offset: u32, value: u32) -> Result<(), Error> {
        let offset = offset_in(&(0..self.bytes as u64), offset.into(), 4)?;
        // What was written to memory before must be there.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { self.start.add(offset & !3).cast::<u32>().write_volatile(value) };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with these values, and nothing of it is used any more. It cannot fail with them.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// Pinned memory.
pub struct Pinned {
    mapping: Mapping,
    /// Bus address of its begin.
    address: u64,
}

impl Pinned {
    /// A huge page at its physical address: for a card that no IOMMU stands in front of.
    ///
    /// # Errors
    /// [`Error::Setup`], [`Error::NoRights`].
    pub fn at_physical_address() -> Result<Self, Error> {
        let mapping = Mapping::huge()?;
        let advice = "physical addresses are told to root alone: run as root, or bind the card to vfio-pci";
        let file = File::open(PAGE_MAP).map_err(|source| Error::file(PAGE_MAP, source, advice))?;
        let mut entry = [0; 8];
        let position = mapping.start() as u64 / PAGE_BYTES * 8;
        file.read_exact_at(&mut entry, position).map_err(|source| Error::file(PAGE_MAP, source, advice))?;
        let entry = u64::from_le_bytes(entry);
        if entry & PRESENT == 0 || entry & FRAME == 0 {
            let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
            return Err(Error::NoRights { path: PAGE_MAP.into(), source, advice });
        }
        Ok(Self { mapping, address: (entry & FRAME) * PAGE_BYTES })
    }

    /// A mapping at the bus address that an IOMMU gives it.
    pub(crate) fn at(mapping: Mapping, address: u64) -> Self {
        Self { mapping, address }
    }
}

impl card::Memory for Pinned {
    fn room(&self) -> Range<u64> {
        self.address..self.address + self.mapping.bytes as u64
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let offset = offset_in(&Memory::room(self), address, bytes.len())?;
        self.mapping.read(offset, bytes);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let offset = offset_in(&Memory::room(self), address, bytes.len())?;
        self.mapping.write(offset, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_is_outside() {
        let mapping = match Mapping::small() {
            Ok(mapping) => mapping,
            // A machine that lets nothing be locked says so.
            Err(error) => return assert!(error.to_string().contains("ulimit"), "{error}"),
        };
        let mut memory = Pinned::at(mapping, 0x1_0000_0000);
        assert_eq!(memory.room(), 0x1_0000_0000..0x1_0020_0000);
        memory.write(0x1_001f_fffd, &[1, 2, 3]).expect("it is within");
        let mut bytes = [9; 4];
        memory.read(0x1_001f_fffc, &mut bytes).expect("it is within");
        assert_eq!(bytes, [0, 1, 2, 3]);
        for (address, length) in [(0x1_001f_fffe, 3), (0xffff_ffff, 2), (u64::MAX, 2), (0, 1)] {
            let mut bytes = vec![0; length];
            assert!(memory.read(address, &mut bytes).is_err(), "{address:#x}");
            assert!(memory.write(address, &bytes).is_err(), "{address:#x}");
        }
    }
}
