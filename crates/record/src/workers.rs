//! Parts of a run, and the trial that results from adding them up. A part is the data of one generator thread
//! ([`Part`]) or of one worker (a [`Trial`]). Threads' parts can be added in any order; workers' trials are added in
//! the order of the workers' numbers. Derived values and verdicts are computed once, from the sum.

use std::collections::{BTreeMap, HashMap};
use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounting::compare_counts;
use super::facts::Hold;
use super::judged::{Judged, ShortHolds};
use super::trial::{Health, Sessions, Tally, Trial};
use super::{Arrived, LimitedHolds, Steady};
use zklockbench_core::measure::combine::{add, both, by_key, clear, first, join, keep, least, most, zipped};
use zklockbench_core::measure::{Histogram, ThreadRecorder, added_up, new_histogram};

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
    /// ID of the run that the workers share.
    pub run_id: String,
    /// Number of workers.
    pub of: usize,
    /// SHA-256 of scenario, seed and program, which all workers share.
    pub configuration: String,
    /// Workers whose parts are in this directory, by number.
    pub parts: Vec<WorkerPart>,
}

impl Workers {
    /// Whether the directory has only some of the parts; if so, its metrics cover only part of the load.
    pub fn is_part(&self) -> bool {
        self.parts.len() != self.of
    }
}

impl Trial {
    /// Combines two workers' views of a trial. Values that need a single clock are dropped: handoffs between
    /// workers, overtaking, and the times at which a lock was free.
    pub fn and(mut self, mut other: Self) -> Self {
        if self.orphans.is_none() {
            self.orphan_nodes = std::mem::take(&mut other.orphan_nodes);
        }
        let own = self.faults.len();
        other.faults.iter_mut().for_each(|fault| fault.number += own);
        self += other;
        self.renumber_faults();
        self.violations.truncate(Self::VIOLATIONS_KEPT);
        self.interference.truncate(Self::INTERFERENCE_KEPT);
        self
    }

    /// Numbers the faults in the order in which they were requested.
    fn renumber_faults(&mut self) {
        self.faults.sort_by_key(|fault| fault.asked_us);
        let place = |number: usize| self.faults.iter().position(|fault| fault.number == number);
        for election in self.elections.iter_mut().flatten() {
            election.after_fault = election.after_fault.and_then(place).map(|place| place + 1);
        }
        for (number, fault) in (1..).zip(&mut self.faults) {
            fault.number = number;
        }
    }

    /// Combines all workers' views of a trial; `parts` must be in the workers' numerical order. A single
    /// worker's trial is returned unchanged.
    pub fn of_workers(parts: Vec<Self>) -> Option<Self> {
        let is_one = parts.len() == 1;
        let trial = parts.into_iter().reduce(Self::and)?;
        Some(if is_one { trial } else { trial.counted() })
    }

    /// Compares the counts of client and servers, except in a trial with faults or with drivers, whose requests are
    /// not observed.
    fn counted(self) -> Self {
        if !self.faults.is_empty() || self.driver.is_some() {
            return self;
        }
        let accounting = compare_counts(&self.whole, None, &self.servers, self.beside);
        Self { accounting, ..self }
    }
}

added_up!(Trial {
    spec: keep,
    started_at: least,
    measured_from_us: keep,
    measured_us: most,
    full_crew: clear,
    arrived: both(|own: &mut Arrived, other| {
        // The workers served their backlogs at the same time, so the longest time counts.
        let backlog_us = own.backlog_us.max(other.backlog_us);
        *own += other;
        own.backlog_us = backlog_us;
    }),
    dispersion: clear,
    steady: both(add),
    utilisation: clear,
    judged: |own, _| *own = Judged::none_yet(),
    cut_short: first,
    health,
    standstill: clear,
    measured,
    whole,
    herd: clear,
    errors: by_key(add),
    violation_count,
    violations: join,
    most_inside: most,
    excused,
    facts: clear,
    evidence,
    ensemble_order: clear,
    fencing,
    elections: first,
    faults: join,
    interference: join,
    wrong_holds: join,
    stuck: join,
    orphans: first,
    orphan_nodes: keep,
    lost_holds: clear,
    limited_holds: both(add),
    nodes_left: first,
    accounting: clear,
    servers: |own, other| if own.is_empty() {
        *own = other
    },
    sessions,
    phases: keep,
    timeline: zipped(add),
    tallies: zipped(add),
    histograms: by_key(add_histogram),
    history: clear,
    unchecked: join,
    beside: both(add),
    driver: both(add),
    counting: keep,
    start_spread_us: first,
});

#[allow(clippy::expect_used, reason = "all histograms use the same bounds, so adding cannot fail")]
fn add_histogram(own: &mut Histogram, other: Histogram) {
    own.add(&other).expect("histograms share their bounds");
}

// Adds up the slots. The end of the warm-up is taken from the worker with the weaker evidence of a steady state.
added_up!(Steady {
    warm_up_ended: most,
    warm_up_us: most,
    slot_us: keep,
    acquired: zipped(add),
    wait_us: zipped(add),
    backlog: zipped(add),
    queue: clear,
});

// Keeps the worse value of everything that spoils measurements, and adds up resources.
added_up!(Health {
    timer_lag_p99_us: most,
    timer_lag_max_us: most,
    dispatch_lag_p99_us: most,
    lag_share: most,
    lateness_p99_us: most,
    hold_overshoot_share: most,
    cpu_us,
    cpu_share,
    run_queue_share: both(add),
    host_idle_share: both(least),
    host_steal_share: most,
    resident_bytes: both(add),
    standstill_us: most,
    invalid: first,
});

added_up!(Sessions {
    opened,
    connect_us: most,
    negotiated_timeout_us: most,
    expired,
    rejoined,
    not_resumed: both(add),
});

added_up!(Tally { acquired, unserved, longest_wait_us: most });

/// Reason why the workers' parts do not belong to the same trial; `None` if they do.
pub fn of_different_trials(parts: &[Trial]) -> Option<String> {
    let first = parts.first()?;
    let other = parts.iter().find(|part| part.spec != first.spec)?;
    Some(format!("{} and {} have different specifications", first.name(), other.name()))
}

/// A worker's observations that its recorder does not contain.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Occurrences {
    pub tallies: BTreeMap<usize, Tally>,
    pub errors: BTreeMap<String, u64>,
    /// Holds that ended while another contender was closing the holder's session, with the session's id. Each
    /// hold is identified by its last moment.
    pub closing: HashMap<Hold, i64>,
    /// The suite's own reads of locks, which the servers also count.
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
    /// Total lag of the generator over the measured acquisitions.
    pub lag_us: u64,
    /// Total against which `lag_us` is compared: the handoffs or, for locks without handoffs, the waits.
    pub lag_basis_us: u64,
    /// Total requested time of the holds whose overshoot was recorded.
    pub asked_hold_us: u64,
    /// Expected number of polls, from the measured waits.
    pub looks_by_wait: u64,
}

impl Occurrences {
    pub fn error(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }
}

added_up!(Occurrences {
    tallies: join,
    errors: by_key(add),
    closing: join,
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
    asked_hold_us,
    looks_by_wait,
});

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

    /// Merges all parts; the result is empty if there are no parts.
    pub fn merged(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::add).unwrap_or_else(Self::nothing)
    }
}

added_up!(Part { recorder: |own, other| own.merge(&other), occurrences, timer_lag: add_histogram });
