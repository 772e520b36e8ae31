//! `curator-read-write`: Apache Curator's InterProcessReadWriteLock.

use super::queue::{CuratorQueue, DATA};
use crate::after::GOES_ON;
use crate::prelude::*;
use crate::queue::protection::MarkedName;
use crate::queue::retry;
use crate::queue::sides::{READ_WRITE, Sides, Watched};

const SIDES: Sides = Sides { read: "__READ__", write: "__WRIT__" };

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-read-write",
        summary: "Curator's InterProcessReadWriteLock: one queue of readers and writers, protected, reentrant",
        source: "Apache Curator, InterProcessReadWriteLock",
        details: include_str!("read_write.md").trim_ascii_end(),
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..READ_WRITE },
        after: &[GOES_ON],
        params: &joined::<5, 1, 6>(retry::PARAMS, [JOIN]),
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        Box::new(CuratorReadWrite { queue: CuratorQueue::of(config), read: None, write: None })
    },
};

/// Computes the cost of a batch. All contenders write, so the lock costs as much as the mutex.
fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if is_count(&JOIN, params) {
        return cost::counted_queue(GetDataWatch, 1, n);
    }
    cost::predecessor_queue(GetDataWatch, n)
}

/// Node with which this owner holds a side, and number of times it has acquired this side.
type Owned = Option<(QueueNode, u32)>;

struct CuratorReadWrite {
    queue: CuratorQueue,
    read: Owned,
    write: Owned,
}

#[async_trait(?Send)]
impl Strategy for CuratorReadWrite {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        if let Some((node, count)) = self.side(mode) {
            *count += 1;
            return Ok(Held::by(node.clone()));
        }
        let node = match (&self.write, mode) {
            (Some((writer, _)), Mode::Read) => downgrade(session, &self.queue, writer).await?,
            _ => {
                let awaited =
                    |node: &QueueNode, names: &Names| SIDES.awaited(node, mode, Watched::First, names);
                self.queue.enter(session, SIDES.of(mode), patience, &awaited).await?
            }
        };
        *self.side(mode) = Some((node.clone(), 1));
        Ok(Held::by(node))
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let Some(node) = held.node else { return Ok(()) };
        let side = self.side_of(&node);
        if let Some((_, count)) = side.as_mut().filter(|(_, count)| *count > 1) {
            *count -= 1;
            return Ok(());
        }
        *side = None;
        self.queue.leave(session, node).await
    }
}

impl CuratorReadWrite {
    fn side(&mut self, mode: Mode) -> &mut Owned {
        match mode {
            Mode::Read => &mut self.read,
            Mode::Write => &mut self.write,
        }
    }

    fn side_of(&mut self, node: &QueueNode) -> &mut Owned {
        let reads = self.read.as_ref().is_some_and(|(own, _)| own == node);
        self.side(if reads { Mode::Read } else { Mode::Write })
    }
}

/// Takes the read side while holding the write side. The node gets the writer's number, so that contenders
/// behind the writer still wait once the writer's node is gone.
async fn downgrade(
    session: &Session,
    CuratorQueue { queue: Queue { lock, .. }, retry }: &CuratorQueue,
    writer: &QueueNode,
) -> Result<QueueNode, Failure> {
    let name = MarkedName::curator(uuid::Uuid::new_v4(), SIDES.read);
    let path = format!("{lock}/{}{:010}", name.prefix, writer.sequence);
    let czxid = match retry.around(|| session.create(&path, DATA, NodeKind::Ephemeral)).await {
        Ok(created) => created.czxid,
        // The name is unique, so an earlier attempt created the node and its reply was lost.
        Err(Failure::NodeExists) => {
            let found = retry.around(|| session.exists(&path)).await?;
            found.ok_or(Failure::OwnNodeMissing)?.czxid
        }
        Err(failure) => return Err(failure),
    };
    // The class also lists here, but the writer already holds the lock, so the list is not searched.
    retry.around(|| session.get_children(lock)).await?;
    Ok(QueueNode { path, sequence: writer.sequence, czxid })
}
