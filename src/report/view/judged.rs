//! The verdict on some trials of a cell, in a word.

use super::Repetition;
use crate::verdict::Verdict;

/// `VIOLATED`, `held` or `unknown`. Trials whose figures do not count leave it unknown. A single contender has
/// nobody to exclude, so there is no verdict on it.
#[must_use]
pub fn verdict_word(trials: &[&Repetition], contenders: usize) -> Option<&'static str> {
    let verdict = trials.iter().map(|one| one.verdict.clone()).reduce(Verdict::and)?;
    match verdict {
        Verdict::Violated(_) => Some("VIOLATED"),
        _ if trials.iter().any(|one| one.violations > 0) => Some("VIOLATED"),
        _ if contenders < 2 => None,
        Verdict::Held if trials.iter().all(|one| one.is_sound()) => Some("held"),
        _ => Some("unknown"),
    }
}
