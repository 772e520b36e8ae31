//! `count-semaphore`: as many inside as there are leases, each let in by one write while there is room.

use super::ahead::{Ahead, joining};
use crate::lock::queue::joining::{COUNTING, Joining, is_count};
use crate::lock::queue::retry::Retry;
use crate::lock::queue::{Habits, Queue};
use crate::lock::{Entry, LockConfig, cost, count_of};
use crate::words::catalog::{BatchCost, Guarantees, Holders, LockCard, Param, ParamKind, Params, Protection};

const LEASES: Param = Param {
    name: "leases",
    kind: ParamKind::Count(1, 1000),
    default: "1",
    doc: "How many leases there are, and so how many contenders may be inside.",
};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "count-semaphore",
        summary: "a semaphore whose leases are the lowest nodes of a queue: one request while there is room",
        source: "this suite",
        details: "\
Acquire: one multi creates ephemeral sequential `_c_<uuid>-lease-` and sets the data of the directory to nothing, as
`count` does; c is the number of children at that transaction. c <= leases -> inside. Else getChildren; fewer than
`leases` nodes are before its own -> inside; else, in one flush, getData with a watch on each of the `leases` nodes just
before its own; one of them is gone (NoNode) or goes -> getChildren again. Watches that are set stay. Missing
directories are made as containers. After three acquires in a row in which the count was of no use, or when the
directory can't be written to, it creates and lists in one flush instead, as with join = \"create\".
Release: delete, retried as Curator does.

Requests: 2 while there is room, of which 1 is needed to get in and 2 are transactions: curator-semaphore takes 7, 4 of
them transactions. Behind others 4 + leases, at a release of the right one. Fan-out of a release: at most `leases`, one of
whom goes in. Order: first in, first out, except that two for whom there is room at the same time may go in in either
order.

Exclusion: c - 1 nodes are before its own at the transaction that creates it (`count` says why), a list shows how many of
them are left, and they can only become fewer. Whoever is inside had fewer than `leases` nodes before its own when it went
in, and so has fewer ever since. If one more than `leases` were inside, the one with the highest number would have as
many as `leases` before its own. So whoever is inside is among the `leases` lowest nodes.
Progress: whoever waits has watches on `leases` nodes before its own that were there when they were set. While all of
these are there, there is no room for it; when one goes, it looks. So it looks at the latest when there is room, and is
not woken by others that go.
Lost reply to the join: as ahead. Any other request that hits a lost connection is sent again. Timed out or cancelled: deletes its own node. Crash: the session's end frees the
lease. Its own node is gone while it waits -> the acquire fails.

Where it breaks: each waiter has as many watches as there are leases, so it is for a few leases, not for hundreds. Every
child of the directory counts in c, and those with numbers in lists, no matter who made them; it can't share a queue with
curator-semaphore. Nobody notices if processes are configured with different numbers of leases. What `count` says of the
directory's data and of servers holds here, too.",
        guarantees: Guarantees {
            protection: Protection::Complete,
            holders: Holders::Leases("leases"),
            ..Guarantees::QUEUE
        },
        params: &[LEASES, COUNTING],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        let room = usize::try_from(leases(&config.params)).unwrap_or(usize::MAX);
        let habits = Habits { keeps_watches: true, room, ..Habits::patient(Retry::USUAL) };
        let joining = Joining { lists_along: true, helped_up_to: room, ..joining(&COUNTING, config) };
        Box::new(Ahead { queue: Queue::new(&config.path, habits, joining), kind: "lease-", watched: room })
    },
};

fn leases(params: &Params) -> u64 {
    count_of(params, LEASES.name, 1)
}

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if is_count(&COUNTING, params) {
        return cost::counted_semaphore(leases(params), n);
    }
    cost::queue_semaphore(leases(params), n)
}
