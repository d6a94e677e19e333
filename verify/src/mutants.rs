//! Mutants: faults in the generated Verilog of the small engine, which the tests must find.
//!
//! A build with the feature `mutants` holds all of them, asleep; an environment variable wakes one (see
//! [`keywalk_cosim::mutant`]). [`programs`] are what tests are: the soak, a block's own tests, the tests of the engine, the
//! vectors. [`run_all`] runs them for each mutant until one fails. [`Survivors`] says of mutants that no test can find, why.

mod programs;
mod run;
mod survivors;

pub use programs::{Program, ProgramError, programs};
pub use run::{Outcome, Verdict, run_all};
pub use survivors::{Kind, Survivor, Survivors, SurvivorsError};

use keywalk_cosim::mutant::{ALL, Mutant};

/// A mutant and its number.
pub type Numbered = (usize, &'static Mutant);

/// The mutants of this build, with their numbers.
pub fn all() -> impl Iterator<Item = Numbered> {
    ALL.iter().enumerate().map(|(index, mutant)| (index + 1, mutant))
}

/// `count` of the mutants, spread evenly over all of them, and so over the modules by their share.
#[must_use]
pub fn sample(mutants: &[Numbered], count: usize) -> Vec<Numbered> {
    let count = count.min(mutants.len());
    (0..count).map(|position| mutants[position * mutants.len() / count]).collect()
}

/// The block that a module belongs to: sizes of a queue or a free list are one.
#[must_use]
pub fn block(module: &str) -> &str {
    ["fifo", "free_list"].into_iter().find(|stem| module.starts_with(&format!("{stem}_"))).unwrap_or(module)
}
