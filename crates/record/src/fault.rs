//! Faults injected into a trial, and their consequences: delayed arrivals, stuck contenders, and writes to
//! fenced resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::added_up;

/// One planned fault. Times are in microseconds since the start of the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecord {
    /// Position in the order in which the faults fired, from 1.
    pub number: usize,
    /// Name in the catalog.
    pub kind: String,
    /// Kind, target and parameters, as in the scenario.
    pub label: String,
    /// Target that was hit: `server 2 (leader)`, `contender 7 (holder)`.
    pub target: String,
    /// Time at which the fault was requested; for a fault that never became due, the end of the load.
    pub asked_us: i64,
    /// Time at which the effect was observed.
    pub effective_us: Option<i64>,
    /// Time at which the end of the fault was observed.
    pub ended_us: Option<i64>,
    /// Whether the effect was observed.
    pub proved: bool,
    /// Evidence of the effect, or the reason why there is none.
    pub proof: String,
    /// Reason why the fault could not be healed, if healing failed.
    pub left: Option<String>,
    /// Time from the request until a new leader with a synchronised majority was first observed. `None` if no
    /// new leader was observed before the fault ended.
    pub elected_us: Option<u64>,
    /// Longest time without an acquisition of a wanted lock, in microseconds. Gaps count if they overlap the
    /// fault, or begin with the first demand after it and before the next fault.
    pub longest_gap_us: Option<u64>,
    /// 99th percentile of the waits of arrivals that were due from the fault's request until both the fault
    /// and its longest gap had ended. `None` for loads without arrivals, and in results of older versions.
    #[serde(default)]
    pub wait_p99: Option<Bound>,
    /// Time from the observed effect, or the first later demand for the lock, to the next acquisition.
    pub recovered_us: Option<u64>,
    /// Time from the observed effect until the first contender was notified of its lost connection. `None` if
    /// there was no such contender before the next fault, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_us: Option<u64>,
    /// Number of lost sessions about which contenders were notified before the next fault was requested,
    /// excluding sessions of crashed contenders. `None` in a worker's part, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_lost: Option<u64>,
    /// Waits of arrivals that were due while the fault disturbed their lock. `None` for loads without
    /// arrivals, if no lock was interrupted for 5 ms or more, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Waits of arrivals after the disturbance until the fault ended, e.g. while one server was down and
    /// another led. `None` for loads without arrivals, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meanwhile: Option<ArrivalWaits>,
}

/// Waits of arrivals that were due while a fault disturbed their lock: from the request until the queue was
/// as short as before. Locks that were not interrupted are excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Number of interrupted locks.
    pub locks: u64,
    /// Waits of these arrivals.
    #[serde(flatten)]
    pub waits: ArrivalWaits,
    /// Mean wait of earlier arrivals at these locks, in microseconds; `None` if there were none.
    pub usual_wait_us: Option<u64>,
    /// Longest time, over the locks, from the end of a lock's longest gap until its queue was no longer than
    /// before the fault. `None` if a queue did not drain before the load ended.
    pub drained_us: Option<u64>,
}

/// Waits of arrivals due within one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalWaits {
    /// Number of arrivals, excluding dropped arrivals.
    pub arrivals: u64,
    /// Mean wait.
    pub mean: Bound,
    /// Median wait.
    pub p50: Bound,
    /// 99th percentile of the waits.
    pub p99: Bound,
}

impl ArrivalWaits {
    /// Statistics of waits in microseconds, where `None` is an unserved wait and counts as the longest.
    /// Returns `None` if no arrival was served.
    pub fn of(waits: impl IntoIterator<Item = Option<u64>>) -> Option<Self> {
        let all: Vec<Option<u64>> = waits.into_iter().collect();
        let mut served: Vec<u64> = all.iter().copied().flatten().collect();
        served.sort_unstable();
        let longest = *served.last()?;
        let percentile = |percent: usize| {
            let rank = (percent * all.len()).div_ceil(100).saturating_sub(1);
            let beyond = Bound { us: longest, at_least: true };
            served.get(rank).map_or(beyond, |us| Bound { us: *us, at_least: false })
        };
        let mean = served.iter().sum::<u64>() / served.len() as u64;
        Some(Self {
            arrivals: all.len() as u64,
            mean: Bound { us: mean, at_least: served.len() < all.len() },
            p50: percentile(50),
            p99: percentile(99),
        })
    }
}

/// A time that may be a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// Time in microseconds.
    pub us: u64,
    /// Whether `us` is a lower bound, because unserved arrivals may have waited longer.
    pub at_least: bool,
}

/// A contender that did not get the lock even after everything had healed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// Number of the contender.
    pub contender: usize,
    /// Index of the lock among the trial's lock paths.
    pub lock: usize,
    /// Time for which the contender had waited, in microseconds.
    pub waited_us: u64,
    /// The contender's node; `None` if it has none or none was found.
    pub node: Option<String>,
    /// Number of nodes ahead of the contender's own.
    pub position: Option<usize>,
    /// Blocking node: the first node of the queue, with its session and the owner of that session.
    pub blocked_by: Option<String>,
    /// Contender that owns the blocking node; `None` if no contender does, and in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocker: Option<usize>,
    /// Whether the blocking node's session never belonged to a contender.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stranger: bool,
    /// Watches of the contender's session, as reported by the servers.
    pub watches: Vec<String>,
}

/// Writes to fenced resources, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FencingCounts {
    /// Number of writes: each holder writes when it enters and before it leaves.
    pub writes: u64,
    /// Writes of a holder after a holder that entered later had written. Without fencing, each would have
    /// overwritten newer data.
    pub stale: u64,
    /// Stale writes that were rejected because the token, the czxid of the holder's node, was not the newest.
    pub stale_rejected: u64,
    /// Stale writes that would have been rejected if the token had been the node's sequence number.
    pub stale_rejected_by_number: u64,
    /// Writes rejected although no later holder had written, because tokens did not grow from holder to
    /// holder.
    pub sound_rejected: u64,
}

added_up!(FencingCounts { writes, stale, stale_rejected, stale_rejected_by_number, sound_rejected });
