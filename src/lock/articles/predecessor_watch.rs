//! `predecessor-watch`: each waiter watches the one before it.

use std::future::pending;
use std::mem::take;

use async_trait::async_trait;

use super::class::{self, Seen, WATCHING_CLASS as CLASS};
use crate::lock::queue::joining::{JOIN, Joined, Joining, is_count};
use crate::lock::queue::node::{Standing, watch_data};
use crate::lock::wait::{FLAG_INTERVAL, Flag, WAKE};
use crate::lock::{Acquired, Entry, LockConfig, Patience, QueueNode, Strategy, cost, has_word};
use crate::words::catalog::{BatchCost, Guarantees, LockCard, Mode, Param, ParamKind, Params};
use crate::words::clock::{self, Stamp};
use crate::words::measure::RequestKind::{ExistsWatch, GetDataWatch};
use crate::world::zk::{EventKind, Failure, Session, Watch};

const PREFIX: &str = "n-";
/// With so many in the queue, its own node included, the count saves a list.
const LOOKED_AT: usize = 2;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "predecessor-watch",
        summary: "queue node; each waiter watches the node just before its own, so a release wakes one",
        source: "ZooKeeper's recipes page; three-strategy comparison article, third lock",
        details: concat!(
            "\
Acquire: create ephemeral sequential `n-`; getChildren; its own node is the lowest -> held; else getData with a
watch on the node just before it (`watch = \"exists\"`: exists with a watch, as ZooKeeper's recipes page has it).
NoNode, or the watch fired -> getChildren again.
Release: delete.

Requests: 3 uncontended, 5 contended. Fan-out of a release: 1. Order: first in, first out.
Timed out or cancelled: deletes its own node; the successor wakes, lists and watches the one before.
Crash: the session's end frees the place.
A lost connection ends the acquire or release whose request it hits; the caller then ends the session, and its node
goes with it.

join = \"count\": the create becomes a multi that also sets the directory's data to nothing; the directory's stat in its
reply counts the nodes there. One -> held: 2 requests uncontended. Two -> a watch on the node with the number before its
own, whose NodeDeleted is the lock: 3 requests, and no list. More, or no such node -> getChildren, and on as above. `count`
has the proof and what it takes. A missing directory is made as containers. After three acquires in a row in which the
count was of no use it creates, until it would have been. Whoever waits as the second does not look at its own node
again: if that is deleted by hand, this goes unnoticed until the release.

`wake = \"poll-flag\"` (the article's class): the watcher works as before, but the contender itself sleeps and looks
at a flag every `flag_interval`, so on average it enters half an interval late, and a whole one if uncontended.

Exclusion: held only after a list on its own session that shows no lower number; lower numbers can only go, never
come. Progress: the watched node is the highest below its own; when it goes, by release, abandonment or expiry, the
watch fires. A watch is set in the same step as the look that finds the node there.

Where it breaks: getChildren still returns every name, so bytes grow with the queue. With
`watch = \"exists\"`, a predecessor that goes between the list and the exists leaves a watch on an absent node that
nothing will ever fire; it lasts as long as the session, and `watches_left` in the results counts it. A lost create
response leaves a node that nobody owns (no protection).

`class = \"article\"`: the article's class, as its users get it. It always has `wake = \"poll-flag\"`, and its
nodes are called `temp`. It also gives up when getData finds no node, which happens whenever the predecessor leaves
between the list and the read: a race that a busy queue loses again and again. If somebody else deletes its
node, that shows when the node that it watches goes: with nobody left it enters, together with the next to come;
with one other it gives up; with more it closes its session, and its user waits for ever.
",
            class::class_in_common!()
        ),
        guarantees: Guarantees::QUEUE,
        params: &[
            CLASS,
            Param {
                name: "watch",
                kind: ParamKind::OneOf(&["data", "exists"]),
                default: "data",
                doc: "The request that sets the watch on the predecessor.",
            },
            WAKE,
            FLAG_INTERVAL,
            JOIN,
        ],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        Box::new(PredecessorWatch {
            lock: config.path.clone(),
            by_exists: config.is("watch", "exists"),
            is_article: class::is_asked_for(config),
            flag: Flag::of(config),
            joining: Joining::of(&JOIN, config),
        })
    },
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let watch = if has_word(params, "watch", "exists") { ExistsWatch } else { GetDataWatch };
    let counts = is_count(&JOIN, params) && !has_word(params, CLASS.name, class::ARTICLE);
    let cost = if counts { cost::counted_queue(watch, 2, n) } else { cost::predecessor_queue(watch, n) };
    class::batch_cost(cost, params, n)
}

struct PredecessorWatch {
    lock: String,
    by_exists: bool,
    is_article: bool,
    flag: Flag,
    joining: Joining,
}

#[async_trait(?Send)]
impl Strategy for PredecessorWatch {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let begun = clock::now();
        let joined = self.join(session).await?;
        let waited = self.wait(session, &joined, patience, begun).await;
        joined.node.held_after(session, waited).await
    }
}

impl PredecessorWatch {
    async fn join(&self, session: &Session) -> Result<Joined, Failure> {
        if self.is_article {
            return class::join(session, &self.lock, true).await.map(Joined::untold);
        }
        self.joining.join_or_make(session, &self.lock, PREFIX, &[]).await
    }

    async fn wait(
        &self,
        session: &Session,
        joined: &Joined,
        patience: &Patience,
        begun: Stamp,
    ) -> Acquired<()> {
        if self.is_article {
            let watching = self.wait_as_article(session, &joined.node, patience);
            let waited = class::until_disconnected(session, watching).await;
            // That it has failed is a flag, too.
            self.flag.noticed(begun, patience).await?;
            return waited;
        }
        if self.is_let_in_by_count(session, joined, patience).await? {
            self.joining.learn(true);
        } else {
            self.wait_until_first(session, &joined.node, patience).await?;
        }
        Ok(self.flag.noticed(begun, patience).await?)
    }

    /// Whether it needs no list, because nobody was before it, or one of whose end it has been told.
    async fn is_let_in_by_count(
        &self,
        session: &Session,
        joined: &Joined,
        patience: &Patience,
    ) -> Acquired<bool> {
        if joined.queue != Some(2) {
            return Ok(joined.is_alone());
        }
        let only = joined.node.name_at(PREFIX, -1);
        let Some(mut watch) = self.watch(session, &only).await? else { return Ok(false) };
        Ok(patience.wait(watch.changed()).await? == EventKind::NodeDeleted)
    }

    async fn wait_until_first(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<()> {
        let mut is_first_look = true;
        loop {
            let names = session.get_children(&self.lock).await?;
            if take(&mut is_first_look) {
                self.joining.learn_from(node, &names, LOOKED_AT);
            }
            let Standing::Behind(predecessor) = node.standing(&names)? else { return Ok(()) };
            drop(names);
            if let Some(mut watch) = self.watch(session, &predecessor).await? {
                patience.wait(watch.changed()).await?;
            }
        }
    }

    /// As the article's class: a predecessor that has gone meanwhile ends it. So does the loss of its own node,
    /// when one other is there; among more its search for the one before fails, its watcher closes the session,
    /// and the waiting thread, which is not told, looks at its flag for ever.
    async fn wait_as_article(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<()> {
        loop {
            let list = session.get_children(&self.lock);
            let predecessor = match class::seen(node, &list.await?) {
                Seen::Held => return Ok(()),
                Seen::Behind(predecessor) => predecessor,
                Seen::Missing(1) => return Err(Failure::OwnNodeMissing.into()),
                Seen::Missing(_) => return patience.wait(pending()).await?,
            };
            let mut watch = self.watch(session, &predecessor).await?.ok_or(Failure::NoNode)?;
            patience.wait(watch.changed()).await?;
        }
    }

    /// Watches the predecessor; `None` when it has gone meanwhile.
    async fn watch(&self, session: &Session, predecessor: &str) -> Result<Option<Watch>, Failure> {
        let path = format!("{}/{predecessor}", self.lock);
        if self.by_exists {
            // On an absent node the watch stays on the server: the leak that this variant is known for.
            let (found, watch) = session.exists_and_watch(&path).await?;
            return Ok(found.map(|_| watch));
        }
        watch_data(session, &path).await
    }
}
