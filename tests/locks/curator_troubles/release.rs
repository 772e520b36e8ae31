//! CURATOR-678: a release without a connection fails, and the lock object forgets that it held the lock.

use std::time::{Duration, Instant};

use zklockbench_core::catalog::ParamValue;
use zklockbench_zk::{Failure, runtime};

use super::java_with;
use crate::support::contender::{Contender, SETTLE, words};
use crate::support::proxy::Fate;
use crate::support::sessions::behind_wire;

/// Session timeout, longer than any loss of the connection here.
const TIMEOUT_MS: &str = "30000";
/// Opcode of a delete.
const DELETE: i32 = 2;

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn curator_678_occurs_in_java_when_a_holder_releases_while_disconnected() {
    behind_wire(async |scene, proxy| {
        // Given a Java holder behind a proxy that retries requests once, and one of our waiters
        let mut java = java_with(&[&proxy.connect, &scene.lock, TIMEOUT_MS, "1"]).await;
        java.obeys("acquire a mutex", "a in mutex").await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        // When the connection is cut and the holder releases
        proxy.cut();
        java.says("state SUSPENDED").await;
        java.obeys("release a mutex", "a failed ConnectionLossException").await;
        // Then the lock object reports that it does not hold the lock, although its node still exists
        java.obeys("holds a mutex", "a holds false").await;
        assert_eq!((scene.nodes().await, waiting.is_over()), (2, false));
        // And a second release fails, so the user can only wait or end the session
        java.obeys("release a mutex", "a failed IllegalMonitorStateException").await;
        // And when the connection is back, the node is deleted in the background, within the same session
        proxy.mend();
        let back = Instant::now();
        let (mut next, held) = waiting.entered().await;
        println!(
            "CURATOR-678, Java: the node was deleted {:.1} s after the reconnection",
            back.elapsed().as_secs_f64()
        );
        assert!(!java.has_said("state LOST"));
        // And the same thread then acquires the lock
        java.tell("acquire a mutex");
        scene.has_nodes(2).await;
        next.release(held).await.unwrap();
        runtime::sleep(SETTLE).await;
        java.obeys("holds a mutex", "a holds true").await;
        assert_eq!(scene.nodes().await, 1);
    });
}

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn curator_678_occurs_in_java_when_a_delete_is_lost_and_not_retried() {
    behind_wire(async |scene, proxy| {
        // Given a Java holder that does not retry requests
        let mut java = java_with(&[&proxy.connect, &scene.lock, TIMEOUT_MS, "0"]).await;
        java.obeys("acquire a mutex", "a in mutex").await;
        // When its delete is lost with the connection, and the connection can be reopened at once
        proxy.strike(Fate::RequestLost, DELETE, 1);
        java.obeys("release a mutex", "a failed ConnectionLossException").await;
        java.obeys("holds a mutex", "a holds false").await;
        // Then another contender still acquires the lock, because the old node is deleted in the background
        let asked = Instant::now();
        java.says("state RECONNECTED").await;
        java.obeys("acquire b mutex", "b in mutex").await;
        println!(
            "CURATOR-678, Java: another contender inside {:.1} s after the release had failed",
            asked.elapsed().as_secs_f64()
        );
        assert_eq!(scene.nodes().await, 1);
    });
}

#[test]
fn curator_678_occurs_in_our_mutex_when_a_delete_is_lost_and_not_retried() {
    behind_wire(async |scene, proxy| {
        // Given one of our contenders, which does not retry requests, and a waiter
        let mut no_retries = words(&[("retry", "n-times")]);
        no_retries.insert("retry_times".into(), ParamValue::Count(0));
        let first = Contender::by_with(&proxy.connect, "curator-mutex", &no_retries, &scene).await;
        let (mut first, held) = first.enter().await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        // When the delete is lost with the connection
        proxy.strike(Fate::RequestLost, DELETE, 1);
        let begun = Instant::now();
        assert_eq!(first.release(held).await, Err(Failure::ConnectionLoss));
        // Then the node is deleted within the same session, and the waiter is admitted
        let (mut next, next_held) = waiting.entered().await;
        println!(
            "CURATOR-678, ours: another contender inside {:.1} s after the release",
            begun.elapsed().as_secs_f64()
        );
        next.release(next_held).await.unwrap();
        // And the same object can acquire the lock again
        first.cycle().await;
        scene.has_nodes(0).await;
    });
}

#[test]
fn curator_678_does_not_occur_in_our_mutex_when_releases_are_retried() {
    behind_wire(async |scene, proxy| {
        let (mut first, held) = Contender::by(&proxy.connect, "curator-mutex", &scene).await.enter().await;
        proxy.cut();
        let mend = runtime::spawn_local(async move {
            runtime::sleep(Duration::from_secs(1)).await;
            proxy.mend();
            proxy
        });
        first.release(held).await.unwrap();
        let _proxy = mend.await;
        assert_eq!(scene.nodes().await, 0);
    });
}
