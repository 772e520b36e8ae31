//! Up-to-date reads for checks of the tree. A server may answer with outdated data, so it first has to catch up.
//!
//! A `sync` is not enough: the leader answers its own clients' syncs at once, even before it has applied a transaction that its
//! followers were just ordered to commit. A refused write is a transaction like any other, so its answer follows everything
//! committed before, on any server.

use std::time::Duration;

use zookeeper_client::{Client, Error as ClientError, Stat};

use super::{Failure, Session, runtime};

/// Maximum time that a session waits for its server to catch up.
const CATCHES_UP: Duration = Duration::from_secs(10);

/// The tree at the time when the server caught up, or later. The only way in the suite to read nodes for a check.
#[derive(Debug, Clone, Copy)]
pub struct CaughtUp<'a>(&'a Client);

impl<'a> CaughtUp<'a> {
    /// Waits until the client's server has applied everything committed before.
    pub async fn with(client: &'a Client) -> Result<Self, ClientError> {
        // No node has that version.
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
    /// The tree for a check by the suite, as of now or later.
    pub async fn caught_up(&self) -> Result<CaughtUp<'_>, Failure> {
        let caught_up = runtime::timeout(CATCHES_UP, CaughtUp::with(&self.0.client)).await;
        Ok(caught_up.ok_or(Failure::NoReply)??)
    }
}
