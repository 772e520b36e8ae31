//! Waiting as Java's clients do: for the watched node's event or for a change of the connection.

use crate::zk::{Session, SessionState, StateWatcher, Watch};

/// Java delivers connection events to every watcher, so they wake a waiter just as the node's own do.
///
/// Keeps its place among the session's state changes from one wait to the next.
#[derive(Default)]
pub struct AnyEvent(Option<(i64, StateWatcher)>);

impl AnyEvent {
    /// Returns at the watch's notification or at the connection's next change.
    pub async fn on(&mut self, session: &Session, watch: &mut Watch) {
        let states = self.changes_from_now(session);
        tokio::select! {
            biased;
            _ = watch.changed() => {}
            _ = states.changed() => {}
        }
    }

    /// Returns when the connection has been made anew, or the session is over.
    pub async fn reconnected(&mut self, session: &Session) {
        let states = self.changes_from_now(session);
        loop {
            let state = states.changed().await;
            if state == SessionState::SyncConnected || state.is_terminated() {
                return;
            }
        }
    }

    fn changes_from_now(&mut self, session: &Session) -> &mut StateWatcher {
        self.0.take_if(|(id, _)| *id != session.id());
        let (_, states) = self.0.get_or_insert_with(|| (session.id(), session.states()));
        states.state();
        states
    }
}
