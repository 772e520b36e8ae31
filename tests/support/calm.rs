//! Tests begin when the host has processor time to spare. One that begins while others have all of it misses its deadlines
//! and makes them miss theirs; so where the host is slow, fewer run at a time.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The share of the processors' time that has to be idle.
const IDLE_AT_LEAST: f64 = 0.2;
/// Over how long that is looked at; the test that began last shows by then what it takes.
const WINDOW: Duration = Duration::from_millis(100);
/// What was seen before that says nothing of now.
const LONGEST_WINDOW: Duration = Duration::from_secs(3);
/// The longest that a test waits: what else the host does may have no end.
const AT_MOST: Duration = Duration::from_secs(15);
/// The longest that all tests of a binary wait together.
const ALL_AT_MOST: Duration = Duration::from_secs(150);

/// What is known from the test that was let in last.
struct Gate {
    /// When that was, and the host's times then.
    last: Option<(Instant, Times)>,
    /// What all tests of this binary have waited.
    waited: Duration,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { last: None, waited: Duration::ZERO });

thread_local! {
    /// Every test has a thread of its own, and waits once, before it has anything that would run out meanwhile.
    static LET_IN: Cell<bool> = const { Cell::new(false) };
}

/// Waits for that, at a test's first call. One test after the other is let in.
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
    /// Where the system tells (Linux).
    fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let ticks = |field: &str| field.parse::<u64>().ok();
        let fields: Vec<u64> = text.lines().next()?.split_whitespace().skip(1).map_while(ticks).collect();
        // user nice system idle iowait irq softirq steal; guest time is part of user. What is nice gives way.
        Some(Self {
            idle: fields.get(1)? + fields.get(3)? + fields.get(4)?,
            all: fields.iter().take(8).sum(),
        })
    }

    fn idle_share_since(&self, before: &Self) -> f64 {
        (self.idle.saturating_sub(before.idle)) as f64 / (self.all - before.all).max(1) as f64
    }
}
