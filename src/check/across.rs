//! Did a lock exclude across workers? No two of them share a clock, so what tells is the ensemble's order of transactions, by
//! the history of all of them together.

use super::evidence::suffices;
use super::history::{Breach, Judgement};
use crate::record::{EnsembleOrder, Trial};
use crate::words::units::counted;

/// Adds to a trial what the history of all its workers shows. [`super::judge`] takes it from there.
pub fn add_order(trial: &mut Trial, judgement: &Judgement) {
    let sum = |count: fn(&super::history::OrderReport) -> u64| -> u64 {
        judgement.locks.iter().map(|lock| count(&lock.order)).sum()
    };
    let (compared, waited) = (sum(|order| order.compared), sum(|order| order.waited));
    let first = judgement.findings.iter().find(|finding| finding.breach == Breach::Order);
    trial.ensemble_order = Some(EnsembleOrder {
        checked: compared,
        checked_by_zxid: compared,
        too_early: sum(|order| order.too_early),
        contested_by_zxid: waited,
        first: first.map(|finding| format!("{}: {}", finding.lock, finding.what)),
        ..EnsembleOrder::default()
    });
    trial.evidence.by_transactions = waited;
    let across = sum(|order| order.waited_across_clocks);
    if !suffices(across, trial.evidence.entries, trial.spec.locks) {
        let entries = counted(trial.evidence.entries, "entry", "entries");
        trial.unchecked.push(format!(
            "too little evidence across workers: a violation between two of them would have been detected at {across} of \
             {entries}; use a longer trial, or a lock with a queue node, whose transactions tell the order"
        ));
    }
}
