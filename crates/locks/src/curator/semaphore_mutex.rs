//! `curator-semaphore-mutex`: Apache Curator's InterProcessSemaphoreMutex.

use super::semaphore::{AFTER, CuratorSemaphore, GUARANTEES};
use crate::prelude::*;
use crate::queue::retry;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-semaphore-mutex",
        summary: "Curator's InterProcessSemaphoreMutex: a curator-semaphore of one lease, not reentrant",
        source: "Apache Curator, InterProcessSemaphoreMutex",
        details: include_str!("semaphore_mutex.md").trim_ascii_end(),
        guarantees: Guarantees { holders: Holders::One, ..GUARANTEES },
        after: &[AFTER],
        params: &retry::PARAMS,
        batch_cost: Some(|_, n| cost::semaphore(1, n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(CuratorSemaphore::new(config, 1, 1)),
};
