//! Time for which a lock was free and wanted but not acquired. Failed acquires count, too, so that timeouts do
//! not hide a lock that serves no contender.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use zklockbench_core::clock::Stamp;

#[derive(Debug, Default)]
pub struct UnservedTime {
    /// Time of the latest acquisition.
    acquired: AtomicU64,
    /// Time at which the last holder left.
    freed: AtomicU64,
    /// Time up to which ended waits have been counted.
    counted: AtomicU64,
    /// Total of the waits that have ended since the latest acquisition.
    total_us: AtomicU64,
    is_used_up: AtomicBool,
}

impl UnservedTime {
    pub fn acquired(&self, at: Stamp) {
        self.acquired.fetch_max(at, Ordering::AcqRel);
        self.total_us.store(0, Ordering::Release);
    }

    pub fn freed(&self, at: Stamp) {
        self.freed.fetch_max(at, Ordering::AcqRel);
    }

    /// Records a wait for the free lock that ended without an acquisition.
    pub fn gave_up(&self, called: Stamp, at: Stamp) {
        let from = self.free_from(called);
        self.counted.fetch_max(at, Ordering::AcqRel);
        self.total_us.fetch_add(at.saturating_sub(from), Ordering::AcqRel);
    }

    /// Records that no acquire can succeed from now on. Contenders get an error, so none of them waits.
    pub fn used_up(&self) {
        self.is_used_up.store(true, Ordering::Release);
    }

    pub fn is_used_up(&self) -> bool {
        self.is_used_up.load(Ordering::Acquire)
    }

    /// Returns the time from which a wait counts: only while the lock was free, excluding time already counted.
    fn free_from(&self, called: Stamp) -> Stamp {
        let [acquired, freed, counted] =
            [&self.acquired, &self.freed, &self.counted].map(|stamp| stamp.load(Ordering::Acquire));
        called.max(acquired).max(freed).max(counted)
    }

    pub fn was_acquired_since(&self, mark: Stamp) -> bool {
        self.acquired.load(Ordering::Acquire) > mark
    }

    /// Returns the time in microseconds for which the free lock has been wanted but not acquired.
    /// `waiting_since` is the start of the longest current wait.
    pub fn until(&self, waiting_since: Option<Stamp>, now: Stamp) -> u64 {
        if self.is_used_up() {
            return 0;
        }
        let open = waiting_since.map_or(0, |since| now.saturating_sub(self.free_from(since)));
        self.total_us.load(Ordering::Acquire) + open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a lock that was acquired at 10 and released at 20.
    fn released_at_20() -> UnservedTime {
        let unserved = UnservedTime::default();
        unserved.acquired(10);
        unserved.freed(20);
        unserved
    }

    #[test]
    fn waits_that_time_out_add_up_while_the_lock_is_free() {
        let unserved = released_at_20();
        // Waits that started during the hold, during the first wait, and after a pause
        for (called, ended) in [(5, 40), (30, 60), (100, 140)] {
            unserved.gave_up(called, ended);
        }
        assert_eq!(unserved.until(None, 500), 20 + 20 + 40);
        assert_eq!(unserved.until(Some(450), 500), 80 + 50);
    }

    #[test]
    fn waits_during_a_hold_do_not_count() {
        let unserved = released_at_20();
        assert_eq!(unserved.until(Some(3), 25), 5);
        assert_eq!(unserved.until(None, 25), 0);
    }

    #[test]
    fn lock_with_a_used_up_counter_is_not_unserved() {
        let unserved = released_at_20();
        unserved.gave_up(20, 90);
        unserved.used_up();
        assert_eq!((unserved.until(None, 100), unserved.until(Some(90), 500)), (0, 0));
    }

    #[test]
    fn acquisition_ends_the_unserved_time() {
        let unserved = released_at_20();
        unserved.gave_up(20, 90);
        unserved.acquired(95);
        unserved.freed(99);
        assert_eq!(unserved.until(None, 100), 0);
        assert!(unserved.was_acquired_since(90) && !unserved.was_acquired_since(95));
    }
}
