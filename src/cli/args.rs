//! Every command, option and argument: the single clap definition.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};

use super::ab::args::AbArgs;
use super::drivers;
use super::export::{ExportArgs, Outputs};
use super::plan::question::PlanArgs;
use super::run::metrics;
use super::scenario_file::Overrides;
use super::scenario_source::SHIPPED;
use super::shared_args::{
    AccessArgs, ConcludingArgs, GeneratorArgs, InstallArgs, Judging, OpeningArgs, PlaceArgs, SEEDS,
    duration_within,
};
use super::sweep::question::SweepArgs;

use zklockbench_core::evidence::Sensitivity;
use zklockbench_core::units::run_id;
use zklockbench_ensemble::{CONNECT_VARIABLE, fault};
use zklockbench_locks::driver::DriverCommand;

/// Benchmarks ZooKeeper lock strategies on a real ensemble and verifies mutual exclusion.
#[derive(Debug, Parser)]
#[command(name = "zklockbench", version = VERSION, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub options: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

// Not a doc comment, which clap would print as the description of the program.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Print the outcome as JSON
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    /// Print every table, column and remark
    #[arg(long, global = true, display_order = 901)]
    pub all: bool,
    /// Explain the columns below each table
    #[arg(long, global = true, display_order = 902, hide_short_help = true)]
    pub explain: bool,
    /// Add a driver, e.g. kazoo=drivers/kazoo/run
    ///
    /// The locks of the driver become strategies. May be repeated; see docs/testing-your-client.md.
    #[arg(long = "driver", global = true, display_order = 903, value_name = "NAME=COMMAND", value_parser = drivers::named)]
    pub drivers: Vec<DriverCommand>,
    /// When to use colours
    #[arg(long, global = true, display_order = 904, hide_short_help = true, value_name = "WHEN", value_enum,
          default_value_t = clap::ColorChoice::Auto)]
    pub color: clap::ColorChoice,
    /// Log each step; -vv logs sessions too
    ///
    /// Log steps of servers, trials and faults to standard error, each with the time since the start.
    #[arg(long, short, global = true, display_order = 905, hide_short_help = true, action = ArgAction::Count)]
    pub verbose: u8,
}

const VERSION: &str = if env!("ZKLOCKBENCH_BUILT_FROM").is_empty() {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("ZKLOCKBENCH_BUILT_FROM"), ")")
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario: measure, check, write results and charts
    Run(Box<RunArgs>),
    /// Generate part of a run's load as one of several processes, on one or more machines
    Worker(Box<WorkerArgs>),
    /// Merge the parts of all workers into one run, judge the run, and write results and charts
    Merge(Box<MergeArgs>),
    /// Check a scenario; show its trials and their expected duration
    Validate(ValidateArgs),
    /// List the lock strategies, or describe one
    Strategies {
        /// Strategy to describe
        #[arg(value_parser = KnownNames(strategies), hide_possible_values = true)]
        name: Option<String>,
    },
    /// List the faults that a scenario can inject, or describe one
    Faults {
        /// Fault to describe
        #[arg(value_parser = KnownNames(faults), hide_possible_values = true)]
        kind: Option<String>,
    },
    /// List the built-in scenarios, or print one
    Scenarios {
        /// Scenario to print
        #[arg(value_parser = KnownNames(shipped), hide_possible_values = true)]
        name: Option<String>,
    },
    /// Judge a recorded history, or re-judge a run
    Check(CheckArgs),
    /// Export a finished run for CI: JUnit, a GitHub summary, metrics for trackers
    Export(ExportArgs),
    /// Regenerate the page of a run or a plan, or show several runs side by side
    Report(ReportArgs),
    /// Store runs as baselines by commit, and compare the newest run with earlier runs
    Baseline {
        #[command(subcommand)]
        command: BaselineCommand,
    },
    /// Compare two variants in alternating blocks, even on a noisy machine
    Ab(Box<AbArgs>),
    /// Measure a scenario over a range of contenders, rates, holds, locks, servers or round trips, and find
    /// the values that meet an objective
    Sweep(Box<SweepArgs>),
    /// Test whether one run is slower than another, with confidence intervals
    Compare(CompareArgs),
    /// Check the claims of five articles on ZooKeeper locks against stored runs
    Articles(ArticlesArgs),
    /// Predict whether a lock can handle your load; --verify checks the prediction
    Plan(Box<PlanArgs>),
    /// Learn how locks are used on a running ensemble, from its transaction logs or by watching the ensemble
    Learn(Box<LearnArgs>),
    /// Measure the ensemble without a lock: each kind of request, and the cheapest possible handoff
    Calibrate(Box<CalibrateArgs>),
    /// Run rounds of random locks under random load and random faults, all drawn from one seed
    Torture(TortureArgs),
    /// Drop and delay each message of a lock, cut the connection at each message, and try every order of requests
    Explore(Box<ExploreArgs>),
    /// Print the JSON Schema of scenario files (for editors) or of result files
    Schema {
        /// Schema to print
        #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
        of: SchemaOf,
    },
    /// Check or create a driver, which is a program that acquires locks for contenders
    Driver {
        #[command(subcommand)]
        command: DriverCommands,
    },
    /// Keep a local ensemble running between runs
    Ensemble {
        #[command(subcommand)]
        command: EnsembleCommand,
    },
    /// List or remove leftovers of killed runs
    Clean(CleanArgs),
    /// Print shell completions
    Completions {
        /// Shell for which to print completions [default: the shell in $SHELL]
        shell: Option<clap_complete::Shell>,
    },
    /// Print the man page of zklockbench or of a command
    Man {
        /// Command whose page to print [default: one page for all commands]
        #[arg(conflicts_with = "out")]
        command: Option<String>,
        /// Write a page for each command into this directory instead
        #[arg(long, short, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Scenario file, name of a built-in scenario (`zklockbench scenarios`), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "resume")]
    pub scenario: Option<PathBuf>,
    /// Resume the run in this directory by running its missing trials; pass --connect, --compose and
    /// --allow-faults again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenario", "history", "threads", "out", "run_id"])]
    pub resume: Option<PathBuf>,
    /// Record the actions of each contender in trials/NNN.history.jsonl, for `check`
    #[arg(long)]
    pub history: bool,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Create the run's directory in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Name of the run, its directory and its znode [default: scenario and time]
    #[arg(long, value_name = "NAME", value_parser = run_id)]
    pub run_id: Option<String>,
    #[command(flatten)]
    pub concluding: ConcludingArgs,
    /// Skip measuring the ensemble's floor before the first trial
    #[arg(long, env = "ZKLOCKBENCH_NO_FLOOR", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_floor: bool,
    /// Keep invalid trials instead of rerunning them
    #[arg(long, hide = true, env = "ZKLOCKBENCH_NO_RERUNS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_reruns: bool,
    /// End the run as soon as a gate can no longer pass, with exit code 1
    #[arg(long)]
    pub abort_on_fail: bool,
    /// Print plain lines instead of a progress bar
    #[arg(long)]
    pub no_progress: bool,
    /// Serve OpenMetrics during the run, e.g. at 127.0.0.1:9100; a port alone means localhost
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub outputs: Outputs,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// Scenario file, or name of a built-in scenario; must be the same for all workers
    #[arg(required_unless_present = "follow")]
    pub scenario: Option<PathBuf>,
    /// Name of the run, the same for all workers, e.g. the job number
    #[arg(long, value_name = "NAME", value_parser = run_id, env = "ZKLOCKBENCH_RUN_ID", required_unless_present = "follow")]
    pub run_id: Option<String>,
    /// Join every run of the `sweep` or `plan` that was started with --job NAME, until the job ends
    #[arg(long, value_name = "NAME", value_parser = run_id, conflicts_with = "scenario")]
    pub follow: Option<String>,
    /// Announce the run to the workers that follow this job
    #[arg(long, hide = true, value_name = "NAME", value_parser = run_id)]
    pub job: Option<String>,
    /// Merge the parts into this directory once all of them exist
    #[arg(long, hide = true, value_name = "DIR")]
    pub merge_into: Option<PathBuf>,
    /// Skip measuring the ensemble's floor before the first trial
    #[arg(long, hide = true, env = "ZKLOCKBENCH_NO_FLOOR", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_floor: bool,
    /// Number of this worker, starting at 0 [default: from Slurm, Open MPI or Kubernetes]
    #[arg(long, value_name = "I", requires = "of")]
    pub index: Option<usize>,
    /// Number of workers [default: from Slurm or Open MPI, or $ZKLOCKBENCH_WORKERS]
    #[arg(long, value_name = "N", requires = "index")]
    pub of: Option<usize>,
    /// Coordinate workers on this ensemble instead of the measured one, e.g. if faults affect the measured one
    #[arg(long, value_name = "HOST:PORT,…/CHROOT")]
    pub rendezvous: Option<String>,
    /// Time to wait for the other workers before the run
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration_within("1s", "1h"))]
    pub wait: Duration,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Create the run's directory, with a subdirectory for this worker, in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Directories of the workers, or a directory that contains them
    #[arg(value_name = "DIR", required = true)]
    pub parts: Vec<PathBuf>,
    /// Create the run's directory in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Name of the merged run's directory [default: the run's name followed by `-merged`]
    #[arg(long, value_name = "NAME", value_parser = run_id)]
    pub run_id: Option<String>,
    #[command(flatten)]
    pub concluding: ConcludingArgs,
    #[command(flatten)]
    pub outputs: Outputs,
}

#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Copy a run into the store
    Add(BaselineAddArgs),
    /// List the stored runs, oldest first
    List {
        /// Baseline store
        #[arg(value_name = "STORE", default_value = BASELINES)]
        store: PathBuf,
    },
    /// Compare the newest run with the previous run and a reference, and fail on a regression; for CI
    Check(BaselineCheckArgs),
}

#[derive(Debug, Args)]
pub struct BaselineAddArgs {
    /// Directory of the run
    pub run: PathBuf,
    /// Baseline store; created if missing
    #[arg(value_name = "STORE", default_value = BASELINES)]
    pub store: PathBuf,
    /// Measured commit [default: from CI, the current repository, or the zklockbench build of the run]
    #[arg(long, value_name = "SHA")]
    pub commit: Option<String>,
}

#[derive(Debug, Args)]
pub struct BaselineCheckArgs {
    /// Baseline store
    #[arg(value_name = "STORE", default_value = BASELINES)]
    pub store: PathBuf,
    /// Also compare with this run: its directory, or the name or commit of an earlier run in the store
    /// [default: the oldest]
    #[arg(long, value_name = "NAME_OR_DIR")]
    pub reference: Option<PathBuf>,
    #[command(flatten)]
    pub judging: Judging,
    /// Compare even if the load or machine differs; the output reports the differences
    #[arg(long)]
    pub force: bool,
    /// Compare only runs of this scenario [default: the scenario of the newest run]
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
}

const BASELINES: &str = "baselines";

#[derive(Debug, Args)]
pub struct LearnArgs {
    /// Data or log directories of the servers, copies of them, or tarballs of their version-2 directory
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath, required_unless_present = "connect")]
    pub directories: Vec<PathBuf>,
    /// Learn only locks below this path
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = super::learn::node_path)]
    pub path: String,
    /// Ignore requests before this time, e.g. 2026-11-29T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "connect", value_parser = super::learn::moment)]
    pub since: Option<SystemTime>,
    /// Ignore requests at or after this time
    #[arg(long, value_name = "TIME", conflicts_with = "connect", value_parser = super::learn::moment)]
    pub until: Option<SystemTime>,
    /// Directory for the results; created if missing [default: results/learned-<UTC time>]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace node names with hashes, using a random key
    #[arg(long)]
    pub anonymous: bool,
    /// Reject logs with damaged records instead of skipping the records
    #[arg(long, conflicts_with = "connect")]
    pub strict: bool,
    /// Handoff time included in each logged hold: from a release until the next acquire returns
    /// [default: estimated]
    #[arg(long, value_name = "TIME", value_parser = duration_within("0s", "1m"))]
    pub handoff: Option<Duration>,
    /// Watch this ensemble (ZooKeeper 3.6 or later) instead of reading logs, without writing to it
    #[arg(long, value_name = "HOST:PORT,…", env = CONNECT_VARIABLE, conflicts_with = "directories")]
    pub connect: Option<String>,
    /// Time to watch, e.g. 10m
    #[arg(long = "for", value_name = "TIME", default_value = "10m", conflicts_with = "directories", value_parser = duration_within("1s", "7d"))]
    pub lasts: Duration,
    /// Stop watching when more notifications than this arrive within a second
    #[arg(long, value_name = "N", default_value_t = 2_000, conflicts_with = "directories", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub at_most: u64,
    /// Print the requests that watching would send, without sending them
    #[arg(long, conflicts_with = "directories")]
    pub dry_run: bool,
    /// Print only warnings and a one-line outcome
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub access: AccessArgs,
}

#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Measure for only a few seconds, with less precise results
    #[arg(long, conflicts_with = "budget")]
    pub quick: bool,
    /// Measurement time, e.g. 2m, excluding server start and warm-up [default: 40s]
    #[arg(long, value_name = "TIME", value_parser = duration_within("1s", "1h"))]
    pub budget: Option<Duration>,
    /// Pause this long before each handoff and acquire, so caches are as cold as after a hold
    #[arg(long, value_name = "TIME", value_parser = duration_within("1us", "1s"))]
    pub rest: Option<Duration>,
    /// Create the calibration's directory in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

#[derive(Debug, Args)]
pub struct ArticlesArgs {
    /// Directories of runs and calibrations, or their parent directories; `scripts/articles` creates them all
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Add this note to the page and the decisions, e.g. about other load on the machine
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Store the decisions in this file; claims without new runs keep their stored decisions
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Write the evidence for the claims to this file, as in docs/reference/articles.md
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Scenario file, name of a built-in scenario (`zklockbench scenarios`), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
}

#[derive(Debug, Args)]
pub struct TortureArgs {
    /// Start new rounds for this many minutes [default: 5, or no limit with --rounds]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub minutes: Option<u64>,
    /// Stop after this many rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub rounds: Option<u64>,
    /// Seed for all rounds [default: a random seed, which is printed]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..=SEEDS))]
    pub seed: Option<u64>,
    /// Draw only these strategies [default: all exclusive strategies]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = STRATEGIES, hide_possible_values = true)]
    pub strategies: Vec<String>,
    /// Print the scenarios of these rounds without running them
    #[arg(long)]
    pub show: bool,
    /// Create the rounds' directory in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Directory under which the servers keep their data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Use containers started from this Compose file
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    pub compose: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// Strategies; a strategy and its parameters are one argument, e.g. 'predecessor-watch watch=exists'
    #[arg(value_name = "STRATEGY", value_parser = STRATEGIES, hide_possible_values = true)]
    pub strategies: Vec<String>,
    /// Explore all built-in locks and the locks of all --driver programs
    #[arg(long, conflicts_with = "strategies")]
    pub all: bool,
    /// Number of contenders [default: 2, or a semaphore's leases plus one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub contenders: Option<u8>,
    /// Time limit for all strategies together, e.g. 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration_within("10s", "24h"))]
    pub budget: Duration,
    /// Also try pairs of faults, until the budget is spent
    #[arg(long)]
    pub pairs: bool,
    /// Number of schedules to run in parallel
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub worlds: u8,
    /// Replay the case in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategies", "all", "pairs"])]
    pub replay: Option<PathBuf>,
    /// Directory for cases and pictures of all findings
    #[arg(long, short, value_name = "DIR", default_value = "explored")]
    pub out: PathBuf,
    // A local ensemble has one server unless --servers is given.
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// History (JSON lines), directory of a run, or - for a history on standard input
    #[arg(value_name = "HISTORY", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Count zombies as violations: contenders that keep holding the lock after losing their session
    #[arg(long)]
    pub strict: bool,
    /// Error rate to rule out for a verdict of held, e.g. 0.99@1%; ignored if the run's own setting is stricter
    #[arg(long, value_name = "P@RATE", value_parser = str::parse::<Sensitivity>)]
    pub evidence: Option<Sensitivity>,
    /// Also write the judgement as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directories of runs, or of a plan, a sweep, an A/B comparison, a calibration or a learned load
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// File for the page [default: report.html in the run's directory, or in the current directory for several
    /// runs]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Run to compare with, or a directory of runs to pool
    pub base: PathBuf,
    /// Run to judge, or a directory of runs to pool
    #[arg(required_unless_present = "power")]
    pub new: Option<PathBuf>,
    /// Estimate from BASE how many repetitions are needed to detect a change of this size, instead of comparing
    #[arg(long, value_name = "PERCENT", value_parser = super::shared_args::percentage,
          conflicts_with_all = ["new", "markdown", "html", "chart", "percentiles", "junit", "github"])]
    pub power: Option<f64>,
    #[command(flatten)]
    pub judging: Judging,
    /// Compare even if the load or machine differs; the output reports the differences
    #[arg(long)]
    pub force: bool,
    /// Also write the comparison as Markdown, e.g. for a pull request
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Also write the comparison as a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Plot all ratios with their intervals (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Plot the waits of both runs by percentile, one panel per combination (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub percentiles: Option<PathBuf>,
    /// Write every verdict as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// In a GitHub workflow, append to $GITHUB_STEP_SUMMARY and annotate regressions
    #[arg(long)]
    pub github: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// A scenario file
    Scenario,
    /// The JSON files of a run: an object with one schema per file
    Run,
    /// The file that `calibrate` writes
    Calibration,
    /// A run's `summary.json`
    Summary,
    /// The file that `ab` writes
    Ab,
    /// The file that `sweep` writes
    Sweep,
    /// The output of `compare --json`
    Comparison,
    /// The output of every command with --json
    Answer,
    /// The file that `plan` writes
    Plan,
    /// The file that `learn` writes
    Learned,
    /// The messages to and from a driver: an object with one schema per message
    Driver,
}

#[derive(Debug, Subcommand)]
pub enum DriverCommands {
    /// Check on an ensemble that a driver follows the protocol (docs/testing-your-client.md)
    Check(Box<DriverCheckArgs>),
    /// Create a driver for your lock: one file to edit, and a program `run` that builds and starts it
    New(DriverNewArgs),
}

#[derive(Debug, Args)]
pub struct DriverNewArgs {
    /// Directory to create; must not exist yet
    #[arg(value_hint = ValueHint::DirPath)]
    pub name: PathBuf,
    /// Language of the driver
    #[arg(long, value_enum)]
    pub language: DriverLanguage,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum DriverLanguage {
    /// kazoo's `Lock`, for you to replace
    Python,
    /// Curator's `InterProcessMutex`, built with `javac` or Maven
    Java,
    /// samuel/go-zookeeper's `Lock`
    Go,
    /// A queue lock on node-zookeeper-client, installed with npm
    Node,
}

#[derive(Debug, Args)]
pub struct DriverCheckArgs {
    /// Shell command of the driver, e.g. drivers/kazoo/run or 'python3 my-lock.py'
    #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub program: String,
    /// Check only this lock of the driver; may be repeated [default: all]
    #[arg(long = "lock", value_name = "NAME")]
    pub locks: Vec<String>,
    /// Run only this check, e.g. exclusion; may be repeated [default: all]
    #[arg(long = "only", value_name = "CHECK")]
    pub only: Vec<String>,
    /// Number of contenders in the exclusion check
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub contenders: u16,
    // A local ensemble has one server unless --servers is given.
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

#[derive(Debug, Subcommand)]
pub enum EnsembleCommand {
    /// Start a local ensemble that runs until `down`
    Up(UpArgs),
    /// Show whether the ensemble is up, and the state of its servers
    Status,
    /// Stop the ensemble and remove its data
    Down,
}

#[derive(Debug, Args)]
pub struct UpArgs {
    /// Number of servers
    #[arg(long, default_value = "3",
          value_parser = PossibleValuesParser::new(["1", "3", "5"]).try_map(|servers| servers.parse::<usize>()))]
    pub servers: usize,
    /// Directory under which the servers keep their data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub install: InstallArgs,
}

#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Ensemble to clean up
    #[arg(long, value_name = "HOST:PORT,…/CHROOT", env = CONNECT_VARIABLE, required_unless_present = "docker")]
    pub connect: Option<String>,
    /// Clean up Docker instead: containers, networks and volumes of killed --compose runs
    #[arg(long, conflicts_with_all = ["connect", "run_id"])]
    pub docker: bool,
    /// Remove this run's nodes
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub run_id: Option<String>,
    /// Remove the nodes of all runs except runs in progress
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub access: AccessArgs,
}

impl Command {
    pub fn may_name_locks(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Ab(_)
                | Self::Sweep(_)
                | Self::Plan(_)
                | Self::Validate(_)
                | Self::Strategies { .. }
                | Self::Worker(_)
                | Self::Merge(_)
                | Self::Torture(_)
                | Self::Explore(_)
                | Self::Schema { .. }
        )
    }

    /// Returns whether the command only prints generated text and has no outcome.
    pub fn has_no_outcome(&self) -> bool {
        matches!(self, Self::Schema { .. } | Self::Completions { .. } | Self::Man { .. })
    }
}

/// Accepts any text, but completes only these names. The command rejects unknown names with a suggestion.
#[derive(Debug, Clone, Copy)]
pub struct KnownNames(fn() -> Vec<&'static str>);

impl TypedValueParser for KnownNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Completes built-in strategies but accepts any name, because a strategy may be a driver's lock.
pub const STRATEGIES: KnownNames = KnownNames(strategies);

fn strategies() -> Vec<&'static str> {
    zklockbench_locks::cards().iter().map(|card| card.name).collect()
}

fn faults() -> Vec<&'static str> {
    fault::cards().iter().map(|card| card.name).collect()
}

fn shipped() -> Vec<&'static str> {
    SHIPPED.iter().map(|shipped| shipped.name).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
