//! What became of one fault.

use crate::catalog::fault::Proof;

/// One fault that was to be. Times are microseconds since the measured phase began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRecord {
    /// Its place in the order of firing, from 1.
    pub number: usize,
    /// Its name in the catalog.
    pub kind: String,
    /// Kind, target and parameters, as the scenario says them.
    pub label: String,
    /// Whom it hit: `server 2 (leader)`, `contender 7 (holder)`.
    pub target: String,
    /// When it was asked for; of one whose time never came, when the load was over.
    pub asked_us: i64,
    /// When its effect was seen.
    pub effective_us: Option<i64>,
    /// When it had ended, its healing seen.
    pub ended_us: Option<i64>,
    /// Whether its effect was seen.
    pub proof: Proof,
    /// Why it could not be undone, if it could not.
    pub left: Option<String>,
    /// From when it was asked for to the first sight of a leader elected since, with a majority in step; `None`
    /// when none was until it had ended, or nobody looked because no fault hits servers.
    pub elected_us: Option<u64>,
    /// The longest time between two acquisitions that reaches into the fault's time or begins in it.
    pub longest_gap_us: Option<u64>,
    /// From when its effect was seen to the next acquisition.
    pub recovered_us: Option<u64>,
}

/// A contender that did not get the lock although nothing was broken any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// The contender.
    pub contender: usize,
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// How long it had waited by then, in microseconds.
    pub waited_us: u64,
    /// Its own node; `None` where it has none or none was found.
    pub node: Option<String>,
    /// How many nodes are before its own.
    pub position: Option<usize>,
    /// The node that blocks it: the first of the queue, the session that it belongs to, and whose that is.
    pub blocked_by: Option<String>,
    /// What its session watches, as the servers tell.
    pub watches: Vec<String>,
}
