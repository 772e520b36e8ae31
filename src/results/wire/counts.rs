//! Exact counts, each kind by its name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::{Counts, Notifications, Outcome, PerRequest, RequestKind};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
