//! `sweep.json`: the variable, progress and findings of a sweep; `sweep.csv`: its points as rows.
//!
//! Both files are replaced atomically after every run, so a killed sweep keeps all finished runs.

use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::Finding;
use super::over::Over;
use super::series::{At, Sample, State};
use crate::objective::Objective;
use zklockbench_core::error::Error;
use zklockbench_core::units::{as_utc, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{EnsembleInfo, HostInfo, RunEnding};
use zklockbench_results::VersionedFile;
use zklockbench_stats::Interval;

const CSV: &str = "sweep.csv";
pub const POINTS: &str = "points";

/// Fields may be added without a new version.
pub const FILE: VersionedFile = VersionedFile {
    of: "sweep",
    name: "sweep.json",
    version: 1,
    remedy: "the file is incomplete or damaged; run the sweep again, or resume it",
};

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The sweep is in progress, or was killed.
    GoingOn,
    /// Nothing is left to measure.
    Complete,
    /// The time limit was reached.
    OutOfTime,
    /// The time limit was reached before the range was covered.
    NotCovered,
    /// The user ended the sweep early.
    Interrupted,
    /// The sweep ended early because something failed.
    Aborted,
}

impl Ending {
    pub fn of_a_run(self) -> RunEnding {
        match self {
            Self::Interrupted => RunEnding::Interrupted,
            Self::Aborted | Self::GoingOn => RunEnding::Aborted,
            Self::Complete | Self::OutOfTime | Self::NotCovered => RunEnding::Complete,
        }
    }
}

/// One run: a repetition of some strategies at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Number, starting at 1.
    pub number: u32,
    /// Name of the run's directory in `points`.
    #[serde(default)]
    pub directory: String,
    /// Point of the run.
    pub at: At,
    /// Labels of the run's strategies.
    pub strategies: Vec<String>,
    /// Seed.
    pub seed: u64,
    /// Duration in microseconds.
    pub took_us: u64,
    /// Exit code of the run's process.
    pub exit_code: Option<i32>,
    /// Number of the run's ensemble, starting at 0.
    pub ensemble: usize,
}

/// The content of `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepFile {
    /// The version of this layout: 1.
    pub schema_version: u32,
    /// Version of the tool.
    pub tool_version: String,
    /// Commit of the tool.
    pub tool_commit: Option<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Text of the scenario, with all changes of the command line.
    pub scenario_text: String,
    /// `closed`, `batch` or `open`.
    pub load: String,
    /// Swept variables: one or two.
    pub over: Vec<Over>,
    /// Initial values of the first variable.
    pub grid: Vec<f64>,
    /// Labels of the strategies.
    pub strategies: Vec<String>,
    /// Objective.
    pub objective: Option<Objective>,
    /// Seed.
    pub seed: u64,
    /// Time limit in microseconds.
    pub budget_us: u64,
    /// Time spent in microseconds, including all parts of a resumed sweep.
    pub spent_us: u64,
    /// Maximum number of values of the first variable, for each strategy.
    pub points_at_most: usize,
    /// Generator threads, if specified.
    pub threads: Option<u16>,
    /// Host of the generator.
    pub host: HostInfo,
    /// Ensembles of the runs, in order.
    pub ensembles: Vec<EnsembleInfo>,
    /// Start time, for information only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Time of writing, for information only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub written_at: SystemTime,
    /// How the sweep ended.
    pub ending: Ending,
    /// Reason, if the sweep ended early.
    pub why: Option<String>,
    /// Findings for each strategy.
    pub findings: Vec<Finding>,
    /// Completed runs.
    pub runs: Vec<RunRecord>,
    /// Samples of these runs.
    pub samples: Vec<Sample>,
}

impl SweepFile {
    /// Returns the verdict over all points measured so far.
    pub fn judged(&self) -> Verdict {
        let any = |state| self.samples.iter().any(|sample| sample.state == state);
        match self.ending {
            _ if any(State::Violated) => Verdict::violated("a lock violated a guarantee at a point"),
            Ending::NotCovered => Verdict::unknown("time ran out before the range was covered"),
            _ if !any(State::Sound) => Verdict::unknown("no point is valid"),
            _ => Verdict::Held,
        }
    }

    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        zklockbench_results::replace_json(&directory.join(FILE.name), self)?;
        let (rows, path) = (&mut Vec::new(), directory.join(CSV));
        write_csv(self, &mut *rows).map_err(Error::cannot("write", &path))?;
        zklockbench_results::replace(&path, rows)
    }
}

pub fn read(directory: &Path) -> Result<SweepFile, Error> {
    let file: SweepFile = FILE.read(directory)?;
    contradiction(&file).map_or(Ok(()), |why| Err(FILE.broken(&directory.join(FILE.name), &why)))?;
    Ok(file)
}

fn contradiction(file: &SweepFile) -> Option<String> {
    if !(1..=2).contains(&file.over.len()) {
        return Some(format!("it sweeps {} variables, but a sweep has one or two", file.over.len()));
    }
    // The stored text must be valid on the command line.
    if let Some(over) = file.over.iter().find(|over| over.to_string().parse::<Over>().is_err()) {
        return Some(format!("`{over}` cannot be swept"));
    }
    let has = |strategy: &String| file.strategies.contains(strategy);
    if let Some(stranger) = file.samples.iter().find(|sample| !has(&sample.strategy)) {
        let name = shown(&stranger.strategy, 60);
        return Some(format!("it has a sample of `{name}`, which is not among its strategies"));
    }
    let is_listed = |sample: &Sample| file.runs.iter().any(|run| run.number == sample.run);
    if let Some(orphan) = file.samples.iter().find(|sample| !is_listed(sample)) {
        return Some(format!("it has a sample of run {}, which it does not list", orphan.run));
    }
    let positive = file.samples.iter().all(|sample| sample.at.x > 0.0) && file.grid.iter().all(|x| *x > 0.0);
    (!positive).then(|| "a point has a value that is not positive".to_owned())
}

/// Writes a row for each point; cells without a measurement are empty.
fn write_csv(file: &SweepFile, out: impl std::io::Write) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let figures = ["throughput_per_s", "wait_p50_us", "wait_p99_us"];
    let ends =
        figures.iter().flat_map(|name| [name.to_string(), format!("{name}_low"), format!("{name}_high")]);
    let mut header = vec!["strategy".to_owned()];
    header.extend(file.over.iter().map(|over| over.variable.name().to_owned()));
    header.extend(["repetitions", "sound"].map(str::to_owned));
    header.extend(ends);
    header.extend(["wait_p50_at_least", "wait_p99_at_least", "decision", "state", "why"].map(str::to_owned));
    csv.write_record(&header)?;
    for finding in &file.findings {
        for point in &finding.series.points {
            let mut row = vec![finding.series.strategy.clone(), point.at.x.to_string()];
            row.extend(point.at.beside.map(|value| value.to_string()));
            row.extend([point.repetitions.to_string(), point.sound.to_string()]);
            let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            for found in [point.throughput, point.wait_p50, point.wait_p99] {
                let bounded = found.filter(Interval::is_bounded);
                let ends =
                    [found.map(|one| one.value), bounded.map(|one| one.low), bounded.map(|one| one.high)];
                row.extend(ends.map(text));
            }
            row.extend([point.wait_p50_at_least, point.wait_p99_at_least].map(|bound| bound.to_string()));
            row.push(point.decision.map(|decision| decision.word().to_owned()).unwrap_or_default());
            row.push(point.state.word().to_owned());
            row.push(point.why.clone().unwrap_or_default());
            csv.write_record(&row)?;
        }
    }
    Ok(csv.flush()?)
}
