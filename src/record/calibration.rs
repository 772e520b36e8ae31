//! What `calibrate` yields: the raw requests of an ensemble, server by server, and the floor that follows from them.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Behaviour, EnsembleInfo, Floor, HostInfo, Timing};
use crate::words::units::as_utc;

/// A kind of request that is measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawRequest {
    /// Create of an ephemeral sequential node.
    Create,
    /// Delete of such a node.
    Delete,
    /// exists of a node that is there: a round trip to one server.
    Exists,
    /// getData of 16 bytes.
    GetData,
    /// setData of 16 bytes.
    SetData,
    /// A multi of two setData.
    Multi,
    /// sync.
    Sync,
    /// getChildren of 1 name.
    #[serde(rename = "get_children_1")]
    GetChildren1,
    /// getChildren of 100 names.
    #[serde(rename = "get_children_100")]
    GetChildren100,
    /// getChildren of 1,000 names.
    #[serde(rename = "get_children_1000")]
    GetChildren1000,
}

impl RawRequest {
    /// Every kind, in the order in which they are measured and listed. A delete comes after the create that it undoes.
    pub const ALL: [Self; 10] = [
        Self::Create,
        Self::Delete,
        Self::Exists,
        Self::GetData,
        Self::SetData,
        Self::Multi,
        Self::Sync,
        Self::GetChildren1,
        Self::GetChildren100,
        Self::GetChildren1000,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Exists => "exists",
            Self::GetData => "getData",
            Self::SetData => "setData",
            Self::Multi => "multi (2 setData)",
            Self::Sync => "sync",
            Self::GetChildren1 => "getChildren (1 name)",
            Self::GetChildren100 => "getChildren (100 names)",
            Self::GetChildren1000 => "getChildren (1,000 names)",
        }
    }
}

/// How many requests were answered while as many as possible were under way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Replies a second.
    pub per_s: f64,
    /// Replies.
    pub count: u64,
    /// For how long, in microseconds.
    pub lasted_us: u64,
    /// Processor time of the generator's thread per time, at most 1. Near 1 the generator was the limit, and the ensemble
    /// may be able to do more; `None` where the system does not tell.
    pub generator_share: Option<f64>,
}

/// One kind of request on one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestFigures {
    /// Which.
    pub request: RawRequest,
    /// From the call to the arrival of the reply, with no other request under way; `None` when there was no time for one.
    pub alone: Option<Timing>,
    /// With many under way.
    pub saturated: Option<Saturation>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFigures {
    /// `host:port` for clients.
    pub address: String,
    /// `leader`, `follower`, `standalone`, or why it could not be asked.
    pub role: String,
    /// Each kind of request.
    pub requests: Vec<RequestFigures>,
    /// From one session's call of setData to the arrival of the event at another session of this server that watches the
    /// node.
    pub watch: Option<Timing>,
    /// Opening a session: from the call until the server has granted it, connection included.
    pub session_open: Option<Timing>,
    /// Closing it: from the call to the server's answer.
    pub session_close: Option<Timing>,
    /// The word `ruok` over a connection of its own: no session, no ensemble, and a connection to be opened. `None` when
    /// the server does not answer that word.
    pub ruok: Option<Timing>,
}

impl ServerFigures {
    pub fn of(&self, request: RawRequest) -> Option<&RequestFigures> {
        self.requests.iter().find(|figures| figures.request == request)
    }

    /// Whether writes are put in order here: the leader, or a server that stands alone.
    pub fn leads(&self) -> bool {
        self.role == "leader" || self.role == "standalone"
    }
}

/// Handoffs from a session on one server to a session on one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairFigures {
    /// The server of the session that deletes.
    pub from: String,
    /// The server of the session that watches; it may be the same.
    pub to: String,
    /// From the call of delete to the arrival of the event: the floor.
    pub handoff: Option<Timing>,
    /// From the call of delete to the arrival of its reply. It can come after the event.
    pub reply: Option<Timing>,
    /// From the call of delete to the reply to a read by which the watcher makes sure that the node is gone.
    pub confirmed: Option<Timing>,
}

/// All that one calibration yields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Version of the tool.
    pub tool_version: String,
    /// Commit that it was built from, `-dirty` where the tree had changes; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// When it began; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// When it ended; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// How long was meant to be measured, in microseconds.
    pub budget_us: u64,
    /// How long nothing was done before each handoff and each uncontended acquire, in microseconds; missing where they followed
    /// one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_us: Option<u64>,
    /// Sessions on each server that were used for saturation.
    pub saturating_sessions: usize,
    /// Requests that each of those had under way.
    pub in_flight: usize,
    /// The generator's host.
    pub host: HostInfo,
    /// The ensemble.
    pub ensemble: EnsembleInfo,
    /// The floor.
    pub floor: Floor,
    /// Writes a second that the ensemble takes, each of them synced by a quorum: create or setData at saturation through
    /// the leader, whichever is more. `None` when no leader is known.
    pub synced_writes_per_s: Option<f64>,
    /// Each server.
    pub servers: Vec<ServerFigures>,
    /// Handoffs, by where the two sessions were.
    pub pairs: Vec<PairFigures>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
    /// What ZooKeeper itself does where articles make claims about it; `None` unless that was asked for.
    #[serde(default)]
    pub behaviour: Option<Behaviour>,
}

/// Writes a second through the leader, if there is one among these.
pub fn synced_writes_per_s(servers: &[ServerFigures]) -> Option<f64> {
    let leader = servers.iter().find(|server| server.leads())?;
    let rates = [RawRequest::Create, RawRequest::SetData]
        .into_iter()
        .filter_map(|request| Some(leader.of(request)?.saturated?.per_s));
    rates.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(role: &str, per_s: [f64; 2]) -> ServerFigures {
        let rate = |per_s| Saturation { per_s, count: 1, lasted_us: 1, generator_share: None };
        let figures =
            |(request, per_s)| RequestFigures { request, alone: None, saturated: Some(rate(per_s)) };
        ServerFigures {
            address: "zk:1".into(),
            role: role.into(),
            requests: [RawRequest::Create, RawRequest::SetData].into_iter().zip(per_s).map(figures).collect(),
            watch: None,
            session_open: None,
            session_close: None,
            ruok: None,
        }
    }

    #[test]
    fn synced_writes_are_those_through_the_leader_and_unknown_without_one() {
        let all = [server("follower", [9_000.0, 9_500.0]), server("leader", [1_000.0, 1_500.0])];
        assert_eq!(synced_writes_per_s(&all), Some(1_500.0));
        assert_eq!(synced_writes_per_s(&all[..1]), None);
        assert_eq!(synced_writes_per_s(&[server("standalone", [7.0, 5.0])]), Some(7.0));
    }
}
