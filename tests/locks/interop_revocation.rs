//! Curator in Java and this suite's `curator-mutex` revoke each other's locks.

use std::time::{Duration, Instant};

use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, words};
use crate::support::foreign::Obedient;
use crate::support::{ensemble, foreign, sessions};

/// Time limit for a revocation, generous enough to include Java's start.
const LONG: Duration = Duration::from_secs(60);

/// Starts a Java client of a lock.
fn java(lock: &str, what: &str) -> Obedient {
    let mut java = foreign::java("CuratorRevocation");
    java.args([ensemble::shared(), lock, what]);
    Obedient::start(java)
}

#[test]
fn our_holder_releases_when_java_requests_revocation() {
    let params = words(&[("revocation", "allowed")]);
    runtime::block_on(async {
        let scene = sessions::scene(ensemble::shared()).await;
        let (mut holder, held) = Contender::with("curator-mutex", &params, &scene).await.enter().await;
        let java = java(&scene.lock, "ask");
        assert!(holder.hold(LONG).await, "no revocation request");
        holder.release(held).await.unwrap();
        java.end();
    });
}

#[test]
#[ignore = "long: the other direction is always tested"]
fn javas_holder_releases_when_our_waiter_requests_revocation() {
    let mut asks = words(&[("revocation", "asked-for")]);
    asks.insert("revoke_after".into(), ParamValue::Duration(Duration::from_millis(200)));
    runtime::block_on(async {
        let scene = sessions::scene(ensemble::shared()).await;
        let java = java(&scene.lock, "hold");
        java.says("held").await;
        // When our waiter is behind a holder that would hold forever
        let begun = Instant::now();
        let mut waiter = Contender::with("curator-mutex", &asks, &scene).await;
        let held = waiter.acquire_within(LONG, Mode::Write).await.unwrap();
        // Then the waiter requests revocation after its delay, and is admitted
        assert!(begun.elapsed() >= Duration::from_millis(200));
        assert!(waiter.kinds().contains(&"set_data"), "{:?}", waiter.kinds());
        assert_eq!(java.end(), "held\nleft");
        waiter.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}
