//! `predecessor-watch-wait-limited`: a published Java class, with its flaws.

use std::time::Duration;

use crate::after::{
    DirectoryDeleted, ENDS, GoesOn, NoDirectory, OwnNodeDeleted, TimedOut, TimesOutAndLeaves, WithoutNode,
};
use crate::prelude::*;
use crate::queue::directories::make_directory;
use crate::queue::{Waiter, Wakes, WatchOn, fired};

const PREFIX: &str = "mutex_lock_";

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "predecessor-watch-wait-limited",
        summary: "assumes it holds the lock once its predecessor is deleted, without checking; leaves its \
            node behind on timeout; broken",
        source: "watch-lock article, its Java class",
        details: include_str!("predecessor_watch_wait_limited.md").trim_ascii_end(),
        guarantees: Guarantees { exclusive: false, ..Guarantees::QUEUE },
        after: &[ENDS.but([
            (TimedOut, TimesOutAndLeaves),
            (OwnNodeDeleted, WithoutNode),
            (NoDirectory, GoesOn),
            (DirectoryDeleted, WithoutNode),
        ])],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let habits = Habits { watches: Watches::Exists, trusts_deletion: true, ..Habits::PLAIN };
        Box::new(WaitLimited(Queue::new(&config.path, habits, Joining::by_create())))
    },
};

/// Costs one fewer list than predecessor-watch in each handoff, and two more exists requests in each cycle.
fn batch_cost(_: &Params, n: u64) -> BatchCost {
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildren, n), (Exists, 2 * n), (ExistsWatch, n - 1)],
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        // Arrival k lists k names, and no contender lists again.
        names_returned: Some(n * (n + 1) / 2),
        ..BatchCost::default()
    }
}

struct WaitLimited(Queue<OneTimeout>);

#[async_trait(?Send)]
impl Strategy for WaitLimited {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        make_directory(session, &self.0.lock).await?;
        let mut joined = self.0.joining.join(session, &self.0.lock, PREFIX).await?;
        let in_the_way = |node: &QueueNode, names: &Names| {
            node.predecessor(&names.iter().filter(|name| name.starts_with(PREFIX)).collect())
        };
        match self.0.wait(session, &mut joined, patience, in_the_way).await {
            // The class's flaw: an acquire that times out leaves its node behind.
            Err(AcquireError::TimedOut) => Err(AcquireError::TimedOut),
            waited => joined.node.held_after(session, waited.map(drop)).await,
        }
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let Some(node) = held.node else { return Ok(()) };
        match session.exists(&node.path).await? {
            Some(_) => node.leave(session).await,
            None => Ok(()),
        }
    }
}

/// Waits for the watch, for at most one session timeout. Any event other than a deletion uses up the watch,
/// so the wait times out.
#[derive(Default)]
struct OneTimeout;

impl Wakes for OneTimeout {
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        let (limit, begun) = (waiter.session.timeout(), clock::now());
        match waiter.patience.wait(runtime::timeout(limit, fired(set))).await? {
            Some(EventKind::NodeDeleted) => return Ok(Some(EventKind::NodeDeleted)),
            Some(EventKind::SessionOver) => return Err(Failure::SessionExpired.into()),
            Some(_) => {
                let waited = Duration::from_micros(clock::now().saturating_sub(begun));
                waiter.patience.sleep(limit.saturating_sub(waited)).await?;
            }
            None => {}
        }
        Err(AcquireError::TimedOut)
    }
}
