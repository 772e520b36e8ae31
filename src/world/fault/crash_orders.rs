//! Orders to crash: what the fault that gives one and the contender that carries it out know of it.
//!
//! One crash carries out one order, so that it can prove no other. An order that is given up is taken back: nobody
//! crashes later for a fault that has long been recorded as not done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What a contender that is to crash has to be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Anything,
    Waiting,
    Holding,
}

/// The orders that one contender has been given, in their order.
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
    /// Orders the contender to crash once it does that.
    pub fn give(self: &Arc<Self>, doing: Doing) -> CrashOrder {
        let order = Arc::new(OrderState { doing, is_carried_out: AtomicBool::new(false) });
        self.given().push(Arc::clone(&order));
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
        let mut given = self.given();
        let meant = |order: &Arc<OrderState>| order.doing == Doing::Anything || order.doing == doing;
        let Some(first) = given.iter().position(meant) else { return false };
        *self.taken() = Some(given.remove(first));
        true
    }

    /// Whether it is to crash in its next hold.
    pub fn waits_for_a_hold(&self) -> bool {
        self.given().iter().any(|order| order.doing == Doing::Holding)
    }

    pub fn has_crashed(&self) {
        if let Some(order) = self.taken().take() {
            order.is_carried_out.store(true, Ordering::SeqCst);
        }
    }

    fn given(&self) -> MutexGuard<'_, Vec<Arc<OrderState>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, Option<Arc<OrderState>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Whether the contender has crashed for this order.
    pub fn is_carried_out(&self) -> bool {
        self.order.is_carried_out.load(Ordering::SeqCst)
    }
}

impl Drop for CrashOrder {
    fn drop(&mut self) {
        self.orders.given().retain(|order| !Arc::ptr_eq(order, &self.order));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

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
