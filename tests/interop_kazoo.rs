//! Our locks and Python's kazoo on one path, against each other: only one is ever inside.
//!
//! How a violation is found. There is one more node, the owner's. Who gets in reads it and overwrites it on the
//! condition that its version is still the one read; on the way out it overwrites it again, on the condition
//! that nobody has since. The leader puts all these writes in one order, so:
//! - Nothing is missed: had another come in between a holder's two writes, the second would meet a version that
//!   the holder does not know, and be refused.
//! - Nothing is invented: who is let in has seen the node of the one before disappear, on its own server or, by
//!   a sync, on another; that server has then also applied the last write of the one before, which came earlier.
//!
//! The writes say who made them, so whoever comes in also knows whether the lock has passed from one kind of
//! client to the other. Two kinds that are known to overlook each other show that violations are indeed found.

// What prepares a test may stop it at once; a test that compares nothing must say so.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "support/sessions.rs"]
mod sessions;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use sessions::{Scene, patience, scene};
use zklockbench::catalog::{Mode, ParamValue, Params};
use zklockbench::lock::{LockConfig, find};
use zklockbench::zk::reactor;
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// Sessions on either side.
const SESSIONS: usize = 3;
/// Times that each session goes in: all together more than 500 handoffs.
const ROUNDS: usize = 100;
const HOLD: Duration = Duration::from_millis(1);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/contend.py");

/// What one side has seen.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    acquired: usize,
    violations: usize,
    /// Times that the one before was of the other kind.
    crossings: usize,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.violations += other.violations;
        self.crossings += other.crossings;
    }
}

/// A Python that has kazoo.
fn python() -> Option<&'static str> {
    let has_kazoo = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", "import kazoo"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_kazoo);
    let can_be_installed = Path::new("/usr/bin/apt-get").exists();
    assert!(found.is_some() || !can_be_installed, "no kazoo; run scripts/install --for-tests");
    if found.is_none() {
        eprintln!("nothing is compared: this machine's Python has no kazoo");
    }
    found
}

/// The other side: a process with kazoo's sessions.
struct Kazoo {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Kazoo {
    /// Starts it and waits until its sessions are open.
    fn start(python: &str, scene: &Scene, patterns: &[&str]) -> Self {
        let mut command = Command::new(python);
        command.args([SCRIPT, ensemble::shared(), &scene.lock, &owner_of(scene)]);
        command.args([SESSIONS.to_string(), ROUNDS.to_string()]).args(patterns);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { process, said }
    }

    fn go(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn tally(mut self) -> Tally {
        let mut text = String::new();
        self.said.read_to_string(&mut text).unwrap();
        assert!(self.process.wait().unwrap().success());
        let numbers: Vec<usize> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [acquired, violations, crossings] = numbers[..] else { panic!("{text}") };
        Tally { acquired, violations, crossings }
    }
}

fn owner_of(scene: &Scene) -> String {
    format!("{}-owner", scene.lock)
}

/// What a holder does inside; the same as in `contend.py`.
async fn stay_inside(client: &Client, owner: &str) -> Tally {
    client.sync(owner).await.unwrap();
    let (data, before) = client.get_data(owner).await.unwrap();
    let mut seen = Tally {
        acquired: 1,
        violations: usize::from(data.starts_with(b"in ")),
        crossings: usize::from(data == b"out kazoo"),
    };
    let undisturbed = async {
        let entered = client.set_data(owner, b"in rust", Some(before.version)).await?;
        reactor::sleep(HOLD).await;
        client.set_data(owner, b"out rust", Some(entered.version)).await
    };
    match undisturbed.await {
        Ok(_) => {}
        Err(Error::BadVersion) => seen.violations += 1,
        Err(other) => panic!("{other}"),
    }
    seen
}

/// One of our contenders: its rounds, and what it saw.
async fn contend(scene: &Scene, (strategy, params): (&str, Params)) -> Tally {
    let config = LockConfig { path: scene.lock.clone(), params, contender: 0 };
    let mut lock = (find(strategy).unwrap().build)(&config);
    let session = scene.session().await;
    let client = Client::connect(ensemble::shared()).await.unwrap();
    let mut seen = Tally::default();
    for _ in 0..ROUNDS {
        let patience = patience(Some(Duration::from_secs(60)));
        let held = lock.acquire(&session, Mode::Write, &patience).await.unwrap();
        seen.add(stay_inside(&client, &owner_of(scene)).await);
        lock.release(&session, held).await.unwrap();
    }
    seen
}

/// One of our locks: its name and its parameters.
type Ours = (&'static str, Params);

fn plain(strategy: &'static str) -> Ours {
    (strategy, Params::new())
}

/// Both sides at once: what ours saw, what kazoo's saw.
fn mix(lock: &Ours, patterns: &[&str]) -> Option<(Tally, Tally)> {
    let python = python()?;
    Some(reactor::block_on(async {
        let scene = std::rc::Rc::new(scene(ensemble::shared()).await);
        let outside = Client::connect(ensemble::shared()).await.unwrap();
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        outside.create(&owner_of(&scene), b"out nobody", &options).await.unwrap();
        let mut kazoo = Kazoo::start(python, &scene, patterns);
        kazoo.go();
        let contenders: Vec<_> = (0..SESSIONS)
            .map(|_| {
                let (scene, lock) = (std::rc::Rc::clone(&scene), lock.clone());
                reactor::spawn_local(async move { contend(&scene, lock).await })
            })
            .collect();
        let mut ours = Tally::default();
        for contender in contenders {
            ours.add(contender.await);
        }
        (ours, kazoo.tally())
    }))
}

/// Everybody was in as often as it should, the lock passed between the two kinds many times either way, and
/// nobody was ever disturbed inside.
fn assert_exclusion(lock: &Ours, patterns: &[&str]) {
    let Some((ours, kazoos)) = mix(lock, patterns) else { return };
    let told = format!("{lock:?}: ours {ours:?}, kazoo's {kazoos:?}");
    assert_eq!((ours.acquired, kazoos.acquired), (SESSIONS * ROUNDS, SESSIONS * ROUNDS), "{told}");
    assert_eq!((ours.violations, kazoos.violations), (0, 0), "{told}");
    assert!(ours.crossings >= 50 && kazoos.crossings >= 50, "they hardly met: {told}");
}

#[test]
fn our_kazoo_and_pythons_exclude_each_other() {
    assert_exclusion(&plain("kazoo"), &[]);
}

#[test]
fn our_kazoo_and_pythons_exclude_each_other_when_both_count_more_names() {
    let params = Params::from([("extra_patterns".to_owned(), ParamValue::Word("lock-".to_owned()))]);
    assert_exclusion(&("kazoo", params), &["lock-"]);
}

#[test]
fn curators_mutex_and_a_kazoo_that_knows_its_names_exclude_each_other() {
    assert_exclusion(&plain("curator-mutex"), &["lock-"]);
}

#[test]
fn gos_lock_and_a_kazoo_that_knows_its_names_exclude_each_other() {
    assert_exclusion(&plain("go-zookeeper"), &["lock-"]);
}

#[test]
fn a_kazoo_that_does_not_know_curators_names_is_found_inside_beside_its_mutex() {
    let Some((ours, kazoos)) = mix(&plain("curator-mutex"), &[]) else { return };
    assert!(ours.violations + kazoos.violations > 0, "ours {ours:?}, kazoo's {kazoos:?}");
}
