//! `curator-mutex`: Apache Curator's InterProcessMutex.

use std::pin::Pin;

use async_trait::async_trait;

use super::queue::CuratorQueue;
use super::revocation::{self, Revocation};
use super::shared_object::SharedObject;
use crate::lock::queue::joining::{JOIN, Joining, is_count};
use crate::lock::queue::retry::{self, Retry};
use crate::lock::{
    Acquired, Entry, Held, HoldOver, LockConfig, Patience, QueueNode, Strategy, cost, has_word,
};
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
its uuid before another is created, and when the policy allows no other, in the background, to delete it);
getChildren; its own node is the lowest -> held; else getData with a watch on the one before. Any event, even a
disconnection or reconnection -> getChildren again. Its own node or the lock's directory is missing, even right
after that was made -> start over with a new node at the end of the queue, as often as the retry policy allows.
Release: count down; at 0 delete. A lost connection: any request is sent again, as the policy says; a release that
still fails goes on in the background until it succeeds or the session ends.
Revocable (makeRevocable): its node is empty; after the create, getData with a watch on its own node; when its
data changes, getData with a watch again, and if it is `__REVOKE__` the holder ends its hold and releases. To
ask (attemptRevoke, after getParticipantNodes): getChildren, setData on the first node. A release also asks
whether the watch on its own node is still set; Java does this by checkWatches, here `exists` on the node stands
in for it. A contender that is asked while it still waits notices once it holds.

Requests: 3 uncontended, 5 contended, 6 when timed out; 2 more when revocable. A revocation takes 3, plus 2 by the
one behind the holder, which watches the overwritten data and wakes for nothing. Fan-out of a release: 1.
Order: first in, first out.
Timed out: looks once more, as Curator does, then deletes its node; its watch on the predecessor stays armed, and
wakes the object's next acquire, if that waits then: it lists and watches once for nothing.
Crash: the session's end frees the place.

shared_object: all contenders use one object, as threads of one process may. A release then also asks the server
about the watch of every waiting task (checkWatches; an exists stands in for it here, and each contender still has
its own session) and wakes them all: each lists and sets its watch again. That makes 3 requests for every waiting
task at every release, 1.5 N on average over a queue of N. Without it a release costs 2 requests however many wait.

join = \"count\" (not in Curator): the create becomes a multi that also sets the directory's data to nothing; the directory's
stat in its reply counts the nodes there. One -> held without a list: 2 requests uncontended. `count` has the proof and
what it takes. It overwrites what others keep in the directory, where Curator keeps nothing, and wakes whoever watches
that; Java's clients can be in the same queue. A lost reply: as ahead. After three acquires in a row behind others it creates, until it finds itself first again.

Exclusion and progress: as predecessor-watch.
Where it breaks: names are four times as long as bare ones, so large queues cost more bytes. A holder is not
told that its session has expired. Every reconnection costs each waiter a list and a watch.
Not copied from Java: the order of names that have no `lock-`. There they come behind if they sort behind digits, as
kazoo's do, and Java's Curator gets in beside kazoo; here all numbers are compared. Java compares them as text,
which puts the newest first once the counter has passed 2^31; here the order stays right. Java's client opens
another session when one has expired, and an acquire goes on with a new node; here it fails, and the caller
opens another. While it has no connection Java's client uses up its tries; here a request waits for one. A node that is
found again after a lost reply is looked at once, for its fencing token, which Java's lock does not tell. Java's
makeRevocable is for one acquire, here for all. Curator up to 5.4 looks for missing directories from the top downwards;
here, as in later releases, from the leaf upwards.",
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..Guarantees::QUEUE },
        params: &joined::<7, 2, 9>(
            joined::<5, 2, 7>(retry::PARAMS, revocation::PARAMS),
            [SHARED_OBJECT, JOIN],
        ),
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(CuratorMutex::of(config)),
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let mut cost = cost::predecessor_queue(GetDataWatch, n);
    if is_count(&JOIN, params) {
        cost = cost::counted_queue(GetDataWatch, 1, n);
    }
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
pub struct CuratorMutex {
    queue: CuratorQueue,
    /// The node by which this owner holds, and how many times it has taken the lock.
    owned: Option<(QueueNode, u32)>,
}

impl CuratorMutex {
    pub fn new(lock: &str, retry: Retry) -> Self {
        Self { queue: CuratorQueue::new(lock, retry, Joining::by_create()), owned: None }
    }

    fn of(config: &LockConfig) -> Self {
        let retry = Retry::of(config);
        let object = config.flag(SHARED_OBJECT.name).then(|| SharedObject::on(&config.path));
        let queue = CuratorQueue::new(&config.path, retry, Joining::of(&JOIN, config));
        Self { queue: queue.shared_by(object).revocable(Revocation::of(config, retry)), owned: None }
    }

    pub fn is_owned(&self) -> bool {
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

    async fn hold(&mut self, session: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> HoldOver {
        if self.queue.hold(session, end).await { HoldOver::Asked } else { HoldOver::ByItself }
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
