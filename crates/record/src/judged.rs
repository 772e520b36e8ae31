//! The verdicts on a trial or a run, with the violations and the amount of evidence behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::timeline::Timeline;
use zklockbench_core::clock::Stamp;
use zklockbench_core::measure::added_up;
use zklockbench_core::measure::combine::most;
use zklockbench_core::spool::SpooledTable;
use zklockbench_core::verdict::Verdict;

/// A verdict with its parts. Each part has its own reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// Combination of exclusion, progress, order and, for a run, the metrics. Accounting is excluded, because a
    /// disagreement casts doubt on the metrics, not on the lock.
    pub verdict: Verdict,
    /// Reason for a verdict other than `held`, in one sentence without a full stop; `None` if the verdict is
    /// `held`.
    pub why: Option<String>,
    /// Whether all simultaneous holders were permitted, as observed by the contenders.
    pub exclusion: Verdict,
    /// Whether every free and wanted lock was acquired and, after faults, every waiter served. `None` if the
    /// trial had neither faults nor stuck locks.
    pub progress: Option<Verdict>,
    /// Whether no contender entered too early, as recorded by the ensemble; `None` if its logs were not
    /// available.
    pub order: Option<Verdict>,
    /// Whether client, cost model and servers agree on the counts; `None` if only one of them counted.
    pub accounting: Option<Verdict>,
    /// Whether the generator kept up while a run's metrics were measured; `None` for a trial, and in runs of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Verdict>,
}

/// Partial verdicts before they are combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    pub exclusion: Verdict,
    pub progress: Option<Verdict>,
    pub order: Option<Verdict>,
    pub accounting: Option<Verdict>,
    pub figures: Option<Verdict>,
}

impl From<Parts> for Judged {
    fn from(Parts { exclusion, progress, order, accounting, figures }: Parts) -> Self {
        let others = [&progress, &order, &figures].into_iter().flatten().cloned();
        let verdict = others.fold(exclusion.clone(), Verdict::and);
        Self { why: verdict.why(), verdict, exclusion, progress, order, accounting, figures }
    }
}

impl Judged {
    /// Whether progress was violated, but neither exclusion nor order.
    pub fn is_only_stuck(&self) -> bool {
        let is_broken = |verdict: &Verdict| matches!(verdict, Verdict::Violated(_));
        self.progress.as_ref().is_some_and(is_broken)
            && !is_broken(&self.exclusion)
            && !self.order.as_ref().is_some_and(is_broken)
    }

    pub fn none_yet() -> Self {
        let exclusion = Verdict::Unknown(vec!["not judged yet".into()]);
        Parts { exclusion, progress: None, order: None, accounting: None, figures: None }.into()
    }
}

/// Maximum difference between the wall clocks of this process and of a server on this host, in milliseconds.
/// Both are rounded to milliseconds, and they are read one after the other.
pub const CLOCKS_DIFFER_MS: i64 = 2;

/// Life of a node, as recorded by the ensemble.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// Transaction that deleted the node; `None` while it exists.
    pub deleted: Option<i64>,
    /// Time of the deletion, in milliseconds since 1970 on the leader's wall clock.
    pub deleted_at_ms: Option<i64>,
    pub with_its_session: bool,
}

/// Lives of nodes, by the transaction that created each node.
pub type Lives = SpooledTable<Life>;

/// One of the two holders in a violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Number of the contender within the trial.
    pub contender: usize,
    /// Sequence number of the holder's queue node; `None` if the lock has none.
    pub sequence: Option<i64>,
    /// czxid of the holder's node (the fencing token), if it has one.
    pub czxid: Option<i64>,
    /// Time of entry, in microseconds since the start of the measured phase (negative before it).
    pub entered_us: i64,
}

/// Acquisition while another contender still held the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Index of the lock among the trial's lock paths.
    pub lock: usize,
    /// Contender that already held the lock.
    pub inside: Holder,
    /// Contender that entered.
    pub entered: Holder,
    /// Time at which the violation was detected.
    #[serde(rename = "noticed_us")]
    pub at: Stamp,
    /// What happened before and during the overlap. Older versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

/// Overlaps that are not violations, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excused {
    /// Overlaps classified as *zombie*.
    pub zombies: u64,
    /// Overlaps classified as *uncertain*.
    pub uncertain: u64,
    /// Longest overlap of a zombie with another holder, in microseconds.
    pub longest_unsafe_us: u64,
}

added_up!(Excused { zombies, uncertain, longest_unsafe_us: most });

/// Number of acquisitions that could have revealed a faulty lock.
///
/// A faulty lock may let a contender in at any time, but an overlap can be observed only while another contender
/// holds the lock. Each acquisition is therefore weighted by the share of its wait during which a holder could be
/// observed.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct KeptOut {
    pub entries: u64,
    /// Acquisitions that were blocked for a part of their wait.
    pub waited: u64,
    /// Sum of these parts, as shares of the waits.
    pub shares: f64,
}

impl KeptOut {
    /// Records an acquisition that was blocked for `kept_out` of its `wait`.
    pub fn entry(&mut self, kept_out: u64, wait: u64) {
        self.entries += 1;
        if kept_out > 0 {
            self.waited += 1;
            self.shares += (kept_out as f64 / wait.max(1) as f64).min(1.0);
        }
    }

    /// Effective number of acquisitions (rounded sum of shares).
    pub fn as_many_as(&self) -> u64 {
        self.shares.round() as u64
    }
}

added_up!(KeptOut { entries, waited, shares });

/// Holds that were shorter than requested, although nothing ended them early.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ShortHolds {
    pub count: u64,
    /// Largest shortfall of a hold, in microseconds.
    pub lacked_us: u64,
}

impl ShortHolds {
    /// Tolerance in microseconds for rounding the stamps of two clocks.
    const STAMPS_DIFFER_US: u64 = 10;

    pub fn note(&mut self, held_us: u64, asked_us: u64) {
        let lacked_us = asked_us.saturating_sub(held_us);
        if lacked_us > Self::STAMPS_DIFFER_US {
            *self += Self { count: 1, lacked_us };
        }
    }
}

added_up!(ShortHolds { count, lacked_us: most });

/// Number of acquisitions in a trial that could have revealed a faulty lock, by method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Acquisitions of the whole trial.
    pub entries: u64,
    /// Acquisitions blocked by other holders.
    pub waited: u64,
    /// Effective number of acquisitions for which an overlap with another hold would have been observed. Each
    /// is weighted by the share of its wait during which a holder was inside and other contenders could run.
    pub seen_inside: u64,
    /// Acquisitions whose transactions show that the contender had to wait, and at which zxid it entered.
    pub by_transactions: u64,
    /// Effective number of acquisitions checked by the servers' clock. Each is weighted by the share of its wait
    /// during which the blocking node certainly existed, i.e. after subtracting the maximum clock difference.
    pub by_clock: u64,
    /// Holders that had requested the deletion of their own node before they left.
    pub given_up_early: u64,
}

added_up!(Evidence { entries, waited, seen_inside, by_transactions, by_clock, given_up_early });

impl Evidence {
    /// Number of acquisitions checked by the most effective method.
    pub fn catchable(&self) -> u64 {
        self.seen_inside.max(self.by_transactions).max(self.by_clock)
    }

    /// Number of acquisitions checked by each method, as text.
    pub fn describe(&self) -> String {
        format!(
            "{} by observing overlaps, {} by the ensemble's transactions, {} by its clock",
            self.seen_inside, self.by_transactions, self.by_clock
        )
    }
}

/// Exclusion according to the ensemble's transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnsembleOrder {
    /// Acquisitions that could be compared with the logs.
    pub checked: u64,
    /// Acquisitions that happened while an earlier holder's node still existed, according to the servers' clock.
    pub overlaps: u64,
    /// Acquisitions with a known zxid at which the contender held the lock.
    pub checked_by_zxid: u64,
    /// Acquisitions in `checked_by_zxid` whose zxid precedes the deletion of an earlier holder's node.
    pub too_early: u64,
    /// Effective number of acquisitions in `checked` that the servers' clock could have revealed as too
    /// early.
    pub contested: u64,
    /// Acquisitions in `checked_by_zxid` that had to wait for another node's deletion.
    pub contested_by_zxid: u64,
    /// Holders' nodes that are gone although no server's log records their deletion: the ensemble has lost
    /// acknowledged transactions.
    pub forgotten: u64,
    /// Description of the first error.
    pub first: Option<String>,
}

impl EnsembleOrder {
    pub fn is_broken(&self) -> bool {
        self.overlaps > 0 || self.too_early > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_only_stuck_requires_violated_progress_without_other_violations() {
        let violated = || Verdict::Violated(vec!["two holders".into()]);
        let judged = |exclusion, progress, order| {
            Judged::from(Parts { exclusion, progress, order, accounting: None, figures: None })
        };
        let unknown = || Verdict::Unknown(vec!["too little evidence".into()]);
        assert!(judged(Verdict::Held, Some(violated()), Some(Verdict::Held)).is_only_stuck());
        assert!(judged(unknown(), Some(violated()), None).is_only_stuck());
        assert!(!judged(violated(), Some(violated()), None).is_only_stuck());
        assert!(!judged(Verdict::Held, Some(violated()), Some(violated())).is_only_stuck());
        assert!(!judged(Verdict::Held, Some(Verdict::Held), None).is_only_stuck());
        assert!(!judged(violated(), None, None).is_only_stuck());
    }

    #[test]
    fn hold_counts_as_short_only_beyond_a_rounding_error() {
        let mut short = ShortHolds::default();
        for (held_us, asked_us) in [(4_000, 4_000), (9_000, 4_000), (3_991, 4_000), (0, 0)] {
            short.note(held_us, asked_us);
        }
        assert_eq!(short, ShortHolds::default());
        short.note(500, 4_000);
        short.note(3_900, 4_000);
        assert_eq!(short, ShortHolds { count: 2, lacked_us: 3_500 });
    }
}
