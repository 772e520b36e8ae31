//! The subjects: one way to lock a file, written over the metered session and nothing else.
//!
//! A strategy knows nothing of recording, load or charts. A new one is a file in the folder of its family and a line in
//! `registry`. What the families share is in `queue` and beside this file.

mod after;
mod articles;
mod clients;
mod cost;
mod curator;
mod driven;
pub mod driver;
mod in_process;
mod kazoo;
mod ours;
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
pub use queue::joining::joins_by_count;
pub use queue::node::QueueNode;
pub use registry::{DrivenLocks, STRATEGIES, cards, driven, find, member_of, reference, register};
pub use wait::{DeadlineClock, Ended, Patience, WaitGauge};

/// One contender's lock object.
#[async_trait(?Send)]
pub trait Strategy {
    /// Waits until the lock is held.
    ///
    /// Whatever the outcome, no node of this contender stays behind unless the error is indefinite; the
    /// caller then ends the session, which takes the node with it, unless a scenario has it go on carelessly.
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired;

    /// Waits until the hold ends, by itself or in a way that only the lock knows of; most know of none.
    async fn hold(&mut self, _: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> HoldOver {
        end.await;
        HoldOver::ByItself
    }

    /// Lets the lock go, which for most is to leave the queue. An error leaves it open whether the node is gone.
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
    /// The holder was asked to let go.
    Asked,
    /// The lock is gone, although the holder's own session may live.
    Lost,
}

/// Proof that a lock is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The node by which it is held; `None` for a lock without one.
    pub node: Option<QueueNode>,
    /// Which hold by that node it is, from 0: the second part of the fencing token. More than one only where a process hands
    /// its node on.
    pub turn: u32,
    pub told: Told,
}

/// What another program has told of a lock that it took for a contender; nothing of own locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// When its library had granted the lock.
    pub granted: Option<Stamp>,
    /// What the way to that program and back took.
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
    /// The object holds the lock already and cannot be taken twice: waiting would never end.
    #[error("deadlock")]
    Deadlock,
    #[error(transparent)]
    Failed(#[from] Failure),
}

pub type Acquired<T = Held> = Result<T, AcquireError>;

impl AcquireError {
    /// Ends an acquire that will not succeed by leaving the queue; with its session the place goes by itself.
    ///
    /// Returns why the acquire ended. If leaving leaves the node's fate open, that is the reason that counts,
    /// because the caller must then end the session.
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

impl From<Ended> for AcquireError {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::TimedOut => Self::TimedOut,
            Ended::Cancelled => Self::Cancelled,
        }
    }
}

/// What a strategy is built from: the lock's path and its parameters.
#[derive(Debug, Clone)]
pub struct LockConfig {
    /// The lock's directory, which is there already.
    pub path: String,
    pub params: Params,
    pub contender: usize,
    /// What takes the lock, where that is another program.
    pub drivers: Option<Arc<Processes>>,
}

impl LockConfig {
    /// A parameter that is a duration; the caller's default where it is not set.
    pub fn duration(&self, name: &str, default: Duration) -> Duration {
        duration_of(&self.params, name, default)
    }

    /// A parameter that is a whole number; the caller's default where it is not set.
    pub fn count(&self, name: &str, default: u64) -> u64 {
        count_of(&self.params, name, default)
    }

    /// A parameter that is true or false; false where it is not set.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.params.get(name), Some(ParamValue::Bool(true)))
    }

    /// A parameter that is a word; `None` where it is not set.
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

/// How long the lock sleeps before it looks again.
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

fn duration_of(params: &Params, name: &str, default: Duration) -> Duration {
    match params.get(name) {
        Some(ParamValue::Duration(value)) => *value,
        _ => default,
    }
}

/// Releases a lock that is nothing but its queue node.
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
    fn a_lock_may_sleep_for_its_configured_pause() {
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
