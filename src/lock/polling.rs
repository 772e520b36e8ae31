//! `polling`: look again every so often.

use std::time::Duration;

use async_trait::async_trait;

use super::queue_node::Standing;
use super::{AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use crate::catalog::{BatchCost, Guarantees, LockCard, Mode, Param, ParamKind, Params};
use crate::measure::RequestKind::{Create, Delete};
use crate::zk::{Failure, Session};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Description and constructor.
pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "polling",
        summary: "queue node; sleeps, lists the queue, and holds once its node is the lowest",
        source: "three-strategy comparison article, first lock",
        details: "\
Acquire: create ephemeral sequential `temp`; then again and again: sleep the poll interval, getChildren;
the own node is the lowest -> held. The sleep comes first, so even an uncontended acquire takes one interval.
Release: delete.

Requests: 3 uncontended, 2 + looks contended. Notifications: none. Order: first in, first out.
Timed out or cancelled: deletes its own node. Crash: the session's end frees the lock.

Where it breaks: after every release the lock lies idle for half a poll interval on average, whatever the
speed of the ensemble; a shorter interval buys latency with reads. A lost create response leaves a node that
nobody owns in front of the next attempt until the session ends (no protection). The article's own code
takes an empty list for a held lock; here a list without the own node is an error.",
        guarantees: Guarantees { watches: false, ..Guarantees::QUEUE },
        params: &[Param {
            name: "poll_interval",
            kind: ParamKind::Duration,
            default: "1s",
            doc: "Time between two looks at the queue.",
        }],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        Box::new(Polling {
            lock: config.path.clone(),
            interval: config.duration("poll_interval", DEFAULT_INTERVAL),
        })
    },
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    BatchCost { requests: vec![(Create, n), (Delete, n)], looks_follow_waits: true, ..BatchCost::default() }
}

struct Polling {
    lock: String,
    interval: Duration,
}

#[async_trait(?Send)]
impl Strategy for Polling {
    async fn acquire(
        &mut self,
        session: &Session,
        _: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        let node = QueueNode::join(session, &self.lock, "temp", &[]).await?;
        match self.poll_until_first(session, &node, patience).await {
            Ok(()) => Ok(Held::by(node)),
            Err(why) => Err(node.give_up(session, why).await),
        }
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        super::leave(session, held).await
    }
}

impl Polling {
    async fn poll_until_first(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Result<(), AcquireError> {
        loop {
            patience.sleep(self.interval).await?;
            let names = session.get_children(&self.lock).await?;
            if node.standing(&names)? == Standing::First {
                return Ok(());
            }
        }
    }
}
