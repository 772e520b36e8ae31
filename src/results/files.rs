//! The JSON files of a run directory: what was recorded, as it was recorded, with the version of the layout.
//!
//! Durations are whole microseconds in fields that end with `_us`; wall times are RFC 3339 text in UTC; a value that was
//! not measured is `null`, never 0. A field may be added without a new [`SCHEMA_VERSION`], because a reader passes over
//! what it does not know. To drop a field or to change its meaning takes a new version.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::record::{Derived, Judged, Run, Trial};
use crate::words::measure::{Latency, Measure};

/// The version of the files that this program writes, and the only one that it reads.
pub const SCHEMA_VERSION: u32 = 2;

/// `trials/NNN.json`: all that one trial yields, but for the full histograms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFile<'a> {
    /// The version of this layout: 2.
    pub schema_version: u32,
    /// What was recorded.
    #[serde(flatten)]
    pub trial: Cow<'a, Trial>,
    /// What follows from the counts.
    pub derived: Derived,
    /// For each measure that has samples, by its name: its numbers.
    pub latencies: BTreeMap<Measure, Latency>,
}

impl<'a> From<&'a Trial> for TrialFile<'a> {
    fn from(trial: &'a Trial) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            trial: Cow::Borrowed(trial),
            derived: trial.derived(),
            latencies: trial.latencies(),
        }
    }
}

/// `run.json`: all that is true of a run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    /// The version of this layout: 2.
    pub schema_version: u32,
    /// What was recorded.
    #[serde(flatten)]
    pub run: Run,
    /// What was judged of it, over all trials.
    pub judged: Judged,
    /// Trials that ran: `trials/` holds one pair of files for each.
    pub trials: usize,
    /// The SHA-256 of every other file of the directory, by its path in it.
    pub files: BTreeMap<String, String>,
    /// The SHA-256 of this file, as it is with 64 zeros in this place.
    pub digest: String,
}

impl std::ops::Deref for RunFile {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    pub run: RunFile,
    /// What each `trials/NNN.json` and `trials/NNN.hlog` say, in the order in which the trials ran.
    pub trials: Vec<Trial>,
    /// The same of invalid trials in whose place others were made: what the generator spoiled, and nothing else, is not
    /// among the run's figures.
    pub replaced: Vec<Trial>,
}

impl StoredRun {
    pub fn of(run: RunFile, trials: Vec<Trial>) -> Self {
        let numbers = Trial::replaced(&trials);
        let (replaced, trials) = trials.into_iter().partition(|trial| numbers.contains(&trial.spec.index));
        Self { run, trials, replaced }
    }
}

pub fn schemas() -> [(&'static str, Schema); 2] {
    [("run.json", schema_for!(RunFile)), ("trials/NNN.json", schema_for!(TrialFile<'_>))]
}
