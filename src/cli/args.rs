//! Every command, option and argument: the one clap definition.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use super::scenario_file::Overrides;
use crate::error::Error;
use crate::units::parse_duration;
use crate::zk::{Access, Secret, TlsFiles};

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
    /// Let zombies violate, too: holders that stay inside after their session was suspended or had expired
    #[arg(long)]
    pub strict: bool,
    /// Print the outcome as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Say nothing while it runs; warnings and the outcome are still printed
    #[arg(long, short)]
    pub quiet: bool,
    /// Plain lines instead of a progress bar
    #[arg(long)]
    pub no_progress: bool,
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

/// `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Measure this ensemble instead of a local one
    #[arg(long, value_name = "HOST:PORT,…/CHROOT", conflicts_with_all = ["servers", "data_dir"])]
    pub connect: Option<String>,
    /// Measure servers in containers, brought up from this Compose file and taken down afterwards
    #[arg(long, value_name = "FILE", conflicts_with_all = ["servers", "data_dir", "connect"])]
    pub compose: Option<PathBuf>,
    /// Servers of the local ensemble: 1, 3 or 5 [default: 3]
    #[arg(long, value_name = "N")]
    pub servers: Option<i64>,
    /// Below which directory the local servers keep their data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Measure for a few seconds only: fewer samples, so less certain figures
    #[arg(long, conflicts_with = "budget")]
    pub quick: bool,
    /// For how long to measure, e.g. 2m; starting and warming up servers comes on top [default: 40s]
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub budget: Option<Duration>,
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

/// Identification and encryption.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access to an existing ensemble")]
pub struct AccessArgs {
    /// Digest identity; nodes are then accessible to it alone. Others on this machine see it in the list of processes:
    /// --auth-file or the variable keeps it from them
    #[arg(long, value_name = "USER:PASSWORD", env = "ZKLOCKBENCH_AUTH", hide_env_values = true,
          value_parser = clap::value_parser!(Secret))]
    pub auth: Option<Secret>,
    /// The same, from the first line of a file
    #[arg(long, value_name = "FILE", conflicts_with = "auth")]
    pub auth_file: Option<PathBuf>,
    /// Use TLS, with the system's certificate authorities ($SSL_CERT_FILE or the usual file) unless --tls-ca is given
    #[arg(long)]
    pub tls: bool,
    /// Certificate authority of the servers (PEM); implies --tls
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate of the client (PEM); implies --tls
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the client (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// Where ZooKeeper is.
#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// Directory of an unpacked ZooKeeper release [default: $ZOOKEEPER_HOME, else the system's package]
    // The variable is read where the search is made, so that an error can say which of the two was wrong.
    #[arg(long, value_name = "DIR")]
    pub zookeeper_home: Option<PathBuf>,
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

/// The largest seed of `torture`: it is the scenario's seed, too.
pub const SEEDS: u64 = i64::MAX as u64;

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
    Down,
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

/// A name that is good for a directory and for a znode.
fn run_id(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > 100 || !text.chars().all(fits) || text.starts_with('.') {
        return Err("use 1 to 100 letters, digits, `-`, `_` and `.`, not beginning with `.`".into());
    }
    Ok(text.to_owned())
}

/// How long may be measured.
fn budget(text: &str) -> Result<Duration, String> {
    let budget = parse_duration(text)?;
    let fits = (Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(&budget);
    if fits { Ok(budget) } else { Err(format!("`{text}` is out of range; give 1s to 1h")) }
}

impl AccessArgs {
    /// Whether any option asks for TLS.
    pub fn wants_tls(&self) -> bool {
        self.tls || self.tls_ca.is_some() || self.tls_cert.is_some()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Names what is missing or wrong.
    pub fn access(&self) -> Result<Access, Error> {
        let files =
            TlsFiles { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() };
        let digest = match &self.auth_file {
            Some(file) => Some(Secret::read(file)?),
            None => self.auth.clone(),
        };
        Access::new(digest, self.wants_tls().then_some(&files))
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
