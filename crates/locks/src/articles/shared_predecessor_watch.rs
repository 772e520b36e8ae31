//! `shared-predecessor-watch`: readers share the lock; each waiter watches only the node it waits for.

use crate::after::ENDS;
use crate::prelude::*;
use crate::queue::sides::{BARE, READ_WRITE, Watched};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "shared-predecessor-watch",
        summary: "readers together or one writer; each waiter watches only the node it waits for",
        source: "ZooKeeper's recipes page; shared and exclusive lock article, improved version",
        details: include_str!("shared_predecessor_watch.md").trim_ascii_end(),
        guarantees: READ_WRITE,
        after: &[ENDS],
        // In a batch, all contenders write, so the lock costs the same as any other queue lock.
        batch_cost: Some(|_, n| cost::predecessor_queue(GetDataWatch, n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(SharedWatch::new(Watches::Data, config)),
};

/// Readers and writers in one queue. A waiter watches the node it waits for, or the whole queue.
pub struct SharedWatch(Queue);

impl SharedWatch {
    pub fn new(watches: Watches, config: &LockConfig) -> Self {
        Self(Queue::new(&config.path, Habits { watches, ..Habits::PLAIN }, Joining::by_create()))
    }
}

#[async_trait(?Send)]
impl Strategy for SharedWatch {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let in_the_way = |node: &_, names: &_| BARE.awaited(node, mode, Watched::Last, names);
        self.0.enter(session, BARE.of(mode), patience, in_the_way).await.map(Held::by)
    }
}
