//! What one repetition of a point showed of one strategy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::StoredRun;
use crate::results::record::figures::THROUGHPUT;
use crate::results::record::{Missing, Reading, Trial};
use crate::words::measure::{Figure, Measure, Statistic};
use crate::words::units::shown;
use crate::words::verdict::Verdict;

/// A place in the sweep: a value of each variable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct At {
    /// Of the first variable.
    pub x: f64,
    /// Of the second, where there is one.
    pub beside: Option<f64>,
}

/// Whether a repetition counts, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It counts.
    Sound,
    /// The load generator could not keep up: it says nothing of the lock.
    Saturated,
    /// The queue grew: more came than was served.
    Unstable,
    /// It did not come to its end, nothing was acquired, or sessions were lost.
    Failed,
    /// Two held the lock at once, or another promise was broken.
    Violated,
}

impl State {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sound => "ok",
            Self::Saturated => "generator saturated",
            Self::Unstable => "queue grew",
            Self::Failed => "failed",
            Self::Violated => "VIOLATED",
        }
    }

    /// Whether the lock or its ensemble broke down, and not the generator.
    pub const fn is_broken(self) -> bool {
        matches!(self, Self::Unstable | Self::Failed | Self::Violated)
    }
}

/// One repetition of one strategy at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The number of the run that measured it.
    pub run: u32,
    /// The strategy's label.
    pub strategy: String,
    /// Where.
    pub at: At,
    /// Whether it counts.
    pub state: State,
    /// Why it does not.
    pub why: Option<String>,
    /// Acquisitions a second.
    pub throughput: Option<f64>,
    /// The median wait in microseconds.
    pub wait_p50: Option<Reading>,
    /// The 99th percentile of the wait in microseconds.
    pub wait_p99: Option<Reading>,
    /// The median of acquires that no other contender delayed, in microseconds; `None` where there was none, and in files of
    /// versions that did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncontended_p50: Option<f64>,
    /// The figure of the objective, where there is one.
    pub objective: Option<Reading>,
}

/// Texts from files are no longer than this.
const WHY: usize = 300;
/// Of so many sessions lost, as a share of all, the ensemble did not carry the load.
const SESSIONS_LOST: f64 = 0.1;

pub fn samples(stored: &StoredRun, run: u32, at: At, objective: Option<Figure>) -> Vec<Sample> {
    let of = |trial: &Trial| {
        let (state, why) = state(trial);
        let reading = |figure: Figure| figure.of(trial).ok().filter(|found| found.value.is_finite());
        let wait = |percent| Figure::Latency(Measure::Wait, Statistic::percent(percent));
        Sample {
            run,
            strategy: trial.spec.strategy.label.clone(),
            at,
            state,
            why: why.map(|why| shown(&why, WHY)),
            throughput: reading(THROUGHPUT.figure()).map(|found| found.value),
            wait_p50: reading(wait(50)),
            wait_p99: reading(wait(99)),
            uncontended_p50: reading(Figure::Latency(Measure::Uncontended, Statistic::percent(50)))
                .map(|found| found.value),
            objective: objective.and_then(reading),
        }
    };
    stored.trials.iter().map(of).collect()
}

fn state(trial: &Trial) -> (State, Option<String>) {
    let lost = trial.sessions.expired;
    if let Verdict::Violated(reasons) = &trial.judged.verdict {
        return (State::Violated, reasons.first().cloned());
    }
    if let Some(why) = &trial.health.invalid {
        return (State::Saturated, Some(why.clone()));
    }
    if let Some(cut) = &trial.cut_short {
        return (State::Failed, Some(format!("cut short: {}", cut.why)));
    }
    if trial.measured.acquired() == 0 {
        return (State::Failed, Some("nothing was acquired".into()));
    }
    if lost as f64 > SESSIONS_LOST * trial.spec.contenders as f64 {
        return (State::Failed, Some(format!("{lost} sessions expired")));
    }
    if trial.is_unstable() {
        return (State::Unstable, Some(Missing::Unstable.to_string()));
    }
    (State::Sound, None)
}
