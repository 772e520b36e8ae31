//! One monotonic origin for the whole process, so that two stamps can always be subtracted.
//!
//! Every latency in the suite is a difference of two [`now`] values. Wall time is used for labels only.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds since the process's origin.
pub type Stamp = u64;

/// The current time in microseconds since the process's origin; never goes backwards.
#[must_use]
pub fn now() -> Stamp {
    micros(ORIGIN.elapsed())
}

/// The wall clock's time of a stamp, in milliseconds since 1970: to compare with what other programs of this host
/// have written down. A wall clock that was set meanwhile makes it wrong.
#[must_use]
pub fn wall_ms(stamp: Stamp) -> i64 {
    let since =
        std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ago_us = i128::from(now()) - i128::from(stamp);
    let at = i128::try_from(since.as_micros()).unwrap_or(i128::MAX).saturating_sub(ago_us) / 1_000;
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// A duration as whole microseconds, saturating.
#[must_use]
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
