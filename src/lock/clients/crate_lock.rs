//! `crate-lock`: the lock that the client library brings along.

use async_trait::async_trait;

use crate::lock::queue::protection::{MarkedName, delete_marked};
use crate::lock::{Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use crate::words::catalog::{Guarantees, LockCard, Mode};
use crate::world::zk::{Failure, Session, reactor, sequence_of};

/// How often others may run before the own node is looked for: enough for the library's deletion to be sent.
const YIELDS: usize = 3;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "crate-lock",
        summary: "the zookeeper-client crate's own Client::lock, as a baseline; not all its requests can be counted",
        source: "zookeeper-client 0.11.2, Client::lock with LockPrefix::new_custom",
        details: "\
Acquire: create ephemeral sequential `_c_<uuid>-lock-`, named like Curator's; getChildren, of which only names that
contain `lock-` and end with a number count; its own node is the lowest -> held; else getData with a watch on the
one before; NoNode, or the watch fired -> getChildren again. A request that hits a lost connection is repeated, a
create after a look for its own node. If that look finds the node, the acquire ends with an error: with a custom
prefix the library compares the full path with the bare name and cannot read the number. The node goes anyway, even
if the session lives on: the library deletes what it has found and does not use.
Release: one delete, not tried again.

Requests: 3 uncontended, 5 contended. Fan-out of a release: 1. Order: first in, first out.
The library sends the reads itself, bypassing the session that counts: only an acquire's create is seen here. So the
numbers of requests, notifications, names and bytes are left out, also by kind, except in the timeline; the servers'
counts are there, and show 3N - 2 reads and N - 1 notifications in a batch of N. The czxid of its node stays with
the library, too, so the fencing token is the node's number.
Timed out or cancelled: the library's future is dropped, which removes the watch and deletes the node in the
background; then the queue is listed, and a node that is still there deleted. The library's Curator prefix is
avoided because its clean-up after an unanswered create names the node wrongly and leaves it behind.
Crash: the session's end frees the place.

Exclusion and progress: as predecessor-watch.
Where it breaks: the library tries again only if it reports the connection as lost; a reset one ends the acquire.
Numbers are compared as text, which goes wrong when the counter wraps. The library's guard deletes the node once
more when it is dropped after a delete; here it is never dropped.",
        guarantees: Guarantees::QUEUE,
        params: &[],
        system: LockCard::ZOOKEEPER,
        batch_cost: None,
    },
    build: |config: &LockConfig| Box::new(CrateLock { lock: config.path.clone() }),
};

struct CrateLock {
    lock: String,
}

/// The library keeps the czxid of the node to itself.
const NOT_TOLD: i64 = -1;

#[async_trait(?Send)]
impl Strategy for CrateLock {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let name = MarkedName::curator(uuid::Uuid::new_v4(), "lock-");
        let prefix = format!("{}/{}", self.lock, name.prefix);
        match patience.wait(session.crate_lock(&prefix, "lock-")).await {
            Ok(locked) => {
                let path = locked?;
                let sequence = sequence_of(&path).ok_or(Failure::OwnNodeMissing)?;
                Ok(Held::by(QueueNode { path, sequence, czxid: NOT_TOLD }))
            }
            Err(ended) => {
                self.clean_up(session, &name.mark).await?;
                Err(ended.into())
            }
        }
    }
}

impl CrateLock {
    /// Makes sure that nothing is left of an acquire that was dropped. A list on the own session shows every
    /// node that the session has asked for, so a mark that is not in it will not appear later.
    async fn clean_up(&self, session: &Session, mark: &str) -> Result<(), Failure> {
        for _ in 0..YIELDS {
            reactor::yield_now().await;
        }
        delete_marked(session, &self.lock, mark).await
    }
}
