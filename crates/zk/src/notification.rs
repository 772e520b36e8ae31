//! Replies and notifications, timestamped on arrival rather than on processing.
//!
//! The client library wakes the waiting task from the task that has just read the socket. [`StampWaker`]
//! intercepts that wake-up: it records the time and then forwards the wake-up. The time until the contender
//! runs is the generator's own dispatch lag, measured for every sample.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use zookeeper_client::{EventType, Names, OneshotWatcher, WatchedEvent};

use super::counter;
use zklockbench_core::clock::{self, Stamp};

/// Counter of requests, replies and notifications, for detecting inactivity.
pub type Pulse = Arc<AtomicU64>;

#[derive(Debug, Default)]
pub struct StampWaker {
    arrived: AtomicU64,
    task: AtomicWaker,
    pulse: Option<Pulse>,
}

impl StampWaker {
    /// Creates a waker; each wake-up also increments the pulse.
    pub fn new(pulse: Option<Pulse>) -> Arc<Self> {
        Arc::new(Self { arrived: AtomicU64::new(0), task: AtomicWaker::new(), pulse })
    }

    /// Returns the time of the first wake-up, if any.
    pub fn arrived(&self) -> Option<Stamp> {
        Some(self.arrived.load(Ordering::Acquire)).filter(|stamp| *stamp != 0)
    }

    /// Clears the wake-up, for reuse with another future.
    pub fn reset(&self) {
        self.arrived.store(0, Ordering::Release);
    }

    /// Polls a future. Its wake-up is stamped before it reaches the current task.
    pub fn poll<F: Future + ?Sized>(
        self: &Arc<Self>,
        future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(self));
        future.poll(&mut Context::from_waker(&waker))
    }
}

impl Wake for StampWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only the first wake-up is the arrival. 0 means that there was no wake-up, so stamps are at least 1.
        let _ = self.arrived.compare_exchange(0, clock::now().max(1), Ordering::AcqRel, Ordering::Relaxed);
        if let Some(pulse) = &self.pulse {
            pulse.fetch_add(1, Ordering::Relaxed);
        }
        self.task.wake();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    NodeCreated,
    NodeDeleted,
    DataChanged,
    /// A child of the watched node was created or deleted.
    ChildrenChanged,
    /// The session ended; this event comes from the client library, not the server.
    SessionOver,
}

/// Summary of the list returned when a child watch was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arm {
    pub children: i64,
    pub lowest: Option<i64>,
    pub highest: Option<i64>,
}

impl Arm {
    /// Reads the sequence numbers from a list of children.
    pub fn of_list(names: &Names) -> Self {
        let mut arm = Self { children: i64::try_from(names.len()).unwrap_or(i64::MAX), ..Self::default() };
        for sequence in names.iter().filter_map(sequence_of) {
            arm.lowest = Some(arm.lowest.map_or(sequence, |lowest| lowest.min(sequence)));
            arm.highest = Some(arm.highest.map_or(sequence, |highest| highest.max(sequence)));
        }
        arm
    }

    /// Returns the number of children created before the list was taken.
    pub fn creates(&self) -> i64 {
        self.highest.map_or(0, |highest| highest + 1)
    }

    /// Returns the number of changes to the children before the list was taken; `None` if unknown, e.g. for
    /// an empty list.
    pub fn change_number(&self) -> Option<i64> {
        let shows = |number: &i64| self.lowest.is_some_and(counter::is_unique) && counter::is_unique(*number);
        self.highest.filter(shows).map(|_| 2 * self.creates() - self.children)
    }
}

/// Parses the sequence number at the end of a node's name: at least ten characters, including any minus sign.
/// Servers assign negative numbers only at the end of their counter.
pub fn sequence_of(name: &str) -> Option<i64> {
    let digits = name.get(name.len().checked_sub(10)?..)?;
    let (digits, negative) = match digits.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (digits, false),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    // `%010d` formats a ten-digit negative number with eleven characters.
    let longer =
        !negative && name.len() > 10 && name.as_bytes()[name.len() - 11] == b'-' && number > 999_999_999;
    let follows_a_mark = || name.len() > 11 && matches!(name.as_bytes()[name.len() - 12], b'-' | b'_');
    // No counter gets this high, so the minus sign belongs to the number.
    let is_too_high = number > i64::from(i32::MAX);
    let is_negative = negative || longer && (is_too_high || follows_a_mark());
    let number = if is_negative { -number } else { number };
    i32::try_from(number).ok().map(i64::from)
}

#[derive(Debug, Clone)]
pub struct Notification {
    pub kind: EventKind,
    pub path: Rc<str>,
    pub at: Stamp,
    /// For a child watch: the list returned when the watch was set.
    pub armed: Option<Arm>,
    /// Transaction of the event; -1 from servers before 3.9, which do not report the transaction.
    pub zxid: i64,
    /// Whether a contender was waiting; a watch left behind by an earlier acquire is not awaited.
    pub awaited: bool,
    /// Rank (from 1) among the waiters woken by the same change of the lock. `None` if no contender was
    /// waiting, or if the event does not concern a lock.
    pub rank: Option<u32>,
}

type Delivery = Pin<Box<dyn Future<Output = WatchedEvent>>>;

/// An armed watch and its pending notification.
pub(super) struct Armed {
    delivery: Delivery,
    stamp: Arc<StampWaker>,
    pub(super) path: Rc<str>,
    pub(super) child: bool,
    arm: Option<Arm>,
}

impl Armed {
    pub(super) fn new(
        watcher: OneshotWatcher,
        stamp: Arc<StampWaker>,
        path: Rc<str>,
        arm: Option<Arm>,
    ) -> Self {
        let mut armed =
            Self { delivery: Box::pin(watcher.changed()), stamp, path, child: arm.is_some(), arm };
        // The first poll registers the waker, which timestamps the delivery. If an event has already arrived,
        // the poll consumes it, so keep that event as a ready future, stamped with the current time.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(event) = armed.stamp.poll(armed.delivery.as_mut(), &mut context) {
            armed.delivery = Box::pin(std::future::ready(event));
            Waker::from(Arc::clone(&armed.stamp)).wake();
        }
        armed
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, awaited: bool) -> Poll<Notification> {
        self.stamp.poll(self.delivery.as_mut(), cx).map(|event| Notification {
            kind: kind_of(event.event_type),
            path: Rc::clone(&self.path),
            at: self.stamp.arrived().unwrap_or_else(clock::now),
            armed: self.arm,
            zxid: event.zxid,
            awaited,
            rank: None,
        })
    }

    /// Returns whether the notification has arrived and can be polled.
    pub(super) fn has_arrived(&self) -> bool {
        self.stamp.arrived().is_some()
    }
}

fn kind_of(event: EventType) -> EventKind {
    match event {
        EventType::NodeCreated => EventKind::NodeCreated,
        EventType::NodeDeleted => EventKind::NodeDeleted,
        EventType::NodeDataChanged => EventKind::DataChanged,
        EventType::NodeChildrenChanged => EventKind::ChildrenChanged,
        EventType::Session => EventKind::SessionOver,
    }
}

#[cfg(test)]
mod tests {
    use super::{sequence_of, *};

    #[tokio::test(start_paused = true)]
    async fn arrival_is_stamped_when_the_message_is_sent() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let waker = StampWaker::new(None);
        let mut receiver = std::pin::pin!(receiver);
        std::future::poll_fn(|cx| {
            assert!(waker.poll(receiver.as_mut(), cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(waker.arrived(), None);
        sender.send(()).unwrap();
        let sent = clock::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(waker.arrived().unwrap() <= sent);
    }

    #[test]
    fn sequence_of_returns_the_number_at_the_end_of_a_name() {
        assert_eq!(sequence_of("n-0000000042"), Some(42));
        assert_eq!(sequence_of("_c_0a1b-lock-0000000007"), Some(7));
        assert_eq!(sequence_of("n-2147483647"), Some(2_147_483_647));
        assert_eq!(sequence_of("config"), None);
    }

    #[test]
    fn negative_sequence_numbers_keep_their_sign() {
        assert_eq!(sequence_of("n--2147483648"), Some(-2_147_483_648));
        assert_eq!(sequence_of("n--000000001"), Some(-1));
        assert_eq!(sequence_of("temp-2147483648"), Some(-2_147_483_648));
    }

    #[test]
    fn sequence_of_ignores_numbers_that_no_server_assigns() {
        assert_eq!(sequence_of("n2147483648"), None);
        assert_eq!(sequence_of("backup-9999999999"), None);
    }
}
