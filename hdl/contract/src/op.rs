//! Operations, rights, and which operation needs which right (contract section 6).

use crate::layout::Field;
use crate::mpt_entry;

/// What a request wants to do. The discriminant is the code on the request port.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// The card reads host memory for a local work request. Needs no right.
    LocalRead = 0,
    /// The card writes host memory for a local work request.
    LocalWrite = 1,
    /// A remote machine reads.
    RemoteRead = 2,
    /// A remote machine writes.
    RemoteWrite = 3,
    /// A remote machine performs an 8-byte atomic.
    RemoteAtomic = 4,
    /// A local work request binds a memory window to the region.
    Bind = 5,
}

/// Bits of the operation code on the request port.
pub const OPERATION_BITS: u32 = 4;
/// Longest request in bytes.
pub const LENGTH_MAX_BYTES: u64 = 1 << 31;
/// Length and alignment of an atomic in bytes.
pub const ATOMIC_BYTES: u64 = 8;

impl Operation {
    /// All operations in order of code.
    pub const ALL: [Operation; 6] =
        [Self::LocalRead, Self::LocalWrite, Self::RemoteRead, Self::RemoteWrite, Self::RemoteAtomic, Self::Bind];

    /// The operation of a code, `None` for an invalid one.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::LocalRead),
            1 => Some(Self::LocalWrite),
            2 => Some(Self::RemoteRead),
            3 => Some(Self::RemoteWrite),
            4 => Some(Self::RemoteAtomic),
            5 => Some(Self::Bind),
            _ => None,
        }
    }

    /// Code on the request port.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Name as in documents, vectors and command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalRead => "local_read",
            Self::LocalWrite => "local_write",
            Self::RemoteRead => "remote_read",
            Self::RemoteWrite => "remote_write",
            Self::RemoteAtomic => "remote_atomic",
            Self::Bind => "bind",
        }
    }

    /// The operation of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Whether a remote machine asked for it: decides the wire class of a failure.
    #[must_use]
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::RemoteRead | Self::RemoteWrite | Self::RemoteAtomic)
    }

    /// The MPT entry's bit that the operation needs; `None` where it needs none.
    #[must_use]
    pub const fn right(self) -> Option<Field> {
        match self {
            Self::LocalRead => None,
            Self::LocalWrite => Some(mpt_entry::LW_EN),
            Self::RemoteRead => Some(mpt_entry::RR_EN),
            Self::RemoteWrite => Some(mpt_entry::RW_EN),
            Self::RemoteAtomic => Some(mpt_entry::ATOMIC_EN),
            Self::Bind => Some(mpt_entry::BIND_EN),
        }
    }
}

/// A right by name, as the image builder takes it. The discriminant is the bit in a rights number.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Right {
    /// Local read: always granted, no bit in the entry.
    LocalRead = 0,
    /// Local write, `LW_EN`.
    LocalWrite = 1,
    /// Remote read, `RR_EN`.
    RemoteRead = 2,
    /// Remote write, `RW_EN`.
    RemoteWrite = 3,
    /// Remote atomic, `ATOMIC_EN`.
    Atomic = 4,
    /// Window bind, `BIND_EN`.
    Bind = 5,
}

impl Right {
    /// All rights in order of bit.
    pub const ALL: [Right; 6] =
        [Self::LocalRead, Self::LocalWrite, Self::RemoteRead, Self::RemoteWrite, Self::Atomic, Self::Bind];

    /// Name as the image builder takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalRead => "local_read",
            Self::LocalWrite => "local_write",
            Self::RemoteRead => "remote_read",
            Self::RemoteWrite => "remote_write",
            Self::Atomic => "atomic",
            Self::Bind => "bind",
        }
    }

    /// The right of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }

    /// The MPT entry's bit; `None` for local read, which needs none.
    #[must_use]
    pub const fn field(self) -> Option<Field> {
        match self {
            Self::LocalRead => None,
            Self::LocalWrite => Some(mpt_entry::LW_EN),
            Self::RemoteRead => Some(mpt_entry::RR_EN),
            Self::RemoteWrite => Some(mpt_entry::RW_EN),
            Self::Atomic => Some(mpt_entry::ATOMIC_EN),
            Self::Bind => Some(mpt_entry::BIND_EN),
        }
    }
}
