//! Whose a session is: what names it, which are this process's, and what is known of one by which another program
//! takes locks for a contender.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;
use zookeeper_client::{SessionId, SessionInfo, SessionState, StateWatcher};

use zklockbench_core::locked::locked;

/// Identifier and password of a session: who has both may speak for it.
#[derive(Debug, Clone)]
pub struct SessionKey {
    pub(super) session: SessionInfo,
    pub(super) password: Password,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Password {
    /// This client's own session: it is right.
    Own,
    /// Told by a driver: it may be wrong.
    Told,
    NotTold,
}

impl SessionKey {
    pub(super) fn own(session: SessionInfo) -> Self {
        Self { session, password: Password::Own }
    }

    /// Of a driver's session, which may have told no password.
    pub fn of_another(id: i64, password: Option<Vec<u8>>) -> Self {
        let told = if password.is_some() { Password::Told } else { Password::NotTold };
        Self { session: SessionInfo::new(SessionId(id), password.unwrap_or_default()), password: told }
    }

    /// The same as another program would tell it.
    pub fn told(self) -> Self {
        Self { password: Password::Told, ..self }
    }

    pub fn id(&self) -> i64 {
        self.session.id().0
    }
}

static OWN: Mutex<BTreeSet<i64>> = Mutex::new(BTreeSet::new());

/// From now on that session is one of this process.
pub fn note_own_session(session: i64) {
    locked(&OWN).insert(session);
}

/// Whether this process has ever had that session, on any ensemble: what another one did, another program did.
pub fn is_own_session(session: i64) -> bool {
    locked(&OWN).contains(&session)
}

/// What the suite knows of the session of another program, and can do to it.
pub trait ForeignSession {
    /// Its number, without the key's copy of the password: asked for at each step of each turn. `None` where the locks are not
    /// ZooKeeper's.
    fn id(&self) -> Option<i64>;

    fn key(&self) -> Option<SessionKey>;

    fn timeout(&self) -> Duration;

    /// Its state, as the other program tells it.
    fn states(&self) -> watch::Receiver<SessionState>;

    /// Ends it; whether the other program has said so.
    fn close(&self) -> LocalBoxFuture<'_, bool>;

    /// Ends the program that has it, as one is ended that is killed.
    fn crash(&self);
}

/// The states of a session, from some moment on.
pub enum SessionStates {
    /// As the client library sees them.
    Seen(StateWatcher),
    /// As another program tells them.
    Told(watch::Receiver<SessionState>),
}

impl SessionStates {
    /// The state, which counts as seen then.
    pub fn state(&mut self) -> SessionState {
        match self {
            Self::Seen(states) => states.state(),
            Self::Told(states) => *states.borrow_and_update(),
        }
    }

    /// The state; a change to it is still to come.
    pub fn peek_state(&self) -> SessionState {
        match self {
            Self::Seen(states) => states.peek_state(),
            Self::Told(states) => *states.borrow(),
        }
    }

    /// Waits for the next change. Of a session that is over there is none.
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
