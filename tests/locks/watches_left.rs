//! `exists` leaves a watch on a node that is already gone; `getData` does not. The servers' counts and a trial's
//! results show the difference.

use std::time::Duration;

use zklockbench_core::catalog::Mode;
use zklockbench_record::figures;
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, Waiting, words};
use crate::support::ensemble;
use crate::support::proxy::{Fate, Proxy};
use crate::support::sessions::scene;
use crate::support::trials;
use crate::zookeeper::counter;

const LOCK: &str = "predecessor-watch";
const GET_CHILDREN: i32 = 8;

fn watches(connect: &str) -> i64 {
    connect.split(',').map(|server| counter(server, "zk_watch_count")).sum()
}

/// Waits until the number of watches has changed by `more`. A server discards the watches of a closed session
/// shortly after it has replied to the close.
async fn settle(connect: &str, before: i64, more: i64, when: &str) {
    for _ in 0..1_200 {
        if watches(connect) - before == more {
            return;
        }
        runtime::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(watches(connect) - before, more, "{when}");
}

#[test]
fn exists_leaves_a_watch_on_a_missing_predecessor_but_get_data_does_not() {
    // Given servers on which no other client sets watches
    let alone = runtime::block_on(ensemble::alone());
    let connect = &alone.connect();
    for (watch, request, left) in [("exists", "exists_watch", 1), ("data", "get_data_watch", 0)] {
        runtime::block_on(async {
            // Given a holder and, on the same server, a waiter that has not yet received its own list
            let scene = scene(connect).await;
            let before = watches(connect);
            let (beside, proxy) = (Proxy::before(connect), Proxy::before(connect));
            let (mut holder, held) = Contender::by(&beside.connect, LOCK, &scene).await.enter().await;
            proxy.strike(Fate::ReplyHeld, GET_CHILDREN, 1);
            let params = words(&[("watch", watch)]);
            let waiter = Contender::numbered(&proxy.connect, (LOCK, 1), &params, &scene).await;
            let waiter = Waiting::start(waiter, Mode::Write);
            while !proxy.has_struck() {
                runtime::sleep(Duration::from_millis(5)).await;
            }
            // When the holder releases before the waiter sets its watch
            holder.release(held).await.unwrap();
            proxy.let_go();
            // Then the waiter reads a node that does not exist, lists the queue again, and holds the lock
            let (mut waiter, held) = waiter.entered().await;
            assert_eq!(waiter.kinds(), ["create", "get_children", request, "get_children"]);
            assert_eq!(watches(connect) - before, left, "{watch}, while it holds");
            // And the watch stays until the session ends, because that node is never created again
            waiter.release(held).await.unwrap();
            assert_eq!(watches(connect) - before, left, "{watch}, after the release");
            waiter.die().await;
            settle(connect, before, 0, &format!("{watch}, after the session")).await;
            holder.die().await;
        });
    }
}

#[tokio::test]
async fn results_report_the_servers_count_of_leftover_watches() {
    let local = ensemble::start(1).await;
    // Given holds of zero length, so predecessors may disappear before they are read
    let left = async |watch: &str| {
        let lines = format!(
            "strategies = [{{ name = \"{LOCK}\", watch = \"{watch}\" }}]\ncontenders = 4\nhold = \"0ms\"\n\
             acquisitions = 500\n"
        );
        let trial = trials::run_one_on(&local, &lines).await;
        figures::WATCHES_LEFT.of(&trial).unwrap()
    };
    // Then `exists` eventually leaves watches on nodes that are never created again; `getData` leaves none
    let (mut trials, mut by_exists, mut by_data) = (0, 0.0, 0.0);
    while by_exists == 0.0 && trials < 20 {
        by_exists += left("exists").await;
        by_data += left("data").await;
        trials += 1;
    }
    assert!(by_exists > 0.0, "exists left no watch in {trials} trials");
    assert_eq!(by_data, 0.0);
}

#[tokio::test]
async fn number_of_watches_left_is_unknown_without_server_counts() {
    let local = ensemble::start(1).await;
    let lines = format!("strategies = [\"{LOCK}\"]\ncontenders = 2\nhold = \"1ms\"\nacquisitions = 5\n");
    let mut trial = trials::run_one_on(&local, &lines).await;
    assert_eq!(figures::WATCHES_LEFT.of(&trial), Some(0.0));
    trial.servers[0].after.clear();
    assert_eq!(figures::WATCHES_LEFT.of(&trial), None);
    trial.servers.clear();
    assert_eq!(figures::WATCHES_LEFT.of(&trial), None);
}
