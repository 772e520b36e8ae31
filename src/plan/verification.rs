//! How a prediction stood up to the load itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Load, Question, SIMULATED};
use crate::measure::{Figure, Measure, Ratio};
use crate::model::{Fit, Interval, Observation, predict, simulate};
use crate::results::record::Trial;

/// How often the verifying load is simulated.
const SIMULATIONS: usize = 60;
/// Simulations with the service that the verifying trial had itself.
const AGAIN: u64 = 5;
/// How far these may lie from what was measured.
const WITHIN: f64 = 0.15;

/// One figure, predicted and measured; waits in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Its name.
    pub figure: String,
    /// The prediction for the verifying load, with the trial's own error.
    pub predicted: Interval,
    /// What was measured.
    pub measured: f64,
    /// Whether that lies in the 90 % interval.
    pub inside: bool,
    /// What the simulation says with the service that the verifying trial had itself.
    pub by_observed_service: f64,
    /// Whether that is within 15 % of what was measured.
    pub reproduced: bool,
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
    /// Whether the objective held.
    pub held: bool,
    /// What must be known of it.
    pub notes: Vec<String>,
}

/// A trial that was to show whether a prediction is right, and what was predicted from.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The directory of its run.
    pub run: PathBuf,
    /// The trial.
    pub trial: &'a Trial,
    /// Its load.
    pub load: &'a Load,
    /// The fit of the strategy's service.
    pub fit: &'a Fit,
    /// The trials that were fitted.
    pub fitted: &'a [Observation],
}

/// Compares a trial with what was predicted for its load.
///
/// # Errors
/// When the trial says nothing of the service.
pub fn verify(attempt: Attempt<'_>, question: &Question, seed: u64) -> Result<Verification, String> {
    let Attempt { run, trial, load, fit, fitted } = attempt;
    let observed = Observation::of(&run.display().to_string(), trial)?;
    let prediction = load.with_case(false, |case| predict(fit, fitted, case, SIMULATIONS, seed));
    let again: Vec<_> =
        load.with_case(true, |case| (0..AGAIN).map(|n| simulate(&observed, case, seed + n)).collect());
    let waits = trial.latencies().get(&Measure::Wait).copied().ok_or("no wait was measured")?;
    let mean = |of: &dyn Fn(&crate::queueing::Outcome) -> f64| {
        again.iter().map(of).sum::<f64>() / again.len() as f64
    };
    let quantile = |quantile: f64| mean(&|one| one.quantile(quantile).unwrap_or(0.0));
    let checked = |figure: &str, predicted: Interval, measured: f64, by_observed_service: f64| Checked {
        figure: figure.to_owned(),
        inside: predicted.contains(measured),
        reproduced: (by_observed_service / measured - 1.0).abs() <= WITHIN,
        predicted,
        measured,
        by_observed_service,
    };
    let throughput = trial.derived().throughput_per_s.unwrap_or(0.0);
    let figures = vec![
        checked("wait.p50", prediction.wait_p50, waits.p50_us as f64, quantile(0.5)),
        checked("wait.p99", prediction.wait_p99, waits.p99_us as f64, quantile(0.99)),
        checked("wait.p99.9", prediction.wait_p999, waits.p999_us as f64, quantile(0.999)),
        checked("throughput", prediction.throughput, throughput, mean(&|one| 1e6 * one.throughput())),
    ];
    let arrivals = trial.arrived.map_or(0, |arrived| arrived.offered);
    let mut notes: Vec<String> =
        trial.unsound().into_iter().map(|why| format!("the trial is {why}")).collect();
    if (arrivals as f64) < SIMULATED {
        notes.push(format!("{arrivals} arrivals; a reliable 99th percentile needs {SIMULATED}"));
    }
    let objective = &question.objective;
    let of = |figure: &str| figures.iter().find(|one| one.figure == figure).map(|one| one.measured);
    let held = match of(&objective.figure.to_string()) {
        // Over more locks than were asked for, a throughput is that of all.
        Some(value) if objective.figure == Figure::Ratio(Ratio::Throughput) => {
            objective.holds(value * question.rate / load.rate())
        }
        Some(value) => objective.holds(value),
        None => objective.holds(waits.mean_us),
    };
    Ok(Verification {
        strategy: trial.spec.strategy.label.clone(),
        run,
        arrivals,
        rate: load.rate(),
        locks: load.locks(),
        figures,
        held,
        notes,
    })
}
