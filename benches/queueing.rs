//! Checks that the waits of an open load agree with queueing theory. Compares Poisson arrivals at many equal locks
//! with the Pollaczek–Khinchine formula, which uses the rate and the first two moments of the service time from the
//! same trial.
//!
//! ```text
//! cargo bench --bench queueing
//! cargo bench --bench queueing -- --arrivals 40000 --locks 20
//! ```
//!
//! A lock serves one request at a time. The service time is the hold plus the handoff to the next contender. The
//! formula's result is increased by the time of an uncontended acquire for the share of requests that find the lock
//! free, and by the generator's lateness, which is part of every wait. The maximum deviation is 10 % up to 70 %
//! utilisation and 20 % at 80 %. With fewer than 20,000 arrivals, the result is inconclusive.
//!
//! By default, the benchmark starts three servers with their data in memory. To use another ensemble, set `--connect`
//! or `ZKLOCKBENCH_CONNECT`. The benchmark takes about eight minutes. The exit code is 1 if a mean wait is outside
//! its limit, 4 if a trial is inconclusive, and 3 if the ensemble cannot be used.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output is a table")]

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tokio_util::sync::CancellationToken;
use zklockbench_load::{Environment, LoadLimits, TOP, Workspace, run_trial};

use zklockbench_core::error::{Error, Exit};
use zklockbench_core::measure::{Histogram, Measure};
use zklockbench_ensemble::{Installation, Local, LocalSpec, Places, parse_connect};
use zklockbench_record::Trial;
use zklockbench_scenario::{TrialPlan, TrialSpec, parse};
use zklockbench_zk::keep_awake::EVERY;
use zklockbench_zk::{Access, Target};

const STRATEGY: &str = "predecessor-watch";
const MEMORY: &str = "/dev/shm";
/// Utilisations, each with the maximum deviation of the mean wait from the formula.
const LIMITS: [(f64, f64); 4] = [(0.3, 0.1), (0.5, 0.1), (0.7, 0.1), (0.8, 0.2)];
/// Assumed handoff time, used until the first trial has measured the actual time.
const HANDOFF_S: f64 = 0.004;

/// Compares mean waits with the Pollaczek–Khinchine formula.
#[derive(Debug, Clone, Parser)]
struct Args {
    /// Use this ensemble
    #[arg(long, env = "ZKLOCKBENCH_CONNECT")]
    connect: Option<String>,
    /// Number of arrivals in each trial
    #[arg(long, default_value_t = 20_000)]
    arrivals: u32,
    /// Number of equal locks
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..))]
    locks: u32,
    /// Mean hold in milliseconds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    hold_ms: u32,
    /// Utilisations in percent [default: 30, 50, 70 and 80]
    #[arg(long, value_delimiter = ',')]
    utilisation: Vec<u32>,
    /// Number of sessions
    #[arg(long, default_value_t = 800)]
    contenders: u32,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the async runtime: {error}");
            return ExitCode::from(Exit::Environment as u8);
        }
    };
    match runtime.block_on(compare(&args)) {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(Exit::Environment as u8)
        }
    }
}

async fn compare(args: &Args) -> Result<ExitCode, Error> {
    let local = if args.connect.is_some() { None } else { Some(start().await?) };
    let connect = local.as_ref().map_or_else(|| args.connect.clone().unwrap_or_default(), Local::connect);
    let target = Target { connect: connect.as_str().into(), access: Access::default() };
    let workspace = Workspace::create(target.clone(), &format!("queueing-{}", std::process::id())).await?;
    let environment = Environment {
        target,
        workspace,
        servers: parse_connect(&connect)?.addresses,
        namespace: TOP.trim_start_matches('/').to_owned(),
        threads: 1,
        keep_awake: Some(EVERY),
        local: None,
        keeps_history: false,
        scratch: std::env::temp_dir(),
        proxy: None,
        rendezvous: None,
        limits: LoadLimits::default(),
        outlasts_faults: false,
    };
    println!(
        "{:>11} {:>11} {:>9} {:>8} {:>10} {:>10} {:>7}",
        "hold", "utilisation", "arrivals", "service", "mean wait", "formula", "ratio"
    );
    let (mut all_within, mut all_known) = (true, true);
    let mut handoff_s = HANDOFF_S;
    let mut index = 0;
    for hold in ["fixed", "exponential"] {
        let asked = |at: &(f64, f64)| {
            args.utilisation.is_empty()
                || args.utilisation.iter().any(|one| f64::from(*one) == (at.0 * 100.0).round())
        };
        for (utilisation, limit) in LIMITS.into_iter().filter(asked) {
            let spec = spec(args, hold, utilisation, handoff_s, index)?;
            index += 1;
            let entry = zklockbench_locks::find(STRATEGY)
                .ok_or_else(|| Error::usage(format!("no strategy {STRATEGY}")))?;
            let trial = run_trial(&environment, &spec, entry, &CancellationToken::new(), &|_| {}).await?;
            let Some(found) = Found::of(&trial) else {
                println!("{hold:>11}: no measurements");
                all_known = false;
                continue;
            };
            handoff_s = found.handoff_s;
            let ratio = found.wait_s / found.formula_s;
            println!(
                "{hold:>11} {:>10.1}% {:>9} {:>6.2}ms {:>8.2}ms {:>8.2}ms {ratio:>7.3}{}",
                100.0 * found.utilisation,
                found.arrivals,
                1e3 * found.service_s,
                1e3 * found.wait_s,
                1e3 * found.formula_s,
                trial.health.invalid.as_ref().map_or_else(String::new, |why| format!("  invalid: {why}"))
            );
            all_known &= trial.health.invalid.is_none() && found.arrivals >= 20_000;
            all_within &= (ratio - 1.0).abs() <= limit;
        }
    }
    environment.workspace.close().await?;
    Ok(match (all_within, all_known) {
        (_, false) => ExitCode::from(Exit::Unknown as u8),
        (true, true) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(1),
    })
}

/// Returns the specification of a trial with this utilisation of each lock.
fn spec(args: &Args, hold: &str, utilisation: f64, handoff_s: f64, index: usize) -> Result<TrialSpec, Error> {
    let mean_ms = args.hold_ms;
    let rate = f64::from(args.locks) * utilisation / (f64::from(mean_ms) / 1e3 + handoff_s);
    let lasts_s = f64::from(args.arrivals) * 1.02 / rate + 1.0;
    let hold = match hold {
        "fixed" => format!("\"{mean_ms}ms\""),
        _ => format!("{{ exponential = {{ mean = \"{mean_ms}ms\" }} }}"),
    };
    let text = format!(
        "name = \"queueing\"\nstrategies = [\"{STRATEGY}\"]\ncontenders = {}\nlocks = {}\nload = \"open\"\n\
         rate = {rate:.3}\nhold = {hold}\nduration = \"{lasts_s:.0}s\"\nwarm_up = \"5s\"\nwarm_up_at_most = \"5s\"\n\
         repetitions = 1\nseed = {}\n",
        args.contenders,
        args.locks,
        index + 1
    );
    let parsed = parse("queueing", &text, &zklockbench_load::catalog()).map_err(Error::usage)?;
    let mut spec = TrialPlan::of(&parsed.scenario).trials.remove(0);
    spec.index = index;
    Ok(spec)
}

/// Measurements of a trial, and the formula's result for them.
struct Found {
    arrivals: u64,
    utilisation: f64,
    handoff_s: f64,
    service_s: f64,
    wait_s: f64,
    formula_s: f64,
}

impl Found {
    fn of(trial: &Trial) -> Option<Self> {
        let moments = |measure| trial.histograms.get(&measure).map(moments);
        let (hold, handoff) = (moments(Measure::Hold)?, moments(Measure::Handoff)?);
        let (wait, uncontended) = (moments(Measure::Wait)?, moments(Measure::Uncontended)?);
        let lateness = moments(Measure::Lateness)?;
        let arrivals = trial.arrived?.offered;
        let rate = arrivals as f64 / (trial.measured_us as f64 / 1e6) / trial.spec.locks as f64;
        let service = hold.mean_s + handoff.mean_s;
        // The handoff does not depend on the length of the hold.
        let square = hold.square_s2 + 2.0 * hold.mean_s * handoff.mean_s + handoff.square_s2;
        let utilisation = rate * service;
        let queued = rate * square / (2.0 * (1.0 - utilisation));
        Some(Self {
            arrivals,
            utilisation,
            handoff_s: handoff.mean_s,
            service_s: service,
            wait_s: wait.mean_s,
            formula_s: queued + (1.0 - utilisation) * uncontended.mean_s + lateness.mean_s,
        })
    }
}

struct Moments {
    mean_s: f64,
    square_s2: f64,
}

fn moments(samples: &Histogram) -> Moments {
    let (mut sum, mut squares) = (0.0, 0.0);
    for step in samples.iter_recorded() {
        let (value, count) = (step.value_iterated_to() as f64 / 1e6, step.count_at_value() as f64);
        sum += value * count;
        squares += value * value * count;
    }
    let all = (samples.len() as f64).max(1.0);
    Moments { mean_s: sum / all, square_s2: squares / all }
}

async fn start() -> Result<Local, Error> {
    let installation = Installation::find(&Places::of_this_machine(None))?;
    let memory = Path::new(MEMORY);
    let data_dir = tempfile::tempfile_in(memory).is_ok().then(|| memory.to_path_buf());
    Local::start(&LocalSpec { servers: 3, data_dir, logs: None, apart: false, nicer_by: 0 }, &installation)
        .await
}
