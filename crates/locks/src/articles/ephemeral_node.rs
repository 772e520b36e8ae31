//! `ephemeral-node`: one node that all contenders race to create.

use std::time::Duration;

use crate::after::{ListReplyLost, Never, RACES, TimedOutInBackOff};
use crate::prelude::*;
use crate::queue::node::{if_there, watch_data};
use zklockbench_zk::NodeStat;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "ephemeral-node",
        summary: "one ephemeral node: the contender that creates it holds the lock; the others watch it and race when it \
                  is deleted",
        source: "ZooKeeper paper (USENIX ATC 2010), simple locks",
        details: include_str!("ephemeral_node.md").trim_ascii_end(),
        guarantees: Guarantees { fifo: false, protection: Protection::Complete, ..Guarantees::QUEUE },
        after: &[RACES.but([(ListReplyLost, Never), (TimedOutInBackOff, Never)])],
        params: &[
            Param {
                name: "node",
                kind: ParamKind::OneOf(&["ephemeral", PERSISTENT]),
                default: "ephemeral",
                doc: "Whether the node is deleted with the holder's session or persists. If it persists, a dead \
                    holder keeps the lock forever.",
            },
            Param {
                name: OWNER,
                kind: ParamKind::OneOf(&["session", VALUE]),
                default: "session",
                doc: "How a contender recognises its node after a lost reply: by the session that created \
                    it, or by an id stored as the node's value.",
            },
            Param {
                name: "wait",
                kind: ParamKind::Choice(&[
                    Choice { word: "watch", takes: &["watch"] },
                    Choice { word: "retry", takes: &["retry_interval"] },
                ]),
                default: "watch",
                doc: "Whether a loser watches the holder's node, or sleeps and creates again.",
            },
            Param {
                name: "watch",
                kind: ParamKind::OneOf(&["exists", "data"]),
                default: "exists",
                doc: "The request that sets the watch on the holder's node.",
            },
            Param {
                name: "retry_interval",
                kind: ParamKind::Duration,
                default: "100ms",
                doc: "Time a loser sleeps before it tries to create the node again.",
            },
        ],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        Box::new(EphemeralNode {
            node: format!("{}/lock", config.path),
            kind: if config.is("node", PERSISTENT) { NodeKind::Persistent } else { NodeKind::Ephemeral },
            by_data: config.is("watch", "data"),
            retries: config.is("wait", "retry").then(|| config.duration("retry_interval", RETRY_INTERVAL)),
            race: if config.is(OWNER, VALUE) { Race::with_id() } else { Race::default() },
        })
    },
};

const OWNER: &str = "owner";
const VALUE: &str = "value";
const PERSISTENT: &str = "persistent";
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if has_word(params, "wait", "retry") {
        return BatchCost { open: true, ..BatchCost::default() };
    }
    let look = if has_word(params, "watch", "data") { GetDataWatch } else { ExistsWatch };
    let cost = cost::race(look, n);
    let events = Events { node_deleted: cost.to_waiters_by_release, ..Events::default() };
    BatchCost { events, names_returned: Some(0), ..cost }
}

struct EphemeralNode {
    node: String,
    kind: NodeKind,
    by_data: bool,
    /// Time a loser sleeps before it creates again; `None` if losers watch.
    retries: Option<Duration>,
    race: Race,
}

#[async_trait(?Send)]
impl Strategy for EphemeralNode {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        loop {
            if let Some(node) = self.race.try_create(session, &self.node, self.kind).await? {
                return Ok(Held::by(node));
            }
            if patience.tries_once {
                return Err(AcquireError::TimedOut);
            }
            if let Some(pause) = self.retries {
                patience.sleep(pause).await?;
            } else if let Some(mut watch) = self.watch(session).await? {
                patience.wait(watch.changed()).await?;
            }
        }
    }
}

impl EphemeralNode {
    /// Watches the holder's node; `None` if the node is already gone.
    async fn watch(&self, session: &Session) -> Result<Option<Watch>, Failure> {
        if !self.by_data {
            let (found, watch) = session.exists_and_watch(&self.node).await?;
            return Ok(found.map(|_| watch));
        }
        watch_data(session, &self.node).await
    }
}

/// One contender's attempts to create the single node of a lock without a queue.
#[derive(Debug, Default)]
pub struct Race {
    /// Whether the reply to a create was lost. If so, an existing node may be the contender's own. Stays set
    /// in later acquires, because a paused server may apply the create late (see `LateCreates`).
    reply_lost: bool,
    /// Data of the nodes that this contender creates: an id of the contender, or empty.
    id: String,
}

impl Race {
    pub fn with_id() -> Self {
        Self { id: uuid::Uuid::new_v4().to_string(), ..Self::default() }
    }

    /// Tries to create the lock's node; `None` if another contender's node exists.
    ///
    /// After a lost reply, creates again and, if a node exists, checks its owner. Without the check, a
    /// contender whose create succeeded would wait for its own node. The session's current server has applied
    /// the second create, a write, so the following read cannot miss the first create.
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

    /// Returns the node if this contender created it, judged by its session or, for persistent nodes, by its
    /// id.
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

/// Without a queue, a node has no number. Its zxid is used instead, so that two holds with the same path
/// differ.
fn node(path: &str, czxid: i64) -> QueueNode {
    QueueNode { path: path.to_owned(), sequence: czxid, czxid }
}
