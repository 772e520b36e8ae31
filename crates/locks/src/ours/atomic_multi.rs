//! `atomic-multi`: several locks whose queues are joined in one transaction.

use futures_util::future::{join, try_join_all};

use crate::after::GOES_ON_BY_ONE_NODE;
use crate::curator::multi::{MEMBERS, PARAMS, directories};
use crate::prelude::*;
use crate::queue::directories::make_from_leaf;
use crate::queue::node::{if_there, watch_data};
use crate::queue::protection::{LateCreates, MarkedName, created_or_found, node_named};
use zklockbench_zk::Op;

const RETRY: Retry = Retry::USUAL;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "atomic-multi",
        summary: "several queue locks joined in one transaction, so their order cannot cause a deadlock",
        source: "this suite",
        details: include_str!("atomic_multi.md").trim_ascii_end(),
        guarantees: Guarantees { protection: Protection::Complete, ..Guarantees::QUEUE },
        after: &[GOES_ON_BY_ONE_NODE],
        params: &PARAMS,
        batch_cost: Some(|params, n| cost::queues_at_once(count_of(params, "members", MEMBERS), n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let (members, late) = (directories(config), LateCreates::default());
        Box::new(AtomicMulti { members, nodes: Vec::new(), late })
    },
};

struct AtomicMulti {
    members: Vec<String>,
    nodes: Vec<QueueNode>,
    late: LateCreates,
}

/// Names in each member's queue.
type Lists = Vec<Names>;

#[async_trait(?Send)]
impl Strategy for AtomicMulti {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let (nodes, lists) = self.join(session).await?;
        match self.wait_until_first(session, &nodes, lists, patience).await {
            Ok(()) => {
                self.nodes = nodes;
                Ok(Held::of(self.nodes.first().cloned()))
            }
            Err(why) => Err(why.after(leave(session, &nodes)).await),
        }
    }

    async fn release(&mut self, session: &Session, _: Held) -> Result<(), Failure> {
        leave(session, &std::mem::take(&mut self.nodes)).await
    }
}

impl AtomicMulti {
    /// Joins all queues. After a lost reply, finds the created nodes.
    async fn join(&self, session: &Session) -> Result<(Vec<QueueNode>, Lists), Failure> {
        let name = MarkedName::curator(uuid::Uuid::new_v4(), "lock-");
        created_or_found(
            RETRY,
            async || self.create_with_parents(session, &name.prefix).await,
            async || {
                let found = if_there(self.find(session, &name.mark).await)?.flatten();
                if found.is_none() {
                    self.late.expect(&name);
                }
                Ok(found)
            },
        )
        .await
    }

    /// Creates the nodes. If directories are missing, creates them and tries again.
    async fn create_with_parents(
        &self,
        session: &Session,
        prefix: &str,
    ) -> Result<(Vec<QueueNode>, Lists), Failure> {
        match self.create(session, prefix).await {
            Err(Failure::NoNode) => {}
            ended => return ended,
        }
        for member in &self.members {
            make_from_leaf(session, member, NodeKind::Persistent).await?;
        }
        self.create(session, prefix).await
    }

    /// Creates the nodes and lists all members, in one flush.
    async fn create(&self, session: &Session, prefix: &str) -> Result<(Vec<QueueNode>, Lists), Failure> {
        let paths: Vec<String> = self.members.iter().map(|member| format!("{member}/{prefix}")).collect();
        let joins: Vec<Op<'_>> = paths.iter().map(|path| Op::Join { path, data: &[] }).collect();
        let (created, lists) = join(session.join_all(&joins, &self.members[0]), self.list(session)).await;
        let (created, _) = created?;
        let nodes = created.into_iter().map(QueueNode::unchecked).collect::<Result<Vec<_>, _>>()?;
        match nodes.iter().try_for_each(QueueNode::has_unique_number).and(lists) {
            // Delete the nodes here, because no later cleanup searches for them.
            Err(failure) if failure.is_definite() => leave(session, &nodes).await.and(Err(failure)),
            lists => Ok((nodes, lists?)),
        }
    }

    /// Finds the nodes of a transaction whose reply was lost; all of them exist, or none does.
    async fn find(&self, session: &Session, mark: &str) -> Result<Option<(Vec<QueueNode>, Lists)>, Failure> {
        // The session's current server may lag behind the one that created the nodes.
        RETRY.around(|| session.sync(&self.members[0])).await?;
        let lists = RETRY.around(|| self.list(session)).await?;
        let mut nodes = Vec::new();
        for (member, names) in self.members.iter().zip(&lists) {
            let Some(name) = names.iter().find(|name| name.starts_with(mark)) else { return Ok(None) };
            let node = RETRY.around(|| node_named(session, member, name)).await?;
            let Some(node) = node else { return Ok(None) };
            nodes.push(node);
        }
        Ok(Some((nodes, lists)))
    }

    /// Lists all members. The requests are sent by the call, before the future is polled.
    fn list(&self, session: &Session) -> impl Future<Output = Result<Lists, Failure>> {
        try_join_all(self.members.iter().map(|member| session.get_children(member)))
    }

    async fn wait_until_first(
        &self,
        session: &Session,
        nodes: &[QueueNode],
        mut lists: Lists,
        patience: &Patience,
    ) -> Acquired<()> {
        loop {
            for ((member, names), node) in self.members.iter().zip(&lists).zip(nodes) {
                self.late.delete(session, member, names, node).await?;
            }
            let Some(predecessor) = self.first_obstacle(nodes, &lists)? else { return Ok(()) };
            if patience.tries_once {
                return Err(AcquireError::TimedOut);
            }
            lists.clear();
            if let Some(mut watch) = RETRY.around(|| watch_data(session, &predecessor)).await? {
                patience.wait(watch.changed()).await?;
            }
            lists = RETRY.around(|| self.list(session)).await?;
        }
    }

    /// Returns the path of the contender's predecessor, in the first member that has one.
    fn first_obstacle(&self, nodes: &[QueueNode], lists: &Lists) -> Result<Option<String>, Failure> {
        let mut obstacle = None;
        for ((member, node), names) in self.members.iter().zip(nodes).zip(lists) {
            if let Some(name) = node.predecessor(names)? {
                obstacle = obstacle.or(Some(format!("{member}/{name}")));
            }
        }
        Ok(obstacle)
    }
}

/// Leaves all queues at once; if one node is already gone, deletes the nodes one by one.
async fn leave(session: &Session, nodes: &[QueueNode]) -> Result<(), Failure> {
    let deletes: Vec<Op<'_>> = nodes.iter().map(|node| Op::Delete(&node.path)).collect();
    match RETRY.around(|| session.multi(&deletes)).await {
        Err(Failure::NoNode) => {}
        ended => return ended.map(drop),
    }
    for node in nodes {
        RETRY.around(|| node.leave(session)).await?;
    }
    Ok(())
}
