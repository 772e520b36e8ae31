//! The facts by which a trial is judged, and the verdicts on a trial or a run.
//!
//! Facts are what the ensemble recorded about a lock's holders, what contenders believed and observed (e.g.
//! two inside at once), and what they did. [`crate::Trial`] carries them from the load to the judge. Their
//! number is unbounded, so they are spooled, dropped by the judge and never stored. Files only contain the
//! results: verdicts, violations and the amount of evidence.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::history::{Deed, LockClaim, LockKind, Moment};
use zklockbench_core::clock::{Stamp, WallClock};
use zklockbench_core::measure::added_up;
use zklockbench_core::spool::{Merge, Sorted, SpooledTable};
use zklockbench_core::verdict::Verdict;

/// A verdict with its parts. Each part has its own reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// Combination of exclusion, progress, order and, for a run, its figures. Accounting is left out: a
    /// disagreement casts doubt on the figures, not on the lock.
    pub verdict: Verdict,
    /// Reason for a verdict other than `held`, in one sentence without a full stop; otherwise `None`.
    pub why: Option<String>,
    /// Whether only permitted holders were inside together, as observed by contenders.
    pub exclusion: Verdict,
    /// Whether every free and wanted lock was acquired and, after faults, every waiter served. `None` without
    /// faults and stuck locks.
    pub progress: Option<Verdict>,
    /// Whether no contender entered too early, as recorded by the ensemble; `None` if the ensemble's logs
    /// were not available.
    pub order: Option<Verdict>,
    /// Whether client, cost model and servers agree on the counts; `None` if only one of them counted.
    pub accounting: Option<Verdict>,
    /// Whether the generator kept up while a run's figures were measured. `None` for a trial, which records
    /// this elsewhere, and in runs of versions that treated it as a doubt about exclusion.
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
    /// Whether the only broken promise is progress: exclusion and order were not violated.
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
/// Both count whole milliseconds, or are read one after the other.
pub const CLOCKS_DIFFER_MS: i64 = 2;

/// A contender's entry on the strength of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub lock: usize,
    pub contender: usize,
    pub claim: LockClaim,
    pub czxid: i64,
    /// Transaction as of which the contender found that it holds, if a reply showed it.
    pub zxid: Option<i64>,
    pub called: Stamp,
    pub entered: Stamp,
    /// Time at which the contender was about to leave, before it requested the deletion of its node; `None`
    /// while inside.
    pub left: Option<Stamp>,
}

impl Grant {
    pub fn by_node(&self) -> (usize, i64, Stamp) {
        (self.lock, self.czxid, self.entered)
    }
}

/// Grants of a trial, ordered by lock and node.
pub type Grants = Sorted<Grant, (usize, i64, Stamp)>;

/// Life of a node, as recorded by the ensemble.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// Transaction that deleted the node; `None` while it exists.
    pub deleted: Option<i64>,
    /// Time of that proposal, in milliseconds since 1970 on the leader's wall clock.
    pub deleted_at_ms: Option<i64>,
    pub with_its_session: bool,
}

/// Lives of nodes, by the transaction that created each.
pub type Lives = SpooledTable<Life>;

/// Facts about the entries of a trial's contenders.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub kind: LockKind,
    pub began: Stamp,
    /// Simultaneous holders, as observed by contenders.
    pub overlaps: Overlaps,
    pub grants: Grants,
    /// Lives of the trial's nodes from the servers' logs; empty if the logs cannot be read.
    pub lives: Lives,
    /// Whether no node of a contender is left.
    pub all_gone: bool,
    /// Conversion of stamps to the time of the servers' host.
    pub wall: WallClock,
    /// Maximum difference between that time and a server's, in milliseconds: [`CLOCKS_DIFFER_MS`] plus the
    /// amount by which the clock was set during the trial.
    pub clocks_differ_ms: i64,
    /// Directory for data that do not fit into memory while judging.
    pub scratch: PathBuf,
}

impl Facts {
    /// Whether a node is gone without a record of its end in any server's log. The ensemble has then lost
    /// acknowledged transactions, and nothing that depends on the node counts against the lock.
    pub fn is_forgotten(&self, life: &Life) -> bool {
        self.all_gone && life.deleted.is_none()
    }
}

/// A moment with the number of the generator thread that recorded it.
pub type Noted = (usize, Moment);

/// Transaction as of which a contender entered at that time, if only the servers' logs show it.
pub type EnteredAsOf = (Stamp, usize, i64);

/// Actions of contenders as recorded, with additions from the servers' logs; spooled, because their number is
/// unbounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Recorded moments, by time and then by thread.
    pub noted: Sorted<Noted, (Stamp, usize)>,
    pub entered_as_of: Sorted<EnteredAsOf, (Stamp, usize)>,
    pub lives: Lives,
    /// Whether some moments are missing, because they came faster than the disk could store them.
    pub has_gaps: bool,
}

impl Moments {
    pub fn iter(&self) -> io::Result<impl Iterator<Item = io::Result<Moment>> + '_> {
        let (mut noted, mut as_of) =
            (self.noted.iter()?, AsOf { rest: self.entered_as_of.iter()?, found: Vec::new() });
        Ok(std::iter::from_fn(move || {
            let mut moment = match noted.next()? {
                Ok((_, moment)) => moment,
                Err(error) => return Some(Err(error)),
            };
            if let Deed::Enters { zxid, .. } = &mut moment.deed {
                match as_of.find(moment.at, moment.contender) {
                    Ok(found) => *zxid = found.or(*zxid),
                    Err(error) => return Some(Err(error)),
                }
            }
            Some(Ok(moment))
        }))
    }
}

struct AsOf<'a> {
    rest: Merge<'a, EnteredAsOf, (Stamp, usize)>,
    /// Entries of the last requested time, and the first of a later time.
    found: Vec<EnteredAsOf>,
}

impl AsOf<'_> {
    fn find(&mut self, at: Stamp, contender: usize) -> io::Result<Option<i64>> {
        self.found.retain(|(other, ..)| *other >= at);
        while self.found.last().is_none_or(|(latest, ..)| *latest <= at) {
            let Some(next) = self.rest.next() else { break };
            self.found.push(next?);
            self.found.retain(|(other, ..)| *other >= at);
        }
        let found = self.found.iter().find(|(when, who, _)| (*when, *who) == (at, contender));
        Ok(found.map(|(_, _, zxid)| *zxid))
    }
}

/// A hold as observed by the contenders of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupant {
    pub contender: usize,
    pub sequence: Option<i64>,
    pub czxid: Option<i64>,
    pub claim: LockClaim,
    /// Time of the call of acquire.
    pub asked: Stamp,
    pub entered: Stamp,
}

impl Occupant {
    /// Token of the hold: the transaction that created its node, or the node's number if that is unknown.
    pub fn token(&self) -> Option<i64> {
        self.czxid.filter(|czxid| *czxid > 0).or(self.sequence)
    }

    pub fn hold(&self) -> Hold {
        (self.contender, self.entered)
    }
}

/// An entry alongside more holders than the lock allows, with all conflicting holders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    pub lock: usize,
    pub entered: Occupant,
    /// Conflicting holders; only the latest [`Overlap::INSIDE_KEPT`].
    pub inside: Vec<Occupant>,
    /// Leases of the conflicting holders beyond those kept.
    pub others: u64,
}

impl Overlap {
    pub const INSIDE_KEPT: usize = 64;

    pub fn of(lock: usize, kind: LockKind, entered: Occupant, mut inside: Vec<Occupant>) -> Self {
        inside.retain(|other| kind.weight_against(entered.claim, other.claim) > 0);
        inside.sort_unstable_by_key(|other| std::cmp::Reverse(other.hold().1));
        let dropped = inside.iter().skip(Self::INSIDE_KEPT);
        let others = dropped.map(|other| kind.weight_against(entered.claim, other.claim)).sum();
        inside.truncate(Self::INSIDE_KEPT);
        Self { lock, entered, inside, others }
    }
}

/// State of the session behind a hold at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionEnd {
    /// The session was alive when the lock was released.
    #[default]
    Alive,
    Expired,
    /// The release may or may not have happened.
    Unknown,
}

/// Reason to doubt that a hold lasted until its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubt {
    pub session: SessionEnd,
    /// Losses of the connection during the hold, each with the time of its return.
    pub suspended: Vec<(Stamp, Stamp)>,
    /// Time at which the hold ended.
    pub left: Stamp,
}

impl Doubt {
    pub fn was_suspended(&self, at: Stamp) -> bool {
        self.suspended.iter().any(|(lost, back)| (*lost..*back).contains(&at))
    }
}

/// A hold, identified by its contender and its start.
pub type Hold = (usize, Stamp);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// First overlaps, in any order.
    pub kept: Vec<Overlap>,
    pub count: u64,
    /// Number of holders in `kept`.
    inside_kept: usize,
    pub doubts: HashMap<Hold, Doubt>,
    /// Holds during whose end another contender was closing their session: the session, and the time of the
    /// end.
    pub closing: HashMap<Hold, (i64, Stamp)>,
}

impl Overlaps {
    /// Maximum number of overlaps kept per thread; a lock that does not exclude would otherwise exhaust
    /// memory.
    pub const KEPT: usize = 10_000;
    /// Maximum number of holders kept per thread, over all its overlaps.
    const INSIDE_KEPT: usize = 10 * Self::KEPT;

    pub fn note(&mut self, overlap: Overlap) {
        self.count += 1;
        if self.kept.len() < Self::KEPT && self.inside_kept < Self::INSIDE_KEPT {
            self.inside_kept += overlap.inside.len();
            self.kept.push(overlap);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.kept.extend(other.kept);
        self.doubts.extend(other.doubts);
        self.closing.extend(other.closing);
    }

    /// Marks holds as lost if `was_closed` reports that their session was closed. If no server has answered,
    /// the session's state is unknown: such a hold neither excuses nor proves anything.
    pub fn settle(&mut self, was_closed: impl Fn(usize, i64) -> bool) {
        for (hold, (session, left)) in self.closing.drain() {
            let doubt = self.doubts.entry(hold).or_insert(Doubt { left, ..Doubt::default() });
            if was_closed(hold.0, session) {
                doubt.session = SessionEnd::Expired;
            } else if doubt.session == SessionEnd::Alive {
                doubt.session = SessionEnd::Unknown;
            }
        }
    }
}

/// One of the two holders of a violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Number of the contender within the trial.
    pub contender: usize,
    /// Sequence number of the holder's queue node; `None` for a lock without one.
    pub sequence: Option<i64>,
    /// czxid of the holder's node (the fencing token), if it has one.
    pub czxid: Option<i64>,
    /// Time of entry, in microseconds since the start of the measured phase (negative before it).
    pub entered_us: i64,
}

/// Entry into a critical section while another contender was still inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Index of the lock among the trial's lock paths.
    pub lock: usize,
    /// Contender that was already inside.
    pub inside: Holder,
    /// Contender that entered.
    pub entered: Holder,
    /// Time at which the violation was detected.
    #[serde(rename = "noticed_us")]
    pub at: Stamp,
}

/// Classification of an entry alongside too many holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverlapClass {
    /// Holders with live sessions exceeded what the lock allows.
    Violation,
    /// Only holders that had lost their sessions exceeded the limit: the ensemble had already granted their
    /// lock to others. No lock with sessions can prevent that; fencing can.
    Zombie,
    /// The classification depends on a holder whose hold is uncertain.
    Uncertain,
}

/// Overlaps that are not violations, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excused {
    /// Overlaps of the class zombie.
    pub zombies: u64,
    /// Overlaps of the class uncertain.
    pub uncertain: u64,
    /// Longest time during which a zombie was inside with another holder, in microseconds.
    pub longest_unsafe_us: u64,
}

/// Number of acquisitions that could have revealed a lock that does not exclude.
///
/// A faulty lock lets a contender in at some point during its wait, which only shows while others hold the lock.
/// So each acquisition counts by the share of its wait in which others held it and would have been observed.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct KeptOut {
    pub entries: u64,
    /// Acquisitions that were blocked for a part of their wait.
    pub waited: u64,
    /// Total of these parts, as shares of the waits.
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

/// Holds that were shorter than requested, although nothing ended them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ShortHolds {
    pub count: u64,
    /// Largest shortfall of a hold, in microseconds.
    pub lacked_us: u64,
}

impl ShortHolds {
    /// Tolerance, in microseconds, for stamps that are whole microseconds of two clocks.
    const STAMPS_DIFFER_US: u64 = 10;

    pub fn note(&mut self, held_us: u64, asked_us: u64) {
        let lacked_us = asked_us.saturating_sub(held_us);
        if lacked_us > Self::STAMPS_DIFFER_US {
            self.merge(Self { count: 1, lacked_us });
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.lacked_us = self.lacked_us.max(other.lacked_us);
    }
}

/// Number of acquisitions in a trial that could have revealed a lock that does not exclude, by method. An
/// acquisition that no method could have caught is not evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Acquisitions of the whole trial.
    pub entries: u64,
    /// Acquisitions that other holders blocked.
    pub waited: u64,
    /// Effective number of acquisitions that could have been observed entering while another was inside. Each
    /// counts by the share of its wait in which a holder was inside and others could run.
    pub seen_inside: u64,
    /// Acquisitions whose transactions show that they had to wait, and as of which transaction they entered.
    pub by_transactions: u64,
    /// Effective number of acquisitions checked by the servers' clock. Each counts by the share of its wait
    /// in which the blocking node existed for longer than the clocks may differ.
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
            "{} by seeing two inside, {} by the ensemble's transactions, {} by its clock",
            self.seen_inside, self.by_transactions, self.by_clock
        )
    }
}

/// Exclusion according to the ensemble's transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnsembleOrder {
    /// Acquisitions that could be compared with the logs.
    pub checked: u64,
    /// Acquisitions while the node of an earlier holder still existed, by the servers' clock.
    pub overlaps: u64,
    /// Acquisitions for which it is known as of which transaction the contender found that it holds.
    pub checked_by_zxid: u64,
    /// Acquisitions in `checked_by_zxid` as of a transaction before the deletion of an earlier holder's node.
    pub too_early: u64,
    /// Effective number of acquisitions in `checked` that the servers' clock could have caught.
    pub contested: u64,
    /// Acquisitions in `checked_by_zxid` that had to wait for another node's deletion.
    pub contested_by_zxid: u64,
    /// Holders' nodes that are gone without a record of their end in any server's log: the ensemble has lost
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
    fn only_stuck_requires_broken_progress_and_intact_exclusion_and_order() {
        let violated = || Verdict::Violated(vec!["so it was".into()]);
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
    fn holds_are_short_if_they_lack_more_than_a_rounding_error() {
        let mut short = ShortHolds::default();
        for (held_us, asked_us) in [(4_000, 4_000), (9_000, 4_000), (3_991, 4_000), (0, 0)] {
            short.note(held_us, asked_us);
        }
        assert_eq!(short, ShortHolds::default());
        short.note(500, 4_000);
        short.note(3_900, 4_000);
        assert_eq!(short, ShortHolds { count: 2, lacked_us: 3_500 });
    }

    #[test]
    fn hold_is_lost_only_after_a_server_confirms_the_closed_session() {
        let mut overlaps = Overlaps::default();
        // Given two holds that ended while another contender was closing their sessions
        overlaps.closing.insert((1, 100), (0xa, 150));
        overlaps.closing.insert((2, 200), (0xb, 250));
        // When the servers have closed one of the two
        overlaps.settle(|_, session| session == 0xb);
        // Then that hold was lost, and the other is uncertain
        let doubt = |session, left| Doubt { session, left, ..Doubt::default() };
        let doubts =
            [((2, 200), doubt(SessionEnd::Expired, 250)), ((1, 100), doubt(SessionEnd::Unknown, 150))];
        assert_eq!(overlaps.doubts, HashMap::from(doubts));
        assert!(overlaps.closing.is_empty());
    }
}
