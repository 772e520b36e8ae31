//! A generator thread: its runtime, its contenders, its sheet.
//!
//! Each thread runs its contenders and their sessions by turns on one runtime. A reply is read, decoded and
//! handed to its contender on the same thread, and everything that is measured goes to a sheet that no other
//! thread sees.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::contender::Contender;
use super::shared::Shared;
use crate::clock;
use crate::measure::{Histogram, Sheet, new_histogram};
use crate::record::{Tally, Violation};
use crate::zk::Observed;

/// How often the runtime's own lateness is sampled.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// What a thread notes beside its sheet.
#[derive(Debug, Default)]
pub struct Log {
    /// Each contender's tally.
    pub tallies: BTreeMap<usize, Tally>,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// The first violations.
    pub violations: Vec<Violation>,
    /// All violations.
    pub violation_count: u64,
    /// Sessions opened before the start.
    pub opened: u64,
    /// Sessions that expired.
    pub expired: u64,
    /// Sessions opened anew.
    pub rejoined: u64,
    /// The generator's own lag on the way to each lock, summed over the acquisitions measured.
    pub lag_us: u64,
    /// What that lag is a part of: the handoffs, or the waits of locks that are not handed over.
    pub lag_basis_us: u64,
    /// Looks that polling contenders should have made, by their measured waits.
    pub looks_by_wait: u64,
}

/// Everything that one thread yields.
pub struct ThreadRecord {
    /// Histograms and counts.
    pub sheet: Sheet,
    /// The rest.
    pub log: Log,
    /// Lateness of the probe timer.
    pub timer_lag: Histogram,
}

/// What the contenders of one thread share.
#[derive(Clone)]
pub struct Desk {
    /// The thread's sheet.
    pub sheet: Rc<RefCell<Sheet>>,
    /// The thread's log.
    pub log: Rc<RefCell<Log>>,
    /// What sessions write to.
    pub observed: Observed,
}

impl Desk {
    fn new(shared: &Shared, seconds: usize) -> Self {
        let sheet = Rc::new(RefCell::new(Sheet::new(seconds)));
        let changes =
            shared.scenes.iter().map(|scene| (Rc::from(&*scene.path), Arc::clone(&scene.changes))).collect();
        let observed = Observed {
            sheet: Rc::clone(&sheet),
            pulse: Arc::clone(&shared.pulse),
            last_reply: Arc::clone(&shared.last_reply),
            changes,
        };
        Self { sheet, log: Rc::default(), observed }
    }
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
