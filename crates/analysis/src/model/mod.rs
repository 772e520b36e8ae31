//! From what runs measured of a strategy to what it would do under another load: what each trial says of its service, the parts
//! of that, fitted over trials, and predictions by simulation, with what is not known of them.
//!
//! A fit that does not describe what was measured is called bad, and predicts nothing.

mod fit;
mod predict;

use zklockbench_core::measure::{Measure, Second};
use zklockbench_record::Trial;
use zklockbench_record::figures::{FAN_OUT, REQUESTS_PER_ACQUISITION};
use zklockbench_stats::queueing::{Empirical, Pace};

pub use fit::{Fit, FitRange, Part, Unfit, fit};
pub use predict::{Coming, LoadCase, Predicted, Prediction, predict, simulate};

/// Fewer handoffs say nothing of their mean.
const HANDOFFS_FEW: u64 = 20;

/// The service of a strategy as one trial saw it. Times are in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Where it comes from: the run and the trial.
    pub source: String,
    pub strategy: String,
    /// How many waited at a release where anybody did, on average.
    pub waiting: f64,
    /// Acquisitions a second, over all locks.
    pub rate: f64,
    /// From a release to the next entry, where there was a waiter.
    pub handoff: Empirical,
    /// In which seconds handoffs took longer, and in which less.
    pub pace: Pace,
    /// Entries of a free lock; `None` where there was none.
    pub uncontended: Option<Empirical>,
    pub release: Empirical,
    /// How much longer than meant locks were held.
    pub overshoot: Empirical,
    /// How late acquires were called; `None` where none is ever late.
    pub late: Option<Empirical>,
    /// Notifications that a release causes, on average; `None` where they were not counted.
    pub fan_out: Option<f64>,
    pub requests_per_acquisition: Option<f64>,
    /// Why its figures do not count; `None` where they do.
    pub unsound: Option<String>,
}

impl Observation {
    pub fn of(run: &str, trial: &Trial) -> Result<Self, String> {
        let spec = &trial.spec;
        let source = format!("{run}, trial {}", spec.index);
        let refuse = |why: &str| Err(format!("{source}: {why}"));
        // Round trips that are longer throughout are a property of the place; anything else is broken for a while.
        let added = spec.added_round_trip();
        if !spec.faults.is_empty() && added.is_none() {
            return refuse("something was broken on purpose");
        }
        if added.is_some() && !trial.faults.iter().all(|fault| fault.proved) {
            return refuse("its round trips were not seen to become longer");
        }
        if spec.has_readers() || spec.depth > 1 {
            return refuse("it has readers, or locks that are taken more than once");
        }
        let of = |measure: Measure| trial.histograms.get(&measure);
        let drawn = |measure: Measure| of(measure).and_then(Empirical::of);
        let handoffs = of(Measure::Handoff).map_or(0, |handoffs| handoffs.len());
        let Some(handoff) = drawn(Measure::Handoff).filter(|_| handoffs >= HANDOFFS_FEW) else {
            return refuse(&format!("{handoffs} handoffs, of which at least {HANDOFFS_FEW} are needed"));
        };
        let (Some(release), Some(wait)) = (drawn(Measure::Release), drawn(Measure::Wait)) else {
            return refuse("nothing was released or waited for");
        };
        let second = |one: &Second| (one.handoff_us as f64 / one.handoffs.max(1) as f64, one.handoffs);
        let seconds: Vec<(f64, u64)> = trial.timeline.iter().map(second).collect();
        let pace = Pace::of(&seconds, handoff.relative_variance());
        let uncontended = drawn(Measure::Uncontended);
        let alone = of(Measure::Uncontended).map_or(0, |alone| alone.len());
        let seconds = trial.measured_us as f64 / 1e6;
        if seconds <= 0.0 {
            return refuse("it measured for no time");
        }
        let rate = trial.measured.acquired() as f64 / seconds;
        let contended = handoffs as f64 / (handoffs + alone) as f64;
        let entering = contended * handoff.mean()
            + (1.0 - contended) * uncontended.as_ref().map_or(0.0, Empirical::mean);
        // Little's law: how many wait behind a holder, not counting the one about to enter.
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
