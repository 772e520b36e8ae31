//! Predicts a load by simulating it many times, each time with a service that is consistent with the trials.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StudentT};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fit, Observation};
use zklockbench_stats::queueing::{
    AlikeClients, Arrival, Closed, Empirical, Handoff, Locks, Open, Order, STEP_US, SimulationOutcome,
    closed, open,
};

/// A metric with its 90 % interval, which may be asymmetric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predicted {
    /// Lower end: 5 % of the values are smaller.
    pub low: f64,
    /// Median.
    pub middle: f64,
    /// Upper end: 5 % of the values are larger.
    pub high: f64,
}

impl Predicted {
    /// Interval of a metric without a prediction.
    pub const NONE: Self = Self { low: f64::NAN, middle: f64::NAN, high: f64::NAN };

    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(last) = values.len().checked_sub(1) else {
            return Self::NONE;
        };
        // A new value lies beyond each end with a probability of 5 %.
        let beyond =
            ((0.05 * values.len().saturating_add(1) as f64) as usize).saturating_sub(1).min(last / 2);
        Self { low: values[beyond], middle: values[last / 2], high: values[last - beyond] }
    }

    pub fn times(self, factor: f64) -> Self {
        Self { low: factor * self.low, middle: factor * self.middle, high: factor * self.high }
    }

    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Source of requests. Times are in microseconds.
#[derive(Clone)]
pub enum Coming<'a> {
    /// Independent arrivals, different for each seed.
    Arrivals(&'a dyn Fn(u64) -> Vec<Arrival>),
    /// Clients, one for each session, that request a lock again some time after releasing it.
    Clients(Vec<AlikeClients>),
}

/// A load to predict. Times are in microseconds.
pub struct LoadCase<'a> {
    pub coming: Coming<'a>,
    pub locks: usize,
    pub sessions: usize,
    /// Arrivals per second, over all locks.
    pub rate: f64,
    /// Start of the window in which waits count.
    pub from: f64,
    pub to: f64,
    pub order: Order,
}

/// Prediction for a strategy. Waits are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Median wait.
    pub wait_p50: Predicted,
    /// 99th percentile of the wait.
    pub wait_p99: Predicted,
    /// 99.9th percentile of the wait.
    pub wait_p999: Predicted,
    /// Mean wait.
    pub wait_mean: Predicted,
    /// Acquisitions per second.
    pub throughput: Predicted,
    /// Share of the time that a lock is held or being handed over, averaged over the locks.
    pub utilisation: Predicted,
    /// Mean time from a release to the next acquisition.
    pub handoff: Predicted,
    /// Mean number of simultaneous waiters, over all locks.
    pub waiting: Predicted,
    /// Largest number of sessions in use at the same time.
    pub sessions: Predicted,
    /// Share of tries that acquire the lock. `None` if requests wait, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub won_share: Option<Predicted>,
    /// Share of simulations in which an arrival found no free session.
    pub pool_runs_out: f64,
    /// Number of simulations.
    pub simulations: usize,
}

pub fn predict(
    fit: &Fit,
    trials: &[Observation],
    case: &LoadCase<'_>,
    simulations: usize,
    seed: u64,
) -> Prediction {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let case = &settled(fit, trials, case, seed);
    let outcomes: Vec<(SimulationOutcome, f64)> = (0..simulations.max(1))
        .map(|_| {
            let locks = possible(fit, trials, case, &mut rng);
            let outcome = run(&locks, case, rng.random());
            let handoff = locks.handoff.mean(1.0 + outcome.waiting() / case.locks as f64);
            (outcome, handoff)
        })
        .collect();
    let of = |figure: &dyn Fn(&SimulationOutcome) -> f64| {
        Predicted::of(outcomes.iter().map(|(one, _)| figure(one)).collect())
    };
    let quantile = |quantile: f64| of(&|one: &SimulationOutcome| one.quantile(quantile).unwrap_or(0.0));
    let starved = outcomes.iter().filter(|(one, _)| one.starved > 0).count();
    Prediction {
        wait_p50: quantile(0.5),
        wait_p99: quantile(0.99),
        wait_p999: quantile(0.999),
        wait_mean: of(&|one| one.mean().unwrap_or(0.0)),
        throughput: of(&|one| 1e6 * one.throughput()),
        utilisation: of(&|one| one.utilisation(case.locks)),
        handoff: Predicted::of(outcomes.iter().map(|(_, handoff)| *handoff).collect()),
        waiting: of(&|one| one.waiting()),
        sessions: of(&|one| one.sessions as f64),
        won_share: (case.order == Order::Tries).then(|| of(&|one| one.won_share())),
        pool_runs_out: starved as f64 / outcomes.len() as f64,
        simulations: outcomes.len(),
    }
}

/// Returns the same load at its steady rate: returning clients cannot request locks faster than they are served.
fn settled<'a>(fit: &Fit, trials: &[Observation], case: &'a LoadCase<'a>, seed: u64) -> LoadCase<'a> {
    let rate = match &case.coming {
        Coming::Arrivals(_) => case.rate,
        Coming::Clients(_) => {
            let locks = possible(fit, trials, case, &mut ChaCha8Rng::seed_from_u64(seed));
            1e6 * run(&locks, case, seed).throughput()
        }
    };
    LoadCase { rate, coming: case.coming.clone(), ..*case }
}

/// Simulates a load with the service measured in one trial.
pub fn simulate(trial: &Observation, case: &LoadCase<'_>, seed: u64) -> SimulationOutcome {
    let handoff = Handoff { first: trial.handoff.mean(), ..shape(trial) };
    let mut locks = locks(trial, handoff, case, None);
    locks.pace = locks.pace.beginning(case.from);
    run(&locks, case, seed)
}

fn run(locks: &Locks, case: &LoadCase<'_>, seed: u64) -> SimulationOutcome {
    match &case.coming {
        Coming::Arrivals(draw) => {
            let arrivals = draw(seed);
            let load = Open { arrivals: &arrivals, sessions: case.sessions, from: case.from, to: case.to };
            open(locks, load, seed ^ 0x5eed)
        }
        Coming::Clients(clients) => {
            let acquisitions = (case.rate * (case.to - case.from) / 1e6).ceil() as usize;
            // Each client completes a few cycles during the warm-up.
            let warm_up = (acquisitions / 50).max(3 * case.sessions);
            let load = Closed { clients, acquisitions: acquisitions.max(1) + warm_up, warm_up };
            closed(locks, load, seed ^ 0x5eed)
        }
    }
}

/// Draws a service that is consistent with the trials. Its mean deviates from the fit as a new trial's mean
/// might, and its shape is taken from a trial under a similar load.
fn possible(fit: &Fit, trials: &[Observation], case: &LoadCase<'_>, rng: &mut ChaCha8Rng) -> Locks {
    let factor = error(fit, case.rate, rng);
    let near = near(trials, case.rate);
    let trial = near[rng.random_range(0..near.len())];
    let mean = fit.mean(1.0, case.rate) * factor;
    let each_more = fit.each_more.map_or(0.0, |part| part.us) * factor;
    let handoff = Handoff { first: mean, each_more, ..shape(trial) };
    let alone = near.iter().find_map(|one| one.uncontended.as_ref());
    let mut locks = locks(trial, handoff, case, alone);
    // Whatever makes handoffs slower than in the trial also slows the other steps down.
    let own = trial.handoff.mean() / fit.mean(trial.waiting, trial.rate).max(1e-9);
    let slower = mean / (fit.mean(1.0, trial.rate) * own).max(1e-9);
    locks.uncontended = locks.uncontended.scaled(slower);
    locks.release = locks.release.scaled(slower);
    locks.overshoot = locks.overshoot.scaled(slower);
    // Start the sequence of slow and fast seconds at a random position.
    let steps = locks.pace.steps().max(1);
    locks.pace = locks.pace.beginning(STEP_US * rng.random_range(0..steps) as f64);
    locks
}

/// Returns the shape of a trial's handoffs within a second; the pace covers the differences between seconds.
fn shape(trial: &Observation) -> Handoff {
    let (all, seconds) = (trial.handoff.relative_variance(), trial.pace.variance());
    Handoff::of(&trial.handoff.narrowed(((all - seconds) / (1.0 + seconds)).max(0.0)))
}

/// Draws the ratio of a new trial's handoff to the fit. The ratio follows Student's t on a logarithmic scale,
/// because the spread is only an estimate.
fn error(fit: &Fit, rate: f64, rng: &mut ChaCha8Rng) -> f64 {
    // The number of waiters is unknown before the simulation, so assume the measured maximum.
    let spread = fit.spread_at(fit.range.waiting_to, rate);
    let Ok(student) = StudentT::new(fit.freedom.max(1) as f64) else { return 1.0 };
    let drawn: f64 = student.sample(rng);
    (drawn.clamp(-4.0, 4.0) * spread).exp()
}

/// Returns the half of the trials with the most similar load.
fn near(trials: &[Observation], rate: f64) -> Vec<&Observation> {
    let mut sorted: Vec<&Observation> = trials.iter().collect();
    let distance = |one: &Observation| (one.rate.max(0.1) / rate.max(0.1)).ln().abs();
    sorted.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    sorted.truncate(trials.len().div_ceil(2));
    sorted
}

fn locks(trial: &Observation, handoff: Handoff, case: &LoadCase<'_>, alone: Option<&Empirical>) -> Locks {
    let alone = trial.uncontended.as_ref().or(alone).unwrap_or(&trial.handoff);
    // Returning clients have no schedule to miss.
    let late = trial.late.clone().filter(|_| matches!(case.coming, Coming::Arrivals(_)));
    Locks {
        count: case.locks,
        order: case.order,
        uncontended: alone.clone(),
        handoff,
        release: trial.release.clone(),
        overshoot: trial.overshoot.clone(),
        late: late.unwrap_or_else(|| Empirical::fixed(0.0)),
        pace: trial.pace.clone(),
    }
}
