//! Decides whether the load generator was fit to measure, judging by its own behaviour in the measured phase.
//!
//! A trial is invalid if dispatch lag was more than [`LAG_SHARE_AT_MOST`] of the handoff time (or wait time,
//! for locks without handoffs). Dispatch lag is the time from reading a reply or notification until the
//! awaiting contender runs again.
//!
//! The processor time of an ensemble on the same host is reported but does not invalidate a trial, because the
//! ensemble's behaviour is a result.

use statrs::distribution::{Binomial, DiscreteCDF};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Histogram, Measure};
use zklockbench_core::units::format_micros;
use zklockbench_record::{Arrived, Health, Occurrences, Part};

pub const LAG_SHARE_AT_MOST: f64 = 0.2;

pub struct Vitals {
    at: Stamp,
    process_us: u64,
    /// Time for which this process's threads were runnable but had no processor.
    queued_us: Option<u64>,
    host: Option<HostTimes>,
}

#[derive(Clone, Copy)]
struct HostTimes {
    idle: u64,
    steal: u64,
    total: u64,
}

impl Vitals {
    pub fn now() -> Self {
        Self {
            at: clock::now(),
            process_us: process().map_or(0, |(cpu_us, _)| cpu_us),
            queued_us: queued_us(),
            host: host_times(),
        }
    }
}

/// Returns the processor time in microseconds and resident bytes of this process.
fn process() -> Option<(u64, u64)> {
    let pid = Pid::from_u32(std::process::id());
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    system.process(pid).map(|process| (process.accumulated_cpu_time() * 1_000, process.memory()))
}

/// Returns how long this process's threads have waited for a processor, in microseconds (Linux only).
fn queued_us() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let of_thread = |entry: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    };
    let each: Vec<u64> = threads.filter_map(of_thread).collect();
    (!each.is_empty()).then(|| each.iter().sum::<u64>() / 1_000)
}

/// Returns the processor times of the whole host (Linux only).
fn host_times() -> Option<HostTimes> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // Fields: user nice system idle iowait irq softirq steal (guest time is part of user).
    let first_eight = fields.get(..8)?;
    Some(HostTimes {
        idle: first_eight[3] + first_eight[4],
        steal: first_eight[7],
        total: first_eight.iter().sum(),
    })
}

pub fn judge(
    begin: &Vitals,
    seen: &Part,
    threads: usize,
    end: &Vitals,
    has_faults: bool,
    arrived: Option<&Arrived>,
) -> Health {
    let Part { recorder, occurrences, timer_lag } = seen;
    let Occurrences { lag_us, lag_basis_us, asked_hold_us, .. } = occurrences;
    let wall_us = end.at.saturating_sub(begin.at).max(1);
    let cpu_us = end.process_us.saturating_sub(begin.process_us);
    let lag_share = (*lag_basis_us > 0).then(|| *lag_us as f64 / *lag_basis_us as f64);
    let overshoot = recorder.histogram(Measure::HoldOvershoot);
    let overshoot_us = overshoot.mean();
    let asked_us = *asked_hold_us as f64 / overshoot.len().max(1) as f64;
    // Faults also lengthen holds.
    let hold_share = (asked_us > 0.0 && !has_faults).then(|| overshoot_us / asked_us);
    let host = begin.host.zip(end.host).filter(|(b, e)| e.total > b.total);
    let share_of = |part: fn(&HostTimes) -> u64| {
        host.map(|(b, e)| part(&e).saturating_sub(part(&b)) as f64 / (e.total - b.total) as f64)
    };
    let queued_us = begin.queued_us.zip(end.queued_us).map(|(begin, end)| end.saturating_sub(begin));
    let run_queue_share = queued_us.map(|us| us as f64 / wall_us as f64);
    let each = threads.max(1) as f64;
    let running = cpu_us as f64 / wall_us as f64 / each;
    let queued = run_queue_share.unwrap_or(0.0) / each;
    let lateness = recorder.histogram(Measure::Lateness);
    let lateness_p99_us = (!lateness.is_empty()).then(|| lateness.value_at_quantile(0.99));
    let turn_us = recorder.histogram(Measure::Service).mean() + asked_us;
    Health {
        lateness_p99_us,
        timer_lag_p99_us: timer_lag.value_at_quantile(0.99),
        timer_lag_max_us: timer_lag.max(),
        dispatch_lag_p99_us: recorder.histogram(Measure::DispatchLag).value_at_quantile(0.99),
        lag_share,
        cpu_us,
        cpu_share: cpu_us as f64 / wall_us as f64,
        run_queue_share,
        host_idle_share: share_of(|times| times.idle),
        host_steal_share: share_of(|times| times.steal),
        resident_bytes: process().map(|(_, bytes)| bytes),
        standstill_us: 0,
        hold_overshoot_share: hold_share,
        invalid: lag_share
            .and_then(invalid_by_lag)
            .or_else(|| invalid_by_holds(hold_share?, overshoot_us))
            .or_else(|| invalid_by_lateness(lateness, turn_us))
            .or_else(|| invalid_by_processor(arrived?, recorder.measured.acquired(), running, queued)),
    }
}

fn invalid_by_lag(share: f64) -> Option<String> {
    (share > LAG_SHARE_AT_MOST).then(|| {
        format!(
            "{:.0} % of the handoff time was the load generator's own lag (limit {:.0} %); use fewer \
             contenders, more generator threads (--threads) or another host",
            share * 100.0,
            LAG_SHARE_AT_MOST * 100.0
        )
    })
}

/// Acceptable lateness of the generator's timers on a busy host.
const TIMER_US: f64 = 2_000.0;

fn invalid_by_holds(share: f64, overshoot_us: f64) -> Option<String> {
    (share > LAG_SHARE_AT_MOST && overshoot_us > TIMER_US).then(|| {
        format!(
            "locks were held {:.0} % too long because the load generator's timers were late (limit {:.0} %); \
             use fewer contenders, more generator threads (--threads) or another host",
            share * 100.0,
            LAG_SHARE_AT_MOST * 100.0
        )
    })
}

/// Maximum lateness (99th percentile), as a share of the time from acquire to release.
const LATENESS_SHARE_AT_MOST: f64 = 0.05;
/// Maximum share of late arrivals, and the significance level of the test. Without the test, chance would invalidate
/// trials: if 1 % of arrivals are late on average, two or more of 140 are late in four of ten trials.
const LATE_AT_MOST: f64 = 0.01;
const BY_CHANCE: f64 = 0.05;

fn invalid_by_lateness(lateness: &Histogram, turn_us: f64) -> Option<String> {
    let limit = TIMER_US.max(LATENESS_SHARE_AT_MOST * turn_us) as u64;
    let all = lateness.len();
    let late = lateness.count_between(limit + 1, u64::MAX);
    let as_many_by_chance = Binomial::new(LATE_AT_MOST, all).ok()?.sf(late.checked_sub(1)?);
    (as_many_by_chance <= BY_CHANCE).then(|| {
        format!(
            "the load generator was late: {late} of {all} arrivals started more than {} late (the 99th percentile \
             was {}); use more generator threads (--threads) or another host",
            format_micros(limit),
            format_micros(lateness.value_at_quantile(1.0 - LATE_AT_MOST))
        )
    })
}

/// Maximum busy share of the generator threads. Above it, the threads may have limited the throughput.
const OCCUPIED_AT_MOST: f64 = 0.95;

/// Blames the generator for missed arrivals if its threads were nearly always running or waiting for a processor.
fn invalid_by_processor(arrived: &Arrived, acquired: u64, running: f64, queued: f64) -> Option<String> {
    let missed = (acquired as f64) < Arrived::ACHIEVED * arrived.offered as f64;
    (missed && running + queued > OCCUPIED_AT_MOST).then(|| {
        format!(
            "{acquired} of {} arrivals were served in time, while the load generator's threads ran {:.0} % of \
             the time and waited for a processor {:.0} %; use more generator threads (--threads) or another host",
            arrived.offered,
            100.0 * running,
            100.0 * queued
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::measure::{ThreadRecorder, Window, new_histogram};

    #[test]
    fn generator_is_blamed_for_a_missed_rate_only_if_it_was_busy() {
        let arrived = Arrived { offered: 1_000, ..Arrived::default() };
        let judged = |acquired, running, queued| invalid_by_processor(&arrived, acquired, running, queued);
        assert_eq!(judged(500, 0.4, 0.1), None, "the generator was not busy");
        assert_eq!(judged(990, 0.99, 0.0), None, "the rate was achieved");
        let why = judged(500, 0.99, 0.0).unwrap();
        assert!(why.contains("500 of 1000") && why.contains("ran 99 %"), "{why}");
        let why = judged(500, 0.3, 0.68).unwrap();
        assert!(why.contains("waited for a processor 68 %"), "{why}");
    }

    fn lateness(all: u64, late: u64, us: u64) -> Histogram {
        let mut lateness = new_histogram();
        lateness.record_n(50, all - late).unwrap();
        lateness.record_n(us, late).unwrap();
        lateness
    }

    #[test]
    fn late_generator_invalidates_the_trial_unless_holds_are_long() {
        assert_eq!(invalid_by_lateness(&lateness(1_000, 100, 1_900), 0.0), None);
        let why = invalid_by_lateness(&lateness(1_000, 30, 5_000), 20_000.0).unwrap();
        assert!(why.contains("30 of 1000 arrivals started more than 2 ms late"), "{why}");
        assert!(why.contains("the 99th percentile was 5 ms"), "{why}");
        let found = invalid_by_lateness(&lateness(1_000, 30, 5_000), 1_000_000.0);
        assert_eq!(found, None, "5 ms is half a percent of a second");
    }

    #[test]
    fn few_late_arrivals_do_not_invalidate_a_short_trial() {
        let is_invalid = |all, late| invalid_by_lateness(&lateness(all, late, 5_000), 0.0).is_some();
        assert_eq!([is_invalid(140, 3), is_invalid(140, 5)], [false, true]);
        assert_eq!([is_invalid(20_000, 200), is_invalid(20_000, 230)], [false, true]);
        assert!(!is_invalid(0, 0) && !is_invalid(10, 0) && is_invalid(10, 2));
    }

    #[test]
    fn excessive_lag_invalidates_the_trial_and_suggests_a_remedy() {
        assert_eq!(invalid_by_lag(0.05), None);
        let why = invalid_by_lag(0.4).unwrap();
        assert!(why.contains("40 %") && why.contains("--threads"), "{why}");
    }

    #[test]
    fn holds_that_are_25_percent_too_long_invalidate_the_trial() {
        let why = invalid_by_holds(0.25, 5_000.0).unwrap();
        assert!(why.contains("held 25 % too long"), "{why}");
        assert_eq!(invalid_by_holds(0.1, 5_000.0), None);
        assert_eq!(invalid_by_holds(1.0, 1_100.0), None, "the timer alone may double a hold of 1 ms");
    }

    #[test]
    fn overshoot_is_a_share_of_the_requested_holds_and_unknown_with_faults() {
        let mut recorder = ThreadRecorder::new(1);
        recorder.set_window(Window { start: 0, end: Stamp::MAX });
        (0..10).for_each(|at| recorder.record(Measure::HoldOvershoot, at, 3_000));
        recorder.settle();
        let occurrences = Occurrences { asked_hold_us: 10 * 10_000, ..Occurrences::default() };
        let (seen, vitals) = (Part { recorder, occurrences, ..Part::nothing() }, Vitals::now());
        let judged = |has_faults| judge(&vitals, &seen, 1, &vitals, has_faults, None);
        let health = judged(false);
        assert!(health.hold_overshoot_share.is_some_and(|share| (share - 0.3).abs() < 0.001), "{health:?}");
        assert!(health.invalid.is_some_and(|why| why.contains("held 30 % too long")));
        assert_eq!(judged(true).hold_overshoot_share, None);
    }

    #[test]
    fn process_reports_its_resident_bytes() {
        assert!(process().is_some_and(|(_, bytes)| bytes > 0));
    }
}
