//! A verdict with its reasons, and the three-way count with what it says.

use serde::{Deserialize, Serialize};

use crate::record::Accounting;
use crate::verdict::Verdict;

/// One line of the three-way check: client, cost model, servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAccounting {
    /// What is counted.
    pub what: String,
    /// As the client counted it.
    pub client: Option<u64>,
    /// As the cost model predicts it, where one applies.
    pub expected: Option<u64>,
    /// As the servers counted it, where they could be asked.
    pub servers: Option<u64>,
    /// Whether the numbers that are there agree; `None` when there is only one.
    pub agrees: Option<bool>,
}

impl From<&Accounting> for StoredAccounting {
    fn from(line: &Accounting) -> Self {
        Self {
            what: line.what.to_owned(),
            client: line.client,
            expected: line.expected,
            servers: line.servers,
            agrees: line.agrees(),
        }
    }
}

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
