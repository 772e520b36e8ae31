//! What an acquisition can end in instead of the lock. A slower lock that sheds load makes those wait less whom it still
//! serves, so that no other figure shows it.

use crate::results::record::figures::{self, FigureEntry};
use crate::results::record::{Better, Figure, Trial};

const ALL: [&FigureEntry; 5] = [
    &figures::DROPPED,
    &figures::TIMED_OUT,
    &figures::UNSERVED,
    &figures::ERRORS,
    &figures::SESSIONS_EXPIRED,
];

/// Whether a figure counts what was lost, so that it is compared as a share of what was asked for.
pub(super) fn has(figure: Figure) -> bool {
    ALL.iter().any(|entry| entry.figure() == figure)
}

/// Which way a figure is better: it is worse to lose more, also where the figure by itself is that of the load.
pub(super) fn better(figure: Figure) -> Better {
    if has(figure) { Better::Lower } else { figure.better() }
}

/// Which are compared under that load: at the end of a closed one some contender always waits, which is no loss.
pub(super) fn under(load: &str) -> impl Iterator<Item = Figure> {
    let always_some = (load == "closed").then_some(figures::UNSERVED.figure());
    ALL.iter().map(|entry| entry.figure()).filter(move |figure| Some(*figure) != always_some)
}

/// Whether any of these trials lost something of the kind: zeros on both sides say nothing and are not compared.
pub(super) fn are_any<'a>(figure: Figure, trials: impl IntoIterator<Item = &'a &'a Trial>) -> bool {
    trials.into_iter().any(|trial| figure.of(trial).is_ok_and(|reading| reading.value > 0.0))
}

/// How many acquisitions were asked for, at least one: those that were, and all that ended otherwise.
pub(super) fn asked_for(trial: &Trial) -> f64 {
    let dropped = trial.arrived.map_or(0, |arrived| arrived.dropped);
    (trial.measured.acquired() + trial.timed_out() + trial.unserved() + dropped).max(1) as f64
}
