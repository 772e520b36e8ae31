//! All that one trial yields.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Accounting, Arrived, Beside, Counting, Dispersion, EnsembleOrder, Evidence, Excused, Facts, FaultRecord,
    FencingCounts, Judged, Moments, ServerCounters, Steady, Stuck, Violation,
};
use zklockbench_core::evidence::excluded;
use zklockbench_core::measure::{
    Counts, Histogram, Latency, Measure, Outcome, Samples, Second, Survival, Woken,
};
use zklockbench_core::units::{as_utc, cell_name, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_scenario::TrialSpec;

/// One phase of a trial: `connect`, `ramp`, `warm-up`, `measure`, `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

/// What one contender did in the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Locks acquired.
    pub acquired: u64,
    /// Waits that ended without the lock, or had not ended when the phase did.
    pub unserved: u64,
    /// The longest single wait, in microseconds, also of those that were not served.
    pub longest_wait_us: u64,
}

/// The sessions of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Connections on which TCP_NODELAY could not be set before the clock started: a request may wait there for the
    /// acknowledgement of the one before (Nagle's algorithm). `None` in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed: Option<u64>,
}

impl Sessions {
    /// What has to be said of connections without TCP_NODELAY; `None` where all have it, or it is not known.
    pub fn told_delayed(&self) -> Option<String> {
        let delayed = self.delayed.filter(|delayed| *delayed > 0)?;
        let connections = counted(delayed, "connection", "connections");
        Some(format!(
            "TCP_NODELAY could not be set on {connections}: there, a request may wait up to 40 ms for the acknowledgement \
             of the one before"
        ))
    }
}

/// Why a trial did not run to its end as it was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The user interrupted it.
    Interrupted,
    /// No server answered any more.
    EnsembleLost,
    /// Nobody acquired a lock for too long, in a phase that acquisitions end.
    NoProgress,
    /// Some contenders had no session.
    TooFewSessions,
    /// Contenders did not end when they were told to.
    DidNotEnd,
    /// Another worker of the run was lost.
    WorkerLost,
    /// The ensemble, which others use, became too slow under the load.
    EnsembleOverloaded,
}

/// That a trial did not run to its end as it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutShort {
    /// What cut it short.
    pub cause: Cause,
    /// The same in words.
    pub why: String,
}

/// A time for which a lock was free, somebody waited for it, and nobody got it; longer than the lock itself explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standstill {
    /// How long the longest of them was, in microseconds.
    pub lasted_us: u64,
    /// When it began, in microseconds since the measured phase began.
    pub began_us: i64,
    /// What it may be due to, each with what was seen of it; empty where nothing points anywhere.
    pub signs: Vec<String>,
}

/// That the servers elected a leader during a trial. Whoever led when its load began was elected before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Election {
    /// When the new leader was first seen, with a majority in step, in microseconds since the measured phase began.
    pub seen_us: i64,
    /// Its address.
    pub leader: String,
    /// The epoch that it began. One that grows by more than one tells of elections in between that nobody saw.
    pub epoch: u64,
    /// The number of the last fault of the trial that hits servers and had been asked for by then; `None` where there was
    /// none, so that somebody or something else caused it.
    pub after_fault: Option<usize>,
}

/// The part of a phase that acquisitions end in which nobody had finished yet. After it fewer and fewer contenders are
/// left, and each acquires faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullCrew {
    /// How long it was, in microseconds.
    pub lasted_us: u64,
    /// Locks acquired in it.
    pub acquired: u64,
}

/// For which share of the measured phase a lock was held or being handed over. Close to 1, the lock itself is what limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilisation {
    /// On average over the locks.
    pub mean: f64,
    /// Of the busiest.
    pub busiest: f64,
    /// Which that was, counted from 0.
    pub busiest_lock: usize,
}

/// All that one trial (one strategy, one load, one repetition) yields: the content of its file, and the histograms beside
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// What it was asked to do.
    #[serde(flatten)]
    pub spec: TrialSpec,
    /// Wall time of the first request; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// When the measured phase began, in microseconds since the first request.
    pub measured_from_us: u64,
    /// Length of the measured phase in microseconds.
    pub measured_us: u64,
    /// Of a measured phase that acquisitions end: the part in which everybody took part. Throughput is measured over it.
    pub full_crew: Option<FullCrew>,
    /// What became of the arrivals of an open load; `None` for other loads.
    #[serde(default)]
    pub arrived: Option<Arrived>,
    /// How unevenly the arrivals of an open load came, as scheduled and as issued, in windows of each width of which the
    /// measured phase has enough; empty in trials of versions that did not look.
    #[serde(default)]
    pub dispersion: Vec<Dispersion>,
    /// How it came to its steady state, and whether it was one.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// How busy the locks were; `None` where several may hold one.
    #[serde(default)]
    pub utilisation: Option<Utilisation>,
    /// What was judged of it.
    pub judged: Judged,
    /// Why it did not run to its end as planned; `None` when it did.
    pub cut_short: Option<CutShort>,
    /// Whether the generator held up.
    pub health: Health,
    /// The longest standstill that the lock itself does not explain; `None` when there was none, or when faults explain it.
    pub standstill: Option<Standstill>,
    /// Counts of the measured phase.
    pub measured: Counts,
    /// Counts of the whole trial.
    pub whole: Counts,
    /// How long after a release the first, second, … waiter that it woke heard of it, in the measured phase: the classes of
    /// ranks that occurred, rising. `None` in trials of versions that did not look, and where the client library keeps
    /// notifications to itself.
    #[serde(default)]
    pub herd: Option<Vec<Woken>>,
    /// Errors by kind, e.g. `create: connection loss`.
    pub errors: BTreeMap<String, u64>,
    /// All violations found, over the whole trial.
    pub violation_count: u64,
    /// The first violations found (at most [`Trial::VIOLATIONS_KEPT`]).
    pub violations: Vec<Violation>,
    /// Whose lock it was, if another program's: what is known then of its requests and notifications was counted on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverRecord>,
    /// What was counted on the wire, in a trial of its own with the same load. One repetition has it; `None` in the others, and
    /// where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<Counting>,
    /// The most contenders found inside one lock together, over the whole trial.
    pub most_inside: u64,
    /// Two inside at once that no lock with sessions can prevent, or that nobody can judge.
    pub excused: Excused,
    /// What exclusion is judged by; `None` once it has been, as no file has it.
    #[serde(skip)]
    pub facts: Option<Facts>,
    /// What could have been seen of a lock that does not exclude.
    pub evidence: Evidence,
    /// Exclusion as the ensemble saw it; `None` where its logs could not be read or say nothing.
    pub ensemble_order: Option<EnsembleOrder>,
    /// What the resources behind the locks saw; nothing where several may hold.
    pub fencing: FencingCounts,
    /// Leaders that the servers elected, whatever made them; `None` where none of them told who leads.
    pub elections: Option<Vec<Election>>,
    /// What was broken on purpose, in the order of firing.
    pub faults: Vec<FaultRecord>,
    /// What sessions of others did to the trial's nodes, as the servers' logs tell it: a sentence each, the first
    /// [`Trial::INTERFERENCE_KEPT`]. Nothing can be concluded about the lock then. Older versions did not look.
    #[serde(default)]
    pub interference: Vec<String>,
    /// Why the holds were not those that were asked for, a sentence each: some were shorter, or there were more than the lock
    /// allows in that time. Nothing can be concluded about the lock then. Older versions did not check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_holds: Vec<String>,
    /// Contenders that did not get the lock although nothing was broken any more.
    pub stuck: Vec<Stuck>,
    /// Ephemeral nodes that were left when all had released. Asked in trials with faults or stuck contenders only.
    pub orphans: Option<u64>,
    /// The first [`Trial::ORPHANS_KEPT`] of them: path and session of each. Older versions did not name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphan_nodes: Vec<String>,
    /// Client, cost model and servers side by side.
    pub accounting: Vec<Accounting>,
    /// The servers' own counters.
    pub servers: Vec<ServerCounters>,
    /// The sessions.
    pub sessions: Sessions,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// The measured phase, second by second; the last second may be shorter.
    pub timeline: Vec<Second>,
    /// What each contender did, in the contenders' order.
    pub tallies: Vec<Tally>,
    /// One histogram for each measure that has samples. They lie in the `.hlog`.
    #[serde(skip)]
    pub histograms: BTreeMap<Measure, Histogram>,
    /// What the contenders did, moment by moment; `None` unless a history was asked for. It has a file of its own.
    #[serde(skip)]
    pub history: Option<Moments>,
    /// What was to be checked and could not be, each with the reason; empty where all was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Of a run by several workers, what these asked the servers for beside the locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Of a run by several workers, how far apart they began the load, on the leading server's clock, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_spread_us: Option<u64>,
}

impl Trial {
    /// The errors in words: `2 x create: connection loss`; `None` where there was none.
    pub fn told_errors(&self) -> Option<String> {
        let told: Vec<String> = self.errors.iter().map(|(kind, times)| format!("{times} x {kind}")).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// How many violations are kept in detail; all are counted.
    pub const VIOLATIONS_KEPT: usize = 20;
    pub const INTERFERENCE_KEPT: usize = 20;
    pub const ORPHANS_KEPT: usize = 20;

    pub fn latencies(&self) -> BTreeMap<Measure, Latency> {
        let numbers = |measure| Some((measure, self.latency(measure)?));
        Measure::all().into_iter().filter_map(numbers).collect()
    }

    /// The numbers of a measure's histogram; `None` without samples. Of waits, those that were not served are among them.
    pub fn latency(&self, measure: Measure) -> Option<Latency> {
        match measure.open_parts() {
            Some(_) => Some(Latency::of_waits(&self.survival(measure)?)),
            None => Latency::of(self.histograms.get(&measure)?),
        }
    }

    pub fn name(&self) -> String {
        let Self { spec, .. } = self;
        format!("trial {} ({})", spec.index, cell_name(&spec.strategy.label, spec.contenders))
    }

    /// Why its figures do not count: it is invalid, or was cut short. `None` where they do.
    pub fn unsound(&self) -> Option<String> {
        let invalid = self.health.invalid.as_ref().map(|why| format!("invalid: {why}"));
        invalid.or_else(|| self.cut_short.as_ref().map(|cut| format!("partial: {}", cut.why)))
    }

    pub fn is_sound(&self) -> bool {
        self.cut_short.is_none() && self.health.invalid.is_none()
    }

    /// Whether the generator spoiled its figures, so that another trial can make up for it. A broken promise stays one.
    pub fn is_spoiled(&self) -> bool {
        self.health.invalid.is_some() && self.cut_short.is_none() && !self.is_violated()
    }

    /// The numbers of those in whose place others of these trials were made.
    pub fn replaced(trials: &[Self]) -> BTreeSet<usize> {
        trials.iter().filter_map(|trial| trial.spec.makes_up_for).collect()
    }

    /// Of the trials that were held the one whose verdict rests on the least; `None` where none was held.
    pub fn with_least_evidence(trials: &[Self]) -> Option<&Self> {
        let held = trials.iter().filter(|trial| trial.judged.verdict == Verdict::Held);
        held.min_by_key(|trial| trial.checked())
    }

    /// How many acquisitions were checked: at most as many as the measured phase had, whatever the warm-up shows.
    pub fn checked(&self) -> u64 {
        self.evidence.catchable().min(self.measured.acquired())
    }

    /// The evidence in one line: how many acquisitions were checked, and which error rate that excludes.
    pub fn describe_evidence(&self) -> String {
        let all = counted(self.measured.acquired(), "acquisition", "acquisitions");
        format!("{} of {all} checked; {}", self.checked(), excluded(self.checked()))
    }

    /// The samples of a measure; of waits, with those that were not served among the others.
    pub fn survival(&self, measure: Measure) -> Option<Survival> {
        Survival::of(&Samples::of(measure, |part| self.histograms.get(&part)))
    }

    pub fn timed_out(&self) -> u64 {
        self.measured.outcomes.get(Outcome::TimedOut)
    }

    pub fn unserved(&self) -> u64 {
        self.histograms.get(&Measure::Unserved).map_or(0, |samples| samples.len())
    }

    /// How long everything took where each contender acquires so often and is done, in microseconds; `None` for loads that
    /// last as long as they are told to.
    pub fn total_us(&self) -> Option<u64> {
        self.is_one_shot().then_some(self.measured_us)
    }

    pub fn is_violated(&self) -> bool {
        matches!(self.judged.verdict, Verdict::Violated(_))
    }

    pub fn unexplained_elections(&self) -> impl Iterator<Item = &Election> {
        self.elections.iter().flatten().filter(|election| election.after_fault.is_none())
    }

    /// Waits that ended with the session or its connection, over the whole trial.
    pub fn waits_lost(&self) -> u64 {
        [Outcome::SessionExpired, Outcome::ConnectionLost]
            .map(|one| self.whole.outcomes.get(one))
            .iter()
            .sum()
    }

    /// Whether the queue of its open load grew, so that its waits only say how long it was.
    pub fn is_unstable(&self) -> bool {
        self.steady.as_ref().is_some_and(|steady| steady.grows_per_s().is_some())
    }

    /// For which share of the load the busiest server waited for its log to be on disk; `None` where no server says.
    pub fn busiest_disk(&self) -> Option<f64> {
        const KEY: &str = "zk_sum_fsynctime";
        let loaded: u64 =
            self.phases.iter().filter(|phase| phase.name != "connect").map(|phase| phase.took_us).sum();
        let waited_ms = self.servers.iter().filter(|server| !server.has_restarted());
        let waited_ms = waited_ms.filter_map(|server| Some(server.after.get(KEY)? - server.before.get(KEY)?));
        let busiest_us = u64::try_from(waited_ms.max()?).ok()? * 1_000;
        (loaded > 0).then(|| busiest_us as f64 / loaded as f64)
    }

    /// How many contenders had a session when the clock started.
    pub fn took_part(&self) -> u64 {
        self.sessions.opened.min(self.spec.contenders as u64)
    }

    pub fn longest_gap_us(&self) -> Option<u64> {
        self.faults.iter().filter_map(|fault| fault.longest_gap_us).max()
    }

    /// The longest time from a fault's effect to the next acquisition; `None` when one was never followed by any.
    pub fn longest_recovery_us(&self) -> Option<u64> {
        let recovered: Option<Vec<u64>> = self.faults.iter().map(|fault| fault.recovered_us).collect();
        recovered?.into_iter().max()
    }

    pub fn faults_proved(&self) -> usize {
        self.faults.iter().filter(|fault| fault.proved).count()
    }

    /// Whether the servers counted what the client counted; `None` when they could not be asked.
    pub fn servers_agree(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| Some(line.client? == line.servers?)))
    }

    /// Whether the client counted what the cost model predicts; `None` where no model applies.
    pub fn cost_model_agrees(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| Some(line.client? == line.expected?)))
    }
}

fn all(mut lines: impl Iterator<Item = bool>) -> Option<bool> {
    let first = lines.next()?;
    Some(lines.fold(first, |all, line| all && line))
}

/// What the tool watched of itself and of its host during the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Of an open load: how late the generator called acquire, 99th percentile, in microseconds.
    #[serde(default)]
    pub lateness_p99_us: Option<u64>,
    /// By how much holds were longer than intended, as a share of what was intended, on average; `None` where nothing was
    /// to be held.
    pub hold_overshoot_share: Option<f64>,
    /// Processor time used by this process, in microseconds.
    pub cpu_us: u64,
    /// That time as a share of one core.
    pub cpu_share: f64,
    /// For how long the process's threads were ready to run and had no processor, all together and as a share of one core,
    /// if the host tells.
    #[serde(default)]
    pub run_queue_share: Option<f64>,
    /// Share of the host's processor time that was idle, if the host tells.
    pub host_idle_share: Option<f64>,
    /// Share that the hypervisor took, if the host tells.
    pub host_steal_share: Option<f64>,
    /// The process's resident memory at the end of the measured phase, in bytes.
    pub resident_bytes: Option<u64>,
    /// The longest time that the lock was free, somebody waited for it, and nobody got it; seen every 25 ms.
    pub standstill_us: u64,
    /// Why the trial is invalid; `None` when the generator held up.
    pub invalid: Option<String>,
}

/// What is known of a trial's driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverRecord {
    /// What it said that it is.
    pub program: String,
    /// How many processes took the lock for the contenders.
    pub processes: usize,
    /// For how many contenders one of them did at most: who shares a process shares its fate.
    pub contenders_each: usize,
    /// Whether its clock was shown to be the suite's, so that its stamps count; `None` where it told no times.
    pub clock_fits: Option<bool>,
    /// Whether it held and released by itself, so that no handoff has the way to it in it.
    pub held_by_itself: bool,
    /// How many acquires of a contender were sent ahead, to be done one after the other; missing where each was sent when the one
    /// before was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// Of these holds, how many became known after others that had begun later: the handoffs around them are too long.
    pub out_of_order: u64,
    /// An echo of the thread that reads, before the load.
    pub echo: Option<EchoTimes>,
    /// An echo of a contender's own thread, before the load.
    pub contender_echo: Option<EchoTimes>,
    /// An echo of the thread that reads, during the warm-up.
    pub echo_under_load: Option<EchoTimes>,
}

impl DriverRecord {
    /// Of two workers, which have processes of their own. What their pipes took can't be added up: that of the first stays.
    pub fn and(self, other: Self) -> Self {
        Self {
            processes: self.processes + other.processes,
            contenders_each: self.contenders_each.max(other.contenders_each),
            clock_fits: self.clock_fits.zip(other.clock_fits).map(|(one, other)| one && other),
            out_of_order: self.out_of_order + other.out_of_order,
            ..self
        }
    }
}

/// How long requests took that ask for nothing, there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EchoTimes {
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
}

impl EchoTimes {
    pub fn of(mut took_us: Vec<u64>) -> Option<Self> {
        took_us.sort_unstable();
        let at = |share: f64| {
            let place = (share * took_us.len() as f64).ceil() as usize;
            took_us.get(place.max(1) - 1).copied()
        };
        Some(Self { count: took_us.len() as u64, p50_us: at(0.5)?, p99_us: at(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_echoes_took_no_longer_than_the_median() {
        assert_eq!(EchoTimes::of(Vec::new()), None);
        let times = EchoTimes::of((1..=200).rev().collect()).unwrap();
        assert_eq!((times.count, times.p50_us, times.p99_us), (200, 100, 198));
        assert_eq!(EchoTimes::of(vec![7]).unwrap().p99_us, 7);
    }
}
