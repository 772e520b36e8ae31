//! The locks of this suite: fewer round trips, or no lists.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_zk::reactor;

use crate::support::contender::{Contender, SETTLE};
use crate::support::rehearsal::{Lines, lines, subject};
use crate::support::sessions::{each_on_scene, on_scene};

const FASTER: [&str; 3] = ["ahead", "baton", "ticket"];

#[test]
fn ahead_watches_two_nodes_and_enters_without_a_read() {
    for flush in [true, false] {
        let lock = || subject("ahead").with("flush", ParamValue::Bool(flush));
        assert_eq!(lock().alone(), lines("create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0"));
        let [_, second, third, last] = lock().queue();
        let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-0\n \
                        delete _c_<id>-lock-1";
        assert_eq!(second, lines(expected));
        for (waiter, own) in [(third, 2), (last, 3)] {
            let (near, far) = (own - 1, own - 2);
            let expected = format!(
                "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-{near}\n \
                 get_data_watch _c_<id>-lock-{far}\n get_children .\n delete _c_<id>-lock-{own}"
            );
            assert_eq!(waiter, lines(&expected));
        }
    }
}

#[test]
fn ahead_keeps_its_remaining_watch_when_a_middle_waiter_leaves() {
    let [_, _, gone, last] = subject("ahead").middle_leaves();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-1\n \
                    get_data_watch _c_<id>-lock-0\n delete _c_<id>-lock-2";
    assert_eq!(gone, lines(expected));
    // The farther node, which it watches already, becomes the nearer one.
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-2\n \
                    get_data_watch _c_<id>-lock-1\n get_children .\n get_data_watch _c_<id>-lock-0\n \
                    get_children .\n delete _c_<id>-lock-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn baton_lists_only_without_a_grant() {
    let alone =
        "create n-\n get_data_watch n-0\n get_children_watch n--000000001\n get_children .\n delete n-0";
    assert_eq!(subject("baton").alone(), lines(alone));
    let [first, second, third, last] = subject("baton").queue();
    assert_eq!(first, lines(alone));
    // The first contender did not know of any waiter.
    let expected = "create n-\n get_data_watch n-1\n get_children_watch n-0\n get_children .\n \
                    multi setData n-2; delete n-1";
    assert_eq!(second, lines(expected));
    let expected = "create n-\n get_data_watch n-2\n get_children_watch n-1\n multi setData n-3; delete n-2";
    assert_eq!(third, lines(expected));
    let expected = "create n-\n get_data_watch n-3\n get_children_watch n-2\n multi setData n-4; delete n-3\n \
                    get_children .\n delete n-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn baton_holder_finds_the_next_waiter_when_one_has_left() {
    let [_, holder, gone, last] = subject("baton").middle_leaves();
    assert_eq!(gone, lines("create n-\n get_data_watch n-2\n get_children_watch n-1\n delete n-2"));
    let expected = "create n-\n get_data_watch n-1\n get_children_watch n-0\n get_children .\n \
                    multi setData n-3; delete n-1";
    assert_eq!(holder, lines(expected));
    let expected = "create n-\n get_data_watch n-3\n get_children_watch n-2\n get_children .\n \
                    get_children_watch n-1\n multi setData n-4; delete n-3\n get_children .\n delete n-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn ticket_sends_three_requests_alone_five_in_a_queue_and_no_list() {
    let alone = "create n-\n get_data .\n multi setData .; delete n-0";
    assert_eq!(subject("ticket").alone(), lines(alone));
    let [first, _, third, last] = subject("ticket").queue();
    assert_eq!(first, lines(alone));
    for (waiter, own) in [(third, 2), (last, 3)] {
        let before = own - 1;
        let expected = format!(
            "create n-\n get_data .\n get_data_watch n-{before}\n get_data .\n multi setData .; delete n-{own}"
        );
        assert_eq!(waiter, lines(&expected));
    }
}

#[test]
fn ticket_lists_once_when_a_waiter_has_left() {
    let [_, _, gone, last] = subject("ticket").middle_leaves();
    assert_eq!(gone, lines("create n-\n get_data .\n get_data_watch n-1\n delete n-2"));
    let expected = "create n-\n get_data .\n get_data_watch n-2\n get_data .\n get_children .\n \
                    get_data_watch n-1\n get_data .\n multi setData .; delete n-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn timed_out_waiter_leaves_no_node() {
    let deleted = |lock: &'static str| -> (Lines, usize) {
        let (sent, left) = subject(lock).timed_out();
        (sent[sent.len() - 1..].to_vec(), left)
    };
    assert_eq!(deleted("ahead"), (lines("delete _c_<id>-lock-1"), 1));
    assert_eq!(deleted("baton"), (lines("delete n-1"), 1));
    assert_eq!(deleted("ticket"), (lines("delete n-1"), 1));
}

#[test]
fn dead_holder_is_succeeded_by_the_waiters_in_order() {
    each_on_scene(&FASTER, async |name, scene| {
        // Given a holder that was itself handed the lock, and three waiters
        let (mut first, held) = Contender::holding(name, &scene).await;
        let second = Contender::of(name, &scene).await.queue_up().await;
        let third = Contender::of(name, &scene).await.queue_up().await;
        let (fourth, fifth) = (
            Contender::of(name, &scene).await.queue_up().await,
            Contender::of(name, &scene).await.queue_up().await,
        );
        first.release(held).await.unwrap();
        second.serve().await;
        let (holder, held) = third.over().await;
        assert!(held.is_ok(), "{name}");
        // When its session ends while it holds
        holder.die().await;
        // Then the others get the lock in order
        fourth.serve().await;
        fifth.serve().await;
        assert_eq!(scene.nodes().await, 0, "{name}");
    });
}

#[test]
fn dead_waiter_admits_no_other_before_the_release() {
    each_on_scene(&FASTER, async |name, scene| {
        // Given a holder and two waiters, of which the first one's session ends
        let (mut holder, held) = Contender::holding(name, &scene).await;
        let dying = Contender::of(name, &scene).await;
        let session = dying.session.clone();
        let waiting = dying.queue_up().await;
        let next = Contender::of(name, &scene).await.queue_up().await;
        drop(waiting);
        session.close(Duration::from_secs(5)).await;
        reactor::sleep(SETTLE).await;
        // Then the waiter behind it goes on waiting
        assert!(!next.is_over(), "{name}: let in beside the holder");
        assert_eq!(scene.nodes().await, 2, "{name}");
        // And gets the lock after the release
        holder.release(held).await.unwrap();
        next.serve().await;
    });
}

#[test]
fn newcomer_during_a_release_is_served_in_time_and_not_early() {
    each_on_scene(&FASTER, async |name, scene| {
        let mut one = Contender::of(name, &scene).await;
        let mut other = Contender::of(name, &scene).await;
        // Both in the same flush, in either order: the release finds no waiter, or a new one.
        for round in 0..200 {
            let held = one.acquire(Mode::Write).await.unwrap();
            let newcomer = if round % 2 == 0 {
                futures_util::future::join(one.release(held), other.acquire(Mode::Write)).await.1.unwrap()
            } else {
                futures_util::future::join(other.acquire(Mode::Write), one.release(held)).await.0.unwrap()
            };
            other.release(newcomer).await.unwrap();
        }
        assert_eq!(scene.nodes().await, 0, "{name}");
    });
}

/// Acquires and releases, asserting each time that no other contender is inside. A contender that rests is
/// sometimes alone.
async fn contend(
    mut contender: Contender,
    inside: Rc<Cell<bool>>,
    left: Rc<Cell<i32>>,
    rest: Option<Duration>,
) -> i32 {
    let mut acquired = 0;
    while left.get() > 0 {
        let held = contender.acquire(Mode::Write).await.unwrap();
        assert!(!inside.replace(true), "two inside at once");
        left.set(left.get() - 1);
        acquired += 1;
        if left.get() % 4 == 0 {
            // Gives other contenders' requests the time to come in between.
            reactor::sleep(Duration::from_micros(500)).await;
        }
        assert!(inside.replace(false), "somebody else has left");
        contender.release(held).await.unwrap();
        if let Some(rest) = rest.filter(|_| left.get() % 3 == 0) {
            reactor::sleep(rest).await;
        }
    }
    acquired
}

/// A lock with its parameters.
pub(super) struct Sharer<'a> {
    pub(super) name: &'a str,
    pub(super) params: Params,
}

/// Runs `handoffs` handoffs in a closed loop among contenders of these locks on one queue, which rest at
/// times. Returns each contender's acquisitions.
pub(super) fn closed_loop(sharers: &[Sharer<'_>], handoffs: i32, rest: Option<Duration>) -> Vec<i32> {
    on_scene(async |scene| {
        let (inside, left) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(handoffs)));
        let mut running = Vec::new();
        for Sharer { name, params } in sharers {
            let contender = Contender::with(name, params, &scene).await;
            let contending = contend(contender, Rc::clone(&inside), Rc::clone(&left), rest);
            running.push(reactor::spawn_local(contending));
        }
        let mut acquired = Vec::new();
        for task in running {
            acquired.push(task.await);
        }
        assert_eq!(scene.nodes().await, 0);
        acquired
    })
}

/// Like [`closed_loop`] for locks with their defaults, without a rest.
fn plain_loop(names: &[&str], handoffs: i32) -> Vec<i32> {
    let sharers: Vec<_> = names.iter().map(|name| Sharer { name, params: Params::new() }).collect();
    closed_loop(&sharers, handoffs, None)
}

#[test]
fn ahead_shares_a_queue_with_curators_mutex() {
    let acquired =
        plain_loop(&["ahead", "curator-mutex", "ahead", "ahead", "curator-mutex", "curator-mutex"], 1_200);
    assert!(acquired.iter().sum::<i32>() >= 1_200);
    // First in, first out: no contender is left behind.
    assert!(acquired.iter().all(|count| *count > 100), "{acquired:?}");
}

#[test]
fn each_lock_excludes_in_a_closed_loop() {
    for name in FASTER {
        let acquired = plain_loop(&[name; 5], 1_000);
        assert!(acquired.iter().all(|count| *count > 100), "{name}: {acquired:?}");
    }
}
