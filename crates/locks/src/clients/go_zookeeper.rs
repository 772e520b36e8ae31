//! `go-zookeeper`: the Go client's Lock.

use crate::after::{
    ConnectionLoss, CreateReplyLost, CreateRequestLost, CreatesExhausted, ENDS, FailsAndLeaves, GoesOn,
    ListReplyLost, NoDirectory, OwnNodeDeleted, TimedOutInBackOff, WatchReplyLost, WithoutNode,
};
use crate::prelude::*;
use crate::queue::directories::make_from_top;
use crate::queue::protection::{MarkedName, find_marked};

/// Maximum number of attempts, both of a create whose replies are lost and of a join whose directory is missing.
const TRIES: u32 = 3;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "go-zookeeper",
        summary: "the Go client's Lock: protected queue node, data watch on the predecessor, not reentrant",
        source: "go-zookeeper/zk, lock.go and CreateProtectedEphemeralSequential; the article on the paper's locks",
        details: include_str!("go_zookeeper.md").trim_ascii_end(),
        guarantees: Guarantees { protection: Protection::Unsynced, ..Guarantees::QUEUE },
        after: &[ENDS
            .but([
                (CreateReplyLost, GoesOn),
                (CreateRequestLost, GoesOn),
                (CreatesExhausted, GoesOn),
                (ListReplyLost, FailsAndLeaves(ConnectionLoss)),
                (WatchReplyLost, FailsAndLeaves(ConnectionLoss)),
                (TimedOutInBackOff, FailsAndLeaves(ConnectionLoss)),
                (OwnNodeDeleted, WithoutNode),
                (NoDirectory, GoesOn),
            ])
            .trying_creates(Some(TRIES))],
        batch_cost: Some(|_, n| cost::predecessor_queue(GetDataWatch, n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let queue = Queue::new(&config.path, Habits::PLAIN, Joining::by_create());
        Box::new(GoZookeeper { queue, is_locked: false })
    },
};

struct GoZookeeper {
    queue: Queue,
    is_locked: bool,
}

#[async_trait(?Send)]
impl Strategy for GoZookeeper {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        if self.is_locked {
            return Err(AcquireError::Deadlock);
        }
        let mut joined = Joined::untold(self.join(session).await?);
        let waited = self.queue.wait(session, &mut joined, patience, before).await;
        match waited {
            // As in the original, the node stays; the session must end anyway.
            Err(AcquireError::Failed(failure)) if !failure.is_definite() => return Err(failure.into()),
            _ => self.is_locked = waited.is_ok(),
        }
        joined.node.held_after(session, waited.map(drop)).await
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
                Err(Failure::NoNode) => make_from_top(session, &self.queue.lock).await?,
                ended => return ended,
            }
        }
        self.create(session).await
    }

    /// Source: the Go client, `CreateProtectedEphemeralSequential`.
    async fn create(&self, session: &Session) -> Result<QueueNode, Failure> {
        let name = MarkedName::curator(uuid::Uuid::new_v4().simple(), "lock-");
        for _ in 0..TRIES {
            match QueueNode::join(session, &self.queue.lock, &name.prefix, &[]).await {
                Err(Failure::ConnectionLoss) => {}
                ended => return ended,
            }
            // A failed search ends the acquire.
            if let Some(found) = find_marked(session, &self.queue.lock, &name.mark, Retry::NEVER).await? {
                return Ok(found);
            }
        }
        Err(Failure::ConnectionLoss)
    }
}

/// Returns the name with the highest number below the contender's own. The contender's node may be missing
/// from the list.
fn before(node: &QueueNode, names: &Names) -> Result<Option<String>, Failure> {
    let before = node.distances(names)?.filter(|(distance, _)| *distance < 0);
    Ok(before.max_by_key(|(distance, _)| *distance).map(|(_, name)| name.to_owned()))
}
