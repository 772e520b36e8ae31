//! Results of a history: reports on the locks, the overall verdict, and notes for the reader.

use zklockbench_core::evidence::{Sensitivity, excluded};
use zklockbench_core::units::counted;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::history::{LinePosition, LockKind};
use zklockbench_record::{KeptOut, Violation};

#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Reports on all used locks, sorted by name.
    pub locks: Vec<LockReport>,
    /// Evidence from acquisitions that had to wait for a holder, over all locks.
    pub kept_out: KeptOut,
    /// Evidence from blocked acquires that ended without the lock.
    pub refused: KeptOut,
    /// First violations, in chronological order.
    pub violations: Vec<FoundViolation>,
    /// First findings of each kind, in line order.
    pub findings: Vec<Finding>,
    /// Skipped checks and other notes for the reader.
    pub notes: Vec<String>,
    /// Checked and total acquisitions, and the error rate that they rule out.
    pub evidence: String,
    pub events: u64,
    pub contenders: usize,
    pub clocks: usize,
}

/// A violation, with the data needed to find its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundViolation {
    pub lock: String,
    pub violation: Violation,
    /// Processes of the contender that was inside and of the contender that entered.
    pub processes: [String; 2],
    /// Processes and numbers of the other holders with live sessions.
    pub beside: Vec<(String, u64)>,
    /// Clock of both contenders.
    pub clock: String,
    /// Length of the overlap in microseconds.
    pub together_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// An overlap with a holder that had a live session.
    Violation,
    /// A holder admitted before an earlier holder's node was deleted.
    Order,
    /// An older token accepted by the fenced resource after a newer one.
    StaleWrite,
    /// An acquire that never ended.
    Stuck,
    /// An overlap after a session had been suspended or had expired. No lock can prevent this, but fencing can.
    Zombie,
    /// An overlap with unknown session states.
    Uncertain,
}

impl Breach {
    pub fn name(self) -> &'static str {
        match self {
            Self::Violation => "violation",
            Self::Order => "order",
            Self::StaleWrite => "stale write",
            Self::Stuck => "stuck",
            Self::Zombie => "zombie",
            Self::Uncertain => "uncertain",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub breach: Breach,
    pub lock: String,
    pub what: String,
    /// Lines that show the breach.
    pub lines: Vec<LinePosition>,
}

/// Overlaps of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlaps {
    pub count: u64,
    /// Longest overlap in microseconds.
    pub longest_us: u64,
}

impl Overlaps {
    pub fn add(&mut self, count: u64, us: u64) {
        self.count += count;
        self.longest_us = self.longest_us.max(us);
    }

    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.add(other.count, other.longest_us);
        self
    }
}

/// Exclusion according to the ensemble.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderReport {
    pub compared: u64,
    /// Pairs that could not be compared.
    pub not_compared: u64,
    /// Pairs in `not_compared` with holders on different clocks.
    pub not_compared_across_clocks: u64,
    /// Pairs in `compared` in which the later holder was admitted too early.
    pub too_early: u64,
    /// Pairs in which the later holder had to wait for the earlier holder.
    pub waited: u64,
    /// Pairs in `waited` with holders on different clocks.
    pub waited_across_clocks: u64,
    /// Grants with an older token than an earlier grant; a fair lock has none.
    pub out_of_order: u64,
    pub without_token: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    pub accepted: u64,
    /// Writes accepted although an earlier write had a newer token: the resource does not fence.
    pub stale_accepted: u64,
    /// Writes rejected for an old token.
    pub stale_rejected: u64,
    /// Writes rejected although their token was the newest.
    pub other_rejected: u64,
    /// Writes with an older token that were accepted before or after a newer token; the order is unknown.
    pub undecided: u64,
    pub without_token: u64,
    /// Writes on different clocks without zxids to order them.
    pub across_clocks: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockReport {
    pub name: String,
    pub kind: LockKind,
    pub acquired: u64,
    pub failed: u64,
    pub unknown: u64,
    /// Acquisitions that were blocked by holders for part of the wait.
    pub waited: u64,
    /// Effective number of acquisitions that would have exposed an overlap, each weighted by the blocked
    /// share of its wait.
    pub seen_inside: u64,
    /// Whether more than one contender acquired the lock.
    pub contended: bool,
    /// Whether contenders on different clocks acquired the lock.
    pub several_clocks: bool,
    pub violations: Overlaps,
    /// Overlaps with a holder whose session was suspended or had expired.
    pub zombies: Overlaps,
    /// Overlaps that cannot be classified.
    pub uncertain: Overlaps,
    /// Holders that kept the lock after being notified of their session's end, while other contenders acquired it.
    pub ignored_expiry: u64,
    pub order: OrderReport,
    pub writes: WriteReport,
    /// Acquires that never ended although later acquires did, or although the history is complete.
    pub stuck: u64,
    /// Acquires still in progress at the end of the history.
    pub unfinished: u64,
}

impl LockReport {
    /// Empty report on a lock.
    pub fn new(name: &str, kind: LockKind) -> Self {
        Self { name: name.to_owned(), kind, ..Self::default() }
    }
}

/// How a history ended, and options for judging it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HistoryEnd {
    /// Number of the last line, if it is cut off.
    pub cut_off_at: Option<u64>,
    pub strict: bool,
    /// Error rate that the acquisitions must rule out for the verdict *held*.
    pub evidence: Sensitivity,
}

/// A count in a lock's report, and the message printed with it.
type Reason = (fn(&LockReport) -> u64, &'static str);

const VIOLATED: &[Reason] = &[
    (|lock| lock.violations.count, "acquisitions during a hold with a live session"),
    (|lock| lock.order.too_early, "holders admitted before the previous holder's node was deleted"),
    (|lock| lock.writes.stale_accepted, "writes accepted after a write with a newer token"),
    (|lock| lock.stuck, "acquires that never ended"),
];

const UNKNOWN: &[Reason] = &[
    (|lock| lock.uncertain.count, "acquisitions during a possible hold of another contender"),
    (|lock| lock.writes.undecided, "writes with an older token, accepted in an unknown order"),
    (|lock| lock.writes.across_clocks, "writes on different clocks without zxids to order them"),
    (|lock| lock.writes.without_token, "writes accepted without a token"),
    (uncompared, "holders on different clocks that could not be compared"),
    (possible, "acquires with an unknown result, on a lock used by contenders on different clocks"),
];

/// Pairs of holders that are ordered neither by a common clock nor by the ensemble.
fn uncompared(lock: &LockReport) -> u64 {
    let uncompared = lock.order.not_compared_across_clocks.max(lock.order.without_token);
    if lock.several_clocks { uncompared } else { 0 }
}

/// Acquires that may have taken effect while contenders on other clocks held the lock.
fn possible(lock: &LockReport) -> u64 {
    if lock.several_clocks { lock.unknown } else { 0 }
}

/// The verdict on all locks of a history, with notes.
pub fn verdict(locks: &[LockReport], complete: Option<bool>, ending: HistoryEnd) -> (Verdict, Vec<String>) {
    let mut violated = reasons(locks, VIOLATED);
    let zombies = reasons(locks, &[(|lock| lock.zombies.count, "acquisitions during a zombie's hold")]);
    if ending.strict {
        violated.extend(zombies);
    }
    let mut unknown = reasons(locks, UNKNOWN);
    let no_evidence = no_evidence(locks, ending.evidence);
    let of_more = no_evidence.as_ref().filter(|_| violated.is_empty()).map(|_| TOLD_BY_MORE.to_owned());
    unknown.extend(no_evidence);
    unknown.extend(broken_off(complete, ending));
    let verdict = Verdict::violated_if(violated).and(Verdict::unknown_if(unknown));
    (verdict, notes(locks, complete).into_iter().chain(of_more).collect())
}

/// The verdict, or *unknown* if other clients have changed the nodes of the locks: no lock can prevent that.
pub fn unless_interfered(first: Option<&String>, verdict: Verdict) -> Verdict {
    first.map_or(verdict, |first| Verdict::unknown(format!("interference: {first}")))
}

/// Note on why a run's verdict may be *held* although the verdict on its history is *unknown*.
const TOLD_BY_MORE: &str = "a history contains neither waits within a process nor the servers' transaction logs; \
    to judge a run by them as well, use `zklockbench check` with the run's directory";

fn reasons(locks: &[LockReport], of: &[Reason]) -> Vec<String> {
    let all = locks.iter().flat_map(|lock| of.iter().map(move |(count, what)| (lock, count(lock), what)));
    all.filter(|(_, count, _)| *count > 0)
        .map(|(lock, count, what)| format!("{}: {what}: {count}", lock.name))
        .collect()
}

/// Reason why the evidence is insufficient; `None` if it suffices.
fn no_evidence(locks: &[LockReport], asked: Sensitivity) -> Option<String> {
    let contended: Vec<&LockReport> = locks.iter().filter(|lock| lock.contended).collect();
    if contended.is_empty() {
        return Some("no lock was acquired by more than one contender, so exclusion was never tested".into());
    }
    let (checked, acquired) = checked(locks);
    match checked {
        0 => Some("no contention was recorded, so exclusion was never tested".into()),
        _ if asked.is_met_by(checked) => None,
        _ => {
            let (all, needed) = (counted(acquired, "acquisition", "acquisitions"), asked.acquisitions());
            Some(format!("too little evidence: {checked} of {all} checked, {asked} needs {needed}"))
        }
    }
}

/// The evidence of a history in one line.
pub fn describe_evidence(locks: &[LockReport]) -> String {
    let (checked, acquired) = checked(locks);
    let all = counted(acquired, "acquisition", "acquisitions");
    format!("{checked} of {all} checked; {}", excluded(checked))
}

/// Checked and total acquisitions of the locks that several contenders acquired.
fn checked(locks: &[LockReport]) -> (u64, u64) {
    let contended = locks.iter().filter(|lock| lock.contended);
    contended.fold((0, 0), |(checked, acquired), lock| {
        (checked + lock.seen_inside.max(lock.order.waited), acquired + lock.acquired)
    })
}

fn broken_off(complete: Option<bool>, ending: HistoryEnd) -> Option<String> {
    if let Some(line) = ending.cut_off_at {
        return Some(format!("the history is truncated at line {line}; later events are unknown"));
    }
    (complete == Some(false)).then(|| "the history is marked incomplete".to_owned())
}

fn notes(locks: &[LockReport], complete: Option<bool>) -> Vec<String> {
    let names = |what: &str, which: fn(&LockReport) -> bool| {
        let names: Vec<&str> =
            locks.iter().filter(|lock| which(lock)).map(|lock| lock.name.as_str()).collect();
        let shown = match names.as_slice() {
            [] => return None,
            [first, second, third, .., _] => format!("{first}, {second}, {third} and others"),
            few => few.join(", "),
        };
        Some(format!("{what}: {shown}"))
    };
    let notes = [
        names(
            "the ensemble's view was not checked because `token`, `zxid` or `deleted_zxid` is missing",
            |lock| lock.acquired > 1 && lock.order.compared == 0,
        ),
        names("the ensemble's view was checked for only some holders because zxids are missing", |lock| {
            lock.order.compared > 0 && lock.order.not_compared + lock.order.without_token > 0
        }),
        names("holders kept the lock after being notified that their session had ended", |lock| {
            lock.ignored_expiry > 0
        }),
        names("acquires were still waiting when the history ended", |lock| lock.unfinished > 0),
        complete.is_none().then(|| "the history does not state whether it is complete".to_owned()),
    ];
    notes.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Report on a contended mutex without errors, checked against the ensemble.
    fn sound(name: &str) -> LockReport {
        LockReport {
            acquired: 9,
            waited: 6,
            seen_inside: 6,
            contended: true,
            order: OrderReport { compared: 4, ..OrderReport::default() },
            ..LockReport::new(name, LockKind::Mutex)
        }
    }

    fn judge(locks: &[LockReport]) -> (Verdict, Vec<String>) {
        verdict(locks, Some(true), HistoryEnd::default())
    }

    fn notes_after(change: impl Fn(&mut LockReport)) -> Vec<String> {
        let mut lock = sound("l");
        change(&mut lock);
        judge(&[lock]).1
    }

    #[test]
    fn violation_on_one_lock_outweighs_an_unknown_verdict_on_another() {
        let mut locks = [sound("a"), sound("b")];
        locks[0].uncertain.count = 1;
        locks[1].violations.count = 1;
        let (verdict, _) = judge(&locks);
        assert_eq!(verdict, Verdict::violated("b: acquisitions during a hold with a live session: 1"));
    }

    #[test]
    fn holders_on_different_clocks_without_a_token_or_a_zxid_are_counted_once() {
        let mut lock = LockReport { several_clocks: true, ..sound("l") };
        (lock.order.not_compared_across_clocks, lock.order.without_token) = (2, 3);
        let expected = Verdict::unknown("l: holders on different clocks that could not be compared: 3");
        assert_eq!(judge(&[lock]).0, expected);
    }

    #[test]
    fn one_lock_with_contention_is_enough() {
        let idle = LockReport { contended: false, ..sound("a") };
        assert_eq!(judge(&[idle, sound("b")]).0, Verdict::Held);
    }

    #[test]
    fn verdict_is_unknown_with_less_evidence_than_requested() {
        let asked =
            |evidence: &str| HistoryEnd { evidence: evidence.parse().unwrap(), ..HistoryEnd::default() };
        let locks = [LockReport { acquired: 500, seen_inside: 460, ..sound("l") }];
        assert_eq!(verdict(&locks, Some(true), asked("0.95@1%")).0, Verdict::Held);
        let few = Verdict::unknown("too little evidence: 460 of 500 acquisitions checked, 0.99@1% needs 461");
        assert_eq!(verdict(&locks, Some(true), asked("0.99@1%")).0, few);
    }

    #[test]
    fn incomplete_history_is_unknown_but_unstated_completeness_yields_only_a_note() {
        let judged = |complete, cut_off_at| {
            verdict(&[sound("l")], complete, HistoryEnd { cut_off_at, ..HistoryEnd::default() })
        };
        let broken = Verdict::unknown("the history is truncated at line 7; later events are unknown");
        assert_eq!(judged(Some(false), Some(7)), (broken, vec![]));
        assert_eq!(judged(Some(false), None), (Verdict::unknown("the history is marked incomplete"), vec![]));
        let silent = vec!["the history does not state whether it is complete".to_owned()];
        assert_eq!(judged(None, None), (Verdict::Held, silent));
    }

    #[test]
    fn note_lists_locks_not_checked_against_the_ensemble() {
        let unchecked =
            ["the ensemble's view was not checked because `token`, `zxid` or `deleted_zxid` is missing: l"];
        assert_eq!(notes_after(|lock| lock.order.compared = 0), unchecked);
        let nothing_to_compare = |lock: &mut LockReport| {
            lock.order.compared = 0;
            lock.acquired = 1;
        };
        assert!(notes_after(nothing_to_compare).is_empty());
        let partly = ["the ensemble's view was checked for only some holders because zxids are missing: l"];
        assert_eq!(notes_after(|lock| lock.order.not_compared = 1), partly);
        assert_eq!(notes_after(|lock| lock.order.without_token = 1), partly);
        let never = |lock: &mut LockReport| {
            lock.order.compared = 0;
            lock.order.not_compared = 1;
        };
        assert_eq!(notes_after(never), unchecked, "one note is enough");
    }

    #[test]
    fn note_lists_at_most_three_locks() {
        let noted = |names: &[&str]| {
            let locks: Vec<LockReport> =
                names.iter().map(|name| LockReport { unfinished: 1, ..sound(name) }).collect();
            judge(&locks).1[0].rsplit_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(noted(&["a", "b", "c"]), "a, b, c");
        assert_eq!(noted(&["a", "b", "c", "d"]), "a, b, c and others");
    }
}
