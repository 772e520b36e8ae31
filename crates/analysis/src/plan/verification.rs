//! Verification: a prediction compared with the measured load.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FailureCost, MeasuredRange, PlannedLoad, Question, SIMULATED};
use crate::model::{Fit, Observation, Predicted, predict, simulate};
use crate::objective::Objective;
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{Reading, Trial};
use zklockbench_stats::queueing::SimulationOutcome;

const SIMULATIONS: usize = 60;
/// Simulations with the service of the verifying trial itself.
const AGAIN: u64 = 5;
/// Largest deviation of these simulations from the measurement, as a share.
const WITHIN: f64 = 0.15;
/// Largest deviation of waits around a failure from their prediction: elections sometimes take half as long again.
const FAILURES_WITHIN: f64 = 0.3;

/// One figure, predicted and measured; waits in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Its name.
    pub figure: String,
    /// The prediction for the verifying load, with the trial's own error.
    pub predicted: Predicted,
    /// What was measured.
    pub measured: f64,
    /// `measured` is a lower bound: waits that had not ended could make it longer. Older versions did not keep it.
    #[serde(default)]
    pub at_least: bool,
    /// Whether that lies in the 90 % interval.
    pub inside: bool,
    /// What the simulation says with the service that the verifying trial had itself.
    pub by_observed_service: f64,
    /// Whether that is within 15 % of what was measured.
    pub reproduced: bool,
}

/// What a failure cost when it was caused again, on other servers; waits in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedFailure {
    /// The fault, as a scenario says it.
    pub fault: String,
    /// How often it was caused again.
    pub times: usize,
    /// The 99th percentile of the waits of those that came around it, as it was when the plan was made.
    pub predicted: MeasuredRange,
    /// The same when it was caused again.
    pub measured: MeasuredRange,
    /// Whether their medians are within 30 % of each other; `None` if either is only a lower bound.
    pub reproduced: Option<bool>,
}

impl CheckedFailure {
    /// Compares the predicted and measured costs of each kind of failure, where both are known.
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

/// A verifying trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// The strategy's label.
    pub strategy: String,
    /// The run.
    pub run: PathBuf,
    /// Arrivals of the measured phase.
    pub arrivals: u64,
    /// Arrivals a second over all locks.
    pub rate: f64,
    /// Equal locks.
    pub locks: usize,
    /// Predicted and measured.
    pub figures: Vec<Checked>,
    /// Failures that were caused again. Empty where none were, and in plans of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CheckedFailure>,
    /// Whether what was measured keeps the objective, whatever it rests on.
    pub held: bool,
    /// What follows: `unknown` where it shows neither that the objective holds nor that it does not. `None` in plans of
    /// versions that did not judge what it rests on.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// What must be known of it.
    pub notes: Vec<String>,
}

impl Verification {
    pub fn verdict(&self) -> Verdict {
        let broke = || Verdict::violated("the objective did not hold");
        self.verdict.clone().unwrap_or_else(|| if self.held { Verdict::Held } else { broke() })
    }
}

/// A strategy whose verification did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unverified {
    /// The strategy's label.
    pub strategy: String,
    /// Why, in a sentence without a full stop.
    pub why: String,
}

/// A trial that verifies a prediction, with the basis of that prediction.
#[derive(Debug)]
pub struct Attempt<'a> {
    pub run: PathBuf,
    pub trial: &'a Trial,
    pub load: &'a PlannedLoad,
    pub fit: &'a Fit,
    pub fitted: &'a [Observation],
}

/// Compares a trial with the prediction for its load.
pub fn verify(attempt: Attempt<'_>, question: &Question, seed: u64) -> Result<Verification, String> {
    let Attempt { run, trial, load, fit, fitted } = attempt;
    let observed = Observation::of(&run.display().to_string(), trial)?;
    let prediction = load.with_case(false, |case| predict(fit, fitted, case, SIMULATIONS, seed));
    let again: Vec<_> =
        load.with_case(true, |case| (0..AGAIN).map(|n| simulate(&observed, case, seed + n)).collect());
    let waits = trial.latencies().get(&Measure::Wait).copied().ok_or("no wait was measured")?;
    let measured = |figure: Figure, fallback: f64| match trial.reading(figure) {
        Ok(reading) => (reading.value, reading.at_least),
        // A queue that has grown keeps growing.
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
    let mut notes: Vec<String> =
        trial.unsound().into_iter().map(|why| format!("the trial is {why}")).collect();
    if (arrivals as f64) < SIMULATED {
        notes.push(format!("{arrivals} arrivals; a reliable 99th percentile needs {SIMULATED}"));
    }
    let objective = &question.objective;
    let (value, at_least) = measured(objective.figure, waits.mean_us);
    // Throughput covers all locks, which may be more than the question has.
    let all = objective.figure == THROUGHPUT.figure();
    let value = if all { value * question.rate / load.rate() } else { value };
    let held = objective.holds(value);
    let measured = Reading { value, at_least, samples: Some(waits.count) };
    let verdict = judge(objective, measured, &trial.judged.exclusion, trial.unsound());
    Ok(Verification {
        strategy: trial.spec.strategy.label.clone(),
        run,
        arrivals,
        rate: load.rate(),
        locks: load.locks(),
        figures,
        failures: Vec::new(),
        held,
        verdict: Some(verdict),
        notes,
    })
}

/// Verdict of a trial on the objective. It is unknown if the trial says nothing about the lock.
fn judge(objective: &Objective, measured: Reading, exclusion: &Verdict, unsound: Option<String>) -> Verdict {
    let Reading { value, at_least, samples } = measured;
    let samples = samples.unwrap_or_default();
    let Objective { figure, limit, .. } = objective;
    let [shown, limit] = [value, *limit].map(|value| figure.unit().show(value));
    if let Verdict::Violated(why) = exclusion {
        return Verdict::Violated(why.clone());
    }
    if let Some(why) = unsound {
        return Verdict::unknown(format!("the trial is {why}"));
    }
    let needed = figure.samples_needed();
    match objective.holds(value) {
        _ if samples < needed => {
            Verdict::unknown(format!("{figure} takes {needed} waits, and {samples} were measured"))
        }
        false => {
            let bound = if at_least { "at least " } else { "" };
            Verdict::violated(format!("{figure} was {bound}{shown}, and must be {}", objective.wanted()))
        }
        true if at_least => Verdict::unknown(format!(
            "{figure} was at least {shown}, as waits had not ended: the limit is {limit}"
        )),
        true => Verdict::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::objective;

    fn word(value: f64, at_least: bool, samples: u64, unsound: Option<&str>) -> &'static str {
        let objective = objective("wait.p99 < 200ms").unwrap();
        let measured = Reading { value, at_least, samples: Some(samples) };
        judge(&objective, measured, &Verdict::Held, unsound.map(str::to_owned)).word()
    }

    #[test]
    fn a_measurement_decides_only_if_it_says_something_about_the_lock() {
        assert_eq!(word(100_000.0, false, 20_000, None), "held");
        assert_eq!(word(300_000.0, false, 20_000, None), "violated");
        // A lower bound can violate a limit, but not meet it.
        assert_eq!(word(300_000.0, true, 20_000, None), "violated");
        assert_eq!(word(100_000.0, true, 20_000, None), "unknown");
        assert_eq!(word(100_000.0, false, 999, None), "unknown");
        let late = Some("invalid: the generator was 83 ms late");
        assert_eq!([100_000.0, 300_000.0].map(|value| word(value, false, 20_000, late)), ["unknown"; 2]);
    }
}
