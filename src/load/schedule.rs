//! The arrivals of an open load, all drawn before the load begins: the same seed gives the same arrivals, however fast the
//! lock or the host is.

use std::time::Duration;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};

use crate::catalog::Mode;
use crate::clock;
use crate::scenario::{Arrivals, TrialSpec};

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
    Hold = 3,
    Mode = 4,
}

/// All arrivals of a trial whose warm-up takes so long, by their times. Empty for other loads.
///
/// A process that is the same at all times goes on from the warm-up into the measured phase; any other begins with the
/// measured phase, after a warm-up at its first rate.
#[must_use]
pub fn draw(spec: &TrialSpec, lasts: Duration) -> Vec<Arrival> {
    let Some(open) = spec.load.open() else { return Vec::new() };
    let times = match &open.arrivals {
        Arrivals::Poisson { rate } => poisson(*rate, lasts, stream(spec.seed, Purpose::Gap)),
        other => evenly(other.mean_rate(lasts), lasts),
    };
    let (mut holds, mut modes) = (stream(spec.seed, Purpose::Hold), stream(spec.seed, Purpose::Mode));
    let reads = |rng: &mut ChaCha8Rng| rng.random::<f64>() < spec.read_ratio;
    times
        .into_iter()
        .enumerate()
        .map(|(number, at_us)| Arrival {
            at_us,
            lock: number % spec.locks.max(1),
            mode: if reads(&mut modes) { Mode::Read } else { Mode::Write },
            hold: spec.hold.sample(&mut holds),
        })
        .collect()
}

fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut seeds = ChaCha8Rng::seed_from_u64(seed);
    seeds.set_stream(1 << 62);
    let mut rng = ChaCha8Rng::seed_from_u64(seeds.next_u64());
    rng.set_stream(purpose as u64);
    rng
}

fn poisson(rate: f64, lasts: Duration, mut rng: ChaCha8Rng) -> Vec<u64> {
    let mut at = 0.0;
    let mut times = Vec::new();
    loop {
        let gap: f64 = Exp1.sample(&mut rng);
        at += gap / rate;
        if at >= lasts.as_secs_f64() {
            return times;
        }
        times.push((at * 1e6) as u64);
    }
}

fn evenly(rate: f64, lasts: Duration) -> Vec<u64> {
    let gap_us = 1e6 / rate;
    (0_u64..)
        .map(|number| (number as f64 * gap_us) as u64)
        .take_while(|at| *at < clock::micros(lasts))
        .collect()
}
