//! Exact counts: requests by kind, notifications by cause, outcomes of acquires, and frames on the wire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::combine::{add, by_key};

counted_by! {
    /// Kind of request. A read that sets a watch is a separate kind, because it costs the server more.
    RequestKind {
        /// A `create` of any mode.
        Create: "create",
        Delete: "delete",
        /// `getChildren` that sets no watch.
        GetChildren: "get_children",
        /// `getChildren` that sets a child watch.
        GetChildrenWatch: "get_children_watch",
        /// `getData` that sets no watch.
        GetData: "get_data",
        /// `getData` that sets a data watch.
        GetDataWatch: "get_data_watch",
        /// `exists` that sets no watch.
        Exists: "exists",
        /// `exists` that sets a watch.
        ExistsWatch: "exists_watch",
        SetData: "set_data",
        /// A `multi`, counted as one request.
        Multi: "multi",
        Sync: "sync",
        /// `removeWatches`, which some clients send when they abandon an armed watch.
        RemoveWatches: "remove_watches",
        /// `checkWatches`, which Curator sends to check that a watch is still set.
        CheckWatches: "check_watches",
    }
    /// Counts by kind of request. Files list every kind by name, including kinds with a count of zero.
    #[serde(from = "BTreeMap<RequestKind, u64>", into = "BTreeMap<RequestKind, u64>")]
    PerRequest
}

counted_by! {
    /// How an acquire ended. Every call has exactly one outcome.
    Outcome {
        /// The lock was acquired.
        Acquired: "acquired",
        /// The acquire timed out.
        TimedOut: "timed_out",
        /// The suite cancelled the acquire, because the trial was draining or interrupted.
        Cancelled: "cancelled",
        /// The connection was lost, so the result is unknown.
        ConnectionLost: "connection_lost",
        /// The session expired while waiting.
        SessionExpired: "session_expired",
        /// Any other error. The trial's errors list it.
        Failed: "failed",
        /// The contender died while it waited.
        Crashed: "crashed",
    }
    /// Counts by outcome. Files list every outcome by name, including outcomes with a count of zero.
    #[serde(from = "BTreeMap<Outcome, u64>", into = "BTreeMap<Outcome, u64>")]
    OutcomeCounts
}

/// Notifications delivered, by event type and by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notifications {
    /// `NodeCreated` events.
    pub node_created: u64,
    /// `NodeDeleted` events.
    pub node_deleted: u64,
    /// `NodeDataChanged` events.
    pub data_changed: u64,
    /// `NodeChildrenChanged` events.
    pub children_changed: u64,
    /// Notifications caused by a release, after which the woken contender acquired the lock without waiting again.
    pub by_release_useful: u64,
    /// Notifications caused by a release, after which the woken contender kept waiting (or was the releaser
    /// itself).
    pub by_release_spurious: u64,
    /// Part of `by_release_spurious` that was delivered to the releaser itself.
    pub to_releaser: u64,
    /// Part of `by_release_spurious` that was delivered to waiting readers.
    #[serde(default)]
    pub spurious_to_readers: u64,
    /// Notifications caused by a newcomer's create.
    pub by_arrival: u64,
    /// Notifications caused by a waiter that left a queue without holding the lock: the waiter timed out, was
    /// cancelled, or moved on to another queue.
    pub by_departure: u64,
    /// Notifications after several simultaneous changes, any of which may have triggered the watch.
    pub cause_unknown: u64,
}

impl Notifications {
    pub fn total(&self) -> u64 {
        self.node_created + self.node_deleted + self.data_changed + self.children_changed
    }

    /// Returns the number of notifications caused by releases: the numerator of the fan-out.
    pub fn by_release(&self) -> u64 {
        self.by_release_useful + self.by_release_spurious
    }
}

added_up!(Notifications {
    node_created,
    node_deleted,
    data_changed,
    children_changed,
    by_release_useful,
    by_release_spurious,
    to_releaser,
    spurious_to_readers,
    by_arrival,
    by_departure,
    cause_unknown,
});

/// All counts over one time span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "CountsInFile", into = "CountsInFile")]
pub struct Counts {
    /// Requests sent.
    pub requests: PerRequest,
    /// Requests that succeeded.
    pub succeeded: PerRequest,
    /// Writes inside successful multis; the servers count each of them.
    pub written_by_multis: u64,
    /// Notifications delivered.
    pub notifications: Notifications,
    /// Acquires by outcome.
    pub outcomes: OutcomeCounts,
    /// Locks released (the release call was made).
    pub releases: u64,
    /// Holds that ended because the session ended or the holder died.
    pub lost_while_held: u64,
    /// Names returned by `getChildren`.
    pub names_returned: u64,
    /// Bytes of requests, computed from the wire format (the client does not expose its socket).
    pub bytes_sent: u64,
    /// Bytes of replies and notifications, computed from the wire format.
    pub bytes_received: u64,
    /// Acquisitions overtaken by a later arrival; for a semaphore with n leases, by at least n later
    /// arrivals. Readers do not overtake readers.
    pub overtaken: u64,
    /// Acquires during which the client library hid reads and notifications. If there are any, the counts of
    /// requests, notifications, names and bytes are too low and are not reported.
    pub unseen: u64,
    /// Acquisitions of readers.
    pub reads_acquired: u64,
    /// Total hold time of these reads, from acquire to release, in microseconds.
    pub read_held_us: u64,
    /// Samples longer than [`super::HIGHEST_US`], which histograms record as that value.
    pub saturated: u64,
    /// Requests of failed tries.
    pub failed_try_requests: u64,
}

/// The counts as stored in files. Values that the client library hid are null.
#[derive(Serialize, Deserialize, JsonSchema)]
struct CountsInFile {
    /// Acquires by outcome.
    outcomes: OutcomeCounts,
    /// Locks released (the release call was made).
    releases: u64,
    /// Acquired locks that were lost while held.
    lost_while_held: u64,
    /// Acquisitions overtaken by a later arrival.
    overtaken: u64,
    /// Acquisitions of readers.
    reads_acquired: u64,
    /// Total hold time of these reads, in microseconds.
    read_held_us: u64,
    /// Samples of any measure longer than one hour, which histograms record as one hour.
    #[serde(default)]
    saturated: u64,
    /// Requests of failed tries.
    #[serde(default, skip_serializing_if = "is_zero")]
    failed_try_requests: u64,
    /// Acquires during which the client library hid some traffic. If there are any, the fields below are
    /// null.
    unseen: u64,
    /// Requests sent, by the name of their kind.
    requests: Option<PerRequest>,
    /// Requests that succeeded, by the name of their kind.
    succeeded: Option<PerRequest>,
    /// Writes inside successful multis.
    written_by_multis: Option<u64>,
    /// Notifications delivered.
    notifications: Option<Notifications>,
    /// Names returned by `getChildren`.
    names_returned: Option<u64>,
    /// Bytes of requests, computed from the wire format.
    bytes_sent: Option<u64>,
    /// Bytes of replies and notifications, computed from the wire format.
    bytes_received: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Counts> for CountsInFile {
    fn from(counts: Counts) -> Self {
        let all_seen = counts.unseen == 0;
        Self {
            outcomes: counts.outcomes,
            releases: counts.releases,
            lost_while_held: counts.lost_while_held,
            overtaken: counts.overtaken,
            reads_acquired: counts.reads_acquired,
            read_held_us: counts.read_held_us,
            saturated: counts.saturated,
            failed_try_requests: counts.failed_try_requests,
            unseen: counts.unseen,
            requests: all_seen.then_some(counts.requests),
            succeeded: all_seen.then_some(counts.succeeded),
            written_by_multis: all_seen.then_some(counts.written_by_multis),
            notifications: all_seen.then_some(counts.notifications),
            names_returned: all_seen.then_some(counts.names_returned),
            bytes_sent: all_seen.then_some(counts.bytes_sent),
            bytes_received: all_seen.then_some(counts.bytes_received),
        }
    }
}

impl From<CountsInFile> for Counts {
    fn from(file: CountsInFile) -> Self {
        Self {
            outcomes: file.outcomes,
            releases: file.releases,
            lost_while_held: file.lost_while_held,
            overtaken: file.overtaken,
            reads_acquired: file.reads_acquired,
            read_held_us: file.read_held_us,
            saturated: file.saturated,
            failed_try_requests: file.failed_try_requests,
            unseen: file.unseen,
            requests: file.requests.unwrap_or_default(),
            succeeded: file.succeeded.unwrap_or_default(),
            written_by_multis: file.written_by_multis.unwrap_or_default(),
            notifications: file.notifications.unwrap_or_default(),
            names_returned: file.names_returned.unwrap_or_default(),
            bytes_sent: file.bytes_sent.unwrap_or_default(),
            bytes_received: file.bytes_received.unwrap_or_default(),
        }
    }
}

impl Counts {
    pub fn acquired(&self) -> u64 {
        self.outcomes.get(Outcome::Acquired)
    }
}

added_up!(Counts {
    requests,
    succeeded,
    written_by_multis,
    notifications,
    outcomes,
    releases,
    lost_while_held,
    names_returned,
    bytes_sent,
    bytes_received,
    overtaken,
    unseen,
    reads_acquired,
    read_held_us,
    saturated,
    failed_try_requests,
});

/// Counts from the wire, over some of the contenders' cycles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireCounts {
    /// Locks acquired.
    pub acquired: u64,
    /// Requests, by the name of their kind.
    pub requests: PerRequest,
    /// Requests of other kinds, by their ZooKeeper name.
    pub other_requests: BTreeMap<String, u64>,
    /// Operations inside multis, by their ZooKeeper name.
    pub parts_of_multis: BTreeMap<String, u64>,
    /// Requests that succeeded, by the name of their kind.
    pub succeeded: PerRequest,
    /// Notifications by event type.
    pub notifications: Events,
    /// Names returned by `getChildren`.
    pub names_returned: u64,
    /// Bytes of these requests.
    pub bytes_sent: u64,
    /// Bytes of the replies to these requests, and of the notifications.
    pub bytes_received: u64,
    /// Traffic that keeps sessions alive and does not belong to any lock.
    pub apart: WireApart,
}

/// Notifications by event type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WireNotifications")]
pub struct Events {
    /// `NodeCreated` events.
    pub node_created: u64,
    /// `NodeDeleted` events.
    pub node_deleted: u64,
    /// `NodeDataChanged` events.
    pub data_changed: u64,
    /// `NodeChildrenChanged` events.
    pub children_changed: u64,
}

/// Frames that are not requests of a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireApart {
    /// Connections that created or resumed a session.
    pub connects: u64,
    /// Sessions that were closed.
    pub closes: u64,
    /// Pings from clients.
    pub pings: u64,
    /// Authentication packets.
    pub auths: u64,
    /// Number of times that watches were set again after a lost connection.
    pub watches_set_anew: u64,
    /// Bytes of all these frames in both directions.
    pub bytes: u64,
}

impl Events {
    pub fn total(&self) -> u64 {
        self.node_created + self.node_deleted + self.data_changed + self.children_changed
    }
}

added_up!(Events { node_created, node_deleted, data_changed, children_changed });
added_up!(WireApart { connects, closes, pings, auths, watches_set_anew, bytes });

added_up!(WireCounts {
    acquired,
    requests,
    other_requests: by_key(add),
    parts_of_multis: by_key(add),
    succeeded,
    notifications,
    names_returned,
    bytes_sent,
    bytes_received,
    apart,
});

impl WireCounts {
    pub fn all_requests(&self) -> u64 {
        self.requests.total() + self.other_requests.values().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a different multiple of the unit in every field.
    fn notifications(unit: u64) -> Notifications {
        Notifications {
            node_created: unit,
            node_deleted: 2 * unit,
            data_changed: 3 * unit,
            children_changed: 4 * unit,
            by_release_useful: 5 * unit,
            by_release_spurious: 6 * unit,
            to_releaser: 7 * unit,
            by_arrival: 8 * unit,
            by_departure: 9 * unit,
            cause_unknown: 10 * unit,
            spurious_to_readers: 11 * unit,
        }
    }

    fn outcomes(unit: u64) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        for (outcome, times) in Outcome::ALL.into_iter().zip(1..) {
            counts.add(outcome, times * unit);
        }
        counts
    }

    fn requests(unit: u64) -> PerRequest {
        let mut counts = PerRequest::default();
        for (kind, times) in RequestKind::ALL.into_iter().zip(1..) {
            counts.add(kind, times * unit);
        }
        counts
    }

    fn counts(unit: u64) -> Counts {
        Counts {
            requests: requests(unit),
            succeeded: requests(2 * unit),
            written_by_multis: 3 * unit,
            notifications: notifications(4 * unit),
            outcomes: outcomes(5 * unit),
            releases: 6 * unit,
            names_returned: 7 * unit,
            bytes_sent: 8 * unit,
            bytes_received: 9 * unit,
            overtaken: 10 * unit,
            unseen: 11 * unit,
            reads_acquired: 12 * unit,
            read_held_us: 13 * unit,
            lost_while_held: 14 * unit,
            saturated: 15 * unit,
            failed_try_requests: 16 * unit,
        }
    }

    #[test]
    fn adding_counts_sums_every_field() {
        let mut both = counts(1);
        both += counts(100);
        assert_eq!(both, counts(101));
        both += Counts::default();
        assert_eq!(both, counts(101));
    }

    #[test]
    fn each_outcome_and_request_kind_is_counted_separately() {
        for outcome in Outcome::ALL {
            let mut counts = OutcomeCounts::default();
            counts.add(outcome, 3);
            counts.add(outcome, 4);
            for other in Outcome::ALL {
                assert_eq!(counts.get(other), if other == outcome { 7 } else { 0 }, "{outcome:?} {other:?}");
            }
        }
        assert_eq!(counts(1).acquired(), 5);
        assert_eq!(requests(1).iter().map(|(_, count)| count).collect::<Vec<_>>(), Vec::from_iter(1..=13));
        assert_eq!(requests(1).total(), (1..=13).sum::<u64>());
    }

    #[test]
    fn notification_totals_sum_event_types_and_releases() {
        assert_eq!(notifications(1).total(), 1 + 2 + 3 + 4);
        assert_eq!(notifications(1).by_release(), 5 + 6);
    }

    #[test]
    fn counts_hidden_by_the_client_library_are_null_in_files() {
        let seen = Counts { unseen: 0, ..counts(1) };
        let text = serde_json::to_string(&seen).unwrap();
        assert!(!text.contains("null"), "{text}");
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), seen);
        let json = serde_json::to_value(counts(1)).unwrap();
        for unknown in
            ["requests", "succeeded", "notifications", "names_returned", "bytes_sent", "bytes_received"]
        {
            assert!(json[unknown].is_null(), "{unknown}: {json}");
        }
        assert_eq!((json["releases"].as_u64(), json["outcomes"]["acquired"].as_u64()), (Some(6), Some(5)));
    }

    #[test]
    fn names_of_outcomes_and_request_kinds_are_unique() {
        let mut names: Vec<&str> = Outcome::ALL.map(Outcome::name).into();
        names.extend(RequestKind::ALL.map(RequestKind::name));
        let given = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), given);
        assert_eq!(Outcome::SessionExpired.name(), "session_expired");
        assert_eq!(RequestKind::GetChildrenWatch.name(), "get_children_watch");
    }

    /// Returns a different multiple of the unit in every field.
    fn wire_counts(unit: u64) -> WireCounts {
        let (mut requests, mut succeeded) = (PerRequest::default(), PerRequest::default());
        requests.add(RequestKind::Create, unit);
        succeeded.add(RequestKind::Delete, 2 * unit);
        WireCounts {
            acquired: 3 * unit,
            requests,
            other_requests: BTreeMap::from([("whoAmI".into(), 4 * unit)]),
            parts_of_multis: BTreeMap::from([("check".into(), 5 * unit)]),
            succeeded,
            notifications: Events {
                node_created: 6 * unit,
                node_deleted: 7 * unit,
                data_changed: 8 * unit,
                children_changed: 9 * unit,
            },
            names_returned: 10 * unit,
            bytes_sent: 11 * unit,
            bytes_received: 12 * unit,
            apart: WireApart {
                connects: 13 * unit,
                closes: 14 * unit,
                pings: 15 * unit,
                auths: 16 * unit,
                watches_set_anew: 17 * unit,
                bytes: 18 * unit,
            },
        }
    }

    #[test]
    fn adding_wire_counts_sums_every_field() {
        let mut both = wire_counts(1);
        both += wire_counts(100);
        assert_eq!(both, wire_counts(101));
        both += WireCounts::default();
        assert_eq!(both, wire_counts(101));
        assert_eq!((both.all_requests(), both.notifications.total()), (5 * 101, 30 * 101));
    }
}
