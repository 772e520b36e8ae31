//! The articles' Java classes as contenders, and sessions that last for a single acquisition, as in the articles.

use std::path::Path;

use crate::support::program::{Bench, stderr};
use crate::support::{ensemble, foreign, skip};

const CLASSES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/articles/run");
const ONE_SERVER: &str = "repetitions = 1\n[ensemble]\nservers = 1\n";

fn classes(bench: &Bench) -> Option<String> {
    if foreign::curator(&bench.path("cache")).is_none() || !Path::new(CLASSES).exists() {
        skip::skipped("this machine has no Curator for the articles' classes");
        return None;
    }
    Some(format!("articles=env XDG_CACHE_HOME={} '{CLASSES}'", bench.path("cache").display()))
}

#[test]
#[ignore = "long: runs five Java programs; the `locks` lane compares each class on the wire"]
fn article_classes_never_violate_exclusion_but_local_lock_is_never_acquired() {
    let bench = Bench::new();
    let Some(driver) = classes(&bench) else { return };
    let of_comparison =
        |lock: &str| format!("{{ driver = \"articles\", lock = \"{lock}\", interval = \"20ms\" }}");
    let scenario = format!(
        "name = \"classes\"\nstrategies = [\"articles:ZooKeeperLock\", {}, {}, {}, \"articles:LocalLock\"]\ncontenders = 4\n\
         hold = \"20ms\"\nduration = \"2s\"\nwarm_up = \"100ms\"\n{ONE_SERVER}",
        of_comparison("ZKLock"),
        of_comparison("ZKLockTwo"),
        of_comparison("ZKLockThree"),
    );
    let output = bench.run_with(&[&driver], &scenario, &["--counting", "never"]);
    let trials = bench.stored().trials;
    assert_eq!(trials.len(), 5, "{}", stderr(&output));
    for trial in &trials {
        let (lock, acquired) = (&trial.spec.strategy.label, trial.whole.acquired());
        assert_eq!(trial.violation_count, 0, "{lock}: {}", stderr(&output));
        assert_eq!(acquired == 0, lock.contains("LocalLock"), "{lock}: {acquired}: {:?}", trial.errors);
    }
}

#[tokio::test]
async fn per_acquisition_sessions_open_and_end_with_each_acquisition() {
    // Given servers that no other test uses
    let local = ensemble::start(3).await;
    let connect = local.connect();
    // Counts the transactions of twenty acquisitions
    let transactions = move |sessions: &str| {
        let bench = Bench::with(&format!(
            "name = \"sessions\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 2\nhold = \"5ms\"\n\
             acquisitions = 10\nsessions = \"{sessions}\"\nrepetitions = 1\n"
        ));
        let output = bench.output(&["run", "scenario.toml", "--connect", &connect, "--no-floor"]);
        let trial = bench.stored().trials.remove(0);
        assert!(trial.errors.is_empty(), "{:?}: {}", trial.errors, stderr(&output));
        assert_eq!(trial.whole.acquired(), 20, "{}", stderr(&output));
        assert_eq!(trial.sessions.rejoined, 0);
        // The leader has the highest count
        let proposals = trial.servers.iter().map(|server| {
            server.after.get("zk_proposal_count").unwrap_or(&0)
                - server.before.get("zk_proposal_count").unwrap_or(&0)
        });
        proposals.max().unwrap()
    };
    let both = move || ["kept", "per-acquisition"].map(transactions);
    let [kept, each] = tokio::task::spawn_blocking(both).await.unwrap();
    local.close();
    // Then each acquisition opens a session, and closes it unless the trial has ended
    assert!(each >= kept + 20 + 15, "{kept} and {each}");
}
