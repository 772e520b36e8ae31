//! What the contenders of one process share: kept here by lock path and number of the process, for as long as
//! any of them has it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use futures_util::future::{join, join_all};
use tokio::sync::Notify;

use crate::world::zk::Session;

type Things<T> = HashMap<(String, usize), Weak<T>>;

pub struct InProcess<T>(LazyLock<Mutex<Things<T>>>);

impl<T: Default> InProcess<T> {
    pub const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// That of one process on one lock path; a new one if there is none.
    pub fn of(&self, path: &str, process: usize) -> Arc<T> {
        let mut things = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        things.retain(|_, thing| thing.strong_count() > 0);
        let key = (path.to_owned(), process);
        if let Some(thing) = things.get(&key).and_then(Weak::upgrade) {
            return thing;
        }
        let thing = Arc::<T>::default();
        things.insert(key, Arc::downgrade(&thing));
        thing
    }
}

/// One Curator mutex object that several tasks of a process use, and with that a herd inside the process: the tasks
/// that wait by it, each with the path that it watches.
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
pub struct Waiting<'a> {
    object: &'a SharedObject,
    task: u64,
    woken: Arc<Notify>,
}

impl Waiting<'_> {
    /// Returns when another task has released by this object; never for a task that does not wait by one.
    pub async fn woken(waiting: Option<&Self>) {
        match waiting {
            Some(waiting) => waiting.woken.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiting<'_> {
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

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, (String, Arc<Notify>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task is about to watch that path and to wait.
    pub fn wait_for(&self, path: &str) -> Waiting<'_> {
        let (task, woken) = (self.tasks.fetch_add(1, Ordering::Relaxed), Arc::<Notify>::default());
        self.waiting().insert(task, (path.to_owned(), Arc::clone(&woken)));
        Waiting { object: self, task, woken }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_for_each_path_and_process_and_goes_with_its_last_owner() {
        static THINGS: InProcess<Mutex<u8>> = InProcess::new();
        let one = THINGS.of("/lock", 0);
        *one.lock().unwrap() = 7;
        assert!(Arc::ptr_eq(&one, &THINGS.of("/lock", 0)));
        assert!(!Arc::ptr_eq(&one, &THINGS.of("/lock", 1)));
        assert!(!Arc::ptr_eq(&one, &THINGS.of("/other", 0)));
        drop(one);
        assert_eq!(*THINGS.of("/lock", 0).lock().unwrap(), 0);
    }
}
