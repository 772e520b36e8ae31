//! What `calibrate` yields: the raw requests of an ensemble, server by server, and the floor that follows from them; and
//! what ZooKeeper itself does where articles on locks make claims about it. All of it without a lock.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EnsembleInfo, Floor, HostInfo, Timing};
use zklockbench_core::units::as_utc;

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

/// What was found. A part that failed is `None`, and `missing` says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Behaviour {
    /// How much data a node holds.
    pub node_size: Option<NodeSize>,
    /// Which number a sequential node gets.
    pub numbers: Option<Numbers>,
    /// Each kind of watch against each kind of change.
    pub watches: Option<Vec<WatchCell>>,
    /// How often one watch fires.
    pub one_shot: Option<OneShot>,
    /// Changes that race with a list that sets a watch.
    pub raced: Option<Raced>,
    /// The same with a list and, after it, a second request that sets the watch.
    #[serde(default)]
    pub raced_apart: Option<Raced>,
    /// The transactions of what several servers' sessions change at the same time.
    pub order: Option<UpdateOrder>,
    /// Whether a lock that is one node outlives its holder's session.
    pub left: Option<Left>,
    /// A bystander's requests while others are woken.
    pub bystander: Option<Vec<Bystander>>,
    /// What could not be tried, and why.
    pub missing: Vec<String>,
}

/// How much data a node holds, with the servers' default limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSize {
    /// The most bytes that were accepted at creation.
    pub accepted_bytes: u64,
    /// The fewest that were refused, which is one more.
    pub refused_bytes: u64,
}

/// Three sequential nodes below one parent: the first two are created, one of them is deleted, then comes the third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    /// The number of the second.
    pub second: i64,
    /// Children when the third was created.
    pub children_then: u64,
    /// The number of the third.
    pub third: i64,
}

/// A kind of watch, by the request that sets it.
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

/// A change, seen from the watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A child is created.
    ChildCreated,
    /// Its data are set.
    DataSet,
    /// A child is deleted.
    ChildDeleted,
    /// It is deleted itself.
    Deleted,
}

/// Whether a watch fires at a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchCell {
    /// The watch.
    pub watch: WatchedBy,
    /// The change.
    pub change: Change,
    /// The event that came; `None` where none did.
    pub event: Option<String>,
}

/// Several changes under one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneShot {
    /// Changes of the watched node's data.
    pub changes: u64,
    /// Events that came.
    pub events: u64,
}

/// Rounds in which one session lists with a watch while another creates a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raced {
    /// Rounds.
    pub rounds: u64,
    /// Rounds in which the list showed the child.
    pub listed: u64,
    /// Rounds in which it did not, and the watch fired.
    pub notified: u64,
    /// Rounds with neither.
    pub lost: u64,
}

/// Creates, writes and deletes in several directories, by sessions of all servers at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UpdateOrder {
    /// Sessions.
    pub sessions: u64,
    /// Directories.
    pub directories: u64,
    /// Changes.
    pub changes: u64,
    /// Changes whose transaction is no later than the one before in the same session, or that share one.
    pub out_of_order: u64,
    /// Servers whose transaction logs were read.
    pub logs: u64,
    /// Changes that a server's log does not have under the transaction that the client was told, or in another order than
    /// the other logs.
    pub logged_otherwise: u64,
}

/// A lock that is one node: whether the next one gets it when its holder's session has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Left {
    /// Whether the next one got it where it is an ephemeral node.
    pub ephemeral_taken: bool,
    /// The same of a persistent node.
    pub persistent_taken: bool,
    /// For how long the next one tried, in microseconds.
    pub looked_us: u64,
}

/// A bystander's reads and writes on one server while so many sessions there are woken at once, again and again: those that
/// it asked for while they were being woken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bystander {
    /// Which of the rounds it was; in each, one is woken and then all are, or the other way round.
    #[serde(default)]
    pub round: u64,
    /// Sessions that wait on its server.
    pub waiting: u64,
    /// How many of them each change wakes.
    pub woken: u64,
    /// Changes.
    pub changes: u64,
    /// Its getData.
    pub read: Option<Timing>,
    /// Its setData.
    pub write: Option<Timing>,
    /// How long its server took for an update, by its own clock: the mean, in microseconds. `None` where it does not say.
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
    fn synced_writes_are_those_through_the_leader_and_unknown_without_one() {
        let all = [server("follower", [9_000.0, 9_500.0]), server("leader", [1_000.0, 1_500.0])];
        assert_eq!(synced_writes_per_s(&all), Some(1_500.0));
        assert_eq!(synced_writes_per_s(&all[..1]), None);
        assert_eq!(synced_writes_per_s(&[server("standalone", [7.0, 5.0])]), Some(7.0));
    }
}
