//! Which strategy to take, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use crate::answer::objective::Objective;
use crate::words::units::{listed, number};
use crate::words::verdict::Verdict;

/// Rooms that differ by less than this factor are as good as each other: no two measurements are closer.
const SAME_ROOM: f64 = 1.15;
/// The same for requests, which differ by what happens to be in a trial.
const SAME_COST: f64 = 1.05;

/// Which strategy to take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Its label.
    pub strategy: String,
    /// Why; `None` in plans of versions that kept a sentence instead.
    pub because: Option<Because>,
}

/// What decides between strategies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// No other holds.
    NoOtherHolds,
    /// No other is known to hold: of these it can't be told.
    OthersUnknown(Vec<String>),
    /// It has the most room that is proven.
    MostRoom,
    /// Others have as much room, but send more requests.
    FewestRequests,
    /// These have as much room and send as many requests; it comes first by name.
    FirstOf(Vec<String>),
}

/// The strategy to take; `None` where none holds. Of those with the most room that is proven it is the one with the fewest requests, and
/// of those the first by name, so that noise decides nothing.
#[must_use]
pub fn recommend(answers: &[Answer]) -> Option<Recommendation> {
    let holding: Vec<&Answer> = answers.iter().filter(|answer| answer.verdict == Verdict::Held).collect();
    // Up to which rate it holds for sure, and not up to which it probably does.
    let room = |answer: &Answer| {
        let proven = answer.headroom.and_then(|room| Some(room.low? * room.factor / room.rate));
        proven.unwrap_or(1.0)
    };
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

impl Recommendation {
    #[must_use]
    pub fn sentence(&self, answers: &[Answer], objective: &Objective) -> String {
        let why = match &self.because {
            None => String::new(),
            Some(Because::NoOtherHolds) if answers.len() == 1 => String::new(),
            Some(Because::NoOtherHolds) => "; it is the only one that holds".to_owned(),
            Some(Because::OthersUnknown(names)) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("; whether {} would do is not known", listed(&names))
            }
            Some(Because::MostRoom) => "; it has the most room".to_owned(),
            Some(Because::FewestRequests) => "; others have as much room, but send more requests".to_owned(),
            Some(Because::FirstOf(equal)) => {
                let names: Vec<&str> = equal.iter().map(String::as_str).collect();
                format!("; {} would do as well", listed(&names))
            }
        };
        let answer = answers.iter().find(|answer| answer.strategy == self.strategy);
        let value = answer.and_then(|answer| answer.expected(objective));
        let limit = objective.figure.unit().show(objective.limit);
        let value = value.map(|value| format!("{value}, asked: {} {limit}", objective.relation.sign()));
        let up_to = answer.and_then(|answer| answer.headroom).map(|room| {
            let at_least = if room.at_least { "at least " } else { "" };
            let of = if room.clients.is_some() { "your clients" } else { "your rate" };
            format!("good for {at_least}{} times {of}", number(room.factor))
        });
        let figures: Vec<String> = value.into_iter().chain(up_to).collect();
        let figures = if figures.is_empty() { String::new() } else { format!(": {}", figures.join("; ")) };
        format!("Use {}{figures}{why}.", self.strategy)
    }
}
