//! Parallel worlds on one server, each on its own thread, because most of a schedule's time is spent waiting.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use super::cast::Lock;
use super::habits::Habits;
use super::play::{Outcome, play};
use super::schedule::Schedule;
use super::world::{Pace, World};
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;
use zklockbench_zk::Target;

/// Server, directory and lock of an exploration.
#[derive(Debug, Clone)]
pub struct Site {
    pub lock: Lock,
    pub target: Target,
    /// `host:port` of the server.
    pub server: String,
    /// Directory in which locks are created.
    pub root: String,
    pub contenders: usize,
    pub worlds: usize,
}

/// Threads that run schedules.
pub struct Pool {
    jobs: Arc<Jobs>,
    results: Receiver<Result<Outcome, Error>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Jobs {
    waiting: Mutex<VecDeque<(Schedule, usize)>>,
    came: Condvar,
    is_over: AtomicBool,
}

impl Jobs {
    fn next(&self) -> Option<(Schedule, usize)> {
        let mut waiting = locked(&self.waiting);
        loop {
            if self.is_over.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(job) = waiting.pop_front() {
                return Some(job);
            }
            waiting = self.came.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

impl Pool {
    pub fn start(site: &Site) -> Self {
        let (sender, results) = channel();
        let jobs = Arc::new(Jobs::default());
        let habits = Arc::new(Habits::new(Pace::of(&site.lock).reacts_within));
        let threads = (0..site.worlds)
            .map(|number| {
                let (site, jobs, habits, sender) =
                    (site.clone(), Arc::clone(&jobs), Arc::clone(&habits), sender.clone());
                std::thread::spawn(move || serve(&site, number, &jobs, habits, &sender))
            })
            .collect();
        Self { jobs, results, threads }
    }

    pub fn add(&self, schedule: Schedule, usually_left: usize) {
        locked(&self.jobs.waiting).push_back((schedule, usually_left));
        self.jobs.came.notify_one();
    }

    /// The next outcome, or `None` at the deadline.
    ///
    /// # Errors
    /// If a world could not be opened.
    pub fn next(&self, deadline: Instant) -> Result<Option<Outcome>, Error> {
        match self.results.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcome.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::environment("the threads of the exploration have ended"))
            }
        }
    }

    /// Discards the schedules that have not begun; returns their number.
    pub fn forget(&self) -> usize {
        std::mem::take(&mut *locked(&self.jobs.waiting)).len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs.is_over.store(true, Ordering::SeqCst);
        self.jobs.came.notify_all();
        for thread in self.threads.drain(..) {
            // A world that panicked has also ended.
            let _ = thread.join();
        }
    }
}

fn serve(
    site: &Site,
    number: usize,
    jobs: &Jobs,
    habits: Arc<Habits>,
    results: &Sender<Result<Outcome, Error>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return drop(results.send(Err(Error::environment(format!("cannot start a runtime: {error}")))));
        }
    };
    let is_plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let root =
        format!("{}/{}-{number}", site.root, site.lock.label.chars().map(is_plain).collect::<String>());
    let opening = World::open(site.lock.clone(), &site.target, &site.server, root, site.contenders, habits);
    let mut world = match runtime.block_on(opening) {
        Ok(world) => world,
        Err(error) => return drop(results.send(Err(error))),
    };
    while let Some((schedule, usually_left)) = jobs.next() {
        let outcome = runtime.block_on(play(&mut world, &schedule, usually_left));
        if results.send(outcome).is_err() {
            break;
        }
    }
    drop(world);
    runtime.shutdown_timeout(Duration::from_secs(1));
}
