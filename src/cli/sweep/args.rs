//! What `sweep` is told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::answer::objective::Objective;
use crate::answer::sweep::Over;
use crate::cli::scenario_file::Overrides;
use crate::cli::shared_args::{GeneratorArgs, OpeningArgs, duration_within, run_id};
use crate::cli::worker_args::JobArgs;

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// A scenario file, the name of a built-in scenario (`zklockbench scenarios`), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "resume")]
    pub scenario: Option<PathBuf>,
    /// What to sweep, as a range or a list: contenders=1..1000, rate=10..2000, hold=1ms..1s, locks=1..100, servers=1,3,5 or
    /// delay=0.2ms,1ms,5ms,50ms (added to every round trip); a second one gives a curve for each of its values
    #[arg(long, value_name = "VARIABLE=VALUES", required_unless_present = "resume")]
    pub over: Vec<Over>,
    /// A condition to meet, e.g. 'wait.p99 < 100ms': finds out how far it is met
    #[arg(long, value_name = "CONDITION")]
    pub objective: Option<Objective>,
    /// Time limit, including server start; the range is covered first [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = sweep_budget)]
    pub budget: Option<Duration>,
    /// Most values of the first variable to try, for each strategy
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u16).range(2..=500))]
    pub points_at_most: u16,
    /// Resume the sweep that left this directory, without repeating what is finished
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenario", "over", "objective", "strategies", "run_id", "points_at_most"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Where to put the sweep's directory
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Name of the sweep's directory; an existing sweep is resumed [default: scenario and time]
    #[arg(long, value_name = "NAME", value_parser = run_id)]
    pub run_id: Option<String>,
    /// Draw no charts
    #[arg(long, env = "ZKLOCKBENCH_NO_CHARTS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_charts: bool,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub opening: OpeningArgs,
    #[command(flatten)]
    pub job: JobArgs,
}

fn sweep_budget(text: &str) -> Result<Duration, String> {
    duration_within(text, "1s", "7days")
}
