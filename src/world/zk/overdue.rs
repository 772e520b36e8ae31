//! Deadlines of requests: many, long and almost never met.
//!
//! A timer for each request would cost as much as the request. Here a request that waits only leaves its
//! waker in a slot, and a sweep a few times a second wakes those whose time is over. So a deadline is kept
//! to a tenth of a second, which is enough for a session timeout.

use std::cell::RefCell;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::words::clock::{self, Stamp};

thread_local! {
    static WAITING: RefCell<Slots> = const { RefCell::new(Slots { entries: Vec::new(), free: Vec::new() }) };
}

struct Slots {
    entries: Vec<Option<(Stamp, Waker)>>,
    free: Vec<usize>,
}

/// Wakes everything on this thread whose deadline has passed.
pub(super) fn wake(now: Stamp) {
    let due = |slots: &mut Slots| -> Vec<Waker> {
        let over = slots.entries.iter().flatten().filter(|(at, _)| *at <= now);
        over.map(|(_, waker)| waker.clone()).collect()
    };
    for waker in WAITING.with_borrow_mut(due) {
        waker.wake();
    }
}

/// Limits something that began at that time, to a tenth of a second; `None` when the time was over first.
pub(super) async fn within<T>(begun: Stamp, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let at = begun + clock::micros(limit);
    let mut slot = Slot(None);
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        // Polled again without an outcome: most likely the sweep has woken it.
        Poll::Pending if slot.0.is_some() && clock::now() >= at => Poll::Ready(None),
        Poll::Pending => {
            slot.put(at, cx.waker());
            Poll::Pending
        }
    })
    .await
}

/// The place of one waiting request; given back when it ends.
struct Slot(Option<usize>);

impl Slot {
    fn put(&mut self, at: Stamp, waker: &Waker) {
        WAITING.with_borrow_mut(|slots| {
            let index = *self.0.get_or_insert_with(|| {
                slots.free.pop().unwrap_or_else(|| {
                    slots.entries.push(None);
                    slots.entries.len() - 1
                })
            });
            match &mut slots.entries[index] {
                Some((_, known)) => known.clone_from(waker),
                empty => *empty = Some((at, waker.clone())),
            }
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(index) = self.0 else { return };
        // At the end of a thread the slots may be gone before the request.
        let _ = WAITING.try_with(|slots| {
            let mut slots = slots.borrow_mut();
            slots.entries[index] = None;
            slots.free.push(index);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::zk::reactor;

    #[test]
    fn a_request_without_a_reply_ends_soon_after_its_deadline_and_gives_its_slot_back() {
        let begin = clock::now();
        let limit = Duration::from_millis(50);
        assert_eq!(reactor::block_on(within(begin, limit, std::future::pending::<()>())), None);
        let took = clock::now() - begin;
        assert!((50_000..1_000_000).contains(&took), "{took} µs");
        WAITING.with_borrow(|slots| assert!(slots.entries.iter().all(Option::is_none)));
    }

    #[test]
    fn a_reply_in_time_is_passed_on() {
        assert_eq!(reactor::block_on(within(clock::now(), Duration::from_secs(5), async { 1 })), Some(1));
    }
}
