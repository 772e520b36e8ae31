//! The table of measures and counts: every output iterates these, so that none can forget one.

mod counts;
mod figure;
mod herd;
mod latency;
mod request;
mod sheet;
mod steady;
mod survival;

pub use counts::{Counts, Notifications, Outcome, OutcomeCounts};
pub use figure::{Better, Count, Figure, Ratio, Statistic, Unit};
pub use herd::{RANK_CLASSES, Woken, rank_class, rank_label};
pub use latency::{Latency, pooled, value_at};
pub use request::{PerRequest, RequestKind};
pub use sheet::{Second, ThreadRecorder, Window};
pub use steady::{Growth, Slope, Truncation, growth, truncation};
pub use survival::{Quantile, Survival};

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The histogram that every measure uses: three significant digits, 1 µs to [`HIGHEST_US`].
pub type Histogram = hdrhistogram::Histogram<u64>;

/// The largest value kept apart, one hour; anything longer is recorded as this.
pub const HIGHEST_US: u64 = 3_600_000_000;

/// An empty histogram with the suite's range and precision. Recording in it neither fails nor allocates.
#[must_use]
pub fn new_histogram() -> Histogram {
    // A copy costs a fraction of making one, and a trial needs dozens.
    EMPTY.clone()
}

#[allow(clippy::expect_used, reason = "the bounds are constants that satisfy the constructor's conditions")]
static EMPTY: LazyLock<Histogram> =
    LazyLock::new(|| Histogram::new_with_bounds(1, HIGHEST_US, 3).expect("constant bounds are valid"));

/// One measured quantity, always in microseconds; one row of the table of measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Measure {
    /// From when the acquire should have started to its return.
    Wait,
    /// Waits that ended without the lock, or had not ended when the measured phase did: each lasted at least this long.
    Unserved,
    /// An acquire that no other contender delayed: call to return.
    Uncontended,
    /// From the previous holder's release call to the next holder's return from acquire.
    Handoff,
    /// From the release call to its return.
    Release,
    /// For how long the lock was held: from acquire's return to the release call.
    Hold,
    /// How much longer than intended the lock was held, because of the generator's timer.
    HoldOvershoot,
    /// From a release call to the arrival of each notification that it caused.
    Notification,
    /// From the arrival of a reply or notification in this process to the contender that awaited it
    /// running again: the generator's own lag.
    DispatchLag,
    /// Of [`Measure::Wait`] in an open load, the time in the client until a contender was free.
    ClientWait,
    /// Of [`Measure::Wait`] in an open load, from the call of acquire to its return.
    Service,
    /// Of [`Measure::Wait`] in an open load, how late the generator called acquire: the generator's own lag.
    Lateness,
    /// Of [`Measure::Wait`], the acquires that asked to read; only where some do.
    ReadWait,
    /// Of [`Measure::Wait`], the acquires that asked to write; only where some ask to read.
    WriteWait,
    /// From a request's call to its reply.
    Request(RequestKind),
}

impl Measure {
    /// Every measure, in the order in which outputs list them.
    #[must_use]
    pub fn all() -> Vec<Measure> {
        let own = [
            Self::Wait,
            Self::Unserved,
            Self::Uncontended,
            Self::Handoff,
            Self::Release,
            Self::Hold,
            Self::HoldOvershoot,
            Self::Notification,
            Self::DispatchLag,
            Self::ClientWait,
            Self::Service,
            Self::Lateness,
            Self::ReadWait,
            Self::WriteWait,
        ];
        own.into_iter().chain(RequestKind::ALL.into_iter().map(Self::Request)).collect()
    }

    pub const COUNT: usize = 14 + RequestKind::ALL.len();

    /// The position in [`Measure::all`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Wait => 0,
            Self::Unserved => 1,
            Self::Uncontended => 2,
            Self::Handoff => 3,
            Self::Release => 4,
            Self::Hold => 5,
            Self::HoldOvershoot => 6,
            Self::Notification => 7,
            Self::DispatchLag => 8,
            Self::ClientWait => 9,
            Self::Service => 10,
            Self::Lateness => 11,
            Self::ReadWait => 12,
            Self::WriteWait => 13,
            Self::Request(kind) => 14 + kind as usize,
        }
    }

    /// The name in files: column prefix and `.hlog` tag.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Wait => "wait".into(),
            Self::Unserved => "unserved".into(),
            Self::Uncontended => "uncontended".into(),
            Self::Handoff => "handoff".into(),
            Self::Release => "release".into(),
            Self::Hold => "hold".into(),
            Self::HoldOvershoot => "hold_overshoot".into(),
            Self::Notification => "notification".into(),
            Self::DispatchLag => "dispatch_lag".into(),
            Self::ClientWait => "client_wait".into(),
            Self::Service => "service".into(),
            Self::Lateness => "lateness".into(),
            Self::ReadWait => "read_wait".into(),
            Self::WriteWait => "write_wait".into(),
            Self::Request(kind) => format!("request_{}", kind.name()),
        }
    }

    /// Whether it is as long as the queue is, so that it says nothing where that goes on growing.
    #[must_use]
    pub fn is_of_the_queue(self) -> bool {
        matches!(
            self,
            Self::Wait | Self::Unserved | Self::ClientWait | Self::Service | Self::ReadWait | Self::WriteWait
        )
    }

    /// The measure of that name, as read from a file.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Measure> {
        Self::all().into_iter().find(|measure| measure.name() == name)
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.name()
    }
}

impl TryFrom<String> for Measure {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::from_name(&name).ok_or_else(|| format!("there is no measure `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_knows_its_own_place_and_name() {
        let all = Measure::all();
        assert_eq!(all.len(), Measure::COUNT);
        for (position, measure) in all.into_iter().enumerate() {
            assert_eq!(measure.index(), position);
            assert_eq!(Measure::from_name(&measure.name()), Some(measure));
        }
    }
}
