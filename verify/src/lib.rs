//! Vectors through the golden model and the RTL: the library behind the command `keywalk-verify`.
//!
//! A [`Vector`] is a file of tables that the real driver built, with the answers that an engine must give. [`Tables`]
//! are what an engine sees of it. A [`Dut`] answers requests; [`run_file`] asks it for every row of a vector, for every
//! live region as a whole and for random parts, and says in a [`FileReport`] what differed. [`replay_file`] lets a
//! [`CommandDut`] build the tables itself, from the vector's log of what the driver sent.

pub mod answers;
pub mod arguments;
pub mod bench;
pub mod checks;
pub mod coverage;
pub mod dut;
pub mod figures;
pub mod fit;
pub mod formal;
pub mod hardware;
pub mod mutants;
pub mod number;
pub mod page_list;
pub mod pieces;
pub mod replay;
pub mod report;
pub mod route;
pub mod rtl_coverage;
pub mod run;
pub mod scenario;
pub mod soak;
pub mod suite;
pub mod synth;
pub mod tables;
pub mod vector;

pub use dut::{Dut, DutError, GoldenDut, HostMemory, RtlDut, RtlOptions};
pub use replay::{CommandDut, EventLog, ModelDevice, ReplayReport, RtlDevice, replay_file};
pub use report::{Count, Difference, FileReport, Report};
pub use run::{Settings, run_file};
pub use suite::{Design, Suite, SuiteError};
pub use tables::{Golden, Tables};
pub use vector::{Vector, VectorError};
