//! Options of `worker` and `merge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::export::Outputs;
use super::scenario_file::Overrides;
use super::shared_args::{ConcludingArgs, GeneratorArgs, OpeningArgs, duration_within, run_id};

#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// A scenario file, or the name of a built-in scenario; the same for all workers
    #[arg(required_unless_present = "follow")]
    pub scenario: Option<PathBuf>,
    /// Name of the run, the same for all its workers, e.g. the number of the job
    #[arg(long, value_name = "NAME", value_parser = run_id, env = "ZKLOCKBENCH_RUN_ID", required_unless_present = "follow")]
    pub run_id: Option<String>,
    /// Take part in each run of the `sweep` or `plan` that was started with --job NAME, until it has ended
    #[arg(long, value_name = "NAME", value_parser = run_id, conflicts_with = "scenario")]
    pub follow: Option<String>,
    /// Announce the run to the workers that follow this job
    #[arg(long, hide = true, value_name = "NAME", value_parser = run_id)]
    pub job: Option<String>,
    /// Merge the parts into this directory once all exist
    #[arg(long, hide = true, value_name = "DIR")]
    pub merge_into: Option<PathBuf>,
    /// Skip measuring the ensemble's floor before the first trial
    #[arg(long, hide = true, env = "ZKLOCKBENCH_NO_FLOOR", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_floor: bool,
    /// The worker's number, from 0 [default: from Slurm, Open MPI or Kubernetes]
    #[arg(long, value_name = "I", requires = "of")]
    pub index: Option<usize>,
    /// Number of workers [default: from Slurm or Open MPI, or $ZKLOCKBENCH_WORKERS]
    #[arg(long, value_name = "N", requires = "index")]
    pub of: Option<usize>,
    /// Meet on this ensemble instead of the one that is measured, e.g. if faults hit the latter
    #[arg(long, value_name = "HOST:PORT,…/CHROOT")]
    pub rendezvous: Option<String>,
    /// How long to wait for the other workers before the run
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration_within("1s", "1h"))]
    pub wait: Duration,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Where to put the directory of the run, which contains one for this worker
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The directories of the workers, or one that contains them
    #[arg(value_name = "DIR", required = true)]
    pub parts: Vec<PathBuf>,
    /// Where to put the run's directory
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Name of the run's directory [default: the name of the run and `-merged`]
    #[arg(long, value_name = "NAME", value_parser = run_id)]
    pub run_id: Option<String>,
    #[command(flatten)]
    pub concluding: ConcludingArgs,
    #[command(flatten)]
    pub outputs: Outputs,
}

/// Workers that share each run of a series.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load from several machines (docs/operating.md)")]
pub struct JobArgs {
    /// Execute each run with this many workers: this process and those started with `worker --follow NAME`
    #[arg(long, value_name = "N", requires_all = ["job", "connect"], value_parser = clap::value_parser!(u16).range(2..=1_000))]
    pub workers: Option<u16>,
    /// Name by which these workers find it
    #[arg(long, value_name = "NAME", requires = "workers", value_parser = run_id)]
    pub job: Option<String>,
}
