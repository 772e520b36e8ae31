//! `count`: most locks are free when they are asked for, and then one request is enough.

use super::baton::{self, Baton};
use super::leaving::RELEASE;
use crate::lock::queue::joining::COUNTING;
use crate::lock::wait::BLOCKING;
use crate::lock::{Entry, LockConfig};
use crate::words::catalog::{Guarantees, LockCard};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "count",
        summary: "a queue lock whose uncontended acquire is one request: the join itself tells who is before",
        source: "this suite",
        details: "\
Acquire: one multi creates ephemeral sequential `n-` and sets the data of the lock's directory to nothing. The reply to
the latter is the directory's stat right after the multi: c children and the transaction z (mzxid), which is also the
czxid of the new node, the fencing token. c = 1 -> held. c = 2 -> getData with a watch on node s - 1, where s is its own
number; it is there -> its NodeDeleted is the lock, and nothing is listed; NoNode -> getChildren, and its own node is
the lowest -> held. Otherwise it waits as `baton` does. The lock's directory is missing -> it and those above are made
as containers, and the multi is sent again.
Among contenders the count saves nothing and makes each transaction longer. After three acquires in a row in which it
was of no use (neither c <= 2, nor at most one node before its own in a first list) it creates instead, as `baton`
does, until it is of use again. May it create nodes but not write to the directory (NoAuth), it creates from then on.
Release: as baton. Let in by c = 1, it knows of nobody behind it and deletes its node. Let in by the deletion of s - 1,
it tries to grant the lock to s + 1 first, and when nobody is there (NoNode) lists and deletes; with
release = \"count\" it soon guesses that, and deletes at once.

Not blocking: c > 1 -> delete and give up: c - 1 is its place, and no list is needed to know it. It counts each time.

Requests: 2 uncontended, of which 1 to get in: one round trip and a commit, where create and list take two round trips
and a commit. With one before it 3 or more (multi, getData, release), otherwise as baton. Not blocking, 2 for nothing.
Handoff and fan-out as baton.
Order: first in, first out.

Exclusion. (1) A server applies one transaction at a time, in the order that the leader gave them, and takes the stat
while it applies this one. Reads do not come in between, and it does not matter which server it is or how far it lags:
c is the number of nodes that are there at z, its own included. (2) Numbers come from a counter of the directory that
the leader raises with every create. So all others that are there at z have lower numbers, and all that come later
have higher ones: c - 1 nodes are before its own at z, and from then on they can only go. (3) c = 1: nobody is before
it at z, and nobody can come to be. Its node is the lowest from z until it is deleted. (4) Whoever held before, by
whatever rule of a queue lock, held while its node was the lowest; at z that node is not there. Whoever holds later must
find its own node the lowest, or be granted the lock by a holder: neither is possible while this node is there.
(5) c = 2: one node p is before its own. A node with the number s - 1 that is still there later was there at z, since
numbers are not given twice, so it is p; when it goes nobody is before its own. (6) Counts are never compared with
anything that was read at another time: a count that is read later includes nodes behind, and proves nothing but c = 1.
Nodes of others in the directory only raise c, which costs a list, not the promise. A holder whose session ends is a
zombie, as with every lock: the token z tells its writes from its successor's.
Progress: c > 1 is an entry into the queue like any other; the watches and grants are those of baton.
A lost reply to the multi: as baton, the acquire ends and the session with it, and the node goes with that.
`curator-mutex` and `ahead` with join = \"count\" have names by which they find it again. Timed out or cancelled: deletes
its node. Numbers past 2^31 wrap, here as on the server; c = 1 means the same there.

Where it breaks: not blocking, it can give up though nobody holds: the node of another try may still be there, and a
stranger's node counts for as long as it is there. Whoever waits for s - 1 does not look at its own node again: if that is deleted by hand, this goes
unnoticed until the release, and the one behind may get in alongside it. The directory's data is overwritten, and whoever has a data watch on the directory is woken at each
such join; the directory has to belong to the lock. `ticket` keeps a number there: the two can't share a queue. Servers
count two writes for each multi. A multi that finds no directory is a proposal of its own. Whoever creates numbered nodes
in the directory by hand, with numbers that the server has not given, breaks (2) and (5). The server has to take the stat
at the transaction: servers of ZooKeeper do; others that speak the protocol need not, so two such multis are tried on
each ensemble before a trial, and the lock is refused where c is not 1 and then 2, or z not the czxid. All of baton's
conditions hold as well.",
        guarantees: Guarantees::QUEUE,
        params: &[COUNTING, RELEASE, BLOCKING],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(|params, n| baton::batch_cost(&COUNTING, params, n)),
    },
    build: |config: &LockConfig| Box::new(Baton::new(&COUNTING, config)),
};
