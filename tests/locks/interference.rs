//! A foreign session deletes nodes of a run: with an identity, the deletion is refused; without an identity,
//! the lock is not blamed.

use std::time::{Duration, Instant};

use zklockbench_core::verdict::Verdict;
use zklockbench_zk::Secret;
use zookeeper_client::{Client, Error};

use crate::support::{ensemble, trials};

const LINES: &str = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"400ms\"\nduration = \"4s\"\n\
                     warm_up = \"0s\"\nwarm_up_at_most = \"0s\"\nsession_timeout = \"20s\"\n";

/// Once a node has been the first for this long, its contender holds, and will hold for at least as long again.
const INSIDE_AFTER: Duration = Duration::from_millis(100);

/// Deletes the holder's node while others wait; returns the result. A second session, which has the run's
/// identity if there is one, finds the node.
async fn delete_a_holders_node(connect: &str, lock: &str, digest: Option<&Secret>) -> Result<(), Error> {
    let client = Client::connect(connect).await.unwrap();
    let reader = digest
        .iter()
        .fold(Client::connector(), |one, digest| one.with_auth("digest", digest.told().as_bytes()));
    let reader = reader.connect(connect).await.unwrap();
    let (mut first, mut since) = (String::new(), Instant::now());
    loop {
        let mut nodes = reader.list_children(lock).await.unwrap_or_default();
        nodes.sort_by_key(|name| name[name.len() - 10..].to_owned());
        if nodes.first() != Some(&first) {
            (first, since) = (nodes.first().cloned().unwrap_or_default(), Instant::now());
        }
        if nodes.len() > 2 && since.elapsed() > INSIDE_AFTER {
            match client.delete(&format!("{lock}/{first}"), None).await {
                Err(Error::NoNode) => {}
                result => return result,
            }
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[tokio::test]
async fn foreign_deletion_is_refused_with_an_identity_and_otherwise_not_blamed_on_the_lock() {
    // Given servers whose counters are at rest before the trial, so that it begins at once
    let local = ensemble::alone().await;
    let connect = local.connect();
    for digest in [Some(Secret::drawn()), None] {
        let (name, is_owned) = (trials::unique("interference"), digest.is_some());
        let lock = format!("/zklockbench/{name}/t000/lock-0");
        // When a foreign session deletes a holder's node
        let running = trials::run_one_below(&local, LINES, &name, digest.clone());
        let deleting = delete_a_holders_node(&connect, &lock, digest.as_ref());
        let deleting = tokio::time::timeout(Duration::from_secs(20), deleting);
        let (trial, result) = tokio::join!(running, deleting);
        let result = result.expect("no contender held the lock while others waited");
        let verdict = &trial.judged.verdict;
        if is_owned {
            // Then the servers refuse the deletion, and the lock held
            assert_eq!(result, Err(Error::NoAuth));
            assert_eq!(*verdict, Verdict::Held, "{trial:?}");
            assert!(trial.interference.is_empty(), "{:?}", trial.interference);
            continue;
        }
        // And without an identity, the verdict names the session; otherwise the lock would be blamed
        assert_eq!(result, Ok(()));
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
