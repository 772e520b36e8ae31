//! The engine of the queue locks: join, list, see where the own node stands, watch what is in its way, wait, list again; and
//! leave, whichever way it ends.
//!
//! Its steps are here once. What a lock does in its own way it says by values: how it joins by a [`Joining`], what it watches
//! and what it does about lost connections by its [`Habits`], what else wakes it by its [`Wakes`], and with each acquire who
//! is in its way.
//!
//! By themselves are locks that are let in by something else than a list (`baton`, `ticket`), that are in several queues
//! (`atomic-multi`), that wait for room without a place (`curator-semaphore`), or that begin everything anew at each wake-up
//! (`apache-write-lock`).

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

/// How a lock waits in its queue, and how it leaves it.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// By which policy a request is sent again whose connection was lost; a deletion then goes on in the background until it
    /// is done. Without one such a loss ends the acquire or release whose request it hits.
    pub retry: Option<Retry>,
    pub watches: Watches,
    /// Whether a watch that is still set when it has looked again stays, where its node is still in the way; else it is set anew.
    pub keeps_watches: bool,
    /// Whether it takes the deletion of the only node in its way for the lock, without another look. That is safe where it is
    /// shown the two nearest of the nodes before its own: one alone is then the last of them.
    pub trusts_deletion: bool,
    pub room: usize,
}

/// By what request a waiter watches, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watches {
    /// The nodes in its way, by getData: on one that has gone meanwhile no watch is set.
    Data,
    /// The same by exists, which leaves a watch on a node that has gone.
    Exists,
    /// The whole queue, by the list itself.
    Children,
    Nothing,
}

impl Habits {
    /// Those of a lock that takes every failure for its end.
    pub const PLAIN: Self =
        Self { retry: None, watches: Watches::Data, keeps_watches: false, trusts_deletion: false, room: 1 };

    /// Those of a lock that goes on after lost connections.
    pub const fn patient(retry: Retry) -> Self {
        Self { retry: Some(retry), ..Self::PLAIN }
    }
}

/// A watch that is set, and on what.
pub struct WatchOn {
    pub path: String,
    pub watch: Watch,
}

pub struct Waiter<'a> {
    pub session: &'a Session,
    pub node: &'a QueueNode,
    pub patience: &'a Patience,
}

/// What wakes a waiter.
pub trait Wakes {
    /// It is about to look at the queue.
    fn looks(&mut self, _: &Session) {}

    /// It is about to watch that node.
    fn watches(&mut self, _path: &str) {}

    /// Waits until it is time to look again. Returns what has happened to something that it watches, if that was it; that watch
    /// is then no longer among them.
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>>;
}

/// Nothing but the watches that it has set.
#[derive(Debug, Default)]
pub struct OwnWatches;

impl Wakes for OwnWatches {
    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        Ok(Some(waiter.patience.wait(fired(set)).await?))
    }
}

/// Also any change of the connection since the last look.
impl Wakes for AnyEvent {
    fn looks(&mut self, session: &Session) {
        self.forget(session);
    }

    async fn woken(&mut self, waiter: &Waiter<'_>, set: &mut Vec<WatchOn>) -> Acquired<Option<EventKind>> {
        Ok(waiter.patience.wait(self.or(waiter.session, fired(set))).await?)
    }
}

/// Returns when one of these watches has fired, which is then gone from them.
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
    /// Joins with a node of that kind and waits until nothing is in its way.
    ///
    /// # Errors
    /// Why it has not got in; its node has gone then, unless the failure leaves that open.
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

    /// Waits until nothing is in the way of a node that has joined. Returns the watch on the whole queue that is still armed
    /// then, where it sets such a one.
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
            // The list is not kept while it waits: among thousands, each would keep thousands of names.
            drop(names);
            if way.is_empty() {
                return Ok(whole);
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

    /// Watches all of these, in one flush and in this order. A watch that is set already stays; nodes that have gone meanwhile
    /// are not among those returned.
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

    /// Watches a node; `None` when it has gone meanwhile.
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

    async fn again<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Failure> {
        self.habits.retry.unwrap_or(Retry::NEVER).around(request).await
    }

    /// Leaves; a node that is gone already has left.
    pub async fn leave(&self, session: &Session, node: QueueNode) -> Result<(), Failure> {
        match self.habits.retry {
            Some(retry) => leave_for_certain(session, node, retry).await,
            None => node.leave(session).await,
        }
    }

    /// Ends an acquire whose wait has ended like that: it keeps its node, or leaves, so that nobody queues behind it.
    ///
    /// # Errors
    /// Why the wait ended. If the node's fate is open, that is the reason that counts, because the caller must then end the
    /// session.
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
