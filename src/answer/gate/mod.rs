//! Gates: what must be true of a run so that a build may go on. Three-valued: what cannot be decided never passes.
//!
//! How they are written is in [`crate::words::catalog::gate`].

mod baseline;
mod evaluate;
mod observe;
mod outcome;

pub use baseline::Sides;
pub use evaluate::Evaluation;
pub use outcome::{Check, Limit, Observed, Outcome, overall};

use crate::results::record::Trial;
use crate::words::units::contenders;
use crate::words::verdict::Verdict;

/// One strategy at one number of contenders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub strategy: String,
    pub contenders: usize,
}

impl Cell {
    /// Whether that trial is one of its.
    pub fn is_of(&self, trial: &Trial) -> bool {
        trial.spec.strategy.label == self.strategy && trial.spec.contenders == self.contenders
    }

    /// As messages call it: `baton, 20 contenders`.
    pub fn name(&self) -> String {
        format!("{}, {}", self.strategy, contenders(self.contenders))
    }
}

/// Puts those first that call for a person.
pub fn worst_first(outcomes: &mut [Outcome]) {
    outcomes.sort_by_key(|outcome| rank(&outcome.verdict));
}

/// Where a verdict stands when the worst comes first.
fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Violated(_) => 0,
        Verdict::Unknown(_) => 1,
        Verdict::Held => 2,
    }
}
