//! Where contenders run: an executor on the reactor that the ZooKeeper client uses.
//!
//! The client reads and writes through async-io, whatever runtime its tasks run on. Under another runtime
//! every reply crosses from async-io's thread to that of the runtime, which costs two context switches and
//! a third of the processor time. So a generator thread drives async-io's reactor itself: a reply is read,
//! decoded and handed to its contender on one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use async_executor::LocalExecutor;
use async_io::Timer;
use futures_util::future::{Either, select};

pub use async_executor::Task;

use super::gate::TaskScope;
use super::overdue;
use crate::words::clock::{self, Stamp};

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
        overdue::wake(clock::now());
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
///
/// # Panics
/// Outside of [`block_on`].
pub fn spawn_detached(task: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep_detached(spawn_local(scope.around(task))),
        None => spawn_local(task).detach(),
    }
}

/// Starts what ends a contender's session: behind its gate, and ended with the contender only if that is killed.
///
/// # Panics
/// Outside of [`block_on`].
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

/// Does something within a time.
///
/// # Errors
/// `None` when the time was over first.
pub async fn timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let work = std::pin::pin!(work);
    match select(work, Timer::after(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
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
}
