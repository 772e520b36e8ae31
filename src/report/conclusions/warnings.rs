//! What must be known before anything else: locks that broke a promise, and what limits all other sentences.

use std::collections::BTreeSet;

use super::{Certainty, Conclusion, Evidence, Topic};
use crate::report::View;
use crate::report::view::Cell;
use crate::results::record::Trial;
use crate::words::units::{contenders, counted, listed};
use crate::words::verdict::Verdict;

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
    let sentence = match (excluded, broken(|one| one.judged.progress.as_ref())) {
        (Some(why), _) => format!("{label} must not be used: it did not keep others out {why}."),
        (None, Some(why)) => format!(
            "{label} must not be used where such faults happen: it left contenders waiting after everything had \
             healed {why}."
        ),
        (None, None) => return None,
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
    let systems: BTreeSet<String> = view.cells.iter().filter_map(system).collect();
    let systems: Vec<String> = systems.into_iter().collect();
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
