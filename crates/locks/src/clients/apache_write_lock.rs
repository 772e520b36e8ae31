//! `apache-write-lock`: the WriteLock that ZooKeeper ships among its recipes.

use std::mem::replace;
use std::time::Duration;

use async_trait::async_trait;

use crate::after::{
    ConnectionLoss, CreatesExhausted, DeleteReplyLost, DeleteRequestLost, Fails, FailsAndLeaves, GOES_ON,
};
use crate::queue::directories::make_directory;
use crate::queue::protection::node_named;
use crate::wait::AnyEvent;
use crate::{AcquireError, Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use zklockbench_core::catalog::{BatchCost, Events, Guarantees, LockCard, Mode, Params, Protection};
use zklockbench_core::measure::RequestKind::{Create, Delete, Exists, ExistsWatch, GetChildren};
use zklockbench_zk::{Failure, Session, Watch};

const NODE_DATA: &[u8] = &[0x12, 0x34];
const TRIES: u32 = 10;
/// The n-th new try comes after n times this.
const RETRY_DELAY: Duration = Duration::from_millis(500);

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "apache-write-lock",
        summary: "ZooKeeper's own WriteLock: queue node named after the session, exists watch on the predecessor",
        source: "Apache ZooKeeper, zookeeper-recipes-lock, WriteLock",
        details: include_str!("apache_write_lock.md").trim_ascii_end(),
        guarantees: Guarantees { protection: Protection::Unsynced, ..Guarantees::QUEUE },
        after: &[GOES_ON
            .but([
                (CreatesExhausted, FailsAndLeaves(ConnectionLoss)),
                (DeleteReplyLost, Fails(ConnectionLoss)),
                (DeleteRequestLost, FailsAndLeaves(ConnectionLoss)),
            ])
            .trying_creates(Some(TRIES))],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let (lock, events) = (config.path.clone(), AnyEvent::default());
        Box::new(ApacheWriteLock { lock, id: None, events })
    },
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    let wake_ups = n - 1;
    BatchCost {
        requests: vec![
            (Create, n),
            (Delete, n),
            (GetChildren, 2 * n + wake_ups),
            (Exists, n + wake_ups),
            (ExistsWatch, wake_ups),
        ],
        events: Events { node_deleted: wake_ups, ..Events::default() },
        to_waiters_by_release: wake_ups,
        // Arrival k lists k - 1 names before its create and k after it; the one woken with m left lists m.
        names_returned: Some(n * (n - 1) / 2 + n * n),
        ..BatchCost::default()
    }
}

enum Seen {
    First,
    /// With a watch on the node just before the own.
    Behind(Watch),
    /// The list showed one before, which had gone when it was to be watched.
    PredecessorGone,
}

struct ApacheWriteLock {
    lock: String,
    /// The own node, from its create to the end of the acquire.
    id: Option<QueueNode>,
    events: AnyEvent,
}

#[async_trait(?Send)]
impl Strategy for ApacheWriteLock {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let ended = self.lock(session, patience).await;
        match (ended, self.id.take()) {
            (Ok(()), Some(node)) => Ok(Held::by(node)),
            (Ok(()), None) => Err(Failure::OwnNodeMissing.into()),
            (Err(why), Some(node)) => Err(node.give_up(session, why).await),
            (Err(why), None) => Err(why),
        }
    }
}

impl ApacheWriteLock {
    /// Begins anew at each wake-up, as the recipe's watcher does, which hears of the connection's changes, too.
    async fn lock(&mut self, session: &Session, patience: &Patience) -> Acquired<()> {
        let mut is_watching = false;
        loop {
            let made = tried(patience, async || make_directory(session, &self.lock).await).await;
            // A directory that could not be made is missed in what follows.
            if let Err(why @ (AcquireError::TimedOut | AcquireError::Cancelled)) = made {
                return Err(why);
            }
            let mut watch = match tried(patience, async || self.look(session).await).await? {
                Seen::First => return Ok(()),
                Seen::PredecessorGone => continue,
                Seen::Behind(watch) => watch,
            };
            // What changes while it looks is heard by the watcher that there is already.
            if !replace(&mut is_watching, true) {
                self.events.forget(session);
            }
            patience.wait(self.events.or(session, watch.changed())).await?;
        }
    }

    /// Looks once, and joins the queue at the first look.
    async fn look(&mut self, session: &Session) -> Result<Seen, Failure> {
        let names = loop {
            if self.id.is_none() {
                self.id = Some(find_or_join(session, &self.lock).await?);
            }
            let names = session.get_children(&self.lock).await?;
            if !names.is_empty() {
                break names;
            }
            // All has been deleted, its own node, too: it makes another.
            self.id = None;
        };
        let node = self.id.as_ref().ok_or(Failure::OwnNodeMissing)?;
        let Some(predecessor) = node.predecessor(&names)? else { return Ok(Seen::First) };
        drop(names);
        let (found, watch) = session.exists_and_watch(&format!("{}/{predecessor}", self.lock)).await?;
        Ok(if found.is_some() { Seen::Behind(watch) } else { Seen::PredecessorGone })
    }
}

/// Tries until that works or the tries are used up; only lost connections count.
///
/// Source: `ProtocolSupport.retryOperation`.
async fn tried<T>(patience: &Patience, mut what: impl AsyncFnMut() -> Result<T, Failure>) -> Acquired<T> {
    let mut losses = 0;
    loop {
        match what().await {
            Err(Failure::ConnectionLoss) if losses + 1 < TRIES => {
                patience.sleep(RETRY_DELAY * losses).await?;
                losses += 1;
            }
            ended => return Ok(ended?),
        }
    }
}

/// The node of an earlier try whose reply was lost, or a new one.
async fn find_or_join(session: &Session, lock: &str) -> Result<QueueNode, Failure> {
    let prefix = format!("x-{}-", session.id());
    let names = session.get_children(lock).await?;
    match names.iter().find(|name| name.starts_with(&prefix)) {
        Some(name) => node_named(session, lock, name).await?.ok_or(Failure::OwnNodeMissing),
        None => QueueNode::join(session, lock, &prefix, NODE_DATA).await,
    }
}
