//! What a session and its watches share: the client, what everything is counted in, and how far into the ensemble's order
//! of transactions the session has seen.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zookeeper_client::{Client, Names};

use super::changes::{ChangeLog, ChangeLogs};
use super::notification::{Arm, Armed, EventKind, Notification, Pulse, StampWaker};
use super::throttle::Throttle;
use super::whose::ForeignSession;
use super::wire;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Counts, Measure, RequestKind, ThreadRecorder};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub session: i64,
    pub kind: RequestKind,
    /// The path that it names; for a multi its operations.
    pub path: String,
}

/// Where a session writes what it sees. Shared by the sessions of one generator thread.
#[derive(Clone)]
pub struct Observed {
    pub recorder: Rc<RefCell<ThreadRecorder>>,
    pub pulse: Pulse,
    pub last_reply: Arc<AtomicU64>,
    pub changes: Option<Arc<dyn ChangeLogs>>,
    /// Whether lists are asked for with the parent's stat, 68 bytes more in each reply, so that it is known as of which
    /// transaction they are true.
    pub dates_lists: bool,
    /// What the requests are paid to, where their rate is limited.
    pub throttle: Option<Arc<Throttle>>,
    /// Every request in the order of sending, for the conformance tests.
    pub trace: Option<Rc<RefCell<Vec<Sent>>>>,
}

thread_local! {
    static UNREAD: Rc<RefCell<ThreadRecorder>> = Rc::new(RefCell::new(ThreadRecorder::new(1)));
}

impl Observed {
    /// For a session whose figures nobody reads. All of a thread share one recorder, as each takes megabytes.
    pub fn by_nobody() -> Self {
        Self {
            recorder: UNREAD.with(Rc::clone),
            pulse: Arc::default(),
            last_reply: Arc::default(),
            changes: None,
            dates_lists: false,
            throttle: None,
            trace: None,
        }
    }

    pub(super) fn count(&self, at: Stamp, change: impl Fn(&mut Counts)) {
        self.recorder.borrow_mut().count(at, change);
    }
}

pub(super) struct Inner {
    // Dropped before `parked`: a watch dropped after its client sends nothing.
    pub(super) client: Client,
    pub(super) observed: Observed,
    pub(super) owned: bool,
    pub(super) request_timeout: Duration,
    pub(super) parked: RefCell<Vec<Armed>>,
    pub(super) notifications: RefCell<Vec<Notification>>,
    pub(super) wakers: RefCell<Vec<Arc<StampWaker>>>,
    pub(super) lag_us: Cell<u64>,
    /// Time spent in requests since it was last taken, the lag included, and by which sleeps ended late.
    pub(super) busy_us: Cell<u64>,
    pub(super) news: News,
    /// The node whose deletion was asked for last; empty for none.
    pub(super) deleted: RefCell<String>,
    /// The session that it stands for, where another program takes the locks.
    pub(super) foreign: Option<Arc<dyn ForeignSession>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) kind: RequestKind,
    pub(super) at: Stamp,
}

/// A request that has ended: by a reply of that many bytes, or by its deadline with none.
pub(super) struct AnsweredRequest {
    pub(super) sent: Begun,
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

    pub(super) fn ended(&self, request: &AnsweredRequest, waker: &StampWaker) {
        let AnsweredRequest { sent: Begun { kind, at: sent }, succeeded, answered, bytes } = *request;
        let now = clock::now();
        let arrived = waker.arrived().unwrap_or(now);
        if answered {
            self.observed.last_reply.fetch_max(arrived, Ordering::Relaxed);
        }
        let lag = now.saturating_sub(arrived);
        self.lag_us.set(self.lag_us.get() + lag);
        self.busy_us.set(self.busy_us.get() + now.saturating_sub(sent));
        let mut recorder = self.observed.recorder.borrow_mut();
        recorder.record(Measure::Request(kind), now, arrived.saturating_sub(sent));
        recorder.record(Measure::DispatchLag, now, lag);
        recorder.count(now, |counts| {
            counts.succeeded.add(kind, u64::from(succeeded));
            counts.bytes_received += bytes;
        });
    }

    pub(super) fn listed(&self, path: &str, names: &Names) -> Arm {
        let arm = Arm::of_list(names);
        self.observed.count(clock::now(), |counts| counts.names_returned += names.len() as u64);
        if let Some(log) = self.log_at(path) {
            log.listed(&arm);
        }
        arm
    }

    pub(super) fn note_deletion(&self, path: &str) {
        let mut deleted = self.deleted.borrow_mut();
        deleted.clear();
        deleted.push_str(path);
    }

    /// The change log of the lock whose queue this path is.
    fn log_at(&self, queue: &str) -> Option<&ChangeLog> {
        self.observed.changes.as_ref()?.at(queue)
    }

    /// The change log of the lock whose queue node this path is.
    pub(super) fn log_of(&self, node: &str) -> Option<&ChangeLog> {
        let (lock, _) = node.rsplit_once('/')?;
        self.log_at(lock)
    }

    /// Counts a notification and keeps it until its cause is found out.
    pub(super) fn deliver(&self, mut notification: Notification) {
        if notification.kind == EventKind::SessionOver {
            return;
        }
        let mut recorder = self.observed.recorder.borrow_mut();
        recorder.count(notification.at, |counts| {
            let seen = &mut counts.notifications;
            match notification.kind {
                EventKind::NodeCreated => seen.node_created += 1,
                EventKind::NodeDeleted => seen.node_deleted += 1,
                EventKind::DataChanged => seen.data_changed += 1,
                EventKind::ChildrenChanged => seen.children_changed += 1,
                EventKind::SessionOver => {}
            }
            counts.bytes_received += wire::event(&notification.path);
        });
        if let Some(second) = recorder.second(notification.at) {
            second.notifications += 1;
        }
        drop(recorder);
        if notification.awaited {
            let log = self.log_at(&notification.path).or_else(|| self.log_of(&notification.path));
            notification.rank = log.map(|log| log.ranks.next(&notification));
        }
        self.notifications.borrow_mut().push(notification);
    }

    pub(super) fn reap(&self) {
        let mut parked = self.parked.borrow_mut();
        let mut position = 0;
        while position < parked.len() {
            let armed = &mut parked[position];
            match armed.has_arrived().then(|| armed.poll(&mut Context::from_waker(Waker::noop()), false)) {
                Some(Poll::Ready(notification)) => {
                    parked.swap_remove(position);
                    self.deliver(notification);
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
}

/// How far into the ensemble's order of transactions a session can have seen since it was last asked to forget, as the
/// stats in its replies prove.
///
/// A server applies all transactions in their order, so a session that has seen the trace of one has seen the effect of all
/// before it. The client library keeps the zxid in the header of a reply to itself; stats tell another, which is no
/// higher: that of the last change of what the reply shows. For the question at hand that is as good. A list that no
/// longer shows a node carries the zxid of that node's deletion or of a later change of the same directory; one that
/// still shows it carries an older one.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The latest transaction whose trace was seen.
    zxid: Cell<i64>,
    last: RefCell<Last>,
}

#[derive(Debug, Default)]
enum Last {
    /// There is none: nothing that was asked for has passed this session.
    #[default]
    Nothing,
    Told,
    /// An event of servers before 3.9, which do not say when it was so.
    Event(Rc<str>, EventKind, i64),
    /// It can't be said when it was so: of a node that is not there, for example.
    Undated,
}

/// An event that came without its transaction, and was the last thing that was learned. Which transaction it was, the logs
/// of its servers tell: watches fire once, so it was the first one of its kind after the watch was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undated {
    pub kind: EventKind,
    pub path: Rc<str>,
    /// After that transaction, which the session knew of when the look at the node that set the watch was answered.
    pub after: i64,
    /// The latest transaction that the session has seen any trace of.
    pub seen: i64,
}

impl News {
    /// Something was learned that is true as of that transaction.
    pub(super) fn learn(&self, zxid: i64) {
        if zxid > 0 {
            self.raise(zxid);
            self.last.replace(Last::Told);
        } else {
            self.learn_undated();
        }
    }

    /// An event has come, of a watch that was set when that transaction was known.
    pub(super) fn hear(&self, notification: &Notification, after: i64) {
        self.learn(notification.zxid);
        if notification.zxid <= 0 && notification.kind != EventKind::SessionOver {
            self.last.replace(Last::Event(Rc::clone(&notification.path), notification.kind, after));
        }
    }

    /// A trace of that transaction was seen on the way, which by itself decides nothing.
    pub(super) fn raise(&self, zxid: i64) {
        self.zxid.set(self.zxid.get().max(zxid));
    }

    /// Something was learned, and not as of when.
    pub(super) fn learn_undated(&self) {
        self.last.replace(Last::Undated);
    }

    /// From here on nothing is known.
    pub(super) fn forget(&self) {
        self.zxid.set(0);
        self.last.replace(Last::Nothing);
    }

    /// The latest transaction whose trace was seen; 0 for none.
    fn seen(&self) -> i64 {
        self.zxid.get()
    }

    /// As of which transaction the last thing learned is true; `None` when that is not known.
    pub(super) fn zxid(&self) -> Option<i64> {
        Some(self.seen()).filter(|zxid| matches!(*self.last.borrow(), Last::Told) && *zxid > 0)
    }

    /// The last thing learned, where that was an event without its transaction.
    pub(super) fn undated(&self) -> Option<Undated> {
        match &*self.last.borrow() {
            Last::Event(path, kind, after) => {
                Some(Undated { kind: *kind, path: Rc::clone(path), after: *after, seen: self.seen() })
            }
            _ => None,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(*self.last.borrow(), Last::Nothing)
    }
}

/// A handle to an armed watch.
///
/// Dropping it leaves the watch armed, as Java clients do: its notification is then still counted when it
/// arrives. [`Watch::remove`] takes it off the server, at the price of a request.
pub struct Watch {
    armed: Option<Armed>,
    session: Rc<Inner>,
    /// The latest transaction that was known when it was set.
    after: i64,
}

impl Watch {
    pub(super) fn new(armed: Armed, session: Rc<Inner>) -> Self {
        let after = session.news.seen();
        Self { armed: Some(armed), session, after }
    }

    /// Waits for the notification. Cancelling the wait leaves the watch armed.
    pub async fn changed(&mut self) -> EventKind {
        let notification = poll_fn(|cx| match &mut self.armed {
            Some(armed) => armed.poll(cx, true),
            // Fired before: a later wait is answered at once, as by a latch.
            None => Poll::Pending,
        })
        .await;
        self.armed = None;
        let kind = notification.kind;
        self.session.news.hear(&notification, self.after);
        // The contender's own lag on the way to the lock begins here.
        let now = clock::now();
        let lag = now.saturating_sub(notification.at);
        self.session.lag_us.set(lag);
        self.session.observed.recorder.borrow_mut().record(Measure::DispatchLag, now, lag);
        self.session.deliver(notification);
        kind
    }

    pub fn is_armed(&self) -> bool {
        self.armed.as_ref().is_some_and(|armed| !armed.has_arrived())
    }

    /// Takes the watch off the server by removeWatches, as this client library does when an armed watch is dropped.
    pub fn remove(mut self) {
        let Some(armed) = self.armed.take() else { return };
        self.session.observed.count(clock::now(), |counts| {
            counts.requests.add(RequestKind::RemoveWatches, 1);
            counts.succeeded.add(RequestKind::RemoveWatches, 1);
            counts.bytes_sent += wire::delete(&armed.path);
            counts.bytes_received += wire::EMPTY_REPLY;
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It stays armed on the server. It is not polled here: what drops it may itself be ending, and the client library's
        // watch panics when it is polled after the session's own task.
        if let Some(armed) = self.armed.take() {
            self.session.parked.borrow_mut().push(armed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_last_must_have_a_date_and_the_date_never_goes_back() {
        let news = News::default();
        assert_eq!(news.zxid(), None);
        news.raise(9);
        assert_eq!(news.zxid(), None, "a trace on the way decides nothing");
        news.learn(5);
        assert_eq!(news.zxid(), Some(9));
        news.learn_undated();
        assert_eq!(news.zxid(), None);
        news.learn(12);
        assert_eq!(news.zxid(), Some(12));
        news.learn(-1);
        assert_eq!(news.zxid(), None, "an event of a server before 3.9 says -1");
        news.forget();
        news.raise(3);
        assert_eq!(news.zxid(), None);
        assert!(news.is_none());
    }

    #[test]
    fn an_event_without_its_transaction_is_kept_with_what_was_known_when_its_watch_was_set() {
        let news = News::default();
        let notification = |zxid| Notification {
            kind: EventKind::DataChanged,
            path: "/l/n-1".into(),
            at: 0,
            armed: None,
            zxid,
            awaited: true,
            rank: None,
        };
        news.learn(9);
        news.hear(&notification(-1), 5);
        let undated = Undated { kind: EventKind::DataChanged, path: "/l/n-1".into(), after: 5, seen: 9 };
        assert_eq!((news.zxid(), news.undated()), (None, Some(undated)));
        // What is learned later has the word, and so has an event that says when it was
        news.hear(&notification(12), 9);
        assert_eq!((news.zxid(), news.undated()), (Some(12), None));
        news.learn_undated();
        assert_eq!((news.zxid(), news.undated()), (None, None));
    }
}
