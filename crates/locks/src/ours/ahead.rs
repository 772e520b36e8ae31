//! `ahead`: each waiter watches the two nodes ahead. The deletion of the farther node announces that the next
//! release admits the waiter.

use crate::after::{After, DirectoryDeleted, GOES_ON_BY_ONE_NODE, OwnNodeDeleted, WithoutNode};
use crate::curator::queue::DATA;
use crate::prelude::*;
use crate::queue::joining::COUNT;

const HABITS: Habits = Habits { keeps_watches: true, trusts_deletion: true, ..Habits::patient(Retry::USUAL) };

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "ahead",
        summary: "Curator's queue, but waiters watch the two nodes ahead, list early, and enter on an \
                  event alone",
        source: "this suite; nodes, names and release as in Curator's InterProcessMutex",
        details: include_str!("ahead.md").trim_ascii_end(),
        guarantees: Guarantees { protection: Protection::Complete, ..Guarantees::QUEUE },
        after: &[AFTER, AFTER.trying_creates(Some(4)).with(JOIN.name, COUNT)],
        params: &[
            Param {
                name: "flush",
                kind: ParamKind::Bool,
                default: "true",
                doc: "Whether to send the create and the first list together, which saves a round trip.",
            },
            JOIN,
        ],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let apart = matches!(config.params.get("flush"), Some(ParamValue::Bool(false)));
        let joining = Joining { lists_along: !apart, ..joining(&JOIN, config) };
        Box::new(Ahead { queue: Queue::new(&config.path, HABITS, joining), kind: "lock-", watched: 2 })
    },
};

/// One create more than the policy allows, because the first create is sent with a list.
const AFTER: After = GOES_ON_BY_ONE_NODE
    .but([(OwnNodeDeleted, WithoutNode), (DirectoryDeleted, WithoutNode)])
    .trying_creates(Some(5));

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if is_count(&JOIN, params) { cost::counted_two_back_queue(n) } else { cost::two_back_queue(n) }
}

/// Joins with Curator's names and data, and with a sync before each search for a lost create.
pub fn joining(join: &Param, config: &LockConfig) -> Joining {
    let protection = Protection::Complete;
    Joining { data: DATA, protection, retry: Retry::USUAL, ..Joining::of(join, config) }
}

/// A lock whose contenders watch the `watched` nodes just ahead of their own, and enter once the number of nodes
/// ahead is below the number of leases.
pub struct Ahead {
    pub queue: Queue,
    pub kind: &'static str,
    pub watched: usize,
}

#[async_trait(?Send)]
impl Strategy for Ahead {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let (room, watched) = (self.queue.habits.room, self.watched);
        let in_the_way = |node: &QueueNode, names: &Names| {
            let before = node.nearest_before(names, watched)?;
            Ok::<_, Failure>(if before.len() < room { Vec::new() } else { before })
        };
        self.queue.enter(session, self.kind, patience, in_the_way).await.map(Held::by)
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        match held.node {
            Some(node) => self.queue.leave(session, node).await,
            None => Ok(()),
        }
    }
}
