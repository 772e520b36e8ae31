//! Which changes fire watches, how often, and whether a list that sets a watch can miss a change.

use std::time::Duration;

use futures_util::future::join;
use zklockbench_core::clock;
use zklockbench_zk::{EventKind, NodeKind, Session, Watch, runtime};

use super::counter;
use crate::support::ensemble;
use crate::support::sessions::{on_scene, scene};

/// Returns whether a watch has fired. An event precedes the reply to a later request on the same connection.
async fn has_fired(watcher: &Session, watch: &mut Watch, node: &str) -> bool {
    watcher.sync(node).await.unwrap();
    runtime::timeout(Duration::from_millis(50), watch.changed()).await.is_some()
}

#[test]
fn each_kind_of_watch_fires_on_its_changes_only() {
    const CHANGES: [&str; 4] = ["child created", "data set", "child deleted", "node deleted"];
    on_scene(async |scene| {
        let (watcher, other) = (scene.session().await, scene.session().await);
        for (number, fires) in [
            [false, true, false, true], // getData
            [false, true, false, true], // exists
            [true, false, true, true],  // getChildren
        ]
        .into_iter()
        .enumerate()
        {
            for (change, expected) in CHANGES.into_iter().zip(fires) {
                let node = format!("{}/{number} {change}", scene.lock);
                let child = format!("{node}/child");
                other.create(&node, &[], NodeKind::Persistent).await.unwrap();
                if change == "child deleted" {
                    other.create(&child, &[], NodeKind::Ephemeral).await.unwrap();
                }
                let mut watch = match number {
                    0 => watcher.get_data_and_watch(&node).await.unwrap().1,
                    1 => watcher.exists_and_watch(&node).await.unwrap().1,
                    _ => watcher.get_children_and_watch(&node).await.unwrap().1,
                };
                match change {
                    "child created" => drop(other.create(&child, &[], NodeKind::Ephemeral).await.unwrap()),
                    "data set" => drop(other.set_data(&node, b"x").await.unwrap()),
                    "child deleted" => other.delete(&child).await.unwrap(),
                    _ => other.delete(&node).await.unwrap(),
                }
                assert_eq!(has_fired(&watcher, &mut watch, &scene.lock).await, expected, "{node}");
            }
        }
    });
}

#[test]
fn four_events_report_changes_of_nodes() {
    on_scene(async |scene| {
        let (watcher, other) = (scene.session().await, scene.session().await);
        let (node, child) = (format!("{}/node", scene.lock), format!("{}/node/child", scene.lock));
        let mut watch = watcher.exists_and_watch(&node).await.unwrap().1;
        other.create(&node, &[], NodeKind::Persistent).await.unwrap();
        let mut events = vec![watch.changed().await];
        watch = watcher.get_data_and_watch(&node).await.unwrap().1;
        other.set_data(&node, b"x").await.unwrap();
        events.push(watch.changed().await);
        watch = watcher.get_children_and_watch(&node).await.unwrap().1;
        other.create(&child, &[], NodeKind::Persistent).await.unwrap();
        events.push(watch.changed().await);
        watch = watcher.get_children_and_watch(&node).await.unwrap().1;
        other.delete(&child).await.unwrap();
        events.push(watch.changed().await);
        watch = watcher.get_data_and_watch(&node).await.unwrap().1;
        other.delete(&node).await.unwrap();
        events.push(watch.changed().await);
        let children = EventKind::ChildrenChanged;
        let expected =
            [EventKind::NodeCreated, EventKind::DataChanged, children, children, EventKind::NodeDeleted];
        assert_eq!(events, expected);
    });
}

#[test]
fn watch_fires_once() {
    const FIRED: &str = "zk_sum_node_changed_watch_count";
    // Given a server on which no other client sets watches
    let alone = runtime::block_on(ensemble::alone_of(1));
    let connect = alone.connect();
    let before = counter(&connect, FIRED);
    runtime::block_on(async {
        let scene = scene(&connect).await;
        let (watcher, other) = (scene.session().await, scene.session().await);
        let (_, mut watch) = watcher.get_data_and_watch(&scene.lock).await.unwrap();
        for _ in 0..5 {
            other.set_data(&scene.lock, b"x").await.unwrap();
        }
        assert_eq!(watch.changed().await, EventKind::DataChanged);
    });
    assert_eq!(counter(&connect, FIRED) - before, 1);
}

#[test]
fn list_and_watch_are_one_atomic_step() {
    const ROUNDS: u32 = 300;
    const STEPS: u32 = 16;
    let alone = runtime::block_on(ensemble::alone_of(3));
    let servers = alone.addresses();
    runtime::block_on(async {
        let scene = scene(&servers[0]).await;
        let lister = scene.session().await;
        let mut writers = Vec::new();
        for server in &servers {
            writers.push(scene.traced_by(server).await.0);
        }
        let (mut listed, mut notified) = (0, 0);
        let mut last_create = Duration::ZERO;
        for (round, writer) in (0..ROUNDS).zip(writers.iter().cycle()) {
            // A create races with a list that starts later, by up to twice the duration of a create
            let own = round.to_string();
            let node = format!("{}/{own}", scene.lock);
            let create = async {
                let begun = clock::now();
                writer.create(&node, &[], NodeKind::Ephemeral).await.unwrap();
                Duration::from_micros(clock::now() - begun)
            };
            let later = last_create * 2 * (round % STEPS) / STEPS;
            let list = async {
                runtime::sleep(later).await;
                lister.get_children_and_watch(&scene.lock).await.unwrap()
            };
            let (took, (names, mut watch)) = join(create, list).await;
            last_create = took;
            if names.iter().any(|name| name == own) {
                listed += 1;
            } else {
                let told = runtime::timeout(Duration::from_secs(30), watch.changed()).await;
                assert!(told.is_some(), "neither listed nor notified in round {round}");
                notified += 1;
            }
            writer.delete(&node).await.unwrap();
            lister.sync(&scene.lock).await.unwrap();
        }
        println!("{listed} listed, {notified} notified");
        assert!(listed > 0 && notified > 0, "no race: {listed} listed, {notified} notified");
    });
}

#[test]
fn change_between_a_list_and_its_watch_is_lost() {
    on_scene(async |scene| {
        let (lister, writer) = (scene.session().await, scene.session().await);
        let names = lister.get_children(&scene.lock).await.unwrap();
        writer.create(&format!("{}/node", scene.lock), &[], NodeKind::Ephemeral).await.unwrap();
        lister.sync(&scene.lock).await.unwrap();
        let (_, mut watch) = lister.get_children_and_watch(&scene.lock).await.unwrap();
        assert!(names.is_empty() && !has_fired(&lister, &mut watch, &scene.lock).await);
    });
}
