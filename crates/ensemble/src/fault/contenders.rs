//! A trial's contenders as fault targets: their state, admissions and crash orders.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::proxy::Proxy;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_zk::SessionKey;
use zklockbench_zk::gate::Gate;

/// A trial's contenders, identified by number.
pub trait Contenders: Send + Sync {
    /// Returns all contenders. In a run with several workers, returns only this worker's contenders.
    fn all(&self) -> Vec<usize>;
    /// Returns the directories of the contenders' locks.
    fn locks(&self) -> Vec<String>;
    /// Returns the contenders that currently hold a lock.
    fn inside(&self) -> Vec<usize>;
    /// Returns the contenders that are waiting for a lock, longest wait first.
    fn waiting(&self) -> Vec<usize>;
    fn waits_since(&self, contender: usize) -> Option<Stamp>;
    /// Returns the gate that everything a contender runs must pass through.
    fn gate(&self, contender: usize) -> Arc<Gate>;
    /// Returns the admission that a contender needs before each cycle.
    fn admission(&self, contender: usize) -> Arc<Admission>;
    fn session(&self, contender: usize) -> Option<SessionKey>;
    /// Returns whether the contender's client is known to bypass this proxy.
    fn bypasses(&self, _contender: usize, _proxy: &Proxy) -> bool {
        false
    }
    /// Records that a fault is about to close the contender's session.
    fn is_being_closed(&self, contender: usize, session: i64);
    /// Records that a server has confirmed closing the session.
    fn was_closed(&self, contender: usize, session: i64);
    /// Advances the clock that the contender's deadlines are based on.
    fn clock_jumps(&self, contender: usize, by: Duration);
    /// Orders a contender to crash as soon as its activity matches `doing`.
    fn crash(&self, contender: usize, doing: Doing) -> CrashOrder;
    /// Returns the number of acquisitions in the measured phase. With several workers, estimates the total by
    /// assuming equal shares.
    fn acquired(&self) -> u64;
}

/// Admission of one contender. When closed, it lets the current cycle finish and blocks the next cycle.
#[derive(Debug, Default)]
pub struct Admission {
    closed: AtomicUsize,
    /// Whether the contender is in a cycle.
    is_in: AtomicBool,
    opened_at: AtomicU64,
    opened: Notify,
}

impl Admission {
    /// Waits for admission, then enters. Returns the start of the contender's wait: `intended`, or the opening time
    /// if later.
    pub async fn come_in(&self, intended: Stamp) -> Stamp {
        // Set the flag before reading `closed`. In the opposite order, the contender could enter after
        // `are_out` returned true.
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

/// Guard that keeps admissions closed, and opens all of them at once when dropped.
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

/// Activity during which a contender should crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Anything,
    Waiting,
    Holding,
}

/// Crash orders of one contender, oldest first.
///
/// Each crash carries out one order, so it proves only one fault. Dropping an order withdraws it, so no
/// contender crashes for a fault that is already recorded as not injected.
#[derive(Debug, Default)]
pub struct CrashOrders {
    given: Mutex<Vec<Arc<OrderState>>>,
    /// Order that is being carried out.
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

    /// Waits for an order to crash during this activity. The contender must then crash and call
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

    /// Returns whether an order requires the contender to crash during its next hold.
    pub fn waits_for_a_hold(&self) -> bool {
        locked(&self.given).iter().any(|order| order.doing == Doing::Holding)
    }

    pub fn has_crashed(&self) {
        if let Some(order) = locked(&self.taken).take() {
            order.is_carried_out.store(true, Ordering::SeqCst);
        }
    }
}

/// Handle to one crash order.
#[derive(Debug)]
#[must_use = "dropping the handle withdraws the order"]
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
    async fn admission_opens_once_every_guard_is_dropped() {
        let admission = Arc::new(Admission::default());
        assert_eq!(admission.come_in(7).await, 7);
        let one = KeptAway::behind(vec![Arc::clone(&admission)]);
        assert!(!one.are_out(), "the contender is still in its cycle");
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
    fn each_crash_carries_out_one_order() {
        let orders = Arc::new(CrashOrders::default());
        let [one, other] = [Doing::Holding, Doing::Holding].map(|doing| orders.give(doing));
        assert!(!is_due(&orders, Doing::Waiting) && orders.waits_for_a_hold());
        assert!(is_due(&orders, Doing::Holding));
        assert!(!one.is_carried_out(), "the contender has not crashed yet");
        orders.has_crashed();
        assert_eq!([one.is_carried_out(), other.is_carried_out()], [true, false]);
        assert!(is_due(&orders, Doing::Holding));
        orders.has_crashed();
        assert!(other.is_carried_out() && !orders.waits_for_a_hold());
    }

    #[test]
    fn dropped_order_causes_no_crash() {
        let orders = Arc::new(CrashOrders::default());
        let [given_up, kept] = [Doing::Anything, Doing::Waiting].map(|doing| orders.give(doing));
        drop(given_up);
        assert!(!is_due(&orders, Doing::Holding));
        assert!(is_due(&orders, Doing::Waiting));
        orders.has_crashed();
        assert!(kept.is_carried_out());
    }
}
