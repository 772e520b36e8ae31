//! The session of another program, by which it takes locks for a contender.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;
use zookeeper_client::{SessionState, StateWatcher};

use super::key::SessionKey;

/// What the suite knows of such a session, and can do to it.
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
