//! What becomes of a lock whose contenders go on with their session when they can't know whether a request was done.
//!
//! A node that is left then stays for as long as its session lives. Locks that find theirs again go on; behind the
//! others everybody is stuck, and the trial says so, with the names of the node and of whose it is.

use crate::support::ensemble;
use crate::support::trials;
use std::time::Duration;

use zklockbench_core::catalog::{LockCard, Protection};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_scenario::{Settling, TrialSpec};

/// A trial of that lock in which one contender loses that. Sessions live long enough that none ends by itself.
fn spec(name: &str, (fault, request): (&str, &str), in_doubt: &str) -> TrialSpec {
    let polls = if name == "polling" { ", poll_interval = \"50ms\"" } else { "" };
    // Locks that join and leave by a multi: the second holder grants the lock to the next contender by its next multi.
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

/// Those who are stuck only wait, so shorter sessions are safe. Sessions that nobody uses would have ended by the time
/// at which it is judged.
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

/// What is wrong when all should have been served. The contender that is hit goes on with its session.
fn unless_it_went_on(trial: &Trial) -> Option<String> {
    let is_proved = trial.faults[0].proved;
    let is_whole = trial.stuck.is_empty() && trial.orphans == Some(0) && trial.sessions.rejoined == 0;
    let is_served = trial.faults[0].recovered_us.is_some();
    let is_violated = matches!(trial.judged.verdict, Verdict::Violated(_));
    let is_right = is_proved && is_whole && is_served && !is_violated;
    (!is_right).then(|| complaint(trial, "did not go on"))
}

/// What is wrong when everybody should be stuck behind a node that the one that was hit has left.
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
        // In a race nobody has a node but who holds.
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
async fn every_protected_lock_finds_the_node_whose_create_went_unanswered_and_nobody_is_stuck() {
    let protected = locks().filter(|card| card.guarantees.protection != Protection::None);
    let plan: Vec<_> = protected.map(|card| spec(card.name, CREATE_REPLY, "keep-session")).collect();
    let trials = run(&plan).await;
    assert!(trials.len() > 8);
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
}

#[tokio::test]
async fn behind_such_a_node_of_an_unprotected_lock_all_are_stuck_while_its_session_lives() {
    let unprotected = locks()
        .filter(|card| card.guarantees.protection == Protection::None && card.name != DELETES_IN_PASSING);
    let plan: Vec<_> = unprotected.map(|card| spec(card.name, CREATE_REPLY, "keep-session")).collect();
    let trials = run_stuck(&plan).await;
    assert!(trials.len() > 5);
    assert_none(&trials.iter().filter_map(unless_it_is_stuck).collect::<Vec<_>>());
}

/// The client library's own lock tells the failure, but has found the node and deletes it in passing.
const DELETES_IN_PASSING: &str = "crate-lock";

#[tokio::test]
async fn the_client_librarys_own_lock_fails_and_deletes_what_it_had_made() {
    let trial = run(&[spec(DELETES_IN_PASSING, CREATE_REPLY, "keep-session")]).await.remove(0);
    assert_eq!(unless_it_went_on(&trial), None);
    assert_eq!(trial.errors.get("acquire: connection loss"), Some(&1), "{:?}", trial.errors);
}

#[tokio::test]
async fn a_contender_that_ends_its_session_instead_takes_the_node_with_it() {
    let trial = run(&[spec("predecessor-watch", CREATE_REPLY, "end-session")]).await.remove(0);
    assert_eq!((trial.stuck.as_slice(), trial.orphans), ([].as_slice(), Some(0)));
    assert_eq!(
        (trial.judged.verdict.clone(), trial.sessions.rejoined),
        (Verdict::Held, 1),
        "{:?}",
        trial.errors
    );
}

/// Locks whose release is not sent again, and the request by which they leave.
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

/// Locks whose release is sent again.
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

/// Not sent again, but the next acquire finds the node by its session's number, and holds by it.
const FINDS_IT_LATER: (&str, &str) = ("apache-write-lock", "delete");

fn lost_on_the_way((name, request): &(&'static str, &'static str)) -> TrialSpec {
    spec(name, ("drop-request", request), "keep-session")
}

#[test]
fn every_lock_that_excludes_is_asked_how_it_leaves() {
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
async fn behind_the_node_of_a_release_that_was_lost_and_not_sent_again_all_are_stuck() {
    let trials = run_stuck(&LEAVES_ONCE.iter().map(lost_on_the_way).collect::<Vec<_>>()).await;
    assert_none(&trials.iter().filter_map(unless_it_is_stuck).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_release_that_was_lost_is_sent_again_by_locks_that_leave_for_certain_or_its_node_is_found_later() {
    let certain = LEAVES_FOR_CERTAIN.iter().chain([&FINDS_IT_LATER]);
    let trials = run(&certain.map(lost_on_the_way).collect::<Vec<_>>()).await;
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_release_that_was_done_and_not_answered_leaves_no_node_whatever_the_contender_thinks_of_it() {
    let names = ["predecessor-watch", "parent-watch", "curator-mutex", "kazoo", "ahead"];
    let lost = |name: &&str| spec(name, ("drop-reply", "delete"), "keep-session");
    let trials = run(&names.iter().map(lost).collect::<Vec<_>>()).await;
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
}
