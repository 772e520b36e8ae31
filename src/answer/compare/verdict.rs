//! What a comparison came to, in a word.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::record::RunEnding;
use crate::words::error::Exit;
use crate::words::verdict::Verdict;

/// What the comparison of one figure came to. The order is that of tables: what calls for a person comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonVerdict {
    /// It is worse, significantly and by more than the margin: the whole interval lies beyond it.
    Regressed,
    /// A side has no figure, so that nothing can be said.
    NotMeasured,
    /// Neither a difference nor that there is none could be shown.
    Inconclusive,
    /// It differs significantly, but not surely by more than the margin; or surely, and neither way is better.
    Differs,
    /// It is better, significantly and by more than the margin.
    Improved,
    /// Whatever the difference is, it is smaller than the margin: the whole interval lies within it.
    Same,
}

impl ComparisonVerdict {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Regressed, Self::NotMeasured, Self::Inconclusive, Self::Differs, Self::Improved, Self::Same];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::NotMeasured => "not measured",
            Self::Inconclusive => "inconclusive",
            Self::Differs => "differs",
            Self::Improved => "improved",
            Self::Same => "same",
        }
    }
}

impl fmt::Display for ComparisonVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Whether something is worse by more than the margin: what a gate asks, and the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Regression {
    /// It is not: the whole interval lies on this side of the margin, even if the verdict is inconclusive because it could
    /// be better.
    No,
    /// The repetitions don't tell.
    Unknown,
    /// It is.
    Yes,
}

impl Regression {
    /// As a verdict, for that reason: what is not known is no evidence that nothing regressed.
    pub fn verdict(self, why: &str) -> Verdict {
        match self {
            Self::No => Verdict::Held,
            Self::Yes => Verdict::Violated(vec![why.to_owned()]),
            Self::Unknown => Verdict::Unknown(vec![why.to_owned()]),
        }
    }

    /// The exit code, which tells no reason.
    pub(super) fn exit(self) -> Exit {
        RunEnding::Complete.exit(&self.verdict(""))
    }
}
