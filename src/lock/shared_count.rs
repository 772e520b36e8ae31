//! Curator's SharedCount, as far as a semaphore needs it: a number on a node, followed by a data watch.

use super::ancestors::{create_unless_there, make_containers};
use super::retry::Retry;
use crate::zk::{Failure, NodeKind, Session, Watch};

/// A number that all who share a path agree on.
pub struct SharedCount {
    path: String,
    /// What it is when nobody has made it yet.
    seed: u64,
    retry: Retry,
    known: Option<Known>,
}

/// What was read last, and the watch that was set with it.
struct Known {
    count: u64,
    watch: Watch,
}

impl SharedCount {
    /// The number on the node `count` below that path, begun with a seed.
    #[must_use]
    pub fn new(lock: &str, seed: u64, retry: Retry) -> Self {
        Self { path: format!("{lock}/count"), seed, retry, known: None }
    }

    /// The number. The first time the node is made unless it is there; read again only after a change.
    ///
    /// # Errors
    /// A request's failure.
    pub async fn get(&mut self, session: &Session) -> Result<u64, Failure> {
        if self.known.is_none() {
            self.start(session).await?;
        }
        if let Some(Known { count, watch }) = &self.known
            && watch.is_armed()
        {
            return Ok(*count);
        }
        let (data, watch) = self.retry.around(|| session.get_data_and_watch(&self.path)).await?;
        let count = u64::from(number(&data).unwrap_or(0));
        self.known = Some(Known { count, watch });
        Ok(count)
    }

    /// Returns when the number has changed since it was read.
    pub async fn changed(&mut self) {
        match &mut self.known {
            Some(Known { watch, .. }) if watch.is_armed() => {
                watch.changed().await;
            }
            Some(_) => {}
            None => std::future::pending().await,
        }
    }

    async fn start(&self, session: &Session) -> Result<(), Failure> {
        match self.create(session).await {
            Err(Failure::NoNode) => {
                if let Some((parent, _)) = self.path.rsplit_once('/') {
                    make_containers(session, parent).await?;
                }
                self.create(session).await
            }
            ended => ended,
        }
    }

    async fn create(&self, session: &Session) -> Result<(), Failure> {
        let data = bytes(self.seed);
        self.retry.around(|| create_unless_there(session, &self.path, &data, NodeKind::Persistent)).await
    }
}

/// As Java writes an int.
fn bytes(count: u64) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes()
}

fn number(data: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*data.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_four_bytes_the_highest_first() {
        assert_eq!(bytes(258), [0, 0, 1, 2]);
        assert_eq!(number(&[0, 0, 1, 2]), Some(258));
        assert_eq!(number(b"3"), None);
    }
}
