//! The types of the JSON files in a run directory, apart from the types that the suite works with.
//!
//! Durations are microseconds and end in `_us`. Times are RFC 3339 in UTC. Counters are exact integers. A
//! value that was not measured is `null`, never 0.
//!
//! A field may be added without a new [`SCHEMA_VERSION`], because a reader passes over what it does not
//! know. To drop a field or to change its meaning takes a new version.

mod broken;
mod counts;
mod derived;
mod evidence;
mod health;
mod latency;
mod parts;
mod run;
mod time;
mod trial;
mod verdict;

use serde::{Deserialize, Serialize};

pub use broken::{StoredBroken, StoredEnsembleOrder, StoredExcused, StoredFault, StoredFencing, StoredStuck};
pub use counts::{ByName, StoredCounts, StoredNotifications};
pub use derived::Derived;
pub use evidence::{StoredAccounting, StoredHolder, StoredServerCounters, StoredViolation};
pub use health::StoredHealth;
pub use latency::Latency;
pub use parts::{StoredCompleteness, StoredPhase, StoredSecond, StoredSessions, StoredTally};
pub use run::{RunEnd, RunEnding, RunFile, StoredEnsemble, StoredHost, StoredServer};
pub use trial::TrialFile;
pub use verdict::{StoredVerdict, VerdictWord};

/// The version of the files that this program writes, and the only one that it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// A run as read from its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// What `run.json` says.
    pub run: RunFile,
    /// What each `trials/NNN.json` says, in the order in which the trials ran.
    pub trials: Vec<TrialFile>,
}
