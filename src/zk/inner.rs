//! What a session and its watches share: the client, and the books that everything is counted in.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zookeeper_client::Client;

use super::armed::{Arm, Armed, Arrival, EventKind};
use super::changes::ChangeLog;
use super::news::News;
use super::stamp::{Pulse, StampWaker};
use super::wire;
use crate::clock::{self, Stamp};
use crate::measure::{Measure, RequestKind, Sheet};

/// A request as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The session that sent it.
    pub session: i64,
    /// Its kind.
    pub kind: RequestKind,
    /// The path that it names; for a multi its operations.
    pub path: String,
}

/// Where a session writes what it sees. Shared by the sessions of one generator thread.
#[derive(Clone)]
pub struct Observed {
    /// The thread's sheet.
    pub sheet: Rc<RefCell<Sheet>>,
    /// Moves with everything sent or received.
    pub pulse: Pulse,
    /// When the ensemble last answered anybody.
    pub last_reply: Arc<AtomicU64>,
    /// The change log of each lock path.
    pub changes: Rc<[(Rc<str>, Arc<ChangeLog>)]>,
    /// Whether lists are asked for with the parent's stat, 68 bytes more in each reply, so that it is known as of which
    /// transaction they are true.
    pub dates_lists: bool,
    /// Every request in the order of sending, where somebody wants to read them: the conformance tests.
    pub trace: Option<Rc<RefCell<Vec<Sent>>>>,
}

/// The one session behind all its handles.
pub(super) struct Inner {
    // Dropped before `parked`: a watch dropped after its client sends nothing.
    pub(super) client: Client,
    pub(super) observed: Observed,
    pub(super) owned: bool,
    pub(super) request_timeout: Duration,
    pub(super) parked: RefCell<Vec<Armed>>,
    pub(super) arrivals: RefCell<Vec<Arrival>>,
    pub(super) wakers: RefCell<Vec<Arc<StampWaker>>>,
    pub(super) lag_us: Cell<u64>,
    /// Time spent in requests since it was last taken, the lag included, and by which sleeps ended late.
    pub(super) busy_us: Cell<u64>,
    pub(super) news: News,
}

/// A request that has ended: by a reply of that many bytes, or by its deadline with none.
pub(super) struct Ended {
    pub(super) kind: RequestKind,
    pub(super) sent: Stamp,
    pub(super) succeeded: bool,
    /// Whether a server has answered; else the client library has ended it, or its deadline.
    pub(super) answered: bool,
    pub(super) bytes: u64,
}

impl Inner {
    pub(super) fn take_waker(&self) -> Arc<StampWaker> {
        self.wakers
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| StampWaker::new(Some(Arc::clone(&self.observed.pulse))))
    }

    /// Keeps a waker for the next request, unless the library still holds it and could wake it late.
    pub(super) fn return_waker(&self, waker: Arc<StampWaker>) {
        if Arc::strong_count(&waker) == 1 {
            waker.reset();
            self.wakers.borrow_mut().push(waker);
        }
    }

    pub(super) fn ended(&self, request: &Ended, waker: &StampWaker) {
        let Ended { kind, sent, succeeded, answered, bytes } = *request;
        let now = clock::now();
        let arrived = waker.arrived().unwrap_or(now);
        if answered {
            self.observed.last_reply.fetch_max(arrived, Ordering::Relaxed);
        }
        let lag = now.saturating_sub(arrived);
        self.lag_us.set(self.lag_us.get() + lag);
        self.busy_us.set(self.busy_us.get() + now.saturating_sub(sent));
        let mut sheet = self.observed.sheet.borrow_mut();
        sheet.record(Measure::Request(kind), now, arrived.saturating_sub(sent));
        sheet.record(Measure::DispatchLag, now, lag);
        sheet.count(now, |counts| {
            counts.succeeded.add(kind, u64::from(succeeded));
            counts.bytes_received += bytes;
        });
    }

    pub(super) fn listed(&self, path: &str, names: &[String]) -> Arm {
        let arm = Arm::of_list(names);
        self.observed
            .sheet
            .borrow_mut()
            .count(clock::now(), |counts| counts.names_returned += names.len() as u64);
        let own = self.observed.changes.iter().find(|(lock, _)| &**lock == path);
        if let Some((_, log)) = own {
            log.listed(&arm);
        }
        arm
    }

    /// The change log of the lock whose queue node this path is.
    pub(super) fn log_of(&self, node: &str) -> Option<&ChangeLog> {
        let (lock, _) = node.rsplit_once('/')?;
        self.observed.changes.iter().find(|(path, _)| &**path == lock).map(|(_, log)| &**log)
    }

    /// The contender was woken: its own lag on the way to the lock begins here.
    pub(super) fn woken_by(&self, arrival: &Arrival) {
        let now = clock::now();
        let lag = now.saturating_sub(arrival.at);
        self.lag_us.set(lag);
        self.observed.sheet.borrow_mut().record(Measure::DispatchLag, now, lag);
    }

    /// Counts a notification and keeps it for whoever finds out what caused it.
    pub(super) fn deliver(&self, arrival: Arrival) {
        if arrival.kind == EventKind::SessionOver {
            return;
        }
        let mut sheet = self.observed.sheet.borrow_mut();
        sheet.count(arrival.at, |counts| {
            let seen = &mut counts.notifications;
            match arrival.kind {
                EventKind::NodeCreated => seen.node_created += 1,
                EventKind::NodeDeleted => seen.node_deleted += 1,
                EventKind::DataChanged => seen.data_changed += 1,
                EventKind::ChildrenChanged => seen.children_changed += 1,
                EventKind::SessionOver => {}
            }
            counts.bytes_received += wire::event(&arrival.path);
        });
        if let Some(second) = sheet.second(arrival.at) {
            second.notifications += 1;
        }
        drop(sheet);
        self.arrivals.borrow_mut().push(arrival);
    }

    /// Keeps a watch that nobody waits for any more; it stays armed on the server.
    pub(super) fn park(&self, armed: Armed) {
        self.parked.borrow_mut().push(armed);
        self.reap();
    }

    /// Delivers what has arrived at parked watches.
    pub(super) fn reap(&self) {
        let mut parked = self.parked.borrow_mut();
        let mut position = 0;
        while position < parked.len() {
            let armed = &mut parked[position];
            match armed.has_arrived().then(|| armed.poll(&mut Context::from_waker(Waker::noop()), false)) {
                Some(Poll::Ready(arrival)) => {
                    parked.swap_remove(position);
                    self.deliver(arrival);
                }
                _ => position += 1,
            }
        }
    }

    /// The server keeps one watch for each path and kind in a session, so a watch set anew takes the place
    /// of one left behind: one notification will come, and it must be counted once.
    pub(super) fn supersede(&self, fresh: &Armed) {
        self.reap();
        self.parked.borrow_mut().retain(|old| old.path != fresh.path || old.child != fresh.child);
    }

    pub(super) fn count_removal(&self, path: &str) {
        let now = clock::now();
        self.observed.sheet.borrow_mut().count(now, |counts| {
            counts.requests.add(RequestKind::RemoveWatches, 1);
            counts.succeeded.add(RequestKind::RemoveWatches, 1);
            counts.bytes_sent += wire::delete(path);
            counts.bytes_received += wire::EMPTY_REPLY;
        });
    }
}
