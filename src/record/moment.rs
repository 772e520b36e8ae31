//! What one contender did or learned at one moment of a trial: the trial's history, before it is written down.

use super::history::SessionState;
use crate::catalog::Mode;
use crate::clock::Stamp;

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Stamp,
    /// Whose.
    pub contender: usize,
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// Its session, where it had one.
    pub session: Option<i64>,
    /// What happened.
    pub deed: Deed,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It asked for the lock.
    Asks(Mode),
    /// It has the lock.
    Enters {
        /// What it asked for.
        mode: Mode,
        /// The transaction that created its node; `None` without a node.
        token: Option<i64>,
        /// As of which transaction it found that it holds; `None` where nothing told.
        zxid: Option<i64>,
    },
    /// It does not go in.
    Fails(Mode),
    /// It is about to release.
    Leaves,
    /// It has released; the transaction that had created its node.
    HasLeft(Option<i64>),
    /// It can not know whether it has released.
    MayHaveLeft,
    /// It has certainly not released.
    CouldNotLeave,
    /// It has written to the resource behind the lock, with this token; whether that was accepted.
    Writes(i64, bool),
    /// It has learned of its session.
    Session(SessionState),
}
