//! `trials/NNN.json`: all that one trial yields, but for the full histograms.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{
    Derived, Latency, SCHEMA_VERSION, StoredAccounting, StoredBroken, StoredCounts, StoredVerdict, time,
};
use crate::measure::{Histogram, Measure, Second};
use crate::record::{
    Completeness, EnsembleOrder, Evidence, Excused, Health, Phase, ServerCounters, Sessions, Tally, Trial,
    Violation,
};

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
    pub violations: Vec<Violation>,
    /// Two inside at once that no lock with sessions can prevent, or that nobody can judge.
    #[serde(default)]
    pub excused: Excused,
    /// What could have been seen of a lock that does not exclude; `None` in older results.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// Exclusion as the ensemble saw it, in a trial in which nothing was broken; `None` where its logs could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensemble_order: Option<EnsembleOrder>,
    /// What was broken on purpose, and what became of the lock; `None` when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<StoredBroken>,
    /// Client, cost model and servers side by side.
    pub accounting: Vec<StoredAccounting>,
    /// The servers' own counters.
    pub servers: Vec<ServerCounters>,
    /// The most contenders found inside one lock together, over the whole trial.
    pub most_inside: Option<u64>,
    /// The sessions.
    pub sessions: Sessions,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// The measured phase, second by second; the last second may be shorter.
    pub timeline: Vec<Second>,
    /// What each contender did, in the contenders' order.
    pub tallies: Vec<Tally>,
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
            violations: trial.violations.clone(),
            excused: trial.excused,
            evidence: trial.evidence,
            ensemble_order: trial.ensemble_order.clone().filter(|_| trial.faults.is_empty()),
            broken: StoredBroken::of(trial),
            accounting: trial.accounting.iter().map(Into::into).collect(),
            servers: trial.servers.clone(),
            most_inside: Some(trial.most_inside),
            sessions: trial.sessions,
            phases: trial.phases.clone(),
            timeline: trial.timeline.clone(),
            tallies: trial.tallies.clone(),
            histograms: named()
                .filter(|(_, all)| !all.is_empty())
                .map(|(name, all)| (name, all.clone()))
                .collect(),
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

/// What the tool watched of itself and of its host during the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredHealth {
    /// Whether the trial is valid: `invalid` is null.
    pub valid: bool,
    /// Why the trial is invalid; `None` when generator and ensemble held up.
    pub invalid: Option<String>,
    /// Lateness of a periodic timer on the generator's own runtime, 99th percentile.
    pub timer_lag_p99_us: u64,
    /// The largest such lateness.
    pub timer_lag_max_us: u64,
    /// Time from a reply's or notification's arrival to its contender running, 99th percentile.
    pub dispatch_lag_p99_us: u64,
    /// Share of the mean handoff (or wait) that was the generator's own lag, between 0 and 1.
    pub lag_share: Option<f64>,
    /// Processor time used by the generator's process.
    pub cpu_us: u64,
    /// That time as a share of one core.
    pub cpu_share: f64,
    /// Share of the host's processor time that was idle, if the host tells.
    pub host_idle_share: Option<f64>,
    /// Share that the hypervisor took, if the host tells.
    pub host_steal_share: Option<f64>,
    /// The process's resident memory at the end of the measured phase, in bytes.
    pub resident_bytes: Option<u64>,
    /// The longest time that the lock was free, somebody waited for it, and nobody got it; `None` in older
    /// results.
    pub standstill_us: Option<u64>,
}

impl From<&Health> for StoredHealth {
    fn from(health: &Health) -> Self {
        Self {
            valid: health.invalid.is_none(),
            invalid: health.invalid.clone(),
            timer_lag_p99_us: health.timer_lag_p99_us,
            timer_lag_max_us: health.timer_lag_max_us,
            dispatch_lag_p99_us: health.dispatch_lag_p99_us,
            lag_share: health.lag_share,
            cpu_us: health.cpu_us,
            cpu_share: health.cpu_share,
            host_idle_share: health.host_idle_share,
            host_steal_share: health.host_steal_share,
            resident_bytes: health.resident_bytes,
            standstill_us: Some(health.standstill_us),
        }
    }
}
