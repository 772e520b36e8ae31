//! `curator-semaphore`: Apache Curator's InterProcessSemaphoreV2, and the SharedCount that may set its number
//! of leases.

use std::mem::take;

use super::mutex::CuratorMutex;
use super::queue::protected;
use crate::after::{After, DirectoryDeleted, Fails, GOES_ON, NoNode};
use crate::prelude::*;
use crate::queue::directories::{create_unless_there, in_containers};
use crate::queue::protection::leave_for_certain;
use crate::queue::retry::{self};
use crate::wait::AnyEvent;

const COUNT_NODE: &str = "count-node";

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "curator-semaphore",
        summary: "Curator's InterProcessSemaphoreV2: as many holders as leases, which are taken under a \
            mutex",
        source: "Apache Curator, InterProcessSemaphoreV2",
        details: include_str!("semaphore.md").trim_ascii_end(),
        guarantees: GUARANTEES,
        after: &[AFTER],
        params: &joined::<3, 5, 8>(PARAMS, retry::PARAMS),
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let (leases, permits) = (config.count("leases", 1), config.count("permits", 1));
        Box::new(CuratorSemaphore::new(config, leases, permits))
    },
};

pub const AFTER: After = GOES_ON.but([(DirectoryDeleted, Fails(NoNode))]);

pub const LEASES: Param = Param {
    name: "leases",
    kind: ParamKind::Count(1, 1000),
    default: "1",
    doc: "Number of leases, which limits the number of simultaneous holders.",
};

const PARAMS: [Param; 3] = [
    LEASES,
    Param {
        name: "permits",
        kind: ParamKind::CountWithin(1, 1000, "leases"),
        default: "1",
        doc: "Number of leases that one acquire takes: all or none.",
    },
    Param {
        name: "leases_from",
        kind: ParamKind::OneOf(&["each", COUNT_NODE]),
        default: "each",
        doc: "Source of the number of leases: each contender's own parameter, or the node `count`, which \
            the first contender creates with the value of `leases`.",
    },
];

/// Guarantees of all semaphores, with any number of leases.
pub const GUARANTEES: Guarantees = Guarantees {
    protection: Protection::Unsynced,
    holders: Holders::Leases("leases"),
    queue: "/leases",
    ..Guarantees::QUEUE
};

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if count_of(params, "permits", 1) > 1 {
        return BatchCost { open: true, ..BatchCost::default() };
    }
    let mut cost = cost::semaphore(count_of(params, "leases", 1), n);
    if has_word(params, "leases_from", COUNT_NODE) {
        cost.requests.extend([(Create, n), (GetDataWatch, n)]);
        cost.refused.push((Create, n - 1));
    }
    cost
}

pub struct CuratorSemaphore {
    mutex: CuratorMutex,
    retry: Retry,
    directory: String,
    leases: u64,
    /// Node that contains the number of leases, unless each contender has its own number.
    count: Option<SharedCount>,
    permits: u64,
    taken: Vec<QueueNode>,
    events: AnyEvent,
}

#[async_trait(?Send)]
impl Strategy for CuratorSemaphore {
    async fn acquire(&mut self, session: &Session, _: Mode, patience: &Patience) -> Acquired {
        self.count_leases(session).await?;
        for _ in 0..self.permits {
            match self.take(session, patience).await {
                Ok(lease) => self.taken.push(lease),
                Err(why) => return Err(self.give_up(session, why).await),
            }
        }
        Ok(Held::of(self.taken.first().cloned()))
    }

    async fn release(&mut self, session: &Session, _: Held) -> Result<(), Failure> {
        let mut ended = Ok(());
        for lease in self.taken.drain(..) {
            ended = leave_for_certain(session, lease, self.retry).await.and(ended);
        }
        ended
    }
}

impl CuratorSemaphore {
    pub fn new(config: &LockConfig, leases: u64, permits: u64) -> Self {
        let (lock, retry) = (&config.path, Retry::of(config));
        Self {
            mutex: CuratorMutex::new(&format!("{lock}/locks"), retry),
            retry,
            directory: format!("{lock}/leases"),
            leases,
            count: config.is("leases_from", COUNT_NODE).then(|| SharedCount::new(lock, leases, retry)),
            permits,
            taken: Vec::new(),
            events: AnyEvent::default(),
        }
    }

    async fn count_leases(&mut self, session: &Session) -> Result<(), Failure> {
        if let Some(count) = &mut self.count {
            self.leases = count.get(session).await?;
        }
        Ok(())
    }

    async fn give_up(&mut self, session: &Session, mut why: AcquireError) -> AcquireError {
        for lease in self.taken.drain(..) {
            why = why.after(leave_for_certain(session, lease, self.retry)).await;
        }
        why
    }

    /// Takes one lease. If the lease is deleted while the session is alive, tries again, as often as the
    /// policy allows.
    async fn take(&mut self, session: &Session, patience: &Patience) -> Acquired<QueueNode> {
        let mut tries = self.retry.tries();
        loop {
            let ended = self.take_in_turn(session, patience).await;
            if !matches!(ended, Err(AcquireError::Failed(Failure::OwnNodeMissing))) {
                return ended;
            }
            let Some(pause) = tries.next_pause() else { return ended };
            patience.sleep(pause).await?;
        }
    }

    /// Takes one lease under the mutex, which is released either way.
    async fn take_in_turn(&mut self, session: &Session, patience: &Patience) -> Acquired<QueueNode> {
        let turn = self.mutex.acquire(session, Mode::Write, patience).await?;
        let taken = self.lease(session, patience).await;
        let left = self.mutex.release(session, turn).await;
        match (taken, left) {
            (Ok(lease), Err(failure)) => {
                let leaving = leave_for_certain(session, lease, self.retry);
                Err(AcquireError::from(failure).after(leaving).await)
            }
            // The mutex's node may still exist, so the failed release takes precedence.
            (Err(AcquireError::TimedOut | AcquireError::Cancelled), Err(failure)) => Err(failure.into()),
            (taken, _) => taken,
        }
    }

    async fn lease(&mut self, session: &Session, patience: &Patience) -> Acquired<QueueNode> {
        let joining = protected(Joining::by_create(), self.retry);
        let lease = joining.join(session, &self.directory, "lease-").await?.node;
        match self.wait_for_lease(session, &lease, patience).await {
            Ok(()) => Ok(lease),
            Err(why) => {
                let is_missing = matches!(why, AcquireError::Failed(Failure::OwnNodeMissing));
                let why = why.after(leave_for_certain(session, lease, self.retry)).await;
                if is_missing {
                    // Curator ignores the result.
                    let _ = self.retry.around(|| session.check_watches(&self.directory)).await;
                }
                Err(why)
            }
        }
    }

    async fn wait_for_lease(
        &mut self,
        session: &Session,
        lease: &QueueNode,
        patience: &Patience,
    ) -> Acquired<()> {
        let mut is_first_look = true;
        loop {
            self.count_leases(session).await?;
            let (names, mut watch) =
                self.retry.around(|| session.get_children_and_watch(&self.directory)).await?;
            // Java's watcher receives connection events only after its first list.
            if take(&mut is_first_look) {
                self.events.forget(session);
            }
            lease.predecessor(&names)?;
            if names.len() as u64 <= self.leases {
                // As in Java, the watch stays armed.
                drop(watch);
                self.retry.around(|| session.check_watches(&self.directory)).await?;
                return Ok(());
            }
            drop(names);
            // As in the mutex, the clock is read only after the watch is set.
            if patience.tries_once || patience.is_over() {
                return Err(AcquireError::TimedOut);
            }
            let changed = async {
                match &mut self.count {
                    Some(count) => count.changed().await,
                    None => std::future::pending().await,
                }
            };
            let event = async {
                tokio::select! {
                    biased;
                    _ = self.events.or(session, watch.changed()) => {}
                    () = changed => {}
                }
            };
            match patience.wait(event).await {
                Ok(()) | Err(AcquireError::TimedOut) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

/// A number shared by all contenders with the same path.
pub struct SharedCount {
    path: String,
    seed: u64,
    retry: Retry,
    /// The last number read, and the watch that fires when it changes.
    known: Option<(u64, Watch)>,
}

impl SharedCount {
    /// Creates a handle to the number in the node `count` below `lock`. The node is created with `seed`.
    pub fn new(lock: &str, seed: u64, retry: Retry) -> Self {
        Self { path: format!("{lock}/count"), seed, retry, known: None }
    }

    /// Returns the number. The first call creates the node if necessary; later calls read it only after a
    /// change.
    pub async fn get(&mut self, session: &Session) -> Result<u64, Failure> {
        if self.known.is_none() {
            self.start(session).await?;
        }
        if let Some((count, watch)) = &self.known
            && watch.is_armed()
        {
            return Ok(*count);
        }
        let (data, watch) = self.retry.around(|| session.get_data_and_watch(&self.path)).await?;
        let count = u64::from(number(&data).unwrap_or(0));
        self.known = Some((count, watch));
        Ok(count)
    }

    /// Returns when the number has changed since it was read.
    pub async fn changed(&mut self) {
        match &mut self.known {
            Some((_, watch)) if watch.is_armed() => {
                watch.changed().await;
            }
            Some(_) => {}
            None => std::future::pending().await,
        }
    }

    async fn start(&self, session: &Session) -> Result<(), Failure> {
        let (parent, data) = (self.path.rsplit_once('/').map_or("", |(parent, _)| parent), bytes(self.seed));
        let create = || create_unless_there(session, &self.path, &data, NodeKind::Persistent);
        in_containers(session, parent, async || self.retry.around(&create).await).await
    }
}

fn bytes(count: u64) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes()
}

fn number(data: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*data.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_count_is_stored_as_four_big_endian_bytes() {
        assert_eq!(bytes(258), [0, 0, 1, 2]);
        assert_eq!(number(&[0, 0, 1, 2]), Some(258));
        assert_eq!(number(b"3"), None);
    }
}
