//! One Curator mutex object that several tasks of a process use, and with that a herd inside the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{join, join_all};
use tokio::sync::Notify;

use crate::lock::in_process::InProcess;
use crate::world::zk::Session;

/// The tasks that wait by it, each with the path that it watches.
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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
