//! Engine of the queue locks: join, list, find the position, watch the nodes ahead, wait, list again, and
//! leave after a failure.
//!
//! A lock configures the engine: [`Joining`] defines how it joins, [`Habits`] what it watches and how it
//! handles lost connections, and [`Wakes`] what else wakes it. Each acquire passes the function that finds
//! the nodes to wait for.
//!
//! Some locks do not use the engine: `baton` and `ticket` can be granted without a list, `atomic-multi` is in
//! several queues, `curator-semaphore` waits for leases without a position, and `apache-write-lock` starts
//! over at each wake-up.

pub mod directories;
pub mod joining;
pub mod node;
pub mod protection;
pub mod retry;
pub mod sides;

use std::future::pending;
use std::mem::take;

use futures_util::future::{select_all, try_join_all};

use self::joining::{Joined, Joining};
use self::node::watch_data;
use self::protection::leave_for_certain;
use self::retry::Retry;
use super::wait::AnyEvent;
use super::{AcquireError, Acquired, Patience, QueueNode};
use zklockbench_zk::{EventKind, Failure, Names, Session, Watch};

/// How a lock waits in its queue, and how it leaves.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Retry policy after a lost connection; a failed deletion then continues in the background. `None` if a
    /// lost connection ends the acquire or release.
    pub retry: Option<Retry>,
    pub watches: Watches,
    /// Whether armed watches on nodes still ahead are kept after a new list, instead of being set again.
    pub keeps_watches: bool,
    /// Whether the lock is acquired when the only awaited node is deleted, without another list. Safe if the
    /// lock watches the two nearest nodes: a single awaited node is then the last node ahead.
    pub trusts_deletion: bool,
    pub room: usize,
}

/// What a waiter watches, and the request that sets the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watches {
    /// The nodes to wait for, using `getData`, which sets no watch if the node is already gone.
    Data,
    /// The nodes to wait for, using `exists`, which sets a watch even if the node is already gone.
    Exists,
    /// The whole queue, using the request that lists it.
    Children,
    Nothing,
}

impl Habits {
    /// Habits of a lock that gives up on any error.
    pub const PLAIN: Self =
        Self { retry: None, watches: Watches::Data, keeps_watches: false, trusts_deletion: false, room: 1 };

    /// Habits of a lock that continues after lost connections.
    pub const fn patient(retry: Retry) -> Self {
        Self { retry: Some(retry), ..Self::PLAIN }
    }
}

/// An armed watch and its path.
pub struct WatchOn {
    pub path: String,
    pub watch: Watch,
}

pub struct Waiter<'a> {
    pub session: &'a Session,
    pub node: &'a QueueNode,
    pub patience: &'a Patience,
}

/// A source of wake-ups for a waiter.
pub trait Wakes {
    /// Called before the queue is listed.
    fn looks(&mut self, _: &Session) {}

    /// Called before a node is watched.
    fn watches(&mut self, _path: &str) {}

    /// Returns whether a try sets its watches before it gives up.
    fn watches_in_vain(&self) -> bool {
        false
    }

    /// Waits until it is time to list again. Returns the event if a watch of `set` fired; that watch is then
    /// removed from `set`.
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>>;
}

/// Wakes a waiter only through its own watches.
#[derive(Debug, Default)]
pub struct OwnWatches;

impl Wakes for OwnWatches {
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        Ok(Some(waiter.patience.wait(fired(set)).await?))
    }
}

/// Also wakes a waiter at any change of the connection since the last list.
impl Wakes for AnyEvent {
    fn looks(&mut self, session: &Session) {
        self.forget(session);
    }

    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        waiter.patience.wait(self.or(waiter.session, fired(set))).await
    }
}

/// Returns when one of these watches has fired, and removes it from the set.
pub async fn fired(set: &mut Vec<WatchOn>) -> EventKind {
    if set.is_empty() {
        return pending().await;
    }
    let (event, which, _) = select_all(set.iter_mut().map(|one| Box::pin(one.watch.changed()))).await;
    set.remove(which);
    event
}

pub struct Queue<W = OwnWatches> {
    pub lock: String,
    pub habits: Habits,
    pub joining: Joining,
    pub wakes: W,
}

impl<W: Wakes + Default> Queue<W> {
    pub fn new(lock: &str, habits: Habits, joining: Joining) -> Self {
        Self { lock: lock.to_owned(), habits, joining, wakes: W::default() }
    }
}

impl<W: Wakes> Queue<W> {
    /// Joins the queue with a node of this kind and waits until it has no node to wait for.
    ///
    /// # Errors
    /// The acquire failed. The node is deleted, unless the failure is indefinite.
    pub async fn enter<I, E>(
        &mut self,
        session: &Session,
        kind: &str,
        patience: &Patience,
        in_the_way: impl Fn(&QueueNode, &Names) -> Result<I, E>,
    ) -> Acquired<QueueNode>
    where
        I: IntoIterator<Item = String>,
        AcquireError: From<E>,
    {
        let mut joined = self.joining.join(session, &self.lock, kind).await?;
        let waited = self.wait(session, &mut joined, patience, in_the_way).await;
        self.kept_after(session, joined.node, waited.map(drop)).await
    }

    /// Waits until `joined` has no node to wait for. If the lock watches the whole queue, returns that watch,
    /// still armed.
    pub async fn wait<I, E>(
        &mut self,
        session: &Session,
        joined: &mut Joined,
        patience: &Patience,
        in_the_way: impl Fn(&QueueNode, &Names) -> Result<I, E>,
    ) -> Acquired<Option<Watch>>
    where
        I: IntoIterator<Item = String>,
        AcquireError: From<E>,
    {
        if joined.queue.is_some_and(|queue| queue as usize <= self.habits.room) {
            self.joining.learn(true);
            return Ok(None);
        }
        let gives_up = patience.tries_once && !self.wakes.watches_in_vain();
        // The count already shows that other nodes are ahead.
        if gives_up && joined.queue.is_some() {
            return Err(AcquireError::TimedOut);
        }
        let node = &joined.node;
        let (mut is_first_look, mut set) = (true, Vec::new());
        loop {
            self.wakes.looks(session);
            let (names, whole) = match joined.listed.take() {
                Some(names) => (names, None),
                None => self.list(session).await?,
            };
            if take(&mut is_first_look) {
                self.joining.learn_from(node, &names);
            }
            self.joining.late.delete(session, &self.lock, &names, node).await?;
            let way: Vec<String> = in_the_way(node, &names)?.into_iter().collect();
            // With thousands of contenders, lists kept during waits would take too much memory.
            drop(names);
            if way.is_empty() {
                return Ok(whole);
            }
            if gives_up {
                return Err(AcquireError::TimedOut);
            }
            set = match (whole, self.habits.watches) {
                (Some(watch), _) => vec![WatchOn { path: self.lock.clone(), watch }],
                (None, Watches::Nothing) => Vec::new(),
                (None, _) => self.watch(session, &way, set).await?,
            };
            let event = match set.len() < way.len() && self.habits.watches != Watches::Nothing {
                true => Some(EventKind::NodeDeleted),
                false => self.wakes.woken(&Waiter { session, node, patience }, &mut set).await?,
            };
            if self.habits.trusts_deletion && way.len() == 1 && event == Some(EventKind::NodeDeleted) {
                return Ok(None);
            }
            if !self.habits.keeps_watches {
                set.clear();
            }
        }
    }

    async fn list(&self, session: &Session) -> Result<(Names, Option<Watch>), Failure> {
        if self.habits.watches == Watches::Children {
            let (names, watch) = self.again(|| session.get_children_and_watch(&self.lock)).await?;
            return Ok((names, Some(watch)));
        }
        Ok((self.again(|| session.get_children(&self.lock)).await?, None))
    }

    /// Watches all of these nodes, in one flush and in this order. Watches that are already set stay; nodes
    /// that are already gone are left out of the result.
    pub async fn watch(
        &mut self,
        session: &Session,
        names: &[String],
        mut set: Vec<WatchOn>,
    ) -> Result<Vec<WatchOn>, Failure> {
        let paths: Vec<String> = names.iter().map(|name| format!("{}/{name}", self.lock)).collect();
        paths.iter().for_each(|path| self.wakes.watches(path));
        let this = &*self;
        let setting = paths.into_iter().map(|path| {
            let kept = set.iter().position(|one| one.path == path).map(|place| set.swap_remove(place));
            async move {
                match kept {
                    Some(kept) => Ok(Some(kept)),
                    None => this.watch_one(session, path).await,
                }
            }
        });
        Ok(try_join_all(setting).await?.into_iter().flatten().collect())
    }

    /// Watches a node; `None` if the node is already gone.
    async fn watch_one(&self, session: &Session, path: String) -> Result<Option<WatchOn>, Failure> {
        let watch = match self.habits.watches {
            Watches::Exists => {
                let (found, watch) = self.again(|| session.exists_and_watch(&path)).await?;
                found.map(|_| watch)
            }
            _ => self.again(|| watch_data(session, &path)).await?,
        };
        Ok(watch.map(|watch| WatchOn { path, watch }))
    }

    async fn again<T>(&self, request: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
        self.habits.retry.unwrap_or(Retry::NEVER).around(request).await
    }

    /// Leaves the queue. A missing node is not an error.
    pub async fn leave(&self, session: &Session, node: QueueNode) -> Result<(), Failure> {
        match self.habits.retry {
            Some(retry) => leave_for_certain(session, node, retry).await,
            None => node.leave(session).await,
        }
    }

    /// Ends an acquire: keeps the node after success, and deletes it after a failure so that no contender
    /// waits for it.
    ///
    /// # Errors
    /// The reason why the wait failed, or the failure to delete the node.
    pub async fn kept_after(
        &self,
        session: &Session,
        node: QueueNode,
        waited: Acquired<()>,
    ) -> Acquired<QueueNode> {
        match waited {
            Ok(()) => Ok(node),
            Err(why) => Err(why.after(self.leave(session, node)).await),
        }
    }
}
