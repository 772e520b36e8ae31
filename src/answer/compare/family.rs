//! Which figures are compared: decided by the load, before anybody looks at a value.

use super::cell::{CellUnderLoad, tail};
use super::losses;
use crate::results::record::figures::{
    self, NAMES, NAMES_PER_ACQUISITION, NOTIFICATIONS, NOTIFICATIONS_PER_ACQUISITION, REQUESTS,
    REQUESTS_PER_ACQUISITION,
};
use crate::results::record::{Counted, Figure, FigureEntry, Statistic, Trial};
use crate::words::measure::Measure;

/// Violations: any that is new is a regression, and no test is needed to say so.
pub(super) const VIOLATIONS: Figure = figures::VIOLATIONS.figure();

/// What is compared in a cell unless others are chosen, [`VIOLATIONS`] apart.
///
/// In a closed load the mean wait says what the throughput does, so it is left out; in a batch, which ends with the last of
/// its contenders, there is no throughput; in an open load it is the one that is offered.
pub(super) fn usual(key: &CellUnderLoad, base: &[&Trial], new: &[&Trial]) -> Vec<Figure> {
    let median = |measure| Figure::Latency(measure, Statistic::percent(50));
    let mean = |measure| Figure::Latency(measure, Statistic::Mean);
    // Alone there is no one to hand over to.
    let passed_on = if key.contenders > key.locks { Measure::Handoff } else { Measure::Uncontended };
    let mut chosen = match key.load.as_str() {
        "batch" => vec![mean(Measure::Wait), mean(passed_on)],
        "open" => vec![median(Measure::Wait), tail(Measure::Wait, base, new), median(passed_on)],
        _ => {
            let throughput = figures::THROUGHPUT.figure();
            vec![throughput, median(Measure::Wait), tail(Measure::Wait, base, new), median(passed_on)]
        }
    };
    // What an acquisition costs the ensemble, whatever the load.
    let costs = figures::ALL.iter().filter(|entry| entry.compared);
    chosen.extend(costs.map(|entry| entry.figure()));
    chosen.extend(losses::under(&key.load).filter(|figure| losses::are_any(*figure, base.iter().chain(new))));
    chosen
}

/// Whether the load determines a count in a trial, as the cost model of its strategy says: then nothing about it is left
/// to chance.
pub(super) fn is_determined(figure: Figure, trial: &Trial) -> bool {
    let is_one_of = |two: [&'static FigureEntry; 2]| two.iter().any(|entry| entry.figure() == figure);
    let is_of: fn(Counted) -> bool = if is_one_of([&REQUESTS_PER_ACQUISITION, &REQUESTS]) {
        |what| what == Counted::Requests
    } else if is_one_of([&NOTIFICATIONS_PER_ACQUISITION, &NOTIFICATIONS]) {
        Counted::is_event
    } else if is_one_of([&NAMES_PER_ACQUISITION, &NAMES]) {
        |what| what == Counted::Names
    } else {
        return false;
    };
    let mut lines = trial.accounting.iter().filter(|line| is_of(line.what)).peekable();
    trial.spec.load.name() == "batch" && lines.peek().is_some() && lines.all(|line| line.expected.is_some())
}
