//! Judges whether a trial of the planned load itself met the objective, and computes the cost of a lock per
//! request.
//!
//! Waits count from the intended start, so a late load generator only lengthens them. Waits that meet the
//! objective are conclusive; longer waits are inconclusive if the generator's own delay may be the cause.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::{PlannedLoad, Question};
use crate::objective::Objective;
use zklockbench_core::measure::{Figure, Measure, Statistic, Survival};
use zklockbench_core::units::{counted, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_record::figures::{NODES_LEFT, REQUESTS_PER_ACQUISITION, THROUGHPUT};
use zklockbench_stats::queueing::Order;

/// Significance level for deciding from few waits whether a percentile meets its limit.
const BY_CHANCE: f64 = 0.05;

/// The objective's metric, measured under the load in question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredLoad {
    /// Directory of the run.
    pub run: PathBuf,
    /// Arrivals per second over all locks.
    pub rate: f64,
    /// Number of locks.
    pub locks: usize,
    /// Arrivals per lock, as a multiple of those in the question.
    pub times: f64,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Waits measured, including those that had not ended.
    pub waits: u64,
    /// Value of the objective's metric: microseconds, or acquisitions per second.
    pub value: f64,
    /// Whether the value is a lower bound.
    pub at_least: bool,
    /// Requests per acquisition, if they were counted.
    pub requests_per_acquisition: Option<f64>,
    /// Whether the measurement meets the objective.
    pub verdict: Verdict,
}

impl MeasuredLoad {
    /// Returns the measurement from a trial that ran `times` the load; `None` if the trial did not measure the
    /// objective's metric.
    pub fn of(run: PathBuf, trial: &Trial, question: &Question, times: f64) -> Option<Self> {
        let load = PlannedLoad::of(&trial.spec, Order::Fifo)?;
        let (rate, locks) = (load.rate(), load.locks());
        let Shown { value, at_least, waits, verdict } =
            Shown::by(trial, &question.objective, question.rate / rate)?;
        // A higher load than planned may miss an objective that the planned load meets.
        let verdict = match verdict {
            Verdict::Violated(_) if times > 1.0 => Verdict::unknown(format!(
                "{} times the load missed the objective, so the result for the load itself is unknown",
                number(times)
            )),
            verdict => verdict,
        };
        let seconds = trial.measured_us as f64 / 1e6;
        let requests_per_acquisition = REQUESTS_PER_ACQUISITION.of(trial);
        Some(Self {
            run,
            rate,
            locks,
            times,
            seconds,
            waits,
            value,
            at_least,
            requests_per_acquisition,
            verdict,
        })
    }

    /// Formats the measurement, such as `59 ms in 1,240 waits at your load`.
    pub fn in_words(&self, figure: Figure) -> String {
        let at_least = if self.at_least { "at least " } else { "" };
        let load = match self.times > 1.0 {
            true => format!("{} times your load", number(self.times)),
            false => "your load".to_owned(),
        };
        let (value, waits) = (figure.unit().show(self.value), counted(self.waits, "wait", "waits"));
        format!("{at_least}{value} in {waits} at {load}")
    }
}

/// Value of the objective's metric in a trial, and the verdict.
pub(super) struct Shown {
    pub value: f64,
    pub at_least: bool,
    pub waits: u64,
    pub verdict: Verdict,
}

impl Shown {
    /// Judges a trial; `share` scales its throughput to the question's rate. `None` if no wait was measured.
    pub fn by(trial: &Trial, objective: &Objective, share: f64) -> Option<Self> {
        let waits = trial.survival(Measure::Wait)?;
        let figure = objective.figure;
        let is_throughput = figure == THROUGHPUT.figure();
        let (value, at_least) = match trial.reading(figure) {
            Ok(reading) if is_throughput => (reading.value * share, reading.at_least),
            Ok(reading) => (reading.value, reading.at_least),
            // The queue grew, so the value so far is a lower bound.
            Err(_) => (so_far(figure, &waits)?, true),
        };
        let shown = Self { value, at_least, waits: waits.count(), verdict: Verdict::Held };
        let verdict = shown.judge(trial, objective, beyond(objective, &waits));
        Some(Self { verdict, ..shown })
    }

    fn judge(&self, trial: &Trial, objective: &Objective, beyond: Option<u64>) -> Verdict {
        let figure = objective.figure;
        let shown = figure.unit().show(self.value);
        if let Verdict::Violated(why) = &trial.judged.exclusion {
            return Verdict::Violated(why.clone());
        }
        if let Some(cut) = &trial.cut_short {
            return Verdict::unknown(format!("the trial is partial: {}", cut.why));
        }
        let at_least = if self.at_least { "at least " } else { "" };
        let met = match beyond.filter(|_| self.waits < figure.samples_needed()) {
            Some(beyond) => match decided_by_few(figure, beyond, self.waits) {
                Some(met) => met,
                None => {
                    return Verdict::unknown(format!(
                        "{figure} was {at_least}{shown} in {}, too few to decide",
                        counted(self.waits, "wait", "waits")
                    ));
                }
            },
            None => objective.holds(self.value),
        };
        if met && self.at_least && objective.holds(self.value) {
            return Verdict::unknown(format!(
                "{figure} was at least {shown} when the load ended, and the queue was still growing"
            ));
        }
        if met {
            return Verdict::Held;
        }
        match trial.health.invalid.as_ref().filter(|_| objective.holds(self.value - late_us(trial))) {
            Some(why) => Verdict::unknown(format!("the trial is invalid: {why}")),
            None => Verdict::violated(format!(
                "{figure} was {at_least}{shown}, but must be {}",
                objective.wanted()
            )),
        }
    }
}

/// Returns the generator's own part of the longest waits, in microseconds.
fn late_us(trial: &Trial) -> f64 {
    let lateness = trial.health.lateness_p99_us.unwrap_or(0) + trial.health.dispatch_lag_p99_us;
    lateness as f64
}

/// Returns the value of a wait metric so far, for a growing queue.
fn so_far(figure: Figure, waits: &Survival) -> Option<f64> {
    match figure {
        Figure::Latency(Measure::Wait, Statistic::Percentile(at)) => {
            Some(waits.quantile(f64::from(at) / 100_000.0).us as f64)
        }
        Figure::Latency(Measure::Wait, Statistic::Mean) => Some(waits.mean_us),
        _ => None,
    }
}

/// Returns the number of waits beyond the limit of a percentile; `None` for other metrics.
fn beyond(objective: &Objective, waits: &Survival) -> Option<u64> {
    let Figure::Latency(_, Statistic::Percentile(_)) = objective.figure else { return None };
    let share = 1.0 - waits.share_within(*objective.range().end());
    Some((share * waits.count() as f64).round() as u64)
}

/// Returns whether a percentile meets its limit, given the number of waits beyond the limit; `None` if
/// inconclusive.
fn decided_by_few(figure: Figure, beyond: u64, waits: u64) -> Option<bool> {
    let Figure::Latency(_, Statistic::Percentile(at)) = figure else { return None };
    let allowed = Binomial::new(1.0 - f64::from(at) / 100_000.0, waits).ok()?;
    let as_many = beyond.checked_sub(1).map_or(1.0, |fewer| allowed.sf(fewer));
    match (allowed.cdf(beyond) <= BY_CHANCE, as_many <= BY_CHANCE) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

const DAY_S: f64 = 86_400.0;

/// Cost of a strategy if each request takes its own lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreshCost {
    /// Label of the strategy.
    pub strategy: String,
    /// Median duration of an acquire, in microseconds, including the creation of missing directories.
    pub acquire_p50_us: Option<f64>,
    /// Requests per acquisition; `None` if they could not be counted.
    pub requests: Option<f64>,
    /// Persistent nodes left per acquisition; `None` if they could not be counted.
    pub nodes_left: Option<f64>,
    /// Persistent nodes added per day at the planned rate.
    pub nodes_a_day: Option<f64>,
}

impl FreshCost {
    /// Returns the cost in a trial with fresh locks, at a planned rate of requests per second.
    pub fn of(trial: &Trial, rate: f64) -> Self {
        let acquire = trial.reading(Figure::Latency(Measure::Uncontended, Statistic::percent(50)));
        let nodes_left = NODES_LEFT.of(trial);
        Self {
            strategy: trial.spec.strategy.label.clone(),
            acquire_p50_us: acquire.ok().map(|found| found.value),
            requests: REQUESTS_PER_ACQUISITION.of(trial),
            nodes_left,
            nodes_a_day: nodes_left.map(|nodes| nodes * rate * DAY_S),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::objective;

    fn few(beyond: u64, waits: u64) -> Option<bool> {
        decided_by_few(objective("wait.p99 < 200ms").unwrap().figure, beyond, waits)
    }

    #[test]
    fn small_sample_decides_a_percentile_only_if_chance_is_ruled_out() {
        assert_eq!(
            [few(0, 200), few(0, 299), few(1, 299), few(1, 480)],
            [None, Some(true), None, Some(true)]
        );
        assert_eq!([few(1, 50), few(3, 50), few(30, 50)], [None, Some(false), Some(false)]);
    }
}
