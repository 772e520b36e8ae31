//! The numbers of a trial: exact counts, each kind by its name; histograms in eight numbers; and what follows from
//! both, so that no reader has to compute it in its own way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::{Counts, Histogram, Notifications, Outcome, PerRequest, RequestKind};
use crate::record::Trial;

/// One number for each name. Every name is written, also with 0: these are counted, so 0 is a measurement.
pub type ByName = BTreeMap<String, u64>;

/// Notifications delivered, by what the server said and by what caused them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredNotifications {
    /// All of them.
    pub total: u64,
    /// NodeCreated events.
    pub node_created: u64,
    /// NodeDeleted events.
    pub node_deleted: u64,
    /// NodeDataChanged events.
    pub data_changed: u64,
    /// NodeChildrenChanged events.
    pub children_changed: u64,
    /// Caused by a release: useful and spurious together.
    pub by_release: u64,
    /// Caused by a release, and the woken contender then acquired without waiting again.
    pub by_release_useful: u64,
    /// Caused by a release, but the woken contender had to wait on (or was the releaser itself).
    pub by_release_spurious: u64,
    /// Of `by_release_spurious`: delivered to the releaser itself.
    pub to_releaser: u64,
    /// Caused by a newcomer's create.
    pub by_arrival: u64,
    /// Caused by a waiter that left the queue without having held.
    pub by_departure: u64,
    /// Several changes came at once, and which of them fired the watch could not be told.
    pub cause_unknown: u64,
}

impl From<&Notifications> for StoredNotifications {
    fn from(counts: &Notifications) -> Self {
        Self {
            total: counts.total(),
            node_created: counts.node_created,
            node_deleted: counts.node_deleted,
            data_changed: counts.data_changed,
            children_changed: counts.children_changed,
            by_release: counts.by_release(),
            by_release_useful: counts.by_release_useful,
            by_release_spurious: counts.by_release_spurious,
            to_releaser: counts.to_releaser,
            by_arrival: counts.by_arrival,
            by_departure: counts.by_departure,
            cause_unknown: counts.cause_unknown,
        }
    }
}

/// Everything that is counted over one span of time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCounts {
    /// How acquires ended, by the name of the outcome.
    pub outcomes: ByName,
    /// Locks released (the release call was made).
    pub releases: u64,
    /// Of the locks acquired, those whose hold ended because the session did, or because the holder died.
    #[serde(default)]
    pub lost_while_held: u64,
    /// Acquisitions that a later arrival was served before.
    pub overtaken: u64,
    /// Of the acquisitions, those that asked to read.
    #[serde(default)]
    pub reads_acquired: u64,
    /// How long those held, in microseconds, all added up.
    #[serde(default)]
    pub read_held_us: u64,
    /// All requests sent.
    pub requests_total: u64,
    /// Requests sent, by the name of their kind.
    pub requests: ByName,
    /// Requests that the server answered with success, by the name of their kind.
    pub succeeded: ByName,
    /// Notifications delivered.
    pub notifications: StoredNotifications,
    /// Names returned by getChildren.
    pub names_returned: u64,
    /// Bytes of requests, computed from the wire format.
    pub bytes_sent: u64,
    /// Bytes of replies and notifications, computed likewise.
    pub bytes_received: u64,
}

impl StoredCounts {
    /// The number of one outcome.
    #[must_use]
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome.name()).copied().unwrap_or(0)
    }

    /// Requests sent, of one kind.
    #[must_use]
    pub fn request(&self, kind: RequestKind) -> u64 {
        self.requests.get(kind.name()).copied().unwrap_or(0)
    }

    /// Locks acquired.
    #[must_use]
    pub fn acquired(&self) -> u64 {
        self.outcome(Outcome::Acquired)
    }
}

impl From<&Counts> for StoredCounts {
    fn from(counts: &Counts) -> Self {
        let outcomes = Outcome::ALL.map(|outcome| (outcome.name().to_owned(), counts.outcomes.get(outcome)));
        Self {
            outcomes: outcomes.into(),
            releases: counts.releases,
            lost_while_held: counts.lost_while_held,
            overtaken: counts.overtaken,
            reads_acquired: counts.reads_acquired,
            read_held_us: counts.read_held_us,
            requests_total: counts.requests.total(),
            requests: by_kind(&counts.requests),
            succeeded: by_kind(&counts.succeeded),
            notifications: (&counts.notifications).into(),
            names_returned: counts.names_returned,
            bytes_sent: counts.bytes_sent,
            bytes_received: counts.bytes_received,
        }
    }
}

fn by_kind(requests: &PerRequest) -> ByName {
    requests.iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect()
}

/// Count, mean and percentiles of one measure, in microseconds. The whole histogram lies in the trial's `.hlog`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Samples.
    pub count: u64,
    /// The smallest.
    pub min_us: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The 99.9th percentile.
    pub p999_us: u64,
    /// The largest.
    pub max_us: u64,
}

impl Latency {
    /// The numbers of a histogram; `None` when it has no sample, because then nothing was measured.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min_us: histogram.min(),
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::new_histogram;

    #[test]
    fn every_kind_and_outcome_is_written_by_name_even_when_zero() {
        let mut counts = Counts::default();
        counts.requests.add(RequestKind::GetDataWatch, 7);
        counts.outcomes.add(Outcome::Acquired, 3);
        let stored = StoredCounts::from(&counts);
        assert_eq!(stored.requests.len(), RequestKind::ALL.len());
        assert_eq!(stored.outcomes.len(), Outcome::ALL.len());
        assert_eq!((stored.requests["get_data_watch"], stored.requests["create"]), (7, 0));
        assert_eq!((stored.acquired(), stored.requests_total), (3, 7));
    }

    #[test]
    fn no_sample_is_no_latency_and_not_zero() {
        assert_eq!(Latency::of(&new_histogram()), None);
    }

    #[test]
    fn percentiles_come_from_the_histogram() {
        let mut histogram = new_histogram();
        (1..=1000).for_each(|value| histogram.record(value).unwrap());
        let latency = Latency::of(&histogram).unwrap();
        assert_eq!((latency.count, latency.min_us, latency.p50_us, latency.p99_us), (1000, 1, 500, 990));
        assert_eq!((latency.p999_us, latency.max_us), (999, 1000));
        assert!((latency.mean_us - 500.5).abs() < 0.5);
    }
}
