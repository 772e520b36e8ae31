//! From what became of the locks to one verdict, and what a reader must know beside it.

use super::checker::Ending;
use super::judgement::LockReport;
use crate::record::history::LockKind;
use crate::verdict::Verdict;

/// A count of one lock, and the sentence for it.
type Reason = (fn(&LockReport) -> u64, &'static str);

const VIOLATED: &[Reason] = &[
    (|lock| lock.violations.count, "entries while another was inside whose session was alive"),
    (|lock| lock.order.too_early, "holders let in before the node of the one before them was deleted"),
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
    match lock.kind {
        LockKind::Mutex if lock.several_clocks => {
            lock.order.not_compared_across_clocks.max(lock.order.without_token)
        }
        LockKind::Semaphore(_) | LockKind::ReadWrite if lock.several_clocks => lock.acquired,
        _ => 0,
    }
}

/// The verdict on all locks, and the notes.
pub fn of(locks: &[LockReport], complete: Option<bool>, ending: Ending) -> (Verdict, Vec<String>) {
    let mut violated = reasons(locks, VIOLATED);
    let zombies = reasons(locks, &[(|lock| lock.zombies.count, "entries while a zombie was inside")]);
    if ending.strict {
        violated.extend(zombies);
    }
    let mut unknown = reasons(locks, UNKNOWN);
    unknown.extend(no_evidence(locks));
    unknown.extend(broken_off(complete, ending));
    let mut verdict = Verdict::Held;
    if !violated.is_empty() {
        verdict = Verdict::Violated(violated);
    } else if !unknown.is_empty() {
        verdict = Verdict::Unknown(unknown);
    }
    (verdict, notes(locks, complete))
}

fn reasons(locks: &[LockReport], of: &[Reason]) -> Vec<String> {
    let all = locks.iter().flat_map(|lock| of.iter().map(move |(count, what)| (lock, count(lock), what)));
    all.filter(|(_, count, _)| *count > 0)
        .map(|(lock, count, what)| format!("{}: {what}: {count}", lock.name))
        .collect()
}

/// Without two contenders of which one waited there was nothing to exclude.
fn no_evidence(locks: &[LockReport]) -> Option<String> {
    let mut contended = locks.iter().filter(|lock| lock.contended).peekable();
    if contended.peek().is_none() {
        return Some("no lock was acquired by two contenders, so nothing was excluded".into());
    }
    let waited = contended.any(|lock| lock.waited + lock.order.waited > 0);
    (!waited).then(|| "nobody ever waited for another, so nothing was excluded".into())
}

fn broken_off(complete: Option<bool>, ending: Ending) -> Option<String> {
    if let Some(line) = ending.cut_off_at {
        return Some(format!("the history breaks off in line {line}; what followed is not known"));
    }
    (complete == Some(false)).then(|| "the history says that it is not complete".to_owned())
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
            lock.kind == LockKind::Mutex && lock.acquired > 1 && lock.order.compared == 0
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
