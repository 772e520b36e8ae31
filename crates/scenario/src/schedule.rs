//! Arrivals of an open load, all determined before the load starts. The same seed gives the same arrivals on
//! any host.
//!
//! With several workers, each worker draws the whole load and keeps its [`Slice`], so that the slices add up
//! to the load of a single worker. `docs/workloads.md` has the formulas.

use std::f64::consts::TAU;
use std::fmt;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};

use super::model::KindDraw;
use super::{Arrivals, Open, Popularity, Shares, Stop, TraceArrival, TrialSpec};
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Due time, in microseconds after the load's start.
    pub at_us: u64,
    /// Index of the requested lock.
    pub lock: usize,
    pub mode: Mode,
    pub hold: Duration,
}

/// Purposes of random numbers; each purpose has an independent stream.
#[derive(Clone, Copy)]
enum Purpose {
    Gap = 1,
    Lock = 2,
    Hold = 3,
    Mode = 4,
    Rank = 5,
    /// Lengths of bursts and of the pauses between them.
    Burst = 6,
    /// Acceptance of candidates at a changing rate.
    Thinning = 7,
    Kind = 8,
}

pub type Coming = Box<dyn Iterator<Item = Arrival> + Send>;

/// Returns all arrivals of a trial that are due within `lasts` of the start of the warm-up, in order of time.
/// Arrivals are drawn on demand. Loads other than open loads have none.
///
/// A stationary process spans the warm-up and the measured phase. Other processes start after the warm-up,
/// during which arrivals come at the first rate or, for a replay, not at all.
pub fn coming(spec: &TrialSpec, lasts: Duration) -> Coming {
    let Some(open) = spec.load.open() else { return Box::new(std::iter::empty()) };
    let wanted = wanted(spec, open, lasts);
    let locks = Locks::new(spec, open.popularity);
    let (mut which, mut holds, mut modes) = (
        stream(spec.seed, Purpose::Lock),
        stream(spec.seed, Purpose::Hold),
        stream(spec.seed, Purpose::Mode),
    );
    let mut kinds = KindDraw::new(spec.kinds(), stream(spec.seed, Purpose::Kind));
    Box::new(wanted.map(move |wanted| {
        // Draw every value even if the file specifies it, so that later draws do not depend on the file.
        let kind = kinds.next();
        let (lock, hold) = (locks.draw(&mut which), kind.hold.sample(&mut holds));
        let reads = modes.random::<f64>() < kind.read_ratio;
        Arrival {
            at_us: wanted.at_us,
            lock: wanted.lock.unwrap_or(lock),
            mode: wanted.mode.unwrap_or(if reads { Mode::Read } else { Mode::Write }),
            hold: wanted.hold.unwrap_or(hold),
        }
    }))
}

pub fn draw(spec: &TrialSpec, lasts: Duration) -> Vec<Arrival> {
    coming(spec, lasts).collect()
}

/// Returns the arrivals with their times and, for a replay, the values from the file.
fn wanted(spec: &TrialSpec, open: &Open, lasts: Duration) -> Box<dyn Iterator<Item = TraceArrival> + Send> {
    let end = lasts.as_secs_f64();
    let times: Box<dyn Iterator<Item = u64> + Send> = match &open.arrivals {
        Arrivals::Replay(replay) => {
            let (from, end) = (clock::micros(spec.warm_up), clock::micros(lasts));
            let trace = std::sync::Arc::clone(&replay.trace);
            let of = move |number: usize| {
                let arrival = trace.get(number)?;
                Some(TraceArrival { at_us: from + arrival.at_us, ..*arrival })
            };
            return Box::new((0..).map_while(of).take_while(move |arrival| arrival.at_us < end));
        }
        Arrivals::Constant { rate } => Box::new(evenly(*rate, lasts)),
        Arrivals::Bursts { rate, peak, length } => Box::new(bursts(*rate, *peak, *length, lasts, spec.seed)),
        Arrivals::Poisson { rate } => {
            Box::new(changing(vec![Stretch::flat(0.0, end, *rate)], end, spec.seed))
        }
        Arrivals::Day { .. } | Arrivals::Ramp { .. } | Arrivals::Steps(_) => {
            Box::new(changing(stretches(spec, &open.arrivals, end), end, spec.seed))
        }
    };
    Box::new(times.map(|at_us| TraceArrival { at_us, lock: None, hold: None, mode: None }))
}

fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut seeds = ChaCha8Rng::seed_from_u64(seed);
    seeds.set_stream(1 << 62);
    let mut rng = ChaCha8Rng::seed_from_u64(seeds.next_u64());
    rng.set_stream(purpose as u64);
    rng
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    Exp1.sample(rng)
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn evenly(rate: f64, lasts: Duration) -> impl Iterator<Item = u64> + Send {
    let (gap_us, end) = (1e6 / rate, clock::micros(lasts));
    (0_u64..).map(move |number| (number as f64 * gap_us) as u64).take_while(move |at| *at < end)
}

/// Returns an interrupted Poisson process with this mean rate, and `peak` times that rate in bursts. Bursts
/// have the mean `length`; bursts and pauses are exponential. The process starts in a burst with a
/// probability equal to the bursts' share of the time.
fn bursts(
    mean: f64,
    peak: f64,
    length: Duration,
    lasts: Duration,
    seed: u64,
) -> impl Iterator<Item = u64> + Send {
    // Rates at which bursts end (per second of burst) and start (per second of pause).
    let ends = 1.0 / length.as_secs_f64().max(1e-9);
    let (rate, begins) = (mean * peak, ends / (peak - 1.0).max(f64::EPSILON));
    let (mut gaps, mut states) = (stream(seed, Purpose::Gap), stream(seed, Purpose::Burst));
    let end = lasts.as_secs_f64();
    let mut within = states.random::<f64>() < begins / (begins + ends);
    let mut from = 0.0;
    let mut burst: Option<Candidates> = None;
    std::iter::from_fn(move || {
        loop {
            if let Some(at) = burst.as_mut().and_then(|burst| burst.next(&mut gaps)) {
                return Some(micros(at));
            }
            burst = None;
            if from >= end {
                return None;
            }
            let leaves = if within { ends } else { begins };
            let to = (from + exponential(&mut states) / leaves).min(end);
            burst = within.then_some(Candidates { at: from, to, rate });
            (from, within) = (to, !within);
        }
    })
}

/// All arrivals of a Poisson process with this rate between two times, in seconds.
struct Candidates {
    at: f64,
    to: f64,
    rate: f64,
}

impl Candidates {
    fn next(&mut self, gaps: &mut ChaCha8Rng) -> Option<f64> {
        // At a rate of 0, the gap is infinite.
        self.at += exponential(gaps) / self.rate;
        (self.at < self.to).then_some(self.at)
    }
}

/// A period with a single formula for the rate. Times are in seconds from the start of the load.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: f64,
    to: f64,
    highest: f64,
    rate: Rate,
}

/// Arrivals per second, as a function of the time since the start of a stretch.
#[derive(Debug, Clone, Copy)]
enum Rate {
    Flat,
    Sine { mean: f64, amplitude: f64, period: f64 },
    Line { from: f64, to: f64 },
}

impl Stretch {
    fn flat(from: f64, to: f64, rate: f64) -> Self {
        Self { from, to, highest: rate, rate: Rate::Flat }
    }

    fn rate_at(&self, at: f64) -> f64 {
        let since = at - self.from;
        match self.rate {
            Rate::Flat => self.highest,
            Rate::Sine { mean, amplitude, period } => mean * (1.0 + amplitude * (TAU * since / period).sin()),
            Rate::Line { from, to } => from + (to - from) * (since / (self.to - self.from)).min(1.0),
        }
    }
}

/// Thins candidates (Lewis and Shedler), which arrive at the highest rate of their stretch. Each candidate is
/// kept with a probability equal to the current rate divided by the highest rate. Candidates end at `end`.
fn changing(stretches: Vec<Stretch>, end: f64, seed: u64) -> impl Iterator<Item = u64> + Send {
    let (mut gaps, mut thinning) = (stream(seed, Purpose::Gap), stream(seed, Purpose::Thinning));
    let of = move |stretch: Stretch| {
        (Candidates { at: stretch.from, to: stretch.to.min(end), rate: stretch.highest }, stretch)
    };
    let mut left = stretches.into_iter().map(of);
    let mut current = left.next();
    std::iter::from_fn(move || {
        loop {
            let (candidates, stretch) = current.as_mut()?;
            match candidates.next(&mut gaps) {
                None => current = left.next(),
                Some(at) if thinning.random::<f64>() * stretch.highest < stretch.rate_at(at) => {
                    return Some(micros(at));
                }
                Some(_) => {}
            }
        }
    })
}

/// Returns the warm-up at the first rate, then the changing part and, if that part ends early, a stretch at
/// the last rate.
fn stretches(spec: &TrialSpec, arrivals: &Arrivals, end: f64) -> Vec<Stretch> {
    let begin = spec.warm_up.as_secs_f64().min(end);
    let mut stretches = vec![Stretch::flat(0.0, begin, arrivals.first_rate())];
    match arrivals {
        Arrivals::Day { rate, amplitude, period } => {
            let sine =
                Rate::Sine { mean: *rate, amplitude: *amplitude, period: period.as_secs_f64().max(1e-9) };
            stretches.push(Stretch { from: begin, to: end, highest: rate * (1.0 + amplitude), rate: sine });
        }
        Arrivals::Ramp { from, to } => {
            let over = match spec.stop {
                Stop::After(measured) => begin + measured.as_secs_f64(),
                Stop::Acquisitions(_) => end,
            };
            let line = Rate::Line { from: *from, to: *to };
            stretches.push(Stretch { from: begin, to: over, highest: from.max(*to), rate: line });
            stretches.push(Stretch::flat(over, end, *to));
        }
        Arrivals::Steps(steps) => {
            let mut from = begin;
            for step in steps {
                let to = from + step.lasts.as_secs_f64();
                stretches.push(Stretch::flat(from, to, step.rate));
                from = to;
            }
            stretches.extend(steps.last().map(|last| Stretch::flat(from, end, last.rate)));
        }
        _ => {}
    }
    stretches.retain(|stretch| stretch.from < stretch.to);
    stretches
}

struct Locks {
    /// Shares of the arrivals by rank, and the lock at each rank; `None` if all locks are equally popular.
    ranks: Option<(Shares, Vec<usize>)>,
    count: usize,
}

/// Returns `count` locks by rank, the most popular first, in an order drawn from the seed.
pub fn ranked(seed: u64, count: usize) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..count).collect();
    ranked.shuffle(&mut stream(seed, Purpose::Rank));
    ranked
}

impl Locks {
    fn new(spec: &TrialSpec, popularity: Popularity) -> Self {
        let count = spec.locks.max(1);
        let ranks = match popularity {
            Popularity::Uniform => None,
            Popularity::Zipf(power) => Some((Shares::zipf(count, power), ranked(spec.seed, count))),
        };
        Self { ranks, count }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> usize {
        match &self.ranks {
            None => rng.random_range(0..self.count),
            Some((shares, ranked)) => ranked[shares.at(rng.random())],
        }
    }
}

/// Every `of`-th contender, arrival and fault, starting at `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub index: usize,
    pub of: usize,
}

impl Slice {
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    pub fn has(self, ordinal: usize) -> bool {
        ordinal % self.of == self.index
    }

    /// Returns this worker's ordinals below `count`, in ascending order.
    pub fn below(self, count: usize) -> impl Iterator<Item = usize> + Clone {
        (self.index..count).step_by(self.of)
    }

    /// Returns whether other workers generate the rest of the load.
    pub fn is_part(self) -> bool {
        self.of > 1
    }

    /// Returns whether this worker performs one-time tasks, such as preparing and removing nodes.
    pub fn leads(self) -> bool {
        self.index == 0
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of {}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_ordinal_belongs_to_exactly_one_worker(of in 1..9_usize, count in 0..100_usize) {
            let slices = (0..of).map(|index| Slice { index, of });
            let mut all: Vec<usize> = slices.clone().flat_map(|slice| slice.below(count)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
            for ordinal in 0..count {
                prop_assert_eq!(slices.clone().filter(|slice| slice.has(ordinal)).count(), 1);
            }
        }
    }
}
