//! `kazoo-read-write`: the read and the write lock of kazoo, the Python client.

use async_trait::async_trait;

use super::lock::{Kazoo, OWN_PATTERN};
use crate::lock::queue::sides::READ_WRITE;
use crate::lock::{Acquired, Entry, Held, LockConfig, Patience, Strategy, cost};
use crate::words::catalog::{BatchCost, Guarantees, LockCard, Mode, Params, Protection};
use crate::words::measure::RequestKind::{Exists, GetDataWatch};
use crate::world::zk::{Failure, Session};

/// What stands before the number in the names of readers; writers have what kazoo's plain lock has.
const READ_PATTERN: &str = "__rlock__";

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "kazoo-read-write",
        summary: "kazoo's ReadLock and WriteLock: each waiter watches the last node in its way; two names per owner",
        source: "kazoo, ReadLock and WriteLock as of version 2.9",
        details: "\
Each side of an owner is an object with its own name, `<32 hex>__rlock__` or `<32 hex>__lock__`.
Acquire: the object's first: exists on the lock's directory (made when missing); every later one: getChildren,
to look for a node of that name left from before. Then create ephemeral sequential; getChildren; a reader with no
`__lock__` before it, a writer with no `__lock__` or `__rlock__` before it -> held; else getData with a watch on
the last of those. NoNode, the watch, or any change of the session's state -> getChildren again. Its own node is
missing, or the connection was lost -> a pause that doubles from 0.1 s, give or take two fifths, then everything
again, starting with the look for the name.
Release: delete, tried again as long as connections are lost, as kazoo; a node that is gone already has left.
Taken again on a side that is held: waits in growing pauses until it times out, without a request.

Requests: 4 uncontended, 6 contended, 5 when timed out. Order: first in, first out, with readers that stand
together let in together. Fan-out: as shared-predecessor-watch.
Timed out or cancelled: deletes its own node. Crash: the session's end frees the place.

Exclusion and progress: as shared-predecessor-watch.
Where it breaks: names are four times as long as bare ones. Before version 2.9 a queue of a writer, a reader
and a writer behind a held write lock came to a standstill. Numbers, deadlines and expired sessions: as kazoo.",
        guarantees: Guarantees { protection: Protection::Unsynced, ..READ_WRITE },
        params: &[],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(KazooReadWrite::on(&config.path)),
};

/// Of a batch in which all ask to write: a queue like any other, and a look at the directory by each.
fn batch_cost(_: &Params, n: u64) -> BatchCost {
    let mut cost = cost::predecessor_queue(GetDataWatch, n);
    cost.requests.push((Exists, n));
    cost
}

struct KazooReadWrite {
    reader: Kazoo,
    writer: Kazoo,
}

#[async_trait(?Send)]
impl Strategy for KazooReadWrite {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let side = match mode {
            Mode::Read => &mut self.reader,
            Mode::Write => &mut self.writer,
        };
        side.acquire(session, mode, patience).await
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let reads = held.node.as_ref().is_some_and(|node| node.name().starts_with(&self.reader.prefix));
        if reads { &mut self.reader } else { &mut self.writer }.release(session, held).await
    }
}

impl KazooReadWrite {
    fn on(lock: &str) -> Self {
        Self {
            reader: Kazoo::new(lock, READ_PATTERN, &[OWN_PATTERN]),
            writer: Kazoo::new(lock, OWN_PATTERN, &[OWN_PATTERN, READ_PATTERN]),
        }
    }
}
