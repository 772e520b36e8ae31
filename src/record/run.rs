//! All that is true of a run as a whole: tool, host, ensemble, scenario as run, outcome.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// The machine that the generator ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// `host:port` for clients.
    pub address: String,
    /// `leader`, `follower`, `standalone`, or why it could not be asked.
    pub role: String,
    /// The version that it reports.
    pub version: String,
}

/// The ensemble that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default)]
    pub starts_cold: bool,
    /// The configuration that the suite gave it, or what `conf` told.
    pub config: Vec<(String, String)>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// All planned trials ran.
    Complete,
    /// Cut short by the user.
    Interrupted,
    /// Cut short by the environment; why.
    Aborted(String),
}

/// All that is true of a run as a whole.
#[derive(Debug, Clone)]
pub struct Run {
    /// Version of the tool.
    pub tool_version: String,
    /// Commit that it was built from, `-dirty` where the tree had changes; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario file's text, as run.
    pub scenario_text: String,
    /// Overrides given on the command line, e.g. `--connect …`.
    pub overrides: Vec<String>,
    /// The seed in force.
    pub seed: u64,
    /// Trials planned.
    pub planned_trials: usize,
    /// Generator threads used.
    pub generator_threads: usize,
    /// The generator's host.
    pub host: HostInfo,
    /// The ensemble.
    pub ensemble: EnsembleInfo,
    /// When it began; a label.
    pub started_at: SystemTime,
    /// When it ended; a label.
    pub ended_at: SystemTime,
    /// How it ended.
    pub outcome: RunOutcome,
}
