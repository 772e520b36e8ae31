//! What a run comes to, in words: which lock must not be used, which is fastest, lightest on the ensemble and fairest, which
//! to use in these settings, and what that costs.
//!
//! Each sentence follows from the figures, and is said only where they carry it. The unit is the repetition: one strategy is
//! called faster than another only where the whole interval of the ratio lies beyond the margin (`compare`), widened for all
//! pairs of strategies and all numbers of contenders. A single
//! repetition shows nothing, and a trial that is invalid, partial or violated never wins.

mod choice;
mod ranking;
mod warnings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::View;
use super::document::Link;
use ranking::{Aspect, RankingContext};
use zklockbench_analysis::compare::Limits;

/// One thing that a run shows, or does not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// What it is about.
    pub topic: Topic,
    /// How sure it is.
    pub certainty: Certainty,
    /// With how many contenders; null where it is about all of the run.
    pub contenders: Option<usize>,
    /// The strategies that it names first: the fastest, the one that must not be used. Several where they cannot be told
    /// apart.
    pub strategies: Vec<String>,
    /// The same in words.
    pub sentence: String,
    /// Which figures it rests on.
    pub evidence: Evidence,
}

/// What a conclusion is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// A lock broke a promise.
    MustNotBeUsed,
    /// What limits everything else that is said.
    Limits,
    /// What faults did to the lock.
    Faults,
    /// Which is the fastest.
    Fastest,
    /// Which asks the least of the ensemble.
    Lightest,
    /// Which shares the lock out most evenly.
    Fairest,
    /// Which to use in these settings, and what it costs.
    Choice,
}

/// How sure a conclusion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Counted or seen, or shown by an interval.
    Shown,
    /// Shown to differ by less than the margin.
    Same,
    /// The best cannot be told apart from some others.
    Tied,
    /// The figures do not carry an answer.
    Unknown,
}

/// Which figures a conclusion rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The verdicts.
    Verdicts,
    /// The main table.
    Table,
    /// Acquisitions a second.
    Throughput,
    /// How long all took together.
    TotalTime,
    /// Waits.
    Waits,
    /// Requests and notifications.
    Requests,
    /// How acquisitions are shared out.
    Fairness,
    /// What became of the lock under each fault.
    Faults,
    /// What must be said below the table.
    Notes,
}

impl Evidence {
    /// The part of a report that shows it.
    pub fn link(self) -> Link {
        let (section, text) = match self {
            Self::Verdicts => ("verdicts", "verdicts and their evidence"),
            Self::Table | Self::TotalTime => ("table", "table"),
            Self::Throughput => ("throughput", "throughput"),
            Self::Waits => ("waits", "waits"),
            Self::Requests => ("requests", "requests and notifications"),
            Self::Fairness => ("fairness", "fairness"),
            Self::Faults => ("faults", "locks under faults"),
            Self::Notes => ("notes", "notes"),
        };
        Link { section, text }
    }
}

/// What a run comes to, the most telling first.
pub fn conclusions(view: &View<'_>) -> Vec<Conclusion> {
    let limits = Limits::default();
    // A lock that must not be used comes first, then what faults did, then what to use.
    let (stop, others): (Vec<Conclusion>, Vec<Conclusion>) =
        warnings::of(view).into_iter().partition(|one| one.topic == Topic::MustNotBeUsed);
    let faults = warnings::of_faults(view);
    let ranked = RankingContext::of(view).map(|field| ranked(&field, limits)).unwrap_or_default();
    stop.into_iter().chain(faults).chain(ranked).chain(others).collect()
}

fn ranked(field: &RankingContext<'_>, limits: Limits) -> Vec<Conclusion> {
    let standings = field.standings(limits);
    let of = |aspect: Aspect| standings.iter().filter(move |one| one.aspect == aspect);
    let focus = field.focus();
    let choice = choice::of(field, &standings, focus, limits);
    // What is too little for an answer is said once.
    let is_open = |one: &Conclusion| one.certainty == Certainty::Unknown;
    let is_provisional = choice.as_ref().is_some_and(is_open);
    let is_said = |one: &Conclusion| {
        let is_repeated = one.topic == Topic::Fastest && one.contenders == Some(focus);
        is_provisional && (is_open(one) || is_repeated)
    };
    let said = [Aspect::Speed, Aspect::Load, Aspect::Fairness]
        .into_iter()
        .flat_map(|aspect| ranking::sentences(of(aspect), field.speed, focus, limits))
        .filter(|one| !is_said(one))
        .collect::<Vec<_>>();
    choice.into_iter().chain(said).collect()
}
