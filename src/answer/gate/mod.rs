//! Gates: what must be true of a run so that a build may go on. Three-valued: what cannot be decided never passes.
//!
//! How they are written is in [`crate::scenario::gate`].

mod baseline;
mod evaluate;
mod observe;
mod outcome;
mod watch;

pub use baseline::Sides;
pub use evaluate::Evaluation;
pub use outcome::{Check, Limit, Observed, Outcome, overall};
pub use watch::GateWatch;

pub use crate::scenario::gate::Scope;

use crate::words::verdict::Verdict;

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
