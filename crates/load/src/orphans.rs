//! Nodes left behind by a trial's sessions: in the locks' directories, where later contenders queue behind them, and
//! beside them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use zookeeper_client::{Error as ClientError, Stat};

use super::lock_state::LockState;
use super::lock_states::WITNESS;
use super::shared::Shared;
use super::workspace::{AT_ONCE, open, walk};
use zklockbench_core::clock;
use zklockbench_record::Trial;
use zklockbench_zk::{CaughtUp, Target, sequence_of, session_of};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of a trial's locks that are searched, unless it had faults.
const LOCKS: usize = 1_000;
/// Maximum number of locks with which their directory is listed: a longer list exceeds the servers' packet limit.
const LOCKS_LISTED: usize = 20_000;

/// Nodes left after all contenders have released.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    pub count: u64,
    /// Number of ephemeral nodes in the locks' directories.
    pub in_queues: u64,
    /// Number of ephemeral nodes that were seen. These may still disappear with their sessions.
    ephemeral: u64,
    /// Paths and sessions of the first nodes.
    pub named: Vec<String>,
}

impl Orphans {
    fn see(&mut self, path: &str, stat: &Stat) {
        let session = session_of(stat.ephemeral_owner);
        self.ephemeral += u64::from(session.is_some());
        if self.named.len() < Trial::ORPHANS_KEPT {
            let of =
                session.map_or_else(|| "persistent".to_owned(), |session| format!("session 0x{session:x}"));
            self.named.push(format!("{path} ({of})"));
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.count += other.count;
        self.in_queues += other.in_queues;
        self.ephemeral += other.ephemeral;
        self.named.extend(other.named);
        self.named.truncate(Trial::ORPHANS_KEPT);
        self
    }
}

/// The nodes beside a trial's locks, before its load.
#[derive(Debug, Default)]
pub struct Before {
    /// Children of the run's directory; `None` if they could not be read.
    beside: Option<BTreeSet<String>>,
}

impl Before {
    pub async fn of(target: &Target, run: &str) -> Self {
        let read = async {
            let client = open(target).await.ok()?;
            let now = CaughtUp::with(&client).await.ok()?;
            now.children(run).await.ok().map(|names| names.into_iter().collect())
        };
        Self { beside: read.await }
    }
}

/// Finds nodes left after all contenders released. Nodes of abandoned sessions disappear with the sessions, so the
/// search is repeated until no ephemeral node is left, or until every abandoned session must have ended. `None` if the
/// ensemble did not answer.
pub async fn find(shared: &Shared, target: &Target, run: &str, before: &Before) -> Option<Orphans> {
    let until = clock::now() + clock::micros(shared.settling().orphans);
    let client = open(target).await.ok()?;
    loop {
        let now = CaughtUp::with(&client).await.ok()?;
        let left = in_locks(now, shared).await.ok()?;
        let left = left.and(beside_locks(now, shared).await.ok()?);
        let left = left.and(beside_trial(now, run, before).await.ok()?);
        if left.ephemeral == 0 || clock::now() > until {
            return Some(left);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Ephemeral nodes in the locks' directories, and numbered persistent ones. Other persistent nodes are the lock's own directories.
async fn in_locks(now: CaughtUp<'_>, shared: &Shared) -> Result<Orphans, ClientError> {
    let most = if shared.has_faults() { usize::MAX } else { LOCKS };
    let below = async |lock_state: &LockState| {
        let mut left = Orphans::default();
        let find = |path: &str, stat: &Stat| {
            let is_ephemeral = session_of(stat.ephemeral_owner).is_some();
            if is_ephemeral || (path != lock_state.path && sequence_of(path).is_some()) {
                left.count += 1;
                left.in_queues += u64::from(is_ephemeral);
                left.see(path, stat);
            }
        };
        walk(now, &lock_state.path, shared.throttle.as_deref(), find).await.map(|()| left)
    };
    let found = stream::iter(shared.lock_states.used().take(most)).map(below).buffer_unordered(AT_ONCE);
    found.try_fold(Orphans::default(), async |sum, left| Ok(sum.and(left))).await
}

/// Nodes in the directory of the locks that do not belong to a lock.
async fn beside_locks(now: CaughtUp<'_>, shared: &Shared) -> Result<Orphans, ClientError> {
    if shared.lock_states.len() > LOCKS_LISTED {
        return Ok(Orphans::default());
    }
    let root = shared.root().trim_end_matches('/');
    let is_own = |name: &String| {
        let is_witness = name.strip_prefix(WITNESS).is_some_and(|lock| lock.parse::<usize>().is_ok());
        is_witness || shared.lock_of_node(&format!("{root}/{name}")).is_some()
    };
    let mut names = now.children(root).await?;
    names.retain(|name| !is_own(name));
    named(now, root, &names).await
}

/// Nodes in the run's directory that were not there before the load.
async fn beside_trial(now: CaughtUp<'_>, run: &str, before: &Before) -> Result<Orphans, ClientError> {
    let Some(before) = &before.beside else { return Ok(Orphans::default()) };
    let mut names = now.children(run).await?;
    names.retain(|name| !before.contains(name));
    named(now, run, &names).await
}

/// Counts these children of a directory, and reads the first ones.
async fn named(now: CaughtUp<'_>, directory: &str, names: &[String]) -> Result<Orphans, ClientError> {
    let mut left = Orphans { count: names.len() as u64, ..Orphans::default() };
    for name in names.iter().take(Trial::ORPHANS_KEPT) {
        let path = format!("{directory}/{name}");
        match now.stat(&path).await? {
            Some(stat) => left.see(&path, &stat),
            None => left.count -= 1,
        }
    }
    Ok(left)
}
