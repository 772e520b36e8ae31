//! What to take at other rates and with other numbers of clients, from the same measurements: a table to decide with before
//! a load is known exactly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Load;
use super::answer::{Effort, Search, fitted};
use super::objective::{predicted, wait_of};
use super::{Answer, Evidence};
use crate::answer::model::{Fit, Observation};
use crate::answer::objective::Objective;

/// Multiples of the rate that was asked for.
const RATES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// Multiples of the clients.
const CLIENTS: [f64; 3] = [0.25, 1.0, 4.0];
/// How many arrivals a cell is simulated with: it says about how long a wait is.
const ARRIVALS: f64 = 4_000.0;
/// As many more locks as a load is spread over at most.
const SPREAD_MOST: usize = 16;

/// One cell of the map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapCell {
    /// Arrivals a second, over all locks.
    pub rate: f64,
    /// Sessions that ask for locks.
    pub clients: usize,
    /// What to take there.
    pub take: MapChoice,
}

/// What to take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapChoice {
    /// That strategy over so many locks: of those that keep the objective with the fewest locks the one with the shortest wait.
    Lock {
        /// Its label.
        strategy: String,
        /// The fewest locks with which it keeps the objective.
        locks: usize,
        /// The wait of the objective then or, where that is about something else, its 99th percentile: about so many
        /// microseconds.
        wait_us: f64,
    },
    /// None keeps the objective, over however many locks.
    None,
    /// Nothing that was measured reaches so far.
    NotKnown,
}

/// A strategy of which something can be predicted.
pub struct Candidate<'a> {
    strategy: &'a str,
    fit: Fit,
    trials: Vec<Observation>,
    load: Load,
}

impl<'a> Candidate<'a> {
    /// `None` of one of which nothing can be predicted.
    #[must_use]
    pub fn of(answer: &'a Answer, evidence: &Evidence, load: &Load) -> Option<Self> {
        let (fit, trials) = fitted(evidence)?;
        answer.prediction.as_ref()?;
        Some(Self { strategy: &answer.strategy, fit, trials, load: load.clone() })
    }
}

/// The map of these strategies, by rates and within a rate by clients.
#[must_use]
pub fn map(candidates: &[Candidate<'_>], objective: &Objective, effort: Effort) -> Vec<MapCell> {
    let Some(first) = candidates.first().filter(|first| !first.load.is_closed()) else { return Vec::new() };
    let effort = Effort { arrivals: ARRIVALS.min(effort.arrivals), ..effort };
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
    changed: impl Fn(Load) -> Load,
) -> MapChoice {
    let mut best: Option<(usize, f64, &str)> = None;
    let mut is_known = false;
    for Candidate { strategy, fit, trials, load } in candidates {
        let load = changed(load.clone());
        if fit.beyond(load.rate()).is_some() {
            continue;
        }
        is_known = true;
        let search = Search { fit, trials, load: &load, objective, effort };
        let Some(locks) = search.fewest_locks(SPREAD_MOST) else { continue };
        let Some(wait) = predicted(wait_of(objective), &search.about(load.clone().over(locks))) else {
            continue;
        };
        let is_better = best.is_none_or(|(fewest, shortest, _)| (locks, wait.middle) < (fewest, shortest));
        if is_better {
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
