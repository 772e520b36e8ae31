//! Stands before all that one contender runs, so that it can be made to stand still, or to die.
//!
//! A contender is its own loop and what it has started: the task of its session above all, which sends the
//! heartbeats. Behind a shut gate none of them runs, as in a process that is stopped or collects garbage for too
//! long: the servers hear nothing, expire the session, and the contender knows nothing of it until the gate is
//! opened. When the tasks of a session are ended they close its connection without a word, as a process
//! does that is killed.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use async_executor::Task;

use crate::clock::{self, Stamp};

/// A gate, as whoever shuts and opens it sees it.
#[derive(Debug, Default)]
pub struct Gate {
    shut: AtomicBool,
    shut_at: AtomicU64,
    opened_at: AtomicU64,
    opened: AtomicU64,
    passed: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

impl Gate {
    /// Nothing behind it runs from now on, but for what is running at this moment.
    pub fn shut(&self) {
        self.shut_at.store(clock::now(), Ordering::SeqCst);
        self.shut.store(true, Ordering::SeqCst);
    }

    /// All behind it goes on.
    pub fn open(&self) {
        self.opened_at.store(clock::now(), Ordering::SeqCst);
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.shut.store(false, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How often it has been opened.
    #[must_use]
    pub fn times_opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    /// How long it was shut the last time, in microseconds, if it was opened after that time; else 0.
    #[must_use]
    pub fn shut_since(&self, at: Stamp) -> u64 {
        let opened = self.opened_at.load(Ordering::SeqCst);
        if opened < at { 0 } else { opened.saturating_sub(self.shut_at.load(Ordering::SeqCst)) }
    }

    /// How often anything behind it has run.
    #[must_use]
    pub fn times_passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to wait; the waker is then kept until the gate is opened.
    fn holds_up(&self, waker: &Waker) -> bool {
        if !self.shut.load(Ordering::SeqCst) {
            self.passed.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let mut waiting = self.waiting();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        drop(waiting);
        // Opened meanwhile, it has not seen this waker.
        self.shut.load(Ordering::SeqCst)
    }
}

/// What stands behind one gate, on its thread.
#[derive(Clone, Default)]
pub struct Yard {
    gate: Arc<Gate>,
    tasks: Rc<RefCell<Vec<Task<()>>>>,
}

thread_local! {
    /// The yard of whoever runs at this moment.
    static HERE: RefCell<Option<Yard>> = const { RefCell::new(None) };
}

impl Yard {
    /// An empty yard behind that gate.
    #[must_use]
    pub fn behind(gate: Arc<Gate>) -> Self {
        Self { gate, tasks: Rc::default() }
    }

    /// The yard of whoever asks, if it has one.
    #[must_use]
    pub fn here() -> Option<Self> {
        HERE.with_borrow(Clone::clone)
    }

    /// Puts something behind the gate, with all that it will start.
    pub fn around<F: Future>(&self, work: F) -> Behind<F> {
        Behind { yard: self.clone(), work: Box::pin(work) }
    }

    /// Keeps a task that was started by what is behind the gate.
    pub(super) fn keep(&self, task: Task<()>) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Ends all tasks that were started behind the gate, in the middle of whatever they do.
    pub fn kill(&self) {
        // Dropped outside of the borrow: a task that ends may start another.
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
    }

    /// Lets the tasks go on by themselves.
    pub fn let_go(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        tasks.into_iter().for_each(Task::detach);
    }
}

/// Something behind a gate.
pub struct Behind<F> {
    yard: Yard,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Behind<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.yard.gate.holds_up(cx.waker()) {
            return Poll::Pending;
        }
        let before = HERE.replace(Some(self.yard.clone()));
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
    use crate::zk::reactor;

    #[test]
    fn behind_a_shut_gate_nothing_runs_until_it_is_opened() {
        let gate = Arc::new(Gate::default());
        let yard = Yard::behind(Arc::clone(&gate));
        let counted = Rc::new(Cell::new(0));
        reactor::block_on(async {
            let count = Rc::clone(&counted);
            let work = yard.around(async move {
                loop {
                    count.set(count.get() + 1);
                    reactor::sleep(Duration::from_millis(1)).await;
                }
            });
            let task = reactor::spawn_local(work);
            while counted.get() < 3 {
                reactor::yield_now().await;
            }
            // When it is shut
            gate.shut();
            let before = counted.get();
            reactor::sleep(Duration::from_millis(30)).await;
            assert_eq!(counted.get(), before);
            // And opened, from anywhere
            std::thread::spawn(move || gate.open()).join().unwrap();
            while counted.get() == before {
                reactor::yield_now().await;
            }
            drop(task);
        });
    }

    #[test]
    fn a_killed_yard_ends_what_was_started_in_it_and_nothing_else() {
        let yard = Yard::default();
        reactor::block_on(async {
            let dropped = Rc::new(());
            let held = Rc::clone(&dropped);
            yard.around(async move {
                let task = reactor::spawn_local(async move {
                    let _held = held;
                    std::future::pending::<()>().await;
                });
                Yard::here().unwrap().keep(task);
            })
            .await;
            assert_eq!(Rc::strong_count(&dropped), 2);
            yard.kill();
            while Rc::strong_count(&dropped) > 1 {
                reactor::yield_now().await;
            }
            assert!(Yard::here().is_none());
        });
    }
}
