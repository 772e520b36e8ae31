//! `ahead`: each waiter watches the two before it, and so knows beforehand when the next release is its own.

use async_trait::async_trait;

use crate::lock::curator::queue::DATA;
use crate::lock::queue::joining::{JOIN, Joining, is_count};
use crate::lock::queue::retry::Retry;
use crate::lock::queue::{Habits, Queue};
use crate::lock::{Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost};
use crate::words::catalog::{
    BatchCost, Guarantees, LockCard, Mode, Param, ParamKind, ParamValue, Params, Protection,
};
use crate::world::zk::{Failure, Names, Session};

const HABITS: Habits = Habits { keeps_watches: true, trusts_deletion: true, ..Habits::patient(Retry::USUAL) };

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "ahead",
        summary: "Curator's queue, but waiters watch the two nodes before them, check early, and enter on an \
                  event alone",
        source: "this suite; its nodes, names and release are those of Curator's InterProcessMutex",
        details: "\
Acquire: create ephemeral sequential `_c_<uuid>-lock-` and getChildren, in one flush (`flush = false`: one after
the other); its own node is the lowest -> held; else getData with a watch on the node just before its own (the near
one) and on the one before that (the far one), in one flush. The far one goes -> getChildren while the near one
still holds, off the critical path. Only the near one is left below its own -> its NodeDeleted is the lock: nothing
is read after it. The near one goes first, because it gave up or died -> getChildren as predecessor-watch does. A
watch that is still set is kept, not set again.
Release: delete, retried as Curator does. Nobody needs to be told anything, so it can share a queue with Curator and
everything that queues the same way.

Requests: 3 uncontended, 6 contended (5 with one before it). Handoff: one round trip and a commit, where
predecessor-watch has two round trips and a commit. Fan-out of a release: 2. Order: first in, first out.
A batch of N: N creates, N deletes, 2N - 2 lists, 2N - 3 watches and as many notifications, N^2 - 1 names; a
single contender lists once.

join = \"count\": the create becomes a multi that also sets the directory's data to nothing; the directory's stat in its
reply counts the nodes there. One -> held: 2 requests uncontended, and no list. More -> getChildren, and on as above.
`count` has the proof and what it takes. After three acquires in a row behind others it creates and lists in one flush,
until it finds itself first again.

Exclusion: all nodes with a lower number were created before its own, and its server had applied them when it
answered the create; so any later list on the session shows all lower nodes that are left, and lower nodes can only
go, never come. It takes the lock for held in two cases only: a list shows no lower node; or a list showed the near
one alone, and the server then said that it is gone (NodeDeleted, or NoNode when setting the watch). In both cases
nobody is below its own node, and any other holder would have to be the lowest. Any other event (data written by
hand, the session's end) leads to a list. Events that come while the list is under way are kept by the watch and
judged by what that list shows.
Progress: while anybody is below, the watch on the near one is set, in the same step as the look that finds it
there. It is set again from every list that shows another near one. A far one that gave up or died costs a list
and a watch on the next. After a reconnection the client sets its watches again, and a node that went meanwhile is
reported as deleted. So nobody is left behind when a holder dies, a session expires or a waiter leaves.
Lost create response: the node is looked for by its uuid after a sync (without it, a server that lags could hide a
node that was created), before another is created. A create that a server applies even later is deleted by the
contender's next list. Any other request that hits a lost connection is sent again, as Curator's policy
allows. Timed out or cancelled: deletes its own node.
Numbers wrap past 2^31; distances are compared on the circle, so this lock keeps working. Stock clients in the same
queue compare differently and do not.

Where it breaks: 2 notifications per release are the price of the saved round trip. If the near one releases before
the early list is back (holds shorter than a round trip), that list is on the critical path after all. Its own node
is not read again: if it is deleted by hand while waiting, that goes unnoticed until the release, and the one behind
may then get in alongside it. A holder is not told that its session has expired. getChildren still returns every
name, twice for each acquisition.",
        guarantees: Guarantees { protection: Protection::Complete, ..Guarantees::QUEUE },
        params: &[
            Param {
                name: "flush",
                kind: ParamKind::Bool,
                default: "true",
                doc: "Whether to send the create and the first list together, which saves a round trip.",
            },
            JOIN,
        ],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        let apart = matches!(config.params.get("flush"), Some(ParamValue::Bool(false)));
        let joining = Joining { lists_along: !apart, ..joining(&JOIN, config) };
        Box::new(Ahead { queue: Queue::new(&config.path, HABITS, joining), kind: "lock-", watched: 2 })
    },
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if is_count(&JOIN, params) { cost::counted_two_back_queue(n) } else { cost::two_back_queue(n) }
}

/// Curator's names and data, found again after a sync.
pub fn joining(join: &Param, config: &LockConfig) -> Joining {
    let protection = Protection::Complete;
    Joining { data: DATA, protection, retry: Retry::USUAL, ..Joining::of(join, config) }
}

/// One that watches the nearest few of those before it, and is inside while fewer are before it than there is room for.
pub struct Ahead {
    pub queue: Queue,
    pub kind: &'static str,
    pub watched: usize,
}

#[async_trait(?Send)]
impl Strategy for Ahead {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let (room, watched) = (self.queue.habits.room, self.watched);
        let in_the_way = |node: &QueueNode, names: &Names| {
            let before = node.nearest_before(names, watched)?;
            Ok::<_, Failure>(if before.len() < room { Vec::new() } else { before })
        };
        self.queue.enter(session, self.kind, patience, in_the_way).await.map(Held::by)
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        match held.node {
            Some(node) => self.queue.leave(session, node).await,
            None => Ok(()),
        }
    }
}
