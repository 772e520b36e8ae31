//! `local-then-remote`: an in-process lock in front of the ZooKeeper lock.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::after::GOES_ON;
use crate::curator::mutex::CuratorMutex;
use crate::in_process::InProcess;
use crate::prelude::*;
use crate::queue::retry::{self};

const TASKS: u64 = 4;

const TASKS_PER_PROCESS: Param = Param {
    name: "tasks_per_process",
    kind: ParamKind::Count(1, 100_000),
    default: "4",
    doc: "Number of contenders that share one local lock.",
};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "local-then-remote",
        summary: "an in-process lock in front of a Curator-style queue, so that a process queues one node",
        source: "lock requirements article (reentrancy, protection): its text; the printed code admits no contender",
        details: include_str!("local_then_remote.md").trim_ascii_end(),
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..Guarantees::QUEUE },
        after: &[GOES_ON],
        params: &joined::<1, 5, 6>([TASKS_PER_PROCESS], retry::PARAMS),
        batch_cost: Some(|params, n| {
            cost::processes_in_turns(n, count_of(params, "tasks_per_process", TASKS).max(1), 1)
        }),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let tasks = usize::try_from(config.count("tasks_per_process", TASKS)).unwrap_or(usize::MAX);
        Box::new(LocalThenRemote {
            local: LOCAL.of(&config.path, config.contender / tasks.max(1)),
            remote: CuratorMutex::new(&config.path, Retry::of(config)),
            held: None,
        })
    },
};

type Local = tokio::sync::Mutex<()>;

static LOCAL: InProcess<Local> = InProcess::new();

struct LocalThenRemote {
    local: Arc<Local>,
    remote: CuratorMutex,
    /// Guard of the local lock while the owner holds the remote one.
    held: Option<OwnedMutexGuard<()>>,
}

#[async_trait(?Send)]
impl Strategy for LocalThenRemote {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let local = match self.held.take() {
            Some(local) => local,
            None => patience.wait(Arc::clone(&self.local).lock_owned()).await?,
        };
        let held = self.remote.acquire(session, mode, patience).await?;
        self.held = Some(local);
        Ok(held)
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let released = self.remote.release(session, held).await;
        // The local lock is released last, so that the process never has two nodes in the queue.
        if !self.remote.is_owned() {
            self.held = None;
        }
        released
    }
}
