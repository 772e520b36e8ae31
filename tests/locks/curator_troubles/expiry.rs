//! CURATOR-206 and CURATOR-604: two are inside after the end of a session.

use std::time::{Duration, Instant};

use zklockbench_core::catalog::Mode::Write;
use zklockbench_zk::reactor;

use super::java_by;
use crate::support::contender::{Contender, SETTLE, Waiting};
use crate::support::ensemble::shared;
use crate::support::proxy::Proxy;
use crate::support::sessions::{behind_wire, scene};

const TIMEOUT_MS: u32 = 6_000;

/// Seconds until that has ended.
async fn seconds<T>(work: impl Future<Output = T>) -> (T, f64) {
    let begin = Instant::now();
    let ended = work.await;
    (ended, begin.elapsed().as_secs_f64())
}

#[test]
fn curator_206_reproduced_with_java_a_holder_that_is_cut_off_keeps_the_lock_beside_the_next_one() {
    behind_wire(async |scene, proxy| {
        // Given a holder of Java's behind a wire, and one of ours that waits
        let mut java = java_by(&proxy.connect, &scene, TIMEOUT_MS).await;
        java.obeys("acquire a mutex", "a in mutex").await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        // When the wire is cut for longer than the session lives
        proxy.cut();
        let ((), told) = seconds(java.says("state SUSPENDED")).await;
        let ((mut next, held), let_in) = seconds(waiting.over()).await;
        let held = held.unwrap();
        // Then two hold it, and the lock object of the first does not say so; a listener was told in time
        java.obeys("holds a mutex", "a holds true").await;
        println!(
            "CURATOR-206, Java, sessions of {TIMEOUT_MS} ms: told SUSPENDED after {told:.1} s, another in \
             {let_in:.1} s later, told LOST by then: {}",
            java.has_said("state LOST")
        );
        // And when the first comes back and releases, the second one's node stays
        proxy.mend();
        java.says("state RECONNECTED").await;
        java.obeys("release a mutex", "a out mutex").await;
        assert_eq!(scene.nodes().await, 1);
        next.release(held).await.unwrap();
    });
}

#[test]
fn curator_206_reproduced_with_our_mutex_its_release_is_the_first_to_say_so() {
    behind_wire(async |scene, proxy| {
        let mut first = Contender::by(&proxy.connect, "curator-mutex", &scene).await;
        let held = first.acquire(Write).await.unwrap();
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        proxy.cut();
        let ((mut next, next_held), let_in) = seconds(waiting.over()).await;
        println!("CURATOR-206, ours, sessions of 10 s: another in {let_in:.1} s after the cut");
        let next_held = next_held.unwrap();
        let failure = first.release(held).await.unwrap_err();
        assert!(!failure.is_definite(), "{failure}");
        assert_eq!(scene.nodes().await, 1);
        next.release(next_held).await.unwrap();
    });
}

#[test]
fn curator_604_reproduced_with_java_a_waiter_takes_the_node_of_its_last_session_for_its_own_and_two_are_in() {
    reactor::block_on(async {
        // On a busy host Java may look for its node only after the servers have expired the session.
        for _ in 0..4 {
            if java_is_in_by_its_old_node().await {
                return;
            }
        }
        panic!("each time the node had gone with its session before Java looked for it");
    });
}

/// Whether Java found the node of the session that it had given up; if so, what follows from that is checked.
async fn java_is_in_by_its_old_node() -> bool {
    // Given a holder, a waiter of Java's behind a wire, and one of ours behind that
    let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
    let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
    // The more addresses, the sooner it gives one up and tries the next
    let thrice = [proxy.connect.as_str(); 3].join(",");
    let mut java = java_by(&thrice, &scene, TIMEOUT_MS).await;
    java.tell("acquire a mutex");
    scene.has_nodes(2).await;
    reactor::sleep(SETTLE).await;
    let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
    // When no answer reaches Java for so long that it gives its session up by itself, while its attempts to
    // reconnect keep that session alive on the servers; and the holder releases meanwhile
    proxy.mute();
    java.says("state SUSPENDED").await;
    holder.release(held).await.unwrap();
    java.says("state LOST").await;
    proxy.mend();
    // Then it holds by its old session's node, although nobody keeps that alive any more
    let ((), came) = seconds(async {
        while !java.has_said("a in mutex") && !waiting.is_over() {
            reactor::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let is_in = java.has_said("a in mutex");
    let ((mut next, next_held), let_in) = seconds(waiting.over()).await;
    let next_held = next_held.unwrap();
    if is_in {
        // And when the servers have expired that session, the next one is in beside it
        java.obeys("holds a mutex", "a holds true").await;
        assert_eq!(scene.nodes().await, 1);
        println!(
            "CURATOR-604, Java: in {came:.1} s after LOST by its old node, another in {let_in:.1} s later"
        );
    }
    next.release(next_held).await.unwrap();
    is_in
}

#[test]
fn curator_604_absent_in_our_mutex_an_acquire_ends_with_its_session() {
    behind_wire(async |scene, proxy| {
        // Given the same three, ours behind the wire
        let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
        let thrice = [proxy.connect.as_str(); 3].join(",");
        let cut_off = Contender::by(&thrice, "curator-mutex", &scene).await.queue_up().await;
        let waiting = Contender::of("curator-mutex", &scene).await.queue_up().await;
        // When no answer reaches it until it has given its session up
        proxy.mute();
        holder.release(held).await.unwrap();
        let ((mut cut_off, ended), gave_up) = seconds(cut_off.over()).await;
        // Then it does not hold, whether its node is still there or not
        let why = ended.unwrap_err();
        println!("CURATOR-604, ours: {why} after {gave_up:.1} s, {} nodes then", scene.nodes().await);
        // And with a new session the same object queues up behind the others, while its old node is still there
        let (session, trace) = scene.traced().await;
        let given_up = std::mem::replace(&mut cut_off.session, session);
        cut_off.trace = trace;
        let again = Waiting::start(cut_off, Write);
        reactor::sleep(Duration::from_secs(1)).await;
        assert!(!again.is_over());
        // Which goes with its session; then the next one is in alone
        proxy.mend();
        given_up.close(Duration::from_secs(10)).await;
        let (mut next, next_held) = waiting.over().await;
        reactor::sleep(Duration::from_secs(1)).await;
        assert!(!again.is_over(), "two are in");
        next.release(next_held.unwrap()).await.unwrap();
        again.serve().await;
    });
}
