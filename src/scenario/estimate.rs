//! How long trials take, guessed well enough to plan a coffee by.

use std::time::Duration;

use super::fields::POLL_INTERVAL_PARAM;
use super::model::{EnsembleChoice, Load, Stop, StrategyChoice, TrialSpec};
use super::plan::Plan;
use crate::catalog::ParamValue;

/// How the estimates are made, for whoever reads them.
pub const BASIS: &str = "estimated as connect (0.3 s and 3 ms a contender), ramp-up, warm-up, the measured \
     phase, and drain (0.3 s and 1 ms a contender); where acquisitions end it, their number on the busiest \
     lock times the mean hold, 3 ms for the handoff and, for polling, half an interval; 8 s to start \
     and warm up an ensemble. The handoff depends on the ensemble: on a slow disk it is longer.";

const ENSEMBLE_START_S: f64 = 8.0;
const PHASE_S: f64 = 0.3;
const CONNECT_S: f64 = 0.003;
const DRAIN_S: f64 = 0.001;
const HANDOFF_S: f64 = 0.003;
/// A batch queues up one contender after the other.
const ENQUEUE_S: f64 = 0.005;
/// Longer than any plan, and short enough that sums cannot overflow.
const FOREVER_S: f64 = 1e12;

impl TrialSpec {
    /// How long the whole trial takes, from connecting to the end of the drain; see [`BASIS`].
    #[must_use]
    pub fn estimated_duration(&self) -> Duration {
        time(self.seconds())
    }

    /// Acquisitions that the measured phase is expected to yield.
    #[must_use]
    pub fn estimated_acquisitions(&self) -> f64 {
        match self.stop {
            Stop::Acquisitions(each) => count(each) * float(self.contenders),
            Stop::After(duration) => {
                let by_lock = duration.as_secs_f64() / self.cycle() * float(self.locks.min(self.contenders));
                let by_contender = duration.as_secs_f64() / self.own_cycle() * float(self.contenders);
                by_lock.min(by_contender)
            }
        }
    }

    /// How long the last of the contenders that queue for one lock waits.
    #[must_use]
    pub fn estimated_wait(&self) -> Duration {
        time(self.busiest().max(1.0) * self.cycle() - self.hold.mean().as_secs_f64())
    }

    fn seconds(&self) -> f64 {
        let around = 2.0 * PHASE_S + float(self.contenders) * (CONNECT_S + DRAIN_S);
        around + self.ramp_up.as_secs_f64() + self.warm_up.as_secs_f64() + self.measured()
    }

    fn measured(&self) -> f64 {
        let queueing = if self.load == Load::Batch { float(self.contenders) * ENQUEUE_S } else { 0.0 };
        match self.stop {
            Stop::After(duration) => duration.as_secs_f64(),
            Stop::Acquisitions(each) => {
                queueing + count(each) * (self.busiest() * self.cycle()).max(self.own_cycle())
            }
        }
    }

    /// Contenders of the lock that has most.
    fn busiest(&self) -> f64 {
        float(self.contenders.div_ceil(self.locks.max(1)))
    }

    /// From one acquisition of a busy lock to the next.
    fn cycle(&self) -> f64 {
        let looking = interval(&self.strategy).as_secs_f64();
        // Alone, a poller sleeps a whole interval before its first look; in a queue the next is halfway on average.
        let looking = if self.busiest() > 1.0 { looking / 2.0 } else { looking };
        self.hold.mean().as_secs_f64() + HANDOFF_S + looking
    }

    /// From one acquisition of a contender to its next, if nobody were in the way.
    fn own_cycle(&self) -> f64 {
        self.cycle() + self.think.mean().as_secs_f64()
    }
}

impl Plan {
    /// How long the whole plan takes, the start of an own ensemble included; see [`BASIS`].
    #[must_use]
    pub fn estimated_duration(&self) -> Duration {
        let start = match self.scenario.ensemble {
            EnsembleChoice::Local { .. } | EnsembleChoice::Compose(_) => ENSEMBLE_START_S,
            EnsembleChoice::Connect(_) => 0.0,
        };
        time(start + self.trials.iter().map(TrialSpec::seconds).sum::<f64>())
    }
}

fn interval(strategy: &StrategyChoice) -> Duration {
    match strategy.params.get(POLL_INTERVAL_PARAM) {
        Some(ParamValue::Duration(interval)) => *interval,
        _ => Duration::ZERO,
    }
}

fn time(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, FOREVER_S))
}

#[allow(clippy::cast_precision_loss)] // counts are below 2^53, and this is a guess
fn count(number: u64) -> f64 {
    number as f64
}

#[allow(clippy::cast_precision_loss)] // counts are below 2^53, and this is a guess
fn float(number: usize) -> f64 {
    number as f64
}
