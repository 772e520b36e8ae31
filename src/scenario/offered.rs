//! What an open load asks of its locks and sessions: arithmetic on the scenario, before anything runs.

use std::time::Duration;

use super::arrivals::{Arrivals, Open, Replay};
use super::model::{Stop, TrialSpec};

/// What arrives in the measured phase of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offered {
    /// Arrivals a second, on average.
    pub(super) rate: f64,
    /// Arrivals a second when most come.
    pub(super) peak_rate: f64,
    pub(super) arrivals: f64,
    pub(super) hold: Duration,
    /// The share of all that asks for the lock that most ask for.
    pub(super) hottest: f64,
}

impl Offered {
    /// Of an open load whose end a clock decides; `None` for all others.
    pub(super) fn of(trial: &TrialSpec) -> Option<Self> {
        let (open, Stop::After(measured)) = (trial.load.open()?, trial.stop) else { return None };
        let rate = open.arrivals.mean_rate(measured);
        let (hold, hottest) = match &open.arrivals {
            Arrivals::Replay(replay) => of_replay(replay, open, trial, measured),
            _ => (trial.mean_hold(), open.popularity.hottest(trial.locks)),
        };
        let peak_rate = open.arrivals.peak_rate(measured);
        Some(Self { rate, peak_rate, arrivals: rate * measured.as_secs_f64(), hold, hottest })
    }

    /// The share of time for which the lock that most ask for is held. Of 1 or more there isn't enough, and the time from
    /// one holder to the next comes on top.
    pub(super) fn utilisation(&self) -> f64 {
        self.rate * self.hottest * self.hold.as_secs_f64()
    }

    /// The same while most arrive.
    pub(super) fn peak_utilisation(&self) -> f64 {
        self.peak_rate * self.hottest * self.hold.as_secs_f64()
    }

    /// The mean number of busy sessions, at least, if one is busy for a hold and this much longer (Little's law).
    pub(super) fn busy_sessions(&self, longer: Duration) -> f64 {
        self.rate * (self.hold + longer).as_secs_f64()
    }
}

impl TrialSpec {
    /// The share of all acquisitions that ask for the lock that most ask for; in a closed load all locks are alike.
    pub fn hottest_share(&self) -> f64 {
        Offered::of(self).map_or(1.0 / self.locks.max(1) as f64, |offered| offered.hottest)
    }
}

/// The mean hold of what a file replays within that time, and the share of the lock that most of it asks for.
fn of_replay(replay: &Replay, open: &Open, trial: &TrialSpec, measured: Duration) -> (Duration, f64) {
    let end = crate::words::clock::micros(measured);
    let within = || replay.trace.iter().take_while(|arrival| arrival.at_us < end);
    let count = within().count();
    if count == 0 {
        return (trial.mean_hold(), open.popularity.hottest(trial.locks));
    }
    let drawn = trial.mean_hold().as_secs_f64();
    let held: f64 = within().map(|arrival| arrival.hold.map_or(drawn, |hold| hold.as_secs_f64())).sum();
    let mut asks = vec![0_usize; replay.locks()];
    let mut unnamed = 0_usize;
    for arrival in within() {
        match arrival.lock.and_then(|lock| asks.get_mut(lock)) {
            Some(count) => *count += 1,
            None => unnamed += 1,
        }
    }
    let most = asks.iter().max().copied().unwrap_or(0) as f64;
    let hottest = (most + unnamed as f64 * open.popularity.hottest(trial.locks)) / count as f64;
    (Duration::try_from_secs_f64(held / count as f64).unwrap_or(Duration::MAX), hottest)
}
