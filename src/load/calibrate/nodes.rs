//! The nodes that requests are about.

use futures_util::future::try_join_all;

use super::sessions::ServerSessions;
use crate::record::RawRequest;
use crate::world::zk::NodeKind;

pub(super) const DATA: &[u8] = &[b'x'; 16];
/// Names in the lists that are read.
const LISTED: [usize; 3] = [1, 100, 1_000];

/// Three nodes with 1, 100 and 1,000 children, which belong to one of the sessions and go with it.
pub(super) struct Lists {
    place: String,
}

impl Lists {
    pub(super) async fn prepare(sessions: &ServerSessions, place: &str) -> Result<Self, String> {
        let lists = Self { place: place.to_owned() };
        let session = sessions.session(0, 0);
        for names in LISTED {
            let parent = lists.path(names);
            let made = async {
                session.create(&parent, &[], NodeKind::Persistent).await?;
                // As long as those of queue nodes.
                let prefix = format!("{parent}/n-");
                let create = |_| session.create(&prefix, &[], NodeKind::EphemeralSequential);
                try_join_all((0..names).map(create)).await
            };
            sessions.at(0, "create", made.await)?;
        }
        // A reader on another server then sees all of them.
        for server in 0..sessions.servers.len() {
            sessions.at(server, "sync", sessions.session(server, 0).sync(place).await)?;
        }
        Ok(lists)
    }

    fn path(&self, names: usize) -> String {
        format!("{}/list-{names}", self.place)
    }

    /// Which of them that request reads; `None` for those that read no list.
    pub(super) fn of(&self, request: RawRequest) -> Option<String> {
        match request {
            RawRequest::GetChildren1 => Some(self.path(1)),
            RawRequest::GetChildren100 => Some(self.path(100)),
            RawRequest::GetChildren1000 => Some(self.path(1_000)),
            _ => None,
        }
    }
}

pub(super) struct Nodes {
    pub(super) parent: String,
    pub(super) data: String,
    pub(super) other: String,
}

impl Nodes {
    pub(super) fn of(place: &str, server: usize) -> Self {
        let path = |name| format!("{place}/{name}-{server}");
        Self { parent: path("parent"), data: path("data"), other: path("other") }
    }
}

pub(super) async fn prepare(sessions: &ServerSessions, place: &str, server: usize) -> Result<(), String> {
    let nodes = Nodes::of(place, server);
    for path in [&nodes.parent, &nodes.data, &nodes.other] {
        let made = sessions.session(server, 0).create(path, DATA, NodeKind::Persistent).await;
        sessions.at(server, "create", made)?;
    }
    // A session on the same server has seen them, too, because it is there that the first one was answered.
    Ok(())
}
