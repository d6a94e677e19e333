//! What can go wrong in a test bench.

use std::fmt;
use std::path::PathBuf;

/// A rule of an interface that every design must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Valid stays until the transfer.
    ValidHeld,
    /// The payload stays the same from valid until the transfer.
    PayloadStable,
    /// Valid is low during reset.
    ValidLowInReset,
    /// A burst is of type INCR.
    BurstType,
    /// A burst's beats have the width of the bus.
    BurstSize,
    /// A burst is one 64-byte line.
    BurstLength,
    /// A burst begins at a multiple of its bytes.
    BurstAligned,
    /// A burst of the data mover is no longer than its configuration says.
    BurstTooLong,
    /// A burst of the data mover begins with a beat.
    BeatAligned,
    /// A burst does not cross a multiple of 4 KiB.
    BurstWithin4KiB,
    /// The bytes that a burst of the data mover writes lie side by side.
    BytesTogether,
    /// A read does not take the ID of one in flight.
    IdNotInUse,
    /// Read data and responses answer something.
    AnswersARequest,
    /// The last beat of a burst, and no other, carries `last`.
    LastBeat,
    /// Read data is taken within a bounded time.
    ReadDataTaken,
    /// An AXI4-Lite response is OKAY, SLVERR or DECERR.
    LiteResponse,
    /// A translation's beats count from 0 without gaps, `first` and `last` at its ends only.
    SegmentOrder,
    /// The beats of one translation are not interleaved with those of another.
    SegmentsTogether,
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ValidHeld => "valid is held until the transfer",
            Self::PayloadStable => "the payload is stable from valid until the transfer",
            Self::ValidLowInReset => "valid is low during reset",
            Self::BurstType => "a burst is of type INCR",
            Self::BurstSize => "a burst's beats have the width of the bus",
            Self::BurstLength => "a burst is one 64-byte line",
            Self::BurstAligned => "a burst begins at a multiple of its bytes",
            Self::BurstTooLong => "a burst is no longer than its configuration says",
            Self::BeatAligned => "a burst begins at a multiple of the bytes of a beat",
            Self::BurstWithin4KiB => "a burst does not cross a multiple of 4 KiB",
            Self::BytesTogether => "the bytes that a burst writes lie side by side",
            Self::IdNotInUse => "the ID of a read in flight is not used again",
            Self::AnswersARequest => "every answer belongs to a request",
            Self::LastBeat => "the last beat of a burst, and no other, carries last",
            Self::ReadDataTaken => "read data is taken within a bounded time",
            Self::LiteResponse => "an AXI4-Lite response is OKAY, SLVERR or DECERR",
            Self::SegmentOrder => "segments count from 0, first and last at the ends only",
            Self::SegmentsTogether => "segments of one response are not interleaved with another's",
        })
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Port or channel.
    pub port: String,
    /// Clock cycle, counted from the creation of the model.
    pub cycle: u64,
    /// What was seen before, or expected.
    pub before: String,
    /// What was seen in that cycle.
    pub after: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, port, cycle, before, after } = self;
        write!(formatter, "{port}, cycle {cycle}: broken rule: {rule}; before or expected: {before}; now: {after}")
    }
}

/// Why a test bench stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The design has no such port, or one of another direction.
    #[error("design `{dut}` has no {wanted} `{port}`; it has: {known}")]
    NoSuchPort {
        /// The design.
        dut: &'static str,
        /// What was looked for.
        wanted: &'static str,
        /// Its name.
        port: String,
        /// Ports that would do.
        known: String,
    },
    /// The channel has no such field.
    #[error("channel `{channel}` has no field `{field}`; it has: {known}")]
    NoSuchField {
        /// The channel.
        channel: String,
        /// The field.
        field: String,
        /// Its fields.
        known: String,
    },
    /// A value is too wide for its field.
    #[error("{what} has {width} bits and cannot hold {value:#x}")]
    ValueTooWide {
        /// Field or port.
        what: String,
        /// Its width in bits.
        width: u32,
        /// The value.
        value: u128,
    },
    /// A port is as wide as the component does not support.
    #[error("port `{port}` has {width} bits, legal is {legal}")]
    PortWidth {
        /// The port.
        port: String,
        /// Its width in bits.
        width: u32,
        /// What the component supports.
        legal: &'static str,
    },
    /// A configuration value is outside its range.
    #[error("{what} is {value}, legal is {legal}")]
    OutOfRange {
        /// The value's name.
        what: String,
        /// The value.
        value: u64,
        /// The legal range in words.
        legal: String,
    },
    /// The design broke a rule.
    #[error("{0}")]
    Violation(Box<Violation>),
    /// Something did not happen in time.
    #[error("cycle {cycle}: waited {limit_cycles} cycles for {waited_for} in vain ({state})")]
    Timeout {
        /// What was waited for.
        waited_for: String,
        /// How long.
        limit_cycles: u64,
        /// Clock cycle at the end of the wait.
        cycle: u64,
        /// What the bench knows about its state.
        state: String,
    },
    /// A register access was answered with an error.
    #[error("register access at offset {offset:#x} was answered with {response}")]
    RegisterAccess {
        /// Byte offset.
        offset: u32,
        /// SLVERR or DECERR.
        response: &'static str,
    },
    /// The models were built without tracing.
    #[error("this build has no tracing: build with `--features trace` (of keywalk-cosim)")]
    TraceNotBuilt,
    /// Verilator counts nothing in this design.
    #[error("`{dut}` was compiled without coverage: build with `--features coverage` and use `small_covered`")]
    CoverageNotBuilt {
        /// The design.
        dut: &'static str,
    },
    /// The file for Verilator's counts cannot be written.
    #[error("the coverage file {} cannot be written", path.display())]
    CoverageFile {
        /// The file.
        path: PathBuf,
    },
    /// The trace file cannot be written.
    #[error("the trace file {} cannot be written", path.display())]
    TraceFile {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// The broken rule, where it is one.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::Violation(violation) => Some(violation.rule),
            _ => None,
        }
    }
}

/// Shorthand for a broken rule.
pub(crate) fn violation(
    rule: Rule,
    port: &str,
    cycle: u64,
    before: impl Into<String>,
    after: impl Into<String>,
) -> Error {
    let violation = Violation { rule, port: port.into(), cycle, before: before.into(), after: after.into() };
    Error::Violation(Box::new(violation))
}
