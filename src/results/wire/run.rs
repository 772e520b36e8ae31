//! `run.json`: all that is true of a run as a whole.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{SCHEMA_VERSION, StoredVerdict, time};
use crate::record::{EnsembleInfo, HostInfo, Run, RunOutcome};
use crate::verdict::Verdict;

/// How a run ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunEnding {
    /// All planned trials ran.
    Complete,
    /// Cut short by the user.
    Interrupted,
    /// Cut short by the environment.
    Aborted,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// `complete`, `interrupted` or `aborted`.
    pub ending: RunEnding,
    /// What cut it short, when the environment did.
    pub why: Option<String>,
}

impl From<&RunOutcome> for RunEnd {
    fn from(outcome: &RunOutcome) -> Self {
        match outcome {
            RunOutcome::Complete => Self { ending: RunEnding::Complete, why: None },
            RunOutcome::Interrupted => Self { ending: RunEnding::Interrupted, why: None },
            RunOutcome::Aborted(why) => Self { ending: RunEnding::Aborted, why: Some(why.clone()) },
        }
    }
}

/// The content of `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// The version of this layout: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of the tool.
    pub tool_version: String,
    /// Commit that it was built from, `-dirty` where the tree had changes.
    pub tool_commit: Option<String>,
    /// The scenario's name.
    pub scenario: String,
    /// How it ended.
    pub outcome: RunEnd,
    /// Whether the locks excluded, over all trials.
    pub exclusion: StoredVerdict,
    /// When it began; a label.
    #[serde(with = "time")]
    pub started_at: SystemTime,
    /// When it ended; a label.
    #[serde(with = "time")]
    pub ended_at: SystemTime,
    /// Trials planned.
    pub planned_trials: usize,
    /// Trials that ran: `trials/` holds one pair of files for each.
    pub trials: usize,
    /// The seed in force.
    pub seed: u64,
    /// Generator threads used.
    pub generator_threads: usize,
    /// Overrides given on the command line.
    pub overrides: Vec<String>,
    /// The generator's host.
    pub host: HostInfo,
    /// The ensemble.
    pub ensemble: EnsembleInfo,
    /// The scenario file's text, as run.
    pub scenario_text: String,
}

impl RunFile {
    /// The file for a run of so many trials, with the verdict on the run.
    #[must_use]
    pub fn new(run: &Run, verdict: &Verdict, trials: usize) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version: run.tool_version.clone(),
            tool_commit: run.tool_commit.clone(),
            scenario: run.scenario.clone(),
            outcome: (&run.outcome).into(),
            exclusion: verdict.into(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            planned_trials: run.planned_trials,
            trials,
            seed: run.seed,
            generator_threads: run.generator_threads,
            overrides: run.overrides.clone(),
            host: run.host.clone(),
            ensemble: run.ensemble.clone(),
            scenario_text: run.scenario_text.clone(),
        }
    }
}
