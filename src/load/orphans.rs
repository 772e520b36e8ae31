//! Nodes that nobody owns up to when all have released: a later contender would queue behind them.

use std::time::Duration;

use zookeeper_client::Stat;

use super::leftovers::walk;
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
            let count = |stat: &Stat| left += u64::from(stat.ephemeral_owner != 0);
            walk(&client, &scene.path, count).await.ok()?;
        }
        if left == 0 || clock::now() > until {
            return Some(left);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
