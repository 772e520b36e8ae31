//! Process-wide monotonic clock. All stamps share one origin, so any two can be subtracted.
//!
//! Every latency in the suite is the difference between two [`now`] values. Wall time is used only for
//! display and for comparison with records of other programs.

#![expect(clippy::disallowed_methods, reason = "all other code reads the clock through this module")]

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the process's origin.
pub type Stamp = u64;

/// Returns the microseconds since the process's origin; never decreases.
pub fn now() -> Stamp {
    micros(ORIGIN.elapsed())
}

/// Reading of the system's monotonic clock at the origin, in microseconds.
static MONOTONIC_AT_ORIGIN: LazyLock<u64> = LazyLock::new(|| {
    let monotonic = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let ahead_us = ahead_us(|| Duration::try_from(monotonic()).unwrap_or_default(), 0);
    u64::try_from(ahead_us).unwrap_or(0)
});

/// Returns how many microseconds another clock is ahead of ours, based on the closest of several pairs of
/// readings. On a loaded host, milliseconds may pass between the two readings of a pair. The search ends at a
/// pair that is at most `close_us` apart.
fn ahead_us(read: impl Fn() -> Duration, close_us: u64) -> i128 {
    let mut closest = (u64::MAX, 0);
    for _ in 0..READINGS {
        let before = now();
        let read = read();
        let apart = now() - before;
        if apart < closest.0 {
            closest = (apart, i128::from(micros(read)) - i128::from(before));
        }
        if apart <= close_us {
            break;
        }
    }
    closest.1
}

/// Converts a `CLOCK_MONOTONIC` reading of any process on this host to a stamp, accurate to 2 µs.
pub fn of_monotonic(us: u64) -> Stamp {
    us.saturating_sub(*MONOTONIC_AT_ORIGIN)
}

/// Converts stamps to wall-clock time, for comparison with records of other programs on this host. The result
/// is wrong if the wall clock is set between the stamp and the reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WallClock {
    ahead_us: i128,
}

impl WallClock {
    pub fn read() -> Self {
        let wall = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { ahead_us: ahead_us(wall, CLOSE_US) }
    }

    /// Returns how far the wall clock was set forwards or backwards between an earlier reading and this reading.
    pub fn set_since(&self, earlier: Self) -> Duration {
        let us = u64::try_from((self.ahead_us - earlier.ahead_us).unsigned_abs());
        Duration::from_micros(us.unwrap_or(u64::MAX))
    }

    pub fn ms(&self, stamp: Stamp) -> i64 {
        i64::try_from((self.ahead_us + i128::from(stamp)) / 1_000).unwrap_or(i64::MAX)
    }
}

/// Maximum time between two readings that count as simultaneous.
const CLOSE_US: u64 = 10;
const READINGS: usize = 100;

/// Returns the difference between two stamps in microseconds; negative if `later` precedes `earlier`.
pub fn signed_difference(later: Stamp, earlier: Stamp) -> i64 {
    i64::try_from(i128::from(later) - i128::from(earlier)).unwrap_or(if later > earlier {
        i64::MAX
    } else {
        i64::MIN
    })
}

pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_advances_in_step_with_stamps() {
        let wall = WallClock::read();
        std::thread::sleep(Duration::from_millis(5));
        assert!(WallClock::read().set_since(wall) < Duration::from_millis(5));
        // Use one stamp for both readings, because another process may run between two calls to `now`.
        let stamp = now();
        let shown = [wall, WallClock::read()].map(|wall| wall.ms(stamp));
        assert!(shown[0].abs_diff(shown[1]) < 10, "{shown:?}");
    }

    #[test]
    fn stamps_follow_the_systems_monotonic_clock() {
        let (before, read) = (now(), rustix::time::clock_gettime(rustix::time::ClockId::Monotonic));
        let stamp = of_monotonic(micros(Duration::try_from(read).unwrap()));
        assert!(before <= stamp + 3 && stamp <= now() + 3, "{before} {stamp}");
    }

    #[test]
    fn set_since_detects_a_wall_clock_set_forwards_or_backwards() {
        let (early, late) = (WallClock { ahead_us: 1_000_000 }, WallClock { ahead_us: 1_250_000 });
        assert_eq!(late.set_since(early), Duration::from_millis(250));
        assert_eq!(early.set_since(late), Duration::from_millis(250));
    }
}
