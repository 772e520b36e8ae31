//! Gates of a run, and its comparison with a baseline.

use std::process::Output;

use crate::support::program::{Bench, stderr, stdout};
use crate::support::{ensemble, run_dirs};
use zklockbench_analysis::gate::Outcome;
use zklockbench_report::Summary;
use zklockbench_results::read;

const SCENARIO: &str = "name = \"gated\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nhold = \"30ms\"\n\
    acquisitions = 20\nrepetitions = 1\n[[gate]]\nname = \"no overlap\"\nrequire = \"violations == 0\"\n";

/// Runs the scenario under this name. Checks that the run exits with this code or, if the host spoiled the trial,
/// is *unknown* with the reason. Returns stdout and stderr, unless the trial was spoiled.
fn ends(code: i32, bench: &Bench, name: &str, more: &[&str]) -> Option<(String, String)> {
    let output = run(bench, &[&["--run-id", name], more].concat());
    let (shown, said) = (stdout(&output), stderr(&output));
    let trials = read(&bench.path("results").join(name)).unwrap().trials;
    let spoiled = trials.iter().find_map(|trial| trial.health.invalid.clone());
    let ended = output.status.code();
    assert!(ended == Some(code) || spoiled.is_some() && ended == Some(4), "{name}: {ended:?}: {said}{shown}");
    if let Some(why) = spoiled {
        let begin: String = why.chars().take(30).collect();
        assert!(shown.contains("invalid") && shown.contains(&begin), "{name}: {why}: {shown}");
        return None;
    }
    Some((shown, said))
}

fn run(bench: &Bench, more: &[&str]) -> Output {
    bench.scenario(SCENARIO);
    let connect = ensemble::place_on_shared();
    let mut arguments = vec!["run", "scenario.toml", "--connect", &connect, "--no-progress", "--all"];
    arguments.extend(more);
    bench.command(&arguments).env("GITHUB_STEP_SUMMARY", bench.path("github.md")).output().unwrap()
}

fn gates(bench: &Bench, run: &str) -> Vec<Outcome> {
    let text = std::fs::read(bench.path("results").join(run).join("summary.json")).unwrap();
    serde_json::from_slice::<Summary>(&text).unwrap().gates
}

#[test]
fn run_exit_code_reflects_its_gates() {
    let bench = Bench::new();
    let passes = ends(0, &bench, "passes", &["--gate", "requests_per_acquisition <= 20"]);
    if let Some((shown, _)) = &passes {
        assert!(shown.contains("passed   no overlap: violations == 0"), "{shown}");
        assert!(!shown.contains("FAILED"), "{shown}");
    }
    assert_eq!(gates(&bench, "passes").len(), 3);
    // A gate that fails
    let fails = ends(1, &bench, "fails", &["--gate", "throughput > 1000000/s"]);
    if let Some((shown, _)) = &fails {
        assert!(shown.contains("FAILED   throughput > 1000000/s"), "{shown}");
        let expected = "FAILED: throughput > 1000000/s: predecessor-watch, 3 contenders: ";
        assert!(shown.starts_with(expected), "{shown}");
        assert_eq!(gates(&bench, "fails")[0].word(), "FAILED");
    }
    // A gate that can no longer pass, in a run with --abort-on-fail
    let gate = ["--gate", "every throughput > 1000000/s", "--abort-on-fail", "--set", "repetitions=3"];
    if let Some((shown, _)) = ends(1, &bench, "aborts", &gate) {
        let early = "The run ended early: gate `every throughput > 1000000/s` can no longer pass";
        assert!(shown.contains(early) && shown.contains("1 of 3 trials ran"), "{shown}");
    }
    // A gate that cannot be decided: 60 waits are too few for this percentile
    if let Some((shown, _)) = ends(4, &bench, "unknown", &["--gate", "wait.p99.9 < 1s"]) {
        let few = "needs 10000 samples in each repetition, and half of them have at most 60 samples";
        assert!(shown.contains(few), "{shown}");
    }
    // A run that is compared with the store is inconclusive, because it has a single repetition
    for (name, commit) in [("passes", "abc123"), ("fails", "def456")] {
        bench.shows(&format!("baseline add results/{name} --commit {commit}"));
    }
    let listed = bench.shows("baseline list");
    assert!(listed.contains("abc123") && listed.contains("def456"), "{listed}");
    if [passes, fails].iter().all(Option::is_some) {
        let checked = bench.ends(4, "baseline check --figure wait.p50 --all").0;
        assert!(checked.contains("Base: baselines/"), "{checked}");
    }
    if let Some((shown, _)) = ends(4, &bench, "compared", &["--baseline", "baselines"]) {
        assert!(shown.contains("Against the baseline:") && shown.contains(Outcome::NO_REGRESSION), "{shown}");
        // The output shows the run's final name, not the hidden name used while the run was judged
        assert!(shown.contains("New: results/compared ("), "{shown}");
    }
    // A plain directory of runs is also a baseline: the newest comparable run is used
    if let Some((shown, _)) = ends(4, &bench, "latest", &["--baseline", "results"]) {
        assert!(shown.contains("Base: results/compared ("), "{shown}");
    }
}

#[test]
fn run_with_an_optional_baseline_warns_if_none_is_comparable() {
    let bench = Bench::new();
    let gate = "throughput not regressed by 25% against baseline";
    let gated = ["--baseline", "baselines", "--baseline-optional", "--gate", gate, "--github"];
    if let Some((_, said)) = ends(0, &bench, "first", &gated) {
        assert!(said.contains("no baseline to compare with (there is none yet)"), "{said}");
        // A passing job must not hide this in its log
        let summary = std::fs::read_to_string(bench.path("github.md")).unwrap();
        assert!(summary.contains("regressions were not judged"), "{summary}");
    }
    assert_eq!(gates(&bench, "first").len(), 2, "the baseline gate must be reported as not judged");
    // With a baseline from this processor, the gate is judged: a single repetition is inconclusive
    bench.shows("baseline add results/first --commit abc123");
    ends(4, &bench, "second", &gated);
    // And a run from another processor is not used as a baseline
    let store = std::fs::read_dir(bench.path("baselines")).unwrap().next().unwrap().unwrap().path();
    run_dirs::change(&store, |run| run["host"]["cpu"] = "a slower one".into());
    if let Some((_, said)) = ends(0, &bench, "third", &gated) {
        assert!(said.contains("a slower one against"), "{said}");
    }
}
