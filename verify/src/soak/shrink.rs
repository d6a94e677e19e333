//! Makes a failing case smaller: leaves events out and calms the surroundings for as long as it still fails alike.

use super::case::{Calm, Case};
use super::ranges_text;
use super::run::{Trouble, run};
use crate::coverage::Coverage;

/// What is left of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Numbers of the events that are kept, sorted; none: all.
    pub keep: Option<Vec<usize>>,
    /// What is calm.
    pub calm: Vec<Calm>,
}

impl Reduction {
    /// The reduced case.
    #[must_use]
    pub fn apply(&self, case: &Case) -> Case {
        let case = match &self.keep {
            Some(numbers) => case.keeping(numbers),
            None => case.clone(),
        };
        self.calm.iter().fold(case, |case, calm| case.calmer(*calm))
    }

    /// As arguments of the command.
    #[must_use]
    pub fn arguments(&self) -> String {
        let mut parts = Vec::new();
        if let Some(numbers) = &self.keep {
            parts.push(format!("--keep {}", ranges_text(numbers)));
        }
        if !self.calm.is_empty() {
            let names: Vec<_> = self.calm.iter().map(|calm| calm.name()).collect();
            parts.push(format!("--calm {}", names.join(",")));
        }
        parts.join(" ")
    }
}

/// A smaller case that fails alike.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left.
    pub reduction: Reduction,
    /// How it fails.
    pub trouble: Trouble,
    /// Runs that it took.
    pub runs: u32,
}

struct Shrinking<'a> {
    case: &'a Case,
    best: Shrunk,
    runs_max: u32,
    progress: &'a mut dyn FnMut(u32, usize),
}

/// Shrinks a case that failed with `trouble`, in at most `runs_max` runs. The same case always shrinks to the same.
/// `progress` gets the runs so far and the events that are left.
pub fn shrink(case: &Case, trouble: &Trouble, runs_max: u32, mut progress: impl FnMut(u32, usize)) -> Shrunk {
    let best = Shrunk { reduction: Reduction::default(), trouble: trouble.clone(), runs: 0 };
    let mut shrinking = Shrinking { case, best, runs_max, progress: &mut progress };
    shrinking.end();
    shrinking.begin();
    for calm in Calm::ALL {
        let mut calmer = shrinking.best.reduction.clone();
        calmer.calm.push(calm);
        shrinking.attempt(calmer);
    }
    shrinking.leave_out();
    shrinking.best
}

impl Shrinking<'_> {
    fn kept(&self) -> Vec<usize> {
        self.best.reduction.keep.clone().unwrap_or_else(|| self.case.numbers())
    }

    /// Runs a reduction and keeps it if it fails alike.
    fn attempt(&mut self, reduction: Reduction) -> bool {
        if self.best.runs >= self.runs_max {
            return false;
        }
        self.best.runs += 1;
        let result = run(&reduction.apply(self.case), &mut Coverage::default(), None);
        let is_alike = matches!(&result, Err(trouble) if trouble.kind == self.best.trouble.kind);
        if let Err(trouble) = result
            && is_alike
        {
            self.best.trouble = trouble;
            self.best.reduction = reduction;
        }
        let left = self.kept().len();
        (self.progress)(self.best.runs, left);
        is_alike
    }

    fn keep(&mut self, numbers: Vec<usize>) -> bool {
        let reduction = Reduction { keep: Some(numbers), calm: self.best.reduction.calm.clone() };
        self.attempt(reduction)
    }

    /// What comes after the failure had not been begun.
    fn end(&mut self) {
        let last = self.best.trouble.event;
        let kept: Vec<_> = self.kept().into_iter().filter(|number| *number <= last).collect();
        if kept.len() < self.kept().len() {
            self.keep(kept);
        }
    }

    /// The chapters before the last are mostly of no importance.
    fn begin(&mut self) {
        let kept = self.kept();
        let chapters: Vec<Vec<usize>> = self
            .case
            .keeping(&kept)
            .chapters
            .iter()
            .map(|chapter| chapter.events.iter().map(|(number, _)| *number).collect())
            .collect();
        if let [_, .., last] = chapters.as_slice() {
            self.keep(last.clone());
        }
    }

    /// Leaves out ever smaller parts.
    fn leave_out(&mut self) {
        let mut part = self.kept().len().div_ceil(2);
        while part > 0 && self.best.runs < self.runs_max {
            let mut position = 0;
            let mut has_shrunk = false;
            while position < self.kept().len() && self.best.runs < self.runs_max {
                let mut numbers = self.kept();
                let end = (position + part).min(numbers.len());
                numbers.drain(position..end);
                if !numbers.is_empty() && self.keep(numbers) {
                    has_shrunk = true;
                } else {
                    position += part;
                }
            }
            if part == 1 && !has_shrunk {
                break;
            }
            part = if part == 1 { 1 } else { part.div_ceil(2).min(part - 1) };
        }
    }
}
