//! `ahead`: each waiter watches the two before it, and so knows beforehand when the next release is its own.

use std::future::pending;
use std::mem::take;

use async_trait::async_trait;
use futures_util::future::join;

use crate::lock::curator::queue::{DATA, find_synced, join_by_name, leave_for_certain};
use crate::lock::queue::creating::MarkedName;
use crate::lock::queue::joining::{JOIN, Joined, Joining, is_count};
use crate::lock::queue::node::watch_data;
use crate::lock::queue::retry::Retry;
use crate::lock::{Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost};
use crate::words::catalog::{
    BatchCost, Guarantees, LockCard, Mode, Param, ParamKind, ParamValue, Params, Protection,
};
use crate::world::zk::{EventKind, Failure, Names, Session, Watch};

const RETRY: Retry = Retry::USUAL;

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
        Box::new(Ahead { lock: config.path.clone(), in_one_flush: !apart, joining: Joining::of(&JOIN, config) })
    },
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if is_count(&JOIN, params) { cost::counted_two_back_queue(n) } else { cost::two_back_queue(n) }
}

struct Ahead {
    lock: String,
    in_one_flush: bool,
    joining: Joining,
}

/// A node before the own, and the watch on it.
struct Sentry {
    name: String,
    watch: Watch,
}

/// The watches on the two nodes before the own. One that has fired, or whose node was gone, is not there.
#[derive(Default)]
struct Sentries {
    near: Option<Sentry>,
    far: Option<Sentry>,
}

#[derive(PartialEq, Eq)]
enum Learnt {
    NearIsGone,
    LookAgain,
}

#[async_trait(?Send)]
impl Strategy for Ahead {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let list_along = self.in_one_flush;
        let (joined, names) = join_and_list(session, &self.lock, "lock-", &self.joining, list_along).await?;
        if joined.is_alone() {
            self.joining.learn(true);
            return Ok(Held::by(joined.node));
        }
        let waited = self.wait_until_first(session, &joined.node, names, patience).await;
        joined.node.held_after(session, waited).await
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let Some(node) = held.node else { return Ok(()) };
        leave_for_certain(session, node, RETRY).await
    }
}

/// Joins a queue under protection. Where the count won't tell whether a list is needed and it may go along, sends it in the
/// same flush; returns its names, where it succeeded.
pub async fn join_and_list(
    session: &Session,
    lock: &str,
    kind: &str,
    joining: &Joining,
    may_list_along: bool,
) -> Result<(Joined, Option<Names>), Failure> {
    let name = MarkedName::curator(uuid::Uuid::new_v4(), kind);
    if may_list_along && !joining.counts() {
        let list = || session.get_children(lock);
        match QueueNode::join_and(session, lock, &name.prefix, DATA, list).await {
            Ok((node, names)) => return Ok((Joined::untold(node), names.ok())),
            Err(Failure::NoNode) => {}
            Err(Failure::ConnectionLoss) => {
                if let Some(joined) = find_synced(session, lock, &name, RETRY, joining).await? {
                    return Ok((joined, None));
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok((join_by_name(session, lock, &name, RETRY, joining).await?, None))
}

impl Ahead {
    async fn wait_until_first(
        &self,
        session: &Session,
        node: &QueueNode,
        mut listed: Option<Names>,
        patience: &Patience,
    ) -> Acquired<()> {
        let mut sentries = Sentries::default();
        let mut is_first_look = true;
        loop {
            let names = match listed.take() {
                Some(names) => names,
                None => RETRY.around(|| session.get_children(&self.lock)).await?,
            };
            self.joining.late.delete(session, &self.lock, &names, node).await?;
            let before = node.nearest_before(&names, 2)?;
            if take(&mut is_first_look) {
                self.joining.learn_from(node, &names, 1);
            }
            if before.is_empty() {
                return Ok(());
            }
            drop(names);
            sentries.post(session, &self.lock, &before).await?;
            let learnt = patience.wait(sentries.next(before.len())).await?;
            // The only one below the own node has gone, and none can come: no look is needed.
            if learnt == Learnt::NearIsGone && before.len() == 1 {
                return Ok(());
            }
        }
    }
}

impl Sentries {
    /// Watches these nodes, the nearest first, in one flush. A watch that is set already stays.
    async fn post(&mut self, session: &Session, lock: &str, before: &[String]) -> Result<(), Failure> {
        let mut set: Vec<Sentry> = [self.near.take(), self.far.take()].into_iter().flatten().collect();
        let mut kept = |name: Option<&String>| {
            let place = set.iter().position(|sentry| Some(&sentry.name) == name)?;
            Some(set.swap_remove(place))
        };
        let (near, far) = (before.first(), before.get(1));
        let (kept_near, kept_far) = (kept(near), kept(far));
        let near = sentry(session, lock, near, kept_near);
        let far = sentry(session, lock, far, kept_far);
        let (near, far) = join(near, far).await;
        (self.near, self.far) = (near?, far?);
        Ok(())
    }

    /// Waits for the next thing to learn, of that many nodes before the own.
    async fn next(&mut self, before: usize) -> Learnt {
        let Some(near) = &mut self.near else { return Learnt::NearIsGone };
        if self.far.is_none() && before > 1 {
            return Learnt::LookAgain;
        }
        let far_goes = async {
            match &mut self.far {
                Some(far) => far.watch.changed().await,
                None => pending().await,
            }
        };
        let near_fired = tokio::select! {
            biased;
            event = near.watch.changed() => Some(event),
            _ = far_goes => None,
        };
        match near_fired {
            Some(_) => self.near = None,
            None => self.far = None,
        }
        if near_fired == Some(EventKind::NodeDeleted) { Learnt::NearIsGone } else { Learnt::LookAgain }
    }
}

/// Keeps a watch that is set, or sets it; `None` when there is nothing to watch or it has gone meanwhile.
async fn sentry(
    session: &Session,
    lock: &str,
    name: Option<&String>,
    kept: Option<Sentry>,
) -> Result<Option<Sentry>, Failure> {
    let (Some(name), None) = (name, &kept) else { return Ok(kept) };
    let path = format!("{lock}/{name}");
    let watch = RETRY.around(|| watch_data(session, &path)).await?;
    Ok(watch.map(|watch| Sentry { name: name.clone(), watch }))
}
