//! Times in which a lock was wanted and not acquired, as the contenders see them.

use std::sync::Mutex;

use zklockbench_core::clock::Stamp;
use zklockbench_core::locked::locked;

/// A shorter gap is no interruption that anybody would notice, and would fill the list.
const SHORTEST_GAP_US: u64 = 5_000;
const GAPS_KEPT: usize = 10_000;

/// The gaps of each lock, because one that is served must not hide one that is blocked: from one acquisition to the next
/// or, where none waited then, from when one did. Kept in trials with faults only.
#[derive(Debug, Default)]
pub struct Gaps {
    locks: Vec<Mutex<OfLock>>,
    /// Each of them is wanted all the time, also while no acquire is called: while a session is opened again, say.
    always_wanted: bool,
}

#[derive(Debug, Default)]
struct OfLock {
    waiting: u64,
    /// Since when it has been wanted and not acquired. A contender that gives up has not acquired it either.
    since: Option<Stamp>,
    given_up: Stamp,
    acquired: Option<Stamp>,
    long: Vec<Gap>,
}

/// From when a lock was wanted and not acquired, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The acquisition before it; without one, the lock had not been acquired yet.
    pub after: Option<Stamp>,
    pub begin: Stamp,
    pub end: Stamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultTime {
    pub from: Stamp,
    pub until: Stamp,
    /// When the next fault began: what begins after that may be due to it.
    pub next: Stamp,
}

impl Gap {
    pub fn lasted_us(self) -> u64 {
        self.end - self.begin
    }

    /// Whether it was open meanwhile, or is the first that was seen of the lock since: one whose holder crashed stands still
    /// before anyone asks for it.
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
            if at.saturating_sub(began) >= SHORTEST_GAP_US && of.long.len() < GAPS_KEPT {
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

    /// The longest gap of each lock that is due to a fault; `None` of one whose gaps were shorter than 5 ms. One that has not
    /// ended by now is as long as one has waited.
    pub fn due_to(&self, fault: FaultTime, now: Stamp) -> Vec<Option<Gap>> {
        self.each(|of| {
            let all = of.long.iter().copied().chain(of.open(now));
            all.filter(|gap| gap.is_due_to(fault)).max_by_key(|gap| gap.lasted_us())
        })
    }

    /// How long after a fault took effect every lock with a gap was acquired again, counted from when it was wanted; 0 if
    /// there was no gap of 5 ms. `None` when one of them was acquired no more, or none was at all.
    pub fn recovered_after(&self, fault: FaultTime, now: Stamp) -> Option<u64> {
        let of_lock = |of: &OfLock| {
            let never = || {
                of.since.is_some_and(|since| since <= fault.from)
                    || of.open(now).is_some_and(|gap| gap.is_due_to(fault))
            };
            match of.long.iter().find(|gap| gap.is_due_to(fault)) {
                Some(gap) => Recovery::After(gap.end - gap.begin.max(fault.from)),
                None if never() => Recovery::Never,
                None if of.acquired.is_some_and(|last| last > fault.from) => Recovery::After(0),
                None => Recovery::NotWanted,
            }
        };
        let each = self.each(of_lock);
        if each.contains(&Recovery::Never) {
            return None;
        }
        let after = |one: &Recovery| if let Recovery::After(us) = one { Some(*us) } else { None };
        each.iter().filter_map(after).max()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    After(u64),
    Never,
    NotWanted,
}

impl OfLock {
    /// The gap that has not ended, up to when a contender waited last.
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

    /// Of one lock for which one always waits, acquired at these times.
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
    fn the_longest_gap_and_the_recovery_are_those_of_the_time_asked_for() {
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
    fn one_lock_that_is_served_hides_none_that_is_blocked() {
        let gaps = Gaps::of(2, false);
        gaps.asks(1, 50_000);
        for at in (0..1_000_000).step_by(2_000) {
            gaps.asks(0, at);
            gaps.acquired(0, at);
        }
        assert_eq!(longest(&gaps, 100_000, 200_000, 1_000_000), Some(950_000), "it does not end");
        let recovered = |gaps: &Gaps, now| gaps.recovered_after(from_to(100_000, 100_000), now);
        assert_eq!(recovered(&gaps, 1_000_000), None);
        gaps.acquired(1, 1_000_000);
        assert_eq!(longest(&gaps, 100_000, 200_000, 2_000_000), Some(950_000));
        assert_eq!(recovered(&gaps, 2_000_000), Some(900_000));
    }

    #[test]
    fn a_lock_whose_holder_crashed_before_anyone_else_came_stands_still_from_the_next_on() {
        // Given a lock whose holder crashed at 2,000, and one that is served
        let gaps = Gaps::of(2, false);
        for (lock, at) in [(0, 1_000), (1, 1_000), (1, 9_000), (1, 400_000)] {
            gaps.asks(lock, at);
            gaps.acquired(lock, at);
        }
        // When the next comes much later, and waits until the session has expired
        gaps.asks(0, 300_000);
        let crash = from_to(2_000, 2_000);
        assert_eq!(gaps.recovered_after(crash, 310_000), None, "it is not acquired yet");
        gaps.acquired(0, 1_000_000);
        // Then the lock has a gap from then on, and no gap after it is the crash's
        gaps.asks(0, 1_100_000);
        gaps.acquired(0, 3_000_000);
        let gap = Gap { after: Some(1_000), begin: 300_000, end: 1_000_000 };
        assert_eq!(gaps.due_to(crash, 3_000_000), [Some(gap), None]);
        assert_eq!(gaps.recovered_after(crash, 3_000_000), Some(700_000));
        // And if another fault began before, this may be why
        let before_another = FaultTime { next: 250_000, ..crash };
        assert_eq!(gaps.due_to(before_another, 3_000_000), [None, None]);
        assert_eq!(gaps.recovered_after(before_another, 3_000_000), Some(0));
    }

    #[test]
    fn a_lock_that_nobody_wants_has_no_gap_and_giving_up_ends_none() {
        let gaps = Gaps::of(1, false);
        gaps.asks(0, 0);
        gaps.acquired(0, 1_000);
        assert_eq!(longest(&gaps, 0, 900_000, 900_000), None);
        // A contender that tries again after an error has waited since the first time
        gaps.asks(0, 300_000);
        gaps.gives_up(0, 400_000);
        assert_eq!(longest(&gaps, 0, 900_000, 900_000), Some(100_000));
        gaps.asks(0, 450_000);
        gaps.acquired(0, 700_000);
        assert_eq!(longest(&gaps, 0, 900_000, 900_000), Some(400_000));
    }

    #[test]
    fn of_a_load_that_always_wants_it_a_lock_has_a_gap_while_sessions_are_opened_again() {
        let gaps = Gaps::of(1, true);
        for at in [1_000, 900_000] {
            gaps.asks(0, at);
            gaps.acquired(0, at);
        }
        assert_eq!(longest(&gaps, 100_000, 200_000, 900_000), Some(899_000));
    }
}
