//! Formal proofs: properties are put into generated Verilog, and yosys, smtbmc and abc show that they hold for all inputs.
//!
//! [`Plan`] reads `verify/formal/proofs.toml`: which properties go into which modules, how each is shown, and the planted
//! faults that each must find. [`Design`] finds the Verilog, [`Tools`] the programs. [`run_all`] takes [`Task`]s, each a
//! proof of one module or one planted fault, and says in an [`Outcome`] how it went.

mod design;
mod plan;
mod run;
mod tools;

pub use design::{Design, DesignError};
pub use plan::{Method, Plan, PlanError, Planted, Proof};
pub use run::{Outcome, RunError, Settings, Task, Verdict, run_all};
pub use tools::{Tools, ToolsError};
