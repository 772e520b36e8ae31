//! `shared-predecessor-watch`: readers together; each waiter watches only the node it waits for.

use async_trait::async_trait;

use crate::lock::queue::joining::Joining;
use crate::lock::queue::sides::{BARE, READ_WRITE, Watched};
use crate::lock::queue::{Habits, Queue, Watches};
use crate::lock::{Acquired, Entry, Held, LockConfig, Patience, Strategy, cost};
use crate::words::catalog::{BatchCost, LockCard, Mode, Params};
use crate::words::measure::RequestKind::GetDataWatch;
use crate::world::zk::Session;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "shared-predecessor-watch",
        summary: "readers together or one writer; each waiter watches only the node it waits for",
        source: "ZooKeeper's recipes page; shared and exclusive lock article, improved version",
        details: "\
Acquire: create ephemeral sequential `R-` or `W-` (the article puts the host's name before that); getChildren; a
reader with no writer before it, a writer with nobody before it -> held; else getData with a watch: a reader on
the last writer before it, a writer on the node just before it, of either kind. NoNode, or the watch fired ->
getChildren again.
Release: delete.

Requests: 3 uncontended, 5 contended. Order: first in, first out, with readers that stand together let in
together. A reader that arrives behind a waiting writer waits, so writers do not starve.
Fan-out: a writer's release wakes exactly the readers up to the next writer, or that writer if it is next; a
reader's release wakes the writer behind it, if it stood just before that one. If readers leave in a different order
than they came, that writer looks and watches again each time the one before it goes. A queue W,
a readers, W, b readers costs a + 1 + b notifications.
Timed out or cancelled: deletes its own node; those that watched it look again. Crash: the session's end.
A lost connection ends the acquire or release whose request it hits; the caller then ends the session, and its node
goes with it.

Exclusion: a reader enters only after a list on its own session without a writer before it, a writer only after one
without anybody before it; nodes before it can only go, never come. Progress: the watched node is before its own,
and when it goes the watch fires.

Where it breaks: as predecessor-watch; no protection. Readers behind a waiting writer wait although only
readers hold: a convoy.",
        guarantees: READ_WRITE,
        params: &[],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(SharedWatch::new(Watches::Data, config)),
};

/// Of a batch in which all ask to write: then it is a queue like any other.
fn batch_cost(_: &Params, n: u64) -> BatchCost {
    cost::predecessor_queue(GetDataWatch, n)
}

/// Readers and writers in one queue. Which node is in the way of one is also which it watches, unless it watches the whole queue.
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
