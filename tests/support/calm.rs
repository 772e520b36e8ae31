//! Delays tests while the host is overloaded. With fewer tests at a time on a slow or busy host, tests do not miss
//! their deadlines.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum number of runnable threads per processor at which a test may start: one running and one waiting.
const RUNNABLE_PER_PROCESSOR: f64 = 2.0;
/// Number of runnable threads to ignore: those of the `pure` lane, which runs at low priority.
const GIVING_WAY: f64 = 2.0;
/// Number of samples to average. The samples take long enough to include the previous test's load.
const SAMPLES: u32 = 10;
const BETWEEN_SAMPLES: Duration = Duration::from_millis(10);
/// Number of tests of a binary that run even on a busy host.
const ALWAYS: usize = 2;
/// Maximum delay of a test.
const AT_MOST: Duration = Duration::from_secs(60);

/// Serialises the start of tests.
static GATE: Mutex<()> = Mutex::new(());
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a test as running until dropped.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

thread_local! {
    /// Set once the test of this thread has started.
    static LET_IN: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Waits, on the first call in a test, until the host has capacity for another test.
pub fn wait() {
    if LET_IN.with_borrow(Option::is_some) {
        return;
    }
    let _gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    while RUNNING.load(Ordering::SeqCst) >= ALWAYS && begin.elapsed() < AT_MOST && !is_calm() {}
    LET_IN.set(Some(Running::begin()));
}

/// Returns whether few enough threads are runnable. Processor time would not work: it would have to exclude niced
/// processes, but the servers are niced too.
fn is_calm() -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let mut sum = 0;
    for _ in 0..SAMPLES {
        sleep(BETWEEN_SAMPLES);
        let Some(runnable) = runnable() else { return true };
        sum += runnable;
    }
    f64::from(sum) / f64::from(SAMPLES) <= RUNNABLE_PER_PROCESSOR * processors + GIVING_WAY
}

/// Number of runnable threads of the host except the calling thread; `None` if unknown (not Linux).
fn runnable() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let (runnable, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    Some(runnable.parse::<u32>().ok()?.saturating_sub(1))
}
