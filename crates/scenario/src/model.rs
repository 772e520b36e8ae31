//! Valid scenarios and their trials.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::arrivals::Open;
use super::distribution::{Distribution, MeasuredTimes};
use super::shares::Shares;
use crate::gate::Gate;
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::catalog::fault::{FaultChoice, Start, Target};
use zklockbench_core::clock::micros;
use zklockbench_core::evidence::Sensitivity;
use zklockbench_core::units::{as_us, as_us_if_any};
use zklockbench_core::worded;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnsembleChoice {
    /// A local ensemble, started and stopped by the suite.
    Local {
        /// Number of servers: 1, 3 or 5.
        servers: usize,
        /// Directory for the servers' data; `None` for the default.
        data_dir: Option<PathBuf>,
    },
    /// An ensemble of containers that the suite starts and stops, from a Compose file.
    Compose(PathBuf),
    Connect(String),
}

impl EnsembleChoice {
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }

    /// Returns whether the ensemble is external, i.e. not started by the suite.
    pub fn is_external(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrategyChoice {
    /// Name in the catalog.
    #[serde(rename = "strategy")]
    pub name: String,
    /// Effective parameters: the catalog's defaults, overridden by the scenario.
    pub params: BTreeMap<String, ParamValue>,
    /// Name plus the parameters as written in the scenario, e.g. `predecessor-watch watch=exists`. The label
    /// of another system's lock ends with `(not ZooKeeper)`.
    pub label: String,
    /// System of the lock; `None` for ZooKeeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Number of driver processes for the contenders, if the scenario sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<DriverProcesses>,
}

/// Number of driver processes over which the contenders are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriverProcesses {
    /// One process, or more if the driver limits the number of contenders per process.
    One,
    PerContender,
    /// This many processes, with contenders spread as evenly as possible.
    Count(usize),
}

impl std::fmt::Display for DriverProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::PerContender => f.write_str("per-contender"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// Load model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Each contender acquires repeatedly, with think time.
    Closed,
    /// The first contender holds until all are queued, then each acquires once.
    Batch,
    /// Arrivals that do not depend on the lock; the contenders are the sessions that serve them.
    Open(Open),
}

impl Load {
    /// Returns the name in the scenario file and in outputs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Batch => "batch",
            Self::Open(_) => "open",
        }
    }

    pub fn open(&self) -> Option<&Open> {
        match self {
            Self::Open(open) => Some(open),
            Self::Closed | Self::Batch => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RateOf {
    #[default]
    All,
    /// Rate per contender; a trial's total rate is this rate times its number of contenders.
    Each,
}

/// End of the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// After this time.
    #[serde(rename = "after_us", with = "as_us")]
    #[schemars(with = "u64")]
    After(Duration),
    /// After this many acquisitions by each contender.
    Acquisitions(u64),
}

impl Stop {
    /// Returns the duration of the measured phase; `None` if acquisitions end it.
    pub fn lasts(self) -> Option<Duration> {
        if let Self::After(duration) = self { Some(duration) } else { None }
    }
}

/// Condition for ending the repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Largest allowed half-width of the 95 % confidence interval of a mean, as a share of the mean.
    pub share: f64,
    pub repetitions_at_most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each repetition contains every combination once, shuffled by the seed.
    Shuffled,
    /// In the scenario's order.
    AsWritten,
}

/// Behaviour of a contender after a failure with an unknown outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// The contender ends its session, and continues with a new session and lock object.
    #[default]
    EndSession,
    /// The contender keeps its session and lock object while the session is alive.
    KeepSession,
}

worded! {
    /// Behaviour of a holder that is notified that its session has ended.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum OnLost by name {
        /// The holder ends the hold immediately.
        #[default]
        Stop = "stop",
        /// The holder continues to hold as planned.
        Ignore = "ignore",
    }
}

impl OnLost {
    /// Returns whether the value is the default, which files omit.
    pub fn is_stop(&self) -> bool {
        *self == Self::Stop
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientKind {
    /// Share of all contenders or, in an open load, of all arrivals. The shares need not add up to 1.
    pub share: f64,
    /// Distribution of hold times.
    pub hold: Distribution,
    /// Distribution of think times.
    pub think: Distribution,
    /// Share of acquires that are reads.
    pub read_ratio: f64,
}

impl ClientKind {
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let Self { share, read_ratio, .. } = *self;
        Self { share, hold: self.hold.scaled(factor), think: self.think.scaled(factor), read_ratio }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Short name; prefix of the results directory.
    pub name: String,
    pub description: String,
    pub ensemble: EnsembleChoice,
    pub strategies: Vec<StrategyChoice>,
    pub contenders: Vec<usize>,
    pub locks: usize,
    /// Whether each acquisition uses a new lock path, regardless of `locks`.
    pub fresh_locks: bool,
    pub hold: Distribution,
    pub think: Distribution,
    pub read_ratio: f64,
    /// Kinds of clients; empty if all are alike.
    pub clients: Vec<ClientKind>,
    pub depth: u32,
    pub load: Load,
    pub rate_of: RateOf,
    pub stop: Stop,
    pub ramp_up: Duration,
    pub warm_up: Duration,
    pub warm_up_at_most: Duration,
    pub repetitions: u32,
    /// Required precision of the metrics; `None` if the number of repetitions is fixed.
    pub precision: Option<Precision>,
    pub order: Order,
    pub seed: u64,
    pub session_timeout: Duration,
    /// Whether each acquisition opens a new session.
    pub session_each: bool,
    /// Timeout of an acquire; `None` for no limit.
    pub acquire_timeout: Option<Duration>,
    pub give_up_after: Duration,
    pub in_doubt: InDoubt,
    pub on_lost: OnLost,
    /// Maximum hold; `None` for no limit.
    pub hold_limit: Option<Duration>,
    pub evidence: Sensitivity,
    /// Factor for the scenario's times; rates are divided by it. Timeouts and limits are not scaled.
    pub time_scale: f64,
    /// Faults to inject, in file order.
    pub faults: Vec<FaultChoice>,
    /// Conditions on the results, in file order.
    pub gates: Vec<Gate>,
}

/// One trial, ready to run. All times are already scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSpec {
    /// Position in the run order, starting at 0.
    pub index: usize,
    #[serde(flatten)]
    pub strategy: StrategyChoice,
    /// Number of contenders.
    pub contenders: usize,
    /// Number of the repetition, starting at 1.
    pub repetition: u32,
    /// Number of shared lock paths or, with fresh locks, of directories for them.
    pub locks: usize,
    /// Whether each acquisition uses a new lock path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh_locks: bool,
    /// Hold time, if all clients are alike.
    pub hold: Distribution,
    /// Think time, if all clients are alike.
    pub think: Distribution,
    /// Share of acquires that are reads, if all clients are alike.
    pub read_ratio: f64,
    /// Kinds of clients; empty if all are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientKind>,
    /// Number of nested acquires per cycle.
    pub depth: u32,
    /// Load model.
    pub load: Load,
    /// End of the measured phase.
    pub stop: Stop,
    #[serde(rename = "ramp_up_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub ramp_up: Duration,
    #[serde(rename = "warm_up_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub warm_up: Duration,
    /// Maximum length of a warm-up that lasts until the load is steady; 0 in runs of older versions.
    #[serde(rename = "warm_up_at_most_us", with = "as_us", default)]
    #[schemars(with = "u64")]
    pub warm_up_at_most: Duration,
    /// Requested session timeout.
    #[serde(rename = "session_timeout_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub session_timeout: Duration,
    /// Timeout of an acquire.
    #[serde(rename = "acquire_timeout_us", with = "as_us_if_any")]
    #[schemars(with = "Option<u64>")]
    pub acquire_timeout: Option<Duration>,
    /// Time without an acquisition after which a measured phase that ends after a fixed number of acquisitions
    /// is abandoned, in addition to the scenario's own times.
    #[serde(rename = "give_up_after_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub give_up_after: Duration,
    /// Whether each acquisition opens a new session within its wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session_each: bool,
    /// Behaviour of contenders after a failure with an unknown outcome.
    pub in_doubt: InDoubt,
    /// Behaviour of holders that are notified that their session has ended.
    #[serde(default, skip_serializing_if = "OnLost::is_stop")]
    pub on_lost: OnLost,
    /// Maximum hold.
    #[serde(
        rename = "hold_limit_us",
        with = "as_us_if_any",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<u64>")]
    pub hold_limit: Option<Duration>,
    /// Error rate that the acquisitions must rule out for a verdict of held.
    // Renamed, because a trial's file also contains the evidence itself.
    #[serde(rename = "evidence_asked", default, skip_serializing_if = "Sensitivity::is_default")]
    pub evidence: Sensitivity,
    /// Injected faults. Random parts (the target of `any`, jitter) are drawn when a fault fires.
    #[serde(rename = "fault_plan")]
    pub faults: Vec<FaultChoice>,
    /// Maximum time to settle after the last fault has healed.
    pub settling: Settling,
    /// Seed of the trial, derived from the scenario's.
    pub seed: u64,
    /// Index of the invalid trial that this trial replaces; `None` for planned trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makes_up_for: Option<usize>,
}

impl TrialSpec {
    /// Returns whether acquires are tries, which acquire the lock immediately or fail.
    pub fn only_tries(&self) -> bool {
        let has_no_time = self.acquire_timeout.is_some_and(|timeout| timeout.is_zero());
        has_no_time || self.strategy.params.get("blocking") == Some(&ParamValue::Bool(false))
    }

    /// Returns whether the warm-up continues until the load is steady, instead of for a fixed time.
    pub fn has_open_end(&self) -> bool {
        let stationary = self.load.open().is_none_or(|open| open.arrivals.is_stationary());
        self.load != Load::Batch && stationary && self.warm_up_at_most > self.warm_up
    }

    pub fn kinds(&self) -> Vec<ClientKind> {
        if !self.clients.is_empty() {
            return self.clients.clone();
        }
        let Self { hold, think, read_ratio, .. } = self;
        vec![ClientKind { share: 1.0, hold: hold.clone(), think: think.clone(), read_ratio: *read_ratio }]
    }

    /// Returns the kind of the contender with this index. Not for open loads, where kinds belong to arrivals.
    /// The first contenders are of the first kind.
    pub fn kind_of(&self, contender: usize) -> ClientKind {
        let of_each = self.contenders_by_kind();
        let ends = of_each.iter().scan(0, |end, count| (*end += count, Some(*end)).1);
        let before = ends.take_while(|end| *end <= contender).count();
        let mut kinds = self.kinds();
        kinds.swap_remove(before.min(kinds.len() - 1))
    }

    /// Returns the number of contenders of each kind. Not for open loads, where kinds belong to arrivals.
    pub fn contenders_by_kind(&self) -> Vec<usize> {
        let kinds = self.kinds();
        let shares = shares(&kinds);
        let ends = shares.ends().iter().map(|share| (share * self.contenders as f64).round() as usize);
        let mut before = 0;
        ends.map(|end| end - std::mem::replace(&mut before, end)).collect()
    }

    pub fn mean_hold(&self) -> Duration {
        self.mean(|kind| &kind.hold)
    }

    pub fn mean_think(&self) -> Duration {
        self.mean(|kind| &kind.think)
    }

    fn mean(&self, of: impl Fn(&ClientKind) -> &Distribution) -> Duration {
        let kinds = self.kinds();
        let all: f64 = kinds.iter().map(|kind| kind.share).sum();
        let one = |kind: &ClientKind| of(kind).mean().mul_f64(kind.share / all);
        kinds.iter().map(one).sum()
    }

    pub fn hold_rarely_exceeded(&self) -> Duration {
        self.kinds().iter().map(|kind| kind.hold.rarely_exceeded()).max().unwrap_or_default()
    }

    pub fn think_rarely_exceeded(&self) -> Duration {
        self.kinds().iter().map(|kind| kind.think.rarely_exceeded()).max().unwrap_or_default()
    }

    /// Returns whether any client reads. Must not allocate, because it is called for each acquisition.
    pub fn has_readers(&self) -> bool {
        match &*self.clients {
            [] => self.read_ratio > 0.0,
            kinds => kinds.iter().any(|kind| kind.read_ratio > 0.0),
        }
    }

    /// Returns the hold times of all kinds as one distribution, approximated by samples if there are several
    /// kinds.
    pub fn all_holds(&self) -> Distribution {
        self.together(|kind| &kind.hold)
    }

    /// Like [`Self::all_holds`], for the think times.
    pub fn all_thinks(&self) -> Distribution {
        self.together(|kind| &kind.think)
    }

    fn together(&self, of: impl Fn(&ClientKind) -> &Distribution) -> Distribution {
        let kinds = self.kinds();
        if let [kind] = &*kinds {
            return of(kind).clone();
        }
        // Draw ten times as many values as are kept, so that each kept value is the mean of ten neighbours.
        const DRAWN: usize = 10 * MeasuredTimes::MOST;
        let (shares, mut rng) = (shares(&kinds), ChaCha8Rng::seed_from_u64(1));
        let draw = |at: usize| {
            let kind = shares.at((at as f64 + 0.5) / DRAWN as f64);
            of(&kinds[kind]).sample(&mut rng)
        };
        Distribution::Measured(MeasuredTimes::condensed((0..DRAWN).map(draw).collect()))
    }

    /// Returns the added round-trip time; `None` unless the trial's only fault delays all messages throughout
    /// the measured phase.
    pub fn added_round_trip(&self) -> Option<Duration> {
        let ([fault], Stop::After(lasts)) = (self.faults.as_slice(), self.stop) else { return None };
        let FaultChoice { kind, target, start, duration, times, params, .. } = fault;
        let for_all = *target == Target::Word("all") && *times == 1;
        let throughout = *start == Start::At(Duration::ZERO) && *duration == Some(lasts);
        let each_way = params.iter().try_fold(Duration::ZERO, |found, (name, value)| match value {
            ParamValue::Duration(time) if name == LATENCY => Some(*time),
            // No other parameter may lengthen a round trip.
            ParamValue::Duration(Duration::ZERO) => Some(found),
            _ => None,
        })?;
        (kind == DELAY && for_all && throughout).then_some(2 * each_way)
    }
}

/// Maximum times for a trial to settle after its faults, before stuck contenders and leftover nodes are
/// reported. Tests may shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settling {
    /// Maximum time for which a lock may remain unacquired, or a contender may wait while others are served.
    #[serde(rename = "progress_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub progress: Duration,
    /// Maximum time for which nodes of abandoned sessions may remain.
    #[serde(rename = "orphans_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub orphans: Duration,
}

impl Settling {
    /// Returns the maximum settling times for sessions with this timeout on a loaded host. These times cover
    /// the remaining life of an unused session, a round of elections, and delays due to the load.
    pub fn of(session_timeout: Duration) -> Self {
        Self { progress: Duration::from_secs(10), orphans: Duration::from_secs(3) }.and_for(session_timeout)
    }

    /// Extends the times for sessions that live this much longer.
    pub fn and_for(self, longer: Duration) -> Self {
        Self { progress: self.progress + 3 * longer, orphans: self.orphans + 2 * longer }
    }
}

pub(super) struct KindDraw {
    kinds: Vec<ClientKind>,
    shares: Shares,
    rng: ChaCha8Rng,
}

impl KindDraw {
    pub(super) fn new(kinds: Vec<ClientKind>, rng: ChaCha8Rng) -> Self {
        Self { shares: shares(&kinds), kinds, rng }
    }

    pub(super) fn next(&mut self) -> &ClientKind {
        &self.kinds[self.shares.at(self.rng.random())]
    }
}

fn shares(kinds: &[ClientKind]) -> Shares {
    Shares::of(kinds.iter().map(|kind| kind.share))
}

/// Kind of the fault that lengthens round trips.
const DELAY: &str = "delay";
/// Parameter of that fault: the added time in each direction.
const LATENCY: &str = "latency";

/// Note for metrics measured with added round-trip time.
pub const DISTANCE_NOTE: &str = "The delay is added by a proxy between contenders and servers, half of it in each direction, \
    throughout the measured phase; the latency between servers does not change.";

/// Returns the added time per direction for this round-trip time: half of it, in whole microseconds.
pub fn each_way(round_trip: Duration) -> Duration {
    Duration::from_micros(micros(round_trip).div_ceil(2))
}

/// Creates a `[[fault]]` table that adds this round-trip time for the whole `duration`.
pub fn distance(round_trip: Duration, duration: &str) -> Table {
    let latency = format!("{}us", each_way(round_trip).as_micros());
    [("kind", DELAY), ("at", "0s"), ("duration", duration), (LATENCY, latency.as_str())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}
