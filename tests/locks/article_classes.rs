//! How the classes of the three-strategy article differ from the recipes. The classes check the directory first,
//! and a waiter whose node was deleted does not enter while other nodes exist.

use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, runtime};

use crate::support::contender::{Contender, LONG, Waiting, words};
use crate::support::ensemble::shared;
use crate::support::sessions::{Scene, scene};

/// Interval at which the classes check their flag, or the queue.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time long enough for every class to check more than once.
const LOOKS: Duration = Duration::from_millis(500);

/// A class, and the parameter for its interval.
type Class = (&'static str, &'static str);

const CLASSES: [Class; 3] =
    [("polling", "poll_interval"), ("parent-watch", "flag_interval"), ("predecessor-watch", "flag_interval")];

async fn contender((name, interval): Class, scene: &Scene) -> Contender {
    let mut params = words(&[("class", "article")]);
    params.insert(interval.to_owned(), ParamValue::Duration(INTERVAL));
    Contender::with(name, &params, scene).await
}

/// Starts a waiter, and lets it check for a while.
async fn wait(class: Class, scene: &Scene) -> (Waiting, i64) {
    let contender = contender(class, scene).await;
    let session = contender.session.id();
    let waiting = Waiting::start(contender, Mode::Write);
    // The waiter checks the directory, creates its node, and lists the queue.
    waiting.has_sent(3).await;
    looks(&waiting).await;
    (waiting, session)
}

/// Waits until the waiter has been notified of earlier changes and has then checked for a while.
async fn looks(waiter: &Waiting) {
    waiter.catches_up().await;
    runtime::sleep(LOOKS).await;
}

/// Queues a waiter and others behind a holder, deletes the waiter's node, and then releases the lock.
async fn without_its_node(class: Class, behind: usize) -> (Scene, Waiting, Vec<Waiting>) {
    let scene = scene(shared()).await;
    let (mut holder, held) = contender(class, &scene).await.enter().await;
    let (waiter, session) = wait(class, &scene).await;
    let mut others = Vec::new();
    for _ in 0..behind {
        others.push(wait(class, &scene).await.0);
    }
    scene.delete(scene.nodes_of(session).await).await;
    looks(&waiter).await;
    assert!(!waiter.is_over(), "{class:?}: inside together with the holder");
    holder.release(held).await.unwrap();
    looks(&waiter).await;
    (scene, waiter, others)
}

#[test]
fn polling_and_parent_watch_classes_that_lost_their_node_wait_for_an_empty_queue() {
    for class in &CLASSES[..2] {
        runtime::block_on(async {
            let (scene, waiter, mut others) = without_its_node(*class, 1).await;
            // Then the contender behind the waiter enters alone
            let (mut next, held) = others.remove(0).entered().await;
            runtime::sleep(LOOKS).await;
            assert!(!waiter.is_over(), "{class:?}: inside together with the next contender");
            // And the waiter enters once the queue is empty
            next.release(held).await.unwrap();
            let (_, held) = waiter.over().await;
            assert!(held.is_ok(), "{class:?}: {held:?}");
            assert_eq!(scene.nodes().await, 0);
        });
    }
}

#[test]
fn predecessor_watch_class_enters_only_an_empty_queue_when_its_node_is_deleted() {
    let class = CLASSES[2];
    runtime::block_on(async {
        // If there is no other contender, the waiter acquires the lock although it has no node
        let (scene, waiter, _) = without_its_node(class, 0).await;
        assert!(waiter.over().await.1.is_ok());
        assert_eq!(scene.nodes().await, 0);
        // With one other contender, the waiter gives up
        let (_, waiter, mut others) = without_its_node(class, 1).await;
        assert_eq!(waiter.over().await.1.unwrap_err(), AcquireError::Failed(Failure::OwnNodeMissing));
        others.remove(0).serve().await;
        // With more contenders, the waiter waits forever, even after the others have left
        let (_, waiter, others) = without_its_node(class, 2).await;
        for other in others {
            other.serve().await;
        }
        runtime::sleep(LOOKS).await;
        assert!(!waiter.is_over());
        waiter.cancel.cancel();
        runtime::timeout(LONG, waiter.gone()).await.unwrap();
    });
}
