//! Sessions that expire during a trial are reported, and their contenders continue with new sessions.

use crate::support::ensemble;
use crate::support::program::{self, Bench, went_through};
use crate::support::sessions::{PERSISTENT, client};
use crate::support::trials;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use zklockbench_ensemble::log_follower::LogFollower;
use zklockbench_ensemble::transactions::{Living, Transaction};

#[tokio::test]
async fn contenders_with_expired_sessions_rejoin_and_acquire_again() {
    // Given a server that is paused for longer than the session timeout, as if by a long garbage collection
    let local = ensemble::start(1).await;
    let pid = local.pids()[0];
    let pause = async {
        program::signal(pid, Signal::STOP);
        tokio::time::sleep(Duration::from_secs(3)).await;
        program::signal(pid, Signal::CONT);
    };
    // When contenders with short session timeouts acquire the lock, and keep their session after a lost connection
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"20ms\"\nacquisitions = 60\n\
                 session_timeout = \"1s\"\nin_doubt = \"keep-session\"\n";
    let trial = trials::run_while(&local, lines, pause).await;
    // Then the expired sessions are reported, every contender has rejoined, and the lock was acquired in the last
    // seconds. (If a request timed out first, the contender has ended its session itself.)
    let unanswered = trial.errors.get("acquire: no reply").copied().unwrap_or(0);
    assert!(trial.sessions.expired > 0 || unanswered >= 4, "{:?} {:?}", trial.sessions, trial.errors);
    assert!(trial.sessions.rejoined >= trial.sessions.expired.max(unanswered), "{:?}", trial.sessions);
    assert_eq!(trial.cut_short, None);
    let last = trial.timeline.iter().rev().take(3).map(|second| second.acquisitions).max().unwrap();
    assert!(last > 0, "{:?}", trial.timeline);
    assert!(!trial.errors.is_empty(), "no errors were counted");
}

#[test]
fn session_end_deletes_nodes_even_if_the_log_omits_the_deletions() {
    // Servers before 3.6 do not log the deletions; with the property below, later servers omit them, too.
    let scenario = "name = \"crash\"\nstrategies = [\"curator-mutex\"]\ncontenders = 4\nhold = \"20ms\"\n\
                    warm_up = \"0s\"\nduration = \"6s\"\nrepetitions = 1\nsession_timeout = \"2s\"\n\
                    ensemble = { servers = 1 }\n[[fault]]\nkind = \"crash\"\ntarget = \"holder\"\nat = \"1500ms\"\n";
    let bench = Bench::with(scenario);
    let mut command = bench.typed("run scenario.toml --data-dir data --no-floor");
    command.env("JAVA_TOOL_OPTIONS", "-Dzookeeper.closeSessionTxn.enabled=false");
    let output = command.output().unwrap();
    went_through(&output);
    let trial = &bench.stored().trials[0];
    let verdict = format!("{:?}", trial.judged.verdict);
    assert!(!verdict.contains("lost acknowledged writes"), "{verdict}");
    assert_eq!(trial.violation_count, 0, "{:?}", trial.violations);
}

#[tokio::test]
async fn failed_multi_in_the_server_log_creates_no_node() {
    let local = ensemble::start(1).await;
    let client = client(&local.connect()).await;
    client.create("/l", &[], &PERSISTENT).await.unwrap();
    // The log contains the create of the failed multi.
    let mut multi = client.new_multi_writer();
    multi.add_create("/l/failed", &[], &PERSISTENT).unwrap();
    multi.add_delete("/l/missing", None).unwrap();
    multi.commit().await.unwrap_err();
    client.create("/l/made", &[], &PERSISTENT).await.unwrap();
    let (mut living, mut lives, mut seen) = (Living::default(), Vec::new(), Vec::new());
    let mut note = |transaction: &Transaction| {
        let whole = living.complete(transaction);
        seen.extend(whole.changes.iter().map(|change| change.path.clone()));
        lives.extend(living.go_on(&whole));
        Ok(())
    };
    let mut follower = LogFollower::new("/l/", SystemTime::UNIX_EPOCH);
    follower.read(&local.data(), &mut note).unwrap();
    follower.end(&mut note).unwrap();
    lives.extend(living.end());
    assert_eq!((seen.as_slice(), lives.len()), (&["/l/made".to_owned()][..], 1));
}
