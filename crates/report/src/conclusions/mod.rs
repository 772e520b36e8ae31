//! Conclusions of a run: locks that must not be used, the recommended lock, and the fastest, fairest and
//! lightest locks.
//!
//! A strategy is better than another if the entire interval of their ratio is beyond the margin, corrected
//! for all pairs and contender counts. Invalid, partial and violated trials are not ranked.

mod ranking;
mod sentences;
mod warnings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::View;
use super::document::Link;
use ranking::Field;
use zklockbench_core::worded;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    pub topic: Topic,
    pub certainty: Certainty,
    /// Number of contenders; null if the conclusion is about the whole run.
    pub contenders: Option<usize>,
    /// Main strategies, such as the fastest, or a strategy that must not be used. There are several if the
    /// run cannot distinguish them.
    pub strategies: Vec<String>,
    /// The conclusion as a sentence.
    pub sentence: String,
    /// Part of the report on which the conclusion is based.
    pub evidence: Evidence,
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Topic by title {
        /// A lock broke a promise.
        MustNotBeUsed = "Must not be used",
        /// Limits of the other conclusions.
        Limits = "Note",
        /// Effects of a fault.
        Faults = "Under faults",
        /// The fastest strategy.
        Fastest = "Fastest",
        /// The strategy with the least load on the ensemble.
        Lightest = "Lightest",
        /// The fairest strategy.
        Fairest = "Fairest",
        /// The strategy to use with these settings, and its cost.
        Choice = "What to use",
    }
}

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
    /// Returns the link to the part of a report with this evidence.
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

/// Returns the conclusions of a run, most important first.
pub fn conclusions(view: &View<'_>) -> Vec<Conclusion> {
    let (stop, limits) = (warnings::must_not_be_used(view), warnings::limits(view));
    let ranked = Field::of(view).map(|field| sentences::ranked(&field)).unwrap_or_default();
    stop.into_iter().chain(warnings::of_faults(view)).chain(ranked).chain(limits).collect()
}
