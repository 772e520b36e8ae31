//! Nodes that nobody owns up to when all have released: a later contender would queue behind them.

use std::time::Duration;

use zookeeper_client::{Client, Error as ClientError};

use super::shared::Shared;
use super::workspace::open;
use crate::clock;
use crate::zk::Target;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts the ephemeral nodes that are left below the trial's locks. Nodes of sessions that have been abandoned go
/// with them, so it is asked until there are none, or until every such session must have ended. `None` when the
/// ensemble could not be asked.
pub async fn count(shared: &Shared, target: &Target) -> Option<u64> {
    let until = clock::now() + clock::micros(2 * shared.spec.session_timeout + Duration::from_secs(3));
    let client = open(target).await.ok()?;
    loop {
        let mut left = 0;
        for scene in &shared.scenes {
            left += ephemeral_below(&client, &scene.path).await.ok()?;
        }
        if left == 0 || clock::now() > until {
            return Some(left);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn ephemeral_below(client: &Client, root: &str) -> Result<u64, ClientError> {
    let mut stack = vec![root.to_owned()];
    let mut found = 0;
    while let Some(path) = stack.pop() {
        let Some(stat) = client.check_stat(&path).await? else { continue };
        found += u64::from(stat.ephemeral_owner != 0);
        if stat.num_children > 0 {
            let children = match client.list_children(&path).await {
                Err(ClientError::NoNode) => Vec::new(),
                listed => listed?,
            };
            stack.extend(children.into_iter().map(|child| format!("{path}/{child}")));
        }
    }
    Ok(found)
}
