//! The queue shared by Curator's locks: a protected join, a wait as in Java clients, and a guaranteed
//! deletion. Also the mutex object that several tasks of a process may share.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::{join, join_all};
use tokio::sync::Notify;

use super::revocation::Revocation;
use crate::in_process::InProcess;
use crate::prelude::*;
use crate::queue::{Waiter, Wakes, WatchOn, fired};
use crate::wait::AnyEvent;
use zklockbench_core::locked::locked;

/// Curator's default node data: the address of the client's host, as text.
pub const DATA: &[u8] = b"127.0.0.1";

pub const SHARED_OBJECT: Param = Param {
    name: "shared_object",
    kind: ParamKind::Bool,
    default: "false",
    doc: "Whether all contenders share one mutex object, as threads of a process may, which causes a herd.",
};

/// Finds the node to watch in a list; `None` if the lock is acquired.
pub type Awaited<'a> = &'a dyn Fn(&QueueNode, &Names) -> Result<Option<String>, Failure>;

/// Protects a join as Curator does.
///
/// Source: `CreateBuilderImpl` with protection and `creatingParentContainersIfNeeded`.
pub fn protected(joining: Joining, retry: Retry) -> Joining {
    Joining { data: DATA, protection: Protection::Unsynced, retry, ..joining }
}

/// One owner's access to a lock's queue.
pub struct CuratorQueue {
    pub queue: Queue<Monitor>,
    pub retry: Retry,
}

impl CuratorQueue {
    pub fn new(lock: &str, retry: Retry) -> Self {
        let joining = protected(Joining::by_create(), retry);
        Self { queue: Queue::new(lock, Habits::patient(retry), joining), retry }
    }

    /// Creates the queue of a lock with any of the parameters `join`, `shared_object` and `revocation`.
    pub fn of(config: &LockConfig) -> Self {
        let retry = Retry::of(config);
        let mut joining = protected(Joining::of(&JOIN, config), retry);
        let object = config.flag(SHARED_OBJECT.name).then(|| SharedObject::on(&config.path));
        let revocation = Revocation::of(config, retry);
        if revocation.is_some() {
            joining.data = &[];
        }
        let (lock, habits) = (config.path.clone(), Habits::patient(retry));
        let wakes = Monitor { object, revocation, ..Monitor::default() };
        Self { queue: Queue { lock, habits, joining, wakes }, retry }
    }

    /// Joins the queue with a node of this kind and waits for its turn. If the node or the directory is deleted
    /// while the session is alive, starts over, as often as the policy allows.
    pub async fn enter(
        &mut self,
        session: &Session,
        kind: &str,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Acquired<QueueNode> {
        // Watches that have already fired do not wake later waits.
        self.queue.wakes.left.retain(|left| left.watch.is_armed());
        let mut tries = self.retry.tries();
        loop {
            let why = match self.attempt(session, kind, patience, awaited).await {
                Err(why) => why,
                entered => return entered,
            };
            match (why, tries.next_pause()) {
                // A list fails with `NoNode` if the lock's directory is gone together with the contender's
                // node. A create fails with `NoNode` if the directory was deleted right after its creation.
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

    /// Waits for `end` or a request to revoke the lock; returns whether it was revoked.
    pub async fn hold(&mut self, session: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> bool {
        match &mut self.queue.wakes.revocation {
            Some(revocation) => revocation.hold(session, end).await,
            None => {
                end.await;
                false
            }
        }
    }

    /// Leaves the queue with a guaranteed deletion, and wakes the tasks that wait on the same object.
    pub async fn leave(&mut self, session: &Session, node: QueueNode) -> Result<(), Failure> {
        let own = node.path.clone();
        let is_watched = self.queue.wakes.revocation.as_mut().is_some_and(Revocation::withdraw);
        let leaving = self.queue.leave(session, node);
        let leaving = async {
            if !is_watched {
                return leaving.await;
            }
            // At the same time, Java checks whether the watch on its own node is set, without waiting for the
            // reply. The watch stays armed.
            join(session.check_watches(&own), leaving).await.1
        };
        match &self.queue.wakes.object {
            Some(object) => object.release(session, &own, leaving).await,
            None => leaving.await,
        }
    }
}

/// The single watcher and monitor of a lock object. A wait ends at any event of the object's watches,
/// including watches from earlier acquires, and at any change of the connection.
#[derive(Default)]
pub struct Monitor {
    events: AnyEvent,
    /// Watches left by failed acquires, which wake the next acquire.
    left: Vec<WatchOn>,
    /// Object shared with other tasks of this process, if any.
    object: Option<Arc<SharedObject>>,
    /// Registration of a wait on the shared object.
    waiting: Option<Waiting>,
    revocation: Option<Revocation>,
}

impl Wakes for Monitor {
    fn looks(&mut self, _: &Session) {
        self.waiting = None;
    }

    /// Curator reads the clock only after setting the watch.
    fn watches_in_vain(&self) -> bool {
        true
    }

    fn watches(&mut self, path: &str) {
        self.waiting = self.object.as_ref().map(|object| object.wait_for(path));
    }

    /// Returns at any event or at the end of the acquire timeout. The caller then lists once more.
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        // Java has one watch per path, no matter how often the watch is set.
        self.left.retain(|left| set.iter().all(|one| one.path != left.path));
        // Curator reads the clock only here, after setting the watch: a wait that has timed out costs one
        // more list and one more watch.
        let woken = match waiter.patience.tries_once || waiter.patience.is_over() {
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
    async fn allow(&mut self, session: &Session, node: &QueueNode) -> Acquired<()> {
        match &mut self.revocation {
            Some(revocation) => revocation.allow(session, node).await,
            None => Ok(()),
        }
    }

    /// Waits for a wake-up, and asks the holder to release the lock whenever a revocation request is due.
    async fn notified(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<()> {
        let Waiter { session, node, patience } = *waiter;
        // In Java, a connection change during the list wakes no waiter.
        self.events.forget(session);
        loop {
            let ask_at = self.revocation.as_ref().and_then(|revocation| revocation.ask_at);
            let event_or_time = async {
                tokio::select! {
                    biased;
                    _ = self.events.or(session, fired(set)) => false,
                    _ = fired(&mut self.left) => false,
                    () = Waiting::woken(self.waiting.as_ref()) => false,
                    () = runtime::sleep_until(ask_at) => true,
                }
            };
            match (patience.wait(event_or_time).await, &mut self.revocation) {
                (Ok(true), Some(revocation)) => revocation.ask(session, node).await?,
                (Ok(_) | Err(AcquireError::TimedOut), _) => return Ok(()),
                (Err(why), _) => return Err(why),
            }
        }
    }
}

/// One Curator mutex object shared by several tasks of a process, which creates a herd within the process.
///
/// A release asks the server about the watch of *every* task that waits on the object, and wakes all of them;
/// each lists and sets its watch again. Source: Curator 5.4.0, `LockInternals.releaseLock` (one watcher and
/// one monitor per object). These requests were counted on a real server.
#[derive(Default)]
pub struct SharedObject {
    waiting: Mutex<HashMap<u64, (String, Arc<Notify>)>>,
    tasks: AtomicU64,
}

/// A task's wait, registered until dropped.
pub struct Waiting {
    object: Arc<SharedObject>,
    task: u64,
    woken: Arc<Notify>,
}

impl Waiting {
    /// Returns when another task has released through this object; never if no wait is registered.
    pub async fn woken(waiting: Option<&Self>) {
        match waiting {
            Some(waiting) => waiting.woken.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        locked(&self.object.waiting).remove(&self.task);
    }
}

impl SharedObject {
    pub fn on(path: &str) -> Arc<Self> {
        static OBJECTS: InProcess<SharedObject> = InProcess::new();
        OBJECTS.of(path, 0)
    }

    /// Registers a task that is about to watch a path and wait.
    pub fn wait_for(self: &Arc<Self>, path: &str) -> Waiting {
        let (task, woken) = (self.tasks.fetch_add(1, Ordering::Relaxed), Arc::<Notify>::default());
        locked(&self.waiting).insert(task, (path.to_owned(), Arc::clone(&woken)));
        Waiting { object: Arc::clone(self), task, woken }
    }

    /// Releases the lock for the task that owns the node `own`: checks every waiting task's watch, runs
    /// `leaving`, and wakes the tasks.
    ///
    /// The task just behind is woken by the server's event instead. In Curator all tasks share a session, so
    /// that task's list is answered after the delete; here it might not be.
    pub async fn release<T>(&self, session: &Session, own: &str, leaving: impl Future<Output = T>) -> T {
        let watched: Vec<(String, Arc<Notify>)> = locked(&self.waiting).values().cloned().collect();
        let checks = join_all(watched.iter().map(|(path, _)| session.check_watches(path)));
        let (_, left) = join(checks, leaving).await;
        watched.iter().filter(|(path, _)| path != own).for_each(|(_, woken)| woken.notify_one());
        left
    }
}
