//! A load as the simulation takes it: the arrivals that the generator itself would draw.

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::model::{Coming, LoadCase};
use zklockbench_core::clock::micros;
use zklockbench_scenario::{Arrivals, ClientKind, Distribution, Stop, TrialSpec, schedule};
use zklockbench_stats::queueing::{AlikeClients, Arrival, Empirical, Order};

/// So many arrivals are simulated at a time, and so many a trial takes that is to verify a percentile.
pub const SIMULATED: f64 = 20_000.0;

/// The load of a trial, for a strategy that has that order.
#[derive(Debug, Clone)]
pub struct PlannedLoad {
    spec: TrialSpec,
    order: Order,
    lasts: Duration,
    /// Of the holds nothing but the mean is known.
    knows_mean_only: bool,
}

impl PlannedLoad {
    /// Of a trial of an open or a closed load that ends by the clock; `None` of any other.
    pub fn of(spec: &TrialSpec, order: Order) -> Option<Self> {
        let Stop::After(lasts) = spec.stop else { return None };
        if spec.load == zklockbench_scenario::Load::Batch {
            return None;
        }
        Some(Self { spec: spec.clone(), order, lasts, knows_mean_only: false })
    }

    /// The same, of whose holds nothing but the mean is known.
    pub fn knowing_mean_only(self) -> Self {
        Self { knows_mean_only: true, ..self }
    }

    /// The same with holds as variable as an exponential's, where nothing but their mean is known.
    pub fn varied(&self) -> Option<Self> {
        let mean = self.spec.mean_hold();
        self.knows_mean_only.then(|| {
            let spec = TrialSpec { hold: Distribution::Exponential { mean }, ..self.spec.clone() };
            Self { spec, knows_mean_only: false, ..self.clone() }
        })
    }

    pub fn in_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// The same for as long as it takes that many to arrive.
    pub fn with_arrivals(mut self, count: f64) -> Self {
        // A file of arrivals has as many as it has.
        if self.spec.load.open().is_some_and(|open| matches!(open.arrivals, Arrivals::Replay(_))) {
            return self;
        }
        let seconds = (count / self.rate().max(1e-6)).clamp(1.0, 1e8);
        self.lasts = Duration::from_secs_f64(seconds);
        self.spec.warm_up = Duration::from_secs_f64(0.02 * seconds);
        self.spec.stop = Stop::After(self.lasts);
        self
    }

    /// Whether it is one of clients that come back some time after their release, and not of arrivals.
    pub fn is_closed(&self) -> bool {
        self.spec.load == zklockbench_scenario::Load::Closed
    }

    /// The same with so many times the rate or, of a closed one, the clients.
    pub fn times(mut self, factor: f64) -> Self {
        if self.is_closed() {
            self.spec.contenders = ((self.spec.contenders as f64 * factor).round() as usize).max(1);
        }
        if let zklockbench_scenario::Load::Open(open) = &mut self.spec.load {
            match &open.arrivals {
                // What a file says comes as often in less time.
                Arrivals::Replay(_) => {
                    open.arrivals = open.arrivals.clone().scaled(1.0 / factor);
                    self.lasts = self.lasts.div_f64(factor);
                    self.spec.stop = Stop::After(self.lasts);
                }
                _ => open.arrivals = open.arrivals.clone().times(factor),
            }
        }
        self
    }

    pub fn with_sessions(mut self, sessions: usize) -> Self {
        self.spec.contenders = sessions;
        self
    }

    pub fn sessions(&self) -> usize {
        self.spec.contenders
    }

    pub fn over(mut self, locks: usize) -> Self {
        self.spec.locks = locks;
        self
    }

    /// The same with holds so many times as long.
    pub fn holding(mut self, factor: f64) -> Self {
        self.spec.hold = self.spec.hold.scaled(factor);
        for kind in &mut self.spec.clients {
            kind.hold = kind.hold.scaled(factor);
        }
        self
    }

    pub fn locks(&self) -> usize {
        self.spec.locks
    }

    /// How many times as much is asked of the busiest lock as of one on average.
    pub fn unevenness(&self) -> f64 {
        (self.spec.hottest_share() * self.spec.locks as f64).max(1.0)
    }

    /// Arrivals a second; of a closed load the most there can be, since a client thinks and holds, and a lock has one holder.
    pub fn rate(&self) -> f64 {
        match self.spec.load.open() {
            Some(open) => open.arrivals.mean_rate(self.lasts),
            None => most_acquisitions(&self.spec),
        }
    }

    /// Has something done with it as the model takes it: with the arrivals of the trial, or others for each simulation.
    pub fn with_case<T>(&self, is_its_own: bool, then: impl FnOnce(&LoadCase<'_>) -> T) -> T {
        let warm_up = self.spec.warm_up;
        let whole = warm_up + self.lasts;
        let draw = |seed: u64| {
            let seed = if is_its_own { self.spec.seed } else { seed };
            let spec = TrialSpec { seed, ..self.spec.clone() };
            let of = |one: schedule::Arrival| Arrival {
                at: one.at_us as f64,
                lock: one.lock,
                hold: 1e6 * one.hold.as_secs_f64(),
            };
            schedule::draw(&spec, whole).into_iter().map(of).collect()
        };
        let coming = match self.is_closed() {
            true => Coming::Clients(alike(&self.spec)),
            false => Coming::Arrivals(&draw),
        };
        then(&LoadCase {
            coming,
            locks: self.spec.locks,
            sessions: self.spec.contenders,
            rate: self.rate(),
            from: micros(warm_up) as f64,
            to: micros(whole) as f64,
            order: self.order,
        })
    }
}

/// How many acquisitions a second the clients of a closed load come to at most, with locks that take no time.
fn most_acquisitions(spec: &TrialSpec) -> f64 {
    let by_kind = spec.kinds().into_iter().zip(spec.contenders_by_kind());
    let turn = |kind: &ClientKind| (kind.hold.mean() + kind.think.mean()).as_secs_f64().max(1e-6);
    let by_clients: f64 = by_kind.map(|(kind, count)| count as f64 / turn(&kind)).sum();
    by_clients.min(spec.locks as f64 / spec.mean_hold().as_secs_f64().max(1e-6))
}

fn alike(spec: &TrialSpec) -> Vec<AlikeClients> {
    let by_kind = spec.kinds().into_iter().zip(spec.contenders_by_kind());
    let of = |(kind, count): (ClientKind, usize)| AlikeClients {
        count,
        think: drawn(&kind.think),
        hold: drawn(&kind.hold),
    };
    by_kind.map(of).collect()
}

/// A distribution as many of its values, in microseconds.
fn drawn(distribution: &Distribution) -> Empirical {
    const VALUES: usize = 10_000;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let values: Vec<f64> = (0..VALUES).map(|_| 1e6 * distribution.sample(&mut rng).as_secs_f64()).collect();
    Empirical::of_values(&values).unwrap_or_else(|| Empirical::fixed(0.0))
}
