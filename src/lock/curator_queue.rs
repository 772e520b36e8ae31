//! The queue that Curator's locks share: joining it under protection, waiting as Java's clients do, leaving it
//! for certain.

use std::time::Duration;

use super::ancestors::make_containers;
use super::any_event::AnyEvent;
use super::protected::{MarkedName, Protection};
use super::retry::Retry;
use super::wait::Ended;
use super::{AcquireError, Patience, QueueNode};
use crate::zk::{Failure, Session, reactor};

/// Curator's documentation uses this policy in its examples, with a longer base.
pub const RETRY: Retry = Retry { base: Duration::from_millis(50), times: 3 };

/// Curator's default node data is the address of the client's host, as text.
pub const PROTECTION: Protection = Protection { data: b"127.0.0.1", create: RETRY, look: RETRY };

/// Tells from a list whom a node has to watch; `None` when it is in.
pub type Awaited<'a> = &'a dyn Fn(&QueueNode, &[String]) -> Result<Option<String>, Failure>;

/// One owner's way into a lock's queue.
pub struct CuratorQueue {
    /// The lock's directory.
    pub lock: String,
    events: AnyEvent,
}

impl CuratorQueue {
    /// The way into the queue below that path.
    #[must_use]
    pub fn new(lock: String) -> Self {
        Self { lock, events: AnyEvent::default() }
    }

    /// Joins with a node of that kind and waits until nobody is awaited any more. When the own node goes while
    /// the session lives, starts over, as the policy allows.
    ///
    /// # Errors
    /// Why the lock is not held; the node is gone then, unless the error is indefinite.
    pub async fn enter(
        &mut self,
        session: &Session,
        kind: &str,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Result<QueueNode, AcquireError> {
        let mut attempt = 0;
        loop {
            let node = create_protected(session, &self.lock, kind).await?;
            let why = match self.wait_until_in(session, &node, patience, awaited).await {
                Ok(()) => return Ok(node),
                Err(why) => node.give_up(session, why).await,
            };
            let pause = RETRY.pause(attempt);
            match (why, pause) {
                (AcquireError::Failed(Failure::OwnNodeMissing), Some(pause)) => patience.sleep(pause).await?,
                (why, _) => return Err(why),
            }
            attempt += 1;
        }
    }

    async fn wait_until_in(
        &mut self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
        awaited: Awaited<'_>,
    ) -> Result<(), AcquireError> {
        loop {
            let names = RETRY.around(|| session.get_children(&self.lock)).await?;
            let Some(awaited) = awaited(node, &names)? else { return Ok(()) };
            let path = format!("{}/{awaited}", self.lock);
            let mut watch = match RETRY.around(|| session.get_data_and_watch(&path)).await {
                Ok((_, watch)) => watch,
                Err(Failure::NoNode) => continue,
                Err(failure) => return Err(failure.into()),
            };
            // Curator looks at the clock only here, after the watch is set: a wait that has timed out costs
            // one more list and one more watch.
            if patience.is_over() {
                return Err(AcquireError::TimedOut);
            }
            match patience.wait(self.events.on(session, &mut watch)).await {
                Ok(()) | Err(Ended::TimedOut) => {}
                Err(Ended::Cancelled) => return Err(AcquireError::Cancelled),
            }
        }
    }
}

/// Deletes the node; after a failure that left its fate open the deleting goes on in the background.
///
/// # Errors
/// The first delete's failure.
pub async fn leave_for_certain(session: &Session, node: QueueNode) -> Result<(), Failure> {
    let deleted = node.leave(session).await;
    if deleted.as_ref().is_err_and(Retry::is_retryable) {
        delete_in_background(session.clone(), node);
    }
    deleted
}

/// Joins the queue with a node of that kind; a missing parent is made, with those above it, and the create sent
/// again.
///
/// # Errors
/// As [`Protection::join`].
pub async fn create_protected(session: &Session, lock: &str, kind: &str) -> Result<QueueNode, Failure> {
    let name = MarkedName::curator(uuid::Uuid::new_v4(), kind);
    match PROTECTION.join(session, lock, &name).await {
        Err(Failure::NoNode) => {
            make_containers(session, lock).await?;
            PROTECTION.join(session, lock, &name).await
        }
        ended => ended,
    }
}

/// Curator's guaranteed delete: goes on until the node is gone or the session is over.
fn delete_in_background(session: Session, node: QueueNode) {
    let deleting = async move {
        while let Err(failure) = node.leave(&session).await {
            if !Retry::is_retryable(&failure) {
                return;
            }
            reactor::sleep(RETRY.base).await;
        }
    };
    reactor::spawn_local(deleting).detach();
}
