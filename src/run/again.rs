//! Trials whose figures the generator spoiled are made again at the end of the run, where what disturbed them may be over.
//!
//! That looks at no value: a trial is invalid by what was seen of the generator and its host. (`ab` makes up for blocks by
//! the same rule.) Where the host spoils so many that it is no place to measure, some stay invalid, and count as that.

use crate::record::Trial;
use crate::scenario::{self, TrialSpec};

/// How often the same trial is made again at most.
const TIMES_AT_MOST: usize = 3;

/// What is made again, and how much of it is left.
pub(super) struct Again {
    times: usize,
    trials: usize,
}

impl Again {
    /// For a run of so many trials.
    pub fn of(planned: usize) -> Self {
        Self { times: TIMES_AT_MOST, trials: planned }
    }

    /// The trials that follow those that ran, in the order of running; none where there is nothing to make up for, or where
    /// that was tried often enough.
    pub fn next(&mut self, ran: &[Trial]) -> Vec<TrialSpec> {
        let replaced = Trial::replaced(ran);
        let spoiled = ran.iter().filter(|trial| trial.is_spoiled() && !replaced.contains(&trial.spec.index));
        let spoiled: Vec<TrialSpec> = spoiled.take(self.trials).map(|trial| trial.spec.clone()).collect();
        if self.times == 0 {
            return Vec::new();
        }
        self.times -= 1;
        self.trials -= spoiled.len();
        let first = ran.iter().map(|trial| trial.spec.index + 1).max().unwrap_or(0);
        scenario::again(&spoiled, first)
    }
}
