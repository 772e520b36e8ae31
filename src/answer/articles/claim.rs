//! What an article claims, and what the figures say about it.

use serde::{Deserialize, Serialize};

use super::Evidence;
use crate::words::units::{format_micros, number};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Article {
    /// The ZooKeeper paper's locks and the Go client.
    A1,
    /// Watch locks, with Curator's sources.
    A2,
    /// The comparison of polling, parent watch and predecessor watch.
    A3,
    /// What a ZooKeeper lock has to take care of.
    A4,
    /// Exclusive and shared locks.
    A5,
}

impl Article {
    pub const ALL: [Self; 5] = [Self::A1, Self::A2, Self::A3, Self::A4, Self::A5];

    /// What it is about. Titles, authors and addresses are not known to this suite.
    pub fn about(self) -> &'static str {
        match self {
            Self::A1 => "the ZooKeeper paper's locks and the Go client (2020)",
            Self::A2 => "the watch lock, with Curator's sources",
            Self::A3 => "the three-strategy comparison: polling, parent watch, predecessor watch",
            Self::A4 => "what a ZooKeeper lock has to take care of: GUID, local lock, reentrancy",
            Self::A5 => "exclusive and shared locks",
        }
    }
}

pub struct Claim {
    pub number: u8,
    pub articles: &'static [Article],
    pub text: &'static str,
    pub decided_by: &'static str,
    /// The runs that it needs, by the names of their scenarios, and [`BEHAVIOUR`], [`CALIBRATIONS`] or [`CURATOR`].
    pub needs: &'static [&'static str],
    /// Decides it; `None` when what is stored does not have the figures.
    pub decide: fn(&Evidence) -> Option<DecisionDraft>,
}

/// Stands among the needs for a calibration with `--behaviour`.
pub const BEHAVIOUR: &str = "calibrate --behaviour";
/// Stands among the needs for a count of the watches that Java's Curator leaves.
pub const CURATOR: &str = "curator";
/// Stands among the needs for calibrations of 1, 3 and 5 servers.
pub const CALIBRATIONS: &str = "calibrate --servers 1, 3 and 5";

/// What is true of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Confirmed,
    Refuted,
    /// It holds under a condition only, which the sentence names.
    HoldsWhen,
    /// The figures are not there, or do not say.
    NotDecided,
}

impl Answer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::HoldsWhen => "holds when",
            Self::NotDecided => "not decided",
        }
    }
}

/// What a number counts or measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    Amount,
    /// Microseconds.
    Us,
    Bytes,
    /// So many a second.
    PerS,
    /// A share between 0 and 1.
    Share,
    /// Of two equal things: 1 for yes, 0 for no.
    YesNo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub value: f64,
    pub of: Of,
}

impl Figure {
    pub fn shown(&self) -> String {
        match self.of {
            Of::Amount => number(self.value),
            Of::Us => format_micros(self.value.max(0.0).round() as u64),
            Of::Bytes => format!("{} bytes", number(self.value)),
            Of::PerS => format!("{}/s", number(self.value)),
            Of::Share => format!("{} %", number(self.value * 100.0)),
            Of::YesNo => if self.value > 0.0 { "yes" } else { "no" }.to_owned(),
        }
    }
}

/// A decision before it is put beside its claim.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionDraft {
    pub answer: Answer,
    /// One sentence, without a full stop.
    pub sentence: String,
    pub figures: Vec<Figure>,
}

impl DecisionDraft {
    pub fn new(answer: Answer, sentence: impl Into<String>) -> Self {
        Self { answer, sentence: sentence.into(), figures: Vec::new() }
    }

    pub fn if_so(holds: bool, so: impl Into<String>, otherwise: impl Into<String>) -> Self {
        if holds { Self::new(Answer::Confirmed, so) } else { Self::new(Answer::Refuted, otherwise) }
    }

    #[must_use]
    pub fn with(mut self, what: impl Into<String>, value: f64, of: Of) -> Self {
        self.figures.push(Figure { what: what.into(), value, of });
        self
    }
}

/// A claim that was decided, or was not: what is kept and shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub number: u8,
    pub articles: Vec<Article>,
    pub claim: String,
    pub decided_by: String,
    pub answer: Answer,
    /// Why, in one sentence without a full stop.
    pub sentence: String,
    pub figures: Vec<Figure>,
    /// From which runs and calibrations they come, by the names of their directories.
    pub runs: Vec<String>,
}

impl Decision {
    /// Whether it is open because there is no run to decide it by.
    pub fn lacks_runs(&self) -> bool {
        self.answer == Answer::NotDecided && self.runs.is_empty()
    }
}
