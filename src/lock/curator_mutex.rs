//! `curator-mutex`: Apache Curator's InterProcessMutex.

use std::pin::Pin;

use async_trait::async_trait;

use super::curator_queue::CuratorQueue;
use super::in_process::SharedObject;
use super::retry::{self, Retry};
use super::revocation::{self, Revocation};
use super::{Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost, has_word};
use crate::words::catalog::{
    BatchCost, Guarantees, LockCard, Mode, Param, ParamKind, ParamValue, Params, Protection, joined,
};
use crate::words::measure::RequestKind::{Exists, GetChildren, GetDataWatch};
use crate::world::zk::{Failure, Session};

const SHARED_OBJECT: Param = Param {
    name: "shared_object",
    kind: ParamKind::Bool,
    default: "false",
    doc: "Whether all contenders share one mutex object, as threads of a process may; this makes a herd.",
};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-mutex",
        summary: "Curator's InterProcessMutex: protected queue node, data watch on the predecessor, reentrant",
        source: "Apache Curator, InterProcessMutex and LockInternals",
        details: "\
Acquire: held already by this owner -> count up, no request. Else create ephemeral sequential
`_c_<uuid>-lock-` (missing parents are made as containers; after a lost response the node is looked for by
its uuid before another is created); getChildren; its own node is the lowest -> held; else getData with a watch on
the one before. Any event, even a disconnection or reconnection -> getChildren again. Its own node or the lock's
directory is missing -> start over with a new node at the end of the queue, as often as the retry policy allows.
Release: count down; at 0 delete. A lost connection: any request is sent again, as the policy says; a release that
still fails goes on in the background until it succeeds or the session ends.
Revocable (makeRevocable): after the create, getData with a watch on its own node; when its data changes, getData
with a watch again, and if it is `__REVOKE__` the holder ends its hold and releases. To ask (attemptRevoke, after
getParticipantNodes): getChildren, setData on the first node. A release also asks whether the watch on its own node
is still set; Java does this by checkWatches, here `exists` on the node stands in for it. A contender that is asked
while it still waits notices once it holds.

Requests: 3 uncontended, 5 contended, 6 when timed out; 2 more when revocable. A revocation takes 3, plus 2 by the
one behind the holder, which watches the overwritten data and wakes for nothing. Fan-out of a release: 1.
Order: first in, first out.
Timed out: looks once more, as Curator does, then deletes its node; its watch on the predecessor stays armed.
Crash: the session's end frees the place.

shared_object: all contenders use one object, as threads of one process may. A release then also asks the server
about the watch of every waiting task (checkWatches; an exists stands in for it here, and each contender still has
its own session) and wakes them all: each lists and sets its watch again. That makes 3 requests for every waiting
task at every release, 1.5 N on average over a queue of N. Without it a release costs 2 requests however many wait.

Exclusion and progress: as predecessor-watch.
Where it breaks: names are four times as long as bare ones, so large queues cost more bytes. A holder is not
told that its session has expired. Every reconnection costs each waiter a list and a watch.",
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..Guarantees::QUEUE },
        params: &joined::<7, 1, 8>(joined::<5, 2, 7>(retry::PARAMS, revocation::PARAMS), [SHARED_OBJECT]),
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(CuratorMutex::of(config)),
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let mut cost = cost::predecessor_queue(GetDataWatch, n);
    if matches!(params.get(SHARED_OBJECT.name), Some(ParamValue::Bool(true))) {
        // At each release everybody behind the next one lists and watches again; everybody's watch is asked about.
        let waiting = n * n.saturating_sub(1) / 2;
        let woken = waiting - n.saturating_sub(1);
        cost.requests.extend([(Exists, waiting), (GetChildren, woken), (GetDataWatch, woken)]);
        cost.names_returned = None;
    }
    if has_word(params, "revocation", revocation::ALLOWED) {
        cost.requests.extend([(GetDataWatch, n), (Exists, n)]);
        cost.events.node_deleted += n;
        cost.to_releaser += n;
    }
    // How often holders are asked depends on how long they hold.
    BatchCost { open: has_word(params, "revocation", revocation::ASKED), ..cost }
}

/// One owner's mutex; also the part that other locks are made of.
pub(super) struct CuratorMutex {
    queue: CuratorQueue,
    /// The node by which this owner holds, and how many times it has taken the lock.
    owned: Option<(QueueNode, u32)>,
}

impl CuratorMutex {
    /// A free mutex on that path.
    pub(super) fn new(lock: String, retry: Retry) -> Self {
        Self { queue: CuratorQueue::new(lock, retry), owned: None }
    }

    fn of(config: &LockConfig) -> Self {
        let retry = Retry::of(config);
        let object = config.flag(SHARED_OBJECT.name).then(|| SharedObject::on(&config.path));
        let queue = CuratorQueue::new(config.path.clone(), retry).shared_by(object);
        Self { queue: queue.revocable(Revocation::of(config, retry)), owned: None }
    }

    pub(super) fn is_owned(&self) -> bool {
        self.owned.is_some()
    }
}

#[async_trait(?Send)]
impl Strategy for CuratorMutex {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        if let Some((node, count)) = &mut self.owned {
            *count += 1;
            return Ok(Held::by(node.clone()));
        }
        let node = self.queue.enter(session, "lock-", patience, &QueueNode::predecessor).await?;
        self.owned = Some((node.clone(), 1));
        Ok(Held::by(node))
    }

    async fn hold(&mut self, session: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> bool {
        self.queue.hold(session, end).await
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        if let Some((_, count)) = self.owned.as_mut().filter(|(_, count)| *count > 1) {
            *count -= 1;
            return Ok(());
        }
        self.owned = None;
        let Some(node) = held.node else { return Ok(()) };
        self.queue.leave(session, node).await
    }
}
