//! `ticket`: the lock's node contains the number released last, so contenders rarely list the queue.

use crate::after::{ENDS, OwnNodeDeleted, WithoutNode};
use crate::prelude::*;
use crate::queue::node::{if_there, watch_data};
use zklockbench_zk::{NodeStat, Op, sequence_of};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "ticket",
        summary: "consecutive numbers; a release writes its number into the lock's node, which the next waiter reads",
        source: "this suite, after the ticket lock of shared-memory systems",
        details: include_str!("ticket.md").trim_ascii_end(),
        guarantees: Guarantees::QUEUE,
        after: &[ENDS.but([(OwnNodeDeleted, WithoutNode)])],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(Ticket { lock: config.path.clone() }),
};

fn batch_cost(_: &Params, n: u64) -> BatchCost {
    BatchCost {
        requests: vec![(Create, n), (GetData, 2 * n - 1), (GetDataWatch, n - 1), (Multi, n)],
        written_by_multis: 2 * n,
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        names_returned: Some(0),
        ..BatchCost::default()
    }
}

struct Ticket {
    lock: String,
}

/// Data and stat of the lock's node.
type Announced = Result<(Vec<u8>, NodeStat), Failure>;

#[async_trait(?Send)]
impl Strategy for Ticket {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        let read = || session.get_data(&self.lock);
        let (node, announced) = QueueNode::join_and(session, &self.lock, "n-", &[], read).await?;
        let waited = self.wait_for_turn(session, &node, announced, patience).await;
        node.held_after(session, waited).await
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let Some(node) = held.node else { return Ok(()) };
        let number = node.sequence.to_string();
        let operations = [Op::SetData(&self.lock, number.as_bytes()), Op::Delete(&node.path)];
        // If the contender's node is already gone, nothing is written.
        if_there(session.multi(&operations).await).map(drop)
    }
}

impl Ticket {
    async fn wait_for_turn(
        &self,
        session: &Session,
        node: &QueueNode,
        announced: Announced,
        patience: &Patience,
    ) -> Acquired<()> {
        let mut before = node.sequence - 1;
        let (data, _) = announced?;
        let first_of_all = node.sequence == 0 && data.is_empty();
        if first_of_all || number_in(&data) == Some(before) {
            return Ok(());
        }
        let mut path = format!("{}/{}", self.lock, node.name_at("n-", -1));
        loop {
            if let Some(mut watch) = watch_data(session, &path).await? {
                patience.wait(watch.changed()).await?;
            }
            let (data, _) = session.get_data(&self.lock).await?;
            if number_in(&data) == Some(before) {
                return Ok(());
            }
            let list = session.get_children(&self.lock);
            let Some(nearest) = node.nearest_before(&list.await?, 1)?.pop() else { return Ok(()) };
            let Some(number) = sequence_of(&nearest) else { return Err(Failure::OwnNodeMissing.into()) };
            (before, path) = (number, format!("{}/{nearest}", self.lock));
        }
    }
}

fn number_in(data: &[u8]) -> Option<i64> {
    std::str::from_utf8(data).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_numeric_data_does_not_announce_a_release() {
        assert_eq!(number_in(b"41"), Some(41));
        assert_eq!(number_in(b""), None);
        assert_eq!(number_in(b"127.0.0.1"), None);
        assert_eq!(number_in(&[0xff]), None);
    }
}
