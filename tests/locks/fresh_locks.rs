//! One lock per object: each acquisition creates its lock's directory, and may leave the directory behind.

use zklockbench_core::{measure::Measure, verdict::Verdict};
use zklockbench_record::figures::{NODES_LEFT, REQUESTS_PER_ACQUISITION};

use crate::support::trials;

#[tokio::test]
async fn fresh_locks_leave_the_nodes_that_they_create() {
    // The usual requests, plus those that create the directory: in Curator, a refused create, two reads and the
    // container; in kazoo, a read and the directory. A semaphore has two directories below a third one.
    for (strategy, requests, left) in [
        ("curator-mutex", 3.0 + 4.0, 1.0),
        ("curator-semaphore", 7.0 + 6.0 + 4.0, 3.0),
        ("kazoo", 4.0 + 2.0, 1.0),
        ("predecessor-watch", 3.0 + 1.0, 1.0),
        ("count", 2.0 + 4.0, 1.0),
    ] {
        let trial = trials::run_one(&format!(
            "strategies = [\"{strategy}\"]\ncontenders = 4\nlocks = \"fresh\"\nhold = \"2ms\"\nacquisitions = 20\n"
        ))
        .await;
        // Then every acquire finds a free lock that has no directory, at this cost
        assert_eq!(trial.histograms[&Measure::Uncontended].len(), 80, "{strategy}");
        assert!(!trial.histograms.contains_key(&Measure::Handoff), "{strategy}");
        let of = |entry: &zklockbench_record::FigureEntry| entry.of(&trial).unwrap();
        assert_eq!(of(&REQUESTS_PER_ACQUISITION), requests, "{strategy}: {:?}", trial.measured.requests);
        // And these nodes are left until the end of the trial
        assert_eq!(of(&NODES_LEFT), left, "{strategy}");
        // And exclusion is not tested
        let Verdict::Unknown(why) = &trial.judged.exclusion else { panic!("{:?}", trial.judged) };
        assert!(why[0].contains("its own lock"), "{why:?}");
    }
}

#[tokio::test]
async fn each_arrival_of_an_open_load_takes_a_fresh_lock() {
    let trial = trials::run_one(
        "strategies = [\"predecessor-watch\"]\ncontenders = 6\nload = \"open\"\nrate = 60\nlocks = \"fresh\"\n\
         hold = \"2ms\"\nduration = \"2s\"\n",
    )
    .await;
    let acquired = trial.whole.acquired();
    assert!(acquired > 60, "{acquired}");
    assert_eq!(trial.nodes_left.unwrap(), acquired);
}
