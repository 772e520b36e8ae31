//! Tests start when the host can serve them. A test that starts while the processors are overcommitted misses its
//! deadlines and makes others miss theirs, so fewer tests run at a time on a slow or busy host.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Runnable threads of the host for each processor, above which no test starts: one that runs and one that waits.
const RUNNABLE_PER_PROCESSOR: f64 = 2.0;
/// Runnable threads that do not count: the low-priority lane has two.
const GIVING_WAY: f64 = 2.0;
/// Number of averaged samples. The load of the last test that started shows within that time.
const SAMPLES: u32 = 10;
const BETWEEN_SAMPLES: Duration = Duration::from_millis(10);
/// Tests of a binary that run even on a busy host, whose other load may never end.
const ALWAYS: usize = 2;
/// Longest that a test waits for others of its binary.
const AT_MOST: Duration = Duration::from_secs(60);

/// Admits tests one after the other.
static GATE: Mutex<()> = Mutex::new(());
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a test as running until its thread ends.
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
    /// Each test has its own thread, which waits once, before the test has started anything that could time out.
    static LET_IN: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// At a test's first call, waits until the host has capacity for another test.
pub fn wait() {
    if LET_IN.with_borrow(Option::is_some) {
        return;
    }
    let _gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    while RUNNING.load(Ordering::SeqCst) >= ALWAYS && begin.elapsed() < AT_MOST && !is_calm() {}
    LET_IN.set(Some(Running::begin()));
}

/// Whether few enough threads are runnable. Processor time would not show that: time used by a nice process counts as
/// idle for a test, but servers are nice, too.
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

/// Threads of the host that run or could run, without the calling one, if the system reports them (Linux).
fn runnable() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let (runnable, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    Some(runnable.parse::<u32>().ok()?.saturating_sub(1))
}
