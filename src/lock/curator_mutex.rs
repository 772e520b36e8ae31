//! `curator-mutex`: Apache Curator's InterProcessMutex.

use std::time::Duration;

use async_trait::async_trait;

use super::ancestors::make_containers;
use super::any_event::AnyEvent;
use super::queue_node::Standing;
use super::retry::Retry;
use super::wait::Ended;
use super::{AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost};
use crate::catalog::{BatchCost, Guarantees, LockCard, Mode, Params};
use crate::measure::RequestKind::GetDataWatch;
use crate::zk::{Failure, Session, reactor, sequence_of};

/// Curator's documentation uses this policy in its examples, with a longer base.
pub(super) const RETRY: Retry = Retry { base: Duration::from_millis(50), times: 3 };

/// Curator's default node data is the address of the client's host, as text.
const NODE_DATA: &[u8] = b"127.0.0.1";

/// Description and constructor.
pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-mutex",
        summary: "Curator's InterProcessMutex: protected queue node, data watch on the predecessor, reentrant",
        source: "Apache Curator, InterProcessMutex and LockInternals",
        details: "\
Acquire: held already by this owner -> count up, no request. Else create ephemeral sequential
`_c_<uuid>-lock-` (missing parents are made as containers; after a lost response the node is looked for by
its uuid before another is created); getChildren; the own node is the lowest -> held; else getData with a
watch on the one before. Any event, also a disconnection or reconnection -> getChildren again. The own node is
missing -> start over with a new node at the end of the queue.
Release: count down; at 0 delete, retried in the background until it succeeds or the session ends.

Requests: 3 uncontended, 5 contended, 6 when timed out. Fan-out of a release: 1. Order: first in, first out.
Timed out: looks once more, as Curator does, then deletes its node; its watch on the predecessor stays armed.
Crash: the session's end frees the place.

Exclusion and progress: as predecessor-watch.
Where it breaks: names are four times as long as bare ones, so large queues cost more bytes. A holder is not
told that its session has expired. Every reconnection costs each waiter a list and a watch.",
        guarantees: Guarantees { reentrant: true, protected: true, ..Guarantees::QUEUE },
        params: &[],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(CuratorMutex::new(config.path.clone())),
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    cost::predecessor_queue(GetDataWatch, n)
}

/// One owner's mutex; also the part that Curator's semaphores and multi-locks are made of.
pub(super) struct CuratorMutex {
    lock: String,
    /// The node by which this owner holds, and how many times it has taken the lock.
    owned: Option<(QueueNode, u32)>,
    events: AnyEvent,
}

#[async_trait(?Send)]
impl Strategy for CuratorMutex {
    async fn acquire(
        &mut self,
        session: &Session,
        _: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        if let Some((node, count)) = &mut self.owned {
            *count += 1;
            return Ok(Held::by(node.clone()));
        }
        let mut attempt = 0;
        let node = loop {
            match self.attempt(session, patience).await {
                // The own node went while the session lives: Curator starts over, as its policy allows.
                Err(AcquireError::Failed(Failure::OwnNodeMissing)) => match RETRY.pause(attempt) {
                    Some(pause) => patience.sleep(pause).await?,
                    None => return Err(AcquireError::Failed(Failure::OwnNodeMissing)),
                },
                ended => break ended?,
            }
            attempt += 1;
        };
        self.owned = Some((node.clone(), 1));
        Ok(Held::by(node))
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        if let Some((_, count)) = self.owned.as_mut().filter(|(_, count)| *count > 1) {
            *count -= 1;
            return Ok(());
        }
        self.owned = None;
        match held.node {
            Some(node) => delete_guaranteed(session, node).await,
            None => Ok(()),
        }
    }
}

impl CuratorMutex {
    /// A mutex on that path, not held.
    pub(super) fn new(lock: String) -> Self {
        Self { lock, owned: None, events: AnyEvent::default() }
    }

    async fn attempt(&mut self, session: &Session, patience: &Patience) -> Result<QueueNode, AcquireError> {
        let node = create_protected(session, &self.lock, "lock-").await?;
        match self.wait_until_first(session, &node, patience).await {
            Ok(()) => Ok(node),
            Err(why) => Err(node.give_up(session, why).await),
        }
    }

    async fn wait_until_first(
        &mut self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Result<(), AcquireError> {
        loop {
            let names = retried(|| session.get_children(&self.lock)).await?;
            let Standing::Behind(predecessor) = node.standing(&names)? else { return Ok(()) };
            let path = format!("{}/{predecessor}", self.lock);
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

/// Creates the queue node so that a lost response does not leave it without an owner.
///
/// Source: Curator, `CreateBuilderImpl` with protection (`findProtectedNodeInForeground`).
pub(super) async fn create_protected(
    session: &Session,
    lock: &str,
    base: &str,
) -> Result<QueueNode, Failure> {
    let mark = format!("_c_{}-", uuid::Uuid::new_v4());
    let prefix = format!("{mark}{base}");
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
pub(super) async fn retried<T, F: Future<Output = Result<T, Failure>>>(
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

/// Deletes a node for good: what a retry may still delete is left to the background.
pub(super) async fn delete_guaranteed(session: &Session, node: QueueNode) -> Result<(), Failure> {
    let deleted = node.leave(session).await;
    if deleted.as_ref().is_err_and(Retry::is_retryable) {
        delete_in_background(session.clone(), node);
    }
    deleted
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
