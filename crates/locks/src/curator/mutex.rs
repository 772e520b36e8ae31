//! `curator-mutex`: Apache Curator's InterProcessMutex.

use std::pin::Pin;

use super::queue::{CuratorQueue, SHARED_OBJECT};
use super::revocation;
use crate::HoldOver;
use crate::after::GOES_ON;
use crate::prelude::*;
use crate::queue::retry::{self};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-mutex",
        summary: "Curator's InterProcessMutex: protected queue node, data watch on the predecessor, reentrant",
        source: "Apache Curator, InterProcessMutex and LockInternals",
        details: include_str!("mutex.md").trim_ascii_end(),
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..Guarantees::QUEUE },
        after: &[GOES_ON],
        params: &joined::<7, 2, 9>(
            joined::<5, 2, 7>(retry::PARAMS, revocation::PARAMS),
            [SHARED_OBJECT, JOIN],
        ),
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(CuratorMutex { queue: CuratorQueue::of(config), owned: None }),
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let mut cost = cost::predecessor_queue(GetDataWatch, n);
    if is_count(&JOIN, params) {
        cost = cost::counted_queue(GetDataWatch, 1, n);
    }
    if matches!(params.get(SHARED_OBJECT.name), Some(ParamValue::Bool(true))) {
        // Each release checks every waiter's watch, and all waiters behind the next holder list and watch again.
        let waiting = n * n.saturating_sub(1) / 2;
        let woken = waiting - n.saturating_sub(1);
        cost.requests.extend([(CheckWatches, waiting), (GetChildren, woken), (GetDataWatch, woken)]);
        cost.names_returned = None;
    }
    if has_word(params, "revocation", revocation::ALLOWED) {
        cost.requests.extend([(GetDataWatch, n), (CheckWatches, n)]);
        cost.events.node_deleted += n;
        cost.to_releaser += n;
    }
    // The number of revocation requests depends on the hold times.
    BatchCost { open: has_word(params, "revocation", revocation::ASKED), ..cost }
}

/// One owner's mutex; also used as a part of other locks.
pub struct CuratorMutex {
    queue: CuratorQueue,
    /// Node with which this owner holds the lock, and number of times it has acquired the lock.
    owned: Option<(QueueNode, u32)>,
}

impl CuratorMutex {
    pub fn new(lock: &str, retry: Retry) -> Self {
        Self { queue: CuratorQueue::new(lock, retry), owned: None }
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
