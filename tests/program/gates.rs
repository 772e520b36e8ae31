//! A run ends with what its gates came to, and is compared with a baseline.

use std::process::Output;

use crate::support::program::{Bench, stderr, stdout};
use crate::support::{ensemble, run_dirs};
use zklockbench::answer::gate::Outcome;
use zklockbench::report::Summary;
use zklockbench::results::read;

const SCENARIO: &str = "name = \"gated\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nhold = \"30ms\"\n\
    acquisitions = 20\nrepetitions = 1\n[[gate]]\nname = \"nobody else\"\nrequire = \"violations == 0\"\n";

/// Runs it under that name, up to three times if the host was so busy that the generator spoiled the trial.
fn run_as(bench: &Bench, name: &str, more: &[&str]) -> Output {
    let arguments = [&["--run-id", name], more].concat();
    for _ in 0..2 {
        let output = run(bench, &arguments);
        let made = bench.path("results").join(name);
        if read(&made).unwrap().trials.iter().all(|trial| trial.health.invalid.is_none()) {
            return output;
        }
        std::fs::remove_dir_all(made).unwrap();
    }
    run(bench, &arguments)
}

fn run(bench: &Bench, more: &[&str]) -> Output {
    bench.scenario(SCENARIO);
    let connect = ensemble::place_on_shared();
    let mut arguments = vec!["run", "scenario.toml", "--connect", &connect, "--no-progress"];
    arguments.extend(more);
    bench.output(&arguments)
}

fn gates(bench: &Bench, run: &str) -> Vec<Outcome> {
    let text = std::fs::read(bench.path("results").join(run).join("summary.json")).unwrap();
    serde_json::from_slice::<Summary>(&text).unwrap().gates
}

#[test]
fn a_run_exits_with_what_its_gates_came_to() {
    let bench = Bench::new();
    let passes = run_as(&bench, "passes", &["--gate", "requests_per_acquisition <= 20"]);
    assert_eq!(passes.status.code(), Some(0), "{}", stderr(&passes));
    let said = stdout(&passes);
    assert!(said.contains("passed   nobody else: violations == 0") && !said.contains("FAILED"), "{said}");
    assert_eq!(gates(&bench, "passes").len(), 3);
    // One that must fail
    let fails = run_as(&bench, "fails", &["--gate", "throughput > 1000000/s"]);
    assert_eq!(fails.status.code(), Some(1), "{}", stderr(&fails));
    let said = stdout(&fails);
    assert!(said.contains("FAILED   throughput > 1000000/s"), "{said}");
    assert!(said.starts_with("FAILED: throughput > 1000000/s: predecessor-watch, 3 contenders: "), "{said}");
    assert_eq!(gates(&bench, "fails")[0].word(), "FAILED");
    // One that can no longer pass, in a run that is to end then
    let gate = ["--gate", "every throughput > 1000000/s", "--abort-on-fail", "--set", "repetitions=3"];
    let aborts = run_as(&bench, "aborts", &gate);
    assert_eq!(aborts.status.code(), Some(1), "{}", stderr(&aborts));
    let said = stdout(&aborts);
    let early = "The run ended early: gate `every throughput > 1000000/s` can no longer pass";
    assert!(said.contains(early), "{said}");
    assert!(said.contains("1 of 3 trials ran"), "{said}");
    // One that cannot be decided: 60 waits have no such percentile
    let unknown = run_as(&bench, "unknown", &["--gate", "wait.p99.9 < 1s"]);
    assert_eq!(unknown.status.code(), Some(4), "{}", stderr(&unknown));
    let said = stdout(&unknown);
    let few = "needs 10000 samples in each repetition, and half of them have at most 60 samples";
    assert!(said.contains(few), "{said}");
    // The store, and a run that is compared with it: a single repetition shows nothing
    for (name, commit) in [("passes", "abc123"), ("fails", "def456")] {
        bench.shows(&format!("baseline add results/{name} --commit {commit}"));
    }
    let listed = bench.shows("baseline list");
    assert!(listed.contains("abc123") && listed.contains("def456"), "{listed}");
    let trend = bench.shows("baseline trend --figure wait.p50 --svg trend.svg");
    assert!(trend.contains("wait.p50 over 2 runs"), "{trend}");
    assert!(std::fs::read_to_string(bench.path("trend.svg")).unwrap().contains("def456"));
    let compared = run_as(&bench, "compared", &["--baseline", "baselines"]);
    assert_eq!(compared.status.code(), Some(4), "{}{}", stdout(&compared), stderr(&compared));
    let said = stdout(&compared);
    assert!(said.contains("Against the baseline:") && said.contains(Outcome::NO_REGRESSION), "{said}");
    // Under the name that it has from then on, not where it lay while it was judged
    assert!(said.contains("New: results/compared ("), "{said}");
    // A plain directory of runs is one, too: the newest that can be compared with
    let latest = run(&bench, &["--run-id", "latest", "--baseline", "results"]);
    assert_eq!(latest.status.code(), Some(4), "{}{}", stdout(&latest), stderr(&latest));
    assert!(stdout(&latest).contains("Base: results/compared ("), "{}", stdout(&latest));
}

#[test]
fn a_pipeline_goes_on_with_a_warning_without_a_baseline_and_with_one_of_another_processor() {
    let bench = Bench::new();
    let gate = "throughput not regressed by 25% against baseline";
    let gated = ["--baseline", "baselines", "--baseline-optional", "--gate", gate];
    let first = run_as(&bench, "first", &gated);
    assert_eq!(first.status.code(), Some(0), "{}{}", stdout(&first), stderr(&first));
    assert!(stderr(&first).contains("no baseline to compare with (there is none yet)"), "{}", stderr(&first));
    assert_eq!(
        gates(&bench, "first").len(),
        2,
        "the gate about the baseline has not passed, it was not judged"
    );
    // Given a baseline of this processor, the gate is judged: one repetition shows nothing
    bench.shows("baseline add results/first --commit abc123");
    assert_eq!(run_as(&bench, "second", &gated).status.code(), Some(4));
    // And one of another processor is none
    let store = std::fs::read_dir(bench.path("baselines")).unwrap().next().unwrap().unwrap().path();
    run_dirs::change(&store, |run| run["host"]["cpu"] = "a slower one".into());
    let third = run_as(&bench, "third", &gated);
    assert_eq!(third.status.code(), Some(0), "{}{}", stdout(&third), stderr(&third));
    assert!(stderr(&third).contains("a slower one against"), "{}", stderr(&third));
}

#[test]
fn a_gate_that_cannot_be_is_told_before_anything_starts() {
    let bench = Bench::new();
    for (more, said) in [
        (vec!["--gate", "wait.p99 < 50"], "--gate:1:12"),
        (vec!["--gate", "wait.p99 of baton < 50ms"], "the scenario has no strategy `baton`"),
        (vec!["--gate", "wait.p99 not regressed by 5% against baseline"], "needs a baseline"),
        (vec!["--baseline", "absent"], "there is no baseline store at absent"),
    ] {
        let refused = run(&bench, &more);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
        assert!(!bench.path("results").exists());
    }
}
