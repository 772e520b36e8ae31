//! Times in which nobody got a lock, as the contenders see them. Kept in trials with faults only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::clock::Stamp;

/// A shorter gap is no interruption that anybody would notice, and would fill the list.
const SHORTEST_US: u64 = 5_000;
/// How many are kept.
const KEPT: usize = 100_000;

/// From one acquisition to the next, of any contender and any lock.
#[derive(Debug, Default)]
pub struct Gaps {
    last: AtomicU64,
    /// When each began and ended.
    long: Mutex<Vec<(Stamp, Stamp)>>,
}

impl Gaps {
    /// A lock was acquired.
    pub fn acquired(&self, at: Stamp) {
        let last = self.last.swap(at, Ordering::AcqRel);
        if last > 0 && at.saturating_sub(last) >= SHORTEST_US {
            let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
            if long.len() < KEPT {
                long.push((last, at));
            }
        }
    }

    /// The longest gap that was open at any time between these two; `None` when all were shorter than 5 ms.
    #[must_use]
    pub fn longest_between(&self, from: Stamp, to: Stamp) -> Option<u64> {
        let long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        long.iter().filter(|(begin, end)| *begin <= to && *end >= from).map(|(begin, end)| end - begin).max()
    }

    /// How long after that time the next lock was acquired; 0 when no gap of 5 ms was open then. `None` when none
    /// was acquired any more.
    #[must_use]
    pub fn recovered_after(&self, at: Stamp) -> Option<u64> {
        let long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        let open = long.iter().find(|(begin, end)| *begin <= at && *end >= at);
        match open {
            Some((_, end)) => Some(end - at),
            None => (self.last.load(Ordering::Acquire) > at).then_some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_and_the_recovery_are_those_of_the_time_asked_for() {
        let gaps = Gaps::default();
        for at in [1_000, 2_000, 10_000, 500_000, 501_000, 520_000] {
            gaps.acquired(at);
        }
        assert_eq!(gaps.longest_between(20_000, 30_000), Some(490_000));
        assert_eq!(gaps.longest_between(505_000, 510_000), Some(19_000));
        assert_eq!(gaps.longest_between(1_200, 1_500), None);
        assert_eq!(gaps.recovered_after(100_000), Some(400_000));
        assert_eq!(gaps.recovered_after(1_500), Some(0));
        assert_eq!(gaps.recovered_after(600_000), None);
    }
}
