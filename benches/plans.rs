//! Checks the predictions of `plan` for random, unmeasured loads, by running each load.
//!
//! ```text
//! cargo bench --bench plans
//! cargo bench --bench plans -- --loads 3 --seed 7 --every-strategy
//! ```
//!
//! The seed determines the loads: low and high utilisation, one lock or many, bursts, and long holds. Each plan
//! first measures one of three strategies, in rotation, or all three. This takes about five minutes per load and
//! strategy. At least 90 % of the verified metrics must be within the predicted interval. The exit code is 1 if fewer
//! are, and 4 if too few metrics were verified.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output is a table")]

use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Parser;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use zklockbench_analysis::plan::PlanFile;
use zklockbench_core::error::Exit;
use zklockbench_core::verdict::Verdict;

const STRATEGIES: [&str; 3] = ["predecessor-watch", "parent-watch", "curator-mutex"];
const CLIENTS: &str = "100";
/// Metrics to verify for each load and strategy. Twenty thousand arrivals are too few for the 99.9th percentile.
const FIGURES: [&str; 3] = ["wait.p50", "wait.p99", "throughput"];

/// Verifies the predictions of `plan` for random loads.
#[derive(Debug, Parser)]
struct Args {
    /// Number of loads
    #[arg(long, default_value_t = 10)]
    loads: usize,
    /// Seed of the loads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Verify every load with each strategy
    #[arg(long)]
    every_strategy: bool,
    /// Directory for the plans [default: a temporary directory]
    #[arg(long)]
    out: Option<std::path::PathBuf>,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

struct Load {
    rate: f64,
    hold_ms: u32,
    locks: u32,
    arrivals: &'static str,
}

impl Load {
    fn draw(number: usize, rng: &mut ChaCha8Rng) -> Self {
        let hold_ms: u32 = if number % 10 == 9 { 200 } else { rng.random_range(10..60) };
        let locks: u32 = if number % 3 == 2 { rng.random_range(10..40) } else { rng.random_range(1..4) };
        let utilisation = [0.2_f64, 0.5, 0.7][number % 3] * rng.random_range(0.8..1.1_f64);
        let service_s = f64::from(hold_ms + 4) / 1e3;
        let arrivals = if number % 4 == 3 { "{ bursts = { peak = 3, length = \"2s\" } }" } else { "poisson" };
        Self { rate: utilisation * f64::from(locks) / service_s, hold_ms, locks, arrivals }
    }

    fn plan(&self, strategies: &str, out: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zklockbench"));
        command.args([
            "plan",
            "--clients",
            CLIENTS,
            "--slo",
            "wait.p99 < 3600s",
            "--verify",
            "--json",
            "--quiet",
        ]);
        command.args(["--rate", &format!("{:.2}/s", self.rate), "--hold", &format!("{}ms", self.hold_ms)]);
        command.args(["--locks", &self.locks.to_string(), "--arrivals", self.arrivals]);
        command.args(["--strategies", strategies]).arg("--out").arg(out);
        command
    }
}

#[derive(Deserialize)]
struct Printed {
    plan: PlanFile,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let directory = match tempfile::tempdir() {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("error: cannot create a directory for the plans: {error}");
            return ExitCode::from(Exit::Environment as u8);
        }
    };
    let out = args.out.clone().unwrap_or_else(|| directory.path().to_path_buf());
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    let (mut inside, mut reproduced, mut all, mut silent) = (0_usize, 0_usize, 0_usize, 0_usize);
    for number in 0..args.loads {
        let load = Load::draw(number, &mut rng);
        let strategies = if args.every_strategy {
            STRATEGIES.join(",")
        } else {
            STRATEGIES[(number + number / 3) % 3].to_owned()
        };
        println!(
            "{}. {:.2}/s, {} ms, {} locks, {}",
            number + 1,
            load.rate,
            load.hold_ms,
            load.locks,
            load.arrivals
        );
        let output = match load.plan(&strategies, &out).output() {
            Ok(output) => output,
            Err(error) => {
                eprintln!("error: cannot run `zklockbench plan`: {error}");
                return ExitCode::from(Exit::Environment as u8);
            }
        };
        let Ok(Printed { plan }) = serde_json::from_slice(&output.stdout) else {
            println!("   no plan: {}", String::from_utf8_lossy(&output.stderr).trim());
            silent += 1;
            continue;
        };
        for answer in &plan.answers {
            if let Verdict::Unknown(why) = &answer.verdict {
                println!("   {}: unknown: {}", answer.strategy, why.join("; "));
            }
        }
        for verified in &plan.verifications {
            println!("   {}: {} arrivals at {} locks", verified.strategy, verified.arrivals, verified.locks);
            for note in &verified.notes {
                println!("      note: {note}");
            }
            for one in verified.figures.iter().filter(|one| FIGURES.contains(&one.figure.as_str())) {
                let of = |value: f64| 100.0 * (value / one.predicted.middle - 1.0);
                println!(
                    "      {:<11} predicted {:>9.1} ({:+.0} % to {:+.0} %), measured {:>9.1} {}; by its own service {:>9.1}",
                    one.figure,
                    one.predicted.middle,
                    of(one.predicted.low),
                    of(one.predicted.high),
                    one.measured,
                    if one.inside { "inside " } else { "OUTSIDE" },
                    one.by_observed_service
                );
                all += 1;
                inside += usize::from(one.inside);
                reproduced += usize::from(one.reproduced);
            }
        }
        silent += usize::from(plan.verifications.is_empty());
    }
    println!(
        "{inside} of {all} inside; {reproduced} reproduced from the observed service; {silent} loads not verified"
    );
    ExitCode::from(match 10 * inside >= 9 * all {
        _ if all < FIGURES.len() * args.loads.div_ceil(2) => Exit::Unknown as u8,
        true => Exit::Held as u8,
        false => Exit::Violated as u8,
    })
}
