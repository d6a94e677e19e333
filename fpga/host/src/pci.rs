//! PCI devices as sysfs shows them.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use crate::Error;

/// Where sysfs is.
pub const SYSFS: &str = "/sys";

/// Vendor and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ids {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
}

impl Ids {
    /// Those of the bitstreams that `make bitstream` builds.
    pub const CARD: Self = Self { vendor: 0x10ee, device: 0x903f };
}

impl fmt::Display for Ids {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let is_plain = text.len() == 4 && text.chars().all(|digit| digit.is_ascii_hexdigit());
            if is_plain { u16::from_str_radix(text, 16).ok() } else { None }
        };
        let parts = text.split_once(':').and_then(|(vendor, device)| Some((number(vendor)?, number(device)?)));
        let (vendor, device) =
            parts.ok_or_else(|| "legal is VENDOR:DEVICE, four hexadecimal digits each, as 10ee:903f".to_owned())?;
        Ok(Self { vendor, device })
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PciDevice {
    /// Address, as 0000:65:00.0.
    pub address: String,
    /// Vendor and device.
    pub ids: Ids,
    /// Driver that it is bound to.
    pub driver: Option<String>,
    /// Bytes of BAR 0; 0 where it has no address.
    pub bar0_bytes: u64,
    /// How the IOMMU treats it: `identity` passes addresses on, others translate. `None` without an IOMMU.
    pub iommu: Option<String>,
    /// Its directory.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Text of a file of sysfs, none of which is longer than a page.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A file with one number in hexadecimal.
fn number(path: &Path) -> Option<u64> {
    u64::from_str_radix(text(path)?.trim().trim_start_matches("0x"), 16).ok()
}

/// Bytes of the first line of a file `resource`: first address, last address, flags. One for which the kernel found no room
/// begins at 0.
fn bar0_bytes(text: &str) -> u64 {
    let line = text.lines().next().unwrap_or_default();
    let mut numbers = line.split_whitespace().map(|number| u64::from_str_radix(number.trim_start_matches("0x"), 16));
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first > 0 && last > first => (last - first).saturating_add(1),
        _ => 0,
    }
}

impl PciDevice {
    /// The device of a directory; `None` where that has no identifiers.
    fn read(path: &Path) -> Option<Self> {
        let id = |name: &str| number(&path.join(name)).and_then(|number| u16::try_from(number).ok());
        let ids = Ids { vendor: id("vendor")?, device: id("device")? };
        let driver = fs::read_link(path.join("driver")).ok();
        let iommu = text(&path.join("iommu_group/type"));
        Some(Self {
            address: path.file_name()?.to_string_lossy().into_owned(),
            ids,
            driver: driver.and_then(|driver| Some(driver.file_name()?.to_string_lossy().into_owned())),
            bar0_bytes: text(&path.join("resource")).map_or(0, |text| bar0_bytes(&text)),
            iommu: iommu.map(|kind| kind.trim().to_owned()),
            path: path.into(),
        })
    }
}

/// The devices with these identifiers, in order of address. `sysfs` is where sysfs is, [`SYSFS`] or a copy.
///
/// # Errors
/// [`Error::NoBus`]; [`Error::NoCard`] where there is none.
pub fn find(sysfs: &Path, ids: Ids) -> Result<Vec<PciDevice>, Error> {
    let path = sysfs.join("bus/pci/devices");
    let entries = fs::read_dir(&path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(|source| Error::NoBus { path: path.clone(), source })?;
    let mut devices: Vec<_> = entries.iter().filter_map(|entry| PciDevice::read(&entry.path())).collect();
    devices.retain(|device| device.ids == ids);
    if devices.is_empty() {
        return Err(Error::NoCard { path, seen: entries.len(), ids: ids.to_string() });
    }
    devices.sort_by(|one, other| one.address.cmp(&other.address));
    Ok(devices)
}

/// The device that is meant: the one of that address, or the only one.
///
/// # Errors
/// [`Error::Choice`].
pub fn choose(mut devices: Vec<PciDevice>, address: Option<&str>) -> Result<PciDevice, Error> {
    let cards = || devices.iter().map(|device| device.address.clone()).collect();
    let position = match address {
        // The domain may be left out.
        Some(address) => devices.iter().position(|device| {
            device.address == address || device.address.strip_prefix("0000:").is_some_and(|short| short == address)
        }),
        None if devices.len() == 1 => Some(0),
        None => None,
    };
    let what = || match address {
        Some(address) => format!("no card is at {address}"),
        None => format!("there are {} cards", devices.len()),
    };
    match position {
        Some(position) => Ok(devices.swap_remove(position)),
        None => Err(Error::Choice { what: what(), cards: cards() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_and_written_as_lspci_does() {
        assert_eq!("10ee:903f".parse(), Ok(Ids::CARD));
        assert_eq!(Ids::CARD.to_string(), "10ee:903f");
        for wrong in ["", "10ee", "10ee:", "10ee:903", "0x10:903f", "10ee:903f0", "10ee:90 f", "+123:4567"] {
            let error = wrong.parse::<Ids>().expect_err(wrong);
            assert!(error.contains("VENDOR:DEVICE"), "{error}");
        }
    }

    #[test]
    fn the_first_line_of_resource_tells_the_size() {
        let line = "0x00000000fb000000 0x00000000fb007fff 0x0000000000040200\n";
        assert_eq!(bar0_bytes(line), 0x8000);
        assert_eq!(bar0_bytes("0x0000000000000000 0x0000000000000000 0x0000000000000000\n"), 0);
        // The size is known, the address is not.
        assert_eq!(bar0_bytes("0x0000000000000000 0x0000000000007fff 0x0000000020040200\n"), 0);
        for odd in
            ["", "x y z", "0xfb000000", "0xfb000000 0xfa000000 0x0", "\n0x1 0x2 0x3", "0x1ffffffffffffffff 0x2 0x3"]
        {
            assert_eq!(bar0_bytes(odd), 0, "{odd}");
        }
        assert_eq!(bar0_bytes("0x1 0xffffffffffffffff 0x0\n"), u64::MAX);
    }
}
