//! Actions of holders inside the lock that reveal a violation; contenders in other languages do the same.
//!
//! There is one more node, the owner's. A writer reads it, overwrites it on the way in, and again on the way
//! out. A reader reads it on the way in and checks its version on the way out. The leader orders and numbers
//! all writes, so:
//! - Nothing is missed. If a writer came in between another's three requests, or between a reader's two, the
//!   versions would not be consecutive. (For a reader's second request, this requires that its server has
//!   applied the write; writers do not notice readers.)
//! - Nothing is invented. An admitted contender has seen the previous holder's node disappear in its own
//!   session. That server has then also applied the previous holder's last write, which came earlier.
//!
//! The writes name their writers, so each holder also detects whether the lock has passed from one kind of client to
//! the other. Each such handoff is followed by one in the other direction before there can be the next.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use zklockbench_core::catalog::{Mode, Params};
use zklockbench_locks::{LockConfig, Strategy, find};
use zklockbench_zk::{NodeKind, Session, runtime};

use crate::support::depth;
use crate::support::foreign::Rivals;
use crate::support::sessions::{Scene, patience};

/// Number of contenders of each kind: few, so that the lock often passes between the kinds.
pub const CONTENDERS: usize = 2;
/// Handoffs from the other kind to ours; between every two of them one goes back: 2,000 in all with --long.
pub fn crossings() -> u64 {
    depth::of(201, 1_001)
}
/// Time limit for any mix of contenders.
const LIMIT: Duration = Duration::from_secs(240);

#[derive(Debug, Default)]
pub struct Seen {
    pub acquired: Cell<u64>,
    pub violations: Cell<u64>,
    /// Number of times that the previous holder was of the other kind.
    pub crossings: Cell<u64>,
    /// Latest version of the owner's node that was counted as a crossing.
    counted: Cell<i32>,
}

fn one_more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// A lock of ours, and the modes that its contenders request in turn.
#[derive(Clone)]
pub struct Ours {
    pub strategy: &'static str,
    pub params: Params,
    pub turns: &'static [Mode],
    /// Handoffs to our side after which the contenders stop.
    pub crossings: u64,
}

impl Ours {
    /// A lock with its defaults, whose contenders always write.
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

/// Lets both kinds contend until the lock has passed between them often enough. Returns what ours and the
/// others saw.
pub async fn mix(ours: &Ours, scene: Rc<Scene>, rivals: impl FnOnce() -> Rivals) -> (Rc<Seen>, [u64; 3]) {
    let session = scene.session().await;
    session.create(&owner_of(&scene), b"out nobody", NodeKind::Persistent).await.unwrap();
    let seen = Rc::new(Seen { counted: Cell::new(-1), ..Seen::default() });
    let rivals = rivals();
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
    (seen, rivals.stop())
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
        // A contender that followed its own kind lets the other kind go first, so that the two alternate.
        if seen.crossings.get() == crossings {
            runtime::sleep(entered.elapsed()).await;
        }
    }
}

/// Stays inside; returns whether no contender was inside that the lock had to exclude.
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
