//! A thousand contenders, each with its own session, in one process.

use crate::support::ensemble;
use crate::support::program::{Bench, stderr};

#[test]
#[ignore = "long: half a minute of both processors"]
fn they_connect_within_ten_seconds_in_under_300_megabytes_without_an_error() {
    let bench = Bench::new();
    let scenario = bench.scenario(
        "name = \"thousand\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 1000\nhold = \"0ms\"\n\
         duration = \"3s\"\nramp_up = \"5s\"\nsession_timeout = \"30s\"\n",
    );
    let connect = ensemble::shared();
    let output = bench.output(&["run", scenario.to_str().unwrap(), "--connect", connect, "--no-progress"]);
    assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
    let trial = &bench.stored().trials[0];
    assert_eq!(trial.sessions.opened, 1000);
    assert!(trial.sessions.connect_us < 10_000_000, "{}", trial.sessions.connect_us);
    assert!(trial.health.resident_bytes.unwrap() < 300_000_000, "{:?}", trial.health.resident_bytes);
    assert!(trial.errors.is_empty(), "{:?}", trial.errors);
    assert!(trial.measured.acquired() > 0);
}
