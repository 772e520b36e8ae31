//! `local-then-remote`: a lock within the process first, and the ZooKeeper lock behind it.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OwnedMutexGuard;

use super::curator_mutex::CuratorMutex;
use super::in_process::InProcess;
use super::retry::{self, Retry};
use super::{Acquired, Entry, Held, LockConfig, Patience, Strategy, count_of};
use crate::words::catalog::{
    BatchCost, Events, Guarantees, LockCard, Mode, Param, ParamKind, Params, Protection, joined,
};
use crate::words::measure::RequestKind::{Create, Delete, GetChildren, GetDataWatch};
use crate::world::zk::{Failure, Session};

const TASKS: u64 = 4;

const TASKS_PER_PROCESS: Param = Param {
    name: "tasks_per_process",
    kind: ParamKind::Count(1, 100_000),
    default: "4",
    doc: "How many contenders share one local lock.",
};

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "local-then-remote",
        summary: "an in-process lock in front of a Curator-style queue, so that a process queues one node",
        source: "lock requirements article: reentrancy and protection, the text (its code as printed does not exclude)",
        details: "\
Acquire: held already by this owner -> count up. Else wait for the process's own lock, in the order of asking; then
as curator-mutex: create ephemeral sequential `_c_<uuid>-lock-`, getChildren, getData with a watch on the one before.
Release: count down; at 0 delete the node, then release the local lock.

`tasks_per_process` contenders count as tasks of one process; here each still has its own session.

Requests: 3 uncontended, 5 contended. Fan-out of a release: 1. Order: first in, first out among processes, and among
the tasks of one; a process with few tasks is served as often as one with many.
Timed out or cancelled: while it waits locally it has no node; later as curator-mutex.
A lost connection: as curator-mutex. Crash: the session's end frees the place; the local lock ends with its task.

Exclusion: that of curator-mutex, whose steps it takes unchanged; the local lock only decides who takes them.
Progress: the local lock is released whether or not the delete succeeded, and when its task ends.

What it saves: a list names one node for each process, not for each task. What it does not: every acquisition still
pays for a handoff over ZooKeeper, even between two tasks of one process.
Where it breaks: as curator-mutex. The article's code as printed sorts by part of the uuid, so it excludes nobody.",
        guarantees: Guarantees { reentrant: true, protection: Protection::Unsynced, ..Guarantees::QUEUE },
        params: &joined::<1, 5, 6>([TASKS_PER_PROCESS], retry::PARAMS),
        batch_cost: Some(batch_cost),
    },
    build: |config: &LockConfig| {
        let tasks = usize::try_from(config.count("tasks_per_process", TASKS)).unwrap_or(usize::MAX);
        Box::new(LocalThenRemote {
            local: LOCAL.of(&config.path, config.contender / tasks.max(1)),
            remote: CuratorMutex::new(config.path.clone(), Retry::of(config)),
            held: None,
        })
    },
};

/// Processes take turns, because each queues one node and queues the next when that one is released.
fn batch_cost(params: &Params, n: u64) -> BatchCost {
    let tasks = count_of(params, "tasks_per_process", TASKS).max(1);
    let contended = contended(n, tasks);
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildren, n + contended), (GetDataWatch, contended)],
        events: Events { node_deleted: contended, ..Events::default() },
        to_waiters_by_release: contended,
        ..BatchCost::default()
    }
}

/// How many of the acquisitions find another before them in the queue.
fn contended(n: u64, tasks: u64) -> u64 {
    let mut left: Vec<u64> = (0..n.div_ceil(tasks)).map(|process| tasks.min(n - process * tasks)).collect();
    let mut queue: std::collections::VecDeque<usize> = (0..left.len()).collect();
    // All but the very first arrive behind another.
    let mut contended = queue.len().saturating_sub(1) as u64;
    while let Some(process) = queue.pop_front() {
        left[process] -= 1;
        if left[process] > 0 {
            contended += u64::from(!queue.is_empty());
            queue.push_back(process);
        }
    }
    contended
}

type Local = tokio::sync::Mutex<()>;

static LOCAL: InProcess<Local> = InProcess::new();

struct LocalThenRemote {
    local: Arc<Local>,
    remote: CuratorMutex,
    /// The local lock, for as long as the owner holds the remote one.
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
        // The remote lock first: the next task of this process then finds its place free.
        if !self.remote.is_owned() {
            self.held = None;
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_alone_never_waits_for_another() {
        assert_eq!(contended(4, 4), 0);
        assert_eq!(contended(1, 4), 0);
    }

    #[test]
    fn equal_processes_are_always_behind_each_other() {
        assert_eq!(contended(8, 4), 7);
        assert_eq!(contended(50, 4), 49);
    }

    #[test]
    fn a_process_with_tasks_left_over_ends_up_alone() {
        // 4 and 1: the second process is served once, and the first goes on by itself.
        assert_eq!(contended(5, 4), 2);
    }
}
