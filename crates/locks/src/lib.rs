//! Lock strategies, one file each. A strategy depends only on the metered session.
//!
//! To add a strategy, add a file to the folder of its family and a line to `registry`. Code that several
//! families share is in `queue` and next to this file.

mod after;
mod articles;
mod clients;
mod cost;
mod curator;
mod driven;
pub mod driver;
mod explored;
mod in_process;
mod kazoo;
mod ours;
mod prelude;
mod queue;
mod registry;
mod wait;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::driver::Processes;
use zklockbench_core::catalog::{LockCard, Mode, ParamValue, Params};
use zklockbench_core::clock::Stamp;
use zklockbench_zk::{Failure, Session};

pub use articles::COMPARED_SOURCES;
pub use driven::{DrivenLock, PERMITS, Program};
pub use explored::{Broken, broken_promises};
pub use queue::joining::joins_by_count;
pub use queue::node::QueueNode;
pub use registry::{DrivenLocks, STRATEGIES, cards, driven, find, member_of, own_label, reference, register};
pub use wait::{DeadlineClock, Patience, WaitGauge, blocks};

/// One contender's lock object.
#[async_trait(?Send)]
pub trait Strategy {
    /// Waits until the lock is held.
    ///
    /// A failed acquire leaves no node behind, unless the error is indefinite. After an indefinite error, the
    /// caller ends the session, which deletes the node, unless the scenario keeps the session.
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired;

    /// Waits until the hold ends: when `end` completes, or earlier if the hold is revoked or lost.
    async fn hold(&mut self, _: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> HoldOver {
        end.await;
        HoldOver::ByItself
    }

    /// Releases the lock; by default, leaves the queue. After an error, the node may still exist.
    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        leave(session, held).await
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub card: LockCard,
    pub build: fn(&LockConfig) -> Box<dyn Strategy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldOver {
    ByItself,
    /// The holder was asked to release the lock.
    Asked,
    /// The lock is lost, although the holder's own session may still be alive.
    Lost,
}

/// Proof that a lock is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Node that holds the lock; `None` for a lock without a node.
    pub node: Option<QueueNode>,
    /// Number of this hold among the holds with the same node, from 0: the second part of the fencing token.
    /// Above 0 only if several contenders of a process share one node.
    pub turn: u32,
    pub told: Told,
}

/// A driver's report about a lock that it acquired; empty for the suite's own locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Time at which the driver's library granted the lock; `None` if its clock is not the suite's.
    pub granted: Option<Stamp>,
    /// Time in the driver's two pipes and in its code around the library: the suite's time minus the driver's.
    pub pipe_us: Option<u64>,
}

impl Held {
    pub fn by(node: QueueNode) -> Self {
        Self::of(Some(node))
    }

    pub fn of(node: Option<QueueNode>) -> Self {
        Self { node, turn: 0, told: Told::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    #[error("timed out")]
    TimedOut,
    #[error("cancelled")]
    Cancelled,
    /// This object already holds the lock, and the lock is not reentrant, so the wait would never end.
    #[error("deadlock")]
    Deadlock,
    #[error(transparent)]
    Failed(#[from] Failure),
}

pub type Acquired<T = Held> = Result<T, AcquireError>;

impl AcquireError {
    /// Cleans up after a failed acquire: leaves the queue, unless the session is over and the node is gone
    /// with it.
    ///
    /// Returns the original error, or the failure to leave the queue, after which the node may still exist.
    async fn after(self, leaving: impl Future<Output = Result<(), Failure>>) -> Self {
        if matches!(&self, Self::Failed(failure) if !failure.session_survives()) {
            return self;
        }
        match leaving.await {
            Ok(()) => self,
            Err(failure) => Self::Failed(failure),
        }
    }
}

/// Configuration of a strategy: path and parameters of the lock.
#[derive(Clone)]
pub struct LockConfig {
    /// Directory of the lock, which already exists.
    pub path: String,
    pub params: Params,
    pub contender: usize,
    /// Driver processes, if the lock is a driver's.
    pub drivers: Option<Arc<Processes>>,
}

impl LockConfig {
    /// Returns the value of a duration parameter, or `default` if the parameter is not set.
    pub fn duration(&self, name: &str, default: Duration) -> Duration {
        duration_of(&self.params, name, default)
    }

    /// Returns the value of a count parameter, or `default` if the parameter is not set.
    pub fn count(&self, name: &str, default: u64) -> u64 {
        count_of(&self.params, name, default)
    }

    /// Returns the value of a boolean parameter; false if the parameter is not set.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.params.get(name), Some(ParamValue::Bool(true)))
    }

    /// Returns the value of a text parameter; `None` if the parameter is not set.
    pub fn word(&self, name: &str) -> Option<&str> {
        match self.params.get(name) {
            Some(ParamValue::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub fn is(&self, name: &str, word: &str) -> bool {
        has_word(&self.params, name, word)
    }
}

fn has_word(params: &Params, name: &str, word: &str) -> bool {
    matches!(params.get(name), Some(ParamValue::Word(value)) if value == word)
}

/// Returns the longest sleep between two checks; zero if the lock does not poll.
pub fn longest_pause(params: &Params) -> Duration {
    let by_flag = has_word(params, "wake", "poll-flag") || has_word(params, "class", "article");
    let retries = has_word(params, "wait", "retry");
    let pauses = params.iter().filter_map(|(name, value)| match value {
        ParamValue::Duration(pause) if by_flag || retries || name == "poll_interval" => Some(*pause),
        _ => None,
    });
    pauses.max().unwrap_or_default()
}

pub fn count_of(params: &Params, name: &str, default: u64) -> u64 {
    match params.get(name) {
        Some(ParamValue::Count(count)) => *count,
        _ => default,
    }
}

/// Returns the number of leases set by the parameter `param`; at least 1.
pub fn leases_of(params: &Params, param: &str) -> u32 {
    u32::try_from(count_of(params, param, 1)).unwrap_or(u32::MAX).max(1)
}

fn duration_of(params: &Params, name: &str, default: Duration) -> Duration {
    match params.get(name) {
        Some(ParamValue::Duration(value)) => *value,
        _ => default,
    }
}

/// Releases a lock that consists only of its queue node.
async fn leave(session: &Session, held: Held) -> Result<(), Failure> {
    match held.node {
        Some(node) => node.leave(session).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn longest_pause_is_the_interval_of_a_polling_lock() {
        let second = ParamValue::Duration(Duration::from_secs(1));
        let with = |pairs: &[(&str, ParamValue)]| -> Params {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        assert_eq!(longest_pause(&with(&[("poll_interval", second.clone())])), Duration::from_secs(1));
        let flag = |how: &str| [("wake", ParamValue::Word(how.into())), ("flag_interval", second.clone())];
        assert_eq!(longest_pause(&with(&flag("poll-flag"))), Duration::from_secs(1));
        assert_eq!(longest_pause(&with(&flag("at-once"))), Duration::ZERO);
        let class = [("class", ParamValue::Word("article".into())), ("flag_interval", second.clone())];
        assert_eq!(longest_pause(&with(&class)), Duration::from_secs(1));
    }
}
