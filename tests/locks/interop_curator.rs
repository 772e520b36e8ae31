//! Curator in Java and this suite's locks exclude each other on the same path, whichever is ahead in the queue.

use std::rc::Rc;

use zklockbench_core::catalog::Mode::{Read, Write};
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, SETTLE, Waiting, words};
use crate::support::ensemble;
use crate::support::foreign::{self, Obedient};
use crate::support::inside::{self, CONTENDERS, Ours, owner_of};
use crate::support::sessions::{Scene, on_scene, scene};

/// Lets both kinds of clients contend until the lock has changed sides often enough, and checks exclusion.
fn assert_exclusion(ours: &Ours, kind: &str) {
    let (seen, [acquired, violations, crossings]) = runtime::block_on(async {
        let scene = Rc::new(scene(ensemble::shared()).await);
        let mut java = foreign::java("CuratorContenders");
        java.args([ensemble::shared(), &scene.lock, &owner_of(&scene), kind, &CONTENDERS.to_string()]);
        inside::mix(ours, scene, java).await
    });
    println!(
        "{kind}: ours {seen:?}; java's {acquired} acquired, {violations} violations, {crossings} crossings"
    );
    assert_eq!((seen.violations.get(), violations), (0, 0), "{kind}: two contenders held the lock at once");
    assert!(seen.crossings.get() >= inside::crossings());
    // Readers write nothing, so Java detects only the handoffs from our writers.
    let reads = ours.turns.contains(&Read);
    assert!(crossings > 0, "{kind}: {crossings} handoffs to Java's side");
    assert!(reads || crossings + 1 >= inside::crossings(), "{kind}: {crossings} handoffs to Java's side");
}

#[test]
fn our_mutex_and_javas_mutex_exclude_each_other() {
    assert_exclusion(&Ours::plain("curator-mutex"), "mutex");
}

#[test]
#[ignore = "long: the plain mutex is always tested"]
fn ahead_and_javas_mutex_exclude_each_other() {
    assert_exclusion(&Ours::plain("ahead"), "mutex");
}

#[test]
#[ignore = "long: the plain mutex is always tested"]
fn locks_that_join_by_count_and_javas_mutex_exclude_each_other() {
    for strategy in ["curator-mutex", "ahead"] {
        let params = words(&[("join", "count")]);
        assert_exclusion(&Ours { params, ..Ours::plain(strategy) }, "mutex");
    }
}

#[test]
#[ignore = "long: the plain mutex is always tested"]
fn our_semaphore_mutex_and_javas_exclude_each_other() {
    assert_exclusion(&Ours::plain("curator-semaphore-mutex"), "semaphore-mutex");
}

#[test]
fn read_write_locks_of_both_clients_exclude_each_other() {
    assert_exclusion(&Ours { turns: &[Write, Read], ..Ours::plain("curator-read-write") }, "read-write");
}

async fn obedient(scene: &Scene) -> Obedient {
    let mut java = foreign::java("CuratorObeys");
    java.args([ensemble::shared(), &scene.lock, "10000"]);
    Obedient::ready(java).await
}

#[test]
#[ignore = "long: the plain read-write lock is always tested"]
fn writer_keeps_its_position_between_readers_of_both_clients() {
    on_scene(async |scene| {
        let mut java = obedient(&scene).await;
        // Given one reader of each client, both of which hold the lock
        let mut reader = Contender::of("curator-read-write", &scene).await;
        let held = reader.acquire(Read).await.unwrap();
        java.obeys("acquire first read", "first in read").await;
        // When a writer queues up, followed by a reader
        let writer = Contender::of("curator-read-write", &scene).await.queue_up().await;
        java.tell("acquire last read");
        scene.has_nodes(4).await;
        reader.release(held).await.unwrap();
        runtime::sleep(SETTLE).await;
        // Then the writer waits for the other reader, and the last reader waits for the writer
        assert!(!writer.is_over() && !java.has_said("last in read"));
        java.tell("release first read");
        let (mut writer, held) = writer.entered().await;
        runtime::sleep(SETTLE).await;
        assert!(!java.has_said("last in read"));
        writer.release(held).await.unwrap();
        java.says("last in read").await;
    });
}

#[test]
#[ignore = "long: the plain read-write lock is always tested"]
fn our_downgraded_writer_still_excludes_javas_writer() {
    on_scene(async |scene| {
        let mut java = obedient(&scene).await;
        let (mut owner, write) = Contender::holding("curator-read-write", &scene).await;
        java.tell("acquire a write");
        scene.has_nodes(2).await;
        let read = owner.acquire(Read).await.unwrap();
        owner.release(write).await.unwrap();
        runtime::sleep(SETTLE * 5).await;
        assert!(!java.has_said("a in write"));
        owner.release(read).await.unwrap();
        java.says("a in write").await;
    });
}

#[test]
fn curator_621_occurs_before_5_5_when_javas_writer_downgrades() {
    let has_the_fault = foreign::curators_version() < (5, 5);
    on_scene(async |scene| {
        let mut java = obedient(&scene).await;
        // Given a Java writer that also reads, and one of our writers behind it
        java.obeys("acquire a write", "a in write").await;
        let waiting = Contender::of("curator-read-write", &scene).await.queue_up().await;
        java.obeys("acquire a read", "a in read").await;
        // When the first writer stops writing
        java.obeys("release a write", "a out write").await;
        // Then in versions that assign the reader a new number, our writer is admitted alongside the reader
        if has_the_fault {
            waiting.until_over().await;
        } else {
            runtime::sleep(SETTLE * 5).await;
            assert!(!waiting.is_over());
        }
        java.obeys("holds a read", "a holds true").await;
        java.obeys("release a read", "a out read").await;
        Waiting::serve(waiting).await;
    });
}
