//! Periods during which a lock was wanted but not acquired, as observed by the contenders.

use std::sync::Mutex;

use zklockbench_core::clock::Stamp;
use zklockbench_core::locked::locked;

/// Minimum length of a recorded gap. Shorter gaps are not noticeable and would fill the list.
const SHORTEST_GAP_US: u64 = 5_000;
/// Maximum number of gaps per lock. Beyond it, the shortest gaps are forgotten: a lock with long holds or a distant
/// ensemble has a gap at every acquisition.
const GAPS_KEPT: usize = 10_000;

/// Gaps of each lock, recorded only in trials with faults. Each lock has its own gaps, so that a served lock does not
/// hide a blocked lock. A gap lasts from an acquisition, or from the arrival of an idle lock's first waiter, to the
/// next acquisition.
#[derive(Debug, Default)]
pub struct Gaps {
    locks: Vec<Mutex<OfLock>>,
    /// Whether each lock counts as wanted even while no acquire is in progress, e.g. while a session is reopened.
    always_wanted: bool,
}

#[derive(Debug, Default)]
struct OfLock {
    waiting: u64,
    /// Time since which the lock has been wanted but not acquired. Timeouts do not reset this time.
    since: Option<Stamp>,
    given_up: Stamp,
    acquired: Option<Stamp>,
    long: Vec<Gap>,
    /// Minimum length of the gaps that are kept, once there were too many.
    shortest_us: u64,
}

/// A period during which a lock was wanted but not acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Time of the previous acquisition; `None` if the lock had not been acquired yet.
    pub after: Option<Stamp>,
    pub begin: Stamp,
    pub end: Stamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultTime {
    pub from: Stamp,
    pub until: Stamp,
    /// Start of the next fault, which may have caused later gaps.
    pub next: Stamp,
}

impl Gap {
    pub fn lasted_us(self) -> u64 {
        self.end - self.begin
    }

    /// Returns whether the gap overlaps the fault or is the first gap after it. A crashed holder may block the
    /// lock long before a contender requests it.
    fn is_due_to(self, fault: FaultTime) -> bool {
        let is_first_since = self.begin < fault.next && self.after.is_none_or(|after| after <= fault.until);
        self.end >= fault.from && (self.begin <= fault.until || is_first_since)
    }
}

impl Gaps {
    pub fn of(locks: usize, always_wanted: bool) -> Self {
        Self { locks: (0..locks).map(|_| Mutex::default()).collect(), always_wanted }
    }

    fn change(&self, lock: usize, change: impl FnOnce(&mut OfLock)) {
        if let Some(of) = self.locks.get(lock) {
            change(&mut locked(of));
        }
    }

    fn each<T>(&self, look: impl Fn(&OfLock) -> T) -> Vec<T> {
        self.locks.iter().map(|of| look(&locked(of))).collect()
    }

    pub fn asks(&self, lock: usize, at: Stamp) {
        self.change(lock, |of| {
            of.waiting += 1;
            of.since.get_or_insert(at);
        });
    }

    pub fn acquired(&self, lock: usize, at: Stamp) {
        self.change(lock, |of| {
            let began = of.since.unwrap_or(at);
            if at.saturating_sub(began) >= of.shortest_us.max(SHORTEST_GAP_US) {
                if of.long.len() >= GAPS_KEPT {
                    let mut lengths: Vec<u64> = of.long.iter().map(|gap| gap.lasted_us()).collect();
                    lengths.sort_unstable();
                    let shortest_us = lengths[lengths.len() / 2] + 1;
                    of.shortest_us = shortest_us;
                    of.long.retain(|gap| gap.lasted_us() >= shortest_us);
                }
                of.long.push(Gap { after: of.acquired, begin: began, end: at });
            }
            of.waiting = of.waiting.saturating_sub(1);
            of.since = (of.waiting > 0 || self.always_wanted).then_some(at);
            of.acquired = of.acquired.max(Some(at));
        });
    }

    pub fn gives_up(&self, lock: usize, at: Stamp) {
        self.change(lock, |of| {
            of.waiting = of.waiting.saturating_sub(1);
            of.given_up = of.given_up.max(at);
        });
    }

    /// Returns each lock's longest gap (at least 5 ms) due to a fault. An open gap counts up to the time at which a
    /// contender last waited.
    pub fn due_to(&self, fault: FaultTime, now: Stamp) -> Vec<Option<Gap>> {
        self.each(|of| {
            let all = of.long.iter().copied().chain(of.open(now));
            all.filter(|gap| gap.is_due_to(fault)).max_by_key(|gap| gap.lasted_us())
        })
    }

    /// Returns the longest time from a fault's effect, or from the first acquire after it, until a lock with a
    /// gap was acquired again. Returns 0 if there were no gaps, and `None` if a lock was not acquired again or no
    /// lock was wanted.
    pub fn recovered_after(&self, fault: FaultTime, now: Stamp) -> Option<u64> {
        // `None` for an unwanted lock, `Some(None)` for one that was not acquired again.
        let of_lock = |of: &OfLock| {
            let never = || {
                of.since.is_some_and(|since| since <= fault.from)
                    || of.open(now).is_some_and(|gap| gap.is_due_to(fault))
            };
            match of.long.iter().find(|gap| gap.is_due_to(fault)) {
                Some(gap) => Some(Some(gap.end - gap.begin.max(fault.from))),
                None if never() => Some(None),
                None => of.acquired.is_some_and(|last| last > fault.from).then_some(Some(0)),
            }
        };
        let recovered: Option<Vec<u64>> = self.each(of_lock).into_iter().flatten().collect();
        recovered?.into_iter().max()
    }
}

impl OfLock {
    /// Returns the open gap, up to the time at which a contender last waited.
    fn open(&self, now: Stamp) -> Option<Gap> {
        let begin = self.since?;
        let end = if self.waiting > 0 { now } else { self.given_up }.max(begin);
        let gap = Gap { after: self.acquired, begin, end };
        (gap.lasted_us() >= SHORTEST_GAP_US).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the gaps of a lock that always has a waiter and is acquired at these times.
    fn acquired_at(times: &[Stamp]) -> Gaps {
        let gaps = Gaps::of(1, false);
        gaps.asks(0, 0);
        for at in times {
            gaps.asks(0, *at);
            gaps.acquired(0, *at);
        }
        gaps
    }

    fn from_to(from: Stamp, until: Stamp) -> FaultTime {
        FaultTime { from, until, next: Stamp::MAX }
    }

    fn longest(gaps: &Gaps, from: Stamp, until: Stamp, now: Stamp) -> Option<u64> {
        gaps.due_to(from_to(from, until), now).into_iter().flatten().map(Gap::lasted_us).max()
    }

    #[test]
    fn longest_gap_and_recovery_are_attributed_to_the_fault() {
        let gaps = acquired_at(&[1_000, 2_000, 10_000, 500_000, 501_000, 520_000]);
        let longest = |from, to| longest(&gaps, from, to, 520_000);
        assert_eq!(longest(20_000, 30_000), Some(490_000));
        assert_eq!(longest(505_000, 510_000), Some(19_000));
        assert_eq!(longest(1_200, 1_500), None);
        let recovered = |at| gaps.recovered_after(from_to(at, at), 520_000);
        assert_eq!(recovered(100_000), Some(400_000));
        assert_eq!(recovered(1_500), Some(0));
        assert_eq!(recovered(600_000), None);
    }

    #[test]
    fn gap_of_a_late_fault_is_kept_after_many_short_gaps() {
        // Given a lock that is acquired every 6 ms, and then has a gap of a second
        let mut times: Vec<Stamp> = (1..=2 * GAPS_KEPT as u64).map(|number| number * 6_000).collect();
        let fault = times[times.len() - 1];
        times.push(fault + 1_000_000);
        let gaps = acquired_at(&times);
        let now = fault + 1_000_000;
        assert_eq!(longest(&gaps, fault + 1_000, fault + 2_000, now), Some(1_000_000));
        assert_eq!(gaps.recovered_after(from_to(fault + 1_000, fault + 1_000), now), Some(999_000));
    }

    #[test]
    fn served_lock_does_not_hide_a_blocked_lock() {
        let gaps = Gaps::of(2, false);
        gaps.asks(1, 50_000);
        for at in (0..1_000_000).step_by(2_000) {
            gaps.asks(0, at);
            gaps.acquired(0, at);
        }
        assert_eq!(longest(&gaps, 100_000, 200_000, 1_000_000), Some(950_000), "the gap is still open");
        let recovered = |gaps: &Gaps, now| gaps.recovered_after(from_to(100_000, 100_000), now);
        assert_eq!(recovered(&gaps, 1_000_000), None);
        gaps.acquired(1, 1_000_000);
        assert_eq!(longest(&gaps, 100_000, 200_000, 2_000_000), Some(950_000));
        assert_eq!(recovered(&gaps, 2_000_000), Some(900_000));
    }

    #[test]
    fn gap_after_a_crash_starts_when_the_next_contender_arrives() {
        // Given a lock whose holder crashed at 2,000, and a lock that is served
        let gaps = Gaps::of(2, false);
        for (lock, at) in [(0, 1_000), (1, 1_000), (1, 9_000), (1, 400_000)] {
            gaps.asks(lock, at);
            gaps.acquired(lock, at);
        }
        // When the next contender arrives much later, and waits until the session has expired
        gaps.asks(0, 300_000);
        let crash = from_to(2_000, 2_000);
        assert_eq!(gaps.recovered_after(crash, 310_000), None, "the lock has not been acquired yet");
        gaps.acquired(0, 1_000_000);
        // Then the lock's gap starts at that contender's arrival, and later gaps are not due to the crash
        gaps.asks(0, 1_100_000);
        gaps.acquired(0, 3_000_000);
        let gap = Gap { after: Some(1_000), begin: 300_000, end: 1_000_000 };
        assert_eq!(gaps.due_to(crash, 3_000_000), [Some(gap), None]);
        assert_eq!(gaps.recovered_after(crash, 3_000_000), Some(700_000));
        // And a later fault that starts before the gap may be the gap's cause
        let before_another = FaultTime { next: 250_000, ..crash };
        assert_eq!(gaps.due_to(before_another, 3_000_000), [None, None]);
        assert_eq!(gaps.recovered_after(before_another, 3_000_000), Some(0));
    }

    #[test]
    fn unwanted_lock_has_no_gap_and_a_timeout_does_not_end_a_gap() {
        let gaps = Gaps::of(1, false);
        gaps.asks(0, 0);
        gaps.acquired(0, 1_000);
        assert_eq!(longest(&gaps, 0, 900_000, 900_000), None);
        // A contender that retries after a timeout has waited since its first attempt
        gaps.asks(0, 300_000);
        gaps.gives_up(0, 400_000);
        assert_eq!(longest(&gaps, 0, 900_000, 900_000), Some(100_000));
        gaps.asks(0, 450_000);
        gaps.acquired(0, 700_000);
        assert_eq!(longest(&gaps, 0, 900_000, 900_000), Some(400_000));
    }

    #[test]
    fn always_wanted_lock_has_a_gap_while_sessions_reopen() {
        let gaps = Gaps::of(1, true);
        for at in [1_000, 900_000] {
            gaps.asks(0, at);
            gaps.acquired(0, at);
        }
        assert_eq!(longest(&gaps, 100_000, 200_000, 900_000), Some(899_000));
    }
}
