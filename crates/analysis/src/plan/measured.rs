//! Judges whether a trial of the planned load itself met the objective, and computes the cost of using a
//! new lock for each request.
//!
//! Waits count from the intended start, so a late load generator only lengthens them. Waits that meet the
//! objective are conclusive; longer waits are inconclusive if the generator's own delay may be the cause.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::{PlannedLoad, Question};
use crate::objective::Objective;
use zklockbench_core::measure::{Figure, Measure, Statistic, Survival};
use zklockbench_core::units::{counted, format_duration, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::{NODES_LEFT, REQUESTS_PER_ACQUISITION, THROUGHPUT};
use zklockbench_record::{Arrived, Trial};
use zklockbench_stats::queueing::Order;

/// Significance level for deciding whether a percentile meets its limit.
const BY_CHANCE: f64 = 0.05;
/// Multiple of the generator's own delay by which a busy host may lengthen waits. An acquisition waits for a processor
/// several times, also in the servers: on a busy host, acquires of free locks took two to five times the delay.
const DELAYS: f64 = 4.0;
/// Number of standard errors within which a mean may meet its limit by chance. Waits in a queue resemble
/// their neighbours, so their mean varies more than that of independent waits.
const ERRORS: f64 = 3.0;

/// The objective's metric, measured under the planned load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredLoad {
    /// Directory of the run.
    pub run: PathBuf,
    /// Arrivals per second over all locks.
    pub rate: f64,
    /// Number of locks.
    pub locks: usize,
    /// Arrivals per lock, as a multiple of the planned arrivals.
    pub times: f64,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Length of the load in seconds, if the measurement was shorter and the rate changes. `None` in older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_s: Option<f64>,
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
    /// Whether the value meets the objective, even if by chance; `None` if another load was measured, and in
    /// files.
    #[serde(skip)]
    pub(super) by_value: Option<Verdict>,
    /// Whether two contenders held a lock at the same time; not in files.
    #[serde(skip)]
    is_broken: bool,
}

impl MeasuredLoad {
    /// Creates the result of a trial with `times` the load, or with only part of a load that lasts `whole`.
    /// `None` if the trial did not measure the objective's metric.
    pub fn of(
        run: PathBuf,
        trial: &Trial,
        question: &Question,
        times: f64,
        whole: Option<Duration>,
    ) -> Option<Self> {
        let load = PlannedLoad::of(&trial.spec, Order::Fifo)?;
        // Results do not contain the arrivals of a replay.
        let rate = if load.rate() > 0.0 { load.rate() } else { offered(trial)? };
        let locks = load.locks();
        let Shown { value, at_least, waits, verdict } = Shown::by(trial, question, DecidedBy::Significance)?;
        let seconds = trial.measured_us as f64 / 1e6;
        let is_broken = is_broken(trial);
        let verdict = match whole {
            Some(whole) if !is_broken => Verdict::unknown(format!("measured {}", of_whole(seconds, whole))),
            _ => of_load_itself(verdict, trial, times),
        };
        let requests_per_acquisition = REQUESTS_PER_ACQUISITION.of(trial);
        let is_own = whole.is_none() && times <= 1.0;
        let by_value = is_own.then(|| Shown::by(trial, question, DecidedBy::Value)).flatten();
        Some(Self {
            run,
            rate,
            locks,
            times,
            seconds,
            whole_s: whole.map(|whole| whole.as_secs_f64()),
            waits,
            value,
            at_least,
            requests_per_acquisition,
            verdict,
            by_value: by_value.map(|shown| shown.verdict),
            is_broken,
        })
    }

    /// Returns whether a single stall of the servers may have caused the miss. All requests during a stall are late,
    /// so their number does not rule out chance. No stall lets two contenders hold a lock.
    pub fn may_be_a_stall(&self, objective: &Objective) -> bool {
        self.is_missed(objective) && !self.is_broken
    }

    /// Returns the second measurement, made after this one missed the objective, if it is conclusive; otherwise, this
    /// measurement.
    pub fn or_again(self, again: Option<Self>) -> Self {
        again.filter(|again| !matches!(again.verdict, Verdict::Unknown(_))).unwrap_or(self)
    }

    /// Returns why the measurement is inconclusive, if its value misses the objective.
    pub(super) fn doubt(&self, objective: &Objective) -> Option<String> {
        let is_open = matches!(self.verdict, Verdict::Unknown(_)) && !objective.holds(self.value);
        self.verdict.why().filter(|_| is_open)
    }

    /// Returns whether the measured value missed the objective.
    pub(super) fn is_missed(&self, objective: &Objective) -> bool {
        matches!(self.verdict, Verdict::Violated(_)) && !objective.holds(self.value)
    }

    /// Formats the measurement, such as `59 ms in 1,240 waits at your load`.
    pub fn in_words(&self, objective: &Objective) -> String {
        let at_least = if self.at_least { "at least " } else { "" };
        let load = match self.whole_s.and_then(|whole| Duration::try_from_secs_f64(whole).ok()) {
            Some(whole) => format!("in {} of your load", of_whole(self.seconds, whole)),
            None if self.times > 1.0 => format!("at {} times your load", number(self.times)),
            None => "at your load".to_owned(),
        };
        let value = objective.figure.unit().show(self.value);
        let waits = counted(self.waits, "wait", "waits");
        let doubt = if self.doubt(objective).is_some() { " (inconclusive)" } else { "" };
        format!("{at_least}{value} in {waits} {load}{doubt}")
    }
}

/// Formats the length of a measurement that is shorter than the load: `the first 45 s of 2m`.
fn of_whole(seconds: f64, whole: Duration) -> String {
    let measured = Duration::try_from_secs_f64(seconds.round()).unwrap_or_default();
    format!("the first {} of {}", format_duration(measured), format_duration(whole))
}

/// Returns the verdict on the load itself after a trial with `times` its arrivals: a heavier load may miss an objective
/// that the load itself meets, but no load may let two contenders hold a lock.
pub(super) fn of_load_itself(verdict: Verdict, trial: &Trial, times: f64) -> Verdict {
    match verdict {
        Verdict::Violated(_) if times > 1.0 && !is_broken(trial) => Verdict::unknown(format!(
            "{} times the load missed the objective, so the result for the load itself is unknown",
            number(times)
        )),
        verdict => verdict,
    }
}

/// Returns whether two contenders held a lock at the same time.
fn is_broken(trial: &Trial) -> bool {
    matches!(trial.judged.exclusion, Verdict::Violated(_))
}

/// What decides whether a metric meets the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// The value, if it is based on enough waits.
    Value,
    /// The value, if chance is ruled out as the cause.
    Significance,
}

/// Value of the objective's metric in a trial, and the verdict.
pub(super) struct Shown {
    pub value: f64,
    pub at_least: bool,
    pub waits: u64,
    pub verdict: Verdict,
}

impl Shown {
    /// Judges a trial, with its throughput scaled to the planned rate. `None` if no wait was measured.
    pub fn by(trial: &Trial, question: &Question, decided: DecidedBy) -> Option<Self> {
        let waits = trial.survival(Measure::Wait)?;
        let objective = &question.objective;
        let figure = objective.figure;
        let share = question.rate / offered(trial)?;
        let is_throughput = figure == THROUGHPUT.figure();
        let (value, at_least) = match trial.reading(figure) {
            Ok(reading) if is_throughput => (reading.value * share, reading.at_least),
            Ok(reading) => (reading.value, reading.at_least),
            // The queue grew, so the value so far is a lower bound.
            Err(_) => (so_far(figure, &waits)?, true),
        };
        let shown = Self { value, at_least, waits: waits.count(), verdict: Verdict::Held };
        let is_decided = match decided {
            DecidedBy::Value => shown.waits >= figure.samples_needed(),
            DecidedBy::Significance => false,
        };
        let met = match is_decided {
            true => Some(objective.holds(shown.value)),
            false => decided_by_chance(objective, shown.value, &waits),
        };
        let verdict = shown.judge(trial, objective, met);
        Some(Self { verdict, ..shown })
    }

    /// Returns the verdict; `met` is `None` if it is inconclusive whether the value meets the objective.
    fn judge(&self, trial: &Trial, objective: &Objective, met: Option<bool>) -> Verdict {
        let figure = objective.figure;
        let shown = figure.unit().show(self.value);
        if let Verdict::Violated(why) = &trial.judged.exclusion {
            return Verdict::Violated(why.clone());
        }
        if let Some(cut) = &trial.cut_short {
            return Verdict::unknown(format!("the trial is partial: {}", cut.why));
        }
        let at_least = if self.at_least { "at least " } else { "" };
        let Some(met) = met else {
            let is_few = self.waits < figure.samples_needed();
            return Verdict::unknown(format!(
                "{figure} was {at_least}{shown} in {}, too {} to decide",
                counted(self.waits, "wait", "waits"),
                if is_few { "few" } else { "close" }
            ));
        };
        if met && self.at_least && objective.holds(self.value) {
            return Verdict::unknown(format!(
                "{figure} was at least {shown} when the load ended, and the queue was still growing"
            ));
        }
        if met {
            return Verdict::Held;
        }
        let by_host = DELAYS * late_us(trial);
        match trial.health.invalid.as_ref().filter(|_| objective.holds(self.value - by_host)) {
            Some(why) => Verdict::unknown(format!("{figure} was {at_least}{shown}, possibly because {why}")),
            None => Verdict::violated(format!(
                "{figure} was {at_least}{shown}, but must be {}",
                objective.wanted()
            )),
        }
    }
}

/// Returns the arrivals per second that were due in the measured phase or, for returning clients, the maximum
/// that their load permits.
fn offered(trial: &Trial) -> Option<f64> {
    let arrived = trial.arrived.map(|arrived| arrived.offered as f64).filter(|offered| *offered > 0.0);
    match arrived {
        Some(offered) if trial.measured_us > 0 => Some(offered / (trial.measured_us as f64 / 1e6)),
        _ => Some(PlannedLoad::of(&trial.spec, Order::Fifo)?.rate()),
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

/// Returns whether a measured value meets the objective; `None` if chance cannot be ruled out.
fn decided_by_chance(objective: &Objective, value: f64, waits: &Survival) -> Option<bool> {
    let figure = objective.figure;
    if let Some(beyond) = beyond(objective, waits) {
        return decided_by_few(figure, beyond, waits.count());
    }
    let error = match figure {
        Figure::Latency(..) => ERRORS * standard_error(waits),
        // A smaller shortfall may be a queue at the start or the end of the trial.
        _ if figure == THROUGHPUT.figure() => (1.0 - Arrived::ACHIEVED) * value,
        _ => 0.0,
    };
    let met = objective.holds(value);
    (objective.holds(value - error) == met && objective.holds(value + error) == met).then_some(met)
}

/// Returns the standard error of the mean wait, in microseconds.
fn standard_error(waits: &Survival) -> f64 {
    let mut below = 0.0;
    let squares = waits.steps.iter().map(|(us, share)| {
        let weight = share - below;
        below = *share;
        weight * (*us as f64 - waits.mean_us).powi(2)
    });
    (squares.sum::<f64>() / waits.count().max(1) as f64).sqrt()
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
        let found = [few(0, 200), few(0, 299), few(1, 299), few(1, 480)];
        assert_eq!(found, [None, Some(true), None, Some(true)]);
        assert_eq!([few(1, 50), few(3, 50), few(30, 50)], [None, Some(false), Some(false)]);
    }
}
