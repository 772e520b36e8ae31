//! Two contenders inside one critical section at once.

use crate::clock::Stamp;

/// One of the two holders of a violation.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// The contender that was already inside.
    pub inside: Holder,
    /// The contender that entered.
    pub entered: Holder,
    /// When it was noticed.
    pub at: Stamp,
}
