//! Locks that join with a single multi. Its reply contains the number of contenders ahead.

use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::AcquireError;
use zklockbench_zk::NodeKind;

use crate::support::contender::{Contender, words};
use crate::support::rehearsal::Lines;
use crate::support::sessions::{Scene, each_on_scene, on_scene};

fn by_count() -> Params {
    words(&[("join", "count")])
}

const MARKED: [&str; 2] = ["curator-mutex", "ahead"];
const EACH: [&str; 6] =
    ["count", "predecessor-watch", "curator-mutex", "curator-read-write", "ahead", "count-semaphore"];

#[test]
fn nonblocking_attempt_ends_after_its_join_and_leaves_no_node() {
    on_scene(async |scene| {
        let try_lock = Params::from([("blocking".to_owned(), ParamValue::Bool(false))]);
        let (mut holder, held) = Contender::holding("count", &scene).await;
        let mut one = Contender::with("count", &try_lock, &scene).await;
        // Given so many failed attempts that a blocking acquire would no longer join by count
        for time in 1..=5 {
            one.trace.borrow_mut().clear();
            assert_eq!(one.acquire(Mode::Write).await.unwrap_err(), AcquireError::TimedOut);
            assert_eq!(kinds(&sent(&one, &scene)), ["multi", "delete"], "{time}");
        }
        assert_eq!(one.session.get_children(&scene.lock).await.unwrap().len(), 1);
        // Then the next attempt succeeds once the holder has left
        holder.release(held).await.unwrap();
        assert_eq!(kinds(&turn(&mut one, &scene).await), ["multi", "delete"]);
        // And a lock that joins by a create needs a list to determine its position
        let by_create: Params = words(&[("join", "create")]).into_iter().chain(try_lock).collect();
        let mut other = Contender::with("count", &by_create, &scene).await;
        assert_eq!(kinds(&turn(&mut other, &scene).await), ["create", "get_children", "delete"]);
        let held = one.acquire(Mode::Write).await.unwrap();
        other.trace.borrow_mut().clear();
        assert_eq!(other.acquire(Mode::Write).await.unwrap_err(), AcquireError::TimedOut);
        assert_eq!(kinds(&sent(&other, &scene)), ["create", "get_children", "delete"]);
        one.release(held).await.unwrap();
    });
}

#[test]
fn token_is_the_zxid_of_the_create() {
    on_scene(async |scene| {
        for name in EACH {
            let mut one = Contender::with(name, &by_count(), &scene).await;
            let node = one.acquire(Mode::Write).await.unwrap().node.unwrap();
            let found = one.session.exists(&node.path).await.unwrap().unwrap();
            assert_eq!(node.czxid, found.czxid, "{name}");
            one.die().await;
        }
    });
}

/// Acquires and releases, and returns the requests sent.
async fn turn(one: &mut Contender, scene: &Scene) -> Lines {
    one.trace.borrow_mut().clear();
    one.cycle().await;
    sent(one, scene)
}

fn sent(one: &Contender, scene: &Scene) -> Lines {
    let first_word = |path: &str| path.split(' ').next().unwrap_or_default().replace(&scene.lock, ".");
    let trace = one.trace.borrow();
    trace.iter().map(|sent| format!("{} {}", sent.kind.name(), first_word(&sent.path))).collect()
}

fn kinds(sent: &Lines) -> Vec<&str> {
    sent.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect()
}

/// Requests of a contender that joins behind another contender, enters, and leaves.
async fn turn_behind_another(one: Contender, scene: &Scene) -> (Contender, Lines) {
    one.trace.borrow_mut().clear();
    let (mut other, held) = Contender::holding("predecessor-watch", scene).await;
    let waiting = one.queue_up().await;
    other.release(held).await.unwrap();
    other.die().await;
    let one = waiting.serve().await;
    let lines = sent(&one, scene);
    (one, lines)
}

#[test]
fn contender_joins_by_creates_after_three_waits_and_by_count_after_being_alone() {
    each_on_scene(&MARKED, async |name, scene| {
        let mut one = Contender::with(name, &by_count(), &scene).await;
        // Given a contender that has joined behind another contender three times
        for _ in 0..3 {
            let sent;
            (one, sent) = turn_behind_another(one, &scene).await;
            assert_eq!(kinds(&sent)[0], "multi", "{name}");
        }
        // Then the contender joins by creates, both behind another contender and alone
        let (mut one, sent) = turn_behind_another(one, &scene).await;
        assert_eq!(kinds(&sent)[..2], ["create", "get_children"], "{name}");
        assert_eq!(kinds(&turn(&mut one, &scene).await), ["create", "get_children", "delete"], "{name}");
        // And once the contender has been alone, it joins by count again
        assert_eq!(kinds(&turn(&mut one, &scene).await), ["multi", "delete"], "{name}");
    });
}

#[test]
fn join_by_count_saves_a_list_unless_a_foreign_node_exists() {
    on_scene(async |scene| {
        let mut one = Contender::with("predecessor-watch", &by_count(), &scene).await;
        for _ in 0..5 {
            let sent;
            (one, sent) = turn_behind_another(one, &scene).await;
            assert_eq!(kinds(&sent), ["multi", "get_data_watch", "delete"]);
        }
        // Given a node that does not belong to the queue
        scene.add_foreign_child().await;
        let in_vain = ["multi", "get_data_watch", "get_children", "delete"];
        // Then the lock searches for a predecessor that does not exist, and finds itself first in a list
        for _ in 0..3 {
            assert_eq!(kinds(&turn(&mut one, &scene).await), in_vain);
        }
        // And after three useless counts, the lock joins by a create
        for _ in 0..3 {
            assert_eq!(kinds(&turn(&mut one, &scene).await), ["create", "get_children", "delete"]);
        }
    });
}

#[test]
fn lock_without_write_permission_joins_by_creates() {
    each_on_scene(&EACH, async |name, scene| {
        scene.forbid_writing().await;
        let mut one = Contender::with(name, &by_count(), &scene).await;
        let first = turn(&mut one, &scene).await;
        assert_eq!(kinds(&first)[..2], ["multi", "create"], "{name}");
        let second = turn(&mut one, &scene).await;
        assert!(kinds(&second)[0] == "create" && !kinds(&second).contains(&"multi"), "{name}: {second:?}");
        assert_eq!(scene.nodes().await, 0, "{name}");
    });
}

#[test]
fn deleted_directory_is_recreated() {
    each_on_scene(&EACH, async |name, scene| {
        let mut one = Contender::with(name, &by_count(), &scene).await;
        turn(&mut one, &scene).await;
        scene.delete_all().await;
        let sent = turn(&mut one, &scene).await;
        let kinds = kinds(&sent);
        assert_eq!((kinds[0], kinds[kinds.len() - 2]), ("multi", "multi"), "{name}: {sent:?}");
        assert!(kinds.contains(&"create"), "{name}: {sent:?}");
    });
}

#[test]
fn foreign_nodes_cost_a_list_but_do_not_break_exclusion() {
    each_on_scene(&EACH, async |name, scene| {
        scene.add_foreign_child().await;
        let stranger = scene.session().await;
        let path = format!("{}/x", scene.lock);
        stranger.create(&path, &[], NodeKind::Ephemeral).await.unwrap();
        let (mut one, held) = Contender::with(name, &by_count(), &scene).await.enter().await;
        let mut other = Contender::with(name, &by_count(), &scene).await;
        assert!(other.acquire_within(Duration::from_millis(100), Mode::Write).await.is_err(), "{name}");
        one.release(held).await.unwrap();
    });
}
