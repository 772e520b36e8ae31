//! A lock that hands on leaves by a grant, or, where the last ones were in vain, by one multi whose reply tells how many are
//! behind.

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_zk::{Failure, reactor};

use crate::support::contender::{Contender, SETTLE, Waiting};
use crate::support::ensemble::shared;
use crate::support::proxy::{Fate, Proxy};
use crate::support::rehearsal::{Lines, lines, sent_by, subject};
use crate::support::sessions::{Scene, on_scene, scene};

/// As the protocol numbers it.
const MULTI: i32 = 14;

fn counting() -> Params {
    Params::from([("release".to_owned(), ParamValue::Word("count".into()))])
}

/// Takes the lock behind another, which hands it on, and leaves with somebody behind it or without. What it sends for that.
async fn leaves(one: Contender, scene: &Scene, is_wanted: bool) -> (Contender, Lines) {
    let mut other = Contender::of("count", scene).await;
    let held = other.acquire(Mode::Write).await.unwrap();
    let waiting = one.queue_up().await;
    other.release(held).await.unwrap();
    other.die().await;
    let (mut one, held) = waiting.over().await;
    let behind = match is_wanted {
        true => Some(Contender::of("count", scene).await.queue_up().await),
        false => None,
    };
    one.trace.borrow_mut().clear();
    one.release(held.unwrap()).await.unwrap();
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

/// A contender that has twice found nobody behind it.
async fn lonely(one: Contender, scene: &Scene) -> Contender {
    let mut one = one;
    for turn in 0..2 {
        let sent;
        (one, sent) = leaves(one, scene, false).await;
        let (own, next) = (2 * turn + 1, 2 * turn + 2);
        let in_vain = format!("multi setData n-{next}; delete n-{own}\n get_children .\n delete n-{own}");
        assert_eq!(sent, lines(&in_vain));
    }
    one
}

#[test]
fn after_two_grants_in_vain_a_release_is_one_request_instead_of_three() {
    on_scene(async |scene| {
        let mut one = lonely(Contender::with("count", &counting(), &scene).await, &scene).await;
        for own in [5, 7, 9, 11] {
            let sent;
            (one, sent) = leaves(one, &scene, false).await;
            assert_eq!(sent, lines(&format!("multi delete n-{own}; setData .")));
        }
        // Unless it was not asked to
        let mut other = Contender::of("count", &scene).await;
        for _ in 0..4 {
            let sent;
            (other, sent) = leaves(other, &scene, false).await;
            assert_eq!(kinds(&sent), ["multi", "get_children", "delete"]);
        }
    });
}

#[test]
fn the_reply_to_two_releases_past_somebody_who_waited_makes_it_grant_again() {
    on_scene(async |scene| {
        let mut one = lonely(Contender::with("count", &counting(), &scene).await, &scene).await;
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
fn while_somebody_waits_each_handoff_is_a_grant_as_without_it() {
    for name in ["count", "baton"] {
        let counting = subject(name).word("release", "count");
        assert_eq!(counting.queue(), subject(name).queue(), "{name}");
        assert_eq!(counting.alone(), subject(name).alone(), "{name}");
    }
}

#[test]
fn who_may_not_write_to_the_directory_deletes_and_grants_from_then_on() {
    on_scene(async |scene| {
        let one = lonely(Contender::with("count", &counting(), &scene).await, &scene).await;
        scene.forbid_writing().await;
        // Given one that has joined before, because whoever may not write joins by a create and so lists
        let (one, sent) = leaves_as_told(one, &scene).await;
        assert_eq!(kinds(&sent), ["multi", "delete"]);
        let (_, sent) = leaves_as_told(one, &scene).await;
        assert_eq!(kinds(&sent), ["multi", "get_children", "delete"]);
    });
}

/// As [`leaves`] with nobody behind, let in by a grant: the third of a queue, who needs no list.
async fn leaves_as_told(one: Contender, scene: &Scene) -> (Contender, Lines) {
    let mut first = Contender::of("baton", scene).await;
    let held = first.acquire(Mode::Write).await.unwrap();
    let second = Contender::of("baton", scene).await.queue_up().await;
    let waiting = one.queue_up().await;
    first.release(held).await.unwrap();
    let (mut second, held) = second.over().await;
    // It has listed after the first one's deletion, and knows who is behind it.
    second.release(held.unwrap()).await.unwrap();
    let (mut one, held) = waiting.over().await;
    one.trace.borrow_mut().clear();
    one.release(held.unwrap()).await.unwrap();
    let sent = sent_by(&one, scene);
    assert_eq!(scene.nodes().await, 0);
    (one, sent)
}

#[test]
fn a_strangers_node_makes_it_try_again_and_leaves_nobody_behind() {
    on_scene(async |scene| {
        let mut one = lonely(Contender::with("count", &counting(), &scene).await, &scene).await;
        scene.add_foreign_child().await;
        let mut sent = Vec::new();
        for _ in 0..3 {
            let lines;
            (one, lines) = leaves_as_told(one, &scene).await;
            sent.push(lines.len());
        }
        assert_eq!(sent, [1, 1, 3], "two that counted the stranger, and a grant in vain");
    });
}

/// Releases by a connection that breaks then, with somebody behind.
async fn release_is_lost(fate: Fate) {
    let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
    let one = Contender::by_with(&proxy.connect, "count", &counting(), &scene).await;
    let one = lonely(one, &scene).await;
    let (mut other, held) = Contender::holding("count", &scene).await;
    let waiting = one.queue_up().await;
    other.release(held).await.unwrap();
    let (mut one, held) = waiting.over().await;
    let behind: Waiting = Contender::of("count", &scene).await.queue_up().await;
    proxy.strike(fate, MULTI, 1);
    // When the request or its reply is lost
    let released = one.release(held.unwrap()).await;
    // Then it is not known to have released, and who is behind it is let in if and only if it has
    assert_eq!((released, proxy.has_struck()), (Err(Failure::ConnectionLoss), true), "{fate:?}");
    reactor::sleep(SETTLE).await;
    assert_eq!(behind.is_over(), fate == Fate::ReplyLost, "{fate:?}");
    // And in any case once its session has ended
    one.die().await;
    behind.serve().await;
    assert_eq!(scene.nodes().await, 0, "{fate:?}");
}

#[test]
fn a_counted_release_whose_request_or_reply_is_lost_happens_whole_or_with_the_sessions_end() {
    for fate in [Fate::RequestLost, Fate::ReplyLost] {
        reactor::block_on(release_is_lost(fate));
    }
}
