//! Two contenders inside one critical section at once: what was seen, and what it means.

use serde::{Deserialize, Serialize};

use crate::clock::Stamp;

/// One of the two holders of a violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The contender's number within the trial.
    pub contender: usize,
    /// The sequence number of its queue node; `None` for a lock without one.
    pub sequence: Option<i64>,
    /// The czxid of its node (the fencing token), if it has one.
    pub czxid: Option<i64>,
    /// When it entered, in microseconds since the trial's measured phase began (negative: before it).
    pub entered_us: i64,
}

/// Entry into a critical section while another contender was still in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// The contender that was already inside.
    pub inside: Holder,
    /// The contender that entered.
    pub entered: Holder,
    /// When it was noticed.
    #[serde(rename = "noticed_us")]
    pub at: Stamp,
}

/// The class of an overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverlapClass {
    /// Nothing was the matter with either session: the lock let two in.
    Violation,
    /// A session of the two was suspended or had expired before the other entered: its contender believed that it
    /// held what the ensemble had given to the other. No lock with sessions can prevent that; fencing can.
    Zombie,
    /// The outcome of a request of the two is not known, so neither is who held.
    Uncertain,
}

/// Overlaps that are no violations, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excused {
    /// Of the class zombie.
    pub zombies: u64,
    /// Of the class uncertain.
    pub uncertain: u64,
    /// The longest time for which a zombie was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
}

/// Exclusion as the ensemble saw it, by its transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnsembleOrder {
    /// Entries that could be compared with the logs.
    pub checked: u64,
    /// Entries while the node of an earlier holder was still there, by the servers' clock.
    pub overlaps: u64,
    /// Entries of which it is known as of which transaction the contender found that it holds.
    #[serde(default)]
    pub checked_by_zxid: u64,
    /// Of those, the ones as of a transaction before the one that deleted the node of an earlier holder.
    #[serde(default)]
    pub too_early: u64,
    /// Nodes by which contenders held that are gone without any server's log telling of their end: the ensemble has lost
    /// transactions that it had acknowledged.
    #[serde(default)]
    pub forgotten: u64,
    /// The first that was wrong.
    pub first: Option<String>,
}

impl EnsembleOrder {
    /// Whether two held at once.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.overlaps > 0 || self.too_early > 0
    }
}
