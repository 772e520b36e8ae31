//! The code of the lock requirements article as printed, as a negative control; `local-then-remote` follows
//! its text.
//!
//! The code sorts the queue by the third piece of each name between hyphens. In a protected name,
//! `_c_<uuid>-lock-<number>`, that piece belongs to the identifier, so the order is random: a later contender
//! may be the first. Its unlock deletes the first node of that order, no matter which contender owns it.
//!
//! Two parts are left out. The lock within the process is irrelevant here. Two mistakes would keep the code
//! from running at all: its watcher takes a lock that the waiting thread holds, and it compares a full path
//! with bare names.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use async_trait::async_trait;
use zklockbench_core::catalog::{Guarantees, LockCard, Mode, Params, Protection};
use zklockbench_locks::{
    AcquireError, Entry, Held, LockConfig, Patience, QueueNode, STRATEGIES, Strategy, find,
};
use zklockbench_zk::{Failure, Session, runtime};

use crate::support::sessions::{Scene, on_scene, patience};

/// Time longer than a newcomer needs to enter.
const STAY: Duration = Duration::from_millis(30);

static PRINTED: Entry = Entry {
    card: LockCard {
        name: "local-then-remote-as-printed",
        summary: "a queue in the order of a piece of an identifier",
        source: "lock requirements article, the code",
        guarantees: Guarantees {
            exclusive: false,
            fifo: false,
            protection: Protection::Complete,
            ..Guarantees::QUEUE
        },
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(Printed { lock: config.path.clone() }),
};

struct Printed {
    lock: String,
}

/// Sort key of a name.
fn piece(name: &str) -> &str {
    name.split('-').nth(2).unwrap_or_default()
}

#[async_trait(?Send)]
impl Strategy for Printed {
    async fn acquire(
        &mut self,
        session: &Session,
        _: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        let prefix = format!("_c_{}-lock-", uuid::Uuid::new_v4());
        let node = QueueNode::join(session, &self.lock, &prefix, &[]).await?;
        match self.wait_until_first(session, &node, patience).await {
            Ok(()) => Ok(Held::by(node)),
            Err(why) => Err(node.give_up(session, why).await),
        }
    }

    async fn release(&mut self, session: &Session, _: Held) -> Result<(), Failure> {
        let Some(first) = self.sorted(session).await?.into_iter().next() else { return Ok(()) };
        match session.delete(&format!("{}/{first}", self.lock)).await {
            Err(Failure::NoNode) => Ok(()),
            deleted => deleted,
        }
    }
}

impl Printed {
    async fn wait_until_first(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Result<(), AcquireError> {
        loop {
            if self.sorted(session).await?.first().is_some_and(|first| first == node.name()) {
                return Ok(());
            }
            // The code lists once more to find the node to watch.
            let names = self.sorted(session).await?;
            let own = names.iter().position(|name| name == node.name()).ok_or(Failure::OwnNodeMissing)?;
            let Some(previous) = own.checked_sub(1).map(|previous| &names[previous]) else { continue };
            match session.get_data_and_watch(&format!("{}/{previous}", self.lock)).await {
                Ok((_, mut watch)) => {
                    patience.wait(watch.changed()).await?;
                }
                Err(Failure::NoNode) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn sorted(&self, session: &Session) -> Result<Vec<String>, Failure> {
        let mut names = session.get_children(&self.lock).await?.to_vec();
        names.sort_by(|a, b| piece(a).cmp(piece(b)));
        Ok(names)
    }
}

/// Contenders that acquire, stay for a moment, and release.
struct Crowd {
    entry: &'static Entry,
    scene: Scene,
    wanted: u64,
    inside: Cell<usize>,
    acquired: Cell<u64>,
    violations: Cell<u64>,
}

impl Crowd {
    fn is_done(&self) -> bool {
        self.violations.get() > 0 || self.acquired.get() >= self.wanted
    }

    fn lock(&self, contender: usize) -> Box<dyn Strategy> {
        let config =
            LockConfig { path: self.scene.lock.clone(), params: Params::new(), contender, drivers: None };
        (self.entry.build)(&config)
    }

    async fn contend(self: Rc<Self>, contender: usize) {
        let (mut session, mut lock) = (self.scene.session().await, self.lock(contender));
        while !self.is_done() {
            if self.cycle(&session, &mut *lock).await.is_err() {
                // A node may be left; it goes with its session.
                session.close(Duration::from_secs(5)).await;
                (session, lock) = (self.scene.session().await, self.lock(contender));
            }
        }
        session.close(Duration::from_secs(5)).await;
    }

    async fn cycle(&self, session: &Session, lock: &mut dyn Strategy) -> Result<(), AcquireError> {
        let held = lock.acquire(session, Mode::Write, &patience(Some(Duration::from_secs(2)))).await?;
        if self.inside.replace(self.inside.get() + 1) > 0 {
            self.violations.set(self.violations.get() + 1);
        }
        self.acquired.set(self.acquired.get() + 1);
        runtime::sleep(STAY).await;
        self.inside.set(self.inside.get() - 1);
        Ok(lock.release(session, held).await?)
    }
}

/// Returns the numbers of acquisitions and violations of five contenders, which stop at the first violation.
fn contest(entry: &'static Entry, wanted: u64) -> (u64, u64) {
    on_scene(async |scene| {
        let (inside, acquired, violations) = Default::default();
        let crowd = Rc::new(Crowd { entry, scene, wanted, inside, acquired, violations });
        let contend = |contender| runtime::spawn_local(Rc::clone(&crowd).contend(contender));
        let contenders: Vec<_> = (0..5).map(contend).collect();
        for contender in contenders {
            contender.await;
        }
        (crowd.acquired.get(), crowd.violations.get())
    })
}

#[test]
fn printed_code_of_articles_is_violated_where_their_text_promises_exclusion() {
    let (acquired, violations) = contest(&PRINTED, 300);
    println!("as printed: the first violation among {acquired} acquisitions");
    assert!(violations > 0, "none in {acquired} acquisitions");
    assert_eq!(contest(find("local-then-remote").unwrap(), 100).1, 0);
}

#[test]
fn printed_code_cannot_be_used_in_scenarios() {
    assert!(STRATEGIES.iter().all(|entry| entry.card.name != PRINTED.card.name));
}

#[test]
fn third_piece_of_a_name_belongs_to_its_identifier() {
    let name = "_c_0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9-lock-0000000042";
    assert_eq!(piece(name), "6071");
}
