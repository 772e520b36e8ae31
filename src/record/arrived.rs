//! What became of the arrivals of an open load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arrivals that were due in the measured phase, whenever they ended: each was served, dropped, or not served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// Arrivals that were due.
    pub offered: u64,
    /// Arrivals for which acquire was called.
    pub started: u64,
    /// Arrivals that got the lock.
    pub served: u64,
    /// Arrivals that did not, because acquire failed or timed out, or because the backlog was given up.
    pub unserved: u64,
    /// Arrivals that found no free session and were dropped, as the scenario says.
    pub dropped: u64,
    /// How long it took after the measured phase until all had ended, in microseconds.
    pub backlog_us: u64,
}

impl Arrived {
    /// Who achieves less than this share of what was offered has missed it; the rest may be chance.
    pub const ACHIEVED: f64 = 0.98;

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            started: self.started + other.started,
            served: self.served + other.served,
            unserved: self.unserved + other.unserved,
            dropped: self.dropped + other.dropped,
            backlog_us: self.backlog_us + other.backlog_us,
        }
    }
}
