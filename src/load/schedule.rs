//! The arrivals of an open load, all drawn before the load begins: the same seed gives the same arrivals, however fast the
//! lock or the host is.
//!
//! `docs/arrivals.md` has the formulas.

use std::f64::consts::TAU;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};

use crate::catalog::Mode;
use crate::clock;
use crate::scenario::{Arrivals, Open, Popularity, Step, TraceArrival, TrialSpec};

/// One arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it is due, in microseconds after the load's start.
    pub at_us: u64,
    /// The lock that it asks for, counted from 0.
    pub lock: usize,
    /// What it asks for.
    pub mode: Mode,
    /// How long it holds.
    pub hold: Duration,
}

/// What random numbers are for: each purpose has a stream of its own, so that none disturbs another.
#[derive(Clone, Copy)]
enum Purpose {
    Gap = 1,
    Lock = 2,
    Hold = 3,
    Mode = 4,
    /// Which lock is how popular.
    Rank = 5,
    /// How long bursts and the pauses between them last.
    Burst = 6,
    /// Which candidates a changing rate lets pass.
    Thinning = 7,
}

/// All arrivals of a trial that are due within this time from the load's start, which is that of the warm-up, by their
/// times. Empty for other loads.
///
/// A process that is the same at all times goes on from the warm-up into the measured phase. Any other begins when the
/// spec's warm-up is over, and before that arrivals come at its first rate; a replay has none there.
#[must_use]
pub fn draw(spec: &TrialSpec, lasts: Duration) -> Vec<Arrival> {
    let Some(open) = spec.load.open() else { return Vec::new() };
    let wanted = wanted(spec, open, lasts);
    let locks = Locks::new(spec, open.popularity);
    let (mut which, mut holds, mut modes) = (
        stream(spec.seed, Purpose::Lock),
        stream(spec.seed, Purpose::Hold),
        stream(spec.seed, Purpose::Mode),
    );
    let arrival = |wanted: TraceArrival| {
        // Drawn even where the file says it, so that what one arrival says leaves the others as they are.
        let (lock, hold) = (locks.draw(&mut which), spec.hold.sample(&mut holds));
        let reads = modes.random::<f64>() < spec.read_ratio;
        Arrival {
            at_us: wanted.at_us,
            lock: wanted.lock.unwrap_or(lock),
            mode: if reads { Mode::Read } else { Mode::Write },
            hold: wanted.hold.unwrap_or(hold),
        }
    };
    wanted.into_iter().map(arrival).collect()
}

/// The arrivals with what is known of each before anything else is drawn.
fn wanted(spec: &TrialSpec, open: &Open, lasts: Duration) -> Vec<TraceArrival> {
    let times = match &open.arrivals {
        Arrivals::Replay(replay) => {
            let (from, end) = (clock::micros(spec.warm_up), clock::micros(lasts));
            let put_off = |arrival: &TraceArrival| TraceArrival { at_us: from + arrival.at_us, ..*arrival };
            return replay.trace.iter().map(put_off).take_while(|arrival| arrival.at_us < end).collect();
        }
        Arrivals::Constant { rate } => evenly(*rate, lasts),
        Arrivals::Bursts { rate, peak, length } => {
            bursts(&Bursts::new(*rate, *peak, *length), lasts, spec.seed)
        }
        Arrivals::Poisson { rate } => changing(&[Stretch::flat(0.0, lasts.as_secs_f64(), *rate)], spec.seed),
        Arrivals::Day { .. } | Arrivals::Ramp { .. } | Arrivals::Steps(_) => {
            changing(&stretches(spec, &open.arrivals, lasts.as_secs_f64()), spec.seed)
        }
    };
    times.into_iter().map(|at_us| TraceArrival { at_us, lock: None, hold: None }).collect()
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

fn evenly(rate: f64, lasts: Duration) -> Vec<u64> {
    let gap_us = 1e6 / rate;
    (0_u64..)
        .map(|number| (number as f64 * gap_us) as u64)
        .take_while(|at| *at < clock::micros(lasts))
        .collect()
}

/// Bursts and pauses, both of exponential length; times in seconds, rates a second.
struct Bursts {
    /// Of arrivals within a burst.
    rate: f64,
    /// Of bursts ending, while there is one.
    ends: f64,
    /// Of bursts beginning, while there is none.
    begins: f64,
}

impl Bursts {
    /// With this mean rate, `peak` times as much in a burst, and bursts that last so long on average.
    fn new(mean: f64, peak: f64, length: Duration) -> Self {
        let ends = 1.0 / length.as_secs_f64().max(1e-9);
        // mean = rate × begins / (begins + ends), and rate = peak × mean.
        Self { rate: mean * peak, ends, begins: ends / (peak - 1.0).max(f64::EPSILON) }
    }

    /// The share of time that is within bursts.
    fn share(&self) -> f64 {
        self.begins / (self.begins + self.ends)
    }
}

/// An interrupted Poisson process: its first state is drawn by the share of time that each takes.
fn bursts(process: &Bursts, lasts: Duration, seed: u64) -> Vec<u64> {
    let (mut gaps, mut states) = (stream(seed, Purpose::Gap), stream(seed, Purpose::Burst));
    let end = lasts.as_secs_f64();
    let mut within = states.random::<f64>() < process.share();
    let mut from = 0.0;
    let mut times = Vec::new();
    while from < end {
        let leaves = if within { process.ends } else { process.begins };
        let to = (from + exponential(&mut states) / leaves).min(end);
        if within {
            candidates(from, to, process.rate, &mut gaps, |at| times.push(micros(at)));
        }
        (from, within) = (to, !within);
    }
    times
}

/// Every arrival of a Poisson process of that rate between the two times, in seconds.
fn candidates(from: f64, to: f64, rate: f64, gaps: &mut ChaCha8Rng, mut arrives: impl FnMut(f64)) {
    let mut at = from;
    loop {
        // Without a rate the gap has no end.
        at += exponential(gaps) / rate;
        if at >= to || at.is_nan() {
            return;
        }
        arrives(at);
    }
}

/// A time in which one formula has the rate. Times are seconds after the load's start.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: f64,
    to: f64,
    /// No moment has a higher one.
    highest: f64,
    rate: Rate,
}

/// Arrivals a second, as a function of the time since a stretch began.
#[derive(Debug, Clone, Copy)]
enum Rate {
    Flat,
    /// The mean, the amplitude and the period.
    Sine {
        mean: f64,
        amplitude: f64,
        period: f64,
    },
    /// From one rate to the other.
    Line {
        from: f64,
        to: f64,
    },
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

/// Lewis and Shedler: candidates come at the highest rate of their stretch, and each stays with the probability that the
/// rate of its moment is of that.
fn changing(stretches: &[Stretch], seed: u64) -> Vec<u64> {
    let (mut gaps, mut thinning) = (stream(seed, Purpose::Gap), stream(seed, Purpose::Thinning));
    let mut times = Vec::new();
    for stretch in stretches {
        candidates(stretch.from, stretch.to, stretch.highest, &mut gaps, |at| {
            if thinning.random::<f64>() * stretch.highest < stretch.rate_at(at) {
                times.push(micros(at));
            }
        });
    }
    times
}

/// The warm-up at the first rate, what changes, and, where that has an end, its last rate.
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
                crate::scenario::Stop::After(measured) => begin + measured.as_secs_f64(),
                crate::scenario::Stop::Acquisitions(_) => end,
            };
            let line = Rate::Line { from: *from, to: *to };
            stretches.push(Stretch { from: begin, to: over, highest: from.max(*to), rate: line });
            stretches.push(Stretch::flat(over, end, *to));
        }
        Arrivals::Steps(steps) => stretches.extend(of_steps(steps, begin, end)),
        _ => {}
    }
    stretches.iter_mut().for_each(|stretch| stretch.to = stretch.to.min(end));
    stretches.retain(|stretch| stretch.from < stretch.to);
    stretches
}

fn of_steps(steps: &[Step], begin: f64, end: f64) -> Vec<Stretch> {
    let mut from = begin;
    let mut stretches = Vec::new();
    for step in steps {
        let to = from + step.lasts.as_secs_f64();
        stretches.push(Stretch::flat(from, to, step.rate));
        from = to;
    }
    stretches.extend(steps.last().map(|last| Stretch::flat(from, end, last.rate)));
    stretches
}

/// Which lock is asked for.
struct Locks {
    /// For each rank the share of arrivals that ask for a lock of this or a lower rank; empty where all are alike.
    shares: Vec<f64>,
    /// The lock of each rank.
    ranked: Vec<usize>,
    count: usize,
}

impl Locks {
    fn new(spec: &TrialSpec, popularity: Popularity) -> Self {
        let count = spec.locks.max(1);
        let Popularity::Zipf(power) = popularity else {
            return Self { shares: Vec::new(), ranked: Vec::new(), count };
        };
        let mut shares: Vec<f64> = (1..=count)
            .scan(0.0, |sum, rank| {
                *sum += (rank as f64).powf(-power);
                Some(*sum)
            })
            .collect();
        let whole = shares.last().copied().unwrap_or(1.0);
        shares.iter_mut().for_each(|share| *share /= whole);
        let mut ranked: Vec<usize> = (0..count).collect();
        ranked.shuffle(&mut stream(spec.seed, Purpose::Rank));
        Self { shares, ranked, count }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> usize {
        if self.shares.is_empty() {
            return rng.random_range(0..self.count);
        }
        let drawn = rng.random::<f64>();
        let rank = self.shares.partition_point(|share| *share <= drawn).min(self.count - 1);
        self.ranked.get(rank).copied().unwrap_or(0)
    }
}
