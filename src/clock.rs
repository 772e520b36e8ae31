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

/// A duration as whole microseconds, saturating.
#[must_use]
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
