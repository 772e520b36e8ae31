//! When a contender acts: its start within the ramp, its think time, its intended starts.

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Stamp};
use crate::scenario::{Distribution, TrialSpec};
use crate::zk::reactor;

/// One contender's timing, drawn from the trial's seed so that a trial can be repeated.
pub struct Pace {
    rng: ChaCha8Rng,
    hold: Distribution,
    think: Distribution,
    next: Stamp,
}

impl Pace {
    /// The pace of one contender.
    #[must_use]
    pub fn new(spec: &TrialSpec, contender: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        // One stream for each contender: adding a contender does not change the draws of the others.
        rng.set_stream(contender as u64);
        Self { rng, hold: spec.hold, think: spec.think, next: 0 }
    }

    /// Sets the first intended start: contender i of N begins i/N of the ramp after the load's start.
    pub fn begin(&mut self, start: Stamp, spec: &TrialSpec, contender: usize) {
        let share = contender as f64 / spec.contenders.max(1) as f64;
        self.next = start + clock::micros(spec.ramp_up.mul_f64(share));
    }

    /// Sleeps until the next intended start and returns it: the wait is counted from this moment, not from
    /// when the generator got round to it. `None` when the load ends first.
    pub async fn intended_start(&mut self, drain: &CancellationToken) -> Option<Stamp> {
        if self.next > clock::now() {
            drain.run_until_cancelled(reactor::sleep_until(Some(self.next))).await?;
        }
        (!drain.is_cancelled()).then_some(self.next)
    }

    /// The contender is done at this moment; thinks before the next start.
    pub fn done(&mut self, at: Stamp) {
        self.next = at + clock::micros(self.think.sample(&mut self.rng));
    }

    /// The next start is now: in a batch the conductor says when.
    pub fn done_without_thinking(&mut self, at: Stamp) {
        self.next = at;
    }

    /// Pauses after an error, so that a broken ensemble is not hammered.
    pub fn pause(&mut self, at: Stamp, pause: Duration) {
        self.next = at + clock::micros(pause);
    }

    /// Draws a hold time.
    pub fn hold(&mut self) -> Duration {
        self.hold.sample(&mut self.rng)
    }
}
