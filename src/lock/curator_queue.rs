//! The queue that Curator's locks share: joining it under protection, waiting as Java's clients do, leaving it
//! for certain.

use std::time::Duration;

use super::ancestors::make_containers;
use super::any_event::AnyEvent;
use super::retry::Retry;
use super::wait::Ended;
use super::{AcquireError, Patience, QueueNode};
use crate::zk::{Failure, Session, reactor, sequence_of};

/// Curator's documentation uses this policy in its examples, with a longer base.
pub const RETRY: Retry = Retry { base: Duration::from_millis(50), times: 3 };

/// Curator's default node data is the address of the client's host, as text.
pub const NODE_DATA: &[u8] = b"127.0.0.1";

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
            let names = retried(|| session.get_children(&self.lock)).await?;
            let Some(awaited) = awaited(node, &names)? else { return Ok(()) };
            let path = format!("{}/{awaited}", self.lock);
            let mut watch = match retried(|| session.get_data_and_watch(&path)).await {
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

/// What the names of one create begin with: by it the node is found after a lost response.
#[must_use]
pub fn new_mark() -> String {
    format!("_c_{}-", uuid::Uuid::new_v4())
}

/// Creates the queue node so that a lost response does not leave it without an owner.
///
/// Source: Curator, `CreateBuilderImpl` with protection (`findProtectedNodeInForeground`).
async fn create_protected(session: &Session, lock: &str, kind: &str) -> Result<QueueNode, Failure> {
    let mark = new_mark();
    let prefix = format!("{mark}{kind}");
    let mut attempt = 0;
    loop {
        let failure = match QueueNode::join(session, lock, &prefix, NODE_DATA).await {
            Ok(node) => return Ok(node),
            Err(Failure::NoNode) if attempt == 0 => {
                make_containers(session, lock).await?;
                attempt += 1;
                continue;
            }
            Err(failure) => failure,
        };
        let pause = RETRY.pause(attempt).filter(|_| Retry::is_retryable(&failure)).ok_or(failure)?;
        reactor::sleep(pause).await;
        if let Some(node) = find_protected(session, lock, &mark).await? {
            return Ok(node);
        }
        attempt += 1;
    }
}

async fn find_protected(session: &Session, lock: &str, mark: &str) -> Result<Option<QueueNode>, Failure> {
    let names = retried(|| session.get_children(lock)).await?;
    let Some(name) = names.into_iter().find(|name| name.starts_with(mark)) else { return Ok(None) };
    let path = format!("{lock}/{name}");
    let found = retried(|| session.exists(&path)).await?;
    let sequence = sequence_of(&name);
    Ok(found.zip(sequence).map(|(found, sequence)| QueueNode { path, sequence, czxid: found.czxid }))
}

/// Curator's retry loop around one request.
///
/// # Errors
/// The failure of the last try.
pub async fn retried<T, F: Future<Output = Result<T, Failure>>>(
    request: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut attempt = 0;
    loop {
        let failure = match request().await {
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        let pause = RETRY.pause(attempt).filter(|_| Retry::is_retryable(&failure)).ok_or(failure)?;
        reactor::sleep(pause).await;
        attempt += 1;
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
