//! What a trial is judged by, and what was judged of it or of a run.
//!
//! The facts are what the ensemble wrote down of a lock's holders, what contenders believed and saw (two inside at once,
//! say), and what they did, as it was noted and before it is written as a history. [`crate::Trial`] carries them
//! from the load to its judge. There may be any number of them, so they are spooled, the judge drops them, and no file
//! has them. What comes of them, files have: the verdicts, the violations, and what could have been seen.

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

/// A verdict in its parts. Each says by itself why it is what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// What exclusion, progress, order and, of a run, its figures come to. The counts have no say in it: where they
    /// disagree, figures are doubtful, not the lock.
    pub verdict: Verdict,
    /// Why that is not `held`, in one sentence without a full stop; `None` when it is.
    pub why: Option<String>,
    /// Whether nobody was inside who should not have been, as contenders saw it.
    pub exclusion: Verdict,
    /// Whether every lock that was free and wanted was acquired and, after faults, every waiter served; `None` where there was no
    /// fault and no lock was stuck.
    pub progress: Option<Verdict>,
    /// Whether nobody entered too early, as the ensemble saw it; `None` where it could not be asked.
    pub order: Option<Verdict>,
    /// Whether client, cost model and servers count the same; `None` where only one of them counted.
    pub accounting: Option<Verdict>,
    /// Of a run: whether its figures were measured by a generator that held up. `None` of a trial, which says so itself,
    /// and in runs of versions that counted it among the doubts about exclusion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Verdict>,
}

/// Verdicts on each part, before they are put together.
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
    /// Whether the one promise that was broken is that everybody is served: nobody was seen inside who should not have been.
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

/// By how much the wall clock of a server on this host may differ from ours, in milliseconds: both count whole
/// milliseconds, or are read one after the other.
pub const CLOCKS_DIFFER_MS: i64 = 2;

/// A contender entered by virtue of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub lock: usize,
    pub contender: usize,
    pub claim: LockClaim,
    pub czxid: i64,
    /// As of which transaction it found that it holds, where a reply told.
    pub zxid: Option<i64>,
    pub called: Stamp,
    pub entered: Stamp,
    /// When it was about to leave, before it asked for the deletion of its node; `None` while it is inside.
    pub left: Option<Stamp>,
}

impl Grant {
    pub fn by_node(&self) -> (usize, i64, Stamp) {
        (self.lock, self.czxid, self.entered)
    }
}

/// The grants of a trial, in the order of locks and nodes.
pub type Grants = Sorted<Grant, (usize, i64, Stamp)>;

/// A node's life, as the ensemble wrote it down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The transaction that deleted it; `None` while it is there.
    pub deleted: Option<i64>,
    /// When that was proposed, in milliseconds of the leader's wall clock since 1970.
    pub deleted_at_ms: Option<i64>,
    pub with_its_session: bool,
}

/// The lives of nodes, by the transaction that created each.
pub type Lives = SpooledTable<Life>;

/// By virtue of what the contenders of a trial entered, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub kind: LockKind,
    pub began: Stamp,
    /// Two inside at once, as contenders saw it.
    pub overlaps: Overlaps,
    pub grants: Grants,
    /// What the servers' logs tell of the trial's nodes; empty where they cannot be read.
    pub lives: Lives,
    /// That no node of a contender is left.
    pub all_gone: bool,
    /// Turns stamps into the time of the servers' host.
    pub wall: WallClock,
    /// By how much that time may differ from a server's, in milliseconds: [`CLOCKS_DIFFER_MS`], and by what the clock was
    /// set during the trial.
    pub clocks_differ_ms: i64,
    /// Where what does not fit into memory may go while all this is judged.
    pub scratch: PathBuf,
}

impl Facts {
    /// Whether a node is gone of whose end no server's log tells. Then the ensemble has lost transactions that it had
    /// acknowledged, and nothing that depends on that node can be held against the lock.
    pub fn is_forgotten(&self, life: &Life) -> bool {
        self.all_gone && life.deleted.is_none()
    }
}

/// A moment, and the generator thread that it comes from.
pub type Noted = (usize, Moment);

/// As of which transaction a contender entered at that time, where only the servers' logs tell.
pub type EnteredAsOf = (Stamp, usize, i64);

/// What contenders did, as noted and as the servers' logs add to it; spooled, since there may be any number.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// By their time, and of the same time by thread.
    pub noted: Sorted<Noted, (Stamp, usize)>,
    pub entered_as_of: Sorted<EnteredAsOf, (Stamp, usize)>,
    pub lives: Lives,
    /// Some are missing, because they came faster than the disk took them.
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
    /// Of the latest time that was asked for, and the first of a later one.
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

/// A hold as the contenders of one process saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupant {
    pub contender: usize,
    pub sequence: Option<i64>,
    pub czxid: Option<i64>,
    pub claim: LockClaim,
    /// When acquire was called.
    pub asked: Stamp,
    pub entered: Stamp,
}

impl Occupant {
    /// Its token: the transaction that created its node, or the node's number where that is not known.
    pub fn token(&self) -> Option<i64> {
        self.czxid.filter(|czxid| *czxid > 0).or(self.sequence)
    }

    pub fn hold(&self) -> Hold {
        (self.contender, self.entered)
    }
}

/// An entry beside more holders than the lock allows, with all that were inside and in its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    pub lock: usize,
    pub entered: Occupant,
    /// The latest [`Overlap::INSIDE_KEPT`].
    pub inside: Vec<Occupant>,
    /// Leases of the others.
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

/// How the session behind a hold ended up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionEnd {
    /// It was alive when the lock was released.
    #[default]
    Alive,
    Expired,
    /// The release may or may not have happened.
    Unknown,
}

/// Why it is doubtful whether a hold was one to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubt {
    pub session: SessionEnd,
    /// When the connection was lost during the hold, each time with its return.
    pub suspended: Vec<(Stamp, Stamp)>,
    /// When the hold ended.
    pub left: Stamp,
}

impl Doubt {
    pub fn was_suspended(&self, at: Stamp) -> bool {
        self.suspended.iter().any(|(lost, back)| (*lost..*back).contains(&at))
    }
}

/// A hold: its contender, and when it began.
pub type Hold = (usize, Stamp);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// The first, in any order.
    pub kept: Vec<Overlap>,
    pub count: u64,
    /// Holders in those kept.
    inside_kept: usize,
    pub doubts: HashMap<Hold, Doubt>,
    /// Holds whose session was being closed by another when they ended: the session, and when that was.
    pub closing: HashMap<Hold, (i64, Stamp)>,
}

impl Overlaps {
    /// Overlaps kept of a thread; a lock that does not exclude would fill the memory.
    pub const KEPT: usize = 10_000;
    /// Holders kept of a thread, over all its overlaps.
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

    /// Takes the holds for lost whose sessions have been closed in them, as that function knows of a contender and a
    /// session. Where no server has answered, the session may be over or not: such a hold excuses nothing, and proves
    /// nothing either.
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
    /// The contender's number within the trial.
    pub contender: usize,
    /// The sequence number of its queue node; `None` for a lock without one.
    pub sequence: Option<i64>,
    /// The czxid of its node (the fencing token), if it has one.
    pub czxid: Option<i64>,
    /// When it entered, in microseconds since the trial's measured phase began (negative: before it).
    pub entered_us: i64,
}

/// Entry into a critical section while another contender was still in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// The contender that was already inside.
    pub inside: Holder,
    /// The contender that entered.
    pub entered: Holder,
    /// When it was noticed.
    #[serde(rename = "noticed_us")]
    pub at: Stamp,
}

/// What an entry beside too many holders was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverlapClass {
    /// The holders whose sessions were alive took more than the lock allows beside the one that entered.
    Violation,
    /// Only holders that had lost their sessions made it too many: they believed that they held what the ensemble had
    /// given to others. No lock with sessions can prevent that; fencing can.
    Zombie,
    /// It depends on a holder of which it is not known whether it held.
    Uncertain,
}

/// Overlaps that are no violations, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excused {
    /// Of the class zombie.
    pub zombies: u64,
    /// Of the class uncertain.
    pub uncertain: u64,
    /// The longest time for which a zombie was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
}

/// How many entries could have shown that a lock does not exclude.
///
/// A lock that lets somebody in too early does so at some time of its wait. It shows only if others were in the way then,
/// so each entry counts by the share of its wait in which they were, and would have been seen to be.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct KeptOut {
    pub entries: u64,
    /// Entries that were kept out for a part of their wait.
    pub waited: u64,
    /// The sum of these parts, as shares of the waits.
    pub shares: f64,
}

impl KeptOut {
    /// A contender entered that had been kept out for so long of its wait.
    pub fn entry(&mut self, kept_out: u64, wait: u64) {
        self.entries += 1;
        if kept_out > 0 {
            self.waited += 1;
            self.shares += (kept_out as f64 / wait.max(1) as f64).min(1.0);
        }
    }

    /// As how many entries the shares count.
    pub fn as_many_as(&self) -> u64 {
        self.shares.round() as u64
    }
}

added_up!(KeptOut { entries, waited, shares });

/// Holds that were shorter than they were asked to be, though nothing ended them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ShortHolds {
    pub count: u64,
    /// The most that one of them lacked.
    pub lacked_us: u64,
}

impl ShortHolds {
    /// By how much a hold may seem too short because its stamps are whole microseconds of two clocks.
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

/// How many entries of a trial could have shown that the lock does not exclude, and by which means. What no means could
/// have caught is no evidence that it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Entries of the whole trial.
    pub entries: u64,
    /// Of those, the ones that were kept out by others who were inside.
    pub waited: u64,
    /// As many as could have been seen entering while another was inside: each counts by the share of its wait in which
    /// somebody was inside and others could run.
    pub seen_inside: u64,
    /// Those for whom the servers' transactions show that they had to wait, and as of which one they entered.
    pub by_transactions: u64,
    /// As many as could have been caught by the servers' clock: each counts by the share of its wait for which the node
    /// in its way was there for longer than the clocks may differ.
    pub by_clock: u64,
    /// Holders that had asked for the deletion of their own node before they left.
    pub given_up_early: u64,
}

added_up!(Evidence { entries, waited, seen_inside, by_transactions, by_clock, given_up_early });

impl Evidence {
    /// How many acquisitions were checked, by the means that checked the most.
    pub fn catchable(&self) -> u64 {
        self.seen_inside.max(self.by_transactions).max(self.by_clock)
    }

    /// How many acquisitions each means checked.
    pub fn describe(&self) -> String {
        format!(
            "{} by seeing two inside, {} by the ensemble's transactions, {} by its clock",
            self.seen_inside, self.by_transactions, self.by_clock
        )
    }
}

/// Exclusion as the ensemble saw it, by its transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnsembleOrder {
    /// Entries that could be compared with the logs.
    pub checked: u64,
    /// Entries while the node of an earlier holder was still there, by the servers' clock.
    pub overlaps: u64,
    /// Entries of which it is known as of which transaction the contender found that it holds.
    pub checked_by_zxid: u64,
    /// Of those, the ones as of a transaction before the one that deleted the node of an earlier holder.
    pub too_early: u64,
    /// Of the entries checked, as many as could have been caught by the servers' clock.
    pub contested: u64,
    /// Of those checked by transactions, the ones that had to wait for another's node to go.
    pub contested_by_zxid: u64,
    /// Nodes by which contenders held that are gone without any server's log telling of their end: the ensemble has lost
    /// transactions that it had acknowledged.
    pub forgotten: u64,
    /// The first that was wrong.
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
    fn only_stuck_is_what_left_contenders_waiting_and_let_nobody_in_beside_another() {
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
    fn holds_are_short_when_more_than_a_rounding_error_is_missing() {
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
    fn a_session_that_was_to_be_closed_excuses_a_hold_only_once_a_server_has_said_so() {
        let mut overlaps = Overlaps::default();
        // Given two holds that ended while somebody else was closing their sessions
        overlaps.closing.insert((1, 100), (0xa, 150));
        overlaps.closing.insert((2, 200), (0xb, 250));
        // When the servers have closed one of the two
        overlaps.settle(|_, session| session == 0xb);
        // Then that one was lost, and of the other it is not known
        let doubt = |session, left| Doubt { session, left, ..Doubt::default() };
        let doubts =
            [((2, 200), doubt(SessionEnd::Expired, 250)), ((1, 100), doubt(SessionEnd::Unknown, 150))];
        assert_eq!(overlaps.doubts, HashMap::from(doubts));
        assert!(overlaps.closing.is_empty());
    }
}
