//! `predecessor-watch-wait-limited`: a published Java class, with its flaws.

use std::time::Duration;

use async_trait::async_trait;

use crate::lock::queue::directories::make_directory;
use crate::lock::queue::joining::Joining;
use crate::lock::queue::{Habits, Queue, Waiter, Wakes, WatchOn, Watches, fired};
use crate::lock::{AcquireError, Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use crate::words::catalog::{BatchCost, Events, Guarantees, LockCard, Mode, Params};
use crate::words::clock;
use crate::words::measure::RequestKind::{Create, Delete, Exists, ExistsWatch, GetChildren};
use crate::world::zk::{EventKind, Failure, Names, Session, reactor};

/// The name that the class puts into every node.
const PREFIX: &str = "mutex_lock_";

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "predecessor-watch-wait-limited",
        summary: "takes its predecessor's end for the lock, unchecked, and leaves its node behind on timeout; broken",
        source: "watch-lock article, its Java class",
        details: "\
Acquire: exists on the lock's directory (missing: create it); create ephemeral sequential `mutex_lock_`;
getChildren, of which only names that begin with `mutex_lock_` count, as several locks may share the directory;
its own node is the lowest -> held; else exists with a watch on the one before; absent -> held; NodeDeleted -> held,
without another look; any other event uses up the watch and is ignored, so it then waits in vain. It waits for one
session timeout at most.
Release: exists on its own node; delete.

Requests: 5 uncontended, 6 contended. Fan-out of a release: 1. Order: first in, first out, if nobody leaves.
Timed out: gives up and LEAVES ITS NODE, which blocks the queue until its session ends. Cancelled: deletes its
node; the class has no cancellation. Crash: the session's end frees the place, and lets the next one in early.

It does not exclude: the predecessor's node may go because a waiter left, not because a holder released. Its
successor then enters alongside the holder. The same happens when the predecessor goes between list and exists.
Progress: as long as nobody times out, every deletion lets one in. After a time-out the next in line waits for
a node that nobody will release, times out, too, and leaves another.

A lost connection ends the acquire or release whose request it hits; the caller then ends the session, and its node
goes with it.

Three things are not imitated. In the class the name in its nodes is that of the lock, and only nodes with that
name count, so several locks can share a directory; here it is always `mutex`. The class connects for each lock
and closes its session at the release; here the contender keeps its session, so that only the lock's own cost
shows, and a leftover node lives just as long. And the class creates its latch only after exists has answered,
so a deletion in between wakes nobody; here none is lost.",
        guarantees: Guarantees { exclusive: false, ..Guarantees::QUEUE },
        params: &[],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        let habits = Habits { watches: Watches::Exists, trusts_deletion: true, ..Habits::PLAIN };
        Box::new(WaitLimited(Queue::new(&config.path, habits, Joining::by_create())))
    },
};

/// A look fewer than predecessor-watch in each handoff; two exists more in each turn.
fn batch_cost(_: &Params, n: u64) -> BatchCost {
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildren, n), (Exists, 2 * n), (ExistsWatch, n - 1)],
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        // Arrival k lists k names, and none lists again.
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
            // The flaw: the node stays.
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

/// Its watch, for as long as a session timeout. An event that is no deletion uses the watch up, and then it waits in vain.
#[derive(Default)]
struct OneTimeout;

impl Wakes for OneTimeout {
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        let (limit, begun) = (waiter.session.timeout(), clock::now());
        match waiter.patience.wait(reactor::timeout(limit, fired(set))).await? {
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
