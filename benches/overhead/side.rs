//! One side of a comparison over a span of time: what it acquired, and the processor time that took.

use std::collections::BTreeMap;

use zklockbench::clock::{self, Stamp};

/// Ticks of the kernel's processor time in a second, on every Linux there is.
const TICKS: f64 = 100.0;

/// What one side came to.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// Acquisitions per second.
    pub throughput: f64,
    /// Processor time of its threads an acquisition, in microseconds; not a number where the system does not
    /// tell.
    pub cpu_us: f64,
}

impl Side {
    /// So many acquisitions between the two moments, on threads of that name.
    pub fn between(begin: &Moment, end: &Moment, acquired: u64, thread: &str) -> Self {
        let seconds = (end.at - begin.at) as f64 / 1e6;
        let ticks = |moment: &Moment| moment.ticks.get(thread).map_or(f64::NAN, |ticks| *ticks as f64);
        Self {
            throughput: acquired as f64 / seconds,
            cpu_us: (ticks(end) - ticks(begin)) / TICKS * 1e6 / acquired as f64,
        }
    }
}

/// A moment, and the processor time that this process's threads had taken by then, by their names.
#[derive(Debug)]
pub struct Moment {
    at: Stamp,
    ticks: BTreeMap<String, u64>,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        let mut ticks = BTreeMap::new();
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for (name, taken) in threads.filter_map(|thread| read(&thread.path().join("stat"))) {
            *ticks.entry(name).or_default() += taken;
        }
        Self { at: clock::now(), ticks }
    }
}

/// Name and ticks of a thread: `pid (name) state …`, user and system time in fields 14 and 15.
fn read(path: &std::path::Path) -> Option<(String, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let (head, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some((head.split_once('(')?.1.to_owned(), ticks(14)? + ticks(15)?))
}
