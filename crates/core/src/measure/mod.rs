//! The table of measures and counts. Every output iterates over this table, so no output can omit an entry.

/// Defines an enum of kinds with their names in files, and an array type with one number per kind.
macro_rules! counted_by {
    (
        $(#[$about_kind:meta])* $Kind:ident { $($(#[$about:meta])* $variant:ident: $name:literal,)* }
        $(#[$about_each:meta])* $Each:ident
    ) => {
        $crate::worded! {
            $(#[$about_kind])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "snake_case")]
            #[repr(u8)]
            pub enum $Kind by name { $($(#[$about])* $variant = $name,)* }
        }

        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        $(#[$about_each])*
        pub struct $Each([u64; $Kind::ALL.len()]);

        impl $Each {
            pub fn get(&self, kind: $Kind) -> u64 {
                self.0[kind as usize]
            }

            pub fn add(&mut self, kind: $Kind, amount: u64) {
                self.0[kind as usize] += amount;
            }

            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }

            /// Iterates over (kind, number) pairs in declaration order.
            pub fn iter(&self) -> impl Iterator<Item = ($Kind, u64)> + '_ {
                $Kind::ALL.into_iter().zip(self.0)
            }
        }

        impl std::ops::AddAssign for $Each {
            fn add_assign(&mut self, other: Self) {
                self.0.iter_mut().zip(other.0).for_each(|(own, theirs)| *own += theirs);
            }
        }

        impl From<$Each> for BTreeMap<$Kind, u64> {
            fn from(numbers: $Each) -> Self {
                numbers.iter().collect()
            }
        }

        impl From<BTreeMap<$Kind, u64>> for $Each {
            fn from(by_kind: BTreeMap<$Kind, u64>) -> Self {
                let mut numbers = Self::default();
                by_kind.into_iter().for_each(|(kind, amount)| numbers.add(kind, amount));
                numbers
            }
        }
    };
}

/// Implements addition field by field, with `+=` or the [`combine`] rule after the field's name. A field that
/// is not listed is a compile error.
#[macro_export]
macro_rules! added_up {
    (@field $own:expr, $other:expr) => { $own += $other };
    (@field $own:expr, $other:expr, $rule:expr) => { $crate::measure::combine::apply($rule, &mut $own, $other) };
    ($Counts:ident { $($field:ident $(: $rule:expr)?),* $(,)? }) => {
        impl std::ops::AddAssign for $Counts {
            fn add_assign(&mut self, other: Self) {
                let Self { $($field),* } = other;
                $($crate::measure::added_up!(@field self.$field, $field $(, $rule)?);)*
            }
        }

        impl std::ops::Add for $Counts {
            type Output = Self;

            fn add(mut self, other: Self) -> Self {
                self += other;
                self
            }
        }
    };
}
pub use added_up;

pub mod combine;
mod counts;
mod figure;
mod herd;
mod latency;
mod steady;
mod thread_recorder;

pub use counts::{
    Counts, Events, Notifications, Outcome, OutcomeCounts, PerRequest, RequestKind, WireApart, WireCounts,
};
pub use figure::{Better, Figure, FigureCard, FigureKind, Statistic, Unit};
pub use herd::{RANK_CLASSES, Woken, rank_class, rank_label};
pub use latency::{Latency, Quantile, Samples, Survival, pooled, value_at};
pub use steady::{Growth, Slope, Truncation, growth, truncation};
pub use thread_recorder::{ArrivalWait, Second, ThreadRecorder, Window};

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Histogram of a measure: three significant digits, 1 µs to [`HIGHEST_US`].
pub type Histogram = hdrhistogram::Histogram<u64>;

/// Largest value that histograms can represent: one hour. Longer samples are recorded as one hour.
pub const HIGHEST_US: u64 = 3_600_000_000;

/// Returns an empty histogram with the suite's range and precision. Recording does not allocate.
pub fn new_histogram() -> Histogram {
    // A clone is much cheaper than a new histogram, and a trial needs dozens.
    EMPTY.clone()
}

#[allow(clippy::expect_used, reason = "the bounds are constants that satisfy the constructor's conditions")]
static EMPTY: LazyLock<Histogram> =
    LazyLock::new(|| Histogram::new_with_bounds(1, HIGHEST_US, 3).expect("constant bounds are valid"));

/// Defines the enum of measures from one list: description and name in files (column prefix and `.hlog` tag).
macro_rules! measures {
    ($($(#[doc = $what:literal])+ $variant:ident: $name:literal;)*) => {
        /// One measured quantity in microseconds; a row of the table of measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(into = "String", try_from = "String")]
        #[schemars(with = "String")]
        pub enum Measure {
            $($(#[doc = $what])+ $variant,)*
            /// Time from sending a request to its reply.
            Request(RequestKind),
        }

        /// Indices of the measures that are not requests.
        enum Place { $($variant,)* Requests }

        impl Measure {
            /// Returns all measures in output order.
            pub fn all() -> Vec<Measure> {
                let own = [$(Self::$variant),*];
                own.into_iter().chain(RequestKind::ALL.into_iter().map(Self::Request)).collect()
            }

            pub const COUNT: usize = Place::Requests as usize + RequestKind::ALL.len();

            /// Returns the position in [`Measure::all`].
            pub fn index(self) -> usize {
                match self {
                    $(Self::$variant => Place::$variant as usize,)*
                    Self::Request(kind) => Place::Requests as usize + kind as usize,
                }
            }

            pub fn name(self) -> String {
                match self {
                    $(Self::$variant => $name.into(),)*
                    Self::Request(kind) => format!("request_{}", kind.name()),
                }
            }

            pub fn what(self) -> String {
                let said = match self {
                    $(Self::$variant => concat!($($what),+),)*
                    Self::Request(_) => "From sending a request to its reply.",
                };
                said.trim().replace("[`Measure::Wait`]", "`wait`")
            }
        }
    };
}

measures! {
    /// From the intended start of an acquire to its return.
    Wait: "wait";
    /// Waits that ended without the lock, or had not ended by the end of the measured phase. Each lasted at
    /// least this long.
    Unserved: "unserved";
    /// Length, at the start of the measured phase, of each wait that started earlier; not recorded in open
    /// loads.
    WaitedBefore: "waited_before";
    /// From the call to the return of an acquire that no other contender delayed.
    Uncontended: "uncontended";
    /// From the previous holder's release call to the next holder's return from acquire.
    Handoff: "handoff";
    /// From one acquisition of a lock to the next, if a contender was waiting: hold and handoff. Only for
    /// locks with one holder.
    Turn: "turn";
    /// From the release call to its return.
    Release: "release";
    /// From the start of a try to its return without the lock.
    FailedTry: "failed_try";
    /// Time by which acquires exceeded their timeout, if by more than a tenth of it (at least 100 ms; 1 s for
    /// tries).
    Overrun: "overrun";
    /// Time by which releases exceeded the acquire timeout, with the same tolerance.
    ReleaseOverrun: "release_overrun";
    /// Hold time of the lock: from acquire's return to the release call.
    Hold: "hold";
    /// Time by which a hold exceeded its intended length, due to the generator's timer.
    HoldOvershoot: "hold_overshoot";
    /// Overhead of a driver's pipe in an acquire: time measured by the suite, minus time within the driver's
    /// library.
    Pipe: "pipe";
    /// From a release call to the arrival of each notification that it caused.
    Notification: "notification";
    /// From the arrival of a reply or notification in this process until its contender runs again: the
    /// generator's own lag.
    DispatchLag: "dispatch_lag";
    /// Part of [`Measure::Wait`] in an open load: time in the client until a contender became free.
    ClientWait: "client_wait";
    /// Part of [`Measure::Wait`] in an open load: from the acquire call to its return.
    Service: "service";
    /// Part of [`Measure::Wait`] in an open load: time by which the generator itself delayed the acquire
    /// call.
    Lateness: "lateness";
    /// [`Measure::Wait`] of read acquires; only in loads with reads.
    ReadWait: "read_wait";
    /// [`Measure::Wait`] of write acquires; only in loads with reads.
    WriteWait: "write_wait";
    /// `unserved` of read acquires; only in loads with reads.
    ReadUnserved: "read_unserved";
    /// `unserved` of write acquires; only in loads with reads.
    WriteUnserved: "write_unserved";
    /// `waited_before` of read acquires; only in loads with reads.
    ReadWaitedBefore: "read_waited_before";
    /// `waited_before` of write acquires; only in loads with reads.
    WriteWaitedBefore: "write_waited_before";
    /// Part of `unserved` in an open load: arrivals for which no contender became free. Each waited at least
    /// this long.
    ClientUnserved: "client_unserved";
    /// Part of `unserved` in an open load: from the acquire call to its end without the lock.
    ServiceUnserved: "service_unserved";
}

/// Measures of the waits that were observed only in part. Percentiles of a wait need all of these measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenParts {
    /// Measure of waits that ended without the lock or had not ended.
    pub not_ended: Measure,
    /// Measure of the lengths, at the start of the measured phase, of waits that started earlier.
    pub begun_before: Option<Measure>,
    /// Measures that together contain every wait of `unserved` exactly once.
    pub split: &'static [Measure],
}

impl Measure {
    /// Returns the measures for this measure's partly observed waits; `None` if it has no such waits.
    pub fn open_parts(self) -> Option<OpenParts> {
        const BY_MODE: &[Measure] = &[Measure::ReadUnserved, Measure::WriteUnserved];
        const BY_STAGE: &[Measure] = &[Measure::ClientUnserved, Measure::ServiceUnserved];
        let parts = |not_ended, begun_before, split| Some(OpenParts { not_ended, begun_before, split });
        match self {
            Self::Wait => parts(Self::Unserved, Some(Self::WaitedBefore), &[Self::Unserved]),
            Self::ReadWait => parts(Self::ReadUnserved, Some(Self::ReadWaitedBefore), BY_MODE),
            Self::WriteWait => parts(Self::WriteUnserved, Some(Self::WriteWaitedBefore), BY_MODE),
            Self::ClientWait => parts(Self::ClientUnserved, None, BY_STAGE),
            Self::Service => parts(Self::ServiceUnserved, None, BY_STAGE),
            _ => None,
        }
    }

    /// Returns whether the measure depends on the length of the queue. Such a measure is meaningless while
    /// the queue keeps growing.
    pub fn is_of_the_queue(self) -> bool {
        matches!(
            self,
            Self::Wait
                | Self::Unserved
                | Self::WaitedBefore
                | Self::ClientWait
                | Self::Service
                | Self::ReadWait
                | Self::WriteWait
                | Self::ReadUnserved
                | Self::WriteUnserved
                | Self::ReadWaitedBefore
                | Self::WriteWaitedBefore
                | Self::ClientUnserved
                | Self::ServiceUnserved
        )
    }

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
    fn measures_are_found_by_index_and_name() {
        let all = Measure::all();
        assert_eq!(all.len(), Measure::COUNT);
        for (position, measure) in all.into_iter().enumerate() {
            assert_eq!(measure.index(), position);
            assert_eq!(Measure::from_name(&measure.name()), Some(measure));
        }
    }
}
