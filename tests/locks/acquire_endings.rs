//! However an acquire ends, its node does not block other contenders.

use std::time::Duration;

use futures_util::future::join_all;
use zklockbench_core::catalog::{Mode, Params};
use zklockbench_core::clock;
use zklockbench_locks::{AcquireError, Held, LockConfig, STRATEGIES, Strategy};
use zklockbench_zk::{Failure, Session, reactor};

use crate::support::contender::Contender;
use crate::support::ensemble;
use crate::support::proxy::{Fate, Proxy};
use crate::support::sessions::{Scene, behind_wire, on_scene, patience, scene};

/// Opcode of the create whose reply contains the node's stat, which the client library sends.
const CREATE2: i32 = 15;
/// Opcode of the create of a container.
const CREATE_CONTAINER: i32 = 19;
const DELETE: i32 = 2;

/// Acquire timeout of a contender that gives up.
const PATIENCE: Duration = Duration::from_millis(300);
/// All locks give up at the same time, each with its own requests, which takes a busy host seconds.
const SLOW_HOST: Duration = Duration::from_secs(60);

fn locks() -> impl Iterator<Item = &'static zklockbench_locks::Entry> {
    STRATEGIES.iter().filter(|entry| entry.card.guarantees.exclusive)
}

fn for_each_lock(test: impl AsyncFn(&'static zklockbench_locks::Entry)) {
    reactor::block_on(async { join_all(locks().map(|entry| test(entry))).await });
}

fn lock_of(entry: &zklockbench_locks::Entry, scene: &Scene) -> Box<dyn Strategy> {
    (entry.build)(&LockConfig {
        path: scene.lock.clone(),
        params: Params::new(),
        contender: 0,
        drivers: None,
    })
}

/// A lock that one contender holds and another wants.
struct Contest {
    scene: Scene,
    one: Box<dyn Strategy>,
    other: Box<dyn Strategy>,
    holder: Session,
    waiter: Session,
    held: Held,
    holders: usize,
}

async fn contest(entry: &zklockbench_locks::Entry) -> Contest {
    let scene = scene(ensemble::shared()).await;
    let (mut one, other) = (lock_of(entry, &scene), lock_of(entry, &scene));
    let (holder, waiter) = (scene.session().await, scene.session().await);
    let held = one.acquire(&holder, Mode::Write, &patience(None)).await.unwrap();
    let holders = scene.nodes().await;
    assert!(holders > 0, "{}", entry.card.name);
    Contest { scene, one, other, holder, waiter, held, holders }
}

#[test]
fn timed_out_acquire_leaves_no_node_and_a_later_one_succeeds() {
    for_each_lock(async |entry| {
        // Given a held lock
        let Contest { scene, mut one, mut other, holder, waiter, held, holders } = contest(entry).await;
        // When another contender's timeout ends
        let begin = clock::now();
        let ended = other.acquire(&waiter, Mode::Write, &patience(Some(PATIENCE))).await;
        // Then that acquire has timed out, not early and not as late as the release, and only the holder's
        // nodes are left
        assert_eq!(ended.unwrap_err(), AcquireError::TimedOut, "{}", entry.card.name);
        let waited = Duration::from_micros(clock::now() - begin);
        assert!((PATIENCE..SLOW_HOST).contains(&waited), "{}: {waited:?}", entry.card.name);
        assert_eq!(scene.nodes().await, holders, "{}", entry.card.name);
        // And after the release it gets the lock
        one.release(&holder, held).await.unwrap();
        let held =
            other.acquire(&waiter, Mode::Write, &patience(Some(Duration::from_secs(10)))).await.unwrap();
        other.release(&waiter, held).await.unwrap();
        assert_eq!(scene.nodes().await, 0, "{}", entry.card.name);
    });
}

/// Cancels an acquire whose create was not answered, before it searches for its node. Returns the contender
/// with its connection, its scene, and the number of nodes it left.
async fn given_up_after_a_lost_create(name: &str) -> ((Contender, Proxy), Scene, usize) {
    let scene = scene(ensemble::shared()).await;
    // Given a lock whose directory exists
    let (mut before, held) = Contender::holding(name, &scene).await;
    before.release(held).await.unwrap();
    let proxy = Proxy::before(ensemble::shared());
    let mut one = Contender::by(&proxy.connect, name, &scene).await;
    proxy.strike(Fate::ReplyLost, CREATE2, 1);
    // When its acquire is cancelled in the pause after the loss
    let patience = patience(None);
    patience.cancel.cancel();
    let ended = one.lock.acquire(&one.session, Mode::Write, &patience).await;
    assert_eq!(ended.unwrap_err(), AcquireError::Cancelled, "{name}");
    assert!(proxy.has_struck(), "{name}: no create was lost");
    let left = scene.nodes().await;
    ((one, proxy), scene, left)
}

#[test]
fn kazoo_deletes_the_node_of_an_unanswered_create_when_cancelled() {
    reactor::block_on(async {
        let (_one, _, left) = given_up_after_a_lost_create("kazoo").await;
        assert_eq!(left, 0);
    });
}

#[test]
fn apache_write_lock_leaves_the_node_of_an_unanswered_create_until_its_next_acquire() {
    reactor::block_on(async {
        let ((mut one, _proxy), scene, left) = given_up_after_a_lost_create("apache-write-lock").await;
        // Then its node blocks every other contender
        assert_eq!(left, 1);
        let mut other = Contender::of("apache-write-lock", &scene).await;
        let in_vain = other.acquire_within(Duration::from_millis(300), Mode::Write).await;
        assert_eq!(in_vain.unwrap_err(), AcquireError::TimedOut);
        // Until the same session acquires and takes the node for its own
        let held = one.acquire(Mode::Write).await.unwrap();
        assert_eq!(scene.nodes().await, 1);
        one.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn refused_list_ends_a_wait_and_deletes_the_node() {
    reactor::block_on(async {
        for name in ["apache-write-lock", "go-zookeeper"] {
            // Given a contender that waits
            let scene = scene(ensemble::shared()).await;
            let (mut holder, held) = Contender::holding(name, &scene).await;
            let waiting = Contender::of(name, &scene).await.queue_up().await;
            // When it may no longer list the queue, and the holder releases
            scene.forbid_listing().await;
            holder.release(held).await.unwrap();
            let (_waiter, ended) = waiting.over().await;
            assert_eq!(ended.unwrap_err(), AcquireError::Failed(Failure::NoAuth), "{name}");
            // Then no node is left, although its session lives
            scene.allow_everything().await;
            assert_eq!(scene.nodes().await, 0, "{name}");
        }
    });
}

#[test]
fn lost_delete_of_a_timed_out_acquire_is_resent() {
    reactor::block_on(async {
        for name in ["ahead", "count-semaphore", "curator-mutex"] {
            // Given a held lock
            let scene = scene(ensemble::shared()).await;
            let (mut holder, held) = Contender::holding(name, &scene).await;
            let proxy = Proxy::before(ensemble::shared());
            let mut one = Contender::by(&proxy.connect, name, &scene).await;
            // When the delete of another contender that times out is lost
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
        // When it creates its members
        let held = one.acquire(Mode::Write).await.unwrap();
        let made = |kind| proxy.requests().iter().filter(|request| request.kind == kind).count();
        // Then none of them is a container, which servers remove when it is empty
        assert_eq!(made(CREATE_CONTAINER), 0);
        assert!(made(CREATE2) > 0);
        one.release(held).await.unwrap();
    });
}

#[test]
fn cancelled_acquire_leaves_no_node() {
    for_each_lock(async |entry| {
        let Contest { scene, mut one, mut other, holder, waiter, held, holders } = contest(entry).await;
        let patience = patience(None);
        let cancel = patience.cancel.clone();
        let cancelling = reactor::spawn_local(async move {
            reactor::sleep(Duration::from_millis(300)).await;
            cancel.cancel();
        });
        let ended = other.acquire(&waiter, Mode::Write, &patience).await;
        assert_eq!(ended.unwrap_err(), AcquireError::Cancelled, "{}", entry.card.name);
        assert_eq!(scene.nodes().await, holders, "{}", entry.card.name);
        cancelling.await;
        one.release(&holder, held).await.unwrap();
    });
}

#[test]
fn lock_is_free_once_its_holder_disconnects() {
    for_each_lock(async |entry| {
        let Contest { mut other, holder, waiter, .. } = contest(entry).await;
        holder.close(Duration::from_secs(5)).await;
        let held = other.acquire(&waiter, Mode::Write, &patience(Some(Duration::from_secs(10)))).await;
        assert!(held.is_ok(), "{}: {held:?}", entry.card.name);
    });
}

#[test]
fn curator_mutex_is_free_after_as_many_releases_as_acquires() {
    let entry = zklockbench_locks::find("curator-mutex").unwrap();
    on_scene(async |scene| {
        let mut lock = lock_of(entry, &scene);
        let session = scene.session().await;
        let first = lock.acquire(&session, Mode::Write, &patience(None)).await.unwrap();
        let second = lock.acquire(&session, Mode::Write, &patience(None)).await.unwrap();
        assert_eq!(scene.nodes().await, 1);
        lock.release(&session, second).await.unwrap();
        assert_eq!(scene.nodes().await, 1);
        lock.release(&session, first).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn library_lock_leaves_no_node_whenever_it_is_cancelled() {
    let entry = zklockbench_locks::find("crate-lock").unwrap();
    reactor::block_on(async {
        let Contest { scene, mut one, mut other, holder, waiter, held, .. } = contest(entry).await;
        // From before the create is answered until the watch is set
        for step in 0..40 {
            let ended =
                other.acquire(&waiter, Mode::Write, &patience(Some(Duration::from_micros(100 * step)))).await;
            assert_eq!(ended.unwrap_err(), AcquireError::TimedOut);
            assert_eq!(scene.nodes().await, 1, "after {step} steps");
        }
        one.release(&holder, held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}
