//! A foreign session deletes nodes of a run. If the run has an identity, the servers refuse the deletion. If the run
//! has none, the verdict reports the interference instead of blaming the lock.

use std::time::{Duration, Instant};

use zklockbench_core::verdict::Verdict;
use zklockbench_zk::Secret;
use zookeeper_client::{Client, Error};

use crate::support::{ensemble, trials};

const LINES: &str = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"400ms\"\nduration = \"4s\"\n\
                     warm_up = \"0s\"\nwarm_up_at_most = \"0s\"\nsession_timeout = \"20s\"\n";

/// Time after which the contender with the first node is inside, and stays inside for at least as long again.
const INSIDE_AFTER: Duration = Duration::from_millis(100);

/// Deletes the holder's node while other contenders wait, and returns the result. A second session, with the run's
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
async fn lock_is_not_blamed_when_a_foreign_session_deletes_a_node() {
    // Given servers whose counters do not change before the trial, so the trial starts at once
    let local = ensemble::alone().await;
    let connect = local.connect();
    for digest in [Some(Secret::drawn()), None] {
        let (name, is_owned) = (trials::unique("interference"), digest.is_some());
        let lock = format!("/zklockbench/{name}/t000/lock-0");
        // Given holders without an identity that are still inside when the next contender enters, on any host
        let lines = LINES.replace("400ms", if is_owned { "400ms" } else { "1500ms" });
        // When a foreign session deletes a holder's node
        let running = trials::run_one_below(&local, &lines, &name, digest.clone());
        let deleting = delete_a_holders_node(&connect, &lock, digest.as_ref());
        let deleting = tokio::time::timeout(Duration::from_secs(20), deleting);
        let (trial, result) = tokio::join!(running, deleting);
        let result = result.expect("no contender held the lock while others waited");
        let verdict = &trial.judged.verdict;
        if is_owned {
            // Then the servers refuse the deletion, and the verdict is *held*
            assert_eq!(result, Err(Error::NoAuth));
            assert!(trials::held_unless_the_host_was_busy(verdict), "{trial:?}");
            assert!(trial.interference.is_empty(), "{:?}", trial.interference);
            continue;
        }
        // And without an identity, the verdict reports the session instead of blaming the lock
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
