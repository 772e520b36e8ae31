//! From what became of the locks to one verdict, and what a reader must know beside it.

use super::checker::HistoryEnd;
use super::judgement::LockReport;
use crate::check::evidence::suffices;
use crate::words::units::counted;
use crate::words::verdict::Verdict;

/// A count of one lock, and the sentence for it.
type Reason = (fn(&LockReport) -> u64, &'static str);

const VIOLATED: &[Reason] = &[
    (|lock| lock.violations.count, "entries while another was inside whose session was alive"),
    (|lock| lock.order.too_early, "holders let in before the previous holder's node was deleted"),
    (|lock| lock.writes.stale_accepted, "writes accepted with an older token than one accepted before"),
    (|lock| lock.stuck, "acquires that never ended"),
];

const UNKNOWN: &[Reason] = &[
    (|lock| lock.uncertain.count, "entries while another may have been inside"),
    (|lock| lock.writes.undecided, "writes with an older token, accepted before or after the newer one"),
    (|lock| lock.writes.across_clocks, "writes that no zxid puts in order with those of other clocks"),
    (|lock| lock.writes.without_token, "writes accepted without a token"),
    (uncompared, "holders on different clocks that could not be compared"),
];

/// Pairs of holders that neither a common clock nor the ensemble puts in order.
fn uncompared(lock: &LockReport) -> u64 {
    let uncompared = lock.order.not_compared_across_clocks.max(lock.order.without_token);
    if lock.several_clocks { uncompared } else { 0 }
}

pub fn of(locks: &[LockReport], complete: Option<bool>, ending: HistoryEnd) -> (Verdict, Vec<String>) {
    let mut violated = reasons(locks, VIOLATED);
    let zombies = reasons(locks, &[(|lock| lock.zombies.count, "entries while a zombie was inside")]);
    if ending.strict {
        violated.extend(zombies);
    }
    let mut unknown = reasons(locks, UNKNOWN);
    let no_evidence = no_evidence(locks);
    let of_more = no_evidence.as_ref().map(|_| TOLD_BY_MORE.to_owned());
    unknown.extend(no_evidence);
    unknown.extend(broken_off(complete, ending));
    let mut verdict = Verdict::Held;
    if !violated.is_empty() {
        verdict = Verdict::Violated(violated);
    } else if !unknown.is_empty() {
        verdict = Verdict::Unknown(unknown);
    }
    (verdict, notes(locks, complete).into_iter().chain(of_more).collect())
}

/// Why a run may be held of which the history is unknown, and how to find out.
const TOLD_BY_MORE: &str = "a history shows neither who waited within a process nor the servers' transaction logs: a \
                            run of this suite is judged by those, too (`zklockbench check` with the run's directory)";

fn reasons(locks: &[LockReport], of: &[Reason]) -> Vec<String> {
    let all = locks.iter().flat_map(|lock| of.iter().map(move |(count, what)| (lock, count(lock), what)));
    all.filter(|(_, count, _)| *count > 0)
        .map(|(lock, count, what)| format!("{}: {what}: {count}", lock.name))
        .collect()
}

/// Without two contenders of which one waited there was nothing to exclude.
fn no_evidence(locks: &[LockReport]) -> Option<String> {
    let contended: Vec<&LockReport> = locks.iter().filter(|lock| lock.contended).collect();
    if contended.is_empty() {
        return Some("no lock was acquired by two contenders, so exclusion was never tested".into());
    }
    let caught: u64 = contended.iter().map(|lock| lock.seen_inside.max(lock.order.waited)).sum();
    let entries: u64 = contended.iter().map(|lock| lock.acquired).sum();
    match caught {
        0 => Some("no contention was recorded, so exclusion was never tested".into()),
        _ if suffices(caught, entries, contended.len()) => None,
        _ => {
            let entries = counted(entries, "entry", "entries");
            Some(format!(
                "too little evidence: a violation would have been detected at only {caught} of {entries}"
            ))
        }
    }
}

fn broken_off(complete: Option<bool>, ending: HistoryEnd) -> Option<String> {
    if let Some(line) = ending.cut_off_at {
        return Some(format!("the history breaks off in line {line}; what followed is unknown"));
    }
    (complete == Some(false)).then(|| "the history says that it is incomplete".to_owned())
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
        names("the ensemble's view was not checked, for lack of `token`, `zxid` or `deleted_zxid`", |lock| {
            lock.acquired > 1 && lock.order.compared == 0
        }),
        names("the ensemble's view was checked for some holders only, for lack of zxids", |lock| {
            lock.order.compared > 0 && lock.order.not_compared + lock.order.without_token > 0
        }),
        names("holders stayed inside although they had been told that their session had ended", |lock| {
            lock.ignored_expiry > 0
        }),
        names("acquires were still waiting when the history ended", |lock| lock.unfinished > 0),
        complete.is_none().then(|| "the history does not say whether it is complete".to_owned()),
    ];
    notes.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::judgement::{OrderReport, Overlaps, WriteReport};
    use super::*;
    use crate::record::history::LockKind;

    /// A mutex that two contenders got, one after a wait, and which the ensemble's view confirms.
    fn sound(name: &str) -> LockReport {
        LockReport {
            name: name.to_owned(),
            kind: LockKind::Mutex,
            acquired: 5,
            failed: 0,
            unknown: 0,
            waited: 3,
            seen_inside: 3,
            contended: true,
            several_clocks: false,
            violations: Overlaps::default(),
            zombies: Overlaps::default(),
            uncertain: Overlaps::default(),
            ignored_expiry: 0,
            order: OrderReport { compared: 4, ..OrderReport::default() },
            writes: WriteReport::default(),
            stuck: 0,
            unfinished: 0,
        }
    }

    fn judge(locks: &[LockReport]) -> (Verdict, Vec<String>) {
        of(locks, Some(true), HistoryEnd::default())
    }

    /// The verdict on a lock that is sound but for one thing.
    fn after(change: impl FnOnce(&mut LockReport)) -> Verdict {
        let mut lock = sound("l");
        change(&mut lock);
        judge(&[lock]).0
    }

    fn notes_after(change: impl Fn(&mut LockReport)) -> Vec<String> {
        let mut lock = sound("l");
        change(&mut lock);
        judge(&[lock]).1
    }

    fn violated(what: &str) -> Verdict {
        Verdict::Violated(vec![what.to_owned()])
    }

    fn unknown(what: &str) -> Verdict {
        Verdict::Unknown(vec![what.to_owned()])
    }

    #[test]
    fn a_lock_that_was_waited_for_and_shows_nothing_wrong_is_held_without_a_note() {
        assert_eq!(judge(&[sound("l")]), (Verdict::Held, vec![]));
    }

    #[test]
    fn each_way_to_break_the_promise_violates_with_its_count() {
        let entries = "l: entries while another was inside whose session was alive: 2";
        assert_eq!(after(|lock| lock.violations.count = 2), violated(entries));
        let early = "l: holders let in before the previous holder's node was deleted: 1";
        assert_eq!(after(|lock| lock.order.too_early = 1), violated(early));
        let stale = "l: writes accepted with an older token than one accepted before: 3";
        assert_eq!(after(|lock| lock.writes.stale_accepted = 3), violated(stale));
        assert_eq!(after(|lock| lock.stuck = 1), violated("l: acquires that never ended: 1"));
    }

    #[test]
    fn each_thing_that_cannot_be_told_leaves_it_unknown() {
        let inside = "l: entries while another may have been inside: 1";
        assert_eq!(after(|lock| lock.uncertain.count = 1), unknown(inside));
        let undecided = "l: writes with an older token, accepted before or after the newer one: 1";
        assert_eq!(after(|lock| lock.writes.undecided = 1), unknown(undecided));
        let across = "l: writes that no zxid puts in order with those of other clocks: 1";
        assert_eq!(after(|lock| lock.writes.across_clocks = 1), unknown(across));
        let tokenless = "l: writes accepted without a token: 1";
        assert_eq!(after(|lock| lock.writes.without_token = 1), unknown(tokenless));
    }

    #[test]
    fn a_violation_of_one_lock_outweighs_what_is_unknown_of_another() {
        let mut locks = [sound("a"), sound("b")];
        locks[0].uncertain.count = 1;
        locks[1].violations.count = 1;
        let (verdict, _) = judge(&locks);
        assert_eq!(verdict, violated("b: entries while another was inside whose session was alive: 1"));
    }

    #[test]
    fn zombies_violate_only_a_strict_reading() {
        let mut lock = sound("l");
        lock.zombies.count = 2;
        assert_eq!(judge(&[lock.clone()]).0, Verdict::Held);
        let strict = HistoryEnd { strict: true, ..HistoryEnd::default() };
        let told = violated("l: entries while a zombie was inside: 2");
        assert_eq!(of(&[lock], Some(true), strict).0, told);
    }

    #[test]
    fn holders_on_different_clocks_need_the_ensemble_to_be_compared() {
        let told = |count: u64| {
            unknown(&format!("l: holders on different clocks that could not be compared: {count}"))
        };
        let missing = |several_clocks| {
            after(|lock| {
                lock.several_clocks = several_clocks;
                lock.order.not_compared_across_clocks = 2;
                lock.order.without_token = 3;
            })
        };
        assert_eq!(missing(true), told(3));
        assert_eq!(missing(false), Verdict::Held, "on one clock their beliefs are compared");
        assert_eq!(after(|lock| lock.several_clocks = true), Verdict::Held);
    }

    #[test]
    fn without_contention_on_some_lock_nothing_was_excluded() {
        let nobody = unknown("no lock was acquired by two contenders, so exclusion was never tested");
        assert_eq!(judge(&[]).0, nobody);
        assert_eq!(after(|lock| lock.contended = false), nobody);
        let unmet = unknown("no contention was recorded, so exclusion was never tested");
        assert_eq!(after(|lock| lock.seen_inside = 0), unmet);
        let few = unknown("too little evidence: a violation would have been detected at only 1 of 5 entries");
        assert_eq!(after(|lock| lock.seen_inside = 1), few);
        let by_the_ensemble = |lock: &mut LockReport| {
            lock.seen_inside = 0;
            lock.order.waited = 2;
        };
        assert_eq!(after(by_the_ensemble), Verdict::Held);
        let mut idle = sound("a");
        idle.contended = false;
        assert_eq!(judge(&[idle, sound("b")]).0, Verdict::Held, "one lock with contention is enough");
    }

    #[test]
    fn where_nothing_shows_that_anybody_was_kept_out_it_is_said_that_a_run_is_judged_by_more() {
        let mut silent = sound("l");
        silent.seen_inside = 0;
        let (verdict, notes) = judge(&[silent]);
        assert!(
            matches!(verdict, Verdict::Unknown(_)) && notes.contains(&TOLD_BY_MORE.to_owned()),
            "{notes:?}"
        );
        assert!(!judge(&[sound("l")]).1.contains(&TOLD_BY_MORE.to_owned()));
    }

    #[test]
    fn a_history_without_its_end_leaves_it_unknown_and_one_that_does_not_say_gets_a_note() {
        let judged =
            |complete, cut_off_at| of(&[sound("l")], complete, HistoryEnd { cut_off_at, strict: false });
        let broken = unknown("the history breaks off in line 7; what followed is unknown");
        assert_eq!(judged(Some(false), Some(7)), (broken, vec![]));
        assert_eq!(judged(Some(false), None), (unknown("the history says that it is incomplete"), vec![]));
        let silent = vec!["the history does not say whether it is complete".to_owned()];
        assert_eq!(judged(None, None), (Verdict::Held, silent));
    }

    #[test]
    fn what_could_not_be_checked_against_the_ensemble_is_noted() {
        let unchecked =
            ["the ensemble's view was not checked, for lack of `token`, `zxid` or `deleted_zxid`: l"];
        assert_eq!(notes_after(|lock| lock.order.compared = 0), unchecked);
        let nothing_to_compare = |lock: &mut LockReport| {
            lock.order.compared = 0;
            lock.acquired = 1;
        };
        assert!(notes_after(nothing_to_compare).is_empty());
        let partly = ["the ensemble's view was checked for some holders only, for lack of zxids: l"];
        assert_eq!(notes_after(|lock| lock.order.not_compared = 1), partly);
        assert_eq!(notes_after(|lock| lock.order.without_token = 1), partly);
        let never = |lock: &mut LockReport| {
            lock.order.compared = 0;
            lock.order.not_compared = 1;
        };
        assert_eq!(notes_after(never), unchecked, "that says it all");
    }

    #[test]
    fn what_a_reader_should_know_of_holders_and_waiters_is_noted() {
        let ignored = ["holders stayed inside although they had been told that their session had ended: l"];
        assert_eq!(notes_after(|lock| lock.ignored_expiry = 1), ignored);
        let waiting = ["acquires were still waiting when the history ended: l"];
        assert_eq!(notes_after(|lock| lock.unfinished = 1), waiting);
    }

    #[test]
    fn of_many_locks_a_note_names_three() {
        let noted = |names: &[&str]| {
            let locks: Vec<LockReport> =
                names.iter().map(|name| LockReport { unfinished: 1, ..sound(name) }).collect();
            judge(&locks).1[0].rsplit_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(noted(&["a", "b", "c"]), "a, b, c");
        assert_eq!(noted(&["a", "b", "c", "d"]), "a, b, c and others");
    }
}
