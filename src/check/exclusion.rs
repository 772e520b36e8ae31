//! Did the lock exclude?

use crate::measure::Measure;
use crate::record::{Completeness, Trial};
use crate::units::contenders;
use crate::verdict::Verdict;

/// The verdict on one trial, by what the oracle saw in it.
///
/// A violation outweighs everything. Held needs a complete trial in which contenders really waited for each
/// other: without contention there was nothing to exclude.
#[must_use]
pub fn exclusion(trial: &Trial) -> Verdict {
    if trial.violation_count > 0 {
        return Verdict::Violated(vec![describe(trial)]);
    }
    let mut doubts = Vec::new();
    if let Completeness::Partial(why) = &trial.completeness {
        doubts.push(format!("{}: partial: {why}", name(trial)));
    }
    let lost = trial.whole.outcomes.get(crate::measure::Outcome::LostWhileHeld);
    if lost > 0 {
        doubts.push(format!("{}: {lost} holds were lost with their session", name(trial)));
    }
    let handed_over = trial.histograms.get(&Measure::Handoff).map_or(0, |handoffs| handoffs.len());
    if trial.contenders < 2 {
        doubts.push(format!("{}: one contender has nobody to exclude", name(trial)));
    } else if handed_over == 0 {
        doubts.push(format!("{}: nobody ever waited for another", name(trial)));
    }
    if doubts.is_empty() { Verdict::Held } else { Verdict::Unknown(doubts) }
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
