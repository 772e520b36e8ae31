//! What `plan` is asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::holds::{self, Holds};
use crate::answer::objective::Objective;
use crate::answer::plan::SIMULATED;
use crate::cli::shared_args::{GeneratorArgs, OpeningArgs, PlaceArgs, SEEDS, budget, duration_within};
use crate::cli::worker_args::JobArgs;
use crate::words::units::shown;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Clients, each with a session of its own
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: Option<u32>,
    /// Lock requests per second over all locks and clients, e.g. 50/s or 3000/min
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, value_parser = crate::answer::plan::rate)]
    pub rate: Option<f64>,
    /// How long each client holds the lock: on average (20ms), 'exactly 20ms', or as a scenario writes a distribution, e.g.
    /// '{ exponential = { mean = "20ms" } }'
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = holds::parsed)]
    pub hold: Option<Holds>,
    /// Take the holds from this file: one duration a line, or the column `hold`, `hold_us`, `hold_ms` or `hold_s` of a CSV
    /// file
    #[arg(long, value_name = "FILE", conflicts_with = "hold")]
    pub holds: Option<PathBuf>,
    /// Ask about the load of this scenario: its arrivals or, if it is closed, think times; its holds, locks, popularity and
    /// contenders
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["clients", "rate", "hold", "holds", "locks", "arrivals", "round_trip"])]
    pub from_scenario: Option<PathBuf>,
    /// Objective, written like a gate, e.g. 'wait.p99 < 200ms': on wait.p50, wait.p99, wait.p99.9, wait.mean or throughput
    #[arg(long, value_name = "CONDITION", value_parser = crate::answer::plan::objective)]
    pub slo: Objective,
    /// Number of locks; requests are spread evenly over them. A plan that misses its objective says how many locks would do
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = locks)]
    pub locks: u32,
    /// Strategies to consider [default: those of the results, or predecessor-watch, parent-watch and curator-mutex]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<String>,
    /// Arrival process: poisson, constant, or as a scenario writes it, e.g. '{ bursts = { peak = 4, length = "1s" } }'
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    pub arrivals: String,
    /// Distance: add this to every round trip between clients and servers while measuring and verifying, e.g. 5ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = round_trip)]
    pub round_trip: Option<Duration>,
    /// Answer from these runs, sweeps, calibrations or baseline stores instead of measuring
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Break things so often under each strategy, and say what each kind of failure costs: the leader, a follower and a holder
    /// killed, and a rolling restart; takes half a minute a time and strategy [default: the leader once]
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub failures: Option<u32>,
    /// Then run exactly this load with the recommended strategy, or with each of --strategies if none is recommended
    #[arg(long)]
    pub verify: bool,
    /// Time limit for verifying each strategy
    #[arg(long, value_name = "TIME", default_value = "6m", requires = "verify", value_parser = budget)]
    pub verify_for: Duration,
    /// Seed for everything random
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEEDS))]
    pub seed: u64,
    /// Arrivals of each simulation: a 99th percentile takes 20,000 to be known
    #[arg(long, hide = true, value_name = "N", default_value_t = SIMULATED as u32, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub simulate: u32,
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Where to put the plan's directory
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Resume the plan that left this directory; give the other options as they were
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub opening: OpeningArgs,
    #[command(flatten)]
    pub job: JobArgs,
}

/// Over how many locks.
fn locks(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|locks| (1..=1_000).contains(locks)).ok_or_else(|| {
        format!(
            "`{}` is no number of locks from 1 to 1000; a plan is about one number, and if it misses its objective it \
             says how many locks would do",
            shown(text, 40)
        )
    })
}

/// By how much round trips are longer.
fn round_trip(text: &str) -> Result<Duration, String> {
    duration_within(text, "0.1ms", "1s")
}
