//! `plan.json`: the question, the answers, what they rest on, and how they were verified.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::{Answer, Question, Verification};
use crate::error::Error;
use crate::results::record::{EnsembleInfo, HostInfo};
use crate::units::as_utc;

/// Its name in the directory of a plan.
pub const FILE: &str = "plan.json";
/// The folder in which the runs lie that were made for it.
pub const RUNS: &str = "runs";
/// The version of the layout. A field may be added without a new one.
pub const VERSION: u32 = 1;

/// Which strategy to take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Its label.
    pub strategy: String,
    /// Why.
    pub why: String,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanFile {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Version of the tool.
    pub tool_version: String,
    /// Commit that it was built from; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// When it was asked; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub asked_at: SystemTime,
    /// The command line.
    pub command: Vec<String>,
    /// The question.
    pub question: Question,
    /// The host that measured last.
    pub host: Option<HostInfo>,
    /// The ensemble that was measured last.
    pub ensemble: Option<EnsembleInfo>,
    /// Runs and calibrations that it was answered from.
    pub sources: Vec<PathBuf>,
    /// What of them says nothing, and why.
    pub left_out: Vec<String>,
    /// The answer for each strategy.
    pub answers: Vec<Answer>,
    /// Which to take; `None` where none holds.
    pub recommendation: Option<Recommendation>,
    /// Trials of that very load.
    pub verifications: Vec<Verification>,
}

impl PlanFile {
    /// Writes it into a directory, in the place of one that is there.
    ///
    /// # Errors
    /// [`Error::Environment`] when the disk refuses.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(FILE);
        let cannot =
            |error: std::io::Error| Error::environment(format!("cannot write {}: {error}", path.display()));
        let text = serde_json::to_string_pretty(self).map_err(Error::environment)?;
        let beside = dir.join(format!(".{FILE}.partial"));
        fs::write(&beside, text + "\n").map_err(cannot)?;
        fs::rename(&beside, &path).map_err(cannot)
    }
}

/// The JSON Schema of `plan.json`.
#[must_use]
pub fn schema() -> Schema {
    schema_for!(PlanFile)
}
