//! What was broken on purpose in a trial, and what came of it: faults, stuck contenders, writes to fenced resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::added_up;

/// One fault that was to be. Times are microseconds since the measured phase began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecord {
    /// Its place in the order of firing, from 1.
    pub number: usize,
    /// Its name in the catalog.
    pub kind: String,
    /// Kind, target and parameters, as the scenario says them.
    pub label: String,
    /// Whom it hit: `server 2 (leader)`, `contender 7 (holder)`.
    pub target: String,
    /// When it was asked for; of one whose time never came, when the load was over.
    pub asked_us: i64,
    /// When its effect was seen.
    pub effective_us: Option<i64>,
    /// When it had ended, its healing seen.
    pub ended_us: Option<i64>,
    /// Whether its effect was seen.
    pub proved: bool,
    /// How it was seen, or why not.
    pub proof: String,
    /// Why it could not be undone, if it could not.
    pub left: Option<String>,
    /// From when it was asked for to the first sight of a leader elected since, with a majority in step; `None`
    /// when none was until it had ended, or nobody looked because no fault hits servers.
    pub elected_us: Option<u64>,
    /// The longest time in which nobody acquired some lock although somebody wanted it, of those that reach into the fault's
    /// time or begin in it, or before the next fault with the first that wants the lock again.
    pub longest_gap_us: Option<u64>,
    /// The 99th percentile of the waits of all arrivals of an open load that were due from when it was asked for to its end
    /// and the longest gap after that. `None` of other loads, and in results of older versions.
    #[serde(default)]
    pub wait_p99: Option<Bound>,
    /// From when its effect was seen, or the lock was first wanted after that, to the next acquisition.
    pub recovered_us: Option<u64>,
    /// What those got that came while it disturbed a lock. `None` of loads without arrivals, where no lock was interrupted for 5
    /// ms or more, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The waits of all that came after that and before it ended, such as while a server was down and another one led. `None` of
    /// loads without arrivals, and in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meanwhile: Option<ArrivalWaits>,
}

/// What arrivals got that were due while a fault disturbed their lock: from when it was asked for until the queue was as short
/// as before. Those of locks that were not interrupted are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// How many locks were interrupted.
    pub locks: u64,
    /// The waits.
    #[serde(flatten)]
    pub waits: ArrivalWaits,
    /// The mean wait of those that were due at these locks before, in microseconds; `None` of none.
    pub usual_wait_us: Option<u64>,
    /// From the end of a lock's longest gap until no more waited for it than at most before: the longest of any lock; `None`
    /// where it did not come to that before the load ended.
    pub drained_us: Option<u64>,
}

/// The waits of arrivals that were due within some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalWaits {
    /// How many there were, those that were dropped left out.
    pub arrivals: u64,
    /// Their mean.
    pub mean: Bound,
    /// Their median.
    pub p50: Bound,
    /// The 99th percentile.
    pub p99: Bound,
}

impl ArrivalWaits {
    /// Of waits in microseconds, `None` of those that were not served: these have waited for longer than all others. `None` where
    /// none was served.
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
    /// In microseconds.
    pub us: u64,
    /// It was at least as long: what was not served may have waited for longer.
    pub at_least: bool,
}

/// A contender that did not get the lock although nothing was broken any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// The contender.
    pub contender: usize,
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// How long it had waited by then, in microseconds.
    pub waited_us: u64,
    /// Its own node; `None` where it has none or none was found.
    pub node: Option<String>,
    /// How many nodes are before its own.
    pub position: Option<usize>,
    /// The node that blocks it: the first of the queue, the session that it belongs to, and whose that is.
    pub blocked_by: Option<String>,
    /// The contender that this node belongs to; `None` where it is no contender's, and in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocker: Option<usize>,
    /// Whether this node belongs to no session that a contender has had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stranger: bool,
    /// What its session watches, as the servers tell.
    pub watches: Vec<String>,
}

/// Writes to fenced resources, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FencingCounts {
    /// Writes in all: each holder's when it enters, and before it leaves.
    pub writes: u64,
    /// Writes of a holder after another had entered. Without fencing each of them would have overwritten what the
    /// other had written.
    pub stale: u64,
    /// Of those, the ones turned away because the token, the czxid of the holder's node, was older than the newest.
    pub stale_rejected: u64,
    /// The ones that would have been turned away by the node's number as the token.
    pub stale_rejected_by_number: u64,
    /// Writes turned away although nobody had entered since: a token that does not grow from holder to holder.
    pub sound_rejected: u64,
}

added_up!(FencingCounts { writes, stale, stale_rejected, stale_rejected_by_number, sound_rejected });
