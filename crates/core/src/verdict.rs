//! Three-valued verdicts: held, violated, unknown. Absence of evidence is never a pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of checking a promise. In files: `{"verdict": "held", "reasons": []}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "InFile", from = "InFile")]
pub enum Verdict {
    /// The promise was kept, with enough evidence.
    Held,
    /// The promise was broken; the reasons give the evidence.
    Violated(Vec<String>),
    /// Too little evidence, a partial run or an indefinite outcome; the reasons give details.
    Unknown(Vec<String>),
}

impl Verdict {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Violated(_) => "violated",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns the reasons for a verdict other than `held`; otherwise empty.
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::Held => &[],
            Self::Violated(reasons) | Self::Unknown(reasons) => reasons,
        }
    }

    /// Returns the first reason and the number of further reasons, as a sentence without a full stop.
    pub fn why(&self) -> Option<String> {
        let (first, more) = self.reasons().split_first()?;
        Some(match more.len() {
            0 => first.clone(),
            1 => format!("{first}; and one more reason"),
            many => format!("{first}; and {many} more reasons"),
        })
    }

    pub fn with_reasons(self, change: impl FnMut(String) -> String) -> Self {
        match self {
            Self::Held => Self::Held,
            Self::Violated(reasons) => Self::Violated(reasons.into_iter().map(change).collect()),
            Self::Unknown(reasons) => Self::Unknown(reasons.into_iter().map(change).collect()),
        }
    }

    pub fn violated(why: impl Into<String>) -> Self {
        Self::Violated(vec![why.into()])
    }

    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(vec![why.into()])
    }

    pub fn unknown_if(reasons: Vec<String>) -> Self {
        if reasons.is_empty() { Self::Held } else { Self::Unknown(reasons) }
    }

    pub fn violated_if(reasons: Vec<String>) -> Self {
        if reasons.is_empty() { Self::Held } else { Self::Violated(reasons) }
    }

    /// Combines two verdicts: `violated` outweighs `unknown`, which outweighs `held`.
    pub fn and(self, other: Self) -> Self {
        use Verdict::{Held, Unknown, Violated};
        match (self, other) {
            (Violated(a), Violated(b)) => Violated([a, b].concat()),
            (Unknown(a), Unknown(b)) => Unknown([a, b].concat()),
            (Violated(a), _) | (_, Violated(a)) => Violated(a),
            (Unknown(a), _) | (_, Unknown(a)) => Unknown(a),
            (Held, Held) => Held,
        }
    }
}

/// A verdict as stored in files.
#[derive(Serialize, Deserialize, JsonSchema)]
struct InFile {
    /// The verdict: `held`, `violated` or `unknown`.
    verdict: Word,
    /// Reasons for a verdict other than `held`; otherwise empty.
    reasons: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Word {
    Held,
    Violated,
    Unknown,
}

impl From<Verdict> for InFile {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Held => Self { verdict: Word::Held, reasons: Vec::new() },
            Verdict::Violated(reasons) => Self { verdict: Word::Violated, reasons },
            Verdict::Unknown(reasons) => Self { verdict: Word::Unknown, reasons },
        }
    }
}

impl From<InFile> for Verdict {
    fn from(InFile { verdict, reasons }: InFile) -> Self {
        match verdict {
            Word::Held => Self::Held,
            Word::Violated => Self::Violated(reasons),
            Word::Unknown => Self::Unknown(reasons),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;
    use super::Verdict::{Held, Unknown, Violated};

    #[test]
    fn verdict_round_trips_with_its_reasons() {
        for verdict in [Held, Violated(vec!["two inside".into()]), Unknown(vec!["cut".into()])] {
            let text = serde_json::to_string(&verdict).unwrap();
            assert!(text.contains(&format!("\"{}\"", verdict.word())), "{text}");
            assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        }
    }

    #[test]
    fn why_is_one_sentence_for_any_number_of_reasons() {
        assert_eq!(Held.why(), None);
        assert_eq!(Unknown(vec!["a".into()]).why().unwrap(), "a");
        assert_eq!(Unknown(vec!["a".into(), "b".into()]).why().unwrap(), "a; and one more reason");
        let many = Violated(vec!["a".into(), "b".into(), "c".into()]);
        assert_eq!(many.why().unwrap(), "a; and 2 more reasons");
    }

    #[test]
    fn violated_outweighs_unknown_which_outweighs_held() {
        let violated = || Violated(vec!["two holders".into()]);
        let unknown = || Unknown(vec!["partial".into()]);
        assert_eq!(Held.and(Held), Held);
        assert_eq!(Held.and(unknown()), unknown());
        assert_eq!(unknown().and(violated()), violated());
        assert_eq!(unknown().and(unknown()).reasons().len(), 2);
    }
}
