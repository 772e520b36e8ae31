//! The queue that Curator's locks share: joining it under protection, waiting as Java's clients do, leaving it
//! for certain.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;

use super::creating::{MarkedName, created_or_found, find_marked, make_containers};
use super::in_process::{SharedObject, Waiting};
use super::queue_node::{if_there, watch_data};
use super::retry::Retry;
use super::revocation::Revocation;
use super::wait::{AnyEvent, Ended};
use super::{AcquireError, Acquired, Patience, QueueNode};
use crate::world::zk::{Failure, Session, Watch, reactor};

/// Curator's default node data is the address of the client's host, as text.
pub const DATA: &[u8] = b"127.0.0.1";

const BACKGROUND_PAUSE: Duration = Duration::from_millis(50);

/// Tells from a list which node one has to watch; `None` when it is in.
pub type Awaited<'a> = &'a dyn Fn(&QueueNode, &[String]) -> Result<Option<String>, Failure>;

/// One owner's way into a lock's queue.
pub struct CuratorQueue {
    pub lock: String,
    pub retry: Retry,
    revocation: Option<Revocation>,
    events: AnyEvent,
    /// The object that other tasks of this process use, too.
    object: Option<Arc<SharedObject>>,
}

impl CuratorQueue {
    /// The way into the queue below that path.
    pub fn new(lock: String, retry: Retry) -> Self {
        Self { lock, retry, revocation: None, events: AnyEvent::default(), object: None }
    }

    /// The same, with a part in revocation.
    #[must_use]
    pub fn revocable(self, revocation: Option<Revocation>) -> Self {
        Self { revocation, ..self }
    }

    /// The same, by an object that other tasks of this process use, too.
    #[must_use]
    pub fn shared_by(self, object: Option<Arc<SharedObject>>) -> Self {
        Self { object, ..self }
    }

    /// Joins with a node of that kind and waits until it is its turn. When the own node goes while
    /// the session lives, starts over, as the policy allows.
    pub async fn enter(
        &mut self,
        session: &Session,
        kind: &str,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Acquired<QueueNode> {
        let mut tries = self.retry.tries();
        loop {
            let node = create_protected(session, &self.lock, kind, self.retry).await?;
            let why = match self.wait_until_in(session, &node, patience, awaited).await {
                Ok(()) => return Ok(node),
                Err(why) => give_up_for_certain(session, node, why, self.retry).await,
            };
            match (why, tries.next_pause()) {
                // The second is what a list says when the lock's directory has gone, the own node with it.
                (AcquireError::Failed(Failure::OwnNodeMissing | Failure::NoNode), Some(pause)) => {
                    patience.sleep(pause).await?;
                }
                (why, _) => return Err(why),
            }
        }
    }

    async fn wait_until_in(
        &mut self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Acquired<()> {
        if let Some(revocation) = &mut self.revocation {
            revocation.allow(session, node).await?;
        }
        loop {
            let names = self.retry.around(|| session.get_children(&self.lock)).await?;
            let Some(awaited) = awaited(node, &names)? else { return Ok(()) };
            let path = format!("{}/{awaited}", self.lock);
            let object = self.object.clone();
            let others = object.as_ref().map(|object| object.wait_for(&path));
            let Some(mut watch) = self.retry.around(|| watch_data(session, &path)).await? else { continue };
            // Curator looks at the clock only here, after the watch is set: a wait that has timed out costs
            // one more list and one more watch.
            if patience.is_over() {
                return Err(AcquireError::TimedOut);
            }
            self.woken(session, node, &mut watch, others.as_ref(), patience).await?;
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
        loop {
            let ask_at = self.revocation.as_ref().and_then(|revocation| revocation.ask_at);
            let event_or_time = async {
                tokio::select! {
                    biased;
                    () = self.events.on(session, watch) => false,
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

/// As [`create_with_parents`]; a lost connection anywhere in this leads to a look for the node, and then to all of it
/// again.
///
/// Source: Curator, `CreateBuilderImpl` with protection and `creatingParentContainersIfNeeded`.
pub async fn create_protected(
    session: &Session,
    lock: &str,
    kind: &str,
    retry: Retry,
) -> Result<QueueNode, Failure> {
    let name = MarkedName::curator(uuid::Uuid::new_v4(), kind);
    created_or_found(
        retry,
        async || create_with_parents(session, lock, &name).await,
        async || find_created(session, lock, &name, retry).await,
    )
    .await
}

/// Joins the queue with a node of that name; a missing parent is made, with those above it, and the create sent again.
pub async fn create_with_parents(
    session: &Session,
    lock: &str,
    name: &MarkedName,
) -> Result<QueueNode, Failure> {
    match QueueNode::join(session, lock, &name.prefix, DATA).await {
        Err(Failure::NoNode) => {
            make_containers(session, lock).await?;
            QueueNode::join(session, lock, &name.prefix, DATA).await
        }
        ended => ended,
    }
}

/// The node of a create whose reply was lost. A directory that is missing has none.
pub async fn find_created(
    session: &Session,
    lock: &str,
    name: &MarkedName,
    retry: Retry,
) -> Result<Option<QueueNode>, Failure> {
    Ok(if_there(find_marked(session, lock, &name.mark, retry).await)?.flatten())
}

/// Curator's guaranteed delete: goes on until the node is gone or the session is over.
fn delete_in_background(session: Session, node: QueueNode) {
    let deleting = async move {
        while let Err(failure) = node.leave(&session).await {
            if !Retry::is_retryable(&failure) {
                return;
            }
            reactor::sleep(BACKGROUND_PAUSE).await;
        }
    };
    reactor::spawn_detached(deleting);
}
