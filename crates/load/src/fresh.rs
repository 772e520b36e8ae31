//! Fresh locks, one for each acquisition: their paths, their missing directories, and the nodes that they leave.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zookeeper_client::{Error as ClientError, Stat};

use super::shared::Shared;
use super::workspace::{AT_ONCE, open};
use zklockbench_core::catalog::after::{Event, Outcome, Set};
use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_locks::{Acquired, Patience, Strategy};
use zklockbench_zk::{CaughtUp, NodeKind, Session, Target};

/// Prefix of the last component of a fresh lock's path.
const FRESH: &str = "fresh-";

/// The fresh locks of a contender.
#[derive(Debug, Default)]
pub struct FreshLocks {
    count: u64,
    /// Path of the present lock, if the contender must create its directory.
    missing: Option<String>,
}

impl FreshLocks {
    /// A lock object for a path that does not exist.
    pub fn next(&mut self, shared: &Shared, contender: usize) -> Box<dyn Strategy> {
        self.count += 1;
        let directory = shared.lock_states.path(shared.lock_of(contender));
        let path = format!("{directory}/{FRESH}{}", self.count);
        self.missing = needs_directory(shared).then(|| path.clone());
        shared.build_at(contender, path)
    }

    /// Acquires a lock, whose directory may have to be created before.
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

/// Whether the lock needs a directory that its users create.
fn needs_directory(shared: &Shared) -> bool {
    let params = &shared.spec.strategy.params;
    let is_set = |set: &Set| params.get(set.param) == Some(&ParamValue::Word(set.word.to_owned()));
    let after = shared.entry.card.after.iter().rfind(|after| after.with.as_ref().is_none_or(is_set));
    after.is_some_and(|after| matches!(after.outcome(Event::NoDirectory), Outcome::Fails(_)))
}

/// Owner of a container node, as some servers show it; others show none.
const CONTAINER: i64 = i64::MIN;

/// Counts the nodes below the trial's locks; `None` if the ensemble does not answer.
pub async fn nodes_left(shared: &Shared, target: &Target) -> Option<u64> {
    let client = open(target).await.ok()?;
    let now = CaughtUp::with(&client).await.ok()?;
    let locks = (0..shared.spec.locks).map(|lock| shared.lock_states.path(lock));
    let (mut left, mut level) = (0, below(now, locks.collect()).await.ok()?);
    while !level.is_empty() {
        let kinds = stream::iter(&level).map(|path| now.stat(path)).buffer_unordered(AT_ONCE);
        let stats: Vec<Option<Stat>> = kinds.try_collect().await.ok()?;
        let stays = |stat: &&Stat| matches!(stat.ephemeral_owner, 0 | CONTAINER);
        left += stats.iter().flatten().filter(stays).count() as u64;
        level = below(now, level).await.ok()?;
    }
    Some(left)
}

/// Paths of the children of these nodes, as far as they exist.
async fn below(now: CaughtUp<'_>, paths: Vec<String>) -> Result<Vec<String>, ClientError> {
    let children = async |path: String| match now.children(&path).await {
        Err(ClientError::NoNode) => Ok(Vec::new()),
        listed => Ok(listed?.into_iter().map(|child| format!("{path}/{child}")).collect()),
    };
    stream::iter(paths).map(children).buffer_unordered(AT_ONCE).try_concat().await
}
