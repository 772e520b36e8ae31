//! Fresh locks, one for each acquisition: their paths and directories, and the nodes that they leave behind.

use zookeeper_client::{Client, Stat};

use super::shared::Shared;
use super::workspace::walk;
use zklockbench_core::catalog::after::{Event, Outcome, Set};
use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_locks::{Acquired, Patience, Strategy};
use zklockbench_zk::{CaughtUp, NodeKind, Session, session_of};

/// Prefix of the last component of a fresh lock's path.
const FRESH: &str = "fresh-";

#[derive(Debug)]
pub struct FreshLocks {
    count: u64,
    /// Whether the contender must create each lock's directory.
    needs_directory: bool,
    /// Path of the current lock, if the contender must create its directory.
    missing: Option<String>,
}

impl FreshLocks {
    pub fn of(shared: &Shared) -> Self {
        Self { count: 0, needs_directory: needs_directory(shared), missing: None }
    }

    /// Creates a lock object for a new path.
    pub fn next(&mut self, shared: &Shared, contender: usize) -> Box<dyn Strategy> {
        self.count += 1;
        let directory = shared.lock_states.path(shared.lock_of(contender));
        let path = format!("{directory}/{FRESH}{}", self.count);
        self.missing = self.needs_directory.then(|| path.clone());
        shared.build_at(contender, path)
    }

    /// Acquires the current lock, after creating its directory if necessary.
    pub async fn acquire(
        &self,
        strategy: &mut dyn Strategy,
        session: &Session,
        mode: Mode,
        patience: &Patience,
    ) -> Acquired {
        if let Some(path) = &self.missing {
            Box::pin(session.create(path, &[], NodeKind::Persistent)).await?;
        }
        strategy.acquire(session, mode, patience).await
    }
}

/// Returns whether the lock's users must create its directory.
fn needs_directory(shared: &Shared) -> bool {
    let params = &shared.spec.strategy.params;
    let is_set = |set: &Set| params.get(set.param) == Some(&ParamValue::Word(set.word.to_owned()));
    let after = shared.entry.card.after.iter().rfind(|after| after.with.as_ref().is_none_or(is_set));
    after.is_some_and(|after| matches!(after.outcome(Event::NoDirectory), Outcome::Fails(_)))
}

/// Counts the persistent nodes below the trial's locks; `None` if the ensemble does not answer.
pub async fn nodes_left(shared: &Shared, client: &Client) -> Option<u64> {
    let now = CaughtUp::with(client).await.ok()?;
    let locks = (0..shared.spec.locks).map(|lock| shared.lock_states.path(lock)).collect();
    let mut left = 0;
    let count = |_: &str, stat: &Stat, level| {
        left += u64::from(level > 0 && session_of(stat.ephemeral_owner).is_none());
    };
    walk(now, locks, shared.throttle.as_deref(), count).await.ok()?;
    Some(left)
}
