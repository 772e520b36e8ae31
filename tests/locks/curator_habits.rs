//! Habits of Java's `LockInternals` that show only in special cases: a reused object, revocation, or a lock
//! directory that is removed during an acquire.

use std::time::Duration;

use zklockbench_core::catalog::Mode::{Read, Write};
use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, runtime};

use crate::support::contender::{Contender, LONG, Waiting, settled, words};
use crate::support::ensemble::shared;
use crate::support::proxy::{Fate, Proxy};
use crate::support::sessions::{behind_wire, on_scene, scene};

/// Opcodes of a create whose reply contains the stat, and of a createContainer.
const CREATE2: i32 = 15;
const CREATE_CONTAINER: i32 = 19;

/// Starts an acquire. Returns once a request with this opcode has been applied and its reply is held back.
async fn start_and_hold(proxy: &Proxy, kind: i32, contender: Contender, mode: Mode) -> Waiting {
    proxy.strike(Fate::ReplyHeld, kind, 1);
    let acquiring = Waiting::start(contender, mode);
    while !proxy.has_struck() {
        runtime::sleep(Duration::from_millis(5)).await;
    }
    acquiring
}

#[test]
fn leftover_watch_of_a_timed_out_acquire_wakes_the_next_acquire() {
    on_scene(async |scene| {
        let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
        // Given a contender that has timed out behind the holder
        let late = Contender::of("curator-mutex", &scene).await.queue_up().await;
        late.clock.jump(LONG);
        let (late, ended) = late.over().await;
        assert_eq!(ended.unwrap_err(), AcquireError::TimedOut);
        late.trace.borrow_mut().clear();
        // And that contender now waits again, behind another contender
        let next = Contender::of("curator-mutex", &scene).await.queue_up().await;
        let late = Waiting::start(late, Write);
        settled([&late]).await;
        // When the holder releases, and only the other contender waits for it
        holder.release(held).await.unwrap();
        settled([&next, &late]).await;
        assert!(!late.is_over());
        next.serve().await;
        // Then the deletion of the holder's node causes one useless list
        let again = ["get_children", "get_data_watch"];
        let expected = [&["create"], &again[..], &again[..], &["get_children", "delete"]].concat();
        assert_eq!(late.serve().await.kinds(), expected);
    });
}

#[test]
fn node_contains_the_clients_address_unless_revocation_is_allowed() {
    runtime::block_on(async {
        for (revocation, data) in [("none", &b"127.0.0.1"[..]), ("allowed", b"")] {
            let params = words(&[("revocation", revocation)]);
            let scene = scene(shared()).await;
            let (mut holder, held) = Contender::with("curator-mutex", &params, &scene).await.enter().await;
            let path = held.node.clone().unwrap().path;
            assert_eq!(scene.session().await.get_data(&path).await.unwrap().0, data, "{revocation}");
            holder.release(held).await.unwrap();
        }
    });
}

#[test]
fn acquire_restarts_within_its_retry_policy_when_its_directory_is_removed() {
    let retries = |times| {
        let mut params = words(&[("retry", "n-times")]);
        params.insert("retry_times".into(), ParamValue::Count(times));
        params
    };
    runtime::block_on(async {
        for (times, expected) in [(1, Ok(())), (0, Err(AcquireError::Failed(Failure::NoNode)))] {
            let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
            scene.delete_all().await;
            // Given a contender that has created the lock's directory, but has not received the reply
            let one = Contender::by_with(&proxy.connect, "curator-mutex", &retries(times), &scene).await;
            let acquiring = start_and_hold(&proxy, CREATE_CONTAINER, one, Write).await;
            // When the directory is removed
            scene.delete_all().await;
            proxy.let_go();
            let (mut one, ended) = acquiring.over().await;
            assert_eq!(ended.as_ref().map(drop).map_err(Clone::clone), expected, "{times}");
            if let Ok(held) = ended {
                one.release(held).await.unwrap();
            }
            scene.restore().await;
        }
    });
}

#[test]
fn writer_acquires_the_read_side_even_if_its_node_is_not_in_the_list() {
    behind_wire(async |scene, proxy| {
        let owner = Contender::by(&proxy.connect, "curator-read-write", &scene).await;
        let (owner, write) = owner.enter().await;
        let session = owner.session.id();
        // Given a read node that is deleted before its owner lists the queue
        let reading = start_and_hold(&proxy, CREATE2, owner, Read).await;
        let nodes = scene.nodes_of(session).await;
        scene.delete(nodes.into_iter().filter(|path| path.contains("__READ__"))).await;
        proxy.let_go();
        // Then the owner still acquires the read side, and releases both sides
        let (mut owner, read) = reading.entered().await;
        owner.release(read).await.unwrap();
        owner.release(write).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}
