//! CURATOR-206 and CURATOR-604: two holders are inside after a session has ended.

use std::time::{Duration, Instant};

use zklockbench_core::catalog::Mode::Write;
use zklockbench_zk::runtime;

use super::java_by;
use crate::support::contender::{Contender, SETTLE, Waiting};
use crate::support::ensemble::shared;
use crate::support::proxy::Proxy;
use crate::support::sessions::{behind_wire, scene};

const TIMEOUT_MS: u32 = 6_000;

/// Runs `work`, and returns its result and duration in seconds.
async fn seconds<T>(work: impl Future<Output = T>) -> (T, f64) {
    let begin = Instant::now();
    let ended = work.await;
    (ended, begin.elapsed().as_secs_f64())
}

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn curator_206_occurs_in_java_when_a_holder_is_disconnected() {
    behind_wire(async |scene, proxy| {
        // Given a Java holder behind a proxy, and one of our waiters
        let mut java = java_by(&proxy.connect, &scene, TIMEOUT_MS).await;
        java.obeys("acquire a mutex", "a in mutex").await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        // When the connection is cut for longer than the session timeout
        proxy.cut();
        let ((), suspended_after) = seconds(java.says("state SUSPENDED")).await;
        let ((mut next, held), next_after) = seconds(waiting.entered()).await;
        // Then both contenders hold the lock. The first holder's listener was notified in time, but its lock
        // object does not report the loss
        java.obeys("holds a mutex", "a holds true").await;
        println!(
            "CURATOR-206, Java, sessions of {TIMEOUT_MS} ms: SUSPENDED after {suspended_after:.1} s, another contender \
             inside {next_after:.1} s later, LOST by then: {}",
            java.has_said("state LOST")
        );
        // And when the first holder reconnects and releases, the second holder's node remains
        proxy.mend();
        java.says("state RECONNECTED").await;
        java.obeys("release a mutex", "a out mutex").await;
        assert_eq!(scene.nodes().await, 1);
        next.release(held).await.unwrap();
    });
}

#[test]
fn curator_206_occurs_in_our_mutex_when_a_holder_is_disconnected() {
    behind_wire(async |scene, proxy| {
        let (mut first, held) = Contender::by(&proxy.connect, "curator-mutex", &scene).await.enter().await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        proxy.cut();
        let ((mut next, next_held), next_after) = seconds(waiting.entered()).await;
        println!(
            "CURATOR-206, ours, sessions of 10 s: another contender inside {next_after:.1} s after the cut"
        );
        let failure = first.release(held).await.unwrap_err();
        assert!(!failure.is_definite(), "{failure}");
        assert_eq!(scene.nodes().await, 1);
        next.release(next_held).await.unwrap();
    });
}

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn curator_604_occurs_in_java_when_a_waiter_finds_the_node_of_its_old_session() {
    runtime::block_on(async {
        // On a busy host, the servers may expire the session before Java reads its node.
        for _ in 0..4 {
            if java_is_in_by_its_old_node().await {
                return;
            }
        }
        panic!("the node always disappeared with its session before Java searched for it");
    });
}

/// Returns whether Java found the node of its abandoned session; checks the consequences if so.
async fn java_is_in_by_its_old_node() -> bool {
    // Given a holder, a Java waiter behind a proxy, and one of our waiters behind the Java waiter
    let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
    let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
    // With more addresses, Java gives up on each address sooner and tries the next one
    let thrice = [proxy.connect.as_str(); 3].join(",");
    let mut java = java_by(&thrice, &scene, TIMEOUT_MS).await;
    java.tell("acquire a mutex");
    scene.has_nodes(2).await;
    runtime::sleep(SETTLE).await;
    let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
    // When Java gets no reply until it abandons its session (its reconnects keep that session alive on the
    // servers), and the holder releases
    proxy.mute();
    java.says("state SUSPENDED").await;
    holder.release(held).await.unwrap();
    java.says("state LOST").await;
    proxy.mend();
    // Then Java holds the lock through its old session's node, although no client keeps that session alive any more
    let ((), java_after) = seconds(async {
        while !java.has_said("a in mutex") && !waiting.is_over() {
            runtime::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let is_in = java.has_said("a in mutex");
    let ((mut next, next_held), next_after) = seconds(waiting.entered()).await;
    if is_in {
        // And when the servers have expired that session, the next waiter is admitted alongside Java
        java.obeys("holds a mutex", "a holds true").await;
        assert_eq!(scene.nodes().await, 1);
        println!(
            "CURATOR-604, Java: inside by its old node {java_after:.1} s after LOST, another contender {next_after:.1} s \
             later"
        );
    }
    next.release(next_held).await.unwrap();
    is_in
}

#[test]
fn curator_604_does_not_occur_in_our_mutex_when_a_waiter_loses_its_session() {
    behind_wire(async |scene, proxy| {
        // Given the same three contenders, with one of our waiters behind the proxy
        let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
        let thrice = [proxy.connect.as_str(); 3].join(",");
        let cut_off = Contender::by(&thrice, "curator-mutex", &scene).await.queue_up().await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        // When no reply reaches this waiter until it has abandoned its session
        proxy.mute();
        holder.release(held).await.unwrap();
        let ((mut cut_off, ended), failed_after) = seconds(cut_off.over()).await;
        // Then the acquire fails, although its node may still exist
        let error = ended.unwrap_err();
        println!("CURATOR-604, ours: {error} after {failed_after:.1} s, {} nodes left", scene.nodes().await);
        // And with a new session, the same object queues up behind the others, while its old node still exists
        let (session, trace) = scene.traced().await;
        let given_up = std::mem::replace(&mut cut_off.session, session);
        cut_off.trace = trace;
        let again = Waiting::start(cut_off, Write);
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(!again.is_over());
        // When the old node has disappeared with its session, the next contender is the only holder
        proxy.mend();
        given_up.close(Duration::from_secs(10)).await;
        let (mut next, next_held) = waiting.entered().await;
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(!again.is_over(), "two contenders are inside");
        next.release(next_held).await.unwrap();
        again.serve().await;
    });
}
