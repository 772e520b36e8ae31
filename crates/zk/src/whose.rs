//! Ownership of sessions: their keys, the sessions of this process, and sessions of other programs that take
//! locks for contenders.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;
use zookeeper_client::{SessionId, SessionInfo, SessionState, StateWatcher};

use zklockbench_core::locked::locked;

/// ID and password of a session, which are enough to take the session over.
#[derive(Debug, Clone)]
pub struct SessionKey {
    pub(super) session: SessionInfo,
    pub(super) password: Password,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Password {
    /// Password of this client's own session, known to be correct.
    Own,
    /// Password reported by a driver, which may be wrong.
    Told,
    NotTold,
}

impl SessionKey {
    pub(super) fn own(session: SessionInfo) -> Self {
        Self { session, password: Password::Own }
    }

    /// Returns the key of a driver's session, possibly without a password.
    pub fn of_another(id: i64, password: Option<Vec<u8>>) -> Self {
        let told = if password.is_some() { Password::Told } else { Password::NotTold };
        Self { session: SessionInfo::new(SessionId(id), password.unwrap_or_default()), password: told }
    }

    /// Returns the same key, as if reported by another program.
    pub fn told(self) -> Self {
        Self { password: Password::Told, ..self }
    }

    pub fn id(&self) -> i64 {
        self.session.id().0
    }

    pub fn has_password(&self) -> bool {
        self.password != Password::NotTold
    }
}

static OWN: Mutex<BTreeSet<i64>> = Mutex::new(BTreeSet::new());

/// Records a session of this process.
pub fn note_own_session(session: i64) {
    locked(&OWN).insert(session);
}

/// Returns whether this process has ever opened this session, on any ensemble. Other sessions belong to other
/// programs.
pub fn is_own_session(session: i64) -> bool {
    locked(&OWN).contains(&session)
}

/// A session of another program, to the extent that the suite can observe and control it.
pub trait ForeignSession {
    /// Returns the session ID; `None` if the locks are not ZooKeeper's. Called often, so it must be cheaper than
    /// `key`.
    fn id(&self) -> Option<i64>;

    fn key(&self) -> Option<SessionKey>;

    fn timeout(&self) -> Duration;

    /// Returns the session states as reported by the other program.
    fn states(&self) -> watch::Receiver<SessionState>;

    /// Closes the session; returns whether the other program confirmed the close.
    fn close(&self) -> LocalBoxFuture<'_, bool>;

    /// Kills the program that owns the session.
    fn crash(&self);
}

/// A stream of a session's states.
pub enum SessionStates {
    /// States observed by the client library.
    Seen(StateWatcher),
    /// States reported by another program.
    Told(watch::Receiver<SessionState>),
}

impl SessionStates {
    /// Returns the current state and marks it as seen.
    pub fn state(&mut self) -> SessionState {
        match self {
            Self::Seen(states) => states.state(),
            Self::Told(states) => *states.borrow_and_update(),
        }
    }

    /// Returns the current state without marking it as seen.
    pub fn peek_state(&self) -> SessionState {
        match self {
            Self::Seen(states) => states.peek_state(),
            Self::Told(states) => *states.borrow(),
        }
    }

    /// Waits for the next state.
    pub async fn changed(&mut self) -> SessionState {
        match self {
            Self::Seen(states) => states.changed().await,
            Self::Told(states) => match states.changed().await {
                Ok(()) => *states.borrow_and_update(),
                Err(_) => SessionState::Closed,
            },
        }
    }
}

/// Owner stored for container nodes.
const CONTAINER: i64 = i64::MIN;
/// Top byte of the owner stored for nodes with a time to live.
const TTL: u8 = 0xff;

/// Returns the session that owns a node; `None` for persistent, container and TTL nodes.
pub fn session_of(owner: i64) -> Option<i64> {
    (!matches!(owner, 0 | CONTAINER) && owner.to_be_bytes()[0] != TTL).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::session_of;

    #[test]
    fn persistent_container_and_ttl_nodes_do_not_belong_to_a_session() {
        const TTL: i64 = 0xff00_0000_0000_0bb8_u64.cast_signed();
        assert_eq!([0, i64::MIN, TTL].map(|owner| session_of(owner).is_some()), [false; 3]);
        assert!(session_of(0x0100_1f2a_3b40_0007).is_some());
    }
}
