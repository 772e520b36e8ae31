//! The contenders' runtime: tokio on a single thread, shared by a contender and its session.
//!
//! A reply is read, decoded and passed to its contender on the same thread.
//!
//! Request deadlines are rarely reached, and a timer per request would cost as much as the request. Instead,
//! a waiting request stores its waker in a slot, and a periodic sweep wakes requests whose deadline has
//! passed. Deadlines are accurate to 0.1 s, which is enough for a session timeout. Sleeps are short and
//! measured, so they use a precise timer (`alarm.rs`).

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::alarm::Alarm;
use super::gate::TaskScope;
use zklockbench_core::clock::{self, Stamp};

/// Interval of the sweep for requests whose deadline has passed.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Runs a future to completion on this thread, together with the tasks it starts. Tasks that are still
/// running at the end are cancelled.
///
/// # Panics
/// If the system has no free file descriptor for the runtime.
#[expect(clippy::expect_used, reason = "see above")]
pub fn block_on<T>(main: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime =
        builder.enable_all().build_local(LocalOptions::default()).expect("no file descriptor for a runtime");
    let value = runtime.block_on(async {
        let _alarm = Alarm::install();
        let _sweep = spawn_local(sweep());
        main.await
    });
    // Do not wait for pending name resolution.
    runtime.shutdown_background();
    value
}

async fn sweep() {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        wake(clock::now());
    }
}

/// A task on this thread. Dropping the handle cancels the task; detaching the handle lets the task continue.
#[derive(Debug)]
pub struct Task<T>(AbortOnDropHandle<T>);

impl<T> Task<T> {
    pub fn detach(self) {
        drop(self.0.detach());
    }

    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// Propagates a panic of the task.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Poll::Ready(ended) = Pin::new(&mut self.0).poll(cx) else { return Poll::Pending };
        match ended.map_err(JoinError::try_into_panic) {
            Ok(value) => Poll::Ready(value),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and the caller with it.
            Err(Err(_)) => Poll::Pending,
        }
    }
}

/// Starts a task on the caller's thread. Contenders use [`spawn_detached`] instead: its tasks end with the
/// contender.
///
/// # Panics
/// If called outside of [`block_on`].
pub fn spawn_local<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    Task(AbortOnDropHandle::new(tokio::task::spawn_local(future)))
}

/// Starts a task of the client library, behind the gate of the contender that owns the session, if any.
pub(super) fn spawn_for_client(task: Pin<Box<dyn Future<Output = ()> + Send>>) {
    match TaskScope::here() {
        Some(scope) => scope.keep(spawn_local(scope.around(task))),
        None => drop(tokio::spawn(task)),
    }
}

/// Starts a background task of a contender's lock behind the contender's gate. The task ends with the
/// contender or its session.
pub fn spawn_detached(task: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep_detached(spawn_local(scope.around(task))),
        None => spawn_local(task).detach(),
    }
}

/// Starts the task that closes a contender's session, behind the contender's gate. The task ends early only
/// if the contender is killed.
pub fn spawn_closing(closing: impl Future<Output = ()> + 'static) {
    match TaskScope::here() {
        Some(scope) => scope.keep(spawn_local(scope.around(closing))),
        None => spawn_local(closing).detach(),
    }
}

pub async fn sleep(duration: Duration) {
    sleep_until(Some(clock::now().saturating_add(clock::micros(duration)))).await;
}

/// Sleeps until this time, or forever if `None`.
pub async fn sleep_until(at: Option<Stamp>) {
    let Some(at) = at else { return std::future::pending().await };
    match Alarm::here() {
        Some(alarm) => alarm.wait(at).await,
        None => tokio::time::sleep(Duration::from_micros(at.saturating_sub(clock::now()))).await,
    }
}

/// Lets the other tasks of this thread run. Unlike tokio's version, does not first poll the system for
/// events.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs work with a time limit; `None` if the limit was reached first.
pub async fn timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
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

/// Runs work that started at `begun`; `None` if the limit was reached first. Accurate to 0.1 s.
pub(super) async fn within<T>(begun: Stamp, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let at = begun + clock::micros(limit);
    let mut slot = Slot(None);
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        // Polled again without a result, most likely by the sweep.
        Poll::Pending if slot.0.is_some() && clock::now() >= at => Poll::Ready(None),
        Poll::Pending => {
            slot.put(at, cx.waker());
            Poll::Pending
        }
    })
    .await
}

/// The slot of one waiting request, freed when the request ends.
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
        // When a thread exits, the slots may be dropped before the request.
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
        assert!(took >= 50_000, "{took} µs");
        WAITING.with_borrow(|slots| assert!(slots.entries.iter().all(Option::is_none)));
    }

    #[test]
    fn reply_before_the_deadline_is_returned() {
        assert_eq!(block_on(within(clock::now(), Duration::from_secs(5), async { 1 })), Some(1));
    }
}
