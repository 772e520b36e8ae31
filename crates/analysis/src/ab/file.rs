//! `ab.json`: the two sides, the progress and the results of a comparison.
//!
//! The file is replaced atomically after every block, so a killed comparison keeps all finished blocks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::Turn;
use super::comparison::{Comparison, Conclusion};
use crate::compare::Terms;
use zklockbench_core::error::Error;
use zklockbench_core::units::as_utc;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{CellKey, Counting, EnsembleInfo, Floor, HostInfo, RunEnding};
use zklockbench_results::VersionedFile;

pub const RUNS: &str = "runs";

/// Fields may be added without a new version.
pub const FILE: VersionedFile = VersionedFile {
    of: "comparison",
    name: "ab.json",
    version: 1,
    remedy: "the file is incomplete or damaged; run the comparison again",
};

/// How a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The comparison is in progress, or was killed.
    GoingOn,
    /// All planned blocks ran.
    Complete,
    /// The user ended the comparison early.
    Interrupted,
    /// The comparison ended early because a run failed.
    Aborted,
}

impl Ending {
    pub fn of_a_run(self) -> RunEnding {
        match self {
            Self::Interrupted => RunEnding::Interrupted,
            Self::Aborted | Self::GoingOn => RunEnding::Aborted,
            Self::Complete => RunEnding::Complete,
        }
    }
}

/// Planned number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Minimum number of blocks.
    pub blocks: u32,
    /// Largest permitted relative half-width of the intervals; `None` for a fixed number of blocks.
    pub until: Option<f64>,
    /// Maximum number of blocks, not counting replacements of spoiled ones.
    pub blocks_at_most: u32,
    /// Maximum number of blocks that replace blocks with invalid or partial runs.
    #[serde(default)]
    pub made_up_at_most: u32,
    /// Whether every interval is as narrow as planned and allows a verdict; `None` if no width was planned.
    pub reached: Option<bool>,
}

/// Facts about one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideRecord {
    /// Options that differ from the other side's, as on the command line, with the names that drivers report.
    pub differs: Vec<String>,
    /// Binary that ran the side.
    pub program: PathBuf,
    /// Version reported by the binary.
    pub program_version: String,
    /// Drivers of this side only; empty in files of versions without drivers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<SideDriver>,
    /// The scenario's text, with all changes.
    pub scenario_text: String,
    /// Whether the side's ensemble was restarted for each block instead of being shared by all runs.
    #[serde(default)]
    pub opened_anew: bool,
    /// Ensemble, as first opened.
    pub ensemble: EnsembleInfo,
    /// Floor of the side's ensemble, measured once before the first block.
    pub floor: Floor,
    /// Exclusion verdict over all runs of the side.
    pub judged: Verdict,
}

/// A driver of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideDriver {
    /// Name in the scenario.
    pub name: String,
    /// Command that starts the driver.
    pub command: String,
    /// Name and version that the driver reports.
    pub driver: String,
    /// Versions of the libraries in the driver.
    pub inside: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sides {
    /// Side A.
    pub a: SideRecord,
    /// Side B.
    pub b: SideRecord,
}

/// One run of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Role of the run in its block.
    pub turn: Turn,
    /// Directory, relative to the comparison's directory.
    pub directory: String,
    /// Exit code of the run's process.
    pub exit_code: Option<i32>,
    /// Duration of the process in microseconds.
    pub took_us: u64,
    /// Exclusion verdict.
    pub verdict: Verdict,
}

/// A complete block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockRecord {
    /// Number, starting at 1.
    pub number: u32,
    /// Seed of the block's three runs.
    pub seed: u64,
    /// Runs, in the order they ran.
    pub runs: Vec<RunRecord>,
}

/// Requests counted for one combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedCell {
    /// Role of the run that was counted.
    pub turn: Turn,
    /// The strategy and the number of contenders.
    #[serde(flatten)]
    pub cell: CellKey,
    /// The counts.
    pub counting: Counting,
}

/// The content of `ab.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbFile {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Version of the tool.
    pub tool_version: String,
    /// Commit of the tool.
    pub tool_commit: Option<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Seed that shuffles the blocks.
    pub seed: u64,
    /// Host of the generator.
    pub host: HostInfo,
    /// Start time, for information only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Time of writing, for information only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub written_at: SystemTime,
    /// How the comparison ended.
    pub ending: Ending,
    /// Reason, if the comparison ended early.
    pub why: Option<String>,
    /// Planned number of blocks.
    pub asked: Asked,
    /// Rules of the verdict.
    pub terms: Terms,
    /// The compared sides.
    pub sides: Sides,
    /// Conclusion from all comparisons.
    pub conclusion: Conclusion,
    /// The comparison of each metric of each combination.
    pub comparisons: Vec<Comparison>,
    /// Requests counted on the wire in the first block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedCell>,
    /// Complete blocks.
    pub blocks: Vec<BlockRecord>,
    /// Number of complete blocks at each resumption, when ensembles were restarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_after: Vec<usize>,
}

impl AbFile {
    /// Returns the exclusion verdict over both sides.
    pub fn judged(&self) -> Verdict {
        let of =
            |side: &SideRecord, name: &str| side.judged.clone().with_reasons(|why| format!("{name}: {why}"));
        of(&self.sides.a, "A").and(of(&self.sides.b, "B"))
    }

    /// Returns the margin of a comparison. Older files have one margin for all.
    pub fn margin_of(&self, one: &Comparison) -> Option<f64> {
        one.margin.or(self.terms.margin)
    }

    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        zklockbench_results::replace_json(&directory.join(FILE.name), self)
    }
}

pub fn read(directory: &Path) -> Result<AbFile, Error> {
    FILE.read(directory)
}
