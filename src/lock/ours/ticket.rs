//! `ticket`: the lock's own data says whose turn it was last, so no contender lists the queue.

use async_trait::async_trait;

use crate::lock::queue::node::{if_there, watch_data};
use crate::lock::{Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use crate::words::catalog::{BatchCost, Events, Guarantees, LockCard, Mode, Params};
use crate::words::measure::RequestKind::{Create, GetData, GetDataWatch, Multi};
use crate::world::zk::{Failure, NodeStat, Op, Session, sequence_of};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "ticket",
        summary: "consecutive numbers; a release writes its number into the lock's node, which the next waiter reads",
        source: "this suite, after the ticket lock of shared-memory systems",
        details: "\
Acquire: create ephemeral sequential `n-`, which gives its number s, and getData of the lock's node, in one flush;
its data is s - 1 -> held; s is 0 and there is no data -> held, the first of all. Else getData with a watch on node
s - 1; it goes, or is gone (NoNode) -> getData of the lock's node; s - 1 -> held. Else s - 1 left the queue without
having held, or died, or its number was never used: getChildren; its own node is the lowest -> held; else the node
just before it takes the place of s - 1 from here on.
Release: one multi writes its number into the lock's node and deletes its own node.

Requests: 3 uncontended, 5 contended, with constant bytes: names are never listed unless somebody left or died.
Fan-out of a release: 1. Handoff: two round trips and a commit. Order: first in, first out.
A batch of N: N creates, N multis (2N writes), 2N - 1 reads of the lock's node, N - 1 watches and notifications.

Exclusion: a number is written in the transaction that deletes its node, and only by its holder. Let p be the number
that a contender waits for: s - 1, or the highest below its own that a list showed. No node can appear between p and
its own. Data p means that p held, so all before p had gone, and that p has gone since: nobody is below its own
node. Numbers are used once, so old data never fits; the data of a paused holder whose session has expired can't be
written, because its node is gone and the transaction fails whole. Without that data, it holds only after a list
that shows no lower number, as in predecessor-watch; 0 without data is the lock's first node ever.
Progress: the node waited for is watched in the same step as the look that finds it there. However it goes, by
release, abandonment, expiry or crash, the watch fires, after a reconnection too, and the data or else the list
decides; the list names the next one to wait for, if there is one.
A release whose response was lost either happened whole or leaves the node to the session's end, which the others
see as a death. A lost create response leaves a node that nobody owns until the session ends (no protection).
Any other request that hits a lost connection ends the acquire, and the session is ended as well.
Timed out or cancelled: deletes its own node and writes nothing. Numbers past 2^31 wrap, here as on the server.

Where it breaks: all releases write the lock's node, which must not be used for anything else; everybody who
queues must follow this protocol, because a client that deletes its node without writing costs the next one a list.
Its own node is not read again: if it is deleted by hand while waiting, that goes unnoticed until the release, and
the one behind may then get in alongside it. A holder is not told that its session has expired.",
        guarantees: Guarantees::QUEUE,
        params: &[],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
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

/// What the lock's node said.
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
        // When the own node is gone already, nothing is written.
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
        let mut before = node.number_at(-1);
        let (data, _) = announced?;
        let first_of_all = node.sequence == 0 && data.is_empty();
        if first_of_all || number_in(&data) == Some(before) {
            return Ok(());
        }
        let mut path = format!("{}/n-{before:010}", self.lock);
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
    fn data_that_is_no_number_announces_nobody() {
        assert_eq!(number_in(b"41"), Some(41));
        assert_eq!(number_in(b"-2147483648"), Some(i64::from(i32::MIN)));
        assert_eq!(number_in(b""), None);
        assert_eq!(number_in(b"127.0.0.1"), None);
        assert_eq!(number_in(&[0xff]), None);
    }
}
