//! Waking as the three-strategy article's classes do: its watchers set a flag, and the waiting thread sleeps
//! and looks at it.

use std::time::Duration;

use super::wait::Ended;
use super::{LockConfig, Patience};
use crate::catalog::{Param, ParamKind};
use crate::clock::{self, Stamp};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// How the waiting thread learns that its watcher has seen the lock.
pub const WAKE: Param = Param {
    name: "wake",
    kind: ParamKind::OneOf(&["at-once", "poll-flag"]),
    default: "at-once",
    doc: "Whether the contender goes on as soon as its watcher knows, or looks at a flag every so often.",
};

/// How often it looks at its flag.
pub const FLAG_INTERVAL: Param = Param {
    name: "flag_interval",
    kind: ParamKind::Duration,
    default: "1s",
    doc: "Time between two looks at the flag; means something only with `wake = \"poll-flag\"`.",
};

/// A flag at which a contender looks at whole intervals after the beginning of its acquire, or none.
#[derive(Debug, Clone, Copy)]
pub struct Flag(Option<Duration>);

impl Flag {
    /// What the parameters ask for.
    pub fn of(config: &LockConfig) -> Self {
        let interval = config.duration(FLAG_INTERVAL.name, DEFAULT_INTERVAL);
        Self(config.is(WAKE.name, "poll-flag").then_some(interval))
    }

    /// The flag is set: returns at the next look at it.
    ///
    /// # Errors
    /// [`Ended`] when the deadline or a cancellation came first.
    pub async fn noticed(self, begun: Stamp, patience: &Patience) -> Result<(), Ended> {
        match self.0 {
            Some(interval) => patience.sleep(until_next_look(interval, clock::now() - begun)).await,
            None => Ok(()),
        }
    }
}

/// The sleep comes before the first look, so there is none at the beginning.
fn until_next_look(interval: Duration, elapsed_us: u64) -> Duration {
    let interval_us = clock::micros(interval).max(1);
    Duration::from_micros(interval_us - elapsed_us % interval_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_at_whole_intervals_and_the_first_after_one() {
        let left = |elapsed_us| until_next_look(Duration::from_secs(1), elapsed_us).as_micros();
        assert_eq!((left(0), left(1), left(999_999), left(1_000_000)), (1_000_000, 999_999, 1, 1_000_000));
        assert_eq!(left(2_300_000), 700_000);
    }
}
