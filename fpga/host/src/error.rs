//! What goes wrong between a host and a card.

use std::io;
use std::path::PathBuf;

use keywalk_contract::CommandStatus;
use keywalk_image::BuildError;

/// Why something could not be done. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No device has the wanted identifiers.
    #[error(
        "no card: none of the {seen} PCI devices under {path} is {ids}; see `lspci -d {ids}`, load the bitstream and scan the \
         bus again, or name other identifiers with --id"
    )]
    NoCard {
        /// Directory of the devices.
        path: PathBuf,
        /// How many devices there are.
        seen: usize,
        /// The identifiers.
        ids: String,
    },
    /// There is no PCI bus to look at.
    #[error("no card: {path} cannot be listed: {source}; is this a machine with PCI, and sysfs mounted?")]
    NoBus {
        /// Directory of the devices.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No device of the wanted identifiers has the wanted address, or none was named among several.
    #[error("{what}; the cards are {}: name one with --device", cards.join(", "))]
    Choice {
        /// What is wrong.
        what: String,
        /// Addresses of the cards.
        cards: Vec<String>,
    },
    /// A file of the system may not be used.
    #[error("no rights: {path}: {source}; {advice}")]
    NoRights {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A file of the system cannot be used for another reason.
    #[error("{path}: {source}; {advice}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The machine is not set up for it.
    #[error("{what}; {advice}")]
    Setup {
        /// What is missing or in the way.
        what: String,
        /// What to do.
        advice: String,
    },
    /// The card does not answer.
    #[error(
        "the card does not answer: register `{register}` reads as {value:#010x}; the bitstream is not loaded, the link is \
         down, or memory accesses are switched off: load it, scan the bus again, look at `lspci -vv` and `dmesg`"
    )]
    Silent {
        /// The register.
        register: &'static str,
        /// What it reads as.
        value: u32,
    },
    /// Something else is loaded.
    #[error("another bitstream is loaded: {what}; load a bitstream of this Keywalk")]
    Foreign {
        /// What differs.
        what: String,
    },
    /// It did not happen in time.
    #[error("{what} did not happen after {polls} looks at register `{register}`, which reads as {value:#010x}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The register.
        register: &'static str,
        /// How often it was read.
        polls: u32,
        /// Its last value.
        value: u32,
    },
    /// A mailbox command failed.
    #[error("{command} of {tag:#x} ended with `{}`: {}", status.name(), status.doc().trim())]
    Command {
        /// Name of the command.
        command: &'static str,
        /// Its tag.
        tag: u32,
        /// How it ended.
        status: CommandStatus,
    },
    /// The card did what it must not.
    #[error("{0}")]
    Wrong(String),
    /// The tables cannot be built.
    #[error("the tables cannot be built: {0}")]
    Tables(#[from] BuildError),
    /// Memory outside of what is pinned.
    #[error("{length} bytes at {address:#x} are not in the pinned memory")]
    OutsideMemory {
        /// Bus address.
        address: u64,
        /// Bytes.
        length: usize,
    },
    /// The simulation found a broken rule.
    #[error("the simulated card: {0}")]
    Simulation(String),
}

impl Error {
    /// Exit code of a command that ends with it: 1 failed, 2 wrong use, 3 no card, no rights, or a machine that is not set up.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Choice { .. } => 2,
            Self::NoCard { .. }
            | Self::NoBus { .. }
            | Self::NoRights { .. }
            | Self::File { .. }
            | Self::Setup { .. }
            | Self::Silent { .. }
            | Self::Foreign { .. } => 3,
            Self::Timeout { .. }
            | Self::Command { .. }
            | Self::Wrong(_)
            | Self::Tables(_)
            | Self::OutsideMemory { .. }
            | Self::Simulation(_) => 1,
        }
    }

    /// The error of a file: missing rights are told apart.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error, advice: &'static str) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRights { path, source, advice },
            _ => Self::File { path, source, advice },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_told_apart() {
        let of = |kind: io::ErrorKind| Error::file("/dev/x", kind.into(), "do this");
        let refused = of(io::ErrorKind::PermissionDenied);
        assert!(matches!(refused, Error::NoRights { .. }));
        assert_eq!(refused.to_string(), "no rights: /dev/x: permission denied; do this");
        let missing = of(io::ErrorKind::NotFound);
        assert!(matches!(missing, Error::File { .. }));
        assert_eq!(missing.to_string(), "/dev/x: entity not found; do this");
        assert_eq!([refused.exit_code(), missing.exit_code()], [3, 3]);
        let choice = Error::Choice { what: "there are 2 cards".into(), cards: vec!["a".into(), "b".into()] };
        assert_eq!(choice.to_string(), "there are 2 cards; the cards are a, b: name one with --device");
        assert_eq!([choice.exit_code(), Error::Wrong("x".into()).exit_code()], [2, 1]);
    }
}
