//! Thousands of contenders in one process, each with its own session.

use std::time::Duration;

use crate::support::ensemble;
use crate::support::program::{Bench, measured_within};

/// Maximum memory of the program without contenders, and per contender. Even at 100 kB per contender, ten thousand
/// contenders would fit into a gigabyte.
const ALONE_KB: u64 = 80_000;
const EACH_KB: u64 = 60;
/// Minimum number of sessions opened per second.
const OPENED_PER_SECOND: u64 = 100;

#[test]
#[ignore = "long: uses both processors for two minutes"]
fn two_thousand_contenders_connect_quickly_with_bounded_memory() {
    const CONTENDERS: u64 = 2_000;
    for strategy in ["predecessor-watch", "baton"] {
        let bench = Bench::with(&format!(
            "name = \"crowd\"\nstrategies = [\"{strategy}\"]\ncontenders = {CONTENDERS}\nhold = \"0ms\"\n\
             duration = \"5s\"\nramp_up = \"10s\"\nwarm_up = \"15s\"\nsession_timeout = \"60s\"\nrepetitions = 1\n",
        ));
        let connect = ensemble::shared();
        let run = bench.typed(&format!("run scenario.toml --connect {connect} --no-progress --no-floor"));
        let ended = measured_within(run, Duration::from_secs(180));
        let trial = &bench.stored().trials[0];
        assert_eq!(trial.sessions.opened, CONTENDERS, "{}", ended.said);
        let longest_us = CONTENDERS / OPENED_PER_SECOND * 1_000_000;
        assert!(trial.sessions.connect_us < longest_us, "{strategy}: {}", trial.sessions.connect_us);
        assert!(trial.errors.is_empty() && trial.measured.acquired() > 0, "{strategy}: {:?}", trial.errors);
        let most = ALONE_KB + CONTENDERS * EACH_KB;
        assert!(ended.resident_kb < most, "{strategy}: {} kB of {most}", ended.resident_kb);
    }
}
