//! Runs that differ in nothing are not found to, and what costs something is: on real servers, however noisy the host is.

use std::path::{Path, PathBuf};

use crate::support::depth;
use crate::support::ensemble;
use crate::support::program::{Bench, stderr, stdout, went_through};

const LOAD: &str = "name = \"compared\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 5\nhold = \"20ms\"\nwarm_up = \"200ms\"\n\
    warm_up_at_most = \"200ms\"\nduration = \"1s\"\nrepetitions = 10\nsession_timeout = \"10s\"\n";
/// Two milliseconds in each direction, from the first acquire to after the last.
const DELAYED: &str = "[[fault]]\nkind = \"delay\"\nlatency = \"2ms\"\nat = \"0s\"\nduration = \"10s\"\n";
const PAIRS: usize = 10;

fn run(bench: &Bench, connect: &str, id: &str, text: &str, more: &[&str]) -> PathBuf {
    let scenario = bench.scenario(text);
    let mut arguments =
        vec!["run", scenario.to_str().unwrap(), "--connect", connect, "--run-id", id, "--quiet"];
    arguments.extend(["--no-floor", "--no-charts", "--allow-faults"]);
    arguments.extend(more);
    went_through(&bench.output(&arguments));
    bench.path("results").join(id)
}

/// Whether the second is found worse.
fn regressed(bench: &Bench, base: &Path, new: &Path) -> bool {
    let (base, new) = (base.to_str().unwrap(), new.to_str().unwrap());
    let compared = bench.output(&["compare", base, new, "--figure", "throughput", "--figure", "wait.p50"]);
    println!("{}{}", stdout(&compared), stderr(&compared));
    assert!(matches!(compared.status.code(), Some(0 | 1 | 4)), "{}", stderr(&compared));
    compared.status.code() == Some(1)
}

#[test]
fn of_ten_pairs_of_equal_runs_at_most_one_is_a_false_alarm_and_what_costs_something_is_found_each_time() {
    if !depth::is_long() {
        return;
    }
    let (bench, connect) = (Bench::new(), ensemble::place_on_shared());
    let (mut alarms, mut longer, mut delayed) = (0, 0, 0);
    for pair in 0..PAIRS {
        // Given four runs in a row: two that are alike, one that holds for a fifth longer, and one with a slow network
        let run = |what: &str, text: &str, more: &[&str]| {
            run(&bench, &connect, &format!("{what}-{pair}"), text, more)
        };
        let base = run("base", LOAD, &[]);
        let alike = run("alike", LOAD, &[]);
        let held = run("held", LOAD, &["--set", "hold=24ms"]);
        let late = run("late", &format!("{LOAD}{DELAYED}"), &[]);
        // Then each is what it is
        alarms += usize::from(regressed(&bench, &base, &alike));
        longer += usize::from(regressed(&bench, &base, &held));
        delayed += usize::from(regressed(&bench, &base, &late));
    }
    println!("{alarms} false alarms, {longer} longer holds and {delayed} delays found, of {PAIRS} each");
    assert!(alarms <= 1, "{alarms} of {PAIRS} were false alarms");
    assert_eq!((longer, delayed), (PAIRS, PAIRS), "longer holds and delays that were found");
}
