//! `summary.json`: results of each strategy and number of contenders over its repetitions, for programs. It has the metrics of
//! the table and more.

use std::collections::BTreeMap;
use std::ops::Add;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::RunReport;
use super::conclusions::Conclusion;
use super::view::{Cell, Spread};
use zklockbench_analysis::gate::Outcome;
use zklockbench_core::measure::{Latency, Measure};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Arrived, Figure, Judged, Missing, Precision, Trial};
use zklockbench_results::StoredRun;
use zklockbench_stats::{Interval, median_interval};

pub use super::run_report::SUMMARY as FILE;

/// Version of the layout. Adding a field needs no new version.
const VERSION: u32 = 1;

/// What a run comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// The scenario's name.
    pub scenario: String,
    /// What was judged of the run.
    pub judged: Judged,
    /// How precise the figures are; `None` where the scenario does not ask for it.
    pub precision: Option<Precision>,
    /// Remarks below the table.
    pub notes: Vec<String>,
    /// Outcomes of the gates, the worst first: the one of every run, and those of the scenario. Runs recorded before
    /// there were gates have none.
    #[serde(default)]
    pub gates: Vec<Outcome>,
    /// What the run was compared with; `None` where it was with nothing. Older versions did not keep it.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The outcome in a line, with its number. Summaries of older versions have none.
    #[serde(default)]
    pub headline: String,
    /// Conclusions, the most important first. Summaries of older versions have none.
    #[serde(default)]
    pub conclusions: Vec<Conclusion>,
    /// One for each strategy and number of contenders that ran, in the scenario's order.
    pub cells: Vec<CellSummary>,
}

/// One strategy at one number of contenders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSummary {
    /// The strategy's label.
    pub strategy: String,
    /// The system whose lock it is, where that is another one than ZooKeeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Contenders, as the scenario says.
    pub contenders: usize,
    /// How many of them had a session, in the repetition with the fewest.
    pub took_part: u64,
    /// The load: `closed`, `batch` or `open`.
    pub load: String,
    /// How often it ran.
    pub repetitions: Repetitions,
    /// What its trials are judged as, all together; `None` of a single contender, who has no other to exclude.
    pub verdict: Option<Verdict>,
    /// Why that is not `held`, in one sentence without a full stop; `None` when it is.
    pub why: Option<String>,
    /// Counts over all repetitions.
    pub totals: Totals,
    /// Ratios of the measured phase by their names in `summary.csv`; those that no repetition measured are left out.
    pub figures: BTreeMap<String, Aggregate>,
    /// Whether the queue of an open load grew in a repetition that counts. Its waits and their parts are left out then: they
    /// would only say how long the trial was.
    pub unstable: bool,
    /// Each measure of which there are samples, by its name.
    pub latencies: BTreeMap<Measure, LatencySummary>,
}

/// How often a combination ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repetitions {
    /// Trials that ran.
    pub ran: usize,
    /// Of those, the ones that are neither invalid nor partial. Figures are taken over these; where there is none, over
    /// all, and then they tell little.
    pub sound: usize,
}

/// Counts over all repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Locks acquired.
    pub acquired: u64,
    /// Acquires that timed out.
    pub timed_out: u64,
    /// Waits that ended without the lock, or had not ended when the measured phase did.
    pub unserved: u64,
    /// Violations.
    pub violations: u64,
    /// What became of the arrivals of an open load; `None` for other loads.
    pub arrivals: Option<Arrived>,
}

/// What the repetitions gave for one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many repetitions gave a value.
    pub count: usize,
    /// Whether it is a lower bound in one of them: waits that were not served could make it longer.
    pub at_least: bool,
    /// Where the median of all repetitions that could be made lies, with a confidence of 95 % at least: between two of the
    /// values. `None` of fewer than six, which are too few to say so.
    #[serde(default)]
    pub interval: Option<Interval>,
}

/// What the repetitions gave for one measure, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Samples, in all these repetitions together.
    pub samples: u64,
    /// The mean.
    pub mean_us: Aggregate,
    /// The smallest sample.
    pub min_us: Aggregate,
    /// The median.
    pub p50_us: Aggregate,
    /// The 90th percentile.
    pub p90_us: Aggregate,
    /// The 99th percentile.
    pub p99_us: Aggregate,
    /// The 99.9th percentile.
    pub p999_us: Aggregate,
    /// The largest sample.
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
    let measured =
        values.into_iter().filter_map(|(name, values)| Some((name, Aggregate::of(values, false)?)));
    measured.collect()
}

fn latencies(cell: &Cell<'_>) -> BTreeMap<Measure, LatencySummary> {
    let mut values: BTreeMap<Measure, Vec<Latency>> = BTreeMap::new();
    let is_told = |measure: Measure| !(cell.is_unstable() && measure.is_of_the_queue());
    let all = cell.counting().flat_map(Trial::latencies);
    for (measure, latency) in all.filter(|(measure, _)| is_told(*measure)) {
        values.entry(measure).or_default().push(latency);
    }
    values.into_iter().filter_map(|(measure, each)| Some((measure, latency(&each)?))).collect()
}

fn latency(each: &[Latency]) -> Option<LatencySummary> {
    let percentile = |quantile: f64, of: fn(&Latency) -> u64| {
        let at_least = each.iter().any(|one| one.is_at_least(quantile));
        Aggregate::of(each.iter().map(|one| of(one) as f64), at_least)
    };
    let is_cut = each.iter().any(|one| one.is_at_least(1.0));
    Some(LatencySummary {
        samples: each.iter().map(|one| one.count).sum(),
        mean_us: Aggregate::of(each.iter().map(|one| one.mean_us), is_cut)?,
        min_us: percentile(0.0, |one| one.min_us)?,
        p50_us: percentile(0.5, |one| one.p50_us)?,
        p90_us: percentile(0.9, |one| one.p90_us)?,
        p99_us: percentile(0.99, |one| one.p99_us)?,
        p999_us: percentile(0.999, |one| one.p999_us)?,
        max_us: Aggregate::of(
            each.iter().map(|one| one.max_us as f64),
            each.iter().any(|one| one.max_at_least),
        )?,
    })
}

/// Error probability of a median's interval.
const OUTSIDE: f64 = 0.05;

impl Aggregate {
    /// A metric over these trials; `None` if none of them measured it, or if a queue grew in one of them, so that the metric
    /// would only reflect the length of the trial.
    pub fn of_figure<'t>(figure: Figure, trials: impl IntoIterator<Item = &'t Trial>) -> Option<Self> {
        let each: Vec<_> = trials.into_iter().map(|trial| trial.reading(figure)).collect();
        if each.contains(&Err(Missing::Unstable)) {
            return None;
        }
        let readings: Vec<_> = each.into_iter().filter_map(Result::ok).collect();
        let at_least = readings.iter().any(|reading| reading.at_least);
        Self::of(readings.iter().map(|reading| reading.value), at_least)
    }

    /// Statistics of the repetitions' values; `None` if none is finite.
    pub fn of(values: impl IntoIterator<Item = f64>, at_least: bool) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let Spread { median, min, max, count } = Spread::of(values.iter().copied())?;
        let interval = median_interval(&values, OUTSIDE).filter(Interval::is_bounded);
        Some(Self { median, min, max, count, at_least, interval })
    }
}
