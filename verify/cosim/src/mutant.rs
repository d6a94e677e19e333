//! The mutants of this build: faults in the small engine and its blocks, all asleep but the one that the environment
//! variable [`VARIABLE`] names. Without feature `mutants` there are none.

/// Environment variable with the number of the mutant that is awake; 0 or absent: none.
pub const VARIABLE: &str = "KEYWALK_MUTANT";

/// A fault in the generated Verilog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Module that it is in.
    pub module: &'static str,
    /// Line of the module's file, as it is generated.
    pub line: usize,
    /// What is done to the statement; a number in it is the place of an operator or name in the expression.
    pub change: &'static str,
    /// The statement.
    pub statement: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/mutants.rs"));
