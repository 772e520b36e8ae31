//! The contenders of a trial, as faults see them: what is known of each, and how one is kept away or ordered to crash.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_zk::SessionKey;
use zklockbench_zk::gate::Gate;

/// The contenders of a trial, by number.
pub trait Contenders: Send + Sync {
    /// All of them. Of a run by several workers, those of this one.
    fn all(&self) -> Vec<usize>;
    /// The directories of their locks.
    fn locks(&self) -> Vec<String>;
    /// Those that hold a lock at this moment.
    fn inside(&self) -> Vec<usize>;
    /// Those that wait for one, the longest first.
    fn waiting(&self) -> Vec<usize>;
    fn waits_since(&self, contender: usize) -> Option<Stamp>;
    /// What stands before all that one runs.
    fn gate(&self, contender: usize) -> Arc<Gate>;
    /// By which one is let in to ask for the lock.
    fn admission(&self, contender: usize) -> Arc<Admission>;
    fn session(&self, contender: usize) -> Option<SessionKey>;
    /// That session of it is about to be closed from outside.
    fn is_being_closed(&self, contender: usize, session: i64);
    /// A server has said that this session of it is over.
    fn was_closed(&self, contender: usize, session: i64);
    /// The clock by which it keeps its deadlines jumps ahead.
    fn clock_jumps(&self, contender: usize, by: Duration);
    /// Orders it to crash in the middle of what it does, once it does that.
    fn crash(&self, contender: usize, doing: Doing) -> CrashOrder;
    /// Locks acquired by all of them in the measured phase; of a run by several workers, as many as all of these have if they
    /// share alike.
    fn acquired(&self) -> u64;
}

/// One contender's admission. Closed, it lets the contender finish its turn and then keeps it away.
#[derive(Debug, Default)]
pub struct Admission {
    closed: AtomicUsize,
    /// Its contender has come in, for a turn.
    is_in: AtomicBool,
    opened_at: AtomicU64,
    opened: Notify,
}

impl Admission {
    /// Comes in, once it is admitted. Returns when it should have come: at that time, or when admission was opened if
    /// it was closed then.
    pub async fn come_in(&self, intended: Stamp) -> Stamp {
        // First in, then the look: so admission that is closed and seen empty is empty.
        self.is_in.store(true, Ordering::SeqCst);
        if !self.is_closed() {
            return intended;
        }
        loop {
            self.is_in.store(false, Ordering::SeqCst);
            let opened = self.opened.notified();
            if self.is_closed() {
                opened.await;
            }
            self.is_in.store(true, Ordering::SeqCst);
            if !self.is_closed() {
                return intended.max(self.opened_at.load(Ordering::SeqCst));
            }
        }
    }

    pub fn go_out(&self) {
        self.is_in.store(false, Ordering::SeqCst);
    }

    pub fn is_in(&self) -> bool {
        self.is_in.load(Ordering::SeqCst)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) > 0
    }

    fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn open(&self, at: Stamp) {
        self.opened_at.store(at, Ordering::SeqCst);
        self.closed.fetch_sub(1, Ordering::SeqCst);
        self.opened.notify_waiters();
    }
}

/// Admissions that are closed as long as this lives, however it ends, and then are opened all at once.
#[derive(Debug)]
pub struct KeptAway(Vec<Arc<Admission>>);

impl KeptAway {
    pub fn behind(admissions: Vec<Arc<Admission>>) -> Self {
        admissions.iter().for_each(|admission| admission.close());
        Self(admissions)
    }

    pub fn are_out(&self) -> bool {
        !self.0.iter().any(|admission| admission.is_in())
    }
}

impl Drop for KeptAway {
    fn drop(&mut self) {
        let at = clock::now();
        self.0.iter().for_each(|admission| admission.open(at));
    }
}

/// What a contender that is to crash has to be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Anything,
    Waiting,
    Holding,
}

/// The orders to crash that one contender has been given, in their order.
///
/// One crash carries out one order, so that it can prove no other. An order that is given up is taken back: nobody
/// crashes later for a fault that has long been recorded as not done.
#[derive(Debug, Default)]
pub struct CrashOrders {
    given: Mutex<Vec<Arc<OrderState>>>,
    /// The one that it is carrying out.
    taken: Mutex<Option<Arc<OrderState>>>,
    changed: Notify,
}

#[derive(Debug)]
struct OrderState {
    doing: Doing,
    is_carried_out: AtomicBool,
}

impl CrashOrders {
    pub fn give(self: &Arc<Self>, doing: Doing) -> CrashOrder {
        let order = Arc::new(OrderState { doing, is_carried_out: AtomicBool::new(false) });
        locked(&self.given).push(Arc::clone(&order));
        self.changed.notify_one();
        CrashOrder { order, orders: Arc::clone(self) }
    }

    /// Returns when the contender has to crash while it does that. It must then, and say so by
    /// [`CrashOrders::has_crashed`].
    pub async fn due(&self, doing: Doing) {
        while !self.take(doing) {
            self.changed.notified().await;
        }
    }

    fn take(&self, doing: Doing) -> bool {
        let mut given = locked(&self.given);
        let meant = |order: &Arc<OrderState>| order.doing == Doing::Anything || order.doing == doing;
        let Some(first) = given.iter().position(meant) else { return false };
        *locked(&self.taken) = Some(given.remove(first));
        true
    }

    /// Whether it is to crash in its next hold.
    pub fn waits_for_a_hold(&self) -> bool {
        locked(&self.given).iter().any(|order| order.doing == Doing::Holding)
    }

    pub fn has_crashed(&self) {
        if let Some(order) = locked(&self.taken).take() {
            order.is_carried_out.store(true, Ordering::SeqCst);
        }
    }
}

/// One order, as its giver sees it.
#[derive(Debug)]
#[must_use = "dropped, it is taken back"]
pub struct CrashOrder {
    order: Arc<OrderState>,
    orders: Arc<CrashOrders>,
}

impl CrashOrder {
    pub fn is_carried_out(&self) -> bool {
        self.order.is_carried_out.load(Ordering::SeqCst)
    }
}

impl Drop for CrashOrder {
    fn drop(&mut self) {
        locked(&self.orders.given).retain(|order| !Arc::ptr_eq(order, &self.order));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn an_open_admission_lets_in_at_the_intended_time_and_a_closed_one_when_all_have_opened_it() {
        let admission = Arc::new(Admission::default());
        assert_eq!(admission.come_in(7).await, 7);
        let one = KeptAway::behind(vec![Arc::clone(&admission)]);
        assert!(!one.are_out(), "it finishes its turn");
        admission.go_out();
        assert!(one.are_out());
        let other = KeptAway::behind(vec![Arc::clone(&admission)]);
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.come_in(7).await }
        });
        drop(one);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished() && !admission.is_in());
        let before = clock::now();
        drop(other);
        let came = waiting.await.unwrap();
        assert!((before..=clock::now()).contains(&came), "{came}");
        assert!(admission.is_in());
    }

    fn is_due(orders: &CrashOrders, doing: Doing) -> bool {
        orders.due(doing).now_or_never().is_some()
    }

    #[test]
    fn each_of_two_orders_takes_a_crash_of_its_own() {
        let orders = Arc::new(CrashOrders::default());
        let [one, other] = [Doing::Holding, Doing::Holding].map(|doing| orders.give(doing));
        assert!(!is_due(&orders, Doing::Waiting) && orders.waits_for_a_hold());
        assert!(is_due(&orders, Doing::Holding));
        assert!(!one.is_carried_out(), "it has not crashed yet");
        orders.has_crashed();
        assert_eq!([one.is_carried_out(), other.is_carried_out()], [true, false]);
        assert!(is_due(&orders, Doing::Holding));
        orders.has_crashed();
        assert!(other.is_carried_out() && !orders.waits_for_a_hold());
    }

    #[test]
    fn an_order_that_was_given_up_crashes_nobody() {
        let orders = Arc::new(CrashOrders::default());
        let [given_up, kept] = [Doing::Anything, Doing::Waiting].map(|doing| orders.give(doing));
        drop(given_up);
        assert!(!is_due(&orders, Doing::Holding));
        assert!(is_due(&orders, Doing::Waiting));
        orders.has_crashed();
        assert!(kept.is_carried_out());
    }
}
