//! However an acquire ends, its node does not stay in anybody's way.

use std::time::Duration;

use futures_util::future::join_all;
use zklockbench::catalog::{Mode, Params};
use zklockbench::clock;
use zklockbench::lock::{AcquireError, Held, LockConfig, STRATEGIES, Strategy};
use zklockbench::zk::{Session, reactor};

use crate::support::ensemble;
use crate::support::sessions::{Scene, patience, scene};

/// Every lock that makes its contenders wait.
fn locks() -> impl Iterator<Item = &'static zklockbench::lock::Entry> {
    STRATEGIES.iter().filter(|entry| entry.card.guarantees.exclusive)
}

/// Puts every lock through the same, all at the same time.
fn for_each_lock(test: impl AsyncFn(&'static zklockbench::lock::Entry)) {
    reactor::block_on(async { join_all(locks().map(|entry| test(entry))).await });
}

fn lock_of(entry: &zklockbench::lock::Entry, scene: &Scene) -> Box<dyn Strategy> {
    (entry.build)(&LockConfig { path: scene.lock.clone(), params: Params::new(), contender: 0 })
}

/// A lock that one contender holds and another wants.
struct Contest {
    scene: Scene,
    one: Box<dyn Strategy>,
    other: Box<dyn Strategy>,
    holder: Session,
    waiter: Session,
    held: Held,
    /// How many nodes the holder has.
    holders: usize,
}

async fn contest(entry: &zklockbench::lock::Entry) -> Contest {
    let scene = scene(ensemble::shared()).await;
    let (mut one, other) = (lock_of(entry, &scene), lock_of(entry, &scene));
    let (holder, waiter) = (scene.session().await, scene.session().await);
    let held = one.acquire(&holder, Mode::Write, &patience(None)).await.unwrap();
    let holders = scene.nodes().await;
    assert!(holders > 0, "{}", entry.card.name);
    Contest { scene, one, other, holder, waiter, held, holders }
}

#[test]
fn a_timed_out_acquire_leaves_no_node_and_the_next_one_gets_the_lock() {
    for_each_lock(async |entry| {
        // Given a lock that somebody holds
        let Contest { scene, mut one, mut other, holder, waiter, held, holders } = contest(entry).await;
        // When another's patience ends
        let begin = clock::now();
        let ended = other.acquire(&waiter, Mode::Write, &patience(Some(Duration::from_millis(300)))).await;
        // Then it was told so in time, and only the holder's nodes are there
        assert_eq!(ended.unwrap_err(), AcquireError::TimedOut, "{}", entry.card.name);
        assert!(clock::now() - begin < 2_500_000, "{}", entry.card.name);
        assert_eq!(scene.nodes().await, holders, "{}", entry.card.name);
        // And after the release it gets the lock
        one.release(&holder, held).await.unwrap();
        let held =
            other.acquire(&waiter, Mode::Write, &patience(Some(Duration::from_secs(10)))).await.unwrap();
        other.release(&waiter, held).await.unwrap();
        assert_eq!(scene.nodes().await, 0, "{}", entry.card.name);
    });
}

#[test]
fn a_cancelled_acquire_leaves_no_node() {
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
fn a_lock_whose_holder_goes_away_is_free() {
    for_each_lock(async |entry| {
        let Contest { mut other, holder, waiter, .. } = contest(entry).await;
        holder.close(Duration::from_secs(5)).await;
        let held = other.acquire(&waiter, Mode::Write, &patience(Some(Duration::from_secs(10)))).await;
        assert!(held.is_ok(), "{}: {held:?}", entry.card.name);
    });
}

#[test]
fn curators_mutex_may_be_taken_again_by_its_owner_and_is_free_after_as_many_releases() {
    let entry = zklockbench::lock::find("curator-mutex").unwrap();
    reactor::block_on(async {
        let scene = scene(ensemble::shared()).await;
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
fn the_librarys_lock_leaves_no_node_at_whatever_moment_it_is_cancelled() {
    let entry = zklockbench::lock::find("crate-lock").unwrap();
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
