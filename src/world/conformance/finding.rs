//! What trying a driver has come to.

use schemars::JsonSchema;
use serde::Serialize;

/// What one check has come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What was checked, in a few words that do not change.
    pub check: &'static str,
    /// The lock that it was tried on; null where it is about the program.
    pub lock: Option<String>,
    pub outcome: Outcome,
    /// What was seen, or why it was not tried.
    pub seen: String,
    /// What to do about it; null where there is nothing to do.
    pub advice: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Ok,
    Failed,
    /// What a driver should do, and need not.
    Warning,
    NotTried,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Warning => "warning",
            Self::NotTried => "not tried",
        }
    }
}

/// What a check has seen where nothing was wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckNote {
    Fine(String),
    Better(String),
}

/// Why a check ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The driver did what it must not.
    Wrong(String),
    /// The same, where more is known than what the check advises: what to do.
    Advised(String, &'static str),
    /// It was the ensemble, of which the driver is not guilty.
    Elsewhere(String),
    /// There is nothing to try, and why.
    NotTried(String),
}

pub(super) type Tried = Result<CheckNote, Trouble>;

pub(super) fn wrong<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Wrong(why.into()))
}

pub(super) fn not_tried<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::NotTried(why.into()))
}

/// Ends a check for which that is not so.
pub(super) fn needs(is_so: bool, otherwise: &str) -> Result<(), Trouble> {
    if is_so { Ok(()) } else { not_tried(otherwise) }
}

impl Finding {
    pub(super) fn of(check: &'static str, lock: Option<&str>, advice: &'static str, tried: Tried) -> Self {
        let (outcome, seen, advice) = match tried {
            Ok(CheckNote::Fine(seen)) => (Outcome::Ok, seen, None),
            Ok(CheckNote::Better(seen)) => (Outcome::Warning, seen, Some(advice)),
            Err(Trouble::Wrong(why)) => (Outcome::Failed, why, Some(advice)),
            Err(Trouble::Advised(why, better)) => (Outcome::Failed, why, Some(better)),
            Err(Trouble::Elsewhere(why)) => (Outcome::NotTried, format!("the ensemble: {why}"), None),
            Err(Trouble::NotTried(why)) => (Outcome::NotTried, why, None),
        };
        Self { check, lock: lock.map(str::to_owned), outcome, seen, advice }
    }
}
