//! `learned.json`: the result of `learn`. Durations are in µs; times are RFC 3339.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fit::Dispersion;
use crate::log::Damage;
use crate::recipe::Recipe;
use crate::times::{Handoff, Times};
use zklockbench_core::error::Error;
use zklockbench_core::units::as_utc;
use zklockbench_results::VersionedFile;

/// Fields may be added without a new version.
pub const FILE: VersionedFile = VersionedFile {
    of: "learned load",
    name: "learned.json",
    version: 1,
    remedy: "the file is incomplete or damaged; run `zklockbench learn` again",
};
/// Maximum number of lock families to keep, and of other families; other locks are only counted.
const FAMILIES_KEPT: usize = 200;

/// Use of locks on an ensemble.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Learned {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Version of the tool.
    pub tool_version: String,
    /// Commit of the tool; `None` if built outside a checkout.
    pub tool_commit: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Source of the data.
    pub source: Source,
    /// Transactions of all clients, and the share caused by locks.
    pub writes: Writes,
    /// Lock families in descending order of acquisitions.
    pub families: Vec<Family>,
    /// Families of ephemeral nodes that are not locks: elections, registries, nodes without a queue.
    pub others: Vec<Family>,
    /// Number of lock families omitted because they have too few acquisitions.
    pub left_out: u64,
    /// Acquisitions per second of all lock families, including omitted ones, from the first arrival to the last;
    /// `None` in files of older versions.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Facts that this source cannot show.
    pub unknowable: Vec<String>,
    /// Scenarios with the learned loads, in files in the same directory.
    pub scenarios: Vec<ScenarioFile>,
}

impl Learned {
    /// Separates locks from other families and drops families beyond the limit.
    pub fn of(source: Source, writes: Writes, families: Vec<Family>) -> Self {
        let (mut families, mut others): (Vec<Family>, Vec<Family>) =
            families.into_iter().partition(|family| family.kind == FamilyKind::Lock);
        let left_out = families.len().saturating_sub(FAMILIES_KEPT) as u64;
        let rate = Some(rate(&families));
        families.truncate(FAMILIES_KEPT);
        others.truncate(FAMILIES_KEPT);
        let unknowable = match source.kind {
            SourceKind::Logs => UNKNOWABLE.to_vec(),
            SourceKind::Watch => [UNKNOWABLE, UNKNOWABLE_BY_WATCH].concat(),
        };
        Self {
            schema_version: FILE.version,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            tool_commit: None,
            command: Vec::new(),
            source,
            writes,
            left_out,
            rate,
            families,
            others,
            unknowable: unknowable.into_iter().map(str::to_owned).collect(),
            scenarios: Vec::new(),
        }
    }

    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        zklockbench_results::replace_json(&directory.join(FILE.name), self)
    }

    pub fn read(directory: &Path) -> Result<Self, Error> {
        FILE.read(directory)
    }

    /// Returns the acquisitions per second of all locks; for files of older versions, without omitted families.
    pub fn rate(&self) -> f64 {
        self.rate.unwrap_or_else(|| rate(&self.families))
    }
}

/// Returns the acquisitions per second of these families, from the first arrival to the last.
fn rate(families: &[Family]) -> f64 {
    let from = families.iter().map(|family| family.from_us).min().unwrap_or(0);
    let to = families.iter().map(|family| family.from_us + family.lasts_us).max().unwrap_or(0);
    let acquisitions: u64 = families.iter().map(|family| family.acquisitions).sum();
    acquisitions as f64 * 1e6 / (to - from).max(1) as f64
}

/// Facts that neither logs nor watches contain.
const UNKNOWABLE: &[&str] = &[
    "attempts that created no node: a try-lock that only read the queue, a wait inside a client's process",
    "reads, watches and notifications",
    "the handoff within each grant, which makes logged holds too long and logged waits too short",
    "whether a session expired during its wait or its hold, if the client died close to the grant",
];
const UNKNOWABLE_BY_WATCH: &[&str] = &[
    "sessions, and therefore which contenders waited or gave up and why, and which nodes ended with their \
     session",
    "all changes while the connection was lost",
];

/// Source of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Kind of source.
    pub kind: SourceKind,
    /// Time of the first transaction, or an earlier time if the clock was set back.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub from: SystemTime,
    /// Time of the last transaction.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub to: SystemTime,
    /// Time from the first transaction to the last.
    pub lasts_us: u64,
    /// Number of times the leader's clock was set back. Times across these changes are excluded.
    pub clock_steps: u32,
    /// Whether locks were folded into families because there were too many.
    pub has_folded_locks: bool,
    /// Whether names are replaced by hashes.
    pub is_anonymous: bool,
    /// Facts about the logs; `None` for a watch.
    pub logs: Option<LogFacts>,
    /// Facts about the watch; `None` for logs.
    pub watch: Option<WatchFacts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Transaction logs of servers.
    Logs,
    /// A watch on a running ensemble.
    Watch,
}

/// Facts about the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogFacts {
    /// Directories read.
    pub directories: Vec<String>,
    /// Number of directories with logs, i.e. of servers. Snapshots may be in other directories.
    #[serde(default)]
    pub servers: u64,
    /// Number of logs.
    pub files: u64,
    /// Transactions missing from all logs, although later ones of the same leader exist.
    pub missing: u64,
    /// Transactions of deposed leaders, which were never committed.
    pub uncommitted: u64,
    /// Transactions at the end that only a minority of the servers logged.
    #[serde(default)]
    pub unconfirmed: u64,
    /// Number of records whose zxid had already been read.
    pub repeated: u64,
    /// Snapshots read.
    pub snapshot: Vec<String>,
    /// Number of instances of damage found.
    pub damaged: u64,
    /// The first instances of damage.
    pub damage: Vec<Damage>,
}

/// Facts about a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchFacts {
    /// Connect string.
    pub connect: String,
    /// The watched path.
    pub path: String,
    /// Number of notifications.
    pub notifications: u64,
    /// Largest number of notifications in a second.
    pub most_per_second: u64,
    /// Number of times the connection was lost. Changes during these times are unknown.
    pub reconnects: u64,
    /// Whether some existing nodes were not read: there were too many, or the watch ended too early.
    #[serde(default)]
    pub has_unread_nodes: bool,
    /// Reason why the watch ended early; `None` if it did not.
    pub cut_short: Option<String>,
}

/// Transactions of all clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Writes {
    /// Logged transactions, including those of sessions and failed requests.
    pub transactions: u64,
    /// Creates, deletes and writes of nodes.
    pub all: u64,
    /// Creates and deletes of lock nodes.
    pub by_locks: u64,
    /// Share of all writes that create or delete lock nodes.
    pub lock_share: f64,
    /// Number of sessions opened.
    pub sessions: u64,
    /// Number of failed requests by error code, e.g. -110: the node exists.
    pub failed: BTreeMap<i32, u64>,
}

/// Locks whose paths differ only in identifiers, with one recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Family {
    /// Path with `{id}` for identifiers.
    pub name: String,
    /// Recipe, recognised by its node names.
    pub recipe: Recipe,
    /// Kind of use.
    pub kind: FamilyKind,
    /// Number of locks used.
    pub locks: u64,
    /// Number of empty directories that remain because nothing deletes them.
    pub empty_directories: u64,
    /// Number of sessions that requested a lock; 0 if unknown, as in a watch.
    pub sessions: u64,
    /// Largest number of cycles of one session; 0 if unknown.
    pub most_by_one_session: u64,
    /// Requests for a lock.
    pub arrivals: u64,
    /// Requests of readers.
    pub reads: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Time of the first arrival, in µs after the first transaction.
    pub from_us: u64,
    /// Time from the first to the last arrival; at least a second.
    pub lasts_us: u64,
    /// Acquisitions per second over `lasts_us`.
    pub rate: f64,
    /// Number of requests by outcome.
    pub endings: Endings,
    /// Time from the acquisition to the release; `None` if none was observed.
    pub hold: Option<Times>,
    /// Time from the request to the acquisition.
    pub wait: Option<Times>,
    /// Time after which clients gave up; `None` if it varies or there are too few cases.
    #[serde(default)]
    pub timeout_us: Option<u64>,
    /// Time to hand over a released lock. In the log, the handoff is part of the hold; for a client, it is part
    /// of the wait.
    pub handoff: Handoff,
    /// Largest number of requests in one queue, including holders; for a semaphore, largest number of holders.
    pub longest_queue: u64,
    /// Average number of waiting requests, from the first arrival to the last arrival or end of a wait.
    pub waiting_mean: f64,
    /// The most popular locks.
    pub keys: Vec<Key>,
    /// Exponent of Zipf's law; `None` if there are too few locks or requests.
    pub zipf: Option<f64>,
    /// Kind of load that the arrivals suggest.
    pub load: LearnedLoad,
    /// Burstiness of arrivals.
    pub dispersion: Vec<Dispersion>,
    /// Arrivals and waiting requests over time.
    pub over_time: OverTime,
    /// The longest waits.
    pub longest_waits: Vec<LongWait>,
    /// The oldest nodes that exist much longer than others.
    pub staying: Vec<StayingNode>,
    /// Number of all nodes that exist much longer than others.
    #[serde(default)]
    pub staying_nodes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FamilyKind {
    /// A lock.
    Lock,
    /// An election: a lock that is held for a long time.
    Election,
    /// Ephemeral nodes that register something, without a queue.
    Registry,
}

/// Number of requests by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Endings {
    /// Acquired and released.
    pub released: u64,
    /// Timed out or cancelled before an acquisition.
    pub gave_up: u64,
    /// Timed out just as the lock became free, as inferred from the number of requests; `None` if
    /// inconclusive.
    pub gave_up_at_grant: Option<u64>,
    /// The session ended during the hold: a crash, an expiry or a client that closed its session.
    pub session_ended_holding: u64,
    /// The session ended during the wait.
    pub session_ended_waiting: u64,
    /// Deleted by another session.
    pub broken: u64,
    /// Still open at the end.
    pub open: u64,
    /// Ended at an unknown time.
    pub unobserved: u64,
}

/// A lock and its share of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// Path of the lock.
    pub lock: String,
    /// Number of requests for the lock.
    pub arrivals: u64,
    /// Share of the family's requests.
    pub share: f64,
}

/// Kind of load that the arrivals suggest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LearnedLoad {
    /// Each session requests the lock again soon after its release.
    Closed {
        /// Median time from a release to the next request, including a round trip.
        think_p50_us: u64,
    },
    /// Requests arrive independently of releases.
    Open,
}

/// Counts by interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverTime {
    /// Length of an interval.
    pub bin_us: u64,
    /// Arrivals per second.
    pub arrivals: Vec<f64>,
    /// Waiting requests, averaged over the interval.
    pub waiting: Vec<f64>,
}

/// A long wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongWait {
    /// Path of the lock.
    pub lock: String,
    /// Time of the request, in µs after the first transaction.
    pub at_us: u64,
    /// Duration of the wait.
    pub waited_us: u64,
    /// The session, in hexadecimal, or `unknown`.
    pub session: String,
    /// Whether the request acquired the lock.
    pub is_granted: bool,
}

/// A node that exists much longer than others: a leak, or a stuck holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StayingNode {
    /// Path of the lock.
    pub lock: String,
    /// The session, in hexadecimal, or `unknown`.
    pub session: String,
    /// Age at the end.
    pub age_us: u64,
    /// Whether the node holds the lock.
    pub is_holder: bool,
}

/// A scenario with the load of a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioFile {
    /// Name of the file.
    pub file: String,
    /// Name of the family.
    pub family: String,
    /// Facts that the scenario takes from the logs.
    pub learned: Vec<String>,
    /// Facts that the scenario assumes.
    pub assumed: Vec<String>,
}
