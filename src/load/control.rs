//! What can be done to one contender from outside while it contends, and what can be seen of it and of its connection.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lock::DeadlineClock;
use crate::record::history;
use crate::words::clock::{self, Stamp};
use crate::world::fault::{Admission, CrashOrders};
use crate::world::zk::gate::Gate;
use crate::world::zk::{Session, SessionKey, SessionState, reactor};

/// One contender as faults and conductor see it.
#[derive(Debug, Default)]
pub struct Control {
    /// Before all that it runs.
    pub gate: Arc<Gate>,
    /// By which it is let in to ask for the lock.
    pub admission: Arc<Admission>,
    pub clock: DeadlineClock,
    /// To die in the middle of what it does, and to come back as another process.
    pub crashes: Arc<CrashOrders>,
    waits_since: AtomicU64,
    lock: AtomicUsize,
    key: Mutex<Option<SessionKey>>,
    closings: Mutex<BTreeMap<i64, Closing>>,
}

/// How far the closing of another's session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// It may be over at any moment, and may never be.
    Begun,
    /// A server has said that it is over.
    Answered,
}

impl Control {
    pub fn at(lock: usize) -> Self {
        Self { lock: AtomicUsize::new(lock), ..Self::default() }
    }

    pub fn lock(&self) -> usize {
        self.lock.load(Ordering::Acquire)
    }

    pub fn uses(&self, lock: usize) {
        self.lock.store(lock, Ordering::Release);
    }

    pub fn set_session(&self, key: Option<SessionKey>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    pub fn session(&self) -> Option<SessionKey> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_being_closed(&self, session: i64) {
        self.closings.lock().unwrap_or_else(PoisonError::into_inner).insert(session, Closing::Begun);
    }

    /// A server has said that this session is over.
    pub fn was_closed(&self, session: i64) {
        self.closings.lock().unwrap_or_else(PoisonError::into_inner).insert(session, Closing::Answered);
    }

    /// How far another has come with closing that session, if one began to.
    pub fn closing(&self, session: i64) -> Option<Closing> {
        self.closings.lock().unwrap_or_else(PoisonError::into_inner).get(&session).copied()
    }

    pub fn waits(&self, since: Stamp) {
        self.waits_since.store(since.max(1), Ordering::Release);
    }

    pub fn waits_no_longer(&self) {
        self.waits_since.store(0, Ordering::Release);
    }

    pub fn waiting_since(&self) -> Option<Stamp> {
        Some(self.waits_since.load(Ordering::Acquire)).filter(|since| *since > 0)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// When it was lost last; 0 for never.
    lost_at: Rc<Cell<Stamp>>,
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
    pub fn lost_since(&self, entered: Stamp) -> Option<Stamp> {
        let at = self.lost_at.get();
        (at > 0 && (at >= entered || self.is_lost.get())).then_some(at)
    }
}
