//! Conclusions of a run: locks that must not be used, the recommended lock for these settings, and the fastest, the fairest and
//! the lightest on the ensemble.
//!
//! One rule decides: a strategy is better than another if the entire interval of their ratio, corrected for all pairs and all
//! numbers of contenders, is beyond the margin. With too few repetitions for such an interval, no strategy is named. Invalid,
//! partial and violated trials are not ranked.

mod ranking;
mod sentences;
mod warnings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::View;
use super::document::Link;
use ranking::Field;

/// One conclusion of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// Topic.
    pub topic: Topic,
    /// Certainty.
    pub certainty: Certainty,
    /// Number of contenders; null if it concerns the whole run.
    pub contenders: Option<usize>,
    /// Strategies that it names first, such as the fastest one, or the one that must not be used. Several if the run
    /// cannot distinguish them.
    pub strategies: Vec<String>,
    /// The conclusion as a sentence.
    pub sentence: String,
    /// Metrics that support it.
    pub evidence: Evidence,
}

/// Topic of a conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// A lock broke a promise.
    MustNotBeUsed,
    /// Limits of the other conclusions.
    Limits,
    /// Effect of faults on the lock.
    Faults,
    /// The fastest strategy.
    Fastest,
    /// The strategy with the least load on the ensemble.
    Lightest,
    /// The fairest strategy.
    Fairest,
    /// The strategy to use with these settings, and its cost.
    Choice,
}

/// Certainty of a conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Counted or observed, or shown by an interval.
    Shown,
    /// Shown to differ by less than the margin.
    Same,
    /// The run cannot distinguish the best from some others.
    Tied,
    /// The metrics are inconclusive.
    Unknown,
}

/// Part of the report on which a conclusion is based.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The verdicts.
    Verdicts,
    /// The main table.
    Table,
    /// Acquisitions per second.
    Throughput,
    /// Total time of all contenders.
    TotalTime,
    /// Waits.
    Waits,
    /// Requests and notifications.
    Requests,
    /// Fairness of the acquisitions.
    Fairness,
    /// Effects of each fault on the lock.
    Faults,
    /// Remarks below the table.
    Notes,
}

impl Evidence {
    /// Link to the part of a report with this evidence.
    pub fn link(self) -> Link {
        let (section, text) = match self {
            Self::Verdicts => ("verdicts", "verdicts and their evidence"),
            Self::Table => ("table", "table"),
            Self::TotalTime => ("total-time", "total time"),
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

/// Conclusions of a run, most important first.
pub fn conclusions(view: &View<'_>) -> Vec<Conclusion> {
    let (stop, limits) = (warnings::must_not_be_used(view), warnings::limits(view));
    let ranked = Field::of(view).map(|field| sentences::ranked(&field)).unwrap_or_default();
    stop.into_iter().chain(warnings::of_faults(view)).chain(ranked).chain(limits).collect()
}
