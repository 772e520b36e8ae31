//! `crate-lock`: the lock of the client library itself.

use std::time::Duration;

use crate::after::{
    ConnectionLoss, CreateReplyLost, CreateRequestLost, CreatesExhausted, ENDS, Fails, GoesOn, ListReplyLost,
    TimedOutInBackOff, TimesOut, WatchReplyLost,
};
use crate::prelude::*;
use crate::queue::protection::{MarkedName, delete_marked};
use zklockbench_zk::{Created, counter, sequence_of};

/// Number of yields that let the library send its deletion before the contender searches for its node.
const YIELDS: usize = 3;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "crate-lock",
        summary: "the zookeeper-client crate's own Client::lock, as a baseline; not all of its requests can be counted",
        source: "zookeeper-client 0.11.2, Client::lock with LockPrefix::new_custom",
        details: include_str!("crate_lock.md").trim_ascii_end(),
        guarantees: Guarantees::QUEUE,
        after: &[ENDS
            .but([
                (CreateReplyLost, Fails(ConnectionLoss)),
                (CreateRequestLost, GoesOn),
                (CreatesExhausted, Fails(ConnectionLoss)),
                (ListReplyLost, GoesOn),
                (WatchReplyLost, GoesOn),
                (TimedOutInBackOff, TimesOut),
            ])
            .trying_creates(None)],
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(CrateLock { lock: config.path.clone() }),
};

struct CrateLock {
    lock: String,
}

const COUNTER_READ_EVERY: Duration = Duration::from_secs(1);

/// Placeholder for the node's czxid, which the library does not expose.
const NOT_TOLD: i64 = -1;

#[async_trait(?Send)]
impl Strategy for CrateLock {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let name = MarkedName::curator(uuid::Uuid::new_v4(), "lock-");
        if patience.tries_once {
            return self.try_once(session, &name.prefix).await;
        }
        let prefix = format!("{}/{}", self.lock, name.prefix);
        let locking = async {
            tokio::select! {
                biased;
                locked = session.crate_lock(&prefix, "lock-") => locked,
                used_up = self.counter_used_up(session) => Err(used_up),
            }
        };
        match patience.wait(locking).await {
            Ok(Err(used_up @ Failure::CounterUsedUp(_))) => {
                self.clean_up(session, &name.mark).await?;
                Err(used_up.into())
            }
            Ok(locked) => {
                let path = locked?;
                let sequence = sequence_of(&path);
                let created = Created { path, sequence, czxid: NOT_TOLD };
                Ok(Held::by(QueueNode::of(session, &self.lock, Ok(created)).await?))
            }
            Err(ended) => {
                self.clean_up(session, &name.mark).await?;
                Err(ended)
            }
        }
    }
}

impl CrateLock {
    /// Tries once, with a node like the library's, because the library's own lock can only wait.
    async fn try_once(&self, session: &Session, prefix: &str) -> Acquired {
        let node = QueueNode::join(session, &self.lock, prefix, &[]).await?;
        let is_first = async {
            let names = session.get_children(&self.lock).await?;
            let predecessor = node.predecessor(&names)?;
            if predecessor.is_some() { Err(AcquireError::TimedOut) } else { Ok(()) }
        };
        let tried = is_first.await;
        node.held_after(session, tried).await
    }

    /// Returns once the directory's counter is used up. The library's contenders then have equal numbers and
    /// wait for each other.
    async fn counter_used_up(&self, session: &Session) -> Failure {
        loop {
            runtime::sleep(COUNTER_READ_EVERY).await;
            let number = session.next_number_beside(&self.lock).await;
            if number.is_some_and(|number| !counter::is_unique(number)) {
                return Failure::CounterUsedUp(self.lock.clone());
            }
        }
    }

    /// Deletes any node that a dropped acquire left behind. A list in the same session shows every node that the
    /// session has requested, so a mark that is missing there will not appear later.
    async fn clean_up(&self, session: &Session, mark: &str) -> Result<(), Failure> {
        for _ in 0..YIELDS {
            runtime::yield_now().await;
        }
        delete_marked(session, &self.lock, mark).await
    }
}
