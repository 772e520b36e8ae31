//! Recommends a strategy, with the reason, and lists the best choices under other loads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::{predicted, wait_of};
use super::search::{Effort, Search};
use super::{Answer, Evidence, PlannedLoad};
use crate::model::{Fit, Observation};
use crate::objective::Objective;
use zklockbench_core::measure::Figure;
use zklockbench_core::units::{listed, number};
use zklockbench_core::verdict::Verdict;

/// Factor within which two maximum rates count as equal, because measurements are not more precise.
const SAME_ROOM: f64 = 1.15;
/// Factor within which requests per acquisition count as equal, because they vary by chance between trials.
const SAME_COST: f64 = 1.05;

/// The recommended strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Label of the strategy.
    pub strategy: String,
    /// Reason; `None` in plans of versions that stored a sentence instead.
    pub because: Option<Because>,
}

/// Reason to prefer a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// No other strategy meets the objective.
    NoOtherHolds,
    /// No other strategy is known to meet the objective; these strategies are unknown.
    OthersUnknown(Vec<String>),
    /// The strategy has the most proven headroom.
    MostRoom,
    /// Other strategies have equal headroom, but send more requests.
    FewestRequests,
    /// Other strategies have equal headroom and send as many requests; the first strategy by name is chosen.
    FirstOf(Vec<String>),
}

/// Returns the strategy to recommend; `None` if no strategy meets the objective. Among the strategies with
/// the most proven headroom, the number of requests decides, then the name, so that noise does not decide.
pub fn recommend(answers: &[Answer]) -> Option<Recommendation> {
    let holding: Vec<&Answer> = answers.iter().filter(|answer| answer.verdict == Verdict::Held).collect();
    // Compare proven maximum rates, not probable ones.
    let room = |answer: &Answer| {
        let proven = answer.headroom.and_then(|room| Some(room.low? * room.factor / room.rate));
        proven.unwrap_or(1.0)
    };
    // Only some strategies are measured under the load itself, so compare predictions.
    let cost = |answer: &Answer| answer.requests_per_s.unwrap_or(f64::INFINITY);
    let most = holding.iter().map(|answer| room(answer)).fold(0.0, f64::max);
    let roomy: Vec<&Answer> =
        holding.iter().copied().filter(|answer| SAME_ROOM * room(answer) >= most).collect();
    let least = roomy.iter().map(|answer| cost(answer)).fold(f64::INFINITY, f64::min);
    let cheap = roomy.iter().copied().filter(|answer| cost(answer) <= SAME_COST * least);
    let mut best: Vec<String> = cheap.map(|answer| answer.strategy.clone()).collect();
    best.sort();
    let strategy = best.first()?.clone();
    let equal = best.split_off(1);
    let is_unknown = |answer: &&Answer| matches!(answer.verdict, Verdict::Unknown(_));
    let unknown: Vec<String> =
        answers.iter().filter(is_unknown).map(|answer| answer.strategy.clone()).collect();
    let because = match (holding.len(), roomy.len(), equal.is_empty()) {
        (1, ..) if !unknown.is_empty() => Because::OthersUnknown(unknown),
        (1, ..) => Because::NoOtherHolds,
        (_, 1, _) => Because::MostRoom,
        (_, _, true) => Because::FewestRequests,
        (_, _, false) => Because::FirstOf(equal),
    };
    Some(Recommendation { strategy, because: Some(because) })
}

/// Total duration of measurements, in seconds, after which only a recommended strategy is still measured. Under a
/// light load, each measurement takes minutes.
const MEASURED_S: f64 = 120.0;

/// Returns the index of the answer to measure next: the recommended strategy's answer, if there is a
/// recommendation. Otherwise, the most promising unmeasured answer with an unknown verdict is next. If there is none
/// and nothing has been measured, the most promising of all answers is next. `None` if no measurement is needed, or
/// if the measurements took too long.
pub fn to_measure(answers: &[Answer], objective: &Objective) -> Option<usize> {
    if let Some(Recommendation { strategy, .. }) = recommend(answers) {
        let at = answers.iter().position(|answer| answer.strategy == strategy)?;
        return answers[at].measured.is_none().then_some(at);
    }
    let measured_s = answers.iter().filter_map(|answer| Some(answer.measured.as_ref()?.seconds)).sum::<f64>();
    if measured_s >= MEASURED_S {
        return None;
    }
    let is_open =
        |answer: &Answer| answer.measured.is_none() && matches!(answer.verdict, Verdict::Unknown(_));
    let undecided = promising(answers, objective, is_open);
    let is_proved = answers.iter().any(|answer| answer.measured.is_some());
    undecided.or_else(|| most_promising(answers, objective).filter(|_| !is_proved))
}

/// Returns the index of the answer closest to the objective.
pub fn most_promising(answers: &[Answer], objective: &Objective) -> Option<usize> {
    promising(answers, objective, |_| true)
}

fn promising(answers: &[Answer], objective: &Objective, may: impl Fn(&Answer) -> bool) -> Option<usize> {
    let all = answers.iter().enumerate().filter(|(_, answer)| may(answer));
    let distance = |answer: &Answer| distance(answer, objective);
    all.min_by(|(_, one), (_, other)| distance(one).total_cmp(&distance(other))).map(|(at, _)| at)
}

/// Returns a sort key: the predicted value of the objective's metric, negated unless it is a wait, so that the best
/// answer comes first. Answers without a prediction come last.
fn distance(answer: &Answer, objective: &Objective) -> f64 {
    let is_wait = matches!(objective.figure, Figure::Latency(..));
    let value = answer.prediction.as_ref().and_then(|one| predicted(objective.figure, one));
    value.map_or(f64::INFINITY, |value| if is_wait { value.middle } else { -value.middle })
}

/// Decides the answers that neither prediction nor measurement has decided. Does nothing if a strategy is
/// already recommended, because a guess must not replace the recommendation. `known` returns the load and the
/// evidence for a strategy.
pub fn settle(
    answers: &mut [Answer],
    objective: &Objective,
    known: impl Fn(&str) -> (PlannedLoad, Evidence),
) {
    if recommend(answers).is_some() {
        return;
    }
    let is_missed = |answer: &&Answer| answer.measured.as_ref().is_some_and(|one| one.is_missed(objective));
    let missed = answers.iter().filter(is_missed).map(|answer| distance(answer, objective));
    let missed = missed.min_by(f64::total_cmp);
    for answer in answers.iter_mut().filter(|answer| matches!(answer.verdict, Verdict::Unknown(_))) {
        let (load, evidence) = known(&answer.strategy);
        let is_worse = missed.is_some_and(|missed| missed <= distance(answer, objective));
        answer.settle(&evidence, &load, objective, is_worse);
    }
}

impl Recommendation {
    pub fn sentence(&self, answers: &[Answer], objective: &Objective) -> String {
        let why = match &self.because {
            None => String::new(),
            Some(Because::NoOtherHolds) if answers.len() == 1 => String::new(),
            Some(Because::NoOtherHolds) => "; no other strategy meets the objective".to_owned(),
            Some(Because::OthersUnknown(names)) => {
                format!("; it is unknown whether {} would meet the objective", listed(names))
            }
            Some(Because::MostRoom) => "; it has the most headroom".to_owned(),
            Some(Because::FewestRequests) => {
                "; others have equal headroom, but send more requests".to_owned()
            }
            Some(Because::FirstOf(equal)) => format!("; {} would do as well", listed(equal)),
        };
        let answer = answers.iter().find(|answer| answer.strategy == self.strategy);
        let value = answer.and_then(|answer| answer.expected(objective));
        let value = value.map(|value| format!("{value}, required: {}", objective.wanted()));
        let measured = answer.and_then(|answer| answer.measured.as_ref());
        let measured = measured.map(|one| format!("measured: {}", one.in_words(objective)));
        let close =
            answer.filter(|answer| answer.is_close(objective)).map(|_| "close to the limit".to_owned());
        let up_to = answer.and_then(|answer| answer.headroom).map(|room| {
            let at_least = if room.at_least { "at least " } else { "" };
            let of = if room.clients.is_some() { "your clients" } else { "your rate" };
            format!("good for {at_least}{} times {of}", number(room.factor))
        });
        let figures: Vec<String> = value.into_iter().chain(measured).chain(close).chain(up_to).collect();
        let figures = if figures.is_empty() { String::new() } else { format!(": {}", figures.join("; ")) };
        format!("Use {}{figures}{why}.", self.strategy)
    }
}

/// Multiples of the planned rate.
const RATES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// Multiples of the number of clients.
const CLIENTS: [f64; 3] = [0.25, 1.0, 4.0];
/// Number of simulated arrivals for a cell, enough for a rough estimate of the wait.
const ARRIVALS: f64 = 4_000.0;
/// Largest factor by which the number of locks is increased to spread a load.
const SPREAD_MOST: usize = 16;

/// One cell of the map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapCell {
    /// Arrivals per second, over all locks.
    pub rate: f64,
    /// Number of sessions that request locks.
    pub clients: usize,
    /// Best choice for this load.
    pub take: MapChoice,
}

/// Best choice for a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapChoice {
    /// The strategy and its number of locks. It has the shortest wait among the strategies that meet the objective
    /// with the fewest locks.
    Lock {
        /// Label of the strategy.
        strategy: String,
        /// Smallest number of locks that meets the objective.
        locks: usize,
        /// Approximate wait in microseconds: the objective's metric if it is a wait, else the 99th
        /// percentile.
        wait_us: f64,
    },
    /// No strategy meets the objective, with any number of locks.
    None,
    /// The measurements do not reach this load.
    NotKnown,
}

/// A strategy that can be predicted.
struct Candidate<'a> {
    strategy: &'a str,
    fit: Fit,
    trials: Vec<Observation>,
    load: &'a PlannedLoad,
}

/// Returns the best choice at other rates and numbers of clients, ordered by rate and then by clients, for
/// decisions before the load is known exactly.
pub fn map<'a>(
    answers: impl Iterator<Item = (&'a Answer, &'a PlannedLoad, &'a Evidence)>,
    objective: &Objective,
    effort: Effort,
) -> Vec<MapCell> {
    let candidate = |(answer, load, evidence): (&'a Answer, &'a PlannedLoad, &Evidence)| {
        let (fit, trials) = evidence.fitted().filter(|_| answer.prediction.is_some())?;
        Some(Candidate { strategy: &answer.strategy, fit, trials, load })
    };
    let candidates: &[Candidate<'_>] = &answers.filter_map(candidate).collect::<Vec<_>>();
    let Some(first) = candidates.first().filter(|first| !first.load.is_closed()) else { return Vec::new() };
    // With fewer arrivals, only a busier part of a changing load would be simulated.
    let most = if first.load.is_changing() { effort.arrivals } else { ARRIVALS };
    let effort = Effort { arrivals: most.min(effort.arrivals), ..effort };
    let asked = first.load.sessions();
    let mut clients: Vec<usize> =
        CLIENTS.iter().map(|factor| ((asked as f64 * factor).round() as usize).max(1)).collect();
    clients.dedup();
    let cells = RATES.iter().flat_map(|factor| clients.iter().map(move |clients| (*factor, *clients)));
    cells
        .map(|(factor, clients)| MapCell {
            rate: factor * first.load.rate(),
            clients,
            take: take(candidates, objective, effort, |load| load.times(factor).with_sessions(clients)),
        })
        .collect()
}

fn take(
    candidates: &[Candidate<'_>],
    objective: &Objective,
    effort: Effort,
    changed: impl Fn(PlannedLoad) -> PlannedLoad,
) -> MapChoice {
    let mut best: Option<(usize, f64, &str)> = None;
    let mut is_known = false;
    for Candidate { strategy, fit, trials, load } in candidates {
        let load = changed((*load).clone());
        if fit.beyond(load.rate()).is_some() {
            continue;
        }
        is_known = true;
        let search = Search { fit, trials, load: &load, objective, effort };
        let Some(locks) = search.fewest_locks(SPREAD_MOST) else { continue };
        let Some(wait) = predicted(wait_of(objective), &search.about(load.clone().over(locks))) else {
            continue;
        };
        if best.is_none_or(|(fewest, shortest, _)| (locks, wait.middle) < (fewest, shortest)) {
            best = Some((locks, wait.middle, *strategy));
        }
    }
    match (best, is_known) {
        (Some((locks, wait_us, strategy)), _) => {
            MapChoice::Lock { strategy: strategy.to_owned(), locks, wait_us }
        }
        (None, true) => MapChoice::None,
        (None, false) => MapChoice::NotKnown,
    }
}
