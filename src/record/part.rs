//! What one worker saw of a trial: a generator thread here, or a whole load generator. Parts add up to the trial in
//! any order; what is derived or judged is so of the sum, and once.

use std::collections::BTreeMap;

use super::overlap::KeptOut;
use super::overlap::Overlaps;
use super::trial::Tally;
use crate::words::measure::{Histogram, ThreadRecorder, new_histogram};

/// What a worker noted beside its recorder.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Occurrences {
    pub tallies: BTreeMap<usize, Tally>,
    pub errors: BTreeMap<String, u64>,
    /// Two inside at once, and what was the matter with their holds.
    pub overlaps: Overlaps,
    /// Looks at a lock on behalf of the suite, which the servers count.
    pub looks_beside: u64,
    /// Writes on behalf of the suite.
    pub writes_beside: u64,
    pub kept_out: KeptOut,
    /// Holders that had asked for the deletion of their own node before they left.
    pub given_up_early: u64,
    /// Sessions opened before the start.
    pub opened: u64,
    pub expired: u64,
    pub rejoined: u64,
    /// The generator's own lag on the way to each lock, summed over the acquisitions measured.
    pub lag_us: u64,
    /// What that lag is a part of: the handoffs, or the waits of locks that are not handed over.
    pub lag_basis_us: u64,
    /// Looks that polling contenders should have made, by their measured waits.
    pub looks_by_wait: u64,
}

impl Occurrences {
    pub fn error(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        // Every field by name, so that none can be forgotten.
        let Self {
            tallies,
            errors,
            overlaps,
            looks_beside,
            writes_beside,
            kept_out,
            given_up_early,
            opened,
            expired,
            rejoined,
            lag_us,
            lag_basis_us,
            looks_by_wait,
        } = other;
        self.tallies.extend(tallies);
        for (what, times) in errors {
            *self.errors.entry(what).or_default() += times;
        }
        self.overlaps.merge(overlaps);
        self.looks_beside += looks_beside;
        self.writes_beside += writes_beside;
        self.kept_out += kept_out;
        self.given_up_early += given_up_early;
        self.opened += opened;
        self.expired += expired;
        self.rejoined += rejoined;
        self.lag_us += lag_us;
        self.lag_basis_us += lag_basis_us;
        self.looks_by_wait += looks_by_wait;
    }
}

/// Of different contenders any two of these are one of all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Histograms, counts, and the seconds of the measured phase.
    pub recorder: ThreadRecorder,
    pub occurrences: Occurrences,
    /// By how much the worker's own timers were late.
    pub timer_lag: Histogram,
}

impl Part {
    /// That of a worker that saw nothing.
    pub fn nothing() -> Self {
        Self {
            recorder: ThreadRecorder::new(1),
            occurrences: Occurrences::default(),
            timer_lag: new_histogram(),
        }
    }

    /// All of them as one; of one part that part.
    pub fn merged(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).unwrap_or_else(Self::nothing)
    }

    #[allow(clippy::expect_used, reason = "all histograms use the same bounds, so adding cannot fail")]
    fn and(mut self, other: Self) -> Self {
        self.recorder.merge(&other.recorder);
        self.occurrences.merge(other.occurrences);
        self.timer_lag.add(&other.timer_lag).expect("histograms share their bounds");
        self
    }
}
