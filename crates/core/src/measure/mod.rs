//! The table of measures and counts: every output iterates these, so that none can forget one.

/// Makes an enum of what is counted by its kind, each kind with its name in files, and one number for each of them.
macro_rules! counted_by {
    (
        $(#[$about_kind:meta])* $Kind:ident { $($(#[$about:meta])* $variant:ident: $name:literal,)* }
        $(#[$about_each:meta])* $Each:ident
    ) => {
        $(#[$about_kind])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum $Kind { $($(#[$about])* $variant,)* }

        impl $Kind {
            /// All of them, in the order in which outputs list them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
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

            /// Kind and number, in the order of the kinds.
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

/// Adds what was counted field by field: every field by name, so that none can be forgotten.
#[macro_export]
macro_rules! added_up {
    ($Counts:ident { $($field:ident),* $(,)? }) => {
        impl std::ops::AddAssign for $Counts {
            fn add_assign(&mut self, other: Self) {
                let Self { $($field),* } = other;
                $(self.$field += $field;)*
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

/// The histogram that every measure uses: three significant digits, 1 µs to [`HIGHEST_US`].
pub type Histogram = hdrhistogram::Histogram<u64>;

/// The largest value kept apart, one hour; anything longer is recorded as this.
pub const HIGHEST_US: u64 = 3_600_000_000;

/// An empty histogram with the suite's range and precision. Recording in it neither fails nor allocates.
pub fn new_histogram() -> Histogram {
    // A copy costs a fraction of making one, and a trial needs dozens.
    EMPTY.clone()
}

#[allow(clippy::expect_used, reason = "the bounds are constants that satisfy the constructor's conditions")]
static EMPTY: LazyLock<Histogram> =
    LazyLock::new(|| Histogram::new_with_bounds(1, HIGHEST_US, 3).expect("constant bounds are valid"));

/// Makes the enum of measures of one list: what each is, and its name in files (column prefix and `.hlog` tag).
macro_rules! measures {
    ($($(#[doc = $what:literal])+ $variant:ident: $name:literal;)*) => {
        /// One measured quantity, always in microseconds; one row of the table of measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(into = "String", try_from = "String")]
        #[schemars(with = "String")]
        pub enum Measure {
            $($(#[doc = $what])+ $variant,)*
            /// From a request's call to its reply.
            Request(RequestKind),
        }

        /// The places of those that are no requests.
        enum Place { $($variant,)* Requests }

        impl Measure {
            /// Every measure, in the order in which outputs list them.
            pub fn all() -> Vec<Measure> {
                let own = [$(Self::$variant),*];
                own.into_iter().chain(RequestKind::ALL.into_iter().map(Self::Request)).collect()
            }

            pub const COUNT: usize = Place::Requests as usize + RequestKind::ALL.len();

            /// The position in [`Measure::all`].
            pub fn index(self) -> usize {
                match self {
                    $(Self::$variant => Place::$variant as usize,)*
                    Self::Request(kind) => Place::Requests as usize + kind as usize,
                }
            }

            /// The name in files.
            pub fn name(self) -> String {
                match self {
                    $(Self::$variant => $name.into(),)*
                    Self::Request(kind) => format!("request_{}", kind.name()),
                }
            }

            pub fn what(self) -> String {
                let said = match self {
                    $(Self::$variant => concat!($($what),+),)*
                    Self::Request(_) => "From a request's call to its reply.",
                };
                said.trim().replace("[`Measure::Wait`]", "`wait`")
            }
        }
    };
}

measures! {
    /// From when the acquire should have started to its return.
    Wait: "wait";
    /// Waits that ended without the lock, or had not ended when the measured phase did: each lasted at least this long.
    Unserved: "unserved";
    /// How long waits that began before the measured phase had lasted when that began; not in an open load.
    WaitedBefore: "waited_before";
    /// An acquire that no other contender delayed: call to return.
    Uncontended: "uncontended";
    /// From the previous holder's release call to the next holder's return from acquire.
    Handoff: "handoff";
    /// From one acquisition of a lock to the next, where a contender waited: hold and handoff. Not of locks that several may hold.
    Turn: "turn";
    /// From the release call to its return.
    Release: "release";
    /// For how long the lock was held: from acquire's return to the release call.
    Hold: "hold";
    /// How much longer than intended the lock was held, because of the generator's timer.
    HoldOvershoot: "hold_overshoot";
    /// Of an acquire by a driver, the way to its library and back: what the suite saw, less the time within the library.
    Pipe: "pipe";
    /// From a release call to the arrival of each notification that it caused.
    Notification: "notification";
    /// From the arrival of a reply or notification in this process to the contender that awaited it
    /// running again: the generator's own lag.
    DispatchLag: "dispatch_lag";
    /// Of [`Measure::Wait`] in an open load, the time in the client until a contender was free.
    ClientWait: "client_wait";
    /// Of [`Measure::Wait`] in an open load, from the call of acquire to its return.
    Service: "service";
    /// Of [`Measure::Wait`] in an open load, how late the generator called acquire: the generator's own lag.
    Lateness: "lateness";
    /// Of [`Measure::Wait`], the acquires that asked to read; only where some do.
    ReadWait: "read_wait";
    /// Of [`Measure::Wait`], the acquires that asked to write; only where some ask to read.
    WriteWait: "write_wait";
    /// Of `unserved`, the acquires that asked to read; only where some do.
    ReadUnserved: "read_unserved";
    /// Of `unserved`, the acquires that asked to write; only where some ask to read.
    WriteUnserved: "write_unserved";
    /// Of `waited_before`, the acquires that asked to read; only where some do.
    ReadWaitedBefore: "read_waited_before";
    /// Of `waited_before`, the acquires that asked to write; only where some ask to read.
    WriteWaitedBefore: "write_waited_before";
    /// Of `unserved` in an open load, arrivals for which no contender was free: each lasted at least this long.
    ClientUnserved: "client_unserved";
    /// Of `unserved` in an open load, acquires that were called: from the call to their end without the lock.
    ServiceUnserved: "service_unserved";
}

/// Where the waits are kept that a measure of waits has not seen end. A percentile of the measure needs all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenParts {
    /// Those that ended without the lock, or had not ended.
    pub not_ended: Measure,
    /// How long those had lasted that began before the measured phase.
    pub begun_before: Option<Measure>,
    /// All of `unserved`, each wait in one of these.
    pub split: &'static [Measure],
}

impl Measure {
    /// `None` where a sample exists only once it has ended.
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

    /// Whether it is as long as the queue is, so that it says nothing where that goes on growing.
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
    fn every_measure_knows_its_own_place_and_name() {
        let all = Measure::all();
        assert_eq!(all.len(), Measure::COUNT);
        for (position, measure) in all.into_iter().enumerate() {
            assert_eq!(measure.index(), position);
            assert_eq!(Measure::from_name(&measure.name()), Some(measure));
        }
    }
}
