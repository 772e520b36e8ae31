//! `predecessor-watch`: each waiter watches the one before it.

use async_trait::async_trait;

use super::article::{self, WATCHING_CLASS as CLASS};
use super::queue_node::{Standing, watch_data};
use super::wait::{FLAG_INTERVAL, Flag, WAKE};
use super::{Acquired, Entry, LockConfig, Patience, QueueNode, Strategy, cost, has_word};
use crate::words::catalog::{BatchCost, Guarantees, LockCard, Mode, Param, ParamKind, Params};
use crate::words::clock::{self, Stamp};
use crate::words::measure::RequestKind::{ExistsWatch, GetDataWatch};
use crate::world::zk::{Failure, Session, Watch};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "predecessor-watch",
        summary: "queue node; each waiter watches the node just before its own, so a release wakes one",
        source: "ZooKeeper's recipes page; three-strategy comparison article, third lock",
        details: "\
Acquire: create ephemeral sequential `n-`; getChildren; its own node is the lowest -> held; else getData with a
watch on the node just before it (`watch = \"exists\"`: exists with a watch, as ZooKeeper's recipes page has it).
NoNode, or the watch fired -> getChildren again.
Release: delete.

Requests: 3 uncontended, 5 contended. Fan-out of a release: 1. Order: first in, first out.
Timed out or cancelled: deletes its own node; the successor wakes, lists and watches the one before.
Crash: the session's end frees the place.
A lost connection ends the acquire or release whose request it hits; the caller then ends the session, and its node
goes with it.

`wake = \"poll-flag\"` (the article's class): the watcher works as before, but the contender itself sleeps and looks
at a flag every `flag_interval`, so on average it enters half an interval late, and a whole one if uncontended.

`class = \"article\"`: the article's class, as its users get it. It always has `wake = \"poll-flag\"`. It also gives
up when getData finds no node, which happens whenever the predecessor leaves between the list and the read: a race
that a busy queue loses again and again. It gives up at the first Disconnected, although the session lives on; the
session is then ended, and its node goes with it. It enters if no number in its list is lower than its own, without
looking for its own node: if somebody else deleted its node, it enters even on an empty list, together with the next
to come. The class opens a session and a connection for each lock; here a contender keeps its session from one lock
to the next. So with `acquisitions = 1` each lock has its own connection, as in the article; otherwise the cost of
opening and closing sessions is not in the figures.

Exclusion: held only after a list on its own session that shows no lower number; lower numbers can only go, never
come. Progress: the watched node is the highest below its own; when it goes, by release, abandonment or expiry, the
watch fires. A watch is set in the same step as the look that finds the node there.

Where it breaks: getChildren still returns every name, so bytes grow with the queue. With
`watch = \"exists\"`, a predecessor that goes between the list and the exists leaves a watch on an absent node that
nothing will ever fire; it lasts as long as the session, and `watches_left` in the results counts it. A lost create
response leaves a node that nobody owns (no protection).",
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
        ],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        Box::new(PredecessorWatch {
            lock: config.path.clone(),
            by_exists: config.is("watch", "exists"),
            is_article: article::is_asked_for(config),
            flag: Flag::of(config),
        })
    },
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    cost::predecessor_queue(if has_word(params, "watch", "exists") { ExistsWatch } else { GetDataWatch }, n)
}

struct PredecessorWatch {
    lock: String,
    by_exists: bool,
    is_article: bool,
    flag: Flag,
}

#[async_trait(?Send)]
impl Strategy for PredecessorWatch {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let begun = clock::now();
        let node = QueueNode::join(session, &self.lock, "n-", &[]).await?;
        let waited = self.wait(session, &node, patience, begun).await;
        node.held_after(session, waited).await
    }
}

impl PredecessorWatch {
    async fn wait(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
        begun: Stamp,
    ) -> Acquired<()> {
        if self.is_article {
            let watching = self.wait_as_article(session, node, patience);
            let waited = article::until_disconnected(session, watching).await;
            // That it has failed is a flag, too.
            self.flag.noticed(begun, patience).await?;
            return waited;
        }
        self.wait_until_first(session, node, patience).await?;
        Ok(self.flag.noticed(begun, patience).await?)
    }

    async fn wait_until_first(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<()> {
        loop {
            let names = session.get_children(&self.lock).await?;
            let Standing::Behind(predecessor) = node.standing(&names)? else { return Ok(()) };
            if let Some(mut watch) = self.watch(session, &predecessor).await? {
                patience.wait(watch.changed()).await?;
            }
        }
    }

    /// As the article's class: a predecessor that has gone meanwhile ends it.
    async fn wait_as_article(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<()> {
        loop {
            let names = session.get_children(&self.lock).await?;
            let Some(predecessor) = article::predecessor(node, &names) else { return Ok(()) };
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
