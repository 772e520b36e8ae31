//! All that is true of a run as a whole: tool, host, ensemble, scenario as run, outcome.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Floor, Timing, Workers};
use zklockbench_core::error::Exit;
use zklockbench_core::units::{as_utc, cell_name, counted, format_micros, percent};
use zklockbench_core::verdict::Verdict;

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
    /// Whether it runs on the generator's host; missing where earlier releases did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_host: Option<bool>,
}

impl EnsembleInfo {
    /// The version of a server that did not report it.
    pub const NOT_KNOWN: &str = "not known";

    /// How many of its servers share the generator's host.
    pub fn on_generators_host(&self) -> usize {
        let shares = |server: &&ServerInfo| server.shares_host.unwrap_or(self.shares_host);
        self.servers.iter().filter(shares).count()
    }

    /// Whether its data lay in memory, where nothing waits for a disk; `None` where that is not known.
    pub fn is_in_memory(&self) -> Option<bool> {
        let (_, meaning) = self.placement.rsplit_once("): ")?;
        match (meaning.contains("in memory"), meaning.contains("fsync")) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// The versions of its servers, each once.
    pub fn versions(&self) -> Vec<&str> {
        let mut versions: Vec<&str> = self.servers.iter().map(|server| server.version.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }
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
    /// Whether any of its servers shares the generator's host, and so its processors.
    pub shares_host: bool,
    /// Whether its servers were left as they had started, without load before the first trial.
    pub starts_cold: bool,
    /// The configuration that the suite gave it, or what `conf` told.
    pub config: Vec<(String, String)>,
}

/// The entry of an ensemble's configuration that says to how many requests per second the load was limited.
pub const LIMITED: &str = "load limited to";
/// The entry that says how many connections of other clients there were.
pub const OTHERS: &str = "connections of other clients";

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
    /// Ended because a gate could no longer pass, as was asked for.
    GateFailed,
}

impl RunEnding {
    /// The exit code of a command that ended so and found that: how it ended comes first, since a part is no whole.
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

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunOutcome {
    /// In a word.
    pub ending: RunEnding,
    /// What cut it short, when the environment or a gate did, or when nobody could note it.
    pub why: Option<String>,
}

impl RunOutcome {
    pub const COMPLETE: Self = Self { ending: RunEnding::Complete, why: None };
    pub const INTERRUPTED: Self = Self { ending: RunEnding::Interrupted, why: None };

    /// What a run says of itself before its end: so it stays where it is killed, or aborted by a second signal.
    pub fn not_noted() -> Self {
        let why = "it was killed or aborted, unless it is still going on";
        Self { ending: RunEnding::Interrupted, why: Some(why.to_owned()) }
    }

    pub fn gate_failed(why: impl Into<String>) -> Self {
        Self { ending: RunEnding::GateFailed, why: Some(why.into()) }
    }

    pub fn aborted(why: impl Into<String>) -> Self {
        Self { ending: RunEnding::Aborted, why: Some(why.into()) }
    }
}

/// How precise a run's figures are, where its scenario asks for a precision. Shares, such as 0.02 for 2 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// How far the 95 % confidence interval of each mean was to reach to either side at most.
    pub asked: f64,
    /// Whether it does so for every strategy and number of contenders.
    pub reached: bool,
    /// Rounds that ran whole: how often each combination was repeated.
    pub rounds: u32,
    /// The one whose interval is the widest.
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

/// The strategy and number of contenders whose interval is the widest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Widest {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// How far the interval reaches; `None` where fewer than three sound repetitions measured anything.
    pub half_width: Option<f64>,
}

/// A file of arrivals that was replayed: who repeats the run needs the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// The file, as the scenario names it.
    pub file: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// A part of a run: from its start, or from where it was resumed, to where it stopped. Each has an ensemble that was opened
/// anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// When it ended, or, where nobody could note that, when its last trial did; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The numbers of its trials that count, in their order.
    pub trials: Vec<usize>,
    /// Of these, the ones that an earlier segment had begun and not ended: they were made again from the beginning.
    pub made_again: Vec<usize>,
    /// Its ensemble.
    pub ensemble: EnsembleInfo,
    /// The floor of that ensemble, measured before the first trial of the segment.
    pub floor: Option<Floor>,
}

/// All that is true of a run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Trials planned, rounds that were added for a precision among them.
    pub planned_trials: usize,
    /// How precise the figures are; `None` where the scenario does not ask for it.
    pub precision: Option<Precision>,
    /// The seed in force.
    pub seed: u64,
    /// Generator threads used.
    pub generator_threads: usize,
    /// Overrides given on the command line, e.g. `--connect …`.
    pub overrides: Vec<String>,
    /// The generator's host.
    pub host: HostInfo,
    /// The ensemble; of a run that was resumed, that of its first segment.
    pub ensemble: EnsembleInfo,
    /// The floor of the ensemble, measured before the first trial; `None` in runs of versions that did not measure it. Of a
    /// run that was resumed, that of its first segment, if the others agree with it.
    #[serde(default)]
    pub floor: Option<Floor>,
    /// The same after the last trial: where it moved, what is compared with it is not known. `None` where it was not measured
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_after: Option<Floor>,
    /// The parts of a run that was resumed, each with an ensemble and a floor of its own; empty where it was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// Whether it keeps what each contender did; older versions did not note it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
    /// The file of arrivals that was replayed; `None` where none was, and in runs of versions that did not note it.
    #[serde(default)]
    pub replayed: Option<Replayed>,
    /// By which workers it was made; `None` where one process made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
    /// The scenario file's text, as run.
    pub scenario_text: String,
}

impl Run {
    /// The parts of the run, with these trials: those parts that it lists, or all of it as one. Trials that it does not know of
    /// belong to the last: it was killed before it could note them.
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
    /// One floor for all of them: that of the first that has one, if the medians of the others agree with it.
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
                    let (Some(least), Some(most)) = (medians.iter().min(), medians.iter().max()) else {
                        return false;
                    };
                    Floor::are_apart(*least, *most)
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
    fn nothing_but_a_complete_run_that_held_is_green() {
        let unknown = || Verdict::Unknown(vec!["why".into()]);
        let violated = || Verdict::Violated(vec!["why".into()]);
        assert_eq!(RunEnding::Complete.exit(&Verdict::Held), Exit::Held);
        assert_eq!(RunEnding::Complete.exit(&violated()), Exit::Violated);
        assert_eq!(RunEnding::Complete.exit(&unknown()), Exit::Unknown);
        assert_eq!(RunEnding::Interrupted.exit(&unknown()), Exit::Interrupted);
        assert_eq!(RunEnding::Aborted.exit(&unknown()), Exit::Environment);
    }
}
