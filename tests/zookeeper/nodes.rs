//! Maximum size, sequence numbers, and lifetime of nodes.

use std::time::Duration;

use zklockbench_zk::{Failure, NodeKind, runtime};

use crate::support::sessions::on_scene;

const MEBIBYTE: usize = 1 << 20;
/// Maximum size of a request, excluding its data.
const AROUND_THE_DATA: usize = 200;

#[test]
fn node_holds_almost_a_mebibyte() {
    on_scene(async |scene| {
        let node = |bytes: usize| format!("{}/{bytes}", scene.lock);
        let create = async |bytes: usize| {
            // The server closes a connection when a request is too large.
            let session = scene.session().await;
            let data = vec![b'x'; bytes];
            runtime::timeout(
                Duration::from_secs(2),
                session.create(&node(bytes), &data, NodeKind::Persistent),
            )
            .await
        };
        let other = scene.session().await;
        for (bytes, is_held) in [(MEBIBYTE - AROUND_THE_DATA, true), (MEBIBYTE, false)] {
            let reply = create(bytes).await;
            other.sync(&scene.lock).await.unwrap();
            assert_eq!(other.exists(&node(bytes)).await.unwrap().is_some(), is_held, "{bytes}: {reply:?}");
        }
    });
}

#[test]
fn sequence_numbers_do_not_depend_on_the_number_of_children() {
    on_scene(async |scene| {
        let session = scene.session().await;
        let prefix = format!("{}/n-", scene.lock);
        let create = async || session.create(&prefix, &[], NodeKind::EphemeralSequential).await.unwrap();
        let (first, second) = (create().await, create().await);
        session.delete(&first.path).await.unwrap();
        assert_eq!(scene.nodes().await, 1);
        assert_eq!((second.sequence, create().await.sequence), (Some(1), Some(2)));
    });
}

#[test]
fn persistent_node_outlives_its_session() {
    on_scene(async |scene| {
        let [ephemeral, persistent] =
            ["ephemeral", "persistent"].map(|name| format!("{}/{name}", scene.lock));
        let (holder, next) = (scene.session().await, scene.session().await);
        holder.create(&ephemeral, &[], NodeKind::Ephemeral).await.unwrap();
        holder.create(&persistent, &[], NodeKind::Persistent).await.unwrap();
        assert!(holder.close(Duration::from_secs(10)).await);
        next.create(&ephemeral, &[], NodeKind::Ephemeral).await.unwrap();
        let taken = next.create(&persistent, &[], NodeKind::Ephemeral).await;
        assert!(matches!(taken, Err(Failure::NodeExists)), "{taken:?}");
    });
}
