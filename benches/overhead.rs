//! What measuring costs: the throughput of `predecessor-watch` as a trial measures it, against the same
//! requests in a bare loop that counts nothing but acquisitions.
//!
//! ```text
//! cargo bench --bench overhead
//! cargo bench --bench overhead -- --rounds 20 --seconds 5 --contenders 50
//! ```
//!
//! Every round runs the bare loop, a trial and the bare loop again, with fresh sessions and a fresh lock on the
//! same ensemble. The trial is compared with the mean of its two neighbours, so that a steady drift cancels
//! out; the neighbours against each other show what noise looks like here. A round of a few seconds is
//! disturbed by more than the limit on a busy machine, so no single round decides: the verdict is that of the
//! median over the rounds. Before the first round the bare loop runs for a while, because servers that have
//! just been started are slow until they are compiled.
//!
//! The trial's share of the work is everything that the suite adds, not recording alone: deadlines,
//! cancellation, the exclusion check, attribution.
//!
//! The ensemble is one of three servers that is started for the occasion, in memory where there is such a
//! place, because without fsync the generator's share of a handoff is largest. `--connect` or
//! `ZKLOCKBENCH_CONNECT` names another.
//!
//! Ends with 1 when the median cost is above the limit, and with 3 when the ensemble cannot be used.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a table is what it is for

#[path = "overhead/bare.rs"]
mod bare;
#[path = "overhead/statistics.rs"]
mod statistics;
#[path = "overhead/world.rs"]
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use zklockbench::error::Error;
use zklockbench::record::{Completeness, Trial};

use bare::Side;
use statistics::{Ratios, interval, median};
use world::World;

/// The largest share of throughput that measuring may cost.
const LIMIT: f64 = 0.03;
const WARM_UP: Duration = Duration::from_secs(1);

/// Compares a trial with a bare loop.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// An ensemble that is there already
    #[arg(long, env = "ZKLOCKBENCH_CONNECT")]
    connect: Option<String>,
    /// Rounds of two bare loops and one trial
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measured seconds of each loop and trial
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds of the bare loop before the first round
    #[arg(long, default_value_t = 15)]
    settle: u64,
    /// Contenders
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    contenders: u32,
    /// Generator threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// One round: the trial, and the bare loops before and after it.
struct Round {
    bare: [Side; 2],
    trial: Side,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let held = runtime
        .map_err(|error| Error::environment(format!("cannot start: {error}")))
        .and_then(|runtime| runtime.block_on(compare(&Args::parse())));
    match held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit() as u8)
        }
    }
}

async fn compare(args: &Args) -> Result<bool, Error> {
    let world = World::open(args).await?;
    println!("ensemble: {}", world.description);
    println!(
        "{} contenders on {} threads, {} s each after {WARM_UP:?} of warm-up; acquisitions per second",
        args.contenders, args.threads, args.seconds
    );
    println!(
        "{:>5} {:>10} {:>10} {:>10} {:>9} {:>11}",
        "round", "bare", "trial", "bare", "cost", "bare/bare"
    );
    let rounds = run(args, &world).await;
    let closed = world.close().await;
    let rounds = rounds?;
    closed?;
    Ok(judge(&rounds))
}

async fn run(args: &Args, world: &World) -> Result<Vec<Round>, Error> {
    world.bare(0, &Args { seconds: args.settle, ..args.clone() }).await?;
    let mut rounds = Vec::new();
    for (index, spec) in world.trials(args)?.iter().enumerate() {
        let number = index + 1;
        let before = world.bare(2 * number, args).await?;
        let trial = side(&world.trial(spec).await?)?;
        let after = world.bare(2 * number + 1, args).await?;
        let round = Round { bare: [before, after], trial };
        print_round(number, &round);
        rounds.push(round);
    }
    Ok(rounds)
}

/// A trial that is not whole is no side of a comparison.
fn side(trial: &Trial) -> Result<Side, Error> {
    match (&trial.completeness, trial.measured.acquired()) {
        (Completeness::Complete, acquired @ 1..) if trial.errors.is_empty() => {
            Ok(Side::new(acquired, trial.measured_us, trial.health.cpu_us))
        }
        (completeness, _) => {
            Err(Error::environment(format!("a trial failed: {completeness:?} {:?}", trial.errors)))
        }
    }
}

impl Round {
    /// Trial against the mean of the bare loops.
    fn ratio(&self) -> f64 {
        self.trial.throughput / f64::midpoint(self.bare[0].throughput, self.bare[1].throughput)
    }

    /// One bare loop against the other.
    fn noise(&self) -> f64 {
        self.bare[0].throughput / self.bare[1].throughput
    }
}

fn print_round(number: usize, round: &Round) {
    let [before, after] = round.bare.map(|side| side.throughput);
    println!(
        "{number:>5} {before:>10.1} {:>10.1} {after:>10.1} {:>8.1}% {:>11.3}",
        round.trial.throughput,
        (1.0 - round.ratio()) * 100.0,
        round.noise()
    );
}

type Figure = fn(&Side) -> f64;

/// The processor time is steadier than the throughput, and says where a cost comes from.
const FIGURES: [(&str, Figure); 2] = [
    ("acquisitions per second", |side| side.throughput),
    ("µs of the generator's processor time an acquisition", |side| side.cpu_us),
];

/// Prints what the rounds say together; returns whether the median cost is within the limit.
fn judge(rounds: &[Round]) -> bool {
    let ratios: Ratios = rounds.iter().map(Round::ratio).collect();
    let noise: Ratios = rounds.iter().map(Round::noise).collect();
    let bare: Vec<Side> = rounds.iter().flat_map(|round| round.bare).collect();
    let trial: Vec<Side> = rounds.iter().map(|round| round.trial).collect();
    let (low, high) = interval(&ratios);
    let ratio = median(&ratios);
    for (name, figure) in FIGURES {
        let of = |sides: &[Side]| median(&sides.iter().map(figure).collect::<Vec<_>>());
        println!("median {name}: bare {:.1}, trial {:.1}", of(&bare), of(&trial));
    }
    println!(
        "trial / bare: median {ratio:.4}, 95 % interval {low:.4} to {high:.4}, rounds {}",
        span(&ratios)
    );
    println!("bare / bare:  median {:.4}, rounds {}", median(&noise), span(&noise));
    let held = 1.0 - ratio <= LIMIT;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    println!(
        "cost: {} (limit {}): {}",
        percent(1.0 - ratio),
        percent(LIMIT),
        if held { "held" } else { "violated" }
    );
    if low < 1.0 - LIMIT && high > 1.0 - LIMIT {
        println!("the interval holds the limit: more rounds, or a quieter machine, would say it more surely");
    }
    held
}

fn span(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{low:.4} to {high:.4}")
}
