//! `predecessor-watch`: each waiter watches the node before its own.

use std::future::pending;

use super::class::{self, Seen, WATCHING_CLASS as CLASS};
use crate::after::{ENDS, ENDS_BY_COUNT};
use crate::prelude::*;
use crate::queue::fired;
use crate::queue::joining::COUNT;
use crate::wait::{FLAG_INTERVAL, Flag, WAKE};

const PREFIX: &str = "n-";
/// Largest queue length, including the contender's own node, for which the count saves a list.
const HELPED_UP_TO: usize = 2;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "predecessor-watch",
        // Articles call the predecessor a child of the lock's directory.
        aliases: &["child-watch", "child-node-watch", "node-watch", "previous-node-watch"],
        summary: "queue node; each waiter watches the node just before its own, so a release wakes one",
        source: "ZooKeeper's recipes page; three-strategy comparison article, third lock",
        details: concat!(include_str!("predecessor_watch.md"), include_str!("class.md")).trim_ascii_end(),
        guarantees: Guarantees::QUEUE,
        after: &[ENDS, class::AFTER, ENDS_BY_COUNT.with(JOIN.name, COUNT)],
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
            class::DIRECTORY,
        ],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let watches = if config.is("watch", "exists") { Watches::Exists } else { Watches::Data };
        let joining = Joining { helped_up_to: HELPED_UP_TO, ..Joining::of(&JOIN, config) };
        Box::new(PredecessorWatch {
            queue: Queue::new(&class::lock(config), Habits { watches, ..Habits::PLAIN }, joining),
            is_article: class::is_asked_for(config),
            flag: Flag::of(config),
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
    queue: Queue,
    is_article: bool,
    flag: Flag,
}

#[async_trait(?Send)]
impl Strategy for PredecessorWatch {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let begun = clock::now();
        let Some(mut joined) = self.join(session).await? else {
            return class::forgotten(session, patience).await;
        };
        let waited = self.wait(session, &mut joined, patience).await;
        let waited = class::noticed(self.is_article, self.flag, begun, patience, waited).await;
        joined.node.held_after(session, waited).await
    }
}

impl PredecessorWatch {
    async fn join(&self, session: &Session) -> Result<Option<Joined>, Failure> {
        if self.is_article {
            let node = class::join(session, &self.queue.lock, true).await?;
            return Ok(node.map(Joined::untold));
        }
        self.queue.joining.join(session, &self.queue.lock, PREFIX).await.map(Some)
    }

    async fn wait(&mut self, session: &Session, joined: &mut Joined, patience: &Patience) -> Acquired<()> {
        if self.is_article {
            let watching = self.wait_as_article(session, &joined.node, patience);
            return class::until_disconnected(true, session, watching).await;
        }
        if self.has_seen_the_only_one_go(session, joined, patience).await? {
            self.queue.joining.learn(true);
        } else {
            self.queue.wait(session, joined, patience, QueueNode::predecessor).await?;
        }
        Ok(())
    }

    /// Waits for the deletion of the only node ahead, if the count showed one. Returns whether the deletion
    /// made a list unnecessary.
    async fn has_seen_the_only_one_go(
        &mut self,
        session: &Session,
        joined: &Joined,
        patience: &Patience,
    ) -> Acquired<bool> {
        if joined.queue != Some(2) || patience.tries_once {
            return Ok(false);
        }
        let only = [joined.node.name_at(PREFIX, -1)];
        let mut set = self.queue.watch(session, &only, Vec::new()).await?;
        Ok(!set.is_empty() && patience.wait(fired(&mut set)).await? == EventKind::NodeDeleted)
    }

    /// Waits like the article's class, which fails if its predecessor is gone before the watch is set. The
    /// class also fails if its own node is missing and one other node exists. If more nodes exist, its
    /// watcher fails and closes the session without notifying the waiting thread, which polls its flag
    /// forever.
    async fn wait_as_article(
        &mut self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Acquired<()> {
        loop {
            let list = session.get_children(&self.queue.lock);
            let predecessor = match class::seen(node, &list.await?)? {
                Seen::Held => return Ok(()),
                Seen::Behind(predecessor) => [predecessor],
                Seen::Missing(1) => return Err(Failure::OwnNodeMissing.into()),
                Seen::Missing(_) => return patience.wait(pending()).await?,
            };
            let mut set = self.queue.watch(session, &predecessor, Vec::new()).await?;
            if set.is_empty() {
                return Err(Failure::NoNode.into());
            }
            match patience.wait(fired(&mut set)).await? {
                EventKind::NodeDeleted => {}
                EventKind::SessionOver => return Err(Failure::SessionExpired.into()),
                // The class's watcher ignores any other event, and sets no new watch.
                _ => return patience.wait(pending()).await?,
            }
        }
    }
}
