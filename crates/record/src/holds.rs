//! Holds that ended with the holder's session, or that reached or exceeded the scenario's hold limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::added_up;
use zklockbench_core::measure::combine::most;

/// A hold during which the ensemble ended the holder's session. Times are in microseconds since the end of
/// the session, which the servers' clock gives in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostHold {
    /// Number of the contender.
    pub contender: usize,
    /// Time at which the holder was notified of a lost connection, negative before the end of the session.
    /// `None` if it was not notified.
    pub suspended_us: Option<i64>,
    /// Time until the holder was notified that its session had ended; `None` if it left before that.
    pub told_us: Option<u64>,
    /// Time until the holder left its critical section.
    pub inside_us: u64,
}

/// Holds of a trial during which the ensemble ended the holder's session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostHolds {
    /// Number of these holds.
    pub count: u64,
    /// The first [`LostHolds::KEPT`] holds.
    pub holds: Vec<LostHold>,
}

impl LostHolds {
    pub const KEPT: usize = 1_000;

    pub fn note(&mut self, hold: LostHold) {
        self.count += 1;
        if self.holds.len() < Self::KEPT {
            self.holds.push(hold);
        }
    }

    /// Longest time until a holder was notified of the end of its session.
    pub fn told_max_us(&self) -> Option<u64> {
        self.holds.iter().filter_map(|hold| hold.told_us).max()
    }

    /// Longest time for which a holder stayed inside after the end of its session.
    pub fn inside_max_us(&self) -> Option<u64> {
        self.holds.iter().map(|hold| hold.inside_us).max()
    }
}

/// Counts of holds in a trial with a hold limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitedHolds {
    /// Holds that ended at the limit.
    pub ended_at_limit: u64,
    /// Holds that exceeded the limit by more than 50 ms, because the holder could not act.
    pub overran: u64,
    /// Longest excess of a hold over the limit, in microseconds.
    pub longest_overrun_us: u64,
    /// Acquisitions that waited until more than 50 ms after the limit of the hold that blocked them.
    pub blocked: u64,
    /// Longest wait beyond the limit, in microseconds.
    pub longest_blocked_us: u64,
}

impl LimitedHolds {
    /// Tolerance for timers on a busy host.
    const LATE_US: u64 = 50_000;

    pub fn note_overrun(&mut self, us: u64) {
        if us > Self::LATE_US {
            self.overran += 1;
            self.longest_overrun_us = self.longest_overrun_us.max(us);
        }
    }

    pub fn note_blocked(&mut self, us: u64) {
        if us > Self::LATE_US {
            self.blocked += 1;
            self.longest_blocked_us = self.longest_blocked_us.max(us);
        }
    }
}

added_up!(LimitedHolds {
    ended_at_limit,
    overran,
    longest_overrun_us: most,
    blocked,
    longest_blocked_us: most,
});
