//! What was counted of a lock's requests on the wire, in a trial of its own in which nothing is timed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::measure::{Counts, RequestKind, WireCounts};

/// What a trial of its own has counted, by a proxy that reads the frames between the contenders and the servers. Its waits are
/// not kept, as all had to pass that proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counting {
    /// Why nothing was counted; `None` where something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Which turns of each contender are counted.
    pub turns: CountedTurns,
    /// What was counted of these turns.
    pub counted: WireCounts,
    /// Notifications that their releases caused, to whomever; `None` where that is not known.
    pub by_release: Option<u64>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_release_missing: Option<String>,
    /// What was counted of the whole trial, from the first connection to the last: turns that did not end are in it, too.
    pub whole: WireCounts,
    /// Of the whole trial, notifications that releases caused.
    pub whole_by_release: Option<u64>,
    /// What the client itself counted of the whole trial; `None` for a driver's lock, which does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Counts>,
}

/// Which turns of each contender are counted: each is one acquire, hold and release, or whatever else comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedTurns {
    /// Those after the first, in which a client may have to make what it needs.
    AfterTheFirst,
    /// All, as contenders had one turn each.
    All,
}

impl CountedTurns {
    pub fn told(self) -> &'static str {
        match self {
            Self::AfterTheFirst => "each contender's first turn left out",
            Self::All => "first turns among them",
        }
    }
}

/// A difference between what the wire and the client itself have counted of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement {
    pub what: &'static str,
    pub wire: u64,
    pub client: u64,
}

impl Counting {
    /// That nothing was counted, and why.
    pub fn failed(why: String) -> Self {
        Self {
            missing: Some(why),
            turns: CountedTurns::All,
            counted: WireCounts::default(),
            by_release: None,
            by_release_missing: None,
            whole: WireCounts::default(),
            whole_by_release: None,
            client: None,
        }
    }

    pub fn is_there(&self) -> bool {
        self.missing.is_none()
    }

    /// What it has counted otherwise than the client itself, where that can be compared; empty where all agrees.
    pub fn disagreements(&self) -> Vec<Disagreement> {
        let Some(client) = self.client.as_ref().filter(|client| client.unseen == 0) else {
            return Vec::new();
        };
        let wire = &self.whole;
        let by_kind = RequestKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), wire.requests.get(kind), client.requests.get(kind)));
        let succeeded = RequestKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), wire.succeeded.get(kind), client.succeeded.get(kind)));
        let others = [
            ("other requests", wire.all_requests() - wire.requests.total(), 0),
            ("notifications", wire.notifications.total(), client.notifications.total()),
            ("names", wire.names_returned, client.names_returned),
        ];
        let by_release = self.whole_by_release.filter(|_| client.notifications.cause_unknown == 0);
        let by_release =
            by_release.map(|wire| ("notifications by release", wire, client.notifications.by_release()));
        by_kind
            .chain(succeeded)
            .chain(others)
            .chain(by_release)
            .filter(|(_, wire, client)| wire != client)
            .map(|(what, wire, client)| Disagreement { what, wire, client })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wire_and_client_have_counted_is_compared_kind_by_kind() {
        let mut client = Counts::default();
        client.requests.add(RequestKind::Create, 5);
        client.notifications.node_deleted = 3;
        client.notifications.by_release_useful = 3;
        let mut whole = WireCounts::default();
        whole.requests.add(RequestKind::Create, 5);
        whole.notifications.node_deleted = 3;
        let agreed = Counting {
            missing: None,
            whole,
            whole_by_release: Some(3),
            client: Some(client),
            ..Counting::failed(String::new())
        };
        assert_eq!(agreed.disagreements(), []);
        let mut more = agreed.clone();
        more.whole.requests.add(RequestKind::Delete, 1);
        more.whole_by_release = Some(2);
        let found = more.disagreements();
        assert_eq!(found[0], Disagreement { what: "delete", wire: 1, client: 0 });
        assert_eq!(found[1], Disagreement { what: "notifications by release", wire: 2, client: 3 });
        // What the client library keeps to itself can't be compared.
        client.unseen = 1;
        assert_eq!(Counting { client: Some(client), ..more }.disagreements(), []);
    }
}
