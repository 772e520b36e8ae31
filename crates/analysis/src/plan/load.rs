//! A load for the simulation, with the same arrivals as in the load generator.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::model::{Coming, LoadCase};
use zklockbench_core::clock::micros;
use zklockbench_core::units::{number, percent};
use zklockbench_scenario::{
    Arrivals, ClientKind, Distribution, Load, Open, Replay, Step, Stop, TraceArrival, TrialSpec, schedule,
};
use zklockbench_stats::queueing::{AlikeClients, Arrival, Empirical, Order};

/// Number of arrivals in a simulation, and in a trial that verifies a percentile.
pub const SIMULATED: f64 = 20_000.0;

/// Multiple of the arrivals above which only the busiest part of a load with a changing rate is simulated.
const CHANGING: f64 = 2.0;
pub const BUSIEST: usize = (CHANGING * SIMULATED) as usize;
/// Number of pieces into which a load is divided to find its busiest part.
const PIECES: u32 = 1_000;

/// Smallest ratio of the busiest lock's demand to the mean demand that counts as uneven.
pub(super) const UNEVEN: f64 = 1.05;

/// Load of a trial, for a strategy with this queue order.
#[derive(Debug, Clone)]
pub struct PlannedLoad {
    spec: TrialSpec,
    order: Order,
    /// Whether only the mean of the holds is known.
    knows_mean_only: bool,
}

impl PlannedLoad {
    /// Returns the load of an open or closed trial with a fixed duration; `None` for other trials.
    pub fn of(spec: &TrialSpec, order: Order) -> Option<Self> {
        let is_fixed = matches!(spec.stop, Stop::After(_)) && spec.load != Load::Batch;
        is_fixed.then(|| Self { spec: spec.clone(), order, knows_mean_only: false }.in_order(order))
    }

    /// Returns the same load with the arrivals of `asked` if that is a replay, because results do not contain
    /// replayed arrivals.
    pub fn replaying(mut self, asked: &Self) -> Self {
        if let (Load::Open(open), Some(asked)) = (&mut self.spec.load, asked.spec.load.open())
            && matches!(asked.arrivals, Arrivals::Replay(_))
        {
            open.arrivals = asked.arrivals.clone();
        }
        self
    }

    pub fn knowing_mean_only(self) -> Self {
        Self { knows_mean_only: true, ..self }
    }

    /// Returns the same load with exponentially distributed holds, if only their mean is known.
    pub fn varied(&self) -> Option<Self> {
        let mean = self.spec.mean_hold();
        self.knows_mean_only.then(|| {
            let spec = TrialSpec { hold: Distribution::Exponential { mean }, ..self.spec.clone() };
            Self { spec, knows_mean_only: false, ..self.clone() }
        })
    }

    /// Returns the same load with this queue order, unless its requests do not queue.
    pub fn in_order(self, order: Order) -> Self {
        let order = if self.only_tries() { Order::Tries } else { order };
        Self { order, ..self }
    }

    /// Returns whether requests give up at once if the lock is taken.
    pub fn only_tries(&self) -> bool {
        self.spec.only_tries()
    }

    /// Returns the same load, lasting until this many requests have arrived. A load with a changing rate keeps its
    /// length, because another length would have other rates. If such a load has many more arrivals, only its
    /// busiest part is used.
    pub fn with_arrivals(mut self, count: f64) -> Self {
        if self.is_changing() {
            return self.busiest((CHANGING * count) as usize).unwrap_or(self);
        }
        let seconds = (count / self.rate().max(1e-6)).clamp(1.0, 1e8);
        self.spec.warm_up = Duration::from_secs_f64(0.02 * seconds);
        self.spec.stop = Stop::After(Duration::from_secs_f64(seconds));
        self
    }

    /// Returns whether the load consists of returning clients instead of arrivals.
    pub fn is_closed(&self) -> bool {
        self.spec.load == Load::Closed
    }

    /// Returns the same load with the rate (or, if closed, the number of clients) multiplied by this factor.
    pub fn times(mut self, factor: f64) -> Self {
        let lasts = self.lasts();
        if self.is_closed() {
            self.spec.contenders = ((self.spec.contenders as f64 * factor).round() as usize).max(1);
        }
        if let Load::Open(open) = &mut self.spec.load {
            match &open.arrivals {
                // Arrivals from a file are compressed in time.
                Arrivals::Replay(_) => {
                    open.arrivals = open.arrivals.clone().scaled(1.0 / factor);
                    self.spec.stop = Stop::After(lasts.div_f64(factor));
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

    /// Returns the same load with holds multiplied by this factor.
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

    /// Returns the demand on the busiest lock relative to the mean over all locks.
    pub fn unevenness(&self) -> f64 {
        (self.spec.hottest_share() * self.spec.locks as f64).max(1.0)
    }

    /// Returns whether a trial had exactly this load.
    pub fn is_of(&self, spec: &TrialSpec) -> bool {
        let alike = |one: &TrialSpec| {
            (
                one.load.clone(),
                one.locks,
                one.hold.clone(),
                one.think.clone(),
                one.clients.clone(),
                one.contenders,
                one.fresh_locks,
                one.acquire_timeout,
                one.read_ratio,
                one.depth,
            )
        };
        // Part of a load with a changing rate has other rates than the whole load.
        let is_whole = !self.is_changing() || self.spec.stop == spec.stop;
        alike(&self.spec) == alike(spec) && spec.faults.is_empty() && is_whole
    }

    /// Returns the holds, shortened to at most this mean.
    pub fn holds_at_most(&self, most: Duration) -> Distribution {
        let holds = self.spec.all_holds();
        let mean = holds.mean();
        if mean <= most { holds } else { holds.scaled(most.as_secs_f64() / mean.as_secs_f64()) }
    }

    /// Returns the average number of locks held at a time, excluding handoffs; `None` for a closed load.
    pub fn held(&self) -> Option<f64> {
        (!self.is_closed()).then(|| self.rate() * self.spec.mean_hold().as_secs_f64())
    }

    /// Estimates the mean number of sessions that hold or wait, for equal locks and random arrivals
    /// (Pollaczek-Khinchine); infinite if the locks are too slow. `None` for a closed load.
    pub fn in_use(&self, handoff: Duration) -> Option<f64> {
        let service = (self.spec.mean_hold() + handoff).as_secs_f64();
        let served = self.held()? + self.rate() * handoff.as_secs_f64();
        let busy = served / self.locks() as f64;
        let variance = drawn(&self.spec.all_holds()).relative_variance();
        let wait =
            if busy < 1.0 { service * busy * (1.0 + variance) / (2.0 * (1.0 - busy)) } else { f64::INFINITY };
        Some(served + self.rate() * wait)
    }

    /// Explains why holds alone exceed the capacity, even with an instant lock; `None` if they do not, if the
    /// rate changes, because such a load may exceed the capacity for a while, or if requests do not wait.
    pub fn impossible(&self) -> Option<String> {
        let held = self.held().filter(|_| !self.is_changing() && !self.only_tries())?;
        let busiest = held * self.unevenness() / self.locks() as f64;
        if busiest >= 1.0 {
            return Some(format!(
                "{} would be held for {} of the time, even without handoffs",
                if self.unevenness() > UNEVEN { "the busiest lock" } else { "each lock" },
                percent(busiest)
            ));
        }
        let clients = self.sessions();
        (held >= clients as f64).then(|| {
            format!(
                "{} locks would be held at any time, but there are only {clients} clients to hold them",
                number(held)
            )
        })
    }

    pub fn lasts(&self) -> Duration {
        match self.spec.stop {
            Stop::After(lasts) => lasts,
            Stop::Acquisitions(_) => Duration::ZERO,
        }
    }

    /// Returns whether the arrivals have a constant rate that can be multiplied.
    pub fn is_stationary(&self) -> bool {
        self.spec.load.open().is_some_and(|open| open.arrivals.is_stationary())
    }

    /// Returns whether the rate of the arrivals changes, so that waits depend on the length of the load.
    pub fn is_changing(&self) -> bool {
        !self.is_closed() && !self.is_stationary()
    }

    /// Returns the busiest part of a load with a changing rate, if the load has more than `most` arrivals.
    pub fn busiest(&self, most: usize) -> Option<Self> {
        let is_long = self.is_changing() && self.rate() * self.lasts().as_secs_f64() > most as f64;
        let open = self.spec.load.open().filter(|_| is_long)?;
        let (arrivals, lasts) = match &open.arrivals {
            Arrivals::Replay(replay) => {
                // A file may continue after the end of the load.
                let all = replay.trace.partition_point(|one| one.at_us < micros(self.lasts()));
                let part = shortest(all, most, |at| replay.trace[at].at_us as f64);
                let from = replay.trace[part.start].at_us;
                let earlier = |one: &TraceArrival| TraceArrival { at_us: one.at_us - from, ..*one };
                let trace: Arc<[_]> = replay.trace[part].iter().map(earlier).collect();
                let replay = Replay { count: trace.len(), trace, ..replay.clone() };
                let lasts = replay.lasts();
                (Arrivals::Replay(replay), lasts)
            }
            changing => {
                let piece = self.lasts() / PIECES;
                let until: Vec<f64> =
                    (0..=PIECES).map(|at| changing.arrivals_until(piece * at, self.lasts())).collect();
                let enough = |from: usize| until.partition_point(|count| *count < until[from] + most as f64);
                let ends = (0..until.len()).map(|from| (from, enough(from)));
                let ends = ends.filter(|(_, to)| *to < until.len());
                let (from, to) = ends.min_by_key(|(from, to)| to - from)?;
                let rate = |pair: &[f64]| (pair[1] - pair[0]) / piece.as_secs_f64();
                let steps = until[from..=to].windows(2).map(|pair| Step { rate: rate(pair), lasts: piece });
                let steps: Vec<Step> = steps.collect();
                let lasts = piece * u32::try_from(steps.len()).unwrap_or(PIECES);
                (Arrivals::Steps(steps), lasts)
            }
        };
        let mut spec = self.spec.clone();
        spec.load = Load::Open(Open { arrivals, ..open.clone() });
        spec.stop = Stop::After(lasts);
        Some(Self { spec, ..self.clone() })
    }

    /// Returns the arrivals per second. For a closed load, the maximum that think times, holds and locks
    /// permit.
    pub fn rate(&self) -> f64 {
        match self.spec.load.open() {
            Some(open) => open.arrivals.mean_rate(self.lasts()),
            None => most_acquisitions(&self.spec, Duration::ZERO),
        }
    }

    /// Returns an upper bound on the acquisitions per second of a closed load with this handoff time.
    pub fn served_at_most(&self, handoff: Duration) -> f64 {
        most_acquisitions(&self.spec, handoff)
    }

    /// Calls `then` with the model's input: the trial's own arrivals, or different ones for each seed.
    pub fn with_case<T>(&self, is_its_own: bool, then: impl FnOnce(&LoadCase<'_>) -> T) -> T {
        let warm_up = self.spec.warm_up;
        let whole = warm_up + self.lasts();
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

/// Returns the range of `count` consecutive arrivals, out of `all`, that spans the shortest time.
fn shortest(all: usize, count: usize, at: impl Fn(usize) -> f64) -> Range<usize> {
    let count = count.clamp(1, all.max(1));
    let takes = |from: &usize| at(from + count - 1) - at(*from);
    let from = (0..=all.saturating_sub(count)).min_by(|one, other| takes(one).total_cmp(&takes(other)));
    let from = from.unwrap_or(0);
    from..(from + count).min(all)
}

/// Returns an upper bound on the acquisitions per second of a closed load, if each cycle lasts `longer`
/// beyond its think time and hold, and half of that extra time occupies the lock.
fn most_acquisitions(spec: &TrialSpec, longer: Duration) -> f64 {
    let by_kind = spec.kinds().into_iter().zip(spec.contenders_by_kind());
    let turn = |kind: &ClientKind| (kind.hold.mean() + kind.think.mean() + longer).as_secs_f64().max(1e-6);
    let by_clients: f64 = by_kind.map(|(kind, count)| count as f64 / turn(&kind)).sum();
    by_clients.min(spec.locks as f64 / (spec.mean_hold() + longer / 2).as_secs_f64().max(1e-6))
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

/// Draws samples from a distribution, in microseconds.
fn drawn(distribution: &Distribution) -> Empirical {
    const VALUES: usize = 10_000;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let values: Vec<f64> = (0..VALUES).map(|_| 1e6 * distribution.sample(&mut rng).as_secs_f64()).collect();
    Empirical::of_values(&values).unwrap_or_else(|| Empirical::fixed(0.0))
}
