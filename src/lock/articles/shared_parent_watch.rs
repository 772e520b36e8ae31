//! `shared-parent-watch`: readers together; every waiter watches the whole queue.

use super::shared_predecessor_watch::SharedWatch;
use crate::lock::queue::Watches;
use crate::lock::queue::sides::READ_WRITE;
use crate::lock::{Entry, LockConfig, cost};
use crate::words::catalog::{BatchCost, LockCard, Params};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "shared-parent-watch",
        summary: "readers together or one writer; every waiter watches the parent's children",
        source: "shared and exclusive lock article, first version",
        details: "\
Acquire: create ephemeral sequential `R-` or `W-` (the article puts the host's name before that); getChildren
with a watch on the parent; a reader with no writer before it, a writer with nobody before it -> held;
NodeChildrenChanged -> getChildren with a watch again.
Release: delete.

Requests: 3 uncontended, 3 + one for every change while queued. Order: first in, first out, with readers that
stand together let in together.
Fan-out: every release and every arrival wakes all waiters and every holder whose last watch is still armed,
although at most the readers up to the next writer can go in.
Timed out or cancelled: deletes its own node. Crash: the session's end frees the place.
A lost connection ends the acquire or release whose request it hits; the caller then ends the session, and its node
goes with it.

Exclusion: a reader enters only after a list on its own session without a writer before it, a writer only after one
without anybody before it; nodes before it can only go, never come. Progress: every change of the queue leads to a
new look.

Where it breaks: the herd, as with parent-watch; with readers even at releases that let nobody in.",
        guarantees: READ_WRITE,
        params: &[],
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| Box::new(SharedWatch::new(Watches::Children, config)),
};

/// Of a batch in which all ask to write: then it is the exclusive lock's.
fn batch_cost(_: &Params, n: u64) -> BatchCost {
    cost::parent_queue(n)
}
