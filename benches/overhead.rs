//! The cost of measuring: compares the throughput of `predecessor-watch` in a trial with the throughput of a bare
//! loop, which sends the same requests and counts only acquisitions.
//!
//! ```text
//! cargo bench --bench overhead
//! cargo bench --bench overhead -- --rounds 20 --seconds 5 --contenders 50
//! ```
//!
//! In every round, a bare loop and a trial run at the same time on the same ensemble, each with its own process,
//! sessions and lock. The comparison covers the trial's measured phase, so disturbances of the machine affect both
//! sides. (If run one after the other, even two equal loops would differ by more than the limit.) Then two bare
//! loops run concurrently, to show the noise. The verdict depends on the 95 % interval of the median over the
//! rounds, and is unknown if the interval contains the limit. Before the first round, a bare loop runs for a while,
//! because new servers are slow until their code is compiled.
//!
//! All sessions of both sides use the same server, because sessions on the leader are faster.
//!
//! The cost includes everything that the suite adds: recording, deadlines, cancellation, the exclusion check, and
//! attribution.
//!
//! By default, the benchmark starts an ensemble of three servers, with data in memory if possible, because the
//! generator's share of a handoff is largest without fsync. To use another ensemble, set `--connect` or
//! `ZKLOCKBENCH_CONNECT`.
//!
//! The exit code is 1 if the cost exceeds the limit, 4 if the result is inconclusive, and 3 if the ensemble cannot be
//! used.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output is a table")]

#[path = "overhead/bare.rs"]
mod bare;
#[path = "overhead/side.rs"]
mod side;
#[path = "overhead/world.rs"]
mod world;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_report::view::Spread;
use zklockbench_scenario::TrialSpec;

use side::{Moment, Side};
use world::World;

/// Maximum share of throughput that measuring may cost.
const LIMIT: f64 = 0.03;
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of resamples for an interval.
const RESAMPLES: usize = 10_000;

/// Compares a trial with a bare loop.
#[derive(Debug, Clone, Parser)]
pub struct Args {
    /// Use this ensemble
    #[arg(long, env = "ZKLOCKBENCH_CONNECT")]
    connect: Option<String>,
    /// Number of rounds, each with a bare loop and a trial, and then two bare loops
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measured time of each loop and trial, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Time of the bare loop before the first round, in seconds
    #[arg(long, default_value_t = 15)]
    settle: u64,
    /// Number of contenders
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    contenders: u32,
    /// Number of generator threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Delay before each release in the first of two bare loops, in microseconds, to check that the comparison
    /// detects a delay
    #[arg(long, default_value_t = 0)]
    handicap_us: u64,
    /// Run only a bare loop
    #[arg(long, hide = true, value_name = "JSON")]
    bare_loop: Option<String>,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// Results of one round: a bare loop with a trial, and two bare loops.
struct Round {
    bare: Side,
    trial: Side,
    twins: [Side; 2],
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.bare_loop {
        Some(json) => bare::serve(json).map(|()| Verdict::Held),
        None => on_runtime(compare(&args)),
    };
    match outcome {
        Ok(Verdict::Held) => ExitCode::SUCCESS,
        Ok(Verdict::Violated(_)) => ExitCode::from(Exit::Violated as u8),
        Ok(Verdict::Unknown(_)) => ExitCode::from(Exit::Unknown as u8),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit() as u8)
        }
    }
}

fn on_runtime<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::environment(format!("cannot start: {error}")))?.block_on(work)
}

async fn compare(args: &Args) -> Result<Verdict, Error> {
    let world = World::open(args).await?;
    println!("ensemble: {}", world.description);
    println!(
        "{} contenders on {} threads, {} s each after {WARM_UP:?} of warm-up; acquisitions per second",
        args.contenders, args.threads, args.seconds
    );
    println!(
        "{:>5} {:>10} {:>10} {:>9} {:>10} {:>10} {:>11}",
        "round", "bare", "trial", "cost", "bare", "bare", "bare/bare"
    );
    let rounds = run(args, &world).await;
    let closed = world.close().await;
    let rounds = rounds?;
    closed?;
    Ok(judge(&rounds))
}

async fn run(args: &Args, world: &World) -> Result<Vec<Round>, Error> {
    let settling = world.bare(0, args, Duration::ZERO).await?;
    tokio::time::sleep(Duration::from_secs(args.settle)).await;
    world.end(settling).await?;
    let mut rounds = Vec::new();
    for (index, spec) in world.trials(args)?.iter().enumerate() {
        let number = index + 1;
        let (bare, trial) = beside_a_trial(args, world, number, spec).await?;
        let round = Round { bare, trial, twins: twins(args, world, number).await? };
        print_round(number, &round);
        rounds.push(round);
    }
    Ok(rounds)
}

/// Runs a bare loop and a trial concurrently, and measures both sides during the trial's measured phase.
async fn beside_a_trial(
    args: &Args,
    world: &World,
    number: usize,
    spec: &TrialSpec,
) -> Result<(Side, Side), Error> {
    let mut bare = world.bare(3 * number, args, Duration::ZERO).await?;
    let ends = Mutex::new(Vec::new());
    let running = Mutex::new(&mut bare.running);
    let phase = |name: &str| {
        if matches!(name, "measure" | "drain") {
            let bare = running.lock().unwrap_or_else(PoisonError::into_inner).moment();
            let ticks = side::ticks_of("generator");
            ends.lock().unwrap_or_else(PoisonError::into_inner).push((bare, ticks));
        }
    };
    let trial = world.trial(spec, &phase).await;
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    world.end(bare).await?;
    let acquired = acquired(&trial?)?;
    let [begin, end] = <[_; 2]>::try_from(ends)
        .map_err(|_| Error::environment("the trial has no measured phase"))?
        .map(|(bare, ticks)| bare.map(|bare| (bare, ticks)));
    let ((begin, ticks_before), (end, ticks)) = (begin?, end?);
    let of_trial = |moment: &Moment, acquired, ticks| Moment { acquired, ticks, ..*moment };
    let trial = Side::between(&of_trial(&begin, 0, ticks_before), &of_trial(&end, acquired, ticks));
    Ok((Side::between(&begin, &end), trial))
}

/// Runs two bare loops concurrently.
async fn twins(args: &Args, world: &World, number: usize) -> Result<[Side; 2], Error> {
    let handicap = Duration::from_micros(args.handicap_us);
    let mut pair = [
        world.bare(3 * number + 1, args, handicap).await?,
        world.bare(3 * number + 2, args, Duration::ZERO).await?,
    ];
    tokio::time::sleep(WARM_UP).await;
    let mut begin = Vec::new();
    for one in &mut pair {
        begin.push(one.running.moment()?);
    }
    tokio::time::sleep(args.measured()).await;
    let mut sides = Vec::new();
    for (one, begin) in pair.iter_mut().zip(&begin) {
        sides.push(Side::between(begin, &one.running.moment()?));
    }
    for one in pair {
        world.end(one).await?;
    }
    <[Side; 2]>::try_from(sides).map_err(|_| Error::environment("a bare loop is missing"))
}

/// Number of acquisitions in a trial, or an error if the trial is incomplete.
fn acquired(trial: &Trial) -> Result<u64, Error> {
    match (&trial.cut_short, trial.measured.acquired()) {
        (None, acquired @ 1..) if trial.errors.is_empty() => Ok(acquired),
        (cut, _) => Err(Error::environment(format!("a trial failed: {cut:?} {:?}", trial.errors))),
    }
}

impl Round {
    /// Throughput of the trial divided by the throughput of the concurrent bare loop.
    fn ratio(&self) -> f64 {
        self.trial.throughput / self.bare.throughput
    }

    /// Throughput of one bare loop divided by the throughput of the other.
    fn noise(&self) -> f64 {
        self.twins[0].throughput / self.twins[1].throughput
    }
}

fn print_round(number: usize, round: &Round) {
    let [one, other] = round.twins.map(|side| side.throughput);
    println!(
        "{number:>5} {:>10.1} {:>10.1} {:>8.1}% {one:>10.1} {other:>10.1} {:>11.3}",
        round.bare.throughput,
        round.trial.throughput,
        (1.0 - round.ratio()) * 100.0,
        round.noise()
    );
}

type Figure = fn(&Side) -> f64;

/// Metrics of a side. Processor time varies less than throughput, and shows the source of a cost.
const FIGURES: [(&str, Figure); 2] = [
    ("acquisitions per second", |side| side.throughput),
    ("µs of the generator's processor time per acquisition", |side| side.cpu_us),
];

/// Prints the result of all rounds and returns the verdict.
fn judge(rounds: &[Round]) -> Verdict {
    let ratios: Vec<f64> = rounds.iter().map(Round::ratio).collect();
    let noise: Vec<f64> = rounds.iter().map(Round::noise).collect();
    let bare: Vec<Side> = rounds.iter().map(|round| round.bare).collect();
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
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let verdict = verdict(low, high);
    println!("cost: {} (limit {}): {}", percent(1.0 - ratio), percent(LIMIT), verdict.word());
    for reason in verdict.reasons() {
        println!("{reason}");
    }
    verdict
}

/// Verdict for an interval of the ratio trial / bare.
fn verdict(low: f64, high: f64) -> Verdict {
    let least = 1.0 - LIMIT;
    if low >= least {
        Verdict::Held
    } else if high < least {
        Verdict::Violated(vec!["the entire interval is below the limit".into()])
    } else {
        Verdict::Unknown(vec!["the interval contains the limit: use more rounds or a quieter machine".into()])
    }
}

fn span(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{low:.4} to {high:.4}")
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).map_or(f64::NAN, |spread| spread.median)
}

/// 95 % bootstrap interval of the median over the rounds.
fn interval(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut draw = || {
        let drawn: Vec<f64> = values.iter().map(|_| values[rng.random_range(0..values.len())]).collect();
        median(&drawn)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    medians.sort_by(f64::total_cmp);
    (medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40])
}
