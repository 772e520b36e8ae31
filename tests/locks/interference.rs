//! What a session of somebody else does to the nodes of a run: nothing where the run has an identity; and where it does
//! something, no lock is blamed for it.

use std::time::{Duration, Instant};

use zklockbench_core::verdict::Verdict;
use zklockbench_zk::Secret;
use zookeeper_client::{Client, Error};

use crate::support::{ensemble, trials};

const LINES: &str = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"400ms\"\nduration = \"4s\"\n\
                     warm_up = \"0s\"\nwarm_up_at_most = \"0s\"\nsession_timeout = \"20s\"\n";

/// Once a node has been the first for this long, its contender holds the lock, and will for at least as long again.
const INSIDE_AFTER: Duration = Duration::from_millis(100);

/// Deletes the node of whoever holds the lock while others wait; gives what came of that. Which it is, a friend tells who has the
/// run's identity, if it has one.
async fn delete_a_holders_node(connect: &str, lock: &str, digest: Option<&Secret>) -> Result<(), Error> {
    let client = Client::connect(connect).await.unwrap();
    let friend = digest
        .iter()
        .fold(Client::connector(), |one, digest| one.with_auth("digest", digest.told().as_bytes()));
    let friend = friend.connect(connect).await.unwrap();
    let (mut first, mut since) = (String::new(), Instant::now());
    loop {
        let mut nodes = friend.list_children(lock).await.unwrap_or_default();
        nodes.sort_by_key(|name| name[name.len() - 10..].to_owned());
        if nodes.first() != Some(&first) {
            (first, since) = (nodes.first().cloned().unwrap_or_default(), Instant::now());
        }
        if nodes.len() > 2 && since.elapsed() > INSIDE_AFTER {
            match client.delete(&format!("{lock}/{first}"), None).await {
                // It was just released.
                Err(Error::NoNode) => {}
                came => return came,
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[tokio::test]
async fn a_foreign_session_cannot_delete_the_nodes_of_a_run_with_an_identity_and_where_it_can_the_lock_is_not_blamed()
 {
    // Given servers whose counters are at rest before the trial, so that it begins at once
    let local = ensemble::alone().await;
    let connect = local.connect();
    for digest in [Some(Secret::drawn()), None] {
        let (name, is_owned) = (trials::unique("interference"), digest.is_some());
        let lock = format!("/zklockbench/{name}/t000/lock-0");
        // When somebody else deletes a holder's node
        let running = trials::run_one_below(&local, LINES, &name, digest.clone());
        let deleting = delete_a_holders_node(&connect, &lock, digest.as_ref());
        let deleting = tokio::time::timeout(Duration::from_secs(20), deleting);
        let (trial, came) = tokio::join!(running, deleting);
        let came = came.expect("nobody held the lock while others waited");
        let verdict = &trial.judged.verdict;
        if is_owned {
            // Then the servers refuse that, and the trial is as ever
            assert_eq!(came, Err(Error::NoAuth));
            assert_eq!(*verdict, Verdict::Held, "{trial:?}");
            assert!(trial.interference.is_empty(), "{:?}", trial.interference);
            continue;
        }
        // And where they do not, it is told who it was; without that the lock would be blamed
        assert_eq!(came, Ok(()));
        let Verdict::Unknown(reasons) = verdict else { panic!("{verdict:?}: {:?}", trial.interference) };
        let reason = &reasons[0];
        assert!(reason.starts_with("interference: session 0x") && reason.contains(" deleted "), "{reason}");
        assert!(reason.contains(&lock), "{reason}");
        let mut blamed = trial.clone();
        blamed.interference.clear();
        zklockbench_judge::judge(&mut blamed);
        assert!(matches!(blamed.judged.verdict, Verdict::Violated(_)), "{:?}", blamed.judged);
    }
}
