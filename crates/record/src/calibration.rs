//! Results of `calibrate`, measured without a lock: the latency of raw requests on each server, and the
//! floor.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EnsembleInfo, Floor, HostInfo, Timing};
use zklockbench_core::units::as_utc;
use zklockbench_core::worded;

worded! {
    /// A kind of request that is measured separately.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum RawRequest by name {
        /// Create of an ephemeral sequential node.
        Create = "create",
        /// Delete of an ephemeral sequential node.
        Delete = "delete",
        /// `exists` on an existing node: a round trip to one server.
        Exists = "exists",
        /// `getData` of 16 bytes.
        GetData = "getData",
        /// `setData` of 16 bytes.
        SetData = "setData",
        /// A `multi` of two `setData` operations.
        Multi = "multi (2 setData)",
        Sync = "sync",
        /// `getChildren` of 1 name.
        #[serde(rename = "get_children_1")]
        GetChildren1 = "getChildren (1 name)",
        /// `getChildren` of 100 names.
        #[serde(rename = "get_children_100")]
        GetChildren100 = "getChildren (100 names)",
        /// `getChildren` of 1,000 names.
        #[serde(rename = "get_children_1000")]
        GetChildren1000 = "getChildren (1,000 names)",
    }
}

/// Throughput with as many requests in flight as possible.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Replies per second.
    pub per_s: f64,
    /// Number of replies.
    pub count: u64,
    /// Measuring time in microseconds.
    pub lasted_us: u64,
    /// Processor time of the generator's thread as a share of the elapsed time. If it is near 1, the generator
    /// was the bottleneck, and the ensemble may support a higher rate. `None` if the system does not report it.
    pub generator_share: Option<f64>,
}

/// Measurements of one kind of request on one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestFigures {
    /// Kind of request.
    pub request: RawRequest,
    /// Time from the call to the arrival of the reply, with no other request in flight; `None` if time ran
    /// out.
    pub alone: Option<Timing>,
    /// Throughput with many requests in flight.
    pub saturated: Option<Saturation>,
}

/// Measurements on one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFigures {
    /// `host:port` for clients.
    pub address: String,
    /// `leader`, `follower`, `standalone`, or the reason why the server did not answer.
    pub role: String,
    /// Measurements of each kind of request.
    pub requests: Vec<RequestFigures>,
    /// Time from a session's `setData` call until the event arrives at a second session on the same server,
    /// which watches the node.
    pub watch: Option<Timing>,
    /// Time from the call to open a session until the server has granted it, including the connection.
    pub session_open: Option<Timing>,
    /// Time from the call to close a session until the server's reply.
    pub session_close: Option<Timing>,
    /// Time of a `ruok` command, including opening its connection; needs neither a session nor a quorum.
    /// `None` if the server does not answer the command.
    pub ruok: Option<Timing>,
}

impl ServerFigures {
    pub fn of(&self, request: RawRequest) -> Option<&RequestFigures> {
        self.requests.iter().find(|figures| figures.request == request)
    }

    /// Whether the server orders writes: a leader or a standalone server.
    pub fn leads(&self) -> bool {
        self.role == "leader" || self.role == "standalone"
    }
}

/// Handoffs from a session on one server to a session on the same server or another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairFigures {
    /// Server of the session that deletes.
    pub from: String,
    /// Server of the session that watches; may be the same server.
    pub to: String,
    /// Time from the delete call to the arrival of the event: the floor.
    pub handoff: Option<Timing>,
    /// Time from the delete call to the arrival of its reply, which may follow the event.
    pub reply: Option<Timing>,
    /// Time from the delete call until a read by the watcher has confirmed that the node is gone.
    pub confirmed: Option<Timing>,
}

/// Result of one calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Version of zklockbench.
    pub tool_version: String,
    /// Commit of the build, with `-dirty` if the tree had changes; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// Wall time of the start, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Wall time of the end, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// Planned measuring time in microseconds.
    pub budget_us: u64,
    /// Pause before each handoff and each uncontended acquire, in microseconds; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_us: Option<u64>,
    /// Sessions per server that were used for saturation.
    pub saturating_sessions: usize,
    /// Requests in flight per session during saturation.
    pub in_flight: usize,
    /// Host of the generator.
    pub host: HostInfo,
    /// Ensemble that was measured.
    pub ensemble: EnsembleInfo,
    /// Floor of the ensemble.
    pub floor: Floor,
    /// Synced writes per second: the higher of the saturated `create` and `setData` rates through the leader.
    /// A quorum syncs each write. `None` if no leader is known.
    pub synced_writes_per_s: Option<f64>,
    /// Measurements of each server.
    pub servers: Vec<ServerFigures>,
    /// Handoffs for each pair of servers.
    pub pairs: Vec<PairFigures>,
    /// Measurements that failed, with the reason.
    pub missing: Vec<String>,
}

/// Writes per second through the leader; `None` if there is no leader.
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
    fn synced_writes_come_from_the_leader_and_are_unknown_without_a_leader() {
        let all = [server("follower", [9_000.0, 9_500.0]), server("leader", [1_000.0, 1_500.0])];
        assert_eq!(synced_writes_per_s(&all), Some(1_500.0));
        assert_eq!(synced_writes_per_s(&all[..1]), None);
        assert_eq!(synced_writes_per_s(&[server("standalone", [7.0, 5.0])]), Some(7.0));
    }
}
