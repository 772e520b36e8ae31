//! Values that follow from a trial's counts, so that no reader has to compute them in its own way.

use serde::{Deserialize, Serialize};

use crate::record::Trial;

/// Ratios of the measured phase; each is `None` when what it divides by did not happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Derived {
    /// Acquisitions per second.
    pub throughput_per_s: Option<f64>,
    /// Notifications caused by a release, per release.
    pub fan_out: Option<f64>,
    /// Of those, the ones whose contender then acquired without waiting again.
    pub fan_out_useful: Option<f64>,
    /// Of those, the ones that woke a contender for nothing.
    pub fan_out_spurious: Option<f64>,
    /// Jain's fairness index over the contenders' acquisitions: 1 when all got the same.
    pub fairness: Option<f64>,
    /// How many readers were inside at a time, on average; `None` when nobody read.
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

impl From<&Trial> for Derived {
    fn from(trial: &Trial) -> Self {
        let counts = &trial.measured;
        let notifications = &counts.notifications;
        Self {
            throughput_per_s: trial.throughput(),
            fan_out: trial.fan_out(),
            fan_out_useful: trial.per_release(notifications.by_release_useful),
            fan_out_spurious: trial.per_release(notifications.by_release_spurious),
            fairness: trial.fairness(),
            mean_readers: trial.mean_readers(),
            requests_per_acquisition: trial.per_acquisition(counts.requests.total()),
            notifications_per_acquisition: trial.per_acquisition(notifications.total()),
            names_per_acquisition: trial.per_acquisition(counts.names_returned),
            bytes_sent_per_acquisition: trial.per_acquisition(counts.bytes_sent),
            bytes_received_per_acquisition: trial.per_acquisition(counts.bytes_received),
            bytes_per_acquisition: trial.per_acquisition(counts.bytes_sent + counts.bytes_received),
            watches_left: trial.watches_left().map(|watches| watches as f64),
        }
    }
}
