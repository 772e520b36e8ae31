//! Sessions that expire during a trial are reported, and their contenders go on with new ones.

use crate::support::ensemble;
use crate::support::program;
use crate::support::trials;
use std::time::Duration;

use rustix::process::Signal;

#[tokio::test]
async fn contenders_whose_sessions_expire_rejoin_and_acquire_again() {
    // Given a server that stands still for longer than a session lives, as in a long pause of its JVM
    let local = ensemble::start(1).await;
    let pid = local.pids()[0];
    let pause = async {
        program::signal(pid, Signal::STOP);
        tokio::time::sleep(Duration::from_secs(3)).await;
        program::signal(pid, Signal::CONT);
    };
    // When contenders with short sessions are at work, each until it has acquired often enough
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"20ms\"\nacquisitions = 60\n\
                 session_timeout = \"1s\"\n";
    let trial = trials::run_while(&local, lines, pause).await;
    // Then the expiries are reported, everybody is back, and the lock was acquired in the last second
    assert!(trial.sessions.expired > 0, "{:?} {:?}", trial.sessions, trial.errors);
    assert!(trial.sessions.rejoined >= trial.sessions.expired, "{:?}", trial.sessions);
    assert_eq!(trial.cut_short, None);
    let last = trial.timeline.iter().rev().take(3).map(|second| second.acquisitions).max().unwrap();
    assert!(last > 0, "{:?}", trial.timeline);
    assert!(!trial.errors.is_empty(), "errors are counted by kind");
}
