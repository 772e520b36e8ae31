//! The queue that Curator's locks share: joining it under protection, waiting as Java's clients do, leaving it
//! for certain; and the mutex object that several tasks of a process may share.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::{join, join_all};
use tokio::sync::Notify;

use super::revocation::Revocation;
use crate::in_process::InProcess;
use crate::queue::joining::Joining;
use crate::queue::retry::Retry;
use crate::queue::{Habits, Queue, Waiter, Wakes, WatchOn, fired};
use crate::wait::{AnyEvent, Ended};
use crate::{AcquireError, Acquired, Patience, QueueNode};
use zklockbench_core::catalog::Protection;
use zklockbench_core::locked::locked;
use zklockbench_zk::{EventKind, Failure, Names, Session, reactor};

/// Curator's default node data is the address of the client's host, as text.
pub const DATA: &[u8] = b"127.0.0.1";

/// Tells from a list which node one has to watch; `None` when it is in.
pub type Awaited<'a> = &'a dyn Fn(&QueueNode, &Names) -> Result<Option<String>, Failure>;

/// As Curator creates its nodes.
///
/// Source: `CreateBuilderImpl` with protection and `creatingParentContainersIfNeeded`.
pub fn protected(joining: Joining, retry: Retry) -> Joining {
    Joining { data: DATA, protection: Protection::Unsynced, retry, ..joining }
}

/// One owner's way into a lock's queue.
pub struct CuratorQueue {
    pub queue: Queue<Monitor>,
    pub retry: Retry,
}

impl CuratorQueue {
    pub fn new(lock: &str, retry: Retry, joining: Joining) -> Self {
        Self { queue: Queue::new(lock, Habits::patient(retry), protected(joining, retry)), retry }
    }

    /// Of a lock whose holder can be asked to let go; its nodes are empty then.
    #[must_use]
    pub fn revocable(mut self, revocation: Option<Revocation>) -> Self {
        if revocation.is_some() {
            self.queue.joining.data = &[];
        }
        self.queue.wakes.revocation = revocation;
        self
    }

    /// The same, by an object that other tasks of this process use, too.
    #[must_use]
    pub fn shared_by(mut self, object: Option<Arc<SharedObject>>) -> Self {
        self.queue.wakes.object = object;
        self
    }

    /// Joins with a node of that kind and waits until it is its turn. When the own node or the directory goes
    /// while the session lives, starts over, as the policy allows.
    pub async fn enter(
        &mut self,
        session: &Session,
        kind: &str,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Acquired<QueueNode> {
        // What has fired by now has woken nobody.
        self.queue.wakes.left.retain(|left| left.watch.is_armed());
        let mut tries = self.retry.tries();
        loop {
            let why = match self.attempt(session, kind, patience, awaited).await {
                Err(why) => why,
                entered => return entered,
            };
            match (why, tries.next_pause()) {
                // The second is what a list says when the lock's directory has gone, the own node with it, and
                // what a create says when it goes right after it was made.
                (AcquireError::Failed(Failure::OwnNodeMissing | Failure::NoNode), Some(pause)) => {
                    patience.sleep(pause).await?;
                }
                (why, _) => return Err(why),
            }
        }
    }

    async fn attempt(
        &mut self,
        session: &Session,
        kind: &str,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Acquired<QueueNode> {
        let queue = &mut self.queue;
        let mut joined = queue.joining.join(session, &queue.lock, kind).await?;
        let waited = match queue.wakes.allow(session, &joined.node).await {
            Ok(()) => queue.wait(session, &mut joined, patience, awaited).await.map(drop),
            Err(why) => Err(why),
        };
        queue.wakes.waiting = None;
        queue.kept_after(session, joined.node, waited).await
    }

    /// Holds until the end, or until the holder is asked to let go; whether it was asked.
    pub async fn hold(&mut self, session: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> bool {
        match &mut self.queue.wakes.revocation {
            Some(revocation) => revocation.hold(session, end).await,
            None => {
                end.await;
                false
            }
        }
    }

    /// Leaves for certain, and wakes the tasks that wait by the same object.
    pub async fn leave(&mut self, session: &Session, node: QueueNode) -> Result<(), Failure> {
        let own = node.path.clone();
        let is_watched = self.queue.wakes.revocation.as_mut().is_some_and(Revocation::withdraw);
        let leaving = self.queue.leave(session, node);
        let leaving = async {
            if !is_watched {
                return leaving.await;
            }
            // Java asks on the way whether the watch on the own node is set, and does not wait for the answer.
            // This client library has no such request; this one stands in for it, and the watch stays armed as
            // in Java.
            join(session.exists(&own), leaving).await.1
        };
        match &self.queue.wakes.object {
            Some(object) => object.release(session, &own, leaving).await,
            None => leaving.await,
        }
    }
}

/// The object's one watcher, which hears of everything that the object watches, whichever acquire has set it, and of the
/// connection; and what else ends a wait by its monitor.
#[derive(Default)]
pub struct Monitor {
    events: AnyEvent,
    /// Watches of acquires that have ended without the lock. They wake the next one.
    left: Vec<WatchOn>,
    /// The object that other tasks of this process use, too.
    object: Option<Arc<SharedObject>>,
    /// That one waits by it.
    waiting: Option<Waiting>,
    revocation: Option<Revocation>,
}

impl Wakes for Monitor {
    fn looks(&mut self, _: &Session) {
        self.waiting = None;
    }

    fn watches(&mut self, path: &str) {
        self.waiting = self.object.as_ref().map(|object| object.wait_for(path));
    }

    /// Returns at any event or the end of the patience: then it looks once more.
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        // Java has one watch on a path, however often it is set.
        self.left.retain(|left| set.iter().all(|one| one.path != left.path));
        // Curator looks at the clock only here, after the watch is set: a wait that has timed out costs
        // one more list and one more watch.
        let woken = match waiter.patience.is_over() {
            true => Err(AcquireError::TimedOut),
            false => self.notified(waiter, set).await,
        };
        if woken.is_err() {
            self.left.append(set);
        }
        woken.map(|()| None)
    }
}

impl Monitor {
    /// Makes a node that has just joined one that can be asked for.
    async fn allow(&mut self, session: &Session, node: &QueueNode) -> Acquired<()> {
        match &mut self.revocation {
            Some(revocation) => revocation.allow(session, node).await,
            None => Ok(()),
        }
    }

    /// Waits, and asks the holder to let go whenever it is time to.
    async fn notified(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<()> {
        let Waiter { session, node, patience } = *waiter;
        // In Java a change during the list finds nobody waiting.
        self.events.forget(session);
        loop {
            let ask_at = self.revocation.as_ref().and_then(|revocation| revocation.ask_at);
            let event_or_time = async {
                tokio::select! {
                    biased;
                    _ = self.events.or(session, fired(set)) => false,
                    _ = fired(&mut self.left) => false,
                    () = Waiting::woken(self.waiting.as_ref()) => false,
                    () = reactor::sleep_until(ask_at) => true,
                }
            };
            match (patience.wait(event_or_time).await, &mut self.revocation) {
                (Ok(true), Some(revocation)) => revocation.ask(session, node).await?,
                (Ok(_) | Err(Ended::TimedOut), _) => return Ok(()),
                (Err(Ended::Cancelled), _) => return Err(AcquireError::Cancelled),
            }
        }
    }
}

/// One Curator mutex object that several tasks of a process use, and with that a herd inside the process: the tasks that wait
/// by it, each with the path that it watches.
///
/// Curator removes its watches at a release object by object, not task by task: a release asks the server
/// about the watch of *every* task that waits by the same object, and wakes them all; each lists, and sets its
/// watch again. Read off Curator 5.4.0 (`LockInternals.releaseLock`, one watcher and one monitor an object) and
/// its requests counted on a real server.
#[derive(Default)]
pub struct SharedObject {
    waiting: Mutex<HashMap<u64, (String, Arc<Notify>)>>,
    tasks: AtomicU64,
}

/// A task's wait, until dropped.
pub struct Waiting {
    object: Arc<SharedObject>,
    task: u64,
    woken: Arc<Notify>,
}

impl Waiting {
    /// Returns when another task has released by this object; never for a task that does not wait by one.
    pub async fn woken(waiting: Option<&Self>) {
        match waiting {
            Some(waiting) => waiting.woken.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.object.waiting().remove(&self.task);
    }
}

impl SharedObject {
    /// The object that all contenders on that path share.
    pub fn on(path: &str) -> Arc<Self> {
        static OBJECTS: InProcess<SharedObject> = InProcess::new();
        OBJECTS.of(path, 0)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, (String, Arc<Notify>)>> {
        locked(&self.waiting)
    }

    /// A task is about to watch that path and to wait.
    pub fn wait_for(self: &Arc<Self>, path: &str) -> Waiting {
        let (task, woken) = (self.tasks.fetch_add(1, Ordering::Relaxed), Arc::<Notify>::default());
        self.waiting().insert(task, (path.to_owned(), Arc::clone(&woken)));
        Waiting { object: Arc::clone(self), task, woken }
    }

    /// Lets a task release whose node is `own`: asks about every waiting task's watch, lets the node be deleted,
    /// wakes the tasks.
    ///
    /// Curator's question is checkWatches, which the client library cannot send; an exists without a watch
    /// stands in for it. The task behind this node is woken by the server's own event: in Curator, where all
    /// tasks share a session, its list would be answered after the delete for certain, here it would not.
    pub async fn release<T>(&self, session: &Session, own: &str, leaving: impl Future<Output = T>) -> T {
        let watched: Vec<(String, Arc<Notify>)> = self.waiting().values().cloned().collect();
        let checks = join_all(watched.iter().map(|(path, _)| session.exists(path)));
        let (_, left) = join(checks, leaving).await;
        watched.iter().filter(|(path, _)| path != own).for_each(|(_, woken)| woken.notify_one());
        left
    }
}
