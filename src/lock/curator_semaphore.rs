//! `curator-semaphore`: Apache Curator's InterProcessSemaphoreV2.

use async_trait::async_trait;

use super::any_event::AnyEvent;
use super::curator_mutex::CuratorMutex;
use super::curator_queue::{RETRY, create_protected, leave_for_certain};
use super::wait::Ended;
use super::{AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy, cost, count_of};
use crate::catalog::{BatchCost, Guarantees, Holders, LockCard, Mode, Param, ParamKind, Params};
use crate::zk::{Failure, Session};

/// Description and constructor.
pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-semaphore",
        summary: "Curator's InterProcessSemaphoreV2: as many inside as there are leases, taken under a mutex",
        source: "Apache Curator, InterProcessSemaphoreV2",
        details: "\
Acquire, for each permit: take a curator-mutex on `locks`; create ephemeral sequential `_c_<uuid>-lease-` under
`leases`; getChildren with a watch on `leases`, and again after each event, until there are no more children than
leases; ask whether the watch is still set; delete the mutex's node and wait for the answer. Missing directories
are made as containers. The own lease is missing -> start over with a new one.
Release: delete each lease, retried in the background until it succeeds or the session ends.

The question about the watch is checkWatches in Java, which takes nothing off the server. This client library has
no such request, so `exists` on `leases` stands in for it, and the watch stays armed as it does in Java.

Requests: 7 uncontended, 10 contended, 4 of them writes. Fan-out of a release: the one contender that waits on
`leases`; behind it one that waits on `locks`, when the first has gone on; and one notification for nothing for
each acquisition, of the watch that stays armed. Order: first in, first out.
Timed out: looks once more, then deletes its lease and its node under `locks`, and gives back what it has taken.
Crash: the session's end frees its leases.

Exclusion: a lease is created under the mutex only, and held only after a list, taken after its own create, that
shows no more children than leases. Leases listed later than that can only be those of later holders, which have
counted this one. Progress: the one contender that waits on `leases` is woken by every change there.

Where it breaks: every child of `leases` counts, whoever made it, and nobody notices when processes are set to
different numbers of leases. Who wants several permits keeps those it has while it waits for more: two of these
can wait for each other for ever, unless acquires time out. With one lease it costs twice what a mutex does.",
        guarantees: GUARANTEES,
        params: &[
            Param {
                name: "leases",
                kind: ParamKind::Count(1, 1000),
                default: "1",
                doc: "How many leases there are; as many contenders may be inside.",
            },
            Param {
                name: "permits",
                kind: ParamKind::Count(1, 1000),
                default: "1",
                doc: "How many leases one acquire takes: all or none.",
            },
        ],
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        let (leases, permits) = (config.count("leases", 1), config.count("permits", 1));
        Box::new(CuratorSemaphore::new(&config.path, leases, permits))
    },
};

/// What every semaphore promises, whatever its number of leases.
pub(super) const GUARANTEES: Guarantees =
    Guarantees { protected: true, holders: Holders::Leases("leases"), queue: "/leases", ..Guarantees::QUEUE };

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if count_of(params, "permits", 1) > 1 {
        return BatchCost { open: true, ..BatchCost::default() };
    }
    cost::semaphore(count_of(params, "leases", 1), n)
}

/// One owner's semaphore.
pub(super) struct CuratorSemaphore {
    mutex: CuratorMutex,
    /// The directory of the leases.
    directory: String,
    leases: u64,
    permits: u64,
    taken: Vec<QueueNode>,
    events: AnyEvent,
}

#[async_trait(?Send)]
impl Strategy for CuratorSemaphore {
    async fn acquire(
        &mut self,
        session: &Session,
        _: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        for _ in 0..self.permits {
            match self.take(session, patience).await {
                Ok(lease) => self.taken.push(lease),
                Err(why) => return Err(self.give_up(session, why).await),
            }
        }
        Ok(Held { node: self.taken.first().cloned() })
    }

    async fn release(&mut self, session: &Session, _: Held) -> Result<(), Failure> {
        let mut ended = Ok(());
        for lease in self.taken.drain(..) {
            ended = leave_for_certain(session, lease).await.and(ended);
        }
        ended
    }
}

impl CuratorSemaphore {
    /// A semaphore below that path, of which nothing is held.
    pub(super) fn new(lock: &str, leases: u64, permits: u64) -> Self {
        Self {
            mutex: CuratorMutex::new(format!("{lock}/locks")),
            directory: format!("{lock}/leases"),
            leases,
            permits,
            taken: Vec::new(),
            events: AnyEvent::default(),
        }
    }

    /// Gives back what has been taken.
    async fn give_up(&mut self, session: &Session, mut why: AcquireError) -> AcquireError {
        for lease in self.taken.drain(..) {
            why = lease.give_up(session, why).await;
        }
        why
    }

    /// Takes one lease. An own lease that went while the session lives is taken anew, as the policy allows.
    async fn take(&mut self, session: &Session, patience: &Patience) -> Result<QueueNode, AcquireError> {
        let mut attempt = 0;
        loop {
            let ended = self.take_in_turn(session, patience).await;
            if !matches!(ended, Err(AcquireError::Failed(Failure::OwnNodeMissing))) {
                return ended;
            }
            let Some(pause) = RETRY.pause(attempt) else { return ended };
            patience.sleep(pause).await?;
            attempt += 1;
        }
    }

    /// Takes one lease under the mutex, which goes whatever came of it.
    async fn take_in_turn(
        &mut self,
        session: &Session,
        patience: &Patience,
    ) -> Result<QueueNode, AcquireError> {
        let turn = self.mutex.acquire(session, Mode::Write, patience).await?;
        let taken = self.lease(session, patience).await;
        let left = self.mutex.release(session, turn).await;
        match (taken, left) {
            (Ok(lease), Err(failure)) => Err(lease.give_up(session, failure.into()).await),
            // The mutex's node may still be there: the caller must hear of that first.
            (Err(AcquireError::TimedOut | AcquireError::Cancelled), Err(failure)) => Err(failure.into()),
            (taken, _) => taken,
        }
    }

    async fn lease(&mut self, session: &Session, patience: &Patience) -> Result<QueueNode, AcquireError> {
        let lease = create_protected(session, &self.directory, "lease-").await?;
        match self.wait_for_room(session, &lease, patience).await {
            Ok(()) => Ok(lease),
            Err(why) => Err(lease.give_up(session, why).await),
        }
    }

    async fn wait_for_room(
        &mut self,
        session: &Session,
        lease: &QueueNode,
        patience: &Patience,
    ) -> Result<(), AcquireError> {
        loop {
            let (names, mut watch) = RETRY.around(|| session.get_children_and_watch(&self.directory)).await?;
            lease.standing(&names)?;
            if names.len() as u64 <= self.leases {
                // The watch stays armed. This is what stands in for Java's question whether it is.
                drop(watch);
                RETRY.around(|| session.exists(&self.directory)).await?;
                return Ok(());
            }
            // As in the mutex, the clock is looked at only after the watch is set.
            if patience.is_over() {
                return Err(AcquireError::TimedOut);
            }
            match patience.wait(self.events.on(session, &mut watch)).await {
                Ok(()) | Err(Ended::TimedOut) => {}
                Err(Ended::Cancelled) => return Err(AcquireError::Cancelled),
            }
        }
    }
}
