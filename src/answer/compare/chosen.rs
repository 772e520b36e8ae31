//! Which figures are compared, and which of them decide: settled by the load, before anybody looks at a value.

use schemars::JsonSchema;
use serde::Serialize;

use super::side;
use super::side::{CellUnderLoad, tail};
use crate::results::record::figures::{
    self, NAMES, NAMES_PER_ACQUISITION, NOTIFICATIONS, NOTIFICATIONS_PER_ACQUISITION, REQUESTS,
    REQUESTS_PER_ACQUISITION,
};
use crate::results::record::{Counted, Figure, FigureEntry, Statistic, Trial};
use crate::words::measure::Measure;

/// Violations: any that is new is a regression, and no test is needed to say so.
pub(super) const VIOLATIONS: Figure = figures::VIOLATIONS.figure();

/// Whether what a figure comes to is part of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It is: it can regress, and where nothing is known of it, the answer is unknown.
    Decides,
    /// It isn't: it says why, or the same again, or differs from start to start by itself.
    Shown,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen {
    pub figure: Figure,
    pub role: Role,
}

/// What a load is judged by first: what its contenders get.
///
/// In a batch, which ends with the last of its contenders, there is no throughput; in an open load it is the one that is
/// offered. In a closed one a single long pause moves it, and not the median turn of a lock that is waited for.
pub(super) fn leading(key: &CellUnderLoad, base: &[&Trial], new: &[&Trial]) -> Figure {
    // Versions that did not measure turns have none.
    let has_turns = |side: &[&Trial]| side.iter().any(|trial| trial.histograms.contains_key(&Measure::Turn));
    match key.load.as_str() {
        "batch" => Figure::Latency(Measure::Wait, Statistic::Mean),
        "open" => Figure::Latency(Measure::Wait, Statistic::percent(50)),
        _ if key.contenders > key.locks && has_turns(base) && has_turns(new) => TURN,
        _ => figures::THROUGHPUT.figure(),
    }
}

const TURN: Figure = Figure::Latency(Measure::Turn, Statistic::percent(50));

/// What was asked for more than once is one question.
pub fn without_twins(asked: &[Figure]) -> Vec<Figure> {
    let first = |at: &usize| !asked[..*at].contains(&asked[*at]);
    (0..asked.len()).filter(first).map(|at| asked[at]).collect()
}

/// What is compared in a cell, [`VIOLATIONS`] apart: what was asked for, which then decides, or the usual.
///
/// Of the usual, what contenders get decides, what an acquisition asks of the servers, and what was lost. The rest is shown:
/// in a closed load the median wait says what the throughput does; handoffs differ from start to start of the servers;
/// whatever is notified or listed more often takes more requests.
pub(super) fn chosen(asked: &[Figure], key: &CellUnderLoad, base: &[&Trial], new: &[&Trial]) -> Vec<Chosen> {
    let decides = |figure| Chosen { figure, role: Role::Decides };
    let shown = |figure| Chosen { figure, role: Role::Shown };
    if !asked.is_empty() {
        return without_twins(asked).into_iter().map(decides).collect();
    }
    let median = |measure| Figure::Latency(measure, Statistic::percent(50));
    // Alone there is no one to hand over to.
    let passed_on = if key.contenders > key.locks { Measure::Handoff } else { Measure::Uncontended };
    let leading = leading(key, base, new);
    let mut chosen = vec![decides(leading)];
    if leading == TURN {
        chosen.push(decides(figures::THROUGHPUT.figure()));
    }
    if key.load == "batch" {
        chosen.push(shown(Figure::Latency(passed_on, Statistic::Mean)));
    } else {
        if key.load != "open" {
            chosen.push(shown(median(Measure::Wait)));
        }
        chosen.extend([decides(tail(Measure::Wait, base, new)), shown(median(passed_on))]);
    }
    let costs = figures::ALL.iter().filter(|entry| entry.compared).map(|entry| entry.figure());
    let asks_of_servers = REQUESTS_PER_ACQUISITION.figure();
    chosen.extend(costs.map(|cost| if cost == asks_of_servers { decides(cost) } else { shown(cost) }));
    let lost = side::losses_under(&key.load).filter(|figure| side::any_lost(*figure, base.iter().chain(new)));
    chosen.extend(lost.map(decides));
    chosen
}

/// Whether the load determines a count in a trial, as its strategy's cost model says: nothing is then left to chance.
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
