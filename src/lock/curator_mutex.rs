//! `curator-mutex`: Apache Curator's InterProcessMutex.

use async_trait::async_trait;

use super::curator_queue::{CuratorQueue, leave_for_certain};
use super::queue_node::Standing;
use super::{AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost};
use crate::catalog::{BatchCost, Guarantees, LockCard, Mode, Params};
use crate::measure::RequestKind::GetDataWatch;
use crate::zk::{Failure, Session};

/// Description and constructor.
pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-mutex",
        summary: "Curator's InterProcessMutex: protected queue node, data watch on the predecessor, reentrant",
        source: "Apache Curator, InterProcessMutex and LockInternals",
        details: "\
Acquire: held already by this owner -> count up, no request. Else create ephemeral sequential
`_c_<uuid>-lock-` (missing parents are made as containers; after a lost response the node is looked for by
its uuid before another is created); getChildren; the own node is the lowest -> held; else getData with a
watch on the one before. Any event, also a disconnection or reconnection -> getChildren again. The own node is
missing -> start over with a new node at the end of the queue.
Release: count down; at 0 delete, retried in the background until it succeeds or the session ends.

Requests: 3 uncontended, 5 contended, 6 when timed out. Fan-out of a release: 1. Order: first in, first out.
Timed out: looks once more, as Curator does, then deletes its node; its watch on the predecessor stays armed.
Crash: the session's end frees the place.

Exclusion and progress: as predecessor-watch.
Where it breaks: names are four times as long as bare ones, so large queues cost more bytes. A holder is not
told that its session has expired. Every reconnection costs each waiter a list and a watch.",
        guarantees: Guarantees { reentrant: true, protected: true, ..Guarantees::QUEUE },
        params: &[],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(CuratorMutex::new(config.path.clone())),
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    cost::predecessor_queue(GetDataWatch, n)
}

/// One owner's mutex; also the part that other locks are made of.
pub(super) struct CuratorMutex {
    queue: CuratorQueue,
    /// The node by which this owner holds, and how many times it has taken the lock.
    owned: Option<(QueueNode, u32)>,
}

impl CuratorMutex {
    /// A mutex on that path that nobody holds.
    pub(super) fn new(lock: String) -> Self {
        Self { queue: CuratorQueue::new(lock), owned: None }
    }
}

#[async_trait(?Send)]
impl Strategy for CuratorMutex {
    async fn acquire(
        &mut self,
        session: &Session,
        _: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        if let Some((node, count)) = &mut self.owned {
            *count += 1;
            return Ok(Held::by(node.clone()));
        }
        let node = self.queue.enter(session, "lock-", patience, &predecessor).await?;
        self.owned = Some((node.clone(), 1));
        Ok(Held::by(node))
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        if let Some((_, count)) = self.owned.as_mut().filter(|(_, count)| *count > 1) {
            *count -= 1;
            return Ok(());
        }
        self.owned = None;
        let Some(node) = held.node else { return Ok(()) };
        leave_for_certain(session, node).await
    }
}

fn predecessor(node: &QueueNode, names: &[String]) -> Result<Option<String>, Failure> {
    Ok(match node.standing(names)? {
        Standing::First => None,
        Standing::Behind(predecessor) => Some(predecessor),
    })
}
