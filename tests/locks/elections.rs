//! A trial's record also contains elections that no fault of the trial caused.

use std::time::Duration;

use zklockbench_ensemble::{Leader, Local, Processes as _};

use crate::support::ensemble;
use crate::support::trials::{run_one_on, run_while};

const LINES: &str =
    "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"20ms\"\nsession_timeout = \"10s\"\n";

async fn kill_the_leader(local: &Local) {
    for (number, address) in (1..).zip(local.addresses()) {
        if Leader::elected_after(None, number, &address, &[], Duration::from_secs(2)).await.is_some() {
            local.kill(number).await.unwrap();
            return;
        }
    }
    panic!("no server leads");
}

#[tokio::test]
async fn election_after_a_foreign_kill_is_reported_in_a_trial_without_faults() {
    // Given an ensemble that no other test uses
    let local = ensemble::start(3).await;
    let undisturbed = run_one_on(&local, &format!("{LINES}duration = \"1s\"\n")).await;
    assert_eq!(undisturbed.elections, Some(Vec::new()));
    // When another program kills the leader during a trial that cannot finish without a new leader
    let disturbed = format!("{LINES}acquisitions = 40\n");
    let trial = run_while(&local, &disturbed, kill_the_leader(&local)).await;
    // Then the record contains the election, with no fault as its cause. (On a busy host, another may follow.)
    let elections = trial.elections.unwrap();
    assert!(!elections.is_empty());
    for election in &elections {
        assert_eq!(election.after_fault, None);
        assert!(local.addresses().contains(&election.leader), "{election:?}");
        assert!(election.seen_us > 0, "{election:?}");
    }
    assert_eq!((trial.faults.len(), &trial.cut_short), (0, &None));
    assert!(trial.measured.acquired() > 0);
}
