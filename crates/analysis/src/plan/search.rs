//! Predictions for other rates, numbers of locks and service times, and the search for the highest rate that
//! meets the objective.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::{predicted, wait_of};
use super::{PlannedLoad, SIMULATED};
use crate::model::{Fit, Observation, Predicted, Prediction, predict};
use crate::objective::Objective;
use zklockbench_core::units::number;
use zklockbench_core::verdict::Verdict;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Number of arrivals in each simulation. The interval covers the variation between trials with this many arrivals.
    pub arrivals: f64,
    /// Number of simulations for an interval.
    pub simulations: usize,
    /// Number of simulations for each further rate of the curve or of the search.
    pub for_curve: usize,
    pub seed: u64,
}

impl Effort {
    pub fn whole(seed: u64) -> Self {
        Self { arrivals: SIMULATED, simulations: 60, for_curve: ENDS, seed }
    }
}

/// Minimum number of simulations for which the range of all simulated values is a 90 % interval: a new value
/// lies outside with a probability of 10 %.
const ENDS: usize = 19;
/// Number of simulations if only the median is needed.
const FEW: usize = 5;
/// Number of bisection steps of the search.
const STEPS: u32 = 7;
/// Multiples of the rate, tried in this order, to find a rate that meets the objective.
const LOWER: [f64; 4] = [1.0, 0.5, 0.25, 0.125];
/// Largest multiple of a closed load's clients to try.
const CLIENTS_MOST: f64 = 16.0;
/// Multipliers of the service times in the sensitivity analysis.
const SERVICES: [f64; 4] = [0.9, 1.05, 1.1, 1.2];

/// Highest rate that meets the objective.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headroom {
    /// Number of clients, if the load consists of returning clients; `None` for arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    /// Arrivals per second. For returning clients, their rate with an instant lock.
    pub rate: f64,
    /// Multiple of the planned rate.
    pub factor: f64,
    /// Whether the true rate may be higher, because nothing was measured beyond it.
    pub at_least: bool,
    /// Highest rate at which the whole 90 % interval meets the objective. `None` if no rate does.
    #[serde(default)]
    pub low: Option<f64>,
    /// Lowest rate at which the whole 90 % interval misses the objective; `None` if that rate is
    /// beyond the measurements.
    #[serde(default)]
    pub high: Option<f64>,
}

/// Predicted wait at a rate: the objective's metric or, if that is not a wait, the 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Arrivals per second.
    pub rate: f64,
    /// The wait in microseconds.
    #[serde(flatten)]
    pub wait: Predicted,
}

/// Value of the objective's metric for other durations of holds and handoffs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// Multiplier of the durations.
    pub service: f64,
    /// Value of the metric: microseconds, or acquisitions per second.
    pub value: f64,
    /// Whether the value meets the objective.
    pub holds: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub fit: &'a Fit,
    pub trials: &'a [Observation],
    pub load: &'a PlannedLoad,
    pub objective: &'a Objective,
    pub effort: Effort,
}

/// Part of a prediction's interval that must meet the objective.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    All,
    Middle,
    Any,
}

/// The largest rate multiplier at which the objective is met.
#[derive(Debug, Clone, Copy)]
struct Last {
    factor: f64,
    /// Whether the true multiplier may be larger, because nothing was measured beyond it.
    is_open: bool,
}

impl Search<'_> {
    pub fn predict(&self, fit: &Fit, load: PlannedLoad, simulations: usize) -> Prediction {
        let load = load.with_arrivals(self.effort.arrivals);
        load.with_case(false, |case| predict(fit, self.trials, case, simulations, self.effort.seed))
    }

    /// Returns whether this part of a prediction meets the objective.
    pub fn keeps(&self, prediction: &Prediction, by: By) -> bool {
        let Some(Predicted { low, middle, high }) = predicted(self.objective.figure, prediction) else {
            return false;
        };
        let holds = |value| self.objective.holds(value);
        match by {
            By::All => holds(low) && holds(high),
            By::Middle => holds(middle),
            By::Any => holds(low) || holds(high),
        }
    }

    /// Returns unknown if handoffs grow with the queue and the queue is much longer than any measured queue.
    pub fn known_queue(&self, prediction: &Prediction, load: &PlannedLoad) -> Verdict {
        let waiting = 1.0 + at_the_busiest(prediction, load.locks(), load.unevenness());
        if !self.fit.guesses_queue(waiting) {
            return Verdict::Held;
        }
        Verdict::unknown(format!(
            "{} requests would wait for a lock, but at most {} were measured, and each waiter lengthens a handoff",
            number(waiting),
            number(self.fit.range.waiting_to)
        ))
    }

    fn holds(&self, load: PlannedLoad, by: By) -> bool {
        self.keeps_at(load, by) == Some(true)
    }

    /// Returns whether a load meets the objective; `None` if its queues are much longer than the measured
    /// queues.
    fn keeps_at(&self, load: PlannedLoad, by: By) -> Option<bool> {
        // More locks do not help if there are too few clients.
        if load.impossible().is_some() {
            return Some(false);
        }
        let (locks, uneven) = (load.locks(), load.unevenness());
        let is_bounded = load.is_closed() || load.only_tries();
        let prediction = self.predict(self.fit, load, self.effort.for_curve);
        let Predicted { low, middle, high } = prediction.utilisation;
        let busy = match by {
            By::All => high,
            By::Middle => middle,
            By::Any => low,
        };
        let waiting = 1.0 + at_the_busiest(&prediction, locks, uneven);
        // A growing queue has short waits at first; the queue of a closed load or of tries cannot grow.
        let is_steady = is_bounded || uneven * busy < 0.98;
        (!self.fit.guesses_queue(waiting)).then(|| is_steady && self.keeps(&prediction, by))
    }

    /// Returns the predicted waits for rates up to the highest that meets the objective, denser where waits rise
    /// faster.
    pub fn curve(&self, asked: &Prediction, headroom: Option<Headroom>) -> Vec<CurvePoint> {
        let rate = self.load.rate();
        let point = |factor: f64, prediction: &Prediction| {
            let wait = predicted(wait_of(self.objective), prediction)?;
            Some(CurvePoint { rate: factor * rate, wait })
        };
        let simulated = |factor: f64| {
            let load = self.load.clone().times(factor);
            point(factor, &self.predict(self.fit, load, self.effort.for_curve))
        };
        let end = headroom.map_or(1.0, |room| room.factor);
        let (below, above): (&[f64], &[f64]) = match end > 1.02 {
            true => (&[0.25, 0.5, 0.75], &[0.5, 0.75, 0.9, 1.0]),
            false => (&[0.25, 0.4, 0.55, 0.7, 0.85], &[]),
        };
        let before = below.iter().filter_map(|factor| simulated(*factor));
        let beyond = above.iter().filter_map(|share| simulated(1.0 + share * (end - 1.0)));
        before.chain(point(1.0, asked)).chain(beyond).collect()
    }

    pub fn sensitivity(&self) -> Vec<Sensitivity> {
        let at = |service: f64| {
            let fit = self.fit.times(service);
            let prediction = self.predict(&fit, self.load.clone().holding(service), FEW);
            let value = predicted(self.objective.figure, &prediction)?.middle;
            Some(Sensitivity { service, value, holds: self.objective.holds(value) })
        };
        SERVICES.into_iter().filter_map(at).collect()
    }

    /// Returns the headroom; an error if the highest rate that meets the objective is below the planned rate.
    pub fn room(&self) -> Result<Headroom, String> {
        if self.holds(self.load.clone(), By::Middle) {
            return Ok(self.headroom());
        }
        let below = LOWER.into_iter().find(|factor| self.holds(self.load.clone().times(*factor), By::Middle));
        let below = below.ok_or("no load is certain to meet the objective")?;
        let factor = self.last_that_holds(below, By::Middle).factor;
        let limit = match self.load.is_closed() {
            true => format!("{} clients", self.load.clone().times(factor).sessions()),
            false => format!("{}/s", number(factor * self.load.rate())),
        };
        Err(format!("the limit is about {limit}, below the requested load"))
    }

    /// Returns the headroom, given that the planned rate meets the objective.
    fn headroom(&self) -> Headroom {
        let middle = self.last_that_holds(1.0, By::Middle);
        let low = LOWER.into_iter().find(|factor| self.holds(self.load.clone().times(*factor), By::All));
        let low = low.map(|factor| self.last_that_holds(factor, By::All));
        let high = self.last_that_holds(middle.factor, By::Any);
        let rate = |last: Last| self.load.rate() * last.factor;
        let clients = self.load.is_closed().then(|| self.load.clone().times(middle.factor).sessions());
        Headroom {
            clients,
            rate: rate(middle),
            factor: middle.factor,
            at_least: middle.is_open,
            low: low.map(rate),
            high: Some(high).filter(|high| !high.is_open).map(rate),
        }
    }

    /// Returns the largest rate multiplier at which the objective is met; `from` must meet the objective.
    fn last_that_holds(&self, from: f64, by: By) -> Last {
        let keeps_at = |factor: f64| self.keeps_at(self.load.clone().times(factor), by);
        let (mut holds, mut breaks) = (from, 2.0 * from);
        // Whether the objective is known to be missed at the factor `breaks`.
        let mut is_known = loop {
            if self.load.is_closed() && breaks > CLIENTS_MOST {
                return Last { factor: holds, is_open: true };
            }
            let is_last = !self.load.is_closed() && self.fit.beyond(self.load.rate() * breaks).is_some();
            if is_last {
                breaks = self.fit.rate_at_most() / self.load.rate();
            }
            if breaks <= holds {
                return Last { factor: holds, is_open: true };
            }
            match keeps_at(breaks) {
                Some(true) if is_last => return Last { factor: breaks, is_open: true },
                Some(true) => (holds, breaks) = (breaks, 2.0 * breaks),
                other => break other.is_some(),
            }
        };
        for _ in 0..STEPS {
            let middle: f64 = (holds * breaks).sqrt();
            match keeps_at(middle) {
                Some(true) => holds = middle,
                other => (breaks, is_known) = (middle, other.is_some()),
            }
        }
        match is_known {
            true => Last { factor: (holds * breaks).sqrt(), is_open: false },
            false => Last { factor: holds, is_open: true },
        }
    }

    /// Returns a rough prediction for a load, from a few simulations.
    pub fn about(&self, load: PlannedLoad) -> Prediction {
        self.predict(self.fit, load, FEW)
    }

    /// Returns the smallest number of locks that meets the objective, between the planned number and `most`
    /// times that number.
    pub fn fewest_locks(&self, most: usize) -> Option<usize> {
        let few = Search { effort: Effort { for_curve: FEW, ..self.effort }, ..*self };
        match few.holds(self.load.clone(), By::Middle) {
            true => Some(self.load.locks()),
            false => few.spread_over(most),
        }
    }

    /// Returns the smallest number of locks above the planned number that meets the objective.
    pub fn spread_over(&self, most: usize) -> Option<usize> {
        let asked = self.load.locks();
        let holds = |locks: usize| self.holds(self.load.clone().over(locks), By::Middle);
        // The number of locks held at any time is a lower bound.
        let least = self.load.held().map_or(0, |held| held.ceil() as usize).max(asked);
        let mut enough = 2 * least;
        while !holds(enough) {
            enough *= 2;
            if enough > most * least {
                return None;
            }
        }
        let mut too_few = (enough / 2).max(least);
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            if holds(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }
}

/// Estimates the number of waiters at the busiest lock, whose demand is `uneven` times the mean. Assumes
/// single-server queues and an equal load on the other locks; an uneven load on these would lower the
/// estimate.
fn at_the_busiest(prediction: &Prediction, locks: usize, uneven: f64) -> f64 {
    let (all, locks) = (prediction.waiting.middle, locks as f64);
    if locks <= 1.0 {
        return all;
    }
    let length = |busy: f64| {
        let busy = busy.clamp(0.001, 0.999);
        busy * busy / (1.0 - busy)
    };
    let busy = prediction.utilisation.middle;
    let busiest = length(busy * uneven);
    let others = (locks - 1.0) * length(busy * (locks - uneven) / (locks - 1.0));
    all * busiest / (busiest + others)
}
