//! What is tested: the golden model or the RTL, behind one trait.

mod golden;
mod rtl;

use keywalk_model::{Beat, ContextRequest, ContextResponse, Controls, Request};

use crate::hardware::Undefined;
use crate::tables::Tables;

pub use golden::GoldenDut;
pub use rtl::{HostMemory, RtlDut, RtlOptions};

/// Why a design under test gave no answers.
#[derive(Debug, thiserror::Error)]
pub enum DutError {
    /// The bench stopped: a broken rule, a wait that is too long, a value that does not fit.
    #[error("{0}")]
    Bench(#[from] keywalk_cosim::Error),
    /// A status or wire class that the contract does not define.
    #[error("the response to tag {tag:#x}: {undefined}")]
    Undefined {
        /// Tag of the response.
        tag: u16,
        /// Field and value.
        undefined: Undefined,
    },
    /// Tables that the design cannot be told of.
    #[error("the tables use BT0 slot {slot}, configuration `{config}` has {slots} slots")]
    TooManySlots {
        /// Slot of the tables.
        slot: usize,
        /// Name of the configuration.
        config: String,
        /// Slots of the design.
        slots: u32,
    },
    /// A request without an answer although the design says it has answered all.
    #[error("request {number} of {count} was not answered, another one was answered twice")]
    Unanswered {
        /// Position of the request.
        number: usize,
        /// Requests submitted together.
        count: usize,
    },
    /// It was asked before it was configured.
    #[error("the design was asked before it was configured")]
    NotConfigured,
    /// The engine does not become idle.
    #[error("`status.idle` stays 0 after everything is answered")]
    NotIdle,
}

/// A design under test.
pub trait Dut {
    /// Resets the design and tells it of these tables.
    ///
    /// # Errors
    /// [`DutError`].
    fn configure(&mut self, tables: &Tables, controls: Controls) -> Result<(), DutError>;

    /// Changes the controls while nothing is in flight.
    ///
    /// # Errors
    /// [`DutError`].
    fn set_controls(&mut self, controls: Controls) -> Result<(), DutError>;

    /// Answers requests, many at a time; the answers are in order of the requests. Tags are the design's own.
    ///
    /// # Errors
    /// [`DutError`].
    fn translate(&mut self, requests: &[Request]) -> Result<Vec<Vec<Beat>>, DutError>;

    /// Answers requests of the context port, likewise.
    ///
    /// # Errors
    /// [`DutError`].
    fn context(&mut self, requests: &[ContextRequest]) -> Result<Vec<ContextResponse>, DutError>;

    /// Clock cycles so far, where there is a clock.
    fn cycles(&self) -> Option<u64>;
}
