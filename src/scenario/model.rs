//! What a scenario file says, once it has been read and found right.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::Open;
use super::distribution::Distribution;
use crate::scenario::gate::Gate;
use crate::words::catalog::ParamValue;
use crate::words::catalog::fault::FaultChoice;
use crate::words::units::{as_us, as_us_if_any};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnsembleChoice {
    /// A local one, started and stopped by the suite.
    Local {
        /// 1, 3 or 5.
        servers: usize,
        /// Where their data goes; `None` for the default.
        data_dir: Option<PathBuf>,
    },
    /// One of containers, brought up and taken down by the suite: a Compose file.
    Compose(PathBuf),
    Connect(String),
}

/// One strategy as a scenario names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrategyChoice {
    /// Its name in the catalog.
    #[serde(rename = "strategy")]
    pub name: String,
    /// The parameters in force: the catalog's defaults, overridden by the scenario.
    pub params: BTreeMap<String, ParamValue>,
    /// Name plus the parameters that the scenario set for it, as written (before `time_scale`), e.g.
    /// `predecessor-watch watch=exists`; of another system's lock it ends with `(not ZooKeeper)`.
    pub label: String,
    /// The system whose lock it is, where that is another one than ZooKeeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Of a driver's lock, over how many processes its contenders are spread, where the scenario says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<DriverProcesses>,
}

/// Over how many processes of a driver the contenders are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriverProcesses {
    /// All are in one, as far as it takes so many.
    One,
    PerContender,
    /// So many, with contenders as evenly as can be.
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

/// How contenders arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Each contender again and again, with think time.
    Closed,
    /// The first holds until all are queued, then each acquires once.
    Batch,
    /// Arrivals that come when they come; the contenders are the sessions that serve them.
    Open(Open),
}

impl Load {
    /// The word in the scenario file and in outputs.
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

/// Whose the rates of an open load are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RateOf {
    #[default]
    All,
    /// Of each contender: a trial's are as many times higher.
    Each,
}

/// When the measured phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// After this time.
    #[serde(rename = "after_us", with = "as_us")]
    #[schemars(with = "u64")]
    After(Duration),
    /// When each contender has acquired so many times.
    Acquisitions(u64),
}

/// Until when combinations are repeated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// How far the 95 % confidence interval of a mean may reach to either side, as a share of it.
    pub share: f64,
    pub repetitions_at_most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Every repetition holds every combination once, shuffled by the seed.
    Shuffled,
    AsWritten,
}

/// What a contender does when its lock has told it that it can't be known whether something was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// It ends its session, and goes on with another one and a new lock object.
    #[default]
    EndSession,
    /// It goes on with both for as long as the session lives.
    KeepSession,
}

/// Clients that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientKind {
    /// Their part of all contenders or, in an open load, of all arrivals; the shares of all kinds need not add up to 1.
    pub share: f64,
    /// Hold time.
    pub hold: Distribution,
    /// Think time.
    pub think: Distribution,
    /// Share of acquires that ask to read.
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
    /// Short name; the results directory begins with it.
    pub name: String,
    pub description: String,
    pub ensemble: EnsembleChoice,
    pub strategies: Vec<StrategyChoice>,
    pub contenders: Vec<usize>,
    pub locks: usize,
    pub hold: Distribution,
    pub think: Distribution,
    pub read_ratio: f64,
    /// Its kinds of clients, where they are not all alike.
    pub clients: Vec<ClientKind>,
    pub depth: u32,
    pub load: Load,
    pub rate_of: RateOf,
    pub stop: Stop,
    pub ramp_up: Duration,
    pub warm_up: Duration,
    pub warm_up_at_most: Duration,
    pub repetitions: u32,
    /// How precise the figures are to be; `None` where the repetitions alone decide when the run ends.
    pub precision: Option<Precision>,
    pub order: Order,
    pub seed: u64,
    pub session_timeout: Duration,
    /// How long an acquire may take; `None` for ever.
    pub acquire_timeout: Option<Duration>,
    pub give_up_after: Duration,
    pub in_doubt: InDoubt,
    /// Factor on hold, think, poll interval, duration, ramp-up, warm-up and all times of arrivals and faults, by which
    /// rates are divided; 1 leaves them as written.
    pub time_scale: f64,
    /// What goes wrong on purpose, in the order of the file.
    pub faults: Vec<FaultChoice>,
    /// What its results must show, in the order of the file.
    pub gates: Vec<Gate>,
}

/// One trial, ready to run: all times already scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSpec {
    /// Position in the order of running, from 0.
    pub index: usize,
    /// The strategy.
    #[serde(flatten)]
    pub strategy: StrategyChoice,
    /// How many contenders.
    pub contenders: usize,
    /// Repetition, from 1.
    pub repetition: u32,
    /// Lock paths shared.
    pub locks: usize,
    /// Hold time, where all clients are alike.
    pub hold: Distribution,
    /// Think time, where all clients are alike.
    pub think: Distribution,
    /// Share of acquires that ask to read, where all clients are alike.
    pub read_ratio: f64,
    /// The kinds of clients, where they are not all alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientKind>,
    /// How many times each turn takes the lock.
    pub depth: u32,
    /// Load model.
    pub load: Load,
    /// End of the measured phase.
    pub stop: Stop,
    /// Ramp-up.
    #[serde(rename = "ramp_up_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub ramp_up: Duration,
    /// Warm-up.
    #[serde(rename = "warm_up_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub warm_up: Duration,
    /// How long the warm-up may take where it goes on until the load is steady; runs recorded before there were such
    /// have 0.
    #[serde(rename = "warm_up_at_most_us", with = "as_us", default)]
    #[schemars(with = "u64")]
    pub warm_up_at_most: Duration,
    /// Session timeout asked for.
    #[serde(rename = "session_timeout_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub session_timeout: Duration,
    /// Limit of an acquire.
    #[serde(rename = "acquire_timeout_us", with = "as_us_if_any")]
    #[schemars(with = "Option<u64>")]
    pub acquire_timeout: Option<Duration>,
    /// How long a measured phase that acquisitions end goes on without any, beside all that takes its time by itself.
    #[serde(rename = "give_up_after_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub give_up_after: Duration,
    /// What contenders do when in doubt.
    pub in_doubt: InDoubt,
    /// What goes wrong on purpose. Random parts (which one `any` means, jitter) are drawn from the seed when it fires.
    #[serde(rename = "fault_plan")]
    pub faults: Vec<FaultChoice>,
    /// How long it may take to settle once nothing is broken any more.
    pub settling: Settling,
    /// The trial's own seed, derived from the scenario's.
    pub seed: u64,
    /// The index of the invalid trial in whose place this one was made; it is the same in all else. `None` for the trials
    /// of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makes_up_for: Option<usize>,
}

impl TrialSpec {
    /// Whether its warm-up ends when it is over, and not by the clock alone.
    pub fn has_open_end(&self) -> bool {
        let stationary = self.load.open().is_none_or(|open| open.arrivals.is_stationary());
        self.load != Load::Batch && stationary && self.warm_up_at_most > self.warm_up
    }
}

/// How long a trial may take to settle after its faults, before what does not settle is held against it. No scenario
/// says so; a trial in which nothing is slow, or never settles, need not wait as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settling {
    /// How long a lock may go without an acquisition, or a contender wait while others are served.
    #[serde(rename = "progress_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub progress: Duration,
    /// How long nodes of sessions that have been abandoned may stay.
    #[serde(rename = "orphans_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub orphans: Duration,
}

impl Settling {
    /// Long enough for sessions of that timeout on a loaded host: what an unused session may still live, a
    /// round of elections, and what the load adds to both.
    pub fn of(session_timeout: Duration) -> Self {
        Self { progress: Duration::from_secs(10), orphans: Duration::from_secs(3) }.and_for(session_timeout)
    }

    /// Where sessions live so much longer.
    pub fn and_for(self, longer: Duration) -> Self {
        Self { progress: self.progress + 3 * longer, orphans: self.orphans + 2 * longer }
    }
}
