//! Verification: a prediction compared with the measured load.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::{DecidedBy, Shown, of_load_itself};
use super::question::predicted;
use super::{FailureCost, MeasuredRange, PlannedLoad, Question, SIMULATED};
use crate::model::{Fit, Observation, Predicted, predict, simulate};
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_stats::queueing::SimulationOutcome;

const SIMULATIONS: usize = 60;
/// Number of simulations with the verifying trial's own service.
const AGAIN: u64 = 5;
/// Largest tolerated relative deviation of the [`AGAIN`] simulations from the measurement.
const WITHIN: f64 = 0.15;
/// Largest tolerated deviation of waits around a failure from their prediction. The tolerance is large,
/// because elections sometimes take half as long again.
const FAILURES_WITHIN: f64 = 0.3;

/// One metric, predicted and measured; waits are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Name of the metric.
    pub figure: String,
    /// Prediction for the load of the verifying trial.
    pub predicted: Predicted,
    /// Measured value.
    pub measured: f64,
    /// Whether `measured` is a lower bound, because some waits had not ended. False in older versions.
    #[serde(default)]
    pub at_least: bool,
    /// Whether the measured value lies in the 90 % interval.
    pub inside: bool,
    /// Mean over simulations with the verifying trial's own service.
    pub by_observed_service: f64,
    /// Whether this mean is within 15 % of the measured value.
    pub reproduced: bool,
}

/// Cost of a failure that was repeated on other servers; waits are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedFailure {
    /// The fault, as written in a scenario.
    pub fault: String,
    /// Number of repetitions.
    pub times: usize,
    /// 99th percentile of the waits around the failure, as measured for the plan.
    pub predicted: MeasuredRange,
    /// The same percentile, as measured when the failure was repeated.
    pub measured: MeasuredRange,
    /// Whether the predicted and measured medians are within 30 % of each other; `None` if either is only a lower
    /// bound.
    pub reproduced: Option<bool>,
}

impl CheckedFailure {
    /// Compares the predicted and measured costs of each kind of failure, if both are known.
    pub fn of_each(predicted: &[FailureCost], again: &[FailureCost]) -> Vec<Self> {
        let compared = |seen: &FailureCost| {
            let predicted = predicted.iter().find(|one| one.fault == seen.fault)?.wait_p99?;
            let measured = seen.wait_p99?;
            let off = (measured.median_us / predicted.median_us - 1.0).abs();
            Some(Self {
                fault: seen.fault.clone(),
                times: seen.times,
                predicted,
                measured,
                reproduced: (!predicted.at_least && !measured.at_least).then_some(off <= FAILURES_WITHIN),
            })
        };
        again.iter().filter_map(compared).collect()
    }
}

/// Result of a trial that verified a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Label of the strategy.
    pub strategy: String,
    /// Directory of the run.
    pub run: PathBuf,
    /// Number of arrivals in the measured phase.
    pub arrivals: u64,
    /// Arrivals per second over all locks.
    pub rate: f64,
    /// Number of equal locks.
    pub locks: usize,
    /// Predicted and measured metrics.
    pub figures: Vec<Checked>,
    /// Repeated failures. Empty if there were none, and in plans of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CheckedFailure>,
    /// Whether the measured value meets the objective, even if the trial is invalid.
    pub held: bool,
    /// Whether the objective's metric agrees with its prediction: inside the interval, or on the same side of
    /// the limit. `None` if the verification is inconclusive, and in files of older versions.
    #[serde(default)]
    pub agrees: Option<bool>,
    /// Verdict; `unknown` if the trial does not show whether the objective is met. `None` in plans of older
    /// versions.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Caveats.
    pub notes: Vec<String>,
}

impl Verification {
    /// Notes that only a part of the load was measured, which cannot show that the whole load meets the objective.
    pub fn of_part(mut self, part: &str) -> Self {
        let note = format!("measured only a part of the load: {part}");
        self.verdict = Some(self.verdict().and(Verdict::unknown(note.clone())));
        self.notes.push(note);
        self
    }

    pub fn verdict(&self) -> Verdict {
        let broke = || Verdict::violated("the objective was missed");
        self.verdict.clone().unwrap_or_else(|| if self.held { Verdict::Held } else { broke() })
    }
}

/// A strategy whose verification did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unverified {
    /// Label of the strategy.
    pub strategy: String,
    /// Reason, in a sentence without a full stop.
    pub why: String,
}

/// A trial that verifies a prediction, with the basis of that prediction.
#[derive(Debug)]
pub struct Attempt<'a> {
    pub run: PathBuf,
    pub trial: &'a Trial,
    pub load: &'a PlannedLoad,
    /// Arrivals per lock, as a multiple of the planned arrivals.
    pub times: f64,
    pub fit: &'a Fit,
    pub fitted: &'a [Observation],
}

pub fn verify(attempt: Attempt<'_>, question: &Question, seed: u64) -> Result<Verification, String> {
    let Attempt { run, trial, load, times, fit, fitted } = attempt;
    let observed = Observation::or_with(fitted.first(), &run.display().to_string(), trial)?;
    let prediction = load.with_case(false, |case| predict(fit, fitted, case, SIMULATIONS, seed));
    let again: Vec<_> =
        load.with_case(true, |case| (0..AGAIN).map(|n| simulate(&observed, case, seed + n)).collect());
    let waits = trial.latencies().get(&Measure::Wait).copied().ok_or("no wait was measured")?;
    let measured = |figure: Figure, fallback: f64| match trial.reading(figure) {
        Ok(reading) => (reading.value, reading.at_least),
        // The queue grew, so the value so far is a lower bound.
        Err(_) => (fallback, figure != THROUGHPUT.figure()),
    };
    let mean =
        |of: &dyn Fn(&SimulationOutcome) -> f64| again.iter().map(of).sum::<f64>() / again.len() as f64;
    let checked = |figure: Figure, predicted: Predicted, fallback: u64, by_observed_service: f64| {
        let (measured, at_least) = measured(figure, fallback as f64);
        Checked {
            figure: figure.to_string(),
            inside: predicted.contains(measured),
            reproduced: (by_observed_service / measured - 1.0).abs() <= WITHIN,
            predicted,
            measured,
            at_least,
            by_observed_service,
        }
    };
    let wait = |statistic: Statistic, predicted: Predicted, fallback: u64, share: f64| {
        let again = mean(&|one| one.quantile(share).unwrap_or(0.0));
        checked(Figure::Latency(Measure::Wait, statistic), predicted, fallback, again)
    };
    let figures = vec![
        wait(Statistic::percent(50), prediction.wait_p50, waits.p50_us, 0.5),
        wait(Statistic::percent(99), prediction.wait_p99, waits.p99_us, 0.99),
        wait(Statistic::Percentile(99_900), prediction.wait_p999, waits.p999_us, 0.999),
        checked(THROUGHPUT.figure(), prediction.throughput, 0, mean(&|one| 1e6 * one.throughput())),
    ];
    let arrivals = trial.arrived.map_or(waits.count, |arrived| arrived.offered);
    let mut notes = Vec::new();
    if (arrivals as f64) < SIMULATED {
        notes.push(format!("{arrivals} arrivals; a reliable 99th percentile needs {SIMULATED}"));
    }
    let objective = &question.objective;
    // Throughput covers all locks, possibly more than planned.
    let share = question.rate / load.rate();
    let shown = Shown::by(trial, question, DecidedBy::Value).ok_or("no wait was measured")?;
    let held = objective.holds(shown.value);
    let is_throughput = objective.figure == THROUGHPUT.figure();
    let expected = predicted(objective.figure, &prediction);
    let expected = expected.map(|all| if is_throughput { all.times(share) } else { all });
    let agrees =
        expected.map(|expected| expected.contains(shown.value) || objective.holds(expected.middle) == held);
    // An inconclusive measurement cannot contradict the prediction for its own load.
    let agrees = agrees.filter(|same| *same || !matches!(shown.verdict, Verdict::Unknown(_)));
    let verdict = of_load_itself(shown.verdict, trial, times);
    let is_open = matches!(verdict, Verdict::Unknown(_));
    let said = verdict.why().unwrap_or_default();
    let is_said = trial.health.invalid.as_ref().is_some_and(|why| said.contains(why));
    // A late generator only lengthens waits, so waits that meet the objective remain valid.
    if (agrees != Some(true) || is_open) && !is_said {
        notes.extend(trial.unsound().map(|why| format!("the trial is {why}")));
    }
    Ok(Verification {
        strategy: trial.spec.strategy.label.clone(),
        run,
        arrivals,
        rate: load.rate(),
        locks: load.locks(),
        figures,
        failures: Vec::new(),
        held,
        agrees,
        verdict: Some(verdict),
        notes,
    })
}
