//! Every command, option and argument: the one clap definition.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use super::ab::args::AbArgs;
use super::outputs::Outputs;
use super::plan::args::PlanArgs;
use super::run::metrics;
use super::scenario_file::Overrides;
use super::shared_args::PlaceArgs;
pub use super::shared_args::{AccessArgs, InstallArgs, Judging};
use super::shared_args::{SEEDS, budget, run_id};
use super::sweep::args::SweepArgs;
use crate::measure::Figure;

/// Compares ZooKeeper lock strategies on a real ensemble, with numbers.
#[derive(Debug, Parser)]
#[command(name = "zklockbench", version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario: measure, check, write results and charts
    Run(Box<RunArgs>),
    /// Check a scenario file; show its plan and how long it will take
    Validate(ValidateArgs),
    /// List the lock strategies, or describe one
    Strategies(StrategiesArgs),
    /// List what can go wrong on purpose, or describe one fault
    Faults(FaultsArgs),
    /// Judge a recorded history, or a run's trials again
    Check(CheckArgs),
    /// Write what CI reads (JUnit, a summary for GitHub, figures for trackers) of a run that is over
    Export(ExportArgs),
    /// Make the page of a run again, or one of several runs side by side
    Report(ReportArgs),
    /// Keep runs by commit to compare with, and draw a figure over them
    Baseline(BaselineArgs),
    /// Run two sides of a scenario in alternating blocks and say whether one is better, on a machine that is never quiet
    Ab(Box<AbArgs>),
    /// Measure a scenario over a range of contenders, rates, holds, locks, servers or round trips: where it bends and breaks
    Sweep(Box<SweepArgs>),
    /// Say whether a run is slower than another, and how sure that is
    Compare(CompareArgs),
    /// Say which claims of five articles on ZooKeeper locks hold, by the figures of stored runs
    Articles(ArticlesArgs),
    /// Say whether locks will carry a load, by simulation of what was measured; and prove it
    Plan(Box<PlanArgs>),
    /// Measure the raw ensemble without any lock: its requests one by one, and the floor of a handoff
    Calibrate(Box<CalibrateArgs>),
    /// Run random locks under random load and random faults, all drawn by a seed
    Torture(TortureArgs),
    /// Print the JSON Schema of scenario files, for editors; or of the files of a run or a calibration
    Schema(SchemaArgs),
    /// Keep a local ensemble between runs
    Ensemble(EnsembleArgs),
    /// List or remove what killed runs left on an ensemble
    Clean(CleanArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print the man page
    Man,
}

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    pub scenario: PathBuf,
    /// Start a fresh local ensemble even if `ensemble up` keeps a fitting one
    #[arg(long)]
    pub fresh: bool,
    /// Do not warm the servers up: the first trial begins sooner, but fresh servers answer it slowly
    #[arg(long, env = "ZKLOCKBENCH_COLD", value_parser = clap::builder::FalseyValueParser::new())]
    pub cold: bool,
    /// Let the scenario's faults break its own contenders and their connections on an existing ensemble
    #[arg(long)]
    pub allow_faults: bool,
    /// Make the connect string's chroot on an existing ensemble, where it is missing; it stays
    #[arg(long)]
    pub create_chroot: bool,
    /// Write down what each contender did, in trials/NNN.history.jsonl, for `check`
    #[arg(long)]
    pub history: bool,
    /// Generator threads [default: a quarter of the processors, at least 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Name of the run: its directory and its node on the ensemble [default: scenario and time]
    #[arg(long, value_name = "NAME", value_parser = run_id)]
    pub run_id: Option<String>,
    /// Compare with this run, with those of the newest commit of this store of baselines, or with the newest in this
    /// directory of runs that can be compared with
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Let zombies violate, too: holders that stay inside after their session was suspended or had expired
    #[arg(long)]
    pub strict: bool,
    /// Do not measure the ensemble's floor before the first trial
    #[arg(long, env = "ZKLOCKBENCH_NO_FLOOR", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_floor: bool,
    /// Draw no charts, and write no report.html
    #[arg(long, env = "ZKLOCKBENCH_NO_CHARTS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_charts: bool,
    /// Print the outcome as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Say nothing while it runs; warnings and the outcome are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Plain lines instead of a progress bar
    #[arg(long)]
    pub no_progress: bool,
    /// Serve OpenMetrics of the run under way at this address, e.g. 127.0.0.1:9100; a port alone is one of this host only
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
    /// What CI reads.
    #[command(flatten)]
    pub outputs: Outputs,
    /// Where ZooKeeper is.
    #[command(flatten)]
    pub install: InstallArgs,
    /// Changes to the scenario.
    #[command(flatten)]
    pub overrides: Overrides,
    /// How to be let in.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `baseline`.
#[derive(Debug, Args)]
pub struct BaselineArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BaselineCommand,
}

/// `baseline add|list|trend`.
#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Copy a run into the store
    Add(BaselineAddArgs),
    /// List the runs of the store, the oldest first
    List(BaselineListArgs),
    /// Draw a figure over the runs of the store
    Trend(BaselineTrendArgs),
}

/// `baseline add`.
#[derive(Debug, Args)]
pub struct BaselineAddArgs {
    /// The directory of the run
    pub run: PathBuf,
    /// The store; it is made if there is none
    #[arg(value_name = "STORE", default_value = BASELINES)]
    pub store: PathBuf,
    /// The commit of what was measured [default: that of the zklockbench that measured]
    #[arg(long, value_name = "SHA")]
    pub commit: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `baseline list`.
#[derive(Debug, Args)]
pub struct BaselineListArgs {
    /// The store
    #[arg(value_name = "STORE", default_value = BASELINES)]
    pub store: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `baseline trend`.
#[derive(Debug, Args)]
pub struct BaselineTrendArgs {
    /// The store
    #[arg(value_name = "STORE", default_value = BASELINES)]
    pub store: PathBuf,
    /// The figure, e.g. wait.p99, handoff.p50 or requests_per_acquisition
    #[arg(long, value_name = "FIGURE", default_value = "throughput")]
    pub figure: Figure,
    /// Only runs of this scenario [default: the store's, if it has runs of one only]
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Only this strategy, by its label
    #[arg(long, value_name = "LABEL")]
    pub strategy: Option<String>,
    /// Only this number of contenders
    #[arg(long, value_name = "N")]
    pub contenders: Option<usize>,
    /// Draw it into this file as well
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Where baselines are kept unless something else is said.
const BASELINES: &str = "baselines";

/// `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Where to measure.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Measure for a few seconds only: fewer samples, so less certain figures
    #[arg(long, conflicts_with = "budget")]
    pub quick: bool,
    /// For how long to measure, e.g. 2m; starting and warming up servers comes on top [default: 40s]
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub budget: Option<Duration>,
    /// Also try what ZooKeeper itself does where articles make claims about it, for `articles`; takes half a minute more
    #[arg(long)]
    pub behaviour: bool,
    /// Start a fresh local ensemble even if `ensemble up` keeps a fitting one
    #[arg(long)]
    pub fresh: bool,
    /// Do not warm the servers up: it ends sooner, but fresh servers answer slowly
    #[arg(long, env = "ZKLOCKBENCH_COLD", value_parser = clap::builder::FalseyValueParser::new())]
    pub cold: bool,
    /// Make the connect string's chroot on an existing ensemble, where it is missing; it stays
    #[arg(long)]
    pub create_chroot: bool,
    /// Where the directory of the calibration is made
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Print the outcome as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Say nothing while it goes on; warnings and the outcome are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Where ZooKeeper is.
    #[command(flatten)]
    pub install: InstallArgs,
    /// How to be let in.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `articles`.
#[derive(Debug, Args)]
pub struct ArticlesArgs {
    /// Directories of runs and calibrations, or directories of such; `scripts/articles` makes all that is needed
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Say this on the page and beside the decisions, such as what else the machine did
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Keep the decisions in this file
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Write the page on the claims, as docs/articles.md is, into this file
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The scenario file
    pub scenario: PathBuf,
    /// Print the plan, or the mistakes, as JSON
    #[arg(long)]
    pub json: bool,
    /// Changes to the scenario.
    #[command(flatten)]
    pub overrides: Overrides,
}

/// `strategies`.
#[derive(Debug, Args)]
pub struct StrategiesArgs {
    /// The strategy to describe
    pub name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `faults`.
#[derive(Debug, Args)]
pub struct FaultsArgs {
    /// The fault to describe
    pub kind: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `torture`.
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// For how long, one trial a minute; start and recovery come on top
    #[arg(long, value_name = "M", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub minutes: u64,
    /// The seed [default: a random one, which is printed]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..=SEEDS))]
    pub seed: Option<u64>,
    /// Print the scenario that is drawn, and run nothing
    #[arg(long)]
    pub show: bool,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Where the servers keep their data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Servers in containers instead, brought up from this Compose file
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub compose: Option<PathBuf>,
    /// Print the outcome as JSON instead of a table
    #[arg(long, conflicts_with = "show")]
    pub json: bool,
}

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A history (JSON lines), or the directory of a run
    #[arg(value_name = "HISTORY")]
    pub path: PathBuf,
    /// Let zombies violate, too: holders that stay inside after their session was suspended or had expired
    #[arg(long)]
    pub strict: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The directory of a run
    pub run: PathBuf,
    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,
    /// What CI reads.
    #[command(flatten)]
    pub outputs: Outputs,
}

/// `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The directories of the runs
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the run's directory; of several runs, in this one]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print where it was written as JSON
    #[arg(long)]
    pub json: bool,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The run to compare with, or a directory of runs, whose repetitions are pooled
    pub base: PathBuf,
    /// The run to judge, or a directory of runs
    pub new: PathBuf,
    /// What is compared, and how strictly.
    #[command(flatten)]
    pub judging: Judging,
    /// Compare what cannot be compared, such as another load or another machine; the output says so
    #[arg(long)]
    pub force: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Write it as Markdown, too, e.g. for a pull request
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Draw all ratios with their intervals, as .svg or .png
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Draw the waits of both by percentile, a panel for each combination, as .svg or .png
    #[arg(long, value_name = "FILE")]
    pub percentiles: Option<PathBuf>,
    /// Write every verdict as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// In a GitHub workflow: append a summary to $GITHUB_STEP_SUMMARY, and annotate what regressed
    #[arg(long)]
    pub github: bool,
}

/// `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
    pub of: SchemaOf,
}

/// What has a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// A scenario file
    Scenario,
    /// The JSON files of a run: an object with a schema for each
    Run,
    /// The file that `calibrate` writes
    Calibration,
    /// `summary.json` of a run: what its repetitions come to
    Summary,
    /// The file that `ab` writes
    Ab,
    /// The file that `sweep` writes
    Sweep,
    /// What `compare --json` prints
    Comparison,
    /// What every command prints with --json
    Answer,
    /// The file that `plan` writes
    Plan,
}

/// `ensemble`.
#[derive(Debug, Args)]
pub struct EnsembleArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub command: EnsembleCommand,
}

/// `ensemble up|status|down`.
#[derive(Debug, Subcommand)]
pub enum EnsembleCommand {
    /// Start a local ensemble that stays until `down`
    Up(UpArgs),
    /// Say whether it is up, and how its servers do
    Status(StatusArgs),
    /// End it and remove its data
    Down(DownArgs),
}

/// `ensemble up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// How many servers
    #[arg(long, default_value = "3",
          value_parser = PossibleValuesParser::new(["1", "3", "5"]).try_map(|servers| servers.parse::<usize>()))]
    pub servers: usize,
    /// Below which directory the servers keep their data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where ZooKeeper is.
    #[command(flatten)]
    pub install: InstallArgs,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ensemble status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ensemble down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `clean`.
#[derive(Debug, Args)]
pub struct CleanArgs {
    /// The ensemble
    #[arg(long, value_name = "HOST:PORT,…/CHROOT", required_unless_present = "docker")]
    pub connect: Option<String>,
    /// Instead of an ensemble: containers, networks and volumes that killed runs with --compose left on Docker
    #[arg(long, conflicts_with_all = ["connect", "run_id"])]
    pub docker: bool,
    /// Remove this run's nodes
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub run_id: Option<String>,
    /// Remove every run's nodes, except those of runs under way
    #[arg(long)]
    pub all: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// How to be let in.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

impl Command {
    /// What was asked for, e.g. `run` or `ensemble up`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Calibrate(_) => "calibrate",
            Self::Plan(_) => "plan",
            Self::Validate(_) => "validate",
            Self::Strategies(_) => "strategies",
            Self::Faults(_) => "faults",
            Self::Check(_) => "check",
            Self::Export(_) => "export",
            Self::Report(_) => "report",
            Self::Compare(_) => "compare",
            Self::Ab(_) => "ab",
            Self::Sweep(_) => "sweep",
            Self::Baseline(BaselineArgs { command: BaselineCommand::Add(_) }) => "baseline add",
            Self::Baseline(BaselineArgs { command: BaselineCommand::List(_) }) => "baseline list",
            Self::Baseline(BaselineArgs { command: BaselineCommand::Trend(_) }) => "baseline trend",
            Self::Torture(_) => "torture",
            Self::Schema(_) => "schema",
            Self::Ensemble(EnsembleArgs { command: EnsembleCommand::Up(_) }) => "ensemble up",
            Self::Ensemble(EnsembleArgs { command: EnsembleCommand::Status(_) }) => "ensemble status",
            Self::Ensemble(EnsembleArgs { command: EnsembleCommand::Down(_) }) => "ensemble down",
            Self::Articles(_) => "articles",
            Self::Clean(_) => "clean",
            Self::Completions(_) => "completions",
            Self::Man => "man",
        }
    }

    /// Whether the answer is to be JSON. What `schema` prints always is, and is no answer of this shape.
    pub fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Calibrate(args) => args.json,
            Self::Plan(args) => args.json,
            Self::Validate(args) => args.json,
            Self::Strategies(args) => args.json,
            Self::Faults(args) => args.json,
            Self::Check(args) => args.json,
            Self::Export(args) => args.json,
            Self::Report(args) => args.json,
            Self::Compare(args) => args.json,
            Self::Articles(args) => args.json,
            Self::Ab(args) => args.json,
            Self::Sweep(args) => args.json,
            Self::Baseline(BaselineArgs { command: BaselineCommand::Add(args) }) => args.json,
            Self::Baseline(BaselineArgs { command: BaselineCommand::List(args) }) => args.json,
            Self::Baseline(BaselineArgs { command: BaselineCommand::Trend(args) }) => args.json,
            Self::Torture(args) => args.json,
            Self::Ensemble(EnsembleArgs { command: EnsembleCommand::Up(args) }) => args.json,
            Self::Ensemble(EnsembleArgs { command: EnsembleCommand::Status(args) }) => args.json,
            Self::Ensemble(EnsembleArgs { command: EnsembleCommand::Down(args) }) => args.json,
            Self::Clean(args) => args.json,
            Self::Schema(_) | Self::Completions(_) | Self::Man => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_calibration_takes_between_a_second_and_an_hour() {
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["0s", "999ms", "2h", "40", "soon"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_run_id_is_a_plain_name() {
        assert!(run_id("quick-2026.1_a").is_ok());
        for wrong in ["", "..", ".x", "a/b", "a b", "é"] {
            assert!(run_id(wrong).is_err(), "{wrong}");
        }
    }
}
