//! Did everybody get on? Which acquires that never ended are stuck, and which only came too late.

use super::contender::CalledAcquire;

/// An acquire is stuck when it waited this many times as long as any that ended...
const TIMES_AS_LONG: u64 = 10;
/// ... and at least so long, in microseconds.
const AT_LEAST_US: u64 = 1_000_000;

/// The waits for one lock on one clock, as far as they ended with the lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    longest_us: u64,
    latest_called_us: Option<u64>,
}

impl Waits {
    pub fn ended(&mut self, called_us: u64, now_us: u64) {
        self.longest_us = self.longest_us.max(now_us.saturating_sub(called_us));
        self.latest_called_us = self.latest_called_us.max(Some(called_us));
    }

    /// Whether an acquire without an end is stuck, of a process that was last heard of at that time: one that was
    /// called later got the lock, and everybody else waited for far less.
    pub fn is_stuck(&self, asked: &CalledAcquire, heard_us: u64) -> bool {
        let waited = heard_us.saturating_sub(asked.at.t_us);
        let passed = self.latest_called_us.is_some_and(|called| called > asked.at.t_us);
        passed && waited >= AT_LEAST_US.max(self.longest_us.saturating_mul(TIMES_AS_LONG))
    }
}

#[cfg(test)]
mod tests {
    use super::super::clocks::Moment;
    use super::*;
    use crate::record::history::LinePosition;

    fn asked(t_us: u64) -> CalledAcquire {
        CalledAcquire { at: Moment { t_us, place: LinePosition::default(), clock: 0 }, kept_out_us: 0 }
    }

    #[test]
    fn nobody_is_stuck_who_was_not_passed_by_a_later_one() {
        let mut waits = Waits::default();
        assert!(!waits.is_stuck(&asked(10), 60_000_000), "nobody got the lock");
        waits.ended(10, 20);
        assert!(!waits.is_stuck(&asked(10), 60_000_000), "the other had asked at the same time");
        waits.ended(11, 20);
        assert!(waits.is_stuck(&asked(10), 60_000_000));
        waits.ended(5, 30);
        assert!(waits.is_stuck(&asked(10), 60_000_000), "the latest call counts, whatever ended last");
    }

    #[test]
    fn among_short_waits_a_second_is_what_makes_one_stuck() {
        let mut waits = Waits::default();
        waits.ended(100, 200);
        assert!(!waits.is_stuck(&asked(50), 50 + 999_999));
        assert!(waits.is_stuck(&asked(50), 50 + 1_000_000));
    }

    #[test]
    fn among_long_waits_ten_times_the_longest_is_what_makes_one_stuck() {
        let mut waits = Waits::default();
        waits.ended(0, 3_000_000);
        waits.ended(4_000_000, 4_000_001);
        assert!(!waits.is_stuck(&asked(50), 50 + 29_999_999));
        assert!(waits.is_stuck(&asked(50), 50 + 30_000_000));
    }
}
