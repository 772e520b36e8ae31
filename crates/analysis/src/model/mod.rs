//! Models a strategy's service: the service measured in each trial, a fit over the trials, and predictions by
//! simulation, with their uncertainty.
//!
//! The more the measurements scatter around the fit, the wider the intervals of its predictions.

mod fit;
mod predict;

use zklockbench_core::measure::{Measure, Second};
use zklockbench_record::Trial;
use zklockbench_record::figures::{FAN_OUT, REQUESTS_PER_ACQUISITION};
use zklockbench_stats::queueing::{Empirical, Pace};

pub use fit::{Fit, FitRange, Part, TooFewTrials, fit};
pub use predict::{Coming, LoadCase, Predicted, Prediction, predict, simulate};

/// Minimum number of handoffs for a reliable mean.
const HANDOFFS_FEW: u64 = 20;

/// Service of a strategy as measured in one trial. Times are in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Run and trial.
    pub source: String,
    pub strategy: String,
    /// Mean number of waiters, over releases with at least one waiter.
    pub waiting: f64,
    /// Acquisitions per second, over all locks.
    pub rate: f64,
    /// Time from a release to the next acquisition, with at least one waiter.
    pub handoff: Empirical,
    /// Relative duration of handoffs, second by second.
    pub pace: Pace,
    /// Time to acquire a free lock; `None` if none was acquired.
    pub uncontended: Option<Empirical>,
    pub release: Empirical,
    /// Time by which locks were held longer than intended.
    pub overshoot: Empirical,
    /// Delay of acquire calls; `None` if the load has no schedule.
    pub late: Option<Empirical>,
    /// Mean number of notifications per release; `None` if they were not counted.
    pub fan_out: Option<f64>,
    pub requests_per_acquisition: Option<f64>,
    /// Reason why the trial's metrics do not count; `None` if they do.
    pub unsound: Option<String>,
}

impl Observation {
    pub fn of(run: &str, trial: &Trial) -> Result<Self, String> {
        Self::or_with(None, run, trial)
    }

    /// Creates the observation of a trial, with another trial's handoffs if the trial has too few.
    pub fn or_with(other: Option<&Self>, run: &str, trial: &Trial) -> Result<Self, String> {
        let spec = &trial.spec;
        let source = format!("{run}, trial {}", spec.index);
        let refuse = |why: &str| Err(format!("{source}: {why}"));
        // A permanently longer round trip is a property of the network; other faults are temporary.
        let added = spec.added_round_trip();
        if !spec.faults.is_empty() && added.is_none() {
            return refuse("faults were injected");
        }
        if added.is_some() && !trial.faults.iter().all(|fault| fault.proved) {
            return refuse("no increase in its round-trip time was observed");
        }
        if spec.has_readers() || spec.depth > 1 {
            return refuse("it has readers or reentrant acquires");
        }
        let of = |measure: Measure| trial.histograms.get(&measure);
        let drawn = |measure: Measure| of(measure).and_then(Empirical::of);
        let handoffs = of(Measure::Handoff).map_or(0, |handoffs| handoffs.len());
        let own = drawn(Measure::Handoff).filter(|_| handoffs >= HANDOFFS_FEW);
        let is_own = own.is_some();
        let Some(handoff) = own.or_else(|| other.map(|other| other.handoff.clone())) else {
            return refuse(&format!("{handoffs} handoffs; at least {HANDOFFS_FEW} are needed"));
        };
        let (Some(release), Some(wait)) = (drawn(Measure::Release), drawn(Measure::Wait)) else {
            return refuse("no lock was released or waited for");
        };
        let second = |one: &Second| (one.handoff_us as f64 / one.handoffs.max(1) as f64, one.handoffs);
        let seconds: Vec<(f64, u64)> = trial.timeline.iter().map(second).collect();
        let pace = if is_own { Pace::of(&seconds, handoff.relative_variance()) } else { Pace::default() };
        let uncontended = drawn(Measure::Uncontended);
        let alone = of(Measure::Uncontended).map_or(0, |alone| alone.len());
        let seconds = trial.measured_us as f64 / 1e6;
        if seconds <= 0.0 {
            return refuse("its measured phase has no length");
        }
        let rate = trial.measured.acquired() as f64 / seconds;
        let contended = handoffs.max(1) as f64 / (handoffs + alone).max(1) as f64;
        let entering = contended * handoff.mean()
            + (1.0 - contended) * uncontended.as_ref().map_or(0.0, Empirical::mean);
        // Little's law: the number of waiters behind a holder, excluding the waiter about to acquire.
        let queued = rate / spec.locks as f64 * (wait.mean() - entering).max(0.0) / 1e6;
        let waiting = match &spec.load {
            load if load.open().is_some() => 1.0 + queued / contended,
            load if load.name() == "batch" => spec.contenders as f64 / (2.0 * spec.locks as f64),
            _ => queued,
        };
        Ok(Self {
            strategy: spec.strategy.label.clone(),
            waiting: waiting.max(1.0),
            rate,
            handoff,
            pace,
            uncontended,
            release,
            overshoot: drawn(Measure::HoldOvershoot).unwrap_or_else(|| Empirical::fixed(0.0)),
            late: drawn(Measure::Lateness),
            fan_out: FAN_OUT.of(trial),
            requests_per_acquisition: REQUESTS_PER_ACQUISITION.of(trial),
            unsound: trial.unsound(),
            source,
        })
    }
}
