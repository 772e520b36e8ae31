//! Long-running tests: every fault in the catalogue against every lock, and random faults.

use crate::support::program::{Bench, has, stdout, went_through};
use crate::support::trials::assert_kept;
use std::path::Path;

use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_results::StoredRun;

const CATALOGUE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/faults/catalogue.toml");

/// Number of locks that can run concurrently without overloading the machine.
const SIDE_BY_SIDE: usize = 3;

/// Returns the locks of the catalogue as listed in the scenario.
fn locks() -> Vec<toml::Value> {
    let scenario: toml::Table = std::fs::read_to_string(CATALOGUE).unwrap().parse().unwrap();
    scenario["strategies"].as_array().unwrap().clone()
}

/// Directory for the servers' data, in memory if possible: no fault in the catalogue depends on a disk.
fn data_dir(bench: &Bench) -> String {
    let (memory, own) = (Path::new("/dev/shm"), bench.path("data"));
    let place = if memory.is_dir() { memory } else { own.as_path() };
    place.display().to_string()
}

/// Runs the catalogue once with these locks; returns the trial of each lock.
fn catalogue_over(locks: &[toml::Value]) -> Vec<Trial> {
    let bench = Bench::new();
    let strategies = format!("strategies={}", toml::Value::Array(locks.to_vec()));
    let data = data_dir(&bench);
    let words = ["run", CATALOGUE, "--repetitions", "1", "--data-dir", &data, "--set", &strategies];
    went_through(&bench.output(&[&words[..], &["--no-progress"]].concat()));
    let StoredRun { trials, .. } = bench.stored();
    assert_eq!(trials.len(), locks.len());
    trials
}

/// Repeats a trial if its verdict is unknown. On a busy host, servers may restart so slowly that the next fault
/// overlaps the previous fault, so the repeated trial runs without the test's other ensembles.
fn or_another(trial: Trial, locks: &[toml::Value]) -> Trial {
    if !matches!(trial.judged.verdict, Verdict::Unknown(_)) {
        return trial;
    }
    println!("again: {}: {:?}", trial.spec.strategy.label, trial.judged.verdict);
    let own = trial.spec.strategy.name.as_str();
    let lock =
        locks.iter().find(|lock| lock.as_str().or_else(|| lock["name"].as_str()) == Some(own)).unwrap();
    catalogue_over(std::slice::from_ref(lock)).remove(0)
}

#[test]
#[ignore = "long: about 15 minutes"]
fn every_lock_ensures_exclusion_under_every_fault() {
    let locks = locks();
    let parts: Vec<_> = locks.chunks(locks.len().div_ceil(SIDE_BY_SIDE)).collect();
    let trials: Vec<Trial> = std::thread::scope(|scope| {
        let runs: Vec<_> = parts.iter().map(|part| scope.spawn(|| catalogue_over(part))).collect();
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(trials.len(), locks.len());
    for trial in trials {
        let trial = or_another(trial, &locks);
        let name = &trial.spec.strategy.label;
        assert_eq!(trial.judged.verdict, Verdict::Held, "{name}");
        assert_kept(&trial);
        let order = trial.ensemble_order.as_ref().unwrap_or_else(|| panic!("{name}: the logs show no order"));
        // The lock of the client library exposes no zxids, so its acquisitions are compared by time.
        let compared = if name == "crate-lock" { order.checked } else { order.checked_by_zxid };
        assert!(compared > 0 && order.too_early == 0 && order.overlaps == 0, "{name}: {order:?}");
    }
}

#[test]
#[ignore = "long: about five minutes"]
fn random_faults_break_no_lock() {
    let bench = Bench::new();
    let output = bench.completes(&format!("torture --minutes 4 --seed 1 --data-dir {}", data_dir(&bench)));
    has(&stdout(&output), &[", 0 violated."]);
}
