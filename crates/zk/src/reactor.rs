//! The contenders' executor, on the reactor that the ZooKeeper client uses.
//!
//! The client does its I/O through async-io, whatever runtime its tasks run on. With another runtime, every
//! reply crosses from async-io's thread to the runtime's, which costs two context switches and a third of the
//! processor time. A generator thread therefore drives async-io's reactor itself: a reply is read, decoded
//! and passed to its contender on one thread.
//!
//! Deadlines of requests are many, long and hardly ever reached, and a timer for each would cost as much as
//! the request. A waiting request therefore only leaves its waker in a slot, and a periodic sweep wakes those
//! whose deadline has passed. Deadlines are accurate to a tenth of a second, which suffices for a session
//! timeout.

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

/// Interval of the sweep for requests whose deadline has passed.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Runs a future to its end on this thread, together with everything that it starts here.
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

/// Spawns the client library's tasks on the same executor.
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

/// Starts a task on the caller's thread. Dropping the handle cancels the task; detaching it lets the task
/// continue. Contenders use [`spawn_detached`], whose tasks end with the contender.
///
/// # Panics
/// Outside of [`block_on`].
#[allow(clippy::expect_used, reason = "a session is used within `block_on` only")]
pub fn spawn_local<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    HERE.with_borrow(|here| here.as_ref().expect("within reactor::block_on").spawn(future))
}

/// Starts a background task of a contender's lock: behind the contender's gate, and ended with the contender
/// or its session.
pub fn spawn_detached(task: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep_detached(spawn_local(scope.around(task))),
        None => spawn_local(task).detach(),
    }
}

/// Starts the task that closes a contender's session: behind its gate, and ended early only if the contender
/// is killed.
pub fn spawn_closing(closing: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep(spawn_local(scope.around(closing))),
        None => spawn_local(closing).detach(),
    }
}

pub async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}

/// Sleeps until that time, or forever without one.
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

/// Runs work with a time limit; `None` if the limit was reached first.
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

/// Wakes all requests on this thread whose deadline has passed.
fn wake(now: Stamp) {
    let due = |slots: &mut Slots| -> Vec<Waker> {
        let over = slots.entries.iter().flatten().filter(|(at, _)| *at <= now);
        over.map(|(_, waker)| waker.clone()).collect()
    };
    for waker in WAITING.with_borrow_mut(due) {
        waker.wake();
    }
}

/// Limits work that began at `begun`, accurate to a tenth of a second; `None` if the limit was reached first.
pub(super) async fn within<T>(begun: Stamp, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let at = begun + clock::micros(limit);
    let mut slot = Slot(None);
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        // Polled again without an outcome: most likely woken by the sweep.
        Poll::Pending if slot.0.is_some() && clock::now() >= at => Poll::Ready(None),
        Poll::Pending => {
            slot.put(at, cx.waker());
            Poll::Pending
        }
    })
    .await
}

/// The slot of one waiting request, returned when the request ends.
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
        // At the end of a thread, the slots may be gone before the request.
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
    fn spawned_task_runs_alongside_its_creator() {
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
    fn timeout_abandons_work_beyond_its_limit() {
        let (slow, quick) = block_on(async {
            let slow = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
            (slow, timeout(Duration::from_secs(5), async { 1 }).await)
        });
        assert_eq!((slow, quick), (None, Some(1)));
    }

    #[test]
    fn request_without_a_reply_ends_at_its_deadline_and_frees_its_slot() {
        let begin = clock::now();
        let limit = Duration::from_millis(50);
        assert_eq!(block_on(within(begin, limit, std::future::pending::<()>())), None);
        let took = clock::now() - begin;
        assert!((50_000..1_000_000).contains(&took), "{took} µs");
        WAITING.with_borrow(|slots| assert!(slots.entries.iter().all(Option::is_none)));
    }

    #[test]
    fn reply_in_time_is_returned() {
        assert_eq!(block_on(within(clock::now(), Duration::from_secs(5), async { 1 })), Some(1));
    }
}
