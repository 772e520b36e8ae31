//! One side of a comparison over a period: the acquisitions and their processor time.

use zklockbench_core::clock::Stamp;

/// Kernel ticks of processor time per second, equal on every Linux system.
const TICKS: f64 = 100.0;

#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// Acquisitions per second.
    pub throughput: f64,
    /// Processor time of the side's threads per acquisition in microseconds, or NaN if the system does not report it.
    pub cpu_us: f64,
}

/// Counters of one side at one point in time.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub at: Stamp,
    pub acquired: u64,
    /// Processor time of the side's threads, or `None` if the system does not report it.
    pub ticks: Option<u64>,
}

impl Side {
    pub fn between(begin: &Moment, end: &Moment) -> Self {
        let acquired = (end.acquired - begin.acquired) as f64;
        let seconds = (end.at - begin.at) as f64 / 1e6;
        let ticks = end.ticks.zip(begin.ticks).map_or(f64::NAN, |(end, begin)| (end - begin) as f64);
        Self { throughput: acquired / seconds, cpu_us: ticks / TICKS * 1e6 / acquired }
    }
}

/// Processor time of this process's threads with this name, or `None` if the system does not report it.
pub fn ticks_of(thread: &str) -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let read = threads.filter_map(|thread| read(&thread.path().join("stat")));
    Some(read.filter(|(name, _)| name == thread).map(|(_, ticks)| ticks).sum())
}

/// Reads a thread's name and ticks from `pid (name) state …`; user and system time are fields 14 and 15.
fn read(path: &std::path::Path) -> Option<(String, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let (head, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some((head.split_once('(')?.1.to_owned(), ticks(14)? + ticks(15)?))
}
