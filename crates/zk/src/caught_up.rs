//! Up-to-date reads for checks of the tree. A server may answer with outdated data, so it first has to catch up.
//!
//! A `sync` is not enough: the leader answers its own clients' syncs at once, even before it has applied a transaction that its
//! followers were just ordered to commit. A refused write is a transaction like any other, so its answer follows everything
//! committed before, on any server.

use std::time::Duration;

use zookeeper_client::{Client, Error as ClientError, Stat};

use super::{Created, Failure, Names, NodeKind, NodeStat, Session, runtime};

/// Maximum time that an onlooker waits for its server to catch up.
const CATCHES_UP: Duration = Duration::from_secs(10);

/// Waits until the client's server has applied everything committed before.
async fn catch_up(client: &Client) -> Result<(), ClientError> {
    // No node has that version.
    match client.set_data("/", &[], Some(i32::MAX)).await {
        Ok(_) | Err(ClientError::BadVersion | ClientError::NoAuth | ClientError::NoNode) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The tree at the time when the server caught up, or later. The only way in the suite to read nodes for a check.
#[derive(Debug, Clone, Copy)]
pub struct CaughtUp<'a>(&'a Client);

impl<'a> CaughtUp<'a> {
    /// Waits until the client's server has applied everything committed before.
    pub async fn with(client: &'a Client) -> Result<Self, ClientError> {
        catch_up(client).await?;
        Ok(Self(client))
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

/// A session that reads the state of the tree and counts nothing.
#[derive(Clone)]
pub struct Onlooker(Session);

impl Onlooker {
    pub fn by(session: Session) -> Self {
        Self(session)
    }

    pub async fn create(&self, path: &str) -> Result<Created, Failure> {
        self.0.create(path, &[], NodeKind::Persistent).await
    }

    /// Waits until the session's server has applied everything committed before.
    pub async fn caught_up(&self) -> Result<Seen<'_>, Failure> {
        let caught_up = runtime::timeout(CATCHES_UP, catch_up(&self.0.0.client)).await;
        caught_up.ok_or(Failure::NoReply)??;
        Ok(Seen(&self.0))
    }
}

/// The tree as seen by an onlooker.
#[derive(Clone, Copy)]
pub struct Seen<'a>(&'a Session);

impl Seen<'_> {
    pub async fn children(&self, path: &str) -> Result<Names, Failure> {
        self.0.get_children(path).await
    }

    pub async fn stat(&self, path: &str) -> Result<Option<NodeStat>, Failure> {
        self.0.exists(path).await
    }
}
