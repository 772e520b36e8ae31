//! Exclusion in recorded histories, judged only by the ensemble's order of transactions, not by clocks.

use std::time::Duration;

use futures_util::future::join_all;
use zklockbench_judge::history::Judgement;

use zklockbench_core::catalog::Holders;
use zklockbench_record::Trial;
use zklockbench_results::history::write_trial;
use zklockbench_scenario::{Settling, TrialSpec};

use crate::support::{story, trials};

fn spec(name: &str, more: &str) -> TrialSpec {
    let polls = if name == "polling" { ", poll_interval = \"20ms\"" } else { "" };
    let lines = format!(
        "strategies = [{{ name = \"{name}\"{polls} }}]\ncontenders = 3\nhold = \"5ms\"\n\
         session_timeout = \"6s\"\n{more}"
    );
    trials::plan(&lines).remove(0)
}

/// Judgement of the trial's history, read from a file.
fn judged(trial: &Trial) -> Judgement {
    judged_with_text(trial).0
}

/// Judgement of the trial's history, and the file's text.
fn judged_with_text(trial: &Trial) -> (Judgement, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.jsonl");
    write_trial(&path, trial).unwrap();
    let name = &trial.spec.strategy.label;
    let judgement = story::check(&path, false).unwrap_or_else(|error| panic!("{name}: {error}"));
    (judgement, std::fs::read_to_string(&path).unwrap())
}

#[tokio::test]
#[ignore = "long: every mutex"]
async fn transactions_order_handoffs_if_the_lock_reads_before_entering() {
    let mutexes = zklockbench_locks::cards().into_iter().filter(|card| {
        let of = card.guarantees;
        // The client library's lock exposes neither its replies nor its token.
        of.exclusive && of.holders == Holders::One && card.name != "crate-lock"
    });
    let names: Vec<_> = mutexes.map(|card| card.name).collect();
    let each = names
        .into_iter()
        .map(async |name| (name, trials::run_spec_with_history(&spec(name, "duration = \"1s\"\n")).await));
    for (name, trial) in join_all(each).await {
        let judgement = judged(&trial);
        let lock = story::lock(&judgement);
        let order = &lock.order;
        println!("{name}: {order:?}");
        // The run and the history agree on the evidence
        let evidence = trial.evidence;
        let by_run = (evidence.entries, evidence.waited, evidence.seen_inside);
        assert_eq!((lock.acquired, lock.waited, lock.seen_inside), by_run, "{name}");
        // And on the verdict, if there is enough evidence
        let is_enough = evidence.seen_inside.max(order.waited) >= 5;
        let word = judgement.verdict.word();
        assert!(order.too_early == 0, "{name}: {judgement:?}");
        assert!(word == "held" || word == "unknown" && !is_enough, "{name}: {judgement:?}");
        assert!(order.compared > order.not_compared, "{name}: {order:?}");
    }
}

#[tokio::test]
async fn history_with_lost_releases_is_consistent_and_counts_stuck_contenders() {
    let lost = "duration = \"2s\"\nin_doubt = \"keep-session\"\n[[fault]]\nkind = \"drop-request\"\n\
                request = \"delete\"\nat = \"300ms\"\n";
    // Shorter limits, to detect stuck contenders sooner.
    let settling = Settling { progress: Duration::from_secs(8), orphans: Duration::from_secs(7) };
    let spec = TrialSpec { settling, ..spec("predecessor-watch", lost) };
    let trial = trials::run_spec_with_history(&spec).await;
    assert!(!trial.stuck.is_empty(), "{:?}", trial.judged.verdict);
    let order = trial.ensemble_order.clone().unwrap();
    assert!(order.checked_by_zxid > 0 && !order.is_broken(), "{order:?}");
    let judgement = judged(&trial);
    let lock = story::lock(&judgement);
    assert_eq!((lock.order.too_early, lock.violations.count), (0, 0), "{judgement:?}");
    assert_eq!(judgement.verdict.word(), "violated", "{judgement:?}");
    assert_eq!(lock.stuck, trial.stuck.len() as u64, "{judgement:?}");
}

#[tokio::test]
async fn run_without_a_lock_and_its_history_are_both_judged_unknown() {
    let lines =
        "strategies = [\"no-lock\"]\ncontenders = 8\nhold = \"0ms\"\nduration = \"1s\"\nwarm_up = \"0s\"\n";
    let trial = trials::run_with_history(lines).await;
    let judgement = judged(&trial);
    let lock = story::lock(&judgement);
    assert!(lock.acquired > 100, "{lock:?}");
    assert_eq!(trial.judged.verdict.word(), "unknown", "{:?}", trial.judged.verdict);
    assert_eq!(judgement.verdict.word(), trial.judged.verdict.word(), "{judgement:?}");
}

#[tokio::test]
async fn semaphore_history_records_permits_that_never_exceed_the_leases() {
    let lines = "strategies = [{ name = \"curator-semaphore\", leases = 5, permits = 2 }]\ncontenders = 4\n\
                 hold = \"200ms\"\nacquisitions = 8\nwarm_up = \"0s\"\n";
    let trial = trials::run_with_history(lines).await;
    assert_eq!((trial.judged.verdict.word(), trial.most_inside), ("held", 2), "{:?}", trial.judged.verdict);
    let (judgement, text) = judged_with_text(&trial);
    let acquired = text.lines().filter(|line| line.contains(r#""op":"acquire""#) && line.contains(r#""ok""#));
    let (count, with_permits) = acquired
        .fold((0, 0), |(count, with), line| (count + 1, with + usize::from(line.contains(r#""leases":2"#))));
    assert!(count > 10 && with_permits == count, "{with_permits} of {count} have permits");
    let order = &story::lock(&judgement).order;
    assert!(order.compared > 10 && order.waited > 0 && order.too_early == 0, "{order:?}");
    assert_eq!(judgement.verdict.word(), "held", "{judgement:?}");
    // With fewer leases in the file, the same acquisitions violate exclusion
    let fewer = text.replacen(r#""leases":5"#, r#""leases":3"#, 1);
    assert_eq!(story::check_text(fewer.as_bytes()).unwrap().verdict.word(), "violated");
}
