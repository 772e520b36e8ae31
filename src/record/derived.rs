//! What follows from the counts of a trial: ratios, each of which is missing where what it divides by did not happen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Trial;
use crate::scenario::{Load, Stop};

/// Ratios of the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derived {
    /// Acquisitions per second; `None` of a batch, whose pace is the conductor's.
    pub throughput_per_s: Option<f64>,
    /// Arrivals per second that were due, of an open load: what the throughput would be if all were served in time.
    #[serde(default)]
    pub offered_per_s: Option<f64>,
    /// Notifications caused by a release, per release.
    pub fan_out: Option<f64>,
    /// Of those, the ones whose contender then acquired without waiting again.
    pub fan_out_useful: Option<f64>,
    /// Of those, the ones that woke a contender for nothing.
    pub fan_out_spurious: Option<f64>,
    /// Jain's fairness index over the contenders' acquisitions: 1 when all got the same, 1/N when one got all. `None` of a
    /// batch and of a phase that acquisitions end, in which each has as many turns as the others, of a single contender, and where contenders had fewer than [`TURNS_FOR_FAIRNESS`] turns on average.
    pub fairness: Option<f64>,
    /// How many readers were inside at a time, on average over the measured phase and over all locks together; `None`
    /// when nobody read.
    pub mean_readers: Option<f64>,
    /// Requests sent per acquisition.
    pub requests_per_acquisition: Option<f64>,
    /// Notifications delivered per acquisition, whatever caused them.
    pub notifications_per_acquisition: Option<f64>,
    /// Names returned by getChildren per acquisition.
    pub names_per_acquisition: Option<f64>,
    /// Bytes sent per acquisition.
    pub bytes_sent_per_acquisition: Option<f64>,
    /// Bytes received per acquisition.
    pub bytes_received_per_acquisition: Option<f64>,
    /// Bytes sent and received per acquisition.
    pub bytes_per_acquisition: Option<f64>,
    /// Watches that were still set when the load had ended and all had released, by the servers' count; `None` when
    /// a server could not be asked.
    pub watches_left: Option<f64>,
}

/// With fewer turns for each contender, on average, chance alone makes shares differ: of two turns each, handed out at
/// random, the index is about 0.7.
pub const TURNS_FOR_FAIRNESS: u64 = 5;

impl From<&Trial> for Derived {
    fn from(trial: &Trial) -> Self {
        let counts = &trial.measured;
        let notifications = &counts.notifications;
        // With acquires of which not all was seen, what was seen is too little.
        let all_seen = counts.unseen == 0;
        let per_release = |amount| ratio(amount, counts.releases).filter(|_| all_seen);
        let per_acquisition = |amount| ratio(amount, counts.acquired()).filter(|_| all_seen);
        Self {
            throughput_per_s: throughput(trial),
            offered_per_s: trial.arrived.and_then(|arrived| per_second(arrived.offered, trial.measured_us)),
            fan_out: per_release(notifications.by_release()),
            fan_out_useful: per_release(notifications.by_release_useful),
            fan_out_spurious: per_release(notifications.by_release_spurious),
            fairness: fairness(trial),
            mean_readers: mean_readers(trial),
            requests_per_acquisition: per_acquisition(counts.requests.total()),
            notifications_per_acquisition: per_acquisition(notifications.total()),
            names_per_acquisition: per_acquisition(counts.names_returned),
            bytes_sent_per_acquisition: per_acquisition(counts.bytes_sent),
            bytes_received_per_acquisition: per_acquisition(counts.bytes_received),
            bytes_per_acquisition: per_acquisition(counts.bytes_sent + counts.bytes_received),
            watches_left: watches_left(trial).map(|watches| watches as f64),
        }
    }
}

impl Trial {
    /// Whether its load is over when each contender has acquired as often as it was to: then the total time is a result.
    pub fn is_one_shot(&self) -> bool {
        self.spec.load == Load::Batch || matches!(self.spec.stop, Stop::Acquisitions(_))
    }

    /// What follows from its counts.
    pub fn derived(&self) -> Derived {
        self.into()
    }
}

fn throughput(trial: &Trial) -> Option<f64> {
    let (acquired, us) = match trial.full_crew {
        Some(all) => (all.acquired, all.lasted_us),
        None => (trial.measured.acquired(), trial.measured_us),
    };
    per_second(acquired, us).filter(|_| trial.spec.load != Load::Batch)
}

fn per_second(count: u64, us: u64) -> Option<f64> {
    (us > 0).then(|| count as f64 / (us as f64 / 1e6))
}

fn mean_readers(trial: &Trial) -> Option<f64> {
    let measured = trial.measured_us > 0 && trial.measured.reads_acquired > 0;
    measured.then(|| trial.measured.read_held_us as f64 / trial.measured_us as f64)
}

/// How many more watches the servers had when the load had ended and all had released than before it. The sessions are
/// still open then, so what is left will stay for as long as they are.
pub(super) fn watches_left(trial: &Trial) -> Option<u64> {
    const KEY: &str = "zk_watch_count";
    let left: Vec<i64> = trial
        .servers
        .iter()
        .map(|server| Some(server.after.get(KEY)? - server.before.get(KEY)?))
        .collect::<Option<_>>()?;
    u64::try_from(left.iter().sum::<i64>()).ok().filter(|_| !left.is_empty())
}

fn fairness(trial: &Trial) -> Option<f64> {
    let shares: Vec<f64> = trial.tallies.iter().map(|tally| tally.acquired as f64).collect();
    let turns: u64 = trial.tallies.iter().map(|tally| tally.acquired).sum();
    // Where each ends after as many acquisitions, all get the same whatever the lock does.
    if trial.is_one_shot() || shares.len() < 2 || turns < TURNS_FOR_FAIRNESS * (shares.len() as u64).max(1) {
        return None;
    }
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    Some(sum * sum / (shares.len() as f64 * squares))
}

fn ratio(amount: u64, per: u64) -> Option<f64> {
    (per > 0).then(|| amount as f64 / per as f64)
}
