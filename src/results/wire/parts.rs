//! The small parts of a trial: its phases, seconds, tallies, sessions and completeness.

use serde::{Deserialize, Serialize};

use crate::measure::Second;
use crate::record::{Completeness, Phase, Sessions, Tally};

/// One phase of a trial: `connect`, `ramp`, `warm-up`, `measure`, `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPhase {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub took_us: u64,
}

impl From<&Phase> for StoredPhase {
    fn from(phase: &Phase) -> Self {
        Self { name: phase.name.to_owned(), took_us: phase.took_us }
    }
}

/// What happened within one second of the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSecond {
    /// Locks acquired.
    pub acquisitions: u64,
    /// Requests sent.
    pub requests: u64,
    /// Notifications delivered.
    pub notifications: u64,
}

impl From<&Second> for StoredSecond {
    fn from(second: &Second) -> Self {
        Self {
            acquisitions: second.acquisitions,
            requests: second.requests,
            notifications: second.notifications,
        }
    }
}

/// What one contender did in the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTally {
    /// Locks acquired.
    pub acquired: u64,
    /// The longest single wait.
    pub longest_wait_us: u64,
}

impl From<&Tally> for StoredTally {
    fn from(tally: &Tally) -> Self {
        Self { acquired: tally.acquired, longest_wait_us: tally.longest_wait_us }
    }
}

/// The sessions of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSessions {
    /// Sessions opened before the clock started.
    pub opened: u64,
    /// How long it took until all of them were connected.
    pub connect_us: u64,
    /// The session timeout that the server granted.
    pub negotiated_timeout_us: u64,
    /// Sessions that expired during the trial.
    pub expired: u64,
    /// Sessions opened anew by contenders that had lost theirs.
    pub rejoined: u64,
}

impl From<&Sessions> for StoredSessions {
    fn from(sessions: &Sessions) -> Self {
        Self {
            opened: sessions.opened,
            connect_us: sessions.connect_us,
            negotiated_timeout_us: sessions.negotiated_timeout_ms.saturating_mul(1000),
            expired: sessions.expired,
            rejoined: sessions.rejoined,
        }
    }
}

/// Whether the trial ran to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCompleteness {
    /// Whether it did.
    pub complete: bool,
    /// What cut it short, when it did not.
    pub why: Option<String>,
}

impl From<&Completeness> for StoredCompleteness {
    fn from(completeness: &Completeness) -> Self {
        match completeness {
            Completeness::Complete => Self { complete: true, why: None },
            Completeness::Partial(why) => Self { complete: false, why: Some(why.clone()) },
        }
    }
}
