//! Releases with `release = "count"`: a grant or, after useless grants, a single multi. The multi's reply contains
//! the number of waiters.

use zklockbench_core::catalog::Params;
use zklockbench_zk::{Failure, runtime};

use crate::support::contender::{Contender, SETTLE, Waiting, words};
use crate::support::ensemble::shared;
use crate::support::proxy::{Fate, Proxy};
use crate::support::rehearsal::{Lines, lines, sent_by};
use crate::support::sessions::{Scene, on_scene, scene};

/// Opcode of a multi.
const MULTI: i32 = 14;

fn counting() -> Params {
    words(&[("release", "count")])
}

/// Acquires from another contender by a handoff, and releases with or without a waiter behind it. Returns
/// the requests of the release.
async fn leaves(one: Contender, scene: &Scene, is_wanted: bool) -> (Contender, Lines) {
    let (mut other, held) = Contender::holding("count", scene).await;
    let waiting = one.queue_up().await;
    other.release(held).await.unwrap();
    other.die().await;
    let (mut one, held) = waiting.entered().await;
    let behind = match is_wanted {
        true => Some(Contender::of("count", scene).await.queue_up().await),
        false => None,
    };
    one.trace.borrow_mut().clear();
    one.release(held).await.unwrap();
    let sent = sent_by(&one, scene);
    if let Some(behind) = behind {
        behind.serve().await.die().await;
    }
    assert_eq!(scene.nodes().await, 0);
    (one, sent)
}

fn kinds(sent: &Lines) -> Vec<&str> {
    sent.iter().map(|line| line.split([' ', ';']).next().unwrap_or_default()).collect()
}

/// Returns a contender after two releases without a waiter behind it.
async fn without_waiters(one: Contender, scene: &Scene) -> Contender {
    let mut one = one;
    for cycle in 0..2 {
        let sent;
        (one, sent) = leaves(one, scene, false).await;
        let (own, next) = (2 * cycle + 1, 2 * cycle + 2);
        let in_vain = format!("multi setData n-{next}; delete n-{own}\n get_children .\n delete n-{own}");
        assert_eq!(sent, lines(&in_vain));
    }
    one
}

#[test]
fn release_takes_one_request_instead_of_three_after_two_useless_grants() {
    on_scene(async |scene| {
        let mut one = without_waiters(Contender::with("count", &counting(), &scene).await, &scene).await;
        for own in [5, 7, 9, 11] {
            let sent;
            (one, sent) = leaves(one, &scene, false).await;
            assert_eq!(sent, lines(&format!("multi delete n-{own}; setData .")));
        }
        // A contender without `release = "count"` continues to grant.
        let mut other = Contender::of("count", &scene).await;
        for _ in 0..4 {
            let sent;
            (other, sent) = leaves(other, &scene, false).await;
            assert_eq!(kinds(&sent), ["multi", "get_children", "delete"]);
        }
    });
}

#[test]
fn contender_grants_again_after_two_releases_that_counted_a_waiter() {
    on_scene(async |scene| {
        let mut one = without_waiters(Contender::with("count", &counting(), &scene).await, &scene).await;
        let mut own = 5;
        for is_granted in [false, false, true, true] {
            let sent;
            (one, sent) = leaves(one, &scene, true).await;
            let next = own + 1;
            let expected = match is_granted {
                true => format!("multi setData n-{next}; delete n-{own}"),
                false => format!("multi delete n-{own}; setData ."),
            };
            assert_eq!(sent, lines(&expected));
            own += 3;
        }
    });
}

#[test]
fn counting_release_without_write_permission_falls_back_to_a_delete_and_later_releases_grant() {
    on_scene(async |scene| {
        let one = without_waiters(Contender::with("count", &counting(), &scene).await, &scene).await;
        scene.forbid_writing().await;
        // Given a contender that had joined before it lost its write permission (without the permission, it
        // would join by a create, and list)
        let (one, sent) = leaves_after_grant(one, &scene).await;
        assert_eq!(kinds(&sent), ["multi", "delete"]);
        let (_, sent) = leaves_after_grant(one, &scene).await;
        assert_eq!(kinds(&sent), ["multi", "get_children", "delete"]);
    });
}

/// Like [`leaves`] without a waiter, but for the third contender of a queue. A grant admits this contender
/// without a list.
async fn leaves_after_grant(one: Contender, scene: &Scene) -> (Contender, Lines) {
    let (mut first, held) = Contender::holding("baton", scene).await;
    let second = Contender::of("baton", scene).await.queue_up().await;
    let waiting = one.queue_up().await;
    first.release(held).await.unwrap();
    // The second contender listed the queue after the first node was deleted, so it saw the node behind its own.
    let _second = second.serve().await;
    let (mut one, held) = waiting.entered().await;
    one.trace.borrow_mut().clear();
    one.release(held).await.unwrap();
    let sent = sent_by(&one, scene);
    assert_eq!(scene.nodes().await, 0);
    (one, sent)
}

#[test]
fn foreign_node_causes_an_extra_grant_but_strands_no_waiter() {
    on_scene(async |scene| {
        let mut one = without_waiters(Contender::with("count", &counting(), &scene).await, &scene).await;
        scene.add_foreign_child().await;
        let mut sent = Vec::new();
        for _ in 0..3 {
            let lines;
            (one, lines) = leaves_after_grant(one, &scene).await;
            sent.push(lines.len());
        }
        assert_eq!(sent, [1, 1, 3], "two releases that counted the foreign node, and a useless grant");
    });
}

/// Releases on a connection that then breaks, with a waiter behind.
async fn release_is_lost(fate: Fate) {
    let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
    let one = Contender::by_with(&proxy.connect, "count", &counting(), &scene).await;
    let one = without_waiters(one, &scene).await;
    let (mut other, held) = Contender::holding("count", &scene).await;
    let waiting = one.queue_up().await;
    other.release(held).await.unwrap();
    let (mut one, held) = waiting.entered().await;
    let behind: Waiting = Contender::of("count", &scene).await.queue_up().await;
    proxy.strike(fate, MULTI, 1);
    // When the request or its reply is lost
    let released = one.release(held).await;
    // Then the release fails, and the next contender is admitted only if the release was applied
    assert_eq!((released, proxy.has_struck()), (Err(Failure::ConnectionLoss), true), "{fate:?}");
    if fate == Fate::ReplyLost {
        behind.until_over().await;
    } else {
        runtime::sleep(SETTLE).await;
        assert!(!behind.is_over());
    }
    // And the waiter is admitted either way once the session has ended
    one.die().await;
    behind.serve().await;
    assert_eq!(scene.nodes().await, 0, "{fate:?}");
}

#[test]
fn counted_release_is_atomic_when_its_request_or_reply_is_lost() {
    for fate in [Fate::RequestLost, Fate::ReplyLost] {
        runtime::block_on(release_is_lost(fate));
    }
}
