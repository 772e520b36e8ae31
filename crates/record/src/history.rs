//! What every contender did, as events in the order of their time: a *history*.
//!
//! A history is judged long after it was made, and may come from other tools than this suite. `docs/results-format.md`
//! describes the file; these are its words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::Stamp;

/// What a history says of itself before its first event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether all that happened is there: `None` when it does not say, `Some(false)` when it was cut short.
    pub complete: Option<bool>,
    pub locks: BTreeMap<String, LockKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Mutex,
    /// Contenders inside together that hold no more than so many leases.
    Semaphore(u32),
    ReadWrite,
}

impl LockKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Semaphore(_) => "semaphore",
            Self::ReadWrite => "read-write",
        }
    }

    /// What a claim means to this kind of lock: only some know readers, and only some leases.
    pub fn in_force(self, claim: LockClaim) -> LockClaim {
        match self {
            Self::Mutex => LockClaim::WRITE,
            Self::ReadWrite => LockClaim { leases: 1, ..claim },
            Self::Semaphore(_) => LockClaim { mode: Mode::Write, ..claim },
        }
    }

    /// Leases that others in the way may hold beside such a claim.
    pub fn allowed_beside(self, claim: LockClaim) -> u64 {
        let leases = match self {
            Self::Semaphore(leases) => leases,
            Self::Mutex | Self::ReadWrite => 1,
        };
        u64::from(leases).saturating_sub(self.in_force(claim).leases.into())
    }

    /// Leases by which a holder is in the way of a claim; 0 between readers of a read-write lock.
    pub fn weight_against(self, claim: LockClaim, holder: LockClaim) -> u64 {
        let (own, other) = (self.in_force(claim), self.in_force(holder));
        if (own.mode, other.mode) == (Mode::Read, Mode::Read) { 0 } else { other.leases.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockClaim {
    /// To read or to write; a mutex takes both alike.
    pub mode: Mode,
    /// How many leases of a semaphore; 1 of any other lock.
    pub leases: u32,
}

impl LockClaim {
    pub const READ: Self = Self { mode: Mode::Read, leases: 1 };
    /// To be alone, or to have one of a semaphore's leases.
    pub const WRITE: Self = Self { mode: Mode::Write, leases: 1 };
}

/// The two ends of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    Invoke,
    /// It returned, and did what was asked.
    Ok,
    /// It returned, and certainly did not do it: the contender goes on as if it had never called.
    Fail,
    /// It returned, and the contender can't know whether it was done.
    Unknown,
}

/// What a contender has been told of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    Connected,
    /// The connection is gone; whether the session still lives is not known.
    Suspended,
    /// The session has ended, and its ephemeral nodes with it.
    Expired,
}

/// One line of a history. Names are borrowed, because a history has millions of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// When, in microseconds of its clock. Only events of one clock are compared.
    pub t_us: u64,
    pub process: &'a str,
    /// The clock that `t_us` was read from; `None` for the process's own.
    pub clock: Option<&'a str>,
    /// The contender's number within its process; `None` for what concerns all of them (sessions only).
    pub contender: Option<u64>,
    pub session: Option<&'a str>,
    /// What the contender learned of its session with this event.
    pub state: Option<SessionState>,
    pub what: What<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// A contender asked for a lock, or got an answer.
    Acquire(Acquire<'a>),
    Release(Release<'a>),
    /// Nothing but what `state` says.
    Session,
    /// A contender wrote to a resource that checks fencing tokens.
    Write(Write<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquire<'a> {
    pub lock: &'a str,
    pub step: Step,
    pub claim: LockClaim,
    /// How often the contender has the lock once it has it this time, for a reentrant lock.
    pub depth: Option<u32>,
    /// The fencing token: the czxid of the contender's node.
    pub token: Option<i64>,
    /// The zxid of the reply in which the contender found that it holds.
    pub zxid: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release<'a> {
    pub lock: &'a str,
    pub step: Step,
    /// Whether nobody else could run while the contender was inside, so that nobody could have been seen beside it.
    pub alone: bool,
    /// The zxid of the transaction that deleted the contender's node.
    pub deleted_zxid: Option<i64>,
    /// A zxid as of which that node was still there: it was deleted later.
    pub there_zxid: Option<i64>,
}

impl Release<'_> {
    /// The earliest transaction that may have deleted the node.
    pub fn deleted_from(&self) -> Option<i64> {
        self.deleted_zxid.or(self.there_zxid.map(|zxid| zxid.saturating_add(1)))
    }
}

/// One end of a write to a fenced resource. Every lock guards one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    pub lock: &'a str,
    pub step: Step,
    /// The fencing token that was shown to the resource.
    pub token: Option<i64>,
    /// Whether the resource accepted the write; `None` before the answer, or when it is not known.
    pub accepted: Option<bool>,
    /// The zxid of the write, where the resource is a node: it orders writes of all clocks.
    pub zxid: Option<i64>,
}

impl<'a> What<'a> {
    pub fn lock(&self) -> Option<&'a str> {
        match self {
            Self::Acquire(Acquire { lock, .. })
            | Self::Release(Release { lock, .. })
            | Self::Write(Write { lock, .. }) => Some(lock),
            Self::Session => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePosition {
    /// Its number, from 1; the header is line 1.
    pub line: u64,
    /// The byte that it begins with, from 0.
    pub offset: u64,
}

/// What one contender did or learned at one moment of a trial: the trial's history, before it is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub at: Stamp,
    pub contender: usize,
    pub lock: usize,
    pub session: Option<i64>,
    pub deed: Deed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    Asks(LockClaim),
    Enters {
        claim: LockClaim,
        /// The transaction that created its node; `None` without a node.
        token: Option<i64>,
        /// As of which transaction it found that it holds; `None` where nothing told.
        zxid: Option<i64>,
    },
    /// It does not go in.
    Fails,
    Leaves {
        /// Whether nobody else could run while it was inside.
        alone: bool,
    },
    HasLeft {
        /// The transaction that had created its node.
        token: Option<i64>,
        /// As of which transaction that node was still there; `None` where nobody looked.
        there: Option<i64>,
    },
    /// It can not know whether it has released.
    MayHaveLeft,
    /// It has certainly not released.
    CouldNotLeave,
    /// It has written to the resource behind the lock, with this token; whether that was accepted.
    Writes(i64, bool),
    Session(SessionState),
}
