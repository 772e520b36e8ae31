//! Up-to-date reads for checks of the tree. A server may return stale data unless it first catches up.
//!
//! A `sync` is not enough: the leader answers its own clients' syncs at once, possibly before it has applied
//! a transaction that its followers have already committed. A rejected write is ordered like any other
//! transaction, so its reply follows all earlier commits.

use std::time::Duration;

use zookeeper_client::{Client, Error as ClientError, Stat};

use super::{Failure, Session, runtime};

/// Timeout for a session's server to catch up.
const CATCHES_UP: Duration = Duration::from_secs(10);

/// Reads from a server that has caught up. All checks read nodes through this type.
#[derive(Debug, Clone, Copy)]
pub struct CaughtUp<'a>(&'a Client);

impl<'a> CaughtUp<'a> {
    /// Waits until the client's server has applied everything committed before this call.
    pub async fn with(client: &'a Client) -> Result<Self, ClientError> {
        // No node has this version, so the server rejects the write.
        match client.set_data("/", &[], Some(i32::MAX)).await {
            Ok(_) | Err(ClientError::BadVersion | ClientError::NoAuth | ClientError::NoNode) => {
                Ok(Self(client))
            }
            Err(error) => Err(error),
        }
    }

    pub async fn children(&self, path: &str) -> Result<Vec<String>, ClientError> {
        self.0.list_children(path).await
    }

    pub async fn stat(&self, path: &str) -> Result<Option<Stat>, ClientError> {
        self.0.check_stat(path).await
    }

    pub async fn data(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        self.0.get_data(path).await.map(|(data, _)| data)
    }
}

impl Session {
    /// Waits until the session's server has caught up, so that a check can read from it.
    pub async fn caught_up(&self) -> Result<CaughtUp<'_>, Failure> {
        let caught_up = runtime::timeout(CATCHES_UP, CaughtUp::with(&self.0.client)).await;
        Ok(caught_up.ok_or(Failure::NoReply)??)
    }
}
