//! `apache-write-lock`: the WriteLock that ZooKeeper ships among its recipes.

use std::mem::replace;
use std::time::Duration;

use crate::after::{
    ConnectionLoss, CreatesExhausted, DeleteReplyLost, DeleteRequestLost, Fails, FailsAndLeaves, GOES_ON,
};
use crate::prelude::*;
use crate::queue::directories::make_directory;
use crate::queue::protection::node_named;
use crate::wait::AnyEvent;

const NODE_DATA: &[u8] = &[0x12, 0x34];
const TRIES: u32 = 10;
/// Unit of the pause between attempts, multiplied by the number of lost connections before the current one.
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
        // Arrival k lists k - 1 names before its create and k after it; a waiter woken with m nodes left
        // lists m.
        names_returned: Some(n * (n - 1) / 2 + n * n),
        ..BatchCost::default()
    }
}

enum Seen {
    First,
    Behind(Watch),
    /// The list showed a predecessor that was gone before the watch was set.
    PredecessorGone,
}

struct ApacheWriteLock {
    lock: String,
    /// The contender's node, from its create to the end of the acquire.
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
    /// Starts over at each wake-up, including connection events, as the recipe's watcher does.
    async fn lock(&mut self, session: &Session, patience: &Patience) -> Acquired<()> {
        let mut is_watching = false;
        loop {
            let made = tried(patience, async || make_directory(session, &self.lock).await).await;
            // If the directory could not be created, later requests fail.
            if let Err(why @ (AcquireError::TimedOut | AcquireError::Cancelled)) = made {
                return Err(why);
            }
            let mut watch = match tried(patience, async || self.check(session).await).await? {
                Seen::First => return Ok(()),
                Seen::PredecessorGone => continue,
                Seen::Behind(watch) => watch,
            };
            // Before the first watch, there is no watcher, so events during the first check are discarded.
            if !replace(&mut is_watching, true) {
                self.events.forget(session);
            }
            patience.wait(self.events.or(session, watch.changed())).await?;
        }
    }

    /// Checks the queue once, and joins it on the first call.
    async fn check(&mut self, session: &Session) -> Result<Seen, Failure> {
        let names = loop {
            if self.id.is_none() {
                self.id = Some(find_or_join(session, &self.lock).await?);
            }
            let names = session.get_children(&self.lock).await?;
            if !names.is_empty() {
                break names;
            }
            // Everything was deleted, including the contender's own node, so the contender creates another.
            self.id = None;
        };
        let node = self.id.as_ref().ok_or(Failure::OwnNodeMissing)?;
        let Some(predecessor) = node.predecessor(&names)? else { return Ok(Seen::First) };
        drop(names);
        let (found, watch) = session.exists_and_watch(&format!("{}/{predecessor}", self.lock)).await?;
        Ok(if found.is_some() { Seen::Behind(watch) } else { Seen::PredecessorGone })
    }
}

/// Runs `what`, and repeats it after lost connections while attempts are left.
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

/// Finds the node of an earlier attempt whose reply was lost, or creates one.
async fn find_or_join(session: &Session, lock: &str) -> Result<QueueNode, Failure> {
    let prefix = format!("x-{}-", session.id());
    let names = session.get_children(lock).await?;
    match names.iter().find(|name| name.starts_with(&prefix)) {
        Some(name) => node_named(session, lock, name).await?.ok_or(Failure::OwnNodeMissing),
        None => QueueNode::join(session, lock, &prefix, NODE_DATA).await,
    }
}
