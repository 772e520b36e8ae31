//! Delays tests until the host has processor time to spare. A test on a saturated host misses its deadlines,
//! and makes others miss theirs; so on a slow host fewer tests run at a time.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Share of the processors' time that must be idle.
const IDLE_AT_LEAST: f64 = 0.2;
/// Observation window; by its end the load of the last test that began is visible.
const WINDOW: Duration = Duration::from_millis(100);
/// Age at which an earlier observation no longer counts.
const LONGEST_WINDOW: Duration = Duration::from_secs(3);
/// Longest wait of a test: other load of the host may have no end.
const AT_MOST: Duration = Duration::from_secs(15);
/// Longest total wait of all tests of a binary.
const ALL_AT_MOST: Duration = Duration::from_secs(150);

/// Observations since the last test was admitted.
struct Gate {
    /// Time of the last observation, and the host's processor times then.
    last: Option<(Instant, Times)>,
    /// Total wait of all tests of this binary.
    waited: Duration,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { last: None, waited: Duration::ZERO });

thread_local! {
    /// Set in each test's thread after its only wait, which comes before it has anything that could time out.
    static LET_IN: Cell<bool> = const { Cell::new(false) };
}

/// Waits for idle processors, on a test's first call. Tests are admitted one after the other.
pub fn wait() {
    if LET_IN.replace(true) {
        return;
    }
    let mut gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    loop {
        let Some(now) = Times::now() else { return };
        let fresh = gate.last.as_ref().filter(|(at, _)| (WINDOW..LONGEST_WINDOW).contains(&at.elapsed()));
        let has_time = fresh.is_some_and(|(_, before)| now.idle_share_since(before) >= IDLE_AT_LEAST);
        gate.last = Some((Instant::now(), now));
        if has_time || begin.elapsed() > AT_MOST || gate.waited + begin.elapsed() > ALL_AT_MOST {
            break;
        }
        sleep(WINDOW);
    }
    gate.waited += begin.elapsed();
}

/// Processor time of the whole host in ticks.
struct Times {
    idle: u64,
    all: u64,
}

impl Times {
    /// Reads the times, on systems that report them (Linux).
    fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let ticks = |field: &str| field.parse::<u64>().ok();
        let fields: Vec<u64> = text.lines().next()?.split_whitespace().skip(1).map_while(ticks).collect();
        // user nice system idle iowait irq softirq steal; guest time is part of user. Nice time counts as
        // idle, as it yields.
        Some(Self {
            idle: fields.get(1)? + fields.get(3)? + fields.get(4)?,
            all: fields.iter().take(8).sum(),
        })
    }

    fn idle_share_since(&self, before: &Self) -> f64 {
        (self.idle.saturating_sub(before.idle)) as f64 / (self.all - before.all).max(1) as f64
    }
}
