//! The queue that Curator's locks share: joining it under protection, waiting as Java's clients do, leaving it
//! for certain.

use std::future::pending;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, select_all};

use super::revocation::Revocation;
use crate::lock::in_process::{SharedObject, Waiting};
use crate::lock::queue::creating::{MarkedName, created_or_found, find_marked};
use crate::lock::queue::joining::{Joined, Joining, in_containers};
use crate::lock::queue::node::{if_there, watch_data};
use crate::lock::queue::retry::Retry;
use crate::lock::wait::{AnyEvent, Ended};
use crate::lock::{AcquireError, Acquired, Patience, QueueNode};
use crate::world::zk::{Failure, Names, Session, Watch, reactor};

/// Curator's default node data is the address of the client's host, as text.
pub const DATA: &[u8] = b"127.0.0.1";

const BACKGROUND_PAUSE: Duration = Duration::from_millis(50);

/// Tells from a list which node one has to watch; `None` when it is in.
pub type Awaited<'a> = &'a dyn Fn(&QueueNode, &Names) -> Result<Option<String>, Failure>;

/// One owner's way into a lock's queue.
pub struct CuratorQueue {
    pub lock: String,
    pub retry: Retry,
    joining: Joining,
    revocation: Option<Revocation>,
    events: AnyEvent,
    /// Watches of acquires that have ended without the lock, by path. They wake the next one, as the object has
    /// one watcher for all.
    left: Vec<(String, Watch)>,
    /// The object that other tasks of this process use, too.
    object: Option<Arc<SharedObject>>,
}

impl CuratorQueue {
    pub fn new(lock: String, retry: Retry) -> Self {
        let joining = Joining::by_create();
        let (events, left) = (AnyEvent::default(), Vec::new());
        Self { lock, retry, joining, revocation: None, events, left, object: None }
    }

    #[must_use]
    pub fn joined_by(self, joining: Joining) -> Self {
        Self { joining, ..self }
    }

    #[must_use]
    pub fn revocable(self, revocation: Option<Revocation>) -> Self {
        Self { revocation, ..self }
    }

    /// The same, by an object that other tasks of this process use, too.
    #[must_use]
    pub fn shared_by(self, object: Option<Arc<SharedObject>>) -> Self {
        Self { object, ..self }
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
        self.left.retain(|(_, watch)| watch.is_armed());
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
        let data = if self.revocation.is_some() { &[] } else { DATA };
        let joined = join_protected(session, &self.lock, kind, data, self.retry, &self.joining).await?;
        match self.wait_until_in(session, &joined, patience, awaited).await {
            Ok(()) => Ok(joined.node),
            Err(why) => Err(give_up_for_certain(session, joined.node, why, self.retry).await),
        }
    }

    async fn wait_until_in(
        &mut self,
        session: &Session,
        joined: &Joined,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Acquired<()> {
        let node = &joined.node;
        if let Some(revocation) = &mut self.revocation {
            revocation.allow(session, node).await?;
        }
        if joined.is_alone() {
            self.joining.learn(true);
            return Ok(());
        }
        let mut is_first_look = true;
        loop {
            let names = self.retry.around(|| session.get_children(&self.lock)).await?;
            if take(&mut is_first_look) {
                self.joining.learn_from(node, &names, 1);
            }
            self.joining.late.delete(session, &self.lock, &names, node).await?;
            let Some(awaited) = awaited(node, &names)? else { return Ok(()) };
            drop(names);
            let path = format!("{}/{awaited}", self.lock);
            let object = self.object.clone();
            let others = object.as_ref().map(|object| object.wait_for(&path));
            let Some(mut watch) = self.retry.around(|| watch_data(session, &path)).await? else { continue };
            // Java has one watch on a path, however often it is set.
            self.left.retain(|(left, _)| *left != path);
            // Curator looks at the clock only here, after the watch is set: a wait that has timed out costs
            // one more list and one more watch.
            let woken = match patience.is_over() {
                true => Err(AcquireError::TimedOut),
                false => self.woken(session, node, &mut watch, others.as_ref(), patience).await,
            };
            if let Err(why) = woken {
                self.left.push((path, watch));
                return Err(why);
            }
        }
    }

    /// Waits for any event or the end of the patience, and asks the holder to let go whenever it is time to.
    async fn woken(
        &mut self,
        session: &Session,
        node: &QueueNode,
        watch: &mut Watch,
        others: Option<&Waiting<'_>>,
        patience: &Patience,
    ) -> Acquired<()> {
        // In Java a change during the list finds nobody waiting.
        self.events.forget(session);
        loop {
            let ask_at = self.revocation.as_ref().and_then(|revocation| revocation.ask_at);
            let event_or_time = async {
                tokio::select! {
                    biased;
                    () = self.events.on(session, watch) => false,
                    () = fired(&mut self.left) => false,
                    () = Waiting::woken(others) => false,
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

    /// Holds until the end, or until the holder is asked to let go; whether it was asked.
    pub async fn hold(&mut self, session: &Session, end: Pin<&mut dyn Future<Output = ()>>) -> bool {
        match &mut self.revocation {
            Some(revocation) => revocation.hold(session, end).await,
            None => {
                end.await;
                false
            }
        }
    }

    /// Leaves as [`leave_for_certain`], and wakes the tasks that wait by the same object.
    pub async fn leave(&mut self, session: &Session, node: QueueNode) -> Result<(), Failure> {
        let own = node.path.clone();
        let is_watched = self.revocation.as_mut().is_some_and(Revocation::withdraw);
        let leaving = leave_for_certain(session, node, self.retry);
        let leaving = async {
            if !is_watched {
                return leaving.await;
            }
            // Java asks on the way whether the watch on the own node is set, and does not wait for the answer.
            // This client library has no such request; this one stands in for it, and the watch stays armed as
            // in Java.
            join(session.exists(&own), leaving).await.1
        };
        match &self.object {
            Some(object) => object.release(session, &own, leaving).await,
            None => leaving.await,
        }
    }
}

/// Returns when one of these watches has fired, which is then gone from them.
async fn fired(watches: &mut Vec<(String, Watch)>) {
    if watches.is_empty() {
        return pending().await;
    }
    let (_, which, _) = select_all(watches.iter_mut().map(|(_, watch)| Box::pin(watch.changed()))).await;
    watches.swap_remove(which);
}

/// Deletes the node, again as the policy allows; after that the deleting goes on in the background.
///
/// Source: Curator, `DeleteBuilderImpl` with `guaranteed`.
pub async fn leave_for_certain(session: &Session, node: QueueNode, retry: Retry) -> Result<(), Failure> {
    let deleted = retry.around(|| node.leave(session)).await;
    if deleted.as_ref().is_err_and(Retry::is_retryable) {
        delete_in_background(session.clone(), node);
    }
    deleted
}

/// As [`QueueNode::give_up`], and deletes the node for certain.
pub async fn give_up_for_certain(
    session: &Session,
    node: QueueNode,
    why: AcquireError,
    retry: Retry,
) -> AcquireError {
    why.after(leave_for_certain(session, node, retry)).await
}

/// Joins a queue by a create; see [`join_protected`].
///
/// Source: Curator, `CreateBuilderImpl` with protection and `creatingParentContainersIfNeeded`.
pub async fn create_protected(
    session: &Session,
    lock: &str,
    kind: &str,
    retry: Retry,
) -> Result<QueueNode, Failure> {
    let joined = join_protected(session, lock, kind, DATA, retry, &Joining::by_create()).await?;
    Ok(joined.node)
}

/// Joins a queue with a node of that kind and with that data. The node of a lost reply is looked for without a
/// sync, as Curator does, unless the queue is joined in another way than Curator's. One whose create is given up
/// is looked for in the background, and deleted.
async fn join_protected(
    session: &Session,
    lock: &str,
    kind: &str,
    data: &[u8],
    retry: Retry,
    joining: &Joining,
) -> Result<Joined, Failure> {
    let name = MarkedName::curator(uuid::Uuid::new_v4(), kind);
    let syncs = joining.is_asked_for();
    let joined = join_and_find(session, lock, &name, data, retry, joining, syncs).await;
    if joined.as_ref().is_err_and(Retry::is_retryable) {
        let (session, lock) = (session.clone(), lock.to_owned());
        reactor::spawn_detached(async move { find_and_delete(&session, &lock, &name.mark).await });
    }
    joined
}

/// Joins a queue with a node of that name, and looks for it after a sync where a reply is lost.
pub async fn join_by_name(
    session: &Session,
    lock: &str,
    name: &MarkedName,
    retry: Retry,
    joining: &Joining,
) -> Result<Joined, Failure> {
    join_and_find(session, lock, name, DATA, retry, joining, true).await
}

/// Joins a queue with a node of that name; a missing parent is made, with those above it, and the request sent
/// again. A lost connection anywhere in this leads to a look for the node, and then to all of it again.
async fn join_and_find(
    session: &Session,
    lock: &str,
    name: &MarkedName,
    data: &[u8],
    retry: Retry,
    joining: &Joining,
    syncs: bool,
) -> Result<Joined, Failure> {
    let join = async || joining.join(session, lock, &name.prefix, data).await;
    created_or_found(
        retry,
        async || in_containers(session, lock, &join).await,
        async || match syncs {
            true => find_synced(session, lock, name, retry, joining).await,
            false => find_created(session, lock, name, retry).await,
        },
    )
    .await
}

/// As [`find_created`], after all that the leader had begun; what isn't there then is expected later.
///
/// A follower has its sync answered behind the proposals that are under way; at the leader the session's own requests keep
/// their order, those that came by another server included (`CommitProcessor.pendingRequests`).
pub async fn find_synced(
    session: &Session,
    lock: &str,
    name: &MarkedName,
    retry: Retry,
    joining: &Joining,
) -> Result<Option<Joined>, Failure> {
    retry.around(|| session.sync(lock)).await?;
    let found = find_created(session, lock, name, retry).await?;
    if found.is_none() {
        joining.late.expect(name);
    }
    Ok(found)
}

/// The node of a create whose reply was lost, which only a list tells the place of. A directory that is missing has none.
async fn find_created(
    session: &Session,
    lock: &str,
    name: &MarkedName,
    retry: Retry,
) -> Result<Option<Joined>, Failure> {
    let found = if_there(find_marked(session, lock, &name.mark, retry).await)?.flatten();
    Ok(found.map(Joined::untold))
}

/// Curator's guaranteed delete: goes on until the node is gone or the session is over.
fn delete_in_background(session: Session, node: QueueNode) {
    let deleting = async move {
        until_done(async || node.leave(&session).await).await;
    };
    reactor::spawn_detached(deleting);
}

/// Deletes the node whose create was given up, if there is one.
///
/// Source: Curator, `FindAndDeleteProtectedNodeInBackground`.
async fn find_and_delete(session: &Session, lock: &str, mark: &str) {
    let Some(names) = until_done(async || session.get_children(lock).await).await else { return };
    let Some(name) = names.iter().find(|name| name.starts_with(mark)) else { return };
    let path = format!("{lock}/{name}");
    until_done(async || session.delete(&path).await).await;
}

/// Sends a request again and again until it is answered; `None` where it is refused, or the session is over.
async fn until_done<T>(request: impl AsyncFn() -> Result<T, Failure>) -> Option<T> {
    loop {
        match request().await {
            Ok(done) => return Some(done),
            Err(failure) if Retry::is_retryable(&failure) => reactor::sleep(BACKGROUND_PAUSE).await,
            Err(_) => return None,
        }
    }
}
