//! Curator in Java and this suite's `curator-mutex` revoke each other's locks.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, words};
use crate::support::foreign::Bounded;
use crate::support::{ensemble, foreign, sessions};

/// Time limit for a revocation, generous enough to include Java's start.
const LONG: Duration = Duration::from_secs(60);

/// Starts a Java client of a lock. Returns the process and its output.
fn java(lock: &str, what: &str) -> (Bounded, BufReader<ChildStdout>) {
    let mut java = foreign::java("CuratorRevocation")
        .args([ensemble::shared(), lock, what])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(java.stdout.take().unwrap());
    (Bounded(java), said)
}

fn line(said: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn our_holder_releases_when_java_requests_revocation() {
    let params = words(&[("revocation", "allowed")]);
    runtime::block_on(async {
        let scene = sessions::scene(ensemble::shared()).await;
        let (mut holder, held) = Contender::with("curator-mutex", &params, &scene).await.enter().await;
        let (mut java, _said) = java(&scene.lock, "ask");
        assert!(holder.hold(LONG).await, "no revocation request");
        holder.release(held).await.unwrap();
        assert!(java.0.wait().unwrap().success());
    });
}

#[test]
#[ignore = "long: the other direction is always tested"]
fn javas_holder_releases_when_our_waiter_requests_revocation() {
    let mut asks = words(&[("revocation", "asked-for")]);
    asks.insert("revoke_after".into(), ParamValue::Duration(Duration::from_millis(200)));
    runtime::block_on(async {
        let scene = sessions::scene(ensemble::shared()).await;
        let (mut java, mut said) = java(&scene.lock, "hold");
        assert_eq!(line(&mut said), "held");
        // When our waiter is behind a holder that would hold forever
        let begun = Instant::now();
        let mut waiter = Contender::with("curator-mutex", &asks, &scene).await;
        let held = waiter.acquire_within(LONG, Mode::Write).await.unwrap();
        // Then the waiter requests revocation after its delay, and is admitted
        assert!(begun.elapsed() >= Duration::from_millis(200));
        assert!(waiter.kinds().contains(&"set_data"), "{:?}", waiter.kinds());
        assert_eq!(line(&mut said), "left");
        assert!(java.0.wait().unwrap().success());
        waiter.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}
