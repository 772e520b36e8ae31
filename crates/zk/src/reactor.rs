//! Where contenders run: an executor on the reactor that the ZooKeeper client uses.
//!
//! The client reads and writes through async-io, whatever runtime its tasks run on. Under another runtime
//! every reply crosses from async-io's thread to that of the runtime, which costs two context switches and
//! a third of the processor time. So a generator thread drives async-io's reactor itself: a reply is read,
//! decoded and handed to its contender on one thread.
//!
//! Deadlines of requests are many, long and almost never met, and a timer for each would cost as much as the
//! request. So a request that waits only leaves its waker in a slot, and a sweep a few times a second wakes those
//! whose time is over: a deadline is kept to a tenth of a second, which is enough for a session timeout.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use async_executor::LocalExecutor;
use async_io::Timer;
use futures_util::future::{Either, select};

use super::gate::TaskScope;
use zklockbench_core::clock::{self, Stamp};

pub use async_executor::Task;

thread_local! {
    static HERE: RefCell<Option<Rc<LocalExecutor<'static>>>> = const { RefCell::new(None) };
}

/// How often requests are looked through for those whose deadline has passed.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Runs something to its end on this thread, together with all that it starts here.
pub fn block_on<T>(main: impl Future<Output = T>) -> T {
    let executor = Rc::new(LocalExecutor::new());
    let spawner = Spawner(Rc::clone(&executor));
    let _scope = spawns_core::enter(&spawner);
    let before = HERE.replace(Some(Rc::clone(&executor)));
    executor.spawn(sweep()).detach();
    let value = async_io::block_on(executor.run(main));
    HERE.set(before);
    value
}

async fn sweep() {
    loop {
        sleep(SWEEP_EVERY).await;
        wake(clock::now());
    }
}

/// Tasks of the client library go to the same executor.
struct Spawner(Rc<LocalExecutor<'static>>);

impl spawns_core::Spawn for Spawner {
    fn spawn(&self, task: spawns_core::Task) {
        let work = Box::into_pin(task.future);
        match TaskScope::here() {
            Some(scope) => scope.keep(self.0.spawn(scope.around(work))),
            None => self.0.spawn(work).detach(),
        }
    }
}

/// Starts something beside the caller, on the caller's thread. Dropped, the task is cancelled; detach it to
/// let it go on. What a contender starts is started by [`spawn_detached`], which ends with it.
///
/// # Panics
/// Outside of [`block_on`].
#[allow(clippy::expect_used, reason = "a session is used within `block_on` only")]
pub fn spawn_local<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    HERE.with_borrow(|here| here.as_ref().expect("within reactor::block_on").spawn(future))
}

/// Starts something that a contender's lock does beside itself: behind the contender's gate, and ended with the contender
/// or its session.
pub fn spawn_detached(task: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep_detached(spawn_local(scope.around(task))),
        None => spawn_local(task).detach(),
    }
}

/// Starts what ends a contender's session: behind its gate, and ended with the contender only if that is killed.
pub fn spawn_closing(closing: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep(spawn_local(scope.around(closing))),
        None => spawn_local(closing).detach(),
    }
}

pub async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}

/// Sleeps until that time; for ever without one.
pub async fn sleep_until(at: Option<Stamp>) {
    match at {
        Some(at) => sleep(Duration::from_micros(at.saturating_sub(clock::now()))).await,
        None => std::future::pending().await,
    }
}

/// Lets the other tasks of this thread run.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Does something within a time; `None` when that was over first.
pub async fn timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let work = std::pin::pin!(work);
    match select(work, Timer::after(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

thread_local! {
    static WAITING: RefCell<Slots> = const { RefCell::new(Slots { entries: Vec::new(), free: Vec::new() }) };
}

struct Slots {
    entries: Vec<Option<(Stamp, Waker)>>,
    free: Vec<usize>,
}

/// Wakes everything on this thread whose deadline has passed.
fn wake(now: Stamp) {
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

    #[test]
    fn what_was_started_runs_beside_the_one_that_started_it() {
        let answer = block_on(async {
            let task = spawn_local(async {
                yield_now().await;
                42
            });
            task.await
        });
        assert_eq!(answer, 42);
    }

    #[test]
    fn work_that_takes_longer_than_its_time_is_given_up() {
        let (slow, quick) = block_on(async {
            let slow = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
            (slow, timeout(Duration::from_secs(5), async { 1 }).await)
        });
        assert_eq!((slow, quick), (None, Some(1)));
    }

    #[test]
    fn a_request_without_a_reply_ends_soon_after_its_deadline_and_gives_its_slot_back() {
        let begin = clock::now();
        let limit = Duration::from_millis(50);
        assert_eq!(block_on(within(begin, limit, std::future::pending::<()>())), None);
        let took = clock::now() - begin;
        assert!((50_000..1_000_000).contains(&took), "{took} µs");
        WAITING.with_borrow(|slots| assert!(slots.entries.iter().all(Option::is_none)));
    }

    #[test]
    fn a_reply_in_time_is_passed_on() {
        assert_eq!(block_on(within(clock::now(), Duration::from_secs(5), async { 1 })), Some(1));
    }
}
