//! Ownership of sessions: their keys, the sessions of this process, and sessions of other programs that take
//! locks for contenders.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;
use zookeeper_client::{SessionId, SessionInfo, SessionState, StateWatcher};

use zklockbench_core::locked::locked;

/// ID and password of a session, which suffice to take it over.
#[derive(Debug, Clone)]
pub struct SessionKey {
    pub(super) session: SessionInfo,
    pub(super) password: Password,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Password {
    /// This client's own session: the password is right.
    Own,
    /// Reported by a driver: the password may be wrong.
    Told,
    NotTold,
}

impl SessionKey {
    pub(super) fn own(session: SessionInfo) -> Self {
        Self { session, password: Password::Own }
    }

    /// The key of a driver's session, possibly without a password.
    pub fn of_another(id: i64, password: Option<Vec<u8>>) -> Self {
        let told = if password.is_some() { Password::Told } else { Password::NotTold };
        Self { session: SessionInfo::new(SessionId(id), password.unwrap_or_default()), password: told }
    }

    /// The same key, as if reported by another program.
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

/// Whether this process ever opened this session, on any ensemble. Other sessions belong to other programs.
pub fn is_own_session(session: i64) -> bool {
    locked(&OWN).contains(&session)
}

/// A session of another program, to the extent that the suite can observe and control it.
pub trait ForeignSession {
    /// Session ID, read often and therefore cheaper than the key. `None` if the locks are not ZooKeeper's.
    fn id(&self) -> Option<i64>;

    fn key(&self) -> Option<SessionKey>;

    fn timeout(&self) -> Duration;

    /// Session states as reported by the other program.
    fn states(&self) -> watch::Receiver<SessionState>;

    /// Closes the session; returns whether the other program confirmed it.
    fn close(&self) -> LocalBoxFuture<'_, bool>;

    /// Kills the program that owns the session.
    fn crash(&self);
}

/// The states of a session, in order.
pub enum SessionStates {
    /// States observed by the client library.
    Seen(StateWatcher),
    /// States reported by another program.
    Told(watch::Receiver<SessionState>),
}

impl SessionStates {
    /// The current state, marked as seen.
    pub fn state(&mut self) -> SessionState {
        match self {
            Self::Seen(states) => states.state(),
            Self::Told(states) => *states.borrow_and_update(),
        }
    }

    /// The current state, not marked as seen.
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

/// The session that owns a node; `None` if the stored owner marks a persistent, container or TTL node.
pub fn session_of(owner: i64) -> Option<i64> {
    (!matches!(owner, 0 | CONTAINER) && owner.to_be_bytes()[0] != TTL).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::session_of;

    #[test]
    fn persistent_container_and_ttl_nodes_belong_to_no_session() {
        const TTL: i64 = 0xff00_0000_0000_0bb8_u64.cast_signed();
        assert_eq!([0, i64::MIN, TTL].map(|owner| session_of(owner).is_some()), [false; 3]);
        assert!(session_of(0x0100_1f2a_3b40_0007).is_some());
    }
}
