//! `summary.json`: results of each strategy at each contender count over its repetitions, for programs.

use std::collections::BTreeMap;
use std::ops::Add;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::RunReport;
use super::conclusions::Conclusion;
use super::view::{Cell, Spread};
use zklockbench_analysis::gate::Outcome;
use zklockbench_core::measure::{Latency, Measure};
use zklockbench_core::units::grouped;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Arrived, Figure, Judged, Missing, Precision, Trial};
use zklockbench_results::StoredRun;
use zklockbench_stats::{Interval, median_interval};

pub use super::run_report::SUMMARY as FILE;

/// Version of the layout. Adding a field needs no new version.
const VERSION: u32 = 1;

/// Summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// Verdicts on the run.
    pub judged: Judged,
    /// Precision of the metrics; `None` unless the scenario requests one.
    pub precision: Option<Precision>,
    /// Remarks below the table.
    pub notes: Vec<String>,
    /// Outcomes of the gates, worst first, including the implicit gate. Empty in versions without gates.
    #[serde(default)]
    pub gates: Vec<Outcome>,
    /// Baseline of the run; `None` without one, and in older versions.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The outcome in one line. Empty in older versions.
    #[serde(default)]
    pub headline: String,
    /// Conclusions, most important first. Empty in older versions.
    #[serde(default)]
    pub conclusions: Vec<Conclusion>,
    /// One entry for each strategy and number of contenders that ran, in the scenario's order.
    pub cells: Vec<CellSummary>,
}

/// One strategy at one contender count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSummary {
    /// Label of the strategy.
    pub strategy: String,
    /// System of the lock; `None` for ZooKeeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Number of contenders in the scenario.
    pub contenders: usize,
    /// Number of contenders with a session, in the repetition with the fewest.
    pub took_part: u64,
    /// Load: `closed`, `batch` or `open`.
    pub load: String,
    /// Number of repetitions that ran, and of those that are valid.
    pub repetitions: Repetitions,
    /// Verdict over all its trials; `None` for a single contender, which has no other contender to exclude.
    pub verdict: Option<Verdict>,
    /// Reason for a verdict other than `held`, in one sentence without a full stop; otherwise `None`.
    pub why: Option<String>,
    /// Counts over all repetitions.
    pub totals: Totals,
    /// Metrics of the measured phase by their names in `summary.csv`.
    pub figures: BTreeMap<String, Aggregate>,
    /// Whether the queue of an open load grew in a valid repetition. If so, waits and their parts are
    /// omitted, because they would depend on the length of the trial.
    pub unstable: bool,
    /// Measures with samples, by name.
    pub latencies: BTreeMap<Measure, LatencySummary>,
}

/// Numbers of repetitions of a combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repetitions {
    /// Trials that ran.
    pub ran: usize,
    /// Number of valid repetitions, from which the metrics come. If there are none, metrics come from all
    /// trials and are unreliable.
    pub sound: usize,
}

/// Counts over all repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Locks acquired.
    pub acquired: u64,
    /// Acquires that timed out.
    pub timed_out: u64,
    /// Waits that ended without the lock, or were still in progress at the end of the measured phase.
    pub unserved: u64,
    /// Number of violations.
    pub violations: u64,
    /// Fate of the arrivals of an open load; `None` for other loads.
    pub arrivals: Option<Arrived>,
}

/// Values of one metric over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// Median.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of repetitions with a value.
    pub count: usize,
    /// Whether any repetition has only a lower bound, because of unserved waits.
    pub at_least: bool,
    /// Interval that contains the true median with a confidence of at least 95 %. `None` with fewer than six
    /// values or with lower bounds.
    #[serde(default)]
    pub interval: Option<Interval>,
}

/// Values of one measure over the repetitions, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Total number of samples in these repetitions.
    pub samples: u64,
    /// Mean.
    pub mean_us: Aggregate,
    /// Smallest sample.
    pub min_us: Aggregate,
    /// Median.
    pub p50_us: Aggregate,
    /// 90th percentile.
    pub p90_us: Aggregate,
    /// 99th percentile.
    pub p99_us: Aggregate,
    /// 99.9th percentile.
    pub p999_us: Aggregate,
    /// Largest sample.
    pub max_us: Aggregate,
}

pub fn schema() -> Schema {
    schema_for!(Summary)
}

impl Summary {
    pub fn of(stored: &StoredRun, report: &RunReport<'_>) -> Self {
        let RunReport { view, gated, .. } = report;
        Self {
            schema_version: VERSION,
            scenario: view.title.clone(),
            judged: view.judged.clone(),
            precision: stored.run.precision.clone(),
            notes: view.notes(),
            gates: gated.gates.clone(),
            baseline: gated.baseline.clone(),
            headline: report.headline.text(),
            conclusions: report.conclusions.clone(),
            cells: view.cells.iter().map(|cell| summary(view.label(cell), cell)).collect(),
        }
    }
}

fn summary(label: &str, cell: &Cell<'_>) -> CellSummary {
    let verdict = cell.verdict();
    let load = cell.all().next().map(|trial| trial.spec.load.name());
    CellSummary {
        strategy: label.to_owned(),
        system: cell.all().find_map(|trial| trial.spec.strategy.system.clone()),
        contenders: cell.contenders,
        took_part: cell.took_part(),
        load: load.unwrap_or_default().to_owned(),
        repetitions: Repetitions::of(cell),
        why: verdict.as_ref().and_then(Verdict::why),
        verdict,
        totals: Totals::of(cell),
        figures: figures(cell),
        unstable: cell.is_unstable(),
        latencies: latencies(cell),
    }
}

impl Repetitions {
    pub fn of(cell: &Cell<'_>) -> Self {
        let sound = cell.all().filter(|one| one.is_sound()).count();
        Self { ran: cell.trials.len(), sound }
    }
}

impl Totals {
    pub fn of(cell: &Cell<'_>) -> Self {
        let arrivals = cell.all().filter_map(|one| one.arrived);
        Self {
            acquired: cell.sum(|one| one.measured.acquired()),
            timed_out: cell.sum(|one| one.timed_out()),
            unserved: cell.sum(Trial::unserved),
            violations: cell.violations(),
            arrivals: arrivals.reduce(Arrived::add),
        }
    }
}

fn figures(cell: &Cell<'_>) -> BTreeMap<String, Aggregate> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for one in cell.counting() {
        for (name, value) in one.derived().measured() {
            values.entry(name.to_owned()).or_default().push(value);
        }
    }
    values.into_iter().filter_map(|(name, values)| Some((name, Aggregate::of(values, false)?))).collect()
}

fn latencies(cell: &Cell<'_>) -> BTreeMap<Measure, LatencySummary> {
    let is_told = |measure: &Measure| !(cell.is_unstable() && measure.is_of_the_queue());
    let values = grouped(cell.counting().flat_map(Trial::latencies)).into_iter();
    let values = values.filter(|(measure, _)| is_told(measure));
    values.filter_map(|(measure, each)| Some((measure, latency(&each)?))).collect()
}

fn latency(each: &[Latency]) -> Option<LatencySummary> {
    let percentile = |quantile: f64, of: fn(&Latency) -> u64| {
        let at_least = each.iter().any(|one| one.is_at_least(quantile));
        Aggregate::of(each.iter().map(|one| of(one) as f64), at_least)
    };
    let is_cut = each.iter().any(|one| one.is_at_least(1.0));
    let is_max_bound = each.iter().any(|one| one.max_at_least);
    Some(LatencySummary {
        samples: each.iter().map(|one| one.count).sum(),
        mean_us: Aggregate::of(each.iter().map(|one| one.mean_us), is_cut)?,
        min_us: percentile(0.0, |one| one.min_us)?,
        p50_us: percentile(0.5, |one| one.p50_us)?,
        p90_us: percentile(0.9, |one| one.p90_us)?,
        p99_us: percentile(0.99, |one| one.p99_us)?,
        p999_us: percentile(0.999, |one| one.p999_us)?,
        max_us: Aggregate::of(each.iter().map(|one| one.max_us as f64), is_max_bound)?,
    })
}

/// Error probability of a median's interval.
const OUTSIDE: f64 = 0.05;

impl Aggregate {
    /// Computes a metric over these trials; `None` if no trial measured it, or if a queue grew.
    pub fn of_figure<'t>(figure: Figure, trials: impl IntoIterator<Item = &'t Trial>) -> Option<Self> {
        let each: Vec<_> = trials.into_iter().map(|trial| trial.reading(figure)).collect();
        if each.contains(&Err(Missing::Unstable)) {
            return None;
        }
        let readings: Vec<_> = each.into_iter().filter_map(Result::ok).collect();
        let at_least = readings.iter().any(|reading| reading.at_least);
        Self::of(readings.iter().map(|reading| reading.value), at_least)
    }

    /// Returns the statistics of the repetitions' values; `None` if none is finite.
    pub fn of(values: impl IntoIterator<Item = f64>, at_least: bool) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let Spread { median, min, max, count } = Spread::of(values.iter().copied())?;
        let interval = median_interval(&values, OUTSIDE).filter(|found| found.is_bounded() && !at_least);
        Some(Self { median, min, max, count, at_least, interval })
    }
}
