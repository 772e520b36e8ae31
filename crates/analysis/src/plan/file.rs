//! `plan.json`: the question, the answers, their evidence and their verification.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, ByServers, FreshCost, MapCell, Question, Recommendation, Unverified, Verification};
use zklockbench_core::error::Error;
use zklockbench_core::units::{as_utc, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{EnsembleInfo, HostInfo};
use zklockbench_results::VersionedFile;
use zklockbench_scenario::DISTANCE_NOTE;

pub const RUNS: &str = "runs";

/// Fields may be added without a new version.
pub const FILE: VersionedFile = VersionedFile {
    of: "plan",
    name: "plan.json",
    version: 1,
    remedy: "the file is incomplete or damaged; run `zklockbench plan` again",
};

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanFile {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Version of the tool.
    pub tool_version: String,
    /// Commit of the tool; `None` if built outside a checkout.
    pub tool_commit: Option<String>,
    /// Start time, for information only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub asked_at: SystemTime,
    /// The command line.
    pub command: Vec<String>,
    /// The load and the objective.
    pub question: Question,
    /// Host of the last measurement.
    pub host: Option<HostInfo>,
    /// Ensemble of the last measurement.
    pub ensemble: Option<EnsembleInfo>,
    /// Runs and calibrations on which the answers are based.
    pub sources: Vec<PathBuf>,
    /// Parts of the sources that were left out, with the reasons.
    pub left_out: Vec<String>,
    /// Answer for each strategy.
    pub answers: Vec<Answer>,
    /// Cost of each strategy if each request takes its own lock; empty unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fresh: Vec<FreshCost>,
    /// Best choices at other rates and numbers of clients. Empty in files of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<MapCell>,
    /// The same load on other numbers of servers, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_servers: Vec<ByServers>,
    /// Recommended strategy; `None` if no strategy meets the objective.
    pub recommendation: Option<Recommendation>,
    /// Trials of the planned load itself.
    pub verifications: Vec<Verification>,
    /// Planned trials that did not run. Older versions did not store them.
    #[serde(default)]
    pub unverified: Vec<Unverified>,
}

impl PlanFile {
    /// Returns whether the load is feasible: a strategy is recommended, and all verifications met the
    /// objective.
    pub fn verdict(&self) -> Verdict {
        let all_break = || self.answers.iter().all(|answer| matches!(answer.verdict, Verdict::Violated(_)));
        match &self.recommendation {
            Some(_) => self.tried(),
            None if all_break() => Verdict::violated("no strategy meets the objective"),
            None => Verdict::unknown("no strategy is known to meet the objective"),
        }
    }

    /// Returns the verdict of the verifications; held if none was planned.
    fn tried(&self) -> Verdict {
        let with_strategy = |one: &Verification| {
            one.verdict().with_reasons(|why| format!("in the verification of {}, {why}", one.strategy))
        };
        let tried = self.verifications.iter().map(with_strategy).fold(Verdict::Held, Verdict::and);
        let not: Vec<String> = self
            .unverified
            .iter()
            .map(|one| format!("{} was not verified: {}", one.strategy, one.why))
            .collect();
        tried.and(Verdict::unknown_if(not))
    }

    /// Describes the measured ensemble in a sentence without a full stop; `None` if it is unknown.
    pub fn place(&self) -> Option<String> {
        let ensemble = self.ensemble.as_ref()?;
        let servers = counted(ensemble.servers.len() as u64, "server", "servers");
        let host = if ensemble.shares_host { " on the load generator's own host" } else { "" };
        let data = match ensemble.is_in_memory() {
            Some(true) => ", their data in memory",
            Some(false) => ", their data on disk",
            None => "",
        };
        Some(format!("Measured on {servers} (ZooKeeper {}){host}{data}", ensemble.versions().join(", ")))
    }

    /// Returns caveats about the ensemble and its host, each as a sentence.
    pub fn caveats(&self) -> Vec<String> {
        let servers = self.ensemble.as_ref().map_or(0, EnsembleInfo::on_generators_host);
        let together = (servers > 1).then(|| {
            format!(
                "{servers} servers shared the processors and the disk of one host; {servers} hosts would perform \
                 differently."
            )
        });
        let distance = self.question.round_trip.map(|_| DISTANCE_NOTE.to_owned());
        together.into_iter().chain(distance).collect()
    }

    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        zklockbench_results::replace_json(&dir.join(FILE.name), self)
    }
}

pub fn read(dir: &Path) -> Result<PlanFile, Error> {
    FILE.read(dir)
}
