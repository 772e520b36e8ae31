//! Results of one trial.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Accounting, Arrived, Beside, Counting, Dispersion, EnsembleOrder, Evidence, Excused, Facts, FaultRecord,
    FencingCounts, Judged, LimitedHolds, LostHolds, ServerCounters, Steady, Stuck, Timeline, Violation,
};
use zklockbench_core::clock::micros;
use zklockbench_core::evidence::excluded;
use zklockbench_core::measure::combine::{keep, most};
use zklockbench_core::measure::{
    Counts, Histogram, Latency, Measure, Outcome, Samples, Second, Survival, Woken, added_up,
};
use zklockbench_core::units::{as_utc, cell_name, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_scenario::TrialSpec;

/// One phase of a trial: `connect`, `ramp`, `warm-up`, `measure`, `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Duration in microseconds.
    pub took_us: u64,
}

/// One contender's results in the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Locks acquired.
    pub acquired: u64,
    /// Waits that ended without the lock, or had not ended by the end of the phase.
    pub unserved: u64,
    /// Longest single wait in microseconds, including unserved waits.
    pub longest_wait_us: u64,
}

/// Sessions of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// Sessions opened before the clock started.
    pub opened: u64,
    /// Time until all sessions were connected, in microseconds.
    pub connect_us: u64,
    /// Session timeout granted by the server, in microseconds.
    pub negotiated_timeout_us: u64,
    /// Sessions that expired during the trial.
    pub expired: u64,
    /// Sessions reopened by contenders that had lost their session.
    pub rejoined: u64,
    /// Sessions that ended because a server opened a new session instead of resuming them after a lost
    /// connection. `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_resumed: Option<u64>,
}

impl Sessions {
    /// Note on sessions that were not resumed; `None` if there were none.
    pub fn told_not_resumed(&self) -> Option<String> {
        let count = self.not_resumed?;
        let sessions = counted(count, "session was", "sessions were");
        Some(format!(
            "{sessions} not resumed after a lost connection: the servers opened new sessions, which own no locks"
        ))
    }
}

/// Reason why a trial was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The user interrupted the trial.
    Interrupted,
    /// No server answered.
    EnsembleLost,
    /// For too long, a lock was not acquired in a phase that ends after a fixed number of acquisitions.
    NoProgress,
    /// Some contenders had no session.
    TooFewSessions,
    /// Contenders did not stop when asked to.
    DidNotEnd,
    /// Another worker of the run was lost.
    WorkerLost,
    /// The ensemble, which other clients also use, became too slow under the load.
    EnsembleOverloaded,
}

/// Why a trial was cut short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutShort {
    /// Category of the cause.
    pub cause: Cause,
    /// Cause as text.
    pub why: String,
}

/// An outage: a time during which a lock was free and wanted but not acquired, for longer than the lock
/// itself explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standstill {
    /// Length of the longest outage, in microseconds.
    pub lasted_us: u64,
    /// Start of the outage, in microseconds since the start of the measured phase.
    pub began_us: i64,
    /// Possible causes, each with its evidence; empty if there are none.
    pub signs: Vec<String>,
}

/// An election during a trial. The leader at the start of the load was elected earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Election {
    /// Time at which the new leader was first observed with a synchronised majority, in microseconds since
    /// the start of the measured phase.
    pub seen_us: i64,
    /// Address of the new leader.
    pub leader: String,
    /// Epoch of the new leader. An increase by more than one indicates unseen elections in between.
    pub epoch: u64,
    /// Number of the last fault on servers that was requested before the election; `None` if the cause lies
    /// outside the scenario.
    pub after_fault: Option<usize>,
}

/// Part of an acquisition-limited phase before the first contender finishes. After that, the remaining
/// contenders acquire faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullCrew {
    /// Length in microseconds.
    pub lasted_us: u64,
    /// Locks acquired in this part.
    pub acquired: u64,
}

/// Share of the measured phase during which a lock was held or being handed over. If it is close to 1, the
/// lock is the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilisation {
    /// Average over the locks.
    pub mean: f64,
    /// Share of the busiest lock.
    pub busiest: f64,
    /// Index of the busiest lock, counted from 0.
    pub busiest_lock: usize,
}

/// Results of one trial (one strategy, one load, one repetition): the content of its file, and its
/// histograms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Specification of the trial.
    #[serde(flatten)]
    pub spec: TrialSpec,
    /// Wall time of the first request, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Start of the measured phase, in microseconds since the first request.
    pub measured_from_us: u64,
    /// Length of the measured phase in microseconds.
    pub measured_us: u64,
    /// Beginning of the measured phase, while all contenders took part; `None` unless a number of
    /// acquisitions ends the phase. Throughput is measured over this part.
    pub full_crew: Option<FullCrew>,
    /// Outcomes of an open load's arrivals; `None` for other loads.
    #[serde(default)]
    pub arrived: Option<Arrived>,
    /// Unevenness of an open load's arrivals, as scheduled and as issued, for each window width with enough
    /// windows. Empty in trials of older versions.
    #[serde(default)]
    pub dispersion: Vec<Dispersion>,
    /// How the load approached the steady state, and whether it got there.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Utilisation of the locks; `None` if several holders may share one.
    #[serde(default)]
    pub utilisation: Option<Utilisation>,
    /// Verdicts on the trial.
    pub judged: Judged,
    /// Cause, if the trial was cut short; otherwise `None`.
    pub cut_short: Option<CutShort>,
    /// Health of the generator.
    pub health: Health,
    /// Longest outage that neither the lock itself nor faults explain; `None` if there was none.
    pub standstill: Option<Standstill>,
    /// Counts of the measured phase.
    pub measured: Counts,
    /// Counts of the whole trial.
    pub whole: Counts,
    /// Notification delays after a release in the measured phase, by rank class in ascending order. `None` in
    /// trials of older versions, and if the client library hides notifications.
    #[serde(default)]
    pub herd: Option<Vec<Woken>>,
    /// Number of errors by kind, e.g. `create: connection loss`.
    pub errors: BTreeMap<String, u64>,
    /// Number of violations over the whole trial.
    pub violation_count: u64,
    /// First violations (at most [`Trial::VIOLATIONS_KEPT`]).
    pub violations: Vec<Violation>,
    /// Driver of another program's lock; `None` for locks of the suite. Requests and notifications of a
    /// driver's lock are known only from the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverRecord>,
    /// Counts on the wire from a separate trial with the same load, if requested. Built-in locks are
    /// counted in only one repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<Counting>,
    /// Largest number of simultaneous holders of one lock, over the whole trial.
    pub most_inside: u64,
    /// Overlaps that a session-based lock cannot prevent, or that cannot be classified.
    pub excused: Excused,
    /// Facts for the verdict on exclusion; dropped after judging, and never stored.
    #[serde(skip)]
    pub facts: Option<Facts>,
    /// Acquisitions that could have revealed a faulty lock.
    pub evidence: Evidence,
    /// Exclusion according to the ensemble; `None` if its logs are not available or have no relevant records.
    pub ensemble_order: Option<EnsembleOrder>,
    /// Counts of writes to the fenced resources behind the locks; zero if several holders may share a lock.
    pub fencing: FencingCounts,
    /// Elections during the trial, whatever their cause; `None` if no server reported the leader.
    pub elections: Option<Vec<Election>>,
    /// Injected faults, in the order in which they fired.
    pub faults: Vec<FaultRecord>,
    /// Changes to the trial's nodes by foreign sessions, from the servers' logs: at most
    /// [`Trial::INTERFERENCE_KEPT`], one sentence each. If there are any, the trial proves nothing about the
    /// lock. Older versions did not check this.
    #[serde(default)]
    pub interference: Vec<String>,
    /// Holds that were too short, or whose total exceeds the time available to their lock, one sentence each.
    /// If there are any, the trial proves nothing about the lock. Older versions did not check this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_holds: Vec<String>,
    /// Contenders that did not get the lock even after everything had healed.
    pub stuck: Vec<Stuck>,
    /// Nodes left after all contenders released: ephemeral and numbered nodes in the locks' directories, and
    /// unexpected nodes elsewhere in the run's directory. Older versions checked only ephemeral nodes in the
    /// locks' directories, in trials with faults or stuck contenders.
    pub orphans: Option<u64>,
    /// Paths and sessions of the first [`Trial::ORPHANS_KEPT`] orphans; not recorded by older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphan_nodes: Vec<String>,
    /// Holds during which the ensemble ended the holder's session, according to the servers' logs. `None`
    /// if there are no logs, and in trials of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_holds: Option<LostHolds>,
    /// Holds compared with the scenario's limit; `None` if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_holds: Option<LimitedHolds>,
    /// Nodes that fresh locks left behind after all contenders released; `None` for other locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_left: Option<u64>,
    /// Counts by the client, the cost model and the servers, side by side.
    pub accounting: Vec<Accounting>,
    /// The servers' own counters.
    pub servers: Vec<ServerCounters>,
    /// Counts and times of the sessions.
    pub sessions: Sessions,
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Counts for each second of the measured phase; the last second may be shorter.
    pub timeline: Vec<Second>,
    /// Results of each contender, in the contenders' order.
    pub tallies: Vec<Tally>,
    /// One histogram for each measure with samples; stored in the `.hlog`.
    #[serde(skip)]
    pub histograms: BTreeMap<Measure, Histogram>,
    /// Actions of the contenders; `None` unless a history was requested. Stored in a separate file.
    #[serde(skip)]
    pub history: Option<Facts>,
    /// Checks that could not run, each with the reason; empty if all ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Requests that the workers of a distributed run sent outside the locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Time from the first to the last worker's start of the load, on the leader's clock, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_spread_us: Option<u64>,
}

impl Trial {
    /// Requested and granted session timeout in microseconds; `None` if they are equal or none was granted.
    pub fn granted_otherwise(&self) -> Option<(u64, u64)> {
        let (asked, granted) = (micros(self.spec.session_timeout), self.sessions.negotiated_timeout_us);
        (granted > 0 && granted != asked).then_some((asked, granted))
    }

    /// Errors as text: `2 x create: connection loss`; `None` if there are none.
    pub fn told_errors(&self) -> Option<String> {
        let by_kind: Vec<String> =
            self.errors.iter().map(|(kind, times)| format!("{times} x {kind}")).collect();
        (!by_kind.is_empty()).then(|| by_kind.join(", "))
    }

    /// Maximum number of violations kept in detail; all are counted.
    pub const VIOLATIONS_KEPT: usize = 20;
    pub const INTERFERENCE_KEPT: usize = 20;
    pub const ORPHANS_KEPT: usize = 20;

    /// Timelines of the first violations, if recorded.
    pub fn timelines(&self) -> impl Iterator<Item = &Timeline> {
        self.violations.iter().filter_map(|violation| violation.timeline.as_ref())
    }

    pub fn latencies(&self) -> BTreeMap<Measure, Latency> {
        let numbers = |measure| Some((measure, self.latency(measure)?));
        Measure::all().into_iter().filter_map(numbers).collect()
    }

    /// Statistics of a measure, including unserved waits; `None` if there are no samples.
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

    /// Strategy, contenders and repetition, as text.
    pub fn repetition(&self) -> String {
        let cell = cell_name(&self.spec.strategy.label, self.spec.contenders);
        format!("{cell}, repetition {}", self.spec.repetition)
    }

    /// Reason why the measurements do not count: invalid or partial. `None` if they count.
    pub fn unsound(&self) -> Option<String> {
        let invalid = self.health.invalid.as_ref().map(|why| format!("invalid: {why}"));
        invalid.or_else(|| self.cut_short.as_ref().map(|cut| format!("partial: {}", cut.why)))
    }

    pub fn is_sound(&self) -> bool {
        self.cut_short.is_none() && self.health.invalid.is_none()
    }

    /// Whether the generator spoiled the measurements; if so, the trial should be repeated. Violations still
    /// count.
    pub fn is_spoiled(&self) -> bool {
        self.health.invalid.is_some() && self.cut_short.is_none() && !self.is_violated()
    }

    /// Numbers of the trials that other trials in the list replace.
    pub fn replaced(trials: &[Self]) -> BTreeSet<usize> {
        trials.iter().filter_map(|trial| trial.spec.makes_up_for).collect()
    }

    /// The trial with the least evidence for a verdict of *held*; `None` if there is no such verdict.
    pub fn with_least_evidence(trials: &[Self]) -> Option<&Self> {
        let held = trials.iter().filter(|trial| trial.judged.verdict == Verdict::Held);
        held.min_by_key(|trial| trial.checked())
    }

    /// Number of checked acquisitions or tries, capped at the number in the measured phase.
    pub fn checked(&self) -> u64 {
        self.evidence.catchable().min(self.measured.acquired() + self.failed_tries())
    }

    /// Failed tries in the measured phase.
    pub fn failed_tries(&self) -> u64 {
        if self.spec.only_tries() { self.timed_out() } else { 0 }
    }

    /// Number of acquisitions or tries that could have been checked, as text.
    pub fn checkable(&self) -> String {
        let acquired = self.measured.acquired();
        match self.spec.only_tries() {
            true => counted(acquired + self.failed_tries(), "try", "tries"),
            false => counted(acquired, "acquisition", "acquisitions"),
        }
    }

    /// Evidence in one line: number of checked acquisitions, and the error rate that they exclude.
    pub fn describe_evidence(&self) -> String {
        format!("{} of {} checked; {}", self.checked(), self.checkable(), excluded(self.checked()))
    }

    /// Distribution of a measure's samples, including unserved waits.
    pub fn survival(&self, measure: Measure) -> Option<Survival> {
        Survival::of(&Samples::of(measure, |part| self.histograms.get(&part)))
    }

    pub fn timed_out(&self) -> u64 {
        self.measured.outcomes.get(Outcome::TimedOut)
    }

    pub fn unserved(&self) -> u64 {
        self.histograms.get(&Measure::Unserved).map_or(0, |samples| samples.len())
    }

    /// Total time of a load with a fixed number of acquisitions, in microseconds; `None` for other loads.
    pub fn total_us(&self) -> Option<u64> {
        self.is_one_shot().then_some(self.measured_us)
    }

    /// Whether the trial was cut short because another worker was lost.
    pub fn lost_a_worker(&self) -> bool {
        self.cut_short.as_ref().is_some_and(|cut| cut.cause == Cause::WorkerLost)
    }

    pub fn is_violated(&self) -> bool {
        matches!(self.judged.verdict, Verdict::Violated(_))
    }

    pub fn unexplained_elections(&self) -> impl Iterator<Item = &Election> {
        self.elections.iter().flatten().filter(|election| election.after_fault.is_none())
    }

    /// Waits that ended because the session expired or the connection was lost, over the whole trial.
    pub fn waits_lost(&self) -> u64 {
        [Outcome::SessionExpired, Outcome::ConnectionLost]
            .map(|one| self.whole.outcomes.get(one))
            .iter()
            .sum()
    }

    /// Whether the queue of an open load grew; if so, the waits reflect only the length of the trial.
    pub fn is_unstable(&self) -> bool {
        self.steady.as_ref().is_some_and(|steady| steady.grows_per_s().is_some())
    }

    /// Share of the load's time during which the busiest server waited for its log's fsync; `None` if no
    /// server reports this time.
    pub fn busiest_disk(&self) -> Option<f64> {
        const KEY: &str = "zk_sum_fsynctime";
        let loaded: u64 =
            self.phases.iter().filter(|phase| phase.name != "connect").map(|phase| phase.took_us).sum();
        let waited_ms = self.servers.iter().filter(|server| !server.has_restarted());
        let waited_ms = waited_ms.filter_map(|server| server.growth(KEY));
        let busiest_us = u64::try_from(waited_ms.max()?).ok()?.checked_mul(1_000)?;
        (loaded > 0).then(|| busiest_us as f64 / loaded as f64)
    }

    /// Number of contenders with a session when the clock started.
    pub fn took_part(&self) -> u64 {
        self.sessions.opened.min(self.spec.contenders as u64)
    }

    pub fn longest_gap_us(&self) -> Option<u64> {
        self.faults.iter().filter_map(|fault| fault.longest_gap_us).max()
    }

    /// Longest time from a fault's effect to the next acquisition; `None` if some fault was not followed by an
    /// acquisition.
    pub fn longest_recovery_us(&self) -> Option<u64> {
        let recovered: Option<Vec<u64>> = self.faults.iter().map(|fault| fault.recovered_us).collect();
        recovered?.into_iter().max()
    }

    pub fn faults_proved(&self) -> usize {
        self.faults.iter().filter(|fault| fault.proved).count()
    }

    /// Whether the servers' counts equal the client's; `None` if the servers' counts are not available.
    pub fn servers_agree(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| Some(line.client? == line.servers?)))
    }

    /// Whether the client's counts equal the cost model's; `None` if no model applies.
    pub fn cost_model_agrees(&self) -> Option<bool> {
        all(self.accounting.iter().filter_map(|line| Some(line.client? == line.expected?)))
    }
}

fn all(lines: impl Iterator<Item = bool>) -> Option<bool> {
    lines.reduce(|all, line| all && line)
}

/// Self-monitoring of the generator and its host during the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Lateness of a periodic timer on the generator's own runtime, 99th percentile.
    pub timer_lag_p99_us: u64,
    /// Largest lateness of that timer.
    pub timer_lag_max_us: u64,
    /// Time from the arrival of a reply or notification until its contender runs, 99th percentile.
    pub dispatch_lag_p99_us: u64,
    /// Share of the mean handoff (or of the mean wait, if there were no handoffs) that is the generator's own
    /// dispatch lag, between 0 and 1; `None` if nothing was measured.
    pub lag_share: Option<f64>,
    /// Delay of the generator's acquire calls in an open load, 99th percentile, in microseconds.
    #[serde(default)]
    pub lateness_p99_us: Option<u64>,
    /// Average overshoot of holds as a share of the intended time; `None` if no hold time was intended.
    pub hold_overshoot_share: Option<f64>,
    /// Processor time of this process, in microseconds.
    pub cpu_us: u64,
    /// Processor time as a share of one core.
    pub cpu_share: f64,
    /// Total time during which the process's threads were runnable but not running, as a share of one core.
    /// `None` if the host does not report it.
    #[serde(default)]
    pub run_queue_share: Option<f64>,
    /// Idle share of the host's processor time; `None` if the host does not report it.
    pub host_idle_share: Option<f64>,
    /// Share of the processor time taken by the hypervisor; `None` if the host does not report it.
    pub host_steal_share: Option<f64>,
    /// Resident memory of the process at the end of the measured phase, in bytes.
    pub resident_bytes: Option<u64>,
    /// Longest time during which the lock was free and wanted but not acquired, sampled every 25 ms.
    pub standstill_us: u64,
    /// Reason why the trial is invalid; `None` if the generator kept up.
    pub invalid: Option<String>,
}

/// Facts about a trial's driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverRecord {
    /// Name that the driver reported.
    pub program: String,
    /// Number of processes that acquired locks for the contenders.
    pub processes: usize,
    /// Maximum number of contenders per process. Contenders that share a process fail together.
    pub contenders_each: usize,
    /// Whether the driver uses the suite's clock; if so, its timestamps are usable. `None` if it reported no times.
    pub clock_fits: Option<bool>,
    /// Echo times of the reading thread, before the load.
    pub echo: Option<EchoTimes>,
    /// Echo times of a contender's own thread, before the load.
    pub contender_echo: Option<EchoTimes>,
    /// Echo times of the reading thread, during the warm-up.
    pub echo_under_load: Option<EchoTimes>,
}

// Each worker starts its own processes. Echo times cannot be added up, so the first worker's times are kept.
added_up!(DriverRecord {
    program: keep,
    processes,
    contenders_each: most,
    clock_fits: |own, other| *own = own.zip(other).map(|(one, other)| one && other),
    echo: keep,
    contender_echo: keep,
    echo_under_load: keep,
});

/// Round-trip times of empty requests.
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
    fn echo_times_report_median_and_99th_percentile() {
        assert_eq!(EchoTimes::of(Vec::new()), None);
        let times = EchoTimes::of((1..=200).rev().collect()).unwrap();
        assert_eq!((times.count, times.p50_us, times.p99_us), (200, 100, 198));
        assert_eq!(EchoTimes::of(vec![7]).unwrap().p99_us, 7);
    }
}
