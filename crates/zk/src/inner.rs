//! State shared by a session and its watches: client, counters, and the latest transaction observed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zookeeper_client::{Client, Names};

use super::changes::{ChangeLog, ChangeLogs};
use super::messages::{MessageKind, Messages};
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
    /// Path of the request; for a multi, its operations.
    pub path: String,
}

/// Destination of a session's observations. All sessions of a generator thread share one recorder.
#[derive(Clone)]
pub struct Observed {
    pub recorder: Rc<RefCell<ThreadRecorder>>,
    pub pulse: Pulse,
    pub last_reply: Arc<AtomicU64>,
    pub changes: Option<Arc<dyn ChangeLogs>>,
    /// Rate limiter for the requests, if any.
    pub throttle: Option<Arc<Throttle>>,
    /// All requests in the order sent, for the conformance tests.
    pub trace: Option<Rc<RefCell<Vec<Sent>>>>,
    /// Last messages of the contender.
    pub messages: Option<Arc<Messages>>,
}

thread_local! {
    static UNREAD: Rc<RefCell<ThreadRecorder>> = Rc::new(RefCell::new(ThreadRecorder::new(1)));
}

impl Observed {
    /// Returns a destination for sessions without metrics. It is shared per thread, because a recorder takes
    /// megabytes.
    pub fn by_nobody() -> Self {
        Self {
            recorder: UNREAD.with(Rc::clone),
            pulse: Arc::default(),
            last_reply: Arc::default(),
            changes: None,
            throttle: None,
            trace: None,
            messages: None,
        }
    }

    pub(super) fn note(&self, at: Stamp, kind: MessageKind, path: &str) {
        if let Some(messages) = &self.messages {
            messages.note(at, kind, path);
        }
    }

    pub(super) fn count(&self, at: Stamp, change: impl Fn(&mut Counts)) {
        self.recorder.borrow_mut().count(at, change);
    }
}

pub(super) struct Inner {
    pub(super) client: Client,
    pub(super) observed: Observed,
    pub(super) owned: bool,
    pub(super) request_timeout: Duration,
    pub(super) parked: RefCell<Vec<Armed>>,
    pub(super) notifications: RefCell<Vec<Notification>>,
    pub(super) wakers: RefCell<Vec<Arc<StampWaker>>>,
    pub(super) lag_us: Cell<u64>,
    /// Time spent in requests since the last `take_busy_us`, including dispatch lag and overslept time.
    pub(super) busy_us: Cell<u64>,
    /// Number of requests sent since the last `take_requests`.
    pub(super) requests: Cell<u64>,
    pub(super) news: News,
    /// Path of the last node whose deletion was requested; empty if none.
    pub(super) deleted: RefCell<String>,
    /// Session of another program that this session represents, if the other program takes the locks.
    pub(super) foreign: Option<Arc<dyn ForeignSession>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) kind: RequestKind,
    pub(super) at: Stamp,
}

impl Inner {
    pub(super) fn take_waker(&self) -> Arc<StampWaker> {
        self.wakers
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| StampWaker::new(Some(Arc::clone(&self.observed.pulse))))
    }

    /// Keeps a waker for the next request, unless the library still holds the waker and could wake it late.
    pub(super) fn return_waker(&self, waker: Arc<StampWaker>) {
        if Arc::strong_count(&waker) == 1 {
            waker.reset();
            self.wakers.borrow_mut().push(waker);
        }
    }

    /// Records the end of a request: its message, the reply's size, the latency and the dispatch lag.
    pub(super) fn ended(&self, sent: Begun, arrived: Option<Stamp>, message: MessageKind, bytes: u64) {
        let now = clock::now();
        let arrived = arrived.unwrap_or(now);
        let is_answered = !matches!(message, MessageKind::NoReply(..));
        if is_answered {
            self.observed.last_reply.fetch_max(arrived, Ordering::Relaxed);
        }
        // The server answers an exists on a missing node with NoNode. This reply does not count as a success.
        let is_absent =
            matches!(sent.kind, RequestKind::Exists | RequestKind::ExistsWatch) && bytes == wire::EMPTY_REPLY;
        let succeeded = matches!(message, MessageKind::Reply(_)) && !is_absent;
        self.observed.note(arrived, message, "");
        let lag = now.saturating_sub(arrived);
        self.lag_us.set(self.lag_us.get() + lag);
        self.busy_us.set(self.busy_us.get() + now.saturating_sub(sent.at));
        let mut recorder = self.observed.recorder.borrow_mut();
        recorder.record(Measure::Request(sent.kind), now, arrived.saturating_sub(sent.at));
        recorder.record(Measure::DispatchLag, now, lag);
        recorder.count(now, |counts| {
            counts.succeeded.add(sent.kind, u64::from(succeeded));
            counts.bytes_received += bytes;
        });
    }

    /// Records an observation as of the transaction in the last reply's header.
    pub(super) fn learn_of_reply(&self) {
        self.news.learn(self.client.last_reply_zxid());
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

    /// Returns the change log of the lock with this queue directory.
    fn log_at(&self, queue: &str) -> Option<&ChangeLog> {
        self.observed.changes.as_ref()?.at(queue)
    }

    /// Returns the change log of the lock whose queue contains this node.
    pub(super) fn log_of(&self, node: &str) -> Option<&ChangeLog> {
        let (lock, _) = node.rsplit_once('/')?;
        self.log_at(lock)
    }

    /// Counts a notification, and keeps it for `take_notifications`.
    pub(super) fn deliver(&self, mut notification: Notification) {
        if notification.kind == EventKind::SessionOver {
            return;
        }
        self.observed.note(notification.at, MessageKind::Notification(notification.kind), &notification.path);
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

    /// Drops the watches that `fresh` replaces. The server keeps one watch per session, path and kind, and its
    /// single notification must be counted only once.
    pub(super) fn supersede(&self, fresh: &Armed) {
        self.reap();
        self.parked.borrow_mut().retain(|old| old.path != fresh.path || old.child != fresh.child);
    }
}

/// A session's progress in the ensemble's transaction order since the last reset, as shown by its replies.
///
/// A server applies transactions in order, so a session that observed one transaction has observed all
/// earlier ones. A reply's header contains the last transaction that the server had applied at the time of
/// the read. A stat contains the last change of the returned data, which may be earlier. If a reply has a
/// stat, the stat takes precedence.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Latest transaction observed.
    zxid: Cell<i64>,
    last: RefCell<Last>,
}

#[derive(Debug, Default)]
enum Last {
    /// Nothing has been received since the reset.
    #[default]
    Nothing,
    Told,
    /// An event without its transaction, from a server before 3.9.
    Event(Rc<str>, EventKind, i64),
    /// An observation whose transaction is unknown, e.g. the end of the session.
    Undated,
}

/// The session's last observation, if it was an event without its transaction. The servers' logs contain the
/// transaction: a watch fires once, so the event was the first of its kind after the watch was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undated {
    pub kind: EventKind,
    pub path: Rc<str>,
    /// Latest transaction known to the session when it received the reply to the read that set the watch.
    pub after: i64,
    /// Highest zxid that the session has observed.
    pub seen: i64,
}

impl News {
    /// Records an observation as of this transaction.
    pub(super) fn learn(&self, zxid: i64) {
        if zxid > 0 {
            self.raise(zxid);
            self.last.replace(Last::Told);
        } else {
            self.learn_undated();
        }
    }

    /// Records an event of a watch that was set when `after` was the latest known transaction.
    pub(super) fn hear(&self, notification: &Notification, after: i64) {
        self.learn(notification.zxid);
        if notification.zxid <= 0 && notification.kind != EventKind::SessionOver {
            self.last.replace(Last::Event(Rc::clone(&notification.path), notification.kind, after));
        }
    }

    /// Raises the latest observed transaction, but does not record an observation.
    pub(super) fn raise(&self, zxid: i64) {
        self.zxid.set(self.zxid.get().max(zxid));
    }

    /// Records an observation whose transaction is unknown.
    pub(super) fn learn_undated(&self) {
        self.last.replace(Last::Undated);
    }

    pub(super) fn forget(&self) {
        self.zxid.set(0);
        self.last.replace(Last::Nothing);
    }

    /// Returns the latest transaction observed; 0 if none.
    fn seen(&self) -> i64 {
        self.zxid.get()
    }

    /// Returns the latest zxid as of the last observation; `None` if unknown.
    pub(super) fn zxid(&self) -> Option<i64> {
        Some(self.seen()).filter(|zxid| matches!(*self.last.borrow(), Last::Told) && *zxid > 0)
    }

    /// Returns the last observation, if it was an event without its transaction.
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
/// Dropping the handle leaves the watch armed, as in Java clients. The notification is counted on arrival.
pub struct Watch {
    armed: Option<Armed>,
    session: Rc<Inner>,
    /// Latest transaction known when the watch was set.
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
            // The event was already returned, and a watch fires only once.
            None => Poll::Pending,
        })
        .await;
        self.armed = None;
        let kind = notification.kind;
        self.session.news.hear(&notification, self.after);
        // The contender's lag is measured from this notification.
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
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The watch stays armed on the server. Do not poll the watch here: its owner may be ending, and the
        // client library panics when a watch is polled after the session's task has ended.
        if let Some(armed) = self.armed.take() {
            self.session.parked.borrow_mut().push(armed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxid_requires_a_dated_last_observation_and_never_decreases() {
        let news = News::default();
        assert_eq!(news.zxid(), None);
        news.raise(9);
        assert_eq!(news.zxid(), None, "`raise` does not date the last observation");
        news.learn(5);
        assert_eq!(news.zxid(), Some(9));
        news.learn_undated();
        assert_eq!(news.zxid(), None);
        news.learn(12);
        assert_eq!(news.zxid(), Some(12));
        news.learn(-1);
        assert_eq!(news.zxid(), None, "servers before 3.9 report -1 for events");
        news.forget();
        news.raise(3);
        assert_eq!(news.zxid(), None);
        assert!(news.is_none());
    }

    #[test]
    fn undated_event_is_kept_with_the_zxid_known_when_its_watch_was_set() {
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
        // A later observation takes precedence, whether or not its transaction is known
        news.hear(&notification(12), 9);
        assert_eq!((news.zxid(), news.undated()), (Some(12), None));
        news.learn_undated();
        assert_eq!((news.zxid(), news.undated()), (None, None));
    }
}
