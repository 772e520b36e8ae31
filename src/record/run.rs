//! All that is true of a run as a whole: tool, host, ensemble, scenario as run, outcome.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Floor;
use crate::units::as_utc;

/// The machine that the generator ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostInfo {
    /// Its name.
    pub hostname: String,
    /// Operating system and version.
    pub os: String,
    /// Kernel version.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors available to this process.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// One server of the ensemble.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerInfo {
    /// `host:port` for clients.
    pub address: String,
    /// `leader`, `follower`, `standalone`, or why it could not be asked.
    pub role: String,
    /// The version that it reports.
    pub version: String,
}

/// The ensemble that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnsembleInfo {
    /// `local` (started by the suite) or `external`.
    pub kind: String,
    /// The connect string, chroot included.
    pub connect: String,
    /// Its servers.
    pub servers: Vec<ServerInfo>,
    /// Where the data lay and on what, e.g. `tmpfs (/dev/shm): in memory, fsync costs nothing`; for an external ensemble:
    /// that it is not known.
    pub placement: String,
    /// Whether it shares the generator's host, and so its processors.
    pub shares_host: bool,
    /// Whether its servers were left as they had started, without load before the first trial.
    pub starts_cold: bool,
    /// The configuration that the suite gave it, or what `conf` told.
    pub config: Vec<(String, String)>,
}

/// How a run ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunOutcome {
    /// In a word.
    pub ending: RunEnding,
    /// What cut it short, when the environment did.
    pub why: Option<String>,
}

impl RunOutcome {
    /// All planned trials ran.
    pub const COMPLETE: Self = Self { ending: RunEnding::Complete, why: None };
    /// The user cut it short.
    pub const INTERRUPTED: Self = Self { ending: RunEnding::Interrupted, why: None };

    /// The environment cut it short; why.
    #[must_use]
    pub fn aborted(why: impl Into<String>) -> Self {
        Self { ending: RunEnding::Aborted, why: Some(why.into()) }
    }
}

/// All that is true of a run as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of the tool.
    pub tool_version: String,
    /// Commit that it was built from, `-dirty` where the tree had changes; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The strategies by their labels, in the order of the scenario.
    pub strategies: Vec<String>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// When it ended; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// Trials planned.
    pub planned_trials: usize,
    /// The seed in force.
    pub seed: u64,
    /// Generator threads used.
    pub generator_threads: usize,
    /// Overrides given on the command line, e.g. `--connect …`.
    pub overrides: Vec<String>,
    /// The generator's host.
    pub host: HostInfo,
    /// The ensemble.
    pub ensemble: EnsembleInfo,
    /// The floor of the ensemble, measured before the first trial; `None` in runs of versions that did not measure it.
    #[serde(default)]
    pub floor: Option<Floor>,
    /// The scenario file's text, as run.
    pub scenario_text: String,
}
