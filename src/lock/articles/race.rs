//! The race that locks without a queue are: everybody tries to create the same node, and one succeeds.

use crate::lock::QueueNode;
use crate::lock::queue::node::if_there;
use crate::world::zk::{Failure, NodeKind, NodeStat, Session};

/// One contender's tries.
#[derive(Debug, Default)]
pub struct Race {
    /// A create got no answer, so the node that is there may be the own one: also in a later acquire, as a server that stood
    /// still may apply it late (see `LateCreates`).
    reply_lost: bool,
    /// The value of its nodes: an id of this contender, or nothing.
    id: String,
}

impl Race {
    /// One whose nodes have an id of its own as their value.
    pub fn with_id() -> Self {
        Self { id: uuid::Uuid::new_v4().to_string(), ..Self::default() }
    }

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
            match session.create(path, self.id.as_bytes(), kind).await {
                Ok(created) => return Ok(Some(node(path, created.czxid))),
                Err(Failure::NodeExists) if self.reply_lost => return self.own(session, path, kind).await,
                Err(Failure::NodeExists) => return Ok(None),
                Err(Failure::ConnectionLoss) => self.reply_lost = true,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The node, if it is this contender's: its session's or, where it outlives sessions, the one with its id.
    async fn own(&self, session: &Session, path: &str, kind: NodeKind) -> Result<Option<QueueNode>, Failure> {
        let found = if self.id.is_empty() {
            session.exists(path).await?
        } else {
            let found = if_there(session.get_data(path).await)?;
            found.filter(|(data, _)| data == self.id.as_bytes()).map(|(_, stat)| stat)
        };
        let by_id = kind == NodeKind::Persistent && !self.id.is_empty();
        let is_own = |found: &NodeStat| by_id || found.owner == session.id();
        Ok(found.filter(is_own).map(|found| node(path, found.czxid)))
    }
}

/// A node without a queue has no number. The transaction stands in for it, so that two holds by the same
/// path are told apart.
fn node(path: &str, czxid: i64) -> QueueNode {
    QueueNode { path: path.to_owned(), sequence: czxid, czxid }
}
