//! Locks with contenders that keep their session when the outcome of a request is unknown.
//!
//! A leftover node exists until its session ends. Some locks find their node again and continue. With other locks,
//! every contender gets stuck behind the node, and the trial reports the node and its owner.

use crate::support::{ensemble, trials};
use std::time::Duration;

use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_scenario::{Settling, TrialSpec};

/// A trial of this lock in which one contender loses a message and no session expires.
fn spec(name: &str, (fault, request): (&str, &str), in_doubt: &str) -> TrialSpec {
    let polls = if name == "polling" { ", poll_interval = \"50ms\"" } else { "" };
    // For locks that release with a multi, the second holder's next multi is its release.
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

/// Runs trials with stuck contenders. Timeouts are shorter, because stuck contenders only wait.
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

/// Returns a failure message unless all contenders were served and the fault's target kept its session.
fn unless_it_went_on(trial: &Trial) -> Option<String> {
    let is_proved = trial.faults[0].proved;
    let is_whole = trial.stuck.is_empty() && trial.orphans == Some(0) && trial.sessions.rejoined == 0;
    let is_served = trial.faults[0].recovered_us.is_some();
    let is_violated = matches!(trial.judged.verdict, Verdict::Violated(_));
    let is_right = is_proved && is_whole && is_served && !is_violated;
    (!is_right).then(|| complaint(trial, "did not continue"))
}

/// Returns a failure message unless every contender is stuck behind a node that the fault's target left.
fn unless_it_is_stuck(trial: &Trial) -> Option<String> {
    let fault = &trial.faults[0];
    let hit = fault.target.split(" (").next().unwrap();
    let is_named = trial.stuck.iter().all(|one| {
        let blocker = one.blocked_by.as_deref().unwrap_or_default();
        let (itself, other) =
            (format!("{hit} itself, from an earlier cycle"), format!("{hit}, which is not inside"));
        let says = if hit == format!("contender {}", one.contender) { itself } else { other };
        let first = blocker.split(' ').next().unwrap_or_default();
        println!("{}: contender {} behind {blocker}", trial.spec.strategy.label, one.contender);
        // In a race, only the holder has a node.
        let stands_behind =
            one.node.as_deref().map_or(first.ends_with("lock"), |node| !first.ends_with(node));
        let is_behind = one.position.is_none_or(|before| before > 0);
        blocker.contains(&says) && blocker.contains("session 0x") && stands_behind && is_behind
    });
    let is_violated = matches!(&trial.judged.verdict, Verdict::Violated(why) if why[0].contains("stuck"));
    let is_left = trial.orphans.is_some_and(|left| left > 0);
    let is_right = is_violated && is_named && is_left && trial.stuck.len() >= 2;
    (!is_right).then(|| complaint(trial, "is not stuck as expected"))
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A lock, a fault, and the request that the fault hits. `tests/locks/matrix` shows how each lock reacts.
type Loss = (&'static str, (&'static str, &'static str));

const GOES_ON: [Loss; 8] = [
    ("curator-mutex", ("drop-reply", "create")),
    ("kazoo", ("drop-reply", "create")),
    ("curator-mutex", ("drop-request", "delete")),
    ("local-then-remote", ("drop-request", "delete")),
    ("atomic-multi", ("drop-request", "multi")),
    // The next acquire finds the node by its session id, and uses it to hold the lock.
    ("apache-write-lock", ("drop-request", "delete")),
    ("predecessor-watch", ("drop-reply", "delete")),
    // The library deletes its node when an acquire fails.
    ("crate-lock", ("drop-reply", "create")),
];

/// A queue, a race for one node, a poller, readers and writers, and a lock that releases with a multi.
const IS_STUCK: [Loss; 6] = [
    ("predecessor-watch", ("drop-reply", "create")),
    ("parent-watch", ("drop-request", "delete")),
    ("ephemeral-node", ("drop-request", "delete")),
    ("polling", ("drop-request", "delete")),
    ("shared-predecessor-watch", ("drop-request", "delete")),
    ("baton", ("drop-request", "multi")),
];

fn plan(losses: &[Loss]) -> Vec<TrialSpec> {
    losses.iter().map(|(name, loss)| spec(name, *loss, "keep-session")).collect()
}

#[tokio::test]
async fn contenders_continue_after_a_lost_create_or_release() {
    let ends = spec("predecessor-watch", ("drop-reply", "create"), "end-session");
    let mut trials = run(&[plan(&GOES_ON), vec![ends]].concat()).await;
    let ended = trials.pop().unwrap();
    assert_none(&trials.iter().filter_map(unless_it_went_on).collect::<Vec<_>>());
    let library = trials.last().unwrap();
    assert_eq!(library.errors.get("acquire: connection loss"), Some(&1), "{:?}", library.errors);
    // And the end of the session deletes the node of an unanswered create
    assert_eq!((ended.stuck.as_slice(), ended.orphans), ([].as_slice(), Some(0)));
    let verdict = &ended.judged.verdict;
    assert!(trials::held_unless_the_host_was_busy(verdict), "{verdict:?}: {:?}", ended.errors);
    assert_eq!(ended.sessions.rejoined, 1, "{:?}", ended.errors);
}

#[tokio::test]
async fn trial_reports_the_leftover_node_that_blocks_stuck_contenders() {
    let trials = run_stuck(&plan(&IS_STUCK)).await;
    assert_none(&trials.iter().filter_map(unless_it_is_stuck).collect::<Vec<_>>());
}
