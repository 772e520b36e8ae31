//! Tests that a busy host would spoil: `scripts/test --long` runs them last, one after the other.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use zklockbench_analysis::compare::ComparisonVerdict;

use crate::ab::{only, read};
use crate::support::ensemble;
use crate::support::program::{Bench, json, stderr, stdout, went_through};
use crate::support::skip::skipped;

const LOAD: &str = "name = \"compared\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 5\nhold = \"20ms\"\nwarm_up = \"200ms\"\n\
    warm_up_at_most = \"200ms\"\nduration = \"1s\"\nrepetitions = 5\nsession_timeout = \"10s\"\n";
/// Delay of two milliseconds in each direction throughout the measured phase.
const DELAYED: &str = "[[fault]]\nkind = \"delay\"\nlatency = \"2ms\"\nat = \"0s\"\nduration = \"1s\"\n";
const PAIRS: usize = 10;

fn run(bench: &Bench, connect: &str, id: &str, text: &str, more: &[&str]) -> PathBuf {
    bench.scenario(text);
    let mut arguments = vec!["run", "scenario.toml", "--connect", connect, "--run-id", id, "--no-progress"];
    arguments.extend(["--no-floor", "--no-charts", "--allow-faults"]);
    arguments.extend(more);
    went_through(&bench.output(&arguments));
    bench.path("results").join(id)
}

/// Returns whether `compare` reports the second run as worse.
fn regressed(bench: &Bench, base: &Path, new: &Path) -> bool {
    let (base, new) = (base.to_str().unwrap(), new.to_str().unwrap());
    let compared = bench.output(&["compare", base, new, "--figure", "turn.p50", "--figure", "wait.p50"]);
    println!("{}{}", stdout(&compared), stderr(&compared));
    assert!(matches!(compared.status.code(), Some(0 | 1 | 4)), "{}", stderr(&compared));
    compared.status.code() == Some(1)
}

#[test]
#[ignore = "long, alone"]
fn compare_finds_real_slowdowns_with_at_most_one_false_alarm_in_ten() {
    let (bench, connect) = (Bench::new(), ensemble::place_on_shared());
    let (mut alarms, mut longer, mut delayed) = (0, 0, 0);
    // Given warm servers
    run(&bench, &connect, "warm-up", LOAD, &[]);
    for pair in 0..PAIRS {
        // And four consecutive runs: two equal runs, one with holds 20 % longer, and one with a slow network
        let run = |what: &str, text: &str, more: &[&str]| {
            run(&bench, &connect, &format!("{what}-{pair}"), text, more)
        };
        let base = run("base", LOAD, &[]);
        let alike = run("alike", LOAD, &[]);
        let held = run("held", LOAD, &["--set", "hold=24ms"]);
        let late = run("late", &format!("{LOAD}{DELAYED}"), &[]);
        // Then slower runs are reported as worse, and equal runs are not
        alarms += usize::from(regressed(&bench, &base, &alike));
        longer += usize::from(regressed(&bench, &base, &held));
        delayed += usize::from(regressed(&bench, &base, &late));
    }
    println!("{alarms} false alarms, {longer} longer holds and {delayed} delays found, of {PAIRS} each");
    assert!(alarms <= 1, "{alarms} of {PAIRS} were false alarms");
    assert_eq!((longer, delayed), (PAIRS, PAIRS), "number of detected longer holds and delays");
}

#[test]
#[ignore = "long, alone"]
fn ab_detects_a_20_percent_longer_hold_but_no_difference_between_equal_sides() {
    let scenario = "name = \"hold\"\nstrategies = [\"curator-mutex\"]\ncontenders = [5]\nhold = \"25ms\"\nduration = \"4s\"\n\
                    warm_up = \"500ms\"\n";
    let compared = |words: &[&str]| {
        let bench = Bench::new();
        let scenario = bench.scenario(scenario);
        let words = [&["ab", scenario.to_str().unwrap(), "--data-dir", "data"], words].concat();
        let mut command = bench.command(&words);
        let output = command.env_remove("ZKLOCKBENCH_COLD").output().unwrap();
        println!("{}{}", stderr(&output), stdout(&output));
        (output.status.code(), read(&only(bench.results())))
    };
    let (code, slower) = compared(&["--a", "hold=25ms", "--b", "hold=30ms"]);
    assert_eq!(code, Some(1));
    for one in &slower.comparisons {
        let is_of_the_hold = ["throughput", "wait.p50"].contains(&one.figure.as_str());
        assert_eq!(one.verdict == ComparisonVerdict::Regressed, is_of_the_hold, "{one:?}");
    }
    let (code, itself) = compared(&[]);
    assert!(code == Some(0) || code == Some(4), "{code:?}");
    assert!(itself.comparisons.iter().all(|one| one.verdict != ComparisonVerdict::Regressed), "{itself:?}");
}

/// Maximum number of calibrations until two consecutive results agree, because other processes may disturb a
/// calibration.
const TRIES: usize = 5;

#[test]
#[ignore = "long, alone"]
fn two_consecutive_calibrations_measure_the_same_floor() {
    // Given a warm ensemble
    let bench = Bench::new();
    bench.shows("ensemble up --servers 3 --data-dir data");
    let calibrate = || {
        let mut command = bench.command(&["calibrate", "--json", "--budget", "20s"]);
        let output = command.env_remove("ZKLOCKBENCH_COLD").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let printed = json(&output);
        let floor = &printed["calibration"]["floor"];
        println!("uncontended {}, handoff {}", floor["uncontended"]["p50_us"], floor["handoff"]["p50_us"]);
        floor["handoff"]["p50_us"].as_f64().unwrap()
    };
    // When the ensemble is calibrated repeatedly
    let mut floors = vec![calibrate()];
    let agree = |floors: &[f64]| floors.windows(2).any(|pair| (pair[0] / pair[1] - 1.0).abs() < 0.1);
    while !agree(&floors) && floors.len() < TRIES {
        floors.push(calibrate());
    }
    bench.shows("ensemble down");
    // Then two consecutive results agree within a tenth
    assert!(agree(&floors), "{floors:?}");
}

/// Maximum acceptable duration of `run quick` on a bare system, in seconds.
const FIRST_ANSWER_S: u64 = 90;

#[test]
#[ignore = "long, alone"]
fn packages_on_bare_systems_complete_a_quick_run_within_90_seconds() {
    let dist = tempfile::tempdir().unwrap();
    let mut told = String::new();
    for script in ["package", "try-packages"] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(script);
        let output = Command::new(&script).arg(dist.path()).output().unwrap();
        let said = stderr(&output);
        if output.status.code() == Some(3) {
            return skipped(said.lines().last().unwrap_or_default());
        }
        assert!(output.status.success(), "{}: {said}{}", script.display(), stdout(&output));
        told += &stdout(&output);
    }
    println!("{told}");
    let took = told.lines().find_map(|line| line.strip_prefix("deb: first answer of run quick: "));
    let took: u64 = took.unwrap().trim_end_matches(" s").parse().unwrap();
    if took > FIRST_ANSWER_S {
        skipped(format!("a slow host: run quick took {took} s, more than {FIRST_ANSWER_S}"));
    }
    // The published files match their checksums
    let sums = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(dist.path())
        .output();
    let sums = stdout(&sums.unwrap());
    assert!(sums.lines().count() >= 4 && sums.lines().all(|line| line.ends_with(": OK")), "{sums}");
    let bill =
        sums.lines().find_map(|line| line.strip_suffix(": OK").filter(|name| name.ends_with(".cdx.json")));
    let bill: Value =
        serde_json::from_slice(&std::fs::read(dist.path().join(bill.unwrap())).unwrap()).unwrap();
    let names: Vec<&str> =
        bill["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"tokio") && names.contains(&"DejaVuSans"), "{names:?}");
    assert!(!names.contains(&"proptest"), "{names:?}");
}
