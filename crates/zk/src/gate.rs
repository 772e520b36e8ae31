//! A gate in front of all work of one contender, which can pause or kill the contender.
//!
//! A contender consists of its own loop and every task it started, including its session's task, which sends
//! heartbeats. No task runs behind a shut gate, as if the process were stopped or in a long garbage
//! collection. The servers receive nothing and expire the session; the contender is notified only after the
//! gate opens. Killing a session's tasks closes the connection without notice, like killing a process.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::runtime::Task;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;

#[derive(Debug, Default)]
pub struct Gate {
    shut: AtomicUsize,
    shut_at: AtomicU64,
    /// Past freezes in the order of their ends, without those before a freeze that was at least as long.
    freezes: Mutex<Vec<Freeze>>,
    opened: AtomicU64,
    passed: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
    follower: Mutex<Option<Follower>>,
}

#[derive(Debug, Clone, Copy)]
struct Freeze {
    opened_at: Stamp,
    lasted_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movement {
    Shut,
    Opened,
}

#[derive(Clone)]
pub struct Follower(Arc<dyn Fn(Movement) + Send + Sync>);

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Follower")
    }
}

impl Gate {
    /// Pauses everything behind the gate, except a poll in progress.
    fn shut(&self) {
        let _one_at_a_time = locked(&self.waiting);
        if !self.is_shut() {
            self.shut_at.store(clock::now(), Ordering::SeqCst);
            self.moved(Movement::Shut);
        }
        self.shut.fetch_add(1, Ordering::SeqCst);
    }

    /// Resumes everything behind the gate, unless another `Shut` keeps it shut.
    fn open(&self) {
        let mut waiting = locked(&self.waiting);
        if self.shut.load(Ordering::SeqCst) > 1 {
            self.shut.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        // Record the freeze first, because work behind the gate reads it after resuming.
        self.record_freeze(self.shut_at.load(Ordering::SeqCst), clock::now());
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.moved(Movement::Opened);
        self.shut.store(0, Ordering::SeqCst);
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Calls `follower` whenever the gate shuts or opens, e.g. to pause a separate process. Replaces any
    /// earlier follower.
    pub fn follow(&self, follower: Arc<dyn Fn(Movement) + Send + Sync>) {
        *locked(&self.follower) = Some(Follower(follower));
    }

    fn moved(&self, movement: Movement) {
        let follower = locked(&self.follower).clone();
        if let Some(Follower(follow)) = follower {
            follow(movement);
        }
    }

    pub fn times_opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    fn record_freeze(&self, shut_at: Stamp, opened_at: Stamp) {
        let lasted_us = opened_at.saturating_sub(shut_at);
        let mut freezes = locked(&self.freezes);
        freezes.retain(|earlier| earlier.lasted_us > lasted_us);
        freezes.push(Freeze { opened_at, lasted_us });
    }

    /// Returns the longest time for which the gate was shut, in microseconds, of all freezes that ended at or after
    /// `at`; 0 if there were none.
    pub fn shut_since(&self, at: Stamp) -> u64 {
        // Each freeze is shorter than the one before it.
        let freezes = locked(&self.freezes);
        freezes.iter().find(|freeze| freeze.opened_at >= at).map_or(0, |freeze| freeze.lasted_us)
    }

    /// Returns the number of polls that passed the gate.
    pub fn times_passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Returns whether the gate is shut. If so, keeps the waker until the gate opens.
    fn holds_up(&self, waker: &Waker) -> bool {
        if !self.is_shut() {
            // All work behind a gate runs on one thread, so there is no other writer.
            self.passed.store(self.passed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return false;
        }
        let mut waiting = locked(&self.waiting);
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        drop(waiting);
        // The gate may have opened before the waker was stored.
        self.is_shut()
    }

    fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst) > 0
    }
}

/// Guard that keeps gates shut until dropped. A gate opens when its last guard is dropped.
#[derive(Debug)]
#[must_use = "dropping it opens the gates"]
pub struct Shut(Vec<Arc<Gate>>);

impl Shut {
    pub fn these<'a>(gates: impl IntoIterator<Item = &'a Arc<Gate>>) -> Self {
        let gates: Vec<_> = gates.into_iter().cloned().collect();
        gates.iter().for_each(|gate| gate.shut());
        Self(gates)
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.iter().for_each(|gate| gate.open());
    }
}

/// All work behind one gate. The work runs on a single thread.
#[derive(Clone, Default)]
pub struct TaskScope(Rc<ScopeState>);

#[derive(Default)]
struct ScopeState {
    gate: Arc<Gate>,
    /// Tasks of sessions. They may outlive the contender until their sessions are closed.
    tasks: Tasks,
    /// Background tasks of the contender's lock, which end with the contender.
    detached: Tasks,
}

type Tasks = RefCell<Vec<Task<()>>>;

thread_local! {
    /// The scope of the running task.
    static HERE: RefCell<Option<TaskScope>> = const { RefCell::new(None) };
}

impl TaskScope {
    pub fn behind(gate: Arc<Gate>) -> Self {
        Self(Rc::new(ScopeState { gate, ..ScopeState::default() }))
    }

    pub fn here() -> Option<Self> {
        HERE.with_borrow(Clone::clone)
    }

    /// Puts work and every task it starts behind the gate.
    pub fn around<F: Future>(&self, work: F) -> GatedWork<F> {
        GatedWork { scope: self.clone(), work: Box::pin(work) }
    }

    /// Registers a session's task that was started behind the gate.
    pub(super) fn keep(&self, task: Task<()>) {
        add(&self.0.tasks, task);
    }

    /// Registers a background task of the contender's lock.
    pub(super) fn keep_detached(&self, task: Task<()>) {
        add(&self.0.detached, task);
    }

    /// Kills all tasks that were started behind the gate.
    pub fn kill(&self) {
        self.end_detached();
        drop(take(&self.0.tasks));
    }

    /// Ends the background tasks of an abandoned lock, which would otherwise keep the session from closing.
    pub fn end_detached(&self) {
        drop(take(&self.0.detached));
    }

    /// Detaches the sessions' tasks.
    pub fn let_go(&self) {
        take(&self.0.tasks).into_iter().for_each(Task::detach);
    }
}

fn add(tasks: &Tasks, task: Task<()>) {
    let mut tasks = tasks.borrow_mut();
    tasks.retain(|task| !task.is_finished());
    tasks.push(task);
}

/// Takes the tasks out of the list, so that they are dropped outside the borrow. A task that ends may start another.
fn take(tasks: &Tasks) -> Vec<Task<()>> {
    std::mem::take(&mut *tasks.borrow_mut())
}

pub struct GatedWork<F> {
    scope: TaskScope,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for GatedWork<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.scope.0.gate.holds_up(cx.waker()) {
            return Poll::Pending;
        }
        let before = HERE.replace(Some(self.scope.clone()));
        let polled = self.work.as_mut().poll(cx);
        HERE.set(before);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::runtime;

    async fn counting(count: Rc<Cell<u32>>) {
        loop {
            count.set(count.get() + 1);
            runtime::sleep(Duration::from_millis(1)).await;
        }
    }

    #[test]
    fn work_behind_a_shut_gate_pauses_until_the_gate_opens() {
        let gate = Arc::new(Gate::default());
        let scope = TaskScope::behind(Arc::clone(&gate));
        let counted = Rc::new(Cell::new(0));
        runtime::block_on(async {
            let task = runtime::spawn_local(scope.around(counting(Rc::clone(&counted))));
            while counted.get() < 3 {
                runtime::yield_now().await;
            }
            // When the gate is shut
            let shut = Shut::these([&gate]);
            let before = counted.get();
            runtime::sleep(Duration::from_millis(30)).await;
            assert_eq!(counted.get(), before);
            // When the gate is then opened from another thread
            std::thread::spawn(move || drop(shut)).join().unwrap();
            while counted.get() == before {
                runtime::yield_now().await;
            }
            drop(task);
        });
    }

    #[test]
    fn killing_a_scope_ends_its_tasks() {
        let scope = TaskScope::default();
        runtime::block_on(async {
            let dropped = Rc::new(());
            let held = Rc::clone(&dropped);
            scope
                .around(async move {
                    let task = runtime::spawn_local(async move {
                        let _held = held;
                        std::future::pending::<()>().await;
                    });
                    TaskScope::here().unwrap().keep(task);
                })
                .await;
            assert_eq!(Rc::strong_count(&dropped), 2);
            scope.kill();
            while Rc::strong_count(&dropped) > 1 {
                runtime::yield_now().await;
            }
            assert!(TaskScope::here().is_none());
        });
    }

    #[test]
    fn detached_tasks_pause_with_the_gate_and_end_with_the_contender() {
        let gate = Arc::new(Gate::default());
        let scope = TaskScope::behind(Arc::clone(&gate));
        runtime::block_on(async {
            let counted = Rc::new(Cell::new(0));
            // Given a detached task that is not awaited
            scope.around(async { runtime::spawn_detached(counting(Rc::clone(&counted))) }).await;
            while counted.get() < 3 {
                runtime::yield_now().await;
            }
            // When the contender pauses, the task pauses
            let shut = Shut::these([&gate]);
            let before = counted.get();
            runtime::sleep(Duration::from_millis(30)).await;
            assert_eq!(counted.get(), before);
            drop(shut);
            while counted.get() == before {
                runtime::yield_now().await;
            }
            // When the contender is killed, the task is never polled again
            scope.kill();
            let before = counted.get();
            runtime::sleep(Duration::from_millis(30)).await;
            assert_eq!((counted.get(), Rc::strong_count(&counted)), (before, 1));
        });
    }

    #[test]
    fn gate_shut_twice_opens_only_when_both_guards_are_dropped() {
        let gate = Arc::new(Gate::default());
        let [one, other] = [Shut::these([&gate]), Shut::these([&gate])];
        let is_open = || !gate.holds_up(Waker::noop());
        drop(one);
        assert!(!is_open());
        assert_eq!((gate.times_opened(), gate.shut_since(0)), (0, 0), "the second guard keeps the gate shut");
        drop(other);
        assert!(is_open());
        assert_eq!(gate.times_opened(), 1);
    }

    #[test]
    fn short_freeze_does_not_hide_an_earlier_long_one() {
        let gate = Gate::default();
        gate.record_freeze(1_000, 11_000);
        gate.record_freeze(20_000, 21_000);
        assert_eq!(gate.shut_since(500), 10_000);
        assert_eq!(gate.shut_since(11_001), 1_000, "the long freeze ended before");
        assert_eq!(gate.shut_since(21_001), 0);
        gate.record_freeze(30_000, 35_000);
        assert_eq!([500, 11_001].map(|at| gate.shut_since(at)), [10_000, 5_000]);
    }
}
