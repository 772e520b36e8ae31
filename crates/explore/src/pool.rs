//! Parallel worlds on one server, each on its own thread, because most of a schedule's time is spent waiting.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{RwLock, watch};
use tokio::time::Instant;

use super::cast::Lock;
use super::habits::Habits;
use super::outcome::{Nodes, Outcome};
use super::play::play;
use super::schedule::Schedule;
use super::stale::Servers;
use super::world::{Pace, World};
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;
use zklockbench_zk::Target;

/// Server, directory and lock of an exploration.
#[derive(Debug, Clone)]
pub struct Site {
    pub lock: Lock,
    pub target: Target,
    pub servers: Servers,
    /// Directory in which locks are created.
    pub root: String,
    pub contenders: usize,
    pub worlds: usize,
}

/// Runs schedules.
pub trait Runs {
    /// Queues a schedule. `confirms` means that it is rerun to confirm that a contender is stuck, with more time.
    fn add(&self, schedule: Schedule, usually_left: Option<Nodes>, confirms: bool);

    /// Returns the next outcome, or `None` at the deadline.
    ///
    /// # Errors
    /// If a world could not be opened, or if this host has no free port.
    fn next(&self, deadline: Instant) -> Result<Option<Outcome>, Error>;

    /// Discards all unfinished schedules.
    fn forget(&self);
}

/// Threads that run schedules.
pub struct Pool {
    jobs: Arc<Jobs>,
    results: Receiver<Result<Outcome, Error>>,
    threads: Vec<JoinHandle<()>>,
}

struct Job {
    schedule: Schedule,
    usually_left: Option<Nodes>,
    confirms: bool,
    /// Value of `forgotten` when the schedule was added.
    since: u64,
}

#[derive(Default)]
struct Jobs {
    waiting: Mutex<VecDeque<Job>>,
    came: Condvar,
    /// Number of calls to `forget`.
    forgotten: watch::Sender<u64>,
    is_over: AtomicBool,
    /// Locked exclusively by a schedule that blocks the servers' links, which would stall all other schedules.
    links: RwLock<()>,
}

impl Jobs {
    fn next(&self) -> Option<Job> {
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
}

impl Runs for Pool {
    fn add(&self, schedule: Schedule, usually_left: Option<Nodes>, confirms: bool) {
        let since = *self.jobs.forgotten.borrow();
        locked(&self.jobs.waiting).push_back(Job { schedule, usually_left, confirms, since });
        self.jobs.came.notify_one();
    }

    fn next(&self, deadline: Instant) -> Result<Option<Outcome>, Error> {
        match self.results.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcome.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::environment("all exploration threads have ended"))
            }
        }
    }

    fn forget(&self) {
        locked(&self.jobs.waiting).clear();
        self.jobs.forgotten.send_modify(|times| *times += 1);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.forget();
        self.jobs.is_over.store(true, Ordering::SeqCst);
        self.jobs.came.notify_all();
        for thread in self.threads.drain(..) {
            // A panicked thread has also ended.
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
    let opening = World::open(site.lock.clone(), &site.target, &site.servers, root, site.contenders, habits);
    let mut world = match runtime.block_on(opening) {
        Ok(world) => world,
        Err(error) => return drop(results.send(Err(error))),
    };
    let pace = world.pace;
    while let Some(Job { schedule, usually_left, confirms, since }) = jobs.next() {
        world.pace = if confirms { pace.confirming() } else { pace };
        let mut forgotten = jobs.forgotten.subscribe();
        let is_stopped = async move { drop(forgotten.wait_for(|times| *times > since).await) };
        let outcome = runtime.block_on(async {
            let (_alone, _shared);
            if schedule.makes_stale() {
                _alone = jobs.links.write().await;
            } else {
                _shared = jobs.links.read().await;
            }
            play(&mut world, &schedule, usually_left.as_ref(), is_stopped).await
        });
        if results.send(outcome).is_err() {
            break;
        }
    }
    drop(world);
    runtime.shutdown_timeout(Duration::from_secs(1));
}
