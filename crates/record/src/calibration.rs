//! Results of `calibrate`, measured without a lock: the latency of raw requests on each server, the floor
//! that follows from them, and ZooKeeper's behaviour where articles on locks make claims about it.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EnsembleInfo, Floor, HostInfo, Timing};
use zklockbench_core::units::as_utc;

/// A kind of request that is measured on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawRequest {
    /// Create of an ephemeral sequential node.
    Create,
    /// Delete of such a node.
    Delete,
    /// exists of an existing node: a round trip to one server.
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
    /// Every kind, in the order of measuring and listing. A delete follows the create that it undoes.
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

/// Throughput with as many requests in flight as possible.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Replies per second.
    pub per_s: f64,
    /// Number of replies.
    pub count: u64,
    /// Measuring time in microseconds.
    pub lasted_us: u64,
    /// Processor time of the generator's thread per elapsed time, at most 1. Near 1, the generator was the
    /// limit, and the ensemble may be capable of more. `None` if the system does not report it.
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
    /// Time from a session's call of setData to the arrival of the event at another session of this server
    /// that watches the node.
    pub watch: Option<Timing>,
    /// Time to open a session: from the call until the server has granted it, including the connection.
    pub session_open: Option<Timing>,
    /// Time to close a session: from the call to the server's answer.
    pub session_close: Option<Timing>,
    /// Time of the command `ruok` over a separate connection, including opening it; needs neither a session
    /// nor a quorum. `None` if the server does not answer the command.
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

/// Handoffs from a session on one server to a session on the same or another server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairFigures {
    /// Server of the session that deletes.
    pub from: String,
    /// Server of the session that watches; may be the same.
    pub to: String,
    /// Time from the call of delete to the arrival of the event: the floor.
    pub handoff: Option<Timing>,
    /// Time from the call of delete to the arrival of its reply, which may follow the event.
    pub reply: Option<Timing>,
    /// Time from the call of delete to the reply to the read with which the watcher confirms that the node is
    /// gone.
    pub confirmed: Option<Timing>,
}

/// Complete result of one calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Version of zklockbench.
    pub tool_version: String,
    /// Commit of the build, with `-dirty` if the tree had changes; `None` outside a checkout.
    pub tool_commit: Option<String>,
    /// Wall time of the start; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub started_at: SystemTime,
    /// Wall time of the end; a label.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub ended_at: SystemTime,
    /// Planned measuring time in microseconds.
    pub budget_us: u64,
    /// Pause before each handoff and each uncontended acquire, in microseconds; missing if they followed each
    /// other immediately.
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
    /// Synced writes per second: the higher rate of create and setData at saturation through the leader, each
    /// synced by a quorum. `None` if no leader is known.
    pub synced_writes_per_s: Option<f64>,
    /// Measurements of each server.
    pub servers: Vec<ServerFigures>,
    /// Handoffs by the servers of the two sessions.
    pub pairs: Vec<PairFigures>,
    /// Measurements that failed, with the reason.
    pub missing: Vec<String>,
    /// ZooKeeper's behaviour where articles make claims about it; `None` unless requested.
    #[serde(default)]
    pub behaviour: Option<Behaviour>,
}

/// Writes per second through the leader; `None` if no server leads.
pub fn synced_writes_per_s(servers: &[ServerFigures]) -> Option<f64> {
    let leader = servers.iter().find(|server| server.leads())?;
    let rates = [RawRequest::Create, RawRequest::SetData]
        .into_iter()
        .filter_map(|request| Some(leader.of(request)?.saturated?.per_s));
    rates.reduce(f64::max)
}

/// Results of the behaviour checks. A check that failed is `None`, and `missing` gives the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behaviour {
    /// Maximum data size of a node.
    pub node_size: Option<NodeSize>,
    /// Numbering of sequential nodes.
    pub numbers: Option<Numbers>,
    /// Each kind of watch against each kind of change.
    pub watches: Option<Vec<WatchCell>>,
    /// Number of times that one watch fires.
    pub one_shot: Option<OneShot>,
    /// Changes that race with a list that sets a watch.
    pub raced: Option<Raced>,
    /// Changes that race with a list and a second request that sets the watch.
    #[serde(default)]
    pub raced_apart: Option<Raced>,
    /// Transaction order of simultaneous changes by sessions on several servers.
    pub order: Option<UpdateOrder>,
    /// Whether a single-node lock outlives its holder's session.
    pub left: Option<Left>,
    /// Requests of a bystander while other sessions are woken.
    pub bystander: Option<Vec<Bystander>>,
    /// Checks that could not run, with the reason.
    pub missing: Vec<String>,
}

/// Maximum data size of a node with the servers' default limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSize {
    /// Largest size accepted at creation, in bytes.
    pub accepted_bytes: u64,
    /// Smallest refused size in bytes, one more than `accepted_bytes`.
    pub refused_bytes: u64,
}

/// Numbers of three sequential nodes with the same parent: two are created, one of them is deleted, then the
/// third is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    /// Number of the second node.
    pub second: i64,
    /// Number of children when the third was created.
    pub children_then: u64,
    /// Number of the third node.
    pub third: i64,
}

/// A kind of watch, named after the request that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WatchedBy {
    /// getData.
    GetData,
    /// exists.
    Exists,
    /// getChildren.
    GetChildren,
}

/// A change, relative to the watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A child is created.
    ChildCreated,
    /// The node's data are set.
    DataSet,
    /// A child is deleted.
    ChildDeleted,
    /// The node itself is deleted.
    Deleted,
}

/// Whether a watch fires at a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchCell {
    /// Kind of watch.
    pub watch: WatchedBy,
    /// Kind of change.
    pub change: Change,
    /// Event that arrived; `None` without one.
    pub event: Option<String>,
}

/// Several changes under one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneShot {
    /// Changes of the watched node's data.
    pub changes: u64,
    /// Events that arrived.
    pub events: u64,
}

/// Rounds in which one session lists with a watch while another creates a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raced {
    /// Number of rounds.
    pub rounds: u64,
    /// Rounds in which the list contained the child.
    pub listed: u64,
    /// Rounds in which the list lacked the child and the watch fired.
    pub notified: u64,
    /// Rounds in which neither happened.
    pub lost: u64,
}

/// Creates, writes and deletes in several directories, made simultaneously by sessions on all servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UpdateOrder {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of changes.
    pub changes: u64,
    /// Changes whose transaction is not later than the previous one of the same session, or that share a
    /// transaction.
    pub out_of_order: u64,
    /// Servers whose transaction logs were read.
    pub logs: u64,
    /// Changes that a server's log lacks under the transaction reported to the client, or has in a different
    /// order from the other logs.
    pub logged_otherwise: u64,
}

/// A single-node lock: whether the next contender gets it after the holder's session has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Left {
    /// Whether the next contender got the lock with an ephemeral node.
    pub ephemeral_taken: bool,
    /// Whether the next contender got the lock with a persistent node.
    pub persistent_taken: bool,
    /// Time for which the next contender tried, in microseconds.
    pub looked_us: u64,
}

/// A bystander's reads and writes on one server while waiting sessions there are woken repeatedly. Only
/// requests sent during the wake-ups count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bystander {
    /// Number of the round. Each round wakes one session and then all of them, or the other way round.
    #[serde(default)]
    pub round: u64,
    /// Sessions that wait on the bystander's server.
    pub waiting: u64,
    /// Sessions woken by each change.
    pub woken: u64,
    /// Number of changes.
    pub changes: u64,
    /// The bystander's getData.
    pub read: Option<Timing>,
    /// The bystander's setData.
    pub write: Option<Timing>,
    /// Mean update latency reported by the server, in microseconds; `None` if the server does not report it.
    #[serde(default)]
    pub server_update_us: Option<f64>,
    /// Whether the servers had processors that this program did not use.
    #[serde(default)]
    pub processors_apart: bool,
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
    fn synced_writes_are_taken_from_the_leader_or_unknown() {
        let all = [server("follower", [9_000.0, 9_500.0]), server("leader", [1_000.0, 1_500.0])];
        assert_eq!(synced_writes_per_s(&all), Some(1_500.0));
        assert_eq!(synced_writes_per_s(&all[..1]), None);
        assert_eq!(synced_writes_per_s(&[server("standalone", [7.0, 5.0])]), Some(7.0));
    }
}
