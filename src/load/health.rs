//! Watches the generator itself during the measured phase, and says when it was not fit to measure.
//!
//! The rule: a trial is invalid when more than [`LAG_SHARE_AT_MOST`] of what it reports as handoff (as wait,
//! for locks that are not handed over) was the generator's own dispatch lag: the time between a reply or
//! notification having been read in this process and the contender that awaited it running again. That lag
//! is measured on every sample, not estimated. An ensemble on the same host takes processor time, too; that
//! is stated beside every figure and is not the generator's fault. An ensemble that stood still makes a trial invalid,
//! too.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::observation::ThreadRecord;
use super::shared::Shared;
use crate::catalog::{ParamValue, Params};
use crate::clock::{self, Stamp};
use crate::measure::{Histogram, Measure, Sheet};
use crate::record::Health;

/// The largest share of a result that may be the generator's own lag.
pub const LAG_SHARE_AT_MOST: f64 = 0.2;

/// Processor time at one moment.
pub struct Vitals {
    at: Stamp,
    process_us: u64,
    host: Option<HostTimes>,
}

#[derive(Clone, Copy)]
struct HostTimes {
    idle: u64,
    steal: u64,
    total: u64,
}

impl Vitals {
    /// Takes them now.
    #[must_use]
    pub fn now() -> Self {
        Self { at: clock::now(), process_us: process().map_or(0, |(cpu_us, _)| cpu_us), host: host_times() }
    }
}

/// Processor time in microseconds and resident bytes of this process.
fn process() -> Option<(u64, u64)> {
    let pid = Pid::from_u32(std::process::id());
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    system.process(pid).map(|process| (process.accumulated_cpu_time() * 1_000, process.memory()))
}

/// Processor time of the whole host, where the system tells (Linux).
fn host_times() -> Option<HostTimes> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user.
    let first_eight = fields.get(..8)?;
    Some(HostTimes {
        idle: first_eight[3] + first_eight[4],
        steal: first_eight[7],
        total: first_eight.iter().sum(),
    })
}

/// Judges the generator over the span between the two.
#[must_use]
pub fn judge(begin: &Vitals, sheet: &Sheet, threads: &[ThreadRecord], end: &Vitals) -> Health {
    let timer_lag = merged_timer_lag(threads);
    let wall_us = end.at.saturating_sub(begin.at).max(1);
    let cpu_us = end.process_us.saturating_sub(begin.process_us);
    let lag_us: u64 = threads.iter().map(|thread| thread.log.lag_us).sum();
    let basis_us: u64 = threads.iter().map(|thread| thread.log.lag_basis_us).sum();
    let lag_share = (basis_us > 0).then(|| lag_us as f64 / basis_us as f64);
    let host = begin.host.zip(end.host).filter(|(b, e)| e.total > b.total);
    let share_of = |part: fn(&HostTimes) -> u64| {
        host.map(|(b, e)| part(&e).saturating_sub(part(&b)) as f64 / (e.total - b.total) as f64)
    };
    Health {
        timer_lag_p99_us: timer_lag.value_at_quantile(0.99),
        timer_lag_max_us: timer_lag.max(),
        dispatch_lag_p99_us: sheet.histogram(Measure::DispatchLag).value_at_quantile(0.99),
        lag_share,
        cpu_us,
        cpu_share: cpu_us as f64 / wall_us as f64,
        host_idle_share: share_of(|times| times.idle),
        host_steal_share: share_of(|times| times.steal),
        resident_bytes: process().map(|(_, bytes)| bytes),
        standstill_us: 0,
        invalid: lag_share.and_then(invalid_by_lag),
    }
}

fn merged_timer_lag(threads: &[ThreadRecord]) -> Histogram {
    let mut merged = crate::measure::new_histogram();
    for thread in threads {
        // Same bounds everywhere: adding cannot fail.
        let _ = merged.add(&thread.timer_lag);
    }
    merged
}

fn invalid_by_lag(share: f64) -> Option<String> {
    (share > LAG_SHARE_AT_MOST).then(|| {
        format!(
            "{:.0} % of the reported handoff was the generator's own lag (limit {:.0} %); \
             use fewer contenders, more generator threads (--threads) or another host",
            share * 100.0,
            LAG_SHARE_AT_MOST * 100.0
        )
    })
}

/// How closely a standstill is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long a lock may be free while others wait, beside the times that it sleeps by its parameters.
const FREE_AT_MOST: Duration = Duration::from_secs(1);

/// Notes the longest standstill on the board, for as long as it is polled: the lock is free, somebody waits for it, and
/// nobody gets it.
///
/// Between a release and the next acquisition that is so for a moment in every lock. When it lasts, it was the
/// ensemble that stood still, not the lock, and the trial's figures say nothing about the lock: servers of
/// some versions forget a request until the next one comes (ZOOKEEPER-4537).
pub async fn watch_standstill(shared: &Shared) {
    let board = &shared.board;
    let mut since = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let acquired = board.acquired.load(Ordering::Acquire);
        let is_free = shared.scenes.iter().all(|scene| scene.inside() == 0) && shared.gauge.waiting() > 0;
        let now = clock::now();
        since = match since {
            Some((began, before)) if is_free && before == acquired => {
                board.standstill_us.fetch_max(now.saturating_sub(began), Ordering::Relaxed);
                Some((began, before))
            }
            _ => is_free.then_some((now, acquired)),
        };
    }
}

/// Why the longest standstill makes the trial invalid, if it does. Not asked of locks that let their waiters
/// down by themselves.
pub fn judge_standstill(shared: &Shared) -> Option<String> {
    let stood = Duration::from_micros(shared.board.standstill_us.load(Ordering::Relaxed));
    let at_most = FREE_AT_MOST + 2 * longest_pause(&shared.spec.strategy.params);
    (shared.entry.card.guarantees.exclusive && stood > at_most).then(|| {
        format!(
            "the ensemble stood still: for {:.1} s the lock was free, somebody waited for it, and nobody got it \
             (servers before 3.6.4, 3.7.2 and 3.8.1 can forget a request: ZOOKEEPER-4537); run it again",
            stood.as_secs_f64()
        )
    })
}

/// How long the lock sleeps before it looks again.
pub(super) fn longest_pause(params: &Params) -> Duration {
    let by_flag = matches!(params.get("wake"), Some(ParamValue::Word(how)) if how == "poll-flag");
    let pauses = params.iter().filter_map(|(name, value)| match value {
        ParamValue::Duration(pause) if by_flag || name == "poll_interval" => Some(*pause),
        _ => None,
    });
    pauses.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_material_lag_makes_the_trial_invalid_and_says_what_to_do() {
        assert_eq!(invalid_by_lag(0.05), None);
        let why = invalid_by_lag(0.4).unwrap();
        assert!(why.contains("40 %") && why.contains("--threads"), "{why}");
    }

    #[test]
    fn the_process_knows_its_own_size() {
        assert!(process().is_some_and(|(_, bytes)| bytes > 0));
    }

    #[test]
    fn a_lock_may_sleep_as_long_as_it_was_told_to() {
        let second = ParamValue::Duration(Duration::from_secs(1));
        let with = |pairs: &[(&str, ParamValue)]| -> Params {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        assert_eq!(longest_pause(&with(&[("poll_interval", second.clone())])), Duration::from_secs(1));
        let flag = |how: &str| [("wake", ParamValue::Word(how.into())), ("flag_interval", second.clone())];
        assert_eq!(longest_pause(&with(&flag("poll-flag"))), Duration::from_secs(1));
        assert_eq!(longest_pause(&with(&flag("at-once"))), Duration::ZERO);
    }
}
