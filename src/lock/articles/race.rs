//! The race that locks without a queue are: everybody tries to create the same node, and one succeeds.

use crate::lock::QueueNode;
use crate::world::zk::{Failure, NodeKind, Session};

/// One contender's tries.
#[derive(Debug, Default)]
pub struct Race {
    /// A create got no answer, so the node that is there may be the own one: also in a later acquire, as a server that stood
    /// still may apply it late (see `LateCreates`).
    reply_lost: bool,
}

impl Race {
    /// Tries to create the lock's one node; `None` when another's is there.
    ///
    /// After a lost reply it tries again and, when a node is there, asks whose it is: else a contender whose
    /// create had succeeded would wait for itself until its session ends. The second create is a write that
    /// the session's present server has applied, so the look after it is not behind the first.
    pub async fn try_create(
        &mut self,
        session: &Session,
        path: &str,
        kind: NodeKind,
    ) -> Result<Option<QueueNode>, Failure> {
        loop {
            match session.create(path, &[], kind).await {
                Ok(created) => return Ok(Some(node(path, created.czxid))),
                Err(Failure::NodeExists) if self.reply_lost => return own(session, path).await,
                Err(Failure::NodeExists) => return Ok(None),
                Err(Failure::ConnectionLoss) => self.reply_lost = true,
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// The node, if it belongs to this session.
async fn own(session: &Session, path: &str) -> Result<Option<QueueNode>, Failure> {
    let found = session.exists(path).await?;
    Ok(found.filter(|found| found.owner == session.id()).map(|found| node(path, found.czxid)))
}

/// A node without a queue has no number. The transaction stands in for it, so that two holds by the same
/// path are told apart.
fn node(path: &str, czxid: i64) -> QueueNode {
    QueueNode { path: path.to_owned(), sequence: czxid, czxid }
}
