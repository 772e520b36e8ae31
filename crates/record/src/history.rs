//! Types of histories. A history may be judged long after the run, and may come from other tools.
//! `docs/results-format.md` describes the file format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::timeline::StepKind;
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::Stamp;

/// Declarations before the first event of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether the history is complete; `None` if not stated.
    pub complete: Option<bool>,
    pub locks: BTreeMap<String, LockKind>,
    /// Changes by other clients to the locks' nodes. If there are any, the verdict is unknown.
    pub interference: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LockKind {
    #[default]
    Mutex,
    /// A semaphore with this many leases.
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

    /// Returns the claim with defaults for the fields that this kind of lock ignores: only some locks have
    /// readers, and only some have leases.
    pub fn in_force(self, claim: LockClaim) -> LockClaim {
        match self {
            Self::Mutex => LockClaim::WRITE,
            Self::ReadWrite => LockClaim { leases: 1, ..claim },
            Self::Semaphore(_) => LockClaim { mode: Mode::Write, ..claim },
        }
    }

    /// The stated fields that this kind of lock does not ignore.
    pub fn relevant(self, stated: StatedClaim) -> StatedClaim {
        StatedClaim {
            mode: stated.mode.filter(|_| self == Self::ReadWrite),
            leases: stated.leases.filter(|_| matches!(self, Self::Semaphore(_))),
        }
    }

    /// Number of leases that conflicting holders may have alongside this claim.
    pub fn allowed_beside(self, claim: LockClaim) -> u64 {
        let leases = match self {
            Self::Semaphore(leases) => leases,
            Self::Mutex | Self::ReadWrite => 1,
        };
        u64::from(leases).saturating_sub(self.in_force(claim).leases.into())
    }

    /// Leases of `holder` that conflict with the claim; 0 between readers of a read-write lock.
    pub fn weight_against(self, claim: LockClaim, holder: LockClaim) -> u64 {
        let (own, other) = (self.in_force(claim), self.in_force(holder));
        if (own.mode, other.mode) == (Mode::Read, Mode::Read) { 0 } else { other.leases.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockClaim {
    /// Read or write; a mutex treats both alike.
    pub mode: Mode,
    /// Number of leases of a semaphore; 1 for any other lock.
    pub leases: u32,
}

impl LockClaim {
    pub const READ: Self = Self { mode: Mode::Read, leases: 1 };
    /// Exclusive access, or one lease of a semaphore.
    pub const WRITE: Self = Self { mode: Mode::Write, leases: 1 };
}

/// The fields of a claim that an event states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatedClaim {
    pub mode: Option<Mode>,
    pub leases: Option<u32>,
}

impl From<LockClaim> for StatedClaim {
    /// States only the fields that differ from their defaults.
    fn from(LockClaim { mode, leases }: LockClaim) -> Self {
        let (usual_mode, usual_leases) = (LockClaim::WRITE.mode, LockClaim::WRITE.leases);
        Self {
            mode: Some(mode).filter(|mode| *mode != usual_mode),
            leases: Some(leases).filter(|leases| *leases != usual_leases),
        }
    }
}

impl StatedClaim {
    /// Returns the claim of an answer. Fields that the answer omits are taken from its call.
    ///
    /// # Errors
    /// If the answer contradicts the call.
    pub fn of_answer(self, call: Self) -> Result<LockClaim, String> {
        if let (Some(called), Some(answered)) = (call.leases, self.leases)
            && called != answered
        {
            return Err(format!("`leases` is {answered}, but {called} in the call"));
        }
        if let (Some(called), Some(answered)) = (call.mode, self.mode)
            && called != answered
        {
            let [answered, called] =
                [answered, called].map(|mode| if mode == Mode::Read { "read" } else { "write" });
            return Err(format!("`mode` is `{answered}`, but `{called}` in the call"));
        }
        Ok(LockClaim {
            mode: self.mode.or(call.mode).unwrap_or(LockClaim::WRITE.mode),
            leases: self.leases.or(call.leases).unwrap_or(LockClaim::WRITE.leases),
        })
    }
}

/// Phase or result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    Invoke,
    /// The operation returned and took effect.
    Ok,
    /// The operation returned and certainly had no effect: the contender continues as before the call.
    Fail,
    /// The operation returned, and its effect is unknown to the contender.
    Unknown,
}

/// Session state as reported to a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    Connected,
    /// The connection is gone; whether the session is still alive is unknown.
    Suspended,
    /// The session has ended, and its ephemeral nodes are gone.
    Expired,
}

/// One line of a history. Names are borrowed, because a history has millions of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Time in microseconds on the event's clock. Only events on the same clock are compared.
    pub t_us: u64,
    pub process: &'a str,
    /// Clock of `t_us`; `None` for the clock of the process.
    pub clock: Option<&'a str>,
    /// Number of the contender within its process; `None` for session events that concern all contenders.
    pub contender: Option<u64>,
    pub session: Option<&'a str>,
    /// Session state that the contender learned with this event.
    pub state: Option<SessionState>,
    pub what: What<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// A contender requested a lock, or received the result.
    Acquire(Acquire<'a>),
    Release(Release<'a>),
    /// Only a change of `state`.
    Session,
    /// A contender wrote to a resource that checks fencing tokens.
    Write(Write<'a>),
    /// A message or a fault, which explains a violation but does not affect verdicts.
    Trace(Trace<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquire<'a> {
    pub lock: &'a str,
    pub step: Step,
    pub claim: StatedClaim,
    /// Nesting depth of a reentrant lock after this acquire.
    pub depth: Option<u32>,
    /// Fencing token: the czxid of the contender's node.
    pub token: Option<i64>,
    /// zxid of the reply that confirmed the hold to the contender.
    pub zxid: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release<'a> {
    pub lock: &'a str,
    pub step: Step,
    /// Whether no other contender could run during the hold; if so, no overlap could have been observed.
    pub alone: bool,
    /// zxid of the transaction that deleted the contender's node.
    pub deleted_zxid: Option<i64>,
    /// A zxid at which the node still existed: the node was deleted later.
    pub there_zxid: Option<i64>,
}

impl Release<'_> {
    /// Earliest transaction that may have deleted the node.
    pub fn deleted_from(&self) -> Option<i64> {
        self.deleted_zxid.or(self.there_zxid.map(|zxid| zxid.saturating_add(1)))
    }
}

/// Start or end of a write to a fenced resource. Every lock guards one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    pub lock: &'a str,
    pub step: Step,
    /// Fencing token presented to the resource.
    pub token: Option<i64>,
    /// Whether the resource accepted the write; `None` if unknown, or not answered yet.
    pub accepted: Option<bool>,
    /// zxid of the write if the resource is a node. It orders writes across clocks.
    pub zxid: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace<'a> {
    pub kind: StepKind,
    /// The message in a few words, e.g. `getChildren lock-0`.
    pub what: &'a str,
}

impl<'a> What<'a> {
    pub fn lock(&self) -> Option<&'a str> {
        match self {
            Self::Acquire(Acquire { lock, .. })
            | Self::Release(Release { lock, .. })
            | Self::Write(Write { lock, .. }) => Some(lock),
            Self::Session | Self::Trace(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePosition {
    /// Line number, from 1; the header is line 1.
    pub line: u64,
    /// Offset of the line's first byte, from 0.
    pub offset: u64,
}

/// One action or observation of a contender in a trial: an entry of the history in memory.
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
        /// Transaction that created the contender's node; `None` if there is no node.
        token: Option<i64>,
        /// A zxid at which the contender held the lock; `None` if unknown.
        zxid: Option<i64>,
    },
    /// The acquire failed, and the contender does not hold the lock.
    Fails,
    Leaves {
        /// Whether no other contender could run during the hold.
        alone: bool,
    },
    HasLeft {
        /// Transaction that deleted the contender's node; only the servers' logs show it.
        deleted: Option<i64>,
        /// A zxid at which the node still existed; `None` if it was not checked.
        there: Option<i64>,
    },
    /// The result of the release is unknown.
    MayHaveLeft,
    /// The release certainly had no effect.
    CouldNotLeave,
    /// A write with this token to the resource behind the lock, and whether it was accepted.
    Writes(i64, bool),
    Session(SessionState),
}
