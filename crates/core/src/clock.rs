//! One monotonic origin for the whole process, so that two stamps can always be subtracted.
//!
//! Every latency in the suite is a difference of two [`now`] values. Wall time is used for labels only.

#![expect(clippy::disallowed_methods, reason = "every other time is a difference to what is read here")]

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the process's origin.
pub type Stamp = u64;

/// The current time in microseconds since the process's origin; never goes backwards.
pub fn now() -> Stamp {
    micros(ORIGIN.elapsed())
}

/// What the system's monotonic clock showed at the origin, in microseconds.
static MONOTONIC_AT_ORIGIN: LazyLock<u64> = LazyLock::new(|| {
    let monotonic = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let ahead_us = ahead_us(|| Duration::try_from(monotonic()).unwrap_or_default(), 0);
    u64::try_from(ahead_us).unwrap_or(0)
});

/// By how much another clock is ahead of ours, in microseconds. The clocks are read one after the other, and on a loaded
/// host another process may run for milliseconds in between: the closest of several readings counts, and one that took no
/// longer than `close_us` is taken at once.
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

/// The stamp at which CLOCK_MONOTONIC showed so many microseconds, to within two of them: what another process of this host has
/// read.
pub fn of_monotonic(us: u64) -> Stamp {
    us.saturating_sub(*MONOTONIC_AT_ORIGIN)
}

/// What the wall clock shows at a stamp: to compare with what other programs of this host have written down. A wall
/// clock that is set between the stamp and the reading makes it wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WallClock {
    ahead_us: i128,
}

impl WallClock {
    pub fn read() -> Self {
        let wall = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { ahead_us: ahead_us(wall, CLOSE_US) }
    }

    /// By how much the wall clock was set between an earlier reading and this one.
    pub fn set_since(&self, earlier: Self) -> Duration {
        let us = u64::try_from((self.ahead_us - earlier.ahead_us).unsigned_abs());
        Duration::from_micros(us.unwrap_or(u64::MAX))
    }

    pub fn ms(&self, stamp: Stamp) -> i64 {
        i64::try_from((self.ahead_us + i128::from(stamp)) / 1_000).unwrap_or(i64::MAX)
    }
}

/// Two clocks that were read within so many microseconds were read at once.
const CLOSE_US: u64 = 10;
const READINGS: usize = 100;

/// How much later one stamp is than another; negative where it is earlier.
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
    fn a_wall_clock_that_nobody_sets_keeps_step_with_ours() {
        let wall = WallClock::read();
        std::thread::sleep(Duration::from_millis(5));
        assert!(WallClock::read().set_since(wall) < Duration::from_millis(5));
        // One stamp for both: between two, another process may run.
        let stamp = now();
        let shown = [wall, WallClock::read()].map(|wall| wall.ms(stamp));
        assert!(shown[0].abs_diff(shown[1]) < 10, "{shown:?}");
    }

    #[test]
    fn the_monotonic_clock_of_the_system_is_ours() {
        let (before, read) = (now(), rustix::time::clock_gettime(rustix::time::ClockId::Monotonic));
        let stamp = of_monotonic(micros(Duration::try_from(read).unwrap()));
        assert!(before <= stamp + 3 && stamp <= now() + 3, "{before} {stamp}");
    }

    #[test]
    fn a_wall_clock_that_was_set_is_found_out_whichever_way_it_went() {
        let (early, late) = (WallClock { ahead_us: 1_000_000 }, WallClock { ahead_us: 1_250_000 });
        assert_eq!(late.set_since(early), Duration::from_millis(250));
        assert_eq!(early.set_since(late), Duration::from_millis(250));
    }
}
