//! What an article claims, what decides it, and what was decided.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Of};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Article {
    A1,
    A2,
    A3,
    A4,
    A5,
}

/// Where an article stands, and the figures that it gives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub article: Article,
    pub about: String,
    pub title: Option<String>,
    pub author: Option<String>,
    pub date: Option<String>,
    pub link: Option<String>,
    pub figures: String,
}

/// A claim, as `claims.toml` has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub number: u8,
    pub articles: Vec<Article>,
    pub claim: String,
    /// What decides it, fixed before the runs.
    pub decided_by: String,
    /// The runs that it needs, by the names of their scenarios, and [`CALIBRATIONS`] or [`CURATOR`].
    #[serde(default)]
    pub needs: Vec<String>,
    /// Tests that show what ZooKeeper itself does, each as `file::name` below [`TESTS`].
    #[serde(default)]
    pub tests: Vec<String>,
    #[serde(default)]
    pub figures: Vec<FigureLine>,
    /// What is reckoned from these runs beside its figures, by the name of a function.
    #[serde(default)]
    pub reckoned: Option<String>,
    /// The first whose condition holds decides.
    pub cases: Vec<Case>,
    /// Why it is not decided where none does.
    #[serde(default = "undecided")]
    pub otherwise: String,
}

fn undecided() -> String {
    "the figures do not tell".to_owned()
}

impl Claim {
    pub fn scenarios(&self) -> Vec<String> {
        let is_run = |need: &&String| ![CALIBRATIONS, CURATOR].contains(&need.as_str());
        self.needs.iter().filter(is_run).cloned().collect()
    }
}

/// A figure that conditions and sentences name, and that the page shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureLine {
    pub id: String,
    /// What it is, in the grammar of [`super::reading`].
    pub of: String,
    /// What the page calls it.
    pub shown: String,
    /// Where it is not the figure's own.
    #[serde(default)]
    pub unit: Option<Of>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub answer: Answer,
    /// In the grammar of [`super::figure`]; `None` if the claim's tests decide.
    pub when: Option<String>,
    /// One sentence without a full stop, with `{id}` for figures.
    pub says: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    article: Vec<Source>,
    claim: Vec<Claim>,
}

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    toml::from_str(include_str!("claims.toml")).unwrap_or_else(|error| panic!("claims.toml: {error}"))
});

pub fn claims() -> &'static [Claim] {
    &BOOK.claim
}

pub fn sources() -> &'static [Source] {
    &BOOK.article
}

/// Folder of the tests that claims name.
pub const TESTS: &str = "tests/zookeeper";
/// Stands among the needs for what Java's Curator was seen to do.
pub const CURATOR: &str = "curator";
/// Stands among the needs for calibrations of 1, 3 and 5 servers.
pub const CALIBRATIONS: &str = "calibrations";

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
    /// Tests that decide it, as in [`Claim::tests`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
}

impl Decision {
    /// Whether it is open because there is no run to decide it by.
    pub fn lacks_runs(&self) -> bool {
        self.answer == Answer::NotDecided && self.runs.is_empty()
    }
}
