//! Effects of the vendored client's patches on the wire.

use std::time::Duration;

use zklockbench_zk::runtime;
use zookeeper_client::{AddWatchMode, Client, Error, EventType, SessionState};

use crate::support::ensemble::shared;
use crate::support::proxy::Proxy;
use crate::support::sessions::{Scene, behind_wire, client, on_scene};

const TIMEOUT: Duration = Duration::from_secs(10);
const GET_DATA: i32 = 4;
const CHECK_WATCHES: i32 = 17;
const REMOVE_WATCHES: i32 = 18;

/// Opcodes of the requests so far, once all of them are answered.
async fn kinds(client: &Client, proxy: &Proxy) -> Vec<i32> {
    client.sync("/").await.unwrap();
    proxy.requests().iter().map(|request| request.kind).collect()
}

#[test]
fn persistent_watches_are_set_again_after_a_reconnection() {
    for mode in [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive] {
        behind_wire(async |scene, proxy| {
            let (watching, other) = (client(&proxy.connect).await, client(shared()).await);
            let mut watcher = watching.watch(&scene.lock, mode).await.unwrap();
            // Given a connection that breaks
            let mut states = watching.state_watcher();
            proxy.cut();
            assert_eq!(states.changed().await, SessionState::Disconnected);
            proxy.mend();
            assert_eq!(states.changed().await, SessionState::SyncConnected);
            watching.sync("/").await.unwrap();
            // When the node changes after the reconnection
            other.set_data(&scene.lock, b"x", None).await.unwrap();
            // Then the watcher is notified
            let notified = runtime::timeout(TIMEOUT, async {
                while watcher.changed().await.event_type != EventType::NodeDataChanged {}
            });
            assert!(notified.await.is_some(), "{mode:?}");
        });
    }
}

#[test]
fn dropped_watcher_removes_its_watch_unless_the_watch_is_left_set() {
    behind_wire(async |scene, proxy| {
        let client = client(&proxy.connect).await;
        let watched = async || client.get_and_watch_data(&scene.lock).await.unwrap().2;
        drop(watched().await);
        assert_eq!(kinds(&client, &proxy).await, [GET_DATA, REMOVE_WATCHES]);
        // The session's only watch on a node remains if a watcher leaves it set
        drop(watched().await.left_set_on_drop());
        drop(watched().await);
        assert_eq!(kinds(&client, &proxy).await[2..], [GET_DATA, GET_DATA]);
        assert_eq!(client.check_watches(&scene.lock).await, Ok(()));
    });
}

#[test]
fn check_watches_reports_a_set_watch_without_removing_it() {
    behind_wire(async |scene, proxy| {
        let session = scene.traced_by(&proxy.connect).await.0;
        let other = scene.session().await;
        let check = async || session.check_watches(&scene.lock).await.unwrap();
        assert!(!check().await);
        let (_, mut watch) = session.get_data_and_watch(&scene.lock).await.unwrap();
        assert_eq!([check().await, check().await], [true, true]);
        other.set_data(&scene.lock, b"x").await.unwrap();
        watch.changed().await;
        assert!(!check().await);
        let checks = proxy.requests().into_iter().filter(|request| request.kind == CHECK_WATCHES);
        assert!(checks.clone().all(|request| request.path == scene.lock));
        assert_eq!(checks.count(), 4);
    });
}

#[test]
fn reply_keeps_its_zxid_after_later_replies_arrive() {
    on_scene(async |scene: Scene| {
        let client = client(shared()).await;
        let writes = [b"1", b"2", b"3"].map(|data| client.set_data(&scene.lock, data, None));
        client.sync("/").await.unwrap();
        let synced = client.last_reply_zxid();
        let mut last = 0;
        for write in writes {
            let stat = write.await.unwrap();
            assert_eq!(client.last_reply_zxid(), stat.mzxid);
            assert!(last < stat.mzxid && stat.mzxid <= synced);
            last = stat.mzxid;
        }
        // An error reply from the server also has a zxid
        let missing = format!("{}/missing", scene.lock);
        assert_eq!(client.delete(&missing, None).await, Err(Error::NoNode));
        assert!(client.last_reply_zxid() > last, "a refused write must also have a zxid");
    });
}
