//! Claims of articles, the rules that decide them, and the decisions.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Of};
use zklockbench_core::worded;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Article {
    A1,
    A2,
    A3,
    A4,
    A5,
}

/// A claim in `claims.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub number: u8,
    pub articles: Vec<Article>,
    pub claim: String,
    /// Criterion, fixed before the runs.
    pub decided_by: String,
    /// Runs that the claim needs: scenario names, [`CALIBRATIONS`] or [`CURATOR`].
    #[serde(default)]
    pub needs: Vec<String>,
    /// Tests of ZooKeeper's own behaviour, each as `file::name` below [`TESTS`].
    #[serde(default)]
    pub tests: Vec<String>,
    #[serde(default)]
    pub figures: Vec<FigureLine>,
    /// Name of a function that computes further metrics from these runs.
    #[serde(default)]
    pub reckoned: Option<String>,
    /// Cases in order; the first case whose condition is true decides.
    pub cases: Vec<Case>,
    /// Reason why the claim is inconclusive, if no case applies.
    #[serde(default = "undecided")]
    pub otherwise: String,
}

fn undecided() -> String {
    "the metrics are inconclusive".to_owned()
}

impl Claim {
    pub fn scenarios(&self) -> Vec<String> {
        let is_run = |need: &&String| ![CALIBRATIONS, CURATOR].contains(&need.as_str());
        self.needs.iter().filter(is_run).cloned().collect()
    }
}

/// A metric for conditions, sentences and the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureLine {
    pub id: String,
    /// Definition, in the grammar of [`super::reading`].
    pub of: String,
    /// Name on the page.
    pub shown: String,
    /// Unit; `None` for the metric's usual unit.
    #[serde(default)]
    pub unit: Option<Of>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub answer: Answer,
    /// Condition, in the grammar of [`super::figure`]; `None` if the claim's tests decide.
    pub when: Option<String>,
    /// One sentence without a full stop, with `{id}` for metrics.
    pub says: String,
}

/// The content of `claims.toml`, apart from the articles.
#[derive(Debug, Deserialize)]
struct Book {
    claim: Vec<Claim>,
}

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    toml::from_str(include_str!("claims.toml")).unwrap_or_else(|error| panic!("claims.toml: {error}"))
});

pub fn claims() -> &'static [Claim] {
    &BOOK.claim
}

/// Directory of the tests that claims refer to.
pub const TESTS: &str = "tests/zookeeper";
/// Name in `needs` for the recorded behaviour of Java's Curator.
pub const CURATOR: &str = "curator";
/// Name in `needs` for calibrations of 1, 3 and 5 servers.
pub const CALIBRATIONS: &str = "calibrations";

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Answer by name {
        Confirmed = "confirmed",
        Refuted = "refuted",
        /// The claim holds only under a condition, which is part of the sentence.
        HoldsWhen = "holds when",
        /// The metrics are missing or inconclusive.
        NotDecided = "not decided",
    }
}

/// The decision on a claim, as stored and displayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub number: u8,
    pub articles: Vec<Article>,
    pub claim: String,
    pub decided_by: String,
    pub answer: Answer,
    /// Reason, in one sentence without a full stop.
    pub sentence: String,
    pub figures: Vec<Figure>,
    /// Directory names of the runs and calibrations that supplied the metrics.
    pub runs: Vec<String>,
    /// Tests that decide the claim, as in [`Claim::tests`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
}

impl Decision {
    /// Returns whether the claim is inconclusive for lack of runs.
    pub fn lacks_runs(&self) -> bool {
        self.answer == Answer::NotDecided && self.runs.is_empty()
    }
}
