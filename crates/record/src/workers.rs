//! A run by several workers: each worker's part, and the trial that is their sum. A part is the data of a generator
//! thread, or of a whole load generator. Parts add up in any order; derived values and verdicts are computed once, from
//! the sum.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounting::{ServersCount, compare_counts};
use super::facts::Hold;
use super::judged::{Judged, ShortHolds};
use super::trial::{DriverRecord, Health, Sessions, Tally, Trial};
use super::{Arrived, Beside, Excused, FaultRecord, LimitedHolds, Steady, WarmUpEnd};
use zklockbench_core::measure::{Histogram, Measure, ThreadRecorder, new_histogram};

/// One worker of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerPart {
    /// Number of the worker, from 0.
    pub index: usize,
    /// Host of the worker.
    pub host: String,
    /// Number of generator threads.
    pub generator_threads: usize,
}

/// The workers of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workers {
    /// Name of the common run.
    pub run_id: String,
    /// Number of workers.
    pub of: usize,
    /// SHA-256 of scenario, seed and program, which were the same for all workers.
    pub configuration: String,
    /// Workers whose parts are in this directory, by number.
    pub parts: Vec<WorkerPart>,
}

impl Workers {
    /// Whether the directory holds only some of the parts, so that its metrics cover only a part of the load.
    pub fn is_part(&self) -> bool {
        self.parts.len() != self.of
    }
}

impl Trial {
    /// Combines two workers' views of a trial. Values that need a single clock are dropped: handoffs between
    /// workers, overtaking, and the times at which a lock was free.
    pub fn and(mut self, other: Self) -> Self {
        // Every field by name, so that none can be forgotten.
        let Self {
            spec: _,
            started_at,
            measured_from_us: _,
            measured_us,
            full_crew: _,
            arrived,
            dispersion: _,
            steady,
            utilisation: _,
            judged: _,
            cut_short,
            health,
            standstill: _,
            measured,
            whole,
            herd: _,
            errors,
            violation_count,
            violations,
            most_inside,
            excused,
            facts: _,
            evidence,
            ensemble_order: _,
            fencing,
            elections,
            faults,
            interference,
            wrong_holds,
            stuck,
            orphans,
            orphan_nodes,
            lost_holds: _,
            limited_holds,
            nodes_left,
            accounting: _,
            servers,
            sessions,
            phases: _,
            timeline,
            tallies,
            histograms,
            history: _,
            unchecked,
            beside,
            driver,
            counting: _,
            start_spread_us,
        } = other;
        add_histograms(&mut self.histograms, histograms);
        add_errors(&mut self.errors, errors);
        self.violations.extend(violations);
        self.violations.truncate(Self::VIOLATIONS_KEPT);
        self.interference.extend(interference);
        self.interference.truncate(Self::INTERFERENCE_KEPT);
        self.wrong_holds.extend(wrong_holds);
        add_faults(&mut self.faults, faults);
        self.stuck.extend(stuck);
        self.unchecked.extend(unchecked);
        Self {
            started_at: self.started_at.min(started_at),
            measured_us: self.measured_us.max(measured_us),
            full_crew: None,
            arrived: both(self.arrived, arrived, Arrived::and_of_another),
            dispersion: Vec::new(),
            steady: both(self.steady, steady, Steady::and),
            utilisation: None,
            judged: Judged::none_yet(),
            cut_short: self.cut_short.or(cut_short),
            health: self.health.and(health),
            standstill: None,
            measured: self.measured + measured,
            whole: self.whole + whole,
            herd: None,
            violation_count: self.violation_count + violation_count,
            most_inside: self.most_inside.max(most_inside),
            excused: self.excused.and(excused),
            facts: None,
            evidence: self.evidence + evidence,
            ensemble_order: None,
            fencing: self.fencing + fencing,
            elections: self.elections.or(elections),
            orphans: self.orphans.or(orphans),
            orphan_nodes: if self.orphans.is_some() { self.orphan_nodes } else { orphan_nodes },
            lost_holds: None,
            limited_holds: both(self.limited_holds, limited_holds, LimitedHolds::and),
            nodes_left: self.nodes_left.or(nodes_left),
            accounting: Vec::new(),
            servers: if self.servers.is_empty() { servers } else { self.servers },
            sessions: self.sessions.and(sessions),
            timeline: zipped(self.timeline, timeline, |one, other| *one += other),
            tallies: zipped(self.tallies, tallies, Tally::add),
            history: None,
            beside: both(self.beside, beside, Beside::add),
            driver: both(self.driver, driver, DriverRecord::and),
            start_spread_us: self.start_spread_us.or(start_spread_us),
            ..self
        }
    }

    /// Combines all workers' views of a trial, in the order of their numbers. A single worker's trial is
    /// returned unchanged.
    pub fn of_workers(parts: Vec<Self>) -> Option<Self> {
        let is_one = parts.len() == 1;
        let trial = parts.into_iter().reduce(Self::and)?;
        Some(if is_one { trial } else { trial.counted() })
    }

    /// The trial with the counts of client and servers side by side.
    fn counted(self) -> Self {
        if !self.faults.is_empty() {
            return self;
        }
        let beside = self.beside.unwrap_or_default();
        let servers = ServersCount { counters: &self.servers, beside, knows_reads: self.beside.is_some() };
        let accounting = compare_counts(&self.whole, None, servers);
        Self { accounting, ..self }
    }
}

#[allow(clippy::expect_used, reason = "all histograms use the same bounds, so adding cannot fail")]
fn add_histograms(own: &mut BTreeMap<Measure, Histogram>, others: BTreeMap<Measure, Histogram>) {
    for (measure, histogram) in others {
        match own.entry(measure) {
            Entry::Vacant(new) => drop(new.insert(histogram)),
            Entry::Occupied(mut own) => own.get_mut().add(&histogram).expect("histograms share their bounds"),
        }
    }
}

fn both<T>(one: Option<T>, other: Option<T>, and: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(and(one, other)),
        (one, other) => one.or(other),
    }
}

/// Adds the items at equal positions, and keeps the rest of the longer list.
fn zipped<T: Copy>(one: Vec<T>, other: Vec<T>, add: impl Fn(&mut T, T)) -> Vec<T> {
    let (mut longer, shorter) = if one.len() < other.len() { (other, one) } else { (one, other) };
    longer.iter_mut().zip(shorter).for_each(|(own, other)| add(own, other));
    longer
}

impl Arrived {
    /// Adds the arrivals of another worker, whose backlog was served at the same time.
    fn and_of_another(self, other: Self) -> Self {
        let backlog_us = self.backlog_us.max(other.backlog_us);
        Self { backlog_us, ..self + other }
    }
}

impl Steady {
    /// Adds the courses of both loads slot by slot. The warm-up end that is weaker evidence of a steady state
    /// wins.
    fn and(self, other: Self) -> Self {
        let rank = |end: WarmUpEnd| match end {
            WarmUpEnd::Fixed => 0,
            WarmUpEnd::Steady => 1,
            WarmUpEnd::TooFew => 2,
            WarmUpEnd::Cap => 3,
        };
        let ended = [self.warm_up_ended, other.warm_up_ended];
        Self {
            warm_up_ended: ended.into_iter().max_by_key(|end| rank(*end)).unwrap_or(self.warm_up_ended),
            warm_up_us: self.warm_up_us.max(other.warm_up_us),
            slot_us: self.slot_us,
            acquired: zipped(self.acquired, other.acquired, |one, other| *one += other),
            wait_us: zipped(self.wait_us, other.wait_us, |one, other| *one += other),
            backlog: zipped(self.backlog, other.backlog, |one, other| *one += other),
            queue: None,
        }
    }
}

impl Health {
    /// Combines both generators: the worse value of anything that spoils measurements, and the sum of resources
    /// used.
    fn and(self, other: Self) -> Self {
        fn worse<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
            both(one, other, |one, other| if other > one { other } else { one })
        }
        let least = |one: Option<f64>, other: Option<f64>| both(one, other, f64::min);
        Self {
            timer_lag_p99_us: self.timer_lag_p99_us.max(other.timer_lag_p99_us),
            timer_lag_max_us: self.timer_lag_max_us.max(other.timer_lag_max_us),
            dispatch_lag_p99_us: self.dispatch_lag_p99_us.max(other.dispatch_lag_p99_us),
            lag_share: worse(self.lag_share, other.lag_share),
            lateness_p99_us: worse(self.lateness_p99_us, other.lateness_p99_us),
            hold_overshoot_share: worse(self.hold_overshoot_share, other.hold_overshoot_share),
            cpu_us: self.cpu_us + other.cpu_us,
            cpu_share: self.cpu_share + other.cpu_share,
            run_queue_share: both(self.run_queue_share, other.run_queue_share, |one, other| one + other),
            host_idle_share: least(self.host_idle_share, other.host_idle_share),
            host_steal_share: worse(self.host_steal_share, other.host_steal_share),
            resident_bytes: both(self.resident_bytes, other.resident_bytes, |one, other| one + other),
            standstill_us: self.standstill_us.max(other.standstill_us),
            invalid: self.invalid.or(other.invalid),
        }
    }
}

impl Excused {
    fn and(self, other: Self) -> Self {
        Self {
            zombies: self.zombies + other.zombies,
            uncertain: self.uncertain + other.uncertain,
            longest_unsafe_us: self.longest_unsafe_us.max(other.longest_unsafe_us),
        }
    }
}

impl Sessions {
    fn and(self, other: Self) -> Self {
        Self {
            opened: self.opened + other.opened,
            connect_us: self.connect_us.max(other.connect_us),
            negotiated_timeout_us: self.negotiated_timeout_us.max(other.negotiated_timeout_us),
            expired: self.expired + other.expired,
            rejoined: self.rejoined + other.rejoined,
            not_resumed: both(self.not_resumed, other.not_resumed, |one, other| one + other),
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.unserved += other.unserved;
        self.longest_wait_us = self.longest_wait_us.max(other.longest_wait_us);
    }
}

fn add_errors(own: &mut BTreeMap<String, u64>, others: BTreeMap<String, u64>) {
    for (what, times) in others {
        *own.entry(what).or_default() += times;
    }
}

/// Adds faults in the order of firing, and numbers them again.
fn add_faults(own: &mut Vec<FaultRecord>, others: Vec<FaultRecord>) {
    own.extend(others);
    own.sort_by_key(|fault| fault.asked_us);
    for (number, fault) in (1..).zip(own) {
        fault.number = number;
    }
}

/// Reason why the workers' parts do not belong to the same trial; `None` if they do.
pub fn of_different_trials(parts: &[Trial]) -> Option<String> {
    let first = parts.first()?;
    let other = parts.iter().find(|part| part.spec != first.spec)?;
    Some(format!("{} and {} have different specifications", first.name(), other.name()))
}

/// Observations of a worker besides its recorder.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Occurrences {
    pub tallies: BTreeMap<usize, Tally>,
    pub errors: BTreeMap<String, u64>,
    /// Ends of holds while another contender was closing their session, each with the time of its last
    /// moment: the session.
    pub closing: HashMap<Hold, i64>,
    /// Reads of a lock on behalf of the suite, which the servers count.
    pub looks_beside: u64,
    pub writes_beside: u64,
    /// Holders that had requested the deletion of their own node before they left.
    pub given_up_early: u64,
    pub short_holds: ShortHolds,
    pub limited_holds: LimitedHolds,
    /// Sessions opened before the start.
    pub opened: u64,
    pub expired: u64,
    pub rejoined: u64,
    /// The generator's own lag on the way to each lock, summed over the measured acquisitions.
    pub lag_us: u64,
    /// Total that the lag is compared with: the handoffs, or the waits of locks that are not handed over.
    pub lag_basis_us: u64,
    /// Polls that polling contenders should have made, by their measured waits.
    pub looks_by_wait: u64,
}

impl Occurrences {
    pub fn error(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        // Every field by name, so that none can be forgotten.
        let Self {
            tallies,
            errors,
            closing,
            looks_beside,
            writes_beside,
            given_up_early,
            short_holds,
            limited_holds,
            opened,
            expired,
            rejoined,
            lag_us,
            lag_basis_us,
            looks_by_wait,
        } = other;
        self.tallies.extend(tallies);
        add_errors(&mut self.errors, errors);
        self.closing.extend(closing);
        self.looks_beside += looks_beside;
        self.writes_beside += writes_beside;
        self.given_up_early += given_up_early;
        self.short_holds.merge(short_holds);
        self.limited_holds.merge(limited_holds);
        self.opened += opened;
        self.expired += expired;
        self.rejoined += rejoined;
        self.lag_us += lag_us;
        self.lag_basis_us += lag_basis_us;
        self.looks_by_wait += looks_by_wait;
    }
}

/// Data of some contenders; parts of different contenders can be merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Histograms, counts, and the seconds of the measured phase.
    pub recorder: ThreadRecorder,
    pub occurrences: Occurrences,
    /// Lateness of the worker's own timers.
    pub timer_lag: Histogram,
}

impl Part {
    pub fn nothing() -> Self {
        Self {
            recorder: ThreadRecorder::new(1),
            occurrences: Occurrences::default(),
            timer_lag: new_histogram(),
        }
    }

    /// All parts merged into one; empty without parts.
    pub fn merged(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).unwrap_or_else(Self::nothing)
    }

    #[allow(clippy::expect_used, reason = "all histograms use the same bounds, so adding cannot fail")]
    fn and(mut self, other: Self) -> Self {
        self.recorder.merge(&other.recorder);
        self.occurrences.merge(other.occurrences);
        Histogram::add(&mut self.timer_lag, &other.timer_lag).expect("histograms share their bounds");
        self
    }
}
