//! The types of the JSON files in a run directory.
//!
//! What a file says as the suite has it is a type of `record`, whose field names and their order are then those of
//! the file. A type of its own is here for what a file says in another form, or adds, so that no reader has to
//! compute it.
//!
//! Durations are microseconds and end in `_us`. Times are RFC 3339 in UTC. Counters are exact integers. A
//! value that was not measured is `null`, never 0.
//!
//! A field may be added without a new [`SCHEMA_VERSION`], because a reader passes over what it does not
//! know. To drop a field or to change its meaning takes a new version.

mod broken;
mod counts;
mod evidence;
mod run;
mod trial;

use serde::{Deserialize, Serialize};

pub use broken::StoredBroken;
pub use counts::{ByName, Derived, Latency, StoredCounts, StoredNotifications};
pub use evidence::{StoredAccounting, StoredVerdict, VerdictWord};
pub use run::{RunEnd, RunEnding, RunFile};
pub use trial::{StoredCompleteness, StoredHealth, TrialFile};

pub use crate::record::{EnsembleInfo, EnsembleOrder, Evidence, FaultRecord, Stuck};

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

/// Wall times as RFC 3339 text in UTC, to the microsecond.
mod time {
    use std::time::SystemTime;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the time as text such as `2026-11-21T08:45:08.123456Z`.
    pub fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_micros(*time))
    }

    /// Reads such text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text).map_err(|_| {
            D::Error::custom(format!("`{text}` is not a UTC time such as `2026-11-21T08:45:08.123456Z`"))
        })
    }
}
