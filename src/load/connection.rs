//! Whether a contender's session has its connection, and since when it has been without.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock::{self, Stamp};
use crate::record::history;
use crate::zk::{Session, SessionState, reactor};

/// The connection of one session after the other.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// When it was lost last; 0 for never.
    lost_at: Rc<Cell<Stamp>>,
    /// Whether it is lost now.
    is_lost: Rc<Cell<bool>>,
}

impl Connection {
    /// Follows a session until it is over, and notes what becomes of it.
    pub fn follow(&self, session: &Session, note: impl Fn(history::SessionState) + 'static) {
        self.is_lost.set(false);
        let (lost_at, is_lost) = (Rc::clone(&self.lost_at), Rc::clone(&self.is_lost));
        let mut states = session.states();
        let following = async move {
            let mut state = states.peek_state();
            while !state.is_terminated() {
                state = states.changed().await;
                let was_lost = is_lost.replace(state != SessionState::SyncConnected);
                if is_lost.get() && !was_lost {
                    lost_at.set(clock::now());
                }
                note(if state.is_terminated() {
                    history::SessionState::Expired
                } else if is_lost.get() {
                    history::SessionState::Suspended
                } else {
                    history::SessionState::Connected
                });
            }
        };
        reactor::spawn_local(following).detach();
    }

    /// When the connection was lost, if that was after a time or if it had been lost before and was not back then.
    #[must_use]
    pub fn lost_since(&self, entered: Stamp) -> Option<Stamp> {
        let at = self.lost_at.get();
        (at > 0 && (at >= entered || self.is_lost.get())).then_some(at)
    }
}
