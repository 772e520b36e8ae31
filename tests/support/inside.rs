//! Requests with which holders detect violations while they hold the lock. Contenders in other languages send the
//! same requests.
//!
//! Every holder uses the owner node. A writer reads the node, then overwrites it twice: on entry and before its
//! release. A reader reads the node on entry and checks its version before its release. The leader orders and
//! numbers all writes, so:
//! - No violation is missed: a writer between another writer's three requests, or between a reader's two requests,
//!   makes the versions non-consecutive. (A reader detects the gap only if its server has applied the write;
//!   writers do not detect readers.)
//! - There are no false violations: an admitted contender's server has deleted the previous holder's node, so the
//!   server has also applied that holder's earlier writes.
//!
//! The node's data identifies the kind of client that wrote it, so a holder also detects *crossings*: handoffs
//! between the two kinds of clients. Crossings in the two directions alternate.

use std::cell::Cell;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use zklockbench_core::catalog::{Mode, Params};
use zklockbench_locks::{LockConfig, Strategy, find};
use zklockbench_zk::{NodeKind, Session, runtime};

use crate::support::depth;
use crate::support::foreign::Obedient;
use crate::support::sessions::{Scene, patience};

/// Number of contenders of each kind, small enough for frequent crossings.
pub const CONTENDERS: usize = 2;
/// Number of crossings to our side after which a test ends. With `--long`, the two directions add up to about 2,000.
pub fn crossings() -> u64 {
    depth::of(201, 1_001)
}
/// Time limit for a mix of contenders.
const LIMIT: Duration = Duration::from_secs(240);

#[derive(Debug, Default)]
pub struct Seen {
    pub acquired: Cell<u64>,
    pub violations: Cell<u64>,
    /// Number of handoffs from the other kind of client.
    pub crossings: Cell<u64>,
    /// Version of the owner node at the last counted crossing.
    counted: Cell<i32>,
}

fn one_more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// A lock of this suite, and the modes that its contenders request in turn.
#[derive(Clone)]
pub struct Ours {
    pub strategy: &'static str,
    pub params: Params,
    pub turns: &'static [Mode],
    /// Number of crossings to our side after which the contenders stop.
    pub crossings: u64,
}

impl Ours {
    /// A lock with its defaults, in write mode.
    pub fn plain(strategy: &'static str) -> Self {
        Self { strategy, params: Params::new(), turns: &[Mode::Write], crossings: crossings() }
    }

    fn build(&self, scene: &Scene) -> Box<dyn Strategy> {
        let entry = find(self.strategy).unwrap_or_else(|| panic!("no strategy {}", self.strategy));
        (entry.build)(&LockConfig {
            path: scene.lock.clone(),
            params: self.params.clone(),
            contender: 0,
            drivers: None,
        })
    }
}

pub fn owner_of(scene: &Scene) -> String {
    format!("{}-owner", scene.lock)
}

/// Lets both kinds of clients contend until there have been enough crossings. Returns the counts of both sides. The
/// foreign contenders run until their input ends, and then print their numbers of acquisitions, violations and
/// crossings.
pub async fn mix(ours: &Ours, scene: Rc<Scene>, rivals: Command) -> (Rc<Seen>, [u64; 3]) {
    let session = scene.session().await;
    session.create(&owner_of(&scene), b"out nobody", NodeKind::Persistent).await.unwrap();
    let seen = Rc::new(Seen { counted: Cell::new(-1), ..Seen::default() });
    let rivals = Obedient::start(rivals);
    let mut contenders = Vec::new();
    for _ in 0..CONTENDERS {
        let (ours, scene, seen) = (ours.clone(), Rc::clone(&scene), Rc::clone(&seen));
        contenders.push(runtime::spawn_local(async move { contend(&ours, &scene, &seen).await }));
    }
    let all = async {
        for contender in contenders {
            contender.await;
        }
    };
    assert!(runtime::timeout(LIMIT, all).await.is_some(), "{}: so far {seen:?}", ours.strategy);
    let numbers: Vec<u64> = rivals.end().split_whitespace().map(|number| number.parse().unwrap()).collect();
    (seen, numbers.try_into().unwrap())
}

async fn contend(ours: &Ours, scene: &Scene, seen: &Seen) {
    let mut lock = ours.build(scene);
    let session = scene.session().await;
    for mode in ours.turns.iter().cycle() {
        if seen.crossings.get() >= ours.crossings {
            break;
        }
        let held = lock.acquire(&session, *mode, &patience(Some(LIMIT))).await.unwrap();
        one_more(&seen.acquired);
        let (crossings, entered) = (seen.crossings.get(), Instant::now());
        if !stay(&session, &owner_of(scene), *mode, seen).await {
            one_more(&seen.violations);
        }
        lock.release(&session, held).await.unwrap();
        // After a handoff from its own kind, a contender pauses to let the other kind acquire the lock next.
        if seen.crossings.get() == crossings {
            runtime::sleep(entered.elapsed()).await;
        }
    }
}

/// Sends the requests of a holder; returns whether they revealed no violation.
async fn stay(session: &Session, owner: &str, mode: Mode, seen: &Seen) -> bool {
    let (data, before) = session.get_data(owner).await.unwrap();
    let is_others = !data.ends_with(b" rust") && !data.ends_with(b" nobody");
    if is_others && seen.counted.replace(before.version) != before.version {
        one_more(&seen.crossings);
    }
    let undisturbed = match mode {
        Mode::Read => session.exists(owner).await.unwrap().unwrap().version == before.version,
        Mode::Write => {
            let entered = session.set_data(owner, b"in rust").await.unwrap().version;
            let left = session.set_data(owner, b"out rust").await.unwrap().version;
            (entered, left) == (before.version + 1, before.version + 2)
        }
    };
    undisturbed && !data.starts_with(b"in ")
}
