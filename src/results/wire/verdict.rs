//! A verdict with its reasons, as the files hold it.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// The one word of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictWord {
    /// The promise was kept, and there was enough evidence to say so.
    Held,
    /// The promise was broken.
    Violated,
    /// There was too little evidence.
    Unknown,
}

/// A verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVerdict {
    /// `held`, `violated` or `unknown`.
    pub verdict: VerdictWord,
    /// Why it is not `held`; empty when it is.
    pub reasons: Vec<String>,
}

impl From<&Verdict> for StoredVerdict {
    fn from(verdict: &Verdict) -> Self {
        let word = match verdict {
            Verdict::Held => VerdictWord::Held,
            Verdict::Violated(_) => VerdictWord::Violated,
            Verdict::Unknown(_) => VerdictWord::Unknown,
        };
        Self { verdict: word, reasons: verdict.reasons().to_vec() }
    }
}

impl From<&StoredVerdict> for Verdict {
    fn from(stored: &StoredVerdict) -> Self {
        let reasons = stored.reasons.clone();
        match stored.verdict {
            VerdictWord::Held => Self::Held,
            VerdictWord::Violated => Self::Violated(reasons),
            VerdictWord::Unknown => Self::Unknown(reasons),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_comes_back_with_its_reasons() {
        let verdicts = [
            Verdict::Held,
            Verdict::Violated(vec!["two inside".into()]),
            Verdict::Unknown(vec!["cut".into()]),
        ];
        for verdict in verdicts {
            let stored = StoredVerdict::from(&verdict);
            let text = serde_json::to_string(&stored).unwrap();
            assert!(text.contains(&format!("\"{}\"", verdict.word())), "{text}");
            let read: StoredVerdict = serde_json::from_str(&text).unwrap();
            assert_eq!(Verdict::from(&read), verdict);
        }
    }
}
