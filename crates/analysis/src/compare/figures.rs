//! Selects the metrics to compare and the metrics that decide, and reads their values from a cell. Only losses
//! are selected by their values: they are compared if there are any.
//!
//! Unserved acquisitions are included, because otherwise a slow lock that sheds load would have short waits.

use schemars::JsonSchema;
use serde::Serialize;

use super::side::{CellUnderLoad, sound, unsound_because};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::counted;
use zklockbench_record::figures::{
    self, NAMES, NAMES_PER_ACQUISITION, NOTIFICATIONS, NOTIFICATIONS_PER_ACQUISITION, REQUESTS,
    REQUESTS_PER_ACQUISITION,
};
use zklockbench_record::{
    Better, Counted, Figure, FigureEntry, Missing, Reading, Statistic, Trial, Unit, usual_samples,
};

/// Any new violation is a regression, without a test.
pub(super) const VIOLATIONS: Figure = figures::VIOLATIONS.figure();

/// Whether a metric is part of the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The metric can regress, and the outcome is unknown if the metric is unknown.
    Decides,
    /// The metric explains other metrics, repeats them, or varies from one server start to the next.
    Shown,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen {
    pub figure: Figure,
    pub role: Role,
}

/// Returns the primary metric of a load: the metric closest to the contenders' experience.
///
/// A batch ends with its last contender, so it has no throughput. The throughput of an open load is fixed by
/// its arrivals. In a closed load, a single long pause changes throughput, but not the median cycle of a
/// contended lock.
pub(super) fn leading(key: &CellUnderLoad, base: &[&Trial], new: &[&Trial]) -> Figure {
    // Older versions did not measure cycles.
    let has_turns = |side: &[&Trial]| side.iter().any(|trial| trial.histograms.contains_key(&Measure::Turn));
    match key.load.as_str() {
        "batch" => Figure::Latency(Measure::Wait, Statistic::Mean),
        "open" => Figure::Latency(Measure::Wait, Statistic::percent(50)),
        _ if key.contenders > key.locks && has_turns(base) && has_turns(new) => TURN,
        _ => figures::THROUGHPUT.figure(),
    }
}

const TURN: Figure = Figure::Latency(Measure::Turn, Statistic::percent(50));

/// Returns the metrics without duplicates, in the given order.
pub fn without_twins(asked: &[Figure]) -> Vec<Figure> {
    let first = |at: &usize| !asked[..*at].contains(&asked[*at]);
    (0..asked.len()).filter(first).map(|at| asked[at]).collect()
}

/// Returns the metrics to compare in a cell, without [`VIOLATIONS`]: the selected metrics, or the defaults of
/// the load.
///
/// Among the defaults, the leading metric, the tail of the wait, the requests per acquisition and the losses
/// decide. If the leading metric is the cycle, throughput also decides. The other metrics are informational: in a
/// closed load, the median wait follows from throughput; handoffs differ from one server start to the next; and
/// notifications and listings already show in the requests.
pub(super) fn chosen(asked: &[Figure], key: &CellUnderLoad, base: &[&Trial], new: &[&Trial]) -> Vec<Chosen> {
    let decides = |figure| Chosen { figure, role: Role::Decides };
    let shown = |figure| Chosen { figure, role: Role::Shown };
    if !asked.is_empty() {
        return without_twins(asked).into_iter().map(decides).collect();
    }
    let median = |measure| Figure::Latency(measure, Statistic::percent(50));
    // Without contention, there are no handoffs.
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
    let lost = losses_under(&key.load).filter(|figure| any_lost(*figure, base.iter().chain(new)));
    chosen.extend(lost.map(decides));
    chosen
}

/// Returns whether the load determines a count in a trial, according to the cost model of the strategy.
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

/// Returns the largest percentile for which most repetitions of both sides have enough samples, or the
/// smallest candidate if there is none. The choice depends on the number of samples, not on their values.
fn tail(measure: Measure, base: &[&Trial], new: &[&Trial]) -> Figure {
    const TAILS: [Statistic; 3] = [Statistic::percent(99), Statistic::percent(95), Statistic::percent(90)];
    let of = |statistic| Figure::Latency(measure, statistic);
    let has = |figure: &Figure| [base, new].into_iter().all(|side| !has_too_few_samples(side, *figure));
    let found = TAILS.into_iter().map(of).find(has);
    found.unwrap_or_else(|| of(Statistic::percent(90)))
}

/// Returns whether most repetitions have too few samples for the percentile.
pub(super) fn has_too_few_samples(trials: &[&Trial], figure: Figure) -> bool {
    matches!(readings(trials, figure), Err(NoReadings::TooFew(_)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoReadings {
    NothingSound(String),
    /// No valid repetition has a value, because the metric does not apply.
    NotApplicable,
    /// Most repetitions have too few samples for the percentile.
    TooFew(String),
    /// Only some repetitions have the metric; omitting the others would bias the result.
    Gaps(String),
}

impl NoReadings {
    pub(super) fn why(&self) -> String {
        match self {
            Self::NothingSound(why) | Self::TooFew(why) | Self::Gaps(why) => why.clone(),
            Self::NotApplicable => Missing::NotMeasured.to_string(),
        }
    }
}

/// Returns the readings of a metric in one side's trials of a cell, one for each valid repetition.
///
/// Waits are infinite if the queue grew, because they have no steady value.
pub(super) fn readings(trials: &[&Trial], figure: Figure) -> Result<Vec<Reading>, NoReadings> {
    let counting = sound(trials);
    if counting.is_empty() {
        return Err(NoReadings::NothingSound(why_nothing_sound(trials)));
    }
    let counting = zklockbench_record::measured_in(figure, &counting);
    let each: Vec<Option<Reading>> = counting.iter().map(|trial| reading(trial, figure)).collect();
    let found: Vec<Reading> = each.iter().copied().flatten().collect();
    let missing = each.len() - found.len();
    if found.is_empty() {
        return Err(NoReadings::NotApplicable);
    }
    if missing > 0 {
        let all = counted(each.len(), "repetition", "repetitions");
        return Err(NoReadings::Gaps(format!("{missing} of {all} did not measure this metric")));
    }
    if let Figure::Latency(_, statistic) = figure
        && let Some(usual) = usual_samples(&found)
        && usual < statistic.samples_needed()
    {
        let needed = statistic.samples_needed();
        return Err(NoReadings::TooFew(format!(
            "{statistic} needs {needed} samples in each repetition, but half of them have at most {usual}"
        )));
    }
    Ok(found)
}

/// Returns the reading of a metric in a trial; `None` if it was not measured. Losses are shares of all
/// requested acquisitions. Waits are infinite if the queue grew.
pub fn reading(trial: &Trial, figure: Figure) -> Option<Reading> {
    match trial.reading(figure) {
        Ok(reading) if counts_losses(figure) => {
            Some(Reading { value: reading.value / asked_for(trial), ..reading })
        }
        Ok(reading) => Some(reading),
        Err(Missing::Unstable) => Some(Reading::exact(f64::INFINITY)),
        Err(Missing::NotMeasured) => None,
    }
}

fn why_nothing_sound(trials: &[&Trial]) -> String {
    let Some(first) = trials.first() else { return "it has no such cell".to_owned() };
    let why = unsound_because(first).unwrap_or_default();
    format!("none of its {} is valid: {why}", counted(trials.len(), "repetition", "repetitions"))
}

const LOSSES: [&FigureEntry; 5] = [
    &figures::DROPPED,
    &figures::TIMED_OUT,
    &figures::UNSERVED,
    &figures::ERRORS,
    &figures::SESSIONS_EXPIRED,
];

/// Returns whether a metric counts losses, and is therefore compared as a share of the requested
/// acquisitions.
pub fn counts_losses(figure: Figure) -> bool {
    LOSSES.iter().any(|entry| entry.figure() == figure)
}

/// Returns the better direction of a metric. More losses are always worse, even where the load determines the
/// count.
pub fn better_of(figure: Figure) -> Better {
    if counts_losses(figure) { Better::Lower } else { figure.better() }
}

/// Returns the unit of the compared values.
pub fn unit_of(figure: Figure) -> Unit {
    if counts_losses(figure) { Unit::Share } else { figure.unit() }
}

pub fn losses() -> impl Iterator<Item = Figure> {
    LOSSES.iter().map(|entry| entry.figure())
}

/// Returns the losses compared under this load. A closed load always ends with waiters, which are not a loss.
/// Only an open load drops arrivals.
pub fn losses_under(load: &str) -> impl Iterator<Item = Figure> + use<> {
    let always_some = (load == "closed").then_some(figures::UNSERVED.figure());
    let never_any = (load != "open").then_some(figures::DROPPED.figure());
    losses().filter(move |figure| ![always_some, never_any].contains(&Some(*figure)))
}

/// Returns the number of losses of a cell in the losses' family, whether or not a trial has such a loss.
pub(super) fn losses_in_family(asked: &[Figure], key: &CellUnderLoad) -> usize {
    match asked {
        [] => losses_under(&key.load).count(),
        asked => without_twins(asked).into_iter().filter(|figure| counts_losses(*figure)).count(),
    }
}

/// Returns whether any trial has this kind of loss; zeros on both sides are not compared.
fn any_lost<'a>(figure: Figure, trials: impl IntoIterator<Item = &'a &'a Trial>) -> bool {
    trials.into_iter().any(|trial| trial.reading(figure).is_ok_and(|reading| reading.value > 0.0))
}

/// Returns the number of requested acquisitions, successful or not; at least 1.
fn asked_for(trial: &Trial) -> f64 {
    let dropped = trial.arrived.map_or(0, |arrived| arrived.dropped);
    (trial.measured.acquired() + trial.timed_out() + trial.unserved() + dropped).max(1) as f64
}
