//! One cycle of a client: when its node was created, got the lock and was deleted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Session of a cycle that a watch observed, which reports no sessions.
pub const UNKNOWN_SESSION: i64 = i64::MIN;

/// How a cycle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The node's session deleted it while holding the lock.
    Released,
    /// The node's session deleted it before acquiring the lock.
    GaveUp,
    /// The node's session expired or was closed.
    SessionEnded,
    /// Another session deleted the node.
    Broken,
    /// The node still exists at the end of the logs.
    Open,
    /// The node's end is not in the logs.
    Unobserved,
}

/// A cycle. Times are in ms by the leader's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    pub arrived_ms: i64,
    pub lock: u32,
    pub session: i64,
    pub is_read: bool,
    /// Whether the client held the lock in this cycle.
    pub is_granted: bool,
    /// Whether the client had to wait for another node.
    pub is_contended: bool,
    /// Whether the cycle started before the logs did.
    pub is_carried_over: bool,
    /// Time from the arrival to the grant; `None` without a grant, or if the clock was set back in between.
    pub waited_ms: Option<u32>,
    /// Time from the arrival to the end, if the client never got the lock.
    pub unserved_ms: Option<u32>,
    /// Time from the grant to the end; `None` without a grant, if the clock was set back in between, or if the
    /// end was not observed.
    pub held_ms: Option<u32>,
    pub ending: Ending,
    /// Number of the node's creates and deletes within the scope.
    pub writes: u32,
    /// Requests of the node's session after the create, up to and including the delete; 0 if unknown.
    pub requests: u32,
    /// Time from the session's last release to the arrival; `None` if the release is unknown.
    pub since_ms: Option<u32>,
    /// Time from the session's release to its create of this node, if the session sent at most two requests in
    /// between. Without a pause, this time consists of a commit and round trips, like a handoff.
    pub after_release_ms: Option<u32>,
    /// Handoff of a semaphore: time from the grant in the inner queue to the create of the lease.
    pub handoff_ms: Option<u32>,
    /// Time after the grant during which the client may still have waited; the entire hold if it may have given up.
    pub late_ms: Option<u32>,
}

/// Minimum wait for a timeout; clients that give up earlier only tried to get the lock.
pub const TIMEOUT_LEAST_MS: u32 = 10;
/// Number of requests that a failed try without a wait sends after its create: one lists the nodes, and one deletes the
/// client's own node. An uncontended acquisition and its release send two as well.
pub const TRY_REQUESTS: u32 = 2;

impl Cycle {
    /// Returns whether the client held the lock only briefly after another client. If it only tried to get the lock,
    /// it may have listed the nodes before the other client's release.
    pub fn may_be_try(&self) -> bool {
        let is_brief = self.held_ms.is_some_and(|ms| ms < TIMEOUT_LEAST_MS);
        self.ending == Ending::Released && self.is_contended && self.requests == TRY_REQUESTS && is_brief
    }

    /// Returns whether the client left the queue at once because it only tried to get the lock.
    pub fn is_failed_try(&self) -> bool {
        self.ending == Ending::GaveUp && self.unserved_ms.is_some_and(|ms| ms < TIMEOUT_LEAST_MS)
    }

    /// Returns the cycle under the assumption that the client waited as long as possible.
    #[must_use]
    pub fn at_latest(self) -> Self {
        let (Some(late), Some(waited), Some(held)) = (self.late_ms, self.waited_ms, self.held_ms) else {
            return self;
        };
        let waited = waited.saturating_add(late);
        if late < held.max(1) {
            return Self { waited_ms: Some(waited), held_ms: Some(held - late), ..self };
        }
        let ended = Self { ending: Ending::GaveUp, is_granted: false, unserved_ms: Some(waited), ..self };
        Self { waited_ms: None, held_ms: None, ..ended }
    }

    /// Returns the end of the cycle, or the latest time known if its end is unknown.
    pub fn until_ms(&self) -> i64 {
        let times = [self.waited_ms, self.held_ms, self.unserved_ms];
        self.arrived_ms + times.iter().flatten().map(|ms| i64::from(*ms)).sum::<i64>()
    }

    /// Returns whether the cycle shows how many requests an uncontended acquisition and its release take.
    pub fn is_plain(&self) -> bool {
        self.ending == Ending::Released && !self.is_contended && self.requests > 0
    }
}

/// Finds the largest number of periods that overlap at any one time.
#[derive(Debug, Default)]
pub struct Overlap {
    ends: BinaryHeap<Reverse<i64>>,
    pub most: usize,
}

impl Overlap {
    /// Adds a period. Periods must be added in the order of their starts.
    pub fn add(&mut self, from_ms: i64, to_ms: i64) {
        while self.ends.peek().is_some_and(|end| end.0 <= from_ms) {
            self.ends.pop();
        }
        self.ends.push(Reverse(to_ms));
        self.most = self.most.max(self.ends.len());
    }
}
