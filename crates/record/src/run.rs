//! Facts about a run as a whole: tool, host, ensemble, scenario as run, outcome.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Floor, Timing, Workers};
use zklockbench_core::error::Exit;
use zklockbench_core::units::{as_utc, cell_name, counted, distinct_sorted, format_micros, percent};
use zklockbench_core::verdict::Verdict;

/// Host of the generator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostInfo {
    /// Host name.
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
    /// `leader`, `follower`, `standalone`, or the reason why the server did not answer.
    pub role: String,
    /// Version reported by the server.
    pub version: String,
    /// Whether the server runs on the generator's host; absent from results of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_host: Option<bool>,
}

impl EnsembleInfo {
    /// Placeholder for the version of a server that did not report it.
    pub const NOT_KNOWN: &str = "not known";

    /// Number of servers on the generator's host.
    pub fn on_generators_host(&self) -> usize {
        let shares = |server: &&ServerInfo| server.shares_host.unwrap_or(self.shares_host);
        self.servers.iter().filter(shares).count()
    }

    /// Whether the data is in memory; if so, writes do not wait for a disk. `None` if unknown.
    pub fn is_in_memory(&self) -> Option<bool> {
        let (_, meaning) = self.placement.rsplit_once("): ")?;
        match (meaning.contains("in memory"), meaning.contains("fsync")) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// Distinct versions of the servers, sorted.
    pub fn versions(&self) -> Vec<&str> {
        distinct_sorted(self.servers.iter().map(|server| server.version.as_str()))
    }
}

/// The ensemble that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnsembleInfo {
    /// `local` (started by the suite) or `external`.
    pub kind: String,
    /// Connect string, including the chroot.
    pub connect: String,
    /// Servers of the ensemble.
    pub servers: Vec<ServerInfo>,
    /// Location and medium of the data, e.g. `tmpfs (/dev/shm): in memory, fsync costs nothing`; a note for
    /// an external ensemble, where both are unknown.
    pub placement: String,
    /// Whether any server shares the generator's host, and therefore its processors.
    pub shares_host: bool,
    /// Whether the servers had no load between their start and the first trial.
    pub starts_cold: bool,
    /// Configuration set by the suite, or reported by `conf`.
    pub config: Vec<(String, String)>,
}

impl EnsembleInfo {
    /// Limit on the load; `None` if it was not limited.
    pub fn load_limit(&self) -> Option<&str> {
        self.config.iter().find(|(name, _)| name == LIMITED).map(|(_, rate)| rate.as_str())
    }

    /// The servers as text: `3 servers: 10.0.0.1:2181 (leader), …`.
    pub fn servers_as_text(&self) -> String {
        let each: Vec<String> =
            self.servers.iter().map(|server| format!("{} ({})", server.address, server.role)).collect();
        format!("{}: {}", counted(each.len(), "server", "servers"), each.join(", "))
    }
}

/// Name of the configuration entry with the limit on the load, in requests per second.
pub const LIMITED: &str = "load limited to";
/// Name of the configuration entry with the number of connections of other clients.
pub const OTHERS: &str = "connections of other clients";
/// Name of the configuration entry with the reason why the servers' own counters are not available.
pub const UNCOUNTED: &str = "servers' own counters";
/// Name of the configuration entry with the reason why the servers' transaction logs are not available.
pub const WITHOUT_LOGS: &str = "transaction logs";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunEnding {
    /// All planned trials ran.
    Complete,
    /// The user ended the run early.
    Interrupted,
    /// A failure of the environment ended the run early.
    Aborted,
    /// The run ended early, as requested, because a gate could no longer pass.
    GateFailed,
}

impl RunEnding {
    /// Exit code of a command with this ending and verdict. The ending takes precedence, because a partial
    /// run proves nothing.
    pub fn exit(self, verdict: &Verdict) -> Exit {
        match (self, verdict) {
            (Self::Interrupted, _) => Exit::Interrupted,
            (Self::Aborted, _) => Exit::Environment,
            (Self::GateFailed, _) => Exit::Violated,
            (Self::Complete, Verdict::Violated(_)) => Exit::Violated,
            (Self::Complete, Verdict::Unknown(_)) => Exit::Unknown,
            (Self::Complete, Verdict::Held) => Exit::Held,
        }
    }
}

/// How a run ended, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunOutcome {
    /// Kind of ending.
    pub ending: RunEnding,
    /// Cause, if the environment or a gate ended the run, or if no ending was recorded.
    pub why: Option<String>,
}

impl RunOutcome {
    pub const COMPLETE: Self = Self { ending: RunEnding::Complete, why: None };
    pub const INTERRUPTED: Self = Self { ending: RunEnding::Interrupted, why: None };

    /// Outcome stored when a run starts. It remains if the run is killed.
    pub fn not_noted() -> Self {
        let why = "the run is still in progress, or was killed or aborted";
        Self { ending: RunEnding::Interrupted, why: Some(why.to_owned()) }
    }

    pub fn gate_failed(why: impl Into<String>) -> Self {
        Self { ending: RunEnding::GateFailed, why: Some(why.into()) }
    }

    pub fn aborted(why: impl Into<String>) -> Self {
        Self { ending: RunEnding::Aborted, why: Some(why.into()) }
    }
}

/// Requested and achieved precision of a run's metrics. Values are shares, such as 0.02 for 2 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// Requested maximum half-width of each 95 % confidence interval.
    pub asked: f64,
    /// Whether every combination of strategy and contenders reached the requested half-width.
    pub reached: bool,
    /// Completed rounds, each with one repetition of every combination.
    pub rounds: u32,
    /// Combination with the widest interval.
    pub widest: Option<Widest>,
}

impl Precision {
    pub fn describe(&self) -> String {
        let asked = percent(self.asked);
        let widest = self.widest.as_ref().map_or_else(String::new, |widest| {
            let of = cell_name(&widest.strategy, widest.contenders);
            match widest.half_width {
                Some(half) => format!("; the widest interval is ± {} ({of})", percent(half)),
                None => format!("; {of} has too few valid repetitions with data"),
            }
        });
        let reached = if self.reached { "reached" } else { "not reached" };
        let rounds = counted(self.rounds, "repetition", "repetitions");
        format!("± {asked} {reached} after {rounds}{widest}")
    }
}

/// The strategy and number of contenders with the widest interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Widest {
    /// Label of the strategy.
    pub strategy: String,
    /// Number of contenders.
    pub contenders: usize,
    /// Half-width of the interval; `None` if too few valid repetitions have data.
    pub half_width: Option<f64>,
}

/// A replayed file of arrivals, which is needed to repeat the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// File name, as in the scenario.
    pub file: String,
    /// SHA-256 of the file's bytes.
    pub sha256: String,
}

/// A part of a run, from the start or a resumption to the next stop. Each segment opened its ensemble separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Wall time of the start, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Wall time of the end, or of the last trial's end if none was recorded; for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// How the segment ended.
    pub outcome: RunOutcome,
    /// Numbers of the segment's trials that count, in order.
    pub trials: Vec<usize>,
    /// Trials that an earlier segment started but did not finish, and that were rerun.
    pub made_again: Vec<usize>,
    /// Ensemble of the segment.
    pub ensemble: EnsembleInfo,
    /// Floor of that ensemble, measured before the segment's first trial.
    pub floor: Option<Floor>,
}

/// Facts about a run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of zklockbench.
    pub tool_version: String,
    /// Commit of the build, with `-dirty` if the tree had changes; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Labels of the strategies, in the scenario's order.
    pub strategies: Vec<String>,
    /// How the run ended.
    pub outcome: RunOutcome,
    /// Wall time of the start, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Wall time of the end, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// Planned trials, including rounds added for precision.
    pub planned_trials: usize,
    /// Precision of the metrics; `None` unless the scenario sets `precision`.
    pub precision: Option<Precision>,
    /// Effective seed.
    pub seed: u64,
    /// Number of generator threads.
    pub generator_threads: usize,
    /// Overrides given on the command line, e.g. `--connect …`.
    pub overrides: Vec<String>,
    /// Host of the generator.
    pub host: HostInfo,
    /// Ensemble of the run; for a resumed run, the ensemble of its first segment.
    pub ensemble: EnsembleInfo,
    /// Floor of the ensemble, measured before the first trial; `None` in runs of older versions. For a
    /// resumed run, the floor of its first segment, if the other segments agree.
    #[serde(default)]
    pub floor: Option<Floor>,
    /// Floor after the last trial; comparisons with the floor are inconclusive if it changed. `None` if
    /// there was no second measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_after: Option<Floor>,
    /// Segments of a resumed run, each with its own ensemble and floor; empty if the run was not resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// Whether the run has histories of its contenders; not recorded by older versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
    /// Replayed file of arrivals; `None` if there is none, and in runs of older versions.
    #[serde(default)]
    pub replayed: Option<Replayed>,
    /// Workers of the run; `None` if it ran in one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
    /// Text of the scenario file, as run.
    pub scenario_text: String,
}

impl Run {
    /// Segments of the run, restricted to these trials; a run that was not resumed is one segment. Trials
    /// that no segment lists belong to the last segment: it was killed before it could record them.
    pub fn in_segments(&self, trials: &[usize]) -> Vec<Segment> {
        let mut segments = self.segments.clone();
        if segments.is_empty() {
            segments.push(Segment {
                started_at: self.started_at,
                ended_at: self.ended_at,
                outcome: self.outcome.clone(),
                trials: Vec::new(),
                made_again: Vec::new(),
                ensemble: self.ensemble.clone(),
                floor: self.floor.clone(),
            });
        }
        segments.iter_mut().for_each(|one| one.trials.retain(|trial| trials.contains(trial)));
        let is_known = |trial: &usize| self.segments.iter().any(|one| one.trials.contains(trial));
        let unknown = trials.iter().copied().filter(|trial| !is_known(trial));
        segments.last_mut().into_iter().for_each(|last| last.trials.extend(unknown.clone()));
        segments
    }

    pub fn floor_of(&self, trial: usize) -> Option<&Floor> {
        match self.segments.as_slice() {
            [] => self.floor.as_ref(),
            segments => segments.iter().find(|one| one.trials.contains(&trial))?.floor.as_ref(),
        }
    }
}

impl Segment {
    /// Common floor of the segments: the first measured floor, if the medians of the other floors agree with it.
    pub fn common_floor(segments: &[Self]) -> Option<Floor> {
        let floors: Vec<&Floor> = segments.iter().filter_map(|one| one.floor.as_ref()).collect();
        let Some(first) = floors.iter().copied().find(|floor| floor.is_measured()) else {
            return floors.first().map(|floor| (*floor).clone());
        };
        let medians = |of: fn(&Floor) -> Option<Timing>| -> Vec<u64> {
            floors.iter().filter_map(|floor| Some(of(floor)?.p50_us)).collect()
        };
        let apart =
            [("handoffs", medians(|floor| floor.handoff)), ("acquires", medians(|floor| floor.uncontended))]
                .into_iter()
                .find(|(_, medians)| {
                    let ends = medians.iter().min().zip(medians.iter().max());
                    ends.is_some_and(|(least, most)| Floor::are_apart(*least, *most))
                });
        Some(apart.map_or_else(
            || first.clone(),
            |(what, medians)| {
                let medians: Vec<String> = medians.into_iter().map(format_micros).collect();
                Floor::not_measured(format!(
                    "the run was resumed, and its ensembles have different floors ({what}: {})",
                    medians.join(", ")
                ))
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_is_zero_only_for_a_complete_run_with_verdict_held() {
        let unknown = || Verdict::Unknown(vec!["why".into()]);
        let violated = || Verdict::Violated(vec!["why".into()]);
        assert_eq!(RunEnding::Complete.exit(&Verdict::Held), Exit::Held);
        assert_eq!(RunEnding::Complete.exit(&violated()), Exit::Violated);
        assert_eq!(RunEnding::Complete.exit(&unknown()), Exit::Unknown);
        assert_eq!(RunEnding::Interrupted.exit(&unknown()), Exit::Interrupted);
        assert_eq!(RunEnding::Aborted.exit(&unknown()), Exit::Environment);
    }
}
