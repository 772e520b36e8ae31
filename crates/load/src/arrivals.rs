//! Arrivals of an open load.
//!
//! The contenders are a pool of sessions. A free contender takes the next arrival and sleeps until the arrival
//! is due; if no contender is free, arrivals queue in the client. No arrival waits while a contender is free,
//! and the schedule does not depend on the lock's speed.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::gaps::Gap;
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::Stamp;
use zklockbench_core::locked::locked;
use zklockbench_core::measure::Window;
use zklockbench_record::{ArrivalWaits, Arrived, Dispersion, Disturbance};
use zklockbench_scenario::Late;
use zklockbench_scenario::schedule::{Arrival, Coming};

const OPEN: u32 = 0;
/// The arrival found no free session and was dropped.
const DROPPED: u32 = u32::MAX;
const UNSERVED: u32 = u32::MAX - 1;
/// Longest wait that can be stored.
const LONGEST_US: u32 = u32::MAX - 2;

#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Position in the order of arrival.
    pub number: usize,
    pub due: Stamp,
    pub arrival: Arrival,
}

/// All arrivals of a trial, in eight bytes each: only outcomes and delays are stored. Arrivals are drawn when
/// taken, and drawn again when outcomes are counted.
pub struct Arrivals {
    draw: Box<dyn Fn() -> Coming + Send + Sync>,
    late: Late,
    begin: AtomicU64,
    upcoming: Mutex<Upcoming>,
    /// End of the measured phase, relative to `begin`.
    end: AtomicU64,
    /// Cached pair of an end and the number of arrivals due before it.
    due: Mutex<Option<(u64, usize)>>,
    /// Outcome of each arrival: [`OPEN`], its wait in microseconds plus one, or a reason why the arrival has no wait.
    outcomes: Box<[AtomicU32]>,
    /// Delay that the generator caused for each arrival, in microseconds; 0 before the arrival starts.
    lateness_us: Box<[AtomicU32]>,
}

struct Upcoming {
    next: usize,
    coming: Coming,
}

/// Wait of an arrival; `us` is `None` if the arrival was not served.
#[derive(Debug, Clone, Copy)]
struct WaitOfOne {
    due: Stamp,
    us: Option<u64>,
}

struct DisturbedLock {
    before: Vec<WaitOfOne>,
    during: Vec<WaitOfOne>,
    /// Time after the gap until the queue was as short as before; `None` if it never was.
    drained_us: Option<u64>,
}

impl DisturbedLock {
    fn of(waits: &[WaitOfOne], before: &Range<Stamp>, gap: Gap) -> Self {
        // Arrivals increment the queue length, and served arrivals decrement it.
        let come = waits.iter().map(|wait| (wait.due, 1_i64));
        let got = waits.iter().filter_map(|wait| Some((wait.due + wait.us?, -1)));
        let mut changes: Vec<(Stamp, i64)> = come.chain(got).collect();
        changes.sort_unstable_by_key(|(at, by)| (*at, -by));
        let (mut waiting, mut usual, mut drained) = (0, 0, None);
        // The queue is not served during the gap, so only its length afterwards counts.
        for (at, by) in changes {
            if drained.is_none() && at > gap.end && waiting <= usual {
                drained = Some(0);
            }
            waiting += by;
            if at < before.end {
                usual = usual.max(waiting);
            } else if drained.is_none() && at >= gap.end && waiting <= usual {
                drained = Some(at - gap.end);
            }
        }
        let until = drained.map_or(Stamp::MAX, |drained| gap.end + drained);
        let due_in =
            |range: Range<Stamp>| waits.iter().filter(|wait| range.contains(&wait.due)).copied().collect();
        Self { before: due_in(before.clone()), during: due_in(before.end..until), drained_us: drained }
    }

    fn together(locks: &[Self]) -> Option<Disturbance> {
        let all = |of: fn(&Self) -> &Vec<WaitOfOne>| {
            ArrivalWaits::of(locks.iter().flat_map(of).map(|wait| wait.us))
        };
        let drained: Option<Vec<u64>> = locks.iter().map(|lock| lock.drained_us).collect();
        Some(Disturbance {
            locks: locks.len() as u64,
            waits: all(|lock| &lock.during)?,
            usual_wait_us: all(|lock| &lock.before).map(|usual| usual.mean.us),
            drained_us: drained.and_then(|drained| drained.into_iter().max()),
        })
    }
}

/// Returns the wait of an arrival with this outcome; `None` if the arrival was not served.
fn waited(outcome: u32) -> Option<u64> {
    (outcome != OPEN && outcome != UNSERVED).then(|| u64::from(outcome - 1))
}

impl Arrivals {
    /// Creates arrivals from `draw`, which must return the same arrivals on every call.
    pub fn new(draw: impl Fn() -> Coming + Send + Sync + 'static, late: Late) -> Self {
        let all = draw().count();
        let nothing = || (0..all).map(|_| AtomicU32::new(0)).collect();
        Self {
            late,
            begin: AtomicU64::new(0),
            upcoming: Mutex::new(Upcoming { next: 0, coming: draw() }),
            end: AtomicU64::new(u64::MAX),
            due: Mutex::new(None),
            outcomes: nothing(),
            lateness_us: nothing(),
            draw: Box::new(draw),
        }
    }

    pub fn begin_at(&self, start: Stamp) {
        self.begin.store(start, Ordering::Release);
    }

    /// Cancels arrivals due at `end` or later.
    pub fn end_at(&self, end: Stamp) {
        self.end.store(end.saturating_sub(self.begin.load(Ordering::Acquire)), Ordering::Release);
    }

    /// Returns the arrivals due in a period, with their numbers and due times. Excludes cancelled arrivals.
    fn due_in(&self, time: Range<Stamp>) -> impl Iterator<Item = (usize, Stamp, Arrival)> {
        let begin = self.begin.load(Ordering::Acquire);
        let end = time.end.min(begin.saturating_add(self.end.load(Ordering::Acquire)));
        let all = (self.draw)().enumerate();
        let all = all.map(move |(number, arrival)| (number, begin + arrival.at_us, arrival));
        all.skip_while(move |(_, due, _)| *due < time.start).take_while(move |(_, due, _)| *due < end)
    }

    /// Returns the outcome of an arrival. A load that drops late arrivals also drops those that were never taken.
    fn outcome(&self, number: usize) -> u32 {
        match self.outcomes[number].load(Ordering::Acquire) {
            OPEN if self.late == Late::Drop && number >= locked(&self.upcoming).next => DROPPED,
            outcome => outcome,
        }
    }

    /// Takes the next arrival, which may not be due yet. Returns `None` if there are no more arrivals.
    pub fn take(&self, now: Stamp) -> Option<Taken> {
        loop {
            let (number, arrival) = {
                let mut upcoming = locked(&self.upcoming);
                let arrival = upcoming.coming.next()?;
                upcoming.next += 1;
                (upcoming.next - 1, arrival)
            };
            let due = self.begin.load(Ordering::Acquire) + arrival.at_us;
            let taken = Taken { number, due, arrival };
            if self.is_cancelled(&taken) {
                return None;
            }
            if self.late == Late::Keep || due >= now {
                return Some(taken);
            }
            self.ends(number, DROPPED);
        }
    }

    /// Returns whether an arrival that was taken ahead of time has been cancelled.
    pub fn is_cancelled(&self, taken: &Taken) -> bool {
        taken.arrival.at_us >= self.end.load(Ordering::Acquire)
    }

    /// Records an acquire call made `lateness_us` after the arrival was due and a contender was free.
    pub fn issued(&self, number: usize, lateness_us: u64) {
        let lateness_us = u32::try_from(lateness_us).unwrap_or(u32::MAX);
        self.lateness_us[number].store(lateness_us, Ordering::Release);
    }

    pub fn served(&self, number: usize, wait_us: u64) {
        self.ends(number, u32::try_from(wait_us + 1).unwrap_or(LONGEST_US).min(LONGEST_US));
    }

    pub fn not_served(&self, number: usize) {
        self.ends(number, UNSERVED);
    }

    fn ends(&self, number: usize, outcome: u32) {
        self.outcomes[number].store(outcome, Ordering::Release);
    }

    /// Returns whether every arrival due before the end has an outcome.
    pub fn have_all_ended(&self) -> bool {
        let end = self.end.load(Ordering::Acquire);
        let mut due = locked(&self.due);
        let number = match *due {
            Some((of, number)) if of == end => number,
            _ => (self.draw)().take_while(|arrival| arrival.at_us < end).count(),
        };
        *due = Some((end, number));
        self.outcomes[..number].iter().rev().all(|outcome| outcome.load(Ordering::Acquire) != OPEN)
    }

    /// Returns the outcomes of the arrivals due in a period, and the arrivals that no contender took.
    pub fn due_within(&self, from: Stamp, to: Stamp) -> (Arrived, Vec<(Stamp, Mode)>) {
        let taken = locked(&self.upcoming).next;
        let mut arrived = Arrived::default();
        let mut never_taken = Vec::new();
        for (number, due, arrival) in self.due_in(from..to) {
            arrived.offered += 1;
            match self.outcome(number) {
                OPEN if number >= taken => never_taken.push((due, arrival.mode)),
                OPEN | UNSERVED => arrived.started += 1,
                DROPPED => arrived.dropped += 1,
                _ => {
                    arrived.started += 1;
                    arrived.served += 1;
                }
            }
        }
        arrived.unserved = arrived.offered - arrived.served - arrived.dropped;
        (arrived, never_taken)
    }

    /// Returns the waits of all arrivals due in a period; `None` if no arrival was served. Unserved arrivals
    /// count as the longest waits; dropped arrivals are excluded.
    pub fn waits(&self, due: Range<Stamp>) -> Option<ArrivalWaits> {
        let outcomes = self.due_in(due).map(|(number, ..)| self.outcome(number));
        ArrivalWaits::of(outcomes.filter(|outcome| *outcome != DROPPED).map(waited))
    }

    /// Returns the waits of arrivals at the locks that had a gap due to a fault, up to the time at which each queue
    /// was as short as before. `before` is the undisturbed period up to the fault. Returns `None` if no lock had
    /// a gap.
    pub fn disturbed(&self, before: Range<Stamp>, gaps: &[Option<Gap>]) -> Option<Disturbance> {
        let mut waits: Vec<Vec<WaitOfOne>> = vec![Vec::new(); gaps.len()];
        for (number, due, arrival) in self.due_in(before.start..Stamp::MAX) {
            let outcome = self.outcome(number);
            let is_disturbed = gaps.get(arrival.lock).is_some_and(Option::is_some);
            if outcome != DROPPED && is_disturbed {
                waits[arrival.lock].push(WaitOfOne { due, us: waited(outcome) });
            }
        }
        let of_lock = |(gap, waits): (&Option<Gap>, &Vec<WaitOfOne>)| {
            gap.map(|gap| DisturbedLock::of(waits, &before, gap))
        };
        let locks: Vec<DisturbedLock> = gaps.iter().zip(&waits).filter_map(of_lock).collect();
        DisturbedLock::together(&locks)
    }

    /// Returns the number of due arrivals still waiting at the end of each slot of the window. Excludes
    /// dropped and unserved arrivals, because the ends of their waits are unknown.
    pub fn backlog(&self, window: Window, slot_us: u64) -> Vec<u64> {
        let slots = usize::try_from(window.end.saturating_sub(window.start) / slot_us).unwrap_or(0);
        let slot_of =
            |at: Stamp| usize::try_from(at.saturating_sub(window.start) / slot_us).unwrap_or(usize::MAX);
        let mut change = vec![0_i64; slots + 1];
        for (number, due, _) in self.due_in(0..window.end) {
            let served = match self.outcome(number) {
                UNSERVED | DROPPED => continue,
                OPEN => Stamp::MAX,
                wait => due + u64::from(wait - 1),
            };
            if served >= window.start {
                change[slot_of(due).min(slots)] += 1;
                change[slot_of(served).min(slots)] -= 1;
            }
        }
        let mut waiting = 0_i64;
        change.pop();
        change
            .iter()
            .map(|by| {
                waiting += by;
                u64::try_from(waiting).unwrap_or(0)
            })
            .collect()
    }

    /// Returns the dispersion of the arrivals in the window, as scheduled and as issued, for each width.
    pub fn dispersion(&self, window: Window) -> Vec<Dispersion> {
        let of = |width_us: u64| {
            let windows = usize::try_from(window.end.saturating_sub(window.start) / width_us).ok()?;
            let (mut scheduled, mut issued) = (vec![0; windows], vec![0; windows]);
            let count = |counts: &mut Vec<u64>, at: Stamp| {
                let slot =
                    at.checked_sub(window.start).and_then(|since| usize::try_from(since / width_us).ok());
                if let Some(count) = slot.and_then(|slot| counts.get_mut(slot)) {
                    *count += 1;
                }
            };
            // Arrivals due before the window may be issued within it.
            for (number, due, _) in self.due_in(0..window.end) {
                count(&mut scheduled, due);
                count(&mut issued, due + u64::from(self.lateness_us[number].load(Ordering::Acquire)));
            }
            Dispersion::of(width_us, &scheduled, &issued)
        };
        Dispersion::WIDTHS_US.into_iter().filter_map(of).collect()
    }

    /// Returns the due times of arrivals, in microseconds after `from`.
    pub fn due_times(&self, from: Stamp, to: Stamp) -> impl Iterator<Item = u64> {
        self.due_in(from..to).map(move |(_, due, _)| due - from)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(times: &[u64], late: Late) -> Arrivals {
        let arrival =
            |at_us: &u64| Arrival { at_us: *at_us, lock: 0, mode: Mode::Write, hold: Duration::ZERO };
        let all: Vec<Arrival> = times.iter().map(arrival).collect();
        let arrivals = Arrivals::new(move || Box::new(all.clone().into_iter()), late);
        arrivals.begin_at(1_000);
        arrivals
    }

    #[test]
    fn disturbance_counts_only_arrivals_at_the_lock_with_the_gap() {
        // Given an arrival every 100 µs at each of two locks, with a wait of 10 µs
        let all: Vec<Arrival> = (0..200_u64)
            .map(|at| Arrival {
                at_us: at * 50,
                lock: (at % 2) as usize,
                mode: Mode::Write,
                hold: Duration::ZERO,
            })
            .collect();
        let arrivals = Arrivals::new(move || Box::new(all.clone().into_iter()), Late::Keep);
        arrivals.begin_at(0);
        // When the first lock serves no arrival from 5,000 to 6,000, and then one arrival every 50 µs
        for number in 0..200_usize {
            let due = number as u64 * 50;
            let late = (number % 2 == 0 && due >= 5_000).then(|| 6_000 + (due - 5_000) / 2);
            arrivals.served(number, late.map_or(10, |served| served.saturating_sub(due).max(10)));
        }
        let gap = Gap { after: None, begin: 5_000, end: 6_000 };
        let found = arrivals.disturbed(1_000..5_000, &[Some(gap), None]).unwrap();
        // Then about twenty arrivals at that lock waited until the queue was as short as before
        assert_eq!((found.locks, found.usual_wait_us), (1, Some(10)));
        assert!((800..=1_000).contains(&found.drained_us.unwrap()), "{found:?}");
        let ArrivalWaits { arrivals: count, mean, p99, .. } = found.waits;
        assert!((19..=20).contains(&count), "{found:?}");
        assert!((450..=550).contains(&mean.us) && !mean.at_least, "{found:?}");
        assert_eq!((p99.us, p99.at_least), (1_000, false));
        // And without a gap, there is no disturbance
        assert_eq!(arrivals.disturbed(1_000..5_000, &[None, None]), None);
    }

    #[test]
    fn queue_that_stays_long_is_not_drained() {
        let arrivals = at(&[0, 100, 200, 300, 400], Late::Keep);
        (0..2).for_each(|number| arrivals.served(number, 10));
        let gap = Gap { after: None, begin: 1_200, end: 1_450 };
        let found = arrivals.disturbed(1_000..1_200, &[Some(gap)]);
        assert_eq!(found, None, "no disturbed arrival was served");
        arrivals.served(2, 250);
        let found = arrivals.disturbed(1_000..1_200, &[Some(gap)]).unwrap();
        assert_eq!((found.waits.arrivals, found.drained_us), (3, None));
        assert!(found.waits.p99.at_least && found.waits.mean.at_least);
    }

    #[test]
    fn unserved_arrivals_count_as_the_longest_waits() {
        let arrivals = at(&(0..200).collect::<Vec<_>>(), Late::Keep);
        (0..200).for_each(|number| arrivals.served(number, 1_000 + number as u64));
        let p99 = |from, to| arrivals.waits(from..to).map(|waits| (waits.p99.us, waits.p99.at_least));
        assert_eq!(p99(0, Stamp::MAX), Some((1_197, false)));
        (150..160).for_each(|number| arrivals.not_served(number));
        assert_eq!(p99(0, Stamp::MAX), Some((1_199, true)));
        assert_eq!(p99(0, 0), None, "no arrival was due");
    }

    #[test]
    fn cancelled_arrivals_are_not_unserved_waits() {
        let arrivals = at(&[0, 100, 200], Late::Keep);
        (0..2).for_each(|number| arrivals.served(number, 10));
        arrivals.end_at(1_150);
        let waits = arrivals.waits(0..Stamp::MAX).unwrap();
        assert_eq!((waits.arrivals, waits.p99.us, waits.p99.at_least), (2, 10, false));
    }

    #[test]
    fn arrivals_dropped_by_a_blocked_pool_neither_wait_nor_queue() {
        // Given an arrival that a contender takes, and two that no contender becomes free for
        let arrivals = at(&[0, 100, 200], Late::Drop);
        let first = arrivals.take(1_000).unwrap();
        arrivals.served(first.number, 10);
        let waits = arrivals.waits(0..Stamp::MAX).unwrap();
        assert_eq!((waits.arrivals, waits.p99.us, waits.p99.at_least), (1, 10, false));
        assert_eq!(arrivals.backlog(Window { start: 1_000, end: 1_300 }, 100), [0, 0, 0]);
        let (arrived, never_taken) = arrivals.due_within(1_000, 1_300);
        assert_eq!((arrived.offered, arrived.dropped, arrived.served, never_taken.len()), (3, 2, 1, 0));
    }

    #[test]
    fn arrivals_issued_in_bunches_are_more_dispersed_than_scheduled() {
        // One arrival per millisecond for two seconds
        let due: Vec<u64> = (0..2_000).map(|number| number * 1_000).collect();
        let (arrivals, window) = (at(&due, Late::Keep), Window { start: 1_000, end: 2_001_000 });
        let [even] = arrivals.dispersion(window)[..] else { panic!("expected one width") };
        assert_eq!((even.width_us, even.windows, even.scheduled, even.issued), (100_000, 20, 0.0, 0.0));
        // In every other tenth of a second, all arrivals are issued 100 ms late
        for number in (0..2_000).filter(|number| number / 100 % 2 == 0) {
            arrivals.issued(number, 100_000);
        }
        let bunched = arrivals.dispersion(window)[0];
        // Alternately 0 and 200 arrivals: a variance of 20 × 100² / 19, divided by the mean of 100
        assert!((bunched.issued - 105.26).abs() < 0.01 && bunched.scheduled == 0.0, "{bunched:?}");
        assert!(bunched.is_off() && !even.is_off());
    }

    #[test]
    fn arrivals_are_taken_once_in_order() {
        let arrivals = at(&[0, 10, 10, 500], Late::Keep);
        let due: Vec<_> = std::iter::from_fn(|| arrivals.take(5_000)).map(|taken| taken.due).collect();
        assert_eq!(due, [1_000, 1_010, 1_010, 1_500]);
    }

    #[test]
    fn late_arrivals_are_counted_as_dropped_if_the_load_drops_them() {
        // Given arrivals at 0, 10 and 500 µs, and a contender that becomes free at 400 µs
        let arrivals = at(&[0, 10, 500], Late::Drop);
        // Then the contender takes the arrival that is not due yet
        assert_eq!(arrivals.take(1_400).map(|taken| taken.number), Some(2));
        arrivals.served(2, 7);
        // And the other arrivals count as dropped
        let (arrived, never_taken) = arrivals.due_within(1_000, 2_000);
        assert_eq!((arrived.offered, arrived.dropped, arrived.served, arrived.unserved), (3, 2, 1, 0));
        assert!(never_taken.is_empty() && arrivals.have_all_ended());
    }

    #[test]
    fn arrivals_that_no_contender_took_are_unserved() {
        let arrivals = at(&[0, 100, 200, 300], Late::Keep);
        let first = arrivals.take(1_000).unwrap();
        arrivals.served(first.number, 50);
        let second = arrivals.take(1_100).unwrap();
        arrivals.not_served(second.number);
        // When the measured phase ends before the last arrival
        arrivals.end_at(1_300);
        assert!(!arrivals.have_all_ended());
        let (arrived, never_taken) = arrivals.due_within(1_000, 1_300);
        assert_eq!((arrived.offered, arrived.started, arrived.served, arrived.unserved), (3, 2, 1, 2));
        assert_eq!(never_taken, [(1_200, Mode::Write)]);
    }

    #[test]
    fn arrival_taken_ahead_of_time_is_cancelled_after_the_end() {
        let arrivals = at(&[0, 100, 5_000], Late::Keep);
        let taken = [(); 3].map(|()| arrivals.take(1_000).unwrap());
        arrivals.end_at(2_000);
        assert_eq!(taken.map(|taken| arrivals.is_cancelled(&taken)), [false, false, true]);
        assert!(arrivals.take(1_000).is_none());
    }

    #[test]
    fn backlog_counts_due_arrivals_from_before_and_within_the_window() {
        // Given arrivals before and within the window, which starts at 1,100
        let arrivals = at(&[0, 50, 120, 200, 330], Late::Keep);
        // When only three arrivals are served: the first before the window, the second at 1,150, the third at once
        arrivals.served(0, 10);
        arrivals.served(1, 100);
        arrivals.served(2, 0);
        // Then the backlog is the number of waiting arrivals at the end of each slot of 100 µs
        assert_eq!(arrivals.backlog(Window { start: 1_100, end: 1_500 }, 100), [0, 1, 2, 2]);
        assert_eq!(arrivals.due_times(1_050, 2_000).collect::<Vec<_>>(), [0, 70, 150, 280]);
    }
}
