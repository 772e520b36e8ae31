//! What the classes of the three-strategy article do that the recipes don't: they look at the directory first, and a
//! waiter whose node somebody has deleted does not come in as long as it sees others.

use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, reactor};

use crate::support::contender::{Contender, LONG, Waiting};
use crate::support::ensemble::shared;
use crate::support::rehearsal::{lines, subject};
use crate::support::sessions::{Scene, scene};

/// How often they look at their flag, or at the queue.
const INTERVAL: Duration = Duration::from_millis(100);
/// In this time each of them has looked more than once.
const LOOKS: Duration = Duration::from_millis(500);

/// A class, and the parameter that says how often it looks.
type Class = (&'static str, &'static str);

const CLASSES: [(Class, &str); 3] = [
    (("polling", "poll_interval"), "get_children"),
    (("parent-watch", "flag_interval"), "get_children_watch"),
    (("predecessor-watch", "flag_interval"), "get_children"),
];

async fn contender((name, interval): Class, scene: &Scene) -> Contender {
    let params = Params::from([
        ("class".to_owned(), ParamValue::Word("article".to_owned())),
        (interval.to_owned(), ParamValue::Duration(INTERVAL)),
    ]);
    Contender::with(name, &params, scene).await
}

/// One that waits, until it has had the time to look.
async fn wait(class: Class, scene: &Scene) -> (Waiting, i64) {
    let contender = contender(class, scene).await;
    let session = contender.session.id();
    let waiting = Waiting::start(contender, Mode::Write);
    // It looks at the directory, creates its node, and lists.
    waiting.has_sent(3).await;
    reactor::sleep(LOOKS).await;
    (waiting, session)
}

/// One holds, another waits and so many behind it; the first waiter's node is deleted, and then the holder releases.
async fn without_its_node(class: Class, behind: usize) -> (Scene, Waiting, Vec<Waiting>) {
    let scene = scene(shared()).await;
    let mut holder = contender(class, &scene).await;
    let held = holder.acquire(Mode::Write).await.unwrap();
    let (waiter, session) = wait(class, &scene).await;
    let mut others = Vec::new();
    for _ in 0..behind {
        others.push(wait(class, &scene).await.0);
    }
    scene.delete(scene.nodes_of(session).await).await;
    reactor::sleep(LOOKS).await;
    assert!(!waiter.is_over(), "{class:?}: in beside the holder");
    holder.release(held).await.unwrap();
    reactor::sleep(LOOKS).await;
    (scene, waiter, others)
}

#[test]
fn they_look_at_their_directory_before_they_queue_and_all_their_nodes_are_called_temp() {
    for ((name, interval), list) in CLASSES {
        let class = subject(name).word("class", "article").with(interval, ParamValue::Duration(INTERVAL));
        let sent = class.alone();
        assert_eq!(sent, lines(&format!("exists .\n create temp\n {list} .\n delete temp0")), "{name}");
    }
}

#[test]
fn without_its_node_the_polling_and_the_parent_watching_class_wait_until_nobody_else_is_there() {
    for (class, _) in &CLASSES[..2] {
        reactor::block_on(async {
            let (scene, waiter, mut others) = without_its_node(*class, 1).await;
            // Then the one behind it is in alone
            let (mut next, held) = others.remove(0).over().await;
            reactor::sleep(LOOKS).await;
            assert!(!waiter.is_over(), "{class:?}: in beside the next one");
            // And when that has gone, it enters the empty queue
            next.release(held.unwrap()).await.unwrap();
            let (_, held) = waiter.over().await;
            assert!(held.is_ok(), "{class:?}: {held:?}");
            assert_eq!(scene.nodes().await, 0);
        });
    }
}

#[test]
fn without_its_node_the_predecessor_watching_class_enters_an_empty_queue_only() {
    let (class, _) = CLASSES[2];
    reactor::block_on(async {
        // Nobody else: it holds, by no node
        let (scene, waiter, _) = without_its_node(class, 0).await;
        assert!(waiter.over().await.1.is_ok());
        assert_eq!(scene.nodes().await, 0);
        // One other: it gives up
        let (_, waiter, mut others) = without_its_node(class, 1).await;
        assert_eq!(waiter.over().await.1.unwrap_err(), AcquireError::Failed(Failure::OwnNodeMissing));
        others.remove(0).serve().await;
        // More: it waits for nothing, also when they have gone
        let (_, waiter, others) = without_its_node(class, 2).await;
        for other in others {
            other.serve().await;
        }
        reactor::sleep(LOOKS).await;
        assert!(!waiter.is_over());
        waiter.cancel.cancel();
        reactor::timeout(LONG, waiter.gone()).await.unwrap();
    });
}
