//! `go-zookeeper`: the Go client's Lock.

use std::time::Duration;

use async_trait::async_trait;

use super::creating::{MarkedName, created_or_found, find_marked, make_from_top};
use super::queue_node::wait_for_way;
use super::retry::Retry;
use super::{AcquireError, Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost};
use crate::words::catalog::{BatchCost, Guarantees, LockCard, Mode, Params, Protection};
use crate::words::measure::RequestKind::GetDataWatch;
use crate::world::zk::{Failure, Session};

/// Three creates at most, without a pause.
const CREATE: Retry = Retry::Times { pause: Duration::ZERO, times: 2 };

/// How often the create is sent before the parents count as impossible to make.
const TRIES: u32 = 3;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "go-zookeeper",
        summary: "the Go client's Lock: protected queue node, data watch on the predecessor, not reentrant",
        source: "go-zookeeper/zk, lock.go and CreateProtectedEphemeralSequential; the article on the paper's locks",
        details: "\
Acquire: held already by this object -> a deadlock error, no request. Else create ephemeral sequential
`_c_<32 hex digits>-lock-` (after a lost response the node is looked for by its digits before another is
created, three creates at most; missing parents are made from the top downwards, three tries); getChildren; its own
node has the lowest number -> held; else getData with a watch on the one before; NoNode, or the watch fired ->
getChildren again.
Release: delete. If that fails, even because the node has gone, the object stays locked for good.

Requests: 3 uncontended, 5 contended. Fan-out of a release: 1. Order: first in, first out.
Crash: the session's end frees the place. The original has neither timeout nor cancellation; here both delete its
node: 4 requests for nothing.

Exclusion and progress: as predecessor-watch.
Where it breaks: a request that fails while waiting ends the acquire, but the node stays until the session
ends, and everybody behind it waits for that. A holder is not told that its session has expired.
Not copied from the original: if a list lacks its own node and nobody else is before it, it takes the lock for held
(here that is an error); it fails on a child whose name has no number (here that child is ignored); its search for
the one before starts at -1, so it breaks once the counter has wrapped. Its lists also ask for the parent's stat, 68
bytes more per reply.",
        guarantees: Guarantees { protection: Protection::Unsynced, ..Guarantees::QUEUE },
        params: &[],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(GoZookeeper { lock: config.path.clone(), is_locked: false }),
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    cost::predecessor_queue(GetDataWatch, n)
}

struct GoZookeeper {
    lock: String,
    is_locked: bool,
}

#[async_trait(?Send)]
impl Strategy for GoZookeeper {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        if self.is_locked {
            return Err(AcquireError::Deadlock);
        }
        let node = self.join(session).await?;
        match wait_for_way(session, &self.lock, patience, |names| node.predecessor(names)).await {
            Ok(()) => {
                self.is_locked = true;
                Ok(Held::by(node))
            }
            // As in the original the node stays; the session must end anyway.
            Err(AcquireError::Failed(failure)) if !failure.is_definite() => Err(failure.into()),
            Err(why) => Err(node.give_up(session, why).await),
        }
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let Some(node) = held.node else { return Ok(()) };
        session.delete(&node.path).await?;
        self.is_locked = false;
        Ok(())
    }
}

impl GoZookeeper {
    async fn join(&self, session: &Session) -> Result<QueueNode, Failure> {
        for _ in 1..TRIES {
            match self.create(session).await {
                Err(Failure::NoNode) => make_from_top(session, &self.lock).await?,
                ended => return ended,
            }
        }
        self.create(session).await
    }

    /// Source: the Go client, `CreateProtectedEphemeralSequential`.
    async fn create(&self, session: &Session) -> Result<QueueNode, Failure> {
        let name = MarkedName::curator(uuid::Uuid::new_v4().simple(), "lock-");
        created_or_found(
            CREATE,
            async || QueueNode::join(session, &self.lock, &name.prefix, &[]).await,
            // A look that fails ends the acquire.
            async || find_marked(session, &self.lock, &name.mark, Retry::NEVER).await,
        )
        .await
    }
}
