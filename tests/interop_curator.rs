//! Java's own Curator and this suite's locks exclude each other on one path, in both directions of the queue.
//!
//! In the critical section each holder creates the ephemeral node `inside` and deletes it again: whoever finds it
//! there has met another holder. The node `last` tells which side was inside before, so the handoffs from one side
//! to the other are counted by both.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what prepares a test may stop it at once
#![allow(clippy::print_stdout)] // the figures are part of the result

#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "support/sessions.rs"]
mod sessions;

use std::cell::Cell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use sessions::patience;
use tempfile::TempDir;
use zklockbench::catalog::{Mode, Params};
use zklockbench::lock::{LockConfig, find};
use zklockbench::zk::{NodeKind, Session, reactor};

const CLASS_PATH: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar";
/// Contenders on each side.
const CONTENDERS: usize = 3;
/// Acquisitions of the Java side; ours go on as long as it does.
const ACQUISITIONS: usize = 1_100;
/// Handoffs from one side to the other that a mix must have had to prove anything; of all about 2,200 each third
/// is one.
const CROSSINGS: u64 = 350;

/// What one side saw.
#[derive(Debug, Default)]
struct Side {
    acquired: Cell<u64>,
    violations: Cell<u64>,
    crossings: Cell<u64>,
}

fn one_more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// Starts Java's contenders; their classes are in the directory.
fn java(lock: &str, scene: &str, kind: &str) -> (Child, TempDir) {
    let classes = tempfile::tempdir().unwrap();
    let status = Command::new("javac")
        .arg("-d")
        .arg(classes.path())
        .args(["-cp", CLASS_PATH])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/CuratorContenders.java"))
        .status()
        .expect("javac: scripts/install --for-tests installs it");
    assert!(status.success());
    let class_path = format!("{}:{CLASS_PATH}", classes.path().display());
    let contenders = Command::new("java")
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-cp", &class_path, "CuratorContenders"])
        .args([ensemble::shared(), lock, scene, kind])
        .args([CONTENDERS.to_string(), ACQUISITIONS.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    (contenders, classes)
}

/// One acquire and release of ours, with a look at who is inside.
async fn turn(session: &Session, lock: &mut dyn zklockbench::lock::Strategy, scene: &str, side: &Side) {
    let held = lock.acquire(session, Mode::Write, &patience(Some(Duration::from_secs(60)))).await.unwrap();
    one_more(&side.acquired);
    let (inside, last) = (format!("{scene}/inside"), format!("{scene}/last"));
    match session.create(&inside, &[], NodeKind::Ephemeral).await {
        Ok(_) => {
            if session.get_data(&last).await.unwrap().0 != b"rust" {
                one_more(&side.crossings);
                session.set_data(&last, b"rust").await.unwrap();
            }
            session.delete(&inside).await.unwrap();
        }
        Err(_) => one_more(&side.violations),
    }
    lock.release(session, held).await.unwrap();
}

/// Lets both sides contend for one lock until Java's has had its acquisitions.
fn mix(strategy: &str, kind: &str) {
    let entry = find(strategy).unwrap_or_else(|| panic!("no strategy {strategy}"));
    let side = Rc::new(Side::default());
    let seen = Rc::clone(&side);
    let java_saw = reactor::block_on(async move {
        let scene = sessions::scene(ensemble::shared()).await;
        let (lock, nodes) = (format!("{}/lock", scene.lock), scene.lock.clone());
        let session = scene.session().await;
        session.create(&lock, &[], NodeKind::Persistent).await.unwrap();
        session.create(&format!("{nodes}/last"), b"nobody", NodeKind::Persistent).await.unwrap();
        let (mut java, _classes) = java(&lock, &nodes, kind);
        let over = Rc::new(Cell::new(false));
        let mut contenders = Vec::new();
        for _ in 0..CONTENDERS {
            let (session, side, over) = (scene.session().await, Rc::clone(&side), Rc::clone(&over));
            let mut own =
                (entry.build)(&LockConfig { path: lock.clone(), params: Params::new(), contender: 0 });
            let nodes = nodes.clone();
            contenders.push(reactor::spawn_local(async move {
                while !over.get() {
                    turn(&session, own.as_mut(), &nodes, &side).await;
                }
            }));
        }
        while java.try_wait().unwrap().is_none() {
            reactor::sleep(Duration::from_millis(50)).await;
        }
        over.set(true);
        for contender in contenders {
            contender.await;
        }
        let output = java.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    });
    let numbers: Vec<u64> = java_saw.split_whitespace().map(|number| number.parse().unwrap()).collect();
    println!("{strategy}: ours {seen:?}; java {numbers:?}");
    assert_eq!(numbers[0], ACQUISITIONS as u64);
    assert_eq!((seen.violations.get(), numbers[1]), (0, 0), "{strategy}: two inside at once");
    let crossings = seen.crossings.get() + numbers[2];
    assert!(crossings >= CROSSINGS, "{strategy}: {crossings} handoffs between the sides");
}

#[test]
fn the_mutexes_exclude_each_other() {
    mix("curator-mutex", "mutex");
}

#[test]
fn the_semaphore_mutexes_exclude_each_other() {
    mix("curator-semaphore-mutex", "semaphore-mutex");
}

#[test]
fn writers_of_the_read_write_locks_exclude_each_other() {
    mix("curator-read-write", "write");
}
