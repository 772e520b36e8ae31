//! What the ensemble wrote down of a lock's holders, beside what they believed and saw: facts that [`crate::record::Trial`]
//! carries from the load to its judge. There may be any number of them, so they are spooled, the judge drops them, and no
//! file has them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::history::{LockClaim, LockKind};
use super::together::Overlaps;
use crate::words::clock::{Stamp, WallClock};
use crate::words::spool::{Sorted, SpooledTable};

/// By how much the wall clock of a server on this host may differ from ours, in milliseconds: both count whole
/// milliseconds, or are read one after the other.
pub const CLOCKS_DIFFER_MS: i64 = 2;

/// A contender entered by virtue of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub lock: usize,
    pub contender: usize,
    pub claim: LockClaim,
    pub czxid: i64,
    /// As of which transaction it found that it holds, where a reply told.
    pub zxid: Option<i64>,
    pub called: Stamp,
    pub entered: Stamp,
    /// When it was about to leave, before it asked for the deletion of its node; `None` while it is inside.
    pub left: Option<Stamp>,
}

impl Grant {
    /// The order of locks, and of each lock's nodes.
    pub fn by_node(&self) -> (usize, i64, Stamp) {
        (self.lock, self.czxid, self.entered)
    }
}

/// The grants of a trial, in the order of locks and nodes.
pub type Grants = Sorted<Grant, (usize, i64, Stamp)>;

/// A node's life, as the ensemble wrote it down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The transaction that deleted it; `None` while it is there.
    pub deleted: Option<i64>,
    /// When that was proposed, in milliseconds of the leader's wall clock since 1970.
    pub deleted_at_ms: Option<i64>,
    pub with_its_session: bool,
}

/// The lives of nodes, by the transaction that created each.
pub type Lives = SpooledTable<Life>;

/// By virtue of what the contenders of a trial entered, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub kind: LockKind,
    pub began: Stamp,
    /// Two inside at once, as contenders saw it.
    pub overlaps: Overlaps,
    pub grants: Grants,
    /// What the servers' logs tell of the trial's nodes; empty where they cannot be read.
    pub lives: Lives,
    /// That no node of a contender is left.
    pub all_gone: bool,
    /// Turns stamps into the time of the servers' host.
    pub wall: WallClock,
    /// By how much that time may differ from a server's, in milliseconds: [`CLOCKS_DIFFER_MS`], and by what the clock was
    /// set during the trial.
    pub clocks_differ_ms: i64,
    /// Where what does not fit into memory may go while all this is judged.
    pub scratch: PathBuf,
}

impl Facts {
    /// Whether a node is gone of whose end no server's log tells. Then the ensemble has lost transactions that it had
    /// acknowledged, and nothing that depends on that node can be held against the lock.
    pub fn is_forgotten(&self, life: &Life) -> bool {
        self.all_gone && life.deleted.is_none()
    }
}
