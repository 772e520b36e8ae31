//! Exact counts: requests, notifications by cause, outcomes of an acquire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::PerRequest;

/// How an acquire ended. Each acquire that was called has one of these, and only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outcome {
    /// The lock was acquired.
    Acquired,
    /// The acquire timeout passed first.
    TimedOut,
    /// The suite asked the contender to stop waiting (drain, interrupt).
    Cancelled,
    /// The connection was lost in a way that left the outcome open.
    ConnectionLost,
    /// The session expired while waiting.
    SessionExpired,
    /// Any other error; the trial's errors by kind say which.
    Failed,
    /// The contender died while it waited.
    Crashed,
}

impl Outcome {
    /// Every outcome, in the order in which outputs list them.
    pub const ALL: [Outcome; 7] = [
        Self::Acquired,
        Self::TimedOut,
        Self::Cancelled,
        Self::ConnectionLost,
        Self::SessionExpired,
        Self::Failed,
        Self::Crashed,
    ];

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::ConnectionLost => "connection_lost",
            Self::SessionExpired => "session_expired",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
        }
    }
}

/// One number for each outcome. In files every outcome is there by its name, also with 0: it was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "BTreeMap<Outcome, u64>", into = "BTreeMap<Outcome, u64>")]
pub struct OutcomeCounts([u64; Outcome::ALL.len()]);

impl From<OutcomeCounts> for BTreeMap<Outcome, u64> {
    fn from(counts: OutcomeCounts) -> Self {
        Outcome::ALL.into_iter().map(|outcome| (outcome, counts.get(outcome))).collect()
    }
}

impl From<BTreeMap<Outcome, u64>> for OutcomeCounts {
    fn from(by_outcome: BTreeMap<Outcome, u64>) -> Self {
        let mut counts = Self::default();
        by_outcome.into_iter().for_each(|(outcome, amount)| counts.add(outcome, amount));
        counts
    }
}

impl OutcomeCounts {
    /// The number of one outcome.
    #[must_use]
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Counts one more.
    pub fn add(&mut self, outcome: Outcome, amount: u64) {
        self.0[outcome as usize] += amount;
    }

    /// Adds another set of numbers.
    pub fn merge(&mut self, other: &Self) {
        for (own, theirs) in self.0.iter_mut().zip(other.0) {
            *own += theirs;
        }
    }
}

/// Notifications delivered, by what the server said and by what caused them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notifications {
    /// NodeCreated events.
    pub node_created: u64,
    /// NodeDeleted events.
    pub node_deleted: u64,
    /// NodeDataChanged events.
    pub data_changed: u64,
    /// NodeChildrenChanged events.
    pub children_changed: u64,
    /// Caused by a release, and the woken contender then acquired without waiting again.
    pub by_release_useful: u64,
    /// Caused by a release, but the woken contender had to wait on (or was the releaser itself).
    pub by_release_spurious: u64,
    /// Of `by_release_spurious`: delivered to the releaser itself.
    pub to_releaser: u64,
    /// Caused by a newcomer's create.
    pub by_arrival: u64,
    /// Caused by a waiter that left a queue without having held: it gave up, or went on to the lock itself.
    pub by_departure: u64,
    /// Several changes came at once, and which of them fired the watch could not be told.
    pub cause_unknown: u64,
}

impl Notifications {
    /// All notifications delivered.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.node_created + self.node_deleted + self.data_changed + self.children_changed
    }

    /// All that a release caused: the fan-out's numerator.
    #[must_use]
    pub fn by_release(&self) -> u64 {
        self.by_release_useful + self.by_release_spurious
    }

    /// Adds another set of numbers.
    pub fn merge(&mut self, other: &Self) {
        self.node_created += other.node_created;
        self.node_deleted += other.node_deleted;
        self.data_changed += other.data_changed;
        self.children_changed += other.children_changed;
        self.by_release_useful += other.by_release_useful;
        self.by_release_spurious += other.by_release_spurious;
        self.to_releaser += other.to_releaser;
        self.by_arrival += other.by_arrival;
        self.by_departure += other.by_departure;
        self.cause_unknown += other.cause_unknown;
    }
}

/// Everything that is counted over one span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Requests sent.
    pub requests: PerRequest,
    /// Requests that the server answered with success.
    pub succeeded: PerRequest,
    /// Writes that successful multis consisted of: the servers count each of them.
    pub written_by_multis: u64,
    /// Notifications delivered.
    pub notifications: Notifications,
    /// How acquires ended.
    pub outcomes: OutcomeCounts,
    /// Locks released (the release call was made).
    pub releases: u64,
    /// Of the locks acquired, those whose hold ended because the session did, or because the holder died.
    pub lost_while_held: u64,
    /// Names returned by getChildren.
    pub names_returned: u64,
    /// Bytes of requests, computed from the wire format (the client does not expose its socket).
    pub bytes_sent: u64,
    /// Bytes of replies and notifications, computed likewise.
    pub bytes_received: u64,
    /// Acquisitions that a later arrival was served before.
    pub overtaken: u64,
    /// Acquires whose reads and notifications the client library kept to itself: with any of these, the numbers
    /// of requests, notifications, names and bytes are too low to be told.
    pub unseen: u64,
    /// Of the acquisitions, those that asked to read.
    pub reads_acquired: u64,
    /// How long those held, from acquire to release, in microseconds, all added up.
    pub read_held_us: u64,
}

impl Counts {
    /// Locks acquired.
    #[must_use]
    pub fn acquired(&self) -> u64 {
        self.outcomes.get(Outcome::Acquired)
    }

    /// Adds another set of numbers.
    pub fn merge(&mut self, other: &Self) {
        self.requests.merge(&other.requests);
        self.succeeded.merge(&other.succeeded);
        self.written_by_multis += other.written_by_multis;
        self.notifications.merge(&other.notifications);
        self.outcomes.merge(&other.outcomes);
        self.releases += other.releases;
        self.lost_while_held += other.lost_while_held;
        self.names_returned += other.names_returned;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.overtaken += other.overtaken;
        self.unseen += other.unseen;
        self.reads_acquired += other.reads_acquired;
        self.read_held_us += other.read_held_us;
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestKind;
    use super::*;

    /// Another multiple of the unit in every field.
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
        }
    }

    #[test]
    fn two_spans_together_count_the_sum_of_both_in_every_field() {
        let mut both = counts(1);
        both.merge(&counts(100));
        assert_eq!(both, counts(101));
        both.merge(&Counts::default());
        assert_eq!(both, counts(101));
    }

    #[test]
    fn each_outcome_and_each_request_has_a_number_of_its_own() {
        for outcome in Outcome::ALL {
            let mut counts = OutcomeCounts::default();
            counts.add(outcome, 3);
            counts.add(outcome, 4);
            for other in Outcome::ALL {
                assert_eq!(counts.get(other), if other == outcome { 7 } else { 0 }, "{outcome:?} {other:?}");
            }
        }
        assert_eq!(counts(1).acquired(), 5);
        assert_eq!(requests(1).iter().map(|(_, count)| count).collect::<Vec<_>>(), Vec::from_iter(1..=12));
    }

    #[test]
    fn notifications_are_added_up_by_what_the_server_said_and_by_what_a_release_caused() {
        assert_eq!(notifications(1).total(), 1 + 2 + 3 + 4);
        assert_eq!(notifications(1).by_release(), 5 + 6);
    }

    #[test]
    fn writes_are_what_goes_through_the_leader_and_everything_else_is_a_read() {
        let written = requests(1).total_where(RequestKind::is_write);
        assert_eq!(written, 1 + 2 + 9 + 10, "create, delete, setData, multi");
        assert_eq!(requests(1).total(), (1..=12).sum::<u64>());
        assert_eq!(written + requests(1).total_where(|kind| !kind.is_write()), requests(1).total());
    }

    #[test]
    fn no_two_have_the_same_name_in_files() {
        let mut names: Vec<&str> = Outcome::ALL.map(Outcome::name).into();
        names.extend(RequestKind::ALL.map(RequestKind::name));
        let given = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), given);
        assert_eq!(Outcome::SessionExpired.name(), "session_expired");
        assert_eq!(RequestKind::GetChildrenWatch.name(), "get_children_watch");
    }
}
