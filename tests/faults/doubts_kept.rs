//! Locks whose contenders go on with their session when the outcome of a request is unknown.
//!
//! A node left behind then stays as long as its session lives. Locks that find their nodes again go on.
//! Behind the nodes of other locks every contender is stuck, and the trial reports that with the names of the
//! node and its owner.

use crate::support::ensemble;
use crate::support::trials;
use std::time::Duration;

use zklockbench_core::catalog::{LockCard, Protection};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_scenario::{Settling, TrialSpec};

/// A trial of this lock in which one contender loses a message. Sessions are too long to expire during it.
fn spec(name: &str, (fault, request): (&str, &str), in_doubt: &str) -> TrialSpec {
    let polls = if name == "polling" { ", poll_interval = \"50ms\"" } else { "" };
    // Locks that join and leave by a multi: the second holder's next multi grants the lock to the next
    // contender.
    let (hold, target, (duration, start)) = if request == "multi" {
        ("500ms", "holder", ("4s", "after_acquisitions = 2"))
    } else {
        ("50ms", "any", ("2s", "at = \"500ms\""))
    };
    let lines = format!(
        "strategies = [{{ name = \"{name}\"{polls} }}]\ncontenders = 3\nhold = \"{hold}\"\nduration = \"{duration}\"\n\
         session_timeout = \"6s\"\nin_doubt = \"{in_doubt}\"\n[[fault]]\nkind = \"{fault}\"\n\
         target = \"{target}\"\nrequest = \"{request}\"\n{start}\n"
    );
    trials::plan(&lines).remove(0)
}

async fn run(plan: &[TrialSpec]) -> Vec<Trial> {
    let local = ensemble::alone().await;
    trials::run_side_by_side(&local, plan).await
}

/// Runs trials whose contenders get stuck. Stuck contenders only wait, so shorter sessions are safe; unused
/// sessions have ended by the time of the verdict.
async fn run_stuck(plan: &[TrialSpec]) -> Vec<Trial> {
    let session_timeout = Duration::from_secs(4);
    let settling = Settling { progress: Duration::from_secs(6), orphans: Duration::from_secs(5) };
    let soon = |spec: &TrialSpec| TrialSpec { session_timeout, settling, ..spec.clone() };
    run(&plan.iter().map(soon).collect::<Vec<_>>()).await
}

fn complaint(trial: &Trial, what: &str) -> String {
    format!(
        "{}: {what}: {:?}, stuck {:?}, left {:?}, {:?}, {:?}",
        trial.spec.strategy.label,
        trial.judged.verdict,
        trial.stuck,
        trial.orphans,
        trial.faults,
        trial.errors
    )
}

/// Complaint unless all contenders were served. The contender that is hit goes on with its session.
fn unless_it_went_on(trial: &Trial) -> Option<String> {
    let is_proved = trial.faults[0].proved;
    let is_whole = trial.stuck.is_empty() && trial.orphans == Some(0) && trial.sessions.rejoined == 0;
    let is_served = trial.faults[0].recovered_us.is_some();
    let is_violated = matches!(trial.judged.verdict, Verdict::Violated(_));
    let is_right = is_proved && is_whole && is_served && !is_violated;
    (!is_right).then(|| complaint(trial, "did not go on"))
}

/// Complaint unless every contender is stuck behind a node that the contender that was hit left behind.
fn unless_it_is_stuck(trial: &Trial) -> Option<String> {
    let fault = &trial.faults[0];
    let hit = fault.target.split(" (").next().unwrap();
    let is_named = trial.stuck.iter().all(|one| {
        let blocker = one.blocked_by.as_deref().unwrap_or_default();
        let (itself, other) =
            (format!("{hit} itself, from an earlier turn"), format!("{hit}, which is not inside"));
        let says = if hit == format!("contender {}", one.contender) { itself } else { other };
        let first = blocker.split(' ').next().unwrap_or_default();
        println!("{}: contender {} behind {blocker}", trial.spec.strategy.label, one.contender);
        // In a race only the holder has a node.
        let stands_behind =
            one.node.as_deref().map_or(first.ends_with("lock"), |node| !first.ends_with(node));
        let is_behind = one.position.is_none_or(|before| before > 0);
        blocker.contains(&says) && blocker.contains("session 0x") && stands_behind && is_behind
    });
    let is_violated = matches!(&trial.judged.verdict, Verdict::Violated(why) if why[0].contains("stuck"));
    let is_left = trial.orphans.is_some_and(|left| left > 0);
    let is_right = is_violated && is_named && is_left && trial.stuck.len() >= 2;
    (!is_right).then(|| complaint(trial, "is not stuck as it should be"))
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Locks with a queue that is joined by a create. In a race most creates are refused anyway.
fn locks() -> impl Iterator<Item = LockCard> {
    let queueing = |card: &LockCard| card.guarantees.exclusive && card.guarantees.fifo;
    zklockbench_locks::cards().into_iter().filter(queueing).filter(|card| card.name != "atomic-multi")
}

const CREATE_REPLY: (&str, &str) = ("drop-reply", "create");

#[tokio::test]
async fn protected_locks_find_the_node_of_an_unanswered_create() {
    let protected = locks().filter(|card| card.guarantees.protection != Protection::None);
    let plan: Vec<_> = protected.map(|card| spec(card.name, CREATE_REPLY, "keep-session")).collect();
    let trials = run(&plan).await;
    assert!(trials.len() > 8);
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
}

#[tokio::test]
async fn unprotected_locks_are_stuck_behind_the_node_of_an_unanswered_create() {
    let unprotected = locks()
        .filter(|card| card.guarantees.protection == Protection::None && card.name != DELETES_IN_PASSING);
    let plan: Vec<_> = unprotected.map(|card| spec(card.name, CREATE_REPLY, "keep-session")).collect();
    let trials = run_stuck(&plan).await;
    assert!(trials.len() > 5);
    assert_none(&trials.iter().filter_map(unless_it_is_stuck).collect::<Vec<_>>());
}

/// The client library's own lock reports the failure, but has found the node and deletes it in passing.
const DELETES_IN_PASSING: &str = "crate-lock";

#[tokio::test]
async fn lock_of_the_client_library_fails_and_deletes_its_node() {
    let trial = run(&[spec(DELETES_IN_PASSING, CREATE_REPLY, "keep-session")]).await.remove(0);
    assert_eq!(unless_it_went_on(&trial), None);
    assert_eq!(trial.errors.get("acquire: connection loss"), Some(&1), "{:?}", trial.errors);
}

#[tokio::test]
async fn ending_the_session_deletes_the_node_of_an_unanswered_create() {
    let trial = run(&[spec("predecessor-watch", CREATE_REPLY, "end-session")]).await.remove(0);
    assert_eq!((trial.stuck.as_slice(), trial.orphans), ([].as_slice(), Some(0)));
    assert_eq!(
        (trial.judged.verdict.clone(), trial.sessions.rejoined),
        (Verdict::Held, 1),
        "{:?}",
        trial.errors
    );
}

/// Locks that do not resend their release, and the request by which they leave.
const LEAVES_ONCE: &[(&str, &str)] = &[
    ("ephemeral-node", "delete"),
    ("ephemeral-child", "delete"),
    ("polling", "delete"),
    ("parent-watch", "delete"),
    ("predecessor-watch", "delete"),
    ("go-zookeeper", "delete"),
    ("shared-parent-watch", "delete"),
    ("shared-predecessor-watch", "delete"),
    ("crate-lock", "delete"),
    ("baton", "multi"),
    ("count", "multi"),
    ("ticket", "multi"),
];

/// Locks that resend their release, and the request by which they leave.
const LEAVES_FOR_CERTAIN: &[(&str, &str)] = &[
    ("curator-mutex", "delete"),
    ("curator-semaphore-mutex", "delete"),
    ("curator-semaphore", "delete"),
    ("curator-read-write", "delete"),
    ("curator-multi", "delete"),
    ("local-then-remote", "delete"),
    ("cohort", "delete"),
    ("kazoo", "delete"),
    ("kazoo-read-write", "delete"),
    ("ahead", "delete"),
    ("count-semaphore", "delete"),
    ("atomic-multi", "multi"),
];

/// Not resent, but the next acquire finds the node by its session's id, and holds by it.
const FINDS_IT_LATER: (&str, &str) = ("apache-write-lock", "delete");

fn lost_on_the_way((name, request): &(&'static str, &'static str)) -> TrialSpec {
    spec(name, ("drop-request", request), "keep-session")
}

#[test]
fn every_exclusive_lock_is_in_one_of_the_lists() {
    let mut asked: Vec<&str> = LEAVES_ONCE
        .iter()
        .chain(LEAVES_FOR_CERTAIN)
        .chain([&FINDS_IT_LATER])
        .map(|(name, _)| *name)
        .collect();
    let mut all: Vec<&str> = zklockbench_locks::cards()
        .iter()
        .filter(|card| card.guarantees.exclusive)
        .map(|card| card.name)
        .collect();
    asked.sort_unstable();
    all.sort_unstable();
    assert_eq!(asked, all);
}

#[tokio::test]
async fn contenders_are_stuck_behind_a_lost_release_that_is_not_resent() {
    let trials = run_stuck(&LEAVES_ONCE.iter().map(lost_on_the_way).collect::<Vec<_>>()).await;
    assert_none(&trials.iter().filter_map(unless_it_is_stuck).collect::<Vec<_>>());
}

#[tokio::test]
async fn lost_release_is_resent_or_its_node_is_found_later() {
    let certain = LEAVES_FOR_CERTAIN.iter().chain([&FINDS_IT_LATER]);
    let trials = run(&certain.map(lost_on_the_way).collect::<Vec<_>>()).await;
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
}

#[tokio::test]
async fn unanswered_release_leaves_no_node() {
    let names = ["predecessor-watch", "parent-watch", "curator-mutex", "kazoo", "ahead"];
    let lost = |name: &&str| spec(name, ("drop-reply", "delete"), "keep-session");
    let trials = run(&names.iter().map(lost).collect::<Vec<_>>()).await;
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
}
