//! How acquires end, and which nodes they delete or leave behind.

use std::time::Duration;

use zklockbench_core::catalog::Mode;
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, runtime};

use crate::support::contender::Contender;
use crate::support::ensemble;
use crate::support::proxy::{Fate, Proxy};
use crate::support::sessions::{Scene, behind_wire, on_scene, patience, scene};

/// Opcode of `create2`, which the client library sends. Its reply contains the node's stat.
const CREATE2: i32 = 15;
/// Opcode for creating a container node.
const CREATE_CONTAINER: i32 = 19;
const DELETE: i32 = 2;

/// Acquire timeout of a contender that gives up.
const PATIENCE: Duration = Duration::from_millis(300);
/// Cancels an acquire after its create was lost and before the search for its node. Returns the contender and its
/// proxy, the scene, and the number of nodes left.
async fn given_up_after_a_lost_create(name: &str) -> ((Contender, Proxy), Scene, usize) {
    let scene = scene(ensemble::shared()).await;
    // Given a lock whose directory exists
    let (mut before, held) = Contender::holding(name, &scene).await;
    before.release(held).await.unwrap();
    let proxy = Proxy::before(ensemble::shared());
    let mut one = Contender::by(&proxy.connect, name, &scene).await;
    proxy.strike(Fate::ReplyLost, CREATE2, 1);
    // When an acquire is cancelled during the pause after the loss
    let patience = patience(None);
    patience.cancel.cancel();
    let ended = one.lock.acquire(&one.session, Mode::Write, &patience).await;
    assert_eq!(ended.unwrap_err(), AcquireError::Cancelled, "{name}");
    assert!(proxy.has_struck(), "{name}: no create was lost");
    let left = scene.nodes().await;
    ((one, proxy), scene, left)
}

#[test]
fn cancelled_kazoo_acquire_deletes_the_node_of_its_unanswered_create() {
    runtime::block_on(async {
        let (_one, _, left) = given_up_after_a_lost_create("kazoo").await;
        assert_eq!(left, 0);
    });
}

#[test]
fn apache_write_lock_leaves_the_node_of_an_unanswered_create_until_its_next_acquire() {
    runtime::block_on(async {
        let ((mut one, _proxy), scene, left) = given_up_after_a_lost_create("apache-write-lock").await;
        // Then the node blocks every other contender
        assert_eq!(left, 1);
        let mut other = Contender::of("apache-write-lock", &scene).await;
        let in_vain = other.acquire_within(Duration::from_millis(300), Mode::Write).await;
        assert_eq!(in_vain.unwrap_err(), AcquireError::TimedOut);
        // And the session's next acquire takes over the node
        let held = one.acquire(Mode::Write).await.unwrap();
        assert_eq!(scene.nodes().await, 1);
        one.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn waiter_fails_and_deletes_its_node_when_its_list_is_refused() {
    runtime::block_on(async {
        for name in ["apache-write-lock", "go-zookeeper"] {
            // Given a waiting contender
            let scene = scene(ensemble::shared()).await;
            let (mut holder, held) = Contender::holding(name, &scene).await;
            let waiting = Contender::of(name, &scene).await.queue_up().await;
            // When the waiter loses its permission to list the queue, and the holder releases
            scene.forbid_listing().await;
            holder.release(held).await.unwrap();
            let (_waiter, ended) = waiting.over().await;
            assert_eq!(ended.unwrap_err(), AcquireError::Failed(Failure::NoAuth), "{name}");
            // Then no node is left, although the waiter's session is still open
            scene.allow_everything().await;
            assert_eq!(scene.nodes().await, 0, "{name}");
        }
    });
}

#[test]
fn timed_out_acquire_resends_a_lost_delete() {
    runtime::block_on(async {
        for name in ["ahead", "count-semaphore", "curator-mutex"] {
            // Given a held lock
            let scene = scene(ensemble::shared()).await;
            let (mut holder, held) = Contender::holding(name, &scene).await;
            let proxy = Proxy::before(ensemble::shared());
            let mut one = Contender::by(&proxy.connect, name, &scene).await;
            // When another contender times out and its delete is lost
            proxy.strike(Fate::RequestLost, DELETE, 1);
            let ended = one.acquire_within(PATIENCE, Mode::Write).await;
            // Then the delete is resent
            assert!(proxy.has_struck(), "{name}: no delete was lost");
            assert_eq!(ended.unwrap_err(), AcquireError::TimedOut, "{name}");
            assert_eq!(scene.nodes().await, 1, "{name}");
            holder.release(held).await.unwrap();
        }
    });
}

#[test]
fn atomic_multi_does_not_create_containers() {
    behind_wire(async |scene, proxy| {
        let mut one = Contender::by(&proxy.connect, "atomic-multi", &scene).await;
        // When the lock creates its members
        let held = one.acquire(Mode::Write).await.unwrap();
        let made = |kind| proxy.requests().iter().filter(|request| request.kind == kind).count();
        // Then no member is a container, because servers delete empty containers
        assert_eq!(made(CREATE_CONTAINER), 0);
        assert!(made(CREATE2) > 0);
        one.release(held).await.unwrap();
    });
}

#[test]
fn library_lock_leaves_no_node_when_its_acquire_is_cancelled_at_any_step() {
    on_scene(async |scene| {
        let (mut holder, held) = Contender::holding("crate-lock", &scene).await;
        let mut other = Contender::of("crate-lock", &scene).await;
        // Cancel at every step, from the unanswered create to the watch
        for step in 0..40 {
            let ended = other.acquire_within(Duration::from_micros(100 * step), Mode::Write).await;
            assert_eq!(ended.unwrap_err(), AcquireError::TimedOut);
            assert_eq!(scene.nodes().await, 1, "after {step} steps");
        }
        holder.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}
