//! What everything that is tried on the raw ensemble needs: sessions, a place, and when an event does not come.

use std::time::Duration;

use super::sessions::{self, CalibrationSite, ServerSessions};
use crate::world::zk::{EventKind, Failure, NodeKind, Session, Watch, reactor};

pub(super) const EVENT_WITHIN: Duration = Duration::from_millis(500);
pub(super) const CLOSE_WITHIN: Duration = Duration::from_secs(5);
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct On<'a> {
    pub(super) sessions: &'a ServerSessions,
    pub(super) site: &'a CalibrationSite,
}

impl On<'_> {
    pub(super) fn first(&self) -> &Session {
        self.sessions.session(0, 0)
    }

    pub(super) fn second(&self) -> &Session {
        self.sessions.session(0, 1)
    }

    pub(super) async fn directory(&self, name: &str) -> Result<String, Failure> {
        let path = format!("{}/{name}", self.site.place);
        self.first().create(&path, &[], NodeKind::Persistent).await?;
        Ok(path)
    }

    pub(super) async fn fresh_session(&self) -> Result<Session, Failure> {
        sessions::open(&self.site.single(&self.sessions.servers[0].address), OPEN_WITHIN).await
    }
}

pub(super) async fn event(watch: &mut Watch) -> Option<EventKind> {
    reactor::timeout(EVENT_WITHIN, watch.changed()).await
}
