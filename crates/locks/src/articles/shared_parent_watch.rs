//! `shared-parent-watch`: readers share the lock; every waiter watches the whole queue.

use super::shared_predecessor_watch::SharedWatch;
use crate::after::ENDS;
use crate::prelude::*;
use crate::queue::sides::READ_WRITE;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "shared-parent-watch",
        summary: "readers together or one writer; every waiter watches the parent's children",
        source: "shared and exclusive lock article, first version",
        details: include_str!("shared_parent_watch.md").trim_ascii_end(),
        guarantees: READ_WRITE,
        after: &[ENDS],
        // In a batch, all contenders write, so the lock costs as much as the exclusive lock.
        batch_cost: Some(|_, n| cost::parent_queue(n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(SharedWatch::new(Watches::Children, config)),
};
