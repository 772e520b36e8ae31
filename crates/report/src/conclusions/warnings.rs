//! What must be known before anything else: locks that broke a promise, what limits all other sentences, and what faults did
//! to the lock as its users saw it: for how long nobody got it, and what was lost.

use super::{Certainty, Conclusion, Evidence, Topic};
use crate::View;
use crate::view::{Cell, UnderFault, gap_word};
use zklockbench_core::units::{
    at_least, capitalised, contenders, counted, distinct_sorted, format_micros, listed,
};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;

pub(super) fn of(view: &View<'_>) -> Vec<Conclusion> {
    let broken = (0..view.strategies.len()).filter_map(|strategy| must_not_be_used(view, strategy));
    let limits = [other_systems(view), nothing_acquired(view), unstable(view), unsound(view), unknown(view)];
    broken.chain(limits.into_iter().flatten()).collect()
}

fn must_not_be_used(view: &View<'_>, strategy: usize) -> Option<Conclusion> {
    let label = view.strategies[strategy].clone();
    let broken = |promise: fn(&Trial) -> Option<&Verdict>| {
        let is_broken = |one: &&Trial| matches!(promise(one), Some(Verdict::Violated(_)));
        let trials: Vec<&Trial> = view.cells_of(strategy).flat_map(Cell::all).filter(is_broken).collect();
        let why = trials.first().and_then(|one| promise(one)?.why());
        let of = view.cells_of(strategy).map(|cell| cell.trials.len()).sum::<usize>();
        why.map(|why| format!("in {} of {} ({why})", trials.len(), counted(of, "trial", "trials")))
    };
    let excluded =
        broken(|one| Some(&one.judged.exclusion)).or_else(|| broken(|one| one.judged.order.as_ref()));
    let stuck = broken(|one| one.judged.progress.as_ref());
    let without_faults = broken(|one| one.judged.progress.as_ref().filter(|_| one.faults.is_empty()));
    let sentence = match (excluded, without_faults, stuck) {
        (Some(why), ..) => format!("{label} must not be used: it did not keep others out {why}."),
        (None, Some(why), _) => {
            format!("{label} must not be used: it left contenders waiting for a free lock {why}.")
        }
        (None, None, Some(why)) => format!(
            "{label} must not be used where such faults happen: it left contenders waiting after everything had \
             healed {why}."
        ),
        (None, None, None) => return None,
    };
    Some(Conclusion {
        topic: Topic::MustNotBeUsed,
        certainty: Certainty::Shown,
        contenders: None,
        strategies: vec![label],
        sentence,
        evidence: Evidence::Verdicts,
    })
}

fn limit(certainty: Certainty, strategies: Vec<String>, sentence: String, evidence: Evidence) -> Conclusion {
    Conclusion { topic: Topic::Limits, certainty, contenders: None, strategies, sentence, evidence }
}

fn named(view: &View<'_>, is: impl Fn(&Cell<'_>) -> bool) -> Vec<String> {
    let has = |strategy: &usize| view.cells_of(*strategy).any(&is);
    (0..view.strategies.len()).filter(has).map(|strategy| view.strategies[strategy].clone()).collect()
}

fn other_systems(view: &View<'_>) -> Option<Conclusion> {
    let system = |cell: &Cell<'_>| cell.all().find_map(|one| one.spec.strategy.system.clone());
    let others = named(view, |cell| system(cell).is_some());
    let systems = distinct_sorted(view.cells.iter().filter_map(system));
    let (is, locks) = if others.len() == 1 { ("is", "a lock") } else { ("are", "locks") };
    let sentence = format!(
        "{} {is} not ZooKeeper's but {locks} of {}: no server of the ensemble had a part in it, and what it promises is another \
         thing.",
        listed(&others),
        listed(&systems)
    );
    (!others.is_empty()).then(|| limit(Certainty::Shown, others, sentence, Evidence::Table))
}

fn nothing_acquired(view: &View<'_>) -> Option<Conclusion> {
    if view.cells.iter().all(|cell| cell.sum(|one| one.measured.acquired()) == 0) {
        let sentence =
            "No lock was acquired in any trial, so nothing can be said about any strategy.".to_owned();
        return Some(limit(Certainty::Unknown, Vec::new(), sentence, Evidence::Table));
    }
    let idle = named(view, |cell| cell.sum(|one| one.measured.acquired()) == 0);
    let sentence = format!("{} never acquired the lock with some number of contenders.", listed(&idle));
    (!idle.is_empty()).then(|| limit(Certainty::Shown, idle, sentence, Evidence::Table))
}

fn unstable(view: &View<'_>) -> Option<Conclusion> {
    let grew = named(view, |cell| cell.is_unstable());
    let sentence = format!(
        "{} could not keep up with the arrivals: the queue kept growing, so there is no wait to compare.",
        listed(&grew)
    );
    (!grew.is_empty()).then(|| limit(Certainty::Shown, grew, sentence, Evidence::Notes))
}

fn unsound(view: &View<'_>) -> Option<Conclusion> {
    let none = named(view, |cell| !cell.is_sound());
    let sentence = format!(
        "There are only invalid or partial trials of {} with some number of contenders; these are not ranked.",
        listed(&none)
    );
    (!none.is_empty()).then(|| limit(Certainty::Unknown, none, sentence, Evidence::Notes))
}

fn unknown(view: &View<'_>) -> Option<Conclusion> {
    let is_unknown = |cell: &Cell<'_>| cell.is_sound() && matches!(cell.verdict(), Some(Verdict::Unknown(_)));
    let unknown: Vec<&Cell<'_>> = view.cells.iter().filter(|cell| is_unknown(cell)).collect();
    let first = unknown.first()?;
    let why = first.verdict().and_then(|verdict| verdict.why()).unwrap_or_default();
    let names = named(view, is_unknown);
    let sentence = format!(
        "It is not known whether {} kept others out (with {}: {why}), so no recommendation relies on it.",
        listed(&names),
        contenders(first.contenders)
    );
    Some(limit(Certainty::Unknown, names, sentence, Evidence::Verdicts))
}

/// More faults than that are told by the table.
const FAULTS_TOLD: usize = 3;
/// More strategies than that are told by the two at the ends.
const STRATEGIES_TOLD: usize = 3;

/// One sentence for each fault, the longest gap first.
pub(super) fn of_faults(view: &View<'_>) -> Vec<Conclusion> {
    let sets = view.fault_sets();
    let rows = view.under_faults();
    let singles = sets.iter().enumerate().filter_map(|(at, set)| Some((at, set.single()?)));
    let mut told: Vec<(f64, Conclusion)> = singles
        .filter_map(|(at, label)| {
            let rows: Vec<&UnderFault<'_>> = rows.iter().filter(|row| row.set == at).collect();
            let gaps = Gap::of_each(view, &rows);
            Some((gaps.last()?.us, of_fault(view, label, &gaps)))
        })
        .collect();
    told.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    told.into_iter().map(|(_, one)| one).take(FAULTS_TOLD).collect()
}

/// For how long a fault kept everybody from the lock, with one strategy.
struct Gap {
    strategy: String,
    /// The longest, in microseconds; infinite where it did not end.
    us: f64,
    text: String,
}

impl Gap {
    /// The longest with each strategy of which an effect was seen, the shortest first.
    fn of_each(view: &View<'_>, rows: &[&UnderFault<'_>]) -> Vec<Self> {
        let of = |strategy: usize| {
            let own = rows.iter().filter(|row| row.cell.strategy == strategy);
            own.filter_map(|row| {
                let figures = row.faults?;
                let text = gap_word(&figures)?;
                let ends = figures.recovery?.longest_us.is_finite();
                let us = if ends { figures.longest_gap_us.unwrap_or(0) as f64 } else { f64::INFINITY };
                Some(Self { strategy: view.strategies[strategy].clone(), us, text })
            })
            .max_by(|one, other| one.us.total_cmp(&other.us))
        };
        let mut gaps: Vec<Self> = (0..view.strategies.len()).filter_map(of).collect();
        gaps.sort_by(|one, other| one.us.total_cmp(&other.us));
        gaps
    }

    fn with_strategy(&self) -> String {
        format!("{} with {}", self.text, self.strategy)
    }
}

fn of_fault(view: &View<'_>, label: &str, gaps: &[Gap]) -> Conclusion {
    let (endless, ended): (Vec<&Gap>, Vec<&Gap>) = gaps.iter().partition(|gap| gap.us.is_infinite());
    let mut said = Vec::new();
    match ended.as_slice() {
        [] => {}
        [one] => said.push(format!("nobody got the lock for {}", one.with_strategy())),
        some if some.len() <= STRATEGIES_TOLD => {
            let each: Vec<String> = some.iter().map(|gap| gap.with_strategy()).collect();
            said.push(format!("nobody got the lock for {}", listed(&each)));
        }
        [first, .., last] => said.push(format!(
            "nobody got the lock for {} ({}) to {} ({})",
            first.text, first.strategy, last.text, last.strategy
        )),
    }
    if !endless.is_empty() {
        let names: Vec<&str> = endless.iter().map(|gap| gap.strategy.as_str()).collect();
        said.push(format!("with {} it was never acquired again", listed(&names)));
    }
    said.extend(aftermath(view, label));
    Conclusion {
        topic: Topic::Faults,
        certainty: Certainty::Shown,
        contenders: None,
        strategies: Vec::new(),
        sentence: format!("{}: {}.", capitalised(label), said.join("; ")),
        evidence: Evidence::Faults,
    }
}

/// What became of holders and waiters in the trials with that fault.
fn aftermath(view: &View<'_>, label: &str) -> Vec<String> {
    let trials: Vec<&Trial> =
        view.broken().filter(|trial| trial.faults.iter().any(|fault| fault.label == label)).collect();
    let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
    let waits = trials
        .iter()
        .flat_map(|trial| &trial.faults)
        .filter(|fault| fault.label == label)
        .filter_map(|fault| fault.wait_p99)
        .max();
    let waits = waits.map(|wait| {
        format!("waits around it: 99th percentile {}", at_least(format_micros(wait.us), wait.at_least))
    });
    let exclusion = trials.iter().map(|trial| trial.judged.exclusion.clone()).reduce(Verdict::and);
    let stuck = sum(|trial| trial.stuck.len() as u64);
    let is_violated = trials.iter().any(|trial| trial.is_violated());
    let is_only_stuck = trials.iter().all(|trial| !trial.is_violated() || trial.judged.is_only_stuck());
    let violations = match (sum(|trial| trial.violation_count), exclusion) {
        (0, _) if is_violated && !is_only_stuck => "exclusion violated".to_owned(),
        // Whoever is stuck makes it violated all the same.
        (0, _) if stuck > 0 => "no overlap seen".to_owned(),
        (0, Some(Verdict::Held)) => "nothing violated".to_owned(),
        (0, _) => "no violation seen".to_owned(),
        (some, _) => counted(some, "violation", "violations"),
    };
    let stuck = match stuck {
        0 => "nothing stuck".to_owned(),
        some => format!("{} stuck", counted(some, "contender", "contenders")),
    };
    let lost = [
        (sum(|trial| trial.whole.lost_while_held), "hold", "holds"),
        (sum(Trial::waits_lost), "wait", "waits"),
    ];
    let lost: Vec<String> = lost
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted(count, one, many))
        .collect();
    let lost = (!lost.is_empty()).then(|| format!("{} lost", listed(&lost)));
    waits.into_iter().chain(lost).chain([format!("{violations}, {stuck}")]).collect()
}
