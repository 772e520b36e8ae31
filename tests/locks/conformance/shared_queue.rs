//! Different kinds of contenders exclude each other in one queue, and no contender is left behind.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use zklockbench_core::catalog::{Mode, Params};
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, words};
use crate::support::sessions::{each_on_scene, on_scene};

/// Pause of a contender after some releases, so that other contenders are sometimes alone.
const REST: Duration = Duration::from_millis(3);

#[test]
fn newcomer_during_a_release_is_served_but_never_early() {
    each_on_scene(&["ahead", "baton", "ticket"], async |name, scene| {
        let mut one = Contender::of(name, &scene).await;
        let mut other = Contender::of(name, &scene).await;
        // Both requests are sent in one flush, in either order: the release finds no waiter or a new waiter.
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

/// Acquires and releases, asserting each time that no other contender is inside; returns the number of acquisitions.
async fn contend(mut contender: Contender, inside: Rc<Cell<bool>>, left: Rc<Cell<i32>>) -> i32 {
    let mut acquired = 0;
    while left.get() > 0 {
        let held = contender.acquire(Mode::Write).await.unwrap();
        assert!(!inside.replace(true), "two contenders held the lock at once");
        left.set(left.get() - 1);
        acquired += 1;
        if left.get() % 4 == 0 {
            // Gives requests from other contenders time to arrive.
            runtime::sleep(Duration::from_micros(500)).await;
        }
        assert!(inside.replace(false), "two contenders were inside");
        contender.release(held).await.unwrap();
        if left.get() % 3 == 0 {
            runtime::sleep(REST).await;
        }
    }
    acquired
}

/// Runs handoffs in a closed loop among contenders of these locks, which join by count or by a create.
/// Returns each contender's acquisitions.
fn closed_loop(locks: &[(&str, bool)], handoffs: i32) -> Vec<i32> {
    on_scene(async |scene| {
        let (inside, left) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(handoffs)));
        let mut running = Vec::new();
        for (name, counts) in locks {
            let params = if *counts { words(&[("join", "count")]) } else { Params::new() };
            let contender = Contender::with(name, &params, &scene).await;
            running.push(runtime::spawn_local(contend(contender, Rc::clone(&inside), Rc::clone(&left))));
        }
        let mut acquired = Vec::new();
        for task in running {
            acquired.push(task.await);
        }
        assert_eq!(scene.nodes().await, 0);
        acquired
    })
}

#[test]
fn counting_and_listing_contenders_share_a_queue() {
    let queues: [&[(&str, bool)]; 5] = [
        &[("curator-mutex", true), ("curator-mutex", false), ("ahead", true), ("ahead", false)],
        &[("curator-read-write", true), ("curator-read-write", false), ("curator-read-write", true)],
        &[("predecessor-watch", true), ("predecessor-watch", false), ("predecessor-watch", true)],
        &[("count", true), ("baton", false), ("baton", true), ("baton", false)],
        &[("count", true), ("count", true)],
    ];
    for locks in queues {
        let acquired = closed_loop(locks, 800);
        assert!(acquired.iter().sum::<i32>() >= 800);
        // First in, first out: no contender is left behind.
        assert!(acquired.iter().all(|count| *count > 50), "{locks:?}: {acquired:?}");
    }
}
