//! Options of `ab`, including the options of each side.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::drivers;
use crate::cli::scenario_file::Overrides;
use crate::cli::shared_args::{GeneratorArgs, Judging, OpeningArgs};
use zklockbench_locks::driver::DriverCommand;

#[derive(Debug, Args)]
pub struct AbArgs {
    /// Scenario file, name of a built-in scenario (`zklockbench scenarios`), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
    /// Number of blocks (A, B, then A again) [default: 8, or more if a verdict requires more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=BLOCKS_MOST))]
    pub blocks: Option<u32>,
    /// Add blocks until every confidence interval is at most this wide on either side, e.g. 3%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub until: Option<f64>,
    /// Stop after this many blocks, even if --until has not been met [default: 40, or --blocks if larger]
    #[arg(long, value_name = "N", requires = "until", value_parser = clap::value_parser!(u32).range(1..=BLOCKS_MOST))]
    pub blocks_at_most: Option<u32>,
    #[command(flatten)]
    pub judging: Judging,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Store the comparison in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Resume the comparison in this directory; pass the original options again
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Also write the outcome as Markdown, e.g. for a pull request
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Skip the charts
    #[arg(long, env = "ZKLOCKBENCH_NO_CHARTS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_charts: bool,
    #[command(flatten)]
    pub side_a: SideAArgs,
    #[command(flatten)]
    pub side_b: SideBArgs,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub opening: OpeningArgs,
}

/// Maximum number of blocks, to keep the duration bounded.
const BLOCKS_MOST: i64 = 500;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideArgs {
    pub set: Vec<String>,
    pub connect: Option<String>,
    pub compose: Option<PathBuf>,
    pub zookeeper_home: Option<PathBuf>,
    /// Path to a zklockbench binary.
    pub program: Option<PathBuf>,
    /// Drivers of this side, which override common drivers.
    pub drivers: Vec<DriverCommand>,
}

/// Defines the options of one side; each name starts with the side's letter.
macro_rules! side {
    ($(#[$of:meta])* $name:ident, $heading:literal, $set:literal, $connect:literal, $compose:literal, $home:literal, $program:literal,
     $driver:literal) => {
        $(#[$of])*
        #[derive(Debug, Clone, Default, Args)]
        #[command(next_help_heading = $heading)]
        pub struct $name {
            /// Set a scenario key, e.g. hold=5ms or 'strategies=["baton"]'
            #[arg(id = $set, long = $set, value_name = "KEY=VALUE")]
            pub set: Vec<String>,
            /// Use this ensemble
            #[arg(id = $connect, long = $connect, value_name = "HOST:PORT,…/CHROOT", conflicts_with_all = [$compose, $home])]
            pub connect: Option<String>,
            /// Use containers started from this Compose file
            #[arg(id = $compose, long = $compose, value_name = "FILE", conflicts_with = $home)]
            pub compose: Option<PathBuf>,
            /// Use local servers of the ZooKeeper release in this directory
            #[arg(id = $home, long = $home, value_name = "DIR")]
            pub zookeeper_home: Option<PathBuf>,
            /// Run this zklockbench binary instead of the current one
            #[arg(id = $program, long = $program, value_name = "FILE")]
            pub program: Option<PathBuf>,
            /// Add a driver for this side only, e.g. another release of a library; may be repeated
            #[arg(id = $driver, long = $driver, value_name = "NAME=COMMAND", value_parser = drivers::named)]
            pub drivers: Vec<DriverCommand>,
        }

        impl From<$name> for SideArgs {
            fn from($name { set, connect, compose, zookeeper_home, program, drivers }: $name) -> Self {
                Self { set, connect, compose, zookeeper_home, program, drivers }
            }
        }
    };
}

side! {
    /// Options of side A.
    SideAArgs, "Side A", "a", "a-connect", "a-compose", "a-zookeeper-home", "a-program", "a-driver"
}
side! {
    /// Options of side B.
    SideBArgs, "Side B", "b", "b-connect", "b-compose", "b-zookeeper-home", "b-program", "b-driver"
}

/// Parses a share such as `3%` or `0.03`, above 0 and below 1.
fn share(text: &str) -> Result<f64, String> {
    let help = "write a share such as 5%";
    let (digits, unit) =
        text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |digits| (digits.trim(), 100.0));
    let share = digits.parse::<f64>().map_err(|_| help)? / unit;
    if share > 0.0 && share < 1.0 { Ok(share) } else { Err(format!("must be between 0% and 100%; {help}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_option_accepts_percentages_and_fractions() {
        for text in ["3%", "3 %", "0.03", " 3%"] {
            assert!((share(text).unwrap() - 0.03).abs() < 1e-12, "{text}");
        }
        for wrong in ["0%", "-1%", "100%", "NaN", "inf", "narrow", "", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
