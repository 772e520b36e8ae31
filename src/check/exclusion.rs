//! Did the lock exclude?

use super::ensemble_order;
use super::evidence::suffices;
use crate::record::{Completeness, Evidence, Trial};
use crate::units::contenders;
use crate::verdict::Verdict;

/// Judges a trial by what was seen of it: the facts that it comes with, if it has just ended, which it has no more
/// afterwards; or what was made of them before.
pub fn judge(trial: &mut Trial) {
    if let Some(order) = trial.facts.take().and_then(ensemble_order::judge) {
        let evidence = trial.evidence.get_or_insert_default();
        evidence.by_transactions = order.contested_by_zxid;
        evidence.by_clock = order.contested;
        trial.ensemble_order = Some(order);
    }
    trial.exclusion = exclusion(trial);
}

/// The verdict on one trial.
///
/// A violation outweighs everything. Held needs a complete trial, and entries at which a lock that does not exclude would
/// have been caught: two inside together only show where somebody else could run while one was inside, and where somebody
/// was kept out.
fn exclusion(trial: &Trial) -> Verdict {
    if trial.violation_count > 0 {
        return Verdict::Violated(vec![describe(trial)]);
    }
    if let Some(order) = trial.ensemble_order.as_ref().filter(|order| order.is_broken()) {
        let first = order.first.as_deref().unwrap_or_default();
        let (clock, zxids) = (order.overlaps, order.too_early);
        let what = format!(
            "{}: {clock} by the servers' clock and {zxids} by their transactions entered too early; {first}",
            name(trial)
        );
        return Verdict::Violated(vec![what]);
    }
    let given_up = trial.evidence.map_or(0, |evidence| evidence.given_up_early);
    if given_up > 0 {
        let what =
            format!("{}: {given_up} holders had given up their own node before they released", name(trial));
        return Verdict::Violated(vec![what]);
    }
    if !trial.stuck.is_empty() {
        let (count, first) = (trial.stuck.len(), trial.stuck[0].contender);
        let what = format!("{}: {count} contenders are stuck, the first is {first}", name(trial));
        return Verdict::Violated(vec![what]);
    }
    let mut doubts = Vec::new();
    if let Completeness::Partial(why) = &trial.completeness {
        doubts.push(format!("{}: partial: {why}", name(trial)));
    }
    doubts.extend(faults(trial));
    let lost = trial.whole.lost_while_held;
    // Where sessions are broken on purpose, each overlap is judged by what was the matter with them.
    if lost > 0 && trial.faults.is_empty() {
        doubts.push(format!("{}: {lost} holds were lost with their session", name(trial)));
    }
    if trial.contenders < 2 {
        doubts.push(format!("{}: one contender has nobody to exclude", name(trial)));
    } else if let Some(why) = too_little(&trial.evidence.unwrap_or_default(), trial.locks) {
        doubts.push(format!("{}: {why}", name(trial)));
    }
    if doubts.is_empty() { Verdict::Held } else { Verdict::Unknown(doubts) }
}

/// Why the evidence does not suffice, and what would help; `None` when it does.
fn too_little(evidence: &Evidence, locks: usize) -> Option<String> {
    let caught = evidence.catchable();
    let entries = evidence.entries;
    if suffices(caught, entries, locks) {
        return None;
    }
    if entries == 0 {
        return Some("nobody acquired the lock".into());
    }
    if caught == 0 && evidence.waited == 0 {
        return Some(format!(
            "too little evidence: in {entries} entries nobody was seen to be kept out; a longer hold, more contenders (than a \
             semaphore has leases, or with writers among the readers) or servers started for the run would show more"
        ));
    }
    Some(format!(
        "too little evidence: {}; a longer hold, a longer trial or servers started for the run would show more",
        evidence.describe()
    ))
}

/// Of the trials that were held the one whose verdict rests on the least, with its evidence; `None` where none was held.
#[must_use]
pub fn least_evidence(trials: &[Trial]) -> Option<String> {
    let held = trials.iter().filter(|trial| trial.exclusion == Verdict::Held);
    let (trial, evidence) = Evidence::least(held.map(|trial| (trial, trial.evidence)))?;
    Some(format!("{}: {}", name(trial), evidence.describe()))
}

/// What is doubtful about a trial's faults: nothing can be put down to one whose effect was not seen, and an overlap
/// whose outcome is not known proves nothing.
fn faults(trial: &Trial) -> Vec<String> {
    let unproved =
        trial.faults.iter().filter(|fault| !fault.proved).map(|fault| {
            format!("{}: fault {} ({}): {}", name(trial), fault.number, fault.label, fault.proof)
        });
    let left = trial.faults.iter().filter_map(|fault| {
        let why = fault.left.as_ref()?;
        Some(format!("{}: fault {} ({}) was not undone: {why}", name(trial), fault.number, fault.label))
    });
    let uncertain = trial.excused.uncertain;
    let open = (uncertain > 0).then(|| format!("{}: {uncertain} overlaps are uncertain", name(trial)));
    let forgotten = trial.ensemble_order.as_ref().map_or(0, |order| order.forgotten);
    let lost = (forgotten > 0).then(|| {
        format!(
            "{}: the ensemble lost what it had acknowledged: {forgotten} nodes of holders are gone, and no server's \
             log tells of their end (ZOOKEEPER-4643 is one way)",
            name(trial)
        )
    });
    unproved.chain(left).chain(open).chain(lost).collect()
}

/// The verdict on a run: trials with one contender prove nothing and are left out, unless there is nothing
/// else. A trial in which the generator did not hold up leaves the whole unknown.
#[must_use]
pub fn of_run(trials: &[Trial], planned: usize) -> Verdict {
    let contended = || trials.iter().filter(|trial| trial.contenders > 1);
    let mut verdict = if contended().next().is_some() {
        contended().fold(Verdict::Held, |verdict, trial| verdict.and(trial.exclusion.clone()))
    } else {
        Verdict::Unknown(vec!["no trial had two contenders, so nothing was excluded".into()])
    };
    if trials.len() < planned {
        let missing = format!("{} of {planned} trials did not run", planned - trials.len());
        verdict = verdict.and(Verdict::Unknown(vec![missing]));
    }
    let invalid = trials.iter().filter_map(|trial| {
        trial.health.invalid.as_ref().map(|why| format!("{}: invalid: {why}", name(trial)))
    });
    invalid.fold(verdict, |verdict, why| verdict.and(Verdict::Unknown(vec![why])))
}

fn name(trial: &Trial) -> String {
    format!("trial {} ({}, {})", trial.index, trial.label, contenders(trial.contenders))
}

fn describe(trial: &Trial) -> String {
    let count = trial.violation_count;
    let Some(first) = trial.violations.first() else {
        return format!("{}: {count} violations", name(trial));
    };
    let holder = |holder: &crate::record::Holder| {
        let number = holder.sequence.map_or_else(|| "no node".to_owned(), |number| format!("node {number}"));
        format!("contender {} ({number}, in since {} µs)", holder.contender, holder.entered_us)
    };
    format!(
        "{}: {count} violations; the first: {} entered lock {} while {} was inside",
        name(trial),
        holder(&first.entered),
        first.lock,
        holder(&first.inside)
    )
}
