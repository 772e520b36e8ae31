//! A thousand contenders and more, each with its own session, in one process.

use std::time::Duration;

use crate::support::ensemble;
use crate::support::program::{Bench, measured_within, stderr};

#[test]
#[ignore = "long: half a minute of both processors"]
fn they_connect_within_ten_seconds_in_under_300_megabytes_without_an_error() {
    let bench = Bench::with(
        "name = \"thousand\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 1000\nhold = \"0ms\"\n\
         duration = \"3s\"\nramp_up = \"5s\"\nsession_timeout = \"30s\"\n",
    );
    let connect = ensemble::shared();
    let output = bench.output(&["run", "scenario.toml", "--connect", connect, "--no-progress"]);
    assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
    let trial = &bench.stored().trials[0];
    assert_eq!(trial.sessions.opened, 1000);
    assert!(trial.sessions.connect_us < 10_000_000, "{}", trial.sessions.connect_us);
    assert!(trial.health.resident_bytes.unwrap() < 300_000_000, "{:?}", trial.health.resident_bytes);
    assert!(trial.errors.is_empty(), "{:?}", trial.errors);
    assert!(trial.measured.acquired() > 0);
}

/// What the program takes without contenders, and what one more may take: with a hundred kilobytes for each, ten thousand fit
/// into a gigabyte.
const ALONE_KB: u64 = 80_000;
const EACH_KB: u64 = 60;

#[test]
#[ignore = "long: two minutes of both processors"]
fn the_memory_of_two_thousand_does_not_grow_with_the_lists_that_each_of_them_reads() {
    const CONTENDERS: u64 = 2_000;
    for strategy in ["predecessor-watch", "baton"] {
        let bench = Bench::with(&format!(
            "name = \"crowd\"\nstrategies = [\"{strategy}\"]\ncontenders = {CONTENDERS}\nhold = \"0ms\"\n\
             duration = \"5s\"\nramp_up = \"10s\"\nwarm_up = \"15s\"\nsession_timeout = \"60s\"\nrepetitions = 1\n",
        ));
        let connect = ensemble::shared();
        let run = bench.typed(&format!("run scenario.toml --connect {connect} --no-progress --no-floor"));
        let ended = measured_within(run, Duration::from_secs(180));
        assert_eq!(bench.stored().trials[0].sessions.opened, CONTENDERS, "{}", ended.said);
        let most = ALONE_KB + CONTENDERS * EACH_KB;
        assert!(ended.resident_kb < most, "{strategy}: {} kB of {most}", ended.resident_kb);
    }
}
