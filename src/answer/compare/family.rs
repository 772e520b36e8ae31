//! Which figures are compared: decided by the load, before anybody looks at a value.

use super::cell::{CellUnderLoad, tail};
use crate::results::record::{Count, Counted, Figure, Ratio, Statistic, Trial};
use crate::words::measure::Measure;

/// The requests, notifications and names of an acquisition, whatever the load.
const COSTS: [Figure; 3] = [
    Figure::Ratio(Ratio::RequestsPerAcquisition),
    Figure::Ratio(Ratio::NotificationsPerAcquisition),
    Figure::Ratio(Ratio::NamesPerAcquisition),
];

/// Violations: any that is new is a regression, and no test is needed to say so.
pub(super) const VIOLATIONS: Figure = Figure::Count(Count::Violations);

/// What is compared in a cell unless others are chosen, [`VIOLATIONS`] apart.
///
/// In a closed load the mean wait says what the throughput does, so it is left out; in a batch, which ends with the last of
/// its contenders, there is no throughput; in an open load it is the one that is offered.
pub(super) fn usual(key: &CellUnderLoad, base: &[&Trial], new: &[&Trial]) -> Vec<Figure> {
    let median = |measure| Figure::Latency(measure, Statistic::percent(50));
    let mean = |measure| Figure::Latency(measure, Statistic::Mean);
    // Alone there is no one to hand over to.
    let passed_on = if key.contenders > key.locks { Measure::Handoff } else { Measure::Uncontended };
    let mut figures = match key.load.as_str() {
        "batch" => vec![mean(Measure::Wait), mean(passed_on)],
        "open" => vec![median(Measure::Wait), tail(Measure::Wait, base, new), median(passed_on)],
        _ => {
            vec![Figure::THROUGHPUT, median(Measure::Wait), tail(Measure::Wait, base, new), median(passed_on)]
        }
    };
    figures.extend(COSTS);
    figures
}

/// Whether the load determines a count in a trial, as the cost model of its strategy says: then nothing about it is left
/// to chance.
pub(super) fn is_determined(figure: Figure, trial: &Trial) -> bool {
    let is_of: fn(Counted) -> bool = match figure {
        Figure::Ratio(Ratio::RequestsPerAcquisition) | Figure::Count(Count::Requests) => {
            |what| what == Counted::Requests
        }
        Figure::Ratio(Ratio::NotificationsPerAcquisition) | Figure::Count(Count::Notifications) => {
            Counted::is_event
        }
        Figure::Ratio(Ratio::NamesPerAcquisition) | Figure::Count(Count::Names) => {
            |what| what == Counted::Names
        }
        _ => return false,
    };
    let mut lines = trial.accounting.iter().filter(|line| is_of(line.what)).peekable();
    trial.spec.load.name() == "batch" && lines.peek().is_some() && lines.all(|line| line.expected.is_some())
}
