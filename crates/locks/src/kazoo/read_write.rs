//! `kazoo-read-write`: the ReadLock and WriteLock from Python's kazoo.

use super::lock::{AFTER, Kazoo, OWN_PATTERN, batch_cost};
use crate::prelude::*;
use crate::queue::sides::READ_WRITE;

/// Pattern before the number in readers' names; writers use the pattern of kazoo's plain lock.
const READ_PATTERN: &str = "__rlock__";

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "kazoo-read-write",
        summary: "kazoo's ReadLock and WriteLock: each waiter watches the last node ahead that blocks it; each owner \
            has one name for reads and one for writes",
        source: "kazoo, ReadLock and WriteLock as of version 2.9",
        details: include_str!("read_write.md").trim_ascii_end(),
        guarantees: Guarantees { protection: Protection::Unsynced, ..READ_WRITE },
        after: &[AFTER],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(KazooReadWrite::on(&config.path)),
};

struct KazooReadWrite {
    reader: Kazoo,
    writer: Kazoo,
}

#[async_trait(?Send)]
impl Strategy for KazooReadWrite {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let side = match mode {
            Mode::Read => &mut self.reader,
            Mode::Write => &mut self.writer,
        };
        side.acquire(session, mode, patience).await
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let reads = held.node.as_ref().is_some_and(|node| node.name().starts_with(&self.reader.prefix));
        if reads { &mut self.reader } else { &mut self.writer }.release(session, held).await
    }
}

impl KazooReadWrite {
    fn on(lock: &str) -> Self {
        Self {
            reader: Kazoo::new(lock, READ_PATTERN, &[OWN_PATTERN]),
            writer: Kazoo::new(lock, OWN_PATTERN, &[OWN_PATTERN, READ_PATTERN]),
        }
    }
}
