//! What was counted of a lock on the wire, by reading the frames that passed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::PerRequest;

/// Everything that was counted of some turns of contenders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireCounts {
    /// Locks acquired.
    pub acquired: u64,
    /// Requests, by the name of their kind.
    pub requests: PerRequest,
    /// Requests of other kinds, by the name that ZooKeeper gives them.
    pub other_requests: BTreeMap<String, u64>,
    /// What multis consist of, by the name that ZooKeeper gives it.
    pub parts_of_multis: BTreeMap<String, u64>,
    /// Requests that the server answered with success, by the name of their kind.
    pub succeeded: PerRequest,
    /// Notifications.
    pub notifications: WireNotifications,
    /// Names that getChildren returned.
    pub names_returned: u64,
    /// Bytes of these requests.
    pub bytes_sent: u64,
    /// Bytes of the replies to them, and of the notifications.
    pub bytes_received: u64,
    /// What keeps sessions alive and belongs to no lock.
    pub apart: WireApart,
}

/// Notifications, by what the server said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireNotifications {
    /// NodeCreated events.
    pub node_created: u64,
    /// NodeDeleted events.
    pub node_deleted: u64,
    /// NodeDataChanged events.
    pub data_changed: u64,
    /// NodeChildrenChanged events.
    pub children_changed: u64,
}

/// Frames that are no requests of a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireApart {
    /// Connections that asked for a session, or went on with one.
    pub connects: u64,
    /// Sessions that were closed.
    pub closes: u64,
    /// Pings.
    pub pings: u64,
    /// Identities that were told.
    pub auths: u64,
    /// Times that watches were set anew after a connection was lost.
    pub watches_set_anew: u64,
    /// Bytes of all these in both directions.
    pub bytes: u64,
}

impl WireNotifications {
    pub fn total(&self) -> u64 {
        self.node_created + self.node_deleted + self.data_changed + self.children_changed
    }
}

added_up!(WireNotifications { node_created, node_deleted, data_changed, children_changed });
added_up!(WireApart { connects, closes, pings, auths, watches_set_anew, bytes });

impl WireCounts {
    pub fn all_requests(&self) -> u64 {
        self.requests.total() + self.other_requests.values().sum::<u64>()
    }

    pub fn merge(&mut self, other: &Self) {
        self.acquired += other.acquired;
        self.requests += other.requests;
        for (own, theirs) in [
            (&mut self.other_requests, &other.other_requests),
            (&mut self.parts_of_multis, &other.parts_of_multis),
        ] {
            theirs.iter().for_each(|(name, times)| *own.entry(name.clone()).or_default() += times);
        }
        self.succeeded += other.succeeded;
        self.notifications += other.notifications;
        self.names_returned += other.names_returned;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.apart += other.apart;
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestKind;
    use super::*;

    /// Another multiple of the unit in every field.
    fn counts(unit: u64) -> WireCounts {
        let (mut requests, mut succeeded) = (PerRequest::default(), PerRequest::default());
        requests.add(RequestKind::Create, unit);
        succeeded.add(RequestKind::Delete, 2 * unit);
        WireCounts {
            acquired: 3 * unit,
            requests,
            other_requests: BTreeMap::from([("whoAmI".into(), 4 * unit)]),
            parts_of_multis: BTreeMap::from([("check".into(), 5 * unit)]),
            succeeded,
            notifications: WireNotifications {
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
    fn two_spans_together_count_the_sum_of_both_in_every_field() {
        let mut both = counts(1);
        both.merge(&counts(100));
        assert_eq!(both, counts(101));
        both.merge(&WireCounts::default());
        assert_eq!(both, counts(101));
        assert_eq!((both.all_requests(), both.notifications.total()), (5 * 101, 30 * 101));
    }
}
