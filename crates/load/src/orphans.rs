//! Nodes left behind by a trial's sessions, in the locks' directories (where they block contenders) or elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use zookeeper_client::{Client, Error as ClientError, Stat};

use super::lock_states::WITNESS;
use super::shared::Shared;
use super::workspace::walk;
use zklockbench_core::clock;
use zklockbench_record::Trial;
use zklockbench_zk::{CaughtUp, sequence_of, session_of};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of locks searched after a trial without faults.
const LOCKS: usize = 1_000;
/// Maximum number of locks whose parent directory is listed. A longer list would exceed the servers' packet limit.
const LOCKS_LISTED: usize = 20_000;

/// Nodes left after all contenders have released.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    pub count: u64,
    /// Number of ephemeral nodes in the locks' directories.
    pub in_queues: u64,
    /// Number of ephemeral nodes found, which may still disappear with their sessions.
    ephemeral: u64,
    /// Paths and sessions of the first few nodes.
    pub named: Vec<String>,
}

impl Orphans {
    fn see(&mut self, path: &str, stat: &Stat) {
        self.ephemeral += u64::from(session_of(stat.ephemeral_owner).is_some());
        if self.named.len() < Trial::ORPHANS_KEPT {
            self.named.push(format!("{path} ({})", owner_name(stat.ephemeral_owner)));
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

/// Names the session of a node's owner, if any.
pub fn owner_name(owner: i64) -> String {
    session_of(owner).map_or_else(|| "persistent".to_owned(), |session| format!("session 0x{session:x}"))
}

/// Children of the run's directory before a trial's load; `None` if they could not be read.
pub type Before = Option<BTreeSet<String>>;

pub async fn before(client: &Client, run: &str) -> Before {
    let now = CaughtUp::with(client).await.ok()?;
    Some(now.children(run).await.ok()?.into_iter().collect())
}

/// Finds nodes left after all contenders have released. Returns `None` if the ensemble did not answer.
/// Abandoned nodes disappear with their sessions, so the search is repeated until no ephemeral node is left
/// or every abandoned session must have ended.
pub async fn find(shared: &Shared, client: &Client, run: &str, before: &Before) -> Option<Orphans> {
    let until = clock::now() + clock::micros(shared.settling().orphans);
    loop {
        let now = CaughtUp::with(client).await.ok()?;
        let left = in_locks(now, shared).await.ok()?;
        let left = left.and(beside_locks(now, shared).await.ok()?);
        let left = left.and(beside_trial(now, run, before).await.ok()?);
        if left.ephemeral == 0 || clock::now() > until {
            return Some(left);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Finds ephemeral and numbered nodes in the locks' directories. Other nodes are the locks' own directories.
async fn in_locks(now: CaughtUp<'_>, shared: &Shared) -> Result<Orphans, ClientError> {
    let most = if shared.has_faults() { usize::MAX } else { LOCKS };
    let locks = shared.lock_states.used().take(most).map(|lock_state| lock_state.path.clone()).collect();
    let mut left = Orphans::default();
    let find = |path: &str, stat: &Stat, level| {
        let is_ephemeral = session_of(stat.ephemeral_owner).is_some();
        if is_ephemeral || (level > 0 && sequence_of(path).is_some()) {
            left.count += 1;
            left.in_queues += u64::from(is_ephemeral);
            left.see(path, stat);
        }
    };
    walk(now, locks, shared.throttle.as_deref(), find).await?;
    Ok(left)
}

/// Finds nodes in the locks' parent directory that do not belong to a lock.
async fn beside_locks(now: CaughtUp<'_>, shared: &Shared) -> Result<Orphans, ClientError> {
    if shared.lock_states.len() > LOCKS_LISTED {
        return Ok(Orphans::default());
    }
    let root = shared.lock_states.root().trim_end_matches('/');
    let is_own = |name: &String| {
        let is_witness = name.strip_prefix(WITNESS).is_some_and(|lock| lock.parse::<usize>().is_ok());
        is_witness || shared.lock_states.lock_of_node(&format!("{root}/{name}")).is_some()
    };
    let mut names = now.children(root).await?;
    names.retain(|name| !is_own(name));
    named(now, root, &names).await
}

/// Finds nodes in the run's directory that did not exist before the load.
async fn beside_trial(now: CaughtUp<'_>, run: &str, before: &Before) -> Result<Orphans, ClientError> {
    let Some(before) = before else { return Ok(Orphans::default()) };
    let mut names = now.children(run).await?;
    names.retain(|name| !before.contains(name));
    named(now, run, &names).await
}

/// Counts the named children of a directory, and describes the first few.
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
