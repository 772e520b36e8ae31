//! `curator-semaphore-mutex`: Apache Curator's InterProcessSemaphoreMutex.

use super::semaphore::{CuratorSemaphore, GUARANTEES};
use crate::lock::queue::retry;
use crate::lock::{Entry, LockConfig, cost};
use crate::words::catalog::{Guarantees, Holders, LockCard};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-semaphore-mutex",
        summary: "Curator's InterProcessSemaphoreMutex: a curator-semaphore of one lease, not reentrant",
        source: "Apache Curator, InterProcessSemaphoreMutex",
        details: "\
Acquire, release and lost connections: as curator-semaphore with one lease, taken under a curator-mutex on `locks`.
A second acquire by the same owner waits like anybody else's.

Requests: 7 uncontended, 10 contended, 4 of them writes; an acquire returns when the delete of the inner node
is answered. A contended handoff takes three round trips and two commits, against two and one with curator-mutex.
Fan-out of a release: 1 on `leases`, and then 1 on `locks`; plus one useless notification per acquisition, because
the watch on `leases` stays armed. Order: first in, first out.
Timed out: deletes its lease and its node under `locks`. Crash: the session's end frees the lease.

Exclusion and progress: as curator-semaphore, with one lease.
Where it breaks: in the same places as curator-semaphore. A holder that takes it again waits for itself.",
        guarantees: Guarantees { holders: Holders::One, ..GUARANTEES },
        params: &retry::PARAMS,
        system: LockCard::ZOOKEEPER,
        batch_cost: Some(|_, n| cost::semaphore(1, n)),
    },
    build: |config: &LockConfig| Box::new(CuratorSemaphore::new(config, 1, 1)),
};
