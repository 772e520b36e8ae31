//! All that one trial yields.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{EnsembleOrder, Evidence, Excused, Facts, FaultRecord, FencingCounts, Moment, Stuck, Violation};
use crate::measure::{Counts, Histogram, Measure, Second};
use crate::verdict::Verdict;

/// Whether the trial ran to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    /// It did.
    Complete,
    /// It was cut short; why.
    Partial(String),
}

/// One phase of a trial: `connect`, `ramp`, `warm-up`, `measure`, `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

/// What one contender did in the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Locks acquired.
    pub acquired: u64,
    /// The longest single wait, in microseconds.
    pub longest_wait_us: u64,
}

/// The sessions of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Sessions opened before the clock started.
    pub opened: u64,
    /// How long it took until all of them were connected, in microseconds.
    pub connect_us: u64,
    /// The session timeout that the server granted, in microseconds.
    pub negotiated_timeout_us: u64,
    /// Sessions that expired during the trial.
    pub expired: u64,
    /// Sessions opened anew by contenders that had lost theirs.
    pub rejoined: u64,
}

/// One line of the three-way check: client, cost model, servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accounting {
    /// What is counted, e.g. `reads`, `notifications: node deleted`.
    pub what: &'static str,
    /// As the client counted it.
    pub client: Option<u64>,
    /// As the cost model predicts it, where one applies.
    pub expected: Option<u64>,
    /// As the servers counted it, where they could be asked.
    pub servers: Option<u64>,
}

impl Accounting {
    /// Whether all the numbers that are there agree; `None` when there is only one.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        let known: Vec<u64> = [self.client, self.expected, self.servers].into_iter().flatten().collect();
        (known.len() > 1).then(|| known.windows(2).all(|pair| pair[0] == pair[1]))
    }
}

/// One server's counters (`mntr`) around a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters {
    /// `host:port`.
    pub address: String,
    /// `leader`, `follower`, `standalone`.
    pub role: String,
    /// The selected keys before the first request.
    pub before: BTreeMap<String, i64>,
    /// The same after the last.
    pub after: BTreeMap<String, i64>,
}

/// All that one trial (one strategy, one load, one repetition) yields.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Position in the order in which the trials ran, from 0.
    pub index: usize,
    /// The strategy's name.
    pub strategy: String,
    /// The strategy as outputs call it: its name, plus the parameters that differ from the default.
    pub label: String,
    /// The parameters in force.
    pub params: BTreeMap<String, String>,
    /// Contenders, one session each.
    pub contenders: usize,
    /// Independent lock paths.
    pub locks: usize,
    /// Repetition, from 1.
    pub repetition: u32,
    /// `closed` or `batch`.
    pub load: &'static str,
    /// Wall time of the first request; a label.
    pub started_at: SystemTime,
    /// Length of the measured phase in microseconds.
    pub measured_us: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// One histogram for each measure that has samples.
    pub histograms: BTreeMap<Measure, Histogram>,
    /// Counts of the measured phase.
    pub measured: Counts,
    /// Counts of the whole trial.
    pub whole: Counts,
    /// The measured phase, second by second.
    pub timeline: Vec<Second>,
    /// What each contender did.
    pub tallies: Vec<Tally>,
    /// The most contenders found inside one lock together, over the whole trial.
    pub most_inside: u64,
    /// The sessions.
    pub sessions: Sessions,
    /// Errors by kind, e.g. `create: connection loss`.
    pub errors: BTreeMap<String, u64>,
    /// The first violations found (at most [`Trial::VIOLATIONS_KEPT`]).
    pub violations: Vec<Violation>,
    /// All violations found, over the whole trial.
    pub violation_count: u64,
    /// Two inside at once that no lock with sessions can prevent, or that nobody can judge.
    pub excused: Excused,
    /// What the ensemble's view is judged by; `None` once it has been, as no file has it.
    pub facts: Option<Facts>,
    /// Exclusion as the ensemble saw it; `None` where its logs could not be read or say nothing.
    pub ensemble_order: Option<EnsembleOrder>,
    /// What could have been seen of a lock that does not exclude; `None` in trials of versions that did not count it.
    pub evidence: Option<Evidence>,
    /// What the resources behind the locks saw; nothing where several may hold.
    pub fencing: FencingCounts,
    /// What was broken on purpose, in the order of firing.
    pub faults: Vec<FaultRecord>,
    /// What the contenders did, moment by moment; empty unless a history was asked for.
    pub history: Vec<Moment>,
    /// For nodes of the trial, by the transaction that created each: the one that deleted it, as far as the servers'
    /// logs tell; empty unless a history was asked for.
    pub deletions: BTreeMap<i64, i64>,
    /// Contenders that did not get the lock although nothing was broken any more.
    pub stuck: Vec<Stuck>,
    /// Ephemeral nodes that were left when all had released. Asked in trials with faults only.
    pub orphans: Option<u64>,
    /// Client, cost model and servers side by side.
    pub accounting: Vec<Accounting>,
    /// The servers' own counters.
    pub servers: Vec<ServerCounters>,
    /// Whether the generator held up.
    pub health: Health,
    /// Whether the trial ran to its end.
    pub completeness: Completeness,
    /// Whether the lock excluded.
    pub exclusion: Verdict,
}

impl Trial {
    /// How many violations are kept in detail; all are counted.
    pub const VIOLATIONS_KEPT: usize = 20;

    /// Acquisitions per second of the measured phase; `None` for an empty phase.
    #[must_use]
    pub fn throughput(&self) -> Option<f64> {
        (self.measured_us > 0).then(|| self.measured.acquired() as f64 / (self.measured_us as f64 / 1e6))
    }

    /// Notifications caused by a release, per release; `None` when nothing was released.
    #[must_use]
    pub fn fan_out(&self) -> Option<f64> {
        self.per_release(self.measured.notifications.by_release())
    }

    /// Something of the measured phase per release; `None` when nothing was released, or not all was seen.
    #[must_use]
    pub fn per_release(&self, amount: u64) -> Option<f64> {
        ratio(amount, self.measured.releases).filter(|_| self.measured.unseen == 0)
    }

    /// Something of the measured phase per acquisition; `None` when nothing was acquired, or not all was seen.
    #[must_use]
    pub fn per_acquisition(&self, amount: u64) -> Option<f64> {
        ratio(amount, self.measured.acquired()).filter(|_| self.measured.unseen == 0)
    }

    /// How many readers were inside at a time, on average over the measured phase and over all locks
    /// together; `None` when nobody read.
    #[must_use]
    pub fn mean_readers(&self) -> Option<f64> {
        let measured = self.measured_us > 0 && self.measured.reads_acquired > 0;
        measured.then(|| self.measured.read_held_us as f64 / self.measured_us as f64)
    }

    /// How many more watches the servers had when the load had ended and all had released than before it. The
    /// sessions are still open then, so what is left will stay for as long as they are. `None` when a server could
    /// not be asked.
    #[must_use]
    pub fn watches_left(&self) -> Option<u64> {
        const KEY: &str = "zk_watch_count";
        let left = |server: &ServerCounters| Some(server.after.get(KEY)? - server.before.get(KEY)?);
        let left: Vec<i64> = self.servers.iter().map(left).collect::<Option<_>>()?;
        u64::try_from(left.iter().sum::<i64>()).ok().filter(|_| !left.is_empty())
    }

    /// Jain's fairness index over the contenders' acquisitions: 1 when all got the same, 1/N when one got
    /// all. `None` when nothing was acquired.
    #[must_use]
    pub fn fairness(&self) -> Option<f64> {
        let shares: Vec<f64> = self.tallies.iter().map(|tally| tally.acquired as f64).collect();
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
    }
}

fn ratio(amount: u64, per: u64) -> Option<f64> {
    (per > 0).then(|| amount as f64 / per as f64)
}

/// What the tool watched of itself and of its host during the measured phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Health {
    /// Lateness of a periodic timer on the generator's own runtime, 99th percentile.
    pub timer_lag_p99_us: u64,
    /// The largest such lateness.
    pub timer_lag_max_us: u64,
    /// Time from a reply's or notification's arrival to its contender running, 99th percentile.
    pub dispatch_lag_p99_us: u64,
    /// Share of the mean handoff (or wait, where there was no handoff) that was the generator's own
    /// dispatch lag, between 0 and 1; `None` when nothing was measured.
    pub lag_share: Option<f64>,
    /// Processor time used by this process, in microseconds.
    pub cpu_us: u64,
    /// That time as a share of one core.
    pub cpu_share: f64,
    /// Share of the host's processor time that was idle, if the host tells.
    pub host_idle_share: Option<f64>,
    /// Share that the hypervisor took, if the host tells.
    pub host_steal_share: Option<f64>,
    /// The process's resident memory at the end of the measured phase, in bytes.
    pub resident_bytes: Option<u64>,
    /// The longest time that the lock was free, somebody waited for it, and nobody got it; seen every 25 ms.
    pub standstill_us: u64,
    /// Why the trial is invalid; `None` when generator and ensemble held up.
    pub invalid: Option<String>,
}
