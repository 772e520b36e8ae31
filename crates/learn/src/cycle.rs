//! One cycle of a client: its node's arrival, grant and end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node of a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its session deleted it while holding.
    Released,
    /// Its session deleted it before it could hold.
    GaveUp,
    /// Its session expired or was closed.
    SessionEnded,
    /// Another session deleted it.
    Broken,
    /// It exists at the end of what was read.
    Open,
    /// Its end is not in the logs.
    Unobserved,
}

/// A cycle. Times are in ms by the leader's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    pub arrived_ms: i64,
    pub lock: u32,
    pub session: i64,
    pub is_read: bool,
    /// Whether it was the holder at some time.
    pub is_granted: bool,
    /// Whether it waited for another.
    pub is_contended: bool,
    /// Whether it arrived before what was read begins.
    pub is_carried_over: bool,
    /// From the arrival to the grant; `None` without a grant, or if the clock was set in between.
    pub waited_ms: Option<u32>,
    /// From the grant to the end, in the same way; also `None` while it exists.
    pub held_ms: Option<u32>,
    pub ending: Ending,
    /// Requests of its session from the create to the delete, which count the latter; 0 if it is not known.
    pub requests: u32,
    /// Time since its session's last release; `None` for the first arrival.
    pub since_ms: Option<u32>,
    /// From the grant in the inner queue of a semaphore to the create of the lease, which is a handoff.
    pub handoff_ms: Option<u32>,
}

impl Cycle {
    /// Whether the cycle tells how many requests an acquisition takes: it was free, and its holder released it.
    pub fn is_plain(&self) -> bool {
        self.ending == Ending::Released && !self.is_contended && self.requests > 0
    }

    /// Whether its number of requests is odd, as after a timeout: the client ended it while it watched, not after a list.
    pub fn is_odd(&self) -> bool {
        self.requests % 2 == 1
    }
}
