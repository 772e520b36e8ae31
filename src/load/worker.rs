//! A generator thread: its runtime, its contenders, its sheet.
//!
//! Each thread runs its contenders and their sessions by turns on one runtime. A reply is read, decoded and
//! handed to its contender on the same thread, and everything that is measured goes to a sheet that no other
//! thread sees.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::contender::Contender;
use super::desk::{Desk, Log};
use super::shared::Shared;
use crate::clock;
use crate::measure::{Histogram, Sheet, new_histogram};

/// How often the runtime's own lateness is sampled.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// Everything that one thread yields.
pub struct ThreadRecord {
    /// Histograms and counts.
    pub sheet: Sheet,
    /// The rest.
    pub log: Log,
    /// Lateness of the probe timer.
    pub timer_lag: Histogram,
}

/// Starts a thread for these contenders; its record comes when all have ended or the trial is aborted.
///
/// # Errors
/// When the system refuses a thread.
pub fn spawn(
    shared: Arc<Shared>,
    contenders: Vec<usize>,
    seconds: usize,
) -> std::io::Result<oneshot::Receiver<ThreadRecord>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("generator".into()).spawn(move || {
        let record = runtime.block_on(LocalSet::new().run_until(work(shared, contenders, seconds)));
        // Nobody waits for the record when the run was given up.
        let _ = sender.send(record);
    })?;
    Ok(receiver)
}

async fn work(shared: Arc<Shared>, contenders: Vec<usize>, seconds: usize) -> ThreadRecord {
    let desk = Desk::new(&shared, seconds);
    let timer_lag = Rc::new(RefCell::new(new_histogram()));
    let probe = tokio::task::spawn_local(probe(desk.clone(), Rc::clone(&timer_lag)));
    let window = tokio::task::spawn_local(follow_window(Arc::clone(&shared), desk.clone()));
    let mut tasks = JoinSet::new();
    for id in contenders {
        tasks.spawn_local(Contender::new(id, Arc::clone(&shared), desk.clone()).run());
    }
    shared.signals.abort.run_until_cancelled(async { while tasks.join_next().await.is_some() {} }).await;
    tasks.abort_all();
    window.abort();
    probe.abort();
    let sheet = desk.sheet.borrow().clone();
    let log = desk.log.take();
    let timer_lag = timer_lag.borrow().clone();
    ThreadRecord { sheet, log, timer_lag }
}

/// Sets the sheet's window as the conductor says.
async fn follow_window(shared: Arc<Shared>, desk: Desk) {
    let mut window = shared.signals.window.subscribe();
    loop {
        desk.sheet.borrow_mut().set_window(*window.borrow_and_update());
        if window.changed().await.is_err() {
            return;
        }
    }
}

/// Samples how late this thread's runtime wakes a sleeper. The timer itself counts in whole milliseconds, so
/// a lateness below one is no lag.
async fn probe(desk: Desk, lag: Rc<RefCell<Histogram>>) {
    loop {
        let due = clock::now() + clock::micros(PROBE_INTERVAL);
        tokio::time::sleep(PROBE_INTERVAL).await;
        let now = clock::now();
        if desk.sheet.borrow().window().contains(now) {
            lag.borrow_mut().saturating_record(now.saturating_sub(due));
        }
    }
}
