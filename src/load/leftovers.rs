//! What runs that were killed left on an ensemble.

use std::time::{Duration, SystemTime};

use zookeeper_client::{Client, Error as ClientError, Stat};

use super::workspace::{TOP, open, refused, remove_run};
use crate::error::Error;
use crate::zk::Target;

/// A run whose newest node is younger than this may be between two trials.
const QUIET: Duration = Duration::from_secs(600);

/// The nodes of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The run's name.
    pub run_id: String,
    /// How many nodes there are, the run's root included.
    pub nodes: usize,
    /// Ephemeral ones among them: somebody's session is alive.
    pub ephemeral: usize,
    /// When the newest was made, by the servers' clock.
    pub newest: SystemTime,
}

impl Leftover {
    /// Whether the run may still be under way: a session of it lives, or it made a node in the last 10
    /// minutes.
    #[must_use]
    pub fn may_be_alive(&self, now: SystemTime) -> bool {
        self.ephemeral > 0 || now.duration_since(self.newest).is_ok_and(|age| age < QUIET)
    }
}

/// Every run that has nodes on the ensemble.
///
/// # Errors
/// When the ensemble can't be reached or refuses.
pub async fn leftovers(target: &Target) -> Result<Vec<Leftover>, Error> {
    let client = open(target).await?;
    let runs = match client.list_children(TOP).await {
        Err(ClientError::NoNode) => Vec::new(),
        other => other.map_err(|error| refused(target, "list", TOP, error))?,
    };
    let mut found = Vec::new();
    for run_id in runs {
        let root = format!("{TOP}/{run_id}");
        let leftover =
            survey(&client, run_id).await.map_err(|error| refused(target, "list", &root, error))?;
        found.extend(leftover);
    }
    Ok(found)
}

/// Removes one run's nodes.
///
/// # Errors
/// When the ensemble can't be reached or refuses.
pub async fn remove(target: &Target, run_id: &str) -> Result<(), Error> {
    remove_run(target, &format!("{TOP}/{run_id}")).await
}

async fn survey(client: &Client, run_id: String) -> Result<Option<Leftover>, ClientError> {
    let root = format!("{TOP}/{run_id}");
    let mut found = Leftover { run_id, nodes: 0, ephemeral: 0, newest: SystemTime::UNIX_EPOCH };
    walk(client, &root, |stat| {
        found.nodes += 1;
        found.ephemeral += usize::from(stat.ephemeral_owner != 0);
        let made = Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0));
        found.newest = found.newest.max(SystemTime::UNIX_EPOCH + made);
    })
    .await?;
    Ok((found.nodes > 0).then_some(found))
}

/// Looks at a node and at all below it, as far as they are there.
pub(super) async fn walk(
    client: &Client,
    root: &str,
    mut each: impl FnMut(&Stat),
) -> Result<(), ClientError> {
    let mut stack = vec![root.to_owned()];
    while let Some(path) = stack.pop() {
        let Some(stat) = client.check_stat(&path).await? else { continue };
        each(&stat);
        if stat.num_children > 0 {
            let children = match client.list_children(&path).await {
                Err(ClientError::NoNode) => Vec::new(),
                listed => listed?,
            };
            stack.extend(children.into_iter().map(|child| format!("{path}/{child}")));
        }
    }
    Ok(())
}
