//! `kazoo-read-write`: the read and the write lock of kazoo, the Python client.

use std::time::Duration;

use async_trait::async_trait;

use super::creating::{find_marked, make_directory};
use super::kazoo::leave_as_kazoo;
use super::queue_node::watch_data;
use super::retry::Retry;
use super::sides::{READ_WRITE, Sides, Watched};
use super::wait::AnyEvent;
use super::{AcquireError, Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost};
use crate::words::catalog::{BatchCost, Guarantees, LockCard, Mode, Params, Protection};
use crate::words::measure::RequestKind::{Exists, GetDataWatch};
use crate::world::zk::{Failure, Session};

const SIDES: Sides = Sides { read: "__rlock__", write: "__lock__" };
/// The first pause before another try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// No pause is more than so many times the first.
const PAUSE_DOUBLINGS: u32 = 6;

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
missing, or the connection was lost -> a pause, then everything again, starting with the look for the name.
Release: delete, once more if the connection was lost; a node that is gone already has left.

Requests: 4 uncontended, 6 contended, 5 when timed out. Order: first in, first out, with readers that stand
together let in together. Fan-out: as shared-predecessor-watch.
Timed out or cancelled: deletes its own node. Crash: the session's end frees the place.

Exclusion and progress: as shared-predecessor-watch.
Where it breaks: names are four times as long as bare ones. Before version 2.9 a queue of a writer, a reader
and a writer behind a held write lock came to a standstill.",
        guarantees: Guarantees { protection: Protection::Unsynced, ..READ_WRITE },
        params: &[],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(KazooReadWrite::new(config.path.clone())),
};

/// Of a batch in which all ask to write: a queue like any other, and a look at the directory by each.
fn batch_cost(_: &Params, n: u64) -> BatchCost {
    let mut cost = cost::predecessor_queue(GetDataWatch, n);
    cost.requests.push((Exists, n));
    cost
}

/// One side of an owner.
struct Object {
    /// What its nodes are called, before the number.
    prefix: String,
    /// It has been used before, so a node of its name may be there.
    used: bool,
}

impl Object {
    fn new(mode: Mode) -> Self {
        let prefix = format!("{}{}", uuid::Uuid::new_v4().simple(), SIDES.of(mode));
        Self { prefix, used: false }
    }
}

struct KazooReadWrite {
    lock: String,
    reader: Object,
    writer: Object,
    events: AnyEvent,
}

#[async_trait(?Send)]
impl Strategy for KazooReadWrite {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let mut tries = 0;
        loop {
            let failure = match self.attempt(session, mode, patience).await {
                Err(AcquireError::Failed(failure)) if is_retried(&failure) => failure,
                ended => return ended.map(Held::by),
            };
            let pause = PAUSE * (1 << tries.min(PAUSE_DOUBLINGS));
            if let Err(ended) = patience.sleep(pause).await {
                // A node may be left after a lost response: that failure says so, the end of patience would not.
                return Err(if failure.is_definite() { ended.into() } else { failure.into() });
            }
            tries += 1;
        }
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        leave_as_kazoo(session, held).await
    }
}

impl KazooReadWrite {
    fn new(lock: String) -> Self {
        let (reader, writer) = (Object::new(Mode::Read), Object::new(Mode::Write));
        Self { lock, reader, writer, events: AnyEvent::default() }
    }

    async fn attempt(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired<QueueNode> {
        let node = self.join(session, mode).await?;
        match self.wait_until_in(session, &node, mode, patience).await {
            Ok(()) => Ok(node),
            // The next try finds the node and keeps its place.
            Err(AcquireError::Failed(failure)) if is_retried(&failure) => Err(failure.into()),
            Err(why) => Err(node.give_up(session, why).await),
        }
    }

    /// Joins the queue, or finds the place that an earlier try has taken.
    async fn join(&mut self, session: &Session, mode: Mode) -> Result<QueueNode, Failure> {
        let object = match mode {
            Mode::Read => &mut self.reader,
            Mode::Write => &mut self.writer,
        };
        if object.used {
            if let Some(node) = find_marked(session, &self.lock, &object.prefix, Retry::NEVER).await? {
                return Ok(node);
            }
        } else {
            make_directory(session, &self.lock).await?;
            object.used = true;
        }
        QueueNode::join(session, &self.lock, &object.prefix, &[]).await
    }

    async fn wait_until_in(
        &mut self,
        session: &Session,
        node: &QueueNode,
        mode: Mode,
        patience: &Patience,
    ) -> Acquired<()> {
        loop {
            let names = session.get_children(&self.lock).await?;
            let Some(awaited) = SIDES.awaited(node, mode, Watched::Last, &names)? else { return Ok(()) };
            if let Some(mut watch) = watch_data(session, &format!("{}/{awaited}", self.lock)).await? {
                patience.wait(self.events.on(session, &mut watch)).await?;
            }
        }
    }
}

fn is_retried(failure: &Failure) -> bool {
    matches!(failure, Failure::ConnectionLoss | Failure::OwnNodeMissing)
}
