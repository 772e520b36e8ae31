//! Our locks and Python's kazoo contend on the same path, and only one contender is ever inside.
//!
//! Two pairs of locks that ignore each other prove that violations are detected.

use std::rc::Rc;

use zklockbench_core::catalog::Mode::{Read, Write};
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, SETTLE, Waiting, words};
use crate::support::ensemble;
use crate::support::foreign::{self, Obedient};
use crate::support::inside::{self, CONTENDERS, Ours, crossings, owner_of};
use crate::support::sessions::{Scene, on_scene, scene};

/// Counts of both sides.
struct Outcome {
    violations: u64,
    /// Number of handoffs to our side, and to kazoo's.
    crossings: (u64, u64),
}

/// Lets both kinds of clients contend until the lock has changed sides often enough; `None` if kazoo is missing.
fn mix(ours: &Ours, kind: &str, patterns: &[&str]) -> Option<Outcome> {
    let python = foreign::python()?;
    let (seen, [acquired, violations, crossings]) = runtime::block_on(async {
        let scene = Rc::new(scene(ensemble::shared()).await);
        let mut kazoo = foreign::script(python, "contend.py");
        kazoo.args([ensemble::shared(), &scene.lock, &owner_of(&scene), &CONTENDERS.to_string(), kind]);
        kazoo.args(patterns);
        inside::mix(ours, scene, kazoo).await
    });
    println!(
        "{} and {kind}: ours {seen:?}; kazoo's {acquired} acquired, {violations} violations, {crossings} crossings",
        ours.strategy
    );
    let violations = seen.violations.get() + violations;
    Some(Outcome { violations, crossings: (seen.crossings.get(), crossings) })
}

/// Asserts that the lock often changed sides in both directions, without a violation.
fn assert_exclusion(ours: &Ours, kind: &str, patterns: &[&str]) {
    let Some(Outcome { violations, crossings: (to_ours, to_kazoos) }) = mix(ours, kind, patterns) else {
        return;
    };
    assert_eq!(violations, 0, "{}: two contenders held the lock at once", ours.strategy);
    assert!(to_ours >= crossings());
    // Readers write nothing, so kazoo detects only the handoffs from our writers.
    let reads = ours.turns.contains(&Read);
    assert!(to_kazoos > 0 && (reads || to_kazoos + 1 >= crossings()), "{to_kazoos} handoffs to kazoo's side");
}

#[test]
fn our_kazoo_lock_and_pythons_exclude_each_other() {
    assert_exclusion(&Ours::plain("kazoo"), "Lock", &[]);
}

#[test]
#[ignore = "long: the plain lock is always tested"]
fn our_kazoo_lock_and_pythons_exclude_each_other_when_extra_patterns_are_set() {
    let params = words(&[("extra_patterns", "lock-")]);
    assert_exclusion(&Ours { params, ..Ours::plain("kazoo") }, "Lock", &["lock-"]);
}

#[test]
fn curators_mutex_and_kazoo_with_its_pattern_exclude_each_other() {
    assert_exclusion(&Ours::plain("curator-mutex"), "Lock", &["lock-"]);
}

#[test]
#[ignore = "long: Curator's and kazoo's are always tested"]
fn go_zookeeper_and_kazoo_with_its_pattern_exclude_each_other() {
    assert_exclusion(&Ours::plain("go-zookeeper"), "Lock", &["lock-"]);
}

#[test]
fn our_read_write_lock_and_pythons_writers_exclude_each_other() {
    assert_exclusion(&Ours { turns: &[Write, Read], ..Ours::plain("kazoo-read-write") }, "WriteLock", &[]);
}

#[test]
fn kazoo_without_curators_pattern_violates_curators_mutex() {
    let ours = Ours { crossings: 100, ..Ours::plain("curator-mutex") };
    let Some(outcome) = mix(&ours, "Lock", &[]) else { return };
    assert!(outcome.violations > 0);
}

#[test]
fn readers_without_kazoos_pattern_violate_kazoos_writers() {
    let ours = Ours { crossings: 100, turns: &[Read], ..Ours::plain("curator-read-write") };
    let Some(outcome) = mix(&ours, "WriteLock", &[]) else { return };
    assert!(outcome.violations > 0);
}

async fn obedient(python: &str, scene: &Scene) -> Obedient {
    let mut kazoo = foreign::script(python, "obey.py");
    kazoo.args([ensemble::shared(), &scene.lock]);
    Obedient::ready(kazoo).await
}

#[test]
fn our_writer_waits_until_readers_of_both_clients_have_left() {
    let Some(python) = foreign::python() else { return };
    on_scene(async |scene| {
        let mut kazoo = obedient(python, &scene).await;
        kazoo.obeys("acquire a read", "a in read").await;
        let mut reader = Contender::of("kazoo-read-write", &scene).await;
        let held = reader.acquire(Read).await.unwrap();
        reader.release(held).await.unwrap();
        let writer = Contender::of("kazoo-read-write", &scene).await.queue_up().await;
        assert!(!writer.is_over());
        kazoo.obeys("release a read", "a out read").await;
        writer.serve().await;
    });
}

#[test]
fn kazoo_649_occurs_before_2_9_when_a_writer_is_behind_pythons_reader() {
    let Some(python) = foreign::python() else { return };
    let has_the_fault = foreign::kazoos_version(python) < (2, 9);
    on_scene(async |scene| {
        let mut kazoo = obedient(python, &scene).await;
        // Given a writer inside, a Python reader behind it, and a writer behind the reader
        let (mut first, held) = Contender::holding("kazoo-read-write", &scene).await;
        kazoo.tell("acquire a read");
        scene.has_nodes(2).await;
        runtime::sleep(SETTLE).await;
        let second = Contender::of("kazoo-read-write", &scene).await.queue_up().await;
        // When the first writer leaves
        first.release(held).await.unwrap();
        // Then, before version 2.9, neither waiter is admitted: a reader waits for the last writer even if that
        // writer is behind the reader
        if has_the_fault {
            runtime::sleep(SETTLE * 10).await;
            assert!(!kazoo.has_said("a in read"));
        } else {
            kazoo.says("a in read").await;
        }
        assert!(!second.is_over());
        // Until the second writer gives up
        second.cancel.cancel();
        second.gone().await;
        kazoo.says("a in read").await;
    });
}

#[test]
fn kazoo_649_does_not_occur_when_a_writer_is_behind_our_reader() {
    let Some(python) = foreign::python() else { return };
    on_scene(async |scene| {
        let mut kazoo = obedient(python, &scene).await;
        kazoo.obeys("acquire first write", "first in write").await;
        let reader = Waiting::start(Contender::of("kazoo-read-write", &scene).await, Read);
        scene.has_nodes(2).await;
        kazoo.tell("acquire second write");
        scene.has_nodes(3).await;
        kazoo.obeys("release first write", "first out write").await;
        let (mut reader, held) = reader.entered().await;
        assert!(!kazoo.has_said("second in write"));
        reader.release(held).await.unwrap();
        kazoo.says("second in write").await;
    });
}
