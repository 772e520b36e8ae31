//! Reads lock directories and their counters.

use std::time::Duration;

use zookeeper_client::Error as ClientError;

use super::connect::Target;
use super::{CaughtUp, Failure, counter, sequence_of, session_of};

const SESSION: Duration = Duration::from_secs(20);
const OPEN_WITHIN: Duration = Duration::from_secs(15);

/// Returns a directory and its subdirectories, each with the number of its next sequential child. Empty if
/// the directory is missing.
pub async fn directories(now: CaughtUp<'_>, root: &str) -> Result<Vec<(String, i64)>, ClientError> {
    let Some(stat) = now.stat(root).await? else { return Ok(Vec::new()) };
    let mut found = vec![(root.to_owned(), counter::next_number(stat.cversion, stat.num_children))];
    if stat.num_children == 0 {
        return Ok(found);
    }
    for name in now.children(root).await?.into_iter().filter(|name| sequence_of(name).is_none()) {
        let path = format!("{}/{name}", root.trim_end_matches('/'));
        if let Some(stat) = now.stat(&path).await?.filter(|stat| session_of(stat.ephemeral_owner).is_none()) {
            found.push((path, counter::next_number(stat.cversion, stat.num_children)));
        }
    }
    Ok(found)
}

impl Target {
    /// Like [`directories`], but for several roots and in a separate session.
    pub async fn directories(&self, roots: &[String]) -> Result<Vec<(String, i64)>, Failure> {
        let opened = tokio::time::timeout(OPEN_WITHIN, self.client(SESSION)).await;
        let client = opened.map_err(|_| Failure::NoReply)??;
        let (now, mut found) = (CaughtUp::with(&client).await?, Vec::new());
        for root in roots {
            found.extend(directories(now, root).await?);
        }
        Ok(found)
    }
}
