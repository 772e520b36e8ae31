//! `ab.json`: the two sides, the progress and the results of a comparison.
//!
//! It is rewritten after every block and replaced atomically, so that a killed comparison leaves all finished blocks, judged.

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

/// A field may be added without a new version.
pub const FILE: VersionedFile = VersionedFile {
    of: "comparison",
    name: "ab.json",
    version: 1,
    remedy: "the file is incomplete or damaged: compare again",
};

/// How a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It goes on, or was killed.
    GoingOn,
    /// All blocks ran that were to run.
    Complete,
    /// Cut short by the user.
    Interrupted,
    /// Cut short because a run failed.
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

/// How many blocks were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Blocks in any case.
    pub blocks: u32,
    /// How far every interval may reach to either side, as a share; `None` where the blocks alone decided.
    pub until: Option<f64>,
    /// Blocks at most, but for those that make up for spoiled ones.
    pub blocks_at_most: u32,
    /// How many blocks more make up for blocks that lack a pair because a run was invalid or partial.
    #[serde(default)]
    pub made_up_at_most: u32,
    /// Whether every interval is as narrow as was asked; `None` where nothing was.
    pub reached: Option<bool>,
}

/// What one side was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideRecord {
    /// Difference from the other side as written on the command line, with the name that a driver reports.
    pub differs: Vec<String>,
    /// The binary that ran it.
    pub program: PathBuf,
    /// Version that the binary reports.
    pub program_version: String,
    /// The drivers that it alone has; empty in files of versions that knew none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<SideDriver>,
    /// The scenario's text, with all changes.
    pub scenario_text: String,
    /// Whether its ensemble was restarted for each block. Otherwise all its runs shared one.
    #[serde(default)]
    pub opened_anew: bool,
    /// Its ensemble, as it was when it was first opened.
    pub ensemble: EnsembleInfo,
    /// What its raw requests cost, measured once before the first block.
    pub floor: Floor,
    /// What its runs are judged as, all together: whether the locks held.
    pub judged: Verdict,
}

/// A driver of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideDriver {
    /// Name in the scenario.
    pub name: String,
    /// Command that starts it.
    pub command: String,
    /// What it says that it is.
    pub driver: String,
    /// The versions of what works inside of it.
    pub inside: BTreeMap<String, String>,
}

/// Both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sides {
    /// The first.
    pub a: SideRecord,
    /// The second.
    pub b: SideRecord,
}

/// One run of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// What it was for.
    pub turn: Turn,
    /// Its directory, below that of the comparison.
    pub directory: String,
    /// Exit code of its process.
    pub exit_code: Option<i32>,
    /// How long the process took, in microseconds.
    pub took_us: u64,
    /// Whether its locks held.
    pub verdict: Verdict,
}

/// One block that ran to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockRecord {
    /// From 1.
    pub number: u32,
    /// The seed of its three runs.
    pub seed: u64,
    /// The runs in their order.
    pub runs: Vec<RunRecord>,
}

/// What was counted of the requests of a strategy with a number of contenders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedCell {
    /// Whose.
    pub turn: Turn,
    /// The strategy and the number of contenders.
    #[serde(flatten)]
    pub cell: CellKey,
    /// What was counted.
    pub counting: Counting,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AbFile {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Version of the tool that compared.
    pub tool_version: String,
    /// Commit that it was built from.
    pub tool_commit: Option<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The seed by which blocks are shuffled.
    pub seed: u64,
    /// The host.
    pub host: HostInfo,
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// When this was written, at the end or after a block; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub written_at: SystemTime,
    /// How it ended.
    pub ending: Ending,
    /// What cut it short, where something did.
    pub why: Option<String>,
    /// How many blocks were asked for.
    pub asked: Asked,
    /// Rules of the verdict.
    pub terms: Terms,
    /// What was compared.
    pub sides: Sides,
    /// What the comparisons come to.
    pub conclusion: Conclusion,
    /// Each figure of each combination.
    pub comparisons: Vec<Comparison>,
    /// What was counted of requests on the wire, in the first block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedCell>,
    /// The blocks that ran to their end.
    pub blocks: Vec<BlockRecord>,
    /// Number of blocks at each resumption. Ensembles were restarted there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_after: Vec<usize>,
}

impl AbFile {
    /// Exclusion verdict over both sides.
    pub fn judged(&self) -> Verdict {
        let of =
            |side: &SideRecord, name: &str| side.judged.clone().with_reasons(|why| format!("{name}: {why}"));
        of(&self.sides.a, "A").and(of(&self.sides.b, "B"))
    }

    /// The margin of a comparison, or the common one in files of versions that had it.
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
