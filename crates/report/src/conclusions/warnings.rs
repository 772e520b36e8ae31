//! Warnings: locks that broke a promise, limits of the other conclusions, and effects of faults.

use super::{Certainty, Conclusion, Evidence, Topic};
use crate::View;
use crate::view::{Cell, UnderFault};
use zklockbench_core::units::{
    at_least, capitalised, contenders, counted, distinct_sorted, format_micros, joined, listed,
};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;

/// Returns a conclusion about the run as a whole.
fn of_the_run(topic: Topic, evidence: Evidence, strategies: Vec<String>, sentence: String) -> Conclusion {
    let certainty = Certainty::Shown;
    Conclusion { topic, certainty, contenders: None, strategies, sentence, evidence }
}

/// Returns a sentence on each lock that broke a promise.
pub(super) fn must_not_be_used(view: &View<'_>) -> Vec<Conclusion> {
    let of = |strategy: usize| {
        let label = view.strategies[strategy].clone();
        let sentence = broken_promise(view, strategy, &label)?;
        Some(of_the_run(Topic::MustNotBeUsed, Evidence::Verdicts, vec![label], sentence))
    };
    (0..view.strategies.len()).filter_map(of).collect()
}

/// A verdict of a trial on one of the lock's promises.
type Promise = fn(&Trial) -> Option<&Verdict>;

fn broken_promise(view: &View<'_>, strategy: usize, label: &str) -> Option<String> {
    let broken = |promise: Promise| {
        let is_broken = |one: &&Trial| matches!(promise(one), Some(Verdict::Violated(_)));
        let trials: Vec<&Trial> = view.cells_of(strategy).flat_map(Cell::all).filter(is_broken).collect();
        let why = trials.first().and_then(|one| promise(one)?.why())?;
        let of = view.cells_of(strategy).map(|cell| cell.trials.len()).sum::<usize>();
        Some(format!("in {} of {} ({why})", trials.len(), counted(of, "trial", "trials")))
    };
    const EXCLUDED: &str = ": it did not exclude other contenders";
    const WAITED: &str = ": it left contenders waiting for a free lock";
    const STUCK: &str = " where such faults happen: it left contenders waiting after everything had healed";
    let promises: [(Promise, &str); 4] = [
        (|one| Some(&one.judged.exclusion), EXCLUDED),
        (|one| one.judged.order.as_ref(), EXCLUDED),
        (|one| one.judged.progress.as_ref().filter(|_| one.faults.is_empty()), WAITED),
        (|one| one.judged.progress.as_ref(), STUCK),
    ];
    promises
        .into_iter()
        .find_map(|(promise, how)| Some(format!("{label} must not be used{how} {}.", broken(promise)?)))
}

/// Returns the limits of the other conclusions.
pub(super) fn limits(view: &View<'_>) -> Vec<Conclusion> {
    let is_idle = |cell: &Cell<'_>| cell.sum(|one| one.measured.acquired()) == 0;
    let system = |cell: &Cell<'_>| cell.all().find_map(|one| one.spec.strategy.system.clone());
    let systems = || listed(&distinct_sorted(view.cells.iter().filter_map(system)));
    let is_unknown = |cell: &Cell<'_>| cell.is_sound() && matches!(cell.verdict(), Some(Verdict::Unknown(_)));
    let unknown = || {
        let first = view.cells.iter().find(|cell| is_unknown(cell));
        let why = |cell: &Cell<'_>| cell.verdict().and_then(|verdict| verdict.why()).unwrap_or_default();
        first.map_or_else(String::new, |cell| format!("with {}: {}", contenders(cell.contenders), why(cell)))
    };
    let limit = |certainty, evidence, is: &dyn Fn(&Cell<'_>) -> bool, said: &dyn Fn(&str) -> String| {
        let limited = (0..view.strategies.len()).filter(|strategy| view.cells_of(*strategy).any(is));
        let names: Vec<String> = limited.map(|strategy| view.strategies[strategy].clone()).collect();
        let said = said(&listed(&names));
        let is_limited = !names.is_empty();
        is_limited.then(|| Conclusion { certainty, ..of_the_run(Topic::Limits, evidence, names, said) })
    };
    let idle = if !view.cells.is_empty() && view.cells.iter().all(is_idle) {
        let said = "No lock was acquired in any trial, so nothing can be concluded.".to_owned();
        let limit = of_the_run(Topic::Limits, Evidence::Table, Vec::new(), said);
        Some(Conclusion { certainty: Certainty::Unknown, ..limit })
    } else {
        limit(Certainty::Shown, Evidence::Table, &is_idle, &|names| {
            format!("{names} never acquired the lock at some contender counts.")
        })
    };
    let others = [
        limit(Certainty::Shown, Evidence::Table, &|cell| system(cell).is_some(), &|names| {
            format!("{names}: a lock based on {}, not on ZooKeeper. Its guarantees are different.", systems())
        }),
        idle,
        limit(Certainty::Shown, Evidence::Notes, &|cell| cell.is_unstable(), &|names| {
            format!(
                "{names} could not keep up with the arrivals: the queue kept growing, so there is no wait to compare."
            )
        }),
        limit(Certainty::Unknown, Evidence::Notes, &|cell| !cell.is_sound(), &|names| {
            format!(
                "At some contender counts, all trials of {names} are invalid or partial; these are not ranked."
            )
        }),
        limit(Certainty::Unknown, Evidence::Verdicts, &is_unknown, &|names| {
            format!(
                "It is unknown whether {names} excluded other contenders ({}), so no recommendation relies on it.",
                unknown()
            )
        }),
    ];
    others.into_iter().flatten().collect()
}

/// Maximum number of faults with a sentence; the table lists all faults.
const FAULTS_TOLD: usize = 3;

/// Returns a sentence on each fault, longest outage first.
pub(super) fn of_faults(view: &View<'_>) -> Vec<Conclusion> {
    let rows = view.under_faults();
    let sets = view.fault_sets();
    let singles = sets.iter().enumerate().filter_map(|(at, set)| Some((at, set.single()?)));
    let told = singles.filter_map(|(at, label)| {
        let gaps = gaps(view, rows.iter().filter(|row| row.set == at));
        let (name, aftermath) = (capitalised(label), capitalised(&aftermath(view, label)));
        let said = format!("{name}: {}. {aftermath}.", outage(&gaps));
        Some((gaps.last()?.0, of_the_run(Topic::Faults, Evidence::Faults, Vec::new(), said)))
    });
    let mut told: Vec<(f64, Conclusion)> = told.collect();
    told.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    told.into_iter().map(|(_, one)| one).take(FAULTS_TOLD).collect()
}

/// Returns the longest outage of each strategy with a visible effect, in microseconds and as text. Shortest
/// first; an outage without an end is infinite.
fn gaps<'v>(view: &View<'_>, rows: impl Iterator<Item = &'v UnderFault<'v>>) -> Vec<(f64, String, String)> {
    let rows: Vec<&UnderFault<'_>> = rows.collect();
    let of = |strategy: usize| {
        let own = rows.iter().filter(|row| row.cell.strategy == strategy);
        let gaps = own.filter_map(|row| row.gap());
        let (us, word) = gaps.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some((us, word, view.strategies[strategy].clone()))
    };
    let mut gaps: Vec<_> = (0..view.strategies.len()).filter_map(of).collect();
    gaps.sort_by(|one, other| one.0.total_cmp(&other.0));
    gaps
}

fn outage(gaps: &[(f64, String, String)]) -> String {
    let (endless, ended): (Vec<_>, Vec<_>) = gaps.iter().partition(|(us, ..)| us.is_infinite());
    let ended = match ended.as_slice() {
        [] => None,
        [(_, word, label)] => Some(format!("no acquisition for {word} with {label}")),
        [(_, first, one), .., (_, last, other)] => {
            Some(format!("no acquisition for {first} ({one}) to {last} ({other})"))
        }
    };
    let names: Vec<&str> = endless.iter().map(|(_, _, label)| label.as_str()).collect();
    let never = format!("with {} the lock was never acquired again", listed(&names));
    joined(ended.into_iter().chain((!names.is_empty()).then_some(never)), "; ")
}

/// Describes the effects on holders and waiters in the trials with that fault.
fn aftermath(view: &View<'_>, label: &str) -> String {
    let has_fault = |trial: &&Trial| trial.faults.iter().any(|fault| fault.label == label);
    let trials: Vec<&Trial> = view.broken().filter(has_fault).collect();
    let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
    let faults = trials.iter().flat_map(|trial| &trial.faults).filter(|fault| fault.label == label);
    let waits = faults.filter_map(|fault| fault.wait_p99).max();
    let waits = waits.map(|wait| {
        format!("99th percentile of waits around it: {}", at_least(format_micros(wait.us), wait.at_least))
    });
    let (holds, waits_lost) = (sum(|trial| trial.whole.lost_while_held), sum(Trial::waits_lost));
    let lost = [(holds, "hold", "holds"), (waits_lost, "wait", "waits")].into_iter();
    let lost = lost.filter(|(count, ..)| *count > 0).map(|(count, one, many)| counted(count, one, many));
    let lost = joined(lost, " and ");
    let lost = (!lost.is_empty()).then(|| format!("{lost} lost"));
    let stuck = sum(|trial| trial.stuck.len() as u64);
    let is_violated = trials.iter().any(|trial| trial.is_violated());
    let is_only_stuck = trials.iter().all(|trial| !trial.is_violated() || trial.judged.is_only_stuck());
    let exclusion = trials.iter().map(|trial| trial.judged.exclusion.clone()).reduce(Verdict::and);
    let violations = match (sum(|trial| trial.violation_count), exclusion) {
        (0, _) if is_violated && !is_only_stuck => "exclusion violated".to_owned(),
        // Stuck contenders violate a different promise.
        (0, _) if stuck > 0 => "no overlap seen".to_owned(),
        (0, Some(Verdict::Held)) => "no violation".to_owned(),
        (0, _) => "no violation seen".to_owned(),
        (some, _) => counted(some, "violation", "violations"),
    };
    let stuck = match stuck {
        0 => "none stuck".to_owned(),
        some => format!("{} stuck", counted(some, "contender", "contenders")),
    };
    joined(waits.into_iter().chain(lost).chain([violations, stuck]), ", ")
}
