//! `trials/NNN.json`: all that one trial yields, but for the full histograms.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::parts::{StoredCompleteness, StoredPhase, StoredSecond, StoredSessions, StoredTally};
use super::{
    Derived, Latency, SCHEMA_VERSION, StoredAccounting, StoredBroken, StoredCounts, StoredExcused,
    StoredHealth, StoredServerCounters, StoredVerdict, StoredViolation, time,
};
use crate::measure::{Histogram, Measure};
use crate::record::Trial;

/// The content of `trials/NNN.json`, and the histograms of `trials/NNN.hlog`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialFile {
    /// The version of this layout: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Position in the order in which the trials ran, from 0; the file's number.
    pub index: usize,
    /// The strategy's name.
    pub strategy: String,
    /// The strategy as outputs call it: its name, plus the parameters that differ from the default.
    pub label: String,
    /// The parameters in force.
    pub params: BTreeMap<String, String>,
    /// Contenders, one session each.
    pub contenders: usize,
    /// Independent lock paths.
    pub locks: usize,
    /// Repetition, from 1.
    pub repetition: u32,
    /// `closed` or `batch`.
    pub load: String,
    /// Wall time of the first request; a label.
    #[serde(with = "time")]
    pub started_at: SystemTime,
    /// Length of the measured phase.
    pub measured_us: u64,
    /// Whether the lock excluded.
    pub exclusion: StoredVerdict,
    /// Whether the trial ran to its end.
    pub completeness: StoredCompleteness,
    /// Whether the generator held up.
    pub health: StoredHealth,
    /// What follows from the counts of the measured phase.
    pub derived: Derived,
    /// For each measure that has samples, by its name: its numbers.
    pub latencies: BTreeMap<String, Latency>,
    /// Counts of the measured phase.
    pub measured: StoredCounts,
    /// Counts of the whole trial.
    pub whole: StoredCounts,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// All violations found, over the whole trial.
    pub violation_count: u64,
    /// The first of them.
    pub violations: Vec<StoredViolation>,
    /// Two inside at once that no lock with sessions can prevent, or that nobody can judge.
    #[serde(default)]
    pub excused: StoredExcused,
    /// What was broken on purpose, and what became of the lock; `None` when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<StoredBroken>,
    /// Client, cost model and servers side by side.
    pub accounting: Vec<StoredAccounting>,
    /// The servers' own counters.
    pub servers: Vec<StoredServerCounters>,
    /// The most contenders found inside one lock together, over the whole trial.
    pub most_inside: Option<u64>,
    /// The sessions.
    pub sessions: StoredSessions,
    /// The phases in order.
    pub phases: Vec<StoredPhase>,
    /// The measured phase, second by second; the last second may be shorter.
    pub timeline: Vec<StoredSecond>,
    /// What each contender did, in the contenders' order.
    pub tallies: Vec<StoredTally>,
    /// The full histograms, by the measure's name. They lie in the `.hlog`, not in the JSON.
    #[serde(skip)]
    pub histograms: BTreeMap<String, Histogram>,
}

impl TrialFile {
    /// The numbers of one measure; `None` when it has no sample.
    #[must_use]
    pub fn latency(&self, measure: Measure) -> Option<&Latency> {
        self.latencies.get(&measure.name())
    }

    /// The full histogram of one measure; `None` when it has no sample.
    #[must_use]
    pub fn histogram(&self, measure: Measure) -> Option<&Histogram> {
        self.histograms.get(&measure.name())
    }

    /// Whether client, cost model and servers agree wherever two of them counted; `None` when nowhere.
    #[must_use]
    pub fn accounting_agrees(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| line.agrees))
    }

    /// Whether the servers counted what the client counted; `None` when they could not be asked.
    #[must_use]
    pub fn servers_agree(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| Some(line.client? == line.servers?)))
    }

    /// Whether the client counted what the cost model predicts; `None` where no model applies.
    #[must_use]
    pub fn cost_model_agrees(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| Some(line.client? == line.expected?)))
    }
}

fn all(lines: impl Iterator<Item = bool>) -> Option<bool> {
    lines.reduce(|all, line| all && line)
}

impl From<&Trial> for TrialFile {
    fn from(trial: &Trial) -> Self {
        let named = || trial.histograms.iter().map(|(measure, histogram)| (measure.name(), histogram));
        Self {
            schema_version: SCHEMA_VERSION,
            index: trial.index,
            strategy: trial.strategy.clone(),
            label: trial.label.clone(),
            params: trial.params.clone(),
            contenders: trial.contenders,
            locks: trial.locks,
            repetition: trial.repetition,
            load: trial.load.to_owned(),
            started_at: trial.started_at,
            measured_us: trial.measured_us,
            exclusion: (&trial.exclusion).into(),
            completeness: (&trial.completeness).into(),
            health: (&trial.health).into(),
            derived: trial.into(),
            latencies: named().filter_map(|(name, all)| Some((name, Latency::of(all)?))).collect(),
            measured: (&trial.measured).into(),
            whole: (&trial.whole).into(),
            errors: trial.errors.clone(),
            violation_count: trial.violation_count,
            violations: trial.violations.iter().map(Into::into).collect(),
            excused: (&trial.excused).into(),
            broken: StoredBroken::of(trial),
            accounting: trial.accounting.iter().map(Into::into).collect(),
            servers: trial.servers.iter().map(Into::into).collect(),
            most_inside: Some(trial.most_inside),
            sessions: (&trial.sessions).into(),
            phases: trial.phases.iter().map(Into::into).collect(),
            timeline: trial.timeline.iter().map(Into::into).collect(),
            tallies: trial.tallies.iter().map(Into::into).collect(),
            histograms: named()
                .filter(|(_, all)| !all.is_empty())
                .map(|(name, all)| (name, all.clone()))
                .collect(),
        }
    }
}
